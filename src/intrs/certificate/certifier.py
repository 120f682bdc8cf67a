"""Algorithm 1 after the votes are counted: votes -> radius, under settings that are checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from intrs.certificate.bounds import BOUNDS, Bound, one_class_radius_sq, paper_radius_sq, two_class_radius_sq
from intrs.certificate.confidence import lower_bound, parse_alpha, parse_samples, upper_bound
from intrs.certificate.outcome import Abstained, Certified
from intrs.errors import SettingsError
from intrs.exact import Count, Number, parse_count, plain, shown
from intrs.noise import Noise
from intrs.search import first_that_holds
from intrs.values import html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from intrs.certificate.tables import RadiusTable

Form = Literal["one", "two"]
FORMS: tuple[Form, ...] = ("one", "two")
DIMENSION, LARGEST_DIMENSION = "dimension, the number of values in an image", 2**31


@dataclass(frozen=True)
class Certifier:
    """Algorithm 1 after the votes are counted: everything that fixes the map from votes to a radius.

    bound "sound" is Theorem 1 or 2; "paper" is the paper's table in its safe form, which is not proved for directions
    other than the axes. form "one" uses the votes of the chosen class alone; "two" also those of the runner-up, at
    the price of sharing alpha among all `classes`.
    """

    noise: Noise
    dimension: int
    n: int
    alpha: Fraction
    bound: Bound = "sound"
    form: Form = "one"
    classes: int | None = None

    if TYPE_CHECKING:  # what may be given; `__post_init__` makes of it what the fields say

        def __init__(
            self, noise: Noise, dimension: Count, n: Count, alpha: Number, bound: Bound = "sound",
            form: Form = "one", classes: Count | None = None,
        ) -> None: ...  # fmt: skip

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Noise):
            raise SettingsError(f"the noise must be a Noise, such as Noise.discrete('0.25'), got {shown(self.noise)}")
        if self.noise.is_none:
            raise SettingsError("without noise nothing can be certified; the sigma must be positive")
        self._set("dimension", parse_count(self.dimension, DIMENSION, most=LARGEST_DIMENSION))
        self._set("n", parse_samples(self.n))
        self._set("alpha", parse_alpha(self.alpha))
        if self.classes is not None:
            self._set("classes", parse_count(self.classes, "classes", most=LARGEST_DIMENSION))
        self._check_choices()
        if self.tau >= self.alpha:
            raise SettingsError(
                f"alpha {float(self.alpha):g} leaves nothing after {float(self.tau):.3g}, the error of the noise table "
                f"over {self.n} samples of {self.dimension} values; raise alpha or lower n"
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_choices(self) -> None:
        if self.bound not in BOUNDS:
            raise SettingsError(f"the bound must be one of {', '.join(BOUNDS)}, got {shown(self.bound)}")
        if self.form not in FORMS:
            raise SettingsError(f"the form must be one of {', '.join(FORMS)}, got {shown(self.form)}")
        if self.bound == "paper" and (self.noise.kind, self.form) != ("discrete", "one"):
            raise SettingsError("the paper's bound is for discrete noise in its one-class form; take the bound `sound`")
        if self.form == "two" and (self.classes is None or self.classes < 2):
            raise SettingsError("the two-class form shares alpha among the classes: say how many there are, at least 2")

    def _repr_html_(self) -> str:
        return html_table(self.rows())

    def rows(self) -> dict[str, object]:
        """The settings, for people."""
        found = {"noise": self.noise, "dimension": self.dimension, "n": self.n, "alpha": plain(self.alpha)}
        return found | {"bound": self.bound, "form": f"{self.form}-class"}

    @property
    def tau(self) -> Fraction:
        """What the finite noise table costs, equation (16)."""
        return self.noise.tau(self.n, self.dimension)

    @property
    def level(self) -> Fraction:
        """What is left of alpha for the confidence bounds."""
        return self.alpha - self.tau

    def radius_sq(self, votes: int) -> int | None:
        """The certified squared radius for this many votes; None is an abstention."""
        self._require("one")
        return self.radius_sq_at(lower_bound(votes, self.n, self.level))

    def radius_sq_two(self, votes_a: int, votes_b: int) -> int | None:
        """The same from the votes of the chosen class and the most votes of any other: Theorem 3 and Lemma 7."""
        self._require("two")
        if votes_a + votes_b > self.n:
            raise SettingsError(f"{votes_a} and {votes_b} votes are more than the {self.n} samples")
        level = self.level / (self.classes or 2)
        p_a = lower_bound(votes_a, self.n, level)
        p_b = min(upper_bound(votes_b, self.n, level), 1 - p_a)
        return two_class_radius_sq(self.noise, self.dimension, p_a, p_b) if p_a > p_b else None

    def radius_sq_of(self, votes: int, rest: int) -> int | None:
        """The same in either form, from the votes of the chosen class and the most votes of any other."""
        return self.radius_sq(votes) if self.form == "one" else self.radius_sq_two(votes, rest)

    def judge(self, label: int, counts: Sequence[int]) -> Certified | Abstained:
        """The certificate of the class `label`, chosen beforehand from other samples, given all the votes."""
        found = [parse_count(count, "votes", least=0) for count in counts]
        if parse_count(label, "the class", least=0) >= len(found) or sum(found) != self.n:
            raise SettingsError(f"votes {shown(found)} do not fit {self.n} samples and the class {label}")
        if self.form == "two" and len(found) != self.classes:
            raise SettingsError(f"votes for {len(found)} classes, but alpha was shared among {self.classes}")
        votes, radius_sq = found[label], self.radius_sq_of(found[label], runner_up(label, found))
        if radius_sq is None:
            return Abstained(votes, self.n, self.alpha, self._why_not(votes))
        return Certified(int(label), radius_sq, votes, self.n, self.alpha)

    def for_samples(self, n: int) -> Certifier:
        """The same for n samples."""
        return replace(self, n=n)

    def at(self, n: int, level: Fraction) -> Certifier:
        """The same for n votes, with this `level` left for the confidence bounds."""
        return replace(self, n=n, alpha=level + self.noise.tau(n, self.dimension))

    def largest(self) -> int | None:
        """The squared radius if every sample votes alike; None if this setting can only abstain."""
        return self.radius_sq_of(self.n, 0)

    def least_votes(self) -> int | None:
        """The fewest votes that can give a certificate, be it of radius 0; None if this setting can only abstain."""
        return _least_votes(self)

    def table(self, progress: Callable[[int, int], object] | None = None) -> RadiusTable:
        """The whole map from votes to squared radius, for devices that can only look up."""
        from intrs.certificate.tables import make_table  # which builds on this module

        return make_table(self, progress)

    def _require(self, form: str) -> None:
        if self.form != form:
            raise SettingsError(f"this certifier was made for the {self.form}-class form; make one with form={form!r}")

    def radius_sq_at(self, p: Fraction) -> int | None:
        """The squared radius of a class whose probability is at least p; None if p is not more than 1/2."""
        self._require("one")
        if p <= Fraction(1, 2):
            return None
        if self.bound == "paper":
            return paper_radius_sq(self.noise, p)
        return one_class_radius_sq(self.noise, self.dimension, p)

    def _best_case(self, votes: int) -> int | None:
        """The radius if the other votes are spread as evenly as can be."""
        if self.form == "one":
            return self.radius_sq(votes)
        return self.radius_sq_two(votes, -(-(self.n - votes) // ((self.classes or 2) - 1)))

    def _why_not(self, votes: int) -> str:
        if (least := self.least_votes()) is None:
            return f"{self.n} samples cannot certify anything at alpha {float(self.alpha):g}; take more"
        if self.form == "two" and votes >= least:
            return f"{votes} of {self.n} votes are too close to the runner-up at alpha {float(self.alpha):g}"
        return f"{votes} of {self.n} votes; at least {least} are needed at alpha {float(self.alpha):g}"


def runner_up(label: int, counts: Sequence[int]) -> int:
    """The most votes of any class but `label`."""
    return max((c for i, c in enumerate(counts) if i != label), default=0)


@lru_cache(maxsize=64)
def _least_votes(certifier: Certifier) -> int | None:
    if certifier._best_case(certifier.n) is None:
        return None
    return first_that_holds(lambda votes: certifier._best_case(votes) is not None, 0, certifier.n)
