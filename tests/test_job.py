"""The rate by which time is foretold, with a clock of the test's own."""

from __future__ import annotations

import pytest

from intrs.job import Job, open_job
from intrs.request import Certify


@pytest.mark.parametrize(
    ("once", "each", "shown"),
    [
        (0.0, 1e-4, 10_000),
        (0.1, 1e-4, 10_000),  # what is done once, such as laying out the weights, is not in the rate
        (3.0, 1e-2, 100),  # also where it takes longer than all that is measured
        (0.0, 1.0, 1),
    ],
)
def test_the_rate_is_that_of_many_samples(
    once: float, each: float, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, calls = [0.0], list[int]()

    def sample(_: Job, position: int, first: int, count: int) -> None:
        assert (position, first) == (0, 0)
        clock[0] += count * each + (0.0 if calls else once)
        calls.append(count)

    job = open_job(Certify(model="resnet8-sigma0.25", data="cifar10-500", seed=1, n=1000, max=40))
    monkeypatch.setattr(Job, "sample", sample)
    monkeypatch.setattr("intrs.job.time.perf_counter", lambda: clock[0])
    assert job.rate() == pytest.approx(shown, rel=0.05)
    assert clock[0] < once + 16 * each + 4, "a moment, unless even a few samples take longer"
