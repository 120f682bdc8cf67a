"""Random valid networks: every layer kind, attribute and odd shape that the core accepts, from a seed.

    rng = np.random.default_rng(7)
    network = random_network(rng)
    images = random_images(rng, network, 3)
    traits(network)  # which of the attributes it has, for counting what a test has covered

Values are drawn so that codes spread over the int8 range and rounding ties are common: a network of saturated or
constant tensors would test nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from layers import one_scale

from intrs.network import (
    INT8,
    Add,
    AvgPool,
    CodeTable,
    Concat,
    Conv,
    ConvDouble,
    Gather,
    Layer,
    MaxPool,
    Mul,
    Network,
    Pad,
    Quantiser,
    Requantise,
    RequantiseDouble,
    Rescale,
    ScaledAdd,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from intrs.network import Shape

KERNELS = ((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (7, 7), (1, 3), (3, 1), (2, 2), (2, 3), (5, 2), (1, 7))
INT32 = 2**31 - 1
MOST_SIDE_AFTER_PADDING = 24
MOST_CHANNELS_AFTER_CONCAT = 40


def random_network(
    rng: np.random.Generator,
    *,
    most_side: int = 11,
    most_channels: int = 9,
    most_layers: int = 6,
    kinds: tuple[type[Layer], ...] = (),
) -> Network:
    """A network of 1 to `most_layers` layers of these kinds, or of all, then a head with one score per class."""
    builder, kinds = _Builder(rng, most_side, most_channels), kinds or KINDS
    for _ in range(rng.integers(1, most_layers + 1)):
        builder.append(kinds[rng.integers(len(kinds))])
    builder.append_head()
    return Network(builder.quantiser, tuple(builder.layers))


def random_images(rng: np.random.Generator, network: Network, n: int) -> NDArray[np.int32]:
    """n integer images (n, height, width, channels): pixels, pixels with noise, and values far outside 0 .. 255."""
    images = np.empty((n, *network.input_shape), np.int32)
    for i in range(n):
        pixels = rng.integers(0, 256, network.input_shape)
        noise = rng.normal(0, rng.choice([0, 30, 100, 1000, 1e7]), network.input_shape).round().astype(np.int64)
        images[i] = np.clip(pixels + noise, -INT32 - 1, INT32)
        if rng.random() < 0.2:
            images[i].flat[rng.integers(images[i].size)] = rng.choice([-INT32 - 1, INT32, -1, 256])
    return images


def traits(network: Network) -> set[str]:
    """The attributes that occur in a network, in words."""
    found = set(_quantiser_traits(network.quantiser))
    for layer in network.layers:
        shapes = [network.shapes[i] for i in layer.inputs]
        for trait in (*_layer_traits(layer, shapes), *_window_traits(layer, shapes[0]), *_scale_traits(layer)):
            found.add(f"{type(layer).__name__}: {trait}")
        found |= set(_shape_traits(shapes[0]))
    last = network.layers[-1]
    found.add("wide scores" if isinstance(last, Conv) and last.wide else f"int8 scores from {type(last).__name__}")
    return found


class _Builder:
    """Layers so far and the shapes of their tensors; each method appends one valid layer."""

    def __init__(self, rng: np.random.Generator, most_side: int, most_channels: int) -> None:
        self.rng = rng
        self.most_channels = most_channels
        self.layers: list[Layer] = []
        self.quantiser = _random_quantiser(rng, most_side)
        self.shapes: list[Shape] = [(self.quantiser.height, self.quantiser.width, self.quantiser.channels)]

    def append(self, kind: type[Layer]) -> None:
        MAKERS[kind][1](self, self._recent())

    def append_head(self) -> None:
        """Reduces the last tensor to height = width = 1, in one of the ways that classifiers do."""
        last = len(self.layers)
        height, width, _ = self.shapes[last]
        way = self.rng.random()
        if way < 0.4:
            self._conv(last, kernel=(height, width), wide=self.rng.random() < 0.5)
            return
        zero_points = (source := self._code()), self._near(source)
        none, window = (0, 0, 0, 0), ((height, width), (1, 1))
        self._push(AvgPool((last,), *window, none, *zero_points) if way < 0.8 else MaxPool((last,), *window, none))
        self._tail()

    def _tail(self) -> None:
        """What may follow a global pool: nothing, a classifier, or any layer on one pixel."""
        way = self.rng.random()
        last = len(self.layers)
        if way < 0.6:
            self._conv(last, kernel=(1, 1), wide=self.rng.random() < 0.6)
        elif way < 0.9:
            ways = self._add, self._requantise, self._concat, self._table, self._mul, self._scaled_add
            ways[self.rng.integers(len(ways))](last)

    def _push(self, layer: Layer) -> int:
        self.shapes.append(layer.output_shape(*(self.shapes[i] for i in layer.inputs)))
        self.layers.append(layer)
        return len(self.layers)

    def _recent(self) -> int:
        """A tensor to read: most often the last one."""
        last = len(self.layers)
        return last if self.rng.random() < 0.8 else int(self.rng.integers(last + 1))

    def _code(self) -> int:
        return int(self.rng.choice([-128, 127, 0, self.rng.integers(-128, 128), self.rng.integers(-30, 31)]))

    def _near(self, zero_point: int) -> int:
        """An output zero point that keeps most codes inside int8."""
        return zero_point if self.rng.random() < 0.6 else self._code()

    def _clamp(self, zero_point: int) -> tuple[int, int]:
        way = self.rng.random()
        if way < 0.5:
            return INT8
        if way < 0.8 and zero_point < 64:  # as Relu and Relu6 leave it
            return zero_point, int(self.rng.choice([127, self.rng.integers(zero_point, 128)]))
        return int(self.rng.integers(-128, 20)), int(self.rng.integers(20, 128))

    def _conv_double(self, x: int) -> int:
        return self._conv(x, twice=True)

    def _conv(
        self, x: int, kernel: tuple[int, int] | None = None, wide: bool = False, twice: bool | None = None
    ) -> int:
        rng = self.rng
        kind = ConvDouble if (twice if twice is not None else rng.random() < 0.2) else Conv
        head = kernel is not None
        kernel = kernel or KERNELS[rng.integers(len(KERNELS))]
        stride, dilation = (_pair(rng, (1, 1, 2, 3)), _pair(rng, (1, 1, 2, 3))) if not head else ((1, 1), (1, 1))
        extent = dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1
        pad = self._conv_pad(self.shapes[x], extent) if not head else (0, 0, 0, 0)
        groups = int(rng.choice(_groups(self.shapes[x][2])))
        size = int(rng.integers(1, max(2, self.most_channels // groups + 1)))
        zero_point, target = self._code(), 0 if wide else self._code()
        weights = _random_weights(rng, (groups * size, *kernel, self.shapes[x][2] // groups))
        bias, bound = _random_bias(rng, weights, zero_point)
        rescale = _random_rescale(rng, bound, weights[0].size, rng.random() < 0.6, wide)
        clamp = INT8 if wide else self._clamp(target)
        return self._push(
            kind((x,), weights, bias, groups, stride, dilation, pad, zero_point, rescale, target, clamp, wide)
        )

    def _conv_pad(self, shape: Shape, extent: tuple[int, int]) -> tuple[int, int, int, int]:
        """Enough padding for the kernel to fit; now and then more than the kernel is large."""
        more = int(self.rng.choice([0, 0, 0, 2]))
        top, bottom = _sides(self.rng, shape[0], extent[0], extent[0] - 1 + more)
        left, right = _sides(self.rng, shape[1], extent[1], extent[1] - 1 + more)
        return top, bottom, left, right

    def _pool_window(self, x: int) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]:
        height, width, _ = self.shapes[x]
        kernel = int(self.rng.integers(1, min(height, 4) + 1)), int(self.rng.integers(1, min(width, 5) + 1))
        most = 0 if self.rng.random() < 0.3 else 3
        pad = [int(self.rng.integers(0, min(most, k - 1) + 1)) for k in kernel for _ in range(2)]
        return kernel, _pair(self.rng, (1, 2, 3)), (pad[0], pad[1], pad[2], pad[3])

    def _max_pool(self, x: int) -> int:
        return self._push(MaxPool((x,), *self._pool_window(x)))

    def _avg_pool(self, x: int) -> int:
        source = self._code()
        return self._push(AvgPool((x,), *self._pool_window(x), source, self._near(source)))

    def _requantise_double(self, x: int) -> int:
        return self._requantise(x, RequantiseDouble)

    def _requantise(self, x: int, kind: type[Requantise] = Requantise) -> int:
        source = self._code()
        target = self._near(source)
        scale = _random_rescale(self.rng, np.array([255]), 1, False, False)
        return self._push(kind((x,), source, scale, target, self._clamp(target)))

    def _table(self, x: int) -> int:
        return self._push(CodeTable((x,), _random_table(self.rng)))

    def _pair_with(self, x: int, broadcast: float) -> tuple[int, int]:
        """A tensor and a partner in either order; with this probability the partner is one pixel for all places."""
        partner = self._pixel(x) if self.rng.random() < broadcast else self._partner(x)
        return (x, partner) if self.rng.random() < 0.5 else (partner, x)

    def _pixel(self, x: int) -> int:
        """A tensor of one pixel with the channels of x, made if there is none."""
        size, none = self.shapes[x][:2], (0, 0, 0, 0)
        others = [i for i, shape in enumerate(self.shapes) if shape == (1, 1, self.shapes[x][2])]
        if others and self.rng.random() < 0.5:
            return int(self.rng.choice(others))
        pixel = self._push(AvgPool((x,), size, (1, 1), none, source := self._code(), self._near(source)))
        return self._table(pixel) if self.rng.random() < 0.5 else pixel  # the second as in squeeze and excite

    def _mul(self, x: int) -> int:
        inputs = self._pair_with(x, 0.5)
        zero_points = (first := self._code()), self._near(first)
        target = self._code()
        scale = _random_rescale(self.rng, np.array([255 * 255]), 16, False, False)
        return self._push(Mul(inputs, zero_points, scale, target, self._clamp(target), self.rng.random() < 0.5))

    def _scaled_add(self, x: int) -> int:
        inputs = self._pair_with(x, 0.3)
        zero_points = (first := self._code()), self._near(first)
        scales = _random_scaled_sum(self.rng)
        target = self._near(zero_points[0])
        subtract = bool(self.rng.random() < 0.3)
        return self._push(ScaledAdd(inputs, zero_points, *scales, target, self._clamp(target), subtract))

    def _add(self, x: int) -> int:
        pair = self._pair_with(x, 0.2)
        zero_points = (first := self._code()), self._near(first)
        multipliers, shift = _random_sum(self.rng, zero_points)
        target = self._near(zero_points[0])
        return self._push(Add(pair, multipliers, zero_points, shift, target, self._clamp(target)))

    def _partner(self, x: int) -> int:
        """Another tensor of the same shape, made if there is none; rarely the same one."""
        others = [i for i, shape in enumerate(self.shapes) if shape == self.shapes[x] and i != x]
        if self.rng.random() < 0.1:
            return x
        return int(self.rng.choice(others)) if others else self._requantise(x)

    def _concat(self, x: int) -> int:
        size = self.shapes[x][:2]
        fitting = [i for i, shape in enumerate(self.shapes) if shape[:2] == size]
        if len(fitting) == 1:
            fitting.append(self._conv(x, kernel=(1, 1)))
        chosen = [int(i) for i in self.rng.choice(fitting, self.rng.integers(2, 5))]
        while len(chosen) > 2 and sum(self.shapes[i][2] for i in chosen) > MOST_CHANNELS_AFTER_CONCAT:
            chosen.pop()
        return self._push(Concat(tuple(chosen)))

    def _pad(self, x: int) -> int:
        room = [max(0, MOST_SIDE_AFTER_PADDING - side) // 2 for side in self.shapes[x][:2] for _ in range(2)]
        pad = [int(self.rng.integers(0, min(3, most) + 1)) for most in room]
        return self._push(Pad((x,), (pad[0], pad[1], pad[2], pad[3]), self._code()))

    def _gather(self, x: int) -> int:
        most = MOST_SIDE_AFTER_PADDING, MOST_SIDE_AFTER_PADDING, MOST_CHANNELS_AFTER_CONCAT
        sides = zip(self.shapes[x], most, strict=True)
        return self._push(Gather((x,), *(_random_indices(self.rng, *sizes) for sizes in sides)))


MAKERS: dict[type[Layer], tuple[int, Callable[[_Builder, int], int]]] = {  # how often, and what appends one
    Conv: (5, _Builder._conv),
    Add: (2, _Builder._add),
    MaxPool: (1, _Builder._max_pool),
    AvgPool: (1, _Builder._avg_pool),
    Requantise: (1, _Builder._requantise),
    Concat: (1, _Builder._concat),
    Pad: (1, _Builder._pad),
    ConvDouble: (2, _Builder._conv_double),
    RequantiseDouble: (1, _Builder._requantise_double),
    CodeTable: (1, _Builder._table),
    Mul: (2, _Builder._mul),
    ScaledAdd: (2, _Builder._scaled_add),
    Gather: (2, _Builder._gather),
}
KINDS = tuple(kind for kind, (often, _) in MAKERS.items() for _ in range(often))


def _random_quantiser(rng: np.random.Generator, most_side: int) -> Quantiser:
    height, width = (int(side) for side in rng.integers(1, most_side + 1, 2))
    channels = int(rng.choice([1, 2, 3, 3, 3, 4, 5]))
    shift = int(rng.integers(0, 23))
    steps = rng.uniform(0.1, 2, channels) * rng.choice([1, 1, 1, -1])  # codes a pixel step
    multiplier = np.where(steps < 0, -1, 1) * np.maximum(1, np.abs(steps * 2**shift)).astype(np.int64)
    middle = rng.integers(-100, 300, channels)
    offset = (rng.integers(-128, 128, channels) << shift) + (1 << shift >> 1) - middle * multiplier
    offset = np.clip(offset, -(2**30), 2**30)
    most = (2**30 - 1) // np.abs(multiplier)  # keeps product and sum within 32 bits
    low = -np.minimum(most, rng.choice([0, 300, 2000, 2**30], channels))
    high = np.minimum(most, rng.choice([255, 600, 2000, 2**30], channels))
    low, high, multiplier, offset = (array.astype(np.int32) for array in (low, high, multiplier, offset))
    return Quantiser(height, width, channels, low, high, multiplier, offset, shift)


def _pair(rng: np.random.Generator, choices: tuple[int, ...]) -> tuple[int, int]:
    """Mostly the same for both axes."""
    first, second = (int(value) for value in rng.choice(choices, 2))
    return (first, first) if rng.random() < 0.6 else (first, second)


def _groups(channels: int) -> list[int]:
    """Divisors; one group and depthwise are as likely as all the others."""
    divisors = [d for d in range(2, channels) if channels % d == 0]
    return [1, 1, channels, *divisors]


def _sides(rng: np.random.Generator, size: int, extent: int, most: int) -> tuple[int, int]:
    """Padding before and after, at least so much that a kernel of the extent fits."""
    before, after = (int(side) for side in rng.integers(0, min(most, 4) + 1, 2))
    if rng.random() < 0.4:
        before = after = (extent - 1) // 2
    return before, max(after, extent - size - before)


def _random_weights(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    way = rng.random()
    if way < 0.5:
        weights = rng.integers(-127, 128, shape)
    elif way < 0.7:
        weights = rng.choice([-128, -127, 127], shape)
    elif way < 0.9:
        weights = rng.integers(-3, 4, shape)
    else:
        weights = rng.integers(-127, 128, shape) * (rng.random(shape) < 0.2)
    return weights.astype(np.int8)


def _random_bias(
    rng: np.random.Generator, weights: NDArray[np.int8], zero_point: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """A bias, and a bound on the magnitude of each channel's accumulator, which stays within 32 bits."""
    farthest = max(127 - zero_point, 128 + zero_point)
    products = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(1) * farthest
    room = INT32 - products
    bias = (rng.uniform(-1, 1, len(weights)) * np.minimum(room, products / 2 + 10)).astype(np.int64)
    if rng.random() < 0.1:  # the largest that the accumulator can take
        channel = rng.integers(len(bias))
        bias[channel] = rng.choice([-1, 1]) * room[channel]
    return bias.astype(np.int32), products + np.abs(bias)


