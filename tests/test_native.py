"""The native checks under AddressSanitizer and UBSan: build them, give them networks, let them mutate the bytes."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layers import conv, many_channels, network, quantiser, rescale, scores_of
from random_networks import random_network

import intrs
from intrs import _core
from intrs.network import Network, Requantise
from intrs.noise import Noise
from intrs.noise.table import table_of
from intrs.votes import SELECTION, content_index

ROOT = Path(__file__).parent.parent
NETWORKS, MUTATIONS = 40, 300
WIDE = 8  # of them have many channels


pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake and a C++ compiler")


def build(folder: Path, *options: str) -> None:
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DINTRS_TESTS=ON", *options], check=True, capture_output=True)
    done = subprocess.run(["cmake", "--build", folder, "--parallel", "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def padding_before_anything_else() -> Network:
    """Rows of the last Conv but one that see padding only: the border above them goes before the first row is made."""
    start, weights = quantiser(1, 8, 3), np.ones((3, 1, 7, 1))
    first = Requantise((0,), 0, rescale(30), 0)
    padded = conv(1, weights, groups=3, dilation=(2, 2), pad=(2, 2, 6, 6), rescale=rescale(42))
    return Network(start, (first, padded, scores_of(2, (5, 8, 3))))


def least_products() -> Network:
    """Codes and weights of -128 throughout: no two of their products fit 16 bits together."""
    layers = (
        conv(0, np.full((4, 1, 1, 8), -128), rescale=rescale(44), output_zero_point=127),
        conv(0, np.full((8, 2, 2, 8), -128), pad=(0, 1, 0, 1), rescale=rescale(44), output_zero_point=127),
        conv(2, np.full((8, 3, 3, 1), -128), groups=8, pad=(1, 1, 1, 1), rescale=rescale(44), output_zero_point=127),
        scores_of(3, (6, 5, 8)),
    )
    return Network(quantiser(6, 5, 8), layers)


def write_networks(folder: Path, count: int) -> list[Path]:
    files = []
    for seed in range(count):
        files.append(folder / f"{seed}.bin")
        made = many_channels(seed) if seed < WIDE else random_network(np.random.default_rng(seed))
        files[-1].write_bytes(made.to_bytes())
    return files


def library_files(folder: Path) -> list[Path]:
    """A small network, its noise, a rule that fits them, and rules that do not."""
    files = [folder / name for name in ("network", "noise", "radii", "looks", "other-sigma", "other-dimension")]
    files[0].write_bytes(network().to_bytes())
    files[1].write_bytes(table_of(Noise.of("discrete", "0.12")).to_bytes())
    files[2].write_bytes(intrs.table(sigma="0.12", dimension=48, n=50).to_bytes())
    files[3].write_bytes(intrs.adaptive_table(sigma="0.12", dimension=48, n=400, radii=["0.1"]).to_bytes())
    files[4].write_bytes(intrs.table(sigma="0.25", dimension=48, n=50).to_bytes())
    files[5].write_bytes(intrs.adaptive_table(sigma="0.12", dimension=49, n=400, radii=["0.1"]).to_bytes())
    return files


def check_library(checks: Path, folder: Path) -> None:
    """The C interface refuses wrong arguments, and damaged bytes do no harm."""
    base, noise, radii, looks, *others = library_files(folder)
    for rule in (radii, looks):
        done = subprocess.run([checks, str(MUTATIONS), base, noise, rule, *others], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"of {3 * MUTATIONS} mutations" in done.stdout


def test_core_under_sanitizers(tmp_path: Path) -> None:
    files = [*write_networks(tmp_path, NETWORKS - 1), tmp_path / "padding.bin"]
    files[-1].write_bytes(padding_before_anything_else().to_bytes())
    build(tmp_path / "build", "-DINTRS_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")
    checks = tmp_path / "build" / "tests" / "native" / "core_checks"
    done = subprocess.run([checks, str(MUTATIONS), *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{NETWORKS} networks run alike" in done.stdout
    check_library(checks.with_name("library_checks"), tmp_path)
    for name, runs in (("training_checks", _core.has_fma()), ("training_checks_avx512", _core.has_avx512())):
        if runs:
            check_training([checks.with_name(name)], 60)


def check_training(program: list[Path | str], rounds: int) -> None:
    """The float layers of training give what plain loops give."""
    done = subprocess.run([*program, str(rounds)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{rounds} rounds" in done.stdout


def certificates(program: list[Path | str], folder: Path) -> None:
    """A program of examples/c counts the votes and finds the certificates that Python does."""
    base, sigma, seed = intrs.load("resnet8-sigma0.25"), "0.25", 0xABC123
    (folder / "network").write_bytes(base.to_bytes())
    (folder / "noise").write_bytes(table_of(Noise.of("discrete", sigma)).to_bytes())
    (folder / "radii").write_bytes(intrs.table(sigma=sigma, dimension=3072, n=120).to_bytes())
    (folder / "looks").write_bytes(intrs.adaptive_table(sigma=sigma, dimension=3072, n=320, radii=["0.25"]).to_bytes())
    smooth, images = intrs.Smooth(base, sigma=sigma, seed=seed), intrs.open_data("cifar10-500").images
    for image, index, rule in ((0, 7, "radii"), (0, None, "looks"), (5, None, "radii")):
        pixels = np.ascontiguousarray(images[image])
        (folder / "image").write_bytes(pixels.tobytes())
        files = [folder / name for name in ("network", "noise", rule, "image")]
        command = [*program, *files, f"{seed:x}", "-" if index is None else str(index)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        asked = {"n": 120} if rule == "radii" else {"n": 320, "radii": ["0.25"]}
        kernels = done.stdout.splitlines()[1]
        assert kernels.startswith("kernels ")
        said = expected(smooth, pixels, index, asked)
        assert done.stdout == "\n".join((f"network {base.identity}", kernels, *said, ""))


def expected(smooth: intrs.Smooth, pixels: Any, index: int | None, asked: dict[str, Any]) -> tuple[str, str, str]:
    answer = smooth.certify(pixels, index=index, **asked)
    at = content_index(pixels) if index is None else index
    counts = smooth.sample(pixels, smooth.samples(at, SELECTION, 100)).counts
    said = f"class {answer.label} within radius_sq {answer.radius_sq}" if answer.certified else "abstains"
    return " ".join(map(str, ("selection", *counts))), f"votes {answer.votes} of {answer.n}", said


def test_release_build(tmp_path: Path) -> None:
    """The kernels share no code, and an installed libintrs serves a C program that finds it by its CMake package."""
    build(tmp_path / "build", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}")
    kernels_share_no_code(tmp_path / "build")
    subprocess.run(["cmake", "--install", tmp_path / "build"], check=True, capture_output=True)
    source, prefix = ROOT / "examples" / "c", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}"
    subprocess.run(["cmake", "-S", source, "-B", tmp_path / "example", prefix], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path / "example"], check=True, capture_output=True)
    certificates([tmp_path / "example" / "certify"], tmp_path)


def kernels_share_no_code(folder: Path) -> None:
    """A function that the linker could choose for the whole program must not be compiled for newer processors."""
    special = [p for p in folder.rglob("*.o") if p.name.startswith(("amx", "avx", "neon"))]
    assert special
    for file in special:
        symbols = subprocess.run(["nm", "-C", file], check=True, capture_output=True, text=True).stdout
        shared = [
            line for line in symbols.splitlines() if " W " in line and not line.endswith("__clang_call_terminate")
        ]
        assert not shared, f"{file.name}: {shared}"


TOOLS = ("qemu-aarch64", "qemu-x86_64", "aarch64-linux-gnu-g++")


@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason="needs " + ", ".join(TOOLS))
def test_other_processors(tmp_path: Path) -> None:
    """NEON with and without the dot product, x86-64 without AVX: the same bits, and no illegal instruction.

    libintrs on ARM64 gives Python's certificates, and no kernel set takes more instructions than it should.
    """
    script = ROOT / "tests" / "native" / "emulate.sh"
    files = [*write_networks(tmp_path, 12), tmp_path / "least.bin"]
    files[-1].write_bytes(least_products().to_bytes())
    environment = os.environ | {"INTRS_EMULATED": str(tmp_path)}
    done = subprocess.run([script, *files], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for cpu in ("max", "cortex-a72"):
        certificates(["qemu-aarch64", "-cpu", cpu, tmp_path / "arm" / "tests" / "native" / "certify"], tmp_path)
    check_training(["qemu-aarch64", tmp_path / "arm" / "tests" / "native" / "training_checks"], 3)
    check_instructions(tmp_path)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs a compiler for Apple (pip install ziglang)")
@pytest.mark.parametrize("name", ["kernels/select.cpp", "threads.cpp", "library/libintrs.cpp", "training/parallel.cpp"])
def test_apple_compiles(name: str, tmp_path: Path) -> None:
    """The files that ask the system for something, and the C interface, with headers of macOS on ARM64."""
    command = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-macos", "-std=c++17", "-Wall", "-Wextra"]
    files = [str(ROOT / "core" / name), "-o", str(tmp_path / "object.o")]
    done = subprocess.run([*command, "-Werror", "-c", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "object.o").read_bytes()[:4] == bytes.fromhex("cffaedfe")  # Mach-O, 64 bits


# Per sample of ResNet-20, noise and vote included; without these kernels it is 6.6 and 74 million.
MOST_INSTRUCTIONS = {"neon": 5_400_000, "neon-smlal": 7_900_000}


def check_instructions(folder: Path) -> None:
    """Counts are deterministic, so they can be held to a bound."""
    (folder / "network").write_bytes(intrs.load("resnet20-sigma0.25").to_bytes())
    script = ROOT / "tests" / "native" / "instructions.sh"
    files = [folder / name for name in ("network", "noise", "arm")]
    done = subprocess.run([script, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = {kernels: int(count) for kernels, _, count in map(str.split, done.stdout.splitlines())}
    assert counted.keys() == MOST_INSTRUCTIONS.keys()
    assert all(0 < counted[kernels] <= most for kernels, most in MOST_INSTRUCTIONS.items()), counted
