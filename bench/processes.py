"""The engines' processes as the benchmark sees them: start, time, stop; and several of them in turns."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bench import machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.engines import Settings

ROOT = Path(__file__).parent.parent
CALIBRATION = 0.25  # share of the wanted time that a trial must take to be trusted
GROWTH = 4


class EngineError(Exception):
    """An engine did not start, or fell over."""


@dataclass(frozen=True)
class Run:
    """One timing. `others` is the share of the processors that something else took meanwhile."""

    samples: int
    seconds: float
    cpu: float
    peak_mb: float
    others: float

    @property
    def rate(self) -> float:
        return self.samples / self.seconds

    def fields(self) -> dict[str, float]:
        return asdict(self)


class Process:
    """One engine with its settings. It stands still (SIGSTOP) except while it runs, so that no idle thread spins."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        command = [sys.executable, "-m", "bench.worker", json.dumps(settings.fields())]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=settings.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        try:
            self.granule: int = self._answer()["granule"]
        except EngineError:
            self.close()
            raise
        self._process.send_signal(signal.SIGSTOP)

    def run(self, samples: int) -> Run:
        """Run this many samples, rounded to what the engine takes at once."""
        return self.run_exactly(max(1, round(samples / self.granule)) * self.granule)

    def run_exactly(self, samples: int) -> Run:
        self._process.send_signal(signal.SIGCONT)
        before = machine.busy_seconds()
        self._send(f"{samples}\n")
        answer = self._answer()
        busy = machine.busy_seconds() - before
        self._process.send_signal(signal.SIGSTOP)
        others = max(0.0, busy - answer["cpu"]) / (answer["seconds"] * (os.cpu_count() or 1))
        return Run(**answer, others=others)

    def samples_for(self, seconds: float) -> int:
        """How many samples take about this long. The first, unmeasured run warms up."""
        samples = self.granule
        self.run(samples)
        while (run := self.run(samples)).seconds < CALIBRATION * seconds:
            samples *= GROWTH
        return max(1, round(samples * seconds / run.seconds))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream:
                stream.close()

    def _send(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise EngineError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"


@contextmanager
def started(all_settings: Sequence[Settings]) -> Iterator[list[Process]]:
    """Processes for all of these, closed at the end whatever happens."""
    with ExitStack() as stack:
        processes = []
        for settings in all_settings:
            processes.append(stack.enter_context(closing(Process(settings))))
        yield processes


def in_turns(processes: Sequence[Process], counts: Sequence[int], rounds: int) -> list[list[Run]]:
    """Every process once a round, each round beginning with the next one; a list of runs for each process."""
    runs: list[list[Run]] = [[] for _ in processes]
    for turn in range(rounds):
        for step in range(len(processes)):
            i = (turn + step) % len(processes)
            runs[i].append(processes[i].run(counts[i]))
    return runs


def timed_in_turns(all_settings: Sequence[Settings], seconds: float, rounds: int) -> list[list[Run]]:
    """Start all of these, let each run for about `seconds` a round, in turns."""
    with started(all_settings) as processes:
        counts = [process.samples_for(seconds) for process in processes]
        return in_turns(processes, counts, rounds)


def median_and_range(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def rates(runs: Sequence[Run]) -> dict[str, float]:
    """Samples a second."""
    return median_and_range([run.rate for run in runs])


def ratios(mine: Sequence[Run], theirs: Sequence[Run]) -> dict[str, float]:
    """My rate over theirs, taken round by round, so that a machine that slows down slows both."""
    return median_and_range([a.rate / b.rate for a, b in zip(mine, theirs, strict=True)])


def others(*runs: Sequence[Run]) -> float:
    """Share of the processors that something else took during these runs."""
    flat = [run for row in runs for run in row]
    return sum(run.others * run.seconds for run in flat) / sum(run.seconds for run in flat)
