"""What loading a file costs: memory and processor time, in a process of its own.

`hostile_onnx` and `hostile_tflite` have small files that ask for much. A loader must refuse them, or load them, within
the limits that `intrs/exchange/budget.py` states.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

CONSTANT, PER_BYTE = 200 * 2**20, 20  # bytes of memory: what budget.py states
SECONDS = 60  # of processor time: what is bounded takes a few, even on a slow machine that emulates
ADDRESSES = 2**32  # bytes: a loader that has gone wrong must not take the machine with it
Maker = Callable[[], bytes]


class Format(NamedTuple):
    """A format of model files: their suffix, a good small file, and those that ask for much."""

    suffix: str
    good: Maker
    files: dict[str, Maker]

    def hostile(self, maker: Maker) -> Maker:
        """Enter a file that asks for much."""
        self.files[maker.__name__] = maker
        return maker

    def measured(self, data: bytes) -> tuple[int, float, str]:
        """Bytes, seconds and outcome of loading a file in a process of its own, which ends if it takes too long."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{name}{self.suffix}" for name in ("good", "hostile")]
            for path, content in zip(paths, (self.good(), data), strict=True):
                path.write_bytes(content)
            done = subprocess.run(
                [sys.executable, __file__, *map(str, paths)],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                preexec_fn=_limit,
            )
        if done.returncode:
            return 0, float("inf"), done.stderr[-2000:]
        memory, seconds, outcome = done.stdout.split(" ", 2)
        return int(memory), float(seconds), outcome.strip()

    def show(self) -> None:
        """Print what each file costs."""
        for name, maker in self.files.items():
            data = maker()
            memory, seconds, outcome = self.measured(data)
            print(f"{name:34}{len(data):>12,} B {memory / 2**20:8.0f} MB {seconds:6.2f} s  {outcome[:110]}")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    if sys.platform != "darwin":  # which refuses it
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))


def load_and_measure(good: Path, path: Path) -> None:
    """Load a file; print memory beyond what a good small file takes, processor time, and the outcome."""
    from intrs.errors import IntrsError
    from intrs.model import load

    for file in (good, path):
        outcome = "loaded"
        before = resource.getrusage(resource.RUSAGE_SELF)
        try:
            load(file)
        except IntrsError as error:
            outcome = str(error).removeprefix(f"{file}: ")
    after = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024
    print((after.ru_maxrss - before.ru_maxrss) * unit, round(after.ru_utime - before.ru_utime, 2), outcome)


if __name__ == "__main__":
    load_and_measure(*map(Path, sys.argv[1:]))
