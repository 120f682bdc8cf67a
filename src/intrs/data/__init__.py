"""Data sets: what ships with the package, what was fetched, official archives, .npz files and folders of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from intrs.data.images import Images
from intrs.errors import IntrsError

if TYPE_CHECKING:
    from intrs.data.files import Files

__all__ = ["Images", "open_data"]

ARCHIVES = (".tgz", ".gz", ".tar", ".zip")
FORMS = "a folder of images, an .npz file or the archive of a known data set (.tar.gz, .tgz, .tar, .zip)"


def open_data(spec: str | Path, split: str = "test") -> Images:
    """The images that `spec` names.

    It is a data set that ships or that `intrs data` has fetched, an .npz file, a data set in its official form (an
    archive or a folder), or a folder of images in class folders. A file or folder wins over a data set of the same
    name. Raises IntrsError if there is no such data or it is not as it should be.
    """
    path = Path(spec)
    try:
        if path.is_dir():
            return _open_folder(path, split)
        return _open_file(path, split) if path.is_file() else _open_named(str(spec), split)
    except OSError as error:
        raise IntrsError(f"{error.filename or path}: {error.strerror or error}") from None


def _open_folder(folder: Path, split: str) -> Images:
    from intrs.data import known
    from intrs.data.folder import SPLITS, read_folder
    from intrs.data.npz import read_npz

    name = folder.resolve().name
    if found := sorted(path.stem for path in folder.glob("*.npz") if path.stem in SPLITS):
        if split not in found:
            raise IntrsError(f"{folder}: no {split}.npz; there is {', '.join(found)}")
        return read_npz(folder / f"{split}.npz", name)
    files = known.find(folder)
    return _official(files, split) if files.found else read_folder(folder, split, name)


def _open_file(path: Path, split: str) -> Images:
    from intrs.data import known
    from intrs.data.npz import read_npz

    if path.suffix in ARCHIVES:
        return _official(known.find(path), split)
    if path.suffix == ".npz":
        _only_test(str(path), split)
        return read_npz(path, path.stem)
    raise IntrsError(f"{path}: data are {FORMS}")


def _official(files: Files, split: str) -> Images:
    from intrs.data import known

    found = known.read(files, split)
    return found if isinstance(found, Images) else found.images()


def _open_named(name: str, split: str) -> Images:
    from intrs import zoo

    if name in zoo.data_names():
        from intrs.data.npz import read_npz

        _only_test(name, split)
        return read_npz(zoo.data_path(name), name)
    from intrs.data import known, store

    if name not in known.KNOWN:
        names = ", ".join((*zoo.data_names(), *known.KNOWN))
        raise IntrsError(f"{name}: no such file or folder, nor a data set that is known ({names})")
    if not store.is_present(name, store.data_folder()):
        size = known.KNOWN[name].bytes / 10**6
        raise IntrsError(f"{name} has not been fetched: `intrs data {name}` does it ({size:.0f} MB)")
    return store.load(name, split, store.data_folder())


def _only_test(name: str, split: str) -> None:
    if split != "test":
        raise IntrsError(f"{name} holds one set of images and no split {split!r}: it is for testing")
