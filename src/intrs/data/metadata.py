"""metadata.csv beside images, as in the image folders of Hugging Face's `datasets`: a label per file name."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import numpy as np

from intrs.data.limits import MOST_CLASSES
from intrs.errors import DataError
from intrs.files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

NAME, FILE, LABEL = "metadata.csv", "file_name", "label"
MOST_BYTES = 2**26


def read_labels(path: Path, files: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]] | None:
    """The labels of these files and the names of their classes; None if the file says nothing of labels.

    Labels that are whole numbers are the classes' numbers, and then the classes have no names; others are names, and
    the classes are in their sorted order.
    """
    try:
        told = _labels(path)
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: not a readable table ({error})") from None
    if told is None:
        return None
    if odd := next((name for name in files if name not in told), None):
        raise DataError(f"{path}: it has no line for the image {odd}")
    if odd := next(iter(sorted(set(told) - set(files))), None):
        raise DataError(f"{path}: it names {odd}, which is no image of that folder")
    labels = [told[name] for name in files]
    if all(re.fullmatch(r"\d{1,9}", label, re.ASCII) for label in labels):
        return np.array(labels, np.int64), ()
    classes = sorted(set(labels))
    if len(classes) > MOST_CLASSES or not all(classes):
        raise DataError(f"{path}: every image needs a label, of at most {MOST_CLASSES:,} classes")
    places = {name: place for place, name in enumerate(classes)}
    return np.array([places[label] for label in labels], np.int64), tuple(classes)


def _labels(path: Path) -> dict[str, str] | None:
    rows = csv.DictReader(
        io.StringIO(read_bounded(path, MOST_BYTES, DataError).decode("utf-8-sig"), newline=""), strict=True
    )
    columns = rows.fieldnames or ()
    if FILE not in columns:
        raise ValueError(f"no column {FILE}")
    if LABEL not in columns:
        return None
    told: dict[str, str] = {}
    for row in rows:
        name, label = row[FILE], row[LABEL]
        if not name or label is None or name in told:
            raise ValueError(f"line {rows.line_num} has no {FILE} or {LABEL}, or one that was there before")
        told[name] = label.strip()
    return told
