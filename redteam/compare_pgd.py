"""Our PGD beside torchattacks' on one network: the shipped one without smoothing, through its differentiable twin.

Both get the same loss, radius, step length and number of steps, and start at the image. torchattacks works in floats;
its images are rounded onto the grid as ours are.

    python -m redteam.compare_pgd [--images 20]          # needs torchattacks
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

import intrs
from intrs import zoo
from intrs.pgd.ball import Ball
from redteam import MODEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from intrs.pgd.ball import Norm

SETTINGS: tuple[tuple[Norm, str, int], ...] = (("linf", "0.004", 7), ("linf", "0.012", 7), ("l2", "0.12", 20))


def unit_pixels(scores: Any, unit: float) -> Any:
    """The network as other libraries want it: (n, channels, height, width) on the scale 0..1, float logits."""
    torch = import_module("torch")

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.where = torch.nn.Parameter(torch.zeros(()))  # the library looks for a device

        def forward(self, x: Any) -> Any:
            x = x.flatten(1).view(x.shape)  # so that its gradient is contiguous, which the library takes for granted
            return (scores(x.permute(0, 2, 3, 1) * 255) / unit).float()

    return Network().eval()


def theirs(
    scores: Any, image: NDArray[np.uint8], label: int, ball: Ball, steps: int, unit: float
) -> NDArray[np.float64]:
    """The perturbation by torchattacks, in pixel levels, before rounding."""
    torch, library, pgd = (import_module(name) for name in ("torch", "torchattacks", "intrs.pgd.descent"))
    radius, length = ball.radius / 255, pgd.STRIDE * ball.radius / steps / 255
    make = library.PGD if ball.norm == "linf" else library.PGDL2
    attack = make(unit_pixels(scores, unit), eps=radius, alpha=length, steps=steps, random_start=False)
    x = torch.from_numpy(image.astype(np.float32) / 255).permute(2, 0, 1)[None].contiguous()
    found = attack(x, torch.tensor([label]))[0].permute(1, 2, 0).double().numpy() * 255
    change: NDArray[np.float64] = found - image
    return change


def ours(scores: Any, image: NDArray[np.uint8], label: int, ball: Ball, steps: int, unit: float) -> NDArray[np.float64]:
    """The perturbation by our PGD, in pixel levels, before rounding."""
    torch, pgd = import_module("torch"), import_module("intrs.pgd.descent")
    loss = pgd.smooth_loss(scores, image, 0, label, pgd.Draws(None, 0, 1), unit)
    x = torch.from_numpy(image.astype(np.float32))
    found: NDArray[np.float64] = pgd.descend(loss, x, ball.norm, ball.radius, steps).double().numpy()
    return found


def compare(images: int, norm: Norm, eps: str, steps: int) -> dict[str, Any]:
    """Right before, wrong after either attack, mean loss after either, and the mean cosine of the perturbations."""
    network, data = intrs.load(zoo.model_path(MODEL)), intrs.open_data(zoo.DEFAULT_DATA)
    pgd, ball = import_module("intrs.pgd.descent"), Ball.of(norm, eps)
    scores = import_module("intrs.pgd.twin").Twin(network)
    right = np.flatnonzero(network.predict(data.images[: 4 * images]) == data.labels[: 4 * images])[:images]
    wrong, losses, cosines = {"ours": 0, "theirs": 0}, {"ours": 0.0, "theirs": 0.0}, []
    for i in map(int, right):
        image, label, changes = data.images[i], int(data.labels[i]), {}
        unit = pgd.score_unit(scores, image, 0, pgd.Draws(None, 0, 1))
        for name, attack in (("ours", ours), ("theirs", theirs)):
            changes[name] = attack(scores, image, label, ball, steps, unit)
            attacked = (image + ball.to_grid(changes[name], image)).astype(np.int32)
            logits = network.scores(attacked[None])[0] / unit
            wrong[name] += int(np.argmax(logits)) != label
            losses[name] += float(np.logaddexp.reduce(logits) - logits[label]) / len(right)
        a, b = (changes[name].ravel() for name in ("ours", "theirs"))
        cosines.append(float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))))
    return {"images": len(right), "wrong": wrong, "loss": losses, "cosine": float(np.mean(cosines))}


def main(arguments: Sequence[str]) -> int:
    """Print one line a setting."""
    parser = argparse.ArgumentParser(prog="redteam.compare_pgd", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--images", type=int, default=20, help="images that are right at first (20)")
    args = parser.parse_args(arguments)
    for norm, eps, steps in SETTINGS:
        found = compare(args.images, norm, eps, steps)
        wrong, loss = found["wrong"], found["loss"]
        print(
            f"{norm} eps {eps}, {steps} steps, {found['images']} images: wrong ours {wrong['ours']}, torchattacks "
            f"{wrong['theirs']}; mean loss ours {loss['ours']:.3f}, torchattacks {loss['theirs']:.3f}; "
            f"mean cosine {found['cosine']:.4f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
