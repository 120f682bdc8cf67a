"""`intrs reproduce` on tiny networks: tables against a few lines of pandas, kills, plans that are wrong."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import onnx
import pandas as pd  # type: ignore[import-untyped]
import pytest
from browser import CONTRAST, Browser, in_browser
from onnx import helper
from PIL import Image
from test_reports import FINAL, check_numbers, read_page, save_training, state
from tiny_model import images, save_images, save_model

from intrs import open_data, zoo
from intrs.cli import main
from intrs.errors import IntrsError, ResultsError
from intrs.experiments import Step, extras, reproduce
from intrs.experiments import folder as folder_module
from intrs.experiments.judging import judged_again
from intrs.experiments.plan import SIGMAS, Plan, other_numbers, read_plan
from intrs.metrics import read
from intrs.reports.runs import METHODS, PAPERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.metrics import Results
    from intrs.progress import Progress

IMAGES, N = 8, 400
HOSTILE = "<img src=x onerror=document.title='broken'>&amp;|"
FLOAT = f"float{HOSTILE}.onnx"
SETTINGS = f'data = "tiny.npz"\npaper = "cifar10"\nimages = {IMAGES}\nn0 = 50\nn = {N}\nattacked = 0\n'
MODELS = f"""
[models.IntRS-quant]
"0.25" = "int8.onnx"
"0.5" = "int8.onnx"
[models.FloatRS-fp]
"0.25" = "{FLOAT}"
[models.FloatRS-quant]
"0.25" = "int8.onnx"
"1.0" = "nowhere.onnx"
"""


def fill(folder: Path) -> Path:
    """The plan and what it names."""
    pytest.importorskip("onnxruntime")
    save_model(folder / "int8.onnx")
    model = onnx.load(save_model(folder / FLOAT, quantized=False))
    helper.set_model_props(model, {"intrs.pixels": "unit"})
    onnx.save(model, folder / FLOAT)
    save_images(folder / "tiny.npz", classes=np.array([HOSTILE, "two", "three"]))
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
    save_training(folder / "runs" / "net", state(), FINAL)
    (folder / "plan.toml").write_text('training = ["runs/net", "runs/gone"]\n' + SETTINGS + MODELS)
    assert run(str(folder / "plan.toml"), "--quick", "-o", str(folder / "out")) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an adaptive plan's run."""
    folder = fill(tmp_path_factory.mktemp("stopping"))
    (folder / "plan.toml").write_text(f"adaptive = {N}\n" + SETTINGS + MODELS)
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


def check_rows(folder: Path, table: dict[str, Any], first: str, name: str, average: bool) -> None:
    """Both lines of a table about one run, from its TSV by pandas."""
    frame = votes(folder, name)
    assert len(frame) == IMAGES
    rows = iter(table["rows"])
    ours = next(row for row in rows if row[:2] == [first, "ours"])
    answered = next(rows)
    assert answered[:2] == ["", "of the answered"]
    columns = [column for column in table["columns"] if column.startswith("r = ")]
    assert len(columns) >= 6
    for column, cell, other in zip(columns, ours[2:], answered[2:], strict=False):
        hits = (frame["correct"] == 1) & (frame["radius"] >= float(column.removeprefix("r = ")))
        assert number(cell) == pytest.approx(hits.mean(), abs=6e-4)
        assert number(other) == pytest.approx(hits.sum() / (frame["predict"] >= 0).sum(), abs=6e-4)
    if average:
        assert number(ours[-1]) == pytest.approx((frame["radius"] * frame["correct"]).mean(), abs=6e-4)


def test_tables_equal_the_votes(whole: Path) -> None:
    files = sorted(p.name for p in (whole / "votes").glob("*.tsv"))
    assert len(files) == 12  # 4 at their own sigma, 3 each of two networks trained at 0.25 at others, 2 predictions
    for method in METHODS:
        table = next(t for t in section(whole, "a")["tables"] if t["title"].startswith(method))
        check_rows(whole, table, "0.25", f"certify-{method}-trained0.25-sigma0.25", average=True)
        frame = votes(whole, f"certify-{method}-trained0.25-sigma0.25")
        cp = next(row for row in section(whole, "b")["tables"][0]["rows"] if row[0] == method)
        assert number(cp[2]) == pytest.approx((frame["predict"] >= 0).mean(), abs=6e-4)


def trained_at_a_quarter(folder: Path, method: str) -> dict[str, Any]:
    tables = section(folder, "c")["tables"]
    return next(dict(t) for t in tables if t["title"].startswith(f"{method} trained at sigma 0.25"))


def test_other_sigmas_equal_the_votes(whole: Path) -> None:
    for method in ("IntRS-quant", "FloatRS-fp"):
        table = trained_at_a_quarter(whole, method)
        for sigma in ("0.12", "0.25", "0.5", "1"):
            check_rows(whole, table, sigma, f"certify-{method}-trained0.25-sigma{sigma}", average=False)


def test_time_and_size(whole: Path) -> None:
    rows = section(whole, "h")["tables"][0]["rows"]
    assert [row[0] for row in rows] == ["IntRS-quant", "FloatRS-fp"]
    frame = votes(whole, "certify-FloatRS-fp-trained0.25-sigma0.25")
    each = pd.to_timedelta(frame["time"]).dt.total_seconds().mean()
    _, network, seconds, rate, size, engine = rows[1]
    assert (network, size) == (FLOAT, f"{(whole.parent / FLOAT).stat().st_size:,}")
    assert number(seconds) == pytest.approx(each, rel=0.01)
    assert float(rate.replace(",", "")) == pytest.approx((N + 50) / each, rel=0.01)
    assert engine.startswith("onnxruntime ")


