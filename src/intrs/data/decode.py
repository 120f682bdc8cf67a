"""One image file, opened as what it is: bytes that nobody vouches for."""

from __future__ import annotations

import io
import os
import stat
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.data.limits import MOST_FILE_BYTES, MOST_PIXELS
from intrs.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image

    Stamp = tuple[int, int]

# Pillow has many more readers; none of them sees a file from elsewhere.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
AT_MOST = f"at most {MOST_PIXELS:,} pixels are decoded per image"
EIGHT_BITS = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}
DEEP = {"I;16", "I;16B", "I;16L", "I"}  # 16 bits per value; "I" is how older versions of Pillow open them
_ONE_AT_A_TIME = threading.RLock()  # the filters of warnings belong to the process


def stamp(source: Path | bytes) -> Stamp:
    """Size and time of change: what tells that a file is still the one that was looked at before."""
    return _stamp(source.stat()) if isinstance(source, Path) else (len(source), 0)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns


@contextmanager
def opened(
    source: Path | bytes, what: str, expected: Stamp | None = None, *, deep: bool = False
) -> Iterator[Image.Image]:
    """The image, for as long as its file is open; pixels are decoded when they are asked for.

    Its declared size is checked before. Orientation tags are not applied, as in the usual data loaders. A file that
    has another stamp than the expected one is refused: a hash that was taken before would not hold for it. deep:
    images with 16 bits per value are accepted too.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with _stream(source, what, expected) as stream, _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on odd metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(stream, formats=FORMATS) as image:
                _check(image, what, deep=deep)
                yield image
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):  # whose own limit is another
        raise DataError(f"{what}: too large; {AT_MOST}") from None
    except UnidentifiedImageError:
        raise DataError(f"{what}: not a readable image: it is damaged, or none of {', '.join(FORMATS)}") from None
    except Exception as error:  # Pillow's readers promise no kinds of them
        raise DataError(f"{what}: not a readable image ({error})") from None


@contextmanager
def _stream(source: Path | bytes, what: str, expected: Stamp | None) -> Iterator[io.BytesIO | io.BufferedReader]:
    if not isinstance(source, Path):
        yield io.BytesIO(source)
        return
    with source.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_FILE_BYTES:
            raise DataError(f"{what}: not a regular file of at most {MOST_FILE_BYTES:,} bytes")
        if expected is not None and _stamp(status) != expected:
            raise DataError(f"{what} was changed while the data set was in use; open the data set again")
        yield file


def _check(image: Image.Image, what: str, *, deep: bool) -> None:
    if image.mode not in EIGHT_BITS and not (deep and image.mode in DEEP):
        raise DataError(f"{what}: {image.mode} pixels are not 8 bits per channel; save it with 8 bits")
    if image.width * image.height > MOST_PIXELS:
        raise DataError(f"{what}: {image.width} x {image.height} pixels; {AT_MOST}")
