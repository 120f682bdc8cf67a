"""RESCALE of every kernel set against Python's integers of any size, value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layers import conv, network, twice

from intrs import _core
from intrs.network import Conv, Rescale

if TYPE_CHECKING:
    from collections.abc import Iterator

SETS = [*_core.kernel_names(), "scalar-1", "scalar-5"]
COUNT = 60_000  # of one network; a value is the bias of a channel without weights
Case = tuple[int, int, int]  # value, multiplier, shift


def rounded_once(value: int, multiplier: int, shift: int) -> int:
    """To the nearest integer, ties upwards."""
    return (2 * value * multiplier + (1 << shift)) // (1 << shift + 1)


def rounded_twice(value: int, multiplier: int, shift: int) -> int:
    """By 2^31 first, ties upwards, then by the rest of the shift, ties away from zero; once where nothing is left."""
    if shift <= 31:
        return rounded_once(value, multiplier, shift)
    first, unit = rounded_once(value, multiplier, 31), 1 << shift - 31
    size = (2 * abs(first) + unit) // (2 * unit)
    return size if first >= 0 else -size


def cases(shifts: tuple[int, ...]) -> Iterator[Case]:
    """Values of every size, multipliers that make ties, and both ends of what a shift allows."""
    rng = np.random.default_rng(5)
    while True:
        shift = int(rng.choice(shifts))
        most = min(2 ** (shift - 1), 2**31) - 1
        value = int(rng.integers(-most, most + 1)) >> int(rng.integers(0, 30))
        multiplier = int(rng.integers(0, 2**31)) >> int(rng.choice([0, 0, 0, rng.integers(0, 31)]))
        if rng.random() < 0.4:
            multiplier = 1 << int(rng.integers(0, 31))
        if rng.random() < 0.1:
            value, multiplier = int(rng.choice([-most, most, -1, 0, 1])), int(rng.choice([0, 1, 2**30, 2**31 - 1]))
        yield value, multiplier, shift


def biases(found: list[Case], **changes: Any) -> Conv:
    """A layer whose output is RESCALE of these values, whatever it reads."""
    values, multipliers, shifts = (np.array(column) for column in zip(*found, strict=True))
    scale = Rescale(multipliers.astype(np.int32), shifts.astype(np.int8))
    return conv(0, np.zeros((len(found), 1, 1, 1)), bias=values.astype(np.int32), rescale=scale, **changes)


SHIFTS = {"any": tuple(range(2, 63)), "around two roundings": (30, 31, 32, 33), "long": tuple(range(33, 55))}
RESULT = np.zeros((1, 1, 1, 1), np.int32)


@pytest.mark.parametrize("shifts", SHIFTS)
@pytest.mark.parametrize("kernels", SETS)
def test_rescale_is_exact(kernels: str, shifts: str) -> None:
    drawn = cases(SHIFTS[shifts])
    found = [next(drawn) for _ in range(COUNT)]
    layer = biases(found, wide=True, output_zero_point=0)
    for made, exact in ((layer, rounded_once), (twice(layer), rounded_twice)):
        scores = network(made, height=1, width=1, channels=1).scores(RESULT, kernels)
        assert scores[0].tolist() == [exact(*case) for case in found]


@pytest.mark.parametrize("kernels", SETS)
def test_codes_are_exact(kernels: str) -> None:
    """The way of most layers: long shifts, an output zero point, saturation."""
    drawn = cases(SHIFTS["long"])
    found = [next(drawn) for _ in range(COUNT)]
    layer = biases(found, output_zero_point=-77, clamp=(-120, 99))
    for made, exact in ((layer, rounded_once), (twice(layer), rounded_twice)):
        scores = network(made, height=1, width=1, channels=1).scores(RESULT, kernels)
        assert scores[0].tolist() == [min(max(exact(*case) - 77, -120), 99) for case in found]


@pytest.mark.parametrize("multiplier", [2**30, 2**30 + 1, 2**31 - 1, 1518500250])
def test_two_roundings_of_every_small_value(multiplier: int) -> None:
    """All values of 15 bits at shifts where the second rounding meets ties often."""
    for shift in (31, 32, 33, 38):
        found = [(value, multiplier, shift) for value in range(-(2**14), 2**14)]
        layer = twice(biases(found, wide=True, output_zero_point=0))
        scores = network(layer, height=1, width=1, channels=1).scores(RESULT)
        assert scores[0].tolist() == [rounded_twice(*case) for case in found]


def test_the_example_of_the_documentation() -> None:
    layer = biases([(1, 2**30, 32)], wide=True, output_zero_point=0)
    for made, expected in ((layer, 0), (twice(layer), 1)):
        assert network(made, height=1, width=1, channels=1).scores(RESULT).tolist() == [[expected]]
