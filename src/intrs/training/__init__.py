"""Training of integer networks under noise. PyTorch lives only here and in `intrs.pgd`; importing this needs none."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intrs.data import is_path
from intrs.errors import SettingsError
from intrs.exact import parse_count, parse_seed, shown
from intrs.files import as_path
from intrs.progress import reporting
from intrs.training import pytorch
from intrs.training.recipe import MOST_EPOCHS, Recipe, objective_settings, plain_numbers, plain_sigma

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from torch import nn

    from intrs.exact import Count, Number
    from intrs.exchange.convention import Numbers
    from intrs.progress import Shown
    from intrs.training.pipeline import Session

__all__ = ["Recipe", "Trained", "train"]

NO_MEMORY = re.compile("out of memory|can't allocate memory|not enough memory")
PACKAGES = ("torch", "safetensors")  # of the extra `train`, which training needs from its first moment on


@dataclass(frozen=True, eq=False, repr=False)
class Trained:
    """A finished training run in its folder."""

    folder: Path
    recipe: Recipe
    results: dict[str, Any]  # what results.json holds: accuracy of each form of the network, files, identity
    log: list[dict[str, Any]]  # an entry per epoch
    networks: dict[str, Path]  # "fp32", and "int8" if there were epochs with quantization
    card: Path

    @property
    def faithful(self) -> bool:
        """Whether the integer network follows the fake-quantized one as closely as can be asked for."""
        from intrs.training.card import faithful

        return faithful(self.results)

    def __repr__(self) -> str:
        form = "integer" if "int8" in self.networks else "fp32"
        right, noisy = 100 * self.results["noisy_accuracy"][form], "noisy " if self.recipe.sigma else ""
        words = f"the {form} network is right on {right:.2f} % of {self.results['test_images']:,} {noisy}test images"
        return f"Trained({self.recipe.name} in {self.folder}: {words})"


def train(
    data: str | Path,
    architecture: str | Path | None = None,
    outdir: str | Path | None = None,
    *,
    model: nn.Module | None = None,
    sigma: Number | None = None,
    noise: str = Recipe.noise,
    objective: str = Recipe.objective,
    lam: float | None = None,
    eta: float | None = None,
    copies: Count | None = None,
    epochs: Count | None = None,
    qat_epochs: Count = Recipe.qat_epochs,
    batch: Count = Recipe.batch,
    lr: float = Recipe.lr,
    qat_lr: float = Recipe.qat_lr,
    schedule: str = Recipe.schedule,
    momentum: float = Recipe.momentum,
    weight_decay: float = Recipe.weight_decay,
    flip: bool = Recipe.flip,
    pad: Count = Recipe.pad,
    precision: str = Recipe.precision,
    start: str | Path | None = None,
    weights: str | Path | None = None,
    mean: Numbers = Recipe.mean,
    std: Numbers = Recipe.std,
    train_from: str = Recipe.train_from,
    hold_out: Count = Recipe.hold_out,
    seed: int | None = Recipe.seed,
    threads: Count = 0,
    device: str = "auto",
    progress: Shown = None,
    on_start: Callable[[Session], object] | None = None,
    on_epoch: Callable[[dict[str, Any]], object] | None = None,
    command: Sequence[str] = (),
) -> Trained:
    """Train a network under noise, quantize and measure it; the same call continues an interrupted run.

    `data` has the splits train and test; docs/training.md says what the settings mean. The architecture is a name, one
    of your own ("net.py:Net(width=16)", which runs that code; a float "net.onnx"), or `model`, a PyTorch module with
    the weights that it has; it stays as it is. `mean` and `std` are the normalisation that your own expects. `lam`,
    `eta` and `copies` have defaults by objective; `epochs` are those in float, none by default if `start`, the folder
    of another run, gives the float weights. `seed` None: drawn. `threads` 0: as many as PyTorch takes.
    `device`: cpu, cuda or mps; auto takes CUDA, else MPS, else the CPU. Resuming bit for bit is promised on the CPU
    only.

    on_start is called once, when everything is opened and checked; on_epoch after every epoch, with its entry in the
    log. `command` is for the model card: the words of the command that is being run; without it the card has this call.
    """
    pytorch.check_installed("training", *PACKAGES)
    from intrs.training.pipeline import Places, open_session

    settings = {
        "sigma": "" if sigma in (None, "") else plain_sigma(sigma),
        "noise": noise,
        "objective": objective,
        **objective_settings(objective, lam, eta, None if copies is None else parse_count(copies, "copies")),
        "qat_epochs": parse_count(qat_epochs, "qat_epochs", 0, MOST_EPOCHS),
        "batch": parse_count(batch, "batch"),
        "lr": lr,
        "qat_lr": qat_lr,
        "schedule": schedule,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "flip": flip,
        "pad": parse_count(pad, "pad", 0),
        "precision": precision,
        "seed": parse_seed(seed),
        "train_from": train_from,
        "hold_out": parse_count(hold_out, "hold_out", 0),
        "mean": plain_numbers(mean, "mean"),
        "std": plain_numbers(std, "std"),
    }
    if (architecture is None) == (model is None) or outdir is None:
        raise SettingsError("give an architecture by name, or a model that is a PyTorch module, and a folder (outdir)")
    origins = [as_path(path, name) if path else None for path, name in ((start, "start"), (weights, "weights"))]
    places = Places(
        _source(data), as_path(outdir, "outdir"), "" if architecture is None else str(architecture), *origins
    )
    float_epochs = None if epochs is None else parse_count(epochs, "epochs", 0, MOST_EPOCHS)
    where = pytorch.choose_device(device)
    with (
        pytorch.threads(parse_count(threads, "threads", 0)),
        contextlib.closing(open_session(places.architecture, places, float_epochs, settings, model, where)) as session,
        reporting(progress) as report,
    ):
        if on_start:
            on_start(session)
        with _enough_memory(session.recipe.batch):
            session.work(report, on_epoch)
            return session.finish(report, command)


def _source(data: object) -> str:
    """The name or path of the data: pixels that are in memory have no splits."""
    if not is_path(data):
        words = "expected the name of a data set or a path, because training needs the splits train and test"
        raise SettingsError(f"data: {words}, got {shown(data)}")
    return os.fspath(data)


@contextlib.contextmanager
def _enough_memory(batch: int) -> Iterator[None]:
    """Say so when memory runs out: PyTorch raises a RuntimeError that only its words tell from others."""
    try:
        yield
    except RuntimeError as error:
        if not NO_MEMORY.search(str(error)):
            raise
        advice = "take a smaller batch (and another folder, if epochs are done in this one)"
        raise SettingsError(f"there is not enough memory to train with batches of {batch}: {advice}") from None
