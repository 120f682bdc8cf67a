"""The smoothed classifier g: Algorithm 1 (certify) and Algorithm 2 (predict) of the paper, in its symbols.

Each algorithm is a sampling step, which gives `Votes`, and a judgement of those votes, which needs no sampling: votes
that were kept can be judged again under another alpha or bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from intrs.adaptive import GIVE_UP, Stages
from intrs.certificate import Abstained, Certified, Certifier, parse_alpha, prediction_passes
from intrs.errors import IntrsError
from intrs.exact import parse_seed
from intrs.network import Network
from intrs.votes import SELECTION, Classifier, Progress, Votes, votes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from intrs.adaptive import Rule
    from intrs.noise import Noise


@dataclass(frozen=True)
class Predicted:
    """Algorithm 2 returned a class: wrong with probability at most alpha."""

    label: int
    votes: int
    n: int
    alpha: Fraction


@dataclass(frozen=True)
class Smooth:
    """g(x) = the class that the base classifier gives most often to x + noise.

    base is an integer network, or any callable that takes integer images (n, *image.shape) and returns labels or
    scores; under continuous noise it gets float32 images (`intrs.float_engine` makes such callables). A callable must
    be a function of one image at a time: if its answer for an image depends on the rest of the batch (BatchNorm in
    training mode, dynamic quantisation over the batch), the theorem does not apply.

    The seed is 256 bits; leave it out to have one drawn from the operating system.
    """

    base: Network | Classifier
    noise: Noise
    seed: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # None: drawn below
    bound: Literal["sound", "paper"] = field(default="sound", kw_only=True)
    form: Literal["one", "two"] = field(default="one", kw_only=True)
    classes: int | None = field(default=None, kw_only=True)
    threads: int = field(default=0, kw_only=True)
    kernels: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", parse_seed(self.seed))
        if isinstance(self.base, Network):
            object.__setattr__(self, "classes", self.base.classes)

    def certify(
        self,
        image: NDArray[Any],
        n0: int = 100,
        n: int = 100_000,
        alpha: str | float | Fraction = "0.001",
        *,
        image_index: int = 0,
        progress: Progress | None = None,
        radii: Sequence[str | float | Fraction] = (),
        precision: str | float | Fraction | None = None,
        give_up: str | float | Fraction = GIVE_UP,
    ) -> Certified | Abstained:
        """Algorithm 1: a class and a radius that hold with probability at least 1 - alpha, or an abstention.

        With `radii`, only as many samples as it takes to decide for each whether it is certified; with `precision`
        ("1%"), until the radius is that close to what n samples could certify. Then n is the most samples that are
        taken, and the outcome says how many were. give_up: see docs/adaptive.md, section 5.
        """
        if n0 < 1:
            raise IntrsError(f"n0, the number of samples that select the class, must be at least 1, not {n0}")
        certifier = self.certifier(image.size, n, alpha)  # refuses wrong settings before anything is sampled
        if radii or precision is not None:
            plan = Stages.of(n, radii, precision, give_up)
            plan.rules(certifier)  # refuses too
            return self._certify_adaptively(image, image_index, n0, certifier, plan, progress)
        selection = self.sample(image, image_index, SELECTION, n0)  # lines 1, 2
        estimation = self.sample(image, image_index, 0, n, progress)  # lines 3, 4
        return judge(selection, estimation, replace(certifier, classes=len(estimation.counts)))  # lines 5-9

    def _certify_adaptively(
        self, image: NDArray[Any], index: int, n0: int, certifier: Certifier, plan: Stages, progress: Progress | None
    ) -> Certified | Abstained:
        selection = self.sample(image, index, SELECTION, n0)
        rules = plan.rules(replace(certifier, classes=len(selection.counts)))
        estimation = self.sample_until(image, index, selection.top, rules, progress=progress)
        return judge_adaptive(selection, estimation, rules[-1])

    def sample_until(
        self,
        image: NDArray[Any],
        image_index: int,
        label: int,
        rules: Sequence[Rule],
        *,
        begin: Votes | None = None,
        progress: Progress | None = None,
    ) -> Votes:
        """Votes over samples 0, 1, ... until each rule in turn has what it needs to judge the class `label`.

        They are the first of the votes that a fixed number of samples would give. begin: votes at which all rules but
        the last have stopped.
        """
        found = begin or self.sample(image, image_index, 0, rules[0].following(0), progress)
        for rule in rules[-1:] if begin else rules:
            while not rule.is_over(label, found.counts):
                done = found.count
                report = None if progress is None else (lambda k, done=done: progress(done + k))
                found += self.sample(image, image_index, done, rule.following(done) - done, report)
        return found

    def predict(
        self,
        image: NDArray[Any],
        n: int = 1000,
        alpha: str | float | Fraction = "0.001",
        *,
        image_index: int = 0,
        progress: Progress | None = None,
    ) -> Predicted | Abstained:
        """Algorithm 2: g's class, wrong with probability at most alpha, or an abstention."""
        level = parse_alpha(alpha)
        return judge_prediction(self.sample(image, image_index, 0, n, progress), image.size, level)

    def sample(
        self, image: NDArray[Any], image_index: int, first: int, count: int, progress: Progress | None = None
    ) -> Votes:
        """Votes over samples first .. first + count - 1."""
        return votes(
            self.base, image, self.noise, self.seed, image_index, first, count,
            classes=self.classes, threads=self.threads, kernels=self.kernels, progress=progress,
        )  # fmt: skip

    def certifier(self, dimension: int, n: int, alpha: str | float | Fraction) -> Certifier:
        """What turns votes into radii under these settings."""
        return Certifier(self.noise, dimension, n, parse_alpha(alpha), self.bound, self.form, self.classes or 2)


