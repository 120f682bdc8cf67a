"""When to look at the votes, and how much of alpha may be spent by then: docs/adaptive.md, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING

from intrs.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST, GRAIN = 64, 32  # samples: the first look, and what all looks but a cap are multiples of, to fill vector lanes
CLOSE, WIDE = Fraction(11, 10), Fraction(3, 2)  # ratios of one look to the one before
RESERVE = Fraction(1, 20)  # of what is left of alpha: kept at every cap for an extension beyond it
LEVEL_BITS = 96  # levels are multiples of 2^-96, rounded down


@dataclass(frozen=True, repr=False)
class Schedule:
    """spent[k] is what may be spent of alpha up to looks[k]; caps are the looks at which a run may end."""

    looks: tuple[int, ...]
    spent: tuple[Fraction, ...]
    caps: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Schedule({len(self.looks)} looks from {self.looks[0]} to {self.looks[-1]} samples, caps={self.caps})"

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """What each look may spend by itself."""
        return tuple(now - before for before, now in pairwise((Fraction(0), *self.spent)))

    def shares(self) -> tuple[Fraction, ...]:
        """sqrt(n / cap) of the last cap: the pace at which giving up is spent, rounded down."""
        return tuple(Fraction(_pace(n), _pace(self.looks[-1])) for n in self.looks)


def schedule(
    caps: Sequence[int], levels: Sequence[Fraction], ratio: Fraction, kept: Fraction = Fraction(0)
) -> Schedule:
    """The looks up to every cap in turn. levels[j] is alpha less the noise error of caps[j] samples.

    Up to a cap all but RESERVE of what is left may be spent: `kept` of it at the cap, the rest at the pace of sqrt(n).
    Nothing up to one cap depends on those after it, so that a run can be extended.
    """
    looks: list[int] = []
    spent: list[Fraction] = []
    begin, before = 0, Fraction(0)
    for cap, level in zip(caps, levels, strict=True):
        budget = (1 - RESERVE) * (level - before)
        if cap <= begin or budget <= 0:
            raise SettingsError(
                f"nothing of alpha is left for an extension to {cap} samples; begin a run of its own, with another seed"
            )
        span = _pace(cap) - _pace(begin)
        for n in _between(begin, cap, ratio):
            looks.append(n)
            spent.append(_round_down(before + budget * (1 - kept) * Fraction(_pace(n) - _pace(begin), span)))
        looks.append(cap)
        begin, before = cap, _round_down(before + budget)
        spent.append(before)
    return Schedule(tuple(looks), tuple(spent), tuple(caps))


def _between(begin: int, cap: int, ratio: Fraction) -> Iterator[int]:
    """The geometric grid above `begin`, up to a ratio below `cap`. It is the same for every begin and cap."""
    n = FIRST
    while n * ratio < cap:
        if n > begin:
            yield n
        n = max(n + GRAIN, -(-ratio * n // GRAIN) * GRAIN)


def _pace(n: int) -> int:
    """2^32 sqrt(n), rounded down."""
    return isqrt(n << 64)


def _round_down(level: Fraction) -> Fraction:
    return Fraction((level.numerator << LEVEL_BITS) // level.denominator, 1 << LEVEL_BITS)
