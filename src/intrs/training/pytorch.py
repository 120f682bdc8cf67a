"""PyTorch as an extra: whether it is installed, and how many threads it takes. Importing this does not import it."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from intrs.errors import IntrsError

if TYPE_CHECKING:
    from collections.abc import Iterator

HOW_TO_INSTALL = (
    "pip install 'intrs[train]' (without CUDA, first install PyTorch's CPU build by the command that pytorch.org "
    "gives: it is a tenth of the size)"
)


def check_installed(work: str, *packages: str) -> None:
    """Refuse work whose packages are missing, and say how to install them."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise IntrsError(f"{work} needs {' and '.join(missing)}: {HOW_TO_INSTALL}")


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """PyTorch computes with this many threads while the block runs; 0 leaves the number as it is."""
    import torch

    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
