"""Fake quantization: the layers that train in float and end as integers.

A network is written once, from the layers below, and takes three forms:

1. *float*: the activation quantizers are identities and the weights are used as they are;
2. *quantization-aware*: weights and activations are rounded in the forward pass, gradients pass straight through, batch
   normalisation stays live;
3. *folded* (:func:`fold`): batch normalisation is folded away and every layer holds the integers that go into the file.

Weights are int8, symmetric, scaled by each output channel's largest magnitude.  That scale commutes with the factor of
the batch normalisation that follows, so folding it changes no weight code: form 3 differs from form 2 only by the
rounding of the bias to int32 and of float sums.  Activations are uint8 with one learnt scale a tensor (LSQ, Esser et
al. 2020), zero point 0 after a ReLU and 128 elsewhere; in networks that `adopt` has made of a user's module, the zero
point of a tensor with both signs is set with its first scale (:class:`RangeQuant`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as fn

from intrs.training import native

if TYPE_CHECKING:
    from collections.abc import Callable

WEIGHT_MAX = 127  # symmetric: -128 is never used, so that a negative batch-norm factor only flips signs
ACT_MAX = 255
_BIAS_MAX = 1 << 24  # far below int32, and exact in float32
_SCALE_SPAN = 1 << 12  # largest over least scale of a layer's channels
_PIECE = 1 << 16  # elements: a few buffers of float32 fill the second cache


NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
MOVERS = (nn.MaxPool2d, nn.ZeroPad2d, nn.Unflatten, nn.Dropout, nn.Dropout2d)


@dataclass(frozen=True)
class ConvWindow:
    """How a kernel goes over an image: pairs for height and width."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution."""
        return fn.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)


def _flat(x: Tensor) -> Tensor:
    """A dense tensor's elements in the order of memory."""
    return torch.as_strided(x, (x.numel(),), (1,), x.storage_offset())


def _pieces(x: Tensor) -> tuple[Tensor, ...]:
    """The same in pieces that stay in the cache for several operations."""
    flat = _flat(x)
    return tuple(flat[i : i + _PIECE] for i in range(0, len(flat), _PIECE))


def _like(x: Tensor, model: Tensor) -> Tensor:
    """x, laid out in memory as the model is."""
    return x if x.stride() == model.stride() else torch.empty_like(model).copy_(x)


class _FakeQuant(torch.autograd.Function):
    """Round to ``scale * {lo..hi}``, in float32; forward, for evaluation, in float64 where the tensor is.

    Its own backward, by pieces, takes a third of the time of whole tensors, which go through memory at every step.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, lo: int, hi: int) -> Tensor:
        x = x if x.is_contiguous(memory_format=torch.channels_last) else x.contiguous()
        out = torch.empty_like(x)
        ctx.save_for_backward(x, scale)
        ctx.limits = (lo, hi)
        if native.quantises(x, scale):
            native.fake_quantise(_flat(x), float(scale), lo, hi, _flat(out))
            return out
        kind = torch.promote_types(x.dtype, torch.float32)
        codes = torch.empty(_PIECE, dtype=kind, device=x.device)
        for part, to in zip(_pieces(x), _pieces(out), strict=True):
            now = codes[: len(part)]
            # Division, not multiplication by the reciprocal: this is what QuantizeLinear does.
            torch.div(part.to(kind), scale, out=now)
            to.copy_(now.round_().clamp_(lo, hi).mul_(scale))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, scale = ctx.saved_tensors
        lo, hi = ctx.limits
        grad_x, grad = torch.empty_like(x), _like(grads[0], x)
        if native.quantises(x, scale) and grad.dtype is x.dtype:
            up = native.fake_quantise_backward(_flat(grad), _flat(x), float(scale), lo, hi, _flat(grad_x))
            grad_scale = torch.tensor(up)
        else:
            grad_scale = _backward_by_pieces(x, scale, lo, hi, grad, grad_x)
        # LSQ's factor keeps the step of the scale in proportion to the steps of the weights. It takes the number of
        # positive codes, which is 0 or nearly so where a range lies below zero: then that of the negative ones.
        steps_up = hi if hi + 1 >= -lo else -lo
        return grad_x, grad_scale / (x.numel() * steps_up) ** 0.5, None, None


def _backward_by_pieces(x: Tensor, scale: Tensor, lo: int, hi: int, grad: Tensor, grad_x: Tensor) -> Tensor:
    """Fill in the gradient of x; return that of the scale."""
    grad_scale, buffers = torch.zeros((), device=x.device), torch.empty(3, _PIECE, device=x.device)
    for part, up, to in zip(_pieces(x), _pieces(grad), _pieces(grad_x), strict=True):
        steps, codes, inside = buffers[:, : len(part)]
        torch.div(part.float(), scale, out=steps)
        torch.clamp(steps, lo, hi, out=codes)
        torch.eq(steps, codes, out=inside)
        # d(out)/d(scale) is the rounding error inside the range and the limit itself outside of it.
        error, high = codes.round_().sub_(steps.mul_(inside)), up.float()
        grad_scale += torch.dot(error, high)
        to.copy_(inside.mul_(high))
    return grad_scale


def weight_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return integer codes (as floats) and the scale of each output channel, of shape (channels,)."""
    flat = weight.flatten(1)
    scale = flat.abs().amax(1).clamp_min(1e-12) / WEIGHT_MAX
    codes = (flat / scale[:, None]).round().clamp_(-WEIGHT_MAX, WEIGHT_MAX)
    return codes.reshape(weight.shape), scale


