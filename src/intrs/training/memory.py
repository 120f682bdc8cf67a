"""Keep freed memory instead of giving it back to the system after every step."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of <malloc.h>


def keep_freed_memory() -> bool:
    """Tell glibc to serve large blocks from the heap and never to shrink it; False elsewhere.

    A training step frees and asks for gigabytes.  By default each large block is a mapping of its own, which the
    kernel has to fill with zeros again at every step.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all([mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, -1), mallopt(_TOP_PAD, 2**28)])
