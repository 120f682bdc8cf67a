"""What ships: cards that tell the truth about their models, and the command that shows them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from test_make_zoo import FIELDS, MODEL

import intrs
from intrs import zoo
from intrs.cli import main
from intrs.cli.screen import MISTAKE
from intrs.errors import IntrsError
from intrs.job import trained_sigma
from intrs.model import open_model
from intrs.training.recipe import plain_sigma

WEIGHTS = sorted((Path(__file__).parents[1] / "examples" / "weights").glob("float-*"))

# --- What ships ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.model_names())
def test_cards_tell_the_truth(name: str) -> None:
    card, data = zoo.card(name), zoo.model_path(name).read_bytes()
    assert set(card) - {"notes"} == FIELDS
    assert (card["format"], card["name"]) == (zoo.CARD_FORMAT, name)
    file = card["results"]["files"]["int8"]
    assert (file["bytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    network = intrs.load(zoo.model_path(name))
    assert card["results"]["identity"] == network.identity
    assert len(card["classes"]) == network.classes
    if sigma := card["recipe"]["sigma"]:
        assert plain_sigma(sigma) == plain_sigma(open_model(name).trained_sigma)
    else:
        with pytest.raises(IntrsError, match="give sigma"):
            trained_sigma(open_model(name))
    for run in card["certified"]:
        right = list(run["right"].values())
        assert right == sorted(right, reverse=True)
        assert right[0] <= run["answered"] <= run["images"]


@pytest.mark.parametrize("name", zoo.float_names())
def test_float_networks_have_names(name: str) -> None:
    path = zoo.find_model(name)
    assert path == zoo.float_path(name.removesuffix("-fp32"))
    file = zoo.card(name.removesuffix("-fp32"))["results"]["files"]["fp32"]
    assert file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["paper", "quant"])
@pytest.mark.parametrize("folder", WEIGHTS, ids=[folder.name for folder in WEIGHTS])
def test_weights_to_start_from_are_those_of_the_networks(folder: Path, kind: str) -> None:
    start = zoo.card(f"resnet20-{kind}{folder.name.removeprefix('float-')}")["recipe"]["start"]
    assert start["weights_sha256"] == hashlib.sha256((folder / "float.safetensors").read_bytes()).hexdigest()
    assert start["recipe"] == json.loads((folder / "state.json").read_text())["recipe"]


def test_a_float_network_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    argv = ["certify", "resnet20-paper0.25-fp32", "cifar10-500", "--noise", "continuous", "--n", "100", "--max", "1"]
    assert main(argv) == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        f"certify-resnet20-paper0.25-fp32-cifar10-500-sigma0.25-continuous.tsv{end}" for end in ("", ".json")
    ]


def test_the_name_of_a_float_network_shows_its_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "resnet20-paper0.25"]) == 0
    first = capsys.readouterr().out
    assert main(["zoo", "resnet20-paper0.25-fp32"]) == 0
    assert capsys.readouterr().out == first
    assert "resnet20-paper0.25-fp32: " in first


def test_a_folder_does_not_hide_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / MODEL).mkdir()
    assert zoo.find_model(MODEL) == zoo.model_path(MODEL)


def test_every_model_has_a_card_and_every_card_a_model() -> None:
    folder = zoo.model_path().parent
    assert {path.stem for path in folder.glob("*.json")} == set(zoo.model_names())
    assert zoo.DEFAULT_MODEL in zoo.model_names()


@pytest.mark.parametrize("name", zoo.model_names())
def test_command_prints_the_card(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", name]) == 0
    out, card = capsys.readouterr().out, zoo.card(name)
    assert card["results"]["identity"] in out
    assert card["command"] in out
    for line in card["limits"]:
        assert line.split(".")[0].split()[-1] in out
    for run in card["certified"]:
        assert f"{100 * run['right']['0.25'] / run['images']:.1f} %" in out


def test_command_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo"]) == 0
    out = capsys.readouterr().out
    for name in zoo.model_names():
        (line,) = [line for line in out.splitlines() if re.match(rf"\s*{re.escape(name)} .*\d", line)]
        card = zoo.card(name)
        noisy = f"{100 * card['results']['noisy_accuracy']['integer']:.1f}"
        assert (noisy in line) == bool(card["recipe"]["sigma"])
        assert card["results"]["identity"] in out
        runs = [run for run in card["certified"] if (run["noise"], run["data"]) == ("discrete", zoo.DEFAULT_DATA)]
        for run in sorted(runs, key=lambda run: run["n"])[-1:]:
            assert f" {run['n']:,}  " in line
            assert f" {100 * run['right']['0.25'] / run['images']:.1f} " in line
    assert f"{zoo.DEFAULT_MODEL} (the default)" in out
    assert max(map(len, out.splitlines()[:6])) <= 80


def test_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo.seek_model("resnet8-sigma0.25-fp32") is None  # its float network does not ship
    for name in ("vgg", "../zoo/resnet8-sigma0.25", "resnet8-sigma0.25.onnx"):
        assert main(["zoo", name]) == MISTAKE
        err = capsys.readouterr().err
        assert f"no model {name!r} ships with intrs" in err
        assert "choose from resnet20-clean, " in err
    assert "did you mean resnet8-sigma0.25?" in err
