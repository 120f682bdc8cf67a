"""`intrs verify`: every number of a results file, computed again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from intrs import api
from intrs.cli.screen import complain, one_or_more, say, show
from intrs.errors import IntrsError, ResultsError
from intrs.progress import duration
from intrs.results import read_run
from intrs.verification import MovedError

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from intrs.verification import Verification

DIFFERENT = 1
LONG = 10.0  # seconds from which on it is said how long it will take


def verify(args: Namespace) -> int:
    """Judge all lines again from their votes, count the votes of some or all again; 1 at the first difference."""
    settings = {name: getattr(args, name) for name in ("images", "model", "threads", "kernels", "ray", "workers")}
    settings["data"] = one_or_more(args.data)
    try:
        found = api.verify(args.results, **settings, progress=args.progress, on_start=_announce)
    except MovedError as error:
        where = "\n--model and --data say where the model and the data are now"
        raise ResultsError(f"{error}{'' if args.model and args.data else where}") from None
    except ResultsError as error:
        raise ResultsError(f"{error}{_of_a_part(args.results)}") from None
    args.answer = {"results": str(args.results), "verified": bool(found), "says": str(found)}
    if found:
        say(str(found))
        return 0
    complain(str(found))
    return DIFFERENT


def _of_a_part(path: Path) -> str:
    """What to do with a part that has votes and no lines yet."""
    with suppress(IntrsError):
        if not read_run(path).is_judged:
            return "\nIt has a part of each image's votes: `intrs merge` makes lines of all parts, to be verified"
    return ""


def _announce(opened: Verification) -> None:
    """A file may claim any number of samples, so what it costs to count them again is said before."""
    seconds = opened.seconds()
    if seconds > LONG:
        show("samples", f"{opened.samples():,} to count again, for {len(opened.again)} of {len(opened.rows)} lines")
        show("time", f"about {duration(seconds)}; --images K counts only K lines again, drawn at random")
