"""Export of a network to an int8 TFLite file, which LiteRT and TFLite Micro run.

The arithmetic of TFLite is not that of every network: its CONV_2D rounds twice, its ADD three times. What is written is
therefore a network of its own. It is loaded again, and that network is what a certificate of the file is about.
FULLY_CONNECTED is not used: its rounding differs between LiteRT and TFLite Micro, that of CONV_2D does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange import grids as grid
from intrs.exchange.convention import Convention
from intrs.exchange.difference import Written, difference, sample
from intrs.exchange.integers import Grid, clamped
from intrs.exchange.modelfile import SIGMA
from intrs.exchange.refusal import Refusal, refusals_of
from intrs.exchange.tflite.pixels import KEY, quantiser_text
from intrs.exchange.tflite.read import read_tflite
from intrs.exchange.tflite.schema import Activation, Padding
from intrs.exchange.tflite.writing import Graph, Scale
from intrs.files import write_whole
from intrs.network import INT8, Add, AvgPool, Concat, Conv, Gather, Layer, MaxPool, Mul, Pad, Requantise, ScaledAdd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.data import Spec as AnyData
    from intrs.exact import Number
    from intrs.network import Network, Shape

CHANNELS = 3  # the axis in (batch, height, width, channels)


@dataclass(frozen=True, eq=False)
class Made:
    """A file, and how the scores of the network become the codes that it puts out."""

    data: bytes
    output: Grid | None  # of scores that are no codes

    def codes(self, scores: NDArray[np.int32]) -> NDArray[np.int32] | None:
        """Wide scores as codes; None if the network's scores are codes already."""
        if self.output is None:
            return None
        codes = np.rint(scores / float(self.output.scale)) + self.output.zero
        return np.asarray(np.clip(codes, *INT8), np.int32)


def write_file(
    network: Network, path: Path, *, trained_sigma: str = "", data: AnyData | None = None, sigma: Number | None = None
) -> Written:
    """Write the file, once it has been loaded again and compared with the network on noisy images.

    The file says under which noise the network was trained; sigma is that of the comparison.
    """
    images = sample(network, data, sigma)
    scores = network.scores(images.batch)
    with refusals_of(path):
        made = to_tflite(network, scores, {SIGMA: trained_sigma} if trained_sigma else {})
    loaded = read_tflite(path, made.data).network(Convention(dialect="tflm"))
    written = Written(loaded, difference(network, loaded, images, made.codes(scores)))
    write_whole(path, made.data)
    return written


def to_tflite(network: Network, scores: NDArray[np.int32], metadata: Mapping[str, str] | None = None) -> Made:
    """The network as a TFLite file.

    Its input is an image of int8 codes, (1, height, width, channels), which a device makes of pixels as
    `pixels` says; its output are the codes of the class scores, (1, classes). `scores` are typical scores of the
    network: they decide the range of an output that is wider than 8 bits in the network.

    Raises Refusal, naming the layer, if TFLite has no operators for it.
    """
    file = _File(Graph(), list(network.shapes), grid.grids(network))
    last = network.layers[-1]
    wide = isinstance(last, Conv) and last.wide
    if wide:
        file.grids[-1] = _range(scores)
    file.tensors.append(file.image())
    for number, layer in enumerate(network.layers, 1):
        try:
            file.tensors.append(emit(layer, file, number))
        except Refusal as refusal:
            raise Refusal(str(refusal), grid.titled(layer, number)) from None
    notes = {KEY: quantiser_text(network.quantiser), **(metadata or {})}
    return Made(file.to_bytes(notes), file.grids[-1] if wide else None)


