"""Random TFLite graphs: the loaded network equals the reference kernels of its dialect in every tensor, all bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from random_tflite import ENDS, KINDS, UNSIGNED_KINDS, RandomGraph, random_graph, tensors_of

from intrs.exchange.convention import Convention
from intrs.exchange.tflite.file import parse_graph
from intrs.exchange.tflite.read import lower

if TYPE_CHECKING:
    from intrs.network import Network

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: pip install ai-edge-litert")


def compare(graph: RandomGraph, network: Network, rng: np.random.Generator, dialect: str, kernels: str | None) -> int:
    """How many tensors of the reference kernels the network has, by name; all must be equal, the scores among them.

    A layer that another one changes at once has the name of the tensor too: the last of a name counts.
    """
    image = rng.integers(-40, 300, network.input_shape)
    codes, *traced = network.trace(image, kernels)
    shift = 128 if graph.unsigned else 0
    theirs = tensors_of(graph, (codes + shift).astype(np.uint8 if graph.unsigned else np.int8)[None], dialect)
    ours = {layer.name: values for layer, values in zip(network.layers, traced, strict=True)}
    for name in ours.keys() & theirs.keys():
        expected = theirs[name].astype(np.int32).ravel() - shift
        assert np.array_equal(ours[name].ravel(), expected), f"{name} of {graph.operators}"
    assert np.array_equal(traced[-1].ravel(), theirs[graph.names[-1]].astype(np.int32).ravel() - shift)
    return len(ours.keys() & theirs.keys())
