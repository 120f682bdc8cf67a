"""TFLite's own arithmetic: how its kernels turn scales into integers, and what they compute with them.

Where a kernel computes with floats while it prepares, the same float operations are done here, in NumPy's float32 or
Python's float64, so that the integers are the same. `docs/tflite.md` says where the dialects differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from intrs.exchange.integers import Clamp, clamped
from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.schema import Activation
from intrs.network import INT8, Rescale

if TYPE_CHECKING:
    from collections.abc import Sequence

UNSIGNED = 128  # a uint8 code is kept less this, as int8
HIGH_BITS = 31
MIN_SHIFT = 2  # of RESCALE


@dataclass(frozen=True)
class Grid:
    """Which real number a code stands for: scale * (code - zero), the scale a float32.

    uint8 codes and their zero point are kept less 128. `unsigned` remembers that the file has uint8.
    """

    scale: np.float32
    zero: int
    unsigned: bool = False

    @property
    def real(self) -> float:
        """The scale as a float64."""
        return float(self.scale)

    def clamp(self, activation: int) -> Clamp:
        """The codes that a fused activation leaves."""
        bounds = {
            Activation.NONE: (None, None),
            Activation.RELU: (0.0, None),
            Activation.RELU_N1_TO_1: (-1.0, 1.0),
            Activation.RELU6: (0.0, 6.0),
        }
        if activation not in bounds:
            raise Refusal(f"its fused activation {activation} is not supported")
        low, high = bounds[Activation(activation)]
        return self.code(low, INT8[0]), self.code(high, INT8[1])

    def code(self, value: float | None, default: int) -> int:
        """The code of a bound, as the kernels round it; the default if there is no bound."""
        if value is None:
            return default
        return clamped(away(float(np.float32(value) / self.scale)) + self.zero, INT8)


def away(value: float) -> int:
    """Round to the nearest integer, a tie away from zero: C's round. Refused if the kernels could not hold it."""
    size = abs(value)
    if not size <= 2**HIGH_BITS:
        raise Refusal("its scales are absurd: a value leaves 32 bits")
    whole = math.floor(size)
    whole += size - whole >= 0.5  # exact, unlike floor(size + 0.5)
    return whole if value >= 0 else -whole


class Ratio(NamedTuple):
    """multiplier / 2**shift: the integers by which kernels stand for a real factor, rounded twice when applied."""

    multiplier: int
    shift: int

    @classmethod
    def of(cls, real: float) -> Ratio:
        """What QuantizeMultiplier makes of a factor."""
        if not (math.isfinite(real) and real >= 0):
            raise Refusal("the ratio of its scales is not a number")
        mantissa, exponent = math.frexp(real)
        fixed = away(mantissa * 2**HIGH_BITS)
        if fixed == 2**HIGH_BITS:
            fixed, exponent = fixed // 2, exponent + 1
        if exponent < -HIGH_BITS:
            return cls(0, HIGH_BITS)
        if HIGH_BITS - exponent < MIN_SHIFT:
            raise Refusal(f"the ratio of its input and output scales, about 2^{exponent}, is absurd")
        return cls(fixed, HIGH_BITS - exponent)

    @classmethod
    def below_one(cls, real: float) -> Ratio:
        """The same, where the kernel takes no factor from 1 on."""
        if real >= 1:
            raise Refusal("the scale of its output is absurdly small beside those of its inputs")
        return cls.of(real)

    def times(self, value: int) -> int:
        """The value times the ratio, rounded twice (`docs/arithmetic.md`)."""
        nudge = 0 if self.shift <= HIGH_BITS else (1 << 30) if value >= 0 else -(1 << 30)
        return (value * self.multiplier + (1 << (self.shift - 1)) + nudge) >> self.shift


def rescale(ratios: Sequence[Ratio]) -> Rescale:
    """RESCALE by these ratios, one per channel; equal ones become a single entry."""
    ratios = ratios[:1] if len(set(ratios)) == 1 else ratios
    return Rescale(np.array([r.multiplier for r in ratios], np.int32), np.array([r.shift for r in ratios], np.int8))


def mean_ratio(real: float, count: int) -> Ratio:
    """The ratio of a MEAN over `count` codes: kernels divide the multiplier, rounding down."""
    multiplier, shift = Ratio.of(real)
    up = min(count.bit_length() - 1, 32, 2 * HIGH_BITS - shift)
    return Ratio((multiplier << up) // count, shift + up)


def fitted(real: float, zero: int, clamp: Clamp) -> Ratio:
    """The ratio whose single rounding gives the code `clamp(round(value * real) + zero)` of float64 for every value.

    That code never falls as the value grows, so it is known by where it rises. Each such place bounds the multiplier
    from both sides; what is left between the bounds is proven. Raises Refusal if nothing is.
    """
    nominal, shift = Ratio.of(real)
    if not nominal:  # below 2^-32: no accumulator of 32 bits reaches a half
        return Ratio(nominal, shift)
    low, high = 0, 2**HIGH_BITS - 1
    for step in range(clamp[0] + 1 - zero, clamp[1] + 1 - zero):
        rise = _rise(real, step)
        goal = (step << shift) - (1 << (shift - 1))  # of value * multiplier
        for value, reached in ((rise, True), (rise - 1, False)):
            least, most = _multipliers(value, goal, reached)
            low, high = max(low, least), min(high, most)
    if low > high:
        raise Refusal("no integer multiplier gives the codes of its float64 arithmetic; load it in the dialect 'tflm'")
    return Ratio(clamped(nominal, (low, high)), shift)


def _rise(real: float, step: int) -> int:
    """The least integer v with round(v * real) >= step in float64."""
    guess = math.ceil((step - Fraction(1, 2)) / Fraction(real))
    while away(guess * real) >= step:
        guess -= 1
    while away(guess * real) < step:
        guess += 1
    return guess


def _multipliers(value: int, goal: int, reached: bool) -> Clamp:
    """The multipliers m with value * m >= goal, or < goal, as least and most."""
    every, none = (0, 2**HIGH_BITS - 1), (1, 0)
    if value == 0:
        return every if (goal <= 0) == reached else none
    if (value > 0) == reached:  # m >= goal / value, or m > goal / value
        return (-(-goal // value) if reached else goal // value + 1), every[1]
    return 0, (goal // value if reached else -(-goal // value) - 1)
