"""An .npz file of images, read as what it is: bytes from a stranger.

Every array's header is checked before its data is unpacked, so that neither a pickled object nor a few kilobytes that
unpack to terabytes get further than an error message.
"""

from __future__ import annotations

import math
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

FORM = "an .npz holds `images` (n, height, width, channels) as uint8 and `labels` (n,) as integers"
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, RuntimeError, NotImplementedError)
MOST_CLASSES = 1_000_000
LONGEST_NAME = 1000

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]  # shape, Fortran order, type


def read_npz(path: Path, name: str) -> Images:
    """Images from arrays `images`, `labels`, and if there are any `indices` and `classes`."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path, name)
    except MemoryError:
        raise IntrsError(f"{path}: too large for this machine's memory") from None
    except UNREADABLE as error:
        raise IntrsError(f"{path}: not a readable .npz file ({error}); {FORM}") from None


def _read(archive: zipfile.ZipFile, path: Path, name: str) -> Images:
    members = set(archive.namelist())
    if missing := [array for array in ("images", "labels") if f"{array}.npy" not in members]:
        raise IntrsError(f"{path}: no array `{missing[0]}`; {FORM}")
    images = _array(archive, path, "images", _image_fault)
    images = images[..., None] if images.ndim == 3 else images  # grey images without an axis for channels
    labels = _array(archive, path, "labels", _integer_fault).astype(np.int64)
    indices = np.arange(len(labels), dtype=np.int64)
    if "indices.npy" in members:
        indices = _array(archive, path, "indices", _integer_fault).astype(np.int64)
    classes = _array(archive, path, "classes", _name_fault) if "classes.npy" in members else ()
    return Images(name, np.ascontiguousarray(images), labels, indices, tuple(str(c) for c in classes))


def _array(archive: zipfile.ZipFile, path: Path, array: str, fault: Callable[[Header], str | None]) -> NDArray[Any]:
    with archive.open(f"{array}.npy") as stream:
        header = _header(stream)
        if reason := _common_fault(header) or fault(header):
            raise IntrsError(f"{path}: array `{array}` {reason}; {FORM}")
        shape, fortran, dtype = header
        size = math.prod(shape) * dtype.itemsize
        data = stream.read(size + 1)
    if len(data) != size:
        raise IntrsError(f"{path}: array `{array}` has {len(data)} bytes where its header says {size}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _header(stream: IO[bytes]) -> Header:
    """The array's header; NumPy bounds its length and parses it without running it."""
    version: tuple[int, int] = npy.read_magic(stream)  # type: ignore[no-untyped-call]
    readers: dict[tuple[int, int], Callable[[IO[bytes]], Header]] = {
        (1, 0): npy.read_array_header_1_0,
        (2, 0): npy.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"NumPy format {version[0]}.{version[1]}")
    return readers[version](stream)


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
