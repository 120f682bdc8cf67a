"""Small TFLite files that ask for much: each is a way to make a loader compute or allocate without end.

    python tests/hostile_tflite.py          # what each costs, in a process of its own

Every builder returns the bytes of a file; `hostile` says what a loader may take for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
from ai_edge_litert import schema_py_generated as schema  # type: ignore[import-untyped]
from hostile import Format
from tflite_files import File

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE: dict[str, Any] = {"fusedActivationFunction": 0}
SLIDING: dict[str, Any] = {"strideH": 1, "strideW": 1, **NONE}
INT4 = 17
MANY = 2**17  # entries of a list
LINKS = 1000  # tensors that one operator reads


def image(file: File, dims: tuple[int, ...], dtype: type = np.int8) -> int:
    return file.input(dims, 1.0, 0 if dtype is np.uint8 else -128, dtype)


def connected(file: File, number: int, depth: int, outputs: int = 3) -> bytes:
    """The file that ends with a FULLY_CONNECTED over so many codes."""
    weights = file.constant(np.full((outputs, depth), 3, np.int8), 0.01)
    last = file.tensor((1, outputs), 0.5, 0)
    file.add("FULLY_CONNECTED", [number, weights, -1], last, table="FullyConnectedOptions", **NONE)
    return file.to_bytes(last)


def moved(file: File, op: str, inputs: Sequence[int], dims: Sequence[int], **options: Any) -> int:
    """An operator that writes codes of the grid that the image has."""
    return file.add(op, inputs, file.tensor(dims, 1.0, -128), **options)


def ints(file: File, *values: int) -> int:
    return file.constant(np.array(values, np.int32))


def good() -> bytes:
    file = File()
    return connected(file, image(file, (1, 2, 2, 3)), 12)


TFLITE = Format(".tflite", good, {})
hostile = TFLITE.hostile

# ---- the frame: lists whose entries are one table -------------------------------------------------------------------


class Frame:
    """A file written table by table, so that many can be one."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(2**20)
        self.lists: dict[str, int] = {}

    def table(self, kind: str, **fields: int) -> int:
        """A table of the schema; offsets and numbers by the names of the generated code."""
        getattr(schema, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            getattr(schema, f"{kind}Add{name}")(self.builder, value)
        return int(getattr(schema, f"{kind}End")(self.builder))

    def text(self, content: str) -> int:
        return int(self.builder.CreateString(content))

    def tables(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def numbers(self, values: Any, kind: str = "<i4") -> int:
        return int(self.builder.CreateNumpyVector(np.asarray(values, kind)))

    def to_bytes(self, **lists: int) -> bytes:
        """The file, with a graph of nothing unless there is one in `lists`."""
        graph = lists.pop("SubGraph", None) or self.table("SubGraph")
        subgraphs = lists.pop("Subgraphs", None) or self.tables([graph])
        lists.setdefault("Buffers", self.tables([self.table("Buffer")]))
        model = self.table("Model", Version=3, Subgraphs=subgraphs, **lists)
        self.builder.Finish(model, b"TFL3")
        return bytes(self.builder.Output())


@hostile
def one_tensor_many_times() -> bytes:
    """A tensor with a long name."""
    frame = Frame()
    tensor = frame.table("Tensor", Name=frame.text("n" * 2**16))
    return frame.to_bytes(SubGraph=frame.table("SubGraph", Tensors=frame.tables([tensor] * MANY)))


@hostile
def wide_names() -> bytes:
    """As many names as a list may have, each with a letter that makes Python take four bytes for all of them."""
    frame = Frame()
    tensor = frame.table("Tensor", Name=frame.text("\U0001d49c" + "n" * 2**16))
    return frame.to_bytes(SubGraph=frame.table("SubGraph", Tensors=frame.tables([tensor] * 2**16)))


@hostile
def full_tensors() -> bytes:
    """As many tensors as a list may have, each with dimensions and scales."""
    frame = Frame()
    scales = {"Scale": frame.numbers([0.5], "<f4"), "ZeroPoint": frame.numbers([3], "<i8")}
    quantised = frame.table("QuantizationParameters", **scales)
    shape, name = frame.numbers([1000] * 8), frame.text("\U0001d49c" + "n" * 2**16)
    tensor = frame.table("Tensor", Name=name, Shape=shape, Quantization=quantised)
    tensors, buffers = frame.tables([tensor] * 2**16), frame.tables([frame.table("Buffer")] * 2**16)
    return frame.to_bytes(SubGraph=frame.table("SubGraph", Tensors=tensors), Buffers=buffers)


@hostile
def one_custom_operator_many_times() -> bytes:
    frame = Frame()
    code = frame.table("OperatorCode", BuiltinCode=32, CustomCode=frame.text("\U0001d49c" + "n" * 2**16))
    return frame.to_bytes(OperatorCodes=frame.tables([code] * 2**16))


@hostile
def notes_of_one_buffer() -> bytes:
    """Texts under many names, all of them the same 64 KB."""
    frame = Frame()
    names = [frame.text(f"intrs.{number}") for number in range(30_000)]
    notes = frame.tables([frame.table("Metadata", Name=name, Buffer=0) for name in names])
    buffer = frame.table("Buffer", Data=frame.numbers(np.full(2**16, 65), "u1"))
    ends, tensors = frame.numbers([0]), frame.tables([frame.table("Tensor")])
    graph = frame.table("SubGraph", Tensors=tensors, Inputs=ends, Outputs=ends)
    return frame.to_bytes(SubGraph=graph, Metadata=notes, Buffers=frame.tables([buffer]))


@hostile
def operators_of_one_table() -> bytes:
    """Operators that read a thousand tensors each, from one list."""
    frame = Frame()
    operator = frame.table("Operator", Inputs=frame.numbers(np.arange(LINKS)))
    tensors = frame.tables([frame.table("Tensor")] * LINKS)
    operators = frame.tables([operator] * 20_000)
    graph = frame.table("SubGraph", Tensors=tensors, Operators=operators)
    return frame.to_bytes(SubGraph=graph, OperatorCodes=frame.tables([frame.table("OperatorCode")]))


# ---- constants ------------------------------------------------------------------------------------------------------


def of_buffer(file: File, number: int, dims: Sequence[int], kind: int) -> int:
    """Another tensor that shows the bytes of a constant."""
    file.graph.tensors.append(schema.TensorT())
    made, source = file.graph.tensors[-1], file.graph.tensors[number]
    made.shape, made.type, made.name, made.buffer = list(dims), kind, "again", source.buffer
    made.quantization = source.quantization
    return len(file.graph.tensors) - 1


@hostile
def halves_of_bytes() -> bytes:
    """Constants of 4 bits, of one buffer, that an operator joins."""
    file = File()
    codes = image(file, (1, 1, 1, 4))
    source = file.constant(np.ones(2**22, np.int8), 0.5)
    others = [of_buffer(file, source, (2**23,), INT4) for _ in range(LINKS)]
    table = {"table": "ConcatenationOptions", "axis": 3, **NONE}
    return file.to_bytes(file.add("CONCATENATION", [codes, *others], file.tensor((1, 1, 1, 9), 1.0, 0), **table))


@hostile
def many_casts() -> bytes:
    """A constant of bytes as one of 64-bit integers, again and again."""
    file = File()
    codes = image(file, (1, 1, 1, 4))
    source = file.constant(np.ones(2**20, np.int8))
    wide = [file.add("CAST", [source], file.tensor((2**20,), dtype=np.int64)) for _ in range(LINKS)]
    return file.to_bytes(file.add("CONCATENATION", [codes, *wide], file.tensor((1, 1, 1, 9), 1.0, 0)))


@hostile
def one_constant_read_often() -> bytes:
    """A large constant that thousands of operators look through."""
    file = File()
    codes = image(file, (1, 1024, 1024, 4))
    large = file.constant(np.full((1, 1024, 1024, 4), 5, np.int8), 1.0, -128)
    for _ in range(6000):
        codes = moved(file, "MAXIMUM", [codes, large], (1, 1024, 1024, 4))
    return pooled(file, codes, (1, 1024, 1024, 4))


@hostile
def large_shape() -> bytes:
    """A RESHAPE to millions of axes, whose product has a hundred million bits."""
    file = File()
    options = {"table": "ReshapeOptions", "newShape": np.full(2**20, 2**31 - 1, np.int32)}
    return file.to_bytes(moved(file, "RESHAPE", [image(file, (1, 2, 2, 3))], (1, 12), **options))


# ---- weights --------------------------------------------------------------------------------------------------------


@hostile
def one_large_layer() -> bytes:
    file = File()
    return connected(file, image(file, (1, 128, 128, 16)), 2**18, 100)


@hostile
def far_rows() -> bytes:
    """Weights of nine bits with their rows far apart, which are written out."""
    file = File()
    codes = image(file, (1, 64, 1, 1024), np.uint8)
    values = np.zeros((256, 2, 1, 1024), np.uint8)
    values[0, 0, 0, :2] = 0, 255
    weights = file.constant(values, 0.01, 3)
    bias = file.constant(np.zeros(256, np.int32))
    options = {"table": "Conv2DOptions", "padding": 0, **SLIDING, "dilationHFactor": 8191, "dilationWFactor": 1}
    last = file.add("CONV_2D", [codes, weights, bias], file.tensor((1, 64, 1, 256), 0.5, 3, np.uint8), **options)
    return file.to_bytes(last)


@hostile
def rows_repeated_often() -> bytes:
    """The same with a small kernel over many rows, in thousands of layers."""
    file = File()
    codes = image(file, (1, 2**14, 1, 1), np.uint8)
    weights = file.constant(np.array([0, 255], np.uint8).reshape(1, 2, 1, 1), 0.01, 3)
    bias = file.constant(np.zeros(1, np.int32))
    for _ in range(4000):
        options = {"table": "Conv2DOptions", "padding": 0, **SLIDING}
        to = file.tensor((1, 2**14, 1, 1), 1.0, 3, np.uint8)
        codes = file.add("CONV_2D", [codes, weights, bias], to, **options)
    return file.to_bytes(codes)


@hostile
def far_and_wide() -> bytes:
    """A kernel of nine bits that reaches over sixty million rows."""
    file = File()
    codes = image(file, (1, 64, 1, 1), np.uint8)
    values = np.zeros((16, 8000, 1, 1), np.uint8)
    values[0, :2, 0, 0] = 0, 255
    weights, bias = file.constant(values, 0.01, 3), file.constant(np.zeros(16, np.int32))
    options = {"table": "Conv2DOptions", "padding": 0, **SLIDING, "dilationHFactor": 8000, "dilationWFactor": 1}
    last = file.add("CONV_2D", [codes, weights, bias], file.tensor((1, 64, 1, 16), 0.5, 3, np.uint8), **options)
    return file.to_bytes(last)


@hostile
def more_channels() -> bytes:
    """A PAD of channels: weights that the file does not hold."""
    file = File()
    codes = image(file, (1, 1, 1, 4096))
    options = {"table": "ConcatenationOptions", "axis": 3, **NONE}
    joined = moved(file, "CONCATENATION", [codes] * 12, (1, 1, 1, 49152), **options)
    pads = file.constant(np.array([[0, 0], [0, 0], [0, 0], [8192, 8192]], np.int32))
    return file.to_bytes(moved(file, "PAD", [joined, pads], (1, 1, 1, 65536)))


@hostile
def many_averages() -> bytes:
    """Means over a whole large image: weights of ones that the file does not hold."""
    file = File()
    codes, axes = image(file, (1, 1500, 1500, 3)), ints(file, 1, 2)
    keep = {"table": "ReducerOptions", "keepDims": True}
    means = [moved(file, "MEAN", [codes, axes], (1, 1, 1, 3), **keep) for _ in range(300)]
    options = {"table": "ConcatenationOptions", "axis": 3, **NONE}
    return file.to_bytes(moved(file, "CONCATENATION", means, (1, 1, 1, 900), **options))


# ---- views ----------------------------------------------------------------------------------------------------------


@hostile
def large_image_channels_first() -> bytes:
    file = File()
    codes = image(file, (1, 4, 4096, 4096))
    turned = moved(file, "TRANSPOSE", [codes, ints(file, 0, 2, 3, 1)], (1, 4096, 4096, 4), table="TransposeOptions")
    return pooled(file, turned, (1, 4096, 4096, 4))


def pooled(file: File, number: int, dims: tuple[int, ...]) -> bytes:
    """The file that ends with the largest codes of a whole image."""
    options = {"table": "Pool2DOptions", "padding": 1, "filterHeight": dims[1], "filterWidth": dims[2], **SLIDING}
    return file.to_bytes(moved(file, "MAX_POOL_2D", [number], (1, 1, 1, dims[3]), **options))


@hostile
def large_image_reshaped() -> bytes:
    """Rows, columns and channels in another order, which a layer must find out."""
    file = File()
    codes = image(file, (1, 8192, 2048, 4))
    return pooled(file, moved(file, "RESHAPE", [codes, ints(file, 1, 2048, 8192, 4)], (1, 2048, 8192, 4)), (1, 1, 1, 4))


@hostile
def large_image_reduced() -> bytes:
    """The largest over an axis of one: all places stay."""
    file = File()
    codes = image(file, (1, 8192, 8192, 1))
    return pooled(file, moved(file, "REDUCE_MAX", [codes, ints(file, 3)], (1, 8192, 8192)), (1, 8192, 8192, 1))


@hostile
def many_pieces() -> bytes:
    """A row of places cut in single ones, of which one is read."""
    file = File()
    codes = image(file, (1, 1024, 1024, 4))
    flat = moved(file, "RESHAPE", [codes, ints(file, 1, 2**22)], (1, 2**22))
    options = {"table": "SplitOptions", "numSplits": 2**22}
    return file.to_bytes(moved(file, "SPLIT", [ints(file, 1), flat], (1, 1), **options))


@hostile
def few_places_of_many() -> bytes:
    """A layer over some places of a large image: weights for all of them."""
    file = File()
    codes = image(file, (1, 1024, 1024, 4))
    flat = moved(file, "RESHAPE", [codes, ints(file, 2**22)], (2**22,))
    some = moved(file, "GATHER", [flat, ints(file, *range(0, 200, 2))], (100,), table="GatherOptions", axis=0)
    return connected(file, some, 100, 400)


@hostile
def one_view_reduced_often() -> bytes:
    """Means of a large image that was turned: whether it is a whole image is found out each time."""
    file = File()
    codes = image(file, (1, 512, 512, 4))
    turned = moved(file, "TRANSPOSE", [codes, ints(file, 0, 3, 2, 1)], (1, 4, 512, 512), table="TransposeOptions")
    axes, options = ints(file, 2, 3), {"table": "ReducerOptions", "keepDims": True}
    means = [moved(file, "REDUCE_MAX", [turned, axes], (1, 4, 1, 1), **options) for _ in range(LINKS)]
    flat = [moved(file, "RESHAPE", [mean, ints(file, 1, 1, 1, 4)], (1, 1, 1, 4)) for mean in means]
    return file.to_bytes(moved(file, "CONCATENATION", flat, (1, 1, 1, 4 * LINKS), table="ConcatenationOptions", axis=3))


if __name__ == "__main__":
    TFLITE.show()
