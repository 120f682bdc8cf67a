"""Reading an ONNX file that nobody vouches for: one graph with one image input and one output, constants, nodes.

Nothing here trusts the file. Sizes are checked before memory is taken, external data stays inside the model's folder,
and whatever is malformed becomes a `Refusal`, which `onnx_in.load` turns into an IntrsError with the file's name.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

    Array = NDArray[Any]

T = TypeVar("T")
MAX_FILE = 2**31
MAX_NODES = 100_000
MAX_ELEMENTS = 2**26
OPSETS = range(10, 27)  # QuantizeLinear exists since 10; 26 is the newest that was read for this
DOMAINS = ("", "ai.onnx", "com.microsoft")

# TensorProto.DataType -> NumPy type and the field that holds it when raw_data does not
_TYPES: dict[int, tuple[str, str]] = {
    1: ("<f4", "float_data"),
    2: ("u1", "int32_data"),
    3: ("i1", "int32_data"),
    4: ("<u2", "int32_data"),
    5: ("<i2", "int32_data"),
    6: ("<i4", "int32_data"),
    7: ("<i8", "int64_data"),
    9: ("?", "int32_data"),
    10: ("<f2", "int32_data"),
    11: ("<f8", "double_data"),
    12: ("<u4", "uint64_data"),
    13: ("<u8", "uint64_data"),
}


class Refusal(Exception):  # noqa: N818 (not an error of the program)
    """Why a file cannot become an integer network; `node` is the node to blame, if it is not the one being read."""

    def __init__(self, reason: str, node: Node | None = None) -> None:
        super().__init__(reason)
        self.node = node


@dataclass(frozen=True, eq=False)
class Node:
    """One operation of the graph, with typed access to its attributes."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, AttributeProto]

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.op})" if self.op else f"input {self.name!r}"

    def integer(self, name: str, default: int) -> int:
        """An attribute that is one integer."""
        attribute = self._attribute(name, 2)
        return default if attribute is None else attribute.i

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers; None if it is absent."""
        attribute = self._attribute(name, 7)
        return None if attribute is None else tuple(attribute.ints)

    def number(self, name: str, default: float) -> Fraction:
        """An attribute that is a float, exactly."""
        attribute = self._attribute(name, 1)
        return exact(default if attribute is None else attribute.f, f"attribute {name!r}")

    def text(self, name: str, default: str) -> str:
        """An attribute that is a string."""
        attribute = self._attribute(name, 3)
        return default if attribute is None else attribute.s.decode(errors="replace")

    def tensor(self, name: str) -> TensorProto | None:
        """An attribute that is a constant; None if it is absent."""
        attribute = self._attribute(name, 4)
        return None if attribute is None else attribute.t

    def _attribute(self, name: str, kind: int) -> AttributeProto | None:
        attribute = self.attributes.get(name)
        if attribute is not None and (attribute.type != kind or attribute.ref_attr_name):
            raise Refusal(f"attribute {name!r} has the wrong type")
        return attribute


@dataclass(frozen=True)
class Graph:
    """What the loader needs of a file: only nodes that lead to the output, in the file's order."""

    nodes: tuple[Node, ...]
    constants: dict[str, TensorProto]
    input: str
    input_dtype: str
    input_dims: tuple[int | None, ...]  # None: symbolic
    output: str
    metadata: dict[str, str]
    folder: Path
    produced: frozenset[str]


def exact(value: float, what: str) -> Fraction:
    """A float of the file as the exact rational it is."""
    if not isfinite(value):
        raise Refusal(f"{what} is {value}")
    return Fraction(value)


