"""Small TFLite files, written by the schema's own generated code, and the two oracles that run them.

Nothing here is shared with the reader or the writer of intrs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema  # type: ignore[import-untyped]
from ai_edge_litert.interpreter import Interpreter, OpResolverType  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TYPES: dict[Any, int] = {np.int8: 9, np.uint8: 3, np.int32: 2, np.int64: 4, np.float32: 0}


class File:
    """A file with one graph, written step by step; tensors are numbers."""

    def __init__(self) -> None:
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.subgraphs = 3, [self.graph]
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.graph.tensors, self.graph.operators, self.graph.inputs = [], [], []

    def tensor(
        self, dims: Sequence[int], scale: Any = None, zero: Any = 0, dtype: type = np.int8, axis: int = 0
    ) -> int:
        """A tensor; one scale, or one per entry of an axis."""
        made = schema.TensorT()
        made.shape, made.type, made.name, made.buffer = list(dims), TYPES[dtype], f"t{len(self.graph.tensors)}", 0
        if scale is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = np.atleast_1d(np.asarray(scale, np.float32))
            made.quantization.zeroPoint = np.broadcast_to(np.asarray(zero, np.int64), made.quantization.scale.shape)
            made.quantization.quantizedDimension = axis
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def input(self, dims: Sequence[int], scale: float | None = None, zero: int = 0, dtype: type = np.int8) -> int:
        """The image."""
        self.graph.inputs.append(self.tensor(dims, scale, zero, dtype))
        return int(self.graph.inputs[-1])

    def constant(self, values: Any, scale: Any = None, zero: Any = 0, axis: int = 0) -> int:
        """A tensor whose values the file holds."""
        array = np.asarray(values)
        number = self.tensor(array.shape, scale, zero, array.dtype.type, axis)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        self.graph.tensors[number].buffer = len(self.model.buffers) - 1
        return number

    def add(self, op: str, inputs: Sequence[int], output: int | Sequence[int], **options: Any) -> int:
        """An operator; options by the names of the generated code, with their table as `table`."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, op)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 1 if op in ("RESHAPE", "HARD_SWISH", "ELU", "EXP", "PRELU") else 2
        self.model.operatorCodes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs = len(self.model.operatorCodes) - 1, list(inputs)
        made.outputs = [output] if isinstance(output, int) else list(output)
        if table := options.pop("table", ""):
            made.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            made.builtinOptions = getattr(schema, f"{table}T")()
            for name, value in options.items():
                assert hasattr(made.builtinOptions, name)
                setattr(made.builtinOptions, name, value)
        self.graph.operators.append(made)
        return int(made.outputs[0])

    def to_bytes(self, output: int) -> bytes:
        """The file that ends with this tensor."""
        self.graph.outputs = [output]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def cut(data: bytes, output: int) -> bytes:
    """A file that ends with another of its tensors: the logits before a SOFTMAX."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    model.subgraphs[0].outputs, model.signatureDefs = [output], None
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run(data: bytes, batch: NDArray[Any], dialect: str) -> NDArray[np.int64]:
    """What the reference kernels of a dialect make of each entry of the batch, flattened."""
    return _litert(data, batch) if dialect == "litert" else _tflm(data, batch)


def _litert(data: bytes, batch: NDArray[Any]) -> NDArray[np.int64]:
    made = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    made.allocate_tensors()
    source, target = made.get_input_details()[0], made.get_output_details()[0]
    found = []
    for entry in batch:
        made.set_tensor(source["index"], entry.reshape(source["shape"]))
        made.invoke()
        found.append(made.get_tensor(target["index"]).ravel().astype(np.int64))
    return np.array(found)


def _tflm(data: bytes, batch: NDArray[Any]) -> NDArray[np.int64]:
    pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: pip install tflite-micro")
    from tflite_micro.python.tflite_micro import runtime  # type: ignore[import-untyped]

    made = runtime.Interpreter.from_bytes(data, arena_size=2**22)
    shape = made.get_input_details(0)["shape"]
    found = []
    for entry in batch:
        made.set_input(entry.reshape(shape), 0)
        made.invoke()
        found.append(made.get_output(0).ravel().astype(np.int64))
    return np.array(found)
