"""Image files as people have them: taken as they are, made to fit when asked, or refused with the way out."""

from __future__ import annotations

import copy
import pickle
from functools import partialmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tiny_model import images, save_images

from intrs.data import Images, open_data
from intrs.data.fit import Fit
from intrs.errors import DataError, FitError, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PIXELS, LABELS = images()
WIDE = np.random.default_rng(3).integers(0, 256, (6, 12, 3), np.uint8)  # 12 wide, 6 high


def save(path: Path, pixels: NDArray[Any] = WIDE, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


# --- what has no labels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cat.png", "cat.PNG", "cat.bmp", "cat.webp", "cat.tif", "cat.ppm"])
def test_one_file(tmp_path: Path, name: str) -> None:
    data = open_data(save(tmp_path / name, PIXELS[0], **({"lossless": True} if name.endswith("webp") else {})))
    assert not data.has_labels
    assert (data.images == PIXELS[:1]).all()
    assert (data.indices.tolist(), data.files, data.classes, data.name) == ([0], (name,), (), name)
    with pytest.raises(DataError, match="has no labels, which this needs"):
        data.labels  # noqa: B018
    assert (data.label(0), data.file(0)) == (None, name)


def test_a_jpeg_is_decoded(tmp_path: Path) -> None:
    smooth = np.full((16, 16, 3), 90, np.uint8)
    assert np.abs(open_data(save(tmp_path / "dog.jpg", smooth)).images[0].astype(int) - 90).max() < 5


def test_several_files_in_the_order_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [str(save(tmp_path / f"{i}.png", PIXELS[i])) for i in (2, 0, 1)]
    for given in (paths, tuple(paths), ["2.png", tmp_path / "0.png", "1.png"]):
        data = open_data(given)
        assert (np.asarray(data.images) == PIXELS[[2, 0, 1]]).all()
        assert data.files == ("2.png", "0.png", "1.png")
    assert repr(data) == "Images '3 image files': 3 images of 4 x 4 x 3, without labels"
    assert data.subset(np.array([1])).files == ("0.png",)
    for again in (pickle.loads(pickle.dumps(data)), copy.deepcopy(data)):  # noqa: S301
        assert (again.sha256, again.files) == (data.sha256, data.files)


def test_files_of_one_name_keep_their_folders(tmp_path: Path) -> None:
    paths = [str(save(tmp_path / kind / "0.png", PIXELS[0])) for kind in "ab"]
    assert open_data(paths).files == tuple(paths)


def test_a_folder_without_classes(tmp_path: Path) -> None:
    for i in (1, 0):
        save(tmp_path / "mine" / f"{i}.png", PIXELS[i])
    (tmp_path / "mine" / "notes.txt").write_text("no image")
    data = open_data(tmp_path / "mine")
    assert (np.asarray(data.images) == PIXELS[:2]).all()
    assert (data.name, data.files, data.has_labels) == ("mine", ("0.png", "1.png"), False)
    save(tmp_path / "split" / "test" / "0.png", PIXELS[0])
    assert open_data(tmp_path / "split").files == ("0.png",)
    with pytest.raises(DataError, match="no split 'train'"):
        open_data(tmp_path / "mine", "train")


def test_arrays_and_npz_without_labels(tmp_path: Path) -> None:
    npz = open_data(save_images(tmp_path / "a.npz", labels=None, indices=None))
    many, one = open_data(PIXELS), open_data(PIXELS[0])
    assert (len(npz), len(many), len(one)) == (8, 8, 1)
    assert not any(data.has_labels for data in (npz, many, one))
    assert npz.file(0) == ""
    assert npz.sha256 == many.sha256 != open_data((PIXELS, LABELS)).sha256
    assert "without labels" in repr(many)


def test_files_and_images_are_as_many() -> None:
    with pytest.raises(DataError, match="8 images, 8 indices, 1 files: counts differ"):
        Images("mine", PIXELS, None, np.arange(8), files=("a.png",))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda here: [here / "a.png", here / "none.png"], r"none\.png: no such file"),
        (lambda here: [here / "a.png", here], "a folder; where several files are named, each is an image"),
        (lambda here: [here / "a.png", here / "a.txt"], r"a\.txt: no image file"),
        (lambda here: [here / "a.png", here / "a.png"], "named twice"),
        (lambda here: [here / "a.png"] * 1001, "1,001 files are too many to name one by one"),
        (lambda here: here / "none.jpg", r"none\.jpg: no such file"),
        (lambda here: [here / "a.png", here / "b.png"], r"b\.png has 12 x 6 pixels, but .*a\.png has 4 x 4"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, make: Any, words: str) -> None:
    save(tmp_path / "a.png", PIXELS[0])
    save(tmp_path / "b.png")
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(DataError, match=words):
        open_data(make(tmp_path))


# --- what is not as it looks -----------------------------------------------------------------------------------------


def turned(path: Path, orientation: int = 6) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return save(path, exif=exif)


