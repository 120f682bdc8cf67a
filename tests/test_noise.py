"""The laws of the noise and their tables. Statistical tests: fixed seeds, false-alarm rate chisquare.FALSE_ALARM."""

from __future__ import annotations

import hashlib
import random
from fractions import Fraction
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from chisquare import FALSE_ALARM, goodness_of_fit, independence

from intrs.balls import ball, decide, unique_integer
from intrs.certificate import Certifier
from intrs.errors import IntrsError, SettingsError
from intrs.noise import (
    KINDS,
    SHIPPED,
    Noise,
    NoiseTable,
    generate,
    parse_sigma,
    poisson_excess,
    sample_exact,
)
from intrs.noise import table as table_module
from intrs.noise.table import DIGESTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SIGMAS = ["0.01", "0.12", "1/4", "7/3"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0.25", Fraction(1, 4)),
        ("1/4", Fraction(1, 4)),
        (" .5 ", Fraction(1, 2)),
        (0.12, Fraction(12, 100)),
        (np.float64(0.12), Fraction(12, 100)),
        (1, Fraction(1)),
        ("25e-2", Fraction(1, 4)),
        ("0.01", Fraction(1, 100)),
        (4, Fraction(4)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_sigma_means_what_was_written(written: Any, meant: Fraction) -> None:
    assert parse_sigma(written) == meant


@pytest.mark.parametrize(
    "written",
    [0, "0", -0.25, "-1/4", "nan", float("nan"), float("inf"), "-inf", "1e300", "1e-999999999", "1e-99_999_999", "",
     "a", "1/0", "0.2_5", "0.25.1", "0.0099999", 4.0001, "4.0000001", "1/3000001", "1" * 200, True, None, [0.25],
     "0x1"],
)  # fmt: skip
def test_bad_sigmas_are_refused(written: Any) -> None:
    with pytest.raises(IntrsError, match="sigma"):
        parse_sigma(written)


def test_bad_noises_are_refused() -> None:
    with pytest.raises(IntrsError, match="thousands of digits"):
        parse_sigma(10**5000)
    with pytest.raises(IntrsError, match="discrete, rounded"):
        Noise.of("gaussian", "0.25")
    with pytest.raises(IntrsError, match="sigma"):
        Noise("discrete", Fraction(5))


@pytest.mark.parametrize("written", ["0.25", "1/4", 0.25, Fraction(1, 4), np.float32(0.25)])
def test_every_way_to_write_a_noise(written: Any) -> None:
    for kind, made in (
        ("discrete", Noise.discrete(written)),
        ("rounded", Noise.rounded(written)),
        ("continuous", Noise.continuous(written)),
    ):
        assert made == Noise.of(kind, written) == Noise.of(kind, Fraction(1, 4))
        assert made.sigma == Fraction(1, 4)
        assert isinstance(made.sigma, Fraction)
        assert repr(made) == f"Noise.{kind}('0.25')"
    assert Noise("discrete", written) == Noise.discrete("0.25")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (64, "sigma must lie between 0.01 and 4, got 64. Sigma is a fraction of the pixel range: 64 levels are 0.25"),
        ("12.5", "sigma must lie between 0.01 and 4, got 12.5. Sigma is a fraction of the pixel range: 12.5 levels are "
         "0.049"),
        (1025, "sigma must lie between 0.01 and 4, got 1025"),
        (0.001, "sigma must lie between 0.01 and 4, got 0.001"),
        ("1/3000001", "sigma must lie between 0.01 and 4, got 1/3000001"),
    ],
)  # fmt: skip
def test_a_sigma_in_pixel_levels_is_recognised(written: Any, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_sigma(written)
    assert str(error.value) == message


def test_poisson_excess_is_jacobis_theta() -> None:
    for t_squared in (Fraction(1, 4), Fraction(1), Fraction(13, 2)):
        theta = mpmath.jtheta(
            3, 0, mpmath.exp(-2 * mpmath.pi**2 * mpmath.mpf(t_squared.numerator) / t_squared.denominator)
        )
        mine = decide(lambda t=t_squared: poisson_excess(ball(t)))  # type: ignore[misc]
        assert mine is not None
        assert mpmath.almosteq(theta - 1, mpmath.mpf(mine.str(30, radius=False)), 1e-9, 1e-30)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_masses_are_a_law(kind: str, sigma: str) -> None:
    """They are symmetric, add up to one, and their sums are the cumulative probabilities."""
    noise = Noise.of(kind, sigma)
    last = int(11 * noise.grid_sigma)
    one_side = sum((noise.mass(k) for k in range(1, last + 1)), start=ball(Fraction(0)))
    assert (2 * one_side + noise.mass(0) + 2 * noise.upper_tail(last + 1)).contains(1)
    assert (noise.cdf(5) - noise.cdf(4)).overlaps(noise.mass(5))
    assert (noise.cdf(-5) - noise.cdf(-6)).overlaps(noise.mass(5))
    assert noise.mass(-7).overlaps(noise.mass(7))
    assert noise.mass(3).rel_accuracy_bits() > 100


def test_tails_beyond_the_list_are_enclosed() -> None:
    noise = Noise.of("discrete", "0.01")
    for k in (30, 40, 60, 200):
        exact = sum((noise.mass(j, 256) for j in range(k, k + 60)), start=ball(Fraction(0)))
        assert noise.upper_tail(k).overlaps(exact)


def test_masses_against_mpmath() -> None:
    with mpmath.workdps(40):
        sigma = mpmath.mpf(255) / 4
        discrete = mpmath.exp(-50 / sigma**2) / mpmath.nsum(
            lambda k: mpmath.exp(-(k**2) / (2 * sigma**2)), [-1000, 1000]
        )
        rounded = mpmath.ncdf(mpmath.mpf("10.5") / sigma) - mpmath.ncdf(mpmath.mpf("9.5") / sigma)
        for kind, value in (("discrete", discrete), ("rounded", rounded)):
            assert mpmath.almosteq(value, mpmath.mpf(Noise.of(kind, "0.25").mass(10).str(35, radius=False)), 1e-30)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [*SHIPPED, "0.01", "4"])
