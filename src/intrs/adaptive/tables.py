"""Which radii how many votes certify at each look, and when to give one up: integers that a device can look up.

docs/adaptive.md, sections 3 to 5. The tables of all radii are made in ascending order, and none may cross the one
before it: whoever accepts a radius accepts every smaller one too, so one alpha does for all of them.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from intrs.adaptive.boundary import P_ONE, boundary
from intrs.adaptive.looks import CLOSE, Schedule, schedule
from intrs.certificate import BOUNDS, Certifier
from intrs.noise import LAWS, PIXEL_RANGE
from intrs.search import first_that_holds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STEP = Fraction(1, 20)  # every multiple of it is a radius that all tables hold: what may be asked for later
MAGIC = b"intrsat1"
HEADER = struct.Struct(
    "<8sIIQQ16s16s16s16sQIII"
)  # magic, kind, bound, sigma, alpha, eta, dimension, looks, radii, caps


@dataclass(frozen=True)
class Threshold:
    """One radius: at look k it is certified by accept[k] votes or more (n_k + 1: never), whatever comes before."""

    radius: Fraction
    radius_sq: int
    p: int  # a class of probability p / 2^40 has at least this radius
    accept: tuple[int, ...] = field(repr=False)
    crossing: Fraction = field(
        repr=False
    )  # P[accepted at any look] is at most this if the class is less probable than p / 2^40


@dataclass(frozen=True, repr=False)
class RuleTables:
    """The thresholds of every radius in ascending order, the first being 0: the class itself."""

    certifier: Certifier
    schedule: Schedule
    thresholds: tuple[Threshold, ...]

    def __repr__(self) -> str:
        largest = f" up to {float(self.thresholds[-1].radius):g}" if self.thresholds else ""
        return f"RuleTables({self.certifier.noise}, {len(self.thresholds)} radii{largest}, {self.schedule})"

    def radius_sq(self, look: int, votes: int) -> int | None:
        """The largest squared radius that so many votes certify at this look; None is an abstention."""
        found = [t.radius_sq for t in takewhile(lambda t: votes >= t.accept[look], self.thresholds)]
        return found[-1] if found else None

    def of(self, radius: Fraction) -> Threshold | None:
        """The table of a radius; None if no number of votes certifies it."""
        return next((t for t in self.thresholds if t.radius == radius), None)

    def reject(self, radius: Fraction, give_up: Fraction) -> tuple[int, ...]:
        """At look k so many votes or fewer give this radius up; -1 is never."""
        return _reject(self, radius, give_up)

    def to_bytes(self, radii: Sequence[Fraction], give_up: Fraction) -> bytes:
        """The canonical form, little-endian: docs/adaptive.md, section 8. radii: those that are asked for."""
        c, s = self.certifier, self.schedule
        wide = (*c.alpha.as_integer_ratio(), *c.noise.eta.as_integer_ratio())
        body = HEADER.pack(
            MAGIC, LAWS.index(c.noise.kind), BOUNDS.index(c.bound), *c.noise.sigma.as_integer_ratio(),
            *(w.to_bytes(16, "little") for w in wide), c.dimension, len(s.looks), len(self.thresholds), len(s.caps),
        )  # fmt: skip
        body += struct.pack(f"<{len(s.caps)}Q{len(s.looks)}Q", *s.caps, *s.looks)
        for threshold in self.thresholds:
            asked = threshold.radius in radii
            reject = self.reject(threshold.radius, give_up) if asked else [-1] * len(s.looks)
            body += struct.pack("<QQQ", threshold.radius_sq, threshold.p, asked)
            body += struct.pack(f"<{len(s.looks)}q{len(s.looks)}q", *threshold.accept, *reject)
        return body + hashlib.sha256(body).digest()


@lru_cache(maxsize=16)
def make_tables(
    certifier: Certifier, caps: tuple[int, ...], declared: tuple[Fraction, ...], largest: Fraction
) -> RuleTables:
    """The tables of every radius up to the largest, or up to what can be certified within the last cap.

    The certifier's n is the last cap. declared: radii beside the multiples of STEP. The table of a radius does not
    depend on larger ones, nor up to a cap on the caps after it.
    """
    planned, level = looks_of(certifier, caps), levels(certifier, caps[:1])[0]
    thresholds: list[Threshold] = []
    raw: Sequence[int] | None = None
    for radius in ascending(declared, largest):
        p = least_probability(certifier, squared(radius))
        if p is None:
            break
        radius_sq = certifier.radius_sq_at(Fraction(p, P_ONE)) or 0  # as asked, or a little more
        made = boundary(p, planned.looks, planned.spent, raw, level)
        raw = made.accept
        if all(votes > n for votes, n in zip(raw, planned.looks, strict=True)):
            break
        thresholds.append(Threshold(radius, radius_sq, p, _curtailed(raw, planned), made.crossing))
    return RuleTables(certifier, planned, tuple(thresholds))


def levels(certifier: Certifier, caps: Sequence[int]) -> list[Fraction]:
    """What the noise table's error leaves of alpha, up to each cap."""
    return [certifier.alpha - certifier.noise.tau(cap, certifier.dimension) for cap in caps]


