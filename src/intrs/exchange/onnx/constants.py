"""Folding of constants: the few operations with which exporters compute shapes, and rearrangements of weights.

Shapes are small, so every result is bounded; nothing that could be a layer of the network is computed here.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.onnx.tensors import MAX_RANK
from intrs.exchange.onnx.values import Constant, Scaled, axis_number
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_FOLDED = 2**20
_DTYPES = {1: "f4", 2: "u1", 3: "i1", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"}


def cast(value: Constant, to: int) -> Constant:
    """Cast to an ONNX data type; a float that is no integer of that type is refused."""
    if to not in _DTYPES:
        raise Refusal(f"it casts a constant to the unsupported data type {to}")
    with np.errstate(all="ignore"):
        result = value.astype(_DTYPES[to])
        lossless = result.dtype.kind not in "iu" or np.array_equal(result.astype(value.dtype), value)
    if not lossless:
        raise Refusal("it casts a constant to integers that cannot hold it")
    return result


def binary(op: str, a: Constant, b: Constant) -> Constant:
    """Add, Sub, Mul or Div of two constants of one type."""
    if a.dtype != b.dtype or a.dtype.kind not in "if":
        raise Refusal(f"it computes with constants of the types {a.dtype} and {b.dtype}")
    try:
        if prod(np.broadcast_shapes(a.shape, b.shape)) > MAX_FOLDED:
            raise Refusal("it computes a constant that is too large")
    except ValueError:
        raise Refusal(f"it computes with constants of the shapes {a.shape} and {b.shape}") from None
    with np.errstate(all="ignore"):
        return np.asarray(_BINARY[op](a, b))


def _divide(a: Constant, b: Constant) -> Constant:
    if not b.all():
        raise Refusal("it divides a constant by zero")
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (abs(a) // abs(b)))  # integers: towards zero


_BINARY: dict[str, Callable[[Any, Any], Any]] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide}


def gather(data: Constant, indices: Constant, axis: int) -> Constant:
    """Gather from a small constant."""
    axis = axis_number(axis, data.ndim)
    if data.size * max(indices.size, 1) > MAX_FOLDED or indices.dtype.kind != "i":
        raise Refusal("it gathers from a constant that is too large, or with indices that are not integers")
    if data.ndim + indices.ndim - 1 > MAX_RANK:
        raise Refusal(f"it gathers a constant of more than {MAX_RANK} axes")
    return np.asarray(np.take(data, counted_from_zero(indices, data.shape[axis]), axis=axis))


def counted_from_zero(indices: Constant, size: int) -> Constant:
    """Indices of an axis of this size, which may have been counted from its end."""
    if indices.dtype.kind != "i" or indices.size > MAX_FOLDED:
        raise Refusal("it gathers with indices that are not integers, or too many")
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise Refusal(f"it gathers from outside of an axis of {size}")
    return np.where(indices < 0, indices + size, indices)


def concat(parts: Sequence[Constant], axis: int) -> Constant:
    """Concat of constants of one type."""
    axis = axis_number(axis, parts[0].ndim)
    if sum(part.size for part in parts) > MAX_FOLDED or len({part.dtype for part in parts}) != 1:
        raise Refusal("it joins constants that are too large or differ in type")
    try:
        return np.concatenate(parts, axis)
    except ValueError:
        raise Refusal("it joins constants whose shapes do not fit") from None


def slices(
    data: Constant, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Constant:
    """Slice of a constant."""
    check_slices(starts, ends, axes, steps)
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        number = axis_number(axis, data.ndim)
        index[number] = part(start, end, step, data.shape[number])
    return data[tuple(index)]


def check_slices(starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> None:
    """Refuse a Slice whose lists do not belong together."""
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Refusal("its starts, ends, axes and steps do not fit together")


def part(start: int, end: int, step: int, size: int) -> slice:
    """The part of an axis that a Slice takes; its end may lie before the first place."""
    return slice(start, None if step < 0 and end < -size else end, step)


def arange(start: Constant, limit: Constant, step: Constant) -> Constant:
    """Range of integers."""
    if {start.size, limit.size, step.size} != {1} or any(value.dtype.kind != "i" for value in (start, limit, step)):
        raise Refusal("it counts in something else than integers")
    first, end, by = (int(value.ravel()[0]) for value in (start, limit, step))
    if by == 0 or ((found := range(first, end, by)) and len(found) > MAX_FOLDED):
        raise Refusal("it makes a constant that is too large")
    return np.array(found, start.dtype)


def full(shape: Sequence[int], value: Constant) -> Constant:
    """ConstantOfShape."""
    if any(size < 0 for size in shape) or prod(shape) > MAX_FOLDED or value.size != 1:
        raise Refusal("it makes a constant that is too large")
    return np.full(tuple(shape), value.ravel()[0])


def expand(value: Constant, dims: Sequence[int]) -> Constant:
    """Expand of a constant."""
    try:
        shape = np.broadcast_shapes(value.shape, tuple(dims))
    except ValueError:
        raise Refusal(f"it repeats a constant of shape {value.shape} to {tuple(dims)}, which does not fit") from None
    if prod(shape) > MAX_FOLDED or len(shape) > MAX_RANK:
        raise Refusal("it makes a constant that is too large")
    return np.broadcast_to(value, shape).copy()


def quantized(value: Constant, scale: Constant, zero: Constant, axis: int) -> Constant:
    """QuantizeLinear of a float constant, as if in exact arithmetic: round half to even, saturate.

    A double holds the quotient of two float32 well enough: (k + 1/2) * scale has at most 24 + 9 bits, so a tie gives
    exactly k + 1/2, and any other quotient is at least 2**-34 (relative) away from one, far beyond double rounding.
    """
    if value.dtype not in (np.float32, np.float16) or scale.dtype not in (np.float32, np.float16):
        raise Refusal(f"it quantises a constant of type {value.dtype} by a scale of type {scale.dtype}")
    if not np.isfinite(value).all():
        raise Refusal("it quantises a constant that holds a NaN or an infinity")
    codes, limits = value.astype(np.float64), np.iinfo(zero.dtype)
    codes /= along(scale, value.ndim, axis).astype(np.float64)  # in place: doubles of large weights are large
    np.rint(codes, out=codes)
    codes += along(zero, value.ndim, axis).astype(np.float64)
    np.clip(codes, int(limits.min), int(limits.max), out=codes)
    return codes.astype(zero.dtype)


def along(values: Constant, rank: int, axis: int) -> Constant:
    """A scale or zero point shaped so that it broadcasts along its axis."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = -1
    return values.reshape(shape)


def transpose(value: Constant | Scaled, order: Sequence[int]) -> Constant | Scaled:
    """Transpose of a constant, without copying it."""
    return value.transpose(tuple(order))


def reshape(value: Constant | Scaled, dims: Sequence[int]) -> Constant | Scaled:
    """Reshape of a constant; the caller has checked the number of elements."""
    return value.reshape(tuple(dims))
