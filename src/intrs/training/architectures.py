"""The networks that can be trained, by the names that the command line takes: the one place to add another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from intrs.errors import DataError, SettingsError
from intrs.noise import PIXEL_RANGE
from intrs.training import bottleneck
from intrs.training.resnet import ResNet

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from intrs.data import Images
    from intrs.data.lazy import Pixels

MOST_LAYERS = 1202
IMAGES_AT_ONCE = 256  # of which statistics are taken


@dataclass(frozen=True)
class Task:
    """What a network has to fit: image shape (height, width, channels), classes, the training pixels' statistics."""

    image_shape: tuple[int, int, int]
    classes: int
    mean: list[float]
    std: list[float]

    @classmethod
    def of(cls, train: Images) -> Task:
        """The task that a training set poses."""
        mean, std = pixel_statistics(train.images)
        return cls(train.image_shape, classes_of(train), mean, std)


def classes_of(data: Images) -> int:
    """How many classes there are: as many as have names, or up to the largest label."""
    return len(data.classes) or int(data.labels.max()) + 1


@dataclass(frozen=True)
class Architecture:
    """How to build a network for a task, and the smallest images that make sense for it.

    form: what published weights of it look like; such a network takes RGB images and brings their mean and std along.
    """

    build: Callable[[Task], nn.Module]
    smallest: int
    form: bottleneck.Form | None = None


def pixel_statistics(images: Pixels) -> tuple[list[float], list[float]]:
    """Mean and standard deviation by channel, on the scale 0..1; exact until the last division."""
    mean, std = [], []
    values, channels = np.arange(256), images.shape[-1]
    histograms = np.zeros((channels, 256), np.int64)
    for begin in range(0, len(images), IMAGES_AT_ONCE):  # not all of them may fit in memory
        block = images[begin : begin + IMAGES_AT_ONCE].reshape(-1, channels)
        histograms += [np.bincount(block[:, channel], minlength=256) for channel in range(channels)]
    for counts in histograms:
        n, first, second = (int(v) for v in (counts.sum(), counts @ values, counts @ values**2))
        mean.append(first / n / PIXEL_RANGE)
        std.append(((second * n - first**2) ** 0.5 / n or 1.0) / PIXEL_RANGE)  # 1.0: a constant channel
    return mean, std


def architecture(name: str) -> Architecture:
    """The architecture of a name, or a complaint that lists the names."""
    for pattern, make in _KNOWN.items():
        if match := re.fullmatch(pattern, name, re.ASCII):
            return make(match)
    raise SettingsError(
        f"no architecture {name!r}; there are resnet8, resnet14, resnet20 and so on (resnetN with N = 6n+2), resnet50 "
        "and resnet50-v1 for large images, and your own: net.py:Net, package.module:Net or a float net.onnx"
    )


def build(kind: str | Architecture, task: Task, seed: int) -> nn.Module:
    """The network of a name or an architecture, with its first weights, which depend on the seed alone."""
    torch.manual_seed(seed % 2**63)
    kind = architecture(kind) if isinstance(kind, str) else kind
    model: nn.Module = kind.build(task).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def check_images(name: str, image_shape: tuple[int, int, int]) -> None:
    """Refuse images that are too small for the architecture."""
    (height, width, channels), kind = image_shape, architecture(name)
    if min(height, width) < (least := kind.smallest):
        raise DataError(f"{name} takes images of {least} x {least} pixels or more; these have {width} x {height}")
    if kind.form and channels != len(kind.form.mean):
        raise DataError(f"{name} takes images of {len(kind.form.mean)} channels, RGB; these have {channels}")


def _cifar_resnet(match: re.Match[str]) -> Architecture:
    layers = int(match[1])
    n, rest = divmod(layers - 2, 6)
    if rest or not 1 <= n <= (MOST_LAYERS - 2) // 6:
        raise SettingsError(f"resnet{layers}: CIFAR ResNets have 6n+2 layers (8, 14, 20, 26, 32, ... {MOST_LAYERS})")
    return Architecture(lambda task: ResNet(n, task.mean, task.std, task.classes), smallest=8)


def _resnet50(form: bottleneck.Form) -> Architecture:
    return Architecture(lambda task: bottleneck.BottleneckNet(task.classes, form), smallest=32, form=form)


# The first that fits: ResNet-50 is no CIFAR ResNet, though 50 is 6n+2.
_KNOWN: dict[str, Callable[[re.Match[str]], Architecture]] = {
    r"resnet50": lambda _: _resnet50(bottleneck.TORCHVISION),
    r"resnet50-v1": lambda _: _resnet50(bottleneck.KERAS),
    r"resnet(\d{1,4})": _cifar_resnet,
}
