"""Figures for papers: what is drawn is what pandas finds, lines carry their names, fonts are in the file."""

from __future__ import annotations

import builtins
import io
import re
import warnings
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from PIL import Image
from runs import prediction, predictions, with_fields
from test_metrics import EXCERPT, log_file
from test_results import ROWS, RUN, write

from intrs import metrics, reports
from intrs.cli import main
from intrs.errors import ResultsError, SettingsError
from intrs.reports.figure import COLOURS, FORMATS, WIDTHS, drawn
from intrs.reports.runs import open_runs

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.reports.runs import Measure

MEASURES: tuple[Measure, ...] = ("all", "answered", "certified")


def plot(*arguments: str, code: int = 0) -> None:
    assert main(["plot", *arguments]) == code


@pytest.mark.parametrize("measure", MEASURES)
def test_the_line_against_pandas(measure: Measure) -> None:
    (ax,) = drawn(open_runs([EXCERPT], ["ours"]), [measure], "column", "cifar10").axes
    frame = pd.read_csv(EXCERPT, delimiter="\t")
    answered = frame[frame.predict != -1]
    line, *others = ax.get_lines()
    radii, shares = (values.tolist() for values in line.get_data())
    for radius, share in zip(radii, shares, strict=True):
        counted = answered if measure == "certified" else frame[frame.correct == 1]
        whole = answered if measure == "answered" else frame
        assert share == (counted.radius >= round(float(radius), 6)).sum() / len(whole)
    assert shares[-1] == 0
    assert len(others) == (0 if measure == "certified" else 1), "the paper's curve at this sigma"
    for paper in others:
        assert paper.get_ydata().tolist() == [0.52, 0.39, 0.29, 0.22, 0.15, 0.08]


def test_the_votes(tmp_path: Path) -> None:
    """80 of 100 votes for the true class of three images, 20 for that of one; the log beside them has none."""
    log = log_file(tmp_path / "l.tsv", ["0\t1\t1\t0.5\t1\t-"])
    entries = open_runs([log, write(tmp_path / "r.tsv", ROWS, with_fields(RUN, max=9))], ["L", "R"])
    _, ax = drawn(entries, ["all"], "page", "none", votes=True).axes
    (line,) = ax.get_lines()
    assert (line.get_label(), line.get_color()) == ("R (unfinished)", COLOURS[1])
    shares = {round(NormalDist().cdf(x), 3): y for x, y in zip(*line.get_data(), strict=True)}
    assert [y for share, y in shares.items() if share < 0.2] == [1.0] * sum(share < 0.2 for share in shares)
    assert {y for share, y in shares.items() if 0.21 < share < 0.8} == {0.75}
    assert {y for share, y in shares.items() if share > 0.81} == {0.0}
    names = [text.get_text() for text in ax.get_xticklabels()]
    assert {"0 %", "50 %", "90 %", "100 %"} <= set(names)
    boxes = sorted(text.get_window_extent().extents.tolist() for text in ax.get_xticklabels())
    assert all(a[2] < b[0] for a, b in pairwise(boxes))
    plot(str(tmp_path / "r.tsv"), "-o", str(tmp_path / "a.svg"), "--votes")
    plot(str(tmp_path / "r.tsv"), "-o", str(tmp_path / "b.svg"))
    assert (tmp_path / "a.svg").read_bytes() == reports.plot(tmp_path / "r.tsv", votes=True).data
    assert (tmp_path / "a.svg").read_bytes() != (tmp_path / "b.svg").read_bytes()


def test_every_line_carries_its_name_and_none_hides_another(tmp_path: Path) -> None:
    paths = []
    for i, sigma in enumerate(("0.12", "0.25", "0.50", "1.00")):
        lines = [f"{k}\t1\t1\t{k * (i + 1) / 100:.4f}\t1\t-" for k in range(60)]
        paths.append(log_file(tmp_path / f"sigma{sigma}.tsv", lines))
    (ax,) = drawn(open_runs(paths, ["one", "two", "three", "four"]), ["all"], "column", "cifar10").axes
    papers = [f"IntRS-quant σ {sigma} (paper)" for sigma in ("0.12", "0.25", "0.5", "1")]
    assert [text.get_text() for text in ax.texts] == ["one", "two", "three", "four", *papers]
    assert [text.get_color() for text in ax.texts[:4]] == list(COLOURS[:4])
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    frame = ax.bbox.padded(3)
    assert all(frame.contains(*corner) for box in boxes for corner in (box.min, box.max))