def fake_weight(weight: Tensor) -> Tensor:
    """Round the weights in the forward pass; the gradient passes unchanged."""
    with torch.no_grad():
        codes, scale = weight_codes(weight)
        rounded = codes * scale.reshape(-1, *[1] * (weight.dim() - 1))
    return weight + (rounded - weight).detach()


class Normalize(nn.Module):
    """(x - mean) / std by channel, in float, in front of the first quantizer."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize images on the scale 0..1."""
        return (x - self.mean) / self.std


class ActQuant(nn.Module):
    """Quantizer of one activation tensor: identity, observer or fake quantizer, by ``mode``."""

    def __init__(self, signed: bool) -> None:
        super().__init__()
        self._zero_point = 128 if signed else 0
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.mode = "float"
        self._peak = 0.0

    @property
    def zero_point(self) -> int:
        """The code of zero."""
        return self._zero_point

    @property
    def peak(self) -> float:
        """The largest magnitude that it has observed, a few outliers aside."""
        return self._peak

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest code, zero point taken off."""
        return -self.zero_point, ACT_MAX - self.zero_point

    def forward(self, x: Tensor) -> Tensor:
        """Pass on, observe or round, by ``mode``."""
        if self.mode == "quant":
            out: Tensor = _FakeQuant.apply(x, self.scale, *self.limits)  # type: ignore[no-untyped-call]
            return out
        if self.mode == "observe":
            self._observe(x)
        return x

    @torch.no_grad()
    def _observe(self, x: Tensor) -> None:
        """Start from the value that one element in 10,000 exceeds: training moves the scale from there."""
        size = x.abs().flatten()
        peak = float(size.kthvalue(max(1, int(size.numel() * 0.9999))).values)
        self._peak = max(self._peak, peak)
        self.scale.fill_(max(self._peak, 1e-6) / self.limits[1])


class RangeQuant(ActQuant):
    """A quantizer whose zero point is set with its first scale, by the range that it has seen, and then stays.

    For tensors that reach further to one side than to the other, such as what h-swish gives.
    """

    zero: Tensor

    def __init__(self) -> None:
        super().__init__(signed=True)
        self.register_buffer("zero", torch.tensor(self._zero_point, dtype=torch.int32))
        self._low = 0.0

    @property
    def zero_point(self) -> int:
        """The code of zero."""
        return int(self.zero)

    @torch.no_grad()
    def _observe(self, x: Tensor) -> None:
        """Leave one element in 10,000 out at either end, as far as zero lies between them."""
        values, rest = x.flatten(), max(1, x.numel() // 10_000)
        self._low = min(self._low, float(values.kthvalue(rest).values))
        self._peak = max(self._peak, float(values.kthvalue(values.numel() - rest + 1).values))
        span = max(self._peak - self._low, 1e-6)
        self.zero.fill_(round(ACT_MAX * -self._low / span))
        self.scale.fill_(span / ACT_MAX)


class _Product(nn.Module):
    """What convolutions and fully connected layers share: weights, perhaps a bias, perhaps batch normalisation."""

    weight: Tensor
    bias: Tensor | None
    bn: nn.Module
    quant: bool

    def _used_weight(self) -> Tensor:
        return fake_weight(self.weight) if self.quant else self.weight

    def _affine(self) -> tuple[Tensor, Tensor]:
        """Bias and batch normalisation with its running statistics as factor and summand, in float64."""
        bias = None if self.bias is None else self.bias.detach().double()
        if not isinstance(self.bn, NORMS):
            factor = self.weight.new_ones(len(self.weight), dtype=torch.float64)
            return factor, torch.zeros_like(factor) if bias is None else bias
        assert self.bn.running_mean is not None
        assert self.bn.running_var is not None
        factor = self.bn.weight.detach().double() / (self.bn.running_var.double() + self.bn.eps).sqrt()
        summand = self.bn.bias.detach().double() - self.bn.running_mean.double() * factor
        return factor, summand if bias is None else summand + bias * factor

    def float_folded(self) -> tuple[Tensor, Tensor]:
        """Return float weights and bias with BN folded in."""
        factor, bias = self._affine()
        return (self.weight.detach().double() * _by_channel(factor, self.weight)).float(), bias.float()

    def folded(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return weight codes, their scales (float64, may be zero) and the float bias, with BN folded in."""
        codes, scale = weight_codes(self.weight.detach())
        factor, bias = self._affine()
        sign = torch.where(factor < 0, -1.0, 1.0).to(codes.dtype)
        return codes * _by_channel(sign, codes), scale.double() * factor.abs(), bias


