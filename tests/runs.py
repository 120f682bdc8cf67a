"""Descriptions of runs for tests, from the fields of their JSON files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from intrs.results import FORMAT, Row, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS: dict[str, Any] = {
    "format": FORMAT, "command": "certify", "model": "m.onnx", "identity": "0" * 64, "pixels": "auto", "mean": "",
    "std": "", "data": "d.npz", "split": "test", "data_sha256": "1" * 64, "skip": 1, "max": 4, "sigma": "1/4",
    "noise": "discrete", "bound": "sound", "form": "one", "n0": 10, "n": 100, "alpha": "1/1000", "seed": "0x7",
    "intrs": "0", "kernels": "scalar", "python": "3", "platform": "any",
}  # fmt: skip


def described(**fields: Any) -> Run:
    """The run of these fields."""
    return Run.from_json(FIELDS | fields)


def with_fields(run: Run, **fields: Any) -> Run:
    """The same run with other values in some fields of its JSON file."""
    return Run.from_json(run.to_json() | fields)


def prediction(run: Run) -> Run:
    """The same run as one of predictions."""
    return with_fields(run, command="predict", bound="", form="", n0=0)


def predictions(rows: Sequence[Row]) -> list[Row]:
    """The same lines as those of predictions: no selection and no radius."""
    return [
        replace(row, n0=0, counts0=(0,) * len(row.counts), radius="0.0", radius_sq=None if row.predict is None else 0)
        for row in rows
    ]
