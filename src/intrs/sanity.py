"""Whether a run makes sense, seen on a few images before it begins: the network itself, and the network under noise.

The images are spread over the run, and their noise comes from a seed of its own, so the same run says the same and none
of its votes are touched. docs/data.md says what the hints mean.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from intrs.errors import IntrsError
from intrs.exchange.convention import USUAL
from intrs.network import Network
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from intrs.exchange.convention import Settings
    from intrs.job import Job

SEED = int.from_bytes(b"intrs looks at a few images", "little")
MOST_IMAGES, LEAST_IMAGES = 64, 4
MOST_COPIES = 10  # of one image under noise, where there are few images
WORK, SCALAR_WORK = 2 * 10**10, 10**9  # multiply-adds that take about a second
FLOAT_IMAGES = 16  # of a network in floats, whose work is not known
ENOUGH = 8  # images for a comparison of shares
BY_CHANCE = 0.01  # probability of guessing as well as this
LOW = 0.7  # accuracy below which other conventions are tried
BETTER = 0.2  # share of images by which one of them must be better
APART = 0.3  # share of images that noise may cost
ENOUGH_FOR_ORDER = 32  # images; of fewer, some order of the classes explains too many
ORDERED = 0.5  # share of images that another order of the classes must explain
KEPT = 0.5  # share of noisy copies that should keep the class of their image


class Hint(NamedTuple):
    """What may be wrong: its kind, and a sentence."""

    kind: str  # order, convention, guessing or noise
    words: str


@dataclass(frozen=True)
class Look:
    """What a few images show."""

    images: int
    copies: int  # noisy ones of each
    classes: int
    kept: int  # noisy copies that get the class that their image gets without noise
    clean: int | None  # images that are classified correctly without noise; None: there are no labels
    noisy: int | None  # noisy copies that are
    better: tuple[Settings, int, int] | None = None  # a convention, images that are correct under it, of how many
    reordered: int = 0  # images that would be correct if the classes had the best of all orders

    def words(self) -> str:
        """What was seen, in a sentence."""
        under = f"{self.images * self.copies} noisy copies"
        if self.clean is None:
            return f"{_many(self.images)}: {self.kept} of {under} get the class of the image without noise"
        clean, noisy = _share(self.clean, self.images), _share(self.noisy or 0, self.images * self.copies)
        return f"{_many(self.images)}: {clean} correct without noise, {noisy} with it"

    def hints(self) -> Iterator[Hint]:
        """What may be wrong."""
        if self._seems_reordered():
            yield Hint(
                "order",
                f"the classes seem to have another order in the data than in the model: in the best one, "
                f"{_share(self.reordered, self.images)} would be correct without noise",
            )
        elif self.better:
            yield Hint("convention", _of_convention(*self.better, self.clean or 0, self.images))
        elif self.clean is not None and self.images >= LEAST_IMAGES and self._may_be_guessing(self.clean):
            yield Hint(
                "guessing",
                f"without noise it is no better than guessing among {self.classes} classes. Does the file want other "
                "pixels, a mean and std, or has it its classes in another order?",
            )
            return
        if self._loses_much():
            yield Hint(
                "noise",
                "the network does much worse under this noise, as networks do that were not trained under it: expect "
                "abstentions and small radii. Train it under noise, or take a smaller sigma",
            )

    def _seems_reordered(self) -> bool:
        """Whether mistakes follow the classes too well to be mistakes; a network that guesses does not get so far."""
        if self.clean is None or self.images < ENOUGH_FOR_ORDER:
            return False
        return self.reordered - self.clean >= BETTER * self.images and self.reordered >= ORDERED * self.images

    def _may_be_guessing(self, right: int) -> bool:
        return self.classes > 1 and chance(right, self.images, self.classes) > BY_CHANCE

    def _loses_much(self) -> bool:
        noisy = self.images * self.copies
        if self.clean is not None and self.noisy is not None and self.images >= ENOUGH:
            return self.clean / self.images - self.noisy / noisy >= APART
        return noisy >= ENOUGH and self.kept < KEPT * noisy


def chance(right: int, images: int, classes: int) -> float:
    """The probability of so many correct answers or more by guessing."""
    p = Fraction(1, classes)
    return float(sum(math.comb(images, k) * p**k * (1 - p) ** (images - k) for k in range(right, images + 1)))


def look(job: Job) -> Look | None:
    """Look at a few images of a run; None if it is about the network without noise. Takes about a second."""
    if job.run.noise.is_none:
        return None
    count, copies = _effort(job)
    places = sorted({job.positions[i * len(job.positions) // count] for i in range(count)})
    images = np.stack([np.asarray(job.data.images[place]) for place in places])
    clean = _classify(job.smooth.base, images, job.smooth.kernels)
    samples = [Samples(SEED, job.index(place), 0, copies) for place in places]
    drawn = [noisy_images(image, job.run.noise, each) for image, each in zip(images, samples, strict=True)]
    noisy = _classify(job.smooth.base, np.concatenate(drawn), job.smooth.kernels).reshape(len(places), copies)
    found = Look(len(places), copies, job.run.classes, _same(noisy, clean), clean=None, noisy=None)
    if not job.data.has_labels:
        return found
    labels = job.data.labels[places]
    right = int((clean == labels).sum())
    better = _better(job, images, labels, right) if len(places) >= ENOUGH and right < LOW * len(places) else None
    reordered = best_order(clean, labels, job.run.classes)
    return replace(found, clean=right, noisy=_same(noisy, labels), better=better, reordered=reordered)


def best_order(found: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> int:
    """How many answers are correct if every label stands for another class, chosen from the most frequent pair on."""
    pairs = Counter(zip(labels.tolist(), found.tolist(), strict=True))
    left, right, explained = set(range(classes)), set(range(classes)), 0
    for (label, answer), count in sorted(pairs.items(), key=lambda pair: -pair[1]):
        if label in left and answer in right:
            left.remove(label)
            right.remove(answer)
            explained += count
    return explained


def _same(noisy: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    return int((noisy == right[:, None]).sum())


def _effort(job: Job) -> tuple[int, int]:
    """How many images, and noisy copies of each."""
    base, available = job.smooth.base, len(job.positions)
    passes = 2 * FLOAT_IMAGES
    if isinstance(base, Network):
        work = SCALAR_WORK if job.smooth.kernels.startswith("scalar") else WORK
        passes = max(work // base.native.work(), 2 * LEAST_IMAGES)
    images = min(available, MOST_IMAGES, max(passes // 2, LEAST_IMAGES))
    return images, max(1, min(MOST_COPIES, passes // images - 1, MOST_IMAGES // images))


def _classify(network: Any, images: NDArray[Any], kernels: str) -> NDArray[np.int64]:
    """The classes of integer images, or of float ones in a float engine."""
    if isinstance(network, Network):
        return network.predict(images.astype(np.int32), kernels or None)
    return np.asarray(np.argmax(network(images.astype(np.float32)), axis=1))


def _better(
    job: Job, images: NDArray[np.uint8], labels: NDArray[np.int64], right: int
) -> tuple[Settings, int, int] | None:
    """A usual convention under which clearly more images are correct, without noise."""
    tried = slice(None, None, max(1, len(images) // (MOST_IMAGES // 2)))
    few, found = images[tried], []
    for settings in USUAL:
        if few.shape[3] != 3 and len(settings) > 1:
            continue
        try:
            network = job.model.network(**settings, dialect=job.run.request.dialect)
            counted = int((_classify(network, few, job.smooth.kernels) == labels[tried]).sum())
        except IntrsError:  # a float model, a Network, or a file that says that it cannot be so
            continue
        found.append((counted, settings))
    best = max(found, key=lambda each: each[0], default=None)
    if best is None or best[0] / len(few) - right / len(images) < BETTER:
        return None
    return best[1], best[0], len(few)


# --- Words -----------------------------------------------------------------------------------------------------------


def _of_convention(settings: Settings, right: int, tried: int, now: int, images: int) -> str:
    given = " ".join(f"{name}={value}" for name, value in settings.items())
    return (
        f"with {given} the network gets {_share(right, tried)} of these images right without noise, not "
        f"{_share(now, images)}: its input seems to be another than was taken for granted"
    )


def _many(count: int) -> str:
    return f"{count} {'image' if count == 1 else 'images'}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)"
