"""What becomes of each operation of a user's module: the layer of `quant.py` that stands for it, or why none does."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from intrs.training.graphs import Call, Refused, Value
from intrs.training.quant import NORMS, Affine, ConvBN, ConvWindow, Linear

if TYPE_CHECKING:
    from collections.abc import Callable

TRANSFORMER = "networks of integer layers have no {0}: transformers cannot be lowered"
PADDING = "only padding by zeros can be quantized"
TWICE = "it is used twice; give each use a layer of its own"

# --- Layers with weights ---------------------------------------------------------------------------------------------


def _conv(call: Call) -> Value:
    layer = call.layer
    if not isinstance(layer, nn.Conv2d):
        raise Refused("convolutions must be layers (nn.Conv2d), not calls with weights of their own")
    if layer.padding_mode != "zeros":
        raise Refused(PADDING)
    window = ConvWindow(_pair(layer.stride), _same_padding(layer), _pair(layer.dilation), layer.groups)
    return _product(call, lambda bn: ConvBN.of(layer.weight, layer.bias, window, bn))


def _same_padding(layer: nn.Conv2d) -> tuple[int, int]:
    if not isinstance(layer.padding, str):
        return _pair(layer.padding)
    spans = [
        d * (k - 1) if layer.padding == "same" else 0 for d, k in zip(layer.dilation, layer.kernel_size, strict=True)
    ]
    if any(span % 2 for span in spans):
        raise Refused("padding 'same' of an even kernel is not the same on both sides: put nn.ZeroPad2d in front")
    return spans[0] // 2, spans[1] // 2


def _linear(call: Call) -> Value:
    layer = call.layer
    if not isinstance(layer, nn.Linear):
        raise Refused("fully connected layers must be layers (nn.Linear), not calls with weights of their own")
    if len(call.after) != 2:
        raise Refused("it is applied to more than one vector per image, as transformers do")
    return _product(call, lambda bn: Linear.of(layer, bn))


def _product(call: Call, make: Callable[[nn.Module | None], nn.Module]) -> Value:
    """The layer, with the batch normalisation that alone follows it."""
    work, node = call.work, call.node
    if str(node.target) in work.used:
        raise Refused(TWICE)
    users = list(node.users)
    bn = None
    if len(users) == 1 and users[0].op == "call_module":
        follower = work.traced.get_submodule(str(users[0].target))
        if isinstance(follower, NORMS) and str(users[0].target) not in work.used:
            bn, work.merged[users[0]] = _norm(follower), node
            work.used.add(str(users[0].target))
    return call.module(make(bn), work.codes(call.value()))


def _norm(layer: nn.Module) -> nn.Module:
    assert isinstance(layer, NORMS)
    if layer.running_mean is None:
        raise Refused("batch normalisation without running statistics depends on the other images of a batch")
    if layer.weight is None:  # one with a factor and a summand begins as it does
        layer.weight = nn.Parameter(torch.ones(layer.num_features))
        layer.bias = nn.Parameter(torch.zeros(layer.num_features))
        layer.affine = True
    return layer


def _batch_norm(call: Call) -> Value:
    """Part of the product before it; elsewhere a depthwise 1x1 convolution by ones, which it then normalises."""
    if call.node in call.work.merged:
        return call.work.values[call.work.merged[call.node]]
    layer = call.layer
    if not isinstance(layer, nn.BatchNorm2d):
        raise Refused("batch normalisation must be a layer, of images or directly behind nn.Linear")
    if str(call.node.target) in call.work.used:
        raise Refused(TWICE)
    ones = nn.Parameter(torch.ones(layer.num_features, 1, 1, 1), requires_grad=False)
    window = ConvWindow((1, 1), (0, 0), (1, 1), layer.num_features)
    return call.module(ConvBN.of(ones, None, window, _norm(layer)), call.work.codes(call.value()))


# --- Functions of one activation -------------------------------------------------------------------------------------


def _relu(call: Call) -> Value:
    value = _unrounded(call)
    return value if value.positive else call.function(torch.relu, value.node, positive=True)


def _clamp(call: Call) -> Value:
    """ReLU6, Hardtanh, clamp: like ReLU in front of the quantizer."""
    name = call.work.name_of(call.node)[0]
    low, high = (0.0, 6.0) if name == "relu6" else (
        (call.setting("min_val", 1, -1.0), call.setting("max_val", 2, 1.0)) if name == "hardtanh"
        else (call.setting("min", 1), call.setting("max", 2))
    )  # fmt: skip
    if not all(isinstance(bound, int | float | None) for bound in (low, high)):
        raise Refused("its bounds must be numbers")
    if high is None and low == 0:
        return _relu(call)
    if low is None or high is None or low > 0 or high < 0:
        raise Refused("its bounds must lie on either side of 0")
    return call.module(nn.Hardtanh(float(low), float(high)), _unrounded(call), positive=low >= 0)


def _unrounded(call: Call) -> Value:
    """The input as it was computed if nobody else wants it, else its codes."""
    value, source = call.value(), call.node.all_input_nodes[0]
    computed = not value.codes and not value.image and value.node not in call.work.quantized
    return value if computed and len(source.users) == 1 else call.work.codes(value)


def _table(make: Callable[[Call], nn.Module], positive: bool = False) -> Callable[[Call], Value]:
    """A function of one code: an integer engine looks it up."""

    def take(call: Call) -> Value:
        return call.module(make(call), call.work.codes(call.value()), positive=positive)

    return take


def _gelu(call: Call) -> nn.Module:
    return nn.GELU(str(call.setting("approximate", 1, "none")))


def _softplus(call: Call) -> nn.Module:
    if (call.setting("beta", 1, 1), call.setting("threshold", 2, 20)) != (1, 20):
        raise Refused("only beta 1 and threshold 20 have a form in ONNX")
    return nn.Softplus()


def _prelu(call: Call) -> nn.Module:
    if not isinstance(call.layer, nn.PReLU):
        raise Refused("it must be a layer (nn.PReLU)")
    if call.layer.weight.numel() != 1:
        raise Refused("only one slope for all channels can be quantized: nn.PReLU()")
    if str(call.node.target) in call.work.used:
        raise Refused(TWICE)
    return call.layer


# --- Several activations, pools, and what moves codes ----------------------------------------------------------------


def _add(call: Call) -> Value:
    first, second = call.node.args[:2]
    if call.node.kwargs.get("alpha", 1) != 1:
        raise Refused("a factor (alpha) cannot be quantized here; multiply before you add")
    for given, other in ((first, second), (second, first)):
        if (number := call.constant(other)) is not None:
            return _affine(call, given, None, number)
    a, b = (call.work.codes(call.value_of(given)) for given in (first, second))
    return call.function(operator.add, a.node, b.node, positive=a.positive and b.positive)


def _sub(call: Call) -> Value:
    if (number := call.constant(call.node.args[1])) is None:
        raise Refused("a difference of two activations has no layer here; multiply one by -1 and add")
    return _affine(call, call.node.args[0], None, -number)


def _mul(call: Call) -> Value:
    first, second = call.node.args[:2]
    for given, other in ((first, second), (second, first)):
        if (number := call.constant(other)) is not None:
            return _affine(call, given, number, None)
    a, b = (call.work.codes(call.value_of(given)) for given in (first, second))
    return call.function(operator.mul, a.node, b.node, positive=a.positive and b.positive)


def _div(call: Call) -> Value:
    if (number := call.constant(call.node.args[1])) is None or call.node.kwargs:
        raise Refused("a quotient of two activations has no layer here")
    return _affine(call, call.node.args[0], 1 / number, None)


def _affine(call: Call, given: object, factor: Tensor | None, summand: Tensor | None) -> Value:
    """A constant factor or summand: on the image it is normalisation, elsewhere a layer of its own."""
    value = call.value_of(given)
    if (factor is None or bool((factor == 1).all())) and (summand is None or bool((summand == 0).all())):
        return value
    layer = Affine(*(None if c is None else _by_channel(c, call.after) for c in (factor, summand)))
    if value.image:
        return call.module(layer, value, image=True)
    positive = value.positive and all(c is None or bool((c >= 0).all()) for c in (factor, summand))
    return call.module(layer, call.work.codes(value), positive=positive)


def _by_channel(constant: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A constant in the form in which it goes with tensors of a shape: rank 0, or one per channel."""
    if constant.numel() == 1:
        return constant.reshape(())
    wanted = (1, shape[1], *[1] * (len(shape) - 2))
    if constant.numel() != shape[1] or any(a != b for a, b in zip(constant.shape[::-1], wanted[::-1], strict=False)):
        raise Refused("a constant must be one number, or one per channel")
    return constant.reshape(wanted)


