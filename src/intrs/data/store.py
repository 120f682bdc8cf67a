"""The data folder, in which fetched data sets lie as NAME/train.npz and NAME/test.npz.

A data set comes into being with one move when all of it is checked. Until then everything is in .NAME.part beside it,
which is locked while it is worked on, and of which only downloads outlive an interruption.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.data import known
from intrs.data.download import download
from intrs.data.hashes import SHA256, check_hashes
from intrs.data.images import Reading
from intrs.data.npz import read_npz, write_npz
from intrs.errors import IntrsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from intrs.data.images import Images
    from intrs.data.known import DataSet

    Progress = Callable[[int, str], None]  # how much is done, and of what in words

VARIABLE = "INTRS_DATA"
SPLITS = ("train", "test")
LOCK = "lock"


def data_folder() -> Path:
    """INTRS_DATA, or the platform's folder for a user's data."""
    if place := os.environ.get(VARIABLE):
        return Path(place)
    try:
        home = Path.home()
    except RuntimeError:
        raise IntrsError(f"no home folder; {VARIABLE} says where data are to be kept") from None
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "intrs"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "intrs"


def is_present(name: str, root: Path) -> bool:
    """Whether the data set has been fetched."""
    return all((root / name / f"{split}.npz").is_file() for split in SPLITS)


def load(name: str, split: str, root: Path) -> Images:
    """A data set that has been fetched. Pixels stay on disk until they are looked at, or checked."""
    if split not in SPLITS:
        raise IntrsError(f"{name} has the splits train and test, not {split!r}")
    path = root / name / f"{split}.npz"
    try:
        images = read_npz(path, name, mapped=True)
        if name in SHA256:
            check_hashes(name, images, split, str(path))
    except IntrsError as error:
        raise IntrsError(f"{error}\nThe file is damaged; `intrs data {name} --overwrite` fetches it anew") from None
    return images


@contextmanager
def workshop(name: str, root: Path) -> Iterator[Path]:
    """A folder to fetch into, ours alone. It is removed in the end, unless a download was begun and not used up."""
    work = root / f".{name}.part"
    work.mkdir(parents=True, exist_ok=True)
    with (work / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IntrsError(f"{work}: another `intrs data {name}` is at work there") from None
        try:
            yield work
        finally:
            shutil.rmtree(work / "new", ignore_errors=True)
            if {path.name for path in work.iterdir()} == {LOCK}:
                shutil.rmtree(work)


def arrived(dataset: DataSet, work: Path) -> int:
    """How many bytes of the downloads are there from earlier."""
    places = (work / f"{item.name}{suffix}" for item in dataset.downloads for suffix in ("", ".part"))
    return sum(place.stat().st_size for place in places if place.is_file())


def fetch(dataset: DataSet, work: Path, progress: Progress) -> Path:
    """Download what the data set comes in; the file, or the folder with the files."""
    before = 0
    for item in dataset.downloads:
        try:
            download(item, work, _after(before, item.name, progress))
        except IntrsError as error:
            raise IntrsError(f"{error}\nInstead: {dataset.second}") from None
        before += item.size
    return work / dataset.downloads[0].name if len(dataset.downloads) == 1 else work


def read_source(dataset: DataSet, source: Path) -> dict[str, Reading]:
    """Both splits of the data set, checked, from an archive or folder."""
    files = known.find(source)
    return {split: _checked(dataset.name, known.read(files, split), split, source) for split in SPLITS}


def install(dataset: DataSet, readings: dict[str, Reading], work: Path, root: Path, progress: Progress) -> None:
    """Write both splits and put them in place of what was there."""
    new, old, before = work / "new", work / "old", 0
    for left in (new, old):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir()
    for split, reading in readings.items():
        write_npz(new / f"{split}.npz", reading, _after(before, split, progress))
        before += reading.shape[0]
    _replace(root / dataset.name, new, old)
    for item in dataset.downloads:
        (work / item.name).unlink(missing_ok=True)


def _checked(name: str, found: Images | Reading, split: str, source: Path) -> Reading:
    if found.name != name:
        raise IntrsError(f"{source}: that is not {name} but {found.name}")
    if isinstance(found, Reading):
        return found
    check_hashes(name, found, split, str(source))  # a folder can have any name
    return Reading.of(found)


def check_replaceable(place: Path) -> None:
    """Refuse to write over what is not a fetched data set."""
    ours = {f"{split}.npz" for split in SPLITS}
    if place.exists() and not (place.is_dir() and {path.name for path in place.iterdir()} <= ours):
        raise IntrsError(f"{place} holds other things than a fetched data set; --to names another folder")


def _replace(place: Path, new: Path, old: Path) -> None:
    check_replaceable(place)
    if place.exists():
        place.replace(old)
    new.replace(place)
    shutil.rmtree(old, ignore_errors=True)


def _after(before: int, what: str, progress: Progress) -> Callable[[int], None]:
    return lambda done: progress(before + done, what)
