"""The folder of an attack: what was asked, how far it is, and what came of it. Nothing here needs PyTorch.

attack.tsv.json   all that is needed to repeat it, written first
attacked.bin      one record per image, appended when the image is done: what a killed run continues from
eps-0.25.npz      the attacked images of one eps, for `intrs predict` and `intrs certify`; written at the end
attack.tsv        one line per image and eps, written last: a folder that has it is finished
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from intrs.certificate import parse_alpha
from intrs.data.npz import write_npz
from intrs.errors import IntrsError, ResultsError
from intrs.exact import plain
from intrs.files import Appended, named, read_bounded, write_whole
from intrs.noise import PIXEL_RANGE
from intrs.pgd.ball import Ball
from intrs.request import Attack
from intrs.results import cell, integer, read_sidecar, sidecar_path
from intrs.results.rows import TIME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.data.images import Images

FORMAT = "intrs attack 1"
TABLE, RECORDS = "attack.tsv", "attacked.bin"
COLUMNS = (
    "idx", "label", "eps", "clean", "predict", "correct", "norm", "time", "n", "size", "clean_counts", "counts",
)  # fmt: skip
DIGITS = 6  # of a norm
MOST_TABLE = 2**30
LONGEST_TEXT = 10_000
PATTERNS = {"eps": r"[\d./e-]{1,60}", "norm": rf"\d{{1,9}}\.\d{{{DIGITS}}}", "time": TIME}
CHANGED = "the file was changed after it was written"


@dataclass(frozen=True)
class Settings:
    """An attack that can be repeated: the request with every choice made, and what was found when it was opened."""

    request: Attack  # with nothing left open: sigma, eps, steps, seed and number of images are settled
    identity: str  # of the model
    source_identity: str  # of the network that gave the gradients; empty if it is the model itself
    data_sha256: str
    intrs: str
    torch: str
    kernels: str  # the kernel set that ran, or the float engine
    python: str
    platform: str

    @property
    def balls(self) -> list[Ball]:
        """One for each eps."""
        return [Ball.of(self.request.norm, eps) for eps in self.request.eps]

    @property
    def images(self) -> int:
        """How many there are."""
        assert self.request.max is not None
        return self.request.max

    @property
    def seed(self) -> int:
        """256 bits."""
        assert self.request.seed is not None
        return self.request.seed

    @property
    def smoothed(self) -> bool:
        """Whether there is noise, or the network itself is attacked."""
        return self.request.sigma != "0"

    def to_json(self) -> dict[str, Any]:
        """The fields of the sidecar. Numbers that must be exact are text."""
        noise = self.request.noise if self.smoothed else ""
        values = vars(self.request) | vars(self)
        values |= {"eps": ",".join(self.request.eps), "seed": hex(self.seed), "noise": noise}
        values["names"] = list(self.request.names)
        return {name: values[name] for name in FIELDS if name not in LATER or values[name] != LATER[name]}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """The settings of a sidecar, checked field by field; ValueError says which one is wrong."""
        values = {"first": 0} | LATER | found  # files of earlier versions do not have these
        for name in FIELDS:
            if not _fits(name, values.get(name)):
                raise ValueError(f"field {name!r} is missing or wrong")
        if not re.fullmatch("0x[0-9a-f]{1,64}", values["seed"]):
            raise ValueError("field 'seed' is wrong")
        try:
            request = Attack.of(values | {"noise": values["noise"] or Attack.noise, "kernels": ""})
            made = cls(request, **{field.name: values[field.name] for field in fields(cls) if field.name in FIELDS})
            balls, _ = made.balls, parse_alpha(request.alpha)  # read now, so that what is wrong is said now
        except IntrsError as error:
            raise ValueError(str(error)) from None
        if not balls or len(set(balls)) < len(balls):
            raise ValueError("field 'eps' names no radius, or one twice")
        return made


FIELDS = (
    "model", "identity", "source", "source_identity", "pixels", "mean", "std", "data", "split", "data_sha256", "first",
    "skip", "max", "norm", "eps", "steps", "draws", "restarts", "sigma", "noise", "n", "alpha", "seed", "intrs",
    "torch", "kernels", "python", "platform", "dialect", "names", "by_number",
)  # fmt: skip
"""Of the sidecar, in its order. `max` is the number of images; sigma 0: no noise, the network itself."""
LATER: dict[str, Any] = {"dialect": "", "names": [], "by_number": False}  # written only if they say something
NUMBERS = ("first", "skip", "max", "steps", "draws", "restarts", "n")
MAY_DIFFER = ("model", "source", "data", "intrs", "torch", "kernels", "python", "platform", "names", "by_number")
"""Fields in which a run and its continuation need not agree: names and versions. Kernels are all the same in integers,
but not those of continuous noise. If other names of classes give other labels, the hash of the data says so."""


@dataclass(frozen=True)
class AttackRow:
    """One line: what one attack did to one image. None: abstained."""

    idx: int
    label: int
    eps: str
    clean: int | None
    predict: int | None
    correct: int
    norm: str  # of the perturbation, in units of the pixel range, rounded up
    time: str  # of all attacks on this image
    n: int
    size: int  # squared pixel levels in l2, pixel levels in l_inf
    clean_counts: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def parse(cls, line: str) -> Self:
        """The row of a line; ValueError says which cell is wrong."""
        texts = line.split("\t")
        if len(texts) != len(COLUMNS):
            raise ValueError(f"{len(texts)} columns where there should be {len(COLUMNS)}")
        cells: dict[str, Any] = dict(zip(COLUMNS, texts, strict=True))
        for column in ("idx", "label", "clean", "predict", "correct", "n", "size"):
            cells[column] = integer(cells[column], column, -1 if column in ("clean", "predict") else 0)
        for column in ("clean", "predict"):
            cells[column] = None if cells[column] < 0 else cells[column]
        for column in ("clean_counts", "counts"):
            cells[column] = tuple(integer(part, column) for part in cells[column].split(","))
        for column, pattern in PATTERNS.items():
            if not re.fullmatch(pattern, cells[column], re.ASCII):
                raise ValueError(f"{column} is {cells[column][:40]!r}")
        return cls(**cells)

    def line(self) -> str:
        """The line, without its end."""
        return "\t".join(cell(getattr(self, column)) for column in COLUMNS)


def norm_text(ball: Ball, size: int) -> str:
    """A perturbation's norm in units of the pixel range, rounded up."""
    square = (size if ball.norm == "l2" else size * size) * 10 ** (2 * DIGITS)
    scaled = math.isqrt(square // PIXEL_RANGE**2)
    scaled += (scaled * PIXEL_RANGE) ** 2 < square
    return f"{scaled // 10**DIGITS}.{scaled % 10**DIGITS:0{DIGITS}}"


# --- The sidecar -----------------------------------------------------------------------------------------------------


def write_settings(folder: Path, settings: Settings) -> None:
    """Write the sidecar."""
    text = json.dumps({"format": FORMAT, **settings.to_json()}, indent=1) + "\n"
    write_whole(sidecar_path(folder / TABLE), text.encode())


def read_settings(folder: Path) -> Settings | None:
    """The sidecar, checked field by field; None if there is none."""
    path = sidecar_path(folder / TABLE)
    with named(path, "read"):
        if not path.exists():
            return None
    try:
        return Settings.from_json(read_sidecar(folder / TABLE, FORMAT))
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not the description of an attack ({error})") from None


def _fits(name: str, value: object) -> bool:
    if name in NUMBERS:
        return type(value) is int and (name != "first") <= value < 2**63
    if name == "by_number":
        return type(value) is bool
    if name == "names":
        return isinstance(value, list) and all(type(part) is str for part in value)
    return type(value) is str and len(value) < LONGEST_TEXT


def differences(old: Settings, new: Settings, parts: Sequence[str] = ()) -> list[tuple[str, object, object]]:
    """The fields in which two attacks differ, so that one cannot go on as the other; `parts` are left out."""
    one, two, may_differ = old.to_json(), new.to_json(), {*MAY_DIFFER, *parts}
    if new.request.noise == "continuous":
        may_differ -= {"kernels"}
    pairs = [(name, (LATER | one)[name], (LATER | two)[name]) for name in FIELDS if name not in may_differ]
    return [(name, mine, theirs) for name, mine, theirs in pairs if mine != theirs]


# --- Records ---------------------------------------------------------------------------------------------------------


def record_type(balls: int, classes: int, image_shape: tuple[int, ...]) -> np.dtype[Any]:
    """What is kept of one image: votes at the image, and votes and pixels of each attacked one."""
    return np.dtype([
        ("idx", "<i8"), ("seconds", "<f8"), ("clean", "<i8", (classes,)),
        ("votes", "<i8", (balls, classes)), ("pixels", "u1", (balls, *image_shape)),
    ])  # fmt: skip


def open_records(folder: Path, settings: Settings) -> Appended:
    """The file of records, once it is settled that the folder holds this attack or nothing; the sidecar is written."""
    with named(folder, "write"):
        folder.mkdir(parents=True, exist_ok=True)
    file = Appended(folder / RECORDS)
    try:
        _settle(folder, file.size, settings)
        write_settings(folder, settings)
    except BaseException:
        file.close(drop_if_empty=True)
        raise
    return file


def _settle(folder: Path, size: int, settings: Settings) -> None:
    old = read_settings(folder)
    if old and (found := differences(old, settings)):
        lines = "\n  ".join(f"{name}: {before} in the folder, {now} now" for name, before, now in found)
        raise ResultsError(f"{folder} holds another attack; name another folder, or use its settings:\n  {lines}")
    if not old and (size or (folder / TABLE).exists()):
        raise ResultsError(f"{folder} holds results, but {sidecar_path(folder / TABLE)}, which describes them, is gone")


class Records:
    """What was done to the images so far: a file open for appending and locked against other processes."""

    def __init__(self, folder: Path, settings: Settings, data: Images, positions: Sequence[int], classes: int) -> None:
        self._settings, self._data, self._positions = settings, data, positions
        self._type = record_type(len(settings.balls), classes, data.image_shape)
        self._file = open_records(folder, settings)
        self.folder = folder
        try:
            self.kept = self._read()
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        """How many images are done."""
        return len(self.kept)

    def _read(self) -> list[NDArray[Any]]:
        """The whole records; what a kill left of another one is cut off."""
        size, path = self._type.itemsize, self._file.path
        if self._file.size > size * len(self._positions):
            raise ResultsError(f"{path}: more records than there are images; the file was changed, remove it")
        count = self._file.size // size
        found = np.frombuffer(self._file.read()[: count * size], self._type)
        for record, position in zip(found, self._positions, strict=False):
            if fault := self._fault(record, position):
                raise ResultsError(f"{path}, image {int(record['idx'])}: {fault}; the file was changed, remove it")
        self._file.cut(count * size)
        return list(found)

    def _fault(self, record: NDArray[Any], position: int) -> str | None:
        if record["idx"] != self._data.indices[position] or not 0 <= record["seconds"] < 1e9:
            return f"image {self._data.indices[position]} was expected"
        counts = np.vstack([record["clean"][None], record["votes"]])
        if counts.min() < 0 or (counts.sum(1) != self._settings.request.n).any():
            return f"its votes are not {self._settings.request.n}"
        changes = record["pixels"].astype(np.int64) - self._data.images[position]
        inside = (ball.size(change) <= ball.limit for ball, change in zip(self._settings.balls, changes, strict=True))
        return None if all(inside) else "a perturbation lies outside its ball"

    def append(
        self, position: int, seconds: float, clean: Sequence[int], votes: Sequence[Sequence[int]], pixels: NDArray[Any]
    ) -> None:
        """Keep what was done to one image; on return it is with the operating system."""
        index = int(self._data.indices[position])
        record = np.array((index, seconds, tuple(clean), [tuple(v) for v in votes], pixels), self._type)
        with named(self._file.path, "write"):
            self._file.append(record.tobytes())
        self.kept.append(record)

    def check(self) -> None:
        """Raise ResultsError if another program has changed the file meanwhile."""
        self._file.check()

    def close(self) -> None:
        """Let others in."""
        self._file.close()


# --- What came of it -------------------------------------------------------------------------------------------------


def write_results(folder: Path, rows: Sequence[AttackRow], attacked: dict[str, Images]) -> None:
    """Write images and table, each in one move; the table last, because a folder that has it is finished."""
    for eps, images in attacked.items():
        write_npz(folder / images_name(eps), images)
    text = "\t".join(COLUMNS) + "\n" + "".join(row.line() + "\n" for row in rows)
    write_whole(folder / TABLE, text.encode())


def images_name(eps: str) -> str:
    """The file of the attacked images of one eps."""
    return f"eps-{eps.replace('/', 'over')}.npz"


def read(folder: Path) -> tuple[Settings, list[AttackRow]]:
    """The description and the lines of a finished attack, as strict as `intrs.results.read`."""
    settings, path = read_settings(folder), folder / TABLE
    if settings is None:
        raise ResultsError(f"{folder}: no attack was made here ({sidecar_path(path)} is missing)")
    lines = read_bounded(path, MOST_TABLE).decode("ascii", "replace").splitlines()
    if not lines or lines[0] != "\t".join(COLUMNS):
        raise ResultsError(f"{path}: its first line should name {' '.join(COLUMNS)}")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        try:
            rows.append(AttackRow.parse(line))
        except ValueError as error:
            raise ResultsError(f"{path}, line {number}: malformed ({error})") from None
    if len(rows) != settings.images * len(settings.balls):
        raise ResultsError(f"{path}: {len(rows):,} lines after the first, not {settings.images:,} for each eps")
    _check_rows(path, settings, rows)
    return settings, rows


def _check_rows(path: Path, settings: Settings, rows: Sequence[AttackRow]) -> None:
    """Refuse lines that are not one per image and eps, in order, and lines that contradict themselves."""
    balls, n, classes = settings.balls, settings.request.n, len(rows[0].counts)
    seen: set[tuple[int, str]] = set()
    for place, row in enumerate(rows):
        k = place % len(balls)
        twice = "this image and eps are on an earlier line, too" if (row.idx, row.eps) in seen else None
        if fault := twice or _misplaced(row, rows[place - k], balls[k]) or _contradiction(row, balls[k], n, classes):
            raise ResultsError(f"{path}, line {place + 2}: {fault}; {CHANGED}")
        seen.add((row.idx, row.eps))


def _misplaced(row: AttackRow, first: AttackRow, ball: Ball) -> str | None:
    """Another line that should stand here; `first` is the image's line of the first eps."""
    found, wanted = (row.idx, row.label, row.eps), (first.idx, first.label, plain(ball.eps))
    idx, label, eps = wanted
    return None if found == wanted else f"image {idx} of class {label} at eps {eps} should stand here"


def _contradiction(row: AttackRow, ball: Ball, n: int, classes: int) -> str | None:
    """What a line says that cannot be, whatever its votes are."""
    for name, counts in (("clean_counts", row.clean_counts), ("counts", row.counts)):
        if (len(counts), sum(counts)) != (classes, n):
            return f"{name} should be {classes} numbers with sum {n}"
    if row.n != n:
        return f"n is {row.n}, should be {n}"
    if row.size > ball.limit:
        return f"size is {row.size}, but eps {row.eps} allows {ball.limit}"
    right = norm_text(ball, row.size)
    return None if row.norm == right else f"norm is {row.norm}, but size says {right}"


def elapsed(seconds: float) -> str:
    """The `time` column."""
    return str(timedelta(seconds=seconds))
