"""Operators that move or choose numbers, and the arithmetic of shapes that converters write."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.file import MAX_RANK
from intrs.exchange.tflite.operators.registry import Lowering, operator
from intrs.exchange.tflite.operators.tables import joined
from intrs.exchange.tflite.values import PLACE, Constant, Value, View
from intrs.network import INT8, Concat, ConvDouble, Pad, Rescale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

CHANNELS = 3  # the axis of an image
MAX_PLACES = 2**26
IDENTITY_WEIGHT = 64  # with a shift that the fast kernels take: 64 * 2^30 / 2^36 = 1
IDENTITY = Rescale(np.array([1 << 30], np.int32), np.array([36], np.int8))


def _moved(step: Lowering, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Value:
    """What is left when numbers are moved or chosen: of a constant now, of an activation as another view."""
    value = step.get(0)
    if isinstance(value, Constant):
        return Constant(move(value.array), value.tensor)
    view = step.view(0)
    step.net.budget.spend(0, view.listed)
    return view.showing(np.ascontiguousarray(move(view.places())))


@operator("RESHAPE")
def _reshape(step: Lowering) -> Value:
    given = isinstance(step.get(1), Constant)
    return _reshaped(step, step.integers(1) if given else _listed(step.options("ReshapeOptions")["new_shape"]))


def _listed(numbers: NDArray[np.int32]) -> tuple[int, ...]:
    """The numbers of an option, at most one per axis."""
    if numbers.size > MAX_RANK:
        raise Refusal(f"it has a list of {numbers.size} axes; at most {MAX_RANK} are read")
    return tuple(numbers.tolist())


@operator("SQUEEZE")
def _squeeze(step: Lowering) -> Value:
    dims = _dims(step.get(0))
    chosen = {axis % max(len(dims), 1) for axis in _listed(step.options("SqueezeOptions")["squeeze_dims"])}
    return _reshaped(step, tuple(n for i, n in enumerate(dims) if n != 1 or (chosen and i not in chosen)))


@operator("EXPAND_DIMS")
def _expand(step: Lowering) -> Value:
    dims, (axis, *_) = _dims(step.get(0)), (*step.integers(1), 0)
    if not -len(dims) - 1 <= axis <= len(dims):
        raise Refusal(f"its axis {axis} does not exist")
    place = axis % (len(dims) + 1)
    return _reshaped(step, (*dims[:place], 1, *dims[place:]))


def _reshaped(step: Lowering, dims: tuple[int, ...]) -> Value:
    value = step.get(0)
    count = prod(_dims(value))
    known = prod(size for size in dims if size != -1)
    if dims.count(-1) > 1 or known < 1 or count % known or (-1 not in dims and known != count) or len(dims) > MAX_RANK:
        raise Refusal(f"it reshapes {_dims(value)} to {dims}")
    dims = tuple(count // known if size == -1 else size for size in dims)
    return Constant(value.array.reshape(dims)) if isinstance(value, Constant) else step.view(0).reshape(dims)


def _dims(value: Value | None) -> tuple[int, ...]:
    if value is None:
        raise Refusal("its input is missing")
    return tuple(value.array.shape) if isinstance(value, Constant) else value.dims


@operator("SHAPE")
def _shape(step: Lowering) -> Constant:
    return Constant(np.array(_dims(step.get(0)), np.int64))


@operator("CAST")
def _cast(step: Lowering) -> Constant:
    array = step.constant(0).array
    step.net.budget.spend(0, 8 * array.size)
    return Constant(array.astype(np.int64))


@operator("PACK")
def _pack(step: Lowering) -> Constant:
    arrays = [step.constant(number).array for number in range(len(step.inputs))]
    if len({array.shape for array in arrays}) != 1 or arrays[0].ndim > 1 or arrays[0].size > 64:
        raise Refusal("it joins activations, or constants of different shapes")
    return Constant(np.stack(arrays))


@operator("TRANSPOSE")
def _transpose(step: Lowering) -> Value:
    order = step.integers(1)
    if sorted(order) != list(range(len(_dims(step.get(0))))):
        raise Refusal(f"its order {order} is not one of the axes")
    return _moved(step, lambda x: x.transpose(order))


@operator("STRIDED_SLICE")
def _strided_slice(step: Lowering) -> Value:
    options = step.options("StridedSliceOptions")
    begin, end, stride = (step.integers(number) for number in (1, 2, 3))
    rank = len(_dims(step.get(0)))
    if options["ellipsis_mask"] or options["new_axis_mask"] or options["offset"] or 0 in stride:
        raise Refusal("its masks or strides are not supported")
    if not len(begin) == len(end) == len(stride) <= rank:
        raise Refusal("its begin, end and strides do not fit its input")
    cuts: list[slice | int] = []
    for axis, (first, last, by) in enumerate(zip(begin, end, stride, strict=True)):
        bit = 1 << axis
        if options["shrink_axis_mask"] & bit:
            cuts.append(first)
            continue
        cuts.append(
            slice(None if options["begin_mask"] & bit else first, None if options["end_mask"] & bit else last, by)
        )
    return _cut(step, cuts)


@operator("SLICE")
def _slice(step: Lowering) -> Value:
    begin, size = step.integers(1), step.integers(2)
    if len(begin) != len(size) or min(begin, default=0) < 0:
        raise Refusal("its begin and size do not fit its input")
    return _cut(step, [slice(b, None if s == -1 else b + s) for b, s in zip(begin, size, strict=True)])


def _cut(step: Lowering, cuts: Sequence[slice | int]) -> Value:
    if len(cuts) > len(_dims(step.get(0))):
        raise Refusal("it cuts more axes than its input has")
    for cut, size in zip(cuts, _dims(step.get(0)), strict=False):
        if (isinstance(cut, int) and not -size <= cut < size) or (isinstance(cut, slice) and not range(size)[cut]):
            raise Refusal("it cuts out nothing")
    return _moved(step, lambda x: np.asarray(x[tuple(cuts)]))


@operator("SPLIT")
def _split(step: Lowering) -> list[Value]:
    axis, count = step.integer(0), step.options("SplitOptions")["num_splits"]
    view = step.view(1)
    exists = -len(view.dims) <= axis < len(view.dims)
    if not exists or count != len(step.outputs) or count < 1 or view.dims[axis] % count:
        raise Refusal(f"it does not divide axis {axis} of {view.dims} in {count} equal parts")
    step.net.budget.spend(0, view.listed)
    return [view.showing(np.ascontiguousarray(part)) for part in np.split(view.places(), count, axis)]


@operator("SPLIT_V")
def _split_v(step: Lowering) -> list[Value]:
    view, sizes, axis = step.view(0), step.integers(1), step.integer(2)
    if not -len(view.dims) <= axis < len(view.dims) or min(sizes, default=0) < 1 or sum(sizes) != view.dims[axis]:
        raise Refusal(f"it does not divide axis {axis} of {view.dims} in {sizes}")
    step.net.budget.spend(0, view.listed)
    parts = np.split(view.places(), np.cumsum(sizes)[:-1], axis)
    return [view.showing(np.ascontiguousarray(part)) for part in parts]


@operator("GATHER")
def _gather(step: Lowering) -> Value:
    options, dims, places = step.options("GatherOptions"), _dims(step.get(0)), step.constant(1).array
    axis = options["axis"]
    if options["batch_dims"] or not -len(dims) <= axis < len(dims) or places.ndim > 1 or not places.size:
        raise Refusal("it gathers along an axis that does not exist, or by a table; this is not supported")
    if places.dtype.kind != "i" or not 0 <= int(places.min()) <= int(places.max()) < dims[axis]:
        raise Refusal("it gathers places that do not exist")
    _grown(step, prod(dims) // dims[axis] * places.size)
    return _moved(step, lambda x: np.asarray(np.take(x, places, axis)))


@operator("TILE")
def _tile(step: Lowering) -> Value:
    dims, times = _dims(step.get(0)), step.integers(1)
    if len(times) != len(dims) or min(times, default=1) < 1:
        raise Refusal("its multiples do not fit its input")
    _grown(step, prod(dims) * prod(times))
    return _moved(step, lambda x: np.tile(x, times))


@operator("MIRROR_PAD")
def _mirror_pad(step: Lowering) -> Value:
    dims, pads = _dims(step.get(0)), step.constant(1).array
    edge = step.options("MirrorPadOptions")["mode"]  # 0: the border is not repeated
    if pads.shape != (len(dims), 2) or pads.min() < 0 or (pads.max(axis=1) > np.array(dims) - 1 + edge).any():
        raise Refusal("its padding does not fit its input")
    _grown(step, prod(int(size + pad.sum()) for size, pad in zip(dims, pads, strict=True)))
    return _moved(step, lambda x: np.pad(x, pads, "symmetric" if edge else "reflect"))


def _grown(step: Lowering, count: int) -> None:
    """Account for a list of so many places, or for a constant of so many numbers."""
    if count > MAX_PLACES:
        raise Refusal("what it makes is too large")
    value = step.get(0)
    step.net.budget.spend(0, count * (value.array.itemsize if isinstance(value, Constant) else PLACE))


@operator("RESIZE_NEAREST_NEIGHBOR")
def _resize(step: Lowering) -> Value:
    options, dims, size = step.options("ResizeNearestNeighborOptions"), _dims(step.get(0)), step.integers(1)
    if len(dims) != 4 or len(size) != 2 or min(size) < 1:
        raise Refusal("it does not resize an image")
    if any(options[name] for name in ("align_corners", "half_pixel_centers")) and any(
        n % d for n, d in zip(size, dims[1:3], strict=True)
    ):
        raise Refusal("it aligns corners or centres by a factor that is not whole; this is not supported")
    if options["align_corners"]:
        raise Refusal("it aligns corners; this is not supported")
    _grown(step, prod(size) * dims[3])
    rows, columns = (_nearest(n, d) for n, d in zip(size, dims[1:3], strict=True))
    return _moved(step, lambda x: x[:, rows][:, :, columns])


def _nearest(size: int, source: int) -> NDArray[np.int64]:
    """Which row or column of the source each one of the result shows: the kernel's float32."""
    scale = np.float32(source) / np.float32(size)
    places: NDArray[np.int64] = np.minimum(
        np.floor(np.arange(size, dtype=np.float32) * scale).astype(np.int64), source - 1
    )
    return places


