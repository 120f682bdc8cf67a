"""`intrs certify` and `intrs predict`."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intrs import api, zoo
from intrs.adaptive import SpendingRule, UnionRule
from intrs.certificate import Certified, least_wins
from intrs.cli.arguments import asked
from intrs.cli.screen import complain, images_of, print_table, say, share, show, table, which_images
from intrs.cli.start import INTERRUPTED
from intrs.exact import parse_fraction, plain
from intrs.model import open_model
from intrs.noise import parse_sigma
from intrs.progress import duration
from intrs.request import REQUESTS
from intrs.shards import settled_shard

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from fractions import Fraction

    from intrs.adaptive import Rule
    from intrs.api import Started
    from intrs.job import Job
    from intrs.metrics import Results
    from intrs.model import Model
    from intrs.results import Row

MOST_SHOWN = 8  # radii of an adaptive run, when it begins
UNPROVED = " (proved along the axes only; sound is proved everywhere)"


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
            progress=True,
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
    summarise(found)
    if args.shard:
        say(f"This is a part of a run; to put all of them together: {_how_to_merge(found)}")
    if args.short:
        say(_how_to_run_in_full(*begun[0]))
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


# --- Words -----------------------------------------------------------------------------------------------------------


def announce(started: Started, *, alone: bool = True) -> float:
    """Say, before sampling, what is done and what can come of it; the measured rate of this machine is returned."""
    job, done = started.job, len(started.rows)
    run, request, images = job.run, job.run.request, len(job.positions)
    integers = run.noise.on_integers
    dialect = f"dialect {request.dialect}, " if request.dialect else ""
    engine = f"{'kernels ' if integers else ''}{run.kernels}"
    show("model", f"{request.model}, identity {run.identity[:16]}, {dialect}{engine}")
    show(
        "data",
        f"{request.data_name}, {which_images(request)}{images_of(images)}{_labels(job)}"
        + (f", {done} of them done before" if done else ""),
    )
    for remark in job.data.remarks:
        show("fit", remark)
    show(
        "noise",
        f"{run.noise.kind} Gaussian, sigma {plain(run.noise.sigma)} ({float(run.noise.grid_sigma):g} pixel levels)",
    )
    most = "at most " if job.rules else ""
    if run.n0:
        show("samples", f"{run.n0:,} + {most}{request.n:,} per image (selection + estimation)")
    else:
        show("samples", f"{request.n:,} per image")
    reserved = f" ({float(job.judge.tau):.2g} of it is reserved for the sampling table)" if integers else ""
    show("alpha", f"{plain(run.alpha)}{reserved}")
    made_for = job.model.trained_sigma
    if made_for and parse_sigma(made_for) != run.noise.sigma:
        show("note", f"the model was trained for sigma {made_for}; at another it errs and abstains more")
    if run.note:
        show("caution", run.note)
    show("results", str(started.path))
    for name, words in _prospects(job):
        show(name, words)
    if done == images:
        return 0.0
    rate = job.rate()
    most = "at most" if job.rules else "about"
    words = "" if alone else " on this machine alone"
    show("time", f"{most} {duration((images - done) * job.samples_per_image() / rate)}{words} ({rate:,.0f} samples/s)")
    return rate


def _labels(job: Job) -> str:
    return "" if job.data.has_labels else " without labels"


def _prospects(job: Job) -> list[tuple[str, str]]:
    n, alpha = job.run.request.n, job.run.alpha
    if job.run.command == "predict":
        least = least_wins(n, alpha - job.judge.tau)
        return [("votes", f"{least:,} of {n:,} against one other class are the fewest that decide")]
    if job.rules:
        return _adaptive_prospects(job.rules[-1], job)
    radius_sq, least = job.judge.certifier.largest(), job.judge.certifier.least_votes()
    best = Certified(0, radius_sq or 0, n, n, alpha).radius_text(3, up=True)
    return [
        ("radius", f"at most {best} (all {n:,} votes)"),
        ("votes", f"{least:,} are the fewest that certify anything"),
        ("bound", _bound(job)),
    ]


def _bound(job: Job) -> str:
    certifier = job.judge.certifier
    name = certifier.bound if job.run.noise.on_integers else "classical (Cohen et al. 2019)"
    return f"{name}, {certifier.form}-class{UNPROVED if certifier.bound == 'paper' else ''}"


def _adaptive_prospects(rule: Rule, job: Job) -> list[tuple[str, str]]:
    looks, largest = rule.schedule.looks, rule.largest()
    best = Certified(0, largest or 0, rule.caps[-1], rule.caps[-1], job.run.alpha).radius_text(3, up=True)
    words = [
        ("rule", f"{rule.name}, {len(looks)} looks after {looks[0]:,} to {looks[-1]:,} samples"),
        ("bound", _bound(job)),
    ]
    if isinstance(rule, SpendingRule):
        fewest = [f"{plain(r)} {_from_how_many(rule, r)}" for r in rule.radii]
        shown = fewest if len(fewest) <= MOST_SHOWN else [*fewest[: MOST_SHOWN - 1], "...", fewest[-1]]
        return [*words, *(("radii" if i == 0 else "", each) for i, each in enumerate(shown))]
    assert isinstance(rule, UnionRule)
    asked = f"within {float(100 * rule.precision):g} %" if rule.precision else ", ".join(map(plain, rule.radii))
    return [*words, ("radius", f"{asked}; at most {best} (all {rule.caps[-1]:,} votes)")]


def _from_how_many(rule: SpendingRule, radius: Fraction) -> str:
    threshold = rule.tables.of(radius)
    looks = zip(rule.schedule.looks, threshold.accept, strict=True) if threshold else ()
    return next((f"from {n:,} samples on" for n, votes in looks if votes <= n), "out of reach")


def summarise(found: Results) -> None:
    """The closing table."""
    assert found.run
    command = found.run.command
    if found.has_labels:
        _accuracy("Certified accuracy" if command == "certify" else "Accuracy", found)
    elif found.has_radii:
        _certified(found)
    part, whole = found.answered().part, len(found.answers)
    say(f"CP {share(part, whole)} ({part:,} of {whole:,} images answered), abstentions: {whole - part:,}")
    if found.run.stages and found.rows:
        _saved(found.rows, found.run.request.n)


def _accuracy(title: str, found: Results) -> None:
    say(f"\n{title} (of the answered: the paper's formula)")
    made = table("radius", "correct", "of all images", "of the answered")
    for radius in found.quarters():
        of_all, of_answered = found.certified_accuracy(radius), found.certified_accuracy(radius, "answered")
        shares = share(of_all.part, of_all.whole), share(of_answered.part, of_answered.whole)
        made.add_row(f"{float(radius):.2f}", f"{of_all.part:,}", *shares)
    print_table(made)


def _certified(found: Results) -> None:
    say("\nCertified at this radius or more (the images have no labels, so no accuracy is known)")
    made = table("radius", "images", "of all images")
    for radius in found.quarters():
        certified = found.certified(radius)
        made.add_row(f"{float(radius):.2f}", f"{certified.part:,}", share(certified.part, certified.whole))
    print_table(made)


def _saved(rows: Sequence[Row], most: int) -> None:
    """How many samples an adaptive run took, against the fixed number."""
    used = sorted(row.n for row in rows)
    total, full = sum(used), sum(n == most for n in used)
    say(
        f"samples to decide: {total / len(used):,.0f} per image, {used[len(used) // 2]:,} at the median, "
        f"all {most:,} for {full:,} images\n"
        f"saved: {share(len(used) * most - total, len(used) * most)}, "
        f"{len(used) * most / total:.1f} times fewer than {most:,} each"
    )


def _how_to_resume(args: Namespace, started: Started) -> str:
    words = [word for word in args.argv if word not in ("--resume", "--overwrite")]
    end = words.index("--") if "--" in words else len(words)
    command = shlex.join(["intrs", *words[:end], *([] if args.short else ["--resume"]), *words[end:]])
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
