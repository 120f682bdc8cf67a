"""Every number of a results file, computed again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from intrs import results, zoo
from intrs.data import open_data
from intrs.data.known import KNOWN
from intrs.driver import Pending, answers, local_engine, row_of
from intrs.errors import IntrsError, ResultsError
from intrs.exact import parse_count
from intrs.job import open_job
from intrs.model import open_model
from intrs.results import FILE, cell, difference

if TYPE_CHECKING:
    from intrs.data import Images
    from intrs.engines import Engine
    from intrs.job import Job
    from intrs.model import Model
    from intrs.progress import OnProgress
    from intrs.results import Row, Run


class MovedError(ResultsError):
    """The model or the data that results were made from is not where it was, or is another one."""


@dataclass(frozen=True)
class Verified:
    """What `verify` found; true if all is equal bit for bit."""

    path: Path
    lines: int  # judged again from their votes
    counted: int  # of them, those whose votes were counted again
    planned: int  # images of the whole run
    difference: str | None = None  # the first one, with its line

    def __bool__(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is not None:
            return f"{self.path}, {self.difference}"
        unfinished = (
            f" (the run is unfinished: {self.planned} images were planned)" if self.lines < self.planned else ""
        )
        counted = f"the votes of {self.counted} counted again"
        lines = "1 line" if self.lines == 1 else f"{self.lines} lines"
        return f"{self.path}: {lines} checked, {counted}: all equal{unfinished}"


@dataclass(frozen=True, eq=False)
class Verification:
    """A results file with everything that it was made from, found again and compared."""

    path: Path
    run: Run
    rows: list[Row]
    again: frozenset[int]  # lines, from 0, whose votes are counted again
    job: Job
    data_moved: bool = False  # whether the data were named anew; their pictures may have other names now

    def samples(self) -> int:
        """How many samples will be taken again."""
        return sum(row.n0 + row.n for i, row in enumerate(self.rows) if i in self.again)

    def seconds(self) -> float:
        """About how long that takes, measured for a moment."""
        return self.samples() / self.job.rate()

    def check(self, progress: OnProgress | None = None, engine: Engine | None = None) -> Verified:
        """Judge all lines again from their votes, and count the votes of some or all again."""
        found = self._first_difference(progress, engine)
        excuse = self._excuse() if found else ""
        done = Verified(self.path, len(self.rows), len(self.again), self.run.images)
        return replace(done, difference=f"{found}{excuse}") if found else done

    def _first_difference(self, progress: OnProgress | None, engine: Engine | None) -> str | None:
        positions = self.job.positions
        for name in ("noise_table", "dimension", "classes"):  # which files of earlier versions do not have
            then, now = getattr(self.run, name), getattr(self.job.run, name)
            if then and then != now:
                return f"its description: {name} is {then}, should be {now}"
        if len(self.rows) > len(positions):
            return f"line {len(positions) + 2}: more lines than the {len(positions)} images of the run"
        for i, (row, position) in enumerate(zip(self.rows, positions, strict=False)):
            if fault := self._fault(row, position):  # first, because a file may claim any number of samples
                return f"line {i + 2} (image {row.idx}): {fault}"
        return self._first_other_votes(progress, engine)

    def _first_other_votes(self, progress: OnProgress | None, engine: Engine | None) -> str | None:
        """Count again, and compare line by line."""
        wanted = [Pending(i, self.job.positions[i]) for i in sorted(self.again)]
        with engine or local_engine(self.job) as chosen:
            for image in answers(self.job, wanted, chosen, progress):
                row, right = self.rows[image.place], row_of(self.job, image)
                if fault := difference(row, replace(right, file=row.file) if self.data_moved else right):
                    return f"line {image.place + 2} (image {row.idx}): {fault}"
        return None

    def _fault(self, row: Row, position: int) -> str | None:
        data = self.job.data
        rights: dict[str, int | str | None] = {"idx": self.job.index(position), "label": data.label(position)}
        if not self.data_moved:
            rights[FILE] = data.file(position)
        for name, wanted in rights.items():
            if (found := getattr(row, name)) != wanted:
                return f"{name} is {cell(found)}, should be {cell(wanted)}"
        return self.job.judge.fault(row)

    def _excuse(self) -> str:
        """Floats may differ without anyone's fault."""
        if self.run.noise.on_integers:
            return ""
        then_and_now = f"made with {self.run.kernels}, checked with {self.job.run.kernels}"
        return (
            f"\nThese results are in floating point ({then_and_now}): another machine or version may round differently"
        )


def open_verification(
    path: Path,
    *,
    images: int | None = None,
    model: object = None,
    data: object = None,
    threads: int = 0,
    kernels: str = "",
) -> Verification:
    """What the run used, found again: the same integers, or an error that says how to point at them."""
    run, rows = results.read(path)
    if not rows:
        raise ResultsError(f"{path}: it has 0 lines of results, so there is nothing to verify")
    results.check_effort(path, run, len(rows))
    opened = _open_model(path, run, model)
    found, data_moved = _open_data(path, run, data), data is not None
    request = replace(run.request, threads=parse_count(threads, "threads", 0), kernels=kernels)
    request = request if request.names else replace(request, by_number=True)  # then no label was found by name
    try:
        job = open_job(request, opened, found)
    except IntrsError as error:
        raise type(error)(f"{path}: {error}") from None
    _check_same(path, "model", "identity", job.run.identity, run.identity)
    _check_same(path, "data", "sha256", job.run.data_sha256, run.data_sha256)
    job = job.with_run(replace(job.run, stages=run.stages))
    results.check_effort(path, job.run, len(rows))  # again: files before 0.2 do not say what only the model tells now
    return Verification(path, run, rows, _drawn(len(rows), images), job, data_moved)


def _open_model(path: Path, run: Run, given: object) -> Model:
    if given is not None:
        return open_model(given)  # type: ignore[arg-type]
    names = (*zoo.model_names(), *zoo.float_names())
    return open_model(_own(path, "model", run.request.model, names))


def _open_data(path: Path, run: Run, given: object) -> Images:
    request = run.request
    if given is None:
        sources = request.sources or ("",)
        found = [_own(path, "data", spec, (*zoo.data_names(), *KNOWN)) for spec in sources]
        given = found if len(found) > 1 else found[0]
    return open_data(given, request.split, request.fit)


def _own(path: Path, what: str, spec: str, names: tuple[str, ...]) -> str:
    """A name that is known, or a file in the folder of the results.

    A results file from someone else may name any path of this machine, so others are opened only when asked for.
    """
    if not spec:
        raise MovedError(f"{path} was made from a {what} that has no file; pass the {what}")
    beside, here = path.parent / spec, Path(spec)
    if spec in names and not here.exists():
        return spec
    if not beside.exists() and not here.exists():
        raise MovedError(f"{path} was made from the {what} {spec}, which is not here; say where the {what} is now")
    place = beside if beside.exists() else here
    if spec not in names and not place.resolve().is_relative_to(path.resolve().parent):
        raise MovedError(
            f"{path} names the {what} {spec}, which lies outside the folder of the results. What a results file names "
            f"is opened only when asked for: pass it as the {what} if you trust it"
        )
    return str(place)


def _check_same(path: Path, what: str, kind: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise MovedError(
            f"{path}: the {what} is not the one that these results were made from: its {kind} is {found}, not {wanted}"
        )


def _drawn(lines: int, wanted: int | None) -> frozenset[int]:
    """Which lines to sample again: drawn at random, or a forger would know where nobody looks."""
    count = lines if wanted is None else min(parse_count(wanted, "images"), lines)
    return frozenset(secrets.SystemRandom().sample(range(lines), count))