def read_graph(path: Path) -> Graph:
    """Read and check the file's frame; constants stay encoded until they are needed."""
    model = _parse(path)
    _check_model(model)
    graph = model.graph
    constants = _unique(((_text(t.name), t) for t in graph.initializer), "initializer")
    nodes = tuple(_node(proto, model) for proto in graph.node)
    producers = _unique(((name, node) for node in nodes for name in node.outputs if name), "output of a node")
    name, dtype, dims = _input(graph, constants)
    if clash := (producers.keys() & constants.keys()) | ({name} & producers.keys()):
        raise Refusal(f"the name {min(clash)!r} is given to two tensors")
    output = _output(graph)
    wanted = _wanted(output, producers)
    return Graph(
        nodes=tuple(node for node in nodes if node in wanted),
        constants=constants,
        input=name,
        input_dtype=dtype,
        input_dims=dims,
        output=output,
        metadata={_text(entry.key): _text(entry.value) for entry in model.metadata_props},
        folder=path.parent,
        produced=frozenset(producers),
    )


def to_array(tensor: TensorProto, folder: Path) -> Array:
    """The values of a constant, after checking that its bytes are as many as its dimensions say."""
    what = f"constant {tensor.name!r}"
    if tensor.data_type not in _TYPES:
        raise Refusal(f"{what} has an unsupported data type ({tensor.data_type})")
    kind, fieldname = _TYPES[tensor.data_type]
    dims = tuple(tensor.dims)
    count, dtype = prod(dims), np.dtype(kind)
    if any(d < 0 for d in dims) or count * dtype.itemsize > MAX_FILE or len(dims) > 8:
        raise Refusal(f"{what} has the impossible shape {dims}")
    if tensor.HasField("segment"):
        raise Refusal(f"{what} is stored in segments")
    if tensor.data_location == 1:
        values = np.frombuffer(_external(tensor, folder, what, count * dtype.itemsize), dtype)
    elif tensor.HasField("raw_data"):
        values = _from_raw(tensor.raw_data, dtype, count, what)
    else:
        values = _from_field(getattr(tensor, fieldname), dtype, count, what)
    return values.reshape(dims)


def _from_raw(raw: bytes, dtype: np.dtype[Any], count: int, what: str) -> Array:
    if len(raw) != count * dtype.itemsize:
        raise Refusal(f"{what} holds {len(raw)} bytes where its shape needs {count * dtype.itemsize}")
    return np.frombuffer(raw, dtype)


def _from_field(stored: Iterable[Any], dtype: np.dtype[Any], count: int, what: str) -> Array:
    values = np.array(stored)
    if values.size != count:
        raise Refusal(f"{what} holds {values.size} values where its shape needs {count}")
    if dtype.kind == "f" and dtype.itemsize == 2:
        return values.astype(np.uint16).view(dtype)  # the bits of a half, kept in integers
    if dtype.kind in "iu" and count and not (_within(values.min(), dtype) and _within(values.max(), dtype)):
        raise Refusal(f"{what} holds a value outside {dtype.name}")
    return values.astype(dtype)