def _random_rescale(
    rng: np.random.Generator, bound: NDArray[np.int64], terms: int, per_channel: bool, wide: bool
) -> Rescale:
    """Scales that spread sums of `terms` products, each sum within +-bound, over int8 (or, wide, over much more).

    |sum| < 2**(shift - 1), as apply_scale_32 of the standard requires.
    """
    bounds = bound if per_channel else bound.max(keepdims=True)
    entries = [_random_scale(rng, int(b), terms, wide) for b in bounds]
    return Rescale(np.array([m for m, _ in entries], np.int32), np.array([s for _, s in entries], np.int8))


def _random_scale(rng: np.random.Generator, bound: int, terms: int, wide: bool) -> tuple[int, int]:
    typical = max(1.0, bound / np.sqrt(terms))
    scale = rng.uniform(0.3, 3) * 127 / typical * (rng.choice([1, 100, 10000]) if wide else 1)
    least = bound.bit_length() + 1
    shift = max(least, 2, 30 - int(np.floor(np.log2(scale))))  # multiplier in 2**30 .. 2**31
    way = rng.random()
    if way < 0.3:  # a power of two, or few bits: ties are common
        shift = int(rng.integers(max(2, least), max(2, least) + 4))
        multiplier = int(rng.choice([1, 1, 3, 5])) << max(0, round(np.log2(scale * 2**shift)))
    elif way < 0.34:
        multiplier, shift = int(rng.choice([0, 1, INT32])), int(rng.choice([max(2, least), 62]))
    else:
        multiplier = int(scale * 2.0**shift)
    return min(multiplier, INT32), min(shift, 62)


