"""One command, from its arguments to its exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from intrs.cli.arguments import parse
from intrs.cli.screen import BROKEN_PIPE, MISTAKE, complain
from intrs.cli.start import INTERRUPTED
from intrs.errors import ClassesCountError, ClassesError, FitError, IntrsError
from intrs.files import ExistsError

if TYPE_CHECKING:
    from collections.abc import Callable


def run(argv: list[str], ready: Callable[[], object] = lambda: None) -> int:
    """Run the command and return its exit code; `ready` is called when all that it needs has been imported."""
    _open_missing()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may hold what the terminal cannot show
    try:
        code = _call(argv, ready)
        sys.stdout.flush()
    except IntrsError as error:
        complain(f"{error}{_advice(error, argv)}")
        return MISTAKE
    except MemoryError:
        complain("not enough memory; fewer --threads need less")
        return MISTAKE
    except KeyboardInterrupt:
        complain("stopped")
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()  # whoever read our output has left
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is not None:  # not from a print
            complain(f"{error.filename}: {error.strerror or error}")
            return MISTAKE
        _give_up_stdout()
        complain(f"cannot write to the standard output: {error.strerror or error}")
        return MISTAKE
    return code


def _open_missing() -> None:
    """cron and daemons may start us with closed streams: what goes there is dropped, and no file takes their place."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _advice(error: IntrsError, argv: list[str]) -> str:
    """What the library's words mean in options."""
    if isinstance(error, FitError) and argv[:1] in (["certify"], ["predict"]):
        return "\n--fit resize, or --fit crop, makes image files fit the model"
    if isinstance(error, ClassesError) and argv[:1] in (["certify"], ["predict"], ["attack"], ["quantize"]):
        numbers = "" if isinstance(error, ClassesCountError) else ", --by-number takes labels as its numbers"
        return f"\n--names N,N,... (or a file) names the model's classes{numbers}"
    if not isinstance(error, ExistsError):
        return ""
    return "\n--overwrite replaces it"


def _give_up_stdout() -> None:
    """Python would try to flush once more on exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _call(argv: list[str], ready: Callable[[], object]) -> int:
    try:
        args = parse(argv)
    except SystemExit as stop:  # --help and --version, which have printed what was asked for
        return int(stop.code or 0)
    module, function = args.call.split(":")
    command = getattr(import_module(f"intrs.cli.{module}"), function)
    ready()
    if not (args.quiet or args.json):
        return int(command(args))
    with contextlib.redirect_stdout(io.StringIO()):
        code = int(command(args))
    if args.json and args.answer is not None:
        print(json.dumps(args.answer, indent=1))
    return code
