"""ImageNet weights that others have published, for the networks of ``bottleneck.py``.

Two forms are read: torchvision's state_dict (a .pth file, or the same names in safetensors) and the TensorFlow.js
export of Keras' ResNet-50.  A .pth file is a pickle; PyTorch's ``weights_only`` reader builds nothing but tensors
from it.
"""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from intrs.errors import ModelError
from intrs.noise import PIXEL_RANGE
from intrs.training import tfjs
from intrs.training.bottleneck import KERAS, TORCHVISION, Form
from intrs.training.checkpoint import read_tensors
from intrs.training.quant import ConvBN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor, nn

MOST_BYTES = 2**31
PICKLED, PLAIN = (".pth", ".pt"), ".safetensors"
NORM = ("weight", "bias", "running_mean", "running_var")
KERAS_NORM = ("gamma", "beta", "moving_mean", "moving_variance")
FORMS = (
    "ImageNet weights are torchvision's file (.pth or .safetensors), or a TensorFlow.js export: its model.json, the "
    "folder with it, or the package's .tgz"
)


@dataclass(frozen=True, eq=False)
class Pretrained:
    """Published weights: tensors by the names that they have in their file."""

    path: Path
    form: Form
    tensors: dict[str, Tensor]

    @property
    def sha256(self) -> str:
        """Hash over names, shapes and values, however they were packed."""
        return tensors_sha256(self.tensors)

    def put(self, model: nn.Module) -> None:
        """Overwrite the weights of all convolutions; those of the classifier too, if it has as many classes."""
        convert = _from_keras if self.form is KERAS else _from_torchvision
        state = model.state_dict()
        for name, layer in model.named_modules():
            if isinstance(layer, ConvBN):
                for part, value in zip(("weight", *(f"bn.{p}" for p in NORM)), convert(self._get, name), strict=True):
                    self._copy(state[f"{name}.{part}"], value, name)
        weight, bias = self._classifier()
        if len(bias) == len(state["fc.bias"]):
            self._copy(state["fc.weight"], weight, "fc")
            self._copy(state["fc.bias"], bias, "fc")

    def _classifier(self) -> tuple[Tensor, Tensor]:
        if self.form is KERAS:
            return self._get("fc1000/kernel").t(), self._get("fc1000/bias")
        return self._get("fc.weight"), self._get("fc.bias")

    def _get(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise ModelError(f"{self.path}: no tensor {name!r}, so these are not the weights of a ResNet-50")
        return self.tensors[name]

    def _copy(self, target: Tensor, value: Tensor, name: str) -> None:
        if value.shape != target.shape:
            raise ModelError(
                f"{self.path}: a tensor of {name} has the shape {list(value.shape)}, not {list(target.shape)}"
            )
        target.copy_(value)


def tensors_sha256(tensors: dict[str, Tensor]) -> str:
    """Hash over names, shapes and values, in the order of names."""
    digest = hashlib.sha256(b"intrs weights 1\n")
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state(path: Path) -> dict[str, Tensor]:
    """A state_dict of any network: safetensors, or a .pth or .pt file, of which nothing but tensors is built."""
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    if path.suffix not in (*PICKLED, PLAIN):
        raise ModelError(f"{path}: weights are a state_dict in {PLAIN}, {' or '.join(PICKLED)}")
    tensors = _unpickled(path) if path.suffix in PICKLED else read_tensors(path, ModelError)[0]
    _check_finite(path, tensors)
    return tensors


def _check_finite(path: Path, tensors: dict[str, Tensor]) -> None:
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise ModelError(f"{path}: {name} is not finite everywhere")


def read(path: Path, architecture: str, form: Form | None) -> Pretrained:
    """The weights in a file, for an architecture whose weights have the given form."""
    if form is None:
        raise ModelError(f"{architecture} begins with random weights; resnet50 and resnet50-v1 take a file of weights")
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    if path.suffix in (*PICKLED, PLAIN):
        found, tensors = TORCHVISION, _unpickled(path) if path.suffix in PICKLED else read_tensors(path, ModelError)[0]
    elif path.is_dir() or path.suffix in (".json", ".tgz"):
        found, tensors = KERAS, {name: torch.from_numpy(value) for name, value in tfjs.read(path).items()}
    else:
        raise ModelError(f"{path}: {FORMS}")
    if found is not form:
        fitting = "resnet50-v1" if found is KERAS else "resnet50"
        raise ModelError(f"{path}: weights of this form are those of {fitting}, not of {architecture}")
    _check_finite(path, tensors)
    return Pretrained(path, form, tensors)


def _unpickled(path: Path) -> dict[str, Tensor]:
    """A state_dict, read by what builds nothing but tensors."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = sum(info.file_size for info in archive.infolist())
        else:
            size = path.stat().st_size
        if size > MOST_BYTES:
            raise ModelError(f"{path}: more than {MOST_BYTES:,} bytes")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except Exception as error:  # whatever a damaged file makes of PyTorch's reader: it promises no type
        reason = str(error).partition("\n")[0][:200]
        raise ModelError(f"{path}: PyTorch cannot read this as weights alone ({reason})") from None
    if isinstance(state, dict) and isinstance(inner := state.get("state_dict"), dict):
        state = inner  # a checkpoint of a training program
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise ModelError(f"{path}: not a state_dict, names and tensors alone")
    if any(value.numel() * value.element_size() > MOST_BYTES for value in state.values()):
        raise ModelError(f"{path}: a tensor has more than {MOST_BYTES:,} bytes")
    return {str(name): value for name, value in state.items()}


# --- Their names for our layers --------------------------------------------------------------------------------------


def _from_torchvision(get: Callable[[str], Tensor], layer: str) -> list[Tensor]:
    """Weight and batch norm of one of our layers: stem, layer1.0.conv2, layer1.0.shortcut.0."""
    if layer == "stem":
        conv, norm = "conv1", "bn1"
    elif layer.endswith(".shortcut.0"):
        block = layer.removesuffix(".shortcut.0")
        conv, norm = f"{block}.downsample.0", f"{block}.downsample.1"
    else:
        conv, norm = layer, layer.replace(".conv", ".bn")
    return [get(f"{conv}.weight"), *(get(f"{norm}.{part}") for part in NORM)]


def _from_keras(get: Callable[[str], Tensor], layer: str) -> list[Tensor]:
    """The same out of kernels (height, width, in, out) with biases, which the mean of batch norm takes up."""
    conv, norm = _keras_names(layer)
    weight = get(f"{conv}/kernel").permute(3, 2, 0, 1)
    if layer == "stem":  # ours takes RGB over std, theirs BGR of 0..255
        weight = weight.flip(1) * (PIXEL_RANGE * torch.tensor(KERAS.std)).reshape(1, -1, 1, 1)
    gamma, beta, mean, variance = (get(f"{norm}/{part}") for part in KERAS_NORM)
    return [weight, gamma, beta, mean - get(f"{conv}/bias"), variance]


def _keras_names(layer: str) -> tuple[str, str]:
    if layer == "stem":
        return "conv1", "bn_conv1"
    stage, block, *part = layer.removeprefix("layer").split(".")
    branch = "1" if part[0] == "shortcut" else "2" + "abc"[int(part[0][-1]) - 1]
    place = f"{int(stage) + 1}{chr(ord('a') + int(block))}_branch{branch}"
    return f"res{place}", f"bn{place}"
