"""The networks that are measured, as float ONNX graphs with batch normalisation folded: nothing is trained here.

Speed does not depend on what a network has learnt, with one exception: kernels that add several products in 16 bits
look at the size of the weights. So the convolutions of ResNet-20 take the weights of trained ones of the same shape,
wherever the package's zoo has some; all others are Gaussian.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

OPSET, IR_VERSION = 17, 8
TRAINED = (
    "resnet20-paper0.25", "resnet20-sigma0.12", "resnet20-sigma0.25", "resnet20-sigma0.5", "resnet8-sigma0.25",
)  # fmt: skip
INPUT, OUTPUT = "image", "logits"


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph under construction, (channels, height, width)."""

    name: str
    shape: tuple[int, int, int]


class Weights:
    """Weights of any shape: trained ones of that shape, their channels shuffled, else Gaussian. He's variance for all.

    With `sparse`, half of the groups of four input channels are zero, chosen at random for every tap.
    """

    def __init__(self, seed: int = 0, trained: dict[tuple[int, ...], list[Floats]] | None = None, sparse: bool = False):
        self.random = np.random.default_rng(seed)
        self.trained = trained or {}
        self.sparse = sparse
        self.reused = 0

    def draw(self, shape: tuple[int, ...]) -> Floats:
        fan_in = int(np.prod(shape[1:]))
        values = self._shuffled(self.trained[shape]) if shape in self.trained else self.random.standard_normal(shape)
        spread = values.reshape(shape[0], -1).std(axis=1).clip(1e-6).reshape(-1, *[1] * (len(shape) - 1))
        values = values / spread * (2 / fan_in) ** 0.5
        kept = self._mask(shape) if self.sparse else np.True_
        drawn: Floats = (values * kept).astype(np.float32)
        return drawn

    def _shuffled(self, candidates: list[Floats]) -> Floats:
        """Which channel is which means nothing to a network that was not trained, so shuffling makes new layers."""
        self.reused += 1
        chosen = candidates[self.reused % len(candidates)]
        rows, columns = (self.random.permutation(size) for size in chosen.shape[:2])
        return chosen[rows][:, columns]

    def _mask(self, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        groups = -(-shape[1] // 4)
        kept = self.random.random((shape[0], groups, *shape[2:])) < 0.5
        return np.repeat(kept, 4, axis=1)[:, : shape[1]]


def zoo_files() -> list[Traversable]:
    """Trained networks that come with the package; always the same, so that results can be compared."""
    folder = files("intrs") / "zoo"
    return [folder / f"{name}.onnx" for name in TRAINED]


def zoo_weights() -> dict[tuple[int, ...], list[Floats]]:
    """Their convolution weights, as integer codes, by shape."""
    found: dict[tuple[int, ...], list[Floats]] = defaultdict(list)
    for file in zoo_files():
        for tensor in onnx.load_model_from_string(file.read_bytes()).graph.initializer:
            if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 4:
                found[tuple(tensor.dims)].append(numpy_helper.to_array(tensor).astype(np.float32))
    return dict(found)


@dataclass
class Graph:
    """Nodes and constants of the graph under construction; each method adds a layer and returns its output."""

    weights: Weights
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, op: str, inputs: list[str], name: str, shape: tuple[int, int, int], **attributes: Any) -> Tensor:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return Tensor(name, shape)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def affine(self, name: str, shape: tuple[int, ...]) -> list[str]:
        bias = self.weights.random.normal(0, 0.1, shape[0]).astype(np.float32)
        return [self.constant(f"{name}.weight", self.weights.draw(shape)), self.constant(f"{name}.bias", bias)]

    def conv(self, x: Tensor, name: str, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> Tensor:
        cin, height, width = x.shape
        pad = kernel // 2
        out = (cout, *((size + 2 * pad - kernel) // stride + 1 for size in (height, width)))
        constants = self.affine(name, (cout, cin // groups, kernel, kernel))
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "group": groups}
        return self.node("Conv", [x.name, *constants], name, (out[0], out[1], out[2]), **sizes)

    def relu(self, x: Tensor) -> Tensor:
        return self.node("Relu", [x.name], f"{x.name}.relu", x.shape)

    def hard_swish(self, x: Tensor) -> Tensor:
        return self.node("HardSwish", [x.name], f"{x.name}.hardswish", x.shape)

    def relu6(self, x: Tensor) -> Tensor:
        limits = [
            self.constant(f"{x.name}.{end}", np.array(value, np.float32)) for end, value in (("low", 0), ("high", 6))
        ]
        return self.node("Clip", [x.name, *limits], f"{x.name}.relu6", x.shape)

    def add(self, a: Tensor, b: Tensor, name: str) -> Tensor:
        return self.node("Add", [a.name, b.name], name, a.shape)

    def max_pool(self, x: Tensor, name: str) -> Tensor:
        channels, height, width = x.shape
        sizes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        return self.node("MaxPool", [x.name], name, (channels, (height + 1) // 2, (width + 1) // 2), **sizes)

    def classify(self, x: Tensor, classes: int) -> None:
        channels = x.shape[0]
        self.scores(self.node("GlobalAveragePool", [x.name], "pool", (channels, 1, 1)), classes)

    def scores(self, x: Tensor, classes: int) -> None:
        """One score per class from a single pixel."""
        channels = x.shape[0]
        flat = self.node("Flatten", [x.name], "flat", (channels, 1, 1), axis=1)
        self.node("Gemm", [flat.name, *self.affine("fc", (classes, channels))], OUTPUT, (classes, 1, 1), transB=1)

    def model(self, size: int, classes: int) -> onnx.ModelProto:
        image = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", 3, size, size])
        logits = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", classes])
        graph = helper.make_graph(self.nodes, "network", [image], [logits], self.constants)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="intrs-bench")
        proto.ir_version = IR_VERSION
        onnx.checker.check_model(proto, full_check=True)
        return proto


def _basic_block(g: Graph, x: Tensor, name: str, width: int, stride: int) -> Tensor:
    y = g.relu(g.conv(x, f"{name}.conv1", width, 3, stride))
    y = g.conv(y, f"{name}.conv2", width, 3)
    changed = stride != 1 or x.shape[0] != width
    shortcut = g.conv(x, f"{name}.shortcut", width, 1, stride) if changed else x
    return g.relu(g.add(y, shortcut, f"{name}.add"))


def resnet20(weights: Weights, size: int = 32) -> onnx.ModelProto:
    """He et al.'s CIFAR ResNet of 6n+2 layers, n = 3, with 1x1 convolutions as shortcuts: 40.8 M multiply-adds."""
    g = Graph(weights)
    x = g.relu(g.conv(Tensor(INPUT, (3, size, size)), "stem", 16, 3))
    for stage, width in enumerate((16, 32, 64)):
        for block in range(3):
            x = _basic_block(g, x, f"blocks.{3 * stage + block}", width, 2 if stage > 0 and block == 0 else 1)
    g.classify(x, 10)
    return g.model(size, 10)


def _bottleneck(g: Graph, x: Tensor, name: str, width: int, stride: int) -> Tensor:
    y = g.relu(g.conv(x, f"{name}.conv1", width, 1))
    y = g.relu(g.conv(y, f"{name}.conv2", width, 3, stride))
    y = g.conv(y, f"{name}.conv3", 4 * width, 1)
    changed = stride != 1 or x.shape[0] != 4 * width
    shortcut = g.conv(x, f"{name}.shortcut", 4 * width, 1, stride) if changed else x
    return g.relu(g.add(y, shortcut, f"{name}.add"))


def resnet50(weights: Weights, size: int = 224) -> onnx.ModelProto:
    """ResNet-50 with the stride in the 3x3 convolution, as all libraries have it."""
    g = Graph(weights)
    x = g.max_pool(g.relu(g.conv(Tensor(INPUT, (3, size, size)), "stem", 64, 7, 2)), "stem.pool")
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            x = _bottleneck(g, x, f"stage{stage}.{block}", width, 2 if stage > 0 and block == 0 else 1)
    g.classify(x, 1000)
    return g.model(size, 1000)


def _inverted_residual(g: Graph, x: Tensor, name: str, expand: int, cout: int, stride: int, kernel: int = 3) -> Tensor:
    hidden = x.shape[0] * expand
    y = g.relu6(g.conv(x, f"{name}.expand", hidden, 1)) if expand != 1 else x
    y = g.relu6(g.conv(y, f"{name}.depthwise", hidden, kernel, stride, groups=hidden))
    y = g.conv(y, f"{name}.project", cout, 1)
    return g.add(y, x, f"{name}.add") if stride == 1 and cout == x.shape[0] else y


def mobilenet_v2(weights: Weights, size: int = 224) -> onnx.ModelProto:
    """MobileNetV2 of width 1."""
    g = Graph(weights)
    x = g.relu6(g.conv(Tensor(INPUT, (3, size, size)), "stem", 32, 3, 2))
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (expand, width, blocks, stride) in enumerate(stages):
        for block in range(blocks):
            x = _inverted_residual(g, x, f"stage{stage}.{block}", expand, width, stride if block == 0 else 1)
    g.classify(g.relu6(g.conv(x, "head", 1280, 1)), 1000)
    return g.model(size, 1000)


def _squeeze_excite(g: Graph, x: Tensor, name: str) -> Tensor:
    """Every channel times a factor in 0 .. 1 that depends on the means of all channels."""
    channels = x.shape[0]
    hidden = max(8, int(channels / 4 + 4) // 8 * 8)
    y = g.node("GlobalAveragePool", [x.name], f"{name}.mean", (channels, 1, 1))
    y = g.conv(g.relu(g.conv(y, f"{name}.squeeze", hidden, 1)), f"{name}.excite", channels, 1)
    y = g.node("HardSigmoid", [y.name], f"{name}.gate", y.shape, alpha=1 / 6)
    return g.node("Mul", [x.name, y.name], f"{name}.scaled", x.shape)


def _block_v3(g: Graph, x: Tensor, name: str, kernel: int, hidden: int, cout: int, form: str, stride: int) -> Tensor:
    """An inverted residual of MobileNetV3; form: R(elu) or H(ardSwish), and S to squeeze and excite."""
    activation = g.relu if "R" in form else g.hard_swish
    y = activation(g.conv(x, f"{name}.expand", hidden, 1)) if hidden != x.shape[0] else x
    y = activation(g.conv(y, f"{name}.depthwise", hidden, kernel, stride, groups=hidden))
    y = _squeeze_excite(g, y, f"{name}.se") if "S" in form else y
    y = g.conv(y, f"{name}.project", cout, 1)
    return g.add(y, x, f"{name}.add") if stride == 1 and cout == x.shape[0] else y


def mobilenet_v3_small(weights: Weights, size: int = 224) -> onnx.ModelProto:
    """MobileNetV3-Small of width 1."""
    g = Graph(weights)
    x = g.hard_swish(g.conv(Tensor(INPUT, (3, size, size)), "stem", 16, 3, 2))
    blocks = (
        *((3, 16, 16, "RS", 2), (3, 72, 24, "R", 2), (3, 88, 24, "R", 1), (5, 96, 40, "HS", 2), (5, 240, 40, "HS", 1)),
        *((5, 240, 40, "HS", 1), (5, 120, 48, "HS", 1), (5, 144, 48, "HS", 1), (5, 288, 96, "HS", 2)),
        *((5, 576, 96, "HS", 1), (5, 576, 96, "HS", 1)),
    )
    for i, block in enumerate(blocks):
        x = _block_v3(g, x, f"block{i}", *block)
    x = g.hard_swish(g.conv(x, "head", 576, 1))
    x = g.node("GlobalAveragePool", [x.name], "pool", (576, 1, 1))
    g.scores(g.hard_swish(g.conv(x, "features", 1024, 1)), 1000)
    return g.model(size, 1000)


def efficientnet_lite0(weights: Weights, size: int = 224) -> onnx.ModelProto:
    """EfficientNet-Lite0: Relu6 for swish, and nothing is squeezed."""
    g = Graph(weights)
    x = g.relu6(g.conv(Tensor(INPUT, (3, size, size)), "stem", 32, 3, 2))
    stages = (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5)),
        *((6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    )
    for stage, (expand, width, blocks, stride, kernel) in enumerate(stages):
        for block in range(blocks):
            x = _inverted_residual(g, x, f"stage{stage}.{block}", expand, width, stride if block == 0 else 1, kernel)
    g.classify(g.relu6(g.conv(x, "head", 1280, 1)), 1000)
    return g.model(size, 1000)


BUILDERS: dict[str, Callable[[Weights, int], onnx.ModelProto]] = {
    "resnet20": resnet20,
    "resnet50": resnet50,
    "mobilenetv2": mobilenet_v2,
    "mobilenetv3": mobilenet_v3_small,
    "efficientnetlite0": efficientnet_lite0,
}


def constants(path: Path) -> dict[str, Floats]:
    """The weights and biases in a float file, by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
