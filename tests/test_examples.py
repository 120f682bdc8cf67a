"""Every example runs, from any folder, and says what it should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
EXPECTED = {
    "certify_one_image": r"certified: \w+, by \d+ of 500 votes",
    "smooth_onnxruntime": r"ONNX Runtime +horse .*\n +integers +horse ",
    "bring_your_own_model": r"image 0 is brighter on the left: radius 0\.\d{3}\nimage 1 is brighter on the right",
    "own_architecture": r"agree on \d+\.\d % of noisy test images\n0 radius 0\.[1-9]\d*\n",
}


def test_all_are_known() -> None:
    assert {path.stem for path in EXAMPLES} == set(EXPECTED)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(EXPECTED[path.stem], run.stdout), run.stdout
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
