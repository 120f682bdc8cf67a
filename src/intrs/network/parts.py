"""From the fields of a layer to canonical bytes and back, and what fits into each field.

A layer kind lists its fields once, in the order of the bytes (`Record.LAYOUT`). Writing, reading, checking and the
short repr all follow from that list. What fits here is what the bytes can hold; whether it makes sense is for the
core to say.
"""

from __future__ import annotations

import dataclasses
import operator
import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from intrs.errors import ModelError
from intrs.exact import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Sizes = dict[str, Any]  # fields known so far: shapes of arrays, integers
INT32 = 2**31


class MisfitError(Exception):
    """Why a value cannot be a field; `Record` adds whose field it was."""


class Source:
    """Bytes that the core has accepted, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def integers(self, count: int) -> tuple[int, ...]:
        """The next 32-bit integers."""
        values = struct.unpack_from(f"<{count}i", self._data, self._at)
        self._at += 4 * count
        return values

    def integer(self) -> int:
        """The next 32-bit integer."""
        return self.integers(1)[0]

    def array(self, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """The next array, as a read-only view of the bytes."""
        count = int(np.prod(shape))
        values = np.frombuffer(self._data, kind, count, self._at).reshape(shape)
        self._at += values.nbytes
        return values


@dataclass(frozen=True)
class Part(ABC):
    """One field in the bytes of a record."""

    name: str

    @abstractmethod
    def fit(self, value: Any, sizes: Sizes) -> Any:
        """The value as the field holds it. Raises MisfitError if it does not fit; may add to sizes."""

    @abstractmethod
    def write(self, value: Any) -> bytes:
        """The bytes of a value that fits."""

    @abstractmethod
    def read(self, source: Source, sizes: Sizes) -> Any:
        """The value from the bytes; None if another part reads it."""


class Int(Part):
    """A 32-bit integer."""

    def fit(self, value: Any, sizes: Sizes) -> int:  # noqa: D102 (as inherited)
        sizes[self.name] = found = fit_integer(value)
        return found

    def write(self, value: int) -> bytes:  # noqa: D102 (as inherited)
        return integers(value)

    def read(self, source: Source, sizes: Sizes) -> int:  # noqa: D102 (as inherited)
        sizes[self.name] = found = source.integer()
        return found


class Flag(Part):
    """Yes or no, as a 32-bit 1 or 0."""

    def fit(self, value: Any, sizes: Sizes) -> bool:  # noqa: D102 (as inherited)
        if not isinstance(value, bool | np.bool_):
            raise MisfitError(f"expected True or False, got {shown(value)}")
        return bool(value)

    def write(self, value: bool) -> bytes:  # noqa: D102 (as inherited)
        return integers(int(value))

    def read(self, source: Source, sizes: Sizes) -> bool:  # noqa: D102 (as inherited)
        return bool(source.integer())


@dataclass(frozen=True)
class Ints(Part):
    """A fixed number of 32-bit integers."""

    count: int

    def fit(self, value: Any, sizes: Sizes) -> tuple[int, ...]:  # noqa: D102 (as inherited)
        found = fit_integers(value)
        if len(found) != self.count:
            raise MisfitError(f"expected {self.count} integers, got {shown(value)}")
        return found

    def write(self, value: Sequence[int]) -> bytes:  # noqa: D102 (as inherited)
        return integers(*value)

    def read(self, source: Source, sizes: Sizes) -> tuple[int, ...]:  # noqa: D102 (as inherited)
        return source.integers(self.count)


@dataclass(frozen=True)
class Dims(Part):
    """The shape of an array that comes later."""

    rank: int

    def fit(self, value: Any, sizes: Sizes) -> NDArray[Any]:  # noqa: D102 (as inherited)
        array = as_integers(value)
        if array.ndim != self.rank:
            raise MisfitError(f"expected an array of {self.rank} dimensions, got shape {array.shape}")
        sizes[self.name] = array.shape
        return array

    def write(self, value: NDArray[Any]) -> bytes:  # noqa: D102 (as inherited)
        return integers(*value.shape)

    def read(self, source: Source, sizes: Sizes) -> None:  # noqa: D102 (as inherited)
        sizes[self.name] = source.integers(self.rank)


@dataclass(frozen=True)
class Array(Part):
    """An array of integers, whose shape follows from what comes before it."""

    kind: str  # of NumPy, little endian
    shape: Callable[[Sizes], tuple[int, ...]]

    def fit(self, value: Any, sizes: Sizes) -> NDArray[Any]:  # noqa: D102 (as inherited)
        array, shape = as_integers(value), self.shape(sizes)
        if array.shape != shape:
            raise MisfitError(f"expected an array of shape {shape}, got {array.shape}")
        return owned(array, np.dtype(self.kind))

    def write(self, value: NDArray[Any]) -> bytes:  # noqa: D102 (as inherited)
        return value.tobytes()

    def read(self, source: Source, sizes: Sizes) -> NDArray[Any]:  # noqa: D102 (as inherited)
        return source.array(self.kind, self.shape(sizes))


@dataclass(frozen=True)
class Nested(Part):
    """A record inside a record."""

    record: type[Record]

    def fit(self, value: Any, sizes: Sizes) -> Record:  # noqa: D102 (as inherited)
        if not isinstance(value, self.record):
            raise MisfitError(f"expected a {self.record.__name__}, got {shown(value)}")
        return value

    def write(self, value: Record) -> bytes:  # noqa: D102 (as inherited)
        return value.fields()

    def read(self, source: Source, sizes: Sizes) -> Record:  # noqa: D102 (as inherited)
        return self.record.read(source)


class Record:
    """A frozen dataclass whose fields are checked when it is made, and which has canonical bytes.

    Arrays become read-only copies of the right type, so that nothing changes under an identity.
    """

    LAYOUT: ClassVar[tuple[Part, ...]] = ()

    def __post_init__(self) -> None:
        sizes: Sizes = {}
        for part in self.LAYOUT:
            self._fit(part.name, part.fit, sizes)

    def _fit(self, name: str, fit: Callable[..., Any], *sizes: Sizes) -> None:
        try:
            object.__setattr__(self, name, fit(getattr(self, name), *sizes))
        except MisfitError as error:
            raise ModelError(f"{self._title()}: {name}: {error}") from None

    def _title(self) -> str:
        return type(self).__name__

    def fields(self) -> bytes:
        """The canonical bytes of these fields."""
        return b"".join(part.write(getattr(self, part.name)) for part in self.LAYOUT)

    @classmethod
    def read(cls, source: Source, **others: Any) -> Self:
        """The record from its bytes; `others` are fields that are not among them."""
        sizes: Sizes = {}
        found = {part.name: part.read(source, sizes) for part in cls.LAYOUT}
        return cls(**others, **found)

    def __repr__(self) -> str:
        shown_fields = (f"{f.name}={_short(getattr(self, f.name))}" for f in dataclasses.fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown_fields)})"


def _short(value: object) -> str:
    """An array as type and shape, anything else as usual."""
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


def integers(*values: int) -> bytes:
    """32-bit integers, little endian."""
    return struct.pack(f"<{len(values)}i", *values)


def fit_integer(value: Any) -> int:
    """A Python integer that fits 32 bits."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise MisfitError(f"expected an integer, got {shown(value)}") from None
    if not -INT32 <= found < INT32:
        raise MisfitError(f"{shown(found)} does not fit 32 bits")
    return int(found)


