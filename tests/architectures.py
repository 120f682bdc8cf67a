"""43 image classifiers in the forms that users bring, a few channels wide, for images of 3 x 32 x 32 and 10 classes.

Blocks, activations and connections are those of the papers; depth and width are not. Every network ends with a layer
`head`, which `prepare` fits to labelled pictures so that its scores have margins.
"""

# mypy: disable-error-code="no-any-return,arg-type,list-item,union-attr,operator"

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (as PyTorch's users write)

CLASSES = 10
Make = Callable[[], nn.Module]


class Lambda(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Classifier(nn.Module):
    """A body, a mean over height and width, and a head."""

    def __init__(self, body: nn.Module, channels: int, pool: str = "mean", last: nn.Module | None = None) -> None:
        super().__init__()
        self.body = body
        self.pool = {
            "mean": nn.AdaptiveAvgPool2d(1),
            "max": nn.AdaptiveMaxPool2d(1),
            "reduce": Lambda(lambda x: x.mean((2, 3))),
            "none": nn.Identity(),
        }[pool]
        self.head = nn.Linear(channels, CLASSES)
        self.last = last or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.head(torch.flatten(self.pool(self.body(x)), 1)))


class Sum(nn.Module):
    """The sum of branches, and an activation after it."""

    def __init__(self, *branches: nn.Module, after: nn.Module | None = None) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.after = after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        total = self.branches[0](x)
        for branch in self.branches[1:]:
            total = total + branch(x)
        return self.after(total)


class Cat(nn.Module):
    """Branches joined along channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def conv(
    a: int, b: int, k: int | tuple[int, int] = 3, stride: int = 1, act: Any = nn.ReLU, groups: int = 1, bn: bool = True
) -> nn.Sequential:
    """Conv, BatchNorm, activation."""
    pad = (k[0] // 2, k[1] // 2) if isinstance(k, tuple) else k // 2
    layers: list[nn.Module] = [nn.Conv2d(a, b, k, stride, pad, groups=groups, bias=not bn)]
    if bn:
        layers.append(nn.BatchNorm2d(b))
    if act is not None:
        layers.append(act())
    return nn.Sequential(*layers)


class Excite(nn.Module):
    """Squeeze and excite."""

    def __init__(self, channels: int, act: Any = nn.ReLU, gate: Any = nn.Sigmoid, ratio: int = 4) -> None:
        super().__init__()
        inner = max(channels // ratio, 4)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), act(), nn.Conv2d(inner, channels, 1), gate()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


# ---- residual networks ----------------------------------------------------------------------------------------------


def option_a(a: int, b: int) -> nn.Module:
    """The shortcut without weights: every second pixel, and channels of zeros."""
    return Lambda(lambda x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, (b - a) // 2, (b - a) // 2)))


def shortcut(a: int, b: int, stride: int, option: str) -> nn.Module:
    if a == b and stride == 1:
        return nn.Identity()
    return option_a(a, b) if option == "A" else conv(a, b, 1, stride, None)


def basic(a: int, b: int, stride: int, option: str = "B", act: Any = nn.ReLU, excite: bool = False) -> nn.Module:
    branch = [conv(a, b, 3, stride, act), conv(b, b, 3, 1, None)]
    if excite:
        branch.append(Excite(b))
    return Sum(nn.Sequential(*branch), shortcut(a, b, stride, option), after=act())


def bottleneck(a: int, b: int, stride: int, groups: int = 1, excite: Any = None) -> nn.Module:
    inner = b // 2
    layers = [conv(a, inner, 1), conv(inner, inner, 3, stride, groups=groups)]
    if excite:
        layers.append(excite(inner))
    layers.append(conv(inner, b, 1, act=None))
    return Sum(nn.Sequential(*layers), shortcut(a, b, stride, "B"), after=nn.ReLU())


def residual(block: Any, widths: tuple[int, ...] = (16, 24, 32), depth: int = 2, stem: Any = None) -> nn.Module:
    layers, a = [stem or conv(3, widths[0])], widths[0]
    for stage, b in enumerate(widths):
        for i in range(depth):
            layers.append(block(a, b, 2 if stage and not i else 1))
            a = b
    return Classifier(nn.Sequential(*layers), a)


class PreActivation(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.BatchNorm2d(a), nn.BatchNorm2d(b)
        self.conv1, self.conv2 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(a, b, 1, stride, bias=False) if stride != 1 or a != b else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.first(x))
        short = x if isinstance(self.short, nn.Identity) else self.short(out)
        return short + self.conv2(F.relu(self.second(self.conv1(out))))


def preactivation() -> nn.Module:
    net = residual(PreActivation, stem=nn.Conv2d(3, 16, 3, padding=1, bias=False))
    net.body.append(nn.BatchNorm2d(32)).append(nn.ReLU())
    return net


def imagenet_stem(width: int) -> nn.Module:
    return nn.Sequential(conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1))


# ---- plain networks -------------------------------------------------------------------------------------------------


def plain(act: Any, pool: str = "mean", last: nn.Module | None = None, bn: bool = True) -> nn.Module:
    """A few convolutions with one activation everywhere."""
    widths = (3, 16, 16, 24, 24, 32)
    layers = [conv(a, b, 3, 1 + i % 2, act, bn=bn) for i, (a, b) in enumerate(pairwise(widths))]
    return Classifier(nn.Sequential(*layers), 32, pool, last)


def prelu() -> nn.Module:
    widths = (3, 16, 16, 24, 24, 32)
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(widths)):
        slopes = nn.PReLU(b)
        nn.init.uniform_(slopes.weight, -0.1, 0.5)
        layers += [conv(a, b, 3, 1 + i % 2, None), slopes]
    return Classifier(nn.Sequential(*layers), 32)


def lenet() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
    )  # fmt: skip
    return Classifier(body, 84, "none")


def mlp() -> nn.Module:
    body = nn.Sequential(nn.Flatten(), nn.Linear(3072, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU())
    return Classifier(body, 48, "none")


def alexnet() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(3, 16, 5, 2, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d(3), nn.Flatten(),
        nn.Dropout(), nn.Linear(216, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 48), nn.ReLU(),
    )  # fmt: skip
    return Classifier(body, 48, "none")


def vgg(bn: bool) -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in ((3, 16), (16, 24), (24, 32)):
        layers += [conv(a, b, bn=bn), conv(b, b, bn=bn), nn.MaxPool2d(2)]
    return Classifier(nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 48), nn.ReLU()), 48, "none")


def network_in_network() -> nn.Module:
    def part(a: int, b: int, k: int) -> nn.Module:
        return nn.Sequential(conv(a, b, k, bn=False), conv(b, b, 1, bn=False), conv(b, b, 1, bn=False))

    body = nn.Sequential(part(3, 24, 5), nn.MaxPool2d(3, 2, 1), part(24, 24, 5), nn.AvgPool2d(3, 2, 1), part(24, 32, 3))
    return Classifier(body, 32)


def repvgg() -> nn.Module:
    def block(a: int, b: int, stride: int) -> nn.Module:
        branches = [conv(a, b, 3, stride, None), conv(a, b, 1, stride, None)]
        if a == b and stride == 1:
            branches.append(nn.BatchNorm2d(a))
        return Sum(*branches, after=nn.ReLU())

    return residual(block, stem=conv(3, 16))


class Decoder(nn.Module):
    """Down, up again by nearest neighbours, joined with what was there before, and maxima."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = conv(3, 16), conv(16, 24, 3, 2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.out = conv(40, 32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down1(x)
        both = torch.cat([self.up(self.down2(fine)), fine], 1)
        return self.head(self.out(both).amax((2, 3)))


# ---- inverted residuals ---------------------------------------------------------------------------------------------


def inverted(
    a: int, b: int, k: int, stride: int, expand: float, act: Any, excite: Any = None, fused: bool = False
) -> nn.Module:
    """MobileNetV2's block, with squeeze and excite of V3 or EfficientNet."""
    inner = int(a * expand)
    if fused:
        layers = [conv(a, inner, k, stride, act)]
    else:
        layers = [conv(a, inner, 1, act=act)] if inner != a else []
        layers.append(conv(inner, inner, k, stride, act, groups=inner))
    if excite:
        layers.append(excite(inner))
    layers.append(conv(inner, b, 1, act=None))
    block = nn.Sequential(*layers)
    return Sum(block, nn.Identity()) if a == b and stride == 1 else block


Row = tuple[Any, ...]  # kernel, out, stride, expansion, activation, excite, fused


def mobile(rows: list[Row], act: Any, stem: int = 8, last: int = 48, pool: str = "mean", top: Any = None) -> nn.Module:
    layers, a = [conv(3, stem, 3, 2, act)], stem
    for k, b, stride, expand, inner_act, excite, *fused in rows:
        layers.append(inverted(a, b, k, stride, expand, inner_act, excite, bool(fused)))
        a = b
    layers.append(conv(a, last, 1, act=act))
    if top:
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 48), top()]
        return Classifier(nn.Sequential(*layers), 48, "none")
    return Classifier(nn.Sequential(*layers), last, pool)


