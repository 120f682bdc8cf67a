"""Arrays as data, and what people pass instead of them."""

from __future__ import annotations

import copy
import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny_model import images, save_images

from intrs.data import Images, open_data
from intrs.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

PIXELS, LABELS = images()


class Tensor:
    """What a tensor of PyTorch is to us."""

    def __init__(self, array: Any, device: str = "cpu") -> None:
        self._array, self._device, self.shape = array, device, array.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy it first")
        return np.asarray(self._array, dtype)


@pytest.mark.parametrize("labels", [LABELS, LABELS.astype(np.uint8), LABELS.tolist(), tuple(LABELS), Tensor(LABELS)])
def test_arrays(labels: Any, tmp_path: Path) -> None:
    data = open_data((PIXELS, labels))
    assert (data.images == PIXELS).all()
    assert data.labels.dtype == np.int64
    assert (data.labels == LABELS).all()
    assert data.indices.tolist() == list(range(8))
    assert data.sha256 == open_data(save_images(tmp_path / "a.npz", indices=None)).sha256, "as if from a file"
    assert open_data((Tensor(PIXELS), labels)).sha256 == data.sha256


def test_other_layouts_of_the_same_pixels() -> None:
    expected = open_data((PIXELS, LABELS)).sha256
    assert open_data((np.asfortranarray(PIXELS), LABELS)).sha256 == expected
    grey = np.zeros((8, 10, 10), np.uint8)
    assert open_data((grey, LABELS)).image_shape == (10, 10, 1)
    rows = np.zeros((8, 1, 1, 100), np.uint8)
    assert open_data((rows, LABELS)).image_shape == (1, 1, 100)


def test_arrays_are_not_copied_and_not_written_to() -> None:
    mine = PIXELS.copy()
    data = open_data((mine, LABELS))
    assert np.shares_memory(np.asarray(data.images), mine)
    assert not np.asarray(data.images).flags.writeable
    assert mine.flags.writeable


def test_images_are_data() -> None:
    data = open_data((PIXELS, LABELS))
    assert open_data(data) is data
    assert open_data(data, "train") is data


def test_any_path(tmp_path: Path) -> None:
    class Place(os.PathLike[str]):
        def __fspath__(self) -> str:
            return str(tmp_path / "a.npz")

    save_images(tmp_path / "a.npz")
    assert len(open_data(Place())) == len(open_data(str(tmp_path / "a.npz"))) == 8


BIG = np.zeros((8, 32, 32, 3), np.uint8)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (None, r"expected the name of a data set, a path, or \(images, labels\).*, got None"),
        (5, "got 5"),
        (b"cifar10", "got bytes"),
        ({"images": PIXELS}, "got dict"),
        (PIXELS.tolist(), "expected arrays, got a list.*numpy.asarray"),
        ([PIXELS, LABELS], "expected arrays, got a list"),
        ((PIXELS,), "got a tuple of 1"),
        ((PIXELS, LABELS, LABELS), "got a tuple of 3"),
        ((PIXELS.tolist(), LABELS), "images: expected an array, got list; numpy.asarray makes one"),
        ((None, LABELS), "images: expected an array, got None"),
        ((PIXELS / 255, LABELS), r"uint8 0..255, got float64; if they are fractions 0..1, multiply by 255 and round"),
        (PIXELS / 255, "multiply by 255 and round"),
        ((Tensor((PIXELS / 255).astype(np.float32)), LABELS), "got float32; .* multiply by 255"),
        ((PIXELS.astype(int), LABELS), "got int64; cast them to uint8"),
        ((PIXELS > 3, LABELS), "got bool"),
        ((Tensor(PIXELS, "cuda"), LABELS), r"images: cannot be made a NumPy array \(.*Tensor.cpu\(\)"),
        (
            (BIG.transpose(0, 3, 1, 2), LABELS),
            r"got \(8, 3, 32, 32\); channels come last: images.transpose\(0, 2",
        ),
        ((BIG[0], LABELS[:1]), r"got \(32, 32, 3\); a single image is images\[None\]"),
        ((PIXELS[0, 0], LABELS), r"expected the shape \(n, height, width, channels\), got \(4, 3\)"),
        ((PIXELS[:0], LABELS[:0]), "there is no image"),
        ((PIXELS, None), "labels: expected the number of the right class per image, got None"),
        ((PIXELS, "cat"), "labels: expected .*, got str"),
        ((PIXELS, LABELS / 2), "labels: expected integers, one per image, got float64"),
        ((PIXELS, ["cat"] * 8), "labels: expected integers"),
        ((PIXELS, [[1], [2, 3]]), "labels: cannot be made a NumPy array"),
        ((PIXELS, np.eye(8, dtype=int)), r"one number per image, got the shape \(8, 8\); labels.argmax\(1\)"),
        ((PIXELS, LABELS[:7]), "8 images, 7 labels: counts differ"),
        ((PIXELS, LABELS - 1), "labels count classes from 0"),
    ],
)
def test_what_people_pass_instead(spec: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as refusal:
        open_data(spec)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("split", [None, 1])
def test_a_split_is_a_name(split: Any) -> None:
    with pytest.raises(DataError, match="split: expected a name such as 'test', got"):
        open_data("cifar10-500", split)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": PIXELS.tolist()}, "images must be a NumPy array, got list"),
        ({"labels": LABELS.tolist()}, "labels must be a NumPy array of integers, one per image, got list"),
        ({"labels": LABELS / 1}, r"labels must .* got float64 of shape \(8,\)"),
        ({"indices": np.zeros((8, 1), int)}, r"indices must .* got int64 of shape \(8, 1\)"),
    ],
)
def test_images_of_wrong_types(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=f"mine: {words}"):
        Images(**({"name": "mine", "images": PIXELS, "labels": LABELS, "indices": np.arange(8)} | changes))


def test_short_texts() -> None:
    assert repr(open_data((PIXELS, LABELS))) == "Images 'arrays': 8 images of 4 x 4 x 3"
    shipped = repr(open_data("cifar10-500"))
    assert shipped == "Images 'cifar10-500': 500 images of 32 x 32 x 3, 10 classes (airplane, automobile, bird, ...)"
    many = Images("x", PIXELS, LABELS, np.arange(8), ("y" * 900,) * 900)
    assert len(repr(many)) < 150


def test_pickles_and_copies(tmp_path: Path) -> None:
    from intrs.data.npz import read_npz, write_npz

    data = open_data("cifar10-500")
    write_npz(tmp_path / "a.npz", data)
    mapped = read_npz(tmp_path / "a.npz", "a", mapped=True)
    for made in (data, mapped):
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):  # noqa: S301
            assert again.sha256 == data.sha256
            assert again.classes == data.classes
            assert again.name == made.name


def test_a_copy_that_is_written_to_has_another_hash() -> None:
    data = open_data((PIXELS, LABELS))
    before = data.sha256
    again = copy.deepcopy(data)
    np.asarray(again.images)[0, 0, 0, 0] ^= 1
    assert again.sha256 != before == data.sha256
