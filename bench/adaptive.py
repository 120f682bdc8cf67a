"""Stopping rules on the same votes: python -m bench.adaptive VOTES [--model M] [--sigma S] [--n N] [--images K]

Counts the votes of the selected class for K images of the shipped set at every sample count at which some rule looks,
into the text file VOTES (a line an image; the same command goes on where it was stopped), then lets every rule decide
from that file and prints what it needed and where it differs from a fixed N. --log FILE draws votes instead, from the
probabilities that a published log of radii implies; that is a simulation, and says so.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import zoo
from intrs.adaptive import GIVE_UP, Stages, UnionRule
from intrs.adaptive.boundary import P_ONE, boundary
from intrs.adaptive.looks import CLOSE, WIDE, Schedule, schedule
from intrs.adaptive.tables import least_probability, make_tables, squared
from intrs.certificate import Certifier, lower_bound, parse_alpha, upper_bound
from intrs.cli.screen import print_table, table
from intrs.data import open_data
from intrs.errors import IntrsError
from intrs.model import load
from intrs.noise import Noise
from intrs.progress import Progress, reporting
from intrs.smooth import Smooth
from intrs.votes import SELECTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

STAGES = (100, 1000, 10_000)  # of the staged test, before the last
STAGED_BETA = Fraction(1, 10_000)  # its error of giving up, as published
N0 = 100


@dataclass(frozen=True)
class Collected:
    """votes[image][k] of the selected class after points[k] samples."""

    points: list[int]
    votes: NDArray[np.int64]

    def at(self, looks: Sequence[int]) -> NDArray[np.int64]:
        return self.votes[:, [self.points.index(n) for n in looks]]


# --- votes -----------------------------------------------------------------------------------------------------------


def points(n: int) -> list[int]:
    """Every sample count at which some rule looks."""
    wanted = {n, *(stage for stage in STAGES if stage < n)}
    for ratio in (CLOSE, WIDE):
        wanted.update(schedule([n], [Fraction(1)], ratio).looks)
    return sorted(wanted)


def collect(path: Path, model: str, sigma: str, n: int, images: int, seed: int) -> Collected:
    """Count what is not in the file yet."""
    setting = {"model": model, "sigma": sigma, "n": n, "seed": seed, "points": points(n)}
    lines = path.read_text().splitlines() if path.exists() else []
    if lines and json.loads(lines[0]) != setting:
        raise IntrsError(f"{path} holds votes of another setting; name another file")
    if not lines:
        path.write_text(json.dumps(setting) + "\n")
    done = [_row(line, len(setting["points"])) for line in lines[1:]]  # type: ignore[arg-type]
    done = done[: next((i for i, row in enumerate(done) if row is None), len(done))]
    path.write_text("".join(f"{line}\n" for line in [json.dumps(setting), *lines[1 : len(done) + 1]]))
    data = open_data(zoo.DEFAULT_DATA, "test")
    smooth = Smooth(load(zoo.model_path(model) if model in zoo.model_names() else Path(model)),
                    Noise.of("discrete", sigma), seed=seed)  # fmt: skip
    with reporting(progress=True) as report, path.open("a") as file:

        def show(i: int, k: int) -> None:
            if report:
                report(Progress(i * n + k, images * n, "samples", f"image {i + 1} of {images}"))

        for i in range(len(done), min(images, len(data.images))):
            row = _count(smooth, data.images[i], int(data.indices[i]), points(n), partial(show, i))
            print(*row, file=file, flush=True)
            done.append(row)
    return Collected(points(n), np.array(done[:images], np.int64))


def _row(line: str, length: int) -> list[int] | None:
    """A line of votes; None if it was cut off."""
    numbers = [int(word) for word in line.split() if word.isdecimal()]
    return numbers if len(numbers) == length else None


def _count(smooth: Smooth, image: Any, index: int, at: list[int], show: Callable[[int], object]) -> list[int]:
    label, total, before, found = smooth.sample(image, smooth.samples(index, SELECTION, N0)).top, 0, 0, []
    for n in at:
        total += smooth.sample(image, smooth.samples(index, before, n - before)).counts[label]
        before = n
        found.append(total)
        show(n)
    return found


def drawn_from_log(path: Path, sigma: float, n: int, seed: int, images: int | None) -> Collected:
    """Votes drawn for the probabilities that a log of radii at 100,000 samples and alpha = 0.001 implies.

    An abstention says only that the probability is low: one is drawn from 0.35 to 0.505. All votes alike, likewise,
    leave 1 - p open: one is drawn from 0 to 1e-6.
    """
    rng, normal = np.random.default_rng(seed), NormalDist()
    with lzma.open(path, "rt") as file:
        lines = [line.split("\t") for line in file.read().splitlines()[1:]]
    lines = lines[:: len(lines) // images] if images else lines
    found = []
    for line in lines:
        low = normal.cdf(float(line[3]) / sigma)
        if int(line[2]) < 0:
            p = rng.uniform(0.35, 0.505)
        elif low > normal.cdf(3.78):
            p = 1 - rng.uniform(0, 1e-6)
        else:
            p = min(low + 3.09 * math.sqrt(low * (1 - low) / 100_000), 1 - 1e-6)
        found.append(p)
    steps = np.diff(points(n), prepend=0)
    return Collected(points(n), np.cumsum(rng.binomial(steps, np.array(found)[:, None]), axis=1))


# --- rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """For each radius the votes that accept and those that give up, at each look."""

    name: str
    looks: tuple[int, ...]
    accept: Sequence[Sequence[int]]
    reject: Sequence[Sequence[int]]

    def decide(self, collected: Collected) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Samples that each image takes, and (image, radius) whether it is certified then."""
        votes = collected.at(self.looks)[:, :, None]
        accepted = votes >= np.array(self.accept).T
        decided = (accepted | (votes <= np.array(self.reject).T)).all(axis=2)
        decided[:, -1] = True
        stop = decided.argmax(axis=1)
        return np.array(self.looks)[stop], accepted[np.arange(len(stop)), stop]


