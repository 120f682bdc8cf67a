"""Reading a results file, whoever wrote it: types and ranges are checked here."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import IO, TYPE_CHECKING, NamedTuple

from intrs.errors import ResultsError
from intrs.files import PACKED, named, unpacked
from intrs.results.judging import columns_of
from intrs.results.rows import ADAPTIVE_COLUMNS, COLUMNS, Row, with_file
from intrs.results.run import read_run, sidecar_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from intrs.results.run import Run

HEADER, ADAPTIVE_HEADER = ("\t".join(columns) + "\n" for columns in (COLUMNS, ADAPTIVE_COLUMNS))
HEADERS = (
    *(HEADER, ADAPTIVE_HEADER),
    *("\t".join(with_file(columns, named=True)) + "\n" for columns in (COLUMNS, ADAPTIVE_COLUMNS)),
)
LONGEST_LINE, MOST_LINES = 2**20, 10_000_000  # of a file of any origin
MOST_UNPACKED = 2**28  # bytes of a packed one


class Lines(NamedTuple):
    """The whole lines of a file: their rows, their size in bytes, and the first of them."""

    rows: list[Row]
    size: int
    header: str


def read(path: Path) -> tuple[Run, list[Row]]:
    """The description and the whole lines of a results file, packed or not; a half-written last line is left out.

    Types and ranges are checked. `check_rows` compares each line with its votes, `intrs.verify` the votes themselves.
    """
    with named(path, "read"), unpacked(path) as file:
        lines = read_lines(file, path)
    run = read_run(path)
    check_kind(path, run, lines)
    return run, lines.rows


def check_kind(path: Path, run: Run, lines: Lines) -> None:
    """A file of adaptive results has an adaptive description, and a part of the samples has no lines."""
    if lines.rows and not run.is_judged:
        raise ResultsError(
            f"{path}: it has lines, but {sidecar_path(path).name} describes a part of each image's samples, "
            f"{run.request.shard}, which has votes only"
        )
    if lines.header and lines.header != header_of(run):
        raise ResultsError(f"{path}: its columns are not those of the run that {sidecar_path(path)} describes")


def header_of(run: Run) -> str:
    """The first line of a run's file."""
    return "\t".join(columns_of(run)) + "\n"


def read_lines(file: IO[bytes], path: Path) -> Lines:
    """The rows of a file, and how much of it is good."""
    rows: list[Row] = []
    good, header = 0, ""
    for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
        whole = line.endswith(b"\n")
        if not whole and len(line) < LONGEST_LINE and (number > 1 or may_begin(line)):
            break  # half-written
        if number == 1:
            header = next((h for h in HEADERS if line == h.encode()), "")
            if not header:
                raise ResultsError(f"{path}: {_header_fault(line, path)}")
        else:
            rows.append(_row(line, path, number, header.split()))
        good += len(line)
        if good > MOST_UNPACKED and path.suffix == PACKED:
            raise ResultsError(f"{path}, line {number}: unpacks to more than the {MOST_UNPACKED:,} bytes accepted")
    return Lines(rows, good, header)


def _header_fault(line: bytes, path: Path) -> str:
    """Why a first line is not ours; an editor may have saved the file in another form."""
    changes = ["put a byte order mark before its first line"] if line.startswith(BOM_UTF8) else []
    changes += ["changed its line ends to CRLF"] if line.endswith(b"\r\n") else []
    if not may_begin(line.removeprefix(BOM_UTF8).rstrip(b"\r\n") + b"\n"):
        return f"not a results file of intrs; its first line should name {' '.join(COLUMNS)}"
    return (
        f"an editor {' and '.join(changes)}; save it as UTF-8 without a byte order mark and with line ends of Unix "
        f"(dos2unix {path.name} does both), or take the file as it was written"
    )


def may_begin(line: bytes) -> bool:
    """Whether a file of ours may begin so."""
    return any(header.encode().startswith(line) for header in HEADERS)


def _row(line: bytes, path: Path, number: int, columns: Sequence[str]) -> Row:
    try:
        if len(line) == LONGEST_LINE or number > MOST_LINES:
            raise ValueError("too long")
        return Row.parse(line.decode().rstrip("\n"), columns)
    except ValueError as error:  # UnicodeDecodeError is one
        raise ResultsError(f"{path}, line {number}: malformed ({error})") from None
