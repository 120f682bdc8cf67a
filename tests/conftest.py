"""What tests of several modules share: a command to run, the markers, and the skips that are allowed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from intrs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

# Which tests get which marker, by how `file::name` begins. `browser` is given by `browser.in_browser`. A test that has
# none of LONG is `quick`: daily work runs those.
MARKERS = {
    "style": ("test_rooms.py::", "test_style.py::", "test_suite.py::"),
    "native": (
        "test_boards.py::",
        "test_device.py::",
        "test_native.py::",
        "test_wheel.py::",
        "test_web.py::test_the_sources_compile_to_the_same_bytes",
    ),
    "train": (
        "test_onnx_in.py::test_architectures",
        "test_pgd.py::",
        "test_pretrained.py::",
        "test_pytorch_export.py::",
        "test_training.py::",
        "test_training_layers.py::",
        "test_training_onnx.py::",
        "test_training_own.py::",
    ),
    "slow": (
        "test_adaptive.py::test_coverage_by_simulation",
        "test_adaptive.py::test_false_certificates_",
        "test_adaptive.py::test_tables_are_confirmed",
        "test_certificate.py::test_lower_bound_where_floats_fail",
        "test_cli.py::test_kill_and_resume",
        "test_cli.py::test_verify_finds_every_change",
        "test_core.py::test_exit_",
        "test_data_limits.py::test_a_bomb_is_refused_before_it_is_unpacked",
        "test_docs.py::test_the_notebooks",
        "test_docs.py::test_the_readme",
        "test_docs.py::test_the_site",
        "test_docs.py::test_the_tutorial",
        "test_examples.py::",
        "test_experiments.py::",
        "test_network.py::test_damaged_bytes_are_refused_or_another_network",
        "test_onnx_in.py::test_fuzz",
        "test_onnx_in.py::test_large_networks_load_in_seconds",
        "test_onnx_in.py::test_quantize_static",
        "test_onnx_in.py::test_what_a_file_may_cost",
        "test_onnx_in.py::test_small_files_cannot_ask_for_much",
        "test_proofs.py::",
        "test_quantize.py::",
        "test_ray.py::test_a_cluster_gives_the_bytes",
        "test_ray.py::test_a_keeper",
        "test_ray.py::test_faults_change_nothing",
        "test_ray.py::test_what_a_cluster_may_lack",
        "test_redteam.py::",
        "test_reports.py::test_the_page_is_small",
        "test_suite.py::test_where_ci_asks_for_it_a_skip_is_a_failure",
        "test_tflite.py::test_what_a_file_may_cost",
        "test_tflite_graphs.py::test_fuzzed_files_",
        "test_tflite_graphs.py::test_random_graphs_",
        "test_tosa_shipped.py::",
        "test_web.py::test_certificates",
        "test_web.py::test_fixed_numbers_of_samples_and_abstentions",
        "test_web.py::test_golden_votes",
        "test_web.py::test_interrupted_and_continued",
        "test_web.py::test_mutated_files_do_no_harm",
        "test_web.py::test_votes_of_random_networks",
    ),
}
LONG = ("native", "browser", "train", "slow")

# The only tests that may be skipped where INTRS_NO_SKIPS is set, as `.ci/run` does, and why.
MAY_SKIP = {
    "test_metrics.py::test_published_accuracies": "the public logs that it reads are not ours to ship",
    "test_onnx_in.py::test_one_layer[conv dead channels-fused]": "ONNX Runtime, with which it compares, overflows",
    "test_results.py::test_a_folder_that_may_not_be_written": "root may write everywhere",
}

# Nor this, wherever it is missed.
MAY_MISS = {"TFLite Micro is not installed": "it has dated releases only, which may be withdrawn"}


def name_of(item: pytest.Item | pytest.Collector) -> str:
    """`file::name`, without the folder."""
    return f"{item.path.name}::{'' if isinstance(item, pytest.Module) else item.name}"


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker, patterns in MARKERS.items():
            if name_of(item).startswith(patterns):
                item.add_marker(marker)
        if not any(item.get_closest_marker(marker) for marker in LONG):
            item.add_marker("quick")


def refuse_skip(report: pytest.TestReport | pytest.CollectReport, name: str) -> None:
    """Turn a skip that is not in MAY_SKIP into a failure, where CI asks for it."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    missed = any(words in str(reason) for words in MAY_MISS)
    expected = hasattr(report, "wasxfail") or name.startswith(tuple(MAY_SKIP)) or missed
    if os.environ.get("INTRS_NO_SKIPS") and report.skipped and not expected:
        report.outcome = "failed"
        report.longrepr = f"{reason}\n{name} may not be skipped here: MAY_SKIP of tests/conftest.py does not list it."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report, name_of(item))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report, name_of(collector))
    return report


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
