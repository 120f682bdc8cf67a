"""Layers with plain settings, for tests that change one thing at a time."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from intrs.network import (
    Add,
    CodeTable,
    Concat,
    Conv,
    ConvDouble,
    Layer,
    MaxPool,
    Network,
    Pad,
    Quantiser,
    Rescale,
)


def full(count: int, value: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.full(count, value, np.int32)


def rescale(scale_shift: int = 36, count: int = 1) -> Rescale:
    """Multiply by 2**30 / 2**scale_shift."""
    return Rescale(full(count, 2**30), np.full(count, scale_shift, np.int8))


def one_scale(multiplier: int, shift: int) -> Rescale:
    return Rescale(full(1, multiplier), np.full(1, shift, np.int8))


def quantiser(height: int = 4, width: int = 4, channels: int = 3) -> Quantiser:
    """Code = pixel - 128, saturating."""
    low, high = full(channels, -1), full(channels, 256)
    return Quantiser(height, width, channels, low, high, full(channels, 1 << 16), full(channels, -(128 << 16)), 16)


def conv(source: int, weights: np.ndarray[Any, Any], **changes: Any) -> Conv:
    out = len(weights)
    plain = Conv(
        (source,), weights.astype(np.int8), full(out, 0), 1, (1, 1), (1, 1), (0, 0, 0, 0), -128, rescale(), -128
    )
    return replace(plain, **changes)


def twice(layer: Conv) -> ConvDouble:
    """The same layer, which rounds twice."""
    return ConvDouble(**{field.name: getattr(layer, field.name) for field in fields(layer)})


def add(a: int, b: int, **changes: Any) -> Add:
    return replace(Add((a, b), (1 << 20, 1 << 20), (-128, -128), 21, -128), **changes)


def scores_of(source: int, shape: tuple[int, int, int], classes: int = 3, seed: int = 0, **changes: Any) -> Conv:
    """A layer that looks at everything and scores each class in int32."""
    weights = np.random.default_rng(seed).integers(-127, 128, (classes, *shape))
    exact = rescale(30)
    return conv(source, weights, wide=True, output_zero_point=0, rescale=exact, **changes)


def many_channels(seed: int) -> Network:
    """Convs with the scales of trained networks and more channels than kernels take at once, in any windows."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(4, 12)), int(rng.integers(4, 12)), int(rng.integers(3, 40))
    start, layers = quantiser(*shape), list[Layer]()
    for source in range(3):
        layers.append(_any_window(rng, source, shape))
        shape = layers[-1].output_shape(shape)
    return Network(start, (*layers, scores_of(3, shape)))


def _any_window(rng: np.random.Generator, source: int, shape: tuple[int, int, int]) -> Conv:
    side, stride, dilation = (int(rng.choice(values)) for values in ([1, 2, 3, 5, 7], [1, 1, 2], [1, 1, 2]))
    reach, pad = (side - 1) * dilation, list[int]()
    for size in shape[:2]:
        before, after = rng.integers(0, reach + 1, 2).tolist()
        after += max(reach + 1 - size - before - after, 0)
        pad += [before, after + -(size + before + after - reach - 1) % stride]
    layer = conv(
        source, rng.integers(-128, 128, (int(rng.integers(8, 50)), side, side, shape[2])), pad=tuple(pad),
        stride=(stride, stride), dilation=(dilation, dilation), input_zero_point=-100 if source else -128,
        rescale=rescale(int(rng.integers(40, 45))), output_zero_point=-100, clamp=(int(rng.choice([-128, -100])), 127),
    )  # fmt: skip
    return twice(layer) if rng.random() < 0.5 else layer


def network(*layers: Layer, height: int = 4, width: int = 4, channels: int = 3) -> Network:
    """A network of these layers, or of a single scoring layer."""
    start = quantiser(height, width, channels)
    return Network(start, layers or (scores_of(0, (height, width, channels)),))


def network_of_gibibytes() -> Network:
    """About a kilobyte that plans more memory than 32 bits can address: four large tensors that are all held."""
    layers: list[Layer] = [Pad((0,), (4096, 4095, 4096, 4095), 7)]
    layers += [CodeTable((tensor,), np.arange(-128, 128).astype(np.int8)) for tensor in (1, 2, 3)]
    layers += [MaxPool((tensor,), (8192, 8192), (1, 1), (0, 0, 0, 0)) for tensor in (1, 2, 3, 4)]
    return Network(quantiser(1, 1, 1), (*layers, Concat((5, 6, 7, 8))))
