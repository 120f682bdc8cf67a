"""The C99 runtime for devices: compiled here as a device would compile it, it must give the desktop's bits."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from device_cases import (
    ALL_TILES,
    BAD_HASH,
    BAD_INPUT,
    BAD_NETWORK,
    BAD_RUN,
    OK,
    SHIPPED,
    TRUNCATED,
    Case,
    check,
    golden_cases,
    random_bases,
    random_cases,
    shipped_case,
    tiled_bases,
    tiled_cases,
    tiny,
)
from device_driver import (
    INCLUDES,
    ROOT,
    RUNTIME,
    SANITIZERS,
    WARNINGS,
    Driver,
    Open,
)
from fuzz_device import bases_of, changed, run_batch
from layers import conv, network, scores_of
from test_votes import golden_base

import intrs
from intrs.adaptive import stages_of
from intrs.certificate import Certifier, least_wins_table
from intrs.errors import ResultsError, SettingsError
from intrs.exchange.device import Decisions, build, folder, sizes
from intrs.exchange.device.convs import DIRECT, LARGEST_SUM, PAIRS, TILES, can_tile, largest_sum, methods_of
from intrs.exchange.device.decisions import MOST_SAMPLES, Certifying, Predicting, Stopping, compressed
from intrs.exchange.device.memory import plan_memory
from intrs.exchange.device.settings import decisions_of
from intrs.exchange.device.sizes import deepest, parse_bytes
from intrs.exchange.device.words import ConstantBlock
from intrs.network import KINDS
from intrs.noise import Noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STANDARDS = ("-std=c99", "-std=c11", "-xc++ -std=c++17")
RANDOM_NETWORKS = 220
KERNELS = (0, 1)  # portable, and that of the DSP extension with C in place of its instructions


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """With sanitizers: slow, and nothing stays hidden."""
    return Driver.build(tmp_path_factory.mktemp("driver"), COMPILERS[0], *SANITIZERS)


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """The loops for the DSP extension, with sanitizers."""
    return Driver.build(tmp_path_factory.mktemp("paired"), COMPILERS[0], *SANITIZERS, "-DINTRS_KERNELS=1")


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver.build(tmp_path_factory.mktemp("fast"), COMPILERS[-1], "-O3")


# --- it compiles everywhere ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standard", STANDARDS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_compiler_warns(compiler: str, standard: str) -> None:
    files = [str(path) for path in (*RUNTIME, ROOT / "device/boards/host.c", ROOT / "tests/device/driver.c")]
    options = [*standard.split(), "-O2", *WARNINGS, *INCLUDES, f"-I{ROOT / 'device/boards'}", "-fsyntax-only"]
    subprocess.run([compiler, *options, *files], check=True)


def test_the_runtime_asks_for_nothing_but_memory_functions(tmp_path: Path) -> None:
    """No malloc, no float helper, no global that can be written: what the object files need, and what they hold."""
    command = ["gcc", "-std=c99", "-O2", "-fno-stack-protector", *INCLUDES, "-c", *map(str, RUNTIME)]
    subprocess.run(command, cwd=tmp_path, check=True)
    objects = sorted(map(str, tmp_path.glob("*.o")))
    assert len(objects) == len(RUNTIME)
    lines = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split()[-2:] for line in lines if len(line.split()) >= 2]
    defined = {name for kind, name in symbols if kind in "Tt"}
    assert {name for kind, name in symbols if kind == "U"} - defined <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
    assert not [name for kind, name in symbols if kind in "DdBbC"]
    for path in RUNTIME:
        assert not any(word in path.read_text().split() for word in ("float", "double", "malloc")), path.name


# --- the same bits ---------------------------------------------------------------------------------------------------


def test_golden_votes(fast: Driver) -> None:
    for case in golden_cases():
        check(case, fast.run(case.commands))


@pytest.mark.parametrize("loops", ["driver", "paired"])
def test_random_networks_of_every_kind(loops: str, request: pytest.FixtureRequest) -> None:
    """Scores without noise and votes under it; every kind occurs often."""
    run_all(request.getfixturevalue(loops), random_cases(0, RANDOM_NETWORKS))
    kinds = Counter(kind for base, _ in random_bases(0, RANDOM_NETWORKS) for kind in {x.KIND for x in base.layers})
    assert all(kinds[kind] >= 20 for kind in KINDS), kinds


def run_all(driver: Driver, made: Iterable[Case]) -> None:
    """All cases in one run of the driver."""
    cases = list(made)
    lines = iter(driver.run([command for case in cases for command in case.commands]))
    for case in cases:
        check(case, [next(lines) for _ in case.commands])


@pytest.mark.parametrize("loops", ["driver", "paired"])
def test_tiles(loops: str, request: pytest.FixtureRequest) -> None:
    """F(2 x 2, 3 x 3) on random layers, with every padding, zero point, clamp and rounding."""
    assert all(methods_of(base, ALL_TILES)[0] == TILES for base, _ in tiled_bases(0, 60))
    run_all(request.getfixturevalue(loops), tiled_cases(0, 60))


def test_tiles_only_where_they_are_exact() -> None:
    """Not beyond 2^29, where four times the sum would not fit 32 bits, and not for other kernels."""
    small = conv(0, np.full((2, 3, 3, 4), 127), pad=(1, 1, 1, 1))
    assert can_tile(small, (4, 4, 2))
    most = LARGEST_SUM - largest_sum(small)
    assert can_tile(replace(small, bias=np.array([most, -most], np.int32)), (4, 4, 2))
    assert not can_tile(replace(small, bias=np.array([0, most + 1], np.int32)), (4, 4, 2))
    assert not can_tile(replace(small, stride=(2, 1)), (4, 4, 2))
    assert not can_tile(replace(small, dilation=(1, 2)), (4, 4, 2))
    assert not can_tile(conv(0, np.zeros((2, 3, 3, 6))), (4, 4, 2))
    assert not can_tile(small, (3, 4, 2))
    assert not can_tile(small, (4, 6, 2))


def test_layers_that_write_over_their_input_are_among_them() -> None:
    """Otherwise the test above would say nothing about the memory plan."""
    shared = 0
    for base, _ in random_bases(0, 60):
        plan, shapes = plan_memory(base), base.shapes
        for step, layer in enumerate(base.layers, 1):
            out = range(plan.tensors[step], plan.tensors[step] + int(np.prod(shapes[step])))
            for i in set(layer.inputs):
                read = range(plan.tensors[i], plan.tensors[i] + int(np.prod(shapes[i])))
                shared += max(out.start, read.start) < min(out.stop, read.stop)
    assert shared > 40


@pytest.mark.parametrize(("model", "law", "sigma"), SHIPPED)
def test_shipped_networks(model: str, law: Any, sigma: str, fast: Driver) -> None:
    """Votes, predictions and squared radii, with a fixed number of samples and adaptively."""
    case = shipped_case(model, law, sigma, n=60, n0=9, step=7)
    check(case, fast.run(case.commands))


# --- every entry of the tables ---------------------------------------------------------------------------------------

TABLES = r"""
#include <stdio.h>
#include <stdlib.h>
#include "intrs_data.h"
static uint32_t words[1 << 18];
int main(int count, char** names) {
  const uint8_t* data = (const uint8_t*)words;
  uint32_t i, k, n, radius;
  FILE* file = count == 3 ? fopen(names[1], "rb") : 0;
  if (!file || !fread(words, 1, sizeof words, file) || intrs_check(data) != INTRS_OK) return 1;
  n = (uint32_t)atoi(names[2]);
  for (i = 0; i <= n; ++i) {
    radius = 0;
    if (intrs_header_of(data)->certify_at) {
      const int certified = intrs_certified(data, i, &radius);
      printf("%d %u ", certified, (unsigned)radius);
    }
    if (intrs_header_of(data)->predict_at) {
      for (k = 0; k <= i && i + k <= n; ++k) putchar(intrs_predict_passes(data, i, k) ? '1' : '0');
    }
    if (intrs_header_of(data)->adaptive_at) {
      const intrs_adaptive* rule = (const intrs_adaptive*)(const void*)(data + intrs_header_of(data)->adaptive_at);
      for (k = 0; k < rule->looks; ++k) {
        if (i > intrs_words(data, rule->looks_at)[k]) continue;
        radius = 0;
        printf("%u %d ", (unsigned)k, intrs_adaptive_stops(data, k, i));
        printf("%d ", intrs_adaptive_certified(data, k, i, &radius));
        printf("%u ", (unsigned)radius);
      }
    }
    putchar('\n');
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def look_up(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Decisions, int], list[str]]:
    """What the device makes of 0 .. n votes, a line each."""
    place = tmp_path_factory.mktemp("tables")
    (place / "tables.c").write_text(TABLES)
    command = ["gcc", "-std=c99", "-O1", *INCLUDES, *SANITIZERS, str(place / "tables.c"), *map(str, RUNTIME)]
    subprocess.run([*command, "-o", str(place / "tables")], check=True)

    def run(decisions: Decisions, n: int) -> list[str]:
        (place / "net").write_bytes(build(tiny(), decisions).data)
        done = subprocess.run(
            [str(place / "tables"), str(place / "net"), str(n)], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize(("n", "sigma"), [(1000, "0.25"), (4000, "0.5"), (13, "1")])
def test_every_squared_radius(n: int, sigma: str, look_up: Any) -> None:
    certifier = Certifier(Noise.discrete(sigma), 3072, n, "0.01")
    table = certifier.table()
    found = look_up(Decisions(certifier.noise, certify=Certifying(1, certifier, table)), n)
    expected = [table.radius_sq(votes) for votes in range(n + 1)]
    assert [line.split() for line in found] == [["0", "0"] if r is None else ["1", str(r)] for r in expected]


def test_the_table_of_radii_is_small() -> None:
    """A hundred thousand votes within twelve kilobytes: the shape of the paper's table, without computing it."""
    votes = np.arange(50_500, 100_001) / 100_000
    curve = np.sqrt(-2 * np.log(1 - votes + 5e-5))  # grows as the true one does
    values = (4096 * (curve - curve[0]) ** 2).astype(np.int64)
    bits, blocks, residuals = compressed(values)
    assert 16 * len(blocks) + 4 * len(residuals) < 12_000
    assert len(blocks) << bits >= len(values)


def test_is_the_radius_at_least(look_up: Any) -> None:
    certifier = Certifier(Noise.discrete("0.25"), 3072, 500, "0.001")
    asked = Certifying(1, certifier, at_least=Fraction(1, 4))
    wanted = -((-((255) ** 2)) // 16)
    for votes, line in enumerate(look_up(Decisions(certifier.noise, certify=asked), 500)):
        assert line.split()[0] == str(int((certifier.radius_sq(votes) or -1) >= wanted))


def test_every_prediction(look_up: Any) -> None:
    n, level = 300, Fraction("0.001")
    least = least_wins_table(n, level)
    found = look_up(Decisions(Noise.discrete("0.25"), Predicting(n, level)), n)
    for a, line in enumerate(found):
        expected = ["1" if a > b and a >= least[a + b] else "0" for b in range(min(a, n - a) + 1)]
        assert line == "".join(expected), a


@pytest.mark.parametrize("radii", [(), ("0.3",), ("0", "0.25", "9")])
def test_every_look(radii: tuple[str, ...], look_up: Any) -> None:
    certifier = Certifier(Noise.rounded("0.25"), 3072, 3000, "0.01")
    rule = stages_of(certifier, radii).rules(certifier)[-1]
    found = look_up(Decisions(certifier.noise, adaptive=Stopping(1, rule)), 3000)  # type: ignore[arg-type]
    looks = rule.schedule.looks
    for votes, line in enumerate(found):
        numbers = list(map(int, line.split()))
        for look, stops, certified, radius in grouped(numbers):
            expected = rule.radius_sq(look, votes, 0)
            assert bool(stops) == (look + 1 == len(looks) or rule.stops(look, votes, 0)), (look, votes)
            assert (certified, radius) == ((0, 0) if expected is None else (1, expected)), (look, votes)


def grouped(numbers: list[int]) -> Iterator[tuple[int, int, int, int]]:
    for i in range(0, len(numbers), 4):
        yield numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", BAD_INPUT)
def test_bad_input_is_refused(made: Callable[[], Case], driver: Driver) -> None:
    case = made()
    check(case, driver.run(case.commands))


def test_no_constants_and_no_saved_run_lead_astray(driver: Driver) -> None:
    """Changed, most with a digest that fits: refused, or run without a step outside memory or undefined operation."""
    outcomes = run_batch(driver, changed(bases_of(500, 45), 1600, np.random.default_rng(11)))
    assert {OK, TRUNCATED, BAD_HASH, BAD_NETWORK, BAD_RUN} <= set(outcomes)


PRIMITIVES = r"""
#include <stdio.h>
#include <string.h>
#include "intrs_kernels.h"

static int failures;
static void check(int holds, const char* what) {
  if (!holds) {
    printf("%s\n", what);
    ++failures;
  }
}

/* A generator that needs no library; every failure can be repeated. */
static uint32_t next(uint32_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  return *state ^= *state << 5;
}

static void check_rescale(void) {
  uint32_t state = 1, i;
  int shift;
  for (shift = 33; shift <= 62; ++shift) {
    for (i = 0; i < 300000; ++i) {
      const int32_t value = (int32_t)next(&state) >> (next(&state) % 31);
      const int32_t multiplier = (int32_t)(next(&state) >> (1 + next(&state) % 31));
      check(intrs_rescale_high(value, multiplier, shift) == intrs_rescale(value, multiplier, shift), "rescale_high");
    }
    check(intrs_rescale_high(INT32_MIN, INT32_MAX, shift) == intrs_rescale(INT32_MIN, INT32_MAX, shift), "ends");
    check(intrs_rescale_high(INT32_MAX, INT32_MAX, shift) == intrs_rescale(INT32_MAX, INT32_MAX, shift), "ends");
  }
}

/* All 2^32 sums of a network with this scale, as the argument says; and clamping, where every sum is saturated. */
static void check_all_values(int32_t multiplier, int shift) {
  int64_t value;
  for (value = INT32_MIN; value <= INT32_MAX; value += 3) {
    const int32_t v = (int32_t)value;
    if (intrs_rescale_high(v, multiplier, shift) != intrs_rescale(v, multiplier, shift)) check(0, "all values");
  }
}

/* Every weight with every value, in each place of a word. */
static void check_sums(const intrs_sums* sums, int weight, int value) {
  check(sums->at[0] == weight * value && sums->at[1] == -weight * value, "first output");
  check(sums->at[2] == ~weight * value && sums->at[3] == -(~weight * value), "second output");
}

static void check_walk(const int8_t weights[8], const int16_t values[8], int weight, int value) {
  intrs_walk walk = {values, 1, 0, values + 8, 0, 4, 4, 0, 0, weights, 4};
  intrs_sums sums = {{0, 0, 0, 0}};
#if INTRS_PAIRS_OF_WEIGHTS
  int32_t pairs[4];
#endif
  intrs_walk_22(&walk, &sums);
  check_sums(&sums, weight, value);
#if INTRS_PAIRS_OF_WEIGHTS
  intrs_widen((int16_t*)pairs, weights, weights + 4, 4);
  memset(&sums, 0, sizeof sums);
  walk.pairs = (int16_t*)pairs;
  intrs_walk_pairs_even(&walk, &sums);
  check_sums(&sums, weight, value);
#endif
}

static void check_dot(void) {
  int weight, value, k;
  for (weight = -128; weight <= 127; ++weight) {
    for (value = -255; value <= 255; ++value) {
      for (k = 0; k < 4; ++k) {
        int8_t weights[8];
        int16_t values[8], *second = values + 4;
        memset(weights, 0, sizeof weights);
        memset(values, 0, sizeof values);
        weights[k] = (int8_t)weight;
        weights[4 + k] = (int8_t)~weight;
        values[k] = (int16_t)value;
        second[k] = (int16_t)-value;
        check_walk(weights, values, weight, value);
      }
    }
  }
}

/* RFC 8439, 2.3.2, and FIPS 180-4's message of 448 bits. */
static void check_vectors(void) {
  static const uint32_t input[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, 0x03020100, 0x07060504,
                                     0x0b0a0908, 0x0f0e0d0c, 0x13121110, 0x17161514, 0x1b1a1918, 0x1f1e1d1c,
                                     0x00000001, 0x09000000, 0x4a000000, 0x00000000};
  static const char message[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  static const uint8_t digest[4] = {0x24, 0x8d, 0x6a, 0x61};
  uint32_t output[16];
  uint8_t found[32];
  intrs_chacha20(input, output);
  check(output[0] == 0xe4e7f110 && output[15] == 0x4e3c50a2, "chacha20");
  intrs_sha256((const uint8_t*)message, 56, found);
  check(memcmp(found, digest, 4) == 0, "sha256");
}

int main(void) {
  check_rescale();
  check_all_values(1518500250, 40);
  check_dot();
  check_vectors();
  return failures != 0;
}
"""


@pytest.mark.parametrize("kernels", KERNELS)
def test_primitives_in_full(kernels: int, tmp_path: Path) -> None:
    """Products of all weights and values; RESCALE by its upper word, for a third of all sums."""
    (tmp_path / "primitives.c").write_text(PRIMITIVES)
    sources = [str(tmp_path / "primitives.c"), *(str(p) for p in RUNTIME)]
    subprocess.run(
        ["gcc", "-std=c99", "-O2", f"-DINTRS_KERNELS={kernels}", *INCLUDES, *sources, "-o", str(tmp_path / "run")],
        check=True,
    )
    done = subprocess.run([str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:500]


# --- the plan, the settings and the folder ---------------------------------------------------------------------------


def test_memory_of_the_shipped_networks() -> None:
    """The figures of docs/devices.md: the arena, and the constants without tables."""
    for name, most in (("resnet8-sigma0.25", 88_000), ("resnet20-sigma0.25", 290_000)):
        made = build(intrs.load(name))
        assert made.plan.size == 36_616
        assert len(made.data) < most


def test_a_plan_keeps_apart_what_must_be_apart() -> None:
    """Tensors that are alive at once share no byte, except an input with the output that may be written over it."""
    for base, _ in random_bases(900, 40):
        plan = plan_memory(base)
        last = {
            i: max([i, *(s for s, layer in enumerate(base.layers, 1) if i in layer.inputs)])
            for i in range(len(base.shapes))
        }
        for a in range(len(base.shapes)):
            for b in range(a + 1, len(base.shapes)):
                if last[a] <= b:  # a is read last when b is written: the driver's tests look at that
                    continue
                low, high = sorted((a, b), key=lambda i: plan.tensors[i])
                assert plan.tensors[low] + int(np.prod(base.shapes[low])) <= plan.tensors[high]
        assert plan.size >= max(p + int(np.prod(s)) for p, s in zip(plan.tensors, base.shapes, strict=True))


def test_settings_say_which_tables() -> None:
    base = tiny()
    usual = decisions_of(base, sigma="0.25", alpha="0.01", radii=["0.1"], n=300)
    assert (usual.predict, usual.certify) == (Predicting(100, Fraction("0.01") - usual.noise.tau(100, 4)), None)
    assert usual.adaptive
    assert usual.adaptive.rule.radii == (Fraction("0.1"),)
    fixed = decisions_of(base, sigma="0.25", n=50, only="certify")
    assert fixed.certify
    assert (fixed.predict, fixed.adaptive, fixed.certify.certifier.n) == (None, None, 50)
    only = decisions_of(base, sigma="0.25", only="predict", predict_n=20)
    assert (only.certify, only.adaptive) == (None, None)
    one = decisions_of(base, sigma="0.25", n=50, at_least="0.1")
    assert one.certify
    assert one.certify.table is None
    single = decisions_of(base, sigma="0.25", at_least="0.1")
    assert single.adaptive
    assert single.adaptive.only_asked


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "how much noise"),
        ({"sigma": "0.25", "only": "both"}, "only: choose from predict, certify, got 'both'"),
        ({"sigma": "0.25", "at_least": "0.5", "radii": ["1"]}, "at_least asks for one radius"),
        (
            {"sigma": "0.25", "only": "predict", "radii": ["1"], "n": 50, "give_up": "0.5"},
            "only predictions are asked for, which take no n, radii, give_up",
        ),
        ({"sigma": "0.25", "only": "certify", "predict_n": 100}, "only certificates are asked for, .* no predict_n"),
        ({"sigma": "0.25", "at_least": "0.1", "predict_n": 100}, "only certificates are asked for, .* no predict_n"),
        ({"sigma": "0.25", "n": 5, "only": "certify"}, "no number of votes certifies; raise n"),
        ({"sigma": "0.25", "n": 100, "at_least": "9"}, "certifies a radius of 9; take a larger n"),
        ({"sigma": "0.25", "at_least": "9"}, "certifies a radius of 9; raise n"),
        ({"sigma": "0.25", "predict_n": 3}, "can only abstain"),
        ({"sigma": "0.25", "n": 100, "give_up": "0.5"}, "give_up is for adaptive"),
        ({"sigma": "0.25", "noise": "continuous"}, "no masses and no table"),
        ({"sigma": "0.25", "n": 50, "n0": MOST_SAMPLES + 1}, "n0: at most 2,147,483,647 is possible"),
        ({"sigma": "0.25", "n0": 2**32 + 100, "radii": ["0.1"]}, "n0: at most 2,147,483,647 is possible"),
        ({"sigma": "0.25", "predict_n": MOST_SAMPLES + 1}, "predict_n: at most 2,147,483,647 is possible"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        decisions_of(tiny(), **settings)


def test_as_many_samples_as_a_device_counts_to(driver: Driver) -> None:
    """The largest number that settings accept is one that the runtime accepts."""
    asked = decisions_of(tiny(), sigma="0.25", n=50, n0=MOST_SAMPLES, only="certify")
    assert asked.certify is not None
    assert asked.certify.n0 == MOST_SAMPLES
    made = build(tiny(), asked)
    assert driver.run([Open(made.data)]) == [[OK, made.plan.size]]


@pytest.mark.parametrize("value", [-(2**31) - 1, 2**32, 2**32 + 100])
def test_words_hold_the_number_that_was_put(value: int) -> None:
    block = ConstantBlock(1)
    block.words([-(2**31), -1, 2**32 - 1])
    assert block.finish([7]).hex() == "0700000000000080ffffffffffffffff"
    with pytest.raises(OverflowError, match=f"{value} does not fit a word of 32 bits"):
        block.words([value])
    with pytest.raises(OverflowError, match=f"{value} does not fit a word of 32 bits"):
        block.finish([value])


@pytest.mark.parametrize(
    ("text", "size"), [("48K", 49152), ("48 KiB", 49152), ("1M", 2**20), (100, 100), ("7", 7), (None, None)]
)
def test_bytes_as_people_write_them(text: Any, size: int | None) -> None:
    assert parse_bytes(text, "ram") == size
    with pytest.raises(SettingsError, match="ram: expected a number of bytes, such as 49152 or 48K, got '3 apples'"):
        parse_bytes("3 apples", "ram")


def test_the_deepest_chain_of_calls() -> None:
    def node(name: str, size: int, kind: str = "static") -> str:
        return f'node: {{ title: "{name}" label: "{name}\\nf.c:1:1\\n{size} bytes ({kind})\\n0 dynamic objects" }}\n'

    def edge(a: str, b: str) -> str:
        return f'edge: {{ sourcename: "{a}" targetname: "{b}" label: "f.c:1:1" }}\n'

    graph = (
        node("a", 8) + node("b", 100) + node("f.c:intrs_walk_22", 56) + edge("a", "b") + edge("b", "__indirect_call")
    )
    assert deepest(graph) == 164
    assert deepest(graph + edge("b", "memcpy")) == 172
    assert deepest(graph.replace("56 bytes", "0 bytes")) == 156  # assembly: at most 48
    with pytest.raises(SettingsError, match="calls itself"):
        deepest(graph + edge("b", "a"))
    with pytest.raises(SettingsError, match="depends on its data"):
        deepest(graph + node("c", 8, "dynamic"))


def test_the_shipped_sizes_are_not_too_small() -> None:
    """What is said without a compiler for Cortex-M is what one finds."""
    if not shutil.which(sizes.COMPILER):
        pytest.skip("no compiler for Cortex-M here")
    for tiles, shipped in sizes.SHIPPED.items():
        found = folder.code_of_runtime(tiles)
        assert found.measured
        assert found.flash <= shipped.flash <= found.flash + 2000
        assert found.stack <= shipped.stack <= found.stack + 400


def test_the_folder_builds_and_checks_itself(tmp_path: Path) -> None:
    out = tmp_path / "board"
    made = intrs.export(tiny(), out, target="c", sigma="0.25", alpha="0.01", n=300, radii=["0.02"], predict_n=30)
    assert made.device
    assert {path.name for path in out.iterdir()} == {
        *("boards", "examples", "src", "zephyr"),
        *("CMakeLists.txt", "Makefile", "README.md", "library.json", "library.properties"),
    }  # fmt: skip
    done = subprocess.run(["make", "-s", "-C", str(out), "check", "CFLAGS=-O2 -Werror"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "all answers equal the desktop's" in done.stdout
    for standard in STANDARDS:
        options = [*standard.split(), *WARNINGS, f"-I{out / 'src'}", f"-I{out / 'boards'}", "-fsyntax-only"]
        subprocess.run(["gcc", *options, str(out / "src/net.c"), str(out / "examples/check/main.c")], check=True)
    assert f"#define NET_DATA_BYTES {len(made.device.constants.data)}u" in (out / "src/net.h").read_text()
    json.loads((out / "library.json").read_text())


def test_a_full_disk_is_no_fault_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime is copied and compiled in a folder for a moment; the system names what it copies from."""

    def full(source: Path, target: str) -> None:
        raise OSError(errno.EFBIG, "File too large", str(source))

    folder.code_of_runtime.cache_clear()
    monkeypatch.setattr(shutil, "copy", full)
    with pytest.raises(ResultsError, match=r"cannot write .*tmp.*: File too large"):
        folder.code_of_runtime()


def test_a_half_written_folder_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"target": "c", "sigma": "0.25", "only": "predict"}
    whole = folder.files_of

    def cut(made: folder.DeviceFolder) -> Iterator[tuple[str, str]]:
        yield next(whole(made))
        yield "\0", "no such name"

    monkeypatch.setattr(folder, "files_of", cut)
    with pytest.raises(ValueError, match="null"):
        intrs.export(tiny(), tmp_path / "net", **settings)
    monkeypatch.undo()
    intrs.export(tiny(), tmp_path / "net", **settings)
    assert (tmp_path / "net" / "src/net.h").is_file()


def test_names_of_layers_reach_no_compiler(tmp_path: Path) -> None:
    """A model file may call its layers anything; in the folder a name stays within its comment."""
    names = (
        "*/ #error one",
        '*/ extern int system(const char *); /* "',
        "three \\\n#error */",
        "??/\n*/ four",
        "*/" * 999,
    )
    layers = [conv(i, np.ones((3, 1, 1, 3)), name=name) for i, name in enumerate(names)]
    base, out = network(*layers, scores_of(len(names), (4, 4, 3), name="\x1b]0;six\x07*/")), tmp_path / "board"
    intrs.export(base, out, target="c", sigma="0.25", only="predict", predict_n=30)
    for path in (path for path in out.rglob("*") if path.is_file()):
        text = path.read_text("utf-8")
        found = [
            word
            for word in ("#error one", "system(", "three \\", "#error *", "*/ four", "\x1b", "*/*/")
            if word in text
        ]
        assert not found, path
    for standard in STANDARDS:
        options = [*standard.split(), *WARNINGS, "-trigraphs", f"-I{out / 'src'}", "-fsyntax-only"]
        subprocess.run([COMPILERS[0], *options, str(out / "src/net.c")], check=True)


def test_instructions_are_counted(tmp_path: Path) -> None:
    """The script works, and what it counts gives the desktop's votes. How many there are is the compiler's affair."""
    if not shutil.which("qemu-system-arm") or not shutil.which(sizes.COMPILER):
        pytest.skip("no compiler or no emulator for Cortex-M here")
    base, out = next(tiled_bases(0, 1))[0], tmp_path / "board"
    intrs.export(base, out, target="c", sigma="0.25", only="predict", tiles="auto")
    command = [str(ROOT / "tests/device/instructions.sh"), str(out), "cortex-m4", "cortex-m55"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {core: int(number) for core, number in (line.split() for line in done.stdout.splitlines())}
    assert found.keys() == {"cortex-m4", "cortex-m55"}
    assert min(found.values()) > 1000


def test_tiles_as_far_as_flash_allows(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"target": "c", "sigma": "0.25", "only": "predict"}
    weights = np.random.default_rng(1).integers(-9, 10, (8, 3, 3, 8))
    around: dict[str, Any] = {"pad": (1, 1, 1, 1)}
    layers = conv(0, weights[..., :4], **around), conv(1, weights, **around), scores_of(2, (4, 4, 8))
    base = network(*layers, channels=4)

    def methods(name: str, **more: Any) -> tuple[int, ...]:
        made = intrs.export(base, tmp_path / name, **settings, **more).device
        assert made
        assert f"#define INTRS_WITH_TILES {int(TILES in made.constants.methods)}" in (
            (tmp_path / name / "src/intrs_config.h").read_text()
        )
        assert ("Conv by tiles" in made.layer_table()) == (TILES in made.constants.methods)
        return made.constants.methods

    assert methods("none") == (PAIRS, PAIRS, DIRECT)
    assert methods("few", tiles=4) == (TILES, PAIRS, DIRECT)
    assert methods("all", tiles="auto") == (TILES, TILES, DIRECT)
    full = (
        len(build(base, decisions_of(base, sigma="0.25", only="predict"), 8).data) + folder.code_of_runtime(True).flash
    )
    assert methods("fitting", tiles="auto", flash=full) == (TILES, TILES, DIRECT)
    assert methods("less", tiles="auto", flash=full - 1) == (TILES, PAIRS, DIRECT)
    assert methods("least", tiles="auto", flash=full - 1500) == (PAIRS, PAIRS, DIRECT)
    with pytest.raises(SettingsError, match="tiles: expected an integer of at least 0, got 'some'"):
        methods("some", tiles="some")


def test_a_runtime_without_tiles_refuses_them(tmp_path: Path) -> None:
    bare = Driver.build(tmp_path, COMPILERS[0], "-DINTRS_WITH_TILES=0")
    base, _ = next(tiled_bases(0, 1))
    assert [answer[0] for answer in bare.run([Open(build(base).data), Open(build(base, tiles=99).data)])] == [
        OK,
        BAD_NETWORK,
    ]


def test_a_device_that_computes_otherwise_is_noticed(tmp_path: Path) -> None:
    """The self-check fails if noise has another sign in half of all cases: votes alone could stay the same."""
    out = tmp_path / "board"
    intrs.export(golden_base("made here")[0], out, target="c", sigma="0.25", only="predict")
    source = out / "src/intrs_noise.c"
    text = source.read_text()
    source.write_text(text.replace("flip ? -value : value", "flip ? value : value"))
    assert source.read_text() != text
    done = subprocess.run(["make", "-s", "-C", str(out), "check"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "error: this device computes something else than the desktop" in done.stdout


def test_what_does_not_fit_is_refused_with_what_would(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"target": "c", "sigma": "0.25", "alpha": "0.01", "n": 3000, "only": None}
    base = tiny()
    with pytest.raises(SettingsError, match=r"bytes of RAM \(arena .* and 100 are allowed"):
        intrs.export(base, tmp_path / "x", ram=100, **settings)
    wanted = {name: value for name, value in settings.items() if name != "target"}
    needed = len(build(base, decisions_of(base, **wanted)).data) + folder.code_of_runtime().flash
    with pytest.raises(SettingsError, match=r"what would fit: only predictions \(.*at_least.*without noise"):
        intrs.export(base, tmp_path / "x", flash=needed - 4, **settings)
    with pytest.raises(SettingsError, match="without any tables it needs"):
        intrs.export(base, tmp_path / "x", flash="1K", **settings)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_overwritten_unasked(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"target": "c", "sigma": "0.25", "only": "predict"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep")
    with pytest.raises(ResultsError, match="mine exists and was not written by this command"):
        intrs.export(tiny(), tmp_path / "mine", overwrite=True, **settings)
    intrs.export(tiny(), tmp_path / "net", **settings)
    with pytest.raises(ResultsError, match="exists"):
        intrs.export(tiny(), tmp_path / "net", **settings)
    intrs.export(tiny(), tmp_path / "net", overwrite=True, **settings)
    with pytest.raises(ResultsError, match="there is no folder"):
        intrs.export(tiny(), tmp_path / "no/net", **settings)
