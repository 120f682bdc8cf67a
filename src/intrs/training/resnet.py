"""The CIFAR ResNets of He et al. 2016 (6n+2 layers), written once for float, quantization-aware and integer use.

Only operations that lower simply to integers: Conv, Add, Relu, GlobalAveragePool, Flatten, Gemm.  Where the shape
changes, the shortcut is a 1x1 convolution with batch normalisation (option B).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from intrs.training.quant import ActQuant, ConvBN, Linear, Normalize, rectified, residual

WIDTHS = (16, 32, 64)


def shortcut(cin: int, cout: int, stride: int) -> nn.Sequential:
    """Nothing, or where the shape changes a 1x1 convolution with batch normalisation (option B)."""
    if stride == 1 and cin == cout:
        return nn.Sequential()
    return nn.Sequential(ConvBN(cin, cout, 1, stride), ActQuant(signed=True))


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut; a quantizer on every tensor that an integer engine stores."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.quant1 = ConvBN(cin, cout, 3, stride), ActQuant(signed=False)
        self.conv2, self.quant2 = ConvBN(cout, cout, 3), ActQuant(signed=True)
        self.shortcut = shortcut(cin, cout, stride)
        self.quant_out = ActQuant(signed=False)

    def forward(self, x: Tensor) -> Tensor:
        """relu(conv2(relu(conv1(x))) + shortcut(x)), quantized throughout."""
        y = self.quant1(rectified(self.conv1, x))
        out: Tensor = self.quant_out(residual(self.conv2, self.quant2, y, self.shortcut, x))
        return out


class ResNet(nn.Module):
    """ResNet-(6n+2) on images of p/255, p a pixel plus noise, of shape (batch, channels, height, width).

    mean and std are those of the training images, by channel, on the scale 0..1.
    """

    def __init__(
        self, n: int, mean: list[float], std: list[float], classes: int, widths: tuple[int, ...] = WIDTHS
    ) -> None:
        super().__init__()
        self.normalize, self.quant_in = Normalize(mean, std), ActQuant(signed=True)
        self.stem, self.quant_stem = ConvBN(len(mean), widths[0], 3), ActQuant(signed=False)
        blocks, cin = [], widths[0]
        for stage, width in enumerate(widths):
            for i in range(n):
                blocks.append(Block(cin, width, stride=2 if stage > 0 and i == 0 else 1))
                cin = width
        self.blocks = nn.Sequential(*blocks)
        self.pool, self.quant_pool = nn.AdaptiveAvgPool2d(1), ActQuant(signed=False)
        self.fc = Linear(cin, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, which alone are not rounded to 8 bits, where noisy images tie (docs/decisions/7)."""
        x = self.quant_in(self.normalize(x))
        x = self.quant_stem(rectified(self.stem, x))
        x = self.quant_pool(self.pool(self.blocks(x)))
        out: Tensor = self.fc(torch.flatten(x, 1))
        return out
