"""Which share of the multiply-adds that this machine can do at all does intrs get? The peak comes from peak.cpp."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.processes import EngineError, Run, median_and_range, others, rates, started

if TYPE_CHECKING:
    from bench.context import Context

SOURCE = Path(__file__).with_name("peak.cpp")
MULTIPLIES_BY = {
    "avx2": "vpmaddubsw+vpaddw ymm",
    "avxvnni": "vpdpbusd ymm",
    "avx512vnni": "vpdpbusd zmm",
}
SECONDS = 0.2  # for each instruction


def _compile(folder: Path) -> Path:
    program = folder / "peak"
    command = [os.environ.get("CXX", "g++"), "-O2", "-std=c++17", "-pthread", str(SOURCE), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise EngineError(f"peak.cpp does not compile here: {done.stderr.strip().splitlines()[-1]}")
    return program


def _measure(program: Path, threads: int) -> dict[str, float]:
    done = subprocess.run([program, str(threads), str(SECONDS)], capture_output=True, text=True, check=True)
    rates_by_name: dict[str, float] = json.loads(done.stdout)
    return rates_by_name


def run(context: Context) -> dict[str, Any]:
    """Peak and intrs in turns, with one thread and with all."""
    import intrs

    program = _compile(context.folder)
    kernels = [name for name in context.fast_kernels if name in MULTIPLIES_BY]
    counts = sorted({1, context.threads})
    settings = [context.intrs(name, threads) for threads in counts for name in kernels]
    work = intrs.load(context.intrs(context.kernels[0]).model, pixels="unit").native.multiply_adds()
    peaks: dict[int, list[dict[str, float]]] = {threads: [] for threads in counts}
    runs: list[list[Run]] = [[] for _ in settings]
    with started(settings) as processes:
        samples = [process.samples_for(context.seconds) for process in processes]
        for _ in range(context.rounds):
            for threads in counts:
                peaks[threads].append(_measure(program, threads))
            for mine, process, count in zip(runs, processes, samples, strict=True):
                mine.append(process.run(count))
    table = []
    for setting, mine in zip(settings, runs, strict=True):
        way = MULTIPLIES_BY[setting.kernels]
        peak = [round_[way] for round_ in peaks[setting.threads]]
        share = median_and_range([run.rate * work / top for run, top in zip(mine, peak, strict=True)])
        row = {"kernels": setting.kernels, "threads": setting.threads, "instruction": way, "rate": rates(mine)}
        table.append(row | {"share": share})
    tops = {str(n): {way: median_and_range([r[way] for r in rows]) for way in rows[0]} for n, rows in peaks.items()}
    return {"multiply_adds": work, "peaks": tops, "rows": table, "others": others(*runs)}
