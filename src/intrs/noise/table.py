"""Sampling tables: Theorem 4, the error that it proves, the files that come with the package and their digests."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from intrs.balls import ball, decide, unique_integer, working_bits
from intrs.errors import IntrsError
from intrs.exact import plain
from intrs.noise.law import KINDS, Kind, Noise
from intrs.values import ByFields, html_table

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from numpy.typing import NDArray

THRESHOLD_BITS, ETA_BITS = 64, 96
MAGIC = b"intrsnt1"
HEADER = struct.Struct("<8sIiQQ16s16sQ")  # magic, kind, first, sigma (2), eta (2), number of thresholds
FOLDER: Traversable = files("intrs") / "tables"

# The SHA-256 of the files {kind}-{sigma}.bin. A table decides what noise is drawn, and so whether a radius is true:
# no other bytes are believed. `python proofs/make_tables.py` computes the tables anew and prints these lines.
DIGESTS: dict[Kind, dict[str, str]] = {
    "discrete": {
        "0.12": "af37c8bd0c02b1645af18e08252a01bbc66e14b200dcc26b950a2491701aa3d3",
        "0.25": "707ffc94db38ab86b4b4c5911cb4f40a994bb79f94579da2c570c95ed0778509",
        "0.5": "a5c6ae4b971b654d2f26c6969c3a8e7499517322b68437fb8e59a0fdf2cf5aab",
        "1": "2fcebf6d384946167e31e2c783fac0d156be18cf58ecb89535759bc982d4fd03",
    },
    "rounded": {
        "0.12": "5a9d1b5dd4b8f572c258d008c80fd0fbe6301060f85dba6de11cdf7068dc1e9f",
        "0.25": "2691677650743a8fb0f3af230a5bf13a323ee1c8e2f6aa6f8cdd11e1851cf050",
        "0.5": "1ac11b3acc0ad2a3fc89e89fbf342d327a5548a52b4777aab9df3679d09dbf2f",
        "1": "502daa2317880d55213fd09e66ce9ac2215dec3631b9f1d40fa6262c7003f021",
    },
}
SHIPPED = tuple(DIGESTS["discrete"])  # sigmas whose tables come with the package, as in their file names


@dataclass(frozen=True, eq=False, repr=False)
class NoiseTable(ByFields):
    """Integers that turn a uniform 64-bit U into noise: value = first + #{j : thresholds[j] <= U}.

    Theorem 4: thresholds[j] = P[n <= first + j] * 2^64 rounded to nearest, strictly increasing, symmetric; so the
    table is a function of the noise alone, the same on every machine. eta bounds its total variation distance.
    """

    noise: Noise
    first: int
    thresholds: NDArray[np.uint64]
    eta: Fraction

    def __post_init__(self) -> None:
        self.thresholds.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoiseTable) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.noise)

    def __repr__(self) -> str:
        return f"NoiseTable({self.noise}, values {self.first} to {-self.first}, eta {float(self.eta):.3g})"

    def _repr_html_(self) -> str:
        rows = {"noise": self.noise, "values": f"{self.first} to {-self.first}", "eta": f"{float(self.eta):.3g}"}
        return html_table(rows | {"SHA-256": self.sha256})

    @property
    def sha256(self) -> str:
        """Hash of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The canonical form, little-endian: HEADER, then the thresholds."""
        fixed = (MAGIC, KINDS.index(self.noise.kind), self.first, *self.noise.sigma.as_integer_ratio())
        eta = (part.to_bytes(16, "little") for part in self.eta.as_integer_ratio())
        return HEADER.pack(*fixed, *eta, len(self.thresholds)) + self.thresholds.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, trusted: bool = False) -> NoiseTable:
        """Read the canonical form. Unless trusted, the table is computed anew and must be equal bit for bit.

        A trusted table is still refused if it does not have the form of Theorem 4.
        """
        table = _parse(data)
        if not trusted and generate(table.noise).to_bytes() != data:
            raise IntrsError(
                f"noise table: not the table of {table.noise.kind} noise with sigma {plain(table.noise.sigma)}"
            )
        return table


def _parse(data: bytes) -> NoiseTable:
    if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise IntrsError("noise table: these bytes do not begin as a table does; write one with NoiseTable.to_bytes")
    _, kind, first, sigma_num, sigma_den, eta_num, eta_den, count = HEADER.unpack_from(data)
    eta_den = int.from_bytes(eta_den, "little")
    if kind >= len(KINDS) or not sigma_den or not eta_den or len(data) != HEADER.size + 8 * count:
        raise IntrsError("noise table: the header does not fit the bytes after it; the file is damaged")
    thresholds = np.frombuffer(data, "<u8", offset=HEADER.size).astype(np.uint64)
    noise, eta = Noise.of(KINDS[kind], Fraction(sigma_num, sigma_den)), int.from_bytes(eta_num, "little")
    table = NoiseTable(noise, first, thresholds, Fraction(eta, eta_den))
    if not _has_form(table):
        raise IntrsError(
            "noise table: the thresholds must rise and be symmetric, and eta must fit them; the file is damaged"
        )
    return table


def _has_form(table: NoiseTable) -> bool:
    """What Theorem 4 says of every table, short of its values."""
    t = table.thresholds
    symmetric = len(t) == -2 * table.first > 0 and not np.any(t + t[::-1])  # modulo 2^64
    return symmetric and bool(np.all(t[1:] > t[:-1])) and 0 < table.eta < Fraction(len(t), 1 << THRESHOLD_BITS)


@cache
def table_of(noise: Noise) -> NoiseTable:
    """The table of this noise: the file that came with the package, or computed."""
    digest = DIGESTS[noise.kind].get(plain(noise.sigma))
    return generate(noise) if digest is None else _shipped(noise, digest)


def _shipped(noise: Noise, digest: str) -> NoiseTable:
    file = FOLDER / f"{noise.kind}-{plain(noise.sigma)}.bin"
    try:
        data = file.read_bytes()
    except OSError as error:
        raise IntrsError(f"{file}: cannot read this noise table ({error.strerror}); reinstall intrs") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise IntrsError(
            f"{file}: not the noise table that came with intrs; its certificates would be false. Reinstall intrs"
        )
    table = NoiseTable.from_bytes(data, trusted=True)
    if table.noise != noise:
        raise IntrsError(f"{file}: this is the noise table of {table.noise}, not of {noise}; reinstall intrs")
    return table


def generate(noise: Noise) -> NoiseTable:
    """Compute the table of Theorem 4."""
    noise.require_integers()
    lower = decide(lambda: _lower_thresholds(noise))
    if lower is None:
        raise AssertionError("a cumulative probability lies on a rounding boundary")  # it is transcendental
    upper = [(1 << THRESHOLD_BITS) - t for t in lower]
    return NoiseTable(noise, -len(lower), np.array(lower[::-1] + upper, np.uint64), _total_variation(noise, lower))


def _lower_thresholds(noise: Noise) -> list[int] | None:
    """t_k = nearest(2^64 P[n >= k]) for k = 1, 2, ... for as long as they fall strictly and stay positive."""
    found: list[int] = []
    while True:
        scaled = noise.upper_tail(len(found) + 1, working_bits()) * (1 << THRESHOLD_BITS)
        t = unique_integer((scaled + ball(Fraction(1, 2))).floor())
        if t is None:
            return None
        if t == 0 or (found and t == found[-1]):
            return found
        found.append(t)


def _total_variation(noise: Noise, lower: list[int]) -> Fraction:
    """Equation (15), rounded up to a multiple of 2^-96."""

    def attempt() -> int | None:
        tails = [noise.upper_tail(k, working_bits()) for k in range(1, len(lower) + 2)]
        errors = [ball(Fraction(t, 1 << THRESHOLD_BITS)) - tail for t, tail in zip(lower, tails, strict=False)]
        total = abs(errors[0]) + abs(errors[-1] + tails[-1]) + tails[-1]
        total += sum(abs(a - b) for a, b in pairwise(errors))
        return unique_integer((total * (1 << ETA_BITS)).ceil())

    scaled = decide(attempt)
    if scaled is None:
        raise AssertionError("a total variation distance lies on a rounding boundary")  # it is transcendental
    return Fraction(scaled, 1 << ETA_BITS)
