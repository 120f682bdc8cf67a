"""Post-training quantization under noise: a float network becomes an int8 ONNX file that intrs certifies.

source (open, fold, refuse) -> activations (what they are on noisy images) -> ranges (candidates) -> qdq (ONNX Runtime's
quantizer writes the file) -> bias (means are put right) -> pipeline (the candidate that keeps the top class, and the
check against the float network). Float inference is ONNX Runtime's (extra `quantize`); importing the room needs none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from intrs.exact import parse_count, parse_seed
from intrs.files import as_path, check_new, write_whole
from intrs.progress import reporting
from intrs.request import parse_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.data import Spec as AnyData
    from intrs.exact import Count, Number
    from intrs.files import AnyPath
    from intrs.network import Network
    from intrs.progress import Shown

__all__ = ["Quantized", "quantize"]

SEED = 1
ACCEPTED_LOSS = 0.01  # of noisy accuracy
ACCEPTED_AGREEMENT = 0.97


@dataclass(frozen=True)
class Accuracy:
    """Shares of images that a network gets right, with noise and without."""

    noisy: float
    clean: float


@dataclass(frozen=True, eq=False, repr=False)
class Quantized:
    """An int8 network, and what it lost against the float one, on images that the quantizer did not see."""

    path: Path | None  # where the file was written
    data: bytes = field(repr=False)  # the file
    network: Network  # as it is certified
    sigma: str
    trained_sigma: str  # what the float network says; "" if it does not
    method: str  # of the activation ranges, the one that was chosen
    candidates: dict[str, float]  # by method: agreement of the top class on held-out noisy images
    calibration_images: int
    checked: int  # noisy images of the check, of `checked_images` images
    checked_images: int
    agreement: float  # of the top class with the float network's
    accuracy: dict[Literal["float", "int8"], Accuracy]  # empty if there are no labels
    signal_to_noise: dict[str, float]  # in dB, per tensor in the order of the network

    @property
    def loss(self) -> float:
        """Noisy accuracy that was lost, as a fraction; 0 if there are no labels."""
        return self.accuracy["float"].noisy - self.accuracy["int8"].noisy if self.accuracy else 0.0

    @property
    def faithful(self) -> bool:
        """Whether so little was lost that training with quantization would hardly help."""
        return self.loss <= ACCEPTED_LOSS and self.agreement >= ACCEPTED_AGREEMENT

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        words = f"agrees with the float network on {100 * self.agreement:.2f} % of {self.checked:,} noisy images"
        return f"Quantized{where}: {self.method}, sigma {self.sigma}; {words}"


def quantize(
    model: Any,
    data: AnyData | Any,
    *,
    sigma: Number | None = None,
    out: AnyPath | None = None,
    split: str | None = None,
    max: Count | None = None,  # the setting's name
    seed: str | int = SEED,
    pixels: Literal["auto", "unit", "byte"] = "auto",
    mean: str | Sequence[Number] = "",
    std: str | Sequence[Number] = "",
    names: str | Sequence[str] = (),
    by_number: bool = False,
    threads: Count = 0,
    overwrite: bool = False,
    progress: Shown = None,
) -> Quantized:
    """Quantize a float network to int8 for noise of this sigma, and check it against the float one.

    model is a float ONNX file, the name of a float network that ships, a `torch.nn.Module` or an exported program. data
    is whatever `open_data` opens, with labels or without. Without sigma, the one that the model was trained for is
    taken; without split, the training images if there are any. The images are divided: one part calibrates, one chooses
    among the candidates, and the rest checks; `max` bounds how many are taken in all.

    pixels, mean and std say what the float network takes, as for `intrs.load`; the written file holds them. Where the
    data's and the model's classes have names, labels are found by name; names and by_number are those of `certify`.
    Without `out` nothing is written, and the file is in `Quantized.data`. The same arguments give the same bytes.
    """
    from intrs.quantization.pipeline import Asked, run

    path = None if out is None else as_path(out, "out")
    most = None if max is None else parse_count(max, "max")
    settings = Asked(
        sigma, split, most, parse_seed(seed), pixels, mean, std, parse_names(names), by_number,
        parse_count(threads, "threads", 0),
    )  # fmt: skip
    if path:
        inputs = [Path(model)] if isinstance(model, str | Path) and Path(model).is_file() else []
        check_new(path, overwrite=overwrite, inputs=inputs)
    with reporting(progress) as report:
        made = run(model, data, settings, path, report)
    if path:
        write_whole(path, made.data)
    return made
