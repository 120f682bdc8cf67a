"""Clusters: what one driver can handle, what Ray costs on one machine, and a simulation of up to 1,000 nodes.

    python -m bench.cluster simulate              # seconds to minutes; needs nothing but the package
    python -m bench.cluster handling              # processor time of the driver per unit, on threads and on Ray
    python -m bench.cluster overhead              # Ray on one node against local threads, in turns
    python -m bench.cluster share                 # while a run is under way: whose the processors' time is (Linux)
    python -m bench.cluster before COMMIT         # local speed against that commit, in turns

The simulation is one of discrete events. Which unit goes out next, how large it is, and when an image is over are
decided by the driver's own `Agenda`; simulated are the workers, which take the measured time per sample, and the
driver, which takes the measured time per unit, one unit after another.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import intrs
from intrs import driver
from intrs.driver import Agenda, Pending
from intrs.engines.ray import PER_NODE
from intrs.progress import duration

HERE = Path(__file__).parent
CORES = 64
HANDLING = 1.3 / 1000  # seconds of the driver per unit, as if one thread did it all; `handling` measured 1.1 to 1.4 ms
NETWORK = 1.25e9 / 2  # bytes per second out of the driver's machine: half of 10 Gbit/s
LATENCY = 0.002  # seconds between driver and worker
SELECTION = 100  # samples by which the class is selected, before the others
LANES = 16  # samples that a thread takes at once
START = 5.0  # seconds until the workers have the network


@dataclass(frozen=True)
class Work:
    """What is to be certified, and what a core does of it; the rates are those of bench/RESULTS.md over two threads."""

    name: str
    images: int
    n: int
    rate: float  # samples per second and core
    pixels: int  # bytes of an image
    adaptive: bool = False


RATE20, RATE50 = 10_547 / 2, 99.7 / 2
WORK = (
    Work("CIFAR-10, ResNet-20, adaptive up to 100,000", 10_000, 100_000, RATE20, 3 * 32 * 32, adaptive=True),
    Work("ImageNet, ResNet-50, n = 10,000", 50_000, 10_000, RATE50, 3 * 224 * 224),
    Work("ImageNet, ResNet-50, n = 100,000", 50_000, 100_000, RATE50, 3 * 224 * 224),
)


@dataclass(frozen=True)
class FewVotes:
    """As much of `Votes` as the agenda looks at."""

    first: int
    count: int

    @property
    def samples(self) -> FewVotes:
        return self

    def __add__(self, other: FewVotes) -> FewVotes:
        return FewVotes(self.first, self.count + other.count)


def simulate(work: Work, nodes: int, workers: str, seed: int = 1) -> dict[str, float]:
    """Time of a run, and what share of the processors' time went into samples."""
    chance = random.Random(seed)
    slots, threads = (nodes * CORES, 1) if workers == "core" else (nodes * PER_NODE, CORES)
    machines = slots if workers == "core" else nodes  # a core is a machine of its own
    needs = _needs(work)
    engine: Any = SimpleNamespace(slots=slots, threads=threads)
    agenda = Agenda(_job(work), [Pending(i, i) for i in range(work.images)], engine)
    speeds = [chance.gauss(1, 0.03) for _ in range(machines)]
    idle_from = [0.0] * machines
    free = list(range(slots))
    events: list[tuple[float, int, Pending, Any, float]] = []
    now = busy_until = START
    units = done = 0
    useful = 0.0
    while not agenda.is_over:
        while free and (given := agenda.next()) is not None:
            image, unit = given
            slot, units = free.pop(), units + 1
            busy_until = max(busy_until, now) + max(HANDLING, work.pixels / NETWORK)
            end = needs[image.place] if work.adaptive else unit.first + unit.count
            count = min(max(end - unit.first, 1), unit.count)
            at, came, select = slot % machines, busy_until + LATENCY, SELECTION * (unit.first == 0)
            is_alone = idle_from[at] <= came
            seconds = _seconds(count, select, threads, work.rate, is_alone) / speeds[at]
            idle_from[at] = max(came, idle_from[at]) + seconds
            useful += (count + select) / work.rate / speeds[at]
            heapq.heappush(events, (idle_from[at], slot, image, (unit.first, count), idle_from[at] - came))
        if events:
            now, slot, image, (first, count), seconds = heapq.heappop(events)
            now += LATENCY
            free.append(slot)
            agenda.take(image, _counted(work, first, count, seconds, needs[image.place]))
        done += sum(1 for _ in agenda.finished())
    assert done == work.images
    return {"seconds": now, "units": units, "efficiency": useful / (now * nodes * CORES), "handled": units / now}


