"""RESCALE of every kernel set against Python's integers of any size, value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layers import conv, network, one_scale, rescale, twice
from random_networks import scaled_sum

from intrs import _core
from intrs.network import CodeTable, Conv, MaxPool, Mul, Rescale, ScaledAdd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.network import Layer

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


@pytest.mark.parametrize("low", [-120, -78, -77, -76])
@pytest.mark.parametrize("kernels", SETS)
def test_codes_are_exact(kernels: str, low: int) -> None:
    """The way of most layers: long shifts, an output zero point, saturation; also with the clamp of a ReLU."""
    drawn = cases(SHIFTS["long"])
    found = [next(drawn) for _ in range(COUNT)]
    layer = biases(found, output_zero_point=-77, clamp=(low, 99))
    for made, exact in ((layer, rounded_once), (twice(layer), rounded_twice)):
        scores = network(made, height=1, width=1, channels=1).scores(RESULT, kernels)
        assert scores[0].tolist() == [min(max(exact(*case) - 77, low), 99) for case in found]


@pytest.mark.parametrize("multiplier", [2**30, 2**30 + 1, 2**31 - 1, 1518500250])
def test_two_roundings_of_every_small_value(multiplier: int) -> None:
    """All values of 15 bits at shifts where the second rounding meets ties often."""
    for shift in (31, 32, 33, 38):
        found = [(value, multiplier, shift) for value in range(-(2**14), 2**14)]
        layer = twice(biases(found, wide=True, output_zero_point=0))
        scores = network(layer, height=1, width=1, channels=1).scores(RESULT)
        assert scores[0].tolist() == [rounded_twice(*case) for case in found]


PAIRS = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=2)  # of pixels; a code is a pixel less 128


def results_of_pairs(layer: Layer, kernels: str) -> Any:
    """What a layer that reads tensors 1 and 2 makes of every pair of codes."""
    split = [conv(0, np.eye(2)[i].reshape(1, 1, 1, 2), rescale=rescale(30)) for i in (0, 1)]
    pool = MaxPool((3,), (256, 256), (1, 1), (0, 0, 0, 0))
    return network(*split, layer, pool, height=256, width=256, channels=2).trace(PAIRS, kernels)[3][..., 0]


@pytest.mark.parametrize("scale", [(2**30, 37), (1518500250, 39), (2**30, 32), (2**31 - 1, 62), (3, 17)])
@pytest.mark.parametrize("kernels", SETS)
def test_every_product_is_exact(kernels: str, scale: tuple[int, int]) -> None:
    (za, zb), (multiplier, shift) = (-128, 19), scale
    products = ((PAIRS[..., 0] - 128 - za) * (PAIRS[..., 1] - 128 - zb)).ravel().tolist()
    for twice_, exact in ((False, rounded_once), (True, rounded_twice)):
        layer = Mul((1, 2), (za, zb), one_scale(multiplier, shift), 5, (-120, 127), twice_)
        expected = [min(max(exact(p, multiplier, shift) + 5, -120), 127) for p in products]
        assert results_of_pairs(layer, kernels).ravel().tolist() == expected


@pytest.mark.parametrize("subtract", [False, True])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (0.5, 0.031, 0.4), (0.013, 0.02, 0.0031)])
@pytest.mark.parametrize("kernels", SETS)
def test_every_scaled_sum_is_exact(kernels: str, scales: tuple[float, float, float], subtract: bool) -> None:
    """As TFLite derives the scales: those of the inputs by twice the larger one, shifted left by 20."""
    (a, b, result), (za, zb) = scales, (-128, 19)
    found = scaled_sum(a, b, result)
    layer = ScaledAdd((1, 2), (za, zb), 20, *found, -7, subtract=subtract)
    by_a, by_b, by_sum = ((int(scale.multiplier[0]), int(scale.shift[0])) for scale in found)
    terms_a = [rounded_twice((code - za) << 20, *by_a) for code in range(-128, 128)]
    terms_b = [rounded_twice((code - zb) << 20, *by_b) * (-1 if subtract else 1) for code in range(-128, 128)]
    sums = [terms_a[i] + terms_b[k] for i, k in PAIRS.reshape(-1, 2)]
    expected = [min(max(rounded_twice(total, *by_sum) - 7, -128), 127) for total in sums]
    assert results_of_pairs(layer, kernels).ravel().tolist() == expected


@pytest.mark.parametrize("kernels", SETS)
def test_every_entry_of_a_table(kernels: str) -> None:
    for seed in range(20):
        table = np.random.default_rng(seed).integers(-128, 128, 256, np.int8)
        codes = np.random.default_rng(seed).permutation(256)
        made = network(CodeTable((0,), table), height=1, width=1, channels=256)
        assert made.scores(codes.reshape(1, 1, 1, 256), kernels)[0].tolist() == table[codes].tolist()


def test_the_example_of_the_documentation() -> None:
    layer = biases([(1, 2**30, 32)], wide=True, output_zero_point=0)
    for made, expected in ((layer, 0), (twice(layer), 1)):
        assert network(made, height=1, width=1, channels=1).scores(RESULT).tolist() == [[expected]]
