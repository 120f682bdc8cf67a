"""A folder of images in class folders: the folders' names, sorted, are the classes 0, 1, 2, ...

Only names, headers and sizes are read when it is opened, one level deep and within bounds; pixels are decoded when they
are looked at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from intrs.data.decode import opened, stamp
from intrs.data.images import Images
from intrs.data.lazy import LazyPixels
from intrs.data.limits import MOST_CLASSES, MOST_IMAGES, Scan
from intrs.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.data.decode import Stamp

FORM = (
    "a data folder holds one folder per class with the class's images directly in it "
    "(or such folders under train/ and test/)"
)
SPLITS = {"train", "test", "val", "valid", "validation"}
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
GREY = {"1", "L", "LA"}


def read_folder(folder: Path, split: str, name: str) -> Images:
    """Every image of every class: with one channel if all are grey, else as RGB. A class may have no images.

    An image's index is its place in the order of sorted paths.
    """
    scan = Scan(folder.resolve())
    root = _split_folder(scan, folder, split)
    classes = _folders(scan, root)
    by_class = [_image_files(scan, root / kind) for kind in classes]
    labels = np.repeat(np.arange(len(classes)), [len(names) for names in by_class])
    if not len(labels):
        raise DataError(f"{root}: no images in class folders; {FORM}")
    if len(labels) > MOST_IMAGES:
        raise DataError(f"{root}: {len(labels):,} images; at most {MOST_IMAGES:,} are accepted")
    source, shape = _source(scan.root / root.relative_to(folder), classes, by_class, labels)
    return Images(name, LazyPixels(source, shape), labels, np.arange(len(labels)), tuple(classes))


# --- Names -----------------------------------------------------------------------------------------------------------


def _split_folder(scan: Scan, folder: Path, split: str) -> Path:
    found = set(_folders(scan, folder))
    if not found or not found <= SPLITS:  # class folders: there is one set of images, taken for the test set
        if split != "test":
            raise DataError(f"{folder}: no splits there, so no split {split!r}; {FORM}")
        return folder
    if split not in found:
        raise DataError(f"{folder}: no split {split!r}; there are {', '.join(sorted(found))}")
    _check_same_classes(scan, folder, split, sorted(found))
    return folder / split


def _check_same_classes(scan: Scan, folder: Path, split: str, splits: list[str]) -> None:
    """Labels count the classes of a split, so another class more or less would give the others new labels."""
    ours = set(_folders(scan, folder / split))
    for other in splits:
        theirs = set(_folders(scan, folder / other))
        if theirs and ours and (odd := sorted(ours ^ theirs)):
            here, there = (split, other) if odd[0] in ours else (other, split)
            raise DataError(
                f"{folder}: the class {odd[0]} is in {here} but not in {there}, so that labels would not mean the same"
            )


def _folders(scan: Scan, folder: Path) -> list[str]:
    found = [entry.name for entry in scan.entries(folder) if entry.is_dir() and _is_inside(scan, entry)]
    if len(found) > MOST_CLASSES:
        raise DataError(f"{folder}: {len(found):,} folders; at most {MOST_CLASSES:,} classes are accepted")
    return found


def _image_files(scan: Scan, folder: Path) -> list[str]:
    """The class's images. A folder among them is refused at once: this is no data folder, or not one of its levels."""
    names = []
    for entry in scan.entries(folder):
        if entry.is_dir():
            raise DataError(f"{folder} holds the folder {entry.name}, so it is not the folder of a class; {FORM}")
        if Path(entry.name).suffix.lower() in SUFFIXES and _is_inside(scan, entry) and entry.is_file():
            names.append(entry.name)
    return names


def _is_inside(scan: Scan, entry: os.DirEntry[str]) -> bool:
    """True, or an error: whoever names a data folder must not thereby name files elsewhere, and none gets lost."""
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))  # Path.resolve does not take loops
        if not target.is_relative_to(scan.root):
            raise DataError(f"{entry.path}: a symbolic link out of the data folder is not followed; copy what it names")
        if not target.exists():
            raise DataError(f"{entry.path}: a symbolic link to nothing")
    return True


# --- Pixels ----------------------------------------------------------------------------------------------------------


class _Header(NamedTuple):
    """What a file says of itself before its pixels are decoded."""

    width: int
    height: int
    grey: bool
    stamp: Stamp


@dataclass(frozen=True)
class _Source:
    """The image files of a folder, all of one size; pixels must come from the files that were looked at first."""

    root: Path
    classes: list[str]
    names: list[str]
    labels: NDArray[np.int64]
    stamps: NDArray[np.int64]  # (n, 2)
    mode: str

    def path(self, place: int) -> Path:
        return self.root / self.classes[int(self.labels[place])] / self.names[place]

    def pixels(self, place: int) -> NDArray[np.uint8]:
        """One image as (height, width, channels)."""
        size, changed = self.stamps[place]
        with opened(self.path(place), str(self.path(place)), (int(size), int(changed))) as image:
            pixels = np.array(image.convert(self.mode), np.uint8)
        return pixels.reshape(*pixels.shape[:2], -1)


def _source(
    root: Path, classes: list[str], by_class: list[list[str]], labels: NDArray[np.int64]
) -> tuple[_Source, tuple[int, int, int, int]]:
    names = [name for kind in by_class for name in kind]
    stamps = np.empty((len(names), 2), np.int64)
    files, grey = _Source(root, classes, names, labels, stamps, ""), True
    first = _header(files.path(0))
    for place in range(len(names)):
        header = _header(files.path(place))
        if header[:2] != first[:2]:
            raise DataError(
                f"{files.path(place)} has {header.width} x {header.height} pixels, "
                f"but {files.path(0)} has {first.width} x {first.height}: "
                "all images must have the size that the network takes; resize them first"
            )
        stamps[place], grey = header.stamp, grey and header.grey
    shape = (len(names), first.height, first.width, 1 if grey else 3)
    return _Source(root, classes, names, labels, stamps, "L" if grey else "RGB"), shape


def _header(path: Path) -> _Header:
    seen = stamp(path)
    with opened(path, str(path), seen) as image:
        return _Header(*image.size, image.mode in GREY, seen)
