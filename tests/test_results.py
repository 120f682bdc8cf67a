"""Results files: what is written is what is read, exactly, whatever happens in between."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from runs import described, with_fields

from intrs import metrics, plot, report, results, verify
from intrs.certificate import Abstained, Certified
from intrs.errors import IntrsError, ResultsError
from intrs.noise import Noise
from intrs.results import Row, Run
from intrs.smooth import Predicted
from intrs.votes import SELECTION, Samples, Votes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOISE, ALPHA = Noise.of("discrete", "0.25"), Fraction(1, 1000)
RUN = described()
INDICES = [0, 20, 40, 60]
PLAN = "n=100 radii=1/4 give_up=1/2"


def row(index: int, radius_sq: int | None, label: int = 1, predict: int = 1) -> Row:
    selection = Votes((1, 9), NOISE, Samples(7, index, SELECTION, 10))
    estimation = Votes((20, 80), NOISE, Samples(7, index, 0, 100))
    outcome = Abstained(80, 100, ALPHA, "") if radius_sq is None else Certified(predict, radius_sq, 80, 100, ALPHA)
    return Row.of(label, outcome, selection, estimation, 1.25)


ROWS = [row(0, 0), row(20, None), row(40, 65025), row(60, 65024, label=0)]


def write(path: Path, rows: list[Row], run: Run = RUN) -> Path:
    with results.create(path, run) as writer:
        for each in rows:
            writer.append(each)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    assert results.read(path) == (RUN, ROWS)
    assert json.loads((tmp_path / "r.tsv.json").read_text())["sigma"] == "1/4"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.tsv", "r.tsv.json"]


@pytest.mark.parametrize("name", ["a\u00a0b.npz", "\x1b[31m", "\udcff", "two\nlines"])
def test_any_file_name_is_read_back(tmp_path: Path, name: str) -> None:
    run = with_fields(RUN, data=name)
    path = write(tmp_path / "r.tsv", ROWS[:1], run)
    assert results.read(path) == (run, ROWS[:1])
    results.resume(path, run, INDICES).close()


def test_the_lines_themselves(tmp_path: Path) -> None:
    lines = write(tmp_path / "r.tsv", ROWS).read_text().splitlines()
    assert lines[0].split("\t")[:6] == ["idx", "label", "predict", "radius", "correct", "time"]
    assert lines[1] == "0\t1\t1\t0.000000\t1\t0:00:01.250000\t10\t100\t80\t0\t1,9\t20,80"
    assert lines[2] == "20\t1\t-1\t0.0\t0\t0:00:01.250000\t10\t100\t80\t-1\t1,9\t20,80"
    assert lines[3].split("\t")[3] == "1.000000"
    assert lines[4].split("\t")[3:5] == ["0.999992", "0"]  # sqrt(65024)/255 = 0.99999231...: down, not to nearest


def test_abstention_is_no_number_in_the_library() -> None:
    assert ROWS[1].predict is None
    assert ROWS[1].radius_sq is None
    assert ROWS[0].radius_sq == 0


def test_a_prediction_has_radius_zero() -> None:
    votes = Votes((1, 9), NOISE, Samples(7, 5, 0, 10))
    made = Row.of(1, Predicted(1, 9, 10, ALPHA), Votes((0, 0), NOISE, Samples(7, 5, 0, 0)), votes, 0.5)
    assert (made.predict, made.radius, made.radius_sq, made.n0) == (1, "0.0", 0, 0)


def test_existing_analysis_scripts_read_it(tmp_path: Path) -> None:
    """As locuslab/smoothing's analyze.py does."""
    df = pd.read_csv(write(tmp_path / "r.tsv", ROWS), delimiter="\t")
    assert list(df.columns[:6]) == ["idx", "label", "predict", "radius", "correct", "time"]
    at = [(df["correct"] & (df["radius"] >= r)).mean() for r in (0.0, 0.25, 1.0, 1.25)]
    assert at == [0.5, 0.25, 0.25, 0.0]
    assert (df["predict"] == -1).mean() == 0.25
    assert df["radius"].dtype == float
    assert df["radius_sq"].tolist() == [0, -1, 65025, 65024]


