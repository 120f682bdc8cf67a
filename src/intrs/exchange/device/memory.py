"""The memory plan: where in the arena each tensor lies, and the scratch rows of each Conv.

A device works on one sample, so a tensor lives from the layer that writes it to the last one that reads it. A layer may
even write over an input that nobody reads after it, as far as it has read that input before: `lead` says how far, from
the order of the loops in `device/intrs_layers.c`. Placing largest first at the lowest place that is free is near the
best in practice; some other orders are tried, and the best plan is kept.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from intrs.exchange.device.convs import DIRECT, TILES, methods_of, scratch_bytes, span_of
from intrs.network import AvgPool, CodeTable, Conv, MaxPool, Requantise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from intrs.network import Layer, Network, Shape

ALIGN = 4
ANYWHERE = 1 << 40  # a lead: the whole input is read before anything is written
MOST_COMPARISONS = 400_000  # while orders are tried


@dataclass(frozen=True)
class ArenaPlan:
    """Bytes from the beginning of the arena: of every tensor, and of every layer's scratch (0 for those without)."""

    tensors: tuple[int, ...]
    scratch: tuple[int, ...]
    size: int
    scratch_bytes: tuple[int, ...]


@dataclass(frozen=True)
class _Room:
    """A piece of memory that is needed from step `first` to step `last`; step k is layer k, counted from 1."""

    size: int
    first: int
    last: int


def plan_memory(network: Network, methods: Sequence[int] = ()) -> ArenaPlan:
    """A place for everything, with these methods of the Convs (see `convs`)."""
    count = len(network.layers)
    methods = methods or methods_of(network)
    tensors = _tensor_rooms(network)
    scratch = [
        scratch_bytes(layer, network.shapes[layer.inputs[0]], method) if isinstance(layer, Conv) else 0
        for layer, method in zip(network.layers, methods, strict=True)
    ]
    rooms = [*tensors, *(_Room(size, k + 1, k + 1) for k, size in enumerate(scratch))]
    leads = _leads(network, tensors, methods)
    best: list[int] = []
    size = ANYWHERE
    for order in _orders(rooms):
        places = _place(rooms, leads, order)
        end = max(place + room.size for place, room in zip(places, rooms, strict=True))
        if end < size:
            best, size = places, end
    return ArenaPlan(tuple(best[: count + 1]), tuple(best[count + 1 :]), -(-size // ALIGN) * ALIGN, tuple(scratch))


def _tensor_rooms(network: Network) -> list[_Room]:
    last = list(range(len(network.shapes)))
    for step, layer in enumerate(network.layers, 1):
        for i in layer.inputs:
            last[i] = step
    end = network.layers[-1]
    wide = 4 if isinstance(end, Conv) and end.wide else 1
    sizes = [int(np.prod(shape)) for shape in network.shapes]
    sizes[-1] *= wide
    return [_Room(size, first, last[first]) for first, size in enumerate(sizes)]


def _leads(network: Network, tensors: Sequence[_Room], methods: Sequence[int]) -> dict[tuple[int, int], int]:
    """(input, output) -> how far beyond its input's place an output may lie that is written over it."""
    found: dict[tuple[int, int], int] = {}
    for step, layer in enumerate(network.layers, 1):
        out = network.shapes[step]
        for i in set(layer.inputs):
            ahead = lead(layer, network.shapes[i], out, methods[step - 1]) if tensors[i].last == step else None
            if ahead is not None:
                found[i, step] = ahead
    return found


def lead(layer: Layer, source: Shape, out: Shape, method: int = DIRECT) -> int | None:
    """The most bytes that the output may lie beyond this input without being written over what is still to be read.

    Negative where it has to lie before it. None: never both in one place.
    """
    if isinstance(layer, Conv):
        return _conv_lead(layer, source, out, method)
    if isinstance(layer, MaxPool | AvgPool):
        return _pool_lead(layer, source, out)
    if isinstance(layer, Requantise | CodeTable):
        return 0  # code by code
    if len(layer.inputs) == 2 and layer.KIND in PAIRS:
        return 0 if source == out else None  # a single pixel is read again and again
    return None


PAIRS = (2, 11, 12)  # Add, Mul, ScaledAdd


def _conv_lead(layer: Conv, source: Shape, out: Shape, method: int) -> int:
    """Rows of the input are copied before the output row that needs them is written, so only later ones count.

    Tiles write two rows at once, after all that the second one needs was copied.
    """
    height, row = source[0], source[1] * source[2]
    out_row = out[1] * out[2] * (4 if layer.wide else 1)
    y = np.arange(1 if method == TILES else 0, out[0], 2 if method == TILES else 1, dtype=np.int64)
    copied = np.clip(y * layer.stride[0] + span_of(layer) - layer.pad[0], 0, height)
    ahead = (copied * row - (y + 1) * out_row)[copied < height]
    return int(ahead.min()) if ahead.size else ANYWHERE


def _pool_lead(layer: MaxPool | AvgPool, source: Shape, out: Shape) -> int:
    """A place is written when its window has been read; its own first code and all later reads count."""
    rows = np.maximum(np.arange(out[0], dtype=np.int64) * layer.stride[0] - layer.pad[0], 0)
    columns = np.maximum(np.arange(out[1], dtype=np.int64) * layer.stride[1] - layer.pad[2], 0)
    read = ((rows[:, None] * source[1] + columns) * source[2]).ravel()
    still = np.minimum.accumulate(read[::-1])[::-1]
    written = np.arange(1, len(read) + 1, dtype=np.int64) * out[2]
    return int((still - written).min())


def _orders(rooms: Sequence[_Room]) -> Iterable[list[int]]:
    """Largest first, and a few others; always the same ones."""
    largest = sorted(range(len(rooms)), key=lambda i: (-rooms[i].size, rooms[i].first))
    yield largest
    yield sorted(range(len(rooms)), key=lambda i: (rooms[i].first, -rooms[i].size))
    chance = random.Random(0)
    for _ in range(min(60, MOST_COMPARISONS // len(rooms) ** 2)):
        order = list(largest)
        for _ in range(3):
            i, k = chance.randrange(len(order)), chance.randrange(len(order))
            order[i], order[k] = order[k], order[i]
        yield order


def _place(rooms: Sequence[_Room], leads: dict[tuple[int, int], int], order: Iterable[int]) -> list[int]:
    places = [-1] * len(rooms)
    placed: list[int] = []
    for q in order:
        taken = (_forbidden(rooms, leads, places, p, q) for p in placed)
        places[q] = _lowest(pair for pair in taken if pair is not None)
        placed.append(q)
    return places


def _forbidden(
    rooms: Sequence[_Room], leads: dict[tuple[int, int], int], places: Sequence[int], p: int, q: int
) -> tuple[int, int] | None:
    """The open interval in which q may not begin because of p, which has its place."""
    a, b, at = rooms[p], rooms[q], places[p]
    if not a.size or not b.size or a.last < b.first or b.last < a.first:
        return None
    low, high = at - b.size, at + a.size
    if (p, q) in leads:  # q is written over p, its input
        low = max(low, at + leads[p, q])
    if (q, p) in leads:
        high = min(high, at - leads[q, p])
    return (low, high) if low < high else None


def _lowest(forbidden: Iterable[tuple[int, int]]) -> int:
    """The lowest place, a multiple of ALIGN, in none of these open intervals."""
    place = 0
    for low, high in sorted(forbidden):
        if low < place < high:
            place = -(-high // ALIGN) * ALIGN
    return place
