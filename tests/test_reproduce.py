"""`intrs reproduce` on tiny networks: tables against a few lines of pandas, kills, plans that are wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import mpmath  # type: ignore[import-untyped]
import onnx
import pandas as pd  # type: ignore[import-untyped]
import pytest
from onnx import helper
from PIL import Image
from tiny_model import save_images, save_model

from intrs import zoo
from intrs.cli import main
from intrs.cli.job import Job
from intrs.errors import IntrsError
from intrs.report.runs import METHODS
from intrs.reproduce.plan import SIGMAS, read_plan
from intrs.reproduce.tables import other_numbers

if TYPE_CHECKING:
    from pathlib import Path

IMAGES, N = 8, 400
SETTINGS = f'data = "tiny.npz"\npaper = "cifar10"\nimages = {IMAGES}\nn0 = 50\nn = {N}\nattacked = 0\n'
MODELS = """
[models.IntRS-quant]
"0.25" = "int8.onnx"
"0.5" = "int8.onnx"
[models.FloatRS-fp]
"0.25" = "float.onnx"
[models.FloatRS-quant]
"0.25" = "int8.onnx"
"1.0" = "nowhere.onnx"
"""


def fill(folder: Path) -> Path:
    """The plan and what it names."""
    pytest.importorskip("onnxruntime")
    save_model(folder / "int8.onnx")
    model = onnx.load(save_model(folder / "float.onnx", quantized=False))
    helper.set_model_props(model, {"intrs.pixels": "unit"})
    onnx.save(model, folder / "float.onnx")
    save_images(folder / "tiny.npz")
    (folder / "plan.toml").write_text(SETTINGS + MODELS)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in."""
    monkeypatch.chdir(tmp_path)
    return fill(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the plan's run, to look at."""
    folder = fill(tmp_path_factory.mktemp("whole"))
    assert run(str(folder / "plan.toml"), "-o", str(folder / "out")) == 0
    return folder / "out"


def run(*argv: str) -> int:
    return main(["reproduce", *argv])


def section(folder: Path, letter: str) -> dict[str, Any]:
    found = json.loads((folder / "results.json").read_text())
    return next(s for s in found["experiments"] if s["experiment"] == letter)


def votes(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / "votes" / f"{name}.tsv", delimiter="\t")


def number(cell: str) -> float:
    return float(cell.split()[0])


# --- what it finds ---------------------------------------------------------------------------------------------------


def test_tables_equal_the_votes(whole: Path) -> None:
    files = sorted(p.name for p in (whole / "votes").glob("*.tsv"))
    assert len(files) == 12  # 4 at their own sigma, 3 each of two networks trained at 0.25 at others, 2 predictions
    for method in METHODS:
        frame = votes(whole, f"certify-{method}-trained0.25-sigma0.25")
        assert len(frame) == IMAGES
        table = next(t for t in section(whole, "a")["tables"] if t["title"].startswith(method))
        ours = next(row for row in table["rows"] if row[:2] == ["0.25", "ours"])
        for column, cell in zip(table["columns"][2:-1], ours[2:-1], strict=True):
            hits = (frame["correct"] == 1) & (frame["radius"] >= float(column.removeprefix("r = ")))
            assert number(cell) == pytest.approx(hits.mean(), abs=6e-4)
        assert number(ours[-1]) == pytest.approx((frame["radius"] * frame["correct"]).mean(), abs=6e-4)
        cp = next(row for row in section(whole, "b")["tables"][0]["rows"] if row[0] == method)
        assert number(cp[2]) == pytest.approx((frame["predict"] >= 0).mean(), abs=6e-4)


def test_other_alphas_are_judged_from_the_same_votes(whole: Path) -> None:
    """Radius 0 of continuous noise: the lower bound of Clopper and Pearson is above a half."""
    frame = votes(whole, "certify-FloatRS-fp-trained0.25-sigma0.25")
    tables = section(whole, "e")["tables"]
    rows = next(t for t in tables if t["title"].startswith("FloatRS-fp"))["rows"]
    shares = {}
    for alpha in ("0.1", "0.001", "0.0001"):
        right = 0
        for line in frame.itertuples():
            chosen = max(range(3), key=[int(c) for c in str(line.counts0).split(",")].__getitem__)
            k = int(str(line.counts).split(",")[chosen])
            tail = mpmath.betainc(k, N - k + 1, 0, 0.5, regularized=True) if k else 1
            right += tail < float(alpha) and chosen == line.label
        ours = next(row for row in rows if row[:2] == [alpha, "ours"])
        shares[alpha] = number(ours[2])
        assert shares[alpha] == pytest.approx(right / IMAGES, abs=6e-4)
    assert shares["0.1"] >= shares["0.0001"]


def test_predictions_and_the_papers_numbers(whole: Path) -> None:
    rows = section(whole, "d")["tables"][0]["rows"]
    assert [row[:2] for row in rows] == [["IntRS-quant", "100"], ["FloatRS-fp", "100"]]
    frame = votes(whole, "predict-IntRS-quant-trained0.25-sigma0.25-n100")
    assert number(rows[0][2]) == pytest.approx((frame["correct"] == 1).mean(), abs=6e-4)
    assert number(rows[0][4]) == pytest.approx((frame["predict"] < 0).mean(), abs=6e-4)
    assert (rows[0][3], rows[0][5]) == ("0.73", "0.15")
    table = section(whole, "a")["tables"][0]
    assert next(row for row in table["rows"] if row[1] == "paper")[2:5] == ["0.61", "0.42", "0.26"]


def test_what_has_no_model_is_listed(whole: Path) -> None:
    assert "needs model FloatRS-fp trained at sigma 0.12, 0.5, 1" in section(whole, "a")["not_run"]
    assert "needs models undefended.float and undefended.int8" in section(whole, "g")["not_run"]
    assert any("10,000 samples: needs n = 10000" in line for line in section(whole, "d")["not_run"])
    page = (whole / "results.md").read_text()
    assert "- not run: needs model FloatRS-quant trained at sigma 0.12, 0.5, 1" in page
    assert "which does not exist" in page


def test_figures_and_the_page(whole: Path) -> None:
    with Image.open(whole / "figures" / "noisy.png") as picture:
        assert picture.size == (2 * 4 * (1 + len(SIGMAS)), 2 * 4 * IMAGES)
    assert "<svg" in (whole / "figures" / "accuracy-sigma0.25.svg").read_text()
    page = (whole / "report.html").read_text()
    assert "IntRS-quant" in page
    assert "FloatRS-fp, σ" not in page  # what the page says of proofs is not true of floats


def test_prediction_at_the_samples_of_certificates_needs_no_votes_of_its_own(here: Path) -> None:
    (here / "plan.toml").write_text(SETTINGS.replace(f"n = {N}", "n = 1000") + 'experiments = "d"\n' + MODELS)
    assert run("plan.toml", "-o", "out") == 0
    names = sorted(p.stem for p in (here / "out" / "votes").glob("*IntRS*.tsv"))
    assert names == ["certify-IntRS-quant-trained0.25-sigma0.25", "predict-IntRS-quant-trained0.25-sigma0.25-n100"]
    assert [row[1] for row in section(here / "out", "d")["tables"][0]["rows"]] == ["100", "1,000"] * 2


def test_attacks(here: Path) -> None:
    pytest.importorskip("torch")
    settings = SETTINGS.replace("attacked = 0", "attacked = 2") + 'experiments = "fg"\n'
    undefended = '[undefended]\nfloat = "float.onnx"\nint8 = "int8.onnx"\n'
    (here / "plan.toml").write_text(settings + MODELS + undefended)
    assert run("plan.toml", "-o", "out") == 0
    smoothed, bare = section(here / "out", "f"), section(here / "out", "g")
    assert [row[0] for row in smoothed["tables"][0]["rows"]] == ["0", "0.12", "0.25", "0.5", "1"]
    assert len(bare["tables"]) == 2
    frame = pd.read_csv(here / "out" / "attack-l2" / "attack.tsv", delimiter="\t")
    for eps, cell, *_ in smoothed["tables"][0]["rows"]:
        assert number(cell) == pytest.approx(frame[frame["eps"] == float(eps)]["correct"].mean(), abs=6e-4)


# --- doing it again --------------------------------------------------------------------------------------------------


def test_a_second_run_samples_nothing(
    whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (whole / "results.json").read_text()

    def refuse(*_: object) -> None:
        raise AssertionError("sampled again")

    monkeypatch.setattr(Job, "sample", refuse)
    assert run(str(whole.parent / "plan.toml"), "-o", str(whole)) == 0
    assert (whole / "results.json").read_text() == before
    assert "nowhere.onnx: the plan names it" in capsys.readouterr().out


def test_a_killed_run_resumes(here: Path) -> None:
    """Killed after a few lines: the lines stay as they are, and the end is that of a run in one go."""
    slow = (
        SETTINGS.replace(f"n = {N}", "n = 200000") + 'experiments = "a"\n[models.IntRS-quant]\n"0.25" = "int8.onnx"\n'
    )
    (here / "plan.toml").write_text(slow)
    command = [sys.executable, "-m", "intrs.cli", "reproduce", "plan.toml", "-o", "out", "--threads", "1"]
    path = here / "out" / "votes" / "certify-IntRS-quant-trained0.25-sigma0.25.tsv"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (not path.exists() or path.read_text().count("\n") < 3):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    kept = path.read_text()
    whole = kept[: kept.rindex("\n") + 1]
    assert whole.count("\n") >= 3
    assert run("plan.toml", "-o", "out") == 0
    assert path.read_text().startswith(whole)
    assert run("plan.toml", "-o", "again") == 0
    once = votes(here / "again", path.stem).drop(columns="time")
    assert votes(here / "out", path.stem).drop(columns="time").equals(once)


def test_another_network_under_the_same_name_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "plan.toml").write_text(SETTINGS + '[models.IntRS-quant]\n"0.25" = "int8.onnx"\n')
    assert run("plan.toml", "-o", "out") == 0
    save_model(here / "int8.onnx", seed=2)
    assert run("plan.toml", "-o", "out") == 2
    assert "identity" in capsys.readouterr().err


def test_other_folders_are_left_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "letter.txt").write_text("dear")
    assert run("plan.toml", "-o", "mine") == 2
    assert "not a folder of `intrs reproduce`" in capsys.readouterr().err


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data = ", "not a TOML file"),
        ("images = 5", "does not say which data"),
        ("data = 3", "data must be text"),
        ('data = "tiny.npz"\nimage = 5', "there is no setting 'image'; there are images"),
        ('data = "tiny.npz"\nn = "many"', "n must be a whole number from 1"),
        ('data = "tiny.npz"\nn = true', "n must be a whole number from 1"),
        ('data = "tiny.npz"\nimages = 0', "images must be a whole number from 1"),
        ('data = "tiny.npz"\nalpha = "2"', "alpha must lie between 0 and 1"),
        ('data = "tiny.npz"\npaper = "mnist"', "paper must be one of"),
        ('data = "tiny.npz"\nexperiments = "az"', "there is no experiment 'z'"),
        ('data = "tiny.npz"\nexperiments = "aa"', "none twice"),
        ('data = "tiny.npz"\nmodels = 3', "models must be a table"),
        ('data = "tiny.npz"\n[models.IntRS]\n"0.25" = "x"', "the methods are IntRS-quant"),
        ('data = "tiny.npz"\n[models.IntRS-quant]\nmuch = "x"', "sigma must be a number"),
        ('data = "tiny.npz"\n[models.IntRS-quant]\n"0.5" = 3', "models.IntRS-quant.0.5 must be text"),
        ('data = "tiny.npz"\n[models.IntRS-quant]\n"0.5" = "x"\n"1/2" = "y"', "has a model already"),
        ('data = "tiny.npz"\n[undefended]\nfloat = "x"', "must name float and int8"),
        ('data = "nothing.npz"', "nothing.npz"),
    ],
)
def test_wrong_plans(here: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    (here / "plan.toml").write_text(text)
    assert run("plan.toml", "-o", "out") == 2
    assert words in capsys.readouterr().err


def test_a_plan_that_is_not_there(here: Path) -> None:
    with pytest.raises(IntrsError, match="cannot read"):
        read_plan(here / "none.toml")


def test_what_ships() -> None:
    plan = read_plan(None)
    assert not plan.absent
    assert {spec for _, _, spec in plan.models} <= set(zoo.model_names())
    assert plan.data in zoo.data_names()
    assert (plan.quick().images, plan.quick().n, plan.quick().attacked) == (100, 1000, 0)
    assert plan.quick().quick() == plan.quick()


def test_the_papers_tables_have_the_same_shape() -> None:
    theirs = other_numbers()["other_sigma"]
    for trained in ("0.12", "0.25"):
        for method in ("FloatRS-fp", "IntRS-quant"):
            assert [Fraction(s) for s in theirs[trained][method]] == list(SIGMAS)
            assert all(len(row) == len(theirs["radii"]) for row in theirs[trained][method].values())
