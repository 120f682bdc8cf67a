"""ONNX files as they are, run in floating point by ONNX Runtime: the baselines that integers are held against.

With a float file this is FloatRS-fp of the paper, with an int8 file FloatRS-quant: continuous noise is added in float,
then the file's own QuantizeLinear rounds the sum. docs/baselines.md says what such certificates do not cover.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.errors import DataError, ModelError, SettingsError
from intrs.exact import parse_count
from intrs.exchange.convention import METADATA, Convention
from intrs.exchange.onnx.file import DYNAMIC
from intrs.exchange.onnx.read import OnnxFile
from intrs.exchange.openfile import open_file
from intrs.exchange.refusal import Refusal, refusals_of
from intrs.network import selected_kernels
from intrs.noise import PIXEL_RANGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray
    from onnx import TensorProto

    from intrs.exact import Count
    from intrs.exchange.convention import Numbers
    from intrs.exchange.modelfile import ModelFile
    from intrs.exchange.onnx.file import Graph
    from intrs.network import Shape

INT8_BATCH, FLOAT_BATCH = 16, 64  # CIFAR-10 images per call, the fastest of bench/RESULTS.md
CIFAR_VALUES = 32 * 32 * 3
# ONNX Runtime adds pairs of int8 products in saturating int16 on x86 without VNNI, unless told to be right. With VNNI
# it is right anyway, and this option would only make it slower, 2.2 times on ResNet-20.
BE_RIGHT = "session.x64quantprecision"
MOST_BATCH_VALUES = 2**26  # of a batch whose size the file fixes


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
    _session: Any = field(repr=False)
    _gain: NDArray[np.float32] = field(repr=False)  # per channel: what the file takes is gain * pixel + offset
    _offset: NDArray[np.float32] = field(repr=False)
    _fixed_batch: int | None = field(repr=False)

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores (n, classes)."""
        if images.shape[1:] != self.input_shape:
            wanted = " x ".join(map(str, self.input_shape))
            raise DataError(f"expected images of {wanted} (height, width, channels), got shape {images.shape[1:]}")
        if not len(images):
            return np.zeros((0, self.classes), np.float32)
        size = self._fixed_batch or self._batch
        pieces = [images[i : i + size] for i in range(0, len(images), size)]
        scores = np.concatenate(list(self._pool.map(self._run, pieces)))
        if not np.isfinite(scores).all():
            raise ModelError(f"{self.path}: a score is not a finite number; this network cannot be certified")
        return scores

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

    @property
    def _batch(self) -> int:
        values = prod(self.input_shape)
        return max((INT8_BATCH if self.quantized else FLOAT_BATCH) * CIFAR_VALUES // values, 1)

    def _run(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        taken = np.ascontiguousarray((images * self._gain + self._offset).transpose(0, 3, 1, 2))
        if self._fixed_batch:
            missing = self._fixed_batch - len(images)
            taken = np.concatenate([taken, np.zeros((missing, *taken.shape[1:]), np.float32)])
        scores: NDArray[np.float32] = _scores(self._session, taken)
        return scores[: len(images)]


def open_engine(
    path: str | os.PathLike[str],
    *,
    pixels: str = "auto",
    mean: Numbers | None = None,
    std: Numbers | None = None,
    threads: Count = 0,
) -> FloatEngine:
    """Open a float or int8 ONNX file; the options are those of `intrs.load`, threads=0 takes every core."""
    return engine_of(open_file(Path(os.fspath(path))), Convention.of(pixels, mean, std), threads)


def engine_of(file: ModelFile, convention: Convention, threads: Count = 0) -> FloatEngine:
    """ONNX Runtime for a file that is open already."""
    threads = parse_count(threads, "threads", least=0)
    if not isinstance(file, OnnxFile):
        raise ModelError(f"{file.path}: continuous noise is for ONNX files alone; take integer noise")
    path, graph = file.path, file.graph
    with refusals_of(path):
        shape = _check_graph(graph)
    if misfit := convention.misfit(shape[2]):
        raise SettingsError(f"{path}: {misfit}")
    unit = _pixel_scale(file, convention) == "unit"
    session, batch = _session(path, file.data), graph.input_dims[0]
    deviation, centre = _floats(convention.deviation), _floats(convention.mean)
    engine = FloatEngine(
        path=path,
        identity=hashlib.sha256(file.data).hexdigest(),
        quantized=graph.is_quantized,
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


def _floats(values: tuple[Fraction, ...]) -> NDArray[np.float64]:
    return np.array([float(value) for value in values], np.float64)


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
        raise ModelError(
            f"{engine.path}: its scores for an image depend on the other images of the batch; "
            "the theorem needs a function of one image at a time"
        )


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
    batch, channels, height, width = (int(size or 1) for size in dims)
    if min(channels, height, width) < 1 or batch * channels * height * width > MOST_BATCH_VALUES:
        raise Refusal(f"its input of {batch} x {channels} x {height} x {width} is empty or too large")
    return height, width, channels


def _tensors(graph: Graph) -> Iterator[TensorProto]:
    """All constants: by name, and in nodes."""
    yield from graph.constants.values()
    for node in graph.nodes:
        for attribute in node.attributes.values():
            yield from (attribute.t, attribute.sparse_tensor.values, *attribute.tensors)


def _pixel_scale(file: OnnxFile, convention: Convention) -> str:
    """What `intrs.load` takes the file's input for: unit or byte."""
    told = file.metadata.get(METADATA, "auto") if convention.scale == "auto" else convention.scale
    if told == "auto" and file.is_quantized:
        told = file.lowered(convention).pixel_scale
    if told not in ("unit", "byte"):
        raise ModelError(
            f"{file.path}: it does not say whether its input is pixels over 255 or pixels 0..255; "
            "set pixels to 'unit' or 'byte'"
        )
    return told


def _session(path: Path, data: bytes) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ModelError("continuous noise needs ONNX Runtime: pip install 'intrs[float]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.add_session_config_entry(BE_RIGHT, "0" if _has_vnni() else "1")
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has a dozen classes of its own
        raise ModelError(f"{path}: ONNX Runtime refuses it ({_first_line(error)})") from None


def _has_vnni() -> bool:
    return selected_kernels().endswith(("vnni", "amx"))


def _classes(path: Path, session: Any, shape: tuple[int, ...]) -> int:
    if session.get_inputs()[0].type != "tensor(float)":
        raise ModelError(f"{path}: its input is {session.get_inputs()[0].type}; it must be float32")
    try:
        scores = _scores(session, np.zeros(shape, np.float32))
    except Exception as error:
        raise ModelError(f"{path}: ONNX Runtime cannot run it ({_first_line(error)})") from None
    if scores.ndim != 2 or len(scores) != shape[0] or scores.dtype != np.float32:
        raise ModelError(f"{path}: its output has the shape {scores.shape}; it must be one float score per class")
    if scores.shape[1] < 2:
        raise ModelError(f"{path}: its output is one score, which would be one class that always wins")
    return int(scores.shape[1])


def _scores(session: Any, images: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(session.run(None, {session.get_inputs()[0].name: images})[0])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
