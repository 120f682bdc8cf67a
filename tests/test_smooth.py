"""The smoothed classifier: mistakes are told before sampling, and votes are judged only by what they were drawn for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pytest
from layers import network, scores_of

from intrs.certificate import Certified, Certifier
from intrs.errors import IntrsError
from intrs.noise import Noise
from intrs.smooth import Predicted, Smooth, judge, judge_prediction
from intrs.votes import SELECTION, Samples, Votes

NOISE, ALPHA = Noise.of("discrete", "0.25"), Fraction(1, 1000)
IMAGE = np.random.default_rng(3).integers(0, 256, (4, 4, 3)).astype(np.uint8)
NET = network(scores_of(0, (4, 4, 3), classes=5))
CERTIFIER = Certifier(NOISE, 48, 1000, ALPHA)
SELECTED, ESTIMATED = (
    Votes((5, 95), NOISE, Samples(7, 3, SELECTION, 100)),
    Votes((20, 980), NOISE, Samples(7, 3, 0, 1000)),
)


def test_judge() -> None:
    judged = judge(SELECTED, ESTIMATED, CERTIFIER)
    assert isinstance(judged, Certified)
    assert (judged.label, judged.radius_sq) == (1, CERTIFIER.radius_sq(980))


@pytest.mark.parametrize(
    ("selection", "estimation", "words"),
    [
        ({"first": 0}, {}, "samples of their own"),
        ({}, {"first": SELECTION}, "samples of their own"),
        ({"seed": 8}, {}, "one image, under one noise and one seed"),
        ({"image": 4}, {}, "one image, under one noise and one seed"),
        ({"noise": Noise.of("rounded", "0.25")}, {}, "one image, under one noise and one seed"),
        ({"noise": Noise.of("discrete", "1")}, {"noise": Noise.of("discrete", "1")}, "do not fit a certifier"),
        ({}, {"counts": (20, 979)}, "999 votes .* do not fit a certifier of 1000"),
    ],
)
def test_judge_refuses_votes_of_something_else(
    selection: dict[str, Any], estimation: dict[str, Any], words: str
) -> None:
    with pytest.raises(IntrsError, match=words):
        judge(changed(SELECTED, **selection), changed(ESTIMATED, **estimation), CERTIFIER)


def changed(votes: Votes, **changes: Any) -> Votes:
    own = {name: changes.pop(name) for name in ("counts", "noise") if name in changes}
    samples = replace(votes.samples, **changes, count=sum(own.get("counts", votes.counts)))
    return replace(votes, **own, samples=samples)


def test_judge_prediction_charges_the_table() -> None:
    """Eleven votes of eleven have the p-value 2^-10; tau is too much of an alpha that is just that."""
    sampled = Votes((0, 11), NOISE, Samples(7, 3, 0, 11))
    tau = NOISE.tau(11, 48)
    assert isinstance(judge_prediction(sampled, 48, Fraction(1, 1024) + tau), Predicted)
    assert not isinstance(judge_prediction(sampled, 48, Fraction(1, 1024) + tau / 2), Predicted)


def never(_: Any) -> NoReturn:
    pytest.fail("sampled before the settings were checked")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"alpha": 2}, "alpha"), ({"n": 0}, "positive"), ({"n": 10**9}, "samples"), ({"n0": 0}, "n0"), ({"n0": -1}, "n0")],
)
@pytest.mark.parametrize("classes", [None, 5])
def test_mistakes_are_told_before_sampling(options: dict[str, Any], words: str, classes: int | None) -> None:
    with pytest.raises(IntrsError, match=words):
        Smooth(never, NOISE, classes=classes).certify(IMAGE, **options)
    if "alpha" in options:
        with pytest.raises(IntrsError, match=words):
            Smooth(never, NOISE, classes=classes).predict(IMAGE, **options)


@pytest.mark.parametrize("form", ["one", "two"])
def test_a_callable_gets_the_certificate_of_its_network(form: Any) -> None:
    by_network = Smooth(NET, NOISE, seed=7, form=form).certify(IMAGE, n0=100, n=2000)
    assert Smooth(NET.scores, NOISE, seed=7, form=form).certify(IMAGE, n0=100, n=2000) == by_network
    assert Smooth(NET.predict, NOISE, seed=7, form=form, classes=5).certify(IMAGE, n0=100, n=2000) == by_network
