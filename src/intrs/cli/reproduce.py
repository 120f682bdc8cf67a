"""`intrs reproduce`: the paper's experiments from one plan."""

from __future__ import annotations

import sys
from shlex import join
from typing import TYPE_CHECKING

from intrs.cli import INTERRUPTED
from intrs.cli.screen import printable, show

if TYPE_CHECKING:
    from argparse import Namespace


def reproduce(args: Namespace) -> int:
    """Sample what is missing, attack, write the tables; the same command continues what was interrupted."""
    from intrs.reproduce.pages import write
    from intrs.reproduce.plan import TITLES, read_plan
    from intrs.reproduce.run import attack, open_folder, sample

    plan = read_plan(args.plan)
    plan = plan.quick() if args.quick else plan
    found = open_folder(plan, args.out)
    for letter in plan.experiments:
        show(f"({letter})", TITLES[letter] + ("; not all: some models are missing" if plan.missing(letter) else ""))
    for spec in plan.absent:
        show("absent", f"{spec}: the plan names it, and there is no such file or model")
    try:
        sample(found, args.threads)
        code = attack(found, args.threads)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code:
        print(f"intrs: stopped; the same command continues:\n  {join(['intrs', *args.argv])}", file=sys.stderr)
        return code
    for path in write(found):
        print(printable(str(path)))
    return 0
