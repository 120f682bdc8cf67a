"""Compile the core to WebAssembly for the npm package in web/: `python tools/make_web.py`, after `pip install ziglang`.

It writes web/intrs-simd.wasm, web/intrs-plain.wasm and web/build.json, which holds the hashes of what they were made of
and of what came out. These files are committed, so that the package works without a compiler; tests/test_web.py fails
if they are older than the sources. The first build for a target takes about a minute: zig builds its C++ library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "web"
RECORD = "build.json"
ZIG = "0.17.0"  # the compiler of the committed files; another one gives other bytes
EXPORTED = (
    "open", "close", "identity", "shape", "classes", "kernels", "classify", "content_index", "open_noise",
    "noise_digest", "open_rule", "rule_digest", "rule_looks", "check_together", "decide", "votes",
)  # fmt: skip
NATIVE = {"module.cpp", "exit.cpp", "threads.cpp"}  # Python, and threads
OTHERS = ("amx", "avx", "neon")  # kernel sets of other machines
SHA256 = ROOT / "device/intrs_sha256.c"  # C99 and C++17 at once
CPU = "generic+bulk_memory+sign_ext+mutable_globals+nontrapping_fptoint"
FLAGS = (
    "-target", "wasm32-wasi", "-mexec-model=reactor", "-std=c++17", "-flto", "-DNDEBUG", "-s", "-O3",
)  # fmt: skip
LINK = (
    "-Wl,-z,stack-size=131072", *(f"-Wl,--export=libintrs_{name}" for name in EXPORTED),
)  # fmt: skip
HOT = ("wasm", "scalar", "noise", "bits", "runner", "votes")  # the rest runs once, and is to be small
BUILDS = {"simd": f"-mcpu={CPU}+simd128", "plain": f"-mcpu={CPU}"}


def core_files(suffix: str) -> list[Path]:
    """The files of the core; the float layers of training are for other places."""
    core = ROOT / "core"
    return [path for path in core.rglob(f"*{suffix}") if core / "training" not in path.parents]


def sources(build: str) -> list[Path]:
    """The files that are compiled."""
    found = [path for path in core_files(".cpp") if path.name not in NATIVE and not path.name.startswith(OTHERS)]
    return sorted([SHA256, *(path for path in found if build == "simd" or path.name != "wasm.cpp")])


def source_hash() -> str:
    """The SHA-256 of all that decides what comes out: sources, headers, options and compiler."""
    total = hashlib.sha256(json.dumps([ZIG, FLAGS, LINK, HOT, BUILDS]).encode())
    headers = [path for path in core_files(".h") if not path.name.startswith((*OTHERS, "x86"))]
    for path in sorted([*sources("simd"), *headers, SHA256.with_suffix(".h")]):
        total.update(f"{path.relative_to(ROOT).as_posix()}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _zig(*arguments: object) -> None:
    command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{arguments[-1]} cannot be made:\n{done.stderr}")


def is_hot(source: Path, build: str) -> bool:
    """Whether a file is to be fast; with SIMD, the scalar kernels only check the others."""
    return source.stem in HOT and (source.stem != "scalar" or build == "plain")


def compile_wasm(build: str) -> bytes:
    """One build of the core."""
    with tempfile.TemporaryDirectory() as folder:
        objects = {source: Path(folder) / f"{source.stem}.o" for source in sources(build)}
        for source, out in objects.items():
            _zig(BUILDS[build], *(() if is_hot(source, build) else ("-Os",)), "-x", "c++", "-c", source, "-o", out)
        _zig(BUILDS[build], *LINK, *objects.values(), "-o", Path(folder) / "out.wasm")
        return (Path(folder) / "out.wasm").read_bytes()


def main() -> None:
    """Compile both builds and write them with their record."""
    parser = argparse.ArgumentParser(description="compile the core to WebAssembly for web/")
    parser.add_argument("--out", type=Path, default=PACKAGE, help="folder to write to (default: web/)")
    out = parser.parse_args().out
    made = subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True, text=True)
    if made.stdout.strip() != ZIG:
        raise SystemExit(f"zig {ZIG} is needed: pip install ziglang=={ZIG}\n{made.stdout}{made.stderr}")
    with ThreadPoolExecutor() as pool:
        files = dict(zip(BUILDS, pool.map(compile_wasm, BUILDS), strict=True))
    out.mkdir(parents=True, exist_ok=True)
    hashes = {}
    for build, data in files.items():
        (out / f"intrs-{build}.wasm").write_bytes(data)
        hashes[build] = hashlib.sha256(data).hexdigest()
        print(f"intrs-{build}.wasm  {len(data):,} bytes")
    (out / RECORD).write_text(json.dumps({"sources": source_hash(), **hashes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
