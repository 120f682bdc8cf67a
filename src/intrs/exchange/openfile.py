"""Which reader reads a model file: told by its first bytes, never by its name. A new format is one entry here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from intrs.exchange.onnx.read import read_onnx
from intrs.exchange.refusal import refusals_of
from intrs.exchange.regular import read_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from intrs.exchange.modelfile import ModelFile

HEAD = 64  # bytes by which a format is told


class Reader(NamedTuple):
    """A format of model files."""

    name: str
    recognises: Callable[[bytes], bool]  # given the first bytes
    read: Callable[[Path, bytes], ModelFile]


READERS = (
    Reader("ONNX", lambda head: True, read_onnx),  # the last: it has no mark of its own
)


def open_file(path: Path) -> ModelFile:
    """Read and parse a model file. Raises ModelError."""
    with refusals_of(path):
        data = read_whole(path)
    return next(reader for reader in READERS if reader.recognises(data[:HEAD])).read(path, data)
