"""Files that are made to exhaust a machine: what is refused, and that little memory is needed to refuse it."""

from __future__ import annotations

import gzip
import io
import os
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from test_data import npy_header, pack_images
from test_datasets import DIGIT_LABELS, idx_file, mnist, pack_tar, pack_zip, save
from tiny_model import images, save_images

from intrs.data import limits, npz, open_data
from intrs.data.limits import ALWAYS_UNPACKED, MOST_RATIO, Scan, check_unpacked, most_unpacked, read_array
from intrs.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 3 * 10**8  # bytes that a bomb would take, unpacked
ROOM = 10**8  # bytes that may be needed to refuse it

LIMITED = """
import resource, sys
from intrs.errors import DataError
from intrs.data import caltech101, cifar10, folder, idx, known, npz, open_data
import PIL.Image, PIL.PngImagePlugin
PIL.Image.preinit()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]),) * 2)
try:
    data = open_data(sys.argv[1])
    data.images[0]
except DataError as error:
    sys.exit(f"refused: {error}")
"""


def refusal(place: Path) -> str:
    """What is said of a place, by a process that can hardly allocate more than ROOM bytes."""
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LIMITED, str(place), str(ROOM)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert "Traceback" not in done.stderr
    return done.stderr


def zeros(stream: io.BufferedIOBase | gzip.GzipFile, size: int) -> None:
    for _ in range(size // 10**6):
        stream.write(bytes(10**6))


def npz_bomb(folder: Path) -> Path:
    path = folder / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("labels.npy", npy_header((300,), "<i8") + bytes(8 * 300))
        with archive.open("images.npy", "w", force_zip64=True) as stream:
            stream.write(npy_header((300, 1000, 1000, 1), "|u1"))
            zeros(stream, SIZE)  # type: ignore[arg-type]
    return path


def idx_bomb(folder: Path) -> Path:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as packed:
        packed.write(struct.pack(">HBB3I", 0, 8, 3, 300, 1000, 1000))
        zeros(packed, SIZE)
    labels = idx_file(np.resize(DIGIT_LABELS, 300))
    return save(folder, {"t10k-images-idx3-ubyte.gz": stream.getvalue(), "t10k-labels-idx1-ubyte": labels})


def png_bomb(folder: Path) -> Path:
    """9400 x 9400 pixels are just below what Pillow calls a bomb, and 350 MB in its memory."""
    side, packer = 9400, zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes(1 + 3 * side)) for _ in range(side)) + packer.flush()
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    data = b"".join(struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks)
    return save(folder, {"cat/a.png": b"\x89PNG\r\n\x1a\n" + data})


def tar_bomb(folder: Path) -> Path:
    return pack_tar(folder / "bomb.tgz", {"cifar-10-batches-py/test_batch": bytes(SIZE)})


def zip_bomb(folder: Path) -> Path:
    return pack_zip(folder / "bomb.zip", {"cifar-10-batches-py/test_batch": bytes(SIZE)})


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited as on Linux")
@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (npz_bomb, "`images` has 1,3.* bytes unpack to 300,000,000"),
        (idx_bomb, "bytes unpack to 300,000,000"),
        (png_bomb, r"cat/a\.png: 9400 x 9400 pixels; at most 16,777,216 pixels are decoded per image"),
        (tar_bomb, "it unpacks to more than the"),
        (zip_bomb, "it unpacks to more than the"),
    ],
)
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, bomb: Callable[[Path], Path], words: str) -> None:
    place = bomb(tmp_path)
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < SIZE // 150
    said = refusal(place)
    assert re.match(f"refused: .*{words}", said), said


def test_an_honest_archive_of_the_same_kind_is_read_in_that_memory(tmp_path: Path) -> None:
    """Otherwise the test above proves nothing."""
    assert refusal(save_images(tmp_path / "good.npz")) == ""
    assert refusal(save(tmp_path / "good", mnist(".gz"))) == ""


def test_what_may_be_unpacked() -> None:
    assert most_unpacked(10) == ALWAYS_UNPACKED
    assert most_unpacked(10**6) == MOST_RATIO * 10**6
    check_unpacked(ALWAYS_UNPACKED, 1)
    check_unpacked(200 * 10**6, 10**6)
    with pytest.raises(ValueError, match="1,000,000 bytes unpack to 200,000,001"):
        check_unpacked(200 * 10**6 + 1, 10**6)


def test_small_files_of_one_colour_are_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", images=np.zeros((20, 1000, 1000, 1), np.uint8), labels=np.zeros(20, int))
    assert (tmp_path / "a.npz").stat().st_size * MOST_RATIO < 20 * 10**6
    assert open_data(tmp_path / "a.npz").images[3].max() == 0


def test_read_array() -> None:
    content = bytes(range(200)) * 20_000
    assert read_array(io.BytesIO(content), len(content)).tobytes() == content
    assert read_array(io.BytesIO(), 0).shape == (0,)
    for data, words in ((content[:-1], "3,999,999 bytes where"), (content + b"x", "4,000,001 bytes or more where")):
        with pytest.raises(ValueError, match=words):
            read_array(io.BytesIO(data), len(content))


