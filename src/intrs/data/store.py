"""The data folder, in which fetched data sets lie as NAME/train.npz and NAME/test.npz.

A data set comes into being with one move when all of it is checked. Until then everything is in .NAME.part beside it,
which is worked on under the lock .NAME.lock, and of which only downloads outlive an interruption.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.data import known
from intrs.data.download import download
from intrs.data.hashes import SHA256, check_hashes
from intrs.data.npz import read_npz, write_npz
from intrs.errors import DataError, ResultsError
from intrs.files import BusyError, as_path, lock, sync_folder
from intrs.progress import Progress, reporting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.data.images import Images
    from intrs.data.known import DataSet
    from intrs.progress import OnProgress, Shown

VARIABLE = "INTRS_DATA"
SPLITS = ("train", "test")


class DamagedError(DataError):
    """A fetched data set is not what was stored; fetching it again, overwriting it, helps."""


@dataclass(frozen=True)
class Fetched:
    """A data set in the data folder."""

    dataset: DataSet
    root: Path  # the data folder
    splits: dict[str, Images]
    already: bool = False  # whether it was there, so that nothing was fetched

    @property
    def folder(self) -> Path:
        """Where the data set lies."""
        return self.root / self.dataset.name

    @property
    def images(self) -> int:
        """How many images all splits have; fewer than the data set's if the source held a part of it."""
        return sum(map(len, self.splits.values()))


def data_folder() -> Path:
    """INTRS_DATA, or the platform's folder for a user's data."""
    if place := os.environ.get(VARIABLE):
        if Path(place).is_file():
            raise DataError(f"{VARIABLE} must name the folder of data sets, and {place} is a file")
        return Path(place)
    try:
        home = Path.home()
    except RuntimeError:
        raise DataError(f"no home folder; {VARIABLE} says where data are to be kept") from None
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "intrs"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "intrs"


def is_present(name: str, root: Path | None = None) -> bool:
    """Whether the data set has been fetched into this data folder."""
    if not isinstance(name, str):
        raise DataError(known.unknown(name, tuple(known.KNOWN)))
    place = (root or data_folder()) / name
    return all((place / f"{split}.npz").is_file() for split in SPLITS)


def load(name: str, split: str, root: Path) -> Images:
    """A data set that has been fetched. Pixels stay on disk until they are looked at, or checked."""
    if split not in SPLITS:
        raise DataError(f"{name} has the splits train and test, not {split!r}")
    path = root / name / f"{split}.npz"
    try:
        images = read_npz(path, name, mapped=True)
        if name in SHA256:
            check_hashes(name, images, split, str(path))
    except DataError as error:
        raise DamagedError(f"{error}\nThe stored file is damaged; fetch {name} again and overwrite it") from None
    return images


def fetch(
    name: str,
    source: str | os.PathLike[str] | None = None,
    to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Shown = None,
) -> Fetched:
    """Put a data set into the data folder, checked, unless it is there; then its name is enough to open it.

    source is an archive or folder to take it from; without one it is downloaded, and after an interruption the rest of
    it. to is the data folder, if it is not the usual one. Raises DataError if the data set is unknown, cannot be
    reached, or is not what it should be; then nothing is put in place.
    """
    dataset, root = known.to_fetch(name), data_folder() if to is None else as_path(to, "to")
    origin = None if source is None else as_path(source, "source")
    with _data_errors(root):
        _clear_away(name, root)
        if not (already := not overwrite and is_present(name, root)):
            with reporting(progress) as report:
                _provide(dataset, origin, root, report)
        return Fetched(dataset, root, {split: load(name, split, root) for split in SPLITS}, already)


@contextmanager
def _data_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except ResultsError as error:  # of what writes files
        raise DataError(str(error)) from None
    except OSError as error:  # a full disk does not say which file it was
        raise DataError(f"{error.filename or root}: {error.strerror or error}") from None


def _provide(dataset: DataSet, source: Path | None, root: Path, report: OnProgress | None) -> None:
    """Before anything is downloaded, make sure that it can be put in place."""
    _check_replaceable(root / dataset.name)
    if source is not None and not source.exists():
        raise DataError(f"{source}: no such file or folder")
    with workshop(dataset.name, root) as work:
        source = source or _download(dataset, work, report)
        _install(dataset, _read_source(dataset, source), work, root, report)


# --- The workshop ----------------------------------------------------------------------------------------------------


