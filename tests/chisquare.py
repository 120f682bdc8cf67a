"""Chi-square tests whose false-alarm rate is stated: a right sampler fails one with probability FALSE_ALARM.

They run on fixed seeds, so they either always pass or always fail; the rate says how likely the choice of seed was to
be unlucky. P-values come from mpmath's incomplete gamma function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.noise import Noise

FALSE_ALARM = 1e-6
LEAST_EXPECTED = 25.0  # per bin, so that the chi-square law holds well into its tail


def survival(statistic: float, freedom: int) -> float:
    """P[chi-square with this many degrees of freedom >= statistic]."""
    return float(mpmath.gammainc(freedom / 2, statistic / 2, mpmath.inf, regularized=True))


def goodness_of_fit(values: NDArray[Any], noise: Noise) -> float:
    """P-value of integer samples against the exact masses of the noise; rare values share the two outer bins."""
    edge = _edge(noise, values.size)
    clipped = np.clip(values.ravel(), -edge, edge)
    observed = np.bincount(clipped + edge, minlength=2 * edge + 1)
    inner = [float(noise.mass(k)) for k in range(1 - edge, edge)]
    outer = float(noise.upper_tail(edge))
    expected = np.array([outer, *inner, outer]) * values.size
    return survival(float(np.sum((observed - expected) ** 2 / expected)), 2 * edge)


def _edge(noise: Noise, size: int) -> int:
    edge = 1
    while float(noise.mass(edge + 1)) * size >= LEAST_EXPECTED:
        edge += 1
    return edge


def independence(first: NDArray[Any], second: NDArray[Any], noise: Noise, cells: int = 8) -> float:
    """P-value of pairs of samples of the noise against independence, over cells x cells classes of values."""
    edges = [k for k, _ in _quantiles(noise, cells)]
    a, b = (np.searchsorted(edges, x.ravel(), side="left") for x in (first, second))
    observed = np.bincount(a * cells + b, minlength=cells * cells)
    cumulative = np.array([0.0, *(p for _, p in _quantiles(noise, cells)), 1.0])
    expected = np.outer(np.diff(cumulative), np.diff(cumulative)).ravel() * first.size
    return survival(float(np.sum((observed - expected) ** 2 / expected)), cells * cells - 1)


def _quantiles(noise: Noise, cells: int) -> list[tuple[int, float]]:
    """(k, P[n <= k]) for the k nearest above each multiple of 1 / cells."""
    found, k = [], noise.table().first
    for i in range(1, cells):
        while float(noise.cdf(k)) < i / cells:
            k += 1
        found.append((k, float(noise.cdf(k))))
    return found