def test_markdown_and_json_are_the_same(whole: Path) -> None:
    lines = (whole / "results.md").read_text().splitlines()
    for each in json.loads((whole / "results.json").read_text())["experiments"]:
        for table in each["tables"]:
            for row in table["rows"]:
                assert f"| {' | '.join(escape(cell).replace('|', chr(92) + '|') for cell in row)} |" in lines


def test_other_alphas_are_judged_from_the_same_votes(whole: Path) -> None:
    """Continuous noise certifies r if the lower bound of Clopper and Pearson is above Phi(r / sigma)."""
    frame = votes(whole, "certify-FloatRS-fp-trained0.25-sigma0.25")
    table = next(t for t in section(whole, "e")["tables"] if t["title"].startswith("FloatRS-fp"))
    radii = [float(column.removeprefix("r = ")) for column in table["columns"] if column.startswith("r = ")]
    shares = {}
    for alpha in ("0.1", "0.001", "0.0001"):
        right = [0] * len(radii)
        for line in frame.itertuples():
            chosen = max(range(3), key=[int(c) for c in str(line.counts0).split(",")].__getitem__)
            k = int(str(line.counts).split(",")[chosen])
            for i, r in enumerate(radii):
                tail = mpmath.betainc(k, N - k + 1, 0, mpmath.ncdf(r / 0.25), regularized=True) if k else 1
                right[i] += tail < float(alpha) and chosen == line.label
        ours = next(row for row in table["rows"] if row[:2] == [alpha, "ours"])
        shares[alpha] = [number(cell) for cell in ours[2:-1]]
        assert shares[alpha] == pytest.approx([hits / IMAGES for hits in right], abs=6e-4)
    assert shares["0.1"] != shares["0.0001"]


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


def test_figures(whole: Path) -> None:
    with Image.open(whole / "figures" / "noisy.png") as picture:
        assert picture.size == (2 * 4 * (1 + len(SIGMAS)), 2 * 4 * IMAGES)
    for name in ("accuracy-sigma0.25", "alpha-IntRS-quant", "alpha-FloatRS-fp"):
        assert "<svg" in (whole / "figures" / f"{name}.svg").read_text()


# --- adaptive runs ---------------------------------------------------------------------------------------------------


def test_runs_that_are_judged_again_or_timed_are_not_adaptive(whole: Path, stopping: Path) -> None:
    names = {p.stem for p in (stopping / "votes").glob("*.tsv")}
    assert len(names) == 14
    other = {name for name in names if name.endswith("-adaptive")}
    assert other == {
        f"certify-{method}-trained0.25-sigma{sigma}-adaptive"
        for method in ("IntRS-quant", "FloatRS-fp")
        for sigma in ("0.12", "0.25", "0.5", "1")
    } | {
        f"certify-{run}-adaptive" for run in ("IntRS-quant-trained0.5-sigma0.5", "FloatRS-quant-trained0.25-sigma0.25")
    }
    for name in names - other:
        assert votes(stopping, name).drop(columns="time").equals(votes(whole, name).drop(columns="time")), name


def test_adaptive_runs_decide_the_radii_of_the_table(whole: Path, stopping: Path) -> None:
    """Those that N votes of N certify: here by the formula for continuous noise."""
    taken = []
    for sigma in ("0.12", "0.25", "0.5", "1"):
        name = f"certify-FloatRS-fp-trained0.25-sigma{sigma}-adaptive"
        asked = json.loads((stopping / "votes" / f"{name}.tsv.json").read_text())["adaptive"]
        reach = float(sigma) * mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf("0.001") ** (mpmath.mpf(1) / N) - 1)
        radii = [r for r in ("1/4", "1/2", "3/4", "1", "5/4", "3/2", "7/4") if float(Fraction(r)) <= reach]
        assert asked == f"n={N} radii={','.join(['0', *radii])} give_up=7/10"
        for method in ("IntRS-quant", "FloatRS-fp"):
            name = f"certify-{method}-trained0.25-sigma{sigma}"
            frame = votes(stopping, f"{name}-adaptive")
            taken += list(frame["n"])
            assert (frame["counts0"] == votes(whole, name)["counts0"]).all(), "the same samples"
            table = trained_at_a_quarter(stopping, method)
            check_rows(stopping, table, f"{sigma} (adaptive)", f"{name}-adaptive", average=False)
    assert min(taken) < max(taken) <= N
    c = section(stopping, "c")
    mean = sum(taken) / len(taken)
    assert c["done"].startswith(
        f"8 runs of {IMAGES} images, at most {N} samples per image (and 50 to select the class); 8 of the runs are "
        f"adaptive and took {mean:,.0f} on average, alpha"
    )
    assert any(note.startswith("Adaptive runs stop sampling") for note in c["notes"])
    assert not any(note.startswith("Adaptive runs") for note in section(whole, "c")["notes"])


