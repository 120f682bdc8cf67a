"""An attack with everything opened and checked: the images, the networks, the folder, and the loop over the images."""

from __future__ import annotations

import math
import platform
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from intrs.certificate import parse_alpha
from intrs.data import Images, open_data
from intrs.errors import DataError, SettingsError
from intrs.exact import parse_seed, plain
from intrs.job import CALLED, check_fit, check_shape, engine_name, kept_names, named_alike, trained_sigma
from intrs.model import Model, open_model
from intrs.network import selected_kernels
from intrs.pgd import descent, judging, records
from intrs.pgd.attacked import Attacked
from intrs.pgd.ball import Ball
from intrs.pgd.descent import CPU
from intrs.pgd.judging import noise_of
from intrs.pgd.victim import open_victim
from intrs.progress import Progress
from intrs.version import __version__
from intrs.votes import Samples, count

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.noise import Noise
    from intrs.pgd.records import AttackRow, Records, Settings
    from intrs.pgd.victim import Victim
    from intrs.progress import OnProgress
    from intrs.request import Attack

EPS = {"l2": ("0", "0.12", "0.25", "0.5", "1"), "linf": ("0.001", "0.002", "0.005", "0.01", "0.02", "0.05")}
STEPS = {"l2": 20, "linf": 7}  # like EPS those of the paper


@dataclass(frozen=True, eq=False)
class Campaign:
    """The images of one attack, the network that answers for them, the one that gives the gradients, and the folder."""

    settings: Settings
    data: Images
    positions: range  # which images of the data set, in order
    victim: Victim
    source: Victim
    records: Records
    device: torch.device = CPU  # of the gradients

    @cached_property
    def noise(self) -> Noise | None:
        """None: the network is not smoothed."""
        return noise_of(self.settings.request)

    @property
    def seed(self) -> int:
        """The one that was given or drawn."""
        return self.settings.seed

    def work(self, progress: OnProgress | None = None) -> None:
        """Attack the images that the folder does not have yet."""
        each, total = len(self.settings.balls), len(self.positions)

        def report(done: int, note: str) -> None:
            if progress:
                progress(Progress(done, each * total, "attacks", note))

        report(each * len(self.records), "")
        for i, position in enumerate(self.positions[len(self.records) :], len(self.records)):
            self._one(position, lambda k, eps, i=i: report(each * i + k, f"image {i + 1} of {total}, eps {eps}"))

    def _one(self, position: int, report: Any) -> None:
        """All attacks on one image."""
        begin, image = time.perf_counter(), self.data.images[position]
        clean, pixels, found = self.counts(position, image), [], []
        for k, ball in enumerate(self.settings.balls, 1):
            changed = self.attack(position, ball)
            pixels.append(changed)
            found.append(clean if np.array_equal(changed, image) else self.counts(position, changed))
            report(k, f"{float(ball.eps):g}")
        self.records.append(position, time.perf_counter() - begin, clean, found, np.array(pixels))

    def attack(self, position: int, ball: Ball) -> NDArray[np.uint8]:
        """The attacked image."""
        asked = self.settings.request
        image, index, label = self.data.images[position], self._index(position), int(self.data.labels[position])
        draws = descent.Draws(self.noise, self.seed, asked.draws, self.device)
        return descent.attack_image(
            self.source.scores, image, index, label, ball, draws, steps=asked.steps or 0, restarts=asked.restarts
        )

    def counts(self, position: int, image: NDArray[np.uint8]) -> tuple[int, ...]:
        """Votes at an image in place of the one at this position; without noise there is one."""
        asked = self.settings.request
        if self.noise is None:
            label = self.victim.label(image)
            return tuple(int(c == label) for c in range(self.victim.classes))
        return count(
            self.victim.base, image, self.noise, Samples(self.seed, self._index(position), 0, asked.n),
            classes=self.victim.classes, threads=asked.threads,
            kernels=self.settings.kernels if self.noise.on_integers else "",
        ).counts  # fmt: skip

    def answer(self, counts: tuple[int, ...], index: int) -> int | None:
        """Algorithm 2 on votes, None for an abstention; the class itself without noise."""
        return judging.answer(self.settings, counts, index, math.prod(self.data.image_shape))

    def _index(self, position: int) -> int:
        return int(self.data.indices[position])

    def finish(self) -> Attacked:
        """Write table and images of an attack whose images are all done."""
        self.records.check()
        rows = self._rows()
        records.write_results(self.records.folder, rows, self._attacked())
        return Attacked(self.records.folder, self.settings, rows)

    def _rows(self) -> list[AttackRow]:
        """The lines of the table: one per image and eps."""
        return [
            self._row(position, record, ball, k)
            for record, position in zip(self.records.kept, self.positions, strict=True)
            for k, ball in enumerate(self.settings.balls)
        ]

    def _row(self, position: int, record: NDArray[Any], ball: Ball, k: int) -> AttackRow:
        index, label = self._index(position), int(self.data.labels[position])
        clean, counts = (tuple(map(int, c)) for c in (record["clean"], record["votes"][k]))
        size = ball.size(record["pixels"][k].astype(np.int64) - self.data.images[position])
        predict = self.answer(counts, index)
        return records.AttackRow(
            idx=index,
            label=label,
            eps=plain(ball.eps),
            clean=self.answer(clean, index),
            predict=predict,
            correct=int(predict == label),
            norm=records.norm_text(ball, size),
            time=records.elapsed(float(record["seconds"])),
            n=self.settings.request.n,
            size=size,
            clean_counts=clean,
            counts=counts,
        )

    def _attacked(self) -> dict[str, Images]:
        """The attacked images of each eps, with labels and indices of the originals: the same noise falls on them."""
        places, data = list(self.positions), self.data
        return {
            plain(ball.eps): Images(
                f"{data.name}, attacked",
                np.array([record["pixels"][k] for record in self.records.kept]),
                data.labels[places],
                data.indices[places],
                data.classes,
            )
            for k, ball in enumerate(self.settings.balls)
        }

    def close(self) -> None:
        """Let other processes use the folder."""
        self.records.close()


