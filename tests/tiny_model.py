"""A tiny int8 ONNX file and images for it, so that the command line can be tested in moments.

The model correlates a 4 x 4 RGB image with one random pattern per class. An image is grey plus its class's pattern,
weak or strong, so that some images are certified far out, some barely, and some make the model abstain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

SIDE, CLASSES = 4, 3
STRENGTHS = (60, 25, 0, 40, 8, 50, 15, 4)


def patterns(seed: int = 1) -> NDArray[np.int8]:
    """(classes, height, width, channels) of +-1."""
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), (CLASSES, SIDE, SIDE, 3))


def images(count: int = 8) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    labels = np.arange(count) % CLASSES
    strengths = np.resize(STRENGTHS, count)[:, None, None, None]
    return (128 + strengths * patterns()[labels]).astype(np.uint8), labels


def save_images(path: Path, count: int = 8, **changes: Any) -> Path:
    pixels, labels = images(count)
    arrays: dict[str, Any] = {"images": pixels, "labels": labels, "indices": np.arange(count) * 20 + 3} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def save_model(path: Path, seed: int = 1, sigma: str | None = "0.25", quantized: bool = True) -> Path:
    """Write the model: Q, DQ, a convolution over the whole image with int8 weights, Flatten."""
    nodes, constants = _quantized(seed) if quantized else _float(seed)
    nodes.append(helper.make_node("Flatten", ["scores"], ["logits"], axis=1))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tiny", [image], [logits], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if sigma:
        helper.set_model_props(model, {"intrs.sigma": sigma})
    path.write_bytes(model.SerializeToString())
    return path


def _weights(seed: int) -> NDArray[np.int8]:
    """Output channels first, then input channels, as ONNX has them; no two classes tie."""
    noise = np.random.default_rng(seed).integers(-9, 10, (CLASSES, 3, SIDE, SIDE))
    return (100 * patterns().transpose(0, 3, 1, 2).astype(np.int64) + noise).astype(np.int8)


def _quantized(seed: int) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    scale, weight_scale = np.float32(1 / 64), np.full(CLASSES, 1 / 128, np.float32)
    constants = {
        "scale": scale, "zero": np.uint8(96), "scale2": scale, "zero2": np.uint8(96),
        "codes": _weights(seed), "weight_scale": weight_scale, "weight_zero": np.zeros(CLASSES, np.int8),
        "bias_codes": np.zeros(CLASSES, np.int32), "bias_scale": weight_scale * scale,
        "bias_zero": np.zeros(CLASSES, np.int32),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "scale", "zero"], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "scale2", "zero2"], ["x"], name="dequantize"),
        helper.make_node("DequantizeLinear", ["codes", "weight_scale", "weight_zero"], ["w"], name="weights", axis=0),
        helper.make_node("DequantizeLinear", ["bias_codes", "bias_scale", "bias_zero"], ["b"], name="bias", axis=0),
        helper.make_node("Conv", ["x", "w", "b"], ["scores"], name="conv", kernel_shape=[SIDE, SIDE]),
    ]
    return nodes, constants


def _float(seed: int) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    weights = _weights(seed).astype(np.float32)
    node = helper.make_node("Conv", ["image", "w"], ["scores"], name="conv", kernel_shape=[SIDE, SIDE])
    return [node], {"w": weights}
