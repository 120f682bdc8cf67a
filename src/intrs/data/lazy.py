"""Pixels that are decoded when they are looked at, so that a data set of image files need not fit in memory."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

import numpy as np

from intrs.data.limits import MOST_BYTES
from intrs.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

CACHE_BYTES = 2**26  # of decoded pixels that are kept; a small data set is decoded once


class Pixels(Protocol):
    """What images (n, height, width, channels) of uint8 can do, whether they are an array or still to be decoded."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, height, width, channels)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always uint8."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __array__(self, dtype: Any = ..., /) -> NDArray[Any]: ...

    def __eq__(self, other: Any, /) -> Any: ...


class PixelSource(Protocol):
    """A data set of image files. It can be pickled."""

    def pixels(self, place: int) -> NDArray[np.uint8]:
        """Decode one image (height, width, channels)."""


class LazyPixels:
    """Pixels of a source, indexed as an array (n, height, width, channels) is.

    `numpy.asarray` decodes all of them. A pickle holds what the source does: for files on disk their paths.
    """

    def __init__(
        self, source: PixelSource, shape: tuple[int, int, int, int], places: NDArray[np.int64] | None = None
    ) -> None:
        self.source, self._shape = source, shape
        self._places = np.arange(shape[0]) if places is None else places  # the images' places in the source
        self._cache: OrderedDict[int, NDArray[np.uint8]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyPixels, (self.source, self._shape, self._places)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(n, height, width, channels)."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[np.uint8]:
        """Always uint8."""
        return np.dtype(np.uint8)

    @property
    def ndim(self) -> int:
        """Always 4."""
        return len(self._shape)

    @property
    def nbytes(self) -> int:
        """Of all pixels, decoded."""
        return self._shape[0] * self._image_bytes

    @property
    def _image_bytes(self) -> int:
        _, height, width, channels = self._shape
        return height * width * channels

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"LazyPixels of shape {self._shape}; numpy.asarray decodes them"

    def __getattr__(self, name: str) -> Any:
        hint = "; numpy.asarray(...) makes an array of these pixels" if hasattr(np.ndarray, name) else ""
        raise AttributeError(f"LazyPixels has no attribute {name!r}{hint}")

    def subset(self, places: NDArray[np.int64]) -> LazyPixels:
        """The images at these places, still to be decoded."""
        return LazyPixels(self.source, (len(places), *self._shape[1:]), self._places[places])

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self._one(i) for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("pixels that are decoded when looked at are no array without a copy")
        return self._block(np.arange(len(self))).astype(dtype or np.uint8, copy=False)

    def __eq__(self, other: Any) -> Any:  # as for arrays: pixel by pixel
        return np.asarray(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if isinstance(first, SupportsIndex) and not isinstance(first, bool | np.bool_ | np.ndarray):
            image = self._one(self._position(operator.index(first)))
            return image[rest] if rest else image
        if isinstance(first, slice):
            return self._block(np.arange(len(self))[first])[(slice(None), *rest)]
        if isinstance(first, np.ndarray | list):
            return self._chosen(np.asarray(first), rest)
        return np.asarray(self)[key]  # all of them, as None and ... ask for

    def _position(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        return index % len(self)

    def _chosen(self, index: NDArray[Any], rest: tuple[Any, ...]) -> NDArray[np.uint8]:
        """As NumPy's advanced indexing; every image is decoded once, however often it is named."""
        positions = np.arange(len(self))[index]  # which also checks the index
        few, inverse = np.unique(positions, return_inverse=True)
        chosen: NDArray[np.uint8] = self._block(few)[(inverse.reshape(positions.shape), *rest)]
        return chosen

    def _block(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        if (size := len(positions) * self._image_bytes) > MOST_BYTES:
            raise DataError(f"{len(positions):,} images need {size:,} bytes; at most {MOST_BYTES:,} fit at once")
        block = np.empty((len(positions), *self._shape[1:]), np.uint8)
        for i, position in enumerate(positions):
            block[i] = self._one(int(position))
        return block

    def _one(self, position: int) -> NDArray[np.uint8]:
        place = int(self._places[position])
        with self._lock:
            if (kept := self._cache.get(place)) is not None:
                self._cache.move_to_end(place)
                return kept
        image = self.source.pixels(place)
        image.flags.writeable = False  # the next reader gets the same array
        with self._lock:
            self._cache[place] = image
            while len(self._cache) > max(1, CACHE_BYTES // self._image_bytes):
                self._cache.popitem(last=False)
        return image
