"""Data from strangers: what is taken, and what is refused with which words."""

from __future__ import annotations

import contextlib
import io
import pickle
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tiny_model import images, save_images

from intrs import zoo
from intrs.data import Images, open_data
from intrs.errors import DataError, IntrsError

if TYPE_CHECKING:
    from pathlib import Path

PIXELS, LABELS = images()


class Trap:
    """Unpickled, it would give itself away."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Trap, "sprung", True)


def test_what_ships() -> None:
    data = open_data(zoo.DEFAULT_DATA)
    assert data.images.shape == (500, 32, 32, 3)
    assert data.indices.tolist() == list(range(0, 10_000, 20))
    assert len(data.classes) == 10
    assert np.bincount(data.labels).min() > 30
    assert data.sha256 == "2b09ae4b37562888d5087aefb959f2581abe6977b6a0c1e08c68405fe77e3929"


def test_npz(tmp_path: Path) -> None:
    data = open_data(save_images(tmp_path / "a.npz", classes=np.array(["x", "y", "z"])))
    assert (data.images == PIXELS).all()
    assert (data.labels == LABELS).all()
    assert data.indices[:3].tolist() == [3, 23, 43]
    assert data.classes == ("x", "y", "z")
    plain = open_data(save_images(tmp_path / "b.npz", indices=None))
    assert plain.indices.tolist() == list(range(8))
    assert plain.classes == ()


def test_npz_in_other_orders_and_types(tmp_path: Path) -> None:
    fortran = save_images(tmp_path / "a.npz", images=np.asfortranarray(PIXELS), labels=LABELS.astype(np.uint8))
    assert open_data(fortran).sha256 == open_data(save_images(tmp_path / "b.npz")).sha256
    grey = open_data(save_images(tmp_path / "c.npz", images=PIXELS[..., 0]))
    assert grey.image_shape == (4, 4, 1)


def test_the_hash_sees_every_pixel_label_and_index(tmp_path: Path) -> None:
    changed = PIXELS.copy()
    changed[-1, -1, -1, -1] ^= 1
    variants: list[dict[str, Any]] = [
        {},
        {"images": changed},
        {"labels": LABELS[::-1]},
        {"indices": np.arange(8)},
        {"images": PIXELS.reshape(8, 2, 8, 3)},
    ]
    hashes = [open_data(save_images(tmp_path / f"{i}.npz", **v)).sha256 for i, v in enumerate(variants)]
    assert len(set(hashes)) == len(variants)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": None}, "no array `images`"),
        ({"images": PIXELS.astype(np.float32) / 255}, "float32"),
        ({"images": PIXELS.astype(np.int16)}, "int16"),
        ({"images": PIXELS[0, 0]}, "shape"),
        ({"images": PIXELS[:0]}, "empty"),
        ({"labels": LABELS.astype(float)}, "float64"),
        ({"labels": LABELS[:, None]}, "one per image"),
        ({"labels": LABELS[:-1]}, "counts differ"),
        ({"labels": LABELS - 1}, "labels count classes from 0"),
        ({"labels": LABELS, "classes": np.array(["one", "two"])}, "class names"),
        ({"indices": np.arange(8) - 1}, "indices"),
        ({"indices": np.arange(8) // 2}, "same index"),
        ({"indices": np.arange(8) + 2**32}, "indices"),
        ({"classes": np.arange(3)}, "text"),
        ({"labels": LABELS.astype(object)}, "never unpickled"),
        ({"images": np.array([Trap()] * 8)}, "never unpickled"),
    ],
)
def test_npz_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = save_images(tmp_path / "bad.npz", **changes)
    with pytest.raises(DataError, match=words) as refusal:
        open_data(path)
    assert "bad" in str(refusal.value)
    assert not Trap.sprung


def test_the_trap_works() -> None:
    """Otherwise the test above proves nothing."""
    pickle.loads(pickle.dumps(Trap()))  # noqa: S301
    assert Trap.sprung
    Trap.sprung = False


def npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def pack_images(folder: Path, images: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An .npz with these bytes as its images, and eight labels."""
    path = folder / "strange.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("images.npy", images)
        archive.writestr("labels.npy", npy_header((8,), "<i8") + bytes(64))
    return path


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((10**6, 1000, 1000, 3), "|u1", "at most"),
        ((2**62, 2**62, 2**62, 4), "|u1", "at most"),
        ((8, 4, 4, 3), "|u1", "where its header says 384"),  # too little data
        ((-8, -4, 4, 3), "|u1", "impossible"),
        ((8, 4, 4, 3), "|V1000000000", "shape"),
    ],
)
def test_the_header_is_checked_before_unpacking(tmp_path: Path, shape: tuple[int, ...], dtype: str, words: str) -> None:
    path = pack_images(tmp_path, npy_header(shape, dtype) + bytes(100))
    with pytest.raises(DataError, match=words):
        open_data(path)


