"""MNIST, Fashion-MNIST and others in their form: four files `train-images-idx3-ubyte` ..., with or without gzip.

An idx file is two zero bytes, a type, the number of dimensions, each size as 32 bits big-endian, and the data.
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from intrs.data.hashes import SHA256, array_hashes
from intrs.data.images import Images
from intrs.data.limits import MOST_IMAGES, check_unpacked, read_array
from intrs.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.data.archives import Files

CLASSES: dict[str, tuple[str, ...]] = {
    "mnist": tuple("0123456789"),
    "fashion-mnist": (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
}  # fmt: skip
MOST_BYTES = 2**30
GZIP = b"\x1f\x8b"
UNSIGNED_BYTE = 8

_PARTS = {"train": "train", "test": "t10k"}
_FILES = {split: (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte") for split, part in _PARTS.items()}
_NAMES = {name + suffix for names in _FILES.values() for name in names for suffix in ("", ".gz")}


def key(path: str) -> str | None:
    """The file's name, if it is one of the four."""
    name = path.rpartition("/")[2]
    return name if name in _NAMES else None


def read(files: Files, split: str) -> Images | None:
    """One split (n, height, width, 1), or nothing if there are no such files.

    MNIST and Fashion-MNIST are told by their content; what is neither has the name of its folder and no class names.
    """
    if not _NAMES & files.found.keys():
        return None
    if split not in _FILES:
        raise DataError(f"{files.place}: the splits are train and test, not {split!r}")
    images, labels = (_array(files, name, dims) for name, dims in zip(_FILES[split], (3, 1), strict=True))
    place = files.place.resolve()
    bare = Images(place.name, images[..., None], labels.astype(np.int64), np.arange(len(labels)))
    hashes = array_hashes(bare)
    name = next((name for name in CLASSES if SHA256[name][split] == hashes), None)
    return Images(name, bare.images, bare.labels, bare.indices, CLASSES[name]) if name else bare


def _array(files: Files, name: str, dimensions: int) -> NDArray[np.uint8]:
    found = name if name in files.found else f"{name}.gz"
    data = files.read(found, MOST_BYTES) if found in files.found else files.read(name, MOST_BYTES)
    stream = gzip.GzipFile(fileobj=io.BytesIO(data)) if data[:2] == GZIP else io.BytesIO(data)
    try:
        return _parse(stream, dimensions, files.packed(found))
    except (ValueError, struct.error, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{files.place}: {found} is not an idx file of bytes ({error})") from None


def _parse(stream: io.BytesIO | gzip.GzipFile, dimensions: int, packed: int) -> NDArray[np.uint8]:
    """The header says how much is read, so that a file that unpacks to more, or to too much, is not unpacked."""
    zero, kind, count = struct.unpack(">HBB", stream.read(4))
    if (zero, kind, count) != (0, UNSIGNED_BYTE, dimensions):
        raise ValueError(f"it begins with {zero}, {kind}, {count} instead of 0, {UNSIGNED_BYTE}, {dimensions}")
    shape = struct.unpack(f">{dimensions}I", stream.read(4 * dimensions))
    size = math.prod(shape)
    if size > MOST_BYTES or shape[0] > MOST_IMAGES:
        raise ValueError(f"shape {shape}: more than {MOST_BYTES:,} bytes or {MOST_IMAGES:,} images")
    check_unpacked(size, packed)
    return read_array(stream, size).reshape(shape)
