"""A folder of images in class folders: the folders' names, sorted, are the classes 0, 1, 2, ...

A folder with images directly in it, and no folder, has no labels, or those of its metadata.csv. Only names, headers and
sizes are read when it is opened, one level deep and within bounds; pixels are decoded when they are looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from intrs.data import metadata
from intrs.data.images import Images
from intrs.data.limits import MOST_CLASSES, MOST_IMAGES, Scan
from intrs.data.pictures import is_picture, open_pictures
from intrs.errors import DataError, NoSplitError

if TYPE_CHECKING:
    from intrs.data.fit import Fit

FORM = (
    "a data folder holds one folder per class with the class's images directly in it "
    "(or such folders under train/ and test/), or nothing but images if there are no labels"
)
SPLITS = {"train", "test", "val", "valid", "validation"}


def read_folder(folder: Path, split: str, name: str, fit: Fit | None = None) -> Images:
    """Every image of every class: with one channel if all are grey, else as RGB. A class may have no images.

    An image's index is its place in the order of sorted paths. fit: what is done to make them fit a network.
    """
    scan = Scan(folder.resolve())
    root = _split_folder(scan, folder, split)
    classes = _folders(scan, root)
    if not classes:
        return _without_classes(scan, folder, root, name, fit)
    _check_none_loose(scan, root)
    by_class = [_image_files(scan, root / kind) for kind in classes]
    labels = np.repeat(np.arange(len(classes)), [len(names) for names in by_class])
    if not len(labels):
        raise DataError(f"{root}: no images in class folders; {FORM}")
    files = [f"{kind}/{file}" for kind, names in zip(classes, by_class, strict=True) for file in names]
    _check_count(root, files)
    pixels, done = open_pictures(scan.root / root.relative_to(folder), files, fit, careful=False)
    return Images(name, pixels, labels, np.arange(len(labels)), tuple(classes), remarks=done)


def _without_classes(scan: Scan, folder: Path, root: Path, name: str, fit: Fit | None) -> Images:
    files = _image_files(scan, root)
    if not files:
        raise DataError(f"{root}: no images in class folders, and none in the folder itself; {FORM}")
    _check_count(root, files)
    table = root / metadata.NAME
    labels, classes = (table.is_file() and metadata.read_labels(table, files)) or (None, ())
    pixels, done = open_pictures(scan.root / root.relative_to(folder), files, fit, careful=True)
    return Images(name, pixels, labels, np.arange(len(files)), classes, tuple(files), done)


def _check_count(root: Path, files: list[str]) -> None:
    if len(files) > MOST_IMAGES:
        raise DataError(f"{root}: {len(files):,} images; at most {MOST_IMAGES:,} are accepted")


# --- Names -----------------------------------------------------------------------------------------------------------


def _split_folder(scan: Scan, folder: Path, split: str) -> Path:
    found = set(_folders(scan, folder))
    if not found or not found <= SPLITS:  # class folders: there is one set of images, taken for the test set
        if split != "test":
            raise NoSplitError(f"{folder}: no splits there, so no split {split!r}; {FORM}")
        return folder
    if split not in found:
        raise NoSplitError(f"{folder}: no split {split!r}; there are {', '.join(sorted(found))}")
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


def _check_none_loose(scan: Scan, root: Path) -> None:
    """Images beside the folders of classes belong to no class: leaving them out would go unnoticed."""
    loose = [entry.name for entry in scan.entries(root) if _is_image(scan, entry)]
    if loose:
        raise DataError(
            f"{root}: {loose[0]}{f' and {len(loose) - 1:,} more images lie' if loose[1:] else ' lies'} beside the "
            f"folders of classes, in none of them; move or remove them. {FORM[0].upper()}{FORM[1:]}"
        )


def _is_image(scan: Scan, entry: os.DirEntry[str]) -> bool:
    return is_picture(Path(entry.name)) and not entry.is_dir() and _is_inside(scan, entry) and entry.is_file()


def _image_files(scan: Scan, folder: Path) -> list[str]:
    """The images in it. A folder among them is refused at once: this is no data folder, or not one of its levels."""
    names = []
    for entry in scan.entries(folder):
        if entry.is_dir():
            raise DataError(f"{folder} holds the folder {entry.name}, so it is not the folder of a class; {FORM}")
        if _is_image(scan, entry):
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
