"""The one loop behind certify, predict and verify: hands units of work to an engine and puts the answers together.

Many images are in flight at once. Votes come back in any order; an image is judged when all of its votes are there, and
the lines come out in the order of the images. What was handed out twice must agree bit for bit.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import statistics
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from intrs import results
from intrs.engines import LostError, Threads
from intrs.errors import IntrsError, ResultsError
from intrs.network import Network
from intrs.progress import Progress
from intrs.results import Kept
from intrs.units import Unit
from intrs.votes import SELECTION, Votes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from intrs.engines import Engine
    from intrs.job import Job
    from intrs.progress import OnProgress
    from intrs.results import Journal, Memory, NoJournal, Row, Writer
    from intrs.units import Counted

SECONDS = 2.0  # of work in a unit
FIRST = 512  # samples of the first units, by which the rate is measured
GRAIN = 64  # samples that fill the vector lanes
AHEAD = 2  # images in flight per slot
WAIT = 0.1  # seconds between looks at the progress
LATE = 4.0  # a unit that takes so many times longer than its like is handed out again
MOST_LOST = 20  # times that one unit may be lost


@dataclass(eq=False)
class Pending:
    """One image in flight."""

    place: int  # in the run, from 0
    position: int  # in the data
    before: Row | None = None  # its line in the run that this one extends
    recalled: Sequence[Kept] = ()  # votes that were counted before the run was interrupted
    selection: Votes | None = None
    votes: Votes | None = None  # from sample 0 on, without a gap
    apart: dict[int, Votes] = field(default_factory=dict)  # further votes, by their first sample
    stage: int = 0  # of an adaptive run
    todo: list[tuple[int, int]] = field(default_factory=list)  # ranges of samples that are not handed out
    out: int = 0  # units of it that are with the engine
    over: bool = False
    seconds: float = 0.0

    def join(self, votes: Votes) -> None:
        """Add what touches; keep the rest for later."""
        self.apart[votes.samples.first] = votes
        while (following := self.apart.pop(self.votes.count if self.votes else 0, None)) is not None:
            self.votes = self.votes + following if self.votes else following

    def next_range(self, most: int) -> tuple[int, int]:
        """The first samples that are to be handed out, at most so many: the first of them, and their number."""
        first, end = self.todo.pop(0)
        if end - first > most:
            self.todo.insert(0, (first + most, end))
        return first, min(most, end - first)


class Agenda:
    """Which unit goes out next, and which lines are known."""

    def __init__(self, job: Job, wanted: Sequence[Pending], slots: Callable[[], int]) -> None:
        self._job = job
        self._slots = slots
        self._waiting = deque(wanted)
        self._order = deque(wanted)  # whose lines are not out yet
        self._flying = 0
        self._ready: list[tuple[int, Pending]] = []  # a heap: images of which a unit can go out, the first ones first
        self._rate = 0.0  # samples per second and slot
        self.counted = 0  # samples that came back, or were recalled

    def next(self) -> tuple[Pending, Unit] | None:
        """The unit that is wanted most, or None if there is nothing to hand out now."""
        while not self._ready:
            if not self._waiting or self._flying >= AHEAD * self._slots():
                return None
            self._open(self._waiting.popleft())
        image = self._ready[0][1]
        first, count = (image.votes.count if image.votes else 0, self._budget())
        if not self._job.rules:
            first, count = image.next_range(count)
        if self._job.rules or not image.todo:
            heapq.heappop(self._ready)
        image.out += 1
        return image, self._unit(image, first, count)

    def take(self, image: Pending, counted: Counted) -> None:
        """A unit came back."""
        image.out -= 1
        image.seconds += counted.seconds
        image.selection = counted.selection or image.selection
        before = image.votes.count if self._job.rules and image.votes else 0
        samples = counted.votes.count - before + (counted.selection.count if counted.selection else 0)
        self._learn(samples, counted.seconds)
        if self._job.rules:
            image.votes, image.stage, image.over = counted.votes, counted.stage, counted.over
        else:
            image.join(counted.votes)
            image.over = not image.todo and not image.out
        if image.over:
            self._flying -= 1
        elif self._job.rules:
            heapq.heappush(self._ready, (image.place, image))

    def finished(self) -> Iterator[Pending]:
        """The images that are counted whole and not out yet, as far as their order allows."""
        while self._order and self._order[0].over:
            yield self._order.popleft()

    @property
    def is_over(self) -> bool:
        """Whether every line is out."""
        return not self._order

    @property
    def is_flying(self) -> bool:
        """Whether anything is to be waited for."""
        return self._flying > 0

    def _learn(self, samples: int, seconds: float) -> None:
        self.counted += samples
        if seconds > 0:
            rate = samples / seconds
            self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate

    def _open(self, image: Pending) -> None:
        if image.before:
            image.selection, image.votes = self._job.judge.kept_votes(image.before)
            image.stage = len(self._job.rules) - 1
        elif self._job.rules:
            self._recall_last(image)
        else:
            self._recall_ranges(image)
        image.over = image.over or not (self._job.rules or image.todo)
        if not image.over:
            self._flying += 1
            heapq.heappush(self._ready, (image.place, image))

    def _recall_last(self, image: Pending) -> None:
        """Of an adaptive image, the most votes that are known; its rules decide from there on."""
        entry = max(image.recalled, key=lambda entry: entry.end, default=None)
        if entry is None:
            return
        image.selection, image.votes = self._votes(entry, SELECTION, entry.counts0), self._votes(entry, 0, entry.counts)
        image.stage, image.seconds = entry.stage, entry.milliseconds / 1000
        image.over = entry.stage == len(self._job.rules)
        self.counted += entry.end + sum(entry.counts0)

    def _recall_ranges(self, image: Pending) -> None:
        """Of an image with a fixed number of samples, the ranges that are known, and what is between them to do."""
        shard, n = self._job.run.shard, self._job.run.request.n
        at, end = shard.samples(n) if shard else (0, n)
        for entry in sorted(image.recalled, key=lambda entry: entry.first):
            if entry.first < at or entry.end > end:
                continue  # votes of a copy that came later, or of another part
            if entry.first > at:
                image.todo.append((at, entry.first))
            image.join(self._votes(entry, entry.first, entry.counts))
            image.selection = self._votes(entry, SELECTION, entry.counts0) if entry.counts0 else image.selection
            image.seconds += entry.milliseconds / 1000
            self.counted += sum(entry.counts) + sum(entry.counts0)
            at = entry.end
        if at < end:
            image.todo.append((at, end))

    def _votes(self, entry: Kept, first: int, counts: tuple[int, ...]) -> Votes:
        smooth = self._job.smooth
        return Votes(counts, smooth.noise, smooth.samples(entry.idx, first, sum(counts)))

    def _unit(self, image: Pending, first: int, count: int) -> Unit:
        job = self._job
        return Unit(
            job.data.images[image.position], int(job.data.indices[image.position]), first, count,
            select=first == 0 and image.selection is None and job.run.n0 > 0,
            label=image.selection.top if image.selection else None, votes=image.votes if job.rules else None,
            stage=image.stage,
        )  # fmt: skip

    def _budget(self) -> int:
        """Samples of a unit: about `SECONDS` of work, and less towards the end, so that all finish together."""
        wanted = int(self._rate * SECONDS) or FIRST
        if not self._job.rules and self._slots() > 1:
            left = self._job.run.request.n * len(self._waiting)
            left += sum(end - first for _, image in self._ready for first, end in image.todo)
            wanted = min(wanted, left // (2 * self._slots()))
        return max(wanted // GRAIN, 1) * GRAIN


@dataclass(eq=False)
class _Out:
    """A unit that is with the engine."""

    image: Pending
    unit: Unit
    since: float


class _Desk:
    """Hands units out and takes answers in; the first answer to a unit counts, a second must agree."""

    def __init__(self, engine: Engine, twice: Fraction) -> None:
        self._engine = engine
        self._twice = twice
        self._out: dict[Future[Counted], _Out] = {}
        self._copies: dict[tuple[int, int], int] = {}  # copies of a unit that are out
        self._answered: dict[tuple[int, int], Counted] = {}  # first answers to units of which copies are out
        self._lost: dict[tuple[int, int], int] = {}
        self._took: deque[float] = deque(maxlen=50)  # seconds between handing out and answer

    @property
    def free(self) -> int:
        """How many units it can take now."""
        return self._engine.slots - len(self._out)

    def hand_out(self, image: Pending, unit: Unit) -> None:
        """Give a unit to the engine, and a copy of it if it is among those to be counted twice."""
        self._submit(image, unit)
        if self._engine.is_remote and _drawn(unit.key) < self._twice:
            self._submit(image, unit)

    def _submit(self, image: Pending, unit: Unit) -> None:
        copy = self._copies.get(unit.key, 0)
        self._copies[unit.key] = copy + 1
        self._out[self._engine.submit(unit, copy)] = _Out(image, unit, time.monotonic())

    def hand_out_late(self) -> None:
        """Nothing else is left to hand out: copies of units that are late go to whoever is free."""
        if not self._engine.is_remote or len(self._took) < 3:
            return
        limit = LATE * statistics.median(self._took)
        now = time.monotonic()
        late = [o for o in self._out.values() if now - o.since > limit and self._copies[o.unit.key] == 1]
        for each in late[: max(self.free, 0)]:
            self._submit(each.image, each.unit)

    def answers(self) -> Iterator[tuple[Pending, Counted]]:
        """What has come back since, after waiting for a moment."""
        if not self._out:
            time.sleep(WAIT)  # an engine without a single slot at the moment
            return
        for future in wait(self._out, WAIT, FIRST_COMPLETED).done:
            given = self._out.pop(future)
            self._copies[given.unit.key] -= 1
            error = future.exception()
            if isinstance(error, LostError):
                self._hand_out_lost(given, error)
            elif error is not None:
                raise error
            elif (counted := self._first(given, future.result())) is not None:
                self._took.append(time.monotonic() - given.since)
                yield given.image, counted

    def _hand_out_lost(self, given: _Out, error: LostError) -> None:
        key = given.unit.key
        if key in self._answered or self._copies[key]:
            self._forget(key)
            return
        self._lost[key] = self._lost.get(key, 0) + 1
        if self._lost[key] > MOST_LOST:
            raise IntrsError(f"the samples of image {key[0]} from {key[1]} on were lost {MOST_LOST} times: {error}")
        self._submit(given.image, given.unit)

    def _first(self, given: _Out, counted: Counted) -> Counted | None:
        """This answer, unless there was one before, with which it must agree."""
        key = given.unit.key
        known = self._answered.get(key)
        if known is not None and not known.agrees(counted):
            raise ResultsError(
                f"two workers disagree about the same samples: image {key[0]}, from sample {key[1]} on, are "
                f"{list(known.votes.counts)} votes on {known.where}, and {list(counted.votes.counts)} on "
                f"{counted.where}. One of these machines computes wrongly; what is in the results may be wrong too"
            )
        if known is None and self._copies[key]:
            self._answered[key] = counted
        self._forget(key)
        return counted if known is None else None

    def _forget(self, key: tuple[int, int]) -> None:
        if not self._copies[key]:
            del self._copies[key]
            self._answered.pop(key, None)


def work(
    job: Job,
    writer: Writer | Memory,
    progress: OnProgress | None = None,
    engine: Engine | None = None,
    twice: Fraction = Fraction(0),
) -> None:
    """Answer for the images that the file does not have yet, on this engine or on the threads of this process."""
    before = results.set_aside(writer.path, job.run) if writer.path else {}
    done, journal = len(writer.rows), writer.journal(job.voter.digest)
    known: dict[int, list[Kept]] = {}
    for entry in journal.entries:
        if (words := _misfit(job, entry)) is not None:
            raise ResultsError(f"{journal.path}, image {entry.idx}: {words}; delete it, and it is counted again")
        known.setdefault(entry.place, []).append(entry)
    wanted = [
        Pending(i, position, _known(job, writer.path, before.get(job.index(position))), known.get(position, ()))
        for i, position in enumerate(job.positions[done:], done)
    ]
    with journal, engine or local_engine(job) as chosen:
        for image in answers(job, wanted, chosen, progress, done, journal, twice):
            if job.run.is_judged:
                writer.append(row_of(job, image))
        if job.run.is_judged:
            journal.drop()


def row_of(job: Job, image: Pending) -> Row:
    """The line of an image that was counted whole."""
    assert image.votes is not None
    return job.row(image.position, image.selection, image.votes, image.seconds)


def _misfit(job: Job, entry: Kept) -> str | None:
    """Why votes that were kept cannot be of this run."""
    run, place = job.run, entry.place
    if place not in job.positions or (job.index(place), job.data.label(place)) != (entry.idx, entry.label):
        return "it is no image of this run"
    if len(entry.counts) != run.classes or (entry.counts0 and len(entry.counts0) != run.classes):
        return f"its votes should be for {run.classes} classes"
    if entry.end > run.request.n or sum(entry.counts0) not in (0, run.n0) or not sum(entry.counts):
        return "it has another number of samples"
    if job.rules and (entry.first or not entry.counts0 or not 0 <= entry.stage <= len(job.rules)):
        return "it is not of an adaptive run"
    if job.rules and entry.end not in job.rules[min(entry.stage, len(job.rules) - 1)].schedule.looks:
        return "its rule does not look after so many samples"
    return None


def _known(job: Job, path: Path | None, row: Row | None) -> Row | None:
    """The line that an image had, if its votes can be of the run that is extended."""
    if row and path and (words := job.judge.misfit(row)) is not None:
        raise ResultsError(f"{results.set_aside_path(path, job.run)}, image {row.idx}: {words}")
    return row


def local_engine(job: Job) -> Engine:
    """The threads of this process: all for one image, or one per image if the images are adaptive.

    The steps of an adaptive image are short and wait for each other, so threads would wait within an image.
    """
    threads = job.run.request.threads
    if not (job.rules and isinstance(job.smooth.base, Network)):
        return Threads(job.voter, 1, threads)
    return Threads(job.voter, min(threads or cores(), len(job.positions)), 1)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def answers(
    job: Job,
    wanted: Sequence[Pending],
    engine: Engine,
    progress: OnProgress | None = None,
    done: int = 0,
    journal: Journal | NoJournal | None = None,
    twice: Fraction = Fraction(0),
) -> Iterator[Pending]:
    """These images with all of their votes, in their order.

    done: images of the run that were done before, for the reports. The journal gets the votes of images that have to
    wait, for their own samples or for images before them. twice: the share of units that a cluster counts twice.
    """
    agenda, desk = Agenda(job, wanted, lambda: engine.slots), _Desk(engine, twice)
    report = _Reports(job, engine, agenda, progress, done, done + len(wanted))
    report(done)
    while not agenda.is_over:
        while desk.free > 0 and (given := agenda.next()) is not None:
            desk.hand_out(*given)
        desk.hand_out_late()
        came = list(desk.answers()) if agenda.is_flying else []
        for image, counted in came:
            agenda.take(image, counted)
        out = set()
        for image in agenda.finished():
            yield image
            out.add(image.place)
            done += 1
            report(done)
        for image, counted in came:
            if journal and (image.place not in out or not job.run.is_judged):
                journal.append(_entry(job, image, counted))
        report(done)


def _drawn(key: tuple[int, int]) -> Fraction:
    """A number between 0 and 1 for a unit, the same in every run."""
    return Fraction(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "little"), 2**64)


def _entry(job: Job, image: Pending, counted: Counted) -> Kept:
    selection = image.selection if job.rules else counted.selection
    return Kept(
        image.position, job.index(image.position), job.data.label(image.position), counted.stage,
        counted.votes.samples.first, round(1000 * (image.seconds if job.rules else counted.seconds)),
        selection.counts if selection else (), counted.votes.counts, job.data.file(image.position),
    )  # fmt: skip


@dataclass(eq=False)
class _Reports:
    """What the caller hears: samples of all images, or images, whose samples nobody knows beforehand."""

    job: Job
    engine: Engine
    agenda: Agenda
    progress: OnProgress | None
    before: int  # images that were done before
    total: int

    def __call__(self, done: int) -> None:
        if not self.progress:
            return
        total, each = self.total, self.job.samples_per_image()
        words = [f"image {min(done + 1, total)} of {total}", self.engine.note()]
        counted = self.agenda.counted + self.engine.running()
        if self.job.rules:
            words.append(f"{counted:,} samples" if counted else "")
            so_far, whole, unit = done, total, "images"
        else:
            so_far, whole, unit = self.before * each + counted, total * each, "samples"
        note = ", ".join(word for word in words if word)
        self.progress(Progress(min(so_far, whole), whole, unit, note))
