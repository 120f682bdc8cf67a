"""The way of somebody who is new: a wheel, an environment with nothing but Python, five commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from PIL import Image

import intrs
from intrs import _core, zoo
from tools.make_wheels import LARGEST

ROOT = Path(__file__).parent.parent


def run(*command: object, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT, folder=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs, none of it compiled here."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "env", with_pip=True)
    command = [folder / "env/bin/python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel]
    run(*command, folder=folder, CC="no compiler", CXX="no compiler", PYTHONPATH="")
    return folder / "env/bin"


def test_the_wheel_is_small_and_complete(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "intrs/py.typed", "intrs/zoo/cifar10-500.npz", "intrs/site/engine/intrs-simd.wasm",
        "intrs/exchange/device/runtime/intrs.h", "intrs/exchange/device/runtime/arith.h",
    ):  # fmt: skip
        assert wanted in names, wanted
    modules = {Path(name).name.split(".")[0] for name in names if name.startswith("intrs/training/_layers")}
    assert modules >= {"_layers", *(["_layers_avx512"] if _core.has_avx512() else [])}
    (core,) = (name for name in names if re.fullmatch(r"intrs/_core\..*so", name))
    stable = sys.version_info >= (3, 12)
    assert ("abi3" in core, "-abi3-" in wheel.name) == (stable, stable)
    assert {name.split("/")[0] for name in names} <= {"intrs", wheel.name.split("-cp")[0] + ".dist-info"}


def test_five_commands_of_a_stranger(bare: Path, tmp_path: Path) -> None:
    """Install (above), the demo, an image, a network and a report: no error, and each says what to do next."""
    pixels = intrs.open_data(zoo.DEFAULT_DATA).images[1]
    Image.fromarray(pixels).save(tmp_path / "ship.png")
    (tmp_path / "mine.onnx").write_bytes(zoo.model_path("resnet8-sigma0.25").read_bytes())

    def said(command: str) -> str:
        return run(*command.split(), folder=tmp_path, PATH=str(bare), PYTHONPATH="", COLUMNS="80")

    demo = said("intrs certify")
    assert "Certified accuracy" in demo
    image = said("intrs certify resnet8-sigma0.25 ship.png --n 500 -o ship.tsv")
    assert "ship.png" in image
    own = said("intrs certify mine.onnx ship.png --sigma 0.25 --n 500 -o mine.tsv")
    report = said("intrs report ship.tsv mine.tsv --data ship.png")
    for words in (demo, image, own, report):
        assert "\nNext: " in words
    assert (tmp_path / "report.html").stat().st_size > 10_000
    next_step = re.search(r"Next: `(intrs report [^`]*)`", own)
    assert next_step
    said(f"{next_step[1]} --overwrite")
