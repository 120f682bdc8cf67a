"""Certificates: the published numbers, soundness against every classifier in small cases, exact confidence bounds."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from flint import ctx

from intrs.balls import ball
from intrs.certificate import (
    Abstained,
    Certified,
    Certifier,
    RadiusTable,
    least_wins,
    least_wins_table,
    lower_bound,
    parse_alpha,
    prediction_passes,
    upper_bound,
)
from intrs.certificate.bounds import one_class_radius_sq, paper_radius_sq, two_class_radius_sq
from intrs.certificate.confidence import _lower_by_bisection, lower_multiple
from intrs.errors import IntrsError, SettingsError
from intrs.noise import Noise

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ALPHA = Fraction(1, 1000)
HALF = Fraction(1, 2)
STEP = Fraction(1, 2**64)
GAUSS = NormalDist()


def cifar(kind: str, sigma: str, **options: Any) -> Certifier:
    return Certifier(Noise.of(kind, sigma), 3072, 100_000, ALPHA, **options)


# --- the numbers -----------------------------------------------------------------------------------------------------

# sigma, votes, R2 of the first-order bound (equation 24 of docs/theory.md, tau = 0), R2 of Theorem 2, R2 of Theorem 1.
# The second exceeds the first by what the second-order bound gains; tau = 1e-9 .. 1e-8 costs nothing here.
NUMBERS = [
    ("0.12", 60_000, 54, 54, 54),
    ("0.12", 90_000, 1_496, 1_497, 1_498),
    ("0.12", 100_000, 13_582, 13_595, 13_602),
    ("0.25", 90_000, 6_499, 6_500, 6_501),
    ("0.25", 100_000, 59_018, 59_031, 59_039),
    ("0.5", 99_000, 85_242, 85_246, 85_249),
    ("1", 100_000, 944_608, 944_621, 944_631),
]


@pytest.mark.parametrize(("sigma", "votes", "first_order", "discrete", "rounded"), NUMBERS)
def test_the_published_numbers(sigma: str, votes: int, first_order: int, discrete: int, rounded: int) -> None:
    assert cifar("discrete", sigma).radius_sq(votes) == discrete >= first_order
    assert cifar("rounded", sigma).radius_sq(votes) == rounded >= discrete
    p = lower_bound(votes, 100_000, ALPHA)
    assert first_order_radius_sq(Fraction(sigma) * 255, 3072, p) == first_order
    assert int(cohen_radius(sigma, p) ** 2) == rounded


def first_order_radius_sq(sigma: Fraction, dimension: int, p: Fraction) -> int:
    """The simplest form of the bound, with r on a grid of hundredths: what the numbers were first computed with."""
    with mpmath.workdps(30):

        def eps(t: Any) -> Any:
            return 2 * mpmath.exp(-2 * mpmath.pi**2 * t * t)

        def reach(r: Any) -> Any:
            shrink = ((1 + eps(s)) / (1 + eps(r))) ** dimension
            grow = ((1 + eps(s)) / (1 - eps(r))) ** dimension
            quantiles = [mpmath.sqrt(2) * mpmath.erfinv(2 * q - 1) for q in (shrink * mp_of(p), grow / 2)]
            return mpmath.sqrt(s * s - r * r) * (quantiles[0] - quantiles[1])

        s = mp_of(sigma)
        return int(max(reach(mpmath.mpf(j) / 100) for j in range(100, 126)) ** 2)


def mp_of(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def cohen_radius(sigma: str, p: Fraction) -> Any:
    """Cohen's radius in grid steps."""
    with mpmath.workdps(30):
        return mp_of(Fraction(sigma) * 255) * mpmath.sqrt(2) * mpmath.erfinv(2 * mp_of(p) - 1)