def _by_channel(values: Tensor, weight: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (weight.dim() - 1))


class ConvBN(_Product):
    """Convolution, then batch normalisation; ``quant`` rounds the weights.

    Of its own it has no bias and pads by half its kernel; :meth:`of` makes one of any convolution of images.
    """

    def __init__(self, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.window = ConvWindow((stride, stride), (kernel // 2, kernel // 2), (1, 1), groups)
        self.weight = nn.Parameter(torch.empty(cout, cin // groups, kernel, kernel))
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")
        self.register_parameter("bias", None)
        self.bn: nn.Module = nn.BatchNorm2d(cout)
        self.quant = False

    @classmethod
    def of(cls, weight: Any, bias: Any, window: ConvWindow, bn: nn.Module | None = None) -> ConvBN:
        """The layer with these very parameters; without ``bn`` nothing is normalised."""
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.window, layer.weight, layer.quant = window, weight, False
        layer.register_parameter("bias", bias)
        layer.bn = nn.Identity() if bn is None else bn
        return layer

    def forward(self, x: Tensor, plus: Tensor | None = None, relu: bool = False) -> Tensor:
        """Convolve and normalise, with live statistics in training; then add ``plus`` and rectify, if asked."""
        x = self._convolve(x)
        if native.normalises(x, self.bn, plus):
            assert isinstance(self.bn, nn.BatchNorm2d)
            return native.normalise(x, self.bn, plus, relu)
        x = self.bn(x)
        x = x if plus is None else x + plus
        return torch.relu(x) if relu else x

    def _convolve(self, x: Tensor) -> Tensor:
        weight, window = self._used_weight(), self.window
        plain = self.bias is None and window.dilation == (1, 1) and window.groups == 1
        if plain and native.convolves(x, weight, window.stride, window.padding):
            return native.convolve(x, weight, window.stride[0], window.padding[0])
        if native.stores_bfloat16():
            with torch.autocast("cpu", enabled=False):
                return window.convolve(x.float(), weight, self.bias).bfloat16()
        return window.convolve(x, weight, self.bias)


def rectified(layer: ConvBN, x: Tensor) -> Tensor:
    """relu(layer(x)), in one pass over memory where the layer runs; two nodes where it is traced."""
    out: Tensor = torch.relu(layer(x)) if isinstance(x, fx.Proxy) else layer(x, relu=True)
    return out


def residual(layer: ConvBN, quant: ActQuant, y: Tensor, shortcut: nn.Module, x: Tensor) -> Tensor:
    """relu(quant(layer(y)) + shortcut(x)), the same."""
    if isinstance(x, fx.Proxy) or quant.mode != "float":
        return torch.relu(quant(layer(y)) + shortcut(x))
    out: Tensor = layer(y, shortcut(x), relu=True)
    return out


class Linear(_Product):
    """Fully connected layer; ``quant`` rounds the weights."""

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self._take(nn.Linear(cin, cout), None)

    @classmethod
    def of(cls, linear: nn.Linear, bn: nn.Module | None = None) -> Linear:
        """The layer with these very parameters; ``bn`` normalises what it gives."""
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer._take(linear, bn)
        return layer

    def _take(self, linear: nn.Linear, bn: nn.Module | None) -> None:
        self.weight, self.quant = linear.weight, False
        self.register_parameter("bias", linear.bias)
        self.bn = nn.Identity() if bn is None else bn

    def forward(self, x: Tensor) -> Tensor:
        """Multiply, add the bias and normalise."""
        out: Tensor = self.bn(fn.linear(x, self._used_weight(), self.bias))
        return out


class Affine(nn.Module):
    """x * factor + summand with constants, each one number or one per channel; None for what is not there."""

    factor: Tensor | None
    summand: Tensor | None

    def __init__(self, factor: Tensor | None, summand: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("factor", factor)
        self.register_buffer("summand", summand)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply and add."""
        x = x if self.factor is None else x * self.factor
        return x if self.summand is None else x + self.summand


class Folded(nn.Module):
    """A convolution or fully connected layer in its final integers: int8 weights, int32 bias of scale sx * sw.

    The forward pass multiplies integers held in float32, which is exact while sums stay below 2**24.
    """

    in_scale: Tensor
    codes: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, layer: ConvBN | Linear, in_scale: Tensor) -> None:
        super().__init__()
        codes, scale, bias = layer.folded()
        in_scale = in_scale.detach().float()
        # A channel that batch normalisation has all but switched off would need a bias beyond int32: give it a larger
        # scale instead.  Its weights then round to smaller codes, which its bias outweighs anyway.
        floor = (bias.abs() / (in_scale.double() * _BIAS_MAX)).clamp_min(1e-12)
        # So does a channel that is nearly dead: networks for ImageNet have some.  Its weights count for nothing in the
        # sum's code, but its RESCALE would shift by more than 54, and such a layer does not run by the fastest kernel.
        floor = floor.clamp_min(float(scale.max()) / _SCALE_SPAN)
        scale, shrink = torch.maximum(scale, floor), (scale / floor).clamp_max(1.0)
        codes = (codes * shrink.to(codes.dtype).reshape(-1, *[1] * (codes.dim() - 1))).round()
        self.window = layer.window if isinstance(layer, ConvBN) else None
        self.register_buffer("in_scale", in_scale)
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale.float())
        self.register_buffer("bias", (bias / (in_scale.double() * scale.float().double())).round().float())

    @property
    def out_scale(self) -> Tensor:
        """Scale of accumulator and bias, by output channel, as one float32 product."""
        return self.in_scale * self.scale

    def forward(self, x: Tensor) -> Tensor:
        """Back to codes, sum in integers, then scale: what DequantizeLinear, Conv or Gemm mean on these constants."""
        steps = (x / self.in_scale).round()
        if self.window is None:
            return fn.linear(steps, self.codes, self.bias) * self.out_scale
        return self.window.convolve(steps, self.codes, self.bias) * self.out_scale.reshape(1, -1, 1, 1)


class FloatFolded(nn.Module):
    """A convolution or fully connected layer in float32, batch normalisation folded in."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: ConvBN | Linear) -> None:
        super().__init__()
        weight, bias = layer.float_folded()
        self.window = layer.window if isinstance(layer, ConvBN) else None
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve or multiply, and add the bias."""
        if self.window is None:
            return fn.linear(x, self.weight, self.bias)
        return self.window.convolve(x, self.weight, self.bias)


class _Tracer(fx.Tracer):
    """Trace a network down to the layers of this module."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        ours = Normalize | ActQuant | ConvBN | Linear | Affine
        return isinstance(m, ours) or super().is_leaf_module(m, module_qualified_name)


def fold(model: nn.Module) -> fx.GraphModule:
    """Return the integer form of a trained network, for evaluation and for the ONNX writer."""
    model = copy.deepcopy(model).eval()
    set_mode(model, "quant")
    graph = _Tracer().trace(model)
    folded = fx.GraphModule(model, graph)
    for node in graph.nodes:
        layer = folded.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(layer, ConvBN | Linear):
            folded.add_submodule(node.target, Folded(layer, input_quant(folded, node).scale))
    folded.delete_all_unused_submodules()
    folded.recompile()
    return folded.requires_grad_(False)


def fold_float(model: nn.Module) -> fx.GraphModule:
    """Return the float32 form of a network, without quantizers, for the ONNX writer."""
    model = copy.deepcopy(model).eval()
    graph = _Tracer().trace(model)
    folded = fx.GraphModule(model, graph)
    for node in graph.nodes:
        layer = folded.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(layer, ConvBN | Linear):
            folded.add_submodule(node.target, FloatFolded(layer))
        elif isinstance(layer, ActQuant):
            folded.add_submodule(node.target, nn.Identity())
    folded.delete_all_unused_submodules()
    folded.recompile()
    return folded.requires_grad_(False)


def input_quant(model: fx.GraphModule, node: fx.Node) -> ActQuant:
    """Return the quantizer of a node's input, looking through what moves or selects codes."""
    if (layer := origin(model, node)) is not None and isinstance(layer, ActQuant):
        return layer
    raise ValueError(f"{node.target}: its input {node.args[0]} is not quantized; put an ActQuant in front of it")


def origin(model: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """Return the layer that a node's input comes from, looking through what moves or selects codes."""
    source = node.args[0]
    while isinstance(source, fx.Node) and moves_codes(model, source):
        source = source.args[0]
    if isinstance(source, fx.Node) and source.op == "call_module":
        return model.get_submodule(str(source.target))
    return None


def moves_codes(model: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node gives codes of its input: reshapes, max pooling, padding by zeros, and what acts in training."""
    if node.op == "call_module":
        return isinstance(model.get_submodule(str(node.target)), MOVERS)
    return node.target is torch.flatten


def set_mode(model: nn.Module, mode: str) -> None:
    """Switch all quantizers to "float", "observe" (as float, noting ranges) or "quant"."""
    if mode not in ("float", "observe", "quant"):
        raise ValueError(f"unknown mode {mode!r}")
    for layer in model.modules():
        if isinstance(layer, ActQuant):
            layer.mode = mode
        elif isinstance(layer, ConvBN | Linear):
            layer.quant = mode == "quant"


@torch.no_grad()
def calibrate(model: nn.Module, batch: Callable[[], Tensor], count: int) -> None:
    """Set the first scales from ``count`` batches, then switch quantization on."""
    model.eval()
    set_mode(model, "observe")
    for _ in range(count):
        model(batch())
    set_mode(model, "quant")
