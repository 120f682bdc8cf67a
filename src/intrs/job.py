"""A run with everything opened and checked: what certifying, predicting and verifying have in common."""

from __future__ import annotations

import math
import platform
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast

from intrs import __version__, _core, zoo
from intrs.adaptive import GIVE_UP, Stages
from intrs.adaptive.tables import squared
from intrs.certificate import Abstained, Certified, Certifier, least_wins, parse_alpha
from intrs.data import Images, open_data
from intrs.errors import IntrsError
from intrs.exact import parse_fraction, parse_seed
from intrs.network import Network
from intrs.noise import Noise
from intrs.request import Certify
from intrs.results import CLASSICAL, Row, Run, set_aside_path
from intrs.smooth import Predicted, Smooth, judge, judge_adaptive, judge_prediction
from intrs.votes import SELECTION, Progress, Votes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from intrs.adaptive import Rule
    from intrs.float_engine import FloatEngine
    from intrs.request import Predict, Request
    from intrs.results import Writer

    Model = Network | FloatEngine
    Meter = Callable[[int, str], None]  # told how far the work is, in the units of its total, and in words
    NewMeter = Callable[[int, int, str], AbstractContextManager[Meter]]  # of a total, how much is done, the unit

MOST_SAMPLES = 10**9  # when looking for the least n that certifies anything
MOST_QUARTERS = 40  # radii that an adaptive run decides if none are given


