"""Parts of a run: which images and samples they have, and what batch systems say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from intrs.errors import SettingsError
from intrs.pgd.api import part_of
from intrs.request import Attack
from intrs.shards import Shard, settled_shard

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize("by", ["images", "samples"])
@pytest.mark.parametrize("of", [1, 2, 3, 7, 20])
def test_parts_have_everything_once(of: int, by: str) -> None:
    shards = [Shard.parse(f"{i}/{of}:{by}") for i in range(1, of + 1)]
    whole = range(5, 5 + 3 * 20, 3)
    places = [place for shard in shards for place in shard.places(whole)]
    samples = [sample for shard in shards for sample in range(*shard.samples(1000))]
    assert sorted(places) == sorted(list(whole) * (1 if by == "images" else of))
    assert sorted(samples) == sorted(list(range(1000)) * (of if by == "images" else 1))
    assert [Shard.parse(str(shard)) for shard in shards] == shards


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3", "-1/2", "1/2:pixels", "1/99999999", "²/3", "auto/0"]
)
def test_wrong_parts(text: str) -> None:
    with pytest.raises(SettingsError, match="shard: expected a part and the number of parts"):
        settled_shard(text, {})


def array(task: int, tasks: Sequence[int]) -> dict[str, str]:
    """What SLURM says to a task of an array."""
    step = tasks.step if isinstance(tasks, range) else 1
    said = {"ID": task, "COUNT": len(tasks), "MIN": min(tasks), "MAX": max(tasks), "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in said.items()}


def test_batch_systems() -> None:
    slurm = array(7, range(1, 9, 2))
    assert settled_shard("auto", slurm) == "4/4"
    assert settled_shard("auto:samples", slurm) == "4/4:samples"
    assert settled_shard("auto/4", slurm) == "4/4"
    assert settled_shard("auto", array(2, range(3))) == "3/3"
    assert settled_shard("auto/3", array(12, range(10, 13))) == "3/3"
    assert settled_shard("auto", array(1, [1, 2])) == "1/2"  # though they may have been eight once: auto/8 refuses it
    assert settled_shard("auto/8", {"JOB_COMPLETION_INDEX": "0"}) == "1/8"
    assert settled_shard("2/8:images", slurm) == "2/8"
    assert settled_shard("", slurm) == ""


@pytest.mark.parametrize(
    ("text", "environment", "words"),
    [
        ("auto", {}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"),
        ("auto", {"JOB_COMPLETION_INDEX": "1"}, "does not say how many parts"),
        ("auto/2", {"JOB_COMPLETION_INDEX": "2"}, "expected a part and the number"),
        ("auto/2", {"JOB_COMPLETION_INDEX": "x"}, "JOB_COMPLETION_INDEX should be a number"),
    ],
)
def test_what_batch_systems_do_not_say(text: str, environment: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settled_shard(text, environment)


@pytest.mark.parametrize(
    ("text", "tasks", "words"),
    [
        ("auto", [3], "has 1 task from 3 to 3, where auto needs evenly spaced ones from 0 or 1 on"),
        ("auto", [3, 5], "has 2 tasks from 3 to 5, where auto needs evenly spaced ones from 0 or 1 on"),
        ("auto", [1, 3], "has 2 tasks from 1 to 3"),
        ("auto", range(4, 9), "has 5 tasks from 4 to 8"),
        ("auto/8", [3], "has 1 task from 3 to 3, where auto needs 8 evenly spaced ones"),
        ("auto/8", [3, 5], "auto needs 8 evenly spaced ones"),
        ("auto/8", [1], "has 1 task from 1 to 1, where auto needs 8 evenly spaced ones"),
        ("auto/8", [1, 2], "auto needs 8 evenly spaced ones"),
        ("auto/8", range(1, 10), "has 9 tasks from 1 to 9"),
        ("auto/3", [1, 2, 4], "auto needs 3 evenly spaced ones"),
    ],
)
def test_tasks_that_were_submitted_anew_have_to_name_their_part(text: str, tasks: Sequence[int], words: str) -> None:
    """SLURM tells them nothing about the array of which they once were a part."""
    for task in tasks:
        with pytest.raises(SettingsError, match=words) as caught:
            settled_shard(text, array(task, tasks))
        assert "name the part that this task is to do, such as 4/8" in str(caught.value)


def test_slurm_has_to_say_which_tasks_there_are() -> None:
    for name in ("COUNT", "MIN", "MAX"):
        said = array(2, range(1, 9))
        del said[f"SLURM_ARRAY_TASK_{name}"]
        with pytest.raises(SettingsError, match=f"SLURM_ARRAY_TASK_{name} should be a number"):
            settled_shard("auto/8", said)


@pytest.mark.parametrize("most", [None, 10])
def test_parts_of_an_attack_are_all_of_it(most: int | None) -> None:
    whole = Attack(model="m", data="d", seed=1, first=3, skip=2, max=most)
    parts = [part_of(whole, f"{i}/4") for i in range(1, 5)]
    taken = [list(range(100))[p.first :: p.skip][: p.max] for p in parts]
    assert sorted(place for part in taken for place in part) == list(range(100))[3::2][:most]


@pytest.mark.parametrize(
    ("shard", "settings", "words"),
    [("1/2:samples", {}, "divided by images"), ("1/2", {"seed": None}, "need one seed"),
     ("3/3", {"max": 2}, "would leave some of them empty")],
)  # fmt: skip
def test_parts_of_an_attack_are_refused(shard: str, settings: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"model": "m", "data": "d", "seed": 1}
    with pytest.raises(SettingsError, match=words):
        part_of(Attack(**given | settings), shard)
