"""What determines a trained network, checked before any work begins.

Nothing here needs PyTorch, and importing it is quick: the command line takes its defaults from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from intrs.errors import SettingsError
from intrs.exact import derive_key, parse_fraction, plain, shown

if TYPE_CHECKING:
    from fractions import Fraction

    from intrs.exact import Number
    from intrs.exchange.convention import Numbers
    from intrs.noise import Noise

NOISES = ("integer", "continuous", "none")
OBJECTIVES = ("augment", "consistency")
SCHEDULES = ("one-cycle", "step")
PRECISIONS = ("fp32", "bf16")
MOST_EPOCHS = 10_000
EPOCHS_AFTER_START = 0  # in float, if the run starts from float weights
CONSISTENCY = {"lam": 10.0, "eta": 0.5, "copies": 2}  # of Jeong and Shin 2020

TWO_ORIGINS = "start and weights both say what the first weights are: give one of them"

GRAPH = "2:"  # what the hash of a user's architecture begins with: the version of what goes into it
OWN = ("model", "mean", "std")  # fields of a user's own architecture

Phase = Literal["float", "qat"]


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the weights, but for the machine, its number of threads and PyTorch's version."""

    architecture: str
    data: str  # name of the data set
    data_sha256: str  # of its training images
    sigma: str  # as a fraction of the pixel range; "" without noise
    noise: str = "integer"
    objective: str = "augment"
    lam: float = 0.0  # weights of the consistency objective
    eta: float = 0.0
    copies: int = 1  # noisy copies of an image in a batch
    epochs: int = 30
    qat_epochs: int = 8
    batch: int = 256
    lr: float = 0.2
    qat_lr: float = 0.02
    schedule: str = "one-cycle"
    momentum: float = 0.9
    weight_decay: float = 2e-4
    flip: bool = True
    pad: int = 4
    precision: str = "fp32"  # of convolutions; the last epoch with quantization is in fp32
    seed: int = 0
    start: dict[str, Any] | None = None  # the run whose float weights are the first ones: its recipe, their sha256
    weights: str = ""  # file of published weights that are the first ones
    weights_sha256: str = ""
    train_from: str = ""  # the first layer that is trained; "" for all
    hold_out: int = 0  # training images that are not trained on but watched
    # A user's own architecture: where it is from, its arguments, hashes of its graph and of the weights that it has.
    model: dict[str, str] | None = None
    mean: str = ""  # normalisation in front of a user's architecture, as decimals with commas; "" for none
    std: str = ""

    def __post_init__(self) -> None:
        for name, known in (
            ("noise", NOISES), ("objective", OBJECTIVES), ("schedule", SCHEDULES), ("precision", PRECISIONS),
        ):  # fmt: skip
            if (value := getattr(self, name)) not in known:
                raise SettingsError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        if not isinstance(self.flip, bool):
            raise SettingsError(f"flip must be True or False, got {shown(self.flip)}")
        self._check_noise()
        self._check_numbers()
        self._check_rates()
        self._check_held_out()

    def _check_noise(self) -> None:
        if self.noise != "none":
            if not self.sigma:
                raise SettingsError(
                    "sigma says how much noise to train under: give it, for example 0.25, or choose the noise 'none'"
                )
            plain_sigma(self.sigma)
            if self.objective == "consistency" and self.copies < 2:
                raise SettingsError("consistency compares noisy copies of an image: copies must be 2 or more")
            return
        if self.sigma:
            raise SettingsError("the noise 'none' takes no sigma: leave it out")
        if self.objective == "consistency" or self.copies > 1:
            raise SettingsError(
                "without noise all copies of an image are alike: take the objective 'augment' with one copy"
            )

    def _check_numbers(self) -> None:
        if not (0 <= self.epochs <= MOST_EPOCHS and 0 <= self.qat_epochs <= MOST_EPOCHS):
            raise SettingsError(f"epochs must lie in 0 .. {MOST_EPOCHS}, not {self.epochs} and {self.qat_epochs}")
        if self.epochs + self.qat_epochs == 0:
            raise SettingsError("no epochs at all: there is nothing to train")
        if self.epochs == 0 and self.start is None and not self.weights:
            raise SettingsError(
                "0 epochs in float need float weights to begin with: let start be the folder of a run that has them"
            )
        if self.model is None and (self.mean or self.std):
            raise SettingsError(
                f"{self.architecture} brings its normalisation along: mean and std are for an architecture of your own"
            )
        if self.start is not None and self.weights:
            raise SettingsError(TWO_ORIGINS)
        for name, value, low, high in (
            ("lr", self.lr, 0, 100), ("qat_lr", self.qat_lr, 0, 100), ("momentum", self.momentum, 0, 0.9999),
            ("weight_decay", self.weight_decay, 0, 1), ("lam", self.lam, 0, 1e6), ("eta", self.eta, 0, 1e6),
        ):  # fmt: skip
            if not _is_number(value) or not low <= value <= high:  # so it is no NaN either
                raise SettingsError(f"{name} must be a number between {low} and {high}, got {shown(value)}")
        if self.batch < 2:
            raise SettingsError(f"batch must be 2 or more, not {self.batch}: batch normalisation needs company")

    def _check_rates(self) -> None:
        """A rate of 0 would train nothing; so would one that is too small for a float, such as 1e-1000."""
        for name, rate, epochs in (("lr", self.lr, self.epochs), ("qat_lr", self.qat_lr, self.qat_epochs)):
            if epochs and rate == 0:
                raise SettingsError(f"{name} must be above 0, or its {epochs} epochs train nothing")

    def _check_held_out(self) -> None:
        """What is watched must not have been trained on, by the runs before this one either."""
        before = self.start
        while self.hold_out and before is not None:
            recipe = before["recipe"]
            if recipe["data_sha256"] == self.data_sha256 and recipe.get("hold_out", 0) != self.hold_out:
                raise SettingsError(
                    f"hold_out {self.hold_out}: the run to start from trained on some of these images (it held out "
                    f"{recipe.get('hold_out', 0)}); give the same number to both, or leave it out"
                )
            before = recipe.get("start")

    @property
    def total(self) -> int:
        """Epochs of both phases."""
        return self.epochs + self.qat_epochs

    @property
    def name(self) -> str:
        """Name of the files made."""
        return (
            f"{self.architecture}-sigma{self.sigma.replace('/', 'over')}"
            if self.sigma
            else f"{self.architecture}-clean"
        )

    @property
    def law(self) -> Noise | None:
        """The integer noise of this sigma."""
        from intrs.noise import Noise

        return Noise.of("discrete", self.sigma) if self.sigma else None

    @property
    def exact_sigma(self) -> Fraction:
        """Sigma as a fraction of the pixel range."""
        from intrs.noise import parse_sigma

        return parse_sigma(self.sigma)

    def phase(self, epoch: int) -> Phase:
        """The phase of an epoch, counted from 0."""
        return "float" if epoch < self.epochs else "qat"

    def learning_rate(self, epoch: float) -> float:
        """The rate at a moment, in epochs since the beginning. Each phase has a schedule of its own.

        one-cycle: linear from 0 up to the peak in the first quarter, then linear down to 0.  step: a tenth after each
        third, the paper's.  Quantization-aware training only descends, linearly.
        """
        if epoch >= self.epochs:
            return self.qat_lr * (1 - (epoch - self.epochs) / self.qat_epochs)
        t = epoch / self.epochs
        if self.schedule == "step":
            return float(self.lr * 0.1 ** math.floor(3 * t))
        return self.lr * (t / 0.25 if t < 0.25 else (1 - t) / 0.75)

    def key(self, purpose: str) -> int:
        """256 bits that derive from the seed, different for every purpose.

        The noise of certificates is addressed by their own seed; a network must not have been trained on it, hence
        the hash: training with seed 1 and certifying with seed 1 share nothing.
        """
        return derive_key(f"{self.seed} {purpose}")

    def differences(self, other: dict[str, Any]) -> list[str]:
        """How another recipe, as stored, differs from this one, field by field."""
        mine, before = asdict(self), {f.name: f.default for f in fields(self) if f.default is not MISSING}
        other = before | other  # a field that did not exist yet was as it is by default
        return [
            f"{name}: {_short(other.get(name))} there, {_short(mine.get(name))} here"
            for name in sorted({*mine, *other} - {"data", "weights"})  # a file is its hash, whatever it is called
            if mine.get(name) != other.get(name)
        ]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON holds them; those of users' architectures only where there is one."""
        found = asdict(self)
        return found if self.model else {name: value for name, value in found.items() if name not in OWN}


