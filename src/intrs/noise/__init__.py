"""The laws of the noise, the integer tables that sample them, and the proven error of those tables.

    noise = Noise.discrete("0.25")
    noise.table(), noise.eta

law -> table -> reference: exact masses, what is drawn from 64-bit integers, and a slow sampler without any error.
docs/theory.md holds the proofs; equation and theorem numbers in this room refer to it.
"""

from intrs.noise.law import KINDS, LAWS, PIXEL_RANGE, Kind, Noise, parse_sigma, poisson_excess
from intrs.noise.reference import sample_exact
from intrs.noise.table import SHIPPED, NoiseTable, generate

__all__ = [
    "KINDS",
    "LAWS",
    "PIXEL_RANGE",
    "SHIPPED",
    "Kind",
    "Noise",
    "NoiseTable",
    "generate",
    "parse_sigma",
    "poisson_excess",
    "sample_exact",
]
