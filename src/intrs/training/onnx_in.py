"""A float ONNX file as a PyTorch module of standard layers, with the file's weights.

The file is read as any other that nobody vouches for (`exchange/onnx/file.py`). Arithmetic on shapes is done while the
graph is read, on an example; every other operator has a function below, and what has none is refused by its name.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from intrs.exchange.onnx.file import read_graph
from intrs.exchange.onnx.tensors import to_array
from intrs.exchange.refusal import Refusal, refusals_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from intrs.exchange.onnx.file import Graph, Node

EXAMPLES = 2
HARD_SIGMOID = (1 / 6, 0.5)  # slope and offset of PyTorch's


def read_module(path: Path) -> fx.GraphModule:
    """The module of a float ONNX file."""
    with refusals_of(path), torch.no_grad():
        graph = read_graph(path)
        if graph.is_quantized:
            raise Refusal("it is quantized already and can be certified as it is; training takes the float file")
        if len(graph.input_dims) != 4 or None in graph.input_dims[1:]:
            raise Refusal("its input must have the shape (batch, channels, height, width), all but the first known")
        return _Reading(graph).module()


def is_known(graph: Graph) -> bool:
    """Whether a graph is float, and every operator of it is read here."""
    known = {"Constant", "Shape", *_OPERATORS, *_FOLDS}
    return not graph.is_quantized and all(node.op in known for node in graph.nodes)


class _Reading:
    """The module while it is made: what is known of each tensor, and an example of those that depend on the image."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.root, self.made = graph, nn.Module(), fx.Graph()
        self.known: dict[str, Tensor] = {}
        self.nodes: dict[str, fx.Node] = {graph.input: self.made.placeholder("image")}
        self.examples = {graph.input: torch.zeros(EXAMPLES, *(int(size or 1) for size in graph.input_dims[1:]))}
        self.layers: dict[fx.Node, nn.Module] = {}

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
        tensor = node.tensor("value")
        if tensor is not None:
            return torch.from_numpy(to_array(tensor, read.graph.folder).copy())
        return torch.tensor(node.integers("value_ints") or [node.integer("value_int", 0)])
    if node.op == "Shape":
        found = read.examples.get(node.inputs[0])
        return torch.tensor((read.needed(node, 0) if found is None else found).shape)
    values = [read.needed(node, i) for i in range(len(node.inputs))]
    if (compute := _FOLDS.get(node.op)) is None:
        raise Refusal(f"the operator {node.op} on constants is not read")
    return compute(node, *values)


_FOLDS: dict[str, Callable[..., Tensor]] = {
    "Gather": lambda node, x, index: x[index.long()] if node.integer("axis", 0) == 0 else _no_axis(),
    "Unsqueeze": lambda node, x, *axes: x.reshape(1, *x.shape) if x.dim() < 2 else _no_axis(),
    "Squeeze": lambda node, x, *axes: x.squeeze(),
    "Concat": lambda node, *parts: torch.cat([part.reshape(-1) for part in parts]),
    "Cast": lambda node, x: x,
    "Identity": lambda node, x: x,
    "Add": lambda node, a, b: a + b,
    "Sub": lambda node, a, b: a - b,
    "Mul": lambda node, a, b: a * b,
    "Div": lambda node, a, b: a / b if a.is_floating_point() else a // b,
    "Slice": lambda node, x, first, last, *_: x[int(first) : int(last)],
    "Transpose": lambda node, x: x.permute(node.integers("perm") or tuple(reversed(range(x.dim())))),
    "Reshape": lambda node, x, shape: x.reshape(tuple(int(size) for size in shape)),
}


def _no_axis() -> Tensor:
    raise Refusal("this axis of a constant is not read")


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
    return _linear(read, node, weight if node.integer("transB", 0) else weight.T, bias)


def _linear(read: _Reading, node: Node, weight: Tensor, bias: Tensor | None) -> Read:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    _put(layer, weight, bias)
    return read.layer(node, layer)


def _batch_norm(read: _Reading, node: Node) -> Read:
    scale, bias, mean, variance = (read.needed(node, i) for i in range(1, 5))
    kind = nn.BatchNorm2d if read.examples[node.inputs[0]].dim() == 4 else nn.BatchNorm1d
    layer: Any = kind(len(scale), eps=float(node.number("epsilon", 1e-5)))
    _put(layer, scale, bias)
    layer.running_mean.copy_(mean)
    layer.running_var.copy_(variance)
    return read.layer(node, layer)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[_Reading, Node], Read]:
    def take(read: _Reading, node: Node) -> Read:
        return read.function(function, *node.inputs)

    return take


