"""From pixels to the codes that a TFLite file takes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from intrs.exchange import integers
from intrs.exchange.convention import Convention
from intrs.exchange.refusal import Refusal
from intrs.network import INT8

if TYPE_CHECKING:
    from intrs.exchange.builder import Builder
    from intrs.exchange.tflite.arithmetic import Grid
    from intrs.exchange.tflite.values import View

RANGES = ((0, 1), (-1, 1), (0, 255))  # of real numbers for which the codes are the pixels


def natural(asked: Convention, grid: Grid, *, of_codes: bool) -> bool:
    """Whether codes are the pixels themselves, uint8 as they are and int8 less 128.

    So it is, unless the caller says otherwise, if the codes stand for 0 .. 1, -1 .. 1 or 0 .. 255, give or take one
    code; and for every file that takes uint8 (`of_codes`: the file takes codes, not floats that it quantises).
    """
    if not asked.is_default:
        return False
    ends = [grid.real * (code - grid.zero) for code in INT8]
    close = (all(abs(end - to) <= 1.01 * grid.real for end, to in zip(ends, pair, strict=True)) for pair in RANGES)
    return (of_codes and grid.unsigned) or any(close)


def quantised(net: Builder, view: View, grid: Grid, *, of_codes: bool = False) -> View:
    """The image as codes of this grid."""
    if misfit := net.pixels.misfit(view.shape[2]):
        raise Refusal(misfit)
    exact = integers.Grid(Fraction(grid.real), grid.zero)
    if natural(net.pixels, grid, of_codes=of_codes):
        net.pixels, exact = Convention("byte"), integers.Grid(Fraction(1), INT8[0])
    ones, zeros = (Fraction(1),) * view.shape[2], (Fraction(0),) * view.shape[2]
    return replace(view, tensor=net.image(view.shape, ones, zeros, exact), grid=grid, real=False)
