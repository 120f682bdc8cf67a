"""What a layer is: a few kinds, each a list of fields with one meaning.

Every kind means what TOSA 1.0 (integer profile) says; `docs/arithmetic.md` derives each formula. Tensors hold int8
codes of shape (height, width, channels). Fields are checked when a layer is made: what its bytes cannot hold raises
ModelError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from intrs.errors import ModelError
from intrs.network.parts import Array, Dims, Flag, Int, Ints, Nested, Part, Record, Source, fit_integers, integers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Int8 = NDArray[np.int8]
    Int32 = NDArray[np.int32]

Shape = tuple[int, int, int]
INT8 = (-128, 127)


def _int32s(name: str) -> tuple[Part, Part]:
    """A list of int32 of any length."""
    return Dims(name, 1), Array(name, "<i4", lambda sizes: sizes[name])


@dataclass(frozen=True, eq=False, repr=False)
class Rescale(Record):
    """TOSA RESCALE: `(value * multiplier + (1 << (shift - 1))) >> shift`, 64-bit inside.

    That is single rounding. A layer that rounds twice (`ROUNDS_TWICE`), as TFLite does, adds 2**30 to the product if
    value >= 0 and takes it away if value < 0, where shift > 31.

    One entry for all channels, or one per output channel. multiplier in 0 .. 2**31 - 1, shift in 2 .. 62,
    -2**(shift - 1) <= value < 2**(shift - 1).
    """

    multiplier: Int32
    shift: Int8
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        *_int32s("multiplier"),
        Array("shift", "i1", lambda sizes: sizes["multiplier"]),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Quantiser(Record):
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
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        *(Int(name) for name in ("height", "width", "channels")),
        *(Array(n, "<i4", lambda sizes: (sizes["channels"],)) for n in ("low", "high", "multiplier", "offset")),
        Int("shift"),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Record):
    """What all layers have: the tensors they read, and a name from the file, which is not part of the identity."""

    inputs: tuple[int, ...]
    name: str = field(default="", kw_only=True)
    KIND: ClassVar[int]
    ROUNDS_TWICE: ClassVar[bool] = False  # RESCALE with DOUBLE_ROUND

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ModelError(f"{type(self).__name__}: name: expected text, got {type(self.name).__name__}")
        self._fit("inputs", fit_integers)
        super().__post_init__()

    def _title(self) -> str:
        return f"layer {self.name!r} ({type(self).__name__})" if self.name else f"a layer of kind {type(self).__name__}"

    def to_bytes(self) -> bytes:
        """The layer's part of the canonical bytes."""
        return integers(self.KIND, len(self.inputs), *self.inputs) + self.fields()

    def output_shape(self, *inputs: Shape) -> Shape:
        """(height, width, channels) of the tensor that the layer writes."""
        raise NotImplementedError

    @property
    def weight_count(self) -> int:
        """How many weights the layer has; each is a byte."""
        return 0


@dataclass(frozen=True, eq=False, repr=False)
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
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        Dims("weights", 4),
        Int("groups"),
        Ints("stride", 2),
        Ints("dilation", 2),
        Ints("pad", 4),
        Int("input_zero_point"),
        Nested("rescale", Rescale),
        Int("output_zero_point"),
        Ints("clamp", 2),
        Flag("wide"),
        Array("bias", "<i4", lambda sizes: sizes["weights"][:1]),
        Array("weights", "i1", lambda sizes: sizes["weights"]),
    )

    def output_shape(self, *inputs: Shape) -> Shape:
        kernel = self.weights.shape[1], self.weights.shape[2]
        height, width = _window(inputs[0], kernel, self.stride, self.pad, self.dilation)
        return height, width, self.weights.shape[0]

    @property
    def weight_count(self) -> int:
        return self.weights.size


@dataclass(frozen=True, eq=False, repr=False)
class Add(Layer):
    """`clamp((((a - za) * ma + (b - zb) * mb + (1 << (shift - 1))) >> shift) + zo)`, 32-bit inside, shift 2 .. 30.

    One input may have height = width = 1, and then stands for all places of the other.
    """

    multipliers: tuple[int, int]
    zero_points: tuple[int, int]
    shift: int
    output_zero_point: int
    clamp: tuple[int, int] = INT8
    KIND: ClassVar[int] = 2
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        Ints("multipliers", 2),
        Ints("zero_points", 2),
        Int("shift"),
        Int("output_zero_point"),
        Ints("clamp", 2),
    )

    def output_shape(self, *inputs: Shape) -> Shape:
        return _broadcast(*inputs)


@dataclass(frozen=True, eq=False, repr=False)
class MaxPool(Layer):
    """MAX_POOL2D: the largest code under the window; padding never wins."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    KIND: ClassVar[int] = 3
    LAYOUT: ClassVar[tuple[Part, ...]] = (Ints("kernel", 2), Ints("stride", 2), Ints("pad", 4))

    def output_shape(self, *inputs: Shape) -> Shape:
        return *_window(inputs[0], self.kernel, self.stride, self.pad), inputs[0][2]


@dataclass(frozen=True, eq=False, repr=False)
class AvgPool(Layer):
    """AVG_POOL2D with the specification's reciprocal_scale; padding is not counted."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    input_zero_point: int
    output_zero_point: int
    KIND: ClassVar[int] = 4
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        Ints("kernel", 2),
        Ints("stride", 2),
        Ints("pad", 4),
        Int("input_zero_point"),
        Int("output_zero_point"),
    )

    def output_shape(self, *inputs: Shape) -> Shape:
        return *_window(inputs[0], self.kernel, self.stride, self.pad), inputs[0][2]


