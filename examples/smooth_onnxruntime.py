"""Smooth another engine: any callable on integer images gets the same noise and the same bounds.

The same file runs in ONNX Runtime and in integers. ONNX Runtime rounds in float between layers, so a few votes differ;
the certificate holds for whichever engine was sampled.

python examples/smooth_onnxruntime.py
"""

from typing import Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
from numpy.typing import NDArray

import intrs
from intrs import zoo

N, IMAGES, SEED = 300, 3, 7

options = ort.SessionOptions()
options.add_session_config_entry("session.x64quantprecision", "1")  # or it saturates on processors without VNNI
session = ort.InferenceSession(str(zoo.model_path()), options, providers=["CPUExecutionProvider"])


def classify(batch: NDArray[np.int32]) -> Any:
    """Scores of integer images (n, height, width, channels) with noise added; the file wants 0..1, channels first."""
    pixels = (batch.astype(np.float32) / 255).transpose(0, 3, 1, 2)
    return session.run(None, {"image": np.ascontiguousarray(pixels)})[0]


data = intrs.open_data(zoo.DEFAULT_DATA)
noise = intrs.Noise.of("discrete", "0.25")
engines = {
    "ONNX Runtime": intrs.Smooth(classify, noise, seed=SEED),
    "integers": intrs.Smooth(intrs.load(zoo.model_path()), noise, seed=SEED),
}
for position in range(IMAGES):
    index = int(data.indices[position])
    print(f"image {index}, {data.classes[data.labels[position]]}")
    for name, smooth in engines.items():
        found = smooth.certify(data.images[position], n=N, index=index)
        radius = found.radius_text(3) if isinstance(found, intrs.Certified) else "abstained"
        label = data.classes[found.label] if isinstance(found, intrs.Certified) else "-"
        print(f"  {name:13} {label:11} votes {found.votes} of {found.n}, radius {radius}")
