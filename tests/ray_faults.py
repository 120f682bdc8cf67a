"""Faults in a real Ray cluster on this machine: every run must give the bytes of a local run, but for the times.

    python tests/ray_faults.py --faults 100 --seed 1

Three nodes with network namespaces of their own (as root; else as processes, without network cuts) count runs of all
kinds, while workers and nodes are killed with kill -9 or stopped, cables are pulled, one node becomes ten times slower,
and the driver is killed and resumed. Which fault follows which, where and for how long follows from the seed; at what
moment of which run it comes depends on the timing of the machine too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))  # run as a script

from ray_nodes import Node, Nodes, namespaces_work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUNS = {
    "fixed": ("--n", "4000"),
    "adaptive": ("--n", "20000", "--radii", "0,0.25,0.5"),
    "precision": ("--n", "20000", "--precision", "3%"),
}
WHAT = ("certify", "resnet20-sigma0.25", "cifar10-500", "--max", "8", "--seed", "5")
PROGRAM = """
import sys
from intrs import driver
from intrs.cli import main
driver.SECONDS = 0.2  # small units: many of them are out at any moment
sys.exit(main(sys.argv[1:]))
"""
COMMAND = (sys.executable, "-c", PROGRAM)
MOST_SECONDS = 400  # of one run, on a busy machine


def without_time(path: Path) -> list[list[str]]:
    """The cells of a results file, but for the times."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    at = rows[0].index("time")
    return [row[:at] + row[at + 1 :] for row in rows]


def check_same(found: Path, wanted: Path) -> None:
    """Every line once, the same numbers, the same description, and no votes left over."""
    if without_time(found) != without_time(wanted):
        raise AssertionError(f"{found} differs from {wanted}")
    one, other = (json.loads(Path(f"{path}.json").read_text()) for path in (found, wanted))
    if one != other:
        raise AssertionError(f"the descriptions of {found} and {wanted} differ: {one} {other}")
    if Path(f"{found}.votes").exists():
        raise AssertionError(f"{found}.votes is left over")


