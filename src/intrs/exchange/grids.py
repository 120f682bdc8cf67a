"""Scales and zero points for the tensors of a network, which has none: files for other engines want them.

A network knows ratios of scales only, such as s_a / s_y of an Add. Every layer says which products of scales it fixes;
scales that nothing fixes are chosen. The scales are floats, as in the files for which they are meant: whatever a file
computes differently is counted when it is loaded again (`difference`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from math import isclose
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from intrs.exchange.integers import Grid
from intrs.exchange.refusal import Refusal
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
    Pad,
    Requantise,
    Rescale,
    ScaledAdd,
)

if TYPE_CHECKING:
    from intrs.network import Network

TOLERANCE = 2.0**-20  # between scales of a tensor that follow in two ways: multipliers are rounded in each
SIX = 6.0
BY_TOSA = "write the network as TOSA"
SMALLEST = 2.0**-60  # of a scale


class Scaling(NamedTuple):
    """The product of these tensors' scales, each to its power, is `value`."""

    value: float
    powers: dict[int, int]


def titled(layer: Layer, number: int) -> str:
    """A layer in a message."""
    return f"layer {layer.name or str(number)!r} ({type(layer).__name__})"


def grids(network: Network, *, six: bool = True) -> list[Grid]:
    """A grid for every tensor, such that every layer computes what its own numbers say, up to rounding.

    With `six`, clamps below the largest code must be those of a ReLU6, which then says the scale. Raises Refusal,
    naming the layer, if its scales or zero points contradict those of others.
    """
    scales, zeros = _Scales(), _Zeros(len(network.layers) + 1)
    for number, layer in enumerate(network.layers, 1):
        try:
            for scaling in (*scalings(layer, number), *(_clamped(layer, number) if six else ())):
                scales.add(scaling)
            for tensor, zero in zero_points(layer, number):
                zeros.set(tensor, zero)
            if isinstance(layer, MaxPool | Concat | Pad | Gather):
                zeros.unite(number, *layer.inputs)
        except _ConflictError as error:
            raise Refusal(f"{error}; {BY_TOSA}", titled(layer, number)) from None
    scales.choose(0, _pixel_step(network))
    return [Grid(rounded(scales.value(tensor)), zeros.get(tensor)) for tensor in range(len(network.layers) + 1)]


def rounded(scale: float) -> Fraction:
    """A scale as a file holds it, in 32 bits."""
    found = np.float32(scale)
    if not SMALLEST <= found <= 1 / SMALLEST:
        raise Refusal(f"a scale of {scale:g} is not one that engines compute with")
    return Fraction(float(found))


def ratio(rescale: Rescale, channel: int = 0) -> float:
    """What a RESCALE multiplies by."""
    return int(rescale.multiplier[channel]) / 2.0 ** int(rescale.shift[channel])


def weight_scales(layer: Conv, source: Grid, target: Grid) -> tuple[float, ...]:
    """The scales of a layer's weights, one per output channel.

    The scores of a layer that is `wide` have the scale 1, whatever `target` says.
    """
    unit = 1.0 if layer.wide else float(target.scale)
    ratios = [ratio(layer.rescale, i) for i in range(len(layer.rescale.multiplier))]
    scales = [float(rounded(r * unit / float(source.scale))) if r else 1.0 for r in ratios]
    return tuple(scales if len(scales) == len(layer.bias) else scales * len(layer.bias))


@singledispatch
def scalings(layer: Layer, output: int) -> Iterator[Scaling]:
    """What a layer says of the scales of its tensors; a Conv says nothing, because its weights have scales."""
    raise _ConflictError("intrs knows no scales for this kind of layer")


@scalings.register
def _add(layer: Add, output: int) -> Iterator[Scaling]:
    for tensor, multiplier in zip(layer.inputs, layer.multipliers, strict=True):
        yield from _ratio(multiplier / 2.0**layer.shift, tensor, output)


@scalings.register
def _scaled_add(layer: ScaledAdd, output: int) -> Iterator[Scaling]:
    whole = ratio(layer.rescale_sum) * 2.0**layer.left_shift
    for tensor, rescale in zip(layer.inputs, (layer.rescale_a, layer.rescale_b), strict=True):
        yield from _ratio(ratio(rescale) * whole, tensor, output)


@scalings.register
def _mul(layer: Mul, output: int) -> Iterator[Scaling]:
    powers = {output: -1}
    for tensor in layer.inputs:
        powers[tensor] = powers.get(tensor, 0) + 1
    yield Scaling(_positive(ratio(layer.rescale)), powers)


@scalings.register
def _requantise(layer: Requantise, output: int) -> Iterator[Scaling]:
    yield from _ratio(ratio(layer.rescale), layer.inputs[0], output)


@scalings.register(MaxPool)
@scalings.register(AvgPool)
@scalings.register(Concat)
@scalings.register(Pad)
@scalings.register(Gather)
def _same(layer: Layer, output: int) -> Iterator[Scaling]:
    for tensor in layer.inputs:
        yield from _ratio(1.0, tensor, output)


