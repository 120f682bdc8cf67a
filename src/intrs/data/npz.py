"""An .npz file of images, read as what it is: bytes from a stranger.

Every array's header is checked before its data is unpacked, so that neither a pickled object nor a few kilobytes that
unpack to terabytes get further than an error message.
"""

from __future__ import annotations

import lzma
import math
import os
import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from intrs.data.images import MOST_BYTES, Images
from intrs.errors import IntrsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.data.images import Reading

FORM = "an .npz holds `images` (n, height, width, channels) as uint8 and `labels` (n,) as integers"
UNREADABLE = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, RuntimeError, NotImplementedError, struct.error,
    lzma.LZMAError,
)  # fmt: skip
MOST_CLASSES = 1_000_000
LONGEST_NAME = 1000

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]  # shape, Fortran order, type


def read_npz(path: Path, name: str, *, mapped: bool = False) -> Images:
    """Images from arrays `images`, `labels`, and if there are any `indices` and `classes`.

    Mapped, pixels stay in the file until they are looked at, if it holds them as they are. That is for files that
    nobody writes to while they are in use: our own.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path, name, mapped=mapped)
    except MemoryError:
        raise IntrsError(f"{path}: too large for this machine's memory") from None
    except UNREADABLE as error:
        raise IntrsError(f"{path}: not a readable .npz file ({error}); {FORM}") from None


def _read(archive: zipfile.ZipFile, path: Path, name: str, *, mapped: bool) -> Images:
    members = set(archive.namelist())
    if missing := [array for array in ("images", "labels") if f"{array}.npy" not in members]:
        raise IntrsError(f"{path}: no array `{missing[0]}`; {FORM}")
    images = _array(archive, path, "images", _image_fault, mapped=mapped)
    images = images[..., None] if images.ndim == 3 else images  # grey images without an axis for channels
    labels = _array(archive, path, "labels", _integer_fault).astype(np.int64)
    indices = np.arange(len(labels), dtype=np.int64)
    if "indices.npy" in members:
        indices = _array(archive, path, "indices", _integer_fault).astype(np.int64)
    classes = _array(archive, path, "classes", _name_fault) if "classes.npy" in members else ()
    return Images(name, np.ascontiguousarray(images), labels, indices, tuple(str(c) for c in classes))


def _array(
    archive: zipfile.ZipFile, path: Path, array: str, fault: Callable[[Header], str | None], *, mapped: bool = False
) -> NDArray[Any]:
    info = archive.getinfo(f"{array}.npy")
    with archive.open(info) as stream:
        header = _header(stream)
        if reason := _common_fault(header) or fault(header):
            raise IntrsError(f"{path}: array `{array}` {reason}; {FORM}")
        shape, fortran, dtype = header
        size = math.prod(shape) * dtype.itemsize
        if mapped and info.compress_type == zipfile.ZIP_STORED and info.file_size == stream.tell() + size:
            place = _content_place(path, info) + stream.tell()
            return np.asarray(np.memmap(path, dtype, "r", place, shape, "F" if fortran else "C"))
        data = stream.read(size + 1)
    if len(data) != size:
        raise IntrsError(f"{path}: array `{array}` has {len(data)} bytes where its header says {size}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


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
    if math.prod(shape) > MOST_BYTES:
        return f"of shape {shape} needs {math.prod(shape):,} bytes; at most {MOST_BYTES:,} are taken at once"
    return None


def _integer_fault(header: Header) -> str | None:
    shape, _, dtype = header
    if dtype.kind not in "iu" or len(shape) != 1 or shape[0] > MOST_BYTES // 8:
        return f"is {dtype} of shape {shape}; wanted are integers, one an image"
    return None


def _name_fault(header: Header) -> str | None:
    shape, _, dtype = header
    if dtype.kind != "U" or len(shape) != 1 or shape[0] > MOST_CLASSES or dtype.itemsize > 4 * LONGEST_NAME:
        return f"is {dtype} of shape {shape}; wanted are the classes' names as text, one a class"
    return None


# --- Writing ---------------------------------------------------------------------------------------------------------


def write_npz(path: Path, reading: Reading, progress: Callable[[int], None]) -> None:
    """Write images as they are read, and not compressed, so that they can be mapped."""
    with path.open("wb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in (
                ("labels", reading.labels),
                ("indices", reading.indices),
                ("classes", np.array(reading.classes, np.str_)),
            ):
                with archive.open(_member(name), "w") as stream:
                    npy.write_array(stream, array, allow_pickle=False)  # type: ignore[no-untyped-call]
            with archive.open(_member("images"), "w", force_zip64=True) as stream:
                _write_header(stream, reading.shape)
                done = 0
                for piece in reading.pieces:
                    stream.write(np.ascontiguousarray(piece).data)
                    done += len(piece)
                    progress(done)
        file.flush()
        os.fsync(file.fileno())


def _member(array: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{array}.npy")  # of 1980: the same images make the same file


def _write_header(stream: IO[bytes], shape: tuple[int, ...]) -> None:
    npy.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})  # type: ignore[no-untyped-call]