def _concat(call: Call) -> Value:
    given, axis = call.node.args[0], call.setting("dim", 1, 0)
    if axis not in (1, 1 - len(call.after)) or not isinstance(given, list | tuple):
        raise Refused("only channels can be put together (dim=1)")
    parts = [call.work.codes(call.value_of(each)) for each in given]
    return call.function(torch.cat, [part.node for part in parts], 1, positive=all(part.positive for part in parts))


def _max_pool(call: Call) -> Value:
    if call.setting("return_indices", 6, False) or _pair(call.setting("dilation", 4, 1)) != (1, 1):
        raise Refused("only a pool without dilation that returns no indices can be quantized")
    kernel, stride, padding, ceil = _pool(call)
    return call.moved(nn.MaxPool2d(kernel, stride, padding, ceil_mode=ceil))


def _average(call: Call) -> Value:
    kernel, stride, padding, ceil = _pool(call)
    if call.setting("divisor_override", 6) is not None:
        raise Refused("divisor_override cannot be quantized")
    value = call.work.codes(call.value())
    counted = bool(call.setting("count_include_pad", 5, True))
    return call.module(nn.AvgPool2d(kernel, stride, padding, ceil, counted), value, positive=value.positive)


def _pool(call: Call) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], bool]:
    kernel = _pair(call.setting("kernel_size", 1))
    stride = call.setting("stride", 2)
    place = 5 if call.layer is None and "max" in call.work.name_of(call.node)[0] else 4
    ceil = bool(call.setting("ceil_mode", place, False))
    return kernel, kernel if stride in (None, ()) else _pair(stride), _pair(call.setting("padding", 3, 0)), ceil


