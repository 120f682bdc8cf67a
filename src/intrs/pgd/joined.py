"""Parts of one attack, made on several machines or days, put together into what one run would have written."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.data.images import Images
from intrs.data.npz import read_npz
from intrs.errors import ResultsError, SettingsError
from intrs.exact import plain
from intrs.files import read_bounded
from intrs.pgd import judging, records
from intrs.pgd.attacked import Attacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from intrs.pgd.records import AttackRow, Settings

SPAN = ("first", "skip", "max")  # in which parts of one attack differ


@dataclass(frozen=True, eq=False)
class AttackPart:
    """A folder with a finished attack."""

    folder: Path
    settings: Settings
    rows: list[list[AttackRow]]  # per image, one per eps
    images: dict[str, Images]
    records: NDArray[Any]

    @property
    def positions(self) -> range:
        """The places of its images in the data set."""
        asked = self.settings.request
        return range(asked.first, asked.first + asked.skip * self.settings.images, asked.skip)

    def same(self, i: int, other: AttackPart, k: int) -> bool:
        """Whether image i here is image k there, attacked and answered alike; how long it took does not count."""
        mine, theirs = ([replace(row, time="") for row in rows] for rows in (self.rows[i], other.rows[k]))
        return mine == theirs and np.array_equal(self.records[i]["pixels"], other.records[k]["pixels"])


def join(folders: Sequence[str | Path], out: str | Path) -> Attacked:
    """Put the parts of one attack together in another folder, as one run over all their images would have written it.

    The parts must have the same settings but for the images that they take, and agree on images that several have.
    """
    if not folders:
        raise SettingsError("name the folders to join")
    parts, target = [read_part(Path(folder)) for folder in folders], Path(out)
    chosen = _chosen(parts)
    settings = _settings(parts, sorted(chosen))
    places = [chosen[position] for position in sorted(chosen)]
    rows = [row for part, i in places for row in part.rows[i]]
    with contextlib.closing(records.open_records(target, settings)) as file:
        file.cut(0)
        file.append(b"".join(part.records[i].tobytes() for part, i in places))
        images = {eps: _images(eps, places) for eps in parts[0].images}
        records.write_results(target, rows, images)
    return Attacked(target, settings, rows)


def _chosen(parts: Sequence[AttackPart]) -> dict[int, tuple[AttackPart, int]]:
    """By position in the data set, the first part that has the image, and its place there."""
    chosen: dict[int, tuple[AttackPart, int]] = {}
    for part in parts:
        _check_settings(parts[0], part)
        for i, position in enumerate(part.positions):
            other, k = chosen.setdefault(position, (part, i))
            if not part.same(i, other, k):
                index = part.rows[i][0].idx
                raise ResultsError(f"{other.folder} and {part.folder} differ on image {index}: one was changed")
    return chosen


def _check_settings(first: AttackPart, other: AttackPart) -> None:
    if found := records.differences(first.settings, other.settings, SPAN):
        lines = "\n  ".join(f"{name}: {one} in {first.folder}, {two} in {other.folder}" for name, one, two in found)
        raise ResultsError(f"parts of one attack have the same settings and seed; these differ in\n  {lines}")


def _settings(parts: Sequence[AttackPart], positions: list[int]) -> Settings:
    """Those of one run over all images, which must be evenly spaced: gaps would be images that were not attacked."""
    steps = [after - before for before, after in pairwise(positions)]
    skip = min(steps, default=parts[0].settings.request.skip)
    if gaps := [before + skip for before, step in zip(positions, steps, strict=False) if step != skip]:
        raise ResultsError(
            f"image {gaps[0]} of the data set, counted from 0, is in none of the parts: attack what is missing, or "
            "join the parts on each side of it on their own"
        )
    request = replace(parts[0].settings.request, first=positions[0], skip=skip, max=len(positions))
    return replace(parts[0].settings, request=request)


def _images(eps: str, places: Sequence[tuple[AttackPart, int]]) -> Images:
    first = places[0][0].images[eps]
    pixels, labels, indices = (
        np.array([getattr(part.images[eps], name)[i] for part, i in places]) for name in ("images", "labels", "indices")
    )
    return Images(first.name, pixels, labels, indices, first.classes)


# --- Reading a part --------------------------------------------------------------------------------------------------


def read_part(folder: Path) -> AttackPart:
    """A folder as a finished attack leaves it, after checking that its files agree."""
    settings, lines = records.read(folder)
    judging.check_effort(folder / records.TABLE, settings, len(lines))
    radii = [plain(ball.eps) for ball in settings.balls]
    rows = [lines[i : i + len(radii)] for i in range(0, len(lines), len(radii))]
    images = {eps: read_npz(folder / records.images_name(eps), folder.name) for eps in radii}
    path, classes, shape = folder / records.RECORDS, len(lines[0].counts), images[radii[0]].image_shape
    kind = records.record_type(len(radii), classes, shape)
    data = read_bounded(path, size := settings.images * kind.itemsize)
    if len(data) != size:
        raise ResultsError(f"{path}: not the records of {settings.images:,} images; finish the attack first")
    part = AttackPart(folder, settings, rows, images, np.frombuffer(data, kind))
    for i in range(settings.images):
        if fault := _fault(part, i):
            raise ResultsError(f"{folder}, image {rows[i][0].idx}: {fault}; a file was changed")
    return part


def _fault(part: AttackPart, i: int) -> str | None:
    """Why the files of a part do not belong together at image i; None if they do."""
    rows, record = part.rows[i], part.records[i]
    if rows[0].idx != record["idx"]:
        return f"the lines of {records.TABLE} are not in the order of {records.RECORDS}"
    if any((row.clean_counts, row.counts) != _votes(record, k) for k, row in enumerate(rows)):
        return f"{records.TABLE} and {records.RECORDS} differ in its votes"
    dimension = math.prod(next(iter(part.images.values())).image_shape)
    if fault := next(filter(None, (judging.fault(part.settings, row, dimension) for row in rows)), None):
        return fault
    for k, (row, images) in enumerate(zip(rows, part.images.values(), strict=True)):
        same = len(images) == len(part.rows) and (images.indices[i], images.labels[i]) == (row.idx, row.label)
        if not same or not np.array_equal(images.images[i], record["pixels"][k]):
            return f"{records.images_name(row.eps)} does not have it as {records.RECORDS} does"
    return None


def _votes(record: NDArray[Any], k: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(map(int, record["clean"])), tuple(map(int, record["votes"][k]))
