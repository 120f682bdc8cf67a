"""The JSON files in the folder of a training run. Nothing here needs PyTorch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from intrs.errors import ResultsError
from intrs.files import read_bounded, write_whole
from intrs.training.recipe import stored_fault

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "intrs training 1"
STATE, RESULTS = "state.json", "results.json"
MOST_JSON = 2**26


def read_state(folder: Path) -> dict[str, Any]:
    """A run's state, checked as far as training uses it."""
    path = folder / STATE
    try:
        state = read_json(path)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not JSON ({error})") from None
    if not isinstance(state, dict):
        raise ResultsError(f"{path}: not a JSON object")
    if state.get("format") != FORMAT or not isinstance(state.get("recipe"), dict):
        raise ResultsError(f"{path}: not the state of a training run ({FORMAT})")
    if fault := stored_fault(state["recipe"]):
        raise ResultsError(f"{path}: {fault}; the file is damaged")
    log = state.get("log")
    if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
        raise ResultsError(f"{path}: its log is damaged")
    if not isinstance(state.get("weights_sha256"), str):
        raise ResultsError(f"{path}: no hash of the weights")
    return state


def check_log(folder: Path, log: list[dict[str, Any]]) -> None:
    """Refuse a log that cannot be continued: epochs follow each other, and the card tells their time and threads."""
    for number, entry in enumerate(log, 1):
        seconds = entry.get("seconds")
        if (
            entry.get("epoch") != number
            or not isinstance(seconds, int | float)
            or type(entry.get("threads")) is not int
        ):
            raise ResultsError(f"{folder / STATE}: entry {number} of its log is damaged")


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """What a file of JSON holds, of at most so many bytes; ValueError or RecursionError if it is none."""
    return json.loads(read_bounded(path, most))


def write_json(path: Path, value: object) -> None:
    """Write readable JSON in one move."""
    write_whole(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())
