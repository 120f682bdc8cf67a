"""A user's own architecture, by import path, as an ONNX file or as a module: opened, with its weights, and adopted.

`package.module:Net` and `net.py:Net(width=16)` run the code that they name, as `import` does. What stands in brackets
is read as literals and never evaluated. Weights are tensors alone, and nothing is unpickled.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import importlib.util
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from intrs.errors import ModelError, SettingsError
from intrs.exchange.convention import Convention
from intrs.model import load
from intrs.training import onnx_in, pretrained
from intrs.training.adopt import adopt, identity
from intrs.training.architectures import Architecture, classes_of
from intrs.training.batches import to_input
from intrs.training.graphs import Normalization
from intrs.training.onnx_out import save_onnx
from intrs.training.quant import ActQuant, calibrate, fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from intrs.data import Images
    from intrs.exchange.convention import Numbers

ONNX, CODE = ".onnx", ".py"
FORM = "package.module:Net or net.py:Net, with literal arguments if it takes any: net.py:Net(width=16)"
CHECKED = 16  # images that the integer form is tried on before training
LEAST_PEAK, SOME_SCALE = 1e-5, 0.01  # of a tensor that is all zeros before training, as behind zeroed batch norm


@dataclass(frozen=True, eq=False)
class OwnModule:
    """An architecture as it was given. `name` is for files, `place` for people: no path of this machine is in it."""

    name: str
    place: str
    arguments: str
    module: nn.Module
    has_weights: bool  # of its own, not random ones

    @property
    def spelt(self) -> str:
        """How it is asked for, but for the folder."""
        return f"{self.place}({self.arguments})" if self.arguments else self.place


@dataclass(frozen=True, eq=False)
class Adopted:
    """A user's architecture, ready to be trained for a data set, and what the recipe says of it."""

    kind: Architecture
    name: str
    recorded: dict[str, str]
    weights: str
    weights_sha256: str
    spelt: str  # how to ask for it, without paths
    new: tuple[str, ...]  # tensors that a file of weights did not fill: the classifier, for another number of classes
    first_sha256: str  # of all that it begins with, random or given


def is_source(given: str) -> bool:
    """Whether a text names a user's architecture, not one of intrs."""
    return ":" in given or given.endswith(ONNX)


def open_adopted(
    given: str | nn.Module, weights: Path | None, train: Images, seed: int, mean: Numbers | None, std: Numbers | None
) -> Adopted:
    """Open what was given, put the weights in and make it a network for the images; nothing is trained yet."""
    classes = classes_of(train)
    source = open_source(given, seed)
    tensors, new = None, tuple[str, ...]()
    if weights:
        tensors = pretrained.read_state(weights)
        new = _put(source, tensors, weights, classes)
    elif source.has_weights:
        tensors = source.module.state_dict()
    network = adopt(source.module, train.image_shape, classes, _normalization(mean, std, train.image_shape[2]))
    recorded = {"source": source.place, "arguments": source.arguments, "graph": identity(network)}
    return Adopted(
        Architecture(lambda _: copy.deepcopy(network), smallest=1), source.name, recorded,
        weights.name if weights else source.place if source.has_weights else "",
        pretrained.tensors_sha256(tensors) if tensors else "", source.spelt, new,
        pretrained.tensors_sha256(source.module.state_dict()),
    )  # fmt: skip