def looks_of(certifier: Certifier, caps: Sequence[int]) -> Schedule:
    """The looks of the tables, which are known long before the tables are made."""
    return schedule(caps, levels(certifier, caps), CLOSE)


def ascending(declared: Sequence[Fraction], largest: Fraction) -> Iterator[Fraction]:
    """0, STEP, 2 STEP, ... up to the largest, and what was declared in its place."""
    for k in range(largest // STEP + 1):
        near = (r for r in declared if STEP * k <= r < STEP * (k + 1))
        yield from (r for r in sorted({STEP * k, *near}) if r <= largest)


def squared(radius: Fraction) -> int:
    """The least squared radius, in squared pixel levels, that is not below this radius."""
    square = (PIXEL_RANGE * radius) ** 2
    return -(-square.numerator // square.denominator)


def least_probability(certifier: Certifier, radius_sq: int) -> int | None:
    """The least p / 2^40 that suffices for this squared radius; None if there is none below 1."""

    def suffices(p: int) -> bool:
        found = certifier.radius_sq_at(Fraction(p, P_ONE))
        return found is not None and found >= radius_sq

    if not suffices(P_ONE - 1):
        return None
    return first_that_holds(suffices, P_ONE // 2, P_ONE - 1)  # half is never enough


def _curtailed(accept: Sequence[int], planned: Schedule) -> tuple[int, ...]:
    """Votes that are enough at a later look up to the same cap are enough now: they will still be there."""
    found = list(accept)
    for k in reversed(range(len(found) - 1)):
        if planned.looks[k] not in planned.caps:
            found[k] = min(found[k], found[k + 1])
    return tuple(min(votes, n + 1) for votes, n in zip(found, planned.looks, strict=True))


@lru_cache(maxsize=1024)
def _reject(tables: RuleTables, radius: Fraction, give_up: Fraction) -> tuple[int, ...]:
    """The same kind of test the other way round: the class is less probable than what makes the last look a coin flip.

    It costs nothing of alpha. Giving up is certain where the votes still to come cannot be enough.
    """
    looks, threshold = tables.schedule.looks, tables.of(radius)
    if threshold is None:
        return looks  # out of reach
    needed, n = threshold.accept[-1], looks[-1]
    hopeless = [needed - 1 - (n - now) for now in looks]
    if give_up and needed < n:
        against = P_ONE - needed * P_ONE // n
        spent = [give_up * share for share in tables.schedule.shares()]
        mirrored = boundary(against, looks, spent).accept
        hopeless = [max(b, now - votes) for b, now, votes in zip(hopeless, looks, mirrored, strict=True)]
    return tuple(max(-1, min(b, a - 1)) for b, a in zip(hopeless, threshold.accept, strict=True))
