"""`intrs attack`: perturbations that make a network, or its smoothed form, lose; and what it answers then."""

from __future__ import annotations

import contextlib
import shlex
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from intrs.cli.arguments import asked
from intrs.cli.run import share
from intrs.cli.screen import INTERRUPTED, meter, print_table, show, table
from intrs.errors import IntrsError
from intrs.exact import plain
from intrs.pgd import records
from intrs.pgd.job import attacked, open_job, rows, work
from intrs.request import Attack

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from pathlib import Path

    from intrs.pgd.ball import Ball
    from intrs.pgd.job import Job
    from intrs.pgd.records import Progress, Row

HOW_TO_INSTALL = (
    "attacks need PyTorch for their gradients: pip install 'intrs[train]' (without a CUDA card, first `pip install "
    "torch` from the CPU index that pytorch.org names: it is a tenth of the size)"
)


def attack(args: Namespace) -> int:
    """Attack every image at every eps; the same command continues what was interrupted."""
    return run(asked(args, Attack), args.out, args.argv)


def run(request: Attack, folder: Path, argv: Sequence[str]) -> int:
    """The attack, kept in a folder; `intrs` with argv is the command that continues it."""
    if find_spec("torch") is None:
        raise IntrsError(HOW_TO_INSTALL)
    if request.threads:
        import_module("torch").set_num_threads(request.threads)
    job = open_job(request, folder)
    kept = records.Progress(folder, job.settings, job.data, job.positions, job.victim.classes)
    with contextlib.closing(kept):
        _announce(job, folder, len(kept.records))
        try:
            work(job, kept, meter)
        except KeyboardInterrupt:
            print(_how_to_continue(argv, job, kept), file=sys.stderr)
            return INTERRUPTED
        found = rows(job, kept)
        written = records.write_results(folder, found, attacked(job, kept))
    _summarise(job, found)
    for path in written:
        show("file", str(path))
    return 0


# --- Words -----------------------------------------------------------------------------------------------------------


def _announce(job: Job, folder: Path, done: int) -> None:
    s = job.settings
    show("model", f"{s.model}, identity {s.identity[:16]}")
    if s.source:
        show("gradients", f"of {s.source}, identity {s.source_identity[:16]}: the attack is transferred")
    every = (f"from image {s.first} on, " if s.first else "") + (f"every {s.skip}th, " if s.skip > 1 else "")
    show("data", f"{s.data}, {every}{len(job.positions)} images" + (f", {done} of them done before" if done else ""))
    show("attack", f"PGD in {s.norm}, {s.steps} steps, {s.restarts} start(s), seed {s.seed}")
    words = f"{s.noise} Gaussian, sigma {plain(job.noise.sigma)}" if job.noise else "none: the network itself"
    show("noise", words + (f"; {s.draws} draws a step, {s.n:,} votes an answer" if job.noise else ""))
    show("eps", ", ".join(f"{plain(ball.eps)} ({_levels(ball)})" for ball in s.balls))
    if small := [plain(ball.eps) for ball in s.balls if ball.eps and not ball.limit]:
        show("note", f"eps {', '.join(small)}: less than one pixel level, so that no image can be changed")
    show("folder", str(folder))


def _levels(ball: Ball) -> str:
    return f"{ball.limit} pixel levels" if ball.norm == "linf" else f"{ball.radius:.1f} pixel levels"


def _summarise(job: Job, rows: list[Row]) -> None:
    print("\nAccuracy under attack")
    made = table("eps", "images", "correct", "of all", "abstained", "right before, not now", "mean norm")
    for ball in job.settings.balls:
        mine = [row for row in rows if row.eps == plain(ball.eps)]
        right, lost = sum(row.correct for row in mine), sum(row.clean == row.label != row.predict for row in mine)
        abstained = sum(row.predict is None for row in mine)
        mean = sum(float(row.norm) for row in mine) / len(mine)
        made.add_row(
            plain(ball.eps), f"{len(mine):,}", f"{right:,}", share(right, len(mine)),
            f"{abstained:,}", f"{lost:,}", f"{mean:.4f}",
        )  # fmt: skip
    print_table(made)


def _how_to_continue(argv: Sequence[str], job: Job, kept: Progress) -> str:
    command = shlex.join(["intrs", *argv])
    done, total = len(kept.records), len(job.positions)
    return f"intrs: stopped after {done} of {total} images; the same command continues:\n  {command}"
