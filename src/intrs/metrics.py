"""What a certification run found, in numbers, each with an interval for the sample of images.

Reads results files of intrs and logs of locuslab/smoothing and the programs that grew out of it (TSV, plain or .xz).
Radii are compared as exact fractions. Intervals are about the images: 500 of them are a sample, and another 500 would
give other numbers. docs/report.md says how each is defined.
"""

from __future__ import annotations

import lzma
import math
import re
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain, count, pairwise, takewhile
from statistics import NormalDist, fmean, stdev
from typing import IO, TYPE_CHECKING, Literal

from intrs import results
from intrs.certificate import lower_bound, upper_bound
from intrs.errors import IntrsError
from intrs.noise import PIXEL_RANGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from intrs.results import Row, Run

Denominator = Literal["all", "answered"]
CONFIDENCE = Fraction(95, 100)
FEWEST_FOR_NORMAL = 30  # images; below, the normal interval of a mean says little

LOG_COLUMNS = ("idx", "label", "predict", "radius")  # that a log must have; others may follow or stand between
INDEX_NAMES = ("idx", "index", "original_idx")  # descendants rename this one
ONE_VALUE = ("sigma", "noise", "dataset", "alpha")  # columns of descendants that make two runs of one if they vary
LONGEST_LINE, MOST_LINES, LARGEST_RADIUS = 2**16, 10**6, 10**6  # of a log from a stranger


# --- Numbers with intervals ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """part of whole images. The interval is Clopper and Pearson's: exact, whatever the true share is."""

    part: int
    whole: int

    @property
    def value(self) -> float | None:
        """part / whole; None if there is no whole."""
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Covers the share among all images that these were drawn from with probability 95 % or more."""
        return _clopper_pearson(self.part, self.whole) if self.whole else None


@lru_cache(maxsize=2**16)
def _clopper_pearson(part: int, whole: int) -> tuple[float, float]:
    level = (1 - CONFIDENCE) / 2
    return float(lower_bound(part, whole, level)), float(upper_bound(part, whole, level))


@dataclass(frozen=True)
class Mean:
    """A mean over images, with the normal interval: right for many images, and left out for few."""

    value: float
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean | None:
        """Of numbers from 0 on."""
        if not values:
            return None
        value = fmean(values)
        if len(values) < FEWEST_FOR_NORMAL:
            return cls(value, None)
        half = NormalDist().inv_cdf(float(1 + CONFIDENCE) / 2) * stdev(values) / math.sqrt(len(values))
        return cls(value, (max(value - half, 0.0), value + half))


# --- A log -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What one line says of one image."""

    idx: int
    label: int
    predict: int | None  # None: abstained
    square: Fraction | None  # the certified radius squared, in units of the pixel range; None: abstained
    majority: int | None = None  # the class with most votes, whether or not that was enough; None: not recorded

    @property
    def correct(self) -> bool:
        """Whether a class was returned, and the right one."""
        return self.predict == self.label


@dataclass(frozen=True, eq=False)
class Results:
    """The answers of one run; `run` and `rows` are there if intrs wrote it."""

    paths: tuple[Path, ...]
    answers: tuple[Answer, ...]
    run: Run | None = None
    rows: tuple[Row, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, path: Path | None, run: Run, rows: Sequence[Row]) -> Results:
        """Of a results file of intrs."""
        return cls((path,) if path else (), tuple(map(_answer_of_row, rows)), run, tuple(rows))

    @property
    def path(self) -> Path:
        """The file, or the first of several."""
        return self.paths[0]

    @property
    def planned(self) -> int:
        """Images of the whole run, as far as is known."""
        return max(self.run.images, len(self.answers)) if self.run else len(self.answers)

    @property
    def complete(self) -> bool:
        """Whether every planned image has been answered."""
        return len(self.answers) == self.planned

    @property
    def has_radii(self) -> bool:
        """A file of predictions speaks of the images themselves and of no radius."""
        return self.run is None or self.run.command != "predict"

    @cached_property
    def largest(self) -> float:
        """The largest radius of any answer, right or wrong."""
        return math.sqrt(self._squares[-1]) if self._squares else 0.0

    def was_asked(self, radius: Fraction) -> bool:
        """Whether a share at this radius is what the samples could show: adaptive runs stop at what they were asked."""
        asked = self.run.stages.last.radii if self.run and self.run.stages else ()
        return not asked or radius <= max(asked)

    def answered(self) -> Share:
        """The certified percentage, CP: images that got an answer."""
        return self.certified(Fraction(0))

    def abstained(self) -> Share:
        """Images that got none."""
        return Share(len(self.answers) - len(self._squares), len(self.answers))

    def certified(self, radius: Fraction) -> Share:
        """Images certified at this radius or more, whatever the class. At radius 0 it is the certified percentage."""
        return Share(_at_least(self._squares, radius), len(self.answers))

    def certified_accuracy(self, radius: Fraction, of: Denominator = "all") -> Share:
        """Images classified correctly and certified at this radius or more.

        Their share of all images is what the field reports; the share of the answered ones is the paper's formula.
        """
        return Share(_at_least(self._right, radius), len(self.answers if of == "all" else self._squares))

    def quarters(self) -> list[Fraction]:
        """The radii 0, 1/4, 1/2, ... up to the largest of any answer, right or wrong."""
        reached = takewhile(lambda radius: self.certified(radius).part, (Fraction(k, 4) for k in count(1)))
        return [Fraction(0), *reached]

    def plain_accuracy(self) -> Share | None:
        """Images whose class with most votes is the right one, abstentions or not; None if votes were not kept."""
        majorities = [(answer.majority, answer.label) for answer in self.answers if answer.majority is not None]
        if not majorities:
            return None
        return Share(sum(majority == label for majority, label in majorities), len(majorities))

    def average_radius(self) -> Mean | None:
        """ACR: the mean over all images of the certified radius, taken as 0 where the class is wrong or missing.

        None without images, and for an adaptive run: sampling stopped short of what could be certified.
        """
        if self.run and self.run.stages:
            return None
        return Mean.of([math.sqrt(a.square) if a.square is not None and a.correct else 0.0 for a in self.answers])

    @cached_property
    def _squares(self) -> list[Fraction]:
        return sorted(answer.square for answer in self.answers if answer.square is not None)

    @cached_property
    def _right(self) -> list[Fraction]:
        return sorted(answer.square for answer in self.answers if answer.square is not None and answer.correct)


