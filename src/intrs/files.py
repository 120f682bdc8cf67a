"""Files that survive a kill: whole writes, locks and appends. No other room opens a file for writing.

A whole write is seen by readers either as the old file or as the new one. An appended file only grows, is locked
against other processes while it is open, and notices when someone deletes, replaces or cuts it meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Self

from intrs.errors import IntrsError, ResultsError, SettingsError
from intrs.exact import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

AnyPath = str | os.PathLike[str]
SYNC_SECONDS = 5.0  # how long an appended line may wait for the disk
MOST_TRIES = 100  # of a lock whose file is removed by its former holder
PACKED = ".xz"  # what the name of a packed file ends with
UNFINISHED = ".unfinished"  # lies in a folder of files until all of them are there


@contextlib.contextmanager
def named(path: Path, action: str, kind: type[IntrsError] = ResultsError) -> Iterator[None]:
    """Turn the operating system's complaints about a file into an error that names it."""
    try:
        yield
    except OSError as error:
        raise kind(f"cannot {action} {path}: {error.strerror or error}") from None


def open_regular(path: AnyPath) -> BinaryIO:
    """Open a regular file of any origin for reading; a folder, a pipe or a device is an OSError and not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    what = "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file, but a pipe or a device"
    raise OSError(errno.EINVAL, what, os.fspath(path))


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The same for a file that may be packed by xz, as its name says; damage is an OSError, too.

    A packed file may unpack to any size: its reader has to bound what it takes.
    """
    with open_regular(path) as file:
        if path.suffix != PACKED:
            yield file
            return
        import lzma  # only here: some builds of Python lack it, and most files are not packed

        with lzma.open(file) as inside:
            try:
                yield inside
            except (lzma.LZMAError, EOFError) as error:
                raise OSError(errno.EINVAL, f"damaged, or not packed by xz ({error})") from None


def as_path(value: AnyPath, name: str) -> Path:
    """The path that a setting of this name holds."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise SettingsError(f"{name}: expected the path of a file, got {shown(value)}")
    return Path(value)


def read_bounded(path: Path, most: int, kind: type[IntrsError] = ResultsError) -> bytes:
    """The bytes of a regular file of any origin, refused if there are more than `most`."""
    with named(path, "read", kind), open_regular(path) as file:
        data = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
    if len(data) > most:
        raise kind(f"{path}: larger than the {most:,} bytes that are accepted")
    return data


def check_new(path: Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Refuse to write where something is already, or where nothing can be, or over what is to be read."""
    if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
        raise ResultsError(f"{path} is what is to be read; choose another name")
    if path.exists() and not (overwrite and path.is_file()):
        if path.is_dir():
            raise ResultsError(f"{path} is a folder; choose the name of a file")
        raise ExistsError(f"{path} exists; choose another name, or ask to overwrite the file")
    if not path.parent.is_dir():
        raise ResultsError(f"{path}: there is no folder {path.parent}")


def check_new_folder(path: Path, mark: str, *, overwrite: bool = False) -> None:
    """The same for a folder that `write_folder` writes; it is known again by the file `mark`.

    What a failed or killed write has left is of no use to anyone, so it is written anew unasked.
    """
    if path.exists() and not (path.is_dir() and (not any(path.iterdir()) or (path / UNFINISHED).is_file())):
        if not (path / mark).is_file():
            raise ResultsError(
                f"{path} exists and was not written by this command, so it is not replaced; choose another folder"
            )
        if not overwrite:
            raise ExistsError(f"{path} exists; choose another folder, or ask to overwrite it")
    if not path.parent.is_dir():
        raise ResultsError(f"{path}: there is no folder {path.parent}")


def check_suffix(suffix: str, suffixes: Sequence[str], what: str) -> None:
    """Refuse a name that promises another kind of file than is written."""
    if suffix not in suffixes:
        raise SettingsError(f"{what} is a file whose name ends in {', '.join(suffixes)}, not {suffix or 'nothing'!r}")


