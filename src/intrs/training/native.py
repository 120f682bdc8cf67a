"""The layers that take most of the time of training on a CPU, natively: core/training.

PyTorch's own are taken wherever these do not fit (another device, window or number of channels).  Both compute the same
up to rounding in float32; a network is what its weights say, whichever has trained it.  Under autocast tensors are
stored as bfloat16 and all sums are in float32: that is worth it for the memory alone, which is what training waits for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from intrs import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

SWITCH = "INTRS_TRAINING_LAYERS"  # "torch" in the environment: PyTorch's layers alone, for comparisons

AVAILABLE = _core.has_fma() and os.environ.get(SWITCH) != "torch"
WIDE = _core.has_avx512()  # then the layers that are compiled for sixteen lanes
if _core.has_avx512() and _core.has_bf16() and not _core.has_amx_bf16():
    # Virtual machines may have AMX without telling the size of its tiles; PyTorch's products of bfloat16 then end with
    # an illegal instruction. oneDNN reads this before its first layer.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
if TYPE_CHECKING:
    from intrs.training import _layers
elif AVAILABLE:
    _layers = import_module("intrs.training._layers_avx512" if WIDE else "intrs.training._layers")

STORED = (torch.float32, torch.bfloat16)
_CHANNELS = 16  # of outputs, and of inputs that need a gradient: a multiple of it
# Weights up to which a convolution is faster than PyTorch's, by tiles and otherwise (measured with AVX2): then they
# stay in the cache. A 1x1 convolution with stride 1 is a product of matrices, which PyTorch does better.
_MOST_BY_TILES, _MOST = 2**18, 2**15


def _fits(x: Tensor) -> bool:
    """Whether a tensor of images is one that the native layers take."""
    return (
        AVAILABLE
        and x.device.type == "cpu"
        and x.dtype in STORED
        and x.dim() == 4
        and x.numel() > 0
        and x.is_contiguous(memory_format=torch.channels_last)
    )


def _view(x: Tensor) -> NDArray[Any]:
    """The elements of images as (n, height, width, channels), which is their order in memory."""
    return _array(x.detach().permute(0, 2, 3, 1))


def _array(x: Tensor) -> NDArray[Any]:
    """The same memory for NumPy, which has no bfloat16: its bits as integers."""
    found: NDArray[Any] = (x.view(torch.int16) if x.dtype is torch.bfloat16 else x).detach().numpy()
    return found


def _like(gradient: Tensor, model: Tensor) -> Tensor:
    return gradient.to(model.dtype).contiguous(memory_format=torch.channels_last)


def stores_bfloat16() -> bool:
    """Whether convolutions that are PyTorch's run in float32 between tensors that are stored as bfloat16.

    Under autocast they would multiply bfloat16, which is far slower where the processor does not.
    """
    return AVAILABLE and torch.is_autocast_enabled("cpu") and not _core.has_bf16()


def convolves(x: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int]) -> bool:
    """Whether :func:`convolve` takes this convolution, given no bias, dilation or groups."""
    rows, columns = weight.shape[2:]
    return (
        _fits(x)
        and weight.dtype is torch.float32
        and weight.shape[0] % _CHANNELS == 0
        and rows == columns
        and stride[0] == stride[1]
        and padding[0] == padding[1]
        and (x.shape[1] % _CHANNELS == 0 or not x.requires_grad)
        and _is_faster(weight, stride[0], padding[0])
    )


def _is_faster(weight: Tensor, stride: int, padding: int) -> bool:
    """Whether it is faster than PyTorch's: where that multiplies bfloat16, by tiles for AVX-512 if there is no AMX."""
    kernel, half = weight.shape[2], torch.is_autocast_enabled("cpu") and _core.has_bf16()
    if (kernel, stride, padding) == (3, 1, 1) and weight.shape[1] % _CHANNELS == 0:
        return weight.numel() <= _MOST_BY_TILES and (not half or (WIDE and not _core.has_amx_bf16()))
    return weight.numel() <= _MOST and (kernel, stride) != (1, 1) and not half


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        sides = [(side + 2 * padding - weight.shape[2]) // stride + 1 for side in x.shape[2:]]
        y = torch.empty(len(x), len(weight), *sides, dtype=x.dtype, memory_format=torch.channels_last)
        _layers.convolve(_view(x), _array(weight), stride, padding, _view(y), torch.get_num_threads())
        ctx.save_for_backward(x, weight)
        ctx.settings = (stride, padding)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        (stride, padding), threads = ctx.settings, torch.get_num_threads()
        gradient = _like(gradients[0], x)
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = torch.empty_like(x)
            _layers.convolve_input(_view(gradient), _array(weight), stride, padding, _view(dx), threads)
        if ctx.needs_input_grad[1]:
            dw = torch.empty(weight.shape)
            _layers.convolve_weights(_view(x), _view(gradient), stride, padding, _array(dw), threads)
        return dx, dw, None, None


def convolve(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution; under autocast its result is stored as bfloat16."""
    x = x.bfloat16() if torch.is_autocast_enabled("cpu") else x
    out: Tensor = _Convolve.apply(x, weight, stride, padding)  # type: ignore[no-untyped-call]
    return out


def normalises(x: Tensor, bn: nn.Module, plus: Tensor | None = None) -> bool:
    """Whether :func:`normalise` takes this batch normalisation: statistics of the batch, running ones by momentum."""
    return (
        isinstance(bn, nn.BatchNorm2d)
        and bn.training
        and bn.momentum is not None
        and bn.running_mean is not None
        and bn.affine
        and bn.weight.dtype is torch.float32
        and _fits(x)
        and x.shape[1] % _CHANNELS == 0
        and x.numel() > x.shape[1]  # a variance needs more than one value
        and (plus is None or (_fits(plus) and plus.shape == x.shape and plus.dtype is x.dtype))
    )


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, plus: Tensor | None, scale: Tensor, shift: Tensor, epsilon: float, relu: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, mean, variance = torch.empty_like(x), torch.empty_like(scale), torch.empty_like(scale)
        _layers.normalise(
            _view(x), None if plus is None else _view(plus), scale.detach().numpy(), shift.detach().numpy(),
            epsilon, relu, _view(y), mean.numpy(), variance.numpy(), torch.get_num_threads(),
        )  # fmt: skip
        ctx.save_for_backward(x, y, scale, mean, variance)
        ctx.settings = (epsilon, relu, plus is not None)
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, y, scale, mean, variance = ctx.saved_tensors
        epsilon, relu, has_plus = ctx.settings
        dx, dscale, dshift = torch.empty_like(x), torch.empty_like(scale), torch.empty_like(scale)
        dplus = torch.empty_like(x) if has_plus else None
        _layers.normalise_backward(
            _view(_like(gradients[0], x)), _view(x), _view(y), scale.detach().numpy(), mean.numpy(), variance.numpy(),
            epsilon, relu, _view(dx), None if dplus is None else _view(dplus), dscale.numpy(), dshift.numpy(),
            torch.get_num_threads(),
        )  # fmt: skip
        return dx, dplus, dscale, dshift, None, None


def normalise(x: Tensor, bn: nn.BatchNorm2d, plus: Tensor | None, relu: bool) -> Tensor:
    """bn(x), or bn(x) + plus, and relu of it if asked; running statistics move on as PyTorch's do."""
    assert bn.running_mean is not None
    assert bn.running_var is not None
    assert bn.momentum is not None
    out: tuple[Tensor, Tensor, Tensor]
    out = _Normalise.apply(x, plus, bn.weight, bn.bias, bn.eps, relu)  # type: ignore[no-untyped-call]
    y, mean, variance = out
    count = x.numel() // x.shape[1]
    with torch.no_grad():
        bn.running_mean.lerp_(mean, bn.momentum)
        bn.running_var.lerp_(variance * (count / (count - 1)), bn.momentum)
        if bn.num_batches_tracked is not None:
            bn.num_batches_tracked.add_(1)
    return y


def quantises(x: Tensor, scale: Tensor) -> bool:
    """Whether :func:`fake_quantise` takes this tensor: dense, on the CPU, in any order of memory."""
    return AVAILABLE and x.device.type == "cpu" and x.dtype in STORED and scale.dtype is torch.float32


def fake_quantise(x: Tensor, scale: float, low: int, high: int, to: Tensor) -> None:
    """Round to scale * {low..high}; both are the elements in the order of memory."""
    _layers.fake_quantise(_array(x), scale, low, high, _array(to), torch.get_num_threads())


def fake_quantise_backward(gradient: Tensor, x: Tensor, scale: float, low: int, high: int, to: Tensor) -> float:
    """The gradient of x, and that of the scale, without LSQ's factor."""
    threads = torch.get_num_threads()
    return _layers.fake_quantise_backward(_array(gradient), _array(x), scale, low, high, _array(to), threads)
