"""The graph of a user's network while it is written again, operation by operation, with quantizers between them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn

from intrs.errors import ModelError
from intrs.training.quant import ActQuant, Normalize, RangeQuant

if TYPE_CHECKING:
    from collections.abc import Callable


AT_THE_END = ("reshape", "softmax", "dropout", "identity")  # operations that may follow the logits
SIZES = ("size", "getattr", "dim", "numel", "floordiv", "getitem", "int")  # that compute with the sizes of tensors
UNKNOWN = "no layer of integer networks stands for it (docs/training.md lists those that do)"


@dataclass(frozen=True)
class Normalization:
    """Mean and standard deviation by channel, on the scale 0..1, that a module leaves to its caller."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def layer(self) -> Normalize:
        """What does it."""
        return Normalize(list(self.mean), list(self.std))

    def of(self, x: Tensor) -> Tensor:
        """Images on the scale 0..1, normalized."""
        out: Tensor = self.layer(x)
        return out


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the new graph."""

    node: fx.Node
    positive: bool  # it has no values below zero
    codes: bool = False  # a quantizer has rounded it, and nothing but moved it since
    image: bool = False  # a line of the image itself: the first quantizer takes it up


class Refused(Exception):  # noqa: N818 (a reason, until the place is known)
    """Why an operation has no counterpart."""


def shape_of(node: fx.Node) -> tuple[int, ...] | None:
    """The shape of the tensor that a node gives; None if it gives none."""
    meta = node.meta.get("tensor_meta")
    return tuple(meta.shape) if meta is not None and hasattr(meta, "shape") else None


class Adoption:
    """The new graph while it is written, operation by operation."""

    def __init__(
        self,
        name: str,
        traced: fx.GraphModule,
        operations: dict[str, Callable[[Call], Value]],
        names: dict[str, str],
        why_not: dict[str, str],
    ) -> None:
        self.name, self.traced, self.softmax = name, traced, ""
        self._operations, self._names, self._why_not = operations, names, why_not
        self.root, self.graph = nn.Module(), fx.Graph()
        self.values: dict[fx.Node, Value] = {}
        self.quantized: dict[fx.Node, Value] = {}  # by what was rounded
        self.used: set[str] = set()
        self.merged: dict[fx.Node, fx.Node] = {}  # batch normalisation -> the product before it
        self.last = self._tail()

    def network(self, normalization: Normalization | None) -> fx.GraphModule:
        """The whole network; `normalization` goes in front of it."""
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                self._begin(node, normalization)
            elif node.op == "output":
                self.graph.output(self.values[node.args[0]].node)
            elif node.op != "get_attr" and (shape_of(node) is not None or not self._is_size(node)):
                self._take(node)
        for parameter in self.root.parameters():
            parameter.requires_grad_(parameter.requires_grad and parameter.is_floating_point())
        return fx.GraphModule(self.root, self.graph, self.name)

    def _begin(self, node: fx.Node, normalization: Normalization | None) -> None:
        if self.values:
            raise ModelError(f"{self.name}: it takes more than one input; a network takes one image")
        made = self.graph.placeholder("image")
        self.values[node] = Value(made, positive=False, image=True)
        if normalization:
            self.values[node] = self.module(normalization.layer, "normalize", self.values[node], image=True)

    def _take(self, node: fx.Node) -> None:
        name, layer = self.name_of(node)
        try:
            handler = self._operations.get(name)
            if handler is None or not self._is_known(node):
                raise Refused(self._why_not.get(name, UNKNOWN))
            self.values[node] = handler(Call(self, node, layer))
        except Refused as refused:
            raise ModelError(f"{self.name}: {self._where(node)} cannot be quantized: {refused}") from None

    # --- Names -------------------------------------------------------------------------------------------------------

    def name_of(self, node: fx.Node) -> tuple[str, nn.Module | None]:
        """What an operation is called here, however the module spells it, and its layer if it is one."""
        if node.op == "call_module":
            layer = self.traced.get_submodule(str(node.target))
            return self._names.get(name := type(layer).__name__.lower(), name), layer
        name = str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", node.target))
        name = name.rstrip("_")
        return self._names.get(name, name), None

    def _is_known(self, node: fx.Node) -> bool:
        """Whether it is PyTorch's own operation, not another one of the same name."""
        if node.op == "call_method":
            return True
        what = type(self.traced.get_submodule(str(node.target))) if node.op == "call_module" else node.target
        home = getattr(what, "__module__", None) or "torch"
        return home.partition(".")[0] in ("torch", "_operator", "torchvision")

    def _where(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"{node.target} ({type(self.traced.get_submodule(str(node.target))).__name__})"
        spelt = f".{node.target}()" if node.op == "call_method" else getattr(node.target, "__name__", node.target)
        return f"{spelt} in {self._scope(node) or 'forward'}"

    def _scope(self, node: fx.Node) -> str:
        """The path of the module whose code calls an operation."""
        if node.op == "call_module":
            return str(node.target).rpartition(".")[0]
        stack = node.meta.get("nn_module_stack") or {}
        return str(next(reversed(list(stack)), "")) if stack else ""

    def path(self, node: fx.Node) -> str:
        """A name for what is made of a node: the layer's own, or one beside it."""
        path = str(node.target) if node.op == "call_module" else ".".join(filter(None, [self._scope(node), node.name]))
        return path if path not in self.used else f"{path}_{node.name.rpartition('.')[2]}"

    # --- The new graph -----------------------------------------------------------------------------------------------

    def module(self, layer: nn.Module, path: str, *inputs: Value, positive: bool = False, **kind: bool) -> Value:
        """A layer under a name, applied to these tensors."""
        self._add(path, layer)
        return Value(self.graph.call_module(path, tuple(value.node for value in inputs)), positive, **kind)

    def _add(self, path: str, layer: nn.Module) -> None:
        self.used.add(path)
        *parents, name = path.split(".")
        place = self.root
        for parent in parents:
            if not hasattr(place, parent):
                place.add_module(parent, nn.Module())
            place = getattr(place, parent)
        place.add_module(name, layer)

    def codes(self, value: Value) -> Value:
        """The tensor as an integer engine stores it: behind a quantizer, one for all who ask."""
        if value.codes:
            return value
        if value.node not in self.quantized:
            made, path = ActQuant(signed=False) if value.positive else RangeQuant(), f"{_path_of(value.node)}_quant"
            self.quantized[value.node] = self.module(made, path, value, positive=value.positive, codes=True)
        return self.quantized[value.node]

    def _tail(self) -> set[fx.Node]:
        """Nodes behind which nothing is computed any more: they need no quantizer in front, nor do the logits."""
        tail: set[fx.Node] = set()
        for node in reversed(self.traced.graph.nodes):
            if all(
                user.op == "output" or (user in tail and self.name_of(user)[0] in AT_THE_END) for user in node.users
            ):
                tail.add(node)
        return tail

    def _is_size(self, node: fx.Node) -> bool:
        """Whether a node computes with the sizes of tensors: shapes are known, so it is not needed."""
        return self.name_of(node)[0] in SIZES or not any(i in self.values for i in node.all_input_nodes)


def _path_of(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_module" else str(node.meta.get("path", node.name))


@dataclass(frozen=True, eq=False)
class Call:
    """One operation of the traced graph, as handlers look at it."""

    work: Adoption
    node: fx.Node
    layer: nn.Module | None

    # What it is given

    def value(self, i: int = 0) -> Value:
        """An input by its place."""
        given = self.node.args[i] if i < len(self.node.args) else next(iter(self.node.kwargs.values()), None)
        return self.value_of(given)

    def value_of(self, given: object) -> Value:
        """The tensor that an argument stands for."""
        if isinstance(given, fx.Node) and given in self.work.values:
            return self.work.values[given]
        raise Refused("an input is no activation of this network")

    def setting(self, name: str, place: int, default: Any = None) -> Any:
        """A setting of a layer by its name, or of a function by its place or name."""
        if self.layer is not None:
            return getattr(self.layer, name, default)
        return self.node.args[place] if place < len(self.node.args) else self.node.kwargs.get(name, default)

    @property
    def before(self) -> tuple[int, ...]:
        """Shape of the first input."""
        return shape_of(self.node.all_input_nodes[0]) or ()

    @property
    def after(self) -> tuple[int, ...]:
        """Shape of the result."""
        return shape_of(self.node) or ()

    @property
    def spelt(self) -> str:
        """What the operation is called in the user's code."""
        return type(self.layer).__name__.lower() if self.layer is not None else str(self.node.target)

    @property
    def at_the_end(self) -> bool:
        """Whether nothing is computed behind it any more."""
        return self.node in self.work.last

    def constant(self, given: object) -> Tensor | None:
        """A number or a buffer; None if it is neither."""
        if isinstance(given, int | float):
            return torch.tensor(float(given))
        if isinstance(given, fx.Node) and given.op == "get_attr":
            found = operator.attrgetter(str(given.target))(self.work.traced)
            if isinstance(found, nn.Parameter):
                raise Refused(f"the parameter {given.target} belongs to no layer that can be quantized")
            return found.detach().float().clone()  # type: ignore[no-any-return]
        return None

    # What becomes of it

    def module(self, layer: nn.Module, *inputs: Value, positive: bool = False, **kind: bool) -> Value:
        """A layer, under the name of the user's."""
        return self.work.module(layer, self.work.path(self.node), *inputs, positive=positive, **kind)

    def function(self, function: Callable[..., Tensor], *args: Any, positive: bool = False, **kind: bool) -> Value:
        """A function; what has a value among its arguments is given as that value's node."""
        node = self.work.graph.call_function(function, args)
        node.meta["path"] = self.work.path(self.node)
        return Value(node, positive, **kind)

    def moved(self, layer: nn.Module | None = None) -> Value:
        """What moves or selects codes, by a layer or by flattening; at the very end sums, which are not rounded."""
        value = self.value()
        if not value.codes and not (self.at_the_end and not value.image):
            value = self.work.codes(value)
        kind = {"positive": value.positive, "codes": value.codes}
        return (
            self.function(torch.flatten, value.node, 1, **kind) if layer is None else self.module(layer, value, **kind)
        )
