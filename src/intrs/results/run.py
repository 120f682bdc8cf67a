"""The description of a run: its request, and what was found when it began. Beside the results it is a JSON file."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from intrs.adaptive import GIVE_UP, LONGEST_PLAN, Stages
from intrs.certificate import parse_alpha, parse_samples
from intrs.data.limits import MOST_FILES
from intrs.errors import IntrsError, ResultsError
from intrs.files import PACKED, read_bounded, write_whole
from intrs.noise import Noise
from intrs.request import REQUESTS, Certify, Predict
from intrs.shards import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction
    from pathlib import Path

FORMAT = "intrs results 1"
MOST_SIDECAR, LONGEST_TEXT = 2**20, 10_000  # of a file of any origin
SPLITS = ("train", "test", "val", "valid", "validation")
CLASSICAL = (
    "classical method in floating point: not bit for bit the same on other machines, "
    "and the rounding of floats is not covered by the proof"
)
SAME = (
    "command", "identity", "data_sha256", "first", "skip", "sigma", "noise", "bound", "form",
    "n0", "n", "alpha", "seed", "adaptive", "noise_table", "shard", "dialect",
)  # fmt: skip
"""The fields that must agree for a run to be continued: lines of one file are all of one experiment."""
OF_FLOATS = ("pixels", "mean", "std")
"""So must these if the noise is continuous: the identity is the file's then, not that of what it was made into."""


