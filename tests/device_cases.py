"""What the device runtime is asked on this machine and on emulated boards, with the desktop's answers.

for case in random_cases(0, 220): check(case, driver.run(case.commands))
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from device_driver import (
    ADAPTIVE,
    CERTIFY,
    PREDICT,
    Classify,
    Command,
    CountVotes,
    Decide,
    Open,
    OpenIn,
    Restore,
)
from layers import conv, network, scores_of, twice
from random_networks import random_network
from test_votes import GOLDEN, golden_base

import intrs
from intrs import zoo
from intrs.adaptive import stages_of
from intrs.certificate import Certifier
from intrs.data import open_data
from intrs.exchange.device import Decisions, build
from intrs.exchange.device.decisions import Certifying, Predicting, Stopping
from intrs.network import Rescale
from intrs.noise import Noise
from intrs.smooth import Smooth
from intrs.votes import SELECTION, Samples, content_index, count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from intrs.network import Network

SEED = 2**255 + 977
OK = 0
BAD_ARGUMENT, BAD_MAGIC, BAD_FORMAT, TRUNCATED, BAD_HASH, BAD_NETWORK, MISALIGNED, ARENA_TOO_SMALL = range(-1, -9, -1)
TOO_MANY_CLASSES, NO_TABLE, BAD_COUNT, BAD_IMAGE, BAD_RUN, NOT_OVER = range(-9, -15, -1)
MOST_CLASSES = 64  # of the driver: what device/intrs_config.h has
RUN_WORDS = 20 + MOST_CLASSES

SHIPPED = [  # models with noises that are theirs, and that are not
    ("resnet8-sigma0.25", "discrete", "0.25"),
    ("resnet8-sigma0.25", "rounded", "0.5"),
    ("resnet20-sigma0.12", "rounded", "0.12"),
    ("resnet20-sigma0.5", "discrete", "1"),
]

Line = list[int | None]  # how a line of the driver begins; None stands for any number


@dataclass(frozen=True)
class Case:
    """Commands, and how the line of each begins."""

    name: str
    commands: list[Command]
    expected: list[Line]


def begins(line: Sequence[int], expected: Line) -> bool:
    """Whether a line of the driver begins so."""
    pairs = zip(line, expected, strict=False)
    return len(line) >= len(expected) and all(wanted in (None, found) for found, wanted in pairs)


def check(case: Case, lines: Sequence[Sequence[int]]) -> None:
    """Raise AssertionError unless these are the answers."""
    assert len(lines) == len(case.expected), case.name
    for i, (line, expected) in enumerate(zip(lines, case.expected, strict=True)):
        assert begins(line, expected), (case.name, i, list(line), expected)


# --- votes -----------------------------------------------------------------------------------------------------------


def voted(counts: Sequence[int]) -> Line:
    """The line of a count of votes."""
    return [OK, 0, None, max(counts), sum(counts), 0, *counts]


def random_bases(first: int, number: int) -> Iterator[tuple[Network, Any]]:
    """Networks of these seeds, with an image each."""
    for seed in range(first, first + number):
        rng = np.random.default_rng(seed)
        made = random_network(rng)
        yield made, rng.integers(0, 256, made.input_shape).astype(np.uint8)


def random_cases(first: int, number: int) -> Iterator[Case]:
    """Random networks: scores without noise and votes under it."""
    for i, (base, pixels) in enumerate(random_bases(first, number), first):
        yield scored_case(f"random network {i}", base, pixels)


def scored_case(name: str, base: Network, pixels: Any, tiles: int = 0) -> Case:
    """Scores without noise and votes under it."""
    noise = Noise.discrete("0.25")
    made = build(base, Decisions(noise), tiles)
    scores = base.scores(pixels[None].astype(np.int32))[0].tolist()
    counts = count(base, pixels, noise, Samples(SEED, 7, SELECTION + 3, 2), threads=1).counts
    return Case(
        name,
        [Open(made.data), Classify(pixels), CountVotes(pixels, SEED, 7, SELECTION + 3, 2)],
        [[OK, made.plan.size], [OK, int(np.argmax(scores)), *scores], voted(counts)],
    )


ALL_TILES = 10**6  # however many channels there are


def tiled_bases(first: int, number: int) -> Iterator[tuple[Network, Any]]:
    """Networks of these seeds that begin with a layer that tiles can compute, with an image each."""
    for seed in range(first, first + number):
        rng = np.random.default_rng(seed)
        base = tiled_network(rng)
        yield base, rng.integers(0, 256, base.input_shape).astype(np.uint8)


def tiled_cases(first: int, number: int) -> Iterator[Case]:
    """The same, by tiles and without them."""
    for i, (base, pixels) in enumerate(tiled_bases(first, number), first):
        yield scored_case(f"tiles {i}", base, pixels, ALL_TILES)
        yield scored_case(f"without tiles {i}", base, pixels)


def tiled_network(rng: np.random.Generator) -> Network:
    """A 3 x 3 layer that tiles can compute, and one that scores what comes out."""
    channels, outputs = 4 * int(rng.integers(1, 9)), 2 * int(rng.integers(1, 5))
    top, left = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    height, width = 2 * int(rng.integers(1, 4)), 4 * int(rng.integers(1, 3))
    bottom = int(rng.integers(max(0, 2 - height - top), 3 - min(top, 2)))
    bottom, right = max(bottom, 0), int(rng.integers(0, 3 - min(left, 2)))
    source = height + 2 - top - bottom, width + 2 - left - right
    layer = conv(
        0,
        rng.integers(-128, 128, (outputs, 3, 3, channels)),
        pad=(top, bottom, left, right),
        bias=rng.integers(-30_000, 30_000, outputs).astype(np.int32),
        input_zero_point=int(rng.integers(-128, 128)),
        output_zero_point=int(rng.integers(-128, 128)),
        rescale=Rescale(
            rng.integers(2**30, 2**31, outputs).astype(np.int32), rng.integers(36, 42, outputs).astype(np.int8)
        ),
        clamp=(-128, 127) if rng.random() < 0.6 else (-100, int(rng.integers(-90, 128))),
    )
    layers = (
        twice(layer) if rng.random() < 0.3 else layer,
        scores_of(1, (height, width, outputs), seed=int(rng.integers(100))),
    )
    return network(*layers, height=source[0], width=source[1], channels=channels)


def golden_cases(most: int | None = None) -> Iterator[Case]:
    """The golden votes; with `most`, the votes of so many samples of each entry, as this machine counts them."""
    for entry in json.loads(GOLDEN.read_text()):
        base, pixels = golden_base(entry["network"])[:2]
        noise, samples = Noise.of(entry["noise"], entry["sigma"]), min(entry["count"], most or entry["count"])
        where = int(entry["seed"]), entry["image"], entry["first"], samples
        whole = samples == entry["count"]
        counts = entry["counts"] if whole else count(base, pixels, noise, Samples(*where), threads=1).counts
        made = build(base, Decisions(noise))
        name = f"golden: {entry['network']} {entry['noise']} {entry['sigma']}"
        yield Case(name, [Open(made.data), CountVotes(pixels, *where)], [[OK, made.plan.size], voted(counts)])


# --- decisions -------------------------------------------------------------------------------------------------------


def answered(found: Any) -> Line:
    """The line of a run with this answer of the library."""
    if not getattr(found, "certified", True):
        return [OK, 0, None, found.votes, found.n]
    return [OK, 1, found.label, found.votes, found.n, getattr(found, "radius_sq", 0)]


def shipped_case(model: str, law: Any, sigma: str, *, n: int, n0: int, step: int, image: int = 5) -> Case:
    """Votes, predictions and squared radii, with a fixed number of samples and adaptively; saved every few samples."""
    pixels = open_data(zoo.data_names()[0]).images[image]
    base, noise, radii, alpha = intrs.load(model), Noise.of(law, sigma), ["0.05", "0.1"], "0.05"
    made = build(base, decisions(noise, pixels.size, n=n, n0=n0, radii=radii, alpha=alpha))
    smooth, index = Smooth(base, noise, seed=SEED, threads=1), content_index(pixels)
    counts = smooth.sample(pixels, smooth.samples(index, SELECTION, n0)).counts
    settings: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha}
    return Case(
        f"{model} {law} {sigma}",
        [
            Open(made.data),
            CountVotes(pixels, SEED, index, SELECTION, n0),
            *(Decide(pixels, SEED, index, mode, step) for mode in (PREDICT, CERTIFY, ADAPTIVE)),
        ],
        [
            [OK, made.plan.size],
            voted(counts),
            answered(smooth.predict(pixels, n=n, alpha=alpha)),
            answered(smooth.certify(pixels, **settings)),
            answered(smooth.certify(pixels, radii=radii, **settings)),
        ],
    )


def decisions(noise: Noise, size: int, *, n: int, n0: int, radii: list[str], alpha: str) -> Decisions:
    """The tables of every mode."""
    certifier = Certifier(noise, size, n, alpha)
    rule: Any = stages_of(certifier, radii).rules(certifier)[-1]
    level = Fraction(alpha) - noise.tau(n, size)
    return Decisions(
        noise, Predicting(n, level), Certifying(n0, certifier, certifier.table()), Stopping(n0, rule)
    )  # fmt: skip


# --- bad input -------------------------------------------------------------------------------------------------------


def tiny() -> Network:
    """Three classes of 2 x 2 pixels."""
    weights = np.arange(-6, 6).reshape(3, 2, 2, 1)
    return network(conv(0, weights, pad=(0, 0, 0, 0)), height=2, width=2, channels=1)


def decided(n: int = 40) -> Decisions:
    """Tables of every mode, small."""
    return decisions(Noise.discrete("0.25"), 4, n=n, n0=3, radii=["0.05"], alpha="0.05")


def sealed(data: bytes) -> bytes:
    """The same bytes with a digest that fits them."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def changed(data: bytes, at: int, value: bytes) -> bytes:
    """Bytes with others in their midst."""
    return data[:at] + value + data[at + len(value) :]