def mobilenet_v1() -> nn.Module:
    layers = [conv(3, 8, 3, 2)]
    for a, b, s in ((8, 16, 1), (16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1)):
        layers += [conv(a, a, 3, s, groups=a), conv(a, b, 1)]
    return Classifier(nn.Sequential(*layers), 32)


def mobilenet_v2(act: Any = nn.ReLU6) -> nn.Module:
    plan = ((8, 1, 1), (12, 2, 4), (12, 1, 4), (16, 2, 4), (16, 1, 4), (24, 1, 4))
    return mobile([(3, b, s, e, act, None) for b, s, e in plan], act, pool="reduce")


def v3_excite(channels: int) -> nn.Module:
    return Excite(channels, gate=nn.Hardsigmoid)


def mobilenet_v3(large: bool) -> nn.Module:
    re, hs, se = nn.ReLU, nn.Hardswish, v3_excite
    small: list[Row] = [(3, 8, 1, 1, re, se), (3, 12, 2, 4, re, None), (3, 12, 1, 4, re, None), (5, 16, 2, 4, hs, se)]
    rest: list[Row] = [(5, 16, 1, 6, hs, se), (5, 24, 1, 3, hs, se)]
    more: list[Row] = [(3, 16, 1, 2.5, hs, None), (3, 16, 1, 2, hs, None)] if large else []
    return mobile(small + more + rest, hs, top=hs)


