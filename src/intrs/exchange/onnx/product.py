"""Products: activations that are sums of weights times another activation, and what becomes one of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.builder import Builder, Units, Window
from intrs.exchange.integers import HALF, INT32, Clamp, Grid, Line, clamped, half_up, rescale, scaled
from intrs.exchange.onnx.activations import (
    Activation,
    Clamped,
    Image,
    Pointwise,
    Stored,
    settled,
    settled_within,
    spanning,
)
from intrs.exchange.onnx.functions import Function, line
from intrs.exchange.refusal import Refusal
from intrs.network import INT8, AvgPool, Concat, Conv, Gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.exchange.onnx.file import Node

PER_TENSOR = "quantize activations with one scale per tensor"
LEAST_WEIGHT = 64  # of a depthwise layer that computes lines; its bias is rounded to a fraction of a code
MOST_BIAS = 2**20  # codes of the input; beyond, the layer is hardly more than its bias
WIDE_BITS = 29  # class scores stay within +-2**29, where RESCALE by any ratio is defined


class Product(Activation):
    """Conv, Gemm, MatMul, averages, affine maps: `unit * (sum of weights * (x - zero)) + bias`, per output channel."""

    def __init__(
        self,
        node: Node,
        source: Stored,
        weights: NDArray[np.int8],  # (out, height, width, in / groups)
        units: Units,
        bias: Units,
        groups: int = 1,
        window: Window | None = None,
        waiting: Activation | None = None,
    ) -> None:
        self.window = window or Window((weights.shape[1], weights.shape[2]))
        shape = (*self.window.slide(source.shape), weights.shape[0])
        super().__init__(node, shape, *((waiting,) if waiting else ()))
        self.source = source
        self.weights = weights
        self.units = units
        self.bias = bias
        self.groups = groups

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        integers = self._integers(grid.scale / 2**16)
        ratios = rescale([unit / grid.scale for unit in integers.units])
        return net.add(self._layer(integers, rescale=ratios, output_zero_point=grid.zero, clamp=clamp))

    def wide(self, net: Builder) -> int:
        """The tensor of these numbers as int32 class scores on one common scale."""
        integers = self._integers(max(self.units))
        largest = max(integers.units)
        ratios = [unit / largest for unit in integers.units]
        room = self._headroom(integers, ratios)
        if len(set(ratios)) == 1:
            room = min(room, 0)  # the accumulators themselves, exactly
        wide = rescale([ratio * Fraction(2) ** room for ratio in ratios])
        return net.add(self._layer(integers, rescale=wide, output_zero_point=0, wide=True))

    def bounds(self) -> tuple[Fraction, Fraction]:  # noqa: D102 (as inherited)
        reach = accumulator_reach(self.weights, self.source.grid.zero)
        spans = [u * r for u, r in zip(self.units, reach, strict=True)]
        lows = [b - s for b, s in zip(self.bias, spans, strict=True)]
        return min(lows), max(b + s for b, s in zip(self.bias, spans, strict=True))

    def affine(self, node: Node, factors: Units, offsets: Units) -> Product:
        """`factor * self + offset`, with the same accumulators."""
        units = tuple(u * abs(f) if f else u for u, f in zip(self.units, factors, strict=True))
        bias = tuple(b * f + o for b, f, o in zip(self.bias, factors, offsets, strict=True))
        signs = np.array([(f > 0) - (f < 0) for f in factors], np.int16)
        if (signs == 1).all():
            weights = self.weights
        else:
            weights = to_int8(self.weights.astype(np.int16) * signs[:, None, None, None])
        return Product(node, self.source, weights, units, bias, self.groups, self.window, self)

    def _integers(self, spare: Fraction) -> _Integers:
        """Weights, their units, and the bias in those units. `spare` is the unit of channels with no weight at all."""
        reach = accumulator_reach(self.weights, self.source.grid.zero)
        weights, units, bias = self.weights, list(self.units), []
        for c, value in enumerate(self.bias):
            if reach[c] == 0:
                units[c] = spare
            bits = self._excess(c, value / units[c], reach[c])
            if bits:
                weights = weights.copy() if weights is self.weights else weights
                weights[c] = _coarser(weights[c], bits)
                units[c] *= 2**bits
            bias.append(half_up(value / units[c]))
        return _Integers(weights, tuple(units), bias)

    def _excess(self, channel: int, bias: Fraction, reach: int) -> int:
        """By how many bits a channel must be coarsened to let its bias fit the accumulator.

        A channel with next to no weight has a tiny unit, in which its bias is a huge number; what its weights then lose
        is far below a code of the result. Weights that overflow by themselves are left for the core to refuse.
        """
        if reach > INT32:
            return 0
        bits = max(0, abs(half_up(bias)).bit_length() - 31)
        while abs(half_up(bias / 2**bits)) + self._coarse_reach(channel, bits, reach) > INT32:
            bits += 1
        return bits

    def _coarse_reach(self, channel: int, bits: int, reach: int) -> int:
        if bits == 0 or reach == 0:
            return reach
        return accumulator_reach(_coarser(self.weights[channel : channel + 1], bits), self.source.grid.zero)[0]

    def _headroom(self, integers: _Integers, ratios: list[Fraction]) -> int:
        """The largest power of two by which all scores can be multiplied and stay within 2**WIDE_BITS."""
        reach = accumulator_reach(integers.weights, self.source.grid.zero)
        most = max((r + abs(b)) * ratio for r, b, ratio in zip(reach, integers.bias, ratios, strict=True))
        room = WIDE_BITS - 1
        while room > -WIDE_BITS and most * Fraction(2) ** room >= 2**WIDE_BITS:
            room -= 1
        return room

    def _layer(self, integers: _Integers, **after: Any) -> Conv:
        if max(map(abs, integers.bias)) > INT32:
            raise Refusal("its accumulator could leave 32 bits; use smaller weights or fewer input channels")
        return Conv(
            (self.source.tensor,),
            weights=integers.weights,
            bias=np.array(integers.bias, np.int32),
            groups=self.groups,
            stride=self.window.stride,
            dilation=self.window.dilation,
            pad=self.window.pad,
            input_zero_point=self.source.grid.zero,
            name=self.node.name,
            **after,
        )


@dataclass(frozen=True, eq=False)
class _Integers:
    weights: NDArray[np.int8]
    units: Units
    bias: list[int]


def _coarser(weights: NDArray[np.int8], bits: int) -> NDArray[np.int8]:
    if bits > 7:
        return np.zeros_like(weights)
    return ((weights.astype(np.int16) + (1 << (bits - 1))) >> bits).astype(np.int8)


def accumulator_reach(weights: NDArray[np.int8], zero: int) -> list[int]:
    """Per output channel the largest magnitude of the sum of weights * (x - zero), over all int8 x."""
    positive = np.maximum(weights, 0).sum(axis=(1, 2, 3), dtype=np.int64)
    negative = np.minimum(weights, 0).sum(axis=(1, 2, 3), dtype=np.int64)
    below, above = INT8[0] - zero, INT8[1] - zero
    most = np.maximum(positive * above + negative * below, -(positive * below + negative * above))
    return [int(m) for m in most]


def to_int8(weights: NDArray[Any]) -> NDArray[np.int8]:
    """Weights less their zero point, which must fit 8 bits."""
    if weights.size and (weights.min() < INT8[0] or weights.max() > INT8[1]):
        raise Refusal(
            "its weights less their zero point do not fit 8 bits; quantize weights symmetrically (int8, zero point 0)"
        )
    return weights.astype(np.int8)


def fitted_weights(
    net: Builder, source: Stored, weights: NDArray[Any], groups: int, node: Node
) -> tuple[Stored, NDArray[np.int8]]:
    """Weights as int8; where they exceed it, their input channels are repeated and take what is left over: exact."""
    if not weights.size or (weights.min() >= INT8[0] and weights.max() <= INT8[1]):
        return source, weights.astype(np.int8)
    part = np.clip(weights, *INT8)
    rest = weights - part
    repeated = np.flatnonzero(rest.any(axis=(0, 1, 2)))
    inputs = weights.shape[3]
    net.budget.spend(0, part.size)
    order = [g * inputs + i for g in range(groups) for i in (*range(inputs), *repeated.tolist())]
    tensor = net.add(Gather((source.tensor,), channels=np.array(order, np.int32), name=node.name))
    return Stored(node, net, tensor, source.grid), to_int8(np.concatenate([part, rest[..., repeated]], axis=3))


def average_inside(net: Builder, source: Activation, window: Window, node: Node) -> Stored:
    """AveragePool that does not count padding: TOSA AVG_POOL2D, on the grid of its input."""
    stored = settled_within(net, source, node)
    window.slide(stored.shape)
    zero = stored.grid.zero
    layer = AvgPool((stored.tensor,), window.kernel, window.stride, window.pad, zero, zero, name=node.name)
    return Stored(node, net, net.add(layer), stored.grid)


def average(net: Builder, source: Activation, window: Window, node: Node) -> Product:
    """The mean over a window that counts padding as zeros: a depthwise sum, rounded once."""
    area = window.kernel[0] * window.kernel[1]
    if isinstance(source, ChannelLines) and not any(window.pad):  # the mean of a line is the line of the mean
        return average(net, source.source, window, node).affine(node, source.factors, source.offsets)
    if source.grid is None and source.function().root.grid is not None:
        stored, weights, unit = _in_two(net, source, node)
    else:
        stored, weights = settled_within(net, source, node), (1,)
        unit = stored.grid.scale
    channels = stored.shape[2] // len(weights)
    window.slide(stored.shape)
    net.budget.spend(channels, channels * area * len(weights))
    kernel = np.broadcast_to(np.array(weights, np.int8), (channels, *window.kernel, len(weights)))
    return Product(node, stored, kernel, (unit / area,) * channels, (Fraction(0),) * channels, channels, window)


def _in_two(net: Builder, source: Activation, node: Node) -> tuple[Stored, tuple[int, ...], Fraction]:
    """A function of codes that the file leaves unquantised, as codes of a coarse and of a fine grid in turns.

    Sums of them, weighted as told, have the unit that is told: a 64th of the coarse grid's scale.
    """
    function, bounds = source.function(), source.bounds()
    assert bounds is not None
    coarse = _coarse_grid(*bounds)
    fine = Grid(coarse.scale / LEAST_WEIGHT, coarse.zero)
    tensors = [Pointwise(node, f).on(net, grid) for f, grid in ((function, coarse), (function.rest(coarse), fine))]
    both, channels = net.add(Concat(tuple(tensors), name=node.name)), source.shape[2]
    order = np.arange(2 * channels, dtype=np.int32).reshape(2, channels).T.ravel()
    tensor = net.add(Gather((both,), channels=order, name=node.name))
    return Stored(node, net, tensor, coarse), (LEAST_WEIGHT, 1), fine.scale


def _coarse_grid(low: Fraction, high: Fraction) -> Grid:
    """A grid that spans these numbers, with room for what is left over about its zero point."""
    half = LEAST_WEIGHT // 2 + 1
    zero = clamped(spanning(low, high, Fraction(1)).zero, (INT8[0] + half, INT8[1] - half))
    return Grid(max(high / (INT8[1] - zero), -low / (zero - INT8[0])) or Fraction(1), zero)


def affine(net: Builder, source: Activation, factors: Units, offsets: Units, node: Node) -> Activation:
    """`factor * source + offset` per channel, folded into what computes the source where that can be."""
    net.budget.spend(source.shape[2])
    if all(f == 1 for f in factors) and not any(offsets):
        return source
    if isinstance(source, Image):
        offsets = tuple(b * f + o for b, f, o in zip(source.offsets, factors, offsets, strict=True))
        factors = tuple(a * f for a, f in zip(source.factors, factors, strict=True))
        return Image(node, source.shape, factors, offsets, source)
    if isinstance(source, Product):
        net.budget.spend(0, source.weights.size)
        return source.affine(node, factors, offsets)
    stored = settled(net, source, node)
    if len(set(factors)) == 1 and factors[0] > 0 and not any(offsets):
        origin = stored.function().then(line(factors[0], Fraction(0)), plain=True)
        grid = Grid(stored.grid.scale * factors[0], stored.grid.zero)
        return Stored(node, net, stored.tensor, grid, source, origin=origin)
    return ChannelLines(node, stored, factors, offsets)


def in_units(net: Builder, source: Activation, scales: Units, grid: Grid, node: Node) -> Activation:
    """An activation in units of a scale per channel, for a quantizer that has many (NNCF's before depthwise layers)."""
    zeros = (Fraction(0),) * len(scales)
    if isinstance(source, Clamped):
        least, most = grid.value(INT8[0]), grid.value(INT8[1])
        low = None if source.low is None or source.low / max(scales) < least + HALF else source.low
        high = None if source.high is None or source.high / max(scales) >= most - HALF else source.high
        if low or high:
            raise Refusal(f"{source.node} clips inside of what the scales per channel cover; {PER_TENSOR}")
        return Clamped(node, in_units(net, source.inner, scales, grid, node), low, high)
    if source.grid is None and not isinstance(source, Product | Image):
        raise Refusal(f"it quantises an activation per channel, from {source.node}, which is not a Conv; {PER_TENSOR}")
    return affine(net, source, tuple(1 / scale for scale in scales), zeros, node)


class ChannelLines(Product):
    """`factor * x + offset` per channel of an activation that is quantised: a 1 x 1 depthwise layer.

    Its weight may be any of 64 .. 127: with each the bias is rounded to other places, and one of them gives the right
    code for all 256 codes of the input, but in the rarest cases.
    """

    def __init__(self, node: Node, stored: Stored, factors: Units, offsets: Units, *waiting: Activation) -> None:
        channels = stored.shape[2]
        self.factors, self.offsets = factors, offsets
        signs = [(f > 0) - (f < 0) for f in factors]
        weights = np.array(signs, np.int8).reshape(channels, 1, 1, 1) * np.int8(LEAST_WEIGHT)
        units = tuple(stored.grid.scale * (abs(f) if f else 1) / LEAST_WEIGHT for f in factors)
        super().__init__(node, stored, weights, units, offsets, channels, None, *waiting)

    def is_elementwise(self) -> bool:  # noqa: D102 (as inherited)
        return True

    @property
    def only_scales(self) -> bool:
        """Whether it only gives every channel a scale of its own."""
        return not any(self.offsets) and min(self.factors) > 0

    def affine(self, node: Node, factors: Units, offsets: Units) -> Product:  # noqa: D102 (as inherited)
        offsets = tuple(b * f + o for b, f, o in zip(self.offsets, factors, offsets, strict=True))
        factors = tuple(a * f for a, f in zip(self.factors, factors, strict=True))
        return ChannelLines(node, self.source, factors, offsets, self)

    def function(self) -> Function:  # noqa: D102 (as inherited)
        if len(set(self.factors)) > 1 or len(set(self.offsets)) > 1:
            return super().function()
        return self.source.function().then(line(self.factors[0], self.offsets[0]), plain=True)

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        integers, zero = self._integers(grid.scale / 2**16), self.source.grid.zero
        weights, units = integers.weights.copy(), list(integers.units)
        bias = list(integers.bias)
        step = self.source.grid.scale / grid.scale
        found: dict[tuple[Fraction, Fraction], tuple[int, int]] = {}
        for c, (factor, offset) in enumerate(zip(self.factors, self.offsets, strict=True)):
            slope, start = factor * step, offset / grid.scale
            if slope == 0 or abs(start / slope) > MOST_BIAS:
                continue
            if (slope, start) not in found:
                found[slope, start] = best_line(Line(slope, start), zero, grid.zero, clamp)
            weight, bias[c] = found[slope, start]
            weights[c] = weight
            units[c] = abs(factor) * self.source.grid.scale / abs(weight)
        ratios = rescale([unit / grid.scale for unit in units])
        chosen = _Integers(weights, tuple(units), bias)
        return net.add(self._layer(chosen, rescale=ratios, output_zero_point=grid.zero, clamp=clamp))


def best_line(wanted: Line, zero: int, output_zero: int, clamp: Clamp) -> tuple[int, int]:
    """(weight, bias) of a depthwise layer whose codes are `wanted` of x - zero, at all codes x or at most of them."""
    targets = _codes_of(wanted, zero, output_zero, clamp)
    codes = np.arange(INT8[0], INT8[1] + 1, dtype=np.int64) - zero
    sign, slope = (1 if wanted.slope > 0 else -1), abs(wanted.slope)
    weights = np.arange(LEAST_WEIGHT, INT8[1] + 1)
    ideals = weights * float(wanted.offset / slope)  # doubles only say what is tried first
    order = weights[np.argsort(np.abs(ideals - np.rint(ideals)) / weights, kind="stable")].tolist()
    best, least = (0, 0), len(codes) + 1
    for weight in order:
        bias = half_up(wanted.offset * weight / slope)
        multiplier, shift = scaled(slope / weight)
        sums = (codes * (sign * weight) + bias) * multiplier + (1 << (shift - 1))
        wrong = int((np.clip((sums >> shift) + output_zero, *clamp) != targets).sum())
        if wrong < least:
            best, least = (sign * weight, bias), wrong
        if not wrong:
            break
    return best


def _codes_of(wanted: Line, zero: int, output_zero: int, clamp: Clamp) -> NDArray[np.int64]:
    """The exact codes of a line, rounded half up: by doubles where these are far from a tie, else by fractions."""
    codes = np.arange(INT8[0], INT8[1] + 1, dtype=np.int64) - zero
    slope, offset = float(wanted.slope), float(wanted.offset)
    values = codes * slope + (offset + 0.5)
    doubt = 1e-9 * (1 + 256 * abs(slope) + abs(offset))
    floors = np.clip(np.floor(values), -(2**40), 2**40)
    for i in np.flatnonzero(np.abs(values - np.rint(values)) < doubt):
        floors[i] = max(-(2**40), min(2**40, half_up(wanted.slope * int(codes[i]) + wanted.offset)))
    return np.asarray(np.clip(floors.astype(np.int64) + output_zero, *clamp))
