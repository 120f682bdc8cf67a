"""Interval arithmetic on Python integers for the checkers: nothing here comes from the package that is checked.

An Interval encloses a real number between lo / 2^P and hi / 2^P. Every operation rounds lo down and hi up.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import isqrt
from typing import NamedTuple

P = 224
UNIT = 1 << P


class Interval(NamedTuple):
    """All reals from lo / 2^P to hi / 2^P."""

    lo: int
    hi: int

    def plus(self, other: Interval) -> Interval:
        """Sum."""
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def minus(self, other: Interval) -> Interval:
        """Difference."""
        return Interval(self.lo - other.hi, self.hi - other.lo)

    def times(self, other: Interval) -> Interval:
        """Product."""
        products = [a * b for a in self for b in other]
        return Interval(min(products) >> P, -(-max(products) >> P))

    def over(self, divisor: int) -> Interval:
        """Quotient by a positive integer."""
        return Interval(self.lo // divisor, -(-self.hi // divisor))

    def inverse(self) -> Interval:
        """Reciprocal of something positive."""
        assert self.lo > 0
        return Interval(UNIT * UNIT // self.hi, -(-UNIT * UNIT // self.lo))

    def root(self) -> Interval:
        """Square root of something that is not negative."""
        return Interval(isqrt(self.lo * UNIT), isqrt(self.hi * UNIT) + 1)

    def magnitude(self) -> Interval:
        """Absolute value."""
        lowest = 0 if self.lo <= 0 <= self.hi else min(abs(self.lo), abs(self.hi))
        return Interval(lowest, max(abs(self.lo), abs(self.hi)))


def real(value: Fraction | int) -> Interval:
    """The tightest interval about a fraction."""
    scaled = Fraction(value) * UNIT
    return Interval(scaled.numerator // scaled.denominator, -(-scaled.numerator // scaled.denominator))


@cache
def pi() -> Interval:
    """Machin: 16 arctan(1/5) - 4 arctan(1/239)."""
    return _arctan_of_inverse(5).times(real(16)).minus(_arctan_of_inverse(239).times(real(4)))


def _arctan_of_inverse(q: int) -> Interval:
    """The alternating series 1/q - 1/3q^3 + ..., between its last two partial sums."""
    total, power, k = real(0), real(Fraction(1, q)), 0
    while power.hi > 1:
        term = power.over(2 * k + 1)
        total = total.plus(term) if k % 2 == 0 else total.minus(term)
        power, k = power.over(q * q), k + 1
    return Interval(total.lo - 1, total.hi + 1)  # the first term left out is below 2^-P


def exp(x: Interval) -> Interval:
    """exp(x) as exp(x / 2^m)^(2^m), the inner one by Taylor's series on [-1/16, 1/16]."""
    m = max(0, max(abs(x.lo), abs(x.hi)).bit_length() - P + 4)
    inner = Interval(x.lo >> m, -(-x.hi >> m))
    total, term, k = real(1), real(1), 1
    while max(abs(term.lo), abs(term.hi)) > 1:
        term = term.times(inner).over(k)
        total, k = total.plus(term), k + 1
    total = Interval(total.lo - 2, total.hi + 2)  # what is left out is below the last term, itself at most 2^-P
    for _ in range(m):
        total = total.times(total)
    return total


def poisson_excess(t_squared: Fraction) -> Interval:
    """2 * sum over k >= 1 of exp(-2 pi^2 t^2 k^2)."""
    first = exp(pi().times(pi()).times(real(-2 * t_squared)))
    total, power, odd = real(0), first, first.times(first).times(first)
    square = first.times(first)
    while power.hi > 1:  # power = first^(k^2), odd = first^(2k+1)
        total, power, odd = total.plus(power), power.times(odd), odd.times(square)
    assert first.hi * 2 < UNIT
    return Interval(2 * total.lo, 2 * (total.hi + 2 * power.hi + 2))


def normal_cdf(z: Interval) -> Interval:
    """Phi(z) for z >= 0, monotone: the ends one by one."""
    return Interval(_normal_cdf_at(z.lo).lo, _normal_cdf_at(z.hi).hi)


def _normal_cdf_at(z: int) -> Interval:
    """1/2 + exp(-z^2/2) / sqrt(2 pi) * (z + z^3/3 + z^5/(3*5) + ...), every term positive."""
    point = Interval(z, z)
    square = point.times(point)
    total, term, k = real(0), point, 1
    while term.hi > 1 or 2 * square.hi > (2 * k + 1) * UNIT:
        total, term, k = total.plus(term), term.times(square).over(2 * k + 1), k + 1
    total = Interval(total.lo, total.hi + 2 * term.hi)  # from here on each term is at most half the one before
    density = exp(square.times(real(Fraction(-1, 2)))).times(pi().times(real(2)).root().inverse())
    return real(Fraction(1, 2)).plus(density.times(total))
