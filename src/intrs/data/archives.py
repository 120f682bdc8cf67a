"""The files of a data set in its official form, found in a folder or an archive by their names.

What an archive holds is read into memory and never written to where the archive says, so that names like ../x lead
nowhere; what it unpacks to is counted while it unpacks, and bounded by its own size.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from intrs.data.limits import Scan, most_unpacked
from intrs.errors import DataError
from intrs.files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import SupportsRead

    Key = Callable[[str], str | None]  # a path in a folder or archive -> the name it is wanted by, if it is

MOST_UNPACKED = 2**30  # bytes of one archive; every data set known here needs less
MOST_MEMBERS = 100_000
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of packing; the others are rare and may ask for gigabytes
UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError,
    RuntimeError, NotImplementedError, lzma.LZMAError,
)  # fmt: skip


@dataclass(frozen=True)
class Files:
    """What was found in a place: still on disk, or out of an archive."""

    place: Path
    found: dict[str, Path | bytes]

    def read(self, name: str, most: int) -> bytes:
        """The content of one file, which may not have more than so many bytes."""
        if name not in self.found:
            raise DataError(f"{self.place}: {name} is missing")
        source = self.found[name]
        size = source.stat().st_size if isinstance(source, Path) else len(source)
        if size > most:
            raise DataError(f"{self.place}: {name} has more than the {most:,} bytes that it can have")
        return read_bounded(source, size, DataError) if isinstance(source, Path) else source

    def packed(self, name: str) -> int:
        """How many bytes on disk a file came from, at most: what bounds the size that it may unpack to."""
        source, size = self.found[name], 0 if self.place.is_dir() else self.place.stat().st_size
        return source.stat().st_size if isinstance(source, Path) else min(size, len(source))


def find_files(place: Path, key: Key, folders: tuple[str, ...]) -> Files:
    """The wanted files of an archive, or of a folder and those of the named folders in it that exist."""
    if not place.is_dir():
        return Files(place, _read_archive(place, key))
    found: dict[str, Path | bytes] = {}
    root = place.absolute() if place.name.strip(".") else place.resolve()  # the name by which it is called
    scan = Scan(root)
    for folder in (root, *(root / name for name in folders)):
        for entry in scan.entries(folder) if folder.is_dir() else ():
            path = folder / entry.name
            name = key(path.relative_to(root.parent).as_posix())
            if name is not None and entry.is_file():
                found.setdefault(name, path)
    return Files(place, found)


def _read_archive(path: Path, key: Key) -> dict[str, Path | bytes]:
    found: dict[str, Path | bytes] = {}
    try:
        budget = _Budget(min(MOST_UNPACKED, most_unpacked(path.stat().st_size)), MOST_MEMBERS)
        with path.open("rb") as file:
            for name, data in _members(file, key, budget):
                if name in found:
                    raise ValueError(f"{name} is in it twice")
                found[name] = data
    except UNREADABLE as error:
        raise DataError(f"{path}: not a readable archive ({error})") from None
    return found


@dataclass
class _Budget:
    """What an archive may cost, archives inside it included."""

    bytes: int
    members: int
    taken: int = 0

    def take(self, size: int, members: int = 0) -> None:
        self.check(size)
        self.taken += size
        self.members -= members
        if self.members < 0:
            raise ValueError(f"it has more than {MOST_MEMBERS:,} files")

    def check(self, size: int) -> None:
        """Whether there is room for so many bytes more."""
        if self.taken + size > self.bytes:
            raise ValueError(f"it unpacks to more than the {self.bytes:,} bytes that an archive of its size may")


class _Counted(io.RawIOBase):
    """A stream that is charged for what is read from it."""

    def __init__(self, stream: SupportsRead[bytes], budget: _Budget) -> None:
        self._stream, self._budget = stream, budget

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._budget.take(len(data))
        return data


def _members(file: IO[bytes], key: Key, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    magic = file.read(2)
    file.seek(0)
    if magic == b"PK":
        yield from _zip_members(file, key, budget)
    elif magic == b"\x1f\x8b":
        yield from _tar_members(gzip.GzipFile(fileobj=file), key, budget)
    else:
        yield from _tar_members(file, key, budget)


def _tar_members(stream: SupportsRead[bytes], key: Key, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    """In one pass: gzip cannot seek."""
    with tarfile.open(fileobj=_Counted(stream, budget), mode="r|") as tar:
        for member in tar:
            budget.take(0, members=1)
            name = key(member.name)
            if name is None:
                continue
            if not member.isreg() or member.issparse():  # a link to elsewhere, or terabytes of nothing
                raise ValueError(f"{name} is no ordinary file")
            budget.check(member.size)
            content = tar.extractfile(member)
            if content is not None:
                yield name, content.read()


def _zip_members(file: IO[bytes], key: Key, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    """Also of the .tar.gz files in it: that is how Caltech-101 comes."""
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            budget.take(0, members=1)
            base = info.filename.rpartition("/")[2]
            name = key(info.filename)
            nested = base.endswith(".tar.gz") and not base.startswith(".")
            if (name is not None or nested) and info.compress_type not in METHODS:
                raise ValueError(f"{base} is not packed by deflate")
            if name is not None:
                budget.take(info.file_size)  # zipfile reads no more than that
                yield name, archive.read(info)
            elif nested:
                with archive.open(info) as inner:
                    yield from _tar_members(gzip.GzipFile(fileobj=inner), key, budget)
