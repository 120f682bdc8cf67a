"""Small ONNX files for tests: float networks built node by node, quantised by ONNX Runtime's own quantizer, and
hand-written quantised graphs with one layer each."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (  # type: ignore[import-untyped]
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

OPSET = 17
IR_VERSION = 8
TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}


@dataclass
class Graph:
    """Nodes and constants of a graph under construction. Every method returns the name of what it made."""

    rng: np.random.Generator
    shape: tuple[int, int, int] = (3, 16, 16)  # channels, height, width
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.channels["image"] = self.shape[0]

    def constant(self, value: NDArray[Any], hint: str = "c") -> str:
        name = f"{hint}_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, *inputs: str, channels: int | None = None, domain: str = "", **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"/{name}", domain=domain, **attributes))
        self.channels[name] = channels or self.channels.get(inputs[0], 0)
        return name

    def conv(self, x: str, out: int, kernel: int = 3, bias: bool = True, group: int = 1, **attributes: Any) -> str:
        each = self.channels[x] // group
        weights = self.rng.normal(0, (2 / (each * kernel * kernel)) ** 0.5, (out, each, kernel, kernel))
        inputs = [x, self.constant(weights.astype(np.float32), "w")]
        if bias:
            inputs.append(self.constant(self.rng.normal(0, 0.1, out).astype(np.float32), "b"))
        attributes.setdefault("pads", [kernel // 2] * 4)
        if "auto_pad" in attributes:
            del attributes["pads"]
        return self.node("Conv", *inputs, channels=out, group=group, **attributes)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.node("Clip", x, *(self.constant(np.array(v, np.float32)) for v in (low, high)))

    def gemm(self, x: str, inputs: int, out: int) -> str:
        weights = self.rng.normal(0, (1 / inputs) ** 0.5, (out, inputs)).astype(np.float32)
        bias = self.rng.normal(0, 0.1, out).astype(np.float32)
        return self.node("Gemm", x, self.constant(weights, "w"), self.constant(bias, "b"), channels=out, transB=1)

    def model(self, output: str, classes: int | None = None, batch: int | str = "n", **options: Any) -> onnx.ModelProto:
        dims = [batch, classes] if classes else None
        image = helper.make_tensor_value_info(
            options.get("name", "image"), options.get("dtype", TensorProto.FLOAT), [batch, *self.shape]
        )
        scores = helper.make_tensor_value_info(output, options.get("out_dtype", TensorProto.FLOAT), dims)
        graph = helper.make_graph(self.nodes, "g", [image], [scores], self.constants)
        opsets = [helper.make_opsetid("", options.get("opset", OPSET)), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


# ---- float networks -----------------------------------------------------------------------------------------------


def resnet(g: Graph, classes: int = 10) -> onnx.ModelProto:
    x = g.relu(g.conv("image", 16))
    for out, stride in ((16, 1), (32, 2)):
        y = g.conv(g.relu(g.conv(x, out, strides=[stride, stride])), out)
        short = x if stride == 1 else g.conv(x, out, kernel=1, strides=[2, 2])
        x = g.relu(g.node("Add", y, short, channels=out))
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    return g.model(g.gemm(x, 32, classes), classes)


def vgg(g: Graph, classes: int = 10) -> onnx.ModelProto:
    x = g.relu(g.conv("image", 16))
    x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.relu(g.conv(x, 24))
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    area = (g.shape[1] // 4) * (g.shape[2] // 4)
    x = g.node("Reshape", x, g.constant(np.array([0, -1], np.int64)))
    x = g.relu(g.gemm(x, 24 * area, 48))
    return g.model(g.node("Softmax", g.gemm(x, 48, classes)), classes)


def mobilenet(g: Graph, classes: int = 10) -> onnx.ModelProto:
    x = g.clip(g.conv("image", 16, strides=[2, 2]), 0, 6)
    for out, stride in ((16, 1), (24, 2), (24, 1)):
        inside = 4 * g.channels[x]
        y = g.clip(g.conv(x, inside, kernel=1), 0, 6)
        y = g.clip(g.conv(y, inside, group=inside, strides=[stride, stride]), 0, 6)
        y = g.conv(y, out, kernel=1)
        x = g.node("Add", x, y) if stride == 1 and out == g.channels[x] else y
    x = g.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    return g.model(g.gemm(x, 24, classes), classes)


def inception(g: Graph, classes: int = 10) -> onnx.ModelProto:
    x = g.relu(g.conv("image", 16, kernel=5, strides=[2, 2]))
    pooled = g.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    parts = [
        g.relu(g.conv(x, 8, kernel=1)),
        g.relu(g.conv(x, 12, dilations=[2, 2], pads=[2, 2, 2, 2])),
        g.relu(g.conv(pooled, 8, kernel=1)),
        g.node("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    x = g.node("Concat", *parts, channels=44, axis=1)
    x = g.relu(g.conv(x, 32, group=4, strides=[2, 2], pads=[0, 0, 1, 1]))
    x = g.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("Flatten", g.node("GlobalMaxPool", x))
    return g.model(g.gemm(x, 32, classes), classes)


NETWORKS = {"resnet": resnet, "vgg": vgg, "mobilenet": mobilenet, "inception": inception}


# ---- pictures -----------------------------------------------------------------------------------------------------


def pictures(count: int, seed: int, shape: tuple[int, int, int] = (3, 16, 16), classes: int = 10) -> tuple[Any, Any]:
    """Integer images (n, height, width, channels) of smooth patterns, one a class, shifted and noisy; and labels."""
    channels, height, width = shape
    templates = np.random.default_rng(99).normal(0, 1, (classes, height // 4 + 1, width // 4 + 1, channels))
    templates = templates.repeat(4, axis=1).repeat(4, axis=2)[:, :height, :width]
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    noise = rng.normal(0, 0.6, (count, height, width, channels))
    rolls = rng.integers(-1, 2, count)
    values = np.stack([np.roll(templates[k], r, axis=1) for k, r in zip(labels, rolls, strict=True)]) + noise
    return np.clip(np.rint(128 + 50 * values), 0, 255).astype(np.int64), labels


def as_input(images: NDArray[Any], scale: float = 255) -> NDArray[np.float32]:
    return np.ascontiguousarray((images.transpose(0, 3, 1, 2) / np.float32(scale)).astype(np.float32))


# ---- ONNX Runtime -------------------------------------------------------------------------------------------------


def session(model: onnx.ModelProto | Path, exact: bool = True, fused: bool = True) -> ort.InferenceSession:
    """A session; `exact` forbids the 16-bit saturation of ONNX Runtime on machines without VNNI.

    Without `fused` it runs QDQ files as they are written, in floats: it fails to fuse those that share constants.
    """
    options = ort.SessionOptions()
    if not fused:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1" if exact else "0")
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto | Path, x: NDArray[Any], **options: bool) -> NDArray[Any]:
    """The first output for a batch, in pieces if the file has a fixed batch."""
    engine = session(model, **options)
    entry = engine.get_inputs()[0]
    batch = entry.shape[0] if isinstance(entry.shape[0], int) else len(x)
    parts = [engine.run(None, {entry.name: x[i : i + batch]})[0] for i in range(0, len(x), batch)]
    return np.concatenate(parts)


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, x: NDArray[np.float32], batch: int) -> None:
        self._batches: Iterator[NDArray[np.float32]] = iter(np.array_split(x, max(1, len(x) // batch)))

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"image": batch}


def quantized(model: onnx.ModelProto, path: Path, x: NDArray[np.float32], form: str = "QDQ", **options: Any) -> Path:
    """The file that onnxruntime.quantization.quantize_static writes; `activations` and `weights` are "u8" or "s8"."""
    source = path.with_suffix(".float.onnx")
    onnx.save(model, source)
    logging.getLogger().setLevel(logging.ERROR)  # it advises pre-processing, on the root logger
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_static(
            source,
            path,
            _Reader(x, options.pop("batch", 32)),
            quant_format=QuantFormat[form],
            activation_type=TYPES[options.pop("activations", "u8")],
            weight_type=TYPES[options.pop("weights", "s8")],
            **options,
        )
    return path


def with_trained_head(model: onnx.ModelProto, x: NDArray[np.float32], labels: NDArray[Any]) -> onnx.ModelProto:
    """The same network with its last Gemm fitted to the labels by least squares on the features before it."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    gemm = next(node for node in reversed(model.graph.node) if node.op_type == "Gemm")
    probe = onnx.ModelProto.FromString(model.SerializeToString())
    del probe.graph.output[:]
    probe.graph.output.append(helper.make_tensor_value_info(gemm.input[0], TensorProto.FLOAT, None))
    features = run(probe, x).reshape(len(x), -1).astype(np.float64)
    solution = fitted_head(features, labels)
    for tensor in model.graph.initializer:
        if tensor.name == gemm.input[1]:
            tensor.CopyFrom(numpy_helper.from_array(solution[:-1].T.astype(np.float32).copy(), tensor.name))
        elif tensor.name == gemm.input[2]:
            tensor.CopyFrom(numpy_helper.from_array(solution[-1].astype(np.float32), tensor.name))
    return model


