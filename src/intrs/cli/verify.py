"""`intrs verify`: every number of a results file, computed again."""

from __future__ import annotations

import secrets
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from intrs import results
from intrs.cli.screen import meter
from intrs.data import open_data
from intrs.errors import IntrsError
from intrs.job import Job, assemble, engine_name, open_model
from intrs.noise import Noise

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from intrs.job import Meter
    from intrs.results import Row, Run

DIFFERENT = 1


def verify(args: Namespace) -> int:
    """Judge all lines again from their votes, count the votes of some or all again; 1 at the first difference."""
    run, rows = results.read(args.results)
    if not rows:
        raise IntrsError(f"{args.results}: it has 0 lines of results, so there is nothing to verify")
    job = _open(args, run)
    again = _drawn(len(rows), args.images)
    with meter(len(rows), 0, "images") as show_progress:
        found = _first_difference(job, rows, again, show_progress)
    if found:
        print(f"intrs: {args.results}, {found}{_excuse(run, job)}", file=sys.stderr)
        return DIFFERENT
    unfinished = f" (the run is unfinished: {run.max} images were planned)" if len(rows) < run.max else ""
    print(f"{args.results}: {len(rows)} lines checked, the votes of {len(again)} counted again: all equal{unfinished}")
    return 0


def _open(args: Namespace, run: Run) -> Job:
    """What the run used, found again: the same integers, or a message that says how to point at them."""
    with _advice("--model"):
        network = open_model(args.model or run.model, run, Noise.of(run.noise, run.sigma), args.threads)
        _check_same(args.model or run.model, "identity", network.identity, run.identity)
    with _advice("--data"):
        data = open_data(args.data or run.data, run.split)
        _check_same(args.data or run.data, "sha256", data.sha256, run.data_sha256)
    return assemble(replace(run, kernels=engine_name(network, args.kernels)), network, data, args.threads)


def _excuse(run: Run, job: Job) -> str:
    """Floats may differ without anyone's fault."""
    if job.smooth.noise.on_integers:
        return ""
    then_and_now = f"made with {run.kernels}, checked with {job.run.kernels}"
    return f"\nThese results are in floating point ({then_and_now}): another machine or version may round differently"


@contextmanager
def _advice(option: str) -> Iterator[None]:
    try:
        yield
    except IntrsError as error:
        raise IntrsError(f"{error}\nThe results need what they were made from; {option} says where it is now") from None


def _check_same(name: str, what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise IntrsError(f"{name} is not what these results were made from: its {what} is {found}, not {wanted}")


def _drawn(lines: int, wanted: int | None) -> set[int]:
    """Which lines to sample again: drawn by chance, or a forger would know where nobody looks."""
    count = min(wanted or lines, lines)
    return set(secrets.SystemRandom().sample(range(lines), count))


def _first_difference(job: Job, rows: list[Row], again: set[int], show_progress: Meter) -> str | None:
    if len(rows) > len(job.positions):
        return f"line {len(job.positions) + 2}: more lines than the {len(job.positions)} images of the run"
    for i, (row, position) in enumerate(zip(rows, job.positions, strict=False)):
        right = job.answer(position) if i in again else _from_kept_votes(job, position, row)
        if isinstance(right, str):
            return f"line {i + 2} (image {row.idx}): {right}"
        for column, value in right.cells().items():
            if column != "time" and row.cells()[column] != value:
                return f"line {i + 2} (image {row.idx}): {column} is {row.cells()[column]}, should be {value}"
        show_progress(i + 1, f"line {i + 1} of {len(rows)}")
    return None


def _from_kept_votes(job: Job, position: int, row: Row) -> Row | str:
    """The row that the file's own votes give, or why they cannot be votes."""
    if (words := job.misfit(row)) is not None:
        return words
    selection, estimation = job.kept_votes(position, row)
    if job.rules and not job.rules[-1].is_over(selection.top, estimation.counts):
        return f"the rule would not have stopped after {estimation.count} samples with these votes"
    return job.judge(position, selection, estimation)
