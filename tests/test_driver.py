"""Units of work in any order, lost, late and twice: the lines are those of one machine that counts one by one."""

from __future__ import annotations

import errno
import os
import random
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tiny_model import save_images, save_model

import intrs
from intrs import driver, results
from intrs.driver import local_engine, work
from intrs.engines import Engine, LostError, Reply, Threads, desk
from intrs.errors import IntrsError, ResultsError
from intrs.job import Job, begin, open_job
from intrs.request import Certify, Predict
from intrs.units import Unit, count_unit

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

RUNS: dict[str, dict[str, Any]] = {
    "fixed": {"n": 700},
    "adaptive": {"n": 5000, "radii": (0, 0.1, 0.2)},
    "precision": {"n": 5000, "precision": "5%"},
}


@pytest.fixture(autouse=True)
def _small_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many units per image, though the images are tiny."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver, "SECONDS", 1e-9)
    monkeypatch.setattr(driver, "HANDLED", 1e12)
    monkeypatch.setattr(driver, "FIRST", 64)
    monkeypatch.setattr(desk, "WAIT", 0.002)
    monkeypatch.setattr(desk, "SHORTEST", 0.0)
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")


def job(kind: str = "fixed", **settings: Any) -> Job:
    return open_job(Certify(model="tiny.onnx", data="tiny.npz", seed=7, **RUNS[kind] | settings))


def lines(path: Path | None = None, *, of: Any = None) -> list[Any]:
    return [replace(row, time="") for row in (results.read(path)[1] if path else of)]


def alone(given: Job) -> list[Any]:
    """The lines by the one path that knows no units: `Smooth` and the judge."""
    found = []
    for position in given.positions:
        image, index = given.data.images[position], given.index(position)
        selection = given.sample(position, intrs.votes.SELECTION, given.run.n0)
        counted = (
            given.smooth.sample_until(image, index, selection.top, given.rules)
            if given.rules
            else given.sample(position, 0, given.run.request.n)
        )
        found.append(given.row(position, selection, counted, 0.0))
    return lines(of=found)


class Unreliable(Engine):
    """Answers in any order, after any time; loses units, and changes a vote if asked."""

    is_remote = True

    def __init__(self, given: Job, seed: int, *, wrong: bool = False, loss: float = 0.2) -> None:
        self.slots = random.Random(seed).randrange(1, 6)
        self._voter, self._chance, self._wrong, self._loss = given.voter, random.Random(seed), wrong, loss
        self._out: list[tuple[Unit, Reply]] = []
        self.given: list[tuple[int, int]] = []
        self._answered: set[tuple[int, int]] = set()

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        self.given.append(unit.key)
        self._out.append((unit, Reply(f"node {self._chance.randrange(3)}")))
        made = self._out[-1][1]
        while self._out and (len(self._out) >= self.slots or self._chance.random() < 0.7):
            self._answer()
        return made

    def running(self) -> int:
        """Called at every look: time goes on."""
        while self._out and self._chance.random() < 0.9:
            self._answer()
        return 0

    def _answer(self) -> None:
        unit, future = self._out.pop(self._chance.randrange(len(self._out)))
        if self._chance.random() < self._loss:
            future.set_exception(LostError("the node is gone"))
            return
        counted = count_unit(self._voter, unit)
        if self._wrong and unit.key in self._answered:
            votes = (counted.votes.counts[0] + 1, counted.votes.counts[1] - 1, *counted.votes.counts[2:])
            counted = replace(counted, votes=replace(counted.votes, counts=votes))
        self._answered.add(unit.key)
        future.set_result(counted)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("kind", RUNS)
def test_threads_give_the_lines_of_one_thread(kind: str, tmp_path: Path) -> None:
    given = job(kind)
    with results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer, engine=Threads(given.voter, 3, 1))
    assert lines(tmp_path / "r.tsv") == alone(given)
    assert not results.journal_path(tmp_path / "r.tsv").exists()


def test_predictions_too(tmp_path: Path) -> None:
    given = open_job(Predict(model="tiny.onnx", data="tiny.npz", seed=7, n=300))
    with results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer)
    assert lines(tmp_path / "r.tsv") == alone(given)