def _random_sum(rng: np.random.Generator, zero_points: tuple[int, int]) -> tuple[tuple[int, int], int]:
    """Multipliers and shift of an Add; the weighted sum and its rounding stay within 32 bits."""
    farthest = [max(127 - z, 128 + z) for z in zero_points]
    while True:
        shift = int(rng.choice([2, 3, 4, rng.integers(2, 23), rng.integers(16, 31)]))
        scales = 2.0 ** rng.uniform(-2, 1.5, 2)
        if rng.random() < 0.3:  # one input counts hardly at all
            scales[rng.integers(2)] *= 2.0 ** -rng.integers(6, 20)
        a, b = (int(scale * 2**shift) for scale in scales)
        if a * farthest[0] + b * farthest[1] + (1 << (shift - 1)) <= INT32:
            return (a, b), shift


def scaled_sum(a: float, b: float, result: float, left_shift: int = 20) -> tuple[Rescale, Rescale, Rescale]:
    """The three of a ScaledAdd, from the scales of its inputs and its output, as TFLite derives them."""
    largest = 2 * max(a, b)
    return quantized(a / largest), quantized(b / largest), quantized(largest / (2**left_shift * result))


def quantized(scale: float) -> Rescale:
    """RESCALE by about a scale, as TFLite's QuantizeMultiplier finds it."""
    fraction, exponent = np.frexp(scale)
    multiplier, shift = round(float(fraction) * 2**31), 31 - int(exponent)
    return one_scale(multiplier, shift) if multiplier < 2**31 else one_scale(2**30, shift - 1)


