"""A folder of images in class folders: the folders' names, sorted, are the classes 0, 1, 2, ..."""

from __future__ import annotations

import struct
import warnings
import zlib
from typing import TYPE_CHECKING

import numpy as np

from intrs.data.images import MOST_BYTES, Images
from intrs.errors import IntrsError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FORM = "a data folder holds one folder per class with the class's images in it (or such folders under train/ and test/)"
SPLITS = {"train", "test", "val", "valid", "validation"}
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
# Pillow has many more readers; none of them sees a stranger's file.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
EIGHT_BITS = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}


def read_folder(folder: Path, split: str, name: str) -> Images:
    """Every image of every class, converted to RGB; an image's index is its place in the order of sorted paths."""
    root = _split_folder(folder, split)
    classes = _folders(root)
    files = [(path, label) for label, kind in enumerate(classes) for path in _image_files(kind)]
    if not files:
        raise IntrsError(f"{root}: no images in class folders; {FORM}")
    images = _stack([path for path, _ in files])
    labels = np.array([label for _, label in files], np.int64)
    return Images(name, images, labels, np.arange(len(files)), tuple(kind.name for kind in classes))


def _split_folder(folder: Path, split: str) -> Path:
    found = {kind.name for kind in _folders(folder)}
    if not found or not found <= SPLITS:  # class folders: there is one set of images, taken for the test set
        if split != "test":
            raise IntrsError(f"{folder}: no splits there, so no split {split!r}; {FORM}")
        return folder
    if split not in found:
        raise IntrsError(f"{folder}: no split {split!r}; there are {', '.join(sorted(found))}")
    return folder / split


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _image_files(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in files if path.is_file())


def _stack(paths: list[Path]) -> NDArray[np.uint8]:
    first = _pixels(paths[0])
    if (size := len(paths) * first.size) > MOST_BYTES:
        raise IntrsError(f"{len(paths)} images like {paths[0]} need {size:,} bytes; at most {MOST_BYTES:,} fit at once")
    images = np.empty((len(paths), *first.shape), np.uint8)
    for i, path in enumerate(paths):
        pixels = first if i == 0 else _pixels(path)
        if pixels.shape != first.shape:
            raise IntrsError(
                f"{path} has {_size(pixels)} pixels, but {paths[0]} has {_size(first)}: "
                "all images must have the size that the network takes; resize them first"
            )
        images[i] = pixels
    return images


def _size(pixels: NDArray[np.uint8]) -> str:
    return f"{pixels.shape[1]} x {pixels.shape[0]}"


def _pixels(path: Path) -> NDArray[np.uint8]:
    """One image as (height, width, 3). Orientation tags are not applied, as in the usual data loaders."""
    from PIL import Image

    broken = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on odd metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                if image.mode not in EIGHT_BITS:
                    raise IntrsError(f"{path}: {image.mode} pixels are not 8 bits a channel")
                return np.asarray(image.convert("RGB"), np.uint8)
    except (*broken, Image.DecompressionBombWarning) as error:
        raise IntrsError(f"{path}: not a readable image ({error})") from None