@pytest.mark.parametrize(
    "header", ["{'descr': '|u1', 'shape': (", "{'descr': ('|u1',), 'fortran_order': False, 'shape': (8,)}", "{[]: 1}"]
)
def test_headers_that_numpy_stumbles_over(tmp_path: Path, header: str) -> None:
    text = header.ljust(117).encode() + b"\n"
    path = pack_images(tmp_path, b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(DataError, match="a damaged header"):
        open_data(path)


def test_a_damaged_lzma_member(tmp_path: Path) -> None:
    path = pack_images(tmp_path, npy_header((8, 4, 4, 3), "|u1") + bytes(384), zipfile.ZIP_LZMA)
    data = bytearray(path.read_bytes())
    data[60:70] = b"\xff" * 10
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"not a readable \.npz file"):
        open_data(path)


def test_more_data_than_the_header_says(tmp_path: Path) -> None:
    path = pack_images(tmp_path, npy_header((8, 4, 4, 3), "|u1") + bytes(100_000_000))
    with pytest.raises(DataError, match="385 bytes or more where its header says 384"):
        open_data(path)


def test_every_truncation_and_damage_is_an_error_or_harmless(tmp_path: Path) -> None:
    good = save_images(tmp_path / "good.npz").read_bytes()
    expected, path = open_data(tmp_path / "good.npz").sha256, tmp_path / "bad.npz"
    rng = np.random.default_rng(0)
    for i in range(300):
        data = bytearray(good[: rng.integers(len(good))] if i % 3 == 0 else good)
        for place in rng.integers(0, max(len(data), 1), i % 3):
            data[place] ^= 1 << rng.integers(8)
        path.write_bytes(data)
        with contextlib.suppress(DataError):
            assert open_data(path).sha256 == expected


# --- folders ---------------------------------------------------------------------------------------------------------


def save_folder(root: Path, mode: str = "RGB", suffix: str = "png") -> Path:
    for i, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        folder = root / ("cat", "dog", "eel")[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).convert(mode).save(folder / f"{i}.{suffix}")
    return root


def test_folder(tmp_path: Path) -> None:
    data = open_data(save_folder(tmp_path / "pets"))
    order = np.argsort(LABELS, kind="stable")
    assert data.name == "pets"
    assert data.classes == ("cat", "dog", "eel")
    assert (data.images == PIXELS[order]).all()
    assert (data.labels == LABELS[order]).all()
    assert data.indices.tolist() == list(range(8))


@pytest.mark.parametrize("mode", ["P", "RGBA", "CMYK"])
def test_folder_of_other_pixels_becomes_rgb(tmp_path: Path, mode: str) -> None:
    assert open_data(save_folder(tmp_path, mode, "tif")).image_shape == (4, 4, 3)


@pytest.mark.parametrize("mode", ["1", "L", "LA"])
def test_folder_stays_grey_if_all_of_it_is(tmp_path: Path, mode: str) -> None:
    data = open_data(save_folder(tmp_path, mode))
    assert data.image_shape == (4, 4, 1)
    first = np.asarray(Image.fromarray(PIXELS[0]).convert(mode).convert("L"))
    assert (data.images[0, ..., 0] == first).all()
    Image.new("RGB", (4, 4)).save(tmp_path / "eel" / "z.png")
    mixed = open_data(tmp_path)
    assert mixed.image_shape == (4, 4, 3)
    assert (mixed.images[0] == first[..., None]).all()


def test_folder_with_splits(tmp_path: Path) -> None:
    save_folder(tmp_path / "train")
    with pytest.raises(DataError, match="no split 'test'; there are train"):
        open_data(tmp_path)
    (save_folder(tmp_path / "test") / "cat" / "0.png").unlink()
    assert len(open_data(tmp_path)) == 7
    assert len(open_data(tmp_path, "train")) == 8


def test_folder_with_other_classes_in_another_split(tmp_path: Path) -> None:
    """Else eel would be class 2 to train and class 1 to test."""
    save_folder(tmp_path / "train")
    shutil.rmtree(save_folder(tmp_path / "test") / "dog")
    for split in ("train", "test"):
        with pytest.raises(DataError, match="the class dog is in train but not in test"):
            open_data(tmp_path, split)
    shutil.rmtree(tmp_path / "test" / "cat")
    shutil.rmtree(tmp_path / "test" / "eel")
    assert len(open_data(tmp_path, "train")) == 8  # images without classes say nothing about labels


def test_folder_with_an_empty_class(tmp_path: Path) -> None:
    """A part of a data set keeps the numbers of its classes."""
    (save_folder(tmp_path) / "bee").mkdir()
    data = open_data(tmp_path)
    assert data.classes == ("bee", "cat", "dog", "eel")
    assert sorted(set(data.labels)) == [1, 2, 3]


