"""What a tensor of the graph is while the graph is read: a constant, a scaled constant, or a view of an activation.

An activation lies as (height, width, channels) and never moves. Reshape, Flatten, Transpose, Squeeze and Unsqueeze only
change the *view*: which of the atoms n (batch), c, h and w each axis of the ONNX tensor runs over, slowest first. An
atom of size 1 appears in no axis, so there is one view for each way of looking at the same numbers. A Reshape may cut
an atom in pieces; they become one atom again where they come together in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from intrs.exchange.onnx.tensors import exact
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from intrs.exchange.onnx.activations import Activation

Whole = Literal["n", "c", "h", "w"]


class Piece(NamedTuple):
    """Part of an atom: it runs over `size` of its values that lie `step` apart."""

    atom: Whole
    size: int
    step: int


Atom = Whole | Piece
Axes = tuple[tuple[Atom, ...], ...]
Kind = Literal["real", "int8", "uint8"]
NCHW: Axes = (("n",), ("c",), ("h",), ("w",))
NHWC: Axes = (("n",), ("h",), ("w",), ("c",))
FLAT: Axes = (("n",), ("c",))


@dataclass(frozen=True, eq=False)
class Scaled:
    """A dequantised constant, zero point subtracted: scales[i] * codes, i along `axis`, or one scale for all."""

    codes: NDArray[Any]
    scales: tuple[Fraction, ...]
    axis: int = 0

    def transpose(self, order: Sequence[int]) -> Scaled:
        """With its axes in this order."""
        return Scaled(self.codes.transpose(order), self.scales, list(order).index(self.axis) if self.codes.ndim else 0)

    def reshape(self, dims: Sequence[int]) -> Scaled:
        """With other dimensions, if the axis of the scales survives."""
        same_axis = self.axis == 0 and len(dims) > 0 and dims[0] == self.codes.shape[0]
        if len(self.scales) > 1 and not same_axis:
            raise Refusal("it reshapes the axis that carries the scales of a constant")
        return Scaled(self.codes.reshape(dims), self.scales, 0)

    def values(self) -> list[Fraction]:
        """Every value, exactly, flattened."""
        scales = np.array(self.scales, object)
        if len(self.scales) > 1:
            shape = [1] * self.codes.ndim
            shape[self.axis] = -1
            scales = scales.reshape(shape)
        return list((self.codes.astype(object) * scales).ravel())


@dataclass(frozen=True, eq=False)
class View:
    """An activation as the ONNX graph sees it. `kind` int8 or uint8: its real values are the codes of the file."""

    source: Activation
    axes: Axes
    batch: int
    kind: Kind = "real"

    @property
    def dims(self) -> tuple[int, ...]:
        """The ONNX shape."""
        return tuple(prod(self.size(atom) for atom in axis) for axis in self.axes)

    def size(self, atom: Atom) -> int:
        """How many values an atom runs over."""
        if isinstance(atom, Piece):
            return atom.size
        height, width, channels = self.source.shape
        return {"n": self.batch, "c": channels, "h": height, "w": width}[atom]

    def of(self, source: Activation, axes: Axes | None = None) -> View:
        """The same kind of view of another activation; `axes` as far as its atoms are larger than 1."""
        bare = replace(self, source=source, axes=self.axes if axes is None else axes)
        return replace(bare, axes=tuple(tuple(a for a in axis if bare.size(a) != 1) for axis in bare.axes))

    def is_image(self) -> bool:
        """Is it seen as batch, channels, height, width?"""
        return self.axes == self.of(self.source, NCHW).axes

    def require_image(self) -> None:
        """Refuse anything that is not seen as batch, channels, height, width."""
        if not self.is_image():
            raise Refusal(f"its input of shape {self.dims} is not an image as (batch, channels, height, width)")

    def axis(self, number: int) -> int:
        """An axis counted from 0, given one counted from either end."""
        return axis_number(number, len(self.axes))

    def channel_axis(self) -> int | None:
        """The axis that runs over the channels alone."""
        if self.source.shape[2] == 1:
            return 1 if self.is_image() else None
        return next((i for i, axis in enumerate(self.axes) if axis == ("c",)), None)

    def features(self) -> tuple[int, tuple[Atom, ...]] | None:
        """The axis that holds all of one image, and the order in which it runs over it; None if there is none."""
        busy = [i for i, axis in enumerate(self.axes) if set(axis) - {"n"}]
        if len(busy) > 1 or (busy and "n" in self.axes[busy[0]]):
            return None
        if any(isinstance(atom, Piece) for axis in busy for atom in self.axes[axis]):
            return None
        return (busy[0], self.axes[busy[0]]) if busy else (len(self.axes) - 1, ())

    def reshape(self, dims: Sequence[int]) -> View:
        """The view after Reshape to `dims`, if every axis is still made of whole atoms or of equal pieces of them."""
        atoms = [atom for axis in self.axes for atom in axis]
        axes: list[tuple[Atom, ...]] = []
        for size in dims:
            axis: list[Atom] = []
            while size > 1 and atoms:
                if size % self.size(atoms[0]):
                    atoms[:1] = self._cut(atoms[0], size, dims)
                size //= self.size(atoms[0])
                axis.append(atoms.pop(0))
            if size > 1:
                break
            axes.append(tuple(axis))
        if atoms or len(axes) < len(dims):
            raise Refusal(f"it reshapes {self.dims} to {tuple(dims)}, which is another number of elements")
        return replace(self, axes=tuple(map(self._merged, axes)))

    def _cut(self, atom: Atom, size: int, dims: Sequence[int]) -> tuple[Piece, Piece]:
        """An atom in two pieces, the slower of them of this size."""
        whole = atom if isinstance(atom, Piece) else Piece(atom, self.size(atom), 1)
        if whole.size % size:
            raise Refusal(f"it reshapes {self.dims} to {tuple(dims)}, which cuts an axis in unequal pieces")
        rest = whole.size // size
        return Piece(whole.atom, size, whole.step * rest), Piece(whole.atom, rest, whole.step)

    def _merged(self, axis: Sequence[Atom]) -> tuple[Atom, ...]:
        """The same axis with neighbouring pieces as one, and with whole atoms where nothing of them is missing."""
        merged: list[Atom] = []
        for atom in axis:
            joined = _joined(merged[-1], atom) if merged else None
            merged[len(merged) - (joined is not None) :] = [joined or atom]
        return tuple(a.atom if isinstance(a, Piece) and a.size == self.size(a.atom) else a for a in merged)

    def transpose(self, order: Sequence[int]) -> View:
        """With its axes in this order."""
        return replace(self, axes=tuple(self.axes[i] for i in order))


def _joined(slow: Atom, fast: Atom) -> Piece | None:
    """Two pieces as one, if they were cut from one."""
    if not isinstance(slow, Piece) or not isinstance(fast, Piece):
        return None
    fit = slow.atom == fast.atom and slow.step == fast.size * fast.step
    return Piece(fast.atom, slow.size * fast.size, fast.step) if fit else None


Constant = np.ndarray[Any, np.dtype[Any]]
Value = Constant | Scaled | View


def axis_number(number: int, rank: int) -> int:
    """An axis counted from 0, given one counted from either end."""
    if not -rank <= number < rank:
        raise Refusal(f"its axis {number} does not exist in a tensor of rank {rank}")
    return number % rank


def numbers(value: Value, what: str) -> list[Fraction]:
    """All values of a constant, exactly, flattened."""
    if isinstance(value, Scaled):
        return value.values()
    if isinstance(value, View):
        raise Refusal(f"{what} must be a constant")
    return [exact(v, what) for v in value.ravel().tolist()]


def size_of(value: Value) -> int:
    """Bytes of a constant."""
    if isinstance(value, View):
        return 0
    return int(value.codes.nbytes if isinstance(value, Scaled) else value.nbytes)


def dims_of(value: Value) -> tuple[int, ...]:
    """The ONNX shape of any value."""
    if isinstance(value, View):
        return value.dims
    return tuple(value.codes.shape if isinstance(value, Scaled) else value.shape)