def test_a_name_is_no_formula_and_no_warning(tmp_path: Path) -> None:
    """What stands between two $ would be read as TeX, and signs that the font lacks would be complained about."""
    names = [r"$\alpha_$", "$5 and $6", "日本"]
    paths = [log_file(tmp_path / f"{i}.tsv", ["0\t1\t1\t0.5\t1\t-"]) for i in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in FORMATS:
            reports.plot(paths, tmp_path / f"f{suffix}", labels=names)
    (ax,) = drawn(open_runs(paths, names), ["all"], "column", "none").axes
    assert [(text.get_text(), text.get_parse_math()) for text in ax.texts] == [(name, False) for name in names]


@pytest.mark.parametrize(
    ("width", "options", "ratio"), [("column", [], 0.62), ("page", ["--cp"], 0.31), ("column", ["--cp"], 1.24)]
)
def test_sizes(tmp_path: Path, width: str, options: list[str], ratio: float) -> None:
    plot(str(EXCERPT), "-o", str(tmp_path / "f.png"), "--width", width, *options)
    with Image.open(tmp_path / "f.png") as image:
        assert image.size == pytest.approx((300 * WIDTHS[width], 300 * WIDTHS[width] * ratio), abs=2)


def test_pdf_embeds_its_fonts(tmp_path: Path) -> None:
    plot(str(EXCERPT), "-o", str(tmp_path / "f.pdf"))
    data = (tmp_path / "f.pdf").read_bytes()
    assert data.startswith(b"%PDF-")
    assert b"/FontFile2" in data
    assert b"/Type3" not in data, "journals refuse it"


def test_svg_needs_no_fonts_and_nothing_else(tmp_path: Path) -> None:
    plot(str(EXCERPT), "-o", str(tmp_path / "f.svg"), "--label", "<b>&")
    source = (tmp_path / "f.svg").read_text()
    assert "<text" not in source, "letters are outlines"
    assert "<b>" not in source
    assert not re.search(r'href="http', source)


@pytest.mark.parametrize("suffix", [".pdf", ".svg", ".png"])
def test_the_same_results_give_the_same_figure(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        plot(str(EXCERPT), "-o", str(tmp_path / (name + suffix)))
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_an_unfinished_run_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "r.tsv", ROWS, with_fields(RUN, max=9))
    (ax,) = drawn(open_runs([path], ["A"]), ["all"], "column", "none").axes
    assert [text.get_text() for text in ax.texts] == ["A (unfinished)"]
    plot(str(path), "-o", str(tmp_path / "f.svg"))
    assert "unfinished: m, σ 0.25" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.tsv", "-o", "f.jpg"], "ends in .pdf, .png, .svg, not '.jpg'"),
        (["r.tsv", "-o", "f"], "not 'nothing'"),
        (["p.tsv", "-o", "f.pdf"], "a run of predictions, which have no radius"),
        (["r.tsv", "strange.tsv", "-o", "f.pdf"], "about different data"),
        (["r.tsv", "other.tsv", "--join", "-o", "f.pdf"], "sigma is 1/4 in one and 1/2 in the other"),
        (["r.tsv", "-o", "there.pdf"], "there.pdf exists; choose another name, or ask to overwrite"),
        (["r.tsv"], "-o/--out"),
        (["strange.tsv", "--votes", "-o", "f.pdf"], "strange is a log of another program, which has no votes to show"),
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
    write(tmp_path / "p.tsv", predictions(ROWS), prediction(RUN))
    write(tmp_path / "other.tsv", [replace(row, idx=row.idx + 1) for row in ROWS], with_fields(RUN, sigma="1/2"))
    log_file(tmp_path / "strange.tsv", ["0\t9\t9\t0.5\t1\t-"])
    (tmp_path / "there.pdf").write_bytes(b"mine")
    plot(*arguments, code=2)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("f*"))


def test_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    plot(str(EXCERPT), "-o", str(tmp_path / "f.pdf"), code=2)
    assert "pip install 'intrs[plot]'" in capsys.readouterr().err


def test_a_figure_as_a_function(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same bytes as the command writes; without a file an SVG, which a notebook shows; nothing is printed."""
    shown = reports.plot(EXCERPT)
    written = reports.plot([metrics.read(EXCERPT)], str(tmp_path / "f.png"), of="answered", width="page")
    assert capfd.readouterr() == ("", "")
    plot(str(EXCERPT), "-o", str(tmp_path / "c.svg"))
    plot(str(EXCERPT), "-o", str(tmp_path / "c.png"), "--of", "answered", "--width", "page")
    assert shown.data == (tmp_path / "c.svg").read_bytes()
    assert written.data == (tmp_path / "f.png").read_bytes() == (tmp_path / "c.png").read_bytes()
    assert (shown.path, written.path) == (None, tmp_path / "f.png")
    assert (shown._repr_svg_() or "").startswith("<?xml")
    assert (shown._repr_png_(), written._repr_svg_(), written._repr_png_()) == (None, None, written.data)
    assert re.fullmatch(r"Plot\('.*f.png', runs: 1, png, [\d,]+ bytes\)", repr(written))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "certified"}, "of must be one of all, answered, not 'certified'"),
        ({"width": "wide"}, "width must be one of column, page, not 'wide'"),
        ({"paper": "mnist"}, "paper must be one of"),
        ({"out": "f.jpg"}, "ends in .pdf, .png, .svg, not '.jpg'"),
    ],
)
def test_mistakes_in_a_call(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        reports.plot(EXCERPT, **arguments)


def test_shares_of_the_answered_need_a_run_that_was_asked_for_them(tmp_path: Path) -> None:
    """An adaptive run that was not asked for radius 0 does not say how many images get an answer."""
    rows = [replace(row, look=0, rule="spending-" + "0" * 16) for row in ROWS]
    paths = [
        write(tmp_path / f"{i}.tsv", rows, with_fields(RUN, adaptive=f"n=100 radii={radii} give_up=1/2"))
        for i, radii in enumerate(("0,1/2", "1/2"))
    ]
    assert reports.plot(paths, of="all").data
    assert reports.plot(paths[0], of="answered").data
    with pytest.raises(ResultsError, match="B is an adaptive run that was not asked for radius 0"):
        reports.plot(paths, labels=["A", "B"], of="answered")


def test_pictures_are_not_blank(tmp_path: Path) -> None:
    """The run's own colour is on the figure."""
    plot(str(EXCERPT), "-o", str(tmp_path / "f.png"), "--paper", "none")
    with Image.open(io.BytesIO((tmp_path / "f.png").read_bytes())) as image:
        counts = {colour: count for count, colour in image.convert("RGB").getcolors(2**24) or []}
    assert counts.get((0x00, 0x72, 0xB2), 0) > 1000
