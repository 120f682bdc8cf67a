"""One line of a results file: the answer for one image, and the votes behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from intrs.certificate import Abstained, Certified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.adaptive import Rule
    from intrs.smooth import Predicted
    from intrs.votes import Votes

COLUMNS = (
    "idx", "label", "predict", "radius", "correct", "time",
    "n0", "n", "votes", "radius_sq", "counts0", "counts",
)  # fmt: skip
ADAPTIVE_COLUMNS = (*COLUMNS, "look", "rule")
FILE = "file"  # the last column of images without labels
LONGEST_FILE = 10_000  # characters of it
DIGITS = 6  # of a radius
TIME = r"(\d{1,6} days?, )?([01]?\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?"  # as a timedelta writes it


@dataclass(frozen=True)
class Row:
    """One line: the answer for one image, and the votes behind it."""

    idx: int
    label: int | None  # None: not known
    predict: int | None  # None: abstained
    radius: str  # in units of the pixel range, rounded down
    correct: int  # 0 if the label is not known
    time: str
    n0: int
    n: int
    votes: int  # of the class that selection chose
    radius_sq: int | None  # in squared pixel levels; None: abstained
    counts0: tuple[int, ...]
    counts: tuple[int, ...]
    look: int | None = None  # at which an adaptive run stopped, from 0
    rule: str = ""  # Rule.name
    file: str | None = None  # the image's file name, or nothing; None: the label is known

    @classmethod
    def of(
        cls,
        label: int | None,
        outcome: Certified | Predicted | Abstained,
        selection: Votes,
        estimation: Votes,
        seconds: float,
        rule: Rule | None = None,
        file: str | None = None,
    ) -> Self:
        """The line for an outcome; with the rule by which sampling stopped, if there was one.

        file: of an image whose label is not known.
        """
        predict, radius, radius_sq = _answer(outcome)
        return cls(
            idx=estimation.samples.image,
            label=label,
            predict=predict,
            radius=radius,
            correct=int(label is not None and predict == label),
            time=str(timedelta(seconds=seconds)),
            n0=selection.count,
            n=estimation.count,
            votes=outcome.votes,
            radius_sq=radius_sq,
            counts0=selection.counts,
            counts=estimation.counts,
            look=None if rule is None else rule.look(estimation.count),
            rule="" if rule is None else rule.name,
            file=file,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Of its file."""
        return with_file(ADAPTIVE_COLUMNS if self.rule else COLUMNS, named=self.file is not None)

    def cells(self) -> dict[str, str]:
        """The line's cells by column, as they stand in the file."""
        return {column: cell(getattr(self, column)) for column in self.columns} | (
            {} if self.file is None else {FILE: escaped(self.file)}
        )

    @classmethod
    def parse(cls, line: str, columns: Sequence[str] = COLUMNS) -> Self:
        """The row of a line; ValueError says which cell is wrong."""
        texts = line.split("\t")
        if len(texts) != len(columns):
            raise ValueError(f"{len(texts)} columns where there should be {len(columns)}")
        cells = dict(zip(columns, texts, strict=True))
        numbers = {column: integer(cells[column], column, low) for column, low in _LEAST.items()}
        predict, radius_sq, label = (numbers.pop(column) for column in ("predict", "radius_sq", "label"))
        if (label < 0) != (FILE in cells):
            raise ValueError(f"label is {label}")
        return cls(
            **numbers,
            label=None if label < 0 else label,
            predict=None if predict < 0 else predict,
            radius_sq=None if radius_sq < 0 else radius_sq,
            radius=_text(cells["radius"], "radius", r"\d{1,9}\.\d{1,20}"),
            time=_text(cells["time"], "time", TIME),
            counts0=integers(cells["counts0"], "counts0"),
            counts=integers(cells["counts"], "counts"),
            look=integer(cells["look"], "look") if "look" in cells else None,
            rule=_text(cells["rule"], "rule", r"[a-z]{1,20}-[0-9a-f]{16}") if "rule" in cells else "",
            file=unescaped(cells[FILE]) if FILE in cells else None,
        )


def _answer(outcome: Certified | Predicted | Abstained) -> tuple[int | None, str, int | None]:
    """Class, radius and radius_sq. A prediction is a statement about the image itself: radius 0."""
    match outcome:
        case Abstained():
            return None, "0.0", None
        case Certified():
            return outcome.label, radius_text(outcome.radius_sq), outcome.radius_sq
        case _:
            return outcome.label, "0.0", 0


def radius_text(radius_sq: int) -> str:
    """The `radius` column, rounded down."""
    return Certified(0, radius_sq, 0, 0, Fraction(1)).radius_text(DIGITS)


_LEAST = {"idx": 0, "label": -1, "predict": -1, "correct": 0, "n0": 0, "n": 0, "votes": 0, "radius_sq": -1}


def cell(value: int | str | tuple[int, ...] | None) -> str:
    """A value as it stands in a line."""
    if value is None:
        return "-1"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def with_file(columns: tuple[str, ...], *, named: bool) -> tuple[str, ...]:
    """The columns of results, with the images' files if these are named instead of labels."""
    return (*columns, FILE) if named else columns


_ESCAPE = r"\\(?:[\\tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4})"


def escaped(name: str) -> str:
    """A file's name as a cell, in which nothing can end the cell or the line."""
    return "".join(c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode() for c in name)


def unescaped(text: str) -> str:
    """The inverse; ValueError if it is not as `escaped` writes."""
    name = re.sub(_ESCAPE, lambda found: found[0].encode().decode("unicode_escape"), text)
    if escaped(name) != text or len(text) > LONGEST_FILE:
        raise ValueError(f"file is {text[:40]!r}")
    return name


def _text(text: str, column: str, pattern: str) -> str:
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError(f"{column} is {text[:40]!r}")
    return text


def integer(text: str, column: str, low: int = 0) -> int:
    """A whole number from a line; ValueError names the column."""
    value = int(_text(text, column, r"-1|0|[1-9]\d{0,18}"))  # as it is written, so that equal rows are equal lines
    if value < low:
        raise ValueError(f"{column} is {value}")
    return value


def integers(text: str, column: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    return tuple(integer(part, column) for part in text.split(","))
