"""Certified robustness in integers: noise, network, votes and radius without a float. See README.md.

    network = intrs.load("model.onnx")
    smooth = intrs.Smooth(network, intrs.Noise.of("discrete", "0.25"))
    print(smooth.certify(image, n=10_000))

Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from intrs import _core as _core
except ImportError as error:
    raise ImportError(
        f"intrs was not built: its native core is missing or does not fit this Python ({error}). Install the package "
        "instead of importing it from the source folder: `pip install .` there builds the core. That needs a C++17 "
        "compiler (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install)."
    ) from error

from intrs.errors import IntrsError
from intrs.votes import Votes, votes  # now, not later: the function must win over the module of its name

if TYPE_CHECKING:
    from intrs.certificate import Abstained, Certified, Certifier
    from intrs.data import Images, open_data
    from intrs.model import load
    from intrs.network import Network
    from intrs.noise import Noise
    from intrs.smooth import Predicted, Smooth

    __version__: str

_LATER = {
    "Abstained": "intrs.certificate",
    "Certified": "intrs.certificate",
    "Certifier": "intrs.certificate",
    "Images": "intrs.data",
    "Network": "intrs.network",
    "Noise": "intrs.noise",
    "Predicted": "intrs.smooth",
    "Smooth": "intrs.smooth",
    "load": "intrs.model",
    "open_data": "intrs.data",
}
_ROOMS = ("adaptive", "pgd", "data", "float_engine", "metrics", "results", "zoo")  # with more names of their own

__all__ = [
    "Abstained",
    "Certified",
    "Certifier",
    "Images",
    "IntrsError",
    "Network",
    "Noise",
    "Predicted",
    "Smooth",
    "Votes",
    "__version__",
    "load",
    "open_data",
    "votes",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("intrs")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in _ROOMS:
        return import_module(f"intrs.{name}")
    raise AttributeError(f"module 'intrs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