# --- resuming --------------------------------------------------------------------------------------------------------


def test_resume_after_every_possible_cut(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.tsv", ROWS).read_bytes()
    path = tmp_path / "r.tsv"
    for cut in {*range(0, len(whole), 7), len(whole), *(whole.index(each) for each in whole.splitlines())}:
        results.write_run(path, RUN)
        path.write_bytes(whole[:cut])
        with results.resume(path, RUN, INDICES) as writer:
            done = len(writer.rows)
            assert done == max(whole[:cut].count(b"\n") - 1, 0)
            for each in ROWS[done:]:
                writer.append(each)
        assert path.read_bytes() == whole


def test_resume_with_zeros_for_an_end(tmp_path: Path) -> None:
    """What a file system may leave after the power went."""
    path = write(tmp_path / "r.tsv", ROWS[:2])
    path.write_bytes(path.read_bytes() + bytes(500))
    with results.resume(path, RUN, INDICES) as writer:
        assert writer.rows == ROWS[:2]


@pytest.mark.parametrize("field", results.SAME)
def test_resume_names_the_differing_field(tmp_path: Path, field: str) -> None:
    run = with_fields(RUN, noise_table="2" * 64, shard="1/2", dialect="tflm")
    path = write(tmp_path / "r.tsv", ROWS[:2], run)
    before = path.read_bytes()
    old: Any = run.to_json()[field]
    other = {
        "command": "predict", "seed": "0x8", "adaptive": PLAN, "sigma": "1/2", "alpha": "1/100", "noise": "rounded",
        "bound": "paper", "form": "two", "shard": "2/2", "dialect": "litert",
    }  # fmt: skip
    new: Any = old + 1 if isinstance(old, int) else other.get(field, "f" * len(old))
    besides = {"bound": "", "form": "", "n0": 0} if field == "command" else {}
    with pytest.raises(ResultsError, match=f"{field}: {old} in the file, {new} now"):
        results.resume(path, with_fields(run, **{field: new}, **besides), INDICES)
    assert path.read_bytes() == before
    assert results.read_run(path) == run


def test_resume_takes_more_images_and_moved_files(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS[:2])
    moved = with_fields(RUN, max=5, model="elsewhere.onnx", kernels="other")
    results.resume(path, moved, [*INDICES, 80]).close()
    assert results.read_run(path) == with_fields(RUN, max=5, model="elsewhere.onnx")
    with pytest.raises(IntrsError, match="it has 2 images, more than the 1 asked for"):
        results.resume(path, with_fields(RUN, max=1), INDICES[:1])


def test_resume_refuses_other_images(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS[:2])
    with pytest.raises(IntrsError, match="line 3 is about image 20, not 21"):
        results.resume(path, RUN, [0, 21, 40])


def test_resume_without_description(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS[:2])
    results.sidecar_path(path).unlink()
    with pytest.raises(IntrsError, match=r"r\.tsv\.json, which says how it was made, is missing"):
        results.resume(path, RUN, INDICES)
    assert path.exists()


def test_resume_of_nothing_begins(tmp_path: Path) -> None:
    with results.resume(tmp_path / "r.tsv", RUN, INDICES) as writer:
        writer.append(ROWS[0])
    assert results.read(tmp_path / "r.tsv") == (RUN, ROWS[:1])


@pytest.mark.parametrize("begin", [partial(results.resume, indices=INDICES), partial(results.create, overwrite=True)])
def test_packed_results_keep_their_description(tmp_path: Path, begin: Callable[[Path, Run], object]) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    path.rename(tmp_path / "r.tsv.xz")
    before = results.sidecar_path(path).read_bytes()
    with pytest.raises(ResultsError, match=r"r\.tsv\.xz is there, .* \(unxz r\.tsv\.xz\), or choose another name"):
        begin(path, with_fields(RUN, max=2))
    assert (path.exists(), results.sidecar_path(path).read_bytes()) == (False, before)


# --- what is not overwritten -----------------------------------------------------------------------------------------


def test_existing_files_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    before = path.read_bytes()
    with pytest.raises(IntrsError, match=r"r\.tsv exists: resume the run"):
        results.create(path, RUN)
    assert path.read_bytes() == before
    path.unlink()
    with pytest.raises(IntrsError, match=r"r\.tsv\.json exists"):
        results.create(path, RUN)
    assert not path.exists()


def test_overwrite_replaces_results_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    other = with_fields(RUN, seed="0x8")
    results.create(path, other, overwrite=True).close()
    assert results.read(path) == (other, [])
    path.write_text("precious\n")
    with pytest.raises(IntrsError, match="not a results file"):
        results.create(path, RUN, overwrite=True)
    with pytest.raises(IntrsError, match="not a results file"):
        results.resume(path, other, INDICES)
    assert path.read_text() == "precious\n"


@pytest.mark.parametrize("exists", [True, False])
def test_overwrite_leaves_a_file_with_the_name_of_the_description(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "r.tsv"
    if exists:
        write(path, ROWS)
    precious = results.sidecar_path(path)
    precious.write_text('{"format": "of another program"}')
    with pytest.raises(IntrsError, match=r"r\.tsv\.json is left as it is; remove it, or choose another name"):
        results.create(path, RUN, overwrite=True)
    assert precious.read_text() == '{"format": "of another program"}'
    assert path.exists() == exists


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IntrsError, match="not a regular file"):
        results.create(tmp_path, RUN, overwrite=True)


@pytest.mark.parametrize("name", ["nowhere/r.tsv", "file/r.tsv"])
def test_places_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IntrsError, match="cannot write"):
        results.create(tmp_path / name, RUN)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(IntrsError, match=r"cannot write .*Permission denied"):
        results.create(tmp_path / "r.tsv", RUN)


