"""An attack with everything opened and checked. Nothing here needs PyTorch before something is opened."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import __version__, zoo
from intrs.certificate import parse_alpha
from intrs.data import Images, open_data
from intrs.errors import IntrsError
from intrs.exact import parse_fraction, parse_seed, plain
from intrs.job import default_sigma, engine_name, open_model, selected_kernels
from intrs.noise import Noise, parse_sigma
from intrs.pgd import records
from intrs.pgd.ball import Ball
from intrs.smooth import Predicted, judge_prediction
from intrs.votes import Votes, votes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.job import Meter, NewMeter
    from intrs.pgd.records import Progress, Row, Settings
    from intrs.request import Attack

EPS = {"l2": "0,0.12,0.25,0.5,1", "linf": "0.001,0.002,0.005,0.01,0.02,0.05"}  # of the paper
STEPS = {"l2": 20, "linf": 7}


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
        return self.data.positions(self.settings.first, self.settings.skip, self.settings.max)

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


def work(job: Job, kept: Progress, meter: NewMeter) -> None:
    """Attack the images that the folder does not have yet."""
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
    return import_module(f"intrs.pgd.{name}")


def open_job(request: Attack, folder: Path) -> Job:
    """The attack that was asked for, to be kept in this folder."""
    sigma = default_sigma(request.model) if request.sigma is None else request.sigma
    noise, alpha = _noise(request.noise, sigma), parse_alpha(request.alpha)
    eps = [str(Ball.of(request.norm, e).eps) for e in request.eps or EPS[request.norm].split(",")]
    if len(set(eps)) < len(eps):
        raise IntrsError("--eps names a radius twice")
    data = open_data(request.data, request.split)
    victim = _victim(request, request.model)
    source = _victim(request, request.source) if request.source else victim
    for network, name in ((victim, request.model), (source, request.source)):
        _check_fit(network, name, data)
    kernels = selected_kernels(request.kernels)
    if noise and not noise.on_integers:  # the classical method votes as `intrs certify` does, by ONNX Runtime
        engine = open_model(request.model, request, noise, request.threads)
        victim, kernels = replace(victim, base=engine, identity=engine.identity), engine_name(engine, request.kernels)
    settings = records.Settings(
        model=request.model,
        identity=victim.identity,
        source=request.source,
        source_identity=source.identity if request.source else "",
        pixels=request.pixels,
        mean=request.mean,
        std=request.std,
        data=request.data,
        split=request.split,
        data_sha256=data.sha256,
        first=request.first,
        skip=request.skip,
        max=len(data.positions(request.first, request.skip, request.max)),
        norm=request.norm,
        eps=",".join(eps),
        steps=request.steps or STEPS[request.norm],
        draws=request.draws if noise else 1,
        restarts=request.restarts,
        sigma=str(noise.sigma) if noise else "0",
        noise=request.noise if noise else "",
        n=request.n if noise else 1,
        alpha=str(alpha),
        seed=hex(_seed(request, folder)),
        intrs=__version__,
        torch=str(import_module("torch").__version__),
        kernels=kernels,
        python=platform.python_version(),
        platform=platform.platform(),
    )
    return Job(settings, data, victim, source, request.threads)


def _noise(kind: str, sigma: str) -> Noise | None:
    """`--sigma 0` is the network itself."""
    return Noise.of(kind, parse_sigma(sigma)) if parse_fraction(sigma, "sigma") else None


def _seed(request: Attack, folder: Path) -> int:
    """The one given, else that of the attack to be continued, else one drawn."""
    old = records.read_settings(folder) if request.seed is None else None
    return int(old.seed, 0) if old else parse_seed(request.seed)


def _victim(request: Attack, spec: str) -> Any:
    mean, std = (text.split(",") if text else None for text in (request.mean, request.std))
    return _room("victim").open_victim(zoo.find_model(spec), pixels=request.pixels, mean=mean, std=std)


def _check_fit(victim: Any, name: str, data: Images) -> None:
    if data.image_shape != victim.input_shape or data.labels.max() >= victim.classes:
        shapes = [" x ".join(map(str, shape)) for shape in (victim.input_shape, data.image_shape)]
        raise IntrsError(
            f"{name} takes images of {shapes[0]} (height x width x channels) in {victim.classes} classes; "
            f"{data.name} has images of {shapes[1]} and labels up to {data.labels.max()}"
        )


# --- Results ---------------------------------------------------------------------------------------------------------


def rows(job: Job, kept: Progress) -> list[Row]:
    """The lines of the table: one an image and eps."""
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


def attacked(job: Job, kept: Progress) -> dict[str, Images]:
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
