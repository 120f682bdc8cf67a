"""TFLite files: every bit of the reference kernels, in both dialects; what is assumed of pixels; what is refused."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hostile
import numpy as np
import pytest
import tflite_files
from hostile_tflite import TFLITE
from tflite_files import File

import intrs
from intrs import _core
from intrs.errors import IntrsError, ModelError, ResultsError, SettingsError
from intrs.exchange.tflite.arithmetic import Ratio, away, fitted
from intrs.model import load, open_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.network import Network

FILES = Path(__file__).parent / "files"
RESNET8 = FILES / "tiny_resnet8_int8.tflite"  # of MLPerf Tiny, Apache 2.0; see tests/files/README.md
LOGITS = 36  # its tensor before SOFTMAX
DIALECTS = ("tflm", "litert")
ALL = np.arange(256)
NONE: dict[str, Any] = {"fusedActivationFunction": 0}


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(data)
    return path


def equal(folder: Path, data: bytes, pixels: NDArray[Any], dialect: str, unsigned: bool = False) -> Network:
    """The network of a file, after its scores were compared with the kernels' on these pixels, each the code's own."""
    network = load(saved(folder, data), dialect=dialect)
    batch = pixels.astype(np.uint8) if unsigned else (pixels.astype(np.int64) - 128).astype(np.int8)
    wanted = tflite_files.run(data, batch, dialect) - (128 if unsigned else 0)
    found = network.scores(pixels.reshape(-1, *network.input_shape))
    np.testing.assert_array_equal(found, wanted)
    return network


def pixels_of(count: int, *dims: int, seed: int = 1) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 256, (count, *dims))


# ---- a real file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_public_network_has_every_bit_of_the_kernels(dialect: str) -> None:
    images = pixels_of(24, 32, 32, 3)
    wanted = tflite_files.run(tflite_files.cut(RESNET8.read_bytes(), LOGITS), (images - 128).astype(np.int8), dialect)
    network = load(RESNET8, dialect=dialect)
    for kernels in _core.kernel_names():
        np.testing.assert_array_equal(network.scores(images, kernels), wanted)


def test_the_dialects_are_different_functions() -> None:
    tflm, litert = (load(RESNET8, dialect=dialect) for dialect in DIALECTS)
    assert tflm.identity != litert.identity
    assert load(RESNET8).identity == tflm.identity
    images = pixels_of(200, 32, 32, 3)
    assert (tflm.scores(images) != litert.scores(images)).any()


# ---- functions of one code: all of them -----------------------------------------------------------------------------

Four = tuple[float, int, float, int]  # scale and zero point before and after
UNARY: dict[str, list[Four]] = {
    "LOGISTIC": [(s, z, 1 / 256, -128) for s, z in ((0.05, -3), (0.2, 40), (0.003, 0), (1.5, -128))],
    "TANH": [(s, z, 1 / 128, 0) for s, z in ((0.05, -3), (0.013, 40), (0.7, 0))],
    "HARD_SWISH": [(0.05, -3, 0.04, -128), (0.2, 10, 0.11, -100), (0.011, 0, 0.004, 0), (1.5, 0, 1.6, 0)],
    "RELU": [(0.05, -3, 0.04, -128), (0.05, -3, 0.05, -3)],
    "RELU6": [(0.05, -3, 0.04, -128), (0.1, 7, 0.1, 7)],
    "LEAKY_RELU": [(0.05, -3, 0.04, -20), (0.01, 90, 0.01, 90)],
    "QUANTIZE": [(0.05, -3, 0.04, -128), (0.013, 0, 0.1, 5), (0.02, 3, 0.02, 5)],
}  # fmt: skip


def codes_in(file: File, dims: tuple[int, ...], scale: float, zero: int, dtype: type = np.int8) -> int:
    """An image whose pixels are its codes, and these codes on another grid: RESHAPE moves bytes only."""
    image = file.input(dims, 1.0, 0 if dtype is np.uint8 else -128, dtype)
    shape = file.constant(np.array(dims, np.int32))
    return file.add("RESHAPE", [image, shape], file.tensor(dims, scale, zero, dtype))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_code(tmp_path: Path, op: str, dialect: str) -> None:
    leaky = {"table": "LeakyReluOptions", "alpha": 0.13} if op == "LEAKY_RELU" else {}
    for scale, zero, to, target in UNARY[op]:
        file = File()
        codes = codes_in(file, (1, 1, 1, 256), scale, zero)
        out = file.add(op, [codes], file.tensor((1, 1, 1, 256), to, target), **leaky)
        equal(tmp_path, file.to_bytes(out), ALL.reshape(1, 1, 1, 256), dialect)


# ---- functions of two codes: all pairs ------------------------------------------------------------------------------

PAIRS = np.concatenate([np.broadcast_to(ALL, (256, 256)), np.stack([np.roll(ALL, k) for k in ALL])], axis=1)
GRIDS = [(0.05, 3, 0.07, -9, 0.11, 5), (0.5, 0, 0.375, 0, 0.25, 0), (0.02, -128, 3.0, 127, 2.2, 0)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("op", "activation"), [("ADD", 0), ("ADD", 1), ("SUB", 0), ("SUB", 3), ("MUL", 0), ("MUL", 1)])
def test_functions_of_two_codes(tmp_path: Path, op: str, activation: int, dialect: str) -> None:
    for a, za, b, zb, to, target in GRIDS:
        file = File()
        image = file.input((1, 1, 1, 512), 1.0, -128)
        axis = file.constant(np.array(3, np.int32))
        halves = [file.tensor((1, 1, 1, 256), a, za), file.tensor((1, 1, 1, 256), b, zb)]
        file.add("SPLIT", [axis, image], halves, table="SplitOptions", numSplits=2)
        table = f"{op.capitalize()}Options"
        made = file.tensor((1, 1, 1, 256), to * (a + b if op == "MUL" else 1), target)
        out = file.add(op, halves, made, table=table, fusedActivationFunction=activation)
        equal(tmp_path, file.to_bytes(out), PAIRS.reshape(256, 1, 1, 512), dialect)


def test_sub_rounds_ties_as_the_kernels_do(tmp_path: Path) -> None:
    """Scales whose ratio has few bits: products end in exact halves, where negating before rounding would differ."""
    for a, b, to in ((1.0, 0.0078125 * 3, 0.5), (0.75, 1.0, 0.6), (1.0, 0.001953125 * 5, 0.9)):
        file = File()
        image = file.input((1, 1, 1, 512), 1.0, -128)
        halves = [file.tensor((1, 1, 1, 256), a, 0), file.tensor((1, 1, 1, 256), b, 1)]
        axis = file.constant(np.array(3, np.int32))
        file.add("SPLIT", [axis, image], halves, table="SplitOptions", numSplits=2)
        out = file.add("SUB", halves, file.tensor((1, 1, 1, 256), to, 0), table="SubOptions", **NONE)
        for dialect in DIALECTS:
            equal(tmp_path, file.to_bytes(out), PAIRS[::5].reshape(-1, 1, 1, 512), dialect)


# ---- layers with weights --------------------------------------------------------------------------------------------


def fully_connected(rng: np.random.Generator, per_channel: bool) -> bytes:
    file = File()
    codes = codes_in(file, (1, 40), 0.031, -20)
    scales = rng.uniform(0.001, 0.02, 12) if per_channel else rng.uniform(0.001, 0.02)
    weights = file.constant(rng.integers(-127, 128, (12, 40)).astype(np.int8), scales)
    bias = file.constant(rng.integers(-3000, 3000, 12).astype(np.int32))
    options = {"table": "FullyConnectedOptions", **NONE}
    return file.to_bytes(file.add("FULLY_CONNECTED", [codes, weights, bias], file.tensor((1, 12), 0.23, 4), **options))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_fully_connected(tmp_path: Path, per_channel: bool, dialect: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        equal(tmp_path, fully_connected(rng, per_channel), pixels_of(300, 1, 1, 40), dialect)


def test_the_fit_of_a_float64_multiplier_is_exact_at_every_accumulator() -> None:
    rng = np.random.default_rng(5)
    for real in (*rng.uniform(1e-5, 0.02, 12), 0.5, 0.0625, 0.25 / 3):
        ratio = fitted(float(real), 7, (-128, 127))
        reach = int(300 / real)
        values = np.unique(np.concatenate((rng.integers(-reach, reach, 20000), np.arange(-2000, 2000))))
        wanted = [min(max(away(v * float(real)) + 7, -128), 127) for v in values.tolist()]
        found = np.clip(((values * ratio.multiplier + (1 << (ratio.shift - 1))) >> ratio.shift) + 7, -128, 127)
        assert found.tolist() == wanted


def legacy(rng: np.random.Generator, depthwise: bool, dilation: int) -> bytes:
    """uint8 as before 2019: weights with a zero point of their own, from which they lie up to 255 away."""
    file = File()
    codes = codes_in(file, (1, 9, 7, 3), 0.04, 100, np.uint8)
    dims = (1, 3, 2, 6) if depthwise else (6, 3, 2, 3)
    weights = file.constant(rng.integers(0, 256, dims).astype(np.uint8), 0.006, int(rng.choice([0, 40, 200, 255])))
    bias = file.constant(rng.integers(-900, 900, 6).astype(np.int32), 0.04 * 0.006)
    step = {"padding": 0, "strideH": 2, "strideW": 1, "dilationHFactor": dilation, "dilationWFactor": 1, **NONE}
    step |= {"table": "DepthwiseConv2DOptions", "depthMultiplier": 2} if depthwise else {"table": "Conv2DOptions"}
    if dilation > 1:
        step["strideH"] = 1
    height = 5 if dilation == 1 else 9
    out = file.tensor((1, height, 7, 6), 0.5, 120, np.uint8)
    file.add("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [codes, weights, bias], out, **step)
    window = {"table": "Pool2DOptions", "padding": 1, "strideH": 1, "strideW": 1, "filterHeight": height, **NONE}
    last = file.tensor((1, 1, 1, 6), 0.5, 120, np.uint8)
    return file.to_bytes(file.add("MAX_POOL_2D", [out], last, filterWidth=7, **window))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("depthwise", [False, True])
def test_legacy_weights_of_nine_bits(tmp_path: Path, depthwise: bool, dilation: int) -> None:
    rng = np.random.default_rng(8)
    for _ in range(4):
        equal(tmp_path, legacy(rng, depthwise, dilation), pixels_of(20, 9, 7, 3), "litert", unsigned=True)


def test_channels_that_are_constant_stay_on_the_fast_kernels(tmp_path: Path) -> None:
    """A channel without weights, whose scale is absurd and whose bias is huge, has an ordinary shift afterwards."""
    rng, file = np.random.default_rng(2), File()
    codes = codes_in(file, (1, 4, 4, 3), 0.05, -128)
    values = rng.integers(-127, 128, (5, 4, 4, 3)).astype(np.int8)
    values[1], values[3] = 0, 0
    scales = np.array([0.01, 1e-9, 0.02, 3e-11, 0.004])
    weights = file.constant(values, scales)
    bias = file.constant(np.array([5, 900_000_000, -70, -(2**31), 9], np.int32))
    options = {"table": "Conv2DOptions", "padding": 1, "strideH": 1, "strideW": 1, **NONE}
    data = file.to_bytes(file.add("CONV_2D", [codes, weights, bias], file.tensor((1, 1, 1, 5), 0.4, 3), **options))
    for dialect in DIALECTS:
        network = equal(tmp_path, data, pixels_of(50, 4, 4, 3), dialect)
        layer: Any = network.layers[-1]
        assert layer.rescale.shift.max() <= 54
        assert not layer.weights[[1, 3]].any()


def test_a_channels_first_image_is_transposed_for_nothing(tmp_path: Path) -> None:
    """As PyTorch's converters write it: the TRANSPOSE says how the image lies, and is no layer."""
    rng, file = np.random.default_rng(2), File()
    image = file.input((1, 3, 6, 5), 1.0, -128)
    order = file.constant(np.array([0, 2, 3, 1], np.int32))
    turned = file.add("TRANSPOSE", [image, order], file.tensor((1, 6, 5, 3), 1.0, -128), table="TransposeOptions")
    weights = file.constant(rng.integers(-127, 128, (4, 6, 5, 3)).astype(np.int8), np.full(4, 0.01))
    bias = file.constant(np.zeros(4, np.int32))
    options = {"table": "Conv2DOptions", "padding": 1, "strideH": 1, "strideW": 1, **NONE}
    data = file.to_bytes(file.add("CONV_2D", [turned, weights, bias], file.tensor((1, 1, 1, 4), 9.0, 3), **options))
    images = pixels_of(30, 6, 5, 3)
    network = load(saved(tmp_path, data))
    assert len(network.layers) == 1
    wanted = tflite_files.run(data, (images.transpose(0, 3, 1, 2) - 128).astype(np.int8), "tflm")
    np.testing.assert_array_equal(network.scores(images), wanted)


