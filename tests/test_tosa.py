"""The official oracle: random networks give the same bits in the core and in the TOSA reference model."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layers import one_scale
from random_networks import random_images, random_network, scaled_sum, traits

from intrs.errors import IntrsError
from intrs.exchange import tosa
from intrs.network import (
    Add,
    AvgPool,
    CodeTable,
    Concat,
    Conv,
    MaxPool,
    Mul,
    Network,
    Quantiser,
    Requantise,
    RequantiseDouble,
    Rescale,
    ScaledAdd,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from intrs.network import Layer

pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed: pip install 'intrs[tosa]'")

SEED = 5
NETWORKS = 800
BLOCK = 50
IMAGES = 3
EVERY_TENSOR = 3  # one network in so many is compared tensor by tensor, the others by their scores

WANTED = {
    "Conv": (
        *("kernel 1x1", "kernel 3x3", "kernel 5x5", "kernel 7x7", "kernel not square", "dilated", "strides differ"),
        *("one group", "groups", "depthwise", "depthwise with multiplier", "one output channel"),
        *(
            "stride 1",
            "stride 2",
            "stride 3",
            "not padded",
            "padded",
            "asymmetric padding",
            "padding beyond the kernel",
        ),
        *("window stops in the padding", "window stops before the border", "window sees padding only"),
        *("per channel", "per tensor", "multiplier 0", "largest multiplier", "clamp", "no clamp", "wide", "int8"),
        *("weight -128", "weight -127", "weight 127", "extreme bias"),
        *("zero point -128", "zero point 0", "zero point 127"),
    ),
    "Add": (
        *(
            "very different multipliers",
            "like multipliers",
            "the same tensor twice",
            "two tensors",
            "one pixel for all places",
            "clamp",
            "no clamp",
        ),
        *("zero point -128", "zero point 0", "zero point 127"),
    ),
    "MaxPool": (
        *("stride 1", "stride 2", "stride 3", "strides differ", "not padded", "padded", "asymmetric padding"),
        *("window stops in the padding", "window stops before the border"),
    ),
    "AvgPool": (
        *("stride 1", "stride 2", "stride 3", "strides differ", "not padded", "padded", "asymmetric padding"),
        *("window stops in the padding", "window stops before the border"),
        *("zero point -128", "zero point 0", "zero point 127"),
    ),
    "ConvDouble": (
        *("one group", "groups", "depthwise", "depthwise with multiplier", "per channel", "per tensor", "wide", "int8"),
        *("clamp", "no clamp", "multiplier 0", "largest multiplier", "dilated", "padded", "extreme bias"),
    ),
    "RequantiseDouble": ("per tensor", "clamp", "no clamp", "zero point -128", "zero point 0", "zero point 127"),
    "Requantise": ("per tensor", "clamp", "no clamp", "zero point -128", "zero point 0", "zero point 127"),
    "CodeTable": ("present",),
    "Mul": (
        *("one pixel for all places", "equal shapes", "rounded once", "rounded twice", "clamp", "no clamp"),
        *("zero point -128", "zero point 0", "zero point 127", "multiplier 0", "largest multiplier"),
    ),
    "ScaledAdd": (
        *("one pixel for all places", "equal shapes", "sum", "difference", "clamp", "no clamp"),
        *("zero point -128", "zero point 0", "zero point 127"),
    ),
    "Concat": ("of 2", "of 3", "of 4"),
    "Pad": ("by something",),
    "Gather": tuple(
        trait.format(axis)
        for axis in ("rows", "columns", "channels")
        for trait in ("all {}", "a part of the {}", "{} left out", "{} repeated", "{} in another order")
    ),
}
WANTED_ANYWHERE = {
    *("square image", "non-square image", "height of 1", "width of 1", "channels of 1", "odd channels"),
    *("quantiser per channel", "quantiser with negative multiplier", "quantiser without shift"),
    *(
        "wide scores",
        *(f"int8 scores from {kind}" for kind in ("Conv", "Add", "MaxPool", "AvgPool", "Requantise", "Mul")),
    ),
}


def network_and_images(index: int) -> tuple[Network, Any]:
    rng = np.random.default_rng([SEED, index])
    network = random_network(rng)
    return network, random_images(rng, network, IMAGES)


def differing_tensor(network: Network, images: Any) -> int | None:
    """The first tensor in which reference model and core differ, on any image."""
    graph = tosa.to_tosa(network, every_tensor=True)
    for image in images:
        for i, (ours, official) in enumerate(zip(network.trace(image), tosa.run_reference(graph, image), strict=True)):
            if not np.array_equal(ours, official):
                return i
    return None


def scores_differ(network: Network, images: Any) -> bool:
    graph = tosa.to_tosa(network)
    official = [tosa.run_reference(graph, image)[0].reshape(-1) for image in images]
    return not np.array_equal(network.scores(images), official)


@pytest.mark.parametrize("first", range(0, NETWORKS, BLOCK))
def test_random_networks_equal_the_reference_model(first: int) -> None:
    for index in range(first, first + BLOCK):
        network, images = network_and_images(index)
        if index % EVERY_TENSOR == 0:
            tensor = differing_tensor(network, images)
            assert tensor is None, f"network {index}: tensor {tensor} differs, layers {network.layers}"
        else:
            assert not scores_differ(network, images), f"network {index}: scores differ, layers {network.layers}"


def test_random_networks_cover_every_attribute() -> None:
    count: Counter[str] = Counter()
    for index in range(NETWORKS):
        count.update(traits(network_and_images(index)[0]))
    for trait, networks in sorted(count.items()):
        print(f"{networks:5} networks with {trait}")
    wanted = {f"{kind}: {trait}" for kind, of_kind in WANTED.items() for trait in of_kind} | WANTED_ANYWHERE
    assert not wanted - set(count)


# What a careless export or kernel gets wrong. The comparison must see each of these, or it is worth little.


def rewrite_attributes(monkeypatch: pytest.MonkeyPatch, rewrite: Callable[[str, tuple[Any, ...]], Any]) -> None:
    apply = tosa._Graph.apply

    def wrong(self: Any, op: str, inputs: Any, shape: Any, kind: str, attributes: Any = ()) -> Any:
        return apply(self, op, inputs, shape, kind, rewrite(op, tuple(attributes)))

    monkeypatch.setattr(tosa._Graph, "apply", wrong)


def rounds_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {"RoundingMode.SINGLE_ROUND": "RoundingMode.DOUBLE_ROUND"}
    rewrite_attributes(monkeypatch, lambda op, values: [modes.get(v, v) if op == "RESCALE" else v for v in values])


def rounds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {"RoundingMode.DOUBLE_ROUND": "RoundingMode.SINGLE_ROUND"}
    rewrite_attributes(monkeypatch, lambda op, values: [modes.get(v, v) if op == "RESCALE" else v for v in values])


def rounds_the_quantiser_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite_attributes(monkeypatch, lambda op, values: (True,) if op == "ARITHMETIC_RIGHT_SHIFT" else values)


def takes_one_from_the_quantiser(monkeypatch: pytest.MonkeyPatch) -> None:
    quantise = tosa._quantise
    monkeypatch.setattr(tosa, "_quantise", lambda graph, q: quantise(graph, replace(q, offset=q.offset - 1)))


def takes_one_from_each_multiplier(monkeypatch: pytest.MonkeyPatch) -> None:
    rescale = tosa._rescale

    def wrong(graph: Any, x: Any, scale: Rescale, *ends: Any) -> Any:
        return rescale(graph, x, replace(scale, multiplier=np.maximum(scale.multiplier - 1, 0)), *ends)

    monkeypatch.setattr(tosa, "_rescale", wrong)


def ties_go_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounding term one too small: x.5 becomes x. It is minus the right rounding of minus the sum."""
    rescale = tosa._rescale

    def wrong(graph: Any, x: Any, scale: Rescale, source: Any, target: Any, twice: bool = False) -> Any:
        if twice or (source[0], target[0]) != ("INT32", "INT8"):
            return rescale(graph, x, scale, source, target, twice)
        zero = tosa._per_channel(graph, 0)
        minus = graph.apply("SUB", [zero, x], x.shape, "INT32")
        result = graph.apply("SUB", [zero, rescale(graph, minus, scale, source, ("INT32", 0))], x.shape, "INT32")
        return rescale(graph, tosa._bound(graph, result, -999, 999), tosa._one_scale(2**30, 30), source, target)

    monkeypatch.setattr(tosa, "_rescale", wrong)


