"""Bytes with addresses: parts are put one after another, and each part is known by its place."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MOST_BYTES = 2**31  # an address has 32 bits


class ConstantBlock:
    """Constants that grow; the header's place is kept free in front."""

    def __init__(self, header_words: int) -> None:
        self._bytes = bytearray(4 * header_words)

    def __len__(self) -> int:
        return len(self._bytes)

    def align(self) -> None:
        """Go on at a multiple of 4."""
        self._bytes += bytes(-len(self._bytes) % 4)

    def array(self, values: NDArray[Any], kind: str) -> int:
        """Put an array of this NumPy type, little endian; returns its place."""
        self.align()
        at = len(self._bytes)
        held = np.ascontiguousarray(values).astype(kind)
        assert np.array_equal(held, values), f"these values do not fit {kind}"
        self._bytes += held.tobytes()
        if len(self._bytes) > MOST_BYTES:
            raise ModelError("the network has more constants than a device could address; take a smaller one")
        return at

    def words(self, values: Iterable[int]) -> int:
        """Put 32-bit words, signed or not; returns their place."""
        return self.array(np.array([_word(value) for value in values], np.uint32), "<u4")

    def finish(self, header: Iterable[int]) -> bytearray:
        """All bytes behind this header, up to a multiple of 4."""
        self.align()
        words = [_word(value) for value in header]
        struct.pack_into(f"<{len(words)}I", self._bytes, 0, *words)
        return self._bytes


def _word(value: int) -> int:
    """The 32 bits of a number; one that needs more would silently become another number on the device."""
    if not -(2**31) <= value < 2**32:
        raise OverflowError(f"{value} does not fit a word of 32 bits")
    return value & 0xFFFFFFFF
