"""The tables by which a device decides: noise, Algorithm 2, votes -> squared radius, and the looks of adaptive runs.

All are exact: what a device looks up is what the library computes, entry by entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from intrs.adaptive.tables import squared
from intrs.certificate import least_wins_table
from intrs.errors import SettingsError
from intrs.search import first_that_holds

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from intrs.adaptive import SpendingRule
    from intrs.certificate import Certifier, RadiusTable
    from intrs.exchange.device.words import ConstantBlock
    from intrs.noise import Noise

MOST_SAMPLES = 2**31 - 1  # that a device counts to: `intrs_check.c` refuses more
HALF = 31  # bits of the upper word of numbers below 2^63
LEAST_BUCKETS, MOST_BUCKETS = 6, 11  # bits
FRACTION_BITS = 16  # of slope and bend
BLOCK_BITS = range(4, 12)
INT32 = 2**31


@dataclass(frozen=True)
class Predicting:
    """Algorithm 2 over n samples."""

    n: int
    level: Fraction  # alpha, less what the noise table costs


@dataclass(frozen=True)
class Certifying:
    """Algorithm 1 with n samples, by its table; or only whether this radius is certified."""

    n0: int
    certifier: Certifier
    table: RadiusTable | None = None
    at_least: Fraction | None = None


@dataclass(frozen=True)
class Stopping:
    """Adaptive certification by a rule; with `only_asked`, the tables hold no radii but those that are asked for."""

    n0: int
    rule: SpendingRule
    only_asked: bool = False


@dataclass(frozen=True)
class Decisions:
    """What a device is to decide, and under which noise."""

    noise: Noise
    predict: Predicting | None = None
    certify: Certifying | None = None
    adaptive: Stopping | None = None

    def put(self, block: ConstantBlock) -> tuple[int, int, int, int]:
        """Their places in the constants: noise, predict, certify, adaptive; 0 for those that are not wanted."""
        return (
            put_noise(block, self.noise),
            put_predict(block, self.predict) if self.predict else 0,
            put_certify(block, self.certify) if self.certify else 0,
            put_adaptive(block, self.adaptive) if self.adaptive else 0,
        )


def put_noise(block: ConstantBlock, noise: Noise) -> int:
    """The thresholds below 2^63; the others follow by symmetry (Theorem 4)."""
    table = noise.table()
    count = -table.first
    lower = table.thresholds[:count]
    high, low = (lower >> np.uint64(32)).astype(np.uint32), (lower & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    bits = min(max(count.bit_length() - 1, LEAST_BUCKETS), MOST_BUCKETS)
    edges = np.arange((1 << bits) + 1, dtype=np.uint64) << np.uint64(HALF - bits)
    starts = np.searchsorted(high, edges, "left").astype(np.uint16)
    places = block.array(high, "<u4"), block.array(low, "<u4"), block.array(starts, "<u2")
    return block.words([count, bits, *places])


def put_predict(block: ConstantBlock, asked: Predicting) -> int:
    """A bit per number of votes of the first two classes: whether the least number of wins grows there."""
    least = least_wins_table(asked.n, asked.level)
    grows = np.zeros((asked.n // 32 + 1) * 32, np.uint8)
    grows[1 : asked.n + 1] = np.diff(least)
    return block.words([asked.n, block.array(np.packbits(grows, bitorder="little").view("<u4"), "<u4")])


def put_certify(block: ConstantBlock, asked: Certifying) -> int:
    """The whole table in blocks of parabolas and what is left; or the fewest votes that certify one radius."""
    n = asked.certifier.n
    if asked.at_least is not None:
        wanted = squared(asked.at_least)
        return block.words([asked.n0, n, least_votes(asked.certifier, wanted), wanted, 0, 0, 0, 0, 0])
    table = asked.table
    assert table is not None
    bits, blocks, residuals = compressed(table.values)
    places = block.words(blocks.ravel().tolist()), block.array(residuals, "<u4")
    first = int(table.values[0]) if len(table.values) else 0
    return block.words([asked.n0, n, table.start, first, len(blocks), bits, *places, len(residuals)])


def least_votes(certifier: Certifier, radius_sq: int) -> int:
    """The fewest votes that certify this squared radius; n + 1 if none do."""

    def enough(votes: int) -> bool:
        found = certifier.radius_sq(votes)
        return found is not None and found >= radius_sq

    return first_that_holds(enough, 0, certifier.n) if enough(certifier.n) else certifier.n + 1


def compressed(values: NDArray[np.int64]) -> tuple[int, NDArray[np.int64], NDArray[np.uint32]]:
    """The smallest of these forms: bits of a block's length, a row of four words per block, and the residuals."""
    if not len(values):
        return BLOCK_BITS[0], np.zeros((0, 4), np.int64), np.zeros(2, np.uint32)
    found = [(bits, *_compressed(values, bits)) for bits in BLOCK_BITS]
    return min(found, key=lambda form: 16 * len(form[1]) + 4 * len(form[2]))