@pytest.mark.parametrize("kind", RUNS)
def test_what_is_lost_late_or_out_of_order_changes_nothing(kind: str, tmp_path: Path) -> None:
    given, wanted = job(kind), None
    for seed in range(25):
        path = tmp_path / f"{seed}.tsv"
        with results.create(path, given.run) as writer:
            work(given, writer, lambda _: None, Unreliable(given, seed))
        wanted = wanted or alone(given)
        assert lines(path) == wanted, seed


class Late(Unreliable):
    """One unit is never answered, until a copy of it was."""

    def __init__(self, given: Job, *, wrong: bool = False) -> None:
        super().__init__(given, 1, wrong=wrong, loss=0.0)
        self.slots = 2
        self._held: tuple[Unit, Reply] | None = None

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        self.given.append(unit.key)
        future = Reply()
        self._out.append((unit, future))
        if self._held is None:
            self._held = self._out.pop()
        else:
            self._answer()
            if self.given.count(self._held[0].key) > 1 and not self._held[1].done():
                self._out.append(self._held)
                self._answer()
        return future

    def running(self) -> int:
        return 0


def test_a_late_unit_is_handed_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "LATE", 0.0)
    monkeypatch.setattr(desk, "LEAST_LATE", 0.0)
    monkeypatch.setattr(desk, "MOST_OUT", 2)
    given = job()
    engine = Late(given)
    with results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer, engine=engine)
    assert engine.given.count(engine.given[0]) == 2
    assert lines(tmp_path / "r.tsv") == alone(given)


def test_two_answers_must_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "LATE", 0.0)
    monkeypatch.setattr(desk, "LEAST_LATE", 0.0)
    monkeypatch.setattr(desk, "MOST_OUT", 2)
    given = job()
    with (
        pytest.raises(ResultsError, match="two workers disagree about the same samples"),
        results.create(tmp_path / "r.tsv", given.run) as writer,
    ):
        work(given, writer, engine=Late(given, wrong=True))


def test_a_unit_that_is_always_lost_ends_the_run(tmp_path: Path) -> None:
    given = job()
    with (
        pytest.raises(IntrsError, match="were lost 20 times: the node is gone"),
        results.create(tmp_path / "r.tsv", given.run) as writer,
    ):
        work(given, writer, engine=Unreliable(given, 1, loss=1.0))


class StopError(Exception):
    """What a test stops a run with."""


class Counting(Threads):
    """Stops the driver when so many units came back, and counts the samples that it was given."""

    def __init__(self, given: Job, most: int) -> None:
        super().__init__(given.voter, 2, 1)
        self.most, self.units = most, 0

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        self.units += 1
        if self.units > self.most:
            raise StopError
        return super().submit(unit)


@pytest.mark.parametrize("kind", RUNS)
def test_a_stopped_run_loses_only_what_was_being_counted(kind: str, tmp_path: Path) -> None:
    """Stopped again and again, after every few units: in the end about as many units were counted as in one go."""
    given, path, units = job(kind), tmp_path / "r.tsv", 0
    in_one_go = Counting(given, 10**9)
    with results.create(tmp_path / "whole.tsv", given.run) as writer:
        work(given, writer, engine=in_one_go)
    for stops in range(1000):
        again, writer = begin(given, path, resume=stops > 0)  # type: ignore[assignment]
        engine = Counting(again, 9)
        try:
            with writer:
                work(again, writer, engine=engine)
        except StopError:
            units += min(engine.units, engine.most)
            continue
        units += engine.units
        break
    assert stops > 3
    assert lines(path) == lines(tmp_path / "whole.tsv") == alone(given)
    assert units <= in_one_go.units + 2 * stops  # two slots were at work when it was stopped
    assert not results.journal_path(path).exists()


def test_the_votes_of_another_run_are_not_recalled(tmp_path: Path) -> None:
    given, path = job(), tmp_path / "r.tsv"
    with pytest.raises(StopError), results.create(path, given.run) as writer:
        work(given, writer, engine=Counting(given, 5))
    journal = results.journal_path(path)
    assert len(results.read_journal(path)) > 2
    before = journal.read_text()
    journal.write_text(before.replace(given.run.digest, "0" * 64))
    again, writer = begin(given, path, resume=True)  # type: ignore[assignment]
    with pytest.raises(ResultsError, match=r"r\.tsv\.votes: these votes are of another run than r\.tsv"), writer:
        work(again, writer)
    assert "0" * 64 in journal.read_text(), "it may be the only copy"
    journal.unlink()
    again, writer = begin(given, path, resume=True)  # type: ignore[assignment]
    with writer:
        work(again, writer)
    assert lines(path) == alone(given)


