"""Where a run comes from: what is recorded of it, and the commands that repeat and verify it."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from intrs import zoo
from intrs.adaptive import GIVE_UP
from intrs.data.known import KNOWN
from intrs.exact import plain
from intrs.reports.tables import text
from intrs.reports.words import bound_name, is_classical
from intrs.request import FLAGS, REQUESTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from intrs.adaptive.stages import Stage
    from intrs.reports.runs import Entry
    from intrs.results import Run

NAMES = {
    "identity": "model identity",
    "pixels": "pixel convention",
    "data_sha256": "data SHA-256",
    "first": "first image",
    "skip": "step between images",
    "max": "images planned",
    "n0": "samples for selection",
    "n": "samples for estimation",
    "intrs": "intrs version",
    "kernels": "kernel set",
    "python": "Python",
    "noise_table": "SHA-256 of the noise table",
    "dimension": "values per image",
}

VERIFY_FLOATS = "Verify every line (another processor or version may round differently)"
CLASSICAL_NAMES = NAMES | {"identity": "SHA-256 of the model’s file", "kernels": "engine"}  # of runs in floats
ELSEWHERE = ("command", "model", "data", "adaptive")  # fields that are no options, or several


def provenance(entries: Sequence[Entry]) -> str:
    """A block for every run, folded if there are several."""
    opened = " open" if len(entries) == 1 else ""
    return "".join(f"<details{opened}><summary>{text(e.name)}</summary>{_block(e)}</details>" for e in entries)


def _block(entry: Entry) -> str:
    found = entry.results
    rows = [("file" if len(found.paths) == 1 else "files", ", ".join(map(str, found.paths)))]
    if found.run is None:
        return _rows(rows) + "<p>A log of another program: it does not say how it was made.</p>"
    floats, parts = is_classical(found.run), found.parts or (found,)
    rows += _recorded(found.run, [part.run for part in parts if part.run])
    each = " (one command per part)" if len(parts) > 1 else ""
    again = "\n".join(repeat(part.run, part.path) for part in parts if part.run and _has_names(part.run))
    verify = "\n".join(
        _verify(part.run, path) for part in parts for path in part.paths if part.run and _has_names(part.run)
    )
    return (
        _rows([(name, value) for name, value in rows if value])
        + (_command(f"Repeat the run{each}", again) if again else "")
        + (_command(VERIFY_FLOATS if floats else "Verify every line", verify) if verify else "")
    )


def _has_names(run: Run) -> bool:
    """Whether model and data can be found again by what was recorded; those that were in memory cannot."""
    return bool(run.request.model and run.request.data)


def _recorded(whole: Run, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Every field by its name; what differs among the parts of a run is listed in their order."""
    names, made = CLASSICAL_NAMES if is_classical(whole) else NAMES, []
    each = [_fields(run) | {"bound": bound_name(run)} for run in runs]
    for name, value in _fields(whole).items():
        values = [value] if name == "max" else list(dict.fromkeys(run.get(name, "") for run in each))
        made.append((names.get(name, name), ", ".join(_shown(name, value) for value in values)))
    return made


def _fields(run: Run) -> dict[str, str]:
    """What is recorded of a run, by the name that its command's options have."""
    found = {name: value for name, value in run.to_json().items() if name != "format"}
    return {name: ", ".join(value) if isinstance(value, list) else str(value) for name, value in found.items()}


def _shown(name: str, value: str) -> str:
    """Fractions as decimals where that is exact."""
    return plain(Fraction(value)) if name in ("sigma", "alpha") else value


def _rows(rows: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in rows) + "</dl>"


def _command(title: str, command: str) -> str:
    return f'<h4>{title}</h4><div class="command"><pre tabindex="0">{text(command)}</pre></div>'


def repeat(run: Run, path: Path | None) -> str:
    """The command that makes this run again; several lines if an adaptive run was extended.

    Whatever field of the run is an option of its command is given, unless it has its default; so a setting that is
    added later is not forgotten here.
    """
    out = [] if path is None else ["--out", str(path)]
    if not run.stages:
        return shlex.join([*_words(run), *out])
    stages = run.stages.stages
    again = [["--resume"] if i else [] for i in range(len(stages))]
    lines = ([*_words(replace(run, request=replace(run.request, n=stage.n))), *_asked(stage), *out] for stage in stages)
    return "\n".join(shlex.join([*words, *more]) for words, more in zip(lines, again, strict=True))


def _words(run: Run) -> list[str]:
    defaults = {field.name: field.default for field in fields(REQUESTS[run.command])}
    del defaults["kernels"]  # all give the same bits; another machine may not have this one
    named = (run.request.model, *run.request.sources)
    words = ["intrs", run.command, *(f"./{name}" if name.startswith("-") else name for name in named)]
    recorded = _fields(run) | {"names": ",".join(run.request.names)}
    if not run.request.names or run.request.names == _shipped_names(run):
        del recorded["names"]
    for name, value in recorded.items():
        if name in defaults and name not in ELSEWHERE and _shown(name, value) != str(defaults[name]):
            words += ["--" + name.replace("_", "-"), *([] if name in FLAGS else [_shown(name, value)])]
    return words


def _shipped_names(run: Run) -> tuple[str, ...]:
    """What the model's own card says of its classes."""
    return tuple(zoo.card(run.request.model).get("classes", ())) if run.request.model in zoo.model_names() else ()


def _verify(run: Run, path: Path) -> str:
    """What is not found by a name is named: `intrs verify` opens nothing else outside the folder of the results."""
    shipped = (*zoo.model_names(), *zoo.float_names())
    model = [] if run.request.model in shipped else ["--model", run.request.model]
    names = (*zoo.data_names(), *KNOWN)
    data = [word for spec in run.request.sources if spec not in names for word in ("--data", spec)]
    return shlex.join(["intrs", "verify", str(path), *model, *data])


def _asked(stage: Stage) -> list[str]:
    """The options of one stage of an adaptive run."""
    if stage.precision is not None:
        return ["--adaptive", "--precision", str(stage.precision)]
    give_up = [] if stage.give_up == GIVE_UP else ["--give-up", str(stage.give_up)]
    return ["--adaptive", "--radii", ",".join(map(str, stage.radii)), *give_up]
