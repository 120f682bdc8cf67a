"""What the operators that compute do to the values of the graph: quantisation, layers with weights, pools, arithmetic.

The QOperator forms are composed of these in onnx_qops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange import onnx_const as const
from intrs.exchange import onnx_lower as lower
from intrs.exchange.onnx_arith import Grid, square_root
from intrs.exchange.onnx_file import Node, Refusal, exact
from intrs.exchange.onnx_lower import ADVICE, Clamped, Product, Rounded, Stored, Sum
from intrs.exchange.onnx_net import MAX_SIDE, Builder, Window
from intrs.exchange.onnx_values import NCHW, Atom, Constant, Scaled, Value, View, axis_number, dims_of, numbers

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.exchange.onnx_net import Units
    from intrs.network import Shape

MAX_ATTRIBUTE = 8192  # of a stride, dilation or padding: TOSA level 8K
SMALLEST_SCALE = Fraction(1, 2**126)  # float32 below this is denormal
HWC: tuple[Atom, ...] = ("h", "w", "c")  # how activations lie


class Inputs:
    """The values that a node reads, with a clear refusal for each that is missing or of the wrong sort."""

    def __init__(self, values: Sequence[Value | None], folder: Path) -> None:
        self._values = values
        self.folder = folder

    def __len__(self) -> int:
        return len(self._values)

    def get(self, number: int) -> Value | None:
        """Any value; None if the input is absent."""
        return self._values[number] if number < len(self._values) else None

    def need(self, number: int) -> Value:
        """Any value."""
        value = self.get(number)
        if value is None:
            raise Refusal(f"its input {number} is missing")
        return value

    def view(self, number: int) -> View:
        """An activation."""
        value = self.need(number)
        if not isinstance(value, View):
            raise Refusal(f"its input {number} is a constant; intrs expects an activation there")
        return value

    def real(self, number: int) -> View:
        """An activation of real numbers, not of codes."""
        view = self.view(number)
        if view.kind != "real":
            raise Refusal(f"its input {number} holds {view.kind} codes; a DequantizeLinear is missing")
        return view

    def array(self, number: int) -> Constant:
        """A constant as the file holds it."""
        value = self.need(number)
        if not isinstance(value, np.ndarray):
            raise Refusal(f"its input {number} must be a constant")
        return value

    def integers(self, number: int) -> tuple[int, ...] | None:
        """A constant list of integers; None if the input is absent."""
        if self.get(number) is None:
            return None
        array = self.array(number)
        if array.dtype.kind != "i" or array.ndim > 1 or array.size > 64:
            raise Refusal(f"its input {number} must be a short list of integers")
        return tuple(int(v) for v in array.ravel())


Operator = Callable[[Builder, Node, Inputs], Value]
OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Enter a function as the meaning of these operators."""

    def enter(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


# ---- quantisation -------------------------------------------------------------------------------------------------


def read_scales(scale: Constant) -> tuple[Fraction, ...]:
    """Scales as exact rationals; each must be a positive, normal float."""
    if scale.dtype.kind != "f" or not 1 <= scale.size <= MAX_SIDE or scale.ndim > 1:
        raise Refusal("its scale is not a float, or has blocks; intrs reads one scale a tensor or one a channel")
    scales = tuple(exact(s, "its scale") for s in scale.ravel().tolist())
    if min(scales) < SMALLEST_SCALE:
        raise Refusal(f"its scale {float(min(scales))} is not a positive, normal number")
    return scales


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
    scales, zeros = set(read_scales(scale)), {int(z) for z in zero.ravel()}
    if zero.dtype not in (np.int8, np.uint8):
        raise Refusal(f"its codes are {zero.dtype}; intrs computes on 8-bit activations (int8 or uint8)")
    if len(scales) != 1 or len(zeros) != 1:
        raise Refusal("it quantises an activation per channel; intrs needs one scale and zero point for the tensor")
    unsigned = bool(zero.dtype == np.uint8)
    return Grid(scales.pop(), zeros.pop() - (128 if unsigned else 0)), unsigned


def _scale_axis(x: Constant, axis: int, *lists: Constant) -> int:
    """The axis along which these scales or zero points run."""
    if all(values.size == 1 for values in lists):
        return 0
    axis = axis_number(axis, x.ndim)
    if any(values.size not in (1, x.shape[axis]) for values in lists):
        raise Refusal(f"its scales or zero points do not fit axis {axis} of its input of shape {x.shape}")
    return axis


def quantize(node: Node, x: Value, scale: Constant, zero: Constant, axis: int = 1) -> Value:
    """QuantizeLinear; `axis` matters for constants with many scales."""
    if isinstance(x, View):
        grid, unsigned = activation_grid(scale, zero)
        if x.kind != "real":
            raise Refusal("it quantises what is quantised already")
        return View(Rounded(node, x.source, grid, unsigned), x.axes, x.batch, "uint8" if unsigned else "int8")
    if isinstance(x, Scaled):
        raise Refusal("it quantises a constant that was quantised before")
    read_scales(scale)
    return const.quantized(x, scale, zero, _scale_axis(x, axis, scale, zero))


def dequantize(net: Builder, node: Node, x: Value, scale: Constant, zero: Constant | None, axis: int = 1) -> Value:
    """DequantizeLinear; `axis` matters for constants with many scales."""
    if isinstance(x, View):
        if x.kind == "real":
            raise Refusal("its input is not quantised")
        unsigned = x.kind == "uint8"
        if zero is None:
            zero = np.zeros(1, x.kind)
        grid, zero_unsigned = activation_grid(scale, zero)
        if unsigned != zero_unsigned:
            raise Refusal(f"its zero point is {zero.dtype}, its input {x.kind}")
        tensor = x.source.on(net, lower.code_grid(unsigned))
        return View(Stored(node, net, tensor, grid), x.axes, x.batch)
    if isinstance(x, Scaled) or x.dtype.kind not in "iu":
        raise Refusal("its input is not quantised")
    return _dequantize_constant(x, scale, zero, axis)


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
    return quantize(node, inputs.need(0), inputs.array(1), zero, node.integer("axis", 1))


@operator("DequantizeLinear")
def _dequantize_linear(net: Builder, node: Node, inputs: Inputs) -> Value:
    _refuse_blocks(node)
    zero = None if inputs.get(2) is None else zero_points(inputs.get(2), node)
    return dequantize(net, node, inputs.need(0), inputs.array(1), zero, node.integer("axis", 1))


def _refuse_blocks(node: Node) -> None:
    if node.integer("block_size", 0):
        raise Refusal("it quantises in blocks; use one scale a tensor or one a channel")


# ---- layers with weights ------------------------------------------------------------------------------------------


def weights_of(value: Value) -> Scaled:
    """Weights of a layer, which must be quantised constants."""
    if isinstance(value, View):
        raise Refusal("its weights are computed from the image; intrs needs constant weights")
    if not isinstance(value, Scaled):
        raise Refusal(f"this is a float layer: its weights are {value.dtype}, not quantised; {ADVICE}")
    return value


def _per_output(weights: Scaled, outputs: int) -> tuple[Fraction, ...]:
    if len(weights.scales) == 1:
        return weights.scales * outputs
    if weights.axis != 0:
        raise Refusal("its weights have a scale per input channel; intrs needs one per output channel or one in all")
    return weights.scales


def _bias(value: Value | None, outputs: int) -> tuple[Fraction, ...]:
    if value is None:
        return (Fraction(0),) * outputs
    dims = dims_of(value)
    if prod(dims) not in (1, outputs) or (dims and dims[-1] != prod(dims)):
        raise Refusal(f"its bias of shape {dims} does not fit its {outputs} output channels")
    values = tuple(numbers(value, "its bias"))
    return values if len(values) == outputs else values * outputs


def _product(
    net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None, groups: int, window: Window | None
) -> Product:
    """The layer of weights shaped (out, height, width, in / groups)."""
    outputs, *_, inputs = weights.codes.shape
    if groups < 1 or inputs * groups != x.source.shape[2] or outputs % groups or outputs == 0:
        raise Refusal(f"{x.source.shape[2]} input channels, {groups} groups and weights for {inputs} do not fit")
    net.spend(outputs, weights.codes.size)
    source = lower.settled(net, x.source, node)
    units = tuple(source.grid.scale * scale for scale in _per_output(weights, outputs))
    codes = lower.to_int8(weights.codes)
    return Product(node, source, codes, units, _bias(bias, outputs), groups, window)


@operator("Conv")
def conv(net: Builder, node: Node, inputs: Inputs) -> Value:
    """Conv in two dimensions."""
    return convolve(net, node, inputs.real(0), weights_of(inputs.need(1)), inputs.get(2))


def convolve(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None) -> View:
    """Conv of an image, or a 1 x 1 Conv of flattened features."""
    if weights.codes.ndim != 4 or len(x.axes) != 4:
        ranks = f"weights of rank {weights.codes.ndim} and an input of rank {len(x.axes)}"
        raise Refusal(f"it has {ranks}; intrs reads Conv in two dimensions, of rank 4")
    kernel = weights.codes.shape[2], weights.codes.shape[3]
    if node.integers("kernel_shape") not in (None, kernel):
        raise Refusal(f"its kernel_shape {node.integers('kernel_shape')} is not that of its weights, {kernel}")
    groups, features = node.integer("group", 1), x.features()
    if not x.is_image() and features and features[0] == 1 and (*kernel, groups) == (1, 1, 1):
        plain = weights.reshape(weights.codes.shape[:2])
        return x.of(_linear(net, node, x, plain, bias, features[1]), NCHW)
    x.require_image()
    window = read_window(node, x.source.shape, kernel)
    return x.of(_product(net, node, x, weights.transpose((0, 2, 3, 1)), bias, groups, window), NCHW)


def _linear(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None, order: tuple[Atom, ...]) -> Product:
    """A fully connected layer: a Conv whose kernel is as large as the atoms in `order`; weights are (out, in)."""
    sizes = {atom: x.size(atom) if atom in order else 1 for atom in HWC}
    outputs, count = weights.codes.shape
    if prod(sizes.values()) != count:
        raise Refusal(f"its input of shape {x.dims} does not fit its weights for {count} features")
    apart = weights.reshape((outputs, *(sizes[atom] for atom in order if atom in sizes)))
    for missing in (atom for atom in sizes if atom not in order):  # an atom of size 1 is nowhere in the order
        apart = apart.reshape((*apart.codes.shape, 1))
        order = (*order, missing)
    kernel = apart.transpose((0, *(1 + order.index(atom) for atom in HWC)))
    return _product(net, node, x, kernel, bias, 1, None)


def matrix_product(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None) -> View:
    """x @ weights.T + bias along the last axis of x; weights are (out, in)."""
    features = x.features()
    last = len(x.axes) - 1
    if features and features[0] == last:
        order = features[1]
    elif x.channel_axis() == last:
        order = ("c",)
    else:
        raise Refusal(f"it multiplies along the last axis of shape {x.dims}, which is not the channels")
    product = _linear(net, node, x, weights, bias, order)
    return x.of(product, (*x.axes[:-1], ("c",)))


@operator("Gemm")
def _gemm(net: Builder, node: Node, inputs: Inputs) -> Value:
    x, weights = inputs.real(0), weights_of(inputs.need(1))
    return gemm(net, node, x, weights, inputs.get(2), node.number("beta", 1.0))


def gemm(net: Builder, node: Node, x: View, weights: Scaled, bias: Value | None, beta: Fraction) -> View:
    """Gemm with its attributes; the scale of the weights takes alpha."""
    alpha = node.number("alpha", 1.0)
    if node.integer("transA", 0) or weights.codes.ndim != 2 or alpha <= 0 or len(x.axes) != 2:
        raise Refusal("it has transA, alpha <= 0, or an input that is not a matrix")
    if not node.integer("transB", 0):
        weights = weights.transpose((1, 0))
    if bias is not None and beta != 1:
        bias = _times(bias, beta)
    if alpha != 1:
        weights = Scaled(weights.codes, tuple(alpha * scale for scale in weights.scales), weights.axis)
    return matrix_product(net, node, x, weights, bias)


def _times(value: Value, factor: Fraction) -> Scaled:
    """A constant times a number: every value an integer times a scale of its own."""
    if prod(dims_of(value)) > MAX_SIDE:
        raise Refusal(f"its bias of shape {dims_of(value)} does not fit its output channels")
    values = numbers(value, "its bias")
    units = tuple(abs(v * factor) or Fraction(1) for v in values)
    signs = np.array([(v * factor > 0) - (v * factor < 0) for v in values], np.int8)
    return Scaled(signs, units)


@operator("MatMul")
def _matmul(net: Builder, node: Node, inputs: Inputs) -> Value:
    return matmul(net, node, inputs.real(0), weights_of(inputs.need(1)))


def matmul(net: Builder, node: Node, x: View, weights: Scaled) -> View:
    """x @ weights; weights are (in, out)."""
    if weights.codes.ndim != 2:
        raise Refusal(f"its weights have rank {weights.codes.ndim}; intrs needs a matrix")
    return matrix_product(net, node, x, weights.transpose((1, 0)), None)


# ---- windows ------------------------------------------------------------------------------------------------------


def _pair(values: tuple[int, ...] | None, default: int, what: str) -> tuple[int, int]:
    values = (default, default) if values is None else values
    if len(values) != 2 or not all(1 <= v <= MAX_ATTRIBUTE for v in values):
        raise Refusal(f"its {what} {values} are not two numbers in 1 .. {MAX_ATTRIBUTE}")
    return values[0], values[1]


def read_window(node: Node, shape: Shape, kernel: tuple[int, int]) -> Window:
    """Stride, dilation and padding of a node, with auto_pad and ceil_mode resolved."""
    stride = _pair(node.integers("strides"), 1, "strides")
    dilation = _pair(node.integers("dilations"), 1, "dilations")
    kernel = _pair(kernel, 1, "kernel sizes")
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


def _pool_window(node: Node, x: View) -> Window:
    x.require_image()
    kernel = node.integers("kernel_shape")
    if kernel is None:
        raise Refusal("it has no kernel_shape")
    window = read_window(node, x.source.shape, _pair(kernel, 1, "kernel sizes"))
    top, bottom, left, right = window.pad
    if window.dilation != (1, 1) or max(top, bottom) >= window.kernel[0] or max(left, right) >= window.kernel[1]:
        raise Refusal("it is a pool with dilation, or with padding as wide as its kernel")
    return window


@operator("MaxPool")
def _max_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    return x.of(lower.max_pool(net, x.source, _pool_window(node, x), node))


@operator("GlobalMaxPool")
def _global_max_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    x.require_image()
    return x.of(lower.max_pool(net, x.source, Window(x.source.shape[:2]), node))


@operator("AveragePool")
def _average_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    return average_pool(net, node, inputs.real(0))


def average_pool(net: Builder, node: Node, x: View) -> View:
    """AveragePool, counting padding or not."""
    window = _pool_window(node, x)
    if not any(window.pad):
        return x.of(lower.average(net, x.source, window, node))
    if not node.integer("count_include_pad", 0):
        return x.of(lower.average_inside(net, x.source, window, node))
    if node.integer("ceil_mode", 0):
        raise Refusal("it has both ceil_mode and count_include_pad, which engines treat differently")
    return x.of(lower.average(net, x.source, window, node))


@operator("GlobalAveragePool")
def _global_average_pool(net: Builder, node: Node, inputs: Inputs) -> Value:
    return global_average(net, node, inputs.real(0))


def global_average(net: Builder, node: Node, x: View) -> View:
    """The mean over all of height and width."""
    x.require_image()
    return x.of(lower.average(net, x.source, Window(x.source.shape[:2]), node))


@operator("ReduceMean")
def _reduce_mean(net: Builder, node: Node, inputs: Inputs) -> Value:
    axes = inputs.integers(1) or node.integers("axes")
    return reduce_mean(net, node, inputs.real(0), axes)


def reduce_mean(net: Builder, node: Node, x: View, axes: tuple[int, ...] | None) -> View:
    """The mean over height, width, or both."""
    gone = {x.axis(axis) for axis in axes or ()}
    atoms = {atom for axis in gone for atom in x.axes[axis]}
    if not gone or 0 in gone or not atoms <= {"h", "w"}:
        raise Refusal("it takes the mean over something else than height and width")
    height, width, _ = x.source.shape
    window = Window((height if "h" in atoms else 1, width if "w" in atoms else 1))
    mean = x.of(lower.average(net, x.source, window, node))
    if node.integer("keepdims", 1):
        return mean
    return View(mean.source, tuple(axis for i, axis in enumerate(mean.axes) if i not in gone), mean.batch)


# ---- element by element -------------------------------------------------------------------------------------------


@operator("Relu")
def _relu(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.view(0)
    return x.of(Clamped(node, x.source, Fraction(0), None))


@operator("Clip")
def _clip(net: Builder, node: Node, inputs: Inputs) -> Value:
    low, high = _bound(node, inputs, 1, "min"), _bound(node, inputs, 2, "max")
    x = inputs.need(0)
    if isinstance(x, View):
        return x.of(Clamped(node, x.source, low, high))
    if isinstance(x, Scaled) or x.dtype not in (np.int8, np.uint8):
        raise Refusal("it clips a constant that does not hold 8-bit codes")
    limits = np.iinfo(x.dtype)
    least, most = (int(limits.min) if low is None else int(low)), (int(limits.max) if high is None else int(high))
    if not int(limits.min) <= least <= most <= int(limits.max):
        raise Refusal(f"its bounds {least} and {most} are not a range of {x.dtype}")
    return np.clip(x, least, most)


def _bound(node: Node, inputs: Inputs, number: int, name: str) -> Fraction | None:
    """min or max of Clip: an input since opset 11, an attribute before; infinities are no bound."""
    if (value := inputs.get(number)) is not None:
        if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind == "f" and np.isinf(value).all():
            return None
        if prod(dims_of(value)) != 1:
            raise Refusal(f"its {name} is not a single number")
        return numbers(value, f"its {name}")[0]
    return node.number(name, 0) if name in node.attributes else None


def per_channel(x: View, value: Value) -> Units:
    """A constant that broadcasts along the channels of x, one number a channel."""
    channels, dims = x.source.shape[2], dims_of(value)
    if prod(dims) not in (1, channels):
        raise Refusal(f"its constant of shape {dims} varies along something else than the {channels} channels")
    values = tuple(numbers(value, "its constant"))
    while dims and dims[0] == 1:
        dims = dims[1:]
    if len(dims) > len(x.axes):
        raise Refusal(f"its constant of shape {dims} has more axes than its input of shape {x.dims}")
    if len(values) == 1:
        return values * channels
    if len(x.axes) - len(dims) != x.channel_axis():
        raise Refusal(f"its constant of shape {dims} varies along something else than the channels of {x.dims}")
    return values


@operator("Add", "Sub", "Mul", "Div")
def _arithmetic(net: Builder, node: Node, inputs: Inputs) -> Value:
    return arithmetic(net, node, node.op, inputs.need(0), inputs.need(1))


def arithmetic(net: Builder, node: Node, op: str, a: Value, b: Value) -> Value:
    """Add, Sub, Mul or Div of constants, of an activation and a constant, or Add of two activations."""
    if any(isinstance(value, View) and value.kind != "real" for value in (a, b)):
        raise Refusal("it computes with codes; a DequantizeLinear is missing")
    if isinstance(a, View) and isinstance(b, View):
        if op != "Add":
            raise Refusal(f"{op} of two activations is not supported; only Add is")
        return _add(net, node, a, b)
    if isinstance(a, View):
        return _affine(net, node, op, a, per_channel(a, b))
    if isinstance(b, View):
        return _reversed_affine(net, node, op, b, per_channel(b, a))
    if isinstance(a, Scaled) or isinstance(b, Scaled):
        raise Refusal("it computes with quantised constants")
    return const.binary(op, a, b)


def _affine(net: Builder, node: Node, op: str, x: View, values: Units) -> View:
    """x op constant."""
    if op == "Div":
        if not all(values):
            raise Refusal("it divides by zero")
        values = tuple(1 / v for v in values)
    zeros, ones = (Fraction(0),) * len(values), (Fraction(1),) * len(values)
    if op in ("Mul", "Div"):
        return x.of(lower.affine(net, x.source, values, zeros, node))
    offsets = tuple(-v for v in values) if op == "Sub" else values
    return x.of(lower.affine(net, x.source, ones, offsets, node))


def _reversed_affine(net: Builder, node: Node, op: str, x: View, values: Units) -> View:
    """Constant op x."""
    if op == "Div":
        raise Refusal("it divides a constant by an activation")
    if op == "Sub":
        return x.of(lower.affine(net, x.source, (Fraction(-1),) * len(values), values, node))
    return _affine(net, node, op, x, values)


def _add(net: Builder, node: Node, a: View, b: View) -> View:
    """Add of two activations of one shape."""
    if a.source.shape != b.source.shape or a.axes != b.axes:
        raise Refusal(f"its inputs of shape {a.dims} and {b.dims} differ; broadcasting of activations is not supported")
    terms = [x.source if x.source.grid is None else lower.settled(net, x.source, node) for x in (a, b)]
    return a.of(Sum(node, *terms))


@operator("BatchNormalization")
def _batch_normalization(net: Builder, node: Node, inputs: Inputs) -> Value:
    x = inputs.real(0)
    if x.channel_axis() != 1 or node.integer("training_mode", 0):
        raise Refusal("its channels are not axis 1, or it is in training mode")
    if {prod(dims_of(inputs.need(i))) for i in (1, 2, 3, 4)} != {x.source.shape[2]}:
        raise Refusal(f"its constants do not fit its {x.source.shape[2]} channels")
    columns = [numbers(inputs.need(i), "its constant") for i in (1, 2, 3, 4)]
    epsilon = node.number("epsilon", 1e-5)
    gammas, betas, means, variances = columns
    if min(variances) + epsilon <= 0:
        raise Refusal("its variance is not positive")
    factors = tuple(g / square_root(v + epsilon) for g, v in zip(gammas, variances, strict=True))
    offsets = tuple(b - m * f for b, m, f in zip(betas, means, factors, strict=True))
    return x.of(lower.affine(net, x.source, factors, offsets, node))