def damaged_constants() -> Case:
    """Constants that are truncated, of another kind or version, damaged, or that contradict themselves."""
    data = build(tiny(), decided()).data
    wide = network(conv(0, np.zeros((65, 2, 2, 1)), pad=(0, 0, 0, 0)), height=2, width=2, channels=1)
    cases = [
        (data, OK),
        (b"", TRUNCATED),
        (data[:50], TRUNCATED),
        (data[:-4], TRUNCATED),
        (data + b"more", OK),
        (changed(data, 0, b"X"), BAD_MAGIC),
        (changed(data, 8, b"\x02"), BAD_FORMAT),
        (changed(data, 12, b"\0\0\0\0"), BAD_NETWORK),
        (changed(data, 200, bytes([data[200] ^ 1])), BAD_HASH),
        (data[:-1] + bytes([data[-1] ^ 1]), BAD_HASH),
        (sealed(changed(data, 13 * 4, b"\xff\xff\xff\x7f")), BAD_NETWORK),
        (build(wide).data, TOO_MANY_CLASSES),
    ]
    return Case("damaged constants", [Open(case) for case, _ in cases], [[status] for _, status in cases])


def wrong_memory() -> Case:
    """Arenas that are too small or misaligned, and constants that are misaligned."""
    made = build(tiny(), decided())
    size = made.plan.size
    cases = [
        (OpenIn(made.data, size), OK),
        (OpenIn(made.data, size + 100), OK),
        (OpenIn(made.data, size - 1), ARENA_TOO_SMALL),
        (OpenIn(made.data, 0), ARENA_TOO_SMALL),
        *((OpenIn(made.data, size, arena_shift=shift), MISALIGNED) for shift in (1, 2, 3)),
        *((OpenIn(made.data, size, data_shift=shift), MISALIGNED) for shift in (1, 2, 3)),
        (OpenIn(made.data, size, arena_shift=4, data_shift=4), OK),
    ]
    return Case("wrong memory", [command for command, _ in cases], [[status] for _, status in cases])


