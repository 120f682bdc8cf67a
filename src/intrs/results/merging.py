"""Parts of one run, made anywhere, as the file that one machine would have written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from intrs.errors import ResultsError
from intrs.results.journal import Kept, read_journal
from intrs.results.judging import Judge, check_effort, check_file, difference
from intrs.results.reading import read
from intrs.results.rows import FILE, cell
from intrs.results.run import SAME, Run, unequal
from intrs.shards import Shard
from intrs.votes import SELECTION, Samples, Votes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from intrs.results.rows import Row

SAME_IN_PARTS = tuple(name for name in SAME if name not in ("first", "skip", "shard"))
"""What the parts of a run must share: a curve over two sigmas, data sets or numbers of samples is one of nothing."""
MOST_IMAGES = 10_000_000  # of a description of any origin
MOST_MISSING = 10_000  # parts that are named, if so many are missing


class _Part(NamedTuple):
    """One file."""

    path: Path
    run: Run
    rows: list[Row]
    entries: list[Kept]


class Missing(NamedTuple):
    """What one part lacks, or a part of which there is no file."""

    shard: str  # of the run; empty if it was not divided by shards
    path: Path | None  # of the file that is unfinished
    images: int


class UnfinishedError(ResultsError):
    """Some of the run is not there yet; `missing` says which parts, and `run` is the whole."""

    def __init__(self, words: str, run: Run, missing: Sequence[Missing]) -> None:
        super().__init__(words)
        self.run, self.missing = run, tuple(missing)


@dataclass(frozen=True)
class Merged:
    """The whole run."""

    run: Run
    rows: list[Row]
    repeated: int  # lines that were in several parts, and agreed


def merge(paths: Sequence[Path]) -> Merged:
    """The run of which these files are parts. Parts may overlap, and must agree then.

    Raises ResultsError if they are not of one run or disagree, UnfinishedError if something is missing.
    """
    if not paths:
        raise ResultsError("there is nothing to merge: name the files of the parts")
    parts = [_read(path) for path in paths]
    for part in parts[1:]:
        if differing := unequal(parts[0].run, part.run, SAME_IN_PARTS):
            lines = [f"{name} is {mine} in one and {theirs} in the other" for name, mine, theirs in differing]
            names = f"{parts[0].path} and {part.path}"
            raise ResultsError(f"cannot merge {names}: they are not parts of one run\n  " + "\n  ".join(lines))
    run = _whole(parts)
    rows, repeated = _rows(run, parts)
    if absent := run.images - len(rows):
        words = f"the run is unfinished: {absent:,} of its {run.images:,} images are missing"
        raise UnfinishedError(words, run, list(islice(_missing(run, parts, rows), MOST_MISSING)))
    return Merged(run, [rows[place] for place in run.places], repeated)


def _read(path: Path) -> _Part:
    run, rows = read(path)
    check_file(path, run, rows)
    entries = read_journal(path, run.digest)
    check_effort(path, run, len(rows) + len(entries))
    return _Part(path, run, rows, entries)


def _whole(parts: Sequence[_Part]) -> Run:
    """The run that all of them are parts of: its images follow each other at one distance."""
    runs = [part.run for part in parts]
    places = _together(list(dict.fromkeys(run.whole for run in runs)))
    request = replace(runs[0].request, first=places.start, skip=places.step, max=len(places), shard="")
    return replace(
        runs[0],
        request=request,
        kernels=_all_of(runs, "kernels"),
        intrs=_all_of(runs, "intrs"),
        python=_all_of(runs, "python"),
        platform=_all_of(runs, "platform"),
    )


def _together(ranges: Sequence[range]) -> range:
    """The places that different ranges make together, which must be one range again."""
    if len(ranges) == 1:
        return ranges[0]
    if sum(map(len, ranges)) > MOST_IMAGES:
        raise ResultsError("the descriptions speak of more images than any data set has")
    places = sorted(set().union(*ranges))
    found = range(places[0], places[-1] + 1, places[1] - places[0] if len(places) > 1 else ranges[0].step)
    if places == list(found):
        return found
    there = set(places)
    if (gap := next((place for place in found if place not in there), None)) is None:
        raise ResultsError("cannot merge: the images of the parts do not follow each other at one distance")
    raise ResultsError(f"cannot merge: no part has the images from place {gap} on, so the parts are not one run")


def _all_of(runs: Sequence[Run], name: str) -> str:
    """What the parts say of where they were made."""
    return "; ".join(dict.fromkeys(getattr(run, name) for run in runs))[:300]


def _rows(run: Run, parts: Sequence[_Part]) -> tuple[dict[int, Row], int]:
    """The lines by place in the data, and how many were there several times."""
    rows: dict[int, tuple[Row, Path]] = {}
    repeated = 0
    for part in parts:
        for place, row in zip(part.run.places, part.rows, strict=False):
            if (known := rows.get(place)) is None:
                rows[place] = row, part.path
                continue
            repeated += 1
            _check_equal(place, known, (row, part.path))
    rows |= dict(_from_votes(run, parts, rows))
    _check_apart(rows)
    return {place: row for place, (row, _) in rows.items()}, repeated


def _check_equal(place: int, one: tuple[Row, Path], two: tuple[Row, Path]) -> None:
    """Refuse two lines for one place that differ. What does not come from votes is no machine's fault."""
    (mine, here), (theirs, there) = one, two
    for name in ("idx", "label", FILE):
        before, after = getattr(mine, name), getattr(theirs, name)
        if before != after:
            renamed = ", or the pictures were renamed between the two" if name == FILE else ""
            raise ResultsError(
                f"{here} and {there} disagree about what stands at place {place} of the data: {name} is "
                f"{cell(before)} in the first and {cell(after)} in the second. A line was removed or changed in one of "
                f"them{renamed}; verify both to see which, and make that part again"
            )
    if words := difference(theirs, mine):
        raise ResultsError(
            f"{here} and {there} disagree about image {theirs.idx}: in the second {words}. "
            "The same samples gave different votes, so one of the two machines computes wrongly"
        )


