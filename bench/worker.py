"""One engine in a process of its own, so that thread pools and allocators do not disturb each other.

    python -m bench.worker '{"engine": "intrs", "model": "resnet20.int8.onnx", "threads": 2}'

writes a line when it is ready, and then for each number of samples that it reads, runs them and writes how it went.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from bench.engines import ENGINES, Engine, Settings
from bench.machine import peak_mb


def measure(engine: Engine, samples: int) -> dict[str, Any]:
    start, cpu = time.perf_counter(), time.process_time()
    engine.run(samples)
    seconds = time.perf_counter() - start
    return {"samples": samples, "seconds": seconds, "cpu": time.process_time() - cpu, "peak_mb": peak_mb()}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to stderr
    settings = Settings(**json.loads(sys.argv[1]))
    engine = ENGINES[settings.engine](settings)
    print(json.dumps({"granule": engine.granule}), file=answers)
    for line in sys.stdin:
        print(json.dumps(measure(engine, int(line))), file=answers)


if __name__ == "__main__":
    main()