def test_integers_may_have_more_samples_and_floats_fewer_images(here: Path) -> None:
    """One plan for what takes minutes in integers and hours in floats; h has images of its own."""
    more = f'adaptive = {N // 2}\nmore = {N}\nfloat_images = 3\ntimed = 2\nexperiments = "abh"\n'
    (here / "plan.toml").write_text(more + SETTINGS + MODELS)
    assert run("plan.toml", "-o", "out") == 0
    out, common = here / "out", "trained0.25-sigma0.25"
    lengths = {p.stem: len(votes(out, p.stem)) for p in (out / "votes").glob(f"*-{common}*.tsv")}
    assert lengths == {
        f"certify-IntRS-quant-{common}-adaptive": IMAGES,
        f"certify-IntRS-quant-{common}-adaptive-n{N}": IMAGES,
        f"certify-FloatRS-fp-{common}-adaptive": 3,
        f"certify-FloatRS-quant-{common}-adaptive": 3,
        f"certify-IntRS-quant-{common}-timed": 2,
        f"certify-FloatRS-fp-{common}-timed": 2,
    }
    title = f"IntRS-quant, at most {N} samples"
    table = next(t for t in section(out, "a")["tables"] if t["title"].startswith(title))
    check_rows(out, table, "0.25 (adaptive)", f"certify-IntRS-quant-{common}-adaptive-n{N}", average=False)
    assert votes(out, f"certify-IntRS-quant-{common}-adaptive")["n"].max() <= N // 2
    assert votes(out, f"certify-IntRS-quant-{common}-adaptive-n{N}")["n"].max() > N // 2
    assert [row[0] for row in section(out, "b")["tables"][0]["rows"]] == [*METHODS, title]
    assert f"runs of 3 or {IMAGES} images, at most {N // 2} or {N} samples per image" in section(out, "a")["done"]
    h = section(out, "h")
    assert h["done"].startswith(f"2 runs of 2 images, {N} samples per image")
    assert "runs of their own" in h["notes"][0]


def test_time_is_taken_where_both_methods_have_a_network(here: Path) -> None:
    """Without a network for the paper's sigma in h, as while the others are still being trained."""
    models = MODELS.replace('"0.25"', '"0.12"')
    (here / "plan.toml").write_text(f'timed = 2\nexperiments = "h"\n{SETTINGS}{models}')
    assert run("plan.toml", "-o", "out") == 0
    (table,) = section(here / "out", "h")["tables"]
    assert [row[:2] for row in table["rows"]] == [["IntRS-quant", "int8.onnx"], ["FloatRS-fp", FLOAT]]
    names = sorted(path.stem for path in (here / "out" / "votes").glob("*.tsv"))
    assert names == [f"certify-{method}-trained0.12-sigma0.12-timed" for method in ("FloatRS-fp", "IntRS-quant")]