@dataclass(frozen=True, eq=False)
class Job:
    """The images of one run, and the smoothed classifier that answers for them."""

    run: Run
    network: Model
    data: Images
    smooth: Smooth

    @cached_property
    def positions(self) -> range:
        """Which images of the data set, in order."""
        return self.data.positions(self.run.first, self.run.skip, self.run.max)

    @property
    def indices(self) -> list[int]:
        """The `idx` column."""
        return [int(self.data.indices[position]) for position in self.positions]

    @property
    def dimension(self) -> int:
        """Values of an image."""
        height, width, channels = self.network.input_shape
        return height * width * channels

    @property
    def alpha(self) -> Fraction:
        """Probability of a wrong answer."""
        return parse_alpha(self.run.alpha)

    @cached_property
    def certifier(self) -> Certifier:
        """What turns votes into radii."""
        return self.smooth.certifier(self.dimension, self.run.n, self.run.alpha)

    @property
    def tau(self) -> Fraction:
        """What the noise table's error takes of alpha."""
        return self.smooth.noise.tau(self.run.n, self.dimension)

    def sample(self, position: int, first: int, count: int, progress: Progress | None = None) -> Votes:
        """Votes for the image at this position."""
        image, index = self.data.images[position], int(self.data.indices[position])
        return self.smooth.sample(image, index, first, count, progress)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """By which sampling stops, one a stage of the plan; none if every image gets n samples."""
        if not self.run.adaptive:
            return ()
        return Stages.parse(self.run.adaptive).rules(replace(self.certifier, classes=self.network.classes))

    def answer(self, position: int, progress: Progress | None = None, before: Row | None = None) -> Row:
        """Sample and judge one image; before: its row in the run that this one extends."""
        begin = time.perf_counter()
        if before:
            selection, known = self.kept_votes(position, before)
        else:
            selection, known = self.sample(position, SELECTION, self.run.n0), None
        if self.rules:
            image, index = self.data.images[position], int(self.data.indices[position])
            estimation = self.smooth.sample_until(
                image, index, selection.top, self.rules, begin=known, progress=progress
            )
        else:
            estimation = self.sample(position, 0, self.run.n, progress)
        return self.judge(position, selection, estimation, begin)

    def kept_votes(self, position: int, row: Row) -> tuple[Votes, Votes]:
        """The votes of a row, as those of this image under this run's noise and seed."""
        index, noise, seed = int(self.data.indices[position]), self.smooth.noise, self.smooth.seed
        return Votes(row.counts0, noise, seed, index, SELECTION), Votes(row.counts, noise, seed, index, 0)

    def judge(self, position: int, selection: Votes, estimation: Votes, begin: float | None = None) -> Row:
        """The row that follows from votes."""
        outcome = self._outcome(selection, estimation)
        seconds = 0.0 if begin is None else time.perf_counter() - begin
        rule = self.rules[-1] if self.rules else None
        return Row.of(int(self.data.labels[position]), outcome, selection, estimation, seconds, rule)

    def _outcome(self, selection: Votes, estimation: Votes) -> Certified | Predicted | Abstained:
        if self.run.command == "predict":
            return judge_prediction(estimation, self.dimension, self.alpha)
        if self.rules:
            return judge_adaptive(selection, estimation, self.rules[-1])
        return judge(selection, estimation, self.certifier)

    def misfit(self, row: Row) -> str | None:
        """Why the votes of a row cannot be votes of this run; None if they can."""
        looks = self.rules[-1].schedule.looks if self.rules else (self.run.n,)
        expected: dict[str, tuple[int, ...]] = {"counts0": (self.run.n0,), "counts": looks}
        for column, sums in expected.items():
            counts = getattr(row, column)
            if len(counts) != self.network.classes or sum(counts) not in sums:
                wanted = "the samples at a look" if len(sums) > 1 else sums[0]
                return f"{column} should be {self.network.classes} numbers with sum {wanted}"
        return None

    def samples_per_image(self) -> int:
        """Network passes that one image takes, at most."""
        return self.run.n0 + self.run.n

    def rate(self) -> float:
        """Samples a second, measured for a moment on the first image.

        The first few also pay for what is done once, and do not fill the lanes: as long as more of them go much faster,
        they are not the measure.
        """
        most, count, best = self.samples_per_image() * len(self.positions), 8, 0.0
        while True:
            begin = time.perf_counter()
            self.sample(0, 0, min(count, most))
            seconds = time.perf_counter() - begin
            rate = min(count, most) / max(seconds, 1e-9)
            if count >= most or seconds > 2 or (seconds > 0.2 and rate < 1.5 * best):
                return max(rate, best)
            count, best = 4 * count, max(rate, best)

    def check_decisive(self) -> None:
        """Refuse a setting that can only abstain, and name the least number of samples that would do."""
        if _decides(self, self.run.n):
            self._check_reach()
            return
        least = _least_n(self)
        advice = f"take --n {least} or more" if least else "raise alpha"
        raise IntrsError(
            f"with n = {self.run.n} and alpha = {float(self.alpha):g} even {self.run.n} votes of {self.run.n} decide "
            f"nothing, so every image would be an abstention; {advice}"
        )

    def _check_reach(self) -> None:
        """Refuse an adaptive run of which no radius can be certified."""
        if not self.rules:
            return
        rule, radii = self.rules[-1], Stages.parse(self.run.adaptive).last.radii
        largest = rule.largest()
        if largest is None or (radii and largest < squared(min(radii))):
            raise IntrsError(
                f"up to n = {self.run.n} samples at alpha = {float(self.alpha):g} certify nothing that was asked for, "
                "even if they all vote alike; raise --n or alpha, or ask for smaller --radii"
            )


def _decides(job: Job, n: int) -> bool:
    """Whether n votes of n give an answer."""
    trial = replace(job, run=replace(job.run, n=n))
    if job.run.command == "predict":
        return least_wins(n, trial.alpha - trial.tau) is not None
    return trial.certifier.largest() is not None


def _least_n(job: Job) -> int | None:
    """More samples decide more, until the noise table's error has eaten alpha up."""
    low, high = job.run.n, 2 * job.run.n
    try:
        while not _decides(job, high):
            low, high = high, 2 * high
            if high > MOST_SAMPLES:
                return None
    except IntrsError:  # nothing left of alpha
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _decides(job, middle) else (middle, high)
    return high


# --- Working ---------------------------------------------------------------------------------------------------------