def test_a_member_that_claims_to_be_packed_worse_than_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of a zip may say anything; the file cannot be larger than it is."""
    monkeypatch.setattr(limits, "ALWAYS_UNPACKED", 1000)
    path = pack_images(tmp_path, npy_header((8, 400, 400, 3), "|u1") + bytes(8 * 400 * 400 * 3))
    packed = next(info for info in zipfile.ZipFile(path).infolist() if info.filename == "images.npy").compress_size
    lies = path.read_bytes().replace(struct.pack("<I", packed), struct.pack("<I", 10**8))
    assert lies != path.read_bytes()
    path.write_bytes(lies)
    with pytest.raises(DataError, match=r"unpack to 3,840,000|Overlapped entries"):  # later Pythons see it first
        open_data(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_ways_to_pack_are_refused(tmp_path: Path, method: int) -> None:
    path = pack_images(tmp_path, npy_header((8, 4, 4, 3), "|u1") + bytes(384), method)
    with pytest.raises(DataError, match="`images` is not packed by deflate"):
        open_data(path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("test_batch", b"x")
    with pytest.raises(DataError, match="test_batch is not packed by deflate"):
        open_data(tmp_path / "a.zip")


def test_counts_are_compared_before_unpacking(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", npy_header((8, 4, 4, 3), "|u1") + bytes(384))
        archive.writestr("labels.npy", npy_header((10**9,), "<i8"))
    with pytest.raises(DataError, match="`labels` has 1000000000 entries for 8 images: counts differ"):
        open_data(tmp_path / "a.npz")


def test_too_many_images_or_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "MOST_NAME_BYTES", 100)
    with pytest.raises(DataError, match="`classes` takes more than 100 bytes"):
        open_data(save_images(tmp_path / "a.npz", classes=np.array(["name"] * 9)))
    monkeypatch.setattr(npz, "MOST_IMAGES", 7)
    with pytest.raises(DataError, match="`images` has 8 images; at most 7 are accepted"):
        open_data(save_images(tmp_path / "b.npz"))
    monkeypatch.setattr("intrs.data.idx.MOST_IMAGES", 2)
    with pytest.raises(DataError, match=r"more than .* bytes or 2 images"):
        open_data(save(tmp_path / "c", mnist()))


def test_what_is_stored_as_it_is_and_large_stays_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what fits in memory too; what is packed, or in another order, must fit."""
    monkeypatch.setattr(npz, "IN_MEMORY", 100)
    monkeypatch.setattr(npz, "MOST_BYTES", 200)
    data = open_data(save_images(tmp_path / "a.npz"))
    assert (data.images == images()[0]).all()
    assert isinstance(np.asarray(data.images).base, np.memmap)
    pixels = np.asarray(data.images)
    np.savez_compressed(tmp_path / "b.npz", images=pixels, labels=data.labels)
    np.savez(tmp_path / "c.npz", images=np.asfortranarray(pixels), labels=data.labels)
    for name in ("b.npz", "c.npz"):
        with pytest.raises(DataError, match="`images` has 384 bytes; at most 200 are read at once"):
            open_data(tmp_path / name)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "webp", "tif", "ppm"])
def test_declared_sizes_are_checked_in_every_form(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "cat").mkdir()
    Image.new("L", (4200, 4200)).save(tmp_path / "cat" / f"a.{suffix}")
    with pytest.raises(DataError, match="4200 x 4200 pixels; at most 16,777,216 pixels are decoded per image"):
        open_data(tmp_path)


def test_a_huge_image_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.data.decode.MOST_FILE_BYTES", 50)
    (tmp_path / "cat").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "cat" / "a.bmp")
    with pytest.raises(DataError, match="not a regular file of at most 50 bytes"):
        open_data(tmp_path)


def test_nested_archives_are_bounded_by_the_outer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gzip file of zeros packs to a thousandth again: the ratio is that to what is on disk."""
    monkeypatch.setattr(limits, "ALWAYS_UNPACKED", 10**6)
    blank = np.zeros((20, 1000, 1000), np.uint8)
    twice = {
        "t10k-images-idx3-ubyte.gz": gzip.compress(idx_file(blank)),
        "t10k-labels-idx1-ubyte": idx_file(np.zeros(20, np.uint8)),
    }
    place = pack_tar(tmp_path / "a.tgz", twice)
    assert place.stat().st_size * MOST_RATIO < blank.size
    with pytest.raises(DataError, match="bytes unpack to 20,000,000"):
        open_data(place)


# --- Folders ---------------------------------------------------------------------------------------------------------


def test_a_scan_is_sorted_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, {"a/3": b"", "a/1": b"", "b/2": b"", "a/.x": b""})
    scan = Scan(tmp_path)
    assert [entry.name for entry in scan.entries(tmp_path / "a")] == ["1", "3"]
    monkeypatch.setattr(limits, "MOST_ENTRIES", 3)
    scan = Scan(tmp_path)
    scan.entries(tmp_path / "a")
    with pytest.raises(DataError, match="more than 3 files"):
        scan.entries(tmp_path / "b")
