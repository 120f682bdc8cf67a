"""The perturbations that an attack may make: whole pixel levels, inside a ball, and no pixel outside 0..255.

Whether one lies inside is decided in integers: |d|^2 <= floor((255 eps)^2) in l2, |d_i| <= floor(255 eps) in l_inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from intrs.errors import SettingsError
from intrs.exact import parse_fraction
from intrs.noise import PIXEL_RANGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

Norm = Literal["l2", "linf"]
NORMS: tuple[Norm, ...] = ("l2", "linf")
LARGEST_EPS: dict[Norm, int] = {"l2": 1000, "linf": 1}  # of the pixel range: no image is that far from another
HALVINGS = 60


@dataclass(frozen=True)
class Ball:
    """All integer d with |d| <= 255 eps; eps is an exact fraction of the pixel range."""

    norm: Norm
    eps: Fraction

    @classmethod
    def of(cls, norm: Norm, eps: str | float | Fraction) -> Ball:
        """The ball of a radius as it was written."""
        value = parse_fraction(eps, "eps")
        largest = LARGEST_EPS[norm]
        if not 0 <= value <= largest:
            hint = f"; {eps} pixel levels are {eps}/{PIXEL_RANGE}" if largest < value <= PIXEL_RANGE else ""
            raise SettingsError(
                f"eps, a fraction of the pixel range, must lie between 0 and {largest}, not {eps}{hint}"
            )
        return cls(norm, value)

    @classmethod
    def up_to(cls, radius_sq: int) -> Ball:
        """The l2 ball |d|^2 <= radius_sq: all that a certificate speaks of."""
        root = Fraction(math.isqrt(radius_sq * 10**24 - 1) + 1, 10**12) if radius_sq else Fraction(0)  # rounded up
        ball = cls("l2", root / PIXEL_RANGE)
        assert ball.limit == radius_sq
        return ball

    @property
    def limit(self) -> int:
        """The largest `size` inside: squared pixel levels in l2, pixel levels in l_inf."""
        radius = self.eps * PIXEL_RANGE
        return math.floor(radius**2 if self.norm == "l2" else radius)

    @property
    def radius(self) -> float:
        """In pixel levels, of the smallest ball around the same integer points; a guide, not a bound."""
        return math.sqrt(self.limit) if self.norm == "l2" else float(self.limit)

    def size(self, change: NDArray[np.int64]) -> int:
        """How large a perturbation is, as `limit` measures it, exactly."""
        if self.norm == "linf":
            return int(np.abs(change).max(initial=0))
        return int((change * change).sum())

    def to_grid(self, wanted: NDArray[Any], image: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Whole levels inside the ball and the pixel range, in the direction of the perturbation that was wanted.

        In l2 the wanted one is scaled before it is rounded, by the largest factor for which the result lies inside:
        every |d_i| grows with the factor, so bisection finds it. Simply cutting off fractions would be inside as well,
        but in 3072 dimensions a step of one level per pixel is already a norm of 0.2, and almost nothing would be left.
        """
        factor = self._factor(wanted, image) if self.norm == "l2" else 1.0
        found = self._rounded(wanted, image, factor)
        if self.size(found) > self.limit:
            raise AssertionError(f"a perturbation of {self.size(found)} where {self.limit} is allowed")
        return found

    def _factor(self, wanted: NDArray[Any], image: NDArray[np.uint8]) -> float:
        low, high = 0.0, 1.0
        while self.size(self._rounded(wanted, image, high)) <= self.limit and high < 1e6:
            low, high = high, 2 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            inside = self.size(self._rounded(wanted, image, middle)) <= self.limit
            low, high = (middle, high) if inside else (low, middle)
        return low

    def _rounded(self, wanted: NDArray[Any], image: NDArray[np.uint8], factor: float) -> NDArray[np.int64]:
        most = self.limit if self.norm == "linf" else PIXEL_RANGE
        pixels = image.astype(np.int64)
        levels = np.clip(np.rint(wanted * factor), -most, most).astype(np.int64)
        found: NDArray[np.int64] = np.clip(pixels + levels, 0, PIXEL_RANGE) - pixels
        return found