def test_tables_have_the_promised_form(kind: str, sigma: str) -> None:
    table = Noise.of(kind, sigma).table()
    thresholds = [int(t) for t in table.thresholds]
    assert table.thresholds.dtype == np.uint64
    assert not table.thresholds.flags.writeable
    assert all(a < b for a, b in pairwise(thresholds))
    assert [2**64 - t for t in reversed(thresholds)] == thresholds
    assert table.first == -len(thresholds) // 2 >= -(2**15)
    assert 0 < table.eta < Fraction(len(thresholds), 2**64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", SHIPPED)
def test_shipped_tables_are_the_generated_ones(kind: str, sigma: str) -> None:
    noise = Noise.of(kind, sigma)
    shipped = (files("intrs") / "tables" / f"{kind}-{sigma}.bin").read_bytes()
    assert generate(noise).to_bytes() == shipped == noise.table().to_bytes()
    assert NoiseTable.from_bytes(shipped) == noise.table()
    assert generate(noise).sha256 == DIGESTS[noise.kind][sigma] == noise.table_sha256
    assert noise.eta == noise.table().eta


# --- what comes with the package is not believed unchecked ---


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The shipped tables in a folder of our own."""
    for source in Path(str(table_module.FOLDER)).iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(table_module, "FOLDER", tmp_path)
    table_module.table_of.cache_clear()
    yield tmp_path
    table_module.table_of.cache_clear()


def test_every_shipped_file_has_a_digest(folder: Path) -> None:
    named = {f"{kind}-{sigma}.bin": digest for kind, found in DIGESTS.items() for sigma, digest in found.items()}
    assert named == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert set(named) == {f"{kind}-{sigma}.bin" for kind in KINDS for sigma in SHIPPED}


@pytest.mark.parametrize("other", ["discrete-0.12.bin", "rounded-0.25.bin"])
def test_a_table_under_the_name_of_another_is_refused(folder: Path, other: str) -> None:
    """With the table of 0.12 under the name of 0.25, radii of 0.598 were certified where 0.273 is true."""
    (folder / other).replace(folder / "discrete-0.25.bin")
    noise = Noise.discrete("0.25")
    for use in (
        noise.table,
        lambda: noise.eta,
        lambda: noise.table_sha256,
        lambda: Certifier(noise, 48, 100, Fraction(1, 1000)),
    ):
        with pytest.raises(IntrsError, match=r"discrete-0\.25\.bin: not the noise table that came .* Reinstall intrs"):
            use()
    assert Noise.discrete("0.5").table().noise == Noise.discrete("0.5"), "the others are as they were"


def test_a_shipped_table_is_that_of_the_noise_even_if_its_digest_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "discrete-0.12.bin").replace(folder / "discrete-0.25.bin")
    monkeypatch.setitem(DIGESTS["discrete"], "0.25", DIGESTS["discrete"]["0.12"])
    with pytest.raises(IntrsError, match=r"the noise table of Noise.discrete\('0.12'\), not of Noise.discrete"):
        Noise.discrete("0.25").table()


def test_a_damaged_or_missing_table_is_refused(folder: Path) -> None:
    data = bytearray((folder / "rounded-1.bin").read_bytes())
    data[-1] ^= 1
    (folder / "rounded-1.bin").write_bytes(data)
    (folder / "rounded-0.5.bin").unlink()
    with pytest.raises(IntrsError, match=r"rounded-1\.bin: not the noise table"):
        Noise.rounded(1).table()
    with pytest.raises(IntrsError, match=r"rounded-0\.5\.bin: cannot read .* reinstall"):
        Noise.rounded("0.5").table()


def test_hashes_of_tables() -> None:
    assert Noise.continuous("0.25").table_sha256 == ""
    assert Noise.discrete("0.01").table_sha256 == generate(Noise.discrete("0.01")).sha256
    with pytest.raises(SettingsError, match="no masses and no table"):
        generate(Noise.continuous("0.25"))


@pytest.mark.parametrize("change", ["first", "eta", "order", "symmetry"])
def test_a_trusted_table_still_has_the_form_of_one(change: str) -> None:
    good = Noise.discrete("0.01").table()
    thresholds = good.thresholds.copy()
    if change == "order":
        thresholds[[3, 4, -4, -5]] = thresholds[[4, 3, -5, -4]]
    thresholds[3] += change == "symmetry"
    first, eta = good.first + (change == "first"), good.eta * (2**20 if change == "eta" else 1)
    with pytest.raises(IntrsError, match="rise and be symmetric"):
        NoiseTable.from_bytes(NoiseTable(good.noise, first, thresholds, eta).to_bytes(), trusted=True)


def test_thresholds_against_mpmath() -> None:
    table = Noise.of("rounded", "0.12").table()
    with mpmath.workdps(60):
        for j in range(0, len(table.thresholds), 50):
            exact = mpmath.ncdf((table.first + j + mpmath.mpf(1) / 2) / (mpmath.mpf(255) * 12 / 100)) * 2**64
            assert int(table.thresholds[j]) == int(mpmath.nint(exact))


@pytest.mark.parametrize("place", [0, 8, 12, 16, 24, 32, 48, 64, 72, 80, -1])
def test_altered_tables_are_refused(place: int) -> None:
    data = bytearray(Noise.of("discrete", "0.01").table().to_bytes())
    data[place] ^= 1
    with pytest.raises(IntrsError):
        NoiseTable.from_bytes(bytes(data))


@pytest.mark.parametrize("data", [b"", b"intrsnt1", b"x" * 72, b"intrsnt1" + b"\0" * 64, b"intrsnt1" + b"\xff" * 64])
def test_what_is_no_table_is_refused(data: bytes) -> None:
    with pytest.raises(IntrsError, match=r"noise table|sigma"):
        NoiseTable.from_bytes(data)
    good = Noise.of("rounded", "0.01").table().to_bytes()
    for wrong in (good[:-1], good + b"\0", good[:-8]):
        with pytest.raises(IntrsError, match="noise table"):
            NoiseTable.from_bytes(wrong)


def test_tables_of_two_noises_differ() -> None:
    first, second = (Noise.of(kind, "0.01").table() for kind in KINDS)
    assert first != second
    assert first.sha256 != second.sha256
    assert first == generate(first.noise)
    assert hash(first) == hash(generate(first.noise))


# --- sampling --------------------------------------------------------------------------------------------------------


def draw(thresholds: NDArray[np.uint64], first: int, size: int, seed: int = 1) -> NDArray[np.int64]:
    """The definition of a table, fed by NumPy's bits."""
    u = np.random.default_rng(seed).integers(0, 2**64, size, np.uint64)
    return first + np.searchsorted(thresholds, u, side="right")


def test_the_ends_of_a_table() -> None:
    table = Noise.of("discrete", "0.25").table()
    ends = np.array([0, int(table.thresholds[0]) - 1, int(table.thresholds[0]), 2**64 - 1], np.uint64)
    values = table.first + np.searchsorted(table.thresholds, ends, side="right")
    assert list(values) == [table.first, table.first, table.first + 1, -table.first]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", ["0.01", "0.25"])
def test_a_table_draws_its_law(kind: str, sigma: str) -> None:
    noise = Noise.of(kind, sigma)
    values = draw(noise.table().thresholds, noise.table().first, 2_000_000)
    assert goodness_of_fit(values, noise) > FALSE_ALARM
    assert independence(values[1:], values[:-1], noise) > FALSE_ALARM


def test_wrong_samplers_are_caught() -> None:
    noise = Noise.of("discrete", "0.25")
    table = noise.table()
    wider = generate(Noise.of("discrete", "0.2525"))  # one per cent
    assert goodness_of_fit(draw(wider.thresholds, wider.first, 2_000_000), noise) < FALSE_ALARM
    moved = table.thresholds.copy()
    moved[600] = moved[601] - np.uint64(1)  # one value never drawn
    assert goodness_of_fit(draw(moved, table.first, 2_000_000), noise) < FALSE_ALARM
    biased = draw(table.thresholds, table.first, 2_000_000)
    biased = np.where(np.arange(2_000_000) % 50, biased, abs(biased))  # the sign bit is set with probability 0.49
    assert goodness_of_fit(biased, noise) < FALSE_ALARM
    values = draw(table.thresholds, table.first, 1_000_000)
    assert independence(values, np.where(np.arange(1_000_000) % 50, values[::-1], values), noise) < FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_sampler_draws_the_same_law(kind: str) -> None:
    """Canonne, Kamath and Steinke in rational arithmetic; inversion with unlimited bits for the rounded Gaussian."""
    noise, below = Noise.of(kind, "0.02"), random.Random(2).randrange
    values = np.array([sample_exact(noise, below) for _ in range(6000)])
    assert goodness_of_fit(values, noise) > FALSE_ALARM
    assert goodness_of_fit(values, Noise.of(kind, "0.022")) < FALSE_ALARM


def test_the_exact_sampler_agrees_with_the_table_on_the_same_bits() -> None:
    """Inversion reads 64 bits first: it can differ from the table only next to a threshold or beyond its ends."""
    noise = Noise.of("rounded", "0.25")
    table, bits = noise.table(), random.Random(3)
    for _ in range(300):
        u = bits.randrange(2**64)
        assert sample_exact(noise, lambda n, u=u: u) == table.first + np.searchsorted(  # type: ignore[misc]
            table.thresholds, np.uint64(u), side="right"
        )


def test_the_exact_sampler_asks_for_more_bits_when_it_must() -> None:
    """Beside a threshold 64 bits do not decide, further bits do; zeros lead into the tail that the table cuts off."""
    noise = Noise.of("rounded", "0.25")
    u = decide(lambda: unique_integer((noise.cdf(noise.table().first + 500) * 2**64).floor()))
    assert u is not None
    below, above = (_feed(noise, u, more) for more in (0, 2**64 - 1))
    assert (below, above) == (noise.table().first + 500, noise.table().first + 501)
    assert _feed(noise, 0, 2**40) < noise.table().first


def _feed(noise: Noise, *bits: int) -> int:
    source = iter(bits)
    return sample_exact(noise, lambda _: next(source))
