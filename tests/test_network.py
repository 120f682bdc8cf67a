"""What the core accepts, what it refuses, and that it runs alike in every lane width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from layers import add, conv, full, network, quantiser, rescale, scores_of
from random_networks import random_images, random_network

from intrs import _core
from intrs.errors import IntrsError
from intrs.network import AvgPool, Concat, Layer, MaxPool, Network, Pad, Requantise, Rescale

RNG = np.random.default_rng(1)
SHAPE = (4, 4, 3)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape)


REFUSED: list[tuple[str, Layer]] = [
    ("stand before", conv(1, ones(3, 1, 1, 3))),
    ("kernel is larger", conv(0, ones(3, 9, 9, 3))),
    ("groups and channels", conv(0, ones(3, 1, 1, 2))),
    ("groups and channels", conv(0, ones(4, 1, 1, 1), groups=3)),
    ("neither one entry", conv(0, ones(3, 1, 1, 3), rescale=rescale(count=2))),
    ("multiplier is negative", conv(0, ones(3, 1, 1, 3), rescale=Rescale(full(1, -1), np.full(1, 30, np.int8)))),
    ("shift is outside", conv(0, ones(3, 1, 1, 3), rescale=rescale(1))),
    ("shift is outside", conv(0, ones(3, 1, 1, 3), rescale=rescale(63))),
    ("input zero point", conv(0, ones(3, 1, 1, 3), input_zero_point=128)),
    ("output zero point", conv(0, ones(3, 1, 1, 3), output_zero_point=-129)),
    ("clamp is empty", conv(0, ones(3, 1, 1, 3), clamp=(1, 0))),
    ("stride", conv(0, ones(3, 1, 1, 3), stride=(0, 1))),
    ("dilation", conv(0, ones(3, 1, 1, 3), dilation=(1, 0))),
    ("padding", conv(0, ones(3, 1, 1, 3), pad=(-1, 0, 0, 0))),
    ("only class scores", conv(0, ones(3, 1, 1, 3), wide=True, output_zero_point=0)),
    ("accumulator could leave", conv(0, ones(3, 1, 1, 3), bias=full(3, 2**31 - 1))),
    ("rescaled result could leave", conv(0, 127 * ones(3, 4, 4, 3), rescale=rescale(2))),
    ("sum could leave", add(0, 0, multipliers=(1 << 23, 1 << 22))),
    ("smaller than its kernel", MaxPool((0,), (2, 2), (1, 1), (2, 0, 0, 0))),
    ("smaller than its kernel", AvgPool((0,), (2, 2), (1, 1), (0, 0, 0, 2), 0, 0)),
    ("sum could leave", AvgPool((0,), (8000, 8000), (1, 1), (7999, 0, 7999, 0), 0, 0)),
    ("rescaled result could leave", Requantise((0,), 0, rescale(2), 0)),
    ("wrong number of inputs", MaxPool((0, 0), (2, 2), (1, 1), (0, 0, 0, 0))),
    ("padding value", Pad((0,), (1, 1, 1, 1), 200)),
]


@pytest.mark.parametrize(("message", "layer"), REFUSED)
def test_refused(message: str, layer: Layer) -> None:
    bad = network(replace(layer, name="the bad one"), scores_of(0, SHAPE))
    with pytest.raises(IntrsError, match=message) as error:
        _ = bad.native
    assert "the bad one" in str(error.value)


def test_concat_and_add_of_other_sizes_are_refused() -> None:
    smaller = conv(0, ones(3, 2, 2, 3))
    with pytest.raises(IntrsError, match="differ in size"):
        _ = network(smaller, Concat((0, 1)), scores_of(0, SHAPE)).native
    with pytest.raises(IntrsError, match="differ in shape"):
        _ = network(smaller, add(0, 1), scores_of(0, SHAPE)).native


def test_scores_must_be_one_per_class() -> None:
    with pytest.raises(IntrsError, match="one score per class"):
        _ = network(conv(0, ones(3, 1, 1, 3))).native


def test_quantiser_must_fit_32_bits() -> None:
    wild = replace(quantiser(), multiplier=full(3, 1 << 30))
    with pytest.raises(IntrsError, match="leave 32 bits"):
        _ = Network(wild, (scores_of(0, SHAPE),)).native


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"y" + b[1:], lambda _: b""])
def test_bytes_are_checked(change: Any) -> None:
    with pytest.raises(ValueError, match="bytes"):
        _core.Network(change(network().to_bytes()))


def test_accumulator_bounds_are_tight() -> None:
    """The bound is reached: all codes 127 where weights are positive, -128 where they are negative."""
    layer = scores_of(0, SHAPE, classes=1, input_zero_point=5)
    net = network(layer)
    (*_, low, high) = net.native.layers()[0]
    positive = layer.weights[0] > 0
    most = np.where(positive, 1000, -1000)
    assert net.scores(np.stack([most, -most]))[:, 0].tolist() == [high, low]


def test_shapes_agree_with_the_core() -> None:
    for seed in range(30):
        net = random_network(np.random.default_rng(seed))
        assert [row[:3] for row in net.native.layers()] == list(net.shapes[1:])


@pytest.mark.parametrize("kernels", [*_core.kernel_names(), "scalar-1", "scalar-5"])
def test_every_lane_width_gives_the_same_bits(kernels: str) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        net = random_network(rng)
        images = random_images(rng, net, 18)
        assert np.array_equal(net.scores(images, "scalar"), net.scores(images, kernels))
        for a, b in zip(net.trace(images[0], "scalar"), net.trace(images[0], kernels), strict=True):
            assert np.array_equal(a, b)


def test_a_set_that_differs_is_refused() -> None:
    with pytest.raises(ValueError, match="'wrong' failed its self-check"):
        _core.selected_kernels("wrong")


def test_unknown_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"no kernel set 'abacus'.*scalar"):
        _core.selected_kernels("abacus")
    monkeypatch.setenv("INTRS_KERNELS", "abacus")
    with pytest.raises(ValueError, match="INTRS_KERNELS"):
        _core.selected_kernels()
    monkeypatch.setenv("INTRS_KERNELS", "scalar-5")
    assert _core.selected_kernels() == "scalar-5"


def test_ties_go_to_the_lowest_class() -> None:
    same = scores_of(0, SHAPE, classes=1)
    net = network(replace(same, weights=np.repeat(same.weights, 4, axis=0), bias=full(4, 0)))
    assert net.predict(RNG.integers(0, 256, (5, *SHAPE))).tolist() == [0] * 5


def test_identity_sees_every_integer_and_no_name() -> None:
    net = network()
    named = network(replace(net.layers[0], name="logits"))
    other = network(scores_of(0, SHAPE, input_zero_point=-127))
    assert net.identity == named.identity != other.identity
    assert net.identity == "c69e9de7d45e2bc39d354ccd84bdafb7193beac51d4261fbafc0f776361273f8"


@pytest.mark.parametrize("batch", [np.zeros((1, 4, 4)), np.zeros((1, 3, 4, 4), int), np.zeros((4, 4, 3), int)])
def test_wrong_images_are_refused(batch: np.ndarray[Any, Any]) -> None:
    with pytest.raises(IntrsError, match="4 x 4 x 3"):
        network().scores(batch)


def test_pixels_beyond_32_bits_saturate() -> None:
    net = network()
    far = np.full((1, *SHAPE), 2**40)
    assert np.array_equal(net.scores(far), net.scores(np.minimum(far, 10_000)))