def _adaptive(call: Call, layer: type[nn.Module]) -> tuple[nn.Module | None, tuple[int, int]]:
    """The pool of fixed windows that gives so many results; None if it does nothing."""
    before, after = call.before[2:], call.after[2:]
    if any(size % count for size, count in zip(before, after, strict=True)):
        raise Refused(f"{before[0]} x {before[1]} values do not divide evenly into {after[0]} x {after[1]}")
    kernel = (before[0] // after[0], before[1] // after[1])
    return (layer(kernel, kernel) if kernel != (1, 1) else None), kernel


def _adaptive_average(call: Call) -> Value:
    if call.after[2:] == (1, 1):
        return _global_average(call)
    layer, _ = _adaptive(call, nn.AvgPool2d)
    value = call.work.codes(call.value())
    return value if layer is None else call.module(layer, value, positive=value.positive)


def _adaptive_max(call: Call) -> Value:
    layer, _ = _adaptive(call, nn.MaxPool2d)
    return call.value() if layer is None else call.moved(layer)


def _global_average(call: Call) -> Value:
    value = call.work.codes(call.value())
    return call.module(nn.AdaptiveAvgPool2d(1), value, positive=value.positive)


def _mean(call: Call) -> Value:
    axes = call.setting("dim", 1)
    axes = sorted(axis % 4 for axis in axes) if isinstance(axes, list | tuple) else axes
    if len(call.before) != 4 or axes != [2, 3]:
        raise Refused("only the mean over height and width can be quantized")
    found = _global_average(call)
    if len(call.after) == 4:
        return found
    flat = call.work.graph.call_function(
        torch.flatten, ((found if call.at_the_end else call.work.codes(found)).node, 1)
    )
    flat.meta["path"] = f"{call.work.path(call.node)}_flat"
    return Value(flat, found.positive, codes=not call.at_the_end)


def _reshape(call: Call) -> Value:
    """Whatever it is called: what counts is the shape that it gives."""
    before, after = call.before, call.after
    if before == after:
        return call.value()
    if before[0] != after[0]:
        raise Refused("it mixes the images of a batch")
    if len(after) == 2:
        return call.moved()
    if len(before) == 2 and len(after) == 4 and after[2:] == (1, 1):
        return call.moved(nn.Unflatten(1, (after[1], 1, 1)))
    raise Refused(f"a shape {list(before[1:])} can become a vector, but not {list(after[1:])}")


def _pad(call: Call) -> Value:
    if call.layer is not None:
        sides: Any = call.layer.padding
        value, mode = getattr(call.layer, "value", 0), "constant"
    else:
        sides = call.setting("pad", 1)
        mode, value = call.setting("mode", 2, "constant"), call.setting("value", 3, 0)
        if not isinstance(sides, list | tuple) or len(sides) != 4:
            raise Refused("only height and width can be padded, by numbers on four sides")
    if mode != "constant" or value not in (0, None):
        raise Refused(PADDING)
    return call.moved(nn.ZeroPad2d(tuple(sides)))


def _dropout(call: Call) -> Value:
    """Nothing in evaluation; a layer of it stays active in training."""
    if not isinstance(call.layer, nn.Dropout | nn.Dropout2d):
        return call.value()
    value = call.value()
    if value.image:
        return value
    value = value if call.at_the_end else call.work.codes(value)
    layer = type(call.layer)(call.layer.p)
    return call.module(layer, value, positive=value.positive, codes=value.codes)


def _same(call: Call) -> Value:
    return call.value()


def _softmax(call: Call) -> Value:
    """At the end it is dropped: the largest logit stays where it is, and the loss has a softmax of its own."""
    if not call.at_the_end:
        raise Refused(TRANSFORMER.format("softmax between layers"))
    call.work.softmax = "log" if "log" in call.spelt else "plain"
    return call.value()


def _pair(value: Any) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, list | tuple) else ()
    if len(pair) == 1:
        pair *= 2
    if len(pair) != 2 or not all(isinstance(size, int) for size in pair):
        raise Refused(f"its sizes must be whole numbers, not {value!r}")
    return pair


