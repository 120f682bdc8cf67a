"""From votes to a radius: Clopper-Pearson, the robustness bounds, the test of Algorithm 2; always on the safe side.

docs/theory.md holds the proofs; equation and theorem numbers below refer to it. A float appears only as the first
guess of a root whose place is then proved in ball arithmetic, so no answer depends on the machine.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from intrs.errors import IntrsError
from intrs.exact import parse_fraction
from intrs.noise import KINDS, PIXEL_RANGE, Noise, ball, decide, poisson_excess, unique_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flint import arb
    from numpy.typing import NDArray

Bound = Literal["sound", "paper"]
BOUNDS: tuple[Bound, ...] = ("sound", "paper")
LARGEST_ALPHA, LARGEST_ALPHA_DENOMINATOR = Fraction(999, 1000), 10**36
LARGEST_N, LARGEST_DIMENSION = 10**8, 2**31
P_BITS = 64  # confidence bounds are multiples of 2^-64
ONE = 1 << P_BITS
SERIES_BITS = (80, 80, 160, 320, 640, 1280)  # fixed-point precision of the binomial series, at each attempt
SMOOTHING_WIDTHS = tuple(Fraction(j, 32) for j in range(16, 33))  # of Theorem 2: any r is sound, this grid defines R2


def parse_alpha(value: str | float | Fraction) -> Fraction:
    """The permitted probability of a wrong certificate, as an exact fraction above 0 and at most 0.999."""
    alpha = parse_fraction(value, "alpha")
    if not 0 < alpha < 1 or alpha.denominator > LARGEST_ALPHA_DENOMINATOR:
        raise IntrsError(f"alpha must lie between 0 and 1, such as 0.001, not {value}")
    if alpha > LARGEST_ALPHA:
        raise IntrsError(
            f"alpha, the probability of a wrong answer, must be at most {float(LARGEST_ALPHA)}, not {value}"
        )
    return alpha


@dataclass(frozen=True)
class Certified:
    """g(x + delta) = label for every integer delta with |delta|^2 <= radius_sq, with probability at least 1 - alpha.

    radius_sq counts squared pixel levels; 0 is a certificate for x itself.
    """

    label: int
    radius_sq: int
    votes: int
    n: int
    alpha: Fraction

    @property
    def radius(self) -> float:
        """sqrt(radius_sq) / 255, the unit of papers, as the largest float that does not exceed it."""
        return _sqrt_ratio_down(self.radius_sq)

    def radius_text(self, digits: int = 6, *, up: bool = False) -> str:
        """The radius in decimals, rounded down, or up to announce what no radius exceeds."""
        square = self.radius_sq * 10 ** (2 * digits)
        scaled = math.isqrt(square // PIXEL_RANGE**2)
        scaled += up and (scaled * PIXEL_RANGE) ** 2 < square
        text = str(scaled).rjust(digits + 1, "0")
        return f"{text[:-digits]}.{text[-digits:]}" if digits else text


@dataclass(frozen=True)
class Abstained:
    """No statement about this image."""

    votes: int
    n: int
    alpha: Fraction
    reason: str


def _sqrt_ratio_down(radius_sq: int) -> float:
    def fits(x: float) -> bool:
        return (Fraction(x) * PIXEL_RANGE) ** 2 <= radius_sq

    x = math.sqrt(radius_sq) / PIXEL_RANGE
    while not fits(x):
        x = math.nextafter(x, 0.0)
    while fits(math.nextafter(x, math.inf)):
        x = math.nextafter(x, math.inf)
    return x


# --- Clopper-Pearson -------------------------------------------------------------------------------------------------


def lower_bound(votes: int, n: int, alpha: Fraction) -> Fraction:
    """Equation (17): the largest multiple of 2^-64 below the p at which P[Bin(n, p) >= votes] = alpha."""
    _check_votes(votes, n)
    return Fraction(_lower(votes, n, alpha), ONE)


def upper_bound(votes: int, n: int, alpha: Fraction) -> Fraction:
    """Equation (18): the smallest multiple of 2^-64 above the p at which P[Bin(n, p) <= votes] = alpha."""
    _check_votes(votes, n)
    return 1 - Fraction(_lower(n - votes, n, alpha), ONE)


def _check_votes(votes: int, n: int) -> None:
    if not 1 <= n <= LARGEST_N:
        raise IntrsError(f"the number of samples must lie between 1 and {LARGEST_N}, not {n}")
    if not 0 <= votes <= n:
        raise IntrsError(f"{votes} votes of {n} samples make no sense: votes must lie between 0 and {n}")


def _lower(votes: int, n: int, alpha: Fraction, guess: int | None = None) -> int:
    """lower_bound * 2^64. A guess saves time and nothing else: the answer is proved."""
    if votes == 0:
        return 0
    from flint import ctx

    guess = _guess(votes, n, alpha) if guess is None else guess
    for bits in SERIES_BITS:
        with ctx.workprec(bits + P_BITS):
            root = _enclose_root(votes, n, alpha, min(max(guess, 1), ONE - 1), bits)
            if root is None:
                break  # the guess is too far away
            if (found := _strictly_below(root)) is not None:
                return found
            guess = unique_integer(root.mid().floor()) or guess
    return _lower_by_bisection(votes, n, alpha)


def _lower_by_bisection(votes: int, n: int, alpha: Fraction) -> int:
    """The same by its definition alone; slow. It serves exact ties and roots within a step or two of 0 or 1."""
    return _gallop(lambda j: j < ONE and _tail_is_below(votes, n, j, alpha), 0)


def _tail_is_below(votes: int, n: int, j: int, alpha: Fraction) -> bool:
    """Whether P[Bin(n, j / 2^64) >= votes] < alpha; a tie is not below."""
    from flint import ctx

    for bits in SERIES_BITS:
        with ctx.workprec(bits + P_BITS):
            tail, _ = _binomial_tail(votes, n, j, bits)
            if tail < ball(alpha) or tail >= ball(alpha):
                return bool(tail < ball(alpha))
    return False


def _enclose_root(votes: int, n: int, alpha: Fraction, j: int, bits: int) -> arb | None:
    """Lemma 6: a ball about 2^64 times the root of P[Bin(n, p) >= votes] = alpha, from one evaluation at j / 2^64.

    None if j is too far away for the lemma.
    """
    tail, slope = _binomial_tail(votes, n, j, bits)
    step, p = (ball(alpha) - tail) / slope, ball(Fraction(j, ONE))
    width = (2 * abs(step)).upper()
    around = (p - width).union(p + width)
    if not 0 < around < 1:
        return None
    bend = width * abs((votes - 1) / around - (n - votes) / (1 - around))
    if not bend < ball(Fraction(1, 2)):
        return None
    return (p + step * (-bend).union(bend).exp()) * ONE


def _binomial_tail(votes: int, n: int, j: int, bits: int) -> tuple[arb, arb]:
    """P[Bin(n, p) >= votes] and its derivative at p = j / 2^64, votes >= 1: equations (19) to (21)."""
    from flint import arb

    p = ball(Fraction(j, ONE))
    mass = arb.bin_uiui(n, votes) * p**votes * (1 - p) ** (n - votes)
    return mass * _tail_over_mass(votes, n, j, bits), mass * votes / p


def _tail_over_mass(votes: int, n: int, j: int, bits: int) -> arb:
    """Lemma 5: the series 1 + rho_0 + rho_0 rho_1 + ... in integers, terms rounded down, and what that can lose."""
    term = total = 1 << bits
    steps, numerator, denominator = 0, (n - votes) * j, (votes + 1) * (ONE - j)
    while term:
        term = term * numerator // denominator
        total += term
        numerator, denominator, steps = numerator - j, denominator + ONE - j, steps + 1
    return ball(Fraction(total, 1 << bits)).union(ball(Fraction(total, (1 << bits) - steps)))


def _guess(votes: int, n: int, alpha: Fraction) -> int:
    """lower_bound * 2^64 in floats, or 0 where they overflow or vanish: then bisection finds it."""
    try:
        return int(_lower_in_floats(votes, n, alpha) * ONE)
    except (ArithmeticError, ValueError):
        return 0


def _lower_in_floats(votes: int, n: int, alpha: Fraction) -> float:
    """Newton's method for log P in log p, begun to the left of the root."""
    log_alpha = math.log(alpha.numerator) - math.log(alpha.denominator)
    z_sq = -2 * log_alpha
    centre, spread = votes + z_sq / 2, math.sqrt(z_sq * (votes * (n - votes) / n + z_sq / 4))
    p = max((centre - spread) / (n + z_sq), float(alpha) / (2 * n))  # Wilson's bound with too large a quantile
    choose = math.lgamma(n + 1) - math.lgamma(votes + 1) - math.lgamma(n - votes + 1)
    for _ in range(20):
        p = min(p, 1 - 1e-16)
        series = _series_in_floats(votes, n, p)
        log_tail = choose + votes * math.log(p) + (n - votes) * math.log1p(-p) + math.log(series)
        factor = math.exp((log_alpha - log_tail) * series / votes)
        p *= factor
        if abs(factor - 1) < 1e-14:
            break
    return p


