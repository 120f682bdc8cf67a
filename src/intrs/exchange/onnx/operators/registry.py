"""The table of operators, and how a node gets at what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.builder import Builder
from intrs.exchange.onnx.file import Node
from intrs.exchange.onnx.values import Constant, Value, View
from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

MAX_ATTRIBUTE = 8192  # of a stride, dilation or padding: TOSA level 8K


class Inputs:
    """The values that a node reads, with a clear refusal for each that is missing or of the wrong sort."""

    def __init__(self, values: Sequence[Value | None], folder: Path) -> None:
        self._values = values
        self.folder = folder

    def __len__(self) -> int:
        return len(self._values)

    def get(self, number: int) -> Value | None:
        """Any value; None if the input is absent."""
        return self._values[number] if number < len(self._values) else None

    def need(self, number: int) -> Value:
        """Any value."""
        value = self.get(number)
        if value is None:
            raise Refusal(f"its input {number} is missing")
        return value

    def view(self, number: int) -> View:
        """An activation."""
        value = self.need(number)
        if not isinstance(value, View):
            raise Refusal(f"its input {number} is a constant; intrs expects an activation there")
        return value

    def real(self, number: int) -> View:
        """An activation of real numbers, not of codes."""
        view = self.view(number)
        if view.kind != "real":
            raise Refusal(f"its input {number} holds {view.kind} codes; a DequantizeLinear is missing")
        return view

    def array(self, number: int) -> Constant:
        """A constant as the file holds it."""
        value = self.need(number)
        if not isinstance(value, np.ndarray):
            raise Refusal(f"its input {number} must be a constant")
        return value

    def integers(self, number: int) -> tuple[int, ...] | None:
        """A constant list of integers; None if the input is absent."""
        if self.get(number) is None:
            return None
        array = self.array(number)
        if array.dtype.kind != "i" or array.ndim > 1 or array.size > 64:
            raise Refusal(f"its input {number} must be a short list of integers")
        return tuple(int(v) for v in array.ravel())


Operator = Callable[[Builder, Node, Inputs], Value | list[Value]]  # a list: one value an output
OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Enter a function as the meaning of these operators."""

    def enter(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter
