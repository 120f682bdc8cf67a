"""The tables of docs/results.md that come from the results files in docs/runs: `python tools/published.py` writes them.

The files are packed as `xz -9e run.tsv` does it, beside the JSON that describes them. Those in docs/runs/paper and
docs/runs/caltech101 are the votes of `intrs reproduce`, and give the paper's experiments; the networks of the latter
do not ship, so its table is made of the files alone. A test makes the tables again.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import intrs
from intrs.exact import plain
from intrs.experiments.folder import VOTES, open_folder
from intrs.experiments.plan import read_plan
from intrs.experiments.section import seconds_of
from intrs.experiments.tables import sections
from intrs.files import PACKED, write_whole
from intrs.reports.runs import METHODS, paper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from intrs.experiments.folder import Found
    from intrs.experiments.plan import Plan, Sampling
    from intrs.metrics import Results, Share

    Runs = dict[Sampling, Results]

ROOT = Path(__file__).resolve().parent.parent
RUNS, PAGE = ROOT / "docs" / "runs", ROOT / "docs" / "results.md"
PAPER, LETTERS = RUNS / "paper", "ab"  # votes of the plan that ships, and the experiments that are made of them
CARDS = ROOT / "docs" / "cards"
CALTECH, CALTECH_PLAN = RUNS / "caltech101", ROOT / "examples" / "caltech101.toml"
WIDTH = 120  # of a line of prose
BEGIN, END = "<!-- runs: {} -->", "<!-- end of runs -->"
SHARES = tuple(map(Fraction, ("0.01", "0.1", "0.5", "0.9", "0.99")))  # of the votes


def kept() -> list[Results]:
    """All runs that are kept, in the order of their names. Reading a run judges every line again from its votes."""
    return [intrs.read(path) for path in sorted(RUNS.glob(f"*.tsv{PACKED}"))]


def paper_folder() -> Found:
    """The votes of the plan that ships, as far as they are kept."""
    return open_folder(replace(read_plan(None), experiments=LETTERS), PAPER)


def cifar10_runs(found: Found) -> Runs:
    """The runs of experiment a."""
    return {key: votes for key in _of_experiment_a(found.plan) if (votes := found.votes(key))}


def caltech101_runs() -> Runs:
    """The same of Caltech-101, as far as they are kept."""
    paths = {key: CALTECH / VOTES / f"{key.name}.tsv{PACKED}" for key in _of_experiment_a(read_plan(CALTECH_PLAN))}
    return {key: intrs.read(path) for key, path in paths.items() if path.exists()}


def caltech101_times() -> list[Results]:
    """The runs whose time is taken, a fixed number of samples of a few images, as far as they are kept."""
    return [intrs.read(path) for path in sorted((CALTECH / VOTES).glob(f"*-timed.tsv{PACKED}"), reverse=True)]


def times(runs: Sequence[Results]) -> str:
    """One line per run of what an image takes, with the size of the network's file from its card."""
    heads = ("network", "images", "samples per image", "s per image", "samples/s", "file, MB")
    return _table(heads, map(_timed, runs))


def _timed(run: Results) -> tuple[str, ...]:
    assert run.path
    form, samples = ("int8" if run.run and run.run.noise.on_integers else "fp32"), run.rows[0].n0 + run.rows[0].n
    sigma = plain(_sigma(run))
    card = json.loads((CARDS / f"resnet50-v1-caltech101-sigma{sigma}.json").read_text("utf-8"))
    each, size = seconds_of(run) / len(run), card["results"]["files"][form]["bytes"]
    name = f"ResNet-50, {form}, sigma {sigma}"
    return name, str(len(run)), f"{samples:,}", f"{each:.1f}", f"{samples / each:.0f}", f"{size / 1e6:.1f}"


def _of_experiment_a(plan: Plan) -> list[Sampling]:
    return sorted(plan.needs("a"), key=lambda key: (key.sigma, METHODS.index(key.method), key.more))


def summary(runs: Runs, which: str) -> str:
    """One line per sigma and method of what is correct and certified, in per cent; in brackets the paper's number.

    A run of fewer images than the others have says so.
    """
    theirs, most = paper()["tables"][which], max(map(len, runs.values()), default=0)
    heads = ("sigma", "method", *(f"r = {radius}" for radius in theirs["radii"]), "answered")
    rows, last = [], None
    for key, run in runs.items():
        name = key.method if len(run) == most else f"{key.method} ({len(run)} images)"
        name += f", at most {key.n:,} samples" if key.more else ""
        cells = _beside_paper(run, theirs, key)
        rows.append(("" if key.sigma == last else plain(key.sigma), name, *cells, f"{100 * run.answered():.1f}"))
        last = key.sigma
    return _table(heads, rows, names=2)


