"""From a quantized TFLite file to an integer network with the bits of its reference kernels.

The graph is read once, in its order. `file` opens it without trusting it (`flatbuffer` checks every offset, `schema`
says what the tables hold); `values` says what a tensor can be meanwhile; `operators` say what each operator does;
`arithmetic` and `fixedpoint` are the arithmetic of the kernels. `docs/tflite.md` lists what is accepted, and what a
dialect is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf, prod
from typing import TYPE_CHECKING, ClassVar, cast, get_args

import numpy as np

from intrs.exchange.budget import Budget
from intrs.exchange.builder import Builder, check_shape
from intrs.exchange.modelfile import ModelFile
from intrs.exchange.refusal import Refusal, refusals_of, shortened
from intrs.exchange.tflite.border import quantised
from intrs.exchange.tflite.file import ABSENT, CODES, MAX_RANK, Graph, Operator, Tensor, parse_graph
from intrs.exchange.tflite.operators import OPERATORS, Lowering, grid_of
from intrs.exchange.tflite.pixels import KEY, read_quantiser
from intrs.exchange.tflite.schema import TensorType
from intrs.exchange.tflite.values import Constant, Value, View
from intrs.request import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from intrs.exchange.convention import Convention
    from intrs.network import Network, Shape

MAX_INPUT_CHANNELS = 4096
TAIL = ("SOFTMAX", "LOG_SOFTMAX", "ARG_MAX")  # the largest score stays where it is
RESHAPED = ("RESHAPE", "SQUEEZE")
AROUND_TAIL = ("QUANTIZE", "DEQUANTIZE", "CAST", *RESHAPED)
ONLY_LAST = "it is supported only as the last step of the graph, where it is dropped"
KEEP_PIXELS = ("QUANTIZE", "DEQUANTIZE", "RESHAPE", "EXPAND_DIMS", "SQUEEZE")  # the image may pass these first
TO_NHWC = (0, 2, 3, 1)
ADVICE = "convert it with a representative data set and TFLITE_BUILTINS_INT8, as docs/tflite.md says"


@dataclass(frozen=True, eq=False)
class TfliteFile(ModelFile):
    """A TFLite file, read and parsed once."""

    path: Path
    data: bytes
    graph: Graph
    DIALECTS: ClassVar[tuple[str, ...]] = get_args(Dialect)

    @property
    def metadata(self) -> dict[str, str]:  # noqa: D102 (as inherited)
        return self.graph.metadata

    @property
    def is_quantized(self) -> bool:  # noqa: D102 (as inherited)
        return self.graph.is_quantized

    def pixel_scale(self, convention: Convention) -> str:  # noqa: D102 (as inherited)
        return self._lowered(convention)[1]

    def network(self, convention: Convention) -> Network:  # noqa: D102 (as inherited)
        return self._lowered(convention)[0]

    @cached_property
    def _lowered(self) -> Callable[[Convention], tuple[Network, str]]:
        return lru_cache(maxsize=8)(self._lower)

    def _lower(self, convention: Convention) -> tuple[Network, str]:
        with refusals_of(self.path), np.errstate(all="ignore"):  # scales may be absurd; what overflows is refused
            return lower(self.graph, convention)


def read_tflite(path: Path, data: bytes) -> TfliteFile:
    """Parse the bytes of a TFLite file. Raises ModelError."""
    with refusals_of(path):
        return TfliteFile(path, data, parse_graph(data))


def lower(graph: Graph, asked: Convention) -> tuple[Network, str]:
    """The integer network of a graph, and what its input is for a pixel.

    Raises Refusal, or ModelError if the finished network could overflow.
    """
    if not graph.is_quantized:
        raise Refusal(f"it is a float model: none of its operators computes with int8 or uint8; {ADVICE}")
    tensor = graph.tensors[graph.input]
    grid = grid_of(tensor) if tensor.type in CODES else None
    net = Builder(asked, Budget(graph.size))
    image = View(None, _image_shape(graph), _image_dims(tensor), grid, real=grid is None)
    image = _laid_out(graph, image, net)
    if grid is not None and KEY in graph.metadata and asked.is_default:
        made = read_quantiser(graph.metadata[KEY], image.shape)
        image = replace(image, tensor=net.quantised(made), grid=grid)
    elif grid is not None:
        image = quantised(net, image, grid, of_codes=True)
    end, tail = _end(graph)
    dialect = cast("Dialect", asked.dialect)
    scores = _scores(_evaluate(graph, end, image, net, dialect))
    _check_tail(graph, tail, scores, net, dialect)
    assert scores.tensor is not None
    network = net.network(scores.tensor)
    _ = network.native  # the core proves now that nothing can overflow
    return network, net.pixel_scale


def _image_dims(tensor: Tensor) -> tuple[int, ...]:
    dims = tensor.dims
    if tensor.type not in (*CODES, TensorType.FLOAT32):
        raise Refusal(f"its input holds {tensor.kind}; intrs needs an image of int8, uint8 or float32")
    if not 2 <= len(dims) <= 4 or dims[0] not in (1, -1) or min(dims[1:]) < 1:
        raise Refusal(f"its input has the shape {dims}; intrs needs one image, (1, height, width, channels), all fixed")
    return (1, *dims[1:])


def _image_shape(graph: Graph) -> Shape:
    """The image as (height, width, channels): of the input, or of what a RESHAPE makes of it at once."""
    dims = _image_dims(graph.tensors[graph.input])
    order, reshaped = _first_moves(graph)
    if order == TO_NHWC and len(dims) == 4:
        dims = tuple(dims[axis] for axis in order)
    elif len(dims) < 4 and reshaped is not None and prod(reshaped) == prod(dims):
        dims = reshaped
    sizes = dims[1:] if len(dims) == 4 else (*dims[1:], 1) if len(dims) == 3 else (1, 1, *dims[1:])
    shape = sizes[0], sizes[1], sizes[2]
    check_shape(shape)
    if shape[2] > MAX_INPUT_CHANNELS:
        raise Refusal(f"its input has {shape[2]} channels; at most {MAX_INPUT_CHANNELS} fit")
    return shape


def _first_moves(graph: Graph) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """The order of a TRANSPOSE that the image meets first, and the shape (1, h, w, c) that a RESHAPE gives it."""
    names = {graph.input}
    for op in graph.operators:
        if names.isdisjoint(op.inputs) or op.op == "SHAPE":
            continue
        if op.op == "TRANSPOSE" and len(op.inputs) == 2 and (order := _short_list(graph.tensors[op.inputs[1]])):
            return order, None
        if op.op not in KEEP_PIXELS:
            break
        names.update(op.outputs)
        dims = graph.tensors[op.outputs[0]].dims if op.outputs else ()
        if op.op in ("RESHAPE", "EXPAND_DIMS") and len(dims) == 4 and dims[0] in (1, -1) and min(dims[1:]) > 0:
            return None, (1, *dims[1:])
    return None, None


def _short_list(tensor: Tensor) -> tuple[int, ...] | None:
    """The numbers of a constant with at most one per axis; None if it is something else."""
    if tensor.constant is None or prod(tensor.dims) > MAX_RANK:
        return None
    return tuple(tensor.array().ravel().tolist())


def _laid_out(graph: Graph, image: View, net: Builder) -> View:
    """The image as the graph sees it: with channels first, if a TRANSPOSE will move them."""
    if _first_moves(graph)[0] != TO_NHWC or len(image.dims) != 4:
        return image
    net.budget.spend(0, image.listed)
    places = np.arange(prod(image.shape), dtype=np.int32).reshape(1, *image.shape)
    return image.showing(np.ascontiguousarray(places.transpose(0, 3, 1, 2)))


def _end(graph: Graph) -> tuple[int, list[Operator]]:
    """The tensor of the class scores, and the operators from there to the last SOFTMAX or ARG_MAX: they are dropped."""
    producers = {number: op for op in graph.operators for number in op.outputs}
    number = end = graph.output
    behind: list[Operator] = []
    dropped = 0
    for _ in graph.operators:  # a bound that a cycle cannot escape
        op = producers.get(number)
        if op is None or not op.inputs or op.op not in TAIL + AROUND_TAIL:
            break
        number = op.inputs[0]
        if behind or op.op in TAIL:
            behind.append(op)
        if op.op in TAIL:
            end, dropped = number, len(behind)
    return end, behind[:dropped][::-1]


def _evaluate(graph: Graph, end: int, image: View, net: Builder, dialect: Dialect) -> Value:
    """Read the operators in their order, up to the class scores."""
    values: dict[int, Value] = {graph.input: image}
    for op in graph.operators:
        if end in values:
            break
        try:
            inputs = [None if number == ABSENT else _lookup(graph, number, values, net) for number in op.inputs]
            step = Lowering(net, op, inputs, [graph.tensors[number] for number in op.outputs], dialect)
            found = _meaning(op)(step)
            if isinstance(found, Constant):
                net.budget.spend(0, found.array.nbytes)
        except Refusal as refusal:
            raise Refusal(str(refusal), refusal.node or op) from None
        results: Sequence[Value] = [found] if isinstance(found, Constant | View) else found
        for number, result in zip(op.outputs, results, strict=False):
            values[number] = _described(result, graph.tensors[number], op)
    return _lookup(graph, end, values, net)


def _described(value: Value, tensor: Tensor, op: Operator) -> Value:
    """A result as the kernels that read it see it: with the scale of its own tensor, even if codes were only moved."""
    if isinstance(value, Constant) or value.real or value.tensor is None:
        return value
    grid = grid_of(tensor)
    if value.grid is not None and value.grid.unsigned != grid.unsigned:
        raise Refusal("it reads and writes codes of different types", op)
    return replace(value, grid=grid)


def _meaning(op: Operator) -> Callable[[Lowering], Value | Sequence[Value]]:
    if not op.outputs or op.outputs[0] == ABSENT:
        raise Refusal("it writes nothing")
    if op.op in OPERATORS:
        return OPERATORS[op.op]
    if op.op in TAIL:
        raise Refusal(ONLY_LAST)
    raise Refusal(f"the operator {shortened(op.op)} is not supported (docs/tflite.md lists what is)")


def _lookup(graph: Graph, number: int, values: dict[int, Value], net: Builder) -> Value:
    if number in values:
        return values[number]
    tensor = graph.tensors[number] if number >= 0 else None
    if tensor is None or tensor.constant is None:
        raise Refusal(f"it reads tensor {number}, which is computed later or never")
    array = tensor.array()
    net.budget.spend(0, array.nbytes)  # many tensors can show one buffer
    values[number] = Constant(array, tensor)
    return values[number]


def _scores(value: Value) -> View:
    """The class scores, which are a tensor of the network."""
    if not isinstance(value, View) or value.tensor is None:
        raise Refusal("its output does not depend on the image, or is not quantised")
    if value.shape[:2] != (1, 1) or prod(value.dims) != max(value.dims, default=1) or value.index is not None:
        raise Refusal(f"its output has the shape {value.dims}; intrs needs one score per class: a classifier")
    if value.shape[2] < 2:
        raise Refusal("its output is one score, which would be one class that always wins; give it two")
    return value


def _check_tail(graph: Graph, tail: list[Operator], scores: View, net: Builder, dialect: Dialect) -> None:
    """Refuse to drop operators that could make another class the first of the largest."""
    for op in tail:
        try:
            others = [None if number == ABSENT else _lookup(graph, number, {}, net) for number in op.inputs[1:]]
            step = Lowering(net, op, [scores, *others], [graph.tensors[number] for number in op.outputs], dialect)
            if op.op in TAIL:
                _check_order(step, is_last=op is tail[-1])
            elif op.op in RESHAPED:
                moved = OPERATORS[op.op](step)
                assert isinstance(moved, View)
                scores = moved
        except Refusal as refusal:
            raise Refusal(str(refusal), refusal.node or op) from None


def _check_order(step: Lowering, *, is_last: bool) -> None:
    """A SOFTMAX, whose axis is the last, or an ARG_MAX may be dropped if it runs over the classes."""
    op, dims, axis = step.operator.op, step.view(0).dims, -1
    if op == "ARG_MAX":
        if not is_last:
            raise Refusal(ONLY_LAST)
        axis = step.integer(1)
    if op == "SOFTMAX" and not 0 < (beta := step.options("SoftmaxOptions")["beta"]) < inf:
        raise Refusal(f"its beta is {beta}; it must be positive, or the largest score is not the most probable class")
    if not -len(dims) <= axis < len(dims) or dims[axis] != prod(dims):
        raise Refusal(f"it does not run over the classes of its input, whose shape is {dims}")
