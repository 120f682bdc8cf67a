"""Write a folded network as an ONNX file: int8 in QDQ form, with the very integers that it holds, or plain float32.

Choices that other programs' bugs dictate: every QuantizeLinear and DequantizeLinear has scale and zero-point
initializers of its own (ONNX Runtime fails on shared ones), scales of a whole tensor are of rank 0, biases are int32 of
scale (input scale) * (weight scale) and zero point 0.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import fx, nn

from intrs.files import write_whole
from intrs.training.quant import ActQuant, Affine, FloatFolded, Folded, Normalize, origin

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Shape = tuple[int, int, int]  # channels, height, width
OPSET = 17
IR_VERSION = 8
FUNCTIONS: dict[Any, str] = {operator.add: "Add", operator.mul: "Mul", torch.relu: "Relu"}


class _Writer:
    """Nodes and initializers of the graph under construction; every method returns the name of what it made."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def normalize(self, x: str, layer: Normalize, name: str) -> str:
        x = self.node("Sub", [x, self.constant(f"{name}.mean", layer.mean.numpy())], f"{name}.centred")
        return self.node("Div", [x, self.constant(f"{name}.std", layer.std.numpy())], name)

    def quantize(self, x: str, layer: ActQuant, name: str) -> str:
        """Q then DQ of a whole tensor, each with its own constants."""
        for op, part in (("QuantizeLinear", "q"), ("DequantizeLinear", "dq")):
            scale = self.constant(f"{name}.{part}.scale", np.array(float(layer.scale), np.float32))
            zero = self.constant(f"{name}.{part}.zero", np.array(layer.zero_point, np.uint8))
            x = self.node(op, [x, scale, zero], f"{name}.{part}")
        return x

    def dequantize(self, codes: NDArray[Any], scale: NDArray[np.float32], name: str) -> str:
        """DQ of constants, by output channel."""
        zero = self.constant(f"{name}.zero", np.zeros(scale.shape, codes.dtype))
        inputs = [self.constant(f"{name}.codes", codes), self.constant(f"{name}.scale", scale), zero]
        return self.node("DequantizeLinear", inputs, name, axis=0)

    def layer(self, x: str, layer: Folded, name: str) -> str:
        codes = layer.codes.contiguous().numpy().astype(np.int8)
        weight = self.dequantize(codes, layer.scale.numpy(), f"{name}.weight")
        bias = self.dequantize(layer.bias.numpy().astype(np.int32), layer.out_scale.numpy(), f"{name}.bias")
        return self.product(x, weight, bias, layer, list(codes.shape[2:]), name)

    def float_layer(self, x: str, layer: FloatFolded, name: str) -> str:
        weight = self.constant(f"{name}.weight", layer.weight.contiguous().numpy())
        bias = self.constant(f"{name}.bias", layer.bias.numpy())
        return self.product(x, weight, bias, layer, list(layer.weight.shape[2:]), name)

    def product(self, x: str, weight: str, bias: str, layer: Folded | FloatFolded, kernel: list[int], name: str) -> str:
        if (window := layer.window) is None:
            return self.node("Gemm", [x, weight, bias], name, transB=1)
        return self.node(
            "Conv", [x, weight, bias], name, kernel_shape=kernel, strides=window.stride, pads=window.padding * 2,
            dilations=window.dilation, group=window.groups,
        )  # fmt: skip


