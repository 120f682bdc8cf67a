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
NOT_ASKED = "This adaptive run was not asked for radius 0, so that it does not say how many images get an answer."


def text(value: str) -> str:
    """Words from any file, as HTML."""
    return escape(printable(value))


def table(entries: Sequence[Entry]) -> str:
    """One line per run; the shares at radii are there for every measure, and the page shows one of them."""
    radii = table_radii(entries)
    head = "".join(f'<th scope="col">{name}</th>' for name in ("run", "σ", "samples", "images"))
    head += _abbreviated("CP", "certified percentage: images that got an answer")
    head += _abbreviated("plain", "images whose class with most votes is correct, abstentions or not")
    head += "".join(f'<th scope="col" class="at">r ≥ {plain(radius)}</th>' for radius in radii)
    head += _abbreviated("ACR", "average certified radius, in which easy images weigh most")
    rows = "".join(_line(i, entry, radii) for i, entry in enumerate(entries))
    return f'<table id="numbers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _abbreviated(short: str, long: str) -> str:
    return f'<th scope="col"><abbr title="{long}">{short}</abbr></th>'


def _line(number: int, entry: Entry, radii: Sequence[Fraction]) -> str:
    found, run, votes = entry.results, entry.run, entry.results.plain_accuracy()
    images = f"{len(found):,}" + ("" if found.complete else f" of {found.planned:,}")
    cells = [
        f'<th scope="row"><span class="key s{number % 8}"></span><span class="value">{text(entry.name)}</span></th>',
        f'<td><span class="value">{plain(run.noise.sigma)}</span></td>' if run else NOTHING,
        f'<td class="words"><span class="value">{_samples(found)}</span></td>' if run else NOTHING,
        f'<td><span class="value">{images}</span></td>',
        f'<td data-metric="cp">{share_html(found.answered())}</td>' if found.was_asked(0) else NOTHING,
        f'<td data-metric="plain">{share_html(votes)}</td>' if votes else NOTHING,
        *(_at(entry, radius) for radius in radii),
        _mean(found.average_radius() if found.has_radii else None, "acr"),
    ]
    return f'<tr data-run="{number}">{"".join(cells)}</tr>'


def _samples(found: Results) -> str:
    assert found.run
    if not found.run.stages:
        return f"{found.run.request.n:,}"
    return f"≤ {found.run.request.n:,}, mean {fmean(row.n for row in found.rows):,.0f}"


def _at(entry: Entry, radius: Fraction) -> str:
    if (radius and not entry.results.has_radii) or not entry.results.was_asked(radius):
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
        f'<span class="interval">{100 * low:.1f}–<wbr>{100 * high:.1f}</span>'
    )


def _mean(mean: Mean | None, metric: str) -> str:
    if mean is None:
        return NOTHING
    interval = (
        f'<span class="interval">{mean.interval[0]:.3f}–<wbr>{mean.interval[1]:.3f}</span>' if mean.interval else ""
    )
    return f'<td data-metric="{metric}"><span class="value">{mean.value:.3f}</span>{interval}</td>'


# --- Correct, wrong, abstained ---------------------------------------------------------------------------------------


def bars(entries: Sequence[Entry]) -> str:
    """How every run's images divide."""
    return "".join(_split(entry) for entry in entries)


def _split(entry: Entry) -> str:
    mark = "" if entry.results.complete else '<span class="badge">unfinished</span>'
    shown = _bar(entry) if entry.results.was_asked(0) else f'<p class="sub">{NOT_ASKED}</p>'
    return f'<div class="split"><h3>{text(entry.name)}{mark}</h3>{shown}</div>'


def _bar(entry: Entry) -> str:
    found = entry.results
    right, quiet = entry.measure("all", Fraction(0)), found.abstained()
    parts = {"right": right.part, "wrong": right.whole - right.part - quiet.part, "abstained": quiet.part}
    correct = "correct" if found.has_labels else "answered"
    rects, words, begin = [], [], 0
    for name, part in parts.items():
        if name == "wrong" and not found.has_labels:
            continue
        shown = correct if name == "right" else name
        rects.append(f'<rect class="{name}" x="{begin}" y="0" width="{part}" height="1"></rect>')
        share = type(right)(part, right.whole)
        words.append(
            f'<li><span class="key {name}"></span><b data-part="{name}">{part:,}</b> {shown} ({percent(share)})</li>'
        )
        begin += part
    shape = f'viewBox="0 0 {right.whole} 1" preserveAspectRatio="none"'
    svg = f'<svg class="bar" {shape} aria-hidden="true">{"".join(rects)}</svg>'
    return f"{svg}<ul>{''.join(words)}</ul>"
