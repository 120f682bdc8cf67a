"""What an adaptive run was asked for, first and when it was extended; as text, it stands beside the results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from intrs.adaptive.rule import Rule, SpendingRule, UnionRule
from intrs.adaptive.tables import STEP, squared
from intrs.certificate import parse_samples
from intrs.errors import IntrsError, SettingsError
from intrs.exact import Count, Number, parse_fraction, parse_percent, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.certificate import Certifier

GIVE_UP = Fraction(7, 10)
MOST_RADII, MOST_STAGES, LARGEST_RADIUS = 100, 20, 100
MOST_QUARTERS = 40  # radii that an adaptive run decides if none are given
NUMBER = r"\d{1,36}(?:/\d{1,36})?"  # every float that is not tiny is such a number
LONGEST_PLAN = 2**18  # characters of stages as text: more than MOST_STAGES of them with MOST_RADII have
TEXT = re.compile(rf"n=(\d{{1,9}}) (?:radii=({NUMBER}(?:,{NUMBER})*) give_up=({NUMBER})|precision=({NUMBER}))")


@dataclass(frozen=True, repr=False)
class Stage:
    """Decide these radii, or come as close as `precision` to what n samples could certify; n is the cap."""

    n: int
    radii: tuple[Fraction, ...] = ()
    give_up: Fraction = GIVE_UP
    precision: Fraction | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", parse_samples(self.n))
        if bool(self.radii) == (self.precision is not None):
            raise SettingsError("an adaptive run decides radii or reaches a precision: ask for one of the two")
        if self.precision is not None and not 0 < self.precision < 1:
            raise SettingsError(f"the precision must lie between 0 and 1, such as 1%, got {self.precision}")
        if len(self.radii) > MOST_RADII:
            raise SettingsError(f"at most {MOST_RADII} radii can be asked for, got {len(self.radii)}")
        if outside := [radius for radius in self.radii if not 0 <= radius <= LARGEST_RADIUS]:
            raise SettingsError(f"a radius must lie between 0 and {LARGEST_RADIUS}, got {plain(outside[0])}")
        if not 0 <= self.give_up < 1:
            raise SettingsError(f"the probability of giving up must be at least 0 and below 1, got {self.give_up}")
        numbers = map(str, (*self.radii, self.give_up, self.precision or 0))
        if long := [number for number in numbers if not re.fullmatch(NUMBER, number)]:  # which could not be read again
            raise SettingsError(
                f"an adaptive run takes numbers of at most 36 digits, such as 0.125 or 1/3; got {long[0]}"
            )

    def __repr__(self) -> str:
        return f"Stage({str(self)!r})"

    def __str__(self) -> str:
        if self.precision is not None:
            return f"n={self.n} precision={self.precision}"
        return f"n={self.n} radii={','.join(map(str, self.radii))} give_up={self.give_up}"


@dataclass(frozen=True, repr=False)
class Stages:
    """The stages of a run: what was asked for first, and each extension, which goes on where the one before stopped."""

    stages: tuple[Stage, ...]

    @classmethod
    def of(
        cls, n: Count, radii: Number | Sequence[Number] = (), precision: Number | None = None,
        give_up: Number = GIVE_UP,
    ) -> Stages:  # fmt: skip
        """A run of one stage."""
        asked = [radii] if isinstance(radii, str | int | float | Fraction) else radii
        exact = tuple(sorted({parse_fraction(radius, "a radius") for radius in asked}))
        share = parse_fraction(give_up, "the probability of giving up")
        return cls((Stage(cast("int", n), exact, share, parse_percent(precision, "the precision")),))

    @classmethod
    def parse(cls, text: str) -> Stages:
        """The stages whose `str` is this text; ValueError if there is none."""
        parts = text.split("; ")
        matches = [TEXT.fullmatch(part) for part in parts[: MOST_STAGES + 1]]
        if len(parts) > MOST_STAGES or not all(matches):
            raise ValueError("not the stages of a run")
        try:
            found = cls(tuple(_stage(*match.groups()) for match in matches if match))
            for before, after in zip(found.stages, found.stages[1:], strict=False):
                found.check_extension(before, after)
        except (IntrsError, ZeroDivisionError) as error:
            raise ValueError(str(error)) from None
        if str(found) != text:
            raise ValueError("not written as stages are")
        return found

    def __repr__(self) -> str:
        return f"Stages.parse({str(self)!r})"

    def __str__(self) -> str:
        return "; ".join(map(str, self.stages))

    @property
    def last(self) -> Stage:
        """What is asked for now."""
        return self.stages[-1]

    def extended(self, stage: Stage) -> Stages:
        """The stages that go on with `stage`; refused, with the reason, where that would not be valid."""
        if stage == self.last:
            return self
        self.check_extension(self.last, stage)
        if len(self.stages) == MOST_STAGES:
            raise SettingsError(f"this run was extended {MOST_STAGES - 1} times; begin another one, with another seed")
        return Stages((*self.stages, stage))

    def check_extension(self, before: Stage, after: Stage) -> None:
        """Section 6 of docs/adaptive.md: what may be asked for after the votes were seen."""
        if (before.precision is None) != (after.precision is None):
            raise SettingsError(
                "a run that decides radii and one that reaches a precision spend alpha in different ways: "
                "changing over would spend it twice; begin a run of its own, with another seed"
            )
        if after.n < before.n:
            raise SettingsError(
                f"the run was made for up to {before.n} samples; it can be extended, not cut to {after.n}"
            )
        if after.n != (fewer := doublings(self.stages[0].n, after.n)[-1]):
            raise SettingsError(
                f"the run cannot be extended to {after.n} samples: what each look may spend has to be fixed before the "
                f"votes are seen, and it is for doublings of the first n, such as {fewer} or {2 * fewer}"
            )
        new = [r for r in after.radii if r not in self.stages[0].radii and r % STEP]
        if new:
            raise SettingsError(
                f"radius {float(new[0]):g} was not declared when the run began: a radius that is chosen after seeing "
                f"the votes needs a table that was fixed before. Multiples of {float(STEP):g} have one"
            )

    def rules(self, certifier: Certifier) -> tuple[Rule, ...]:
        """One rule per stage; each begins where the one before stopped."""
        return _rules(self, certifier)


@lru_cache(maxsize=64)
def _rules(stages: Stages, certifier: Certifier) -> tuple[Rule, ...]:
    found: list[Rule] = []
    first = stages.stages[0]
    for stage in stages.stages:
        found.append(_rule(stage, certifier.for_samples(stage.n), doublings(first.n, stage.n), first.radii))
    return tuple(found)


def stages_of(
    certifier: Certifier, radii: Sequence[Number], precision: Number | None = None, give_up: Number | None = None
) -> Stages:
    """One stage with at most the certifier's samples; without radii or precision it decides all quarters."""
    if precision is not None and give_up is not None:
        raise SettingsError("give_up is for radii; a run with a precision has no use for it")
    wanted = radii or ([] if precision is not None else _every_quarter(certifier))
    return Stages.of(certifier.n, wanted, precision, GIVE_UP if give_up is None else give_up)


