"""Logs of locuslab/smoothing and the programs that grew out of it: TSV, plain or packed by xz, from any origin."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from intrs.errors import ResultsError
from intrs.files import named, unpacked
from intrs.metrics.answers import Answer
from intrs.results import check_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LOG_COLUMNS = ("idx", "label", "predict", "radius")  # that a log must have; others may follow or stand between
INDEX_NAMES = ("idx", "index", "original_idx")  # descendants rename this one
ONE_VALUE = ("sigma", "noise", "dataset", "alpha")  # columns of descendants that make two runs of one if they vary
LONGEST_LINE, MOST_LINES, MOST_BYTES = 2**16, 10**6, 2**28  # of a log, unpacked
LARGEST_RADIUS = 10**6


def lines(path: Path) -> Iterator[str]:
    """Lines of a text file, packed by xz or not, without their ends."""
    try:
        with named(path, "read"), unpacked(path) as file:
            size = 0
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
                size += len(line)
                if len(line) == LONGEST_LINE or number > MOST_LINES or size > MOST_BYTES:
                    raise ResultsError(f"{path}, line {number}: too long for a log of certificates")
                yield line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ResultsError(f"{path}: not a text file") from None


def read_log(path: Path, columns: Sequence[str]) -> tuple[Answer, ...]:
    """All answers of a log whose first line names these columns."""
    names = ["idx" if column in INDEX_NAMES else column for column in columns]
    if missing := [column for column in LOG_COLUMNS if names.count(column) != 1]:
        raise ResultsError(
            f"{path}: its first line names no column {missing[0]!r}, or more than one. A log of certificates is a TSV "
            f"whose first line names {' '.join(LOG_COLUMNS)} and perhaps others"
        )
    answers: list[Answer] = []
    steady: dict[str, str] = {}
    for number, line in enumerate(lines(path), 1):
        if number == 1:
            continue
        try:
            cells = _cells(names, line)
            answers.append(_answer_of_cells(cells))
            _check_steady(steady, cells)
        except ValueError as error:
            raise ResultsError(f"{path}, line {number}: malformed ({error})") from None
    if not answers:
        raise ResultsError(f"{path}: it has 0 lines of results")
    check_once(path, (answer.idx for answer in answers))
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
