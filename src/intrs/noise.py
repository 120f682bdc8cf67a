"""The laws of the noise: exact masses, the integer tables that sample them, and the proven error of those tables.

Two laws live on the integers, one step being one pixel level. docs/theory.md holds the proofs; equation and theorem
numbers below refer to it. Every real number here is a ball (an enclosure) of python-flint. The third law, a Gaussian
in floating point, is the classical method, for comparison: it has no table and no such proof (docs/baselines.md).
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import numpy as np

from intrs.errors import IntrsError
from intrs.exact import parse_fraction

if TYPE_CHECKING:
    from collections.abc import Callable

    from flint import arb
    from numpy.typing import NDArray

Kind = Literal["discrete", "rounded", "continuous"]
KINDS: tuple[Kind, ...] = ("discrete", "rounded")  # on the integers: those that have tables
LAWS: tuple[Kind, ...] = (*KINDS, "continuous")
PIXEL_RANGE = 255  # grid steps in the unit of sigma
SMALLEST_SIGMA, LARGEST_SIGMA, LARGEST_DENOMINATOR = Fraction(1, 100), Fraction(4), 10**6
SHIPPED = ("0.12", "0.25", "0.5", "1")  # sigmas whose tables come with the package, as in their file names
BITS = 128  # working precision to begin with
MOST_BITS = 4096  # where `decide` gives up
THRESHOLD_BITS, ETA_BITS = 64, 96

T = TypeVar("T")


def parse_sigma(value: str | float | Fraction) -> Fraction:
    """Sigma as an exact fraction of the pixel range, from 0.01 to 4."""
    sigma = parse_fraction(value, "sigma")
    if not SMALLEST_SIGMA <= sigma <= LARGEST_SIGMA:
        raise IntrsError(f"sigma must lie between {float(SMALLEST_SIGMA)} and {LARGEST_SIGMA}, not {value}")
    if sigma.denominator > LARGEST_DENOMINATOR:
        raise IntrsError(f"sigma must be a fraction whose denominator is at most {LARGEST_DENOMINATOR}, not {sigma}")
    return sigma


def decide(attempt: Callable[[], T | None], bits: int = BITS) -> T | None:
    """The first answer of `attempt` that is not None, at doubling precision: balls shrink until they decide.

    None if MOST_BITS were not enough, which needs an exact tie; the caller then takes the safe side.
    """
    from flint import ctx

    while bits <= MOST_BITS:
        with ctx.workprec(bits):
            if (answer := attempt()) is not None:
                return answer
        bits *= 2
    return None


def ball(value: Fraction) -> arb:
    """The smallest ball about a fraction at the working precision."""
    from flint import arb, fmpq

    return arb(fmpq(value.numerator, value.denominator))


def unique_integer(integral: arb) -> int | None:
    """The one integer in a ball, if there is just one."""
    found = integral.unique_fmpz()
    return None if found is None else int(found)


def poisson_excess(t_squared: arb) -> arb:
    """Equation (5): eps(t) = 2 * sum over k >= 1 of exp(-2 pi^2 t^2 k^2), with the rest of the series enclosed."""
    from flint import arb, ctx

    q = (-2 * arb.pi() ** 2 * t_squared).exp()
    total, k = arb(0), 1
    while (term := q ** (k * k)) > arb(2) ** -ctx.prec:
        total, k = total + term, k + 1
    rest = 2 * q ** (k * k)  # q < 1/2 and k*k + 1 <= (k+1)*(k+1), so the rest is below a geometric series of ratio 1/2
    return 2 * (total + arb(0).union(rest))


@dataclass(frozen=True)
class Noise:
    """Independent noise on every coordinate, of one of three laws.

    discrete: P[n = k] proportional to exp(-k^2 / 2 sigma^2), the paper's. rounded: a Gaussian rounded to the nearest
    integer. continuous: a Gaussian in floats, the classical method (docs/baselines.md). sigma is in units of the pixel
    range 0..255.
    """

    kind: Kind
    sigma: Fraction

    def __post_init__(self) -> None:
        if self.kind not in LAWS:
            raise IntrsError(f"the noise must be one of {', '.join(LAWS)}, not {self.kind!r}")
        if not isinstance(self.sigma, Fraction):
            raise IntrsError(f"sigma must be a Fraction, not {self.sigma!r}; Noise.of takes other forms")
        parse_sigma(self.sigma)

    @classmethod
    def of(cls, kind: str, sigma: str | float | Fraction) -> Noise:
        """The noise of this kind and sigma; sigma may be "0.25", "1/4" or 0.25."""
        return cls(cast("Kind", kind), parse_sigma(sigma))

    @property
    def on_integers(self) -> bool:
        """Whether it is drawn from a table, and everything after it is exact."""
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
        return self.table().eta if self.on_integers else Fraction(0)

    def tau(self, samples: int, dimension: int) -> Fraction:
        """Equation (16): what the table's error costs of alpha over this many samples of `dimension` values."""
        return samples * dimension * self.eta

    def table(self) -> NoiseTable:
        """The sampling table, from the package's files if it is there."""
        self._require_integers()
        return _table(self)

    def upper_tail(self, k: int, bits: int = BITS) -> arb:
        """P[n >= k] for k >= 1."""
        from flint import arb, ctx

        self._require_integers()
        with ctx.workprec(bits):
            if self.kind == "rounded":
                return _normal_upper_tail((k - Fraction(1, 2)) / self.grid_sigma)
            tails = _discrete_upper_tails(self.grid_sigma, bits)
            return tails[k - 1] if k <= len(tails) else arb(0).union(tails[-1])

    def cdf(self, k: int, bits: int = BITS) -> arb:
        """P[n <= k]."""
        from flint import ctx

        with ctx.workprec(bits):
            return self.upper_tail(-k, bits) if k < 0 else 1 - self.upper_tail(k + 1, bits)

    def mass(self, k: int, bits: int = BITS) -> arb:
        """P[n = k], equations (1) and (2)."""
        from flint import ctx

        self._require_integers()
        with ctx.workprec(bits):
            if self.kind == "discrete":
                return _density(k, self.grid_sigma) / _discrete_normaliser(self.grid_sigma)
            near, far = (_normal_upper_tail((abs(k) + h) / self.grid_sigma) for h in (Fraction(-1, 2), Fraction(1, 2)))
            return near - far

    def _require_integers(self) -> None:
        if not self.on_integers:
            raise IntrsError(f"{self.kind} noise has no masses and no table; take one of {', '.join(KINDS)}")


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """Integers that turn a uniform 64-bit U into noise: value = first + #{j : thresholds[j] <= U}.

    Theorem 4: thresholds[j] = P[n <= first + j] * 2^64 rounded to nearest, strictly increasing, symmetric; so the
    table is a function of the noise alone, the same on every machine. eta bounds its total variation distance.
    """

    noise: Noise
    first: int
    thresholds: NDArray[np.uint64]
    eta: Fraction

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoiseTable) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.noise)

    @property
    def sha256(self) -> str:
        """Hash of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The canonical form, little-endian: HEADER, then the thresholds."""
        fixed = (MAGIC, KINDS.index(self.noise.kind), self.first, *self.noise.sigma.as_integer_ratio())
        eta = (part.to_bytes(16, "little") for part in self.eta.as_integer_ratio())
        return HEADER.pack(*fixed, *eta, len(self.thresholds)) + self.thresholds.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, trusted: bool = False) -> NoiseTable:
        """Read the canonical form. Unless trusted, the table is computed anew and must be equal bit for bit."""
        table = _parse_table(data)
        if not trusted and generate(table.noise).to_bytes() != data:
            raise IntrsError(f"noise table: not the table of {table.noise.kind} noise with sigma {table.noise.sigma}")
        return table


