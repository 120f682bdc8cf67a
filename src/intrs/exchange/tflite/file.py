"""The frame of a TFLite file that nobody vouches for: one subgraph with one image input and one output.

Nothing here trusts the file. Whatever is malformed becomes a `Refusal`, which `read_tflite` turns into a ModelError
with the file's name. Shapes of tensors between operators are not believed: the loader computes them itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.refusal import Refusal, shortened
from intrs.exchange.tflite.flatbuffer import FlatTable, root
from intrs.exchange.tflite.schema import BUILTIN_LATER, BUILTINS, OPTIONS, VERSION, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MAX_OPERATORS = 20_000
MAX_LINKS, MAX_ALL_LINKS = 1024, 2**18  # tensors that one operator reads or writes, and all operators
MAX_RANK = 8
OURS = "intrs."  # how the names of metadata begin that intrs writes
LONGEST_NOTE, MOST_NOTES = 2**16, 64  # bytes of one, and how many are kept: all of them can be of one buffer
ABSENT = -1  # in place of the number of an optional tensor
DTYPES: dict[int, str] = {
    TensorType.FLOAT32: "<f4",
    TensorType.INT32: "<i4",
    TensorType.UINT8: "u1",
    TensorType.INT64: "<i8",
    TensorType.BOOL: "?",
    TensorType.INT16: "<i2",
    TensorType.INT8: "i1",
}
CODES = (TensorType.INT8, TensorType.UINT8)


@dataclass(frozen=True, eq=False, slots=True)
class Quantization:
    """scale * (code - zero), one of each or one per entry of an axis, as the file has them."""

    scales: NDArray[np.float32]
    zeros: NDArray[np.int64]
    axis: int


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A tensor as the file describes it."""

    table: FlatTable
    type: int
    dims: tuple[int, ...]
    quantization: Quantization | None
    sparse: bool
    constant: NDArray[np.uint8] | None  # the bytes of its values, if the file holds them

    @property
    def name(self) -> str:
        """Its name, which is read when it is asked for: many tensors may share a long one."""
        return str(self.table["name"])

    @property
    def kind(self) -> str:
        """The name of its type, for messages."""
        return TensorType(self.type).name if self.type in set(TensorType) else f"type {self.type}"

    def array(self) -> NDArray[Any]:
        """The values of a constant. Raises Refusal."""
        assert self.constant is not None
        if self.sparse:
            raise Refusal(f"its tensor {shortened(self.name)!r} is sparse; convert the model without sparsity")
        if self.type == TensorType.INT4:
            return _nibbles(self.constant, self.dims)
        if self.type not in DTYPES:
            raise Refusal(f"its tensor {shortened(self.name)!r} holds {self.kind}, which is not read")
        dtype = np.dtype(DTYPES[self.type])
        if min(self.dims, default=1) < 0 or prod(self.dims) * dtype.itemsize != self.constant.size:
            raise Refusal(
                f"its tensor {shortened(self.name)!r} has the shape {self.dims}, but {self.constant.size} bytes"
            )
        return np.frombuffer(self.constant, dtype).reshape(self.dims)


@dataclass(frozen=True, eq=False)
class Operator:
    """One operation of the graph; inputs and outputs are numbers of tensors, ABSENT for one that is left out."""

    op: str
    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: FlatTable
    name: str

    def options(self, kind: str) -> FlatTable:
        """Its options; all are at their defaults if the file has none."""
        found = self.table["builtin_options_type"]
        if found not in (0, OPTIONS[kind]):
            raise Refusal("its options are those of another operator")
        return self.table.table("builtin_options", kind)

    def __str__(self) -> str:
        return f"operator {self.number} ({shortened(self.op)}), which writes {shortened(self.name)!r}"


