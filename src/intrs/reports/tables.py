"""The page's table and bars: numbers as HTML, each marked with what it is, so that scripts and tests can find it."""

from __future__ import annotations

from fractions import Fraction
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING

from intrs.exact import plain
from intrs.reports.runs import MEASURES, table_radii
from intrs.reports.words import percent
from intrs.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.metrics import Mean, Results, Share
    from intrs.reports.runs import Entry

NOTHING = '<td class="none">–</td>'


def text(value: str) -> str:
    """Words from a stranger's file, as HTML."""
    return escape(printable(value))


def table(entries: Sequence[Entry]) -> str:
    """One line a run; the shares at radii are there for every measure, and the page shows one of them."""
    radii = table_radii(entries)
    head = "".join(f'<th scope="col">{name}</th>' for name in ("run", "σ", "samples", "images"))
    head += "".join(
        f'<th scope="col"><abbr title="{long}">{short}</abbr></th>'
        for short, long in (
            ("ACR", "average certified radius"),
            ("CP", "certified percentage: images that got an answer"),
            ("plain", "images whose class with most votes is right, abstentions or not"),
        )
    )
    head += "".join(f'<th scope="col" class="at">r ≥ {plain(radius)}</th>' for radius in radii)
    rows = "".join(_line(i, entry, radii) for i, entry in enumerate(entries))
    return f'<table id="numbers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _line(number: int, entry: Entry, radii: Sequence[Fraction]) -> str:
    log, run = entry.log, entry.log.run
    images = f"{len(log.answers):,}" + ("" if log.complete else f" of {log.planned:,}")
    cells = [
        f'<th scope="row"><span class="key s{number % 8}"></span><span class="value">{text(entry.name)}</span></th>',
        f'<td><span class="value">{plain(Fraction(run.sigma))}</span></td>' if run else NOTHING,
        f'<td><span class="value">{_samples(log)}</span></td>' if run else NOTHING,
        f'<td><span class="value">{images}</span></td>',
        _mean(log.average_radius() if log.has_radii else None, "acr"),
        f'<td data-metric="cp">{share_html(log.answered())}</td>',
        f'<td data-metric="plain">{share_html(plain_share)}</td>' if (plain_share := log.plain_accuracy()) else NOTHING,
        *(_at(entry, radius) for radius in radii),
    ]
    return f'<tr data-run="{number}">{"".join(cells)}</tr>'


def _samples(log: Results) -> str:
    assert log.run
    if not log.run.adaptive:
        return f"{log.run.n:,}"
    return f"≤ {log.run.n:,}, mean {fmean(row.n for row in log.rows):,.0f}"


def _at(entry: Entry, radius: Fraction) -> str:
    if (radius and not entry.log.has_radii) or not entry.log.was_asked(radius):
        return NOTHING
    shares = "".join(f'<span class="of-{m}">{share_html(entry.measure(m, radius))}</span>' for m in MEASURES)
    return f'<td data-metric="at" data-radius="{plain(radius)}">{shares}</td>'


def share_html(share: Share) -> str:
    """A percentage, and its interval below it."""
    if share.value is None or share.interval is None:
        return '<span class="value">–</span>'
    low, high = share.interval
    title = f"{share.part:,} of {share.whole:,} images"
    return (
        f'<span class="value" title="{title}">{100 * share.value:.1f}</span>'
        f'<span class="interval">{100 * low:.1f}–{100 * high:.1f}</span>'
    )


def _mean(mean: Mean | None, metric: str) -> str:
    if mean is None:
        return NOTHING
    interval = f'<span class="interval">{mean.interval[0]:.3f}–{mean.interval[1]:.3f}</span>' if mean.interval else ""
    return f'<td data-metric="{metric}"><span class="value">{mean.value:.3f}</span>{interval}</td>'


# --- Right, wrong, no answer -----------------------------------------------------------------------------------------


def bars(entries: Sequence[Entry]) -> str:
    """How every run's images divide."""
    return "".join(_bar(entry) for entry in entries)


def _bar(entry: Entry) -> str:
    log = entry.log
    right, quiet = log.certified_accuracy(Fraction(0)), log.abstained()
    parts = (("right", right.part), ("wrong", right.whole - right.part - quiet.part), ("abstained", quiet.part))
    rects, words, begin = [], [], 0
    for name, part in parts:
        shown = "no answer" if name == "abstained" else name
        rects.append(f'<rect class="{name}" x="{begin}" y="0" width="{part}" height="1"></rect>')
        share = type(right)(part, right.whole)
        words.append(
            f'<li><span class="key {name}"></span><b data-part="{name}">{part:,}</b> {shown} ({percent(share)})</li>'
        )
        begin += part
    shape = f'viewBox="0 0 {right.whole} 1" preserveAspectRatio="none"'
    svg = f'<svg class="bar" {shape} aria-hidden="true">{"".join(rects)}</svg>'
    mark = "" if log.complete else '<span class="badge">unfinished</span>'
    return f'<div class="split"><h3>{text(entry.name)}{mark}</h3>{svg}<ul>{"".join(words)}</ul></div>'
