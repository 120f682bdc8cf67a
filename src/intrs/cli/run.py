"""`intrs certify` and `intrs predict`."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intrs import api, zoo
from intrs.cli import scripts
from intrs.cli.arguments import asked
from intrs.cli.screen import complain, say
from intrs.cli.start import INTERRUPTED
from intrs.cli.words import announce, summarise
from intrs.exact import parse_fraction, plain
from intrs.model import open_model
from intrs.progress import duration
from intrs.request import REQUESTS
from intrs.shards import settled_shard

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.api import Started
    from intrs.metrics import Results
    from intrs.model import Model


def run(args: Namespace) -> int:
    """Answer for every image, one line of results each."""
    request, call = asked(args, REQUESTS[args.command]), {"certify": api.certify, "predict": api.predict}[args.command]
    model = open_model(request.model)
    settings: dict[str, Any] = {**asdict(request), "model": model}
    begun: list[tuple[Started, float]] = []
    try:
        found = call(
            **settings,
            out=args.out or default_name(args, model),
            resume=args.resume,
            overwrite=args.overwrite,
            ray=args.ray,
            workers=args.workers,
            twice=args.twice,
            progress=args.progress,
            on_start=lambda started: begun.append((started, announce(started, alone=not args.ray))),
        )
    except KeyboardInterrupt:
        if not begun:
            raise
        complain(_how_to_resume(args, begun[0][0]))
        return INTERRUPTED
    if not found.run or not found.run.is_judged:
        say(f"\nThe votes of this part are counted. When all parts are: {_how_to_merge(found)}")
        return 0
    if args.json:
        args.answer = scripts.of_results(found)
    summarise(found, begun[0][0].job.class_names)
    if args.shard:
        say(f"This is a part of a run; to put all of them together: {_how_to_merge(found)}")
    if args.short:
        say(_how_to_run_in_full(*begun[0]))
    say(f"\nNext: `intrs report {shlex.quote(str(found.source))}` makes a page of it; `intrs verify` checks every bit.")
    return 0


def _how_to_merge(found: Results) -> str:
    return f"intrs merge {found.source} ... -o FILE"


def default_name(args: Namespace, model: Model) -> Path:
    """certify-MODEL-DATA-sigmaS.tsv in the current folder."""
    shipped = args.model in (*zoo.model_names(), *zoo.float_names())
    sigma = (
        parse_fraction(model.trained_sigma if args.sigma is None else args.sigma, "sigma")
        if (args.sigma is not None or model.trained_sigma)
        else None
    )
    parts = [args.command, args.model if shipped else Path(args.model).stem, _data_name(args.data)]
    parts += [] if sigma is None else [f"sigma{plain(sigma)}"]
    parts += [*([] if args.noise != "continuous" else [args.noise]), *(["short"] if args.short else [])]
    parts += [f"part{settled_shard(args.shard, os.environ)}".replace("/", "of")] if args.shard else []
    return Path(re.sub(r"[^\w.+-]", "_", "-".join(parts)) + ".tsv")


def _data_name(spec: str | tuple[str, ...]) -> str:
    """What the data will call itself."""
    if isinstance(spec, tuple):
        return f"{Path(spec[0]).stem}-and-{len(spec) - 1}-more"
    path = Path(spec)
    return path.resolve().name if path.is_dir() else path.stem if path.is_file() else spec


def _how_to_resume(args: Namespace, started: Started) -> str:
    words = [word for word in args.argv if word not in ("--resume", "--overwrite")]
    command = shlex.join(["intrs", *words])
    done, total = len(started.rows), len(started.job.positions)
    return f"stopped after {done} of {total} images; continue with\n  {command}"


def _how_to_run_in_full(started: Started, rate: float) -> str:
    job, request = started.job, started.job.run.request
    n, images = REQUESTS[job.run.command].n, len(job.data)
    time = f", about {duration(images * (n + job.run.n0) / rate)}" if rate else ""
    return (
        f"\nThis was a short run. The full one, {images} images with {n:,} samples each{time}:\n"
        f"  {shlex.join(['intrs', job.run.command, request.model, *request.sources])}"
    )
