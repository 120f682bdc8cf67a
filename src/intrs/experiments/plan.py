"""The plan: a TOML file checked key by key, and from it the votes that each experiment needs.

Votes are counted once for (method, sigma of training, sigma of certification) and shared: another alpha or radius, and
the certified percentage, need no sampling of their own. If the plan says so, runs are adaptive: tables want a few
radii, which take far fewer samples to decide. Votes that are judged again or timed are counted to a fixed number.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from intrs import zoo
from intrs.certificate import parse_alpha
from intrs.errors import IntrsError, SettingsError
from intrs.exact import plain
from intrs.files import read_bounded
from intrs.noise import parse_sigma
from intrs.reports.runs import METHODS, PAPERS, paper

TITLES = {
    "a": "Certified accuracy against radius",
    "b": "Certified percentage",
    "c": "Certification with another sigma than in training",
    "d": "Prediction with n samples",
    "e": "Other values of alpha",
    "f": "PGD against prediction",
    "g": "PGD against undefended networks (the paper's Figure 1)",
    "h": "Time per image and size of the model",
    "i": "Noisy images",
    "j": "Time per image in a browser (the paper's mobile device)",
}
LABELLED = "acdefg"  # experiments that count right answers, for which the true classes must be known
FULL_PRECISION = "FloatRS-fp"  # the method whose networks are not quantized
NOISE = dict(zip(METHODS, ("discrete", "continuous", "continuous"), strict=True))
SIGMAS = tuple(map(Fraction, ("0.12", "0.25", "0.5", "1")))
FIXED_SIGMA = Fraction("0.25")  # of the experiments that the paper does with one sigma
TRAINED = tuple(map(Fraction, ("0.12", "0.25")))  # networks of experiment c
COMPARED = ("IntRS-quant", "FloatRS-fp")  # methods that the paper shows in c to f and h
PREDICTIONS = (100, 1000, 10_000, 100_000)
MOST_BYTES, MOST_IMAGES, MOST_SAMPLES, MOST_TRAININGS = 2**20, 10**6, 10**7, 100
QUICK = {"images": 50, "n": 1000, "adaptive": 1000, "more": 0, "attacked": 0, "timed": 50}
DEFAULT_RADII = ("0.25", "0.5", "0.75", "1.0", "1.25", "1.5")


@cache
def other_numbers() -> dict[str, Any]:
    """The paper's numbers beside those of `intrs.reports.runs.paper`, as transcribed."""
    found: dict[str, Any] = json.loads((files("intrs.experiments") / "paper.json").read_text("utf-8"))
    return found


@dataclass(frozen=True)
class Sampling:
    """Votes to be counted: one results file."""

    method: str
    trained: Fraction
    sigma: Fraction
    n: int
    command: str = "certify"
    adaptive: bool = False  # n is the most then
    more: bool = False  # of the plan's `more` samples, beside those that all methods have
    timed: bool = False  # of the few images of experiment h

    @property
    def name(self) -> str:
        """Of the file, without its ending."""
        kind = "-adaptive" if self.adaptive else "-timed" if self.timed else ""
        n = f"-n{self.n}" if self.command == "predict" or self.more else ""
        return f"{self.command}-{self.method}-trained{plain(self.trained)}-sigma{plain(self.sigma)}{kind}{n}"