# --- Whole writes ----------------------------------------------------------------------------------------------------


def write_whole(path: Path, data: bytes, give_up: Callable[[], object] | None = None) -> None:
    """Write a file in one move.

    `give_up` is called when the new data are on disk and before they take the old file's place: it may destroy what
    they replace.
    """
    with replacing(path, give_up) as part:
        part.write_bytes(data)


@contextlib.contextmanager
def replacing(path: Path, give_up: Callable[[], object] | None = None) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` when the block ends without an error.

    The temporary name depends on `path` alone and is locked, so what a kill leaves behind is used by the next write
    instead of piling up.
    """
    part = path.with_name(f".{path.name}.part")
    with named(path, "write"), locked(part, wait=True) as descriptor:
        try:
            yield part
            os.fsync(descriptor)
            if give_up:
                give_up()
            part.replace(path)
            sync_folder(path.parent)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def write_folder(path: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write a folder's files one by one, by their names in it; other files in it stay as they are."""
    with named(path, "write"):
        path.mkdir(exist_ok=True)
        (path / UNFINISHED).touch()
        for name, content in contents:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(path / name, content)
        (path / UNFINISHED).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of names to disk: without it a power cut may undo a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # which means that there is nothing to bring to disk
            raise


# --- Locks -----------------------------------------------------------------------------------------------------------


class ExistsError(ResultsError):
    """What is to be written is there already."""


class BusyError(ResultsError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = False, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    """The descriptor of a file or folder that is locked against other processes while the block runs."""
    descriptor = lock(path, wait=wait, flags=flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lock(path: Path, *, wait: bool = False, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open and lock; the caller closes the descriptor, which also unlocks.

    The former holder may have removed or replaced the file between our opening and our locking it. Then we would hold
    a lock that nobody else sees, so we try again with the file that has the name now.
    """
    for _ in range(MOST_TRIES):
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if is_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise BusyError(f"another process is writing {path}; wait for it, or choose another name") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise BusyError(f"{path} is removed again and again by another process; choose another name")


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one with this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


# --- Appends ---------------------------------------------------------------------------------------------------------


class Appended:
    """A file that is open for appending and locked against other processes."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        with named(path, "write"):
            if path.exists() and not stat.S_ISREG(path.stat().st_mode):
                raise ResultsError(f"cannot write {path}: not a regular file")
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (os.O_EXCL if new else 0)
            self._descriptor = lock(path, flags=flags)
        self.size = os.fstat(self._descriptor).st_size
        self._synced = time.monotonic()

    def read(self) -> bytes:
        """Everything that is in the file."""
        with named(self.path, "read"), open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()

    def cut(self, size: int) -> None:
        """Drop what follows the first `size` bytes."""
        with named(self.path, "write"):
            os.ftruncate(self._descriptor, size)
            self.size = size

    def append(self, data: bytes) -> None:
        """Write all of the data or, on an error, none; on return they are with the operating system."""
        self.check()
        begin, left = self.size, data
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, begin)
            raise
        self.size = begin + len(data)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def check(self) -> None:
        """Raise ResultsError if the file is not as we left it."""
        if not is_at(self.path, self._descriptor):
            raise ResultsError(f"{self.path} was deleted or replaced by another program while it was being written")
        if (size := os.fstat(self._descriptor).st_size) != self.size:
            what = "cut" if size < self.size else "written to"
            raise ResultsError(f"{self.path} was {what} by another program while it was being written")

    def sync(self) -> None:
        """Bring the file to disk."""
        _sync(self._descriptor)
        self._synced = time.monotonic()

    def close(self, *, drop_if_empty: bool = False) -> None:
        """Let others in. An empty file may be removed first: we made it, or it was of no use to anyone."""
        if self._descriptor < 0:
            return
        if drop_if_empty and os.fstat(self._descriptor).st_size == 0 and is_at(self.path, self._descriptor):
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
