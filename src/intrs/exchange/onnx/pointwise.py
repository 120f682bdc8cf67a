"""Activations that are functions of codes: tables, products of two activations, slopes per channel.

As in `activations`, all wait for the grid of their result.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.integers import Clamp, Grid, add_integers, rescale
from intrs.exchange.onnx.activations import Activation, Clamped, Stored, broadcast, grid_within, spanning
from intrs.exchange.onnx.functions import CODES, Function
from intrs.exchange.onnx.product import affine
from intrs.exchange.refusal import ADVICE, Refusal
from intrs.network import INT8, Add, CodeTable, Mul

if TYPE_CHECKING:
    from intrs.exchange.builder import Builder, Units
    from intrs.exchange.onnx.file import Node

TABLE_COST = 64  # channels' worth of exact arithmetic, of one function at 256 codes
MOST_ZOOMS = 64  # of `_span`
SAMPLES = 256


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


class Multiplied(Activation):
    """Mul of two activations."""

    def __init__(self, node: Node, a: Activation, b: Activation) -> None:
        super().__init__(node, broadcast(a.shape, b.shape), a, b)
        self.factors = a, b

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        grids = [grid_within(factor) for factor in self.factors]
        tensors = self.factors[0].on(net, grids[0]), self.factors[1].on(net, grids[1])
        ratio = rescale([grids[0].scale * grids[1].scale / grid.scale])
        return net.add(Mul(tensors, (grids[0].zero, grids[1].zero), ratio, grid.zero, clamp, name=self.node.name))


class Slopes(Activation):
    """PRelu with a slope per channel: the part above zero, and those below with slopes of either sign.

    At every place at most one part is not zero, so that their sum is exact, and so is every code.
    """

    def __init__(self, node: Node, net: Builder, inner: Activation, slopes: Units) -> None:
        super().__init__(node, inner.shape, inner)
        zeros = (Fraction(0),) * len(slopes)
        rising, falling = (tuple(pick(s, Fraction(0)) for s in slopes) for pick in (max, min))
        self.parts: list[Activation] = [Clamped(node, inner, Fraction(0), None)]
        if any(rising):
            self.parts.append(Clamped(node, affine(net, inner, rising, zeros, node), None, Fraction(0)))
        if any(falling):
            self.parts.append(Clamped(node, affine(net, inner, falling, zeros, node), Fraction(0), None))

    def lower(self, net: Builder, grid: Grid, clamp: Clamp) -> int:  # noqa: D102 (as inherited)
        tensors = [part.on(net, grid) for part in self.parts]
        total = tensors[0]
        for tensor in tensors[1:]:
            integers = add_integers(grid, grid, grid.scale)
            layer = Add((total, tensor), integers.multipliers, (grid.zero,) * 2, integers.shift, grid.zero, INT8)
            total = net.add(layer)
        return net.requantise(total, grid, grid, clamp, self.node.name)


def negated(net: Builder, stored: Stored, node: Node) -> Stored:
    """Minus an activation, exactly: code q becomes -1 - q, and so does the zero point."""
    table = np.array([-1 - code for code in CODES], np.int8)
    tensor = net.add(CodeTable((stored.tensor,), table, name=node.name))
    return Stored(node, net, tensor, Grid(stored.grid.scale, -1 - stored.grid.zero))
