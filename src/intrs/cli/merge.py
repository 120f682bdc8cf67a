"""`intrs merge`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from intrs import api
from intrs.cli import scripts
from intrs.cli.screen import MISTAKE, complain, say
from intrs.cli.words import summarise
from intrs.request import FLAGS
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
    lines = [f"  {_command(error.run, each)}" for each in error.missing[:MOST_SHOWN]]
    more = len(error.missing) - MOST_SHOWN
    return "\n".join([*lines, *([f"  ... and {more} more"] if more > 0 else [])])


def _command(run: Run, missing: Missing) -> str:
    """The command that makes a part, or continues one."""
    request = run.request
    words = ["intrs", run.command, request.model or "MODEL", *(request.sources or ["DATA"])]
    settings = {
        "sigma": request.sigma, "noise": request.noise, "n0": run.n0, "n": request.n, "alpha": request.alpha,
        "seed": hex(run.seed), "bound": run.bound, "form": run.form, "split": request.split, "fit": request.fit,
        "first": request.first, "skip": request.skip, "max": request.max, "pixels": request.pixels,
        "mean": request.mean, "std": request.std, "names": ",".join(request.names),
        "by_number": request.by_number, **_adaptive(run), "shard": missing.shard,
    }  # fmt: skip
    standard = {name: getattr(type(request), name, None) for name in settings}
    for name, value in settings.items():
        if value not in ("", None, 0) and value != standard[name]:
            words += [f"--{name.replace('_', '-')}", *([] if name in FLAGS else [str(value)])]
    name = str(missing.path) if missing.path else "FILE"
    return shlex.join([*words, "-o", name])


def _adaptive(run: Run) -> dict[str, str | None]:
    if not run.stages:
        return {}
    last = run.stages.last
    if last.precision is not None:
        return {"precision": str(last.precision)}
    return {"radii": ",".join(map(str, last.radii)), "give_up": str(last.give_up)}
