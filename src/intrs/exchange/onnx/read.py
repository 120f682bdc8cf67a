"""From a quantized ONNX file to an integer network.

The graph is read once, in its order. `file` opens it without trusting it (`wire` looks at its bytes first, `tensors`
reads its constants); `values` says what a tensor can be meanwhile; `operators` say what each operator does;
`activations` and `product` make layers once scales are known. Turning scales into integers (`exchange.integers`) and
the network that is being written (`exchange.builder`) are the same for every kind of file. `docs/onnx.md` lists what
is accepted and what is refused, and why.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

from intrs.exchange.budget import Budget
from intrs.exchange.builder import Builder
from intrs.exchange.convention import METADATA, SCALES, Convention, PixelScale
from intrs.exchange.modelfile import ModelFile
from intrs.exchange.onnx.activations import Image
from intrs.exchange.onnx.file import CODES, DYNAMIC, Graph, Node, parse_graph
from intrs.exchange.onnx.operators import OPERATORS, Inputs, Operator
from intrs.exchange.onnx.operators.quantize import check_scales
from intrs.exchange.onnx.product import Product
from intrs.exchange.onnx.tensors import to_array
from intrs.exchange.onnx.values import FLAT, NCHW, NHWC, Axes, Kind, Value, View, size_of
from intrs.exchange.refusal import ADVICE, TRANSFORMER, Refusal, refusals_of, shortened
from intrs.network import INT8

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from intrs.network import Network

MAX_INPUT_CHANNELS = 4096
TAIL = (
    "Softmax",
    "LogSoftmax",
    "ArgMax",
    "QLinearSoftmax",
    "Sigmoid",
    "QLinearSigmoid",
)  # the largest score stays where it is
ONLY_LAST = "it is supported only as the last step of the graph, where it is dropped"
AROUND_TAIL = ("QuantizeLinear", "DequantizeLinear", "Identity", "Cast")
BEFORE_LAYOUT = (*AROUND_TAIL, "Add", "Sub", "Mul", "Div", "Clip")
NORMALISED = ("LayerNormalization", "RMSNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization")
ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention", "Softmax")
PER_IMAGE = ("InstanceNormalization", "GroupNormalization", "LpNormalization", "MeanVarianceNormalization")
WITH_WEIGHTS = ("Conv", "Gemm", "MatMul")


class Lowered(NamedTuple):
    """An integer network, and what the file's input was taken for: unit or byte."""

    network: Network
    pixel_scale: str


@dataclass(frozen=True, eq=False)
class OnnxFile(ModelFile):
    """An ONNX file, read and parsed once."""

    path: Path
    data: bytes
    graph: Graph

    @property
    def metadata(self) -> dict[str, str]:  # noqa: D102 (as inherited)
        return self.graph.metadata

    @property
    def is_quantized(self) -> bool:  # noqa: D102 (as inherited)
        return self.graph.is_quantized

    def pixel_scale(self, convention: Convention) -> str:  # noqa: D102 (as inherited)
        if self.is_quantized:
            return self.lowered(convention).pixel_scale
        return convention.scale if convention.scale != "auto" else self.metadata.get(METADATA, "")

    def network(self, convention: Convention) -> Network:  # noqa: D102 (as inherited)
        return self.lowered(convention).network

    @cached_property
    def lowered(self) -> Callable[[Convention], Lowered]:
        """The file as integers, lowered once per convention."""
        return lru_cache(maxsize=8)(self._lower)

    def _lower(self, convention: Convention) -> Lowered:
        with refusals_of(self.path):
            return lower(self.graph, convention)


def read_onnx(path: Path, data: bytes) -> OnnxFile:
    """Parse the bytes of an ONNX file. Raises ModelError."""
    with refusals_of(path):
        return OnnxFile(path, data, parse_graph(data, path.parent))


def lower(graph: Graph, convention: Convention) -> Lowered:
    """The integer network of a graph. Raises Refusal, or ModelError if the finished network could overflow."""
    _refuse_float_model(graph)
    end, tail = _end(graph)
    _refuse_transformer(graph, tail)
    net = Builder(_resolved(graph, convention), Budget(graph.size))
    scores = _evaluate(graph, end, net)
    network = net.network(_scores(net, scores, tail))
    _ = network.native  # the core proves now that nothing can overflow
    return Lowered(network, net.pixel_scale)


