"""What a layer can hold, what the core accepts and refuses, bytes and copies, and that every lane width is alike."""

from __future__ import annotations

import copy
import pickle
import re
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_networks
import reference
from layers import (
    add,
    conv,
    full,
    many_channels,
    network,
    network_of_gibibytes,
    one_scale,
    quantiser,
    rescale,
    scores_of,
)
from random_networks import random_images, random_network

from intrs import _core
from intrs.errors import DataError, IntrsError, ModelError, SettingsError
from intrs.exchange import tosa
from intrs.network import (
    KINDS,
    AvgPool,
    CodeTable,
    Concat,
    Gather,
    Layer,
    MaxPool,
    Mul,
    Network,
    Pad,
    Requantise,
    Rescale,
    ScaledAdd,
    selected_kernels,
)
from intrs.noise import Noise

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
    ("rescaled result could leave", Mul((0, 0), (0, 0), one_scale(2**30, 14), 0)),
    ("neither one entry|number of RESCALE entries", Mul((0, 0), (0, 0), rescale(40, 2), 0)),
    ("wrong number of inputs", Mul((0,), (0, 0), rescale(40), 0)),
    ("wrong number of inputs", CodeTable((0, 0), np.zeros(256, np.int8))),
    ("left shift", ScaledAdd((0, 0), (0, 0), 23, rescale(40), rescale(40), rescale(40), 0)),
    ("rescaled result could leave", ScaledAdd((0, 0), (0, 0), 20, rescale(27), rescale(40), rescale(40), 0)),
    ("rescaled result could leave", ScaledAdd((0, 0), (0, 0), 20, rescale(30), rescale(30), rescale(27), 0)),
    ("smaller than its kernel", MaxPool((0,), (2, 2), (1, 1), (2, 0, 0, 0))),
    ("smaller than its kernel", AvgPool((0,), (2, 2), (1, 1), (0, 0, 0, 2), 0, 0)),
    ("sum could leave", AvgPool((0,), (8000, 8000), (1, 1), (7999, 0, 7999, 0), 0, 0)),
    ("rescaled result could leave", Requantise((0,), 0, rescale(2), 0)),
    ("wrong number of inputs", MaxPool((0, 0), (2, 2), (1, 1), (0, 0, 0, 0))),
    ("padding value", Pad((0,), (1, 1, 1, 1), 200)),
    ("indices lies outside", Gather((0,), rows=full(1, 4))),
    ("indices lies outside", Gather((0,), columns=full(2, -1))),
    ("indices lies outside", Gather((0,), channels=np.arange(4, dtype=np.int32))),
    ("number of indices", Gather((0,), channels=full(2**16 + 1, 0))),
    ("output is too large", Gather((0,), full(2**14, 0), full(2**14, 0))),
    ("wrong number of inputs", Gather((0, 0), full(1, 0))),
]


def slow(side: int) -> Network:
    """Of some hundred bytes: a pool of windows that are half as wide as the image, and another of what it writes."""
    half = side // 2
    frame = Pad((0,), (side - 1, 0, side - 1, 0), 7)
    pools = [
        MaxPool((1,), (half, half), (1, 1), (0, 0, 0, 0)),
        MaxPool((2,), (half + 1, half + 1), (1, 1), (0, 0, 0, 0)),
    ]
    return Network(quantiser(1, 1, 1), (frame, *pools))


@pytest.mark.parametrize(("message", "layer"), REFUSED)
def test_refused(message: str, layer: Layer) -> None:
    bad = network(replace(layer, name="the bad one"), scores_of(0, SHAPE))
    with pytest.raises(IntrsError, match=message) as error:
        _ = bad.native
    assert "the bad one" in str(error.value)


def test_a_network_that_takes_too_long_is_refused() -> None:
    """Its time is that of the windows, which cost nothing in the file."""
    assert len(slow(4096).to_bytes()) < 200
    assert slow(64).native.work() == 64 * 64 + 16 * (33**2 * 32**2 + 33**2)
    with pytest.raises(IntrsError, match="one image would take too long"):
        _ = slow(4096).native