def work(job: Job, writer: Writer, before: dict[int, Row], meter: NewMeter) -> None:
    """Answer for the images that the file does not have yet; before: their rows in the run that this one extends."""
    each, total, done = (1 if job.rules else job.samples_per_image()), len(job.positions), len(writer.rows)
    with meter(each * total, each * done, "images" if job.rules else "samples") as show_progress:
        for i, position in enumerate(job.positions[done:], done):
            note = f"image {i + 1} of {total}"

            def show_samples(k: int, i: int = i, note: str = note) -> None:
                show_progress(*((i, f"{note}, sample {k:,}") if job.rules else (each * i + k, note)))

            known = before.get(int(job.data.indices[position]))
            if known and (words := job.misfit(known)) is not None:
                raise IntrsError(f"{set_aside_path(writer.path, job.run)}, image {known.idx}: {words}")
            writer.append(job.answer(position, show_samples, known))
            show_progress(each * (i + 1), note)


# --- Opening ---------------------------------------------------------------------------------------------------------


def open_job(request: Certify | Predict) -> Job:
    """The job that was asked for."""
    alpha = parse_alpha(request.alpha)
    noise = Noise.of(request.noise, default_sigma(request.model) if request.sigma is None else request.sigma)
    network = open_model(request.model, request, noise, request.threads)
    images = open_data(request.data, request.split)
    _check_order(request.model, images)
    certify = request if isinstance(request, Certify) else None
    plan = certify and _plan(certify, Certifier(noise, math.prod(network.input_shape), request.n, alpha))
    run = Run(
        command="certify" if certify else "predict",
        model=request.model,
        identity=network.identity,
        pixels=request.pixels,
        mean=request.mean,
        std=request.std,
        data=request.data,
        split=request.split,
        data_sha256=images.sha256,
        first=request.first,
        skip=request.skip,
        max=len(images.positions(request.first, request.skip, request.max)),
        sigma=str(noise.sigma),
        noise=noise.kind,
        bound=certify.bound if certify else "",
        form=certify.form if certify else "",
        n0=certify.n0 if certify else 0,
        n=request.n,
        alpha=str(alpha),
        seed=hex(parse_seed(request.seed)),
        intrs=__version__,
        kernels=engine_name(network, request.kernels),
        python=platform.python_version(),
        platform=platform.platform(),
        adaptive=str(plan or ""),
        note="" if noise.on_integers else CLASSICAL,
    )
    return assemble(run, network, images, request.threads)


def _plan(request: Certify, certifier: Certifier) -> Stages | None:
    """What is asked of an adaptive run; None if every image is to get n samples."""
    if request.adaptive:
        return adaptive_plan(certifier, request.radii, request.precision, request.give_up)
    if request.radii or request.precision is not None or request.give_up is not None:
        raise IntrsError("--radii, --precision and --give-up are for adaptive runs; add --adaptive")
    return None


def adaptive_plan(
    certifier: Certifier, radii: Sequence[str], precision: str | None = None, give_up: str | None = None
) -> Stages:
    """The plan of an adaptive run with at most the certifier's samples; without radii or precision, all quarters."""
    if precision is not None and give_up is not None:
        raise IntrsError("--give-up is for --radii; a run with --precision has no use for it")
    wanted = radii or ([] if precision is not None else _every_quarter(certifier))
    return Stages.of(certifier.n, wanted, precision, GIVE_UP if give_up is None else give_up)


def _every_quarter(certifier: Certifier) -> list[Fraction]:
    """The radii of the closing table: 0, which is the class itself, and the quarters that the setting can certify."""
    largest, radii = certifier.largest() or 0, [Fraction(0)]
    while squared(radii[-1] + Fraction(1, 4)) <= largest and len(radii) < MOST_QUARTERS:
        radii.append(radii[-1] + Fraction(1, 4))
    return radii


def assemble(run: Run, network: Model, data: Images, threads: int) -> Job:
    """A job from its parts, after checking that they fit each other."""
    _check_fit(network, data)
    smooth = Smooth(
        network,
        Noise.of(run.noise, run.sigma),
        seed=int(run.seed, 0),
        bound=cast("Literal['sound', 'paper']", run.bound or "sound"),
        form=cast("Literal['one', 'two']", run.form or "one"),
        classes=network.classes,
        threads=threads,
        kernels=run.kernels,
    )
    return Job(run, network, data, smooth)


