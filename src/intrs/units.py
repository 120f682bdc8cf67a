"""Units of work: some samples of one image, counted anywhere, in any order, again or twice, with the same bits.

A unit is a pure function of the voter, which a worker gets once, and of itself: noise is addressed by seed, image and
sample, so votes over ranges that touch add up to the votes of one machine that counts them all.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from intrs.errors import IntrsError
from intrs.network import Network
from intrs.version import __version__
from intrs.votes import SELECTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.adaptive import Rule
    from intrs.progress import OnProgress
    from intrs.smooth import Smooth
    from intrs.votes import Votes


@dataclass(frozen=True, eq=False)
class Voter:
    """All that a worker needs beside the units: the classifier under noise, and when its sampling stops."""

    smooth: Smooth
    rules: tuple[Rule, ...] = ()  # of an adaptive run, one per stage
    n0: int = 0
    n: int = 0

    @cached_property
    def digest(self) -> str:
        """What must be the same wherever the units of one run are counted; the kernel set may differ."""
        smooth = self.smooth
        network = smooth.base.identity if isinstance(smooth.base, Network) else "a classifier in memory"
        rules = " ".join(rule.name for rule in self.rules)
        parts = (__version__, network, smooth.noise, hex(smooth.seed), smooth.classes, self.n0, self.n, rules)
        return hashlib.sha256(repr(tuple(map(str, parts))).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Unit:
    """Samples of one image that one worker counts.

    With `select`, the class is selected first. In a run with a fixed n they are `first` .. `first + count - 1`. In an
    adaptive run `votes` are those so far and `stage` is that of the rule that goes on; `count` is the number of samples
    after which the unit ends at the next look, if the rules have not stopped before.
    """

    image: NDArray[Any]
    index: int  # which addresses the noise
    first: int
    count: int
    select: bool = False
    label: int | None = None  # the class that was selected, if an adaptive run has selected it
    votes: Votes | None = None
    stage: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """Image and first sample: what tells the units of a run apart."""
        return self.index, self.first


@dataclass(frozen=True)
class Counted:
    """The votes of a unit."""

    selection: Votes | None
    votes: Votes  # over the samples of this unit; in an adaptive run over all so far
    stage: int  # at which an adaptive run goes on
    over: bool  # whether its rules have stopped
    seconds: float
    where: str  # host and process

    def agrees(self, other: Counted) -> bool:
        """Whether two workers that were given the same unit say the same."""
        return (self.selection, self.votes, self.stage, self.over) == (
            other.selection, other.votes, other.stage, other.over,
        )  # fmt: skip


def count_unit(voter: Voter, unit: Unit, progress: OnProgress | None = None) -> Counted:
    """Do the work. An exception from `progress` gives it up."""
    begin, smooth = time.perf_counter(), voter.smooth
    selection = None
    if unit.select:
        selection = smooth.sample(unit.image, smooth.samples(unit.index, SELECTION, voter.n0))
    if not voter.rules:
        votes = smooth.sample(unit.image, smooth.samples(unit.index, unit.first, unit.count), progress)
        return Counted(selection, votes, 0, False, time.perf_counter() - begin, where())
    label = selection.top if selection else unit.label
    if label is None:
        raise IntrsError("an adaptive unit needs the class that was selected")
    votes, stage, over = smooth.sample_on(
        unit.image, unit.index, label, voter.rules, unit.votes, unit.stage, unit.count, progress
    )
    return Counted(selection, votes, stage, over, time.perf_counter() - begin, where())


def where() -> str:
    """This host and process."""
    return f"{platform.node()}, process {os.getpid()}"