def _check_apart(rows: Mapping[int, tuple[Row, Path]]) -> None:
    """Refuse one image at two places of the data."""
    seen: dict[int, Path] = {}
    for row, path in rows.values():
        if row.idx in seen:
            raise ResultsError(
                f"image {row.idx} stands at different places of the data in {seen[row.idx]} and {path}. A line was "
                "removed or changed in one of them; verify both to see which, and make that part again"
            )
        seen[row.idx] = path


def _from_votes(
    run: Run, parts: Sequence[_Part], known: Mapping[int, tuple[Row, Path]]
) -> Iterator[tuple[int, tuple[Row, Path]]]:
    """Lines of images whose samples were divided, or which wait in the votes of a run that was killed."""
    if run.stages or not (run.dimension and run.classes):
        return
    entries: dict[int, list[tuple[Kept, Path]]] = {}
    for part in parts:
        for entry in part.entries:
            if entry.place in run.places and entry.place not in known:
                entries.setdefault(entry.place, []).append((entry, part.path))
    judge = Judge(run, run.dimension, run.classes)
    for place, found in entries.items():
        if (row := _joined(run, judge, found)) is not None:
            yield place, (row, found[0][1])


def _joined(run: Run, judge: Judge, found: list[tuple[Kept, Path]]) -> Row | None:
    """The line of one image from the votes of all parts; None if some are missing."""
    first = found[0][0]
    for entry, path in found:
        _check_entry(run, entry, path, first)
    selection = next((entry.counts0 for entry, _ in found if entry.counts0), () if run.n0 else (0,) * run.classes)
    for entry, path in found:
        if entry.counts0 and entry.counts0 != selection:
            raise ResultsError(f"{path} disagrees with another part about the selection of image {entry.idx}")
    counts, milliseconds = _added(run, found).get(run.request.n, ((), 0))
    if not counts or sum(selection) != run.n0:
        return None
    chosen = Votes(selection, run.noise, Samples(run.seed, first.idx, SELECTION, run.n0))
    counted = Votes(counts, run.noise, Samples(run.seed, first.idx, 0, run.request.n))
    return judge.row(first.label, chosen, counted, milliseconds / 1000, first.file)