def _seconds(samples: int, select: int, threads: int, rate: float, is_alone: bool) -> float:
    """A thread takes LANES samples at once, and all wait for the last, unless another unit has the idle cores."""
    if threads == 1 or not is_alone:
        return (samples + select) / (threads * rate)
    return sum(math.ceil(each / (LANES * threads)) for each in (samples, select)) * LANES / rate


@cache
def _measured() -> list[int]:
    return [row.n for row in intrs.read(HERE.parent / "docs" / "runs" / "resnet20-sigma0.25-cifar10.tsv.xz").rows]


def _needs(work: Work) -> list[int]:
    return _measured()[: work.images] if work.adaptive else [work.n] * work.images


def _job(work: Work) -> Any:
    """As much of a `Job` as the agenda looks at."""
    run = SimpleNamespace(shard=None, request=SimpleNamespace(n=work.n), n0=0)
    data = SimpleNamespace(images=range(work.images), indices=range(work.images))
    return SimpleNamespace(rules=("a rule",) if work.adaptive else (), run=run, data=data)


def _counted(work: Work, first: int, count: int, seconds: float, need: int) -> Any:
    votes = FewVotes(0, first + count) if work.adaptive else FewVotes(first, count)
    over = work.adaptive and votes.count >= need
    return SimpleNamespace(selection=None, votes=votes, stage=0, over=over, seconds=seconds)


def simulated(work: Work, nodes: int) -> Work:
    """As many of the images as keep the nodes busy for ten minutes: of a longer run the efficiency is no lower."""
    enough = math.ceil(600 * nodes * CORES * work.rate / work.n)
    return work if work.adaptive else replace(work, images=min(work.images, enough))


