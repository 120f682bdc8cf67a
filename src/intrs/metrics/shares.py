"""Numbers with intervals. Intervals are about the images: 500 of them are a sample, and others give other numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING, SupportsFloat

from intrs.certificate import lower_bound, upper_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = Fraction(95, 100)
FEWEST_FOR_NORMAL = 30  # images; below, the normal interval of a mean says little


@dataclass(frozen=True, repr=False, eq=False)
class Share:
    """part of whole images, which compares and multiplies as the number that it is.

    The interval is Clopper and Pearson's: exact, whatever the true share is.
    """

    part: int
    whole: int

    @property
    def value(self) -> float | None:
        """part / whole; None if there is no whole."""
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Covers the share among all images that these were drawn from with probability 95 % or more."""
        return _clopper_pearson(self.part, self.whole) if self.whole else None

    def __float__(self) -> float:
        """The value; NaN if there is no whole."""
        return math.nan if self.value is None else self.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Share):
            return (self.part, self.whole) == (other.part, other.whole)
        return float(self) == other

    def __hash__(self) -> int:
        return hash(float(self))

    def __lt__(self, other: SupportsFloat) -> bool:
        return float(self) < float(other)

    def __le__(self, other: SupportsFloat) -> bool:
        return float(self) <= float(other)

    def __gt__(self, other: SupportsFloat) -> bool:
        return float(self) > float(other)

    def __ge__(self, other: SupportsFloat) -> bool:
        return float(self) >= float(other)

    def __mul__(self, factor: float) -> float:
        return float(self) * factor

    __rmul__ = __mul__

    def __round__(self, digits: int = 0) -> float:
        return round(float(self), digits)

    def __repr__(self) -> str:
        if self.interval is None:
            return "no share: 0 images"
        low, high = self.interval
        return f"{self:.3f} ({self.part:,} of {self.whole:,}, 95 % interval {low:.3f} to {high:.3f})"

    def __format__(self, spec: str) -> str:
        """As a float is formatted; in full without a specification."""
        return format(float(self), spec) if spec else repr(self)


@lru_cache(maxsize=2**16)
def _clopper_pearson(part: int, whole: int) -> tuple[float, float]:
    level = (1 - CONFIDENCE) / 2
    return float(lower_bound(part, whole, level)), float(upper_bound(part, whole, level))


@dataclass(frozen=True, repr=False)
class Mean:
    """A mean over images, with the normal interval: right for many images, and left out for few."""

    value: float
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean | None:
        """Of numbers from 0 on."""
        if not values:
            return None
        value = fmean(values)
        if len(values) < FEWEST_FOR_NORMAL:
            return cls(value, None)
        half = NormalDist().inv_cdf(float(1 + CONFIDENCE) / 2) * stdev(values) / math.sqrt(len(values))
        return cls(value, (max(value - half, 0.0), value + half))

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        if self.interval is None:
            return f"{self.value:.3f} (too few images for an interval)"
        low, high = self.interval
        return f"{self.value:.3f} (95 % interval {low:.3f} to {high:.3f})"