# ---- pixels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "zero", "codes"),
    [
        (1 / 255, -128, [-128, 72, 127]),  # 0 .. 1: the codes are the pixels
        (2 / 255, -1, [-128, 72, 127]),  # -1 .. 1
        (1.0, -128, [-128, 72, 127]),  # 0 .. 255
        (0.02, 0, [0, 39, 50]),  # anything else: a 255th of the pixel, quantised
    ],
)
def test_what_is_assumed_of_pixels(tmp_path: Path, scale: float, zero: int, codes: list[int]) -> None:
    file = File()
    image = file.input((1, 1, 1, 3), scale, zero)
    out = file.add("QUANTIZE", [image], file.tensor((1, 1, 1, 3), scale * 2, zero))
    path = saved(tmp_path, file.to_bytes(out))
    pixels = np.array([0, 200, 255]).reshape(1, 1, 3)
    assert load(path).trace(pixels)[0].ravel().tolist() == codes
    told = load(path, pixels="byte", std=255).trace(pixels)[0].ravel().tolist()  # the caller's word counts
    assert told == [min(max(int(p / 255 / np.float32(scale) + 0.5) + zero, -128), 127) for p in (0, 200, 255)]


# ---- the dialect as a setting ---------------------------------------------------------------------------------------


@pytest.fixture
def data() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return pixels_of(3, 32, 32, 3).astype(np.uint8), np.array([0, 1, 2])


