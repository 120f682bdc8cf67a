"""Certified robustness in integers: noise, network, votes and radius without a float. See README.md.

    run = intrs.certify("resnet20-sigma0.25", "cifar10-500", n=10_000)     # what the command does, as a function
    print(run.certified_accuracy(0.25))

    network = intrs.load("resnet20-sigma0.25")                             # or a file of your own
    smooth = intrs.Smooth(network, sigma=0.25)
    for answer in smooth.certify_all(images): print(answer.certified, answer.label, answer.radius)

Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # typing's own takes a while to import
if not any(finder.find_spec("intrs._core", __path__) for finder in sys.meta_path):
    raise ImportError(
        "intrs was not built: its native core is missing or does not fit this Python. Install the package instead of "
        "importing it from the source folder: `pip install .` there builds the core. That needs a C++17 compiler "
        "(Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install)."
    )

if TYPE_CHECKING:
    from typing import Any

    from intrs import adaptive as adaptive
    from intrs import certificate as certificate
    from intrs import data as data
    from intrs import metrics as metrics
    from intrs import noise as noise
    from intrs import pgd as pgd
    from intrs import votes as votes
    from intrs import zoo as zoo
    from intrs.api import adaptive_table as adaptive_table
    from intrs.api import certify as certify
    from intrs.api import export as export
    from intrs.api import merge as merge
    from intrs.api import predict as predict
    from intrs.api import table as table
    from intrs.api import verify as verify
    from intrs.certificate import Abstained as Abstained
    from intrs.certificate import Certified as Certified
    from intrs.certificate import Certifier as Certifier
    from intrs.data import Images as Images
    from intrs.data import open_data as open_data
    from intrs.errors import DataError as DataError
    from intrs.errors import IntrsError as IntrsError
    from intrs.errors import ModelError as ModelError
    from intrs.errors import ResultsError as ResultsError
    from intrs.errors import SettingsError as SettingsError
    from intrs.experiments import reproduce as reproduce
    from intrs.metrics import Results as Results
    from intrs.metrics import read as read
    from intrs.model import load as load
    from intrs.network import Network as Network
    from intrs.noise import Noise as Noise
    from intrs.pgd.api import attack as attack
    from intrs.progress import Progress as Progress
    from intrs.quantization import quantize as quantize
    from intrs.reports import plot as plot
    from intrs.reports import report as report
    from intrs.site import Site as Site
    from intrs.site import web as web
    from intrs.smooth import Predicted as Predicted
    from intrs.smooth import Smooth as Smooth
    from intrs.training import train as train
    from intrs.votes import Samples as Samples
    from intrs.votes import Votes as Votes

    __version__: str

_NAMES = {
    "intrs.api": ("adaptive_table", "certify", "export", "merge", "predict", "table", "verify"),
    "intrs.certificate": ("Abstained", "Certified", "Certifier"),
    "intrs.data": ("Images", "open_data"),
    "intrs.errors": ("DataError", "IntrsError", "ModelError", "ResultsError", "SettingsError"),
    "intrs.experiments": ("reproduce",),
    "intrs.metrics": ("Results", "read"),
    "intrs.model": ("load",),
    "intrs.network": ("Network",),
    "intrs.noise": ("Noise",),
    "intrs.pgd.api": ("attack",),
    "intrs.progress": ("Progress",),
    "intrs.quantization": ("quantize",),
    "intrs.reports": ("plot", "report"),
    "intrs.site": ("Site", "web"),
    "intrs.smooth": ("Predicted", "Smooth"),
    "intrs.training": ("train",),
    "intrs.version": ("__version__",),
    "intrs.votes": ("Samples", "Votes"),
}
_ROOMS = ("adaptive", "certificate", "data", "metrics", "noise", "pgd", "votes", "zoo")  # with more names of their own
_WHERE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    *sorted(_WHERE),
    *_ROOMS,
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _ROOMS:
        return import_module(f"intrs.{name}")
    raise AttributeError(f"module 'intrs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
