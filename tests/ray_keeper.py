"""Runs a command and ends everything that it started: `python ray_keeper.py SECONDS COMMAND ...`.

Ray's processes start others, which outlive them. The keeper adopts those that lose their parent, and kills all of them
when the command ends, after SECONDS, or when its own standard input closes, which it does if the tests are killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

ADOPT = 36  # PR_SET_CHILD_SUBREAPER


def descendants(pid: int) -> list[int]:
    """All that a process started, directly or not; without itself."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for tasks in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(word) for word in tasks.read_text().split()]
                found += children
                waiting += children
    return found


def kill_all(pid: int) -> None:
    """End what a process started, and what that starts meanwhile; the process itself goes on."""
    for _ in range(200):
        alive = [child for child in descendants(pid) if state(child) not in "ZX"]
        if not alive:
            return
        for child in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def state(pid: int) -> str:
    """As Linux has it: R, S, T (stopped), Z (only its parent has not heard that it is dead), X if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def keep(seconds: float, command: list[str]) -> int:
    """Run the command; its exit code, or 124 if time was up."""
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    end = time.monotonic() + seconds
    made = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        while made.poll() is None:
            if time.monotonic() > end:
                return 124
            if select.select([0], [], [], 0.1)[0] and not os.read(0, 1):
                return 124
        return made.returncode
    finally:
        kill_all(os.getpid())
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # so that none of them is listed any more
                pass


if __name__ == "__main__":
    sys.exit(keep(float(sys.argv[1]), sys.argv[2:]) & 255)
