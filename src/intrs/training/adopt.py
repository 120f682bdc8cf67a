"""A user's PyTorch module as a network of the layers in `quant.py`, which train in float and end as integers.

The module is traced (torch.fx), every operation is given its counterpart (`operators.py`), and a quantizer is put on
every tensor that an integer engine stores: behind what is computed, not behind what only moves or selects codes
(`graphs.py`). ReLU and its like stay in front of the quantizer of the layer before them, batch normalisation goes into
that layer, and the logits are not rounded. What has no counterpart is refused by the names of layer and operator.
"""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from intrs.errors import ModelError
from intrs.training.graphs import Adoption, Normalization, shape_of
from intrs.training.operators import NAMES, OPERATIONS, WHY_NOT
from intrs.training.quant import Affine, ConvWindow, Normalize
from intrs.training.recipe import GRAPH

if TYPE_CHECKING:
    from intrs.network import Shape

EXAMPLES = 2
MOST_ERROR = 1e-3  # of a network in its new form, relative to its largest score


def adopt(module: nn.Module, image_shape: Shape, classes: int, normalization: Normalization | None) -> fx.GraphModule:
    """The module, which is not changed, as a network of quantizable layers that computes the same in float."""
    name, module = type(module).__name__, copy.deepcopy(module).float().cpu().eval()
    height, width, channels = image_shape
    example = torch.rand(EXAMPLES, channels, height, width, generator=torch.Generator().manual_seed(1))
    traced = _traced(name, module, normalization.of(example) if normalization else example, classes)
    adoption = Adoption(name, traced, OPERATIONS, NAMES, WHY_NOT)
    adopted = adoption.network(normalization).eval()
    _check_apart(name, adopted)
    with torch.no_grad():
        wanted = module(normalization.of(example) if normalization else example)
        found = adopted(example)
        if adoption.softmax:
            wanted, found = wanted.exp() if adoption.softmax == "log" else wanted, found.softmax(1)
    error = float((wanted - found).abs().max()) / max(float(wanted.abs().max()), 1e-6)
    if not error <= MOST_ERROR:
        raise ModelError(
            f"{name}: the traced network computes something else (scores differ by {error:.2g} of the largest): "
            "operations that change a tensor in place, or that depend on the values of the image, cannot be followed"
        )
    return adopted


def _check_apart(name: str, adopted: fx.GraphModule) -> None:
    """Refuse tensors that share their values: each layer gets integers of its own, and a checkpoint keeps each once."""
    owners: dict[int, str] = {}
    for place, tensor in adopted.state_dict().items():
        owner = owners.setdefault(tensor.untyped_storage().data_ptr(), place) if tensor.numel() else place
        if owner != place:
            raise ModelError(
                f"{name}: {owner} and {place} share their values (tied weights), and each layer is quantized by "
                "itself: give each a tensor of its own, for example layer.weight = nn.Parameter(layer.weight.clone())"
            )


def identity(adopted: fx.GraphModule) -> str:
    """Hash over operations, settings of layers, constants, and the parameters' names, shapes and whether they train.

    What parameters and statistics hold does not count. In front stands the version of what goes into the hash.
    """
    digest = hashlib.sha256(b"intrs architecture 2\n")
    for node in adopted.graph.nodes:
        what = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        digest.update(f"{node.op} {what} {node.args} {sorted(node.kwargs.items())}\n".encode())
    for name, layer in adopted.named_modules():
        digest.update(f"{name} {type(layer).__name__} {_settings(layer) if name else ''}\n".encode())
        for part, constant in layer.named_buffers(recurse=False) if isinstance(layer, Affine | Normalize) else ():
            digest.update(f"{part} {constant.flatten().tolist()}\n".encode())
    trained = {name for name, parameter in adopted.named_parameters() if parameter.requires_grad}
    for name, tensor in adopted.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} {name in trained}\n".encode())
    return f"{GRAPH}{digest.hexdigest()}"


def _settings(layer: nn.Module) -> list[tuple[str, object]]:
    """A layer's settings by name: windows, slopes, epsilon, how edges are counted."""
    plain = (bool, int, float, str, tuple, ConvWindow, type(None))
    state = ("training", "quant", "mode")  # which phase it is in
    return sorted((k, v) for k, v in vars(layer).items() if k[0] != "_" and k not in state and isinstance(v, plain))


def _traced(name: str, module: nn.Module, example: Tensor, classes: int) -> fx.GraphModule:
    """The graph of the module in evaluation, with the shape of every tensor for such images."""
    try:
        traced = fx.GraphModule(module, fx.Tracer().trace(module))
        traced.graph.eliminate_dead_code()
    except Exception as error:  # of the user's own code, under proxies: any type
        raise ModelError(
            f"{name}: PyTorch cannot trace it ({_first_line(error)}); its forward must not choose by the values or "
            "sizes of tensors. The same network as a float ONNX file may do"
        ) from error
    try:
        with torch.no_grad():
            ShapeProp(traced).propagate(example)
    except Exception as error:
        shape = list(example.shape[1:])
        raise ModelError(f"{name}: it does not take images of shape {shape} ({_first_line(error)})") from error
    (output,) = traced.graph.find_nodes(op="output")
    found = shape_of(output.args[0]) if isinstance(output.args[0], fx.Node) else None
    if found is None or len(found) != 2:
        raise ModelError(f"{name}: it must give one tensor (batch, classes), but gives {found or 'something else'}")
    if found[1] != classes:
        raise ModelError(f"{name}: it gives {found[1]} scores per image, and the data have {classes} classes")
    return traced


def _first_line(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).partition("\n")[0][:200] or type(error).__name__
