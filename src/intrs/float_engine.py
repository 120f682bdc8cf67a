"""ONNX files as they are, run in floating point by ONNX Runtime: the baselines that integers are held against.

With a float file this is FloatRS-fp of the paper, with an int8 file FloatRS-quant: continuous noise is added in float,
then the file's own QuantizeLinear rounds the sum. docs/baselines.md says what such certificates do not cover.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from intrs import _core
from intrs.errors import IntrsError
from intrs.exchange.onnx_file import Graph, Refusal, read_graph
from intrs.exchange.onnx_in import DYNAMIC, METADATA, load
from intrs.noise import PIXEL_RANGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import TensorProto

    from intrs.network import Shape

INT8_BATCH, FLOAT_BATCH = 16, 64  # CIFAR-10 images a call, the fastest of bench/RESULTS.md
CIFAR_VALUES = 32 * 32 * 3
# ONNX Runtime adds pairs of int8 products in saturating int16 on x86 without VNNI, unless told to be right. With VNNI
# it is right anyway, and this option would only make it slower, 2.2 times on ResNet-20.
BE_RIGHT = "session.x64quantprecision"


@dataclass(frozen=True, eq=False)
class FloatEngine:
    """A classifier for `Smooth` under continuous noise: float32 images (n, height, width, channels) in pixel levels.

    Each thread runs batches of its own, which is faster than sharing one, and no score depends on how many there are.
    """

    path: Path
    identity: str  # SHA-256 of the file
    quantized: bool
    input_shape: Shape
    classes: int
    name: str
    threads: int
    _session: Any
    _gain: NDArray[np.float32]  # a channel each: what the file takes is gain * pixel + offset
    _offset: NDArray[np.float32]
    _fixed_batch: int | None

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores (n, classes)."""
        size = self._fixed_batch or self._batch
        pieces = [images[i : i + size] for i in range(0, len(images), size)]
        scores = np.concatenate(list(self._pool.map(self._run, pieces)))
        if not np.isfinite(scores).all():
            raise IntrsError(f"{self.path}: a score is not a finite number; this network cannot be certified")
        return scores

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

    @property
    def _batch(self) -> int:
        values = int(np.prod(self.input_shape))
        return max((INT8_BATCH if self.quantized else FLOAT_BATCH) * CIFAR_VALUES // values, 1)

    def _run(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        taken = np.ascontiguousarray((images * self._gain + self._offset).transpose(0, 3, 1, 2))
        if self._fixed_batch:
            missing = self._fixed_batch - len(images)
            taken = np.concatenate([taken, np.zeros((missing, *taken.shape[1:]), np.float32)])
        scores: NDArray[np.float32] = _scores(self._session, taken)
        return scores[: len(images)]


def is_quantized(path: Path) -> bool:
    """Whether any node of an ONNX file quantizes."""
    return _is_quantized(_graph(path))


def open_engine(
    path: Path,
    *,
    pixels: str = "auto",
    mean: Sequence[Fraction] | None = None,
    std: Sequence[Fraction] | None = None,
    threads: int = 0,
) -> FloatEngine:
    """Open a float or int8 ONNX file; the options are those of `intrs.load`, threads=0 takes every core."""
    graph = _graph(path)
    try:
        shape = _check_graph(graph)
    except Refusal as refusal:
        raise IntrsError(f"{path}: {refusal}") from None
    unit = _pixel_scale(path, graph, pixels, mean, std) == "unit"
    data = path.read_bytes()
    session, batch = _session(path, data), graph.input_dims[0]
    deviation, centre = _numbers(path, std, 1, shape[2]), _numbers(path, mean, 0, shape[2])
    if not (deviation > 0).all():
        raise IntrsError(f"{path}: --std must be positive")
    engine = FloatEngine(
        path=path,
        identity=hashlib.sha256(data).hexdigest(),
        quantized=_is_quantized(graph),
        input_shape=shape,
        classes=_classes(path, session, (batch or 1, shape[2], *shape[:2])),
        name=f"onnxruntime {version('onnxruntime')}, numpy {np.__version__}",
        threads=threads or os.cpu_count() or 1,
        _session=session,
        _gain=(1 / (PIXEL_RANGE if unit else 1) / deviation).astype(np.float32),
        _offset=(-centre / deviation).astype(np.float32),
        _fixed_batch=batch,
    )
    _check_alone(engine)
    return engine


def _check_alone(engine: FloatEngine) -> None:
    """Refuse a network whose scores for an image depend on its neighbours, found by trying.

    Rounding may, so a twentieth of the largest score is allowed.
    """
    size = engine._fixed_batch or 4
    images = np.random.default_rng(0).integers(0, PIXEL_RANGE + 1, (2 * size, *engine.input_shape)).astype(np.float32)
    together = engine._run(images[:size])[0]
    others = [engine._run(np.concatenate([images[size + 1 :], images[:1]]))[-1]]
    others += [] if engine._fixed_batch else [engine._run(images[:1])[0]]
    if any(np.abs(alone - together).max() > 0.05 * np.abs(together).max() for alone in others):
        raise IntrsError(
            f"{engine.path}: its scores for an image depend on the other images of the batch; "
            "the theorem needs a function of one image at a time"
        )


def _numbers(path: Path, values: Sequence[Fraction] | None, default: int, channels: int) -> NDArray[np.float64]:
    found = np.array([default] if values is None else [float(value) for value in values], np.float64)
    if len(found) not in (1, channels):
        raise IntrsError(f"{path}: --mean and --std take 1 or {channels} numbers, a channel each, not {len(found)}")
    return found


def _graph(path: Path) -> Graph:
    try:
        return read_graph(path)
    except Refusal as refusal:
        raise IntrsError(f"{path}: {refusal}") from None


def _is_quantized(graph: Graph) -> bool:
    return any("QuantizeLinear" in node.op or node.op.startswith(("QLinear", "QGemm")) for node in graph.nodes)


def _check_graph(graph: Graph) -> Shape:
    """The shape of an image, if the file is a classifier whose answer for an image depends on that image alone."""
    dims = graph.input_dims
    if graph.input_dtype != "float":
        raise Refusal("its input is uint8, and continuous noise is float; take integer noise")
    if len(dims) != 4 or any(not size for size in dims[1:]):
        raise Refusal("its input must have the shape (batch, channels, height, width), all but the batch fixed")
    for node in graph.nodes:
        if node.op in DYNAMIC or (node.op == "BatchNormalization" and node.integer("training_mode", 0)):
            raise Refusal(f"{node} looks at the whole batch; the theorem needs a function of one image at a time")
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attributes.values()):
            raise Refusal(f"{node} has graphs of its own (If, Loop), which are not looked into; save it without")
    if any(tensor.data_location == 1 for tensor in _tensors(graph)):
        raise Refusal("its weights are in another file, which the identity of a run would not cover; save it as one")
    _, channels, height, width = (int(size or 1) for size in dims)
    return height, width, channels


def _tensors(graph: Graph) -> Iterator[TensorProto]:
    """All constants: by name, and in nodes."""
    yield from graph.constants.values()
    for node in graph.nodes:
        for attribute in node.attributes.values():
            yield from (attribute.t, attribute.sparse_tensor.values, *attribute.tensors)


def _pixel_scale(
    path: Path, graph: Graph, asked: str, mean: Sequence[Fraction] | None, std: Sequence[Fraction] | None
) -> str:
    """What `intrs.load` takes the file's input for: unit or byte."""
    told = graph.metadata.get(METADATA, "auto") if asked == "auto" else asked
    if told == "auto" and _is_quantized(graph):
        options = cast("tuple[Literal['auto', 'unit'], ...]", ("auto", "unit"))
        found, unit = (load(path, pixels=option, mean=mean, std=std).identity for option in options)
        told = "unit" if found == unit else "byte"
    if told not in ("unit", "byte"):
        raise IntrsError(
            f"{path}: it does not say whether its input is pixels over 255 or pixels 0..255; "
            "give --pixels unit or --pixels byte"
        )
    return told


def _session(path: Path, data: bytes) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise IntrsError("continuous noise needs ONNX Runtime: pip install 'intrs[float]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.add_session_config_entry(BE_RIGHT, "0" if _has_vnni() else "1")
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has a dozen classes of its own
        raise IntrsError(f"{path}: ONNX Runtime refuses it ({_first_line(error)})") from None


def _has_vnni() -> bool:
    try:
        return "vnni" in _core.selected_kernels("")
    except ValueError as error:  # INTRS_KERNELS names none
        raise IntrsError(str(error)) from None


def _classes(path: Path, session: Any, shape: tuple[int, ...]) -> int:
    if session.get_inputs()[0].type != "tensor(float)":
        raise IntrsError(f"{path}: its input is {session.get_inputs()[0].type}; it must be float32")
    try:
        scores = _scores(session, np.zeros(shape, np.float32))
    except Exception as error:
        raise IntrsError(f"{path}: ONNX Runtime cannot run it ({_first_line(error)})") from None
    if scores.ndim != 2 or len(scores) != shape[0] or scores.dtype != np.float32:
        raise IntrsError(f"{path}: its output has the shape {scores.shape}; it must be one float score a class")
    if scores.shape[1] < 2:
        raise IntrsError(f"{path}: its output is one score, which would be one class that always wins")
    return int(scores.shape[1])


def _scores(session: Any, images: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(session.run(None, {session.get_inputs()[0].name: images})[0])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
