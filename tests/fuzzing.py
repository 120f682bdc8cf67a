"""What the fuzzers of model formats share: changed bytes, the limits, the loop, and what counts as handled badly."""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import reference

from intrs.errors import ModelError
from intrs.model import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from intrs.network import Network

MEMORY = 3 * 2**29  # of address space, libraries included
PATIENCE = 10  # seconds for one file
INTEGERS = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 4, 7, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**40, 2**63 - 1]
FLOATS = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, 1e-45, 1e-38, 1e-20, 1e-6, 0.5, 1.0, 1e6, 3e38]


class Fuzzed(NamedTuple):
    """A format: the suffix of its files, good files to start from, and how to change what they say."""

    suffix: str
    seeds: Callable[[Path], list[bytes]]
    change: Callable[[bytes, np.random.Generator], bytes]


def pick(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 8))):
        at = int(rng.integers(len(changed)))
        kind = rng.integers(5)
        if kind == 0:
            changed[at] = int(rng.integers(256))
        elif kind == 1:
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            del changed[at : at + int(rng.integers(1, 50))]
        elif kind == 3:
            changed[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 20)), np.uint8))
        else:
            changed[at : at + 4] = b"\xff\xff\xff\x7f"
        if not changed:
            break
    return bytes(changed[: int(rng.integers(len(changed) + 1))] if rng.random() < 0.1 else changed)


def check(network: Network, rng: np.random.Generator) -> None:
    """The core and the reference must agree on what was loaded."""
    if sum(h * w * c for h, w, c in network.shapes) > 2**17 or network.native.multiply_adds() > 2**25:
        return
    batch = rng.integers(-300, 600, (2, *network.input_shape))
    assert np.array_equal(network.scores(batch), reference.scores(network, batch)), "core and reference differ"


def too_slow(signum: int, frame: object) -> None:
    raise TimeoutError(f"more than {PATIENCE} seconds")


def run(fuzzed: Fuzzed, count: int, seconds: float, seed: int, keep: Path) -> int:
    """The number of files that were handled badly."""
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        good = fuzzed.seeds(Path(folder))
        path = Path(folder) / f"fuzz{fuzzed.suffix}"
        end = time.monotonic() + seconds
        for number in range(count):
            if time.monotonic() > end:
                break
            rng = np.random.default_rng([seed, number])
            change = change_bytes if rng.random() < 0.3 else fuzzed.change
            path.write_bytes(change(pick(good, rng), rng))
            outcome = handle(path, rng)
            outcomes[outcome] += 1
            if outcome == "bad":
                keep.mkdir(exist_ok=True)
                (keep / f"{seed}-{number}{fuzzed.suffix}").write_bytes(path.read_bytes())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{sum(outcomes.values())} files, seed {seed}: {dict(outcomes)}; peak memory {peak >> 10} MB")
    return outcomes["bad"]


def handle(path: Path, rng: np.random.Generator) -> str:
    signal.alarm(PATIENCE)
    try:
        check(load(path), rng)
    except ModelError as error:
        return "refused" if str(error).startswith(f"{path}: ") else "bad"  # it must name the file
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return "bad"
    finally:
        signal.alarm(0)
    return "loaded"


def main(description: str, fuzzed: Fuzzed) -> int:
    """Run as the arguments say; the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_slow)
    warnings.simplefilter("error")  # an overflow that NumPy warns of is one that nobody thought of
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return 1 if run(fuzzed, options.count, options.seconds, options.seed, options.keep) else 0
