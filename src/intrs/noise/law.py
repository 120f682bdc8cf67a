"""The laws: sigma as an exact fraction, and the mass of every integer as a ball.

Two laws live on the integers, one step being one pixel level. The third, a Gaussian in floating point, is the
classical method, for comparison: it has no masses, no table and no such proof (docs/baselines.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Literal

from intrs.balls import BITS, at_precision, ball, normal_upper_tail, pi, working_bits
from intrs.errors import SettingsError
from intrs.exact import Number, parse_fraction, plain
from intrs.values import html_table

if TYPE_CHECKING:
    from flint import arb

    from intrs.noise.table import NoiseTable

Kind = Literal["discrete", "rounded", "continuous", "none"]
KINDS: tuple[Kind, ...] = ("discrete", "rounded")  # on the integers: those that have tables
LAWS: tuple[Kind, ...] = (*KINDS, "continuous")
NONE: Kind = "none"  # of Noise.none() alone
PIXEL_RANGE = 255  # grid steps in the unit of sigma
SMALLEST_SIGMA, LARGEST_SIGMA, LARGEST_DENOMINATOR = Fraction(1, 100), Fraction(4), 10**6
MOST_LEVELS = 1024  # up to here a sigma that is too large was probably meant in pixel levels


def parse_sigma(value: Number) -> Fraction:
    """Sigma as an exact fraction of the pixel range, from 0.01 to 4; "0.25", "1/4", 0.25 and Fraction(1, 4) alike."""
    sigma, given = parse_fraction(value, "sigma"), str(value).strip()
    if not SMALLEST_SIGMA <= sigma <= LARGEST_SIGMA:
        limits = f"sigma must lie between {plain(SMALLEST_SIGMA)} and {plain(LARGEST_SIGMA)}, got {given}"
        bare = ". Only predictions can do without noise" if sigma == 0 else ""
        raise SettingsError(limits + _in_levels(sigma, given) + bare)
    if sigma.denominator > LARGEST_DENOMINATOR:
        raise SettingsError(f"sigma must be a fraction whose denominator is at most {LARGEST_DENOMINATOR}, got {given}")
    return sigma


def _in_levels(sigma: Fraction, given: str) -> str:
    if not LARGEST_SIGMA < sigma <= MOST_LEVELS:
        return ""
    return f". Sigma is a fraction of the pixel range: {given} levels are {float(sigma / PIXEL_RANGE):.2g}"


@dataclass(frozen=True)
class Noise:
    """Independent noise on every coordinate, of one of three laws.

    discrete: P[n = k] proportional to exp(-k^2 / 2 sigma^2), the paper's. rounded: a Gaussian rounded to the nearest
    integer. continuous: a Gaussian in floats, the classical method (docs/baselines.md). sigma is a fraction of the
    pixel range 0..255; whatever `parse_sigma` reads may be given.
    """

    kind: Kind
    sigma: Fraction

    if TYPE_CHECKING:  # what may be given; `__post_init__` makes of it what the fields say

        def __init__(self, kind: str, sigma: Number) -> None: ...

    def __post_init__(self) -> None:
        if self.is_none and parse_fraction(self.sigma, "sigma") == 0:
            object.__setattr__(self, "sigma", Fraction(0))
            return
        if self.kind not in LAWS:
            raise SettingsError(f"the noise must be one of {', '.join(LAWS)}, got {self.kind!r}")
        object.__setattr__(self, "sigma", parse_sigma(self.sigma))

    @classmethod
    def of(cls, kind: str, sigma: Number) -> Noise:
        """The noise of this kind and sigma."""
        return cls(kind, sigma)

    @classmethod
    def discrete(cls, sigma: Number) -> Noise:
        """The discrete Gaussian, which is the paper's: Noise.discrete("0.25")."""
        return cls.of("discrete", sigma)

    @classmethod
    def rounded(cls, sigma: Number) -> Noise:
        """A Gaussian rounded to the nearest integer."""
        return cls.of("rounded", sigma)

    @classmethod
    def continuous(cls, sigma: Number) -> Noise:
        """A Gaussian in floats, for comparison with the classical method."""
        return cls.of("continuous", sigma)

    @classmethod
    def none(cls) -> Noise:
        """No noise at all: the network itself, for predictions; nothing can be certified."""
        return cls(NONE, 0)

    def __repr__(self) -> str:
        return "Noise.none()" if self.is_none else f"Noise.{self.kind}({plain(self.sigma)!r})"

    def _repr_html_(self) -> str:
        rows = {"noise": self.kind, "sigma": f"{plain(self.sigma)} of the pixel range"}
        return html_table(rows | {"in pixel levels": plain(self.grid_sigma)})

    @property
    def is_none(self) -> bool:
        """Whether images stay as they are."""
        return self.kind == NONE

    @property
    def on_integers(self) -> bool:
        """Whether noisy images are integers, and everything after them is exact."""
        return self.kind in KINDS or self.is_none

    @property
    def has_table(self) -> bool:
        """Whether it is drawn from a table."""
        return self.kind in KINDS

    @property
    def grid_sigma(self) -> Fraction:
        """Sigma in grid steps."""
        return PIXEL_RANGE * self.sigma

    @property
    def eta(self) -> Fraction:
        """Proven bound on the total variation distance between what the table draws and this law.

        Continuous noise has no table: 0, which leaves out the rounding of floats, as the classical method does.
        """
        return self.table().eta if self.has_table else Fraction(0)

    def tau(self, samples: int, dimension: int) -> Fraction:
        """Equation (16): what the table's error costs of alpha over this many samples of `dimension` values."""
        return samples * dimension * self.eta

    def table(self) -> NoiseTable:
        """The sampling table, from the package's files if it is there."""
        from intrs.noise.table import table_of  # which builds on this module

        self.require_integers()
        return table_of(self)

    @property
    def table_sha256(self) -> str:
        """The hash of the sampling table, which tells what noise was drawn; empty for continuous noise."""
        return self.table().sha256 if self.has_table else ""

    def upper_tail(self, k: int, bits: int = BITS) -> arb:
        """P[n >= k] for k >= 1."""
        self.require_integers()
        with at_precision(bits):
            if self.kind == "rounded":
                return normal_upper_tail(ball((k - Fraction(1, 2)) / self.grid_sigma))
            tails = _discrete_upper_tails(self.grid_sigma, bits)
            return tails[k - 1] if k <= len(tails) else ball(0).union(tails[-1])

    def cdf(self, k: int, bits: int = BITS) -> arb:
        """P[n <= k]."""
        with at_precision(bits):
            return self.upper_tail(-k, bits) if k < 0 else 1 - self.upper_tail(k + 1, bits)

    def mass(self, k: int, bits: int = BITS) -> arb:
        """P[n = k], equations (1) and (2)."""
        self.require_integers()
        with at_precision(bits):
            if self.kind == "discrete":
                return _density(k, self.grid_sigma) / _discrete_normaliser(self.grid_sigma)
            edges = (ball((abs(k) + half) / self.grid_sigma) for half in (Fraction(-1, 2), Fraction(1, 2)))
            near, far = map(normal_upper_tail, edges)
            return near - far

    def require_integers(self) -> None:
        """Refuse continuous noise, and none, where masses or a table are needed."""
        if not self.has_table:
            raise SettingsError(f"{self.kind} noise has no masses and no table; take one of {', '.join(KINDS)}")


