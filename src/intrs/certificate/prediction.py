"""The test of Algorithm 2: whether the winner beat the runner-up by more than a fair coin would. Theorem 8."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from intrs.balls import at_precision, ball, certainly_less
from intrs.certificate.confidence import CONFIDENCE_BITS, ONE, SERIES_BITS, binomial_tail
from intrs.errors import SettingsError
from intrs.search import first_that_holds

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray


def prediction_passes(n_a: int, n_b: int, alpha: Fraction) -> bool:
    """Theorem 8: whether the two-sided p-value of n_a wins against n_b under a fair coin is at most alpha.

    Charge the noise table first: pass alpha - tau. The decision is exact, ties included.
    """
    if not 0 <= n_b <= n_a:
        raise SettingsError(f"the winner's {n_a} votes must be at least the runner-up's {n_b}")
    return n_a > n_b and _coin_tail_at_most(n_a, n_a + n_b, alpha / 2)


def least_wins(m: int, alpha: Fraction) -> int | None:
    """The least n_a that passes against m - n_a; None if none does."""
    if not prediction_passes(m, 0, alpha):
        return None
    return first_that_holds(lambda n_a: prediction_passes(n_a, m - n_a, alpha), m // 2, m)  # a tie never passes


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
    if level <= 0:
        return False
    for bits in SERIES_BITS[1:3]:
        with at_precision(bits + CONFIDENCE_BITS):
            tail, _ = binomial_tail(wins, m, ONE // 2, bits)
            if (above := certainly_less(ball(level), tail)) is not None:
                return not above
    return sum(math.comb(m, i) for i in range(wins, m + 1)) * level.denominator <= level.numerator << m
