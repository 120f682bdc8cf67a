"""What ships with the package: integer networks with their cards, and images to certify. Nothing here needs torch."""

from __future__ import annotations

import json
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intrs.errors import DataError, IntrsError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    names = *model_names(), *float_names()
    meant = f"{nearest(spec, names)} Models" if nearest(spec, names) else "; models"
    known = ", ".join(names) or "none"
    raise ModelError(f"{spec}: no such file, and no model of that name{meant} that ship with intrs: {known}")


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


def name_of(path: Path) -> str:
    """The name of the model that ships as this file, or whose float twin it is; "" for any other file."""
    for name in model_names():
        if path in (model_path(name), float_path(name)):
            return name
    return ""


def _names(suffix: str) -> tuple[str, ...]:
    return tuple(sorted(f.name.removesuffix(suffix) for f in files(__name__).iterdir() if f.name.endswith(suffix)))


def _path(name: str, suffix: str, what: str, known: tuple[str, ...]) -> Path:
    if name not in known:  # also keeps names like ../x out
        kind: type[IntrsError] = ModelError if suffix == ".onnx" else DataError
        raise kind(
            f"no {what} {name!r} ships with intrs{nearest(name, known)}; choose from {', '.join(known) or 'none'}"
        )
    return Path(str(files(__name__) / (name + suffix)))


def nearest(name: str, known: Iterable[str]) -> str:
    """Words for an error message that ask whether another name was meant; none if no name is like this one."""
    names = list(known)
    usual = [DEFAULT_MODEL] if name and DEFAULT_MODEL.startswith(name) and DEFAULT_MODEL in names else []
    found = usual or get_close_matches(Path(name).name, names, 1)
    return f"; did you mean {found[0]}?" if found else ""
