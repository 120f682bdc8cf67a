"""QuantizeLinear and DequantizeLinear, of activations and of constants."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.builder import MAX_SIDE, Builder
from intrs.exchange.integers import Grid, clamped
from intrs.exchange.onnx import constants as const
from intrs.exchange.onnx.activations import Rounded, Stored, code_grid
from intrs.exchange.onnx.operators.registry import Inputs, operator
from intrs.exchange.onnx.product import ChannelLines, in_units
from intrs.exchange.onnx.tensors import exact
from intrs.exchange.onnx.values import Constant, Scaled, Value, View, axis_number
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from intrs.exchange.builder import Units
    from intrs.exchange.onnx.file import Node

SMALLEST_SCALE = 2.0**-126  # float32 below this is denormal


def check_scales(scale: Constant) -> None:
    """Refuse scales that are not positive, normal floats."""
    if scale.dtype.kind != "f" or not 1 <= scale.size <= MAX_SIDE or scale.ndim > 1:
        raise Refusal("its scale is not a float, or has blocks; intrs reads one scale per tensor or one per channel")
    if not np.isfinite(scale).all():
        raise Refusal(f"its scale is {scale.ravel()[~np.isfinite(scale.ravel())][0]}")
    if float(scale.min()) < SMALLEST_SCALE:  # as Python's float: in half precision that limit would be 0
        raise Refusal(f"its scale {float(scale.min())} is not a positive, normal number")


def read_scales(scale: Constant) -> tuple[Fraction, ...]:
    """Scales as exact rationals."""
    check_scales(scale)
    return tuple(exact(s, "its scale") for s in scale.ravel().tolist())


def zero_points(zero: Value | None, node: Node) -> Constant:
    """Zero points, from which the type of the codes follows too."""
    if zero is None:
        kind = node.integer("output_dtype", 0)
        return np.zeros(1, np.int8 if kind == 3 else np.uint8 if kind in (0, 2) else np.int16)
    if not isinstance(zero, np.ndarray) or zero.dtype.kind not in "iu" or zero.ndim > 1:
        raise Refusal("its zero point is not a constant integer, or has blocks")
    if not 1 <= zero.size <= MAX_SIDE:
        raise Refusal("its zero point is not a constant integer, or has blocks")
    return zero


def activation_grid(scale: Constant, zero: Constant) -> tuple[Grid, bool]:
    """The grid of an activation, and whether the file's codes are unsigned."""
    unsigned, code = _one_zero(scale, zero)
    scales = np.unique(scale)
    if len(scales) != 1:
        raise Refusal(
            "it quantises an activation per channel, where intrs needs one scale and zero point for the tensor"
        )
    return Grid(read_scales(scales)[0], code), unsigned


def _one_zero(scale: Constant, zero: Constant) -> tuple[bool, int]:
    """Whether the codes of an activation are unsigned, and their zero point as that of int8 codes."""
    check_scales(scale)
    if zero.dtype not in (np.int8, np.uint8):
        raise Refusal(f"its codes are {zero.dtype}; intrs computes on 8-bit activations (int8 or uint8)")
    if len(zeros := np.unique(zero)) != 1:
        raise Refusal("it quantises an activation with a zero point per channel; intrs needs one for the tensor")
    unsigned = bool(zero.dtype == np.uint8)
    return unsigned, int(zeros[0]) - (128 if unsigned else 0)


def _per_channel(net: Builder, x: View, scale: Constant, axis: int) -> Units | None:
    """The scales of an activation that has many, one per channel; None if it has one."""
    if len(np.unique(scale)) == 1:
        return None
    if x.channel_axis() != axis_number(axis, len(x.axes)) or scale.size != x.source.shape[2]:
        raise Refusal(f"it quantises an activation of shape {x.dims} by {scale.size} scales along axis {axis}")
    net.budget.spend(2 * scale.size)
    return read_scales(scale)


def _scale_axis(x: Constant, axis: int, *lists: Constant) -> int:
    """The axis along which these scales or zero points run."""
    if all(values.size == 1 for values in lists):
        return 0
    axis = axis_number(axis, x.ndim)
    if any(values.size not in (1, x.shape[axis]) for values in lists):
        raise Refusal(f"its scales or zero points do not fit axis {axis} of its input of shape {x.shape}")
    return axis


def quantize(net: Builder, node: Node, x: Value, scale: Constant, zero: Constant, axis: int = 1) -> Value:
    """QuantizeLinear; `axis` matters where there are many scales."""
    if isinstance(x, View):
        return _quantize_view(net, node, x, scale, zero, axis)
    check_scales(scale)
    if isinstance(x, Scaled):
        return _quantize_again(net, x, scale, zero)
    return const.quantized(x, scale, zero, _scale_axis(x, axis, scale, zero))