def _add(read: _Reading, node: Node) -> Read:
    """A constant behind a MatMul is its bias; PyTorch's exporters write linear layers so."""
    for first, second in (node.inputs, node.inputs[::-1]):
        before, bias = read.nodes.get(first), read.constant(second)
        layer = read.layers.get(before) if before is not None else None
        if isinstance(layer, nn.Linear) and layer.bias is None and bias is not None and not before.users:
            layer.bias = nn.Parameter(bias.float().reshape(-1).expand(layer.out_features).clone())
            return before, read.examples[first] + bias
    return read.function(operator.add, *node.inputs)


def _mul(read: _Reading, node: Node) -> Read:
    """x * Sigmoid(x) is SiLU, one function of x."""
    for x, other in (node.inputs, node.inputs[::-1]):
        made = read.nodes.get(other)
        if made is not None and isinstance(read.layers.get(made), nn.Sigmoid) and made.args[0] is read.nodes.get(x):
            return read.layer(node, nn.SiLU(), x)
    return read.function(operator.mul, *node.inputs)


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
    slope = read.needed(node, 1)
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
    given = read.optional(node, 1)
    axes = node.integers("axes") if given is None else tuple(given.reshape(-1).tolist())
    keep = bool(node.integer("keepdims", 1))
    return read.function(torch.mean, node.inputs[0], [int(axis) for axis in axes or ()], keep)


def _reshape(read: _Reading, node: Node) -> Read:
    x = read.examples[node.inputs[0]]
    if node.op == "Flatten":
        shape = x.flatten(1).shape if node.integer("axis", 1) == 1 else torch.Size()
    elif node.op == "Reshape":
        wanted = [int(size) for size in read.needed(node, 1)]
        shape = x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(wanted)]).shape
    else:
        given = read.optional(node, 1)
        axes = sorted(node.integers("axes") or () if given is None else given.reshape(-1).tolist())
        for axis in axes if node.op == "Unsqueeze" else reversed(axes):
            x = x.unsqueeze(int(axis)) if node.op == "Unsqueeze" else x.squeeze(int(axis))
        shape = x.shape
    if not shape or shape[0] != EXAMPLES:
        raise Refusal("it mixes the images of a batch")
    if len(shape) == 2:
        return read.function(torch.flatten, node.inputs[0], 1)
    return read.layer(node, nn.Unflatten(1, tuple(shape[1:])))


def _pad(read: _Reading, node: Node) -> Read:
    value = read.optional(node, 2)
    sides = node.integers("pads") or tuple(int(side) for side in read.needed(node, 1))
    zero = node.text("mode", "constant") == "constant" and (value is None or float(value) == 0)
    if len(sides) != 8 or not zero or any(sides[i] for i in (0, 1, 4, 5)):
        raise Refusal("only padding of height and width by zeros is read")
    return read.layer(node, nn.ZeroPad2d((sides[3], sides[7], sides[2], sides[6])))


def _concat(read: _Reading, node: Node) -> Read:
    return read.function(torch.cat, list(node.inputs), node.integer("axis", 1))


def _simple(make: Callable[[Node], nn.Module]) -> Callable[[_Reading, Node], Read]:
    return lambda read, node: read.layer(node, make(node))


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
    "Swish": _simple(lambda _: nn.SiLU()),
    "Tanh": _simple(lambda _: nn.Tanh()),
    "Softplus": _simple(lambda _: nn.Softplus()),
    "Mish": _simple(lambda _: nn.Mish()),
    "Selu": _simple(lambda _: nn.SELU()),
    "Gelu": _simple(lambda node: nn.GELU(node.text("approximate", "none"))),
    "Elu": _simple(lambda node: nn.ELU(float(node.number("alpha", 1.0)))),
    "LeakyRelu": _simple(lambda node: nn.LeakyReLU(float(node.number("alpha", 0.01)))),
    "PRelu": _prelu,
    "Dropout": _simple(lambda _: nn.Identity()),
    "Identity": _simple(lambda _: nn.Identity()),
    "Cast": _simple(lambda _: nn.Identity()),
    "Softmax": _simple(lambda node: nn.Softmax(node.integer("axis", -1))),
    "LogSoftmax": _simple(lambda node: nn.LogSoftmax(node.integer("axis", -1))),
}