def mnasnet() -> nn.Module:
    re = nn.ReLU
    return mobile(
        [(3, 8, 1, 1, re, None), (3, 12, 2, 3, re, None), (5, 16, 2, 3, re, None), (5, 16, 1, 6, re, None)], re,
        pool="reduce",
    )  # fmt: skip


def efficientnet(lite: bool) -> nn.Module:
    act = nn.ReLU6 if lite else nn.SiLU
    excite = None if lite else (lambda c: Excite(c, nn.SiLU))
    plan = ((3, 8, 1, 1), (3, 12, 2, 6), (3, 12, 1, 6), (5, 16, 2, 6), (5, 16, 1, 6), (3, 24, 1, 6))
    return mobile([(k, b, s, e, act, excite) for k, b, s, e in plan], act)


def efficientnet_v2() -> nn.Module:
    act, se = nn.SiLU, lambda c: Excite(c, nn.SiLU)
    rows: list[Row] = [(3, 8, 1, 1, act, None, True), (3, 12, 2, 4, act, None, True), (3, 12, 1, 4, act, None, True)]
    return mobile([*rows, (3, 16, 2, 4, act, se), (3, 16, 1, 4, act, se)], act)


class Ghost(nn.Module):
    """GhostNet's module: half of the channels by a cheap depthwise layer."""

    def __init__(self, a: int, b: int, act: Any = nn.ReLU) -> None:
        super().__init__()
        self.primary, self.cheap = conv(a, b // 2, 1, act=act), conv(b // 2, b // 2, 3, act=act, groups=b // 2)
        self.out = b

    def forward(self, x: Tensor) -> Tensor:
        first = self.primary(x)
        return torch.cat([first, self.cheap(first)], 1)[:, : self.out]


def ghostnet() -> nn.Module:
    def block(a: int, b: int, stride: int) -> nn.Module:
        layers = [Ghost(a, 2 * a)]
        if stride == 2:
            layers.append(conv(2 * a, 2 * a, 3, 2, None, groups=2 * a))
        layers += [v3_excite(2 * a), Ghost(2 * a, b, None)]
        short = [conv(a, a, 3, stride, None, groups=a), conv(a, b, 1, act=None)] if stride == 2 or a != b else []
        return Sum(nn.Sequential(*layers), nn.Sequential(*short))

    return residual(block)


# ---- joined and shuffled --------------------------------------------------------------------------------------------


class Dense(nn.Module):
    """DenseNet's layer: BatchNorm, ReLU, Conv, twice, joined with its input."""

    def __init__(self, a: int, growth: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(a), nn.ReLU(), nn.Conv2d(a, 2 * growth, 1, bias=False),
            nn.BatchNorm2d(2 * growth), nn.ReLU(), nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.branch(x)], 1)