def _check_fit(network: Model, data: Images) -> None:
    if data.image_shape != network.input_shape:
        expected, found = (" x ".join(map(str, shape)) for shape in (network.input_shape, data.image_shape))
        hint = "; are the channels first? They go last" if data.image_shape[0] == network.input_shape[2] else ""
        raise IntrsError(
            f"{data.name} has images of {found} (height x width x channels), but the model takes {expected}{hint}"
        )
    if data.labels.max() >= network.classes:
        raise IntrsError(
            f"{data.name} has labels up to {data.labels.max()}, but the model has {network.classes} classes"
        )
    if data.classes and len(data.classes) != network.classes:
        raise IntrsError(
            f"{data.name} has {len(data.classes)} classes, but the model has {network.classes}: "
            "a label would not mean the same to both. A folder needs one folder for each class, which may be empty"
        )


def _check_order(spec: str, data: Images) -> None:
    """A model that ships says how its classes are called; other files do not."""
    name = spec.removesuffix(zoo.FP32)
    names = zoo.card(name)["classes"] if name in zoo.model_names() else ()
    if data.classes and list(data.classes) != list(names) and set(data.classes) == set(names):
        raise IntrsError(
            f"{data.name} has the classes of {spec} in another order, so that its labels mean others; "
            f"the model's order is {', '.join(names)}"
        )


def open_model(spec: str, options: Request | Run, noise: Noise, threads: int) -> Model:
    """The model as this noise needs it: lowered to integers, or as it is in ONNX Runtime."""
    from intrs.float_engine import is_quantized, open_engine

    path = zoo.find_model(spec)
    if not noise.on_integers:
        mean, std = _numbers(options.mean), _numbers(options.std)
        return open_engine(path, pixels=options.pixels, mean=mean, std=std, threads=threads)
    if not is_quantized(path):
        raise IntrsError(
            f"{path}: it is a float model, which {noise.kind} noise and integers cannot run; --noise continuous "
            "certifies it by the classical method, in floats (docs/baselines.md), or quantize it (docs/onnx.md)"
        )
    return load_model(spec, options.pixels, options.mean, options.std)


def load_model(spec: str, pixels: str, mean: str, std: str) -> Network:
    """The model, with the pixel convention that was asked for."""
    from intrs.model import load

    convention = cast("Literal['auto', 'unit', 'byte']", pixels)
    return load(zoo.find_model(spec), pixels=convention, mean=_numbers(mean), std=_numbers(std))


def _numbers(text: str) -> list[Fraction] | None:
    return [parse_fraction(part, "--mean and --std") for part in text.split(",")] if text else None


def default_sigma(spec: str) -> str:
    """The sigma under which a model was trained."""
    if sigma := trained_sigma(spec):
        return sigma
    raise IntrsError(f"{spec} does not say for which noise it was made; give --sigma, such as --sigma 0.25")


def trained_sigma(spec: str) -> str:
    """The same; empty if the model does not say it."""
    from intrs.exchange.onnx.file import read_graph
    from intrs.exchange.refusal import Refusal

    path = zoo.find_model(spec)
    try:
        sigma = read_graph(path).metadata.get("intrs.sigma", "")
    except Refusal as refusal:
        raise IntrsError(f"{path}: {refusal}") from None
    return sigma or (zoo.card(spec)["recipe"]["sigma"] if spec in zoo.model_names() else "")


def engine_name(network: Model, kernels: str) -> str:
    """What will run the network: a kernel set, or ONNX Runtime."""
    if isinstance(network, Network):
        return selected_kernels(kernels)
    if kernels:
        raise IntrsError(f"--kernels {kernels} is for integers; continuous noise runs the network in {network.name}")
    return network.name


def selected_kernels(name: str) -> str:
    """The kernel set that will run."""
    try:
        return _core.selected_kernels(name)
    except ValueError as error:
        raise IntrsError(str(error)) from None
