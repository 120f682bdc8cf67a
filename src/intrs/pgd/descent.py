"""Projected gradient descent (Madry et al. 2018), against a network or against its smoothed form.

Against a smoothed classifier the loss is -log of the softmax of the label, averaged over draws of the noise (Salman et
al. 2019), with fresh draws at every step. The descent is in floats; what comes out is on the integer grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from intrs.exact import derive_key
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from intrs.noise import Noise
    from intrs.pgd.ball import Ball, Norm

    Loss = Callable[[Tensor, int], Tensor]
    """Of an image in pixel levels (height, width, channels) at a step: what the attack makes large."""

CPU = torch.device("cpu")
STRIDE = 2.5  # steps times step length, in radii: enough to cross the ball and turn (Madry et al.)
SPREAD = 8.0  # standard deviation over classes to which scores are brought; 1 to 4 and 32 were weaker (docs/pgd.md)
BATCH = 64  # noisy images at once
LAST = 2**20  # the draws that choose between restarts: a step that no descent takes


@dataclass(frozen=True)
class Draws:
    """Noise for the attack, addressed by step: other bits than any prediction or certificate uses.

    Without noise there is one draw, of nothing.
    """

    noise: Noise | None
    seed: int
    count: int
    device: torch.device = CPU

    def at(self, image: NDArray[np.uint8], index: int, step: int) -> Tensor:
        """(count, *image.shape), for one step."""
        if self.noise is None:
            return torch.zeros(1, *image.shape, device=self.device)
        key = derive_key(f"attack {self.seed:#x}")
        samples = Samples(key, index, step * self.count, self.count)
        drawn = noisy_images(np.zeros_like(image), self.noise, samples)
        return self.tensor(drawn)

    def tensor(self, pixels: NDArray[Any]) -> Tensor:
        """Pixels where the gradients are computed."""
        return torch.from_numpy(pixels.astype(np.float32)).to(self.device)


def score_unit(scores: nn.Module, image: NDArray[np.uint8], index: int, draws: Draws) -> float:
    """What to divide scores by. Those of integer networks have an unknown scale, so all are brought to one spread."""
    with torch.no_grad():
        found = scores(draws.tensor(image) + draws.at(image, index, LAST))
        return float(found.std(1).mean()) / SPREAD or 1.0


def smooth_loss(
    scores: nn.Module, image: NDArray[np.uint8], index: int, label: int, draws: Draws, unit: float | None = None
) -> Loss:
    """-log of the label's softmax, averaged over draws; scores are divided by `unit`, measured if not given."""
    unit = score_unit(scores, image, index, draws) if unit is None else unit

    def loss(x: Tensor, step: int) -> Tensor:
        parts = torch.split(draws.at(image, index, step), BATCH)
        shares = [torch.log_softmax(scores(x + part).double() / unit, 1)[:, label] for part in parts]
        return -torch.logsumexp(torch.cat(shares), 0)

    return loss


def descend(
    loss: Loss, image: Tensor, norm: Norm, radius: float, steps: int, first: int = 0, begin: Tensor | None = None
) -> Tensor:
    """The perturbation after `steps` steps of STRIDE * radius / steps each, uphill, kept in ball and pixel range.

    Plain PGD in floats, all in pixel levels. first: the number of its first step, which addresses the noise.
    """
    change, length = torch.zeros_like(image) if begin is None else begin, STRIDE * radius / max(steps, 1)
    for step in range(first, first + steps):
        x = (image + change).requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x, step), x)
        uphill = gradient.sign() if norm == "linf" else gradient / gradient.norm().clamp_min(1e-30)
        change = project(change + length * uphill, image, norm, radius)
    return change


def project(change: Tensor, image: Tensor, norm: Norm, radius: float) -> Tensor:
    """Into the ball, then into the pixel range, which lies around the image and so cannot leave the ball."""
    if norm == "linf":
        change = change.clamp(-radius, radius)
    else:
        change = change * min(1.0, radius / max(float(change.norm()), 1e-30))
    return (image + change).clamp(0, 255) - image


def attack_image(
    scores: nn.Module,
    image: NDArray[np.uint8],
    index: int,
    label: int,
    ball: Ball,
    draws: Draws,
    *,
    steps: int,
    restarts: int = 1,
) -> NDArray[np.uint8]:
    """The attacked image: inside the ball, chosen to make `label` lose.

    The first descent begins at the image, further ones at random points of the ball; the best counts.
    """
    if not ball.limit:
        return image.copy()
    loss = smooth_loss(scores, image, index, label, draws)
    found = [_candidate(loss, image, index, ball, draws, steps, k) for k in range(restarts)]
    if restarts == 1:
        return found[0]
    with torch.no_grad():
        values = [float(loss(draws.tensor(x), LAST)) for x in found]
    return found[int(np.argmax(values))]


def _candidate(
    loss: Loss, image: NDArray[np.uint8], index: int, ball: Ball, draws: Draws, steps: int, restart: int
) -> NDArray[np.uint8]:
    x, key = draws.tensor(image), derive_key(f"attack start {draws.seed:#x} {index} {restart}")
    begin = _random_point(x, ball, key) if restart else None
    change = descend(loss, x, ball.norm, ball.radius, steps, restart * steps, begin)
    return (image + ball.to_grid(change.cpu().numpy().astype(np.float64), image)).astype(np.uint8)


def _random_point(image: Tensor, ball: Ball, key: int) -> Tensor:
    """Anywhere in an l_inf ball; in an l2 ball of many dimensions nearly all points are near its surface."""
    random = torch.Generator().manual_seed(key % 2**63)
    if ball.norm == "linf":
        change = (2 * torch.rand(image.shape, generator=random) - 1) * ball.radius
    else:
        change = torch.randn(image.shape, generator=random)
        change = change * (ball.radius / float(change.norm()))
    return project(change.to(image.device), image, ball.norm, ball.radius)
