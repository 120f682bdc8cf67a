"""How far the network in a file that was written is from the network of which it was written.

Other engines round elsewhere, so a file for them is a network of its own, with an identity of its own. It is loaded
again, and both are run on the same noisy images.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from intrs.data import open_data
from intrs.errors import DataError
from intrs.network import Conv
from intrs.noise import parse_sigma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.data import Spec as AnyData
    from intrs.exact import Number
    from intrs.network import Network, Shape

    Batch = NDArray[np.int32]
    Scores = NDArray[np.int32]

SEED = 20180614  # of the pictures and the noise: whoever exports again compares the same
MOST_IMAGES = 200
FEWEST_IMAGES = 20
MOST_WORK = 2**34  # multiply-adds, where that leaves the fewest images
GRID = 4  # the rough picture of which a picture is made, per side
STEPS = 255  # into which scores that are no codes are divided, over their whole range


@dataclass(frozen=True)
class Difference:
    """Counted on noisy images: scores that differ, the farthest, and images whose top class differs.

    Scores that are codes count in codes; wider ones in steps of a 255th of their range on these images.
    """

    images: int
    scores: int  # compared
    different: int
    farthest: int
    classes: int
    pictures: str  # which images these were

    def __str__(self) -> str:
        far = f", by at most {self.farthest}" if self.different else ""
        scores = f"{self.different:,} of {self.scores:,} scores differ{far}"
        return f"{scores}; {self.classes:,} of {self.images:,} top classes ({self.pictures})"


@dataclass(frozen=True, eq=False)
class Written:
    """The network that a file holds, as intrs loads it again, and its difference from the one that was exported."""

    network: Network
    difference: Difference


@dataclass(frozen=True, eq=False)
class Sample:
    """Noisy images, and where they are from."""

    batch: Batch
    name: str


def sample(network: Network, data: AnyData | None = None, sigma: Number | None = None) -> Sample:
    """Images of data, or pictures drawn from a fixed seed, with rounded Gaussian noise of this sigma."""
    rng = np.random.default_rng(SEED)
    count = min(MOST_IMAGES, max(FEWEST_IMAGES, MOST_WORK // network.native.work()))
    deviation = Fraction(0) if sigma in (None, "", 0, "0") else parse_sigma(sigma)
    pixels = _pictures(rng, count, network.input_shape) if data is None else _images(data, count, network.input_shape)
    noise = np.rint(rng.normal(0, 255 * float(deviation), pixels.shape)).astype(np.int32)
    name = f"{'pictures from a fixed seed' if data is None else 'images of the data'}, sigma {float(deviation):g}"
    return Sample(pixels.astype(np.int32) + noise, name)


def difference(network: Network, other: Network, images: Sample, codes: Scores | None = None) -> Difference:
    """How the scores of two networks differ; `codes` are the first one's scores as codes of the other's output."""
    ours, theirs = network.scores(images.batch), other.scores(images.batch)
    tops = int((ours.argmax(1) != theirs.argmax(1)).sum())
    if codes is not None:
        ours = codes
    elif _is_wide(network):
        ours, theirs = _steps(ours, theirs)
    apart = np.abs(ours.astype(np.int64) - theirs)
    return Difference(len(ours), ours.size, int((apart > 0).sum()), int(apart.max(initial=0)), tops, images.name)


def _is_wide(network: Network) -> bool:
    last = network.layers[-1]
    return isinstance(last, Conv) and last.wide


def _steps(ours: Scores, theirs: Scores) -> tuple[Scores, Scores]:
    """Scores of two scales in steps of a 255th of the range of the first."""
    square = float((theirs.astype(np.float64) ** 2).sum())
    scale = float((ours.astype(np.float64) * theirs).sum()) / square if square else 1.0
    step = max(1.0, (int(ours.max()) - int(ours.min())) / STEPS)
    first, second = (np.rint(scores / step).astype(np.int32) for scores in (ours, theirs * scale))
    return first, second


def _images(data: AnyData, count: int, shape: Shape) -> NDArray[np.uint8]:
    images = open_data(data)
    found = np.stack([np.asarray(images.images[i]) for i in range(min(count, len(images)))])
    if found.shape[1:] != shape:
        size = " x ".join(map(str, shape))
        raise DataError(f"the model takes images of {size}, and those of the data are {found.shape[1:]}")
    return np.asarray(found, np.uint8)


def _pictures(rng: np.random.Generator, count: int, shape: Shape) -> NDArray[np.uint8]:
    """Pictures of a few large spots of colour: a network tells them apart, where it sees one class in bare noise."""
    height, width, channels = shape
    rough = rng.integers(0, 256, (count, GRID + 1, GRID + 1, channels)).astype(np.float64)
    smooth = _stretched(_stretched(rough, height, 1), width, 2)
    return np.asarray(np.clip(np.rint(smooth), 0, 255), np.uint8)


def _stretched(values: NDArray[np.float64], size: int, axis: int) -> NDArray[np.float64]:
    """Linear interpolation along an axis."""
    at = np.linspace(0, GRID, size)
    low = np.minimum(at.astype(int), GRID - 1)
    part = (at - low).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    found: NDArray[np.float64] = values.take(low, axis) * (1 - part) + values.take(low + 1, axis) * part
    return found
