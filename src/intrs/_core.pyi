from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

class Error(ValueError):
    """Raised for all that the core refuses; what a callback raised passes through as it is."""

SELECTION: int
MAX_DIMENSION: int

def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes: ...
def kernel_names() -> list[str]: ...
def selected_kernels(name: str = "") -> str: ...

class NoiseTable:
    def __init__(self, first: int, thresholds: NDArray[np.uint64]) -> None: ...
    def draw(
        self, seed: bytes, image_index: int, first: int, count: int, image: NDArray[np.uint8]
    ) -> NDArray[np.int32]: ...

class Network:
    def __init__(self, data: bytes) -> None: ...
    def scores(self, images: NDArray[np.int32], kernels: str = "") -> NDArray[np.int32]: ...
    def trace(self, image: NDArray[np.int32], kernels: str = "") -> list[NDArray[np.int32]]: ...
    def layers(self) -> list[tuple[int, int, int, int, int]]: ...
    def multiply_adds(self) -> int: ...
    def block_bytes(self, kernels: str = "") -> int: ...

def votes(
    network: Network,
    noise: NoiseTable,
    image: NDArray[np.uint8],
    seed: bytes,
    image_index: int,
    first: int,
    count: int,
    threads: int,
    kernels: str,
    progress: Callable[[int], object] | None,
) -> list[int]: ...
