"""One image file, opened as what it is: bytes from a stranger."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.errors import IntrsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image

# Pillow has many more readers; none of them sees a stranger's file.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
EIGHT_BITS = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}


@contextmanager
def opened(source: Path | bytes, what: str) -> Iterator[Image.Image]:
    """The image, for as long as its file is open; pixels are decoded when they are asked for.

    Orientation tags are not applied, as in the usual data loaders.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on odd metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(source if isinstance(source, Path) else io.BytesIO(source), formats=FORMATS) as image:
                if image.mode not in EIGHT_BITS:
                    raise IntrsError(f"{what}: {image.mode} pixels are not 8 bits a channel")
                yield image
    except IntrsError:
        raise
    except Exception as error:  # Pillow's readers promise no kinds of them
        raise IntrsError(f"{what}: not a readable image ({error})") from None
