"""Functions of one 8-bit activation, which become tables of 256 codes.

An operator such as Sigmoid or HardSwish takes one activation, of which there are only 256 codes, to real numbers; so
does every chain of such operators, also one that meets itself again, as x * Sigmoid(x) does. A `Function` knows the
numbers at all codes: as fractions where they are rational, so that ties are seen, else as balls, at a precision that is
raised until every code of the result is decided.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from intrs import balls
from intrs.exchange.integers import HALF, Clamp, Grid, clamped, half_up
from intrs.exchange.refusal import Refusal
from intrs.network import INT8

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flint import arb
    from numpy.typing import NDArray

    from intrs.exchange.onnx.activations import Activation

    Number = Fraction | arb
    Apply = Callable[..., Number]

T = TypeVar("T")
CODES = range(INT8[0], INT8[1] + 1)
LONGEST = 4096  # bits of a fraction: products of products grow
MOST_STEPS = 48  # of a function that goes on through quantizers
FINE = Fraction(1, 2**40)  # the grid on which bounds are stated


class Undecided(Exception):  # noqa: N818 (not an error: the precision is raised)
    """Balls do not tell on which side of a border a number lies."""


class Function:
    """`apply` of the numbers of other functions; without any, the numbers of `root` themselves."""

    def __init__(self, root: Activation, apply: Apply | None = None, *arguments: Function, plain: bool = False) -> None:
        self.root = root
        self.apply = apply
        self.arguments = arguments
        self.plain: bool = not arguments or (plain and all(f.plain for f in arguments))  # other layers compute it too
        self.steps: int = 1 + max((f.steps for f in arguments), default=-1)
        self._last: tuple[object, list[Number]] | None = None

    def then(self, apply: Apply, plain: bool = False) -> Function:
        """This function, and another after it; `plain` if that is a line, a clip or a rounding."""
        return Function(self.root, apply, self, plain=plain)

    def same_root(self, other: Function) -> bool:
        """Whether both are functions of the same numbers."""
        return self.root.origin_key() == other.root.origin_key()

    def values(self, at: Sequence[Fraction]) -> list[Number]:
        """The numbers for these numbers of the root, at the working precision."""
        if self.apply is None:
            return list(at)
        key = balls.working_bits(), tuple(at)
        if self._last is None or self._last[0] != key:  # x * f(x) asks for x twice, and its x may ask again
            columns = [f.values(at) for f in self.arguments]
            self._last = key, [_short(self.apply(*row)) for row in zip(*columns, strict=True)]
        return self._last[1]

    def codes(self, at: Sequence[Fraction], grid: Grid, clamp: Clamp = INT8) -> list[int]:
        """The codes of these numbers: each the exact one rounded half up, and clamped."""
        return decided(lambda: [clamped(_code(value, grid), clamp) for value in self.values(at)])

    def table(self, of: Grid, grid: Grid, clamp: Clamp) -> NDArray[np.int8]:
        """The codes on one grid for all codes on another."""
        return np.array(self.codes([of.value(code) for code in CODES], grid, clamp), np.int8)

    def rounded(self, to: Grid, seen_as: Grid) -> Function:
        """Through a quantizer: codes on `to`, read as those of `seen_as`."""
        return self.then(lambda value: seen_as.value(_code(value, to)), plain=True)

    def rest(self, grid: Grid) -> Function:
        """What is left over when these numbers are rounded to a grid."""
        return self.then(lambda value: minus(value, grid.value(_code(value, grid))))

    def bounds(self, at: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        """Two numbers between which all values lie."""
        floors = decided(lambda: [_floor(times(value, 1 / FINE)) for value in self.values(at)])
        return min(floors) * FINE, (max(floors) + 1) * FINE


def decided(attempt: Callable[[], T]) -> T:
    """What `attempt` finds at the first precision at which balls decide."""

    def tried() -> T | None:
        try:
            return attempt()
        except Undecided:
            return None

    found = balls.decide(tried)
    if found is None:
        raise Refusal("a value of this function is too close to a border between two codes to be told")
    return found


# ---- numbers that are fractions or balls ----------------------------------------------------------------------------


def _short(value: Number) -> Number:
    if isinstance(value, Fraction) and max(value.numerator.bit_length(), value.denominator.bit_length()) > LONGEST:
        raise Refusal("it multiplies an activation by itself too often; quantize what lies between")
    return value


def _ball(value: Number) -> arb:
    return balls.ball(value) if isinstance(value, Fraction) else value


def _floor(value: Number) -> int:
    if isinstance(value, Fraction):
        return value.numerator // value.denominator
    found = balls.unique_integer(value.floor())
    if found is None:
        raise Undecided
    return found


def _code(value: Number, grid: Grid) -> int:
    if isinstance(value, Fraction):
        return clamped(half_up(value / grid.scale) + grid.zero, INT8)
    return clamped(_floor(value / _ball(grid.scale) + _ball(HALF)) + grid.zero, INT8)


def _is_negative(value: Number) -> bool:
    if value < 0:
        return True
    if value >= 0:
        return False
    raise Undecided


def plus(a: Number, b: Number) -> Number:
    """a + b."""
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else _ball(a) + _ball(b)


def times(a: Number, b: Number) -> Number:
    """a * b."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return Fraction(0) if a == 0 or b == 0 else _ball(a) * _ball(b)


