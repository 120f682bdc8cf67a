"""Votes: how often each class won under noise, with the address of every sample. Integers for ever.

Sample i of image j under a seed is one fixed noise vector (`core/bits.h`; in floats `_draw_floats`), so votes over
[0, a) plus votes over [a, b) are votes over [0, b): for integers on any machine, with any number of threads. The
selection of the class and the estimation of its probability must not share samples: selection counts from `SELECTION`
on, estimation from 0 on.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from intrs import _core
from intrs.errors import DataError, IntrsError, ModelError, SettingsError
from intrs.exact import Count, parse_count, parse_seed, shown
from intrs.network import Network
from intrs.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.noise import Noise
    from intrs.progress import OnProgress

SELECTION = _core.SELECTION
LAST_ADDRESS = 2**64
BATCH = 500  # noisy images handed to a callable at once, at most
MOST_VALUES = 2**22  # values in such a batch, at most, as long as it holds one image
MOST_THREADS = 1024  # each takes memory for its activations
MAX_IMAGE_INDEX = 2**32 - 1  # an image's noise address has 32 bits

Classifier = Callable[["NDArray[Any]"], Any]
"""Takes integer images (n, *image.shape) with noise added, any range; returns labels (n,) or scores (n, classes).
Under continuous noise the images are float32, in pixel levels all the same.

