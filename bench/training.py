"""How fast is a step of training? The native layers against PyTorch's own, on this machine, in turns.

    python -m bench.training [--threads 1 2] [--rounds 7] [--seconds 4]

A sample is an image that goes through a whole step of SGD on a batch that lies ready: forward, backward, update. The
network is the one that `intrs train` builds, in its float form and with fake quantization; PyTorch's layers get the
same network, channels_last and a malloc that keeps its memory, in float32 and, where the processor multiplies it, in
bfloat16.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from bench.engines import Engine, Settings
from bench.processes import others, rates, ratios, timed_in_turns

BATCH = 256
PYTORCH, NATIVE = "PyTorch, fp32", "native, fp32"


class Step(Engine):
    """A step of training of `model`, such as "20 quant bf16": depth of the ResNet, form, precision."""

    granule = BATCH

    def __init__(self, settings: Settings) -> None:
        import torch

        from intrs.training import memory, native, quant, resnet

        if settings.kernels == "torch":
            native.AVAILABLE = False
        memory.keep_freed_memory()
        torch.set_num_threads(settings.threads)
        torch.manual_seed(0)
        depth, form, self.precision = settings.model.split()
        made = resnet.ResNet((int(depth) - 2) // 6, [0.5] * 3, [0.25] * 3, 10)
        self.model = made.to(memory_format=torch.channels_last)
        self.x = torch.rand(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 10, (BATCH,))
        if form == "quant":
            quant.calibrate(self.model, lambda: self.x, 1)
        self.model.train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, 0.9, nesterov=True)
        self.torch: Any = torch

    def run(self, samples: int) -> None:
        torch = self.torch
        for _ in range(samples // BATCH):
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16) if self.precision == "bf16" else nullcontext():
                logits = self.model(self.x)
            torch.nn.functional.cross_entropy(logits.float(), self.labels).backward()
            self.optimizer.step()


def contestants(depth: int, form: str, threads: int) -> dict[str, Settings]:
    from intrs import _core

    base = Settings("training", f"{depth} {form} fp32", threads)
    half = replace(base, model=f"{depth} {form} bf16")
    found = {PYTORCH: replace(base, kernels="torch"), NATIVE: base, "native, bf16": half}
    if _core.has_bf16():
        found["PyTorch, bf16"] = replace(half, kernels="torch")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    print("| network | threads | layers | images/s | over PyTorch, fp32 | others |")
    print("|---|---:|---|---:|---:|---:|")
    for depth, form in ((20, "float"), (20, "quant"), (8, "float")):
        for threads in given.threads:
            named = contestants(depth, form, threads)
            runs = dict(zip(named, timed_in_turns(list(named.values()), given.seconds, given.rounds), strict=True))
            for name, mine in runs.items():
                ratio = ratios(mine, runs[PYTORCH])
                said = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
                rate, rest = rates(mine)["median"], others(mine)
                print(f"| ResNet-{depth}, {form} | {threads} | {name} | {rate:.0f} | {said} | {rest:.1%} |", flush=True)


if __name__ == "__main__":
    main()
