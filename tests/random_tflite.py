"""Random TFLite graphs: every operator that intrs reads, odd shapes and attributes, from a seed; and what runs them.

    graph = random_graph(np.random.default_rng(7))
    graph.data                                           # the file
    tensors_of(graph, codes, "litert")  # by name, as LiteRT's reference kernels compute them

Scales are drawn so that codes spread over the int8 range: a graph of saturated or constant tensors would test nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from intrs.exchange.tflite.pixels import KEY
from intrs.exchange.tflite.schema import Activation, Padding
from intrs.exchange.tflite.writing import Graph, Scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

KERNELS = ((1, 1), (1, 1), (3, 3), (3, 3), (2, 2), (5, 5), (1, 3), (3, 1), (2, 3), (4, 2))
ACTIVATIONS = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
MOST_CHANNELS = 24
SPREAD = 50.0  # codes that a layer's results spread over


@dataclass(frozen=True)
class Tensor:
    """A tensor while the graph is drawn."""

    number: int
    shape: tuple[int, ...]
    scale: float
    zero: int

    @property
    def quantization(self) -> Scale:
        return Scale((self.scale,), (self.zero,))


@dataclass(frozen=True)
class RandomGraph:
    """A file with the scores as its only output, and the same graph with every tensor as an output."""

    data: bytes
    open_data: bytes
    names: tuple[str, ...]  # of the outputs of the second
    operators: tuple[str, ...]
    unsigned: bool


class Drawing:
    """A graph that grows; every method draws one operator behind a tensor."""

    def __init__(self, rng: np.random.Generator, unsigned: bool) -> None:
        self.rng, self.unsigned = rng, unsigned
        self.kind = "u1" if unsigned else "i1"
        self.graph = Graph()
        self.names: list[str] = []
        self.made: list[Tensor] = []
        side = (
            (int(rng.integers(1, 12)), int(rng.integers(1, 12)))
            if rng.random() < 0.5
            else (int(rng.integers(4, 10)),) * 2
        )
        self.made.append(self.tensor((1, *side, int(rng.integers(1, 6))), 1.0, self.zero()))

    def zero(self) -> int:
        """A zero point; the ends and the middle are common."""
        code = int(self.rng.choice([-128, -128, 0, 127, int(self.rng.integers(-128, 128))]))
        return code + 128 if self.unsigned else code

    def scale(self) -> float:
        return float(np.float32(2.0 ** self.rng.uniform(-9, 3)))

    def tensor(self, shape: tuple[int, ...], scale: float, zero: int) -> Tensor:
        scale = float(np.float32(scale))
        number = self.graph.tensor(shape, self.kind, Scale((scale,), (zero,)))
        return Tensor(number, tuple(shape), scale, zero)

    def result(self, name: str, inputs: list[int], out: Tensor, **options: Any) -> Tensor:
        self.graph.operator(name, inputs, [out.number], **options)
        self.names.append(name)
        self.made.append(out)
        return out

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def recent(self) -> Tensor:
        """A tensor with height and width, the later the likelier."""
        images = [t for t in self.made if len(t.shape) == 4]
        return images[-1] if self.rng.random() < 0.75 else self.pick(images)

    # --- operators with weights ---------------------------------------------------------------------------------------

    def window(self, x: Tensor, dilated: bool) -> tuple[tuple[int, int], dict[str, int], tuple[int, int]]:
        """A kernel that fits, its options, and the size of what it gives."""
        while True:
            kernel, stride = self.pick(KERNELS), (int(self.rng.integers(1, 4)), int(self.rng.integers(1, 4)))
            dilation = (
                (int(self.rng.integers(1, 3)), int(self.rng.integers(1, 3)))
                if dilated and self.rng.random() < 0.25
                else (1, 1)
            )
            if dilation != (1, 1):
                stride = (1, 1)  # kernels take one or the other
            padding = self.pick((Padding.SAME, Padding.VALID))
            extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
            if padding == Padding.SAME:
                size = tuple(-(-n // s) for n, s in zip(x.shape[1:3], stride, strict=True))
            elif all(e <= n for e, n in zip(extent, x.shape[1:3], strict=True)):
                size = tuple((n - e) // s + 1 for n, e, s in zip(x.shape[1:3], extent, stride, strict=True))
            else:
                continue
            options = {"padding": int(padding), "stride_h": stride[0], "stride_w": stride[1]}
            if dilated:
                options |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}
            return kernel, options, (size[0], size[1])

    def weights(self, shape: tuple[int, ...], axis: int, terms: int, x: Tensor) -> tuple[int, int, float]:
        """Numbers of weights and bias (-1: none), and the scale of the output over which results spread."""
        channels, rng = shape[axis], self.rng
        per_channel = not self.unsigned and rng.random() < 0.7
        base = self.scale()
        scales = tuple(
            float(np.float32(base * s)) for s in (2.0 ** rng.uniform(-1, 1, channels) if per_channel else [1.0])
        )
        if self.unsigned:
            zero = int(rng.choice([128, 127, int(rng.integers(100, 156))]))
            reach = min(zero, 255 - zero)  # so that weights less the zero point fit 8 bits
            values = rng.integers(zero - reach, zero + reach + 1, shape)
        else:
            zero, values = 0, rng.integers(-127, 128, shape)
        quantization = Scale(scales, (zero,) * len(scales), axis if per_channel else 0)
        held = self.graph.constant(values, self.kind, quantization)
        products = tuple(float(np.float32(s) * np.float32(x.scale)) for s in scales)
        spread = 70.0 * 70.0 * float(np.sqrt(terms))
        added = -1
        if (len(shape) == 4 and axis == 0) or rng.random() < 0.8:  # LiteRT's CONV_2D demands one
            bias = (rng.normal(0, spread / 2, channels)).astype(np.int64)
            added = self.graph.constant(bias, "i4", Scale(products, (0,) * len(products), 0))
        return held, added, base * x.scale * spread / SPREAD * 2.0 ** float(rng.uniform(-1, 1))

    def activation(self, scale: float) -> tuple[int, float]:
        """A fused activation, and the scale of the output at which it cuts something."""
        activation = self.pick(ACTIVATIONS)
        if activation in (Activation.RELU6, Activation.RELU_N1_TO_1):
            scale = float(np.float32({Activation.RELU6: 6.0}.get(activation, 1.0) / self.rng.uniform(30, 240)))
        return int(activation), scale

    def convolution(self, x: Tensor, kernel: tuple[int, int] | None = None, outputs: int = 0) -> Tensor:
        found, options, size = self.window(x, dilated=True)
        if kernel is not None:
            found, size = kernel, (1, 1)
            options = {"padding": int(Padding.VALID), "stride_h": 1, "stride_w": 1}
        outputs = outputs or int(self.rng.integers(1, 10))
        depth = x.shape[3]
        if kernel is None and depth > 1 and self.rng.random() < 0.15:  # groups of channels
            outputs, depth = 2 * depth, max(d for d in range(1, depth) if depth % d == 0)
        held, added, scale = self.weights((outputs, *found, depth), 0, found[0] * found[1] * depth, x)
        return self.linear("CONV_2D", x, [held, added], (1, *size, outputs), scale, options)

    def depthwise(self, x: Tensor) -> Tensor:
        kernel, options, size = self.window(x, dilated=True)
        multiplier = int(self.pick((1, 1, 1, 2, 3)))
        outputs = x.shape[3] * multiplier
        held, added, scale = self.weights((1, *kernel, outputs), 3, kernel[0] * kernel[1], x)
        options["depth_multiplier"] = multiplier
        return self.linear("DEPTHWISE_CONV_2D", x, [held, added], (1, *size, outputs), scale, options)

    def linear(
        self, name: str, x: Tensor, others: list[int], shape: tuple[int, ...], scale: float, options: dict[str, int]
    ) -> Tensor:
        """An operator with weights; the scale of its input stays as it is, so that of the weights must follow."""
        activation, wanted = self.activation(scale)
        if wanted != scale:  # change the weights' scales by the same factor
            self.rescale(others, wanted / scale)
            scale = wanted
        absent = name == "FULLY_CONNECTED" and self.rng.random() < 0.5  # the others must leave the input out
        inputs = [x.number, *others] if others[1] >= 0 or absent else [x.number, others[0]]
        out = self.tensor(shape, scale, self.zero())
        return self.result(name, inputs, out, fused_activation_function=activation, **options)

    def rescale(self, constants: list[int], factor: float) -> None:
        for number in constants:
            if number >= 0:
                quantization = self.graph.tensors[number]["quantization"]
                quantization["scale"] = (quantization["scale"] * np.float32(factor)).astype(np.float32)

    def fully_connected(self, x: Tensor, outputs: int = 0) -> Tensor:
        """FULLY_CONNECTED of all values of an image."""
        terms = int(np.prod(x.shape))
        if len(x.shape) != 2 and self.rng.random() < 0.5:
            x = self.flatten(x)
        outputs = outputs or int(self.rng.integers(2, 8))
        per_channel = not self.unsigned and self.rng.random() < 0.2
        make = self.weights if per_channel else self.one_scale
        held, added, scale = make((outputs, terms), 0, terms, x)
        return self.linear("FULLY_CONNECTED", x, [held, added], (1, outputs), scale, {})

    def one_scale(self, shape: tuple[int, ...], axis: int, terms: int, x: Tensor) -> tuple[int, int, float]:
        """Weights with one scale for all."""
        held, added, scale = self.weights(shape, axis, terms, x)
        for number in (held, added):
            if number >= 0:
                quantization = self.graph.tensors[number]["quantization"]
                quantization["scale"], quantization["zero_point"] = (
                    quantization["scale"][:1],
                    quantization["zero_point"][:1],
                )
        return held, added, scale

    # --- operators of activations -------------------------------------------------------------------------------------

    def partner(self, x: Tensor) -> Tensor:
        """Another tensor that broadcasts with x: one of the same shape, a pixel, or x itself."""
        same = [t for t in self.made if t.shape == x.shape and t.number != x.number]
        if same and self.rng.random() < 0.7:
            return same[int(self.rng.integers(len(same)))]
        if self.rng.random() < 0.5:
            return self.mean(x, keep=True)
        return self.convolution_like(x)

    def convolution_like(self, x: Tensor) -> Tensor:
        """A tensor of the same shape, by a convolution of one tap."""
        depth = x.shape[3]
        held, added, scale = self.weights((depth, 1, 1, depth), 0, depth, x)
        options = {"padding": int(Padding.SAME), "stride_h": 1, "stride_w": 1}
        return self.linear("CONV_2D", x, [held, added], x.shape, scale, options)

    def stored(self, x: Tensor) -> Tensor:
        """A constant for one side of ADD, SUB or MUL: a number for all, or one per channel."""
        depth = x.shape[3]
        shape = self.pick(((), (1,), (depth,), (1, 1, 1, depth)))
        scale, zero = self.scale(), self.zero()
        low, high = (0, 256) if self.unsigned else (-128, 128)
        number = self.graph.constant(self.rng.integers(low, high, shape), self.kind, Scale((scale,), (zero,)))
        return Tensor(number, shape, scale, zero)

    def two(self, name: str, x: Tensor) -> Tensor:
        y = self.stored(x) if self.rng.random() < 0.25 else self.partner(x)
        pair = (x, y) if self.rng.random() < 0.5 else (y, x)
        scale = max(x.scale, y.scale) * 2.0 ** float(self.rng.uniform(-0.5, 1.5))
        if name == "MUL":
            scale = x.scale * y.scale * 2.0 ** float(self.rng.uniform(4, 7))
        shape = np.broadcast_shapes(x.shape, y.shape)
        activation = int(self.pick(ACTIVATIONS))
        out = self.tensor(shape, scale, self.zero())
        return self.result(name, [t.number for t in pair], out, fused_activation_function=activation)

    def pool(self, name: str, x: Tensor) -> Tensor:
        kernel, options, size = self.window(x, dilated=False)
        out = self.tensor((1, *size, x.shape[3]), x.scale, x.zero)
        options |= {"filter_height": kernel[0], "filter_width": kernel[1]}
        return self.result(name, [x.number], out, fused_activation_function=int(self.pick(ACTIVATIONS)), **options)

    def mean(self, x: Tensor, keep: bool | None = None) -> Tensor:
        keep = bool(self.rng.random() < 0.5) if keep is None else keep
        axes = self.graph.constant(self.pick(([1, 2], [2, 1], [-3, -2])))
        same = self.rng.random() < 0.3
        scale = x.scale if same else x.scale * 2.0 ** float(self.rng.uniform(-2, 0.5))
        shape = (1, 1, 1, x.shape[3]) if keep else (1, x.shape[3])
        out = self.tensor(shape, scale, x.zero if same else self.zero())
        return self.result("MEAN", [x.number, axes], out, keep_dims=keep)

    def pad(self, x: Tensor) -> Tensor:
        sizes = self.rng.integers(0, 3, (2, 2))
        out = self.tensor((1, *(x.shape[1 + i] + int(sizes[i].sum()) for i in (0, 1)), x.shape[3]), x.scale, x.zero)
        return self.result("PAD", [x.number, self.graph.constant([[0, 0], *sizes.tolist(), [0, 0]])], out)

    def flatten(self, x: Tensor) -> Tensor:
        """RESHAPE or SQUEEZE to two axes, the shape as a constant or computed."""
        size = int(np.prod(x.shape))
        out = self.tensor((1, size), x.scale, x.zero)
        if x.shape[:3] == (1, 1, 1) and self.rng.random() < 0.5:
            return self.result("SQUEEZE", [x.number], out, squeeze_dims=np.array([1, 2]))
        way = self.rng.random()
        if way < 0.3:
            return self.result("RESHAPE", [x.number, self.computed_shape(x, size)], out)
        wanted = np.array([1, size] if way < 0.6 else [-1, size])
        return self.result("RESHAPE", [x.number, self.graph.constant(wanted)], out, new_shape=wanted)

    def computed_shape(self, x: Tensor, size: int) -> int:
        """(batch, size) as converters compute it: SHAPE, STRIDED_SLICE, PACK."""
        shape = self.graph.tensor((4,), "i4")
        self.graph.operator("SHAPE", [x.number], [shape], out_type=2)
        batch = self.graph.tensor((), "i4")
        ends = [self.graph.constant([value]) for value in (0, 1, 1)]
        self.graph.operator("STRIDED_SLICE", [shape, *ends], [batch], shrink_axis_mask=1)
        packed = self.graph.tensor((2,), "i4")
        self.graph.operator("PACK", [batch, self.graph.constant(size)], [packed], values_count=2, axis=0)
        self.names += ["SHAPE", "STRIDED_SLICE", "PACK"]
        return packed

    def concatenation(self, x: Tensor) -> Tensor:
        """Along channels, or sometimes along height or width; inputs of one grid, as int8 kernels demand."""
        axis = int(self.pick((3, 3, 3, 1, 2, -1)))
        others = [
            self.requantise(self.convolution_like(x), x.scale, x.zero) for _ in range(int(self.rng.integers(1, 3)))
        ]
        parts = [x, *others] if self.rng.random() < 0.7 else [*others, x]
        shape = list(x.shape)
        shape[axis] = sum(t.shape[axis] for t in parts)
        out = self.tensor(tuple(shape), x.scale, x.zero)
        return self.result("CONCATENATION", [t.number for t in parts], out, axis=axis)

    def requantise(self, x: Tensor, scale: float | None = None, zero: int | None = None) -> Tensor:
        scale = x.scale * 2.0 ** float(self.rng.uniform(-1, 1)) if scale is None else scale
        out = self.tensor(x.shape, scale, self.zero() if zero is None else zero)
        return self.result("QUANTIZE", [x.number], out)

    def rectify(self, name: str, x: Tensor) -> Tensor:
        same = self.rng.random() < 0.3
        scale = x.scale if same else x.scale * 2.0 ** float(self.rng.uniform(-1, 1))
        out = self.tensor(x.shape, scale, x.zero if same else self.zero())
        options = {"alpha": float(self.rng.uniform(0.01, 0.5))} if name == "LEAKY_RELU" else {}
        return self.result(name, [x.number], out, **options)

    def curve(self, name: str, x: Tensor) -> Tensor:
        """LOGISTIC, TANH or HARD_SWISH of values of the size that they are for."""
        x = self.requantise(x, float(np.float32(self.rng.uniform(2, 8) / 128)))
        scale, zero = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(name, (0.0, 0))
        if not scale:
            scale, zero = x.scale * float(self.rng.uniform(0.4, 1.2)), self.zero()
        elif self.unsigned:
            zero += 128
        return self.result(name, [x.number], self.tensor(x.shape, scale, zero))

    # --- whole graphs -------------------------------------------------------------------------------------------------

    def head(self) -> Tensor:
        """From the last image to two axes of scores."""
        x, way = self.made[-1], self.rng.random()
        classes = int(self.rng.integers(2, 12))
        if len(x.shape) != 4:
            return x if x.shape[1] > 1 and way < 0.5 else self.fully_connected(x, classes)
        if way < 0.35:
            x = self.mean(x)
        elif way < 0.5:
            x = self.whole_pool(x)
        elif way < 0.65:
            return self.flatten(self.convolution(x, (x.shape[1], x.shape[2]), classes))
        if len(x.shape) == 2 and x.shape[1] > 1 and self.rng.random() < 0.2:
            return x
        return self.fully_connected(x, classes)

    def whole_pool(self, x: Tensor) -> Tensor:
        name = self.pick(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
        out = self.tensor((1, 1, 1, x.shape[3]), x.scale, x.zero)
        window = {"filter_height": x.shape[1], "filter_width": x.shape[2], "padding": int(Padding.VALID)}
        return self.result(name, [x.number], out, stride_h=1, stride_w=1, **window)

    def finish(self, scores: Tensor, noted: bool = False) -> RandomGraph:
        """The file, sometimes with SOFTMAX or DEQUANTIZE behind the scores; `noted`: metadata hold a quantiser."""
        last, way = scores.number, self.rng.random()
        if way < 0.2:
            last = self.graph.tensor(scores.shape, self.kind, Scale((1 / 256,), (0 if self.unsigned else -128,)))
            self.graph.operator("SOFTMAX", [scores.number], [last], beta=1.0)
            self.names.append("SOFTMAX")
        elif way < 0.3:
            last = self.graph.tensor(scores.shape, "f4")
            self.graph.operator("DEQUANTIZE", [scores.number], [last])
            self.names.append("DEQUANTIZE")
        elif way < 0.4:
            last = self.graph.tensor((1,), "i4")
            self.graph.operator("ARG_MAX", [scores.number, self.graph.constant(1)], [last], output_type=2)
            self.names.append("ARG_MAX")
        image, names = self.made[0].number, tuple(str(self.graph.tensors[t.number]["name"]) for t in self.made[1:])
        opened = self.graph.to_bytes([image], [t.number for t in self.made[1:]])
        notes = {KEY: self.quantiser().encode()} if noted else {}
        if not noted and self.rng.random() < 0.2:
            image = self.float_image()
        return RandomGraph(self.graph.to_bytes([image], [last], notes), opened, names, tuple(self.names), self.unsigned)

    def quantiser(self) -> str:
        """Pixels less 128 are the codes, to which the first tensor's scale and zero point say nothing."""
        rows = {"low": 0, "high": 255, "multiplier": 1, "offset": -128}
        return json.dumps({name: [value] * self.made[0].shape[3] for name, value in rows.items()} | {"shift": 0})

    def float_image(self) -> int:
        """An image of floats, which QUANTIZE makes codes of."""
        codes = self.made[0]
        image = self.graph.tensor(codes.shape, "f4")
        self.graph.operator("QUANTIZE", [image], [codes.number])
        self.graph.operators.insert(0, self.graph.operators.pop())
        return image


