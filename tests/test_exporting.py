"""Networks written for other programs: what the file computes, what is said of it, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
import pytest
from layers import one_scale
from onnx import load_model
from random_tflite import RandomGraph, need_oracles, tensors_of

import intrs
from intrs.errors import DataError, ModelError, SettingsError
from intrs.exchange.difference import sample
from intrs.exchange.grids import grids
from intrs.exchange.onnx.exporting import to_onnx
from intrs.exchange.refusal import Refusal
from intrs.exchange.targets import DEFAULT, TARGETS, target_of
from intrs.exchange.tflite.exporting import same_padding, to_tflite
from intrs.exchange.tflite.pixels import KEY, quantiser_text, read_quantiser
from intrs.exchange.tflite.read import read_tflite
from intrs.network import (
    Add,
    AvgPool,
    CodeTable,
    Concat,
    Conv,
    Gather,
    MaxPool,
    Mul,
    Network,
    Pad,
    Quantiser,
    Requantise,
    Rescale,
    ScaledAdd,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from intrs.network import Layer

SHIPPED = "resnet8-sigma0.25"
IMAGES = "cifar10-500"
NONE = (0, 0, 0, 0)
UNIT = one_scale(1 << 30, 30)


# --- Targets ---------------------------------------------------------------------------------------------------------


def test_the_suffix_says_the_target_unless_one_is_given() -> None:
    for target in TARGETS.values():
        if target.suffix:  # a folder has none
            assert target_of(None, Path(f"model{target.suffix}")) is target
            assert target_of(None, Path(f"model{target.suffix.upper()}")) is target
        assert target_of(target.name, Path("model")) is target_of(target.name, Path("model.bin")) is target
    assert target_of(None, Path("model")).name == DEFAULT
    with pytest.raises(SettingsError, match=r"board\.c: its suffix says none of the targets; take one of \.intrs, "):
        target_of(None, Path("board.c"))
    with pytest.raises(SettingsError, match="unknown target 'coreml'; choose from tosa, "):
        target_of("coreml", Path("model.tosa"))


@pytest.mark.parametrize(
    ("target", "name", "words"),
    [
        ("onnx", "net.tflite", "net.tflite: its suffix is that of int8 TFLite, but the target is onnx; take .onnx"),
        ("tosa", "net.INTRS", "its suffix is that of a model for browsers, but the target is tosa; take .tosa"),
        ("c", "net.onnx", "its suffix is that of int8 ONNX .QDQ., but the target is c; choose another name"),
    ],
)
def test_a_suffix_that_contradicts_the_target(target: str, name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        target_of(target, Path(name))


def test_options_of_other_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the target tosa has no option colour; it has none"):
        intrs.export(SHIPPED, tmp_path / "model.tosa", colour="red")
    with pytest.raises(SettingsError, match="the target onnx has no option colour; it has data, sigma"):
        intrs.export(SHIPPED, tmp_path / "model.onnx", colour="red")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["tflite", "onnx"])
def test_the_noise_of_the_comparison_is_not_that_of_the_training(target: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{target}"
    for sigma in ("0.5", 0, "0"):
        made = intrs.export(SHIPPED, path, sigma=sigma, overwrite=True)
        assert made.written
        assert f"sigma {float(sigma):g})" in str(made.written.difference)
        assert intrs.model.open_model(path).trained_sigma == "0.25"
    for wrong in (-0.25, 64, 1e9):
        with pytest.raises(SettingsError, match=r"sigma must lie between 0\.01 and 4"):
            intrs.export(SHIPPED, path, sigma=wrong, overwrite=True)


# --- A network that ships --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["tflite", "onnx"])
def test_what_is_said_is_what_the_file_does(target: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{target}"
    made = intrs.export(SHIPPED, path, data=IMAGES)
    assert made.written is not None
    network, found, said = intrs.load(SHIPPED), intrs.load(path), made.written.difference
    assert found.identity == made.written.network.identity != network.identity == made.identity
    assert found.quantiser.shift == network.quantiser.shift or target == "onnx"
    batch = sample(network, IMAGES, "0.25").batch
    ours, theirs = network.scores(batch), found.scores(batch)
    assert said.images == len(batch) == 200
    assert said.scores == ours.size
    assert said.different == (ours != theirs).sum()
    assert said.farthest == np.abs(ours - theirs).max()
    assert said.classes == (ours.argmax(1) != theirs.argmax(1)).sum()
    assert said.farthest <= 1
    assert intrs.model.open_model(path).trained_sigma == "0.25"


def test_other_engines_compute_the_scores_of_the_tflite_file(tmp_path: Path) -> None:
    need_oracles()
    path = tmp_path / "model.tflite"
    intrs.export(SHIPPED, path)
    found = intrs.load(path)
    graph = RandomGraph(path.read_bytes(), path.read_bytes(), ("scores",), (), False)
    for image in sample(found, IMAGES, "0.25").batch[:10]:
        codes, *_, scores = found.trace(image)
        for dialect in ("tflm", "litert"):
            theirs = tensors_of(graph, codes[None].astype(np.int8), dialect)["scores"]
            assert np.array_equal(theirs.ravel(), scores.ravel())


def test_onnx_runtime_fuses_every_layer_of_the_onnx_file(tmp_path: Path) -> None:
    path, fused = tmp_path / "model.onnx", tmp_path / "fused.onnx"
    intrs.export(SHIPPED, path)
    options = ort.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(fused), 3
    options.add_session_config_entry("session.x64quantprecision", "1")  # else sums saturate on AVX2 without VNNI
    session = ort.InferenceSession(str(path), options)
    operators = {node.op_type for node in load_model(str(fused)).graph.node}
    assert "QLinearConv" in operators
    assert "Conv" not in operators
    found = intrs.load(path)
    batch = sample(found, IMAGES, "0.25").batch
    scores = session.run(None, {"image": batch.transpose(0, 3, 1, 2).astype(np.float32)})[0]
    assert (scores.argmax(1) != found.predict(batch)).sum() <= 4  # of 200: it rounds in floats


def test_a_file_exported_again_is_the_same_network(tmp_path: Path) -> None:
    """Scales that a file holds are found again: nothing is lost by the second export."""
    intrs.export(SHIPPED, tmp_path / "one.tflite")
    again = intrs.export(tmp_path / "one.tflite", tmp_path / "two.tflite", data=IMAGES)
    assert again.written is not None
    assert again.written.difference.different <= 2


@pytest.mark.parametrize("target", ["tflite", "onnx"])
def test_images_of_another_size_are_refused(target: str, tmp_path: Path) -> None:
    images = np.zeros((3, 8, 8, 3), np.uint8)
    with pytest.raises(DataError, match="the model takes images of 32 x 32 x 3"):
        intrs.export(SHIPPED, tmp_path / f"model.{target}", data=(images, np.zeros(3, np.int64)))
    assert not list(tmp_path.iterdir())


def test_the_command_says_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from intrs.cli.start import main

    out = tmp_path / "model.tflite"
    assert main(["export", SHIPPED, "-o", str(out), "--data", IMAGES]) == 0
    said = capsys.readouterr().out
    assert "int8 TFLite" in said
    assert "of 2,000 scores differ" in said
    assert "of 200 top classes" in said
    assert f"intrs certify {out}" in said


# --- Every kind of layer ---------------------------------------------------------------------------------------------


def quantiser(height: int = 6, width: int = 5, channels: int = 2) -> Quantiser:
    ones = np.ones(channels, np.int32)
    return Quantiser(height, width, channels, 0 * ones, 255 * ones, ones, -128 * ones, 0)


def conv(source: int, shape: tuple[int, int, int, int], seed: int = 0, **options: Any) -> Conv:
    """A convolution whose results spread over the codes; padding, stride and groups as said."""
    rng = np.random.default_rng(seed)
    weights, bias = rng.integers(-127, 128, shape).astype(np.int8), rng.integers(-9999, 9999, shape[0])
    terms = shape[1] * shape[2] * shape[3]
    scales = (2.0**37 * 50 / (70 * 70 * np.sqrt(terms)) * rng.uniform(0.5, 2, shape[0])).astype(np.int64)
    settings: dict[str, Any] = {"groups": 1, "stride": (1, 1), "dilation": (1, 1), "pad": NONE, "input_zero_point": 0}
    settings |= {"rescale": Rescale(scales, np.full(shape[0], 37)), "output_zero_point": 0, "name": f"conv{seed}"}
    return Conv((source,), weights, bias.astype(np.int32), **(settings | options))


def closed(*layers: Layer, depth: int = 3, image: Quantiser | None = None, **options: Any) -> Network:
    """These layers and a head that looks at all of the last tensor."""
    made = Network(image or quantiser(), layers)
    height, width, channels = made.shapes[-1]
    return Network(made.quantiser, (*layers, conv(len(layers), (depth, height, width, channels), 99, **options)))


FIRST = conv(0, (4, 3, 3, 2), 1, pad=(1, 1, 1, 1))
NETWORKS: dict[str, Callable[[], Network]] = {
    "conv with a padding of its own": lambda: closed(conv(0, (4, 3, 3, 2), pad=(2, 0, 1, 1), stride=(2, 1))),
    "conv with SAME padding and dilation": lambda: closed(conv(0, (4, 3, 3, 2), pad=(2, 2, 2, 2), dilation=(2, 2))),
    "depthwise with multiplier": lambda: closed(conv(0, (6, 3, 3, 1), groups=2)),
    "groups": lambda: closed(FIRST, conv(1, (4, 3, 3, 2), 2, groups=2)),
    "relu": lambda: closed(conv(0, (4, 3, 3, 2), output_zero_point=-20, clamp=(-20, 127)), input_zero_point=-20),
    "relu6": lambda: closed(conv(0, (4, 3, 3, 2), output_zero_point=-128, clamp=(-128, 90)), input_zero_point=-128),
    "a channel that is constant": lambda: closed(
        conv(0, (2, 3, 3, 2), rescale=Rescale(np.array([0, 1 << 30]), np.array([40, 39])))
    ),
    "add": lambda: closed(FIRST, conv(1, (4, 1, 1, 4), 2), Add((1, 2), (500, 300), (0, 0), 9, 5), input_zero_point=5),
    "scaled add": lambda: closed(
        FIRST, conv(1, (4, 1, 1, 4), 2),
        ScaledAdd((1, 2), (0, 0), 20, one_scale(1 << 30, 31), one_scale(1 << 29, 31), one_scale(1 << 30, 49), 0),
    ),
    "difference": lambda: closed(
        FIRST, conv(1, (4, 1, 1, 4), 2),
        ScaledAdd((1, 2), (0, 0), 20, UNIT, one_scale(1 << 29, 30), one_scale(1 << 30, 51), 0, subtract=True),
    ),
    "product": lambda: closed(FIRST, conv(1, (4, 1, 1, 4), 2), Mul((1, 2), (0, 0), one_scale(1 << 30, 36), 0)),
    "product with one pixel": lambda: closed(
        FIRST, AvgPool((1,), (6, 5), (1, 1), NONE, 0, 0), Mul((1, 2), (0, 0), one_scale(1 << 30, 36), 0)
    ),
    "max pool": lambda: closed(FIRST, MaxPool((1,), (3, 3), (2, 2), (1, 1, 1, 1))),
    "average pool": lambda: closed(FIRST, AvgPool((1,), (2, 3), (2, 1), NONE, 0, 0)),
    "average pool that moves the zero point": lambda: closed(
        FIRST, AvgPool((1,), (2, 2), (1, 1), NONE, 0, 7), input_zero_point=7
    ),
    "requantise": lambda: closed(FIRST, Requantise((1,), 0, one_scale(3 << 28, 30), 9), input_zero_point=9),
    "rectify": lambda: closed(FIRST, Requantise((1,), 0, UNIT, 0, (0, 127))),
    "concat": lambda: closed(FIRST, conv(0, (3, 3, 3, 2), 2, pad=(1, 1, 1, 1)), Concat((1, 2, 1))),
    "pad by zero": lambda: closed(FIRST, Pad((1,), (1, 0, 2, 1), 0)),
    "a choice of rows, columns and channels": lambda: closed(
        FIRST, Gather((1,), np.array([5, 0, 2], np.int32), np.array([1, 1], np.int32), np.array([3, 1], np.int32))
    ),
    "wide scores": lambda: closed(FIRST, wide=True),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", ["tflite", "onnx"])
def test_every_kind_of_layer_is_written(name: str, target: str, tmp_path: Path) -> None:
    """Loaded again, the scores are those of the network, but for a rounding here and there."""
    network = NETWORKS[name]()
    made = intrs.export(network, tmp_path / f"model.{target}", sigma="0.25")
    assert made.written is not None
    said = made.written.difference
    assert len(np.unique(network.scores(sample(network).batch))) > 50  # else it would say nothing
    assert said.farthest <= 2
    assert said.classes <= 4


@pytest.mark.parametrize("name", NETWORKS)
def test_both_reference_kernels_run_every_kind_of_layer(name: str, tmp_path: Path) -> None:
    need_oracles()
    intrs.export(NETWORKS[name](), tmp_path / "model.tflite")
    data = (tmp_path / "model.tflite").read_bytes()
    found = intrs.load(tmp_path / "model.tflite")
    graph = RandomGraph(data, data, ("scores",), (), False)
    for image in sample(found, None, "0.25").batch[:3]:
        codes, *_, scores = found.trace(image)
        for dialect in ("tflm", "litert"):
            theirs = tensors_of(graph, codes[None].astype(np.int8), dialect)["scores"]
            assert np.array_equal(theirs.ravel(), scores.ravel())


# --- What has no form ------------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[Callable[[], Network], str]] = {
    "a table": (
        lambda: closed(FIRST, CodeTable((1,), np.arange(-128, 128)[::-1], name="flip")),
        r"layer 'flip' \(CodeTable\)",
    ),
    "a clamp that is no ReLU": (
        lambda: closed(conv(0, (4, 3, 3, 2), clamp=(-9, 80))),
        r"layer 'conv0' \(Conv\): it clamps codes to -9 .. 80, which is no ReLU",
    ),
    "zero points that contradict": (
        lambda: closed(FIRST, conv(1, (4, 1, 1, 4), 2, input_zero_point=3)),
        r"layer 'conv2' \(Conv\): its zero points contradict",
    ),
    "scales that contradict": (
        lambda: closed(FIRST, Requantise((1,), 0, one_scale(3 << 28, 30), 0, name="half"), Concat((1, 2), name="both")),
        r"layer 'both' \(Concat\): its scales contradict",
    ),
    "padding of a pool that is no one's": (
        lambda: closed(FIRST, AvgPool((1,), (3, 3), (1, 1), (2, 0, 1, 1), 0, 0, name="pool")),
        r"layer 'pool' \(AvgPool\): its padding is neither SAME nor VALID",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_tflite_cannot_say_names_the_layer(name: str, tmp_path: Path) -> None:
    make, words = REFUSED[name]
    with pytest.raises(ModelError, match=f"model.tflite: {words}.*TOSA"):
        intrs.export(make(), tmp_path / "model.tflite")
    assert not list(tmp_path.iterdir())


def test_a_table_has_no_form_in_onnx(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"layer 'flip' \(CodeTable\): ONNX has no 8-bit operator"):
        intrs.export(REFUSED["a table"][0](), tmp_path / "model.onnx")


# --- The parts -------------------------------------------------------------------------------------------------------


def test_grids_give_back_the_ratios_of_a_network() -> None:
    network = intrs.load(SHIPPED)
    found = grids(network)
    for number, layer in enumerate(network.layers, 1):
        if isinstance(layer, Add):
            for source, multiplier in zip(layer.inputs, layer.multipliers, strict=True):
                ratio = float(found[source].scale / found[number].scale)
                assert ratio == pytest.approx(multiplier / 2**layer.shift, rel=1e-6)


def test_a_quantiser_survives_its_text() -> None:
    made = intrs.load(SHIPPED).quantiser
    again = read_quantiser(quantiser_text(made), (32, 32, 3))
    assert again.fields() == made.fields()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"low": [0]}', quantiser_text(quantiser()).replace("1, 1", "1.5, 1"), "[" * 100_000]
)
def test_a_damaged_quantiser_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match=KEY):
        read_quantiser(text, (6, 5, 2))


def test_a_quantiser_that_overflows_is_refused(tmp_path: Path) -> None:
    network = NETWORKS["max pool"]()
    data = to_tflite(network, network.scores(sample(network).batch)).data
    for was, now in ((b'"shift": 0', b'"shift": 9'), (b'"shift": 0', b'"shift":99')):
        path = tmp_path / "model.tflite"
        path.write_bytes(data.replace(was, now))
        if now.endswith(b"99"):
            with pytest.raises(ModelError, match=r"model\.tflite: "):
                intrs.load(path)
        else:
            assert intrs.load(path).quantiser.shift == 9


def test_what_a_caller_says_of_pixels_comes_before_the_metadata(tmp_path: Path) -> None:
    network = NETWORKS["max pool"]()
    data = to_tflite(network, network.scores(sample(network).batch)).data
    file = read_tflite(tmp_path / "model.tflite", data)
    (tmp_path / "model.tflite").write_bytes(data)
    assert KEY in file.metadata
    assert intrs.load(tmp_path / "model.tflite").quantiser.fields() == network.quantiser.fields()
    assert intrs.load(tmp_path / "model.tflite", pixels="unit").quantiser.fields() != network.quantiser.fields()


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "expected"), [(6, 3, 1, (1, 1)), (6, 3, 2, (0, 1)), (5, 1, 3, (0, 0))]
)
def test_same_padding(size: int, kernel: int, stride: int, expected: tuple[int, int]) -> None:
    assert same_padding(size, kernel, stride) == expected


def test_exports_are_functions_of_the_network() -> None:
    network = NETWORKS["add"]()
    scores = network.scores(sample(network).batch)
    assert to_tflite(network, scores).data == to_tflite(NETWORKS["add"](), scores).data
    assert to_onnx(network) == to_onnx(NETWORKS["add"]())
