"""Operators that compute element by element: Relu, Clip, arithmetic, BatchNormalization."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.integers import square_root
from intrs.exchange.onnx import constants as const
from intrs.exchange.onnx import functions as fn
from intrs.exchange.onnx.activations import Activation, Clamped, Image, Pointwise, Sum, settled
from intrs.exchange.onnx.operators.registry import Inputs, operator
from intrs.exchange.onnx.pointwise import Multiplied, negated
from intrs.exchange.onnx.product import Product, affine
from intrs.exchange.onnx.values import Scaled, Value, View, dims_of, numbers
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from intrs.exchange.builder import Builder, Units
    from intrs.exchange.onnx.file import Node


@operator("Relu")
def _relu(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    return x.of(Clamped(node, x.source, Fraction(0), None))


@operator("Clip")
def _clip(net: Builder, node: Node, inputs: Inputs) -> Value:
    low, high = _bound(node, inputs, 1, "min"), _bound(node, inputs, 2, "max")
    x = inputs.need(0)
    if isinstance(x, View):
        return x.of(Clamped(node, x.source, low, high))
    if isinstance(x, Scaled) or x.dtype not in (np.int8, np.uint8):
        raise Refusal("it clips a constant that does not hold 8-bit codes")
    limits = np.iinfo(x.dtype)
    least, most = (int(limits.min) if low is None else int(low)), (int(limits.max) if high is None else int(high))
    if not int(limits.min) <= least <= most <= int(limits.max):
        raise Refusal(f"its bounds {least} and {most} are not a range of {x.dtype}")
    return np.clip(x, least, most)


def _bound(node: Node, inputs: Inputs, number: int, name: str) -> Fraction | None:
    """min or max of Clip: an input since opset 11, an attribute before; infinities are no bound."""
    if (value := inputs.get(number)) is not None:
        if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind == "f" and np.isinf(value).all():
            return None
        if prod(dims_of(value)) != 1:
            raise Refusal(f"its {name} is not a single number")
        return numbers(value, f"its {name}")[0]
    return node.number(name, 0) if name in node.attributes else None


def per_channel(x: View, value: Value) -> Units:
    """A constant that broadcasts along the channels of x, one number per channel."""
    channels, dims = x.source.shape[2], dims_of(value)
    if prod(dims) not in (1, channels):
        raise Refusal(f"its constant of shape {dims} varies along something else than the {channels} channels")
    values = tuple(numbers(value, "its constant"))
    while dims and dims[0] == 1:
        dims = dims[1:]
    if len(dims) > len(x.axes):
        raise Refusal(f"its constant of shape {dims} has more axes than its input of shape {x.dims}")
    if len(values) == 1:
        return values * channels
    if len(x.axes) - len(dims) != x.channel_axis():
        raise Refusal(f"its constant of shape {dims} varies along something else than the channels of {x.dims}")
    return values


@operator("Add", "Sub", "Mul", "Div")
def _arithmetic(net: Builder, node: Node, inputs: Inputs) -> Value:
    return arithmetic(net, node, node.op, inputs.need(0), inputs.need(1))


def arithmetic(net: Builder, node: Node, op: str, a: Value, b: Value) -> Value:
    """Add, Sub, Mul or Div of constants, of an activation and a constant, or of two activations."""
    if any(isinstance(value, View) and value.kind != "real" for value in (a, b)):
        raise Refusal("it computes with codes; a DequantizeLinear is missing")
    if isinstance(a, View) and isinstance(b, View):
        return _of_two(net, node, op, a, b)
    if isinstance(a, View):
        return _affine(net, node, op, a, per_channel(a, b))
    if isinstance(b, View):
        return _reversed_affine(net, node, op, b, per_channel(b, a))
    if isinstance(a, Scaled) or isinstance(b, Scaled):
        raise Refusal("it computes with quantised constants")
    return const.binary(op, a, b)


def _affine(net: Builder, node: Node, op: str, x: View, values: Units) -> View:
    """x op constant."""
    if op == "Div":
        if not all(values):
            raise Refusal("it divides by zero")
        values = tuple(1 / v for v in values)
    zeros, ones = (Fraction(0),) * len(values), (Fraction(1),) * len(values)
    if op in ("Mul", "Div"):
        return _line(net, node, x, values, zeros)
    return _line(net, node, x, ones, tuple(-v for v in values) if op == "Sub" else values)


def _line(net: Builder, node: Node, x: View, factors: Units, offsets: Units) -> View:
    """`factor * x + offset` per channel; one line for all channels is a function like any other."""
    folded = x.source.grid is not None or isinstance(x.source, Product | Image)
    if folded or len(set(factors)) > 1 or len(set(offsets)) > 1:
        return x.of(affine(net, x.source, factors, offsets, node))
    return x.of(Pointwise(node, x.source.function().then(fn.line(factors[0], offsets[0]), plain=True), x.source))


def _reversed_affine(net: Builder, node: Node, op: str, x: View, values: Units) -> View:
    """Constant op x."""
    if op == "Div":
        raise Refusal("it divides a constant by an activation")
    if op == "Sub":
        return _line(net, node, x, (Fraction(-1),) * len(values), values)
    return _affine(net, node, op, x, values)


OF_TWO = {"Add": fn.plus, "Sub": fn.minus, "Mul": fn.times, "Div": fn.divided}


def _of_two(net: Builder, node: Node, op: str, a: View, b: View) -> View:
    """Add, Sub, Mul or Div of two activations: a table if both are functions of one, else a layer."""
    shape = _aligned(a, b)
    functions = a.source.function(), b.source.function()
    plain = op == "Add" and functions[0].plain and functions[1].plain
    if a.axes == b.axes and functions[0].same_root(functions[1]) and not plain:
        net.budget.spend(1)
        root = functions[0].root
        return shape.of(Pointwise(node, fn.Function(root, OF_TWO[op], *functions), a.source, b.source))
    if op == "Div":
        raise Refusal(
            "it divides one activation by another, which no layer of integers does; intrs divides by constants"
        )
    terms = [x.source if x.source.grid is None else settled(net, x.source, node) for x in (a, b)]
    if op == "Mul":
        return shape.of(Multiplied(node, terms[0], terms[1]))
    if op == "Sub":
        terms[1] = _minus(net, node, terms[1])
    return shape.of(Sum(node, terms[0], terms[1]))


def _minus(net: Builder, node: Node, term: Activation) -> Activation:
    if term.grid is not None:
        return negated(net, settled(net, term, node), node)
    channels = term.shape[2]
    return affine(net, term, (Fraction(-1),) * channels, (Fraction(0),) * channels, node)


def _aligned(a: View, b: View) -> View:
    """The larger of two activations that have one shape, or of which one is a single pixel for all places."""
    big, small = (b, a) if a.source.shape[:2] == (1, 1) else (a, b)
    if a.source.shape == b.source.shape and a.axes == b.axes:
        return a
    fits = len(a.axes) == len(b.axes) and small.source.shape == (1, 1, big.source.shape[2])
    if not fits or any(s not in ((), t) for s, t in zip(small.axes, big.axes, strict=True)):
        reason = (
            f"its inputs have the shapes {a.dims} and {b.dims}; intrs combines activations of one shape, or one that"
        )
        raise Refusal(f"{reason} has height and width 1 with one of the same channels")
    return big


@operator("Max", "Min")
def _limit(net: Builder, node: Node, inputs: Inputs) -> Value:
    """Max or Min of an activation and one number: a Clip."""
    pair = [inputs.need(i) for i in range(len(inputs))]
    views = [value for value in pair if isinstance(value, View)]
    bounds = [value for value in pair if not isinstance(value, View)]
    if len(views) != 1 or len(bounds) != 1 or prod(dims_of(bounds[0])) != 1:
        raise Refusal(f"{node.op} of two activations, or by many numbers, is not supported; use Relu or Clip")
    bound = numbers(bounds[0], "its bound")[0]
    low, high = (bound, None) if node.op == "Max" else (None, bound)
    return views[0].of(Clamped(node, views[0].source, low, high))


@operator("BatchNormalization")
def _batch_normalization(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.real(0)
    if x.channel_axis() != 1 or node.integer("training_mode", 0):
        raise Refusal("its channels are not axis 1, or it is in training mode")
    if {prod(dims_of(inputs.need(i))) for i in (1, 2, 3, 4)} != {x.source.shape[2]}:
        raise Refusal(f"its constants do not fit its {x.source.shape[2]} channels")
    net.budget.spend(4 * x.source.shape[2])
    columns = [numbers(inputs.need(i), "its constant") for i in (1, 2, 3, 4)]
    epsilon = node.number("epsilon", 1e-5)
    gammas, betas, means, variances = columns
    if min(variances) + epsilon <= 0:
        raise Refusal("its variance is not positive")
    factors = tuple(g / square_root(v + epsilon) for g, v in zip(gammas, variances, strict=True))
    offsets = tuple(b - m * f for b, m, f in zip(betas, means, factors, strict=True))
    return x.of(affine(net, x.source, factors, offsets, node))
