"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.builder import Window
from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.arithmetic import Grid, Ratio, fitted, rescale
from intrs.exchange.tflite.operators.registry import Lowering, gathered, operator
from intrs.exchange.tflite.operators.windows import window
from intrs.exchange.tflite.schema import TensorType
from intrs.network import INT8, Conv, ConvDouble

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.exchange.integers import Clamp
    from intrs.exchange.tflite.values import Dims, View

SAFE_SHIFT = 40  # of a channel that is constant: the fast kernels take 33 to 54
INT32 = 2**31


@dataclass(frozen=True, eq=False)
class Weights:
    """A filter as (outputs, kernel height, kernel width, channels per group), its zero point already subtracted."""

    values: NDArray[np.int16]
    scales: NDArray[np.float32]  # one, or one per output
    bias: NDArray[np.int32]
    groups: int = 1


@operator("CONV_2D")
def _conv(step: Lowering) -> View:
    tensor, shape, grid = step.image(0)
    options = step.options("Conv2DOptions")
    values, scales = _filter(step, 4, 0)
    groups, rest = divmod(shape[2], values.shape[3])
    if rest or groups < 1 or values.shape[0] % groups:
        raise Refusal(f"its filter of {values.shape} does not fit an input of {shape[2]} channels")
    weights = Weights(values, scales, _bias(step, values.shape[0]), groups)
    return _product(step, tensor, weights, window(options, values.shape[1:3], shape), grid)


@operator("DEPTHWISE_CONV_2D")
def _depthwise(step: Lowering) -> View:
    tensor, shape, grid = step.image(0)
    options = step.options("DepthwiseConv2DOptions")
    values, scales = _filter(step, 4, 3)
    if values.shape[0] != 1 or values.shape[3] % shape[2]:
        raise Refusal(f"its filter of {values.shape} does not fit an input of {shape[2]} channels")
    turned = np.ascontiguousarray(values.transpose(3, 1, 2, 0))
    weights = Weights(turned, scales, _bias(step, turned.shape[0]), shape[2])
    return _product(step, tensor, weights, window(options, values.shape[1:3], shape), grid)


@operator("FULLY_CONNECTED")
def _fully_connected(step: Lowering) -> View:
    view, tensor, grid = step.codes(0)
    options = step.options("FullyConnectedOptions")
    if options["weights_format"]:
        raise Refusal("its weights are shuffled for one kind of processor; convert the model without that")
    values, scales = _filter(step, 2, 0)
    outputs, depth = values.shape
    kept = (*view.dims[:-1], outputs) if options["keep_num_dims"] else (prod(view.dims) // max(depth, 1), outputs)
    if prod(view.dims) == depth:
        kernel = _spread(step, values, view)
    elif view.index is None and view.shape[2] == depth == view.dims[-1]:
        kernel = values.reshape(outputs, 1, 1, depth)
    else:
        raise Refusal(f"its filter of {values.shape} does not fit an input of shape {view.dims}")
    slide = Window((kernel.shape[1], kernel.shape[2]))
    return _product(step, tensor, Weights(kernel, scales, _bias(step, outputs)), slide, grid, kept)


def _spread(step: Lowering, values: NDArray[np.int16], view: View) -> NDArray[np.int16]:
    """Weights over what a view shows, as weights over the activation."""
    if view.index is None:
        return values.reshape(-1, *view.shape)
    places = view.index.ravel()
    if np.unique(places).size != places.size:
        raise Refusal("it reads some places of its input twice")
    step.net.budget.spend(0, values.itemsize * values.shape[0] * prod(view.shape))
    spread = np.zeros((values.shape[0], prod(view.shape)), values.dtype)
    spread[:, places] = values
    return spread.reshape(-1, *view.shape)


def _filter(step: Lowering, rank: int, axis: int) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """The weights less their zero point, and their scales."""
    constant = step.constant(1)
    tensor, array = constant.tensor, constant.array
    if tensor is None or tensor.quantization is None or tensor.type not in FILTERS or array.ndim != rank:
        raise Refusal(f"its weights must be a constant of int8 or uint8 with {rank} axes and scales")
    if not array.size:
        raise Refusal("it has no weights")
    found = tensor.quantization
    if found.scales.size not in (1, array.shape[axis]) or (found.scales.size > 1 and found.axis != axis):
        raise Refusal("the scales of its weights do not run over its outputs")
    if not (np.isfinite(found.scales).all() and (found.scales >= 0).all()):
        raise Refusal("a scale of its weights is negative or not a number")
    step.net.budget.spend(0, 2 * array.size)
    per_tensor = found.scales.size == 1 and (step.operator.op == "FULLY_CONNECTED" or step.codes(0)[2].unsigned)
    zero = _zero(found.zeros) if per_tensor else np.int16(0)  # other kernels take the weights as they are
    return array.astype(np.int16) - zero, found.scales


FILTERS = (TensorType.INT8, TensorType.UINT8, TensorType.INT4)


def _zero(zeros: NDArray[np.int64]) -> np.int16:
    """The zero point of all weights."""
    if zeros.size != 1 or not -128 <= zeros[0] <= 255:
        raise Refusal("the zero point of its weights is not one that their type can hold")
    return np.int16(zeros[0])


def _bias(step: Lowering, outputs: int) -> NDArray[np.int32]:
    if step.get(2) is None:
        return np.zeros(outputs, np.int32)
    array = step.constant(2).array
    if array.size != outputs or array.dtype.kind != "i":
        raise Refusal(f"its bias must be {outputs} integers")
    if array.size and not -INT32 <= int(array.min()) <= int(array.max()) < INT32:
        raise Refusal("its bias does not fit 32 bits")
    return array.ravel().astype(np.int32)


def _product(
    step: Lowering, tensor: int, weights: Weights, slide: Window, grid: Grid, dims: Dims | None = None
) -> View:
    """The layer of a convolution."""
    target = step.grid
    if target.unsigned != grid.unsigned:
        raise Refusal("it reads and writes codes of different types")
    clamp = target.clamp(step.options(OPTIONS[step.operator.op])["fused_activation_function"])
    step.net.budget.spend(weights.values.shape[0])
    double, ratios = _ratios(step, weights, grid, target, clamp)
    weights, ratios = _settled(weights, ratios, grid, target, clamp, double)
    if weights.values.min() < INT8[0] or weights.values.max() > INT8[1]:
        tensor, weights, slide = _halved(step, tensor, weights, slide)
    layer = ConvDouble if double else Conv
    return step.add(
        layer(
            (tensor,), weights.values.astype(np.int8), weights.bias, weights.groups, slide.stride, slide.dilation,
            slide.pad, grid.zero, rescale(ratios), target.zero, clamp, name=step.name,
        ),
        dims,
    )  # fmt: skip


OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
}