@dataclass(frozen=True)
class Run:
    """What is needed to repeat a run."""

    request: Certify | Predict  # with nothing left open: sigma, seed and number of images are settled
    identity: str  # Network.identity; SHA-256 of the file if it ran in floats
    data_sha256: str
    intrs: str  # version
    kernels: str  # the kernel set that ran, or the float engine
    python: str
    platform: str
    stages: Stages | None = None  # of an adaptive run
    noise_table: str = ""  # SHA-256 of the sampling table; empty if there is none, or in files of earlier versions
    dimension: int = 0  # values per image; 0 in files of earlier versions
    classes: int = 0  # of the model; 0 in files of earlier versions
    unlabelled: bool = False  # whether the true classes are not known; then lines name the files of the images

    @property
    def command(self) -> str:
        """certify or predict."""
        return self.request.COMMAND

    @property
    def images(self) -> int:
        """Number of images in this file when the run is complete."""
        return len(self.places)

    @property
    def places(self) -> range:
        """Where its images stand in the data."""
        return self.shard.places(self.whole) if self.shard else self.whole

    @property
    def whole(self) -> range:
        """The same for the run of which this may be a part."""
        first, skip, count = self.request.first, self.request.skip, self.request.max
        assert count is not None
        return range(first, first + skip * count, skip)

    @property
    def is_judged(self) -> bool:
        """Whether its images get all of their samples, and so their lines; a part of the samples has only votes."""
        return self.shard is None or self.shard.by == "images"

    @property
    def shard(self) -> Shard | None:
        """Which part of a run it is; None if it is the whole."""
        return Shard.parse(self.request.shard) if self.request.shard else None

    @cached_property
    def noise(self) -> Noise:
        """Law and sigma."""
        assert self.request.sigma is not None
        if self.request.sigma == "0" and isinstance(self.request, Predict):
            return Noise.none()
        return Noise.of(self.request.noise, self.request.sigma)

    @property
    def seed(self) -> int:
        """256 bits."""
        assert self.request.seed is not None
        return self.request.seed

    @cached_property
    def alpha(self) -> Fraction:
        """Probability of a wrong answer."""
        return parse_alpha(self.request.alpha)

    @property
    def n0(self) -> int:
        """Samples that select the class."""
        return self.request.n0 if isinstance(self.request, Certify) else 0

    @property
    def bound(self) -> str:
        """From votes to radius: sound or paper; empty for predictions, which have no radius."""
        return self.request.bound if isinstance(self.request, Certify) else ""

    @property
    def form(self) -> str:
        """one or two classes in the bound; empty for predictions."""
        return self.request.form if isinstance(self.request, Certify) else ""

    @cached_property
    def digest(self) -> str:
        """Of what must agree for the run to be continued; votes that wait for their lines carry it.

        The table of the noise follows from law and sigma, and files of earlier versions do not name it.
        """
        described = self.to_json()
        names = (name for name in (*SAME, *self.more_of_the_same) if name != "noise_table")
        text = json.dumps({name: described.get(name) for name in names}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def more_of_the_same(self) -> tuple[str, ...]:
        """What must agree beside `SAME`, by the kind of noise."""
        return () if self.noise.on_integers else OF_FLOATS

    @property
    def note(self) -> str:
        """A caution that stands beside the results."""
        return "" if self.noise.on_integers else CLASSICAL

    def to_json(self) -> dict[str, Any]:
        """The fields of the sidecar."""
        r = self.request
        later = {
            "noise_table": self.noise_table, "dimension": self.dimension, "classes": self.classes, "shard": r.shard,
            "dialect": r.dialect, "fit": r.fit, "unlabelled": self.unlabelled,
            "names": list(r.names), "by_number": r.by_number,
        }  # fmt: skip
        return {
            "format": FORMAT,
            "command": self.command,
            "model": r.model,
            "identity": self.identity,
            "pixels": r.pixels,
            "mean": r.mean,
            "std": r.std,
            "data": r.data if isinstance(r.data, str) else list(r.data),
            "split": r.split,
            "data_sha256": self.data_sha256,
            "skip": r.skip,
            "max": r.max,
            "sigma": r.sigma,
            "noise": r.noise,
            "bound": self.bound,
            "form": self.form,
            "n0": self.n0,
            "n": r.n,
            "alpha": r.alpha,
            "seed": hex(self.seed),
            "intrs": self.intrs,
            "kernels": self.kernels,
            "python": self.python,
            "platform": self.platform,
            "adaptive": str(self.stages or ""),
            "note": self.note,
            "first": r.first,
            **{name: value for name, value in later.items() if value},
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Run:
        """The run that these fields describe, checked field by field; ValueError says which one is wrong."""
        values = _LATER | {name: value for name, value in found.items() if name in _FIELDS}
        for name, is_right in _FIELDS.items():
            if name not in values or not is_right(values[name]):
                raise ValueError(f"field {name!r} is missing or wrong")
        try:
            run = _run(values)
            run.noise, run.alpha  # noqa: B018  # read now, so that what is wrong is said now
            parse_samples(run.request.n)
            shard = run.shard
        except IntrsError as error:
            raise ValueError(str(error)) from None
        if shard and shard.of > (len(run.whole) if run.is_judged else run.request.n):
            raise ValueError("field 'shard' is of more parts than there is to divide")
        if values["note"] != run.note:
            raise ValueError("field 'note' is not of this run")
        return run


def _run(values: dict[str, Any]) -> Run:
    stages = Stages.parse(values["adaptive"]) if values["adaptive"] else None
    if stages and (values["command"], values["n"]) != ("certify", stages.last.n):
        raise ValueError("field 'adaptive' is not of this run")
    kind = REQUESTS[values["command"]]
    if kind is Predict and (values["bound"], values["form"], values["n0"]) != ("", "", 0):
        raise ValueError("field 'bound', 'form' or 'n0' is not of a prediction")
    asked = kind.of(values | {"pixels": values["pixels"] or "auto", "adaptive": bool(stages), "kernels": ""})
    request = replace(asked, **_asked(stages)) if stages else asked
    names = (
        "identity",
        "data_sha256",
        "intrs",
        "kernels",
        "python",
        "platform",
        "noise_table",
        "dimension",
        "classes",
        "unlabelled",
    )
    return Run(request, **{name: values[name] for name in names}, stages=stages)


def _asked(stages: Stages) -> dict[str, Any]:
    """The settings of an adaptive request, from what it became."""
    last = stages.last
    if last.precision is not None:
        return {"precision": str(last.precision)}
    return {"radii": tuple(map(str, last.radii)), "give_up": None if last.give_up == GIVE_UP else str(last.give_up)}


# --- What a field may hold -------------------------------------------------------------------------------------------


def _text(pattern: str = "", longest: int = LONGEST_TEXT) -> Callable[[object], bool]:
    """Any text that a file name may hold, or one that fits a pattern."""

    def is_right(value: object) -> bool:
        if type(value) is not str or len(value) > longest:
            return False
        return not pattern or re.fullmatch(pattern, value, re.ASCII) is not None

    return is_right


def _texts(value: object) -> bool:
    """One name, or several."""
    if not isinstance(value, list):
        return _text()(value)
    return 1 < len(value) <= MOST_FILES and all(_text()(each) for each in value)


def _number(least: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value < 2**63


_SHA256, _PRINTABLE = "[0-9a-f]{64}", r"[ -~]{0,300}"
_FIELDS: dict[str, Callable[[object], bool]] = {
    "command": _text("certify|predict"),
    "model": _text(),
    "identity": _text(_SHA256),
    "pixels": _text("|auto|unit|byte"),
    "mean": _text(),
    "std": _text(),
    "data": _texts,
    "split": _text("|".join(SPLITS)),
    "data_sha256": _text(_SHA256),
    "skip": _number(1),
    "max": _number(1),
    "sigma": _text(),
    "noise": _text("discrete|rounded|continuous"),
    "bound": _text("|sound|paper"),
    "form": _text("|one|two"),
    "n0": _number(0),
    "n": _number(1),
    "alpha": _text(),
    "seed": _text("0x[0-9a-f]{1,64}"),
    "intrs": _text(_PRINTABLE),
    "kernels": _text(_PRINTABLE),
    "python": _text(_PRINTABLE),
    "platform": _text(_PRINTABLE),
    "adaptive": _text(longest=LONGEST_PLAN),
    "note": _text(),
    "first": _number(0),
    "noise_table": _text(f"|{_SHA256}"),
    "dimension": _number(0),
    "classes": _number(0),
    "shard": _text(r"|\d{1,7}/\d{1,7}(:samples)?"),
    "dialect": _text("|tflm|litert"),
    "fit": _text(r"|(resize|crop):\d{1,5}x\d{1,5}x[13]"),
    "unlabelled": lambda value: type(value) is bool,
    "names": lambda value: isinstance(value, list) and all(_text()(each) for each in value),
    "by_number": lambda value: type(value) is bool,
}
_LATER: dict[str, Any] = {
    "adaptive": "", "note": "", "first": 0, "noise_table": "", "dimension": 0, "classes": 0,
    "shard": "", "dialect": "", "fit": "", "unlabelled": False, "names": [], "by_number": False,
}  # fmt: skip  # what files of earlier versions do not have


# --- The file --------------------------------------------------------------------------------------------------------


def sidecar_path(path: Path) -> Path:
    """FILE.json beside FILE; packing FILE leaves it as it is."""
    return path.parent / f"{path.name.removesuffix(PACKED)}.json"


def write_run(path: Path, run: Run, give_up: Callable[[], object] | None = None) -> None:
    """Write the sidecar of the results file `path` as `write_whole` does, if it is one that can be read again."""
    described = (json.dumps(run.to_json(), indent=1) + "\n").encode()
    try:
        if len(described) > MOST_SIDECAR:
            raise ValueError(f"more than {MOST_SIDECAR:,} bytes")
        Run.from_json(json.loads(described))
    except ValueError as error:
        raise ResultsError(f"{sidecar_path(path)}: these settings could not be read again ({error})") from None
    write_whole(sidecar_path(path), described, give_up)


def read_run(path: Path) -> Run:
    """The sidecar of the results file `path`, checked field by field."""
    try:
        return Run.from_json(read_sidecar(path, FORMAT))
    except (ValueError, RecursionError) as error:
        what = f"not the description of a run ({error}); verify and resume need it"
        raise ResultsError(f"{sidecar_path(path)}: {what}") from None


def read_sidecar(path: Path, form: str) -> dict[str, Any]:
    """The JSON beside a table, not checked beyond its size and format; ValueError or RecursionError if it is none."""
    found = json.loads(read_bounded(sidecar_path(path), MOST_SIDECAR))
    if not isinstance(found, dict) or found.get("format") != form:
        raise ValueError(f"its format is not {form!r}; perhaps another version of intrs wrote it")
    return found


def differences(old: Run, new: Run, same: Sequence[str] = SAME) -> list[str]:
    """What forbids to continue `old` as `new`, one line per field."""
    return [f"{name}: {before} in the file, {now} now" for name, before, now in unequal(old, new, same)]


def unequal(one: Run, two: Run, same: Sequence[str]) -> list[tuple[str, object, object]]:
    """The fields that should agree and do not, with both values; what an earlier version did not write agrees."""
    names = (*same, *two.more_of_the_same)
    mine, theirs = one.to_json(), two.to_json()
    found = [(name, mine.get(name), theirs.get(name)) for name in names if mine.get(name) != theirs.get(name)]
    tables_tell_nothing_new = None in (mine.get("noise_table"), theirs.get("noise_table")) or one.noise != two.noise
    return [each for each in found if each[0] != "noise_table" or not tables_tell_nothing_new]
