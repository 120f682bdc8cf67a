"""Parts of a run, merged: what one run would have written, byte for byte but for the times."""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from tiny_model import save_images, save_model

import intrs
from intrs import driver, results
from intrs.cli.start import main
from intrs.results import UnfinishedError, merging

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNS: dict[str, dict[str, Any]] = {
    "fixed": {"n": 300},
    "adaptive": {"n": 3000, "radii": (0, 0.1)},
    "precision": {"n": 3000, "precision": "5%"},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")
    return tmp_path


def made(name: str, **settings: Any) -> str:
    intrs.certify("tiny.onnx", "tiny.npz", out=name, **{"n": 300, "seed": 7} | settings)
    return name


def text(path: Path) -> list[list[str]]:
    """The lines without their times."""
    return [cells[:5] + cells[6:] for cells in (line.split("\t") for line in path.read_text().splitlines())]


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", RUNS)
def test_parts_are_the_whole(here: Path, kind: str, parts: int) -> None:
    made("one.tsv", **RUNS[kind])
    names = [made(f"{i}.tsv", shard=f"{i}/{parts}", **RUNS[kind]) for i in range(1, parts + 1)]
    random.Random(parts).shuffle(names)
    intrs.merge(names, "all.tsv")
    assert text(here / "all.tsv") == text(here / "one.tsv")
    assert (here / "all.tsv.json").read_bytes() == (here / "one.tsv.json").read_bytes()
    assert intrs.verify("all.tsv")


def test_parts_of_the_samples_are_the_whole(here: Path) -> None:
    made("one.tsv")
    names = [made(f"{i}.tsv", shard=f"{i}/3:samples") for i in (1, 2, 3)]
    with pytest.raises(UnfinishedError, match="8 of its 8 images are missing") as error:
        intrs.merge(names[:2], "all.tsv")
    assert [each.shard for each in error.value.missing] == ["3/3:samples"]
    intrs.merge(names, "all.tsv")
    assert text(here / "all.tsv") == text(here / "one.tsv")
    assert (here / "all.tsv.json").read_bytes() == (here / "one.tsv.json").read_bytes()


def test_ranges_of_images_are_parts_too(here: Path) -> None:
    made("one.tsv", first=1, skip=2)
    made("a.tsv", first=1, skip=2, max=2)
    made("b.tsv", first=5, skip=2)
    intrs.merge(["b.tsv", "a.tsv"], "all.tsv")
    assert text(here / "all.tsv") == text(here / "one.tsv")
    assert (here / "all.tsv.json").read_bytes() == (here / "one.tsv.json").read_bytes()


def test_parts_that_overlap_must_agree(here: Path) -> None:
    made("one.tsv")
    made("a.tsv", max=6)
    made("b.tsv", first=2, kernels="scalar")
    found = intrs.merge(["a.tsv", "b.tsv"], "all.tsv")
    assert text(here / "all.tsv") == text(here / "one.tsv")
    assert found.run is not None
    assert found.run.kernels.endswith("; scalar")
    assert intrs.verify("all.tsv")


def test_parts_that_disagree_are_refused(here: Path) -> None:
    """Both lines are consistent in themselves, so that only the comparison can find it."""
    made("a.tsv", max=6)
    made("b.tsv", first=2)
    made("c.tsv", first=2, seed=8)
    (here / "b.tsv").write_bytes((here / "c.tsv").read_bytes())
    with pytest.raises(intrs.ResultsError, match=r"disagree about image 43: in the second .* computes wrongly"):
        intrs.merge(["a.tsv", "b.tsv"], "all.tsv")
    assert not (here / "all.tsv").exists()


def edited(path: Path, line: int, column: int, value: str | None) -> None:
    """Another value in one cell, or without a value that line removed."""
    lines = path.read_text().splitlines(keepends=True)
    cells = lines[line].split("\t")
    cells[column : column + 1] = [] if value is None else [value]
    lines[line : line + 1] = [] if value is None else ["\t".join(cells)]
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ((2, 0, "103"), r"b.tsv, line \d: image 103 was on line 3 already: .* a line that was edited"),
        ((2, 0, "999"), "place 3 of the data: idx is 63 in the first and 999 in the second. A line was removed or cha"),
        ((2, 0, None), "place 3 of the data: idx is 63 in the first and 83 in the second. A line was removed or chan"),
        ((5, 0, "3"), "image 3 stands at different places of the data in a.tsv and b.tsv"),
    ],
)
def test_a_part_that_was_edited_is_refused(here: Path, edit: tuple[int, int, str | None], words: str) -> None:
    """Every line agrees with its own votes, and no machine is to blame."""
    made("a.tsv", max=6)
    made("b.tsv", first=2)
    edited(here / "b.tsv", *edit)
    with pytest.raises(intrs.ResultsError, match=words) as raised:
        intrs.merge(["a.tsv", "b.tsv"], "all.tsv")
    assert "computes wrongly" not in str(raised.value)
    assert not (here / "all.tsv").exists()


