"""Proves the rounding and saturation of core/arith.h and device/ against their definitions, for all words.

    pip install z3-solver
    python proofs/check_primitives.py

Each function stands here twice: as bit vectors, operation by operation as the C code has it, and as what its result has
to satisfy among the integers. A model checker looks for words for which the result does not. A claim holds if there are
none, for every product of a 32-bit value and a multiplier and for every shift that a network may have:

    rescale        is the integer nearest to product / 2^shift, ties upwards; the 64-bit sum does not overflow
    rescale_high   is rescale, for shifts from 33 on, and its 32-bit sum does not overflow
    rescale_twice  is gemmlowp's: rounded by 2^31 with ties upwards, then by the rest with ties away from zero
    quick_code     is that rescale with the zero point, saturated to 8 bits; its 32-bit sum does not overflow
    saturated      is clamp(value + zero point) without that sum, which could overflow
    reciprocal     is a multiplier and a shift that RESCALE takes, for every count up to 2^20 (all of them, one by one)
    tiles          give four times the sums of a 3 x 3 window: both sides are linear in weights and in values, so that
                   it is enough to compare them for all 9 x 16 pairs of a weight and a value

That the C code does these operations is held by tests/device/exhaustive.c: it compares the compiled functions with the
definitions by division, for all 2^32 values at a handful of scales.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

import z3  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIFTS = range(2, 63)
QUICK_SHIFTS = range(33, 55)
WIDE = 72  # bits in which nothing here overflows
PATIENCE = 120_000  # milliseconds for one claim; each takes a fraction of a second
MOST_COUNT = 1 << 20

Claim = tuple[str, z3.BoolRef, z3.BoolRef]  # name, what is given, what has to follow


class CheckError(Exception):
    """A claim does not hold, or was not decided."""


def wide(word: z3.BitVecRef) -> z3.BitVecRef:
    """The integer that a signed word stands for."""
    return z3.SignExt(WIDE - word.size(), word)


def power(exponent: int, bits: int = WIDE) -> z3.BitVecRef:
    """A power of two."""
    return z3.BitVecVal(1 << exponent, bits)


# --- what is given ---------------------------------------------------------------------------------------------------

VALUE, PRODUCT = z3.BitVec("value", 32), z3.BitVec("product", 64)


def is_product() -> z3.BoolRef:
    """PRODUCT lies where that of VALUE and a multiplier from 0 to 2^31 - 1 does, and has the sign of VALUE, or is 0."""
    least, most = -(2**31) * (2**31 - 1), (2**31 - 1) ** 2  # at the corners, as a bilinear function has its extremes
    inside = z3.And(wide(PRODUCT) >= least, wide(PRODUCT) <= most)
    return z3.And(inside, z3.If(VALUE < 0, PRODUCT <= 0, PRODUCT >= 0))


def fits(number: z3.BitVecRef, bits: int) -> z3.BoolRef:
    """Does an integer fit a signed word?"""
    return z3.And(number >= -(1 << bits - 1), number < 1 << bits - 1)


# --- definitions -----------------------------------------------------------------------------------------------------


def is_nearest(result: z3.BitVecRef, number: z3.BitVecRef, exponent: int) -> z3.BoolRef:
    """result = number / 2^exponent to the nearest integer, ties upwards: 2^e r <= number + 2^(e-1) < 2^e (r + 1)."""
    raised = number + power(exponent - 1)
    return z3.And(result << exponent <= raised, raised < result + 1 << exponent, fits(result, WIDE - exponent - 1))


def is_nearest_away(result: z3.BitVecRef, number: z3.BitVecRef, exponent: int) -> z3.BoolRef:
    """The same with ties away from zero."""
    return z3.If(number < 0, is_nearest(-result, -number, exponent), is_nearest(result, number, exponent))


# --- the code, operation by operation --------------------------------------------------------------------------------


def rescale(shift: int) -> z3.BitVecRef:
    """intrs_rescale of core/arith.h."""
    return z3.Extract(31, 0, PRODUCT + power(shift - 1, 64) >> shift)


def rescale_high(shift: int) -> z3.BitVecRef:
    """intrs_rescale_high of device/intrs_kernels.h."""
    return z3.Extract(63, 32, PRODUCT) + power(shift - 33, 32) >> shift - 32


def quick_code(shift: int, zero: z3.BitVecRef) -> z3.BitVecRef:
    """quick_code of device/intrs_conv.c, with `more` of scale_of: rounding term and zero point as upper words."""
    more = (2 * zero + 1) * power(shift - 33, 32)
    return clamp(
        z3.Extract(63, 32, PRODUCT) + more >> shift - 32, z3.BitVecVal(-128, 32), z3.BitVecVal(127, 32)
    )  # fmt: skip


def rescale_twice(shift: int) -> z3.BitVecRef:
    """intrs_rescale_twice of core/arith.h."""
    first = power(30, 64) if shift > 31 else z3.BitVecVal(0, 64)
    return z3.Extract(31, 0, PRODUCT + power(shift - 1, 64) + z3.If(VALUE < 0, -first, first) >> shift)


def clamp(value: z3.BitVecRef, low: z3.BitVecRef, high: z3.BitVecRef) -> z3.BitVecRef:
    """intrs_clamp of core/arith.h."""
    return z3.If(value < low, low, z3.If(value > high, high, value))


# --- claims ----------------------------------------------------------------------------------------------------------


def rescale_claims(code: Callable[[int], z3.BitVecRef] = rescale) -> Iterator[Claim]:
    """Single rounding."""
    answer = z3.BitVec("answer", WIDE)
    for shift in SHIFTS:
        total = wide(PRODUCT) + power(shift - 1)
        yield f"the sum of rescale, shift {shift}", is_product(), fits(total, 64)
        given = z3.And(is_product(), is_nearest(answer, wide(PRODUCT), shift), fits(answer, 32))
        yield f"rescale, shift {shift}", given, wide(code(shift)) == answer


def high_claims(code: Callable[[int], z3.BitVecRef] = rescale_high) -> Iterator[Claim]:
    """By the upper word. The result always fits, as shifts are large."""
    for shift in SHIFTS[31:]:
        total = wide(z3.Extract(63, 32, PRODUCT)) + power(shift - 33)
        yield f"the sum of rescale_high, shift {shift}", is_product(), fits(total, 32)
        yield f"rescale_high, shift {shift}", is_product(), code(shift) == rescale(shift)


def quick_claims(code: Callable[[int, z3.BitVecRef], z3.BitVecRef] = quick_code) -> Iterator[Claim]:
    """Codes by one long multiplication; `high_claims` are about its rounding."""
    zero, low, high = z3.BitVec("zero_point", 32), z3.BitVecVal(-128, 32), z3.BitVecVal(127, 32)
    given = z3.And(is_product(), low <= zero, zero <= high)
    for shift in QUICK_SHIFTS:
        total = wide(z3.Extract(63, 32, PRODUCT)) + (2 * wide(zero) + 1) * power(shift - 33)
        yield f"the sum of quick_code, shift {shift}", given, fits(total, 32)
        expected = clamp(wide(rescale_high(shift)) + wide(zero), wide(low), wide(high))
        yield f"quick_code, shift {shift}", given, wide(code(shift, zero)) == expected


def twice_claims(code: Callable[[int], z3.BitVecRef] = rescale_twice) -> Iterator[Claim]:
    """Double rounding; up to a shift of 31 there is one."""
    once, answer = z3.BitVec("once", WIDE), z3.BitVec("answer", WIDE)
    for shift in SHIFTS:
        if shift > 31:
            two = z3.And(is_nearest(once, wide(PRODUCT), 31), is_nearest_away(answer, once, shift - 31))
            total = wide(PRODUCT) + power(shift - 1) + z3.If(VALUE < 0, -power(30), power(30))
            yield f"the sum of rescale_twice, shift {shift}", is_product(), fits(total, 64)
        else:
            two = is_nearest(answer, wide(PRODUCT), shift)
        given = z3.And(is_product(), two, fits(answer, 32))
        yield f"rescale_twice, shift {shift}", given, wide(code(shift)) == answer


def saturation_claims() -> Iterator[Claim]:
    """`saturated` of device/intrs_layers.c; clamp lies within its ends."""
    zero, low, high = (z3.BitVec(name, 32) for name in ("zero_point", "low", "high"))
    codes = z3.And(*(z3.And(code >= -128, code <= 127) for code in (zero, low, high)), low <= high)
    found = clamp(VALUE, low - zero, high - zero) + zero
    yield "saturated", codes, wide(found) == clamp(wide(VALUE) + wide(zero), wide(low), wide(high))
    yield "a saturated code fits 8 bits", codes, z3.And(found >= -128, found <= 127)
    inside = clamp(VALUE, low, high)
    yield "clamp", low <= high, z3.And(inside >= low, inside <= high, z3.Or(inside == VALUE, low > VALUE, high < VALUE))


def all_claims() -> Iterator[Claim]:
    """Every one."""
    yield from rescale_claims()
    yield from high_claims()
    yield from quick_claims()
    yield from twice_claims()
    yield from saturation_claims()


def check_claim(claim: Claim) -> None:
    """Raises CheckError with words that contradict it, if there are any."""
    name, given, follows = claim
    solver = z3.Solver()
    solver.set("timeout", PATIENCE)
    solver.add(given, z3.Not(follows))
    outcome = solver.check()
    if outcome == z3.sat:
        raise CheckError(f"{name}: {solver.model()}")
    if outcome != z3.unsat:
        raise CheckError(f"{name}: not decided")


def check_possible(claim: Claim) -> None:
    """What is given can be: a claim about nothing would hold."""
    solver = z3.Solver()
    solver.set("timeout", PATIENCE)
    solver.add(claim[1])
    if solver.check() != z3.sat:
        raise CheckError(f"{claim[0]}: nothing satisfies what is given")


def check_reciprocals(most: int = MOST_COUNT) -> None:
    """intrs_reciprocal of core/arith.h: the multiplier has 31 bits, is the reciprocal rounded as TOSA has it."""
    for count in range(1, most + 1):
        bits = (count - 1).bit_length()
        multiplier, shift = ((1 << 30) + 1 << bits) // count, 30 + bits
        if not (1 << 29 < multiplier < 1 << 31 and 2 <= shift <= 62):
            raise CheckError(f"reciprocal of {count}: {multiplier} / 2^{shift}")
        if not 0 <= multiplier * count - (1 << shift) <= 1 << bits:
            raise CheckError(f"reciprocal of {count}: {multiplier} / 2^{shift} is too far from it")


# --- tiles: F(2 x 2, 3 x 3) of device/intrs_conv.c -------------------------------------------------------------------

WEIGHTS = ((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2))  # twice Winograd's, so that all are integers
VALUES = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
SUMS = ((1, 1, 1, 0), (0, 1, -1, -1))
MOST_VALUE, MOST_WEIGHT = 255, 128  # of codes less their zero point, and of weights


def tile(ky: int, kx: int, y: int, x: int, sums: tuple[tuple[int, ...], ...] = SUMS) -> list[list[int]]:
    """The four sums of a tile, of the weight at (ky, kx) times the value at (y, x) alone."""
    product = [[WEIGHTS[i][ky] * WEIGHTS[j][kx] * VALUES[i][y] * VALUES[j][x] for j in range(4)] for i in range(4)]
    rows = [[sum(s * product[i][j] for i, s in enumerate(line)) for j in range(4)] for line in sums]
    return [[sum(s * row[j] for j, s in enumerate(line)) for line in sums] for row in rows]


def check_tiles(sums: tuple[tuple[int, ...], ...] = SUMS) -> None:
    """Four times what a window gives, and what is multiplied fits 16 bits."""
    for ky, kx, y, x in itertools.product(range(3), range(3), range(4), range(4)):
        window = [[4 * (y == row + ky and x == column + kx) for column in range(2)] for row in range(2)]
        if tile(ky, kx, y, x, sums) != window:
            raise CheckError(f"tiles: weight ({ky}, {kx}) and value ({y}, {x}) give {tile(ky, kx, y, x, sums)}")
    for lines, most in ((WEIGHTS, MOST_WEIGHT), (VALUES, MOST_VALUE)):
        if most * max(sum(map(abs, line)) for line in lines) ** 2 >= 1 << 15:
            raise CheckError("tiles: what is multiplied does not fit 16 bits")


def check_all() -> str:
    """Raises CheckError, or says what was proven."""
    claims = list(all_claims())
    for claim in claims:
        check_claim(claim)
        check_possible(claim)
    check_reciprocals()
    check_tiles()
    return f"proven: {len(claims)} claims for all words; {MOST_COUNT:,} reciprocals one by one"


def main() -> int:
    """Check."""
    try:
        print(check_all())
    except CheckError as error:
        print(f"WRONG: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
