"""Check the tables of an adaptive run from their bytes: python proofs/check_adaptive.py TABLES NOISE [--every K]

TABLES is a file that `intrs table --adaptive` wrote, NOISE the sampling table it was made for (src/intrs/tables). For
each radius: the probability p beside it suffices for it (as in check_certificate.py); and if p is the truth, the votes
reach the radius's boundary at some look with probability at most alpha - n * d * eta. Fewer votes never accept a larger
radius, so a false radius is accepted only if the least of the false ones is. The recursion over the looks is in
integers rounded up; its binomial laws are powers of (1 - p) + p x, by squaring. No code of the package. --every K
takes every K-th radius and those that were asked for. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from check_certificate import Radii, sufficient_probability
from check_noise import KINDS, CheckError, check_noise, require
from intervals import P

BITS = 96  # masses are integers over 2^96
TRIM = 1 << 16  # units of mass that may be moved up to keep a law short
SLOT = (2 * BITS + 32) // 8  # bytes of a coefficient of a product: more than 2^32 terms never meet
P_BITS = 40


class Row(NamedTuple):
    """One radius."""

    radius_sq: int
    p: int
    asked: int
    accept: tuple[int, ...]
    reject: tuple[int, ...]


@dataclass(frozen=True)
class Tables:
    """What the bytes say."""

    kind: str
    paper: bool
    sigma: Fraction
    alpha: Fraction
    eta: Fraction
    dimension: int
    caps: tuple[int, ...]
    looks: tuple[int, ...]
    rows: tuple[Row, ...]

    @property
    def level(self) -> Fraction:
        """Alpha less the error of the noise table over all samples that may be taken."""
        return self.alpha - self.looks[-1] * self.dimension * self.eta


def read_tables(data: bytes) -> Tables:
    """Read the format of docs/adaptive.md, section 8."""
    require(data[:8] == b"intrsat1" and len(data) >= 148, "not the tables of an adaptive run")
    require(hashlib.sha256(data[:-32]).digest() == data[-32:], "damaged: the hash at the end differs")
    kind, bound, *sigma = struct.unpack_from("<IIQQ", data, 8)
    alpha_num, alpha_den, eta_num, eta_den = (int.from_bytes(data[i : i + 16], "little") for i in (32, 48, 64, 80))
    dimension, looks, radii, caps = struct.unpack_from("<QIII", data, 96)
    require(kind < 2 and bound < 2 and min(*sigma, alpha_den, eta_den, dimension) > 0, "a header that no table has")
    require(len(data) == 116 + 8 * (caps + looks + radii * (3 + 2 * looks)) + 32, "header and length disagree")
    require(min(looks, radii, caps) > 0, "nothing in it")
    numbers = struct.unpack_from(f"<{caps + looks}Q", data, 116)
    at, rows = 116 + 8 * (caps + looks), []
    for _ in range(radii):
        radius_sq, p, asked = struct.unpack_from("<QQQ", data, at)
        values = struct.unpack_from(f"<{2 * looks}q", data, at + 24)
        rows.append(Row(radius_sq, p, asked, values[:looks], values[looks:]))
        at += 24 + 16 * looks
    alpha, eta = Fraction(alpha_num, alpha_den), Fraction(eta_num, eta_den)
    found = Tables(
        KINDS[kind], bound == 1, Fraction(*sigma), alpha, eta, dimension, numbers[:caps], numbers[caps:], tuple(rows)
    )
    check_shape(found)
    return found


def check_shape(tables: Tables) -> None:
    """What holds of every table whatever its numbers: rising looks, boundaries that do not cross each other."""
    looks = tables.looks
    require(all(a < b for a, b in pairwise((0, *looks))), "the looks do not rise")
    require(set(tables.caps) <= set(looks) and tables.caps[-1] == looks[-1], "the caps are not looks")
    for row in tables.rows:
        require(1 << (P_BITS - 1) < row.p < 1 << P_BITS, "a probability that shows no majority")
        fits = all(-1 <= b < a <= n + 1 for a, b, n in zip(row.accept, row.reject, looks, strict=True))
        require(fits, f"votes that make no sense at squared radius {row.radius_sq}")
    for smaller, larger in pairwise(tables.rows):
        require(smaller.radius_sq <= larger.radius_sq, "the radii do not rise")
        nested = all(a <= b for a, b in zip(smaller.accept, larger.accept, strict=True))
        require(nested, f"votes that accept squared radius {larger.radius_sq} do not accept {smaller.radius_sq}")


def check_adaptive(table_bytes: bytes, noise_bytes: bytes, every: int = 1) -> tuple[Tables, list[Fraction]]:
    """Check everything; return what was confirmed, and the probabilities that were bounded."""
    tables, noise = read_tables(table_bytes), check_noise(noise_bytes)
    require((tables.kind, tables.sigma) == (noise.kind, noise.sigma), "made for another noise")
    require(tables.eta == noise.eta and 0 < tables.level < 1, "alpha is not charged with the error of the noise table")
    setting = Radii(
        tables.kind, tables.paper, tables.sigma, tables.alpha, tables.eta, tables.dimension, tables.looks[-1], 0, ()
    )
    found = []
    for i, row in enumerate(tables.rows):
        if i % max(every, 1) and not row.asked:
            continue
        enough = sufficient_probability(setting, row.radius_sq) <= row.p << (P - P_BITS)
        require(enough, f"probability {row.p} / 2^40 does not suffice for squared radius {row.radius_sq}")
        crossing = crossing_probability(row.p, tables.looks, row.accept)
        require(crossing <= tables.level, f"squared radius {row.radius_sq} is accepted too easily: {float(crossing):g}")
        found.append(crossing)
    return tables, found


class Law(NamedTuple):
    """P[value = first + i] is at most mass[i] / 2^BITS, and what lies above all that at most over / 2^BITS."""

    first: int
    mass: list[int]
    over: int


def crossing_probability(p: int, looks: tuple[int, ...], accept: tuple[int, ...]) -> Fraction:
    """An upper bound of P[votes >= accept[k] at some look k] if a vote has probability p / 2^40."""
    state, crossed, before = Law(0, [1 << BITS], 0), 0, 0
    for n, votes in zip(looks, accept, strict=True):
        state = plus(state, binomial(n - before, p))
        keep = max(votes - state.first, 0)
        crossed += sum(state.mass[keep:]) + state.over
        state, before = Law(state.first, state.mass[:keep], 0), n
        if not state.mass:
            break
    return Fraction(crossed, 1 << BITS)


def binomial(n: int, p: int) -> Law:
    """The law of n votes: that of half as many, added to itself, and perhaps one more."""
    if n == 0:
        return Law(0, [1 << BITS], 0)
    half = binomial(n // 2, p)
    law = plus(half, half)
    single = Law(0, [((1 << P_BITS) - p) << (BITS - P_BITS), p << (BITS - P_BITS)], 0)
    return plus(law, single) if n % 2 else law


def plus(a: Law, b: Law) -> Law:
    """The law of the sum of two independent values: every product rounded up."""
    total_a, total_b = sum(a.mass) + a.over, sum(b.mass) + b.over
    product = (number(a.mass) * number(b.mass)).to_bytes(SLOT * (len(a.mass) + len(b.mass)), "little")
    slots = (product[i : i + SLOT] for i in range(0, SLOT * (len(a.mass) + len(b.mass) - 1), SLOT))
    mass = [-(-int.from_bytes(slot, "little") >> BITS) for slot in slots]
    return trimmed(a.first + b.first, mass, -(-(a.over * total_b + b.over * total_a) >> BITS))


def number(mass: list[int]) -> int:
    """All masses in one integer, so that one multiplication makes all sums of products."""
    return int.from_bytes(b"".join(m.to_bytes(SLOT, "little") for m in mass), "little")


def trimmed(first: int, mass: list[int], over: int) -> Law:
    """Move hardly possible values up: the lowest into the lowest that is kept, the highest above all."""
    low, moved = 0, 0
    while low < len(mass) - 1 and moved + mass[low] <= TRIM:
        moved, low = moved + mass[low], low + 1
    high, above = len(mass), 0
    while high > low + 1 and above + mass[high - 1] <= TRIM:
        high -= 1
        above += mass[high]
    kept = mass[low:high]
    kept[0] += moved
    return Law(first + low, kept, over + above)


def main(arguments: list[str]) -> int:
    """Check one file; 0 if it is right."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("noise", type=Path)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        tables, found = check_adaptive(given.tables.read_bytes(), given.noise.read_bytes(), given.every)
    except CheckError as error:
        print(f"{given.tables}: WRONG: {error}")
        return 1
    print(
        f"{given.tables}: {len(found)} of {len(tables.rows)} radii confirmed over {len(tables.looks)} looks; a false "
        f"one is accepted with probability at most {float(max(found)):g} of {float(tables.level):g}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
