"""What each kind of layer becomes: the words of its struct in `device/intrs_data.h`, and arrays that they point to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from intrs.exchange.device.words import ConstantBlock
    from intrs.network import AvgPool, CodeTable, Conv, Layer, MaxPool, Mul, Pad, Requantise, Rescale, ScaledAdd

ORDER = (0, 2, 1, 3)  # of every four weights


def layer_words(block: ConstantBlock, layer: Layer, scratch: int) -> list[int]:
    """A layer as words; its arrays are put into the block."""
    fields = WRITERS[layer.KIND](block, layer)
    return [layer.KIND, 4 + len(layer.inputs) + len(fields), len(layer.inputs), scratch, *layer.inputs, *fields]


def by_channel(layer: Conv) -> bool:
    """Whether every channel has a kernel of its own, and makes one output."""
    return layer.weights.shape[3] == 1 and layer.groups == layer.weights.shape[0] and layer.groups > 1


def packed_weights(layer: Conv) -> NDArray[np.int8]:
    """The weights in the order in which the loops read them, see intrs_conv in intrs_data.h."""
    weights = np.asarray(layer.weights)
    if by_channel(layer):
        return np.ascontiguousarray(weights[..., 0].transpose(1, 2, 0))
    outputs, height = weights.shape[:2]
    whole_row = layer.groups == 1 and layer.dilation[1] == 1
    runs = weights.reshape(outputs, height, 1, -1) if whole_row else weights
    filled = np.pad(runs, ((0, 0), (0, 0), (0, 0), (0, -runs.shape[3] % 4)))
    fours = filled.reshape(layer.groups, outputs // layer.groups, height, filled.shape[2], -1, 4)[..., ORDER]
    return np.concatenate([part.ravel() for group in fours for part in _pairs(group)])


def _pairs(group: NDArray[np.int8]) -> list[NDArray[np.int8]]:
    """The outputs of a group, two by two, and the last one alone if their number is odd."""
    return [np.moveaxis(group[o : o + 2], 0, 3) for o in range(0, len(group), 2)]


def _window(
    kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int] = (1, 1)
) -> list[int]:
    return [*kernel, *stride, *dilation, *pad]


def _scale(rescale: Rescale) -> tuple[int, int]:
    return int(rescale.multiplier[0]), int(rescale.shift[0])


def _conv(block: ConstantBlock, layer: Conv) -> list[int]:
    scale = layer.rescale
    return [
        *_window(layer.weights.shape[1:3], layer.stride, layer.pad, layer.dilation),
        layer.groups, layer.weights.shape[3], by_channel(layer),
        layer.input_zero_point, layer.output_zero_point, *layer.clamp,
        layer.wide, layer.ROUNDS_TWICE, len(scale.multiplier),
        block.array(layer.bias, "<i4"), block.array(scale.multiplier, "<i4"), block.array(scale.shift, "i1"),
        block.array(packed_weights(layer), "i1"),
    ]  # fmt: skip


def _add(block: ConstantBlock, layer: Any) -> list[int]:
    return [*layer.multipliers, *layer.zero_points, layer.shift, layer.output_zero_point, *layer.clamp]


def _max_pool(block: ConstantBlock, layer: MaxPool) -> list[int]:
    return [*_window(layer.kernel, layer.stride, layer.pad), 0, 0]


def _avg_pool(block: ConstantBlock, layer: AvgPool) -> list[int]:
    return [*_window(layer.kernel, layer.stride, layer.pad), layer.input_zero_point, layer.output_zero_point]


def _requantise(block: ConstantBlock, layer: Requantise) -> list[int]:
    scale = _scale(layer.rescale)
    return [layer.input_zero_point, *scale, layer.output_zero_point, *layer.clamp, layer.ROUNDS_TWICE]


def _concat(block: ConstantBlock, layer: Layer) -> list[int]:
    return []


def _pad(block: ConstantBlock, layer: Pad) -> list[int]:
    return [*layer.pad, layer.value]


def _code_table(block: ConstantBlock, layer: CodeTable) -> list[int]:
    return [block.array(layer.table, "i1")]


def _mul(block: ConstantBlock, layer: Mul) -> list[int]:
    return [*layer.zero_points, *_scale(layer.rescale), layer.output_zero_point, *layer.clamp, layer.twice]


def _scaled_add(block: ConstantBlock, layer: ScaledAdd) -> list[int]:
    scales = (layer.rescale_a, layer.rescale_b, layer.rescale_sum)
    return [
        *layer.zero_points, layer.left_shift, *(part for scale in scales for part in _scale(scale)),
        layer.output_zero_point, *layer.clamp, layer.subtract,
    ]  # fmt: skip


def _gather(block: ConstantBlock, layer: Any) -> list[int]:
    lists = (layer.rows, layer.columns, layer.channels)
    return [word for entries in lists for word in (len(entries), block.array(entries, "<i4") if len(entries) else 0)]


WRITERS: dict[int, Callable[[ConstantBlock, Any], list[int]]] = {
    1: _conv,
    2: _add,
    3: _max_pool,
    4: _avg_pool,
    5: _requantise,
    6: _concat,
    7: _pad,
    8: _conv,
    9: _requantise,
    10: _code_table,
    11: _mul,
    12: _scaled_add,
    13: _gather,
}  # by the kind's number
