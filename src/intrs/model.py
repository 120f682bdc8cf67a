"""A model as the user has it. (Minimal.)"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from intrs import zoo
from intrs.errors import ModelError
from intrs.exact import parse_fraction
from intrs.network import Network

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from intrs.float_engine import FloatEngine


@dataclass(frozen=True, eq=False)
class Model:
    """A model, opened."""

    name: str
    path: Path | None
    given: Network | None = None

    @cached_property
    def trained_sigma(self) -> str:
        """Empty if it does not say it."""
        from intrs.exchange.onnx_file import Refusal, read_graph

        if self.path is None:
            return ""
        try:
            sigma = read_graph(self.path).metadata.get("intrs.sigma", "")
        except Refusal as refusal:
            raise ModelError(f"{self.path}: {refusal}") from None
        return sigma or (zoo.card(self.name)["recipe"]["sigma"] if self.name in zoo.model_names() else "")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of a shipped model."""
        name = self.name.removesuffix(zoo.FP32)
        return tuple(zoo.card(name)["classes"]) if name in zoo.model_names() else ()

    @property
    def is_quantized(self) -> bool:
        """Or float."""
        from intrs.float_engine import is_quantized

        return self.path is None or is_quantized(self.path)

    def network(self, pixels: str = "auto", mean: str = "", std: str = "") -> Network:
        """Lowered."""
        from intrs.exchange.onnx_in import load

        if self.given is not None:
            return self.given
        assert self.path
        return load(self.path, pixels=cast("Any", pixels), mean=_numbers(mean), std=_numbers(std))

    def engine(self, pixels: str = "auto", mean: str = "", std: str = "", threads: int = 0) -> FloatEngine:
        """In floats."""
        from intrs.float_engine import open_engine

        assert self.path
        return open_engine(self.path, pixels=pixels, mean=_numbers(mean), std=_numbers(std), threads=threads)


def _numbers(text: str) -> list[Fraction] | None:
    return [parse_fraction(part, "mean and std") for part in text.split(",")] if text else None


def open_model(spec: Any) -> Model:
    """Open."""
    if isinstance(spec, Model):
        return spec
    if isinstance(spec, Network):
        return Model(f"network {spec.identity[:16]}", None, spec)
    return Model(str(spec), zoo.find_model(str(spec)))


def load(spec: Any, *, pixels: str = "auto", mean: Any = None, std: Any = None) -> Network:
    """Load."""
    return open_model(spec).network(pixels, mean or "", std or "")
