"""Checks that the Winograd tiles of core/kernels/winograd.h are exact, for all weights and all bytes.

    python proofs/check_winograd.py

The claim is bilinear in image and weights, so it holds for all if it holds for each pair of unit images and unit
kernels: 9 * 2^s * output = A' [ (G g G') * (B' d B) ] A. Ranges are sums of coefficients of one sign. Integers only;
the matrices are read from the comment in the header, and the code is held to them by the tests, bit for bit.
"""

from __future__ import annotations

import re
import sys
from itertools import product
from pathlib import Path

HEADER = Path(__file__).parents[1] / "core" / "kernels" / "winograd.h"
Matrix = list[list[int]]
TILE, PATCH, TAPS = 4, 6, 3
CODES, LARGEST_WEIGHT = 255, 128
LARGEST_SIGNED = 128  # code, where bytes are stored signed


class CheckError(Exception):
    """The claim does not hold."""


def matrices(text: str) -> tuple[Matrix, Matrix, Matrix, list[int]]:
    """B', G, A' and the factor of each output row, from the table in the header's comment."""
    start = text.index("B' =")
    rows = [line.removeprefix("//") for line in text[start - 5 :].splitlines()[:PATCH]]
    numbers = [[int(n) for n in re.findall(r"-?\b\d+\b(?!')", re.sub(r"[BGA]'? =|y\d", " ", row))] for row in rows]
    b = [row[:PATCH] for row in numbers]
    g = [row[PATCH : PATCH + TAPS] for row in numbers]
    a = [row[PATCH + TAPS : 2 * PATCH + TAPS] for row in numbers[:TILE]]
    return b, g, a, [row[-1] for row in numbers[:TILE]]


def check_identity(b: Matrix, g: Matrix, a: Matrix, factors: list[int]) -> None:
    """In one dimension: factor * correlation of unit image and unit kernel. Two dimensions are two of one."""
    for output, place, tap in product(range(TILE), range(PATCH), range(TAPS)):
        found = sum(a[output][i] * g[i][tap] * b[i][place] for i in range(PATCH))
        if found != factors[output] * (place == output + tap):
            raise CheckError(f"output {output}, pixel {place}, tap {tap}: {found}")


def largest(rows: Matrix, size: int, signed: bool) -> int:
    """The largest magnitude of M x M' over all x in 0..size, or -size..size."""
    most = 0
    for r, q in product(rows, rows):
        terms = [x * y for x, y in product(r, q)]
        positive, negative = sum(t for t in terms if t > 0), -sum(t for t in terms if t < 0)
        most = max(most, (positive + negative if signed else max(positive, negative)) * size)
    return most


def check(text: str) -> str:
    """Raises CheckError, or says what holds."""
    b, g, a, factors = matrices(text)
    check_identity(b, g, a, factors)
    image = max(largest(b, CODES, signed=False), largest(b, LARGEST_SIGNED, signed=True))
    weights = largest(g, LARGEST_WEIGHT, signed=True)
    if max(image, weights) >= 2**15 or 2 * image * weights >= 2**31:
        raise CheckError(f"{image} and {weights} do not fit")
    ninth, twos = int(re.findall(r"kNinth = (\d+)", text)[0]), re.findall(r"kTwos\[kTile\] = {(.*?)}", text)[0]
    if 9 * ninth % 2**32 != 1 or [3 * 2 ** int(n) for n in twos.split(",")] != factors:
        raise CheckError("the factors are not taken off again")
    times = int(re.findall(r"broadcast\(int32_t\((\d+) \* uint32_t\(start", text)[0])
    if any(times * a[r][1] * a[c][1] != factors[r] * factors[c] for r, c in product(range(TILE), repeat=2)):
        raise CheckError(f"{times} times the product in row and column 1 is not the same for all outputs")
    shift = 2 * max(int(n) for n in twos.split(","))
    limit = int(re.findall(r">= 1 << (\d+)\) return false", text)[0])
    if limit + shift > 31:
        raise CheckError(f"sums below 2^{limit} do not survive a shift by {shift}")
    return f"exact: images to {image}, weights to {weights}, sums below 2^{limit}, shifts to {shift}"


def main() -> int:
    """Check the header."""
    try:
        print(check(HEADER.read_text()))
    except CheckError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