def _emit_module(writer: _Writer, model: fx.GraphModule, node: fx.Node, x: str) -> str:
    name = str(node.target)
    layer = model.get_submodule(name)
    match layer:
        case Normalize():
            return writer.normalize(x, layer, name)
        case ActQuant():
            return writer.quantize(x, layer, name)
        case Folded():
            return writer.layer(x, layer, name)
        case FloatFolded():
            return writer.float_layer(x, layer, name)
        case Affine():
            return _affine(writer, layer, x, name)
        case nn.Identity() | nn.Dropout() | nn.Dropout2d():
            return x
        case nn.AdaptiveAvgPool2d() if layer.output_size == 1:
            return writer.node("GlobalAveragePool", [x], name)
        case nn.AvgPool2d():
            return writer.node("AveragePool", [x], name, **_pool(layer), count_include_pad=int(layer.count_include_pad))
        case nn.MaxPool2d():
            return _repeat_quantizer(writer, model, node, writer.node("MaxPool", [x], name, **_pool(layer)))
        case nn.ZeroPad2d():
            left, right, top, bottom = layer.padding
            sides = writer.constant(f"{name}.pads", np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
            return _repeat_quantizer(writer, model, node, writer.node("Pad", [x, sides], name))
        case nn.Unflatten():
            shape = writer.constant(f"{name}.shape", np.array([0, *layer.unflattened_size], np.int64))
            return _repeat_quantizer(writer, model, node, writer.node("Reshape", [x, shape], name))
    return activation(writer, layer, x, name)


def _emit_function(writer: _Writer, model: fx.GraphModule, node: fx.Node, inputs: list[str]) -> str:
    if (op := FUNCTIONS.get(node.target)) is not None:
        return writer.node(op, inputs, node.name)
    if node.target is torch.cat:
        return writer.node("Concat", inputs, node.name, axis=1)
    if node.target is torch.flatten:
        return _repeat_quantizer(writer, model, node, writer.node("Flatten", inputs, node.name, axis=1))
    raise ValueError(f"{node.name}: no ONNX form for {node.target}")


def _pool(layer: nn.MaxPool2d | nn.AvgPool2d) -> dict[str, Any]:
    kernel, stride, pad = (
        [size] * 2 if isinstance(size, int) else list(size) for size in (layer.kernel_size, layer.stride, layer.padding)
    )
    settings = {"kernel_shape": kernel, "strides": stride, "pads": pad * 2}
    return settings | ({"ceil_mode": 1} if layer.ceil_mode else {})


def _affine(writer: _Writer, layer: Affine, x: str, name: str) -> str:
    for op, part, value in (("Mul", "factor", layer.factor), ("Add", "summand", layer.summand)):
        if value is not None:
            x = writer.node(op, [x, writer.constant(f"{name}.{part}.value", value.numpy())], f"{name}.{part}")
    return x


def activation(writer: _Writer, layer: nn.Module, x: str, name: str) -> str:
    """A function of one activation: an operator of ONNX, or the chain of operators that defines it."""

    def number(part: str, value: float) -> str:
        return writer.constant(f"{name}.{part}", np.array(value, np.float32))

    def node(op: str, inputs: list[str], part: str = "") -> str:
        return writer.node(op, inputs, f"{name}.{part}" if part else name)

    match layer:
        case nn.Sigmoid() | nn.Tanh() | nn.Softplus():
            return node(type(layer).__name__, [x])
        case nn.Hardswish():
            return node("HardSwish", [x])
        case nn.Hardsigmoid():
            return writer.node("HardSigmoid", [x], name, alpha=1 / 6, beta=0.5)
        case nn.Hardtanh():
            return node("Clip", [x, number("min", layer.min_val), number("max", layer.max_val)])
        case nn.LeakyReLU():
            return writer.node("LeakyRelu", [x], name, alpha=layer.negative_slope)
        case nn.PReLU():
            return node("PRelu", [x, number("slope", float(layer.weight))])
        case nn.ELU():
            return writer.node("Elu", [x], name, alpha=layer.alpha)
        case nn.SELU():
            return node("Selu", [x])
        case nn.SiLU():
            return node("Mul", [x, node("Sigmoid", [x], "sigmoid")])
        case nn.Mish():
            return node("Mul", [x, node("Tanh", [node("Softplus", [x], "softplus")], "tanh")])
        case nn.GELU() if layer.approximate == "none":
            part = node("Erf", [node("Div", [x, number("root", 2**0.5)], "scaled")], "erf")
            half = node("Mul", [x, node("Add", [part, number("one", 1.0)], "sum")], "twice")
            return node("Mul", [half, number("half", 0.5)])
    raise ValueError(f"{name}: no ONNX form for {type(layer).__name__}")


def _repeat_quantizer(writer: _Writer, model: fx.GraphModule, node: fx.Node, moved: str) -> str:
    """What moves codes leaves them as they are, and engines want Q/DQ on both sides: repeat the input's.

    There is none in the float form, nor behind the logits.
    """
    layer = origin(model, node)
    return writer.quantize(moved, layer, node.name) if isinstance(layer, ActQuant) else moved


def _inputs(node: fx.Node) -> list[fx.Node]:
    """The tensors that a node takes, in order; `torch.cat` takes them as a list."""
    given = node.args[0] if node.args and isinstance(node.args[0], list | tuple) else node.args
    return [each for each in given if isinstance(each, fx.Node)]


def to_onnx(model: fx.GraphModule, input_shape: Shape, classes: int, doc: str = "", sigma: str = "") -> onnx.ModelProto:
    """Return the checked ONNX model: float input "image" (batch, channels, height, width), float output "logits".

    sigma, if given, is noted in the file, for `intrs certify` to take when told nothing else.
    """
    writer, names = _Writer(), dict[fx.Node, str]()
    for node in model.graph.nodes:
        inputs = [names[a] for a in _inputs(node)]
        if node.op == "placeholder":
            names[node] = "image"
        elif node.op == "call_module":
            names[node] = _emit_module(writer, model, node, inputs[0])
        elif node.op == "call_function":
            names[node] = _emit_function(writer, model, node, inputs)
        elif node.op == "output":
            writer.nodes[-1].output[0] = "logits"
        else:
            raise ValueError(f"{node.name}: no ONNX form for {node.op}")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", *input_shape])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])
    graph = helper.make_graph(writer.nodes, "network", [image], [logits], writer.initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="intrs")
    proto.ir_version, proto.doc_string = IR_VERSION, doc
    helper.set_model_props(proto, {"intrs.pixels": "unit"} | ({"intrs.sigma": sigma} if sigma else {}))
    onnx.checker.check_model(proto, full_check=True)
    return proto


def save_onnx(
    model: fx.GraphModule, path: Path, input_shape: Shape, classes: int, doc: str = "", sigma: str = ""
) -> None:
    """Write the file in one move, so that a reader never sees half of it."""
    write_whole(path, to_onnx(model, input_shape, classes, doc, sigma).SerializeToString())
