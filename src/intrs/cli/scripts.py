"""What programs read instead of people: one JSON object per command, under `--json`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from intrs.exact import plain

if TYPE_CHECKING:
    from intrs.metrics import Answer, Results
    from intrs.results import Row


def of_results(found: Results) -> dict[str, Any]:
    """A run in numbers, and every answer. A radius is the text of the results file: exact digits, rounded down."""
    run = found.run
    assert run
    answered, whole = found.answered().part, len(found)
    said: dict[str, Any] = {
        "command": run.command, "results": str(found.source), "model": run.request.model, "identity": run.identity,
        "data": list(run.request.sources), "noise": run.noise.kind, "sigma": plain(run.noise.sigma),
        "n": run.request.n, "alpha": plain(run.alpha), "seed": hex(run.seed), "images": whole, "answered": answered,
        "abstained": whole - answered,
    }  # fmt: skip
    if found.has_radii:
        said["certified"] = {plain(radius): found.certified(radius).part for radius in found.radii()}
    if found.has_labels:
        radii = found.radii() if found.has_radii else [Fraction(0)]
        said["correct"] = {plain(radius): found.certified_accuracy(radius).part for radius in radii}
    pairs = zip(found.answers, found.rows, strict=True)
    return said | {"answers": [_answer(answer, row, found) for answer, row in pairs]}


def _answer(answer: Answer, row: Row, found: Results) -> dict[str, Any]:
    said: dict[str, Any] = {"index": answer.idx, "class": answer.label}
    if answer.file:
        said["file"] = answer.file
    if found.has_labels:
        said["label"] = answer.truth
    if found.has_radii:
        said |= {"radius": row.radius if answer.certified else None, "radius_sq": row.radius_sq}
    return said | {"votes": row.votes, "n": row.n}
