"""What ships with the package: small integer networks and images to certify. Nothing here needs torch."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from intrs.errors import IntrsError

DEFAULT_MODEL = "resnet8-sigma0.25"
DEFAULT_DATA = "cifar10-500"


def model_names() -> tuple[str, ...]:
    """The models that ship, by the names that `intrs.load` and the command line take."""
    return _names(".onnx")


def data_names() -> tuple[str, ...]:
    """The data sets that ship."""
    return _names(".npz")


def model_path(name: str | None = None) -> Path:
    """The ONNX file of a model that ships; the default one without a name."""
    return _path(name or DEFAULT_MODEL, ".onnx", "model", model_names())


def data_path(name: str | None = None) -> Path:
    """The .npz file of images that ship; the default ones without a name."""
    return _path(name or DEFAULT_DATA, ".npz", "data set", data_names())


def _names(suffix: str) -> tuple[str, ...]:
    return tuple(sorted(f.name.removesuffix(suffix) for f in files(__name__).iterdir() if f.name.endswith(suffix)))


def _path(name: str, suffix: str, what: str, known: tuple[str, ...]) -> Path:
    if name not in known:  # also keeps names like ../x out
        raise IntrsError(f"no {what} {name!r} ships with intrs; what does: {', '.join(known) or 'none'}")
    return Path(str(files(__name__) / (name + suffix)))
