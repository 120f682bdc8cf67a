"""Names from files of any origin: on a terminal, and in files that are written for compilers."""

from __future__ import annotations

import re

import pytest

from intrs.text import LONGEST_NAME, plain_name, printable

HOSTILE = (
    "*/ #error",
    "*/ extern int system(const char*); /*",
    "/*",
    "//",
    "a//b/*c*/d",
    'a"; #include "x',
    "ends in \\",
    "two\nlines\r\n#error",
    "??/ ??= <: %:",
    "\u2028\x85\x1b]0;title\x07",
    "$(shell id) `id` ${HOME}",
    "../" * 100,
    "é" * 1000,
    "*/" * 1000,
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_plain_name_ends_nothing_and_begins_nothing(name: str) -> None:
    found = plain_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_./-]*", found, re.ASCII)
    assert len(found) <= LONGEST_NAME
    assert not re.search(r"\*/|/\*|//", f"*{found}*")
    assert not found.startswith("/")
    assert not found.endswith("/")


def test_plain_names_stay() -> None:
    for name in ("stem", "blocks.0.conv1", "model/conv2d-1/Relu_6", "", "a" * LONGEST_NAME):
        assert plain_name(name) == name
    assert plain_name("/layer1/layer1.0/conv1/Conv") == "layer1/layer1.0/conv1/Conv"
    assert plain_name("a/Relu;b/BiasAdd:0") == "a/Relu_b/BiasAdd_0"
    assert plain_name("x" * 100 + "/conv1/Conv").endswith("x/conv1/Conv")


def test_printable_text_does_not_steer_a_terminal() -> None:
    assert printable("a\x1b[31m\u202eb\n\tc é") == "a\\x1b[31m\\u202eb\n\\tc é"
