"""Layers with weights: Conv, Gemm, MatMul."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.builder import MAX_SIDE, Builder, Window
from intrs.exchange.onnx.activations import settled
from intrs.exchange.onnx.operators.registry import Inputs, operator
from intrs.exchange.onnx.operators.windows import read_window
from intrs.exchange.onnx.product import ChannelLines, Product, fitted_weights
from intrs.exchange.onnx.values import NCHW, Atom, Scaled, Value, View, dims_of, numbers
from intrs.exchange.refusal import ADVICE, TRANSFORMER, Refusal

if TYPE_CHECKING:
    from intrs.exchange.onnx.file import Node

HWC: tuple[Atom, ...] = ("h", "w", "c")  # how activations lie


def weights_of(value: Value) -> Scaled:
    """Weights of a layer, which must be quantised constants."""
    if isinstance(value, View):
        raise Refusal(f"its weights are computed from the image, where intrs needs constants; {TRANSFORMER}")
    if not isinstance(value, Scaled):
        raise Refusal(f"this is a float layer: its weights are {value.dtype}, not quantised; {ADVICE}")
    return value


def _per_output(weights: Scaled, outputs: int) -> tuple[Fraction, ...]:
    if len(weights.scales) == 1:
        return weights.scales * outputs
    if weights.axis != 0:
        raise Refusal("its weights have a scale per input channel; intrs needs one per output channel or one in all")
    return weights.scales


def _bias(value: Value | None, outputs: int) -> tuple[Fraction, ...]:
    if value is None:
        return (Fraction(0),) * outputs
    dims = dims_of(value)
    if prod(dims) not in (1, outputs) or (dims and dims[-1] != prod(dims)):
        raise Refusal(f"its bias of shape {dims} does not fit its {outputs} output channels")
    values = tuple(numbers(value, "its bias"))
    return values if len(values) == outputs else values * outputs


def _product(
    net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None, groups: int, window: Window | None
) -> Product:
    """The layer of weights shaped (out, height, width, in / groups)."""
    outputs, *_, inputs = weights.codes.shape
    if groups < 1 or inputs * groups != x.source.shape[2] or outputs % groups or outputs == 0:
        raise Refusal(f"{x.source.shape[2]} input channels, {groups} groups and weights for {inputs} do not fit")
    net.budget.spend(outputs, weights.codes.size)
    source, scales = x.source, _per_output(weights, outputs)
    if isinstance(source, ChannelLines) and groups == x.source.shape[2] and source.only_scales:
        scales = tuple(scale * source.factors[o * groups // outputs] for o, scale in enumerate(scales))
        source = source.source
    stored, codes = fitted_weights(net, settled(net, source, node), weights.codes, groups, node)
    units = tuple(stored.grid.scale * scale for scale in scales)
    return Product(node, stored, codes, units, _bias(bias, outputs), groups, window)


@operator("Conv")
def conv(net: Builder, node: Node, inputs: Inputs) -> Value:
    """Conv in two dimensions."""
    return convolve(net, node, inputs.real(0), weights_of(inputs.need(1)), inputs.get(2))


def convolve(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None) -> View:
    """Conv of an image, or a 1 x 1 Conv of flattened features."""
    if weights.codes.ndim != 4 or len(x.axes) != 4:
        ranks = f"weights of rank {weights.codes.ndim} and an input of rank {len(x.axes)}"
        raise Refusal(f"it has {ranks}; intrs reads Conv in two dimensions, of rank 4")
    kernel = weights.codes.shape[2], weights.codes.shape[3]
    if node.integers("kernel_shape") not in (None, kernel):
        raise Refusal(f"its kernel_shape {node.integers('kernel_shape')} is not that of its weights, {kernel}")
    groups, features = node.integer("group", 1), x.features()
    if not x.is_image() and features and features[0] == 1 and (*kernel, groups) == (1, 1, 1):
        plain = weights.reshape(weights.codes.shape[:2])
        return x.of(_linear(net, node, x, plain, bias, features[1]), NCHW)
    x.require_image()
    window = read_window(node, x.source.shape, kernel)
    return x.of(_product(net, node, x, weights.transpose((0, 2, 3, 1)), bias, groups, window), NCHW)


def _linear(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None, order: tuple[Atom, ...]) -> Product:
    """A fully connected layer: a Conv whose kernel is as large as the atoms in `order`; weights are (out, in)."""
    sizes = {atom: x.size(atom) if atom in order else 1 for atom in HWC}
    outputs, count = weights.codes.shape
    if prod(sizes.values()) != count:
        raise Refusal(f"its input of shape {x.dims} does not fit its weights for {count} features")
    apart = weights.reshape((outputs, *(sizes[atom] for atom in order if atom in sizes)))
    for missing in (atom for atom in sizes if atom not in order):  # an atom of size 1 is nowhere in the order
        apart = apart.reshape((*apart.codes.shape, 1))
        order = (*order, missing)
    kernel = apart.transpose((0, *(1 + order.index(atom) for atom in HWC)))
    return _product(net, node, x, kernel, bias, 1, None)


def matrix_product(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None) -> View:
    """x @ weights.T + bias along the last axis of x; weights are (out, in)."""
    features = x.features()
    last = len(x.axes) - 1
    if features and features[0] == last:
        order = features[1]
    elif x.channel_axis() == last:
        order = ("c",)
    else:
        raise Refusal(f"it multiplies along the last axis of shape {x.dims}, which is not the channels")
    product = _linear(net, node, x, weights, bias, order)
    return x.of(product, (*x.axes[:-1], ("c",)))


@operator("Gemm")
def _gemm(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, weights = inputs.real(0), weights_of(inputs.need(1))
    return gemm(net, node, x, weights, inputs.get(2), node.number("beta", 1.0))


def gemm(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None, beta: Fraction) -> View:
    """Gemm with its attributes; the scale of the weights takes alpha."""
    alpha = node.number("alpha", 1.0)
    if node.integer("transA", 0) or weights.codes.ndim != 2 or alpha <= 0 or len(x.axes) != 2:
        raise Refusal("it has transA, alpha <= 0, or an input that is not a matrix")
    if not node.integer("transB", 0):
        weights = weights.transpose((1, 0))
    if bias is not None and beta != 1:
        bias = _times(bias, beta)
    if alpha != 1:
        weights = Scaled(weights.codes, tuple(alpha * scale for scale in weights.scales), weights.axis)
    return matrix_product(net, node, x, weights, bias)


def _times(value: Value, factor: Fraction) -> Scaled:
    """A constant times a number: every value an integer times a scale of its own."""
    if prod(dims_of(value)) > MAX_SIDE:
        raise Refusal(f"its bias of shape {dims_of(value)} does not fit its output channels")
    values = numbers(value, "its bias")
    units = tuple(abs(v * factor) or Fraction(1) for v in values)
    signs = np.array([(v * factor > 0) - (v * factor < 0) for v in values], np.int8)
    return Scaled(signs, units)


@operator("MatMul")
def _matmul(net: Builder, node: Node, inputs: Inputs) -> Value:
    return matmul(net, node, inputs.real(0), weights_of(inputs.need(1)))


def matmul(net: Builder, node: Node, x: View, weights: Scaled) -> View:
    """x @ weights; weights are (in, out)."""
    if weights.codes.ndim != 2:
        raise Refusal(f"its weights have rank {weights.codes.ndim}; intrs needs a matrix")
    return matrix_product(net, node, x, weights.transpose((1, 0)), None)
