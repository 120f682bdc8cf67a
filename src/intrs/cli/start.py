"""Where the program begins. Until a command is ready to answer, Ctrl-C ends it silently instead of by a traceback.

Nothing but the lightest modules is imported here, so that the moment before that is short. NumPy and others take any
exception while they are loaded for a broken installation, so they must not meet a KeyboardInterrupt.

A command that was stopped by a signal ends by that signal, once it has closed its files: a shell then ends the loop
that the command stands in, too, and reports 130 or 143.
"""

from __future__ import annotations

import os
import sys

INTERRUPTED, TERMINATED = 128 + 2, 128 + 15  # as shells report SIGINT and SIGTERM
_terminated: list[bool] = []

TYPE_CHECKING = False  # typing's own takes a while to import
if TYPE_CHECKING:
    from collections.abc import Sequence


def program() -> int:
    """The command `intrs`."""
    import _signal as signal  # type: ignore[import-not-found]  # the part of signal that needs no other module

    heard = signal.getsignal(signal.SIGINT) != signal.SIG_IGN  # by which a script shields what it runs with &
    if heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from intrs.cli.command import run

        def ready() -> None:
            if heard:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, _terminate)

        code = run(sys.argv[1:], ready)
    except KeyboardInterrupt:
        print("intrs: stopped", file=sys.stderr)
        code = INTERRUPTED
    if code != INTERRUPTED:
        return code
    _end_by(signal.SIGTERM if _terminated else signal.SIGINT)
    return TERMINATED if _terminated else INTERRUPTED  # the first process of a container does not end by its own signal


def _terminate(*_: object) -> None:
    """Batch systems send SIGTERM before they kill: it ends a command as Ctrl-C does, with how to resume.

    A second one ends it at once, which files survive as they survive a kill.
    """
    import _signal as signal

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _terminated.append(True)
    raise KeyboardInterrupt


def _end_by(number: int) -> None:
    import _signal as signal

    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 (contextlib takes a while to import)
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or there is none
            pass
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments and return its exit code."""
    from intrs.cli.command import run

    return run(list(sys.argv[1:] if argv is None else argv))
