"""Constants of an ONNX file as arrays, after checking that their bytes are as many as their dimensions say."""

from __future__ import annotations

import os
from contextlib import suppress
from fractions import Fraction
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.exchange.refusal import Refusal, shortened
from intrs.exchange.regular import MAX_FILE
from intrs.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from onnx import TensorProto

    Array = NDArray[Any]

MAX_RANK = 8
LARGEST = 2.0**128  # beyond float32; doubles that are larger, or as small, would only make arithmetic slow

# TensorProto.DataType -> NumPy type and the field that holds it when raw_data does not
_TYPES: dict[int, tuple[str, str]] = {
    1: ("<f4", "float_data"),
    2: ("u1", "int32_data"),
    3: ("i1", "int32_data"),
    4: ("<u2", "int32_data"),
    5: ("<i2", "int32_data"),
    6: ("<i4", "int32_data"),
    7: ("<i8", "int64_data"),
    9: ("?", "int32_data"),
    10: ("<f2", "int32_data"),
    11: ("<f8", "double_data"),
    12: ("<u4", "uint64_data"),
    13: ("<u8", "uint64_data"),
}


def exact(value: float, what: str) -> Fraction:
    """A number of the file as the exact rational it is."""
    if not isfinite(value):
        raise Refusal(f"{what} is {value}")
    if value and not 1 / LARGEST**2 < abs(value) < LARGEST:
        raise Refusal(f"{what} is {value}, which is absurd")
    return Fraction(value)


def to_array(tensor: TensorProto, folder: Path) -> Array:
    """The values of a constant, after checking that its bytes are as many as its dimensions say."""
    what = f"constant {shortened(tensor.name)!r}"
    if tensor.data_type not in _TYPES:
        raise Refusal(f"{what} has an unsupported data type ({tensor.data_type})")
    kind, fieldname = _TYPES[tensor.data_type]
    if len(tensor.dims) > MAX_RANK:
        raise Refusal(f"{what} has {len(tensor.dims)} axes; at most {MAX_RANK} are read")
    dims = tuple(tensor.dims)
    count, dtype = prod(dims), np.dtype(kind)
    if any(d < 0 for d in dims) or count * dtype.itemsize > MAX_FILE:
        raise Refusal(f"{what} has the impossible shape {dims}")
    if tensor.HasField("segment"):
        raise Refusal(f"{what} is stored in segments")
    if tensor.data_location == 1:
        values = np.frombuffer(_external(tensor, folder, what, count * dtype.itemsize), dtype)
    elif tensor.HasField("raw_data"):
        values = _from_raw(tensor.raw_data, dtype, count, what)
    else:
        values = _from_field(getattr(tensor, fieldname), dtype, count, what)
    return values.reshape(dims)


def _from_raw(raw: bytes, dtype: np.dtype[Any], count: int, what: str) -> Array:
    if len(raw) != count * dtype.itemsize:
        raise Refusal(f"{what} holds {len(raw)} bytes where its shape needs {count * dtype.itemsize}")
    return np.frombuffer(raw, dtype)


def _from_field(stored: Sequence[Any], dtype: np.dtype[Any], count: int, what: str) -> Array:
    if len(stored) != count:
        raise Refusal(f"{what} holds {len(stored)} values where its shape needs {count}")
    wide = np.dtype({"f": "f8", "u": "u8"}.get(dtype.kind, "i8")) if dtype.itemsize > 4 else np.dtype("i8")
    if dtype.kind == "f" and dtype.itemsize > 2:
        return np.fromiter(stored, dtype, count)
    values = np.fromiter(stored, wide, count)  # one by one: a list of Python's integers would take 36 bytes for each
    if dtype.kind == "f":
        return values.astype(np.uint16).view(dtype)  # the bits of a half, kept in integers
    if dtype.kind in "iu" and count and not (_within(values.min(), dtype) and _within(values.max(), dtype)):
        raise Refusal(f"{what} holds a value outside {dtype.name}")
    return values.astype(dtype)


def _within(value: Any, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= int(value) <= int(limits.max)


def external_size(tensors: Iterable[TensorProto], folder: Path) -> int:
    """Bytes of all files that hold external data of these constants, each counted once; 0 for what cannot be read."""
    total = 0
    for location in {_entries(tensor).get("location", "") for tensor in tensors if tensor.data_location == 1}:
        with suppress(Refusal, OSError, ValueError):
            size = _inside(location, folder, "a constant").stat().st_size
            total += min(size, MAX_FILE)
    return total


def _external(tensor: TensorProto, folder: Path, what: str, size: int) -> bytes:
    entries = _entries(tensor)
    location = entries.get("location", "")
    offset = _offset(entries.get("offset", "0"), what)
    if "length" in entries and _offset(entries["length"], what) != size:
        raise Refusal(f"{what} needs {size} bytes of external data, but its length says {entries['length']}")
    try:
        with open_regular(_inside(location, folder, what)) as file:
            if os.fstat(file.fileno()).st_size < offset + size:
                raise Refusal(f"{what}: its external data {location!r} ends too early")
            file.seek(offset)
            return file.read(size)
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refusal(f"{what}: its external data {shortened(location)!r} cannot be read ({reason})") from None


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {text(entry.key): text(entry.value) for entry in tensor.external_data}


def _inside(location: str, folder: Path, what: str) -> Path:
    """The file of this location, which must lie in the model's folder, links followed."""
    if "\0" in location:
        raise Refusal(f"{what} is stored in {location!r}, which is no name of a file")
    path, root, target = Path(location), folder.resolve(), (folder / location).resolve()
    if not location or path.is_absolute() or ".." in path.parts or root not in target.parents:
        raise Refusal(f"{what} is stored in {location!r}, which is not inside the model's folder")
    return target


def _offset(digits: str, what: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise Refusal(f"{what} has a malformed external data entry {digits[:40]!r}")
    return int(digits)


def text(value: object) -> str:
    """A string of the file; protobuf hands out bytes where they are not UTF-8."""
    if not isinstance(value, str):
        raise Refusal(f"it is damaged: {value!r} is not text")
    return value
