"""Data sets: what ships with the package, what was fetched, official archives, .npz files, folders and arrays."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from intrs.data.images import Images
from intrs.errors import DataError, NoSplitError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from intrs.data.fit import Fit
    from intrs.data.known import DataSet, data_sets
    from intrs.data.store import Fetched, data_folder, fetch, is_present

    Spec = str | os.PathLike[str] | Images | tuple[Any, Any] | Any
    # a name or path, image files, (images, labels) as arrays or tensors, or images alone

__all__ = ["DataSet", "Fetched", "Images", "data_folder", "data_sets", "fetch", "is_present", "open_data"]

_LATER = {
    "DataSet": "known",
    "Fetched": "store",
    "data_folder": "store",
    "data_sets": "known",
    "fetch": "store",
    "is_present": "store",
}  # which the usual run does not need
ARCHIVES = (".tgz", ".gz", ".tar", ".zip")
FORMS = "an image file, a folder of images, an .npz file or the archive of a known data set (.tar.gz, .tgz, .tar, .zip)"


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"intrs.data.{_LATER[name]}"), name)
    raise AttributeError(f"module 'intrs.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def open_data(spec: Spec, split: str = "test", fit: str = "") -> Images:
    """The images that `spec` names or holds.

    It is a data set that ships or that `fetch` has stored, an .npz file, a data set in its official form (an archive or
    a folder), a folder of images in class folders, arrays (images, labels), or Images, which are returned as they are.
    Without labels it may be an image file or a list of them, a folder of images, an .npz file or an array. A file or
    folder wins over a data set of the same name. fit, such as "resize:32x32x3" or "crop:32x32x3" (height, width,
    channels), makes image files into what a network takes. Raises DataError if there is no such data or it is not as
    it should be.
    """
    if not isinstance(split, str):
        raise DataError(f"split: expected a name such as 'test', got {type(split).__name__}")
    found = _opened(spec, split, _fit(fit))
    if fit:
        from intrs.data.pictures import are_pictures

        if not are_pictures(found):
            raise SettingsError(f"fit is for image files; the images of {found.name} are pixels already")
    return found


def _opened(spec: Spec, split: str, fit: Fit | None) -> Images:
    if isinstance(spec, Images):
        return spec
    if is_files(spec):
        from intrs.data.pictures import read_pictures

        return _named(lambda: read_pictures(spec, fit), spec[0])
    if is_path(spec):
        return _open(spec, split, fit)
    from intrs.data.arrays import from_arrays

    return from_arrays(spec)


def is_path(spec: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether data are given by one name or path."""
    return isinstance(spec, str | os.PathLike) and isinstance(os.fspath(spec), str)


def is_files(spec: object) -> TypeGuard[list[str | os.PathLike[str]] | tuple[str | os.PathLike[str], ...]]:
    """Whether data are given by several paths."""
    return isinstance(spec, list | tuple) and bool(spec) and all(is_path(each) for each in spec)


def _fit(text: str) -> Fit | None:
    if not text:
        return None
    from intrs.data.fit import Fit

    return Fit.parse(text)


def _open(spec: str | os.PathLike[str], split: str, fit: Fit | None) -> Images:
    path = Path(spec)
    if not os.fspath(spec):
        raise DataError("an empty name of a data set")

    def read() -> Images:
        if path.is_dir():
            return _open_folder(path, split, fit)
        return _open_file(path, split, fit) if path.is_file() else _open_named(os.fspath(spec), split)

    return _named(read, path)


def _named(read: Callable[[], Images], path: str | os.PathLike[str]) -> Images:
    """What is read, or an error with the name of the file that cannot be."""
    try:
        return read()
    except OSError as error:
        raise DataError(f"{error.filename or path}: {error.strerror or error}") from None


def _open_folder(folder: Path, split: str, fit: Fit | None) -> Images:
    from intrs.data import known
    from intrs.data.folder import SPLITS, read_folder
    from intrs.data.npz import read_npz

    name = folder.resolve().name
    if found := sorted(name for name in SPLITS if (folder / f"{name}.npz").is_file()):
        if split not in found:
            raise NoSplitError(f"{folder}: no {split}.npz; there is {', '.join(found)}")
        return read_npz(folder / f"{split}.npz", name)
    files = known.find(folder)
    return known.read(files, split) if files.found else read_folder(folder, split, name, fit)


def _open_file(path: Path, split: str, fit: Fit | None) -> Images:
    from intrs.data import known
    from intrs.data.npz import read_npz
    from intrs.data.pictures import is_picture, read_pictures

    if path.suffix in ARCHIVES:
        return known.read(known.find(path), split)
    if is_picture(path):
        _only_test(str(path), split)
        return read_pictures([path], fit)
    if path.suffix == ".npz":
        _only_test(str(path), split)
        return read_npz(path, path.stem)
    raise DataError(f"{path}: data are {FORMS}")


def _open_named(name: str, split: str) -> Images:
    from intrs import zoo

    if name in zoo.data_names():
        from intrs.data.npz import read_npz

        _only_test(name, split)
        return read_npz(zoo.data_path(name), name)
    from intrs.data import known, store

    if name not in known.KNOWN:
        raise DataError(_unknown(name, (*zoo.data_names(), *known.KNOWN)))
    if not store.is_present(name):
        size = known.KNOWN[name].bytes / 10**6
        raise DataError(f"{name} has not been fetched: `intrs data {name}` does it ({size:.0f} MB)")
    return store.load(name, split, store.data_folder())


def _unknown(name: str, names: tuple[str, ...]) -> str:
    from intrs.data.known import unknown
    from intrs.data.pictures import is_picture

    path = Path(name)
    if path.suffix in (*ARCHIVES, ".npz") or is_picture(path) or path.name != name:
        return f"{name}: no such file or folder"
    return f"{unknown(name, names)}, or give the path of {FORMS}"


def _only_test(name: str, split: str) -> None:
    if split != "test":
        raise NoSplitError(f"{name} holds one set of images and no split {split!r}: it is for testing")
