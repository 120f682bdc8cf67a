"""What a model file of any kind is to the rest of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from intrs.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from intrs.exchange.convention import Convention
    from intrs.network import Network

SIGMA = "intrs.sigma"  # a key of the metadata: the noise under which the network was trained


class ModelFile(ABC):
    """A file that was read and parsed once, and can be lowered to integers."""

    path: Path
    data: bytes
    DIALECTS: ClassVar[tuple[str, ...]] = ()  # whose kernels a file of this format can mean; the first is the default

    def dialect(self, asked: str) -> str:
        """The dialect that is meant; empty if the format has none. Raises SettingsError for one it does not have."""
        if not asked:
            return self.DIALECTS[0] if self.DIALECTS else ""
        if asked not in self.DIALECTS:
            known = (
                f"choose from {', '.join(self.DIALECTS)}" if self.DIALECTS else "a dialect is for TFLite files alone"
            )
            raise SettingsError(f"{self.path}: dialect {asked!r}: {known}")
        return asked

    @property
    @abstractmethod
    def metadata(self) -> Mapping[str, str]:
        """What the file says of itself, such as `SIGMA`."""

    @property
    @abstractmethod
    def is_quantized(self) -> bool:
        """Whether it holds a quantized network, not one in floats."""

    @abstractmethod
    def pixel_scale(self, convention: Convention) -> str:
        """What the input is for a pixel, under this convention: unit or byte; empty if the file has its own integers.

        Raises ModelError if the file cannot be lowered.
        """

    @abstractmethod
    def network(self, convention: Convention) -> Network:
        """The integer network, lowered once per convention. Raises ModelError."""