def judge(selection: Votes, estimation: Votes, certifier: Certifier) -> Certified | Abstained:
    """Lines 2 and 5 to 9 of Algorithm 1, from votes alone."""
    _check_apart(selection, estimation)
    if (estimation.noise, estimation.count) != (certifier.noise, certifier.n):
        raise IntrsError(
            f"{estimation.count} votes under {estimation.noise} do not fit a certifier of {certifier.n} votes "
            f"under {certifier.noise}; make one for these votes"
        )
    c_a = selection.top
    return certifier.judge(c_a, estimation.counts)


def judge_adaptive(selection: Votes, estimation: Votes, rule: Rule) -> Certified | Abstained:
    """The same where sampling stopped by a rule."""
    _check_apart(selection, estimation)
    if estimation.noise != rule.certifier.noise:
        raise IntrsError(f"votes under {estimation.noise} do not fit a rule for {rule.certifier.noise}")
    if not rule.is_over(selection.top, estimation.counts):
        raise IntrsError(f"after these {estimation.count} votes the rule would have gone on; sample until it stops")
    return rule.judge(selection.top, estimation.counts)


def _check_apart(selection: Votes, estimation: Votes) -> None:
    if selection.first < SELECTION or estimation.first + estimation.count > SELECTION:
        raise IntrsError("selection and estimation must come from samples of their own (see intrs.votes)")
    if _drawn_for(selection) != _drawn_for(estimation):
        raise IntrsError("selection and estimation must be votes about one image, under one noise and one seed")


def _drawn_for(sampled: Votes) -> tuple[Noise, int, int]:
    return sampled.noise, sampled.seed, sampled.image_index


def judge_prediction(sampled: Votes, dimension: int, alpha: Fraction) -> Predicted | Abstained:
    """Algorithm 2 from votes alone. The paper compares the p-value with 0.5; it has to be alpha."""
    n_a, n_b = sampled.counts[sampled.top], sampled.counts[sampled.second] if len(sampled.counts) > 1 else 0
    if prediction_passes(n_a, n_b, alpha - sampled.noise.tau(sampled.count, dimension)):
        return Predicted(sampled.top, n_a, sampled.count, alpha)
    return Abstained(n_a, sampled.count, alpha, f"{n_a} against {n_b} votes is too close to call at alpha {alpha}")
