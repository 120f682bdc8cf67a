"""The JSON files in the folder of a training run. Nothing here needs PyTorch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from intrs.errors import IntrsError
from intrs.files import write_whole

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
        raise IntrsError(f"{path}: not JSON ({error})") from None
    if not isinstance(state, dict):
        raise IntrsError(f"{path}: not a JSON object")
    if state.get("format") != FORMAT or not isinstance(state.get("recipe"), dict):
        raise IntrsError(f"{path}: not the state of a training run ({FORMAT})")
    log = state.get("log")
    if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
        raise IntrsError(f"{path}: its log is damaged")
    if not isinstance(state.get("weights_sha256"), str):
        raise IntrsError(f"{path}: no hash of the weights")
    return state


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """What a file of JSON holds, of at most so many bytes; ValueError or RecursionError if it is none."""
    return json.loads(read_bytes(path, most))


def read_bytes(path: Path, most: int) -> bytes:
    """A file that may be anything, unless it is larger than `most` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise IntrsError(f"{path}: {error.strerror}") from None
    if len(data) > most:
        raise IntrsError(f"{path}: larger than the {most:,} bytes that are taken")
    return data


def write_json(path: Path, value: object) -> None:
    """Write readable JSON in one move."""
    write_whole(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())