It must be a function of one image at a time. With BatchNorm in training mode, or dynamic quantisation over the batch,
the votes are not independent draws from one law, and the theorem behind certificates does not apply."""


@dataclass(frozen=True)
class Samples:
    """The noise vectors first .. first + count - 1 of one image under one seed (`core/votes.h`).

    The seed has 256 bits; None draws one from the operating system. The image is its index in a data set, of 32 bits.
    """

    seed: int
    image: int
    first: int
    count: int

    def __post_init__(self) -> None:
        for name in ("image", "first", "count"):
            object.__setattr__(self, name, _index(getattr(self, name), name))
        object.__setattr__(self, "seed", parse_seed(self.seed))
        if not 0 <= self.image <= MAX_IMAGE_INDEX:
            raise SettingsError(f"the image index must lie in 0 .. 2**32 - 1, got {self.image}")
        limit = SELECTION if self.first < SELECTION else LAST_ADDRESS
        if self.count < 0 or self.first < 0 or self.end > limit:
            raise SettingsError(
                f"there are no samples {self.first} .. {self.end - 1}: estimation has 0 .. 2**63 - 1, and selection "
                "those from 2**63 on"
            )

    @property
    def end(self) -> int:
        """The sample after the last one."""
        return self.first + self.count

    @property
    def key(self) -> bytes:
        """The seed as the generator takes it."""
        return self.seed.to_bytes(32, "little")

    @property
    def stream(self) -> tuple[int, int]:
        """Seed and image: votes that share them can be added."""
        return self.seed, self.image

    def following(self, count: int) -> Samples:
        """The `count` samples after these."""
        return replace(self, first=self.end, count=count)


def top_class(counts: Sequence[int]) -> int:
    """The class with most votes, the lowest at a tie."""
    return max(range(len(counts)), key=counts.__getitem__)


@dataclass(frozen=True)
class Votes:
    """Counts per class over the samples of one image."""

    counts: tuple[int, ...]
    noise: Noise
    samples: Samples

    def __post_init__(self) -> None:
        if self.count != self.samples.count:
            raise IntrsError(f"{self.count} votes over {self.samples.count} samples: every sample votes once")

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(self.counts)

    @property
    def top(self) -> int:
        """The class with most votes, the lowest at a tie."""
        return top_class(self.counts)

    @property
    def second(self) -> int:
        """The class with most votes but for the top one."""
        return max((c for c in range(len(self.counts)) if c != self.top), key=self.counts.__getitem__)

    def __add__(self, other: Votes) -> Votes:
        """Votes over two ranges that touch."""
        mine, theirs = self.samples, other.samples
        alike = (self.noise, mine.stream, len(self.counts)) == (other.noise, theirs.stream, len(other.counts))
        if not alike or theirs.first != mine.end:
            raise IntrsError(
                f"cannot add votes over samples {mine.first}+{mine.count} and {theirs.first}+{theirs.count}: "
                "they must be of one image, noise and seed, and the second range must begin where the first ends"
            )
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return replace(self, counts=counts, samples=replace(mine, count=mine.count + theirs.count))


def _index(value: SupportsIndex, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise SettingsError(f"{name}: expected an integer, got {shown(value)}") from None


def content_index(image: NDArray[Any]) -> int:
    """An address for the noise of an image that has no index: 32 bits of the hash of its pixels.

    So another image gets other noise, and the same image under the same seed gets the same, on any machine.
    """
    pixels = check_image(image)
    digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
    return int.from_bytes(digest[:4], "little")


def count(
    network: Network | Classifier,
    image: NDArray[Any],
    noise: Noise,
    samples: Samples,
    *,
    classes: int | None = None,
    threads: Count = 0,
    kernels: str = "",
    progress: OnProgress | None = None,
) -> Votes:
    """Count the classes that `network` gives to `image` under these samples of the noise.

    image holds uint8 pixels: (height, width, channels) for an integer network, any shape for a callable. threads=0
    takes every core; it speeds up integer networks only. classes is needed for a callable that returns labels.
    """
    pixels = check_image(image)
    if not isinstance(samples, Samples) or not hasattr(noise, "on_integers"):
        raise SettingsError(
            f"expected a Noise and Samples(seed, image, first, count), got {shown(noise)}, {shown(samples)}"
        )
    if not isinstance(kernels, str):
        raise SettingsError(f"kernels: expected the name of a kernel set, got {shown(kernels)}")
    if isinstance(network, Network):
        counts = _network_votes(network, pixels, noise, samples, threads, kernels, progress)
    else:
        counts = _callable_votes(network, pixels, noise, samples, classes, progress)
    return Votes(tuple(counts), noise, samples)


def noisy_images(image: NDArray[Any], noise: Noise, samples: Samples) -> NDArray[Any]:
    """The samples themselves: image + noise, (count, *image.shape); int32, or float32 if the noise is continuous."""
    pixels = check_image(image)
    return _drawer(noise)(samples, pixels.reshape(-1)).reshape(samples.count, *pixels.shape)


def check_image(image: NDArray[Any]) -> NDArray[np.uint8]:
    """The pixels in one piece, or a sentence about what was given instead."""
    if not isinstance(image, np.ndarray):
        advice = "; pass image.numpy()" if hasattr(image, "numpy") else ""
        raise DataError(f"an image is a NumPy array of uint8 pixels, got {type(image).__name__}{advice}")
    if image.dtype != np.uint8:
        advice = " (multiply by 255 and round, if the values lie between 0 and 1)" if image.dtype.kind == "f" else ""
        raise DataError(f"an image holds uint8 pixels 0..255, got {image.dtype}{advice}")
    if not 0 < image.size <= _core.MAX_DIMENSION:
        raise DataError(f"an image of {image.size} values is empty or too large")
    return np.ascontiguousarray(image)


def _drawer(noise: Noise) -> Callable[[Samples, NDArray[np.uint8]], NDArray[Any]]:
    """What draws noisy images, (count, values)."""
    return partial(_draw_integers if noise.on_integers else _draw_floats, noise)


def _draw_integers(noise: Noise, samples: Samples, pixels: NDArray[np.uint8]) -> NDArray[np.int32]:
    if noise.is_none:
        return np.tile(pixels.astype(np.int32), (samples.count, 1))
    return _table(noise).draw(samples.key, samples.image, samples.first, samples.count, pixels)


def _draw_floats(noise: Noise, samples: Samples, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The same for continuous noise: NumPy's Philox generator, keyed by seed and image.

    The sample's index is the upper half of the counter, so no two samples share any of its blocks.
    """
    address = b"intrs continuous noise" + samples.key + samples.image.to_bytes(4, "little")
    philox_key = int.from_bytes(hashlib.sha256(address).digest()[:16], "little")
    drawn = np.empty((samples.count, pixels.size), np.float32)
    for i, row in enumerate(drawn, samples.first):
        generator = np.random.Generator(np.random.Philox(key=philox_key, counter=i << 128))
        generator.standard_normal(dtype=np.float32, out=row)
    drawn *= np.float32(noise.grid_sigma)
    drawn += pixels
    return drawn


