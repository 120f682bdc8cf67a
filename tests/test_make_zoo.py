"""How models get into the zoo: `python -m tools.make_zoo`."""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from intrs import zoo
from intrs.cli import main
from intrs.cli.screen import MISTAKE
from intrs.cli.zoo import _share_at
from intrs.errors import IntrsError
from tools import make_zoo as make

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
MODEL = "resnet8-sigma0.25"
FIELDS = {
    "format", "name", "architecture", "input", "output", "classes", "data", "command", "recipe", "seconds", "threads",
    "made_with", "results", "limits", "certified",
}  # fmt: skip


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


def test_a_card_alone(outdir: Path, results: Path, tmp_path: Path) -> None:
    """Of a network that is too large to ship."""
    to = tmp_path / "cards"
    to.mkdir()
    words = ["card", str(outdir), str(results), "--to", str(to), "--name", "new", "--note", "One.", "--note", "Two."]
    assert make.main(words) == 0
    assert [path.name for path in to.iterdir()] == ["new.json"]
    card = json.loads((to / "new.json").read_text())
    assert (set(card), card["name"], card["notes"]) == (FIELDS | {"notes"}, "new", ["One.", "Two."])
    check_certified(card["certified"], results)
    (outdir / f"{MODEL}.onnx").write_bytes(b"another network")
    assert make.main(words) == 2


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


def test_from_a_clone() -> None:
    """It writes to the clone's own zoo, not to the installed package's."""
    shown = subprocess.run([sys.executable, "-m", "tools.make_zoo", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert ROOT / "src/intrs/zoo" == make.ZOO
    assert (make.ZOO / f"{MODEL}.onnx").is_file()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda card: card.pop("results"), "no name, recipe or results"),
        (lambda card: card.pop("name"), "no name, recipe or results"),
        (lambda card: card.pop("recipe"), "no name, recipe or results"),
        (lambda card: card["recipe"].pop("sigma"), "no sigma"),
        (lambda card: card["recipe"].pop("data_sha256"), "does not say which data it is for"),
        (lambda card: card["results"].pop("files"), "no 'files'"),
        (lambda card: card["results"]["files"].update(int8="x.onnx"), "which file the int8 network is"),
        (lambda card: card["results"]["files"]["int8"].pop("name"), "which file the int8 network is"),
        (lambda card: card["results"].pop("noisy_accuracy"), "no 'noisy_accuracy'"),
        (lambda card: card["results"]["noisy_accuracy"].pop("integer"), "lack the accuracy"),
        (lambda card: card["results"]["noisy_accuracy"].update(integer="all"), "no number from 0 to 1"),
        (lambda card: card["results"].update(agreement=None), "no number from 0 to 1"),
        (lambda card: card["results"].pop("identity"), "lack the identity"),
        (lambda card: card["results"].update(identity=[1]), "its identity is malformed"),
        (lambda card: card.update(certified=3), "'certified' is no list"),
    ],
)
def test_damaged_cards(outdir: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], object], words: str) -> None:
    change(outdir, edit)
    with pytest.raises(IntrsError, match=re.escape(words)):
        make.add_model(outdir, [], tmp_path)
    with pytest.raises(IntrsError, match=re.escape(words)):
        make.add_certified(MODEL, [], outdir)


def test_files_that_are_no_cards(outdir: Path) -> None:
    for text, words in (("{", "not JSON"), ("[" * 100_000, "not JSON"), ("[]", "not a model card")):
        (outdir / f"{MODEL}.json").write_text(text)
        with pytest.raises(IntrsError, match=re.escape(words)):
            make.add_certified(MODEL, [], outdir)
    with pytest.raises(IntrsError, match="No such file"):
        make.add_certified("none", [], outdir)
