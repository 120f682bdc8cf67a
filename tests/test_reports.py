"""The report: its numbers against pandas, its words, and the page itself in a real browser."""

from __future__ import annotations

import base64
import contextlib
import copy
import io
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from browser import CONTRAST, Browser, in_browser
from PIL import Image
from runs import prediction, predictions, with_fields
from test_metrics import EXCERPT, HEADER, certified_accuracy, log_file
from test_results import ROWS, RUN, write
from tiny_model import images, save_images, save_model

from intrs import metrics, reports, results
from intrs.cli import main
from intrs.cli.arguments import asked, parse
from intrs.data import open_data
from intrs.errors import IntrsError
from intrs.exact import plain
from intrs.job import open_job
from intrs.noise import Noise
from intrs.reports import curves
from intrs.reports import page as page_module
from intrs.reports.provenance import repeat
from intrs.reports.runs import curve, open_runs, paper, paper_curves, table_radii
from intrs.reports.tables import text
from intrs.reports.words import assumptions, cautions, findings, headline, meaning, votes_are_estimates
from intrs.request import REQUESTS
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.progress import Progress
    from intrs.results import Row

IMAGES = 48
HOSTILE = "<img src=x onerror=\"document.title='broken'\">&amp;'"
HOSTILE_FILE = "a<b>&'\"$title.tsv"


class Page(HTMLParser):
    """A page read by the standard library: the table's cells, the JSON, and all tags."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[dict[str, Any]] = []
        self.json: dict[str, Any] = {}
        self.text = ""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._measure, self._run = "", -1
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in ("meta", "input", "img"):
            self._open.append((tag, found))
        self._run = int(found["data-run"] or 0) if tag == "tr" and "data-run" in found else self._run

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        tag, found = self._open[-1] if self._open else ("", {})
        if tag == "script" and found.get("type") == "application/json":
            self.json[str(found["id"])] = json.loads(data)
        kinds = [str(a.get("class")) for _, a in self._open]
        cell = next((a for _, a in reversed(self._open) if "data-metric" in a), None)
        if cell and kinds[-1] == "value":
            measure = next((kind.removeprefix("of-") for kind in kinds if kind.startswith("of-")), "")
            self.cells.append({**cell, "run": self._run, "measure": measure, "value": data})

    def cell(self, run: int, metric: str, radius: str | None = None, measure: str = "") -> float:
        """The one number that is marked so."""
        (found,) = [
            c
            for c in self.cells
            if (c["run"], c["data-metric"], c.get("data-radius"), c["measure"]) == (run, metric, radius, measure)
        ]
        return float(found["value"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the tiny model on images with hostile class names, under two noises, and pages about them."""
    made = tmp_path_factory.mktemp("report")
    save_model(made / "tiny.onnx")
    save_images(made / "tiny.npz", IMAGES, classes=np.array([HOSTILE, "two", "three"]))
    for name, sigma in ((HOSTILE_FILE, "0.25"), ("wide.tsv", "0.5")):
        command = ["certify", "tiny.onnx", "tiny.npz", "--sigma", sigma, "--n", "300", "--seed", "7", "--out", name]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(made)
            assert main(command) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        shown = ["--data", "tiny.npz"]
        assert main(["report", HOSTILE_FILE, "-o", "one.html", *shown, "--title", HOSTILE]) == 0
        assert main(["report", HOSTILE_FILE, "wide.tsv", "-o", "two.html", *shown, "--paper", "cifar10"]) == 0
        assert main(["report", str(EXCERPT), "-o", "log.html", "--paper", "cifar10"]) == 0
    return made


