"""Results files: a TSV with one line an image, and beside it a JSON file with all that is needed to repeat the run.

The first columns are those of locuslab/smoothing, so that scripts written for it read ours; what follows keeps the
votes, so that nothing has to be sampled again. An abstention is -1 in the file and nowhere else. A line, once written,
is never changed: a run that was killed is resumed after its last whole line.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import time
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from fractions import Fraction
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

from intrs.adaptive import Stages
from intrs.certificate import Abstained, Certified
from intrs.errors import IntrsError
from intrs.files import lock, named, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from intrs.adaptive import Rule
    from intrs.smooth import Predicted
    from intrs.votes import Votes

FORMAT = "intrs results 1"
COLUMNS = (
    "idx", "label", "predict", "radius", "correct", "time",
    "n0", "n", "votes", "radius_sq", "counts0", "counts",
)  # fmt: skip
ADAPTIVE_COLUMNS = (*COLUMNS, "look", "rule")
HEADER, ADAPTIVE_HEADER = ("\t".join(columns) + "\n" for columns in (COLUMNS, ADAPTIVE_COLUMNS))
DIGITS = 6  # of a radius
SYNC_SECONDS = 5.0
MOST_SIDECAR, LONGEST_LINE, LONGEST_TEXT, MOST_LINES = 2**20, 2**20, 10_000, 10_000_000  # of a file from a stranger


@dataclass(frozen=True)
class Run:
    """What is needed to repeat a run; the sidecar is this as JSON. Numbers that must be exact are text."""

    command: str  # certify or predict
    model: str
    identity: str  # Network.identity; SHA-256 of the file if it ran in floats
    pixels: str  # the options with which the model was loaded, as given; empty if not
    mean: str
    std: str
    data: str
    split: str
    data_sha256: str
    skip: int
    max: int  # number of images of this run
    sigma: str
    noise: str
    bound: str
    form: str
    n0: int
    n: int
    alpha: str
    seed: str
    intrs: str
    kernels: str
    python: str
    platform: str
    adaptive: str = ""  # intrs.adaptive.Stages as text; empty if every image gets n samples
    note: str = ""  # CLASSICAL if the noise was continuous
    first: int = 0  # place of the first image in the data

    @property
    def header(self) -> str:
        """The first line of the results."""
        return ADAPTIVE_HEADER if self.adaptive else HEADER


CLASSICAL = (
    "classical method in floating point: not bit for bit the same on other machines, "
    "and the rounding of floats is not covered by the proof"
)
SAME = (
    "command", "identity", "data_sha256", "first", "skip", "sigma", "noise", "bound", "form",
    "n0", "n", "alpha", "seed", "adaptive",
)  # fmt: skip
"""The fields that must agree for a run to be continued: lines of one file are all of one experiment."""
OF_FLOATS = ("pixels", "mean", "std")
"""So must these if the noise is continuous: the identity is the file's then, not that of what it was made into."""


