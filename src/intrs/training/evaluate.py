"""What came of a run: ONNX files, and the accuracy of each form of the network on the same noisy images."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from intrs.model import load
from intrs.progress import Progress
from intrs.training import architectures
from intrs.training.batches import HeldOut
from intrs.training.engine import CPU, Predict, accuracy, classes, predictor
from intrs.training.onnx_out import save_onnx
from intrs.training.quant import fold, fold_float, set_mode

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import nn

    from intrs.data import Images
    from intrs.progress import OnProgress
    from intrs.training.architectures import Architecture, Task
    from intrs.training.checkpoint import Checkpoint


def export(kept: Checkpoint, task: Task, kind: Architecture | None = None) -> dict[str, Path]:
    """Write the networks of a finished run as ONNX files: "fp32", and "int8" if there was a phase for it."""
    recipe, files = kept.recipe, {"fp32": kept.folder / f"{kept.recipe.name}-fp32.onnx"}
    height, width, channels = task.image_shape
    doc = f"{recipe.name}: {recipe.data}, {recipe.noise} noise, {recipe.objective}"
    model = architectures.build(kind or recipe.architecture, task, 0)
    kept.load_float(model)
    save_onnx(fold_float(model), files["fp32"], (channels, height, width), task.classes, doc, recipe.sigma)
    if recipe.qat_epochs:
        files["int8"] = kept.folder / f"{recipe.name}.onnx"
        kept.load(model)
        save_onnx(fold(model), files["int8"], (channels, height, width), task.classes, doc, recipe.sigma)
    return files


def evaluate(
    kept: Checkpoint,
    task: Task,
    test: Images,
    files: dict[str, Path],
    progress: OnProgress | None = None,
    kind: Architecture | None = None,
    device: torch.device = CPU,
) -> dict[str, Any]:
    """Measure the forms of the network on all test images, one draw of integer noise each, the same for all.

    Where answers are compared the fake-quantized network is taken in float64: in float32 its own sums, whose order
    depends on the number of threads, change more answers of a deep network than the step to integers does
    (docs/decisions/7-training.md). Without noise, where they are only counted, float32 takes a third of the time.
    """
    data, networks = HeldOut(test, kept.recipe), dict[str, Predict]()
    trained: nn.Module | None = None
    float_model = architectures.build(kind or kept.recipe.architecture, task, 0)
    kept.load_float(float_model)
    device = CPU if device.type == "mps" else device  # which has no float64
    networks["fp32"] = predictor(float_model.to(device).eval())
    results: dict[str, Any] = {"test_images": len(test), "files": {k: _file(path) for k, path in files.items()}}
    if "int8" in files:
        trained = architectures.build(kind or kept.recipe.architecture, task, 0)
        kept.load(trained)
        set_mode(trained, "quant")
        integer = load(files["int8"])
        networks |= {"fake_quantized": predictor(trained.to(device).double().eval()), "integer": integer.predict}
        results["identity"] = integer.identity
    networks = _counted(networks, len(test), progress) if progress else networks
    noisy = {name: classes(network, data) for name, network in networks.items()}
    if trained:
        trained.float()  # as it was: its weights are float32's
    results["noisy_accuracy"] = {name: float((found == data.labels).mean()) for name, found in noisy.items()}
    results["accuracy"] = {name: accuracy(network, data, noisy=False) for name, network in networks.items()}
    if "int8" in files:
        results["agreement"] = float((noisy["fake_quantized"] == noisy["integer"]).mean())
    return results


def _counted(networks: dict[str, Predict], images: int, progress: OnProgress) -> dict[str, Predict]:
    """The same networks, which tell how many images they have seen together: each twice, with noise and without."""
    done, total = 0, 2 * images * len(networks)
    progress(Progress(0, total, "test images"))

    def counted(name: str, predict: Predict) -> Predict:
        def call(images: NDArray[np.int32]) -> NDArray[np.int64]:
            nonlocal done
            found = predict(images)
            done += len(found)
            progress(Progress(done, total, "test images", f"accuracy of the {name.replace('_', '-')} network"))
            return found

        return call

    return {name: counted(name, predict) for name, predict in networks.items()}


def _file(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"name": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