def _every_quarter(certifier: Certifier) -> list[Fraction]:
    """The radii of the closing table: 0, which is the class itself, and the quarters that the setting can certify."""
    largest, radii = certifier.largest() or 0, [Fraction(0)]
    while squared(radii[-1] + Fraction(1, 4)) <= largest and len(radii) < MOST_QUARTERS:
        radii.append(radii[-1] + Fraction(1, 4))
    return radii


def doublings(first: int, most: int) -> tuple[int, ...]:
    """first, 2 first, 4 first, ... as far as they do not exceed most."""
    caps = [first]
    while 2 * caps[-1] <= most:
        caps.append(2 * caps[-1])
    return tuple(caps)


def _rule(stage: Stage, certifier: Certifier, caps: tuple[int, ...], declared: tuple[Fraction, ...]) -> Rule:
    if stage.precision is None and certifier.form == "one":
        return SpendingRule(certifier, caps, declared, stage.radii, stage.give_up)
    if stage.give_up != GIVE_UP:
        raise SettingsError("when to give up can be chosen for radii in the one-class form only")
    return UnionRule(certifier, caps, stage.radii, stage.precision)


def _stage(n: str, radii: str | None, give_up: str | None, precision: str | None) -> Stage:
    if precision is not None:
        return Stage(int(n), precision=Fraction(precision))
    return Stage(int(n), tuple(Fraction(r) for r in (radii or "").split(",")), Fraction(give_up or GIVE_UP))
