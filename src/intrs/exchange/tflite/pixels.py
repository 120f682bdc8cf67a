"""The input quantiser of a network in the metadata of its TFLite file: TFLite itself begins with codes.

A device that runs the file computes, per channel of a pixel p (0 .. 255, noise added),

    code = clamp((clamp(p, low, high) * multiplier + offset) >> shift, -128, 127)

with the integers that stand there as JSON, and gives the codes to the first operator.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from intrs.errors import ModelError
from intrs.exchange.refusal import Refusal
from intrs.network import Quantiser

if TYPE_CHECKING:
    from intrs.network import Shape

KEY = "intrs.quantiser"
ROWS = ("low", "high", "multiplier", "offset")


def quantiser_text(quantiser: Quantiser) -> str:
    """The integers of a quantiser, as text."""
    rows: dict[str, Any] = {name: getattr(quantiser, name).tolist() for name in ROWS}
    return json.dumps(rows | {"shift": quantiser.shift})


def read_quantiser(text: str, shape: Shape) -> Quantiser:
    """The quantiser of images of this shape from such a text."""
    try:
        found = json.loads(text)
        return Quantiser(*shape, **{name: found[name] for name in ROWS}, shift=found["shift"])
    except (ValueError, KeyError, TypeError, RecursionError, ModelError):
        raise Refusal(f"the input quantiser in its metadata ({KEY}) is damaged") from None
