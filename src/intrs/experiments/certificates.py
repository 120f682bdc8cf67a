"""Experiments a, b, c and e: certified accuracy and certified percentage, beside the paper's numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from intrs.certificate import Certified, parse_alpha
from intrs.exact import plain
from intrs.experiments.plan import COMPARED, DEFAULT_RADII, FIXED_SIGMA, SIGMAS, TRAINED, other_numbers
from intrs.experiments.section import (
    DENOMINATORS,
    FIGURE_ONLY,
    INTERVALS,
    Section,
    Table,
    beside,
    section,
    share_text,
)
from intrs.reports.runs import METHODS, paper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.experiments.folder import Found
    from intrs.experiments.plan import Sampling
    from intrs.metrics import Results

ALPHAS = ("0.1", "0.01", "0.001", "0.0001")
PAPER_N, PAPER_N_OF = 100_000, "cifar10"  # it does not say how many samples its table of Caltech-101 rests on
ADAPTIVE = (
    "Adaptive runs stop sampling an image when every radius of the table that n samples can reach is certified or "
    "given up. Their certificates are as sure as the others; all n samples would certify a few more (docs/adaptive.md)."
)


def certified_accuracy(found: Found) -> Section:
    """Experiment a: one table per method."""
    which = found.plan.paper
    theirs = paper()["tables"].get(which, {})
    radii = tuple(theirs.get("radii", DEFAULT_RADII))
    tables = []
    for title, samplings in _by_method(found).items():
        numbers = _by_sigma(theirs.get("certified_accuracy", {}).get(samplings[0].method, {}))
        rows = [
            row
            for s in samplings
            if (votes := found.votes(s))
            for row in _accuracy_rows(votes, _certified_at(s), radii, numbers.get(s.sigma))
        ]
        if rows:
            columns = ("sigma", "", *(f"r = {r}" for r in radii), "average radius")
            tables.append(Table(beside(title, theirs.get("table")), columns, tuple(rows)))
    more = found.plan.more
    reach = _reach(found, more=more > 0)
    notes = [DENOMINATORS, INTERVALS, *_adaptive_note(found.plan.adaptive or more), *reach]
    return section(found, "a", tables, notes)


def _by_method(found: Found) -> dict[str, list[Sampling]]:
    """The votes of experiments a and b, one per sigma: of each method, and of the one that has more samples."""
    plan = found.plan
    of_each = {method: [plan.certify(method, sigma, sigma) for sigma in SIGMAS] for method in METHODS}
    more = {f"{METHODS[0]}, at most {plan.more:,} samples": list(map(plan.certify_more, SIGMAS))} if plan.more else {}
    return of_each | more


def _accuracy_rows(
    votes: Results, name: str, radii: Sequence[str], numbers: Sequence[str] | None, *, average: bool = True
) -> list[tuple[str, ...]]:
    def of(denominator: str) -> tuple[str, ...]:
        kind: Any = denominator
        return tuple(share_text(votes.certified_accuracy(Fraction(r), kind)) for r in radii)

    mean = votes.average_radius()
    ours = (name, "ours", *of("all"), *((f"{mean.value:.3f}" if mean else "–",) if average else ()))
    blank = ("",) if average else ()
    rows = [ours, ("", "of the answered", *of("answered"), *blank)]
    return [*rows, ("", "paper", *numbers, *blank)] if numbers else rows


def certified_percentage(found: Found) -> Section:
    """Experiment b: one line per method."""
    rows = []
    for title, samplings in _by_method(found).items():
        runs = [found.votes(s) for s in samplings]
        if any(runs):
            rows.append((title, *(share_text(votes.answered()) if votes else "not run" for votes in runs)))
    columns = ("method", *(f"sigma {plain(sigma)}" for sigma in SIGMAS))
    tables = [Table("Images that got a certificate, right or wrong", columns, tuple(rows))] if rows else []
    return section(found, "b", tables, [FIGURE_ONLY, INTERVALS])


def other_sigma(found: Found) -> Section:
    """Experiment c: one table per network."""
    theirs, tables = other_numbers()["other_sigma"], []
    radii = ("0", *theirs["radii"])
    for trained in TRAINED:
        for method in COMPARED:
            known = found.plan.paper == "cifar10"
            numbers = _by_sigma(theirs[plain(trained)][method]) if known else {}
            samplings = {sigma: found.plan.certify(method, trained, sigma) for sigma in SIGMAS}
            rows = [
                row
                for sigma, s in samplings.items()
                if (votes := found.votes(s))
                for row in _accuracy_rows(votes, _certified_at(s), radii, _with_dash(numbers.get(sigma)), average=False)
            ]
            if rows:
                title = f"{method} trained at sigma {plain(trained)}"
                columns = ("certified at", "", *(f"r = {r}" for r in radii))
                place = theirs[plain(trained)]["table"] if known else None
                tables.append(Table(beside(title, place), columns, tuple(rows)))
    notes = [DENOMINATORS, INTERVALS, *_adaptive_note(found.plan.adaptive), *_reach(found)]
    return section(found, "c", tables, notes)


def _adaptive_note(most: int) -> list[str]:
    return [ADAPTIVE] if most else []


def _certified_at(sampling: Sampling) -> str:
    return plain(sampling.sigma) + (" (adaptive)" if sampling.adaptive else "")


def other_alphas(found: Found) -> Section:
    """Experiment e: one table per method."""
    tables, radii = [], ("0", *DEFAULT_RADII)
    for method in COMPARED:
        if judged := found.at_alphas(method, ALPHAS):
            rows = [row for alpha, votes in judged.items() for row in _accuracy_rows(votes, alpha, radii, None)]
            columns = ("alpha", "", *(f"r = {r}" for r in radii), "average radius")
            tables.append(Table(f"{method}, sigma {plain(FIXED_SIGMA)}", columns, tuple(rows)))
    note = "The same votes judged again for every alpha: no sampling."
    return section(found, "e", tables, [note, FIGURE_ONLY, DENOMINATORS])


def _reach(found: Found, *, more: bool = False) -> list[str]:
    """What keeps a run with fewer samples from the paper's larger radii."""
    plan = found.plan
    samplings = [plan.certify_more(sigma) if more else plan.certify(METHODS[0], sigma, sigma) for sigma in SIGMAS]
    if plan.paper != PAPER_N_OF or min(s.n for s in samplings) >= PAPER_N:
        return []
    reached = []
    for s in samplings:
        most = Certified(0, found.certifier(s).largest() or 0, s.n, s.n, parse_alpha(plan.alpha))
        reached.append(f"{most.radius_text(3, up=True)} at sigma {plain(s.sigma)} with {s.n:,}")
    return [f"The paper takes {PAPER_N:,} samples. Ours cannot certify more than {', '.join(reached)}."]


def _by_sigma(numbers: dict[str, list[str]]) -> dict[Fraction, tuple[str, ...]]:
    return {Fraction(sigma): tuple(values) for sigma, values in numbers.items()}


def _with_dash(numbers: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The paper's table does not have r = 0."""
    return numbers and ("–", *numbers)