def _random_scaled_sum(rng: np.random.Generator) -> tuple[int, Rescale, Rescale, Rescale]:
    """Left shift and scales of a ScaledAdd; those of the inputs may differ much."""
    left_shift = int(rng.choice([20, 20, 20, rng.integers(4, 23)]))
    a, b = 2.0 ** rng.uniform(-3, 0, 2) if rng.random() < 0.7 else (1.0, 2.0 ** -rng.integers(0, 12))
    largest = 2 * max(a, b)
    result = largest * (2.0 ** rng.uniform(-2, 1) if rng.random() < 0.7 else 0.5)
    return left_shift, *scaled_sum(a, b, result, left_shift)


def _random_table(rng: np.random.Generator) -> NDArray[np.int8]:
    """As activations are, or without any order."""
    codes = np.arange(-128, 128)
    way = rng.random()
    if way < 0.3:
        return rng.permutation(codes).astype(np.int8)
    slope, centre = rng.uniform(0.01, 0.2), rng.integers(-60, 60)
    gate = 1 / (1 + np.exp(-slope * (codes - centre)))
    found = 255 * gate - 128 if way < 0.6 else (codes - centre) * gate - rng.integers(0, 100)
    return np.asarray(np.clip(found.round(), *INT8), np.int8)


def _random_indices(rng: np.random.Generator, size: int, most: int) -> NDArray[np.int32]:
    """None, or as slices, flips, repetitions and shuffles are, or without any order."""
    start, step = int(rng.integers(size)), int(rng.choice([1, 1, 2, 3]))
    ways: tuple[Sequence[int] | NDArray[Any], ...] = (
        [],
        range(start, size, step),
        range(0, size, 2),
        range(size)[::-1],
        np.repeat(np.arange(size), rng.integers(1, 4))[:most],
        np.arange(size).reshape(-1, 2 if size % 2 == 0 else 1).T.ravel(),
        rng.integers(0, size, rng.integers(1, most + 1)),
    )
    return np.array(ways[rng.choice(len(ways), p=[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])], np.int32)


