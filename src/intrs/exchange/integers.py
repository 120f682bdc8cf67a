"""From the scales of a file to the integers of a network, in exact rational arithmetic.

Scales come in as `Fraction`s of the floats in the file and leave as multipliers and shifts. No float is computed, so
the same file gives the same integers on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from intrs.exchange.refusal import Refusal
from intrs.network import INT8, Quantiser, Rescale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.network import Shape

INT32 = 2**31 - 1
HALF = Fraction(1, 2)
MAX_ADD_MULTIPLIER = 2**29 - 1
MAX_CODE, MIN_CODE = INT8[1], INT8[0]
Clamp = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """Which real number a code stands for: scale * (code - zero)."""

    scale: Fraction
    zero: int

    def code(self, value: Fraction) -> int:
        """The code nearest to a real number, half up, saturated."""
        return clamped(half_up(value / self.scale) + self.zero, INT8)

    def value(self, code: int) -> Fraction:
        """The real number of a code."""
        return self.scale * (code - self.zero)


def half_up(value: Fraction) -> int:
    """Round to the nearest integer, a tie upwards: what RESCALE does."""
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def clamped(code: int, clamp: Clamp) -> int:
    """`code` within the clamp."""
    return min(max(code, clamp[0]), clamp[1])


def square_root(value: Fraction) -> Fraction:
    """The square root of a positive rational, rounded down at the 96th bit: the same on every machine."""
    bits = 96 + max(0, value.denominator.bit_length() - value.numerator.bit_length())
    return Fraction(isqrt((value.numerator << (2 * bits)) // value.denominator), 1 << bits)


def scaled(ratio: Fraction) -> tuple[int, int]:
    """(multiplier, shift) with multiplier / 2**shift nearest to the ratio: 31 significant bits, shift in 2 .. 62."""
    if ratio == 0:
        return 0, 30
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()  # of the ratio, or one too high
    shift = min(31 - exponent, 62)
    while shift >= 2 and (multiplier := _times_power(ratio, shift)) > INT32:
        shift -= 1
    if shift < 2:
        raise Refusal(f"the ratio of its input and output scales, about 2^{exponent}, is absurd")
    return multiplier, shift


def _times_power(ratio: Fraction, shift: int) -> int:
    """`ratio * 2**shift` rounded half up."""
    return ((ratio.numerator << (shift + 1)) + ratio.denominator) // (2 * ratio.denominator)


def rescale(ratios: Sequence[Fraction]) -> Rescale:
    """RESCALE by these ratios, one per channel; equal ones become a single entry."""
    pairs = [scaled(ratio) for ratio in ratios]
    if len(set(pairs)) == 1:
        pairs = pairs[:1]
    return Rescale(np.array([m for m, _ in pairs], np.int32), np.array([s for _, s in pairs], np.int8))


class AddIntegers(NamedTuple):
    """The integers of an Add layer."""

    multipliers: tuple[int, int]
    shift: int


def add_integers(a: Grid, b: Grid, scale: Fraction) -> AddIntegers:
    """Multipliers of an Add onto `scale`, with the largest shift that keeps its sum within 32 bits."""
    reach = [max(abs(MIN_CODE - g.zero), abs(MAX_CODE - g.zero)) for g in (a, b)]
    for shift in range(30, 0, -1):
        pair = half_up(a.scale / scale * 2**shift), half_up(b.scale / scale * 2**shift)
        most = reach[0] * pair[0] + reach[1] * pair[1] + (1 << (shift - 1))
        if most <= INT32 and max(pair) <= MAX_ADD_MULTIPLIER:
            return AddIntegers(pair, shift)
    raise Refusal("the scales of its inputs are absurdly large beside that of its output")


class Line(NamedTuple):
    """code = slope * pixel + offset before rounding: what the input quantiser has to compute in one channel."""

    slope: Fraction
    offset: Fraction


class _Channel(NamedTuple):
    low: int
    high: int
    multiplier: int
    offset: int


def quantiser(shape: Shape, lines: Sequence[Line]) -> Quantiser:
    """The integers that round these lines half up, with the largest common shift whose products fit 32 bits.

    Where codes change is compared exactly with the rational line, at every code: see `_fit`.
    """
    distinct = {line: _thresholds(line) for line in dict.fromkeys(lines)}
    for shift in range(30, 0, -1):
        fitted = {line: _fit(line, thresholds, shift) for line, thresholds in distinct.items()}
        if all(_fits(channel) for channel in fitted.values()):
            break
    else:
        raise Refusal("the scale of the input quantiser is absurd: its products do not fit 32 bits")
    for line, channel in fitted.items():
        _check(line, channel, distinct[line], shift)
    columns = np.array([fitted[line] for line in lines], np.int32).T
    low, high, multiplier, offset = (np.ascontiguousarray(column) for column in columns)
    return Quantiser(*shape, low=low, high=high, multiplier=multiplier, offset=offset, shift=shift)


def _thresholds(line: Line) -> list[int]:
    """For each code k from -127 to 127 the smallest x with code(x) >= k; x = pixel, or -pixel on a falling line."""
    slope = abs(line.slope)
    if slope == 0:
        return []
    return [ceil((k - HALF - line.offset) / slope) for k in range(MIN_CODE + 1, MAX_CODE + 1)]


def _fit(line: Line, thresholds: list[int], shift: int) -> _Channel:
    """Multiplier and offset that give the exact code on both sides of every threshold, if there are any.

    The product is monotone in the pixel, so being right at all x = t and x = t - 1 is being right everywhere.
    """
    unit = 1 << shift
    if not thresholds:
        return _Channel(0, 0, 0, clamped(half_up(line.offset), INT8) * unit)
    ideal = abs(line.slope) * unit
    nearest = half_up(ideal)
    nominal = _Channel(thresholds[0] - 1, thresholds[-1], nearest, half_up((line.offset + HALF) * unit))
    fitted = nominal
    if _fits(nominal):  # else the shift is too large, and the search for an offset in vain
        for multiplier in (nearest, nearest + 1 if nearest < ideal else nearest - 1):
            floor, roof = _offsets(multiplier, thresholds, unit)
            if floor <= roof:
                fitted = nominal._replace(multiplier=multiplier, offset=clamped(nominal.offset, (floor, roof)))
                break
    return fitted if line.slope > 0 else _Channel(-fitted.high, -fitted.low, -fitted.multiplier, fitted.offset)


def _offsets(multiplier: int, thresholds: list[int], unit: int) -> Clamp:
    """The offsets with which `x * multiplier + offset` reaches code k at x = t and not at t - 1, at all thresholds."""
    codes = range(MIN_CODE + 1, MAX_CODE + 1)
    floor = max(k * unit - multiplier * t for k, t in zip(codes, thresholds, strict=True))
    roof = min(k * unit - 1 - multiplier * (t - 1) for k, t in zip(codes, thresholds, strict=True))
    return floor, roof


def _fits(channel: _Channel) -> bool:
    low, high, multiplier, offset = channel
    products = low * multiplier, high * multiplier
    sums = [p + offset for p in products]
    return max(map(abs, (low, high, multiplier, offset, *products, *sums))) <= INT32


def _check(line: Line, channel: _Channel, thresholds: list[int], shift: int) -> None:
    """Where no integers are right at every pixel, the wrong ones must be ties for all practical purposes."""
    sign = 1 if line.slope > 0 else -1
    for x in {t - back for t in thresholds for back in (0, 1)}:
        value = line.slope * sign * x + line.offset
        code = clamped((sign * x * channel.multiplier + channel.offset) >> shift, INT8)
        if code != clamped(half_up(value), INT8) and abs(value + HALF - round(value + HALF)) > Fraction(1, 2**12):
            raise Refusal(
                "the scale of the input quantiser is absurd: 32 bits cannot hold it with enough precision. Are mean "
                "and std those of its input? For pixels / 255 (unit) they are fractions, for 0..255 (byte) levels"
            )
