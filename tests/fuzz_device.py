"""Fuzz the byte readers of the device runtime: constants and saved runs, changed at random. Seeded, bounded in time.

    python tests/fuzz_device.py [--count 20000] [--seconds 600] [--seed 1] [--keep FOLDER]

Most changes get a digest that fits them, so that the checks behind it have to hold. Whatever the bytes are,
AddressSanitizer and UBSan must find nothing, and the statuses must be those of device/intrs.h. Otherwise the commands
are kept, to be given to the driver again, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from device_cases import ALL_TILES, SEED, decided, random_bases, saved, sealed, tiled_bases
from device_driver import ADAPTIVE, SANITIZERS, Classify, CountVotes, Decide, Driver, Limit, Open, Restore, told
from fuzzing import change_bytes, pick

from intrs.exchange.device import build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from device_driver import Command

NETWORKS = 30
BATCH = 50  # changed constants per process
LIMIT = Limit(arena=1 << 20, steps=10)  # changed constants may ask for much work, which is no defect
PATIENCE = 300  # seconds for a batch
WORDS = (0, 1, 2, 3, 127, 128, 255, 2**15, 2**16, 2**26, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)
TABLES = range(18, 22)  # words of the header: where noise and decisions begin
STATUSES = range(-16, 2)


def place(data: bytes, rng: np.random.Generator) -> int:
    """A word to change: most often one that says where things lie and how large they are, else any."""
    tables = [int.from_bytes(data[4 * i : 4 * i + 4], "little") for i in TABLES]
    some = rng.random()
    if some < 0.3:
        return 4 * int(rng.integers(2, 22))  # the header
    if some < 0.5:
        return int(pick(tables, rng)) + 4 * int(rng.integers(10))
    return int(8 + (len(data) - 48) * rng.random() ** int(pick((1, 3, 6), rng))) & ~3  # layers come first


def other(word: int, rng: np.random.Generator) -> int:
    """Another value for it: near it, at a limit, or any."""
    kind = rng.random()
    near = word + int(rng.integers(-4, 5))
    return (near if kind < 0.4 else int(pick(WORDS, rng)) if kind < 0.9 else int(rng.integers(2**32))) % 2**32


def change_words(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three words, and a digest that fits."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = place(data, rng)
        word = int.from_bytes(changed[at : at + 4], "little")
        changed[at : at + 4] = other(word, rng).to_bytes(4, "little")
    return sealed(bytes(changed))


def change_run(data: bytes, rng: np.random.Generator) -> bytes:
    """A saved run with some words changed; at times also its bytes."""
    words = {int(rng.integers(84)): int(pick(WORDS, rng)) for _ in range(int(rng.integers(0, 4)))}
    made = saved(data, words | {1: int(rng.integers(5))})
    return change_bytes(made, rng) if rng.random() < 0.2 else made


def commands_for(data: bytes, pixels: Any, rng: np.random.Generator) -> list[Command]:
    """Changed constants with everything that can be asked of them."""
    wrong = change_bytes(data, rng) if rng.random() < 0.2 else change_words(data, rng)
    held = wrong if len(wrong) > 32 else data
    return [
        Open(wrong),
        Classify(pixels),
        CountVotes(pixels, SEED, 0, int(pick((0, 2**63, 2**64 - 1), rng)), 1),
        Decide(pixels, SEED, 0, int(rng.integers(ADAPTIVE + 1)), step=5),
        Restore(change_run(held, rng), pixels, 3),
        Open(data),
        Restore(change_run(data, rng), pixels, 3),
    ]


def bases_of(first: int, number: int) -> list[tuple[bytes, Any]]:
    """Constants of random networks, the last third of them by tiles, with an image each."""
    tiled = number // 3
    plain = [(build(base, decided()).data, pixels) for base, pixels in random_bases(first, number - tiled)]
    return [*plain, *((build(base, decided(), ALL_TILES).data, image) for base, image in tiled_bases(first, tiled))]


def changed(bases: Sequence[tuple[bytes, Any]], number: int, rng: np.random.Generator) -> list[Command]:
    """The commands for so many changes of constants among these."""
    some = [bases[int(rng.integers(len(bases)))] for _ in range(number)]
    return [command for data, pixels in some for command in commands_for(data, pixels, rng)]


def run_batch(driver: Driver, commands: Sequence[Command]) -> Counter[int]:
    """How often each status came back. Raises AssertionError or TimeoutExpired if something else happened."""
    lines = driver.run([LIMIT, *commands], timeout=PATIENCE)[1:]
    assert all(line[0] in STATUSES for line in lines)
    return Counter(line[0] for line in lines)


def run(count: int, seconds: float, seed: int, keep: Path) -> int:
    """The number of batches that were handled badly."""
    bases = bases_of(2000, NETWORKS)
    outcomes: Counter[int] = Counter()
    bad = done = 0
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver.build(Path(folder), "gcc", *SANITIZERS)
        end = time.monotonic() + seconds
        while done < count and time.monotonic() < end:
            rng = np.random.default_rng([seed, done])
            commands = changed(bases, min(BATCH, count - done), rng)
            try:
                outcomes += run_batch(driver, commands)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                print(error)
                bad += 1
                keep.mkdir(exist_ok=True)
                (keep / f"device-{seed}-{done}").write_bytes(told([LIMIT, *commands]))
            done += min(BATCH, count - done)
    print(f"{done} changed constants, seed {seed}: statuses {dict(sorted(outcomes.items()))}, {bad} batches bad")
    return bad


def main() -> int:
    """Run as the arguments say; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    return 1 if run(options.count, options.seconds, options.seed, options.keep) else 0


if __name__ == "__main__":
    sys.exit(main())