MAGIC = b"intrsnt1"
HEADER = struct.Struct("<8sIiQQ16s16sQ")  # magic, kind, first, sigma (2), eta (2), number of thresholds


def _parse_table(data: bytes) -> NoiseTable:
    if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise IntrsError("noise table: these bytes do not begin as a table does; write one with NoiseTable.to_bytes")
    _, kind, first, sigma_num, sigma_den, eta_num, eta_den, count = HEADER.unpack_from(data)
    eta_den = int.from_bytes(eta_den, "little")
    if kind >= len(KINDS) or not sigma_den or not eta_den or len(data) != HEADER.size + 8 * count:
        raise IntrsError("noise table: the header does not fit the bytes after it; the file is damaged")
    thresholds = np.frombuffer(data, "<u8", offset=HEADER.size).astype(np.uint64)
    thresholds.setflags(write=False)
    noise = Noise.of(KINDS[kind], Fraction(sigma_num, sigma_den))
    return NoiseTable(noise, first, thresholds, Fraction(int.from_bytes(eta_num, "little"), eta_den))


@cache
def _table(noise: Noise) -> NoiseTable:
    for text in SHIPPED:
        if noise.sigma == Fraction(text):
            shipped = files("intrs") / "tables" / f"{noise.kind}-{text}.bin"
            return NoiseTable.from_bytes(shipped.read_bytes(), trusted=True)
    return generate(noise)