def show_simulation(nodes: list[int], seeds: int) -> None:
    """One line per case, by the means over some draws of how fast each machine is."""
    print("| job | nodes | workers | images | time | units/s | efficiency | all images |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    for work in WORK:
        for count in nodes:
            for workers in ("core",) if work.adaptive else ("core", "node"):
                part = simulated(work, count)
                draws = [simulate(part, count, workers, seed) for seed in range(1, seeds + 1)]
                found = {name: statistics.mean(draw[name] for draw in draws) for name in draws[0]}
                whole = found["seconds"] * work.images / part.images
                print(
                    f"| {work.name} | {count:,} | {workers} | {part.images:,} | {found['seconds']:,.0f} s | "
                    f"{found['handled']:,.0f} | {100 * found['efficiency']:.1f} % | {duration(whole)} |",
                    flush=True,
                )


# --- This machine ----------------------------------------------------------------------------------------------------

TINY = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from tiny_model import save_images, save_model
import intrs
from intrs import driver
driver.SECONDS, driver.HANDLED, driver.FIRST = 1e-9, 1e12, 64  # the smallest units
save_model(Path("tiny.onnx")); save_images(Path("tiny.npz"))
settings = dict(seed=1, out="r.tsv", overwrite=True, ray={ray!r}, threads=1)
if settings["ray"]:
    import ray
    ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
intrs.certify("tiny.onnx", "tiny.npz", **settings, n=6400)  # workers start
begin = time.process_time()  # of all threads of this process, Ray's among them: others do not disturb it
intrs.certify("tiny.onnx", "tiny.npz", **settings, n={n})
print(1000 * (time.process_time() - begin) / (8 * {n} / 64))
"""
RUN = """
import sys, time
import intrs
begin = time.perf_counter()
settings = dict(seed=1, n=int(sys.argv[2]), max=int(sys.argv[3]), out="r.tsv", overwrite=True)
if sys.argv[1] == "ray":
    import ray
    ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    settings["ray"] = True
intrs.certify("resnet20-sigma0.25", "cifar10-500", **settings | {"n": 1000, "max": 2})  # workers start
if sys.argv[4] == "adaptive":
    settings["radii"] = ("0", "0.25", "0.5", "0.75")
begin = time.perf_counter()
intrs.certify("resnet20-sigma0.25", "cifar10-500", **settings)
print(time.perf_counter() - begin)
"""


KINDS = {  # processes by a part of their command line
    "ray::": "workers",
    "intrs certify": "driver",
    "raylet": "Ray's node managers (raylet)",
    "gcs_server": "Ray's head (gcs_server)",
    "ray/": "Ray, other (log monitors, agents)",
}


def run(program: str, *words: str, path: str | None = None) -> float:
    """The number that a program in a process of its own prints last."""
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"} | ({"PYTHONPATH": path} if path else {})
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    return float(done.stdout.split()[-1])


def show_handling() -> None:
    tests = str(HERE.parent / "tests")
    for name, ray, n in (("local threads, counting included", None, 64_000), ("Ray on this machine", True, 16_000)):
        print(f"{name}: {run(TINY.format(tests=tests, ray=ray, n=n)):.2f} ms of the driver per unit", flush=True)


def show_ratio(name: str, rounds: int, words: tuple[str, ...], one: dict[str, Any], other: dict[str, Any]) -> None:
    """The same work in two ways, in turns; a ratio is taken within a round."""
    found = []
    for i in range(rounds):
        pair = [(0, one), (1, other)] if i % 2 else [(1, other), (0, one)]
        times = {k: run(RUN, each["engine"], *words, path=each.get("path")) for k, each in pair}
        found.append(times[0] / times[1])
        print(f"  round {i + 1}: {times[0]:.2f} s against {times[1]:.2f} s", flush=True)
    print(f"{name}: {statistics.median(found):.3f} ({min(found):.3f} to {max(found):.3f}), {rounds} rounds")


def show_before(commit: str, rounds: int, works: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=HERE.parent, check=True, capture_output=True)
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
        import intrs._core

        core = Path(str(intrs._core.__file__))
        (Path(folder) / "src" / "intrs" / core.name).write_bytes(core.read_bytes())  # only Python differs
        for words in works:
            old = {"engine": "local", "path": str(Path(folder) / "src")}
            show_ratio(f"speed now over speed at {commit}, {words[-1]}", rounds, words, old, {"engine": "local"})


def processor_seconds() -> dict[str, float]:
    """What every process of this machine has used so far, added up by what it is; and what nobody used."""
    tick = os.sysconf("SC_CLK_TCK")
    found = defaultdict(float, idle=int(Path("/proc/stat").read_text().split()[4]) / tick)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            times = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
            kind = next((kind for sign, kind in KINDS.items() if sign in words), "other")
            found[kind] += sum(map(int, times)) / tick
    return found


def show_share(seconds: float) -> None:
    before, begin = processor_seconds(), time.monotonic()
    time.sleep(seconds)
    after, passed = processor_seconds(), time.monotonic() - begin
    for kind in sorted(after, key=lambda kind: before.get(kind, 0) - after[kind]):
        share = (after[kind] - before.get(kind, 0)) / passed / (os.cpu_count() or 1)
        print(f"{100 * share:6.2f} %  {kind}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("simulate", "handling", "overhead", "share", "before"))
    parser.add_argument("commit", nargs="?", default="73b1c68")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seeds", type=int, default=6, help="draws of the machines' speeds per simulated case")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--n", type=int, default=20_000, help="samples per image of a timed run")
    parser.add_argument("--images", type=int, default=10, help="of a timed run; an adaptive one has four times as many")
    parser.add_argument("--kinds", nargs="+", choices=("fixed", "adaptive"), default=("fixed", "adaptive"))
    parser.add_argument("--seconds", type=float, default=240, help="that `share` looks on")
    args = parser.parse_args()
    images = {"fixed": args.images, "adaptive": 4 * args.images}  # about as long, some twenty seconds on two cores
    works = [(str(args.n), str(images[kind]), kind) for kind in args.kinds]
    if args.what == "simulate":
        print(
            f"units: {driver.SECONDS} s or slots / {driver.HANDLED} s; {1000 * HANDLING:g} ms of the driver per unit\n"
        )
        show_simulation(args.nodes, args.seeds)
    elif args.what == "handling":
        show_handling()
    elif args.what == "share":
        show_share(args.seconds)
    elif args.what == "overhead":
        for words in works:
            show_ratio(
                f"speed of Ray over local threads, {words[-1]}",
                args.rounds,
                words,
                {"engine": "local"},
                {"engine": "ray"},
            )
    else:
        show_before(args.commit, args.rounds, works)


if __name__ == "__main__":
    main()
