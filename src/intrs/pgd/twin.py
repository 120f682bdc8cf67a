"""A differentiable twin of an integer network: the same integers forward, straight-through gradients backward.

Every sum and every RESCALE is computed in floats where these are exact, by the layer's own bound, and in 64-bit
integers elsewhere, so the scores are those of the network bit for bit. Backward, rounding is taken for the identity,
saturation for the clamp that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from intrs.network import (
    INT8,
    Add,
    AvgPool,
    CodeTable,
    Concat,
    Conv,
    Gather,
    Layer,
    MaxPool,
    Mul,
    Network,
    Pad,
    Quantiser,
    Requantise,
    Rescale,
    ScaledAdd,
    Shape,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Step = Callable[..., Tensor]
Clamp = tuple[int, int] | None
FLOAT32_EXACT, FLOAT64_EXACT = 2**24, 2**53  # integers up to here are floats
ONE_ROUNDING = 31  # shifts up to here round once in TOSA's DOUBLE_ROUND
BELOW_ALL_CODES = -1000.0  # padding that never wins


class _Scale:
    """What `_Rescale` needs: the numbers of a RESCALE of values up to a bound.

    `exact`: doubles are exact, all numbers being multiples of 2^-shift below 2^(53-shift). `nudge`, if it rounds
    twice, is what the first rounding adds: 2^30 with the sign of the value, for shifts of more than 31.
    """

    def __init__(self, multiplier: Tensor, shift: Tensor, bound: int, twice: bool) -> None:
        self.multiplier, self.shift = multiplier, shift
        self.unit = 2.0 ** shift.double()
        self.slope = multiplier / self.unit
        self.nudge = (shift > ONE_ROUNDING).long() << ONE_ROUNDING - 1 if twice else None
        pairs = zip(multiplier.flatten(), shift.flatten(), strict=True)
        largest = max(bound * int(m) + (256 << int(h)) for m, h in pairs) + (1 << ONE_ROUNDING - 1)
        self.exact = largest < FLOAT64_EXACT


class _Rescale(torch.autograd.Function):
    """clamp(floor(value * slope + 1/2) + zero point); backward the line through it, flat where it is clamped.

    The product is computed in doubles, or in integers of 64 bits where these would not be exact.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, by: _Scale, zero_point: int, clamp: Clamp) -> Tensor:
        if by.exact:
            half = torch.full((), zero_point + 0.5, dtype=torch.float64, device=value.device)
            scaled = torch.addcmul(half, value.double(), by.slope)
            if by.nudge is not None:
                scaled += torch.where(value < 0, -by.nudge, by.nudge) / by.unit
            codes = scaled.floor_()
        else:
            product = value.long() * by.multiplier + (1 << (by.shift - 1))
            if by.nudge is not None:
                product += torch.where(value < 0, -by.nudge, by.nudge)
            codes = ((product >> by.shift) + zero_point).double()
        ctx.slope = by.slope.to(value.dtype)
        if clamp is None:  # wide scores
            ctx.save_for_backward(torch.ones((), dtype=torch.bool, device=value.device))
            return codes
        kept = codes.clamp(*clamp)
        ctx.save_for_backward(kept == codes)
        return kept.float()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (inside,) = ctx.saved_tensors
        return (grads[0].to(ctx.slope.dtype) * ctx.slope).mul_(inside), None, None, None


class _Lookup(torch.autograd.Function):
    """The result of each code; backward the slope between the results of the codes before and after it."""

    @staticmethod
    def forward(ctx: Any, codes: Tensor, results: Tensor, slopes: Tensor) -> Tensor:
        index = codes.long() - INT8[0]
        ctx.save_for_backward(slopes[index])
        return results[index]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return grads[0] * slopes, None, None


