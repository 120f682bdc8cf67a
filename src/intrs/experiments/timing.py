"""Experiments h and i: time per image, size of the model, and what noisy images look like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from intrs import zoo
from intrs.exact import plain
from intrs.experiments.plan import COMPARED, SIGMAS, other_numbers
from intrs.experiments.section import Section, Table, seconds_of, section

if TYPE_CHECKING:
    from intrs.experiments.folder import Found


def time_and_size(found: Found) -> Section:
    """Experiment h: one line per method."""
    rows = []
    for method in COMPARED:
        votes = found.votes(found.plan.fixed(method))
        if votes and votes.run:
            samples = sum(row.n0 + row.n for row in votes.rows)
            size = zoo.find_model(votes.run.request.model).stat().st_size
            each, rate = seconds_of(votes) / len(votes.rows), samples / max(seconds_of(votes), 1e-9)
            network = Path(votes.run.request.model).name
            rows.append((method, network, f"{each:.3g} s", f"{rate:,.0f}", f"{size:,}", votes.run.kernels))
    columns = ("method", "network", "time per image", "samples/s", "file, bytes", "engine")
    title = f"One image with {found.plan.n0 + found.plan.n:,} samples"
    theirs = other_numbers()["time"]
    notes = [
        "Times are those of the runs above, noise included; whatever else the machine did is in them.",
        f"The paper, {theirs['where']}: FloatRS-fp {theirs['FloatRS-fp']}, IntRS-quant {theirs['IntRS-quant']}.",
    ]
    return section(found, "h", [Table(title, columns, tuple(rows))] if rows else [], notes)


def noisy_images(found: Found) -> Section:
    """Experiment i: its figure is drawn with the others."""
    columns = ", ".join(["none", *map(plain, SIGMAS)])
    return Section(
        "i", f"Discrete noise, from left to right sigma: {columns}.", ("Clipped to what a screen can show.",)
    )
