"""Settings and answers copy, pickle into other processes and show in a few lines."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest

from intrs.adaptive import Rule, SpendingRule, Stage, Stages, UnionRule
from intrs.certificate import Abstained, Certified, Certifier, RadiusTable
from intrs.noise import Noise, NoiseTable
from intrs.values import html_table

ALPHA = Fraction(1, 1000)
NOISE = Noise.discrete("0.25")
CERTIFIER = Certifier(NOISE, 48, 400, ALPHA)
TWO = Certifier(Noise.rounded("0.12"), 48, 400, ALPHA, form="two", classes=5)
STAGES = Stages.of(400, (".1", ".25")).extended(Stage(800, (Fraction(1, 4),)))


def used(rule: Rule) -> Rule:
    """A rule that has computed and kept what it needs to answer."""
    rule.radius_sq(0, 40, 3)
    rule.stops(0, 40, 3)
    rule.look(rule.schedule.looks[0])
    assert rule.name
    return rule


VALUES: dict[str, Any] = {
    "Noise": NOISE,
    "continuous Noise": Noise.continuous("1/3"),
    "NoiseTable": NOISE.table(),
    "Certifier": CERTIFIER,
    "Certifier of two classes": TWO,
    "RadiusTable": CERTIFIER.table(),
    "Certified": CERTIFIER.judge(0, [390, 10]),
    "Abstained": CERTIFIER.judge(0, [200, 200]),
    "Stage": STAGES.last,
    "Stages": STAGES,
    "SpendingRule": used(STAGES.rules(CERTIFIER)[-1]),
    "UnionRule": used(Stages.of(400, precision="10%").rules(CERTIFIER)[0]),
    "UnionRule of two classes": used(Stages.of(400, ".1").rules(TWO)[0]),
    "a rule of many radii": Stages.of(400, [Fraction(k, 1000) for k in range(100)]).rules(CERTIFIER)[0],
    "RuleTables": STAGES.rules(CERTIFIER)[0].tables,  # type: ignore[attr-defined]
    "Schedule": STAGES.rules(CERTIFIER)[0].schedule,
}
every_value = pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))


def same(one: Any, other: Any) -> bool:
    """Equal, and with equal answers."""
    assert type(one) is type(other)
    if isinstance(one, RadiusTable):
        return bool(one.to_bytes() == other.to_bytes() and one.certifier == other.certifier)
    if isinstance(one, Rule):
        assert one.name == other.name
    return bool(one == other)


def test_the_kinds_are_all_there() -> None:
    kinds = {type(value) for value in VALUES.values()}
    assert {Noise, NoiseTable, Certifier, RadiusTable, Certified, Abstained, SpendingRule, UnionRule, Stages} <= kinds


@every_value
def test_values_copy_and_pickle(value: Any) -> None:
    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301
        assert same(twin, value)


@every_value
def test_no_ball_is_in_the_state(value: Any) -> None:
    assert b"flint" not in pickle.dumps(value)


CHILD = """
import pickle, sys
values = pickle.load(sys.stdin.buffer)
for value in values:
    if hasattr(value, "stops"):
        value.stops(0, 40, 3)
pickle.dump(values, sys.stdout.buffer)
"""


def test_values_go_to_another_process_and_come_back() -> None:
    values = list(VALUES.values())
    done = subprocess.run([sys.executable, "-c", CHILD], input=pickle.dumps(values), capture_output=True, check=True)
    assert all(map(same, pickle.loads(done.stdout), values))  # noqa: S301


@pytest.mark.parametrize("name", ["SpendingRule", "UnionRule"])
def test_what_a_rule_has_computed_is_not_carried_along(name: str) -> None:
    rule = VALUES[name]
    assert len(vars(rule)) > len(vars(copy.copy(rule))), "what was computed is kept beside the fields"
    assert len(pickle.dumps(rule)) < 2000


def test_arrays_stay_read_only() -> None:
    for name, array in (("NoiseTable", "thresholds"), ("RadiusTable", "values")):
        for twin in (copy.deepcopy(VALUES[name]), pickle.loads(pickle.dumps(VALUES[name]))):  # noqa: S301
            assert not getattr(twin, array).flags.writeable


@every_value
def test_values_are_shown_in_a_few_lines(value: Any) -> None:
    assert len(repr(value)) < 500
    assert "\n" not in repr(value)
    assert "array(" not in repr(value)


def test_stages_are_shown_as_they_are_written() -> None:
    assert repr(STAGES) == "Stages.parse('n=400 radii=1/10,1/4 give_up=7/10; n=800 radii=1/4 give_up=7/10')"
    assert repr(STAGES.last) == "Stage('n=800 radii=1/4 give_up=7/10')"


def test_html_is_escaped() -> None:
    page = html_table({"<a>": "<b>&"}, 'a "<c>"')
    assert "&lt;a&gt;" in page
    assert "&lt;b&gt;&amp;" in page
    assert "<c>" not in page
    assert html_table({"a": 1}).count("<tr>") == 1
    for name in ("Noise", "NoiseTable", "Certifier", "RadiusTable", "Certified", "Abstained"):
        assert VALUES[name]._repr_html_().startswith("<table>")
