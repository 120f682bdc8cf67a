"""A first look at the bytes of an ONNX file, before protobuf makes objects of them.

Two bytes are enough for an empty node or constant, which takes some 200 bytes of memory once parsed; a byte is enough
for an integer that takes 16. So fields are counted in the encoded bytes, level by level, and integers written one by
one are measured. What is malformed is refused, here or by protobuf: a look that gave up, or that read a byte as another
field than protobuf does, would let everything behind it pass.
"""

from __future__ import annotations

from intrs.exchange.refusal import Refusal

FREE_FIELDS, BYTES_PER_FIELD, MOST_FIELDS = 2**18, 16, 2**20
MOST_VARINTS = 2**20  # bytes of dimensions and 64-bit integers: shapes and axes
LONGEST_VARINT, LARGEST_VARINT, LARGEST_TAG = 10, 2**64 - 1, 2**32 - 1  # bytes, and what protobuf's types hold
VARINT, EIGHT_BYTES, PAYLOAD, FOUR_BYTES = 0, 1, 2, 5  # kinds of fields; 3 and 4 are groups, which ONNX never had

# Which fields of a message hold messages, by the numbers of onnx.proto
_TENSOR = "tensor"
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "leaf", 14: "leaf", 20: "training", 25: "function", 26: "leaf"},
    "training": {1: "graph", 2: "graph", 3: "leaf", 4: "leaf"},
    "graph": {1: "node", 5: _TENSOR, 11: "value", 12: "value", 13: "value", 14: "note", 15: "sparse", 16: "leaf"},
    "function": {7: "node", 9: "leaf", 11: "attribute", 12: "value", 14: "leaf"},
    "node": {5: "attribute", 9: "leaf", 10: "placed"},
    "placed": {2: "shards"},
    "shards": {3: "numbers", 4: "shard"},
    "shard": {2: "leaf"},
    "numbers": {},
    "attribute": {
        5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph", 14: "type", 15: "type", 22: "sparse", 23: "sparse",
    },
    _TENSOR: {3: "leaf", 13: "leaf", 16: "leaf"},
    "sparse": {1: _TENSOR, 2: _TENSOR},
    "note": {2: "leaf"},
    "value": {2: "type", 4: "leaf"},
    "type": {1: "shaped", 4: "element", 5: "map", 7: "leaf", 8: "shaped", 9: "element"},
    "element": {1: "type"},
    "map": {2: "type"},
    "shaped": {2: "shape"},
    "shape": {1: "leaf"},
    "leaf": {},
}  # fmt: skip
_VARINTS = {
    *((_TENSOR, 1), (_TENSOR, 7), (_TENSOR, 11), ("attribute", 8), ("sparse", 3)),
    *(("shards", 2), ("numbers", 2)),
}


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
            if max(at, payload) > end:
                raise _malformed("a field ends behind the message that it is part of")
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
    if tag > LARGEST_TAG:
        raise _malformed("a field has a number that does not exist")
    kind = tag & 7
    if kind == PAYLOAD:
        size, at = _varint(data, at, end)
        return tag >> 3, at, at + size
    if kind == VARINT:
        _, at = _varint(data, at, end)
    elif kind in (EIGHT_BYTES, FOUR_BYTES):
        at += 8 if kind == EIGHT_BYTES else 4
    else:
        raise _malformed(f"a field is of kind {kind}, which ONNX does not use")
    return tag >> 3, at, 0


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of 7 bits per byte, and where it ends."""
    value = 0
    for number, byte in enumerate(data[at : min(at + LONGEST_VARINT, end)]):
        value |= (byte & 127) << (7 * number)
        if byte < 128 and value <= LARGEST_VARINT:
            return value, at + number + 1
    raise _malformed("a number has no end, or more than 64 bits")


def _malformed(what: str) -> Refusal:
    return Refusal(f"it is not an ONNX file, or it is truncated ({what})")
