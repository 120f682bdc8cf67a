"""A float network as a PyTorch module, from the ONNX files that `intrs train` writes beside the int8 ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from intrs.errors import ModelError
from intrs.exchange.onnx.file import read_graph
from intrs.exchange.onnx.tensors import to_array
from intrs.exchange.refusal import Refusal
from intrs.noise import PIXEL_RANGE
from intrs.training import onnx_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from intrs.exchange.onnx.file import Graph, Node
    from intrs.network import Shape


def _conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    top, left, bottom, right = node.integers("pads") or (0, 0, 0, 0)
    if node.text("auto_pad", "NOTSET") != "NOTSET" or weight.dim() != 4:
        raise Refusal("only convolutions of images with explicit padding can be attacked", node)
    stride, dilation = node.integers("strides") or (1, 1), node.integers("dilations") or (1, 1)
    padded = fn.pad(x, (left, right, top, bottom))
    return fn.conv2d(padded, weight, bias, stride, 0, dilation, node.integer("group", 1))


def _max_pool(node: Node, x: Tensor) -> Tensor:
    kernel, top, left, bottom, right = node.integers("kernel_shape") or (), *(node.integers("pads") or (0, 0, 0, 0))
    plain = (node.text("auto_pad", "NOTSET"), node.integer("ceil_mode", 0)) == ("NOTSET", 0)
    if not plain or node.integers("dilations") not in (None, (1, 1)) or len(kernel) != 2:
        raise Refusal("only a MaxPool of images with explicit padding, rounded down, can be attacked", node)
    padded = fn.pad(x, (left, right, top, bottom), value=float("-inf"))
    found: Tensor = fn.max_pool2d(padded, kernel, node.integers("strides") or (1, 1))
    return found


def _gemm(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if node.number("alpha", 1) != 1 or node.number("beta", 1) != 1 or node.integer("transA", 0):
        raise Refusal("only a Gemm with alpha = beta = 1 and transA = 0 can be attacked", node)
    product = x @ (weight.T if node.integer("transB", 0) else weight)
    return product if bias is None else product + bias


def _flatten(node: Node, x: Tensor) -> Tensor:
    if node.integer("axis", 1) != 1:
        raise Refusal("only a Flatten with axis = 1 can be attacked", node)
    return x.flatten(1)


OPERATORS: dict[str, Callable[..., Tensor]] = {
    "Add": lambda _, a, b: a + b,
    "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b,
    "Div": lambda _, a, b: a / b,
    "Relu": lambda _, x: torch.relu(x),
    "Identity": lambda _, x: x,
    "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdim=True),
    "Conv": _conv,
    "Gemm": _gemm,
    "MaxPool": _max_pool,
    "Flatten": _flatten,
}


class FloatNet(nn.Module):
    """Scores (n, classes) of images (n, height, width, channels), given as floats in pixel levels."""

    def __init__(self, graph: Graph, input_shape: Shape, scale: float) -> None:
        super().__init__()
        self.input_shape, self._graph, self._scale = input_shape, graph, scale
        self._constants = {name: _tensor(graph, name) for node in graph.nodes for name in node.inputs if name}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FloatNet:
        """Constants go where the module goes (`to`)."""
        self._constants = {name: value if value is None else fn(value) for name, value in self._constants.items()}
        return super()._apply(fn, recurse)  # type: ignore[no-any-return, no-untyped-call]

    def forward(self, pixels: Tensor) -> Tensor:
        """Run the graph, node by node."""
        values: dict[str, Any] = {name: value for name, value in self._constants.items() if value is not None}
        values[self._graph.input] = (pixels.float() / self._scale).permute(0, 3, 1, 2)
        for node in self._graph.nodes:
            values[node.outputs[0]] = OPERATORS[node.op](node, *(values[name] for name in node.inputs if name))
        found: Tensor = values[self._graph.output]
        return found


def _tensor(graph: Graph, name: str) -> Tensor | None:
    return torch.from_numpy(to_array(graph.constants[name], graph.folder).copy()) if name in graph.constants else None


class ReadNet(nn.Module):
    """The same of a file with other operators, read as `intrs train` reads them."""

    def __init__(self, net: nn.Module, input_shape: Shape, scale: float) -> None:
        super().__init__()
        self.net, self.input_shape, self._scale = net.eval().requires_grad_(False), input_shape, scale

    def forward(self, pixels: Tensor) -> Tensor:
        """Run the module."""
        found: Tensor = self.net((pixels.float() / self._scale).permute(0, 3, 1, 2))
        return found


def _is_simple(graph: Graph) -> bool:
    return all(node.op in OPERATORS for node in graph.nodes)


def is_float(path: Path) -> bool:
    """Whether a file holds a network of float operators alone, all of which are known."""
    try:
        graph = read_graph(path)
        return _is_simple(graph) or onnx_in.is_known(graph)
    except Refusal as refusal:
        raise ModelError(f"{path}: {refusal}") from None


def load_float(path: Path, pixels: str = "auto") -> FloatNet | ReadNet:
    """The network of a float file; `pixels` says what its input is, as for `intrs.load`."""
    try:
        graph = read_graph(path)
        if len(graph.input_dims) != 4 or None in graph.input_dims[1:]:
            raise Refusal("its input must have the shape (batch, channels, height, width), all but the first known")
        _, channels, height, width = (int(size or 1) for size in graph.input_dims)
        byte = (graph.metadata.get("intrs.pixels", "unit") if pixels == "auto" else pixels) == "byte"
        shape, scale = (height, width, channels), 1.0 if byte else float(PIXEL_RANGE)
        if not _is_simple(graph):
            return ReadNet(onnx_in.read_module(path), shape, scale)
        net = FloatNet(graph, shape, scale)
        _try(net)
    except Refusal as refusal:
        where = f"{refusal.node}: " if refusal.node else ""
        raise ModelError(f"{path}: {where}{refusal}") from None
    return net


def _try(net: FloatNet) -> None:
    """Shapes of a stranger's file may not fit each other."""
    try:
        with torch.no_grad():
            scores = net(torch.zeros(1, *net.input_shape))
    except (RuntimeError, TypeError, KeyError, IndexError, ValueError) as error:
        raise Refusal(f"its layers do not fit together ({str(error).splitlines()[0]})") from None
    if scores.dim() != 2 or len(scores) != 1:
        raise Refusal(f"its output has the shape {tuple(scores.shape)}; a classifier's is (batch, classes)")
