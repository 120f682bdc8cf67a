"""Adaptive certification: only as many samples as the answer needs. docs/adaptive.md holds the proofs.

looks -> boundary -> tables -> rule -> stages: when to look and what that may cost, the exact boundary of one test, the
boundaries of all radii, when to stop, and what was asked for.
"""

from intrs.adaptive.rule import Rule, SpendingRule, UnionRule, next_look
from intrs.adaptive.stages import GIVE_UP, LONGEST_PLAN, Stage, Stages, stages_of

__all__ = ["GIVE_UP", "LONGEST_PLAN", "Rule", "SpendingRule", "Stage", "Stages", "UnionRule", "next_look", "stages_of"]
