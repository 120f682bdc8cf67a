"""Export of a network to an int8 ONNX file in QDQ form, which ONNX Runtime fuses into integer kernels.

ONNX Runtime multiplies by float scales and rounds half to even, where a network multiplies by integers and rounds half
up. The file is loaded again, and the difference counted; whatever ONNX Runtime itself makes of it is not covered by a
certificate (`docs/export.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from intrs.exchange import grids as grid
from intrs.exchange.convention import METADATA, Convention
from intrs.exchange.difference import Written, difference, sample
from intrs.exchange.modelfile import SIGMA
from intrs.exchange.onnx.read import read_onnx
from intrs.exchange.refusal import Refusal, refusals_of
from intrs.files import write_whole
from intrs.network import INT8, Add, AvgPool, Concat, Conv, Gather, Layer, MaxPool, Mul, Pad, Requantise, ScaledAdd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from onnx import NodeProto

    from intrs.data import Spec as AnyData
    from intrs.exact import Number
    from intrs.exchange.integers import Grid
    from intrs.network import Network, Quantiser

OPSET = 17  # Quantize- and DequantizeLinear per channel, and what ONNX Runtime's fusions know
IR_VERSION = 8
HALF = Fraction(1, 2)


def write_file(
    network: Network, path: Path, *, trained_sigma: str = "", data: AnyData | None = None, sigma: Number | None = None
) -> Written:
    """Write the file, once it has been loaded again and compared with the network on noisy images.

    The file says under which noise the network was trained; sigma is that of the comparison.
    """
    images = sample(network, data, sigma)
    with refusals_of(path):
        made = to_onnx(network, {SIGMA: trained_sigma} if trained_sigma else {})
    loaded = read_onnx(path, made).network(Convention())
    written = Written(loaded, difference(network, loaded, images))
    write_whole(path, made)
    return written


def to_onnx(network: Network, metadata: Mapping[str, str] | None = None) -> bytes:
    """The network as an ONNX file in QDQ form.

    Its input are float pixels of 0 .. 255, (N, channels, height, width), noise added; its output are class scores,
    (N, classes). Raises Refusal, naming the layer, if ONNX has no operators for it.
    """
    file = _File(grid.grids(network, six=False))
    file.values.append(_image(file, network.quantiser))
    for number, layer in enumerate(network.layers, 1):
        try:
            file.values.append(emit(layer, file, number))
        except Refusal as refusal:
            raise Refusal(str(refusal), grid.titled(layer, number)) from None
    file.node("Flatten", [file.values[-1]], axis=1, output="scores")
    return file.to_bytes(network, {METADATA: "byte", **(metadata or {})})


@dataclass
class _File:
    """The graph while it is written: the float value of the file for every tensor of the network."""

    grids: list[Grid]
    values: list[str] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A node; the name of its output."""
        name = output or f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"node_{name}", **attributes))
        return name

    def constant(self, values: Any, kind: str) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def inputs(self, layer: Layer) -> list[str]:
        return [self.values[i] for i in layer.inputs]

    def stored(self, values: Any, kind: str, scales: Sequence[float]) -> str:
        """A constant of integers, dequantised along its first axis."""
        names = self.constant(values, kind), self.constant(scales, "f4"), self.constant([0] * len(scales), kind)
        return self.node("DequantizeLinear", names, axis=0)

    def quantised(self, value: str, on: Grid) -> str:
        """A value rounded to a grid, in uint8: int8 is not fused where two nodes read a tensor."""
        names = self.constant(float(on.scale), "f4"), self.constant(on.zero - INT8[0], "u1")
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [value, *names]), *names])

    def result(self, value: str, number: int, clamp: tuple[int, int] = INT8) -> str:
        """The value of tensor `number` of the network: clamped as its layer does, and rounded."""
        on = self.grids[number]
        limits = [
            "" if limit == whole else self.constant(float(on.value(limit)), "f4")
            for limit, whole in zip(clamp, INT8, strict=True)
        ]
        if clamp == (on.zero, INT8[1]) and on.zero != INT8[0]:
            value = self.node("Relu", [value])
        elif clamp != INT8:
            value = self.node("Clip", [value, *limits])
        return self.quantised(value, on)

    def to_bytes(self, network: Network, metadata: Mapping[str, str]) -> bytes:
        height, width, channels = network.input_shape
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", channels, height, width])
        scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", network.classes])
        graph = helper.make_graph(self.nodes, "intrs", [image], [scores], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="intrs")
        model.ir_version = IR_VERSION
        helper.set_model_props(model, dict(metadata))
        return bytes(model.SerializeToString(deterministic=True))


