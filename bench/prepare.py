"""Write the files that the engines read: float, quantised by ONNX Runtime, quantised by NNCF.

    python -m bench.prepare FOLDER NAME SIZE [sparse] [all]

writes NAME-SIZE.onnx (float) and NAME-SIZE.int8.onnx (QDQ, uint8 activations, int8 weights by channel); with `all` also
NAME-SIZE.reduced.onnx (the same with 7-bit weights) and NAME-SIZE.nncf.xml (OpenVINO's form).
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from bench.networks import BUILDERS, INPUT, Weights, zoo_weights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SIGMA = 0.25
CALIBRATION = 64  # images of 32 x 32; fewer of larger ones


def noisy_images(count: int, size: int, seed: int = 1) -> NDArray[np.float32]:
    """Random images with noise, as the network sees them: (count, 3, size, size), on the scale 0..1."""
    random = np.random.default_rng(seed)
    coarse = random.random((count, 3, size // 4, size // 4))
    images = coarse.repeat(4, axis=2).repeat(4, axis=3)
    noisy: NDArray[np.float32] = (images + random.normal(0, SIGMA, images.shape)).astype(np.float32)
    return noisy


def _calibration(size: int) -> NDArray[np.float32]:
    return noisy_images(max(2, CALIBRATION * 32 * 32 // (size * size)), size)


class _Reader:
    """What ONNX Runtime's calibration reads: one batch of images after another."""

    def __init__(self, images: NDArray[np.float32]) -> None:
        self.batches: Iterator[NDArray[np.float32]] = iter(np.array_split(images, max(1, len(images) // 16)))

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        batch = next(self.batches, None)
        return None if batch is None else {INPUT: batch}


def quantise(source: Path, target: Path, size: int, reduce_range: bool) -> None:
    """ONNX Runtime's post-training quantisation: QDQ form, uint8 activations, int8 weights by channel."""
    from onnxruntime import quantization as q

    q.quantize_static(
        source, target, _Reader(_calibration(size)), quant_format=q.QuantFormat.QDQ, per_channel=True,
        activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8, reduce_range=reduce_range,
        calibrate_method=q.CalibrationMethod.MinMax,
    )  # fmt: skip


def quantise_nncf(source: Path, target: Path, size: int) -> None:
    """NNCF's post-training quantisation for OpenVINO, with its defaults."""
    import nncf
    import openvino as ov

    images = [image[None] for image in _calibration(size)]
    model = ov.Core().read_model(source)
    quantised = nncf.quantize(model, nncf.Dataset(images), subset_size=len(images))
    ov.save_model(quantised, target, compress_to_fp16=False)


def prepare(folder: Path, name: str, size: int, sparse: bool, all_forms: bool) -> None:
    weights = Weights(trained=zoo_weights() if name == "resnet20" else None, sparse=sparse)
    stem = file_stem(name, size, sparse)
    source = folder / f"{stem}.onnx"
    onnx.save(BUILDERS[name](weights, size), source)
    quantise(source, folder / f"{stem}.int8.onnx", size, reduce_range=False)
    if all_forms:
        quantise(source, folder / f"{stem}.reduced.onnx", size, reduce_range=True)
        quantise_nncf(source, folder / f"{stem}.nncf.xml", size)


def file_stem(name: str, size: int, sparse: bool = False) -> str:
    return f"{name}-{size}{'-sparse' if sparse else ''}"


def main(arguments: list[str]) -> None:
    folder, name, size, *rest = arguments
    logging.disable(logging.WARNING)
    options: dict[str, Any] = {"sparse": "sparse" in rest, "all_forms": "all" in rest}
    prepare(Path(folder), name, int(size), **options)


if __name__ == "__main__":
    main(sys.argv[1:])
