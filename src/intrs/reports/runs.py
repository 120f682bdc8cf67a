"""What a page or a figure shows: runs with names, their curves, and the paper's."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from intrs.errors import ResultsError, SettingsError
from intrs.exact import plain, shown
from intrs.metrics import Results, Share, check_comparable, join, read, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.results import Run

Source = str | Path | Results  # where a run comes from

Measure = Literal["all", "answered", "certified"]
MEASURES: tuple[Measure, ...] = ("all", "answered", "certified")
PAPERS = ("cifar10", "caltech101")
METHODS = ("IntRS-quant", "FloatRS-fp", "FloatRS-quant")  # of the paper; the first is its own
CURVE_STEPS = tuple(Fraction(m * 10**k, 100) for k in range(9) for m in (1, 2, 5))  # 0.01, 0.02, 0.05, 0.1, ...
MOST_POINTS = 400  # of a curve
LONGEST_NAME = 80


@dataclass(frozen=True, eq=False)
class Entry:
    """A run and the name under which it is shown."""

    name: str
    results: Results
    method: str = ""  # of METHODS, if known: a results file does not say it

    @property
    def run(self) -> Run | None:
        """What is recorded of the run; None for a log of another program."""
        return self.results.run

    @property
    def sigma(self) -> Fraction | None:
        """As recorded; a log of another program says it in its name at best."""
        if self.run:
            return self.run.noise.sigma
        found = re.search(r"(?:sigma|noise)[_=-]?(\d\.\d{1,4})(?!\d)", _file_name(self.results))
        return Fraction(found[1]) if found else None

    def measure(self, measure: Measure, radius: Fraction) -> Share:
        """One of the three shares at a radius; of no images where it is not known how many get an answer."""
        if measure == "certified" or not self.results.has_labels:
            return self.results.certified(radius)
        if measure == "answered" and not self.results.was_asked(0):
            return Share(0, 0)
        return self.results.certified_accuracy(radius, measure)


def open_runs(sources: Source | Sequence[Source], names: Sequence[str] = (), *, joined: bool = False) -> list[Entry]:
    """Read the files, refuse what must not stand in one picture, and name what is left."""
    if not isinstance(sources, str | Path | Results | Iterable):
        raise SettingsError(f"results: expected files of results, got {shown(sources)}")
    listed = [sources] if isinstance(sources, str | Path | Results) else list(sources)
    names = [names] if isinstance(names, str) else list(names)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise SettingsError(f"labels: expected text for every run, got {shown(odd[0])}")
    if not listed:
        raise ResultsError("there are no results to show; name at least one file")
    found = [each if isinstance(each, Results) else read(each) for each in listed]
    paths = Counter(path.resolve() for each in found for path in each.paths)
    if twice := next((path for path, count in paths.items() if count > 1), None):
        raise ResultsError(f"{twice} is named twice")
    found = [join(found)] if joined else found
    for each in found:
        if not len(each):
            raise ResultsError(f"{each.source}: it has 0 lines of results")
    check_comparable(found)
    if names and len(names) != len(found):
        runs = f"{len(found)} {'run' if len(found) == 1 else 'runs'}"
        raise SettingsError(f"{len(names)} labels for {runs}; give one for each, in their order")
    return [Entry(name, each) for name, each in zip(names or _names(found), found, strict=True)]


def have_labels(entries: Sequence[Entry]) -> bool:
    """Whether the true classes are known; of runs in one picture all are, or none."""
    return all(entry.results.has_labels for entry in entries)


def unfinished(entries: Sequence[Entry]) -> list[str]:
    """The names of runs that lack some of their images."""
    return [entry.name for entry in entries if not entry.results.complete]


def _names(found: Sequence[Results]) -> list[str]:
    """Models with their noise, or file names; made different if need be."""
    made = [_name(each) for each in found]
    counts = Counter(made)
    made = [
        f"{name}, {_file_name(each)}" if counts[name] > 1 and each.paths else name
        for name, each in zip(made, found, strict=True)
    ]
    counts = Counter(made)
    return [f"{name} ({i})" if counts[name] > 1 else name for i, name in enumerate(made, 1)]


def _name(found: Results) -> str:
    if not found.run:
        name = _file_name(found)
        return re.sub(r"(\.tsv|\.txt|\.xz)+$", "", name)[:LONGEST_NAME] or name
    name, sigma = Path(found.run.request.model).name, plain(found.run.noise.sigma)
    model = re.sub(r"\.onnx$", "", name)[:LONGEST_NAME] or f"network {found.run.identity[:12]}"
    return model if f"sigma{sigma}" in model else f"{model}, σ {sigma}"


def _file_name(found: Results) -> str:
    return found.path.name if found.path else ""


# --- Radii and curves ------------------------------------------------------------------------------------------------


def table_radii(entries: Sequence[Entry]) -> list[Fraction]:
    """0, 0.25, 0.5, ... up to the largest radius that was certified; wider steps if these are many.

    Of adaptive runs those that they were asked for, too.
    """
    fixed = [entry.results.largest for entry in entries if not entry.results.asked]
    asked = [show.table_radii(entry.results) for entry in entries if entry.results.asked]
    return sorted({*(show.radii_up_to(max(fixed)) if fixed else ()), *chain.from_iterable(asked)})


def curve_step(entries: Sequence[Entry]) -> Fraction:
    """Distance of the points of all curves of one picture."""
    largest = max(entry.results.largest for entry in entries)
    return next(step for step in CURVE_STEPS if largest / step < MOST_POINTS)


def curve(entry: Entry, measure: Measure, step: Fraction) -> list[Share]:
    """The measure at 0, step, 2 step, ... up to the first radius that nothing reaches.

    Of an adaptive run it is known at the radii that were asked for: it is that of the next of these, and ends with the
    last.
    """
    radii = [k * step for k in range(int(entry.results.largest / step) + 2)]
    if asked := sorted(entry.results.asked):
        radii = [asked[bisect_left(asked, radius)] for radius in radii if radius <= asked[-1]]
    return [entry.measure(measure, radius) for radius in radii]


def points(shares: Sequence[Share]) -> dict[str, list[float]]:
    """A curve as the page's script draws it."""
    intervals = [share.interval or (0.0, 0.0) for share in shares]
    return {
        "part": [share.part for share in shares],
        "whole": [shares[0].whole],
        "low": [round(low, 4) for low, _ in intervals],
        "high": [round(high, 4) for _, high in intervals],
    }


