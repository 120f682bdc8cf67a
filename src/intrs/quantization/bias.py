"""Bias correction: rounded weights and activations shift the mean of a layer's outputs, and its bias shifts it back.

A layer is linear, so the mean of its outputs over images is its output for the mean image. Two mean inputs per layer
are therefore enough: of the activations, and of what the quantized layer reads in their place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from intrs.quantization.qdq import Holding
from intrs.quantization.source import BIAS, BIASED, weights_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.progress import OnProgress
    from intrs.quantization.activations import Taps
    from intrs.quantization.source import Original


def corrected(
    source: Original, made: onnx.ModelProto, taps: Taps, images: NDArray[np.int32], progress: OnProgress | None = None
) -> Original:
    """The float network with biases that give the quantized layers the mean outputs of the float ones."""
    holding, weights = Holding(made), weights_of(source.proto)
    layers = [
        node
        for node in source.proto.graph.node
        if node.op_type in BIASED and node.input[2:] == [node.name + BIAS] and holding.has(node.name)
    ]
    means = _mean_inputs(layers, holding, taps, images, progress)
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    biases = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in layers:
        exact, rounded = means[node.name]
        wanted = mean_output(node, exact, weights[node.input[1]])
        found = mean_output(node, rounded, holding.weight(node.name))
        bias = weights[node.input[2]] + (wanted - found) / _share(node)
        biases[node.input[2]].CopyFrom(numpy_helper.from_array(bias.astype(np.float32), node.input[2]))
    return replace(source, proto=proto)


def _mean_inputs(
    layers: list[onnx.NodeProto],
    holding: Holding,
    taps: Taps,
    images: NDArray[np.int32],
    progress: OnProgress | None,
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The mean input of every layer, exact and as the quantized network rounds it."""
    sums: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for batch in taps.batches(images, progress, "bias correction"):
        for node in layers:
            x = batch[node.input[0]]
            parts = x.sum(0, np.float64), holding.rounded(node.name, x).sum(0, np.float64)
            before = sums.get(node.name)
            sums[node.name] = (before[0] + parts[0], before[1] + parts[1]) if before else parts
    return {name: (a / len(images), b / len(images)) for name, (a, b) in sums.items()}


def mean_output(node: onnx.NodeProto, x: NDArray[np.float64], weight: NDArray[np.float32]) -> NDArray[np.float64]:
    """The output of a layer without its bias, by channel, averaged over places."""
    from onnxruntime import InferenceSession  # type: ignore[import-untyped, unused-ignore]

    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    del bare.input[2:]
    shape, kind = (1, *x.shape), onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [bare],
        "layer",
        [
            helper.make_tensor_value_info(node.input[0], kind, shape),
            helper.make_tensor_value_info(node.input[1], kind, weight.shape),
        ],
        [onnx.ValueInfoProto(name=node.output[0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {node.input[0]: x[None].astype(np.float32), node.input[1]: weight}
    (found,) = session.run(None, inputs)
    return np.asarray(found[0].astype(np.float64).reshape(found.shape[1], -1).mean(1))


def _share(node: onnx.NodeProto) -> float:
    """How much of its bias a layer adds: all of it, but for the beta of Gemm."""
    return next((a.f for a in node.attribute if a.name == "beta"), 1.0)
