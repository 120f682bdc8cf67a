"""How a Conv is computed on a device: its method, the order of its weights, and the scratch that it needs.

Everything here has its other half in `device/intrs_data.h`, which says what the runtime expects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from intrs.network import Conv

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.network import Network, Shape

DIRECT, PAIRS, TILES = 0, 1, 2  # methods: INTRS_DIRECT, INTRS_PAIRS, INTRS_TILES
RUN = 4  # weights of a run are filled up to a multiple of this
SLACK, VALUE_BYTES = 4, 2  # of scratch rows
LEAST_PLACES = 4  # of a row, so that widening its weights pays
TILE_ROWS, TILE_VALUES, TILE_SUMS = 4, 2 * 16, 2 * 4 * 16  # scratch of tiles, in values of 16 bits
KERNEL_TRANSFORM = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])  # twice that of F(2 x 2, 3 x 3)
LARGEST_SUM = 2**29 - 1  # tiles give four times the sum, in 32 bits


def methods_of(network: Network, tiles: int = 0) -> tuple[int, ...]:
    """The method of every layer, with tiles for those Convs with at most so many input channels that allow it."""
    return tuple(
        _method(layer, network.shapes[layer.inputs[0]], network.shapes[i], tiles) if isinstance(layer, Conv) else DIRECT
        for i, layer in enumerate(network.layers, 1)
    )


def _method(layer: Conv, source: Shape, out: Shape, tiles: int) -> int:
    if source[2] <= tiles and can_tile(layer, out):
        return TILES
    pairs = not by_channel(layer) and out[2] // layer.groups > 1 and out[1] >= LEAST_PLACES
    return PAIRS if pairs else DIRECT


def tile_sizes(network: Network) -> list[int]:
    """Numbers of channels that make a difference to `methods_of`, from all tiles down to none."""
    sizes = {
        network.shapes[layer.inputs[0]][2]
        for i, layer in enumerate(network.layers, 1)
        if isinstance(layer, Conv) and can_tile(layer, network.shapes[i])
    }
    return [*sorted(sizes, reverse=True), 0]


def can_tile(layer: Conv, out: Shape) -> bool:
    """Whether F(2 x 2, 3 x 3) gives the same sums: a plain 3 x 3 kernel, whole tiles, sums that are small enough."""
    outputs, height, width, channels = layer.weights.shape
    plain = (height, width) == (3, 3) and layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    whole = out[0] % 2 == 0 and out[1] % 4 == 0 and outputs % 2 == 0 and channels % RUN == 0
    return plain and whole and not layer.wide and largest_sum(layer) <= LARGEST_SUM


def largest_sum(layer: Conv) -> int:
    """No sum of products and bias is larger, whatever the input."""
    weights = np.abs(np.asarray(layer.weights).astype(np.int64)).sum(axis=(1, 2, 3))
    largest = max(127 - layer.input_zero_point, layer.input_zero_point + 128)
    return int((weights * largest + np.abs(np.asarray(layer.bias).astype(np.int64))).max())


def by_channel(layer: Conv) -> bool:
    """Whether every channel has a kernel of its own, and makes one output."""
    return layer.weights.shape[3] == 1 and layer.groups == layer.weights.shape[0] and layer.groups > 1


def runs_of(layer: Conv) -> int:
    """How many pieces of a kernel row lie apart in the input."""
    return 1 if layer.groups == 1 and layer.dilation[1] == 1 else int(layer.weights.shape[2])


def span_of(layer: Conv) -> int:
    """Rows of the input under a window."""
    return (int(layer.weights.shape[1]) - 1) * layer.dilation[0] + 1


def packed_weights(layer: Conv, method: int) -> NDArray[np.int8] | NDArray[np.int16]:
    """The weights in the order in which the loops read them."""
    weights = np.asarray(layer.weights)
    if method == TILES:
        return _tile_weights(weights)
    if by_channel(layer):
        return np.ascontiguousarray(weights[..., 0].transpose(1, 2, 0))
    outputs, height = weights.shape[:2]
    runs = weights.reshape(outputs, height, 1, -1) if runs_of(layer) == 1 else weights
    return np.pad(runs, ((0, 0), (0, 0), (0, 0), (0, -runs.shape[3] % RUN)))


def _tile_weights(weights: NDArray[np.int8]) -> NDArray[np.int16]:
    """[pair of outputs][16 places of a tile][two channels][output of the pair][channel of the two]."""
    outputs, _, _, channels = weights.shape
    turned: NDArray[np.int64] = np.einsum("ak,oklc,bl->oabc", KERNEL_TRANSFORM, weights, KERNEL_TRANSFORM)
    parts = turned.reshape(outputs // 2, 2, 16, channels // 2, 2)
    return parts.transpose(0, 2, 3, 1, 4).astype(np.int16)


def scratch_bytes(layer: Conv, source: Shape, method: int) -> int:
    """What a Conv needs beside input and output: padded rows as int16, and weights or tiles behind them."""
    _, width, channels = source
    row = -(-(layer.pad[2] + width + layer.pad[3]) * channels // 4) * 4
    if method == TILES:
        return VALUE_BYTES * (TILE_ROWS * row + SLACK + TILE_VALUES * channels + TILE_SUMS)
    pairs = 0
    if method == PAIRS:
        pairs = 2 * int(np.prod(packed_weights(layer, DIRECT).shape[1:]))
    return VALUE_BYTES * (span_of(layer) * row + SLACK + pairs)
