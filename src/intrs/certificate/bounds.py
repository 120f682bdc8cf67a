"""The robustness bounds: how far a class of probability p keeps the majority. Theorems 1 to 3, the paper's table."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

from intrs.balls import (
    at_precision,
    ball,
    certainly_less,
    decide,
    normal_upper_quantile,
    normal_upper_tail,
    strictly_below,
    working_bits,
)
from intrs.noise import poisson_excess
from intrs.search import last_that_holds

if TYPE_CHECKING:
    from flint import arb

    from intrs.noise import Noise

Bound = Literal["sound", "paper"]
BOUNDS: tuple[Bound, ...] = ("sound", "paper")
SMOOTHING_WIDTHS = tuple(Fraction(j, 32) for j in range(16, 33))  # of Theorem 2: any r is sound, this grid defines R2


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
        complement = (1 - self.shrink * ball(p)).min(self.grow * ball(1 - p))
        return normal_upper_quantile(complement)

    def reach(self, p: Fraction) -> arb:
        """Theorem 2: a class of probability at least p keeps the majority at every distance below this."""
        return self.s * (self.quantile(p) - self.middle)

    def least(self, quantile: arb, distance_sq: int) -> arb:
        """Equation (10): the least probability under D at this distance of an event with this `quantile`."""
        complement = normal_upper_tail(quantile - ball(distance_sq).sqrt() / self.s)
        return ((1 - complement) / self.grow).max(1 - complement / self.shrink)


@lru_cache(maxsize=256)
def _channel(noise: Noise, dimension: int, r: Fraction, bits: int) -> Channel | None:
    """Theorem 2: draw y from the continuous Gaussian of width s, then a discrete Gaussian of width r centred at y.

    None if r is so small for this dimension that the channel is useless.
    """
    sigma_sq, r_sq = noise.grid_sigma**2, r * r
    with at_precision(bits):
        if noise.kind != "discrete":
            return Channel(ball(noise.grid_sigma), ball(1), ball(1), ball(0))
        eps_sigma, eps_r, eps_w = (poisson_excess(ball(t)) for t in (sigma_sq, r_sq, r_sq * (2 - r_sq / sigma_sq)))
        shrink = ((1 + eps_sigma) * (1 - eps_w)) ** dimension
        grow = ((1 + eps_sigma) * (1 + eps_w + eps_r * eps_r / (1 - eps_r))) ** dimension
        if not (shrink > ball(Fraction(1, 2)) and grow < 2):
            return None
        middle = ball(2).sqrt() * (grow - 1).min(1 - shrink).erfinv()
        return Channel(ball(sigma_sq - r_sq).sqrt(), shrink, grow, middle)


def _widths(noise: Noise) -> tuple[Fraction, ...]:
    """The r to try, in ascending order, so that s falls; the other laws have one channel, which loses nothing."""
    return SMOOTHING_WIDTHS if noise.kind == "discrete" else (Fraction(0),)


def one_class_radius_sq(noise: Noise, dimension: int, p: Fraction) -> int:
    """Theorem 2: the largest integer strictly below the square of the largest reach, 0 if none is positive; p > 1/2."""
    return decide(lambda: _largest_square_below_reach(noise, dimension, p)) or 0


def _largest_square_below_reach(noise: Noise, dimension: int, p: Fraction) -> int | None:
    best, bare = 0, normal_upper_quantile(ball(1 - p))
    for r in _widths(noise):
        if (channel := _channel(noise, dimension, r, working_bits())) is None:
            continue
        if (channel.s * bare) ** 2 <= best + 1:
            break  # reach <= s Phi^-1(p), and s falls from here on
        reach = channel.reach(p)
        square = 0 if reach < 1 else strictly_below(reach * reach)
        if square is None:
            return None
        best = max(best, square)
    return best


def two_class_radius_sq(noise: Noise, dimension: int, p_a: Fraction, p_b: Fraction) -> int:
    """Theorem 3: the largest integer R2 such that A provably beats B at distance sqrt(R2); p_a > p_b."""
    best = 0
    for r in reversed(_widths(noise)):  # the largest r comes close at once, the others refine it
        best = last_that_holds(partial(_a_beats_b, noise, dimension, r, p_a, p_b), best)
    return best


def _a_beats_b(noise: Noise, dimension: int, r: Fraction, p_a: Fraction, p_b: Fraction, distance_sq: int) -> bool:
    """Equation (13): least(A) > 1 - least(not B)."""

    def attempt() -> bool | None:
        channel = _channel(noise, dimension, r, working_bits())
        if channel is None:
            return False
        quantiles = (_quantile(noise, dimension, r, p, working_bits()) for p in (p_a, 1 - p_b))
        return certainly_less(1, sum((channel.least(q, distance_sq) for q in quantiles), start=ball(0)))

    return bool(decide(attempt))


@lru_cache(maxsize=256)
def _quantile(noise: Noise, dimension: int, r: Fraction, p: Fraction, bits: int) -> arb:
    channel = _channel(noise, dimension, r, bits)
    assert channel is not None
    return channel.quantile(p)


def paper_radius_sq(noise: Noise, p: Fraction) -> int:
    """Section 7: the square of the largest t >= 0 with P[n <= t] <= p, and 0 if there is none."""

    def at_most_p(t: int) -> bool:
        return bool(
            decide(lambda: certainly_less(noise.cdf(t, working_bits()), ball(p)))
        )  # never equal: transcendental

    return last_that_holds(at_most_p, 0) ** 2
