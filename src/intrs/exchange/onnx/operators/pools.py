"""Maxima and averages over windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from intrs.exchange.builder import Builder, Window
from intrs.exchange.onnx.activations import max_pool
from intrs.exchange.onnx.operators.registry import Inputs, operator
from intrs.exchange.onnx.operators.windows import pair, read_window
from intrs.exchange.onnx.product import average, average_inside
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from intrs.exchange.onnx.activations import Activation
    from intrs.exchange.onnx.file import Node
    from intrs.exchange.onnx.values import Value, View

    Pool = Callable[[Builder, Activation, Window, Node], Activation]


def _pool_window(node: Node, x: View) -> Window:
    x.require_image()
    kernel = node.integers("kernel_shape")
    if kernel is None:
        raise Refusal("it has no kernel_shape")
    window = read_window(node, x.source.shape, pair(kernel, 1, "kernel sizes"))
    top, bottom, left, right = window.pad
    if window.dilation != (1, 1) or max(top, bottom) >= window.kernel[0] or max(left, right) >= window.kernel[1]:
        raise Refusal("it is a pool with dilation, or with padding as wide as its kernel")
    return window


@operator("MaxPool")
def _max_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    return x.of(max_pool(net, x.source, _pool_window(node, x), node))


@operator("GlobalMaxPool")
def _global_max_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    x.require_image()
    return x.of(max_pool(net, x.source, Window(x.source.shape[:2]), node))


@operator("AveragePool")
def _average_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    return average_pool(net, node, inputs.real(0))


def average_pool(net: Builder, node: Node, x: View) -> View:
    """AveragePool, counting padding or not."""
    window = _pool_window(node, x)
    if not any(window.pad):
        return x.of(average(net, x.source, window, node))
    if not node.integer("count_include_pad", 0):
        return x.of(average_inside(net, x.source, window, node))
    if node.integer("ceil_mode", 0):
        raise Refusal("it has both ceil_mode and count_include_pad, which engines treat differently")
    return x.of(average(net, x.source, window, node))


@operator("GlobalAveragePool")
def _global_average_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    return global_average(net, node, inputs.real(0))


def global_average(net: Builder, node: Node, x: View) -> View:
    """The mean over all of height and width."""
    x.require_image()
    return x.of(average(net, x.source, Window(x.source.shape[:2]), node))


@operator("ReduceMean")
def _reduce_mean(net: Builder, node: Node, inputs: Inputs) -> Value:
    return reduce_mean(net, node, inputs.real(0), _reduced_axes(node, inputs))


@operator("ReduceMax")
def _reduce_max(net: Builder, node: Node, inputs: Inputs) -> Value:
    return _reduced(net, node, inputs.view(0), _reduced_axes(node, inputs), max_pool)


def _reduced_axes(node: Node, inputs: Inputs) -> tuple[int, ...] | None:
    return inputs.integers(1) or node.integers("axes")


def reduce_mean(net: Builder, node: Node, x: View, axes: tuple[int, ...] | None) -> View:
    """The mean over height, width, or both."""
    return _reduced(net, node, x, axes, average)


def _reduced(net: Builder, node: Node, x: View, axes: tuple[int, ...] | None, pool: Pool) -> View:
    """A pool over all of height, width, or both."""
    gone = {x.axis(axis) for axis in axes or ()}
    atoms = {atom for axis in gone for atom in x.axes[axis]}
    if not gone or 0 in gone or not atoms <= {"h", "w"}:
        raise Refusal("it reduces something else than height and width")
    height, width, _ = x.source.shape
    window = Window((height if "h" in atoms else 1, width if "w" in atoms else 1))
    found = x.of(pool(net, x.source, window, node))
    if node.integer("keepdims", 1):
        return found
    return replace(found, axes=tuple(axis for i, axis in enumerate(found.axes) if i not in gone))
