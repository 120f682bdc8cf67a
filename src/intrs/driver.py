"""The one loop behind certify, predict and verify: hands units of work to an engine and puts the answers together.

Many images are in flight at once. Votes come back in any order; an image is judged when all of its votes are there, and
the lines come out in the order of the images. What was handed out twice must agree bit for bit.
"""

from __future__ import annotations

import heapq
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from intrs import results
from intrs.engines import AUTOMATIC, Cluster, Desk, Threads, cores
from intrs.errors import ResultsError, SettingsError
from intrs.exact import shown
from intrs.network import Network
from intrs.progress import Progress
from intrs.results import Kept
from intrs.units import Unit
from intrs.votes import SELECTION, Votes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from intrs.engines import Engine, Workers
    from intrs.job import Job
    from intrs.progress import OnProgress
    from intrs.results import Journal, Memory, NoJournal, Row, Writer
    from intrs.units import Counted

SECONDS = 2.0  # of work in a unit
FIRST = 512  # samples of the first units, by which the rate is measured
GRAIN = 64  # samples of a thread that fill the vector lanes
ROUNDS = 1024  # samples per thread, if a unit has several: they wait for the last one, which has up to 16 of them to do
AHEAD = 2  # images in flight per slot
HANDLED = 400  # units per second that one driver is asked to handle: with many slots, units are larger


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
        """The first samples that are to be handed out, at most so many: the first of them, and their number.

        A range is divided evenly, because a small rest would leave its worker waiting at the end of a run.
        """
        first, end = self.todo.pop(0)
        parts = -((first - end) // most)
        count = min(-((first - end) // (parts * GRAIN)) * GRAIN, most, end - first)
        if first + count < end:
            self.todo.insert(0, (first + count, end))
        return first, count


class Agenda:
    """Which unit goes out next, and which lines are known."""

    def __init__(self, job: Job, wanted: Sequence[Pending], engine: Engine) -> None:
        self._job = job
        self._engine = engine
        self._waiting = deque(wanted)
        self._order = deque(wanted)  # whose lines are not out yet
        self._flying = 0
        self._ready: list[tuple[int, Pending]] = []  # a heap: images of which a unit can go out, the first ones first
        self._rate = 0.0  # samples per second and slot
        shard, n = job.run.shard, job.run.request.n
        self._range = shard.samples(n) if shard else (0, n)  # of every image, if the number is fixed
        self._each = self._range[1] - self._range[0]
        self.counted = 0  # samples that came back, or were recalled

    def next(self) -> tuple[Pending, Unit] | None:
        """The unit that is wanted most, or None if there is nothing to hand out now."""
        while not self._ready:
            if not self._waiting or self._flying >= AHEAD * self._engine.slots:
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
        if image.before and not image.recalled:
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
        at, end = self._range
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
        """Samples of a unit: about `SECONDS` of work, and less towards the end, so that all finish together.

        With very many slots it is more work, so that the driver can handle the answers as they come.
        """
        slots, threads = self._engine.slots, self._engine.threads
        least = int(self._rate * slots / HANDLED)
        wanted = max(int(self._rate * SECONDS), least) or FIRST
        if threads > 1 and self._rate:
            wanted = max(wanted, ROUNDS * threads)
        if not self._job.rules and slots > 1:
            left = self._each * len(self._waiting)
            left += sum(end - first for _, image in self._ready for first, end in image.todo)
            wanted = min(wanted, max(left // (2 * slots), least))
        grain = GRAIN * threads
        return max(wanted // grain, 1) * grain


def work(
    job: Job,
    writer: Writer | Memory,
    progress: OnProgress | None = None,
    engine: Engine | None = None,
    twice: Fraction = Fraction(0),
) -> None:
    """Answer for the images that the file does not have yet, on this engine or on the threads of this process."""
    before = results.set_aside(writer.path, job.run) if writer.path else {}
    done, journal = len(writer.rows), writer.journal(job.run.digest)
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
            writer.sync()
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
    if not job.rules and bool(entry.counts0) != (entry.first == 0 < run.n0):
        return "the class is selected with the first samples and only there"
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


def joined(ray: str | bool | None, workers: Workers, *jobs: Job) -> AbstractContextManager[Cluster | None]:
    """The cluster that was asked for, which is left in the end; None for the threads of this process."""
    if ray is None or ray is False:
        if workers != "core":
            raise SettingsError(f"workers = {shown(workers)} is for a cluster; ask for one with ray, or leave it out")
        return nullcontext()
    if not all(job.run.noise.on_integers for job in jobs):
        raise SettingsError("a cluster counts integer networks; continuous noise in floats would differ by machine")
    threads = max((job.run.request.threads for job in jobs), default=0)
    return Cluster(AUTOMATIC if ray is True else ray, workers, threads)


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
    agenda, desk = Agenda(job, wanted, engine), Desk[Pending](engine, twice)
    report = _Reports(job, engine, agenda, progress, done, done + len(wanted))
    report(done)
    while not agenda.is_over:
        desk.hand_out_again()
        while desk.free > 0 and (given := agenda.next()) is not None:
            desk.hand_out(*given)
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
