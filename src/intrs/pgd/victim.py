"""What is attacked: something that votes, and something differentiable to take gradients from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from intrs.errors import IntrsError
from intrs.model import load
from intrs.network import Network
from intrs.pgd.float_net import is_float, load_float
from intrs.pgd.twin import Twin

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import nn

    from intrs.network import Shape
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


def open_victim(path: Path, **options: Any) -> Victim:
    """A float file of `intrs train`, or whatever `intrs.load` takes, with its options."""
    if is_float(path):
        if options.get("mean") or options.get("std"):
            raise IntrsError(f"{path}: a float network normalises its images itself; leave --mean and --std out")
        net = load_float(path, options.get("pixels", "auto"))
        classes = len(_float_scores(net)(np.zeros((1, *net.input_shape), np.int32))[0])
        identity = hashlib.sha256(path.read_bytes()).hexdigest()
        return Victim(_float_scores(net), net, identity, net.input_shape, classes)
    network = load(path, **options)
    return Victim(network, Twin(network), network.identity, network.input_shape, network.classes)


def _float_scores(net: nn.Module) -> Classifier:
    def scores(batch: NDArray[np.int32]) -> NDArray[np.float32]:
        with torch.no_grad():
            found: NDArray[np.float32] = net(torch.from_numpy(batch.astype(np.float32))).numpy()
        return found

    return scores
