"""What a data set is here: pixels, labels, and where each image stands in the original."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from intrs.errors import IntrsError
from intrs.votes import MAX_IMAGE_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MOST_BYTES = 2**32  # of pixels in memory; more is a mistake, or a file made to exhaust the machine


@dataclass(frozen=True, eq=False)
class Images:
    """Images (n, height, width, channels) as uint8, with labels and indices (n,) as int64.

    An image's index is its place in the original data set: its noise address, and the `idx` column of results. classes
    holds the names, or nothing if the file has none.
    """

    name: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if reason := self._shape_fault() or self._label_fault() or self._index_fault():
            raise IntrsError(f"{self.name}: {reason}")

    def __len__(self) -> int:
        return len(self.labels)

    def positions(self, first: int, skip: int, most: int | None) -> range:
        """Where every skip-th image from the first on stands, at most so many."""
        if first >= len(self):
            raise IntrsError(f"{self.name} has {len(self):,} images, counted from 0; --first {first} is beyond them")
        return range(first, len(self), skip)[:most]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of every image."""
        height, width, channels = self.images.shape[1:]
        return height, width, channels

    @cached_property
    def sha256(self) -> str:
        """Hash over shape, pixels, labels and indices: all that a run depends on. Names do not count."""
        digest = hashlib.sha256(b"intrs images 1\n")
        digest.update(np.array(self.images.shape, "<i8").tobytes())
        digest.update(np.ascontiguousarray(self.images).data)
        digest.update(self.labels.astype("<i8").tobytes())
        digest.update(self.indices.astype("<i8").tobytes())
        return digest.hexdigest()

    def _shape_fault(self) -> str | None:
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or 0 in self.images.shape:
            return (
                f"images must be uint8 pixels 0..255 of shape (n, height, width, channels) and not empty; "
                f"these are {self.images.dtype} of shape {self.images.shape}"
            )
        if not len(self.images) == len(self.labels) == len(self.indices):
            return f"{len(self.images)} images, {len(self.labels)} labels, {len(self.indices)} indices: counts differ"
        return None

    def _label_fault(self) -> str | None:
        if self.labels.min() < 0:
            return f"label {self.labels.min()} of image {self.labels.argmin()}: labels count classes from 0"
        if self.classes and self.labels.max() >= len(self.classes):
            return f"label {self.labels.max()} of image {self.labels.argmax()}, but {len(self.classes)} class names"
        return None

    def _index_fault(self) -> str | None:
        if self.indices.min() < 0 or self.indices.max() > MAX_IMAGE_INDEX:
            return f"indices must lie in 0 .. {MAX_IMAGE_INDEX}"
        if len(np.unique(self.indices)) != len(self.indices):
            return "two images have the same index; an index is an image's noise address and its name in results"
        return None


@dataclass(frozen=True, eq=False)
class Reading:
    """Images about to be read: all but their pixels, which come piece by piece, so that not all need fit in memory."""

    name: str
    shape: tuple[int, int, int, int]
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]
    classes: tuple[str, ...]
    pieces: Iterable[NDArray[np.uint8]]  # (k, height, width, channels) each, n images in all; to be taken once

    @classmethod
    def of(cls, images: Images) -> Reading:
        """Of images that are in memory: one piece."""
        shape = (len(images), *images.image_shape)
        return cls(images.name, shape, images.labels, images.indices, images.classes, [images.images])

    def images(self) -> Images:
        """Read all of them."""
        if math.prod(self.shape) > MOST_BYTES:
            raise IntrsError(f"{self.name}: pixels of shape {self.shape}; at most {MOST_BYTES:,} bytes fit at once")
        pixels, done = np.empty(self.shape, np.uint8), 0
        for piece in self.pieces:
            pixels[done : done + len(piece)] = piece
            done += len(piece)
        return Images(self.name, pixels, self.labels, self.indices, self.classes)