def see_through(path: Path, alpha: int = 0) -> Path:
    pixels = np.dstack([WIDE, np.full(WIDE.shape[:2], 255, np.uint8)])
    pixels[0, 0, 3] = alpha
    return save(path, pixels)


def deep(path: Path) -> Path:
    return save(path, (np.arange(72).reshape(6, 12) * 800).astype(np.uint16))


def deep_colours(path: Path) -> Path:
    """Pillow cannot write it; the smallest PNG of 16-bit RGB, one white pixel."""
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" + b"\xff\x80" * 3)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
    return path


def animated(path: Path) -> Path:
    frames = [Image.fromarray(np.full((6, 12), shade, np.uint8)) for shade in (0, 128, 255)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    return path


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (turned, "a.jpg", "EXIF tag says that it is shown turned"),
        (turned, "a.png", "EXIF tag says that it is shown turned"),
        (deep, "a.png", "16 bits per value, and networks take 8"),
        (deep_colours, "a.png", "16 bits per value, and networks take 8"),
        (see_through, "a.png", "parts of it are transparent"),
    ],
)
def test_what_is_not_as_it_looks_is_refused(tmp_path: Path, make: Any, name: str, words: str) -> None:
    path = make(tmp_path / name)
    with pytest.raises(FitError, match=words):
        np.asarray(open_data(path).images)
    data = open_data(path, fit="resize:6x12x3")
    assert data.images[0].shape == (6, 12, 3)


@pytest.mark.parametrize("suffix", ["gif", "tif", "png", "webp"])
def test_an_animation_is_refused_with_or_without_fit(tmp_path: Path, suffix: str) -> None:
    path = animated(tmp_path / f"a.{suffix}")
    for fit in ("", "resize:4x4x3"):
        with pytest.raises(DataError, match=rf"a\.{suffix}: it holds several images, one after another"):
            open_data(path, fit=fit)


@pytest.mark.parametrize("suffix", ["gif", "tif"])
def test_images_of_an_animation_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """A file of 256 MB may hold millions of them: the second is looked for, and no other."""
    from PIL.GifImagePlugin import GifImageFile
    from PIL.TiffImagePlugin import TiffImageFile

    sought = set()

    def watched(image: Any, frame: int, *more: Any, really: Any) -> None:
        sought.add(frame)
        really(image, frame, *more)

    for kind in (GifImageFile, TiffImageFile):
        monkeypatch.setattr(kind, "_seek", partialmethod(watched, really=kind._seek))
    with pytest.raises(DataError, match="images, one after another"):
        open_data(animated(tmp_path / f"a.{suffix}"))
    assert 0 in sought
    assert sought <= {0, 1}
    save(tmp_path / f"one.{suffix}")
    assert open_data(tmp_path / f"one.{suffix}").images[0].shape == WIDE.shape


def test_transparency_that_is_not_used_is_nothing(tmp_path: Path) -> None:
    assert (open_data(see_through(tmp_path / "a.png", alpha=255)).images[0] == WIDE).all()


def test_class_folders_are_taken_as_before(tmp_path: Path) -> None:
    """What changes pixels of labelled folders would change the hashes that results files keep."""
    turned(tmp_path / "cat" / "a.png")
    see_through(tmp_path / "cat" / "b.png")
    data = open_data(tmp_path)
    assert (np.asarray(data.images) == WIDE).all()
    assert data.files == ()


# --- made to fit -----------------------------------------------------------------------------------------------------


def test_resized(tmp_path: Path) -> None:
    save(tmp_path / "flat.png", np.full((30, 50, 3), (10, 20, 30), np.uint8))
    save(tmp_path / "right.png", PIXELS[0])
    data = open_data([tmp_path / "flat.png", tmp_path / "right.png"], fit="resize:4x4x3")
    assert (data.images[0] == (10, 20, 30)).all()
    assert (data.images[1] == PIXELS[0]).all()
    assert data.remarks == (f"resized to 4 x 4: {tmp_path}/flat.png (50 x 30)",)