@dataclass(frozen=True)
class Plan:
    """What the TOML file says, with defaults filled in; models that do not exist are left out of `models`."""

    data: str
    split: str = "test"
    paper: str = "none"
    images: int = 500
    skip: int = 1  # every skip-th image of the data is taken
    n0: int = 100
    n: int = 10_000
    alpha: str = "0.001"
    seed: int = 1
    attacked: int = 100
    adaptive: int = 0  # the most samples of adaptive runs; 0: there are none
    more: int = 0  # the most samples of adaptive runs of IntRS-quant beside these; 0: there are none
    float_images: int = 0  # images of the float methods, which take longer; 0: as many as of IntRS-quant
    timed: int = 0  # images whose time experiment h takes, in runs of their own; 0: in those of e
    experiments: str = "".join(TITLES)
    models: tuple[tuple[str, Fraction, str], ...] = ()
    undefended: tuple[tuple[str, str], ...] = ()
    training: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def model(self, method: str, trained: Fraction) -> str | None:
        """The network of a method, by name or path."""
        return next((spec for m, s, spec in self.models if (m, s) == (method, trained)), None)

    def networks(self) -> list[tuple[str, str, bool]]:
        """All networks: where the plan names each, which one it is, and whether it is to be quantized."""
        smoothed = [(f"models.{m}.{plain(s)}", spec, m != FULL_PRECISION) for m, s, spec in self.models]
        return smoothed + [(f"undefended.{key}", spec, key == "int8") for key, spec in self.undefended]

    def needs(self, experiment: str) -> list[Sampling]:
        """All votes that an experiment wants, whether or not their network is there."""
        match experiment:
            case "a" | "b":
                more = [self.certify_more(s) for s in SIGMAS] if self.more else []
                return [self.certify(m, s, s) for m in METHODS for s in SIGMAS] + more
            case "c":
                return [self.certify(m, t, s) for t in TRAINED for m in COMPARED for s in SIGMAS]
            case "d":
                return [self.predict(m, n) for m in COMPARED for n in PREDICTIONS if n <= self.n]
            case "e":
                return [self.fixed(m) for m in COMPARED]
            case "h":
                return [self.timing(m) for m in COMPARED]
        return []

    def certify(self, method: str, trained: Fraction, sigma: Fraction) -> Sampling:
        """Votes for certificates."""
        return Sampling(method, trained, sigma, self.adaptive or self.n, adaptive=bool(self.adaptive))

    def certify_more(self, sigma: Fraction) -> Sampling:
        """Votes for certificates of IntRS-quant with more samples than the other methods have."""
        return Sampling(METHODS[0], sigma, sigma, self.more, adaptive=True, more=True)

    def fixed(self, method: str) -> Sampling:
        """A fixed number of votes, at one sigma: experiments d and e judge them again."""
        return Sampling(method, FIXED_SIGMA, FIXED_SIGMA, self.n)

    def timing(self, method: str) -> Sampling:
        """The votes whose time experiment h takes: the same ones, or those of a few images."""
        if not self.timed:
            return self.fixed(method)
        sigma = self._timed_sigma()
        return Sampling(method, sigma, sigma, self.n, timed=True)

    def _timed_sigma(self) -> Fraction:
        """Where all methods that are timed have a network: that of the paper, else the first. Time is alike at all."""
        there = (s for s in (FIXED_SIGMA, *SIGMAS) if all(self.model(method, s) for method in COMPARED))
        return next(there, FIXED_SIGMA)

    def images_of(self, sampling: Sampling) -> int:
        """How many images the votes are about, at most."""
        if sampling.timed:
            return self.timed
        return self.images_of_floats if sampling.method != METHODS[0] else self.images

    @property
    def images_of_floats(self) -> int:
        """How many images the float methods get, at most."""
        return min(self.float_images or self.images, self.images)

    def predict(self, method: str, n: int) -> Sampling:
        """Votes for predictions; those over as many samples as certificates take are the same votes."""
        return self.fixed(method) if n == self.n else Sampling(method, FIXED_SIGMA, FIXED_SIGMA, n, "predict")

    def samplings(self) -> list[Sampling]:
        """What can be sampled, each once, in the order of the experiments."""
        wanted = dict.fromkeys(s for letter in self.experiments for s in self.needs(letter))
        return [s for s in wanted if self.model(s.method, s.trained)]

    def radii(self) -> list[str]:
        """All radii of the tables of certified accuracy."""
        of_a = paper()["tables"].get(self.paper, {}).get("radii", DEFAULT_RADII)
        return sorted({*of_a, *other_numbers()["other_sigma"]["radii"]}, key=Fraction)

    def missing(self, experiment: str) -> list[str]:
        """The networks that an experiment lacks, one line per method."""
        lacking = dict.fromkeys((s.method, s.trained) for s in self.needs(experiment))
        found: dict[str, list[str]] = {}
        for method, trained in lacking:
            if not self.model(method, trained):
                found.setdefault(method, []).append(plain(trained))
        return [f"{method} trained at sigma {', '.join(sigmas)}" for method, sigmas in found.items()]

    def quick(self) -> Plan:
        """The same on few images with few samples, and without attacks, which take long."""
        return replace(self, **{key: min(getattr(self, key), most) for key, most in QUICK.items()})


def read_plan(path: Path | None) -> Plan:
    """The plan in a file, or the one that ships. Paths in it are taken from its own folder."""
    shipped = files("intrs.experiments") / "shipped.toml"
    try:
        data = shipped.read_bytes() if path is None else read_bounded(path, MOST_BYTES, SettingsError)
        return _plan(tomllib.loads(data.decode("utf-8")), path.parent if path else Path())
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror or error}") from None
    except IntrsError as error:
        raise SettingsError(f"{path or 'the plan'}: {error}") from None
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise SettingsError(f"{path}: not a TOML file ({error})") from None


NUMBERS = {
    "images": MOST_IMAGES, "skip": MOST_IMAGES, "attacked": MOST_IMAGES, "float_images": MOST_IMAGES,
    "timed": MOST_IMAGES, "n0": MOST_SAMPLES, "n": MOST_SAMPLES, "adaptive": MOST_SAMPLES, "more": MOST_SAMPLES,
}  # fmt: skip
MAY_BE_NONE = ("adaptive", "attacked", "float_images", "more", "timed")
TEXTS = ("data", "split", "paper", "alpha", "experiments")
KEYS = (*NUMBERS, *TEXTS, "models", "undefended", "seed", "training")