@dataclass(frozen=True, eq=False)
class Graph:
    """What the loader needs of a file: only operators that lead to the output, in the file's order."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    input: int
    output: int
    size: int  # of the file, in bytes
    metadata: dict[str, str]  # what the file says of itself under names of intrs

    @property
    def is_quantized(self) -> bool:
        """Whether any operator writes codes."""
        return any(self.tensors[i].type in CODES for op in self.operators for i in op.outputs)


def parse_graph(data: bytes) -> Graph:
    """Check the frame of a file; constants stay as bytes until they are needed. Raises Refusal."""
    model = root(data, "Model")
    if model["version"] != VERSION:
        raise Refusal(f"it has version {model['version']} of the TFLite format; intrs reads version {VERSION}")
    subgraphs = model["subgraphs"]
    if not subgraphs:
        raise Refusal("it holds no graph")
    main = subgraphs[0]  # others are called by control flow, whose operators are refused
    contents = [_content(buffer, data) for buffer in model["buffers"]]
    tensors = tuple(_tensor(table, contents) for table in main["tensors"])
    operators = _operators(main["operators"], model["operator_codes"], tensors)
    inputs, outputs = _numbers(main["inputs"], len(tensors)), _numbers(main["outputs"], len(tensors))
    if len(inputs) != 1:
        raise Refusal(f"it has {len(inputs)} inputs; intrs needs exactly one, the image")
    if len(outputs) != 1:
        raise Refusal(f"it has {len(outputs)} outputs; intrs needs exactly one, the class scores")
    wanted = _wanted(outputs[0], operators)
    kept = tuple(op for op in operators if op.number in wanted)
    return Graph(tensors, kept, inputs[0], outputs[0], len(data), _metadata(model["metadata"], contents))


def _metadata(tables: list[FlatTable], contents: list[NDArray[np.uint8] | None]) -> dict[str, str]:
    """Texts under names that begin with "intrs."; other metadata is not read."""
    found: dict[str, str] = {}
    for table in tables:
        name, number = table["name"], table["buffer"]
        data = contents[number] if number < len(contents) else None
        if name.startswith(OURS) and data is not None and data.size <= LONGEST_NOTE:
            if len(found) == MOST_NOTES:
                raise Refusal(f"it has more than {MOST_NOTES} texts under names that begin with {OURS!r}")
            found[name] = data.tobytes().decode(errors="replace")
    return found


def _content(buffer: FlatTable, data: bytes) -> NDArray[np.uint8] | None:
    """The bytes of a buffer, inside the flatbuffer or behind it; None if it has none."""
    start, size = buffer["offset"], buffer["size"]
    if start > 1:  # 1 marks a place that a converter left open
        if start + size > len(data):
            raise Refusal("it is truncated: the data of a tensor lie outside of it")
        return np.frombuffer(data, np.uint8, size, start) if size else None
    inside: NDArray[np.uint8] = buffer["data"]
    return inside if inside.size else None


def _tensor(table: FlatTable, contents: list[NDArray[np.uint8] | None]) -> Tensor:
    dims, number = table["shape"], table["buffer"]
    if dims.size > MAX_RANK or number >= len(contents):
        raise Refusal(f"a tensor has {dims.size} axes or the buffer {number}, which does not exist")
    if table["external_buffer"]:
        raise Refusal("its weights lie in another file, which is not read; save the model as one file")
    return Tensor(
        table=table,
        type=table["type"],
        dims=tuple(int(size) for size in dims),
        quantization=_quantization(table["quantization"]),
        sparse=table["sparsity"] is not None,
        constant=contents[number],
    )


def _quantization(table: FlatTable | None) -> Quantization | None:
    if table is None or not table["scale"].size:
        return None
    scales, zeros = table["scale"], table["zero_point"]
    if table["details_type"] or zeros.size not in (0, 1, scales.size):
        raise Refusal("a tensor is quantised in blocks or by a custom scheme, which is not read")
    return Quantization(scales, zeros if zeros.size else np.zeros(1, np.int64), table["quantized_dimension"])


def _operators(tables: list[FlatTable], codes: list[FlatTable], tensors: tuple[Tensor, ...]) -> tuple[Operator, ...]:
    if len(tables) > MAX_OPERATORS:
        raise Refusal(f"its graph has more than {MAX_OPERATORS} operators")
    names = [_code(code) for code in codes]
    found: list[Operator] = []
    links = 0
    for number, table in enumerate(tables):
        found.append(_operator(table, number, names, tensors))
        links += len(found[-1].inputs) + len(found[-1].outputs)
        if links > MAX_ALL_LINKS:
            raise Refusal(f"its operators read and write more than {MAX_ALL_LINKS} tensors in all")
    written = [number for operator in found for number in operator.outputs if number != ABSENT]
    if len(written) != len(set(written)):
        raise Refusal("a tensor is written by two operators")
    return tuple(found)


def _code(table: FlatTable) -> str:
    """The name of an operator. Files from before 2020 have only the small field, which ends at 127."""
    old = table["deprecated_builtin_code"]
    number = table["builtin_code"] if old == BUILTIN_LATER else max(table["builtin_code"], old)
    if not 0 <= number < len(BUILTINS):
        return f"number {number}"
    return f"CUSTOM {shortened(table['custom_code'])}" if BUILTINS[number] == "CUSTOM" else BUILTINS[number]


def _operator(table: FlatTable, number: int, names: list[str], tensors: tuple[Tensor, ...]) -> Operator:
    index = table["opcode_index"]
    if index >= len(names):
        raise Refusal(f"operator {number} has the code {index}, which the file does not list")
    inputs, outputs = (_numbers(table[side], len(tensors)) for side in ("inputs", "outputs"))
    name = tensors[outputs[0]].name if outputs else ""
    return Operator(names[index], number, inputs, outputs, table, name)


def _numbers(values: NDArray[np.int32], count: int) -> tuple[int, ...]:
    """Numbers of tensors, each of which exists or is absent."""
    if values.size > MAX_LINKS or (values.size and not -1 <= int(values.min()) <= int(values.max()) < count):
        raise Refusal("an operator, or the graph, names a tensor that does not exist, or too many")
    return tuple(values.tolist())


def _wanted(output: int, operators: Iterable[Operator]) -> set[int]:
    """The numbers of the operators on which the output depends; a walk that a cycle cannot trap."""
    producers = {number: op for op in operators for number in op.outputs}
    wanted: set[int] = set()
    waiting = [output]
    while waiting:
        op = producers.get(waiting.pop())
        if op is not None and op.number not in wanted:
            wanted.add(op.number)
            waiting.extend(op.inputs)
    return wanted


def _nibbles(data: NDArray[np.uint8], dims: tuple[int, ...]) -> NDArray[np.int8]:
    """int4 values, two in a byte, the lower half first."""
    count = prod(dims)
    if min(dims, default=1) < 0 or data.size != (count + 1) // 2:
        raise Refusal(f"a tensor of int4 has the shape {dims}, but {data.size} bytes")
    halves: NDArray[np.int8] = np.stack((data << 4, data & 0xF0), axis=1).view(np.int8) >> 4
    return halves.reshape(-1)[:count].reshape(dims)