def _quantize_again(net: Builder, x: Scaled, scale: Constant, zero: Constant) -> Constant:
    """QuantizeLinear of a constant that was quantised before: several BatchNormalizations may share one of ones."""
    if scale.size != 1 or zero.size != 1 or x.codes.size > MAX_SIDE:
        raise Refusal("it quantises a constant that was quantised before, per channel, or a large one")
    net.budget.spend(x.codes.size)
    limits, step, offset = np.iinfo(zero.dtype), read_scales(scale.ravel())[0], int(zero.ravel()[0])
    codes = [clamped(round(value / step) + offset, (int(limits.min), int(limits.max))) for value in x.values()]
    return np.array(codes, zero.dtype).reshape(x.codes.shape)


def _quantize_view(net: Builder, node: Node, x: View, scale: Constant, zero: Constant, axis: int) -> View:
    unsigned, code = _one_zero(scale, zero)
    if x.kind != "real":
        raise Refusal("it quantises what is quantised already")
    source, scales = x.source, _per_channel(net, x, scale, axis)
    if scales is None:
        grid = activation_grid(scale, zero)[0]
    else:  # numbers in units of their channel's scale
        grid = Grid(Fraction(1), code)
        source = in_units(net, source, scales, grid, node)
    return View(Rounded(node, source, grid, unsigned), x.axes, x.batch, "uint8" if unsigned else "int8")


def dequantize(net: Builder, node: Node, x: Value, scale: Constant, zero: Constant | None, axis: int = 1) -> Value:
    """DequantizeLinear; `axis` matters where there are many scales."""
    if isinstance(x, View):
        return _dequantize_view(net, node, x, scale, zero, axis)
    if isinstance(x, Scaled) or x.dtype.kind not in "iu":
        raise Refusal("its input is not quantised")
    net.budget.spend(scale.size)
    return _dequantize_constant(x, scale, zero, axis)


def _dequantize_view(net: Builder, node: Node, x: View, scale: Constant, zero: Constant | None, axis: int) -> View:
    if x.kind == "real":
        raise Refusal("its input is not quantised")
    unsigned = x.kind == "uint8"
    zero = np.zeros(1, x.kind) if zero is None else zero
    zero_unsigned, code = _one_zero(scale, zero)
    if unsigned != zero_unsigned:
        raise Refusal(f"its zero point is {zero.dtype}, its input {x.kind}")
    tensor = x.source.on(net, code_grid(unsigned))
    if (scales := _per_channel(net, x, scale, axis)) is not None:
        stored = Stored(node, net, tensor, Grid(Fraction(1), code))
        return View(ChannelLines(node, stored, scales, (Fraction(0),) * len(scales)), x.axes, x.batch)
    grid, _ = activation_grid(scale, zero)
    origin = x.source.origin(grid) if isinstance(x.source, Rounded) else None
    return View(Stored(node, net, tensor, grid, origin=origin), x.axes, x.batch)


def _dequantize_constant(x: Constant, scale: Constant, zero: Constant | None, axis: int) -> Scaled:
    zero = np.zeros(1, x.dtype) if zero is None else zero
    scales = read_scales(scale)
    if zero.dtype != x.dtype or x.dtype.itemsize > 4:
        raise Refusal(f"its zero point is {zero.dtype}, its input {x.dtype}")
    axis = _scale_axis(x, axis, scale, zero)
    if not zero.any():
        return Scaled(x, scales, axis)
    wide = np.int16 if x.dtype.itemsize == 1 else np.int64
    return Scaled(x.astype(wide) - const.along(zero, x.ndim, axis).astype(wide), scales, axis)


@operator("QuantizeLinear")
def _quantize_linear(net: Builder, node: Node, inputs: Inputs) -> Value:
    _refuse_blocks(node)
    zero = zero_points(inputs.get(2), node)
    return quantize(net, node, inputs.need(0), inputs.array(1), zero, node.integer("axis", 1))


@operator("DequantizeLinear")
def _dequantize_linear(net: Builder, node: Node, inputs: Inputs) -> Value:
    _refuse_blocks(node)
    zero = None if inputs.get(2) is None else zero_points(inputs.get(2), node)
    return dequantize(net, node, inputs.need(0), inputs.array(1), zero, node.integer("axis", 1))


def _refuse_blocks(node: Node) -> None:
    if node.integer("block_size", 0):
        raise Refusal("it quantises in blocks; use one scale per tensor or one per channel")
