"""`intrs report`: one self-contained page about one or several runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.cli.make import check_new
from intrs.cli.screen import meter
from intrs.files import write_whole
from intrs.reports.runs import open_runs
from intrs.results import sidecar_path
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from intrs.reports.gallery import Gallery
    from intrs.reports.runs import Entry


def report(args: Namespace) -> int:
    """Read the runs, draw their images, write the page."""
    from intrs.reports.page import page
    from intrs.reports.training import open_trainings

    check_new(args.out, args.overwrite, [each for path in args.results for each in (path, sidecar_path(path))])
    entries = open_runs(args.results, args.label, joined=args.join)
    trainings = open_trainings(args.training)
    images = None if args.no_images else _gallery(entries, args)
    made = page(entries, images, title=args.title, which=args.paper, trainings=trainings)
    data = made.encode("utf-8", "backslashreplace")
    write_whole(args.out, data)
    for remark in images.remarks if images else ():
        print(printable(remark))
    unfinished = [entry.name for entry in entries if not entry.log.complete]
    note = f"; unfinished: {', '.join(unfinished)}" if unfinished else ""
    shown = sum(len(run["cards"]) for run in images.runs) if images else 0
    print(printable(f"{args.out}: runs: {len(entries)}, images: {shown}, {len(data):,} bytes{note}"))
    return 0


def _gallery(entries: Sequence[Entry], args: Namespace) -> Gallery:
    from intrs.reports.gallery import gallery, open_named

    named = None if args.data is None else open_named(entries, args.data)
    most = sum(min(args.max_images, len(entry.log.answers)) for entry in entries)
    with meter(most, 0, "images") as show_progress:
        return gallery(entries, named, args.max_images, lambda done: show_progress(done, f"image {done:,}"))
