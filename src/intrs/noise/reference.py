"""The exact samplers: slow, without a table and without its error. What the tables are tested against."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from intrs.balls import BITS, at_precision
from intrs.noise.table import THRESHOLD_BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flint import arb

    from intrs.noise.law import Noise


def sample_exact(noise: Noise, below: Callable[[int], int]) -> int:
    """One value of the noise from its exact law, eta = 0, in rational arithmetic: the slow reference.

    below(n) must return a uniform integer in 0 .. n-1.
    """
    noise.require_integers()
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

    def scaled(k: int) -> arb:
        return noise.cdf(k, bits + BITS) * (1 << bits)

    table = noise.table()
    k = table.first + int(np.searchsorted(table.thresholds, np.uint64(u >> (bits - THRESHOLD_BITS)), side="right"))
    with at_precision(bits + BITS):
        while scaled(k - 1) >= u + 1:
            k -= 1
        while scaled(k) <= u:
            k += 1
        return k if scaled(k - 1) <= u and scaled(k) >= u + 1 else None