def _at_least(squares: list[Fraction], radius: Fraction) -> int:
    """How many of these, which are sorted, are radius**2 or more."""
    return len(squares) - bisect_left(squares, radius * radius)


# --- Reading ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> Results:
    """The log in this file. IntrsError says what is wrong with it, and where."""
    first = next(_lines(path), "")
    columns = first.split("\t")
    if {"radius_sq", "counts"} <= set(columns):
        return _read_ours(path)
    return Results((path,), _answers_of_log(path, columns))


def _read_ours(path: Path) -> Results:
    sidecar = results.sidecar_path(path)
    if path.suffix == ".xz":
        raise IntrsError(f"{path}: results files of intrs are read as they were written; unpack it first (unxz)")
    if not sidecar.exists():
        raise IntrsError(
            f"{path}: {sidecar.name}, which says how it was made, is missing, so neither sigma nor data nor samples "
            "are known. It was written beside the results; put it there again"
        )
    run, rows = results.read(path)
    if len(rows) > run.images:
        raise IntrsError(f"{path}: {len(rows)} lines, but {sidecar.name} speaks of {run.images} images")
    results.check_rows(path, run, rows)
    _check_once(path, (row.idx for row in rows))
    return Results.of(path, run, rows)


def _answer_of_row(row: Row) -> Answer:
    square = None if row.radius_sq is None else Fraction(row.radius_sq, PIXEL_RANGE**2)
    majority = max(range(len(row.counts)), key=row.counts.__getitem__) if any(row.counts) else None
    return Answer(row.idx, row.label, row.predict, square, majority)


def _check_once(path: Path, indices: Iterator[int]) -> None:
    seen: dict[int, int] = {}
    for number, index in enumerate(indices, 2):
        if index in seen:
            raise IntrsError(
                f"{path}, line {number}: image {index} was on line {seen[index]} already: two runs in one file?"
            )
        seen[index] = number


def _open(path: Path) -> IO[bytes]:
    return lzma.open(path) if path.suffix == ".xz" else path.open("rb")


