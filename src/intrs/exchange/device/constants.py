"""A network as the constants that `device/intrs.c` opens: one block of words, with a digest at its end."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from intrs.exchange.device.convs import TILES, methods_of
from intrs.exchange.device.layers import layer_words
from intrs.exchange.device.memory import ArenaPlan, plan_memory
from intrs.exchange.device.words import ConstantBlock
from intrs.network import Conv

if TYPE_CHECKING:
    from intrs.exchange.device.decisions import Decisions
    from intrs.network import Network

MAGIC = (0x52544E49, 0x56454453)  # "INTRSDEV"
FORMAT = 1
HEADER_WORDS = 22


@dataclass(frozen=True, eq=False)
class Constants:
    """What a device reads, and how it is made up."""

    network: Network
    methods: tuple[int, ...]  # by layer, see `convs`
    plan: ArenaPlan
    data: bytes
    layer_bytes: tuple[int, ...]  # of weights, biases, scales and words, by layer
    decision_bytes: int  # of noise and tables

    @property
    def tiled(self) -> bool:
        """Whether the runtime needs the code of tiles."""
        return TILES in self.methods


def build(network: Network, decisions: Decisions | None = None, tiles: int = 0) -> Constants:
    """The constants of a network and of what is to be decided with it. Without decisions it only classifies.

    Convs with at most `tiles` input channels are computed by Winograd's tiles if they can be: faster, in more flash.
    """
    _ = network.native  # proves the sums that the device relies on
    methods = methods_of(network, tiles)
    block, plan = ConstantBlock(HEADER_WORDS), plan_memory(network, methods)
    records: list[list[int]] = []
    sizes: list[int] = []
    for layer, method, scratch in zip(network.layers, methods, plan.scratch, strict=True):
        before = len(block)
        records.append(layer_words(block, layer, method, scratch))
        sizes.append(len(block) - before + 4 * len(records[-1]))
    layers_at = block.words(word for record in records for word in record)
    shapes = zip(plan.tensors, network.shapes, strict=True)
    tensors_at = block.words(word for place, shape in shapes for word in (place, *shape))
    q = network.quantiser
    limits = (value for values in (q.low, q.high, q.multiplier, q.offset) for value in values.tolist())
    quantiser_at = block.words([q.shift, *limits])
    before = len(block)
    tables = decisions.put(block) if decisions else (0, 0, 0, 0)
    decided = len(block) - before
    last = network.layers[-1]
    wide = isinstance(last, Conv) and last.wide
    identity = [int.from_bytes(bytes.fromhex(network.identity)[i : i + 4], "little") for i in range(0, 32, 4)]
    block.align()
    total = len(block) + hashlib.sha256().digest_size
    header = (
        *MAGIC, FORMAT, total, *identity, plan.size, len(network.shapes), tensors_at, quantiser_at, layers_at, wide,
        *tables,
    )  # fmt: skip
    data = bytes(block.finish(header))
    return Constants(network, methods, plan, data + hashlib.sha256(data).digest(), tuple(sizes), decided)
