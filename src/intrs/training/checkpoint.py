"""The folder of a run: weights in safetensors, everything else in JSON, each file written in one move."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from intrs.errors import IntrsError, ResultsError
from intrs.files import BusyError, is_at, lock, named, read_bounded, write_whole
from intrs.training.recipe import GRAPH
from intrs.training.state import FORMAT, STATE, check_log, read_state, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from intrs.training.recipe import Recipe

FLOAT = "float.safetensors"
LOCK = ".lock"  # a file: a lock on a folder is not seen by other machines that share it by NFS
MOST_WEIGHTS = 2**32

History = list[dict[str, Any]]


class Checkpoint:
    """``epoch-NNN.safetensors`` (weights, momentum) and ``state.json`` (recipe, log), which names the former's hash.

    The JSON is replaced last, so a kill at any moment leaves a consistent pair.  ``float.safetensors`` holds the
    weights at the end of the float phase and stays.  Other processes are kept out until ``close``.
    """

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.folder, self.recipe, self._sha256 = folder, recipe, ""
        self.log: History = []
        with named(folder, "train in"):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
        try:
            self._read_state()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others train here."""
        os.close(self._lock)

    def check(self) -> None:
        """Raise ResultsError if the folder is not the one that was locked: what is in it now is another run's."""
        if not is_at(self.folder / LOCK, self._lock):
            raise ResultsError(f"{self.folder} was deleted or replaced during this run; choose another folder")

    def _read_state(self) -> None:
        if not (self.folder / STATE).exists():
            return
        state = read_state(self.folder)
        self._check_version(state["recipe"].get("model"))
        if differences := self.recipe.differences(state["recipe"]):
            raise ResultsError(
                f"{self.folder} holds a run with another recipe; choose another folder, or that recipe:\n  "
                + "\n  ".join(differences)
            )
        check_log(self.folder, state["log"])
        self.log, self._sha256 = state["log"], state["weights_sha256"]
        self._drop_earlier()

    def _check_version(self, model: object) -> None:
        """Whether a run of a user's architecture is of this one cannot be told if less of it was written down."""
        graph = model.get("graph") if isinstance(model, dict) else None
        if self.recipe.model and graph is not None and not str(graph).startswith(GRAPH):
            raise ResultsError(
                f"{self.folder} was begun by an earlier version of intrs, which wrote down less of an architecture of "
                "your own than is needed to recognise it: go on with that version, or choose another folder (start "
                "takes the float weights of this one)"
            )

    def path(self, epochs: int) -> Path:
        """File of the state after so many epochs."""
        return self.folder / f"epoch-{epochs:03d}.safetensors"

    def save(self, model: nn.Module, optimizer: torch.optim.SGD, entry: dict[str, Any]) -> None:
        """Keep the state after another epoch, of which ``entry`` tells; then drop the state before it."""
        self.check()
        log = [*self.log, entry]
        if len(log) == self.recipe.epochs:
            self.save_float(model)
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        for name, p in model.named_parameters():
            if (buffer := optimizer.state[p].get("momentum_buffer")) is not None:
                tensors[f"momentum.{name}"] = buffer
        sha256 = _write_tensors(self.path(len(log)), tensors)
        state = {"format": FORMAT, "recipe": self.recipe.to_json(), "weights_sha256": sha256, "log": log}
        write_json(self.folder / STATE, state)
        self.log, self._sha256 = log, sha256
        self._drop_earlier()

    def _drop_earlier(self) -> None:
        """Weights of earlier epochs: those of the last one, and whatever a kill has kept from being dropped."""
        for epochs in range(len(self.log)):
            self.path(epochs).unlink(missing_ok=True)

    def save_float(self, model: nn.Module) -> None:
        """Keep the weights at the end of the float phase."""
        _write_tensors(self.folder / FLOAT, model.state_dict())

    def load(self, model: nn.Module, optimizer: torch.optim.SGD | None = None) -> None:
        """Restore the weights after the last epoch, and momentum if an optimizer is given."""
        path = self.path(len(self.log))
        tensors, sha256 = read_tensors(path)
        if sha256 != self._sha256:
            raise ResultsError(f"{path}: not the weights that {STATE} speaks of; the file was changed")
        _put(model, {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}, path)
        for name, p in model.named_parameters() if optimizer else ():
            if optimizer and (kept := tensors.get(f"momentum.{name}")) is not None:
                buffer = torch.empty_like(p, memory_format=torch.preserve_format, requires_grad=False)
                optimizer.state[p]["momentum_buffer"] = buffer.copy_(kept)

    def load_float(self, model: nn.Module) -> None:
        """Restore the weights at the end of the float phase."""
        load_float(self.folder, model)


def check_free(folder: Path) -> None:
    """Refuse a folder that another process trains in, before anything is read; nothing is made."""
    if (folder / LOCK).exists():
        with named(folder, "train in"):
            os.close(_locked(folder))


def _locked(folder: Path) -> int:
    try:
        return lock(folder / LOCK)
    except BusyError:
        raise BusyError(f"another process trains in {folder}; wait for it, or choose another folder") from None


def load_float(folder: Path, model: nn.Module, sha256: str = "") -> None:
    """Put the float weights of a run's folder into a network of the same shape; those of this hash, if one is given."""
    tensors, found = read_tensors(folder / FLOAT)
    if sha256 not in ("", found):
        raise ResultsError(f"{folder / FLOAT} was written again after this run looked at it; give the command again")
    _put(model, tensors, folder / FLOAT)


def start_of(folder: Path) -> dict[str, Any]:
    """What a recipe says of the run in ``folder`` whose float weights it starts from."""
    if not (folder / FLOAT).is_file():
        raise ResultsError(f"{folder}: no {FLOAT}, which a run writes at the end of its float phase")
    return {"recipe": read_state(folder)["recipe"], "weights_sha256": read_tensors(folder / FLOAT)[1]}


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> str:
    data = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
    write_whole(path, data)
    return hashlib.sha256(data).hexdigest()


def read_tensors(path: Path, kind: type[IntrsError] = ResultsError) -> tuple[dict[str, Tensor], str]:
    """The tensors of a safetensors file of any origin, and its sha256."""
    data = read_bounded(path, MOST_WEIGHTS, kind)
    try:
        return load(data), hashlib.sha256(data).hexdigest()
    except (SafetensorError, KeyError, ValueError) as error:
        raise kind(f"{path}: not a readable safetensors file ({error})") from None


def _put(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ResultsError(
            f"{path}: these weights are of another network: {str(error).splitlines()[-1].strip()}"
        ) from None
