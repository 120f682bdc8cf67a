"""From votes to a radius: confidence bounds, robustness bounds, the test of Algorithm 2; always on the safe side.

    certifier = Certifier(Noise.discrete("0.25"), dimension=3072, n=100_000, alpha="0.001")
    certifier.judge(label, counts)

confidence -> bounds -> certifier -> tables, and outcome and prediction beside them. docs/theory.md holds the proofs;
equation and theorem numbers in this room refer to it. A float appears only as the first guess of a root whose place is
then proved in ball arithmetic, so no answer depends on the machine.
"""

from intrs.certificate.bounds import BOUNDS, Bound
from intrs.certificate.certifier import FORMS, Certifier, Form, runner_up
from intrs.certificate.confidence import lower_bound, parse_alpha, parse_samples, upper_bound
from intrs.certificate.outcome import Abstained, Certified
from intrs.certificate.prediction import least_wins, least_wins_table, prediction_passes
from intrs.certificate.tables import RadiusTable

__all__ = [
    "BOUNDS",
    "FORMS",
    "Abstained",
    "Bound",
    "Certified",
    "Certifier",
    "Form",
    "RadiusTable",
    "least_wins",
    "least_wins_table",
    "lower_bound",
    "parse_alpha",
    "parse_samples",
    "prediction_passes",
    "runner_up",
    "upper_bound",
]
