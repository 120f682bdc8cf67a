"""`intrs data`: which data sets there are, and getting one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from intrs.cli.screen import complain, print_table, show, table
from intrs.cli.start import INTERRUPTED
from intrs.data.known import KNOWN, DataSet, data_sets
from intrs.data.store import VARIABLE, DamagedError, data_folder, fetch, is_present
from intrs.errors import DataError, SettingsError
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from intrs.data.store import Fetched


def data(args: Namespace) -> int:
    """List the data sets, or put one into the data folder."""
    if args.name is None:
        if args.source or args.overwrite:
            raise SettingsError(f"which data set? One of {', '.join(KNOWN)}")
        _list(args.to or data_folder())
        return 0
    try:
        fetched = fetch(args.name, args.source, args.to, args.overwrite, progress=args.progress)
        _describe(fetched)
        if fetched.already and args.source:
            complain(f"{args.name} was here already, so {args.source} was not read; --overwrite replaces what is here")
    except KeyboardInterrupt:
        print("intrs: stopped; the same command continues", file=sys.stderr)
        return INTERRUPTED
    except DamagedError as error:
        raise DataError(f"{error}: `intrs data {args.name} --overwrite`") from None
    return 0


def _describe(fetched: Fetched) -> None:
    dataset = fetched.dataset
    show("data set", f"{dataset.name}, in {fetched.folder}")
    for split, images in fetched.splits.items():
        size = " x ".join(map(str, images.image_shape))
        show(split, f"{len(images):,} images of {size}, {len(images.classes)} classes, sha256 {images.sha256[:16]}...")
    show("licence", f"{dataset.licence}; {dataset.home}")
    if fetched.images != dataset.images:
        show("part", f"{fetched.images:,} images; the whole data set has {dataset.images:,}")
    if fetched.root.resolve() != data_folder().resolve():
        show("to use", f"name the folder, or set {VARIABLE}={fetched.root}")


def _list(root: Path) -> None:
    made = table("name", "licence", "here", "images", "download", left=3)
    for dataset in data_sets():
        size = f"{dataset.bytes / 1e6:.0f} MB" if dataset.downloads else ""
        made.add_row(dataset.name, dataset.licence, _here(dataset, root), f"{dataset.images:,}", size)
    print_table(made)
    for name, dataset in KNOWN.items():
        other = f"{dataset.instead}, then `intrs data {name} --from {dataset.source}`"
        print(f"\n{name}: {dataset.home}\n  from {dataset.downloads[0].url}\n  or {other}")
    print(f"\nThe data folder is {printable(str(root))}")


def _here(dataset: DataSet, root: Path) -> str:
    if not dataset.downloads:
        return "ships"
    return "yes" if is_present(dataset.name, root) else "no"
