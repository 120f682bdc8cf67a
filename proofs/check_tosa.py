"""Checks a network against the official TOSA reference model: every tensor, every bit, on noisy images.

    python proofs/check_tosa.py MODEL.onnx --images 100

Exit code 0 if nothing differs, 1 at the first differing tensor. Needs `pip install 'intrs[tosa]'`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

import intrs
from intrs.errors import IntrsError
from intrs.exchange.tosa import run_reference, to_tosa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from intrs.network import Network

PICTURES = Path(intrs.__file__).parent / "zoo" / "cifar10-500.npz"


def noisy_images(network: Network, count: int, sigma: float, seed: int) -> Iterator[NDArray[np.int64]]:
    """Shipped pictures where the network takes their size, else random pixels; with rounded Gaussian noise."""
    rng = np.random.default_rng(seed)
    with np.load(PICTURES) as archive:
        pictures = archive["images"]
    for i in range(count):
        fits = pictures.shape[1:] == network.input_shape
        pixels = pictures[i % len(pictures)] if fits else rng.integers(0, 256, network.input_shape)
        yield pixels + np.rint(rng.normal(0, 255 * sigma, network.input_shape)).astype(np.int64)


def first_difference(network: Network, graph: bytes, image: NDArray[np.int64]) -> str | None:
    """Where core and reference model differ on one image, in words."""
    tensors = zip(network.trace(image), run_reference(graph, image), strict=True)
    for number, (ours, official) in enumerate(tensors):
        if not np.array_equal(ours, official):
            name = network.layers[number - 1].name if number else "input quantiser"
            return f"tensor {number} ({name}) differs in {np.count_nonzero(ours != official)} of {ours.size} elements"
    return None


def check(network: Network, images: Iterator[NDArray[np.int64]], count: int, out: IO[str]) -> bool:
    """Compares image by image, with a progress line; says at the first difference where it is."""
    graph = to_tosa(network, every_tensor=True)
    elements = sum(height * width * channels for height, width, channels in network.shapes)
    for done, image in enumerate(images, 1):
        difference = first_difference(network, graph, image)
        if difference:
            print(f"\nimage {done}: {difference}", file=out)
            return False
        progress = (
            f"{done} of {count} images, {len(network.shapes)} tensors, {done * elements} elements: all bits equal"
        )
        print(progress, end="\r" if done < count else "\n", file=out, flush=True)
    return True


def set_aside_stdout() -> IO[str]:
    """Standard output for us alone: the reference model prints a line of its own there for every image."""
    ours = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return ours


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="an ONNX file that intrs.load takes")
    parser.add_argument("--images", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--sigma", type=float, default=0.25, help="of the noise, as a fraction of 255 (default 0.25)")
    parser.add_argument("--seed", type=int, default=0, help="of pixels and noise (default 0)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: all bits equal; 1: they differ; 2: the check could not be made."""
    options = parse(arguments)
    out = set_aside_stdout()
    try:
        network = intrs.load(options.model)
        images = noisy_images(network, options.images, options.sigma, options.seed)
        return 0 if check(network, images, options.images, out) else 1
    except IntrsError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
