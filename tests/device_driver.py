"""The device runtime on this machine, built once, as a program that is told what to run.

driver = Driver.build(folder, "gcc", "-fsanitize=address,undefined")
answers = driver.run([Open(constants.data), Classify(image), CountVotes(image, seed, index, first, count)])
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
RUNTIME = sorted((ROOT / "device").glob("*.c"))
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wdouble-promotion", "-pedantic", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
INCLUDES = (f"-I{ROOT / 'device'}", f"-I{ROOT / 'core'}")
PREDICT, CERTIFY, ADAPTIVE = 1, 2, 3


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


@dataclass(frozen=True)
class Open:
    data: bytes

    def to_bytes(self) -> bytes:
        return struct.pack("<I", 1) + sized(self.data)


@dataclass(frozen=True)
class OpenIn:
    """The same with an arena of so many bytes, and with both so many bytes behind a multiple of 8."""

    data: bytes
    arena: int
    arena_shift: int = 0
    data_shift: int = 0

    def to_bytes(self) -> bytes:
        return struct.pack("<IIII", 5, self.arena, self.arena_shift, self.data_shift) + sized(self.data)


@dataclass(frozen=True)
class Classify:
    image: NDArray[np.uint8]

    def to_bytes(self) -> bytes:
        return struct.pack("<I", 2) + sized(self.image.tobytes())


@dataclass(frozen=True)
class CountVotes:
    image: NDArray[np.uint8]
    seed: int
    index: int
    first: int
    count: int
    step: int = 1 << 30

    def to_bytes(self) -> bytes:
        head = struct.pack("<I", 3) + self.seed.to_bytes(32, "little") + struct.pack("<III", self.index, 0, self.step)
        return head + struct.pack("<QI", self.first, self.count) + sized(self.image.tobytes())


@dataclass(frozen=True)
class Decide:
    image: NDArray[np.uint8]
    seed: int
    index: int
    mode: int
    step: int = 1 << 30

    def to_bytes(self) -> bytes:
        head = struct.pack("<I", 4) + self.seed.to_bytes(32, "little")
        return head + struct.pack("<III", self.index, self.mode, self.step) + sized(self.image.tobytes())


@dataclass(frozen=True)
class Restore:
    """A run from the bytes of intrs_save, continued in steps."""

    saved: bytes
    image: NDArray[np.uint8]
    step: int

    def to_bytes(self) -> bytes:
        return struct.pack("<I", 6) + sized(self.saved) + struct.pack("<I", self.step) + sized(self.image.tobytes())


@dataclass(frozen=True)
class Limit:
    """From here on: no larger arena, and no more steps per run, whose status then is that more are to be taken."""

    arena: int
    steps: int

    def to_bytes(self) -> bytes:
        return struct.pack("<III", 7, self.arena, self.steps)


Command = Open | OpenIn | Classify | CountVotes | Decide | Restore | Limit


def told(commands: Sequence[Command]) -> bytes:
    """What the driver reads."""
    return b"".join(command.to_bytes() for command in commands) + struct.pack("<I", 0)


def answers(said: str, commands: Sequence[Command]) -> list[list[int]]:
    """The numbers of one line per command."""
    lines = [[int(part) for part in line.split()] for line in said.splitlines()]
    assert len(lines) == len(commands), said[-300:]
    return lines


@dataclass(frozen=True)
class Driver:
    """The program."""

    path: Path

    @classmethod
    def build(cls, folder: Path, compiler: str = "gcc", *options: str) -> Driver:
        path = folder / "driver"
        sources = [*map(str, RUNTIME), str(ROOT / "tests/device/driver.c")]
        subprocess.run(
            [compiler, "-std=c99", "-O2", *WARNINGS, *INCLUDES, *options, *sources, "-o", str(path)], check=True
        )
        return cls(path)

    def run(self, commands: Sequence[Command], timeout: float | None = None) -> list[list[int]]:
        """The numbers of one line per command."""
        done = subprocess.run([str(self.path)], input=told(commands), capture_output=True, check=False, timeout=timeout)
        assert done.returncode == 0, (done.returncode, done.stderr.decode(errors="replace")[-3000:])
        return answers(done.stdout.decode(), commands)