def wrong_calls() -> Case:
    """No samples, samples that have no address, images of the wrong size, modes that there are not."""
    pixels = np.zeros((2, 2, 1), np.uint8)
    cases: list[tuple[Command, int]] = [
        (Open(build(tiny(), decided()).data), OK),
        (CountVotes(pixels, SEED, 0, 0, 0), BAD_COUNT),
        (CountVotes(pixels, SEED, 0, SELECTION - 1, 2), BAD_COUNT),
        (CountVotes(pixels, SEED, 0, 2**64 - 1, 2), BAD_COUNT),
        (CountVotes(pixels, SEED, 0, 2**64 - 1, 1), OK),
        (CountVotes(pixels[:1], SEED, 0, 0, 1), BAD_IMAGE),
        (CountVotes(pixels, SEED, 0, 0, 1, step=0), BAD_COUNT),
        (Classify(pixels[:1]), BAD_IMAGE),
        (Decide(pixels, SEED, 0, 9), BAD_ARGUMENT),
        (Open(build(tiny()).data), OK),
        (Classify(pixels), OK),
        (CountVotes(pixels, SEED, 0, 0, 1), NO_TABLE),
        (Decide(pixels, SEED, 0, PREDICT), NO_TABLE),
    ]
    return Case("wrong calls", [command for command, _ in cases], [[status] for _, status in cases])


