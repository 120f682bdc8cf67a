"""Where the program begins. Until `main` is ready to answer, Ctrl-C ends it silently instead of by a traceback.

Only the standard library's lightest modules are imported here, so that this moment is short.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def program() -> int:
    """The command `intrs`."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from intrs.cli.command import run

        signal.signal(signal.SIGINT, signal.default_int_handler)
        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return _stopped()


def _stopped() -> int:
    print("intrs: stopped", file=sys.stderr)
    return 128 + 2  # as shells report SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments and return its exit code."""
    from intrs.cli.command import run

    return run(list(sys.argv[1:] if argv is None else argv))
