"""Operators that rearrange, join and pad activations, and those that compute constants."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.builder import Builder, Pads, check_shape
from intrs.exchange.onnx import constants as const
from intrs.exchange.onnx.activations import Activation, Constants, Joined, Padded, Stacked, Stored, code_grid, settled
from intrs.exchange.onnx.operators.gathers import atom_of, in_order
from intrs.exchange.onnx.operators.registry import MAX_ATTRIBUTE, Inputs, operator
from intrs.exchange.onnx.tensors import MAX_RANK, to_array
from intrs.exchange.onnx.values import (
    NCHW,
    Axes,
    Constant,
    Scaled,
    Value,
    View,
    Whole,
    axis_number,
    dims_of,
    numbers,
)
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.exchange.integers import Grid
    from intrs.exchange.onnx.file import Node

LOWEST = Fraction(-(2**128))  # for a padding of minus infinity; saturates on any grid
FLOATS = (1, 10, 11)  # data types
ATOMS: tuple[Whole, ...] = ("n", "c", "h", "w")  # as an image has them

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


def _reshaped(net: Builder, node: Node, x: Value, dims: Sequence[int]) -> Value:
    if len(dims) > MAX_RANK:
        raise Refusal(f"it reshapes to {len(dims)} axes; at most {MAX_RANK} are read")
    if prod(dims) != prod(dims_of(x)) or any(size < 1 for size in dims):
        raise Refusal(f"it reshapes {dims_of(x)} to {tuple(dims)}, which is another number of elements")
    return in_order(net, node, x.reshape(dims)) if isinstance(x, View) else const.reshape(x, dims)


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
    return _reshaped(net, node, x, dims)


@operator("Flatten")
def _flatten(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, axis = inputs.need(0), node.integer("axis", 1)
    dims = dims_of(x)
    if axis != len(dims):
        axis = axis_number(axis, len(dims))
    return _reshaped(net, node, x, (prod(dims[:axis]), prod(dims[axis:])))


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
        return _reshaped(net, node, x, [d for i, d in enumerate(dims) if i not in gone])
    if not axes:
        raise Refusal("it has no axes")
    rank = len(dims) + len(axes)
    for axis in sorted({axis_number(a, rank) for a in axes}):
        dims.insert(axis, 1)
    return _reshaped(net, node, x, dims)


@operator("Pad")
def _pad(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    x.require_image()
    if node.text("mode", "constant") != "constant":
        raise Refusal(f"its mode {node.text('mode', '')!r} is not supported; only constant padding is")
    pad, channels = _pads(node, inputs)
    if not any(pad) and not any(channels):
        return x
    value = _pad_value(node, inputs)
    (height, width, count), (top, bottom, left, right) = x.source.shape, pad
    check_shape((height + top + bottom, width + left + right, count + sum(channels)))
    if x.kind != "real" and not _lies_on(code_grid(x.kind == "uint8"), value):
        raise Refusal(f"its constant_value is not among the codes of its input, which are {x.kind}")
    if x.source.grid is None or not _lies_on(x.source.grid, value):
        return x.of(_padded(node, x.source, pad, channels, value), NCHW)
    stored = settled(net, x.source, node)
    tensor = _padded(node, stored, pad, channels, value).on(net, stored.grid)
    return x.of(Stored(node, net, tensor, stored.grid), NCHW)


def _lies_on(grid: Grid, value: Fraction) -> bool:
    return grid.value(grid.code(value)) == value


def _padded(node: Node, x: Activation, pad: Pads, channels: tuple[int, int], value: Fraction) -> Activation:
    """Padded first in height and width, then by channels before and after."""
    x = Padded(node, x, pad, value) if any(pad) else x
    if not any(channels):
        return x
    before, after = ([Constants(node, (value,) * count, x)] if count else [] for count in channels)
    return Joined(node, [*before, x, *after])


def _pads(node: Node, inputs: Inputs) -> tuple[Pads, tuple[int, int]]:
    """Of height and width, and of channels."""
    pads = inputs.integers(1) or node.integers("pads") or ()
    axes = [axis_number(a, 4) for a in inputs.integers(3) or (0, 1, 2, 3)]
    if len(pads) != 2 * len(axes) or not all(0 <= p <= MAX_ATTRIBUTE for p in pads):
        raise Refusal(f"its pads {pads} do not fit its axes, are negative, or exceed {MAX_ATTRIBUTE}")
    before = dict(zip(axes, pads, strict=False))
    after = dict(zip(axes, pads[len(axes) :], strict=True))
    if len(before) != len(axes) or any(side.get(0, 0) for side in (before, after)):
        raise Refusal("it pads the batch, or an axis twice; intrs pads channels, height and width")
    ends = [(before.get(axis, 0), after.get(axis, 0)) for axis in (1, 2, 3)]
    return (*ends[1], *ends[2]), ends[0]


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
    return join(net, node, values)


def join(net: Builder, node: Node, values: list[Value]) -> View:
    """Concat along channels, height or width; constants along channels."""
    views = [value for value in values if isinstance(value, View)]
    if not views:
        raise Refusal("it has no inputs, or joins quantised constants")
    parts = [v if isinstance(v, View) else _constant_part(net, node, v, views[0]) for v in values]
    first = parts[0]
    axis = first.axis(node.integer("axis", 0))
    atom = _common_atom(parts, axis)
    axes: Axes = (*first.axes[:axis], (atom,), *first.axes[axis + 1 :])
    alike = {(*(a for i, a in enumerate(p.axes) if i != axis), p.kind, p.batch, len(p.axes)) for p in parts}
    sizes = {tuple(p.size(a) for a in ATOMS if a != atom) for p in parts}
    if len(alike) != 1 or len(sizes) != 1 or any(p.size(atom) != p.dims[axis] for p in parts):
        raise Refusal("its inputs differ in what their other axes are, in their sizes, or in type")
    sources = [part.source for part in parts]
    if atom == "c":
        return first.of(Joined(node, sources), axes)
    return first.of(Stacked(node, sources, 0 if atom == "h" else 1), axes)


def _common_atom(parts: list[View], axis: int) -> Whole:
    """What an axis of these views runs over: by their sizes, or by its place if all have the size 1 there."""
    found = {atom_of(part, part.axis(axis)) for part in parts} - {None}
    if len(found) > 1:
        raise Refusal("its inputs are seen in different ways")
    atom = found.pop() if found else None
    if atom is None:
        atom = ATOMS[axis] if len(parts[0].axes) == len(ATOMS) else "c"
    if atom == "n":
        raise Refusal("it joins along the batch")
    return atom


def _constant_part(net: Builder, node: Node, value: Constant | Scaled, other: View) -> View:
    """A constant that is joined to the channels of an activation: one number per channel."""
    axis, dims = other.axis(node.integer("axis", 0)), dims_of(value)
    if len(dims) != len(other.dims) or any(
        a != b for i, (a, b) in enumerate(zip(dims, other.dims, strict=True)) if i != axis
    ):
        raise Refusal(f"its constant of shape {dims} does not fit its input of shape {other.dims}")
    if other.channel_axis() != axis or (isinstance(value, Scaled) and len(value.scales) > 1):
        raise Refusal("it joins a constant along something else than channels, or one with a scale per channel")
    codes = np.moveaxis(value.codes if isinstance(value, Scaled) else value, axis, 0).reshape(dims[axis], -1)
    if not dims[axis] or (codes != codes[:, :1]).any():
        raise Refusal("it joins a constant that is empty, or differs from place to place")
    net.budget.spend(dims[axis])
    column = Scaled(codes[:, 0], value.scales) if isinstance(value, Scaled) else codes[:, 0]
    constants = Constants(node, tuple(numbers(column, "its constant")), other.source)
    return other.of(constants, (*other.axes[:axis], ("c",), *other.axes[axis + 1 :]))


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


@operator("Expand")
def _expand(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, dims = inputs.need(0), inputs.integers(1) or ()
    if isinstance(x, np.ndarray):
        return const.expand(x, dims)
    try:
        changed = np.broadcast_shapes(dims_of(x), dims) != dims_of(x)
    except ValueError:
        changed = True
    if changed:
        raise Refusal(f"it repeats an activation of shape {dims_of(x)} to {dims}")
    return x


@operator("Range")
def _range(net: Builder, node: Node, inputs: Inputs) -> Value:
    return const.arange(*(inputs.array(i) for i in range(3)))