def _series_in_floats(votes: int, n: int, p: float) -> float:
    rising = max(n * p - votes, 0)
    terms = min(n - votes, int(2 * rising + 12 * math.sqrt(n * p * (1 - p))) + 60)
    i = np.arange(terms)
    with np.errstate(all="ignore"):
        return 1.0 + float(np.cumprod((n - votes - i) / (votes + 1 + i) * (p / (1 - p))).sum())


# --- the robustness bounds -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Channel:
    """The noise as post-processing of a continuous Gaussian of width s: Theorem 1 (rounded), Theorem 2 (discrete).

    With Q the law that the continuous Gaussian gives and D the noise, shrink * D <= Q <= grow * D; middle is the
    quantile of the least Q that makes D a majority. The rounded Gaussian has shrink = grow = 1 and middle = 0, and so
    has the continuous one itself: then `reach` is sigma Phi^-1(p), the radius of Cohen, Rosenfeld and Kolter (2019).
    """

    s: arb
    shrink: arb
    grow: arb
    middle: arb

    def quantile(self, p: Fraction) -> arb:
        """Equation (9): Phi^-1 of the least Q of an event that has probability at least p under D."""
        from flint import arb

        complement = (1 - self.shrink * ball(p)).min(self.grow * ball(1 - p))
        return arb(2).sqrt() * (2 * complement).erfcinv()

    def reach(self, p: Fraction) -> arb:
        """Theorem 2: a class of probability at least p keeps the majority at every distance below this."""
        return self.s * (self.quantile(p) - self.middle)

    def least(self, quantile: arb, distance_sq: int) -> arb:
        """Equation (10): the least probability under D at this distance of an event with this `quantile`."""
        from flint import arb

        complement = ((arb(distance_sq).sqrt() / self.s - quantile) / arb(2).sqrt()).erf() / 2 + ball(Fraction(1, 2))
        return ((1 - complement) / self.grow).max(1 - complement / self.shrink)


