"""ResNet-50 (He et al. 2016) in the two forms that weights are published of, written once for all uses.

Only operations that lower simply to integers: Conv, Add, Relu, MaxPool, GlobalAveragePool, Flatten, Gemm.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from intrs.noise import PIXEL_RANGE
from intrs.training.quant import ActQuant, ConvBN, Linear, Normalize, rectified, residual
from intrs.training.resnet import shortcut

BLOCKS, WIDTHS, EXPANSION = (3, 4, 6, 3), (64, 128, 256, 512), 4


@dataclass(frozen=True)
class Form:
    """Where the networks that people publish weights of differ."""

    stride_first: bool  # whether a layer's stride sits in its first 1x1 convolution, or in the 3x3
    eps: float  # of batch normalisation
    mean: tuple[float, ...]  # of the input by channel, RGB, on the scale 0..1
    std: tuple[float, ...]


TORCHVISION = Form(False, 1e-5, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# Keras took its weights over from Caffe, with inputs that are not scaled: their reader puts std into the first layer.
KERAS = Form(
    True, 1e-3, (123.68 / PIXEL_RANGE, 116.779 / PIXEL_RANGE, 103.939 / PIXEL_RANGE), TORCHVISION.std
)  # fmt: skip


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut; a quantizer on every tensor that an integer engine stores."""

    def __init__(self, cin: int, width: int, stride: int, stride_first: bool) -> None:
        super().__init__()
        cout, (first, second) = EXPANSION * width, (stride, 1) if stride_first else (1, stride)
        self.conv1, self.quant1 = ConvBN(cin, width, 1, first), ActQuant(signed=False)
        self.conv2, self.quant2 = ConvBN(width, width, 3, second), ActQuant(signed=False)
        self.conv3, self.quant3 = ConvBN(width, cout, 1), ActQuant(signed=True)
        self.shortcut = shortcut(cin, cout, stride)
        self.quant_out = ActQuant(signed=False)

    def forward(self, x: Tensor) -> Tensor:
        """relu(conv3(relu(conv2(relu(conv1(x))))) + shortcut(x)), quantized throughout."""
        y = self.quant1(rectified(self.conv1, x))
        y = self.quant2(rectified(self.conv2, y))
        out: Tensor = self.quant_out(residual(self.conv3, self.quant3, y, self.shortcut, x))
        return out


class BottleneckNet(nn.Module):
    """ResNet-50 on RGB images of p/255, p a pixel plus noise, of shape (batch, 3, height, width).

    Other numbers of blocks and channels make smaller networks of its kind.
    """

    def __init__(
        self, classes: int, form: Form, blocks: tuple[int, ...] = BLOCKS, widths: tuple[int, ...] = WIDTHS
    ) -> None:
        super().__init__()
        self.normalize, self.quant_in = Normalize(list(form.mean), list(form.std)), ActQuant(signed=True)
        self.stem, self.quant_stem = ConvBN(len(form.mean), widths[0], 7, 2), ActQuant(signed=False)
        self.max_pool = nn.MaxPool2d(3, 2, 1)
        cin = widths[0]
        layers: list[nn.Module] = []
        for number, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            layer = []
            for i in range(count):
                layer.append(Bottleneck(cin, width, 2 if number > 0 and i == 0 else 1, form.stride_first))
                cin = EXPANSION * width
            layers.append(nn.Sequential(*layer))
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.pool, self.quant_pool = nn.AdaptiveAvgPool2d(1), ActQuant(signed=False)
        self.fc = Linear(cin, classes)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = form.eps

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, which alone are not rounded to 8 bits."""
        x = self.quant_in(self.normalize(x))
        x = self.max_pool(self.quant_stem(rectified(self.stem, x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = self.quant_pool(self.pool(x))
        out: Tensor = self.fc(torch.flatten(x, 1))
        return out
