"""A run with everything opened and checked: what certify, predict and verify share."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from intrs import results
from intrs.adaptive import Stages, stages_of
from intrs.adaptive.tables import squared
from intrs.certificate import Certifier, least_wins, parse_samples
from intrs.data import Images, open_data
from intrs.data.fit import Fit
from intrs.data.matching import matched
from intrs.data.pictures import are_pictures
from intrs.errors import ClassesCountError, DataError, FitError, IntrsError, ModelError, ResultsError, SettingsError
from intrs.exact import parse_seed
from intrs.model import Model, open_model
from intrs.network import Network, selected_kernels
from intrs.noise import KINDS, Noise
from intrs.request import Certify, Predict
from intrs.results import Judge, Memory, Row, Run, Writer
from intrs.shards import Shard, settled_shard
from intrs.smooth import Smooth
from intrs.units import Voter
from intrs.version import __version__
from intrs.votes import SELECTION, Votes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from intrs.adaptive import Rule
    from intrs.data import Spec
    from intrs.float_engine import FloatEngine
    from intrs.network import Shape
    from intrs.progress import OnProgress
    from intrs.request import Request
    from intrs.votes import Classifier

MOST_SAMPLES = 10**9  # when looking for the least n that certifies anything
CALLED = "the model"  # in messages, where it has no other name
MOST_RECOUNTED = 2000  # samples, when a run is resumed, beyond those of one line


@dataclass(frozen=True, eq=False)
class Job:
    """The images of one run, and the smoothed classifier that answers for them."""

    run: Run
    model: Model
    data: Images
    smooth: Smooth
    seed_was_given: bool = True

    @cached_property
    def positions(self) -> range:
        """Which images of the data set, in order."""
        return self.run.places

    def index(self, position: int) -> int:
        """What addresses the noise of the image at this position."""
        return int(self.data.indices[position])

    @property
    def indices(self) -> list[int]:
        """The `idx` column."""
        return [self.index(position) for position in self.positions]

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by the model or else by the data; none if neither says it."""
        names = self.run.request.names or self.model.class_names or self.data.classes
        return names if len(names) == self.run.classes else ()

    @cached_property
    def judge(self) -> Judge:
        """What turns votes into lines."""
        return Judge(self.run, self.run.dimension, self.run.classes)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """By which sampling stops, one per stage; none if every image gets n samples."""
        return self.judge.rules

    def sample(self, position: int, first: int, count: int, progress: OnProgress | None = None) -> Votes:
        """Votes for the image at this position."""
        samples = self.smooth.samples(self.index(position), first, count)
        return self.smooth.sample(self.data.images[position], samples, progress)

    @cached_property
    def voter(self) -> Voter:
        """What a worker needs to count for this run."""
        return Voter(self.smooth, self.rules, self.run.n0, self.run.request.n)

    def row(self, position: int, selection: Votes | None, estimation: Votes, seconds: float) -> Row:
        """The line of the image at this position, from its votes; a prediction selects nothing."""
        label, index = self.data.label(position), self.index(position)
        nothing = Votes((0,) * self.run.classes, self.run.noise, self.smooth.samples(index, SELECTION, 0))
        return self.judge.row(label, selection or nothing, estimation, seconds, self.data.file(position))

    def samples_per_image(self) -> int:
        """Network passes that one image takes, at most."""
        return self.run.n0 + self.run.request.n

    def rate(self) -> float:
        """Samples per second, measured for a moment on the first image.

        The first few also pay for what is done once, and do not fill the lanes: as long as more of them go much faster,
        they are not the measure. If even they take long, they are counted once more.
        """
        most, count, best = self.samples_per_image() * len(self.positions), 8, 0.0
        while True:
            begin = time.perf_counter()
            self.sample(0, 0, min(count, most))
            seconds = time.perf_counter() - begin
            rate = min(count, most) / max(seconds, 1e-9)
            slow = seconds > 2
            if count >= most or (slow and best) or (seconds > 0.2 and rate < 1.5 * best):
                return max(rate, best)
            count, best = count if slow else 4 * count, max(rate, best)

    def with_run(self, run: Run) -> Job:
        """The same images and network for another description."""
        return replace(self, run=run, smooth=_smooth(run, self.smooth.base, self.run.request.threads))


