"""Image files as people have them, made into what a network takes; only when asked for, and it says what it did.

Without that, an image is taken as it is or refused: a photograph that is silently turned, cut or flattened is another
image than the one that its owner sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

import numpy as np

from intrs.data.decode import DEEP
from intrs.data.limits import MOST_PIXELS
from intrs.errors import SettingsError
from intrs.exact import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from PIL import Image

How = Literal["resize", "crop"]
HOW: tuple[str, ...] = get_args(How)
GREY = {"1", "L", "LA", *DEEP}
SEE_THROUGH = {"LA", "PA", "RGBA"}
ORIENTATION = 0x0112  # the EXIF tag; 1: as stored
MOST_LISTED = 3  # files of a remark
LARGEST = 2**16  # values of 16 bits


@dataclass(frozen=True)
class Fit:
    """What is done to image files, and the shape that comes of it; str and parse are each other's inverse."""

    how: How
    height: int
    width: int
    channels: int

    def __str__(self) -> str:
        return f"{self.how}:{self.height}x{self.width}x{self.channels}"

    @classmethod
    def parse(cls, text: str, shape: tuple[int, int, int] | None = None) -> Fit | None:
        """Of "resize" or "crop" for images of this shape, or of "resize:32x32x3"; None for nothing."""
        if not text:
            return None
        if not isinstance(text, str):
            raise SettingsError(f"fit: choose from {', '.join(HOW)}, got {shown(text)}")
        how, _, size = text.partition(":")
        found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})x([13])", size)
        sides = tuple(map(int, found.groups())) if found else (shape if not size else None)
        if how not in HOW or (size and not found):
            raise SettingsError(f"fit: choose from {', '.join(HOW)}, got {shown(text)}")
        if sides is None:
            raise SettingsError(f"fit: {how} to which shape? Such as {how}:32x32x3 (height x width x channels)")
        height, width, channels = sides
        if channels not in (1, 3) or height * width > MOST_PIXELS:
            raise SettingsError(f"fit: image files cannot be made into {height} x {width} x {channels}")
        return cls(cast("How", how), height, width, channels)

    @property
    def size(self) -> str:
        """As people say it: width first."""
        return f"{self.width} x {self.height}"

    def apply(self, image: Image.Image) -> NDArray[np.uint8]:
        """The pixels (height, width, channels) of an image: turned upright, of 8 bits, on white, in this shape."""
        from PIL import ImageOps

        upright = ImageOps.exif_transpose(eight_bits(image))
        flat = _on_white(upright).convert("L" if self.channels == 1 else "RGB")
        pixels = np.array(self._sized(flat), np.uint8)
        return pixels.reshape(self.height, self.width, self.channels)

    def _sized(self, image: Image.Image) -> Image.Image:
        from PIL.Image import Resampling

        width, height = image.size
        if (width, height) == (self.width, self.height):
            return image
        box = (0.0, 0.0, float(width), float(height))
        if self.how == "crop":  # the largest part of the wanted proportions, about the centre
            wide, high = min(width, height * self.width / self.height), min(height, width * self.height / self.width)
            box = ((width - wide) / 2, (height - high) / 2, (width + wide) / 2, (height + high) / 2)
        return image.resize((self.width, self.height), Resampling.BICUBIC, box)


class Facts(NamedTuple):
    """What a file says of itself before its pixels are decoded, as far as it matters here."""

    width: int
    height: int
    grey: bool
    orientation: int  # of its EXIF tag; 1: as stored
    deep: bool  # 16 bits per value
    see_through: bool  # it has transparency, which may be used or not
    several: bool  # it holds more than one image

    @classmethod
    def of(cls, image: Image.Image) -> Facts:
        """Of an image that is open."""
        see_through = image.mode in SEE_THROUGH or "transparency" in image.info
        several = bool(getattr(image, "is_animated", False))  # n_frames would walk through all of them
        return cls(*image.size, image.mode in GREY, _orientation(image), is_deep(image), see_through, several)

    @classmethod
    def short(cls, image: Image.Image) -> Facts:
        """Size and channels alone, where files are taken as Pillow has them."""
        return cls(*image.size, image.mode in GREY, 1, deep=False, see_through=False, several=False)

    @property
    def turned(self) -> bool:
        """Whether it is shown otherwise than it is stored."""
        return self.orientation != 1

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height as it is shown."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


