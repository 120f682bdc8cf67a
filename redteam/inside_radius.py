"""The strongest attack we have, inside the certified radius of certified images. None may succeed.

Each certified image is attacked within exactly the ball that its certificate speaks of, |delta|^2 <= radius_sq, away
from the certified class; then the smoothed classifier is asked again at the attacked point, under another seed and
with many samples. The same attack in larger balls shows that it has teeth.

    python -m redteam.inside_radius [--images 20] [--n 1000] [--check 10000] [--steps 20] [--draws 8] [--restarts 2]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING

import intrs
from intrs import zoo
from intrs.certificate import Certified, parse_alpha
from intrs.pgd.ball import Ball
from intrs.progress import Progress, reporting
from intrs.smooth import Predicted, Smooth, judge_prediction
from redteam import MODEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.data import Images
    from intrs.network import Network

ALPHA = "0.001"
FACTORS = (Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3))  # of the certified radius
CERTIFIER_SEED, ATTACK_SEED, CHECK_SEED = 11, 12, 13


@dataclass(frozen=True)
class Outcome:
    """One attack: how far it went, and what the smoothed classifier says there."""

    index: int
    factor: Fraction
    radius: float
    share: float  # of the votes for the certified class
    leads: bool  # whether that class has most votes
    broken: bool  # whether another class is predicted at level alpha


@dataclass(frozen=True)
class Effort:
    """How hard to try."""

    n: int = 1000  # samples of a certificate
    check: int = 10_000  # samples at an attacked point
    steps: int = 20
    draws: int = 8
    restarts: int = 2


def attack_certified(
    network: Network, data: Images, sigma: str, images: int, effort: Effort, factors: Sequence[Fraction] = FACTORS
) -> list[Outcome]:
    """Certify images until so many are certified beyond radius 0, and attack these."""
    smooth = Smooth(network, intrs.Noise.of("discrete", sigma), seed=CERTIFIER_SEED)
    scores, found, done = import_module("intrs.pgd.twin").Twin(network), list[Outcome](), 0
    with reporting(progress=None) as report:
        for i, index in enumerate(map(int, data.indices)):
            outcome = smooth.certify(data.images[i], n0=100, n=effort.n, alpha=ALPHA, index=index)
            if done == images:
                break
            if isinstance(outcome, Certified) and outcome.radius_sq:
                done += 1
                for factor in factors:
                    found.append(_attack(smooth, scores, data, i, outcome, factor, effort))
                    if report:
                        report(Progress(len(found), images * len(factors), "attacks", f"image {done} of {images}"))
    return found


def _attack(
    smooth: Smooth, scores: object, data: Images, i: int, certified: Certified, factor: Fraction, effort: Effort
) -> Outcome:
    pgd = import_module("intrs.pgd.descent")
    image, index, ball = data.images[i], int(data.indices[i]), Ball.up_to(int(certified.radius_sq * factor**2))
    draws = pgd.Draws(smooth.noise, ATTACK_SEED, effort.draws)
    attacked = pgd.attack_image(
        scores, image, index, certified.label, ball, draws, steps=effort.steps, restarts=effort.restarts
    )
    assert factor > 1 or ball.size(attacked.astype("int64") - image) <= certified.radius_sq
    checked = Smooth(smooth.base, smooth.noise, seed=CHECK_SEED)
    votes = checked.sample(attacked, checked.samples(index, 0, effort.check))
    answer = judge_prediction(votes, image.size, parse_alpha(ALPHA))
    return Outcome(
        index,
        factor,
        certified.radius,
        votes.counts[certified.label] / effort.check,
        votes.top == certified.label,
        isinstance(answer, Predicted) and answer.label != certified.label,
    )


def main(arguments: Sequence[str]) -> int:
    """Print the counts; 1 if the attack succeeded inside a certified radius."""
    parser = argparse.ArgumentParser(prog="redteam.inside_radius", description=str(__doc__).partition("\n")[0])
    parser.add_argument("model", nargs="?", default=str(zoo.model_path(MODEL)), help=f"int8 ONNX file ({MODEL})")
    parser.add_argument("data", nargs="?", default=zoo.DEFAULT_DATA, help="images (what ships)")
    parser.add_argument("--sigma", default="0.25", help="noise (0.25)")
    parser.add_argument("--images", type=int, default=20, help="certified images to attack (20)")
    for name, value in vars(Effort()).items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"({value})")
    args = parser.parse_args(arguments)
    effort = Effort(args.n, args.check, args.steps, args.draws, args.restarts)
    outcomes = attack_certified(intrs.load(args.model), intrs.open_data(args.data), args.sigma, args.images, effort)
    by_factor = defaultdict[Fraction, list[Outcome]](list)
    for outcome in outcomes:
        by_factor[outcome.factor].append(outcome)
    for factor, mine in by_factor.items():
        least = min(mine, key=lambda outcome: outcome.share)
        print(
            f"{float(factor):g} x radius: {len(mine)} images, another class predicted for "
            f"{sum(o.broken for o in mine)}, certified class not in the lead for {sum(not o.leads for o in mine)}, "
            f"its lowest share {100 * least.share:.1f} % (image {least.index}, radius {least.radius:.3f})"
        )
    return int(any(outcome.broken for outcome in by_factor[Fraction(1)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