# --- Working ---------------------------------------------------------------------------------------------------------


def begin(job: Job, out: Path | None, *, resume: bool = False, overwrite: bool = False) -> tuple[Job, Writer | Memory]:
    """The job as its results file makes it, and the file, open for writing; without a name, rows are kept in memory.

    Resuming means the seed that was drawn then, unless one is given; a changed adaptive run becomes a stage more.
    """
    if out is None:
        check_decisive(job)
        return job, Memory()
    old = results.read_run(out) if resume and results.sidecar_path(out).exists() else None
    if old:
        job = job.with_run(_continued(out, old, job))
    check_decisive(job)
    if not resume:
        return job, results.create(out, job.run, overwrite=overwrite)
    check = partial(_check_votes, job, out)
    if old and old.stages != job.run.stages:
        return job, results.extend(out, job.run, job.indices, check)
    return job, results.resume(out, job.run, job.indices, check)


def _continued(path: Path, old: Run, job: Job) -> Run:
    run = job.run if job.seed_was_given else replace(job.run, request=replace(job.run.request, seed=old.seed))
    if bool(old.stages) != bool(run.stages):
        then, now = ("adaptive" if stages else "not adaptive" for stages in (old.stages, run.stages))
        raise ResultsError(
            f"cannot resume {path}: that run is {then}, and this one is {now}. "
            "The two count votes by different rules; choose another name for the results"
        )
    if not (old.stages and run.stages):
        return run
    stages = old.stages.extended(run.stages.last)
    return replace(run, stages=stages, request=replace(run.request, n=stages.last.n))


def _check_votes(job: Job, path: Path, rows: Sequence[Row]) -> None:
    """Count some votes again: lines of another seed, network or noise must not be continued.

    Votes of which nearly all are for one class would be the same under many seeds, so the lines with the most divided
    votes are taken. Floats may differ from machine to machine without anyone's fault, so they are not compared.
    """
    if not job.run.noise.on_integers:
        return
    first = SELECTION if job.run.n0 else 0
    told = [(row.counts0 if job.run.n0 else row.counts, place) for place, row in enumerate(rows)]
    counted = 0
    for counts, place in sorted(told, key=lambda each: max(each[0]) / max(sum(each[0]), 1)):
        if counted and counted + sum(counts) > MOST_RECOUNTED:
            break
        counted += sum(counts)
        if job.sample(job.positions[place], first, sum(counts)).counts != counts:
            raise ResultsError(
                f"cannot resume {path}: the votes for image {rows[place].idx} are not those of this run's model, seed "
                "and noise, whatever its description says; it may be the description of another file"
            )


# --- Checking --------------------------------------------------------------------------------------------------------


def check_decisive(job: Job) -> None:
    """Refuse a setting that can only abstain, and name the least number of samples that would do."""
    if job.run.noise.is_none:
        return
    n, alpha = job.run.request.n, float(job.run.alpha)
    if _decides(job.judge, n):
        _check_reach(job)
        return
    least = _least_n(job.judge)
    advice = f"take n = {least} or more" if least else "raise alpha"
    raise SettingsError(
        f"with n = {n} and alpha = {alpha:g} even {n} votes of {n} decide nothing, so every image would be an "
        f"abstention; {advice}"
    )


def _check_reach(job: Job) -> None:
    """Refuse an adaptive run of which no radius can be certified."""
    if not job.run.stages:
        return
    radii, largest = job.run.stages.last.radii, job.rules[-1].largest()
    if largest is None or (radii and largest < squared(min(radii))):
        raise SettingsError(
            f"up to n = {job.run.request.n} samples at alpha = {float(job.run.alpha):g} certify nothing that was asked "
            "for, even if they all vote alike; raise n or alpha, or ask for smaller radii"
        )


def _decides(judge: Judge, n: int) -> bool:
    """Whether n votes of n give an answer."""
    run = judge.run
    trial = replace(judge, run=replace(run, request=replace(run.request, n=n)))
    if run.command == "predict":
        return least_wins(n, run.alpha - trial.tau) is not None
    return trial.certifier.largest() is not None


