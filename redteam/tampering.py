"""Altered results files against `intrs verify`: every cell, every field, lines moved, doubled, dropped, cut.

Three small runs (certify, certify --adaptive, predict) are altered in every way listed below, one at a time. Accepted
may be only what makes no statement about the images (the time a line took, the versions that made it), and a run of
which verify says that it is unfinished. Last, a forger who makes all columns fit forged votes.

    python -m redteam.tampering [--images 8] [--every 1]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import results, zoo
from intrs.cli.start import main as intrs
from intrs.votes import SELECTION, Samples, Votes
from redteam import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RUNS = {
    "certify": ("certify", "--n", "300"),
    "adaptive": ("certify", "--adaptive", "--radii", ".1,.25", "--n", "500"),
    "predict": ("predict", "--n", "300"),
}
SAYS_NOTHING = {
    *((run, f"field {field}") for run in RUNS for field in ("intrs", "kernels", "python", "platform")),
    *((run, what) for run in RUNS for what in ("cell time", "field note left out", "field first left out")),
    *((run, "field adaptive left out") for run in ("certify", "predict")),  # as files of earlier versions have it
    *((run, f"field {field} left out") for run in RUNS for field in ("noise_table", "dimension", "classes")),  # so too
    *(("predict", what) for what in ("field bound", "field form")),  # a prediction has no radius
}
"""Alterations that verify passes over: they are about how the file was made, not about the images."""
AS_TRUE = {("predict", "field noise"), ("predict", "field alpha")}
"""The lines may be those of the altered description too: an answer may hold at a smaller alpha as well, and at sigma
0.25 the two laws give all but one draw in 1,900 the same integer. Verify has then computed that very run."""
MAY_BE_UNFINISHED = ("cut short", "field max")


@dataclass(frozen=True)
class Altered:
    """A copy of a results file, changed in one way."""

    name: str  # of the kind of change
    table: str
    sidecar: str


def make(folder: Path, images: int, model: str = MODEL, data: str = zoo.DEFAULT_DATA) -> dict[str, Path]:
    """The runs to be altered, with model and data beside them: verify opens no other files unless they are named."""
    made = {}
    model, data = (str(shutil.copy(spec, folder)) if Path(spec).is_file() else spec for spec in (model, data))
    for name, (command, *options) in RUNS.items():
        made[name] = folder / f"{name}.tsv"
        argv = [command, model, data, *options, "--max", str(images), "--seed", "5", "--sigma", "0.25"]
        code, words = quietly([*argv, "--out", str(made[name])])
        assert code == 0, words
    return made


def quietly(argv: Sequence[str]) -> tuple[int, str]:
    """Exit code and everything that the command says."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = intrs(argv)
    return code, said.getvalue()


def alterations(path: Path, every: int = 1) -> Iterator[Altered]:
    """Altered copies of one results file: of each kind the first, and every so many after it."""
    seen: Counter[str] = Counter()
    for altered in _alterations(path):
        if seen[altered.name] % every == 0:
            yield altered
        seen[altered.name] += 1


def _alterations(path: Path) -> Iterator[Altered]:
    table, sidecar = path.read_text(), results.sidecar_path(path).read_text()
    for name, text in (*cells(table), *lines(table), *cuts(table)):
        yield Altered(name, text, sidecar)
    for name, text in fields(sidecar):
        yield Altered(name, table, text)


def cells(table: str) -> Iterator[tuple[str, str]]:
    """Each cell of each line, changed to several other values."""
    header, *rows = [line.split("\t") for line in table.splitlines()]
    for i, row in enumerate(rows):
        for j, column in enumerate(header):
            for cell in other_cells(row[j]):
                changed = [*row[:j], cell, *row[j + 1 :]]
                yield f"cell {column}", joined([header, *rows[:i], changed, *rows[i + 1 :]])


def other_cells(cell: str) -> list[str]:
    """Values near and far, of the same form."""
    if "," in cell:
        parts = list(map(int, cell.split(",")))
        top = int(np.argmax(parts))
        moved = [p - (k == top) + (k == (top + 1) % len(parts)) for k, p in enumerate(parts)]
        return [",".join(map(str, p)) for p in (moved, parts[1:] + parts[:1], parts[:-1], [*parts, 0]) if p != parts]
    if cell.lstrip("-").isdigit():
        value = int(cell)
        return [str(v) for v in {value + 1, max(value - 1, -1), 0, -1, 2 * value + 1} if v != value]
    if cell.replace(".", "").isdigit():
        return [v for v in (f"{float(cell) + 0.000001:.6f}", "9.999999", "0.000000", cell + "0") if v != cell]
    return [("0" if cell[0] != "0" else "1") + cell[1:], cell[:-1] + ("0" if cell[-1] != "0" else "1")]


def lines(table: str) -> Iterator[tuple[str, str]]:
    """Lines moved, doubled, dropped, added; columns renamed, moved, dropped."""
    header, *rows = [line.split("\t") for line in table.splitlines()]
    for i in range(len(rows)):
        yield "line doubled", joined([header, *rows[: i + 1], *rows[i:]])
        if i:
            yield "lines swapped", joined([header, *rows[: i - 1], rows[i], rows[i - 1], *rows[i + 1 :]])
            yield "line replaced by another", joined([header, *rows[:i], rows[0], *rows[i + 1 :]])
        if i + 1 < len(rows):
            yield "line dropped", joined([header, *rows[:i], *rows[i + 1 :]])
    yield "lines reversed", joined([header, *reversed(rows)])
    for j in range(len(header)):
        every = [header, *rows]
        yield "column dropped", joined([row[:j] + row[j + 1 :] for row in every])
        yield "column renamed", joined([[*header[:j], "x" + header[j], *header[j + 1 :]], *rows])
        if j:
            yield "columns swapped", joined([[*r[: j - 1], r[j], r[j - 1], *r[j + 1 :]] for r in every])


