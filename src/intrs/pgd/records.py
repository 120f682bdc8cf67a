"""The folder of an attack: what was done, how far it is, and what came of it. Nothing here needs PyTorch.

attack.tsv.json   all that is needed to repeat it, written first
attacked.bin      one record an image, appended when the image is done: what a killed run continues from
attack.tsv        one line an image and eps, written at the end
eps-0.25.npz      the attacked images of one eps, for `intrs predict` and `intrs certify`; written at the end
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from intrs.data.npz import write_npz
from intrs.errors import IntrsError
from intrs.files import named, write_whole
from intrs.noise import PIXEL_RANGE
from intrs.pgd.ball import NORMS, Ball, Norm
from intrs.results import LONGEST_TEXT, cell, integer, read_sidecar, sidecar_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from intrs.data.images import Images

FORMAT = "intrs attack 1"
TABLE, PROGRESS = "attack.tsv", "attacked.bin"
COLUMNS = (
    "idx", "label", "eps", "clean", "predict", "correct", "norm", "time", "n", "size", "clean_counts", "counts",
)  # fmt: skip
DIGITS = 6  # of a norm
MOST_TABLE = 2**30


@dataclass(frozen=True)
class Settings:
    """What is needed to repeat an attack; the sidecar is this as JSON. Numbers that must be exact are text."""

    model: str
    identity: str
    source: str  # the network that gave the gradients; empty if it is the model itself
    source_identity: str
    pixels: str
    mean: str
    std: str
    data: str
    split: str
    data_sha256: str
    first: int
    skip: int
    max: int  # number of images
    norm: Norm
    eps: str  # fractions of the pixel range, with commas
    steps: int
    draws: int
    restarts: int
    sigma: str  # 0: no noise, the network itself
    noise: str
    n: int
    alpha: str
    seed: str
    intrs: str
    torch: str
    kernels: str
    python: str
    platform: str

    @property
    def balls(self) -> list[Ball]:
        """One for each eps."""
        return [Ball.of(self.norm, eps) for eps in self.eps.split(",")]


MAY_DIFFER = ("model", "source", "data", "intrs", "torch", "kernels", "python", "platform")
"""Fields in which a run and its continuation need not agree: names and versions. Kernels are all the same in integers,
but not those of continuous noise."""


@dataclass(frozen=True)
class Row:
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
        for column in ("eps", "norm", "time"):
            if not re.fullmatch(r"[\w:./, -]{1,60}", cells[column], re.ASCII):
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
    text = json.dumps({"format": FORMAT, **asdict(settings)}, indent=1) + "\n"
    write_whole(sidecar_path(folder / TABLE), text.encode())


def read_settings(folder: Path) -> Settings | None:
    """The sidecar, checked field by field; None if there is none."""
    path = sidecar_path(folder / TABLE)
    with named(path, "read"):
        if not path.exists():
            return None
    try:
        return _settings(read_sidecar(folder / TABLE, FORMAT))
    except (ValueError, RecursionError) as error:
        raise IntrsError(f"{path}: not the description of an attack ({error})") from None


def _settings(found: dict[str, Any]) -> Settings:
    values = {"first": 0} | found  # files of earlier versions do not have it
    for field in fields(Settings):
        if not _fits(field.name, field.type == "int", values.get(field.name)):
            raise ValueError(f"field {field.name!r} is missing or wrong")
    if values["norm"] not in NORMS or not re.fullmatch("0x[0-9a-f]{1,64}", str(values["seed"])):
        raise ValueError("field 'norm' or 'seed' is wrong")
    return Settings(**{field.name: values[field.name] for field in fields(Settings)})


def _fits(name: str, number: bool, value: object) -> bool:
    if number:
        return type(value) is int and (name != "first") <= value < 2**63
    return type(value) is str and len(value) < LONGEST_TEXT


def differences(old: Settings, new: Settings) -> list[str]:
    """What forbids to continue `old` as `new`, one line a field."""
    names = [field.name for field in fields(Settings) if field.name not in MAY_DIFFER]
    names += ["kernels"] if new.noise == "continuous" else []
    pairs = ((name, getattr(old, name), getattr(new, name)) for name in names)
    return [f"{name}: {before} in the folder, {now} now" for name, before, now in pairs if before != now]


# --- Progress --------------------------------------------------------------------------------------------------------


def record_type(balls: int, classes: int, image_shape: tuple[int, ...]) -> np.dtype[Any]:
    """What is kept of one image: votes at the image, and votes and pixels of each attacked one."""
    return np.dtype([
        ("idx", "<i8"), ("seconds", "<f8"), ("clean", "<i8", (classes,)),
        ("votes", "<i8", (balls, classes)), ("pixels", "u1", (balls, *image_shape)),
    ])  # fmt: skip


class Progress:
    """The records of a folder, open for appending and locked against other processes."""

    def __init__(self, folder: Path, settings: Settings, data: Images, positions: Sequence[int], classes: int) -> None:
        self.path = folder / PROGRESS
        self._settings, self._data, self._positions = settings, data, positions
        self._type = record_type(len(settings.balls), classes, data.image_shape)
        with named(self.path, "write"):
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._lock()
            self._begin(folder)
            self.records = self._read()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise IntrsError(f"another process attacks in {self.path.parent}; wait for it, or name another") from None

    def _begin(self, folder: Path) -> None:
        """Settle, before anything is written, that this is our folder and our attack."""
        old = read_settings(folder)
        if old and (found := differences(old, self._settings)):
            raise IntrsError(
                f"{folder} holds another attack; name another folder, or use its settings:\n  " + "\n  ".join(found)
            )
        if not old and (os.fstat(self._descriptor).st_size or (folder / TABLE).exists()):
            raise IntrsError(
                f"{folder} holds results, but {sidecar_path(folder / TABLE)}, which describes them, is gone"
            )
        write_settings(folder, self._settings)

    def _read(self) -> list[NDArray[Any]]:
        """The whole records; what a kill left of another one is cut off."""
        with named(self.path, "read"):
            size = os.fstat(self._descriptor).st_size
            count = min(size // self._type.itemsize, len(self._positions))
            with open(self._descriptor, "rb", closefd=False) as file:  # not pread, which ends at 2 GiB
                file.seek(0)
                found = np.frombuffer(file.read(count * self._type.itemsize), self._type)
            os.ftruncate(self._descriptor, count * self._type.itemsize)
        for record, position in zip(found, self._positions, strict=False):
            if fault := self._fault(record, position):
                raise IntrsError(f"{self.path}, image {int(record['idx'])}: {fault}; the file was changed, remove it")
        return list(found)

    def _fault(self, record: NDArray[Any], position: int) -> str | None:
        if record["idx"] != self._data.indices[position] or not 0 <= record["seconds"] < 1e9:
            return f"image {self._data.indices[position]} was expected"
        counts = np.vstack([record["clean"][None], record["votes"]])
        if counts.min() < 0 or (counts.sum(1) != self._settings.n).any():
            return f"its votes are not {self._settings.n}"
        changes = record["pixels"].astype(np.int64) - self._data.images[position]
        inside = (ball.size(change) <= ball.limit for ball, change in zip(self._settings.balls, changes, strict=True))
        return None if all(inside) else "a perturbation lies outside its ball"

    def append(
        self, position: int, seconds: float, clean: Sequence[int], votes: Sequence[Sequence[int]], pixels: NDArray[Any]
    ) -> None:
        """Keep what was done to one image; on return it is with the operating system."""
        index = int(self._data.indices[position])
        record = np.array((index, seconds, tuple(clean), [tuple(v) for v in votes], pixels), self._type)
        data, size = record.tobytes(), os.fstat(self._descriptor).st_size
        with named(self.path, "write"):
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, size)
                raise
        self.records.append(record)

    def close(self) -> None:
        """Let others in."""
        os.close(self._descriptor)


# --- What came of it -------------------------------------------------------------------------------------------------


def write_results(folder: Path, rows: Sequence[Row], attacked: dict[str, Images]) -> list[Path]:
    """Write table and images, each in one move; the paths."""
    text = "\t".join(COLUMNS) + "\n" + "".join(row.line() + "\n" for row in rows)
    write_whole(folder / TABLE, text.encode())
    return [folder / TABLE, *(_write_images(folder / images_name(eps), images) for eps, images in attacked.items())]


def images_name(eps: str) -> str:
    """The file of the attacked images of one eps."""
    return f"eps-{eps.replace('/', 'over')}.npz"


def _write_images(path: Path, images: Images) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with named(path, "write"):
        try:
            write_npz(part, images)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return path


def read(folder: Path) -> tuple[Settings, list[Row]]:
    """The description and the lines of a finished attack, as strict as `intrs.results.read`."""
    settings, path = read_settings(folder), folder / TABLE
    if settings is None:
        raise IntrsError(f"{folder}: no attack was made here ({sidecar_path(path)} is missing)")
    with named(path, "read"):
        if path.stat().st_size > MOST_TABLE:
            raise IntrsError(f"{path}: larger than the {MOST_TABLE:,} bytes that are taken")
        lines = path.read_bytes().decode("ascii", "replace").splitlines()
    if not lines or lines[0] != "\t".join(COLUMNS):
        raise IntrsError(f"{path}: its first line should name {' '.join(COLUMNS)}")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        try:
            rows.append(Row.parse(line))
        except ValueError as error:
            raise IntrsError(f"{path}, line {number}: malformed ({error})") from None
    if len(rows) != settings.max * len(settings.balls):
        raise IntrsError(f"{path}: {len(rows):,} lines after the first, not {settings.max:,} for each eps")
    return settings, rows


def elapsed(seconds: float) -> str:
    """The `time` column."""
    return str(timedelta(seconds=seconds))
