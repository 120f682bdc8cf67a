"""The device runtime on emulated boards: cross-compiled, run by QEMU, compared with the desktop's answers.

    python tests/boards.py [--boards NAME ...] [--kernels N ...] [--networks 220] [--samples 30]

Every board runs the same cases: bad input, random networks of every layer kind, the golden file, and the shipped
ResNet-8 and ResNet-20 under both noises with votes, predictions, fixed and adaptive certificates. One program per board
and kernel set serves all: it is tests/device/driver.c, which reads networks and images through semihosting. Exit code
1, with the first difference, if a single number is another one.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from device_cases import BAD_INPUT, SHIPPED, Case, check, golden_cases, random_cases, shipped_case, tiled_cases
from device_driver import INCLUDES, ROOT, RUNTIME, answers, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from device_driver import Command

FILES = ROOT / "tests" / "device"
COMMANDS = "commands"  # the file that the driver reads
PATIENCE = 3600  # seconds
NEWLIB = (
    "-ffunction-sections",
    "-Wl,--gc-sections",
    "-nostartfiles",
    "--specs=rdimon.specs",
    f"-T{FILES / 'cortex_m.ld'}",
    str(FILES / "cortex_m.c"),
)
PICOLIBC = (
    "--oslib=semihost", "--crt0=hosted",
    "-Wl,--defsym=__flash=0x80000000,--defsym=__flash_size=4M,--defsym=__ram=0x80400000,--defsym=__ram_size=16M",
)  # fmt: skip


@dataclass(frozen=True)
class Board:
    """A machine of QEMU, the compiler for it, and the values of INTRS_KERNELS that it can run ("": the compiler's)."""

    name: str
    compiler: str
    options: tuple[str, ...]
    link: tuple[str, ...]
    emulator: tuple[str, ...]
    kernels: tuple[str, ...] = ("", "0")

    @property
    def missing(self) -> list[str]:
        """Programs that are not installed."""
        return [tool for tool in (self.compiler, self.emulator[0]) if not shutil.which(tool)]

    def tool(self, name: str) -> str:
        """A program beside the compiler, such as objdump."""
        return self.compiler.removesuffix("gcc") + name


def cortex(machine: str, cpu: str, ram: int, kernels: tuple[str, ...] = ("", "0"), *, helium: bool = False) -> Board:
    options = (f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=soft")
    if helium:  # its registers are those of floats; +nofp leaves floats themselves out
        options = (f"-mcpu={cpu}+nofp", "-mthumb", "-mfloat-abi=softfp")
    link = (f"-Wl,--defsym=RAM={ram:#x}", *NEWLIB)
    return Board(cpu, "arm-none-eabi-gcc", options, link, ("qemu-system-arm", "-M", machine), kernels)


BOARDS = (
    cortex("mps2-an385", "cortex-m3", 0x20000000, ("",)),
    cortex("mps2-an386", "cortex-m4", 0x20000000),
    cortex("mps2-an500", "cortex-m7", 0x20000000),
    cortex("mps3-an547", "cortex-m55", 0x21000000, ("", "0", "1"), helium=True),
    Board(
        "rv32imac",
        "riscv64-unknown-elf-gcc",
        ("-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"),
        PICOLIBC,
        ("qemu-system-riscv32", "-M", "virt", "-bios", "none"),
        ("",),
    ),
)


def switch(kernels: str) -> tuple[str, ...]:
    """The option that chooses a kernel set."""
    return (f"-DINTRS_KERNELS={kernels}",) if kernels else ()


@dataclass(frozen=True)
class BoardDriver:
    """The driver for a board and a kernel set, with its folder."""

    board: Board
    image: Path

    @classmethod
    def build(cls, board: Board, kernels: str, folder: Path) -> BoardDriver:
        image = folder / f"{board.name}-{kernels or 'default'}.elf"
        sources = [*map(str, RUNTIME), str(FILES / "driver.c")]
        options = ["-std=c99", "-O2", *board.options, *switch(kernels), f'-DINTRS_COMMANDS="{COMMANDS}"', *INCLUDES]
        command = [board.compiler, *options, *sources, *board.link, "-o", str(image)]
        subprocess.run(command, check=True)
        return cls(board, image)

    def run(self, commands: Sequence[Command]) -> list[list[int]]:
        """The numbers of one line per command."""
        (self.image.parent / COMMANDS).write_bytes(told(commands))
        done = emulate(self.board, self.image)
        assert done.returncode == 0, (self.image.name, done.returncode, done.stdout[-2000:])
        return answers(done.stdout, commands)


def emulate(board: Board, image: Path) -> subprocess.CompletedProcess[str]:
    """Run an image in its folder. Boards write to either stream."""
    quiet = ("-nographic", "-monitor", "none", "-serial", "none")
    semihosting = ("-semihosting-config", "enable=on,target=native")
    return subprocess.run(
        [*board.emulator, *quiet, *semihosting, "-kernel", str(image)],
        cwd=image.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


def small_cases(networks: int, golden: int) -> list[Case]:
    """Bad input, random networks, layers for tiles, and the golden file with at most so many samples of each entry."""
    tiles = tiled_cases(0, networks // 4)
    return [*(made() for made in BAD_INPUT), *random_cases(0, networks), *tiles, *golden_cases(golden)]


def shipped_cases(samples: int) -> Iterator[Case]:
    """The shipped networks with so many samples; the runs are saved and restored on the way."""
    for model, law, sigma in SHIPPED:
        yield shipped_case(model, law, sigma, n=samples, n0=3, step=samples // 2 + 1)


def run_cases(driver: BoardDriver, cases: Sequence[Case]) -> None:
    """Run all of them at once; raises AssertionError at the first difference."""
    lines = iter(driver.run([command for case in cases for command in case.commands]))
    for case in cases:
        check(case, [next(lines) for _ in case.commands])


def main() -> int:
    """Run as the arguments say; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="+", default=[board.name for board in BOARDS])
    parser.add_argument("--kernels", nargs="+", help="values of INTRS_KERNELS; all that a board can run if left out")
    parser.add_argument("--networks", type=int, default=220)
    parser.add_argument("--samples", type=int, default=30, help="of the shipped networks")
    parser.add_argument("--golden", type=int, default=400, help="the most samples per entry of the golden file")
    options = parser.parse_args()
    cases = [*small_cases(options.networks, options.golden), *shipped_cases(options.samples)]
    wrong = 0
    for board in (board for board in BOARDS if board.name in options.boards):
        if board.missing:
            print(f"{board.name}: not run, {' and '.join(board.missing)} missing")
            wrong += 1
            continue
        for kernels in options.kernels or board.kernels:
            begin = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    run_cases(BoardDriver.build(board, kernels, Path(folder)), cases)
                except AssertionError as error:
                    print(f"{board.name}, kernels {kernels or 'default'}: WRONG {error}")
                    wrong += 1
                else:
                    took = time.monotonic() - begin
                    print(f"{board.name}, kernels {kernels or 'default'}: {len(cases)} cases equal, {took:.0f} s")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
