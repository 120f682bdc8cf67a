"""The batches of CIFAR-10's Python archive, read without unpickling them.

A pickle is a program, and running it means to trust who wrote it. What Python 2 wrote for these batches is a dict with
strings, lists and one NumPy array of bytes, in two dozen opcodes. They are followed here on a stack of plain values;
names from NumPy are compared as text and nothing is imported or called. Any other opcode or name is refused.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MOST_OPCODES = 1_000_000  # a batch has about 40,000
RECONSTRUCT, NDARRAY, DTYPE = "numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"


def read_batch(data: bytes) -> tuple[NDArray[np.uint8], list[int]]:
    """The array `data` and the list `labels` of a pickled batch. Raises ValueError if the pickle is anything else."""
    batch = _follow(data)
    if not isinstance(batch, dict) or not {"data", "labels"} <= batch.keys():
        raise ValueError("no dict with `data` and `labels`")
    labels = batch["labels"]
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError("`labels` is no list of whole numbers")
    return _array(batch["data"]), labels


@dataclass(frozen=True)
class _Name:
    """A name in some module: here no more than text."""

    text: str


@dataclass
class _Made:
    """What unpickling would have made by calling `name` and setting its state."""

    name: _Name
    arguments: object
    state: object = None


class _Mark:
    """Where the items of a tuple, list or dict begin."""


def _array(made: object) -> NDArray[np.uint8]:
    if not isinstance(made, _Made) or made.name != _Name(RECONSTRUCT) or made.arguments != (_Name(NDARRAY), (0,), "b"):
        raise ValueError("`data` is no NumPy array")
    match made.state:
        case (1, (int(rows), int(columns)), _Made(name=_Name(text=t)) as dtype, bool(fortran), str(text)) if t == DTYPE:
            if dtype.arguments != ("u1", 0, 1) or min(rows, columns) < 0 or rows * columns != len(text):
                raise ValueError("`data` is no array of bytes, or not of its size")
            flat = np.frombuffer(text.encode("latin-1"), np.uint8)
            return flat.reshape((rows, columns), order="F" if fortran else "C")
    raise ValueError("`data` is no array of two dimensions")


# --- The stack -------------------------------------------------------------------------------------------------------


class _Stack:
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: object) -> None:
        self.items.append(value)

    def pop(self) -> Any:
        if not self.items or isinstance(self.items[-1], _Mark):
            raise ValueError("an opcode without its operand")
        return self.items.pop()

    def pop_to_mark(self) -> list[Any]:
        for i in reversed(range(len(self.items))):
            if isinstance(self.items[i], _Mark):
                values = self.items[i + 1 :]
                del self.items[i:]
                return values
        raise ValueError("an opcode without its mark")

    def top(self, kind: type) -> Any:
        if not self.items or not isinstance(self.items[-1], kind):
            raise ValueError(f"an opcode without its {kind.__name__.strip('_').lower()}")
        return self.items[-1]


def _tuple(size: int) -> Callable[[_Stack, Any], None]:
    return lambda stack, _: stack.push(tuple([stack.pop() for _ in range(size)][::-1]))


def _set_items(stack: _Stack, items: list[Any]) -> None:
    if len(items) % 2 or not all(isinstance(key, str) for key in items[::2]):
        raise ValueError("a dict whose keys are not strings")
    stack.top(dict).update(zip(items[::2], items[1::2], strict=True))


def _set_item(stack: _Stack, _: object) -> None:
    value, key = stack.pop(), stack.pop()
    _set_items(stack, [key, value])


def _append(stack: _Stack, items: list[Any]) -> None:
    stack.top(list).extend(items)


def _append_one(stack: _Stack, _: object) -> None:
    value = stack.pop()
    _append(stack, [value])


def _get(stack: _Stack, index: int) -> None:
    if index not in stack.memo:
        raise ValueError(f"nothing was kept as {index}")
    stack.push(stack.memo[index])


def _name(stack: _Stack, text: str) -> None:
    if text not in (RECONSTRUCT, NDARRAY, DTYPE):
        raise ValueError(f"it asks for {text.replace(' ', '.')}, which CIFAR-10 does not")
    stack.push(_Name(text))


def _make(stack: _Stack, _: object) -> None:
    arguments = stack.pop()
    name = stack.top(_Name)
    stack.items[-1] = _Made(name, arguments)


def _build(stack: _Stack, _: object) -> None:
    state = stack.pop()
    stack.top(_Made).state = state


ACTIONS: dict[str, Callable[[_Stack, Any], None]] = {
    "PROTO": lambda _stack, _: None,
    "MARK": lambda stack, _: stack.push(_Mark()),
    "NONE": lambda stack, _: stack.push(None),
    "NEWTRUE": lambda stack, _: stack.push(True),
    "NEWFALSE": lambda stack, _: stack.push(False),
    "EMPTY_LIST": lambda stack, _: stack.push([]),
    "EMPTY_DICT": lambda stack, _: stack.push({}),
    "EMPTY_TUPLE": lambda stack, _: stack.push(()),
    "TUPLE": lambda stack, _: stack.push(tuple(stack.pop_to_mark())),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "APPEND": _append_one,
    "APPENDS": lambda stack, _: _append(stack, stack.pop_to_mark()),
    "SETITEM": _set_item,
    "SETITEMS": lambda stack, _: _set_items(stack, stack.pop_to_mark()),
    "GLOBAL": _name,
    "REDUCE": _make,
    "BUILD": _build,
}
for _opcode in ("BININT", "BININT1", "BININT2", "SHORT_BINSTRING", "BINSTRING"):
    ACTIONS[_opcode] = _Stack.push
for _opcode in ("BINPUT", "LONG_BINPUT"):
    ACTIONS[_opcode] = lambda stack, index: stack.memo.update({index: stack.top(object)})
for _opcode in ("BINGET", "LONG_BINGET"):
    ACTIONS[_opcode] = _get


def _follow(data: bytes) -> object:
    """What is left on the stack at the end; `genops` only says which opcodes there are."""
    stack = _Stack()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name == "STOP":
            return stack.pop()
        if opcode.name not in ACTIONS:
            raise ValueError(f"it has the opcode {opcode.name}, which CIFAR-10 has not")
        if count >= MOST_OPCODES:
            raise ValueError(f"it has more than {MOST_OPCODES:,} opcodes")
        ACTIONS[opcode.name](stack, argument)
    raise ValueError("it does not end")
