"""The house rules that tools can check: formatting, lint, types, and links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [("check", "."), ("format", "--check", ".")], ids=["lint", "format"])
def test_ruff(command: tuple[str, ...]) -> None:
    run(sys.executable, "-m", "ruff", *command)


def test_mypy() -> None:
    run(sys.executable, "-m", "mypy")


def test_clang_format() -> None:
    folders = ("core", "device", "examples", "tests/device", "tests/native")
    sources = sorted(str(path) for folder in folders for path in (ROOT / folder).rglob("*.[ch]*"))
    run(str(Path(sys.executable).parent / "clang-format"), "--dry-run", "--Werror", *sources)


def test_links_between_pages_lead_somewhere() -> None:
    pages = [path for folder in (".", "docs", "bench", "redteam", "proofs", "examples") for path in find_pages(folder)]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    ]
    assert len(links) > 50
    broken = [f"{page.relative_to(ROOT)}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert not broken


def test_lines_of_prose_are_short() -> None:
    """At most 120 characters, as in code; tables, code and the YAML of cards are as long as they are."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + find_pages("docs")
    assert len(pages) > 30
    long = [f"{page.relative_to(ROOT)}:{number}" for page in pages for number, line in prose(page.read_text("utf-8"))
            if len(line) > 120]  # fmt: skip
    assert not long


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are neither code nor rows of a table nor in front of a card, with their numbers."""
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = "---" if line == "---" and (number == 1 or inside == "---") else "```" if "```" in line[:8] else ""
        if mark:
            inside = "" if inside else mark
        elif not inside and not line.startswith(("    ", "|")):
            yield number, line


def test_prose_is_told_from_the_rest() -> None:
    text = "---\nyaml\n---\none\n\n```sh\ncode\n```\n\n    code\n\n- two\n\n| a | table |\n\n---\n"
    assert [line for _, line in prose(text) if line] == ["one", "- two", "---"]


# A habit to drop: "an image" for "per image" after a number of something.
TELEGRAPH = re.compile(
    r"\b(samples|images|votes|bytes|lines|copies|threads|ms|µs|us|s|mean|one|score|factor|products) an? "
    r"(image|sample|class|run|second|(output )?channel|thread|radius|element|epoch|instruction|vector|row|engine)\b"
)


def test_prose_says_per() -> None:
    assert TELEGRAPH.search("100 samples an image")
    assert not TELEGRAPH.search("ten times a second, and it certifies a class")
    assert TELEGRAPH.search("one scale, or one an output channel")
    pages = [page for folder in (".", "docs", "bench", "proofs", "redteam", "web") for page in find_pages(folder)]
    found = [f"{page.relative_to(ROOT)}:{number}: {line}" for page in pages
             for number, line in prose(page.read_text("utf-8")) if TELEGRAPH.search(line)]  # fmt: skip
    assert not found


def find_pages(folder: str) -> list[Path]:
    return sorted((ROOT / folder).glob("*.md" if folder == "." else "**/*.md"))