def test_cropped_to_the_centre(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    data = open_data(tmp_path / "a.png", fit="crop:6x6x3")
    assert (data.images[0] == WIDE[:, 3:9]).all()
    assert "scaled, and cut to the centre, to 6 x 6" in data.remarks[0]
    tall = save(tmp_path / "b.png", WIDE.transpose(1, 0, 2))
    assert (open_data(tall, fit="crop:6x6x3").images[0] == WIDE.transpose(1, 0, 2)[3:9]).all()


def test_resizing_keeps_all_of_the_image_and_cropping_its_proportions(tmp_path: Path) -> None:
    halves = np.zeros((8, 16, 3), np.uint8)
    halves[:, :4] = 255  # a quarter of the width
    path = save(tmp_path / "a.png", halves)
    resized, cropped = (open_data(path, fit=f"{how}:8x8x3").images[0][4, :, 0] for how in ("resize", "crop"))
    assert resized[0] == 255
    assert cropped[0] == 0


def test_what_is_done_is_said(tmp_path: Path) -> None:
    names = {"t.jpg": turned, "s.png": see_through, "d.png": deep}
    paths = [make(tmp_path / name) for name, make in names.items()]
    said = "\n".join(open_data(paths, fit="resize:12x6x3").remarks)
    assert "turned as the EXIF tag says: " in said
    assert "transparent parts shown on white: " in said
    assert "cut from 16 to 8 bits per value: " in said
    assert "grey repeated in 3 channels: " in said
    resized = next(line for line in said.splitlines() if line.startswith("resized"))
    assert "t.jpg" not in resized, "turned, it is 6 x 12 already"
    many = [save(tmp_path / f"{i}.png") for i in range(4)]
    assert open_data(many, fit="resize:6x6x1").remarks == (
        "resized to 6 x 6: all images",
        "colours turned into grey: all images",
    )


def test_a_photograph_is_turned_upright(tmp_path: Path) -> None:
    exact = turned(tmp_path / "a.png")
    assert (open_data(exact, fit="resize:12x6x3").images[0] == np.rot90(WIDE, -1)).all()


def test_transparent_pixels_become_white(tmp_path: Path) -> None:
    image = open_data(see_through(tmp_path / "a.png"), fit="resize:6x12x3").images[0]
    assert (image[0, 0] == 255).all()
    assert (image[1:] == WIDE[1:]).all()


def test_sixteen_bits_are_cut_and_not_wrapped(tmp_path: Path) -> None:
    image = open_data(deep(tmp_path / "a.png"), fit="resize:6x12x1").images[0]
    assert (image[..., 0] == (np.arange(72).reshape(6, 12) * 800) >> 8).all()
    colours = open_data(deep_colours(tmp_path / "b.png"), fit="resize:1x1x3").images[0]
    assert colours.tolist() == [[[255, 255, 255]]]


def test_class_folders_can_be_made_to_fit(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "a.png")
    save(tmp_path / "dog" / "b.png", PIXELS[0])
    with pytest.raises(FitError, match="let them be fitted"):
        open_data(tmp_path)
    data = open_data(tmp_path, fit="resize:4x4x3")
    assert (data.labels.tolist(), data.image_shape) == ([0, 1], (4, 4, 3))
    assert data.remarks == ("resized to 4 x 4: cat/a.png (12 x 6)",)


@pytest.mark.parametrize("text", ["resize:32x32x3", "crop:1x224x1"])
def test_a_fit_is_its_text(text: str) -> None:
    assert str(Fit.parse(text)) == text


def test_the_shape_is_the_network_s() -> None:
    assert str(Fit.parse("crop", (32, 64, 3))) == "crop:32x64x3"
    assert Fit.parse("") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rezise", "choose from resize, crop, got 'rezise'"),
        ("resize:axb", "choose from"),
        ("resize:0x4x3", "choose from"),
        ("resize", "to which shape"),
        ("resize:99999x99999x3", "cannot be made into"),
    ],
)
def test_fits_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=f"fit: .*{words}|fit: {words}"):
        Fit.parse(text)


def test_only_image_files_can_be_made_to_fit(tmp_path: Path) -> None:
    for spec in (PIXELS, save_images(tmp_path / "a.npz"), open_data(PIXELS), "cifar10-500"):
        with pytest.raises(SettingsError, match="fit is for image files"):
            open_data(spec, fit="resize:4x4x3")


# --- metadata.csv ----------------------------------------------------------------------------------------------------


def image_folder(root: Path, table: str) -> Path:
    for i in range(3):
        save(root / f"{i}.png", PIXELS[i])
    (root / "metadata.csv").write_text(table)
    return root


def test_labels_of_an_image_folder(tmp_path: Path) -> None:
    names = open_data(image_folder(tmp_path / "a", "file_name,text,label\n2.png,x,dog\n0.png,y,cat\n1.png,,dog\n"))
    assert (names.labels.tolist(), names.classes) == ([0, 1, 1], ("cat", "dog"))
    assert names.file(0) is None
    numbers = open_data(
        image_folder(tmp_path / "b" / "test", "\ufefffile_name,label\n0.png,7\n1.png,0\n2.png,7\n").parent
    )
    assert (numbers.labels.tolist(), numbers.classes) == ([7, 0, 7], ())
    assert not open_data(image_folder(tmp_path / "c", "file_name,text\n0.png,a cat\n")).has_labels


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", "no column file_name"),
        ("name,label\n", "no column file_name"),
        ("file_name,label\n0.png,1\n1.png,1\n", "no line for the image 2.png"),
        ("file_name,label\n0.png,1\n1.png,1\n2.png,1\n../3.png,1\n", "it names ../3.png, which is no image"),
        ("file_name,label\n0.png,1\n0.png,1\n", "line 3 has no file_name or label, or one that was there before"),
        ("file_name,label\n0.png\n", "line 2 has no"),
        ("file_name,label\n0.png,a\n1.png,\n2.png,b\n", "every image needs a label"),
        ('file_name,label\n"0.png,1\n', "not a readable table"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, table: str, words: str) -> None:
    with pytest.raises(DataError, match=rf"metadata\.csv: .*{words}"):
        open_data(image_folder(tmp_path, table))
