"""Searches over the integers, against trying every one."""

from __future__ import annotations

import pytest

from intrs.search import first_that_holds, last_that_holds


@pytest.mark.parametrize("turn", range(1, 70))
def test_where_a_statement_turns(turn: int) -> None:
    assert last_that_holds(lambda k: k < turn, 0) == turn - 1
    assert first_that_holds(lambda k: k >= turn, 0, 70) == turn


def test_a_search_asks_few_questions_and_none_outside() -> None:
    asked: list[int] = []

    def holds(k: int) -> bool:
        asked.append(k)
        return k >= 777_777

    assert first_that_holds(holds, 0, 1_000_000) == 777_777
    assert len(asked) <= 20
    assert 0 < min(asked) <= max(asked) < 1_000_000
    asked.clear()
    assert last_that_holds(lambda k: not holds(k), 5) == 777_776
    assert len(asked) <= 45
    assert min(asked) > 5
