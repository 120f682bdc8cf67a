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
from intrs.certificate import Certified, least_wins
from intrs.cli import INTERRUPTED
from intrs.cli.arguments import NUMBER_OF_SAMPLES
from intrs.cli.job import Job, assemble, open_job
from intrs.cli.screen import duration, meter, print_table, show, table

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.results import Row, Writer


UNPROVED = " (proved along the axes only; sound is proved everywhere)"


def run(args: Namespace) -> int:
    """Answer for every image of the job, one line of results each."""
    job = open_job(args)
    job.check_decisive()
    path: Path = args.out or default_name(job, short=args.short)
    if args.resume and args.seed is None:
        job = _with_seed_of(path, job)
    with _writer(args, path, job) as writer:
        try:
            rate = _announce(job, writer)
            _work(job, writer)
        except KeyboardInterrupt:
            print(_how_to_resume(args, job, writer), file=sys.stderr)
            return INTERRUPTED
        summarise(writer.rows, job.run.command)
    if args.short:
        print(_how_to_run_in_full(job, rate))
    return 0


def _with_seed_of(path: Path, job: Job) -> Job:
    """Resuming without a seed means the seed that was drawn then."""
    if not results.sidecar_path(path).exists():
        return job
    described = replace(job.run, seed=results.read_run(path).seed)
    return assemble(described, job.network, job.data, job.smooth.threads)


def _writer(args: Namespace, path: Path, job: Job) -> Writer:
    if args.resume:
        return results.resume(path, job.run, job.indices)
    return results.create(path, job.run, overwrite=args.overwrite)


def _work(job: Job, writer: Writer) -> None:
    each, total, done = job.samples_per_image(), len(job.positions), len(writer.rows)
    with meter(each * total, each * done, "samples") as show_progress:
        for i, position in enumerate(job.positions[done:], done):
            note = f"image {i + 1} of {total}"
            writer.append(job.answer(position, lambda k, i=i, note=note: show_progress(each * i + k, note)))  # type: ignore[misc]
            show_progress(each * (i + 1), note)


def default_name(job: Job, *, short: bool) -> Path:
    """certify-MODEL-DATA-sigmaS.tsv in the current folder."""
    run = job.run
    model = run.model if run.model in zoo.model_names() else Path(run.model).stem
    parts = [run.command, model, job.data.name, f"sigma{_plain(Fraction(run.sigma))}", *(["short"] if short else [])]
    return Path(re.sub(r"[^\w.+-]", "_", "-".join(parts)) + ".tsv")


def _plain(value: Fraction) -> str:
    """A decimal if that is exact."""
    decimal = f"{float(value):g}"
    return decimal if Fraction(decimal) == value else str(value)


# --- Words -----------------------------------------------------------------------------------------------------------


def _announce(job: Job, writer: Writer) -> float:
    """Say, before sampling, what is done and what can come of it; the measured rate is returned."""
    run, images, done = job.run, len(job.positions), len(writer.rows)
    sigma, grid = _plain(job.smooth.noise.sigma), float(job.smooth.noise.grid_sigma)
    show("model", f"{run.model}, identity {run.identity[:16]}, kernels {run.kernels}")
    every = f"every {run.skip}th image, " if run.skip > 1 else ""
    show("data", f"{run.data}, {every}{images} images" + (f", {done} of them done before" if done else ""))
    show("noise", f"{run.noise} Gaussian, sigma {sigma} ({grid:g} pixel levels)")
    show("samples", f"{run.n0:,} to select and {run.n:,} to decide, an image")
    show("failure", f"alpha {_plain(job.alpha)}, of which the noise table takes tau {float(job.tau):.2g}")
    show("results", str(writer.path))
    for name, words in _prospects(job):
        show(name, words)
    if done == images:
        return 0.0
    rate = job.rate()
    show("time", f"about {duration((images - done) * job.samples_per_image() / rate)} ({rate:,.0f} samples/s)")
    return rate


def _prospects(job: Job) -> list[tuple[str, str]]:
    n = job.run.n
    if job.run.command == "predict":
        least = least_wins(n, job.alpha - job.tau)
        return [("votes", f"{least:,} of {n:,} against one other class are the fewest that decide")]
    radius_sq, least = job.certifier.largest(), job.certifier.least_votes()
    best = Certified(0, radius_sq or 0, n, n, job.alpha).radius_text(3, up=True)
    return [
        ("radius", f"at most {best} (all {n:,} votes)"),
        ("votes", f"{least:,} are the fewest that certify anything"),
        ("bound", f"{job.run.bound}, {job.run.form}-class{UNPROVED if job.run.bound == 'paper' else ''}"),
    ]


def summarise(rows: list[Row], command: str) -> None:
    """The closing table."""
    counts = results.Summary.of(rows)
    print("\nCertified accuracy" if command == "certify" else "\nAccuracy", "(of the answered: the paper's formula)")
    made = table("radius", "correct", "of all images", "of the answered")
    for k, hits in enumerate(counts.hits):
        shares = share(hits, counts.images), share(hits, counts.answered)
        made.add_row(f"{float(results.step(k)):.2f}", f"{hits:,}", *shares)
    print_table(made)
    answered = f"{counts.answered:,} of {counts.images:,} images answered"
    print(f"CP {share(counts.answered, counts.images)} ({answered}), abstentions: {counts.images - counts.answered:,}")


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _how_to_resume(args: Namespace, job: Job, writer: Writer) -> str:
    words = [word for word in args.argv if word not in ("--resume", "--overwrite")]
    command = shlex.join(["intrs", *words, *([] if args.short else ["--resume"])])
    return f"intrs: stopped after {len(writer.rows)} of {len(job.positions)} images; continue with\n  {command}"


def _how_to_run_in_full(job: Job, rate: float) -> str:
    run = job.run
    n, images = NUMBER_OF_SAMPLES[run.command], len(job.data)
    time = f", about {duration(images * (n + run.n0) / rate)}" if rate else ""
    return (
        f"\nThis was a short run. The full one, {images} images with {n:,} samples each{time}:\n"
        f"  intrs {run.command} {run.model} {run.data}"
    )
