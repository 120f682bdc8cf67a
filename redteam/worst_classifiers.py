"""Base classifiers that are made to get a false certificate, from the Neyman-Pearson sets of the proof.

For a shift delta the most dangerous f says A on a half-space {<n, delta> <= t}: with as much probability at x as can be
while A is not the majority at x + delta. Any certificate for A that reaches |delta| is then false. How often one is
returned is a binomial tail, which is computed here for every direction; and one such f is sampled from end to end.

    python -m redteam.worst_classifiers [--n 1000] [--alpha 0.05] [--runs 2000]
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.certificate import Certified, Certifier, lower_bound, upper_bound
from intrs.noise import Noise
from intrs.smooth import Smooth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Shift = tuple[int, int]
    Formula = Callable[[int], bool]
    """Whether so many votes are taken for a certificate that reaches the shift."""

HALF = Fraction(1, 2)
GAUSS = NormalDist()
DIMENSION = 3  # two coordinates to shift, one to split ties


@cache
def masses(noise: Noise) -> dict[int, float]:
    """The law of one coordinate."""
    last = -noise.table().first
    return {k: float(noise.mass(k)) for k in range(-last, last + 1)}


@cache
def projected(noise: Noise, shift: Shift) -> dict[int, float]:
    """The law of <n, shift>."""
    law = {0: 1.0}
    for factor in filter(None, shift):
        found: dict[int, float] = {}
        for (s, weight), (k, mass) in itertools.product(law.items(), masses(noise).items()):
            found[s + factor * k] = found.get(s + factor * k, 0.0) + weight * mass
        law = found
    return law


def square(shift: Shift) -> int:
    """|shift|^2."""
    return sum(c * c for c in shift)


@dataclass(frozen=True)
class HalfSpace:
    """f at x + n: class 0 where <n, shift> < t, and where it is t and the third coordinate of n is at most c."""

    shift: Shift
    t: int
    c: int
    centre: int = 128

    @classmethod
    def against(cls, noise: Noise, shift: Shift) -> HalfSpace:
        """The one with most probability at x of those whose class 0 is no majority at x + shift."""
        law, moved, filled = projected(noise, shift), square(shift), 0.0
        for t in sorted(s + moved for s in law):
            if filled + law[t - moved] > 0.5:
                break
            filled += law[t - moved]
        below, c = 0.0, min(masses(noise)) - 1
        while filled + law[t - moved] * (below + masses(noise)[c + 1]) <= 0.5:
            c += 1
            below += masses(noise)[c]
        return cls(shift, t, c)

    def probability(self, noise: Noise, moved: int = 0) -> float:
        """Of class 0 at x, or at x + shift with moved = |shift|^2."""
        law = projected(noise, self.shift)
        split = math.fsum(mass for k, mass in masses(noise).items() if k <= self.c)
        return math.fsum(v for s, v in law.items() if s + moved < self.t) + law.get(self.t - moved, 0.0) * split

    def __call__(self, batch: NDArray[np.int32]) -> NDArray[np.int64]:
        """Classes of noisy images."""
        n = batch.reshape(len(batch), DIMENSION).astype(np.int64) - self.centre
        s = n[:, 0] * self.shift[0] + n[:, 1] * self.shift[1]
        return np.where((s < self.t) | ((s == self.t) & (n[:, 2] <= self.c)), 0, 1)


def tail(n: int, least: int, p: float) -> float:
    """P[Bin(n, p) >= least]."""
    logs = (math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(least, n + 1))
    return math.fsum(math.exp(c + i * math.log(p) + (n - i) * math.log1p(-p)) for i, c in enumerate(logs, least))


def least_votes(reaches: Formula, n: int) -> int:
    """The fewest votes that a formula accepts; n + 1 if none."""
    low, high = n // 2, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def formulas(noise: Noise, n: int, alpha: Fraction, shift: Shift) -> dict[str, Formula]:
    """Ours, and three that are simpler."""
    certifier, distance = Certifier(noise, DIMENSION, n, alpha), square(shift)
    sigma = float(noise.grid_sigma)

    def continuous(p: Fraction) -> bool:
        return p > HALF and (sigma * GAUSS.inv_cdf(min(float(p), 1 - 2**-50))) ** 2 >= distance

    def quantile(p: Fraction) -> bool:
        """The smallest t with F(t) >= p is at least |shift|: F(|shift| - 1) < p."""
        return p > HALF and math.fsum(m for k, m in masses(noise).items() if k < math.sqrt(distance)) < p

    return {
        "intrs": lambda k: (certifier.radius_sq(k) or 0) >= distance,
        "continuous": lambda k: continuous(lower_bound(k, n, alpha)),
        "quantile": lambda k: quantile(lower_bound(k, n, alpha)),
        "no confidence bound": lambda k: continuous(Fraction(k, n)),
    }


def false_rates(noise: Noise, n: int, alpha: Fraction, shift: Shift) -> dict[str, float]:
    """The probability of a false certificate over alpha, by formula, for the worst f of a shift."""
    p = HalfSpace.against(noise, shift).probability(noise)
    least = {name: least_votes(reaches, n) for name, reaches in formulas(noise, n, alpha, shift).items()}
    return {name: tail(n, k, p) / float(alpha) if k <= n else 0.0 for name, k in least.items()}


def shifts(noise: Noise, n: int, alpha: Fraction, most: int) -> list[Shift]:
    """All shifts within reach, up to the symmetries of the noise, thinned out to about `most`."""
    largest = Certifier(noise, DIMENSION, n, alpha).largest() or 0
    sides = range(math.isqrt(largest) + 1)
    found = [(a, b) for a, b in itertools.product(sides, sides) if a >= b and 0 < a * a + b * b <= largest]
    return found[:: -(-len(found) // most)]


def sampled(noise: Noise, n: int, alpha: Fraction, shift: Shift, runs: int) -> tuple[int, float]:
    """False certificates in `runs` runs of Algorithm 1 with a seed each, and their computed rate."""
    f = HalfSpace.against(noise, shift)
    image = np.full((1, 1, DIMENSION), f.centre, np.uint8)
    least = least_votes(formulas(noise, n, alpha, shift)["intrs"], n)
    false = 0
    for seed in range(runs):
        outcome = Smooth(f, noise, seed=seed, classes=2).certify(image, n0=20, n=n, alpha=alpha, index=0)
        false += isinstance(outcome, Certified) and outcome.label == 0 and outcome.radius_sq >= square(shift)
    return false, tail(n, least, f.probability(noise))


def two_classes(n: int, alpha: Fraction, runs: int, seed: int = 0) -> dict[str, int]:
    """False certificates of the two-class forms where B wins at distance 6: docs/theory.md, end of section 4."""
    noise, distance = Noise.of("discrete", "0.01"), 36
    p_a, p_b = float(noise.cdf(5)), float(noise.upper_tail(7)) * 1.01
    certifier = Certifier(noise, DIMENSION, n, alpha, form="two", classes=3)
    counts = np.random.default_rng(seed).multinomial(n, [p_a, p_b, 1 - p_a - p_b], runs)
    sigma, level, false = float(noise.grid_sigma), certifier.level / 3, {"intrs": 0, "continuous": 0}
    for a, b, _ in counts.tolist():
        high, low = lower_bound(a, n, level), upper_bound(b, n, level)
        reach = sigma / 2 * (GAUSS.inv_cdf(float(high)) - GAUSS.inv_cdf(float(low)))
        false["continuous"] += reach * reach >= distance
        false["intrs"] += (certifier.radius_sq_two(a, b) or 0) >= distance
    return false


def survey(n: int, alpha: Fraction, most: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Over directions: the largest rate by formula, and how many directions exceed alpha."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, sigma in itertools.product(("discrete", "rounded"), ("0.01", "0.02", "0.04")):
        noise = Noise.of(kind, sigma)
        rates = [false_rates(noise, n, alpha, shift) for shift in shifts(noise, n, alpha, most)]
        found[kind, sigma] = {"directions": len(rates)} | {
            name: (max(r[name] for r in rates), sum(r[name] > 1 for r in rates)) for name in rates[0]
        }
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the tables; 1 if a certificate of ours was false more often than alpha allows."""
    parser = argparse.ArgumentParser(prog="redteam.worst_classifiers", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--n", type=int, default=1000, help="samples a certificate (1000)")
    parser.add_argument("--alpha", default="0.05", help="permitted probability of a false one (0.05)")
    parser.add_argument("--directions", type=int, default=60, help="directions a noise, about (60)")
    parser.add_argument("--runs", type=int, default=2000, help="runs of Algorithm 1 from end to end (2000)")
    args = parser.parse_args(arguments)
    alpha, broken = Fraction(args.alpha), 0
    print("probability of a false certificate over alpha: largest (directions above 1)")
    for (kind, sigma), row in survey(args.n, alpha, args.directions).items():
        words = ", ".join(f"{name} {row[name][0]:.3f} ({row[name][1]})" for name in row if name != "directions")
        print(f"  {kind} {sigma}, {row['directions']} directions: {words}")
        broken += row["intrs"][1]
    noise, shift = Noise.of("discrete", "0.02"), (1, 1)
    false, rate = sampled(noise, args.n, alpha, shift, args.runs)
    print(f"sampled at {shift}: {false} false in {args.runs} runs, {rate * args.runs:.1f} expected, alpha allows "
          f"{float(alpha) * args.runs:.0f}")  # fmt: skip
    n, runs = 10**7, 200
    print(f"two classes, N = {n:,}: false in {runs} runs {two_classes(n, alpha, runs)}")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
