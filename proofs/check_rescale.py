"""Checks the short ways by which kernels compute RESCALE, for shifts of more than 32.

First, that RESCALE by the instructions that core/kernels/neon.h uses is RESCALE. Second, that RESCALE which rounds
twice may round all values up first, if what is below the zero point is clamped to it (`Rounds` in
core/kernels/entries.h).

    python proofs/check_rescale.py

The argument: floor(floor(x / 2^31 + a) / 2^k) = floor((x + a 2^31) / 2^(31 + k)) for whole a, and everything that is
added is a multiple of 2^31 once the shift is more than 32. What is left to check is that no step leaves the word. Here
the same steps run with words of 7 bits, for all values, multipliers, shifts and zero points that fit, and with words of
32 bits at the ends of all ranges. That the code does these steps is held by the tests, bit for bit.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class CheckError(Exception):
    """The claim does not hold."""


def definition(value: int, multiplier: int, shift: int, zero_point: int, bits: int, *, twice: bool) -> int:
    """core/arith.h, with words of so many bits."""
    first = (1 << bits - 2) * (-1 if value < 0 else 1) if twice else 0
    return (value * multiplier + (1 << shift - 1) + first >> shift) + zero_point


def rounded_up(value: int, multiplier: int, shift: int, zero_point: int, bits: int) -> int:
    """RESCALE that rounds twice, as if every value were positive."""
    return (value * multiplier + (1 << shift - 1) + (1 << bits - 2) >> shift) + zero_point


def fitting(value: int, bits: int) -> int:
    """The value, which must fit a signed word."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise CheckError(f"{value} leaves {bits} bits")
    return value


def by_instructions(value: int, multiplier: int, shift: int, zero_point: int, bits: int, *, twice: bool) -> int:
    """SQDMULH, or SQRDMULH and SSRA; SHADD; SSHL."""
    if twice:
        rounded = fitting(2 * value * multiplier + (1 << bits - 1) >> bits, bits)
        upper = fitting(rounded + (value >> bits - 1), bits)
    else:
        upper = fitting(2 * value * multiplier >> bits, bits)
    added = fitting((1 << shift - 1) + (zero_point << shift) >> bits - 1, bits)
    return upper + added >> 1 >> shift - bits


def check(values: Iterable[int], multipliers: Iterable[int], bits: int, codes: int) -> int:
    """Compares them for every shift and zero point for which RESCALE may add the zero point; how often it did."""
    most = 2 * bits - 2  # 54 of 62 for zero points of 8 bits, 32-bit words: kMostWithRoom
    compared = 0
    for value, multiplier, twice in product(values, multipliers, (False, True)):
        for shift in range(bits + 1, most + 1):
            room = shift <= most - codes
            for zero_point in (-(1 << codes - 1), -1, 0, (1 << codes - 1) - 1) if room else (0,):
                setting = (value, multiplier, shift, zero_point, bits)
                if by_instructions(*setting, twice=twice) != definition(*setting, twice=twice):
                    raise CheckError(f"{setting}, twice = {twice}")
                if max(rounded_up(*setting), zero_point) != max(definition(*setting, twice=True), zero_point):
                    raise CheckError(f"{setting}, rounded up and clamped")
                compared += 1
    return compared


def near(*places: int) -> list[int]:
    """These numbers and their neighbours."""
    return sorted({place + step for place in places for step in (-1, 0, 1)})


def check_all() -> str:
    """Raises CheckError, or says what was compared."""
    small = check(range(-64, 64), range(64), bits=7, codes=2)
    ends = [
        v for v in near(-(1 << 31), -(1 << 30), -12345, 0, 54321, 1 << 30, (1 << 31) - 1) if -(1 << 31) <= v < 1 << 31
    ]
    large = check(ends, [m for m in near(1, 1 << 30, 1518500249, (1 << 31) - 2) if m >= 0], bits=32, codes=8)
    return f"equal: {small:,} cases with words of 7 bits, {large:,} with 32"


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
