"""Labels that are found by the names of their classes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tiny_model import images

from intrs.data import Images, open_data
from intrs.data.matching import matched
from intrs.errors import ClassesError
from intrs.job import check_fit

PIXELS, LABELS = images()
NAMES = ("airplane", "cat", "dog", "traffic light")


def data(*classes: str) -> Images:
    return Images("mine", PIXELS, LABELS, np.arange(8), classes)


def test_the_same_classes_are_the_same_data() -> None:
    for classes in (NAMES, ("Airplane", "CAT", "dog", "Traffic_Light")):
        mine = data(*classes)
        assert matched(mine, NAMES) is mine


def test_another_order_gives_other_labels() -> None:
    found = matched(data("dog", "traffic-light", "cat", "airplane"), NAMES)
    assert found.labels.tolist() == np.array([2, 3, 1, 0])[LABELS].tolist()
    assert found.classes == NAMES
    assert found.sha256 != data("dog", "traffic-light", "cat", "airplane").sha256


def test_some_of_the_classes_are_enough() -> None:
    assert set(matched(data("cat", "dog", "traffic light"), NAMES).labels.tolist()) == {1, 2, 3}


def test_other_classes_are_refused_with_the_way_out() -> None:
    with pytest.raises(ClassesError) as refusal:
        matched(data("Auto", "Flugzeug", "Katze"), NAMES)
    for words in (
        "mine has classes that the model does not know by name: Auto, Flugzeug, Katze",
        "The model's are airplane, cat, dog, traffic light",
        "give the names of the model's classes in the order of its outputs",
        "the labels are the model's numbers",
    ):
        assert words in str(refusal.value)
    with pytest.raises(ClassesError, match="two of its classes have the name of one"):
        matched(data("cat", "Cat", "dog"), NAMES)


def test_more_or_fewer_classes_than_the_model_has() -> None:
    with pytest.raises(ClassesError, match="Give the names of the model's classes in the order of its outputs"):
        check_fit(cast("Any", SimpleNamespace(input_shape=(4, 4, 3), classes=9)), data("cat", "dog", "fish"))


def test_without_names_or_labels_there_is_nothing_to_match() -> None:
    for mine, names in ((data(), NAMES), (data("x", "y", "z"), ()), (open_data(PIXELS), NAMES)):
        assert matched(mine, names) is mine


def test_two_classes_of_the_model_that_look_alike() -> None:
    """ImageNet has two classes "crane"; by name they cannot be told apart."""
    names = ["crane", "dog", "bird", "Crane"]
    with pytest.raises(ClassesError, match="two classes with the name crane"):
        matched(data("crane", "dog", "bird"), names)
    names.insert(0, "cat")
    assert matched(data("dog", "bird", "cat"), names).labels.tolist()[:3] == [2, 3, 0]