class Campaign:
    """Runs and faults, drawn from one seed."""

    def __init__(self, nodes: Nodes, folder: Path, seed: int, runs: Mapping[str, Sequence[str]]) -> None:
        self.nodes, self.folder, self.seed, self.runs = nodes, folder, seed, runs
        self.chance, self.pace = random.Random(seed), random.Random(seed)  # of the faults, and of all between them
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.kinds = ["worker", "stop", "node", "driver", "slow", *(["cut"] if nodes.apart else [])]
        self.given: Sequence[str] = ()  # kinds in this order, instead of those that chance would choose
        self.process: subprocess.Popen[str] | None = None
        self.words: list[str] = []

    def run(self, number: int, most: int) -> None:
        """One run with up to so many faults."""
        kind = list(self.runs)[number % len(self.runs)]
        path, wanted = self.folder / f"run{number}.tsv", self.folder / f"{kind}.tsv"
        self.words = [*COMMAND, *WHAT, *self.runs[kind], "-o", str(path), "--ray", self.nodes.address]
        begun, left = time.monotonic(), most
        self.start()
        while self.busy(self.pace.uniform(0.3, 2.5)):
            if time.monotonic() - begun > MOST_SECONDS:
                raise AssertionError(f"run {number} of seed {self.seed} hangs: {self.log[-most:]}")
            if left and ((path.exists() and Path(f"{path}.votes").exists()) or self.pace.random() < 0.1):
                left -= self.fault()
            self.repair()
        assert self.process
        if self.process.returncode:
            said = (self.folder / "driver.log").read_text()[-3000:]
            raise AssertionError(f"run {number} of seed {self.seed}: exit code {self.process.returncode}\n{said}")
        check_same(path, wanted)
        print(f"run {number} ({kind}): {most - left} faults, {time.monotonic() - begun:.0f} s, same bytes", flush=True)

    def start(self, *more: str) -> None:
        with (self.folder / "driver.log").open("ab") as log:
            self.process = self.nodes.driver([*self.words, *more], stdout=log, stderr=log, cwd=self.folder)

    def busy(self, seconds: float) -> bool:
        """Wait; whether the driver still works."""
        assert self.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(min(seconds, self.nodes.left()))
        return self.process.returncode is None

    def fault(self) -> bool:
        """The next fault; whether it met anything, for only then it counts."""
        kind = self.chance.choice(self.given[len(self.log) :][:1] or self.kinds)
        node = self.chance.choice(self.nodes.nodes[1:])
        words = kind if kind == "driver" else f"{kind} {node.number}"
        if not getattr(self, kind)(node):
            return False
        self.log.append(words)
        self.counts[kind] += 1
        print(f"  seed {self.seed}, fault {len(self.log)}: {words}", flush=True)
        return True

    def repair(self) -> None:
        """Nodes that are gone come back, as in a cluster that replaces them."""
        for node in self.nodes.nodes[1:]:
            if node.process is None or node.process.poll() is not None:
                node.kill()
                node.start()

    # --- Faults ------------------------------------------------------------------------------------------------------

    def worker(self, node: Node) -> bool:
        """kill -9 of one process that counts."""
        return any(_signal(pid, signal.SIGKILL) for pid in node.counting()[:1])

    def stop(self, node: Node) -> bool:
        """A worker that hangs for ever."""
        return any(_signal(pid, signal.SIGSTOP) for pid in node.counting()[:1])

    def node(self, node: Node) -> bool:
        """kill -9 of everything on a node."""
        was_there = bool(node.pids())
        node.kill()
        time.sleep(self.chance.uniform(0, 3))
        return was_there

    def cut(self, node: Node) -> bool:
        """The cable is pulled, for a moment or until Ray gives the node up."""
        node.cut(True)
        time.sleep(self.chance.uniform(0.2, 8))
        node.cut(False)
        return bool(node.pids())

    def slow(self, node: Node) -> bool:
        """Ten times slower for a while: stopped nine tenths of the time."""
        threading.Thread(target=_slow_down, args=(node, self.chance.uniform(2, 8)), daemon=True).start()
        return bool(node.counting())

    def driver(self, _: Node) -> bool:
        """kill -9 of the driver, and --resume."""
        assert self.process
        was_there = _signal(-self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self.start("--resume")
        return was_there


def _slow_down(node: Node, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pids = node.workers()
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        time.sleep(0.18)
        for pid in pids:
            _signal(pid, signal.SIGCONT)
        time.sleep(0.02)


def _signal(pid: int, what: signal.Signals) -> bool:
    """Whether the process was there to hear it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)
        return True
    return False


def campaign(
    seed: int,
    faults: int,
    *,
    apart: bool,
    seconds: float,
    per_run: int = 8,
    processors: list[int] | None = None,
    runs: Mapping[str, Sequence[str]] = RUNS,
    given: Sequence[str] = (),
) -> Counter[str]:
    """So many faults, in as many runs as it takes, if that is not too long."""
    with TemporaryDirectory() as name, Nodes(processors or [0, 1, 1, 1], apart=apart, seconds=seconds) as nodes:
        folder = Path(name)
        for kind, words in runs.items():
            local = [*COMMAND, *WHAT, *words, "-o", str(folder / f"{kind}.tsv")]
            subprocess.run(local, check=True, capture_output=True, timeout=nodes.left())
        made, number = Campaign(nodes, folder, seed, runs), 0
        made.given = given
        while len(made.log) < faults:
            number += 1
            made.run(number, min(per_run, faults - len(made.log)))
        print(f"seed {seed}: {number} runs, {len(made.log)} faults {dict(made.counts)}, all with the local bytes")
        return made.counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", action="store_true", help="no network namespaces, and so no network cuts")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that nothing is left behind
    apart = not given.processes and namespaces_work()
    campaign(given.seed, given.faults, apart=apart, seconds=MOST_SECONDS * (given.faults + 1))
