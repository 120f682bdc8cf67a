"""A first look at the bytes of an ONNX file, before protobuf makes objects of them.

Two bytes are enough for an empty node or constant, which takes some 200 bytes of memory once parsed; a byte is enough
for an integer that takes 16. So fields are counted in the encoded bytes, level by level, and integers written one by
one are measured. What is malformed is left for protobuf to refuse.
"""

from __future__ import annotations

from intrs.exchange.refusal import Refusal

FREE_FIELDS, BYTES_PER_FIELD, MOST_FIELDS = 2**18, 16, 2**20
MOST_VARINTS = 2**20  # bytes of dimensions and 64-bit integers: shapes and axes

# Which fields of a message hold messages, by the numbers of onnx.proto
_TENSOR = "tensor"
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "leaf", 14: "leaf", 20: "training", 25: "function", 26: "leaf"},
    "training": {1: "graph", 2: "graph", 3: "leaf", 4: "leaf"},
    "graph": {1: "node", 5: _TENSOR, 11: "value", 12: "value", 13: "value", 14: "note", 15: "sparse", 16: "leaf"},
    "function": {7: "node", 9: "leaf", 11: "attribute", 12: "value", 14: "leaf"},
    "node": {5: "attribute", 9: "leaf", 10: "leaf"},
    "attribute": {
        5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph", 14: "type", 15: "type", 22: "sparse", 23: "sparse",
    },
    _TENSOR: {13: "leaf", 16: "leaf"},
    "sparse": {1: _TENSOR, 2: _TENSOR},
    "note": {2: "leaf"},
    "value": {2: "type", 4: "leaf"},
    "type": {1: "shaped", 4: "element", 5: "map", 8: "shaped", 9: "element"},
    "element": {1: "type"},
    "map": {2: "type"},
    "shaped": {2: "shape"},
    "shape": {1: "leaf"},
    "leaf": {},
}  # fmt: skip
_VARINTS = {(_TENSOR, 1), (_TENSOR, 7), (_TENSOR, 11), ("attribute", 8), ("sparse", 3)}


def check_wire(data: bytes) -> None:
    """Refuse bytes that would unfold to far more memory than they take."""
    most = min(FREE_FIELDS + len(data) // BYTES_PER_FIELD, MOST_FIELDS)
    fields = varints = 0
    waiting = [("model", 0, len(data))]  # messages of which the rest is still to be read, the outermost first
    while waiting:
        message, at, end = waiting.pop()
        while at < end:
            fields += 1
            number, at, payload = _field(data, at, end)
            if payload > end:
                return  # truncated
            if payload and number in _MESSAGES[message]:
                waiting.append((message, payload, end))
                message, end = _MESSAGES[message][number], payload
            elif payload:
                varints += payload - at if (message, number) in _VARINTS else 0
                at = payload
            if fields > most or varints > MOST_VARINTS:
                raise Refusal("it has too many nodes, constants, attributes, or integers that are not raw data")


def _field(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """The number of the field at this place, where its value begins or ends, and where its payload ends, 0 for none."""
    tag, at = _varint(data, at, end)
    kind = tag & 7
    if kind == 2:
        size, at = _varint(data, at, end)
        return tag >> 3, at, at + size
    if kind == 0:
        _, at = _varint(data, at, end)
    elif kind in (1, 5):
        at += 8 if kind == 1 else 4
    return tag >> 3, at, 0  # kinds 3 and 4 begin and end a group, whose fields follow like others


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of 7 bits per byte, and where it ends."""
    value = shift = 0
    while at < end:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128 or shift > 63:
            break
    return value, at
