"""Files from anywhere: only regular ones are read, and none is waited for."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from intrs.exchange.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE = 2**31


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError or ValueError as usual, Refusal for a folder, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise Refusal("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file, but a pipe or a device")
    return os.fdopen(descriptor, "rb")


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
