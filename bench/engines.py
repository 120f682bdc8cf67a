"""The engines, each behind one function: settings -> something that runs a number of samples.

The others run the bare network on a fixed batch. intrs and Cohen's loop run end to end: noise, network, argmax, count.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

SIGMA = "0.25"
BLOCK = 16  # samples that a kernel set takes at once, or a multiple of that: threads end together
# glibc's defaults return large blocks to the system after every layer; with these eager PyTorch keeps them.
MALLOC_TUNABLES = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
    "MALLOC_TOP_PAD_": str(1 << 28),
}
# OpenVINO and PyTorch obey these; for ONNX Runtime, which has nothing of the kind, see hold.py.
ONLY_AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


@dataclass(frozen=True)
class Settings:
    """One engine with all that is to be chosen about it."""

    engine: str
    model: str  # path
    threads: int
    size: int = 32  # of the image
    batch: int = 0
    streams: int = 1  # batches at once, sharing the threads
    kernels: str = ""  # intrs only
    isa: str = ""  # "avx2": as on a machine that has no more
    packages: str = ""  # a folder to search first

    @property
    def environment(self) -> dict[str, str]:
        tunables = MALLOC_TUNABLES if self.engine in ("torch", "pt2e", "training") else {}
        limits = ONLY_AVX2 if self.isa == "avx2" else {}
        first = {"PYTHONPATH": self.packages} if self.packages else {}
        threads = {"OMP_NUM_THREADS": str(self.threads), "PYTHONWARNINGS": "ignore"}
        return {**os.environ, **tunables, **limits, **first, **threads}

    def fields(self) -> dict[str, Any]:
        return asdict(self)


class Engine:
    """Runs samples, in multiples of `granule` where its shape is fixed."""

    granule = 1

    def run(self, samples: int) -> None:
        raise NotImplementedError


class Intrs(Engine):
    """intrs.votes.count as a user calls it. Every run has noise of its own."""

    def __init__(self, settings: Settings) -> None:
        import intrs

        self.votes, self.settings, self.calls = intrs.votes, settings, 0
        self.network, self.noise = intrs.load(settings.model, pixels="unit"), intrs.Noise.of("discrete", SIGMA)
        self.granule = BLOCK * settings.threads
        self.image = np.random.default_rng(2).integers(0, 256, self.network.input_shape).astype(np.uint8)

    def run(self, samples: int) -> None:
        self.calls += 1
        threads, kernels = self.settings.threads, self.settings.kernels
        drawn = self.votes.Samples(1, self.calls, 0, samples)
        self.votes.count(self.network, self.image, self.noise, drawn, threads=threads, kernels=kernels)


class IntrsTwice(Intrs):
    """The same network with every RESCALE of a Conv rounding twice, as TFLite's do."""

    def __init__(self, settings: Settings) -> None:
        from intrs.network import Conv, ConvDouble, Network

        super().__init__(settings)
        layers = [
            ConvDouble(**{f.name: getattr(layer, f.name) for f in fields(layer)}) if type(layer) is Conv else layer
            for layer in self.network.layers
        ]
        self.network = Network(self.network.quantiser, tuple(layers))


class Batches(Engine):
    """An engine that is called on one batch at a time, from as many threads as there are streams."""

    def __init__(self, settings: Settings, call: Callable[[], Any]) -> None:
        self.call, self.batch, self.streams = call, settings.batch, settings.streams
        self.granule = self.batch * self.streams
        self.pool = ThreadPoolExecutor(self.streams)

    def run(self, samples: int) -> None:
        rounds = samples // self.granule
        if self.streams == 1:  # without a thread of its own, as one would call it
            self._repeat(rounds)
        else:
            list(self.pool.map(self._repeat, [rounds] * self.streams))

    def _repeat(self, rounds: int) -> None:
        for _ in range(rounds):
            self.call()


def _images(settings: Settings) -> Any:
    from bench.prepare import noisy_images

    return noisy_images(settings.batch, settings.size)


