"""ADD, SUB, MUL, MAXIMUM, MINIMUM and PRELU: functions of two operands, of which one may be a constant."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.integers import clamped
from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.arithmetic import Grid, Ratio, rescale
from intrs.exchange.tflite.operators.registry import Lowering, grid_of, operator, rearranged
from intrs.exchange.tflite.operators.tables import table
from intrs.exchange.tflite.values import Constant, Value, View
from intrs.network import INT8, Add, Mul, ScaledAdd

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from intrs.exchange.tflite.values import Dims
    from intrs.network import Layer

LEFT_SHIFT = 20  # of ADD and SUB


@dataclass(frozen=True)
class Operand:
    """One of two operands: codes of an activation, or constant codes with their shape."""

    grid: Grid
    view: View | None = None
    codes: NDArray[np.int8] | None = None

    @property
    def dims(self) -> Dims:
        """The shape that the graph sees."""
        if self.view is not None:
            return self.view.dims
        assert self.codes is not None
        return tuple(self.codes.shape)


def _operand(step: Lowering, number: int) -> Operand:
    value = step.get(number)
    if isinstance(value, Constant):
        if value.tensor is None:
            raise Refusal("it joins an activation with a shape")
        grid = grid_of(value.tensor)
        step.net.budget.spend(0, value.array.size)
        codes = value.array.astype(np.int16) - (128 if grid.unsigned else 0)
        return Operand(grid, codes=codes.astype(np.int8))
    view, _, grid = step.codes(number)
    return Operand(grid, view)


def _combined(
    step: Lowering,
    scalar: Callable[[int, int], int],
    layer: Callable[[tuple[int, int]], Layer],
) -> View:
    """Both operands through a layer; through a table if one is the same constant everywhere."""
    pair = _operand(step, 0), _operand(step, 1)
    if pair[0].grid.unsigned != pair[1].grid.unsigned or pair[0].grid.unsigned != step.grid.unsigned:
        raise Refusal("it reads and writes codes of different types")
    first, second = _fixed(*pair), _fixed(*pair[::-1])
    if first is not None and pair[1].view is not None:
        return step.mapped(pair[1].view, table(lambda code: scalar(first, code)))
    if second is not None and pair[0].view is not None:
        return step.mapped(pair[0].view, table(lambda code: scalar(code, second)))
    return _layered(step, pair, layer)


def _fixed(constant: Operand, other: Operand) -> int | None:
    """The code of a constant that is the same everywhere, and no larger than the activation; else None."""
    small = len(constant.dims) <= len(other.dims) and all(
        a in (1, b) for a, b in zip(constant.dims[::-1], other.dims[::-1], strict=False)
    )
    if constant.codes is None or other.view is None or not small or not constant.codes.size:
        return None
    first = constant.codes.ravel()[0]
    return int(first) if (constant.codes == first).all() else None


def _layered(step: Lowering, pair: tuple[Operand, Operand], layer: Callable[[tuple[int, int]], Layer]) -> View:
    big = max(pair, key=lambda operand: (prod(operand.dims), operand.view is not None))
    if pair[0].dims == pair[1].dims and not _same_places(step, pair[0].view, pair[1].view):
        pair = _moved(step, pair[0]), _moved(step, pair[1])
        big = pair[0]
    if big.view is None:
        raise Refusal("it has two constants, or one that is larger than the activation")
    tensor = step.net.add(layer((_aligned(step, pair[0], big.view), _aligned(step, pair[1], big.view))))
    return View(tensor, step.net.shapes[tensor], big.view.dims, step.grid, False, big.view.index)


def _same_places(step: Lowering, a: View | None, b: View | None) -> bool:
    """Whether two views show the same places of activations of the same shape."""
    if a is None or b is None or a.dims != b.dims or a.shape != b.shape:
        return False
    if a.index is b.index or a.index is None or b.index is None:
        return a.index is b.index
    step.net.budget.spend(0, a.listed)
    return np.array_equal(a.index, b.index)


def _moved(step: Lowering, operand: Operand) -> Operand:
    """An operand whose activation lies as the graph sees it."""
    view = operand.view
    if view is None:
        return operand
    if not 2 <= len(view.dims) <= 4 or view.dims[0] != 1:
        raise Refusal(f"it joins two views of shape {view.dims}; intrs needs (1, height, width, channels)")
    sizes = (1, 1, *view.dims[1:])[-3:]
    shape = sizes[0], sizes[1], sizes[2]
    return Operand(operand.grid, View(rearranged(step, view, shape), shape, view.dims, operand.grid))


def _aligned(step: Lowering, operand: Operand, big: View) -> int:
    """The tensor of an operand as a layer takes it beside `big`: with the same places, or one pixel for all."""
    dims = operand.dims
    if operand.view is not None and operand.view.tensor is not None and _same_places(step, operand.view, big):
        return operand.view.tensor
    per_channel = prod(dims) == dims[-1] == big.shape[2] == big.dims[-1] and big.index is None if dims else False
    if per_channel and operand.codes is not None:
        return step.pixel(operand.codes)
    view = operand.view
    if per_channel and view is not None and view.shape == (1, 1, big.shape[2]) and view.index is None:
        assert view.tensor is not None
        return view.tensor
    raise Refusal(f"it joins {dims} with {big.dims}; intrs joins equal shapes, or one pixel with all")


@operator("ADD", "SUB")
def _add(step: Lowering) -> Value:
    if all(isinstance(value, Constant) and value.array.dtype.kind == "i" for value in step.inputs):
        return _constants(step)
    a, b, target = _operand(step, 0).grid, _operand(step, 1).grid, step.grid
    subtract = step.operator.op == "SUB"
    ratios = _sum_ratios(a, b, target)
    clamp = target.clamp(step.options("SubOptions" if subtract else "AddOptions")["fused_activation_function"])

    def scalar(x: int, y: int) -> int:
        left = ratios[0].times((x - a.zero) << LEFT_SHIFT)
        right = ratios[1].times((y - b.zero) << LEFT_SHIFT)
        return clamped(ratios[2].times(left - right if subtract else left + right) + target.zero, clamp)

    def layer(tensors: tuple[int, int]) -> Layer:
        first, second, total = (rescale([ratio]) for ratio in ratios)
        zeros = a.zero, b.zero
        return ScaledAdd(
            tensors, zeros, LEFT_SHIFT, first, second, total, target.zero, clamp, subtract, name=step.name
        )  # fmt: skip

    return _combined(step, scalar, layer)


def _sum_ratios(a: Grid, b: Grid, target: Grid) -> list[Ratio]:
    """The factors of both operands and of the sum."""
    double = 2 * max(a.real, b.real)
    reals = [a.real / double, b.real / double, double / ((1 << LEFT_SHIFT) * target.real)]
    return [Ratio.below_one(real) for real in reals]


@operator("MUL")
def _mul(step: Lowering) -> Value:
    if all(isinstance(value, Constant) and value.array.dtype.kind == "i" for value in step.inputs):
        return _constants(step)
    a, b, target = _operand(step, 0).grid, _operand(step, 1).grid, step.grid
    if step.dialect == "tflm" and not target.unsigned:
        ratio = Ratio.of(a.real * b.real / target.real)
    else:
        ratio = Ratio.of(float(a.scale * b.scale / target.scale))
    clamp = target.clamp(step.options("MulOptions")["fused_activation_function"])

    def scalar(x: int, y: int) -> int:
        return clamped(ratio.times((x - a.zero) * (y - b.zero)) + target.zero, clamp)

    def layer(tensors: tuple[int, int]) -> Layer:
        zeros = a.zero, b.zero
        return Mul(tensors, zeros, rescale([ratio]), target.zero, clamp, True, name=step.name)

    return _combined(step, scalar, layer)


def _constants(step: Lowering) -> Constant:
    """Arithmetic of shapes."""
    a, b = (step.constant(number).array for number in (0, 1))
    if max(a.size, b.size) > 64 or (a.size != b.size and 1 not in (a.size, b.size)):
        raise Refusal("it computes with constants that are no shapes")
    wide = a.astype(np.int64), b.astype(np.int64)
    return Constant({"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[step.operator.op](*wide))


@operator("MAXIMUM", "MINIMUM")
def _limit(step: Lowering) -> View:
    operands = _operand(step, 0), _operand(step, 1)
    view, limit = operands[0].view, _fixed(*operands[::-1])
    if limit is None:
        view, limit = operands[1].view, _fixed(*operands)
    if limit is None or view is None:
        raise Refusal("it compares two activations; only a limit that is one constant is supported")
    if {o.grid for o in operands} != {step.grid}:
        raise Refusal("its operands have other scales than its output, which the kernels do not take")
    return step.clamped(view, (limit, INT8[1]) if step.operator.op == "MAXIMUM" else (INT8[0], limit))


@operator("PRELU")
def _prelu(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    slopes, target = _operand(step, 1), step.grid
    if slopes.codes is None:
        raise Refusal("its slopes must be constants")
    if step.dialect == "tflm" and not target.unsigned:
        above = Ratio.of(grid.real / target.real)
        below = Ratio.of(grid.real * slopes.grid.real / target.real)
    else:
        above = Ratio.of(float(grid.scale / target.scale))
        below = Ratio.of(float(grid.scale * slopes.grid.scale / target.scale))

    def positive(code: int) -> int:
        return above.times(max(code - grid.zero, 0)) + target.zero

    if (one := _fixed(slopes, Operand(grid, view))) is not None:
        slope = one - slopes.grid.zero

        def both(code: int) -> int:
            value = code - grid.zero
            return positive(code) if value >= 0 else below.times(value * slope) + target.zero

        return step.mapped(view, table(both))
    upper = step.mapped(view, table(positive))
    lower = step.clamped(view, (INT8[0], grid.zero))
    assert lower.tensor is not None
    assert upper.tensor is not None
    zeros = grid.zero, slopes.grid.zero
    pair = lower.tensor, _aligned(step, slopes, view)
    product = step.net.add(Mul(pair, zeros, rescale([below]), target.zero, INT8, True, name=step.name))
    zeros = target.zero, target.zero  # one of the two terms is always zero: the sum is exact
    total = Add((upper.tensor, product), (1 << 8, 1 << 8), zeros, 8, target.zero, name=step.name)
    return View(step.net.add(total), view.shape, view.dims, target, False, view.index)