def _within(value: Any, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= int(value) <= int(limits.max)


def _external(tensor: TensorProto, folder: Path, what: str, size: int) -> bytes:
    entries = {_text(entry.key): _text(entry.value) for entry in tensor.external_data}
    location = entries.get("location", "")
    inside, target = folder.resolve(), (folder / location).resolve()
    if not location or Path(location).is_absolute() or ".." in Path(location).parts or inside not in target.parents:
        raise Refusal(f"{what} is stored in {location!r}, which is not inside the model's folder")
    offset = _offset(entries.get("offset", "0"), what)
    if "length" in entries and _offset(entries["length"], what) != size:
        raise Refusal(f"{what} needs {size} bytes of external data, but its length says {entries['length']}")
    try:
        with target.open("rb") as file:
            file.seek(offset)
            data: bytes = file.read(size)
    except (OSError, OverflowError, ValueError) as error:
        raise Refusal(f"{what}: its external data {location!r} cannot be read ({error})") from None
    if len(data) != size:
        raise Refusal(f"{what}: its external data {location!r} ends too early")
    return data


def _offset(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Refusal(f"{what} has a malformed external data entry {text[:40]!r}")
    return int(text)


def _parse(path: Path) -> ModelProto:
    import onnx  # here, because it takes a tenth of a second and most runs never need it

    decode_error = importlib.import_module("google.protobuf.message").DecodeError

    try:
        size = path.stat().st_size
        if path.is_dir() or size == 0 or size > MAX_FILE:
            raise Refusal("it is a folder" if path.is_dir() else "it is empty" if size == 0 else "it exceeds 2 GB")
        data = path.read_bytes()
    except OSError as error:
        raise Refusal(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a path with a NUL in it
        raise Refusal(f"cannot be read: {error}") from None
    try:
        model: ModelProto = onnx.ModelProto.FromString(data)
    except (decode_error, UnicodeDecodeError) as error:
        raise Refusal(f"it is not an ONNX file, or it is truncated ({error})") from None
    return model


def _check_model(model: ModelProto) -> None:
    versions = [entry.version for entry in model.opset_import if entry.domain in DOMAINS[:2]]
    if not model.graph.node or not versions:
        raise Refusal("it is not an ONNX model: it holds no graph with nodes and an opset")
    if len(versions) != 1 or versions[0] not in OPSETS:
        raise Refusal(f"it uses opset {versions[0]}; intrs reads opsets {OPSETS[0]} to {OPSETS[-1]}")
    if model.graph.sparse_initializer:
        raise Refusal("it has sparse constants, which are not read; save them as ordinary ones")
    if len(model.graph.node) > MAX_NODES:
        raise Refusal(f"its graph has more than {MAX_NODES} nodes")


def _node(proto: NodeProto, model: ModelProto) -> Node:
    node = Node(
        op=_text(proto.op_type),
        name=_text(proto.name or next(filter(None, proto.output), "")),
        inputs=tuple(map(_text, proto.input)),
        outputs=tuple(map(_text, proto.output)),
        attributes={_text(attribute.name): attribute for attribute in proto.attribute},
    )
    if proto.domain in DOMAINS:
        return node
    if any(f.name == proto.op_type and f.domain == proto.domain for f in model.functions):
        raise Refusal("it calls a function of the model; inline it with onnx.inliner.inline_local_functions", node)
    raise Refusal(f"its operator belongs to the unknown domain {proto.domain!r}", node)


def _text(value: object) -> str:
    """A string of the file; protobuf hands out bytes where they are not UTF-8."""
    if not isinstance(value, str):
        raise Refusal(f"it is damaged: {value!r} is not text")
    return value


def _unique(pairs: Iterable[tuple[str, T]], what: str) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise Refusal(f"the name {name!r} is given to two tensors (each an {what})")
        found[name] = value
    return found


def _input(graph: GraphProto, constants: dict[str, TensorProto]) -> tuple[str, str, tuple[int | None, ...]]:
    inputs = [entry for entry in graph.input if entry.name not in constants]
    if len(inputs) != 1:
        raise Refusal(f"it has {len(inputs)} inputs; intrs needs exactly one, the image")
    tensor = inputs[0].type.tensor_type
    dtype = {1: "float", 10: "float", 11: "float", 2: "uint8"}.get(tensor.elem_type, "")
    if not dtype:
        raise Refusal(f"its input {inputs[0].name!r} must be float or uint8 (data type {tensor.elem_type})")
    dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    return _text(inputs[0].name), dtype, dims


def _output(graph: GraphProto) -> str:
    if len(graph.output) != 1:
        raise Refusal(f"it has {len(graph.output)} outputs; intrs needs exactly one, the class scores")
    return _text(graph.output[0].name)


def _wanted(output: str, producers: dict[str, Node]) -> set[Node]:
    """The nodes on which the output depends; a walk that a cycle cannot trap."""
    wanted: set[Node] = set()
    names = [output]
    while names:
        node = producers.get(names.pop())
        if node is not None and node not in wanted:
            wanted.add(node)
            names.extend(node.inputs)
    return wanted
