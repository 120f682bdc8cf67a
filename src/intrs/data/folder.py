"""A folder of images in class folders: the folders' names, sorted, are the classes 0, 1, 2, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from intrs.data.decode import opened
from intrs.data.images import MOST_BYTES, Images
from intrs.errors import IntrsError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FORM = "a data folder holds one folder per class with the class's images in it (or such folders under train/ and test/)"
SPLITS = {"train", "test", "val", "valid", "validation"}
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
GREY = {"1", "L", "LA"}


def read_folder(folder: Path, split: str, name: str) -> Images:
    """Every image of every class: with one channel if all are grey, else as RGB. A class may have no images.

    An image's index is its place in the order of sorted paths.
    """
    root = _split_folder(folder, split)
    classes = _folders(root)
    by_class = [_image_files(kind) for kind in classes]
    files = [(path, label) for label, paths in enumerate(by_class) for path in paths]
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
    _check_same_classes(folder, split, sorted(found))
    return folder / split


def _check_same_classes(folder: Path, split: str, splits: list[str]) -> None:
    """Labels count the classes of a split, so another class more or less would give the others new labels."""
    ours = {kind.name for kind in _folders(folder / split)}
    for other in splits:
        theirs = {kind.name for kind in _folders(folder / other)}
        if theirs and ours and (odd := sorted(ours ^ theirs)):
            here, there = (split, other) if odd[0] in ours else (other, split)
            raise IntrsError(
                f"{folder}: the class {odd[0]} is in {here} but not in {there}, so that labels would not mean the same"
            )


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _image_files(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in files if path.is_file())


def _stack(paths: list[Path]) -> NDArray[np.uint8]:
    mode = "L" if all(map(_is_grey, paths)) else "RGB"
    first = _pixels(paths[0], mode)
    if (size := len(paths) * first.size) > MOST_BYTES:
        raise IntrsError(f"{len(paths)} images like {paths[0]} need {size:,} bytes; at most {MOST_BYTES:,} fit at once")
    images = np.empty((len(paths), *first.shape), np.uint8)
    for i, path in enumerate(paths):
        pixels = first if i == 0 else _pixels(path, mode)
        if pixels.shape != first.shape:
            raise IntrsError(
                f"{path} has {_size(pixels)} pixels, but {paths[0]} has {_size(first)}: "
                "all images must have the size that the network takes; resize them first"
            )
        images[i] = pixels
    return images


def _size(pixels: NDArray[np.uint8]) -> str:
    return f"{pixels.shape[1]} x {pixels.shape[0]}"


def _is_grey(path: Path) -> bool:
    with opened(path, str(path)) as image:
        return image.mode in GREY


def _pixels(path: Path, mode: str) -> NDArray[np.uint8]:
    """One image as (height, width, channels)."""
    with opened(path, str(path)) as image:
        pixels = np.asarray(image.convert(mode), np.uint8)
    return pixels.reshape(*pixels.shape[:2], -1)
