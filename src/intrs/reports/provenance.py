"""Where a run comes from: what is recorded of it, and the commands that repeat and verify it."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from intrs.adaptive import GIVE_UP, Stages
from intrs.reports.tables import text
from intrs.reports.words import bound_name, is_classical
from intrs.request import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.adaptive.stages import Stage
    from intrs.reports.runs import Entry
    from intrs.results import Run

NAMES = {
    "identity": "model identity",
    "pixels": "pixel convention",
    "data_sha256": "data SHA-256",
    "first": "first image",
    "skip": "every k-th image",
    "max": "images planned",
    "n0": "samples to select",
    "n": "samples to decide",
    "intrs": "intrs version",
    "kernels": "kernel set",
    "python": "Python",
}

VERIFY_FLOATS = "Verify every line (another processor or version may round differently)"
CLASSICAL_NAMES = NAMES | {"identity": "SHA-256 of the model’s file", "kernels": "engine"}  # of runs in floats
ELSEWHERE = ("command", "model", "data", "adaptive")  # fields that are no options, or several


def provenance(entries: Sequence[Entry]) -> str:
    """A block for every run, folded if there are several."""
    opened = " open" if len(entries) == 1 else ""
    return "".join(f"<details{opened}><summary>{text(e.name)}</summary>{_block(e)}</details>" for e in entries)


def _block(entry: Entry) -> str:
    run = entry.log.run
    rows = [("file" if len(entry.log.paths) == 1 else "files", ", ".join(str(path) for path in entry.log.paths))]
    if run is None:
        return _rows(rows) + "<p>A log of another program: it does not say how it was made.</p>"
    names, shown = CLASSICAL_NAMES if is_classical(run) else NAMES, replace(run, bound=bound_name(run))
    rows += [(names.get(f.name, f.name), str(getattr(shown, f.name))) for f in fields(shown)]
    verify = "\n".join(shlex.join(["intrs", "verify", str(path)]) for path in entry.log.paths)
    return (
        _rows([(name, value) for name, value in rows if value])
        + _command("Repeat the run", repeat(run, str(entry.log.path)))
        + _command(VERIFY_FLOATS if is_classical(run) else "Verify every line", verify)
    )


def _rows(rows: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in rows) + "</dl>"


def _command(title: str, command: str) -> str:
    return f'<h4>{title}</h4><div class="command"><pre tabindex="0">{text(command)}</pre></div>'


def repeat(run: Run, path: str) -> str:
    """The command that makes this run again; one a line if an adaptive run was extended.

    Whatever field of the run is an option of its command is given, unless it has its default; so a setting that is
    added later is not forgotten here.
    """
    if not run.adaptive:
        return shlex.join([*_words(run), "--out", path])
    stages = Stages.parse(run.adaptive).stages
    again = [["--resume"] if i else [] for i in range(len(stages))]
    lines = ([*_words(replace(run, n=stage.n)), *_asked(stage), "--out", path] for stage in stages)
    return "\n".join(shlex.join([*words, *more]) for words, more in zip(lines, again, strict=True))


def _words(run: Run) -> list[str]:
    defaults = {field.name: field.default for field in fields(REQUESTS[run.command])}
    del defaults["kernels"]  # all give the same bits; another machine may not have this one
    words = ["intrs", run.command, *(f"./{name}" if name.startswith("-") else name for name in (run.model, run.data))]
    for field in fields(run):
        name, value = field.name, getattr(run, field.name)
        if name in defaults and name not in ELSEWHERE and value != defaults[name]:
            words += ["--" + name.replace("_", "-"), str(value)]
    return words


def _asked(stage: Stage) -> list[str]:
    """The options of one stage of an adaptive run."""
    if stage.precision is not None:
        return ["--adaptive", "--precision", str(stage.precision)]
    give_up = [] if stage.give_up == GIVE_UP else ["--give-up", str(stage.give_up)]
    return ["--adaptive", "--radii", ",".join(map(str, stage.radii)), *give_up]
