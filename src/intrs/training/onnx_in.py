"""A float ONNX file as a PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn


def read_module(path: Path) -> nn.Module:
    """The module of a float ONNX file."""
    raise NotImplementedError(path)
