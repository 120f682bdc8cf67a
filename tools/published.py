"""The table of docs/results.md that comes from the results files in docs/runs: `python tools/published.py` writes it.

The files are packed as `xz -9e run.tsv` does it, beside the JSON that describes them. A test makes the table again.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

import intrs
from intrs.exact import plain
from intrs.files import PACKED, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from intrs.metrics import Results, Share

ROOT = Path(__file__).resolve().parent.parent
RUNS, PAGE = ROOT / "docs" / "runs", ROOT / "docs" / "results.md"
BEGIN, END = "<!-- made of docs/runs -->", "<!-- end of docs/runs -->"


def kept() -> list[Results]:
    """All runs that are kept, in the order of their names. Reading a run judges every line again from its votes."""
    return [intrs.read(path) for path in sorted(RUNS.glob(f"*.tsv{PACKED}"))]


def table(runs: Sequence[Results]) -> str:
    """One line per run: images that are correct and certified at each radius that was asked for, in per cent."""
    radii = sorted({radius for run in runs for radius in run.asked})
    heads = ("run", "images", *(f"r = {plain(radius)}" for radius in radii), "abstained", "samples per image")
    rows = [heads, ("---",) + ("---:",) * (len(heads) - 1), *(_row(run, radii) for run in runs)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(run: Results, radii: Sequence[Fraction]) -> tuple[str, ...]:
    assert run.path
    samples = [row.n for row in run.rows]
    images = f"{len(run):,}" if run.complete else f"{len(run):,} of {run.planned:,}"
    shares = (_percent(run.certified_accuracy(radius)) if radius in run.asked else "" for radius in radii)
    name = run.path.name.removesuffix(f".tsv{PACKED}")
    return (
        f"[{name}](runs/{run.path.name})", images, *shares, _percent(run.abstained()),
        f"{fmean(samples):,.0f} (median {median(samples):,.0f})",
    )  # fmt: skip


def _percent(share: Share) -> str:
    assert share.interval
    low, high = (100 * end for end in share.interval)
    return f"{100 * share:.1f} ({low:.1f}-{high:.1f})"


def page(text: str) -> str:
    """The page with its table made again."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{table(kept())}\n\n{END}{after}"


if __name__ == "__main__":
    write_whole(PAGE, page(PAGE.read_text("utf-8")).encode())