def test_monotone_in_votes_and_falling_in_dimension_and_confidence() -> None:
    noise = Noise.of("discrete", "0.12")
    radii = [Certifier(noise, 3072, 10_000, ALPHA).radius_sq(v) for v in range(5_000, 10_001, 125)]
    certified = [r for r in radii if r is not None]
    assert radii[: -len(certified)] == [None] * (len(radii) - len(certified))
    assert certified == sorted(certified)
    by_dimension = [Certifier(noise, d, 10_000, ALPHA).radius_sq(9_990) for d in (1, 784, 3072, 150_528)]
    assert by_dimension == sorted(by_dimension, key=lambda r: -(r or 0))
    by_alpha = [Certifier(noise, 3072, 10_000, Fraction(a)).radius_sq(9_990) for a in ("0.1", "0.001", "1e-9")]
    assert by_alpha == sorted(by_alpha, key=lambda r: -(r or 0))


def test_radius_zero_is_a_certificate_and_not_an_abstention() -> None:
    certifier = cifar("discrete", "0.12")
    least = certifier.least_votes()
    assert least is not None
    assert certifier.radius_sq(least) == 0
    assert certifier.radius_sq(least - 1) is None
    assert lower_bound(least, 100_000, certifier.level) > HALF >= lower_bound(least - 1, 100_000, certifier.level)


def test_settings_that_can_only_abstain_say_so() -> None:
    assert Certifier(Noise.of("discrete", "0.25"), 10, 9, ALPHA).least_votes() is None
    assert Certifier(Noise.of("discrete", "0.25"), 10, 9, ALPHA).largest() is None
    assert Certifier(Noise.of("discrete", "0.25"), 10, 10, ALPHA).least_votes() == 10
    assert Certifier(Noise.of("rounded", "0.25"), 10, 10, ALPHA, form="two", classes=5).least_votes() is None
    assert cifar("discrete", "1").largest() == 944_621


# --- soundness: every classifier, every shift ------------------------------------------------------------------------