@dataclass(frozen=True)
class Row:
    """One line: the answer for one image, and the votes behind it."""

    idx: int
    label: int
    predict: int | None  # None: abstained
    radius: str  # in units of the pixel range, rounded down
    correct: int
    time: str
    n0: int
    n: int
    votes: int  # of the class that selection chose
    radius_sq: int | None  # in squared pixel levels; None: abstained
    counts0: tuple[int, ...]
    counts: tuple[int, ...]
    look: int | None = None  # at which an adaptive run stopped, from 0
    rule: str = ""  # Rule.name

    @classmethod
    def of(
        cls,
        label: int,
        outcome: Certified | Predicted | Abstained,
        selection: Votes,
        estimation: Votes,
        seconds: float,
        rule: Rule | None = None,
    ) -> Self:
        """The line for an outcome; with the rule by which sampling stopped, if there was one."""
        predict, radius, radius_sq = _answer(outcome)
        return cls(
            idx=estimation.image_index,
            label=label,
            predict=predict,
            radius=radius,
            correct=int(predict == label),
            time=str(timedelta(seconds=seconds)),
            n0=selection.count,
            n=estimation.count,
            votes=outcome.votes,
            radius_sq=radius_sq,
            counts0=selection.counts,
            counts=estimation.counts,
            look=None if rule is None else rule.look(estimation.count),
            rule="" if rule is None else rule.name,
        )

    def cells(self) -> dict[str, str]:
        """The line's cells by column, as they stand in the file."""
        return {column: cell(getattr(self, column)) for column in (ADAPTIVE_COLUMNS if self.rule else COLUMNS)}

    @classmethod
    def parse(cls, line: str, columns: Sequence[str] = COLUMNS) -> Self:
        """The row of a line; ValueError says which cell is wrong."""
        texts = line.split("\t")
        if len(texts) != len(columns):
            raise ValueError(f"{len(texts)} columns where there should be {len(columns)}")
        cells = dict(zip(columns, texts, strict=True))
        numbers = {column: integer(cells[column], column, low) for column, low in _LEAST.items()}
        predict, radius_sq = numbers.pop("predict"), numbers.pop("radius_sq")
        return cls(
            **numbers,
            predict=None if predict < 0 else predict,
            radius_sq=None if radius_sq < 0 else radius_sq,
            radius=_text(cells["radius"], "radius", r"\d{1,9}\.\d{1,20}"),
            time=_text(cells["time"], "time", r"(\d{1,9} days?, )?\d{1,2}:\d\d:\d\d(\.\d{1,9})?"),  # of timedelta
            counts0=_integers(cells["counts0"], "counts0"),
            counts=_integers(cells["counts"], "counts"),
            look=integer(cells["look"], "look") if "look" in cells else None,
            rule=_text(cells["rule"], "rule", r"[a-z]{1,20}-[0-9a-f]{16}") if "rule" in cells else "",
        )


def _answer(outcome: Certified | Predicted | Abstained) -> tuple[int | None, str, int | None]:
    """Class, radius and radius_sq. A prediction is a statement about the image itself: radius 0."""
    match outcome:
        case Abstained():
            return None, "0.0", None
        case Certified():
            return outcome.label, outcome.radius_text(DIGITS), outcome.radius_sq
        case _:
            return outcome.label, "0.0", 0


_LEAST = {"idx": 0, "label": 0, "predict": -1, "correct": 0, "n0": 0, "n": 0, "votes": 0, "radius_sq": -1}


def cell(value: int | str | tuple[int, ...] | None) -> str:
    """A value as it stands in a line."""
    if value is None:
        return "-1"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _text(text: str, column: str, pattern: str) -> str:
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError(f"{column} is {text[:40]!r}")
    return text


def integer(text: str, column: str, low: int = 0) -> int:
    """A whole number from a line; ValueError names the column."""
    value = int(_text(text, column, r"-1|0|[1-9]\d{0,18}"))  # as it is written, so that equal rows are equal lines
    if value < low:
        raise ValueError(f"{column} is {value}")
    return value


def _integers(text: str, column: str) -> tuple[int, ...]:
    return tuple(integer(part, column) for part in text.split(","))


# --- The sidecar -----------------------------------------------------------------------------------------------------


def sidecar_path(path: Path) -> Path:
    """FILE.json beside FILE."""
    return path.parent / f"{path.name}.json"


def write_run(path: Path, run: Run, give_up: Callable[[], object] | None = None) -> None:
    """Write the sidecar of the results file `path` as `write_whole` does."""
    text = json.dumps({"format": FORMAT, **asdict(run)}, indent=1) + "\n"
    write_whole(sidecar_path(path), text.encode(), give_up)


def read_run(path: Path) -> Run:
    """The sidecar of the results file `path`, checked field by field."""
    try:
        return _run(read_sidecar(path, FORMAT))
    except (ValueError, RecursionError) as error:
        what = f"not the description of a run ({error}); verify and resume need it"
        raise IntrsError(f"{sidecar_path(path)}: {what}") from None


def read_sidecar(path: Path, form: str) -> dict[str, Any]:
    """The JSON beside a table, not checked beyond its size and format; ValueError or RecursionError if it is none."""
    target = sidecar_path(path)
    with named(target, "read"), target.open("rb") as file:
        data = file.read(MOST_SIDECAR + 1)
    if len(data) > MOST_SIDECAR:
        raise ValueError("it is too large")
    found = json.loads(data)
    if not isinstance(found, dict) or found.get("format") != form:
        raise ValueError(f"its format is not {form!r}; perhaps another version of intrs wrote it")
    return found


