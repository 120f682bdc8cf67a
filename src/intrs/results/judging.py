"""From the votes of a run to its lines: when an image is answered, and again from votes that were kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING

from intrs.certificate import Certifier
from intrs.errors import ResultsError
from intrs.exact import parse_count
from intrs.request import Certify
from intrs.results.rows import ADAPTIVE_COLUMNS, COLUMNS, Row, cell, radius_text, with_file
from intrs.results.run import sidecar_path
from intrs.smooth import judge, judge_adaptive, judge_prediction
from intrs.votes import SELECTION, Samples, Votes, top_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction
    from pathlib import Path

    from intrs.adaptive import Rule
    from intrs.certificate import Abstained, Certified
    from intrs.results.run import Run
    from intrs.smooth import Predicted

PATIENCE = "INTRS_READ_MINUTES"  # in the environment: how long it may take to judge the lines of one file again
TERMS = 5 * 10**7  # of binomial laws, that are computed in about a minute
TERMS_OF_LINE = 10_000  # that a line may take however many there are: its bytes justify them
BOUNDS_OF_LINE = 4  # confidence bounds, at most, that judging a line takes if every image gets n samples


@dataclass(frozen=True, eq=False)
class Judge:
    """Algorithm 1 or 2 of one run, after the votes are counted."""

    run: Run
    dimension: int  # values per image
    classes: int

    @cached_property
    def certifier(self) -> Certifier:
        """What turns votes into radii."""
        run, request = self.run, self.run.request
        chosen = (request.bound, request.form) if isinstance(request, Certify) else ("sound", "one")
        return Certifier(run.noise, self.dimension, request.n, run.alpha, *chosen, self.classes)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """By which sampling stops, one per stage; none if every image gets n samples."""
        return self.run.stages.rules(self.certifier) if self.run.stages else ()

    @property
    def tau(self) -> Fraction:
        """What the noise table's error takes of alpha."""
        return self.run.noise.tau(self.run.request.n, self.dimension)

    def terms(self, lines: int) -> int:
        """About how many terms of binomial laws are to be computed to judge so many lines."""
        return self.rules[-1].terms(lines) if self.rules else lines * terms_of_line(self.run.request.n)

    def outcome(self, selection: Votes, estimation: Votes) -> Certified | Predicted | Abstained:
        """What the votes say."""
        if not isinstance(self.run.request, Certify):
            return judge_prediction(estimation, self.dimension, self.run.alpha)
        if self.rules:
            return judge_adaptive(selection, estimation, self.rules[-1])
        return judge(selection, estimation, self.certifier)

    def row(
        self,
        label: int | None,
        selection: Votes,
        estimation: Votes,
        seconds: float = 0.0,
        file: str | None = None,
    ) -> Row:
        """The line that follows from votes; file: of an image whose label is not known."""
        rule = self.rules[-1] if self.rules else None
        return Row.of(label, self.outcome(selection, estimation), selection, estimation, seconds, rule, file)

    # --- votes that were kept ---

    def kept_votes(self, row: Row) -> tuple[Votes, Votes]:
        """The votes of a line, as those of its image under this run's noise and seed."""
        seed, noise = self.run.seed, self.run.noise
        selection = Samples(seed, row.idx, SELECTION, sum(row.counts0))
        estimation = Samples(seed, row.idx, 0, sum(row.counts))
        return Votes(row.counts0, noise, selection), Votes(row.counts, noise, estimation)

    def misfit(self, row: Row) -> str | None:
        """Why the votes of a line cannot be votes of this run; None if they can."""
        looks = self.rules[-1].schedule.looks if self.rules else (self.run.request.n,)
        expected: dict[str, tuple[int, ...]] = {"counts0": (self.run.n0,), "counts": looks}
        for column, sums in expected.items():
            counts = getattr(row, column)
            if len(counts) != self.classes and not (column == "counts0" and not self.run.n0):
                return f"{column} should be {self.classes} numbers"
            if sum(counts) not in sums:
                wanted = "the samples at a look" if len(sums) > 1 else sums[0]
                return f"{column} should be {self.classes} numbers with sum {wanted}"
        return None

    def fault(self, row: Row) -> str | None:
        """How a line differs from what its own votes say; None if it does not."""
        if (words := self.misfit(row)) is not None:
            return words
        selection, estimation = self.kept_votes(row)
        if self.rules and not self.rules[-1].is_over(selection.top, estimation.counts):
            return f"the rule would not have stopped after {estimation.count} samples with these votes"
        return difference(row, self.row(row.label, selection, estimation, file=row.file))


def difference(row: Row, right: Row) -> str | None:
    """The first column, but for the time, that is not as it should be."""
    found, wanted = row.cells(), right.cells()
    names = (name for name in wanted if name != "time" and found.get(name) != wanted[name])
    return next((f"{name} is {found.get(name)}, should be {wanted[name]}" for name in names), None)