def test_a_single_part_with_an_image_twice_is_refused(here: Path) -> None:
    made("a.tsv")
    edited(here / "a.tsv", 2, 0, "63")
    with pytest.raises(intrs.ResultsError, match="image 63 was on line 3 already"):
        intrs.merge(["a.tsv"], "all.tsv")


@pytest.mark.parametrize("other", [{"seed": 8}, {"n": 301}, {"sigma": 0.2}, {"alpha": 0.01}, {"noise": "rounded"}])
def test_parts_of_different_runs_are_refused(here: Path, other: dict[str, Any]) -> None:
    made("1.tsv", shard="1/2")
    made("2.tsv", shard="2/2", **other)
    with pytest.raises(intrs.ResultsError, match=f"not parts of one run\n  {next(iter(other))} is "):
        intrs.merge(["1.tsv", "2.tsv"], "all.tsv")


def test_a_gap_between_ranges(here: Path) -> None:
    made("a.tsv", max=2)
    made("b.tsv", first=4)
    with pytest.raises(intrs.ResultsError, match="no part has the images from place 2 on"):
        intrs.merge(["a.tsv", "b.tsv"], "all.tsv")


def test_ranges_at_different_distances(here: Path) -> None:
    made("a.tsv", skip=2, max=2)
    made("b.tsv", first=3, max=1)
    with pytest.raises(intrs.ResultsError, match="do not follow each other at one distance"):
        intrs.merge(["a.tsv", "b.tsv"], "all.tsv")


def test_a_description_of_very_many_images_takes_no_memory(here: Path) -> None:
    """A file of a few lines may speak of 10**15 images, in 10**6 parts."""
    made("1.tsv", shard="1/2")
    fields = json.loads((here / "1.tsv.json").read_text()) | {"max": 10**15, "shard": "1/1000000"}
    (here / "1.tsv.json").write_text(json.dumps(fields))
    tracemalloc.start()
    try:
        with pytest.raises(UnfinishedError, match="999,999,999,999,996 of its 1,000,000,000,000,000 images") as error:
            intrs.merge(["1.tsv"], "all.tsv")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert len(error.value.missing) == 10_000


def test_lines_are_counted_once_for_all_shards() -> None:
    """There may be a million, and each of them would go through all lines."""

    class Once(dict[int, Any]):
        counted = 0

        def __iter__(self) -> Iterator[int]:
            self.counted += 1
            return super().__iter__()

    rows, places = Once(dict.fromkeys((0, 3, 6, 9, 12))), range(0, 30, 3)
    found = [(each.shard, each.images) for each in merging._missing_shards(places, rows, {2}, 4, "images")]
    assert found == [("1/4", 1), ("3/4", 1), ("4/4", 1)]
    found = [(each.shard, each.images) for each in merging._missing_shards(places, rows, {2}, 3, "samples")]
    assert found == [("1/3:samples", 5), ("3/3:samples", 5)]
    assert rows.counted == 2


def test_what_is_missing_is_said_with_the_commands_that_make_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made("one.tsv", radii=(0, 0.1), n=3000)
    made("1.tsv", shard="1/3", radii=(0, 0.1), n=3000)
    lines = (here / "1.tsv").read_text().splitlines(keepends=True)
    (here / "1.tsv").write_text("".join(lines[:2]) + lines[2][:5])
    made("3.tsv", shard="3/3", radii=(0, 0.1), n=3000)
    assert main(["merge", "1.tsv", "3.tsv", "-o", "all.tsv"]) == 2
    said = capsys.readouterr().err
    assert "5 of its 8 images are missing" in said
    commands = [line.split()[1:] for line in said.splitlines() if line.startswith("  intrs certify")]
    assert len(commands) == 2
    for command in commands:
        assert main([word if word != "FILE" else "2.tsv" for word in command]) == 0
    assert main(["merge", "1.tsv", "3.tsv", "2.tsv", "-o", "all.tsv"]) == 0
    assert "8 images from 3 files" in capsys.readouterr().out
    assert text(here / "all.tsv") == text(here / "one.tsv")


def test_parts_need_a_seed_and_something_to_divide(here: Path) -> None:
    with pytest.raises(intrs.SettingsError, match="one seed"):
        made("1.tsv", shard="1/2", seed=None)
    with pytest.raises(intrs.SettingsError, match="its samples cannot be divided"):
        made("1.tsv", shard="1/2:samples", radii=[0.1])
    with pytest.raises(intrs.SettingsError, match="9 parts of 8 images"):
        made("1.tsv", shard="1/9")


