"""The native checks under AddressSanitizer and UBSan: build them, give them networks, let them mutate the bytes."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from random_networks import random_network

ROOT = Path(__file__).parent.parent
NETWORKS, MUTATIONS = 40, 300


def build(folder: Path) -> Path:
    options = ["-DINTRS_TESTS=ON", "-DINTRS_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *options], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", "2"], check=True, capture_output=True)
    return folder / "tests" / "native" / "core_checks"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake and a C++ compiler with sanitizers")
def test_core_under_sanitizers(tmp_path: Path) -> None:
    files = []
    for seed in range(NETWORKS):
        file = tmp_path / f"{seed}.bin"
        file.write_bytes(random_network(np.random.default_rng(seed)).to_bytes())
        files.append(file)
    done = subprocess.run([build(tmp_path / "build"), str(MUTATIONS), *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{NETWORKS} networks run alike" in done.stdout
