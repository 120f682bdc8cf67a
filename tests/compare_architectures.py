"""43 architectures through PyTorch's exporters and several quantizers into intrs: what loads, and how well it agrees.

    python tests/compare_architectures.py FOLDER                    # everything; about an hour on two cores
    python tests/compare_architectures.py FOLDER --only DenseNet    # networks whose name contains this
    python tests/compare_architectures.py FOLDER --routes torchscript-u8s8 dynamo-u8s8
    python tests/compare_architectures.py FOLDER --nncf PYTHON      # NNCF too, by an interpreter that has nncf

Networks have random weights, BatchNorm statistics and a head fitted to labelled pictures, so that classes have margins.
FOLDER keeps the files that are made, and a second run reads them again. Prints one line per file: agreement of the top
class with ONNX Runtime on 200 images, and of ONNX Runtime with its own unoptimised graph, or the reason of a refusal;
and a table in the form of docs/onnx.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import re
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_files as files

from intrs.errors import IntrsError
from intrs.model import load

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

SHAPE = (3, 32, 32)
EXPORTERS = ("torchscript", "dynamo", "permuted")
QUANTIZERS: dict[str, dict[str, Any]] = {
    "u8s8": {"per_channel": True},
    "s8s8": {"activations": "s8", "per_channel": True},
    "u8u8": {"weights": "u8"},
    "qoperator": {"form": "QOperator", "per_channel": True},
}
ROUTES = (
    *(f"{exporter}-u8s8" for exporter in EXPORTERS),
    *(f"torchscript-{quantizer}" for quantizer in ("s8s8", "u8u8", "qoperator")),
)
NNCF = """
import logging, sys; logging.disable(logging.INFO)
import nncf, numpy, onnx
source, target, data = sys.argv[1:]
model, images = onnx.load(source), numpy.load(data)
name = model.graph.input[0].name
onnx.save(nncf.quantize(model, nncf.Dataset([{name: image[None]} for image in images])), target)
"""


# ---- networks -----------------------------------------------------------------------------------------------------


def prepared(name: str, seed: int = 0) -> nn.Module:
    """The network with statistics and a head that mean something."""
    import torch
    from architectures import ARCHITECTURES

    torch.manual_seed(seed)
    net = ARCHITECTURES[name]()
    images, labels = files.pictures(400, 2, SHAPE)
    x = torch.from_numpy(files.as_input(images))
    for module in net.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None
            with torch.no_grad():
                module.weight.uniform_(0.6, 1.4)
                module.bias.uniform_(-0.3, 0.3)
    net.train()
    with torch.no_grad():
        for batch in torch.split(x, 100):
            net(batch)
        net.eval()
        _fit_head(net, x, labels)
    return net


def _fit_head(net: nn.Module, x: Any, labels: NDArray[Any]) -> None:
    """Least squares on the features before the head, which is Linear or a 1 x 1 Conv before a mean."""
    import torch

    head: Any = net.head
    seen: list[Any] = []
    hook = head.register_forward_hook(lambda module, args, result: seen.append(args[0]))
    net(x)
    hook.remove()
    features = seen[0].flatten(2).mean(2) if seen[0].ndim == 4 else seen[0]
    solution = files.fitted_head(features.double().numpy(), labels)
    head.weight.copy_(torch.from_numpy(solution[:-1].T.copy()).float().reshape(head.weight.shape))
    head.bias.copy_(torch.from_numpy(solution[-1].copy()).float())


def export(net: nn.Module, path: Path, exporter: str) -> None:
    """The float file of one of PyTorch's exporters."""
    import torch

    x = torch.rand(1, *SHAPE)
    if exporter == "permuted":
        x = torch.rand(1, *SHAPE[1:], SHAPE[0]).permute(0, 3, 1, 2)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        names: dict[str, Any] = {"input_names": ["image"], "output_names": ["scores"]}
        if exporter == "torchscript":
            torch.onnx.export(net, (x,), str(path), dynamo=False, opset_version=17, **names)
        else:
            torch.onnx.export(net, (x,), str(path), dynamo=True, external_data=False, verbose=False, **names)
        logging.disable(logging.NOTSET)


# ---- files --------------------------------------------------------------------------------------------------------


