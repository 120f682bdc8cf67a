"""What must be installed beside the package for some methods and attacks."""

from __future__ import annotations

from importlib.util import find_spec

NO_RUNTIME = "ONNX Runtime (pip install 'intrs[float]')"
NO_TORCH = "PyTorch (pip install 'intrs[train]')"


def lacks(noise: str, *, attack: bool = False) -> str:
    """What is missing for votes, or an attack, under this noise; nothing if it can run."""
    if attack and find_spec("torch") is None:
        return NO_TORCH
    return NO_RUNTIME if noise == "continuous" and find_spec("onnxruntime") is None else ""
