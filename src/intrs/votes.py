"""Votes: how often each class won under noise, with what is needed to count them again. Integers for ever.

Sample i of image j under a seed is one fixed noise vector (`core/bits.h`; in floats `_draw_floats`), so votes over
[0, a) plus votes over [a, b) are votes over [0, b): for integers on any machine, with any number of threads. The
selection of the class and the estimation of its probability must not share samples: selection counts from `SELECTION`
on, estimation from 0 on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from intrs import _core
from intrs.errors import IntrsError
from intrs.exact import parse_seed
from intrs.network import Network

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.noise import Noise

SELECTION = _core.SELECTION
BATCH = 500  # noisy images handed to a callable at once
MOST_FLOATS = 2**22  # values in them, if the noise is drawn in floats
MAX_IMAGE_INDEX = 2**32 - 1  # an image's noise address has 32 bits

Classifier = Callable[["NDArray[Any]"], Any]
"""Takes integer images (n, *image.shape) with noise added, any range; returns labels (n,) or scores (n, classes).
Under continuous noise the images are float32, in pixel levels all the same.

It must be a function of one image at a time. With BatchNorm in training mode, or dynamic quantisation over the batch,
the votes are not independent draws from one law, and the theorem behind certificates does not apply."""
Progress = Callable[[int], object]
"""Called now and then with the number of samples done; an exception from it stops the count."""


@dataclass(frozen=True)
class Votes:
    """Counts per class over samples first .. first + count - 1 of one image."""

    counts: tuple[int, ...]
    noise: Noise
    seed: int
    image_index: int
    first: int

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(self.counts)

    @property
    def top(self) -> int:
        """The class with most votes, the lowest at a tie."""
        return max(range(len(self.counts)), key=self.counts.__getitem__)

    @property
    def second(self) -> int:
        """The class with most votes but for the top one."""
        return max((c for c in range(len(self.counts)) if c != self.top), key=self.counts.__getitem__)

    def __add__(self, other: Votes) -> Votes:
        """Votes over two ranges that touch."""
        mine, theirs = (replace(v, counts=(), first=0) for v in (self, other))
        if mine != theirs or len(self.counts) != len(other.counts) or other.first != self.first + self.count:
            raise IntrsError(
                f"cannot add votes over samples {self.first}+{self.count} and {other.first}+{other.count}: "
                "they must be of one image, noise and seed, and the second range must begin where the first ends"
            )
        return replace(self, counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))


def votes(
    network: Network | Classifier,
    image: NDArray[Any],
    noise: Noise,
    seed: SupportsIndex | None,
    image_index: int,
    first: int,
    count: int,
    *,
    classes: int | None = None,
    threads: int = 0,
    kernels: str = "",
    progress: Progress | None = None,
) -> Votes:
    """Count the classes that `network` gives to `image` under samples first .. first + count - 1 of the noise.

    image holds uint8 pixels: (height, width, channels) for an integer network, any shape for a callable. threads=0
    takes every core; it speeds up integer networks only. classes is needed for a callable that returns labels. Without
    a seed one is drawn, and kept with the votes.
    """
    _check(image, image_index, first, count)
    drawn_from = parse_seed(seed)
    key = drawn_from.to_bytes(32, "little")
    if isinstance(network, Network):
        counts = _network_votes(network, image, noise, key, image_index, first, count, threads, kernels, progress)
    else:
        counts = _callable_votes(network, image, noise, key, image_index, first, count, classes, progress)
    return Votes(tuple(counts), noise, drawn_from, image_index, first)


def noisy_images(
    image: NDArray[Any], noise: Noise, seed: int, image_index: int, first: int, count: int
) -> NDArray[Any]:
    """Samples first .. first + count - 1 themselves: image + noise, (count, *image.shape).

    int32, or float32 if the noise is continuous.
    """
    _check(image, image_index, first, count)
    pixels = np.ascontiguousarray(image).reshape(-1)
    drawn = _drawer(noise)(parse_seed(seed).to_bytes(32, "little"), image_index, first, count, pixels)
    return drawn.reshape(count, *image.shape)


def _drawer(noise: Noise) -> Callable[..., NDArray[Any]]:
    """What draws noisy images for (key, image index, first, count, pixels)."""
    return _table(noise).draw if noise.on_integers else partial(_draw_floats, noise)


def _draw_floats(
    noise: Noise, key: bytes, image_index: int, first: int, count: int, pixels: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """The same for continuous noise, (count, pixels): NumPy's Philox generator, keyed by seed and image.

    The sample's index is the upper half of the counter, so no two samples share any of its blocks.
    """
    address = b"intrs continuous noise" + key + image_index.to_bytes(4, "little")
    philox_key = int.from_bytes(hashlib.sha256(address).digest()[:16], "little")
    drawn = np.empty((count, pixels.size), np.float32)
    for i, row in enumerate(drawn, first):
        generator = np.random.Generator(np.random.Philox(key=philox_key, counter=i << 128))
        generator.standard_normal(dtype=np.float32, out=row)
    drawn *= np.float32(noise.grid_sigma)
    drawn += pixels
    return drawn


def _check(image: NDArray[Any], image_index: int, first: int, count: int) -> None:
    if image.dtype != np.uint8:
        raise IntrsError(f"images are uint8 pixels 0..255; got {image.dtype}")
    if not 0 <= image_index <= MAX_IMAGE_INDEX:
        raise IntrsError(f"the image index must lie in 0 .. 2**32 - 1, not {image_index}")
    limit = SELECTION if first < SELECTION else 2**64
    if count < 0 or first < 0 or first + count > limit:
        raise IntrsError(f"there are no samples {first} .. {first + count - 1}: estimation has 0 .. 2**63 - 1")
    if not 0 < image.size <= _core.MAX_DIMENSION:
        raise IntrsError(f"an image of {image.size} values is empty or too large")


@lru_cache(maxsize=8)
def _table(noise: Noise) -> _core.NoiseTable:
    table = noise.table()
    return _core.NoiseTable(table.first, table.thresholds)


def _network_votes(
    network: Network,
    image: NDArray[np.uint8],
    noise: Noise,
    key: bytes,
    image_index: int,
    first: int,
    count: int,
    threads: int,
    kernels: str,
    progress: Progress | None,
) -> list[int]:
    if not noise.on_integers:
        raise IntrsError(f"{noise.kind} noise is not for integer networks; intrs.float_engine runs their files")
    if image.shape != network.input_shape:
        raise IntrsError(f"the network takes images of shape {network.input_shape}; this one has {image.shape}")
    pixels, table = np.ascontiguousarray(image), _table(noise)
    try:
        return _core.votes(network.native, table, pixels, key, image_index, first, count, threads, kernels, progress)
    except ValueError as error:  # an unknown kernel set, or no thread to be had
        raise IntrsError(str(error)) from None


def _callable_votes(
    classifier: Classifier,
    image: NDArray[np.uint8],
    noise: Noise,
    key: bytes,
    image_index: int,
    first: int,
    count: int,
    classes: int | None,
    progress: Progress | None,
) -> list[int]:
    if not count and not classes:
        raise IntrsError("no samples tell no number of classes: take a sample, or say how many there are (classes=10)")
    counts, pixels = np.zeros(classes or 0, np.int64), np.ascontiguousarray(image).reshape(-1)
    draw = _drawer(noise)
    batch = BATCH if noise.on_integers else min(BATCH, max(MOST_FLOATS // pixels.size, 1))
    for begin in range(0, count, batch):
        size = min(batch, count - begin)
        drawn = draw(key, image_index, first + begin, size, pixels)
        labels, classes = _labels(classifier(drawn.reshape(size, *image.shape)), size, classes)
        counts = np.zeros(classes, np.int64) if begin == 0 else counts
        counts += np.bincount(labels, minlength=classes)
        if progress:
            progress(begin + size)
    return [int(c) for c in counts]


def _labels(answer: Any, size: int, classes: int | None) -> tuple[NDArray[np.int64], int]:
    """What a callable returned, as labels and the number of classes."""
    array = np.asarray(answer)
    if classes in (None, 1) and array.ndim == 2 and array.shape[1] == 1:
        raise IntrsError(
            "the classifier returns one score an image, which would be one class that always wins; "
            "return labels 0 and 1 and say Smooth(..., classes=2), or two scores"
        )
    if array.ndim == 2 and len(array) == size and (classes is None or array.shape[1] == classes):
        return np.argmax(array, axis=1), array.shape[1]
    if array.shape != (size,) or array.dtype.kind not in "iu":
        raise IntrsError(
            f"the classifier must return {size} integer labels or scores of shape ({size}, {classes or 'classes'}); "
            f"it returned {array.dtype} of shape {array.shape}"
        )
    if classes is None:
        raise IntrsError("the classifier returns labels, so say how many classes there are: Smooth(..., classes=10)")
    if array.min() < 0 or array.max() >= classes:
        raise IntrsError(f"the classifier returned labels outside 0 .. {classes - 1}")
    return array.astype(np.int64), classes
