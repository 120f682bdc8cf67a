"""Bring your own model: a float ONNX file, quantized with ONNX Runtime, loaded as integers, certified.

The model is made here, by hand, to keep this short: it tells whether an image is brighter on the left or on the right.
With a model of your own, begin at quantize().

python examples/bring_your_own_model.py
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (  # type: ignore[import-untyped]
    CalibrationDataReader,
    QuantType,
    quant_pre_process,
    quantize_static,
)

import intrs
from intrs.votes import Samples, noisy_images

SIDE, NAMES = 8, ("left", "right")
NOISE = intrs.Noise.of("discrete", "0.25")


def make_float_model(path: Path) -> None:
    """A blur, Relu, and the difference of the two halves as scores."""
    right = np.repeat([[-1, 1]], SIDE // 2, axis=1).repeat(SIDE, axis=0).ravel() / SIDE**2
    weights = {"blur": np.full((1, 1, 3, 3), 1 / 9), "halves": np.stack([-right, right])}
    nodes = [
        helper.make_node("Conv", ["image", "blur"], ["blurred"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["blurred"], ["positive"], name="relu"),
        helper.make_node("Flatten", ["positive"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "halves"], ["scores"], name="gemm", transB=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, SIDE, SIDE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "halves", [image], [scores], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def make_images(count: int) -> NDArray[np.uint8]:
    """Images (count, height, width, 1), the right half brighter in every second one."""
    images = np.random.default_rng(0).integers(60, 130, (count, SIDE, SIDE, 1))
    images[0::2, :, : SIDE // 2] += 40
    images[1::2, :, SIDE // 2 :] += 40
    return images.astype(np.uint8)


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Hands ONNX Runtime what the network will see: images with noise, so that its ranges leave room for the noise."""

    def __init__(self, images: NDArray[np.uint8]) -> None:
        self.left = iter([noisy_images(image, NOISE, Samples(0, i, 0, 8)) for i, image in enumerate(images)])

    def get_next(self) -> dict[str, Any] | None:
        """The next batch as the float model takes it: 0..1, channels first."""
        batch = next(self.left, None)
        return None if batch is None else {"image": (batch / 255).transpose(0, 3, 1, 2).astype(np.float32)}


def quantize(source: Path, target: Path, images: NDArray[np.uint8]) -> None:
    """The usual way with ONNX Runtime: unsigned activations, signed weights, one scale per channel."""
    prepared = source.with_suffix(".prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(prepared, target, Calibration(images), per_channel=True, **kinds)


def main() -> None:
    """Make, quantize, load, certify."""
    images = make_images(20)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        make_float_model(source)
        quantize(source, target, images)
        network = intrs.load(target)
    print(f"loaded {len(network.layers)} integer layers, identity {network.identity[:16]}")
    smooth = intrs.Smooth(network, NOISE, seed=1)
    for i, image in enumerate(images[:4]):
        found = smooth.certify(image, n=10_000, index=i)
        if isinstance(found, intrs.Certified):
            print(f"image {i} is brighter on the {NAMES[found.label]}: radius {found.radius_text(3)}")
        else:
            print(f"image {i}: abstained, {found.reason}")


if __name__ == "__main__":
    main()