def onnx_runtime(settings: Settings) -> Engine:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads // settings.streams
    options.log_severity_level = 3
    session = ort.InferenceSession(settings.model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: _images(settings)}
    return Batches(settings, lambda: session.run(None, feed))


class OpenVino(Engine):
    """One request at a time over all threads, or as many requests as streams."""

    def __init__(self, settings: Settings) -> None:
        import openvino as ov

        core = ov.Core()
        model = core.read_model(settings.model)
        model.reshape([settings.batch, 3, settings.size, settings.size])
        hints: dict[str, Any] = {
            "INFERENCE_NUM_THREADS": settings.threads,
            "NUM_STREAMS": settings.streams,
            "PERFORMANCE_HINT": "LATENCY" if settings.streams == 1 else "THROUGHPUT",
        }
        if ".int8." not in settings.model and ".nncf." not in settings.model:
            hints["INFERENCE_PRECISION_HINT"] = "f32"  # else it may compute in bfloat16
        self.queue = ov.AsyncInferQueue(core.compile_model(model, "CPU", hints), settings.streams)
        for request in self.queue:
            request.set_input_tensor(ov.Tensor(_images(settings)))
        self.granule = settings.batch

    def run(self, samples: int) -> None:
        for _ in range(samples // self.granule):
            self.queue.start_async()
        self.queue.wait_all()


def torch_eager(settings: Settings) -> Engine:
    import torch

    from bench.networks import constants
    from bench.torch_networks import resnet20

    torch.set_num_threads(settings.threads)
    model = resnet20(constants(Path(settings.model)), fused=True).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.from_numpy(_images(settings)).to(memory_format=torch.channels_last)

    def call() -> None:
        with torch.inference_mode():
            model(images)

    return Batches(settings, call)


def torch_pt2e(settings: Settings) -> Engine:
    import torch

    from bench.networks import constants
    from bench.torch_networks import int8, resnet20

    torch.set_num_threads(settings.threads)
    model = resnet20(constants(Path(settings.model)), fused=True).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.from_numpy(_images(settings)).to(memory_format=torch.channels_last)
    with torch.no_grad():
        compiled = int8(model, images)

    def call() -> None:
        with torch.no_grad():
            compiled(images)

    return Batches(settings, call)


class Cohen(Engine):
    """The sampling loop of Cohen et al. as published: `_sample_noise` of their core.py, on the processor."""

    def __init__(self, settings: Settings) -> None:
        import torch

        from bench.networks import constants
        from bench.torch_networks import Normalise, resnet20

        torch.set_num_threads(settings.threads)
        network = resnet20(constants(Path(settings.model)), fused=False)
        self.base_classifier = torch.nn.Sequential(Normalise(), network).eval()
        self.x = torch.rand(3, settings.size, settings.size)
        self.batch_size = self.granule = settings.batch

    def run(self, samples: int) -> None:
        import torch

        with torch.no_grad():
            counts = np.zeros(10, dtype=int)
            for _ in range(samples // self.batch_size):
                batch = self.x.repeat((self.batch_size, 1, 1, 1))
                noise = torch.randn_like(batch) * float(SIGMA)
                predictions = self.base_classifier(batch + noise).argmax(1)
                counts += self._count_arr(predictions.cpu().numpy())

    @staticmethod
    def _count_arr(arr: Any) -> Any:
        counts = np.zeros(10, dtype=int)
        for idx in arr:
            counts[idx] += 1
        return counts


def training_step(settings: Settings) -> Engine:
    from bench.training import Step

    return Step(settings)


ENGINES: dict[str, Callable[[Settings], Engine]] = {
    "intrs": Intrs,
    "intrs, twice": IntrsTwice,
    "onnxruntime": onnx_runtime,
    "openvino": OpenVino,
    "torch": torch_eager,
    "pt2e": torch_pt2e,
    "cohen": Cohen,
    "training": training_step,
}
