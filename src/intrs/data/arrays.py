"""Data that a program has in memory: arrays of pixels, with labels or without, or what people pass instead of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from intrs.data.images import Images
from intrs.errors import DataError
from intrs.exact import shown

NAME = "arrays"  # of data that have no name of their own
FORM = "(images, labels), or images alone: uint8 pixels 0..255 of shape (n, height, width, channels)"
FEW = 4  # channels; more are not those of an image


def from_arrays(spec: object) -> Images:
    """The images of (images, labels): NumPy arrays, or tensors on the CPU; their indices are 0, 1, 2, ...

    Images alone have no labels; one image alone may be (height, width, channels). Raises DataError that says what to
    pass instead of anything else.
    """
    if isinstance(spec, tuple) and len(spec) == 2:
        return _images(*spec)
    if isinstance(spec, tuple):
        raise DataError(f"expected {FORM}, got a tuple of {len(spec)}")
    if _is_array(spec):
        pixels = _pixels(_as_several(spec))
        return Images(NAME, pixels, None, np.arange(len(pixels)))
    if isinstance(spec, list):
        raise DataError(f"expected arrays, got a list; pass {FORM}; numpy.asarray makes an array of a list")
    raise DataError(f"expected the name of a data set, a path, or {FORM}, got {_kind(spec)}")


def _images(images: object, labels: object) -> Images:
    pixels, numbers = _pixels(images), _labels(labels)
    if len(numbers) != len(pixels):
        raise DataError(f"{len(pixels)} images, {len(numbers)} labels: counts differ")
    return Images(NAME, pixels, numbers.astype(np.int64), np.arange(len(numbers)))


def _as_several(images: Any) -> Any:
    """One image of few channels is a set of one."""
    return images[None] if len(images.shape) == 3 and 0 < images.shape[2] <= FEW else images


def _pixels(images: object) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if not _is_array(images):
        raise DataError(f"images: expected an array, got {_kind(images)}; numpy.asarray makes one")
    pixels = _as_array(images, "images")
    if pixels.dtype.kind == "f":
        raise DataError(
            f"images: pixels are uint8 0..255, got {pixels.dtype}; "
            "if they are fractions 0..1, multiply by 255 and round: (images * 255).round(), then cast to uint8"
        )
    if pixels.dtype != np.uint8:
        raise DataError(f"images: pixels are uint8 0..255, got {pixels.dtype}; cast them to uint8 if all lie in 0..255")
    if (reason := _shape_fault(pixels.shape)) is not None:
        raise DataError(f"images: expected the shape (n, height, width, channels), got {pixels.shape}{reason}")
    pixels = np.ascontiguousarray(pixels[..., None] if pixels.ndim == 3 else pixels).view()
    pixels.flags.writeable = False  # the view's, not the caller's
    return pixels


def _shape_fault(shape: tuple[int, ...]) -> str | None:
    """Why this is not the shape of images, as the end of a sentence."""
    if 0 in shape:
        return "; there is no image"
    if len(shape) == 3:  # grey images need no axis for channels
        return "; a single image is images[None]" if shape[2] <= FEW else None
    if len(shape) != 4:
        return ""
    if shape[1] <= FEW < min(shape[2:]):
        return "; channels come last: images.transpose(0, 2, 3, 1), or permute for a tensor, puts them there"
    return None


def _labels(labels: object) -> np.ndarray[Any, np.dtype[np.integer[Any]]]:
    if not _is_array(labels) and not isinstance(labels, list | tuple | range):
        raise DataError(f"labels: expected the number of the right class per image, got {_kind(labels)}")
    numbers = _as_array(labels, "labels")
    if numbers.ndim == 2:
        raise DataError(f"labels: expected one number per image, got the shape {numbers.shape}; labels.argmax(1)?")
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(f"labels: expected integers, one per image, got {numbers.dtype} of shape {numbers.shape}")
    return numbers


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def _as_array(value: Any, what: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except Exception as error:  # tensors on a GPU, lists of lists of different lengths
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{what}: cannot be made a NumPy array ({reason})") from None


def _kind(value: object) -> str:
    return shown(value) if value is None or isinstance(value, bool | int | float) else type(value).__name__