def test_every_machine_takes_its_own_kernel_set(tmp_path: Path) -> None:
    """Processors of a cluster differ: what travels names a kernel set only if one was asked for."""
    assert job().voter.smooth.kernels == ""
    assert job(kernels="scalar").voter.smooth.kernels == "scalar"


def test_a_run_that_begins_anew_leaves_no_votes_of_the_old_one(tmp_path: Path) -> None:
    """Even if it is stopped before it counts anything, and whatever is begun afterwards under the same name."""
    given, path = job(), tmp_path / "r.tsv"
    with pytest.raises(StopError), results.create(path, given.run) as writer:
        work(given, writer, engine=Counting(given, 5))
    assert results.journal_path(path).exists()
    results.create(path, given.run, overwrite=True).close()
    assert not results.journal_path(path).exists()


def test_votes_carry_all_that_must_agree_for_a_run_to_be_continued() -> None:
    run = job().run
    request = run.request
    others = [
        replace(run, data_sha256="0" * 64),
        replace(run, identity="0" * 64),
        replace(run, request=replace(request, seed=run.seed + 1)),
        replace(run, request=replace(request, n=request.n + 1)),
        replace(run, request=replace(request, noise="continuous")),
        replace(run, request=replace(request, noise="continuous", mean="0.5")),
    ]
    assert len({run.digest, *(other.digest for other in others)}) == 7
    assert replace(run, intrs="9.9", kernels="another", platform="elsewhere").digest == run.digest


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [(0, "99", "it is no image of this run"), (1, "4", "it is no image of this run"), (7, "1,2", "for 3 classes"),
     (7, "900,0,0", "another number of samples"), (7, "x", "malformed"), (5, "9" * 18, "malformed")],
)  # fmt: skip
def test_damaged_votes_are_refused(column: int, value: str, words: str, tmp_path: Path) -> None:
    given, path = job(), tmp_path / "r.tsv"
    with pytest.raises(StopError), results.create(path, given.run) as writer:
        work(given, writer, engine=Counting(given, 5))
    journal = results.journal_path(path)
    head, first, *rest = journal.read_text().splitlines(keepends=True)
    cells = first.rstrip("\n").split("\t")
    cells[column] = value
    journal.write_text(head + "\t".join(cells) + "\n" + "".join(rest))
    again, writer = begin(given, path, resume=True)  # type: ignore[assignment]
    with pytest.raises(ResultsError, match=words), writer:
        work(again, writer)


def test_a_half_written_line_of_votes_is_dropped(tmp_path: Path) -> None:
    given, path = job(), tmp_path / "r.tsv"
    with pytest.raises(StopError), results.create(path, given.run) as writer:
        work(given, writer, engine=Counting(given, 5))
    journal = results.journal_path(path)
    journal.write_bytes(journal.read_bytes()[:-3])
    again, writer = begin(given, path, resume=True)  # type: ignore[assignment]
    with writer:
        work(again, writer)
    assert lines(path) == alone(given)


