"""One self-contained page: template, style, script and data in one file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from intrs import __version__
from intrs.exact import plain
from intrs.reports.curves import as_data, section
from intrs.reports.gallery import Gallery
from intrs.reports.provenance import provenance
from intrs.reports.runs import (
    MEASURES,
    METHODS,
    curve,
    curve_step,
    fitting_curves,
    guess_paper,
    have_labels,
    paper,
    paper_curves,
    points,
    shown_at_first,
    sigma_text,
)  # fmt: skip
from intrs.reports.tables import bars, table, text
from intrs.reports.voting import as_data as votes_data
from intrs.reports.voting import section as votes_section
from intrs.reports.words import assumptions, brief, cautions, findings, headline, meaning, motto

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from intrs.reports.curves import LearningCurve
    from intrs.reports.runs import Entry

SCRIPT = ("base", "chart", "curves", "votes", "training", "table", "images", "start")


def page(
    entries: Sequence[Entry],
    images: Gallery | None = None,
    *,
    title: str = "",
    which: str = "auto",
    curves: Sequence[LearningCurve] = (),
) -> str:
    """The page as HTML. which names the paper's table to compare with: auto, none, cifar10 or caltech101."""
    images = images or Gallery()
    which = guess_paper(entries) if which == "auto" else which
    style, script = _shipped("page.css"), _script()
    return Template(_shipped("page.html")).substitute(
        title=text(title or headline(entries)),
        motto=motto(entries),
        policy=_policy(style, script),
        style=style,
        script=script,
        findings=_findings(entries),
        **_of_labels(labelled=have_labels(entries)),
        cautions=_cautions(entries),
        paper_note=text(_paper_note(which)),
        votes=votes_section(entries),
        votes_data=_json(votes_data(entries)),
        bars=bars(entries),
        table=table(entries),
        training=section(curves, entries),
        training_data=_json(as_data(curves)),
        assumptions=_items(assumptions(entries, images.dimension or _dimension(entries))),
        provenance=provenance(entries),
        curves=_json(_curves(entries, which)),
        gallery=_json({"pictures": images.pictures, "runs": images.runs}),
        remarks=_items(images.remarks),
        version=text(__version__),
    )


def _of_labels(*, labelled: bool) -> dict[str, str]:
    """What the page says where the true classes are known, and where they are not."""
    if labelled:
        answers = "Correct, wrong, abstained"
        sub = "The certified percentage (CP) is correct and wrong together: all images that got an answer."
        measure = {"measure": "all", "all_checked": "checked", "certified_checked": "", "measure_hidden": ""}
    else:
        answers = "Answered, abstained"
        sub = "The images have no labels. The certified percentage (CP) is the share that got an answer."
        measure = {
            "measure": "certified",
            "all_checked": "",
            "certified_checked": "checked",
            "measure_hidden": "hidden",
        }
    return {"answers": answers, "answers_sub": sub, **measure}


def _shipped(name: str) -> str:
    return (files("intrs.reports") / name).read_text("utf-8")


def _script() -> str:
    """The parts of the script, which share one scope, in the order in which they need each other."""
    parts = "\n".join(_shipped(f"script/{name}.js") for name in SCRIPT)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _policy(style: str, script: str) -> str:
    """Only this style and this script, no address but images in the page itself."""
    hashes = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script))
    return "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; " + "; ".join(
        f"{kind}-src 'sha256-{digest}'" for kind, digest in zip(("style", "script"), hashes, strict=True)
    )


def _json(data: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _dimension(entries: Sequence[Entry]) -> int | None:
    """Values per image, where the runs say it."""
    return next((entry.run.dimension for entry in entries if entry.run and entry.run.dimension), None)


def _items(sentences: Iterable[str]) -> str:
    return "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)


def _findings(entries: Sequence[Entry]) -> str:
    if len(entries) == 1:
        found = _items([findings(entries[0])])
    else:
        found = "".join(f"<li><b>{text(entry.name)}</b> {text(brief(entry))}</li>" for entry in entries)
    return found + _items(meaning(entries))


def _cautions(entries: Sequence[Entry]) -> str:
    found = cautions(entries)
    return f"<aside><h2>Compare with care</h2><ul>{_items(found)}</ul></aside>" if found else ""


def _paper_note(which: str) -> str:
    if which not in paper()["tables"]:
        return ""
    found = paper()["tables"][which]
    return (
        f"Paper: {paper()['source']}, table “{found['caption']}” ({found['network']}). "
        "Its formula divides by the answered images. Where it gives 0.00 nothing is drawn."
    )


# --- Curves ----------------------------------------------------------------------------------------------------------


def _curves(entries: Sequence[Entry], which: str) -> dict[str, Any]:
    drawn = [(number, entry) for number, entry in enumerate(entries) if entry.results.has_radii]
    curves = paper_curves(which)
    fitting = fitting_curves(curves, entries)
    step = curve_step(entries)
    return {
        "step": float(step),
        "runs": [
            {
                "number": number, "name": entry.name, "sigma": sigma_text(entry),
                "measures": {m: points(curve(entry, m, step)) for m in MEASURES},
            }
            for number, entry in drawn
        ],
        "paper": [
            {
                "name": c.name, "short": c.short, "method": METHODS.index(c.method), "sigma": plain(c.sigma),
                "radii": c.radii, "values": c.values, "shown": shown_at_first(c, entries),
            }
            for c in fitting
        ],
    }  # fmt: skip
