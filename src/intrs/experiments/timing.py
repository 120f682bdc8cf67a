"""Experiments h and i: time per image, size of the model, and what noisy images look like."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from intrs import zoo
from intrs.errors import ResultsError
from intrs.exact import plain
from intrs.experiments.plan import COMPARED, SIGMAS, other_numbers
from intrs.experiments.section import Section, Table, seconds_of, section
from intrs.files import read_bounded

if TYPE_CHECKING:
    from intrs.experiments.folder import Found


BROWSER = "browser.json"
MEASURE = f"python -m bench.web MODULES --chromium --write {BROWSER}"
ONE_WORKER = "intrs, one worker"
MOBILE_SAMPLES = 100_000  # of the paper's measurement
MOST_BYTES = 2**20


def time_and_size(found: Found) -> Section:
    """Experiment h: one line per method."""
    rows = []
    for method in COMPARED:
        timing = found.plan.timing(method)
        votes, model = found.votes(timing), found.plan.model(method, timing.trained)
        if votes and votes.run and model:
            samples = sum(row.n0 + row.n for row in votes.rows)
            size = zoo.find_model(model).stat().st_size  # where the plan has it; the run may have seen it elsewhere
            each, rate = seconds_of(votes) / len(votes.rows), samples / max(seconds_of(votes), 1e-9)
            network = Path(model).name
            rows.append((method, network, f"{each:.3g} s", f"{rate:,.0f}", f"{size:,}", votes.run.kernels))
    columns = ("method", "network", "time per image", "samples/s", "file, bytes", "engine")
    title = f"One image with {found.plan.n0 + found.plan.n:,} samples"
    which = "runs of their own" if found.plan.timed else "the runs above"
    notes = [f"Times are those of {which}, noise included; whatever else the machine did is in them."]
    if theirs := other_numbers()["time"].get(found.plan.paper):
        notes.append(
            f"The paper, {theirs['where']}: FloatRS-fp {theirs['FloatRS-fp']}, IntRS-quant {theirs['IntRS-quant']}."
        )
    return section(found, "h", [Table(title, columns, tuple(rows))] if rows else [], notes)


def in_a_browser(found: Found) -> Section:
    """Experiment j: rates that `bench.web` measured in a browser, as the time that the paper's samples take."""
    path = found.folder / BROWSER
    if not path.exists():
        return Section("j", "", not_run=(f"needs {BROWSER} in this folder, from a clone: {MEASURE}",))
    measured = _browser_rates(path)
    rates: dict[str, float] = measured["rates"]
    ours = rates[ONE_WORKER]
    rows = [
        (name, f"{MOBILE_SAMPLES / rate:,.0f} s", f"{rate:,.0f}", f"{ours / rate:.2f}") for name, rate in rates.items()
    ]
    columns = ("engine", "time per image", "samples/s", "one worker is faster by")
    theirs = other_numbers()["mobile"]
    notes = [
        "intrs makes noise, runs the network and counts votes; the other engine runs the bare network on one thread.",
        f"The paper, {theirs['where']}: FloatRS-fp {theirs['FloatRS-fp']}; {theirs['ratio']}.",
    ]
    done = f"Medians of rates in {measured['browser']}, measured by `{MEASURE}`."
    title = f"One image with {MOBILE_SAMPLES:,} samples, ResNet-20"
    return Section("j", done, tuple(notes), (Table(title, columns, tuple(rows)),))


def _browser_rates(path: Path) -> dict[str, Any]:
    """The browser, and the median rate of each engine."""
    try:
        read = json.loads(read_bounded(path, MOST_BYTES))
        rates = {str(name): float(median(values)) for name, values in read["rates"].items()}
        if rates[ONE_WORKER] <= 0 or min(rates.values()) <= 0:
            raise ValueError("a rate is not positive")
        return {"browser": str(read["browser"]), "rates": rates}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path}: not what bench.web writes ({error}); measure again: {MEASURE}") from None


def noisy_images(found: Found) -> Section:
    """Experiment i: its figure is drawn with the others."""
    columns = ", ".join(["none", *map(plain, SIGMAS)])
    return Section(
        "i", f"Discrete noise, from left to right sigma: {columns}.", ("Clipped to what a screen can show.",)
    )
