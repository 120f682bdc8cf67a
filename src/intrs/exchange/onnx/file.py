"""The frame of an ONNX file that nobody vouches for: one graph with one image input and one output, constants, nodes.

Nothing here trusts the file. Sizes are checked before memory is taken, and whatever is malformed becomes a `Refusal`,
which `read_onnx` turns into a ModelError with the file's name.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from intrs.exchange.onnx.tensors import exact, external_size, text
from intrs.exchange.onnx.wire import check_wire
from intrs.exchange.refusal import Refusal, shortened
from intrs.exchange.regular import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction
    from pathlib import Path

    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

T = TypeVar("T")
MAX_NODES = 20_000
MAX_BATCH = 2**16
MAX_LIST = 64  # integers of an attribute
OPSETS = range(10, 27)  # QuantizeLinear exists since 10; 26 is the newest that was read for this
DOMAINS = ("", "ai.onnx", "com.microsoft")
CODES = ("uint8", "int8")  # types of an input that takes codes: the pixel, or the pixel less 128
DYNAMIC = ("DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat")


@dataclass(frozen=True, eq=False)
class Node:
    """One operation of the graph, with typed access to its attributes."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, AttributeProto]

    def __str__(self) -> str:
        name = shortened(self.name)
        return f"node {name!r} ({shortened(self.op)})" if self.op else f"input {name!r}"

    def integer(self, name: str, default: int) -> int:
        """An attribute that is one integer."""
        attribute = self._attribute(name, 2)
        return default if attribute is None else attribute.i

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers; None if it is absent."""
        attribute = self._attribute(name, 7)
        if attribute is not None and len(attribute.ints) > MAX_LIST:
            raise Refusal(f"attribute {name!r} has {len(attribute.ints)} numbers")
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
    size: int  # of the file and its external data, in bytes

    @property
    def is_quantized(self) -> bool:
        """Whether any node quantizes."""
        return any("QuantizeLinear" in node.op or node.op.startswith(("QLinear", "QGemm")) for node in self.nodes)


def read_graph(path: Path) -> Graph:
    """Read and check the file's frame. Raises Refusal."""
    return parse_graph(read_whole(path), path.parent)


def parse_graph(data: bytes, folder: Path) -> Graph:
    """Check the frame of a file of this folder; constants stay encoded until they are needed."""
    model = _parse(data)
    _check_model(model)
    graph = model.graph
    constants = _unique(((text(t.name), t) for t in graph.initializer), "initializer")
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
        metadata={text(entry.key): text(entry.value) for entry in model.metadata_props},
        folder=folder,
        produced=frozenset(producers),
        size=len(data) + external_size([*constants.values(), *_inner_tensors(nodes)], folder),
    )


def _inner_tensors(nodes: Iterable[Node]) -> Iterator[TensorProto]:
    """Constants that nodes hold themselves."""
    return (attribute.t for node in nodes for attribute in node.attributes.values() if attribute.HasField("t"))


def _parse(data: bytes) -> ModelProto:
    import onnx  # here, because it takes a tenth of a second and most runs never need it

    decode_error = importlib.import_module("google.protobuf.message").DecodeError

    check_wire(data)
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
        op=text(proto.op_type),
        name=text(proto.name or next(filter(None, proto.output), "")),
        inputs=tuple(map(text, proto.input)),
        outputs=tuple(map(text, proto.output)),
        attributes={text(attribute.name): attribute for attribute in proto.attribute},
    )
    if proto.domain in DOMAINS:
        return node
    if any(f.name == proto.op_type and f.domain == proto.domain for f in model.functions):
        raise Refusal("it calls a function of the model; inline it with onnx.inliner.inline_local_functions", node)
    raise Refusal(f"its operator belongs to the unknown domain {proto.domain!r}", node)


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
    dtype = {1: "float", 10: "float", 11: "float", 2: "uint8", 3: "int8"}.get(tensor.elem_type, "")
    if not dtype:
        raise Refusal(f"its input {inputs[0].name!r} must be float, uint8 or int8 (data type {tensor.elem_type})")
    if len(tensor.shape.dim) > MAX_LIST:
        raise Refusal(f"its input {inputs[0].name!r} has {len(tensor.shape.dim)} axes")
    dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    if dims and dims[0] is not None and dims[0] > MAX_BATCH:
        raise Refusal(f"its input has a fixed batch of {dims[0]} images; at most {MAX_BATCH} are read")
    return text(inputs[0].name), dtype, dims


def _output(graph: GraphProto) -> str:
    if len(graph.output) != 1:
        raise Refusal(f"it has {len(graph.output)} outputs; intrs needs exactly one, the class scores")
    return text(graph.output[0].name)


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
