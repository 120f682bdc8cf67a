"""The model card: where a network comes from, what it can do and what it cannot, beside its ONNX file."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from intrs import __version__
from intrs.zoo import CARD_FORMAT

if TYPE_CHECKING:
    from intrs.data import Images
    from intrs.training.architectures import Task
    from intrs.training.checkpoint import Checkpoint

LEAST_AGREEMENT, MOST_DIFFERENCE = 0.99, 0.003  # of integer and fake-quantized network


def make_card(
    kept: Checkpoint, task: Task, train: Images, test: Images, results: dict[str, Any], command: str
) -> dict[str, Any]:
    """Everything that is known of a finished run."""
    recipe, log = kept.recipe, kept.log
    height, width, channels = task.image_shape
    return {
        "format": CARD_FORMAT,
        "name": recipe.name,
        "architecture": recipe.architecture,
        "input": f"image, float (batch, {channels}, {height}, {width}): (pixel + noise) / 255, not clipped",
        "output": f"logits, float (batch, {task.classes})",
        "classes": list(train.classes) or task.classes,
        "data": {"name": train.name, "train": _set(train), "test": _set(test)},
        "command": command,
        "recipe": recipe.to_json(),
        "seconds": round(sum(entry["seconds"] for entry in log)),
        "threads": sorted({entry["threads"] for entry in log}),
        "made_with": {"intrs": __version__, "torch": version("torch"), "machine": platform.machine()},
        "results": results,
        "limits": _limits(kept, train),
    }


def faithful(results: dict[str, Any]) -> bool:
    """Whether the integer network is the fake-quantized one, as far as can be asked for."""
    if "agreement" not in results:
        return "integer" not in results["noisy_accuracy"]
    found = results["noisy_accuracy"]
    difference = abs(found["fake_quantized"] - found["integer"])
    return bool(results["agreement"] >= LEAST_AGREEMENT and difference <= MOST_DIFFERENCE)


def _set(images: Images) -> dict[str, Any]:
    return {"images": len(images), "sha256": images.sha256}


def _limits(kept: Checkpoint, train: Images) -> list[str]:
    recipe = kept.recipe
    height, width, _ = train.image_shape
    limits = [f"Knows the classes of {train.name} and images of {width} x {height} pixels only."]
    if recipe.sigma:
        limits.append(f"Made for noise of sigma {recipe.sigma}; what it does under other noise was not measured.")
    else:
        limits.append("Trained without noise: not meant for certificates.")
    watched = "" if recipe.hold_out else " and for the curves of the log, by which nothing was chosen"
    limits.append(f"One seed, no choice of checkpoint; test images served for the numbers of this card{watched}.")
    if weights := _first_weights(recipe.to_json()):
        limits.append(f"Begins with weights of ImageNet ({weights}), whose terms apply.")
    limits.append("Another processor, number of threads or version of PyTorch gives other weights of like quality.")
    return limits


def _first_weights(recipe: dict[str, Any]) -> str:
    """The published weights with which the first of the runs began, if any."""
    while not recipe.get("weights") and recipe.get("start"):
        recipe = recipe["start"]["recipe"]
    return str(recipe.get("weights", ""))