def _compressed(values: NDArray[np.int64], bits: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    rows, parts, at = [], [], 0
    for begin in range(0, len(values), 1 << bits):
        part = values[begin : begin + (1 << bits)]
        base, slope, bend, rest = _parabola(part)
        width = int(rest.max()).bit_length()
        rows.append((base, slope, bend, at << 5 | width))
        held = np.zeros(1 << bits, np.int64)
        held[: len(rest)] = rest
        parts.append((held[:, None] >> np.arange(width) & 1).astype(np.uint8).ravel())
        at += width << bits
    if at >= 1 << 27:
        raise SettingsError("the table of radii is too large for a device; lower n, or ask for a single radius")
    stream = np.concatenate([*parts, np.zeros(-at % 32 + 64, np.uint8)])  # a device reads a word more
    return np.array(rows, np.int64), np.packbits(stream, bitorder="little").view("<u4")


def _parabola(part: NDArray[np.int64]) -> tuple[int, int, int, NDArray[np.int64]]:
    """base + ((slope i + bend i^2) >> 16) + rest, exactly; floats only guess slope and bend."""
    i = np.arange(len(part), dtype=np.int64)
    guess = np.polyfit(i, part.astype(float), min(2, len(part) - 1))[::-1] if len(part) > 1 else [0.0]
    slope, bend = (_fixed(guess[k]) if len(guess) > k else 0 for k in (1, 2))
    rest = part - ((slope * i + bend * i * i) >> FRACTION_BITS)
    base = int(rest.min())
    return base, slope, bend, rest - base


def _fixed(value: float) -> int:
    return int(min(max(round(value * 2**FRACTION_BITS), -INT32 + 1), INT32 - 1))


def put_adaptive(block: ConstantBlock, asked: Stopping) -> int:
    """Looks, the votes that accept each radius at each look, and those that give up what is asked for."""
    rule, tables = asked.rule, asked.rule.tables
    looks = np.array(rule.schedule.looks, np.int64)
    thresholds = [t for t in tables.thresholds if not asked.only_asked or t.radius in rule.radii]
    places = {t.radius: i for i, t in enumerate(thresholds)}
    accept = np.array([t.accept for t in thresholds], np.int64).reshape(-1, len(looks))
    spare = looks + 1 - accept
    wide = bool(spare.size and spare.max() >= 2**16)
    given_up = np.array([tables.reject(radius, rule.give_up) for radius in rule.radii], np.int64) + 1
    return block.words([
        asked.n0, len(looks), block.words(looks.tolist()),
        len(thresholds), block.words(t.radius_sq for t in thresholds),
        block.array(spare, "<u4" if wide else "<u2"), wide,
        len(rule.radii), block.words(places.get(r, len(thresholds)) for r in rule.radii),
        block.words(given_up.ravel().tolist()),
    ])  # fmt: skip
