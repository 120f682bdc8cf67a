"""Fuzz the ONNX loader: bytes and graphs of good files, changed at random. Seeded, bounded in count and time.

    python tests/fuzz_onnx.py [--count 20000] [--seconds 600] [--seed 1] [--keep FOLDER]

Whatever the file, `load` must return a network or raise ModelError, soon and in little memory. A network that comes
out is run, and must give the same scores as tests/reference.py. Anything else is printed with the file kept, exit 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import fuzzing
import numpy as np
import onnx
import onnx_files as files
from fuzzing import FLOATS, INTEGERS, pick
from onnx import helper, numpy_helper

from intrs.exchange.onnx.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable

ODD_OPS = [
    "If",
    "Loop",
    "Sigmoid",
    "HardSwish",
    "Split",
    "Resize",
    "NonZero",
    "Softmax",
    "ArgMax",
    "DynamicQuantizeLinear",
]


def seeds(folder: Path) -> list[bytes]:
    """Good files to start from: every writer, every form."""
    found = [path.read_bytes() for path in sorted((Path(__file__).parent / "files").glob("*.onnx"))]
    images = files.as_input(files.pictures(16, 2, (3, 8, 8))[0])
    for name, build in files.NETWORKS.items():
        for form in ("QDQ", "QOperator"):
            model = build(files.Graph(np.random.default_rng(0), (3, 8, 8)))
            path = files.quantized(model, folder / f"{name}-{form}.onnx", images, form, per_channel=form == "QDQ")
            found.append(path.read_bytes())
    for name, layer in files.ALL_LAYERS.items():
        found.append(files.one_layer(layer, flat=name in files.FLAT_LAYERS).model.SerializeToString())
    return found


def change_node(graph: onnx.GraphProto, rng: np.random.Generator) -> None:
    node = pick(graph.node, rng)
    kind = rng.integers(6)
    names = [name for n in graph.node for name in (*n.input, *n.output)]
    if kind == 0 and node.input:
        node.input[int(rng.integers(len(node.input)))] = pick(names, rng)
    elif kind == 1:
        node.op_type = pick([*OPERATORS, *ODD_OPS], rng)
    elif kind == 2:
        graph.node.remove(node)
    elif kind == 3:
        graph.node.append(node)
    elif kind == 4 and node.output:
        node.output[0] = pick(names, rng)
    elif node.input:
        node.input.append(pick(names, rng))


def insert_node(graph: onnx.GraphProto, rng: np.random.Generator) -> None:
    """An operation between a node and its first input."""
    at = int(rng.integers(len(graph.node)))
    node = graph.node[at]
    if not node.input:
        return
    op, name = pick([*OPERATORS, *ODD_OPS], rng), f"fuzz{len(graph.node)}"
    others = [pick(graph.initializer, rng).name for _ in range(int(rng.integers(3)))] if graph.initializer else []
    extra = helper.make_node(op, [node.input[0], *others], [name], name=name)
    node.input[0] = name
    rest = list(graph.node)[at:]
    del graph.node[at:]
    graph.node.extend([extra, *rest])


def change_attribute(graph: onnx.GraphProto, rng: np.random.Generator) -> None:
    node = pick(graph.node, rng)
    known = ["axis", "axes", "group", "pads", "strides", "dilations", "kernel_shape", "perm", "auto_pad", "ceil_mode"]
    known += ["alpha", "beta", "to", "keepdims", "transA", "transB", "count_include_pad", "value", "block_size", "mode"]
    known += ["starts", "ends", "split", "blocksize", "nearest_mode", "coordinate_transformation_mode", "sizes"]
    name = pick(node.attribute, rng).name if node.attribute and rng.random() < 0.7 else pick(known, rng)
    for old in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(old)
    integers = [pick(INTEGERS, rng) for _ in range(int(rng.integers(6)))]
    value = pick([pick(INTEGERS, rng), pick(FLOATS, rng), integers, "SAME_UPPER", np.zeros(2, np.float32)], rng)
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value)
    if value != []:
        node.attribute.append(helper.make_attribute(name, value))


def change_constant(graph: onnx.GraphProto, rng: np.random.Generator) -> None:
    if not graph.initializer:
        return
    tensor = pick(graph.initializer, rng)
    kind = rng.integers(5)
    if kind == 0:
        tensor.data_type = int(rng.integers(0, 25))
    elif kind == 1:
        dims = [pick(INTEGERS, rng) if rng.random() < 0.3 else d for d in tensor.dims] + [1] * int(rng.integers(2))
        del tensor.dims[:]
        tensor.dims.extend(dims)
    elif kind == 2:
        tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data) + 1))]
    else:
        change_values(tensor, rng)


def change_values(tensor: onnx.TensorProto, rng: np.random.Generator) -> None:
    """Other numbers of the same type, or another type with the same numbers."""
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (ValueError, TypeError, KeyError):
        return
    if array.size and array.dtype.kind == "f":
        with np.errstate(all="ignore"):  # halves have no 1e6
            array.flat[int(rng.integers(array.size))] = pick(FLOATS, rng)
    elif array.size and array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        array.flat[int(rng.integers(array.size))] = pick([limits.min, limits.max, 0, 1], rng)
    if rng.random() < 0.2:
        with np.errstate(all="ignore"):
            array = array.astype(pick(["f4", "f2", "f8", "i1", "u1", "i4", "i8"], rng))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def change_frame(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    kind = rng.integers(4)
    dims = model.graph.input[0].type.tensor_type.shape.dim if model.graph.input else []
    if kind == 0 and dims:
        pick(dims, rng).dim_value = pick(INTEGERS, rng)
    elif kind == 1 and model.opset_import:
        model.opset_import[0].version = int(rng.integers(0, 40))
    elif kind == 2 and model.graph.input:
        model.graph.input[0].type.tensor_type.elem_type = int(rng.integers(0, 20))
    elif model.graph.output:
        model.graph.output[0].name = pick([n for node in model.graph.node for n in node.output], rng)


def change_graph(data: bytes, rng: np.random.Generator) -> bytes:
    model = onnx.ModelProto.FromString(data)
    changes: list[Callable[[], None]] = [
        lambda: change_node(model.graph, rng),
        lambda: insert_node(model.graph, rng),
        lambda: change_attribute(model.graph, rng),
        lambda: change_constant(model.graph, rng),
        lambda: change_frame(model, rng),
    ]
    for _ in range(int(rng.integers(1, 4))):
        if model.graph.node:
            changes[int(rng.choice(5, p=[0.2, 0.2, 0.25, 0.25, 0.1]))]()
    return bytes(model.SerializeToString())


if __name__ == "__main__":
    sys.exit(fuzzing.main(__doc__ or "", fuzzing.Fuzzed(".onnx", seeds, change_graph)))
