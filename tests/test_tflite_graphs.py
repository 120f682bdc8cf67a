"""Random TFLite graphs: the loaded network equals the reference kernels of its dialect in every tensor, all bits."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from random_tflite import ENDS, KINDS, UNSIGNED_KINDS, RandomGraph, need_oracles, random_graph, tensors_of

from intrs._core import kernel_names
from intrs.exchange import builder
from intrs.exchange.convention import Convention
from intrs.exchange.refusal import Refusal
from intrs.exchange.tflite.file import parse_graph
from intrs.exchange.tflite.read import lower
from intrs.exchange.tflite.writing import Graph, Scale

if TYPE_CHECKING:
    from intrs.network import Network

need_oracles()

DIALECTS = ("tflm", "litert")
GRAPHS = 340  # of int8, each in both dialects
UNSIGNED = 60  # of uint8, which TFLite Micro has no kernels for
BATCHES = 10  # tests among which they are divided


def lowered(data: bytes, dialect: str) -> Network:
    return lower(parse_graph(data), Convention(dialect=dialect))[0]


def refusal_of(data: bytes, dialect: str) -> str:
    """Why a file is refused; empty if it is not."""
    try:
        lowered(data, dialect)
    except Refusal as refusal:
        return str(refusal)
    return ""


def compare(graph: RandomGraph, network: Network, image: Any, dialect: str, kernels: str) -> set[str]:
    """The tensors of the reference kernels that the network has too, by name; all must be equal, the scores among them.

    Where a layer and a clamp behind it write one tensor of the file both have its name: the last of a name counts.
    """
    codes, *traced = network.trace(image, kernels)
    shift = 128 if graph.unsigned else 0
    theirs = tensors_of(graph, (codes + shift).astype(np.uint8 if graph.unsigned else np.int8)[None], dialect)
    ours = {layer.name: values for layer, values in zip(network.layers, traced, strict=True)}
    for name in ours.keys() & theirs.keys():
        expected = theirs[name].astype(np.int32).ravel() - shift
        assert np.array_equal(ours[name].ravel(), expected), f"{name} of {graph.operators}"
    assert np.array_equal(traced[-1].ravel(), theirs[graph.names[-1]].astype(np.int32).ravel() - shift)
    return ours.keys() & theirs.keys()


def check(graph: RandomGraph, dialect: str, number: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every tensor of the network before it is tidied, and the scores of the tidy one, on all kernel sets in turn."""
    tidy = lowered(graph.data, dialect)
    with monkeypatch.context() as patch:
        patch.setattr(builder, "tidy", builder._needed)
        plain = lowered(graph.data, dialect)
    image = np.random.default_rng(number).integers(-40, 300, tidy.input_shape)
    names = kernel_names()
    found = compare(graph, plain, image, dialect, names[number % len(names)])
    expected = plain.scores(image[None], "scalar")
    assert np.array_equal(tidy.scores(image[None], names[(number + 1) % len(names)]), expected)
    return len(found)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_graphs_equal_the_reference_kernels(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = refused = 0
    for number in range(batch, GRAPHS, BATCHES):
        graph = random_graph(np.random.default_rng([9, number]), tuple(KINDS)[number % len(KINDS)])
        for dialect in DIALECTS:
            if reason := refusal_of(graph.data, dialect):
                assert "joins along axis" in reason  # what docs/tflite.md says is refused
                refused += 1
            else:
                compared += check(graph, dialect, number, monkeypatch)
    assert compared > 5 * GRAPHS // BATCHES
    assert refused < GRAPHS // BATCHES // 2


def test_random_graphs_of_uint8_equal_the_reference_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for number in range(UNSIGNED):
        kind = UNSIGNED_KINDS[number % len(UNSIGNED_KINDS)]
        graph = random_graph(np.random.default_rng([9, number]), kind, unsigned=True)
        compared += check(graph, "litert", number, monkeypatch)
    assert compared > 3 * UNSIGNED


def test_the_random_graphs_hold_every_operator() -> None:
    found: set[str] = set()
    for number in range(GRAPHS):
        kind = tuple(KINDS)[number % len(KINDS)]
        found.update(random_graph(np.random.default_rng([9, number]), kind).operators)
    assert found >= {*KINDS, *ENDS}


@pytest.mark.parametrize(("unsigned", "dialect"), [(False, "tflm"), (False, "litert"), (True, "litert")])
def test_fully_connected_multiplies_its_scales_in_double_precision(unsigned: bool, dialect: str) -> None:
    """Accumulators between the ties of scales multiplied as float32 and as float64 tell which of the two it was."""
    rng, compared = np.random.default_rng(3), 0
    for _ in range(30):
        graph = between_ties(rng, unsigned)
        if reason := refusal_of(graph.data, dialect):
            assert "no integer multiplier" in reason  # few fit LiteRT's rounding of so small a factor
            continue
        network = lowered(graph.data, dialect)
        compare(graph, network, np.zeros(network.input_shape, np.int32), dialect, "scalar")
        compared += 1
    assert compared > 2


def between_ties(rng: np.random.Generator, unsigned: bool) -> RandomGraph:
    """FULLY_CONNECTED whose results are its bias: multiplied by either product, they round to different codes."""
    kind, zero = ("u1", 128) if unsigned else ("i1", 0)
    x, w = (np.float32(rng.uniform(0.5, 1)) for _ in range(2))
    y = np.float32(rng.uniform(0.5, 1) * 2**21)
    exact, rounded = Fraction(float(x)) * Fraction(float(w)), Fraction(float(x * w))
    target = Fraction(float(y))
    ties = [Fraction(2 * code + 1, 2) * target for code in range(-99, 100)]
    bias = [round((tie / exact + tie / rounded) / 2) for tie in ties]
    graph = Graph()
    image = graph.tensor((1, 1, 1, 1), kind, Scale((float(x),), (zero,)))
    weights = graph.constant(np.full((len(bias), 1), zero), kind, Scale((float(w),), (zero,)))
    added = graph.constant(bias, "i4", Scale((float(x * w),), (0,)))
    scores = graph.tensor((1, len(bias)), kind, Scale((float(y),), (zero,)), "scores")
    graph.operator("FULLY_CONNECTED", [image, weights, added], [scores])
    data = graph.to_bytes([image], [scores])
    return RandomGraph(data, data, ("scores",), ("FULLY_CONNECTED",), unsigned)


def test_a_scale_that_is_next_to_nothing_is_refused() -> None:
    graph = Graph()
    image = graph.tensor((1, 1, 1, 2), "i1", Scale((1.0,), (0,)))
    weights = graph.constant(np.ones((2, 1, 1, 2)), "i1", Scale((1.0,), (0,)))
    scores = graph.tensor((1, 1, 1, 2), "i1", Scale((1e-45,), (0,)))
    bias = graph.constant([0, 0], "i4", Scale((1.0,), (0,)))
    window = {"padding": 1, "stride_h": 1, "stride_w": 1, "fused_activation_function": 3}
    graph.operator("CONV_2D", [image, weights, bias], [scores], **window)
    with pytest.raises(Refusal, match=r"has the scale 1.4.*e-45 or a zero point"):
        lowered(graph.to_bytes([image], [scores]), "tflm")


def test_a_concatenation_of_nothing_is_refused() -> None:
    graph = Graph()
    image, scores = (graph.tensor((1, 1, 1, 2), "i1", Scale((1.0,), (0,))) for _ in range(2))
    graph.operator("CONCATENATION", [], [scores], axis=3)
    with pytest.raises(Refusal, match="it joins nothing"):
        lowered(graph.to_bytes([image], [scores]), "tflm")


def test_an_exponential_beyond_float32_saturates() -> None:
    graph = Graph()
    image = graph.tensor((1, 1, 1, 4), "i1", Scale((1.0,), (0,)))
    power = graph.tensor((1, 1, 1, 4), "i1", Scale((0.5,), (-128,)), "power")
    graph.operator("EXP", [image], [power])
    data = graph.to_bytes([image], [power])
    found = RandomGraph(data, data, ("power",), ("EXP",), False)
    compare(found, lowered(data, "litert"), np.array([[[-10, 1, 100, 300]]]), "litert", "scalar")


def test_fuzzed_files_give_a_network_or_a_model_error(tmp_path: Path) -> None:
    """A short run of tests/fuzz_tflite.py, in a process of its own with a limit on memory."""
    script = Path(__file__).parent / "fuzz_tflite.py"
    argv = [sys.executable, str(script), "--count", "400", "--seconds", "60", "--keep", str(tmp_path / "bad")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'loaded'" in done.stdout
    assert "'refused'" in done.stdout