def _quantiser_traits(q: Quantiser) -> Iterator[str]:
    yield "square image" if q.height == q.width else "non-square image"
    if len(set(q.multiplier.tolist())) > 1:
        yield "quantiser per channel"
    if (q.multiplier < 0).any():
        yield "quantiser with negative multiplier"
    if q.shift == 0:
        yield "quantiser without shift"


def _shape_traits(shape: Shape) -> Iterator[str]:
    yield from (f"{side} of 1" for side, size in zip(("height", "width", "channels"), shape, strict=True) if size == 1)
    if shape[2] % 2 and shape[2] > 1:
        yield "odd channels"


def _layer_traits(layer: Layer, shapes: list[Shape]) -> Iterator[str]:
    yield "present"
    if isinstance(layer, Conv):
        yield from _conv_traits(layer)
    if isinstance(layer, Add | Mul | ScaledAdd):
        yield "one pixel for all places" if shapes[0] != shapes[1] else "equal shapes"
    if isinstance(layer, Mul):
        yield "rounded twice" if layer.twice else "rounded once"
    if isinstance(layer, ScaledAdd):
        yield "difference" if layer.subtract else "sum"
    if isinstance(layer, Add):
        small, large = sorted(layer.multipliers)
        yield "very different multipliers" if large > 1000 * max(small, 1) else "like multipliers"
        yield "the same tensor twice" if layer.inputs[0] == layer.inputs[1] else "two tensors"
    if isinstance(layer, Gather):
        yield from _gather_traits(layer, shapes[0])
    if isinstance(layer, Concat):
        yield f"of {len(layer.inputs)}"
    if isinstance(layer, Pad) and any(layer.pad):
        yield "by something"


