"""How much flash, RAM and stack a device needs: constants and arena are exact, the code is measured by a compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.errors import SettingsError
from intrs.exact import parse_count, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPILER, SIZE = "arm-none-eabi-gcc", "arm-none-eabi-size"
OPTIONS = ("-std=c99", "-mcpu=cortex-m4", "-mthumb", "-O2")
FOR = "Cortex-M4, gcc -O2"
LIBRARY_STACK = 64  # bytes of a function that is not compiled here, such as memcpy; the largest in libgcc takes 40
NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \((\w+)\)')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
INDIRECT = "__indirect_call"
CALLED_BY_POINTER = re.compile(r"(?:^|:)intrs_walk_\w+$")
ASSEMBLY_STACK = 48  # the most of those among them that are assembly, whose stack no compiler knows
UNITS = {"": 1, "k": 1024, "kib": 1024, "m": 1024**2, "mib": 1024**2}


@dataclass(frozen=True)
class CodeSize:
    """Of the runtime alone: bytes of flash, and of stack in the deepest call. A caller's own stack comes on top."""

    flash: int
    stack: int
    measured: bool = True


# Without and with tiles: flash as `measure` found it when this version was made, stack as much as on any Cortex-M.
SHIPPED = {False: CodeSize(18_600, 1260, measured=False), True: CodeSize(20_200, 1260, measured=False)}


def code_size(sources: Path, tiles: bool) -> CodeSize:
    """Of the runtime in this folder, if a compiler for Cortex-M is installed; else what was measured once.

    The stack is at least that of the Cortex-M which takes most, so that the statement holds for all of them.
    """
    if not shutil.which(COMPILER) or not shutil.which(SIZE):
        return SHIPPED[tiles]
    try:
        found = measure(sources, (*OPTIONS, f"-DINTRS_WITH_TILES={int(tiles)}"))
    except subprocess.CalledProcessError:
        return SHIPPED[tiles]
    return replace(found, stack=max(found.stack, SHIPPED[tiles].stack))


def measure(sources: Path, options: Sequence[str] = OPTIONS) -> CodeSize:
    """Compile the runtime for a Cortex-M4, or with these options, and add up what it takes."""
    files = sorted(path for path in sources.glob("intrs*.c"))
    with tempfile.TemporaryDirectory() as folder:
        command = [COMPILER, *options, "-fcallgraph-info=su", f"-I{sources.resolve()}", "-c"]
        subprocess.run(
            [*command, *(str(path.resolve()) for path in files)], cwd=folder, check=True, capture_output=True
        )
        objects = sorted(Path(folder).glob("*.o"))
        listed = subprocess.run([SIZE, *map(str, objects)], check=True, capture_output=True, text=True).stdout
        graph = "".join(path.read_text("utf-8") for path in sorted(Path(folder).glob("*.ci")))
    return CodeSize(sum(int(line.split()[0]) for line in listed.splitlines()[1:]), deepest(graph))


def deepest(graph: str) -> int:
    """The most stack that any chain of calls takes. Raises SettingsError if a function's stack is not known."""
    stack = {name: int(size) for name, size, _ in NODE.findall(graph)}
    stack |= {name: max(stack[name], ASSEMBLY_STACK) for name in stack if CALLED_BY_POINTER.search(name)}
    if any(kind != "static" for *_, kind in NODE.findall(graph)):
        raise SettingsError("the stack of the runtime depends on its data; no bound can be stated")
    calls: dict[str, set[str]] = {}
    for caller, called in EDGE.findall(graph):
        calls.setdefault(caller, set()).add(called)
    calls[INDIRECT] = {name for name in stack if CALLED_BY_POINTER.search(name)}
    found: dict[str, int] = {}

    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise SettingsError(f"{name} calls itself; no bound of the stack can be stated")
        if name not in found:
            own = stack.get(name, 0 if name == INDIRECT else LIBRARY_STACK)
            found[name] = own + max((depth(other, (*above, name)) for other in calls.get(name, ())), default=0)
        return found[name]

    return max((depth(name) for name in stack), default=0)


def parse_bytes(value: int | str | None, name: str) -> int | None:
    """A number of bytes: 49152, "48K", "48 KiB", "1M"."""
    if value is None or not isinstance(value, str):
        return None if value is None else parse_count(value, name)
    match = re.fullmatch(r"\s*(\d{1,12})\s*([a-z]*)\s*", value.lower().removesuffix("b") if value else "")
    unit = UNITS.get(match[2] if match else "?", UNITS.get((match[2] if match else "?") + "b"))
    if not match or unit is None:
        raise SettingsError(f"{name}: expected a number of bytes, such as 49152 or 48K, got {shown(value)}")
    return int(match[1]) * unit


def kib(size: int) -> str:
    """Bytes for people."""
    return f"{size / 1024:.1f} KiB"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of text, the first two to the left and the others to the right."""
    cells = [list(head), *([f"{c:,}" if isinstance(c, int) else str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = (
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)
