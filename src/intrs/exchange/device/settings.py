"""What a device is to decide, from the settings of an export: the same names and meanings as those of `certify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.adaptive import SpendingRule, stages_of
from intrs.adaptive.tables import squared
from intrs.certificate import Certifier, least_wins, parse_alpha
from intrs.errors import SettingsError
from intrs.exact import parse_count, parse_fraction, plain, shown
from intrs.exchange.device.decisions import MOST_SAMPLES, Certifying, Decisions, Predicting, Stopping, least_votes
from intrs.noise import Noise
from intrs.request import Certify

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from intrs.certificate import Bound
    from intrs.exact import Count, Number
    from intrs.network import Network
    from intrs.noise import Kind

PREDICT_N = 100
ONLY = ("predict", "certify")


def decisions_of(
    network: Network,
    *,
    sigma: Number | None = None,
    noise: Kind = Certify.noise,  # type: ignore[assignment]
    n: Count | None = None,
    n0: Count = Certify.n0,
    alpha: Number = Certify.alpha,
    bound: Bound = Certify.bound,
    radii: Sequence[Number] = (),
    give_up: Number | None = None,
    only: str | None = None,
    at_least: Number | None = None,
    predict_n: Count | None = None,
) -> Decisions:
    """The tables of Algorithm 2 over `predict_n` samples (100), and of Algorithm 1.

    n alone certifies with that many samples. Otherwise certification is adaptive, with at most n samples: it decides
    `radii`, or without them all quarters that can be certified. `at_least` asks for one radius only, and
    `only` leaves one of the two algorithms out.
    """
    if sigma is None:
        raise SettingsError("how much noise? Pass sigma, a fraction of the pixel range, such as sigma=0.25")
    if only is not None and only not in ONLY:
        raise SettingsError(f"only: choose from {', '.join(ONLY)}, got {shown(only)}")
    if at_least is not None and (only == "predict" or radii):
        raise SettingsError("at_least asks for one radius; it cannot be combined with radii or only predictions")
    if only == "predict":
        _refuse("predictions", n=n, radii=radii or None, give_up=give_up)
    certifies_only = only == "certify" or at_least is not None
    if certifies_only:
        _refuse("certificates", predict_n=predict_n)
    law = Noise.of(noise, sigma)
    law.require_integers()
    samples = PREDICT_N if predict_n is None else predict_n
    predict = None if certifies_only else _predicting(network, law, samples, alpha)
    if only == "predict":
        return Decisions(law, predict)
    dimension = _dimension(network)
    certifier = Certifier(law, dimension, Certify.n if n is None else n, alpha, bound)
    n0 = parse_count(n0, "n0", most=MOST_SAMPLES)
    radius = None if at_least is None else parse_fraction(at_least, "at_least")
    if n is not None and not radii:
        if give_up is not None:
            raise SettingsError("give_up is for adaptive certification; leave n out, or give radii")
        return Decisions(law, predict, certify=_certifying(certifier, n0, radius))
    return Decisions(law, predict, adaptive=_stopping(certifier, n0, radii, give_up, radius))


def _refuse(asked: str, **settings: object) -> None:
    """Refuse settings of the algorithm that is left out: they would be ignored."""
    if given := [name for name, value in settings.items() if value is not None]:
        raise SettingsError(f"only {asked} are asked for, which take no {', '.join(given)}; leave that out")


def _dimension(network: Network) -> int:
    height, width, channels = network.input_shape
    return height * width * channels


def _predicting(network: Network, noise: Noise, n: Count, alpha: Number) -> Predicting:
    samples, level = parse_count(n, "predict_n", most=MOST_SAMPLES), parse_alpha(alpha)
    level -= noise.tau(samples, _dimension(network))
    if level <= 0 or least_wins(samples, level) is None:
        raise SettingsError(
            f"with {samples} samples a prediction can only abstain at alpha {plain(parse_alpha(alpha))}"
        )
    return Predicting(samples, level)


def _certifying(certifier: Certifier, n0: int, radius: Fraction | None) -> Certifying:
    if certifier.least_votes() is None:
        raise SettingsError(
            f"with n = {certifier.n} and alpha = {float(certifier.alpha):g} no number of votes certifies; raise n"
        )
    if radius is None:
        return Certifying(n0, certifier, certifier.table())
    if least_votes(certifier, squared(radius)) > certifier.n:
        raise SettingsError(f"no number of {certifier.n} votes certifies a radius of {plain(radius)}; take a larger n")
    return Certifying(n0, certifier, at_least=radius)


def _stopping(
    certifier: Certifier, n0: int, radii: Sequence[Number], give_up: Number | None, radius: Fraction | None
) -> Stopping:
    asked = radii if radius is None else [radius]
    rule = stages_of(certifier, asked, give_up=give_up).rules(certifier)[-1]
    assert isinstance(rule, SpendingRule)
    wanted = max(rule.radii) if radius is None else radius
    if not rule.tables.thresholds or (radius is not None and rule.tables.of(radius) is None):
        raise SettingsError(
            f"with at most {certifier.n} samples no number of votes certifies a radius of {plain(wanted)}; raise n"
        )
    return Stopping(n0, rule, only_asked=radius is not None)