def cuts(table: str) -> Iterator[tuple[str, str]]:
    """The file cut short at every place but the end."""
    for end in range(0, len(table) - 1, 7):
        yield "cut short", table[:end]


def fields(sidecar: str) -> Iterator[tuple[str, str]]:
    """Each field of the description, changed to several other values, and left out."""
    found = json.loads(sidecar)
    for field, value in found.items():
        yield f"field {field} left out", json.dumps({k: v for k, v in found.items() if k != field})
        for other in other_values(field, value):
            yield f"field {field}", json.dumps(found | {field: other})


def other_values(field: str, value: Any) -> list[Any]:
    """Values of the same type that mean something else."""
    if isinstance(value, int):
        return [v for v in (value + 1, max(value - 1, 0), 2 * value + 1) if v != value]
    known = {
        "command": ["certify", "predict"], "noise": ["discrete", "rounded"], "bound": ["sound", "paper"],
        "form": ["one", "two"], "sigma": ["1/5", "251/1000"], "alpha": ["1/100000"],
        "adaptive": ["", "n=500 radii=1/10,1/5 give_up=1/2"], "pixels": ["byte"], "mean": ["0.5"], "std": ["0.5"],
        "seed": ["0x6", "0x5" + "0" * 63],
    }  # fmt: skip
    return [v for v in known.get(field, [value + "x", ""]) if v != value]


def joined(rows: Sequence[Sequence[str]]) -> str:
    """The text of a table."""
    return "".join("\t".join(row) + "\n" for row in rows)


def verdict(path: Path, altered: Altered, *options: str) -> str:
    """What verify makes of an altered file: found (1), refused (2), unfinished or accepted (0)."""
    path.write_text(altered.table)
    results.sidecar_path(path).write_text(altered.sidecar)
    code, words = quietly(["verify", str(path), *options])
    if code == 0:
        return "unfinished" if "the run is unfinished" in words else "accepted"
    return {1: "found", 2: "refused"}[code]


def forged(path: Path, line: int) -> Altered:
    """A certify run in which one image got all votes for its label, with all that follows from them."""
    run, rows = results.read(path)
    row = rows[line]
    selection, estimation = (
        Votes(tuple(n * (c == row.label) for c in range(run.classes)), run.noise, Samples(run.seed, row.idx, first, n))
        for first, n in ((SELECTION, run.n0), (0, run.request.n))
    )
    made = results.Judge(run, run.dimension, run.classes).row(row.label, selection, estimation, 1.0)
    lines = path.read_text().splitlines()
    lines[line + 1] = "\t".join(made.cells().values())
    return Altered("forged line", "".join(f"{text}\n" for text in lines), results.sidecar_path(path).read_text())


def try_all(
    images: int, model: str = MODEL, data: str = zoo.DEFAULT_DATA, every: int = 1
) -> Counter[tuple[str, str, str]]:
    """Counts by run, kind of change and verdict."""
    counts: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="intrs-tampering-") as name:
        folder = Path(name)
        for run, path in make(folder, images, model, data).items():
            for altered in alterations(path, every):
                counts[run, altered.name, verdict(folder / "altered.tsv", altered)] += 1
            for line in range(images) if run == "certify" else ():
                counts[run, "forged line", verdict(folder / "altered.tsv", forged(path, line))] += 1
    return counts


def undetected(counts: Counter[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """What should have been noticed and was not."""
    return [
        (run, name, found)
        for run, name, found in sorted(counts)
        if found in ("accepted", "unfinished")
        and (run, name) not in SAYS_NOTHING | AS_TRUE
        and not (found == "unfinished" and name in MAY_BE_UNFINISHED)
    ]


def forged_where_nobody_looks(images: int, again: int, model: str, data: str) -> Counter[str]:
    """Verdicts of `verify --images K` on a forged line, for each line: K of the lines are sampled again."""
    with tempfile.TemporaryDirectory(prefix="intrs-tampering-") as name:
        folder = Path(name)
        path = make(folder, images, model, data)["certify"]
        made = (forged(path, line) for line in range(images))
        return Counter(verdict(folder / "altered.tsv", altered, "--images", str(again)) for altered in made)


def main(arguments: Sequence[str]) -> int:
    """Print the counts; 1 if something went through."""
    parser = argparse.ArgumentParser(prog="redteam.tampering", description=str(__doc__).partition("\n")[0])
    parser.add_argument("model", nargs="?", default=MODEL, help=f"model ({MODEL})")
    parser.add_argument("data", nargs="?", default=zoo.DEFAULT_DATA, help="data (what ships)")
    parser.add_argument("--images", type=int, default=8, help="lines of each results file (8)")
    parser.add_argument("--every", type=int, default=1, help="try one in so many alterations of each kind (1)")
    args = parser.parse_args(arguments)
    counts = try_all(args.images, args.model, args.data, args.every)
    for run in RUNS:
        totals: Counter[str] = Counter()
        for (r, _, found), count in counts.items():
            totals[found] += count if r == run else 0
        print(f"{run}: {totals.total()} altered files,", ", ".join(f"{v} {c}" for v, c in sorted(totals.items())))
    for what in ("accepted", "unfinished"):
        names = sorted({f"{run} {name}" for run, name, found in counts if found == what})
        print(f"{what}: {', '.join(names)}")
    gone_through = undetected(counts)
    print("gone through:", gone_through or "none")
    again = max(args.images // 4, 1)
    told = forged_where_nobody_looks(args.images, again, args.model, args.data)
    print(f"one forged line against verify --images {again} of {args.images}: {dict(told)}")
    return int(bool(gone_through))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
