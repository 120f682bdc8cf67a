"""Figures for papers by matplotlib (extra `plot`): certified accuracy against radius, each line with its name."""

from __future__ import annotations

import io
import math
import warnings
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from intrs.errors import IntrsError, ResultsError
from intrs.files import check_suffix
from intrs.reports.runs import curve, curve_step, fitting_curves, guess_paper, have_labels, paper_curves, shown_at_first
from intrs.reports.voting import Axis, distribution, with_votes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from intrs.metrics import Share
    from intrs.reports.runs import Entry, Measure

    Line = tuple[str, Sequence[float], Sequence[Share]]  # name, x, y

Axes: TypeAlias = Any  # matplotlib's, whose types are not the same in all versions
Figure: TypeAlias = Any
FORMATS = (".pdf", ".png", ".svg")
WIDTHS = {"column": 3.25, "page": 6.75}  # inches, of the usual two-column conference paper
# Okabe and Ito's colours, which stay apart for every kind of colour vision; the same as on the page.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a6f00", "#000000")
GREY = "#5d636b"
DOTS_PER_INCH = 300
APART = 0.8  # units of Phi^-1 between marks of a share of votes, for words such as 99.9 %
YLABEL = {
    "all": "certified accuracy",
    "answered": "certified accuracy of the answered",
    "certified": "certified, correct or wrong",
}
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so that a figure is the same everywhere
    "font.size": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,  # TrueType, embedded; journals refuse Type 3
    "svg.fonttype": "path",
    "svg.hashsalt": "intrs",  # the same names in every run
}
UNKNOWN_SIGN = r"Glyph \d+ |Matplotlib currently does not support"  # warnings about a sign that the font lacks
NO_DATE: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}


def check_format(suffix: str) -> None:
    """Refuse before anything is read."""
    check_suffix(suffix, FORMATS, "a figure")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise IntrsError(
            "figures need matplotlib: install intrs with its extra `plot`: pip install 'intrs[plot]'"
        ) from None


def figure(
    entries: Sequence[Entry],
    suffix: str,
    *,
    measure: Measure = "all",
    cp: bool = False,
    votes: bool = False,
    width: str = "column",
    which: str = "auto",
) -> bytes:
    """The figure as a file's bytes. cp adds a picture: images certified, correct or wrong; votes one of their votes."""
    check_format(suffix)
    if predictions := [entry.name for entry in entries if not entry.results.has_radii]:
        raise ResultsError(f"{predictions[0]} is a run of predictions, which have no radius; a report shows it")
    measures: list[Measure] = [measure, "certified"] if cp else [measure]
    if not have_labels(entries):
        measures = ["certified"]
    if "answered" in measures and (unknown := [e.name for e in entries if not e.results.was_asked(0)]):
        raise ResultsError(
            f"{unknown[0]} is an adaptive run that was not asked for radius 0, so that it does not say how many images "
            "get an answer; draw shares of all images"
        )
    if votes and not with_votes(entries):
        raise ResultsError(f"{entries[0].name} is a log of another program, which has no votes to show")
    return _saved(lambda: drawn(entries, measures, width, which, votes=votes), suffix)


def simple_figure(lines: Sequence[Line], xlabel: str, ylabel: str, suffix: str) -> bytes:
    """The same for lines of any shares, in one picture as wide as a column."""
    check_format(suffix)

    def draw(ax: Axes) -> None:
        for i, (name, xs, shares) in enumerate(lines):
            _draw_line(ax, i, name, xs, shares)
        _frame(ax, xlabel, ylabel)

    return _saved(lambda: _pictures([draw], "column"), suffix)


def _saved(draw: Callable[[], Figure], suffix: str) -> bytes:
    from matplotlib import rc_context

    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNKNOWN_SIGN, UserWarning)  # which is seen as a box
        buffer = io.BytesIO()
        draw().savefig(buffer, format=suffix[1:], dpi=DOTS_PER_INCH, metadata=NO_DATE[suffix])
    return buffer.getvalue()


def drawn(
    entries: Sequence[Entry], measures: Sequence[Measure], width: str, which: str, *, votes: bool = False
) -> Figure:
    """The figure for matplotlib: one picture per measure, and one of the votes."""
    draws = [partial(_draw, entries=entries, measure=measure, which=which) for measure in measures]
    return _pictures([*draws, *([partial(_draw_votes, entries=entries)] if votes else [])], width)


def _pictures(draws: Sequence[Callable[[Axes], None]], width: str) -> Figure:
    """Side by side if the width allows."""
    import matplotlib.figure

    across = len(draws) if width == "page" else 1
    down = len(draws) // across
    made = matplotlib.figure.Figure((WIDTHS[width], 0.62 * WIDTHS[width] * down / across), layout="constrained")
    axes: list[Axes] = made.subplots(down, across, squeeze=False).ravel().tolist()
    for draw, ax in zip(draws, axes, strict=True):
        draw(ax)
    made.draw_without_rendering()  # settles the layout, which the names need
    made.set_layout_engine("none")
    for ax in axes:
        _name_lines(ax)
    return made


def _draw(ax: Axes, entries: Sequence[Entry], measure: Measure, which: str) -> None:
    step = curve_step(entries)
    for i, entry in enumerate(entries):
        shares = curve(entry, measure, step)
        _draw_line(ax, i, _name(entry), [float(k * step) for k in range(len(shares))], shares, steps=True)
    if measure != "certified":
        _draw_paper(ax, entries, which)
    _frame(ax, r"certified $\ell_2$ radius", YLABEL[measure] if have_labels(entries) else "certified")