def poisson_excess(t_squared: arb) -> arb:
    """Equation (5): eps(t) = 2 * sum over k >= 1 of exp(-2 pi^2 t^2 k^2), with the rest of the series enclosed."""
    q = (-2 * pi() ** 2 * t_squared).exp()
    total, k = ball(0), 1
    while (term := q ** (k * k)) > ball(2) ** -working_bits():
        total, k = total + term, k + 1
    rest = 2 * q ** (k * k)  # q < 1/2 and k*k + 1 <= (k+1)*(k+1), so the rest is below a geometric series of ratio 1/2
    return 2 * (total + ball(0).union(rest))


def _density(k: int, sigma: Fraction) -> arb:
    """exp(-k^2 / 2 sigma^2)."""
    return ball(Fraction(-k * k) / (2 * sigma * sigma)).exp()


def _discrete_normaliser(sigma: Fraction) -> arb:
    """Sum over all integers of exp(-k^2 / 2 sigma^2), by Poisson summation: equation (6) at y = 0."""
    return ball(sigma) * (2 * pi()).sqrt() * (1 + poisson_excess(ball(sigma * sigma)))


@cache
def _discrete_upper_tails(sigma: Fraction, bits: int) -> list[arb]:
    """P[n >= k] for k = 1, 2, ... until it is below 2^-bits: sums from the far end, whose rest is enclosed."""
    last = math.isqrt(int(Fraction(3, 2) * bits * sigma * sigma)) + 1  # exp(-last^2 / 2 sigma^2) < 2^-bits
    normaliser, rate = _discrete_normaliser(sigma), ball(Fraction(-1) / (2 * sigma * sigma))
    ratio = (rate * (2 * last + 1)).exp()  # later terms fall faster than this geometric series
    tail = ball(0).union((rate * last * last).exp() * ratio / (1 - ratio))
    tails = []
    for k in range(last, 0, -1):
        tail += (rate * (k * k)).exp()
        tails.append(tail / normaliser)
    return tails[::-1]
