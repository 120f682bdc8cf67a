"""Verifying what somebody else wrote: bits are compared, paths are not trusted, costs are said."""

from __future__ import annotations

import json
import lzma
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from runs import with_fields
from tiny_model import save_images, save_model

import intrs
from intrs import noise, results, verification
from intrs.cli import main
from intrs.errors import ResultsError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results file, in a folder of its own with model and data."""
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")
    intrs.certify("tiny.onnx", "tiny.npz", out="r.tsv", n=300, seed=7)
    return tmp_path / "r.tsv"


def edit(path: Path, **fields: Any) -> None:
    sidecar = results.sidecar_path(path)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | fields))


def drop(path: Path, field: str) -> None:
    sidecar = results.sidecar_path(path)
    found = json.loads(sidecar.read_text())
    del found[field]
    sidecar.write_text(json.dumps(found))


def test_equal(made: Path) -> None:
    found = intrs.verify(made)
    assert found
    assert (found.lines, found.counted, found.difference) == (8, 8, None)
    assert str(found) == f"{made}: 8 lines checked, the votes of 8 counted again: all equal"
    assert intrs.verify(made, images=2).counted == 2


def test_a_packed_file_is_verified_and_never_written(made: Path) -> None:
    packed = made.with_name("r.tsv.xz")
    packed.write_bytes(lzma.compress(made.read_bytes()))
    made.unlink()
    assert intrs.verify(packed).counted == 8
    before = packed.read_bytes()
    with pytest.raises(ResultsError, match=r"without \.xz, and pack it when the run is finished \(xz r\.tsv\)"):
        intrs.certify("tiny.onnx", "tiny.npz", out=packed, n=300, seed=7, resume=True)
    assert packed.read_bytes() == before


def test_a_difference_is_told(made: Path) -> None:
    lines = made.read_text().splitlines(keepends=True)
    cells = lines[3].split("\t")
    counts = [int(c) for c in cells[-1].split(",")]
    top = counts.index(max(counts))
    counts[top], counts[top - 1] = counts[top] - 1, counts[top - 1] + 1
    cells[-1], cells[8] = ",".join(map(str, counts)) + "\n", str(counts[top])
    made.write_text("".join([*lines[:3], "\t".join(cells), *lines[4:]]))
    found = intrs.verify(made)
    assert not found
    assert "line 4 (image" in str(found)


@pytest.mark.parametrize("field", ["model", "data"])
def test_paths_outside_the_folder_are_opened_only_when_asked_for(
    made: Path, tmp_path_factory: pytest.TempPathFactory, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    target = elsewhere / ("tiny.onnx" if field == "model" else "tiny.npz")
    save_model(target) if field == "model" else save_images(target)
    edit(made, **{field: str(target)})
    with pytest.raises(intrs.ResultsError, match="outside the folder of the results"):
        intrs.verify(made)
    given: dict[str, Any] = {field: target}
    assert intrs.verify(made, **given)
    edit(made, **{field: "/"})
    monkeypatch.setattr(verification, "open_data", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(intrs.ResultsError, match="outside the folder of the results"):
        intrs.verify(made)


def test_a_link_out_of_the_folder_is_outside(made: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "tiny.npz"
    (made.parent / "tiny.npz").rename(elsewhere)
    (made.parent / "tiny.npz").symlink_to(elsewhere)
    with pytest.raises(intrs.ResultsError, match="outside the folder of the results"):
        intrs.verify(made)


@pytest.mark.parametrize("field", ["dimension", "classes"])
def test_what_only_the_model_tells_is_no_way_around_the_bound_of_time(
    made: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """Descriptions before 0.2 leave it out; tables of 10^8 samples can take hours."""
    intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", n=300, seed=7, adaptive=True, radii=[0.1])
    monkeypatch.setattr("intrs.adaptive.rule.make_tables", lambda *_: pytest.fail("tables were made"))
    path = made.with_name("a.tsv")
    radii = ",".join(str(Fraction(k, 1000)) for k in range(1, 101))
    edit(path, n=10**8, adaptive=f"n={10**8} radii={radii} give_up=7/10")
    drop(path, field)
    with pytest.raises(ResultsError, match=r"to judge its lines again for up to 100,000,000 samples would take"):
        intrs.verify(path)


def test_the_noise_table_is_compared(made: Path) -> None:
    run = results.read_run(made)
    assert run.noise_table == intrs.Noise.of("discrete", "0.25").table().sha256
    results.write_run(made, with_fields(run, noise_table="0" * 64))
    assert "noise_table is 000" in str(intrs.verify(made))


def test_a_noise_table_under_another_name_is_refused(
    made: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of sigma 0.12 under the name of 0.25: a run would certify .598 where .273 is true."""
    from intrs.noise import table

    folder = tmp_path_factory.mktemp("tables")
    (folder / "discrete-0.25.bin").write_bytes((table.FOLDER / "discrete-0.12.bin").read_bytes())
    monkeypatch.setattr(table, "FOLDER", folder)
    table.table_of.cache_clear()
    try:
        with pytest.raises(intrs.IntrsError, match=r"discrete-0\.25\.bin"):
            intrs.verify(made)
    finally:
        monkeypatch.undo()
        table.table_of.cache_clear()
    assert noise.Noise.of("discrete", "0.25").table().sha256 == results.read_run(made).noise_table


def test_the_cost_is_said_before(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("intrs.job.Job.rate", lambda _: 0.01)
    assert main(["verify", "r.tsv"]) == 0
    out = capsys.readouterr().out
    assert "3,200 to count again, for 8 of 8 lines" in out
    assert "about 4 days; --images K counts only K lines again" in out


def test_a_huge_claim_is_found_before_anything_is_counted(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(made, n=100_000_000)
    monkeypatch.setattr("intrs.verification.local_engine", lambda *_: pytest.fail("it was sampled"))
    assert "counts should be" in str(intrs.verify(made))


def test_what_lies_beside_the_results_is_found_from_anywhere(
    made: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert intrs.verify(made)


def test_a_pipe_is_no_results_file(made: Path) -> None:
    made.unlink()
    os.mkfifo(made)
    with pytest.raises(intrs.ResultsError, match="not a regular file"):
        intrs.verify(made)


def test_a_network_without_a_file_is_asked_for(made: Path) -> None:
    net = intrs.load("tiny.onnx")
    intrs.certify(net, "tiny.npz", out="net.tsv", sigma=0.25, n=300)
    with pytest.raises(intrs.ResultsError, match="pass the model"):
        intrs.verify("net.tsv")
    assert intrs.verify("net.tsv", model=net)


def test_escapes_in_a_file_do_not_reach_the_terminal(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = made.with_name("\x1b]0;mine\x07.tsv")
    made.rename(odd)
    results.sidecar_path(made).rename(results.sidecar_path(odd))
    assert main(["verify", odd.name]) == 0
    edit(odd, kernels="\x1b[31m")
    assert main(["verify", odd.name]) == 2
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
