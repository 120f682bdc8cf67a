"""Every kernel set against scalar, where random networks do not reach: extremes of values, shapes and sparsity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layers import add, conv, full, network, one_scale, quantiser, rescale, scores_of, twice

from intrs import _core
from intrs.network import AvgPool, CodeTable, Concat, Conv, Gather, MaxPool, Mul, Network, Pad, Rescale, ScaledAdd

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SETS = [name for name in _core.kernel_names() if name != "scalar"] + ["scalar-1", "scalar-5"]
RNG = np.random.default_rng(11)


def agree(net: Network, images: NDArray[Any], kernels: str) -> None:
    assert np.array_equal(net.scores(images, kernels), net.scores(images, "scalar"))
    for a, b in zip(net.trace(images[0], kernels), net.trace(images[0], "scalar"), strict=True):
        assert np.array_equal(a, b)


def images(shape: tuple[int, int, int], n: int = 19) -> NDArray[Any]:
    """All black, all white, alternating, random and far outside: every code is met."""
    drawn = RNG.integers(-100, 400, (n, *shape))
    drawn[0], drawn[1] = 0, 255
    drawn[2].flat[::2], drawn[2].flat[1::2] = 0, 255
    drawn[3] = 10**6
    return drawn


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("channels", [1, 4, 7, 12, 21])
def test_gathered_channels(kernels: str, channels: int) -> None:
    """Every part that lies together, from any channel on, and orders that mix quads."""
    every = np.arange(channels, dtype=np.int32)
    lists = [every[first:end] for first in range(0, channels, 3) for end in {first + 1, first + 4, channels}]
    lists += [every[::-1], every[::2], np.repeat(every, 3), RNG.integers(0, channels, 19).astype(np.int32)]
    for i, found in enumerate(lists):
        columns = every[:0] if i % 2 else np.array([2, 0, 0, 1], np.int32)
        layer = Gather((0,), channels=found, columns=columns)
        shape = layer.output_shape((2, 3, channels))
        net = network(layer, scores_of(1, shape), height=2, width=3, channels=channels)
        agree(net, images((2, 3, channels), 17), kernels)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 4, 6), (3, 5, 2, 7), (4, 1, 8, 3), (5, 9), (2, 3, 3), (7, 6, 5)])
def test_joined_channels_that_begin_anywhere(kernels: str, sizes: tuple[int, ...]) -> None:
    every = np.arange(12, dtype=np.int32)
    parts = [Gather((0,), channels=np.roll(every, -3 * i)[:size]) for i, size in enumerate(sizes)]
    layers = [*parts, Concat(tuple(range(1, len(sizes) + 1))), scores_of(len(sizes) + 1, (2, 3, sum(sizes)))]
    agree(network(*layers, height=2, width=3, channels=12), images((2, 3, 12), 17), kernels)


EXTREME: dict[str, Callable[[tuple[int, ...]], NDArray[Any]]] = {
    "all 127": lambda shape: np.full(shape, 127),
    "all -128": lambda shape: np.full(shape, -128),
    "alternating": lambda shape: np.resize([127, -128], shape),
    "pairs": lambda shape: np.resize([127, 127, -128, -128], shape),
    "limit of a chunk": lambda shape: np.resize([64, 64, -64, -64, 65, 64, 1, 0], shape),
    "random": lambda shape: RNG.integers(-128, 128, shape),
    "sparse": lambda shape: RNG.integers(-128, 128, shape) * (RNG.random(shape) < 0.05),
    "zero": lambda shape: np.zeros(shape),
}


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("weights", EXTREME)
@pytest.mark.parametrize("zero_point", [-128, -1, 0, 77, 127])
def test_extreme_weights_and_activations(kernels: str, weights: str, zero_point: int) -> None:
    for channels, out in ((3, 5), (16, 8), (21, 4)):
        shape = (5, 7, channels)
        first = conv(
            0, EXTREME[weights]((out, 3, 3, channels)),
            pad=(1, 1, 1, 1), input_zero_point=zero_point, rescale=rescale(46), output_zero_point=3,
        )  # fmt: skip
        agree(network(first, scores_of(1, (5, 7, out)), height=5, width=7, channels=channels), images(shape), kernels)


SHAPES: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "1x1": ((6, 9, 8), {"kernel": (1, 1)}),
    "5x5": ((9, 9, 4), {"kernel": (5, 5), "pad": (2, 2, 2, 2)}),
    "7x7 stride 2": ((15, 14, 3), {"kernel": (7, 7), "pad": (3, 3, 3, 3), "stride": (2, 2)}),
    "dilated": ((11, 12, 6), {"kernel": (3, 3), "dilation": (2, 3), "pad": (2, 2, 3, 3)}),
    "one sided padding": ((8, 8, 5), {"kernel": (2, 4), "pad": (0, 1, 3, 0), "stride": (3, 1)}),
    "depthwise": ((8, 13, 12), {"kernel": (3, 3), "pad": (1, 1, 1, 1), "groups": 12, "out": 12}),
    "depthwise stride 2": (
        (9, 12, 10),
        {"kernel": (3, 3), "pad": (1, 1, 1, 1), "stride": (2, 2), "groups": 10, "out": 10},
    ),
    "depthwise 5x5": ((7, 11, 7), {"kernel": (5, 5), "pad": (2, 2, 2, 2), "groups": 7, "out": 7}),
    "depthwise 7x7 stride 2": ((13, 15, 3), {"kernel": (7, 7), "stride": (1, 2), "groups": 3, "out": 3}),
    "depthwise 1x2 dilated": ((8, 6, 4), {"kernel": (3, 2), "dilation": (2, 1), "groups": 4, "out": 4}),
    "depthwise stride 3": (
        (8, 13, 9),
        {"kernel": (3, 3), "pad": (1, 1, 1, 1), "stride": (3, 3), "groups": 9, "out": 9},
    ),
    "depthwise of one column": ((6, 1, 6), {"kernel": (3, 3), "pad": (1, 1, 1, 1), "groups": 6, "out": 6}),
    "tiles": ((9, 11, 16), {"kernel": (3, 3), "pad": (1, 1, 1, 1), "out": 20}),
    "tiles without padding": ((6, 7, 13), {"kernel": (3, 3), "out": 17}),
    "tiles of one pixel": ((1, 1, 19), {"kernel": (3, 3), "pad": (1, 1, 1, 1), "out": 16}),
    "depthwise with multiplier": ((7, 7, 5), {"kernel": (3, 3), "groups": 5, "out": 15}),
    "groups of six": ((6, 6, 12), {"kernel": (3, 3), "groups": 2, "out": 10}),
    "wide row": ((1, 300, 4), {"kernel": (1, 3), "pad": (0, 0, 1, 1)}),
    "many channels": ((2, 2, 130), {"kernel": (2, 2), "out": 33}),
}


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("rounding", [conv, lambda *a, **k: twice(conv(*a, **k))], ids=["once", "twice"])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(kernels: str, rounding: Callable[..., Conv], name: str) -> None:
    (height, width, channels), options = SHAPES[name]
    options = dict(options)
    kernel, out, groups = options.pop("kernel"), options.pop("out", 6), options.get("groups", 1)
    weights = RNG.integers(-128, 128, (out, *kernel, channels // groups))
    scale = Rescale(RNG.integers(2**30, 2**31, out).astype(np.int32), RNG.integers(40, 45, out).astype(np.int8))
    first = rounding(0, weights, rescale=scale, bias=RNG.integers(-999, 999, out).astype(np.int32), **options)
    start = network(height=height, width=width, channels=channels).quantiser
    shape = Network(start, (first,)).shapes[1]
    agree(Network(start, (first, scores_of(1, shape, seed=3))), images((height, width, channels)), kernels)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("weights", EXTREME)
@pytest.mark.parametrize("zero_point", [-128, 0, 127])
def test_extremes_of_depthwise_layers_and_tiles(kernels: str, weights: str, zero_point: int) -> None:
    """Depthwise of both strides, and a 3x3 Conv wide enough for Winograd's tiles."""
    shape = (6, 9, 16)
    common = {"pad": (1, 1, 1, 1), "input_zero_point": zero_point, "rescale": rescale(44), "output_zero_point": 3}
    for groups, stride in ((16, 1), (16, 2), (1, 1)):
        first = conv(0, EXTREME[weights]((16, 3, 3, 16 // groups)), groups=groups, stride=(stride, stride), **common)
        start = network(height=6, width=9, channels=16).quantiser
        made = Network(start, (first,)).shapes[1]
        for layer in (first, twice(first)):
            agree(Network(start, (layer, scores_of(1, made))), images(shape), kernels)


@pytest.mark.parametrize("kernels", SETS)
def test_sums_beyond_what_tiles_can_hold(kernels: str) -> None:
    """9 * 150 weights of 127 times 255 exceed 2**25: the layer must be done without tiles."""
    big = conv(0, np.full((8, 3, 3, 150), 127), pad=(1, 1, 1, 1), rescale=rescale(50))
    assert 9 * 150 * 127 * 255 > 2**25
    agree(network(big, scores_of(1, (2, 2, 8)), height=2, width=2, channels=150), images((2, 2, 150), 5), kernels)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("beyond", [-1, 0, 2**20, 2**25, 2**29])
def test_biases_at_the_limit_of_tiles(kernels: str, sign: int, beyond: int) -> None:
    """Weights of one sign times 255, and the bias, reach 2^25 - 1 in every channel, or go beyond it."""
    first = conv(0, RNG.integers(-128, 128, (16, 1, 1, 3)), rescale=rescale(42))
    weights = sign * RNG.integers(0, 3, (16, 3, 3, 16))
    bias = (2**25 + beyond) * sign - 255 * weights.sum((1, 2, 3)).astype(np.int32)
    second = conv(1, weights, rescale=rescale(49), pad=(1, 1, 1, 1), bias=bias, input_zero_point=-128)
    agree(network(first, second, scores_of(2, (8, 8, 16)), height=8, width=8), images((8, 8, 3)), kernels)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_zero_groups_of_four(kernels: str, share: float) -> None:
    for channels, out in ((16, 16), (22, 9)):
        keep = RNG.random((out, 3, 3, -(-channels // 4))) >= share
        weights = RNG.integers(-128, 128, (out, 3, 3, channels)) * np.repeat(keep, 4, axis=3)[..., :channels]
        first = conv(0, weights, pad=(1, 1, 1, 1), rescale=rescale(44))
        agree(network(first, scores_of(1, (5, 5, out)), height=5, width=5, channels=channels),
              images((5, 5, channels)), kernels)  # fmt: skip


LONG: dict[str, list[dict[str, Any]]] = {
    "expand, depthwise, project": [
        {"kernel": (1, 1), "out": 72},
        {"kernel": (3, 3), "out": 72, "groups": 72, "pad": (1, 1, 1, 1), "stride": (2, 2)},
        {"kernel": (1, 1), "out": 24},
    ],
    "tiles": [
        {"kernel": (1, 1), "out": 64},
        {"kernel": (3, 3), "out": 64, "pad": (1, 1, 1, 1)},
        {"kernel": (1, 1), "out": 48, "stride": (3, 2)},
    ],
    "no padding, dilation": [
        {"kernel": (5, 1), "out": 48, "pad": (4, 1, 0, 0)},
        {"kernel": (3, 3), "out": 48, "dilation": (3, 2), "stride": (2, 1)},
        {"kernel": (2, 2), "out": 30, "pad": (1, 0, 1, 0)},
    ],
}


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("name", LONG)
def test_layers_run_together(kernels: str, name: str) -> None:
    """Tensors too large for a cache: their layers are run a few rows at a time, with and without a residual."""
    height, width = 45, 41
    start = quantiser(height, width, 3)
    layers: list[Any] = [conv(0, RNG.integers(-128, 128, (16, 1, 1, 3)), rescale=rescale(38))]
    for options in LONG[name]:
        options = dict(options)
        kernel, out, groups = options.pop("kernel"), options.pop("out"), options.get("groups", 1)
        channels = Network(start, tuple(layers)).shapes[-1][2]
        weights = RNG.integers(-128, 128, (out, *kernel, channels // groups))
        scale = Rescale(RNG.integers(2**30, 2**31, out).astype(np.int32), RNG.integers(42, 45, out).astype(np.int8))
        layers.append(
            conv(len(layers), weights, rescale=scale, input_zero_point=int(RNG.integers(-128, 128)), **options)
        )
    end, shape = len(layers), Network(start, tuple(layers)).shapes[-1]
    square = RNG.integers(-128, 128, (shape[2], 1, 1, shape[2]))
    layers += [twice(conv(end, square, rescale=rescale(42))), add(end, end + 1)]
    layers += [conv(end + 2, square, rescale=rescale(42)), CodeTable((end + 3,), RNG.permutation(np.arange(-128, 128)))]
    layers += [add(end + 4, end + 2), Mul((end + 2, end + 5), (-128, -5), one_scale(2**30, 37), -128)]
    layers += [scores_of(end + 6, shape)]
    net = Network(start, tuple(layers))
    agree(net, images((height, width, 3), 5), kernels)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("shift", [20, 31, 32, 33, 54, 55, 62])
def test_every_kind_of_shift(kernels: str, shift: int) -> None:
    small = conv(
        0, RNG.integers(-2, 3, (4, 1, 1, 3)), rescale=Rescale(full(1, 2**30 + 12345), np.full(1, shift, np.int8))
    )
    for layer in (small, twice(small)):
        agree(network(layer, scores_of(1, (4, 4, 4))), images((4, 4, 3)), kernels)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("groups", [1, 8])
def test_a_channel_that_is_all_but_dead(kernels: str, groups: int) -> None:
    """One shift leaves no room for the zero point, those of its neighbours do; by tiles and by taps if it did not."""
    shifts = np.array([36, 62, 35, 55, 36, 54, 61, 35], np.int8)
    scale = Rescale(RNG.integers(2**30, 2**31, 8).astype(np.int32), shifts)
    first = conv(0, RNG.integers(-128, 128, (8, 1, 1, 3)), rescale=rescale(42))
    bias = RNG.integers(-(2**30), 2**30, 8).astype(np.int32)
    weights = RNG.integers(-128, 128, (8, 3, 3, 8 // groups))
    second = conv(1, weights, rescale=scale, groups=groups, pad=(1, 1, 1, 1), output_zero_point=-77, bias=bias)
    for layer in (second, twice(second)):
        agree(network(first, layer, scores_of(2, (8, 8, 8)), height=8, width=8), images((8, 8, 3)), kernels)


@pytest.mark.parametrize("kernels", SETS)
def test_one_tensor_padded_in_two_ways(kernels: str) -> None:
    """Two Convs with other zero points cannot share a border, and the pools want none."""
    weights = RNG.integers(-128, 128, (4, 3, 3, 3))
    one = conv(0, weights, pad=(1, 1, 1, 1), input_zero_point=-128, rescale=rescale(44))
    two = conv(0, weights, pad=(1, 1, 1, 1), input_zero_point=100, rescale=rescale(44))
    pools = MaxPool((0,), (3, 3), (1, 1), (1, 1, 1, 1)), AvgPool((0,), (3, 3), (1, 1), (1, 1, 1, 1), 3, 4)
    tail = add(1, 2), scores_of(5, (4, 4, 4))
    agree(network(one, two, *pools, *tail), images((4, 4, 3)), kernels)


@pytest.mark.parametrize("kernels", SETS)
def test_very_wide_images(kernels: str) -> None:
    """Columns beyond 2**16: products of a width and a tile's number must not overflow."""
    layers: list[Any] = [Pad((i,), (0, 0, 8192, 8192), -7) for i in range(6)]
    common = {"input_zero_point": 0, "rescale": rescale(32), "output_zero_point": 0, "bias": full(1, 3)}
    layers.append(conv(6, np.ones((1, 1, 2, 1)), pad=(0, 0, 0, 1), **common))
    layers.append(AvgPool((7,), (1, 8192), (1, 8192), (0, 0, 0, 0), 0, 0))
    net = network(*layers, scores_of(8, (1, 20, 1)), height=1, width=65536, channels=1)
    agree(net, RNG.integers(0, 256, (1, 1, 65536, 1)), kernels)


@pytest.mark.parametrize("kernels", SETS)
def test_padding_does_not_multiply_memory(kernels: str) -> None:
    """A few bytes must not ask for gigabytes."""
    far = conv(0, np.ones((1, 1, 1, 1)), stride=(8192, 8192), pad=(8192,) * 4, rescale=rescale(30))
    net = network(far, MaxPool((1,), (3, 3), (1, 1), (0, 0, 0, 0)), height=1, width=1, channels=1)
    assert net.native.block_bytes(kernels) < 10**6
    agree(net, images((1, 1, 1)), kernels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("kernels", SETS)
def test_quantiser_of_any_number_of_channels(kernels: str, channels: int) -> None:
    start = quantiser(7, 5, channels)
    varied = replace(
        start,
        multiplier=RNG.integers(-70_000, 70_000, channels).astype(np.int32),
        offset=RNG.integers(-(2**22), 2**22, channels).astype(np.int32),
    )
    agree(Network(varied, (scores_of(0, (7, 5, channels)),)), images((7, 5, channels)), kernels)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("channels", [1, 4, 7, 40])
def test_one_pixel_for_all_places(kernels: str, channels: int) -> None:
    """Every layer of two inputs, with the pixel first or second, followed by a Conv that may run with it by rows."""
    start, (height, width) = quantiser(31, 17, channels), (31, 17)
    pixel = AvgPool((0,), (height, width), (1, 1), (0, 0, 0, 0), -128, -100)
    scales = one_scale(1518500250, 31), one_scale(2**30, 32), one_scale(1518500250, 49)
    square = RNG.integers(-128, 128, (channels, 3, 3, channels))
    for inputs in ((0, 1), (1, 0)):
        pairs = (
            add(*inputs),
            Mul(inputs, (-128, -100), one_scale(1518500250, 37), -128),
            Mul(inputs, (-100, 17), one_scale(1518500250, 37), 3, twice=True),
            ScaledAdd(inputs, (-128, 5), 20, *scales, 7),
            ScaledAdd(inputs, (-128, 5), 20, *scales, 7, subtract=True),
        )
        for pair in pairs:
            second = conv(2, square, rescale=rescale(44), pad=(1, 1, 1, 1))
            shape = height, width, channels
            agree(Network(start, (pixel, pair, second, scores_of(3, shape))), images(shape, 5), kernels)


def test_a_pixel_that_the_layer_before_makes() -> None:
    """It is no tensor that could be passed on by rows, though only the next layer reads it."""
    start, shape = quantiser(20, 16, 40), (20, 16, 40)
    gate = conv(0, RNG.integers(-128, 128, (40, *shape)), rescale=rescale(50))
    layers = gate, CodeTable((1,), np.arange(-128, 128)[::-1]), Mul((0, 2), (-128, -128), one_scale(2**30, 37), -128)
    net = Network(start, (*layers, scores_of(3, shape)))
    for kernels in SETS:
        agree(net, images(shape, 5), kernels)


def test_zero_groups_are_skipped() -> None:
    """A Conv without weights is its bias, whatever it reads."""
    empty: Conv = scores_of(0, (4, 4, 3), classes=2)
    net = network(replace(empty, weights=np.zeros_like(empty.weights), bias=np.array([5, 7], np.int32)))
    assert net.scores(images((4, 4, 3))).tolist() == [[5, 7]] * 19


@pytest.mark.parametrize("kernels", SETS)
def test_many_layers_of_many_rows(kernels: str) -> None:
    """Which layers run together is found without trying every row of every layer, which would take hours here."""
    layers: list[Any] = [conv(i, np.ones((4, 1, 1, 4 if i else 1))) for i in range(60)]
    tall = network(*layers, scores_of(60, (8000, 1, 4)), height=8000, width=1, channels=1)
    image = np.random.default_rng(0).integers(-300, 600, (1, 8000, 1, 1), np.int32)
    assert np.array_equal(tall.scores(image, kernels), tall.scores(image, "scalar"))


def test_a_set_that_is_wrong_by_rows_is_refused() -> None:
    """The self-check runs layers together too: this set gives the right bits whenever it runs whole tensors."""
    with pytest.raises(_core.Error, match="'wrong-by-rows' failed its self-check"):
        _core.selected_kernels("wrong-by-rows")