def does_not_clamp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tosa, "_clamp", lambda graph, x, clamp: x)


def pools_the_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    window = tosa._window

    def wrong(graph: Any, x: Any, extent: Any, stride: Any, pad: Any, fill: int = 0) -> Any:
        return window(graph, tosa._frame(graph, x, pad, fill), extent, stride, (0, 0, 0, 0), fill)

    monkeypatch.setattr(tosa, "_window", wrong)


@pytest.mark.parametrize(
    "spoil",
    [
        rounds_twice,
        rounds_once,
        ties_go_down,
        rounds_the_quantiser_twice,
        takes_one_from_the_quantiser,
        takes_one_from_each_multiplier,
        does_not_clamp,
        pools_the_padding,
    ],
)
def test_a_wrong_variant_is_caught(
    spoil: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    assert any(differing_tensor(*network_and_images(index)) is not None for index in range(100))


# Corners that random networks do not reach.


def small_network(*layers: Layer, shape: tuple[int, int, int] = (1, 1, 1)) -> Network:
    ones = np.ones(shape[2], np.int32)
    return Network(Quantiser(*shape, -500 * ones, 500 * ones, ones, 0 * ones, 0), layers)


def small_conv(weights: Any, groups: int = 1, multiplier: int = 2**30, shift: int = 30, **options: Any) -> Conv:
    array = np.asarray(weights, np.int8)
    bias = np.zeros(len(array), np.int32)
    scale = Rescale(np.array([multiplier], np.int32), np.array([shift], np.int8))
    return Conv((0,), array, bias, groups, (1, 1), (1, 1), (0, 0, 0, 0), 0, scale, 0, **options)


def test_more_groups_than_one_concat_takes() -> None:
    rng = np.random.default_rng(SEED)
    network = small_network(small_conv(rng.integers(-9, 10, (140, 1, 1, 2)), groups=70), shape=(1, 1, 140))
    assert differing_tensor(network, random_images(rng, network, 2)) is None


def test_more_inputs_than_one_concat_takes() -> None:
    network = small_network(Concat((0,) * 130))
    assert differing_tensor(network, [np.full((1, 1, 1), 7)]) is None


def test_concat_of_one() -> None:
    network = small_network(Concat((0,)))
    assert differing_tensor(network, [np.full((1, 1, 1), 7)]) is None


@pytest.mark.parametrize("shift", [8, 9, 31, 32, 36, 62])
@pytest.mark.parametrize("multiplier", [0, 1, 2**30, 2**31 - 1])
def test_every_code_through_requantise(multiplier: int, shift: int) -> None:
    """At shift 8 a code less its zero point must stay in -128 .. 127; from 9 any zero point will do."""
    scale = Rescale(np.array([multiplier], np.int32), np.array([shift], np.int8))
    codes = np.arange(-128, 128).reshape(1, 1, 256)
    for zero_point in (0,) if shift == 8 else (-128, 0, 127):
        for kind in (Requantise, RequantiseDouble):
            network = small_network(kind((0,), zero_point, scale, 3), shape=codes.shape)
            assert differing_tensor(network, [codes]) is None


def test_every_pair_of_codes_through_add() -> None:
    scales = ((1, 1), 2), ((3, 1), 3), ((2**21, 5), 22), ((4194303, 1), 23)
    network, image = pairs_of_codes(
        *(Add((1, 2), multipliers, (-128, 127), shift, -3) for multipliers, shift in scales)
    )
    assert differing_tensor(network, [image]) is None


def pairs_of_codes(*layers: Layer) -> tuple[Network, Any]:
    """A network whose layers can read both codes of every pair in tensors 1 and 2, and its image."""
    image = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)), axis=2)
    split = small_conv([[[[1, 0]]]]), small_conv([[[[0, 1]]]])
    pool = MaxPool((len(layers) + 2,), (256, 256), (1, 1), (0, 0, 0, 0))
    return small_network(*split, *layers, pool, shape=image.shape), image


