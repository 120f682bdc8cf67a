"""What came of an attack: the lines of its table, accuracy at each eps, and the files. Nothing here needs PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from intrs.data.npz import read_npz
from intrs.errors import ResultsError
from intrs.exact import plain
from intrs.pgd import judging, records

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.pgd.records import AttackRow, Settings


@dataclass(frozen=True)
class AtEps:
    """What the attacks of one radius did to the images."""

    eps: str
    images: int
    correct: int  # under attack
    abstained: int
    lost: int  # correct before the attack and not under it
    mean_norm: float  # of the perturbations, in units of the pixel range


@dataclass(frozen=True, eq=False, repr=False)
class Attacked:
    """A finished attack in its folder."""

    folder: Path
    settings: Settings
    rows: list[AttackRow]  # per image, one per eps

    @cached_property
    def summary(self) -> tuple[AtEps, ...]:
        """Accuracy under attack at each eps, in the order in which they were asked for."""
        return tuple(self._at(plain(ball.eps)) for ball in self.settings.balls)

    def _at(self, eps: str) -> AtEps:
        mine = [row for row in self.rows if row.eps == eps]
        return AtEps(
            eps=eps,
            images=len(mine),
            correct=sum(row.correct for row in mine),
            abstained=sum(row.predict is None for row in mine),
            lost=sum(row.clean == row.label != row.predict for row in mine),
            mean_norm=sum(float(row.norm) for row in mine) / len(mine),
        )

    @property
    def paths(self) -> list[Path]:
        """The table, then the attacked images of each eps."""
        return [self.folder / records.TABLE, *(self.images_path(found.eps) for found in self.summary)]

    def images_path(self, eps: str) -> Path:
        """The attacked images of one eps, for `intrs.certify` and `intrs.predict`."""
        return self.folder / records.images_name(eps)

    def __repr__(self) -> str:
        asked, count = self.settings.request, self.settings.images
        correct = ", ".join(f"{found.correct} at eps {found.eps}" for found in self.summary)
        return f"Attacked({asked.model} on {count} images of {asked.data}, {asked.norm}: correct {correct})"


def read(folder: Path) -> Attacked:
    """A finished attack, read as strictly as results files are: every line is judged again from its votes."""
    settings, rows = records.read(folder)
    judging.check_effort(folder / records.TABLE, settings, len(rows))
    images = read_npz(folder / records.images_name(rows[0].eps), folder.name, mapped=True)
    for number, row in enumerate(rows, 2):
        if fault := judging.fault(settings, row, prod(images.image_shape)):
            raise ResultsError(f"{folder / records.TABLE}, line {number}: {fault}; {records.CHANGED}")
    return Attacked(folder, settings, rows)
