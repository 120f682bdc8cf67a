"""The house rules that tools can check: formatting, lint, types, and links."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def find_pages(folder: str) -> list[Path]:
    return sorted((ROOT / folder).glob("*.md" if folder == "." else "**/*.md"))