def _refuse_float_model(graph: Graph) -> None:
    signs = (*DYNAMIC, "QuantizeLinear", "DequantizeLinear", "QLinear", "QGemm")
    if any(node.op.startswith(signs) for node in graph.nodes):
        return
    layers = [node for node in graph.nodes if node.op in WITH_WEIGHTS] or list(graph.nodes)
    first = f" (the first is {layers[0]})" if layers else ""
    classical = "or certify it with noise 'continuous', in floats (docs/baselines.md)"
    raise Refusal(f"it is a float model: none of its layers{first} is quantised; {ADVICE}, {classical}")


def _refuse_transformer(graph: Graph, tail: list[Node]) -> None:
    """Say so at once: where such a file fails first would be a matter of chance."""
    for node in graph.nodes:
        if node.op in NORMALISED + ATTENTION and node not in tail:
            raise Refusal(TRANSFORMER, node)


def _resolved(graph: Graph, asked: Convention) -> Convention:
    """The convention with what the file says itself."""
    scale: str = asked.scale
    if scale == "auto":
        scale = graph.metadata.get(METADATA, "byte" if graph.input_dtype in CODES else "auto")
        if scale not in SCALES:
            raise Refusal(f"its metadata {METADATA} is {scale!r}; it must be 'unit' or 'byte'")
    found = replace(asked, scale=cast("PixelScale", scale))
    if graph.input_dtype in CODES and found != Convention("byte"):
        raise Refusal(f"its input is {graph.input_dtype}, so pixels must be 'byte', without mean and std")
    return found


def _end(graph: Graph) -> tuple[str, list[Node]]:
    """The name of the class scores, and the Softmax or ArgMax nodes behind them, which are dropped."""
    producers = {name: node for node in graph.nodes for name in node.outputs}
    name = end = graph.output
    tail: list[Node] = []
    passed: list[Node] = []
    for _ in graph.nodes:  # a bound that a cycle cannot escape
        node = producers.get(name)
        if node is None or not node.inputs or node.op not in TAIL + AROUND_TAIL:
            break
        name = node.inputs[0]
        passed.append(node)
        if node.op in TAIL:
            tail.append(node)
            end = name
            _check_order_is_kept(passed, graph)
            passed = []
    return end, tail


def _check_order_is_kept(dropped: list[Node], graph: Graph) -> None:
    """A quantizer that is dropped with a Softmax must not change the order of the scores."""
    for node in (node for node in dropped if node.op in AROUND_TAIL[:2]):
        held = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if held is None:
            raise Refusal("its scale is not a constant", node)
        scale = to_array(held, graph.folder)
        try:
            check_scales(scale)
        except Refusal as refusal:
            raise Refusal(str(refusal), node) from None
        if scale.size > 1:
            raise Refusal("it has several scales, which may change the order of the classes; give it one", node)


def _evaluate(graph: Graph, end: str, net: Builder) -> Value:
    """Read the nodes in their order up to the tensor `end`."""
    values: dict[str, Value] = {graph.input: _image(graph, net)}
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    for node in graph.nodes:
        if end in values:
            break
        try:
            inputs = [_lookup(name, values, graph, net) if name else None for name in node.inputs]
            found = _operator(node)(net, node, Inputs(inputs, graph.folder))
            for name, value in zip(node.outputs, found if isinstance(found, list) else [found], strict=False):
                values[name] = value
                net.budget.spend(0, size_of(value))
        except Refusal as refusal:
            raise Refusal(str(refusal), refusal.node or node) from None
        uses.subtract(node.inputs)
        for name in node.inputs:  # what nobody reads any more may be large
            if uses[name] <= 0 and name != end:
                values.pop(name, None)
    return _lookup(end, values, graph, net)


def _operator(node: Node) -> Operator:
    if node.op in OPERATORS:
        return OPERATORS[node.op]
    if node.op in TAIL:
        raise Refusal(ONLY_LAST)
    if node.op in PER_IMAGE:
        raise Refusal("it divides by a deviation that depends on the image; use BatchNormalization")
    if node.op in DYNAMIC:
        raise Refusal("its scales depend on the data (dynamic quantisation); use static quantisation, with calibration")
    reason = f"the operator {shortened(node.op)} is not supported: no layer of an intrs network computes it"
    raise Refusal(f"{reason} (docs/onnx.md lists those that are); replace it in the model and export that again")


