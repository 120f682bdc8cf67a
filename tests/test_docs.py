"""The docs as a site: it builds without a warning, its links lead somewhere, and its reference is complete."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import FunctionType
from urllib.parse import unquote, urlsplit

import pytest

import intrs
from intrs.cli.arguments import GROUPS
from tools import reference

ROOT = Path(__file__).parent.parent


class Page(HTMLParser):
    """What a page links to, and the places in it that others may link to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("furo")
    pytest.importorskip("myst_nb")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-d", str(out / "kept")]
    done = subprocess.run(
        [*command, ".", str(out / "html")], cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


def broken(folder: Path) -> list[str]:
    """Links to files or places that are not there; other machines are not asked."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(folder)}: {link} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{path.relative_to(folder)}: {link} has no such place")
    return found


def test_the_site(site: Path) -> None:
    """One test, because every process that runs a part of it would build the site."""
    assert len(list(site.rglob("*.html"))) > 40
    assert not broken(site)
    assert "docs/index.html" in (site / "index.html").read_text("utf-8")
    carries_the_live_page(site)
    reference_is_complete(site)


def carries_the_live_page(site: Path) -> None:
    assert (site / "page" / "index.html").is_file()
    assert list((site / "page" / "models").iterdir())
    assert "../page/index.html" in Page(site / "docs" / "index.html").links


def reference_is_complete(site: Path) -> None:
    commands = (site / "docs" / "command-line.html").read_text("utf-8")
    assert all(f'id="intrs-{name}"' in commands for names in GROUPS.values() for name in names)
    named = Page(site / "docs" / "python-api.html").ids
    functions_and_classes = set(intrs.__all__) - set(intrs._ROOMS) - {"__version__"}
    assert {f"intrs.{name}" for name in functions_and_classes} <= named


def test_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a> <a href="c.html">c</a> <img src="d.png">')
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="#there"></a> <a href="https://example.org/x">x</a>')
    assert broken(tmp_path) == [
        "a.html: b.html#here has no such place",
        "a.html: c.html is not there",
        "a.html: d.png is not there",
    ]


def test_the_command_line_is_complete() -> None:
    text = reference.command_line()
    for name, parser in reference._commands().items():
        section = text.split(f"### intrs {name}\n")[1].split("\n### ")[0]
        assert f"```text\nintrs {name} " in section
        for action in parser._actions:
            assert f"`{reference._names(action)}`\n: " in section
    assert "`--n0 N0`\n: samples per image that select the class (100)" in text
    assert "`-o FILE, --out FILE`\n: the results of the whole run (required)" in text
    assert "`--ray [ADDRESS]`" in text
    assert "1%%" not in text


def test_the_python_reference_names_what_is_public() -> None:
    text = reference.python_api()
    named = {line.split(":: ")[1] for line in text.splitlines() if line.startswith(".. ")}
    assert {f"intrs.{name}" for name in intrs.__all__ if name not in intrs._ROOMS} <= named
    for room in intrs._ROOMS:
        module = import_module(f"intrs.{room}")
        public = set(reference._public(module)) - set(intrs._WHERE)
        assert public, room
        assert {f"intrs.{room}.{name}" for name in public} <= named
    assert ".. autofunction:: intrs.certify" in text
    calls = [value for name in intrs.__all__ if isinstance(value := getattr(intrs, name), FunctionType)]
    returned = {str(call.__annotations__["return"]) for call in calls}
    assert "Verified" in returned
    assert returned <= {name.rpartition(".")[2] for name in named}
    assert ".. autoexception:: intrs.DataError" in text


def test_docstrings_become_what_autodoc_reads() -> None:
    lines = ["Counts `votes` of *all*, f_:", "", "    run = f(x)  # `as it is`", "", "and more_."]
    assert reference.as_rst(lines) == [
        "Counts ``votes`` of \\*all\\*, f\\_:",
        "",
        "::",
        "",
        "    run = f(x)  # `as it is`",
        "",
        "and more\\_.",
    ]
