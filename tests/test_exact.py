"""Numbers are taken as they were written, and what is none gets a sentence."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intrs.errors import SettingsError
from intrs.exact import ordinal, parse_count, parse_fraction, parse_percent, parse_seed, plain, shown


@pytest.mark.parametrize(
    "value", [100_000, "100000", "100_000", "1e5", "1E5", "1e+5", 1e5, np.int64(100_000), np.float64(1e5), "100000."]
)
def test_counts(value: Any) -> None:
    assert parse_count(value, "n") == 100_000
    assert type(parse_count(value, "n")) is int


@pytest.mark.parametrize(
    "value",
    [
        None,
        [5],
        "abc",
        "",
        0.5,
        "1.5",
        float("nan"),
        float("inf"),
        True,
        "1e999",
        "0x10",
        "١",
        -1,
        0,
        "-3",
        b"5",
        np.array([5]),
    ],
)
def test_what_is_no_count(value: Any) -> None:
    with pytest.raises(SettingsError, match="n: expected a positive integer, got"):
        parse_count(value, "n")


def test_limits_of_counts() -> None:
    assert parse_count(0, "threads", 0) == 0
    with pytest.raises(SettingsError, match="threads: expected an integer of at least 0, got -1"):
        parse_count(-1, "threads", 0)
    with pytest.raises(SettingsError, match="threads: at most 1,024 is possible"):
        parse_count(2000, "threads", 0, 1024)


@pytest.mark.parametrize("value", ["0.25", ".25", "1/4", Fraction(1, 4), 0.25, np.float32(0.25), " 0.25 "])
def test_fractions(value: Any) -> None:
    assert parse_fraction(value, "sigma") == Fraction(1, 4)


def test_a_float_is_the_number_that_was_written() -> None:
    assert parse_fraction(0.12, "sigma") == Fraction(12, 100)
    assert parse_fraction(1, "sigma") == 1


@pytest.mark.parametrize("value", [None, "x", "", "1/0", "nan", True, [0.25], "1e99999", "1" * 200, float("inf")])
def test_what_is_no_fraction(value: Any) -> None:
    with pytest.raises(SettingsError, match=r"sigma: expected a number such as 0\.25 or 1/4, got"):
        parse_fraction(value, "sigma")


def test_an_integer_of_thousands_of_digits_is_no_fraction() -> None:
    with pytest.raises(SettingsError, match="an integer of thousands of digits"):
        parse_fraction(10**5000, "sigma")


def test_percentages() -> None:
    assert parse_percent("1%", "precision") == parse_percent(0.01, "precision") == Fraction(1, 100)
    assert parse_percent(None, "precision") is None


def test_seeds() -> None:
    assert parse_seed("0xff") == parse_seed("255") == parse_seed(np.uint8(255)) == 255
    for bad in ("", "x", "-1", "0xg", True, 1.5, 2**256, -1):
        with pytest.raises(SettingsError, match="seed must be an integer"):
            parse_seed(bad)  # type: ignore[arg-type]


def test_words() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 20, 21, 22, 111, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "20th", "21st", "22nd", "111th", "112th",
    ]  # fmt: skip
    assert (plain(Fraction(1, 4)), plain(Fraction(1, 3))) == ("0.25", "1/3")
    assert shown([1, 2]) == "list [1, 2]"
    assert len(shown("x" * 1000)) == 60