# --- disks, locks ----------------------------------------------------------------------------------------------------


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = results.create(tmp_path / "r.tsv", RUN)
    writer.append(ROWS[0])
    writer.append(ROWS[1])

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(ResultsError, match=r"No space left on device\. Its 2 lines so far are kept; .*resume"):
            writer.append(ROWS[2])
    writer.append(ROWS[2])
    writer.close()
    assert results.read(tmp_path / "r.tsv") == (RUN, ROWS[:3])


FILL = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_results import RUN, ROWS, results
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with results.create(Path({path!r}), RUN) as writer:
    for _ in range(100):
        writer.append(ROWS[0])
"""


def test_a_disk_that_fills_up_keeps_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.tsv"
    script = FILL.format(here=os.path.dirname(__file__), path=str(path))  # noqa: PTH120
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "ResultsError" in run.stderr
    assert "lines so far are kept" in run.stderr
    assert path.read_bytes().endswith(b"\n")
    found, rows = results.read(path)
    assert found == RUN
    assert rows == [ROWS[0]] * len(rows)
    assert 900 < path.stat().st_size <= 1000


def test_a_run_that_cannot_start_costs_no_old_results(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    script = FILL.format(here=os.path.dirname(__file__), path=str(path))  # noqa: PTH120
    script = script.replace("(1000, 1000)", "(0, 0)").replace("RUN) as", "RUN, overwrite=True) as")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "ResultsError: cannot write" in run.stderr
    assert results.read(path) == (RUN, ROWS)
    assert len(list(tmp_path.iterdir())) == 2


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "r.tsv"
    with results.create(path, RUN) as writer:
        writer.append(ROWS[0])
        with pytest.raises(IntrsError, match="another process is writing"):
            results.resume(path, RUN, INDICES)
        with pytest.raises(IntrsError, match="another process is writing"):
            results.create(path, RUN, overwrite=True)
    assert results.read(path) == (RUN, ROWS[:1])
    results.resume(path, RUN, INDICES).close()


# --- files from strangers --------------------------------------------------------------------------------------------

GOOD = "0\t1\t1\t0.5\t1\t0:00:01\t10\t100\t80\t0\t1,9\t20,80"


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("idx", "-1"), ("idx", ""), ("idx", "1.0"), ("idx", "1" * 30), ("label", "x"), ("predict", "-2"),
        ("radius", "nan"), ("radius", "inf"), ("radius", "-0.5"), ("radius", "1e9"), ("correct", "-1"),
        ("time", "\x1b[31m"), ("time", ""), ("n", "-1"), ("votes", " 8"), ("votes", "٨"), ("radius_sq", "-2"),
        ("counts0", ""), ("counts", "1,,2"), ("counts", "1,-1"), ("counts", "020,80"),
        ("votes", "080"), ("label", "00"), ("counts", "1," * 600_000 + "1"),
    ],
)  # fmt: skip
def test_malformed_cells(tmp_path: Path, column: str, cell: str) -> None:
    cells = GOOD.split("\t")
    cells[results.COLUMNS.index(column)] = cell
    path = write(tmp_path / "r.tsv", ROWS)
    path.write_text(results.HEADER + GOOD + "\n" + "\t".join(cells) + "\n" + GOOD + "\n")
    with pytest.raises(IntrsError, match="line 3: malformed"):
        results.read(path)


@pytest.mark.parametrize("text", ["", "idx\tlabel\n", "\0" * 5000, "x" * 2_000_000, GOOD + "\n", "\n" + results.HEADER])
def test_not_a_results_file(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    path.write_text(text)
    if text:
        with pytest.raises(IntrsError, match="not a results file"):
            results.read(path)
    else:
        assert results.read(path) == (RUN, [])


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("utf-8-sig", "an editor put a byte order mark before its first line; save it as UTF-8 without"),
        ("CRLF", r"an editor changed its line ends to CRLF; .* \(dos2unix r\.tsv does both\)"),
        ("utf-8-sig CRLF", "a byte order mark before its first line and changed its line ends to CRLF"),
    ],
)
def test_a_file_that_an_editor_saved_in_another_form(tmp_path: Path, form: str, words: str) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    text = path.read_text().replace("\n", "\r\n" if "CRLF" in form else "\n")
    path.write_bytes(text.encode("utf-8-sig" if "sig" in form else "utf-8"))
    for reader in (results.read, metrics.read):
        with pytest.raises(ResultsError, match=words):
            reader(path)


def test_wrong_number_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    for line in (GOOD + "\t1", "0\t1\t1\t0.5\t1\t0:00:01", "", "\udcff"):
        path.write_bytes((results.HEADER + line + "\n").encode(errors="surrogateescape"))
        with pytest.raises(IntrsError, match="line 2: malformed"):
            results.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "intrs results 2"}, {"n": "100"}, {"n": -1}, {"n": True}, {"n": 2**63}, {"skip": 0}, {"max": 0},
        {"seed": 7}, {"seed": "7"}, {"seed": "0x" + "f" * 65}, {"sigma": None}, {"model": "x" * 20_000},
        {"identity": "0"}, {"command": "rm"}, {"n": 1.5}, {"n": [1]},
    ],
)  # fmt: skip
def test_malformed_descriptions(tmp_path: Path, change: dict[str, Any]) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    sidecar = results.sidecar_path(path)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | change))
    with pytest.raises(IntrsError, match=r"r\.tsv\.json: not the description of a run .*(format|field)"):
        results.read(path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, " " * 2_000_000, "\x80", '{"n": 1' + "0" * 9999]
)
def test_descriptions_that_are_no_json(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    results.sidecar_path(path).write_bytes(text.encode("latin-1"))
    with pytest.raises(IntrsError, match=r"not the description of a run|larger than"):
        results.read(path)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(IntrsError, match=r"cannot read .*r\.tsv: No such file"):
        results.read(tmp_path / "r.tsv")
    path = write(tmp_path / "r.tsv", ROWS)
    results.sidecar_path(path).unlink()
    with pytest.raises(IntrsError, match=r"cannot read .*r\.tsv\.json: No such file"):
        results.read(path)


# --- Adaptive runs ---------------------------------------------------------------------------------------------------


ADAPTIVE = with_fields(RUN, adaptive=PLAN)
LONGER = with_fields(RUN, n=200, adaptive=f"{PLAN}; n=200 radii=1/4 give_up=1/2")
STOPPED = [replace(each, look=i, rule="spending-0123456789abcdef") for i, each in enumerate(ROWS)]
INDICES = [row.idx for row in ROWS]


def test_adaptive_results_are_read_back(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", STOPPED, ADAPTIVE)
    assert results.read(path) == (ADAPTIVE, STOPPED)
    lines = path.read_text().splitlines()
    assert lines[0].split("\t")[-2:] == ["look", "rule"]
    assert lines[3].split("\t")[-2:] == ["2", "spending-0123456789abcdef"]
    with results.resume(path, ADAPTIVE, INDICES) as writer:
        assert writer.rows == STOPPED


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_adaptive_results_are_resumed_wherever_they_were_cut(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "r.tsv", STOPPED, ADAPTIVE)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    with results.resume(path, ADAPTIVE, INDICES) as writer:
        for each in STOPPED[len(writer.rows) :]:
            writer.append(each)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("adaptive", "words"),
    [("", "its columns are not those"), ("n=100", "not the description"), (7, "not the description"),
     ("n=99 radii=1/4 give_up=1/2", "not of this run"), ("n=100 radii=1/0 give_up=1/2", "not the description")],
)  # fmt: skip
def test_a_description_of_something_else(tmp_path: Path, adaptive: Any, words: str) -> None:
    path = write(tmp_path / "r.tsv", STOPPED, ADAPTIVE)
    sidecar = results.sidecar_path(path)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"adaptive": adaptive}))
    with pytest.raises(IntrsError, match=words):
        results.read(path)


@pytest.mark.parametrize("cell", ["", "-1", "x", "01", "9" * 20])
def test_looks_that_are_none(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path / "r.tsv", STOPPED[:1], ADAPTIVE)
    path.write_text(path.read_text().replace("\t0\tspending", f"\t{cell}\tspending"))
    with pytest.raises(IntrsError, match="line 2: malformed"):
        results.read(path)
    path.write_text(path.read_text().replace(f"\t{cell}\tspending", "\t0\tSpending"))
    with pytest.raises(IntrsError, match=r"line 2: malformed \(rule"):
        results.read(path)


@pytest.mark.parametrize("time", ["999999999 days, 1:00:00", "1:60:00", "24:00:00", "99:99:99"])
def test_times_that_are_none(tmp_path: Path, time: str) -> None:
    path = write(tmp_path / "r.tsv", ROWS[:1])
    path.write_text(path.read_text().replace(ROWS[0].time, time))
    with pytest.raises(IntrsError, match=r"line 2: malformed \(time"):
        results.read(path)


def test_more_samples_than_can_be_judged_are_refused(tmp_path: Path) -> None:
    """A bound on that many votes would take minutes, whatever the file's size."""
    path = write(tmp_path / "r.tsv", ROWS)
    sidecar = results.sidecar_path(path)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"n": 10**15}))
    with pytest.raises(IntrsError, match="n: at most 100,000,000 is possible"):
        results.read(path)


