"""Fixed-point functions of the kernels, for one code at a time: gemmlowp's logistic and tanh, and HARD_SWISH.

Numbers are integers of 32 bits that stand for themselves over 2^(31 - integer bits), or of 16 bits. Every step rounds
as the kernels do. Nothing here is fast; a table has 256 entries.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.integers import clamped
from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.arithmetic import Grid, Ratio, away
from intrs.network import INT8

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LEAST, MOST = -(2**31), 2**31 - 1
ONE = MOST  # of a number without integer bits
INPUT_BITS = 4  # integer bits of the argument


def _high(a: int, b: int) -> int:
    """a * b / 2^31, a tie upwards, saturated."""
    return min((a * b + (1 << 30)) >> 31, MOST)


def _divide(value: int, bits: int) -> int:
    """value / 2^bits, a tie away from zero."""
    size = (abs(value) + (1 << bits >> 1)) >> bits
    return size if value >= 0 else -size


def _saturated(value: int) -> int:
    return min(max(value, LEAST), MOST)


def _exp_quarter(a: int) -> int:
    """e^a of a number without integer bits in [-1/4, 0)."""
    term, third = 1895147668, 715827883  # e^(-1/8) and 1/3
    x = a + (1 << 28)
    x2 = _high(x, x)
    x3 = _high(x2, x)
    x4 = _high(x2, x2)
    quarter = _divide(x4, 2)
    inner = _divide(_high(quarter + x3, third) + x2, 1)
    return _saturated(term + _high(term, x + inner))


_STEPS = (  # e^(-2^k) from k = -2 on, without integer bits
    1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242,
)  # fmt: skip


def _exp_negative(a: int, bits: int) -> int:
    """e^a of a number a <= 0 with these integer bits; the result has none."""
    if a == 0:
        return ONE
    fraction = 31 - bits
    quarter = 1 << (fraction - 2)
    mask = (a & (quarter - 1)) - quarter
    result = _exp_quarter(mask << bits)
    rest = mask - a
    for k, factor in enumerate(_STEPS, -2):
        if bits > k and rest & (1 << (fraction + k)):
            result = _high(result, factor)
    if bits > 5 and a < -(1 << (fraction + 5)):
        return 0
    return result


def _over_one_plus(a: int) -> int:
    """1 / (1 + a) of a number a in [0, 1] without integer bits: Newton's method."""
    half = (a + ONE + 1) >> 1
    x = 1515870810 + _high(half, -1010580540)  # 48/17 - 32/17 * half, with 2 integer bits
    for _ in range(3):
        product = _high(half, x)
        rest = (1 << 29) - product
        x += _saturated(_high(x, rest) << 2)
    return _saturated(x << 1)


def _near_minus_one(a: int) -> int:
    """(1 - a) / (1 + a) of a number a in [0, 1] without integer bits."""
    half = (a + ONE + 1) >> 1
    x = 1515870810 + _high(half, -1010580540)
    for _ in range(3):
        product = _high(half, x)
        rest = (1 << 29) - product
        x += _saturated(_high(x, rest) << 2)
    return _saturated((x - (1 << 29)) << 2)


def _argument(grid: Grid) -> Callable[[int], int | None]:
    """The argument of a code with four integer bits; None where the function is saturated."""
    mantissa, exponent = math.frexp(grid.real * 2 ** (31 - INPUT_BITS))
    multiplier, left = away(mantissa * 2**31), exponent
    if multiplier == 2**31:
        multiplier, left = multiplier // 2, left + 1
    radius = math.floor(((1 << INPUT_BITS) - 1) * 2.0 ** (31 - INPUT_BITS) / 2.0**left)
    if not 2 <= 31 - left <= 62:
        raise Refusal("the scale of its input is absurd")
    ratio = Ratio(multiplier, 31 - left)

    def argument(code: int) -> int | None:
        value = code - grid.zero
        return None if abs(value) >= radius else ratio.times(value)

    return argument


def _table(grid: Grid, function: Callable[[int], int], low: int) -> NDArray[np.int8]:
    argument = _argument(grid)
    results = []
    for code in range(INT8[0], INT8[1] + 1):
        value = argument(code)
        if value is None:
            results.append(low if code < grid.zero else INT8[1])
        else:
            results.append(clamped(function(value), INT8))
    return np.array(results, np.int8)


def logistic(grid: Grid) -> NDArray[np.int8]:
    """LOGISTIC of TFLite Micro, onto the scale 1/256 and zero point -128."""

    def result(a: int) -> int:
        if a == 0:
            return 0
        positive = _over_one_plus(_exp_negative(-abs(a), INPUT_BITS))
        return _divide(positive if a > 0 else ONE - positive, 23) - 128

    return _table(grid, result, INT8[0])


def tanh(grid: Grid) -> NDArray[np.int8]:
    """TANH of TFLite Micro, onto the scale 1/128 and zero point 0."""

    def result(a: int) -> int:
        size = _near_minus_one(_exp_negative(-abs(a), INPUT_BITS + 1))  # of twice the argument
        return _divide(0 if a == 0 else size if a > 0 else -size, 24)

    return _table(grid, result, INT8[0])


def _short(value: int) -> int:
    return min(max(value, -(2**15)), 2**15 - 1)


def _short_high(a: int, b: int) -> int:
    """a * b / 2^15 of 16 bits, a tie upwards."""
    return min((a * b + (1 << 14)) >> 15, 2**15 - 1)


def _short_ratio(real: float) -> tuple[int, int]:
    """A factor as a multiplier of 16 bits and an exponent of 2."""
    multiplier, shift = Ratio.of(real)
    return min((multiplier + (1 << 15)) >> 16, 2**15 - 1), 31 - shift


def hard_swish(grid: Grid, target: Grid) -> NDArray[np.int8]:
    """HARD_SWISH: x * clamp(x + 3, 0, 6) / 6 in numbers of 16 bits."""
    fine = np.float32(1 / 128) * grid.scale
    out, out_exponent = _short_ratio(float(fine / target.scale))
    bend, bend_exponent = _short_ratio(float(fine / np.float32(np.float32(3) / np.float32(32768))))
    if out_exponent > 0:
        raise Refusal("the scale of its output is too small beside that of its input for the kernels")

    def result(code: int) -> int:
        value = (code - grid.zero) * 128
        scaled = _short_high(value, out)
        gate = value
        if bend_exponent > 0:
            gate = _short(gate << (bend_exponent - 1))
        gate = _short_high(gate, bend)
        if bend_exponent > 0:
            gate = _short(gate << 1)
        if bend_exponent < 0:
            gate = _divide(gate, -bend_exponent)
        gate = (gate + (1 << 15)) >> 1
        product = gate * scaled
        before = product >> 15 if product >= 0 else -(-product >> 15)
        return _divide(before, -out_exponent) + target.zero

    return np.array([clamped(result(code), INT8) for code in range(INT8[0], INT8[1] + 1)], np.int8)
