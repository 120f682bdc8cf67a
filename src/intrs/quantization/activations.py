"""The activations of an ONNX graph on noisy images: every float tensor that depends on the image, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from intrs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from intrs.progress import OnProgress
    from intrs.quantization.source import Original

Floats = "NDArray[np.float32]"
BINS = 2048
MOST_VALUES = 2**25  # of all activations of a batch
MOST_BATCH = 32
MOST_COUNTED = 2**16  # values of one tensor and image that enter its histogram


@dataclass(frozen=True, eq=False)
class Taps:
    """A graph that also returns its activations."""

    input: str
    gain: float
    names: tuple[str, ...]
    batch: int
    fixed: bool  # whether the file fixes the size of a batch
    _session: Any

    def batches(
        self, images: NDArray[np.int32], progress: OnProgress | None = None, note: str = ""
    ) -> Iterator[dict[str, NDArray[np.float32]]]:
        """The activations by name, of some images at a time; the graph's input is one of them."""
        for begin in range(0, len(images), self.batch):
            if progress:
                progress(Progress(begin, len(images), "images", note))
            yield self._run(images[begin : begin + self.batch])
        if progress:
            progress(Progress(len(images), len(images), "images", note))

    def _run(self, images: NDArray[np.int32]) -> dict[str, NDArray[np.float32]]:
        x = taken(images, self.gain)
        count = len(x)
        if self.fixed and count < self.batch:
            x = np.concatenate([x, np.zeros((self.batch - count, *x.shape[1:]), np.float32)])
        found = self._session.run(list(self.names), {self.input: x})
        return {self.input: x[:count]} | {name: v[:count] for name, v in zip(self.names, found, strict=True)}


def taken(images: NDArray[np.int32], gain: float) -> NDArray[np.float32]:
    """Noisy images as the graph takes them: (batch, channels, height, width)."""
    return np.ascontiguousarray((images.astype(np.float32) * np.float32(gain)).transpose(0, 3, 1, 2))


def open_taps(proto: onnx.ModelProto, source: Original, threads: int = 0) -> Taps:
    """A session for a graph of this source, float or quantized."""
    import onnxruntime  # type: ignore[import-untyped, unused-ignore]

    tapped = onnx.ModelProto()
    tapped.CopyFrom(proto)
    outputs = {entry.name for entry in proto.graph.output}
    names = [name for node in proto.graph.node for name in node.output if name]
    tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(tapped.SerializeToString(), options, providers=["CPUExecutionProvider"])
    size = session.get_inputs()[0].shape[0]
    fixed = isinstance(size, int)
    example = np.zeros((size if fixed else 2, *session.get_inputs()[0].shape[1:]), np.float32)
    values = dict(zip(names, session.run(names, {source.input: example}), strict=True))
    kept = [name for name in names if _is_activation(values[name], len(example))]
    each = sum(values[name].size for name in kept) // len(example)
    batch = size if fixed else max(1, min(MOST_BATCH, MOST_VALUES // max(each, 1)))
    return Taps(source.input, source.gain, tuple(kept), batch, fixed, session)


def _is_activation(value: Any, batch: int) -> bool:
    return bool(value.dtype == np.float32 and value.ndim > 1 and len(value) == batch)


@dataclass(eq=False)
class Histogram:
    """How often an activation takes which values: its extremes exactly, the rest in bins between them."""

    low: float
    high: float
    zeros: int  # values that are 0, which every grid holds exactly
    counts: NDArray[np.int64]

    @property
    def edges(self) -> NDArray[np.float64]:
        """The ends of the bins."""
        return np.linspace(self.low, self.high, len(self.counts) + 1)


def observe(taps: Taps, images: NDArray[np.int32], progress: OnProgress | None = None) -> dict[str, Histogram]:
    """The histogram of every activation, in two passes: one finds the extremes, one counts."""
    found: dict[str, Histogram] = {}
    for batch in taps.batches(images, progress, "ranges of activations"):
        for name, values in batch.items():
            low, high = float(values.min()), float(values.max())
            known = found.get(name)
            low, high = (min(low, known.low), max(high, known.high)) if known else (low, high)
            found[name] = Histogram(low, high, 0, np.zeros(BINS, np.int64))
    for batch in taps.batches(images, progress, "histograms of activations"):
        _count(found, batch)
    return found


def _count(found: Mapping[str, Histogram], batch: Mapping[str, NDArray[np.float32]]) -> None:
    for name, values in batch.items():
        histogram, flat = found[name], values.reshape(-1)
        flat = flat[:: max(1, values[0].size // MOST_COUNTED)]
        histogram.zeros += int(np.count_nonzero(flat == 0))
        if histogram.high > histogram.low:
            histogram.counts += np.histogram(flat[flat != 0], BINS, (histogram.low, histogram.high))[0]