def _draw_votes(ax: Axes, entries: Sequence[Entry]) -> None:
    """As on the page: the axis is Phi^-1 of a share of votes, and names the shares."""
    found = with_votes(entries)
    axis = Axis.of([entry for _, entry in found])
    for i, entry in found:
        _draw_line(ax, i, _name(entry), axis.units, distribution(entry, axis), steps=True)
    _frame(ax, f"votes for the {'true' if have_labels(entries) else 'chosen'} class", "share of images")
    marks: list[tuple[float, str]] = []
    for unit, name in axis.marks:
        marks += [(unit, name)] if all(abs(unit - other) >= APART for other, _ in marks) else []
    ax.set_xticks(*zip(*marks, strict=True))
    ax.set(xlim=(axis.units[0], axis.units[-1]), ylim=(0, 1))
    ax.vlines(0, 0, 1, color=GREY, linewidth=0.7, linestyle=":")  # half of the votes


def _name(entry: Entry) -> str:
    return entry.name + ("" if entry.results.complete else " (unfinished)")


def _draw_line(
    ax: Axes, i: int, name: str, xs: Sequence[float], shares: Sequence[Share], *, steps: bool = False
) -> None:
    """The i-th line of a picture, with a band for its intervals.

    steps: a share holds up to its x from the one before, so that the line goes straight down and never too far right.
    """
    shape, band = ({"drawstyle": "steps-pre"}, {"step": "pre"}) if steps else ({}, {})
    style, colour = "-" if i < len(COLOURS) else "--", COLOURS[i % len(COLOURS)]
    ax.plot(xs, [s.value or 0.0 for s in shares], style, color=colour, linewidth=1.2, label=name, **shape)
    bands = [(x, *s.interval) for x, s in zip(xs, shares, strict=True) if s.interval and s.part]
    if bands:
        ax.fill_between(*map(list, zip(*bands, strict=True)), color=colour, alpha=0.13, linewidth=0, **band)


def _frame(ax: Axes, xlabel: str, ylabel: str) -> None:
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, None), ylim=(0, None))
    ax.grid(axis="y", color="#e4e4df", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(width=0.6, length=2.5)


def _draw_paper(ax: Axes, entries: Sequence[Entry], which: str) -> None:
    which = guess_paper(entries) if which == "auto" else which
    for found in fitting_curves(paper_curves(which), entries):
        if not shown_at_first(found, entries):
            continue
        ax.plot(
            found.radii, found.values, ":", color=GREY, marker="o", markersize=2.5, linewidth=0.7,
            markerfacecolor="white", markeredgewidth=0.6, label=found.name,
        )  # fmt: skip


# --- Names on the lines ----------------------------------------------------------------------------------------------

Box = tuple[float, float, float, float]  # left, bottom, right, top; pixels


def _name_lines(ax: Axes) -> None:
    """Put every line's name where the fewest other things are in the way."""
    from matplotlib.patheffects import withStroke

    lines = [ax.transData.transform(line.get_xydata()).tolist() for line in ax.get_lines()]
    obstacles, taken = [point for line in lines for point in _dense(line)], list[Box]()
    frame: Box = tuple(ax.bbox.extents)
    dpi = ax.get_figure(root=True).dpi
    for line, points in zip(ax.get_lines(), lines, strict=True):
        name, size = str(line.get_label()), 6.0
        width, height = 0.58 * size * len(name) * dpi / 72, 1.5 * size * dpi / 72
        place = min(_places(_dense(points), width, height, dpi), key=lambda box: _cost(box, frame, obstacles, taken))
        taken.append(place)
        x, y = ax.transAxes.inverted().transform((place[0], place[1] + 0.3 * height))  # shares, whatever the dpi
        halo = [withStroke(linewidth=1.8, foreground="white")]
        ax.text(
            x, y, name, transform=ax.transAxes, color=line.get_color(), fontsize=size, path_effects=halo,
            parse_math=False,  # a name is no formula, whatever stands between two $
        )  # fmt: skip


def _dense(points: list[list[float]]) -> list[list[float]]:
    made = points[:1]
    for (x0, y0), (x1, y1) in pairwise(points):
        pieces = max(math.ceil(math.hypot(x1 - x0, y1 - y0) / 3), 1)
        made += [[x0 + (x1 - x0) * k / pieces, y0 + (y1 - y0) * k / pieces] for k in range(1, pieces + 1)]
    return made


def _places(points: list[list[float]], width: float, height: float, dpi: float) -> list[Box]:
    gap, made = 3 * dpi / 72, list[Box]()
    for x, y in points[:: max(len(points) // 90, 1)]:
        for left, bottom in ((x + gap, y), (x + gap, y - height), (x - gap - width, y - height), (x - gap - width, y)):
            made.append((left, bottom, left + width, bottom + height))
    return made


def _cost(box: Box, frame: Box, obstacles: list[list[float]], taken: list[Box]) -> float:
    left, bottom, right, top = box
    beyond = max(frame[0] - left, 0) + max(right - frame[2], 0) + max(frame[1] - bottom, 0) + max(top - frame[3], 0)
    covered = sum(left < x < right and bottom < y < top for x, y in obstacles)
    overlaps = sum(left < b[2] and right > b[0] and bottom < b[3] and top > b[1] for b in taken)
    return 20 * beyond + covered + 1000 * overlaps