def file_of(folder: Path, name: str, route: str, nncf: str | None) -> Path:
    """The quantized file of a network by one route, made if it is not there."""
    stem = re.sub(r"\W+", "-", name).lower()
    path = folder / f"{stem}.{route}.onnx"
    exporter, quantizer = route.split("-")
    source = folder / f"{stem}.{exporter}.float.onnx"
    if not source.exists():
        export(prepared(name), source, exporter)
    if not path.exists():
        calibration = files.as_input(files.pictures(64, 3, SHAPE)[0])
        if quantizer == "nncf":
            data = folder / "calibration.npy"
            np.save(data, calibration)
            subprocess.run([str(nncf), "-c", NNCF, source, path, data], check=True, capture_output=True, env=_bare())
        else:
            files.quantized(onnx.load(source), path, calibration, batch=1, **QUANTIZERS[quantizer])
    return path


def _bare() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


@dataclass(frozen=True)
class Outcome:
    """What became of one file."""

    name: str
    route: str
    agreement: float | None = None
    itself: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        what = self.reason if self.agreement is None else f"{self.agreement:7.1%}  (ORT with itself {self.itself:.1%})"
        return f"{self.name:24} {self.route:18} {what}"


def _answers(path: Path, x: NDArray[np.float32], fused: bool) -> NDArray[Any]:
    kept = path.with_suffix(f".{'fused' if fused else 'written'}.npy")
    if not kept.exists():
        np.save(kept, files.run(path, x, fused=fused).reshape(len(x), -1))
    return np.asarray(np.load(kept))


def outcome(path: Path, name: str, route: str, images: NDArray[Any]) -> Outcome:
    """Load one file and compare."""
    try:
        network = load(path)
    except IntrsError as error:
        return Outcome(name, route, reason=str(error).replace(f"{path}: ", ""))
    theirs, written = (_answers(path, files.as_input(images), fused) for fused in (True, False))
    return Outcome(name, route, agreement(network.scores(images), theirs), agreement(written, theirs))


def agreement(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The share of images whose top class is one of theirs; a last Softmax in 8 bits may give them several."""
    rows = np.arange(len(ours))
    return float(np.mean(theirs[rows, ours.argmax(1)] == theirs.max(1)))


def judged(folder: Path, names: list[str], routes: list[str], nncf: str | None) -> list[Outcome]:
    """All outcomes, printed as they come."""
    images = files.pictures(200, 1, SHAPE)[0]
    found = []
    for name in names:
        for route in routes:
            try:
                found.append(outcome(file_of(folder, name, route, nncf), name, route, images))
            except (RuntimeError, ValueError, subprocess.CalledProcessError) as error:
                text = (getattr(error, "stderr", None) or str(error).encode()).decode(errors="replace")
                found.append(Outcome(name, route, reason=f"no file: {text.strip().splitlines()[-1][:200]}"))
            print(found[-1], flush=True)
    return found


def table(found: list[Outcome]) -> str:
    """Agreement per network and route, as docs/onnx.md has it."""
    routes = list(dict.fromkeys(o.route for o in found))
    cells = {
        (o.name, o.route): "refused" if o.agreement is None else f"{o.agreement:.1%}".replace("%", " %") for o in found
    }
    lines = [f"| network | {' | '.join(routes)} |", "|---" * (len(routes) + 1) + "|"]
    for name in dict.fromkeys(o.name for o in found):
        lines.append(f"| {name} | {' | '.join(cells.get((name, route), '') for route in routes)} |")
    loaded = [sum(o.agreement is not None for o in found if o.route == route) for route in routes]
    return "\n".join([*lines, f"| files that load | {' | '.join(map(str, loaded))} |"])


def main() -> None:
    """Read the arguments, do it."""
    from architectures import ARCHITECTURES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--routes", nargs="+", default=list(ROUTES))
    parser.add_argument("--nncf")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    routes = list(dict.fromkeys([*asked.routes, *(["torchscript-nncf"] if asked.nncf else [])]))
    names = [name for name in ARCHITECTURES if asked.only.lower() in name.lower()]
    print(table(judged(asked.folder, names, routes, asked.nncf)))


if __name__ == "__main__":
    main()