def check_file(path: Path, run: Run, rows: Sequence[Row]) -> None:
    """Refuse what cannot be a results file, whoever wrote it: first what is seen at once, then line by line."""
    if len(rows) > run.images:
        raise ResultsError(f"{path}: {len(rows)} lines, but {sidecar_path(path).name} speaks of {run.images} images")
    check_once(path, (row.idx for row in rows))
    check_effort(path, run, len(rows))
    check_rows(path, run, rows)


def check_effort(path: Path, run: Run, lines: int) -> None:
    """Refuse so many lines if judging them would take far longer than their size justifies.

    A description may claim any number of samples, and radii of which tables would have to be made.
    """
    if lines and run.dimension and run.classes:
        check_terms(path, Judge(run, run.dimension, run.classes).terms(lines), lines, run.request.n)


def check_terms(path: Path, terms: int, lines: int, samples: int) -> None:
    """Refuse to compute so many terms of binomial laws for lines that claim so many samples each."""
    minutes = parse_count(os.environ.get(PATIENCE) or 1, PATIENCE)
    terms -= lines * TERMS_OF_LINE
    if terms > minutes * TERMS:
        wanted = -(-terms // TERMS)
        raise ResultsError(
            f"{path}: to judge its lines again for up to {samples:,} samples would take about {wanted:,} "
            "minutes, and anyone can write a file that claims so much. If it is yours, set "
            f"{PATIENCE}={wanted} in the environment"
        )


def terms_of_line(samples: int) -> int:
    """About how many terms it takes at most to judge one line, if every image gets so many samples."""
    return BOUNDS_OF_LINE * isqrt(samples)


def check_rows(path: Path, run: Run, rows: Sequence[Row]) -> None:
    """Refuse lines that are of no run, contradict themselves, or say what their votes do not give.

    Whether the votes are right is for `intrs verify`. Files of earlier versions do not say how many values an image
    has, without which no radius can be judged: then only what a line says of itself is compared.
    """
    judge_of_run = Judge(run, run.dimension, run.classes) if run.dimension and run.classes else None
    for number, row in enumerate(rows, 2):
        if row.n0 != run.n0 or row.n > run.request.n or (row.n < run.request.n and not run.stages):
            raise ResultsError(
                f"{path}, line {number}: {row.n0} and {row.n} samples, but the run took {run.n0} and "
                f"{run.request.n}: runs with different samples are mixed in one file"
            )
        if fault := _contradiction(run, row) or (judge_of_run and judge_of_run.fault(row)):
            raise ResultsError(f"{path}, line {number}: {fault}; the file was changed after it was written")


def check_once(path: Path, indices: Iterable[int]) -> None:
    """Refuse a file with two lines about one image; indices are those of its lines, in order."""
    seen: dict[int, int] = {}
    for number, index in enumerate(indices, 2):
        if index in seen:
            raise ResultsError(
                f"{path}, line {number}: image {index} was on line {seen[index]} already: two runs in one file, or a "
                "line that was edited"
            )
        seen[index] = number


def _contradiction(run: Run, row: Row) -> str | None:
    """Where a line contradicts itself, or names a class that the run does not have."""
    if run.classes and row.label is not None and row.label >= run.classes:  # which no run begins with
        return f"label is {row.label}, but the model has the classes 0 to {run.classes - 1}"
    if (row.predict is None) != (row.radius_sq is None):
        return "malformed (an abstention has neither class nor radius)"
    if row.correct != (row.label is not None and row.predict == row.label):
        return f"correct is {row.correct}, but predict is {cell(row.predict)} and label is {cell(row.label)}"
    for name, counts, whole in (("counts0", row.counts0, row.n0), ("counts", row.counts, row.n)):
        if sum(counts) != whole:
            return f"{name} add up to {sum(counts)}, not to {whole}"
    selected = top_class(row.counts0 if run.n0 else row.counts)
    if row.predict not in (None, selected):
        return f"predict is {row.predict}, but its votes select class {selected}"
    if selected >= len(row.counts) or row.votes != row.counts[selected]:
        return f"votes is {row.votes}, but class {selected}, which was selected, has another number of votes"
    radius = radius_text(row.radius_sq or 0)
    same = row.radius == radius or (not row.radius_sq and row.radius == "0.0")  # of predictions and abstentions
    return None if same else f"radius is {row.radius}, but radius_sq says {radius}"


def columns_of(run: Run) -> tuple[str, ...]:
    """The columns of a run's file."""
    return with_file(ADAPTIVE_COLUMNS if run.stages else COLUMNS, named=run.unlabelled)