def _run(found: dict[str, Any]) -> Run:
    values: dict[str, Any] = {field.name: found.get(field.name) for field in fields(Run)}
    for later, none in (("adaptive", ""), ("note", ""), ("first", 0)):
        values[later] = found.get(later, none)  # files of earlier versions do not have it
    for field in fields(Run):
        if not (_is_number if field.type == "int" else _is_text)(field.name, values[field.name]):
            raise ValueError(f"field {field.name!r} is missing or wrong")
    run = Run(**values)
    if run.adaptive and (run.command, run.n) != ("certify", Stages.parse(run.adaptive).last.n):
        raise ValueError("field 'adaptive' is not of this run")
    if run.note != (CLASSICAL if run.noise == "continuous" else ""):
        raise ValueError("field 'note' is not of this run")
    return run


_FORMS = {"command": "certify|predict", "seed": "0x[0-9a-f]{1,64}", "identity": "[0-9a-f]{64}"}


def _is_number(name: str, value: object) -> bool:
    return type(value) is int and (0 if name in ("n0", "first") else 1) <= value < 2**63


def _is_text(name: str, value: object) -> bool:
    """Any text that a file name may hold; the command line escapes what would steer the terminal."""
    if type(value) is not str or len(value) > LONGEST_TEXT:
        return False
    return name not in _FORMS or re.fullmatch(_FORMS[name], value) is not None


def differences(old: Run, new: Run, same: Sequence[str] = SAME) -> list[str]:
    """What forbids to continue `old` as `new`, one line a field."""
    return [f"{name}: {before} in the file, {now} now" for name, before, now in unequal(old, new, same)]


def unequal(one: Run, two: Run, same: Sequence[str]) -> list[tuple[str, object, object]]:
    """The fields that should agree and do not, with both values."""
    names = (*same, *(OF_FLOATS if two.noise == "continuous" else ()))
    pairs = ((name, getattr(one, name), getattr(two, name)) for name in names)
    return [(name, mine, theirs) for name, mine, theirs in pairs if mine != theirs]


def check_rows(path: Path, run: Run, rows: Sequence[Row]) -> None:
    """Refuse lines that are of no run, or contradict themselves; whether the votes are right is for `intrs verify`."""
    for number, row in enumerate(rows, 2):
        if row.n0 != run.n0 or row.n > run.n or (row.n < run.n and not run.adaptive):
            raise IntrsError(
                f"{path}, line {number}: {row.n0} and {row.n} samples, but the run took {run.n0} and {run.n}: "
                "runs with different samples are mixed in one file"
            )
        if fault := _contradiction(run, row):
            raise IntrsError(f"{path}, line {number}: {fault}; the file was changed after it was written")


def _contradiction(run: Run, row: Row) -> str | None:
    if (row.predict is None) != (row.radius_sq is None):
        return "malformed (an abstention has neither class nor radius)"
    if row.correct != (row.predict == row.label):
        return f"correct is {row.correct}, but predict is {cell(row.predict)} and label is {row.label}"
    for name, counts, whole in (("counts0", row.counts0, row.n0), ("counts", row.counts, row.n)):
        if sum(counts) != whole:
            return f"{name} add up to {sum(counts)}, not to {whole}"
    if row.votes not in row.counts:
        return f"votes is {row.votes}, which no class has"
    radius = Certified(0, row.radius_sq or 0, 0, 0, Fraction(1)).radius_text(DIGITS)
    same = row.radius == radius or (not row.radius_sq and row.radius == "0.0")  # of predictions and abstentions
    return None if same else f"radius is {row.radius}, but radius_sq says {radius}"


# --- Reading ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[Run, list[Row]]:
    """The description and the whole lines of a results file; a half-written last line is left out.

    Types and ranges are checked here; whether the numbers are right is for `intrs verify`.
    """
    with named(path, "read"), path.open("rb") as file:
        rows, good = _read_rows(file, path)
    run = read_run(path)
    _check_kind(path, run, good)
    return run, rows


def _check_kind(path: Path, run: Run, good: _Good) -> None:
    """A file of adaptive results has an adaptive description."""
    if good.header and good.header != run.header:
        raise IntrsError(f"{path}: its columns are not those of the run that {sidecar_path(path)} describes")


class _Good(NamedTuple):
    """How much of a file is whole lines, and the first of them."""

    size: int
    header: str


