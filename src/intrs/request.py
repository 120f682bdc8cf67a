"""What can be asked for: the settings of certify, predict and attack, whose defaults are defined here and nowhere else.

Nothing is opened or checked here; `intrs.job` and `intrs.pgd.job` do that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Request:
    """What all of them take. Numbers that must be exact are text."""

    model: str  # a file, or the name of a model that ships
    data: str
    split: str = "test"
    first: int = 0  # the place of the first image
    skip: int = 1  # every k-th image from there on
    max: int | None = None  # number of images; None: all
    sigma: str | None = None  # None: what the model says
    noise: str = "discrete"
    n: int
    alpha: str = "0.001"
    seed: int | None = None  # None: drawn
    pixels: str = "auto"
    mean: str = ""  # numbers with commas; empty: none
    std: str = ""
    threads: int = 0  # 0: all cores
    kernels: str = ""  # empty: the fastest


@dataclass(frozen=True, kw_only=True)
class Predict(Request):
    """A class for each image."""

    n: int = 1000


@dataclass(frozen=True, kw_only=True)
class Certify(Request):
    """A class and a radius for each image."""

    n0: int = 100
    n: int = 100_000
    bound: Literal["sound", "paper"] = "sound"
    form: Literal["one", "two"] = "one"
    adaptive: bool = False  # n is the most then
    radii: Sequence[str] = ()
    precision: str | None = None
    give_up: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attack(Request):
    """An attacked image for each image and radius. sigma "0": on the network without smoothing."""

    n: int = 1000
    norm: Literal["l2", "linf"] = "l2"
    eps: Sequence[str] = ()  # radii, as fractions of the pixel range; empty: the paper's
    steps: int | None = None  # None: the paper's
    draws: int = 8
    restarts: int = 1
    source: str = ""  # the network that gives the gradients; empty: the model itself


REQUESTS: dict[str, type[Certify | Predict]] = {"certify": Certify, "predict": Predict}  # by command
