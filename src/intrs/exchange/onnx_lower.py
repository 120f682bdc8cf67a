"""Activations while a graph is read, and how each becomes layers once its quantisation is known.

A `Stored` activation lies in a tensor of the network. All others are real numbers that still wait for a QuantizeLinear:
only when the grid of the result is known can they be computed in integers with a single rounding.
`on(net, grid, clamp)` writes the layers for that grid and returns the tensor.

Rounding half up is monotone, so it commutes with max and with clipping: a Relu, Clip or MaxPool that waits is applied
to the codes and is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.onnx_arith import INT32, Clamp, Grid, add_integers, clamped, half_up, rescale
from intrs.exchange.onnx_file import Node, Refusal
from intrs.exchange.onnx_net import Builder, Pads, Units, Window, check_shape
from intrs.network import INT8, Add, AvgPool, Concat, Conv, MaxPool, Pad, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ADVICE = "quantize it, for instance with onnxruntime.quantization.quantize_static (docs/onnx.md)"
MAX_WAITING = 64  # operations in a row without a QuantizeLinear
WIDE_BITS = 29  # class scores stay within +-2**29, where RESCALE by any ratio is defined


class Activation(ABC):
    """A tensor of real numbers that the network computes."""

    grid: Grid | None = None  # set if the numbers already lie on a grid

    def __init__(self, node: Node, shape: Shape, *sources: Activation) -> None:
        check_shape(shape)
        self.node = node
        self.shape = shape
        self.waiting: int = 1 + max((source.waiting for source in sources), default=0)
        if self.waiting > MAX_WAITING:
            raise Refusal(f"it is the last of more than {MAX_WAITING} operations without a QuantizeLinear; {ADVICE}")
        self._done: dict[tuple[Grid, Clamp], int] = {}

    def on(self, net: Builder, grid: Grid, clamp: Clamp = INT8) -> int:
        """The tensor that holds the codes of these numbers on a grid, rounded half up and clamped."""
        key = grid, clamp
        if key not in self._done:
            try:
                self._done[key] = self.lower(net, grid, clamp)
            except Refusal as refusal:
                raise Refusal(str(refusal), refusal.node or self.node) from None
        return self._done[key]

    @abstractmethod
    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:
        """Write the layers for `on`."""

    def bounds(self) -> tuple[Fraction, Fraction] | None:
        """Two numbers between which all values lie, if any are known."""
        return None


class Stored(Activation):
    """Lies in a tensor of the network."""

    def __init__(self, node: Node, net: Builder, tensor: int, grid: Grid, *source: Activation) -> None:
        super().__init__(node, net.shapes[tensor], *source)
        self.tensor = tensor
        self.grid: Grid = grid

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        return net.requantise(self.tensor, self.grid, grid, clamp, self.node)

    def bounds(self) -> tuple[Fraction, Fraction]:  # noqa: D102 (as inherited)
        return self.grid.value(INT8[0]), self.grid.value(INT8[1])


class Image(Activation):
    """`factor * input + offset` per channel, of the graph's input."""

    def __init__(self, node: Node, shape: Shape, factors: Units, offsets: Units, *source: Activation) -> None:
        super().__init__(node, shape, *source)
        self.factors = factors
        self.offsets = offsets

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        pixels = net.pixels
        scale = pixels.decide(self.factors, self.offsets, grid)
        pairs = enumerate(zip(self.factors, self.offsets, strict=True))
        tensor = net.image(self.shape, [pixels.line(i, scale, a, b, grid) for i, (a, b) in pairs])
        return net.requantise(tensor, grid, grid, clamp, self.node)


class Rounded(Activation):
    """The output of QuantizeLinear: its real numbers are the codes of the file, 0 .. 255 or -128 .. 127."""

    def __init__(self, node: Node, inner: Activation, to: Grid, unsigned: bool) -> None:
        super().__init__(node, inner.shape, inner)
        self.inner = inner
        self.to = to
        self.grid: Grid = code_grid(unsigned)

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        if grid == self.grid:
            return self.inner.on(net, self.to, clamp)
        return net.requantise(self.inner.on(net, self.to), self.grid, grid, clamp, self.node)


