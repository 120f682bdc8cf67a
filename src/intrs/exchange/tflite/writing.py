"""TFLite files written: a flatbuffer of the tables in `schema`, and a graph of tensors and operators above it.

The graph writes what it is told and checks nothing but names, so that tests can write what no exporter would.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from intrs.exchange.tflite.schema import (
    BUILTIN,
    BUILTIN_LATER,
    IDENTIFIER,
    OPTIONS,
    TABLES,
    VERSION,
    TensorType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

Values = dict[str, Any]  # of a table: by field; tables and vectors of tables as Values and lists of them
ALIGNMENT = 16  # of the bytes of buffers, as the schema demands
POINTER = 4
TYPES = {"i1": TensorType.INT8, "u1": TensorType.UINT8, "i2": TensorType.INT16, "i4": TensorType.INT32,
         "i8": TensorType.INT64, "f4": TensorType.FLOAT32, "b1": TensorType.BOOL}  # fmt: skip

OPTIONS_OF = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "RESHAPE": "ReshapeOptions",
    "SQUEEZE": "SqueezeOptions",
    "CONCATENATION": "ConcatenationOptions",
    "SOFTMAX": "SoftmaxOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "GELU": "GeluOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "PACK": "PackOptions",
    "GATHER": "GatherOptions",
    "SHAPE": "ShapeOptions",
    "ARG_MAX": "ArgMaxOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "SPLIT": "SplitOptions",
}  # the table of an operator's options; others have none
VERSIONS = {
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    **dict.fromkeys(("ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "PAD", "CONCATENATION"), 2),
    **dict.fromkeys(("SOFTMAX", "LOGISTIC", "TANH", "DEQUANTIZE", "LEAKY_RELU", "RELU", "RELU6", "PADV2"), 2),
    **dict.fromkeys(("ARG_MAX", "QUANTIZE", "SPLIT", "STRIDED_SLICE", "RESIZE_NEAREST_NEIGHBOR"), 2),
}  # of the operators with 8-bit integers; others 1


class Scale(NamedTuple):
    """How codes stand for numbers: one scale, or one per index along an axis."""

    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int = 0


@dataclass
class Graph:
    """Tensors and operators, as they will stand in the file."""

    tensors: list[Values] = field(default_factory=list)
    operators: list[Values] = field(default_factory=list)
    codes: list[Values] = field(default_factory=list)
    buffers: list[Values] = field(default_factory=lambda: [{}])  # the first one is empty, for tensors without data

    def tensor(self, shape: Sequence[int], kind: str = "i1", scale: Scale | None = None, name: str = "") -> int:
        """A tensor that an operator writes, or an input; kind is a type of NumPy. Returns its number."""
        made: Values = {"shape": np.array(shape, np.int32), "type": int(TYPES[np.dtype(kind).str[1:]])}
        made["name"] = name or f"tensor{len(self.tensors)}"
        if scale is not None:
            zeros = np.array(scale.zeros, np.int64)
            made["quantization"] = {"scale": np.array(scale.scales, np.float32), "zero_point": zeros}
            made["quantization"]["quantized_dimension"] = scale.axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, values: Any, kind: str = "i4", scale: Scale | None = None, name: str = "") -> int:
        """A tensor whose values stand in the file."""
        array = np.asarray(values, np.dtype(kind).newbyteorder("<"))
        number = self.tensor(array.shape, kind, scale, name)
        self.tensors[number]["buffer"] = self._buffer(array.tobytes())
        return number

    def operator(self, name: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> None:
        """An operator between tensors; an input of -1 is left out."""
        made: Values = {"opcode_index": self._code(name)}
        made |= {"inputs": np.array(inputs, np.int32), "outputs": np.array(outputs, np.int32)}
        if name in OPTIONS_OF:
            made["builtin_options_type"] = OPTIONS[OPTIONS_OF[name]]
            made["builtin_options"] = (OPTIONS_OF[name], options)
        self.operators.append(made)

    def to_bytes(
        self, inputs: Sequence[int], outputs: Sequence[int], metadata: Mapping[str, bytes] | None = None
    ) -> bytes:
        """The file."""
        noted = [{"name": name, "buffer": self._buffer(data)} for name, data in (metadata or {}).items()]
        graph: Values = {"tensors": self.tensors, "operators": self.operators, "name": "main"}
        graph |= {"inputs": np.array(inputs, np.int32), "outputs": np.array(outputs, np.int32)}
        model: Values = {"version": VERSION, "operator_codes": self.codes, "subgraphs": [graph]}
        model |= {"description": "written by intrs", "buffers": self.buffers, "metadata": noted}
        return flatbuffer(model)

    def _buffer(self, data: bytes) -> int:
        self.buffers.append({"data": np.frombuffer(data, np.uint8)})
        return len(self.buffers) - 1

    def _code(self, name: str) -> int:
        """The index of an operator among those that the file uses."""
        number = BUILTIN[name]
        code = {"deprecated_builtin_code": min(number, BUILTIN_LATER), "builtin_code": number}
        code["version"] = VERSIONS.get(name, 1)
        if code not in self.codes:
            self.codes.append(code)
        return self.codes.index(code)


def flatbuffer(model: Values) -> bytes:
    """The bytes of a Model, identifier and all."""
    writer = _Writer()
    writer.data += bytes(POINTER) + IDENTIFIER
    writer.point(0, writer.table("Model", model))
    return bytes(writer.data)


class _Writer:
    """Writes from front to back: a table first, then what it points to, so that all pointers lead forwards."""

    def __init__(self) -> None:
        self.data = bytearray()

    def table(self, kind: str, values: Values) -> int:
        """Write a table and all below it; its position."""
        fields = TABLES[kind]
        inline = {name: _inline(fields[name].kind) for name in values}
        order = sorted(values, key=lambda name: -np.dtype(inline[name]).itemsize)
        offsets, size = {}, POINTER  # from the start of the table, after the pointer to its layout
        for name in order:
            width = np.dtype(inline[name]).itemsize
            offsets[name] = size = -(-size // width) * width
            size += width
        start = self._layout({fields[name].number: offset for name, offset in offsets.items()}, size)
        for name in order:
            if not _is_pointer(fields[name].kind):
                at = start + offsets[name]
                self._put(at, np.array(values[name], inline[name]).tobytes())
        for name in values:
            if _is_pointer(fields[name].kind):
                self.point(start + offsets[name], self._target(fields[name].kind, values[name]))
        return start

    def point(self, at: int, target: int) -> None:
        """Write a pointer."""
        self._put(at, struct.pack("<I", target - at))

    def _layout(self, offsets: dict[int, int], size: int) -> int:
        """Where the fields of a table stand, then room for the table at a multiple of 8; its position."""
        count = max(offsets, default=-1) + 1
        words = [4 + 2 * count, size, *(offsets.get(number, 0) for number in range(count))]
        self._align(2)
        layout = len(self.data)
        self.data += struct.pack(f"<{len(words)}H", *words)
        self._align(8)
        start = len(self.data)
        self.data += bytes(size)
        self._put(start, struct.pack("<i", start - layout))
        return start

    def _target(self, kind: str, value: Any) -> int:
        if kind == "text":
            return self._vector(np.frombuffer(value.encode() + b"\0", np.uint8), 1, len(value.encode()))
        if kind == "options":
            return self.table(*value)
        if not kind.startswith("["):
            return self.table(kind, value)
        item = kind[1:-1]
        if item in TABLES:
            return self._tables(item, value)
        array = np.ascontiguousarray(value, item)
        return self._vector(array, ALIGNMENT if item == "u1" else array.itemsize, len(array))

    def _vector(self, array: NDArray[Any], alignment: int, count: int) -> int:
        self._align(max(alignment, POINTER), POINTER)
        start = len(self.data)
        self.data += struct.pack("<I", count) + array.tobytes()
        return start

    def _tables(self, kind: str, items: Sequence[Values]) -> int:
        self._align(POINTER)
        start = len(self.data)
        self.data += struct.pack("<I", len(items)) + bytes(POINTER * len(items))
        for i, item in enumerate(items):
            self.point(start + POINTER * (1 + i), self.table(kind, item))
        return start

    def _align(self, to: int, ahead: int = 0) -> None:
        """Fill up until the byte `ahead` of the next one stands at a multiple."""
        self.data += bytes(-(len(self.data) + ahead) % to)

    def _put(self, at: int, data: bytes) -> None:
        self.data[at : at + len(data)] = data


def _is_pointer(kind: str) -> bool:
    return kind in ("text", "options") or kind.startswith("[") or kind in TABLES


def _inline(kind: str) -> str:
    """What of a field stands in the table itself."""
    return "<u4" if _is_pointer(kind) else kind
