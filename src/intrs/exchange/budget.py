"""What reading one file may cost: a constant, and a multiple of the file's size.

A small file can describe large constants and long computations with fractions. Both are counted before they are made.
Together with the limits of `onnx.wire` they keep a file of S bytes to 20 * S + 200 MB of memory, and to a few seconds.
"""

from __future__ import annotations

from intrs.exchange.refusal import Refusal

FREE_BYTES, BYTES_PER_BYTE = 2**25, 12  # of constants and weights, counted each time that they change
FREE_CHANNELS, BYTES_PER_CHANNEL, MAX_CHANNELS = 2**16, 8, 2**20  # a channel is some microseconds of fractions


class Budget:
    """What is left for a file of this size, its external data included."""

    def __init__(self, size: int) -> None:
        self._channels = min(FREE_CHANNELS + size // BYTES_PER_CHANNEL, MAX_CHANNELS)
        self._bytes = FREE_BYTES + BYTES_PER_BYTE * size

    def spend(self, channels: int = 0, size: int = 0) -> None:
        """Account for work on so many channels, and for so many bytes of constants."""
        self._channels -= channels
        self._bytes -= size
        if self._channels < 0 or self._bytes < 0:
            raise Refusal("the network is too large for its file: too many channels, weights or constants in all")
