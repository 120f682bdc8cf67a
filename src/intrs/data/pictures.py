"""Image files as pixels of one shape, decoded when they are looked at.

Only headers and sizes are read when they are opened. Files without labels are what people photographed or drew: what
in them would not reach the network as it looks on a screen is refused, or made to fit when that is asked for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from intrs.data.decode import opened, stamp
from intrs.data.fit import Facts, animated, has_holes, misfit, remarks
from intrs.data.images import Images
from intrs.data.lazy import LazyPixels
from intrs.data.limits import MOST_FILES
from intrs.errors import DataError, FitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from PIL import Image

    from intrs.data.decode import Stamp
    from intrs.data.fit import Fit

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


@dataclass(frozen=True)
class Pictures:
    """Image files, all of one shape; pixels must come from the files that were looked at first."""

    root: Path
    files: list[str]  # relative to the root
    stamps: NDArray[np.int64]  # (n, 2)
    mode: str  # of Pillow: L or RGB
    fit: Fit | None = None
    careful: bool = False  # whether transparency is refused

    def path(self, place: int) -> Path:
        """Where an image is."""
        return self.root / self.files[place]

    def pixels(self, place: int) -> NDArray[np.uint8]:
        """One image as (height, width, channels)."""
        size, changed = self.stamps[place]
        path, seen = self.path(place), (int(size), int(changed))
        with opened(path, str(path), seen, deep=self.fit is not None) as image:
            if self.fit:
                return self.fit.apply(image)
            image.load()
            if self.careful and (reason := misfit(str(path), Facts.of(image)) or _holes(str(path), image)):
                raise FitError(reason)
            pixels = np.array(image.convert(self.mode), np.uint8)
        return pixels.reshape(*pixels.shape[:2], -1)


def _holes(what: str, image: Image.Image) -> str | None:
    if not Facts.of(image).see_through or not has_holes(image):
        return None
    return f"{what}: parts of it are transparent. Put it on a background, or let it be fitted"


def open_pictures(
    root: Path, files: list[str], fit: Fit | None, *, careful: bool
) -> tuple[LazyPixels, tuple[str, ...]]:
    """The pixels of these files, and what is done to make them fit; refuses files of different sizes otherwise.

    careful: refuse what does not reach the network as it looks on a screen.
    """
    source = Pictures(root, files, np.empty((len(files), 2), np.int64), "", fit, careful)
    facts: list[Facts] = []
    for place in range(len(files)):
        source.stamps[place], found = _look(source.path(place), careful=careful, fit=fit)
        facts.append(found)
        if not fit and (found.width, found.height) != (facts[0].width, facts[0].height):
            raise FitError(
                f"{source.path(place)} has {found.width} x {found.height} pixels, "
                f"but {source.path(0)} has {facts[0].width} x {facts[0].height}: "
                "all images must have the size that the network takes; resize them first, or let them be fitted"
            )
    if fit:
        return LazyPixels(source, (len(files), fit.height, fit.width, fit.channels)), remarks(fit, files, facts)
    grey = all(found.grey for found in facts)
    source = replace(source, mode="L" if grey else "RGB")
    return LazyPixels(source, (len(files), facts[0].height, facts[0].width, 1 if grey else 3)), ()


def _look(path: Path, *, careful: bool, fit: Fit | None) -> tuple[Stamp, Facts]:
    seen = stamp(path)
    strict = careful or fit is not None
    with opened(path, str(path), seen, deep=strict) as image:
        facts = Facts.of(image) if strict else Facts.short(image)
    if fit and facts.several:
        raise DataError(animated(str(path)))
    if careful and not fit and (reason := misfit(str(path), facts)) is not None:
        raise DataError(reason) if facts.several else FitError(reason)
    return seen, facts


def are_pictures(images: Images) -> bool:
    """Whether they come from image files, which can be made to fit."""
    return isinstance(images.images, LazyPixels) and isinstance(images.images.source, Pictures)


# --- Files that are named one by one ---------------------------------------------------------------------------------


def is_picture(path: Path) -> bool:
    """Whether a name is that of an image file."""
    return path.suffix.lower() in SUFFIXES


def read_pictures(paths: Sequence[str | os.PathLike[str]], fit: Fit | None = None) -> Images:
    """Images from files that are named one by one, without labels; their indices are 0, 1, 2, ..."""
    if len(paths) > MOST_FILES:
        raise DataError(f"{len(paths):,} files are too many to name one by one ({MOST_FILES:,}); give their folder")
    texts = [os.fspath(path) for path in paths]
    for path in map(Path, texts):
        if not path.is_file() or not is_picture(path):
            kinds = ", ".join(sorted(SUFFIXES))
            what = "a folder" if path.is_dir() else "no image file" if path.exists() else "no such file"
            raise DataError(f"{path}: {what}; where several files are named, each is an image ({kinds})")
    if len({Path(text).resolve() for text in texts}) < len(texts):
        raise DataError("an image file is named twice")
    pixels, done = open_pictures(Path.cwd(), texts, fit, careful=True)
    name = Path(texts[0]).name if len(texts) == 1 else f"{len(texts)} image files"
    return Images(name, pixels, None, np.arange(len(texts)), files=_names(texts), remarks=done)


def _names(texts: list[str]) -> tuple[str, ...]:
    """The files' own names, which stay when folders are moved; whole paths if two have the same."""
    short = [Path(text).name for text in texts]
    return tuple(short if len(set(short)) == len(short) else texts)
