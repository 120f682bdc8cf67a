"""What can be asked for: the settings of certify, predict and attack, each with its default, defined here alone.

A request is carried through a run as it is: the results file keeps it, `resume` compares it, `verify` repeats it.
Numbers that must be exact are text. Values are brought into one way of writing when a request is made, so that 0.25,
"0.25" and "1/4" are one setting; what they mean together is for `intrs.job` and `intrs.pgd` to check. Nothing heavy is
imported here: the command line takes its defaults from these classes.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from intrs.errors import SettingsError
from intrs.exact import LONGEST, MOST_COUNT, MOST_VOTES, parse_count, parse_fraction, parse_percent, parse_seed, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

Form = Literal["one", "two"]
Norm = Literal["l2", "linf"]
Dialect = Literal["tflm", "litert"]  # whose reference kernels a TFLite file means

CHOICES = {
    "noise": ("discrete", "rounded", "continuous"),
    "bound": ("sound", "paper"),
    "form": ("one", "two"),
    "norm": ("l2", "linf"),
    "pixels": ("auto", "unit", "byte"),
    "dialect": ("", *get_args(Dialect)),
}
LEAST = {"first": 0, "skip": 1, "max": 1, "n0": 1, "n": 1, "threads": 0, "steps": 1, "draws": 1, "restarts": 1}
MOST = {"threads": 1024, "n": MOST_VOTES}
EXACT = ("sigma", "alpha", "give_up")
LISTS = ("radii", "eps")
FLAGS = ("adaptive", "by_number")
MOST_NAMES = 2**18  # characters of the names of all classes
TEXTS = ("model", "split", "fit", "mean", "std", "kernels", "source", "shard")
MOST_LISTED = 3  # names of image files, where data are described in words


@dataclass(frozen=True, kw_only=True)
class Request:
    """What all of them take."""

    model: str  # the name of a shipped model, or a file
    data: str | tuple[str, ...]  # the name of a data set, a file or folder, or several image files
    split: str = "test"
    fit: str = ""  # resize or crop image files to the model's size; settled, with that size; empty: neither
    first: int = 0  # the place of the first image
    skip: int = 1  # every k-th image from there on
    max: int | None = None  # number of images; None: all
    sigma: str | None = None  # None: what the model was trained for
    noise: str = "discrete"
    n: int
    alpha: str = "0.001"
    seed: int | None = None  # None: drawn
    pixels: str = "auto"
    mean: str = ""  # numbers with commas; empty: none
    std: str = ""
    dialect: str = ""  # empty: the file's default, tflm for TFLite; other formats have none
    threads: int = 0  # 0: all cores
    kernels: str = ""  # empty: the fastest
    names: tuple[str, ...] = ()  # of the model's classes, in the order of its outputs; none: those of its card
    by_number: bool = False  # labels are the model's numbers, whatever names the data's classes have
    COMMAND: ClassVar[str]

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The request with those of these values that are settings."""
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})

    @property
    def sources(self) -> tuple[str, ...]:
        """The names or paths of the data, one or several; none if the data have no name."""
        return (self.data,) if isinstance(self.data, str) and self.data else tuple(self.data)

    @property
    def data_name(self) -> str:
        """The data in words."""
        more = len(self.sources) - MOST_LISTED
        return ", ".join(self.sources[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                object.__setattr__(self, field.name, _settled(field.name, value))


def _settled(name: str, value: Any) -> Any:
    """A value in its one way of writing; SettingsError if it cannot be one."""
    if name in CHOICES:
        if not isinstance(value, str) or value not in CHOICES[name]:
            raise SettingsError(f"{name}: choose from {', '.join(filter(None, CHOICES[name]))}, got {shown(value)}")
        return value
    if name in LEAST:
        return parse_count(value, name, LEAST[name], MOST.get(name, MOST_COUNT))
    if name in EXACT:
        return _exact(name, value)
    if name in LISTS:
        return tuple(_exact(name, part) for part in parse_parts(value, name))
    if name in TEXTS:
        return _text(name, value)
    if name == "names":
        return parse_names(value)
    if name == "data":
        return _text(name, value) if isinstance(value, str) else tuple(_text(name, part) for part in value)
    if name == "precision":
        return str(parse_percent(value, name))
    if name == "seed":
        return parse_seed(value)
    assert name in FLAGS, f"{name} is in none of the tables above"
    if type(value).__name__ not in ("bool", "bool_"):  # NumPy's is as good as Python's
        raise SettingsError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def _exact(name: str, value: Any) -> str:
    text = str(parse_fraction(value, name))
    if len(text) > LONGEST:
        raise SettingsError(f"{name}: {shown(value)} has more digits than can be handled exactly")
    return text


def parse_parts(value: Any, name: str) -> list[Any]:
    """One or several numbers, of a list or of text with commas."""
    if isinstance(value, str):
        return value.split(",")
    try:
        return [value] if isinstance(value, numbers.Real) else list(value)
    except TypeError:
        raise SettingsError(f"{name}: expected several numbers, such as [0.25, 0.5], got {shown(value)}") from None


def _text(name: str, value: Any) -> str:
    """Text, or what names a file; mean and std may be given as numbers."""
    if name in ("mean", "std") and not isinstance(value, str):
        return ",".join(str(parse_fraction(part, name)) for part in parse_parts(value, name))
    if not isinstance(value, str):
        raise SettingsError(f"{name}: expected text, got {shown(value)}")
    return value


def parse_names(value: Any) -> tuple[str, ...]:
    """Names of classes, from a list or from text with commas."""
    try:
        found = [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value)
    except TypeError:
        raise SettingsError(f"names: expected the names of classes in a list, got {shown(value)}") from None
    names = tuple(_text("names", part) for part in found)
    if len(set(names)) < len(names) or not all(names):
        raise SettingsError("names: every class needs a name of its own")
    if sum(map(len, names)) > MOST_NAMES:
        raise SettingsError(f"names: more than {MOST_NAMES:,} characters")
    return names


@dataclass(frozen=True, kw_only=True)
class Predict(Request):
    """A class for each image."""

    n: int = 1000
    shard: str = ""  # a part of the run, such as 2/8 or 2/8:samples; empty: the whole
    COMMAND: ClassVar[str] = "predict"


@dataclass(frozen=True, kw_only=True)
class Certify(Request):
    """A class and a radius for each image."""

    n0: int = 100  # samples that select the class
    n: int = 100_000  # samples that estimate its probability
    bound: Literal["sound", "paper"] = "sound"
    form: Form = "one"
    adaptive: bool = False  # n is the most then
    radii: tuple[str, ...] = ()
    precision: str | None = None
    give_up: str | None = None
    shard: str = ""  # a part of the run, such as 2/8 or 2/8:samples; empty: the whole
    COMMAND: ClassVar[str] = "certify"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radii or self.precision is not None:
            object.__setattr__(self, "adaptive", True)
        elif self.give_up is not None and not self.adaptive:
            raise SettingsError("give_up is for adaptive runs; ask for radii or a precision too")


@dataclass(frozen=True, kw_only=True)
class Attack(Request):
    """An attacked image for each image and radius. sigma 0: the network without smoothing."""

    n: int = 1000
    norm: Norm = "l2"
    eps: tuple[str, ...] = ()  # radii, as fractions of the pixel range; empty: the paper's
    steps: int | None = None  # None: the paper's
    draws: int = 8
    restarts: int = 1
    source: str = ""  # the network that gives the gradients; empty: the model itself
    COMMAND: ClassVar[str] = "attack"


REQUESTS: dict[str, type[Certify | Predict]] = {"certify": Certify, "predict": Predict}  # by command
