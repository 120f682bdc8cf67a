"""Experiment d: prediction with n samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.exact import plain
from intrs.experiments.judging import predicted
from intrs.experiments.plan import COMPARED, FIXED_SIGMA, PREDICTIONS, other_numbers
from intrs.experiments.section import INTERVALS, Section, Table, beside, section, share_text

if TYPE_CHECKING:
    from intrs.experiments.folder import Found


def predictions(found: Found) -> Section:
    """One line per method and number of samples."""
    rows, not_run = [], []
    theirs, known = other_numbers()["prediction"], found.plan.paper == "cifar10"
    for method in COMPARED:
        for n in PREDICTIONS:
            if n > found.plan.n:
                not_run.append(f"{method} with {n:,} samples: needs n = {n} in the plan")
            elif votes := found.votes(found.plan.predict(method, n)):
                right, quiet = predicted(votes, found.dimension, found.plan.alpha)
                numbers = theirs[method][str(n)] if known else ("", "")
                rows.append((method, f"{n:,}", share_text(right), numbers[0], share_text(quiet), numbers[1]))
    columns = ("method", "n", "correct", "paper", "abstained", "paper")
    title = beside(f"Prediction, sigma {plain(FIXED_SIGMA)}", theirs["table"] if known else None)
    tables = [Table(title, columns, tuple(rows))] if rows else []
    errata = "The paper's algorithm compares its p-value with 0.5; here it is alpha, so we abstain where it would not."
    return section(found, "d", tables, [errata, INTERVALS], not_run)
