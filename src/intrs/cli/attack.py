"""`intrs attack`: perturbations that make a network, or its smoothed form, lose; and what it answers then."""

from __future__ import annotations

import contextlib
import platform
import shlex
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import __version__
from intrs.attack import records
from intrs.attack.ball import Ball
from intrs.certificate import parse_alpha
from intrs.cli import INTERRUPTED
from intrs.cli.job import default_sigma, find_model, selected_kernels
from intrs.cli.run import share
from intrs.cli.screen import meter, print_table, show, table
from intrs.data import Images, open_data
from intrs.errors import IntrsError
from intrs.noise import Noise, parse_fraction, parse_sigma, plain
from intrs.smooth import Predicted, judge_prediction
from intrs.votes import Votes, parse_seed, votes

if TYPE_CHECKING:
    from argparse import Namespace

    from numpy.typing import NDArray

    from intrs.attack.records import Progress, Row, Settings
    from intrs.cli.screen import Meter

EPS = {"l2": "0,0.12,0.25,0.5,1", "linf": "0.001,0.002,0.005,0.01,0.02,0.05"}  # of the paper
STEPS = {"l2": 20, "linf": 7}
HOW_TO_INSTALL = (
    "attacks need PyTorch for their gradients: pip install 'intrs[train]' (without a CUDA card, first `pip install "
    "torch` from the CPU index that pytorch.org names: it is a tenth of the size)"
)


@dataclass(frozen=True, eq=False)
class Job:
    """The images of one attack, the network that answers for them, and the one that gives the gradients."""

    settings: Settings
    data: Images
    victim: Any
    source: Any
    threads: int

    @cached_property
    def positions(self) -> range:
        """Which images of the data set, in order."""
        return range(0, len(self.data), self.settings.skip)[: self.settings.max]

    @cached_property
    def noise(self) -> Noise | None:
        """None: the network is not smoothed."""
        return _noise(self.settings.noise, self.settings.sigma)

    def attack(self, position: int, ball: Ball) -> NDArray[np.uint8]:
        """The attacked image."""
        pgd, settings = _room("pgd"), self.settings
        image, index, label = self._image(position)
        draws = pgd.Draws(self.noise, int(settings.seed, 0), settings.draws)
        found: NDArray[np.uint8] = pgd.attack(
            self.source.scores, image, index, label, ball, draws, steps=settings.steps, restarts=settings.restarts
        )
        return found

    def counts(self, position: int, image: NDArray[np.uint8]) -> tuple[int, ...]:
        """Votes at an image in place of the one at this position; without noise there is one."""
        if self.noise is None:
            label = self.victim.label(image)
            return tuple(int(c == label) for c in range(self.victim.classes))
        seed, index = int(self.settings.seed, 0), int(self.data.indices[position])
        return votes(
            self.victim.base, image, self.noise, seed, index, 0, self.settings.n,
            classes=self.victim.classes, threads=self.threads, kernels=self.settings.kernels,
        ).counts  # fmt: skip

    def answer(self, counts: tuple[int, ...], index: int) -> int | None:
        """Algorithm 2 on votes, None for an abstention; the class itself without noise."""
        if self.noise is None:
            return counts.index(1)
        found = Votes(counts, self.noise, int(self.settings.seed, 0), index, 0)
        outcome = judge_prediction(found, int(np.prod(self.data.image_shape)), parse_alpha(self.settings.alpha))
        return outcome.label if isinstance(outcome, Predicted) else None

    def _image(self, position: int) -> tuple[NDArray[np.uint8], int, int]:
        return self.data.images[position], int(self.data.indices[position]), int(self.data.labels[position])


def attack(args: Namespace) -> int:
    """Attack every image at every eps; the same command continues what was interrupted."""
    if find_spec("torch") is None:
        raise IntrsError(HOW_TO_INSTALL)
    if args.threads:
        import_module("torch").set_num_threads(args.threads)
    job = _open(args)
    kept = records.Progress(args.out, job.settings, job.data, job.positions, job.victim.classes)
    with contextlib.closing(kept):
        _announce(job, args, len(kept.records))
        try:
            _work(job, kept)
        except KeyboardInterrupt:
            print(_how_to_continue(args, job, kept), file=sys.stderr)
            return INTERRUPTED
        rows = _rows(job, kept)
        written = records.write_results(args.out, rows, _attacked(job, kept))
    _summarise(job, rows)
    for path in written:
        show("file", str(path))
    return 0


def _work(job: Job, kept: Progress) -> None:
    balls, total, done = job.settings.balls, len(job.positions), len(kept.records)
    with meter(len(balls) * total, len(balls) * done, "attacks") as show_progress:
        for i, position in enumerate(job.positions[done:], done):
            _one(job, kept, position, i, show_progress)


def _one(job: Job, kept: Progress, position: int, i: int, show_progress: Meter) -> None:
    """All attacks on one image."""
    begin, balls, image = time.perf_counter(), job.settings.balls, job.data.images[position]
    clean, pixels, found = job.counts(position, image), [], []
    for k, ball in enumerate(balls):
        changed = job.attack(position, ball)
        pixels.append(changed)
        found.append(clean if np.array_equal(changed, image) else job.counts(position, changed))
        show_progress(len(balls) * i + k + 1, f"image {i + 1} of {len(job.positions)}, eps {float(ball.eps):g}")
    kept.append(position, time.perf_counter() - begin, clean, found, np.array(pixels))


# --- Opening ---------------------------------------------------------------------------------------------------------


def _room(name: str) -> Any:
    """A module that imports PyTorch, by name: where PyTorch is absent, this one can still be checked."""
    return import_module(f"intrs.attack.{name}")