def test_descriptions_of_earlier_versions(tmp_path: Path) -> None:
    """They do not speak of adaptive runs."""
    path = write(tmp_path / "r.tsv", ROWS)
    sidecar = results.sidecar_path(path)
    fields = json.loads(sidecar.read_text())
    del fields["adaptive"]
    sidecar.write_text(json.dumps(fields))
    assert results.read(path) == (RUN, ROWS)


def test_extending_sets_the_old_results_aside(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", STOPPED[:3], ADAPTIVE)
    old = path.read_bytes()
    results.extend(path, LONGER, INDICES).close()
    assert results.read(path) == (LONGER, [])
    aside = results.set_aside_path(path, LONGER)
    assert (aside.name, aside.read_bytes()) == ("r.tsv.stage1", old)
    assert results.set_aside(path, LONGER) == {row.idx: row for row in STOPPED[:3]}
    assert results.set_aside(path, ADAPTIVE) == {}
    results.write_run(aside, with_fields(ADAPTIVE, seed="0x9"))
    with pytest.raises(IntrsError, match=r"is not what .* extends\n  seed: 0x9"):
        results.set_aside(path, LONGER)


def test_what_another_run_set_aside_is_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", STOPPED[:2], ADAPTIVE)
    write(results.set_aside_path(path, LONGER), STOPPED, with_fields(ADAPTIVE, seed="0x9"))
    results.extend(path, LONGER, INDICES).close()
    assert results.set_aside(path, LONGER) == {row.idx: row for row in STOPPED[:2]}


def test_extending_with_other_settings(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", STOPPED[:3], ADAPTIVE)
    old = path.read_bytes()
    with pytest.raises(IntrsError, match=r"cannot extend .*\n  seed: 0x7 in the file, 0x8 now"):
        results.extend(path, with_fields(LONGER, seed="0x8"), INDICES)
    assert path.read_bytes() == old
    assert results.read_run(path) == ADAPTIVE


@contextlib.contextmanager
def killed_before_it_describes(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The description of this file is written whole, and the process ends before it takes its place."""
    rename = type(path).replace

    def die(self: Path, target: Path) -> Path:
        if target == results.sidecar_path(path):
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "replace", die)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_extending_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when the old lines are gone from the file and the new description is not there yet: none is lost."""
    path = write(tmp_path / "r.tsv", STOPPED[:3], ADAPTIVE)
    with killed_before_it_describes(path, monkeypatch):
        results.extend(path, LONGER, INDICES)
    assert results.read_run(path) == ADAPTIVE
    results.extend(path, LONGER, INDICES).close()
    assert results.set_aside(path, LONGER) == {row.idx: row for row in STOPPED[:3]}


def test_lines_that_are_set_aside_never_get_the_description_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run set more lines aside before; this one is killed between its lines and their description."""
    path = write(tmp_path / "r.tsv", STOPPED[:2], ADAPTIVE)
    aside = write(results.set_aside_path(path, LONGER), STOPPED, with_fields(ADAPTIVE, seed="0x9"))
    with killed_before_it_describes(aside, monkeypatch):
        results.extend(path, LONGER, INDICES)
    assert not results.sidecar_path(aside).exists()
    assert results.read(path) == (ADAPTIVE, STOPPED[:2])
    results.extend(path, LONGER, INDICES).close()
    assert results.set_aside(path, LONGER) == {row.idx: row for row in STOPPED[:2]}


def test_an_extension_to_fewer_images_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", STOPPED, ADAPTIVE)
    with pytest.raises(IntrsError, match=r"more than the 2 asked for"):
        results.extend(path, LONGER, INDICES[:2])
    assert results.read(path) == (ADAPTIVE, STOPPED)


def test_an_extension_of_what_another_process_has_extended_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", STOPPED, ADAPTIVE)
    results.extend(path, LONGER, INDICES).close()
    with pytest.raises(IntrsError, match="another process has changed it meanwhile"):
        results.extend(path, LONGER, INDICES)
    assert results.set_aside(path, LONGER) == {row.idx: row for row in STOPPED}


# --- lines are judged again ------------------------------------------------------------------------------------------

JUDGED = with_fields(RUN, dimension=48, classes=2)


def judged(index: int, **changes: Any) -> Row:
    """The line that votes really give, and changes to it."""
    judge = results.Judge(JUDGED, 48, 2)
    selection = Votes((1, 9), NOISE, Samples(7, index, SELECTION, 10))
    estimation = Votes((5, 95), NOISE, Samples(7, index, 0, 100))
    return replace(judge.row(1, selection, estimation), **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"predict": 0, "correct": 0}, "predict is 0, but its votes select class 1"),
        ({"votes": 5}, "votes is 5, but class 1, which was selected"),
        ({"radius_sq": 65025, "radius": "1.000000"}, "radius is 1.000000, should be"),
        ({"radius": "0.600000"}, "radius is 0.600000, but radius_sq says"),
        ({"predict": None, "radius_sq": None, "radius": "0.0", "correct": 0}, "predict is -1, should be 1"),
        ({"counts": (5, 95, 0)}, "counts should be 2 numbers"),
        ({"counts0": (9, 1)}, "predict is 1, but its votes select class 0"),
        ({"label": 99, "correct": 0}, "label is 99, but the model has the classes 0 to 1"),
    ],
)
def test_a_line_that_its_votes_do_not_give(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    results.check_rows(tmp_path, JUDGED, [judged(0), judged(20)])
    path = write(tmp_path / "r.tsv", [judged(0), judged(20, **changes)], JUDGED)
    with pytest.raises(ResultsError, match=f"line 3: .*{words}"):
        results.resume(path, JUDGED, INDICES)
    with pytest.raises(ResultsError, match=f"line 3: .*{words}"):
        metrics.read(path)
    with pytest.raises(ResultsError, match="line 3"):
        plot(path, tmp_path / "f.svg")


def test_files_of_earlier_versions_are_compared_with_themselves(tmp_path: Path) -> None:
    """They do not say how many values an image has, so a radius cannot be judged; the class and the votes can."""
    results.check_rows(tmp_path, RUN, [judged(0, radius_sq=65025, radius="1.000000")])
    with pytest.raises(ResultsError, match="its votes select class 1"):
        results.check_rows(tmp_path, RUN, [judged(0, predict=0, correct=0)])


# --- What a file may cost --------------------------------------------------------------------------------------------

MANY = 10**8
COSTLY = {"noise": "rounded", "sigma": "4", "n": MANY, "dimension": 3072, "classes": 2}
ALL_RADII = {"adaptive": f"n={MANY} radii=100 give_up=7/10"}


def stopped(n: int) -> Row:
    """A line of an adaptive run that claims very many samples."""
    counts = (n // 5, n - n // 5)
    return replace(ROWS[0], n=n, counts=counts, votes=counts[1], look=0, rule="spending-" + "0" * 16)


@pytest.fixture
def _no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.adaptive.rule.make_tables", lambda *_: pytest.fail("tables were made"))


@pytest.mark.usefixtures("_no_tables")
def test_what_would_take_very_long_to_judge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line may claim hundreds of radii for 10^8 samples, of which the tables take hours."""
    path = write(tmp_path / "r.tsv", [stopped(MANY)], with_fields(RUN, **COSTLY, **ALL_RADII))
    for reader in (metrics.read, verify, plot, report, lambda path: results.merge([path])):
        with pytest.raises(ResultsError, match=r"up to 100,000,000 samples would take about \d\d minutes, and anyone"):
            reader(path)
    monkeypatch.setenv("INTRS_READ_MINUTES", "60")
    with pytest.raises(pytest.fail.Exception, match="tables were made"):
        metrics.read(path)
    monkeypatch.setenv("INTRS_READ_MINUTES", "long")
    with pytest.raises(IntrsError, match="INTRS_READ_MINUTES: expected a positive integer"):
        metrics.read(path)


@pytest.mark.usefixtures("_no_tables")
def test_samples_at_no_look_are_refused_before_tables_are_made(tmp_path: Path) -> None:
    few = ALL_RADII | {"adaptive": f"n={MANY} radii=1/4 give_up=7/10"}
    path = write(tmp_path / "r.tsv", [stopped(MANY - 5)], with_fields(RUN, **COSTLY, **few))
    with pytest.raises(ResultsError, match="line 2: counts should be 2 numbers with sum the samples at a look"):
        metrics.read(path)


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"n": MANY, "form": "two"}, 20), ({"n": 10**7, "form": "two"}, 10_000), ({"n": 10**5}, 10**7),
        ({"n": 10**6, "adaptive": f"n=1000000 radii={','.join(map(str, range(1, 11)))} give_up=7/10"}, 10_000),
        ({"n": 10**6, "adaptive": "n=1000000 precision=1/100"}, 10_000),
        ({"n": MANY, "sigma": "1/4", "adaptive": f"n={MANY} radii=0,1/4,1/2,3/4,1,5/4 give_up=7/10"}, 1),
        ({"n": MANY, "command": "predict", "bound": "", "form": "", "n0": 0}, 1000),
    ],
)  # fmt: skip
def test_what_runs_are_like_is_not_refused(tmp_path: Path, fields: dict[str, Any], lines: int) -> None:
    results.check_effort(tmp_path, with_fields(RUN, **COSTLY | fields), lines)