def candidates(certifier: Certifier, radii: Sequence[Fraction]) -> Iterator[Candidate]:
    """The fixed number first, then ours, then the others; each of the others also with our way of giving up."""
    n, alpha = certifier.n, certifier.level
    plan = schedule([n], [alpha], CLOSE)
    radii = [r for r in radii if squared(r) <= (certifier.largest() or -1)]
    ps = [p for r in radii if (p := least_probability(certifier, squared(r)))]
    fixed = [_least(lambda v, r=r: (certifier.radius_sq(v) or -1) >= squared(r), n) for r in radii]  # type: ignore[misc]
    yield Candidate(f"fixed N = {n:,}", (n,), [[a] for a in fixed], [[a - 1] for a in fixed])
    tables = make_tables(certifier, (n,), tuple(radii), max(radii))
    never = tuple(k + 1 for k in plan.looks)
    for give_up in (GIVE_UP, Fraction(1, 2), Fraction(1, 10), Fraction(0)):
        accept = [t.accept if (t := tables.of(r)) else never for r in radii]
        reject = [tables.reject(r, give_up) for r in radii]
        yield Candidate(f"intrs, giving up {float(give_up):g}", plan.looks, accept, reject)
    for name, share in SPENDING.items():
        spent = [alpha * Fraction(share(k / n, float(alpha))).limit_denominator(10**15) for k in plan.looks]
        accept = [boundary(p, plan.looks, spent).accept for p in ps]
        yield Candidate(f"spending {name}", plan.looks, accept, [_give_up(a, plan) for a in accept])
    yield from _published(alpha, plan, ps)


SPENDING: dict[str, Callable[[float, float], float]] = {
    "n^(1/4)": lambda t, _: t**0.25,
    "n": lambda t, _: t,
    "like Pocock": lambda t, _: math.log(1 + (math.e - 1) * t),
    "like O'Brien-Fleming": lambda t, a: 2 * NormalDist().cdf(NormalDist().inv_cdf(a / 2) / math.sqrt(t)) / a,
    "3/10 early, 7/10 at N": lambda t, _: 0.3 * math.sqrt(t) if t < 1 else 1.0,
}  # each is 1 at n = N


def _published(alpha: Fraction, plan: Schedule, ps: list[int]) -> Iterator[Candidate]:
    looks = plan.looks
    union = [alpha / (k * (k + 1)) for k in range(1, len(looks) + 1)]
    accept = [[_accepting(p, n, level) for n, level in zip(looks, union, strict=True)] for p in ps]
    reject = [[_rejecting(p, n, level) for n, level in zip(looks, union, strict=True)] for p in ps]
    yield Candidate("union bound", looks, accept, reject)
    yield Candidate("union bound, our giving up", looks, accept, [_give_up(a, plan) for a in accept])
    accept = [[_betting(p / P_ONE, n, float(alpha)) for n in looks] for p in ps]
    reject = [[n - _betting(1 - p / P_ONE, n, float(alpha)) for n in looks] for p in ps]
    yield Candidate("betting", looks, accept, reject)
    yield Candidate("betting, our giving up", looks, accept, [_give_up(a, plan) for a in accept])
    staged = (*(n for n in STAGES if n < looks[-1]), looks[-1])
    level, beta = alpha / len(staged), STAGED_BETA / (len(staged) - 1)
    accept = [[_accepting(p, n, level) for n in staged] for p in ps]
    reject = [[_rejecting(p, n, beta) for n in staged] for p in ps]
    yield Candidate("staged (Horvath et al.)", staged, accept, reject)