def _added(run: Run, found: list[tuple[Kept, Path]]) -> dict[int, tuple[tuple[int, ...], int]]:
    """Votes over the samples from 0 up to every number that the entries lead to, and the time that they took.

    Entries may overlap. Wherever two ways lead to the same sample, their votes must agree.
    """
    reached: dict[int, tuple[tuple[int, ...], int]] = {0: ((0,) * run.classes, 0)}
    seen: dict[tuple[int, int], tuple[int, ...]] = {}
    for entry, path in sorted(found, key=lambda each: (each[0].first, each[0].end)):
        agrees = seen.setdefault((entry.first, entry.end), entry.counts) == entry.counts
        if agrees and entry.first in reached:
            before, milliseconds = reached[entry.first]
            counts = tuple(a + b for a, b in zip(before, entry.counts, strict=True))
            agrees = reached.setdefault(entry.end, (counts, milliseconds + entry.milliseconds))[0] == counts
        if not agrees:
            raise ResultsError(
                f"{path} disagrees with another part about image {entry.idx}, among the samples before {entry.end}. "
                "The same samples gave different votes, so one of the machines computes wrongly"
            )
    return reached


def _check_entry(run: Run, entry: Kept, path: Path, first: Kept) -> None:
    """Refuse votes that cannot be of this run."""
    classes = {len(entry.counts), *([len(entry.counts0)] if entry.counts0 else [])}
    is_same = (entry.idx, entry.label, entry.file) == (first.idx, first.label, first.file)
    is_named = (entry.file is not None) == run.unlabelled
    if classes != {run.classes} or entry.end > run.request.n or not (is_same and is_named):
        raise ResultsError(f"the votes beside {path} for image {entry.idx} are not of this run")


def _counted(part: _Part) -> set[int]:
    """Of a part of the samples, the images for which it has all of its own."""
    if part.run.is_judged or part.run.shard is None:
        return set()
    first, end = part.run.shard.samples(part.run.request.n)
    votes: dict[int, int] = {}
    for entry in part.entries:
        votes[entry.place] = votes.get(entry.place, 0) + sum(entry.counts)
    return {place for place, count in votes.items() if count >= end - first}


def _missing(run: Run, parts: Sequence[_Part], rows: Mapping[int, Row]) -> Iterator[Missing]:
    """By part, what is not there. A description may speak of any number of images, so places are not listed."""
    for part in parts:
        places = part.run.places
        if lacking := len(places) - sum(place in places for place in rows.keys() | _counted(part)):
            yield Missing(part.run.request.shard, part.path, lacking)
    shards = [part.run.shard for part in parts if part.run.shard]
    for of, by in dict.fromkeys((shard.of, shard.by) for shard in shards):
        there = {shard.number for shard in shards if (shard.of, shard.by) == (of, by)}
        yield from _missing_shards(run.places, rows, there, of, by)


def _missing_shards(
    places: range, rows: Mapping[int, Row], there: AbstractSet[int], of: int, by: Literal["images", "samples"]
) -> Iterator[Missing]:
    """Of a run in so many shards, those of which there is no file. It may be very many: lines are counted once."""
    every = 1 if by == "samples" else of  # how far the images of a shard are apart
    known = Counter(places.index(place) % every for place in rows)
    for number in (number for number in range(1, of + 1) if number not in there):
        shard = Shard(number, of, by)
        if lacking := len(shard.places(places)) - known[(number - 1) % every]:
            yield Missing(str(shard), None, lacking)
