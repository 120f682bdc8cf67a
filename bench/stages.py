"""Where does the time go? What stands around the network, by timing; and all stages and functions, by perf.

    python -m bench.stages MODEL KERNELS SECONDS ROUNDS

does the timing, on one thread: votes of the network, and votes of one with the same quantiser that then reads a single
pixel, which is noise, input quantiser, argmax and votes without a network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.context import say
from bench.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.context import Context
    from bench.engines import Settings
    from intrs.network import Network

BLOCK = 16  # samples that a kernel set takes at once, or a multiple of that
PROFILE_SECONDS, FREQUENCY = 8, 1999
STAGES = (  # the first that matches the name of a function; (?<!re) keeps requantise out of quantise
    ("noise", r"NoiseTable|ChaCha|chacha|Lookup"),
    ("input quantiser", r"(?<!re)quantise"),
    ("argmax and votes", r"top_class|score|value|count_votes|Worker"),
    ("convolution", r"conv|depthwise|dot_|tile|Winograd|Amx"),
    ("residual add", r"::add"),
    ("pooling and other layers", r"pool|requantise|concat|pad|finish|rescale"),
    ("borders and loop", r"memset|memmove|memcpy|fill|run|Runner"),
)


def _without_layers(network: Network) -> Network:
    """The same quantiser, then a 1x1 convolution with a stride as large as the image: next to no work."""
    from intrs import network as n

    height, width, channels = network.input_shape
    rescale = n.Rescale(np.array([1 << 30], np.int32), np.array([30], np.int8))
    weights = np.ones((network.classes, 1, 1, channels), np.int8)
    layer = n.Conv(
        (0,), weights, np.zeros(network.classes, np.int32), groups=1, stride=(height, width), dilation=(1, 1),
        pad=(0, 0, 0, 0), input_zero_point=0, rescale=rescale, output_zero_point=0, wide=True,
    )  # fmt: skip
    return n.Network(network.quantiser, (layer,))


def _pieces(model: str, kernels: str) -> dict[str, Callable[[int], object]]:
    """What is timed: each runs a number of samples."""
    import intrs
    from intrs import votes
    from intrs.votes import Samples

    network = intrs.load(model, pixels="unit")
    noise, image = intrs.Noise.of("discrete", "0.25"), np.full(network.input_shape, 128, np.uint8)

    def votes_of(net: Network) -> Callable[[int], object]:
        return lambda n: votes.count(net, image, noise, Samples(1, 0, 0, n), threads=1, kernels=kernels)

    return {"everything": votes_of(network), "around": votes_of(_without_layers(network))}


def _seconds(call: Callable[[int], object], count: int) -> float:
    start = time.perf_counter()
    call(count)
    return time.perf_counter() - start


def timings(model: str, kernels: str, seconds: float, rounds: int) -> dict[str, float]:
    """Microseconds a sample, with the network and without: medians over rounds, in turns."""
    pieces, counts = _pieces(model, kernels), dict[str, int]()
    for name, call in pieces.items():
        _seconds(call, BLOCK)
        counts[name] = max(1, round(seconds / _seconds(call, 64 * BLOCK) * 64)) * BLOCK
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, call in pieces.items():
            found[name].append(1e6 * _seconds(call, counts[name]) / counts[name])
    return {name: statistics.median(values) for name, values in found.items()}


def _timed(context: Context, kernels: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.stages", context.model("int8"), kernels]
    command += [str(context.seconds / 2), str(context.rounds)]
    environment = {**os.environ, "INTRS_KERNELS": kernels}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    micro: dict[str, float] = json.loads(done.stdout)
    return {"microseconds": micro, "around_network": micro["around"] / micro["everything"]}


def _build_with_symbols(folder: Path) -> Path:
    """The package once more, with the same flags but its symbols kept."""
    target = folder / "with-symbols"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--target", str(target), "-C", "cmake.build-type=RelWithDebInfo", str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return target


def _record(context: Context, package: Path, settings: Settings, samples: int) -> str:
    data = context.folder / "perf.data"
    record = ["perf", "record", "-q", "-F", str(FREQUENCY), "-e", "cpu-clock", "-o", str(data), "--"]
    record += [sys.executable, "-m", "bench.worker", json.dumps(settings.fields())]
    environment = {**settings.environment, "PYTHONPATH": str(package)}
    options: dict[str, Any] = {"cwd": ROOT, "check": True, "capture_output": True, "text": True}
    subprocess.run(record, input=f"{samples}\n", env=environment, **options)
    report = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-g", "none", "-F", "overhead,dso,symbol"]
    listing: str = subprocess.run(report, **options).stdout
    return listing


def by_stage(listing: str) -> tuple[dict[str, float], dict[str, float]]:
    """From perf's table: shares by stage, and the ten largest functions. Only the core counts, not Python around it."""
    functions: dict[str, float] = defaultdict(float)
    for share, place, name in re.findall(r"^\s*([\d.]+)%\s+(\S+)\s+\[.\]\s+(.*?)\s*$", listing, re.MULTILINE):
        if place.startswith("_core") or (place.startswith("libc.") and re.search("mem(set|cpy|move)", name)):
            functions[_short(name)] += float(share)
    total = sum(functions.values())
    stages: dict[str, float] = defaultdict(float)
    for name, share in functions.items():
        stages[next((stage for stage, pattern in STAGES if re.search(pattern, name)), "other")] += share / total
    largest = sorted(functions, key=functions.__getitem__, reverse=True)[:10]
    return dict(stages), {name: functions[name] / total for name in largest}


def _short(name: str) -> str:
    return name.replace("intrs::", "").replace("(anonymous namespace)::", "")


def _profiled(context: Context, package: Path, kernels: str, microseconds: float) -> dict[str, Any]:
    settings = context.intrs(kernels, threads=1)
    samples = round((2 if context.quick else PROFILE_SECONDS) * 1e6 / microseconds / BLOCK) * BLOCK
    stages, functions = by_stage(_record(context, package, settings, samples))
    return {"profile": stages, "functions": functions}


def run(context: Context) -> dict[str, Any]:
    """For each kernel set: timings always, a profile if perf is here."""
    table: dict[str, dict[str, Any]] = {k: _timed(context, k) for k in context.fast_kernels}
    if not shutil.which("perf"):
        return {"kernels": table, "no_profile": "perf is not installed"}
    try:
        package = _build_with_symbols(context.folder)
        for kernels, entry in table.items():
            entry.update(_profiled(context, package, kernels, entry["microseconds"]["everything"]))
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or b"").strip()
        say(f"no profile: {reason!r}")
        return {"kernels": table, "no_profile": str(reason)[-200:]}
    return {"kernels": table}


def main(arguments: list[str]) -> None:
    model, kernels, seconds, rounds = arguments
    print(json.dumps(timings(model, kernels, float(seconds), int(rounds))))


if __name__ == "__main__":
    main(sys.argv[1:])
