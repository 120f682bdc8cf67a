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
DIGITS = 6  # of a radius


@dataclass(frozen=True)
class Row:
    """One line: the answer for one image, and the votes behind it."""

    idx: int
    label: int
    predict: int | None  # None: abstained
    radius: str  # in units of the pixel range, rounded down
    correct: int
    time: str
    n0: int
    n: int
    votes: int  # of the class that selection chose
    radius_sq: int | None  # in squared pixel levels; None: abstained
    counts0: tuple[int, ...]
    counts: tuple[int, ...]
    look: int | None = None  # at which an adaptive run stopped, from 0
    rule: str = ""  # Rule.name

    @classmethod
    def of(
        cls,
        label: int,
        outcome: Certified | Predicted | Abstained,
        selection: Votes,
        estimation: Votes,
        seconds: float,
        rule: Rule | None = None,
    ) -> Self:
        """The line for an outcome; with the rule by which sampling stopped, if there was one."""
        predict, radius, radius_sq = _answer(outcome)
        return cls(
            idx=estimation.samples.image,
            label=label,
            predict=predict,
            radius=radius,
            correct=int(predict == label),
            time=str(timedelta(seconds=seconds)),
            n0=selection.count,
            n=estimation.count,
            votes=outcome.votes,
            radius_sq=radius_sq,
            counts0=selection.counts,
            counts=estimation.counts,
            look=None if rule is None else rule.look(estimation.count),
            rule="" if rule is None else rule.name,
        )

    def cells(self) -> dict[str, str]:
        """The line's cells by column, as they stand in the file."""
        return {column: cell(getattr(self, column)) for column in (ADAPTIVE_COLUMNS if self.rule else COLUMNS)}

    @classmethod
    def parse(cls, line: str, columns: Sequence[str] = COLUMNS) -> Self:
        """The row of a line; ValueError says which cell is wrong."""
        texts = line.split("\t")
        if len(texts) != len(columns):
            raise ValueError(f"{len(texts)} columns where there should be {len(columns)}")
        cells = dict(zip(columns, texts, strict=True))
        numbers = {column: integer(cells[column], column, low) for column, low in _LEAST.items()}
        predict, radius_sq = numbers.pop("predict"), numbers.pop("radius_sq")
        return cls(
            **numbers,
            predict=None if predict < 0 else predict,
            radius_sq=None if radius_sq < 0 else radius_sq,
            radius=_text(cells["radius"], "radius", r"\d{1,9}\.\d{1,20}"),
            time=_text(cells["time"], "time", r"(\d{1,9} days?, )?\d{1,2}:\d\d:\d\d(\.\d{1,9})?"),  # of timedelta
            counts0=integers(cells["counts0"], "counts0"),
            counts=integers(cells["counts"], "counts"),
            look=integer(cells["look"], "look") if "look" in cells else None,
            rule=_text(cells["rule"], "rule", r"[a-z]{1,20}-[0-9a-f]{16}") if "rule" in cells else "",
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


_LEAST = {"idx": 0, "label": 0, "predict": -1, "correct": 0, "n0": 0, "n": 0, "votes": 0, "radius_sq": -1}


def cell(value: int | str | tuple[int, ...] | None) -> str:
    """A value as it stands in a line."""
    if value is None:
        return "-1"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


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
