"""FILE.votes: votes of images whose line is not in FILE yet, so that a killed run loses at most a few seconds of work.

A line is a range of samples of one image. The first line has the digest of the run, so that votes of another network,
noise, seed or data set are never taken for this run's. The file is dropped when the run is complete; what `intrs
certify` makes of a part of the samples of every image is nothing but such a file.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from intrs.errors import ResultsError
from intrs.files import Appended, named, open_regular
from intrs.results.rows import cell, escaped, integer, integers, unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = "intrs votes 1"
LONGEST_LINE, MOST_LINES = 2**20, 10_000_000  # of a file of any origin
MOST_MILLISECONDS = 10**13  # three hundred years
COLUMNS = ("place", "idx", "label", "stage", "first", "milliseconds", "counts0", "counts")


@dataclass(frozen=True)
class Kept:
    """Votes over samples first, first + 1, ... of one image; of an adaptive run, all votes so far."""

    place: int  # of the image in the data
    idx: int
    label: int | None  # None: not known
    stage: int
    first: int
    milliseconds: int  # that it took
    counts0: tuple[int, ...]  # of the selection; empty if it was not part of this
    counts: tuple[int, ...]
    file: str | None = None  # of an image whose label is not known

    def line(self) -> str:
        """As it stands in the file."""
        cells = [cell(getattr(self, column)) or "-" for column in COLUMNS]
        return "\t".join([*cells, *([] if self.file is None else [escaped(self.file)])]) + "\n"

    @classmethod
    def parse(cls, line: str) -> Kept:
        """The entry of a line; ValueError says what is wrong."""
        texts = line.split("\t")
        file = unescaped(texts.pop()) if len(texts) == len(COLUMNS) + 1 else None
        if len(texts) != len(COLUMNS):
            raise ValueError(f"{len(texts)} columns where there should be {len(COLUMNS)}")
        numbers: dict[str, Any] = {
            column: integer(text, column, -1 if column == "label" and file is not None else 0)
            for text, column in zip(texts[:-2], COLUMNS, strict=False)
        }
        if numbers["milliseconds"] > MOST_MILLISECONDS:
            raise ValueError(f"milliseconds is {numbers['milliseconds']}")
        numbers["label"] = None if numbers["label"] < 0 else numbers["label"]
        counts0 = () if texts[-2] == "-" else integers(texts[-2], "counts0")
        return cls(**numbers, counts0=counts0, counts=integers(texts[-1], "counts"), file=file)

    @property
    def end(self) -> int:
        """The sample after the last one."""
        return self.first + sum(self.counts)


def journal_path(path: Path) -> Path:
    """FILE.votes beside FILE."""
    return path.parent / f"{path.name}.votes"


class Journal:
    """The votes of a run that is under way. The file is there from the first votes on that have to wait."""

    def __init__(self, path: Path, digest: str, *, resume: bool) -> None:
        """Begin anew, or continue if asked; votes of another run are refused then."""
        self.path = journal_path(path)
        self._head = f"{FORMAT}\t{digest}\n".encode()
        self._file: Appended | None = None
        self.entries = read_journal(path, digest) if resume else []
        if not self.entries:
            self.drop()

    def append(self, entry: Kept) -> None:
        """Keep votes; on return they are with the operating system."""
        with named(self.path, "write"):
            self._file = self._file or self._opened()
            self._file.append(entry.line().encode())

    def drop(self) -> None:
        """Every line is in the results file, or the run begins anew."""
        _drop(self.path)

    def close(self) -> None:
        """Bring it to disk."""
        if self._file:
            with contextlib.suppress(OSError):
                self._file.sync()
            self._file.close()

    def _opened(self) -> Appended:
        """After the last whole line, whatever was half-written."""
        file = Appended(self.path)
        if file.size and not _is_ours(self.path):
            file.close()
            raise ResultsError(f"{self.path} is not a file of votes of intrs and is left as it is; move it elsewhere")
        if self.entries:
            file.cut(len(self._head) + sum(len(entry.line().encode()) for entry in self.entries))
        else:
            file.cut(0)
            file.append(self._head)
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def drop_journal(path: Path) -> None:
    """Give up the votes beside a results file, if there are any."""
    _drop(journal_path(path))


def _drop(journal: Path) -> None:
    if journal.exists() and _is_ours(journal):
        journal.unlink()


def _is_ours(path: Path) -> bool:
    with open_regular(path) as file:
        head = file.read(len(FORMAT))
    return FORMAT.encode().startswith(head)


class NoJournal:
    """The journal of a run that is not written to a file."""

    path: Path | None = None
    entries: tuple[Kept, ...] = ()

    def append(self, entry: Kept) -> None:
        """Keep nothing."""

    def drop(self) -> None:
        """There is nothing to drop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def read_journal(path: Path, digest: str | None = None) -> list[Kept]:
    """The entries beside a results file; none if there is no such file, or it is of something else.

    digest: of the run, if it is known; ResultsError if the votes are of another.
    """
    journal = journal_path(path)
    if not journal.exists():
        return []
    with named(journal, "read"), open_regular(journal) as file:
        head = file.readline(LONGEST_LINE).decode("ascii", "replace")
        if not head.endswith("\n") or not head.startswith(f"{FORMAT}\t"):
            return []
        if digest not in (None, head.split()[-1]):
            raise ResultsError(
                f"{journal}: these votes are of another run than {path.name}, or of an earlier version of intrs; "
                "move or delete the file, and what it should hold is counted again"
            )
        return list(_entries(journal, iter(lambda: file.readline(LONGEST_LINE), b"")))


def _entries(path: Path, lines: Iterator[bytes]) -> Iterator[Kept]:
    for number, line in enumerate(lines, 2):
        if not line.endswith(b"\n"):
            return  # half-written
        try:
            if number > MOST_LINES:
                raise ValueError("too long")
            yield Kept.parse(line.decode().rstrip("\n"))
        except ValueError as error:
            raise ResultsError(
                f"{path}, line {number}: malformed ({error}); delete the file, and these votes are counted again"
            ) from None
