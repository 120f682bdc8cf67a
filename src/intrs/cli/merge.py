"""`intrs merge`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from intrs import api
from intrs.cli import scripts
from intrs.cli.screen import MISTAKE, complain, say
from intrs.cli.words import summarise
from intrs.reports.provenance import repeat
from intrs.results import UnfinishedError

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.results import Run
    from intrs.results.merging import Missing

MOST_SHOWN = 20


def merge(args: Namespace) -> int:
    """Put parts together, or say what is missing and how to make it."""
    try:
        found = api.merge(args.parts, args.out, overwrite=args.overwrite)
    except UnfinishedError as error:
        complain(f"{error}. What makes them, and then merge again:\n" + _commands(error))
        return MISTAKE
    say(f"{args.out}: {len(found):,} images from {len(args.parts):,} files")
    if args.json:
        args.answer = scripts.of_results(found)
    summarise(found)
    return 0


def _commands(error: UnfinishedError) -> str:
    lines = [f"  {line}" for each in error.missing[:MOST_SHOWN] for line in _command(error.run, each)]
    more = len(error.missing) - MOST_SHOWN
    return "\n".join([*lines, *([f"  ... and {more} more"] if more > 0 else [])])


def _command(run: Run, missing: Missing) -> list[str]:
    """The commands that make a part, one for each time that the run was extended; or the one that continues it."""
    request = run.request
    named = replace(request, model=request.model or "MODEL", data=request.data or "DATA", shard=missing.shard)
    lines = repeat(replace(run, request=named), missing.path or Path("FILE")).splitlines()
    return lines[-1:] if missing.path else lines