KINDS: dict[str, Callable[[Drawing, Tensor], Tensor]] = {
    "CONV_2D": Drawing.convolution,
    "DEPTHWISE_CONV_2D": Drawing.depthwise,
    "ADD": lambda d, x: d.two("ADD", x),
    "SUB": lambda d, x: d.two("SUB", x),
    "MUL": lambda d, x: d.two("MUL", x),
    "AVERAGE_POOL_2D": lambda d, x: d.pool("AVERAGE_POOL_2D", x),
    "MAX_POOL_2D": lambda d, x: d.pool("MAX_POOL_2D", x),
    "MEAN": lambda d, x: d.mean(x, keep=True),
    "PAD": Drawing.pad,
    "CONCATENATION": Drawing.concatenation,
    "QUANTIZE": Drawing.requantise,
    "RELU": lambda d, x: d.rectify("RELU", x),
    "RELU6": lambda d, x: d.rectify("RELU6", x),
    "LEAKY_RELU": lambda d, x: d.rectify("LEAKY_RELU", x),
    "LOGISTIC": lambda d, x: d.curve("LOGISTIC", x),
    "TANH": lambda d, x: d.curve("TANH", x),
    "HARD_SWISH": lambda d, x: d.curve("HARD_SWISH", x),
}  # what may stand in the middle of a graph
ENDS = ("FULLY_CONNECTED", "RESHAPE", "SQUEEZE", "SOFTMAX", "DEQUANTIZE", "ARG_MAX", "SHAPE", "STRIDED_SLICE", "PACK")
UNSIGNED_KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "PAD")