def _least(holds: Callable[[int], bool], high: int) -> int:
    """The least votes up to high for which it holds, given that more votes keep it so; high + 1 if none."""
    low, high = -1, high + 1
    end = high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle < end and holds(middle) else (middle, high)
    return high


def _accepting(p: int, n: int, level: Fraction) -> int:
    """The fewest votes whose Clopper-Pearson bound reaches p / 2^40."""
    return _least(lambda v: lower_bound(v, n, level) >= Fraction(p, P_ONE), n)


def _rejecting(p: int, n: int, level: Fraction) -> int:
    """The most votes whose upper bound does not."""
    return n - _least(lambda v: upper_bound(n - v, n, level) < Fraction(p, P_ONE), n)


def _betting(p: float, n: int, alpha: float) -> int:
    """The fewest votes at which a bettor against "the probability is at most p" has 1 / alpha times the money.

    The bettor spreads the money evenly over all probabilities above p: a mixture of all constant bets.
    """
    counts = np.arange(n + 2)
    logs = np.array([math.lgamma(k + 1) for k in range(n + 2)])
    masses = logs[n + 1] - logs - logs[::-1] + counts * math.log(p) + (n + 1 - counts) * math.log1p(-p)
    below = np.minimum(np.cumsum(np.exp(masses)), 1.0)[: n + 1]  # P[Bin(n + 1, p) <= votes]
    votes = counts[: n + 1]
    with np.errstate(divide="ignore"):
        money = logs[votes] + logs[n - votes] - logs[n + 1] + np.log(below)
    money -= math.log1p(-p) + votes * math.log(p) + (n - votes) * math.log1p(-p)
    enough = np.nonzero((money >= -math.log(alpha)) & (votes > n * p))[0]
    return int(enough[0]) if len(enough) else n + 1


