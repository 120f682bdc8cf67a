"""Operators that choose rows, columns and channels: Slice, Split, Gather, Resize by nearest; shuffles by Reshape."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.builder import MAX_SIDE, Builder
from intrs.exchange.onnx import constants as const
from intrs.exchange.onnx.activations import Joined, gathered
from intrs.exchange.onnx.operators.registry import Inputs, operator
from intrs.exchange.onnx.values import NCHW, Axes, Piece, Value, View, Whole, axis_number, dims_of, numbers
from intrs.exchange.refusal import Refusal
from intrs.network import Gather

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from intrs.exchange.onnx.file import Node

    Indices = NDArray[Any]

FIELDS: dict[Whole, str] = {"h": "rows", "w": "columns", "c": "channels"}
MAX_PARTS = 1024  # of a Split


def pick(net: Builder, node: Node, x: View, chosen: dict[Whole, Indices], axes: Axes | None = None) -> View:
    """The view with these values of some atoms only, in this order; nothing where that is all of them in order."""
    lists = {atom: found for atom, found in chosen.items() if not np.array_equal(found, np.arange(x.size(atom)))}
    if not lists:
        return x.of(x.source, axes)
    if any(not 1 <= len(found) <= MAX_SIDE for found in lists.values()):
        raise Refusal(f"it leaves nothing of an axis, or more than {MAX_SIDE} values")
    net.budget.spend(0, sum(4 * len(found) for found in lists.values()))
    fields = {FIELDS[atom]: found.astype(np.int32) for atom, found in lists.items()}
    return x.of(gathered(net, x.source, Gather((0,), **fields, name=node.name), node), axes)


def atom_of(x: View, axis: int) -> Whole | None:
    """The atom that an axis runs over; None for an axis of size 1."""
    atoms = x.axes[axis]
    if not atoms:
        return None
    atom = atoms[0]
    if len(atoms) > 1 or isinstance(atom, Piece) or atom == "n":
        raise Refusal(f"it takes a part of axis {axis} of shape {x.dims}, which is not height, width or channels alone")
    return atom


def along(net: Builder, node: Node, x: View, axis: int, indices: range | Indices) -> View:
    """The values at these places of an axis. They are listed only if the axis is one that can be taken apart."""
    if isinstance(indices, range) and indices == range(x.dims[axis]):
        return x
    atom = atom_of(x, axis)
    if atom is None:
        raise Refusal(f"it repeats or empties axis {axis} of shape {x.dims}")
    return pick(net, node, x, {atom: np.asarray(indices)})


def in_order(net: Builder, node: Node, x: View) -> View:
    """A view in which pieces of an atom that have come together in another order are that atom again, moved."""
    atoms: tuple[Whole, ...] = ("h", "w", "c")
    for atom in atoms:
        for number, axis in enumerate(x.axes):
            spots = [i for i, found in enumerate(axis) if isinstance(found, Piece) and found.atom == atom]
            pieces = [found for found in axis if isinstance(found, Piece) and found.atom == atom]
            if not pieces or prod(p.size for p in pieces) != x.size(atom) or spots[-1] - spots[0] >= len(spots):
                continue
            indices: Indices = np.zeros(1, np.int64)
            for piece in pieces:
                indices = (indices[:, None] + piece.step * np.arange(piece.size)).ravel()
            merged = (*axis[: spots[0]], atom, *axis[spots[-1] + 1 :])
            x = pick(net, node, x, {atom: indices}, (*x.axes[:number], merged, *x.axes[number + 1 :]))
    return x


@operator("Slice")
def _slice(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.need(0)
    starts = inputs.integers(1) or node.integers("starts") or ()
    ends = inputs.integers(2) or node.integers("ends") or ()
    axes = inputs.integers(3) or node.integers("axes") or tuple(range(len(starts)))
    steps = inputs.integers(4) or (1,) * len(starts)
    if isinstance(x, np.ndarray):
        return const.slices(x, starts, ends, axes, steps)
    if not isinstance(x, View):
        raise Refusal("it takes a part of a quantised constant")
    const.check_slices(starts, ends, axes, steps)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        number = x.axis(axis)
        x = along(net, node, x, number, range(x.dims[number])[const.part(start, end, step, x.dims[number])])
    return x


@operator("Split")
def _split(net: Builder, node: Node, inputs: Inputs) -> list[Value]:
    x, parts = inputs.need(0), len(node.outputs)
    axis = axis_number(node.integer("axis", 0), len(dims_of(x)))
    size = dims_of(x)[axis]
    each = -(-size // max(parts, 1))
    sizes = inputs.integers(1) or node.integers("split") or [min(each, size - i * each) for i in range(parts)]
    if len(sizes) != parts or parts > MAX_PARTS or min(sizes) < 1 or sum(sizes) != size:
        raise Refusal(f"it cuts axis {axis} of shape {dims_of(x)} in parts of {tuple(sizes)}, which do not fit")
    spans = [range(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]
    if isinstance(x, View):
        return [along(net, node, x, axis, span) for span in spans]
    if not isinstance(x, np.ndarray):
        raise Refusal("it cuts a quantised constant")
    return [const.slices(x, [span.start], [span.stop], [axis], [1]) for span in spans]


@operator("Gather")
def _gather(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, indices, axis = inputs.need(0), inputs.array(1), node.integer("axis", 0)
    if isinstance(x, np.ndarray):
        return const.gather(x, indices, axis)
    if not isinstance(x, View):
        raise Refusal("it gathers from a quantised constant")
    axis = x.axis(axis)
    found = const.counted_from_zero(indices, x.dims[axis])
    if found.size == x.dims[axis] and np.array_equal(found.ravel(), np.arange(found.size)):
        return in_order(net, node, x.reshape((*x.dims[:axis], *found.shape, *x.dims[axis + 1 :])))
    if found.ndim > 1:
        raise Refusal(f"it gathers by indices of shape {found.shape}; intrs moves one axis at a time")
    x = along(net, node, x, axis, found.reshape(-1))
    return x if found.ndim else x.reshape((*x.dims[:axis], *x.dims[axis + 1 :]))


@operator("SpaceToDepth")
def _space_to_depth(net: Builder, node: Node, inputs: Inputs) -> Value:
    """Every place of a block is an image of its own; all of them, one after the other, are the channels."""
    x, block = inputs.view(0), node.integer("blocksize", 0)
    x.require_image()
    height, width, _ = x.source.shape
    if not 1 <= block <= 16 or height % block or width % block:
        raise Refusal(f"its blocksize {block} is not in 1 .. 16, or does not divide {height} x {width}")
    rows, columns = np.arange(0, height, block), np.arange(0, width, block)
    parts = [pick(net, node, x, {"h": rows + i, "w": columns + j}) for i in range(block) for j in range(block)]
    return x.of(Joined(node, [part.source for part in parts]), NCHW)


# ---- Resize -------------------------------------------------------------------------------------------------------

Place = Fraction  # in the input, for a place of the output
COORDINATES: dict[str, Callable[[int, Fraction], Place]] = {
    "asymmetric": lambda i, scale: i / scale,
    "half_pixel": lambda i, scale: (i + Fraction(1, 2)) / scale - Fraction(1, 2),
}
COORDINATES["half_pixel_symmetric"] = COORDINATES["half_pixel"]  # the same where the size is a multiple
ROUNDINGS: dict[str, Callable[[Place], int]] = {
    "round_prefer_floor": lambda x: -((1 - 2 * x) // 2),
    "round_prefer_ceil": lambda x: int((2 * x + 1) // 2),
    "floor": lambda x: int(x // 1),
    "ceil": lambda x: -int(-x // 1),
}


@operator("Resize", "Upsample")
def _resize(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    x.require_image()
    if (mode := node.text("mode", "nearest")) != "nearest":
        raise Refusal(f"its mode {mode!r} is not supported; only 'nearest' is, since others mix neighbouring places")
    scales = _scales(node, inputs, x)
    if scales[:2] != [1, 1]:
        raise Refusal("it resizes the batch or the channels; intrs resizes height and width")
    sizes = zip(scales[2:], x.source.shape[:2], strict=True)
    rows, columns = (_nearest(net, node, scale, size) for scale, size in sizes)
    return pick(net, node, x, {"h": rows, "w": columns}, NCHW)


def _is_old(node: Node) -> bool:
    """Whether it is an Upsample, or the Resize of opset 10: of two inputs, with the places of Upsample."""
    return node.op == "Upsample" or len(node.inputs) == 2


def _scales(node: Node, inputs: Inputs, x: View) -> list[Fraction]:
    """One factor per axis, from the scales or the sizes that the node has."""
    at = 1 if _is_old(node) else 2
    axes = [x.axis(axis) for axis in node.integers("axes") or range(len(x.axes))]
    given = inputs.get(at)
    if given is not None and 0 not in dims_of(given):
        factors = numbers(given, "its scales")
    elif (sizes := inputs.integers(3)) is not None:
        if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Refusal("it keeps the aspect ratio; give it the sizes that come out")
        factors = [Fraction(size, x.dims[axis]) for size, axis in zip(sizes, axes, strict=False)]
    else:
        raise Refusal("it has neither scales nor sizes")
    if len(factors) != len(axes) or len(set(axes)) != len(axes):
        raise Refusal(f"its {len(factors)} scales or sizes do not fit its axes")
    found = dict(zip(axes, factors, strict=True))
    return [found.get(axis, Fraction(1)) for axis in range(len(x.axes))]


def _nearest(net: Builder, node: Node, scale: Fraction, size: int) -> Indices:
    """Which row or column of the input each of the output is.

    For factors that are integers, or one half, a quarter and so on, the places are exact in floats too: an engine
    that computes them in floats finds the same.
    """
    exact_half = scale.numerator == 1 and scale.denominator & (scale.denominator - 1) == 0
    if scale.denominator != 1 and not exact_half:
        raise Refusal(f"it resizes {size} by {float(scale):.4g}; intrs resizes by integer factors, 1/2, 1/4 and so on")
    if not 1 <= scale * size <= MAX_SIDE or (exact_half and size % scale.denominator):
        raise Refusal(f"it resizes {size} by {float(scale):.4g}, which is not a whole number in 1 .. {MAX_SIDE}")
    old = _is_old(node)
    mode = "asymmetric" if old else node.text("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else node.text("nearest_mode", "round_prefer_floor")
    if mode == "pytorch_half_pixel":  # the same but for an output of one row or column, which is the first
        mode = "half_pixel" if scale * size > 1 else "asymmetric"
    if mode not in COORDINATES or rounding not in ROUNDINGS:
        known = ", ".join((*COORDINATES, "pytorch_half_pixel"))
        raise Refusal(f"its coordinate_transformation_mode {mode!r} or nearest_mode {rounding!r} is not among {known}")
    net.budget.spend(int(scale * size))
    places = (ROUNDINGS[rounding](COORDINATES[mode](i, scale)) for i in range(int(scale * size)))
    return np.clip(np.fromiter(places, np.int64), 0, size - 1)
