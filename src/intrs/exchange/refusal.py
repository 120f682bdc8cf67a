"""Why a file cannot become an integer network, while its name is not known yet."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from intrs.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_NAME = 100
LONGEST_REASON = 600
ADVICE = "quantize it: `intrs quantize` or intrs.quantize does it from a float file (docs/quantize.md)"

TRANSFORMER = (
    "this is a transformer, or a part of one: normalisation by layer, Softmax inside and products of two activations "
    "divide by what depends on the image, which no layer of 8-bit integers does; use a convolutional network"
)


class Refusal(Exception):  # noqa: N818 (not an error of the program)
    """The reason; `node` is the part of the file to blame, if it is not the one being read."""

    def __init__(self, reason: str, node: object = None) -> None:
        super().__init__(reason)
        self.node = node


def shortened(name: str, most: int = LONGEST_NAME) -> str:
    """A text of the file in a message: its author may have written a book."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


@contextmanager
def refusals_of(path: object) -> Iterator[None]:
    """Turn refusals, and the core's complaints about the finished network, into errors that name the file."""
    try:
        yield
    except Refusal as refusal:
        where = f"{refusal.node}: " if refusal.node else ""
        raise ModelError(f"{path}: {where}{shortened(str(refusal), LONGEST_REASON)}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