def _give_up(accept: Sequence[int], plan: Schedule) -> list[int]:
    """Our way to give up, for any boundary."""
    n, needed = plan.looks[-1], accept[-1]
    if needed >= n:
        return [min(needed - 1 - (n - k), a - 1) for k, a in zip(plan.looks, accept, strict=True)]
    mirrored = boundary(P_ONE - needed * P_ONE // n, plan.looks, [GIVE_UP * s for s in plan.shares()]).accept
    sure = [needed - 1 - (n - k) for k in plan.looks]
    return [min(max(s, k - m), a - 1) for s, k, m, a in zip(sure, plan.looks, mirrored, accept, strict=True)]


# --- the comparison --------------------------------------------------------------------------------------------------


def compare(collected: Collected, certifier: Certifier, radii: Sequence[Fraction]) -> None:
    """Print what each rule needs and where it differs from the fixed number."""
    made = table("rule", "samples", "median", "fewer", "at N", "lost", "won", left=1)
    truth: NDArray[np.bool_] | None = None
    for candidate in candidates(certifier, radii):
        used, certified = candidate.decide(collected)
        truth = certified if truth is None else truth
        mean = used.mean()
        made.add_row(
            candidate.name, f"{mean:,.0f}", f"{median(used.tolist()):,.0f}", f"{certifier.n / mean:.1f} x",
            f"{int((used == certifier.n).sum())}", f"{int((truth & ~certified).sum())}",
            f"{int((certified & ~truth).sum())}",
        )  # fmt: skip
    images, count = collected.votes.shape[0], 0 if truth is None else truth.shape[1]
    print(f"{images} images, radii {', '.join(f'{float(r):g}' for r in radii)} ({count} of them within reach)")
    print_table(made)
    print("lost, won: of all decisions (image, radius), those that are not, or only, certified against the fixed N")


def compare_precision(collected: Collected, certifier: Certifier, precision: str) -> None:
    """The rule that stops when the radius is close enough, against the fixed number."""
    (rule,) = Stages.of(certifier.n, precision=precision).rules(certifier)
    assert isinstance(rule, UnionRule)
    looks, used, lost, worst, missing = rule.schedule.looks, [], [], 0.0, 0
    votes = collected.at(looks)
    for row in votes:
        last = len(looks) - 1
        stop = next((k for k in range(last) if rule.stops(k, int(row[k]), 0)), last)
        used.append(looks[stop])
        fixed, found = certifier.radius_sq(int(row[-1])), rule.radius_sq(stop, int(row[stop]), 0)
        if fixed is None or fixed == 0:
            continue
        missing += found is None
        loss = 1 - math.sqrt((found or 0) / fixed)
        lost.append(loss)
        worst = max(worst, loss if math.sqrt(fixed) / 255 >= 0.05 else 0.0)
    total = np.sqrt([certifier.radius_sq(int(row[-1])) or 0 for row in votes]).sum()
    mean = sum(lost) / max(len(lost), 1)
    kept = sum(
        math.sqrt(rule.radius_sq(looks.index(n), int(row[looks.index(n)]), 0) or 0)
        for n, row in zip(used, votes, strict=True)
    )
    print(
        f"precision {precision}: {np.mean(used):,.0f} samples per image, {certifier.n / np.mean(used):.2f} x fewer; "
        f"average radius lower by {100 * (1 - kept / total):.2f} %, an image's by {100 * mean:.2f} % on average and "
        f"{100 * worst:.2f} % at most where it is 0.05 or more; {missing} certified images lost"
    )


def show_power(certifier: Certifier, radius: Fraction) -> None:
    """How often a radius is certified, and for how many samples, where the fixed number certifies it so often."""
    tables, n = make_tables(certifier, (certifier.n,), (), radius), certifier.n
    threshold = tables.of(radius)
    if threshold is None:
        raise IntrsError(f"radius {float(radius):g} is out of reach")
    fixed = _least(lambda v: (certifier.radius_sq(v) or -1) >= squared(radius), n)
    made = table("p", "fixed N", *(f"{word} {g}" for g in ("0.7", "0.5", "0.1") for word in ("yes,", "n,")))
    wanted = [
        _p_for(lambda p: float(_masses(n, p)[fixed:].sum()), power) for power in (0.01, 0.1, 0.5, 0.9, 0.99, 0.9999)
    ]
    for p in (0.9, 0.97, *wanted, 0.99, 0.995):
        cells = []
        for give_up in (Fraction(7, 10), Fraction(1, 2), Fraction(1, 10)):
            certified, mean = _followed(tables.schedule.looks, threshold.accept, tables.reject(radius, give_up), p)
            cells += [f"{certified:.3f}", f"{mean:,.0f}"]
        made.add_row(f"{p:.5f}", f"{_masses(n, p)[fixed:].sum():.4f}", *cells)
    print_table(made)


def _p_for(power: Callable[[float], float], wanted: float) -> float:
    low, high = 0.5, 1 - 1e-9
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < wanted else (low, middle)
    return low


def _masses(n: int, p: float) -> NDArray[np.float64]:
    """The binomial law."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    votes = np.arange(n + 1)
    law: NDArray[np.float64] = np.exp(logs[n] - logs - logs[::-1] + votes * math.log(p) + (n - votes) * math.log1p(-p))
    return law


def _followed(looks: Sequence[int], accept: Sequence[int], reject: Sequence[int], p: float) -> tuple[float, float]:
    """The probability of accepting and the mean number of samples, by recursion over the looks."""
    law, first, before, accepted, samples = np.ones(1), 0, 0, 0.0, 0.0
    for k, n in enumerate(looks):
        step = _masses(n - before, p)
        kept = np.nonzero(step > 1e-30)[0]
        law, first, before = np.convolve(law, step[kept[0] : kept[-1] + 1]), first + int(kept[0]), n
        high = min(max(accept[k] - first, 0), len(law))
        low = high if n == looks[-1] else min(max(reject[k] + 1 - first, 0), high)
        accepted += float(law[high:].sum())
        samples += n * float(law[high:].sum() + law[:low].sum())
        law, first = law[low:high], first + low
        if not len(law):
            break
    return accepted, samples


def main() -> None:
    """Collect, then compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("votes", type=Path, nargs="?", help="text file of votes, made or continued")
    parser.add_argument("--model", default=zoo.DEFAULT_MODEL)
    parser.add_argument("--sigma", default="0.25")
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--images", type=int, help="how many (500, or all of a log)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alpha", default="0.001")
    parser.add_argument("--radii", default="0.25,0.5,0.75,1")
    parser.add_argument("--precision", default="1%,5%")
    parser.add_argument(
        "--power", metavar="RADIUS", help="how often a radius is certified, by exact recursion; no votes"
    )
    parser.add_argument("--log", type=Path, help="draw votes from a published log instead")
    args = parser.parse_args()
    certifier = Certifier(Noise.of("discrete", args.sigma), 3072, args.n, parse_alpha(args.alpha))
    if args.power:
        show_power(certifier, Fraction(args.power))
        return
    if args.log:
        print(f"simulated from {args.log.name}")
        collected = drawn_from_log(args.log, float(args.sigma), args.n, args.seed, args.images)
    elif args.votes:
        collected = collect(args.votes, args.model, args.sigma, args.n, args.images or 500, args.seed)
    else:
        parser.error("say where the votes are, or give a --log")
    compare(collected, certifier, [Fraction(r) for r in args.radii.split(",")])
    for precision in args.precision.split(",") if args.precision else ():
        compare_precision(collected, certifier, precision)


if __name__ == "__main__":
    main()
