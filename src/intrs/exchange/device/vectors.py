"""Test vectors: one image with the votes and answers of the desktop, against which a device checks itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import zoo
from intrs.adaptive.tables import squared
from intrs.data import open_data
from intrs.smooth import Smooth
from intrs.votes import content_index, noisy_images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from intrs.exchange.device.decisions import Certifying, Decisions, Stopping
    from intrs.network import Network

SAMPLES = 8  # whose votes are compared at once
LOOKED_AT = 8  # images, of which the clearest one is taken: its answer needs the fewest samples
MOST_SAMPLES = 5000  # of an answer with a fixed number of samples: a device should not take hours to check itself
PREDICT, CERTIFY, ADAPTIVE = 1, 2, 3  # intrs_mode


@dataclass(frozen=True)
class Expected:
    """An answer as the device gives it."""

    mode: int
    decided: bool
    label: int
    votes: int
    samples: int
    radius_sq: int


@dataclass(frozen=True, eq=False)
class Vectors:
    """What the desktop computes."""

    image: NDArray[np.uint8]
    seed: int
    index: int
    votes: tuple[int, ...]
    scores: bytes  # the digest of all scores of the samples
    expected: tuple[Expected, ...]


def make_vectors(network: Network, decisions: Decisions) -> Vectors:
    """An image, and what is to come out."""
    seed = int.from_bytes(hashlib.sha256(b"intrs device " + network.identity.encode()).digest(), "little")
    smooth = Smooth(network, decisions.noise, seed=seed)
    image = _clearest(smooth, _images(network))
    index = content_index(image)
    samples = smooth.samples(index, 0, SAMPLES)
    counts = smooth.sample(image, samples).counts
    scores = network.scores(noisy_images(image, decisions.noise, samples)).astype("<i4")
    digest = hashlib.sha256(scores.tobytes()).digest()
    return Vectors(image, seed, index, counts, digest, tuple(_answers(smooth, image, decisions)))


def _images(network: Network) -> list[NDArray[np.uint8]]:
    """Of the data that ships if they fit the network, else drawn from a fixed seed."""
    shipped = open_data(zoo.data_names()[0]).images[:LOOKED_AT]
    if shipped[0].shape == network.input_shape:
        return list(shipped)
    return list(np.random.default_rng(0).integers(0, 256, (LOOKED_AT, *network.input_shape), np.uint8))


def _clearest(smooth: Smooth, images: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    def most(image: NDArray[np.uint8]) -> int:
        return max(smooth.sample(image, smooth.samples(content_index(image), 0, 64)).counts)

    return max(images, key=most)


def _answers(smooth: Smooth, image: NDArray[np.uint8], decisions: Decisions) -> Iterator[Expected]:
    if asked := decisions.predict:
        alpha = asked.level + smooth.noise.tau(asked.n, image.size)
        found = smooth.predict(image, n=asked.n, alpha=alpha)
        yield _expected(PREDICT, found)
    if decisions.certify and decisions.certify.certifier.n <= MOST_SAMPLES:
        yield _certified(smooth, image, decisions.certify)
    if decisions.adaptive:
        yield _adapted(smooth, image, decisions.adaptive)


def _certified(smooth: Smooth, image: NDArray[np.uint8], asked: Certifying) -> Expected:
    c = asked.certifier
    other = Smooth(smooth.base, smooth.noise, seed=smooth.seed, bound=c.bound)
    found = _expected(CERTIFY, other.certify(image, n0=asked.n0, n=c.n, alpha=c.alpha))
    return found if asked.at_least is None else _limited(found, squared(asked.at_least))


def _adapted(smooth: Smooth, image: NDArray[np.uint8], asked: Stopping) -> Expected:
    rule, c = asked.rule, asked.rule.certifier
    other = Smooth(smooth.base, smooth.noise, seed=smooth.seed, bound=c.bound)
    settings: dict[str, Any] = {"n0": asked.n0, "n": c.n, "alpha": c.alpha}
    answer = other.certify(image, radii=rule.radii, give_up=rule.give_up, **settings)
    found = _expected(ADAPTIVE, answer)
    threshold = rule.tables.of(rule.radii[-1])
    return found if not asked.only_asked or threshold is None else _limited(found, threshold.radius_sq)


def _expected(mode: int, found: Any) -> Expected:
    decided = getattr(found, "certified", True)
    label = found.label if decided else 0
    return Expected(mode, decided, label, found.votes, found.n, getattr(found, "radius_sq", 0))


def _limited(found: Expected, radius_sq: int) -> Expected:
    """The answer of a device that knows one radius."""
    if found.decided and found.radius_sq >= radius_sq:
        return Expected(found.mode, True, found.label, found.votes, found.samples, radius_sq)
    return Expected(found.mode, False, 0, found.votes, found.samples, 0)
