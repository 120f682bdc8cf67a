"""What compiled code for a board holds and asks for, read from object files and linked images by binutils."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from boards import Board, switch
from device_driver import INCLUDES, RUNTIME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MEMORY = {"memcpy", "memset"}
WHOLE_NUMBERS = {"__aeabi_uldivmod", "__aeabi_ldivmod", "__udivdi3", "__ashldi3"}  # 64 bits, the compiler's own
FLOATS = re.compile(r"__aeabi_(?:c?[fd]\w*|[a-z0-9]*2[fd])$|__\w+[sd]f[23]?$|__\w*(?:float|fix)\w*")
LIBRARY = re.compile(r"_*(?:malloc|free|calloc|realloc|sbrk|\w*printf)(?:_r)?$")
FLOAT_INSTRUCTION = re.compile(r"\.[fF](?:16|32|64)|^f[a-z]+\.[sd]|^vcvt|^vsqrt|^vdiv")
VECTOR = re.compile(r"^v[a-z]")


def compile_objects(board: Board, kernels: str, folder: Path) -> list[Path]:
    """The files of the runtime, with types for debuggers."""
    options = ["-std=c99", "-O2", "-g", *board.options, *switch(kernels), *INCLUDES]
    subprocess.run([board.compiler, *options, "-c", *map(str, RUNTIME)], cwd=folder, check=True)
    return sorted(folder.glob("*.o"))


def said(board: Board, tool: str, *arguments: str, files: Sequence[Path]) -> list[str]:
    command = [board.tool(tool), *arguments, *map(str, files)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def symbols(board: Board, files: Sequence[Path]) -> list[tuple[str, str]]:
    """Kinds, as nm has them, and names."""
    parts = (line.split()[-2:] for line in said(board, "nm", files=files))
    return [(kind, name) for kind, name in (part for part in parts if len(part) == 2) if len(kind) == 1]


def asked_for(board: Board, files: Sequence[Path]) -> set[str]:
    """The names that these files use and none of them defines."""
    found = symbols(board, files)
    return {name for kind, name in found if kind == "U"} - {name for kind, name in found if kind != "U"}


def writable_bytes(board: Board, files: Sequence[Path]) -> int:
    """Bytes of globals that can be written: .data, .bss and what is common."""
    rows = [line.split() for line in said(board, "size", "-A", "--common", files=files)]
    places = (".data", ".bss", ".sdata", ".sbss", "*COM*")
    return sum(int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(places))


def types(board: Board, files: Sequence[Path]) -> set[str]:
    """Names of the arithmetic types in the debugging information."""
    lines = said(board, "objdump", "--dwarf=info", files=files)
    base, names = False, set()
    for line in lines:
        if "DW_TAG_" in line:
            base = "DW_TAG_base_type" in line
        elif base and "DW_AT_name" in line:
            names.add(line.rpartition(":")[2].strip())
    return names


def mnemonics(board: Board, files: Sequence[Path]) -> set[str]:
    """All instructions; data between them have no instruction."""
    rows = (line.split("\t") for line in said(board, "objdump", "-d", files=files))
    return {row[2].split()[0] for row in rows if len(row) > 2 and row[2].strip()}


def float_instructions(board: Board, files: Sequence[Path], *, vectors: bool = False) -> set[str]:
    """Those on floating-point numbers; without `vectors` of whole numbers, all of the floating-point unit."""
    found = mnemonics(board, files)
    return {name for name in found if FLOAT_INSTRUCTION.search(name) or (VECTOR.match(name) and not vectors)}


def forbidden(names: set[str]) -> set[str]:
    """Symbols of floats in software, of a heap, and of printf."""
    return {name for name in names if FLOATS.match(name) or LIBRARY.match(name)}
