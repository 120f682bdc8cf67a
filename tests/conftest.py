"""What tests of several modules run commands with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from intrs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def intrs(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command in the module's folder `here`; exit code, stdout, stderr."""
    assert here.is_dir()

    def call(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call
