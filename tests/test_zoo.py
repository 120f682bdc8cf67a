"""What ships: cards that tell the truth about their models, the command that shows them, and how models get there."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any

import pytest

import intrs
from intrs import zoo
from intrs.cli import MISTAKE, main
from intrs.cli.zoo import _share_at
from intrs.errors import IntrsError
from intrs.job import default_sigma
from intrs.training.recipe import plain_sigma
from tools import make_zoo as make

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODEL = "resnet8-sigma0.25"
FIELDS = {
    "format", "name", "architecture", "input", "output", "classes", "data", "command", "recipe", "seconds", "threads",
    "made_with", "results", "limits", "certified",
}  # fmt: skip


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
        assert plain_sigma(sigma) == plain_sigma(default_sigma(name))
    else:
        with pytest.raises(IntrsError, match="give --sigma"):
            default_sigma(name)
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


# --- How models get there --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of six images by the shipped model."""
    path = tmp_path_factory.mktemp("results") / "run.tsv"
    argv = ["certify", MODEL, "cifar10-500", "--n", "500", "--max", "6", "--seed", "1", "--out", str(path)]
    assert main(argv) == 0
    return path


@pytest.fixture
def outdir(tmp_path: Path) -> Path:
    """A folder as `intrs train` leaves it, with the shipped model for an example."""
    folder = tmp_path / "run"
    folder.mkdir()
    card = zoo.card(MODEL)
    data, twin = zoo.model_path(MODEL).read_bytes(), b"a float network"
    (folder / f"{MODEL}.onnx").write_bytes(data)
    (folder / f"{MODEL}-fp32.onnx").write_bytes(twin)
    card["results"]["files"]["fp32"] = {"name": f"{MODEL}-fp32.onnx", "sha256": hashlib.sha256(twin).hexdigest()}
    card["results"] |= {"agreement": 0.995, "noisy_accuracy": {"fp32": 0.6, "fake_quantized": 0.682, "integer": 0.683}}
    del card["certified"]
    (folder / f"{MODEL}.json").write_text(json.dumps(card))
    for name in ("state.json", "results.json"):
        (folder / name).write_text("{}")
    return folder


