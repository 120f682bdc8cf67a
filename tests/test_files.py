"""Files survive kills, other processes and full disks."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from intrs import files
from intrs.errors import DataError, ResultsError
from intrs.files import Appended, BusyError, ExistsError, lock, locked, read_bounded, replacing, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_write_is_seen_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")

    def fail() -> None:
        assert path.read_bytes() == b"old"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new", fail)
    assert path.read_bytes() == b"old"
    write_whole(path, b"new")
    assert (path.read_bytes(), names(tmp_path)) == (b"new", ["a"])


def test_the_folder_is_brought_to_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    write_whole(tmp_path / "a", b"x")
    assert synced == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_what_a_kill_leaves_behind_is_used_by_the_next_write(tmp_path: Path) -> None:
    code = "import os, sys; from pathlib import Path; from intrs.files import write_whole\n"
    code += "write_whole(Path(sys.argv[1]), b'new', lambda: os.kill(os.getpid(), 9))"
    for _ in range(3):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=False)
        assert len(names(tmp_path)) == 1, "leftovers do not pile up"
    write_whole(tmp_path / "a", b"new")
    assert names(tmp_path) == ["a"]


def test_two_whole_writes_at_once(tmp_path: Path) -> None:
    texts = [bytes([i]) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=write_whole, args=(tmp_path / "a", text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a").read_bytes() in texts
    assert names(tmp_path) == ["a"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"cannot write .*nowhere"):
        write_whole(tmp_path / "nowhere" / "a", b"")
    with pytest.raises(ResultsError, match="cannot write"), replacing(tmp_path) as part:
        part.write_bytes(b"")


def test_a_folder_that_was_left_half_written_is_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "folder"

    def fails() -> Iterator[tuple[str, bytes]]:
        yield "inside/first", b"1"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ResultsError, match=r"cannot write .*folder: No space left"):
        files.write_folder(folder, fails())
    files.check_new_folder(folder, "mark")
    files.write_folder(folder, [("inside/first", b"2"), ("mark", b"")])
    assert sorted(path.name for path in folder.iterdir()) == ["inside", "mark"]
    with pytest.raises(ExistsError, match="choose another folder, or ask to overwrite it"):
        files.check_new_folder(folder, "mark")
    files.check_new_folder(folder, "mark", overwrite=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_another_wrote_is_not_replaced_and_nobody_is_told_to(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(ResultsError, match="was not written by this command, so it is not replaced") as raised:
            files.check_new_folder(path, "mark", overwrite=overwrite)
        assert not isinstance(raised.value, ExistsError)


def test_reading_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(DataError, match="larger than the 4 bytes"):
        read_bounded(path, 4, DataError)
    with pytest.raises(ResultsError, match="not a regular file"):
        read_bounded(tmp_path.__class__("/dev/zero"), 4)


def test_a_lock_keeps_others_out(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), pytest.raises(BusyError, match="another process"):
        lock(tmp_path / "lock")
    os.close(lock(tmp_path / "lock"))
    with locked(tmp_path, flags=os.O_RDONLY), pytest.raises(BusyError):
        lock(tmp_path, flags=os.O_RDONLY)


def test_a_lock_on_a_file_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The former holder removes the file between our opening and our locking it."""
    path, flock, removed = tmp_path / "lock", fcntl.flock, list[int]()

    def slow(descriptor: int, operation: int) -> None:
        if not removed:
            path.unlink()
            removed.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", slow)
    descriptor = lock(path)
    assert files.is_at(path, descriptor), "the lock is on the file that others see"
    os.close(descriptor)


@pytest.mark.parametrize("change", ["delete", "replace", "cut", "write"])
def test_what_happens_to_an_appended_file_is_noticed(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a"
    with Appended(path) as file:
        file.append(b"one\n")
        if change in ("delete", "replace"):
            path.unlink()
        if change != "delete":
            path.write_bytes({"replace": b"one\n", "cut": b"", "write": b"one\ntwo\n"}[change])
        with pytest.raises(ResultsError, match=r"deleted or replaced|cut|written to"):
            file.append(b"three\n")
    assert not path.exists() or b"three" not in path.read_bytes()


def test_an_empty_file_may_be_dropped(tmp_path: Path) -> None:
    Appended(tmp_path / "a").close(drop_if_empty=True)
    assert names(tmp_path) == []
    with Appended(tmp_path / "a") as file:
        file.append(b"x")
    Appended(tmp_path / "a").close(drop_if_empty=True)
    assert names(tmp_path) == ["a"]