def plain_sigma(sigma: Number) -> str:
    """Sigma in one way of writing, so that .25, 1/4 and 0.250 are the same recipe: a decimal if that is exact."""
    from intrs.noise import parse_sigma

    return plain(parse_sigma(sigma))


def plain_numbers(values: Numbers, what: str) -> str:
    """One number or several, as decimals or fractions with commas between them, in one way of writing."""
    if isinstance(values, str):
        values = values.split(",") if values else []
    many = list(values) if isinstance(values, Iterable) else [values]
    return ",".join(plain(parse_fraction(value, what)) for value in many)


def objective_settings(objective: str, lam: float | None, eta: float | None, copies: int | None) -> dict[str, Any]:
    """What an objective takes, by the names of the recipe: what is given, else its defaults."""
    given = {k: v for k, v in (("lam", lam), ("eta", eta), ("copies", copies)) if v is not None}
    if objective == "consistency":
        return CONSISTENCY | given
    if {"lam", "eta"} & set(given):
        raise SettingsError("lam and eta are weights of the consistency objective: choose it, or leave them out")
    return given


def stored_fault(recipe: Any) -> str | None:
    """Why a recipe out of a file, or one that it starts from, is none; None if all that later runs read is there."""
    while isinstance(recipe, dict):
        if not isinstance(recipe.get("data_sha256"), str):
            return "a recipe does not say which data it is for"
        if type(recipe.get("hold_out", 0)) is not int or not isinstance(recipe.get("weights", ""), str):
            return "a recipe's hold_out or weights are malformed"
        if (start := recipe.get("start")) is None:
            return None
        recipe = start.get("recipe") if isinstance(start, dict) else None
    return "a recipe is missing"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