def _image(file: _File, q: Quantiser) -> str:
    """Pixels become the codes of the quantiser: a line per channel, then rounding."""
    on, unit = file.grids[0], 1 << q.shift
    slopes = [on.scale * Fraction(int(m), unit) for m in q.multiplier]
    offsets = [on.scale * (Fraction(int(o), unit) - HALF - on.zero) for o in q.offset]
    factor, added = (
        file.constant(np.array([float(v) for v in values]).reshape(1, -1, 1, 1), "f4") for values in (slopes, offsets)
    )
    return file.quantised(file.node("Add", [file.node("Mul", ["image", factor]), added]), on)


@singledispatch
def emit(layer: Layer, file: _File, number: int) -> str:
    """The nodes of a layer; the value that they give."""
    raise Refusal(f"ONNX has no 8-bit operator for it; {grid.BY_TOSA}")


@emit.register
def _conv(layer: Conv, file: _File, number: int) -> str:
    source = float(file.grids[layer.inputs[0]].scale)
    scales = grid.weight_scales(layer, file.grids[layer.inputs[0]], file.grids[number])
    silent = layer.rescale.multiplier == 0  # such a channel is its zero point: no weight may speak
    weights = np.where(silent.reshape(-1, 1, 1, 1), 0, layer.weights).transpose(0, 3, 1, 2)
    bias = np.where(silent, 0, layer.bias)
    held = file.stored(weights, "i1", scales)
    added = file.stored(bias, "i4", [float(np.float32(s * source)) for s in scales])
    window: dict[str, Any] = {"strides": layer.stride, "dilations": layer.dilation, "pads": _pads(layer.pad)}
    kernel = layer.weights.shape[1:3]
    inputs = [*file.inputs(layer), held, added]
    value = file.node("Conv", inputs, group=layer.groups, kernel_shape=kernel, **window)
    return value if layer.wide else file.result(value, number, layer.clamp)


@emit.register(Add)
@emit.register(Mul)
@emit.register(ScaledAdd)
def _two(layer: Add | Mul | ScaledAdd, file: _File, number: int) -> str:
    op = "Mul" if isinstance(layer, Mul) else "Sub" if isinstance(layer, ScaledAdd) and layer.subtract else "Add"
    return file.result(file.node(op, file.inputs(layer)), number, layer.clamp)


@emit.register(MaxPool)
@emit.register(AvgPool)
def _pool(layer: MaxPool | AvgPool, file: _File, number: int) -> str:
    op = "MaxPool" if isinstance(layer, MaxPool) else "AveragePool"
    window: dict[str, Any] = {"kernel_shape": layer.kernel, "strides": layer.stride, "pads": _pads(layer.pad)}
    return file.result(file.node(op, file.inputs(layer), **window), number)


@emit.register
def _requantise(layer: Requantise, file: _File, number: int) -> str:
    return file.result(file.values[layer.inputs[0]], number, layer.clamp)


@emit.register
def _concat(layer: Concat, file: _File, number: int) -> str:
    return file.result(file.node("Concat", file.inputs(layer), axis=1), number)


@emit.register
def _gather(layer: Gather, file: _File, number: int) -> str:
    """Gather along every axis of which something is chosen."""
    value = file.values[layer.inputs[0]]
    for axis, chosen in ((2, layer.rows), (3, layer.columns), (1, layer.channels)):
        if len(chosen):
            value = file.node("Gather", [value, file.constant(chosen, "i8")], axis=axis)
    return file.result(value, number)


@emit.register
def _pad(layer: Pad, file: _File, number: int) -> str:
    pads = [0, 0, *_pads(layer.pad)[:2], 0, 0, *_pads(layer.pad)[2:]]
    fill = file.constant(float(file.grids[number].value(layer.value)), "f4")
    return file.result(file.node("Pad", [*file.inputs(layer), file.constant(pads, "i8"), fill]), number)


def _pads(pad: Sequence[int]) -> list[int]:
    top, bottom, left, right = pad
    return [top, left, bottom, right]
