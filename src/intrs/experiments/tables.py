"""All experiments of a run folder, each beside the paper's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.experiments.attacks import smoothed_attack, undefended_attack
from intrs.experiments.certificates import certified_accuracy, certified_percentage, other_alphas, other_sigma
from intrs.experiments.predictions import predictions
from intrs.experiments.timing import in_a_browser, noisy_images, time_and_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from intrs.experiments.folder import Found
    from intrs.experiments.section import Section

_MAKERS: dict[str, Callable[[Found], Section]] = {
    "a": certified_accuracy,
    "b": certified_percentage,
    "c": other_sigma,
    "d": predictions,
    "e": other_alphas,
    "f": smoothed_attack,
    "g": undefended_attack,
    "h": time_and_size,
    "i": noisy_images,
    "j": in_a_browser,
}


def sections(found: Found) -> list[Section]:
    """All experiments of the plan, in its order."""
    return [_MAKERS[letter](found) for letter in found.plan.experiments]
