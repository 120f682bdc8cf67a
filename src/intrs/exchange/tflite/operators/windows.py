"""Kernels that slide: strides, dilations and padding of convolutions and pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.exchange.builder import Pads, Window
from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.schema import Padding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.exchange.tflite.flatbuffer import FlatTable
    from intrs.network import Shape

MAX_ATTRIBUTE = 8192  # of a kernel with and without dilation, a stride or dilation: TOSA level 8K


def window(options: FlatTable, kernel: Sequence[int], shape: Shape) -> Window:
    """How this kernel slides over an image of this shape."""
    stride = options["stride_h"], options["stride_w"]
    dilated = "dilation_h_factor" in options
    dilation = (options["dilation_h_factor"], options["dilation_w_factor"]) if dilated else (1, 1)
    sizes = (*kernel, *stride, *dilation)
    if min(sizes) < 1 or max(sizes) > MAX_ATTRIBUTE:
        raise Refusal(f"its kernel {tuple(kernel)}, stride {stride} or dilation {dilation} is not possible")
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if max(extent) > MAX_ATTRIBUTE:
        raise Refusal(f"its kernel reaches over {extent[0]} x {extent[1]} places; at most {MAX_ATTRIBUTE} are possible")
    pad: Pads = (0, 0, 0, 0)
    if options["padding"] == Padding.SAME:
        pad = (*_same(shape[0], extent[0], stride[0]), *_same(shape[1], extent[1], stride[1]))
    elif options["padding"] != Padding.VALID:
        raise Refusal(f"its padding {options['padding']} is neither SAME nor VALID")
    found = Window((kernel[0], kernel[1]), stride, dilation, pad)
    found.slide(shape)
    return found


def _same(size: int, extent: int, stride: int) -> tuple[int, int]:
    """Padding before and after, so that there is an output for every `stride` places."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2
