"""The exact boundary of a sequential test: the fewest votes that accept at each look, by recursion over the looks.

docs/adaptive.md, section 3. Probabilities are integers over 2^bits, and every rounding is up, so what is computed is
never less than the probability that a false statement is accepted. No float, no ball: the same table everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

P_BITS = 40  # the probabilities that are tested are multiples of 2^-40
P_ONE = 1 << P_BITS
GUARD_BITS = 64  # of the terms of a binomial law, beyond those of the law
SPARE_BITS = 64  # of the recursion, beyond those of the level
HOPELESS = 1 << 24  # units of mass, 2^-40 of the level


@dataclass(frozen=True)
class Boundary:
    """accept[k] votes at look k, or more, accept; n_k + 1 is never. If p is true, P[ever accepted] <= crossing."""

    accept: tuple[int, ...]
    crossing: Fraction


def boundary(
    p: int,
    looks: Sequence[int],
    spent: Sequence[Fraction],
    least: Sequence[int] | None = None,
    level: Fraction | None = None,
) -> Boundary:
    """The lowest boundary whose probability of being reached up to look k is at most spent[k], if p / 2^40 is true.

    Greedy: each look takes the fewest votes that its share allows, and what integers leave over is carried on to the
    next. `least` are lower limits of accept, which keep the boundaries of several p from crossing each other. `level`
    (the last of spent) sets the precision; a boundary that is to be extended by more looks needs the same again.
    """
    bits = SPARE_BITS + int(1 / (level or spent[-1])).bit_length()
    state = _State([1 << bits], 0, bits)
    accept, taken, before = [], 0, 0
    for k, n in enumerate(looks):
        taken += state.advance(p, n - before)
        budget = int(spent[k] * (1 << bits)) - taken
        votes, mass = state.accept(budget, least[k] if least else 0)
        accept.append(min(votes, n + 1))
        taken, before = taken + mass, n
    return Boundary(tuple(accept), Fraction(taken, 1 << bits))


class _State:
    """The law of the votes on the paths that have not been accepted: mass[i] / 2^bits is that of first + i, or more."""

    def __init__(self, mass: list[int], first: int, bits: int) -> None:
        self.mass, self.first, self.bits = mass, first, bits

    def advance(self, p: int, samples: int) -> int:
        """Add so many samples; the mass that may lie above all that is kept is returned."""
        from flint import fmpz_poly

        low, law = binomial_law(samples, p, self.bits)
        product = (fmpz_poly(self.mass) * fmpz_poly(law)).coeffs()
        self.mass, self.first = [-(-int(c) >> self.bits) for c in product], self.first + low
        return 2  # binomial_law leaves less than one unit above its last term, of a mass that is hardly more than one

    def accept(self, budget: int, least: int) -> tuple[int, int]:
        """Take the highest votes, as many as the budget allows, but none below `least`: the fewest, and their mass."""
        end, mass = len(self.mass), 0
        while end > max(least - self.first, 0) and mass + self.mass[end - 1] <= budget:
            end -= 1
            mass += self.mass[end]
        votes = max(self.first + end, least)
        self.mass = self.mass[:end]
        self._raise_the_lowest()
        return votes, mass

    def _raise_the_lowest(self) -> None:
        """Give the paths with hopelessly few votes more of them, which only makes acceptance likelier."""
        low, mass = 0, 0
        while low < len(self.mass) - 1 and mass + self.mass[low] <= HOPELESS:
            mass += self.mass[low]
            low += 1
        self.mass, self.first = self.mass[low:], self.first + low
        self.mass[0] += mass


@lru_cache(maxsize=4096)
def binomial_law(n: int, p: int, bits: int) -> tuple[int, list[int]]:
    """Upper bounds of 2^bits P[Bin(n, p / 2^40) = i] for i = low, low + 1, ..., and that low.

    What lies below low is in the first term, where it can only be accepted sooner. Above the last term less than one
    unit is left. The terms are products of ratios, beginning at the largest term, rounded up; they are divided by
    their sum rounded down, because probabilities add up to one.
    """
    mode, one = min((n + 1) * p // P_ONE, n), 1 << (bits + GUARD_BITS)
    above, sum_above = _terms(n, p, mode, one)
    below, sum_below = _terms(n, P_ONE - p, n - mode, one)  # votes against, which mirror votes for
    total = one + sum_above + sum_below
    law = [-(-(term << bits) // total) for term in (*reversed(below), one, *above)]
    law[0] += 1
    return mode - len(below), law


def _terms(n: int, p: int, mode: int, one: int) -> tuple[list[int], int]:
    """The terms above the mode's, which is `one`, rounded up; and their sum rounded down.

    Those left out are below 2^-(bits + 32) each, so fewer than 2^32 of them are below one unit.
    """
    terms, total, high, low, q = [], 0, one, one, P_ONE - p
    for i in range(mode, n):
        numerator, denominator = (n - i) * p, (i + 1) * q
        high, low = -(-high * numerator // denominator), low * numerator // denominator
        if high >> (GUARD_BITS // 2) == 0:
            break
        terms.append(high)
        total += low
    return terms, total