def _read_rows(file: IO[bytes], path: Path) -> tuple[list[Row], _Good]:
    """The rows, and what is good of the file."""
    rows: list[Row] = []
    good, header = 0, ""
    for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
        whole = line.endswith(b"\n")
        if not whole and len(line) < LONGEST_LINE and (number > 1 or _may_begin(line)):
            break  # half-written
        if number == 1:
            header = next((h for h in (HEADER, ADAPTIVE_HEADER) if line == h.encode()), "")
            if not header:
                raise IntrsError(f"{path}: not a results file of intrs; its first line should name {' '.join(COLUMNS)}")
        else:
            rows.append(_row(line, path, number, header.split()))
        good += len(line)
    return rows, _Good(good, header)


def _may_begin(line: bytes) -> bool:
    """Whether a file of ours may begin so."""
    return ADAPTIVE_HEADER.encode().startswith(line) or HEADER.encode().startswith(line)


def _row(line: bytes, path: Path, number: int, columns: Sequence[str]) -> Row:
    try:
        if len(line) == LONGEST_LINE or number > MOST_LINES:
            raise ValueError("too long")
        return Row.parse(line.decode("ascii").rstrip("\n"), columns)
    except ValueError as error:  # UnicodeDecodeError is one
        raise IntrsError(f"{path}, line {number}: malformed ({error})") from None


# --- Writing ---------------------------------------------------------------------------------------------------------


