"""The QOperator form: each operator is a DequantizeLinear of its inputs, the plain operator, and a QuantizeLinear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.onnx.functions import sigmoid
from intrs.exchange.onnx.operators.curves import curve, with_attributes
from intrs.exchange.onnx.operators.elementwise import arithmetic
from intrs.exchange.onnx.operators.linear import convolve, gemm, matmul, weights_of
from intrs.exchange.onnx.operators.pools import average_pool, global_average, reduce_mean
from intrs.exchange.onnx.operators.quantize import dequantize, quantize, zero_points
from intrs.exchange.onnx.operators.registry import Inputs, operator
from intrs.exchange.onnx.operators.shapes import join
from intrs.exchange.onnx.values import Scaled, Value, View
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from intrs.exchange.builder import Builder
    from intrs.exchange.onnx.file import Node


def _real(net: Builder, node: Node, inputs: Inputs, number: int) -> View:
    """The activation at an input that is followed by its scale and zero point."""
    inputs.view(number)
    value = _dequantized(net, node, inputs, number)
    assert isinstance(value, View)
    return value


def _dequantized(net: Builder, node: Node, inputs: Inputs, number: int, axis: int = 0) -> Value:
    zero = inputs.get(number + 2)
    zeros = None if zero is None else zero_points(zero, node)
    return dequantize(net, node, inputs.need(number), inputs.array(number + 1), zeros, axis)


def _rounded(net: Builder, node: Node, value: Value, inputs: Inputs, number: int) -> Value:
    """Quantised by the scale and zero point at inputs `number` and `number + 1`."""
    return quantize(net, node, value, inputs.array(number), zero_points(inputs.get(number + 1), node))


def _bias(inputs: Inputs, number: int, x: View, weights: Scaled) -> Scaled | None:
    """An int32 bias, whose scale is that of the input times that of the weights."""
    if inputs.get(number) is None:
        return None
    codes = inputs.array(number)
    if codes.dtype != np.int32:
        raise Refusal(f"its bias is {codes.dtype}, not int32")
    if x.source.grid is None:
        raise Refusal("its input has a scale per channel, so that its bias has none; use one scale for the tensor")
    if len(weights.scales) > 1 and codes.size != len(weights.scales):
        raise Refusal("its bias does not fit its weights")
    return Scaled(codes.ravel(), tuple(x.source.grid.scale * scale for scale in weights.scales))


@operator("QLinearConv")
def _conv(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = _real(net, node, inputs, 0)
    weights = weights_of(_dequantized(net, node, inputs, 3))
    return _rounded(net, node, convolve(net, node, x, weights, _bias(inputs, 8, x, weights)), inputs, 6)


@operator("QLinearMatMul")
def _matmul(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = _real(net, node, inputs, 0)
    weights = weights_of(_dequantized(net, node, inputs, 3, axis=-1))
    return _rounded(net, node, matmul(net, node, x, weights), inputs, 6)


@operator("QGemm")
def _gemm(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = _real(net, node, inputs, 0)
    weights = weights_of(_dequantized(net, node, inputs, 3, axis=0 if node.integer("transB", 0) else -1))
    bias = _bias(inputs, 6, x, weights)  # scaled by alpha too, see the operator's definition
    result = gemm(net, node, x, weights, bias, node.number("alpha", 1.0))
    return result if inputs.get(7) is None else _rounded(net, node, result, inputs, 7)


@operator("QLinearAdd", "QLinearMul")
def _arithmetic(net: Builder, node: Node, inputs: Inputs) -> Value:
    op = node.op.removeprefix("QLinear")
    result = arithmetic(net, node, op, _dequantized(net, node, inputs, 0), _dequantized(net, node, inputs, 3))
    return _rounded(net, node, result, inputs, 6)


@operator("QLinearSigmoid", "QLinearLeakyRelu")
def _curve(net: Builder, node: Node, inputs: Inputs) -> Value:
    function = sigmoid if node.op == "QLinearSigmoid" else with_attributes(node)
    return _rounded(net, node, curve(net, node, _real(net, node, inputs, 0), function), inputs, 3)


@operator("QLinearConcat")
def _concat(net: Builder, node: Node, inputs: Inputs) -> Value:
    parts = [_dequantized(net, node, inputs, number) for number in range(2, len(inputs), 3)]
    return _rounded(net, node, join(net, node, parts), inputs, 0)


@operator("QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean")
def _average(net: Builder, node: Node, inputs: Inputs) -> Value:
    if node.integer("channels_last", 0):
        raise Refusal("its channels come last; intrs reads (batch, channels, height, width)")
    x = _real(net, node, inputs, 0)
    if node.op == "QLinearReduceMean":
        return _rounded(net, node, reduce_mean(net, node, x, node.integers("axes")), inputs, 3)
    pool = average_pool if node.op == "QLinearAveragePool" else global_average
    return _rounded(net, node, pool(net, node, x), inputs, 3)
