"""The training loop: a float phase, then a quantization-aware one, a checkpoint after every epoch.

The same call continues an interrupted run and ends with the same weights bit for bit, on the same machine with the same
number of threads.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from intrs.errors import DataError, SettingsError
from intrs.progress import Progress
from intrs.training import architectures, objective
from intrs.training.batches import ADAPTATION, CALIBRATION, Batches, HeldOut, stream_of, to_input
from intrs.training.quant import NORMS, ActQuant, calibrate, set_mode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from intrs.data import Images
    from intrs.progress import OnProgress
    from intrs.training.architectures import Architecture, Task
    from intrs.training.checkpoint import Checkpoint
    from intrs.training.recipe import Recipe

WATCHED = 2000  # held-out images that are looked at after every epoch
CPU = torch.device("cpu")
CALIBRATION_BATCHES, ADAPTATION_BATCHES = 8, 16

Predict = Callable[["NDArray[np.int32]"], "NDArray[np.int64]"]
"""The classes of integer images (n, height, width, channels)."""
FirstWeights = Callable[[nn.Module], None]
"""Puts weights into a network that has random ones."""
OnEpoch = Callable[[dict[str, Any]], object]
"""Called after every epoch, with its entry in the log."""


def check_data(train: Images, test: Images, recipe: Recipe) -> None:
    """Refuse data that the recipe cannot be followed on."""
    if reason := _class_fault(train, test) or _size_fault(train, test, recipe):
        raise DataError(f"{train.name}: {reason}")
    if recipe.model is None:
        architectures.check_images(recipe.architecture, train.image_shape)


def _class_fault(train: Images, test: Images) -> str | None:
    known = np.unique(train.labels)
    classes = architectures.classes_of(train)
    if classes < 2:
        return "one class only; a classifier needs two or more"
    if set(train.classes) != set(test.classes):
        odd = sorted(set(train.classes) ^ set(test.classes))
        return f"training and test images have different classes ({', '.join(odd[:5])})"
    if train.classes != test.classes:
        return "training and test images number their classes in different orders"
    if len(known) < classes:
        gap = next(label for label in range(classes) if label >= len(known) or known[label] != label)
        return f"class {train.classes[gap] if train.classes else gap} has no training images"
    if test.labels.max() >= classes:
        return (
            f"a test image has the label {test.labels.max()}, but there are training images of {classes} classes only"
        )
    return None


def _size_fault(train: Images, test: Images, recipe: Recipe) -> str | None:
    if test.image_shape != train.image_shape:
        return f"training images have the shape {train.image_shape}, test images {test.image_shape}"
    if len(train) < recipe.batch:
        return f"{len(train)} training images do not fill a batch of {recipe.batch}; take a smaller batch"
    if len(train) - recipe.hold_out < recipe.batch:
        return f"hold_out {recipe.hold_out} leaves less than a batch of {recipe.batch} of {len(train)} training images"
    if recipe.pad >= min(train.image_shape[:2]):
        return f"pad {recipe.pad} is too much for images of this size: at most {min(train.image_shape[:2]) - 1}"
    return None


class Training:
    """One run in its folder, from its last checkpoint to its end."""

    def __init__(
        self, recipe: Recipe, task: Task, train: Images, watched: Images, kept: Checkpoint,
        first: FirstWeights | None = None, kind: Architecture | None = None,
        device: torch.device = CPU,
    ) -> None:  # fmt: skip
        self.recipe, self.kept, self.device = recipe, kept, device
        self._progress: OnProgress | None = None
        self.batches, self.watched = Batches(train, recipe), HeldOut(watched, recipe, WATCHED)
        self.model = architectures.build(kind or recipe.architecture, task, recipe.key("first weights")).to(device)
        if recipe.train_from:
            freeze(self.model, recipe.train_from)
        self.optimizer = make_optimizer(self.model, recipe)
        self._scales = [layer.scale for layer in self.model.modules() if isinstance(layer, ActQuant)]
        self._restore(first)

    def _restore(self, first: FirstWeights | None) -> None:
        done = len(self.kept.log)
        if done:
            # The optimizer starts afresh with quantization-aware training.
            self.kept.load(self.model, self.optimizer if done != self.recipe.epochs else None)
            set_mode(self.model, "quant" if done > self.recipe.epochs else "float")
        elif first:
            first(self.model)

    @property
    def images(self) -> tuple[int, int]:
        """Images to show the network, copies counted: in all, and done already."""
        each = self.batches.steps * self.recipe.batch * self.recipe.copies
        return each * self.recipe.total, each * len(self.kept.log)

    def run(self, progress: OnProgress | None = None, on_epoch: OnEpoch | None = None) -> None:
        """Train to the end."""
        self._progress = progress
        self._report(self.images[1], "")
        if not self.kept.log and self.recipe.weights and self.recipe.sigma:
            self._adapt_statistics()
        for epoch in range(len(self.kept.log), self.recipe.total):
            if epoch == self.recipe.epochs:
                self._begin_quantization()
            entry = self._epoch(epoch)
            self.kept.save(self.model, self.optimizer, entry)
            if on_epoch:
                on_epoch(entry)

    def _report(self, done: int, note: str) -> None:
        if self._progress:
            self._progress(Progress(done, self.images[0], "images", note))

    @torch.no_grad()
    def _adapt_statistics(self) -> None:
        """Set batch-norm statistics by noisy images: published weights bring those of clean ones along.

        Frozen layers get them too, before they are frozen.
        """
        noisy = self.batches.stream(ADAPTATION)
        norms = [layer for layer in self.model.modules() if isinstance(layer, NORMS)]
        momentum = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # average over all batches
        self.model.train()
        count = min(ADAPTATION_BATCHES, self.batches.steps)
        with self._precision(0):
            for i in range(count):
                self.model(next(noisy)[0].to(self.device))
                self._report(0, f"statistics of noisy images, batch {i + 1} of {count}")
        for norm, before in zip(norms, momentum, strict=True):
            norm.momentum = before

    def _begin_quantization(self) -> None:
        if self.recipe.epochs == 0:  # else kept at the end of the last float epoch
            self.kept.save_float(self.model)
        noisy = enumerate(self.batches.stream(CALIBRATION))
        count = min(CALIBRATION_BATCHES, self.batches.steps)

        def batch() -> torch.Tensor:
            i, (x, _) = next(noisy)
            self._report(self.images[1], f"scales of activations, batch {i + 1} of {count}")
            return x.to(self.device)

        calibrate(self.model, batch, count)
        self.optimizer = make_optimizer(self.model, self.recipe)

    def _epoch(self, epoch: int) -> dict[str, Any]:
        recipe, steps = self.recipe, self.batches.steps
        begin, total_loss, hits, done = time.monotonic(), 0.0, 0, self.images[1]
        noise_before = self.batches.noise_seconds
        self.model.train()
        torch.manual_seed(recipe.key(f"random layers {epoch}") % 2**63)  # dropout's, the same if the run is resumed
        freeze_statistics(self.model, everywhere=epoch == recipe.total - 1 and recipe.qat_epochs > 1)
        for step, (x, labels) in enumerate(self.batches.stream(stream_of(recipe, epoch))):
            loss, right = self._step(x, labels, epoch, recipe.learning_rate(epoch + (step + 0.5) / steps))
            total_loss, hits, done = total_loss + loss, hits + right, done + len(x)
            if not math.isfinite(loss):
                raise SettingsError(self._diverged(epoch, f"the loss became {loss} in step {step + 1}"))
            self._report(done, f"epoch {epoch + 1} of {recipe.total}, loss {total_loss / (step + 1):.3f}")
        if not all(bool(p.isfinite().all()) for p in self.model.parameters()):  # before they are kept
            raise SettingsError(self._diverged(epoch, "weights are no longer finite at the end"))
        if not all(bool(scale > 0) for scale in self._scales):  # no network of integers could be made of them
            raise SettingsError(self._diverged(epoch, "a scale of activations is no longer positive at the end"))
        seconds = time.monotonic() - begin
        shown = steps * recipe.batch * recipe.copies
        watched = "held_out" if recipe.hold_out else "test"
        return {
            "epoch": epoch + 1,
            "phase": recipe.phase(epoch),
            "loss": total_loss / steps,
            "train_noisy_accuracy": hits / shown,
            f"{watched}_noisy_accuracy": accuracy(predictor(self.model.eval()), self.watched),
            "seconds": round(seconds, 2),
            "images_per_second": round(shown / seconds, 1),
            "noise_share": round((self.batches.noise_seconds - noise_before) / seconds, 4),
            "threads": torch.get_num_threads(),
        } | ({} if self.device.type == "cpu" else {"device": self.device.type})

    def _step(self, x: torch.Tensor, labels: torch.Tensor, epoch: int, rate: float) -> tuple[float, int]:
        """One step of SGD; the loss and how many of the noisy images were right."""
        x, labels = x.to(self.device), labels.to(self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        with self._precision(epoch):
            logits = self.model(x)
        logits = logits.float()
        loss = objective.loss(logits, labels, self.recipe)
        loss.backward()  # type: ignore[no-untyped-call]
        scales = self._scales if self.recipe.phase(epoch) == "qat" else []
        before = [scale.detach().clone() for scale in scales]
        self.optimizer.step()
        bound_scales(self.optimizer, scales, before)
        right = (logits.detach().argmax(1) == labels.repeat(self.recipe.copies)).sum()
        return float(loss.detach()), int(right)

    def _precision(self, epoch: int) -> contextlib.AbstractContextManager[object]:
        """Convolutions in bfloat16 if the recipe says so; parameters, statistics and loss stay in float32.

        The last epoch with quantization is in float32 all the same: it trains the very network that will be folded.
        """
        last = self.recipe.qat_epochs and epoch == self.recipe.total - 1
        if self.recipe.precision == "bf16" and not last:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def _diverged(self, epoch: int, what: str) -> str:
        kept = f"the checkpoint after epoch {epoch} is kept" if epoch else "there is no checkpoint yet"
        advice = "take a smaller lr (or qat_lr), or the precision fp32, and another folder"
        return f"epoch {epoch + 1}: {what}; {kept}. Training diverged: {advice}"


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    """SGD; no decay of batch norm, biases and scales (everything of rank 0 or 1)."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=recipe.momentum > 0)


