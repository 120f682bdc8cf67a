"""The house rules that tools can check: formatting, lint, types."""

import importlib.util
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
    """Without PyTorch the two rooms that need it are left out, however they are reached: its types would be unknown."""
    without = ["--exclude", "src/intrs/(train|attack)/", "--follow-imports", "silent"]
    run(sys.executable, "-m", "mypy", *([] if importlib.util.find_spec("torch") else without))


def test_clang_format() -> None:
    sources = sorted(str(path) for folder in ("core", "tests/native") for path in (ROOT / folder).rglob("*.[ch]*"))
    run(str(Path(sys.executable).parent / "clang-format"), "--dry-run", "--Werror", *sources)
