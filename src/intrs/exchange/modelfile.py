"""What a model file of any kind is to the rest of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from intrs.exchange.convention import Convention
    from intrs.network import Network


class ModelFile(ABC):
    """A file that was read and parsed once, and can be lowered to integers."""

    path: Path
    data: bytes

    @property
    @abstractmethod
    def metadata(self) -> Mapping[str, str]:
        """What the file says of itself, such as intrs.sigma."""

    @property
    @abstractmethod
    def is_quantized(self) -> bool:
        """Whether it holds a quantized network, not one in floats."""

    @abstractmethod
    def network(self, convention: Convention) -> Network:
        """The integer network, lowered once per convention. Raises ModelError."""
