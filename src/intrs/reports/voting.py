"""How many votes the true class gets: the distribution of p_A over the images of every run, as curves and as numbers.

The curves' axis is Phi^-1(p): radii grow with it, and shares close to all votes, on which large radii depend, get room.
Floats say only where a share stands on the axis. The shares are fractions, and images are counted by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from intrs.reports.runs import have_labels, points, sigma_text
from intrs.reports.tables import share_html, text
from intrs.reports.words import votes_are_estimates, votes_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.metrics import Share
    from intrs.reports.runs import Entry

Place = int  # on the axis, in steps of which PER_UNIT are one unit of Phi^-1(p), that is a radius of one sigma

PER_UNIT = 50
FIRST: Place = -130  # shares below 0.5 % stand at the left end
# Shares with a mark on the axis, the most telling first: narrow pictures have room for few.
MARKS = tuple(map(Fraction, ("0", "1", ".5", ".9", ".99", ".1", ".999", ".9999", ".01", ".75", ".25", ".99999")))
COLUMNS = tuple(map(Fraction, (".1", ".5", ".9", ".99", "1")))  # of the table


def with_votes(entries: Sequence[Entry]) -> list[tuple[int, Entry]]:
    """The runs that counted votes under noise, with their numbers. Logs of other programs have none."""
    return [
        (number, entry)
        for number, entry in enumerate(entries)
        if entry.run and not entry.run.noise.is_none and entry.results.voted(0)
    ]


@dataclass(frozen=True)
class Axis:
    """The shares at which curves have points, evenly spread in Phi^-1(p); the first is 0 and the last 1."""

    last: Place

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Axis:
        """With room beyond the largest share but 1 that so many samples can give."""
        samples = max(row.n for entry in entries for row in entry.results.rows)
        return cls(max(-FIRST, math.ceil(-PER_UNIT * NormalDist().inv_cdf(1 / (4 * samples)))))

    @property
    def shares(self) -> list[Fraction]:
        """In ascending order."""
        return [Fraction(0), *map(_share, range(FIRST + 1, self.last)), Fraction(1)]

    @property
    def units(self) -> list[float]:
        """Where they stand, in units of Phi^-1(p)."""
        return [place / PER_UNIT for place in range(FIRST, self.last + 1)]

    def unit(self, share: Fraction) -> float:
        """Where a share stands."""
        ends = {Fraction(0): FIRST / PER_UNIT, Fraction(1): self.last / PER_UNIT}
        return ends[share] if share in ends else round(NormalDist().inv_cdf(float(share)), 4)

    @property
    def marks(self) -> list[tuple[float, str]]:
        """Shares in percent and where they stand, the most telling first."""
        inside = (mark for mark in MARKS if mark in (0, 1) or self.unit(mark) * PER_UNIT < self.last)
        return [(self.unit(mark), f"{percentage(mark)} %") for mark in inside]


def _share(place: Place) -> Fraction:
    """Phi(place), rounded to three digits of what is missing to 0 or 1: as it is printed, so it is compared."""
    rest = Fraction(f"{NormalDist().cdf(-abs(place) / PER_UNIT):.3g}")
    return rest if place <= 0 else 1 - rest


def percentage(share: Fraction) -> str:
    """All its digits, which are few."""
    return f"{float(100 * share):.10g}"


def distribution(entry: Entry, axis: Axis) -> list[Share]:
    """Images whose true class has each of the axis's shares of the votes or more."""
    found = (entry.results.voted(share) for share in axis.shares)
    return [share for share in found if share]


# --- On the page -----------------------------------------------------------------------------------------------------

SECTION = """<section id="votes" aria-labelledby="votes-title">
<h2 id="votes-title">How many votes the {whose} class gets</h2>
<p class="sub">{meaning}</p>
<div id="chart-votes" class="chart" tabindex="0" role="slider" aria-label="Share of the votes" aria-valuemin="0"
 aria-valuemax="0" aria-valuenow="0" aria-valuetext=""></div>
<p class="note">{estimates}</p>
<div class="scroll" tabindex="0" role="region" aria-labelledby="votes-title">{table}</div>
</section>
"""


def section(entries: Sequence[Entry]) -> str:
    """The page's part about votes; empty if no run has any."""
    found = with_votes(entries)
    if not found:
        return ""
    shown = [entry for _, entry in found]
    return SECTION.format(
        whose="true" if have_labels(shown) else "chosen",
        meaning=text(votes_mean(labelled=have_labels(shown))),
        table=_table(found),
        estimates=text(votes_are_estimates(shown)),
    )


def _table(found: Sequence[tuple[int, Entry]]) -> str:
    names = [f"≥ {percentage(share)} %" if share < 1 else "all votes" for share in COLUMNS]
    head = "".join(f'<th scope="col">{name}</th>' for name in ("run", *names))
    rows = "".join(_line(number, entry) for number, entry in found)
    return f'<table id="voted"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _line(number: int, entry: Entry) -> str:
    name = f'<span class="key s{number % 8}"></span><span class="value">{text(entry.name)}</span>'
    cells = "".join(
        f'<td data-metric="voted" data-share="{share}">{share_html(found)}</td>'
        for share in COLUMNS
        if (found := entry.results.voted(share))
    )
    return f'<tr data-run="{number}"><th scope="row">{name}</th>{cells}</tr>'


def as_data(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the script draws from."""
    found = with_votes(entries)
    if not found:
        return {"runs": []}
    axis = Axis.of([entry for _, entry in found])
    return {
        "low": FIRST / PER_UNIT,
        "step": 1 / PER_UNIT,
        "shares": [percentage(share) for share in axis.shares],
        "marks": axis.marks,
        "whose": "true" if have_labels(entries) else "chosen",
        "runs": [
            {
                "number": number, "name": entry.name, "sigma": sigma_text(entry),
                "points": points(distribution(entry, axis)),
            }
            for number, entry in found
        ],
    }  # fmt: skip