def test_an_adaptive_run_resumes_and_verifies(
    stopping: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a kill: two lines and a half are kept as they are, the end is the same; then nothing is sampled."""
    plan = str(stopping.parent / "plan.toml")
    path = stopping / "votes" / "certify-IntRS-quant-trained0.25-sigma0.5-adaptive.tsv"
    before, lines = votes(stopping, path.stem), path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:9])
    assert run(plan, "-o", str(stopping)) == 0
    assert path.read_text().startswith("".join(lines[:3]))
    assert votes(stopping, path.stem).drop(columns="time").equals(before.drop(columns="time"))
    named = ["--model", str(stopping.parent / "int8.onnx"), "--data", str(stopping.parent / "tiny.npz")]
    assert main(["verify", str(path), *named]) == 0

    def refuse(*_: object) -> None:
        raise AssertionError("sampled again")

    monkeypatch.setattr("intrs.engines.Threads.submit", refuse)
    assert run(plan, "-o", str(stopping)) == 0
    assert "n = at most 400: done before" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [("adaptive = 500", "adaptive: n=400"), ('adaptive = 400\nalpha = "0.01"', "alpha: 1/1000 in the file")],
)
def test_a_changed_adaptive_plan_is_refused(
    here: Path, change: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = f'data = "tiny.npz"\nimages = 2\nn = {N}\nexperiments = "c"\n'
    models = '\n[models.IntRS-quant]\n"0.12" = "int8.onnx"\n'
    (here / "plan.toml").write_text(f"{begin}adaptive = {N}{models}")
    assert run("plan.toml", "-o", "out") == 0
    made = {path.stem for path in (here / "out" / "votes").glob("*.tsv")}
    assert made == {f"certify-IntRS-quant-trained0.12-sigma{s}-adaptive" for s in ("0.12", "0.25", "0.5", "1")}
    (here / "plan.toml").write_text(f"{begin}{change}{models}")
    assert run("plan.toml", "-o", "out") == 2
    assert words in capsys.readouterr().err


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_has_all_methods(whole: Path) -> None:
    found = read_page(whole / "report.html")
    names = ["IntRS-quant, σ 0.25", "FloatRS-fp, σ 0.25", "FloatRS-quant, σ 0.25", "IntRS-quant, σ 0.5"]
    assert [line["name"] for line in found.json["curves-data"]["runs"]] == names
    for i, name in enumerate(names):
        method, sigma = name.split(", σ ")
        check_numbers(found, i, whole / "votes" / f"certify-{method}-trained{sigma}-sigma{sigma}.tsv")
    shown = [curve["short"] for curve in found.json["curves-data"]["paper"] if curve["shown"]]
    assert shown == ["IntRS-quant σ 0.25", "IntRS-quant σ 0.5", "FloatRS-fp σ 0.25", "FloatRS-quant σ 0.25"]
    assert "FloatRS-fp, σ 0.25 and FloatRS-quant, σ 0.25 are in floating point, by the classical method" in found.text
    assert [each["name"] for each in found.json["training-data"]] == ["net"]
    assert "runs/gone, which does not exist" in (whole / "results.md").read_text()


def test_names_in_the_plan_stay_words(whole: Path) -> None:
    found = read_page(whole / "report.html")
    assert FLOAT in found.text, "as text it is there"
    assert not any(tag == "img" for tag, _ in found.tags)
    assert found.json["gallery-data"]["runs"][0]["classes"][0] == HOSTILE
    assert "<img" not in (whole / "results.md").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@in_browser
def test_the_page_of_a_quick_reproduction(browser: Browser, whole: Path) -> None:
    """Charts draw, values are shown and are those of the votes, and by keyboard too; nothing goes wrong."""
    browser.open(whole / "report.html")
    lines = "[...document.querySelectorAll('#chart path.line[data-run]')].map(p => p.getTotalLength())"
    assert len(browser.run(lines)) == 4
    assert min(browser.run(lines)) > 100
    assert browser.run("document.querySelectorAll('#chart path.line.paper').length") == 4
    names = browser.run("[...document.querySelectorAll('#chart text.name')].map(t => t.textContent)")
    assert names[1] == "FloatRS-fp, σ 0.25"
    browser.point("#chart", 0.2)
    (tip,) = browser.texts("#chart .tip")
    radius = float(re.search(r"radius ([\d.]+)", tip)[1])  # type: ignore[index]
    frame = votes(whole, "certify-FloatRS-fp-trained0.25-sigma0.25")
    hits = int(((frame["correct"] == 1) & (frame["radius"] >= radius)).sum())
    (line,) = browser.texts(".tip p[data-run='1']")
    assert f"{100 * hits / IMAGES:.1f} % {hits} of {IMAGES}" in line.replace("\n", " ")
    browser.click("#sigma input[value='0.5']")
    assert browser.texts("#legend li")[0] == "IntRS-quant, σ 0.5"
    assert len(browser.run(lines)) == 1
    browser.run("document.getElementById('chart').focus()")
    browser.press("ArrowRight", 3)
    assert "radius 0.03" in browser.texts("#chart .tip")[0]
    browser.point("#chart-accuracy", 0.95)
    assert "quantization-aware" in browser.texts("#chart-accuracy .tip")[0]
    assert browser.complaints == []
    assert {url.partition(":")[0] for url in browser.requests} <= {"file", "data"}


@in_browser
def test_its_images_can_be_filtered_and_sorted(browser: Browser, whole: Path) -> None:
    browser.open(whole / "report.html")
    browser.choose("#pick-run", "FloatRS-fp, σ 0.25")
    frame = votes(whole, "certify-FloatRS-fp-trained0.25-sigma0.25")
    shown = "[...document.querySelectorAll('.card')].map(card => +card.dataset.idx)"
    assert browser.run(shown) == list(frame["idx"])
    browser.choose("#pick-sort", "many")
    assert browser.run(shown) == list(frame.sort_values(["votes", "idx"], ascending=[False, True])["idx"])
    browser.choose("#pick-sort", "index")
    for kind, mask in (("abstained", frame["predict"] == -1), ("right", frame["correct"] == 1)):
        assert mask.any()
        browser.choose("#pick-kind", kind)
        assert browser.run(shown) == list(frame[mask]["idx"])
    browser.choose("#pick-kind", "every")
    browser.choose("#pick-class", "0")
    assert browser.run(shown) == list(frame[frame["label"] == 0]["idx"])
    assert any(HOSTILE in verdict for verdict in browser.texts(".verdict"))
    assert browser.run("document.querySelectorAll('img[src=x]').length") == 0
    assert browser.run("document.title") == "4 runs compared"
    assert browser.complaints == []


@in_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_its_page_fits_and_can_be_read(browser: Browser, whole: Path, dark: bool, width: int) -> None:
    browser.open(whole / "report.html", width=width, height=844, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.point("#chart", 0.9)
    left, right = browser.run("(b => [b.left, b.right])(document.querySelector('.tip').getBoundingClientRect())")
    assert 0 <= left < right <= width
    assert browser.run(CONTRAST) >= 4.5
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 60) is dark
    assert browser.complaints == []


@in_browser
def test_its_page_by_keyboard(browser: Browser, whole: Path) -> None:
    browser.open(whole / "report.html")
    seen = []
    for _ in range(40):
        browser.press("Tab")
        seen.append(browser.run("document.activeElement.id || document.activeElement.name"))
    wanted = ["measure", "sigma", "chart", "run0", "run3", "copy-markdown", "chart-loss", "chart-accuracy", "pick-run"]
    assert [name for name in seen if name in wanted][: len(wanted)] == wanted


# --- more experiments ------------------------------------------------------------------------------------------------


def test_browser(here: Path) -> None:
    """Experiment j stands on what bench.web measured, and says how if nobody did."""
    (here / "plan.toml").write_text(SETTINGS + 'experiments = "j"\n' + MODELS)
    reproduce(here / "plan.toml", here / "j")
    assert "bench.web" in section(here / "j", "j")["not_run"][0]
    rates = {"intrs, one worker": [1000.0, 1600.0, 2000.0], "onnxruntime-web fp32": [250.0, 200.0, 260.0]}
    (here / "j" / "browser.json").write_text(json.dumps({"browser": "Some/1", "rates": rates}))
    reproduce(here / "plan.toml", here / "j")
    made = section(here / "j", "j")
    assert made["tables"][0]["rows"] == [
        ["intrs, one worker", "62 s", "1,600", "1.00"], ["onnxruntime-web fp32", "400 s", "250", "6.40"]
    ]  # fmt: skip
    assert "Some/1" in made["done"]
    for wrong in ("{}", "[]", '{"browser": "x", "rates": {"intrs, one worker": [0]}}', "not JSON"):
        (here / "j" / "browser.json").write_text(wrong)
        with pytest.raises(ResultsError, match="measure again"):
            reproduce(here / "plan.toml", here / "j")


def test_prediction_at_the_samples_of_certificates_needs_no_votes_of_its_own(here: Path) -> None:
    (here / "plan.toml").write_text(SETTINGS.replace(f"n = {N}", "n = 1000") + 'experiments = "d"\n' + MODELS)
    assert run("plan.toml", "-o", "out") == 0
    names = sorted(p.stem for p in (here / "out" / "votes").glob("*IntRS*.tsv"))
    assert names == ["certify-IntRS-quant-trained0.25-sigma0.25", "predict-IntRS-quant-trained0.25-sigma0.25-n100"]
    assert [row[1] for row in section(here / "out", "d")["tables"][0]["rows"]] == ["100", "1,000"] * 2


def test_attacks(here: Path) -> None:
    pytest.importorskip("torch")
    settings = SETTINGS.replace("attacked = 0", "attacked = 2") + 'experiments = "fg"\n'
    undefended = f'[undefended]\nfloat = "{FLOAT}"\nint8 = "int8.onnx"\n'
    (here / "plan.toml").write_text(settings + MODELS + undefended)
    assert run("plan.toml", "-o", "out") == 0
    smoothed, bare = section(here / "out", "f"), section(here / "out", "g")
    assert [row[0] for row in smoothed["tables"][0]["rows"]] == ["0", "0.12", "0.25", "0.5", "1"]
    assert len(bare["tables"]) == 2
    for method, table in zip(("IntRS-quant", "FloatRS-fp"), smoothed["tables"], strict=True):
        assert table["title"].startswith(method)
        frame = pd.read_csv(here / "out" / f"attack-{method}" / "attack.tsv", delimiter="\t")
        for eps, cell, *_ in table["rows"]:
            assert number(cell) == pytest.approx(frame[frame["eps"] == float(eps)]["correct"].mean(), abs=6e-4)
    assert not smoothed["not_run"]
    drawn = [figure for made in (smoothed, bare) for figure in made["figures"]]
    assert drawn == ["figures/attack-f.svg", "figures/attack-g.svg"]
    for path in drawn:
        assert (here / "out" / path).read_bytes().startswith(b"<?xml")


def test_attacks_on_floats_without_onnx_runtime(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "onnxruntime" else name)
    settings = SETTINGS.replace("attacked = 0", "attacked = 1") + 'experiments = "f"\n'
    (here / "plan.toml").write_text(settings + MODELS)
    assert run("plan.toml", "-o", "out") == 0
    made = section(here / "out", "f")
    assert [table["title"].split(",")[0] for table in made["tables"]] == ["IntRS-quant"]
    assert made["not_run"] == ["FloatRS-fp needs ONNX Runtime (pip install 'intrs[float]')"]


# --- data of every kind ----------------------------------------------------------------------------------------------


def save_pictures(folder: Path, side: int = 4) -> None:
    """Eight image files."""
    folder.mkdir(parents=True)
    for number, pixels in enumerate(images()[0]):
        Image.fromarray(pixels).resize((side, side)).save(folder / f"{number}.png")


@pytest.mark.parametrize(
    ("experiments", "words"),
    [("abcdefghij", "a, c, d, e, f, g of the"), ("de", "d, e of the"), ("ab", "a of the"), ("f", "f of the")],
)
def test_right_answers_are_counted_of_images_with_labels_only(
    here: Path, experiments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_pictures(here / "pics")
    plan = SETTINGS.replace("tiny.npz", "pics") + f'experiments = "{experiments}"\n'
    (here / "plan.toml").write_text(plan + MODELS)
    assert run("plan.toml", "-o", "out") == 2
    error = capsys.readouterr().err
    assert f"pics has no labels, without which no answer is right or wrong: {words}" in error
    assert 'say experiments = "bhij"' in error
    assert list((here / "out" / "votes").iterdir()) == []


def test_what_needs_no_labels(here: Path) -> None:
    save_pictures(here / "pics")
    (here / "plan.toml").write_text(SETTINGS.replace("tiny.npz", "pics") + 'experiments = "bhij"\n' + MODELS)
    assert run("plan.toml", "-o", "out") == 0
    name = "certify-IntRS-quant-trained0.25-sigma0.25"
    (cp,) = section(here / "out", "b")["tables"]
    assert number(cp["rows"][0][2]) == pytest.approx((votes(here / "out", name)["predict"] >= 0).mean(), abs=6e-4)
    assert (here / "out" / "report.html").exists()
    again = judged_again(read(here / "out" / "votes" / f"{name}.tsv"), "0.1", 48)
    assert not again.has_labels
    assert again.run
    assert again.run.alpha == Fraction(1, 10)


def test_labels_that_are_found_by_name(here: Path) -> None:
    """Folders of two of the network's ten classes, by whose names the page shows the images."""
    for name in ("cat", "dog"):
        save_pictures(here / "pics" / name, side=32)
    plan = 'data = "pics"\nimages = 16\nskip = 5\nn0 = 10\nn = 50\nattacked = 0\nexperiments = "ah"\n'
    (here / "plan.toml").write_text(plan + '[models.IntRS-quant]\n"0.25" = "resnet8-sigma0.25"\n')
    assert run("plan.toml", "-o", "out") == 0
    assert list(votes(here / "out", "certify-IntRS-quant-trained0.25-sigma0.25")["label"]) == [3, 3, 5, 5]
    page = read_page(here / "out" / "report.html")
    (shown,) = page.json["gallery-data"]["runs"]
    assert [(card["label"], shown["classes"][card["label"]]) for card in shown["cards"]] == [(3, "cat")] * 2 + [
        (5, "dog")
    ] * 2


# --- doing it again --------------------------------------------------------------------------------------------------


def test_a_second_run_samples_nothing(
    whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (whole / "results.json").read_text()

    def refuse(*_: object) -> None:
        raise AssertionError("sampled again")

    monkeypatch.setattr("intrs.engines.Threads.submit", refuse)
    assert run(str(whole.parent / "plan.toml"), "-o", str(whole)) == 0
    assert (whole / "results.json").read_text() == before
    assert "nowhere.onnx: the plan names it" in capsys.readouterr().out


def test_packed_votes_are_read_and_left_alone(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was packed once it was whole gives the same tables; what was packed too early is refused."""
    folder = shutil.copytree(whole.parent, tmp_path / "copy") / whole.name
    for path in (folder / "votes").glob("*.tsv"):
        path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    before = sorted((path.name, path.read_bytes()) for path in (folder / "votes").iterdir())
    monkeypatch.chdir(folder.parent)
    (folder / "results.json").unlink()
    reproduce("plan.toml", folder, quick=True)
    assert section(folder, "a")["tables"] == section(whole, "a")["tables"]
    assert sorted((path.name, path.read_bytes()) for path in (folder / "votes").iterdir()) == before
    early = next(iter((folder / "votes").glob("certify-IntRS*.tsv.xz")))
    early.write_bytes(lzma.compress(b"".join(lzma.decompress(early.read_bytes()).splitlines(keepends=True)[:-2])))
    with pytest.raises(ResultsError, match="cannot be a packed one"):
        reproduce("plan.toml", folder, quick=True)


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


def test_a_network_that_does_not_fit_is_found_before_anything_is_sampled(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last network of the plan takes other images: nothing of the first is sampled."""
    (here / "plan.toml").write_text(SETTINGS + MODELS.replace("nowhere.onnx", "resnet20-sigma0.25"))
    assert run("plan.toml", "-o", "out") == 2
    error = capsys.readouterr().err
    assert "FloatRS-quant trained at sigma 1, resnet20-sigma0.25: tiny has images of 4 x 4 x 3" in error
    assert list((here / "out" / "votes").iterdir()) == []


def test_a_network_to_be_attacked_is_checked_first_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    settings = SETTINGS.replace("attacked = 0", "attacked = 1")
    undefended = '[undefended]\nfloat = "resnet20-clean-fp32"\nint8 = "resnet20-clean"\n'
    (here / "plan.toml").write_text(settings + MODELS + undefended)
    assert run("plan.toml", "-o", "out") == 2
    assert "but resnet20-clean-fp32 takes 32 x 32 x 3" in capsys.readouterr().err
    assert list((here / "out" / "votes").iterdir()) == []


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('[models.FloatRS-fp]\n"0.25" = "int8.onnx"', "models.FloatRS-fp.0.25: int8.onnx is quantized, and a network"),
        (f'[models.FloatRS-quant]\n"0.5" = "{FLOAT}"', f"models.FloatRS-quant.0.5: {FLOAT} is in float32, and a quan"),
        (f'[models.IntRS-quant]\n"0.25" = "{FLOAT}"', "it is a float model, which discrete noise and integers cannot"),
    ],
)
def test_a_network_of_another_form_is_not_the_method_s(
    here: Path, entry: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "plan.toml").write_text(SETTINGS + 'experiments = "a"\n' + entry)
    assert run("plan.toml", "-o", "out") == 2
    assert words in capsys.readouterr().err
    assert list((here / "out" / "votes").iterdir()) == []


@pytest.mark.parametrize(
    ("experiments", "entry", "words"),
    [
        ("f", '[models.FloatRS-fp]\n"0.25" = "int8.onnx"', "models.FloatRS-fp.0.25: int8.onnx is quantized"),
        ("g", '[undefended]\nfloat = "int8.onnx"\nint8 = "int8.onnx"', "undefended.float: int8.onnx is quantized"),
        ("g", f'[undefended]\nfloat = "{FLOAT}"\nint8 = "{FLOAT}"', f"undefended.int8: {FLOAT} is in float32"),
    ],
)
def test_nor_that_of_an_attack(
    here: Path, experiments: str, entry: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    settings = SETTINGS.replace("attacked = 0", "attacked = 1")
    (here / "plan.toml").write_text(f'{settings}experiments = "{experiments}"\n{entry}')
    assert run("plan.toml", "-o", "out") == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in (here / "out").iterdir()] == ["votes"]


def test_votes_of_another_plan_are_not_shown(here: Path) -> None:
    """What lies in the folder and is not asked for was not compared with the plan."""
    plan = SETTINGS + '{}\n[models.IntRS-quant]\n"0.25" = "int8.onnx"\n'
    (here / "plan.toml").write_text(plan.format('experiments = "a"'))
    assert [path.name for path in reproduce("plan.toml", "out").pages][2:] == ["report.html"]
    (here / "out" / "report.html").unlink()
    (here / "plan.toml").write_text(plan.format('alpha = "0.01"\nseed = 2\nexperiments = "i"'))
    assert [path.name for path in reproduce("plan.toml", "out").pages] == ["results.md", "results.json"]
    assert not (here / "out" / "report.html").exists()


def test_changed_settings_are_found_before_anything_is_sampled(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that was made with another seed is the last of the plan."""
    plan = SETTINGS + '{}experiments = "a"\n[models.IntRS-quant]\n"0.5" = "int8.onnx"\n{}'
    (here / "plan.toml").write_text(plan.format("", ""))
    assert run("plan.toml", "-o", "out") == 0
    before = sorted((here / "out" / "votes").iterdir())
    (here / "plan.toml").write_text(plan.format("seed = 2\n", '"0.25" = "int8.onnx"\n'))
    assert run("plan.toml", "-o", "out") == 2
    assert "it was made with other settings; choose another folder\n  seed: 0x1 in the file" in capsys.readouterr().err
    assert sorted((here / "out" / "votes").iterdir()) == before


def test_every_results_file_is_read_once(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables, figures and the page are made from one reading."""
    seen: list[Path] = []

    def counting(path: Path) -> Results:
        seen.append(path)
        return read(path)

    monkeypatch.setattr(folder_module, "read", counting)
    reproduce(whole.parent / "plan.toml", whole, quick=True)
    assert sorted(seen) == sorted((whole / "votes").glob("*.tsv"))


def test_a_reproduction_as_a_function(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It says what it does by callbacks and prints nothing; a second call finds all done."""
    plan = SETTINGS + 'experiments = "ai"\n[models.IntRS-quant]\n"0.25" = "int8.onnx"\n"0.5" = "int8.onnx"\n'
    (here / "plan.toml").write_text(plan)
    steps: list[Step] = []
    heard: list[Progress] = []
    made = reproduce("plan.toml", "out", threads=1, progress=heard.append, announce=steps.append)
    names = [f"certify-IntRS-quant-trained{sigma}-sigma{sigma}" for sigma in ("0.25", "0.5")]
    assert [(step.number, step.total, step.name, step.left) for step in steps] == [
        (1, 2, names[0], IMAGES),
        (2, 2, names[1], IMAGES),
    ]
    assert [step.seconds for step in steps] == [None, None]  # without an outlook nothing is timed
    assert heard[-1][:3] == (IMAGES * (N + 50), IMAGES * (N + 50), "samples")
    assert (made.folder, [section.experiment for section in made.sections]) == (Path("out"), ["a", "i"])
    assert [path.name for path in made.pages] == ["results.md", "results.json", "report.html"]
    assert all(path.exists() for path in made.pages)
    assert repr(made) == "Reproduction('out', experiments: 2, tables: 1)"
    steps.clear()
    reproduce(read_plan(Path("plan.toml")), Path("out"), announce=steps.append)
    assert [step.left for step in steps] == [0, 0]
    assert [step.seconds for step in steps] == [0, 0]
    assert capfd.readouterr() == ("", "")


def test_all_work_is_said_before_it_begins(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "plan.toml").write_text(SETTINGS + 'experiments = "a"\n' + MODELS)
    outlooks: list[list[Step]] = []
    reproduce("plan.toml", "out", threads=1, outlook=lambda steps: outlooks.append(list(steps)))
    (steps,) = outlooks
    assert [step.number for step in steps] == [1, 2, 3, 4]
    for step in steps:
        assert step.seconds == pytest.approx(IMAGES * (N + 50) / step.rate)
    assert steps[0].rate == steps[1].rate > 0  # one network, certified at two sigmas
    assert run("plan.toml", "-o", "out") == 0
    said = capsys.readouterr().out
    assert said.count("done before") == 4
    assert "nothing to sample" in said


def test_every_other_image(here: Path) -> None:
    plan = SETTINGS.replace(f"images = {IMAGES}", "images = 3\nskip = 2") + 'experiments = "a"\n' + MODELS
    (here / "plan.toml").write_text(plan)
    reproduce("plan.toml", "out")
    assert list(votes(here / "out", "certify-IntRS-quant-trained0.25-sigma0.25")["idx"]) == [3, 43, 83]  # not 23 and 63


def test_how_many_images_is_what_was_taken(here: Path) -> None:
    plan = SETTINGS.replace(f"images = {IMAGES}", "images = 500\nskip = 3\nfloat_images = 2").replace(
        f"n = {N}", "n = 60"
    )
    (here / "plan.toml").write_text(plan + 'experiments = "a"\n' + MODELS)
    reproduce("plan.toml", "out")
    taken = -(-len(open_data("tiny.npz")) // 3)
    assert f"{taken} images (2 of the float methods)" in (here / "out/results.md").read_text()


def test_a_network_has_a_rate_for_every_engine(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same int8 file by integers and in ONNX Runtime."""
    monkeypatch.setattr("intrs.job.Job.rate", lambda job: 5000.0 if job.run.noise.on_integers else 400.0)
    (here / "plan.toml").write_text(SETTINGS + 'experiments = "a"\n' + MODELS)
    outlooks: list[list[Step]] = []
    reproduce("plan.toml", "out", outlook=lambda steps: outlooks.append(list(steps)))
    assert {(step.name.split("-")[2], step.rate) for step in outlooks[0]} == {
        ("fp", 400.0),
        ("quant", 5000.0),
        ("quant", 400.0),
    }


def test_the_size_of_a_network_is_that_of_the_plan_s(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed runs keep the path by which they were made, which may lead nowhere from the folder of today."""
    folder = shutil.copytree(whole.parent, tmp_path / "copy") / whole.name
    for path in (folder / "votes").glob("*.tsv"):
        path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    monkeypatch.chdir(tmp_path)
    reproduce("copy/plan.toml", folder, quick=True)
    assert section(folder, "h")["tables"] == section(whole, "h")["tables"]


def test_a_folder_of_a_training_run_has_the_network_of_the_method(here: Path) -> None:
    """FloatRS-fp takes the network in float32, the other methods the one in int8."""
    (here / "run").mkdir()
    (here / "run" / "net.onnx").write_bytes((here / "int8.onnx").read_bytes())
    plan = 'data = "tiny.npz"\n' + "".join(f'[models.{method}]\n"0.25" = "run"\n' for method in METHODS)
    (here / "plan.toml").write_text(plan)
    assert read_plan(Path("plan.toml")).absent == ("run",)  # float32 is not there yet
    (here / "run" / "net-fp32.onnx").write_bytes((here / FLOAT).read_bytes())
    models = {method: Path(spec).name for method, _, spec in read_plan(Path("plan.toml")).models}
    assert models == {"IntRS-quant": "net.onnx", "FloatRS-fp": "net-fp32.onnx", "FloatRS-quant": "net.onnx"}
    (here / "run" / "other.onnx").touch()
    with pytest.raises(IntrsError, match=r"has 2 networks; name one: net\.onnx, other\.onnx"):
        read_plan(Path("plan.toml"))


def test_other_folders_are_left_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "letter.txt").write_text("dear")
    assert run("plan.toml", "-o", "mine") == 2
    assert "not a folder of `intrs reproduce`" in capsys.readouterr().err


def test_a_run_folder_is_not_taken_for_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IntrsError, match="would be taken for the plan's data 'caltech101'; choose another name"):
        folder_module.open_folder(Plan("caltech101"), Path("caltech101"))
    assert not list(tmp_path.iterdir())


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
        ('data = "tiny.npz"\nadaptive = true', "adaptive must be a whole number from 0"),
        ('data = "tiny.npz"\ntraining = "runs"', "training must be a list"),
        ('data = "tiny.npz"\ntraining = [3]', "training must be text"),
        ('data = "tiny.npz"\ntraining = ["."]', "not the folder of a training run"),
        ('data = "tiny.npz"\nmodels = 3', "models must be a table"),
        ('data = "tiny.npz"\n[models.IntRS]\n"0.25" = "x"', "the methods are IntRS-quant"),
        ('data = "tiny.npz"\n[models.IntRS-quant]\nmuch = "x"', "sigma: expected a number"),
        (
            'data = "tiny.npz"\n[models.IntRS-quant]\n"0.125" = "int8.onnx"',
            "models.IntRS-quant.0.125: the experiments are made at sigma 0.12, 0.25, 0.5, 1 alone",
        ),
        ('data = "tiny.npz"\n[models.IntRS-quant]\n"0.5" = 3', "models.IntRS-quant.0.5 must be text"),
        ('data = "tiny.npz"\n[models.IntRS-quant]\n"0.5" = "x"\n"1/2" = "y"', "has a model already"),
        ('data = "tiny.npz"\n[undefended]\nfloat = "x"', "must name float and int8"),
        ('data = "nothing.npz"', "nothing.npz"),
        ('data = "tiny.npz"\nn = ' + "9" * 5000, "not a TOML file"),
        ('data = "tiny.npz"\nn = 0x' + "f" * 5000, "not a number too long to print"),
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
    assert {spec for _, _, spec in plan.models} <= {*zoo.model_names(), *zoo.float_names()}
    assert len(plan.models) == len(METHODS) * len(SIGMAS)
    assert plan.data in zoo.data_names()
    assert (plan.quick().images, plan.quick().n, plan.quick().attacked) == (50, 1000, 0)
    assert plan.quick().quick() == plan.quick()


def test_the_papers_tables_have_the_same_shape() -> None:
    assert set(other_numbers()["time"]) == set(PAPERS)
    theirs = other_numbers()["other_sigma"]
    for trained in ("0.12", "0.25"):
        for method in ("FloatRS-fp", "IntRS-quant"):
            assert [Fraction(s) for s in theirs[trained][method]] == list(SIGMAS)
            assert all(len(row) == len(theirs["radii"]) for row in theirs[trained][method].values())
