"""Candidates for the range of values that an activation's 256 codes cover, each from its histogram.

A wide range rounds coarsely, a narrow one clips. Every range holds 0, which must have a code of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from intrs.quantization.activations import Histogram

Range = tuple[float, float]
LEVELS = 255
SHARES = np.linspace(0.3, 1, 36)  # of the extremes, that the search for the least error tries


def min_max(histogram: Histogram) -> Range:
    """All values that were seen."""
    return min(histogram.low, 0.0), max(histogram.high, 0.0)


def percentile(share: float) -> Callable[[Histogram], Range]:
    """All values but this share at either end."""

    def found(histogram: Histogram) -> Range:
        total = histogram.zeros + int(histogram.counts.sum())
        edges, below = histogram.edges, np.cumsum(histogram.counts)
        below = below + np.where(edges[1:] > 0, histogram.zeros, 0)
        low = edges[int(np.searchsorted(below, share * total, "right"))]
        high = edges[min(int(np.searchsorted(below, (1 - share) * total, "left")) + 1, len(edges) - 1)]
        return min(float(low), 0.0), max(float(high), 0.0)

    return found


def least_squares(histogram: Histogram) -> Range:
    """The range of least squared error, clipping and rounding together."""
    low, high = min_max(histogram)
    centres = (histogram.edges[1:] + histogram.edges[:-1]) / 2
    lows = low * SHARES if low < 0 else np.zeros(1)
    highs = high * SHARES if high > 0 else np.zeros(1)
    counts = histogram.counts.astype(np.float64)
    under = np.array([(counts * np.maximum(a - centres, 0) ** 2).sum() for a in lows])
    over = np.array([(counts * np.maximum(centres - b, 0) ** 2).sum() for b in highs])
    steps = (highs[None, :] - lows[:, None]) / LEVELS
    error = under[:, None] + over[None, :] + counts.sum() * steps**2 / 12
    i, j = np.unravel_index(int(error.argmin()), error.shape)
    return float(lows[i]), float(highs[j])


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "min-max": min_max,
    "99.999 %": percentile(1e-5),
    "99.99 %": percentile(1e-4),
    "least squares": least_squares,
}


def ranges(method: str, histograms: Mapping[str, Histogram]) -> dict[str, Range]:
    """The range of every activation by one of the METHODS."""
    return {name: METHODS[method](histogram) for name, histogram in histograms.items()}