def generate(noise: Noise) -> NoiseTable:
    """Compute the table of Theorem 4."""
    lower = decide(lambda: _lower_thresholds(noise))
    if lower is None:
        raise AssertionError("a cumulative probability lies on a rounding boundary")  # it is transcendental
    upper = [(1 << THRESHOLD_BITS) - t for t in lower]
    thresholds = np.array(lower[::-1] + upper, np.uint64)
    thresholds.setflags(write=False)
    return NoiseTable(noise, -len(lower), thresholds, _total_variation(noise, lower))


def _lower_thresholds(noise: Noise) -> list[int] | None:
    """t_k = nearest(2^64 P[n >= k]) for k = 1, 2, ... for as long as they fall strictly and stay positive."""
    from flint import ctx

    found: list[int] = []
    while True:
        scaled = noise.upper_tail(len(found) + 1, ctx.prec) * (1 << THRESHOLD_BITS)
        t = unique_integer((scaled + ball(Fraction(1, 2))).floor())
        if t is None:
            return None
        if t == 0 or (found and t == found[-1]):
            return found
        found.append(t)


def _total_variation(noise: Noise, lower: list[int]) -> Fraction:
    """Equation (15), rounded up to a multiple of 2^-96."""

    def attempt() -> int | None:
        from flint import ctx

        tails = [noise.upper_tail(k, ctx.prec) for k in range(1, len(lower) + 2)]
        errors = [ball(Fraction(t, 1 << THRESHOLD_BITS)) - tail for t, tail in zip(lower, tails, strict=False)]
        total = abs(errors[0]) + abs(errors[-1] + tails[-1]) + tails[-1]
        total += sum(abs(a - b) for a, b in pairwise(errors))
        return unique_integer((total * (1 << ETA_BITS)).ceil())

    scaled = decide(attempt)
    if scaled is None:
        raise AssertionError("a total variation distance lies on a rounding boundary")  # it is transcendental
    return Fraction(scaled, 1 << ETA_BITS)


def _normal_upper_tail(z: Fraction) -> arb:
    """1 - Phi(z)."""
    from flint import arb

    return (ball(z) / arb(2).sqrt()).erfc() / 2


def _density(k: int, sigma: Fraction) -> arb:
    """exp(-k^2 / 2 sigma^2)."""
    return ball(Fraction(-k * k) / (2 * sigma * sigma)).exp()


