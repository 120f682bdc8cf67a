"""What ships with the package: integer networks with their cards, and images to certify. Nothing here needs torch."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from intrs.errors import IntrsError

DEFAULT_MODEL = "resnet20-sigma0.25"
DEFAULT_DATA = "cifar10-500"
CARD_FORMAT = "intrs model card 1"
FLOAT = "float"  # the folder with fp32 twins
FP32 = "-fp32"  # after a model's name: its twin


def model_names() -> tuple[str, ...]:
    """The models that ship, by the names that `intrs.load` and the command line take."""
    return _names(".onnx")


def float_names() -> tuple[str, ...]:
    """The float32 networks that ship, each under the name of the model that was quantized from it and `-fp32`."""
    return tuple(name + FP32 for name in model_names() if float_path(name))


def data_names() -> tuple[str, ...]:
    """The data sets that ship."""
    return _names(".npz")


def model_path(name: str | None = None) -> Path:
    """The ONNX file of a model that ships; the default one without a name."""
    return _path(name or DEFAULT_MODEL, ".onnx", "model", model_names())


def find_model(spec: str) -> Path:
    """A file wins over a model of the same name that ships."""
    if path := seek_model(spec):
        return path
    if Path(spec).exists():  # a folder: whoever opens it says so
        return Path(spec)
    names = ", ".join((*model_names(), *float_names())) or "none"
    raise IntrsError(f"{spec}: no such file, nor a model that ships ({names})")


def seek_model(spec: str) -> Path | None:
    """The same, None if there is neither."""
    if Path(spec).is_file():
        return Path(spec)
    if spec in float_names():
        return float_path(spec.removesuffix(FP32))
    return model_path(spec) if spec in model_names() else None


def data_path(name: str | None = None) -> Path:
    """The .npz file of images that ship; the default ones without a name."""
    return _path(name or DEFAULT_DATA, ".npz", "data set", data_names())


def float_path(name: str) -> Path | None:
    """The float32 ONNX file that a model was quantized from, if that ships too."""
    twin = model_path(name).parent / FLOAT / f"{name}.onnx"
    return twin if twin.is_file() else None


def card(name: str | None = None) -> dict[str, Any]:
    """What is known of a model that ships: origin, recipe, accuracy, limits. docs/zoo.md says what the fields are."""
    found: dict[str, Any] = json.loads(model_path(name).with_suffix(".json").read_text("utf-8"))
    return found


def _names(suffix: str) -> tuple[str, ...]:
    return tuple(sorted(f.name.removesuffix(suffix) for f in files(__name__).iterdir() if f.name.endswith(suffix)))


def _path(name: str, suffix: str, what: str, known: tuple[str, ...]) -> Path:
    if name not in known:  # also keeps names like ../x out
        raise IntrsError(f"no {what} {name!r} ships with intrs; what does: {', '.join(known) or 'none'}")
    return Path(str(files(__name__) / (name + suffix)))