def _plan(found: dict[str, Any], folder: Path) -> Plan:
    if unknown := [key for key in found if key not in KEYS]:
        raise SettingsError(f"there is no setting {unknown[0]!r}; there are {', '.join(KEYS)}")
    values: dict[str, Any] = {
        key: _number(found, key, most, 0 if key in MAY_BE_NONE else 1) for key, most in NUMBERS.items() if key in found
    }
    values |= {key: _text(found[key], key) for key in TEXTS if key in found}
    if "seed" in found:
        values["seed"] = _number(found, "seed", 2**63 - 1, 0)
    if "data" not in values:
        raise SettingsError("it does not say which data; give data = 'cifar10' or a path")
    values["data"] = _place(values["data"], folder)
    models, absent = _models(found.get("models", {}), folder)
    undefended = _undefended(found.get("undefended", {}), folder)
    lost = [spec for _, spec in undefended if not zoo.seek_model(spec)]
    training = _training(found.get("training", []), folder)
    gone = [spec for spec in training if not Path(spec).exists()]
    made = Plan(
        **values,
        models=models,
        undefended=() if lost else undefended,
        training=tuple(spec for spec in training if spec not in gone),
        absent=(*absent, *lost, *gone),
    )
    _check(made)
    return made


def _check(plan: Plan) -> None:
    parse_alpha(plan.alpha)
    if plan.paper not in ("none", *PAPERS):
        raise SettingsError(f"paper must be one of none, {', '.join(PAPERS)}, not {plan.paper!r}")
    if wrong := [letter for letter in plan.experiments if letter not in TITLES]:
        raise SettingsError(f"there is no experiment {wrong[0]!r}; there are {''.join(TITLES)}")
    if len(set(plan.experiments)) < max(len(plan.experiments), 1):
        raise SettingsError("experiments must name at least one letter, and none twice, such as 'abe'")


def _number(found: dict[str, Any], key: str, most: int, least: int = 1) -> int:
    value = found[key]
    if type(value) is not int or not least <= value <= most:
        raise SettingsError(f"{key} must be a whole number from {least} to {most}, not {_shown(value)}")
    return value


def _text(value: Any, key: str) -> str:
    if type(value) is not str or not 0 < len(value) <= 4096:
        raise SettingsError(f"{key} must be text in quotes, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """A value from a plan in a message."""
    return "a number too long to print" if type(value) is int and value.bit_length() > 100 else f"{value!r:.80}"


def _training(found: Any, folder: Path) -> list[str]:
    if not isinstance(found, list) or len(found) > MOST_TRAININGS:
        raise SettingsError(
            f'training must be a list of at most {MOST_TRAININGS} folders, such as ["runs/a", "runs/b"]'
        )
    return [_place(_text(spec, "training"), folder) for spec in found]


def _models(found: Any, folder: Path) -> tuple[tuple[tuple[str, Fraction, str], ...], tuple[str, ...]]:
    """What exists, and what is named but does not."""
    made: dict[tuple[str, Fraction], str] = {}
    for method, by_sigma in _table(found, "models").items():
        if method not in METHODS:
            raise SettingsError(f"models.{method}: the methods are {', '.join(METHODS)}")
        for sigma, spec in _table(by_sigma, f"models.{method}").items():
            key = f"models.{method}.{sigma}"
            at = method, parse_sigma(sigma)
            if at[1] not in SIGMAS:
                raise SettingsError(f"{key}: the experiments are made at sigma {', '.join(map(plain, SIGMAS))} alone")
            if at in made:
                raise SettingsError(f"{key}: this sigma has a model already")
            made[at] = _network(_text(spec, key), folder, fp32=method == FULL_PRECISION)
    there = {at: spec for at, spec in made.items() if zoo.seek_model(spec)}
    return tuple((*at, spec) for at, spec in there.items()), tuple(s for at, s in made.items() if at not in there)


def _undefended(found: Any, folder: Path) -> tuple[tuple[str, str], ...]:
    networks = {
        key: _network(_text(value, f"undefended.{key}"), folder, fp32=key == "float")
        for key, value in _table(found, "undefended").items()
    }
    if networks and set(networks) != {"float", "int8"}:
        raise SettingsError(
            f"undefended must name float and int8, two forms of one network; it names {', '.join(networks)}"
        )
    return tuple(networks.items())


def _table(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{key} must be a table, [{key}]")
    return value


def _place(spec: str, folder: Path) -> str:
    """A file of this name beside the plan wins over a name."""
    return str(folder / spec) if (folder / spec).exists() else spec


def _network(spec: str, folder: Path, *, fp32: bool) -> str:
    """The same for a network; of the folder of `intrs train`, its network in float32 or in int8."""
    place = folder / spec
    if not place.is_dir():
        return _place(spec, folder) if place.is_file() else spec
    found = sorted(path for path in place.glob("*.onnx") if path.stem.endswith(zoo.FP32) == fp32)
    if len(found) > 1:
        raise SettingsError(f"{place} has {len(found)} networks; name one: {', '.join(path.name for path in found)}")
    return str(found[0]) if found else spec