@dataclass
class _File:
    """The graph while it is written: the tensor of the file for every tensor of the network."""

    graph: Graph
    shapes: list[Shape]
    grids: list[Grid]
    tensors: list[int] = field(default_factory=list)

    def image(self) -> int:
        return self.graph.tensor((1, *self.shapes[0]), "i1", _scale(self.grids[0]), "image")

    def output(self, number: int, name: str) -> int:
        """A tensor for tensor `number` of the network."""
        return self.tensor(self.shapes[number], self.grids[number], name)

    def tensor(self, shape: Sequence[int], on: Grid, name: str) -> int:
        return self.graph.tensor((1, *shape), "i1", _scale(on), name)

    def apply(self, name: str, layer: Layer, number: int, *others: int, **options: Any) -> int:
        """An operator with the layer's inputs, and `others` behind them, that writes the layer's output."""
        output = self.output(number, layer.name)
        self.graph.operator(name, [*(self.tensors[i] for i in layer.inputs), *others], [output], **options)
        return output

    def to_bytes(self, notes: Mapping[str, str]) -> bytes:
        classes = self.shapes[-1][-1]
        shape = self.graph.constant([1, classes])
        scores = self.graph.tensor((1, classes), "i1", _scale(self.grids[-1]), "scores")
        self.graph.operator("RESHAPE", [self.tensors[-1], shape], [scores], new_shape=np.array([1, classes]))
        return self.graph.to_bytes([self.tensors[0]], [scores], {name: text.encode() for name, text in notes.items()})


@singledispatch
def emit(layer: Layer, file: _File, number: int) -> int:
    """The operators of a layer; the tensor that they write."""
    raise Refusal(f"TFLite has no operator for it; {grid.BY_TOSA}")


@emit.register
def _conv(layer: Conv, file: _File, number: int) -> int:
    outputs, height, width, depth = layer.weights.shape
    source, weights = layer.inputs[0], layer.weights
    depthwise = depth == 1 and layer.groups > 1
    if depthwise:
        weights = weights.transpose(3, 1, 2, 0)
    scales = grid.weight_scales(layer, file.grids[source], file.grids[number])
    silent = layer.rescale.multiplier == 0  # such a channel is its zero point: no weight may speak
    axis = CHANNELS if depthwise else 0
    weights = np.where(silent.reshape(-1 if len(silent) > 1 else 1, *[1] * (3 - axis)), 0, weights)
    bias = np.where(silent, 0, layer.bias)
    none = (0,) * outputs
    held = file.graph.constant(weights, "i1", Scale(scales, none, axis), f"{layer.name}/weights")
    products = tuple(float(np.float32(s * float(file.grids[source].scale))) for s in scales)
    added = file.graph.constant(bias, "i4", Scale(products, none, 0), f"{layer.name}/bias")
    x, padding = _padded(layer, file, (height, width), layer.dilation, file.grids[source].zero)
    options: dict[str, Any] = _window(layer.stride, padding) | {"fused_activation_function": _activation(layer)}
    options |= {"dilation_h_factor": layer.dilation[0], "dilation_w_factor": layer.dilation[1]}
    if depthwise:
        options["depth_multiplier"] = outputs // layer.groups
    output = file.output(number, layer.name)
    name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    file.graph.operator(name, [x, held, added], [output], **options)
    return output


@emit.register(Add)
@emit.register(Mul)
@emit.register(ScaledAdd)
def _two(layer: Add | Mul | ScaledAdd, file: _File, number: int) -> int:
    name = "MUL" if isinstance(layer, Mul) else "SUB" if isinstance(layer, ScaledAdd) and layer.subtract else "ADD"
    return file.apply(name, layer, number, fused_activation_function=_activation(layer))


@emit.register
def _max_pool(layer: MaxPool, file: _File, number: int) -> int:
    x, padding = _padded(layer, file, layer.kernel, (1, 1), INT8[0])
    return _pool("MAX_POOL_2D", layer, file, x, padding, file.output(number, layer.name))


@emit.register
def _avg_pool(layer: AvgPool, file: _File, number: int) -> int:
    source, target = layer.inputs[0], file.grids[number]
    padding = _padding(file.shapes[source], layer.kernel, layer.stride, (1, 1), layer.pad)
    if padding is None:
        raise Refusal(f"its padding is neither SAME nor VALID, and TFLite would count it as values; {grid.BY_TOSA}")
    within = file.tensor(file.shapes[number], file.grids[source], layer.name)
    pooled = _pool("AVERAGE_POOL_2D", layer, file, file.tensors[source], padding, within)
    if target == file.grids[source]:
        return pooled
    output = file.output(number, f"{layer.name}/moved")
    file.graph.operator("QUANTIZE", [pooled], [output])
    return output


@emit.register
def _requantise(layer: Requantise, file: _File, number: int) -> int:
    return file.apply({0: "QUANTIZE", 1: "RELU", 3: "RELU6"}[_activation(layer)], layer, number)


@emit.register
def _concat(layer: Concat, file: _File, number: int) -> int:
    return file.apply("CONCATENATION", layer, number, axis=CHANNELS)


