"""A PyTorch module as a float ONNX file, by the export call that gives a file which other programs read simply.

PyTorch is imported when a module is exported, not before: reading files needs none.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from intrs.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from intrs.network import Shape

Exporter = Literal["default", "torchscript"]
OPSETS: dict[Exporter, int] = {"default": 18, "torchscript": 17}  # the least of the former; HardSwish and more
EXAMPLES = 2  # images in the example: 1 would be taken for a constant
IMAGE, SCORES = "image", "scores"
MOST_BYTES = 2**31 - 1  # of one ONNX file


def module_to_onnx(module: nn.Module, image_shape: Shape, exporter: Exporter = "default") -> bytes:
    """The bytes of a float ONNX file with one input (batch, channels, height, width) and all weights inside.

    `image_shape` is (height, width, channels). The module is exported as it is in evaluation, and is left in the mode
    that it had. `default` is the exporter of PyTorch 2.9 and later, which needs onnxscript; `torchscript` is the older
    one.
    """
    if exporter not in OPSETS:
        raise SettingsError(f"exporter must be one of {', '.join(OPSETS)}, not {exporter!r}")
    if exporter == "default" and find_spec("onnxscript") is None:
        raise SettingsError("PyTorch's default ONNX exporter needs onnxscript: pip install 'intrs[train]'")
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with _quiet():
            data = _EXPORTERS[exporter](module, _example(module, image_shape))
    except Exception as error:  # whatever a module makes of the exporter, which promises no type
        raise ModelError(f"PyTorch cannot export {type(module).__name__} to ONNX: {_reason(error)}") from error
    finally:
        for part, training in modes.items():
            part.training = training
    if len(data) > MOST_BYTES:
        raise ModelError(f"{type(module).__name__}: {len(data):,} bytes, more than one ONNX file can hold")
    return data


def _reason(error: BaseException) -> str:
    """The first line of what went wrong at first: the exporter wraps it in advice of its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__


def _example(module: nn.Module, image_shape: Shape) -> Tensor:
    """Images as the module takes them, contiguous: from a permuted example the exporter writes strides too."""
    import torch

    height, width, channels = image_shape
    weights = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(()))
    return torch.zeros(EXAMPLES, channels, height, width, dtype=weights.dtype, device=weights.device)


def _default(module: nn.Module, example: Tensor) -> bytes:
    import torch

    program = torch.onnx.export(
        module, (example,), dynamo=True, opset_version=OPSETS["default"], external_data=False, verbose=False,
        input_names=[IMAGE], output_names=[SCORES], dynamic_shapes=({0: torch.export.Dim("batch")},),
    )  # fmt: skip
    assert program is not None
    data: bytes = program.model_proto.SerializeToString()
    return data


def _torchscript(module: nn.Module, example: Tensor) -> bytes:
    import torch

    written: Any = io.BytesIO()  # which the exporter takes, though its annotation says otherwise
    torch.onnx.export(
        module, (example,), written, dynamo=False, opset_version=OPSETS["torchscript"],
        input_names=[IMAGE], output_names=[SCORES], dynamic_axes={IMAGE: {0: "batch"}, SCORES: {0: "batch"}},
    )  # fmt: skip
    return bytes(written.getvalue())


_EXPORTERS: dict[Exporter, Callable[[nn.Module, Tensor], bytes]] = {"default": _default, "torchscript": _torchscript}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters warn of their own insides and print whole graphs when they fail; the error says what is needed."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "torch.fx", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        nowhere = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stderr(nowhere), contextlib.redirect_stdout(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
