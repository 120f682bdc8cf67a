"""Radius tables: the whole map from votes to squared radius, for devices that can only look up, as checked bytes."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from intrs.certificate.bounds import BOUNDS
from intrs.certificate.certifier import Certifier
from intrs.certificate.confidence import ONE, lower_multiple, parse_votes
from intrs.errors import ResultsError, SettingsError
from intrs.exact import MOST_VOTES, plain
from intrs.files import read_bounded, write_whole
from intrs.noise import KINDS, Noise
from intrs.values import ByFields, html_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MAGIC = b"intrsrt1"
HEADER = struct.Struct("<8sIIQQ16s16s16s16sQQQQ")  # magic, kind, bound, sigma, alpha, eta, dimension, n, start, count
DIGEST_SIZE = 32
MOST_BYTES = HEADER.size + 8 * (MOST_VOTES + 1) + DIGEST_SIZE


@dataclass(frozen=True, eq=False, repr=False)
class RadiusTable(ByFields):
    """votes -> squared radius for one certifier: values[votes - start], and an abstention below start."""

    certifier: Certifier
    start: int
    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    def __repr__(self) -> str:
        c = self.certifier
        return f"RadiusTable({c.noise}, dimension={c.dimension}, n={c.n}, alpha={plain(c.alpha)}, {self._extent()})"

    def _repr_html_(self) -> str:
        return html_table(self.certifier.rows() | {"entries": self._extent()})

    def _extent(self) -> str:
        if not len(self.values):
            return "no votes certify"
        return f"{self.start} to {self.certifier.n} votes -> radius_sq {self.values[0]} to {self.values[-1]}"

    def radius_sq(self, votes: int) -> int | None:
        """What the certifier says, looked up."""
        votes, _ = parse_votes(votes, self.certifier.n)
        return int(self.values[votes - self.start]) if votes >= self.start else None

    def to_bytes(self) -> bytes:
        """The canonical form, little-endian: HEADER, the values, the SHA-256 of all before it."""
        c = self.certifier
        wide = (*c.alpha.as_integer_ratio(), *c.noise.eta.as_integer_ratio())
        fixed = (MAGIC, KINDS.index(c.noise.kind), BOUNDS.index(c.bound), *c.noise.sigma.as_integer_ratio())
        sizes = (c.dimension, c.n, self.start, len(self.values))
        body = HEADER.pack(*fixed, *(w.to_bytes(16, "little") for w in wide), *sizes)
        body += self.values.astype("<i8").tobytes()
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes, *, trusted: bool = False) -> RadiusTable:
        """Read the canonical form. Unless trusted, the table is computed anew and must be equal bit for bit.

        A trusted table is still refused if it is damaged, that is if its hash or its shape is wrong.
        """
        table = _parse(data)
        if trusted:
            return table
        if table.start != _first_votes(table.certifier) or make_table(table.certifier).to_bytes() != data:
            raise ResultsError("radius table: some entries are not what their votes certify; this table was altered")
        return table

    def write(self, path: Path | str) -> None:
        """Write the canonical form to a file that must not exist."""
        if (file := Path(path)).exists():
            raise ResultsError(f"radius table: cannot write {path}: it exists; name another file")
        write_whole(file, self.to_bytes())

    @classmethod
    def read(cls, path: Path | str, *, trusted: bool = False) -> RadiusTable:
        """Read a file that `write` wrote."""
        return cls.from_bytes(read_bounded(Path(path), MOST_BYTES), trusted=trusted)


def _parse(data: bytes) -> RadiusTable:
    body, digest = data[:-DIGEST_SIZE], data[-DIGEST_SIZE:]
    if len(body) < HEADER.size or not body.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        raise ResultsError("radius table: not a table, or damaged; write it again with Certifier.table")
    _, kind, bound, sigma_num, sigma_den, *wide, dimension, n, start, count = HEADER.unpack_from(body)
    alpha_num, alpha_den, eta_num, eta_den = (int.from_bytes(w, "little") for w in wide)
    if kind >= len(KINDS) or bound >= len(BOUNDS) or not (sigma_den and alpha_den and eta_den):
        raise ResultsError("radius table: the header holds values that no table has")
    noise = Noise.of(KINDS[kind], Fraction(sigma_num, sigma_den))
    certifier = Certifier(noise, dimension, n, Fraction(alpha_num, alpha_den), BOUNDS[bound])
    if noise.eta != Fraction(eta_num, eta_den):
        raise ResultsError("radius table: made for a noise table of another error eta; write it again")
    if start + count != n + 1 or len(body) != HEADER.size + 8 * count:
        raise ResultsError("radius table: its length does not fit the number of samples")
    values = np.frombuffer(body, "<i8", offset=HEADER.size).astype(np.int64)
    if np.any(values < 0) or np.any(values[1:] < values[:-1]):
        raise ResultsError("radius table: more votes must not give a smaller radius; this table was altered")
    return RadiusTable(certifier, start, values)


def make_table(certifier: Certifier, progress: Callable[[int, int], object] | None = None) -> RadiusTable:
    """Every entry, computed. `progress` is told how many entries are done, and of how many."""
    if certifier.form != "one":
        raise SettingsError("tables are for the one-class form: the two-class form depends on two numbers of votes")
    if not certifier.noise.on_integers:
        raise SettingsError("tables are for integer noise: a device that can only look up has no floats to draw")
    n, start = certifier.n, _first_votes(certifier)
    values, last_four = np.empty(n + 1 - start, np.int64), [0, 0, 0, 0]
    for i, votes in enumerate(range(start, n + 1)):
        j = lower_multiple(votes, n, certifier.level, _extrapolate(last_four) if i >= len(last_four) else None)
        last_four = [*last_four[1:], j]
        values[i] = certifier.radius_sq_at(Fraction(j, ONE))
        if progress and (i % 256 == 255 or votes == n):
            progress(i + 1, len(values))
    return RadiusTable(certifier, start, values)


def _first_votes(certifier: Certifier) -> int:
    return certifier.least_votes() or certifier.n + 1


def _extrapolate(last_four: list[int]) -> int:
    """The cubic through four equidistant values, one place on."""
    a, b, c, d = last_four
    return 4 * d - 6 * c + 4 * b - a