def code_grid(unsigned: bool) -> Grid:
    """uint8 codes are kept less 128, as int8: the same mathematics."""
    return Grid(Fraction(1), INT8[0] if unsigned else 0)


class Clamped(Activation):
    """Relu or Clip of another activation; None: no bound on that side."""

    def __init__(self, node: Node, inner: Activation, low: Fraction | None, high: Fraction | None) -> None:
        super().__init__(node, inner.shape, inner)
        if low is not None and high is not None and low > high:
            raise Refusal("its lower bound is above its upper bound")
        self.inner = inner
        self.grid = inner.grid
        self.low = low
        self.high = high

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        low = clamp[0] if self.low is None else clamped(grid.code(self.low), clamp)
        high = clamp[1] if self.high is None else clamped(grid.code(self.high), clamp)
        return self.inner.on(net, grid, (low, high))

    def bounds(self) -> tuple[Fraction, Fraction] | None:  # noqa: D102 (as inherited)
        inner = self.inner.bounds()
        low, high = inner or (self.low, self.high)
        if low is None or high is None:
            return None
        limit = [low if self.low is None else self.low, high if self.high is None else self.high]
        return min(max(low, limit[0]), limit[1]), min(max(high, limit[0]), limit[1])


class Pooled(Activation):
    """MaxPool of an activation that waits."""

    def __init__(self, node: Node, inner: Activation, window: Window) -> None:
        super().__init__(node, (*window.slide(inner.shape), inner.shape[2]), inner)
        self.inner = inner
        self.window = window

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        return max_pooled(net, self.inner.on(net, grid, clamp), self.window, self.node)


class Padded(Activation):
    """An activation that waits, with a constant around it."""

    def __init__(self, node: Node, inner: Activation, pad: Pads, value: Fraction) -> None:
        height, width, channels = inner.shape
        super().__init__(node, (height + pad[0] + pad[1], width + pad[2] + pad[3], channels), inner)
        self.inner = inner
        self.pad = pad
        self.value = value

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        inner = self.inner.on(net, grid, clamp)
        return net.add(Pad((inner,), self.pad, clamped(grid.code(self.value), clamp), name=self.node.name))


class Joined(Activation):
    """Concat along channels; each part is brought to the grid of the result."""

    def __init__(self, node: Node, parts: Sequence[Activation]) -> None:
        height, width, _ = parts[0].shape
        super().__init__(node, (height, width, sum(part.shape[2] for part in parts)), *parts)
        self.parts = tuple(parts)
        grids = {part.grid for part in parts}
        self.grid = grids.pop() if len(grids) == 1 else None

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        return net.add(Concat(tuple(part.on(net, grid, clamp) for part in self.parts), name=self.node.name))


class Sum(Activation):
    """Add of two activations."""

    def __init__(self, node: Node, a: Activation, b: Activation) -> None:
        super().__init__(node, a.shape, a, b)
        self.terms = a, b

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        a, b = self.terms
        if a.grid is None and b.grid is None:
            raise Refusal(f"neither of its inputs is quantised; {ADVICE}")
        grids = a.grid or self._between(a, b, grid, clamp), b.grid or self._between(b, a, grid, clamp)
        tensors = a.on(net, grids[0]), b.on(net, grids[1])
        integers = add_integers(*grids, grid.scale)
        zeros = grids[0].zero, grids[1].zero
        return net.add(Add(tensors, integers.multipliers, zeros, integers.shift, grid.zero, clamp, name=self.node.name))

    @staticmethod
    def _between(waiting: Activation, other: Activation, grid: Grid, clamp: Clamp) -> Grid:
        """A grid for a term that the file does not quantise (PyTorch's x86 quantiser leaves such Convs).

        It holds every value that, added to a value of the other term, can give a result inside the clamp; what lies
        outside saturates on either grid. The extra rounding costs at most about one code of the result.
        """
        assert other.grid is not None
        most = (other.grid.value(INT8[0]), other.grid.value(INT8[1]))
        low = grid.value(clamp[0] - 1) - most[1]
        high = grid.value(clamp[1] + 1) - most[0]
        if (known := waiting.bounds()) is not None:
            low, high = max(low, known[0]), min(high, known[1])
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
        scale = (high - low) / 255 or grid.scale
        return Grid(scale, clamped(INT8[0] - half_up(low / scale), INT8))


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
    positive = np.where(weights > 0, weights, 0).sum(axis=(1, 2, 3), dtype=np.int64)
    negative = np.where(weights < 0, weights, 0).sum(axis=(1, 2, 3), dtype=np.int64)
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


