"""Results for people: a few lines of text, a table for notebooks, a DataFrame of pandas."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intrs.errors import IntrsError
from intrs.exact import plain
from intrs.text import printable

if TYPE_CHECKING:
    from intrs.metrics.answers import Results
    from intrs.metrics.shares import Share
    from intrs.results import Row, Run

TABLE_STEPS = tuple(Fraction(m * 10**k, 4) for k in range(8) for m in (1, 2, 4))  # 0.25, 0.5, 1, 2.5, 5, 10, ...
MOST_RADII = 9  # of a table
LONGEST_NAME = 60
TITLE = "certified accuracy"
VOTES = ("n0", "n", "votes", "counts0", "counts")  # columns of a results file that are shown as they are


def radii_up_to(largest: float) -> list[Fraction]:
    """0, 0.25, 0.5, ... for a table that ends at the largest radius; wider steps if these are many."""
    step = next(step for step in TABLE_STEPS if largest / step < MOST_RADII)
    return [k * step for k in range(int(largest / step) + 1)]


def table_radii(found: Results) -> list[Fraction]:
    """The radii of a table: of an adaptive run those that it was asked for, every second or third if these are many."""
    if not found.asked:
        return radii_up_to(found.largest)
    radii = found.radii()
    return radii[:: -(-len(radii) // MOST_RADII)]


def text(found: Results) -> str:
    """What was run, on how many images, and certified accuracy at a few radii."""
    lines = [_what(found), _images(found)]
    if not found.has_radii:
        return "\n".join([*lines, _predicted(found)])
    title = _title(found)
    shares = _shares(found)
    widths = [max(len(plain(radius)), 5) for radius in shares]
    heads = "  ".join(f"{plain(radius):>{width}}" for radius, width in zip(shares, widths, strict=True))
    values = "  ".join(f"{_value(s):>{width}}" for s, width in zip(shares.values(), widths, strict=True))
    return "\n".join([*lines, f"{'radius':<{len(title)}}  {heads}", f"{title}  {values}"])


def html(found: Results) -> str:
    """The same as an HTML table, with intervals."""
    head = f"<p>{escape(_what(found))}<br>{escape(_images(found))}</p>"
    if not found.has_radii:
        return f"{head}<p>{escape(_predicted(found))}</p>"
    rows = "".join(
        f"<tr><td>{plain(radius)}</td><td>{_value(share)}</td><td>{escape(_counts(share))}</td></tr>"
        for radius, share in _shares(found).items()
    )
    columns = "".join(f"<th>{name}</th>" for name in ("radius", _title(found), "images, 95&nbsp;% interval"))
    return f"{head}<table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"


def _title(found: Results) -> str:
    return TITLE if found.has_labels else "certified"


def _predicted(found: Results) -> str:
    return f"correct: {found.certified_accuracy(0)!r}" if found.has_labels else f"answered: {found.answered()!r}"


def _what(found: Results) -> str:
    run = found.run
    if run is None:
        return f"log of another program: {_short(found.source)}"
    model = _short(Path(run.request.model).name) or f"network {run.identity[:12]}"
    return f"{run.command} {model} on {_data(run)}: {_noise(run)}"


def _noise(run: Run) -> str:
    """The noise of a run and its samples."""
    if run.noise.is_none:
        return "without noise, one pass per image"
    most, things = "up to " if run.stages else "", "sample" if run.request.n == 1 else "samples"
    return (
        f"{run.noise.kind} noise of sigma {plain(run.noise.sigma)}, {most}{run.request.n:,} {things} per image, "
        f"alpha {plain(run.alpha)}"
    )


def _data(run: Run) -> str:
    """The data's own name, without its folder."""
    sources = run.request.sources
    if not sources:
        return "arrays"
    return _short(Path(sources[0]).name) if len(sources) == 1 else f"{len(sources)} image files"


def _images(found: Results) -> str:
    quiet = found.abstained().part
    images = f"{len(found):,}" + ("" if found.complete else f" of {found.planned:,} planned")
    where = f", in {_short(Path(found.source).name)}" if found.paths and found.run else ""
    things = "image" if found.planned == 1 else "images", "abstention" if quiet == 1 else "abstentions"
    return f"{images} {things[0]}, {quiet:,} {things[1]}{where}"


def _short(name: str) -> str:
    """Names may come from anywhere: nothing that steers a terminal, and not too long."""
    shown = printable(name)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 3]}..."


def _shares(found: Results) -> dict[Fraction, Share]:
    """Certified accuracy by radius. Without labels, what is certified."""
    measure = found.certified_accuracy if found.has_labels else found.certified
    return {radius: measure(radius) for radius in table_radii(found)}


def _value(share: Share) -> str:
    return f"{share:.3f}" if share.whole else "-"


def _counts(share: Share) -> str:
    if share.interval is None:
        return ""
    low, high = share.interval
    return f"{share.part:,} of {share.whole:,}, {low:.3f} to {high:.3f}"


# --- pandas ----------------------------------------------------------------------------------------------------------


def dataframe(found: Results) -> Any:
    """One line per image."""
    try:
        pandas: Any = import_module("pandas")
    except ImportError:
        raise IntrsError("a DataFrame needs pandas: pip install pandas") from None
    answers = found.answers
    columns: dict[str, Any] = {
        "idx": [answer.idx for answer in answers],
        **_truth(found),
        "predict": pandas.array([answer.label for answer in answers], dtype="Int64"),
        **(_certificates(found, pandas) if found.has_radii else {}),
        **({"correct": pandas.array([answer.correct for answer in answers], dtype=bool)} if found.has_labels else {}),
    }
    return pandas.DataFrame(columns | (_of_rows(found, pandas) if found.run else {}))


def _truth(found: Results) -> dict[str, Any]:
    """The true classes, or the files of images that have none."""
    return {"label": [a.truth for a in found]} if found.has_labels else {"file": [a.file for a in found]}


def _certificates(found: Results, pandas: Any) -> dict[str, Any]:
    """What only certificates have. The radius of an abstention is 0, so that means over all images are right."""
    return {
        "certified": pandas.array([answer.certified for answer in found], dtype=bool),
        "radius": [answer.radius for answer in found],
    }


def _of_rows(found: Results, pandas: Any) -> dict[str, Any]:
    """The columns that only results of intrs have."""
    rows, columns = found.rows, dict[str, Any]()
    if found.has_radii:
        columns["radius_sq"] = pandas.array([row.radius_sq for row in rows], dtype="Int64")
    columns |= {name: [getattr(row, name) for row in rows] for name in VOTES}
    columns["vote_share"] = [math.nan if a.vote_share is None else float(a.vote_share) for a in found]
    columns["seconds"] = [seconds(row) for row in rows]
    if found.run and found.run.stages:
        columns |= {name: [getattr(row, name) for row in rows] for name in ("look", "rule")}
    return columns


def seconds(row: Row) -> float:
    """What an answer took, by its `time` column."""
    days, _, clock = row.time.rpartition(", ")
    hours, minutes, rest = clock.split(":")
    made = timedelta(days=int(days.split()[0]) if days else 0, hours=int(hours), minutes=int(minutes))
    return made.total_seconds() + float(rest)
