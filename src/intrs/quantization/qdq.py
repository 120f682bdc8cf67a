"""The int8 file: ONNX Runtime's quantizer places QuantizeLinear and DequantizeLinear; we say on which ranges.

Its output is int8 weights with a scale per output channel, uint8 activations, int32 biases. The last layer's scores are
left unrounded, so that classes do not tie.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from intrs.exchange.onnx.operators import OPERATORS
from intrs.exchange.onnx.read import AROUND_TAIL, TAIL, WITH_WEIGHTS
from intrs.quantization.source import weights_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from intrs.quantization.ranges import Range
    from intrs.quantization.source import Original

PREPROCESSED = ("onnx.quant.pre_process", "onnxruntime.quant")  # without it the quantizer logs advice
LEAST_WIDTH = 1e-6  # of a range: an activation that is always 0 needs a scale all the same


def quantized(source: Original, found: Mapping[str, Range], example: NDArray[np.float32]) -> onnx.ModelProto:
    """The network in QDQ form with these ranges of activations; example is any batch that the graph takes."""
    from onnxruntime.quantization import (  # type: ignore[import-untyped, unused-ignore]
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class _OneBatch(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        """One batch, for the quantizer's own calibration, all of which is overridden."""

        left = 1

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            self.left -= 1
            return {source.input: example} if self.left == 0 else None

        def __len__(self) -> int:
            return 1

    model = onnx.ModelProto()
    model.CopyFrom(source.proto)
    helper.set_model_props(model, dict([PREPROCESSED]))
    kinds = {node.op_type for node in model.graph.node}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quantize_static(
            model, path, _OneBatch(), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            op_types_to_quantize=sorted(kinds & set(OPERATORS)), nodes_to_exclude=sorted(source.before),
            extra_options={"TensorQuantOverrides": {name: [_override(*limits)] for name, limits in found.items()}},
        )  # fmt: skip
        made = onnx.load(path)
    _bare_scores(made)
    del made.metadata_props[:]
    return made


def _override(low: float, high: float) -> dict[str, NDArray[np.float32]]:
    high = max(high, low + LEAST_WIDTH)
    return {"rmin": np.array(low, np.float32), "rmax": np.array(high, np.float32)}


def _bare_scores(proto: onnx.ModelProto) -> None:
    """Leave the scores of a last layer with weights unrounded: take the pair of nodes after it away."""
    producers = {name: node for node in proto.graph.node for name in node.output}
    name, pair = proto.graph.output[0].name, list[onnx.NodeProto]()
    while (node := producers.get(name)) is not None and node.op_type in TAIL + AROUND_TAIL:
        pair = [*pair, node] if node.op_type in AROUND_TAIL[:2] else []
        name = node.input[0]
    if node is None or node.op_type not in WITH_WEIGHTS or [n.op_type for n in pair[-2:]] != [*AROUND_TAIL[1::-1]]:
        return
    after, before = pair[-2:]
    for reader in proto.graph.node:
        reader.input[:] = [before.input[0] if name == after.output[0] else name for name in reader.input]
    if after.output[0] == proto.graph.output[0].name:
        node.output[0] = after.output[0]
    proto.graph.node.remove(after)
    proto.graph.node.remove(before)


# --- What a quantized file holds -------------------------------------------------------------------------------------


class Holding:
    """The grids and weights of a quantized graph, by the nodes that read them."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self._nodes = {node.name: node for node in proto.graph.node}
        self._producers = {name: node for node in proto.graph.node for name in node.output}
        self._constants = weights_of(proto)

    def weight(self, name: str) -> NDArray[np.float32]:
        """The weights with which a node computes."""
        source = self._dequantizer(name, 1)
        axis = next((a.i for a in source.attribute if a.name == "axis"), 1)
        codes, scale, zero = (self._constants[part] for part in source.input)
        shape = [1] * codes.ndim
        if scale.ndim:
            shape[axis] = -1
        wide = codes.astype(np.float32) - zero.astype(np.float32).reshape(shape)
        return np.asarray(wide * scale.reshape(shape), np.float32)

    def rounded(self, name: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """What a node reads in place of the activations x."""
        source = self._dequantizer(name, 0)
        scale, zero = (self._constants[part] for part in source.input[1:])
        limits = np.iinfo(zero.dtype)
        codes = np.clip(np.rint(x / scale) + zero.astype(np.float32), limits.min, limits.max)
        return np.asarray((codes - zero.astype(np.float32)) * scale, np.float32)

    def has(self, name: str) -> bool:
        """Whether both inputs of a node are quantized."""
        node = self._nodes.get(name)
        found = [self._producers.get(part) for part in node.input[:2]] if node else []
        return len(found) == 2 and all(part is not None and part.op_type == AROUND_TAIL[1] for part in found)

    def _dequantizer(self, name: str, number: int) -> Any:
        return self._producers[self._nodes[name].input[number]]


def rounded_tensors(proto: onnx.ModelProto) -> dict[str, str]:
    """By the name of an activation that is quantized: the name of what is read in its place."""
    readers = {node.input[0]: node.output[0] for node in proto.graph.node if node.op_type == "DequantizeLinear"}
    quantizers = (node for node in proto.graph.node if node.op_type == "QuantizeLinear")
    return {node.input[0]: readers[node.output[0]] for node in quantizers if node.output[0] in readers}
