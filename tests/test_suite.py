"""The tests themselves: each has a module that it tests, markers name real tests, and CI refuses unexpected skips."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest
from conftest import MARKERS, MAY_SKIP

TESTS = Path(__file__).parent
ROOT = TESTS.parent
FILES = sorted(TESTS.glob("test_*.py"))

# Tests of no single module, and what they test instead.
OTHERS = {
    "baselines": "float_engine with the classical noise and bounds",
    "boards": "the device runtime on emulated boards",
    "datasets": "the readers in data/",
    "native": "the core under sanitizers and on other processors",
    "package": "what importing the package costs and promises",
    "plot": "figures of the command line",
    "published": "the runs that the docs rest on",
    "rooms": "the order of rooms",
    "sampler": "core/noise",
    "style": "what tools can check",
    "suite": "the tests themselves",
    "unlabelled": "images without labels, through all rooms",
    "wheel": "the way of somebody who is new",
}


def test_every_file_tests_something_that_is_there() -> None:
    """A module, a folder or one of the others, by its whole name or by what stands before an underscore."""
    places = [path for folder in ("src/intrs", "core") for path in (ROOT / folder).rglob("*")]
    known = {path.stem for path in places} | {path.name for path in ROOT.iterdir()} | set(OTHERS)
    lost = [path.name for path in FILES if not known & set(accumulate(path.stem.split("_")[1:], "{}_{}".format))]
    assert not lost


@pytest.mark.parametrize("beginning", [*(name for names in MARKERS.values() for name in names), *MAY_SKIP])
def test_markers_and_skips_name_real_tests(beginning: str) -> None:
    file, _, name = beginning.partition("::")
    function = re.escape(name.partition("[")[0])
    assert re.search(rf"^def (?=test_){function}", (TESTS / file).read_text("utf-8"), re.M)


SKIPPING = """
import pytest

@pytest.mark.skip(reason="never runs")
def test_marked() -> None: ...

def test_inside() -> None:
    pytest.skip("not here")

@pytest.mark.xfail
def test_expected_to_fail() -> None:
    raise ValueError
"""
MODULE = """
import pytest

pytest.importorskip("no_such_module")

def test_of_it() -> None: ...
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ".", "-c", os.devnull, *arguments]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("INTRS_NO_SKIPS", "PYTEST"))}
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_where_ci_asks_for_it_a_skip_is_a_failure(tmp_path: Path, workers: str) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_a.py").write_text(SKIPPING)
    (tmp_path / "test_b.py").write_text(MODULE)
    allowed = run(tmp_path, "-n", workers)
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    assert "3 skipped, 1 xfailed" in allowed.stdout
    refused = run(tmp_path, "-n", workers, "--continue-on-collection-errors", INTRS_NO_SKIPS="1")
    assert refused.returncode == 1, refused.stdout + refused.stderr
    for name in ("test_a.py::test_marked", "test_a.py::test_inside", "test_b.py::"):
        assert f"{name} may not be skipped here" in refused.stdout
    assert re.search(r"1 failed, 1 xfailed,.* 2 errors", refused.stdout), "what a marker or a module skips is an error"


def test_a_skip_on_the_list_is_allowed(tmp_path: Path) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_results.py").write_text(SKIPPING.replace("test_marked", "test_a_folder_that_may_not_be_written"))
    found = run(tmp_path, "-n", "0", INTRS_NO_SKIPS="1")
    assert "1 failed, 1 skipped, 1 xfailed" in found.stdout
