"""Activations while a graph is read, and how each becomes layers once its quantisation is known.

A `Stored` activation lies in a tensor of the network. All others are real numbers that still wait for a QuantizeLinear:
only when the grid of the result is known can they be computed in integers with a single rounding.
`on(net, grid, clamp)` writes the layers for that grid and returns the tensor.

Rounding half up is monotone, so it commutes with max and with clipping: a Relu, Clip or MaxPool that waits is applied
to the codes and is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from intrs.exchange.builder import Builder, Pads, Units, Window, check_shape
from intrs.exchange.integers import Clamp, Grid, add_integers, clamped, half_up, rescale
from intrs.exchange.onnx.functions import CODES, MOST_STEPS, Function, clip
from intrs.exchange.refusal import ADVICE, Refusal
from intrs.network import INT8, Add, CodeTable, Concat, Conv, Gather, MaxPool, Pad, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.exchange.onnx.file import Node

TABLE_COST = 64  # channels' worth of exact arithmetic, of one function at 256 codes
MOST_ZOOMS = 64  # of `_span`
SAMPLES = 256
MAX_WAITING = 24  # operations in a row without a QuantizeLinear: each makes fractions longer


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

    def function(self) -> Function:
        """These numbers as a function of those of an activation before them; of themselves if there is none."""
        return Function(self)

    def is_elementwise(self) -> bool:
        """Whether every number depends on one code only, so that `bounds` are not far off."""
        return self.grid is not None or self.function().root.grid is not None

    def origin_key(self) -> object:
        """Equal for two activations that hold the same numbers."""
        return id(self)


class Stored(Activation):
    """Lies in a tensor of the network."""

    def __init__(
        self, node: Node, net: Builder, tensor: int, grid: Grid, *source: Activation, origin: Function | None = None
    ) -> None:
        super().__init__(node, net.shapes[tensor], *source)
        self.tensor = tensor
        self.grid: Grid = grid
        self._origin = origin

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        return net.requantise(self.tensor, self.grid, grid, clamp, self.node.name)

    def bounds(self) -> tuple[Fraction, Fraction]:  # noqa: D102 (as inherited)
        return self.grid.value(INT8[0]), self.grid.value(INT8[1])

    def function(self) -> Function:  # noqa: D102 (as inherited)
        return self._origin or Function(self)

    def origin_key(self) -> object:  # noqa: D102 (as inherited)
        return self.tensor, self.grid


class Image(Activation):
    """`factor * input + offset` per channel, of the graph's input."""

    def __init__(self, node: Node, shape: Shape, factors: Units, offsets: Units, *source: Activation) -> None:
        super().__init__(node, shape, *source)
        self.factors = factors
        self.offsets = offsets

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        tensor = net.image(self.shape, self.factors, self.offsets, grid)
        return net.requantise(tensor, grid, grid, clamp, self.node.name)


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
        return net.requantise(self.inner.on(net, self.to), self.grid, grid, clamp, self.node.name)

    def origin(self, grid: Grid) -> Function | None:
        """What DequantizeLinear on a grid gives, as a function of a tensor further up, if it is one of interest."""
        function = self.inner.function()
        if not function.steps or function.steps >= MOST_STEPS or function.root.grid is None:
            return None
        return function.rounded(self.to, grid)


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
        self.grid = _holding(inner.grid, low=low, high=high)
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

    def function(self) -> Function:  # noqa: D102 (as inherited)
        return self.inner.function().then(clip(self.low, self.high), plain=True)

    def is_elementwise(self) -> bool:  # noqa: D102 (as inherited)
        return self.inner.is_elementwise()


class Pooled(Activation):
    """MaxPool of an activation that waits."""

    def __init__(self, node: Node, inner: Activation, window: Window) -> None:
        super().__init__(node, (*window.slide(inner.shape), inner.shape[2]), inner)
        self.inner = inner
        self.window = window

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        return max_pooled(net, self.inner.on(net, grid, clamp), self.window, self.node)


def _holding(grid: Grid | None, *, low: Fraction | None = None, high: Fraction | None = None) -> Grid | None:
    """The grid, if it has codes at least this high and this low: up to half a step, which rounding takes away."""
    if grid is None or (low is not None and low > grid.value(INT8[1]) + grid.scale / 2):
        return None
    return None if high is not None and high < grid.value(INT8[0]) - grid.scale / 2 else grid


