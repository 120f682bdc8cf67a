"""Writing results files: begun, resumed after the last whole line, or extended by another stage.

A line, once written, is never changed, and nothing is given up before what replaces it is on disk.
"""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from intrs.adaptive import Stages
from intrs.errors import ResultsError
from intrs.files import PACKED, Appended, ExistsError, named, write_whole
from intrs.results.journal import Journal, NoJournal, drop_journal
from intrs.results.judging import check_rows
from intrs.results.reading import HEADERS, check_kind, header_of, may_begin, read, read_lines
from intrs.results.run import SAME, differences, read_run, sidecar_path, write_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from intrs.results.rows import Row
    from intrs.results.run import Run


class Writer:
    """A results file that is open for appending, locked against other processes."""

    def __init__(self, file: Appended, rows: Sequence[Row] = (), *, resumed: bool = False) -> None:
        self.path = file.path
        self._resumed = resumed
        self.rows = list(rows)
        self._file = file
        self._described = sidecar_path(self.path).exists()

    def append(self, row: Row) -> None:
        """Write one line; on return it is with the operating system, and on disk every few seconds."""
        with self._kept_lines():
            self._file.append(("\t".join(row.cells().values()) + "\n").encode())
            self.rows.append(row)

    def sync(self) -> None:
        """Bring every line to disk."""
        with self._kept_lines():
            self._file.sync()

    def journal(self, digest: str) -> Journal:
        """Where votes are kept whose lines are not known yet, continued if this file is."""
        return Journal(self.path, digest, resume=self._resumed)

    def close(self) -> None:
        """Make sure that every line is still there, bring them to disk, and let others in."""
        try:
            with self._kept_lines():
                self._file.check()
            self.sync()
            if self._described and not sidecar_path(self.path).exists():
                raise ResultsError(f"{sidecar_path(self.path)}, which describes {self.path}, was deleted meanwhile")
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # what went wrong before is what to hear of
            with contextlib.suppress(ResultsError):
                self.close()

    @contextlib.contextmanager
    def _kept_lines(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ResultsError(
                f"cannot write {self.path}: {error.strerror or error}. Its {len(self.rows)} lines so far are kept; "
                "fix that and resume the run"
            ) from None


class Memory:
    """The rows of a run that is not written to a file."""

    path: Path | None = None

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def append(self, row: Row) -> None:
        """Keep one row."""
        self.rows.append(row)

    def sync(self) -> None:
        """There is no file."""

    def journal(self, digest: str) -> NoJournal:
        """Nothing is kept beyond this process."""
        return NoJournal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def create(path: Path, run: Run, *, overwrite: bool = False) -> Writer:
    """Begin a results file. An existing one is replaced only if asked, and only if it is one."""
    if not overwrite and (found := next((p for p in (path, sidecar_path(path)) if os.path.lexists(p)), None)):
        raise ExistsError(f"{found} exists: resume the run, overwrite it, or choose another name for the results")
    with _opened(path, new=not overwrite) as file:
        _check_description(path)
        return _begin(file, run)


def resume(
    path: Path, run: Run, indices: Sequence[int], check: Callable[[Sequence[Row]], object] | None = None
) -> Writer:
    """Continue a results file after its last whole line, or begin it. indices: the images of the whole run, in order.

    Refuses, naming the fields, if the file was made with other settings. `check` may raise what else is wrong with its
    lines, before anything is changed.
    """
    with _opened(path) as file:
        old = read_run(path) if sidecar_path(path).exists() else None
        if old and (differing := differences(old, run)):
            words = f"cannot resume {path}: it was made with other settings; name another file, or overwrite this one"
            raise ResultsError("\n  ".join((words, *differing)))
        lines = read_lines(io.BytesIO(file.read()), path)
        check_rows(path, replace(old, dimension=run.dimension, classes=run.classes) if old else run, lines.rows)
        if not lines.size:
            return _begin(file, run)
        if not old:
            raise ResultsError(f"cannot resume {path}: {sidecar_path(path)}, which says how it was made, is missing")
        check_kind(path, old, lines)
        _check_order(path, lines.rows, indices)
        if check:
            check(lines.rows)
        file.cut(lines.size)
        found = {name: getattr(run.request, name) for name in ("model", "data", "max")}
        request = replace(old.request, **found)
        write_run(path, replace(old, request=request, dimension=run.dimension, classes=run.classes))
        return Writer(file, lines.rows, resumed=True)


def extend(
    path: Path, run: Run, indices: Sequence[int], check: Callable[[Sequence[Row]], object] | None = None
) -> Writer:
    """Begin results that extend those in `path`, which are set aside as `set_aside_path` says.

    Nothing is lost if this is interrupted: the old lines are on disk under the other name before they are given up.
    """
    with _opened(path) as file:
        old = read_run(path)
        if old.stages != _before(run):
            raise ResultsError(f"cannot extend {path}: another process has changed it meanwhile")
        same = [field for field in SAME if field not in ("n", "adaptive")]
        if differing := differences(old, run, same):
            raise ResultsError(f"cannot extend {path}: it was made with other settings\n  " + "\n  ".join(differing))
        data = file.read()
        lines = read_lines(io.BytesIO(data), path)
        check_rows(path, replace(old, dimension=run.dimension, classes=run.classes), lines.rows)
        _check_order(path, lines.rows, indices)
        if check:
            check(lines.rows)
        aside = set_aside_path(path, run)
        if len(lines.rows) >= _lines_of(aside, old):  # fewer: this was interrupted before
            with named(aside, "write"):
                sidecar_path(aside).unlink(missing_ok=True)  # so that no lines get the description of others
            write_whole(aside, data[: lines.size])
            write_run(aside, old)
        return _begin(file, run)


def _before(run: Run) -> Stages:
    """The stages of the run that this one extends."""
    assert run.stages
    return Stages(run.stages.stages[:-1])


def set_aside_path(path: Path, run: Run) -> Path:
    """Where the results are that an adaptive run with several stages extends: FILE.stage1, FILE.stage2, ..."""
    assert run.stages
    return path.parent / f"{path.name}.stage{len(run.stages.stages) - 1}"


def set_aside(path: Path, run: Run) -> dict[int, Row]:
    """The rows by image that this run extends; none if it extends nothing or they are gone."""
    if not run.stages or len(run.stages.stages) < 2:
        return {}
    aside = set_aside_path(path, run)
    if not aside.exists():
        return {}
    old, rows = read(aside)
    before = _before(run)
    if differing := differences(old, replace(run, request=replace(run.request, n=before.last.n), stages=before)):
        raise ResultsError(f"{aside} is not what {path} extends\n  " + "\n  ".join(differing))
    check_rows(aside, replace(old, dimension=run.dimension, classes=run.classes), rows)
    return {row.idx: row for row in rows}


def _lines_of(path: Path, run: Run) -> int:
    """How many lines of this run are there."""
    if not (path.exists() and sidecar_path(path).exists()) or differences(read_run(path), run):
        return 0
    return len(read(path)[1])


def _check_order(path: Path, rows: Sequence[Row], indices: Sequence[int]) -> None:
    if len(rows) > len(indices):
        raise ResultsError(f"cannot resume {path}: it has {len(rows)} images, more than the {len(indices)} asked for")
    for number, (row, index) in enumerate(zip(rows, indices, strict=False), 2):
        if row.idx != index:
            raise ResultsError(f"cannot resume {path}: line {number} is about image {row.idx}, not {index}")


@contextlib.contextmanager
def _opened(path: Path, *, new: bool = False) -> Iterator[Appended]:
    """The file, which stays open if the block ends well."""
    if path.suffix == PACKED:
        raise ResultsError(
            f"{path}: lines are appended as they come, so the file cannot be a packed one; choose a name without "
            f"{PACKED}, and pack it when the run is finished (xz {path.name.removesuffix(PACKED)})"
        )
    _check_unpacked(path)
    file = Appended(path, new=new)
    try:
        yield file
    except BaseException:
        file.close(drop_if_empty=True)
        raise


def _check_unpacked(path: Path) -> None:
    """Results that were packed meanwhile share the name of their description with a new run, which would replace it."""
    packed = path.parent / f"{path.name}{PACKED}"
    if packed.exists() and not path.exists():
        raise ResultsError(
            f"{packed} is there, the packed results of a run whose description would be replaced; unpack it (unxz "
            f"{packed.name}), or choose another name"
        )


def _check_description(path: Path) -> None:
    """A file beside the results that has the name of their description is replaced only if it is one."""
    if not os.path.lexists(target := sidecar_path(path)):
        return
    try:
        read_run(path)
    except ResultsError as error:
        raise ResultsError(f"{error}\n{target} is left as it is; remove it, or choose another name") from None


def _begin(file: Appended, run: Run) -> Writer:
    """Empty the file, describe the run, write the header: in this order nothing can get the description of another.

    The new description is on disk before anything is given up, so a run that cannot start costs no old results.
    """
    first = file.read()[: max(map(len, HEADERS))]
    if not (may_begin(first) or any(first.startswith(header.encode()) for header in HEADERS)):
        raise ResultsError(f"{file.path} is not a results file of intrs and is left as it is")

    def give_up() -> None:
        drop_journal(file.path)
        file.cut(0)

    write_run(file.path, run, give_up)
    with named(file.path, "write"):
        file.append(header_of(run).encode())
    return Writer(file)
