"""A copy of ONNX Runtime that takes the machine for one without AVX-512.

It has no setting for that. It asks by XGETBV whether the system keeps the registers of AVX-512; in the copy that
instruction is replaced by one that answers as a system without them (7: those of x87, SSE and AVX). OpenVINO and
PyTorch have settings for it.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

XGETBV = bytes.fromhex("0f01d0")
ANSWER = bytes.fromhex("b00790")  # mov al, 7; nop
JOINED = bytes.fromhex("89c048c1e2204809c2")  # what follows where the question is asked: rdx << 32 | rax
LIBRARY = "capi/onnxruntime_pybind11_state*.so"


def held_onnxruntime(folder: Path) -> Path | None:
    """The folder that holds the copy, to be searched first for packages; None if the library is not as expected."""
    spec = find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return None
    root = folder / "held"
    copy = root / "onnxruntime"
    if not copy.exists():
        shutil.copytree(Path(spec.origin).parent, copy)
        patched = [_patch(path) for path in copy.glob(LIBRARY)]
        if not any(patched):
            shutil.rmtree(copy)
            return None
    return root


def _patch(path: Path) -> bool:
    before = path.read_bytes()
    after = before.replace(XGETBV + JOINED, ANSWER + JOINED)
    path.write_bytes(after)
    return after != before
