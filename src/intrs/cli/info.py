"""`intrs info`: what a model is, once it is integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs import _core, zoo
from intrs.cli.screen import say, show
from intrs.cli.words import first_look
from intrs.errors import SettingsError
from intrs.job import open_job
from intrs.model import load, open_model
from intrs.network import selected_kernels
from intrs.request import Predict

if TYPE_CHECKING:
    from argparse import Namespace


LOADER = ("pixels", "mean", "std", "dialect")


def info(args: Namespace) -> int:
    """Print layers, sizes, accumulator bounds, kernel sets, memory, identity and pixel convention."""
    if args.sigma is not None and args.data is None:
        raise SettingsError("--sigma is the noise of --data's images; add --data")
    model = args.model or zoo.DEFAULT_MODEL
    network, kernels = load(model, **{name: getattr(args, name) for name in LOADER}), selected_kernels(args.kernels)
    others = ", ".join(name for name in _core.kernel_names() if name != kernels)
    say(network.summary())
    show("model", model)
    opened = open_model(model)
    show("input", opened.input_words(*(getattr(args, name) for name in LOADER)))
    if opened.trained_sigma:
        show("trained", f"under noise of sigma {opened.trained_sigma}")
    if opened.class_names:
        show("classes", ", ".join(opened.class_names))
    show("kernels", f"{kernels}" + (f" (also here: {others})" if others else ""))
    if args.data:
        request = Predict(model=model, data=args.data, sigma=args.sigma, **{n: getattr(args, n) for n in LOADER})
        for name, words in first_look(open_job(request, opened)):
            show(name, words)
    show("memory", f"{network.native.block_bytes(kernels):,} bytes of activations per thread")
    args.answer = {
        "model": model, "identity": network.identity, "input": list(network.input_shape), "layers": len(network.layers),
        "weights": network.weight_count, "classes": list(opened.class_names), "trained_sigma": opened.trained_sigma,
        "kernels": kernels, "kernels_here": list(_core.kernel_names()),
        "bytes_per_thread": network.native.block_bytes(kernels),
    }  # fmt: skip
    return 0
