"""What all sections share: how long to measure, with how many threads, which kernel sets, and where the models lie."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.engines import Settings
from bench.prepare import file_stem
from bench.processes import ROOT, EngineError

if TYPE_CHECKING:
    from pathlib import Path

NORMATIVE = "scalar"  # written to be read, not to be fast


@dataclass(frozen=True)
class Context:
    folder: Path
    threads: int
    rounds: int
    seconds: float
    quick: bool
    isa: str = ""

    @property
    def kernels(self) -> list[str]:
        """The kernel sets of this machine, fastest first."""
        from intrs import _core

        names = _core.kernel_names()
        return names[names.index(self.isa) :] if self.isa else names

    @property
    def fast_kernels(self) -> list[str]:
        return [name for name in self.kernels if name != NORMATIVE] or self.kernels

    def model(self, form: str, name: str = "resnet20", size: int = 32, sparse: bool = False) -> str:
        """The path of a model, written when it is first asked for. Forms: float, int8, reduced, nncf."""
        ending = {"float": "onnx", "nncf": "nncf.xml"}.get(form, f"{form}.onnx")
        path = self.folder / f"{file_stem(name, size, sparse)}.{ending}"
        if not path.exists():
            everything = form in ("reduced", "nncf")
            self._prepare([name, str(size), *["sparse"] * sparse, *["all"] * everything])
        return str(path)

    def _prepare(self, arguments: list[str]) -> None:
        say(f"writing {' '.join(arguments)}")
        command = [sys.executable, "-m", "bench.prepare", str(self.folder), *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise EngineError(f"bench.prepare {' '.join(arguments)}: {done.stderr.strip().splitlines()[-1]}")

    def intrs(
        self, kernels: str, threads: int = 0, name: str = "resnet20", size: int = 32, sparse: bool = False
    ) -> Settings:
        """intrs on the int8 file of a network."""
        model = self.model("int8", name, size, sparse)
        return Settings("intrs", model, threads or self.threads, size, kernels=kernels, isa=self.isa)


def say(text: str) -> None:
    """Progress, beside the results."""
    print(f"  {text}", file=sys.stderr, flush=True)
