"""From a quantized ONNX file to an integer network: `load`.

The graph is read once, in its order. `onnx_file` opens it without trusting it; `onnx_values` says what a tensor can be
meanwhile; `onnx_ops`, `onnx_shapes` and `onnx_qops` say what each operator does; `onnx_lower` makes layers once scales
are known, `onnx_arith` turns scales into integers, and `onnx_net` holds the network that is being written.
`docs/onnx.md` lists what is accepted and what is refused, and why.
"""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from intrs.errors import IntrsError
from intrs.exact import parse_fraction
from intrs.exchange import onnx_qops, onnx_shapes  # noqa: F401 (they enter their operators)
from intrs.exchange.onnx_file import Graph, Node, Refusal, read_graph, to_array
from intrs.exchange.onnx_lower import ADVICE, Image, Product
from intrs.exchange.onnx_net import Builder, Pixels
from intrs.exchange.onnx_ops import OPERATORS, Inputs, Operator
from intrs.exchange.onnx_values import FLAT, NCHW, NHWC, Axes, Value, View, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.network import Network

    Numbers = Sequence[float | str | Fraction] | float | str | Fraction
PixelScale = Literal["auto", "unit", "byte"]
METADATA = "intrs.pixels"  # a key of the file's metadata_props that says "unit" or "byte"
MAX_INPUT_CHANNELS = 4096
TAIL = ("Softmax", "LogSoftmax", "ArgMax", "QLinearSoftmax")  # the largest score stays where it is
AROUND_TAIL = ("QuantizeLinear", "DequantizeLinear", "Identity", "Cast")
BEFORE_LAYOUT = (*AROUND_TAIL, "Add", "Sub", "Mul", "Div", "Clip")
WITH_WEIGHTS = ("Conv", "Gemm", "MatMul")
DYNAMIC = ("DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat")


def load(
    path: str | os.PathLike[str],
    *,
    pixels: PixelScale = "auto",
    mean: Numbers | None = None,
    std: Numbers | None = None,
) -> Network:
    """Read an int8 or uint8 ONNX file (QDQ or QOperator form) and lower it to integers.

    `pixels` says what the file's input is for a pixel of 0 .. 255: itself ("byte") or a 255th of it ("unit"). "auto"
    takes the word of the file's metadata, else "byte" if the input is uint8 or its quantiser reaches 32 or more, else
    "unit". `mean` and `std` are for files that expect a normalised image, (value - mean) / std, and do not normalise
    it themselves.

    Raises IntrsError, naming file, node and reason, if the file cannot be read or means something that integers of
    8 bits cannot do.
    """
    try:
        return _load(Path(os.fspath(path)), pixels, mean, std)
    except Refusal as refusal:
        where = f"{refusal.node}: " if refusal.node else ""
        raise IntrsError(f"{os.fspath(path)}: {where}{refusal}") from None
    except IntrsError as error:  # of the core, about the finished network
        raise IntrsError(f"{os.fspath(path)}: {error}") from None


def _load(path: Path, pixels: PixelScale, mean: Numbers | None, std: Numbers | None) -> Network:
    graph = read_graph(path)
    _refuse_float_model(graph)
    end, tail = _end(graph)
    net = Builder(_pixels(graph, pixels, mean, std))
    scores = _evaluate(graph, end, net)
    network = net.network(_scores(net, scores, tail))
    _ = network.native  # the core proves now that nothing can overflow
    return network


def _refuse_float_model(graph: Graph) -> None:
    signs = (*DYNAMIC, "QuantizeLinear", "DequantizeLinear", "QLinear", "QGemm")
    if any(node.op.startswith(signs) for node in graph.nodes):
        return
    layers = [node for node in graph.nodes if node.op in WITH_WEIGHTS] or list(graph.nodes)
    first = f" (the first is {layers[0]})" if layers else ""
    raise Refusal(f"it is a float model: none of its layers{first} is quantised; {ADVICE}")


