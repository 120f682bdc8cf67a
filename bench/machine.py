"""What the figures were measured on and with, and what else the machine was doing meanwhile."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("intrs", "onnxruntime", "openvino", "nncf", "torch", "torchao", "onnx", "numpy")
FLAGS = ("avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm")
STAT, STATUS, CPUINFO, MEMINFO = (Path("/proc") / name for name in ("stat", "self/status", "cpuinfo", "meminfo"))


def describe() -> dict[str, Any]:
    """The machine, as far as it says."""
    words = set(re.findall(r"\w+", _cpuinfo("flags") or _cpuinfo("Features")))
    numbers = [_cpuinfo(key) for key in ("cpu family", "model", "stepping")]
    return {
        "processor": _cpuinfo("model name") or platform.processor() or platform.machine(),
        "family, model, stepping": ", ".join(numbers) if all(numbers) else "",
        "instructions": [flag for flag in FLAGS if flag in words],
        "cores": os.cpu_count(),
        "memory_gb": round(_kilobytes(MEMINFO, "MemTotal") / 2**20, 1),
        "system": f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
        "virtual": "hypervisor" in words,
    }


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpuinfo(key: str) -> str:
    text = CPUINFO.read_text() if CPUINFO.exists() else ""
    found = re.search(rf"^{key}\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _kilobytes(path: Path, key: str) -> int:
    found = re.search(rf"^{key}:\s*(\d+) kB", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found[1]) if found else 0


def resident_mb() -> float:
    """Memory that this process holds now."""
    return _kilobytes(STATUS, "VmRSS") / 1024


def peak_mb() -> float:
    """The most memory that this process has held."""
    return _kilobytes(STATUS, "VmHWM") / 1024


def busy_seconds() -> float:
    """Processor seconds spent on anything so far, by this machine or (steal) its neighbours on the same host."""
    if not STAT.exists():
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, STAT.read_text().split()[1:9])
    ticks: int = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq + steal) / ticks
