"""What data from elsewhere may cost in memory and time: the bounds of this room, and the readers that keep to them.

They are generous to real data sets and stop files that are made to exhaust a machine before anything is unpacked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _typeshed import SupportsRead
    from numpy.typing import NDArray

MOST_BYTES = 2**32  # of pixels in memory at once; more is a mistake, or a file made to exhaust the machine
MOST_IMAGES = 10_000_000  # of a data set
MOST_PIXELS = 2**24  # of one image file, such as 4096 x 4096
MOST_FILE_BYTES = 2**28  # of one image file
MOST_FILES = 1000  # image files that are named one by one
MOST_CLASSES = 100_000
MOST_ENTRIES = 2_000_000  # files and folders of a data folder, of whatever kind
MOST_RATIO = 200  # of unpacked to packed bytes; plain shapes on black come to about 100, and deflate can do 1,000
ALWAYS_UNPACKED = 2**26  # bytes for which no ratio is asked: small files of one colour are common
CHUNK = 2**20  # bytes that are unpacked at a time


def most_unpacked(packed: int) -> int:
    """How many bytes may come out of so many."""
    return max(ALWAYS_UNPACKED, MOST_RATIO * packed)


def check_unpacked(size: int, packed: int) -> None:
    """Raise ValueError if so many bytes are too many to come out of a packed file."""
    if size > most_unpacked(packed):
        raise ValueError(
            f"{packed:,} bytes unpack to {size:,}; beyond {ALWAYS_UNPACKED:,}, {MOST_RATIO} times as many are accepted"
        )


def read_array(stream: SupportsRead[bytes], size: int) -> NDArray[np.uint8]:
    """The next `size` bytes and no more, without a second copy of them. Raises ValueError if there are fewer."""
    data, done = np.empty(size, np.uint8), 0
    view: Any = data.data
    while done < size:
        chunk = stream.read(min(CHUNK, size - done))
        if not chunk:
            raise ValueError(f"{done:,} bytes where its header says {size:,}")
        view[done : done + len(chunk)] = chunk
        done += len(chunk)
    if stream.read(1):
        raise ValueError(f"{size + 1:,} bytes or more where its header says {size:,}")
    return data


class Scan:
    """Lists folders, one level at a time and all of them together within a bound; hidden names are passed over."""

    def __init__(self, root: Path) -> None:
        self.root, self._left = root, MOST_ENTRIES

    def entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """What is directly in the folder, sorted by name."""
        return sorted(self._entries(folder), key=lambda entry: entry.name)

    def _entries(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        with os.scandir(folder) as found:
            for entry in found:
                self._left -= 1
                if self._left < 0:
                    raise DataError(f"{self.root}: a data folder of more than {MOST_ENTRIES:,} files; split it")
                if not entry.name.startswith("."):
                    yield entry