@operator("PAD", "PADV2")
def _pad(step: Lowering) -> View:
    tensor, shape, grid = step.image(0)
    pads = step.constant(1).array
    if pads.shape != (4, 2) or pads[0].any() or pads.min() < 0 or pads.max() > 8192:
        raise Refusal("it does not pad an image by a few rows, columns or channels")
    if grid != step.grid:
        raise Refusal("it pads and changes the scale, which the kernels do not")
    value = grid.zero
    if step.operator.op == "PADV2":
        constant = step.constant(2).array
        value = int(constant.ravel()[0]) - (128 if grid.unsigned else 0) if constant.size == 1 else INT8[1] + 1
        if not INT8[0] <= value <= INT8[1]:
            raise Refusal("it must pad by one code")
    (top, bottom), (left, right), channels = ((int(a), int(b)) for a, b in pads[1:])
    if any(channels):
        tensor = _more_channels(step, tensor, shape[2], channels, value)
    if top or bottom or left or right:
        tensor = step.net.add(Pad((tensor,), (top, bottom, left, right), value, name=step.name))
    return step.shown(tensor)


def _more_channels(step: Lowering, tensor: int, depth: int, more: tuple[int, int], value: int) -> int:
    """A convolution that copies channels and adds constant ones."""
    outputs = depth + sum(more)
    step.net.budget.spend(0, outputs * depth)
    zero = step.grid.zero
    weights = np.zeros((outputs, 1, 1, depth), np.int8)
    weights[more[0] + np.arange(depth), 0, 0, np.arange(depth)] = IDENTITY_WEIGHT
    bias = np.full(outputs, (value - zero) * IDENTITY_WEIGHT, np.int32)
    bias[more[0] : more[0] + depth] = 0
    sides = (1, 1), (1, 1), (0, 0, 0, 0)
    return step.net.add(ConvDouble((tensor,), weights, bias, 1, *sides, zero, IDENTITY, zero, name=step.name))


@operator("CONCATENATION")
def _concatenation(step: Lowering) -> Value:
    options = step.options("ConcatenationOptions")
    if all(isinstance(value, Constant) for value in step.inputs):
        arrays = [step.constant(number).array for number in range(len(step.inputs))]
        if not arrays or any(array.ndim != 1 or array.size > 64 for array in arrays):
            raise Refusal("it joins nothing, or constants that are no shapes")
        return Constant(np.concatenate(arrays))
    if options["fused_activation_function"]:
        raise Refusal("its fused activation is not supported")
    views = [step.view(number) for number in range(len(step.inputs))]
    dims, axis = views[0].dims, options["axis"]
    place = axis % len(dims) if dims else 0
    rest = {(*view.dims[:place], *view.dims[place + 1 :]) for view in views}
    if len(rest) != 1 or place != len(dims) - 1:
        raise Refusal(f"it joins along axis {axis} of {dims}; intrs joins channels, the last axis")
    parts = tuple(joined(step, number) for number in range(len(views)))
    return step.add(Concat(parts, name=step.name), (*dims[:-1], sum(view.dims[-1] for view in views)))
