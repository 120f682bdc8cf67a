"""A whole integer network: its canonical bytes, its identity, and running it.

Tensor 0 is the quantised image; layer i writes tensor i + 1 and may read any tensor before it. The last layer writes
the class scores, a tensor of shape (1, 1, classes). The bytes of `Network.to_bytes` are what the native core reads,
and their SHA-256 is the network's identity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from intrs import _core
from intrs.errors import DataError, ModelError, SettingsError
from intrs.exact import shown
from intrs.network import summary
from intrs.network.layers import Layer, Quantiser, Shape, read_layer
from intrs.network.parts import Source, integers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

MAGIC = b"INTRSNET"
FORMAT = 1
PIXELS = np.iinfo(np.int32)  # what the core takes; codes are saturated long before


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """An integer network. Get one with `intrs.load`, from bytes, or from layers of your own.

    Networks pickle and copy as their bytes and the names of their layers. In a notebook they show as a table.
    """

    quantiser: Quantiser
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.quantiser, Quantiser):
            raise ModelError(f"a network begins with a Quantiser, got {shown(self.quantiser)}")
        layers = tuple(self.layers) if isinstance(self.layers, Iterable) else (self.layers,)
        if wrong := [layer for layer in layers if not isinstance(layer, Layer)]:
            raise ModelError(f"a network is made of layers such as Conv, got {shown(wrong[0])}")
        object.__setattr__(self, "layers", layers)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, names: Sequence[str] = ()) -> Self:
        """The network of these canonical bytes, validated; `names` are those of its layers, if they are known.

        Raises ModelError if the bytes are damaged or a layer could overflow.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ModelError(f"expected the bytes of a network, got {shown(data)}")
        data = bytes(data)
        native = _validated(data, str)
        source = Source(data[len(MAGIC) :])
        source.integer()  # the format, which the core has checked
        quantiser, count = Quantiser.read(source), source.integer()
        if names and len(names) != count:
            raise ModelError(f"{len(names)} names for {count} layers")
        network = cls(quantiser, tuple(read_layer(source, name) for name in names or [""] * count))
        network.__dict__["native"] = native
        return network

    def to_bytes(self) -> bytes:
        """The canonical bytes (`docs/arithmetic.md`, "Bytes of a network"), which the core validates."""
        frame = MAGIC, integers(FORMAT), self.quantiser.fields(), integers(len(self.layers))
        return b"".join((*frame, *(layer.to_bytes() for layer in self.layers)))

    def __reduce__(self) -> tuple[Callable[..., Network], tuple[bytes, tuple[str, ...]]]:
        return type(self).from_bytes, (self.to_bytes(), tuple(layer.name for layer in self.layers))

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the lowered integers, in hexadecimal: the same on every machine, blind to names in the file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @cached_property
    def native(self) -> _core.Network:
        """The core's validated copy. Raises ModelError if a layer is malformed or could overflow."""
        return _validated(self.to_bytes(), self._explain)

    @property
    def input_shape(self) -> Shape:
        """(height, width, channels) of an image."""
        return self.quantiser.height, self.quantiser.width, self.quantiser.channels

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.shapes[-1][2]

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Shape of every tensor: the quantised image, then one per layer."""
        shapes = [self.input_shape]
        try:
            for layer in self.layers:
                shapes.append(layer.output_shape(*(shapes[i] for i in layer.inputs)))
        except (IndexError, ZeroDivisionError):  # a tensor that does not exist, a stride of 0
            _ = self.native  # says what is wrong
            raise
        return tuple(shapes)

    @property
    def weight_count(self) -> int:
        """How many weights all layers have; each is a byte."""
        return sum(layer.weight_count for layer in self.layers)

    def scores(self, batch: NDArray[Any], kernels: str | None = None) -> NDArray[np.int32]:
        """Class scores (n, classes) of integer images (n, height, width, channels), noise already added."""
        return self.native.scores(self._images(batch), selected_kernels(kernels))

    def predict(self, batch: NDArray[Any], kernels: str | None = None) -> NDArray[np.int64]:
        """The class of each image: the largest score, the lowest class at a tie (TOSA ARGMAX)."""
        return np.asarray(np.argmax(self.scores(batch, kernels), axis=1))

    def trace(self, image: NDArray[Any], kernels: str | None = None) -> list[NDArray[np.int32]]:
        """Every tensor for one integer image, as (height, width, channels): for comparing with other engines."""
        values = self.native.trace(self._images(image, one=True)[None], selected_kernels(kernels))
        return [value.reshape(shape) for value, shape in zip(values, self.shapes, strict=True)]

    def summary(self) -> str:
        """Layers, shapes, weights, proven bounds of accumulators, work and identity, as text of 80 columns."""
        return summary.as_text(self)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.input_shape))
        last = f"{len(self.layers)} layers, {self.weight_count:,} weights, identity {self.identity[:12]}..."
        return f"<Network: images of {size}, {last}>"

    def _repr_html_(self) -> str:
        return summary.as_html(self)

    def _images(self, images: NDArray[Any], *, one: bool = False) -> NDArray[np.int32]:
        """Images, or one, as the core takes them: far pixels saturate in the quantiser anyway."""
        array, dimensions = _as_array(images), 3 if one else 4
        if array is None or array.dtype.kind not in "iu":
            found = shown(images) if array is None else f"an array of {array.dtype}"
        elif array.ndim != dimensions or array.shape[dimensions - 3 :] != self.input_shape:
            found = f"shape {array.shape}"
        else:
            return np.ascontiguousarray(np.clip(array, PIXELS.min, PIXELS.max), np.int32)
        size, axes = " x ".join(map(str, self.input_shape)), "(height, width, channels)"
        what = "an integer image" if one else "an array of integer images, one or more,"
        raise DataError(f"expected {what} of {size} {axes}, got {found}")

    def _explain(self, message: str) -> str:
        """The core counts layers; the user knows names."""
        number, _, rest = message.partition(": ")
        if number.startswith("layer ") and number[6:].isdigit():
            layer = self.layers[int(number[6:])]
            return f"layer {layer.name or number[6:]!r} ({type(layer).__name__}): {rest}"
        return message


def selected_kernels(name: str | None = None) -> str:
    """The kernel set of this name, or without one the fastest that this machine runs."""
    if name is not None and not isinstance(name, str):
        raise SettingsError(f"kernels: expected the name of a kernel set, got {shown(name)}")
    try:
        return _core.selected_kernels(name or "")
    except _core.Error as error:
        raise SettingsError(str(error)) from None


def _validated(data: bytes, explain: Callable[[str], str]) -> _core.Network:
    try:
        return _core.Network(data)
    except _core.Error as error:
        raise ModelError(explain(str(error))) from None


def _as_array(images: object) -> NDArray[Any] | None:
    """An array; None if it cannot be one, as a list of uneven rows, text, or a tensor on a GPU."""
    try:
        array = np.asarray(images)
    except Exception:  # of whatever library the object is from
        return None
    return None if array.dtype.kind in "OUS" else array
