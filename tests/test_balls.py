"""Balls: they decide, one thread at a time, and leave the precision of others alone."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flint import ctx

import intrs
from intrs.balls import MOST_BITS, at_precision, ball, certainly_less, decide, strictly_below, working_bits
from intrs.certificate import Certifier, lower_bound, prediction_passes
from intrs.certificate.bounds import _channel, _quantile
from intrs.noise import Noise, generate
from intrs.noise.law import _discrete_upper_tails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from intrs.certificate import Bound

ALPHA = Fraction(1, 1000)
PATIENCE = 0.5  # seconds that a thread gets to do what it must not


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_precision_rises_until_there_is_an_answer() -> None:
    seen: list[int] = []

    def attempt() -> str | None:
        seen.append(working_bits())
        return "now" if working_bits() >= 1000 else None

    assert decide(attempt) == "now"
    assert seen == [128, 256, 512, 1024]
    assert decide(lambda: None) is None
    third = Fraction(1, 3)
    assert decide(lambda: certainly_less(ball(third) * 3, ball(1))) is None, "an exact tie"
    assert decide(lambda: strictly_below(ball(third + Fraction(1, 2**1000)) * 3)) == 1
    assert MOST_BITS == 4096


def test_a_thread_does_not_see_the_precision_of_another() -> None:
    """The other thread tries to change it in the middle of ours; it has to wait."""
    inside, finished, seen = threading.Event(), threading.Event(), []

    def other() -> None:
        with at_precision(1000):
            inside.set()
            finished.wait(10)

    with at_precision(200):
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(PATIENCE)
        seen.append(working_bits())
        finished.set()
    thread.join()
    assert seen == [200]


def jobs() -> list[Callable[[], object]]:
    """Judgements of different settings, which need different precisions."""
    found: list[Callable[[], object]] = []
    bounds: list[tuple[str, Bound]] = [("discrete", "sound"), ("discrete", "paper"), ("rounded", "sound")]
    for sigma, n in (("0.12", 1000), ("0.25", 100_000), ("1", 5000)):
        votes = n - n // 50
        found += [partial(Certifier(Noise.of(kind, sigma), 3072, n, ALPHA, b).radius_sq, votes) for kind, b in bounds]
        two = Certifier(Noise.discrete(sigma), 3072, n, ALPHA, form="two", classes=10)
        found += [partial(two.radius_sq_two, votes, n - votes), partial(prediction_passes, votes, n - votes, ALPHA)]
        found.append(partial(lower_bound, votes, n, ALPHA))
    ties = [partial(lower_bound, k, k, Fraction(1, 2**k)) for k in range(1, 6)]
    return found + ties + [partial(generate, Noise.discrete(Fraction(k, 1000))) for k in (10, 11)]


def forget() -> None:
    for cached in (_channel, _quantile, _discrete_upper_tails):
        cached.cache_clear()


def test_threads_that_judge_at_once_answer_as_one_does(often: None) -> None:
    """And python-flint's precision is afterwards what the caller had set."""
    work = jobs()
    with ctx.workprec(77):
        alone = [job() for job in work]
        for _ in range(5):
            forget()
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(lambda job: job(), work)) == alone
            assert ctx.prec == 77


def test_an_error_gives_the_precision_back() -> None:
    def fail() -> Any:
        raise ZeroDivisionError

    with ctx.workprec(77):
        with pytest.raises(ZeroDivisionError):
            decide(fail)
        assert ctx.prec == 77
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: lower_bound(9, 10, ALPHA)).result(10) == lower_bound(9, 10, ALPHA)


FORK = """
import os, signal, threading
from fractions import Fraction
from intrs.balls import at_precision
from intrs.certificate import lower_bound
inside, leave = threading.Event(), threading.Event()
def hold():
    with at_precision(100):
        inside.set()
        leave.wait(60)
threading.Thread(target=hold).start()
inside.wait(60)
child = os.fork()
if not child:
    signal.alarm(30)  # a child that waits for ever ends with an error
    os._exit(0 if lower_bound(9, 10, Fraction(1, 1000)) > 0 else 1)
try:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
finally:
    leave.set()
raise SystemExit(code)
"""


def test_a_forked_process_does_not_wait_for_threads_that_it_has_not() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_balls_come_from_one_room() -> None:
    """Products of integer polynomials know no precision; everything else of python-flint goes through the lock."""
    package, taken = Path(intrs.__file__).parent, {}
    for path in package.rglob("*.py"):
        if names := _taken_from_flint(ast.parse(path.read_text("utf-8"))):
            taken[str(path.relative_to(package))] = names
    assert "ctx" in taken.pop("balls.py"), "an import would be seen"
    assert taken == {"adaptive/boundary.py": {"fmpz_poly"}}


def _taken_from_flint(tree: ast.Module) -> set[str]:
    """Names that are imported from python-flint, except for types alone."""
    types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    ignored = {id(node) for block in types for node in ast.walk(block)}
    found = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and str(node.module).partition(".")[0] == "flint"
            and id(node) not in ignored
        ):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.Import) and any(alias.name.partition(".")[0] == "flint" for alias in node.names):
            found.add("flint")
    return found
