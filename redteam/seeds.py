"""A party that picks the seed: what a search over k seeds gains, and what another seed says afterwards.

A certificate is wrong with probability at most alpha over its random bits. Who tries k seeds and shows the best has
spent k times alpha. First on the classifier of `worst_classifiers`, where a certificate is false whenever there is
one; then on a real network, where a search makes radii longer that are true anyway. Last, a classifier that was made
for a seed that its maker knew beforehand.

    python -m redteam.seeds [--searches 200] [--images 4] [--seeds 64]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

import intrs
from intrs import zoo
from intrs.certificate import Abstained, Certified
from intrs.noise import Noise
from intrs.smooth import Smooth
from intrs.votes import SELECTION, Samples, noisy_images
from redteam import MODEL
from redteam.worst_classifiers import DIMENSION, HalfSpace, formulas, least_votes, square, tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SHIFT = (1, 1)


@dataclass(frozen=True)
class Search:
    """Searches over k seeds each that ended with a false certificate, and how many of those another seed repeats."""

    k: int
    searches: int
    lucky: int
    repeated: int
    rate: float  # computed, of one seed

    @property
    def expected(self) -> float:
        """Share of lucky searches."""
        return 1 - (1 - self.rate) ** self.k


def search(k: int, searches: int, n: int = 300, alpha: Fraction = Fraction(1, 20), first: int = 0) -> Search:
    """Look for a seed under which the worst classifier gets a certificate, which is false."""
    noise = Noise.of("discrete", "0.02")
    f = HalfSpace.against(noise, SHIFT)
    image = np.full((1, 1, DIMENSION), f.centre, np.uint8)

    def is_false(seed: int) -> bool:
        outcome = Smooth(f, noise, seed=seed, classes=2).certify(image, n0=20, n=n, alpha=alpha, index=0)
        return isinstance(outcome, Certified) and outcome.label == 0 and outcome.radius_sq >= square(SHIFT)

    lucky = repeated = 0
    for s in range(searches):
        seeds = range(first + s * (k + 1), first + s * (k + 1) + k)
        if any(is_false(seed) for seed in seeds):
            lucky += 1
            repeated += is_false(seeds.stop)  # a seed that the searcher did not choose
    least = least_votes(formulas(noise, n, alpha, SHIFT)["intrs"], n)
    return Search(k, searches, lucky, repeated, tail(n, least, f.probability(noise)))


def radii(images: int, seeds: int, n: int = 1000) -> NDArray[np.float64]:
    """Certified radii of the shipped network, (images, seeds); 0 for an abstention."""
    network, data = intrs.load(zoo.model_path(MODEL)), intrs.open_data(zoo.DEFAULT_DATA)
    noise, found = Noise.of("discrete", "0.25"), np.zeros((images, seeds))
    for i in range(images):
        for seed in range(seeds):
            outcome = Smooth(network, noise, seed=seed).certify(data.images[i], n0=100, n=n, index=i)
            found[i, seed] = outcome.radius if isinstance(outcome, Certified) else 0.0
    return found


def gains(found: NDArray[np.float64]) -> dict[int, float]:
    """Mean best radius among k seeds, k = 1, 4, 16, ..., each over all groups of k seeds in a row."""
    best = {}
    for k in (4**j for j in range(8) if 4**j <= found.shape[1]):
        groups = found[:, : found.shape[1] // k * k].reshape(len(found), -1, k)
        best[k] = float(groups.max(2).mean())
    return best


def made_for_a_seed(seed: int, n: int = 1000, n0: int = 100) -> tuple[Certified | Abstained, Certified | Abstained]:
    """What a half-space gets under the seed that it was made for, and under another.

    Its normal is the sum of the noise to come, which leans towards each of its terms: with n samples in d dimensions
    about Phi(sqrt(d / n)) of them vote for class 0. Under any other noise half do, so every radius is false.
    """
    noise, image = Noise.of("discrete", "0.25"), np.full((32, 32, 3), 128, np.uint8)
    drawn = [noisy_images(image, noise, Samples(seed, 0, first, count)) for first, count in ((0, n), (SELECTION, n0))]
    normal = sum(part.reshape(len(part), -1).astype(np.int64).sum(0) for part in drawn) - 128 * (n + n0)

    def classify(batch: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.where((batch.reshape(len(batch), -1).astype(np.int64) - 128) @ normal > 0, 0, 1)

    known, other = (
        Smooth(classify, noise, seed=s, classes=2).certify(image, n0=n0, n=n, index=0) for s in (seed, seed + 1)
    )
    return known, other


def main(arguments: Sequence[str]) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="redteam.seeds", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--searches", type=int, default=200, help="searches for each k (200)")
    parser.add_argument("--images", type=int, default=4, help="images of the real network (4)")
    parser.add_argument("--seeds", type=int, default=64, help="seeds per image (64)")
    args = parser.parse_args(arguments)
    print("a classifier that deserves no certificate, N = 300, alpha = 0.05")
    for k in (1, 4, 16, 64):
        found = search(k, args.searches, first=10**6 * k)
        print(
            f"  best of {k:>3} seeds: {found.lucky} false certificates in {found.searches} searches "
            f"({100 * found.expected:.1f} % expected); another seed repeats {found.repeated}"
        )
    print(f"the shipped network, N = 1000, alpha = 0.001, {args.images} images: mean radius")
    for k, mean in gains(radii(args.images, args.seeds)).items():
        print(f"  best of {k:>3} seeds: {mean:.4f}")
    print("a half-space made for a seed, N = 1000, alpha = 0.001: under it, and under another")
    for outcome in made_for_a_seed(1):
        print(f"  {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
