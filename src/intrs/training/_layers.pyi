import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

def convolve(x: Floats, weights: Floats, stride: int, padding: int, y: Floats, threads: int) -> None: ...
def convolve_input(gradient: Floats, weights: Floats, stride: int, padding: int, dx: Floats, threads: int) -> None: ...
def convolve_weights(x: Floats, gradient: Floats, stride: int, padding: int, dw: Floats, threads: int) -> None: ...
def normalise(
    x: Floats, plus: Floats | None, scale: Floats, shift: Floats, epsilon: float, relu: bool,
    y: Floats, mean: Floats, variance: Floats, threads: int,
) -> None: ...  # fmt: skip
def normalise_backward(
    gradient: Floats, x: Floats, y: Floats, scale: Floats, mean: Floats, variance: Floats, epsilon: float, relu: bool,
    dx: Floats, dplus: Floats | None, dscale: Floats, dshift: Floats, threads: int,
) -> None: ...  # fmt: skip
def fake_quantise(x: Floats, scale: float, low: float, high: float, y: Floats, threads: int) -> None: ...
def fake_quantise_backward(
    gradient: Floats, x: Floats, scale: float, low: float, high: float, dx: Floats, threads: int
) -> float: ...
