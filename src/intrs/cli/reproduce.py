"""`intrs reproduce`: the paper's experiments from one plan."""

from __future__ import annotations

import sys
from shlex import join
from typing import TYPE_CHECKING

from intrs.cli.screen import INTERRUPTED, duration, meter, show
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.experiments.plan import Sampling
    from intrs.experiments.run import Found
    from intrs.job import Job


def reproduce(args: Namespace) -> int:
    """Sample what is missing, attack, write the tables; the same command continues what was interrupted."""
    from intrs.experiments.pages import write
    from intrs.experiments.plan import TITLES, read_plan
    from intrs.experiments.run import open_folder, sample

    plan = read_plan(args.plan)
    plan = plan.quick() if args.quick else plan
    found = open_folder(plan, args.out)
    for letter in plan.experiments:
        show(f"({letter})", TITLES[letter] + ("; not all: some models are missing" if plan.missing(letter) else ""))
    for spec in plan.absent:
        show("absent", f"{spec}: the plan names it, and there is no such file or model")
    try:
        sample(found, args.threads, _announce, meter)
        if code := _attack(found, args):
            return code
    except KeyboardInterrupt:
        print(f"intrs: stopped; the same command continues:\n  {join(['intrs', *args.argv])}", file=sys.stderr)
        return INTERRUPTED
    for path in write(found):
        print(printable(str(path)))
    return 0


def _announce(place: str, sampling: Sampling, job: Job, left: int) -> None:
    words, most = f"{left} images left" if left else "done before", "at most " if sampling.adaptive else ""
    if left:
        words += f", {most or 'about '}{duration(left * job.samples_per_image() / job.rate())}"
    show(place, f"{sampling.name}, {len(job.positions)} images, n = {most}{job.run.n:,}: {words}")


def _attack(found: Found, args: Namespace) -> int:
    """What `intrs attack` does, for every attack of the plan, each in a folder of its own; 0, or why one stopped."""
    from intrs.cli.attack import run
    from intrs.experiments.run import attack_lacks, attacks

    for name, request in attacks(found.plan, args.threads).items():
        if attack_lacks(request):
            continue
        show("attack", name)
        if code := run(request, found.folder / name, args.argv):
            return code
    return 0