def test_the_dialect_is_in_the_results_and_cannot_change(tmp_path: Path, data: Any) -> None:
    out = tmp_path / "r.tsv"
    settings: dict[str, Any] = {"sigma": 0.02, "n": 40, "n0": 10, "seed": 1, "out": out}
    np.savez(tmp_path / "d.npz", images=data[0], labels=data[1])
    intrs.certify(RESNET8, tmp_path / "d.npz", dialect="litert", **settings)
    assert json.loads((tmp_path / "r.tsv.json").read_text())["dialect"] == "litert"
    with pytest.raises(ResultsError, match="dialect: litert in the file, tflm now"):
        intrs.certify(RESNET8, tmp_path / "d.npz", resume=True, **settings)
    assert intrs.verify(out, model=RESNET8)


def test_other_models_have_no_dialect(tmp_path: Path, data: Any) -> None:
    with pytest.raises(
        SettingsError, match=r"trained_float\.onnx: dialect 'tflm': a dialect is for TFLite files alone"
    ):
        load(FILES / "trained_float.onnx", dialect="tflm")
    with pytest.raises(SettingsError, match="dialect 'xnnpack': choose from tflm, litert"):
        load(RESNET8, dialect="xnnpack")
    with pytest.raises(SettingsError, match="a Network has its integers already"):
        open_model(load(RESNET8)).network(dialect="tflm")
    intrs.certify("resnet20-sigma0.25", data, n=20, n0=10, seed=1, out=tmp_path / "r.tsv")
    assert "dialect" not in json.loads((tmp_path / "r.tsv.json").read_text())