def test_folder_of_npz_files(tmp_path: Path) -> None:
    save_images(tmp_path / "test.npz")
    save_images(tmp_path / "train.npz", count=20)
    assert (len(open_data(tmp_path)), len(open_data(tmp_path, "train"))) == (8, 20)
    assert open_data(tmp_path).name == tmp_path.name
    with pytest.raises(DataError, match=r"no val\.npz; there is test, train"):
        open_data(tmp_path, "val")


def test_folder_ignores_what_is_no_image(tmp_path: Path) -> None:
    save_folder(tmp_path)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "cat" / ".hidden.png").write_text("no image")
    (tmp_path / ".git").mkdir()
    assert len(open_data(tmp_path)) == 8


def test_folder_with_images_beside_its_classes(tmp_path: Path) -> None:
    """Left out, they would go unnoticed."""
    save_folder(tmp_path)
    (tmp_path / "a.png").write_bytes((next((tmp_path / "cat").iterdir())).read_bytes())
    with pytest.raises(DataError, match=r"a\.png lies beside the folders of classes"):
        open_data(tmp_path)
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.png and 1 more images lie beside"):
        open_data(tmp_path)


def test_folder_of_mixed_sizes(tmp_path: Path) -> None:
    save_folder(tmp_path)
    Image.new("RGB", (5, 4)).save(tmp_path / "dog" / "odd.png")
    with pytest.raises(DataError, match=r"dog/odd\.png has 5 x 4 pixels, but .*cat/0\.png has 4 x 4"):
        open_data(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"])
def test_folder_with_a_broken_image(tmp_path: Path, content: bytes) -> None:
    (save_folder(tmp_path) / "eel" / "2.png").write_bytes(content)
    with pytest.raises(DataError, match=r"eel/2\.png: not a readable image") as refusal:
        open_data(tmp_path)
    assert "<" not in str(refusal.value), "nothing that only Python knows"


def test_folder_with_a_truncated_image(tmp_path: Path) -> None:
    """Headers are read when it is opened, pixels when they are looked at."""
    path = save_folder(tmp_path, suffix="jpg") / "cat" / "0.jpg"
    path.write_bytes(path.read_bytes()[:-40])
    data = open_data(tmp_path)
    assert data.images[1].shape == (4, 4, 3)
    for look in (lambda: data.images[0], lambda: data.sha256):
        with pytest.raises(DataError, match=r"cat/0\.jpg: not a readable image"):
            look()


def test_folder_with_an_image_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_folder(tmp_path)
    for limit in (9, 15):  # Pillow only warns from the limit to twice the limit
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(DataError, match="too large; at most 16,777,216 pixels are decoded per image"):
            open_data(tmp_path)


def test_folder_with_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.data.lazy.MOST_BYTES", 100)
    data = open_data(save_folder(tmp_path))
    assert data.images[:2].shape == (2, 4, 4, 3)
    with pytest.raises(DataError, match="8 images need 384 bytes; at most 100 fit at once"):
        np.asarray(data.images)


def test_folder_of_sixteen_bits(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(save_folder(tmp_path) / "cat" / "deep.png")
    with pytest.raises(DataError, match=r"deep\.png: .* not 8 bits per channel"):
        open_data(tmp_path)


@pytest.mark.parametrize(
    ("spec", "split", "words"),
    [
        ("nowhere", "test", "unknown data set 'nowhere'; choose from cifar10-500, cifar10, caltech101"),
        ("cifra10", "test", r"unknown data set 'cifra10'; did you mean cifar10\? Choose from cifar10-500"),
        ("CIFAR10", "test", "did you mean cifar10"),
        ("", "test", "an empty name"),
        ("cifar10\0", "test", "unknown data set"),
        ("x" * 5000, "test", "unknown data set|File name too long"),
        ("cifar10", "test", r"cifar10 has not been fetched: `intrs data cifar10` does it \(170 MB\)"),
        ("cifar10-500", "train", "no split 'train'"),
        ("../zoo/cifar10-500", "test", "no such file"),
        (".", "test", "no images in class folders"),
        (".", "train", "no split 'train'"),
    ],
)
def test_refused_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, split: str, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTRS_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match=words):
        open_data(spec, split)


def test_refused_files(tmp_path: Path) -> None:
    for name, words in (
        ("a.txt", "data are an image file, a folder"),
        ("a.npz", "not a readable .npz"),
        ("a.tgz", "archive"),
    ):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(DataError, match=words):
            open_data(tmp_path / name)
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(DataError):
            open_data(tmp_path / name)


def test_images_check_themselves() -> None:
    with pytest.raises(DataError, match="mine: images must be uint8"):
        Images("mine", PIXELS.astype(np.int32), LABELS, np.arange(8))
    with pytest.raises(DataError, match=r"mine: images must be uint8 .* and not empty"):
        Images("mine", PIXELS[:0], LABELS[:0], np.arange(0))


def test_the_zoo_keeps_to_its_folder() -> None:
    with pytest.raises(IntrsError, match=r"no model '\.\./x' ships"):
        zoo.model_path("../x")
    assert zoo.data_path() == zoo.data_path(zoo.DEFAULT_DATA)
