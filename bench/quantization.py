"""What post-training quantization costs under noise: the table of docs/quantize.md.

    python bench/quantization.py --calibrate cifar10 --data cifar10-500 --draws 4

Every float network that ships, at its sigma: the float network, ONNX Runtime's quantizer as it is (calibrated on the
same noisy images, by min-max), what `intrs quantize` chooses, and with --every its candidates. All answer the same
noisy images, none of which was seen before.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import intrs
from intrs import zoo
from intrs.exchange.convention import Convention
from intrs.exchange.onnx.read import read_onnx
from intrs.model import open_model
from intrs.quantization.activations import observe, open_taps, taken
from intrs.quantization.bias import corrected
from intrs.quantization.pipeline import Noisy, divide
from intrs.quantization.qdq import quantized
from intrs.quantization.ranges import METHODS, ranges
from intrs.quantization.source import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

CLEAN_SIGMA = "0.05"  # for the network that was trained without noise
SEED, TEST_SEED = 1, 2


def plain(path: Path, images: NDArray[np.float32]) -> bytes:
    """ONNX Runtime's quantizer as docs/onnx.md calls it."""
    from onnxruntime.quantization import (  # type: ignore[import-untyped, unused-ignore]
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Reader(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        left = iter(np.array_split(images, 8))

        def get_next(self) -> Any:
            batch = next(self.left, None)
            return None if batch is None else {"image": batch}

        def __len__(self) -> int:
            return 8

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model.onnx"
        quantize_static(
            path, out, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        )  # fmt: skip
        return out.read_bytes()


def networks(name: str, sigma: str, calibrate: str, every: bool) -> Iterator[tuple[str, Any]]:
    """The ways to quantize one network, with what each gives; only the first and the last if not `every`."""
    data = intrs.open_data(calibrate, "train")
    source = open_source(name, data, Convention(), 0)
    noise = intrs.Noise.discrete(sigma)
    images = divide(data, noise, SEED)["calibration"].all()
    path = zoo.find_model(name)
    yield "float", lambda batch: source.engine(batch.astype(np.float32)).argmax(1)
    yield "ONNX Runtime, min-max", lowered(path, plain(path, taken(images, source.gain)))
    taps = open_taps(source.proto, source)
    histograms, example = observe(taps, images), taken(images[: taps.batch], source.gain)
    for method in METHODS if every else ():
        found = ranges(method, histograms)
        proto = quantized(source, found, example)
        yield method, lowered(path, proto.SerializeToString())
        better = corrected(source, proto, taps, images)
        yield f"{method}, bias corrected", lowered(path, quantized(better, found, example).SerializeToString())
    made = intrs.quantize(name, calibrate, sigma=sigma, seed=SEED, progress=False)
    yield f"intrs quantize ({made.method})", made.network.predict


def lowered(path: Path, data: bytes) -> Any:
    """What a file answers in integers."""
    return read_onnx(path, data).network(Convention.of("unit")).predict


def main() -> None:
    """Print a table per network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibrate", default="cifar10", help="data set whose training images calibrate")
    parser.add_argument("--data", default="cifar10-500", help="test images")
    parser.add_argument("--every", action="store_true", help="show every candidate, with and without bias correction")
    parser.add_argument("--draws", type=int, default=4, help="noisy copies per test image")
    args = parser.parse_args()
    for name in zoo.float_names():
        sigma = open_model(name).trained_sigma or CLEAN_SIGMA
        test = Noisy(intrs.open_data(args.data), intrs.Noise.discrete(sigma), TEST_SEED, args.draws)
        print(f"\n{name}, sigma {sigma}, {len(test):,} noisy images\n")
        print("| network | noisy accuracy | agreement |\n|---|---|---|")
        wanted = None
        for way, predict in networks(name, sigma, args.calibrate, args.every):
            found = np.concatenate([predict(batch) for batch in test.batches()])
            wanted = found if wanted is None else wanted
            right, agree = 100 * (found == test.labels).mean(), 100 * (found == wanted).mean()
            print(f"| {way} | {right:.2f} % | {agree:.2f} % |", flush=True)


if __name__ == "__main__":
    main()
