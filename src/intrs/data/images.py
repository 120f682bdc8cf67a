"""What a data set is here: pixels, labels, and where each image stands in the original."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.data.lazy import LazyPixels, Pixels
from intrs.errors import DataError
from intrs.progress import Progress
from intrs.votes import MAX_IMAGE_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from intrs.progress import OnProgress

UNKNOWN = -1  # for a label, in the hash of images that have none
BLOCK_BYTES = 2**22  # of pixels that are hashed or written at a time


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Images:
    """Images (n, height, width, channels) as uint8, with labels and indices (n,) as int64; labels may be None.

    An image's index is its place in the original data set: its noise address, and the `idx` column of results. classes
    holds the classes' names, or nothing if the file has none; files holds the images' file names, or nothing. The
    images of image files are decoded when they are looked at; they are indexed as an array is, and `numpy.asarray`
    decodes all of them. remarks say what was done to image files to make them fit.
    """

    name: str
    images: Pixels
    indices: NDArray[np.int64]
    classes: tuple[str, ...]
    files: tuple[str, ...]
    remarks: tuple[str, ...]
    _labels: NDArray[np.int64] | None

    def __init__(
        self,
        name: str,
        images: Pixels,
        labels: NDArray[np.int64] | None,
        indices: NDArray[np.int64],
        classes: tuple[str, ...] = (),
        files: tuple[str, ...] = (),
        remarks: tuple[str, ...] = (),
    ) -> None:
        vars(self).update(name=name, images=images, indices=indices, _labels=labels)
        vars(self).update(classes=classes, files=files, remarks=remarks)
        if reason := self._type_fault() or self._shape_fault() or self._label_fault() or self._index_fault():
            raise DataError(f"{self.name}: {reason}")

    @property
    def has_labels(self) -> bool:
        """Whether the true classes are known."""
        return self._labels is not None

    @property
    def labels(self) -> NDArray[np.int64]:
        """The true class of every image; DataError if they are not known."""
        if self._labels is None:
            raise DataError(f"{self.name} has no labels, which this needs: the number of the right class per image")
        return self._labels

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.image_shape))
        names = ", ".join(self.classes[:3]) + (", ..." if len(self.classes) > 3 else "")
        classes = f", {len(self.classes)} classes ({names[:60]})" if self.classes else ""
        labels = "" if self.has_labels else ", without labels"
        return (
            f"Images {self.name!r}: {len(self):,} {'image' if len(self) == 1 else 'images'} of {size}{classes}{labels}"
        )

    def label(self, position: int) -> int | None:
        """The true class of the image at this position; None if it is not known."""
        return int(self.labels[position]) if self.has_labels else None

    def file(self, position: int) -> str | None:
        """What names an image without a label in results: its file, or nothing; None if there is a label."""
        if self.has_labels:
            return None
        return self.files[position] if self.files else ""

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash if the copy's pixels can be written to: it would outlive them."""
        return {k: v for k, v in vars(self).items() if k != "_sha256" or isinstance(self.images, LazyPixels)}

    def positions(self, first: int, skip: int, most: int | None) -> range:
        """Where every skip-th image from the first on stands, at most so many."""
        if first >= len(self):
            raise DataError(f"{self.name} has {len(self):,} images, counted from 0; first = {first} is beyond them")
        return range(first, len(self), skip)[:most]

    def subset(self, positions: NDArray[np.int64]) -> Images:
        """The images at these positions, with their own labels and indices; nothing is decoded."""
        lazy = isinstance(self.images, LazyPixels)
        pixels = self.images.subset(positions) if lazy else self.images[positions]  # type: ignore[attr-defined]
        labels = self.labels[positions] if self.has_labels else None
        files = tuple(self.files[position] for position in positions) if self.files else ()
        return Images(self.name, pixels, labels, self.indices[positions], self.classes, files, self.remarks)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of every image."""
        _, height, width, channels = self.images.shape
        return height, width, channels

    def blocks(self, progress: OnProgress | None = None, note: str = "") -> Iterator[NDArray[np.uint8]]:
        """All pixels in order, a few images at a time; progress is told how many images are done with."""
        step = max(1, BLOCK_BYTES // math.prod(self.image_shape))
        for begin in range(0, len(self), step):
            if progress:
                progress(Progress(begin, len(self), "images", note))
            yield np.ascontiguousarray(self.images[begin : begin + step])
        if progress:
            progress(Progress(len(self), len(self), "images", note))

    @property
    def sha256(self) -> str:
        """Hash over shape, pixels, labels and indices: all that a run depends on. Names do not count."""
        return self.compute_sha256()

    def compute_sha256(self, progress: OnProgress | None = None) -> str:
        """The same, with reports of progress: image files are all decoded for it, once."""
        known: str | None = vars(self).get("_sha256")
        if known is None:
            known = self._hash(progress)
            vars(self)["_sha256"] = known
        return known

    def _hash(self, progress: OnProgress | None) -> str:
        digest = hashlib.sha256(b"intrs images 1\n")
        digest.update(np.array(self.images.shape, "<i8").tobytes())
        for block in self.blocks(progress, f"reading {self.name}"):
            digest.update(block.data)
        labels = self.labels if self.has_labels else np.full(len(self), UNKNOWN)
        digest.update(labels.astype("<i8").tobytes())
        digest.update(self.indices.astype("<i8").tobytes())
        return digest.hexdigest()

    def _type_fault(self) -> str | None:
        if not isinstance(self.images, np.ndarray | LazyPixels):
            return f"images must be a NumPy array, got {type(self.images).__name__}; numpy.asarray makes one"
        for name, array in (("labels", self._labels), ("indices", self.indices)):
            if array is None and name == "labels":
                continue
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != 1:
                got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                return f"{name} must be a NumPy array of integers, one per image, got {got}"
        return None

    def _shape_fault(self) -> str | None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or 0 in shape:
            return (
                f"images must be uint8 pixels 0..255 of shape (n, height, width, channels) and not empty; "
                f"these are {self.images.dtype} of shape {shape}"
            )
        counts = {"images": self.images, "labels": self._labels, "indices": self.indices, "files": self.files or None}
        found = {name: len(each) for name, each in counts.items() if each is not None}
        if len(set(found.values())) > 1:
            return f"{', '.join(f'{count} {name}' for name, count in found.items())}: counts differ"
        return None

    def _label_fault(self) -> str | None:
        if not self.has_labels:
            return None
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