@cache
def trade_off(noise: Noise, delta: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The law of <n, delta> at x and at x + delta; by Neyman and Pearson nothing else matters, low values first."""
    law = {0: 1.0}
    for step in delta:
        law = convolve(law, noise, step) if step else law
    moved = sum(step * step for step in delta)
    order = sorted({*law, *(s + moved for s in law)})
    return np.array([law.get(s, 0.0) for s in order]), np.array([law.get(s - moved, 0.0) for s in order])


def convolve(law: dict[int, float], noise: Noise, step: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for k in range(noise.table().first, 1 - noise.table().first):
        mass = float(noise.mass(k))
        for s, weight in law.items():
            found[s + k * step] = found.get(s + k * step, 0.0) + weight * mass
    return found


def worst(noise: Noise, delta: tuple[int, ...], p: float) -> float:
    """The least P[f(x + delta + n) = A] over all f, randomised ones included, with P[f(x + n) = A] = p."""
    at_x, moved = trade_off(noise, delta)
    filled = np.cumsum(at_x)
    i = int(np.searchsorted(filled, p))
    return float(moved[:i].sum() + (p - (filled[i - 1] if i else 0.0)) / at_x[i] * moved[i])


def shifts(longest_sq: int, dimension: int = 2) -> list[tuple[int, ...]]:
    """All integer shifts up to the symmetries of the noise."""
    sides = itertools.product(range(math.isqrt(longest_sq) + 1), repeat=dimension)
    return [s for s in sides if 0 < sum(c * c for c in s) <= longest_sq and list(s) == sorted(s, reverse=True)]


@pytest.mark.parametrize("kind", ["discrete", "rounded"])
@pytest.mark.parametrize(("sigma", "longest_sq"), [("0.01", 60), ("0.02", 200)])
def test_no_classifier_beats_the_certificate(kind: str, sigma: str, longest_sq: int) -> None:
    """And the certificate is nearly the best possible: the bound breaks before the continuous radius plus one step."""
    noise, tight = Noise.of(kind, sigma), 0
    for p in np.linspace(0.51, 0.995, 40):
        exact = Fraction(int(p * 2**64), 2**64)
        r_sq = one_class_radius_sq(noise, 2, exact)
        values = {delta: worst(noise, delta, float(p)) for delta in shifts(longest_sq)}
        assert all(v > 0.5 + 1e-9 for delta, v in values.items() if sum(c * c for c in delta) <= r_sq)
        broken = min((sum(c * c for c in d) for d, v in values.items() if v <= 0.5), default=None)
        tight += broken is not None and broken <= (math.sqrt(r_sq) + 1) ** 2 + 1
    assert tight > 30


def test_the_naive_quantile_is_beaten_and_its_safe_form_is_not_on_an_axis() -> None:
    noise = Noise.of("discrete", "0.02")
    beaten = 0
    for p in np.linspace(0.51, 0.99, 40):
        exact = Fraction(int(p * 2**64), 2**64)
        naive = next(t for t in range(100) if float(noise.cdf(t)) >= p)
        safe = math.isqrt(paper_radius_sq(noise, exact))
        beaten += naive > 0 and worst(noise, (naive,), float(p)) < 0.5
        assert safe == 0 or worst(noise, (safe,), float(p)) > 0.5
    assert beaten >= 15


def test_the_classifier_that_breaks_the_naive_quantile() -> None:
    """sigma = 0.12, 90,000 votes: the naive quantile says 39, and this f turns at distance 39 on an axis.

    f says A where n_1 <= 38, and where n_1 = 39 and n_2 <= c. All in ball arithmetic.
    """
    noise, certifier = Noise.of("discrete", "0.12"), cifar("discrete", "0.12")
    p = lower_bound(90_000, 100_000, certifier.level)
    with ctx.workprec(128):
        bound = ball(p)
        assert noise.cdf(38) < bound < noise.cdf(39)  # so the smallest t with F(t) >= p is 39
        c = next(c for c in range(-100, 100) if noise.cdf(38) + noise.mass(39) * noise.cdf(c) > bound)
        at_x = noise.cdf(38) + noise.mass(39) * noise.cdf(c)
        moved = noise.cdf(38 - 39) + noise.mass(39 - 39) * noise.cdf(c)
        assert at_x > bound
        assert moved < ball(HALF)
    assert certifier.radius_sq(90_000) == 1_497 < 39**2
    assert cifar("discrete", "0.12", bound="paper").radius_sq(90_000) == 38**2


def test_two_classes_no_classifier_beats_the_certificate() -> None:
    noise, certified = Noise.of("discrete", "0.01"), 0
    for p_a, p_b in itertools.product(np.linspace(0.3, 0.99, 12), np.linspace(0.01, 0.49, 9)):
        if p_b < p_a and p_a + p_b <= 1:
            a, b = (Fraction(int(p * 2**64), 2**64) for p in (p_a, p_b))
            r_sq = two_class_radius_sq(noise, 2, a, b)
            for delta in shifts(r_sq):
                assert worst(noise, delta, float(a)) + worst(noise, delta, 1 - float(b)) > 1 + 1e-9
            certified += r_sq > 0
    assert certified > 40


def test_the_continuous_two_class_radius_is_not_sound_for_discrete_noise() -> None:
    """A = {n <= 5}, B = {n >= 7} and a sliver of {n = 6}: the continuous theorem allows distance 6, where B wins."""
    noise = Noise.of("discrete", "0.01")
    p_a, p_b = float(noise.cdf(5)), float(noise.upper_tail(7)) * 1.01
    continuous = float(noise.grid_sigma) / 2 * (GAUSS.inv_cdf(p_a) - GAUSS.inv_cdf(p_b))
    assert continuous > 6.03
    assert worst(noise, (6,), p_a - 1e-12) + worst(noise, (6,), 1 - p_b) < 1 - 1e-4
    assert two_class_radius_sq(noise, 1, Fraction(p_a), Fraction(p_b)) < 36


@pytest.mark.parametrize("kind", ["discrete", "rounded"])
def test_two_classes_are_at_least_as_good_as_one(kind: str) -> None:
    noise = Noise.of(kind, "0.12")
    for p in (Fraction(51, 100), Fraction(7, 10), Fraction(99, 100), 1 - STEP * 2**50):
        one = one_class_radius_sq(noise, 3072, p)
        assert two_class_radius_sq(noise, 3072, p, 1 - p) == one
        radii = [two_class_radius_sq(noise, 3072, p, (1 - p) * Fraction(k, 10)) for k in (9, 5, 1)]
        assert [one, *radii] == sorted([one, *radii])


def test_two_classes_certify_without_a_majority() -> None:
    certifier = cifar("discrete", "0.25", form="two", classes=10)
    level = certifier.level / 10
    p_a, p_b = lower_bound(40_000, 100_000, level), upper_bound(10_000, 100_000, level)
    continuous = float(certifier.noise.grid_sigma) / 2 * (GAUSS.inv_cdf(float(p_a)) - GAUSS.inv_cdf(float(p_b)))
    found = certifier.radius_sq_two(40_000, 10_000)
    assert found is not None
    assert continuous**2 - 3 < found < continuous**2
    assert certifier.radius_sq_two(40_000, 39_900) is None
    assert certifier.radius_sq_two(100_000, 0) == certifier.largest()


def test_the_fewest_votes_of_the_two_class_form() -> None:
    certifier = cifar("discrete", "0.25", form="two", classes=10)
    least = certifier.least_votes()
    assert least is not None
    assert 10_000 < least < 11_000
    assert certifier.radius_sq_two(least, -(-(100_000 - least) // 9)) == 0
    assert certifier.radius_sq_two(least - 1, -(-(100_000 - least + 1) // 9)) is None


# --- Clopper-Pearson -------------------------------------------------------------------------------------------------


def exact_tail(votes: int, n: int, p: Fraction) -> Fraction:
    a, b = p.numerator, p.denominator - p.numerator
    return Fraction(sum(math.comb(n, i) * a**i * b ** (n - i) for i in range(votes, n + 1)), p.denominator**n)


@pytest.mark.parametrize("alpha", ["0.001", "0.05", "0.5", "0.9", "1/4", "1e-12"])
def test_lower_bound_against_exact_rational_tails(alpha: str) -> None:
    level = Fraction(alpha)
    cases = [(k, n) for n in (1, 2, 3, 7, 20) for k in range(1, n + 1)] + [(60, 100), (100, 100), (177, 200)]
    for votes, n in cases:
        p = lower_bound(votes, n, level)
        assert exact_tail(votes, n, p) < level <= exact_tail(votes, n, p + STEP)
        assert upper_bound(n - votes, n, level) == 1 - p
        assert _lower_by_bisection(votes, n, level) == p * 2**64


def test_lower_bound_of_no_votes_and_upper_bound_of_all() -> None:
    assert lower_bound(0, 10, ALPHA) == 0
    assert upper_bound(10, 10, ALPHA) == 1
    assert lower_bound(1, 1, Fraction(1, 4)) == Fraction(1, 4) - STEP  # an exact tie: strictly below


def test_lower_bound_is_proved_whatever_the_guess() -> None:
    p = lower_multiple(9_000, 10_000, ALPHA)
    for guess in (1, p, p + 5, p - 10**6, p + 10**12, 2**63, 2**64 - 1):
        assert lower_multiple(9_000, 10_000, ALPHA, guess) == p
    with ctx.workprec(20):
        assert lower_multiple(9_000, 10_000, ALPHA) == p


def test_lower_bound_against_arb_beta() -> None:
    """The bound is where the regularised incomplete beta function passes alpha."""
    with ctx.workprec(256):
        for votes in (50_500, 90_000, 99_999):
            p = lower_bound(votes, 100_000, ALPHA)
            low, high = (ball(q).beta_lower(votes, 100_001 - votes, regularized=True) for q in (p, p + STEP))
            assert low < ball(ALPHA) < high


@pytest.mark.parametrize(("votes", "n"), [(1, 1000), (3, 1000), (999, 1000)])
def test_lower_bound_where_floats_fail(votes: int, n: int) -> None:
    for alpha in (1 - Fraction(1, 10**30), Fraction(1, 10**400)):
        j = lower_multiple(votes, n, alpha)
        assert j == 0 or exact_tail(votes, n, j * STEP) < alpha
        assert exact_tail(votes, n, (j + 1) * STEP) >= alpha


@pytest.mark.parametrize(("votes", "n"), [(-1, 10), (11, 10), (0, 0), (1, 10**9)])
def test_impossible_votes_are_refused(votes: int, n: int) -> None:
    with pytest.raises(IntrsError):
        lower_bound(votes, n, ALPHA)
    with pytest.raises(IntrsError):
        upper_bound(votes, n, ALPHA)


# --- what a certificate says -----------------------------------------------------------------------------------------


def test_radius_is_rounded_down() -> None:
    for r_sq in [0, 1, 2, 3, 54, 1497, 65024, 65025, 65026, 944_621, *random.Random(1).sample(range(10**7), 200)]:
        certified = Certified(0, r_sq, 9, 10, ALPHA)
        exact = Fraction(r_sq, 255**2)
        assert Fraction(certified.radius) ** 2 <= exact < Fraction(math.nextafter(certified.radius, math.inf)) ** 2
        for digits in (0, 3, 6, 20):
            text = Fraction(certified.radius_text(digits))
            assert text**2 <= exact < (text + Fraction(1, 10**digits)) ** 2
            above = Fraction(certified.radius_text(digits, up=True))
            assert exact <= above**2
            assert above == text if text**2 == exact else above == text + Fraction(1, 10**digits)
    assert Certified(0, 65025, 9, 10, ALPHA).radius == 1.0
    assert Certified(0, 65025, 9, 10, ALPHA).radius_text(4) == "1.0000"
    assert Certified(0, 1, 9, 10, ALPHA).radius_text() == "0.003921"


def test_both_outcomes_answer_the_same_questions() -> None:
    certified, abstained = Certified(3, 15_062, 997, 1000, ALPHA), Abstained(540, 1000, ALPHA, "too few votes")
    asked = [(a.certified, a.label, a.radius, a.radius_sq, a.votes, a.n, a.alpha) for a in (certified, abstained)]
    assert asked[0] == (True, 3, certified.radius, 15_062, 997, 1000, ALPHA)
    assert asked[1] == (False, None, 0.0, 0, 540, 1000, ALPHA)
    assert Certified(0, 0, 9, 10, ALPHA).certified, "a certificate of radius 0 is one"


def test_outcomes_show_their_radius_rounded_down() -> None:
    certified = Certified(3, 15_062, 997, 1000, ALPHA)
    assert repr(certified) == "Certified(label=3, radius=0.4812, radius_sq=15062, votes=997, n=1000, alpha=0.001)"
    assert Fraction("0.4812") ** 2 <= Fraction(15_062, 255**2) < Fraction("0.4813") ** 2
    abstained = Abstained(540, 1000, ALPHA, "540 of 1000 votes")
    assert repr(abstained) == "Abstained(votes=540, n=1000, alpha=0.001, reason='540 of 1000 votes')"
    page = certified._repr_html_()
    for words in ("0.4812", "997 of 1,000", "0.001", "answers 3 for this image"):
        assert words in page
    assert "No class is certified for this image: 540 of 1000 votes." in abstained._repr_html_()
    assert "<b>" not in Abstained(1, 2, ALPHA, "<b>")._repr_html_()


def test_judging_votes() -> None:
    certifier = Certifier(Noise.of("discrete", "0.25"), 3072, 1000, ALPHA)
    certified = certifier.judge(1, [20, 950, 30])
    assert isinstance(certified, Certified)
    assert (certified.label, certified.votes, certified.n, certified.alpha) == (1, 950, 1000, ALPHA)
    assert certified.radius_sq == certifier.radius_sq(950)
    abstained = certifier.judge(0, [540, 300, 160])
    assert isinstance(abstained, Abstained)
    assert "at least 550" in abstained.reason
    two = Certifier(Noise.of("discrete", "0.25"), 3072, 1000, ALPHA, form="two", classes=3)
    by_two = two.judge(0, [480, 270, 250])
    assert isinstance(by_two, Certified)
    assert by_two.radius_sq == two.radius_sq_two(480, 270)
    close = two.judge(0, [480, 450, 70])
    assert isinstance(close, Abstained)
    assert "runner-up" in close.reason
    hopeless = Certifier(Noise.of("discrete", "0.25"), 3072, 5, ALPHA).judge(0, [5])
    assert isinstance(hopeless, Abstained)
    assert "take more" in hopeless.reason
    for label, counts in ((3, [500, 500, 0]), (0, [500, 499, 0])):
        with pytest.raises(IntrsError, match="do not fit"):
            certifier.judge(label, counts)
    with pytest.raises(IntrsError, match="shared among 3"):
        two.judge(0, [1000, 0])
    with pytest.raises(SettingsError, match="the class: expected"):
        certifier.judge(None, [500, 500, 0])  # type: ignore[arg-type]


def test_votes_may_be_numpys() -> None:
    """Whose integers have 64 bits, fewer than what is computed from them."""
    certifier = Certifier(Noise.of("discrete", "0.25"), 3072, 1000, ALPHA)
    for votes in (np.int64(950), np.uint8(200)):
        assert certifier.radius_sq(votes) == certifier.radius_sq(int(votes))  # type: ignore[arg-type]
    counts: Any = np.array([20, 950, 30])
    found = certifier.judge(np.int64(1), counts)  # type: ignore[arg-type]
    assert found == certifier.judge(1, [20, 950, 30])
    assert {type(found.label), type(found.votes)} == {int}


@pytest.mark.parametrize("n", [1e5, "100_000", "1e5", np.int32(100_000)])
def test_counts_as_people_write_them(n: Any) -> None:
    written: Any = {"dimension": "3_072", "n": n, "alpha": "0.001", "form": "two", "classes": 1e1}
    certifier = Certifier(Noise.discrete("0.25"), **written)
    assert certifier == cifar("discrete", "0.25", form="two", classes=10)
    assert {type(certifier.n), type(certifier.dimension), type(certifier.classes)} == {int}
    assert certifier.alpha == ALPHA


@pytest.mark.parametrize("name", ["n", "dimension", "classes"])
@pytest.mark.parametrize("wrong", [None, [5], 0.5, True, "abc", -1, 0, float("nan"), 10**12])
def test_counts_of_wrong_types_get_a_sentence(name: str, wrong: Any) -> None:
    good: Any = {
        "noise": Noise.discrete("0.25"),
        "dimension": 48,
        "n": 100,
        "alpha": ALPHA,
        "form": "two",
        "classes": 5,
    }
    with pytest.raises(SettingsError, match=name):
        Certifier(**{**good, name: wrong})


def test_a_noise_that_is_none_gets_a_sentence() -> None:
    with pytest.raises(SettingsError, match="must be a Noise"):
        Certifier("0.25", 48, 100, ALPHA)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", ["0.001", "1e-3", 0.001, "1/1000", Fraction(1, 1000)])
def test_alpha_means_what_was_written(alpha: Any) -> None:
    assert parse_alpha(alpha) == ALPHA


@pytest.mark.parametrize(
    "alpha", [0, 1, -0.1, 1.5, 0.9991, "0.99999999999", "nan", float("inf"), "1e-99", "", "x", "1/0", None]
)
def test_bad_alphas_are_refused(alpha: Any) -> None:
    with pytest.raises(IntrsError, match="alpha"):
        parse_alpha(alpha)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": Fraction(2)}, "alpha"),
        ({"n": 0}, "samples"),
        ({"dimension": 0}, "values"),
        ({"dimension": 2**40}, "values"),
        ({"alpha": Fraction(1, 10**12)}, "raise alpha"),
        ({"bound": "best"}, "bound"),
        ({"form": "three"}, "form"),
        ({"form": "two"}, "how many"),
        ({"form": "two", "classes": 1}, "how many"),
        ({"bound": "paper", "noise": Noise.of("rounded", "0.25")}, "discrete"),
        ({"bound": "paper", "form": "two", "classes": 10}, "one-class"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], words: str) -> None:
    good = {"noise": Noise.of("discrete", "0.25"), "dimension": 3072, "n": 100_000, "alpha": ALPHA}
    with pytest.raises(IntrsError, match=words):
        Certifier(**{**good, **change})


def test_the_forms_do_not_mix() -> None:
    with pytest.raises(IntrsError, match="two"):
        cifar("discrete", "0.25").radius_sq_two(9, 1)
    with pytest.raises(IntrsError, match="one"):
        cifar("discrete", "0.25", form="two", classes=10).radius_sq(9)
    with pytest.raises(IntrsError, match="more than"):
        cifar("discrete", "0.25", form="two", classes=10).radius_sq_two(60_000, 50_000)


def test_the_noise_table_is_charged_to_alpha() -> None:
    certifier = cifar("discrete", "1")
    assert (
        certifier.tau == Noise.of("discrete", "1").tau(100_000, 3072) == 100_000 * 3072 * Noise.of("discrete", "1").eta
    )
    assert certifier.level == ALPHA - certifier.tau
    assert 0 < certifier.tau < Fraction(1, 10**7)


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "bound"), [("discrete", "sound"), ("rounded", "sound"), ("discrete", "paper")])
def test_a_table_is_its_certifier_and_comes_back_from_bytes(kind: str, bound: Any, tmp_path: Path) -> None:
    certifier = Certifier(Noise.of(kind, "0.25"), 3072, 1000, ALPHA, bound)
    seen: list[tuple[int, int]] = []
    table = certifier.table(lambda done, total: seen.append((done, total)))
    assert [table.radius_sq(v) for v in range(1001)] == [certifier.radius_sq(v) for v in range(1001)]
    assert table.start == certifier.least_votes()
    assert seen[-1] == (len(table.values), len(table.values))
    table.write(tmp_path / "radii")
    back = RadiusTable.read(tmp_path / "radii")
    assert back.to_bytes() == table.to_bytes()
    assert back.certifier == certifier
    with pytest.raises(IntrsError, match="cannot write"):
        table.write(tmp_path / "radii")
    with pytest.raises(IntrsError, match="cannot read"):
        RadiusTable.read(tmp_path / "nothing")


def test_tables_are_the_same_bits_everywhere() -> None:
    """Golden: votes to radius is a function on the integers, so its bytes may not change from machine to machine."""
    table = Certifier(Noise.of("discrete", "0.12"), 3072, 500, ALPHA).table()
    assert hashlib.sha256(table.to_bytes()).hexdigest() == GOLDEN


GOLDEN = "cd64843fb8ea96093e9920c26707ab33fcbd5856f2774d1ea7c281e23e11fb85"


def test_a_table_that_falls_by_more_than_64_bits_is_refused() -> None:
    """A difference of neighbours would wrap round and look like a rise."""
    body = bytearray(Certifier(Noise.discrete("0.25"), 3072, 200, ALPHA).table().to_bytes()[:-32])
    body[-16:] = (2**63 - 1).to_bytes(8, "little", signed=True) + (-2).to_bytes(8, "little", signed=True)
    with pytest.raises(IntrsError, match="must not give a smaller radius"):
        RadiusTable.from_bytes(seal(bytes(body)), trusted=True)


def test_a_table_is_shown_in_a_line() -> None:
    table = Certifier(Noise.discrete("0.25"), 3072, 1000, ALPHA).table()
    assert repr(table) == (
        "RadiusTable(Noise.discrete('0.25'), dimension=3072, n=1000, alpha=0.001, "
        f"550 to 1000 votes -> radius_sq {table.values[0]} to {table.values[-1]})"
    )
    assert "no votes certify" in repr(Certifier(Noise.discrete("0.25"), 3072, 5, ALPHA).table())
    assert "550 to 1000 votes" in table._repr_html_()


def test_a_table_of_nothing() -> None:
    table = Certifier(Noise.of("discrete", "0.12"), 3072, 5, ALPHA).table()
    assert RadiusTable.from_bytes(table.to_bytes()).radius_sq(5) is None


def seal(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def test_altered_tables_are_refused() -> None:
    data = Certifier(Noise.of("discrete", "0.25"), 3072, 200, ALPHA).table().to_bytes()
    for place in (0, 8, 12, 20, 40, 100, 104, 112, 120, 130, len(data) - 1):
        flipped = bytearray(data)
        flipped[place] ^= 1
        with pytest.raises(IntrsError, match="radius table"):
            RadiusTable.from_bytes(bytes(flipped), trusted=True)
    for wrong in (b"", data[:100], data[:-1], data + b"\0"):
        with pytest.raises(IntrsError, match="radius table"):
            RadiusTable.from_bytes(wrong, trusted=True)


@pytest.mark.parametrize("place", [8, 12, 16, 24, 32, 48, 64, 80, 104, 112, 120, 128, 136, 200, -8])
def test_altered_tables_with_a_new_hash_are_refused(place: int) -> None:
    body = bytearray(Certifier(Noise.of("discrete", "0.25"), 3072, 200, ALPHA).table().to_bytes()[:-32])
    body[place] ^= 2
    with pytest.raises(IntrsError):
        RadiusTable.from_bytes(seal(bytes(body)))


# --- Algorithm 2 -----------------------------------------------------------------------------------------------------


def exact_p_value(n_a: int, n_b: int) -> Fraction:
    m, term, ways = n_a + n_b, 1, 1
    for k in range(n_a + n_b, n_a, -1):  # C(m, k - 1) from C(m, k)
        term = term * k // (m - k + 1)
        ways += term
    return min(Fraction(1), Fraction(2 * ways, 2**m))


@pytest.mark.parametrize("alpha", ["0.001", "0.05", "1/512", "0.3", "1e-9"])
def test_prediction_against_exact_rationals(alpha: str) -> None:
    level = Fraction(alpha)  # 1/512 is the p-value of 10 against 0: a tie
    for m in [*range(31), 100, 257]:
        passing = [n_a for n_a in range((m + 1) // 2, m + 1) if prediction_passes(n_a, m - n_a, level)]
        expected = [n_a for n_a in range((m + 1) // 2, m + 1) if m and exact_p_value(n_a, m - n_a) <= level]
        assert passing == expected
        assert least_wins(m, level) == (expected[0] if expected else None)
    table = least_wins_table(60, level)
    assert [least_wins(m, level) or m + 1 for m in range(61)] == list(table)


def test_prediction_with_many_votes() -> None:
    least = least_wins(20_000, ALPHA)
    assert least is not None
    assert exact_p_value(least, 20_000 - least) <= ALPHA < exact_p_value(least - 1, 20_000 - least + 1)
    assert prediction_passes(10, 0, Fraction(1, 512))
    assert not prediction_passes(10, 0, Fraction(1, 512) - STEP)
    assert not prediction_passes(1000, 0, Fraction(0))
    assert not prediction_passes(1000, 0, Fraction(-1, 10))
    with pytest.raises(IntrsError, match="runner-up"):
        prediction_passes(3, 4, ALPHA)


@pytest.mark.parametrize("law", [(1, 1, 1), (1, 1, 0), (2, 2, 1), (5, 5, 5, 1), (3, 2, 2), (10, 9, 1, 1)])
@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(1, 4)])
def test_prediction_errs_with_probability_at_most_alpha(law: tuple[int, ...], alpha: Fraction) -> None:
    """Theorem 8, exactly: all outcomes of 14 votes, class 0 being the most probable."""
    n, total = 14, sum(law)
    wrong = 0
    for counts in compositions(n, len(law)):
        first, second = sorted(counts, reverse=True)[:2]
        if first > second and counts[0] < first and prediction_passes(first, second, alpha):
            wrong += multinomial(counts) * math.prod(w**c for w, c in zip(law, counts, strict=True))
    assert Fraction(wrong, total**n) <= alpha


def compositions(n: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(n,)]
    return [(k, *rest) for k in range(n + 1) for rest in compositions(n - k, parts - 1)]


def multinomial(counts: tuple[int, ...]) -> int:
    return math.factorial(sum(counts)) // math.prod(math.factorial(c) for c in counts)
