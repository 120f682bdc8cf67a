"""`intrs certify` and `intrs predict`."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from intrs import results, zoo
from intrs.adaptive import SpendingRule, Stages, UnionRule
from intrs.certificate import Certified, least_wins
from intrs.cli import INTERRUPTED
from intrs.cli.arguments import asked
from intrs.cli.screen import duration, meter, print_table, show, table
from intrs.errors import IntrsError
from intrs.exact import plain
from intrs.job import Job, assemble, open_job, trained_sigma, work
from intrs.metrics import Results
from intrs.noise import parse_sigma
from intrs.request import REQUESTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from intrs.adaptive import Rule
    from intrs.results import Row, Writer

MOST_SHOWN = 8  # radii of an adaptive run, when it begins
UNPROVED = " (proved along the axes only; sound is proved everywhere)"


def run(args: Namespace) -> int:
    """Answer for every image of the job, one line of results each."""
    job = open_job(asked(args, REQUESTS[args.command]))
    path: Path = args.out or default_name(job, short=args.short)
    if args.resume:
        job = _continued(args, path, job)
    job.check_decisive()
    with _writer(args, path, job) as writer:
        try:
            rate = _announce(job, writer)
            work(job, writer, results.set_aside(path, job.run), meter)
        except KeyboardInterrupt:
            print(_how_to_resume(args, job, writer), file=sys.stderr)
            return INTERRUPTED
        summarise(Results.of(path, job.run, writer.rows))
    if args.short:
        print(_how_to_run_in_full(job, rate))
    return 0


def _continued(args: Namespace, path: Path, job: Job) -> Job:
    """Resuming means the seed that was drawn then, unless one is given; a changed adaptive run becomes a stage more."""
    if not results.sidecar_path(path).exists():
        return job
    old = results.read_run(path)
    run = job.run if args.seed is not None else replace(job.run, seed=old.seed)
    if bool(old.adaptive) != bool(run.adaptive):
        raise IntrsError(
            f"cannot resume {path}: it is {'' if old.adaptive else 'not '}adaptive, and this run is "
            f"{'' if run.adaptive else 'not'}; the two count votes by different rules; name other results with --out"
        )
    if old.adaptive:
        plan = Stages.parse(old.adaptive).extended(Stages.parse(run.adaptive).last)
        run = replace(run, adaptive=str(plan))
    return assemble(run, job.network, job.data, job.smooth.threads)


def _writer(args: Namespace, path: Path, job: Job) -> Writer:
    if not args.resume:
        return results.create(path, job.run, overwrite=args.overwrite)
    if job.run.adaptive and results.sidecar_path(path).exists():
        old = results.read_run(path)
        if old.adaptive != job.run.adaptive:
            return results.extend(path, job.run)
    return results.resume(path, job.run, job.indices)


def default_name(job: Job, *, short: bool) -> Path:
    """certify-MODEL-DATA-sigmaS.tsv in the current folder."""
    run = job.run
    shipped = (*zoo.model_names(), *zoo.float_names())
    model = run.model if run.model in shipped else Path(run.model).stem
    parts = [run.command, model, job.data.name, f"sigma{plain(Fraction(run.sigma))}"]
    parts += [*([] if job.smooth.noise.on_integers else [run.noise]), *(["short"] if short else [])]
    return Path(re.sub(r"[^\w.+-]", "_", "-".join(parts)) + ".tsv")


# --- Words -----------------------------------------------------------------------------------------------------------


def _announce(job: Job, writer: Writer) -> float:
    """Say, before sampling, what is done and what can come of it; the measured rate is returned."""
    run, images, done = job.run, len(job.positions), len(writer.rows)
    sigma, grid = plain(job.smooth.noise.sigma), float(job.smooth.noise.grid_sigma)
    integers = job.smooth.noise.on_integers
    show("model", f"{run.model}, identity {run.identity[:16]}, {'kernels ' if integers else ''}{run.kernels}")
    every = (f"from image {run.first} on, " if run.first else "") + (f"every {run.skip}th, " if run.skip > 1 else "")
    show("data", f"{run.data}, {every}{images} images" + (f", {done} of them done before" if done else ""))
    show("noise", f"{run.noise} Gaussian, sigma {sigma} ({grid:g} pixel levels)")
    most = "at most " if job.rules else ""
    show("samples", f"{run.n0:,} to select and {most}{run.n:,} to decide, an image")
    table = f", of which the noise table takes tau {float(job.tau):.2g}" if integers else ""
    show("failure", f"alpha {plain(job.alpha)}{table}")
    made_for = trained_sigma(run.model)
    if made_for and parse_sigma(made_for) != job.smooth.noise.sigma:
        show("note", f"the model was made for sigma {made_for}; at another it errs and abstains more")
    if run.note:
        show("caution", run.note)
    show("results", str(writer.path))
    for name, words in _prospects(job):
        show(name, words)
    if done == images:
        return 0.0
    rate = job.rate()
    most = "at most" if job.rules else "about"
    show("time", f"{most} {duration((images - done) * job.samples_per_image() / rate)} ({rate:,.0f} samples/s)")
    return rate


def _prospects(job: Job) -> list[tuple[str, str]]:
    n = job.run.n
    if job.run.command == "predict":
        least = least_wins(n, job.alpha - job.tau)
        return [("votes", f"{least:,} of {n:,} against one other class are the fewest that decide")]
    if job.rules:
        return _adaptive_prospects(job.rules[-1], job)
    radius_sq, least = job.certifier.largest(), job.certifier.least_votes()
    best = Certified(0, radius_sq or 0, n, n, job.alpha).radius_text(3, up=True)
    return [
        ("radius", f"at most {best} (all {n:,} votes)"),
        ("votes", f"{least:,} are the fewest that certify anything"),
        ("bound", _bound(job)),
    ]


def _bound(job: Job) -> str:
    name = job.run.bound if job.smooth.noise.on_integers else "classical (Cohen et al. 2019)"
    return f"{name}, {job.run.form}-class{UNPROVED if job.run.bound == 'paper' else ''}"


def _adaptive_prospects(rule: Rule, job: Job) -> list[tuple[str, str]]:
    looks, largest = rule.schedule.looks, rule.largest()
    best = Certified(0, largest or 0, rule.caps[-1], rule.caps[-1], job.alpha).radius_text(3, up=True)
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


def summarise(log: Results) -> None:
    """The closing table."""
    assert log.run
    command = log.run.command
    print("\nCertified accuracy" if command == "certify" else "\nAccuracy", "(of the answered: the paper's formula)")
    made = table("radius", "correct", "of all images", "of the answered")
    for radius in log.quarters():
        of_all, of_answered = log.certified_accuracy(radius), log.certified_accuracy(radius, "answered")
        shares = share(of_all.part, of_all.whole), share(of_answered.part, of_answered.whole)
        made.add_row(f"{float(radius):.2f}", f"{of_all.part:,}", *shares)
    print_table(made)
    part, whole = log.answered().part, len(log.answers)
    print(f"CP {share(part, whole)} ({part:,} of {whole:,} images answered), abstentions: {whole - part:,}")
    if log.run.adaptive and log.rows:
        _saved(log.rows, log.run.n)


def _saved(rows: Sequence[Row], most: int) -> None:
    """How many samples an adaptive run took, against the fixed number."""
    used = sorted(row.n for row in rows)
    total, full = sum(used), sum(n == most for n in used)
    print(
        f"samples to decide: {total / len(used):,.0f} an image, {used[len(used) // 2]:,} the middle one, "
        f"all {most:,} for {full:,} images\n"
        f"saved: {share(len(used) * most - total, len(used) * most)}, "
        f"{len(used) * most / total:.1f} times fewer than {most:,} each"
    )


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _how_to_resume(args: Namespace, job: Job, writer: Writer) -> str:
    words = [word for word in args.argv if word not in ("--resume", "--overwrite")]
    end = words.index("--") if "--" in words else len(words)
    command = shlex.join(["intrs", *words[:end], *([] if args.short else ["--resume"]), *words[end:]])
    return f"intrs: stopped after {len(writer.rows)} of {len(job.positions)} images; continue with\n  {command}"


def _how_to_run_in_full(job: Job, rate: float) -> str:
    run = job.run
    n, images = REQUESTS[run.command].n, len(job.data)
    time = f", about {duration(images * (n + run.n0) / rate)}" if rate else ""
    return (
        f"\nThis was a short run. The full one, {images} images with {n:,} samples each{time}:\n"
        f"  intrs {run.command} {run.model} {run.data}"
    )
