"""Image files that are decoded when they are looked at: the same pixels as before, in little memory."""

from __future__ import annotations

import copy
import os
import pickle
import re
import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from test_data import LABELS, PIXELS, save_folder

from intrs.data import Images, open_data
from intrs.data.folder import FORM
from intrs.data.lazy import LazyPixels
from intrs.errors import DataError
from intrs.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ORDER = np.argsort(LABELS, kind="stable")
SORTED = PIXELS[ORDER]


@pytest.fixture
def pets(tmp_path: Path) -> Images:
    return open_data(save_folder(tmp_path / "pets"))


class Counted:
    """A source that counts how often each image is decoded."""

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        self._pixels, self.seen = pixels, [0] * len(pixels)

    def pixels(self, place: int) -> NDArray[np.uint8]:
        self.seen[place] += 1
        return np.array(self._pixels[place])


def lazy(pixels: NDArray[np.uint8]) -> tuple[LazyPixels, Counted]:
    source = Counted(pixels)
    count, height, width, channels = pixels.shape
    return LazyPixels(source, (count, height, width, channels)), source


@pytest.mark.parametrize(
    "key",
    [
        0, -1, np.int64(3), np.array(3), slice(2, 5), slice(None, None, -2), slice(5, 2), [1, 1, 0],
        np.array([7, 0, 7]), np.array([[0, 1], [2, 3]]), np.arange(8) % 2 == 0, np.zeros(0, int), ..., None,
        (2, 1), (2, slice(None), 0), (slice(0, 3), ..., 1), (..., 0), (np.array([1, 5]), 2),
        (np.array([3, 3, 1])[:, None, None], np.arange(4)[:, None], np.arange(4)[None, ::-1]), (), (slice(None), None),
    ],
)  # fmt: skip
def test_indices_mean_what_they_mean_for_arrays(key: Any) -> None:
    pixels, _ = lazy(PIXELS)
    got, expected = pixels[key], PIXELS[key]
    assert got.dtype == np.uint8
    assert got.shape == expected.shape
    assert (got == expected).all()


@pytest.mark.parametrize("key", [8, -9, [0, 8], np.ones(7, bool), 1.0, "0"])
def test_wrong_indices(key: Any) -> None:
    with pytest.raises(IndexError):
        lazy(PIXELS)[0][key]


def test_as_an_array() -> None:
    pixels, _ = lazy(PIXELS)
    assert (np.asarray(pixels) == PIXELS).all()
    assert np.asarray(pixels, np.int64).dtype == np.int64
    assert (pixels == PIXELS).all()
    assert (pixels == PIXELS).all()
    assert (PIXELS - pixels == 0).all()
    assert np.array_equal(np.stack(list(pixels)), PIXELS)
    assert (pixels.shape, pixels.ndim, len(pixels)) == (PIXELS.shape, 4, 8)
    assert pixels.dtype == np.uint8
    assert pixels.nbytes == PIXELS.nbytes
    assert len(repr(pixels)) < 100
    with pytest.raises(AttributeError, match=r"'mean'; numpy\.asarray"):
        pixels.mean()
    with pytest.raises(AttributeError, match=r"'nothing'$"):
        _ = pixels.nothing


def test_an_image_is_decoded_once_while_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels, source = lazy(PIXELS)
    for _ in range(3):
        np.asarray(pixels)
    assert source.seen == [1] * 8
    with pytest.raises(ValueError, match="read-only"):
        pixels[0][0, 0, 0] = 1  # others would see it
    monkeypatch.setattr("intrs.data.lazy.CACHE_BYTES", 2 * PIXELS[0].size)
    pixels, source = lazy(PIXELS)
    for place in (0, 1, 0, 2, 0, 1):
        assert (pixels[place] == PIXELS[place]).all()
    assert source.seen[:3] == [1, 2, 1], "what was looked at last is kept"
    pixels, source = lazy(PIXELS)
    pixels[np.array([3] * 50 + [4])]
    assert source.seen == [0, 0, 0, 1, 1, 0, 0, 0]


def test_threads_see_the_right_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.data.lazy.CACHE_BYTES", 0)
    pixels, wrong = open_data(save_folder(tmp_path)).images, []

    def look(seed: int) -> None:
        for place in np.random.default_rng(seed).integers(0, 8, 100):
            if not (pixels[place] == SORTED[place]).all():
                wrong.append(place)

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- Images of files -------------------------------------------------------------------------------------------------


