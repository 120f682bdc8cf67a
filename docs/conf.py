"""The docs as a site, with warnings as errors: `python -m sphinx -W -c docs . build/site` in the folder above.

The source folder is the whole repository, so that links between its Markdown files hold on the site as they do in the
files. `SITE_WITHOUT_PAGE=1` leaves the live page out, which takes a few seconds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import intrs  # noqa: E402
from tools import reference  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "intrs"
author = "the authors of intrs"
copyright = author
release = intrs.__version__
root_doc = "docs/index"
include_patterns = [
    "docs/**.md", "docs/**.ipynb", "bench/*.md", "proofs/*.md", "redteam/*.md", "web/*.md", "examples/**.md",
    "HACKING.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
]  # fmt: skip
exclude_patterns = [
    ".*", "build", "dist", "src", "tests", "core", "device", "web/node_modules", "**/__pycache__", "docs/runs/*/*.md",
]  # fmt: skip
extensions = ["myst_nb", "sphinx.ext.autodoc"]
myst_enable_extensions = ["deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # the outputs are in the files; tests/test_docs.py runs them and compares
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
add_module_names = False
python_maximum_signature_line_length = 88
html_theme = "furo"
html_title = "intrs"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"

GENERATED = {"docs/command-line": reference.command_line, "docs/python-api": reference.python_api}
PAGE = "page"  # the folder of the live page
LIVE = f'<p><a href="../{PAGE}/index.html">Open the page</a></p>'
FRONT = '<!doctype html><meta charset="utf-8"><title>intrs</title><meta http-equiv="refresh" content="0; url={0}">'


def fill(_: Sphinx, name: str, source: list[str]) -> None:
    """Put what is generated into its page, and a link to the live page where only the site has it."""
    if name in GENERATED:
        source[0] = source[0].replace(reference.MARK, GENERATED[name]())
    if name == "docs/web-page":
        title, rest = source[0].split("\n\n", 1)
        source[0] = f"{title}\n\n{LIVE}\n\n{rest}"


def read_docstring(*event: Any) -> None:
    """Docstrings are written for people who read the code."""
    lines: list[str] = event[-1]
    lines[:] = reference.as_rst(lines)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Add the live page, and the front of the site, which leads to the index."""
    if error or app.builder.format != "html":
        return
    (Path(app.outdir) / "index.html").write_text(FRONT.format(f"{root_doc}.html"), "utf-8")
    if not os.environ.get("SITE_WITHOUT_PAGE"):
        intrs.web(Path(app.outdir) / PAGE, overwrite=True, progress=False)


def setup(app: Sphinx) -> None:
    """Sphinx calls it."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("build-finished", finish)