@lru_cache(maxsize=256)
def _channel(noise: Noise, dimension: int, r: Fraction, bits: int) -> Channel | None:
    """Theorem 2: draw y from the continuous Gaussian of width s, then a discrete Gaussian of width r centred at y.

    None if r is so small for this dimension that the channel is useless.
    """
    from flint import arb, ctx

    sigma_sq, r_sq = noise.grid_sigma**2, r * r
    with ctx.workprec(bits):
        if noise.kind != "discrete":
            return Channel(ball(noise.grid_sigma), arb(1), arb(1), arb(0))
        eps_sigma, eps_r, eps_w = (poisson_excess(ball(t)) for t in (sigma_sq, r_sq, r_sq * (2 - r_sq / sigma_sq)))
        shrink = ((1 + eps_sigma) * (1 - eps_w)) ** dimension
        grow = ((1 + eps_sigma) * (1 + eps_w + eps_r * eps_r / (1 - eps_r))) ** dimension
        if not (shrink > ball(Fraction(1, 2)) and grow < 2):
            return None
        middle = arb(2).sqrt() * (grow - 1).min(1 - shrink).erfinv()
        return Channel(ball(sigma_sq - r_sq).sqrt(), shrink, grow, middle)


def _widths(noise: Noise) -> tuple[Fraction, ...]:
    """The r to try, in ascending order, so that s falls; the other laws have one channel, which loses nothing."""
    return SMOOTHING_WIDTHS if noise.kind == "discrete" else (Fraction(0),)


