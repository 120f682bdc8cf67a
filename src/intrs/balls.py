"""Real numbers as balls (enclosures of python-flint), at a precision that is raised until they decide.

python-flint has one working precision for the whole process. So balls are computed only under `at_precision`, which
holds a lock: threads that judge at once take turns, and whoever uses python-flint beside us finds the precision as it
was. No other room imports balls from python-flint; `tests/test_balls.py` makes sure.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from flint import arb

BITS = 128  # working precision to begin with
MOST_BITS = 4096  # where `decide` gives up

T = TypeVar("T")
_lock = RLock()


def _renew_lock() -> None:
    """A forked process has one thread, which must not wait for one that was not copied."""
    global _lock
    _lock = RLock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def at_precision(bits: int) -> Iterator[None]:
    """Compute with so many bits, alone among all threads; it may be nested."""
    from flint import ctx

    with _lock, ctx.workprec(bits):
        yield


def working_bits() -> int:
    """The bits of the `at_precision` that we are in."""
    from flint import ctx

    return int(ctx.prec)


def decide(attempt: Callable[[], T | None], bits: int = BITS) -> T | None:
    """The first answer of `attempt` that is not None, at doubling precision: balls shrink until they decide.

    None if MOST_BITS were not enough, which needs an exact tie; the caller then takes the safe side.
    """
    while bits <= MOST_BITS:
        with at_precision(bits):
            if (answer := attempt()) is not None:
                return answer
        bits *= 2
    return None


def ball(value: Fraction | int) -> arb:
    """An integer, exactly, or the smallest ball about a fraction at the working precision."""
    from flint import arb, fmpq

    return arb(value) if isinstance(value, int) else arb(fmpq(value.numerator, value.denominator))


def pi() -> arb:
    """Pi."""
    from flint import arb

    return arb.pi()


def choose(n: int, k: int) -> arb:
    """The binomial coefficient."""
    from flint import arb

    return arb.bin_uiui(n, k)


def normal_upper_tail(z: arb) -> arb:
    """1 - Phi(z)."""
    return (z / ball(2).sqrt()).erfc() / 2


def normal_upper_quantile(q: arb) -> arb:
    """The z with 1 - Phi(z) = q."""
    return ball(2).sqrt() * (2 * q).erfcinv()


def unique_integer(integral: arb) -> int | None:
    """The one integer in a ball, if there is just one."""
    found = integral.unique_fmpz()
    return None if found is None else int(found)


def strictly_below(x: arb) -> int | None:
    """The largest integer below x; None if the ball does not tell."""
    above = unique_integer(x.ceil())
    return None if above is None else above - 1


def certainly_less(x: arb | int, y: arb | int) -> bool | None:
    """Whether x < y; None if the balls do not tell."""
    if x < y:
        return True
    return False if x >= y else None