def random_graph(
    rng: np.random.Generator, first: str = "", unsigned: bool = False, most: int = 4, noted: bool = False
) -> RandomGraph:
    """A graph of 1 to `most` random operators, of which `first` is the first, and a head."""
    drawing = Drawing(rng, unsigned)
    kinds = UNSIGNED_KINDS if unsigned else tuple(KINDS)
    names = [first or str(rng.choice(kinds)), *(str(rng.choice(kinds)) for _ in range(int(rng.integers(0, most))))]
    for name in names:
        x = drawing.recent()
        if name == "CONCATENATION" and x.shape[3] > MOST_CHANNELS:
            continue
        KINDS[name](drawing, x)
    return drawing.finish(drawing.head(), noted)


def tensors_of(graph: RandomGraph, codes: NDArray[Any], dialect: str) -> dict[str, NDArray[Any]]:
    """All tensors of codes, by name, for one image of codes (1, height, width, channels)."""
    run = {"litert": _litert, "tflm": _micro}[dialect]
    return dict(zip(graph.names, run(graph, codes), strict=True))


def need_oracles() -> None:
    """Skip a test where the reference kernels are not installed."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: pip install ai-edge-litert")
    pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: pip install tflite-micro")


def _litert(graph: RandomGraph, codes: NDArray[Any]) -> list[NDArray[Any]]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # type: ignore[import-untyped]

    kernels = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(model_content=graph.open_data, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], codes)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def _micro(graph: RandomGraph, codes: NDArray[Any]) -> list[NDArray[Any]]:
    from tflite_micro.python.tflite_micro import runtime  # type: ignore[import-untyped]

    interpreter = runtime.Interpreter.from_bytes(graph.open_data)
    interpreter.set_input(codes, 0)
    interpreter.invoke()
    return [interpreter.get_output(i) for i in range(len(graph.names))]
