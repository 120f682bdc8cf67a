"""The runs that the docs rest on: every line holds, the docs' table is theirs, and votes can be counted again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import intrs
from intrs import votes, zoo
from intrs.votes import SELECTION, Samples
from tools import published

if TYPE_CHECKING:
    from intrs.metrics import Results

KEPT = sorted(path.name for path in published.RUNS.glob("*.tsv.xz"))
REPRODUCED = sorted((published.PAPER / "votes").glob("*-IntRS-quant-*.tsv.xz"))
COUNTED = 3  # images per run


@pytest.fixture(scope="module")
def kept() -> dict[str, Results]:
    return {run.path.name: run for run in published.kept() if run.path}


def test_the_table_of_the_docs_is_made_of_them(kept: dict[str, Results]) -> None:
    text = published.PAGE.read_text("utf-8")
    assert published.page(text, list(kept.values()), published.paper_folder()) == text
    assert all(f"runs/{name}" in text for name in kept)


def test_another_file_gives_another_table(kept: dict[str, Results]) -> None:
    for run in kept.values():
        made = published.certified if run.asked else published.voted
        fewer = type(run).of(run.path, run.run, run.rows[:9])  # type: ignore[arg-type]
        assert made([fewer]) != made([run])


def test_runs_of_caltech101_are_of_the_networks_on_the_cards() -> None:
    cards = Path(published.ROOT / "docs" / "cards").glob("resnet50-*-caltech101-*.json")
    known = {json.loads(path.read_text("utf-8"))["results"]["identity"] for path in cards}
    runs = {key: run for key, run in published.caltech101_runs().items() if run.run and run.run.noise.on_integers}
    assert runs
    for key, results in runs.items():
        assert results.run
        assert results.run.identity in known, key
        fewer = type(results).of(results.path, results.run, results.rows[:50])
        assert published.summary({key: fewer}, "caltech101") != published.summary({key: results}, "caltech101")


def test_times_of_caltech101_are_those_of_the_runs() -> None:
    for run in (runs := published.caltech101_times()):
        fewer = type(run).of(run.path, run.run, run.rows[1:])  # type: ignore[arg-type]
        assert published.times([fewer]) != published.times([run])
    assert [line.split(", ")[1] for line in published.times(runs).splitlines()[2:]] == ["int8", "fp32"]


def test_a_page_without_a_place_for_a_table() -> None:
    with pytest.raises(ValueError, match="0 places for the table 'summary'"):
        published.page("", [], published.paper_folder())


@pytest.mark.parametrize("name", KEPT)
def test_votes_of_images_that_ship_are_the_same_today(kept: dict[str, Results], name: str) -> None:
    check_votes(kept[name])


@pytest.mark.parametrize("path", REPRODUCED, ids=[path.name for path in REPRODUCED])
def test_votes_of_the_papers_experiments_are_the_same_today(path: Path) -> None:
    check_votes(intrs.read(path))


def check_votes(results: Results) -> None:
    """An image keeps its number in the data set that it was taken from, and with it the address of its noise."""
    run = results.run
    assert run
    assert run.request.data in ("cifar10", zoo.DEFAULT_DATA)
    network, shipped = intrs.load(run.request.model), intrs.open_data(zoo.DEFAULT_DATA)
    rows = {row.idx: row for row in results.rows}
    places = [place for place, idx in enumerate(shipped.indices) if int(idx) in rows]
    places = sorted(places, key=lambda place: rows[int(shipped.indices[place])].n)[len(places) // 4 :][:COUNTED]
    assert len(places) == COUNTED
    for place in places:
        idx, image = int(shipped.indices[place]), shipped.images[place]
        for first, counts in ((SELECTION, rows[idx].counts0), (0, rows[idx].counts)):
            again = votes.count(network, image, run.noise, Samples(run.seed, idx, first, sum(counts)))
            assert again.counts == counts, idx
