"""From a recipe to a certified network's file: train, export, evaluate, write the card."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from intrs.data import open_data
from intrs.data.matching import matched
from intrs.errors import SettingsError
from intrs.exact import derive_key
from intrs.training import Trained, architectures, card, checkpoint, engine, evaluate, pretrained, sources
from intrs.training.architectures import Task
from intrs.training.batches import hold_out
from intrs.training.checkpoint import Checkpoint
from intrs.training.recipe import CONSISTENCY, EPOCHS_AFTER_START, TWO_ORIGINS, Recipe
from intrs.training.state import RESULTS, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import nn

    from intrs.data import Images
    from intrs.progress import OnProgress
    from intrs.training.architectures import Architecture
    from intrs.training.engine import FirstWeights, OnEpoch
    from intrs.training.sources import Adopted


@dataclass(frozen=True)
class Places:
    """Where the data and the first weights come from, and where the run goes, as they were given."""

    data: str
    outdir: Path
    architecture: str = ""  # "" for a module
    start: Path | None = None
    weights: Path | None = None


@dataclass(frozen=True, eq=False)
class Session:
    """A run with everything opened and checked: its data, its first weights, and its folder, which is locked."""

    recipe: Recipe
    places: Places
    train: Images
    test: Images
    first: FirstWeights | None
    kept: Checkpoint
    own: Adopted | None = None  # a user's architecture
    device: torch.device = engine.CPU

    @property
    def log(self) -> list[dict[str, Any]]:
        """An entry per epoch that is done, those of earlier calls included."""
        return self.kept.log

    @property
    def threads(self) -> int:
        """How many PyTorch uses."""
        return torch.get_num_threads()

    def work(self, progress: OnProgress | None = None, on_epoch: OnEpoch | None = None) -> None:
        """Train to the end."""
        shown, watched = self.train, self.test
        if self.recipe.hold_out:
            shown, watched = hold_out(self.train, self.recipe.hold_out)
        task = Task.of(self.train)
        work = engine.Training(self.recipe, task, shown, watched, self.kept, self.first, self._kind, self.device)
        work.run(progress, on_epoch)

    def finish(self, progress: OnProgress | None = None, command: Sequence[str] = ()) -> Trained:
        """Write the files of a run whose epochs are all done."""
        self.kept.check()
        task, folder = Task.of(self.train), self.kept.folder
        files = evaluate.export(self.kept, task, self._kind)
        results = evaluate.evaluate(self.kept, task, self.test, files, progress, self._kind, self.device)
        write_json(folder / RESULTS, results)
        words = self._command(command) if command else self._call()
        made, path = card.make_card(self.kept, task, self.train, self.test, results, words), card.card_path(self.kept)
        write_json(path, made)
        return Trained(folder, self.recipe, results, self.log, files, path)

    @property
    def _kind(self) -> Architecture | None:
        return self.own.kind if self.own else None

    def _command(self, words: Sequence[str]) -> str:
        """The command for the card: where things lay on this machine says nothing elsewhere, so only their names."""
        places = self.places
        names = {places.data.rstrip("/"): self.train.name}
        names |= {str(path): path.name for path in (places.outdir, places.start, places.weights) if path}
        if self.own and places.architecture:
            names[places.architecture] = self.own.spelt
        return shlex.join(names.get(word.rstrip("/"), word) for word in words)

    def _call(self) -> str:
        """The same for a run that was asked for in Python."""
        names = [repr(self.train.name), repr(self.own.spelt if self.own else self.recipe.architecture)]
        names.append(repr(self.places.outdir.name))
        if not self.places.architecture:
            names[1:] = [f"model={self.recipe.architecture}(...)", f"outdir={names[2]}"]
        paths = {name: path.name for name in ("start", "weights") if (path := getattr(self.places, name))}
        settings = [f"{name}={value!r}" for name, value in (self._changed() | paths).items()]
        return f"intrs.train({', '.join([*names, *settings])})"

    def _changed(self) -> dict[str, Any]:
        """The settings that are not at their defaults: those of the recipe, or those that `train` has in this case."""
        recipe = self.recipe
        usual = {field.name: field.default for field in fields(Recipe) if field.name not in NAMED}
        here = usual | (CONSISTENCY if recipe.objective == "consistency" else {})
        here["epochs"] = default_epochs(recipe.start is not None)
        values = {name: getattr(recipe, name) for name in usual}
        return {name: value for name, value in values.items() if value != usual[name] or value != here[name]}

    def close(self) -> None:
        """Let other processes use the folder."""
        self.kept.close()


# What a call names otherwise than as settings.
NAMED = ("architecture", "model", "data", "data_sha256", "start", "weights", "weights_sha256")


def default_epochs(started: bool) -> int:
    """Epochs in float, if nobody says how many."""
    return EPOCHS_AFTER_START if started else Recipe.epochs


def _splits(data: str) -> tuple[Images, Images]:
    """Training and test images; labels of both are numbers of the former's classes, in whichever order the latter's."""
    train, test = (open_data(data, split) for split in ("train", "test"))
    reordered = train.classes != test.classes and set(train.classes) == set(test.classes)
    return train, matched(test, train.classes) if reordered else test


def open_session(
    architecture: str,
    places: Places,
    epochs: int | None,
    settings: dict[str, Any],
    model: nn.Module | None = None,
    device: torch.device = engine.CPU,
) -> Session:
    """The run that was asked for, begun or continued. Nothing is written if something does not fit."""
    checkpoint.check_free(places.outdir)
    if model is not None or sources.is_source(architecture):
        return _open_own(architecture if model is None else model, places, epochs, settings, device)
    kind = architectures.architecture(architecture)
    origin = checkpoint.start_of(places.start) if places.start else None
    weights = pretrained.read(places.weights, architecture, kind.form) if places.weights else None
    train, test = _splits(places.data)
    recipe = Recipe(
        architecture=architecture,
        data=train.name,
        data_sha256=train.sha256,
        epochs=default_epochs(origin is not None) if epochs is None else epochs,
        start=origin,
        weights=weights.path.name if weights else "",
        weights_sha256=weights.sha256 if weights else "",
        **settings,
    )
    engine.check_data(train, test, recipe)
    first = weights.put if weights else _float_weights(places.start, origin)
    return Session(recipe, places, train, test, first, Checkpoint(places.outdir, recipe), device=device)


def _float_weights(start: Path | None, origin: dict[str, Any] | None) -> FirstWeights | None:
    """Those at the end of another run's float phase, as the recipe names them."""
    return partial(checkpoint.load_float, start, sha256=origin["weights_sha256"]) if start and origin else None


def _open_own(
    given: str | nn.Module, places: Places, epochs: int | None, settings: dict[str, Any], device: torch.device
) -> Session:
    """The same for a user's own architecture."""
    if places.start and places.weights:
        raise SettingsError(TWO_ORIGINS)
    origin = checkpoint.start_of(places.start) if places.start else None
    train, test = _splits(places.data)
    seed = derive_key(f"{settings['seed']} first weights")
    own = sources.open_adopted(given, places.weights, train, seed, settings["mean"], settings["std"])
    begun = origin is None
    recipe = Recipe(
        architecture=own.name,
        model=own.recorded | ({"first": own.first_sha256} if begun else {}),
        data=train.name,
        data_sha256=train.sha256,
        epochs=default_epochs(not begun) if epochs is None else epochs,
        start=origin,
        weights=own.weights if begun else "",
        weights_sha256=own.weights_sha256 if begun else "",
        **settings,
    )
    engine.check_data(train, test, recipe)
    if recipe.qat_epochs:
        sources.check_integers(own, train, float(recipe.exact_sigma) if recipe.sigma else 0.0)
    first = _float_weights(places.start, origin)
    return Session(recipe, places, train, test, first, Checkpoint(places.outdir, recipe), own, device)