def _open(args: Namespace) -> Job:
    sigma = args.sigma or default_sigma(args.model)
    noise, alpha = _noise(args.noise, sigma), parse_alpha(args.alpha)
    eps = [str(Ball.of(args.norm, e).eps) for e in args.eps or EPS[args.norm].split(",")]
    if len(set(eps)) < len(eps):
        raise IntrsError("--eps names a radius twice")
    data = open_data(args.data, args.split)
    victim = _victim(args, args.model)
    source = _victim(args, args.source) if args.source else victim
    for network, name in ((victim, args.model), (source, args.source)):
        _check_fit(network, name, data)
    settings = records.Settings(
        model=args.model,
        identity=victim.identity,
        source=args.source,
        source_identity=source.identity if args.source else "",
        pixels=args.pixels,
        mean=args.mean,
        std=args.std,
        data=args.data,
        split=args.split,
        data_sha256=data.sha256,
        skip=args.skip,
        max=min(args.max or len(data), len(range(0, len(data), args.skip))),
        norm=args.norm,
        eps=",".join(eps),
        steps=args.steps or STEPS[args.norm],
        draws=args.draws if noise else 1,
        restarts=args.restarts,
        sigma=str(noise.sigma) if noise else "0",
        noise=args.noise if noise else "",
        n=args.n if noise else 1,
        alpha=str(alpha),
        seed=hex(_seed(args)),
        intrs=__version__,
        torch=str(import_module("torch").__version__),
        kernels=selected_kernels(args.kernels),
        python=platform.python_version(),
        platform=platform.platform(),
    )
    return Job(settings, data, victim, source, args.threads)


def _noise(kind: str, sigma: str) -> Noise | None:
    """`--sigma 0` is the network itself."""
    return Noise.of(kind, parse_sigma(sigma)) if parse_fraction(sigma, "sigma") else None


def _seed(args: Namespace) -> int:
    """The one given, else that of the attack to be continued, else one drawn."""
    old = records.read_settings(args.out) if args.seed is None else None
    return int(old.seed, 0) if old else parse_seed(args.seed)


def _victim(args: Namespace, spec: str) -> Any:
    mean, std = (text.split(",") if text else None for text in (args.mean, args.std))
    return _room("victim").open_victim(find_model(spec), pixels=args.pixels, mean=mean, std=std)


def _check_fit(victim: Any, name: str, data: Images) -> None:
    if data.image_shape != victim.input_shape or data.labels.max() >= victim.classes:
        shapes = [" x ".join(map(str, shape)) for shape in (victim.input_shape, data.image_shape)]
        raise IntrsError(
            f"{name} takes images of {shapes[0]} (height x width x channels) in {victim.classes} classes; "
            f"{data.name} has images of {shapes[1]} and labels up to {data.labels.max()}"
        )


# --- Results ---------------------------------------------------------------------------------------------------------


def _rows(job: Job, kept: Progress) -> list[Row]:
    return [
        _row(job, position, record, ball, k)
        for record, position in zip(kept.records, job.positions, strict=True)
        for k, ball in enumerate(job.settings.balls)
    ]


def _row(job: Job, position: int, record: NDArray[Any], ball: Ball, k: int) -> Row:
    index, label = int(job.data.indices[position]), int(job.data.labels[position])
    clean, counts = (tuple(map(int, c)) for c in (record["clean"], record["votes"][k]))
    size = ball.size(record["pixels"][k].astype(np.int64) - job.data.images[position])
    predict = job.answer(counts, index)
    return records.Row(
        idx=index,
        label=label,
        eps=plain(ball.eps),
        clean=job.answer(clean, index),
        predict=predict,
        correct=int(predict == label),
        norm=records.norm_text(ball, size),
        time=records.elapsed(float(record["seconds"])),
        n=job.settings.n,
        size=size,
        clean_counts=clean,
        counts=counts,
    )


def _attacked(job: Job, kept: Progress) -> dict[str, Images]:
    """The attacked images of each eps, with labels and indices of the originals: so the same noise falls on them."""
    places, data = list(job.positions), job.data
    return {
        plain(ball.eps): Images(
            f"{data.name}, attacked",
            np.array([record["pixels"][k] for record in kept.records]),
            data.labels[places],
            data.indices[places],
            data.classes,
        )
        for k, ball in enumerate(job.settings.balls)
    }


# --- Words -----------------------------------------------------------------------------------------------------------


def _announce(job: Job, args: Namespace, done: int) -> None:
    s = job.settings
    show("model", f"{s.model}, identity {s.identity[:16]}")
    if s.source:
        show("gradients", f"of {s.source}, identity {s.source_identity[:16]}: the attack is transferred")
    every = f"every {s.skip}th image, " if s.skip > 1 else ""
    show("data", f"{s.data}, {every}{len(job.positions)} images" + (f", {done} of them done before" if done else ""))
    show("attack", f"PGD in {s.norm}, {s.steps} steps, {s.restarts} start(s), seed {s.seed}")
    words = f"{s.noise} Gaussian, sigma {plain(job.noise.sigma)}" if job.noise else "none: the network itself"
    show("noise", words + (f"; {s.draws} draws a step, {s.n:,} votes an answer" if job.noise else ""))
    show("eps", ", ".join(f"{plain(ball.eps)} ({_levels(ball)})" for ball in s.balls))
    if small := [plain(ball.eps) for ball in s.balls if ball.eps and not ball.limit]:
        show("note", f"eps {', '.join(small)}: less than one pixel level, so that no image can be changed")
    show("folder", str(args.out))


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


def _how_to_continue(args: Namespace, job: Job, kept: Progress) -> str:
    command = shlex.join(["intrs", *args.argv])
    done, total = len(kept.records), len(job.positions)
    return f"intrs: stopped after {done} of {total} images; the same command continues:\n  {command}"