def _beside_paper(run: Results, theirs: dict[str, Any], key: Sampling) -> Iterator[str]:
    """A cell per radius; none where neither has anything certified."""
    numbers = {Fraction(each): row for each, row in theirs["certified_accuracy"][key.method].items()}[key.sigma]
    for radius, number in zip(theirs["radii"], numbers, strict=True):
        ours = 100 * run.certified_accuracy(Fraction(radius))
        yield f"{ours:.1f} ({100 * float(number):.0f})" if ours or float(number) else ""


def experiments(found: Found) -> str:
    """The paper's experiments whose votes are kept, as `intrs reproduce` writes them."""
    parts = "\n\n".join(each.markdown() for each in sections(found)).split("\n\n")
    return "\n\n".join(part if part.startswith(("|", "-")) else textwrap.fill(part, WIDTH) for part in parts)


def certified(runs: Sequence[Results]) -> str:
    """One line per run: images that are correct and certified at each radius that was asked for, in per cent."""
    radii = sorted({radius for run in runs for radius in run.asked})
    heads = ("run", "images", *(f"r = {plain(radius)}" for radius in radii), "abstained", "samples per image")
    return _table(heads, (_certified(run, radii) for run in runs))


def _certified(run: Results, radii: Sequence[Fraction]) -> tuple[str, ...]:
    samples = [row.n for row in run.rows]
    images = f"{len(run):,}" if run.complete else f"{len(run):,} of {run.planned:,}"
    shares = (_percent(run.certified_accuracy(radius)) if radius in run.asked else "" for radius in radii)
    taken = f"{fmean(samples):,.0f} (median {median(samples):,.0f})"
    return _link(run), images, *shares, _percent(run.abstained()), taken


def voted(runs: Sequence[Results]) -> str:
    """One line per run: images whose true class gets a share of the votes or more, in per cent, and the ACR last."""
    heads = ("run", *(f"≥ {plain(100 * share)} %" for share in SHARES), "all", "ACR")
    return _table(heads, map(_voted, sorted(runs, key=_sigma)))


def _sigma(run: Results) -> Fraction:
    assert run.run
    return run.run.noise.sigma


def _voted(run: Results) -> tuple[str, ...]:
    mean = run.average_radius()
    assert mean
    shares = [run.voted(share) for share in (*SHARES, Fraction(1))]
    return _link(run), *(f"{100 * share:.1f}" for share in shares if share), f"{mean.value:.3f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """The first columns are names, the others numbers."""
    lines = [heads, (*("---",) * names, *("---:",) * (len(heads) - names)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _link(run: Results) -> str:
    assert run.path
    return f"[{run.path.name.removesuffix(f'.tsv{PACKED}')}](runs/{run.path.name})"


def _percent(share: Share) -> str:
    assert share.interval
    low, high = (100 * end for end in share.interval)
    return f"{100 * share:.1f} ({low:.1f}-{high:.1f})"


def page(text: str, runs: Sequence[Results], found: Found) -> str:
    """The page with its tables made again: of adaptive runs, of others, whose votes are comparable, and the paper's."""
    tables = {
        "summary": summary(cifar10_runs(found), "cifar10"),
        "caltech101": summary(caltech101_runs(), "caltech101"),
        "caltech101 times": times(caltech101_times()),
        "paper": experiments(found),
        "certified": certified([run for run in runs if run.asked]),
        "voted": voted([run for run in runs if not run.asked]),
    }
    for name, table in tables.items():
        begin = BEGIN.format(name)
        made = f"{begin}\n\n{table}\n\n{END}".replace("\\", r"\\")
        text, places = re.subn(f"{begin}.*?{END}", made, text, flags=re.DOTALL)
        if places != 1:
            raise ValueError(f"{PAGE} has {places} places for the table {name!r}, which begin with {begin}")
    return text


if __name__ == "__main__":
    write_whole(PAGE, page(PAGE.read_text("utf-8"), kept(), paper_folder()).encode())
