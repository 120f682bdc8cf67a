"""The native checks under AddressSanitizer and UBSan: build them, give them networks, let them mutate the bytes."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from layers import conv, quantiser, rescale, scores_of
from random_networks import random_network

from intrs.network import Network, Requantise

ROOT = Path(__file__).parent.parent
NETWORKS, MUTATIONS = 40, 300


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
        files[-1].write_bytes(random_network(np.random.default_rng(seed)).to_bytes())
    return files


def test_core_under_sanitizers(tmp_path: Path) -> None:
    files = [*write_networks(tmp_path, NETWORKS - 1), tmp_path / "padding.bin"]
    files[-1].write_bytes(padding_before_anything_else().to_bytes())
    build(tmp_path / "build", "-DINTRS_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")
    checks = tmp_path / "build" / "tests" / "native" / "core_checks"
    done = subprocess.run([checks, str(MUTATIONS), *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{NETWORKS} networks run alike" in done.stdout


def test_kernel_files_share_no_code(tmp_path: Path) -> None:
    """A function that the linker could choose for the whole program must not be compiled for newer processors."""
    build(tmp_path, "-DCMAKE_BUILD_TYPE=Release")
    special = [p for p in tmp_path.rglob("*.o") if p.name.startswith(("avx", "neon"))]
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
    """NEON with and without the dot product, x86-64 without AVX: the same bits, and no illegal instruction."""
    script = ROOT / "tests" / "native" / "emulate.sh"
    files = [*write_networks(tmp_path, 12), tmp_path / "least.bin"]
    files[-1].write_bytes(least_products().to_bytes())
    done = subprocess.run([script, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
