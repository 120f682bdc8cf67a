"""`intrs reproduce`: the paper's experiments from one plan."""

from __future__ import annotations

import sys
from shlex import join
from typing import TYPE_CHECKING

from intrs.cli.screen import show
from intrs.cli.start import INTERRUPTED
from intrs.progress import duration
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from intrs.experiments import Step


def reproduce(args: Namespace) -> int:
    """Say what the plan asks for, do it, and name what was written."""
    from intrs import experiments
    from intrs.experiments.plan import TITLES, read_plan

    plan = read_plan(args.plan)
    for letter in plan.experiments:
        show(f"({letter})", TITLES[letter] + ("; not all: some models are missing" if plan.missing(letter) else ""))
    for spec in plan.absent:
        show("absent", f"{spec}: the plan names it, and there is no such file or model")
    try:
        made = experiments.reproduce(
            plan, args.out, quick=args.quick, threads=args.threads, ray=args.ray, workers=args.workers,
            progress=args.progress, outlook=_outlook, announce=_announce,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"intrs: stopped; the same command continues:\n  {join(['intrs', *args.argv])}", file=sys.stderr)
        return INTERRUPTED
    for path in made.pages:
        print(printable(str(path)))
    return 0


def _outlook(steps: Sequence[Step]) -> None:
    """All that is to be done, before it begins, and how long it takes."""
    for step in steps:
        show(_place(step), f"{step.name}, {_size(step)}")
    seconds = [step.seconds for step in steps if step.seconds is not None]
    more = " and the attacks" if len(seconds) < len(steps) else ""
    most = "at most " if any(step.left and step.job and step.job.rules for step in steps) else "about "
    show("in all", f"{most}{duration(sum(seconds))}{more}" if sum(seconds) else f"nothing to sample{more}")


def _announce(step: Step) -> None:
    if step.left or step.job is None:
        show(_place(step), step.name)


def _place(step: Step) -> str:
    return f"{step.number} of {step.total}"


def _size(step: Step) -> str:
    """What a piece of work consists of, what is left of it, and how long that takes."""
    if step.job is None:
        return "an attack; its time is not known before"
    most = "at most " if step.job.rules else ""
    size = f"{len(step.job.positions)} images, n = {most}{step.job.run.request.n:,}"
    if not step.left:
        return f"{size}: done before"
    return f"{size}: {step.left} images left, {most or 'about '}{duration(step.seconds or 0)}"
