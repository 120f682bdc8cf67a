"""Integer networks: what a layer is, the canonical bytes of a network, and running one.

Every layer means what TOSA 1.0 (integer profile) says; `docs/arithmetic.md` derives each formula. Tensors hold int8
codes of shape (height, width, channels). Tensor 0 is the quantised image; layer i writes tensor i + 1 and may read any
tensor before it. The last layer writes the class scores, a tensor of shape (1, 1, classes).

The bytes of `Network.to_bytes` are what the native core reads, and their SHA-256 is the network's identity.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from intrs import _core
from intrs.errors import IntrsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int8 = NDArray[np.int8]
    Int32 = NDArray[np.int32]

Shape = tuple[int, int, int]
MAGIC = b"INTRSNET"
FORMAT = 1
INT8 = (-128, 127)


@dataclass(frozen=True, eq=False)
class Rescale:
    """TOSA RESCALE, single rounding: `(value * multiplier + (1 << (shift - 1))) >> shift`, 64-bit inside.

    One entry for all channels, or one per output channel. multiplier in 0 .. 2**31 - 1, shift in 2 .. 62,
    -2**(shift - 1) <= value < 2**(shift - 1).
    """

    multiplier: Int32
    shift: Int8


@dataclass(frozen=True, eq=False)
class Quantiser:
    """The first step, integer pixel plus noise p of any size -> int8 code, per channel c:

    `clamp((min(max(p, low[c]), high[c]) * multiplier[c] + offset[c]) >> shift, -128, 127)`

    Rounding half and zero point are inside offset. low and high only bound the product to 32 bits; codes are
    saturated there already.
    """

    height: int
    width: int
    channels: int
    low: Int32
    high: Int32
    multiplier: Int32
    offset: Int32
    shift: int


@dataclass(frozen=True, eq=False)
class Layer:
    """What all layers have: the tensors they read, and a name from the file, which is not part of the identity."""

    inputs: tuple[int, ...]
    name: str = field(default="", kw_only=True)
    KIND: ClassVar[int]

    def fields(self) -> bytes:
        """The layer's own part of the canonical bytes, after kind and inputs."""
        raise NotImplementedError

    def output_shape(self, *inputs: Shape) -> Shape:
        """(height, width, channels) of the tensor that the layer writes."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Conv(Layer):
    """CONV2D or DEPTHWISE_CONV2D (groups), RESCALE, CLAMP. Padding acts as the input zero point.

    weights are (out channels, kernel height, kernel width, in channels / groups). With `wide` the result stays int32
    (class scores: last layer only), output_zero_point is 0 and clamp is not applied.
    """

    weights: Int8
    bias: Int32
    groups: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int, int, int]  # top, bottom, left, right
    input_zero_point: int
    rescale: Rescale
    output_zero_point: int
    clamp: tuple[int, int] = INT8
    wide: bool = False
    KIND: ClassVar[int] = 1

    def fields(self) -> bytes:
        window = _ints(*self.weights.shape, self.groups, *self.stride, *self.dilation, *self.pad)
        after = _ints(self.output_zero_point, *self.clamp, int(self.wide))
        arrays = _array(self.bias, "<i4") + _array(self.weights, "i1")
        return window + _ints(self.input_zero_point) + _rescale(self.rescale) + after + arrays

    def output_shape(self, *inputs: Shape) -> Shape:
        kernel = self.weights.shape[1], self.weights.shape[2]
        height, width = _window(inputs[0], kernel, self.stride, self.pad, self.dilation)
        return height, width, self.weights.shape[0]


@dataclass(frozen=True, eq=False)
class Add(Layer):
    """`clamp((((a - za) * ma + (b - zb) * mb + (1 << (shift - 1))) >> shift) + zo)`, 32-bit inside, shift 2 .. 30."""

    multipliers: tuple[int, int]
    zero_points: tuple[int, int]
    shift: int
    output_zero_point: int
    clamp: tuple[int, int] = INT8
    KIND: ClassVar[int] = 2

    def fields(self) -> bytes:
        return _ints(*self.multipliers, *self.zero_points, self.shift, self.output_zero_point, *self.clamp)

    def output_shape(self, *inputs: Shape) -> Shape:
        return inputs[0]


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """MAX_POOL2D: the largest code under the window; padding never wins."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    KIND: ClassVar[int] = 3

    def fields(self) -> bytes:
        return _ints(*self.kernel, *self.stride, *self.pad)

    def output_shape(self, *inputs: Shape) -> Shape:
        return *_window(inputs[0], self.kernel, self.stride, self.pad), inputs[0][2]


