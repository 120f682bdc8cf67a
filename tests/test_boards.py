"""The device runtime on emulated boards gives the desktop's bits, and its code holds what it may and nothing else.

`python tests/boards.py` is the whole of the first part; here is as much of it as takes seconds.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import device_times
import pytest
from boards import BOARDS, FILES, Board, BoardDriver, emulate, run_cases, shipped_cases, small_cases
from device_cases import tiny
from device_driver import ROOT, WARNINGS
from images import (
    MEMORY,
    WHOLE_NUMBERS,
    asked_for,
    compile_objects,
    float_instructions,
    forbidden,
    mnemonics,
    symbols,
    types,
    writable_bytes,
)

import intrs
from intrs.exchange.device import build, folder, sizes

if TYPE_CHECKING:
    from pathlib import Path

    from device_cases import Case

PAGE = ROOT / "docs" / "devices.md"
CORTEX = [board for board in BOARDS if board.name.startswith("cortex")]
HELIUM = "cortex-m55"
EVERY = [(board, kernels) for board in BOARDS for kernels in board.kernels]


def needed(board: Board) -> Board:
    """The board, or a skip that says what is missing."""
    if board.missing:
        pytest.skip(f"needs {' and '.join(board.missing)}")
    return board


def named(value: object) -> str:
    return value.name if isinstance(value, Board) else f"kernels {value or 'default'}"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return small_cases(networks=220, golden=1)


@pytest.mark.parametrize(("board", "kernels"), EVERY, ids=named)
def test_a_board_gives_the_bits_of_the_desktop(board: Board, kernels: str, cases: list[Case], tmp_path: Path) -> None:
    """Bad input, 220 random networks of every layer kind, and a sample of every golden entry."""
    run_cases(BoardDriver.build(needed(board), kernels, tmp_path), cases)


def test_shipped_networks_on_a_board(tmp_path: Path) -> None:
    """Votes, predictions, fixed and adaptive certificates of the shipped networks under both noises."""
    board = next(board for board in BOARDS if board.name == "cortex-m4")
    run_cases(BoardDriver.build(needed(board), "", tmp_path), list(shipped_cases(4)))


def test_a_difference_is_noticed(cases: list[Case], tmp_path: Path) -> None:
    """A board that is told other answers fails: the comparison compares."""
    board = needed(CORTEX[0])
    last = cases[-1]
    expected = [*last.expected[:-1], [*last.expected[-1][:-1], 77]]
    with pytest.raises(AssertionError, match="golden"):
        run_cases(BoardDriver.build(board, "", tmp_path), [type(last)(last.name, last.commands, expected)])


# --- what the code holds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("board", "kernels"), EVERY, ids=named)
def test_object_files(board: Board, kernels: str, tmp_path: Path) -> None:
    """No float, no heap, no global that can be written; of other code only memory functions and 64-bit division."""
    objects = compile_objects(needed(board), kernels, tmp_path)
    assert asked_for(board, objects) <= MEMORY | WHOLE_NUMBERS
    assert writable_bytes(board, objects) == 0
    assert {"unsigned char", "short int"} <= types(board, objects)
    assert not {name for name in types(board, objects) if "float" in name or "double" in name}
    assert {"add", "mul"} & mnemonics(board, objects)
    assert not float_instructions(board, objects, vectors=board.name == HELIUM)


def test_floats_and_globals_are_noticed(tmp_path: Path) -> None:
    """Code that has all of these is told apart, so that the test above can fail."""
    board = needed(CORTEX[1])
    source = (
        "#include <stdlib.h>\nint count;\ndouble f(double x, float y) { ++count; return free(malloc(8)), x * y; }\n"
    )
    (tmp_path / "bad.c").write_text(source)
    for way, name in ((board.options, "soft"), (("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard"), "hard")):
        command = [board.compiler, *way, "-g", "-c", "bad.c", "-o", f"{name}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
    soft, hard = [tmp_path / "soft.o"], [tmp_path / "hard.o"]
    assert forbidden(asked_for(board, soft)) == {"__aeabi_dmul", "__aeabi_f2d", "free", "malloc"}
    assert writable_bytes(board, soft) == 4
    assert {"float", "double"} <= types(board, soft)
    assert {"vmul.f64", "vcvt.f64.f32"} <= float_instructions(board, hard, vectors=True)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `intrs export --target c` writes it."""
    out = tmp_path_factory.mktemp("exported") / "net"
    intrs.export(tiny(), out, target="c", sigma="0.25", alpha="0.01", n=300, radii=["0.02"], predict_n=30)
    return out


