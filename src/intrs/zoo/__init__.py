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


def model_names() -> tuple[str, ...]:
    """The models that ship, by the names that `intrs.load` and the command line take."""
    return _names(".onnx")


def data_names() -> tuple[str, ...]:
    """The data sets that ship."""
    return _names(".npz")


def model_path(name: str | None = None) -> Path:
    """The ONNX file of a model that ships; the default one without a name."""
    return _path(name or DEFAULT_MODEL, ".onnx", "model", model_names())


def find_model(spec: str) -> Path:
    """A file wins over a model of the same name that ships."""
    path = Path(spec)
    if path.exists():
        return path
    if spec in model_names():
        return model_path(spec)
    raise IntrsError(f"{spec}: no such file, nor a model that ships ({', '.join(model_names()) or 'none'})")


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