def _one_class_radius_sq(noise: Noise, dimension: int, p: Fraction) -> int:
    """Theorem 2: the largest integer strictly below the square of the largest reach, 0 if none is positive; p > 1/2."""
    return decide(lambda: _largest_square_below_reach(noise, dimension, p)) or 0


def _largest_square_below_reach(noise: Noise, dimension: int, p: Fraction) -> int | None:
    from flint import arb, ctx

    best, bare = 0, arb(2).sqrt() * (2 * ball(1 - p)).erfcinv()
    for r in _widths(noise):
        if (channel := _channel(noise, dimension, r, ctx.prec)) is None:
            continue
        if (channel.s * bare) ** 2 <= best + 1:
            break  # reach <= s Phi^-1(p), and s falls from here on
        reach = channel.reach(p)
        square = 0 if reach < 1 else _strictly_below(reach * reach)
        if square is None:
            return None
        best = max(best, square)
    return best


def _strictly_below(x: arb) -> int | None:
    above = unique_integer(x.ceil())
    return None if above is None else above - 1


def _two_class_radius_sq(noise: Noise, dimension: int, p_a: Fraction, p_b: Fraction) -> int:
    """Theorem 3: the largest integer R2 such that A provably beats B at distance sqrt(R2); p_a > p_b."""
    best = 0
    for r in reversed(_widths(noise)):  # the largest r comes close at once, the others refine it
        best = _gallop(partial(_a_beats_b, noise, dimension, r, p_a, p_b), best)
    return best


def _a_beats_b(noise: Noise, dimension: int, r: Fraction, p_a: Fraction, p_b: Fraction, distance_sq: int) -> bool:
    """Equation (13): least(A) > 1 - least(not B)."""

    def attempt() -> bool | None:
        from flint import ctx

        channel = _channel(noise, dimension, r, ctx.prec)
        if channel is None:
            return False
        quantiles = (_quantile(noise, dimension, r, p, ctx.prec) for p in (p_a, 1 - p_b))
        return _certainly_less(1, sum((channel.least(q, distance_sq) for q in quantiles), start=ball(Fraction(0))))

    return bool(decide(attempt))


@lru_cache(maxsize=256)
def _quantile(noise: Noise, dimension: int, r: Fraction, p: Fraction, bits: int) -> arb:
    channel = _channel(noise, dimension, r, bits)
    assert channel is not None
    return channel.quantile(p)


def _certainly_less(x: arb | int, y: arb | int) -> bool | None:
    """Whether x < y; None if the balls do not tell."""
    if x < y:
        return True
    return False if x >= y else None