def divided(a: Number, b: Number) -> Number:
    """a / b."""
    if b == 0:
        raise Refusal("it divides by an activation that can be zero")
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a / b
    _is_negative(b)  # a ball that holds zero does not divide
    return _ball(a) / _ball(b)


def minus(a: Number, b: Number) -> Number:
    """a - b."""
    return plus(a, -b)


def line(factor: Fraction, offset: Fraction) -> Apply:
    """factor * x + offset."""
    return lambda x: plus(times(x, factor), offset)


def clip(low: Fraction | None, high: Fraction | None) -> Apply:
    """x, but not below or above these."""

    def apply(x: Number) -> Number:
        if low is not None and _is_negative(minus(x, low)):
            x = low
        if high is not None and _is_negative(minus(high, x)):
            x = high
        return x

    return apply


# ---- the functions of ONNX operators --------------------------------------------------------------------------------
# Each is the real function that the standard defines. Where a transcendental function is rational at a rational number
# (at 0), it is said so: balls would never decide a tie there.


def exp(x: Number) -> Number:
    """e to the x."""
    return Fraction(1) if x == 0 else _ball(x).exp()


def sigmoid(x: Number) -> Number:
    """1 / (1 + exp(-x))."""
    return HALF if x == 0 else 1 / (1 + (-_ball(x)).exp())


def tanh(x: Number) -> Number:
    """The hyperbolic tangent."""
    return Fraction(0) if x == 0 else _ball(x).tanh()


def erf(x: Number) -> Number:
    """The error function."""
    return Fraction(0) if x == 0 else _ball(x).erf()


def softplus(x: Number) -> Number:
    """log(1 + exp(x))."""
    ball = _ball(x)
    return ball.exp().log1p() if _is_negative(x) else ball + (-ball).exp().log1p()


def log(x: Number) -> Number:
    """The natural logarithm."""
    if _is_negative(x) or x == 0:
        raise Refusal("it takes the logarithm of an activation that can be zero or negative")
    return Fraction(0) if x == 1 else _ball(x).log()


def sqrt(x: Number) -> Number:
    """The square root; balls decide all but exact squares of the grid, which are told by hand."""
    if _is_negative(x):
        raise Refusal("it takes the square root of an activation that can be negative")
    if isinstance(x, Fraction):
        roots = [Fraction(round(part**0.5)) if part < 2**52 else Fraction(0) for part in (x.numerator, x.denominator)]
        if roots[1] and (roots[0] / roots[1]) ** 2 == x:
            return roots[0] / roots[1]
    return _ball(x).sqrt()


def mish(x: Number) -> Number:
    """x * tanh(softplus(x))."""
    return times(x, tanh(softplus(x)))


def gelu(x: Number) -> Number:
    """x / 2 * erfc(-x / sqrt(2))."""
    return Fraction(0) if x == 0 else _ball(x) / 2 * (-_ball(x) / balls.ball(2).sqrt()).erfc()


def gelu_by_tanh(x: Number) -> Number:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    if x == 0:
        return Fraction(0)
    ball = _ball(x)
    inner = (2 / balls.pi()).sqrt() * (ball + _ball(Fraction(44715, 10**6)) * ball**3)
    return ball / 2 * (1 + inner.tanh())


def softsign(x: Number) -> Number:
    """x / (1 + |x|)."""
    return divided(x, plus(Fraction(1), absolute(x)))


def absolute(x: Number) -> Number:
    """|x|."""
    return -x if _is_negative(x) else x


def swish(alpha: Fraction) -> Apply:
    """x * sigmoid(alpha * x)."""
    return lambda x: times(x, sigmoid(times(x, alpha)))


def leaky(slope: Fraction) -> Apply:
    """x, or slope * x below zero."""
    return lambda x: times(x, slope) if _is_negative(x) else x


def elu(alpha: Fraction, gamma: Fraction = Fraction(1), inner: Fraction = Fraction(1)) -> Apply:
    """gamma * x, or gamma * alpha * (exp(x / inner) - 1) below zero: Elu, Selu and Celu."""

    def apply(x: Number) -> Number:
        return times(times(_ball(times(x, 1 / inner)).expm1(), alpha) if _is_negative(x) else x, gamma)

    return apply


def hard_sigmoid(alpha: Fraction, beta: Fraction) -> Apply:
    """alpha * x + beta, clipped to 0 .. 1."""
    bent, straight = clip(Fraction(0), Fraction(1)), line(alpha, beta)
    return lambda x: bent(straight(x))


def hard_swish(x: Number) -> Number:
    """x * hard_sigmoid(x) with alpha = 1/6 and beta = 1/2."""
    return times(x, hard_sigmoid(Fraction(1, 6), HALF)(x))


def thresholded(alpha: Fraction) -> Apply:
    """x where it exceeds alpha, else 0."""
    return lambda x: x if _is_negative(minus(alpha, x)) else Fraction(0)


def power(exponent: int) -> Apply:
    """x to a small positive integer."""

    def apply(x: Number) -> Number:
        result = x
        for _ in range(exponent - 1):
            result = times(result, x)
        return result

    return apply
