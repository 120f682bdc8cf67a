"""Training batches: shuffled, cropped, flipped, noisy, and each a function of its address alone.

All randomness of a step derives from (seed, stream, step), so that a resumed run sees what an uninterrupted one sees.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from intrs.exact import derive_key
from intrs.noise import PIXEL_RANGE
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from intrs.data import Images
    from intrs.training.recipe import Phase, Recipe

CALIBRATION, ADAPTATION = 2**24, 2**24 + 1  # streams of their own
VALUES_AT_ONCE = 2**21  # of held-out images: a network needs a hundred times as much for its activations
_FIRST_STREAM: dict[Phase, int] = {"float": 0, "qat": 2**16}


def stream_of(recipe: Recipe, epoch: int) -> int:
    """The stream of an epoch.

    Those of the quantization-aware phase have numbers of their own, so that runs which share a float phase see the
    same batches after it, however long it was.
    """
    phase = recipe.phase(epoch)
    return _FIRST_STREAM[phase] + (epoch - recipe.epochs if phase == "qat" else epoch)


class Batches:
    """The training images in batches of (copies * batch) noisy images and their labels."""

    def __init__(self, data: Images, recipe: Recipe) -> None:
        self.images, self.labels, self.recipe = data.images, data.labels, recipe
        self.steps = len(data) // recipe.batch
        height, width, _ = data.image_shape
        self._rows, self._columns = _reflected(height, recipe.pad), _reflected(width, recipe.pad)
        self._noise_key = recipe.key("noise")
        self.noise_seconds = 0.0  # spent on noise so far, to be seen in the log

    def stream(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass over the images; a few are left out each time if batches do not use them up."""
        order_key = self.recipe.key(f"order {number}")
        choose = np.random.Generator(np.random.Philox(key=order_key % 2**128))
        order = choose.permutation(len(self.labels))
        for step in range(self.steps):
            index = order[step * self.recipe.batch : (step + 1) * self.recipe.batch]
            pixels = self._crops(index, choose)
            begin = time.perf_counter()
            x = self._noisy(pixels, number, step)
            self.noise_seconds += time.perf_counter() - begin
            yield x, torch.from_numpy(self.labels[index])

    def _crops(self, index: NDArray[np.int64], choose: np.random.Generator) -> NDArray[np.uint8]:
        """Crops of the images' own size, out of images that are continued at the edges by reflection; half flipped."""
        pad, (height, width) = self.recipe.pad, self.images.shape[1:3]
        top, left = choose.integers(0, 2 * pad + 1, (2, len(index), 1))
        rows = self._rows[top + np.arange(height)]
        columns = self._columns[left + np.arange(width)]
        if self.recipe.flip:
            columns = np.where(choose.random((len(index), 1)) < 0.5, columns[:, ::-1], columns)
        crops: NDArray[np.uint8] = self.images[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        return crops

    def _noisy(self, pixels: NDArray[np.uint8], number: int, step: int) -> Tensor:
        """(pixels + noise) / 255 by the recipe's noise; never clipped."""
        recipe, law = self.recipe, self.recipe.law
        if recipe.noise == "integer" and law:
            samples = Samples(self._noise_key, number, step * recipe.copies, recipe.copies)
            return to_input(noisy_images(pixels, law, samples))
        x = to_input(np.broadcast_to(pixels, (recipe.copies, *pixels.shape)))
        if recipe.noise == "continuous":
            seed = recipe.key(f"continuous noise {number} {step}") % 2**63
            noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
            x = x.add_(noise.to(memory_format=torch.channels_last), alpha=float(recipe.exact_sigma))
        return x


def _reflected(size: int, pad: int) -> NDArray[np.int64]:
    """Where each place of a padded axis comes from: 2 1 0 1 2 ... n-1 n-2."""
    return np.pad(np.arange(size), pad, mode="reflect")


def to_input(pixels: NDArray[Any], kind: torch.dtype = torch.float32) -> Tensor:
    """What a network takes for integer images (..., height, width, channels): p/255, (n, channels, height, width)."""
    flat = pixels.reshape(-1, *pixels.shape[-3:])
    x = torch.from_numpy(flat.astype(np.float32)).to(kind).div_(PIXEL_RANGE)
    return x.permute(0, 3, 1, 2)  # in memory as before: what PyTorch calls channels_last


def hold_out(data: Images, count: int) -> tuple[Images, Images]:
    """The data without ``count`` evenly spread images, and these."""
    chosen = np.zeros(len(data), bool)
    chosen[np.linspace(0, len(data) - 1, count).astype(np.int64)] = True
    return data.subset(np.flatnonzero(~chosen)), data.subset(np.flatnonzero(chosen))


class HeldOut:
    """Images under one fixed draw of integer noise, the same for every network, run and epoch."""

    def __init__(self, data: Images, recipe: Recipe, most: int | None = None) -> None:
        count = len(data) if most is None else min(most, len(data))
        self._places = np.linspace(0, len(data) - 1, count).astype(np.int64)
        self._data, self._law, self._key = data, recipe.law, derive_key("evaluation")
        self.labels = data.labels[self._places]

    def batches(self, noisy: bool = True) -> Iterator[NDArray[np.int32]]:
        """The images, with their noise or without, as integers (n, height, width, channels)."""
        size = max(1, min(500, VALUES_AT_ONCE // math.prod(self._data.image_shape)))
        for begin in range(0, len(self._places), size):
            pixels = self._data.images[self._places[begin : begin + size]]
            if noisy and self._law:
                yield noisy_images(pixels, self._law, Samples(self._key, 0, begin, 1))[0]
            else:
                yield pixels.astype(np.int32)
