"""Votes judged again: at another alpha, or as predictions. Nothing is sampled."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from intrs.certificate import Certified, Certifier, parse_alpha
from intrs.metrics import Answer, Results, Share
from intrs.noise import PIXEL_RANGE
from intrs.smooth import Predicted, judge_prediction
from intrs.votes import Samples, Votes, top_class

if TYPE_CHECKING:
    from intrs.results import Row


def judged_again(votes: Results, alpha: str, dimension: int) -> Results:
    """The certificates that the same votes give at another alpha."""
    assert votes.run
    run = replace(votes.run, request=replace(votes.run.request, alpha=alpha))
    judge = cache(Certifier(run.noise, dimension, run.request.n, run.alpha).judge)
    answers = (_answer(row, judge(top_class(row.counts0), row.counts)) for row in votes.rows)
    return Results(votes.paths, tuple(answers), run)


def _answer(row: Row, outcome: object) -> Answer:
    if isinstance(outcome, Certified):
        return Answer(row.idx, row.label, outcome.label, Fraction(outcome.radius_sq, PIXEL_RANGE**2))
    return Answer(row.idx, row.label, None, None)


def predicted(votes: Results, dimension: int, alpha: str) -> tuple[Share, Share]:
    """Correct and abstained. Votes for certificates are judged as predictions."""
    assert votes.run
    noise, seed, level = votes.run.noise, votes.run.seed, parse_alpha(alpha)
    right = quiet = 0
    for row in votes.rows:
        outcome = judge_prediction(Votes(row.counts, noise, Samples(seed, row.idx, 0, row.n)), dimension, level)
        right += isinstance(outcome, Predicted) and outcome.label == row.label
        quiet += not isinstance(outcome, Predicted)
    return Share(right, len(votes.rows)), Share(quiet, len(votes.rows))
