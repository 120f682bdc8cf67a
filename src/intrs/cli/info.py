"""`intrs info`: what a model is, once it is integers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from intrs import _core, zoo
from intrs.cli.screen import print_table, show, table
from intrs.job import selected_kernels
from intrs.model import load
from intrs.network import Conv
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.network import Layer, Network


def info(args: Namespace) -> int:
    """Print layers, sizes, accumulator bounds, kernel sets, memory, identity and pixel convention."""
    model = args.model or zoo.DEFAULT_MODEL
    network = load(model, pixels=args.pixels, mean=args.mean, std=args.std)
    _layers(network)
    kernels, classes = selected_kernels(args.kernels), network.classes
    others = ", ".join(name for name in _core.kernel_names() if name != kernels)
    print("sums: proven bounds of the 32-bit accumulators")
    show("model", model)
    show("identity", network.identity)
    show("input", f"{_times(network.input_shape)} (height x width x channels)")
    show("pixels", _convention(network))
    show("output", f"{classes} classes")
    show("weights", f"{sum(_weights(layer) for layer in network.layers):,} bytes, layers: {len(network.layers)}")
    show("work", f"{network.native.multiply_adds():,} multiply-adds a sample")
    show("kernels", f"{kernels}" + (f" (also here: {others})" if others else ""))
    show("memory", f"{network.native.block_bytes(kernels):,} bytes of activations a thread")
    return 0


def _layers(network: Network) -> None:
    made = table("", "layer", "kind", "output", "weights", "least sum", "largest sum", left=4)
    for i, (layer, row) in enumerate(zip(network.layers, network.native.layers(), strict=True)):
        low, high = row[3:]
        bounds = (f"{low:,}", f"{high:,}") if isinstance(layer, Conv) else ("", "")
        weights = f"{_weights(layer):,}" if _weights(layer) else ""
        made.add_row(
            str(i + 1),
            _short(printable(layer.name)),
            type(layer).__name__,
            "x".join(map(str, row[:3])),
            weights,
            *bounds,
        )
    print_table(made)


def _short(name: str, width: int = 18) -> str:
    return name if len(name) <= width else "..." + name[3 - width :]


def _times(numbers: tuple[int, ...]) -> str:
    return " x ".join(map(str, numbers))


def _weights(layer: Layer) -> int:
    return prod(layer.weights.shape) if isinstance(layer, Conv) else 0


def _convention(network: Network) -> str:
    """What the first quantiser makes of pixels, whatever the file's own scale was."""
    q = network.quantiser
    steps = sorted({f"{2**q.shift / abs(int(m)):.3g}" for m in q.multiplier if m}, key=float)
    step = " to ".join(steps if len(steps) <= 2 else (steps[0], steps[-1]))
    return f"0..255 with noise; a code is {step} levels, all span {q.low.min()}..{q.high.max()}"
