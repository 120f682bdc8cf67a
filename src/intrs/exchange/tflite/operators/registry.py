"""The table of operators, and how one gets at what it reads and describes what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange import integers
from intrs.exchange.refusal import Refusal, shortened
from intrs.exchange.tflite.arithmetic import UNSIGNED, Grid
from intrs.exchange.tflite.file import CODES, Tensor
from intrs.exchange.tflite.schema import TensorType
from intrs.exchange.tflite.values import Constant, Dims, Value, View, separated
from intrs.network import INT8, CodeTable, Conv, Gather, Layer, Rescale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.exchange.builder import Builder
    from intrs.exchange.integers import Clamp
    from intrs.exchange.tflite.file import Operator
    from intrs.exchange.tflite.flatbuffer import FlatTable
    from intrs.network import Shape
    from intrs.request import Dialect

FLOAT = "it computes with floats; convert the model to full integer quantisation (docs/tflite.md)"
ONE = Rescale(np.array([1 << 30], np.int32), np.array([30], np.int8))  # RESCALE by exactly one
SCALES = 2.0**-60, 2.0**30  # the smallest and the largest of codes: what follows from them must fit float32


@dataclass(frozen=True, eq=False)
class Lowering:
    """One operator while it is read: its inputs, the tensors that it writes, and the network so far."""

    net: Builder
    operator: Operator
    inputs: Sequence[Value | None]
    outputs: Sequence[Tensor]
    dialect: Dialect

    @property
    def name(self) -> str:
        """The name of its layers."""
        return self.operator.name

    def options(self, kind: str) -> FlatTable:
        """Its options."""
        return self.operator.options(kind)

    def get(self, number: int) -> Value | None:
        """An input; None if it is absent."""
        return self.inputs[number] if number < len(self.inputs) else None

    def view(self, number: int) -> View:
        """An activation, of floats or codes."""
        value = self.get(number)
        if not isinstance(value, View):
            raise Refusal(f"its input {number} is missing or constant; intrs expects an activation there")
        return value

    def codes(self, number: int) -> tuple[View, int, Grid]:
        """An activation of codes, its tensor in the network and its grid."""
        view = self.view(number)
        if view.real or view.tensor is None or view.grid is None:
            raise Refusal(FLOAT)
        return view, view.tensor, view.grid

    def image(self, number: int) -> tuple[int, Shape, Grid]:
        """An activation of codes, seen as (1, height, width, channels): its tensor, shape and grid."""
        view, _, grid = self.codes(number)
        if len(view.dims) != 4 or view.dims[0] != 1:
            raise Refusal(f"its input has the shape {view.dims}; intrs expects (1, height, width, channels)")
        shape = view.dims[1], view.dims[2], view.dims[3]
        return rearranged(self, view, shape), shape, grid

    def constant(self, number: int) -> Constant:
        """A constant."""
        value = self.get(number)
        if not isinstance(value, Constant):
            raise Refusal(f"its input {number} must be a constant")
        return value

    def integers(self, number: int) -> tuple[int, ...]:
        """A constant list of integers."""
        array = self.constant(number).array
        if array.dtype.kind != "i" or array.size > 64:
            raise Refusal(f"its input {number} must be a short list of integers")
        return tuple(int(value) for value in array.ravel())

    def integer(self, number: int) -> int:
        """A constant that is one integer."""
        found = self.integers(number)
        if len(found) != 1:
            raise Refusal(f"its input {number} must be one integer")
        return found[0]

    @property
    def grid(self) -> Grid:
        """The grid of the codes that it writes."""
        return grid_of(self.outputs[0])

    def add(self, layer: Layer, dims: Dims | None = None, grid: Grid | None = None) -> View:
        """Append a layer; what it writes, seen as (1, height, width, channels) or with these dimensions."""
        return self.shown(self.net.add(layer), dims, grid)

    def shown(self, tensor: int, dims: Dims | None = None, grid: Grid | None = None) -> View:
        """A tensor of the network as what the operator writes."""
        shape = self.net.shapes[tensor]
        return View(tensor, shape, (1, *shape) if dims is None else dims, grid or self.grid)

    def mapped(self, view: View, table: NDArray[np.int8], grid: Grid | None = None) -> View:
        """Every code of a view replaced by that of a table, which is no layer if it changes nothing."""
        assert view.tensor is not None
        tensor = view.tensor
        if not np.array_equal(table, np.arange(*INT8_RANGE)):
            tensor = self.net.add(CodeTable((tensor,), table, name=self.name))
        return replace(view, tensor=tensor, grid=grid or self.grid, real=False)

    def clamped(self, view: View, clamp: Clamp) -> View:
        """The codes of a view within a clamp, as a layer that may become part of the one before."""
        assert view.tensor is not None
        same = integers.Grid(Fraction(1), 0)
        return replace(view, tensor=self.net.requantise(view.tensor, same, same, clamp, self.name))

    def pixel(self, codes: NDArray[Any]) -> int:
        """A tensor of one pixel with these constant codes, one per channel: for an operand that the file holds."""
        if not self.net.shapes:
            raise Refusal("it computes with constants before the image is quantised")
        height, width, depth = self.net.shapes[0]
        weights = np.zeros((codes.size, 1, 1, depth), np.int8)
        bias, stride = codes.ravel().astype(np.int32), (height, width)
        none = (0, 0, 0, 0)
        layer = Conv((0,), weights, bias, 1, stride, (1, 1), none, 0, ONE, 0, name=self.name)
        return self.net.add(layer)


INT8_RANGE = INT8[0], INT8[1] + 1
Meaning = Callable[[Lowering], Value | Sequence[Value]]
OPERATORS: dict[str, Meaning] = {}


def operator(*names: str) -> Callable[[Meaning], Meaning]:
    """Enter a function as the meaning of these operators."""

    def enter(function: Meaning) -> Meaning:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


def grid_of(tensor: Tensor) -> Grid:
    """The grid of a tensor of codes with one scale. Raises Refusal."""
    name = shortened(tensor.name)
    if tensor.type not in CODES:
        advice = FLOAT if tensor.type in (TensorType.FLOAT32, TensorType.FLOAT16) else "only int8 and uint8 are read"
        raise Refusal(f"its tensor {name!r} holds {tensor.kind}: {advice}")
    found = tensor.quantization
    if found is None or found.scales.size != 1 or found.zeros.size != 1:
        raise Refusal(f"its tensor {name!r} must have exactly one scale and zero point")
    unsigned = tensor.type == TensorType.UINT8
    scale, zero = found.scales[0], int(found.zeros[0]) - (UNSIGNED if unsigned else 0)
    if not SCALES[0] <= scale <= SCALES[1] or not INT8[0] <= zero <= INT8[1]:
        raise Refusal(f"its tensor {name!r} has the scale {scale} or a zero point that its type cannot hold")
    return Grid(scale, zero, unsigned)


def rearranged(step: Lowering, view: View, shape: Shape) -> int:
    """The tensor that holds what a view shows, as (height, width, channels)."""
    assert view.tensor is not None
    if view.index is None and view.shape == shape:
        return view.tensor
    step.net.budget.spend(0, view.listed)
    lists = separated(view.places().reshape(shape), view.shape)
    if lists is None:
        raise Refusal(f"it needs {view.dims} in an order that mixes rows, columns and channels; this is not supported")
    return gathered(step, view.tensor, *lists)


def gathered(step: Lowering, tensor: int, *lists: NDArray[Any]) -> int:
    """The rows, columns and channels of a tensor that these lists name."""
    sizes = step.net.shapes[tensor]
    named = [
        places if len(places) != size or (places != np.arange(size)).any() else ()
        for places, size in zip(lists, sizes, strict=True)
    ]
    rows, columns, channels = (np.asarray(places, np.int32) for places in named)
    step.net.budget.spend(0, rows.nbytes + columns.nbytes + channels.nbytes)
    return step.net.add(Gather((tensor,), rows, columns, channels, name=step.name))
