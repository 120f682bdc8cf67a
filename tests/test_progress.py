"""Progress is a callback; people see a bar, a line in a pipe, or HTML in a notebook."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from intrs import progress
from intrs.progress import Progress, reporting

if TYPE_CHECKING:
    import pytest


def test_what_a_caller_may_give(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    with reporting(seen.append) as report:
        assert report
        report(Progress(1, 2))
    assert seen == [(1, 2, "samples", "")]
    for silent in (False, None):  # None: here is a pipe
        with reporting(silent) as report:
            assert report is None
    assert capsys.readouterr().err == ""


def test_lines_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with reporting(True) as report:
        assert report
        report(Progress(0, 10, "images"))  # says nothing yet, so there is no line
        report(Progress(0, 10, "images", "image 1 of 10"))
        report(Progress(5, 10, "images", "image 6 of 10"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "image 1 of 10"
    assert lines[1].startswith("image 6 of 10, ")
    assert lines[1].endswith("1 s left")


class Notebook:
    """IPython in a kernel, as far as it is used."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.updates = 0

    def get_ipython(self) -> Any:
        return type("ZMQInteractiveShell", (), {})()

    def display(self, html: str, display_id: bool) -> Any:
        assert display_id
        self.shown.append(html)
        return SimpleNamespace(update=self.update)

    def update(self, html: str) -> None:
        self.updates += 1
        self.shown.append(html)


def test_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = Notebook()
    module = SimpleNamespace(HTML=str, display=notebook.display)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_UPDATES", 0.0)
    with reporting(None) as report:
        assert report
        for done in range(4):
            report(Progress(done, 3, "images", "<b>"))
    assert notebook.updates == 3, "one bar, drawn again in place"
    assert '<progress max="3" value="3"' in notebook.shown[-1]
    assert "&lt;b&gt;" in notebook.shown[-1]
    assert capsys.readouterr() == ("", "")
