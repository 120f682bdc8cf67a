"""What a tensor of a TFLite graph is while the graph is read: a constant, or a view of an activation.

An activation lies as (height, width, channels) and never moves. Operators that only move or choose numbers change the
*view*: for each place of the TFLite tensor, the place of the activation that it shows. Most views show all places in
their order, and then there is no list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from intrs.exchange.tflite.arithmetic import Grid
    from intrs.exchange.tflite.file import Tensor
    from intrs.network import Shape

Dims = tuple[int, ...]
PLACE, PART = 4, 2**16  # bytes of a place in a list, and places that are looked at together


@dataclass(frozen=True, eq=False)
class Constant:
    """Values that the file holds, or that follow from shapes alone."""

    array: NDArray[Any]
    tensor: Tensor | None = None


@dataclass(frozen=True, eq=False)
class View:
    """An activation as the graph sees it.

    `tensor` is its number in the network; None for a float image that no QUANTIZE has seen yet. `real`: the graph
    holds floats there.
    """

    tensor: int | None
    shape: Shape
    dims: Dims
    grid: Grid | None
    real: bool = False
    index: NDArray[np.int32] | None = None

    @property
    def listed(self) -> int:
        """Bytes that a list of all its places takes."""
        return PLACE * prod(self.dims)

    def places(self) -> NDArray[np.int32]:
        """For each place of the graph's tensor, the place in the activation."""
        return np.arange(prod(self.shape), dtype=np.int32).reshape(self.dims) if self.index is None else self.index

    def showing(self, index: NDArray[np.int32]) -> View:
        """The same activation, seen by another list of places."""
        in_order = index.size == prod(self.shape) and _counts_up(index.ravel())
        return replace(self, dims=index.shape, index=None if in_order else index)

    def reshape(self, dims: Sequence[int]) -> View:
        """With other dimensions over the same places."""
        if prod(dims) != prod(self.dims) or min(dims, default=1) < 1:
            raise Refusal(f"it reshapes {self.dims} to {tuple(dims)}, which is another number of elements")
        index = None if self.index is None else self.index.reshape(dims)
        return replace(self, dims=tuple(dims), index=index)

    def axes(self) -> tuple[tuple[int, ...], ...]:
        """For each axis of the graph's tensor, the axes of the activation (0, 1, 2) over which it runs."""
        for order in permutations(range(3)) if self.index is not None else [(0, 1, 2)]:
            if self.index is None or np.array_equal(_ordered(self.shape, order), self.index.ravel()):
                return _factored(self.dims, [(axis, self.shape[axis]) for axis in order if self.shape[axis] > 1])
        raise Refusal(f"its input of shape {self.dims} is not a whole image in any order of its axes")


def _counts_up(places: NDArray[np.int32]) -> bool:
    """Whether these are 0, 1, 2 and so on: looked at part by part, because a second list would be as long."""
    parts = range(0, places.size, PART)
    return all(np.array_equal(places[at : at + PART], np.arange(at, min(at + PART, places.size))) for at in parts)


def _ordered(shape: Shape, order: Sequence[int]) -> NDArray[np.int32]:
    return np.arange(prod(shape), dtype=np.int32).reshape(shape).transpose(order).ravel()


def _factored(dims: Dims, sizes: list[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Each dimension as a product of the sizes, taken in their order."""
    rest, found = list(sizes), []
    for size in dims:
        axes = []
        while size > 1:
            if not rest or size % rest[0][1]:
                raise Refusal(f"its input of shape {dims} cuts an axis of the image in pieces")
            axis, most = rest.pop(0)
            axes.append(axis)
            size //= most
        found.append(tuple(axes))
    return tuple(found)


def separated(index: NDArray[np.int32], shape: Shape) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    """Rows, columns and channels whose product these places (height, width, channels) are; None if there are none."""
    _, width, depth = shape
    rows, columns = index[:, 0, 0] // (width * depth), index[0, :, 0] // depth % width
    channels = index[0, 0, :] % depth
    rest = index - (columns[:, None] * depth + channels)
    rest -= rows[:, None, None] * (width * depth)
    return None if rest.any() else (rows, columns, channels)


Value = Constant | View
