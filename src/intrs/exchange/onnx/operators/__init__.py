"""What each ONNX operator does to the values of the graph, by family. To add one: a function with `@operator(name)`."""

from intrs.exchange.onnx.operators import (  # noqa: F401 (they enter their operators)
    curves,
    elementwise,
    gathers,
    linear,
    pools,
    qoperators,
    quantize,
    shapes,
)
from intrs.exchange.onnx.operators.registry import OPERATORS, Inputs, Operator

__all__ = ["OPERATORS", "Inputs", "Operator"]
