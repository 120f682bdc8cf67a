"""An .npz file of images, read as what it is: bytes that nobody vouches for.

Every array's header is checked before its data is unpacked, so that neither a pickled object nor a few kilobytes that
unpack to gigabytes get further than an error message.
"""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from intrs.data.archives import METHODS
from intrs.data.images import Images
from intrs.data.limits import MOST_BYTES, MOST_CLASSES, MOST_IMAGES, check_unpacked, read_array
from intrs.errors import DataError
from intrs.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.progress import OnProgress

FORM = "an .npz holds `images` (n, height, width, channels) as uint8 and, if known, `labels` (n,) as integers"
UNREADABLE = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, RuntimeError, NotImplementedError, struct.error,
    lzma.LZMAError,
)  # fmt: skip
LONGEST_NAME = 1000  # characters of a class's name
MOST_NAME_BYTES = 2**26  # of all of them
IN_MEMORY = 2**30  # bytes; an array of more that is stored as it is stays in the file

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]  # shape, Fortran order, type


def read_npz(path: Path, name: str, *, mapped: bool = False) -> Images:
    """Images from arrays `images`, and if there are any `labels`, `indices` and `classes`.

    Mapped, pixels stay in the file until they are looked at, if it holds them as they are. That is for files that
    nobody writes to while they are in use: our own, and those that are too large to be read at once.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path, name, mapped=mapped)
    except MemoryError:
        raise DataError(f"{path}: too large for this machine's memory") from None
    except UNREADABLE as error:
        raise DataError(f"{path}: not a readable .npz file ({error}); {FORM}") from None


def _read(archive: zipfile.ZipFile, path: Path, name: str, *, mapped: bool) -> Images:
    members = set(archive.namelist())
    if "images.npy" not in members:
        raise DataError(f"{path}: no array `images`; {FORM}")
    images = _array(archive, path, "images", _image_fault, mapped=mapped)
    images = images[..., None] if images.ndim == 3 else images  # grey images without an axis for channels

    def fault(header: Header) -> str | None:
        return _integer_fault(header, len(images))

    labels = _array(archive, path, "labels", fault).astype(np.int64) if "labels.npy" in members else None
    indices = np.arange(len(images), dtype=np.int64)
    if "indices.npy" in members:
        indices = _array(archive, path, "indices", fault).astype(np.int64)
    classes = _array(archive, path, "classes", _name_fault) if "classes.npy" in members else ()
    return Images(name, np.ascontiguousarray(images), labels, indices, tuple(str(c) for c in classes))


def _array(
    archive: zipfile.ZipFile, path: Path, array: str, fault: Callable[[Header], str | None], *, mapped: bool = False
) -> NDArray[Any]:
    info = archive.getinfo(f"{array}.npy")
    if info.compress_type not in METHODS:
        raise ValueError(f"`{array}` is not packed by deflate, as NumPy does it")
    with archive.open(info) as stream:
        header = _header(stream)
        if reason := _common_fault(header) or fault(header):
            raise DataError(f"{path}: array `{array}` {reason}; {FORM}")
        shape, fortran, dtype = header
        size = math.prod(shape) * dtype.itemsize
        stored = info.compress_type == zipfile.ZIP_STORED and info.file_size == stream.tell() + size and not fortran
        if stored and (mapped or size > IN_MEMORY):
            return np.asarray(np.memmap(path, dtype, "r", _content_place(path, info) + stream.tell(), shape))
        try:
            data = _unpacked(stream, size, min(info.compress_size, path.stat().st_size))
        except ValueError as error:
            raise DataError(f"{path}: array `{array}` has {error}") from None
    data.flags.writeable = False
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _unpacked(stream: IO[bytes], size: int, packed: int) -> NDArray[np.uint8]:
    if size > MOST_BYTES:
        raise ValueError(f"{size:,} bytes; at most {MOST_BYTES:,} are read at once")
    check_unpacked(size, packed)
    return read_array(stream, size)


def _content_place(path: Path, info: zipfile.ZipInfo) -> int:
    """Where in the file a member's content begins: after 30 bytes, its name, and an extra field."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + int(name) + int(extra)


def _header(stream: IO[bytes]) -> Header:
    """The array's header; NumPy bounds its length and parses it without running it."""
    version: tuple[int, int] = npy.read_magic(stream)  # type: ignore[no-untyped-call]
    readers: dict[tuple[int, int], Callable[[IO[bytes]], Header]] = {
        (1, 0): npy.read_array_header_1_0,
        (2, 0): npy.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"NumPy format {version[0]}.{version[1]}")
    try:
        return readers[version](stream)
    except Exception as error:  # of tokenize and ast too, which NumPy lets through
        raise ValueError(f"a damaged header: {error}") from None


def _common_fault(header: Header) -> str | None:
    shape, _, dtype = header
    if dtype.hasobject:
        return "holds Python objects, which are never unpickled"
    return f"has the impossible shape {shape}" if any(size < 0 for size in shape) else None


def _image_fault(header: Header) -> str | None:
    shape, _, dtype = header
    if dtype != np.uint8 or len(shape) not in (3, 4):
        return f"is {dtype} of shape {shape}"
    if 0 in shape:
        return f"of shape {shape} is empty"
    return f"has {shape[0]:,} images; at most {MOST_IMAGES:,} are accepted" if shape[0] > MOST_IMAGES else None


def _integer_fault(header: Header, count: int) -> str | None:
    shape, _, dtype = header
    if dtype.kind not in "iu" or len(shape) != 1:
        return f"is {dtype} of shape {shape}; expected are integers, one per image"
    return f"has {shape[0]} entries for {count} images: counts differ" if shape[0] != count else None


def _name_fault(header: Header) -> str | None:
    shape, _, dtype = header
    if dtype.kind != "U" or len(shape) != 1 or shape[0] > MOST_CLASSES or dtype.itemsize > 4 * LONGEST_NAME:
        return f"is {dtype} of shape {shape}; expected are the classes' names as text, one per class"
    return f"takes more than {MOST_NAME_BYTES:,} bytes" if shape[0] * dtype.itemsize > MOST_NAME_BYTES else None


# --- Writing ---------------------------------------------------------------------------------------------------------


def write_npz(path: Path, images: Images, progress: OnProgress | None = None, note: str = "") -> None:
    """Write images in one move, a few at a time, and not compressed, so that they can be mapped."""
    with replacing(path) as part, zipfile.ZipFile(part, "w") as archive:
        for name, array in (
            ("labels", images.labels),
            ("indices", images.indices),
            ("classes", np.array(images.classes, np.str_)),
        ):
            with archive.open(_member(name), "w") as stream:
                npy.write_array(stream, array, allow_pickle=False)  # type: ignore[no-untyped-call]
        with archive.open(_member("images"), "w", force_zip64=True) as stream:
            _write_header(stream, images.images.shape)
            for block in images.blocks(progress, note):
                stream.write(block.data)


def _member(array: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{array}.npy")  # of 1980: the same images make the same file


def _write_header(stream: IO[bytes], shape: tuple[int, ...]) -> None:
    npy.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})  # type: ignore[no-untyped-call]
