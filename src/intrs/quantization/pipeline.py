"""The walk of `quantize`: images are divided, ranges found, candidates compared, the best corrected and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from onnx import helper

from intrs.data import Images, open_data
from intrs.errors import DataError, NoSplitError, SettingsError
from intrs.exact import derive_key, plain
from intrs.exchange.convention import METADATA, Convention
from intrs.exchange.modelfile import SIGMA
from intrs.exchange.onnx.read import read_onnx
from intrs.noise import Noise
from intrs.progress import Progress
from intrs.quantization import Accuracy, Quantized
from intrs.quantization.activations import observe, open_taps, taken
from intrs.quantization.bias import corrected
from intrs.quantization.qdq import quantized, rounded_tensors
from intrs.quantization.ranges import METHODS, ranges
from intrs.quantization.source import check_installed, open_source
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray

    from intrs.exact import Number
    from intrs.network import Network
    from intrs.progress import OnProgress
    from intrs.quantization.activations import Taps
    from intrs.quantization.source import Original

FEWEST = 8  # images
MOST = {"calibration": 256, "choice": 256, "check": 512}  # images of each part
NOISY = {"calibration": 256, "choice": 1024, "check": 2048}  # noisy images of each part, if there is memory
MOST_VALUES = 2**25  # of the noisy images of a part
BATCH = 256  # noisy images at a time
BIAS_CORRECTED = ", bias corrected"
CALIBRATION = "intrs.calibration"  # a key of the file's metadata: how it was quantized
MEASURED = 64  # noisy images on which the noise of layers is measured
BATCH_VALUES = 2**24


@dataclass(frozen=True)
class Asked:
    """What was asked for."""

    sigma: Number | None
    split: str | None
    max: int | None
    seed: int
    pixels: str
    mean: str | Sequence[Number]
    std: str | Sequence[Number]
    names: tuple[str, ...]
    by_number: bool
    threads: int


@dataclass(frozen=True, eq=False)
class Noisy:
    """Images of one part of the data, and the noise that is added to them."""

    images: Images
    noise: Noise
    seed: int
    draws: int

    def __len__(self) -> int:
        return len(self.images) * self.draws

    @property
    def labels(self) -> NDArray[np.int64]:
        """One per noisy image."""
        return np.repeat(self.images.labels, self.draws)

    def batches(self, progress: OnProgress | None = None, note: str = "") -> Iterator[NDArray[np.int32]]:
        """All noisy images, in order."""
        size = int(np.prod(self.images.image_shape))
        step = max(1, min(BATCH, BATCH_VALUES // size) // self.draws)
        for begin in range(0, len(self.images), step):
            if progress:
                progress(Progress(begin * self.draws, len(self), "images", note))
            places = range(begin, min(begin + step, len(self.images)))
            yield np.concatenate([self._drawn(i) for i in places])
        if progress:
            progress(Progress(len(self), len(self), "images", note))

    def all(self) -> NDArray[np.int32]:
        """All of them at once."""
        return np.concatenate(list(self.batches()))

    def _drawn(self, i: int) -> NDArray[np.int32]:
        samples = Samples(derive_key(f"quantize {self.seed:#x}"), int(self.images.indices[i]), 0, self.draws)
        return noisy_images(self.images.images[i], self.noise, samples)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A quantized file, and how well it does on held-out noisy images."""

    method: str
    proto: onnx.ModelProto
    agreement: float
    error: float  # of the distance between the first two classes: decides between equals


def run(model: Any, data: Any, settings: Asked, path: Path | None, progress: OnProgress | None) -> Quantized:
    """Quantize and check; nothing is written."""
    check_installed()
    convention = Convention.of(settings.pixels, settings.mean, settings.std)
    images = _open(data, settings.split)
    source = open_source(model, images, convention, settings.threads, settings.names, settings.by_number)
    noise = Noise.discrete(settings.sigma if settings.sigma is not None else _trained(source))
    parts = divide(source.images, noise, settings.seed, settings.max)
    best, seen = _best(source, parts, settings.threads, progress)
    written = _file(source, best, parts["calibration"])
    network = read_onnx(path or source.path, written).network(Convention())
    agreement, accuracy = _check(source, network, parts["check"], progress)
    return Quantized(
        path=path,
        data=written,
        network=network,
        sigma=plain(noise.sigma),
        trained_sigma=source.trained_sigma,
        method=best.method,
        candidates=seen,
        calibration_images=len(parts["calibration"]),
        checked=len(parts["check"]),
        checked_images=len(parts["check"].images),
        agreement=agreement,
        accuracy=accuracy,
        signal_to_noise=_signal_to_noise(source, best.proto, parts["calibration"], settings.threads),
    )


