"""Model files from anywhere: bounded in size, and only regular ones are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from intrs.exchange.refusal import Refusal
from intrs.files import open_regular

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE = 2**31


def read_whole(path: Path) -> bytes:
    """All bytes of a file, refused if it is empty or too large."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE:
                raise Refusal("it exceeds 2 GB")
            data = file.read(size)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise Refusal(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not data:
        raise Refusal("it is empty")
    return data
