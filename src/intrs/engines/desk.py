"""Between driver and engine: what is lost or late is handed out again, and what is counted twice must agree."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import statistics
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from fractions import Fraction
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from intrs.engines.engine import LostError
from intrs.errors import IntrsError, ResultsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from intrs.engines.engine import Engine, Reply
    from intrs.units import Counted, Unit

WAIT = 0.1  # seconds between looks at the progress
LATE = 4.0  # a unit that takes so many times longer than its like is handed out again
LEAST_LATE = 1.0  # seconds, before any unit is late
MOST_OUT = 3  # copies of one unit that are out at once
MOST_LOST = 20  # times that one unit may be lost
MOST_LOST_BY_ONE = 5  # of them by one place, which is counted on no more for this unit if there are others
SHORTEST, LONGEST = 0.05, 5.0  # seconds before a lost unit is handed out again; doubled every time

T = TypeVar("T")


@dataclass(eq=False)
class _Task(Generic[T]):
    """A unit, and what has become of it."""

    image: T
    unit: Unit
    wanted: int  # answers that must agree
    out: int = 0  # copies that are with the engine
    since: float = 0.0  # when the last copy was handed out
    lost: int = 0
    first: Counted | None = None
    answers: int = 0
    asked: set[str] = field(default_factory=set)  # places that were given it
    answered: set[str] = field(default_factory=set)  # places whose answer counts
    failed: Counter[str] = field(default_factory=Counter)  # times that a place lost it

    @property
    def is_answered(self) -> bool:
        """Whether all answers are there."""
        return self.answers == self.wanted

    @property
    def is_missing(self) -> bool:
        """Whether fewer answers are there or under way than are wanted."""
        return self.out + self.answers < self.wanted

    @property
    def given_up(self) -> set[str]:
        """Places that lost it again and again."""
        return {place for place, times in self.failed.items() if times >= MOST_LOST_BY_ONE}


class Desk(Generic[T]):
    """Hands units of images out and takes answers in.

    The first answer to a unit counts; a unit that is to be counted twice is answered when two places have answered, or
    one has answered twice and there is no other, but for places that lost the unit again and again.
    """

    def __init__(self, engine: Engine, twice: Fraction = Fraction(0)) -> None:
        self._engine = engine
        self._twice = twice
        self._out: dict[Reply, _Task[T]] = {}
        self._came: SimpleQueue[Reply] = SimpleQueue()
        self._again: list[tuple[float, int, _Task[T]]] = []  # a heap: what was lost, and when it may go out again
        self._numbers = itertools.count()  # so that tasks in the heap are never compared
        self._took: deque[float] = deque(maxlen=50)  # seconds per sample between handing out and answer
        self._looked = 0.0

    @property
    def free(self) -> int:
        """How many units it can take now."""
        return self._engine.slots - len(self._out) - len(self._again)

    def hand_out(self, image: T, unit: Unit) -> None:
        """Give a unit to the engine, and a copy of it if it is among those to be counted twice."""
        twice = self._engine.is_remote and _drawn(unit.key) < self._twice
        task = _Task(image, unit, 2 if twice else 1)
        while task.is_missing:
            self._submit(task)

    def hand_out_again(self) -> None:
        """What was lost, after a while; and if there are workers without work, copies of what is late."""
        now = time.monotonic()
        while self._again and self._again[0][0] <= now and len(self._out) < self._engine.slots:
            self._submit(heapq.heappop(self._again)[2])
        if self._engine.is_remote and self.free > 0 and now - self._looked >= WAIT:
            self._looked = now
            for task in self._late(now)[: self.free]:
                self._submit(task)

    def answers(self) -> Iterator[tuple[T, Counted]]:
        """What has come back since, after waiting for a moment."""
        try:
            answer = self._came.get(timeout=WAIT)
            while True:
                if (found := self._take(answer)) is not None:
                    yield found
                answer = self._came.get_nowait()
        except Empty:
            return

    def _submit(self, task: _Task[T]) -> None:
        answer = self._engine.submit(task.unit, self._avoided(task))
        task.out, task.since = task.out + 1, time.monotonic()
        task.asked.add(answer.place)
        self._out[answer] = task
        answer.add_done_callback(self._came.put)  # type: ignore[arg-type]

    def _avoided(self, task: _Task[T]) -> AbstractSet[str]:
        """Places that were asked already; if there is no other, those that answered or lost it again and again."""
        if not task.asked:  # most units: they need not know which places there are
            return task.asked
        places = self._engine.places - task.given_up
        if not places <= task.asked:
            return task.asked
        return task.given_up if places <= task.answered else task.answered | task.given_up

    def _late(self, now: float) -> list[_Task[T]]:
        """Units whose last copy takes much longer than others did, the oldest first."""
        if len(self._took) < 3:
            return []
        usual = statistics.median(self._took)
        tasks = {id(task): task for task in self._out.values()}.values()
        late = [
            task
            for task in tasks
            if not task.is_answered
            and task.out < MOST_OUT
            and now - task.since > max(LATE * usual * task.unit.count, LEAST_LATE)
        ]
        return sorted(late, key=lambda task: task.since)

    def _take(self, answer: Reply) -> tuple[T, Counted] | None:
        task = self._out.pop(answer)
        task.out -= 1
        error = answer.exception()
        if isinstance(error, LostError):
            task.failed[answer.place] += 1
            self._lose(task, error)
            return None
        if error is not None:
            raise error
        self._took.append((time.monotonic() - task.since) / max(task.unit.count, 1))
        counted = answer.result()
        _check_agreement(task.first, counted, task.unit)
        if task.is_answered:  # a copy that was late
            return None
        if answer.place in task.answered and self._engine.places - task.answered - task.given_up:
            self._lose(task, LostError("only one of several machines answers"))
            return None
        task.first, task.answers = task.first or counted, task.answers + 1
        task.answered.add(answer.place)
        return (task.image, task.first) if task.is_answered else None

    def _lose(self, task: _Task[T], error: LostError) -> None:
        if not task.is_missing:
            return
        task.lost += 1
        if task.lost > MOST_LOST:
            index, first = task.unit.key
            raise IntrsError(
                f"the samples of image {index} from {first} on were lost {MOST_LOST} times: {error}. "
                "What was counted so far is kept, and the run can be resumed"
            )
        wait = min(SHORTEST * 2.0 ** (task.lost - 1), LONGEST)
        heapq.heappush(self._again, (time.monotonic() + wait, next(self._numbers), task))


def _check_agreement(known: Counted | None, counted: Counted, unit: Unit) -> None:
    if known is None or known.agrees(counted):
        return
    index, first = unit.key
    raise ResultsError(
        f"two workers disagree about the same samples: image {index}, from sample {first} on, are "
        f"{list(known.votes.counts)} votes on {known.where}, and {list(counted.votes.counts)} on {counted.where}. "
        "One of these machines computes wrongly; what is in the results may be wrong too"
    )


def _drawn(key: tuple[int, int]) -> Fraction:
    """A number between 0 and 1 for a unit, the same in every run."""
    return Fraction(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "little"), 2**64)
