"""Classes of data and of a model, matched by their names, so that a label means the same to both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from intrs.data.images import Images
from intrs.errors import ClassesError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMED = 5  # classes in a message


def matched(data: Images, names: Sequence[str]) -> Images:
    """The data with its labels as numbers of these classes, which are found by name; the same data if they are already.

    Upper and lower case, spaces, hyphens and underscores make no difference. The data may lack some of the classes;
    ClassesError if it has others. Data without labels or without names are returned as they are.
    """
    if not data.has_labels or not data.classes or not names:
        return data
    places = {_plain(name): place for place, name in enumerate(names)}
    wanted = {_plain(name) for name in data.classes}
    if twins := [name for place, name in enumerate(names) if _plain(name) in wanted and places[_plain(name)] != place]:
        raise ClassesError(
            f"the model has two classes with the name {twins[0]}, so that it is not clear which of them {data.name} "
            "means. Give the model's classes other names, or say that the labels are the model's numbers"
        )
    if others := [name for name in data.classes if _plain(name) not in places]:
        raise ClassesError(
            f"{data.name} has classes that the model does not know by name: {_some(others)}. "
            f"The model's are {_some(names)}. Rename the data's classes, give the names of the model's classes "
            "in the order of its outputs, or say that the labels are the model's numbers"
        )
    found = np.array([places[_plain(name)] for name in data.classes], np.int64)
    if len(set(found.tolist())) < len(found):
        raise ClassesError(f"{data.name}: two of its classes have the name of one class of the model")
    if list(found) == list(range(len(names))):
        return data
    labels = found[data.labels]
    return Images(data.name, data.images, labels, data.indices, tuple(names), data.files, data.remarks)


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c not in " -_")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