def test_a_network_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(_core.Error, match="too much memory"):
        network_of_gibibytes().native.block_bytes("scalar")


def test_scores_can_be_interrupted() -> None:
    """Python's handlers of signals run meanwhile, not only when all is done."""
    calls: list[int] = []
    native, kernels = _core.Network(slow(128).to_bytes()), selected_kernels("scalar-5")  # which takes time of its own
    before = signal.signal(signal.SIGALRM, lambda number, _: calls.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        native.scores(np.zeros((160, 1, 1, 1), np.int32), kernels)
        assert len(calls) > 1  # it takes more than ten times as long as the core waits between two looks
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_during_a_trace() -> None:
    ticks, over = [0], threading.Event()

    def tick() -> None:
        while not over.wait(0.001):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    begun = ticks[0]
    _core.Network(slow(192).to_bytes()).trace(np.zeros((1, 1, 1), np.int32), "scalar")
    found = ticks[0]
    over.set()
    thread.join()
    assert found - begun > 3


def test_progress_is_not_asked_again_after_it_has_failed() -> None:
    calls: list[int] = []

    def fail(done: int) -> None:
        calls.append(done)
        raise ValueError(f"call {len(calls)}")

    table = Noise.of("discrete", "0.25").table()
    noise, heavy = _core.NoiseTable(table.first, table.thresholds), _core.Network(slow(192).to_bytes())
    with pytest.raises(ValueError, match="call 1"):
        _core.votes(heavy, noise, np.zeros((1, 1, 1), np.uint8), bytes(32), 0, 0, 100, 1, "scalar", fail)
    assert len(calls) == 1


def test_arrays_of_other_types_are_not_converted() -> None:
    net = _core.Network(slow(4).to_bytes())
    integers: Any = np.zeros((1, 1, 1, 1), np.int64)
    with pytest.raises(TypeError):
        net.scores(integers)
    with pytest.raises(TypeError):
        net.trace(integers[0].astype(float))


CONV, ADD = conv(0, ones(3, 1, 1, 3), name="stem"), add(0, 0, name="join")
TOO_LARGE: list[tuple[Any, str, Any, str]] = [
    (CONV, "weights", np.full((3, 1, 1, 3), 300), "300 does not fit int8"),
    (CONV, "weights", np.full((3, 1, 1, 3), 1.9), "expected an array of integers, got an array of float64"),
    (CONV, "weights", np.ones((3, 3), np.int8), "expected an array of 4 dimensions"),
    (CONV, "weights", None, "expected an array of integers, got None"),
    (CONV, "weights", [[1], [2, 3]], "expected an array of integers, got list"),
    (CONV, "bias", np.full(3, 2**33), "8589934592 does not fit int32"),
    (CONV, "bias", full(2, 0), "expected an array of shape (3,), got (2,)"),
    (CONV, "stride", (1, 1, 1), "expected 2 integers"),
    (CONV, "stride", 2, "expected a sequence of integers, got 2"),
    (CONV, "pad", (0.5, 0, 0, 0), "expected an integer, got 0.5"),
    (CONV, "input_zero_point", 2**31, "2147483648 does not fit 32 bits"),
    (CONV, "clamp", (-(2**40), 0), "-1099511627776 does not fit 32 bits"),
    (CONV, "wide", 2, "expected True or False, got 2"),
    (CONV, "rescale", (1, 2), "expected a Rescale"),
    (ADD, "multipliers", (2**31, 1), "2147483648 does not fit 32 bits"),
    (ADD, "zero_points", (0, -(2**31) - 1), "-2147483649 does not fit 32 bits"),
    (ADD, "shift", True, "expected an integer, got True"),
    (ADD, "inputs", ("0", "1"), "expected an integer, got '0'"),
    (ADD, "name", 7, "expected text"),
    (Pad((0,), (1, 1, 1, 1), 0, name="frame"), "value", 2**32, "4294967296 does not fit 32 bits"),
    (
        CodeTable((0,), np.zeros(256, np.int8)),
        "table",
        np.zeros(255, int),
        "expected an array of shape (256,), got (255,)",
    ),
    (rescale(), "multiplier", np.array([2**31]), "2147483648 does not fit int32"),
    (rescale(), "shift", np.array([200]), "200 does not fit int8"),
    (rescale(), "shift", np.array([30, 30]), "expected an array of shape (1,), got (2,)"),
    (quantiser(), "offset", np.full(3, -(2**31) - 1), "-2147483649 does not fit int32"),
    (quantiser(), "low", full(1, 0), "expected an array of shape (3,), got (1,)"),
]


@pytest.mark.parametrize(("record", "field", "value", "message"), TOO_LARGE)
def test_what_the_bytes_cannot_hold_is_refused(record: Any, field: str, value: Any, message: str) -> None:
    with pytest.raises(ModelError, match=re.escape(f"{field}: {message}")) as error:
        replace(record, **{field: value})
    assert type(record).__name__ in str(error.value)
    assert getattr(record, "name", "") in str(error.value) or field == "name"


def test_a_refusal_names_the_layer() -> None:
    with pytest.raises(ModelError, match=r"layer 'stem' \(Conv\): weights: -129 does not fit int8"):
        replace(CONV, weights=np.full((3, 1, 1, 3), -129))


def test_other_integer_types_that_fit_are_the_same_network() -> None:
    layer = scores_of(0, SHAPE)
    others: dict[str, Any] = {"weights": layer.weights.astype(np.int64), "bias": layer.bias.tolist()}
    others |= {"groups": np.int64(1), "stride": [np.int8(1), 1]}
    wide = replace(layer, **others)
    assert network(wide).identity == network(layer).identity
    assert wide.stride == (1, 1)


def test_arrays_cannot_change_under_the_identity() -> None:
    weights, bias = RNG.integers(-9, 9, (3, *SHAPE)).astype(np.int8), full(3, 0)
    view = weights[:]
    view.flags.writeable = False
    net = network(replace(scores_of(0, SHAPE), weights=view, bias=bias))
    before = net.identity
    weights[:], bias[:] = 1, 1
    assert network(*net.layers).identity == before
    with pytest.raises(ValueError, match="read-only"):
        net.layers[0].weights[:] = 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("parts", [(None, ()), (quantiser(), (quantiser(),)), (quantiser(), 7), (quantiser(), "Conv")])
def test_a_network_is_made_of_layers(parts: tuple[Any, Any]) -> None:
    with pytest.raises(ModelError, match=r"a network (begins with a Quantiser|is made of layers)"):
        Network(*parts)


def test_concat_and_add_of_other_sizes_are_refused() -> None:
    smaller = conv(0, ones(3, 2, 2, 3))
    with pytest.raises(IntrsError, match="differ in size"):
        _ = network(smaller, Concat((0, 1)), scores_of(0, SHAPE)).native
    pooled = MaxPool((0,), (4, 4), (1, 1), (0, 0, 0, 0))
    fewer = conv(0, ones(2, 4, 4, 3))  # one pixel, but of other channels
    for layer in (add(0, 1), Mul((1, 0), (0, 0), rescale(46), 0)):
        for partner in (smaller, fewer):
            with pytest.raises(IntrsError, match="differ in shape"):
                _ = network(partner, layer, scores_of(0, SHAPE)).native
        assert network(pooled, layer, scores_of(2, SHAPE)).native.layers()[1][:3] == SHAPE


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
        check_bits(random_network(rng), kernels, rng)


@pytest.mark.parametrize("kernels", _core.kernel_names())
def test_many_channels_give_the_same_bits(kernels: str) -> None:
    for seed in range(25):
        check_bits(many_channels(seed), kernels, np.random.default_rng(seed))


def check_bits(net: Network, kernels: str, rng: np.random.Generator) -> None:
    """All scores, and all tensors of one image, are those of the normative set."""
    images = random_images(rng, net, 18)
    assert np.array_equal(net.scores(images, "scalar"), net.scores(images, kernels))
    for a, b in zip(net.trace(images[0], "scalar"), net.trace(images[0], kernels), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", ["wrong", "wrong-lane"])
def test_a_set_that_differs_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' failed its self-check"):
        _core.selected_kernels(name)


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


BATCHES: list[Any] = [
    np.zeros((1, 4, 4)),
    np.zeros((1, 4, 4, 3)),
    np.zeros((1, 3, 4, 4), int),
    np.zeros((4, 4, 3), int),
    np.zeros((1, 1, 4, 4, 3), int),
    np.zeros((1, 4, 4, 3), bool),
    [[1, 2], [3]],
    [1, 2],
    None,
    "image",
    7,
]


@pytest.mark.parametrize("batch", BATCHES)
def test_wrong_images_are_refused(batch: Any) -> None:
    for use in (network().scores, network().predict):
        with pytest.raises(DataError, match=r"4 x 4 x 3 .*got (an array|shape|list|None|'image')") as error:
            use(batch)
        assert len(str(error.value)) < 200


@pytest.mark.parametrize("image", [np.zeros(SHAPE), np.zeros((1, *SHAPE), int), [[1], [1, 2]], None, "image"])
def test_a_wrong_image_is_refused(image: Any) -> None:
    with pytest.raises(DataError, match=r"an integer image of 4 x 4 x 3 .*got (an array|shape|list|None|'image')"):
        network().trace(image)


def test_lists_of_images_are_images() -> None:
    images = RNG.integers(0, 256, (2, *SHAPE))
    assert np.array_equal(network().scores(images.tolist()), network().scores(images))
    for kind in (np.uint8, np.uint64, np.int16, np.dtype(">i4")):
        assert np.array_equal(network().scores(images.astype(kind)), network().scores(images))
    assert network().scores(images[:0]).shape == (0, 3)


@pytest.mark.parametrize("kernels", ["abacus", 3, b"scalar"])
def test_wrong_kernels_are_refused(kernels: Any) -> None:
    images = np.zeros((1, *SHAPE), int)
    with pytest.raises(SettingsError, match=r"no kernel set 'abacus'|expected the name of a kernel set"):
        network().scores(images, kernels)
    with pytest.raises(SettingsError, match=r"no kernel set 'abacus'|expected the name of a kernel set"):
        network().trace(images[0], kernels)


def test_pixels_beyond_32_bits_saturate() -> None:
    net = network()
    far = np.full((1, *SHAPE), 2**40)
    assert np.array_equal(net.scores(far), net.scores(np.minimum(far, 10_000)))


# --- bytes, copies, what is shown ------------------------------------------------------------------------------------


def test_random_networks_have_every_kind() -> None:
    found = {type(layer) for net in some_networks() for layer in net.layers}
    assert found == set(KINDS.values())


def some_networks(count: int = 60) -> list[Network]:
    return [random_network(np.random.default_rng(seed)) for seed in range(count)]


def test_bytes_there_and_back() -> None:
    for net in some_networks():
        again = Network.from_bytes(net.to_bytes())
        assert again.to_bytes() == net.to_bytes()
        assert again.identity == net.identity
        assert again.shapes == net.shapes
        images = random_images(np.random.default_rng(0), net, 2)
        assert np.array_equal(reference.scores(again, images), net.scores(images))


def test_copies_keep_names() -> None:
    net = network(replace(scores_of(0, SHAPE), name="head"))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(net, protocol))  # noqa: S301 (our own)
        assert (again.identity, again.layers[0].name) == (net.identity, "head")
    _ = net.native
    for again in (copy.copy(net), copy.deepcopy(net)):
        assert (again.identity, again.layers[0].name) == (net.identity, "head")
    assert len(pickle.dumps(net)) < len(net.to_bytes()) + 200


def test_a_network_that_the_core_refuses_does_not_unpickle() -> None:
    bad = pickle.dumps(network(conv(0, ones(3, 1, 1, 3))))
    with pytest.raises(ModelError, match="one score per class"):
        pickle.loads(bad)  # noqa: S301 (our own)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "bytes end too early"),
        (b"INTRSNE", "bytes end too early"),
        (b"x" * 100, "not the bytes of an intrs network"),
        (network().to_bytes()[:-1], "bytes end too early"),
        (network().to_bytes() + b"x", "go on after its last layer"),
        (None, "expected the bytes of a network, got None"),
        ("INTRSNET", "expected the bytes of a network, got 'INTRSNET'"),
        (network(), "expected the bytes of a network, got Network"),
    ],
)
def test_other_bytes_are_refused(data: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Network.from_bytes(data)


def test_names_are_one_per_layer() -> None:
    assert Network.from_bytes(memoryview(network().to_bytes()), ["a"]).layers[0].name == "a"
    with pytest.raises(ModelError, match="2 names for 1 layers"):
        Network.from_bytes(network().to_bytes(), ["a", "b"])


def test_damaged_bytes_are_refused_or_another_network() -> None:
    """Whatever the core accepts of 4000 changed networks, Python reads as the same bytes."""
    accepted = 0
    for seed in range(4000):
        rng = np.random.default_rng(seed)
        data = bytearray(random_network(np.random.default_rng(seed % 40), most_side=5, most_channels=4).to_bytes())
        for _ in range(rng.integers(1, 4)):
            at, gone, new = int(rng.integers(len(data))), rng.choice([0, 1, 1, 1, 4]), rng.choice([0, 1, 1, 1, 4])
            data[at : at + gone] = bytes(rng.integers(0, 256, new, np.uint8))
        try:
            again = Network.from_bytes(bytes(data))
        except ModelError:
            continue
        accepted += 1
        assert again.to_bytes() == data
    assert 100 < accepted < 3900


def test_reprs_are_short() -> None:
    for net in some_networks(20):
        assert len(repr(net)) < 160
        assert "\n" not in repr(net)
        for thing in (*net.layers, net.quantiser):
            assert len(repr(thing)) < 400
    assert "weights=int8[3, 4, 4, 3], bias=int32[3]" in repr(network().layers[0])
    assert "144 weights, identity c69e9de7d45e..." in repr(network())


def test_summary() -> None:
    long = "a name that is longer than a column"
    net = network(conv(0, ones(3, 1, 1, 3), name=long), scores_of(1, SHAPE, name="\x1b[31m<b>"))
    text = net.summary()
    (*_, low, high) = net.native.layers()[1]
    for words in (net.identity, "4 x 4 x 3", "3 classes", "288 multiply-adds per sample", "1x1x3", "153 bytes"):
        assert words in text
    for words in (f"{low:,}", f"{high:,}", "...r than a column", "Conv", r"\x1b[31m<b>"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    html = net._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert net.identity in html


def served_by(function: Any) -> set[type[Layer]]:
    """The kinds for which a function has more than its refusal."""
    return {kind for kind in KINDS.values() if function.dispatch(kind) is not function.dispatch(object)}


def test_every_kind_is_known_everywhere() -> None:
    """The list of HACKING.md, "To add a layer kind", as far as a program can check it."""
    kinds = set(KINDS.values())
    assert kinds == served_by(tosa.write)
    assert kinds == served_by(reference.run)
    assert kinds <= set(random_networks.KINDS)
    page = (Path(__file__).parents[1] / "docs" / "arithmetic.md").read_text("utf-8")
    assert [kind for kind in kinds if f"| {kind.KIND} {kind.__name__} |" not in page] == []
    pytest.importorskip("torch")
    from intrs.pgd import twin

    assert kinds == served_by(twin._step)
