"""The commands and programs in Markdown files, in their order, and a reader who does what they say."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from intrs.cli import main
from intrs.cli.arguments import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pytest

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
INDENTED = re.compile(r"(?:^    \S.*\n)+", re.M)

# What is not run but only understood, and why.
PARSED = {
    "attack": "takes PyTorch and minutes; tests/test_pgd.py runs it",
    "data": "asks the network",
    "reproduce": "takes minutes; tests/test_experiments.py runs it",
    "train": "takes hours; tests/test_training.py runs it",
}
INSTALL = ("pip install", "python3 -m venv", "python -m pytest")  # what this environment went and goes through


@dataclass(frozen=True)
class Block:
    """Some lines of a page: sh, python, or the text that is printed."""

    kind: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """All of them, with indented commands as sh."""
    found = [(match.start(), match[1], match[2]) for match in FENCE.finditer(page)]
    bare = FENCE.sub(lambda match: re.sub(r"\S", " ", match[0]), page)
    found += [(match.start(), "sh", match[0]) for match in INDENTED.finditer(bare)]
    for start, kind, text in sorted(found):
        yield Block(kind, text, page.count("\n", 0, start) + 1)


def commands(text: str) -> Iterator[list[str]]:
    """The words of every line, without comments; && and \\ at an end of a line are understood."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in line.split("&&"):
            if words := shlex.split(part, comments=True):
                yield [words[0].removeprefix(".venv/bin/"), *words[1:]]


@dataclass
class Reader:
    """Does what a page says, in the current folder; `shorter` makes a long command short."""

    capsys: pytest.CaptureFixture[str]
    extras: Mapping[str, Any]
    shorter: Callable[[list[str]], list[str]] = list
    replaced: Mapping[str, str] = field(default_factory=dict)  # in programs
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    done: list[str] = field(default_factory=list)

    def follow(self, page: Path) -> None:
        """Every block of a file; what it shows as printed was printed by the block before."""
        for block in blocks(page.read_text("utf-8")):
            where = f"{page.name}:{block.line}"
            if block.kind == "python":
                self._run_python(block.text, where)
            elif block.kind == "sh":
                self.printed = ""
                for words in commands(block.text):
                    self._run_command(words, where)
            elif block.kind == "text":
                printed = " ".join(self.printed.split())
                for line in block.text.splitlines():
                    assert " ".join(line.split()) in printed, f"{where}: {line!r} was not printed:\n{self.printed}"

    def _run_python(self, text: str, where: str) -> None:
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        exec(compile(text, where, "exec"), self.names)
        self.printed = self.capsys.readouterr().out
        self.done.append(where)

    def _run_command(self, words: list[str], where: str) -> None:
        line = " ".join(words)
        if line.startswith(INSTALL):
            wanted = re.findall(r"\[([\w,]+)\]", line)
            assert all(extra in self.extras for group in wanted for extra in group.split(",")), f"{where}: {line}"
            return
        if words[0] != "intrs":
            raise AssertionError(f"{where}: only intrs and pip are understood: {line}")
        if len(words) > 1 and words[1] in PARSED:
            parse(words[1:])
            return
        code = main(self.shorter(words[1:]))
        out, err = self.capsys.readouterr()
        assert code == 0, f"{where}: {line}\n{out}{err}"
        self.printed += out
        self.done.append(line)
