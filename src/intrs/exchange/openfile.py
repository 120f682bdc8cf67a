"""Which reader reads a model file: told by its first bytes, never by its name. A new format is one entry here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from intrs.exchange import foreign
from intrs.exchange.onnx.read import read_onnx
from intrs.exchange.refusal import Refusal, refusals_of
from intrs.exchange.regular import read_whole
from intrs.exchange.tflite.read import read_tflite
from intrs.exchange.tflite.schema import IDENTIFIER

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
    Reader("TFLite", lambda head: head[4:8] == IDENTIFIER, read_tflite),
    Reader("ONNX", lambda head: True, read_onnx),  # the last: it has no mark of its own
)


def open_file(path: Path) -> ModelFile:
    """Read and parse a model file. Raises ModelError."""
    with refusals_of(path):
        if path.is_dir() and (told := foreign.folder_advice(path)):
            raise Refusal(told)
        data = read_whole(path)
        reader = next(reader for reader in READERS if reader.recognises(data[:HEAD]))
        if reader is READERS[-1] and (told := foreign.advice(data) or foreign.misnamed(path)):
            raise Refusal(told)
    return reader.read(path, data)