def _lines(path: Path) -> Iterator[str]:
    """Lines of a text file, packed by xz or not, without their ends."""
    try:
        with _open(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
                if len(line) == LONGEST_LINE or number > MOST_LINES:
                    raise IntrsError(f"{path}, line {number}: too long for a log of certificates")
                yield line.decode("utf-8").rstrip("\r\n")
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise IntrsError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError:
        raise IntrsError(f"{path}: not a text file") from None


def _answers_of_log(path: Path, columns: list[str]) -> tuple[Answer, ...]:
    names = ["idx" if column in INDEX_NAMES else column for column in columns]
    if missing := [column for column in LOG_COLUMNS if names.count(column) != 1]:
        raise IntrsError(
            f"{path}: its first line names no column {missing[0]!r}, or more than one. A log of certificates is a TSV "
            f"whose first line names {' '.join(LOG_COLUMNS)} and perhaps others"
        )
    answers: list[Answer] = []
    steady: dict[str, str] = {}
    for number, line in enumerate(_lines(path), 1):
        if number == 1:
            continue
        try:
            cells = _cells(names, line)
            answers.append(_answer_of_cells(cells))
            _check_steady(steady, cells)
        except ValueError as error:
            raise IntrsError(f"{path}, line {number}: malformed ({error})") from None
    if not answers:
        raise IntrsError(f"{path}: it has 0 lines of results")
    _check_once(path, (answer.idx for answer in answers))
    return tuple(answers)


def _cells(names: list[str], line: str) -> dict[str, str]:
    texts = line.split("\t")
    if len(texts) != len(names):
        raise ValueError(f"{len(texts)} columns where the first line names {len(names)}")
    return {name: text.strip() for name, text in zip(names, texts, strict=True)}


def _answer_of_cells(cells: dict[str, str]) -> Answer:
    """An abstention is a predicted class of -1; its radius says nothing."""
    idx, label, predict = (_whole(cells[column], column) for column in ("idx", "label", "predict"))
    if idx < 0 or label < 0 or predict < -1:
        raise ValueError("a negative number where none can be")
    if "correct" in cells and _whole(cells["correct"], "correct") != (predict == label):
        raise ValueError(f"correct is {cells['correct']}, but predict is {predict} and label is {label}")
    radius = _radius(cells["radius"])
    return Answer(idx, label, *((None, None) if predict < 0 else (predict, radius * radius)))


def _whole(text: str, column: str) -> int:
    if not re.fullmatch(r"-?\d{1,15}(\.0)?", text, re.ASCII):
        raise ValueError(f"{column} is {text[:40]!r}")
    return int(text.removesuffix(".0"))


def _radius(text: str) -> Fraction:
    """The number as printed; neither infinite, nor none at all, nor beyond all images."""
    if not re.fullmatch(r"\d{1,6}(\.\d{0,20})?([eE][+-]?\d{1,2})?", text, re.ASCII):
        raise ValueError(f"radius is {text[:40]!r}")
    radius = Fraction(text)
    if radius >= LARGEST_RADIUS:
        raise ValueError(f"radius is {text}")
    return radius


def _check_steady(steady: dict[str, str], cells: dict[str, str]) -> None:
    for column in ONE_VALUE:
        if column in cells and steady.setdefault(column, cells[column]) != cells[column]:
            raise ValueError(
                f"{column} is {cells[column][:40]}, but {steady[column][:40]} before: two runs mixed in one file"
            )


# --- Several files ---------------------------------------------------------------------------------------------------

SAME_IN_PARTS = tuple(name for name in results.SAME if name not in ("first", "skip"))
"""What the parts of a run must share: a curve over two sigmas, data sets or numbers of samples is one of nothing."""


def join(logs: Sequence[Results]) -> Results:
    """Parts of one run as one log. Refuses what was not made with the same settings, or has an image twice."""
    first = logs[0]
    for log in logs[1:]:
        if (first.run is None) != (log.run is None):
            raise IntrsError(f"cannot join {first.path} and {log.path}: only one of them says how it was made")
        if first.run and log.run and (differing := _differences(first.run, log.run)):
            raise IntrsError(f"cannot join {first.path} and {log.path}:\n  " + "\n  ".join(differing))
    seen: dict[int, Path] = {}
    for log in logs:
        for answer in log.answers:
            if answer.idx in seen:
                raise IntrsError(f"cannot join {seen[answer.idx]} and {log.path}: image {answer.idx} is in both")
            seen[answer.idx] = log.path
    run = first.run and replace(first.run, request=replace(first.run.request, max=sum(log.planned for log in logs)))
    return Results(
        tuple(chain.from_iterable(log.paths for log in logs)),
        tuple(chain.from_iterable(log.answers for log in logs)),
        run,
        tuple(chain.from_iterable(log.rows for log in logs)),
    )


def _differences(one: Run, two: Run) -> list[str]:
    unequal = results.unequal(one, two, SAME_IN_PARTS)
    return [f"{name} is {mine} in one and {theirs} in the other" for name, mine, theirs in unequal]


def check_comparable(logs: Sequence[Results]) -> None:
    """Refuse to lay runs about different data beside each other.

    What an image's number and class are shows it: the same number must have the same class in every log.
    """
    labels: dict[int, tuple[int, Path]] = {}
    for log in logs:
        for answer in log.answers:
            label, path = labels.setdefault(answer.idx, (answer.label, log.path))
            if label != answer.label:
                raise IntrsError(
                    f"{path} and {log.path} are about different data: image {answer.idx} is of class {label} in one "
                    f"and {answer.label} in the other. One picture of both would mislead; make one for each"
                )
    _check_common(logs)


def _check_common(logs: Sequence[Results]) -> None:
    known = [log for log in logs if log.run]
    for one, two in pairwise(known):
        assert one.run
        assert two.run
        shared = {answer.idx for answer in one.answers} & {answer.idx for answer in two.answers}
        if one.run.data_sha256 != two.run.data_sha256 and not shared:
            raise IntrsError(
                f"{one.path} and {two.path} are about different data: {one.run.request.data} and "
                f"{two.run.request.data} have no image "
                "in common. One picture of both would mislead; make one for each"
            )
