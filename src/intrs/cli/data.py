"""`intrs data`: which data sets there are, and getting one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from intrs import zoo
from intrs.cli.screen import INTERRUPTED, meter, print_table, show, table
from intrs.data import store
from intrs.data.known import KNOWN
from intrs.errors import IntrsError
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from intrs.data.known import DataSet


def data(args: Namespace) -> int:
    """List the data sets, or put one into the data folder."""
    root = args.to or store.data_folder()
    try:
        if args.name is None:
            _list(args, root)
        else:
            _provide(args, root)
    except KeyboardInterrupt:
        print("intrs: stopped; the same command continues", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.filename is None:  # from a print
            raise
        raise IntrsError(f"{error.filename}: {error.strerror or error}") from None
    return 0


def _provide(args: Namespace, root: Path) -> None:
    if args.name not in KNOWN:
        raise IntrsError(f"no data set {args.name!r} is known; what is: {', '.join(KNOWN)}")
    if args.overwrite or not store.is_present(args.name, root):
        try:
            _get(KNOWN[args.name], args.source, root)
        except OSError as error:  # a full disk does not say which file it was
            raise IntrsError(f"{error.filename or root}: {error.strerror or error}") from None
    _describe(KNOWN[args.name], root)


def _get(dataset: DataSet, source: Path | None, root: Path) -> None:
    """Before anything is downloaded, make sure that it can be put in place."""
    store.check_replaceable(root / dataset.name)
    if source is not None and not source.exists():
        raise IntrsError(f"{source}: no such file or folder")
    with store.workshop(dataset.name, root) as work:
        if source is None:
            with meter(dataset.bytes // 1000, store.arrived(dataset, work) // 1000, "kB") as show_bytes:
                source = store.fetch(dataset, work, lambda done, what: show_bytes(done // 1000, what))
        readings = store.read_source(dataset, source)
        with meter(sum(len(reading.labels) for reading in readings.values()), 0, "images") as show_images:
            store.install(
                dataset, readings, work, root, lambda done, split: show_images(done, f"storing {split} images")
            )


def _describe(dataset: DataSet, root: Path) -> None:
    show("data set", f"{dataset.name}, in {root / dataset.name}")
    found = 0
    for split in store.SPLITS:
        images = store.load(dataset.name, split, root)
        found += len(images)
        size = " x ".join(map(str, images.image_shape))
        show(split, f"{len(images):,} images of {size}, {len(images.classes)} classes, sha256 {images.sha256[:16]}...")
    show("licence", f"{dataset.licence}; {dataset.home}")
    if found != dataset.images:
        show("part", f"{found:,} images; the whole data set has {dataset.images:,}")
    if root.resolve() != store.data_folder().resolve():
        show("to use", f"name the folder, or set {store.VARIABLE}={root}")


def _list(args: Namespace, root: Path) -> None:
    if args.source or args.overwrite:
        raise IntrsError(f"which data set? One of {', '.join(KNOWN)}")
    made = table("name", "licence", "here", "images", "download", left=3)
    for name in zoo.data_names():
        made.add_row(name, "as cifar10", "ships", "500", "")
    for dataset in KNOWN.values():
        here = "yes" if store.is_present(dataset.name, root) else "no"
        made.add_row(dataset.name, dataset.licence, here, f"{dataset.images:,}", f"{dataset.bytes / 1e6:.0f} MB")
    print_table(made)
    for dataset in KNOWN.values():
        print(f"\n{dataset.name}: {dataset.home}\n  from {dataset.downloads[0].url}\n  or {dataset.second}")
    print(f"\nThe data folder is {printable(str(root))}")
