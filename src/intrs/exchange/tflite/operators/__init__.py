"""What each operator of a TFLite file does to the network, by family; importing this fills the table."""

from intrs.exchange.tflite.operators import elementwise, linear, pools, shapes, tables  # noqa: F401
from intrs.exchange.tflite.operators.registry import OPERATORS, Lowering, grid_of

__all__ = ["OPERATORS", "Lowering", "grid_of"]
