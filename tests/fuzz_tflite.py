"""Fuzz the TFLite loader: bytes and tables of good files, changed at random. Seeded, bounded in count and time.

    python tests/fuzz_tflite.py [--count 20000] [--seconds 600] [--seed 1] [--keep FOLDER]

Whatever the file, `load` must return a network or raise ModelError, soon and in little memory. A network that comes
out is run, and must give the same scores as tests/reference.py. Anything else is printed with the file kept, exit 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fuzzing
import numpy as np
from fuzzing import FLOATS, INTEGERS, pick
from random_tflite import KINDS, UNSIGNED_KINDS, random_graph

from intrs.exchange.tflite.flatbuffer import FlatTable, root
from intrs.exchange.tflite.schema import BUILTINS, OPTIONS, TABLES
from intrs.exchange.tflite.writing import flatbuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from intrs.exchange.tflite.writing import Values

FILES = Path(__file__).parent / "files"
OPTION_KINDS = {number: name for name, number in OPTIONS.items()}


def seeds(folder: Path) -> list[bytes]:
    """Good files to start from: every operator, and files of others."""
    found = [path.read_bytes() for path in sorted(FILES.glob("*.tflite"))]
    for i, first in enumerate([*KINDS, *KINDS, *KINDS]):
        found.append(random_graph(np.random.default_rng([1, i]), first, noted=i >= len(KINDS)).data)
    for i, first in enumerate(UNSIGNED_KINDS):
        found.append(random_graph(np.random.default_rng([2, i]), first, unsigned=True).data)
    return found


def unpacked(table: FlatTable, kind: str) -> Values:
    """A table of a file, and all below it, as the writer takes them."""
    found: Values = {}
    for name, field in TABLES[kind].items():
        if field.kind == "options":
            number = table["builtin_options_type"]
            if number in OPTION_KINDS:
                options = table.table(name, OPTION_KINDS[number])
                found[name] = (OPTION_KINDS[number], unpacked(options, OPTION_KINDS[number]))
            continue
        value = table[name]
        if isinstance(value, FlatTable):
            found[name] = unpacked(value, field.kind)
        elif isinstance(value, list):
            found[name] = [unpacked(item, field.kind[1:-1]) for item in value]
        elif value is not None and not (isinstance(value, np.ndarray) and not value.size):
            found[name] = value.copy() if isinstance(value, np.ndarray) else value
    return found


def places(values: Values, kind: str) -> Iterator[tuple[Values, str, str]]:
    """Every field of a file: its table, its name and its kind."""
    for name, value in values.items():
        field = TABLES[kind][name]
        yield values, name, field.kind
        if field.kind == "options":
            yield from places(value[1], value[0])
        elif isinstance(value, dict):
            yield from places(value, field.kind)
        elif isinstance(value, list):
            for item in value:
                yield from places(item, field.kind[1:-1])


def change_field(model: Values, rng: np.random.Generator) -> None:
    """Another value of some field, or none."""
    table, name, kind = pick(list(places(model, "Model")), rng)
    value = table[name]
    if rng.random() < 0.1:
        del table[name]
    elif isinstance(value, np.ndarray):
        table[name] = changed_array(value, rng)
    elif isinstance(value, list) and value:
        change_list(value, rng)
    elif isinstance(value, str):
        table[name] = value[: int(rng.integers(len(value) + 1))] * int(rng.integers(1, 4))
    elif isinstance(value, bool | int | float):
        table[name] = changed_number(kind, rng)


def changed_number(kind: str, rng: np.random.Generator) -> Any:
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        return pick(FLOATS, rng)
    if dtype.kind == "b":
        return bool(rng.integers(2))
    limits = np.iinfo(dtype)
    return int(np.clip(pick(INTEGERS, rng) if rng.random() < 0.5 else int(rng.integers(0, 40)), limits.min, limits.max))


def changed_array(array: Any, rng: np.random.Generator) -> Any:
    way, array = rng.random(), array.copy()
    if way < 0.2:
        return array[: int(rng.integers(array.size + 1))]
    if way < 0.3:
        return np.concatenate((array, array[:3]))
    if way < 0.35:
        return rng.permutation(array)
    array[int(rng.integers(array.size))] = changed_number(array.dtype.str, rng)
    return array


def change_list(items: list[Values], rng: np.random.Generator) -> None:
    """A table of a list is left out, repeated, or takes another's place."""
    at, other = int(rng.integers(len(items))), int(rng.integers(len(items)))
    way = rng.integers(3)
    if way == 0:
        del items[at]
    elif way == 1:
        items.insert(other, items[at])
    else:
        items[at] = items[other]


def change_operator(model: Values, rng: np.random.Generator) -> None:
    """Another operator, or other tensors of one."""
    graph = model["subgraphs"][0]
    if rng.random() < 0.4:
        code = pick(model["operator_codes"], rng)
        number = int(rng.integers(len(BUILTINS)))
        code |= {"builtin_code": number, "deprecated_builtin_code": min(number, 127)}
        return
    operator = pick(graph["operators"], rng)
    side = pick(("inputs", "outputs"), rng)
    if side in operator:
        numbers = operator[side].copy()
        numbers[int(rng.integers(numbers.size))] = int(rng.integers(-1, len(graph["tensors"])))
        operator[side] = numbers


def change_tensor(model: Values, rng: np.random.Generator) -> None:
    """Another size, type or scale."""
    tensor = pick(model["subgraphs"][0]["tensors"], rng)
    way = rng.random()
    if way < 0.3:
        tensor["type"] = int(rng.integers(0, 22))
    elif way < 0.6 and tensor.get("shape") is not None:
        tensor["shape"] = changed_array(tensor["shape"], rng)
    elif "quantization" in tensor:
        name = pick([n for n in tensor["quantization"] if n in ("scale", "zero_point")] or ["scale"], rng)
        if name in tensor["quantization"]:
            tensor["quantization"][name] = changed_array(tensor["quantization"][name], rng)


def change_tables(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three changes of what the file says."""
    model = unpacked(root(data, "Model"), "Model")
    changes: list[Callable[[Values, np.random.Generator], None]] = [change_field, change_operator, change_tensor]
    for _ in range(int(rng.integers(1, 4))):
        try:
            changes[int(rng.choice(3, p=[0.5, 0.25, 0.25]))](model, rng)
        except (KeyError, IndexError, ValueError):  # an earlier change has taken it away
            break
    return flatbuffer(model)


if __name__ == "__main__":
    sys.exit(fuzzing.main(__doc__ or "", fuzzing.Fuzzed(".tflite", seeds, change_tables)))