# ---- what is refused ------------------------------------------------------------------------------------------------

FOREIGN = {
    "a.pt": (b"PK\x03\x04" + bytes(26) + b"archive/data.pkl", "a PyTorch checkpoint"),
    "b.pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a pickle"),
    "c.pt": (b"PK\x03\x04" + bytes(26) + b"m/data.pkl m/code/x.py m/constants.pkl", "a TorchScript archive"),
    "d.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file"),
    "e.keras": (b"PK\x03\x04" + bytes(26) + b"metadata.json config.json model.weights.h5", "a Keras model"),
    "f.pte": (b"\x30\x00\x00\x00ET12" + bytes(60), "a program for ExecuTorch"),
    "g.safetensors": (b"\x10\x00\x00\x00\x00\x00\x00\x00" + b'{"a":1}         ', "a safetensors file"),
    "h.pb": (b"\x08\x01\x12\x90\x01" + bytes(60), "a TensorFlow SavedModel"),
    "i.tflite": (b"version https://git-lfs" + bytes(60), "a pointer of Git LFS"),
    "j.tflite": (b"\x1c\x00\x00\x00TFL2" + bytes(60), "another version of the TFLite format"),
    "k.tflite": (b"\x1c\x00\x00\x00none" + bytes(60), "it is no TFLite file"),
    "l.pt2": (b"PK\x03\x04" + bytes(26) + b"m/archive_format", "an exported program"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_programs_are_told_by_their_content(tmp_path: Path, name: str) -> None:
    content, what = FOREIGN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"^{re.escape(str(path))}: (it is )?{re.escape(what)}.*; .*"):
        load(path)


