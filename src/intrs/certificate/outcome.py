"""What Algorithm 1 answers: a class with a radius, or an abstention. Both can be asked the same questions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from intrs.exact import plain
from intrs.noise import PIXEL_RANGE
from intrs.values import html_table

SHOWN_DIGITS = 4  # of a radius, where people read it


@dataclass(frozen=True, repr=False)
class Certified:
    """g(x + delta) = label for every integer delta with |delta|^2 <= radius_sq, with probability at least 1 - alpha.

    radius_sq counts squared pixel levels; 0 is a certificate for x itself.
    """

    label: int
    radius_sq: int
    votes: int
    n: int
    alpha: Fraction

    @property
    def certified(self) -> bool:
        """True: this is no abstention."""
        return True

    @property
    def radius(self) -> float:
        """sqrt(radius_sq) / 255, the unit of papers, as the largest float that does not exceed it."""
        return root_down(Fraction(self.radius_sq, PIXEL_RANGE**2))

    def radius_text(self, digits: int = 6, *, up: bool = False) -> str:
        """The radius in decimals, rounded down, or up to announce what no radius exceeds."""
        square = self.radius_sq * 10 ** (2 * digits)
        scaled = math.isqrt(square // PIXEL_RANGE**2)
        scaled += up and (scaled * PIXEL_RANGE) ** 2 < square
        text = str(scaled).rjust(digits + 1, "0")
        return f"{text[:-digits]}.{text[-digits:]}" if digits else text

    def __repr__(self) -> str:
        return (
            f"Certified(label={self.label}, radius={self.radius_text(SHOWN_DIGITS)}, radius_sq={self.radius_sq}, "
            f"votes={self.votes}, n={self.n}, alpha={plain(self.alpha)})"
        )

    def _repr_html_(self) -> str:
        radius, alpha = self.radius_text(SHOWN_DIGITS), plain(self.alpha)
        rows = {"class": self.label, "radius": radius, "votes": f"{self.votes:,} of {self.n:,}", "alpha": alpha}
        return html_table(
            rows,
            f"The smoothed classifier answers {self.label} for this image and for every image of whole pixel values "
            f"within an L2 distance of {radius} pixel ranges, except with probability {alpha}.",
        )


@dataclass(frozen=True, repr=False)
class Abstained:
    """No statement about this image.

    `radius` and `radius_sq` are 0, so that loops can compare them; `certified` tells this from a certificate of
    radius 0, which does say something.
    """

    votes: int
    n: int
    alpha: Fraction
    reason: str

    @property
    def certified(self) -> bool:
        """False: nothing is certified."""
        return False

    @property
    def label(self) -> None:
        """None: no class is certified."""
        return

    @property
    def radius(self) -> float:
        """0.0: nothing is certified, not even the image itself."""
        return 0.0

    @property
    def radius_sq(self) -> int:
        """0, as `radius`."""
        return 0

    def __repr__(self) -> str:
        return f"Abstained(votes={self.votes}, n={self.n}, alpha={plain(self.alpha)}, reason={self.reason!r})"

    def _repr_html_(self) -> str:
        rows = {"class": "abstained", "votes": f"{self.votes:,} of {self.n:,}", "alpha": plain(self.alpha)}
        return html_table(rows, f"No class is certified for this image: {self.reason}.")


def root_down(square: Fraction) -> float:
    """The largest float whose square is not more than this one."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0)
    while Fraction(above := math.nextafter(root, math.inf)) ** 2 <= square:
        root = above
    return root