def read_page(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


# --- Numbers ---------------------------------------------------------------------------------------------------------


def check_numbers(found: Page, run: int, path: Path) -> None:
    """Every number of a line of the table, from the TSV by pandas."""
    frame = pd.read_csv(path, delimiter="\t")
    answered = frame[frame.predict != -1]
    radii = sorted({c["data-radius"] for c in found.cells if c["run"] == run and c.get("data-radius")})
    assert "0" in radii
    for radius in radii:
        exact = Fraction(radius)
        for measure, share in (
            ("all", certified_accuracy(frame, exact)),
            ("answered", certified_accuracy(answered, exact)),
            ("certified", (answered.radius >= float(exact)).sum() / len(frame)),
        ):
            assert found.cell(run, "at", radius, measure) == pytest.approx(100 * share, abs=0.05 + 1e-9)
    assert found.cell(run, "cp") == pytest.approx(100 * len(answered) / len(frame), abs=0.05 + 1e-9)
    averages = [cell for cell in found.cells if cell["run"] == run and cell.get("data-metric") == "acr"]
    assert len(averages) == ("rule" not in frame), "adaptive runs stop short of it"
    if averages:
        acr = (frame.radius * frame.correct).mean()
        assert found.cell(run, "acr") == pytest.approx(acr, abs=0.0005 + 1e-6)


def test_the_table_against_pandas(folder: Path) -> None:
    found = read_page(folder / "two.html")
    check_numbers(found, 0, folder / HOSTILE_FILE)
    check_numbers(found, 1, folder / "wide.tsv")
    counts = pd.read_csv(folder / "wide.tsv", delimiter="\t")
    right = [np.argmax([int(c) for c in line.split(",")]) for line in counts.counts] == counts.label
    assert found.cell(1, "plain") == pytest.approx(100 * right.mean(), abs=0.05 + 1e-9)


def test_the_table_of_a_public_log(folder: Path) -> None:
    check_numbers(read_page(folder / "log.html"), 0, EXCERPT)


@pytest.mark.parametrize(("page", "run", "name"), [("two.html", 0, HOSTILE_FILE), ("log.html", 0, EXCERPT)])
def test_the_curves_against_pandas(folder: Path, page: str, run: int, name: str) -> None:
    data = read_page(folder / page).json["curves-data"]
    frame = pd.read_csv(folder / name, delimiter="\t")
    answered = frame[frame.predict != -1]
    points = data["runs"][run]["measures"]
    assert points["all"]["whole"] == [len(frame)]
    assert points["answered"]["whole"] == [len(answered)]
    for k, part in enumerate(points["all"]["part"]):
        radius = round(k * data["step"], 6)
        assert part == ((frame.correct == 1) & (frame.radius >= radius)).sum()
        assert points["answered"]["part"][k] == part
        assert points["certified"]["part"][k] == (answered.radius >= radius).sum()
    assert points["all"]["part"][-1] == 0, "a curve ends where nothing is certified"
    assert all(low <= part / len(frame) <= high + 1e-4 for part, low, high in
               zip(points["all"]["part"], points["all"]["low"], points["all"]["high"], strict=True))  # fmt: skip


def voted(path: Path, share: Fraction) -> int:
    """Images whose true class has this share of the votes or more, by pandas."""
    frame = pd.read_csv(path, delimiter="\t")
    counts = [[int(c) for c in line.split(",")] for line in frame.counts]
    return sum(Fraction(line[label], sum(line)) >= share for line, label in zip(counts, frame.label, strict=True))


@pytest.mark.parametrize(("run", "name"), [(0, HOSTILE_FILE), (1, "wide.tsv")])
def test_the_votes_against_pandas(folder: Path, run: int, name: str) -> None:
    found = read_page(folder / "two.html")
    data = found.json["votes-data"]
    shares = [Fraction(share) / 100 for share in data["shares"]]
    assert [shares[0], shares[-1]] == [Fraction(0), Fraction(1)]
    assert shares == sorted(set(shares))
    points = data["runs"][run]["points"]
    assert points["part"] == [voted(folder / name, share) for share in shares]
    assert len(set(points["part"])) > 5, "a run whose images differ"
    cells = {c["data-share"]: c["value"] for c in found.cells if (c["run"], c["data-metric"]) == (run, "voted")}
    assert list(cells) == ["1/10", "1/2", "9/10", "99/100", "1"]
    for share, value in cells.items():
        assert value == f"{100 * voted(folder / name, Fraction(share)) / IMAGES:.1f}"


def test_the_axis_of_the_votes(folder: Path) -> None:
    """Each share stands at its quantile; the ends are for what 300 samples cannot tell from no votes or all."""
    data, normal = read_page(folder / "two.html").json["votes-data"], NormalDist()
    last = len(data["shares"]) - 1
    for k in range(1, last):
        place = data["low"] + k * data["step"]
        assert normal.inv_cdf(float(data["shares"][k]) / 100) == pytest.approx(place, abs=0.004)
    high = data["low"] + last * data["step"]
    assert normal.inv_cdf(299 / 300) < high < normal.inv_cdf(1 - 1 / 3000)
    marks = {name: place for place, name in data["marks"]}
    assert (marks["0 %"], marks["50 %"], marks["100 %"]) == (data["low"], 0, pytest.approx(high))
    assert marks["99 %"] == pytest.approx(normal.inv_cdf(0.99), abs=1e-4)
    assert "99.99 %" not in marks, "beyond the end"


def test_the_words_on_votes(folder: Path, tmp_path: Path) -> None:
    found = read_page(folder / "two.html").text
    assert "How many votes the true class gets" in found
    assert "A share of votes is an estimate, from 300 votes per image. The table" in found
    fixed = write(tmp_path / "a.tsv", ROWS)
    rows = [_adaptive(row, 50 if i else 100) for i, row in enumerate(ROWS)]
    asked = write(tmp_path / "b.tsv", rows, with_fields(RUN, adaptive="n=100 radii=1/4 give_up=1/2"))
    words = votes_are_estimates(open_runs([fixed, asked], ["A", "B"]))
    assert "from 100 votes per image in A; 50 to 100 votes per image in B. Adaptive runs stop as soon as" in words
    assert "more extreme than they are" in words


def _adaptive(row: Row, n: int) -> Row:
    """As an adaptive run may end it after n samples."""
    counts = tuple(count * n // 100 for count in row.counts)
    return replace(row, n=n, votes=counts[1], counts=counts, look=0, rule="spend-" + "0" * 16)


def test_a_page_without_votes_says_nothing_of_them(folder: Path, tmp_path: Path) -> None:
    """Logs of other programs, and the network itself; beside a run with votes they are left out."""
    found = read_page(folder / "log.html")
    assert found.json["votes-data"] == {"runs": []}
    assert not [a for _, a in found.tags if a.get("id") in ("votes", "chart-votes")]
    write(tmp_path / "p.tsv", predictions(ROWS), with_fields(prediction(RUN), sigma="0"))
    assert 'id="votes"' not in page_module.page(open_runs([tmp_path / "p.tsv"]))
    log = log_file(tmp_path / "l.tsv", ["0\t1\t1\t0.5\t1\t-"])
    both = Page(page_module.page(open_runs([log, write(tmp_path / "r.tsv", ROWS)], ["L", "R"])))
    assert [(run["number"], run["name"]) for run in both.json["votes-data"]["runs"]] == [(1, "R")]
    assert {c["run"] for c in both.cells if c["data-metric"] == "voted"} == {1}


def test_the_bars(folder: Path) -> None:
    frame = pd.read_csv(EXCERPT, delimiter="\t")
    found = (folder / "log.html").read_text()
    parts = {name: int(count) for name, count in re.findall(r'data-part="(\w+)">(\d+)<', found)}
    quiet = int((frame.predict == -1).sum())
    assert parts == {"right": frame.correct.sum(), "wrong": 500 - frame.correct.sum() - quiet, "abstained": quiet}


def test_the_paper_s_tables() -> None:
    """A few cells as printed, and the shape of both tables."""
    tables = paper()["tables"]
    assert tables["cifar10"]["certified_accuracy"]["IntRS-quant"]["0.50"] == [
        "0.52",
        "0.39",
        "0.29",
        "0.22",
        "0.15",
        "0.08",
    ]
    assert tables["caltech101"]["certified_accuracy"]["FloatRS-quant"]["1.00"][-1] == "0.12"
    for table in tables.values():
        for rows in table["certified_accuracy"].values():
            assert list(rows) == ["0.12", "0.25", "0.50", "1.00"]
            assert {len(values) for values in rows.values()} == {len(table["radii"])}
    (curve,) = [c for c in paper_curves("cifar10") if (c.method, c.sigma) == ("FloatRS-fp", Fraction("0.25"))]
    assert (curve.radii, curve.values) == ((0.25, 0.5, 0.75), (0.62, 0.44, 0.27)), "zeros are left out"


def test_the_paper_s_curves_on_the_page(folder: Path) -> None:
    found = read_page(folder / "log.html").json["curves-data"]["paper"]
    assert [curve["short"] for curve in found] == ["IntRS-quant σ 0.5", "FloatRS-fp σ 0.5", "FloatRS-quant σ 0.5"]
    assert found[0]["values"] == [0.52, 0.39, 0.29, 0.22, 0.15, 0.08]
    assert [curve["shown"] for curve in found] == [True, False, False]


# --- Words -----------------------------------------------------------------------------------------------------------


def test_the_words_of_one_run(tmp_path: Path) -> None:
    entries = open_runs([write(tmp_path / "r.tsv", ROWS)])
    assert headline(entries) == "1 of 4 images keeps its correct class under every perturbation within radius 0.25."
    assert findings(entries[0]) == (
        "Of 4 images, 3 (75.0 %) got a certificate: a class and a radius. For 2 (50.0 % of all) the class is correct; "
        "for 1 (25.0 %) it is correct and holds to radius 0.25 or more. The classifier abstained on 1."
    )
    (sentence,) = meaning(entries)
    assert "Each certificate fails with probability at most 0.001" in sentence
    words = " ".join(assumptions(entries, 3072))
    for expected in ("α = 0.001", "σ 0.25 (63.75 pixel levels)", "one value changed by 63 levels", "all 3,072 values",
                     "discrete Gaussian", "ChaCha20", "at most 0.004 such answers", "Clopper"):  # fmt: skip
        assert expected in words, expected
    assert "proved for perturbations of one value" not in words
    assert cautions(entries) == []


def norms(path: Path, dimension: int | None, **fields: Any) -> str:
    """What the page says of other norms."""
    entries = open_runs([write(path, ROWS, with_fields(RUN, **fields))])
    return " ".join(words for words in assumptions(entries, dimension) if "other norms" in words)


def test_other_norms(tmp_path: Path) -> None:
    """The median of 0, 65024 and 65025 squared levels; every number is the largest that is covered."""
    words = norms(tmp_path / "a.tsv", 3072)
    assert "of at most r/√3,072 in each value (ℓ∞)" in words
    assert "the median certificate here, of radius 0.999, that is 4 levels in each value (0.0180 of the" in words
    assert words.endswith("or 254 levels in total, rounded down.")
    assert 3072 * 4**2 <= 65024 < 3072 * 5**2
    assert 254**2 <= 65024 < 255**2
    assert 3072 * 180**2 * 255**2 <= 65024 * 10**8 < 3072 * 181**2 * 255**2
    assert "one level in each value" in norms(tmp_path / "b.tsv", 65024)
    assert "less than one level in each value" in norms(tmp_path / "c.tsv", 65025)
    assert norms(tmp_path / "d.tsv", None) == "", "of how many values is not known"
    assert norms(tmp_path / "e.tsv", 3072, bound="paper") == "", "not proved for perturbations of several values"


def test_other_norms_of_several_runs_and_of_none(tmp_path: Path) -> None:
    """63.75 levels are 4064 squared ones, rounded down."""
    one, two = write(tmp_path / "a.tsv", ROWS), write(tmp_path / "b.tsv", [replace(r, idx=r.idx) for r in ROWS])
    words = " ".join(assumptions(open_runs([one, two]), 3072))
    assert "For radius 0.25 that is one level in each value (0.0045 of the pixel range), or 63 levels in total" in words
    assert "other norms" not in " ".join(assumptions(open_runs([EXCERPT]), 3072)), "a log of another program"
    predicted = open_runs([write(tmp_path / "p.tsv", predictions(ROWS), prediction(RUN))])
    assert "other norms" not in " ".join(assumptions(predicted, 3072)), "predictions have no radius"


def test_the_paper_s_bound_is_named(tmp_path: Path) -> None:
    entries = open_runs([write(tmp_path / "r.tsv", ROWS, with_fields(RUN, bound="paper"))])
    assert "proved for perturbations of one value at a time only" in " ".join(assumptions(entries, None))


def test_what_differs_is_said(tmp_path: Path) -> None:
    one = write(tmp_path / "a.tsv", ROWS)
    two = write(tmp_path / "b.tsv", ROWS[:3], with_fields(RUN, n=1000, alpha="1/100", noise="rounded", sigma="1/2"))
    rows = [replace(row, n=1000, counts=(*row.counts, 900)) for row in ROWS[:3]]
    (tmp_path / "b.tsv").write_text(results.HEADER + "".join("\t".join(r.cells().values()) + "\n" for r in rows))
    entries = open_runs([one, two], ["A", "B"])
    assert cautions(entries) == [
        "B is unfinished: 3 of 4 images so far.",
        "The runs differ in samples per image: 100 in A; 1,000 in B.",
        "The runs differ in α: 0.001 in A; 0.01 in B.",
        "The runs differ in noise: discrete in A; rounded in B.",
        "The runs are about different images: 4 in A; 3 in B. They have 3 in common.",
    ]
    assert "is unfinished" in page_module.page(entries)


def test_a_foreign_log_promises_nothing(folder: Path) -> None:
    found = read_page(folder / "log.html").text
    assert "is a log of another program" in found
    assert "ChaCha20" not in found
    assert "Each certificate fails" not in found


# --- The classical method: words that are true of floats -------------------------------------------------------------

FLOAT_RUN = with_fields(RUN, noise="continuous", note=results.CLASSICAL, kernels="onnxruntime 9, numpy 8", sigma="1/2")
OF_INTEGERS = ("ChaCha20", "in integers", "integer perturbation", "computes every line again")


def test_words_of_a_run_in_floats(tmp_path: Path) -> None:
    """What docs/baselines.md says, and nothing of the proofs about integers."""
    entries = open_runs([write(tmp_path / "r.tsv", ROWS, FLOAT_RUN)])
    assert headline(entries).endswith("under every perturbation within radius 0.25, rounding aside.")
    source = page_module.page(entries)
    found = Page(source[: source.index('<script type="application/json"')]).text
    for words in OF_INTEGERS:
        assert words not in found, words
    for words in ("σ Φ⁻¹(p)", "no proof bounds what that changes", "float32", "Philox", "onnxruntime 9, numpy 8",
                  "not the same bit for bit elsewhere", "“intrs verify” counts them again", "continuous Gaussian",
                  "This run is in floating point", "SHA-256 of the model’s file", results.CLASSICAL, "classical",
                  "may round differently", "the rounding of floats aside"):  # fmt: skip
        assert words in found, words
    assert "kernel set" not in found
    assert "boundsound" not in found.replace("\n", ""), "there is no bound for integers here"


def test_words_of_integers_beside_floats(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.tsv", ROWS), write(tmp_path / "b.tsv", ROWS, FLOAT_RUN)
    entries = open_runs([one, two], ["A", "B"])
    words = " ".join(assumptions(entries, None))
    assert "In the runs in integers it rests on three things: the bits of ChaCha20" in words
    assert "In the runs in floating point it rests on three things: the numbers of NumPy" in words
    assert "integer perturbation" in words
    assert meaning(entries)[1].startswith("B is in floating point, by the classical method")
    assert "The runs differ in bound: sound, one-class in A; classical, one-class in B." in cautions(entries)
    assert "in integers" in page_module.page(entries).partition("<h1>")[0]
    two_class = open_runs([write(tmp_path / "c.tsv", ROWS, with_fields(FLOAT_RUN, form="two"))])
    assert "σ/2 (Φ⁻¹(p) − Φ⁻¹(q))" in " ".join(assumptions(two_class, None))


def asked_run(argv: list[str]) -> results.Run:
    """The run that a command line describes."""
    args = parse(argv)
    return open_job(asked(args, REQUESTS[args.command])).run


def test_a_real_run_in_floats(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command describes the same run, and its noisy images are the run's."""
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(folder)
    path = str(tmp_path / "floats.tsv")
    command = ["certify", "tiny.onnx", "tiny.npz", "--noise", "continuous", "--n", "300", "--seed", "7", "--max", "6"]
    assert main([*command, "--out", path]) == 0
    run = results.read_run(tmp_path / "floats.tsv")
    assert asked_run(shlex.split(repeat(run, Path(path)))[1:]) == run
    report(path, "wide.tsv", "--data", "tiny.npz", "-o", str(tmp_path / "f.html"))
    found = read_page(tmp_path / "f.html")
    check_numbers(found, 0, tmp_path / "floats.tsv")
    card = found.json["gallery-data"]["runs"][0]["cards"][1]
    drawn = noisy_images(images(IMAGES)[0][1], Noise.of("continuous", "0.25"), Samples(7, card["idx"], 0, 1))[0]
    assert np.array_equal(pixels(card["noisy"]), drawn.clip(0, 255).astype(np.uint8))


def test_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "p.tsv", predictions(ROWS), prediction(RUN))
    assert main(["report", str(tmp_path / "p.tsv"), "-o", str(tmp_path / "p.html")]) == 0
    found = read_page(tmp_path / "p.html")
    assert "2 of 4 images are predicted correctly." in found.text
    assert found.json["curves-data"]["runs"] == []
    assert [c.get("data-radius") for c in found.cells if c["data-metric"] == "at"] == ["0"] * 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("largest", "radii"), [("0", 1), ("0.1", 1), ("0.3", 2), ("2.1", 9), ("2.6", 6), ("40", 9), ("999999", 4)]
)
def test_radii_of_the_table(tmp_path: Path, largest: str, radii: int) -> None:
    log_file(tmp_path / "l.tsv", [f"0\t1\t1\t{largest}\t1\t-"])
    found = table_radii(open_runs([tmp_path / "l.tsv"]))
    assert len(found) == radii
    assert found[-1] <= Fraction(largest)
    curves = page_module.page(open_runs([tmp_path / "l.tsv"]))
    assert Page(curves).json["curves-data"]["runs"][0]["measures"]["all"]["part"][-1] == 0


# --- Where it comes from ---------------------------------------------------------------------------------------------


def test_the_command_that_repeats_a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed and opened again, it describes the same run, field by field."""
    monkeypatch.chdir(folder)
    run = results.read_run(folder / HOSTILE_FILE)
    argv = shlex.split(repeat(run, Path(HOSTILE_FILE)))[1:]
    assert str(parse(argv).out) == HOSTILE_FILE
    assert asked_run(argv) == run


@pytest.mark.parametrize(
    "options",
    [
        ["--bound", "paper"],
        ["--form", "two"],
        ["--noise", "rounded", "--skip", "3", "--max", "2"],
        ["--adaptive", "--radii", "0.1,0.25", "--give-up", "0.25"],
        ["--adaptive", "--precision", "5%"],
    ],
)
def test_the_command_keeps_options(folder: Path, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    run = asked_run(["certify", "tiny.onnx", "tiny.npz", "--n", "300", *options])
    assert asked_run(shlex.split(repeat(run, Path("x")))[1:]) == run


def test_an_extended_adaptive_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that the page gives make the same file, and the page says that sampling stopped early."""
    monkeypatch.chdir(folder)
    path, again, page = (str(tmp_path / name) for name in ("a.tsv", "again.tsv", "a.html"))
    command = ["certify", "tiny.onnx", "tiny.npz", "--seed", "7", "--adaptive", "--max", "6", "--out", path]
    assert main([*command, "--n", "300", "--radii", "0,0.1"]) == 0
    assert main([*command, "--n", "600", "--radii", "0,0.1,0.25", "--resume"]) == 0
    run, rows = results.read(tmp_path / "a.tsv")
    lines = repeat(run, Path(again)).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0
    assert results.read(tmp_path / "again.tsv")[0] == run
    assert [replace(row, time="") for row in results.read(tmp_path / "again.tsv")[1]] == [
        replace(row, time="") for row in rows
    ]
    report(path, "-o", page)
    found = read_page(tmp_path / "a.html")
    check_numbers(found, 0, tmp_path / "a.tsv")
    assert f"≤ 600, mean {np.mean([row.n for row in rows]):,.0f}" in found.text
    assert "Adaptive runs stop sampling" in found.text


def test_an_adaptive_run_has_shares_at_the_radii_that_it_was_asked_for(tmp_path: Path) -> None:
    """At 1/4 it would show too little, because an image for which 1/2 was given up might still reach it."""
    rows = [_adaptive(row, 100) for row in ROWS]
    write(tmp_path / "a.tsv", rows, with_fields(RUN, adaptive="n=100 radii=1/2,4/5 give_up=1/2"))
    write(tmp_path / "b.tsv", ROWS)
    one, both = open_runs([tmp_path / "a.tsv"]), open_runs([tmp_path / "a.tsv", tmp_path / "b.tsv"], ["A", "B"])
    assert table_radii(one) == [Fraction(1, 2), Fraction(4, 5)]
    assert table_radii(both) == [Fraction(r) for r in ("0", "1/4", "1/2", "3/4", "4/5", "1")]
    found = Page(page_module.page(both))
    shown = {cell["data-radius"] for cell in found.cells if cell["data-metric"] == "at" and not cell["run"]}
    assert shown == {"0.5", "0.8"}
    assert [cell["run"] for cell in found.cells if cell["data-metric"] == "cp"] == [1]
    assert {c["value"] for c in found.cells if not c["run"] and c["measure"] == "answered"} == {"–"}
    assert found.json["curves-data"]["runs"][0]["measures"]["answered"]["whole"] == [0]
    assert [attributes["data-part"] for _, attributes in found.tags if "data-part" in attributes] == [
        "right", "wrong", "abstained",
    ], "of B alone"  # fmt: skip
    assert found.text.count("so that it does not say how many images get an answer.") == 1
    assert headline(one) == "1 of 4 images keeps its correct class under every perturbation within radius 0.5."
    assert findings(one[0]).startswith("For 1 of 4 images (25.0 %) the class is correct and holds to radius 0.5 or")
    assert "A 25.0 % of 4 images are classified correctly and certified to radius 0.5 or more." in found.text
    assert "at others they would come out too low" in found.text


def test_the_curve_of_an_adaptive_run_is_that_of_the_radii_that_it_was_asked_for(tmp_path: Path) -> None:
    """Between two of them the share at the right one holds; beyond the last nothing is known."""
    rows = [_adaptive(row, 100) for row in ROWS]
    write(tmp_path / "a.tsv", rows, with_fields(RUN, adaptive="n=100 radii=0,1/2,4/5 give_up=1/2"))
    (entry,) = open_runs([tmp_path / "a.tsv"])
    found = [share.part for share in curve(entry, "certified", Fraction(1, 10))]
    assert found == [entry.results.certified(r).part for r in ("0", *["0.5"] * 5, *["0.8"] * 3)]
    (fixed,) = open_runs([write(tmp_path / "b.tsv", ROWS)])
    assert len(curve(fixed, "certified", Fraction(1, 10))) == 12


def test_provenance(folder: Path) -> None:
    found, run = read_page(folder / "one.html").text, results.read_run(folder / HOSTILE_FILE)
    for name, value in run.to_json().items():
        shown = plain(Fraction(value)) if name in ("sigma", "alpha") else str(value)
        assert shown in found or name == "format", name
    assert shlex.join(["intrs", "verify", HOSTILE_FILE]) in found


def commands(source: str, title: str) -> list[list[str]]:
    """The commands that stand on a page under a title."""
    block = source[source.index(title) :]
    text = re.search(r"<pre[^>]*>(.*?)</pre>", block, re.DOTALL)
    assert text
    return [shlex.split(unescape(line)) for line in text[1].splitlines()]


def test_the_command_that_verifies_a_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what lies outside the folder of the results, which `intrs verify` would not open unasked."""
    monkeypatch.chdir(folder)
    path = str(tmp_path / "far.tsv")
    common = ["--n", "300", "--max", "2", "--out", path]
    assert main(["certify", "tiny.onnx", "tiny.npz", *common]) == 0
    ((program, *argv),) = commands(reports.report(path, max_images=0).html, "Verify every line")
    assert (program, argv) == ("intrs", ["verify", path, "--model", "tiny.onnx", "--data", "tiny.npz"])
    assert main(argv) == 0
    shipped = metrics.Results.of(Path("s.tsv"), with_fields(RUN, model="resnet20-clean", data="cifar10-500"), ROWS)
    assert commands(reports.report(shipped, max_images=0).html, "Verify every line") == [["intrs", "verify", "s.tsv"]]


def test_a_network_that_has_no_name(tmp_path: Path) -> None:
    """Made from a network in memory: no command repeats it, and it is known by its identity."""
    nameless = metrics.Results.of(None, with_fields(RUN, model=""), ROWS)
    made = reports.report(nameless, max_images=0)
    assert made.runs == ("network 000000000000, σ 0.25",)
    assert "Repeat the run" not in made.html
    assert repr(nameless).startswith("certify network 000000000000 on d.npz")


def test_parts_of_different_versions(tmp_path: Path) -> None:
    """An earlier version wrote neither the digest of the noise table nor the number of values per image."""
    old = metrics.Results.of(tmp_path / "a.tsv", with_fields(RUN, max=2), ROWS[:2])
    told = with_fields(RUN, max=2, first=2, dimension=3072, classes=2, noise_table="9" * 64, intrs="1.5")
    new = metrics.Results.of(tmp_path / "b.tsv", told, ROWS[2:])
    for parts in ([old, new], [new, old]):
        found = Page(reports.report(parts, join=True, max_images=0).html).text
        assert "intrs version0, 1.5" in found.replace("\n", "")


# --- Images ----------------------------------------------------------------------------------------------------------


def pixels(uri: str) -> Any:
    assert uri.startswith("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


def test_the_images(folder: Path) -> None:
    """The image is the data set's, and the noisy one is sample 0 of the run."""
    data = read_page(folder / "one.html").json["gallery-data"]
    (run,) = data["runs"]
    originals, labels = images(IMAGES)
    described, rows = results.read(folder / HOSTILE_FILE)
    assert len(run["cards"]) == IMAGES == len(rows)
    assert run["classes"] == [HOSTILE, "two", "three"]
    for i, (card, row) in enumerate(zip(run["cards"], rows, strict=True)):
        assert (card["idx"], card["label"], card["predict"]) == (row.idx, labels[i], row.predict)
        assert np.array_equal(pixels(data["pictures"][card["picture"]]), originals[i])
        drawn = noisy_images(originals[i], described.noise, Samples(7, row.idx, 0, 1))[0]
        assert np.array_equal(pixels(card["noisy"]), drawn.clip(0, 255))
        assert card["votes"] == row.votes
        assert card["top"][0] == [int(np.argmax(row.counts)), max(row.counts)]
        assert (
            card["radius"] is None
            if row.predict is None
            else card["radius"] <= float(row.radius) < card["radius"] + 0.001
        )


def report(*arguments: str, code: int = 0) -> None:
    assert main(["report", *arguments]) == code


def test_fewer_images_and_none(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    report("wide.tsv", "--data", "tiny.npz", "--max-images", "5", "-o", str(tmp_path / "few.html"))
    cards = read_page(tmp_path / "few.html").json["gallery-data"]["runs"][0]["cards"]
    assert [(card["idx"] - 3) // 20 for card in cards] == [0, 9, 19, 28, 38]
    report("wide.tsv", "--no-images", "-o", str(tmp_path / "none.html"))
    assert read_page(tmp_path / "none.html").json["gallery-data"] == {"pictures": {}, "runs": []}


def test_data_that_do_not_ship_are_not_opened_unasked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    report("wide.tsv", "-o", str(tmp_path / "r.html"))
    said = capsys.readouterr().out
    assert "are not shown: only data sets that ship with intrs are opened unless the data are named." in said
    assert "To show them: --data PATH." in said
    assert read_page(tmp_path / "r.html").json["gallery-data"]["runs"] == []


def test_a_log_with_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped images are every twentieth of the test set, which is what the excerpt is about."""
    report(str(EXCERPT), "--data", "cifar10-500", "--max-images", "3", "-o", str(tmp_path / "r.html"))
    cards = read_page(tmp_path / "r.html").json["gallery-data"]["runs"][0]["cards"]
    assert len(cards) == 3
    assert not any("noisy" in card or "top" in card for card in cards), "a log has no seed and no votes"
    log_file(tmp_path / "wrong.tsv", ["0\t7\t7\t0.5\t1\t-"])
    report(str(tmp_path / "wrong.tsv"), "--data", "cifar10-500", "-o", str(tmp_path / "w.html"), code=2)
    assert "image 0 is of class 3 in the data and 7 in the log" in capsys.readouterr().err


def test_the_wrong_data(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(str(folder / "wide.tsv"), "--data", "cifar10-500", "-o", str(tmp_path / "r.html"), code=2)
    assert "cifar10-500 is not what" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_large_and_grey_images_are_thinned() -> None:
    from intrs.reports.gallery import png

    large = np.arange(300 * 200 * 3, dtype=np.uint32).astype(np.uint8).reshape(300, 200, 3)
    assert np.array_equal(pixels(png(large)), large[::3, ::3])
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4, 1)
    assert np.array_equal(pixels(png(grey)), grey[:, :, 0])


# --- Mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.tsv", "r.tsv"], "is named twice"),
        (["r.tsv", "--label", "a", "--label", "b"], "2 labels for 1 run;"),
        (["r.tsv", "other.tsv", "--join"], "sigma is 1/4 in one and 1/2 in the other"),
        (["r.tsv", "strange.tsv"], "about different data"),
        (["bare.tsv"], "bare.tsv.json, which says how it was made, is missing"),
        (["broken.tsv"], "line 2: malformed"),
        (["empty.tsv"], "0 lines"),
        (["none.tsv"], "No such file"),
        (["r.tsv", "-o", "there.html"], "there.html exists; choose another name, or ask to overwrite"),
        (["r.tsv", "-o", "no/where.html"], "there is no folder no"),
        (["r.tsv", "-o", ".", "--overwrite"], ". is a folder; choose the name of a file"),
        (["r.tsv", "--data", "nothing"], "nothing"),
    ],
)
def test_mistakes(
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r.tsv", ROWS)
    write(tmp_path / "other.tsv", [replace(row, idx=row.idx + 1) for row in ROWS], with_fields(RUN, sigma="1/2"))
    write(tmp_path / "bare.tsv", ROWS)
    write(tmp_path / "empty.tsv", [])
    (tmp_path / "bare.tsv.json").unlink()
    log_file(tmp_path / "strange.tsv", ["0\t9\t9\t0.5\t1\t-"])
    log_file(tmp_path / "broken.tsv", ["0\t9\t9"])
    (tmp_path / "there.html").write_text("mine")
    assert main(["report", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "there.html").read_text() == "mine"
    assert not (tmp_path / "report.html").exists()


def test_parts_of_a_run_make_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.tsv", ROWS[:2], with_fields(RUN, max=2))
    write(tmp_path / "b.tsv", ROWS[2:], with_fields(RUN, max=2, first=2))
    report("a.tsv", "b.tsv", "--join", "-o", "j.html")
    whole = write(tmp_path / "c.tsv", ROWS)
    check_numbers(read_page(tmp_path / "j.html"), 0, whole)


@pytest.mark.parametrize(("first", "skip"), [(3, 1), (1, 2)], ids=["one after the other", "interleaved"])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
def test_every_part_of_a_run_has_its_command(
    folder: Path, tmp_path: Path, first: int, skip: int, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands on the page make each part again, image by image; so does the one for a single run."""
    monkeypatch.chdir(folder)
    names = [str(tmp_path / f"{part}.tsv") for part in "ab"]
    common = ["certify", "tiny.onnx", "tiny.npz", "--n", "300", "--seed", "7", "--max", "3", "--skip", str(skip)]
    for name, begin in zip(names, (0, first), strict=True):
        assert main([*common, "--first", str(begin), "--out", name]) == 0
    made = reports.report(names[::order], join=True, max_images=0)
    source = made.html
    found_commands = commands(source, "Repeat the run (one command per part)")
    assert [command[-1] for command in found_commands] == names
    for (_, *argv), name in zip(found_commands, names, strict=True):
        run, rows = results.read(Path(name))
        assert asked_run(argv) == run
        Path(name).rename(tmp_path / "kept.tsv")
        Path(name + ".json").unlink()
        assert main(argv) == 0
        assert [row.idx for row in results.read(Path(name))[1]] == [row.idx for row in rows]
    found = Page(source).text
    assert f"first image0, {first}" in found.replace("\n", "")
    assert "images planned6" in found.replace("\n", "")
    assert all(shlex.join(["intrs", "verify", name]) in found for name in names)


# --- As functions ----------------------------------------------------------------------------------------------------


def test_a_report_as_a_function(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same bytes as the command writes, from a path, a string or results; nothing is printed."""
    monkeypatch.chdir(folder)
    heard: list[Progress] = []
    made = reports.report(HOSTILE_FILE, data="tiny.npz", title=HOSTILE, progress=heard.append)
    assert made.data == (folder / "one.html").read_bytes()
    assert (made.path, made.images, made.remarks, made.unfinished) == (None, IMAGES, (), ())
    assert [p.done for p in heard] == list(range(IMAGES + 1))
    assert {(p.total, p.unit) for p in heard} == {(IMAGES, "images")}
    written = reports.report(Path("wide.tsv"), tmp_path / "w.html")
    assert written.data == (tmp_path / "w.html").read_bytes()
    assert (written.path, written.images) == (tmp_path / "w.html", 0)
    assert len(written.remarks) == 1
    again = reports.report([metrics.read("wide.tsv")], data=open_data("tiny.npz"))
    assert again.images == IMAGES
    yielded = reports.report((Path(name) for name in ["wide.tsv"]), tmp_path / "y.html")
    assert yielded.data == written.data
    assert capfd.readouterr() == ("", "")
    assert re.fullmatch(r"Page\('.*w.html', runs: 1, images: 0, [\d,]+ bytes\)", repr(written))


def test_results_that_are_in_no_file() -> None:
    made = reports.report(metrics.Results.of(None, RUN, ROWS), max_images=0)
    found = Page(made.html).text
    assert "intrs certify m.onnx d.npz" in found
    assert "--out" not in found
    assert "intrs verify" not in found.partition("How the runs were made")[2]
    assert len(reports.report([metrics.Results.of(None, RUN, ROWS)] * 2, max_images=0).runs) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paper": "mnist"}, "paper must be one of auto, none, cifar10, caltech101, not 'mnist'"),
        ({"max_images": -1}, "max_images: expected an integer of at least 0, got -1"),
        ({"labels": ["a", "b"]}, "2 labels for 1 run"),
        ({"labels": [None]}, "labels: expected text for every run, got None"),
        ({"out": 5}, "out: expected the path of a file, got 5"),
        ({"data": "nothing"}, "nothing"),
        ({"out": "r.tsv", "overwrite": True}, "r.tsv is what is to be read"),
        ({"out": "r.tsv.json", "overwrite": True}, "r.tsv.json is what is to be read"),
        ({"out": "r.tsv"}, "r.tsv is what is to be read"),
        ({"training": "nowhere"}, "not the folder of a training run"),
        ({"out": "y.pdf"}, "a report is a file whose name ends in .html, .htm, not '.pdf'"),
        ({"out": "y"}, "a report is a file whose name ends in .html, .htm, not 'nothing'"),
    ],
)
def test_mistakes_in_a_call(
    tmp_path: Path, arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r.tsv", ROWS)
    with pytest.raises(IntrsError, match=message) as raised:
        reports.report("r.tsv", **arguments)
    assert "--" not in str(raised.value)
    with pytest.raises(IntrsError, match="no results to show"):
        reports.report([])
    with pytest.raises(IntrsError, match="results: expected files of results, got None"):
        reports.report(None)  # type: ignore[arg-type]
    assert reports.report("r.tsv", labels="Mine", max_images=0).runs == ("Mine",)


# --- Training --------------------------------------------------------------------------------------------------------

HASH = "5" * 64
FINAL = {
    "test_images": 1000,
    "files": {"fp32": {"name": "a", "bytes": 1, "sha256": HASH}, "int8": {"name": "b", "bytes": 1, "sha256": "6" * 64}},
    "identity": RUN.identity,
    "noisy_accuracy": {"fp32": 0.743, "fake_quantized": 0.748, "integer": 0.747},
    "accuracy": {"fp32": 0.67, "fake_quantized": 0.672, "integer": 0.673},
    "agreement": 0.992,
}


def state(epochs: int = 6, qat_epochs: int = 4, done: int | None = None, watched: str = "test") -> dict[str, Any]:
    """As `intrs train` writes it, with numbers that are easy to find again."""
    total = epochs + qat_epochs
    return {
        "format": "intrs training 1",
        "recipe": {"architecture": "resnet20", "data": "cifar10", "sigma": "0.25", "noise": "integer",
                   "epochs": epochs, "qat_epochs": qat_epochs, "start": None},
        "weights_sha256": HASH,
        "log": [
            {"epoch": i + 1, "phase": "float" if i < epochs else "qat", "loss": 2 - i / 10, "threads": 1,
             "train_noisy_accuracy": 0.3 + i / 100, f"{watched}_noisy_accuracy": 0.31 + i / 50, "seconds": 1.5}
            for i in range(total if done is None else done)
        ],
    }  # fmt: skip


def save_training(folder: Path, state: object, final: object = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(state if isinstance(state, str) else json.dumps(state))
    if final:
        (folder / "results.json").write_text(json.dumps(final))
    return folder


def test_learning_curves(tmp_path: Path) -> None:
    """The numbers of the log and of the closing table; whose networks are certified on the page."""
    write(tmp_path / "r.tsv", ROWS)
    save_training(tmp_path / "whole", state(), FINAL)
    save_training(tmp_path / "part", state(done=3, watched="held_out"), FINAL)
    folders = ["--training", str(tmp_path / "whole"), "--training", str(tmp_path / "part")]
    report(str(tmp_path / "r.tsv"), *folders, "-o", str(tmp_path / "r.html"))
    found = read_page(tmp_path / "r.html")
    whole, part = found.json["training-data"]
    assert (whole["name"], whole["float_epochs"], whole["watched_name"]) == ("whole", 6, "test")
    assert whole["loss"] == pytest.approx([2 - i / 10 for i in range(10)])
    assert whole["watched"] == pytest.approx([0.31 + i / 50 for i in range(10)])
    assert (len(part["train"]), part["watched_name"]) == (3, "held out")
    cells = re.findall(r'data-accuracy="(\w+)"><span class="value" title="([\d,]+) of 1,000 images">([\d.]+)<',
                       (tmp_path / "r.html").read_text())  # fmt: skip
    assert cells == [("noisy", "743", "74.3"), ("noisy", "748", "74.8"), ("noisy", "747", "74.7"),
                     ("clean", "670", "67.0"), ("clean", "672", "67.2"), ("clean", "673", "67.3"),
                     ("agreement", "992", "99.2")], "and nothing of the run that is not finished"  # fmt: skip
    assert "resnet20 on cifar10 under integer noise of σ 0.25; 6 epochs in float, 4 quantization-aware" in found.text
    assert "Certified here: m, σ 0.25." in found.text
    assert "Unfinished: 3 of 10 epochs so far. No run on this page is of its networks." in found.text


def test_no_training_no_section(folder: Path) -> None:
    found = read_page(folder / "one.html")
    assert found.json["training-data"] == []
    assert not any(attributes.get("id") == "training" for _, attributes in found.tags)


def changed(**changes: object) -> dict[str, Any]:
    """The state with other values in its last epoch, or in the recipe if it has such a key."""
    made = state()
    for key, value in changes.items():
        (made["recipe"] if key in made["recipe"] else made["log"][-1])[key] = value
    return made


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "not the state of a training run"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not the state of a training run"),
        (state() | {"format": "other"}, "its format is not 'intrs training 1'"),
        (state() | {"recipe": 5}, "'recipe' is missing or no object"),
        (state() | {"log": {}}, "'log' is not a list of epochs"),
        (state() | {"log": [7]}, "'log' is not a list of epochs"),
        (state(done=0), "0 epochs in its log"),
        (state() | {"log": state(7)["log"]}, "11 epochs in its log; from 1 to 10"),
        (changed(epochs=-1), "'epochs' is missing or no number"),
        (changed(epochs=True), "'epochs' is missing or no number"),
        (changed(noise="loud"), "'noise' is 'loud'"),
        (changed(architecture="x" * 201), "'architecture' is missing or no short text"),
        (changed(epoch=9), "entry 10 of its log is not epoch 10 of phase 'qat'"),
        (changed(phase="float"), "entry 10 of its log is not epoch 10 of phase 'qat'"),
        (changed(loss=float("nan")), "'loss' is missing or no number"),
        (changed(loss=float("inf")), "'loss' is missing or no number"),
        (changed(loss=10**400), "'loss' is missing or no number"),
        (changed(loss="0.5"), "'loss' is missing or no number"),
        (changed(test_noisy_accuracy=1.5), "'test_noisy_accuracy' is missing or no number"),
        (changed(train_noisy_accuracy=None), "'train_noisy_accuracy' is missing or no number"),
        (" " * (2**24 + 1), "larger than"),
    ],
)
def test_damaged_logs_of_training(
    tmp_path: Path, bad: object, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "r.tsv", ROWS)
    save_training(tmp_path / "t", bad)
    report(str(tmp_path / "r.tsv"), "--training", str(tmp_path / "t"), "-o", str(tmp_path / "r.html"), code=2)
    error = capsys.readouterr().err
    assert message in error
    assert "state.json" in error
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_images": 0}, "'test_images' is missing or no number"),
        ({"noisy_accuracy": {"fp64": 0.5}}, "accuracies are of fp32"),
        ({"noisy_accuracy": {}}, "accuracies are of fp32"),
        ({"accuracy": {"fp32": 0.5}}, "not of the same networks"),
        ({"agreement": 2}, "'agreement' is missing or no number"),
        ({"identity": "none"}, "is no hash"),
        ({"files": {"fp32": 3}}, "'fp32' is missing or no object"),
    ],
)
def test_damaged_results_of_training(
    tmp_path: Path, changes: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "r.tsv", ROWS)
    save_training(tmp_path / "t", state(), FINAL | changes)
    report(str(tmp_path / "r.tsv"), "--training", str(tmp_path / "t"), "-o", str(tmp_path / "r.html"), code=2)
    error = capsys.readouterr().err
    assert message in error
    assert "results.json" in error


def keys(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values in a tree of JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, each in inner for found in ((*path, key), *keys(each, (*path, key)))]


@pytest.mark.parametrize("make", [None, [], {}, "x", -1], ids=["gone", "list", "object", "text", "negative"])
def test_no_damage_to_a_state_is_a_traceback(tmp_path: Path, make: Any) -> None:
    """Every value in turn is taken away or replaced: the curves are read or refused, whatever is damaged."""
    for number, path in enumerate(keys(state(2, 1)) + [("results", *path) for path in keys(FINAL)]):
        damaged = {**copy.deepcopy(state(2, 1)), "results": copy.deepcopy(FINAL)}
        place: Any = damaged
        for key in path[:-1]:
            place = place[key]
        if make is None:
            del place[path[-1]]
        else:
            place[path[-1]] = make
        folder = save_training(tmp_path / str(number), damaged, damaged.pop("results"))
        with contextlib.suppress(IntrsError):
            curves.open_curves([folder])


def test_folders_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(write(tmp_path / "r.tsv", ROWS)), str(tmp_path / "r.html")
    report(path, "--training", str(tmp_path / "nowhere"), "-o", out, code=2)
    assert "it has no state.json, which training writes" in capsys.readouterr().err
    one, two = (str(save_training(tmp_path / name / "run", state())) for name in ("a", "b"))
    report(path, "--training", one, "--training", one, "-o", out, code=2)
    assert "is named twice" in capsys.readouterr().err
    report(path, "--training", one, "--training", two, "-o", out)
    assert [run["name"] for run in read_page(tmp_path / "r.html").json["training-data"]] == [one, two]


def test_learning_curves_need_no_pytorch(tmp_path: Path) -> None:
    write(tmp_path / "r.tsv", ROWS)
    save_training(tmp_path / "t", state(), FINAL)
    program = (
        "import sys; from intrs.cli import main; "
        "code = main(['report', 'r.tsv', '--training', 't', '-o', 'r.html']); "
        "sys.exit(code or 'torch' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False).returncode == 0
    )


def test_what_intrs_train_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network trained for a moment, certified, and shown with its curves."""
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from test_training import save_folder

    monkeypatch.chdir(tmp_path)
    save_folder(tmp_path / "stripes", "train", 96, 5)
    save_folder(tmp_path / "stripes", "test", 12, 6)
    short = ["--sigma", "0.25", "--epochs", "2", "--qat-epochs", "1", "--batch", "32", "--threads", "1"]
    assert main(["train", "stripes", "resnet8", "run", *short]) == 0
    model = "run/resnet8-sigma0.25.onnx"
    assert main(["certify", model, "stripes", "--n", "100", "--max", "2", "--out", "r.tsv"]) == 0
    report("r.tsv", "--training", "run", "-o", "r.html")
    found = read_page(tmp_path / "r.html")
    (shown,) = found.json["training-data"]
    log = json.loads((tmp_path / "run" / "state.json").read_text())["log"]
    assert shown["loss"] == pytest.approx([entry["loss"] for entry in log], rel=1e-5)
    assert shown["watched"] == pytest.approx([entry["test_noisy_accuracy"] for entry in log], rel=1e-5)
    assert "Certified here: resnet8-sigma0.25." in found.text


# --- The file --------------------------------------------------------------------------------------------------------


def test_strangers_words_are_escaped(folder: Path) -> None:
    source = (folder / "one.html").read_text()
    assert HOSTILE not in source
    assert "a<b>" not in source
    found = Page(source)
    assert [attributes for tag, attributes in found.tags if tag in ("img", "b") and attributes.get("src") == "x"] == []
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert HOSTILE in found.text, "as text it is there"
    assert text("\x1b[31m\u202e\udcff") == r"\x1b[31m\u202e\udcff"


def test_a_name_cannot_leave_the_json(tmp_path: Path) -> None:
    entries = open_runs([write(tmp_path / "r.tsv", ROWS)], ["</script><script>alert(1)</script><!--"])
    source = page_module.page(entries)
    assert source.count("<script") == 5
    assert Page(source).json["curves-data"]["runs"][0]["name"] == "</script><script>alert(1)</script><!--"


def test_the_page_asks_for_nothing(folder: Path) -> None:
    found = read_page(folder / "two.html")
    policy = next(a["content"] for tag, a in found.tags if tag == "meta" and a.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in str(policy)
    for tag, attributes in found.tags:
        assert tag not in ("link", "iframe", "object", "embed", "form")
        assert not attributes.get("src")
        assert str(attributes.get("href", "#")).startswith("#")
        assert "style" not in attributes, "the policy would refuse it"


def test_the_page_is_small(tmp_path: Path, folder: Path) -> None:
    """Ten runs of 10,000 images each, without pictures."""
    names = []
    rng = np.random.default_rng(3)
    for i in range(10):
        lines = [f"{k}\t1\t1\t{radius:.6f}\t1\t0:00:01" for k, radius in enumerate(rng.random(10_000) * 4)]
        names.append(str(log_file(tmp_path / f"{i}.tsv", lines)))
    report(*names, "-o", str(tmp_path / "r.html"))
    assert (tmp_path / "r.html").stat().st_size < 3_000_000


def test_the_same_results_give_the_same_page(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    report("wide.tsv", "-o", str(tmp_path / "a.html"))
    report("wide.tsv", "-o", str(tmp_path / "b.html"))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


# --- In a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, folder: Path) -> Iterator[Browser]:
    """The page about two runs; nothing may have gone wrong in it when a test ends."""
    browser.open(folder / "two.html")
    yield browser
    browser.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert browser.complaints == []
    assert {url.partition(":")[0] for url in browser.requests} <= {"file", "data"}


def cards(browser: Browser, key: str) -> list[str]:
    return list(browser.run(f"[...document.querySelectorAll('.card')].map(card => card.dataset.{key})"))


@in_browser
def test_the_chart_draws(opened: Browser) -> None:
    lines = opened.run("[...document.querySelectorAll('#chart path.line[data-run]')].map(p => p.getTotalLength())")
    assert len(lines) == 2
    assert min(lines) > 300
    names = opened.texts("#chart text.name") or opened.run(
        "[...document.querySelectorAll('#chart text.name')].map(t => t.textContent)"
    )
    assert len(names) == 4, "two runs and the paper's two"
    assert len(opened.run("[...document.querySelectorAll('#chart path.band')].map(p => p.getAttribute('d'))")) == 2


@in_browser
def test_pointing_shows_values(opened: Browser, folder: Path) -> None:
    assert opened.texts(".tip") == []
    opened.point("#chart", 0.3)
    (tip,) = opened.texts(".tip")
    radius = Fraction(re.search(r"radius ([\d.]+)", tip)[1])  # type: ignore[index]
    assert radius > 0
    for name, run in ((HOSTILE_FILE, 0), ("wide.tsv", 1)):
        frame = pd.read_csv(folder / name, delimiter="\t")
        hits = int(((frame.correct == 1) & (frame.radius >= float(radius))).sum())
        (line,) = opened.texts(f".tip p[data-run='{run}']")
        assert f"{100 * hits / IMAGES:.1f} % {hits} of {IMAGES}" in line.replace("\n", " ")
    opened.run("document.activeElement.blur()")
    opened.point("h1", 0.5)
    assert opened.texts(".tip") == []


@in_browser
def test_the_choice_of_a_measure(opened: Browser, folder: Path) -> None:
    found = read_page(folder / "two.html")
    for measure in ("answered", "certified", "all"):
        opened.click(f"input[value={measure}]")
        assert opened.texts("tr[data-run='1'] td[data-radius='0.25']")[0].split()[0] == (
            f"{found.cell(1, 'at', '0.25', measure):.1f}"
        )
        papers = opened.run("document.querySelectorAll('#chart .line.paper').length")
        assert papers == (0 if measure == "certified" else 2)


@in_browser
def test_what_an_adaptive_run_was_not_asked_for_is_not_drawn(browser: Browser, tmp_path: Path) -> None:
    """Beyond the last radius that it was asked for it says nothing, and of the answered images nothing at all."""
    rows = [_adaptive(row, 100) for row in ROWS]
    write(tmp_path / "a.tsv", rows, with_fields(RUN, adaptive="n=100 radii=1/2,4/5 give_up=1/2"))
    report(str(tmp_path / "a.tsv"), str(write(tmp_path / "b.tsv", ROWS)), "-o", str(tmp_path / "a.html"))
    browser.open(tmp_path / "a.html")
    lines = "[...document.querySelectorAll('#chart path.line[data-run]')].map(line => line.dataset.run)"
    tips = [f".tip p[data-run='{run}'] strong" for run in (0, 1)]
    assert browser.run(lines) == ["0", "1"]
    for across, wanted in ((0.75, ["25.0 %", "25.0 %"]), (0.85, ["–", "25.0 %"]), (0.995, ["–", "0.0 %"])):
        browser.point("#chart", across)
        assert [browser.texts(tip)[0] for tip in tips] == wanted
    browser.click("input[value=answered]")
    assert browser.run(lines) == ["1"]
    browser.point("#chart", 0.5)
    assert [browser.texts(tip)[0] for tip in tips] == ["–", "33.3 %"]
    assert browser.complaints == []


@in_browser
def test_lines_can_be_left_out(opened: Browser) -> None:
    opened.click("#run0")
    assert opened.run("document.querySelectorAll('#chart path.line[data-run]').length") == 1
    opened.click("#run1")
    opened.click("#run0")
    assert opened.run("document.querySelectorAll('#chart path.line[data-run]').length") == 1


@in_browser
def test_by_keyboard(opened: Browser) -> None:
    """From the top of the page: the skip link, the measures, the chart, the legend, the buttons; nothing is a trap."""
    seen = []
    for _ in range(40):
        opened.press("Tab")
        seen.append(opened.run("document.activeElement.id || document.activeElement.className"))
    wanted = ["skip", "chart", "run0", "run1", "paper0", "chart-votes", "scroll", "copy-markdown", "copy-latex",
              "intervals", "scroll", "pick-run", "pick-class", "pick-kind", "pick-sort", "more"]  # fmt: skip
    assert [name for name in seen if name in wanted][: len(wanted)] == wanted

    opened.run("document.getElementById('chart').focus()")
    (start,) = opened.texts(".tip")
    assert "radius 0.00" in start
    opened.press("ArrowRight", 5)
    assert "radius 0.05" in opened.texts(".tip")[0]
    opened.press("PageUp")
    assert "radius 0.30" in opened.texts(".tip")[0]
    assert opened.run("document.getElementById('chart').getAttribute('aria-valuetext')").startswith("radius 0.30")
    opened.press("Home")
    opened.press("ArrowLeft")
    assert "radius 0.00" in opened.texts(".tip")[0]

    opened.run("document.querySelector('input[value=all]').focus()")
    opened.press("ArrowRight")
    assert opened.run("document.body.dataset.measure") == "answered"


@in_browser
def test_sorting(opened: Browser, folder: Path) -> None:
    frame = pd.read_csv(folder / HOSTILE_FILE, delimiter="\t")
    frame.loc[frame.predict == -1, "radius"] = -1
    frame["shown"] = np.floor(frame.radius * 1000) / 1000  # the page's radii, rounded down
    frame["share"] = frame.votes / 300
    for option, column, up in (
        ("far", "shown", False), ("near", "shown", True), ("many", "share", False), ("few", "share", True),
        ("index", "idx", True),
    ):  # fmt: skip
        opened.choose("#pick-sort", option)
        order = frame.sort_values("idx").sort_values(column, ascending=up, kind="stable")
        assert cards(opened, "idx") == [str(i) for i in order.idx[:24]], option


@in_browser
def test_filters(opened: Browser, folder: Path) -> None:
    frame = pd.read_csv(folder / HOSTILE_FILE, delimiter="\t")
    kinds = {"right": frame.correct == 1, "abstained": frame.predict == -1,
             "wrong": (frame.correct == 0) & (frame.predict != -1)}  # fmt: skip
    for kind, mask in kinds.items():
        opened.choose("#pick-kind", kind)
        assert cards(opened, "idx") == [str(i) for i in frame[mask].idx[:24]], kind
        assert opened.texts("#count") == [f"{mask.sum()} of {IMAGES} images"]
    opened.choose("#pick-kind", "every")
    opened.choose("#pick-class", "1")
    assert cards(opened, "idx") == [str(i) for i in frame[frame.label == 1].idx[:24]]
    opened.choose("#pick-class", "every")
    assert len(cards(opened, "idx")) == 24
    opened.click("#more")
    assert len(cards(opened, "idx")) == IMAGES
    assert opened.run("document.getElementById('more').hidden")


@in_browser
def test_the_pictures_are_seen(opened: Browser) -> None:
    opened.run("document.getElementById('cards').scrollIntoView()")
    opened.wait(
        "[...document.querySelectorAll('.card img')].slice(0, 4).every(i => i.complete && i.naturalWidth === 4)"
    )
    assert opened.run("getComputedStyle(document.querySelector('.card img')).imageRendering") == "pixelated"
    opened.choose("#pick-run", opened.run("document.getElementById('pick-run').options[1].value"))
    assert len(cards(opened, "idx")) == 24


@in_browser
def test_copying(opened: Browser, folder: Path) -> None:
    opened.run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    opened.click("#intervals")
    opened.click("#copy-markdown")
    opened.wait("window.copied && document.getElementById('copied').textContent === 'Markdown copied'")
    head, rule, *rows = opened.run("window.copied").splitlines()
    assert head.startswith("| run | σ | samples | images | CP | plain | r ≥ 0 | r ≥ 0.25 |")
    assert head.endswith(" | ACR |"), "easy images weigh most in it, so it comes last"
    assert rule.startswith("| --- | ---: |")
    found = read_page(folder / "two.html")
    cells = [row.removesuffix(" |").split(" | ") for row in rows]
    assert [[*row[1:5], row[-1]] for row in cells] == [
        [sigma, "300", str(IMAGES), f"{found.cell(run, 'cp'):.1f}", f"{found.cell(run, 'acr'):.3f}"]
        for run, sigma in enumerate(("0.25", "0.5"))
    ]
    opened.click("#intervals")
    opened.click("#copy-latex")
    opened.wait("window.copied.startsWith('\\\\begin')")
    latex = opened.run("window.copied")
    assert latex.startswith("\\begin{tabular}{lrrrrrrrr")
    assert re.search(r"& \d+\.\d \(\d+\.\d--\d+\.\d\) ", latex), "with intervals"
    assert "$\\sigma$" in latex
    assert latex.count("\\\\\n") == 3
    assert latex.isascii()


SIGNS = "α β σ Σ ≤ ≥ ± × · – — … “a” ‘b’ ² ∞ ℓ → − | & % $ # _ { } ~ ^ < > \\"


@in_browser
def test_every_sign_in_both_copies(browser: Browser, tmp_path: Path) -> None:
    """An adaptive run, whose samples are "≤ n", under a name with every sign that may be in a table."""
    rows = [replace(row, look=0, rule="spend-" + "0" * 16) for row in ROWS]
    write(tmp_path / "a.tsv", rows, with_fields(RUN, adaptive="n=100 radii=1/4 give_up=1/2"))
    report(str(tmp_path / "a.tsv"), "--label", SIGNS, "-o", str(tmp_path / "a.html"))
    browser.open(tmp_path / "a.html")
    browser.run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    browser.click("#copy-latex")
    browser.wait("window.copied")
    latex = browser.run("window.copied")
    assert "& $\\le$ 100, mean 100 &" in latex
    assert latex.isascii()
    assert latex.splitlines()[4].startswith(
        "  $\\alpha$ $\\beta$ $\\sigma$ $\\Sigma$ $\\le$ $\\ge$ $\\pm$ $\\times$ $\\cdot$ -- --- \\dots{} ``a'' `b' "
        "$^2$ $\\infty$ $\\ell$ $\\to$ $-$ $|$ \\& \\% \\$ \\# \\_ \\{ \\} \\textasciitilde{} \\textasciicircum{} $<$ "
        "$>$ \\textbackslash{} & "
    )
    browser.run("window.copied = null")
    browser.click("#copy-markdown")
    browser.wait("window.copied")
    name = re.split(r"(?<!\\)\|", browser.run("window.copied").splitlines()[2])[1].strip()
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", name) == SIGNS, "unescaped as Markdown does"
    assert not re.search(r"(?<!\\)[*_<>`&~$]", name)


@in_browser
def test_copying_without_a_clipboard(opened: Browser) -> None:
    """Where the browser refuses, the old way is taken; it must not throw."""
    opened.run("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
    opened.click("#copy-latex")
    opened.wait("document.getElementById('copied').textContent === 'LaTeX copied'")


@in_browser
@pytest.mark.parametrize("name", ["one.html", "two.html", "log.html"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_every_page_fits_and_can_be_read(browser: Browser, folder: Path, name: str, dark: bool, width: int) -> None:
    browser.open(folder / name, width=width, height=844, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("[...document.querySelectorAll('#chart path.line[data-run]')].length") >= 1
    browser.point("#chart", 0.4)
    left, right = browser.run("(b => [b.left, b.right])(document.querySelector('.tip').getBoundingClientRect())")
    assert 0 <= left < right <= width
    assert browser.run(CONTRAST) >= 4.5
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 60) is dark
    small = "e => e.offsetParent && e.offsetHeight < 28"
    assert not browser.run(f"[...document.querySelectorAll('button, select, .choice span')].some({small})"), (
        "for fingers"
    )
    assert browser.complaints == []


SQUEEZED = """(() => {
  const table = document.getElementById("numbers"), box = table.parentElement;
  const beyond = table.getBoundingClientRect().right - document.documentElement.clientWidth;
  return [box.scrollWidth - box.clientWidth, beyond];
})()"""


@in_browser
def test_the_table_fits_its_column(browser: Browser, folder: Path) -> None:
    browser.open(folder / "two.html", width=1100)
    assert max(browser.run(SQUEEZED)) <= 0


@in_browser
def test_the_page_prints_whole(browser: Browser, folder: Path) -> None:
    """As on A4 paper: no column of the table is cut off, all images are there, and how the runs were made."""
    browser.open(folder / "two.html", width=718)
    before = browser.run("document.querySelectorAll('.card').length")
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        browser.run("dispatchEvent(new Event('beforeprint'))")
        assert max(browser.run(SQUEEZED)) <= 0
        assert browser.run("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
        assert browser.run("document.querySelectorAll('.card').length") > before
        assert browser.run("[...document.querySelectorAll('.card img')].every(i => i.complete && i.offsetWidth > 9)")
        assert browser.run("[...document.querySelectorAll('details')].every(each => each.open)")
        assert not browser.run("document.querySelector('.tools').offsetParent")
        pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
        assert pdf.startswith(b"%PDF")
        assert pdf.count(b"/Subtype /Image") + pdf.count(b"/Subtype/Image") >= before
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


@in_browser
def test_curves_have_vertical_steps(opened: Browser) -> None:
    for d in opened.run("[...document.querySelectorAll('#chart path.line[data-run]')].map(p => p.getAttribute('d'))"):
        points = [tuple(map(float, point.split())) for point in d[1:].split("L")]
        assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(points)), "no slope"


@in_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_the_votes_draw(browser: Browser, folder: Path, dark: bool, width: int) -> None:
    """A line per run in vertical steps, half of the votes, marks that do not touch, and values when pointed at."""
    browser.open(folder / "two.html", width=width, dark=dark)
    lines = browser.run(
        "[...document.querySelectorAll('#chart-votes path.line[data-run]')].map(p => p.getAttribute('d'))"
    )
    ticks = browser.run("[...document.querySelectorAll('#chart-votes line.axis')].map(t => +t.getAttribute('x1'))")
    assert len(lines) == 2
    for d in lines:
        points = [tuple(map(float, point.split())) for point in d[1:].split("L")]
        assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(points)), "no slope"
        assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(points)), "never back, never up"
        assert [points[0][0], points[-1][0]] == pytest.approx([min(ticks), max(ticks)], abs=0.1), "from end to end"
    boxes = browser.run(
        "[...document.querySelectorAll('#chart-votes text:not(.name)')].filter(t => t.textContent.endsWith('%'))"
        ".map(t => t.getBoundingClientRect()).map(b => [b.left, b.right, Math.round(b.bottom)])"
    )
    axis = sorted(box for box in boxes if box[2] == max(box[2] for box in boxes))
    assert len(axis) >= 5
    assert all(a[1] < b[0] for a, b in pairwise(axis))
    right = browser.run("document.getElementById('chart-votes').getBoundingClientRect().right")
    assert axis[-1][1] <= right + 0.5, "paper would cut it off"
    half = browser.run("+document.querySelector('#chart-votes .boundary').getAttribute('x1')")
    zero = browser.run("[...document.querySelectorAll('#chart-votes text')].find(t => t.textContent === '50 %')"
                       ".getAttribute('x')")  # fmt: skip
    assert half == pytest.approx(float(zero))
    browser.point("#chart-votes", 0.7)
    (tip,) = browser.texts("#chart-votes .tip")
    share = Fraction(re.match(r"([\d.]+) % of the votes or more", tip)[1]) / 100  # type: ignore[index]
    assert Fraction(1, 2) < share < 1
    for name, run in ((HOSTILE_FILE, 0), ("wide.tsv", 1)):
        hits = voted(folder / name, share)
        (line,) = browser.texts(f"#chart-votes .tip p[data-run='{run}']")
        assert f"{100 * hits / IMAGES:.1f} % {hits} of {IMAGES}" in line.replace("\n", " ")
    browser.run("document.getElementById('chart-votes').focus()")
    browser.press("End")
    assert browser.texts("#chart-votes .tip b") == ["all votes"]
    assert browser.complaints == []


@in_browser
def test_the_legend_leaves_lines_out_of_both_charts(opened: Browser) -> None:
    opened.click("#run0")
    assert opened.run("[...document.querySelectorAll('#chart-votes path.line')].map(p => p.dataset.run)") == ["1"]
    opened.click("#run0")


@in_browser
def test_hostile_words_stay_words(browser: Browser, folder: Path) -> None:
    browser.open(folder / "one.html")
    assert browser.run("document.title") == HOSTILE
    assert browser.texts("h1") == [HOSTILE]
    assert browser.run("document.querySelectorAll('img[src=x]').length") == 0
    browser.choose("#pick-class", "0")
    assert HOSTILE in browser.texts("#pick-class option:checked") or HOSTILE in browser.run(
        "document.querySelector('#pick-class').selectedOptions[0].textContent"
    )
    assert any(HOSTILE in verdict for verdict in browser.texts(".verdict"))
    assert browser.complaints == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages with the learning curves of one training, of two, and of one with a single epoch."""
    made = tmp_path_factory.mktemp("training")
    run = str(write(made / "r.tsv", ROWS))
    one = str(save_training(made / HOSTILE.replace("/", ""), state(), FINAL))
    two = str(save_training(made / "start", state(0, 3), FINAL))
    report(run, "--training", one, "-o", str(made / "one.html"))
    report(run, "--training", one, "--training", two, "-o", str(made / "two.html"))
    report(run, "--training", str(save_training(made / "first", state(done=1))), "-o", str(made / "first.html"))
    return made


def lengths(browser: Browser, chart: str) -> list[tuple[str, str, float]]:
    found = browser.run(
        f"[...document.querySelectorAll('#chart-{chart} path.line')].map(p => "
        "[p.dataset.training, p.dataset.series, p.getTotalLength()])"
    )
    return [(number, series, length) for number, series, length in found]


@in_browser
def test_learning_curves_draw(browser: Browser, trained: Path) -> None:
    browser.open(trained / "two.html")
    loss, accuracy = lengths(browser, "loss"), lengths(browser, "accuracy")
    assert [line[:2] for line in loss] == [("0", "loss"), ("1", "loss")]
    assert [line[:2] for line in accuracy] == [("0", "watched"), ("0", "train"), ("1", "watched"), ("1", "train")]
    assert all(length > 50 for *_, length in [*loss, *accuracy])
    marks = (
        "[...document.querySelectorAll('#chart-loss .boundary')].map(l => [l.dataset.training, +l.getAttribute('x1')])"
    )
    ((number, x),) = browser.run(marks)
    assert number == "0", "the other one began with quantization"
    specks = browser.run("[...document.querySelectorAll('#chart-loss .speck')].map(c => +c.getAttribute('cx'))")
    assert specks[5] < x < specks[6], "between the last float epoch and the first with quantization"
    words = "[...document.querySelectorAll('#chart-loss .boundary-words')].map(t => t.textContent)"
    assert browser.run(words) == ["quantization-aware from 7 on"]
    browser.click("#training0")
    assert [line[0] for line in lengths(browser, "loss")] == ["1"]
    assert [line[0] for line in lengths(browser, "accuracy")] == ["1", "1"]
    assert browser.complaints == []


@in_browser
def test_pointing_at_epochs(browser: Browser, trained: Path) -> None:
    browser.open(trained / "one.html")
    browser.point("#chart-accuracy", 0.7)
    (tip,) = browser.texts("#chart-accuracy .tip")
    epoch = int(re.search(r"epoch (\d+)", tip)[1])  # type: ignore[index]
    assert 1 < epoch < 10
    i = epoch - 1
    assert f"test {31 + 2 * i:.1f} %, training {30 + i:.1f} %" in tip
    assert ("quantization-aware" in tip) is (epoch > 6)
    assert browser.texts("#chart-loss .tip") == [], "each chart for itself"
    browser.point("h1", 0.5)
    assert browser.texts(".tip") == []
    browser.run("document.getElementById('chart-loss').focus()")
    assert "epoch 1\n" in browser.texts("#chart-loss .tip")[0]
    browser.press("ArrowRight", 3)
    assert "epoch 4" in browser.texts("#chart-loss .tip")[0]
    assert "loss 1.700 float" in browser.texts("#chart-loss .tip")[0]
    browser.press("PageUp")
    assert "epoch 9" in browser.texts("#chart-loss .tip")[0]
    browser.press("End")
    assert browser.run("document.getElementById('chart-loss').getAttribute('aria-valuenow')") == "10"
    browser.press("Tab")
    assert browser.run("document.activeElement.id") == "chart-accuracy"
    assert browser.texts("#chart-loss .tip") == []
    assert browser.complaints == []


@in_browser
def test_one_epoch_is_a_point(browser: Browser, trained: Path) -> None:
    browser.open(trained / "first.html")
    assert browser.run("document.querySelectorAll('#chart-accuracy .speck').length") == 2
    browser.point("#chart-accuracy", 0.9)
    assert "epoch 1" in browser.texts("#chart-accuracy .tip")[0]
    assert browser.complaints == []


@in_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_learning_curves_fit(browser: Browser, trained: Path, dark: bool, width: int) -> None:
    browser.open(trained / "two.html", width=width, height=844, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    for chart in ("#chart-loss", "#chart-accuracy"):
        browser.point(chart, 0.9)
        box = f"(b => [b.left, b.right])(document.querySelector('{chart} .tip').getBoundingClientRect())"
        begin, end = browser.run(box)
        assert 0 <= begin < end <= width
        inside = (
            f"[...document.querySelectorAll('{chart} text')].every(t => (b => b.left >= 0 && b.right <= {width})"
            "(t.getBoundingClientRect()))"
        )
        assert browser.run(inside)
    assert browser.run(CONTRAST) >= 4.5
    assert HOSTILE.replace("/", "") in browser.texts("#training-legend")[0]
    assert browser.run("document.querySelectorAll('img[src=x]').length") == 0
    assert browser.complaints == []


@in_browser
def test_a_choice_of_sigma_where_runs_are_many(browser: Browser, tmp_path: Path) -> None:
    """Seven runs at two sigmas: those of the sigma that most have come first, and the others can be chosen."""
    paths = []
    for i in range(7):
        rows = [replace(row, idx=row.idx) for row in ROWS]
        paths.append(str(write(tmp_path / f"{i}.tsv", rows, with_fields(RUN, sigma="1/2" if i % 2 else "1/4"))))
    report(*paths, "--paper", "cifar10", "-o", str(tmp_path / "r.html"))
    browser.open(tmp_path / "r.html")
    drawn = "[...document.querySelectorAll('#chart path.line[data-run]')].map(p => +p.dataset.run)"
    legend = "document.querySelectorAll('#legend li').length"
    assert browser.texts("#sigma span") == ["all σ", "σ 0.25", "σ 0.5"]
    assert (browser.run(drawn), browser.run(legend)) == ([0, 2, 4, 6], 4 + 3)
    browser.click("#sigma input[value='0.5']")
    assert (browser.run(drawn), browser.run(legend)) == ([1, 3, 5], 3 + 3)
    assert browser.run(drawn.replace("#chart", "#chart-votes")) == [1, 3, 5], "the choice is for both charts"
    browser.run("document.querySelector('#sigma input:checked').focus()")
    browser.press("ArrowLeft", 2)
    assert (browser.run(drawn), browser.run(legend)) == (list(range(7)), 7 + 6)
    assert browser.complaints == []


@in_browser
def test_the_policy_stops_what_escaping_missed(browser: Browser, folder: Path, tmp_path: Path) -> None:
    """Were a tag to slip through, its script would not run: the same page with one put in."""
    source = (folder / "one.html").read_text()
    (tmp_path / "bad.html").write_text(
        source.replace("<main>", '<main><img src=x onerror="window.broken=1"><script>window.broken=1</script>')
    )
    browser.open(tmp_path / "bad.html")
    assert browser.run("window.broken === undefined")
    assert browser.complaints, "the browser says that it refused"


@in_browser
def test_an_unfinished_run_is_marked(browser: Browser, tmp_path: Path) -> None:
    write(tmp_path / "r.tsv", ROWS, with_fields(RUN, max=9))
    report(str(tmp_path / "r.tsv"), "-o", str(tmp_path / "r.html"))
    browser.open(tmp_path / "r.html")
    assert browser.texts(".badge") == ["unfinished"]
    assert "This run is unfinished: 4 of 9 images so far." in browser.texts(".findings")[0]
    assert "4 of 9" in browser.texts("#numbers")[0]


@in_browser
def test_only_predictions(browser: Browser, tmp_path: Path) -> None:
    write(tmp_path / "p.tsv", predictions(ROWS), prediction(RUN))
    report(str(tmp_path / "p.tsv"), "-o", str(tmp_path / "p.html"))
    browser.open(tmp_path / "p.html")
    assert browser.run("document.getElementById('curves').hidden")
    assert browser.run("document.querySelectorAll('#chart-votes path.line').length") == 1, "they have votes"
    assert browser.complaints == []


def test_a_header_is_what_the_field_writes() -> None:
    assert results.HEADER.startswith(HEADER)
