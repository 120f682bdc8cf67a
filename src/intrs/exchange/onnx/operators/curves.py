"""Operators that are a function of one activation: they become tables of 256 codes."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

from intrs.exchange.onnx import functions as fn
from intrs.exchange.onnx.activations import Pointwise
from intrs.exchange.onnx.operators.elementwise import per_channel
from intrs.exchange.onnx.operators.registry import Inputs, operator
from intrs.exchange.onnx.pointwise import Slopes
from intrs.exchange.onnx.values import Value, View, dims_of, numbers
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from intrs.exchange.builder import Builder
    from intrs.exchange.onnx.file import Node
    from intrs.exchange.onnx.functions import Apply

MOST_POWER = 4


def curve(net: Builder, node: Node, x: View, apply: Apply) -> View:
    """A function of an activation, or of what that is a function of."""
    net.budget.spend(1)
    return x.of(Pointwise(node, x.source.function().then(apply), x.source))


FIXED: dict[str, Apply] = {
    "Abs": fn.absolute,
    "Erf": fn.erf,
    "Exp": fn.exp,
    "HardSwish": fn.hard_swish,
    "Log": fn.log,
    "Mish": fn.mish,
    "Sigmoid": fn.sigmoid,
    "Softplus": fn.softplus,
    "Softsign": fn.softsign,
    "Sqrt": fn.sqrt,
    "Tanh": fn.tanh,
}


@operator(*FIXED)
def _fixed(net: Builder, node: Node, inputs: Inputs) -> Value:
    return curve(net, node, inputs.real(0), FIXED[node.op])


def with_attributes(node: Node) -> Apply:
    """The function of an operator that has parameters."""
    match node.op:
        case "LeakyRelu" | "QLinearLeakyRelu":
            return fn.leaky(node.number("alpha", 0.01))
        case "Elu":
            return fn.elu(node.number("alpha", 1.0))
        case "Selu":
            return fn.elu(
                node.number("alpha", 1.67326319217681884765625), node.number("gamma", 1.05070102214813232421875)
            )
        case "Celu":
            alpha = _positive(node)
            return fn.elu(alpha, inner=alpha)
        case "HardSigmoid":
            return fn.hard_sigmoid(
                Fraction(1, 5) if "alpha" not in node.attributes else node.number("alpha", 0.0),
                node.number("beta", 0.5),
            )
        case "ThresholdedRelu":
            return fn.thresholded(node.number("alpha", 1.0))
        case "Swish":
            return fn.swish(node.number("alpha", 1.0))
        case "QuickGelu":
            return fn.swish(Fraction(1702, 1000) if "alpha" not in node.attributes else node.number("alpha", 0.0))
        case "Gelu":
            return fn.gelu_by_tanh if node.text("approximate", "none") == "tanh" else fn.gelu
    raise Refusal(f"the operator {node.op} is not supported")


def _positive(node: Node) -> Fraction:
    alpha = node.number("alpha", 1.0)
    if alpha <= 0:
        raise Refusal(f"its alpha is {float(alpha)}; it must be positive")
    return alpha


@operator("LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "ThresholdedRelu", "Swish", "QuickGelu", "Gelu")
def _with_attributes(net: Builder, node: Node, inputs: Inputs) -> Value:
    return curve(net, node, inputs.real(0), with_attributes(node))


@operator("Neg")
def _negative(net: Builder, node: Node, inputs: Inputs) -> Value:
    return curve(net, node, inputs.real(0), fn.line(Fraction(-1), Fraction(0)))


@operator("Pow")
def _power(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, exponent = inputs.real(0), inputs.need(1)
    if isinstance(exponent, View) or prod(dims_of(exponent)) != 1:
        raise Refusal("its exponent is not a single number")
    power = numbers(exponent, "its exponent")[0]
    if power == Fraction(1, 2):
        return curve(net, node, x, fn.sqrt)
    if power.denominator != 1 or not 1 <= power <= MOST_POWER:
        raise Refusal(f"its exponent is {float(power)}; intrs reads 1/2 and whole numbers from 1 to {MOST_POWER}")
    return curve(net, node, x, fn.power(int(power)))


@operator("PRelu")
def _prelu(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.real(0)
    slopes = per_channel(x, inputs.need(1))
    if len(set(slopes)) == 1:
        return curve(net, node, x, fn.leaky(slopes[0]))
    net.budget.spend(2 * len(slopes))
    return x.of(Slopes(node, net, x.source, slopes))
