"""AVERAGE_POOL_2D, MAX_POOL_2D, MEAN and REDUCE_MAX. Pools look at codes only: scales do not change them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.arithmetic import mean_ratio, rescale
from intrs.exchange.tflite.operators.registry import Lowering, operator
from intrs.exchange.tflite.operators.windows import window
from intrs.network import AvgPool, ConvDouble, MaxPool

if TYPE_CHECKING:
    from intrs.exchange.tflite.values import View

NO_PAD = (0, 0, 0, 0)


@operator("AVERAGE_POOL_2D", "MAX_POOL_2D")
def _pool(step: Lowering) -> View:
    tensor, shape, grid = step.image(0)
    options = step.options("Pool2DOptions")
    slide = window(options, (options["filter_height"], options["filter_width"]), shape)
    if step.operator.op == "MAX_POOL_2D":
        found = step.add(MaxPool((tensor,), slide.kernel, slide.stride, slide.pad, name=step.name))
    else:
        zero = -128 if grid.unsigned else 0  # codes of the file are added as they are; ties go away from their zero
        found = step.add(AvgPool((tensor,), slide.kernel, slide.stride, slide.pad, zero, zero, name=step.name))
    return step.clamped(found, step.grid.clamp(options["fused_activation_function"]))


@operator("MEAN", "REDUCE_MAX")
def _reduce(step: Lowering) -> View:
    view, tensor, _ = step.codes(0)
    if view.index is not None:
        step.net.budget.spend(0, view.listed)
    axes = view.axes()
    rank = len(view.dims)
    chosen = step.integers(1)
    if any(not -rank <= axis < rank for axis in chosen):
        raise Refusal(f"its axes {chosen} do not exist in a tensor of rank {rank}")
    reduced = {axis % rank for axis in chosen}
    inner = {axis for number in reduced for axis in axes[number]}
    kept = [1 if number in reduced else size for number, size in enumerate(view.dims)]
    if not step.options("ReducerOptions")["keep_dims"]:
        kept = [size for number, size in enumerate(kept) if number not in reduced]
    found = _reduced(step, tensor, view.shape, inner)
    order = [axis for number in range(rank) if number not in reduced for axis in axes[number]]
    rest = [axis for axis in range(3) if axis not in order]
    step.net.budget.spend(0, found.listed)
    places = np.arange(prod(found.shape), dtype=np.int32).reshape(found.shape).transpose(*rest, *order)
    return found.showing(places.reshape(kept))


def _reduced(step: Lowering, tensor: int, shape: tuple[int, int, int], inner: set[int]) -> View:
    """The mean or maximum over these axes of the activation."""
    kernel = shape[0] if 0 in inner else 1, shape[1] if 1 in inner else 1
    grid, target = step.codes(0)[2], step.grid
    if step.operator.op == "REDUCE_MAX":
        if 2 in inner or grid != target:
            raise Refusal("it runs over channels, or changes the scale; this is not supported")
        return step.add(MaxPool((tensor,), kernel, (1, 1), NO_PAD, name=step.name))
    depth = shape[2] if 2 in inner else 1
    outputs = shape[2] // depth
    weights = np.ones((outputs, *kernel, depth), np.int8)
    ratio = mean_ratio(grid.real / target.real, prod(kernel) * depth)
    return step.add(
        ConvDouble(
            (tensor,), weights, np.zeros(outputs, np.int32), outputs, (1, 1), (1, 1), NO_PAD, grid.zero,
            rescale([ratio]), target.zero, name=step.name,
        )
    )  # fmt: skip
