"""How a kernel slides: strides, dilations, padding, auto_pad and ceil_mode of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.exchange.builder import Window
from intrs.exchange.onnx.operators.registry import MAX_ATTRIBUTE
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from intrs.exchange.onnx.file import Node
    from intrs.network import Shape


def pair(values: tuple[int, ...] | None, default: int, what: str) -> tuple[int, int]:
    """Two sizes, for height and width."""
    values = (default, default) if values is None else values
    if len(values) != 2 or not all(1 <= v <= MAX_ATTRIBUTE for v in values):
        raise Refusal(f"its {what} {values} are not two numbers in 1 .. {MAX_ATTRIBUTE}")
    return values[0], values[1]


def read_window(node: Node, shape: Shape, kernel: tuple[int, int]) -> Window:
    """Stride, dilation and padding of a node, with auto_pad and ceil_mode resolved."""
    stride = pair(node.integers("strides"), 1, "strides")
    dilation = pair(node.integers("dilations"), 1, "dilations")
    kernel = pair(kernel, 1, "kernel sizes")
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    ends = [_side(node, i, shape[i], reach[i], stride[i]) for i in (0, 1)]
    return Window(kernel, stride, dilation, (*ends[0], *ends[1]))


def _side(node: Node, i: int, size: int, reach: int, stride: int) -> tuple[int, int]:
    """Padding before and after, along height (i = 0) or width (1)."""
    auto, pads = node.text("auto_pad", "NOTSET"), node.integers("pads") or (0, 0, 0, 0)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        return (total // 2, total - total // 2) if auto == "SAME_UPPER" else (total - total // 2, total // 2)
    if auto not in ("NOTSET", "VALID", ""):
        raise Refusal(f"its auto_pad {auto!r} does not exist")
    if len(pads) != 4 or not all(0 <= p <= MAX_ATTRIBUTE for p in pads):
        raise Refusal(f"its pads {pads} are not four numbers in 0 .. {MAX_ATTRIBUTE}")
    before, after = (0, 0) if auto == "VALID" else (pads[i], pads[i + 2])
    if node.integer("ceil_mode", 0):
        after += _ceil_extra(size, before, after, reach, stride)
    return before, after


def _ceil_extra(size: int, before: int, after: int, reach: int, stride: int) -> int:
    """Padding at the end that gives the one more window of ceil_mode."""
    rest = size + before + after - reach
    extra = -rest % stride
    if extra and (rest < 0 or rest + extra >= size + before):  # that window would start in the padding
        raise Refusal("its ceil_mode adds a window that lies in the padding alone, which engines treat differently")
    return extra
