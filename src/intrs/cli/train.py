"""`intrs train`: a data set and a recipe -> a network to certify."""

from __future__ import annotations

import contextlib
import shlex
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from intrs.cli.screen import INTERRUPTED, meter, print_table, show, table
from intrs.data import open_data
from intrs.errors import IntrsError
from intrs.training.recipe import Recipe, plain_sigma
from intrs.training.state import RESULTS, write_json

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from intrs.data import Images

NEEDED = ("torch", "safetensors")
ROOMS = ("architectures", "checkpoint", "engine", "evaluate", "card", "pretrained")
HOW_TO_INSTALL = (
    "training needs {missing}: pip install 'intrs[train]' (without CUDA, install PyTorch's CPU build first, "
    "by the command that pytorch.org gives; it spares the CUDA libraries)"
)
EPOCHS, EPOCHS_AFTER_START = 30, 0
CONSISTENCY = {"lam": 10.0, "eta": 0.5, "copies": 2}  # of Jeong and Shin 2020


def train(args: Namespace) -> int:
    """Train, or go on training, then export, evaluate and write the card."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise IntrsError(HOW_TO_INSTALL.format(missing=" and ".join(missing)))
    # All now, so that nothing can be missing after hours of work.
    architectures, checkpoint, engine, _, _, pretrained = map(_room, ROOMS)
    kind = architectures.architecture(args.architecture)
    origin = checkpoint.start_of(args.start) if args.start else None
    weights = pretrained.read(args.weights, args.architecture, kind.form) if args.weights else None
    data = open_data(args.data, "train")
    test = open_data(args.data, "test")
    recipe = _recipe(args, data, origin, weights)
    engine.check_data(data, test, recipe)
    _set_up(args.threads)
    kept = checkpoint.Checkpoint(args.outdir, recipe)
    with contextlib.closing(kept):
        try:
            _work(args, kept, data, test, weights)
        except KeyboardInterrupt:
            print(_how_to_continue(args, len(kept.log), recipe.total), file=sys.stderr)
            return INTERRUPTED
    return 0


def _work(args: Namespace, kept: Any, data: Images, test: Images, weights: Any) -> None:
    _announce(kept, data, test)
    task, recipe = _room("architectures").Task.of(data), kept.recipe
    shown, watched = _room("batches").hold_out(data, recipe.hold_out) if recipe.hold_out else (data, test)
    first = weights.put if weights else partial(_room("checkpoint").load_float, args.start) if args.start else None
    training = _room("engine").Training(recipe, task, shown, watched, kept, first)
    total, done = training.images
    with meter(total, done, "images") as show_progress:
        training.run(show_progress, lambda entry: print(_line(entry, recipe.total), flush=True))
    _finish(kept, task, data, test, _command(args, data))


def _room(name: str) -> Any:
    """A module that imports PyTorch, by name: where PyTorch is absent, this one can still be checked."""
    return import_module(f"intrs.training.{name}")


def _recipe(args: Namespace, data: Images, origin: dict[str, Any] | None, weights: Any) -> Recipe:
    return Recipe(
        architecture=args.architecture,
        data=data.name,
        data_sha256=data.sha256,
        sigma=plain_sigma(args.sigma) if args.sigma else "",
        noise=args.noise,
        objective=args.objective,
        **_objective(args),
        epochs=(EPOCHS_AFTER_START if origin else EPOCHS) if args.epochs is None else args.epochs,
        qat_epochs=args.qat_epochs,
        batch=args.batch,
        lr=args.lr,
        qat_lr=args.qat_lr,
        schedule=args.schedule,
        momentum=args.momentum,
        weight_decay=args.weight_decay,
        flip=not args.no_flip,
        pad=args.pad,
        precision=args.precision,
        seed=args.seed,
        start=origin,
        weights=weights.path.name if weights else "",
        weights_sha256=weights.sha256 if weights else "",
        train_from=args.train_from,
        hold_out=args.hold_out,
    )


def _objective(args: Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in CONSISTENCY if getattr(args, name) is not None}
    if args.objective == "consistency":
        return CONSISTENCY | given
    if {"lam", "eta"} & set(given):
        raise IntrsError("--lambda and --eta belong to --objective consistency")
    return given


def _set_up(threads: int) -> None:
    torch = import_module("torch")
    if threads:
        torch.set_num_threads(threads)
    _room("memory").keep_freed_memory()


def _finish(kept: Any, task: Any, data: Images, test: Images, command: str) -> None:
    """The files of a finished run."""
    evaluate, card = _room("evaluate"), _room("card")
    files = evaluate.export(kept, task)
    with meter(evaluate.work(test, files), 0, "images") as show_progress:
        results = evaluate.evaluate(kept, task, test, files, show_progress)
    write_json(kept.folder / RESULTS, results)
    made = card.make_card(kept, task, data, test, results, command)
    write_json(kept.folder / f"{kept.recipe.name}.json", made)
    _summarise(results, kept.folder)
    if not card.faithful(results):
        print(
            "intrs: the integer network does not follow the fake-quantized one closely (agreement below 99 % or more "
            "than 0.3 points apart); more --qat-epochs help as a rule",
            file=sys.stderr,
        )


# --- Words -----------------------------------------------------------------------------------------------------------


def _announce(kept: Any, data: Images, test: Images) -> None:
    recipe, (height, width, channels) = kept.recipe, data.image_shape
    noise = f"{recipe.noise} noise of sigma {recipe.sigma}" if recipe.sigma else "no noise"
    show("network", f"{recipe.architecture}, seed {recipe.seed}")
    show("data", f"{data.name}, {len(data):,} + {len(test):,} images of {width} x {height} x {channels}")
    show("training", f"{recipe.objective}, {noise}, {recipe.copies} noisy copies an image, batches of {recipe.batch}")
    show("epochs", f"{recipe.epochs} in float ({recipe.precision}), {recipe.qat_epochs} with quantization")
    if recipe.weights or recipe.train_from:
        first = recipe.weights or ("those of another run" if recipe.start else "random ones")
        show("weights", f"{first}; trained from {recipe.train_from or 'the first layer'} on")
    show("folder", f"{kept.folder}" + (f", {len(kept.log)} epochs done before" if kept.log else ""))
    threads = import_module("torch").get_num_threads()
    if kept.log and kept.log[-1].get("threads") != threads:
        show(
            "note",
            f"{threads} threads now, another number before: the weights will not be those of one go, bit for bit",
        )


def _command(args: Namespace, data: Images) -> str:
    """The command for the card: where things lay on this machine says nothing elsewhere, so only their names."""
    names = {args.data: data.name, str(args.outdir): args.outdir.name}
    for path in (args.start, args.weights):
        if path:
            names[str(path)] = path.name
    return shlex.join(["intrs", *(names.get(word.rstrip("/"), word) for word in args.argv)])


def _line(entry: dict[str, Any], total: int) -> str:
    watched = "test" if "test_noisy_accuracy" in entry else "held_out"
    seen, held_out = 100 * entry["train_noisy_accuracy"], 100 * entry[f"{watched}_noisy_accuracy"]
    return (
        f"epoch {entry['epoch']:>3} of {total}  {entry['phase']:<5}  loss {entry['loss']:.4f}  noisy accuracy "
        f"{seen:.2f} % training, {held_out:.2f} % {watched.replace('_', ' ')}  {entry['seconds']:.0f} s"
    )


def _summarise(results: dict[str, Any], folder: Path) -> None:
    made = table("network", "under noise", "without noise", left=1)
    for name, noisy in results["noisy_accuracy"].items():
        made.add_row(name.replace("_", "-"), f"{100 * noisy:.2f} %", f"{100 * results['accuracy'][name]:.2f} %")
    print(f"\nAccuracy on {results['test_images']:,} test images, one draw of noise each")
    print_table(made)
    if "agreement" in results:
        print(f"integer and fake-quantized network agree on {100 * results['agreement']:.2f} % of the noisy images")
        show("identity", results["identity"])
    for file in results["files"].values():
        show("file", f"{folder / file['name']}, {file['bytes']:,} bytes")


def _how_to_continue(args: Namespace, done: int, total: int) -> str:
    command = shlex.join(["intrs", *args.argv])
    return f"intrs: stopped after {done} of {total} epochs; the same command continues:\n  {command}"