class Twin(nn.Module):
    """Scores (n, classes) of images (n, height, width, channels), given as floats in pixel levels, of any size."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self._quantise = _quantiser(network.quantiser)
        self._steps = [_step(layer, *(network.shapes[i] for i in layer.inputs)) for layer in network.layers]

    def forward(self, pixels: Tensor) -> Tensor:
        """The scores of the integer network; between grid points, those of codes rounded as usual."""
        tensors = [self._quantise(pixels)]
        for layer, step in zip(self.network.layers, self._steps, strict=True):
            tensors.append(step(*(tensors[i] for i in layer.inputs)))
        return tensors[-1].flatten(1)


def _here(values: NDArray[Any]) -> Tensor:
    """Constants on the default device of whoever makes the twin."""
    return torch.from_numpy(values).to(torch.get_default_device())


@singledispatch
def _step(layer: Layer, *shapes: Shape) -> Step:
    raise NotImplementedError(type(layer))


@_step.register
def _(layer: Conv, *_: Shape) -> Step:
    weights = _here(layer.weights.transpose(0, 3, 1, 2).astype(np.float64, order="C"))
    bias = _here(layer.bias.astype(np.float64))
    bound = int((bias.abs() + 256 * weights.abs().sum((1, 2, 3))).max())  # codes less a zero point fit -255 .. 255
    kind = torch.float32 if bound < FLOAT32_EXACT else torch.float64  # in which sums are exact in any order
    weights, bias = weights.to(kind), bias.to(kind)
    rescale = _rescale(layer.rescale.multiplier, layer.rescale.shift, bound, layer.ROUNDS_TWICE)
    clamp = None if layer.wide else layer.clamp
    top, bottom, left, right = layer.pad
    pad, inner = (layer.pad, (0, 0)) if top != bottom or left != right else ((0, 0, 0, 0), (top, left))

    def step(x: Tensor) -> Tensor:
        if x.shape[1] == 1:  # PyTorch 2.13 convolves wrongly where the layout of one channel is ambiguous
            x = x.clone(memory_format=torch.contiguous_format)
        x = _padded(x.to(kind) - layer.input_zero_point, pad, 0.0)
        sums = fn.conv2d(x, weights, bias, layer.stride, inner, layer.dilation, layer.groups)
        return rescale(sums, layer.output_zero_point, clamp)

    return step


@_step.register
def _(layer: Add, *_: Shape) -> Step:
    (za, zb), (ma, mb) = layer.zero_points, layer.multipliers
    rescale = _rescale(np.array([1]), np.array([layer.shift]), 2**31)

    def step(a: Tensor, b: Tensor) -> Tensor:
        total = a.double() * ma + b.double() * mb - (za * ma + zb * mb)
        return rescale(total, layer.output_zero_point, layer.clamp)

    return step


@_step.register
def _(layer: Mul, *_: Shape) -> Step:
    za, zb = layer.zero_points
    rescale = _rescale(layer.rescale.multiplier, layer.rescale.shift, 2**16, layer.twice)
    return lambda a, b: rescale((a.double() - za) * (b.double() - zb), layer.output_zero_point, layer.clamp)


@_step.register
def _(layer: ScaledAdd, *_: Shape) -> Step:
    (za, zb), unit, sign = layer.zero_points, 2.0**layer.left_shift, -1 if layer.subtract else 1

    def rounded_twice(scale: Rescale) -> Step:
        return _rescale(scale.multiplier, scale.shift, 2**31, layer.ROUNDS_TWICE)

    rescale_a, rescale_b, rescale_sum = map(rounded_twice, (layer.rescale_a, layer.rescale_b, layer.rescale_sum))

    def step(a: Tensor, b: Tensor) -> Tensor:
        terms = rescale_a((a.double() - za) * unit, 0, None), rescale_b((b.double() - zb) * unit, 0, None)
        return rescale_sum(terms[0] + sign * terms[1], layer.output_zero_point, layer.clamp)

    return step


@_step.register
def _(layer: CodeTable, *_: Shape) -> Step:
    results = _here(layer.table.astype(np.float32))
    slopes = _here(np.gradient(layer.table.astype(np.float32)))

    def step(codes: Tensor) -> Tensor:
        found: Tensor = _Lookup.apply(codes, results, slopes)  # type: ignore[no-untyped-call]
        return found

    return step


@_step.register
def _(layer: MaxPool, *_: Shape) -> Step:
    return lambda x: fn.max_pool2d(_padded(x, layer.pad, BELOW_ALL_CODES), layer.kernel, layer.stride)


@_step.register
def _(layer: AvgPool, *shapes: Shape) -> Step:
    def window_sums(x: Tensor) -> Tensor:
        return fn.avg_pool2d(_padded(x, layer.pad, 0.0), layer.kernel, layer.stride, divisor_override=1)

    inside = window_sums(torch.ones(1, 1, *shapes[0][:2], dtype=torch.float64)).long()
    bits = torch.tensor([int(n - 1).bit_length() for n in inside.flatten()]).reshape(inside.shape)
    # (11) and (12) of docs/arithmetic.md
    rescale = _rescale_by(_Scale((((1 << 30) + 1) << bits) // inside, 30 + bits, 256 * int(inside.max()), False))
    return lambda x: rescale(window_sums(x.double() - layer.input_zero_point), layer.output_zero_point, INT8)


@_step.register
def _(layer: Requantise, *_: Shape) -> Step:
    rescale = _rescale(layer.rescale.multiplier, layer.rescale.shift, 256, layer.ROUNDS_TWICE)
    return lambda x: rescale(x - layer.input_zero_point, layer.output_zero_point, layer.clamp)


@_step.register
def _(layer: Concat, *_: Shape) -> Step:
    return lambda *inputs: torch.cat(inputs, 1)


@_step.register
def _(layer: Pad, *_: Shape) -> Step:
    return lambda x: _padded(x, layer.pad, float(layer.value))


@_step.register
def _(layer: Gather, *_: Shape) -> Step:
    indices = [(2, layer.rows), (3, layer.columns), (1, layer.channels)]
    chosen = [(axis, _here(found.astype(np.int64))) for axis, found in indices if len(found)]

    def step(x: Tensor) -> Tensor:
        for axis, found in chosen:
            x = x.index_select(axis, found)
        return x

    return step


def _quantiser(q: Quantiser) -> Step:
    low, high, multiplier, offset = (
        _here(values.astype(np.float64)) for values in (q.low, q.high, q.multiplier, q.offset)
    )

    def step(pixels: Tensor) -> Tensor:
        scaled = (torch.minimum(torch.maximum(pixels.double(), low), high) * multiplier + offset) / 2.0**q.shift
        codes = (scaled + (scaled.floor() - scaled).detach()).clamp(*INT8)
        return codes.float().permute(0, 3, 1, 2)  # in memory as before: what PyTorch calls channels_last

    return step


def _rescale(multiplier: NDArray[Any], shift: NDArray[Any], bound: int, twice: bool = False) -> Step:
    """RESCALE by one entry for all channels or one a channel, of values up to the bound."""
    m, h = (_here(values.astype(np.int64)).reshape(1, -1, 1, 1) for values in (multiplier, shift))
    return _rescale_by(_Scale(m, h, bound, twice))


def _rescale_by(scale: _Scale) -> Step:
    def step(value: Tensor, zero_point: int, clamp: Clamp) -> Tensor:
        found: Tensor = _Rescale.apply(value, scale, zero_point, clamp)  # type: ignore[no-untyped-call]
        return found

    return step


def _padded(x: Tensor, pad: tuple[int, int, int, int], value: float) -> Tensor:
    top, bottom, left, right = pad
    return fn.pad(x, (left, right, top, bottom), value=value) if any(pad) else x
