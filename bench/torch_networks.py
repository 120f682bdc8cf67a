"""ResNet-20 in PyTorch, with the weights of the ONNX file: fused for speed, or as it was trained; and its int8 form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class Conv(nn.Module):
    """A convolution with bias or, unfused, one without and batch normalisation after it."""

    def __init__(self, cin: int, cout: int, kernel: int, stride: int, fused: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=fused)
        self.bn = nn.Identity() if fused else nn.BatchNorm2d(cout)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn(self.conv(x))
        return y

    def take(self, weight: Tensor, bias: Tensor) -> None:
        self.conv.weight.data.copy_(weight)
        shift = self.conv.bias if isinstance(self.bn, nn.Identity) else self.bn.bias
        assert isinstance(shift, Tensor)
        shift.data.copy_(bias)


class Block(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int, fused: bool) -> None:
        super().__init__()
        self.conv1, self.conv2 = Conv(cin, cout, 3, stride, fused), Conv(cout, cout, 3, 1, fused)
        changed = stride != 1 or cin != cout
        self.shortcut = Conv(cin, cout, 1, stride, fused) if changed else nn.Identity()
        self.relu1, self.relu2 = nn.ReLU(inplace=True), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu2(self.conv2(self.relu1(self.conv1(x))) + self.shortcut(x))
        return y


class ResNet20(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.stem, self.relu = Conv(3, 16, 3, 1, fused), nn.ReLU(inplace=True)
        plan = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
        self.blocks = nn.Sequential(*(Block(cin, cout, stride, fused) for cin, cout, stride in plan))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.relu(self.stem(x))))
        y: Tensor = self.fc(torch.flatten(x, 1))
        return y


class Normalise(nn.Module):
    """The layer that stands in front of the network in the code of Cohen et al."""

    def __init__(self) -> None:
        super().__init__()
        self.means, self.sds = torch.tensor(CIFAR10_MEAN), torch.tensor(CIFAR10_STD)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        means, sds = (b.repeat((batch, height, width, 1)).permute(0, 3, 1, 2) for b in (self.means, self.sds))
        return (x - means) / sds


def resnet20(constants: dict[str, NDArray[np.float32]], fused: bool) -> ResNet20:
    """The network with these weights, for inference."""
    model = ResNet20(fused).eval()
    tensors = {name: torch.tensor(value) for name, value in constants.items()}
    for name, layer in model.named_modules():
        if isinstance(layer, Conv):
            layer.take(tensors[f"{name}.weight"], tensors[f"{name}.bias"])
    model.fc.load_state_dict({"weight": tensors["fc.weight"], "bias": tensors["fc.bias"]})
    return model.requires_grad_(False)


def int8(model: nn.Module, images: Tensor) -> Callable[[Tensor], Tensor]:
    """PyTorch's post-training quantisation for x86 (PT2E), compiled and frozen by Inductor for batches like this."""
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    from torch._inductor import config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantiser = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    exported = torch.export.export(model, (images,)).module()
    prepared = prepare_pt2e(exported, quantiser)
    prepared(images)
    config.freezing = True
    config.cpp_wrapper = True
    compiled: Callable[[Tensor], Tensor] = torch.compile(convert_pt2e(prepared))
    return compiled
