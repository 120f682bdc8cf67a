"""What counts units of work, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from intrs.errors import IntrsError
from intrs.units import Counted

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from intrs.units import Unit


class LostError(IntrsError):
    """The worker that had a unit is gone; the unit can be counted elsewhere."""


class Reply(Future[Counted]):
    """The votes of a unit, when they are there, and the machine that was asked for them."""

    def __init__(self, place: str = "") -> None:
        super().__init__()
        self.place = place


class Engine(ABC):
    """Counts units, several at once, in any order. Closing it gives up what is not counted yet."""

    slots: int  # units that it works on at once; may change while it runs, down to none
    threads = 1  # that share a unit
    is_remote = False  # whether units can be lost or late, so that they are handed out again
    places: AbstractSet[str] = frozenset()  # the machines that it knows, by the names that its replies have

    @abstractmethod
    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        """Count a unit, if possible on none of the machines to avoid; the answer may be LostError."""

    def running(self) -> int:
        """Samples that are counted of units that are not finished, as far as it is known."""
        return 0

    def note(self) -> str:
        """A few words for the progress bar, such as how many machines work."""
        return ""

    @abstractmethod
    def close(self) -> None:
        """Give up what is not counted yet, and wait until nothing runs here any more; again, it does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