def _least_n(judge: Judge) -> int | None:
    """More samples decide more, until the noise table's error has eaten alpha up."""
    low, high = judge.run.request.n, 2 * judge.run.request.n
    try:
        while not _decides(judge, high):
            low, high = high, 2 * high
            if high > MOST_SAMPLES:
                return None
    except IntrsError:  # nothing left of alpha
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _decides(judge, middle) else (middle, high)
    return high


# --- Opening ---------------------------------------------------------------------------------------------------------


def open_job(request: Certify | Predict, model: Model | None = None, data: Spec | None = None) -> Job:
    """The job that was asked for; a model that is open already is not opened again. data: instead of those named."""
    parse_samples(request.n)
    model = model or open_model(request.model)
    noise = _noise(request, model)
    if noise.is_none:
        request = _once(request)
    network = opened_network(model, request, noise)
    opened = open_for(network, request.data if data is None else data, request.split, request.fit)
    check_shape(network, opened)
    data = named_alike(network, model, request, opened)
    check_fit(network, data)
    settled = replace(
        request,
        sigma=str(noise.sigma),
        dialect=model.dialect(request.dialect),
        seed=parse_seed(request.seed),
        fit=str(Fit.parse(request.fit, network.input_shape) or ""),
        max=len(data.positions(request.first, request.skip, request.max)),
        shard=settled_shard(request.shard, os.environ),
        names=kept_names(request, model, relabelled=data is not opened, unlabelled=not data.has_labels),
    )
    _check_shard(request, settled.shard, len(data.positions(request.first, request.skip, request.max)))
    height, width, channels = network.input_shape
    run = Run(
        request=settled,
        identity=network.identity,
        data_sha256=data.sha256,
        intrs=__version__,
        kernels=engine_name(network, request.kernels),
        python=platform.python_version(),
        platform=platform.platform(),
        noise_table=noise.table_sha256,
        dimension=height * width * channels,
        classes=network.classes,
        unlabelled=not data.has_labels,
    )
    run = replace(run, stages=_stages(request, run))
    return Job(run, model, data, _smooth(run, network, request.threads), request.seed is not None)


def _noise(request: Certify | Predict, model: Model) -> Noise:
    """As asked for, or what the model was trained for; none if a prediction is to do without."""
    if isinstance(request, Certify) or request.sigma != "0":
        return Noise.of(request.noise, request.sigma or trained_sigma(model))
    if request.noise not in KINDS:
        raise SettingsError(f"without noise the network runs in integers; {request.noise} noise is for floats")
    return Noise.none()


def _once(request: Certify | Predict) -> Certify | Predict:
    """The request with one sample: without noise all votes would be alike. Another number, if asked for, is refused."""
    if request.n not in (1, Predict.n):
        raise SettingsError(f"without noise one sample says all, so n = {request.n} has no meaning; leave n out")
    return replace(request, n=1)


def open_for(network: Network | FloatEngine, data: Spec, split: str, fit: str) -> Images:
    """The data for this network; image files are made to fit it if that is asked for."""
    return open_data(data, split, str(Fit.parse(fit, network.input_shape) or ""))


def _check_shard(request: Certify | Predict, shard: str, images: int) -> None:
    """Refuse parts that could not be merged."""
    if not shard:
        return
    part = Shard.parse(shard)
    if request.seed is None:
        raise SettingsError("the parts of a run need one seed, or their votes are of different noise; give a seed")
    if part.by == "samples" and isinstance(request, Certify) and request.adaptive:
        raise SettingsError(
            "an adaptive run decides after every sample whether to go on, so its samples cannot be divided; divide its "
            "images, or take a fixed number of samples"
        )
    divided, what = (request.n, "samples per image") if part.by == "samples" else (images, "images")
    if part.of > divided:
        raise SettingsError(f"shard: {part.of} parts of {divided} {what} would leave some of them empty; take fewer")


def trained_sigma(model: Model) -> str:
    """The sigma that a model was trained for; SettingsError if it does not say."""
    if not model.trained_sigma:
        who = model.name or "a network that is not a file"
        raise SettingsError(f"{who} does not say for which noise it was trained; give sigma, such as 0.25")
    return model.trained_sigma