class Writer:
    """A results file that is open for appending, locked against other processes."""

    def __init__(self, path: Path, descriptor: int, rows: Sequence[Row] = ()) -> None:
        self.path = path
        self.rows = list(rows)
        self._descriptor = descriptor
        self._synced = time.monotonic()

    def append(self, row: Row) -> None:
        """Write one line; on return it is with the operating system, and on disk every few seconds."""
        with self._kept_lines():
            _write(self._descriptor, "\t".join(row.cells().values()) + "\n")
            self.rows.append(row)
            if time.monotonic() - self._synced > SYNC_SECONDS:
                self._sync()

    def close(self) -> None:
        """Bring everything to disk and let others in."""
        if self._descriptor < 0:
            return
        try:
            with self._kept_lines():
                self._sync()
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # which means that there is nothing to bring to disk
                raise
        self._synced = time.monotonic()

    @contextlib.contextmanager
    def _kept_lines(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise IntrsError(
                f"cannot write {self.path}: {error.strerror or error}. Its {len(self.rows)} lines so far are kept; "
                "put that right and run the same command with --resume"
            ) from None


def create(path: Path, run: Run, *, overwrite: bool = False) -> Writer:
    """Begin a results file. An existing one is replaced only if asked, and only if it is one."""
    _check_regular(path)
    if not overwrite and (found := next((p for p in (path, sidecar_path(path)) if os.path.lexists(p)), None)):
        raise IntrsError(f"{found} exists; --resume continues it, --overwrite replaces it, --out names another file")
    descriptor = _open(path, 0 if overwrite else os.O_EXCL)
    with _given_up_on_error(path, descriptor):
        _check_description(path)
        return _begin(path, run, descriptor)


def resume(path: Path, run: Run, indices: Sequence[int]) -> Writer:
    """Continue a results file after its last whole line, or begin it. indices: the images of the whole run, in order.

    Refuses, naming the fields, if the file was made with other settings.
    """
    descriptor = _open(path)
    with _given_up_on_error(path, descriptor):
        old = read_run(path) if sidecar_path(path).exists() else None
        if old and (differing := differences(old, run)):
            raise IntrsError(f"cannot resume {path}: it was made with other settings\n  " + "\n  ".join(differing))
        with named(path, "read"), open(descriptor, "rb", closefd=False) as file:
            rows, good = _read_rows(file, path)
        check_rows(path, old or run, rows)
        if not good.size:
            return _begin(path, run, descriptor)
        if not old:
            raise IntrsError(f"cannot resume {path}: {sidecar_path(path)}, which says how it was made, is missing")
        _check_kind(path, old, good)
        _check_order(path, rows, indices)
        with named(path, "write"):
            os.ftruncate(descriptor, good.size)
        write_run(path, replace(old, model=run.model, data=run.data, max=run.max))
    return Writer(path, descriptor, rows)


def extend(path: Path, run: Run) -> Writer:
    """Begin results that extend those in `path`, which are set aside as `set_aside_path` says.

    Nothing is lost if this is interrupted: the old lines are on disk under the other name before they are given up.
    """
    descriptor = _open(path)
    with _given_up_on_error(path, descriptor):
        old = read_run(path)
        same = [field for field in SAME if field not in ("n", "adaptive")]
        if differing := differences(old, run, same):
            raise IntrsError(f"cannot extend {path}: it was made with other settings\n  " + "\n  ".join(differing))
        with named(path, "read"), open(descriptor, "rb", closefd=False) as file:
            rows, good = _read_rows(file, path)
            file.seek(0)
            data = file.read(good.size)
        check_rows(path, old, rows)
        aside = set_aside_path(path, run)
        if len(rows) >= _lines_of(aside, old):  # fewer: this was interrupted before
            write_run(aside, old)
            write_whole(aside, data)
        return _begin(path, run, descriptor)


def set_aside_path(path: Path, run: Run) -> Path:
    """Where the results are that an adaptive run with several stages extends: FILE.stage1, FILE.stage2, ..."""
    return path.parent / f"{path.name}.stage{len(Stages.parse(run.adaptive).stages) - 1}"


def set_aside(path: Path, run: Run) -> dict[int, Row]:
    """The rows by image that this run extends; none if it extends nothing or they are gone."""
    if not run.adaptive or len((plan := Stages.parse(run.adaptive)).stages) < 2:
        return {}
    aside = set_aside_path(path, run)
    if not aside.exists():
        return {}
    old, rows = read(aside)
    before = Stages(plan.stages[:-1])
    if differing := differences(old, replace(run, n=before.last.n, adaptive=str(before))):
        raise IntrsError(f"{aside} is not what {path} extends\n  " + "\n  ".join(differing))
    return {row.idx: row for row in rows}


def _lines_of(path: Path, run: Run) -> int:
    """How many lines of this run are there."""
    if not (path.exists() and sidecar_path(path).exists()) or differences(read_run(path), run):
        return 0
    return len(read(path)[1])


def _check_order(path: Path, rows: Sequence[Row], indices: Sequence[int]) -> None:
    if len(rows) > len(indices):
        raise IntrsError(f"cannot resume {path}: it has {len(rows)} images, more than the {len(indices)} asked for")
    for number, (row, index) in enumerate(zip(rows, indices, strict=False), 2):
        if row.idx != index:
            raise IntrsError(f"cannot resume {path}: line {number} is about image {row.idx}, not {index}")


def _open(path: Path, flags: int = 0) -> int:
    """Open for appending, made if need be, and lock."""
    _check_regular(path)
    with named(path, "write"):
        return lock(path, flags=os.O_RDWR | os.O_CREAT | os.O_APPEND | flags)


def _check_description(path: Path) -> None:
    """A file beside the results that has the name of their description is replaced only if it is one."""
    if not os.path.lexists(target := sidecar_path(path)):
        return
    try:
        read_run(path)
    except IntrsError as error:
        raise IntrsError(f"{error}\n{target} is left as it is; remove it, or name other results with --out") from None


def _check_regular(path: Path) -> None:
    with named(path, "write"):
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise IntrsError(f"cannot write results to {path}: not a regular file")


@contextlib.contextmanager
def _given_up_on_error(path: Path, descriptor: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if os.fstat(descriptor).st_size == 0:
                path.unlink()  # we made it, or it was of no use to anyone
        os.close(descriptor)
        raise


def _begin(path: Path, run: Run, descriptor: int) -> Writer:
    """Empty the file, describe the run, write the header: in this order no line can get the description of another.

    The new description is on disk before anything is given up, so a run that cannot start costs no old results.
    """
    with named(path, "write"):
        first = os.pread(descriptor, len(ADAPTIVE_HEADER), 0)
        if not (_may_begin(first) or first.startswith(HEADER.encode())):
            raise IntrsError(f"{path} is not a results file of intrs and is left as it is")
        write_run(path, run, lambda: os.ftruncate(descriptor, 0))
        _write(descriptor, run.header)
    return Writer(path, descriptor)


def _write(descriptor: int, text: str) -> None:
    """All of the text or, on an error, none of it."""
    begin, data = os.fstat(descriptor).st_size, text.encode("ascii")
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, begin)
        raise