def settled(net: Builder, source: Activation, node: Node) -> Stored:
    """The activation as a tensor, for a layer that needs integers; refused if the file never quantises it."""
    if isinstance(source, Stored):
        return source
    if source.grid is None:
        raise Refusal(f"this is a float layer: its input, from {source.node}, is not quantised; {ADVICE}")
    return Stored(node, net, source.on(net, source.grid), source.grid)


def max_pooled(net: Builder, tensor: int, window: Window, node: Node) -> int:
    """MaxPool of a tensor."""
    return net.add(MaxPool((tensor,), window.kernel, window.stride, window.pad, name=node.name))


def max_pool(net: Builder, source: Activation, window: Window, node: Node) -> Activation:
    """MaxPool, now if the codes are there, else when their grid is known."""
    if source.grid is None:
        return Pooled(node, source, window)
    stored = settled(net, source, node)
    return Stored(node, net, max_pooled(net, stored.tensor, window, node), stored.grid)


def average_inside(net: Builder, source: Activation, window: Window, node: Node) -> Stored:
    """AveragePool that does not count padding: TOSA AVG_POOL2D, on the grid of its input."""
    stored = settled(net, source, node)
    window.slide(stored.shape)
    zero = stored.grid.zero
    layer = AvgPool((stored.tensor,), window.kernel, window.stride, window.pad, zero, zero, name=node.name)
    return Stored(node, net, net.add(layer), stored.grid)


def average(net: Builder, source: Activation, window: Window, node: Node) -> Product:
    """The mean over a window that counts padding as zeros: a depthwise sum, rounded once."""
    stored = settled(net, source, node)
    channels, area = stored.shape[2], window.kernel[0] * window.kernel[1]
    window.slide(stored.shape)
    net.spend(channels, channels * area)
    weights = np.ones((channels, *window.kernel, 1), np.int8)
    units = (stored.grid.scale / area,) * channels
    return Product(node, stored, weights, units, (Fraction(0),) * channels, channels, window)


def affine(net: Builder, source: Activation, factors: Units, offsets: Units, node: Node) -> Activation:
    """`factor * source + offset` per channel, folded into what computes the source where that can be."""
    net.spend(source.shape[2])
    if all(f == 1 for f in factors) and not any(offsets):
        return source
    if isinstance(source, Image):
        offsets = tuple(b * f + o for b, f, o in zip(source.offsets, factors, offsets, strict=True))
        factors = tuple(a * f for a, f in zip(source.factors, factors, strict=True))
        return Image(node, source.shape, factors, offsets, source)
    if isinstance(source, Product):
        net.spend(0, source.weights.size)
        return source.affine(node, factors, offsets)
    stored = settled(net, source, node)
    if len(set(factors)) == 1 and factors[0] > 0 and not any(offsets):
        return Stored(node, net, stored.tensor, Grid(stored.grid.scale * factors[0], stored.grid.zero), source)
    return _depthwise(stored, node).affine(node, factors, offsets)


def _depthwise(stored: Stored, node: Node) -> Product:
    """The identity as a 1 x 1 depthwise layer. Weights of 64 give the bias of an affine map 6 bits below a code."""
    channels = stored.shape[2]
    weights = np.full((channels, 1, 1, 1), 64, np.int8)
    return Product(node, stored, weights, (stored.grid.scale / 64,) * channels, (Fraction(0),) * channels, channels)