def _normalization(mean: Numbers | None, std: Numbers | None, channels: int) -> Normalization | None:
    """By the rules of `intrs.load`: None where the module takes pixels over 255 as they are."""
    if not mean and not std:
        return None
    asked = Convention.of("unit", mean or None, std or None)
    if any(len(values) not in (1, channels) for values in (asked.mean, asked.deviation)):
        raise SettingsError(f"mean and std have one number, or one for each of {channels} channels")
    centre, spread = (
        tuple(float(value) for value in values * (channels // len(values))) for values in (asked.mean, asked.deviation)
    )
    return Normalization(centre, spread)


def _put(source: OwnModule, tensors: dict[str, Tensor], path: Path, classes: int) -> tuple[str, ...]:
    """Overwrite the weights; those of a classifier for other classes stay as they were made, and are named."""
    wanted = source.module.state_dict()
    tensors = {name.removeprefix("module."): value for name, value in tensors.items()}  # of nn.DataParallel
    optional = {name for name in wanted if name.endswith("num_batches_tracked")}
    missing, unknown = sorted(wanted.keys() - tensors.keys() - optional), sorted(tensors.keys() - wanted.keys())
    if missing or unknown:
        what = f"lacks {', '.join(missing[:3])}" if missing else f"has {', '.join(unknown[:3])}, which it does not know"
        raise ModelError(f"{path}: these are not the weights of {source.name}: the file {what}")
    new = sorted(name for name, value in tensors.items() if value.shape != wanted[name].shape)
    for name in new:
        found, fitting = tensors[name].shape, wanted[name].shape
        if len(found) != len(fitting) or found[1:] != fitting[1:] or fitting[:1] != (classes,):
            raise ModelError(f"{path}: {name} has the shape {list(found)}, not {list(fitting)}")
    source.module.load_state_dict({k: v for k, v in tensors.items() if k not in new}, strict=False)
    return tuple(new)


def check_integers(adopted: Adopted, train: Images, sigma: float) -> None:
    """Try the way to integers before anything is trained: what the loader refuses is refused now."""
    network: Any = adopted.kind.build(None)  # type: ignore[arg-type]
    pixels, random = train.images[:CHECKED], torch.Generator().manual_seed(1)
    x = to_input(pixels)
    x = x + sigma * torch.randn(x.shape, generator=random)
    calibrate(network, lambda: x, 1)
    for layer in network.modules():
        if isinstance(layer, ActQuant) and layer.peak < LEAST_PEAK:
            layer.scale.data.fill_(SOME_SCALE)
    height, width, channels = train.image_shape
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{adopted.name}.onnx"
        save_onnx(fold(network), path, (channels, height, width), classes_of(train))
        try:
            load(path)
        except ModelError as error:
            reason = str(error).replace(f"{path}: ", "")
            raise ModelError(f"{adopted.name}: its integer form cannot be lowered: {reason}") from None


# --- Opening ---------------------------------------------------------------------------------------------------------


def open_source(given: str | nn.Module, seed: int) -> OwnModule:
    """The architecture of a text or a module; random weights depend on the seed alone."""
    if isinstance(given, nn.Module):
        name = type(given).__name__
        return OwnModule(_file_name(name), name, "", copy.deepcopy(given), has_weights=True)
    if given.endswith(ONNX):
        path = Path(given)
        return OwnModule(_file_name(path.stem), path.name, "", onnx_in.read_module(path), has_weights=True)
    place, _, call = given.partition(":")
    name, args, kwargs, words = _parsed(call, given)
    found: Any = _imported(place, given)
    with _own_code(given):
        for part in name.split("."):
            found = getattr(found, part)
        torch.manual_seed(seed % 2**63)
        module = copy.deepcopy(found) if isinstance(found, nn.Module) else found(*args, **kwargs)
    if not isinstance(module, nn.Module):
        raise ModelError(f"{given}: it gives {type(module).__name__}, not a torch.nn.Module")
    shown = Path(place).name if place.endswith(CODE) else place
    own = isinstance(found, nn.Module)
    return OwnModule(_file_name(name.rpartition(".")[2]), f"{shown}:{name}", words, module, own)


def _parsed(call: str, given: str) -> tuple[str, list[Any], dict[str, Any], str]:
    """Name and arguments of `Net(width=16)`: literals alone, so that reading them runs nothing."""
    try:
        tree = ast.parse(call, mode="eval").body
        function, args, keywords = (
            (tree.func, tree.args, tree.keywords) if isinstance(tree, ast.Call) else (tree, [], [])
        )
        if not re.fullmatch(r"\w+(\.\w+)*", name := ast.unparse(function)):
            raise ValueError("no name")
        values = [ast.literal_eval(arg) for arg in args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg}
        if len(named) < len(keywords):
            raise ValueError("** is no literal")
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise SettingsError(f"{given}: an architecture of your own is written {FORM} ({error})") from None
    words = ", ".join([*map(repr, values), *(f"{key}={value!r}" for key, value in sorted(named.items()))])
    return name, values, named, words


def _imported(place: str, given: str) -> object:
    """The module of a file or of a dotted name, which is looked for in the working folder too."""
    with _own_code(given):
        if not place.endswith(CODE):
            with _searched(Path.cwd()):
                return importlib.import_module(place)
        path = Path(place)
        if not path.is_file():
            raise ModelError(f"{place}: no such file")
        spec = importlib.util.spec_from_file_location(f"intrs_user_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # classes look for their module there
        with _searched(path.resolve().parent):
            spec.loader.exec_module(module)
        return module


@contextlib.contextmanager
def _searched(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


@contextlib.contextmanager
def _own_code(given: str) -> Iterator[None]:
    """The user's code may raise anything; what it is stays with the error."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{given}: {type(error).__name__}: {error}") from error


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name).lstrip(".-") or "network"