def test_a_part_resumes(here: Path) -> None:
    made("2.tsv", shard="2/2")
    whole = text(here / "2.tsv")
    lines = (here / "2.tsv").read_text().splitlines(keepends=True)
    (here / "2.tsv").write_text("".join(lines[:3]))
    made("2.tsv", shard="2/2", resume=True)
    assert text(here / "2.tsv") == whole
    with pytest.raises(intrs.ResultsError, match="shard: 2/2 in the file, 1/2 now"):
        made("2.tsv", shard="1/2", resume=True)


def test_votes_of_another_image_are_refused(here: Path) -> None:
    names = [made(f"{i}.tsv", shard=f"{i}/2:samples") for i in (1, 2)]
    journal = results.journal_path(here / "2.tsv")
    head, first, *rest = journal.read_text().splitlines(keepends=True)
    cells = first.split("\t")
    cells[1] = "4"
    journal.write_text(head + "\t".join(cells) + "".join(rest))
    with pytest.raises(intrs.ResultsError, match="are not of this run"):
        intrs.merge(names, "all.tsv")


def test_parts_of_the_samples_that_overlap_must_agree(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where their units are of other sizes, and where one of them was stopped."""
    made("one.tsv")
    names = [made(f"{i}.tsv", shard=f"{i}/2:samples") for i in (1, 2)]
    with monkeypatch.context() as patch:
        patch.setattr(driver, "FIRST", driver.GRAIN)
        patch.setattr(driver, "SECONDS", 1e-9)
        patch.setattr(driver, "HANDLED", 10**12)
        names.insert(0, made("small.tsv", shard="1/2:samples", threads=1))
    journal = results.journal_path(here / "small.tsv")
    head, *entries = journal.read_text().splitlines(keepends=True)
    assert len(entries) == 8 * 3
    intrs.merge(names, "all.tsv")
    assert text(here / "all.tsv") == text(here / "one.tsv")
    journal.write_text(head + "".join(line for line in entries if line.split("\t")[4] != "64"))
    intrs.merge(names, "stopped.tsv")
    assert text(here / "stopped.tsv") == text(here / "one.tsv")
    cells = entries[0].rstrip("\n").split("\t")
    cells[-1] = ",".join(reversed(cells[-1].split(",")))
    assert "\t".join(cells) != entries[0].rstrip("\n")
    journal.write_text(head + "\t".join(cells) + "\n" + "".join(entries[1:]))
    with pytest.raises(intrs.ResultsError, match=r"disagrees with another part about image .* computes wrongly"):
        intrs.merge(names, "wrong.tsv")


def test_the_votes_beside_a_part_must_be_its_own(here: Path) -> None:
    names = [made(f"{i}.tsv", shard=f"{i}/2:samples") for i in (1, 2)]
    made("other.tsv", shard="2/2:samples", seed=8)
    results.journal_path(here / "2.tsv").write_bytes(results.journal_path(here / "other.tsv").read_bytes())
    with pytest.raises(intrs.ResultsError, match=r"2\.tsv\.votes: these votes are of another run than 2\.tsv"):
        intrs.merge(names, "all.tsv")


def test_a_part_is_not_overwritten_by_the_whole(here: Path) -> None:
    names = [made(f"{i}.tsv", shard=f"{i}/2") for i in (1, 2)]
    before = (here / "1.tsv").read_bytes()
    with pytest.raises(intrs.ResultsError, match=r"1\.tsv is what is to be read"):
        intrs.merge(names, "1.tsv", overwrite=True)
    assert (here / "1.tsv").read_bytes() == before


def test_the_commands_of_a_run_that_was_extended(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part that is missing takes every step again, or it would not be of the same run."""
    for n in (1500, 3000):
        for name, shard in (("one.tsv", ""), ("1.tsv", "1/2")):
            made(name, radii=(0, 0.1), n=n, shard=shard, resume=True)
    assert main(["merge", "1.tsv", "-o", "all.tsv"]) == 2
    said = capsys.readouterr().err
    commands = [line.split()[1:] for line in said.splitlines() if line.startswith("  intrs certify")]
    assert [command[command.index("--n") + 1] for command in commands] == ["1500", "3000"]
    for command in commands:
        assert main([word if word != "FILE" else "2.tsv" for word in command]) == 0
    assert main(["merge", "1.tsv", "2.tsv", "-o", "all.tsv"]) == 0
    assert text(here / "all.tsv") == text(here / "one.tsv")
