"""What each kind of layer becomes: the words of its struct in `device/intrs_data.h`, and arrays that they point to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from intrs.exchange.device.convs import TILES, by_channel, packed_weights
from intrs.network import Conv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from intrs.exchange.device.words import ConstantBlock
    from intrs.network import AvgPool, CodeTable, Layer, MaxPool, Mul, Pad, Requantise, Rescale, ScaledAdd


def layer_words(block: ConstantBlock, layer: Layer, method: int, scratch: int) -> list[int]:
    """A layer as words; its arrays are put into the block. The method is a Conv's, see `convs`."""
    fields = _conv(block, layer, method) if isinstance(layer, Conv) else WRITERS[layer.KIND](block, layer)
    return [layer.KIND, 4 + len(layer.inputs) + len(fields), len(layer.inputs), scratch, *layer.inputs, *fields]


def _window(
    kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int] = (1, 1)
) -> list[int]:
    return [*kernel, *stride, *dilation, *pad]


def _scale(rescale: Rescale) -> tuple[int, int]:
    return int(rescale.multiplier[0]), int(rescale.shift[0])


def _conv(block: ConstantBlock, layer: Conv, method: int) -> list[int]:
    scale = layer.rescale
    return [
        *_window(layer.weights.shape[1:3], layer.stride, layer.pad, layer.dilation),
        layer.groups, layer.weights.shape[3], by_channel(layer),
        layer.input_zero_point, layer.output_zero_point, *layer.clamp,
        layer.wide, layer.ROUNDS_TWICE, len(scale.multiplier),
        block.array(layer.bias, "<i4"), block.array(scale.multiplier, "<i4"), block.array(scale.shift, "i1"),
        block.array(packed_weights(layer, method), "<i2" if method == TILES else "i1"), method,
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
    2: _add,
    3: _max_pool,
    4: _avg_pool,
    5: _requantise,
    6: _concat,
    7: _pad,
    9: _requantise,
    10: _code_table,
    11: _mul,
    12: _scaled_add,
    13: _gather,
}  # by the kind's number; a Conv has a method besides