def densenet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 16)]
    a, growth = 16, 8
    for block in range(3):
        for _ in range(3):
            layers.append(Dense(a, growth))
            a += growth
        if block < 2:
            layers += [nn.BatchNorm2d(a), nn.ReLU(), nn.Conv2d(a, a // 2, 1, bias=False), nn.AvgPool2d(2)]
            a //= 2
    return Classifier(nn.Sequential(*layers, nn.BatchNorm2d(a), nn.ReLU()), a)


class SqueezeNet(nn.Module):
    """Its head is a 1 x 1 Conv before the mean."""

    def __init__(self) -> None:
        super().__init__()

        def fire(a: int, s: int, e: int) -> nn.Module:
            return nn.Sequential(conv(a, s, 1, bn=False), Cat(conv(s, e, 1, bn=False), conv(s, e, 3, bn=False)))

        self.body = nn.Sequential(
            conv(3, 16, 3, 2, bn=False), nn.MaxPool2d(3, 2, ceil_mode=True), fire(16, 8, 12), fire(24, 8, 12),
            nn.MaxPool2d(3, 2, ceil_mode=True), fire(24, 8, 16), nn.Dropout(),
        )  # fmt: skip
        self.head = nn.Conv2d(32, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(F.adaptive_avg_pool2d(self.head(self.body(x)), 1), 1)


def googlenet() -> nn.Module:
    def block(a: int) -> nn.Module:
        return Cat(
            conv(a, 8, 1),
            nn.Sequential(conv(a, 8, 1), conv(8, 12)),
            nn.Sequential(conv(a, 4, 1), conv(4, 8, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), conv(a, 4, 1)),
        )

    body = nn.Sequential(conv(3, 16, 5, 2), block(16), block(32), nn.MaxPool2d(3, 2, 1), block(32))
    return Classifier(body, 32)


def inception_v3() -> nn.Module:
    def block(a: int) -> nn.Module:
        return Cat(
            conv(a, 8, 1),
            nn.Sequential(conv(a, 8, 1), conv(8, 8, (1, 7)), conv(8, 8, (7, 1))),
            nn.Sequential(conv(a, 8, 1), Cat(conv(8, 4, (1, 3)), conv(8, 4, (3, 1)))),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(a, 8, 1)),
        )

    reduce = Cat(conv(32, 16, 3, 2), nn.MaxPool2d(3, 2, 1))
    return Classifier(nn.Sequential(conv(3, 16, 3, 2), block(16), reduce, block(48)), 32)


def shuffle(x: Tensor, groups: int) -> Tensor:
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class ShuffleV1(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.stride, self.same = stride, stride == 1
        out = b if self.same else b - a
        self.enter, self.leave = conv(a, 12, 1, groups=3), conv(12, out, 1, act=None, groups=3)
        self.deep = conv(12, 12, 3, stride, None, groups=12)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.leave(self.deep(shuffle(self.enter(x), 3)))
        if self.same:
            return F.relu(x + branch)
        return F.relu(torch.cat([F.avg_pool2d(x, 3, 2, 1), branch], 1))


def shufflenet_v1() -> nn.Module:
    body = nn.Sequential(conv(3, 12), ShuffleV1(12, 24, 2), ShuffleV1(24, 24, 1), ShuffleV1(24, 48, 2))
    return Classifier(body, 48)


class ShuffleV2(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.stride, half = stride, b // 2
        inner = half if stride == 1 else a
        self.right = nn.Sequential(
            conv(inner, half, 1), conv(half, half, 3, stride, None, groups=half), conv(half, half, 1)
        )
        self.left = nn.Sequential(conv(a, a, 3, stride, None, groups=a), conv(a, half, 1)) if stride == 2 else None

    def forward(self, x: Tensor) -> Tensor:
        if self.left is None:
            left, right = x.chunk(2, 1)
            return shuffle(torch.cat([left, self.right(right)], 1), 2)
        return shuffle(torch.cat([self.left(x), self.right(x)], 1), 2)


def shufflenet_v2() -> nn.Module:
    body = nn.Sequential(
        conv(3, 12, 3, 2), ShuffleV2(12, 24, 2), ShuffleV2(24, 24, 1), ShuffleV2(24, 24, 1), conv(24, 48, 1)
    )
    return Classifier(body, 48, "reduce")


# ---- convolutions like transformers, and transformers ---------------------------------------------------------------


def convmixer() -> nn.Module:
    width = 24
    layers = [nn.Conv2d(3, width, 2, 2), nn.GELU(), nn.BatchNorm2d(width)]
    for _ in range(2):
        deep = nn.Sequential(nn.Conv2d(width, width, 5, padding="same", groups=width), nn.GELU(), nn.BatchNorm2d(width))
        layers += [Sum(deep, nn.Identity()), nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)]
    return Classifier(nn.Sequential(*layers), width)


class ConvNext(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.deep, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)


class Transformer(nn.Module):
    """A vision transformer of two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 24, 8, 8)
        self.place = nn.Parameter(torch.randn(1, 16, 24) / 4)
        layer = nn.TransformerEncoderLayer(24, 2, 48, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patch(x).flatten(2).transpose(1, 2) + self.place
        return self.head(self.blocks(tokens).mean(1))


ARCHITECTURES: dict[str, Make] = {
    "LeNet-5, tanh": lenet,
    "MLP": mlp,
    "AlexNet": alexnet,
    "VGG": lambda: vgg(False),
    "VGG, BatchNorm": lambda: vgg(True),
    "Network in network": network_in_network,
    "RepVGG, not fused": repvgg,
    "ResNet-20, option A": lambda: residual(lambda a, b, s: basic(a, b, s, "A")),
    "ResNet-20, option B": lambda: residual(basic),
    "ResNet-18": lambda: residual(basic, stem=imagenet_stem(16)),
    "ResNet-50": lambda: residual(bottleneck, stem=imagenet_stem(16)),
    "Pre-activation ResNet": preactivation,
    "WideResNet": lambda: residual(basic, (32, 48), 2),
    "ResNeXt": lambda: residual(lambda a, b, s: bottleneck(a, b, s, 4)),
    "SE-ResNet": lambda: residual(lambda a, b, s: basic(a, b, s, excite=True)),
    "RegNetX": lambda: residual(lambda a, b, s: bottleneck(a, b, s, 2)),
    "RegNetY": lambda: residual(lambda a, b, s: bottleneck(a, b, s, 2, Excite)),
    "DenseNet": densenet,
    "SqueezeNet": SqueezeNet,
    "GoogLeNet": googlenet,
    "Inception-v3": inception_v3,
    "MobileNetV1": mobilenet_v1,
    "MobileNetV2": mobilenet_v2,
    "MobileNetV2, h-swish": lambda: mobilenet_v2(nn.Hardswish),
    "MobileNetV3-Small": lambda: mobilenet_v3(False),
    "MobileNetV3-Large": lambda: mobilenet_v3(True),
    "MnasNet": mnasnet,
    "EfficientNet-B0": lambda: efficientnet(False),
    "EfficientNet-Lite0": lambda: efficientnet(True),
    "EfficientNetV2": efficientnet_v2,
    "GhostNet": ghostnet,
    "ShuffleNetV1": shufflenet_v1,
    "ShuffleNetV2": shufflenet_v2,
    "Darknet, leaky ReLU": lambda: plain(lambda: nn.LeakyReLU(0.1)),
    "PReLU per channel": prelu,
    "ELU": lambda: plain(nn.ELU),
    "Mish": lambda: plain(nn.Mish),
    "Sigmoid at the end": lambda: plain(nn.ReLU, last=nn.Sigmoid()),
    "ReLU6, maxima": lambda: plain(nn.ReLU6, "max", nn.Softmax(1)),
    "Upsampling": Decoder,
    "ConvMixer, GELU": convmixer,
    "ConvNeXt": lambda: Classifier(nn.Sequential(nn.Conv2d(3, 24, 4, 4), ConvNext(24), ConvNext(24)), 24),
    "Vision transformer": Transformer,
}
