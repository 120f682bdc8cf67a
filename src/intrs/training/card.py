"""The model card: where a network comes from, what it can do and what it cannot, beside its ONNX file."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from intrs import __version__
from intrs.errors import ResultsError
from intrs.training.recipe import stored_fault
from intrs.training.state import read_json
from intrs.zoo import CARD_FORMAT

if TYPE_CHECKING:
    from pathlib import Path

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
        **_devices(log),
        "made_with": {"intrs": __version__, "torch": version("torch"), "machine": platform.machine()},
        "results": results,
        "limits": _limits(kept, train),
    }


def card_path(kept: Checkpoint) -> Path:
    """Where the card of a run goes."""
    return kept.folder / f"{kept.recipe.name}.json"


def read_card(path: Path) -> dict[str, Any]:
    """A card out of a file, checked as far as others read it."""
    try:
        card = read_json(path)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not JSON ({error})") from None
    if not isinstance(card, dict) or card.get("format") != CARD_FORMAT:
        raise ResultsError(f"{path}: not a model card ({CARD_FORMAT})")
    if fault := _fault(card):
        raise ResultsError(f"{path}: the model card is damaged: {fault}")
    return card


def _fault(card: dict[str, Any]) -> str | None:
    """What is missing or of the wrong type; None if nothing is."""
    recipe, results = card.get("recipe"), card.get("results")
    if not isinstance(card.get("name"), str) or not isinstance(recipe, dict) or not isinstance(results, dict):
        return "it has no name, recipe or results"
    if not isinstance(recipe.get("sigma"), str):
        return "its recipe has no sigma"
    return stored_fault(recipe) or results_fault(results) or _certified_fault(card.get("certified", []))


def results_fault(results: dict[str, Any]) -> str | None:
    """The same of the results in a card or in results.json."""
    for name in ("noisy_accuracy", "accuracy", "files"):
        if not isinstance(results.get(name), dict):
            return f"its results have no {name!r}"
    for form, file in results["files"].items():
        if not isinstance(file, dict) or not all(isinstance(file.get(key), str) for key in ("name", "sha256")):
            return f"its results do not say which file the {form} network is"
    numbers = [*results["noisy_accuracy"].values(), *results["accuracy"].values(), results.get("agreement", 1.0)]
    if not all(isinstance(number, int | float) and 0 <= number <= 1 for number in numbers):
        return "an accuracy of its results is no number from 0 to 1"
    forms = {"fp32", "fake_quantized", "integer"} if "int8" in results["files"] else {"fp32"}
    if not forms <= results["noisy_accuracy"].keys() or not isinstance(results.get("identity", ""), str):
        return "its results lack the accuracy of a network, or its identity is malformed"
    if "int8" in results["files"] and "identity" not in results:
        return "its results lack the identity of the integer network"
    return None


def _certified_fault(found: Any) -> str | None:
    right = isinstance(found, list) and all(isinstance(entry, dict) for entry in found)
    return None if right else "'certified' is no list of runs"


def faithful(results: dict[str, Any]) -> bool:
    """Whether the integer network is the fake-quantized one, as far as can be asked for."""
    if "agreement" not in results:
        return "integer" not in results["noisy_accuracy"]
    found = results["noisy_accuracy"]
    difference = abs(found["fake_quantized"] - found["integer"])
    return bool(results["agreement"] >= LEAST_AGREEMENT and difference <= MOST_DIFFERENCE)


def _devices(log: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What the epochs were computed on, if not all of them on the CPU; whoever finds nothing knows that it was."""
    found = sorted({str(entry.get("device", "cpu")) for entry in log})
    return {} if found in ([], ["cpu"]) else {"devices": found}


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
    limits += _first_weights(recipe.to_json())
    limits.append("Another processor, number of threads or version of PyTorch gives other weights of like quality.")
    return limits


def _first_weights(recipe: dict[str, Any]) -> list[str]:
    """What is known of the weights with which the first of the runs began, if they were not random."""
    while not recipe.get("weights") and recipe.get("start"):
        recipe = recipe["start"]["recipe"]
    if not (weights := recipe.get("weights", "")):
        return []
    if recipe.get("model"):
        return [f"Begins with the weights that were given ({weights}); what they were trained on is not known here."]
    return [f"Begins with weights of ImageNet ({weights}), whose terms apply."]
