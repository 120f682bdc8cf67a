"""From the votes of an attack to its answers: when an image is attacked, and again from votes that were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.certificate import parse_alpha
from intrs.noise import Noise
from intrs.results import check_terms, terms_of_line
from intrs.smooth import Predicted, judge_prediction
from intrs.votes import Samples, Votes, top_class

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.pgd.records import AttackRow, Settings
    from intrs.request import Attack

ANSWERS = 2  # that are judged of a line: before the attack and after it


def noise_of(request: Attack) -> Noise | None:
    """None if sigma is 0: the network itself is attacked."""
    return None if request.sigma in (None, "0") else Noise.of(request.noise, request.sigma)


def answer(settings: Settings, counts: tuple[int, ...], index: int, dimension: int) -> int | None:
    """Algorithm 2 on votes, None for an abstention; the class itself without noise."""
    noise = noise_of(settings.request)
    if noise is None:
        return top_class(counts)
    found = Votes(counts, noise, Samples(settings.seed, index, 0, sum(counts)))
    outcome = judge_prediction(found, dimension, parse_alpha(settings.request.alpha))
    return outcome.label if isinstance(outcome, Predicted) else None


def fault(settings: Settings, row: AttackRow, dimension: int) -> str | None:
    """How a line differs from what its own votes say; None if it does not."""
    right = answer(settings, row.counts, row.idx, dimension)
    for name, found, wanted in (
        ("clean", row.clean, answer(settings, row.clean_counts, row.idx, dimension)),
        ("predict", row.predict, right),
        ("correct", row.correct, int(right == row.label)),
    ):
        if found != wanted:
            return f"{name} is {found}, but its votes say {wanted}"
    return None


def check_effort(path: Path, settings: Settings, lines: int) -> None:
    """Refuse lines that would take far longer to judge than their size justifies, as those of results files."""
    if noise_of(settings.request):
        samples = settings.request.n
        check_terms(path, ANSWERS * lines * terms_of_line(samples), lines, samples)
