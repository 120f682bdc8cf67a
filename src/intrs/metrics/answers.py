"""What one run found: an answer per image, and the numbers that the field reports, each as a share with an interval.

Radii are compared as exact fractions. docs/report.md says how each number is defined.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, count, pairwise, takewhile
from typing import TYPE_CHECKING, Any, Literal

from intrs.certificate.outcome import root_down
from intrs.errors import ResultsError, SettingsError
from intrs.exact import parse_fraction, plain
from intrs.metrics import show
from intrs.metrics.shares import Mean, Share
from intrs.noise import PIXEL_RANGE
from intrs.votes import top_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from intrs.exact import Number
    from intrs.results import Row, Run

Denominator = Literal["all", "answered"]
DENOMINATORS = ("all", "answered")
MOST_COUNTED = 10**6  # images of a plan that are counted one by one


@dataclass(frozen=True)
class Answer:
    """What one line says of one image."""

    idx: int
    truth: int | None  # the true class; None: not known
    label: int | None  # the class that was returned, as in every outcome; None: abstained
    square: Fraction | None  # the certified radius squared, in units of the pixel range; None: abstained
    majority: int | None = None  # the class with most votes, whether or not that was enough; None: not recorded
    file: str = ""  # of the image, where results name files
    vote_share: Fraction | None = None  # of the true class, or if that is not known of the chosen one; None: no votes

    @classmethod
    def of(cls, row: Row) -> Answer:
        """Of a line of a results file."""
        square = None if row.radius_sq is None else Fraction(row.radius_sq, PIXEL_RANGE**2)
        majority = top_class(row.counts) if any(row.counts) else None
        return cls(row.idx, row.label, row.predict, square, majority, row.file or "", _vote_share(row))

    @property
    def correct(self) -> bool:
        """Whether a class was returned, and the right one; False if that is not known."""
        return self.truth is not None and self.label == self.truth

    @property
    def certified(self) -> bool:
        """Whether the image got an answer, that is a class which holds within the radius. False: an abstention."""
        return self.square is not None

    @property
    def radius(self) -> float:
        """The certified radius as the largest float that does not exceed it; 0 for an abstention."""
        return 0.0 if self.square is None else root_down(self.square)


def _vote_share(row: Row) -> Fraction | None:
    """The share of the estimation's votes for the true class: an estimate of p_A.

    Without a label it is that of the class which selection chose from samples of its own. The class with most votes
    would look surer than it is, since the same votes chose it; predictions, which have no selection, have only that.
    """
    total = sum(row.counts)
    if not total:
        return None
    if row.label is None:
        return Fraction(row.votes, total)
    return Fraction(row.counts[row.label] if row.label < len(row.counts) else 0, total)


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """The answers of one run, in the order of its images; `run` and `rows` are there if intrs made it.

    `len` and iteration go over the answers. `parts` are the files of a run that was put together by `join`.
    """

    paths: tuple[Path, ...]  # none if the results were not written to a file
    answers: tuple[Answer, ...]
    run: Run | None = None
    rows: tuple[Row, ...] = ()
    parts: tuple[Results, ...] = ()

    @classmethod
    def of(cls, path: Path | None, run: Run, rows: Sequence[Row]) -> Results:
        """Of a run of intrs, and the file that it was written to."""
        return cls(() if path is None else (path,), tuple(map(Answer.of, rows)), run, tuple(rows))

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __getitem__(self, place: int) -> Answer:
        return self.answers[place]

    def __repr__(self) -> str:
        return show.text(self)

    def _repr_html_(self) -> str:
        return show.html(self)

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with one line per image: numbers as numbers, and missing values for abstentions.

        Needs pandas. Columns are those of the results file without its `time`, which is `seconds` here, with
        `certified` and `vote_share`; results of other programs have fewer.
        """
        return show.dataframe(self)

    @property
    def path(self) -> Path | None:
        """The file, or the first of several; None if there is none."""
        return self.paths[0] if self.paths else None

    @property
    def source(self) -> str:
        """The file's name in messages."""
        return str(self.path) if self.paths else "results that are in no file"

    @cached_property
    def planned(self) -> int:
        """Images of the whole run, as far as is known."""
        if self.parts:
            return max(len(_places(self.parts)) or sum(part.planned for part in self.parts), len(self))
        return max(self.run.images, len(self)) if self.run else len(self)

    @cached_property
    def between(self) -> int:
        """Images of the data that stand between those of the parts, and are in the plan of none."""
        places = sorted(_places(self.parts))
        steps = [two - one for one, two in pairwise(places)]
        steps += [part.run.request.skip for part in self.parts if part.run]
        return (places[-1] - places[0]) // min(steps) + 1 - len(places) if places else 0

    @property
    def complete(self) -> bool:
        """Whether every planned image has been answered."""
        return len(self) == self.planned

    @property
    def has_labels(self) -> bool:
        """Whether the true classes are known. Without them there are radii and abstentions, and no accuracy."""
        return not (self.run and self.run.unlabelled)

    @property
    def has_radii(self) -> bool:
        """A file of predictions speaks of the images themselves and of no radius."""
        return self.run is None or self.run.command != "predict"

    @cached_property
    def largest(self) -> float:
        """The largest radius of any answer, right or wrong."""
        return math.sqrt(self._squares[-1]) if self._squares else 0.0

    @property
    def asked(self) -> tuple[Fraction, ...]:
        """The radii that an adaptive run was asked to decide; none if it was not, or every image got n samples."""
        return self.run.stages.last.radii if self.run and self.run.stages else ()

    def was_asked(self, radius: Number) -> bool:
        """Whether a share at this radius is what n samples show, and not less.

        An adaptive run stops when the radii that it was asked for are decided. Where one of them was given up, a
        smaller one is still open, so that the share at any other radius comes out too low.
        """
        return not self.asked or _exact(radius) in self.asked

    def answered(self) -> Share:
        """The certified percentage, CP: images that got an answer. Too low if an adaptive run was not asked for 0."""
        return self.certified(Fraction(0))

    def abstained(self) -> Share:
        """Images that got none."""
        return Share(len(self) - len(self._squares), len(self))

    def certified(self, radius: Number) -> Share:
        """Images certified at this radius or more, whatever the class. At radius 0 it is the certified percentage."""
        return Share(_at_least(self._squares, _exact(radius)), len(self))

    def certified_accuracy(self, radius: Number, of: Denominator = "all") -> Share:
        """Images classified correctly and certified at this radius or more.

        0.25, "0.25", "1/4" and Fraction(1, 4) are the same radius. The share of all images is what the field reports;
        the share of the answered ones is the paper's formula. Of an adaptive run it is too low at radii that were not
        asked for, as `was_asked` says.
        """
        if not self.has_radii and _exact(radius) > 0:
            raise ResultsError(f"{self.source}: these are predictions, which have no radius; ask for radius 0")
        if not self.has_labels:
            raise ResultsError(
                f"{self.source}: its images have no labels, so no accuracy is known; ask what is certified"
            )
        if of not in DENOMINATORS:
            raise SettingsError(f"shares are of {' or '.join(DENOMINATORS)}, not of {of!r}")
        return Share(_at_least(self._right, _exact(radius)), len(self if of == "all" else self._squares))

    def radii(self) -> list[Fraction]:
        """The radii of a closing table: 0, 1/4, 1/2, ... up to the largest of any answer, right or wrong.

        Of an adaptive run those that it was asked to decide, up to the first that no answer reaches.
        """
        if self.asked:
            asked = sorted(self.asked)
            return asked[: sum(self.certified(radius).part > 0 for radius in asked) + 1]
        reached = takewhile(lambda radius: self.certified(radius).part, (Fraction(k, 4) for k in count(1)))
        return [Fraction(0), *reached]

    def plain_accuracy(self) -> Share | None:
        """Images whose class with most votes is the right one, abstentions or not; None if votes were not kept.

        None without labels, too.
        """
        if not self.has_labels:
            return None
        majorities = [(answer.majority, answer.truth) for answer in self if answer.majority is not None]
        if not majorities:
            return None
        return Share(sum(majority == label for majority, label in majorities), len(majorities))

    def voted(self, share: Number) -> Share | None:
        """Images whose true class got this share of the votes or more: the distribution of p_A over the images.

        The share lies from 0 to 1; 0.9, "0.9" and "9/10" are the same. Without labels it is the share of the class that
        was chosen. Votes estimate p_A: each image's is as exact as its samples are many. None if votes were not kept.
        """
        exact = share if isinstance(share, Fraction) else parse_fraction(share, "share")
        if not 0 <= exact <= 1:
            raise SettingsError(f"share: expected a share of the votes from 0 to 1, got {plain(exact)}")
        return Share(len(self._voted) - bisect_left(self._voted, exact), len(self._voted)) if self._voted else None

    def average_radius(self) -> Mean | None:
        """ACR: the mean over all images of the certified radius, taken as 0 where the class is wrong or missing.

        None without images, and for an adaptive run: sampling stopped short of what could be certified. Without labels
        it is the mean of the certified radii, whatever the class, and 0 for abstentions. Easy images weigh far more in
        it than hard ones; `certified_accuracy` and `voted` show both.
        """
        if not self.has_radii or (self.run and self.run.stages):
            return None
        counts = [a.square if a.correct or not self.has_labels else None for a in self]
        return Mean.of([0.0 if square is None else math.sqrt(square) for square in counts])

    @cached_property
    def _squares(self) -> list[Fraction]:
        return sorted(answer.square for answer in self if answer.square is not None)

    @cached_property
    def _voted(self) -> list[Fraction]:
        return sorted(answer.vote_share for answer in self if answer.vote_share is not None)

    @cached_property
    def _right(self) -> list[Fraction]:
        return sorted(answer.square for answer in self if answer.square is not None and answer.correct)


def _places(parts: Sequence[Results]) -> set[int]:
    """Where the images that the parts of a run plan together stand in the data; none if they are too many to list."""
    runs = [part.run for part in parts if part.run]
    if sum(run.images for run in runs) > MOST_COUNTED:  # a description from elsewhere may claim any number
        return set()
    return set(chain.from_iterable(run.places for run in runs))


def _exact(radius: Number) -> Fraction:
    exact = radius if isinstance(radius, Fraction) else parse_fraction(radius, "radius")
    if exact < 0:
        raise SettingsError(f"radius: expected 0 or more, got {plain(exact)}")
    return exact


def _at_least(squares: list[Fraction], radius: Fraction) -> int:
    """How many of these, which are sorted, are radius**2 or more."""
    return len(squares) - bisect_left(squares, radius * radius)
