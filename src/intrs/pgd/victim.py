"""What is attacked: something that votes, and something differentiable to take gradients from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from intrs.errors import ModelError
from intrs.network import Network
from intrs.pgd.descent import CPU
from intrs.pgd.float_net import is_float, load_float
from intrs.pgd.twin import Twin

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from intrs.model import Model
    from intrs.network import Shape
    from intrs.request import Attack
    from intrs.votes import Classifier


@dataclass(frozen=True, eq=False)
class Victim:
    """A network from a file. The identity of an integer network is its own, that of a float one its file's hash."""

    base: Network | Classifier
    scores: nn.Module
    identity: str
    input_shape: Shape
    classes: int

    def label(self, image: NDArray[np.uint8]) -> int:
        """The class of one image, without noise."""
        batch = image[None].astype(np.int32)
        found = self.base.scores(batch) if isinstance(self.base, Network) else self.base(batch)
        return int(np.argmax(found[0]))


def open_victim(model: Model, request: Attack, device: torch.device = CPU) -> Victim:
    """A float file, or whatever `intrs.load` takes. It answers on the CPU; gradients are computed on the device."""
    if (path := model.path) and not model.is_quantized and is_float(path):
        if request.mean or request.std:
            raise ModelError(f"{path}: a float network normalises its images itself; leave mean and std out")
        net = load_float(path, request.pixels)
        classes = len(_float_scores(net)(np.zeros((1, *net.input_shape), np.int32))[0])
        identity = hashlib.sha256(path.read_bytes()).hexdigest()
        scores = net if device == CPU else load_float(path, request.pixels).to(device)
        return Victim(_float_scores(net), scores, identity, net.input_shape, classes)
    network = model.network(request.pixels, request.mean, request.std, request.dialect)
    with device:
        twin = Twin(network)
    return Victim(network, twin, network.identity, network.input_shape, network.classes)


def _float_scores(net: nn.Module) -> Classifier:
    def scores(batch: NDArray[np.int32]) -> NDArray[np.float32]:
        with torch.no_grad():
            found: NDArray[np.float32] = net(torch.from_numpy(batch.astype(np.float32))).numpy()
        return found

    return scores