def _discrete_normaliser(sigma: Fraction) -> arb:
    """Sum over all integers of exp(-k^2 / 2 sigma^2), by Poisson summation: equation (6) at y = 0."""
    from flint import arb

    return ball(sigma) * (2 * arb.pi()).sqrt() * (1 + poisson_excess(ball(sigma * sigma)))


@cache
def _discrete_upper_tails(sigma: Fraction, bits: int) -> list[arb]:
    """P[n >= k] for k = 1, 2, ... until it is below 2^-bits: sums from the far end, whose rest is enclosed."""
    from flint import arb

    last = math.isqrt(int(Fraction(3, 2) * bits * sigma * sigma)) + 1  # exp(-last^2 / 2 sigma^2) < 2^-bits
    normaliser, rate = _discrete_normaliser(sigma), ball(Fraction(-1) / (2 * sigma * sigma))
    ratio = (rate * (2 * last + 1)).exp()  # later terms fall faster than this geometric series
    tail = arb(0).union((rate * last * last).exp() * ratio / (1 - ratio))
    tails = []
    for k in range(last, 0, -1):
        tail += (rate * (k * k)).exp()
        tails.append(tail / normaliser)
    return tails[::-1]


def sample_exact(noise: Noise, below: Callable[[int], int]) -> int:
    """One value of the noise from its exact law, eta = 0, in rational arithmetic: the slow reference.

    below(n) must return a uniform integer in 0 .. n-1.
    """
    noise._require_integers()
    if noise.kind == "discrete":
        return _sample_discrete_gaussian(noise.grid_sigma**2, below)
    return _sample_rounded_gaussian(noise, below)


def _sample_discrete_gaussian(variance: Fraction, below: Callable[[int], int]) -> int:
    """Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", algorithm 3."""
    scale = math.isqrt(int(variance)) + 1
    while True:
        y = _sample_discrete_laplace(scale, below)
        if _bernoulli_exp((abs(y) - variance / scale) ** 2 / (2 * variance), below):
            return y


def _sample_discrete_laplace(scale: int, below: Callable[[int], int]) -> int:
    """P[y] proportional to exp(-|y| / scale): their algorithm 2."""
    while True:
        low = below(scale)
        if not _bernoulli_exp(Fraction(low, scale), below):
            continue
        high = 0
        while _bernoulli_exp(Fraction(1), below):
            high += 1
        y, negative = low + scale * high, below(2)
        if y or not negative:  # zero has one sign
            return -y if negative else y


def _bernoulli_exp(gamma: Fraction, below: Callable[[int], int]) -> bool:
    """True with probability exp(-gamma): their algorithm 1."""
    while gamma > 1:
        if not _bernoulli_exp(Fraction(1), below):
            return False
        gamma -= 1
    k = 1
    while below(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1


def _sample_rounded_gaussian(noise: Noise, below: Callable[[int], int]) -> int:
    """Inversion with as many uniform bits as it takes until every U that begins with them gives one value."""
    bits, u = THRESHOLD_BITS, below(1 << THRESHOLD_BITS)
    while (k := _invert(noise, u, bits)) is None:
        bits, u = bits + THRESHOLD_BITS, (u << THRESHOLD_BITS) | below(1 << THRESHOLD_BITS)
    return k


def _invert(noise: Noise, u: int, bits: int) -> int | None:
    """The k with P[n < k] <= U <= P[n <= k] for all U from u / 2^bits to (u+1) / 2^bits, if it is the same for all."""
    from flint import ctx

    def scaled(k: int) -> arb:
        return noise.cdf(k, bits + BITS) * (1 << bits)

    table = noise.table()
    k = table.first + int(np.searchsorted(table.thresholds, np.uint64(u >> (bits - THRESHOLD_BITS)), side="right"))
    with ctx.workprec(bits + BITS):
        while scaled(k - 1) >= u + 1:
            k -= 1
        while scaled(k) <= u:
            k += 1
        return k if scaled(k - 1) <= u and scaled(k) >= u + 1 else None
