"""Small files that ask for much: each is a way to make a loader compute or allocate without end.

    python tests/hostile_onnx.py          # what each costs, in a process of its own

Every builder returns the bytes of a file; `hostile` says what a loader may take for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from hostile import Format
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]


def model(
    nodes: Iterable[onnx.NodeProto],
    constants: Arrays,
    dims: tuple[int, ...] = (1, 3, 8, 8),
) -> onnx.ModelProto:
    """A graph from `image` to `scores`."""
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


SCALES: Arrays = {"s": np.array(0.01, np.float32), "z": np.array(0, np.int8)}


def image_codes() -> list[onnx.NodeProto]:
    """The image, quantised and back: `x`."""
    there = helper.make_node("QuantizeLinear", ["image", "s", "z"], ["q"])
    return [there, helper.make_node("DequantizeLinear", ["q", "s", "z"], ["x"])]


def good() -> bytes:
    return bytes(model(image_codes(), SCALES).SerializeToString())


ONNX = Format(".onnx", good, {})
hostile = ONNX.hostile


def grid(name: str, side: int, kind: type = np.float32) -> tuple[list[onnx.NodeProto], Arrays]:
    """side * side different numbers from two constants of `side`, as a list called `name`."""
    rows: NDArray[Any] = np.linspace(1, 2, side).astype(kind).reshape(side, 1)
    columns: NDArray[Any] = np.linspace(0, 0.001, side).astype(kind).reshape(1, side)
    nodes = [
        helper.make_node("Add", [f"{name}_rows", f"{name}_columns"], [f"{name}_square"]),
        helper.make_node("Reshape", [f"{name}_square", f"{name}_shape"], [name]),
    ]
    shape = np.array([side * side, 1, 1], np.int64)
    return nodes, {f"{name}_rows": rows, f"{name}_columns": columns, f"{name}_shape": shape}


def wide_conv(channels: int) -> tuple[list[onnx.NodeProto], Arrays]:
    """A 1 x 1 Conv from 3 to `channels` channels whose weights the file does not hold: `y`."""
    nodes = [
        helper.make_node("ConstantOfShape", ["wide"], ["w"], value=numpy_helper.from_array(np.array([3], np.int8))),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wr"]),
        helper.make_node("Conv", ["x", "wr"], ["y"]),
    ]
    return nodes, {"wide": np.array([channels, 3, 1, 1], np.int64)}


@hostile
def many_channels() -> bytes:
    """A chain of products with many different numbers per channel."""
    nodes, constants = wide_conv(2**16)
    factors, more = grid("f", 256)
    chain = chained("y", ["Mul"] * 20, "f")
    return bytes(model([*image_codes(), *nodes, *factors, *chain], SCALES | constants | more).SerializeToString())


@hostile
def channels_within_the_budget() -> bytes:
    """As many products of different numbers as a small file may ask for, again and again from the start."""
    nodes, constants = wide_conv(2**10)
    factors, more = grid("f", 32)
    chain = [node for i in range(8) for node in chained("y", ["Mul", "Add", "Div", "Sub"] * 5, "f", f"end{i}")]
    last = helper.make_node("Concat", [f"end{i}" for i in range(8)], ["scores"], axis=1)
    return bytes(model([*image_codes(), *nodes, *factors, *chain, last], SCALES | constants | more).SerializeToString())


def chained(start: str, ops: list[str], constant: str, end: str = "scores") -> list[onnx.NodeProto]:
    """Operations with a constant, one after the other."""
    names = [start, *(f"{end}-{i}" for i in range(1, len(ops))), end]
    return [helper.make_node(op, [names[i], constant], [names[i + 1]]) for i, op in enumerate(ops)]


@hostile
def long_fractions() -> bytes:
    """The same with doubles, whose fractions grow by hundreds of bits each time."""
    nodes, constants = wide_conv(2**10)
    factors, more = grid("f", 32, np.float64)
    more["f_rows"] = more["f_rows"] * 1e-300
    chain = chained("y", ["Mul", "Div"] * 10, "f")
    return bytes(model([*image_codes(), *nodes, *factors, *chain], SCALES | constants | more).SerializeToString())


@hostile
def long_fractions_within_the_budget() -> bytes:
    """The same with doubles near 1: as many and as long fractions as a small file may ask for."""
    nodes, constants = wide_conv(2**10)
    factors, more = grid("f", 32, np.float64)
    chain = [node for i in range(8) for node in chained("y", ["Mul", "Add", "Div", "Sub"] * 5, "f", f"end{i}")]
    last = helper.make_node("Concat", [f"end{i}" for i in range(8)], ["scores"], axis=1)
    return bytes(model([*image_codes(), *nodes, *factors, *chain, last], SCALES | constants | more).SerializeToString())


@hostile
def many_lines() -> bytes:
    """An image of 4096 channels, each with a line of its own."""
    factors, more = grid("f", 64)
    nodes = [
        helper.make_node("Mul", ["image", "f"], ["i"]),
        helper.make_node("QuantizeLinear", ["i", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["x"]),
        helper.make_node("GlobalAveragePool", ["x"], ["scores"]),
    ]
    return bytes(model([*factors, *nodes], SCALES | more, (1, 4096, 2, 2)).SerializeToString())


@hostile
def many_scales() -> bytes:
    """65,536 scales, read by every node."""
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["ss"], value=numpy_helper.from_array(np.array([0.5], np.float32))),
        helper.make_node("ConstantOfShape", ["n"], ["c"], value=numpy_helper.from_array(np.array([1], np.int8))),
    ]
    nodes += [helper.make_node("DequantizeLinear", ["c", "ss"], [f"d{i}"], axis=0) for i in range(1500)]
    last = helper.make_node("Concat", ["x", *(f"d{i}" for i in range(1500))], ["scores"])
    constants = SCALES | {"n": np.array([2**16], np.int64)}
    return bytes(model([*image_codes(), *nodes, last], constants).SerializeToString())


@hostile
def many_large_constants() -> bytes:
    """Constants of 8 MB from a node of 40 bytes, all alive at once."""
    value = numpy_helper.from_array(np.array([1], np.int64))
    nodes = [helper.make_node("ConstantOfShape", ["n"], [f"c{i}"], value=value) for i in range(400)]
    last = helper.make_node("Concat", ["x", *(f"c{i}" for i in range(400))], ["scores"])
    return bytes(model([*image_codes(), *nodes, last], SCALES | {"n": np.array([2**20], np.int64)}).SerializeToString())


@hostile
def large_average() -> bytes:
    """The mean over a whole large image: weights of ones that the file does not hold."""
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["scores"])]
    return bytes(model([*image_codes(), *nodes], SCALES, (1, 3, 4000, 4000)).SerializeToString())


@hostile
def many_averages() -> bytes:
    nodes = [helper.make_node("GlobalAveragePool", ["x"], [f"a{i}"]) for i in range(300)]
    last = helper.make_node("Concat", [f"a{i}" for i in range(300)], ["scores"], axis=1)
    return bytes(model([*image_codes(), *nodes, last], SCALES, (1, 3, 1500, 1500)).SerializeToString())


@hostile
def many_ranks() -> bytes:
    nodes = [helper.make_node("Reshape", ["one", "dims"], ["r"]), helper.make_node("Add", ["x", "r"], ["scores"])]
    constants = SCALES | {"one": np.ones(1, np.float32), "dims": np.ones(64, np.int64)}
    return bytes(model([*image_codes(), *nodes], constants).SerializeToString())


@hostile
def gathered_ranks() -> bytes:
    nodes = [helper.make_node("Gather", [f"g{i}" if i else "g", "at"], [f"g{i + 1}"]) for i in range(20)]
    last = helper.make_node("Add", ["x", "g20"], ["scores"])
    constants = SCALES | {"g": np.ones((1,) * 8, np.float32), "at": np.zeros((1,) * 8, np.int64)}
    return bytes(model([*image_codes(), *nodes, last], constants).SerializeToString())


@hostile
def huge_batch() -> bytes:
    nodes = [helper.make_node("Flatten", ["x"], ["f"], axis=2), helper.make_node("Shape", ["f"], ["scores"])]
    return bytes(model([*image_codes(), *nodes], SCALES, (2**62, 3, 8, 8)).SerializeToString())


@hostile
def long_perm() -> bytes:
    """An attribute of two million numbers."""
    node = helper.make_node("Transpose", ["x"], ["scores"])
    node.attribute.add(name="perm", type=onnx.AttributeProto.INTS)
    made = model([*image_codes(), node], SCALES)
    made.graph.node[-1].attribute[0].ints.extend([1] * 2_000_000)
    return bytes(made.SerializeToString())


@hostile
def long_name() -> bytes:
    nodes = [helper.make_node("Sigmoid", ["x"], ["scores"], name="n" * 2**22)]
    return bytes(model([*image_codes(), *nodes], SCALES).SerializeToString())


def tagged(number: int, payload: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    size, encoded = len(payload), b""
    while True:
        encoded += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            tag = number << 3 | 2
            return (bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])) + encoded + payload


def graph_with(payload: bytes) -> bytes:
    """A good beginning, with more bytes in the graph."""
    return good() + tagged(7, payload)


@hostile
def empty_nodes() -> bytes:
    return graph_with(tagged(1, b"") * 2**22)


@hostile
def empty_constants() -> bytes:
    return graph_with(tagged(5, b"") * 2**22)


@hostile
def constants_within_the_budget() -> bytes:
    """Empty constants, and text that makes the file large enough for them."""
    return graph_with(tagged(10, b"x" * 7 * 2**20) + tagged(5, b"") * 700_000)


@hostile
def attributes_within_the_budget() -> bytes:
    node = tagged(5, tagged(1, b"a") + tagged(6, b"")) * 200_000
    return graph_with(tagged(10, b"x" * 7 * 2**20) + tagged(1, node))


@hostile
def empty_attributes() -> bytes:
    return graph_with(tagged(1, tagged(5, b"") * 2**22))


@hostile
def graphs_in_graphs() -> bytes:
    inner = tagged(1, tagged(5, tagged(6, b"")) * 2**20)
    return graph_with(tagged(1, tagged(5, tagged(6, inner))))


@hostile
def empty_names() -> bytes:
    return graph_with(tagged(1, tagged(1, b"") * 2**23))


@hostile
def empty_functions() -> bytes:
    return graph_with(b"") + tagged(25, tagged(7, b"") * 2**22)


@hostile
def sparse_constants() -> bytes:
    return graph_with(tagged(15, tagged(1, b"")) * 2**21)


@hostile
def groups() -> bytes:
    """Groups, which protobuf skips, around fields."""
    return graph_with(b"\xa3\x06" + tagged(1, b"") * 2**22 + b"\xa4\x06")


@hostile
def nodes_behind_a_group() -> bytes:
    """A group that protobuf skips, with a graph inside that seems to overrun it; then nodes."""
    return b"\xa3\x06" + tagged(7, b"\x0a\x7f") + b"\xa4\x06" + empty_nodes()


@hostile
def shards() -> bytes:
    """How a tensor is divided among devices: messages in messages of a node."""
    return graph_with(tagged(1, tagged(10, tagged(2, tagged(4, tagged(2, b"")) * 2**23))))


@hostile
def dimensions() -> bytes:
    """A constant with 16 million axes."""
    return graph_with(tagged(5, tagged(1, b"\x01" * 2**24)))


@hostile
def integers_one_by_one() -> bytes:
    """A constant of 16 million 64-bit integers, a byte for each."""
    return graph_with(tagged(5, tagged(1, b"\x80\x80\x80\x08") + b"\x10\x07" + tagged(7, bytes(2**24))))


def small_integers(field: int, kind: int) -> bytes:
    """Weights for 16 million products, a byte for each in a field of 32-bit integers, which a Conv reads."""
    made = model([*image_codes(), helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wr"])], SCALES)
    made.graph.node.append(helper.make_node("Conv", ["x", "wr"], ["scores"]))
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    dims = b"".join(b"\x08" + size for size in (b"\x80\x80\x04", b"\x04", b"\x08", b"\x08"))
    tensor = dims + bytes([2 << 3, kind]) + tagged(field, bytes(2**24)) + tagged(8, b"w")
    return bytes(made.SerializeToString()) + tagged(7, tagged(5, tensor))


@hostile
def weights_one_by_one() -> bytes:
    return small_integers(5, TensorProto.INT8)


if __name__ == "__main__":
    ONNX.show()
