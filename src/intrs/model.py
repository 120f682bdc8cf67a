"""A model as the user has it, opened once: the name of one that ships, a file, or a network.

model = open_model("resnet20-sigma0.25")
model.trained_sigma, model.class_names
network = model.network()                                # integers, lowered once per pixel convention
engine = model.engine(threads=2)                         # the file itself in ONNX Runtime, for continuous noise
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from intrs import zoo
from intrs.errors import ModelError, SettingsError
from intrs.exact import shown
from intrs.exchange.convention import Convention
from intrs.exchange.modelfile import SIGMA
from intrs.exchange.openfile import open_file
from intrs.network import Network

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.exact import Count
    from intrs.exchange.convention import Numbers
    from intrs.exchange.modelfile import ModelFile
    from intrs.float_engine import FloatEngine

AnyModel: TypeAlias = "str | os.PathLike[str] | Network | Model"


@dataclass(frozen=True, eq=False)
class Model:
    """A model that is open. Make one with `open_model`.

    `name` is what the user gave, for results files; it is empty for a Network.
    """

    name: str
    path: Path | None
    _file: ModelFile | None = field(default=None, repr=False)
    _network: Network | None = field(default=None, repr=False)

    @cached_property
    def card(self) -> dict[str, Any]:
        """The card of a model that ships; empty for others."""
        name = zoo.name_of(self.path) if self.path else ""
        return zoo.card(name) if name else {}

    @cached_property
    def trained_sigma(self) -> str:
        """The sigma under which the model was trained; "" if neither file nor card says it."""
        told = self._file.metadata.get(SIGMA, "") if self._file else ""
        return told or str(self.card.get("recipe", {}).get("sigma") or "")

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes of a model that ships, in order; () for others."""
        return tuple(self.card.get("classes", ()))

    @property
    def is_quantized(self) -> bool:
        """Whether it can be run in integers."""
        return self._file is None or self._file.is_quantized

    def dialect(self, asked: str = "") -> str:
        """Whose kernels the file means, given what was asked for; empty if its format knows no dialects."""
        if self._file:
            return self._file.dialect(asked)
        if asked:
            raise SettingsError("a dialect is for TFLite files; a Network has its integers already")
        return ""

    def input_words(
        self, pixels: str = "auto", mean: Numbers | None = None, std: Numbers | None = None, dialect: str = ""
    ) -> str:
        """What the model gets for a pixel of 0 .. 255, in words: the convention and the normalisation in force."""
        if not self._file:
            return "what the network's own quantiser makes of a pixel"
        convention = replace(Convention.of(pixels, mean, std), dialect=self.dialect(dialect))
        return convention.words(self._file.pixel_scale(convention))

    def network(
        self, pixels: str = "auto", mean: Numbers | None = None, std: Numbers | None = None, dialect: str = ""
    ) -> Network:
        """The integer network, lowered once per convention; `docs/onnx.md` says what the options mean."""
        convention = replace(Convention.of(pixels, mean, std), dialect=self.dialect(dialect))
        if self._file:
            return self._file.network(convention)
        assert self._network is not None
        if not convention.is_default:
            raise SettingsError("pixels, mean and std are for model files; a Network has its own input quantiser")
        return self._network

    def engine(
        self, pixels: str = "auto", mean: Numbers | None = None, std: Numbers | None = None, threads: Count = 0
    ) -> FloatEngine:
        """The file as it is, in ONNX Runtime, for continuous noise; threads=0 takes every core."""
        from intrs.float_engine import engine_of  # later, because most runs need no float

        if self._file is None:
            raise ModelError("an integer network cannot be run in floats; take integer noise, or give its ONNX file")
        return engine_of(self._file, Convention.of(pixels, mean, std), threads)


def open_model(spec: AnyModel) -> Model:
    """Open and parse a model, by the name of one that ships, a path, or as a Network.

    Raises ModelError if there is no such model, or the file cannot be read.
    """
    if isinstance(spec, Model):
        return spec
    if isinstance(spec, Network):
        return Model("", None, _network=spec)
    if not isinstance(spec, str | os.PathLike) or not isinstance(os.fspath(spec), str) or not os.fspath(spec):
        raise ModelError(f"expected the name of a model, the path of a file or a Network, got {shown(spec)}")
    name = os.fspath(spec)
    path = zoo.find_model(name)
    return Model(name, path, open_file(path))


def load(
    spec: AnyModel,
    *,
    pixels: str = "auto",
    mean: Numbers | None = None,
    std: Numbers | None = None,
    dialect: str = "",
) -> Network:
    """Open a model that ships, or an int8 or uint8 file, ONNX (QDQ or QOperator form) or TFLite, as integers.

    `pixels` says what the file's input is for a pixel of 0 .. 255: itself ("byte") or a 255th of it ("unit"). "auto"
    takes the word of the file's metadata, else "byte" if the input is uint8 or its quantiser reaches 32 or more, else
    "unit". `mean` and `std` are for files that expect a normalised image, (value - mean) / std, and do not normalise
    it themselves: numbers, or text such as "0.49,0.48,0.45".

    `dialect` says whose reference kernels a TFLite file means: "tflm" (TFLite Micro, the default) or "litert"; all
    scores have their bits (`docs/tflite.md`).

    Raises ModelError, naming file, node and reason, if the file cannot be read or means something that integers of
    8 bits cannot do.
    """
    return open_model(spec).network(pixels, mean, std, dialect)