def change(outdir: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = outdir / f"{MODEL}.json"
    card = json.loads(path.read_text())
    edit(card)
    path.write_text(json.dumps(card))


def test_a_model_is_added(
    outdir: Path, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "zoo"
    to.mkdir()
    assert make.main(["model", str(outdir), str(results), "--to", str(to), "--name", "new"]) == 0
    assert (to / "new.onnx").read_bytes() == zoo.model_path(MODEL).read_bytes()
    assert (to / "float/new.onnx").read_bytes() == b"a float network"
    card = json.loads((to / "new.json").read_text())
    assert set(card) - {"notes"} == FIELDS
    assert card["name"] == "new"
    check_certified(card["certified"], results)
    monkeypatch.setattr(zoo, "files", lambda _: to)
    assert zoo.model_names() == ("new",)
    assert zoo.float_path("new") == to / "float/new.onnx"
    capsys.readouterr()
    assert main(["zoo"]) == 0
    assert main(["zoo", "new"]) == 0
    out = capsys.readouterr().out
    assert "float/new.onnx" in out
    assert "Certified accuracy: cifar10-500, 6 images, N=500, alpha 1/1000, sound bound" in out


def check_certified(found: list[dict[str, Any]], results: Path) -> None:
    """Against the lines of the file, counted here."""
    (run,) = found
    lines = [line.split("\t") for line in results.read_text().splitlines()]
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    squares = [int(row["radius_sq"]) for row in rows if row["correct"] == "1"]
    assert (run["images"], run["n"], run["seed"], run["data"]) == (6, 500, "0x1", "cifar10-500")
    assert run["answered"] == sum(row["predict"] != "-1" for row in rows)
    for radius, right in run["right"].items():
        assert right == sum(square >= (255 * float(radius)) ** 2 for square in squares)
    assert run["right"]["0.0"] > 0
    assert list(run["right"].values())[-1] == 0
    assert run["average_radius"] == pytest.approx(sum(map(math.sqrt, squares)) / 255 / 6, abs=1e-4)


def test_results_are_added_to_a_card(outdir: Path, results: Path, tmp_path: Path) -> None:
    make.add_model(outdir, [], tmp_path, twin=False)
    assert not (tmp_path / "float").exists()
    for _ in range(2):  # the same run again takes the place of the first
        make.add_certified(MODEL, [results], tmp_path)
        check_certified(json.loads((tmp_path / f"{MODEL}.json").read_text())["certified"], results)


def test_of_an_adaptive_run_the_radii_that_it_decided_are_kept(outdir: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.tsv"
    argv = ["certify", MODEL, "cifar10-500", "--adaptive", "--radii", "0,0.1,0.2,0.9", "--n", "2000", "--max", "6"]
    assert main([*argv, "--out", str(path)]) == 0
    make.add_model(outdir, [path], tmp_path, twin=False)
    (run,) = json.loads((tmp_path / f"{MODEL}.json").read_text())["certified"]
    assert list(run["right"]) == ["0.0", "0.1", "0.2", "0.9"]  # nothing at 0.9: 2,000 samples do not reach it
    assert run["right"]["0.9"] == 0 < run["right"]["0.2"]
    assert run["average_radius"] is None
    assert [_share_at(run, radius) for radius in ("0.5", "0.9", "1.0")] == ["-", "0.0", "0.0"], "0.5 was not asked for"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda card: card["results"].update(agreement=0.9899), "agree on 98.99 %"),
        (lambda card: card["results"].pop("agreement"), "no agreement"),
        (lambda card: card["results"]["noisy_accuracy"].update(integer=0.7), "accuracies differ"),
        (lambda card: card["results"].update(identity="0"), "another network"),
        (lambda card: card["results"]["files"]["int8"].update(sha256="0"), "it was changed"),
        (lambda card: card["results"]["files"].pop("int8"), "no int8 network"),
        (lambda card: card["results"]["files"]["fp32"].update(name="none.onnx"), "No such file"),
        (lambda card: card["recipe"].update(sigma="0.5"), "sigma 1/4, but"),
        (lambda card: card.update(format="another"), "not a model card"),
    ],
)
def test_what_does_not_ship(
    outdir: Path, results: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    change(outdir, edit)
    with pytest.raises(IntrsError, match=re.escape(words)):
        make.add_model(outdir, [results], tmp_path)
    assert not list(tmp_path.glob("*.onnx"))


def test_results_that_do_not_belong(
    outdir: Path, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "part.tsv"
    part.write_text("".join(results.read_text().splitlines(keepends=True)[:4]))
    run = json.loads((results.parent / "run.tsv.json").read_text())
    for changes, words in (({}, "3 of 6 images; finish it first"), ({"identity": "ab" * 32}, "with another network")):
        (tmp_path / "part.tsv.json").write_text(json.dumps(run | changes))
        assert make.main(["model", str(outdir), str(part), "--to", str(tmp_path)]) == MISTAKE
        assert words in capsys.readouterr().err


def test_results_of_the_classical_method_are_named(
    outdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    run = tmp_path / "run.tsv"
    argv = ["certify", MODEL, "cifar10-500", "--noise", "continuous", "--n", "500", "--max", "2", "--out", str(run)]
    assert main(argv) == 0
    make.add_model(outdir, [run], tmp_path)
    monkeypatch.setattr(zoo, "model_path", lambda name=None: tmp_path / f"{name or MODEL}.onnx")
    monkeypatch.setattr(zoo, "model_names", lambda: (MODEL,))
    capsys.readouterr()
    assert main(["zoo", MODEL]) == 0
    assert "by the classical method in floats" in capsys.readouterr().out
    assert main(["zoo"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if re.match(rf"\s*{MODEL} .*\d", line)]
    assert line.split()[-4:] == ["-"] * 4


def test_a_model_is_not_replaced_unasked(outdir: Path, tmp_path: Path) -> None:
    make.add_model(outdir, [], tmp_path)
    with pytest.raises(IntrsError, match="in the zoo already"):
        make.add_model(outdir, [], tmp_path)
    make.add_model(outdir, [], tmp_path, overwrite=True)


def test_not_a_finished_run(outdir: Path, tmp_path: Path) -> None:
    (outdir / f"{MODEL}.json").unlink()
    with pytest.raises(IntrsError, match="one model card is wanted"):
        make.add_model(outdir, [], tmp_path)