def sigma_text(entry: Entry) -> str | None:
    """The noise by which the page groups runs, if it is known."""
    return None if entry.sigma is None else plain(entry.sigma)


# --- The paper -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PaperCurve:
    """A row of the paper's table, up to the last radius at which it is not 0: between points it says nothing."""

    method: str
    sigma: Fraction
    radii: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def name(self) -> str:
        """As a legend has it."""
        return f"{self.short} (paper)"

    @property
    def short(self) -> str:
        """As it stands beside the curve."""
        return f"{self.method} σ {plain(self.sigma)}"


@cache
def paper() -> dict[str, Any]:
    """The paper's tables, as transcribed."""
    found: dict[str, Any] = json.loads((files("intrs.reports") / "paper.json").read_text("utf-8"))
    return found


def paper_curves(which: str) -> list[PaperCurve]:
    """All curves of a table; none for "none"."""
    if which not in paper()["tables"]:
        return []
    table = paper()["tables"][which]
    radii = tuple(map(float, table["radii"]))
    made = []
    for method in METHODS:
        for sigma, texts in table["certified_accuracy"][method].items():
            values = tuple(value for value in map(float, texts) if value)
            made.append(PaperCurve(method, Fraction(sigma), radii[: len(values)], values))
    return made


def fitting_curves(curves: Sequence[PaperCurve], entries: Sequence[Entry]) -> list[PaperCurve]:
    """The paper's curves at the sigmas of these runs."""
    sigmas = {entry.sigma for entry in entries}
    return [curve for curve in curves if curve.sigma in sigmas]


def shown_at_first(curve: PaperCurve, entries: Sequence[Entry]) -> bool:
    """Whether a curve of the paper is about a method that is here; the paper's own method, if that is not known."""
    methods = {entry.method for entry in entries if entry.sigma == curve.sigma and entry.method}
    return curve.method in (methods or METHODS[:1])


def guess_paper(entries: Sequence[Entry]) -> str:
    """Which of the paper's tables is about the data of these runs, by the data's name or the file's."""
    for entry in entries:
        name = Path((*entry.run.request.sources, "")[0]).name if entry.run else _file_name(entry.results)
        squeezed = re.sub(r"[^a-z0-9]", "", name.lower())
        for which in PAPERS:
            if which in squeezed:
                return which
    return "none"
