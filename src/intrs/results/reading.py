"""Reading a results file, whoever wrote it: types and ranges are checked here."""

from __future__ import annotations

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
    """A file of adaptive results has an adaptive description."""
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
                names = " ".join(COLUMNS)
                raise ResultsError(f"{path}: not a results file of intrs; its first line should name {names}")
        else:
            rows.append(_row(line, path, number, header.split()))
        good += len(line)
        if good > MOST_UNPACKED and path.suffix == PACKED:
            raise ResultsError(f"{path}, line {number}: unpacks to more than the {MOST_UNPACKED:,} bytes accepted")
    return Lines(rows, good, header)


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