class Padded(Activation):
    """An activation with a constant around it; it waits for another grid if its own does not reach the constant."""

    def __init__(self, node: Node, inner: Activation, pad: Pads, value: Fraction) -> None:
        height, width, channels = inner.shape
        super().__init__(node, (height + pad[0] + pad[1], width + pad[2] + pad[3], channels), inner)
        self.inner = inner
        self.grid = _holding(inner.grid, low=value, high=value)
        self.pad = pad
        self.value = value

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        inner = self.inner.on(net, grid, clamp)
        return net.add(Pad((inner,), self.pad, clamped(grid.code(self.value), clamp), name=self.node.name))

    def seen_by(self, window: Window) -> Window | None:
        """The window of a MaxPool over `inner` that gives the same: for a constant below all values of its grid.

        None where a window could hold nothing but the constant.
        """
        grid = self.inner.grid
        top, bottom, left, right = (a + b for a, b in zip(self.pad, window.pad, strict=True))
        alone = max(top, bottom) >= window.kernel[0] or max(left, right) >= window.kernel[1]
        if grid is None or self.value > grid.value(INT8[0]) or alone:
            return None
        return replace(window, pad=(top, bottom, left, right))


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


class Stacked(Activation):
    """Concat along height or width: a sum of the parts, each padded by zeros to the size of the whole."""

    def __init__(self, node: Node, parts: Sequence[Activation], axis: Literal[0, 1]) -> None:
        sizes = [part.shape[axis] for part in parts]
        shape = list(parts[0].shape)
        shape[axis] = sum(sizes)
        super().__init__(node, (shape[0], shape[1], shape[2]), *parts)
        self.parts = tuple(parts)
        self.sizes = sizes
        self.axis = axis
        grids = {part.grid for part in parts}
        self.grid = grids.pop() if len(grids) == 1 else None

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        total, before, unit = None, 0, 4  # (a * 4 + 2) >> 2 is a
        for part, size in zip(self.parts, self.sizes, strict=True):
            ends = before, sum(self.sizes) - before - size
            pad: Pads = (*ends, 0, 0) if self.axis == 0 else (0, 0, *ends)
            padded = net.add(Pad((part.on(net, grid, clamp),), pad, grid.zero, name=self.node.name))
            if total is not None:
                zeros = grid.zero, grid.zero
                padded = net.add(Add((total, padded), (unit, unit), zeros, 2, grid.zero, name=self.node.name))
            total, before = padded, before + size
        assert total is not None
        return total


class Gathered(Activation):
    """An activation that waits, with rows, columns and channels in another order, left out or repeated."""

    def __init__(self, node: Node, inner: Activation, picked: Gather) -> None:
        super().__init__(node, picked.output_shape(inner.shape), inner)
        self.inner = inner
        self.picked = picked

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        return net.add(replace(self.picked, inputs=(self.inner.on(net, grid, clamp),)))

    def bounds(self) -> tuple[Fraction, Fraction] | None:  # noqa: D102 (as inherited)
        return self.inner.bounds()


class Constants(Activation):
    """One number per channel, the same at all places of another activation."""

    def __init__(self, node: Node, values: Units, places: Activation) -> None:
        super().__init__(node, (*places.shape[:2], len(values)), places)
        self.values = values
        self.places = places

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:
        """A layer needs an input: one channel of the other activation, which weights of 0 leave out."""
        count = len(self.values)
        any_channel = np.zeros(count, np.int32)
        source = net.add(Gather((self.places.on(net, grid, clamp),), channels=any_channel, name=self.node.name))
        codes = np.array([clamped(grid.code(value), clamp) for value in self.values], np.int32)
        weights, one, none = np.zeros((count, 1, 1, 1), np.int8), (1, 1), (0, 0, 0, 0)
        unit, name = rescale([Fraction(1)]), self.node.name
        return net.add(Conv((source,), weights, codes, count, one, one, none, 0, unit, 0, name=name))

    def bounds(self) -> tuple[Fraction, Fraction]:  # noqa: D102 (as inherited)
        return min(self.values), max(self.values)


class Sum(Activation):
    """Add of two activations."""

    def __init__(self, node: Node, a: Activation, b: Activation) -> None:
        super().__init__(node, broadcast(a.shape, b.shape), a, b)
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