OPERATIONS: dict[str, Callable[[Call], Value]] = {
    "conv2d": _conv,
    "linear": _linear,
    "batch_norm": _batch_norm,
    "relu": _relu,
    "relu6": _clamp,
    "hardtanh": _clamp,
    "clamp": _clamp,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "cat": _concat,
    "max_pool2d": _max_pool,
    "avg_pool2d": _average,
    "adaptive_avg_pool2d": _adaptive_average,
    "adaptive_max_pool2d": _adaptive_max,
    "mean": _mean,
    "reshape": _reshape,
    "pad": _pad,
    "dropout": _dropout,
    "identity": _same,
    "softmax": _softmax,
    "sigmoid": _table(lambda _: nn.Sigmoid(), positive=True),
    "hardsigmoid": _table(lambda _: nn.Hardsigmoid(), positive=True),
    "hardswish": _table(lambda _: nn.Hardswish()),
    "silu": _table(lambda _: nn.SiLU()),
    "tanh": _table(lambda _: nn.Tanh()),
    "leaky_relu": _table(lambda call: nn.LeakyReLU(float(call.setting("negative_slope", 1, 0.01)))),
    "elu": _table(lambda call: nn.ELU(float(call.setting("alpha", 1, 1.0)))),
    "selu": _table(lambda _: nn.SELU()),
    "gelu": _table(_gelu),
    "mish": _table(lambda _: nn.Mish()),
    "softplus": _table(_softplus, positive=True),
    "prelu": _table(_prelu),
}
NAMES = {
    "batchnorm1d": "batch_norm", "batchnorm2d": "batch_norm", "iadd": "add", "isub": "sub", "imul": "mul",
    "truediv": "div", "itruediv": "div", "divide": "div", "subtract": "sub", "multiply": "mul", "concat": "cat",
    "concatenate": "cat", "maxpool2d": "max_pool2d", "avgpool2d": "avg_pool2d", "clip": "clamp",
    "adaptiveavgpool2d": "adaptive_avg_pool2d", "adaptivemaxpool2d": "adaptive_max_pool2d", "flatten": "reshape",
    "view": "reshape", "squeeze": "reshape", "unsqueeze": "reshape", "unflatten": "reshape", "zeropad2d": "pad",
    "constantpad2d": "pad", "dropout2d": "dropout", "feature_dropout": "dropout", "stochastic_depth": "dropout",
    "contiguous": "identity", "float": "identity", "clone": "identity", "detach": "identity", "leakyrelu": "leaky_relu",
    "log_softmax": "softmax", "logsoftmax": "softmax",
}  # fmt: skip
WHY_NOT = {
    "layernorm": TRANSFORMER.format("LayerNorm"), "layer_norm": TRANSFORMER.format("LayerNorm"),
    "multiheadattention": TRANSFORMER.format("attention"), "matmul": TRANSFORMER.format("product of two activations"),
    "scaled_dot_product_attention": TRANSFORMER.format("attention"),
    "bmm": TRANSFORMER.format("product of two activations"),
    "groupnorm": "its statistics depend on the image, so that it cannot be folded; use batch normalisation",
    "instancenorm2d": "its statistics depend on the image, so that it cannot be folded; use batch normalisation",
    "conv1d": "only images, not sequences, can be convolved (nn.Conv2d)",
    "convtranspose2d": "transposed convolutions have no layer here",
}  # fmt: skip