def fit_integers(value: Any) -> tuple[int, ...]:
    """A sequence of Python integers that fit 32 bits."""
    try:
        items = tuple(value)
    except TypeError:
        raise MisfitError(f"expected a sequence of integers, got {shown(value)}") from None
    return tuple(map(fit_integer, items))


def as_integers(value: Any) -> NDArray[Any]:
    """An array of any integer type."""
    try:
        array = np.asarray(value)
    except Exception:  # lists of uneven lengths, tensors on a GPU
        raise MisfitError(f"expected an array of integers, got {shown(value)}") from None
    if array.dtype.kind not in "iu":
        kind = f"an array of {array.dtype}" if isinstance(value, np.ndarray) else shown(value)
        raise MisfitError(f"expected an array of integers, got {kind}")
    return array


def owned(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A contiguous read-only array of this type; nobody else can change it."""
    limits = np.iinfo(dtype)
    for extreme in () if array.size == 0 or array.dtype == dtype else (array.min(), array.max()):
        if not limits.min <= int(extreme) <= limits.max:
            raise MisfitError(f"{extreme} does not fit {dtype.name}")
    found = np.ascontiguousarray(array, dtype)
    if np.shares_memory(found, array) and _writeable(array):
        found = found.copy()
    found.flags.writeable = False
    return found


def _writeable(array: NDArray[Any]) -> bool:
    """Whether anybody can still write to the memory of an array."""
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return not isinstance(base, bytes | type(None))