def test_stopping_waits_for_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of the caller ends the run within a moment, though a unit would take long."""
    monkeypatch.setattr(driver, "FIRST", 10**8)
    given = job(n=10**8)

    def stop(progress: Any) -> None:
        if progress.done:
            raise StopError

    begun = time.monotonic()
    with pytest.raises(StopError), results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer, stop, local_engine(given))
    assert time.monotonic() - begun < 60  # it would take minutes


# --- Twice, full disks, damaged votes -----------------------------------------------------------------------------


class Slow(Unreliable):
    """Two machines; the second answer to a unit comes much later, and is wrong if asked. Counts who was asked."""

    places = frozenset("ab")

    def __init__(self, given: Job, *, wrong: bool = False) -> None:
        super().__init__(given, 1, wrong=wrong, loss=0.0)
        self.slots = 4
        self.asked: dict[tuple[int, int], list[str]] = {}

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        made = Reply(next(name for name in ("a", "b", "c") if name not in avoid))
        self.asked.setdefault(unit.key, []).append(made.place)
        self._out.append((unit, made))
        if made.place == "a":
            self._out[-1], self._out[0] = self._out[0], self._out[-1]
        return made

    def running(self) -> int:
        while self._out:
            self._answer()
        return 0


def test_all_units_on_two_machines(tmp_path: Path) -> None:
    given = job()
    engine = Slow(given)
    with results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer, lambda _: None, engine, Fraction(1))
    assert all(places == ["a", "b"] for places in engine.asked.values())
    assert lines(tmp_path / "r.tsv") == alone(given)


class Hung(Engine):
    """One machine hangs on its first unit, and the other one counts that unit wrongly, as often as it is asked."""

    is_remote, slots = True, 4

    def __init__(self, given: Job, *places: str) -> None:
        self.places = frozenset(places)
        self._voter = given.voter
        self._first: tuple[int, int] | None = None

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        made = Reply(next((place for place in sorted(self.places) if place not in avoid), "b"))
        if self._first is None and made.place == "a":
            self._first = unit.key
            return made
        counted = count_unit(self._voter, unit)
        if made.place == "b" and unit.key == self._first:
            votes = replace(counted.votes, counts=(counted.votes.count, *[0] * (len(counted.votes.counts) - 1)))
            counted = replace(counted, votes=votes)
        made.set_result(counted)
        return made

    def close(self) -> None:
        pass


def test_two_answers_of_one_machine_are_not_those_of_two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The late copy goes to the machine that has not answered, though it was asked before."""
    monkeypatch.setattr(desk, "LEAST_LATE", 0.01)
    given = job()
    with (
        pytest.raises(ResultsError, match="two workers disagree"),
        results.create(tmp_path / "r.tsv", given.run) as writer,
    ):
        work(given, writer, engine=Hung(given, "a", "b"), twice=Fraction(1))
    assert not lines(tmp_path / "r.tsv")


def test_where_there_is_one_machine_it_may_answer_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """But not while another one is known; that one is waited for, and not for ever."""
    given = job()
    with results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer, engine=Hung(given, "b"), twice=Fraction(1))
    assert lines(tmp_path / "r.tsv") == alone(given)
    monkeypatch.setattr(desk, "MOST_LOST", 3)
    engine = Hung(given, "b")
    engine.places = frozenset(("b", "gone"))
    monkeypatch.setattr(engine, "submit", lambda unit, _: Hung.submit(engine, unit, {"gone"}))
    with (
        pytest.raises(IntrsError, match="were lost 3 times: only one of several machines answers"),
        results.create(tmp_path / "s.tsv", given.run) as writer,
    ):
        work(given, writer, engine=engine, twice=Fraction(1))


class Broken(Hung):
    """Every worker of one machine fails, though the machine itself is alive; the other one counts."""

    def __init__(self, given: Job, *places: str) -> None:
        super().__init__(given, *places)
        self.asked: Counter[str] = Counter()

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        made = Reply(min(self.places - avoid, default="b"))
        self.asked[made.place] += 1
        if made.place == "a":
            made.set_exception(LostError("the worker is gone"))
        else:
            made.set_result(count_unit(self._voter, unit))
        return made


def test_a_machine_that_loses_every_unit_is_no_second_one(tmp_path: Path) -> None:
    """It costs time only: after some tries the other machine answers twice, as if it were alone."""
    given = job()
    engine = Broken(given, "a", "b")
    with results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer, engine=engine, twice=Fraction(1))
    assert lines(tmp_path / "r.tsv") == alone(given)
    assert engine.asked["a"] == desk.MOST_LOST_BY_ONE * engine.asked["b"] / 2