def fitted_head(features: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Weights (features, classes) with a last row of biases, by least squares."""
    classes = int(labels.max()) + 1
    targets = np.eye(classes)[labels] - 1 / classes
    design = np.hstack([features, np.ones((len(features), 1))])
    ridge = 1e-3 * len(features) * np.mean(features**2) * np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(design.T @ design + ridge, design.T @ targets))


# ---- hand-written quantised graphs --------------------------------------------------------------------------------


@dataclass
class Quantized(Graph):
    """A graph in QDQ form."""

    def rounded(self, x: str, scale: float, zero: int, dtype: str = "uint8") -> str:
        """QuantizeLinear and DequantizeLinear of an activation."""
        for op in ("QuantizeLinear", "DequantizeLinear"):
            grid = self.constant(np.array(scale, np.float32), "s"), self.constant(np.array(zero, dtype), "z")
            x = self.node(op, x, *grid)
        return x

    def weights(self, *shape: int, scale: float = 0.01, per_channel: bool = False, axis: int = 0) -> str:
        """DequantizeLinear of random int8 codes."""
        codes = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = scale * self.rng.uniform(0.2, 1, shape[axis]) if per_channel else np.array(scale)
        names = [self.constant(codes, "w"), self.constant(scales.astype(np.float32), "s")]
        names.append(self.constant(np.zeros(scales.shape, np.int8), "z"))
        return self.node("DequantizeLinear", *names, axis=axis)

    def floats(self, *values: float, shape: tuple[int, ...] | None = None) -> str:
        array = np.array(values, np.float32)
        return self.constant(array.reshape(shape or array.shape))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))


def one_layer(build: Any, shape: tuple[int, int, int] = (6, 9, 8), flat: bool = False, **options: Any) -> LayerFile:
    """image -> Q -> DQ -> build(graph, x) -> Q -> DQ -> (GlobalMaxPool), and the name of the codes after build."""
    g = Quantized(np.random.default_rng(5), shape)
    x = g.rounded("image", *options.pop("grid_in", (0.0078, 121)))
    y = g.rounded(build(g, x), *options.pop("grid_out", (0.05, 117)))
    codes = g.nodes[-1].input[0]
    dtype = TensorProto.UINT8
    probe = g.model(codes, out_dtype=dtype, **options)
    probe.graph.node.remove(probe.graph.node[-1])
    model = g.model(y if flat else g.node("GlobalMaxPool", y), **options)
    return LayerFile(model, probe, flat)


@dataclass
class LayerFile:
    """A file with one layer, and the same file with the codes of that layer as output."""

    model: onnx.ModelProto
    probe: onnx.ModelProto
    flat: bool

    def theirs(self, images: NDArray[Any], **options: bool) -> NDArray[np.int64]:
        """ONNX Runtime's codes, as int8, channels last."""
        codes = run(self.probe, as_input(images), **options).astype(np.int64) - 128
        return codes if codes.ndim == 2 else codes.transpose(0, 2, 3, 1)

    def ours(self, tensors: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """The same tensor among those of a trace."""
        tensor = tensors[-1 if self.flat else -2]
        return tensor.reshape(len(tensor), -1) if self.flat else tensor


# ---- one layer each: functions that add it to a graph -------------------------------------------------------------

Build = Callable[[Quantized, str], str]


def conv(*weights: int, per_channel: bool = False, **attributes: Any) -> Build:
    def build(g: Quantized, x: str) -> str:
        bias = g.floats(*g.rng.normal(0, 0.3, weights[0]))
        names = x, g.weights(*weights, per_channel=per_channel), bias
        return g.node("Conv", *names, channels=weights[0], **attributes)

    return build


def node(op: str, *floats: float, **attributes: Any) -> Build:
    return lambda g, x: g.node(op, x, *(g.floats(v, shape=()) for v in floats), **attributes)


def after_conv(build: Build) -> Build:
    """The operation applied to a Conv that still waits for its QuantizeLinear."""
    return lambda g, x: build(g, conv(6, 6, 3, 3, pads=[1, 1, 1, 1])(g, x))


def int32_bias(g: Quantized, x: str) -> str:
    """A bias on a scale of its own, not that of input times weights."""
    codes = g.constant(g.rng.integers(-3000, 3000, 7).astype(np.int32))
    bias = g.node("DequantizeLinear", codes, g.floats(0.0003, shape=()), g.constant(np.array(0, np.int32)))
    return g.node("Conv", x, g.weights(7, 6, 1, 1), bias)


def zero_point_weights(g: Quantized, x: str) -> str:
    codes = g.constant(g.rng.integers(10, 200, (5, 6, 3, 3)).astype(np.uint8))
    weights = g.node("DequantizeLinear", codes, g.floats(0.01, shape=()), g.constant(np.array(100, np.uint8)))
    return g.node("Conv", x, weights)


def float_weights(g: Quantized, x: str) -> str:
    """Float weights with their own Q and DQ, per channel on the second axis of a transposed matrix."""
    floats = g.constant(g.rng.normal(0, 0.3, (6, 6, 3, 3)).astype(np.float32))
    grid = g.floats(*g.rng.uniform(0.003, 0.01, 6)), g.constant(np.zeros(6, np.int8))
    codes = g.node("QuantizeLinear", floats, *grid, axis=0)
    return g.node("Conv", x, g.node("DequantizeLinear", codes, *grid, axis=0), pads=[1, 1, 1, 1])


def dead_channel(g: Quantized, x: str) -> str:
    """Channels with no weight, or next to none, and a bias that does not fit 32 bits in their tiny units."""
    codes = g.rng.integers(-127, 128, (4, 6, 1, 1)).astype(np.int8)
    codes[1] = 0
    scales = g.floats(0.01, 0.01, 1e-12, 1e-30)
    weights = g.node("DequantizeLinear", g.constant(codes), scales, g.constant(np.zeros(4, np.int8)), axis=0)
    return g.node("Conv", x, weights, g.floats(0.1, 1.3, -0.7, 2.2))


def concat(g: Quantized, x: str) -> str:
    other = g.rounded(conv(4, 6, 1, 1)(g, x), 0.03, 100)
    return g.node("Concat", x, other, conv(3, 6, 1, 1)(g, x), axis=1)


def add(g: Quantized, x: str) -> str:
    return g.node("Add", x, g.rounded(conv(6, 6, 1, 1)(g, x), 0.03, 100))


def add_waiting(g: Quantized, x: str) -> str:
    return g.relu(g.node("Add", conv(6, 6, 1, 1)(g, x), x))


def batch_normalization(g: Quantized, x: str) -> str:
    columns = [(0.2, 1.5), (-0.5, 0.5), (-0.3, 0.3), (0.5, 2)]
    return g.node("BatchNormalization", x, *(g.floats(*g.rng.uniform(*c, 6)) for c in columns))


def per_channel_affine(g: Quantized, x: str) -> str:
    x = g.node("Mul", x, g.floats(*g.rng.uniform(-1.5, 1.5, 6), shape=(1, 6, 1, 1)))
    return g.node("Sub", g.floats(0.3, shape=()), x)


def pad(*pads: int, value: float | None = None) -> Build:
    def build(g: Quantized, x: str) -> str:
        return g.node("Pad", x, g.ints(*pads), *([] if value is None else [g.floats(value, shape=())]))

    return build


def pad_then_conv(value: float) -> Build:
    return lambda g, x: conv(5, 6, 3, 3, strides=[2, 2])(g, pad(0, 0, 0, 0, 0, 0, 1, 1, value=value)(g, x))


def clip_of_codes(g: Quantized, x: str) -> str:
    codes = g.node("QuantizeLinear", x, g.floats(0.01037, shape=()), g.constant(np.array(90, np.uint8)))
    codes = g.node("Clip", codes, *(g.constant(np.array(v, np.uint8)) for v in (60, 150)))
    return g.node("DequantizeLinear", codes, g.floats(0.007, shape=()), g.constant(np.array(80, np.uint8)))


def channels_last_matmul(g: Quantized, x: str) -> str:
    last = g.node("Transpose", x, perm=[0, 2, 3, 1])
    product = g.node("MatMul", last, g.weights(6, 5))
    product = g.node("Add", product, g.floats(*g.rng.normal(0, 0.3, 5)))
    return g.node("Transpose", product, perm=[0, 3, 1, 2])


def stacked(g: Quantized, x: str, axis: int) -> str:
    """Joined along height or width: a part of the input, a Conv and the input, on three grids."""
    first = sliced([1], [3], [axis])(g, x)
    return g.node("Concat", first, g.rounded(conv(6, 6, 1, 1)(g, x), 0.03, 100), x, axis=axis)


def sliced(starts: list[int], ends: list[int], axes: list[int], steps: list[int] | None = None) -> Build:
    def build(g: Quantized, x: str) -> str:
        lists = (starts, ends, axes, steps or [1] * len(starts))
        return g.node("Slice", x, *(g.ints(*values) for values in lists))

    return build


def split(g: Quantized, x: str, *sizes: int, **attributes: Any) -> list[str]:
    """The outputs of a Split."""
    parts = len(sizes) or int(attributes.pop("parts"))
    first = g.node("Split", x, *([g.ints(*sizes)] if sizes else []), **attributes)
    names = [first, *(f"{first}_{i}" for i in range(1, parts))]
    g.nodes[-1].output[:] = names
    return names


def swapped_parts(g: Quantized, x: str) -> str:
    """Parts of unequal size in another order, one of them after a Conv: as ShuffleNet has them."""
    a, b, c = split(g, x, 1, 3, 2, axis=1)
    return g.node("Concat", c, g.rounded(conv(4, 3, 1, 1)(g, b), 0.01, 100), a, axis=1)


def shuffled(g: Quantized, x: str) -> str:
    x = g.node("Reshape", x, g.ints(0, 2, 3, 9, 8))
    return g.node("Reshape", g.node("Transpose", x, perm=[0, 2, 1, 3, 4]), g.ints(0, -1, 9, 8))


def shuffled_channels_last(g: Quantized, x: str) -> str:
    x = g.node("Reshape", g.node("Transpose", x, perm=[0, 2, 3, 1]), g.ints(0, 72, 3, 2))
    x = g.node("Reshape", g.node("Transpose", x, perm=[0, 1, 3, 2]), g.ints(0, 9, 8, 6))
    return g.node("Transpose", x, perm=[0, 3, 1, 2])


def shortcut_a(g: Quantized, x: str) -> str:
    """The shortcut of an option-A ResNet: every second row and column, and channels of zeros around."""
    x = sliced([0], [2**62], [2], [2])(g, x)
    x = sliced([0], [2**62], [3], [2])(g, x)
    return pad(0, 3, 0, 0, 0, 2, 0, 0)(g, x)


def shape_of(g: Quantized, x: str, *sizes: int) -> str:
    """The shape of x with other sizes at its end, computed as exporters do."""
    kept = g.node("Slice", g.node("Shape", x), g.ints(0), g.ints(4 - len(sizes)), g.ints(0))
    return g.node("Concat", kept, g.ints(*sizes), axis=0)


def constants_joined(g: Quantized, x: str) -> str:
    """Channels of constants in a shape that is computed: zeros, and others that are quantised."""
    shape = shape_of(g, x, 3, 9, 8)
    zeros = g.node("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1, np.float32)))
    others = g.node("Expand", g.floats(0.3, -0.2, 0.11, shape=(3, 1, 1)), shape)
    return g.node("Concat", zeros, x, g.rounded(others, 0.005, 90), axis=1)


def focus(g: Quantized, x: str) -> str:
    """Places of blocks of two by two as channels, by slices."""
    parts = [sliced([i, j], [8, 8], [2, 3], [2, 2])(g, x) for i in (0, 1) for j in (0, 1)]
    return g.node("Concat", *parts, axis=1)


def space_to_depth(g: Quantized, x: str) -> str:
    return g.node("SpaceToDepth", sliced([1], [9], [2])(g, x), blocksize=2)


def resized(scales: list[float], sizes: list[int] | None = None, **attributes: Any) -> Build:
    def build(g: Quantized, x: str) -> str:
        given = ["", "", shape_of(g, x, *sizes)] if sizes else ["", g.floats(*scales)]
        return g.node("Resize", x, *given, **attributes)

    return build


def gathered_channels(g: Quantized, x: str) -> str:
    """One channel after the other by a number, as torchvision's transform_input does, and some by a list."""
    ones = [g.node("Unsqueeze", g.node("Gather", x, g.constant(np.array(i)), axis=1), g.ints(1)) for i in (0, -1)]
    return g.node("Concat", g.node("Gather", x, g.ints(4, 2, 2), axis=1), *ones, axis=1)


# ---- functions of one activation ------------------------------------------------------------------------------------


def wider(build: Build, factor: float = 5) -> Build:
    """Of numbers from -5 to 5, where functions bend."""
    return lambda g, x: build(g, g.node("Mul", x, g.floats(factor, shape=())))


def silu(g: Quantized, x: str) -> str:
    return g.node("Mul", x, g.node("Sigmoid", x))


def silu_rounded(g: Quantized, x: str) -> str:
    """As ONNX Runtime's quantizer writes it: both factors are quantised."""
    return g.node("Mul", g.rounded(g.node("Sigmoid", x), 1 / 255, 0), x)


def hard_swish_by_clip(g: Quantized, x: str) -> str:
    gate = g.clip(g.node("Add", x, g.floats(3, shape=())), 0, 6)
    return g.node("Div", g.node("Mul", x, gate), g.floats(6, shape=()))


def hard_swish_rounded(g: Quantized, x: str) -> str:
    return g.node("Mul", x, g.rounded(g.node("HardSigmoid", x, alpha=1 / 6), 1 / 255, 0))


def gelu_by_erf(g: Quantized, x: str) -> str:
    bent = g.node("Add", g.node("Erf", g.node("Div", x, g.floats(2**0.5, shape=()))), g.floats(1, shape=()))
    return g.node("Mul", g.node("Mul", x, bent), g.floats(0.5, shape=()))


def gelu_by_tanh(g: Quantized, x: str) -> str:
    cubed = g.node("Mul", g.node("Pow", x, g.floats(3, shape=())), g.floats(0.044715, shape=()))
    bent = g.node("Tanh", g.node("Mul", g.node("Add", x, cubed), g.floats(0.7978845608, shape=())))
    return g.node("Mul", g.node("Mul", x, g.floats(0.5, shape=())), g.node("Add", bent, g.floats(1, shape=())))


def mish_by_softplus(g: Quantized, x: str) -> str:
    return g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))


def prelu(*slopes: float) -> Build:
    return lambda g, x: g.node("PRelu", x, g.floats(*slopes, shape=(len(slopes), 1, 1)))


def product_of_two(g: Quantized, x: str) -> str:
    return g.node("Mul", x, g.rounded(conv(6, 6, 1, 1)(g, x), 0.03, 100))


def excite(g: Quantized, x: str) -> str:
    """Squeeze and excite, with a gate that is not quantised."""
    squeezed = g.rounded(g.node("GlobalAveragePool", x), 0.004, 120)
    gate = g.rounded(conv(6, 6, 1, 1)(g, squeezed), 0.03, 100)
    return g.node("Mul", g.node("HardSigmoid", gate), wider(node("Identity"))(g, x))


def excite_rounded(g: Quantized, x: str) -> str:
    squeezed = g.rounded(g.node("ReduceMean", x, axes=[2, 3], keepdims=1), 0.004, 120)
    gate = g.rounded(conv(6, 6, 1, 1)(g, squeezed), 0.03, 100)
    return g.node("Mul", wider(node("Identity"))(g, x), g.rounded(g.node("Sigmoid", gate), 1 / 255, 0))


def add_of_one_pixel(g: Quantized, x: str) -> str:
    return g.node("Add", g.rounded(g.node("GlobalMaxPool", x), 0.007, 20), x)


def difference(g: Quantized, x: str) -> str:
    return g.node("Sub", x, g.rounded(conv(6, 6, 1, 1)(g, x), 0.03, 100))


def difference_waiting(g: Quantized, x: str) -> str:
    return g.node("Sub", x, conv(6, 6, 1, 1)(g, x))


def wide_weights(*shape: int, zero: int, **attributes: Any) -> Build:
    """uint8 weights that less their zero point need 9 bits."""

    def build(g: Quantized, x: str) -> str:
        codes = g.constant(g.rng.integers(0, 256, shape).astype(np.uint8))
        grid = g.floats(0.005, shape=()), g.constant(np.array(zero, np.uint8))
        return g.node("Conv", x, g.node("DequantizeLinear", codes, *grid), **attributes)

    return build


def scales_per_channel(g: Quantized, x: str) -> str:
    """Before a depthwise layer, as NNCF writes it."""
    x = g.clip(conv(6, 6, 3, 3, pads=[1, 1, 1, 1])(g, x), 0, 6)
    scales, zeros = g.floats(*g.rng.uniform(0.004, 6 / 255, 5), 6 / 255), g.constant(np.zeros(6, np.uint8))
    for op in ("QuantizeLinear", "DequantizeLinear"):
        x = g.node(op, x, scales, zeros, axis=1)
    return conv(12, 1, 3, 3, group=6, pads=[1, 1, 1, 1])(g, x)


def constant_quantized_twice(g: Quantized, x: str) -> str:
    """A constant that two layers share is quantised again by ONNX Runtime's quantizer."""
    factors = g.rounded(g.rounded(g.floats(*g.rng.uniform(0.2, 4, 6), shape=(1, 6, 1, 1)), 0.02, 9), 0.017, 3)
    return g.node("Mul", x, factors)


def steep_batch_normalization(g: Quantized, x: str) -> str:
    """Several codes of the result for one of the input: where a coarse bias would show."""
    columns = [(3, 9), (-2, 2), (-0.3, 0.3), (0.5, 2)]
    return g.node("BatchNormalization", x, *(g.floats(*g.rng.uniform(*c, 6)) for c in columns))


def mean_of(build: Build) -> Build:
    return lambda g, x: g.node("GlobalAveragePool", build(g, x))


FUNCTIONS = {
    **{f"unit {op}": wider(node(op)) for op in ("Sigmoid", "Tanh", "Erf", "Softsign", "HardSigmoid")},
    **{op: wider(node(op)) for op in ("Softplus", "HardSwish", "Elu", "Selu", "Exp", "Abs", "Neg", "Mish", "Gelu")},
    "LeakyRelu": wider(node("LeakyRelu", alpha=0.1)),
    "Celu": wider(node("Celu", alpha=2.0)),
    "ThresholdedRelu": wider(node("ThresholdedRelu", alpha=0.7)),
    "Gelu by tanh": wider(node("Gelu", approximate="tanh")),
    "PRelu": wider(prelu(0.25)),
    "PRelu per channel": wider(prelu(0.25, -0.5, 0.0, 1.5, 0.1, -0.05)),
    "conv PRelu per channel": after_conv(prelu(0.25, 0.5, 0.0, 1.5, 0.1, 0.05)),
    "unit Sqrt": lambda g, x: g.node("Sqrt", g.relu(x)),
    "unit square": lambda g, x: g.node("Mul", x, x),
    "unit quotient": wider(lambda g, x: g.node("Div", x, g.node("Exp", x))),
    "silu": wider(silu),
    "silu rounded": wider(silu_rounded),
    "hard swish by clip": wider(hard_swish_by_clip),
    "hard swish rounded": wider(hard_swish_rounded),
    "gelu by erf": wider(gelu_by_erf),
    "gelu by tanh": wider(gelu_by_tanh),
    "mish by softplus": wider(mish_by_softplus),
    "conv silu": after_conv(silu),
    "max of a number": wider(node("Max", 0.3)),
    "min of a number": wider(node("Min", 0.3)),
    "product of two": product_of_two,
    "excite": excite,
    "excite rounded": excite_rounded,
    "add of one pixel": add_of_one_pixel,
    "difference": difference,
    "difference, waiting": difference_waiting,
    "wide weights": wide_weights(7, 6, 3, 3, zero=120, pads=[1, 1, 1, 1]),
    "wide weights, depthwise": wide_weights(12, 1, 3, 3, zero=100, group=6, pads=[1, 1, 1, 1]),
    "scales per channel": scales_per_channel,
    "steep batch norm": steep_batch_normalization,
    "unit mean of a function": mean_of(silu),
    "unit mean of a line": mean_of(batch_normalization),
}
NEWER = {"Mish": 18, "Gelu": 20, "Gelu by tanh": 20}  # operators of later opsets

IMAGE_LAYERS = {
    **FUNCTIONS,
    "slice": sliced([1, -5], [4, 2**31], [1, 3]),
    "slice in steps": sliced([0, 1], [99, -1], [2, 3], [2, 3]),
    "slice reversed": sliced([-1, 4], [-(2**62), 0], [3, 1], [-1, -2]),
    "slice of a waiting conv": after_conv(sliced([0, 0], [9, 8], [2, 3], [2, 2])),
    "split and concat": swapped_parts,
    "shuffle": shuffled,
    "shuffle, channels last": shuffled_channels_last,
    "shortcut A": shortcut_a,
    "pad channels": pad(0, 1, 2, 0, 0, 3, 0, 1, value=0.3),
    "conv pad channels": after_conv(pad(0, 1, 0, 0, 0, 3, 0, 0)),
    "concat with constants": constants_joined,
    "concat rows": lambda g, x: stacked(g, x, 2),
    "concat columns": lambda g, x: stacked(g, x, 3),
    "focus": focus,
    "space to depth": space_to_depth,
    "resize": resized([1, 1, 2, 3], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize half pixel": resized([1, 1, 3, 2]),
    "resize half pixel ceil": resized([1, 1, 4, 3], nearest_mode="ceil"),
    "resize pytorch": resized(
        [], [18, 8], coordinate_transformation_mode="pytorch_half_pixel", nearest_mode="round_prefer_ceil"
    ),
    "resize to half": resized([1, 1, 1, 0.5], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "gather": gathered_channels,
    "reduce max": lambda g, x: g.node("ReduceMax", sliced([3, 2], [5, 3], [2, 3])(g, x), axes=[2, 3]),
    "conv reduce max of rows": after_conv(node("ReduceMax", axes=[-1], keepdims=1)),
    "conv 3x3": conv(8, 6, 3, 3, pads=[1, 1, 1, 1]),
    "conv per channel": conv(8, 6, 3, 3, per_channel=True, pads=[1, 1, 1, 1]),
    "conv stride": conv(8, 6, 3, 3, strides=[2, 3], pads=[1, 0, 2, 1]),
    "conv dilation": conv(8, 6, 3, 2, dilations=[2, 3], pads=[2, 1, 2, 2]),
    "conv groups": conv(9, 2, 3, 3, group=3, pads=[1, 1, 1, 1]),
    "conv depthwise": conv(6, 1, 5, 3, per_channel=True, group=6, pads=[2, 1, 2, 1]),
    "conv depth multiplier": conv(12, 1, 3, 3, group=6),
    "conv same upper": conv(8, 6, 4, 3, auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv same lower": conv(8, 6, 4, 3, auto_pad="SAME_LOWER", strides=[3, 2]),
    "conv valid": conv(8, 6, 4, 3, auto_pad="VALID"),
    "conv int32 bias": int32_bias,
    "conv zero-point weights": zero_point_weights,
    "conv float weights": float_weights,
    "conv dead channels": dead_channel,
    "conv relu": after_conv(node("Relu")),
    "conv clip": after_conv(node("Clip", -0.3, 1.234)),
    "conv max pool": after_conv(node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
    "conv batch norm": after_conv(batch_normalization),
    "conv affine": after_conv(per_channel_affine),
    "conv pad": after_conv(pad(0, 0, 1, 0, 0, 0, 0, 2, value=0.5)),
    "relu": node("Relu"),
    "clip": node("Clip", -0.4, 0.6),
    "clip of codes": clip_of_codes,
    "requantise": node("Identity"),
    "max pool": node("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    "max pool ceil": node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "average pool": node("AveragePool", kernel_shape=[3, 2], strides=[2, 1]),
    "average pool padded": node("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "average pool counting": node("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    "average pool ceil": node("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "global average": node("GlobalAveragePool"),
    "mean of all": node("ReduceMean", axes=[2, 3], keepdims=1),
    "mean of rows": node("ReduceMean", axes=[-1], keepdims=1),
    "add": add,
    "add to itself": lambda g, x: g.node("Add", x, x),
    "add of a waiting conv": add_waiting,
    "concat": concat,
    "batch norm": batch_normalization,
    "affine": per_channel_affine,
    "scaled": node("Mul", 1.7),
    "divided": node("Div", -3.0),
    "pad": pad(0, 0, 1, 0, 0, 0, 2, 1),
    "pad by a value": pad(0, 0, 1, 0, 0, 0, 2, 1, value=-0.61),
    "pad then conv": pad_then_conv(0),
    "ones, then conv": pad_then_conv(0.7),
    "matmul, channels last": channels_last_matmul,
}


def flat_gemm(*names: str, **attributes: Any) -> Build:
    """Flatten in some way, then Gemm."""

    def build(g: Quantized, x: str) -> str:
        size = int(np.prod(g.shape))
        weights = g.weights(*((7, size) if attributes.get("transB") else (size, 7)), scale=0.003)
        return g.node("Gemm", g.node("Flatten", x), weights, g.floats(*g.rng.normal(0, 0.3, 7)), **attributes)

    return build


def computed_reshape(g: Quantized, x: str) -> str:
    """The shape arithmetic that exporters write for x.view(x.size(0), -1)."""
    batch = g.node("Gather", g.node("Shape", x), g.constant(np.array(0, np.int64)), axis=0)
    batch = g.node("Unsqueeze", batch, g.ints(0))
    shape = g.node("Concat", batch, g.ints(-1), axis=0)
    return g.node("MatMul", g.node("Reshape", x, shape), g.weights(int(np.prod(g.shape)), 5, scale=0.003))


def channels_last_flatten(g: Quantized, x: str) -> str:
    last = g.node("Transpose", x, perm=[0, 2, 3, 1])
    flat = g.node("Reshape", last, g.ints(-1, int(np.prod(g.shape))))
    return g.node("MatMul", flat, g.weights(int(np.prod(g.shape)), 5, scale=0.003, per_channel=True, axis=1))


def pooled_then_gemm(g: Quantized, x: str) -> str:
    x = g.rounded(g.node("ReduceMean", x, axes=[2, 3], keepdims=0), 0.004, 120)
    return g.node("Gemm", x, g.weights(6, 7), g.floats(0.25))


def flat_conv(g: Quantized, x: str) -> str:
    """A flattened image as channels of a 1 x 1 image."""
    flat = g.node("Reshape", x, g.ints(0, -1, 1, 1))
    return g.node("Flatten", g.node("Conv", flat, g.weights(5, int(np.prod(g.shape)), 1, 1, scale=0.003)))


def squeezed(g: Quantized, x: str) -> str:
    x = g.rounded(g.node("GlobalAveragePool", x), 0.004, 120)
    return g.node("MatMul", g.node("Squeeze", x, g.ints(2, 3)), g.weights(6, 5))


def as_strided(g: Quantized, x: str) -> str:
    """What PyTorch's exporter writes after a mean if the example input was permuted: indices for any batch."""
    x = g.rounded(g.node("ReduceMean", x, axes=[-1, -2], keepdims=1), 0.004, 120)
    batch = g.node("Squeeze", g.node("Shape", "image", start=0, end=1))
    rows = g.node("Range", g.constant(np.array(0)), batch, g.constant(np.array(1)))
    rows = g.node("Unsqueeze", g.node("Mul", rows, g.constant(np.array(6))), g.ints(1, 2, 3))
    index = g.node("Add", rows, g.constant(np.arange(6).reshape(1, 6, 1, 1)))
    x = g.node("Gather", g.node("Reshape", x, g.ints(-1)), index, axis=0)
    return g.node("Gemm", g.node("Reshape", x, g.ints(-1, 6)), g.weights(6, 7), g.floats(0.25))


def sliced_features(g: Quantized, x: str) -> str:
    """Part of the channels after a pool without axes of size 1."""
    x = g.rounded(g.node("ReduceMax", x, axes=[2, 3], keepdims=0), 0.01, 120)
    a, b = split(g, x, axis=1, parts=2)
    return g.node("MatMul", g.node("Concat", b, a, axis=1), g.weights(6, 5))


FLAT_LAYERS = {
    "as strided": as_strided,
    "slice of features": sliced_features,
    "gemm": flat_gemm(),
    "gemm transposed": flat_gemm(transB=1),
    "gemm alpha beta": flat_gemm(alpha=0.7, beta=-1.9),
    "reshape computed": computed_reshape,
    "flatten channels last": channels_last_flatten,
    "mean then gemm": pooled_then_gemm,
    "conv of features": flat_conv,
    "squeeze": squeezed,
}
ALL_LAYERS = {**IMAGE_LAYERS, **FLAT_LAYERS}
FINE = (  # small values
    *("average", "clip", "concat with", "divided", "focus", "gather", "global", "max", "mean o", "pad by", "pad ch"),
    *("unit", "reduce", "relu", "requantise", "resize", "shortcut", "shuffle", "slice", "space"),
)
