"""Votes do not depend on threads, batch splits, order or kernels, and equal the golden ones in the repository."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layers import network, scores_of

from intrs import _core, votes
from intrs.errors import IntrsError
from intrs.exact import parse_seed
from intrs.noise import Noise
from intrs.votes import SELECTION, Samples, Votes, noisy_images

if TYPE_CHECKING:
    from intrs.network import Network

GOLDEN = Path(__file__).parent / "golden" / "votes.json"
NOISE = Noise.of("discrete", "0.25")
SHAPE = (4, 4, 3)
IMAGE = np.random.default_rng(3).integers(0, 256, SHAPE).astype(np.uint8)
NET = network(scores_of(0, SHAPE, classes=5))
SEED = 0x1234567890ABCDEF << 128


def count(first: int, number: int, base: Any = NET, index: int = 9, **options: Any) -> Votes:
    return votes.count(base, IMAGE, NOISE, Samples(SEED, index, first, number), **options)


def test_threads_splits_and_order_do_not_matter() -> None:
    whole = count(0, 1000, threads=1)
    assert whole.count == 1000
    assert max(whole.counts) < 1000, "a network that always says the same tests nothing"
    assert count(0, 1000, threads=2) == count(0, 1000, threads=7) == whole
    later, earlier = count(333, 667), count(0, 333)
    assert earlier + later == whole
    parts = [count(i, 1).top for i in reversed(range(50))]
    assert np.bincount(parts, minlength=5).tolist() == list(count(0, 50).counts)


@pytest.mark.parametrize("kernels", [*_core.kernel_names(), "scalar-1", "scalar-5"])
def test_kernels_do_not_matter(kernels: str) -> None:
    assert count(SELECTION, 200, kernels=kernels) == count(SELECTION, 200)


def test_votes_are_those_of_the_samples_themselves() -> None:
    images = noisy_images(IMAGE, NOISE, Samples(SEED, 9, 40, 300))
    assert images.shape == (300, *SHAPE)
    labels = NET.predict(images)
    assert count(40, 300).counts == tuple(np.bincount(labels, minlength=5).tolist())


def test_a_callable_gets_the_same_samples() -> None:
    assert count(7, 1203, NET.predict, classes=5) == count(7, 1203, NET.scores) == count(7, 1203)


def test_selection_and_estimation_share_no_sample() -> None:
    assert not np.array_equal(
        noisy_images(IMAGE, NOISE, Samples(SEED, 9, 0, 1)), noisy_images(IMAGE, NOISE, Samples(SEED, 9, SELECTION, 1))
    )
    with pytest.raises(IntrsError, match="no samples"):
        count(SELECTION - 1, 2)


def test_seeds_images_and_samples_differ() -> None:
    base = noisy_images(IMAGE, NOISE, Samples(1, 0, 0, 1))
    for other in ((2, 0, 0), (1 << 255, 0, 0), (1, 1, 0), (1, 0, 1)):
        assert not np.array_equal(base, noisy_images(IMAGE, NOISE, Samples(other[0], other[1], other[2], 1)))


def test_seed_from_the_operating_system() -> None:
    assert parse_seed(None) != parse_seed(None)
    assert parse_seed(2**256 - 1) == 2**256 - 1
    assert type(parse_seed(np.int64(7))) is int
    for bad in (-1, 2**256, 10**5000, 1.0, "x7", np.float64(7), [7]):
        with pytest.raises(IntrsError, match="seed"):
            parse_seed(bad)  # type: ignore[arg-type]


def test_the_seed_is_kept_with_the_votes() -> None:
    drawn = votes.count(NET, IMAGE, NOISE, Samples(None, 9, 0, 50))  # type: ignore[arg-type]
    assert votes.count(NET, IMAGE, NOISE, Samples(drawn.samples.seed, 9, 0, 50)) == drawn
    assert Samples(np.int64(7), 9, 0, 50) == Samples(7, 9, 0, 50)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros(3), "integer labels"),
        (np.zeros((9, 5), int), "integer labels"),
        (np.full(10, 5), "outside 0 .. 4"),
        (np.full(10, -1), "outside 0 .. 4"),
        (np.zeros((10, 4)), "integer labels"),
    ],
)
def test_bad_answers_of_a_callable(answer: Any, message: str) -> None:
    with pytest.raises(IntrsError, match=message):
        count(0, 10, lambda _: answer, classes=5)


def test_one_score_is_no_class() -> None:
    with pytest.raises(IntrsError, match="one class that always wins"):
        count(0, 10, lambda _: np.zeros((10, 1)))


@pytest.mark.parametrize("later", [1, 4, 6])
def test_the_number_of_classes_must_not_change(later: int) -> None:
    answers = iter((5, later))
    with pytest.raises(IntrsError, match=r"scores of shape \(100, 5\)"):
        count(0, 600, lambda batch: np.zeros((len(batch), next(answers))))


def test_no_samples() -> None:
    for base in (NET, NET.scores, NET.predict):
        assert count(0, 0, base, classes=5).counts == (0,) * 5
    with pytest.raises(IntrsError, match="classes=10"):
        count(0, 0, NET.scores)


def test_labels_need_the_number_of_classes() -> None:
    with pytest.raises(IntrsError, match="classes=10"):
        count(0, 10, lambda batch: np.zeros(len(batch), int))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (IMAGE.astype(float), "uint8"),
        (IMAGE[:3], "shape"),
        (np.zeros((0, 4, 3), np.uint8), "empty"),
    ],
)
def test_bad_images(image: Any, message: str) -> None:
    with pytest.raises(IntrsError, match=message):
        votes.count(NET, image, NOISE, Samples(0, 0, 0, 10))


def test_only_touching_ranges_of_one_run_add() -> None:
    for other in (count(50, 10), count(10, 10, index=8)):
        with pytest.raises(IntrsError, match="cannot add"):
            count(0, 10) + other


def test_progress_and_its_exceptions() -> None:
    seen: list[int] = []
    count(0, 60_000, progress=seen.append)
    assert seen == sorted(seen)

    class StopError(Exception):
        pass

    def stop(_: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        count(0, 10**12, progress=stop)


def test_the_gil_is_released() -> None:
    """Another Python thread goes on while votes are counted."""
    done = threading.Event()
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    count(0, 200_000, threads=1)
    done.set()
    ticker.join()
    assert ticks > 5


def golden_base(name: str) -> tuple[Network, Any]:
    if name == "made here":
        return NET, IMAGE
    import intrs
    from intrs import zoo

    return intrs.load(zoo.model_path(name)), intrs.open_data("cifar10-500").images[7]


def golden_counts(entry: dict[str, Any], kernels: str = "") -> list[int]:
    base, image = golden_base(entry["network"])
    assert base.identity == entry["identity"]
    noise = Noise.of(entry["noise"], entry["sigma"])
    counted = votes.count(
        base, image, noise, Samples(int(entry["seed"]), entry["image"], entry["first"], entry["count"]), kernels=kernels
    )
    return list(counted.counts)


@pytest.mark.parametrize("kernels", _core.kernel_names())
@pytest.mark.parametrize("entry", json.loads(GOLDEN.read_text()), ids=lambda e: f"{e['network']}-{e['noise']}")
def test_golden(entry: dict[str, Any], kernels: str) -> None:
    assert golden_counts(entry, kernels) == entry["counts"]
