"""What the user sees. Names and texts from files are printed through here, so that they cannot steer the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, TextIO

from intrs.exact import ordinal
from intrs.text import printable

if TYPE_CHECKING:
    from rich.table import Table

    from intrs.request import Request

MISTAKE, BROKEN_PIPE = 2, 128 + 13  # the latter as shells report SIGPIPE
USUAL, WIDEST = 80, 100  # columns of a table in a pipe, and on a terminal


def say(text: str) -> None:
    """A line, or several, on the standard output."""
    print(_for(sys.stdout, printable(text)), flush=True)


def _for(stream: TextIO, text: str) -> str:
    """Lines that fit a terminal; elsewhere each stays one line, to be searched for."""
    return "\n".join(_wrapped(line, stream) for line in text.split("\n")) if stream.isatty() else text


def _wrapped(line: str, stream: TextIO, indent: str = "") -> str:
    """A line that breaks between words where it is too long; commands are left for copying."""
    width = shutil.get_terminal_size().columns if stream.isatty() else USUAL
    if len(line) <= width or line.startswith("  intrs "):
        return line
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def complain(text: str) -> None:
    """A message on the standard error stream."""
    lines = (
        printable(text).replace("\n  ", "\n").replace("\n", "\n  ")
    )  # a name with a line break begins no line of ours
    print(_for(sys.stderr, f"intrs: {lines}"), file=sys.stderr, flush=True)


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def one_or_more(given: list[str] | None) -> str | list[str] | None:
    """What an option that may be repeated was given."""
    return given[0] if given and len(given) == 1 else given


def images_of(count: int) -> str:
    """So many images."""
    return f"{count:,} {'image' if count == 1 else 'images'}"


def which_images(request: Request) -> str:
    """The part of the data that is taken, in words."""
    shard = getattr(request, "shard", "")
    begin = f"part {shard}, " if shard else ""
    begin += f"from image {request.first} on, " if request.first else ""
    return begin + (f"every {ordinal(request.skip)}, " if request.skip > 1 else "")


def show(name: str, value: str) -> None:
    """A name and its value on a line of their own, at once, and never in colour."""
    line = f"{name:<10}{printable(value)}"
    wrap = " " in value and sys.stdout.isatty()  # elsewhere a value stays one line, to be searched for
    print(_wrapped(line, sys.stdout, indent=" " * 10) if wrap else line, flush=True)


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
    console.width = min(console.width, WIDEST) if console.is_terminal else USUAL
    console.width = max(console.width, console.measure(made).minimum)  # a narrower one would break words
    with console.capture() as text:  # rich would end the program where we want to hear of a broken pipe
        console.print(made)
    print(text.get(), end="")