@emit.register
def _pad(layer: Pad, file: _File, number: int) -> int:
    return _frame(layer, file, layer.pad, layer.value)


@emit.register
def _gather(layer: Gather, file: _File, number: int) -> int:
    """GATHER along every axis of which something is chosen."""
    shape, x = list(file.shapes[layer.inputs[0]]), file.tensors[layer.inputs[0]]
    for axis, chosen in enumerate((layer.rows, layer.columns, layer.channels)):
        if len(chosen):
            shape[axis] = len(chosen)
            found = file.tensor(shape, file.grids[number], f"{layer.name}/{axis}")
            file.graph.operator("GATHER", [x, file.graph.constant(chosen)], [found], axis=axis + 1)
            x = found
    return x


def _frame(layer: Layer, file: _File, pad: Sequence[int], value: int) -> int:
    """PAD by the zero point, or PADV2 by another code."""
    source = layer.inputs[0]
    on, (height, width, channels) = file.grids[source], file.shapes[source]
    sizes = file.graph.constant([[0, 0], list(pad[:2]), list(pad[2:]), [0, 0]])
    shape = height + pad[0] + pad[1], width + pad[2] + pad[3], channels
    output = file.tensor(shape, on, f"{layer.name}/padded")
    inputs = [file.tensors[source], sizes]
    if value != on.zero:
        inputs.append(file.graph.constant([value], "i1", _scale(on)))
    file.graph.operator("PAD" if value == on.zero else "PADV2", inputs, [output])
    return output


def _pool(name: str, layer: MaxPool | AvgPool, file: _File, x: int, padding: Padding, output: int) -> int:
    kernel = {"filter_height": layer.kernel[0], "filter_width": layer.kernel[1]}
    file.graph.operator(name, [x], [output], **_window(layer.stride, padding), **kernel)
    return output


def _window(stride: Sequence[int], padding: Padding) -> dict[str, int]:
    return {"padding": padding, "stride_h": stride[0], "stride_w": stride[1]}


def _padded(
    layer: Conv | MaxPool, file: _File, kernel: Sequence[int], dilation: Sequence[int], fill: int
) -> tuple[int, Padding]:
    """The input of a window, padded by an operator of its own where TFLite's window cannot pad as the layer does."""
    source = layer.inputs[0]
    padding = _padding(file.shapes[source], kernel, layer.stride, dilation, layer.pad)
    if padding is not None:
        return file.tensors[source], padding
    return _frame(layer, file, layer.pad, fill), Padding.VALID


def _padding(
    shape: Shape, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], pad: Sequence[int]
) -> Padding | None:
    """VALID, SAME, or neither."""
    if not any(pad):
        return Padding.VALID
    same = [same_padding(shape[i], kernel[i], stride[i], dilation[i]) for i in (0, 1)]
    return Padding.SAME if [*same[0], *same[1]] == list(pad) else None


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """What SAME puts before and behind an axis."""
    steps = -(-size // stride)
    total = max(0, (steps - 1) * stride + dilation * (kernel - 1) + 1 - size)
    return total // 2, total - total // 2


def _activation(layer: Conv | Add | Mul | ScaledAdd | Requantise) -> int:
    """The fused activation that clamps as the layer does."""
    low, high = layer.clamp
    if getattr(layer, "wide", False) or layer.clamp == INT8:
        return Activation.NONE
    if low not in (layer.output_zero_point, INT8[0]):
        raise Refusal(f"it clamps codes to {low} .. {high}, which is no ReLU or ReLU6; {grid.BY_TOSA}")
    if low != layer.output_zero_point:
        raise Refusal(f"it clamps codes from above only, to {high}; {grid.BY_TOSA}")
    return Activation.RELU if high == INT8[1] else Activation.RELU6


def _range(scores: NDArray[np.int32]) -> Grid:
    """The grid whose codes span these scores and 0, and a little more."""
    low, high = min(0, int(scores.min())), max(0, int(scores.max()))
    step = max((high - low) * 1.125, 1.0) / (INT8[1] - INT8[0])
    return Grid(grid.rounded(step), clamped(round(INT8[0] - low * 1.0625 / step), INT8))


def _scale(on: Grid) -> Scale:
    return Scale((float(on.scale),), (on.zero,))