@scalings.register(Conv)
@scalings.register(CodeTable)
def _nothing(layer: Layer, output: int) -> Iterator[Scaling]:
    return iter(())


def zero_points(layer: Layer, output: int) -> Iterator[tuple[int, int]]:
    """Tensors and the zero points that a layer gives them."""
    if isinstance(layer, Conv | AvgPool | Requantise):
        yield layer.inputs[0], layer.input_zero_point
    elif isinstance(layer, Add | Mul | ScaledAdd):
        yield from zip(layer.inputs, layer.zero_points, strict=True)
    if isinstance(layer, Conv | AvgPool | Requantise | Add | Mul | ScaledAdd):
        yield output, layer.output_zero_point


def _ratio(value: float, tensor: int, output: int) -> Iterator[Scaling]:
    if tensor != output:
        yield Scaling(_positive(value), {tensor: 1, output: -1})


def _positive(value: float) -> float:
    if value <= 0:
        raise _ConflictError("it multiplies an input by 0, and a scale of 0 stands for nothing")
    return value


def _clamped(layer: Layer, output: int) -> Iterator[Scaling]:
    """A clamp from zero to below the largest code is a ReLU6 in files: it says what the scale is."""
    if not isinstance(layer, Conv | Add | ScaledAdd | Mul | Requantise) or getattr(layer, "wide", False):
        return
    low, high = layer.clamp
    if high == INT8[1]:
        return
    if low not in (layer.output_zero_point, INT8[0]) or high <= layer.output_zero_point:
        raise _ConflictError(f"it clamps codes to {low} .. {high}, which is no ReLU or ReLU6")
    yield Scaling(SIX / (high - layer.output_zero_point), {output: 1})


def _pixel_step(network: Network) -> float:
    """Pixel levels per code of the image, in its first channel that has any."""
    quantiser = network.quantiser
    steps = [2.0**quantiser.shift / abs(int(m)) for m in quantiser.multiplier if m]
    return steps[0] if steps else 1.0


class _ConflictError(Exception):
    """Why a layer's numbers contradict those before it."""


@dataclass
class _Product:
    """factor times the product of unknown scales to their powers."""

    factor: float
    powers: dict[int, int]


class _Scales:
    """Scales of tensors while equations come in: each is unknown, or a product of others."""

    def __init__(self) -> None:
        self._known: dict[int, _Product] = {}

    def add(self, scaling: Scaling) -> None:
        """One more equation: it settles one scale, or is checked if all are settled."""
        product = self._expand(_Product(1.0, dict(scaling.powers)))
        unit = [tensor for tensor, power in product.powers.items() if abs(power) == 1]
        if not product.powers:
            if not isclose(product.factor, scaling.value, rel_tol=TOLERANCE):
                raise _ConflictError("its scales contradict those of other layers")
            return
        if not unit:
            raise _ConflictError("its scales have no solution")
        tensor = max(unit)
        power = product.powers.pop(tensor)  # scale**power * rest * factor = value
        rest = {other: -p * power for other, p in product.powers.items()}
        self._known[tensor] = _Product((scaling.value / product.factor) ** power, rest)

    def choose(self, tensor: int, scale: float) -> None:
        """Give an unknown scale a value, if it still has none."""
        product = self.product(tensor)
        if len(product.powers) == 1 and abs(next(iter(product.powers.values()))) == 1:
            self.add(Scaling(scale, {tensor: 1}))

    def product(self, tensor: int) -> _Product:
        """A scale, as far as it is known."""
        return self._expand(_Product(1.0, {tensor: 1}))

    def value(self, tensor: int) -> float:
        """A scale; those that are still unknown are 1."""
        return self.product(tensor).factor

    def _expand(self, product: _Product) -> _Product:
        while settled := [tensor for tensor in product.powers if tensor in self._known]:
            for tensor in settled:
                power, known = product.powers.pop(tensor), self._known[tensor]
                product.factor *= known.factor**power
                for other, p in known.powers.items():
                    product.powers[other] = product.powers.get(other, 0) + p * power
            product.powers = {tensor: power for tensor, power in product.powers.items() if power}
        return product


class _Zeros:
    """Zero points of tensors, some of which must be equal."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))
        self._value: dict[int, int] = {}

    def set(self, tensor: int, zero: int) -> None:
        """The zero point of a tensor."""
        if self._value.setdefault(self._root(tensor), zero) != zero:
            raise _ConflictError("its zero points contradict those of other layers")

    def unite(self, *tensors: int) -> None:
        """These have one zero point."""
        first = self._root(tensors[0])
        for tensor in tensors[1:]:
            root = self._root(tensor)
            if root != first:
                self._parent[root] = first
                if root in self._value:
                    self.set(first, self._value.pop(root))

    def get(self, tensor: int) -> int:
        """The zero point of a tensor; 0 if nothing says any."""
        return self._value.get(self._root(tensor), 0)

    def _root(self, tensor: int) -> int:
        while self._parent[tensor] != tensor:
            self._parent[tensor] = self._parent[self._parent[tensor]]
            tensor = self._parent[tensor]
        return tensor
