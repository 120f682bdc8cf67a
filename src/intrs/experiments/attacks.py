"""Experiments f and g: which attacks a plan asks for, each in a folder of its own, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intrs.exact import plain
from intrs.experiments.extras import lacks
from intrs.experiments.plan import COMPARED, FIXED_SIGMA, NOISE
from intrs.experiments.section import FIGURE_ONLY, INTERVALS, Section, Table, share_text
from intrs.metrics import Share
from intrs.request import Attack

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.experiments.folder import Found
    from intrs.experiments.plan import Plan

ATTACKED_N = 1000  # votes per answer, of the paper


@dataclass(frozen=True)
class Planned:
    """An attack that a plan asks for."""

    experiment: str
    folder: str  # its name in the run folder
    victim: str
    how: str
    request: Attack

    @property
    def lacks(self) -> str:
        """What must be installed for it; nothing if it can run."""
        return lacks(self.request.noise, attack=True)


def attacks(plan: Plan, threads: int = 0) -> list[Planned]:
    """Every attack that has its networks."""
    if not plan.attacked:
        return []
    common: dict[str, Any] = {
        "data": plan.data, "split": plan.split, "max": plan.attacked, "skip": plan.skip, "seed": plan.seed,
        "threads": threads,
    }  # fmt: skip
    made, undefended = list[Planned](), dict(plan.undefended)
    for method in COMPARED if "f" in plan.experiments else ():
        if model := plan.model(method, FIXED_SIGMA):
            request = Attack(
                model=model, sigma=plain(FIXED_SIGMA), noise=NOISE[method], alpha=plan.alpha, n=ATTACKED_N, **common
            )
            made.append(Planned("f", f"attack-{method}", method, "PGD in l2, smoothed prediction", request))
    if "g" in plan.experiments and undefended:
        plainly: dict[str, Any] = {"norm": "linf", "sigma": "0", **common}
        on_float = Attack(model=undefended["float"], **plainly)
        on_int8 = Attack(model=undefended["int8"], source=undefended["float"], **plainly)
        transferred = "the attack transferred from the float network"
        made.append(Planned("g", "attack-float", "float network", "PGD in l_inf", on_float))
        made.append(Planned("g", "attack-int8", "int8 network", transferred, on_int8))
    return made


# --- What came of them -----------------------------------------------------------------------------------------------


def finished(found: Found, experiment: str) -> list[Planned]:
    """The attacks of an experiment that the plan asks for and that were finished."""
    from intrs.pgd import records

    asked = [each for each in attacks(found.plan) if each.experiment == experiment]
    return [each for each in asked if (found.folder / each.folder / records.TABLE).exists()]


def attacked(folder: Path) -> dict[str, list[Share]]:
    """By eps: images that are correct, those without an answer, and those that were correct before the attack."""
    from intrs.pgd import read

    found = read(folder)
    before = {row.idx for row in found.rows if row.clean == row.label}
    return {
        each.eps: [Share(part, each.images) for part in (each.correct, each.abstained, len(before))]
        for each in found.summary
    }


def smoothed_attack(found: Found) -> Section:
    """Experiment f: one table per method."""
    lacking = [method for method in COMPARED if not found.plan.model(method, FIXED_SIGMA)]
    return _section(found, "f", [f"needs model {method} trained at sigma {plain(FIXED_SIGMA)}" for method in lacking])


def undefended_attack(found: Found) -> Section:
    """Experiment g: one table per form of the network."""
    not_run = [] if found.plan.undefended else ["needs models undefended.float and undefended.int8"]
    return _section(found, "g", not_run)


def _section(found: Found, letter: str, not_run: list[str]) -> Section:
    done = finished(found, letter)
    tables, images = [], 0
    for each in done:
        shares = found.attacked(each)
        images = max(share.whole for of_eps in shares.values() for share in of_eps)
        made = [(eps, *map(share_text, of_eps)) for eps, of_eps in shares.items()]
        columns = ("eps", "correct", "abstained", "correct without attack")
        tables.append(Table(f"{each.victim}, {each.how}", columns, tuple(made)))
    left = [each for each in attacks(found.plan) if each.experiment == letter and each not in done]
    not_run += [f"{each.victim} needs {each.lacks}" for each in left if each.lacks]
    if not found.plan.attacked:
        not_run = ["the plan attacks no images (attacked = 0, which a quick reproduction sets)", *not_run]
    words = f"{images} images, seed {found.plan.seed}." if tables else ""
    return Section(letter, words, (FIGURE_ONLY, INTERVALS) if tables else (), tuple(tables), tuple(not_run))
