"""The house rules that tools can check: formatting, lint, types, and that data flows one way."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "intrs"


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [("check", "."), ("format", "--check", ".")], ids=["lint", "format"])
def test_ruff(command: tuple[str, ...]) -> None:
    run(sys.executable, "-m", "ruff", *command)


def test_mypy() -> None:
    """Without PyTorch the two rooms that need it are left out, however they are reached: its types would be unknown."""
    without = ["--exclude", "src/intrs/(training|pgd)/", "--follow-imports", "silent"]
    run(sys.executable, "-m", "mypy", *([] if importlib.util.find_spec("torch") else without))


def test_clang_format() -> None:
    sources = sorted(str(path) for folder in ("core", "tests/native") for path in (ROOT / folder).rglob("*.[ch]*"))
    run(str(Path(sys.executable).parent / "clang-format"), "--dry-run", "--Werror", *sources)


def imported(path: Path) -> set[str]:
    """The modules that a file names, in imports or as text; of `from a import b` both a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                beside = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
                module = ".".join([*beside, *([node.module] if node.module else [])])
                found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Constant(value=str(text)):
                found.add(text)
    return found


def test_only_the_command_line_imports_the_command_line() -> None:
    """`intrs.cli` is the last room of the map in HACKING.md."""
    assert "intrs.cli.screen" in imported(PACKAGE / "cli" / "run.py"), "an import would be seen"
    before = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(PACKAGE / "cli")]
    assert len(before) > 50
    for path in before:
        offending = [name for name in imported(path) if re.fullmatch(r"intrs\.cli(\.\w+)*", name)]
        assert not offending, f"{path.relative_to(ROOT)}: {offending}"


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
