"""A float ONNX file as a PyTorch module of standard layers, with the file's weights.

The file is read as any other that nobody vouches for (`exchange/onnx/file.py`). Arithmetic on shapes is done while the
graph is read, on an example; every other operator has a function below, and what has none is refused by its name. An
attribute that a function below does not honour must be refused there. Last, ONNX Runtime runs the file on a random
image, and a module that gives other scores is refused: what was misread must not be trained.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from intrs.exchange.onnx.file import parse_graph
from intrs.exchange.onnx.tensors import to_array
from intrs.exchange.refusal import Refusal, refusals_of
from intrs.exchange.regular import read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.exchange.onnx.file import Graph, Node

EXAMPLES = 2
HARD_SIGMOID = (1 / 6, 0.5)  # slope and offset of PyTorch's
MOST_VALUES = 2**24  # of the images on which a file is tried: more only where it fixes a large batch
MOST_ERROR, MOST_ERROR_OF_HALVES = 1e-2, 1e-1  # relative to the largest score; a misread operator changes more
# TensorProto.DataType of what constants may be cast to
TYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64, 9: torch.bool,
    10: torch.float16, 11: torch.float64,
}  # fmt: skip
FLOATS = (1, 10, 11)


def read_module(path: Path) -> fx.GraphModule:
    """The module of a float ONNX file."""
    with refusals_of(path), torch.no_grad():
        data = read_whole(path)
        graph = parse_graph(data, path.parent)
        if graph.is_quantized:
            raise Refusal("it is quantized already and can be certified as it is; training takes the float file")
        if len(graph.input_dims) != 4 or None in graph.input_dims[1:]:
            raise Refusal("its input must have the shape (batch, channels, height, width), all but the first known")
        module = _Reading(graph).module()
        _check_scores(module, graph, data)
        return module


def is_known(graph: Graph) -> bool:
    """Whether a graph is float, and every operator of it is read here."""
    known = {"Constant", "Shape", *_OPERATORS, *_FOLDS}
    return not graph.is_quantized and all(node.op in known for node in graph.nodes)


def _check_scores(module: nn.Module, graph: Graph, data: bytes) -> None:
    """Refuse a module that gives other scores than the file. It costs what one of the examples above has cost.

    A file that ONNX Runtime does not run, or only with a huge batch, is not compared.
    """
    dims = [EXAMPLES if size is None else size for size in graph.input_dims]
    if math.prod(dims) > MOST_VALUES or (ran := _ran(data, graph, dims)) is None:
        return
    images, wanted = ran
    found = module.eval()(torch.from_numpy(images.astype(np.float32))).numpy()
    error = math.inf
    if found.shape == wanted.shape:
        error = float(np.abs(found - wanted).max()) / max(float(np.abs(wanted).max()), 1e-6)
    if not error <= (MOST_ERROR_OF_HALVES if images.dtype == np.float16 else MOST_ERROR):
        raise Refusal(
            "its operators were read, but they compute something else than the file does in ONNX Runtime (scores "
            f"differ by {error:.2g} of the largest): give the PyTorch module instead, and please report this file"
        )


def _ran(data: bytes, graph: Graph, dims: list[int]) -> tuple[NDArray[Any], NDArray[np.float32]] | None:
    """Random images and the file's scores for them; None if ONNX Runtime is not there or does not run the file."""
    try:
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(graph.folder))
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        images = _random_images(session.get_inputs()[0].type, dims)
        (scores,) = session.run(None, {graph.input: images})
        return images, np.asarray(scores, np.float32)
    except Exception:  # of a dozen classes, and none is a fault of the file: newer operators, for example
        return None


def _random_images(kind: str, dims: list[int]) -> NDArray[Any]:
    random = np.random.default_rng(1)
    if "int8" in kind:
        return random.integers(0, 128, dims).astype(np.uint8 if "uint8" in kind else np.int8)
    return random.random(dims).astype({"float16": np.float16, "double": np.float64}.get(kind[7:-1], np.float32))


