"""Products of two activations, and slopes per channel.

As in `activations`, all wait for the grid of their result.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.integers import Clamp, Grid, add_integers, rescale
from intrs.exchange.onnx.activations import Activation, Clamped, Stored, broadcast, grid_within
from intrs.exchange.onnx.functions import CODES
from intrs.exchange.onnx.product import affine
from intrs.network import INT8, Add, CodeTable, Mul

if TYPE_CHECKING:
    from intrs.exchange.builder import Builder, Units
    from intrs.exchange.onnx.file import Node


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

    def bounds(self) -> tuple[Fraction, Fraction] | None:  # noqa: D102 (as inherited)
        each = [part.bounds() for part in self.parts]
        known = [bounds for bounds in each if bounds is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if len(known) == len(each) else None

    def is_elementwise(self) -> bool:  # noqa: D102 (as inherited)
        return all(part.is_elementwise() for part in self.parts)


def negated(net: Builder, stored: Stored, node: Node) -> Stored:
    """Minus an activation, exactly: code q becomes -1 - q, and so does the zero point."""
    table = np.array([-1 - code for code in CODES], np.int8)
    tensor = net.add(CodeTable((stored.tensor,), table, name=node.name))
    return Stored(node, net, tensor, Grid(stored.grid.scale, -1 - stored.grid.zero))