def _ratios(step: Lowering, weights: Weights, grid: Grid, target: Grid, clamp: Clamp) -> tuple[bool, list[Ratio]]:
    """Whether the kernel rounds twice, and its ratio for each output."""
    connected = step.operator.op == "FULLY_CONNECTED"
    count = weights.values.shape[0]
    one = weights.scales.size == 1
    if connected and step.dialect == "litert":
        factors = [grid.real * float(scale) / target.real for scale in weights.scales]
        found = {factor: fitted(factor, target.zero, clamp) for factor in set(factors) if factor > 0}
        ratios = [found.get(factor, Ratio(0, 31)) for factor in factors]
        return False, ratios * count if one else ratios
    if grid.unsigned:  # these kernels multiply the scales of input and weights as float32
        factors = [float(grid.scale * scale) / target.real for scale in weights.scales]
    else:
        factors = [grid.real * float(scale) / target.real for scale in weights.scales]
    ratios = [Ratio.of(factor) for factor in factors]
    return True, ratios * count if one else ratios


def _settled(
    weights: Weights, ratios: list[Ratio], grid: Grid, target: Grid, clamp: Clamp, double: bool
) -> tuple[Weights, list[Ratio]]:
    """Outputs that are constant whatever the input, written as such: their scales are often absurd.

    Both roundings never fall as the accumulator grows, so an output is constant if it is the same at both ends of what
    the accumulator can reach.
    """
    flat = weights.values.reshape(len(ratios), -1)
    low, high = INT8[0] - grid.zero, INT8[1] - grid.zero  # of an input less its zero point: one below 0, one above
    above, below = (part(flat, 0).sum(axis=1, dtype=np.int64) for part in (np.maximum, np.minimum))
    least, most = above * low + below * high + weights.bias, above * high + below * low + weights.bias
    values, bias, ratios = weights.values.copy(), weights.bias.copy(), list(ratios)
    for channel, ratio in enumerate(ratios):
        codes = {
            min(max((ratio.times(int(end)) if double else _once(ratio, int(end))) + target.zero, clamp[0]), clamp[1])
            for end in (least[channel], most[channel])
        }
        if len(codes) == 1:
            values[channel] = 0
            bias[channel] = (codes.pop() - target.zero) << (SAFE_SHIFT - 30)
            ratios[channel] = Ratio(1 << 30, SAFE_SHIFT)
    return replace(weights, values=values, bias=bias), ratios


def _once(ratio: Ratio, value: int) -> int:
    return (value * ratio.multiplier + (1 << (ratio.shift - 1))) >> ratio.shift


def _halved(step: Lowering, tensor: int, weights: Weights, slide: Window) -> tuple[int, Weights, Window]:
    """Weights of nine bits as a sum of weights of eight, over an input with every row as many times."""
    rest = _undilated(step, weights.values, slide.dilation[0])
    parts: list[NDArray[np.int16]] = []
    while not parts or rest.any():
        parts.append(np.clip(rest, *INT8))
        rest = rest - parts[-1]
    times = len(parts)
    height, width, channels = step.net.shapes[tensor]
    rows = np.repeat(np.arange(height), times)
    more = gathered(step, tensor, rows, np.arange(width), np.arange(channels))
    values = np.stack(parts, axis=2).reshape(len(rest), -1, *rest.shape[2:])
    top, bottom, left, right = slide.pad
    window = Window(
        (values.shape[1], values.shape[2]),
        (slide.stride[0] * times, slide.stride[1]),
        (1, slide.dilation[1]),
        (top * times, bottom * times, left, right),
    )
    return more, replace(weights, values=values), window


def _undilated(step: Lowering, values: NDArray[np.int16], dilation: int) -> NDArray[np.int16]:
    """A kernel with the rows between its taps written out."""
    outputs, height, width, depth = values.shape
    shape = outputs, dilation * (height - 1) + 1, width, depth
    step.net.budget.spend(0, values.itemsize * prod(shape))
    full = np.zeros(shape, values.dtype)
    full[:, ::dilation] = values
    return full
