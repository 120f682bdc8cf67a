"""The network while it is written: layers, the input quantiser, limits, and a last tidying.

Nothing here knows the file that the network comes from.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from intrs.exchange.integers import Clamp, Grid, Line, clamped, quantiser, rescale, scaled
from intrs.exchange.refusal import Refusal
from intrs.network import INT8, Conv, Gather, Layer, Network, Pad, Quantiser, Requantise, Shape

if TYPE_CHECKING:
    from intrs.exchange.budget import Budget
    from intrs.exchange.convention import Convention

Pads = tuple[int, int, int, int]  # top, bottom, left, right
Units = tuple[Fraction, ...]
MAX_LAYERS = 10_000
MAX_SIDE = 2**16
MAX_ELEMENTS = 2**26  # of one tensor
MAX_LINES = 256  # different ones of an input quantiser: each is checked at 510 pixels


@dataclass(frozen=True)
class Window:
    """How a kernel slides over an image."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: Pads = (0, 0, 0, 0)

    def slide(self, shape: Shape) -> tuple[int, int]:
        """Output height and width."""
        pads = self.pad[0] + self.pad[1], self.pad[2] + self.pad[3]
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True)]
        rest = [shape[i] + pads[i] - reach[i] for i in (0, 1)]
        if min(rest) < 0:
            raise Refusal(f"its kernel of {reach[0]} x {reach[1]} is larger than its padded input")
        return rest[0] // self.stride[0] + 1, rest[1] // self.stride[1] + 1


class Builder:
    """The network as far as it is written."""

    def __init__(self, pixels: Convention, budget: Budget) -> None:
        self.pixels = pixels
        self.budget = budget
        self.pixel_scale = ""  # unit or byte, once the image is quantised
        self.quantiser: Quantiser | None = None
        self.layers: list[Layer] = []
        self.shapes: list[Shape] = []
        self._lines: list[Line] = []
        self._requantised: dict[tuple[int, Grid, Grid, Clamp], int] = {}

    def image(self, shape: Shape, factors: Units, offsets: Units, grid: Grid) -> int:
        """Tensor 0: the codes of `factor * input + offset` per channel."""
        scale = self.pixels.decide(factors, offsets, grid)
        lines = [self.pixels.line(i, scale, a, b, grid) for i, (a, b) in enumerate(zip(factors, offsets, strict=True))]
        if len(set(lines)) > MAX_LINES:
            raise Refusal(f"its channels are quantised along more than {MAX_LINES} different lines")
        if self.quantiser is None:
            self.pixel_scale = scale
            self.quantiser, self._lines = quantiser(shape, lines), lines
            self.shapes = [shape]
        if lines != self._lines:
            raise Refusal("the image is quantised in two different ways; intrs needs a single input quantiser")
        return 0

    def quantised(self, made: Quantiser) -> int:
        """Tensor 0: the codes of a quantiser whose integers the file holds."""
        self.quantiser, self.shapes = made, [(made.height, made.width, made.channels)]
        return 0

    def add(self, layer: Layer) -> int:
        """Append a layer; the number of the tensor that it writes."""
        shape = layer.output_shape(*(self.shapes[i] for i in layer.inputs))
        check_shape(shape)
        if len(self.layers) >= MAX_LAYERS:
            raise Refusal(f"the network has more than {MAX_LAYERS} layers")
        if layer.weight_count:
            self.budget.spend(shape[2], layer.weight_count)
        self.layers.append(layer)
        self.shapes.append(shape)
        return len(self.layers)

    def requantise(self, tensor: int, grid: Grid, to: Grid, clamp: Clamp, name: str) -> int:
        """Codes of one grid as codes of another; nothing if they are the same, and once however often it is asked."""
        if grid == to and clamp == INT8:
            return tensor
        key = tensor, grid, to, clamp
        if key not in self._requantised:
            ratio = rescale([grid.scale / to.scale])
            self._requantised[key] = self.add(Requantise((tensor,), grid.zero, ratio, to.zero, clamp, name=name))
        return self._requantised[key]

    def network(self, output: int) -> Network:
        """The network that ends with this tensor, without layers that it does not need."""
        if self.quantiser is None or output == 0:
            raise Refusal("between its input and its output there is no layer")
        return Network(self.quantiser, tuple(tidy(self.layers, output)))