# --- Opening ---------------------------------------------------------------------------------------------------------


def open_campaign(
    request: Attack,
    folder: Path,
    model: Model | None = None,
    data: Images | None = None,
    device: torch.device = CPU,
) -> Campaign:
    """The attack that was asked for, to be kept in this folder. Nothing is written if something does not fit.

    A model and data that are open already are not opened again.
    """
    model = model or open_model(request.model)
    request = _settled(request, model, folder)
    opened = data or open_data(request.data, request.split)
    victim = open_victim(model, request, device)
    plain = replace(request, dialect="")
    source = open_victim(open_model(request.source), plain, device) if request.source else victim
    data = _fitting(victim, model, request, opened)
    check_fit(source, data, request.source or CALLED)
    request = replace(request, names=kept_names(request, model, relabelled=data is not opened))
    victim, kernels = _voting(victim, model, request)
    positions = data.positions(request.first, request.skip, request.max)
    settings = records.Settings(
        request=replace(request, max=len(positions)),
        identity=victim.identity,
        source_identity=source.identity if request.source else "",
        data_sha256=data.sha256,
        intrs=__version__,
        torch=str(torch.__version__),
        kernels=kernels,
        python=platform.python_version(),
        platform=platform.platform(),
    )
    kept = records.Records(folder, settings, data, positions, victim.classes)
    return Campaign(settings, data, positions, victim, source, kept, device)


def _settled(request: Attack, model: Model, folder: Path) -> Attack:
    """The request with every choice made that needs no data."""
    request = replace(
        request,
        sigma=trained_sigma(model) if request.sigma is None else request.sigma,
        alpha=str(parse_alpha(request.alpha)),
        eps=request.eps or EPS[request.norm],
        steps=request.steps or STEPS[request.norm],
        seed=_seed(request, folder),
        dialect=model.dialect(request.dialect),
    )
    for eps in request.eps:
        Ball.of(request.norm, eps)  # refuses what is out of range
    if len(set(request.eps)) < len(request.eps):
        raise SettingsError("eps names a radius twice")
    return request if noise_of(request) else replace(request, draws=1, n=1)


def _seed(request: Attack, folder: Path) -> int:
    """The one given, else that of the attack to be continued, else one drawn."""
    old = records.read_settings(folder) if request.seed is None else None
    return parse_seed(old.request.seed if old else request.seed)


def _voting(victim: Victim, model: Model, request: Attack) -> tuple[Victim, str]:
    """The network that votes, and what runs it: under continuous noise ONNX Runtime, as in `intrs certify`."""
    noise = noise_of(request)
    if noise is None or noise.on_integers:
        return victim, selected_kernels(request.kernels)
    engine = model.engine(request.pixels, request.mean, request.std, request.threads)
    return replace(victim, base=engine, identity=engine.identity), engine_name(engine, request.kernels)


def _fitting(victim: Victim, model: Model, request: Attack, opened: Images) -> Images:
    """The data with the model's class numbers as labels; DataError if they do not fit it."""
    if not opened.has_labels:
        raise DataError(f"{opened.name} has no labels; an attack needs them, to lead away from the right class")
    check_shape(victim, opened, request.model or CALLED)
    data = named_alike(victim, model, request, opened)
    check_fit(victim, data, request.model or CALLED)
    return data
