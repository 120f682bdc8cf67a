"""Stopping rules: at each look, whether the votes decide, and what they certify.

Both rules are valid at all looks at once, so that when a run stops costs nothing: docs/adaptive.md, sections 2 to 5.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt
from typing import TYPE_CHECKING

from intrs.adaptive.looks import WIDE, Schedule, schedule
from intrs.adaptive.tables import RuleTables, ascending, levels, looks_of, make_tables, squared
from intrs.certificate import Abstained, Certified, Certifier, lower_bound, runner_up, upper_bound
from intrs.errors import SettingsError
from intrs.exact import plain
from intrs.values import ByFields

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = Fraction(4, 5)  # of the union rule's alpha up to a cap, for the look at the cap
DOUBT = Fraction(1, 20)  # the union rule gives a radius up if a confidence bound of this level puts it out of reach
DOUBT_OF_REACH = Fraction(1, 1000)  # and takes a bound of this level for what is in reach of a precision
BOUNDS_OF_LINE = 12  # confidence bounds, about, that judging a line by the union rule takes


@dataclass(frozen=True, repr=False)
class Rule(ByFields, ABC):
    """What the certifier says is valid for one number of samples; a rule spreads its alpha over all looks."""

    certifier: Certifier  # of the last cap
    caps: tuple[int, ...]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.certifier}, caps={self.caps}, {self._asked()})"

    @abstractmethod
    def _asked(self) -> str:
        """What is to be decided, in a few words."""

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """The looks."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The kind of rule and a digest of all that it decides by: a column of results."""

    @abstractmethod
    def terms(self, lines: int) -> int:
        """About how many terms of binomial laws are to be computed to judge the votes of so many images."""

    @abstractmethod
    def stops(self, look: int, votes: int, rest: int) -> bool:
        """Whether everything that was asked for is decided by these votes, and the most of any other class."""

    @abstractmethod
    def radius_sq(self, look: int, votes: int, rest: int) -> int | None:
        """What is certified, if sampling stops here; None is an abstention."""

    def largest(self) -> int | None:
        """The squared radius if every sample of the last cap votes alike; None if this rule can only abstain."""
        return self.radius_sq(len(self.schedule.looks) - 1, self.caps[-1], 0)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {n: k for k, n in enumerate(self.schedule.looks)}

    def look(self, n: int) -> int:
        """Which look, from 0, takes place after n samples."""
        if n not in self._places:
            raise SettingsError(f"the rule does not look after {n} samples")
        return self._places[n]

    def following(self, n: int) -> int:
        """The samples at the first look after n samples."""
        return next(look for look in self.schedule.looks if look > n)

    def is_over(self, label: int, counts: Sequence[int]) -> bool:
        """Whether sampling stops with these votes: at the last cap it always does."""
        look = self.look(sum(counts))
        return look + 1 == len(self.schedule.looks) or self.stops(look, counts[label], runner_up(label, counts))

    def judge(self, label: int, counts: Sequence[int]) -> Certified | Abstained:
        """The certificate of the class `label`, chosen from other samples, where sampling stopped."""
        n, votes, alpha = sum(counts), counts[label], self.certifier.alpha
        found = self.radius_sq(self.look(n), votes, runner_up(label, counts))
        if found is None:
            words = f"{votes} of {n} votes show no majority at alpha {float(alpha):g}"
            out_of_reach = f", and what was asked for is out of reach of {self.caps[-1]} samples"
            return Abstained(votes, n, alpha, words + (out_of_reach if n < self.caps[-1] else ""))
        return Certified(label, found, votes, n, alpha)


def next_look(rules: Sequence[Rule], stage: int, label: int, counts: Sequence[int] | None) -> tuple[int, int | None]:
    """Of several rules in turn: the one that goes on after these votes, from the one at `stage` on, and its next look.

    The look is the number of samples in all; None if every rule has stopped. A rule that has stopped is not asked
    again: after more samples it might say otherwise.
    """
    if counts is None:
        return stage, rules[stage].following(0)
    while rules[stage].is_over(label, counts):
        stage += 1
        if stage == len(rules):
            return stage, None
    return stage, rules[stage].following(sum(counts))


