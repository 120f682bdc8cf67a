"""Where a statement about integers turns: by doubling, and by halving."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def last_that_holds(holds: Callable[[int], bool], low: int) -> int:
    """The largest integer from low on for which `holds`, given that it holds at low and, once false, stays false."""
    step = 1
    while holds(low + step):
        low, step = low + step, 2 * step
    return first_that_holds(lambda k: not holds(k), low, low + step) - 1


def first_that_holds(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer for which `holds`, given that it does not at low, does at high and, once true, stays true."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