def test_the_hash_of_files_is_that_of_their_pixels(pets: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.data.images.BLOCK_BYTES", 3 * 48)
    seen: list[Progress] = []
    expected = Images("x", SORTED, LABELS[ORDER], np.arange(8)).sha256
    assert pets.compute_sha256(seen.append) == expected
    assert seen == [Progress(done, 8, "images", "reading pets") for done in (0, 3, 6, 8)]
    assert open_data((SORTED, LABELS[ORDER])).sha256 == expected
    assert pets.sha256 == pets.compute_sha256(seen.append) == expected
    assert len(seen) == 4, "it is computed once"


def test_pickles_and_copies_of_files(pets: Images) -> None:
    expected = pets.sha256
    for again in (pickle.loads(pickle.dumps(pets)), copy.deepcopy(pets)):  # noqa: S301
        assert (again.name, again.classes) == ("pets", ("cat", "dog", "eel"))
        assert (again.images == SORTED).all()
        assert again.sha256 == expected


def test_a_subset_is_not_decoded() -> None:
    pixels, source = lazy(PIXELS)
    data = Images("x", pixels, LABELS, np.arange(8) * 10)
    some = data.subset(np.array([6, 1])).subset(np.array([0]))
    assert source.seen == [0] * 8
    assert (some.indices.tolist(), some.labels.tolist()) == ([60], [LABELS[6]])
    assert (some.images == PIXELS[6:7]).all()
    assert sum(source.seen) == 1
    arrays = Images("x", PIXELS, LABELS, np.arange(8)).subset(np.array([6, 1]))
    assert (arrays.images == PIXELS[[6, 1]]).all()


def test_a_file_that_changes_is_noticed(pets: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that was taken before would not be that of its pixels."""
    monkeypatch.setattr("intrs.data.lazy.CACHE_BYTES", 0)
    assert len(pets.sha256) == 64
    path = tmp_path / "pets" / "cat" / "0.png"
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match=r"cat/0\.png was changed while the data set was in use"):
        pets.images[0]
    path.unlink()
    with pytest.raises(DataError, match=r"cat/0\.png: not a readable image .*No such file"):
        pets.images[0]
    assert (pets.images[1] == SORTED[1]).all()


def test_many_images_take_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 images of 30 kB are opened, hashed and looked at within 4 MB."""
    monkeypatch.setattr("intrs.data.lazy.CACHE_BYTES", 10**6, raising=False)
    monkeypatch.setattr("intrs.data.images.BLOCK_BYTES", 10**6, raising=False)
    (tmp_path / "cat").mkdir()
    rng = np.random.default_rng(0)
    for i in range(300):
        Image.fromarray(rng.integers(0, 256, (100, 100, 3), np.uint8)).save(tmp_path / "cat" / f"{i:03}.bmp")
    open_data(tmp_path).images[0]  # whatever is loaded once
    tracemalloc.start()
    try:
        data = open_data(tmp_path)
        assert len(data.sha256) == 64
        assert sum(int(image[0, 0, 0]) for image in data.images) > 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 10**6 < np.prod(data.images.shape)


# --- What is a data folder -------------------------------------------------------------------------------------------


def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that are listed from now on."""
    seen: list[str] = []
    scandir = os.scandir

    def record(path: Any = ".") -> Any:
        seen.append(os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", record)
    return seen


def test_the_file_system_is_no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = listed(monkeypatch)
    with pytest.raises(DataError, match=re.escape(FORM)):
        open_data("/")
    assert all(path.count("/") <= 1 for path in seen), "one level of folders at most"


def test_deep_folders_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_folder(tmp_path)
    for i in range(50):
        (tmp_path / "cat" / "more" / str(i)).mkdir(parents=True)
    seen = listed(monkeypatch)
    with pytest.raises(DataError, match=r"cat holds the folder more, so it is not the folder of a class"):
        open_data(tmp_path)
    assert not any("more" in path for path in seen)


def test_folders_of_too_many_files_or_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_folder(tmp_path)
    (tmp_path / "dog" / "notes.txt").touch()
    for name, most, words in (
        ("folder.MOST_IMAGES", 7, "8 images; at most 7"),
        ("folder.MOST_CLASSES", 2, "3 folders; at most 2 classes"),
        ("limits.MOST_ENTRIES", 10, "a data folder of more than 10 files"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"intrs.data.{name}", most)
            with pytest.raises(DataError, match=words):
                open_data(tmp_path)
    assert len(open_data(tmp_path)) == 8


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    save_folder(tmp_path / "secret")
    pets = save_folder(tmp_path / "pets")
    link = pets / "cat" / "a.png"
    link.symlink_to(tmp_path / "secret" / "cat" / "0.png")
    with pytest.raises(DataError, match=r"cat/a\.png: a symbolic link out of the data folder is not followed"):
        open_data(pets)
    link.unlink()
    (pets / "fox").symlink_to(tmp_path / "secret" / "cat")
    with pytest.raises(DataError, match="fox: a symbolic link out of the data folder"):
        open_data(pets)
    (pets / "fox").unlink()
    link.symlink_to(pets / "nothing.png")
    with pytest.raises(DataError, match=r"a\.png: a symbolic link to nothing"):
        open_data(pets)
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(DataError, match=r"a\.png"):
        open_data(pets)


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    pets = save_folder(tmp_path / "pets")
    (pets / "cat" / "z.png").symlink_to("../eel/2.png")
    (tmp_path / "alias").symlink_to(pets)
    data = open_data(tmp_path / "alias")
    assert len(data) == 9
    assert (data.images[3] == PIXELS[2]).all()


def test_pipes_are_not_opened(tmp_path: Path) -> None:
    """Opening one would wait for ever."""
    save_folder(tmp_path)
    os.mkfifo(tmp_path / "cat" / "0a.png")
    assert len(open_data(tmp_path)) == 8
