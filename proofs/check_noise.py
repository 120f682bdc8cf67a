"""Check a sampling table of the noise from its bytes alone: python proofs/check_noise.py FILE...

Confirms that every threshold is the exact cumulative probability times 2^64 rounded to nearest, that the table ends
where it should, and that eta is the total variation distance rounded up to a multiple of 2^-96. Shares no code with
the package: own reader, own interval arithmetic on Python integers. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from intervals import UNIT, Interval, P, exp, normal_cdf, real

TWO_64 = 1 << 64
KINDS = ("discrete", "rounded")


class CheckError(Exception):
    """The bytes are not what they claim to be."""


@dataclass(frozen=True)
class Table:
    """What the bytes say."""

    kind: str
    sigma: Fraction
    first: int
    eta: Fraction
    thresholds: tuple[int, ...]


def read_table(data: bytes) -> Table:
    """Read the format of docs/theory.md, section 5."""
    require(data[:8] == b"intrsnt1" and len(data) >= 72, "not a noise table")
    kind, first, *sigma = struct.unpack_from("<IiQQ", data, 8)
    eta = [int.from_bytes(data[i : i + 16], "little") for i in (32, 48)]
    (count,) = struct.unpack_from("<Q", data, 64)
    require(kind in (0, 1) and min(*sigma, eta[1]) > 0, "a header that no table has")
    require(len(data) == 72 + 8 * count, "header and length disagree")
    thresholds = struct.unpack_from(f"<{count}Q", data, 72)
    return Table(KINDS[kind], Fraction(*sigma), first, Fraction(*eta), thresholds)


def require(condition: bool, message: str) -> None:
    """Stop at the first thing that is wrong."""
    if not condition:
        raise CheckError(message)


def check_noise(data: bytes) -> Table:
    """Check everything; return what was confirmed."""
    table = read_table(data)
    half = len(table.thresholds) // 2
    lower = table.thresholds[:half][::-1]  # lower[k-1] stands for P[n >= k]
    require(half > 0 and len(table.thresholds) == 2 * half and table.first == -half, "not centred")
    require(all(a < b for a, b in pairwise(table.thresholds)), "not increasing")
    require(table.thresholds[half:] == tuple(TWO_64 - t for t in lower), "not symmetric")
    masses, beyond = exact_masses(table.kind, table.sigma * 255, half + 1)
    check_thresholds(lower, masses, beyond)
    check_eta(table.eta, lower, masses, beyond)
    return table


def exact_masses(kind: str, sigma: Fraction, last: int) -> tuple[list[Interval], Interval]:
    """P[n = k] for k = 0 .. last, and P[n > last]."""
    return discrete_masses(sigma, last) if kind == "discrete" else rounded_masses(sigma, last)


def discrete_masses(sigma: Fraction, last: int) -> tuple[list[Interval], Interval]:
    """exp(-k^2 / 2 sigma^2) by the recurrence of a Gaussian, and its sum over all integers term by term."""
    densities: list[Interval] = []
    density = real(1)
    ratio, shrink = exp(real(-1 / (2 * sigma**2))), exp(real(-1 / sigma**2))
    while density.hi > 1 << 16 or len(densities) <= last + 1:
        densities.append(density)
        density, ratio = density.times(ratio), ratio.times(shrink)
    rest = Interval(0, -(-density.hi * UNIT // (UNIT - ratio.hi)))  # at most a geometric series
    half_sum = add_up(densities[1:]).plus(rest)
    inverse = half_sum.plus(half_sum).plus(real(1)).inverse()
    beyond = add_up(densities[last + 1 :]).plus(rest).times(inverse)
    return [d.times(inverse) for d in densities[: last + 1]], beyond


def rounded_masses(sigma: Fraction, last: int) -> tuple[list[Interval], Interval]:
    """Differences of Phi((k + 1/2) / sigma)."""
    cumulative = [normal_cdf(real((k + Fraction(1, 2)) / sigma)) for k in range(last + 1)]
    centre = cumulative[0].plus(cumulative[0]).minus(real(1))
    steps = [b.minus(a) for a, b in pairwise(cumulative)]
    return [centre, *steps], real(1).minus(cumulative[-1])


def add_up(terms: list[Interval]) -> Interval:
    """Sum."""
    return Interval(sum(t.lo for t in terms), sum(t.hi for t in terms))


def check_thresholds(lower: tuple[int, ...], masses: list[Interval], beyond: Interval) -> None:
    """Each is the nearest integer, and the one after the last would be 0 or repeat the last."""
    tail = beyond
    for k in range(len(masses) - 1, 0, -1):
        tail = tail.plus(masses[k])
        nearest = ((tail.lo << 65) + UNIT) >> (P + 1)
        require(nearest == ((tail.hi << 65) + UNIT) >> (P + 1), f"P[n >= {k}] cannot be told from a tie")
        if k > len(lower):
            require(nearest in (0, lower[-1]), "the table ends too early")
        else:
            require(nearest == lower[k - 1], f"the threshold of P[n >= {k}] is {lower[k - 1]}, not {nearest}")


def check_eta(eta: Fraction, lower: tuple[int, ...], masses: list[Interval], beyond: Interval) -> None:
    """Half the sum of |sampled - exact| over all integers, from the masses themselves."""
    counts = [TWO_64 - 2 * lower[0], *(a - b for a, b in zip(lower, (*lower[1:], 0), strict=True)), 0]
    gaps = [real(Fraction(c, TWO_64)).minus(m).magnitude() for c, m in zip(counts, masses, strict=True)]
    side = add_up(gaps[1:]).plus(beyond)
    distance = gaps[0].over(2).plus(side)
    require(Fraction(distance.hi, UNIT) <= eta, "eta is below the total variation distance")
    require(eta - Fraction(distance.lo, UNIT) < Fraction(1, 1 << 96), "eta is larger than it has to be")


def main(paths: list[str]) -> int:
    """Check the files; 0 if all are right."""
    for path in paths:
        try:
            table = check_noise(Path(path).read_bytes())
        except CheckError as error:
            print(f"{path}: WRONG: {error}")
            return 1
        print(f"{path}: {table.kind} sigma {table.sigma}: confirmed, eta = {float(table.eta):.4g}")
    return 0 if paths else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
