"""How the input of a file follows from integer pixels: what the caller says, and what the file says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast, get_args

from intrs.errors import SettingsError
from intrs.exact import Number, parse_fraction, plain, shown
from intrs.exchange.integers import Grid, Line
from intrs.network import INT8

if TYPE_CHECKING:
    Numbers = Number | Iterable[Number]

PixelScale = Literal["auto", "unit", "byte"]
SCALES: tuple[str, ...] = get_args(PixelScale)
Settings = dict[str, str]  # pixels, and perhaps mean and std
USUAL: tuple[Settings, ...] = (
    {"pixels": "byte"},
    {"pixels": "unit"},
    {"pixels": "unit", "mean": "0.4914,0.4822,0.4465", "std": "0.2470,0.2435,0.2616"},  # CIFAR-10
    {"pixels": "unit", "mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225"},  # ImageNet
    {"pixels": "unit", "mean": "0.5,0.5,0.5", "std": "0.5,0.5,0.5"},
)
"""What files expect most often."""
METADATA = "intrs.pixels"  # a key of the file's metadata that says "unit" or "byte"
BYTE_FROM = 32  # an input quantiser that reaches this far was made for pixels 0 .. 255
LONGEST = 4096  # numbers of a mean


@dataclass(frozen=True)
class Convention:
    """For a pixel p of 0 .. 255 the file takes (p * step - mean) / deviation, per channel.

    step is 1 ("byte") or 1/255 ("unit"); "auto" leaves it to the file. mean and deviation hold one number for all
    channels or one per channel. `dialect` is whose kernels a file means, for formats that have several.
    """

    scale: PixelScale = "auto"
    mean: tuple[Fraction, ...] = (Fraction(0),)
    deviation: tuple[Fraction, ...] = (Fraction(1),)
    dialect: str = ""

    @classmethod
    def of(cls, pixels: str = "auto", mean: Numbers | None = None, std: Numbers | None = None) -> Convention:
        """What a caller says: numbers as text ("0.49,0.48,0.45"), or one or many of any kind."""
        if pixels not in SCALES:
            raise SettingsError(f"pixels must be 'auto', 'unit' or 'byte', got {shown(pixels)}")
        centre, deviation = _numbers(mean, cls.mean, "mean"), _numbers(std, cls.deviation, "std")
        if min(deviation) <= 0:
            raise SettingsError(f"std must be positive, got {min(deviation)}")
        return cls(cast("PixelScale", pixels), centre, deviation)

    @property
    def is_default(self) -> bool:
        """Whether the caller has said nothing of pixels."""
        return self == Convention(dialect=self.dialect)

    def words(self, scale: str) -> str:
        """What the file gets for a pixel, where its scale is known to be unit or byte."""
        value = {"unit": "pixel / 255", "byte": "pixel"}.get(scale, "what the file's own quantiser makes of a pixel")
        if (self.mean, self.deviation) == (Convention.mean, Convention.deviation):
            return f"{value}; no mean and std outside the file"
        mean, deviation = (",".join(map(plain, values)) for values in (self.mean, self.deviation))
        return f"({value} - mean) / std; mean {mean}, std {deviation}"

    def misfit(self, channels: int) -> str | None:
        """Why the numbers do not fit an image of so many channels."""
        for values, what in ((self.mean, "mean"), (self.deviation, "std")):
            if len(values) not in (1, channels):
                return f"{what} has {len(values)} numbers, but the image has {channels} channels; give 1 or {channels}"
        return None

    def line(self, channel: int, scale: str, factor: Fraction, offset: Fraction, grid: Grid) -> Line:
        """The code of `factor * input + offset` as a function of the pixel."""
        step = Fraction(1, 255) if scale == "unit" else Fraction(1)
        gain = factor / (_at(self.deviation, channel) * grid.scale)
        return Line(gain * step, offset / grid.scale - gain * _at(self.mean, channel) + grid.zero)

    def decide(self, factors: tuple[Fraction, ...], offsets: tuple[Fraction, ...], grid: Grid) -> str:
        """Were pixels of 0 .. 1 or of 0 .. 255 meant? Told by how far the input quantiser reaches."""
        if self.scale != "auto":
            return self.scale
        reach = [
            abs((grid.value(code) - b) / a * _at(self.deviation, i) + _at(self.mean, i))
            for i, (a, b) in enumerate(zip(factors, offsets, strict=True))
            for code in INT8
            if a
        ]
        return "byte" if max(reach, default=Fraction(0)) >= BYTE_FROM else "unit"


def _at(values: tuple[Fraction, ...], channel: int) -> Fraction:
    return values[channel if len(values) > 1 else 0]


def _numbers(values: Numbers | None, default: tuple[Fraction, ...], what: str) -> tuple[Fraction, ...]:
    """mean or std as the decimal numbers that the caller wrote."""
    if values is None or (isinstance(values, str) and not values):
        return default
    if isinstance(values, str):
        values = values.split(",")
    many = list(values) if isinstance(values, Iterable) else [values]
    if len(many) > LONGEST:
        raise SettingsError(f"{what} has {len(many)} numbers; there is one per channel")
    return tuple(parse_fraction(value, what) for value in many) or default
