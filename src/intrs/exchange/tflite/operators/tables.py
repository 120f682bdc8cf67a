"""Functions of one code: every one is a table of 256 codes, computed as the kernels compute it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.integers import clamped
from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite import fixedpoint
from intrs.exchange.tflite.arithmetic import Grid, Ratio, away
from intrs.exchange.tflite.border import quantised
from intrs.exchange.tflite.operators.registry import INT8_RANGE, Lowering, operator
from intrs.network import INT8, CodeTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from intrs.exchange.tflite.values import View

RELUS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
FAR = 2.0**20  # beyond every code


def table(function: Callable[[int], int]) -> NDArray[np.int8]:
    """The results of all codes, saturated."""
    return np.array([clamped(function(code), INT8) for code in range(*INT8_RANGE)], np.int8)


def _looked_up(grid: Grid, target: Grid, function: Callable[[float], float]) -> NDArray[np.int8]:
    """A table of float32, as LiteRT fills it: the function of the real number, times the inverse of the scale.

    `function` is computed in float64 and rounded to float32, which is what a good library for float32 gives.
    """
    inverse = np.float32(1) / target.scale

    def result(code: int) -> int:
        value = grid.scale * np.float32(code - grid.zero)
        with np.errstate(over="ignore"):  # infinity is the largest code, as for the kernel
            steps = float(np.float32(function(float(value))) * inverse)
        return away(min(max(steps, -FAR), FAR)) + target.zero

    return table(result)


def _sigmoid(value: float) -> float:
    """1 / (1 + e^-x), every operation in float32."""
    power = np.float32(math.exp(min(-value, 88.7)))
    return float(np.float32(1) / (np.float32(1) + power))


@operator("LOGISTIC")
def _logistic(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    if step.grid.scale != np.float32(1 / 256) or step.grid.zero != INT8[0]:
        raise Refusal("the kernels want an output scale of 1/256 and the least code as its zero point")
    fixed = step.dialect == "tflm" and not grid.unsigned
    return step.mapped(view, fixedpoint.logistic(grid) if fixed else _looked_up(grid, step.grid, _sigmoid))


@operator("TANH")
def _tanh(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    if step.dialect == "tflm" and not grid.unsigned:
        return step.mapped(view, fixedpoint.tanh(grid))
    return step.mapped(view, _looked_up(grid, step.grid, math.tanh))


@operator("HARD_SWISH")
def _hard_swish(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    return step.mapped(view, fixedpoint.hard_swish(grid, step.grid))


@operator("ELU")
def _elu(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    return step.mapped(view, _looked_up(grid, step.grid, _exponential_unit))


def _exponential_unit(value: float) -> float:
    return value if value >= 0 else float(np.float32(math.exp(value)) - np.float32(1))


@operator("GELU")
def _gelu(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    smooth = _tanh_gelu if step.options("GeluOptions")["approximate"] else _erf_gelu
    return step.mapped(view, _looked_up(grid, step.grid, smooth))


def _erf_gelu(value: float) -> float:
    x = np.float32(value)
    return float(np.float32(0.5) * x * (np.float32(1) + np.float32(math.erf(float(x * np.float32(math.sqrt(0.5)))))))


def _tanh_gelu(value: float) -> float:
    x = np.float32(value)
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return float(np.float32(0.5) * x * (np.float32(1) + np.float32(math.tanh(float(inner)))))


@operator("EXP")
def _exp(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    return step.mapped(view, _looked_up(grid, step.grid, lambda x: math.exp(min(x, 88.7))))


@operator("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def _relu(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    target = step.grid
    low, high = RELUS[step.operator.op]
    limit = target.code(low, INT8[0]), target.code(high, INT8[1])
    if step.operator.op == "RELU6" and step.dialect == "tflm" and not grid.unsigned:
        return step.clamped(view, (grid.code(low, INT8[0]), grid.code(high, INT8[1])))  # codes stay as they are
    ratio = Ratio.of(float(grid.scale / target.scale))
    if grid == target:
        return step.clamped(view, limit)
    return step.mapped(view, table(lambda code: clamped(ratio.times(code - grid.zero) + target.zero, limit)))


@operator("LEAKY_RELU")
def _leaky_relu(step: Lowering) -> View:
    view, _, grid = step.codes(0)
    target, alpha = step.grid, np.float32(step.options("LeakyReluOptions")["alpha"])
    if not alpha >= 0:
        raise Refusal("its slope is negative or not a number; this is not supported")
    if step.dialect == "tflm" and not grid.unsigned:
        below, above = Ratio.of(grid.real * float(alpha) / target.real), Ratio.of(grid.real / target.real)
    else:
        below, above = Ratio.of(float(grid.scale * alpha / target.scale)), Ratio.of(float(grid.scale / target.scale))

    def result(code: int) -> int:
        value = code - grid.zero
        return (above if value >= 0 else below).times(value) + target.zero

    return step.mapped(view, table(result))


@operator("QUANTIZE")
def _quantize(step: Lowering) -> View:
    view, target = step.view(0), step.grid
    if view.tensor is None:
        return quantised(step.net, view, target)
    assert view.grid is not None
    grid = view.grid
    if view.real:  # a DEQUANTIZE before it
        return step.mapped(
            view,
            table(lambda code: away(float(grid.scale * np.float32(code - grid.zero) / target.scale)) + target.zero),
        )
    return step.mapped(view, requantised(grid, target))


def requantised(grid: Grid, target: Grid) -> NDArray[np.int8]:
    """The table of QUANTIZE from codes to codes."""
    ratio = Ratio.of(grid.real / target.real)
    return table(lambda code: ratio.times(code - grid.zero) + target.zero)


@operator("DEQUANTIZE")
def _dequantize(step: Lowering) -> View:
    view, _, _ = step.codes(0)
    return replace(view, real=True)


def joined(step: Lowering, number: int) -> int:
    """An input of CONCATENATION, brought to the grid of the output as legacy kernels for uint8 do."""
    view, tensor, grid = step.codes(number)
    flat = view.index is None and view.shape == (1, 1, view.dims[-1])
    tensor = tensor if flat else step.image(number)[0]
    target = step.grid
    if grid == target:
        return tensor
    if not grid.unsigned:
        raise Refusal("its inputs have other scales than its output, which the kernels for int8 do not take")
    scale = grid.scale * (np.float32(1) / target.scale)
    bias = np.float32(-(grid.zero + 128)) * scale
    moved = table(lambda code: away(float(np.float32(code + 128) * scale + bias)) + target.zero)
    return step.net.add(CodeTable((tensor,), moved, name=step.name))