@torch.no_grad()
def bound_scales(optimizer: torch.optim.SGD, scales: list[nn.Parameter], before: list[torch.Tensor]) -> None:
    """Let a step halve a scale of activations at most: a longer one would take it to zero or beyond, for good.

    Where this acts, momentum is dropped too, which would otherwise go on halving it. Other scales keep every bit.
    """
    for scale, old in zip(scales, before, strict=True):
        least = old / 2
        short = scale < least
        scale.copy_(torch.where(short, least, scale))
        momentum = optimizer.state[scale].get("momentum_buffer") if scale in optimizer.state else None
        if momentum is not None:
            momentum.masked_fill_(short, 0.0)


def freeze(model: nn.Module, train_from: str) -> None:
    """Leave all parameters as they are that stand before a layer, in the order in which the network defines them."""
    named = list(model.named_parameters())
    before = next((i for i, (name, _) in enumerate(named) if name.startswith(f"{train_from}.")), None)
    if before is None:
        parts = [name for name, part in model.named_children() if _trainable(part)]
        raise SettingsError(f"train_from: the network has no layer {train_from!r}; it has {', '.join(parts)}")
    for _, parameter in named[:before]:
        parameter.requires_grad_(False)


def _trainable(part: nn.Module) -> bool:
    return not isinstance(part, ActQuant) and any(True for _ in part.parameters())


def freeze_statistics(model: nn.Module, everywhere: bool) -> None:
    """Use running statistics from here on where batch norm is frozen, or everywhere.

    The latter is for the last epoch, which trains the very network that will be folded.
    """
    for layer in model.modules():
        if isinstance(layer, NORMS) and (everywhere or not layer.weight.requires_grad):
            layer.eval()


def predictor(model: nn.Module) -> Predict:
    """The classes that a network gives to integer images, the lowest at a tie; in the precision of its weights then."""

    @torch.no_grad()
    def predict(images: NDArray[np.int32]) -> NDArray[np.int64]:
        weights = next(model.parameters())
        x = to_input(images, weights.dtype).to(weights.device)
        found: NDArray[np.int64] = model(x).cpu().numpy().argmax(1)
        return found

    return predict


def accuracy(predict: Predict, data: HeldOut, noisy: bool = True) -> float:
    """Share of images whose class is right."""
    return float((classes(predict, data, noisy) == data.labels).mean())


def classes(predict: Predict, data: HeldOut, noisy: bool = True) -> NDArray[np.int64]:
    """The class of every image."""
    return np.concatenate([predict(batch) for batch in data.batches(noisy)])
