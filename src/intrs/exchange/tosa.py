"""Export of a lowered network to TOSA 1.0 (integer profile): the same integers, in operators of the standard.

`docs/arithmetic.md` gives the operators of each layer and why each is exact. The official reference model runs what is
written here, and the tests demand the same bits from it as from the core.
"""

from __future__ import annotations

import importlib
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from intrs.errors import ModelError
from intrs.files import write_whole
from intrs.network import (
    INT8,
    Add,
    AvgPool,
    CodeTable,
    Concat,
    Conv,
    Gather,
    MaxPool,
    Mul,
    Pad,
    Quantiser,
    Requantise,
    Rescale,
    ScaledAdd,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.network import Layer, Network

VERSION = {"targetMajor": 1, "targetMinor": 0, "targetPatch": 0, "targetDraft": False}
LEVEL = "EIGHTK"  # the limits on sizes that are checked
CHANNELS = 3  # the axis in (batch, height, width, channels)
MOST_INPUTS = 64  # of one CONCAT, at that level
UNIT = 30  # multiplier 2**30 with shift 30 is RESCALE by exactly one, for values within +-2**29


def to_tosa(network: Network, every_tensor: bool = False) -> bytes:
    """The network as a TOSA 1.0 flatbuffer.

    Its input is one image of int32 pixels, (1, height, width, channels), noise already added. Its output is the tensor
    of class scores, (1, 1, 1, classes); with `every_tensor` all tensors in the order of `Network.trace`, (1, h, w, c).

    Raises ModelError if tosa-tools (`pip install 'intrs[tosa]'`) is missing.
    """
    graph = _Graph(_module("tosa_serializer"))
    tensors = [_quantise(graph, network.quantiser)]
    for layer in network.layers:
        graph.location = layer.name
        tensors.append(write(layer, graph, *(tensors[i] for i in layer.inputs)))
    return graph.finish(tensors if every_tensor else tensors[-1:])


def write_file(network: Network, path: Path) -> None:
    """Write the network's flatbuffer."""
    write_whole(path, to_tosa(network))


def run_reference(graph: bytes, image: NDArray[Any]) -> list[NDArray[np.int32]]:
    """What the official reference model computes from one integer image (height, width, channels).

    All outputs of the graph, each as (height, width, channels), to be compared with `Network.trace` or
    `Network.scores`. Raises ModelError if the model finds the graph invalid or its result not defined by the standard;
    it prints its reasons itself.
    """
    model = _module("tosa_reference_model")
    try:
        outputs, status = model.run(graph, [np.asarray(image, np.int32)[None]], tosa_level=LEVEL)
    except ValueError as error:
        raise ModelError(f"the TOSA reference model cannot run this graph: {error}") from None
    if status != model.GraphStatus.TOSA_VALID:
        raise ModelError(f"the TOSA reference model calls this graph {status.name}")
    return [np.asarray(output[0], np.int32) for output in outputs]


class _Value(NamedTuple):
    """A tensor of the graph; the shape is (1, height, width, channels)."""

    name: str
    shape: tuple[int, ...]


class _Graph:
    """The serializer, with attributes and constants made easy. Nothing is written to disk."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._serializer = module.TosaSerializer("", **VERSION)
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.location = ""

    def input(self, shape: Sequence[int]) -> _Value:
        tensor = self._serializer.addPlaceholder(list(shape), self._module.DType.INT32)
        return _Value(tensor.name, tuple(shape))

    def constant(self, values: Any, kind: str) -> _Value:
        """A CONST of kind INT8 or INT32, or a CONST_SHAPE of kind SHAPE; equal ones are stored once."""
        array = np.asarray(values, {"INT8": np.int8, "INT32": np.int32, "SHAPE": np.int64}[kind])
        key = kind, array.shape, array.tobytes()
        if key not in self._constants:
            flat = np.ascontiguousarray(array).reshape(-1)
            tensor = self._serializer.addConst(list(array.shape), getattr(self._module.DType, kind), flat)
            self._constants[key] = tensor.name
        return _Value(self._constants[key], array.shape)

    def apply(
        self, op: str, inputs: Iterable[_Value], shape: Sequence[int], kind: str, attributes: Sequence[Any] = ()
    ) -> _Value:
        """One operator; attributes in the order of the specification, enumerations as 'Enumeration.VALUE'."""
        code = getattr(self._module.Op, op)
        attribute = self._module.TosaSerializerAttribute()
        attribute.setAttribute(code, *(self._enumeration(value) for value in attributes))
        output = self._serializer.addIntermediate(list(shape), getattr(self._module.DType, kind))
        location = self._module.TosaOpLocation(self.location)
        self._serializer.addOperator(code, [value.name for value in inputs], [output.name], attribute, location)
        return _Value(output.name, tuple(shape))

    def finish(self, outputs: Iterable[_Value]) -> bytes:
        block = self._serializer.currRegion.currBasicBlock
        for value in outputs:
            self._serializer.addOutputTensor(block.getTensorByName(value.name))
        return bytes(self._serializer.serialize())

    def _enumeration(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        kind, _, name = value.partition(".")
        return getattr(getattr(self._module, kind), name)


@singledispatch
def write(layer: Layer, graph: _Graph, *inputs: _Value) -> _Value:
    """The operators of one layer, as `docs/arithmetic.md` lists them."""
    raise ModelError(f"layer {layer.name!r} ({type(layer).__name__}) has no form in TOSA")


@write.register
def _conv(layer: Conv, graph: _Graph, x: _Value) -> _Value:
    extent = [d * (k - 1) + 1 for d, k in zip(layer.dilation, layer.weights.shape[1:3], strict=True)]
    x, pad = _window(graph, x, extent, layer.stride, layer.pad, layer.input_zero_point)
    target = "INT32" if layer.wide else "INT8", layer.output_zero_point
    result = _rescale(graph, _accumulate(graph, layer, x, pad), layer.rescale, ("INT32", 0), target, layer.ROUNDS_TWICE)
    return result if layer.wide else _clamp(graph, result, layer.clamp)


@write.register
def _add(layer: Add, graph: _Graph, *inputs: _Value) -> _Value:
    terms = [
        _multiply(graph, _widen(graph, x, zero_point), multiplier)
        for x, zero_point, multiplier in zip(inputs, layer.zero_points, layer.multipliers, strict=True)
    ]
    total = graph.apply("ADD", terms, _broadcast(*inputs), "INT32")
    scale = _one_scale(1 << UNIT, layer.shift + UNIT)
    return _clamp(graph, _rescale(graph, total, scale, ("INT32", 0), ("INT8", layer.output_zero_point)), layer.clamp)


@write.register
def _mul(layer: Mul, graph: _Graph, *inputs: _Value) -> _Value:
    factors = [_widen(graph, x, zero_point) for x, zero_point in zip(inputs, layer.zero_points, strict=True)]
    product = graph.apply("MUL", [*factors, graph.constant([0], "INT8")], _broadcast(*inputs), "INT32")
    target = "INT8", layer.output_zero_point
    return _clamp(graph, _rescale(graph, product, layer.rescale, ("INT32", 0), target, layer.twice), layer.clamp)


@write.register
def _scaled_add(layer: ScaledAdd, graph: _Graph, *inputs: _Value) -> _Value:
    terms = []
    for x, zero_point, scale in zip(inputs, layer.zero_points, (layer.rescale_a, layer.rescale_b), strict=True):
        shifted = _multiply(graph, _widen(graph, x, zero_point), 1 << layer.left_shift)
        terms.append(_rescale(graph, shifted, scale, ("INT32", 0), ("INT32", 0), layer.ROUNDS_TWICE))
    total = graph.apply("SUB" if layer.subtract else "ADD", terms, _broadcast(*inputs), "INT32")
    target = "INT8", layer.output_zero_point
    codes = _rescale(graph, total, layer.rescale_sum, ("INT32", 0), target, layer.ROUNDS_TWICE)
    return _clamp(graph, codes, layer.clamp)


@write.register
def _table(layer: CodeTable, graph: _Graph, x: _Value) -> _Value:
    return graph.apply("TABLE", [x, graph.constant(layer.table, "INT8")], x.shape, "INT8")


@write.register
def _max_pool(layer: MaxPool, graph: _Graph, x: _Value) -> _Value:
    x, pad = _window(graph, x, layer.kernel, layer.stride, layer.pad)
    attributes = layer.kernel, layer.stride, pad, "NanPropagationMode.PROPAGATE"
    return graph.apply("MAX_POOL2D", [x], _slid(x, layer.kernel, layer.stride, pad), "INT8", attributes)


@write.register
def _avg_pool(layer: AvgPool, graph: _Graph, x: _Value) -> _Value:
    x, pad = _window(graph, x, layer.kernel, layer.stride, layer.pad)
    zero_points = [graph.constant([z], "INT8") for z in (layer.input_zero_point, layer.output_zero_point)]
    attributes = layer.kernel, layer.stride, pad, "DType.INT32"
    shape = _slid(x, layer.kernel, layer.stride, pad)
    return graph.apply("AVG_POOL2D", [x, *zero_points], shape, "INT8", attributes)


@write.register
def _requantise(layer: Requantise, graph: _Graph, x: _Value) -> _Value:
    source, target = ("INT8", layer.input_zero_point), ("INT8", layer.output_zero_point)
    return _clamp(graph, _rescale(graph, x, layer.rescale, source, target, layer.ROUNDS_TWICE), layer.clamp)


@write.register
def _concat(layer: Concat, graph: _Graph, *inputs: _Value) -> _Value:
    return _concatenate(graph, inputs, "INT8")


@write.register
def _pad(layer: Pad, graph: _Graph, x: _Value) -> _Value:
    return _frame(graph, x, layer.pad, layer.value)


@write.register
def _gather(layer: Gather, graph: _Graph, x: _Value) -> _Value:
    """SLICE of what lies together, then GATHER of pixels, and of channels, if anything is in another order."""
    start, shape, others = [0] * 4, list(x.shape), {}
    for axis, indices in enumerate((layer.rows, layer.columns, layer.channels), 1):
        if len(indices) and np.array_equal(indices, np.arange(indices[0], indices[0] + len(indices))):
            start[axis], shape[axis] = int(indices[0]), len(indices)
        elif len(indices):
            others[axis] = indices
    x = _slice(graph, x, start, shape)
    if others.keys() - {CHANNELS}:
        x = _gather_pixels(graph, x, *(others.get(axis, np.arange(shape[axis])) for axis in (1, 2)))
    return _gather_channels(graph, x, others[CHANNELS]) if CHANNELS in others else x


def _gather_pixels(graph: _Graph, x: _Value, rows: NDArray[Any], columns: NDArray[Any]) -> _Value:
    _, height, width, channels = x.shape
    taken = _take(graph, _reshape(graph, x, (1, height * width, channels)), (rows[:, None] * width + columns).ravel())
    return _reshape(graph, taken, (1, len(rows), len(columns), channels))


def _gather_channels(graph: _Graph, x: _Value, channels: NDArray[Any]) -> _Value:
    _, height, width, count = x.shape
    x = _swap(graph, _reshape(graph, x, (1, height * width, count)))
    return _reshape(graph, _swap(graph, _take(graph, x, channels)), (1, height, width, len(channels)))


def _take(graph: _Graph, x: _Value, indices: NDArray[Any]) -> _Value:
    """GATHER of rows of a matrix (1, rows, columns)."""
    return graph.apply("GATHER", [x, graph.constant(indices[None], "INT32")], (1, len(indices), x.shape[2]), "INT8")


def _swap(graph: _Graph, x: _Value) -> _Value:
    """A matrix with rows for columns."""
    return graph.apply("TRANSPOSE", [x], (1, x.shape[2], x.shape[1]), "INT8", ([0, 2, 1],))


def _reshape(graph: _Graph, x: _Value, shape: Sequence[int]) -> _Value:
    return graph.apply("RESHAPE", [x, graph.constant(shape, "SHAPE")], shape, "INT8")


def _broadcast(a: _Value, b: _Value) -> tuple[int, ...]:
    """The shape of two tensors, of which one may be a single pixel."""
    return tuple(map(max, a.shape, b.shape))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelError(f"TOSA needs the official tools: pip install 'intrs[tosa]' ({error})") from None


def _quantise(graph: _Graph, q: Quantiser) -> _Value:
    x = graph.input((1, q.height, q.width, q.channels))
    x = _bound(graph, x, q.low, q.high)
    x = _multiply(graph, x, q.multiplier)
    x = graph.apply("ADD", [x, _per_channel(graph, q.offset)], x.shape, "INT32")
    x = graph.apply("ARITHMETIC_RIGHT_SHIFT", [x, _per_channel(graph, q.shift)], x.shape, "INT32", (False,))
    x = _bound(graph, x, *INT8)
    return graph.apply("CAST", [x], x.shape, "INT8")


def _bound(graph: _Graph, x: _Value, low: Any, high: Any) -> _Value:
    """min(max(x, low), high) of int32 values: CLAMP takes no int32."""
    for op, limit in (("MAXIMUM", low), ("MINIMUM", high)):
        inputs = [x, _per_channel(graph, limit)]
        x = graph.apply(op, inputs, x.shape, "INT32", ("NanPropagationMode.PROPAGATE",))
    return x


def _multiply(graph: _Graph, x: _Value, factor: Any) -> _Value:
    inputs = [x, _per_channel(graph, factor), graph.constant([0], "INT8")]
    return graph.apply("MUL", inputs, x.shape, "INT32")


def _per_channel(graph: _Graph, values: Any) -> _Value:
    """One int32 for all channels or one for each, in a shape that broadcasts to an image."""
    return graph.constant(np.reshape(values, (1, 1, 1, -1)), "INT32")


def _one_scale(multiplier: int, shift: int) -> Rescale:
    return Rescale(np.array([multiplier], np.int32), np.array([shift], np.int8))


def _widen(graph: _Graph, x: _Value, zero_point: int) -> _Value:
    """x - zero_point in int32. A RESCALE that multiplies too would need |x - zero_point| < 2**(shift - 1)."""
    return _rescale(graph, x, _one_scale(1 << UNIT, UNIT), ("INT8", zero_point), ("INT32", 0))


def _rescale(
    graph: _Graph, x: _Value, scale: Rescale, source: tuple[str, int], target: tuple[str, int], twice: bool = False
) -> _Value:
    """RESCALE; source and target are each a type and a zero point."""
    inputs = [x, graph.constant(scale.multiplier, "INT32"), graph.constant(scale.shift, "INT8")]
    inputs += [graph.constant([zero_point], kind) for kind, zero_point in (source, target)]
    per_channel = len(scale.multiplier) > 1
    rounding = "RoundingMode.DOUBLE_ROUND" if twice else "RoundingMode.SINGLE_ROUND"
    attributes = (True, rounding, per_channel, False, False)
    return graph.apply("RESCALE", inputs, x.shape, target[0], attributes)


def _clamp(graph: _Graph, x: _Value, clamp: tuple[int, int]) -> _Value:
    if clamp == INT8:  # RESCALE has saturated there
        return x
    limits = [list(np.array([limit], np.int8).tobytes()) for limit in clamp]
    return graph.apply("CLAMP", [x], x.shape, "INT8", (*limits, "NanPropagationMode.PROPAGATE"))


def _accumulate(graph: _Graph, layer: Conv, x: _Value, pad: Sequence[int]) -> _Value:
    """The int32 accumulators of a convolution with any number of groups."""
    outputs, height, width, depth = layer.weights.shape
    if depth == 1 and layer.groups > 1:  # o = g * M + m, as DEPTHWISE_CONV2D orders its outputs
        weights = layer.weights.transpose(1, 2, 3, 0).reshape(height, width, layer.groups, -1)
        return _convolve(graph, "DEPTHWISE_CONV2D", layer, x, pad, weights, layer.bias)
    if layer.groups == 1:
        return _convolve(graph, "CONV2D", layer, x, pad, layer.weights, layer.bias)
    size, parts = outputs // layer.groups, []
    for g in range(layer.groups):
        part = _slice(graph, x, (0, 0, 0, g * depth), (*x.shape[:CHANNELS], depth))
        rows = slice(g * size, (g + 1) * size)
        parts.append(_convolve(graph, "CONV2D", layer, part, pad, layer.weights[rows], layer.bias[rows]))
    return _concatenate(graph, parts, "INT32")


def _convolve(
    graph: _Graph, op: str, layer: Conv, x: _Value, pad: Sequence[int], weights: NDArray[Any], bias: NDArray[Any]
) -> _Value:
    zero_points = [graph.constant([z], "INT8") for z in (layer.input_zero_point, 0)]
    inputs = [x, graph.constant(weights, "INT8"), graph.constant(bias, "INT32"), *zero_points]
    shape = (*_slid(x, layer.weights.shape[1:3], layer.stride, pad, layer.dilation)[:CHANNELS], len(bias))
    return graph.apply(op, inputs, shape, "INT32", (pad, layer.stride, layer.dilation, False, "DType.INT32"))


def _window(
    graph: _Graph, x: _Value, extent: Sequence[int], stride: Sequence[int], pad: Sequence[int], fill: int = 0
) -> tuple[_Value, list[int]]:
    """x and padding over which the window ends exactly at the border, as TOSA demands: what no window sees is cut off.

    Padding goes first, then rows and columns of x. Should that leave nothing of x (a convolution with more padding
    than kernel), the padding is written out by PAD before cutting.
    """
    frame, cut = list(pad), [0, 0]
    for axis in (0, 1):
        end = 2 * axis + 1
        rest = (x.shape[1 + axis] + sum(pad[end - 1 : end + 1]) - extent[axis]) % stride[axis]
        frame[end] -= min(rest, pad[end])
        cut[axis] = rest - min(rest, pad[end])
    if any(c >= size for c, size in zip(cut, x.shape[1:], strict=False)):
        x, frame = _frame(graph, x, frame, fill), [0, 0, 0, 0]
    _, height, width, channels = x.shape
    return _slice(graph, x, (0, 0, 0, 0), (1, height - cut[0], width - cut[1], channels)), frame


def _slid(
    x: _Value, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int] = (1, 1)
) -> tuple[int, ...]:
    """Shape after a sliding window that ends exactly at the border."""
    size = []
    for axis in (0, 1):
        room = x.shape[1 + axis] + pad[2 * axis] + pad[2 * axis + 1] - dilation[axis] * (kernel[axis] - 1) - 1
        size.append(room // stride[axis] + 1)
    return (1, *size, x.shape[CHANNELS])


def _slice(graph: _Graph, x: _Value, start: Sequence[int], shape: Sequence[int]) -> _Value:
    if tuple(shape) == x.shape:
        return x
    return graph.apply("SLICE", [x, graph.constant(start, "SHAPE"), graph.constant(shape, "SHAPE")], shape, "INT8")


def _frame(graph: _Graph, x: _Value, pad: Sequence[int], value: int) -> _Value:
    _, height, width, channels = x.shape
    shape = (1, height + pad[0] + pad[1], width + pad[2] + pad[3], channels)
    frame = graph.constant([0, 0, *pad, 0, 0], "SHAPE")
    return graph.apply("PAD", [x, frame, graph.constant([value], "INT8")], shape, "INT8")


def _concatenate(graph: _Graph, parts: Sequence[_Value], kind: str) -> _Value:
    """CONCAT along channels, in a tree where the standard's level allows no more inputs."""
    if len(parts) > MOST_INPUTS:
        parts = [_concatenate(graph, parts[i : i + MOST_INPUTS], kind) for i in range(0, len(parts), MOST_INPUTS)]
    shape = (*parts[0].shape[:CHANNELS], sum(part.shape[CHANNELS] for part in parts))
    return graph.apply("CONCAT", parts, shape, kind, (CHANNELS,))
