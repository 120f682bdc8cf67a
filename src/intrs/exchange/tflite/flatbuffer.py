"""Flatbuffers that nobody vouches for: every offset is checked before it is followed.

A table knows its schema (`schema.TABLES`). A vector of numbers is a view of the file's bytes; a vector of tables is a
list whose length is bounded, because a few bytes can stand for the same table a million times; so is a text, which
many tables can share.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import numpy as np

from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.schema import TABLES, Field

MOST_TABLES = 2**16  # of one vector; some tables of a network take a kilobyte each once they are read
LONGEST_TEXT = 512  # bytes; what is behind them is cut off: texts are names, for people and for metadata
OFFSET = 4  # bytes of a position in the file


class FlatTable:
    """A table of the file; `table["name"]` is a field, checked when it is read.

    An absent scalar is its default, an absent vector is empty, an absent text is "", and an absent table is None.
    """

    __slots__ = ("_at", "_count", "_data", "_fields", "_offsets")

    def __init__(self, data: bytes, at: int, kind: str) -> None:
        self._data, self._at, self._fields = data, at, TABLES[kind]
        self._offsets = self._at - _number(data, at, "<i")  # where the offsets of the fields stand
        size = _number(data, self._offsets, "<H")
        if size < OFFSET or size % 2 or self._offsets + size > len(data):
            _damaged()
        self._count = size // 2 - 2

    def __getitem__(self, name: str) -> Any:
        field = self._fields[name]
        at = self._place(field)
        if field.kind.startswith("["):
            return self._vector(at, field.kind[1:-1])
        if field.kind == "text":
            return self._text(at)
        if field.kind in TABLES:
            return FlatTable(self._data, _followed(self._data, at), field.kind) if at else None
        dtype = np.dtype(field.kind)
        return _values(self._data, at, dtype, 1)[0].item() if at else dtype.type(field.default).item()

    def __contains__(self, name: str) -> bool:
        """Whether tables of this kind have such a field."""
        return name in self._fields

    def table(self, name: str, kind: str) -> FlatTable:
        """A field that is a table of a kind which another field tells; all its fields are absent if it is."""
        at = self._place(self._fields[name])
        return FlatTable(self._data, _followed(self._data, at), kind) if at else FlatTable(_NOTHING, OFFSET, kind)

    def _place(self, field: Field) -> int:
        """Where a field stands; 0 if it is absent."""
        if field.number >= self._count:
            return 0
        offset = _number(self._data, self._offsets + OFFSET + 2 * field.number, "<H")
        return self._at + offset if offset else 0

    def _vector(self, at: int, kind: str) -> Any:
        if not at:
            return [] if kind in TABLES else np.zeros(0, kind)
        start = _followed(self._data, at)
        count = _number(self._data, start, "<I")
        if kind not in TABLES:
            return _values(self._data, start + OFFSET, np.dtype(kind), count)
        if count > MOST_TABLES:
            raise Refusal(f"it has a list of {count} entries; at most {MOST_TABLES} are read")
        places = range(start + OFFSET, start + OFFSET * (count + 1), OFFSET)
        return [FlatTable(self._data, _followed(self._data, place), kind) for place in places]

    def _text(self, at: int) -> str:
        if not at:
            return ""
        start = _followed(self._data, at)
        count = min(_number(self._data, start, "<I"), LONGEST_TEXT)
        content: bytes = _values(self._data, start + OFFSET, np.dtype("u1"), count).tobytes()
        return content.decode(errors="replace")


def root(data: bytes, kind: str) -> FlatTable:
    """The table that the file begins with."""
    return FlatTable(data, _followed(data, 0), kind)


_NOTHING = struct.pack("<HHi", OFFSET, OFFSET, OFFSET)  # a table without fields, at 4; its offsets stand at 0


def _number(data: bytes, at: int, kind: str) -> int:
    if at < 0 or at + struct.calcsize(kind) > len(data):
        _damaged()
    return int(struct.unpack_from(kind, data, at)[0])


def _followed(data: bytes, at: int) -> int:
    """Where the offset at this place leads: forward, never to itself."""
    return at + (_number(data, at, "<I") or _damaged())


def _values(data: bytes, at: int, dtype: np.dtype[Any], count: int) -> Any:
    if at < 0 or at + count * dtype.itemsize > len(data):
        _damaged()
    return np.frombuffer(data, dtype, count, at)


def _damaged() -> NoReturn:
    raise Refusal("it is not a TFLite file, or it is damaged: an offset leads outside of it")