def test_a_saved_model_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01\x12")
    with pytest.raises(ModelError, match="the folder of a TensorFlow SavedModel"):
        load(tmp_path)


def test_float_files_are_refused_with_advice(tmp_path: Path) -> None:
    file = File()
    image = file.input((1, 8), dtype=np.float32)
    weights = file.constant(np.ones((3, 8), np.float32))
    out = file.tensor((1, 3), dtype=np.float32)
    file.add("FULLY_CONNECTED", [image, weights, -1], out, table="FullyConnectedOptions", **NONE)
    path = saved(tmp_path, file.to_bytes(out))
    assert not open_model(path).is_quantized
    with pytest.raises(ModelError, match=r"it is a float model: .*; convert it with a representative data set"):
        load(path)


def test_what_is_not_supported_is_named(tmp_path: Path) -> None:
    file = File()
    codes = codes_in(file, (1, 1, 1, 8), 0.1, 0)
    soft = file.add("SOFTMAX", [codes], file.tensor((1, 1, 1, 8), 1 / 256, -128), table="SoftmaxOptions", beta=1.0)
    relu = file.add("RELU", [soft], file.tensor((1, 1, 1, 8), 1 / 256, -128))
    with pytest.raises(ModelError, match=r"operator 1 \(SOFTMAX\), which writes 't3': .*only as the last step"):
        load(saved(tmp_path, file.to_bytes(relu)))


def scores_of(file: File, dims: tuple[int, ...]) -> int:
    """Eight scores with these dimensions."""
    doubled = file.add("QUANTIZE", [codes_in(file, (1, 1, 1, 8), 0.1, 0)], file.tensor((1, 1, 1, 8), 0.2, 0))
    return reshaped(file, doubled, dims, 0.2, 0)


def reshaped(file: File, number: int, dims: tuple[int, ...], scale: float | None, zero: int) -> int:
    return file.add("RESHAPE", [number, file.constant(np.array(dims, np.int32))], file.tensor(dims, scale, zero))