@dataclass(frozen=True, eq=False, repr=False)
class Requantise(Layer):
    """RESCALE from int8 to int8 (one entry for all channels), then CLAMP."""

    input_zero_point: int
    rescale: Rescale
    output_zero_point: int
    clamp: tuple[int, int] = INT8
    KIND: ClassVar[int] = 5
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        Int("input_zero_point"),
        Nested("rescale", Rescale),
        Int("output_zero_point"),
        Ints("clamp", 2),
    )

    def output_shape(self, *inputs: Shape) -> Shape:
        return inputs[0]


@dataclass(frozen=True, eq=False, repr=False)
class Concat(Layer):
    """CONCAT along channels."""

    KIND: ClassVar[int] = 6

    def output_shape(self, *inputs: Shape) -> Shape:
        return inputs[0][0], inputs[0][1], sum(shape[2] for shape in inputs)


@dataclass(frozen=True, eq=False, repr=False)
class Pad(Layer):
    """PAD by a constant code."""

    pad: tuple[int, int, int, int]
    value: int
    KIND: ClassVar[int] = 7
    LAYOUT: ClassVar[tuple[Part, ...]] = (Ints("pad", 4), Int("value"))

    def output_shape(self, *inputs: Shape) -> Shape:
        (height, width, channels), (top, bottom, left, right) = inputs[0], self.pad
        return height + top + bottom, width + left + right, channels


@dataclass(frozen=True, eq=False, repr=False)
class ConvDouble(Conv):
    """A Conv of which RESCALE rounds twice: CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED of TFLite."""

    KIND: ClassVar[int] = 8
    ROUNDS_TWICE: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, repr=False)
class RequantiseDouble(Requantise):
    """A Requantise that rounds twice: QUANTIZE of TFLite, from int8 to int8."""

    KIND: ClassVar[int] = 9
    ROUNDS_TWICE: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, repr=False)
class CodeTable(Layer):
    """TABLE: any function of a code. The result of code c is `table[c + 128]`."""

    table: Int8
    KIND: ClassVar[int] = 10
    LAYOUT: ClassVar[tuple[Part, ...]] = (Array("table", "i1", lambda _: (256,)),)

    def output_shape(self, *inputs: Shape) -> Shape:
        return inputs[0]


@dataclass(frozen=True, eq=False, repr=False)
class Mul(Layer):
    """MUL of two tensors: RESCALE (one entry) of `(a - za) * (b - zb)`, then output zero point and CLAMP.

    RESCALE rounds once, or twice if `twice`. One input may have height = width = 1, and then stands for all places of
    the other.
    """

    zero_points: tuple[int, int]
    rescale: Rescale
    output_zero_point: int
    clamp: tuple[int, int] = INT8
    twice: bool = False
    KIND: ClassVar[int] = 11
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        Ints("zero_points", 2),
        Nested("rescale", Rescale),
        Int("output_zero_point"),
        Ints("clamp", 2),
        Flag("twice"),
    )

    def output_shape(self, *inputs: Shape) -> Shape:
        return _broadcast(*inputs)


@dataclass(frozen=True, eq=False, repr=False)
class ScaledAdd(Layer):
    """ADD or, with `subtract`, SUB of TFLite: each input is rescaled to a common scale, and then their sum is.

    `clamp(D(D((a - za) << left_shift; rescale_a) + D((b - zb) << left_shift; rescale_b); rescale_sum) + zo)`, where D
    is RESCALE with two roundings by one entry, and left_shift is in 0 .. 22 (20 in TFLite). One input may have height =
    width = 1, and then stands for all places of the other.
    """

    zero_points: tuple[int, int]
    left_shift: int
    rescale_a: Rescale
    rescale_b: Rescale
    rescale_sum: Rescale
    output_zero_point: int
    clamp: tuple[int, int] = INT8
    subtract: bool = False
    KIND: ClassVar[int] = 12
    ROUNDS_TWICE: ClassVar[bool] = True
    LAYOUT: ClassVar[tuple[Part, ...]] = (
        Ints("zero_points", 2),
        Int("left_shift"),
        Nested("rescale_a", Rescale),
        Nested("rescale_b", Rescale),
        Flag("subtract"),
        Nested("rescale_sum", Rescale),
        Int("output_zero_point"),
        Ints("clamp", 2),
    )

    def output_shape(self, *inputs: Shape) -> Shape:
        return _broadcast(*inputs)


def _all_of_them() -> Int32:
    return np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class Gather(Layer):
    """Rows, columns and channels in another order, left out or repeated: slices, flips, shuffles, repetition.

    The code at (y, x, c) is that of the input at (rows[y], columns[x], channels[c]); a list without entries, the
    default, stands for all of them in order.
    """

    rows: Int32 = field(default_factory=_all_of_them)
    columns: Int32 = field(default_factory=_all_of_them)
    channels: Int32 = field(default_factory=_all_of_them)
    KIND: ClassVar[int] = 13
    LAYOUT: ClassVar[tuple[Part, ...]] = (*_int32s("rows"), *_int32s("columns"), *_int32s("channels"))

    def output_shape(self, *inputs: Shape) -> Shape:
        height, width, channels = inputs[0]
        return len(self.rows) or height, len(self.columns) or width, len(self.channels) or channels


def _all_kinds(kind: type[Layer]) -> Iterator[type[Layer]]:
    for derived in kind.__subclasses__():
        yield derived
        yield from _all_kinds(derived)


KINDS: dict[int, type[Layer]] = {kind.KIND: kind for kind in _all_kinds(Layer)}  # by their number in the bytes


def read_layer(source: Source, name: str = "") -> Layer:
    """The next layer in canonical bytes."""
    kind, count = source.integers(2)
    return KINDS[kind].read(source, inputs=source.integers(count), name=name)


def _broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of two tensors of which one may be a single pixel."""
    return b if a[:2] == (1, 1) else a


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
