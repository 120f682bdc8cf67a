"""The native sampler against the exact laws.

Every test draws with a fixed seed, so it passes or fails for good; had the seed been chosen at random, a right sampler
would fail a test with probability 1e-6 (FALSE_ALARM). Wrong samplers must be rejected at the same level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from chisquare import FALSE_ALARM, goodness_of_fit, independence, survival

from intrs import _core
from intrs.noise import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = bytes(range(32))
DIMENSION, SAMPLES = 3072, 400
LAWS = [Noise.of(kind, sigma) for kind in ("discrete", "rounded") for sigma in ("0.01", "0.12", "0.25", "1", "4")]


def native(noise: Noise, shift: int = 0) -> _core.NoiseTable:
    """The sampler of a law; with `shift`, one whose values are off."""
    table = noise.table()
    return _core.NoiseTable(table.first + shift, table.thresholds)


def draw(table: _core.NoiseTable, image: int = 0, first: int = 0, samples: int = SAMPLES) -> NDArray[np.int32]:
    return table.draw(SEED, image, first, samples, np.zeros(DIMENSION, np.uint8))


@pytest.mark.parametrize("noise", LAWS, ids=lambda n: f"{n.kind}-{n.sigma}")
def test_masses(noise: Noise) -> None:
    assert goodness_of_fit(draw(native(noise)), noise) > FALSE_ALARM


@pytest.mark.parametrize("noise", [LAWS[2], LAWS[7]], ids=["discrete", "rounded"])
def test_tails(noise: Noise) -> None:
    """Counts beyond 4 sigma on either side: binomial, here against its normal limit in a chi-square of two cells."""
    edge = int(4 * noise.grid_sigma)
    values = draw(native(noise), samples=4 * SAMPLES)
    expected = float(noise.upper_tail(edge)) * values.size
    beyond = [np.count_nonzero(values >= edge), np.count_nonzero(values <= -edge)]
    assert survival(sum((b - expected) ** 2 / expected for b in beyond), 2) > FALSE_ALARM


def test_neighbours_are_independent() -> None:
    noise = Noise.of("discrete", "0.25")
    table = native(noise)
    values, other_image = draw(table), draw(table, image=1)
    pairs = {
        "coordinates": (values[:, :-1], values[:, 1:]),
        "coordinates of neighbouring blocks": (values[:, :-16], values[:, 16:]),
        "coordinates of blocks drawn together": (values[:, :-256], values[:, 256:]),
        "samples": (values[:-1], values[1:]),
        "images": (values, other_image),
        "selection and estimation": (values, draw(table, first=_core.SELECTION)),
    }
    for name, (a, b) in pairs.items():
        assert independence(a, b, noise) > FALSE_ALARM, name


def test_dependent_neighbours_are_rejected() -> None:
    noise = Noise.of("discrete", "0.25")
    values = draw(native(noise))
    leaky = values.copy()
    copied = np.random.default_rng(0).random(values[:, 1:].shape) < 0.02
    leaky[:, 1:][copied] = values[:, :-1][copied]  # one value in fifty repeats its neighbour
    assert independence(leaky[:, :-1], leaky[:, 1:], noise) < FALSE_ALARM


def biased(noise: Noise) -> NDArray[Any]:
    """Values from bits of which the leading one is set in 51 % of all draws."""
    rng, table = np.random.default_rng(1), noise.table()
    bits = rng.integers(0, 2**64, DIMENSION * SAMPLES, np.uint64)
    bits |= (rng.random(bits.size) < 0.02).astype(np.uint64) << np.uint64(63)
    return table.first + np.searchsorted(table.thresholds, bits, side="right")


@pytest.mark.parametrize("kind", ["discrete", "rounded"])
def test_wrong_samplers_are_rejected(kind: str) -> None:
    noise = Noise.of(kind, "0.25")
    wrong = {
        "one threshold off": draw(native(noise, shift=1)),
        "sigma 1 % too large": draw(native(Noise.of(kind, "0.2525"))),
        "sigma 1 % too small": draw(native(Noise.of(kind, "0.2475"))),
        "biased bits": biased(noise),
    }
    for name, values in wrong.items():
        assert goodness_of_fit(values, noise) < FALSE_ALARM, name


def test_the_two_laws_differ_where_sigma_is_small() -> None:
    """At sigma = 2.55 steps the masses differ enough to tell the laws apart; a test that cannot is too weak."""
    discrete, rounded = LAWS[0], LAWS[5]
    assert goodness_of_fit(draw(native(discrete), samples=4 * SAMPLES), rounded) < FALSE_ALARM


def test_every_kernel_set_draws_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    table = native(LAWS[1])
    expected = draw(table, samples=3)
    for name in _core.kernel_names():
        monkeypatch.setenv("INTRS_KERNELS", name)
        assert np.array_equal(draw(table, samples=3), expected), name