def softmax(file: File, number: int, dims: tuple[int, ...], beta: float = 1.0) -> int:
    options: dict[str, Any] = {"table": "SoftmaxOptions", "beta": beta}
    return file.add("SOFTMAX", [number], file.tensor(dims, 1 / 256, -128), **options)


def arg_max(file: File, number: int, axis: int) -> int:
    inputs = [number, file.constant(np.array(axis, np.int32))]
    return file.add("ARG_MAX", inputs, file.tensor((1,), dtype=np.int32), table="ArgMaxOptions", outputType=2)


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0, -1.0, np.nan, np.inf])
def test_a_softmax_is_dropped_if_it_keeps_the_order(tmp_path: Path, beta: float) -> None:
    file = File()
    path = saved(tmp_path, file.to_bytes(softmax(file, scores_of(file, (1, 8)), (1, 8), beta)))
    if 0 < beta < np.inf:
        assert load(path).classes == 8
    else:
        with pytest.raises(ModelError, match=r"\(SOFTMAX\), which writes .*: its beta is .*; it must be positive"):
            load(path)


@pytest.mark.parametrize(("dims", "axis"), [((1, 8), -1), ((1, 8), 1), ((1, 8), 0), ((8, 1), 0), ((8, 1), -1)])
def test_a_maximum_is_dropped_if_it_runs_over_the_classes(tmp_path: Path, dims: tuple[int, int], axis: int) -> None:
    file = File()
    path = saved(tmp_path, file.to_bytes(arg_max(file, scores_of(file, dims), axis)))
    if dims[axis] == 8:
        assert load(path).classes == 8
    else:
        with pytest.raises(ModelError, match=r"\(ARG_MAX\), which writes .*: it does not run over the classes"):
            load(path)


def test_a_softmax_runs_over_the_last_axis(tmp_path: Path) -> None:
    file = File()
    last = softmax(file, scores_of(file, (8, 1)), (8, 1))
    with pytest.raises(ModelError, match=r"\(SOFTMAX\), which writes .*: it does not run over the classes"):
        load(saved(tmp_path, file.to_bytes(last)))


@pytest.mark.parametrize("axis", [0, 1])
def test_what_stands_between_softmax_and_maximum_counts(tmp_path: Path, axis: int) -> None:
    file = File()
    probabilities = softmax(file, scores_of(file, (1, 8)), (1, 8))
    last = arg_max(file, reshaped(file, probabilities, (8, 1), 1 / 256, -128), axis)
    path = saved(tmp_path, file.to_bytes(last))
    if axis == 0:
        assert load(path).classes == 8
    else:
        with pytest.raises(ModelError, match="does not run over the classes"):
            load(path)


def test_nothing_follows_a_maximum(tmp_path: Path) -> None:
    """A Softmax of the number of a class is no list of scores."""
    file = File()
    found = arg_max(file, scores_of(file, (1, 8)), 1)
    last = softmax(file, file.add("CAST", [found], file.tensor((1,), dtype=np.float32)), (1,))
    with pytest.raises(ModelError, match=r"\(ARG_MAX\), which writes .*: it is supported only as the last step"):
        load(saved(tmp_path, file.to_bytes(last)))


@pytest.mark.parametrize("op", ["EXP", "RELU6", "HARD_SWISH", "QUANTIZE", "LEAKY_RELU"])
@pytest.mark.parametrize(("scale", "to"), [(1e-45, 1e38), (1e38, 1e-45), (3e38, 3e38), (1e-45, 1e-45)])
def test_absurd_scales_are_refused_or_computed(tmp_path: Path, op: str, scale: float, to: float) -> None:
    """No exception of Python's arithmetic, no warning of NumPy's, no endless search."""
    file = File()
    codes = codes_in(file, (1, 1, 1, 8), scale, 0)
    out = file.add(op, [codes], file.tensor((1, 1, 1, 8), to, 0))
    weights = file.constant(np.full((4, 8), 3, np.int8), scale)
    last = file.tensor((1, 4), to, 0)
    file.add("FULLY_CONNECTED", [out, weights, -1], last, table="FullyConnectedOptions", **NONE)
    for dialect in DIALECTS:
        with suppress(ModelError):
            load(saved(tmp_path, file.to_bytes(last)), dialect=dialect)


