"""Confidence: alpha, and the bounds of Clopper and Pearson on a class's probability, as multiples of 2^-64."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from intrs.balls import at_precision, ball, choose, strictly_below, unique_integer
from intrs.errors import SettingsError
from intrs.exact import MOST_VOTES, Count, Number, parse_count, parse_fraction
from intrs.search import last_that_holds

if TYPE_CHECKING:
    from flint import arb

LARGEST_ALPHA, LARGEST_ALPHA_DENOMINATOR = Fraction(999, 1000), 10**36
CONFIDENCE_BITS = 64  # confidence bounds are multiples of 2^-64
ONE = 1 << CONFIDENCE_BITS
SERIES_BITS = (80, 80, 160, 320, 640, 1280)  # fixed-point precision of the binomial series, at each attempt


def parse_alpha(value: Number) -> Fraction:
    """The permitted probability of a wrong certificate, as an exact fraction above 0 and at most 0.999."""
    alpha, given = parse_fraction(value, "alpha"), str(value).strip()
    if not 0 < alpha < 1 or alpha.denominator > LARGEST_ALPHA_DENOMINATOR:
        raise SettingsError(f"alpha must lie between 0 and 1, such as 0.001, got {given}")
    if alpha > LARGEST_ALPHA:
        raise SettingsError(
            f"alpha, the probability of a wrong answer, must be at most {float(LARGEST_ALPHA)}, got {given}"
        )
    return alpha


def parse_samples(n: Count) -> int:
    """The number of votes that are counted."""
    return parse_count(n, "n, the number of samples", most=MOST_VOTES)


def lower_bound(votes: int, n: int, alpha: Fraction) -> Fraction:
    """Equation (17): the largest multiple of 2^-64 below the p at which P[Bin(n, p) >= votes] = alpha."""
    votes, n = parse_votes(votes, n)
    return Fraction(lower_multiple(votes, n, alpha), ONE)


def upper_bound(votes: int, n: int, alpha: Fraction) -> Fraction:
    """Equation (18): the smallest multiple of 2^-64 above the p at which P[Bin(n, p) <= votes] = alpha."""
    votes, n = parse_votes(votes, n)
    return 1 - Fraction(lower_multiple(n - votes, n, alpha), ONE)


def parse_votes(votes: Count, n: Count) -> tuple[int, int]:
    """Votes for one class, of n samples, as Python's integers: NumPy's would overflow."""
    samples, found = parse_samples(n), parse_count(votes, "votes", least=0)
    if found > samples:
        raise SettingsError(f"{found} votes of {samples} samples make no sense: votes cannot be more than samples")
    return found, samples


def lower_multiple(votes: int, n: int, alpha: Fraction, guess: int | None = None) -> int:
    """lower_bound * 2^64. A guess saves time and nothing else: the answer is proved."""
    if votes == 0:
        return 0
    guess = _guess(votes, n, alpha) if guess is None else guess
    for bits in SERIES_BITS:
        with at_precision(bits + CONFIDENCE_BITS):
            root = _enclose_root(votes, n, alpha, min(max(guess, 1), ONE - 1), bits)
            if root is None:
                break  # the guess is too far away
            if (found := strictly_below(root)) is not None:
                return found
            guess = unique_integer(root.mid().floor()) or guess
    return _lower_by_bisection(votes, n, alpha)


def _lower_by_bisection(votes: int, n: int, alpha: Fraction) -> int:
    """The same by its definition alone; slow. It serves exact ties and roots within a step or two of 0 or 1."""
    return last_that_holds(lambda j: j < ONE and _tail_is_below(votes, n, j, alpha), 0)


def _tail_is_below(votes: int, n: int, j: int, alpha: Fraction) -> bool:
    """Whether P[Bin(n, j / 2^64) >= votes] < alpha; a tie is not below."""
    for bits in SERIES_BITS:
        with at_precision(bits + CONFIDENCE_BITS):
            tail, _ = binomial_tail(votes, n, j, bits)
            if tail < ball(alpha) or tail >= ball(alpha):
                return bool(tail < ball(alpha))
    return False


def _enclose_root(votes: int, n: int, alpha: Fraction, j: int, bits: int) -> arb | None:
    """Lemma 6: a ball about 2^64 times the root of P[Bin(n, p) >= votes] = alpha, from one evaluation at j / 2^64.

    None if j is too far away for the lemma.
    """
    tail, slope = binomial_tail(votes, n, j, bits)
    step, p = (ball(alpha) - tail) / slope, ball(Fraction(j, ONE))
    width = (2 * abs(step)).upper()
    around = (p - width).union(p + width)
    if not 0 < around < 1:
        return None
    bend = width * abs((votes - 1) / around - (n - votes) / (1 - around))
    if not bend < ball(Fraction(1, 2)):
        return None
    return (p + step * (-bend).union(bend).exp()) * ONE


def binomial_tail(votes: int, n: int, j: int, bits: int) -> tuple[arb, arb]:
    """P[Bin(n, p) >= votes] and its derivative at p = j / 2^64, votes >= 1: equations (19) to (21)."""
    p = ball(Fraction(j, ONE))
    mass = choose(n, votes) * p**votes * (1 - p) ** (n - votes)
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
