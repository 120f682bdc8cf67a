"""The native module itself: numbers that it refuses, its own kind of error, and Python's exit while threads sample."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layers import network, scores_of

from intrs import _core

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (8, 8, 3)
TABLE = _core.NoiseTable(-1, np.array([2**62, 2**63], np.uint64))
IMAGE = np.full(SHAPE, 100, np.uint8)
NATIVE = network(scores_of(0, SHAPE), height=8, width=8).native


def votes(**options: Any) -> list[int]:
    chosen: dict[str, Any] = {
        "image_index": 0,
        "first": 0,
        "count": 40,
        "threads": 1,
        "kernels": "",
        "progress": None,
    } | options
    return _core.votes(NATIVE, TABLE, IMAGE, bytes(32), **chosen)


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_its_error_is_a_value_error_of_its_own() -> None:
    assert issubclass(_core.Error, ValueError)
    assert _core.Error is not ValueError
    with pytest.raises(_core.Error, match="no kernel set 'abacus'"):
        votes(kernels="abacus")
    with pytest.raises(_core.Error, match="bytes"):
        _core.Network(b"")


@pytest.mark.parametrize("threads", [1, 3])
def test_what_a_callback_raises_passes_through(threads: int) -> None:
    raised = ValueError("of the caller")

    def progress(_: int) -> None:
        raise raised

    with pytest.raises(ValueError, match="of the caller") as caught:
        votes(count=10**9, threads=threads, progress=progress)
    assert caught.value is raised
    assert caught.traceback[-1].name == "progress"


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("threads", -1, "the number of threads must be a whole number from 0 to 4096"),
        ("threads", 4097, "the number of threads"),
        ("threads", 10**30, "the number of threads"),
        ("threads", 1.5, "the number of threads"),
        ("threads", None, "the number of threads"),
        ("threads", "2", "the number of threads"),
        ("count", -1, "the number of samples must be a whole number from 0 to 18446744073709551615"),
        ("count", 2**64, "the number of samples"),
        ("count", 1e5, "the number of samples"),
        ("first", -1, "the first sample"),
        ("image_index", -1, "the image index must be a whole number from 0 to 4294967295"),
        ("image_index", 2**32, "the image index"),
    ],
)
def test_numbers_are_checked(name: str, wrong: Any, said: str) -> None:
    with pytest.raises(_core.Error, match=said):
        votes(**{name: wrong})
    if name != "threads":
        chosen: dict[str, Any] = {"image_index": 0, "first": 0, "count": 1} | {name: wrong}
        with pytest.raises(_core.Error, match=said):
            TABLE.draw(bytes(32), image=IMAGE, **chosen)


def test_numpy_integers_are_numbers() -> None:
    assert votes(count=np.int64(40), threads=np.uint8(2), first=np.int32(0)) == votes()


def test_samples_do_not_run_past_the_last_or_into_selection() -> None:
    for first in (2**63 - 1, 2**64 - 1):
        with pytest.raises(_core.Error, match="the sample range"):
            votes(first=first, count=2)
        with pytest.raises(_core.Error, match="the sample range"):
            TABLE.draw(bytes(32), 0, first, 2, IMAGE)
        assert sum(votes(first=first, count=1)) == 1


# --- Python's exit ---------------------------------------------------------------------------------------------------

START = """
import atexit, os, sys, threading, time
import numpy as np
late = []
atexit.register(lambda: [f() for f in late])  # runs after the core's own, which is registered later
from intrs import _core
network = _core.Network(open(sys.argv[1], "rb").read())
table = _core.NoiseTable(-1, np.array([2**62, 2**63], np.uint64))
image = np.full((8, 8, 3), 100, np.uint8)
begun = threading.Event()

def votes(count, progress=None):
    return _core.votes(network, table, image, bytes(32), 0, 0, count, 2, "", progress)

def for_ever(work):
    def loop():
        while True:
            begun.set()
            work()
    for _ in range(2):
        threading.Thread(target=loop, daemon=True).start()
    begun.wait()
    time.sleep(float(sys.argv[2]))

"""

WORK = {
    "one long count": "for_ever(lambda: votes(10**15))",
    "a count with a callback": "for_ever(lambda: votes(10**15, lambda done: sum(range(100_000))))",
    "short counts": "for_ever(lambda: votes(100))",
    "noise": "for_ever(lambda: table.draw(bytes(32), 0, 0, 100_000, image))",
    "scores": "for_ever(lambda: network.scores(np.zeros((100_000, 8, 8, 3), np.int32)))",
    "traces": "for_ever(lambda: network.trace(np.zeros((8, 8, 3), np.int32)))",
}


def run(folder: Path, script: str, wait: float = 0) -> subprocess.CompletedProcess[str]:
    (folder / "network").write_bytes(network(scores_of(0, SHAPE), height=8, width=8).to_bytes())
    command = [sys.executable, "-c", START + script, str(folder / "network"), str(wait)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("work", WORK)
def test_exit_while_threads_sample(work: str, tmp_path: Path) -> None:
    """At once, and later: every tenth of a second a count takes the GIL to look for signals and to call back."""
    for i in range(10 if work in ("one long count", "a count with a callback") else 3):
        done = run(tmp_path, WORK[work], 0.03 * i)
        assert (done.returncode, done.stderr) == (0, "")


def test_exit_with_a_callback_that_never_returns(tmp_path: Path) -> None:
    done = run(tmp_path, "for_ever(lambda: votes(10**15, lambda done: threading.Event().wait()))", 0.3)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_count_begins_once_python_exits(tmp_path: Path) -> None:
    done = run(tmp_path, "late.append(lambda: votes(10))")
    assert done.returncode == 0
    assert "Error: Python is about to exit" in done.stderr


def test_a_child_process_does_not_wait_for_its_parents_threads(tmp_path: Path) -> None:
    script = """
for_ever(lambda: table.draw(bytes(32), 0, 0, 100_000, image))
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(sum(votes(100)) != 100)
"""
    assert run(tmp_path, script, 0.2).returncode == 0
