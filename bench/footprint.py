"""How much memory does a process hold that certifies one image?

    python -m bench.footprint MODEL KERNELS THREADS SAMPLES

is that process; it prints what it held after each step, in megabytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from bench.machine import peak_mb, resident_mb

if TYPE_CHECKING:
    from bench.context import Context

BIG = "resnet50"


def certify(model: str, kernels: str, threads: int, samples: int) -> dict[str, float]:
    """Import, load, certify, as a user's script does."""
    steps = {"interpreter": resident_mb()}
    import numpy as np
    import onnx  # noqa: F401 (which intrs.load needs)

    import intrs

    noise = intrs.Noise.of("discrete", "0.25")
    smooth = intrs.Smooth  # names are loaded when first used
    steps["imports"] = resident_mb()
    network = intrs.load(model, pixels="unit")
    steps["model"] = resident_mb()
    image = np.full(network.input_shape, 128, np.uint8)
    smooth(network, noise, seed=1, threads=threads, kernels=kernels).certify(image, n0=samples, n=samples)
    return steps | {"certified": resident_mb(), "peak": peak_mb()}


def _in_a_process(model: str, kernels: str, threads: int, samples: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.footprint", model, kernels, str(threads), str(samples)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    steps: dict[str, float] = json.loads(done.stdout)
    return steps | {"without_imports": steps["peak"] - steps["imports"]}


def run(context: Context) -> dict[str, Any]:
    """ResNet-20 with many samples, ResNet-50 at 224 x 224 with a few."""
    kernels, threads = context.kernels[0], context.threads
    small = _in_a_process(context.model("int8"), kernels, threads, 2_000 if context.quick else 20_000)
    table = {"ResNet-20, 32 x 32": small}
    if not context.quick:
        table["ResNet-50, 224 x 224"] = _in_a_process(context.model("int8", BIG, 224), kernels, threads, 64)
    return {"kernels": kernels, "threads": threads, "networks": table}


def main(arguments: list[str]) -> None:
    model, kernels, threads, samples = arguments
    print(json.dumps(certify(model, kernels, int(threads), int(samples))))


if __name__ == "__main__":
    main(sys.argv[1:])
