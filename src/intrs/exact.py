"""Numbers as they were written: counts, fractions and seeds, from text or from Python, never through a float."""

from __future__ import annotations

import hashlib
import math
import numbers
import operator
import re
import secrets
from fractions import Fraction
from typing import SupportsIndex

from intrs.errors import SettingsError

Number = str | float | Fraction  # whatever `parse_fraction` reads; bool and None are refused
Count = str | float | SupportsIndex
MOST_COUNT = 10**15
MOST_VOTES = 10**8  # samples of one image that are counted for an answer
LONGEST = 100  # characters of a number


def parse_count(value: Count, name: str, least: int = 1, most: int = MOST_COUNT) -> int:
    """A whole number: 100000, 100_000, "1e5", 1e5 and a NumPy integer alike."""
    kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
    try:
        found = _whole(value)
    except (TypeError, ValueError):
        raise SettingsError(f"{name}: expected {kind}, got {shown(value)}") from None
    if found < least:
        raise SettingsError(f"{name}: expected {kind}, got {found}")
    if found > most:
        raise SettingsError(f"{name}: at most {most:,} is possible, got {shown(value)}")
    return found


def _whole(value: object) -> int:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, str):
        if len(value) > LONGEST or not re.fullmatch(r"-?\d+(_\d+)*(\.\d*)?([eE]\+?\d{1,2})?", value.strip(), re.ASCII):
            raise ValueError
        exact = Fraction(value.strip())
    elif isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        if not math.isfinite(value):
            raise ValueError
        exact = Fraction(value) if isinstance(value, Fraction) else Fraction(float(value))
    else:
        return int(operator.index(value))  # type: ignore[arg-type]  # TypeError says that it is none
    if exact.denominator != 1:
        raise ValueError
    return exact.numerator


def parse_fraction(value: Number, name: str) -> Fraction:
    """The number that was written: "0.12", "1/4", "1e-3" or Fraction; the float 0.12 means 12/100."""
    text = _as_written(value)
    exponent = re.search(r"[eE][+-]?(\d*)", text)
    try:
        if len(text) > LONGEST or "_" in text or (exponent and len(exponent[1]) > 3):
            raise ValueError  # 1e-999999999 would fill the memory, and 1e-99_999_999 too
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise SettingsError(f"{name}: expected a number such as 0.25 or 1/4, got {shown(value)}") from None


def _as_written(value: object) -> str:
    """The text of a number, or of something that is none and will be refused."""
    if isinstance(value, bool):
        return "a truth value"
    try:
        return str(value)
    except ValueError:
        return "an integer of thousands of digits"


def parse_percent(value: Number | None, name: str) -> Fraction | None:
    """1% or 0.01."""
    if isinstance(value, str) and value.strip().endswith("%"):
        return parse_fraction(value.strip()[:-1], name) / 100
    return None if value is None else parse_fraction(value, name)


def parse_seed(seed: str | SupportsIndex | None) -> int:
    """A 256-bit seed: the one given, in decimal or 0x..., or one drawn from the operating system."""
    if seed is None:
        return secrets.randbits(256)
    try:
        if isinstance(seed, bool) or (isinstance(seed, str) and len(seed) > LONGEST):
            raise TypeError
        value = _seed_of(seed) if isinstance(seed, str) else int(operator.index(seed))
    except (TypeError, ValueError):
        raise SettingsError(f"the seed must be an integer from 0 to 2**256 - 1, got {shown(seed)}") from None
    if not 0 <= value < 2**256:
        raise SettingsError("the seed must be an integer from 0 to 2**256 - 1; this one lies outside")
    return value


def derive_key(purpose: str) -> int:
    """256 bits for a purpose, apart from all seeds that people choose.

    A certificate holds only if its noise is independent of the network. So whatever makes or chooses a network by
    noise (training, quantization) or attacks one must not draw it from the seed as it was given.
    """
    return int.from_bytes(hashlib.sha256(f"intrs train: {purpose}".encode()).digest(), "little")


def _seed_of(text: str) -> int:
    """Decimal digits, or 0x and hexadecimal ones."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,64}", text):
        return int(text, 16)
    return int(text) if re.fullmatch(r"\d{1,78}", text, re.ASCII) else int("none")


def plain(value: Fraction) -> str:
    """A short decimal if that is exact, else the fraction: what `parse_fraction` reads back."""
    try:
        decimal = f"{float(value):g}"
    except OverflowError:
        return str(value)
    return decimal if Fraction(decimal) == value else str(value)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def shown(value: object) -> str:
    """A value in an error message: short, with its type where the text alone would not tell."""
    try:
        text = repr(value)
    except ValueError:
        text = "an integer of thousands of digits"
    text = text if len(text) <= 60 else f"{text[:57]}..."
    tells = value is None or isinstance(value, str | int | float | Fraction)
    return text if tells else f"{type(value).__name__} {text}"
