"""Where the program begins. Until a command is ready to answer, Ctrl-C ends it silently instead of by a traceback.

Nothing but the lightest modules is imported here, so that the moment before that is short. NumPy and others take any
exception while they are loaded for a broken installation, so they must not meet a KeyboardInterrupt.
"""

from __future__ import annotations

import sys

INTERRUPTED, TERMINATED = 128 + 2, 128 + 15  # as shells report SIGINT and SIGTERM
_terminated: list[bool] = []

TYPE_CHECKING = False  # typing's own takes a while to import
if TYPE_CHECKING:
    from collections.abc import Sequence


def program() -> int:
    """The command `intrs`."""
    import _signal as signal  # type: ignore[import-not-found]  # the part of signal that needs no other module

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from intrs.cli.command import run

        def ready() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, _terminate)

        code = run(sys.argv[1:], ready)
        return TERMINATED if _terminated and code == INTERRUPTED else code
    except KeyboardInterrupt:
        print("intrs: stopped", file=sys.stderr)
        return INTERRUPTED


def _terminate(*_: object) -> None:
    """Batch systems send SIGTERM before they kill: it ends a command as Ctrl-C does, with how to resume."""
    _terminated.append(True)
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments and return its exit code."""
    from intrs.cli.command import run

    return run(list(sys.argv[1:] if argv is None else argv))
