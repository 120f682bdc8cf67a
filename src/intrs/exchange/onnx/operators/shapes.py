"""Operators that rearrange, join and pad activations, and those that compute constants."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.builder import Builder, Pads, check_shape
from intrs.exchange.onnx import constants as const
from intrs.exchange.onnx.activations import Joined, Padded, Stored, settled
from intrs.exchange.onnx.operators.registry import MAX_ATTRIBUTE, Inputs, operator
from intrs.exchange.onnx.tensors import MAX_RANK, to_array
from intrs.exchange.onnx.values import Axes, Constant, Value, View, axis_number, dims_of, numbers
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.exchange.onnx.file import Node

LOWEST = Fraction(-(2**128))  # for a padding of minus infinity; saturates on any grid
FLOATS = (1, 10, 11)  # data types

# ---- shape --------------------------------------------------------------------------------------------------------


@operator("Identity", "Dropout")
def _identity(net: Builder, node: Node, inputs: Inputs) -> Value:
    if node.op == "Dropout" and inputs.get(2) is not None and inputs.array(2).any():
        raise Refusal("it is in training mode")
    return inputs.need(0)


@operator("Cast")
def _cast(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, to = inputs.need(0), node.integer("to", 0)
    if isinstance(x, np.ndarray):
        return const.cast(x, to)
    if to not in FLOATS:
        raise Refusal("it casts an activation to integers; use QuantizeLinear")
    return View(x.source, x.axes, x.batch) if isinstance(x, View) else x


@operator("Shape")
def _shape(net: Builder, node: Node, inputs: Inputs) -> Value:
    dims = dims_of(inputs.need(0))
    return np.array(dims[slice(node.integer("start", 0), node.integer("end", len(dims)))], np.int64)


def _reshaped(x: Value, dims: Sequence[int]) -> Value:
    if len(dims) > MAX_RANK:
        raise Refusal(f"it reshapes to {len(dims)} axes; at most {MAX_RANK} are read")
    if prod(dims) != prod(dims_of(x)) or any(size < 1 for size in dims):
        raise Refusal(f"it reshapes {dims_of(x)} to {tuple(dims)}, which is another number of elements")
    return x.reshape(dims) if isinstance(x, View) else const.reshape(x, dims)


@operator("Reshape")
def _reshape(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, dims = inputs.need(0), list(inputs.integers(1) or node.integers("shape") or ())
    old = dims_of(x)
    for i, size in enumerate(dims):
        if size == 0 and not node.integer("allowzero", 0):
            if i >= len(old):
                raise Refusal("its shape copies an axis that its input does not have")
            dims[i] = old[i]
    if dims.count(-1) == 1:
        rest = -prod(dims)
        if rest < 1 or prod(old) % rest:
            raise Refusal(f"it reshapes {old} to {tuple(dims)}, which is another number of elements")
        dims[dims.index(-1)] = prod(old) // rest
    return _reshaped(x, dims)


@operator("Flatten")
def _flatten(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, axis = inputs.need(0), node.integer("axis", 1)
    dims = dims_of(x)
    if axis != len(dims):
        axis = axis_number(axis, len(dims))
    return _reshaped(x, (prod(dims[:axis]), prod(dims[axis:])))


@operator("Transpose")
def _transpose(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.need(0)
    rank = len(dims_of(x))
    order = node.integers("perm") or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise Refusal(f"its perm {order} is not an order of {rank} axes")
    return x.transpose(order) if isinstance(x, View) else const.transpose(x, order)


@operator("Squeeze", "Unsqueeze")
def _squeeze(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, axes = inputs.need(0), inputs.integers(1) or node.integers("axes")
    dims = list(dims_of(x))
    if node.op == "Squeeze":
        gone = {axis_number(a, len(dims)) for a in axes} if axes else {i for i, d in enumerate(dims) if d == 1}
        if any(dims[i] != 1 for i in gone):
            raise Refusal(f"it squeezes axes {axes} of shape {tuple(dims)}, which are not all 1")
        return _reshaped(x, [d for i, d in enumerate(dims) if i not in gone])
    if not axes:
        raise Refusal("it has no axes")
    rank = len(dims) + len(axes)
    for axis in sorted({axis_number(a, rank) for a in axes}):
        dims.insert(axis, 1)
    return _reshaped(x, dims)


@operator("Pad")
def _pad(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    x.require_image()
    if node.text("mode", "constant") != "constant":
        raise Refusal(f"its mode {node.text('mode', '')!r} is not supported; only constant padding is")
    top, bottom, left, right = pad = _pads(node, inputs)
    if not any(pad):
        return x
    value = _pad_value(node, inputs)
    height, width, _ = x.source.shape
    check_shape((height + top + bottom, width + left + right, x.source.shape[2]))
    if x.source.grid is None:
        return x.of(Padded(node, x.source, pad, value))
    stored = settled(net, x.source, node)
    tensor = Padded(node, stored, pad, value).on(net, stored.grid)
    return x.of(Stored(node, net, tensor, stored.grid))


def _pads(node: Node, inputs: Inputs) -> Pads:
    pads = inputs.integers(1) or node.integers("pads") or ()
    axes = [axis_number(a, 4) for a in inputs.integers(3) or (0, 1, 2, 3)]
    if len(pads) != 2 * len(axes) or not all(0 <= p <= MAX_ATTRIBUTE for p in pads):
        raise Refusal(f"its pads {pads} do not fit its axes, are negative, or exceed {MAX_ATTRIBUTE}")
    before = dict(zip(axes, pads, strict=False))
    after = dict(zip(axes, pads[len(axes) :], strict=True))
    if len(before) != len(axes) or any(side.get(axis, 0) for side in (before, after) for axis in (0, 1)):
        raise Refusal("it pads the batch or the channels, or an axis twice; intrs pads height and width")
    return before.get(2, 0), after.get(2, 0), before.get(3, 0), after.get(3, 0)


def _pad_value(node: Node, inputs: Inputs) -> Fraction:
    if (value := inputs.get(2)) is None:
        return node.number("value", 0.0)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind == "f" and np.isneginf(value).all():
        return LOWEST
    if prod(dims_of(value)) != 1:
        raise Refusal("its constant_value is not a single number")
    return numbers(value, "its constant_value")[0]


@operator("Concat")
def _concat(net: Builder, node: Node, inputs: Inputs) -> Value:
    values = [inputs.need(i) for i in range(len(inputs))]
    if values and all(isinstance(value, np.ndarray) for value in values):
        return const.concat([inputs.array(i) for i in range(len(inputs))], node.integer("axis", 0))
    return join(node, [inputs.view(i) for i in range(len(inputs))])


def join(node: Node, parts: list[View]) -> View:
    """Concat along channels."""
    if not parts:
        raise Refusal("it has no inputs")
    first = parts[0]
    axis = first.axis(node.integer("axis", 0))
    spots = {part.channel_axis() for part in parts}
    alike = {(len(p.axes), p.source.shape[:2], p.kind, p.batch) for p in parts}
    if spots != {axis} or len(alike) != 1:
        raise Refusal("it joins along something else than channels, or its inputs differ in height, width or type")
    axes: Axes = (*first.axes[:axis], ("c",), *first.axes[axis + 1 :])
    return first.of(Joined(node, [part.source for part in parts]), axes)


# ---- constants ----------------------------------------------------------------------------------------------------


@operator("Constant")
def _constant(net: Builder, node: Node, inputs: Inputs) -> Value:
    if (tensor := node.tensor("value")) is not None:
        return to_array(tensor, inputs.folder)
    if "value_float" in node.attributes:
        return np.array(float(node.number("value_float", 0.0)), np.float32)
    if "value_int" in node.attributes:
        return np.array(node.integer("value_int", 0), np.int64)
    if (ints := node.integers("value_ints")) is not None:
        return np.array(ints, np.int64)
    raise Refusal("it holds neither a tensor nor numbers")


@operator("ConstantOfShape")
def _constant_of_shape(net: Builder, node: Node, inputs: Inputs) -> Value:
    tensor = node.tensor("value")
    value: Constant = np.zeros(1, np.float32) if tensor is None else to_array(tensor, inputs.folder)
    return const.full(inputs.integers(0) or (), value)


@operator("Gather")
def _gather(net: Builder, node: Node, inputs: Inputs) -> Value:
    return const.gather(inputs.array(0), inputs.array(1), node.integer("axis", 0))


@operator("Slice")
def _slice(net: Builder, node: Node, inputs: Inputs) -> Value:
    data = inputs.array(0)
    starts = inputs.integers(1) or node.integers("starts") or ()
    ends = inputs.integers(2) or node.integers("ends") or ()
    axes = inputs.integers(3) or node.integers("axes") or tuple(range(len(starts)))
    steps = inputs.integers(4) or (1,) * len(starts)
    return const.slices(data, starts, ends, axes, steps)
