"""`intrs plot`: figures for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.cli.make import check_new
from intrs.files import write_whole
from intrs.reports.runs import open_runs
from intrs.results import sidecar_path
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace


def plot(args: Namespace) -> int:
    """Read the runs, draw their curves, write the figure."""
    from intrs.reports.figure import check_format, figure

    check_new(args.out, args.overwrite, [each for path in args.results for each in (path, sidecar_path(path))])
    check_format(args.out.suffix)
    entries = open_runs(args.results, args.label, joined=args.join)
    made = figure(entries, args.out.suffix, measure=args.of, cp=args.cp, width=args.width, which=args.paper)
    write_whole(args.out, made)
    unfinished = [entry.name for entry in entries if not entry.log.complete]
    note = f"; unfinished: {', '.join(unfinished)}" if unfinished else ""
    print(printable(f"{args.out}: runs: {len(entries)}, {len(made):,} bytes{note}"))
    return 0
