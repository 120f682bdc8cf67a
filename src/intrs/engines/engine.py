"""What counts units of work, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from intrs.errors import IntrsError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from intrs.units import Counted, Unit


class LostError(IntrsError):
    """The worker that had a unit is gone; the unit can be counted elsewhere."""


class Engine(ABC):
    """Counts units, several at once, in any order. Closing it gives up what is not counted yet."""

    slots: int  # units that it works on at once; may change while it runs
    is_remote = False  # whether units can be lost or late, so that they are handed out again

    @abstractmethod
    def submit(self, unit: Unit, copy: int = 0) -> Future[Counted]:
        """Count a unit; the future may fail with LostError. Copies of one unit should go to different machines."""

    def running(self) -> int:
        """Samples that are counted of units that are not finished, as far as it is known."""
        return 0

    def note(self) -> str:
        """A few words for the progress bar, such as how many machines work."""
        return ""

    @abstractmethod
    def close(self) -> None:
        """Give up what is not counted yet, and wait until nothing runs here any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