class Pointwise(Activation):
    """A function of the codes of one tensor: a table."""

    def __init__(self, node: Node, function: Function, *sources: Activation) -> None:
        super().__init__(node, function.root.shape, *sources)
        self._function = function

    def function(self) -> Function:  # noqa: D102 (as inherited)
        return self._function

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        net.budget.spend(TABLE_COST)
        root = self._function.root
        of = root.grid or _span(self._function, grid, clamp)
        table = self._function.table(of, grid, clamp)
        tensor = root.on(net, of)
        if np.array_equal(table, CODES):
            return tensor
        return net.add(CodeTable((tensor,), table, name=self.node.name))

    def bounds(self) -> tuple[Fraction, Fraction] | None:  # noqa: D102 (as inherited)
        grid = self._function.root.grid
        return None if grid is None else self._function.bounds([grid.value(code) for code in CODES])


def _span(function: Function, grid: Grid, clamp: Clamp) -> Grid:
    """A grid for an activation that the file does not quantise before a function of it (NNCF leaves such Convs).

    It spans the numbers between which the code of the result still changes, found by looking ever closer. Rounding to
    it costs about one code of the result.
    """
    known = function.root.bounds()
    if known is None:
        raise Refusal(f"its input, from {function.root.node}, is not quantised; {ADVICE}")
    low, high = min(known[0], Fraction(0)), max(known[1], Fraction(0))
    for _ in range(MOST_ZOOMS):
        step = (high - low) / (SAMPLES - 1)
        places = [low + step * i for i in range(SAMPLES)]
        codes = function.codes(places, grid, clamp)
        first = next((i for i, code in enumerate(codes) if code != codes[0]), SAMPLES)
        last = next((i for i in range(SAMPLES - 1, -1, -1) if codes[i] != codes[-1]), -1)
        if first > last + 1 or (first <= 1 and last >= SAMPLES - 2):
            break
        low, high = places[max(first - 1, 0)], places[min(last + 1, SAMPLES - 1)]
    return spanning(low, high, grid.scale)


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of two activations of which one may be a single pixel for all places of the other."""
    return b if a[:2] == (1, 1) else a


def settled(net: Builder, source: Activation, node: Node) -> Stored:
    """The activation as a tensor, for a layer that needs integers; refused if the file never quantises it."""
    if isinstance(source, Stored):
        return source
    if source.grid is None:
        raise Refusal(f"this is a float layer: its input, from {source.node}, is not quantised; {ADVICE}")
    return Stored(node, net, source.on(net, source.grid), source.grid)


def spanning(low: Fraction, high: Fraction, default: Fraction) -> Grid:
    """The grid whose codes reach from one number to the other, with zero among them."""
    low, high = _coarse(min(low, Fraction(0))), _coarse(max(high, Fraction(0)))
    scale = (high - low) / 255 or default
    return Grid(scale, clamped(INT8[0] - half_up(low / scale), INT8))


def _coarse(value: Fraction) -> Fraction:
    """A number near this one that is written with few digits: nothing depends on where a grid ends exactly."""
    return Fraction(half_up(value * 2**32), 2**32)


def grid_within(source: Activation) -> Grid:
    """The grid of an activation; one that spans its values, if it is a function of codes and was left unquantised."""
    if source.grid is not None:
        return source.grid
    bounds = source.bounds()
    if not source.is_elementwise() or bounds is None:
        raise Refusal(f"this is a float layer: its input, from {source.node}, is not quantised; {ADVICE}")
    return spanning(*bounds, Fraction(1))


def settled_within(net: Builder, source: Activation, node: Node) -> Stored:
    """As `settled`, but what is a function of codes may have been left unquantised: it is rounded once more."""
    if isinstance(source, Stored):
        return source
    grid = grid_within(source)
    return Stored(node, net, source.on(net, grid), grid)


def max_pooled(net: Builder, tensor: int, window: Window, node: Node) -> int:
    """MaxPool of a tensor."""
    return net.add(MaxPool((tensor,), window.kernel, window.stride, window.pad, name=node.name))


def max_pool(net: Builder, source: Activation, window: Window, node: Node) -> Activation:
    """MaxPool, now if the codes are there, else when their grid is known."""
    if isinstance(source, Padded) and (wider := source.seen_by(window)) is not None:
        return max_pool(net, source.inner, wider, node)
    if source.grid is None:
        return Pooled(node, source, window)
    stored = settled(net, source, node)
    return Stored(node, net, max_pooled(net, stored.tensor, window, node), stored.grid)


def gathered(net: Builder, source: Activation, picked: Gather, node: Node) -> Activation:
    """Gather, now if the codes are there, else when their grid is known."""
    if source.grid is None:
        return Gathered(node, source, picked)
    stored = settled(net, source, node)
    return Stored(node, net, net.add(replace(picked, inputs=(stored.tensor,))), stored.grid)