@dataclass(frozen=True, eq=False)
class AvgPool(Layer):
    """AVG_POOL2D with the specification's reciprocal_scale; padding is not counted."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    input_zero_point: int
    output_zero_point: int
    KIND: ClassVar[int] = 4

    def fields(self) -> bytes:
        return _ints(*self.kernel, *self.stride, *self.pad, self.input_zero_point, self.output_zero_point)

    def output_shape(self, *inputs: Shape) -> Shape:
        return *_window(inputs[0], self.kernel, self.stride, self.pad), inputs[0][2]


@dataclass(frozen=True, eq=False)
class Requantise(Layer):
    """RESCALE from int8 to int8 (one entry for all channels), then CLAMP."""

    input_zero_point: int
    rescale: Rescale
    output_zero_point: int
    clamp: tuple[int, int] = INT8
    KIND: ClassVar[int] = 5

    def fields(self) -> bytes:
        return _ints(self.input_zero_point) + _rescale(self.rescale) + _ints(self.output_zero_point, *self.clamp)

    def output_shape(self, *inputs: Shape) -> Shape:
        return inputs[0]


@dataclass(frozen=True, eq=False)
class Concat(Layer):
    """CONCAT along channels."""

    KIND: ClassVar[int] = 6

    def fields(self) -> bytes:
        return b""

    def output_shape(self, *inputs: Shape) -> Shape:
        return inputs[0][0], inputs[0][1], sum(shape[2] for shape in inputs)


@dataclass(frozen=True, eq=False)
class Pad(Layer):
    """PAD by a constant code."""

    pad: tuple[int, int, int, int]
    value: int
    KIND: ClassVar[int] = 7

    def fields(self) -> bytes:
        return _ints(*self.pad, self.value)

    def output_shape(self, *inputs: Shape) -> Shape:
        (height, width, channels), (top, bottom, left, right) = inputs[0], self.pad
        return height + top + bottom, width + left + right, channels


@dataclass(frozen=True, eq=False)
class Network:
    """A validated integer network. Build one with `intrs.load`, or from layers of your own."""

    quantiser: Quantiser
    layers: tuple[Layer, ...]

    def to_bytes(self) -> bytes:
        """The canonical bytes (`docs/arithmetic.md`, "Bytes of a network"), which the core validates."""
        parts = [MAGIC, _ints(FORMAT), _quantiser(self.quantiser), _ints(len(self.layers))]
        for layer in self.layers:
            parts += [_ints(layer.KIND, len(layer.inputs), *layer.inputs), layer.fields()]
        return b"".join(parts)

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the lowered integers, in hexadecimal: the same on every machine, blind to names in the file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @cached_property
    def native(self) -> _core.Network:
        """The core's validated copy. Raises IntrsError if a layer is malformed or could overflow."""
        try:
            return _core.Network(self.to_bytes())
        except ValueError as error:
            raise IntrsError(self._explain(str(error))) from None

    @property
    def input_shape(self) -> Shape:
        return self.quantiser.height, self.quantiser.width, self.quantiser.channels

    @property
    def classes(self) -> int:
        return self.shapes[-1][2]

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Shape of every tensor: the quantised image, then one per layer."""
        shapes = [self.input_shape]
        for layer in self.layers:
            shapes.append(layer.output_shape(*(shapes[i] for i in layer.inputs)))
        return tuple(shapes)

    def scores(self, batch: NDArray[Any], kernels: str | None = None) -> Int32:
        """Class scores (n, classes) of integer images (n, height, width, channels), noise already added."""
        return self.native.scores(self._batch(batch), kernels or "")

    def predict(self, batch: NDArray[Any], kernels: str | None = None) -> NDArray[np.int64]:
        """The class of each image: the largest score, the lowest class at a tie (TOSA ARGMAX)."""
        return np.asarray(np.argmax(self.scores(batch, kernels), axis=1))

    def trace(self, image: NDArray[Any], kernels: str | None = None) -> list[Int32]:
        """Every tensor for one integer image, as (height, width, channels): for comparing with other engines."""
        values = self.native.trace(self._batch(np.asarray(image)[None]), kernels or "")
        return [value.reshape(shape) for value, shape in zip(values, self.shapes, strict=True)]

    def _batch(self, batch: NDArray[Any]) -> Int32:
        array = np.asarray(batch)
        if array.dtype.kind not in "iu" or array.shape[1:] != self.input_shape:
            expected = " x ".join(map(str, self.input_shape))
            raise IntrsError(
                f"the network takes integer images of {expected} (height, width, channels); "
                f"got {array.dtype} of shape {array.shape[1:]}"
            )
        return np.ascontiguousarray(np.clip(array, -(2**31), 2**31 - 1), np.int32)

    def _explain(self, message: str) -> str:
        """The core counts layers; the user knows names."""
        number, _, rest = message.partition(": ")
        if number.startswith("layer ") and number[6:].isdigit():
            layer = self.layers[int(number[6:])]
            return f"layer {layer.name or number[6:]!r} ({type(layer).__name__}): {rest}"
        return message


def _ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def _array(values: NDArray[Any], kind: str) -> bytes:
    return np.ascontiguousarray(values).astype(kind).tobytes()


def _rescale(rescale: Rescale) -> bytes:
    return _ints(len(rescale.multiplier)) + _array(rescale.multiplier, "<i4") + _array(rescale.shift, "i1")


def _quantiser(q: Quantiser) -> bytes:
    arrays = (_array(values, "<i4") for values in (q.low, q.high, q.multiplier, q.offset))
    return _ints(q.height, q.width, q.channels) + b"".join(arrays) + _ints(q.shift)


def _window(
    shape: Shape,
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: tuple[int, int, int, int],
    dilation: Sequence[int] = (1, 1),
) -> tuple[int, int]:
    """Output height and width of a sliding window, rounding down."""
    height = (shape[0] + pad[0] + pad[1] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    width = (shape[1] + pad[2] + pad[3] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    return height, width
