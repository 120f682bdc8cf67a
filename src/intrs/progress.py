"""How far long work has come: a callback that the library calls, and the bar that shows it to people.

Every function that takes long has a parameter `progress`. It is called now and then with a `Progress`; an exception
from it stops the work. The functions of `import intrs` also take True (show a bar), False (show nothing) and None,
which shows a bar on a terminal and in a notebook and nothing in a pipe.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from intrs.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS_BETWEEN_LINES = 10.0  # in a pipe or log file
SECONDS_BETWEEN_UPDATES = 0.2  # in a notebook, which is slower than a terminal


class Progress(NamedTuple):
    """`done` of `total` units; the first report of a piece of work says how much was done before it began."""

    done: int
    total: int
    unit: str = "samples"
    note: str = ""


OnProgress = Callable[[Progress], object]
Shown = OnProgress | bool | None  # what the functions of `import intrs` take


@contextlib.contextmanager
def reporting(progress: Shown) -> Iterator[OnProgress | None]:
    """The callback for whatever the caller gave: a function, True, False or None."""
    if callable(progress):
        yield progress
    elif progress not in (True, False, None):
        raise SettingsError(f"progress: expected a function, True, False or None, got {type(progress).__name__}")
    elif progress is False or (progress is None and not (_in_notebook() or _on_terminal())):
        yield None
    else:
        shown = _display()
        with contextlib.closing(shown):
            yield shown


def _display() -> _Display:
    return _NotebookBar() if _in_notebook() else _TerminalBar() if _on_terminal() else _Lines()


def _on_terminal() -> bool:
    return bool(sys.stderr and sys.stderr.isatty())


def _in_notebook() -> bool:
    """Whether IPython runs in a kernel, as notebooks do; its terminal is a terminal like any other."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class _Display:
    """What all displays share: a pace that begins anew when another piece of work does."""

    def __init__(self) -> None:
        self._work: tuple[int, str] | None = None  # total and unit
        self._pace = Pace(0)

    def __call__(self, progress: Progress) -> None:
        if (progress.total, progress.unit) != self._work:
            self._work, self._pace = (progress.total, progress.unit), Pace(progress.done)
            self.begin(progress)
        rate = self._pace.after(progress.done)
        left = duration((progress.total - progress.done) / rate) if rate and progress.done < progress.total else ""
        self.show(progress, rate_text(rate, progress.unit) if rate else "", left)

    def begin(self, progress: Progress) -> None:
        """Another piece of work begins."""

    def show(self, progress: Progress, rate: str, left: str) -> None:
        """Show how far it is."""
        raise NotImplementedError

    def close(self) -> None:
        """The work is over, or was given up."""


class _TerminalBar(_Display):
    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None
        self._task: Any = None

    def begin(self, progress: Progress) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self.close()
        columns = [TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[words]}")]
        self._bar = Bar(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task("", total=progress.total, completed=progress.done, words="")
        self._bar.start()

    def show(self, progress: Progress, rate: str, left: str) -> None:
        words = ", ".join(word for word in (rate, f"{left} left" if left else "") if word)
        self._bar.update(self._task, completed=progress.done, description=progress.note, words=words)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


class _NotebookBar(_Display):
    """An HTML bar that is drawn again in place; no widgets are needed."""

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None
        self._last = 0.0

    def begin(self, progress: Progress) -> None:
        self._last = 0.0

    def show(self, progress: Progress, rate: str, left: str) -> None:
        finished = progress.done >= progress.total
        if time.monotonic() - self._last < SECONDS_BETWEEN_UPDATES and not finished:
            return
        self._last = time.monotonic()
        notebook = import_module("IPython.display")
        words = [progress.note, rate, f"{left} left" if left and not finished else ""]
        bar = f'<progress max="{progress.total}" value="{progress.done}" style="width:20em"></progress>'
        shown = notebook.HTML(f"<div>{bar} {escape(', '.join(word for word in words if word))}</div>")
        if self._handle is None:
            self._handle = notebook.display(shown, display_id=True)
        else:
            self._handle.update(shown)


class _Lines(_Display):
    """A plain line now and then, for pipes and log files."""

    def __init__(self) -> None:
        super().__init__()
        self._last = time.monotonic()

    def show(self, progress: Progress, rate: str, left: str) -> None:
        words = [word for word in (progress.note, rate, f"{left} left" if left else "") if word]
        if not words or time.monotonic() - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = time.monotonic()
        print(", ".join(words), file=sys.stderr, flush=True)


class Pace:
    """Units per second since the last moment at which none was done: what prepares the work does not count."""

    def __init__(self, begin: int) -> None:
        self._begin, self._start = begin, time.monotonic()

    def after(self, done: int) -> float:
        """The rate when `done` units are, those before this run included; 0 if nothing is done yet."""
        now = time.monotonic()
        if done <= self._begin:
            self._start = now
        return (done - self._begin) / max(now - self._start, 1e-9)


def rate_text(rate: float, unit: str) -> str:
    """A rate to read."""
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s"


def duration(seconds: float) -> str:
    """A time to plan with."""
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    if minutes < 100:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"