@contextmanager
def workshop(name: str, root: Path) -> Iterator[Path]:
    """A folder to fetch into, ours alone. It is removed in the end, unless a download was begun and not used up."""
    work, guard = root / f".{name}.part", root / f".{name}.lock"
    root.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = lock(guard)
    except BusyError:
        raise DataError(f"another process is fetching {name} into {root}; wait until it has ended") from None
    try:
        work.mkdir(exist_ok=True)
        _undo(work, root / name)
        yield work
    finally:
        shutil.rmtree(work / "new", ignore_errors=True)
        with suppress(OSError):  # a download is in it
            work.rmdir()
        guard.unlink(missing_ok=True)  # while it is locked: who waits for it looks which file has the name now
        os.close(descriptor)


def _undo(work: Path, place: Path) -> None:
    """Of a run that was killed while it wrote or replaced: what it wrote goes, what it moved aside comes back."""
    new, old = work / "new", work / "old"
    if old.exists() and not place.exists():
        old.replace(place)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


def _clear_away(name: str, root: Path) -> None:
    """Remove what a killed run left behind, unless a run is at work there."""
    if (root / f".{name}.part").exists() or (root / f".{name}.lock").exists():
        with suppress(DataError), workshop(name, root):
            pass


def _download(dataset: DataSet, work: Path, report: OnProgress | None) -> Path:
    """Download what the data set comes in; the file, or the folder with the files."""
    before = 0
    if report:
        report(_kilobytes(dataset, _arrived(dataset, work), dataset.downloads[0].name))
    for item in dataset.downloads:
        try:
            download(item, work, _part_of(dataset, before, report))
        except DataError as error:
            instead = f"{dataset.instead}, and fetch it from {dataset.source}"
            raise DataError(f"{error}\nInstead: {instead}") from None
        before += item.size
    return work / dataset.downloads[0].name if len(dataset.downloads) == 1 else work


def _arrived(dataset: DataSet, work: Path) -> int:
    """How many bytes of the downloads are there from earlier."""
    places = (work / f"{item.name}{suffix}" for item in dataset.downloads for suffix in ("", ".part"))
    return sum(place.stat().st_size for place in places if place.is_file())


def _part_of(dataset: DataSet, before: int, report: OnProgress | None) -> OnProgress | None:
    return report and (lambda item: report(_kilobytes(dataset, before + item.done, item.note)))


def _kilobytes(dataset: DataSet, done: int, note: str) -> Progress:
    return Progress(done // 1000, dataset.bytes // 1000, "kB", note)


def _read_source(dataset: DataSet, source: Path) -> dict[str, Images]:
    """Both splits of the data set, checked, from an archive or folder."""
    files = known.find(source)
    return {split: _checked(dataset.name, known.read(files, split), split, source) for split in SPLITS}


def _checked(name: str, found: Images, split: str, source: Path) -> Images:
    if found.name != name:
        raise DataError(f"{source}: that is not {name} but {found.name}")
    if name in SHA256:
        check_hashes(name, found, split, str(source))  # a folder can have any name
    return found


def _install(dataset: DataSet, splits: dict[str, Images], work: Path, root: Path, report: OnProgress | None) -> None:
    """Write both splits and put them in place of what was there."""
    new, before, total = work / "new", 0, sum(map(len, splits.values()))
    new.mkdir()
    for split, images in splits.items():
        moved = report and _shifted(report, before, total)
        write_npz(new / f"{split}.npz", images, moved, f"storing {split} images")
        before += len(images)
    _replace(root / dataset.name, new, work / "old")
    for item in dataset.downloads:
        (work / item.name).unlink(missing_ok=True)


def _shifted(report: OnProgress, before: int, total: int) -> OnProgress:
    return lambda part: report(part._replace(done=before + part.done, total=total))


def _check_replaceable(place: Path) -> None:
    """Refuse to write over what is not a fetched data set."""
    ours = {f"{split}.npz" for split in SPLITS}
    if place.exists() and not (place.is_dir() and {path.name for path in place.iterdir()} <= ours):
        raise DataError(f"{place} holds other things than a fetched data set; choose another data folder")


def _replace(place: Path, new: Path, old: Path) -> None:
    _check_replaceable(place)
    if place.exists():
        place.replace(old)
    new.replace(place)
    sync_folder(place.parent)
    shutil.rmtree(old, ignore_errors=True)