def _lookup(name: str, values: dict[str, Value], graph: Graph, net: Builder) -> Value:
    if name not in values and name in graph.constants:
        values[name] = to_array(graph.constants[name], graph.folder)
        net.budget.spend(0, size_of(values[name]))
    if name in values:
        return values[name]
    if name in graph.produced:
        raise Refusal(f"it reads {name!r}, which is computed later or never (a cycle, or a second output)")
    raise Refusal(f"it reads {name!r}, which nothing computes")


def _image(graph: Graph, net: Builder) -> View:
    """The graph's input: one image, or a batch of them."""
    batch, *sizes = graph.input_dims or (None,)
    if len(sizes) not in (1, 3) or None in sizes:
        shown = ", ".join("?" if size is None else str(size) for size in graph.input_dims)
        raise Refusal(
            f"its input {graph.input!r} has the shape ({shown}); intrs needs (batch, channels, height, width) or "
            "(batch, features), all but the batch fixed (onnxruntime.tools.make_dynamic_shape_fixed can fix them)"
        )
    known = [size for size in sizes if size is not None]
    axes = FLAT if len(known) == 1 else _input_axes(graph)
    named = dict(zip((axis[0] for axis in axes[1:]), known, strict=True))
    shape = named.get("h", 1), named.get("w", 1), named["c"]
    node = Node("", graph.input, (), (), {})
    _check_input(net.pixels, shape[2], batch)
    kind: Kind = "uint8" if graph.input_dtype == "uint8" else "int8" if graph.input_dtype == "int8" else "real"
    ones = (Fraction(1),) * shape[2]
    offsets = (Fraction(INT8[0] if kind == "int8" else 0),) * shape[2]  # int8 takes the pixel less 128
    view = View(Image(node, shape, ones, offsets), axes, batch or 1, kind)
    return view.of(view.source)


def _check_input(pixels: Convention, channels: int, batch: int | None) -> None:
    if not 1 <= channels <= MAX_INPUT_CHANNELS or (batch is not None and batch < 1):
        raise Refusal(f"its input has {channels} channels and batch {batch}; at most {MAX_INPUT_CHANNELS} channels fit")
    if misfit := pixels.misfit(channels):
        raise Refusal(misfit)


def _input_axes(graph: Graph) -> Axes:
    """Channels come second, unless a Transpose from (batch, height, width, channels) stands before the first layer."""
    names = {graph.input}
    for node in graph.nodes:
        if names.isdisjoint(node.inputs):
            continue
        perm = node.attributes.get("perm")
        if node.op == "Transpose" and perm is not None and tuple(perm.ints) == (0, 3, 1, 2):
            return NHWC
        if node.op in BEFORE_LAYOUT:
            names.update(node.outputs)
    return NCHW


def _scores(net: Builder, value: Value, tail: list[Node]) -> int:
    """The tensor of class scores."""
    if not isinstance(value, View):
        raise Refusal("its output does not depend on the image")
    features = value.features()
    if value.source.shape[:2] != (1, 1) or features is None:
        raise Refusal(f"its output has the shape {value.dims}; intrs needs one score per class: a classifier")
    if value.source.shape[2] < 2:
        raise Refusal("its output is one score, which would be one class that always wins; give it two")
    for node in tail:
        _check_tail(node, features[0], len(value.axes), is_last=node is tail[0])
    source = value.source
    if isinstance(source, Product):
        return source.wide(net)
    if source.grid is None:
        raise Refusal(f"its output, from {source.node}, is not quantised; {ADVICE}")
    return source.on(net, source.grid)


def _check_tail(node: Node, classes: int, rank: int, *, is_last: bool) -> None:
    """A Softmax or ArgMax may be dropped if it runs over the classes; a Sigmoid has no axis."""
    if node.op.endswith("Sigmoid"):
        return
    if node.op == "ArgMax" and not is_last:
        raise Refusal(ONLY_LAST, node)
    default = 0 if node.op == "ArgMax" else -1
    axis = node.integer("axis", default) % rank
    if axis != classes or node.integer("select_last_index", 0):
        raise Refusal("it does not run over the classes, or prefers the last of equals", node)
