"""Reading results, ours and those of other programs, and putting several files together."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from intrs import results
from intrs.errors import ResultsError
from intrs.files import as_path
from intrs.metrics import foreign
from intrs.metrics.answers import Results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from intrs.results import Run


# --- Reading ---------------------------------------------------------------------------------------------------------


def read(path: str | Path) -> Results:
    """The results in this file, ours or a log of another program. ResultsError says what is wrong with it, and where.

    Every line that this package shows, plots or counts has passed here.
    """
    path = as_path(path, "results")
    columns = next(foreign.lines(path), "").split("\t")
    if {"radius_sq", "counts"} <= set(columns):
        return _read_ours(path)
    return Results((path,), foreign.read_log(path, columns))


def _read_ours(path: Path) -> Results:
    sidecar = results.sidecar_path(path)
    if not sidecar.exists():
        raise ResultsError(
            f"{path}: {sidecar.name}, which says how it was made, is missing, so neither sigma nor data nor samples "
            "are known. It was written beside the results; put it there again"
        )
    run, rows = results.read(path)
    results.check_file(path, run, rows)
    return Results.of(path, run, rows)


# --- Several files ---------------------------------------------------------------------------------------------------


def join(parts: Sequence[Results]) -> Results:
    """Parts of one run as one, in the order of their images, whatever order they are given in.

    Refuses what was not made with the same settings, or has an image twice.
    """
    if not parts:
        raise ResultsError("there is nothing to join")
    parts = sorted(chain.from_iterable(part.parts or (part,) for part in parts), key=_place)
    first = parts[0]
    for part in parts[1:]:
        if (first.run is None) != (part.run is None):
            raise ResultsError(f"cannot join {first.source} and {part.source}: only one of them says how it was made")
        if first.run and part.run and (differing := _differences(first.run, part.run)):
            raise ResultsError(f"cannot join {first.source} and {part.source}:\n  " + "\n  ".join(differing))
    _check_apart(parts)
    joined = Results(
        tuple(chain.from_iterable(part.paths for part in parts)),
        tuple(sorted(chain.from_iterable(part.answers for part in parts), key=lambda answer: answer.idx)),
        first.run,
        tuple(sorted(chain.from_iterable(part.rows for part in parts), key=lambda row: row.idx)),
        tuple(parts) if len(parts) > 1 else (),
    )
    return replace(joined, run=first.run and _with_images(first.run, joined.planned))


def _with_images(run: Run, images: int) -> Run:
    return replace(run, request=replace(run.request, max=images))


def _place(part: Results) -> int:
    """Where a part begins in the data; a log of another program says it by its images alone."""
    return part.run.request.first if part.run else min((answer.idx for answer in part), default=0)


def _check_apart(parts: Sequence[Results]) -> None:
    seen: dict[int, str] = {}
    for part in parts:
        for answer in part:
            if answer.idx in seen:
                raise ResultsError(f"cannot join {seen[answer.idx]} and {part.source}: image {answer.idx} is in both")
            seen[answer.idx] = part.source


def _differences(one: Run, two: Run) -> list[str]:
    unequal = results.unequal(one, two, results.SAME_IN_PARTS)
    return [f"{name} is {mine} in one and {theirs} in the other" for name, mine, theirs in unequal]


def check_comparable(runs: Sequence[Results]) -> None:
    """Refuse to lay runs about different data beside each other.

    What an image's number and class are shows it: the same number must have the same class in every run.
    """
    labels: dict[int, tuple[int | None, str]] = {}
    for found in runs:
        for answer in found:
            label, path = labels.setdefault(answer.idx, (answer.truth, found.source))
            if (label is None) != (answer.truth is None):
                raise ResultsError(f"{path} and {found.source}: only one of them has labels; make one picture for each")
            if label != answer.truth:
                raise ResultsError(
                    f"{path} and {found.source} are about different data: image {answer.idx} is of class {label} in "
                    f"one and {answer.truth} in the other. One picture of both would mislead; make one for each"
                )
    _check_common(runs)


def _check_common(runs: Sequence[Results]) -> None:
    known = [found for found in runs if found.run]
    for one, two in pairwise(known):
        assert one.run
        assert two.run
        shared = {answer.idx for answer in one} & {answer.idx for answer in two}
        if one.run.data_sha256 != two.run.data_sha256 and not shared:
            raise ResultsError(
                f"{one.source} and {two.source} are about different data: {one.run.request.data_name} and "
                f"{two.run.request.data_name} have no image in common. One picture of both would mislead; make one for "
                "each"
            )