def test_every_pair_of_codes_through_mul() -> None:
    scales = (2**30, 37), (2**30, 32), (2**31 - 1, 62), (1518500250, 38), (1, 17)
    products = [Mul((1, 2), (-128, 127), one_scale(*s), 3, (-100, 127), t) for s in scales for t in (False, True)]
    network, image = pairs_of_codes(*products)
    assert differing_tensor(network, [image]) is None


def test_every_pair_of_codes_through_scaled_add() -> None:
    sums = []
    for scales in ((1.0, 1.0, 1.0), (0.5, 0.031, 0.4), (0.013, 0.02, 0.031), (0.25, 2.0, 1.7)):
        for subtract in (False, True):
            sums.append(ScaledAdd((1, 2), (-128, 77), 20, *scaled_sum(*scales), -3, subtract=subtract))
    network, image = pairs_of_codes(*sums)
    assert differing_tensor(network, [image]) is None


def test_every_code_through_a_table() -> None:
    codes = np.arange(-128, 128).reshape(1, 1, 256)
    network = small_network(CodeTable((0,), np.random.default_rng(SEED).permutation(codes.ravel())), shape=codes.shape)
    assert differing_tensor(network, [codes]) is None


def test_averages_of_every_count() -> None:
    """reciprocal_scale of each window size from 1 to 64, at the smallest and the largest sums."""
    image = np.random.default_rng(SEED).integers(-128, 128, (1, 64, 3))
    image[..., 1], image[..., 2] = -128, 127
    for count in range(1, 65):
        pool = AvgPool((0,), (1, count), (1, 64), (0, 0, 0, 0), 127, -128)
        assert differing_tensor(small_network(pool, shape=image.shape), [image]) is None


