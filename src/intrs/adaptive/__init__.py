"""Adaptive certification: only as many samples as the answer needs. docs/adaptive.md holds the proofs.

looks -> boundary -> tables -> rule -> plan: when to look and what that may cost, the exact boundary of one test, the
boundaries of all radii, when to stop, and what was asked for.
"""

from intrs.adaptive.plan import GIVE_UP, Plan, Stage
from intrs.adaptive.rule import Rule, SpendingRule, UnionRule

__all__ = ["GIVE_UP", "Plan", "Rule", "SpendingRule", "Stage", "UnionRule"]