def opened_network(model: Model, request: Request, noise: Noise) -> Network | FloatEngine:
    """The model as this noise needs it: lowered to integers, or as it is in ONNX Runtime."""
    if not noise.on_integers:
        return model.engine(request.pixels, request.mean, request.std, request.threads)
    if not model.is_quantized:
        raise ModelError(
            f"{model.name}: it is a float model, which {noise.kind} noise and integers cannot run; quantize it first "
            "(`intrs quantize`, docs/quantize.md), or take continuous noise: the classical method, in floats "
            "(docs/baselines.md)"
        )
    return model.network(request.pixels, request.mean, request.std, request.dialect)


def engine_name(network: Network | FloatEngine, kernels: str) -> str:
    """What will run the network: a kernel set, or ONNX Runtime."""
    if isinstance(network, Network):
        return selected_kernels(kernels)
    if kernels:
        raise SettingsError(f"kernels = {kernels} is for integers; continuous noise runs the network in {network.name}")
    return network.name


class Takes(Protocol):
    """A network, as far as data have to fit it."""

    @property
    def input_shape(self) -> Shape:
        """Height, width and channels."""

    @property
    def classes(self) -> int:
        """How many it tells apart."""


def named_alike(network: Takes, model: Model, request: Request, data: Images) -> Images:
    """The data with labels that are the model's numbers, found by name unless they are said to be these numbers."""
    names = class_names(network, model, request)  # of which there must be one per class, even if only to be shown
    return data if request.by_number else matched(data, names)


def class_names(network: Takes, model: Model, request: Request) -> tuple[str, ...]:
    """The names of the model's classes, if they are known: from the caller, or from the card of one that ships."""
    return known_names(network, request.names, model.class_names)


def known_names(network: Takes, given: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """The names that were given, one per class of the model, or the model's own."""
    if given and len(given) != network.classes:
        raise SettingsError(f"names: {len(given)} names for {network.classes} classes")
    return tuple(given or own)


def kept_names(request: Request, model: Model, *, relabelled: bool, unlabelled: bool = False) -> tuple[str, ...]:
    """What the results file keeps: names by which labels were found, or without which its classes would be numbers."""
    return (request.names or model.class_names) if request.names or relabelled or unlabelled else ()


def check_shape(network: Takes, data: Images, called: str = CALLED) -> None:
    """Refuse images that are not of the model's shape."""
    if data.image_shape != network.input_shape:
        expected, found = (" x ".join(map(str, shape)) for shape in (network.input_shape, data.image_shape))
        hint = "; are the channels first? They go last" if data.image_shape[0] == network.input_shape[2] else ""
        raise (FitError if are_pictures(data) else DataError)(
            f"{data.name} has images of {found} (height x width x channels), but {called} takes {expected}{hint}"
        )


def check_fit(network: Takes, data: Images, called: str = CALLED) -> None:
    """Refuse images that are not of the model's shape, and labels that mean something else to it."""
    check_shape(network, data, called)
    if not data.has_labels:
        return
    if data.labels.max() >= network.classes:
        raise DataError(f"{data.name} has labels up to {data.labels.max()}, but {called} has {network.classes} classes")
    if data.classes and len(data.classes) != network.classes:
        raise ClassesCountError(
            f"{data.name} has {len(data.classes)} classes, but {called} has {network.classes}: "
            "a label would not mean the same to both. Give the names of the model's classes in the order of its "
            "outputs, and labels are found by name; or make one folder for each class, which may be empty"
        )


def _smooth(run: Run, network: Network | Classifier, threads: int) -> Smooth:
    request = run.request
    chosen = {"bound": request.bound, "form": request.form} if isinstance(request, Certify) else {}
    return Smooth(
        network, run.noise, seed=run.seed, classes=run.classes, threads=threads,
        kernels=run.request.kernels if run.noise.on_integers else "", **chosen,  # type: ignore[arg-type]
    )  # fmt: skip


def _stages(request: Certify | Predict, run: Run) -> Stages | None:
    """What is asked of an adaptive run; None if every image is to get n samples."""
    if not isinstance(request, Certify):
        return None
    certifier = Certifier(run.noise, run.dimension, request.n, run.alpha)
    if not request.adaptive:
        return None
    return stages_of(certifier, request.radii, request.precision, request.give_up)
