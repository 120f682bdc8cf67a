"""`intrs attack`: perturbations that make a network, or its smoothed form, lose; and what it answers then."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from intrs import pgd
from intrs.cli.arguments import asked
from intrs.cli.screen import complain, images_of, print_table, share, show, table, which_images
from intrs.cli.start import INTERRUPTED
from intrs.errors import SettingsError
from intrs.exact import plain
from intrs.pgd.api import part_of
from intrs.progress import reporting
from intrs.request import Attack
from intrs.training.pytorch import ON_THE_CPU

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from pathlib import Path

    from intrs.pgd import Attacked
    from intrs.pgd.ball import Ball
    from intrs.pgd.campaign import Campaign


def attack(args: Namespace) -> int:
    """Attack every image at every eps, or put parts together; the same command continues what was interrupted."""
    places = (args.model, args.data, args.out)
    if args.join is None and args.to is None:
        if None in places:
            raise SettingsError("MODEL, DATA and OUTDIR are needed\nsee `intrs attack --help`")
        return run(part_of(asked(args, Attack), args.shard), args.out, args.argv, args.device, progress=args.progress)
    if args.join is None or args.to is None or places != (None, None, None):
        raise SettingsError("to put parts together, say: intrs attack --join DIR DIR ... --to DIR")
    summarise(pgd.join(args.join, args.to))
    return 0


def run(request: Attack, folder: Path, argv: Sequence[str], device: str = "cpu", *, progress: bool = True) -> int:
    """The attack, kept in a folder; `intrs` with argv is the command that continues it."""
    begun: list[Campaign] = []

    def announce(campaign: Campaign) -> None:
        begun.append(campaign)
        _announce(campaign)

    try:
        with reporting(progress=progress) as report:
            found = pgd.attack(request, folder, device=device, progress=report, announce=announce)
    except KeyboardInterrupt:
        if not begun:
            raise
        complain(_how_to_continue(argv, begun[0]))
        return INTERRUPTED
    summarise(found)
    return 0


# --- Words -----------------------------------------------------------------------------------------------------------


def _announce(campaign: Campaign) -> None:
    settings, request, done = campaign.settings, campaign.settings.request, len(campaign.records)
    show("model", f"{request.model}, identity {settings.identity[:16]}")
    if request.source:
        words = f"of {request.source}, identity {settings.source_identity[:16]}: the attack is transferred"
        show("gradients", words)
    words = f"{request.data_name}, {which_images(request)}{images_of(settings.images)}"
    show("data", words + (f", {done} of them done before" if done else ""))
    starts = "1 start" if request.restarts == 1 else f"{request.restarts} starts"
    show("attack", f"PGD in {request.norm}, {request.steps} steps, {starts} per image, seed {campaign.seed:#x}")
    show("noise", _noise_words(campaign))
    show("eps", ", ".join(f"{plain(ball.eps)} ({_levels(ball)})" for ball in settings.balls))
    if small := [plain(ball.eps) for ball in settings.balls if ball.eps and not ball.limit]:
        show("note", f"eps {', '.join(small)}: less than one pixel level, so that no image can be changed")
    if campaign.device.type != "cpu":
        show("device", f"{campaign.device.type} for gradients; {ON_THE_CPU}")
    show("folder", str(campaign.records.folder))


def _noise_words(campaign: Campaign) -> str:
    request = campaign.settings.request
    if campaign.noise is None:
        return "none: the network itself"
    law = f"{request.noise} Gaussian, sigma {plain(campaign.noise.sigma)}"
    return f"{law}; {request.draws} draws per step, {request.n:,} votes per answer"


def _levels(ball: Ball) -> str:
    return f"{ball.limit} pixel levels" if ball.norm == "linf" else f"{ball.radius:.1f} pixel levels"


def summarise(found: Attacked) -> None:
    """The table of a finished attack, and its files."""
    print("\nAccuracy under attack")
    made = table("eps", "images", "correct", "of all", "abstained", "right before, not now", "mean norm")
    for at in found.summary:
        made.add_row(
            at.eps, f"{at.images:,}", f"{at.correct:,}", share(at.correct, at.images),
            f"{at.abstained:,}", f"{at.lost:,}", f"{at.mean_norm:.4f}",
        )  # fmt: skip
    print_table(made)
    for path in found.paths:
        show("file", str(path))


def _how_to_continue(argv: Sequence[str], campaign: Campaign) -> str:
    command = shlex.join(["intrs", *argv])
    done, total = len(campaign.records), len(campaign.positions)
    return f"stopped after {done} of {total} images; the same command continues:\n  {command}"