def _gather_traits(layer: Gather, shape: Shape) -> Iterator[str]:
    for name, size in zip(("rows", "columns", "channels"), shape, strict=True):
        found = getattr(layer, name)
        if len(found) == 0:
            yield f"all {name}"
        elif np.array_equal(found, np.arange(found[0], found[0] + len(found))):
            yield f"a part of the {name}" if len(found) < size else f"all {name}, listed"
        elif (np.diff(found) > 0).all():
            yield f"{name} left out"
        elif len(set(found.tolist())) < len(found):
            yield f"{name} repeated"
        else:
            yield f"{name} in another order"


def _conv_traits(layer: Conv) -> Iterator[str]:
    outputs, height, width, depth = layer.weights.shape
    yield f"kernel {height}x{width}" if height == width else "kernel not square"
    yield "one group" if layer.groups == 1 else "depthwise" if depth == 1 else "groups"
    if layer.groups > 1 and depth == 1 and outputs > layer.groups:
        yield "depthwise with multiplier"
    if outputs == 1:
        yield "one output channel"
    for weight in (-128, -127, 127):
        if (layer.weights == weight).any():
            yield f"weight {weight}"
    if np.abs(layer.bias.astype(np.int64)).max() > 2**30:
        yield "extreme bias"
    yield "wide" if layer.wide else "int8"


def _window_traits(layer: Layer, shape: Shape) -> Iterator[str]:
    if not isinstance(layer, Conv | MaxPool | AvgPool):
        return
    kernel = layer.weights.shape[1:3] if isinstance(layer, Conv) else layer.kernel
    dilation = layer.dilation if isinstance(layer, Conv) else (1, 1)
    yield from (f"stride {step}" for step in layer.stride)
    if dilation != (1, 1):
        yield "dilated"
    if layer.stride[0] != layer.stride[1]:
        yield "strides differ"
    top, bottom, left, right = layer.pad
    yield "padded" if any(layer.pad) else "not padded"
    if top != bottom or left != right:
        yield "asymmetric padding"
    for axis, (before, after) in enumerate(((top, bottom), (left, right))):
        extent = dilation[axis] * (kernel[axis] - 1) + 1
        rest = (shape[axis] + before + after - extent) % layer.stride[axis]
        if rest:
            yield "window stops before the border" if rest > after else "window stops in the padding"
        if rest - after >= shape[axis]:
            yield "window sees padding only"
        if max(before, after) >= extent:
            yield "padding beyond the kernel"


def _scale_traits(layer: Layer) -> Iterator[str]:
    rescale: Rescale | None = getattr(layer, "rescale", None)
    if rescale is not None:
        yield "per channel" if len(rescale.multiplier) > 1 else "per tensor"
        for name, extreme in (("multiplier 0", 0), ("largest multiplier", INT32)):
            if (rescale.multiplier == extreme).any():
                yield name
    clamp: tuple[int, int] | None = getattr(layer, "clamp", None)
    if clamp is not None:
        yield "clamp" if clamp != INT8 else "no clamp"
    for code in _zero_points(layer):
        if code in (-128, 0, 127):
            yield f"zero point {code}"


def _zero_points(layer: Any) -> Iterator[int]:
    for name in ("input_zero_point", "output_zero_point"):
        if hasattr(layer, name):
            yield getattr(layer, name)
    yield from getattr(layer, "zero_points", ())
