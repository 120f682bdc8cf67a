"""PyTorch as an extra: whether it is installed, its threads and its device. Importing this does not import it."""

from __future__ import annotations

import contextlib
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from intrs.errors import IntrsError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
ON_THE_CPU = "resuming bit for bit is promised on the CPU only"

HOW_TO_INSTALL = (
    "pip install 'intrs[train]' (without CUDA, first install PyTorch's CPU build by the command that pytorch.org "
    "gives: it is a tenth of the size)"
)


def check_installed(work: str, *packages: str) -> None:
    """Refuse work whose packages are missing, and say how to install them."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise IntrsError(f"{work} needs {' and '.join(missing)}: {HOW_TO_INSTALL}")


def preload(room: str, *packages: str) -> None:
    """Import a room that needs PyTorch and these packages, if they are there.

    A signal that becomes an exception while an import clears up is printed and forgotten. PyTorch's takes seconds, so a
    command imports it before it makes exceptions of signals.
    """
    if all(map(find_spec, packages)):
        import_module(room)


def choose_device(asked: str, *, doubles: bool = False) -> torch.device:
    """The device that was asked for; `auto` is CUDA where PyTorch has it, else MPS, else the CPU.

    `doubles`: the work needs float64, which MPS does not have.
    """
    import torch

    if asked not in DEVICES:
        raise SettingsError(f"device must be one of {', '.join(DEVICES)}, not {asked!r}")
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if asked == "mps" and doubles:
        raise SettingsError("device mps: this work needs float64, which MPS does not have; take cpu or cuda")
    if asked == "auto":
        return torch.device(
            next(name for name in ("cuda", "mps", "cpu") if there[name] and (name, doubles) != ("mps", True))
        )
    if not there[asked]:
        raise SettingsError(f"device {asked}: this PyTorch ({torch.__version__}) has none here; take cpu or auto")
    return torch.device(asked)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """PyTorch computes with this many threads while the block runs; 0 leaves the number as it is."""
    import torch

    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
