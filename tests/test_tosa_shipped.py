"""The official oracle on what ships: every tensor of every network in the zoo, on 100 noisy images."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import intrs

pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed: pip install 'intrs[tosa]'")

CHECKER = Path(__file__).parents[1] / "proofs" / "check_tosa.py"
MODELS = sorted((Path(intrs.__file__).parent / "zoo").glob("*.onnx"))
IMAGES = 100


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_every_tensor_equals_the_reference_model(model: Path) -> None:
    command = [sys.executable, str(CHECKER), str(model), "--images", str(IMAGES)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{IMAGES} of {IMAGES} images" in run.stdout
    assert "all bits equal" in run.stdout


def test_a_network_ships() -> None:
    assert MODELS