def test_export_is_a_function_of_the_network() -> None:
    network, _ = network_and_images(0)
    assert tosa.to_tosa(network) == tosa.to_tosa(network)


def test_export_names_the_layers() -> None:
    assert b"the-classifier" in tosa.to_tosa(small_network(small_conv([[[[1]]]], name="the-classifier")))


def test_export_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tosa.to_tosa(network_and_images(0)[0], every_tensor=True)
    assert not list(tmp_path.iterdir())


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tosa_serializer", None)
    with pytest.raises(IntrsError, match=r"pip install 'intrs\[tosa\]'"):
        tosa.to_tosa(small_network(small_conv([[[[1]]]])))


# What the standard leaves undefined (REQUIRE) or forbids (ERROR_IF) has no meaning that a network could rely on.

UNDEFINED: list[Layer] = [
    small_conv([[[[127]]]], multiplier=2**20, shift=14),  # a sum of -127 * 128, below -2**13
    Requantise((0,), 0, Rescale(np.array([2**10], np.int32), np.array([7], np.int8)), 0),  # a code of -128, below -2**6
    Mul((0, 0), (127, 127), Rescale(np.array([2**10], np.int32), np.array([16], np.int8)), 0),  # 255 * 255, above 2**15
    Add((0, 0), (2**22, 2**22 - 1), (127, 127), 1, 0),  # a sum below -2**30, to be multiplied by 2**30, shifted by 31
]
FORBIDDEN: list[Layer] = [
    MaxPool((0,), (1, 1), (1, 1), (1, 0, 0, 0)),
    AvgPool((0,), (1, 1), (1, 1), (0, 0, 0, 1), 0, 0),
]


@pytest.mark.parametrize("layer", UNDEFINED, ids=lambda layer: type(layer).__name__)
def test_undefined_arithmetic_is_refused(layer: Layer) -> None:
    network = small_network(layer)
    with pytest.raises(IntrsError, match="UNPREDICTABLE"):
        tosa.run_reference(tosa.to_tosa(network), np.full((1, 1, 1), -128))
    with pytest.raises(IntrsError, match="layer"):
        network.native  # noqa: B018


@pytest.mark.parametrize("layer", FORBIDDEN, ids=lambda layer: type(layer).__name__)
def test_forbidden_windows_are_refused(layer: Layer) -> None:
    with pytest.raises(IntrsError, match="layer"):
        small_network(layer).native  # noqa: B018