def saved(data: bytes, words: dict[int, int]) -> bytes:
    """A saved run of the votes of 7 samples from the first on, none taken, of the network with these constants.

    `words` changes some of its words: magic 0, mode 1, network 2, first sample 12 and 13, end 14, done 15,
    selecting 16, label 17, look 18, over 19, then the counts.
    """
    run = [0] * RUN_WORDS
    run[0], run[2], run[14] = 0x4E555249, int.from_bytes(data[-32:-28], "little"), 7
    run[4:12] = np.frombuffer(SEED.to_bytes(32, "little"), "<u4").tolist()
    for at, value in words.items():
        run[at] = value
    body = np.array(run, "<u4").tobytes()
    return body + hashlib.sha256(body).digest()


def saved_runs() -> Case:
    """Runs that come back from bytes: as they were, damaged, another network's, or in a state that none reaches."""
    base, pixels = tiny(), np.full((2, 2, 1), 90, np.uint8)
    made = build(base, decided())
    noise = Noise.discrete("0.25")
    counts = count(base, pixels, noise, Samples(SEED, 0, 0, 7), threads=1).counts
    good = saved(made.data, {})
    states: list[dict[int, int]] = [
        {0: 0}, {1: 4}, {2: 1}, {14: 0}, {15: 3}, {15: 8, 20: 8}, {16: 1}, {16: 2}, {17: 3}, {19: 1}, {20: 2**32 - 1},
        {1: ADAPTIVE, 18: 2**31}, {1: ADAPTIVE, 14: 1}, {1: CERTIFY, 14: 41}, {1: PREDICT, 16: 1},
        {1: PREDICT, 14: 40, 12: 1}, {1: CERTIFY, 14: 3, 16: 1},
        {12: 2**32 - 3, 13: 2**31 - 1}, {12: 2**32 - 3, 13: 2**32 - 1},
    ]  # fmt: skip
    cases: list[tuple[Command, Line]] = [
        (Open(made.data), [OK, made.plan.size]),
        (Restore(good, pixels, 2), voted(counts)),
        (Restore(good[:-1], pixels, 2), [TRUNCATED]),
        (Restore(b"", pixels, 2), [TRUNCATED]),
        (Restore(changed(good, 60, b"\x01"), pixels, 2), [BAD_HASH]),
        (Restore(good, pixels[:1], 2), [BAD_IMAGE]),
        (Restore(good, pixels, 0), [BAD_COUNT]),
    ]
    cases += [(Restore(saved(made.data, words), pixels, 2), [BAD_RUN]) for words in states]
    return Case("saved runs", [command for command, _ in cases], [line for _, line in cases])


BAD_INPUT = (damaged_constants, wrong_memory, wrong_calls, saved_runs)
