"""A third, independent implementation of the layers: plain NumPy, read beside the docstrings of intrs.network.

Slow on purpose. It shares no code with the core or with the TOSA reference model, and holds every intermediate value
in 64 bits, checking at each step that 32 bits would have been enough.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intrs.network import (
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
)

Ints = NDArray[np.int64]


def trace(network: Network, batch: NDArray[Any]) -> list[Ints]:
    """Every tensor for a batch of integer images, each (n, height, width, channels)."""
    tensors = [quantise(network.quantiser, np.asarray(batch, np.int64))]
    for layer in network.layers:
        tensors.append(run(layer, *(tensors[i] for i in layer.inputs)))
    return tensors


def scores(network: Network, batch: NDArray[Any]) -> Ints:
    """Class scores (n, classes)."""
    return trace(network, batch)[-1].reshape(len(batch), -1)


def fits(values: Ints, bits: int = 32) -> Ints:
    assert -(2 ** (bits - 1)) <= values.min() <= values.max() < 2 ** (bits - 1), f"a value leaves {bits} bits"
    return values


def quantise(q: Quantiser, pixels: Ints) -> Ints:
    assert pixels.shape[1:] == (q.height, q.width, q.channels)
    low, high, multiplier, offset = (v.astype(np.int64) for v in (q.low, q.high, q.multiplier, q.offset))
    product = fits(np.minimum(np.maximum(pixels, low), high) * multiplier)
    return np.clip(fits(product + offset) >> q.shift, -128, 127)


def rescale(values: Ints, by: Rescale) -> Ints:
    multiplier, shift = by.multiplier.astype(np.int64), by.shift.astype(np.int64)
    assert multiplier.min() >= 0
    assert 2 <= shift.min() <= shift.max() <= 62
    return fits((fits(values) * multiplier + (np.int64(1) << (shift - 1))) >> shift)


def rescale_twice(values: Ints, by: Rescale) -> Ints:
    """TFLite's MultiplyByQuantizedMultiplier, step by step as gemmlowp writes it: a rounding high multiplication,
    which saturates only where both factors are -2**31, then a rounding division by a power of two."""
    shift = by.shift.astype(np.int64)
    left, right = np.maximum(31 - shift, 0), np.maximum(shift - 31, 0)
    product = fits(fits(values) << left) * by.multiplier.astype(np.int64)
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.sign(nudged) * (np.abs(nudged) // 2**31)  # C divides towards zero
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    return fits((high >> right) + ((high & mask) > threshold))


def rescaled(values: Ints, layer: Conv | Requantise) -> Ints:
    return (rescale_twice if layer.ROUNDS_TWICE else rescale)(values, layer.rescale)


@singledispatch
def run(layer: Layer, *inputs: Ints) -> Ints:
    raise NotImplementedError(type(layer))


@run.register
def _(layer: Conv, x: Ints) -> Ints:
    centred = padded(x - layer.input_zero_point, layer.pad, 0)
    out, kernel_height, kernel_width, _ = layer.weights.shape
    height, width = layer.output_shape(x.shape[1:])[:2]
    total = np.zeros((len(x), height, width, out), np.int64)
    for ky in range(kernel_height):
        for kx in range(kernel_width):
            y, z = ky * layer.dilation[0], kx * layer.dilation[1]
            taps = centred[:, y:, z:][:, :: layer.stride[0], :: layer.stride[1]][:, :height, :width]
            total += grouped_product(taps, layer.weights[:, ky, kx], layer.groups)
    result = rescaled(fits(total + layer.bias.astype(np.int64)), layer)
    return result if layer.wide else np.clip(result + layer.output_zero_point, *layer.clamp)


def grouped_product(x: Ints, weights: NDArray[np.int8], groups: int) -> Ints:
    """x (..., channels) times weights (out, channels / groups), group by group; doubles are exact up to 2**53."""
    out, each = weights.shape
    if groups == x.shape[-1] == out:
        return x * weights[:, 0].astype(np.int64)
    split = x.reshape(*x.shape[:-1], groups, 1, each).astype(np.float64)
    matrices = weights.reshape(groups, out // groups, each).transpose(0, 2, 1).astype(np.float64)
    return (split @ matrices).astype(np.int64).reshape(*x.shape[:-1], out)


@run.register
def _(layer: Add, a: Ints, b: Ints) -> Ints:
    (ma, mb), (za, zb) = layer.multipliers, layer.zero_points
    total = fits(fits((a - za) * ma) + fits((b - zb) * mb) + (1 << (layer.shift - 1)))
    return np.clip((total >> layer.shift) + layer.output_zero_point, *layer.clamp)


@run.register
def _(layer: Mul, a: Ints, b: Ints) -> Ints:
    (za, zb), rounded = layer.zero_points, rescale_twice if layer.twice else rescale
    return np.clip(rounded((a - za) * (b - zb), layer.rescale) + layer.output_zero_point, *layer.clamp)


@run.register
def _(layer: ScaledAdd, a: Ints, b: Ints) -> Ints:
    za, zb = layer.zero_points
    first = rescale_twice((a - za) << layer.left_shift, layer.rescale_a)
    second = rescale_twice((b - zb) << layer.left_shift, layer.rescale_b)
    total = fits(first - second if layer.subtract else first + second)
    return np.clip(rescale_twice(total, layer.rescale_sum) + layer.output_zero_point, *layer.clamp)


@run.register
def _(layer: CodeTable, x: Ints) -> Ints:
    results: Ints = layer.table.astype(np.int64)
    return np.asarray(results[x + 128])


@run.register
def _(layer: MaxPool, x: Ints) -> Ints:
    return np.asarray(windows(padded(x, layer.pad, -(2**31)), layer.kernel, layer.stride).max(axis=(-2, -1)))


@run.register
def _(layer: AvgPool, x: Ints) -> Ints:
    total = windows(padded(x - layer.input_zero_point, layer.pad, 0), layer.kernel, layer.stride).sum(axis=(-2, -1))
    inside = windows(padded(np.ones_like(x), layer.pad, 0), layer.kernel, layer.stride).sum(axis=(-2, -1))
    bits = np.array([int(n - 1).bit_length() for n in range(1 + int(inside.max()))], np.int64)[inside]
    multiplier = (((np.int64(1) << 30) + 1) << bits) // inside  # TOSA reciprocal_scale
    shift = 30 + bits
    result = fits((total * multiplier + (np.int64(1) << (shift - 1))) >> shift)
    return np.clip(result + layer.output_zero_point, -128, 127)


@run.register
def _(layer: Requantise, x: Ints) -> Ints:
    return np.clip(rescaled(x - layer.input_zero_point, layer) + layer.output_zero_point, *layer.clamp)


@run.register
def _(layer: Concat, *inputs: Ints) -> Ints:
    return np.concatenate(inputs, axis=-1)


@run.register
def _(layer: Pad, x: Ints) -> Ints:
    return padded(x, layer.pad, layer.value)


@run.register
def _(layer: Gather, x: Ints) -> Ints:
    every = (np.arange(size) for size in x.shape[1:])
    rows, columns, channels = (
        list(found) or all_of_it
        for found, all_of_it in zip((layer.rows, layer.columns, layer.channels), every, strict=True)
    )
    return np.asarray(x[np.ix_(np.arange(len(x)), rows, columns, channels)])


def padded(x: Ints, pad: tuple[int, int, int, int], value: int) -> Ints:
    return np.pad(x, ((0, 0), pad[:2], pad[2:], (0, 0)), constant_values=value)


def windows(x: Ints, kernel: tuple[int, int], stride: tuple[int, int]) -> Ints:
    """(n, out height, out width, channels, kernel height, kernel width)."""
    axes: Any = (1, 2)
    view: Ints = np.lib.stride_tricks.sliding_window_view(x, kernel, axes)
    return view[:, :: stride[0], :: stride[1]]
