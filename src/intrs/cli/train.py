"""`intrs train`: a data set and a recipe -> a network to certify."""

from __future__ import annotations

import shlex
from inspect import signature
from typing import TYPE_CHECKING, Any

from intrs import training
from intrs.cli.screen import complain, print_table, show, table
from intrs.cli.start import INTERRUPTED
from intrs.training.memory import keep_freed_memory
from intrs.training.pytorch import ON_THE_CPU, preload

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.training import Trained
    from intrs.training.pipeline import Session

preload("intrs.training.pipeline", *training.PACKAGES)


def train(args: Namespace) -> int:
    """Train, or go on training, then export, evaluate and write the card."""
    keep_freed_memory()  # for the life of this process, which does nothing else
    begun: list[Session] = []

    def on_start(session: Session) -> None:
        begun.append(session)
        _announce(session)

    def on_epoch(entry: dict[str, Any]) -> None:
        print(_line(entry, begun[0].recipe.total), flush=True)

    settings = {name: getattr(args, name) for name in signature(training.train).parameters if hasattr(args, name)}
    words = ["intrs", *args.argv]
    try:
        made = training.train(**settings | {"command": words}, on_start=on_start, on_epoch=on_epoch)
    except KeyboardInterrupt:
        if not begun:
            raise
        complain(_how_to_continue(words, begun[0]))
        return INTERRUPTED
    _summarise(made)
    return 0


# --- Words -----------------------------------------------------------------------------------------------------------


def _announce(session: Session) -> None:
    recipe, data, (height, width, channels) = session.recipe, session.train, session.train.image_shape
    noise = f"{recipe.noise} noise of sigma {recipe.sigma}" if recipe.sigma else "no noise"
    show("network", f"{recipe.architecture}, seed {recipe.seed}")
    show("data", f"{data.name}, {len(data):,} + {len(session.test):,} images of {width} x {height} x {channels}")
    show("training", f"{recipe.objective}, {noise}, noisy copies per image: {recipe.copies}, batches of {recipe.batch}")
    show("epochs", f"{recipe.epochs} in float ({recipe.precision}), {recipe.qat_epochs} with quantization")
    if recipe.weights or recipe.train_from:
        first = recipe.weights or ("those of another run" if recipe.start else "random ones")
        show("weights", f"{first}; trained from {recipe.train_from or 'the first layer'} on")
    if session.own and session.own.new:
        show("note", f"the file of weights is for other classes: {', '.join(session.own.new)} begin anew")
    if session.device.type != "cpu":
        show("device", f"{session.device.type}; {ON_THE_CPU}")
    show("folder", f"{session.places.outdir}" + (f", {len(session.log)} epochs done before" if session.log else ""))
    if session.log and session.log[-1]["threads"] != session.threads:
        words = f"{session.threads} threads now, another number before"
        show("note", f"{words}: the weights will not be those of one go, bit for bit")


def _line(entry: dict[str, Any], total: int) -> str:
    watched = "test" if "test_noisy_accuracy" in entry else "held_out"
    seen, held_out = 100 * entry["train_noisy_accuracy"], 100 * entry[f"{watched}_noisy_accuracy"]
    return (
        f"epoch {entry['epoch']:>3} of {total}  {entry['phase']:<5}  loss {entry['loss']:.4f}  noisy accuracy "
        f"{seen:.2f} % training, {held_out:.2f} % {watched.replace('_', ' ')}  {entry['seconds']:.0f} s"
    )


def _summarise(made: Trained) -> None:
    results, rows = made.results, table("network", "under noise", "without noise", left=1)
    for name, noisy in results["noisy_accuracy"].items():
        rows.add_row(name.replace("_", "-"), f"{100 * noisy:.2f} %", f"{100 * results['accuracy'][name]:.2f} %")
    print(f"\nAccuracy on {results['test_images']:,} test images, one draw of noise each")
    print_table(rows)
    if "agreement" in results:
        print(f"integer and fake-quantized network agree on {100 * results['agreement']:.2f} % of the noisy images")
        show("identity", results["identity"])
    for form, path in made.networks.items():
        show("file", f"{path}, {results['files'][form]['bytes']:,} bytes")
    if not made.faithful:
        complain(
            "the integer network does not follow the fake-quantized one closely (agreement below 99 % or more than 0.3 "
            "points apart); more --qat-epochs help as a rule"
        )


def _how_to_continue(words: list[str], session: Session) -> str:
    done, total = len(session.log), session.recipe.total
    return f"stopped after {done} of {total} epochs; the same command continues:\n  {shlex.join(words)}"
