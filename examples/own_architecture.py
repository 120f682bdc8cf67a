"""Train an architecture of your own under noise, with quantization, and certify what comes of it.

The images are made here, to keep this short: stripes that run upright or level. With a data set of your own, give its
name or folder to intrs.train instead.

python examples/own_architecture.py
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as fn

import intrs

SIDE = 12


class SmallNet(nn.Module):
    """A depthwise layer, squeeze and excite, h-swish and a shortcut."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.Hardswish())
        self.depthwise = nn.Conv2d(width, width, 3, 1, 1, groups=width, bias=False)
        self.norm, self.squeeze, self.excite = nn.BatchNorm2d(width), nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)
        self.fc = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of images over 255."""
        x = self.stem(x)
        y = fn.hardswish(self.norm(self.depthwise(x)))
        y = y * fn.hardsigmoid(self.excite(fn.relu(self.squeeze(fn.adaptive_avg_pool2d(y, 1)))))
        scores: Tensor = self.fc((x + y).mean((2, 3)))
        return scores


def save_images(root: Path, split: str, count: int) -> None:
    """A folder per class, as `intrs.open_data` reads them."""
    random, (y, x) = np.random.default_rng(count), np.mgrid[:SIDE, :SIDE]
    for i in range(count):
        upright = i % 2 == 0
        stripes = ((x if upright else y) // 3) % 2 * 120 + random.integers(0, 100, (SIDE, SIDE))
        folder = root / split / ("upright" if upright else "level")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.repeat(stripes[..., None], 3, 2).astype(np.uint8)).save(folder / f"{i}.png")


def main() -> None:
    """Make images, train, certify."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder) / "stripes", Path(folder) / "run"
        save_images(data, "train", 128)
        save_images(data, "test", 20)
        settings = {"sigma": 0.25, "epochs": 4, "qat_epochs": 2, "batch": 32, "lr": 0.1, "pad": 2, "flip": False}
        settings["threads"] = 1
        made = intrs.train(data, model=SmallNet(), outdir=run, progress=False, **settings)  # type: ignore[arg-type]
        print(f"integer and simulated network agree on {100 * made.results['agreement']:.1f} % of noisy test images")
        images = intrs.open_data(data, "test")
        smooth = intrs.Smooth(intrs.load(made.networks["int8"]), sigma=0.25, seed=1)
        for answer in smooth.certify_all(images.images[::9], n=1000):
            print(answer.label, f"radius {answer.radius:.3f}")


if __name__ == "__main__":
    main()