def test_first_copies_need_not_know_which_machines_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An engine takes a lock to say it, and there are many units."""
    monkeypatch.setattr(Engine, "places", property(lambda _: pytest.fail("it was asked")))
    given = job()
    with results.create(tmp_path / "r.tsv", given.run) as writer:
        work(given, writer, engine=Unreliable(given, 1, loss=0.0))
    assert lines(tmp_path / "r.tsv") == alone(given)


def test_what_is_counted_twice_is_not_written_before_both_agree(tmp_path: Path) -> None:
    given = job()
    with (
        pytest.raises(ResultsError, match="two workers disagree"),
        results.create(tmp_path / "r.tsv", given.run) as writer,
    ):
        work(given, writer, lambda _: None, Slow(given, wrong=True), Fraction(1))
    assert not lines(tmp_path / "r.tsv")
    assert not results.journal_path(tmp_path / "r.tsv").exists()


def test_lost_units_wait_before_they_go_out_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node that is dying fails everything at once: a unit must not be lost twenty times within a moment."""
    monkeypatch.setattr(desk, "SHORTEST", 0.02)
    monkeypatch.setattr(desk, "MOST_LOST", 5)
    given, begun = job(), time.monotonic()
    with (
        pytest.raises(IntrsError, match="were lost 5 times"),
        results.create(tmp_path / "r.tsv", given.run) as writer,
    ):
        work(given, writer, engine=Unreliable(given, 1, loss=1.0))
    assert time.monotonic() - begun > 0.02 * (1 + 2 + 4 + 8 + 16)


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, path = job(), tmp_path / "r.tsv"
    write, written = os.write, []

    def full(descriptor: int, data: bytes) -> int:
        written.append(data)
        if len(written) > 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    with results.create(path, given.run) as writer:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(ResultsError, match=r"cannot write .*No space left on device"):
            work(given, writer, engine=Threads(given.voter, 2, 1))
        monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert len(written) > 20
    again, writer = begin(given, path, resume=True)  # type: ignore[assignment]
    with writer:
        work(again, writer)
    assert lines(path) == alone(given)


def journal_with_a_selection(folder: Path, given: Any) -> tuple[Path, list[list[str]]]:
    """A run stopped while an image's first samples stand in its journal; which ones do depends on the threads."""
    for units in range(2, 40):
        path = folder / f"{units}.tsv"
        with pytest.raises(StopError), results.create(path, given.run) as writer:
            work(given, writer, engine=Counting(given, units % 8 + 1))
        journal = results.journal_path(path)
        rows = [line.split("\t") for line in journal.read_text().splitlines()] if journal.exists() else []
        if any(row[4] == "0" for row in rows[1:]):
            return path, rows
    raise AssertionError("no journal has the first samples of an image")


def test_votes_without_their_selection_are_refused(tmp_path: Path) -> None:
    given = job()
    path, rows = journal_with_a_selection(tmp_path, given)
    row = next(row for row in rows[1:] if row[4] == "0")
    row[6] = "-"
    results.journal_path(path).write_text("".join("\t".join(row) + "\n" for row in rows))
    again, writer = begin(given, path, resume=True)
    with pytest.raises(ResultsError, match="the class is selected with the first samples"), writer:
        work(again, writer)


def test_units_are_no_smaller_than_the_driver_can_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Towards the end units become smaller, but not so small that many workers wait for the driver."""
    monkeypatch.setattr(driver, "SECONDS", 2.0)
    monkeypatch.setattr(driver, "HANDLED", 400)
    given = job(n=10**6)
    engine = Unreliable(given, 1)
    for slots, count in ((4, 2000), (4000, 10_000), (10**6, 10**6)):
        engine.slots = slots
        agenda = driver.Agenda(given, [driver.Pending(0, 0)], engine)
        agenda._rate = 1000.0
        found = agenda.next()
        assert found
        assert abs(found[1].count - count) < 2 * driver.GRAIN, slots


@pytest.mark.parametrize(
    ("n", "most"), [(10_000, 8064), (10_000, 9984), (1000, 64), (100_000, 10_048), (64, 64), (5, 64)]
)
def test_an_image_is_divided_evenly(n: int, most: int) -> None:
    """Into as few units as can be, of about the same size: a small one would be over long before the others."""
    image = driver.Pending(0, 0, todo=[(0, n)])
    found = []
    while image.todo:
        found.append(image.next_range(most))
    assert [first for first, _ in found] == [sum(count for _, count in found[:i]) for i in range(len(found))]
    sizes = [count for _, count in found]
    assert sum(sizes) == n
    assert len(sizes) == -(-n // most)
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) < 2 * driver.GRAIN
    assert all(size % driver.GRAIN == 0 for size in sizes[:-1])


def test_threads_that_share_a_unit_get_enough_of_it() -> None:
    """They wait for the last block of samples, so that short units would leave them idle."""
    given = job(n=10**6)
    engine = Threads(given.voter, 1, 4)
    with engine:
        agenda = driver.Agenda(given, [driver.Pending(0, 0)], engine)
        agenda._rate = 10.0  # samples per second: a large network
        found = agenda.next()
    assert found
    assert found[1].count == 4 * driver.ROUNDS