# --- Images ----------------------------------------------------------------------------------------------------------


def _open(data: Any, split: str | None) -> Images:
    if split is not None:
        return open_data(data, split)
    try:
        return open_data(data, "train")
    except NoSplitError:  # many data sets have one part alone
        return open_data(data)


def _trained(source: Original) -> str:
    if not source.trained_sigma:
        raise SettingsError(f"{source.path} does not say for which noise it was trained; give sigma, such as 0.25")
    return source.trained_sigma


def divide(images: Images, noise: Noise, seed: int, most: int | None = None) -> dict[str, Noisy]:
    """Noisy images to calibrate, to choose among candidates and to check, none of them in two parts.

    Images are taken evenly from all of the data, which may be sorted by class.
    """
    total = min(len(images), most or len(images), sum(MOST.values()))
    if total < FEWEST:
        raise DataError(
            f"{images.name}: {total} images; quantizing needs at least {FEWEST}, and some hundred to be good"
        )
    places = np.linspace(0, len(images) - 1, total).astype(np.int64)
    shares = {"calibration": places[0::4], "choice": places[1::4], "check": np.sort([*places[2::4], *places[3::4]])}
    limit = max(1, MOST_VALUES // int(np.prod(images.image_shape)))
    found = {}
    for part, chosen in shares.items():
        draws = max(1, min(NOISY[part], limit) // len(chosen))
        found[part] = Noisy(images.subset(chosen), noise, seed, draws)
    return found


# --- Candidates ------------------------------------------------------------------------------------------------------


def _best(
    source: Original, parts: dict[str, Noisy], threads: int, progress: OnProgress | None
) -> tuple[Candidate, dict[str, float]]:
    """The candidate that keeps the top class most often, and the agreement of all."""
    taps, images = open_taps(source.proto, source, threads), parts["calibration"].all()
    histograms, example = observe(taps, images, progress), taken(images[: taps.batch], source.gain)
    if len(example) < taps.batch and taps.fixed:
        example = np.resize(example, (taps.batch, *example.shape[1:]))
    held_out, scores = parts["choice"], _float_scores(source, parts["choice"], progress)

    def candidate(method: str, proto: onnx.ModelProto) -> Candidate:
        return _compared(method, source, proto, held_out, scores)

    found: list[Candidate] = []
    for method in METHODS:
        limits = ranges(method, histograms)
        made = quantized(source, limits, example)
        better = corrected(source, made, taps, images, progress)
        found += [candidate(method, made)] if not found else []  # to show what is gained
        found.append(candidate(method + BIAS_CORRECTED, quantized(better, limits, example)))
    return choose(found, len(held_out)), {each.method: each.agreement for each in found}


def choose(candidates: Sequence[Candidate], images: int) -> Candidate:
    """The candidate that keeps the top class; among those which chance may have put in order, the one of least error.

    Two candidates that differ in d of the images at most are told apart by no less than two standard deviations,
    2 sqrt(d); d is at most twice the number of images on which the better one disagrees with the float network.
    """
    fewest = min((1 - each.agreement) * images for each in candidates)
    most = fewest + 2 * max(2 * fewest, 1) ** 0.5
    return min((each for each in candidates if (1 - each.agreement) * images <= most), key=lambda each: each.error)


def _compared(
    method: str, source: Original, proto: onnx.ModelProto, held_out: Noisy, wanted: NDArray[np.float32]
) -> Candidate:
    network = _lowered(source, proto)
    scores = np.concatenate([network.scores(batch) for batch in held_out.batches()])
    agreement = float((scores.argmax(1) == wanted.argmax(1)).mean())
    return Candidate(method, proto, agreement, _error(wanted, scores))


def _error(wanted: NDArray[Any], scores: NDArray[Any]) -> float:
    """The error of the distance between the float network's first two classes, where it is small: it decides flips.

    Integer scores have a scale of their own, which is fitted. Root mean square over the half of the images with the
    smallest distances, as a share of the mean distance.
    """
    a, b = (s - s.mean(1, keepdims=True, dtype=np.float64) for s in (wanted, scores))
    scale = float((a * b).sum()) / (float((b * b).sum()) or 1.0)
    rows, order = np.arange(len(a)), np.argsort(-a, 1)
    margin, found = (s[rows, order[:, 0]] - s[rows, order[:, 1]] for s in (a, scale * b))
    close = margin <= np.median(margin)
    return float(np.sqrt(((found - margin)[close] ** 2).mean()) / (margin.mean() or 1.0))


def _lowered(source: Original, proto: onnx.ModelProto) -> Network:
    helper.set_model_props(proto, {METADATA: source.pixel_scale})
    return read_onnx(source.path, proto.SerializeToString(deterministic=True)).network(Convention())


def _float_scores(source: Original, noisy: Noisy, progress: OnProgress | None) -> NDArray[np.float32]:
    batches = noisy.batches(progress, "float network")
    return np.concatenate([source.engine(batch.astype(np.float32)) for batch in batches])


def _file(source: Original, best: Candidate, calibration: Noisy) -> bytes:
    """The bytes of the file, which says what its input is and how it came to be."""
    how = f"sigma {plain(calibration.noise.sigma)}, seed {calibration.seed}, {len(calibration)} noisy images, "
    notes = {METADATA: source.pixel_scale, CALIBRATION: how + best.method}
    notes |= {SIGMA: source.trained_sigma} if source.trained_sigma else {}
    helper.set_model_props(best.proto, notes)
    best.proto.producer_name, best.proto.producer_version = "intrs", ""
    data: bytes = best.proto.SerializeToString(deterministic=True)
    return data


# --- The check -------------------------------------------------------------------------------------------------------


def _check(
    source: Original, network: Network, part: Noisy, progress: OnProgress | None
) -> tuple[float, dict[Literal["float", "int8"], Accuracy]]:
    """Agreement in the top class under noise, and the accuracy of both networks."""
    noisy = [
        (source.engine(batch.astype(np.float32)).argmax(1), network.predict(batch))
        for batch in part.batches(progress, "check")
    ]
    floats, integers = (np.concatenate(side) for side in zip(*noisy, strict=True))
    agreement = float((floats == integers).mean())
    if not part.images.has_labels:
        return agreement, {}
    blocks = [
        (source.engine(block.astype(np.float32)).argmax(1), network.predict(block)) for block in part.images.blocks()
    ]
    clean = [np.concatenate(side) for side in zip(*blocks, strict=True)]

    def accuracy(noisy: NDArray[np.int64], clean: NDArray[np.int64]) -> Accuracy:
        return Accuracy(float((noisy == part.labels).mean()), float((clean == part.images.labels).mean()))

    return agreement, {"float": accuracy(floats, clean[0]), "int8": accuracy(integers, clean[1])}


def _signal_to_noise(source: Original, proto: onnx.ModelProto, part: Noisy, threads: int) -> dict[str, float]:
    """By activation, in dB: its power in the float network over that of the quantized one's error."""
    exact, rounded = open_taps(source.proto, source, threads), open_taps(proto, source, threads)
    pairs = {name: other for name, other in rounded_tensors(proto).items() if name in exact.names}
    images = part.all()[:MEASURED]
    power, error = dict.fromkeys(pairs, 0.0), dict.fromkeys(pairs, 0.0)
    for a, b in zip(exact.batches(images), _same_batches(rounded, images, exact.batch), strict=True):
        for name, other in pairs.items():
            power[name] += float((a[name] ** 2).sum(dtype=np.float64))
            error[name] += float(((a[name] - b[other]) ** 2).sum(dtype=np.float64))
    return {
        name: round(float(10 * np.log10(power[name] / error[name])), 1) for name in pairs if power[name] and error[name]
    }


def _same_batches(taps: Taps, images: NDArray[np.int32], size: int) -> Iterator[dict[str, NDArray[np.float32]]]:
    for begin in range(0, len(images), size):
        parts = list(taps.batches(images[begin : begin + size]))
        yield {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
