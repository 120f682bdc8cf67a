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
            progress=args.progress, announce=_announce,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"intrs: stopped; the same command continues:\n  {join(['intrs', *args.argv])}", file=sys.stderr)
        return INTERRUPTED
    for path in made.pages:
        print(printable(str(path)))
    return 0


def _announce(step: Step) -> None:
    place, job = f"{step.number} of {step.total}", step.job
    if job is None:
        show(place, step.name)
        return
    most = "at most " if job.rules else ""
    words = f"{step.left} images left" if step.left else "done before"
    if step.left:
        words += f", {most or 'about '}{duration(step.left * job.samples_per_image() / job.rate())}"
    show(place, f"{step.name}, {len(job.positions)} images, n = {most}{job.run.request.n:,}: {words}")