@pytest.mark.parametrize("board", CORTEX, ids=named)
def test_linked_images(board: Board, exported: Path) -> None:
    """`make run-qemu` of an exported folder: the example is right on every board, and the image holds no float."""
    machine = needed(board).emulator[-1]
    command = ["make", "-s", "-C", str(exported), "run-qemu", f"BOARD={machine}", "CFLAGS=-O2 -Werror"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all answers equal the desktop's\n" in done.stdout + done.stderr
    image = [exported / "build" / f"{machine}.elf"]
    assert not forbidden({name for _, name in symbols(board, image)})
    assert {"intrs_open", "main"} <= {name for _, name in symbols(board, image)}
    assert not float_instructions(board, image, vectors=board.name == HELIUM)


@pytest.mark.parametrize("board", CORTEX, ids=named)
def test_stack_and_arena(board: Board, exported: Path) -> None:
    """What a run really touches: no more stack than the macro says, all of the arena and nothing around it."""
    image = exported / f"stack-{needed(board).name}.elf"
    sources = [
        *map(str, sorted((exported / "src").glob("*.c"))),
        str(FILES / "stack.c"),
        str(exported / "boards/mps2.c"),
    ]
    options = ["-std=c99", "-O2", *board.options, *WARNINGS, f"-I{exported / 'src'}", f"-I{exported / 'boards'}"]
    link = ["-nostdlib", f"-T{exported / 'boards/mps2.ld'}", "-Wl,--gc-sections,--defsym=FLASH=512K", "-lgcc"]
    subprocess.run([board.compiler, *options, *map(str, sources), *link, "-o", str(image)], check=True)
    done = emulate(board, image)
    assert done.returncode == 0, done.stdout
    found = {name: int(number) for name, number in (line.split() for line in done.stdout.splitlines())}
    macros = dict(re.findall(r"#define (NET_\w+_BYTES) (\d+)", (exported / "src/net.h").read_text()))
    assert found["status"] == 0
    assert 400 < found["stack"] <= int(macros["NET_STACK_BYTES"])
    whole = int(macros["NET_ARENA_BYTES"])
    assert (
        0 < found["arena"] <= whole if board.name == HELIUM else found["arena"] == whole
    )  # codes are not widened there


@pytest.mark.parametrize("board", CORTEX, ids=named)
def test_the_stated_stack_is_that_of_every_processor(board: Board, tmp_path: Path) -> None:
    """By the compiler's figures along the deepest chain of calls."""
    needed(board)
    for path in (*folder.runtime_folder().glob("intrs*"), folder.arithmetic_file()):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for tiles, shipped in sizes.SHIPPED.items():
        found = sizes.measure(tmp_path, ("-std=c99", "-O2", f"-DINTRS_WITH_TILES={int(tiles)}", *board.options))
        assert found.stack <= max(shipped.stack, folder.code_of_runtime(tiles).stack)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("QEMU=no-such-qemu",), "no-such-qemu is not installed; on Debian and Ubuntu: apt install qemu-system-arm"),
        (("ARM=no-such-",), "no-such-gcc is not installed; on Debian and Ubuntu: apt install gcc-arm-none-eabi"),
        (("BOARD=toaster",), "unknown BOARD 'toaster'; choose from mps2-an385"),
    ],
)  # fmt: skip
def test_make_says_what_is_missing(settings: tuple[str, ...], words: str, exported: Path) -> None:
    command = ["make", "-s", "-C", str(exported), "run-qemu", "BUILD=elsewhere", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert words in done.stderr or (words.startswith("no-such-qemu") and needed(CORTEX[0]).missing)
    assert not (exported / "elsewhere").exists()


def test_cmake_builds_and_checks_a_folder(exported: Path, tmp_path: Path) -> None:
    subprocess.run(["cmake", "-S", str(exported), "-B", str(tmp_path)], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path)], check=True, capture_output=True)
    done = subprocess.run(["ctest"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"100% tests passed.* out of 1", done.stdout)  # newer versions leave the failed ones out


# --- docs/devices.md -------------------------------------------------------------------------------------------------


def shown(first: str) -> str:
    """What the page shows from a line that begins so to the end of the block."""
    lines = iter(PAGE.read_text("utf-8").splitlines())
    block = [next(line for line in lines if line.startswith(f"    {first}"))]
    for line in lines:
        if not line.startswith("    "):
            break
        block.append(line)
    return "".join(f"{line[4:]}\n" for line in block)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The page's command: what it prints, and the folder that it writes."""
    folder = tmp_path_factory.mktemp("page")
    words = next(line for line in shown("pip install").splitlines() if line.startswith("intrs export"))
    done = subprocess.run(
        [sys.executable, "-m", "intrs", *shlex.split(words)[1:]], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout, folder / "dev"


def test_the_page_shows_what_export_prints(shipped: tuple[str, Path]) -> None:
    """Lines about layers and RAM; the code's size is the compiler's."""
    printed = [line.split("; code")[0].split(", stack")[0].split("bytes (")[-1] for line in shipped[0].splitlines()]
    for line in shown("layer ").splitlines():
        assert line.split("; code")[0].split(", stack")[0].split("bytes (")[-1] in printed


def test_the_shipped_networks_fit_small_devices(shipped: tuple[str, Path]) -> None:
    """48 KiB of RAM; 120 KiB of flash for ResNet-8 and 330 for ResNet-20, with tables for adaptive certificates."""
    found = dict(re.findall(r"^(flash|RAM) +([\d,]+) bytes", shipped[0], re.MULTILINE))
    flash, ram = (int(found[name].replace(",", "")) for name in ("flash", "RAM"))
    assert flash <= 120 * 1024
    assert ram <= 48 * 1024
    small, large = (build(intrs.load(f"resnet{size}-sigma0.25")) for size in (8, 20))
    assert flash + len(large.data) - len(small.data) <= 330 * 1024
    assert large.plan.size <= small.plan.size


def test_the_page_shows_what_a_device_prints(shipped: tuple[str, Path]) -> None:
    """All of it, on this computer: emulated, a thousand samples take minutes."""
    done = subprocess.run(["make", "-s", "-C", str(shipped[1]), "check"], capture_output=True, text=True, check=True)
    assert done.stdout == shown("network 13f5")


def test_a_certificate_from_a_cortex_m_in_three_commands(tmp_path: Path) -> None:
    """The page's commands with one radius, which needs few samples, so that emulation takes seconds."""
    board = needed(next(board for board in BOARDS if board.name == "cortex-m4"))
    command = [sys.executable, "-m", "intrs", "export", "resnet8-sigma0.25", "--target", "c", "-o", "dev"]
    subprocess.run([*command, "--at-least", ".25"], cwd=tmp_path, capture_output=True, check=True)
    command = ["make", "-s", "-C", "dev", "run-qemu", f"BOARD={board.emulator[-1]}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    said = done.stdout + done.stderr
    assert "certified within 63 pixel levels of 255" in said
    assert said.endswith("all answers equal the desktop's\n")


def test_the_estimated_times_follow_from_the_counts() -> None:
    """`python tests/device_times.py --write` puts them right."""
    text = device_times.PAGE.read_text("utf-8")
    assert device_times.with_times(text) == text
    counts = device_times.rows_under(text, device_times.COUNTS)
    assert len(counts) >= 3
    first = device_times.PROCESSORS[1].seconds(100, float(counts[0][3]))
    assert device_times.shown(first) == device_times.rows_under(text, device_times.TIMES)[1][2]


def test_the_runtime_is_what_is_exported(exported: Path) -> None:
    for path in (ROOT / "device").glob("intrs*.c"):
        assert (exported / "src" / path.name).read_bytes() == path.read_bytes()