def test_a_shape_whose_product_overflows_is_refused(tmp_path: Path) -> None:
    """2^64 + 21 numbers are not 21."""
    dims = [19, 787, 1499, 13309, 61836419]
    file = File()
    codes = codes_in(file, (1, 1, 1, 8), 0.1, 0)
    weights = file.constant(np.ones((3, 8), np.int8), 0.01)
    file.graph.tensors[weights].shape = dims
    file.model.buffers[file.graph.tensors[weights].buffer].data = np.zeros(prod(dims) - 2**64, np.uint8)
    last = file.tensor((1, 3), 0.5, 0)
    file.add("FULLY_CONNECTED", [codes, weights, -1], last, table="FullyConnectedOptions", **NONE)
    with pytest.raises(ModelError, match=r"its tensor 't3' has the shape .*, but 21 bytes"):
        load(saved(tmp_path, file.to_bytes(last)))


@pytest.mark.parametrize("op", ["SPLIT", "SPLIT_V", "ARG_MAX"])
def test_an_axis_that_is_not_given_is_refused(tmp_path: Path, op: str) -> None:
    """The shape of a single number is a list of nothing."""
    file = File()
    codes = codes_in(file, (1, 1, 1, 8), 0.1, 0)
    nothing = file.add("SHAPE", [file.constant(np.array(1, np.int32))], file.tensor((0,), dtype=np.int32))
    inputs = {"SPLIT": [nothing, codes], "SPLIT_V": [codes, nothing, nothing], "ARG_MAX": [codes, nothing]}[op]
    options = {"table": "SplitOptions", "numSplits": 1} if op == "SPLIT" else {}
    last = file.add(op, inputs, file.tensor((1, 1, 1, 8), 0.1, 0), **options)
    with pytest.raises(ModelError, match=rf"\({op}\), which writes .*: (its input .* must be one|it reads tensor)"):
        load(saved(tmp_path, file.to_bytes(last)))


def test_damaged_files_are_refused_or_are_networks(tmp_path: Path) -> None:
    """Cut off anywhere, or with any word set to extremes: an error of intrs, or a network, and no other exception."""
    data = fully_connected(np.random.default_rng(1), True)
    rng = np.random.default_rng(4)
    damaged = [data[:end] for end in range(8, len(data), 17)]
    for word in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000):
        for at in rng.integers(2, len(data) // 4, 80) * 4:
            damaged.append(data[:at] + word.to_bytes(4, "little") + data[at + 4 :])
    refused = 0
    for content in damaged:
        try:
            load(saved(tmp_path, content))
        except IntrsError:
            refused += 1
    assert refused > len(damaged) // 3


@pytest.mark.parametrize("name", TFLITE.files)
def test_what_a_file_may_cost(name: str) -> None:
    """Memory as `exchange/budget.py` states it, and an end; `python tests/hostile_tflite.py` shows the times."""
    data = TFLITE.files[name]()
    memory, seconds, outcome = TFLITE.measured(data)
    assert seconds < float("inf"), outcome
    assert memory < hostile.CONSTANT + hostile.PER_BYTE * len(data)
    assert len(outcome) < 1000


def test_integers_of_a_factor() -> None:
    assert Ratio.of(0.5) == Ratio(1 << 30, 31)
    assert Ratio.of(2.0**-40) == Ratio(0, 31)
    assert Ratio.of(1 - 2.0**-40) == Ratio(1 << 30, 30)
    assert [Ratio(1 << 30, 32).times(v) for v in (1, -1, 2, -2, 4)] == [1, 0, 1, -1, 1]
