"""`intrs report`: one self-contained page about one or several runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.cli.screen import one_or_more
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def report(args: Namespace) -> int:
    """Make the page, and say what is in it."""
    from intrs import reports

    made = reports.report(
        args.results,
        args.out,
        join=args.join,
        labels=args.label,
        title=args.title,
        data=one_or_more(args.data),
        max_images=0 if args.no_images else args.max_images,
        training=args.training,
        paper=args.paper,
        web=args.web,
        overwrite=args.overwrite,
        progress=args.progress,
    )
    for remark in made.remarks:
        print(printable(f"{remark} To show them: --data PATH."))
    runs = f"runs: {len(made.runs)}, images: {made.images}"
    print(printable(f"{made.path}: {runs}, {len(made.data):,} bytes{unfinished(made.unfinished)}"))
    print("Next: open it in a browser; it needs no server and no network.")
    return 0


def unfinished(names: Sequence[str]) -> str:
    """What the last line says of runs that lack some of their images."""
    return f"; unfinished: {', '.join(names)}" if names else ""
