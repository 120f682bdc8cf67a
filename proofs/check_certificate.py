"""Check a table votes -> squared radius from its bytes: python proofs/check_certificate.py RADII NOISE [--every K]

RADII is a file that RadiusTable.write wrote, NOISE the sampling table it was made for (src/intrs/tables). The noise
table is checked first, which re-derives eta. Then each radius is confirmed backwards: from R2 to a probability that
suffices for it (upper bounds of Phi in interval arithmetic), and from that to a binomial tail (integers, rounded up)
that must not exceed alpha - n * d * eta. No quantile, no root finding, no code of the package. Rows with equal R2
need the fewest votes only; --every K looks at every K-th of the rows left. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

from check_noise import KINDS, CheckError, check_noise, exact_masses, require
from intervals import UNIT, Interval, P, normal_cdf, poisson_excess, real

WIDTHS = [Fraction(j, 64) for j in range(32, 65)]  # the r of Theorem 2, any of which is sound
SERIES_BITS = 192


@dataclass(frozen=True)
class Radii:
    """What the bytes say."""

    kind: str
    paper: bool
    sigma: Fraction
    alpha: Fraction
    eta: Fraction
    dimension: int
    n: int
    start: int
    values: tuple[int, ...]

    @property
    def level(self) -> Fraction:
        """Alpha less the error of the noise table."""
        return self.alpha - self.n * self.dimension * self.eta


def read_radii(data: bytes) -> Radii:
    """Read the format of docs/theory.md, section 6."""
    require(data[:8] == b"intrsrt1" and len(data) >= 160, "not a radius table")
    require(hashlib.sha256(data[:-32]).digest() == data[-32:], "damaged: the hash at the end differs")
    kind, bound, *sigma = struct.unpack_from("<IIQQ", data, 8)
    alpha_num, alpha_den, eta_num, eta_den = (int.from_bytes(data[i : i + 16], "little") for i in (32, 48, 64, 80))
    dimension, n, start, count = struct.unpack_from("<4Q", data, 96)
    require(kind < 2 and bound < 2 and min(*sigma, alpha_den, eta_den, dimension, n) > 0, "a header that no table has")
    require(len(data) == 128 + 8 * count + 32 and start + count == n + 1, "header and length disagree")
    alpha, eta = Fraction(alpha_num, alpha_den), Fraction(eta_num, eta_den)
    values = struct.unpack_from(f"<{count}q", data, 128)
    return Radii(KINDS[kind], bound == 1, Fraction(*sigma), alpha, eta, dimension, n, start, values)


def check_certificate(radii_bytes: bytes, noise_bytes: bytes, every: int = 1) -> tuple[Radii, int]:
    """Check everything; return what was confirmed, and from how many rows."""
    radii, noise = read_radii(radii_bytes), check_noise(noise_bytes)
    require((radii.kind, radii.sigma) == (noise.kind, noise.sigma), "made for another noise")
    require(radii.eta == noise.eta and 0 < radii.level < 1, "alpha is not charged with the error of the noise table")
    require(all(0 <= a <= b for a, b in pairwise((0, *radii.values))), "more votes give a smaller radius")
    firsts = [i for i, r_sq in enumerate(radii.values) if i == 0 or r_sq > radii.values[i - 1]]
    chosen = {*firsts[:: max(every, 1)], *firsts[-1:]}
    check_rows(radii, sorted(chosen))
    check_abstention(radii)
    return radii, len(chosen)


def check_rows(radii: Radii, rows: list[int]) -> None:
    """Row by row; the binomial coefficient goes along exactly."""
    coefficient, at = 1, radii.n  # C(n, at)
    for i in reversed(rows):
        votes, r_sq = radii.start + i, radii.values[i]
        while at > votes:
            coefficient, at = coefficient * at // (radii.n - at + 1), at - 1
        p = sufficient_probability(radii, r_sq)
        enough = tail_upper_bound(radii.n, votes, p, coefficient) <= radii.level
        require(enough, f"{votes} votes do not certify a squared radius of {r_sq}")


def check_abstention(radii: Radii) -> None:
    """One vote fewer than the first row could not show a majority: P[Bin(n, 1/2) >= votes] exceeds the level."""
    votes, n = radii.start - 1, radii.n
    if votes > n // 2:
        ways = sum_of_coefficients(n, votes)
        above_half = Fraction(ways, 1 << n) * (1 + Fraction(4 * n, 1 << 63))  # the tail at p = 1/2 + 2^-64 is below
        require(above_half >= radii.level, f"{votes} votes would have been enough")


def sum_of_coefficients(n: int, first: int) -> int:
    """C(n, first) + ... + C(n, n)."""
    term = total = 1
    for k in range(n, first, -1):
        term = term * k // (n - k + 1)
        total += term
    return total


def sufficient_probability(radii: Radii, r_sq: int) -> int:
    """An integer a such that P[A] >= a / 2^P certifies the squared radius r_sq: more than 1/2 always."""
    more_than_half = UNIT // 2 + 1
    if r_sq == 0:
        return more_than_half
    if radii.paper:
        return max(more_than_half, paper_probability(radii.kind, radii.sigma * 255, r_sq))
    if radii.kind == "rounded":
        return max(more_than_half, rounded_probability(radii.sigma * 255, r_sq))
    return max(more_than_half, discrete_probability(radii.sigma * 255, radii.dimension, r_sq))


def rounded_probability(sigma: Fraction, r_sq: int) -> int:
    """Theorem 1: p > Phi(sqrt(r_sq) / sigma)."""
    return normal_cdf(real(r_sq / sigma**2).root()).hi + 1


def paper_probability(kind: str, sigma: Fraction, r_sq: int) -> int:
    """Section 7: p >= P[n <= t], t^2 = r_sq."""
    t = next(t for t in range(r_sq + 1) if t * t >= r_sq)
    require(
        t * t == r_sq and kind == "discrete", "the paper's radii are whole numbers of grid steps, for discrete noise"
    )
    masses = cumulative_discrete(sigma)
    require(t < len(masses), "a radius beyond the noise")
    return masses[t].hi


@cache
def cumulative_discrete(sigma: Fraction) -> list[Interval]:
    """P[n <= t] for t = 0, 1, ..."""
    masses, _ = exact_masses("discrete", sigma, int(12 * sigma))
    total, found = real(Fraction(1, 2)).plus(masses[0].over(2)), []
    for mass in [*masses[1:], real(0)]:
        found.append(total)
        total = total.plus(mass)
    return found


def discrete_probability(sigma: Fraction, dimension: int, r_sq: int) -> int:
    """Theorem 2: the least p over r for which Q[A] > Phi(sqrt(r_sq) / s + middle); r by climbing from the last best.

    Any r is sound, so a poor one could only refuse a good table.
    """
    last = BEST.setdefault((sigma, dimension), len(WIDTHS) - 1)
    for way in (-1, 1):
        while 0 <= last + way < len(WIDTHS) and probability_for_width(
            sigma, dimension, WIDTHS[last + way], r_sq
        ) < probability_for_width(sigma, dimension, WIDTHS[last], r_sq):
            last += way
    BEST[sigma, dimension] = last
    return probability_for_width(sigma, dimension, WIDTHS[last], r_sq)


BEST: dict[tuple[Fraction, int], int] = {}


@lru_cache(maxsize=64)
def probability_for_width(sigma: Fraction, dimension: int, r: Fraction, r_sq: int) -> int:
    """p * 2^P such that D[A] >= p makes Q[A] exceed Phi(sqrt(r_sq) / s + middle); more than 1 if r is useless."""
    shrink, grow, middle = constants(sigma, dimension, r)
    if middle is None:
        return 2 * UNIT
    q = normal_cdf(real(r_sq / (sigma**2 - r**2)).root().plus(middle)).hi + 1
    by_shrink = -(-q * UNIT // shrink.lo)  # shrink * p >= q
    by_grow = UNIT - (UNIT - q) * UNIT // grow.hi  # 1 - grow * (1 - p) >= q
    return min(by_shrink, by_grow)


@cache
def constants(sigma: Fraction, dimension: int, r: Fraction) -> tuple[Interval, Interval, Interval | None]:
    """Equations (7) and (8), and an upper bound of the quantile of the least Q that makes D a majority."""
    eps_sigma, eps_r = poisson_excess(sigma**2), poisson_excess(r**2)
    eps_w = poisson_excess(r**2 * (2 - r**2 / sigma**2))
    one = real(1)
    shrink = power(one.plus(eps_sigma).times(one.minus(eps_w)), dimension)
    square = eps_r.times(eps_r).times(one.minus(eps_r).inverse())
    grow = power(one.plus(eps_sigma).times(one.plus(eps_w).plus(square)), dimension)
    if 2 * shrink.lo <= UNIT or grow.hi >= 2 * UNIT:
        return shrink, grow, None
    return shrink, grow, quantile_upper_bound(min(grow.hi // 2 + 1, UNIT - shrink.lo // 2))


def power(base: Interval, exponent: int) -> Interval:
    """base^exponent by squaring; base is positive."""
    result = real(1)
    for bit in bin(exponent)[2:]:
        result = result.times(result)
        if bit == "1":
            result = result.times(base)
        if result.hi > UNIT << 16:
            return Interval(result.lo, 1 << (4 * P))  # useless anyway
    return result


def quantile_upper_bound(b: int) -> Interval:
    """Some c with Phi(c) >= b / 2^P >= 1/2, at most 2^-60 times too large: the density falls from c on down to 0."""
    low, high = 0, 4 * UNIT
    while high - low > (high >> 60) + 1:
        middle = (low + high) // 2
        low, high = (middle, high) if normal_cdf(Interval(middle, middle)).lo < b else (low, middle)
    return Interval(0, high)


def tail_upper_bound(n: int, votes: int, p: int, coefficient: int) -> Fraction:
    """P[Bin(n, p / 2^P) >= votes] <= the value returned; every step in integers rounded up."""
    if p >= UNIT:
        return Fraction(1)
    q = UNIT - p
    total = term = 1 << SERIES_BITS
    k = votes
    while k < n and (term > 1 << 64 or 2 * (n - k) * p > (k + 1) * q):
        term = -(-term * (n - k) * p // ((k + 1) * q))
        total, k = total + term, k + 1
    if k < n:
        total += term  # from here on each term is at most half the one before
    mass, shift = coefficient, 0
    for base, exponent in ((p, votes), (q, n - votes)):
        mantissa, down = power_up(base, exponent)
        mass, more = round_up(mass * mantissa)
        shift += P * exponent - down - more
    exponent = shift + SERIES_BITS
    return Fraction(mass * total, 1 << exponent) if exponent > 0 else Fraction(mass * total << -exponent)


def power_up(base: int, exponent: int) -> tuple[int, int]:
    """(m, s) with base^exponent <= m * 2^s, by squaring with 320 bits."""
    mantissa, shift = 1, 0
    for bit in bin(exponent)[2:]:
        mantissa, more = round_up(mantissa * mantissa * (base if bit == "1" else 1))
        shift = 2 * shift + more
    return mantissa, shift


def round_up(x: int) -> tuple[int, int]:
    """(m, s) with x <= m * 2^s and m of at most 321 bits."""
    s = max(0, x.bit_length() - 320)
    return -(-x >> s), s


def main(arguments: list[str]) -> int:
    """Check one file; 0 if it is right."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("radii", type=Path)
    parser.add_argument("noise", type=Path)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        radii, rows = check_certificate(given.radii.read_bytes(), given.noise.read_bytes(), given.every)
    except CheckError as error:
        print(f"{given.radii}: WRONG: {error}")
        return 1
    print(
        f"{given.radii}: {radii.n + 1 - radii.start} radii confirmed from {rows} rows, the largest {radii.values[-1:]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
