"""Caltech-101: the official folder 101_ObjectCategories, or an archive with it.

101 classes, without BACKGROUND_Google. Images are resized to 256 pixels on their shorter side and cropped to 224 x 224
in the centre; grey ones become RGB. There is no official split; ours puts a fifth of every class into the test set.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from intrs.data.decode import opened, stamp
from intrs.data.images import Images
from intrs.data.lazy import LazyPixels
from intrs.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from PIL import Image

    from intrs.data.archives import Files

FOLDER = "101_ObjectCategories"
SHORT_SIDE, SIDE = 256, 224
SEED = 0
MOST_PIXELS = 2**24  # of a resized image; the longest of 3,030 real ones has 245,760
# In the order of sorted names, which is the order of the labels.
CLASSES: tuple[str, ...] = (
    "Faces", "Faces_easy", "Leopards", "Motorbikes", "accordion", "airplanes", "anchor", "ant", "barrel", "bass",
    "beaver", "binocular", "bonsai", "brain", "brontosaurus", "buddha", "butterfly", "camera", "cannon",
    "car_side", "ceiling_fan", "cellphone", "chair", "chandelier", "cougar_body", "cougar_face", "crab",
    "crayfish", "crocodile", "crocodile_head", "cup", "dalmatian", "dollar_bill", "dolphin", "dragonfly",
    "electric_guitar", "elephant", "emu", "euphonium", "ewer", "ferry", "flamingo", "flamingo_head", "garfield",
    "gerenuk", "gramophone", "grand_piano", "hawksbill", "headphone", "hedgehog", "helicopter", "ibis",
    "inline_skate", "joshua_tree", "kangaroo", "ketch", "lamp", "laptop", "llama", "lobster", "lotus", "mandolin",
    "mayfly", "menorah", "metronome", "minaret", "nautilus", "octopus", "okapi", "pagoda", "panda", "pigeon",
    "pizza", "platypus", "pyramid", "revolver", "rhino", "rooster", "saxophone", "schooner", "scissors",
    "scorpion", "sea_horse", "snoopy", "soccer_ball", "stapler", "starfish", "stegosaurus", "stop_sign",
    "strawberry", "sunflower", "tick", "trilobite", "umbrella", "watch", "water_lilly", "wheelchair", "wild_cat",
    "windsor_chair", "wrench", "yin_yang",
)  # fmt: skip
FOLDERS = tuple(root + name for root in ("", f"{FOLDER}/", f"caltech-101/{FOLDER}/") for name in CLASSES)


def key(path: str) -> str | None:
    """class/file, if it is an image of one of the classes."""
    *_, root, kind, name = ("", "", *path.split("/"))
    image = name.lower().endswith(".jpg") and not name.startswith(".")
    return f"{kind}/{name}" if image and root == FOLDER and kind in CLASSES else None


def read(files: Files, split: str, seed: int = SEED) -> Images | None:
    """One split in the order of sorted names, or nothing if this is not Caltech-101.

    An image's index counts all images of both splits in that order. Pixels are decoded when they are looked at.
    """
    names = sorted(name for name in files.found if key(f"{FOLDER}/{name}"))
    if not names:
        return None
    if split not in ("train", "test"):
        raise DataError(f"{files.place}: Caltech-101 is split into train and test; there is no {split!r}")
    if missing := sorted(set(CLASSES) - {name.partition("/")[0] for name in names}):
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise DataError(f"{files.place}: {len(missing)} of the 101 classes have no images: {some}")
    test = select_test(names, seed)
    chosen = [(i, name) for i, name in enumerate(names) if (name in test) == (split == "test")]
    return Images(
        name="caltech101",
        images=LazyPixels(_source(files, [name for _, name in chosen]), (len(chosen), SIDE, SIDE, 3)),
        labels=np.array([CLASSES.index(name.partition("/")[0]) for _, name in chosen], np.int64),
        indices=np.array([i for i, _ in chosen], np.int64),
        classes=CLASSES,
    )


def select_test(names: Iterable[str], seed: int) -> set[str]:
    """Which of the names class/file make up the test set: of every class a fifth, rounded, half up.

    A class's files are taken in the order of the sha256 of "seed/class/file", so that the split depends on names and
    seed alone, and not on any library's random numbers.
    """
    by_class: dict[str, list[str]] = {}
    for name in names:
        by_class.setdefault(name.partition("/")[0], []).append(name)
    test: set[str] = set()
    for files in by_class.values():
        files.sort(key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest())
        test.update(files[: (2 * len(files) + 5) // 10])
    return test


@dataclass(frozen=True)
class _Source:
    """Image files, each with its stamp: pixels are decoded later, and must be those that were hashed."""

    files: Files
    names: list[str]
    stamps: list[tuple[int, int]]

    def pixels(self, place: int) -> NDArray[np.uint8]:
        name = self.names[place]
        with opened(self.files.found[name], f"{self.files.place}: {name}", self.stamps[place]) as image:
            return np.array(_centre(image.convert("RGB")), np.uint8)


def _source(files: Files, names: list[str]) -> _Source:
    return _Source(files, names, [stamp(files.found[name]) for name in names])


def _centre(image: Image.Image) -> Image.Image:
    """Bilinear and with antialiasing; sizes are rounded down and the crop's corner is rounded to even."""
    from PIL.Image import Resampling

    short = min(image.size)
    width, height = (SHORT_SIDE * side // short for side in image.size)
    if width * height > MOST_PIXELS:
        raise ValueError(f"{image.size[0]} x {image.size[1]} pixels are too long and thin")
    left, top = round((width - SIDE) / 2), round((height - SIDE) / 2)
    resized = image.resize((width, height), Resampling.BILINEAR)
    return resized.crop((left, top, left + SIDE, top + SIDE))
