"""The command line: arguments -> one call each.

A user's mistake is a message that begins with "intrs: " and exit code 2; a difference that `intrs verify` finds is exit
code 1. Anything that ends in a traceback is a bug.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from intrs.cli.arguments import parse
from intrs.errors import IntrsError
from intrs.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

MISTAKE, INTERRUPTED, BROKEN_PIPE = 2, 128 + 2, 128 + 13  # the latter two as shells report SIGINT and SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may hold what the terminal cannot show
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout:
            sys.stdout.flush()
    except IntrsError as error:
        print(f"intrs: {printable(str(error))}", file=sys.stderr)
        return MISTAKE
    except MemoryError:
        print("intrs: not enough memory; fewer --threads need less", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt:
        print("intrs: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()  # whoever read our output has left
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is not None:  # not from a print
            print(f"intrs: {printable(str(error.filename))}: {error.strerror or error}", file=sys.stderr)
            return MISTAKE
        _give_up_stdout()
        print(f"intrs: cannot write to the standard output: {error.strerror or error}", file=sys.stderr)
        return MISTAKE
    return code


def _give_up_stdout() -> None:
    """Python would try to flush once more on exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str]) -> int:
    try:
        args = parse(argv)
    except SystemExit as stop:  # --help and --version, which have printed what was asked for
        return int(stop.code or 0)
    module, function = args.call.split(":")
    code = getattr(import_module(f"intrs.cli.{module}"), function)(args)
    return int(code)
