"""`intrs plot`: figures for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.cli.report import unfinished
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace


def plot(args: Namespace) -> int:
    """Make the figure, and say what is in it."""
    from intrs import reports

    made = reports.plot(
        args.results,
        args.out,
        join=args.join,
        labels=args.label,
        of=args.of,
        cp=args.cp,
        votes=args.votes,
        width=args.width,
        paper=args.paper,
        overwrite=args.overwrite,
    )
    note = unfinished(made.unfinished)
    print(printable(f"{made.path}: runs: {len(made.runs)}, {len(made.data):,} bytes{note}"))
    return 0