@lru_cache(maxsize=8)
def _table(noise: Noise) -> _core.NoiseTable:
    table = noise.table()
    return _core.NoiseTable(table.first, table.thresholds)


def _network_votes(
    network: Network,
    image: NDArray[np.uint8],
    noise: Noise,
    samples: Samples,
    threads: Count,
    kernels: str,
    progress: OnProgress | None,
) -> list[int]:
    if not noise.on_integers:
        raise SettingsError(f"{noise.kind} noise is not for integer networks; intrs.float_engine runs their files")
    if image.shape != network.input_shape:
        raise DataError(f"the network takes images of shape {network.input_shape}; this one has {image.shape}")
    if noise.is_none:
        chosen = int(network.predict(image[None], kernels or None)[0])
        return [samples.count if label == chosen else 0 for label in range(network.classes)]
    report = None if progress is None else (lambda done: progress(Progress(done, samples.count)))
    try:
        return _core.votes(
            network.native, _table(noise), image, samples.key, samples.image, samples.first, samples.count,
            parse_count(threads, "threads", 0, MOST_THREADS), kernels, report,
        )  # fmt: skip
    except _core.Error as error:  # an unknown kernel set, or no thread to be had
        raise SettingsError(str(error)) from None


def _callable_votes(
    classifier: Classifier,
    image: NDArray[np.uint8],
    noise: Noise,
    samples: Samples,
    classes: int | None,
    progress: OnProgress | None,
) -> list[int]:
    if not callable(classifier):
        raise ModelError(f"expected a Network or a callable that classifies images, got {type(classifier).__name__}")
    if not samples.count and not classes:
        raise SettingsError("no samples tell no number of classes: take a sample, or pass classes, such as classes=10")
    counts, draw = np.zeros(classes or 0, np.int64), _drawer(noise)
    batch = min(BATCH, max(MOST_VALUES // image.size, 1))
    for begin in range(0, samples.count, batch):
        part = replace(samples, first=samples.first + begin, count=min(batch, samples.count - begin))
        drawn = draw(part, image.reshape(-1)).reshape(part.count, *image.shape)
        labels, classes = _labels(classifier(drawn), part.count, classes)
        counts = np.zeros(classes, np.int64) if begin == 0 else counts
        counts += np.bincount(labels, minlength=classes)
        if progress:
            progress(Progress(begin + part.count, samples.count))
    return [int(c) for c in counts]


def _labels(answer: Any, size: int, classes: int | None) -> tuple[NDArray[np.int64], int]:
    """What a callable returned, as labels and the number of classes."""
    try:
        array = np.asarray(answer.detach() if hasattr(answer, "detach") else answer)  # a tensor may ask for gradients
    except ValueError:
        raise ModelError("the classifier returned lists of different lengths; return one array") from None
    except Exception as error:  # of another library, such as a tensor on a GPU
        raise ModelError(f"the classifier returned what is no array: {error}") from None
    if classes in (None, 1) and array.ndim == 2 and array.shape[1] == 1:
        raise ModelError(
            "the classifier returns one score per image, which would be one class that always wins; "
            "return labels 0 and 1 and pass classes=2, or return two scores"
        )
    if array.ndim == 2 and len(array) == size and (classes is None or array.shape[1] == classes):
        if array.dtype.kind not in "iuf":
            raise ModelError(f"the classifier must return real scores, got {array.dtype}")
        if array.shape[1] == 0 or np.isnan(array).any():
            raise ModelError("the classifier returned NaN among its scores, or none, so its answer is undefined")
        return np.argmax(array, axis=1), array.shape[1]
    if array.shape != (size,) or array.dtype.kind not in "iu":
        raise ModelError(
            f"the classifier must return {size} integer labels or scores of shape ({size}, {classes or 'classes'}); "
            f"it returned {array.dtype} of shape {array.shape}"
        )
    if classes is None:
        raise SettingsError("the classifier returns labels, so pass the number of classes, such as classes=10")
    if array.min() < 0 or array.max() >= classes:
        raise ModelError(f"the classifier returned labels outside 0 .. {classes - 1}")
    return array.astype(np.int64), classes
