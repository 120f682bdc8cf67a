"""What the arrays of the known data sets hash to, whichever archive they came from and however it was packed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from intrs.errors import DataError

if TYPE_CHECKING:
    from intrs.data.images import Images

# sha256 of the bytes of the uint8 images (n, height, width, channels) and of the labels as uint8.
SHA256: dict[str, dict[str, tuple[str, str]]] = {
    "cifar10": {
        "train": (
            "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
            "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        ),
        "test": (
            "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
            "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
        ),
    },
    "mnist": {
        "train": (
            "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
            "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        ),
        "test": (
            "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
            "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
        ),
    },
    "fashion-mnist": {
        "train": (
            "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
            "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        ),
        "test": (
            "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
            "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
        ),
    },
}


def array_hashes(images: Images) -> tuple[str, str]:
    """Of pixels and labels; labels above 255, which none of these sets has, hash like no byte."""
    bytes_or_more = images.labels.astype(np.uint8 if images.labels.max() < 256 else np.int64)
    pixels = hashlib.sha256()
    for block in images.blocks():
        pixels.update(block.data)
    return pixels.hexdigest(), hashlib.sha256(bytes_or_more.tobytes()).hexdigest()


def check_hashes(name: str, images: Images, split: str, where: str) -> None:
    """Refuse pixels or labels that are not those of the data set."""
    for what, got, want in zip(("images", "labels"), array_hashes(images), SHA256[name][split], strict=True):
        if got != want:
            raise DataError(f"{where}: the {split} {what} are not those of {name}: their sha256 is {got}, not {want}")