def check_shape(shape: Shape) -> None:
    """Refuse tensors that no image classifier has."""
    if min(shape) < 1 or max(shape) > MAX_SIDE or shape[0] * shape[1] * shape[2] > MAX_ELEMENTS:
        raise Refusal(f"a tensor of {' x '.join(map(str, shape))} (height, width, channels) is empty or too large")


def tidy(layers: list[Layer], output: int) -> list[Layer]:
    """The layers that the output needs, with lone clamps, zero paddings and Gathers made part of their neighbours."""
    layers = _needed(layers, output)
    layers = _fold_gathers(_fold_zero_pads(_fold_clamps(layers)))
    return _needed(layers, len(layers))


def _needed(layers: list[Layer], output: int) -> list[Layer]:
    """The layers on which tensor `output` depends, renumbered."""
    wanted = {0, output}
    for number in range(output, 0, -1):
        if number in wanted:
            wanted.update(layers[number - 1].inputs)
    renamed = {old: new for new, old in enumerate(sorted(wanted))}
    kept = [layers[number - 1] for number in sorted(wanted) if number]
    return [replace(layer, inputs=tuple(renamed[i] for i in layer.inputs)) for layer in kept]


def _fold_clamps(layers: list[Layer]) -> list[Layer]:
    """A Requantise that only clamps moves into the layer before it, if that one clamps and nobody else reads it.

    What it leaves behind is a copy of that layer in its own place, so that numbers stay; the first has no reader then.
    """
    readers = Counter(i for layer in layers for i in layer.inputs)
    layers = list(layers)
    for number, layer in enumerate(layers):
        before: Any = layers[layer.inputs[0] - 1] if layer.inputs[0] else None
        foldable = hasattr(before, "clamp") and readers[layer.inputs[0]] == 1
        if foldable and isinstance(layer, Requantise) and _only_clamps(layer):
            clamp = clamped(before.clamp[0], layer.clamp), clamped(before.clamp[1], layer.clamp)
            layers[number] = replace(before, clamp=clamp)
    return layers


def _fold_zero_pads(layers: list[Layer]) -> list[Layer]:
    """Padding by the zero point in front of a Conv is padding of that Conv."""
    layers = list(layers)
    for number, layer in enumerate(layers):
        before = layers[layer.inputs[0] - 1] if layer.inputs[0] else None
        if isinstance(layer, Conv) and isinstance(before, Pad) and before.value == layer.input_zero_point:
            pad = [a + b for a, b in zip(layer.pad, before.pad, strict=True)]
            layers[number] = replace(layer, inputs=before.inputs, pad=(pad[0], pad[1], pad[2], pad[3]))
    return layers


def _fold_gathers(layers: list[Layer]) -> list[Layer]:
    """A Gather of a Gather is one Gather of what the first one reads."""
    layers = list(layers)
    for number, layer in enumerate(layers):
        before = layers[layer.inputs[0] - 1] if layer.inputs[0] else None
        if isinstance(layer, Gather) and isinstance(before, Gather):
            lists = ((getattr(before, f), getattr(layer, f)) for f in ("rows", "columns", "channels"))
            rows, columns, channels = (a[b] if len(a) and len(b) else a if len(a) else b for a, b in lists)
            layers[number] = replace(layer, inputs=before.inputs, rows=rows, columns=columns, channels=channels)
    return layers


def _only_clamps(layer: Requantise) -> bool:
    ratio = int(layer.rescale.multiplier[0]), int(layer.rescale.shift[0])
    return layer.input_zero_point == layer.output_zero_point and ratio == scaled(Fraction(1))