@pytest.mark.parametrize("fields", [{"form": "two"}, {"adaptive": f"n={MANY} precision=1/100"}])
def test_many_lines_of_very_many_samples_are_refused(tmp_path: Path, fields: dict[str, str]) -> None:
    with pytest.raises(ResultsError, match="to judge its lines again"):
        results.check_effort(tmp_path, with_fields(RUN, **COSTLY | fields), 2000)


def test_a_part_of_the_samples_has_no_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    results.write_run(path, with_fields(RUN, shard="2/2:samples"))
    for reader in (results.read, metrics.read, verify, lambda path: results.merge([path])):
        with pytest.raises(ResultsError, match="a part of each image's samples, 2/2:samples, which has votes only"):
            reader(path)


@pytest.mark.parametrize("shard", ["1/5", "5/1000000", "1/101:samples"])
def test_more_parts_than_there_is_to_divide(tmp_path: Path, shard: str) -> None:
    """No run begins so, because some parts would be empty; of 4 images with 100 samples there are not so many."""
    path = write(tmp_path / "r.tsv", ROWS)
    sidecar = results.sidecar_path(path)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"shard": shard}))
    with pytest.raises(ResultsError, match="field 'shard' is of more parts than there is to divide"):
        results.read(path)


@pytest.mark.parametrize("fields", [{"mean": "0" * 20_000}, {"data": tuple(f"{k}" * 9000 for k in range(100))}])
def test_nothing_is_written_that_could_not_be_read(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    before = results.sidecar_path(path).read_bytes()
    with pytest.raises(ResultsError, match=r"r\.tsv\.json: these settings could not be read again"):
        results.create(path, replace(RUN, request=replace(RUN.request, **fields)), overwrite=True)
    assert results.sidecar_path(path).read_bytes() == before
    assert results.read(path) == (RUN, ROWS)


def test_a_run_with_radii_of_many_digits_is_read_back(tmp_path: Path) -> None:
    """Also when it was extended, so that its stages are longer than any other text of a description."""
    radii = [f"{10**30 + k}/{10**31 + 7}" for k in range(100)]
    one = f"n=100 radii={','.join(radii)} give_up=1/2"
    run = with_fields(RUN, adaptive="; ".join([one, one.replace("1/2", "1/3"), one]))
    assert len(str(run.stages)) > 10_000
    path = write(tmp_path / "r.tsv", [], run)
    assert results.read(path) == (run, [])


WORDS = [{"bound": "best"}, {"form": "three"}, {"pixels": "hsv"}, {"split": "mine"}, {"kernels": "\x1b"}]


@pytest.mark.parametrize("fields", WORDS)
def test_words_that_no_run_has_are_refused(tmp_path: Path, fields: dict[str, str]) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    sidecar = results.sidecar_path(path)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | fields))
    with pytest.raises(ResultsError, match=f"field '{next(iter(fields))}' is missing or wrong"):
        results.read(path)