def _gallop(holds: Callable[[int], bool], low: int) -> int:
    """The largest integer from low on for which `holds`, given that it holds at low and, once false, stays false."""
    step = 1
    while holds(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _paper_radius_sq(noise: Noise, p: Fraction) -> int:
    """Section 7: the square of the largest t >= 0 with P[n <= t] <= p, and 0 if there is none."""

    def at_most_p(t: int) -> bool:
        from flint import ctx

        return bool(decide(lambda: _certainly_less(noise.cdf(t, ctx.prec), ball(p))))  # never equal: transcendental

    return _gallop(at_most_p, 0) ** 2


# --- certificates ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certifier:
    """Algorithm 1 after the votes are counted: everything that fixes the map from votes to a radius.

    bound "sound" is Theorem 1 or 2; "paper" is the paper's table in its safe form, which is not proved for directions
    other than the axes. form "one" uses the votes of the chosen class alone; "two" also those of the runner-up, at
    the price of sharing alpha among all `classes`.
    """

    noise: Noise
    dimension: int
    n: int
    alpha: Fraction
    bound: Bound = "sound"
    form: Literal["one", "two"] = "one"
    classes: int | None = None

    def __post_init__(self) -> None:
        parse_alpha(self.alpha)
        _check_votes(0, self.n)
        if not 1 <= self.dimension <= LARGEST_DIMENSION:
            raise IntrsError(f"an image must have between 1 and {LARGEST_DIMENSION} values, not {self.dimension}")
        self._check_choices()
        if self.tau >= self.alpha:
            raise IntrsError(
                f"alpha {float(self.alpha):g} leaves nothing after {float(self.tau):.3g}, the error of the noise table "
                f"over {self.n} samples of {self.dimension} values; raise alpha or lower n"
            )

    def _check_choices(self) -> None:
        if self.bound not in BOUNDS or self.form not in ("one", "two"):
            raise IntrsError(f"bound must be sound or paper and form one or two, not {self.bound!r} and {self.form!r}")
        if self.bound == "paper" and (self.noise.kind, self.form) != ("discrete", "one"):
            raise IntrsError("the paper's bound is for discrete noise in its one-class form; take the bound `sound`")
        if self.form == "two" and (self.classes is None or self.classes < 2):
            raise IntrsError("the two-class form shares alpha among the classes: say how many there are (at least 2)")

    @property
    def tau(self) -> Fraction:
        """What the finite noise table costs, equation (16)."""
        return self.noise.tau(self.n, self.dimension)

    @property
    def level(self) -> Fraction:
        """What is left of alpha for the confidence bounds."""
        return self.alpha - self.tau

    def radius_sq(self, votes: int) -> int | None:
        """The certified squared radius for this many votes; None is an abstention."""
        self._require("one")
        return self.radius_sq_at(lower_bound(votes, self.n, self.level))

    def radius_sq_two(self, votes_a: int, votes_b: int) -> int | None:
        """The same from the votes of the chosen class and the most votes of any other: Theorem 3 and Lemma 7."""
        self._require("two")
        if votes_a + votes_b > self.n:
            raise IntrsError(f"{votes_a} and {votes_b} votes are more than the {self.n} samples")
        level = self.level / (self.classes or 2)
        p_a = lower_bound(votes_a, self.n, level)
        p_b = min(upper_bound(votes_b, self.n, level), 1 - p_a)
        return _two_class_radius_sq(self.noise, self.dimension, p_a, p_b) if p_a > p_b else None

    def radius_sq_of(self, votes: int, rest: int) -> int | None:
        """The same in either form, from the votes of the chosen class and the most votes of any other."""
        return self.radius_sq(votes) if self.form == "one" else self.radius_sq_two(votes, rest)

    def judge(self, label: int, counts: Sequence[int]) -> Certified | Abstained:
        """The certificate of the class `label`, chosen beforehand from other samples, given all the votes."""
        if not 0 <= label < len(counts) or sum(counts) != self.n:
            raise IntrsError(f"votes {list(counts)} do not fit {self.n} samples and the class {label}")
        if self.form == "two" and len(counts) != self.classes:
            raise IntrsError(f"votes for {len(counts)} classes, but alpha was shared among {self.classes}")
        votes, found = counts[label], self.radius_sq_of(counts[label], runner_up(label, counts))
        if found is None:
            return Abstained(votes, self.n, self.alpha, self._why_not(votes))
        return Certified(label, found, votes, self.n, self.alpha)

    def for_samples(self, n: int) -> Certifier:
        """The same for n samples."""
        return replace(self, n=n)

    def at(self, n: int, level: Fraction) -> Certifier:
        """The same for n votes, with this `level` left for the confidence bounds."""
        return replace(self, n=n, alpha=level + self.noise.tau(n, self.dimension))

    def largest(self) -> int | None:
        """The squared radius if every sample votes alike; None if this setting can only abstain."""
        return self.radius_sq_of(self.n, 0)

    def least_votes(self) -> int | None:
        """The fewest votes that can give a certificate, be it of radius 0; None if this setting can only abstain."""
        return _least_votes(self)

    def table(self, progress: Callable[[int, int], object] | None = None) -> RadiusTable:
        """The whole map from votes to squared radius, for devices that can only look up."""
        self._require("one")
        if not self.noise.on_integers:
            raise IntrsError("tables are for integer noise: a device that can only look up has no floats to draw")
        start = self._table_start()
        values, guesses = np.empty(self.n + 1 - start, np.int64), [0, 0, 0, 0]
        for i, votes in enumerate(range(start, self.n + 1)):
            j = _lower(votes, self.n, self.level, _extrapolate(guesses) if i >= len(guesses) else None)
            guesses = [*guesses[1:], j]
            values[i] = self.radius_sq_at(Fraction(j, ONE))
            if progress and (i % 256 == 255 or votes == self.n):
                progress(i + 1, len(values))
        values.setflags(write=False)
        return RadiusTable(self, start, values)

    def _table_start(self) -> int:
        return self.least_votes() or self.n + 1

    def _require(self, form: str) -> None:
        if self.form != form:
            raise IntrsError(f"this certifier was made for the {self.form}-class form; make one with form={form!r}")

    def radius_sq_at(self, p: Fraction) -> int | None:
        """The squared radius of a class whose probability is at least p; None if p is not more than 1/2."""
        self._require("one")
        if p <= Fraction(1, 2):
            return None
        if self.bound == "paper":
            return _paper_radius_sq(self.noise, p)
        return _one_class_radius_sq(self.noise, self.dimension, p)

    def _best_case(self, votes: int) -> int | None:
        """The radius if the other votes are spread as evenly as can be."""
        if self.form == "one":
            return self.radius_sq(votes)
        return self.radius_sq_two(votes, -(-(self.n - votes) // ((self.classes or 2) - 1)))

    def _why_not(self, votes: int) -> str:
        if (least := self.least_votes()) is None:
            return f"{self.n} samples cannot certify anything at alpha {float(self.alpha):g}; take more"
        if self.form == "two" and votes >= least:
            return f"{votes} of {self.n} votes are too close to the runner-up at alpha {float(self.alpha):g}"
        return f"{votes} of {self.n} votes; at least {least} are needed at alpha {float(self.alpha):g}"


def runner_up(label: int, counts: Sequence[int]) -> int:
    """The most votes of any class but `label`."""
    return max((c for i, c in enumerate(counts) if i != label), default=0)


@lru_cache(maxsize=64)
def _least_votes(certifier: Certifier) -> int | None:
    low, high = 0, certifier.n  # no votes never certify
    if certifier._best_case(high) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if certifier._best_case(middle) is not None else (middle, high)
    return high


def _extrapolate(last: list[int]) -> int:
    """The cubic through four equidistant values, one place on."""
    a, b, c, d = last
    return 4 * d - 6 * c + 4 * b - a


# --- tables ----------------------------------------------------------------------------------------------------------

MAGIC = b"intrsrt1"
HEADER = struct.Struct("<8sIIQQ16s16s16s16sQQQQ")  # magic, kind, bound, sigma, alpha, eta, dimension, n, start, count


@dataclass(frozen=True, eq=False)
class RadiusTable:
    """votes -> squared radius for one certifier: values[votes - start], and an abstention below start."""

    certifier: Certifier
    start: int
    values: NDArray[np.int64]

    def radius_sq(self, votes: int) -> int | None:
        """What the certifier says, looked up."""
        _check_votes(votes, self.certifier.n)
        return int(self.values[votes - self.start]) if votes >= self.start else None

    def to_bytes(self) -> bytes:
        """The canonical form, little-endian: HEADER, the values, the SHA-256 of all before it."""
        c = self.certifier
        wide = (*c.alpha.as_integer_ratio(), *c.noise.eta.as_integer_ratio())
        fixed = (MAGIC, KINDS.index(c.noise.kind), BOUNDS.index(c.bound), *c.noise.sigma.as_integer_ratio())
        sizes = (c.dimension, c.n, self.start, len(self.values))
        body = HEADER.pack(*fixed, *(w.to_bytes(16, "little") for w in wide), *sizes)
        body += self.values.astype("<i8").tobytes()
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes, *, trusted: bool = False) -> RadiusTable:
        """Read the canonical form. Unless trusted, the table is computed anew and must be equal bit for bit.

        A trusted table is still refused if it is damaged, that is if its hash or its shape is wrong.
        """
        table = _parse_table(data)
        if trusted:
            return table
        if table.start != table.certifier._table_start() or table.certifier.table().to_bytes() != data:
            raise IntrsError("radius table: some entries are not what their votes certify; this table was altered")
        return table

    def write(self, path: Path | str) -> None:
        """Write the canonical form to a file that must not exist."""
        try:
            with Path(path).open("xb") as file:
                file.write(self.to_bytes())
        except OSError as error:
            raise IntrsError(f"radius table: cannot write {path}: {error.strerror}") from error

    @classmethod
    def read(cls, path: Path | str, *, trusted: bool = False) -> RadiusTable:
        """Read a file that `write` wrote."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise IntrsError(f"radius table: cannot read {path}: {error.strerror}") from error
        return cls.from_bytes(data, trusted=trusted)


def _parse_table(data: bytes) -> RadiusTable:
    body, digest = data[:-32], data[-32:]
    if len(body) < HEADER.size or not body.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        raise IntrsError("radius table: not a table, or damaged; write it again with Certifier.table")
    _, kind, bound, sigma_num, sigma_den, *wide, dimension, n, start, count = HEADER.unpack_from(body)
    alpha_num, alpha_den, eta_num, eta_den = (int.from_bytes(w, "little") for w in wide)
    if kind >= len(KINDS) or bound >= len(BOUNDS) or not (sigma_den and alpha_den and eta_den):
        raise IntrsError("radius table: the header holds values that no table has")
    noise = Noise.of(KINDS[kind], Fraction(sigma_num, sigma_den))
    certifier = Certifier(noise, dimension, n, Fraction(alpha_num, alpha_den), BOUNDS[bound])
    if noise.eta != Fraction(eta_num, eta_den):
        raise IntrsError("radius table: made for a noise table of another error eta; write it again")
    if start + count != n + 1 or len(body) != HEADER.size + 8 * count:
        raise IntrsError("radius table: its length does not fit the number of samples")
    values = np.frombuffer(body, "<i8", offset=HEADER.size).astype(np.int64)
    if np.any(np.diff(values, prepend=0) < 0):
        raise IntrsError("radius table: more votes must not give a smaller radius; this table was altered")
    values.setflags(write=False)
    return RadiusTable(certifier, start, values)


# --- Algorithm 2 -----------------------------------------------------------------------------------------------------


def prediction_passes(n_a: int, n_b: int, alpha: Fraction) -> bool:
    """Theorem 8: whether the two-sided p-value of n_a wins against n_b under a fair coin is at most alpha.

    Charge the noise table first: pass alpha - tau. The decision is exact, ties included.
    """
    if not 0 <= n_b <= n_a:
        raise IntrsError(f"the winner's {n_a} votes must be at least the runner-up's {n_b}")
    return n_a > n_b and _coin_tail_at_most(n_a, n_a + n_b, alpha / 2)


def least_wins(m: int, alpha: Fraction) -> int | None:
    """The least n_a that passes against m - n_a; None if none does."""
    low, high = m // 2, m  # an equal count never passes
    if not prediction_passes(m, 0, alpha):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if prediction_passes(middle, m - middle, alpha) else (middle, high)
    return high


def least_wins_table(largest: int, alpha: Fraction) -> NDArray[np.int64]:
    """least_wins for m = 0 .. largest; m + 1 stands for none. It grows by 0 or 1 from one m to the next."""
    found = np.empty(largest + 1, np.int64)
    least = 1
    for m in range(largest + 1):
        if least <= m and not prediction_passes(least, m - least, alpha):
            least += 1
        found[m] = least
    return found


def _coin_tail_at_most(wins: int, m: int, level: Fraction) -> bool:
    """Whether P[Bin(m, 1/2) >= wins] <= level: by balls, and in integers if they cannot tell."""
    from flint import ctx

    if level <= 0:
        return False
    for bits in SERIES_BITS[1:3]:
        with ctx.workprec(bits + P_BITS):
            tail, _ = _binomial_tail(wins, m, ONE // 2, bits)
            if (above := _certainly_less(ball(level), tail)) is not None:
                return not above
    return sum(math.comb(m, i) for i in range(wins, m + 1)) * level.denominator <= level.numerator << m
