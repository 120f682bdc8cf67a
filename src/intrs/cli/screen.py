"""What the user sees. Names and texts from files are printed through here, so that they cannot steer the terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from intrs.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    Meter = Callable[[int, str], None]

MISTAKE, INTERRUPTED, BROKEN_PIPE = 2, 128 + 2, 128 + 13  # the latter two as shells report SIGINT and SIGPIPE
SECONDS_BETWEEN_LINES = 10.0
NARROWEST, WIDEST = (
    80,
    100,
)  # columns of a table; a narrower terminal folds its lines, which can still be read and copied


@contextlib.contextmanager
def meter(total: int, begin: int, unit: str) -> Iterator[Meter]:
    """A progress meter on stderr, for work of `total` units of which `begin` are done."""
    if sys.stderr and sys.stderr.isatty():
        with _bar(total, begin, unit) as bar:
            yield bar
    else:
        yield _Lines(total, begin, unit)


@contextlib.contextmanager
def _bar(total: int, begin: int, unit: str) -> Iterator[Meter]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[rate]}"))
    pace = _Pace(begin)
    with Progress(*columns, TimeRemainingColumn(), TextColumn("left"), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total, completed=begin, rate="")

        def update(done: int, note: str) -> None:
            rate = pace.after(done)
            progress.update(task, completed=done, description=note, rate=_rate(rate, unit) if rate else "")

        yield update


class _Lines:
    """The meter for pipes and log files."""

    def __init__(self, total: int, begin: int, unit: str) -> None:
        self._total, self._unit, self._pace = total, unit, _Pace(begin)
        self._last = time.monotonic()

    def __call__(self, done: int, note: str) -> None:
        rate = self._pace.after(done)
        if time.monotonic() - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = time.monotonic()
        if rate:
            note = f"{note}, {_rate(rate, self._unit)}, {duration((self._total - done) / rate)} left"
        print(note, file=sys.stderr, flush=True)


class _Pace:
    """Units a second since the last moment at which none was done: what prepares the work does not count."""

    def __init__(self, begin: int) -> None:
        self._begin, self._start = begin, time.monotonic()

    def after(self, done: int) -> float:
        """The rate when `done` units are, those before this run included; 0 if nothing is done yet."""
        now = time.monotonic()
        if done <= self._begin:
            self._start = now
        return (done - self._begin) / max(now - self._start, 1e-9)


def _rate(rate: float, unit: str) -> str:
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s"


def duration(seconds: float) -> str:
    """A time to plan with."""
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    if minutes < 100:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"


def say(text: str) -> None:
    """A line, or several, on the standard output."""
    print(printable(text), flush=True)


def complain(text: str) -> None:
    """A message on the standard error stream."""
    print(f"intrs: {printable(text)}", file=sys.stderr, flush=True)


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def show(name: str, value: str) -> None:
    """A name and its value on a line of their own, at once, and never in colour."""
    print(f"{name:<10}{printable(value)}", flush=True)


def table(*columns: str, left: int = 0) -> Table:
    """An empty table that fits 80 columns; the first `left` columns are words, the others numbers."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(columns):
        made.add_column(name, justify="left" if i < left else "right", overflow="fold")
    return made


def print_table(made: Table) -> None:
    """On stdout; colours only on a terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    console.width = max(NARROWEST, min(console.width, WIDEST)) if console.is_terminal else NARROWEST
    with console.capture() as text:  # rich would end the program where we want to hear of a broken pipe
        console.print(made)
    print(text.get(), end="")