def _orientation(image: Image.Image) -> int:
    """By its EXIF tag; a PNG file that has it after the pixels tells it when they are decoded."""
    if image.format == "PNG" and "exif" not in image.info:
        return 1  # Pillow would decode all of it to look
    found = image.getexif().get(ORIENTATION, 1)
    return found if found in range(1, 9) else 1


def is_deep(image: Image.Image) -> bool:
    """Whether a file holds 16 bits per value; Pillow cuts those of colour images when it decodes them."""
    return image.mode in DEEP or any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def eight_bits(image: Image.Image) -> Image.Image:
    """The image with the upper eight of sixteen bits, if it has sixteen."""
    from PIL import Image

    if image.mode not in DEEP:
        return image
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() >= LARGEST:
        raise ValueError("values beyond 16 bits")
    cut = Image.fromarray((values >> 8).astype(np.uint8))
    cut.info, exif = dict(image.info), image.getexif()
    if ORIENTATION in exif:
        cut.getexif()[ORIENTATION] = exif[ORIENTATION]
    return cut


def _on_white(image: Image.Image) -> Image.Image:
    """What a transparent image looks like on white paper."""
    from PIL import Image

    if image.mode not in SEE_THROUGH and "transparency" not in image.info:
        return image
    seen = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)


def has_holes(image: Image.Image) -> bool:
    """Whether any of its pixels is transparent."""
    lowest, _ = image.convert("RGBA").getchannel("A").getextrema()
    return bool(cast("int", lowest) < 255)


# --- Words -----------------------------------------------------------------------------------------------------------


def misfit(what: str, facts: Facts) -> str | None:
    """Why a file is not taken as it is; None if it is."""
    if facts.several:
        return animated(what)
    if facts.turned:
        return (
            f"{what}: its EXIF tag says that it is shown turned, so its pixels are not what you see. Save it upright, "
            "or let it be fitted"
        )
    if facts.deep:
        return f"{what}: 16 bits per value, and networks take 8 (0..255). Save it with 8 bits, or let it be fitted"
    return None


def animated(what: str) -> str:
    """Of a file with several images."""
    return f"{what}: it holds several images, one after another; save the one that you mean as a file"


def remarks(fit: Fit, files: Sequence[str], facts: Sequence[Facts]) -> tuple[str, ...]:
    """What is done to these files, in words."""
    resized = "resized" if fit.how == "resize" else "scaled, and cut to the centre,"
    done = {
        f"{resized} to {fit.size}": [each.upright != (fit.width, fit.height) for each in facts],
        "turned as the EXIF tag says": [each.turned for each in facts],
        "cut from 16 to 8 bits per value": [each.deep for each in facts],
        "transparent parts shown on white": [each.see_through for each in facts],
        "grey repeated in 3 channels": [each.grey and fit.channels == 3 for each in facts],
        "colours turned into grey": [not each.grey and fit.channels == 1 for each in facts],
    }
    return tuple(f"{words}: {_listed(files, facts, which)}" for words, which in done.items() if any(which))


def _listed(files: Sequence[str], facts: Sequence[Facts], which: Sequence[bool]) -> str:
    chosen = [i for i, is_one in enumerate(which) if is_one]
    if len(chosen) > MOST_LISTED:
        return f"{len(chosen):,} of {len(files):,} images" if len(chosen) < len(files) else "all images"
    return ", ".join(f"{files[i]} ({facts[i].width} x {facts[i].height})" for i in chosen)