def _pixels(graph: Graph, scale: PixelScale, mean: Numbers | None, std: Numbers | None) -> Pixels:
    if scale not in ("auto", "unit", "byte"):
        raise Refusal(f"pixels must be 'auto', 'unit' or 'byte', not {scale!r}")
    if scale == "auto":
        told = graph.metadata.get(METADATA, "byte" if graph.input_dtype == "uint8" else "auto")
        if told not in ("auto", "unit", "byte"):
            raise Refusal(f"its metadata {METADATA} is {told!r}; it must be 'unit' or 'byte'")
        scale = told  # type: ignore[assignment]
    if graph.input_dtype == "uint8" and (scale != "byte" or mean is not None or std is not None):
        raise Refusal("its input is uint8, so pixels must be 'byte', without mean and std")
    centre, deviation = _fractions(mean, 0, "mean"), _fractions(std, 1, "std")
    if min(deviation) <= 0:
        raise Refusal("std must be positive")
    return Pixels(scale, centre, deviation)


def _fractions(values: Numbers | None, default: int, what: str) -> tuple[Fraction, ...]:
    """mean or std as the decimal numbers that the caller wrote."""
    if values is None:
        return (Fraction(default),)
    many = [values] if isinstance(values, str | float | int | Fraction) else list(values)
    return tuple(parse_fraction(v, what) for v in many) or (Fraction(default),)


def _end(graph: Graph) -> tuple[str, list[Node]]:
    """The name of the class scores, and the Softmax or ArgMax nodes behind them, which are dropped."""
    producers = {name: node for node in graph.nodes for name in node.outputs}
    name = end = graph.output
    tail: list[Node] = []
    for _ in graph.nodes:  # a bound that a cycle cannot escape
        node = producers.get(name)
        if node is None or not node.inputs or node.op not in TAIL + AROUND_TAIL:
            break
        name = node.inputs[0]
        if node.op in TAIL:
            tail.append(node)
            end = name
    return end, tail


def _evaluate(graph: Graph, end: str, net: Builder) -> Value:
    """Read the nodes in their order up to the tensor `end`."""
    values: dict[str, Value] = {graph.input: _image(graph, net)}
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    for node in graph.nodes:
        if end in values:
            break
        try:
            inputs = [_lookup(name, values, graph, net) if name else None for name in node.inputs]
            value = values[node.outputs[0]] = _operator(node)(net, node, Inputs(inputs, graph.folder))
            net.spend(0, size_of(value))
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
        raise Refusal("it is supported only as the last step of the graph, where it is dropped")
    if node.op in DYNAMIC:
        raise Refusal("its scales depend on the data (dynamic quantisation); use static quantisation, with calibration")
    raise Refusal(f"the operator {node.op} is not supported (docs/onnx.md lists what is)")


def _lookup(name: str, values: dict[str, Value], graph: Graph, net: Builder) -> Value:
    if name not in values and name in graph.constants:
        values[name] = to_array(graph.constants[name], graph.folder)
        net.spend(0, size_of(values[name]))
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
    ones, zeros = (Fraction(1),) * shape[2], (Fraction(0),) * shape[2]
    view = View(Image(node, shape, ones, zeros), axes, batch or 1, "uint8" if graph.input_dtype == "uint8" else "real")
    return view.of(view.source)


def _check_input(pixels: Pixels, channels: int, batch: int | None) -> None:
    if not 1 <= channels <= MAX_INPUT_CHANNELS or (batch is not None and batch < 1):
        raise Refusal(f"its input has {channels} channels and batch {batch}; at most {MAX_INPUT_CHANNELS} channels fit")
    for values, what in ((pixels.mean, "mean"), (pixels.deviation, "std")):
        if len(values) not in (1, channels):
            raise Refusal(f"{what} has {len(values)} numbers; the image has {channels} channels")


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
        raise Refusal(f"its output has the shape {value.dims}; intrs needs one score a class: a classifier")
    if value.source.shape[2] < 2:
        raise Refusal("its output is one score, which would be one class that always wins; give it two")
    for node in tail:
        _check_tail(node, features[0], len(value.axes))
    source = value.source
    if isinstance(source, Product):
        return source.wide(net)
    if source.grid is None:
        raise Refusal(f"its output, from {source.node}, is not quantised; {ADVICE}")
    return source.on(net, source.grid)


def _check_tail(node: Node, classes: int, rank: int) -> None:
    """A Softmax or ArgMax may be dropped if it runs over the classes."""
    default = 0 if node.op == "ArgMax" else -1
    axis = node.integer("axis", default) % rank
    if axis != classes or node.integer("select_last_index", 0):
        raise Refusal("it does not run over the classes, or prefers the last of equals", node)
