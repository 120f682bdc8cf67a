"""A section of the results: tables of text, as Markdown and JSON, and the words that all experiments share."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from intrs.experiments.extras import lacks
from intrs.experiments.plan import NOISE, TITLES
from intrs.metrics.show import seconds
from intrs.reports.tables import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from intrs.experiments.folder import Found
    from intrs.experiments.plan import Sampling
    from intrs.metrics import Results, Share

FIGURE_ONLY = "The paper shows this in a figure and gives no numbers."
INTERVALS = "In brackets: 95 % interval for the images, which are a sample (Clopper and Pearson)."
DENOMINATORS = (
    "“ours” is the share of all images; “of the answered” is the paper's formula, which leaves abstentions out."
)


@dataclass(frozen=True)
class Table:
    """Cells as text, under their columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """With its title above it."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


@dataclass(frozen=True)
class Section:
    """One experiment."""

    experiment: str
    done: str  # images, samples, time
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    not_run: tuple[str, ...] = ()
    figures: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        """With its letter."""
        return f"({self.experiment}) {TITLES[self.experiment]}"

    def markdown(self) -> str:
        """Heading, what was done, notes, tables, what was not run."""
        parts = [f"## {self.title}", self.done, *self.notes, *(table.markdown() for table in self.tables)]
        parts += [f"![{Path(name).stem}]({name})" for name in self.figures]
        if self.not_run:
            parts.append("\n".join(f"- not run: {what}" for what in self.not_run))
        return "\n\n".join(part for part in parts if part)

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "experiment": self.experiment,
            "title": TITLES[self.experiment],
            "done": self.done,
            "notes": list(self.notes),
            "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in self.tables],
            "figures": list(self.figures),
            "not_run": list(self.not_run),
        }


def section(
    found: Found, letter: str, tables: Iterable[Table], notes: Iterable[str], not_run: Sequence[str] = ()
) -> Section:
    """An experiment with what was done for it, and with what it lacks."""
    made, missing = tuple(tables), [f"needs model {name}" for name in found.plan.missing(letter)]
    return Section(
        letter,
        _done(found, letter) if made else "",
        tuple(notes) if made else (),
        made,
        (*missing, *_no_engine(found, letter), *not_run),
    )


def _no_engine(found: Found, letter: str) -> list[str]:
    there = [s for s in found.plan.needs(letter) if found.plan.model(s.method, s.trained) and not found.votes(s)]
    needs = {s.method: lacks(NOISE[s.method]) for s in there}
    return [f"{method} needs {what}" for method, what in needs.items() if what]


def _done(found: Found, letter: str) -> str:
    runs = [(s, votes) for s in found.plan.needs(letter) if (votes := found.votes(s))]
    images = sorted({len(votes) for _, votes in runs})
    time = sum(seconds_of(votes) for _, votes in runs)
    fixed = [s.n for s, _ in runs if not s.adaptive]
    counts = (f"{n:,}" for n in sorted(set(fixed or (s.n for s, _ in runs))))
    samples = f"{', '.join(counts)} samples per image" if fixed else f"at most {' or '.join(counts)} samples per image"
    certified = any(votes.has_radii for _, votes in runs)
    select = f" (and {found.plan.n0:,} to select the class)" if certified else ""
    return (
        f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} of {' or '.join(map(str, images))} images, "
        f"{samples}{select}{_adaptive_ones(runs)}, "
        f"alpha {found.plan.alpha}, seed {found.plan.seed}; sampling took {time:,.0f} s in all, "
        "shared with the other experiments."
    )


def _adaptive_ones(runs: Sequence[tuple[Sampling, Results]]) -> str:
    """How many runs are adaptive, and what they took."""
    taken = [[row.n for row in votes.rows] for sampling, votes in runs if sampling.adaptive]
    if not taken:
        return ""
    return f"; {len(taken)} of the runs are adaptive and took {fmean(chain.from_iterable(taken)):,.0f} on average"


def seconds_of(votes: Results) -> float:
    """What the answers of a run took together."""
    return sum(map(seconds, votes.rows))


def share_text(share: Share) -> str:
    """A share with its interval, as a cell has it."""
    if share.value is None or share.interval is None:
        return "–"
    low, high = share.interval
    return f"{share.value:.3f} [{low:.2f}, {high:.2f}]"


def beside(title: str, place: str | None) -> str:
    """The title of a table that stands beside one of the paper."""
    return f"{title} (paper: {place})" if place else title


def _cell(words: str) -> str:
    """Names of files may hold anything; Markdown takes HTML, so it is escaped here too."""
    return text(words).replace("|", "\\|").replace("\n", " ")
