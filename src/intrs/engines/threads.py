"""Units on threads of this process; the core works without the GIL."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from intrs.engines.engine import Engine, Reply
from intrs.errors import SettingsError
from intrs.units import Unit, Voter, count_unit

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from intrs.progress import Progress


class _StoppedError(Exception):
    """The engine was closed while a unit was counted."""


class Threads(Engine):
    """`slots` units at once, each on `threads` threads of the core."""

    def __init__(self, voter: Voter, slots: int = 1, threads: int = 0) -> None:
        self._voter = replace(voter, smooth=replace(voter.smooth, threads=threads))
        self._queue: SimpleQueue[tuple[Unit, Reply] | None] = SimpleQueue()
        self._done: dict[int, int] = {}  # samples so far, by the thread that counts them
        self._closed = threading.Event()
        self._workers = _started(self._work, slots)
        self.slots = len(self._workers)
        self.threads = threads or cores()

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        """Count a unit on the next thread that is free."""
        future = Reply()
        self._queue.put((unit, future))
        return future

    def running(self) -> int:
        """Samples of the units that are being counted."""
        return sum(list(self._done.values()))

    def close(self) -> None:
        """Stop within a moment, and wait for it."""
        self._closed.set()
        for _ in self._workers:
            self._queue.put(None)
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        while (given := self._queue.get()) is not None and not self._closed.is_set():
            unit, future = given
            try:
                found = count_unit(self._voter, unit, self._hear)
            except BaseException as error:  # it is for whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(found)
            finally:
                self._done.pop(threading.get_ident(), None)

    def _hear(self, progress: Progress) -> None:
        if self._closed.is_set():
            raise _StoppedError
        self._done[threading.get_ident()] = progress.done


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started(work: object, wanted: int) -> list[threading.Thread]:
    """A machine that grants fewer threads than asked for still does the work, if only one."""
    running: list[threading.Thread] = []
    for i in range(wanted):
        thread = threading.Thread(target=work, name=f"intrs {i}", daemon=True)  # type: ignore[arg-type]
        try:
            thread.start()
        except RuntimeError:
            break
        running.append(thread)
    if not running:
        raise SettingsError("the operating system grants no thread")
    return running