class _Reading:
    """The module while it is made: what is known of each tensor, and an example of those that depend on the image."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.root, self.made = graph, nn.Module(), fx.Graph()
        self.known: dict[str, Tensor] = {}
        self.nodes: dict[str, fx.Node] = {graph.input: self.made.placeholder("image")}
        self.examples = {graph.input: torch.zeros(EXAMPLES, *(int(size or 1) for size in graph.input_dims[1:]))}
        self.layers: dict[fx.Node, nn.Module] = {}
        self.uses = Counter([graph.output, *(name for node in graph.nodes for name in node.inputs)])

    def module(self) -> fx.GraphModule:
        for node in self.graph.nodes:
            try:
                self._read(node)
            except Refusal as refusal:
                raise Refusal(str(refusal), refusal.node or node) from None
            except (RuntimeError, TypeError, KeyError, IndexError, ValueError) as error:
                raise Refusal(
                    f"its shapes or constants do not fit ({str(error).splitlines()[0][:200]})", node
                ) from None
        if self.graph.output not in self.nodes:
            raise Refusal("its output does not depend on the image")
        self.made.output(self.nodes[self.graph.output])
        return fx.GraphModule(self.root, self.made)

    def _read(self, node: Node) -> None:
        name = node.outputs[0]
        if not any(given in self.nodes for given in node.inputs) or node.op == "Shape":
            self.known[name] = _folded(self, node)
            return
        if (read := _OPERATORS.get(node.op)) is None:
            raise Refusal(f"the operator {node.op} has no layer here (docs/pytorch.md lists those that have)")
        self.nodes[name], self.examples[name] = read(self, node)

    # What operators are given

    def constant(self, name: str) -> Tensor | None:
        """A constant of the file, or what was computed from shapes; None if it depends on the image."""
        if name not in self.known and name in self.graph.constants:
            self.known[name] = torch.from_numpy(to_array(self.graph.constants[name], self.graph.folder).copy())
        return self.known.get(name)

    def needed(self, node: Node, i: int) -> Tensor:
        """The same of an input that must be one."""
        found = self.constant(node.inputs[i]) if i < len(node.inputs) else None
        if found is None:
            raise Refusal(f"its input {i + 1} must be a constant of the file")
        return found

    def optional(self, node: Node, i: int) -> Tensor | None:
        """The same of an input that may be left out."""
        return self.needed(node, i) if i < len(node.inputs) and node.inputs[i] else None

    # What becomes of them

    def layer(self, node: Node, layer: nn.Module, source: str = "", suffix: str = "") -> tuple[fx.Node, Tensor]:
        """A layer on the first input, or on another."""
        source, path = source or node.inputs[0], f"layer{len(self.layers)}_{node.op.lower()}{suffix}"
        self.root.add_module(path, layer.eval())
        made = self.made.call_module(path, (self.nodes[source],))
        self.layers[made] = layer
        return made, layer(self.examples[source])

    def function(self, function: Callable[..., Tensor], *args: Any) -> tuple[fx.Node, Tensor]:
        """A function; names stand for tensors."""
        made = self.made.call_function(function, tuple(fx.map_arg(self._filled(args, self.nodes), lambda n: n)))
        return made, function(*self._filled(args, self.examples))

    def _filled(self, args: Any, table: dict[str, Any]) -> Any:
        if isinstance(args, str):
            return table[args] if args in table else self._buffer(args, table is self.nodes)
        return type(args)(self._filled(each, table) for each in args) if isinstance(args, list | tuple) else args

    def _buffer(self, name: str, as_node: bool) -> Any:
        value = self.constant(name)
        assert value is not None
        if value.numel() == 1:
            return float(value)
        if not as_node:
            return value
        path = f"constant{len(list(self.root.buffers(recurse=False)))}"
        self.root.register_buffer(path, value)
        return self.made.get_attr(path)


# --- Constants and shapes --------------------------------------------------------------------------------------------


def _folded(read: _Reading, node: Node) -> Tensor:
    if node.op == "Constant":
        return _constant(read, node)
    if node.op == "Shape":
        found = read.examples.get(node.inputs[0])
        sizes = list((read.needed(node, 0) if found is None else found).shape)
        end = node.integer("end", len(sizes))
        return torch.tensor(sizes[node.integer("start", 0) : end], dtype=torch.int64)
    if (compute := _FOLDS.get(node.op)) is None:
        raise Refusal(f"the operator {node.op} on constants is not read")
    return compute(node, *(read.optional(node, i) for i in range(len(node.inputs))))


def _constant(read: _Reading, node: Node) -> Tensor:
    """The value of a Constant, which has one attribute of several kinds."""
    match list(node.attributes):
        case ["value"] if (tensor := node.tensor("value")) is not None:
            return torch.from_numpy(to_array(tensor, read.graph.folder).copy())
        case ["value_float"]:
            return torch.tensor(float(node.number("value_float", 0)))
        case ["value_floats"] if node.attributes["value_floats"].type == 6:
            return torch.tensor(list(node.attributes["value_floats"].floats), dtype=torch.float32)
        case ["value_int"]:
            return torch.tensor(node.integer("value_int", 0))
        case ["value_ints"]:
            return torch.tensor(node.integers("value_ints"), dtype=torch.int64)
    raise Refusal(f"a constant of this form is not read ({', '.join(node.attributes) or 'it has no value'})")


def _cast(node: Node, x: Tensor) -> Tensor:
    if (kind := TYPES.get(node.integer("to", 0))) is None:
        raise Refusal(f"constants are not cast to the data type {node.integer('to', 0)} here")
    return x.to(kind)


def _divided(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Integers are divided towards zero, as in C."""
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _sliced(
    node: Node, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    """By axis as Python slices, which cut what lies outside as ONNX does."""
    begin, end = _integers(starts), _integers(ends)
    axis = list(range(len(begin))) if axes is None else _integers(axes)
    step = [1] * len(begin) if steps is None else _integers(steps)
    slices = [slice(None)] * x.dim()
    for place, *limits in zip(_places(axis, x.dim()), begin, end, step, strict=True):
        slices[place] = slice(*limits)
    return torch.from_numpy(x.numpy()[tuple(slices)].copy())  # PyTorch has no negative steps


def _squeezed(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.reshape(_squeezed_shape(node, x.shape, axes))


def _squeezed_shape(node: Node, shape: Sequence[int], given: Tensor | None) -> list[int]:
    """The shape that a Squeeze or Unsqueeze gives; axes are an attribute in older files and an input in newer ones."""
    axes = node.integers("axes") if given is None else _integers(given)
    if node.op == "Unsqueeze":
        added, sizes = _places(axes or (), len(shape) + len(axes or ())), iter(shape)
        return [1 if place in added else next(sizes) for place in range(len(shape) + len(added))]
    if axes is None:
        return [size for size in shape if size != 1]
    dropped = _places(axes, len(shape))
    if any(shape[place] != 1 for place in dropped):
        raise Refusal("an axis that it drops has more than one value")
    return [size for place, size in enumerate(shape) if place not in dropped]


def _reshaped(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """0 stands for the size that is there, unless the file says otherwise."""
    wanted = _integers(shape)
    if 0 in wanted and node.integer("allowzero", 0):
        raise Refusal("a shape with the size 0 is not read (allowzero)")
    return x.reshape([x.shape[place] if size == 0 else size for place, size in enumerate(wanted)])


def _integers(values: Tensor) -> list[int]:
    return [int(value) for value in values.reshape(-1)]


def _places(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the first, each of them once."""
    places = [axis + rank if axis < 0 else axis for axis in axes]
    if len(set(places)) < len(places) or not all(0 <= place < rank for place in places):
        raise Refusal(f"its axes {list(axes)} do not fit a tensor of rank {rank}")
    return places


_FOLDS: dict[str, Callable[..., Tensor]] = {
    "Gather": lambda node, x, index: torch.tensor(np.take(x.numpy(), index.numpy(), node.integer("axis", 0))),
    "Unsqueeze": _squeezed,
    "Squeeze": _squeezed,
    "Concat": lambda node, *parts: torch.cat(parts, node.integer("axis", 0)),
    "Cast": _cast,
    "Identity": lambda node, x: x,
    "Add": lambda node, a, b: a + b,
    "Sub": lambda node, a, b: a - b,
    "Mul": lambda node, a, b: a * b,
    "Div": _divided,
    "Slice": _sliced,
    "Transpose": lambda node, x: x.permute(node.integers("perm") or tuple(reversed(range(x.dim())))),
    "Reshape": _reshaped,
}


# --- Operators -------------------------------------------------------------------------------------------------------

Read = tuple[fx.Node, Tensor]


def _conv(read: _Reading, node: Node) -> Read:
    weight, bias = read.needed(node, 1), read.optional(node, 2)
    if weight.dim() != 4:
        raise Refusal("only convolutions of images are read")
    top, left, bottom, right = _conv_pads(read, node, weight)
    groups, even = node.integer("group", 1), (top, left) == (bottom, right)
    stride: Any = node.integers("strides") or (1, 1)
    dilation: Any = node.integers("dilations") or (1, 1)
    kernel: Any = tuple(weight.shape[2:])
    layer = nn.Conv2d(
        weight.shape[1] * groups, weight.shape[0], kernel, stride,
        (top, left) if even else 0, dilation, groups, bias is not None,
    )  # fmt: skip
    _put(layer, weight, bias)
    source = node.inputs[0]
    if not even:
        source = f"{source} padded for {node.outputs[0]}"
        padded = read.layer(node, nn.ZeroPad2d((left, right, top, bottom)), node.inputs[0], "_pad")
        read.nodes[source], read.examples[source] = padded
    return read.layer(node, layer, source)


def _conv_pads(read: _Reading, node: Node, weight: Tensor) -> tuple[int, ...]:
    """top, left, bottom, right; SAME_UPPER and SAME_LOWER give ceil(size / stride) results."""
    rule = node.text("auto_pad", "NOTSET")
    if rule in ("NOTSET", "VALID"):
        return (node.integers("pads") if rule == "NOTSET" else None) or (0, 0, 0, 0)
    sides = zip(read.examples[node.inputs[0]].shape[2:], weight.shape[2:],
                node.integers("strides") or (1, 1), node.integers("dilations") or (1, 1), strict=True)  # fmt: skip
    total = [max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0) for size, k, s, d in sides]
    less, more = [pads // 2 for pads in total], [pads - pads // 2 for pads in total]
    return (*less, *more) if rule == "SAME_UPPER" else (*more, *less)


def _put(layer: Any, weight: Tensor, bias: Tensor | None) -> None:
    layer.weight.copy_(weight)
    if bias is not None:
        layer.bias.copy_(bias.reshape(-1))


def _gemm(read: _Reading, node: Node) -> Read:
    if node.number("alpha", 1) != 1 or node.number("beta", 1) != 1 or node.integer("transA", 0):
        raise Refusal("only a Gemm with alpha = beta = 1 and transA = 0 is read")
    weight, bias = read.needed(node, 1), read.optional(node, 2)
    if bias is not None and bias.dim() and bias.numel() != bias.shape[-1]:
        raise Refusal("its summand must be one number, or one per column")
    return _linear(read, node, weight if node.integer("transB", 0) else weight.T, bias)


def _linear(read: _Reading, node: Node, weight: Tensor, bias: Tensor | None) -> Read:
    if weight.dim() != 2:
        raise Refusal("only a matrix of weights is read")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    _put(layer, weight, bias)
    return read.layer(node, layer)


def _batch_norm(read: _Reading, node: Node) -> Read:
    scale, bias, mean, variance = (read.needed(node, i) for i in range(1, 5))
    if node.integer("training_mode", 0):
        raise Refusal("it depends on the other images of a batch; export the module in evaluation: module.eval()")
    kind = nn.BatchNorm2d if read.examples[node.inputs[0]].dim() == 4 else nn.BatchNorm1d
    layer: Any = kind(len(scale), eps=float(node.number("epsilon", 1e-5)))
    _put(layer, scale, bias)
    layer.running_mean.copy_(mean)
    layer.running_var.copy_(variance)
    return read.layer(node, layer)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[_Reading, Node], Read]:
    def take(read: _Reading, node: Node) -> Read:
        ranks = [read.examples[name].dim() for name in node.inputs if name in read.examples]
        if any(value.dim() > min(ranks) for name in node.inputs if (value := read.constant(name)) is not None):
            raise Refusal("its constant has more axes than the activation")
        return read.function(function, *node.inputs)

    return take


def _add(read: _Reading, node: Node) -> Read:
    """A constant behind a MatMul is its bias, if nobody else wants the product; PyTorch's exporters write it so."""
    for first, second in (node.inputs, node.inputs[::-1]):
        before, bias = read.nodes.get(first), read.constant(second)
        layer = read.layers.get(before) if before is not None else None
        if not isinstance(layer, nn.Linear) or layer.bias is not None or bias is None or read.uses[first] > 1:
            continue
        if bias.dim() <= read.examples[first].dim() and bias.numel() in (1, bias.shape[-1] if bias.dim() else 1):
            layer.bias = nn.Parameter(bias.float().reshape(-1).expand(layer.out_features).clone())
            return read.nodes[first], read.examples[first] + bias
    return _arithmetic(operator.add)(read, node)


def _mul(read: _Reading, node: Node) -> Read:
    """x * Sigmoid(x) is SiLU, one function of x."""
    for x, other in (node.inputs, node.inputs[::-1]):
        made = read.nodes.get(other)
        if made is not None and isinstance(read.layers.get(made), nn.Sigmoid) and made.args[0] is read.nodes.get(x):
            return read.layer(node, nn.SiLU(), x)
    return _arithmetic(operator.mul)(read, node)


def _clip(read: _Reading, node: Node) -> Read:
    low, high = (read.optional(node, i) for i in (1, 2))
    if low is not None and high is None and float(low) == 0:
        return read.function(torch.relu, node.inputs[0])
    if low is None or high is None:
        raise Refusal("a Clip needs both bounds, or the lower bound 0")
    return read.layer(node, nn.Hardtanh(float(low), float(high)))


def _hard_sigmoid(read: _Reading, node: Node) -> Read:
    given = float(node.number("alpha", 0.2)), float(node.number("beta", 0.5))
    if not np.allclose(given, HARD_SIGMOID, atol=1e-4):
        raise Refusal("only the HardSigmoid of PyTorch is read, with slope 1/6 and offset 1/2")
    return read.layer(node, nn.Hardsigmoid())


def _prelu(read: _Reading, node: Node) -> Read:
    slope, rank = read.needed(node, 1), read.examples[node.inputs[0]].dim()
    channels = slope.shape[1 - rank] if slope.dim() >= rank - 1 else 1  # constants are aligned at the last axis
    if slope.numel() != channels:
        raise Refusal("its slope must be one number, or one per channel")
    layer = nn.PReLU(slope.numel())
    layer.weight.copy_(slope.reshape(-1))
    return read.layer(node, layer)


def _pool(read: _Reading, node: Node) -> Read:
    top, left, bottom, right = node.integers("pads") or (0, 0, 0, 0)
    plain = node.text("auto_pad", "NOTSET") in ("NOTSET", "VALID") and node.integers("dilations") in (None, (1, 1))
    if not plain or (top, left) != (bottom, right):
        raise Refusal("only pools without dilation, padded alike on opposite sides, are read")
    kernel: Any = node.integers("kernel_shape")
    stride: Any = node.integers("strides") or (1, 1)
    ceil: dict[str, Any] = {"ceil_mode": bool(node.integer("ceil_mode", 0))}
    if node.op == "MaxPool":
        return read.layer(node, nn.MaxPool2d(kernel, stride, (top, left), **ceil))
    counted = bool(node.integer("count_include_pad", 0))
    return read.layer(node, nn.AvgPool2d(kernel, stride, (top, left), count_include_pad=counted, **ceil))


def _mean(read: _Reading, node: Node) -> Read:
    given, rank = read.optional(node, 1), read.examples[node.inputs[0]].dim()
    axes = _places((node.integers("axes") if given is None else _integers(given)) or (), rank)
    if not axes or 0 in axes:
        raise Refusal("a mean must name its axes, and the first is that of the batch")
    return read.function(torch.mean, node.inputs[0], axes, bool(node.integer("keepdims", 1)))


def _reshape(read: _Reading, node: Node) -> Read:
    x = read.examples[node.inputs[0]]
    if node.op == "Flatten":
        shape = list(x.flatten(1).shape) if node.integer("axis", 1) == 1 else []
    elif node.op == "Reshape":
        shape = list(_reshaped(node, x, read.needed(node, 1)).shape)
    else:
        shape = _squeezed_shape(node, x.shape, read.optional(node, 1))
    if not shape or shape[0] != EXAMPLES:
        raise Refusal("it mixes the images of a batch")
    if len(shape) == 2:
        return read.function(torch.flatten, node.inputs[0], 1)
    if x.dim() != 2:
        raise Refusal(f"a shape {list(x.shape[1:])} can become a vector, but not {shape[1:]}")
    return read.layer(node, nn.Unflatten(1, tuple(shape[1:])))


def _pad(read: _Reading, node: Node) -> Read:
    value = read.optional(node, 2)
    sides = node.integers("pads") or tuple(_integers(read.needed(node, 1)))
    zero = node.text("mode", "constant") == "constant" and (value is None or float(value) == 0)
    zero = zero and node.number("value", 0) == 0 and read.optional(node, 3) is None  # older files; axes of newer ones
    if len(sides) != 8 or not zero or any(sides[i] for i in (0, 1, 4, 5)):
        raise Refusal("only padding of height and width by zeros is read, with sides for all four axes")
    return read.layer(node, nn.ZeroPad2d((sides[3], sides[7], sides[2], sides[6])))


def _concat(read: _Reading, node: Node) -> Read:
    return read.function(torch.cat, list(node.inputs), node.integer("axis", 1))


def _dropout(read: _Reading, node: Node) -> Read:
    if (training := read.optional(node, 2)) is not None and bool(training):
        raise Refusal("it is active; export the module in evaluation: module.eval()")
    return read.layer(node, nn.Identity())


def _cast_of_images(read: _Reading, node: Node) -> Read:
    if node.integer("to", 0) not in FLOATS:
        raise Refusal("what depends on the image is cast to floats only: integers would round it")
    return read.layer(node, nn.Identity())


def _softmax(make: Callable[[int], nn.Module]) -> Callable[[_Reading, Node], Read]:
    """Over the last axis: over others, and by default, files of different opsets mean different things."""

    def take(read: _Reading, node: Node) -> Read:
        last = read.examples[node.inputs[0]].dim() - 1
        if node.integer("axis", 1 if last == 1 else 0) not in (last, -1):
            raise Refusal("only over the last axis is it read, which it must name")
        return read.layer(node, make(last))

    return take


def _simple(make: Callable[[Node], nn.Module]) -> Callable[[_Reading, Node], Read]:
    return lambda read, node: read.layer(node, make(node))


def _fixed(layer: type[nn.Module], **numbers: float) -> Callable[[_Reading, Node], Read]:
    """A layer of PyTorch whose numbers are constants there: the file must have the same, or leave them out."""

    def take(read: _Reading, node: Node) -> Read:
        for name, wanted in numbers.items():
            if not math.isclose(given := float(node.number(name, wanted)), wanted, rel_tol=1e-5):
                raise Refusal(f"its {name} is {given:.6g}, and only {wanted:.6g}, PyTorch's, is read")
        return read.layer(node, layer())

    return take


_OPERATORS: dict[str, Callable[[_Reading, Node], Read]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": lambda read, node: _linear(read, node, read.needed(node, 1).T, None),
    "BatchNormalization": _batch_norm,
    "Add": _add,
    "Sub": _arithmetic(operator.sub),
    "Mul": _mul,
    "Div": _arithmetic(operator.truediv),
    "Concat": _concat,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _simple(lambda _: nn.AdaptiveAvgPool2d(1)),
    "GlobalMaxPool": _simple(lambda _: nn.AdaptiveMaxPool2d(1)),
    "ReduceMean": _mean,
    "Flatten": _reshape,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Pad": _pad,
    "Relu": lambda read, node: read.function(torch.relu, node.inputs[0]),
    "Clip": _clip,
    "Sigmoid": _simple(lambda _: nn.Sigmoid()),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _simple(lambda _: nn.Hardswish()),
    "Swish": _fixed(nn.SiLU, alpha=1.0),
    "Tanh": _simple(lambda _: nn.Tanh()),
    "Softplus": _simple(lambda _: nn.Softplus()),
    "Mish": _simple(lambda _: nn.Mish()),
    "Selu": _fixed(nn.SELU, alpha=1.6732632, gamma=1.0507010),
    "Gelu": _simple(lambda node: nn.GELU(node.text("approximate", "none"))),
    "Elu": _simple(lambda node: nn.ELU(float(node.number("alpha", 1.0)))),
    "LeakyRelu": _simple(lambda node: nn.LeakyReLU(float(node.number("alpha", 0.01)))),
    "PRelu": _prelu,
    "Dropout": _dropout,
    "Identity": _simple(lambda _: nn.Identity()),
    "Cast": _cast_of_images,
    "Softmax": _softmax(nn.Softmax),
    "LogSoftmax": _softmax(nn.LogSoftmax),
}