@dataclass(frozen=True, repr=False)
class SpendingRule(Rule):
    """Decides radii, by tables of exact probabilities: the default."""

    declared: tuple[Fraction, ...]  # radii that the tables hold beside the multiples of STEP
    radii: tuple[Fraction, ...]  # what is asked for
    give_up: Fraction  # the probability of giving a radius up early where the last cap would be a coin flip

    def _asked(self) -> str:
        return f"{_span(self.radii)}, give_up={plain(self.give_up)}"

    @cached_property
    def tables(self) -> RuleTables:
        """The integers that decide."""
        return make_tables(self.certifier, self.caps, self.declared, max(self.radii))

    @cached_property
    def schedule(self) -> Schedule:
        """The looks."""
        return looks_of(self.certifier, self.caps)

    def terms(self, lines: int) -> int:
        """Those of the tables, however many lines there are: of accepting every radius, of rejecting those asked for.

        No table is made of radii that not even votes which are all alike would certify.
        """
        reach = self.certifier.largest() or 0
        radii = [radius for radius in ascending(self.declared, max(self.radii)) if squared(radius) <= reach]
        return (len(radii) + len(self.radii)) * len(self.schedule.looks) * isqrt(self.caps[-1])

    @cached_property
    def name(self) -> str:
        """spending- and a digest of the tables."""
        return f"spending-{hashlib.sha256(self.to_bytes()).hexdigest()[:16]}"

    def to_bytes(self) -> bytes:
        """The tables in their canonical form."""
        return self.tables.to_bytes(self.radii, self.give_up)

    @cached_property
    def _limits(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        never = tuple(n + 1 for n in self.schedule.looks)
        found = ((self.tables.of(radius), radius) for radius in self.radii)
        return [(t.accept if t else never, self.tables.reject(radius, self.give_up)) for t, radius in found]

    def stops(self, look: int, votes: int, rest: int) -> bool:
        """Every radius that is asked for is accepted or given up."""
        return all(votes >= accept[look] or votes <= reject[look] for accept, reject in self._limits)

    def radius_sq(self, look: int, votes: int, rest: int) -> int | None:
        """The largest radius of the tables that is accepted."""
        return self.tables.radius_sq(look, votes)


@dataclass(frozen=True, repr=False)
class UnionRule(Rule):
    """Clopper-Pearson at every look, at levels that add up to alpha: for the two-class form, and for a precision.

    It certifies any radius and works in both forms, at the price of a union bound.
    """

    radii: tuple[Fraction, ...] = ()
    precision: Fraction | None = None

    def _asked(self) -> str:
        return _span(self.radii) if self.precision is None else f"precision={plain(self.precision)}"

    @cached_property
    def schedule(self) -> Schedule:
        """The looks, farther apart than those of the other rule: here each one costs."""
        return schedule(self.caps, levels(self.certifier, self.caps), WIDE, KEPT)

    def terms(self, lines: int) -> int:
        """Those of the confidence bounds of every line."""
        return lines * BOUNDS_OF_LINE * isqrt(self.caps[-1])

    @cached_property
    def name(self) -> str:
        """union- and a digest of the levels and of what is asked for."""
        c = self.certifier
        setting = (c.noise.kind, c.noise.sigma, c.dimension, c.bound, c.form, c.classes if c.form == "two" else 1)
        asked = (*self.radii, self.precision)
        parts = " ".join(map(str, (*setting, *self.schedule.looks, *self.schedule.levels, *asked)))
        return f"union-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"

    @cached_property
    def _certifiers(self) -> list[Certifier]:
        return [self.certifier.at(n, level) for n, level in zip(self.schedule.looks, self.schedule.levels, strict=True)]

    def radius_sq(self, look: int, votes: int, rest: int) -> int | None:
        """What a certifier of this look's level says."""
        return self._certifiers[look].radius_sq_of(votes, rest)

    def stops(self, look: int, votes: int, rest: int) -> bool:
        """Every radius is certified or out of reach, or the radius is as close as was asked to what is in reach."""
        reached, reach = (_size(r_sq) for r_sq in (self.radius_sq(look, votes, rest), self.reach(look, votes, rest)))
        if self.precision is not None:
            return reached >= (1 - self.precision) ** 2 * reach if reached >= 0 else reach < 0
        return not any(reached < squared(radius) <= reach for radius in self.radii)

    def reach(self, look: int, votes: int, rest: int) -> int | None:
        """The squared radius that the last cap would certify if the votes went on as well as can be believed.

        That is, if the class had its upper confidence bound, and the runner-up its lower one.
        """
        now, cap = self.schedule.looks[look], self.schedule.looks[-1]
        doubt = DOUBT if self.precision is None else DOUBT_OF_REACH
        most = min(votes + cap - now, ceil(upper_bound(votes, now, doubt) * cap))
        fewest = max(rest, int(lower_bound(rest, now, doubt) * cap))
        return self._certifiers[-1].radius_sq_of(most, min(fewest, cap - most))


def _span(radii: Sequence[Fraction]) -> str:
    return f"{len(radii)} radii up to {plain(max(radii))}"


def _size(radius_sq: int | None) -> int:
    return -1 if radius_sq is None else radius_sq
