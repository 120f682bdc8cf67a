"""Attacks: the integer ball, the differentiable twin, PGD, and the command from outside."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import layers
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from random_networks import random_images, random_network, traits
from tiny_model import CLASSES, SIDE, images, patterns, save_images, save_model

import intrs as package
from intrs import pgd, results, zoo
from intrs.cli.screen import MISTAKE
from intrs.cli.start import INTERRUPTED
from intrs.errors import IntrsError, ResultsError
from intrs.network import KINDS, CodeTable, Mul, RequantiseDouble, ScaledAdd
from intrs.noise import Noise
from intrs.pgd import joined, judging, records
from intrs.pgd.ball import NORMS, Ball
from intrs.progress import Progress
from intrs.request import Attack
from intrs.votes import Samples, count, noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable

    Intrs = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).parents[1]
NOISE = Noise.of("discrete", "0.25")
QUICK = ("--eps", "0,0.1,0.3", "--steps", "3", "--draws", "4", "--n", "200", "--seed", "7", "--threads", "1")


def room(name: str) -> Any:
    """A module that needs PyTorch. One thread: these networks are too small for more."""
    pytest.importorskip("torch").set_num_threads(1)
    return import_module(name)


# --- the ball --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "eps"),
    [*((norm, eps) for norm in NORMS for eps in ("0", "0.001", "0.01", "0.12", "1/3", "1")), ("l2", "3")],
)
def test_perturbations_lie_on_the_grid_inside_ball_and_pixel_range(norm: Any, eps: str) -> None:
    rng, ball = np.random.default_rng(3), Ball.of(norm, eps)
    for scale in (0.01, 1.0, 30.0, 1000.0):
        image = rng.integers(0, 256, (8, 8, 3), np.uint8)
        found = ball.to_grid(np.asarray(rng.normal(0, scale, image.shape)), image)
        assert found.dtype == np.int64
        assert 0 <= (image + found).min() <= (image + found).max() <= 255
        if norm == "l2":
            assert int((found**2).sum()) <= (Fraction(eps) * 255) ** 2
        else:
            assert int(np.abs(found).max()) <= Fraction(eps) * 255


def test_the_ball_is_used_up() -> None:
    """At most a few of 3072 pixels short of the limit, and in the direction that was wanted."""
    rng = np.random.default_rng(4)
    wanted, image = rng.normal(0, 1, (32, 32, 3)), np.full((32, 32, 3), 128, np.uint8)
    for eps in ("0.12", "0.25", "1"):
        ball = Ball.of("l2", eps)
        found = ball.to_grid(wanted, image)
        assert 0.99 * ball.limit < ball.size(found) <= ball.limit
        cosine = (found * wanted).sum() / np.linalg.norm(found) / np.linalg.norm(wanted)
        assert cosine > {"0.12": 0.85, "0.25": 0.95, "1": 0.99}[eps]


@pytest.mark.parametrize("radius_sq", [0, 1, 2, 3, 4, 59_031, 944_621, 10**9 + 7])
def test_the_ball_of_a_certificate(radius_sq: int) -> None:
    assert Ball.up_to(radius_sq).limit == radius_sq


def test_less_than_a_level_is_nothing() -> None:
    for norm in NORMS:
        assert Ball.of(norm, "0.0039").limit == 0
        assert Ball.of(norm, Fraction(1, 255)).limit == 1


@pytest.mark.parametrize("eps", ["-0.1", "nan", "x", "1001"])
def test_bad_radii_are_refused(eps: str) -> None:
    with pytest.raises(IntrsError, match="eps"):
        Ball.of("l2", eps)


def test_norms_are_rounded_up() -> None:
    for size in (0, 1, 2, 936, 65_025, 12_345_678):
        text = records.norm_text(Ball.of("l2", "1"), size)
        assert (Fraction(text) * 255) ** 2 >= size
        assert size == 0 or ((Fraction(text) - Fraction(1, 10**6)) * 255) ** 2 < size
    assert records.norm_text(Ball.of("linf", "1"), 255) == "1.000000"
    assert records.norm_text(Ball.of("linf", "1"), 1) == "0.003922"


# --- the twin --------------------------------------------------------------------------------------------------------


def twin_scores(network: package.Network, batch: Any) -> Any:
    torch, twin = room("torch"), room("intrs.pgd.twin")
    return twin.Twin(network)(torch.from_numpy(np.asarray(batch, np.float64))).detach().numpy()


def test_the_twin_has_the_scores_of_the_network() -> None:
    covered: set[str] = set()
    for seed in range(80):
        rng = np.random.default_rng(seed)
        network = random_network(rng)
        batch = random_images(rng, network, 3)
        assert np.array_equal(twin_scores(network, batch), network.scores(batch)), seed
        covered |= traits(network)
    assert {kind.__name__ for kind in KINDS.values()} <= {t.partition(":")[0] for t in covered}


def gradient_at(layer: Any, pixel: int) -> float:
    """Of a layer that reads the codes of one pixel, which are the pixel's value less 128, by that value."""
    torch, twin = room("torch"), room("intrs.pgd.twin")
    scores = layers.conv(1, np.ones((1, 1, 1, 1)), rescale=layers.rescale(30), wide=True, output_zero_point=0)
    network = layers.network(layer, scores, height=1, width=1, channels=1)
    x = torch.full((1, 1, 1, 1), float(pixel), requires_grad=True)
    (gradient,) = torch.autograd.grad(twin.Twin(network)(x).sum(), x)
    return float(gradient)


def test_the_gradients_of_tables_products_and_sums() -> None:
    """Of a table the slope at the code, of a product that of the product rule, zero where a result is saturated."""
    squares = CodeTable((0,), (np.arange(-128, 128) ** 2 // 256).astype(np.int8))
    assert gradient_at(squares, 228) == pytest.approx((101**2 // 256 - 99**2 // 256) / 2)
    half, unit = layers.one_scale(2**30, 31), layers.one_scale(2**30, 30)
    for twice in (False, True):
        product = Mul((0, 0), (0, 0), layers.one_scale(2**30, 38), 0, twice=twice)
        assert gradient_at(product, 128 + 50) == pytest.approx(2 * 50 / 2**8)
        assert gradient_at(replace(product, rescale=layers.one_scale(2**30, 32)), 128 + 50) == 0
    total = ScaledAdd((0, 0), (0, 0), 4, half, layers.one_scale(2**30, 32), layers.one_scale(2**30, 34), 0)
    assert gradient_at(total, 128 + 20) == pytest.approx(1 / 2 + 1 / 4)
    assert gradient_at(replace(total, subtract=True), 128 + 20) == pytest.approx(1 / 2 - 1 / 4)
    assert gradient_at(RequantiseDouble((0,), 0, half, 0), 128 + 20) == pytest.approx(1 / 2)
    assert gradient_at(RequantiseDouble((0,), 0, unit, 100), 128 + 50) == 0


def test_the_twin_of_what_ships() -> None:
    network, data = package.load(zoo.model_path("resnet8-sigma0.25")), package.open_data(zoo.DEFAULT_DATA)
    batch = np.concatenate([noisy_images(image, NOISE, Samples(1, i, 0, 4)) for i, image in enumerate(data.images[:6])])
    assert np.array_equal(twin_scores(network, batch), network.scores(batch))


def test_the_gradient_of_a_linear_network_is_its_weights(tmp_path: Path) -> None:
    torch, twin = room("torch"), room("intrs.pgd.twin")
    network = package.load(save_model(tmp_path / "m.onnx"))
    x = torch.full((1, SIDE, SIDE, 3), 100.0, requires_grad=True)
    for label in range(CLASSES):
        (gradient,) = torch.autograd.grad(twin.Twin(network)(x)[0, label], x)
        found, wanted = gradient[0].numpy().ravel(), patterns()[label].ravel().astype(float)
        assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) > 0.99


def test_there_is_no_gradient_where_the_image_is_saturated(tmp_path: Path) -> None:
    torch, twin = room("torch"), room("intrs.pgd.twin")
    x = torch.full((1, SIDE, SIDE, 3), 100_000.0, requires_grad=True)
    (gradient,) = torch.autograd.grad(twin.Twin(package.load(save_model(tmp_path / "m.onnx")))(x).sum(), x)
    assert not gradient.any()


# --- float networks --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def float_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained ResNet-8 as `intrs train` writes it, with batch normalisation that is not the identity."""
    torch, build = room("torch"), room("intrs.training.architectures")
    quant, onnx_out = room("intrs.training.quant"), room("intrs.training.onnx_out")
    task = build.Task((12, 12, 3), 3, [0.4, 0.5, 0.6], [0.2, 0.25, 0.3])
    model, random = build.build("resnet8", task, 1), torch.Generator().manual_seed(2)
    for name, value in model.state_dict().items():
        if "running" in name:
            value.copy_(torch.rand(value.shape, generator=random) + 0.5)
    path = tmp_path_factory.mktemp("float") / "float.onnx"
    onnx_out.save_onnx(quant.fold_float(model), path, (3, 12, 12), 3)
    return path


def test_a_float_network_is_what_onnx_runtime_runs(float_file: Path) -> None:
    torch, runtime = room("torch"), pytest.importorskip("onnxruntime")
    pixels = np.random.default_rng(1).integers(-50, 300, (5, 12, 12, 3))
    net = room("intrs.pgd.float_net").load_float(float_file)
    found = net(torch.from_numpy(pixels.astype(np.float32))).numpy()
    session = runtime.InferenceSession(str(float_file), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"image": (pixels.transpose(0, 3, 1, 2) / 255).astype(np.float32)})[0]
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()


def float_graph(path: Path, *nodes: onnx.NodeProto, dims: Any = ("batch", 3, 2, 2), **constants: Any) -> Path:
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, dims)
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [image], [logits], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_pooling_and_padding_of_float_networks(tmp_path: Path) -> None:
    torch, runtime = room("torch"), pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(4, 3, 3, 2)), rng.normal(size=(4 * 2 * 3, 5))
    path = float_graph(
        tmp_path / "f.onnx",
        helper.make_node("Conv", ["image", "w"], ["c"], pads=[1, 0, 2, 1], strides=[1, 2], dilations=[2, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["logits"]),
        dims=("batch", 3, 6, 6),
        w=weights[0],
        v=weights[1],
    )
    pixels = rng.integers(0, 256, (2, 6, 6, 3))
    found = room("intrs.pgd.float_net").load_float(path, "byte")(torch.from_numpy(pixels.astype(np.float32)))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"image": pixels.transpose(0, 3, 1, 2).astype(np.float32)})[0]
    assert np.abs(found.numpy() - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("node", "dims", "words"),
    [
        (helper.make_node("Flatten", ["image"], ["logits"], axis=2), ("b", 3, 2, 2), "axis = 1"),
        (helper.make_node("Gemm", ["image", "w"], ["logits"], alpha=2.0), ("b", 3, 2, 2), "alpha"),
        (helper.make_node("Conv", ["image", "w"], ["logits"], auto_pad="SAME_UPPER"), ("b", 3, 2, 2), "padding"),
        (helper.make_node("Conv", ["image", "w"], ["logits"]), ("b", 3, 2, 2), "fit together"),
        (helper.make_node("MaxPool", ["image"], ["logits"], kernel_shape=[2, 2], ceil_mode=1), ("b", 3, 2, 2), "down"),
        (helper.make_node("Relu", ["image"], ["logits"]), ("b", 3, 2, 2), "a classifier"),
        (helper.make_node("Relu", ["image"], ["logits"]), ("b", 3, "h", "w"), "shape"),
    ],
)
def test_float_files_that_are_refused(tmp_path: Path, node: Any, dims: Any, words: str) -> None:
    float_net = room("intrs.pgd.float_net")
    path = float_graph(tmp_path / "f.onnx", node, dims=dims, w=np.ones((4, 7, 1, 1)))
    assert float_net.is_float(path)
    with pytest.raises(IntrsError, match=words):
        float_net.load_float(path)


# --- PGD -------------------------------------------------------------------------------------------------------------


def linear_setting(tmp_path: Path) -> tuple[package.Network, Any, Any, int]:
    network = package.load(save_model(tmp_path / "m.onnx"))
    pixels, labels = images()
    return network, room("intrs.pgd.twin").Twin(network), pixels[0], int(labels[0])


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_attack_finds_the_best_direction_of_a_linear_network(tmp_path: Path, norm: Any) -> None:
    """Towards another class's pattern, away from the label's: no perturbation of that size does much better."""
    network, scores, image, label = linear_setting(tmp_path)
    pgd, ball = room("intrs.pgd.descent"), Ball.of(norm, "0.2")
    attacked = pgd.attack_image(scores, image, 0, label, ball, pgd.Draws(None, 1, 1), steps=10)
    change = attacked.astype(np.int64) - image

    def margin(pixels: Any) -> int:
        found = network.scores(pixels[None].astype(np.int32))[0].astype(np.int64)
        return int(found[label] - np.delete(found, label).max())

    directions = [patterns()[c].astype(float) - patterns()[label] for c in range(CLASSES) if c != label]
    best = min(margin(image + ball.to_grid(d * (1e3 if norm == "linf" else 1), image)) for d in directions)
    before = margin(image.astype(np.int64))
    assert ball.size(change) <= ball.limit
    assert margin(attacked) < before
    assert before - margin(attacked) > 0.9 * (before - best)


def test_the_attack_on_a_smoothed_network_takes_votes(tmp_path: Path) -> None:
    network, scores, image, label = linear_setting(tmp_path)
    pgd, shares = room("intrs.pgd.descent"), []
    for eps in ("0", "0.3", "1", "3"):
        attacked = pgd.attack_image(scores, image, 5, label, Ball.of("l2", eps), pgd.Draws(NOISE, 1, 8), steps=10)
        shares.append(count(network, attacked, NOISE, Samples(9, 5, 0, 1000)).counts[label])
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 800
    assert shares[-1] < 100


def test_the_seed_decides(tmp_path: Path) -> None:
    _, scores, image, label = linear_setting(tmp_path)
    pgd, ball = room("intrs.pgd.descent"), Ball.of("l2", "0.3")

    def run(seed: int, index: int = 0) -> Any:
        return pgd.attack_image(scores, image, index, label, ball, pgd.Draws(NOISE, seed, 2), steps=3, restarts=2)

    assert np.array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))
    assert not np.array_equal(run(1), run(1, index=1))


def test_the_best_of_several_starts_counts(tmp_path: Path) -> None:
    torch, pgd = room("torch"), room("intrs.pgd.descent")
    _, scores, image, label = linear_setting(tmp_path)
    ball, draws = Ball.of("linf", "0.1"), pgd.Draws(NOISE, 1, 4)
    loss = pgd.smooth_loss(scores, image, 0, label, draws)
    values = [
        float(loss(torch.from_numpy(x.astype(np.float32)), pgd.LAST))
        for x in (
            pgd.attack_image(scores, image, 0, label, ball, draws, steps=1, restarts=restarts) for restarts in (1, 2, 4)
        )
    ]
    assert values == sorted(values)


def test_the_noise_of_attacks_is_not_that_of_predictions() -> None:
    pgd, image = room("intrs.pgd.descent"), np.zeros((4, 4, 3), np.uint8)
    mine = pgd.Draws(NOISE, 7, 8).at(image, 3, 0).numpy()
    theirs = noisy_images(image, NOISE, Samples(7, 3, 0, 8))
    assert not any(np.array_equal(a, b) for a in mine for b in theirs)


def test_projection() -> None:
    torch, pgd = room("torch"), room("intrs.pgd.descent")
    image = torch.tensor([[[0.0, 128.0, 255.0]]])
    far = torch.tensor([[[-30.0, 40.0, 0.0]]])
    assert pgd.project(far, image, "linf", 5.0).tolist() == [[[0.0, 5.0, 0.0]]]
    assert pgd.project(far, image, "l2", 5.0).tolist() == [[[0.0, 4.0, 0.0]]]
    assert pgd.project(far / 100, image, "l2", 5.0)[0, 0, 1].item() == pytest.approx(0.4, abs=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("norm", "eps", "steps"), [("linf", "0.004", 7), ("l2", "0.12", 20)])
def test_torchattacks_does_the_same(monkeypatch: pytest.MonkeyPatch, norm: Any, eps: str, steps: int) -> None:
    """On the shipped network, whose loss is a staircase: rounding differs, so the two do not agree bit for bit."""
    pytest.importorskip("torchattacks")
    monkeypatch.syspath_prepend(str(ROOT))
    found = import_module("redteam.compare_pgd").compare(4, norm, eps, steps)
    assert found["images"] == 4
    assert abs(found["wrong"]["ours"] - found["wrong"]["theirs"]) <= 1
    assert found["loss"]["ours"] == pytest.approx(found["loss"]["theirs"], rel=0.1)
    assert found["cosine"] > 0.8


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    room("torch")
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")
    return tmp_path


ATTACK = ("attack", "tiny.onnx", "tiny.npz")


def test_attack(intrs: Intrs, here: Path) -> None:
    code, out, _ = intrs(*ATTACK, "a", *QUICK)
    assert code == 0
    assert "Accuracy under attack" in out
    settings, rows = records.read(here / "a")
    assert settings.to_json()["eps"] == "0,1/10,3/10"
    assert (settings.request.norm, settings.request.seed, settings.request.n) == ("l2", 7, 200)
    assert [(row.idx, row.eps) for row in rows] == [(20 * i + 3, e) for i in range(8) for e in ("0", "0.1", "0.3")]
    data = package.open_data("tiny.npz")
    for k, eps in enumerate(("0", "0.1", "0.3")):
        attacked, mine = package.open_data(f"a/eps-{eps}.npz"), rows[k::3]
        change = attacked.images[:].astype(np.int64) - data.images
        assert np.array_equal(attacked.labels, data.labels)
        assert [int((c**2).sum()) for c in change] == [row.size for row in mine]
        assert all(row.size <= (Fraction(eps) * 255) ** 2 for row in mine)
        assert all(row.correct == (row.predict == row.label) for row in mine)
    assert all(row.counts == row.clean_counts and row.norm == "0.000000" for row in rows[::3])
    assert sum(row.counts[row.label] for row in rows[2::3]) < sum(row.counts[row.label] for row in rows[::3])


def test_its_images_go_into_predict_and_certify(intrs: Intrs, here: Path) -> None:
    """Under the same seed the votes are those in the table, bit for bit."""
    assert intrs(*ATTACK, "a", *QUICK)[0] == 0
    argv = ("tiny.onnx", "a/eps-0.3.npz", "--n", "200", "--seed", "7")
    assert intrs("predict", *argv, "--out", "p.tsv")[0] == 0
    assert intrs("certify", *argv, "--out", "c.tsv")[0] == 0
    mine = records.read(here / "a")[1][2::3]
    for name in ("p.tsv", "c.tsv"):
        lines = [line.split("\t") for line in (here / name).read_text().splitlines()]
        place = lines[0].index("counts")
        assert [line[place] for line in lines[1:]] == [",".join(map(str, row.counts)) for row in mine]
    assert [row.predict for row in results.read(here / "p.tsv")[1]] == [row.predict for row in mine]
    assert intrs("verify", "p.tsv")[0] == 0


def test_classes_are_found_by_name(intrs: Intrs, here: Path) -> None:
    """As in `intrs certify`: the data's order of the classes is not the model's, unless that is said."""
    labels = images()[1]
    save_images(here / "named.npz", labels=2 - labels, classes=np.array(["c", "b", "a"]))
    assert intrs(*ATTACK, "plain", *QUICK, "--max", "3")[0] == 0
    more = ("named.npz", "named", *QUICK, "--max", "3")
    assert intrs("attack", "tiny.onnx", *more, "--names", "A,b,c")[0] == 0
    assert without_time(here / "named" / records.TABLE) == without_time(here / "plain" / records.TABLE)
    settings = records.read(here / "named")[0]
    assert settings.request.names == ("A", "b", "c")
    assert package.open_data("named/eps-0.3.npz").classes == ("A", "b", "c")
    assert intrs("attack", "tiny.onnx", *more, "--names", "A,b,c")[0] == 0  # the same command continues
    code, _, err = intrs("attack", "tiny.onnx", *more, "--by-number")
    assert (code, "data_sha256" in err) == (MISTAKE, True)
    assert intrs("attack", "tiny.onnx", "named.npz", "number", *QUICK, "--max", "3", "--by-number")[0] == 0
    settings, rows = records.read(here / "number")
    assert settings.request.by_number
    assert [row.label for row in rows[::3]] == [2, 1, 0]


def without_time(path: Path) -> list[list[str]]:
    place = records.COLUMNS.index("time")
    cells = [line.split("\t") for line in path.read_text().splitlines()]
    return [line[:place] + line[place + 1 :] for line in cells]


@pytest.mark.parametrize("left", [0.0, 0.3, 3.5])
def test_a_killed_attack_continues(intrs: Intrs, here: Path, left: float) -> None:
    """left: records, whole and broken, that the kill left behind."""
    assert intrs(*ATTACK, "whole", *QUICK)[0] == 0
    assert intrs(*ATTACK, "a", *QUICK)[0] == 0
    progress = here / "a" / records.RECORDS
    data = progress.read_bytes()
    progress.write_bytes(data[: int(left * len(data) / 8)])
    for path in [*(here / "a").glob("*.npz"), here / "a" / records.TABLE]:
        path.unlink()
    code, out, _ = intrs(*ATTACK, "a", *QUICK)
    assert code == 0
    assert ("of them done before" in out) == (left >= 1)
    assert without_time(here / "a" / records.TABLE) == without_time(here / "whole" / records.TABLE)
    for name in ("eps-0.npz", "eps-0.1.npz", "eps-0.3.npz"):
        assert (here / "a" / name).read_bytes() == (here / "whole" / name).read_bytes()


def test_an_interrupted_attack_continues(intrs: Intrs, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = room("intrs.pgd.campaign").Campaign
    once, answered = campaign.attack, []

    def interrupted(self: Any, position: int, ball: Ball) -> Any:
        if position == 2:
            raise KeyboardInterrupt
        answered.append(position)
        return once(self, position, ball)

    quick = QUICK[:-4]  # the seed is drawn
    monkeypatch.setattr(campaign, "attack", interrupted)
    code, _, err = intrs(*ATTACK, "a", *quick)
    assert code == INTERRUPTED
    assert "stopped after 2 of 8 images; the same command continues:\n  intrs attack tiny.onnx tiny.npz a" in err
    settings = records.read_settings(here / "a")
    monkeypatch.undo()
    monkeypatch.chdir(here)
    code, out, _ = intrs(*ATTACK, "a", *quick)
    assert code == 0
    assert "2 of them done before" in out
    assert records.read(here / "a")[0] == settings


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("--seed", "8"), "seed: 0x7 in the folder, 0x8 now"),
        (("--steps", "4"), "steps: 3 in the folder, 4 now"),
        (("--norm", "linf"), "norm: l2 in the folder, linf now"),
        (("--max", "3"), "max: 8 in the folder, 3 now"),
        (("--sigma", "0.5"), "sigma: 1/4 in the folder, 1/2 now"),
    ],
)
def test_another_attack_does_not_go_into_the_folder(
    intrs: Intrs, here: Path, change: tuple[str, ...], field: str
) -> None:
    assert intrs(*ATTACK, "a", *QUICK)[0] == 0
    before = {path.name: path.read_bytes() for path in (here / "a").iterdir()}
    code, _, err = intrs(*ATTACK, "a", *QUICK, *change)
    assert code == MISTAKE
    assert field in err
    assert before == {path.name: path.read_bytes() for path in (here / "a").iterdir()}


def test_altered_progress_is_refused(intrs: Intrs, here: Path) -> None:
    assert intrs(*ATTACK, "a", *QUICK)[0] == 0
    path = here / "a" / records.RECORDS
    data = path.read_bytes()
    kind = records.record_type(3, CLASSES, (SIDE, SIDE, 3))
    places: dict[str, tuple[int, ...]] = {"idx": (1,), "votes": (1, 0, 0), "pixels": (1, 0, 0, 0, 0)}
    for field, words in (("idx", "was expected"), ("votes", "votes are not 200"), ("pixels", "outside its ball")):
        altered = np.frombuffer(data, kind).copy()
        altered[field][places[field]] += 1
        path.write_bytes(altered.tobytes())
        code, _, err = intrs(*ATTACK, "a", *QUICK)
        assert code == MISTAKE
        assert words in err
    (here / "a" / "attack.tsv.json").unlink()
    assert "which describes them, is gone" in intrs(*ATTACK, "a", *QUICK)[2]


def test_two_processes_do_not_share_a_folder(intrs: Intrs, here: Path) -> None:
    assert intrs(*ATTACK, "a", *QUICK)[0] == 0
    settings, data = records.read_settings(here / "a"), package.open_data("tiny.npz")
    assert settings
    first = records.Records(here / "a", settings, data, range(8), CLASSES)
    try:
        assert "another process is writing a/attacked.bin" in intrs(*ATTACK, "a", *QUICK)[2]
    finally:
        first.close()


def test_the_network_without_noise(intrs: Intrs, here: Path) -> None:
    """Figure 1 of the paper: l_inf, no smoothing; radii below a pixel level change nothing and say so."""
    argv = ("--sigma", "0", "--norm", "linf", "--eps", "0.001,0.2", "--seed", "1", "--threads", "1")
    code, out, _ = intrs(*ATTACK, "a", *argv)
    assert code == 0
    assert "eps 0.001: less than one pixel level" in out
    settings, rows = records.read(here / "a")
    asked = settings.request
    assert (asked.steps, asked.n, asked.draws, settings.to_json()["noise"]) == (7, 1, 1, "")
    network = package.load("tiny.onnx")
    attacked = package.open_data("a/eps-0.2.npz")
    assert [row.predict for row in rows[1::2]] == network.predict(attacked.images[:]).tolist()
    assert {row.size for row in rows[::2]} == {0}
    assert {row.size for row in rows[1::2]} == {51}
    assert sum(row.correct for row in rows[1::2]) < sum(row.correct for row in rows[::2])


def test_an_attack_is_transferred(intrs: Intrs, here: Path) -> None:
    """The images are those of the attack on the source; the answers are the model's."""
    save_model(here / "float.onnx", quantized=False)
    argv = ("--sigma", "0", "--norm", "linf", "--eps", "0.1", "--seed", "1", "--threads", "1")
    assert intrs("attack", "float.onnx", "tiny.npz", "f", *argv)[0] == 0
    code, out, _ = intrs(*ATTACK, "t", *argv, "--source", "float.onnx")
    assert code == 0
    assert "the attack is transferred" in out
    assert (here / "f" / "eps-0.1.npz").read_bytes() == (here / "t" / "eps-0.1.npz").read_bytes()
    predicted = package.load("tiny.onnx").predict(package.open_data("t/eps-0.1.npz").images[:])
    assert [row.predict for row in records.read(here / "t")[1]] == predicted.tolist()


def test_a_smoothed_float_network(intrs: Intrs, here: Path) -> None:
    save_model(here / "float.onnx", quantized=False)
    assert intrs("attack", "float.onnx", "tiny.npz", "a", *QUICK, "--max", "2", "--eps", "0.3")[0] == 0
    assert all(sum(row.counts) == 200 for row in records.read(here / "a")[1])


@pytest.mark.parametrize("quantized", [True, False])
def test_the_classical_method(intrs: Intrs, here: Path, quantized: bool) -> None:
    """Continuous noise, votes by ONNX Runtime: those of `intrs predict` on the attacked images."""
    pytest.importorskip("onnxruntime")
    save_model(here / "some.onnx", quantized=quantized)
    argv = ("--noise", "continuous", "--sigma", "0.25", "--n", "200", "--seed", "3", "--max", "3", "--pixels", "unit")
    code, out, err = intrs("attack", "some.onnx", "tiny.npz", "a", *argv, "--eps", "0.3", "--draws", "4")
    assert code == 0, err
    assert "continuous Gaussian" in out
    settings, attacked = records.read(here / "a")
    assert settings.kernels.startswith("onnxruntime")
    assert intrs("predict", "some.onnx", "a/eps-0.3.npz", *argv, "--out", "p.tsv")[0] == 0
    assert [row.counts for row in results.read(here / "p.tsv")[1]] == [row.counts for row in attacked]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("attack tiny.onnx tiny.npz a --eps 0.1,0.1", "names a radius twice"),
        ("attack tiny.onnx tiny.npz a --eps 0.1,x", "eps: expected a number"),
        ("attack tiny.onnx tiny.npz a --eps -1", "must lie between 0 and 1000"),
        ("attack tiny.onnx tiny.npz a --norm linf --eps 8", "between 0 and 1, not 8; 8 pixel levels are 8/255"),
        ("attack tiny.onnx tiny.npz a --sigma 9", "sigma must lie between"),
        ("attack tiny.onnx tiny.npz a --alpha 2", "alpha must lie between"),
        ("attack tiny.onnx nothing.npz a", "no such file or folder"),
        ("attack nothing.onnx tiny.npz a", "no such file"),
        ("attack tiny.onnx cifar10-500 a", "(height x width x channels), but tiny.onnx takes 4 x 4 x 3"),
        ("attack tiny.onnx unlabelled.npz a", "has no labels; an attack needs them"),
        ("attack tiny.onnx tiny.npz a --names a,b", "2 names for 3 classes"),
        ("attack tiny.onnx named.npz a --names x,y,z", "\n  --names N,N,... (or a file) names the model's classes"),
        ("attack tiny.onnx tiny.npz a --source broken.onnx", "broken.onnx"),
        ("attack tiny.onnx tiny.npz tiny.npz", "cannot write"),
        ("attack tiny.onnx tiny.npz a --max 0", "expected a positive integer, got 0"),
        ("attack quiet.onnx tiny.npz a", "give sigma, such as 0.25"),
        ("attack tiny.onnx tiny.npz a --noise continuous --kernels scalar", "is for integers"),
        ("attack float.onnx tiny.npz a --sigma 0 --mean 0.5", "leave mean and std out"),
    ],
)
def test_mistakes(intrs: Intrs, here: Path, argv: str, words: str) -> None:
    (here / "broken.onnx").write_bytes(b"nothing")
    save_model(here / "quiet.onnx", sigma=None)
    save_model(here / "float.onnx", quantized=False)
    save_images(here / "unlabelled.npz", labels=None)
    save_images(here / "named.npz", classes=np.array(["a", "b", "c"]))
    code, _, err = intrs(*argv.split())
    assert code == MISTAKE
    assert err.startswith("intrs: ")
    assert words in err
    assert not (here / "a").exists()


def test_without_pytorch_it_says_what_to_install(intrs: Intrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.training.pytorch.find_spec", lambda name: None)
    code, _, err = intrs(*ATTACK, "a")
    assert code == MISTAKE
    assert "pip install 'intrs[train]'" in err


def test_tables_that_were_cut(intrs: Intrs, here: Path) -> None:
    assert intrs(*ATTACK, "a", *QUICK, "--max", "1")[0] == 0
    path = here / "a" / records.TABLE
    lines = path.read_text().splitlines(keepends=True)
    for kept in (1, len(lines) - 1):
        path.write_text("".join(lines[:kept]))
        with pytest.raises(IntrsError, match=f"{kept - 1} lines after the first"):
            records.read(here / "a")


def test_a_classical_attack_is_not_continued_by_another_engine() -> None:
    found: dict[str, Any] = {name: 1 if name in records.NUMBERS else "1" for name in records.FIELDS}
    found |= {"norm": "l2", "seed": "0x1", "names": [], "by_number": False}
    found |= {"pixels": "auto", "alpha": "1/1000", "identity": "ab" * 32, "dialect": "tflm"}

    def settings(**changes: str) -> records.Settings:
        return records.Settings.from_json(found | changes)

    old = settings(noise="continuous", kernels="onnxruntime 1")
    new = settings(noise="continuous", kernels="onnxruntime 2")
    assert records.differences(old, new) == [("kernels", "onnxruntime 1", "onnxruntime 2")]
    assert not records.differences(settings(noise="discrete", kernels="avx2"), settings(noise="discrete"))


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("idx", "-1"),
        ("size", "1.5"),
        ("counts", "1,,2"),
        ("norm", "\x1b"),
        ("predict", "-2"),
        ("norm", "abc"),
        ("norm", "nan"),
        ("time", "soon"),
    ],
)
def test_malformed_tables(intrs: Intrs, here: Path, column: str, cell: str) -> None:
    assert intrs(*ATTACK, "a", *QUICK, "--max", "1")[0] == 0
    path = here / "a" / records.TABLE
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    lines[1][records.COLUMNS.index(column)] = cell
    path.write_text("\n".join("\t".join(line) for line in lines) + "\n")
    with pytest.raises(IntrsError, match=rf"line 2: malformed \({column} is"):
        records.read(here / "a")


@pytest.mark.parametrize(
    "change",
    [{"seed": "7"}, {"norm": "l1"}, {"n": "9"}, {"steps": 0}, {"format": "x"}, {"names": "a,b,c"}, {"names": [1]},
     {"by_number": 1}, {"eps": ""}, {"eps": "0.1,1/10,0.3"}],
)  # fmt: skip
def test_malformed_descriptions(intrs: Intrs, here: Path, change: dict[str, Any]) -> None:
    assert intrs(*ATTACK, "a", *QUICK, "--max", "1")[0] == 0
    path = here / "a" / "attack.tsv.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(IntrsError, match="not the description of an attack"):
        records.read(here / "a")


def test_importing_the_command_line_needs_no_pytorch() -> None:
    """The parts that need none are those that other commands use."""
    code = "import sys; import intrs.pgd.records, intrs.cli.attack; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --- as a function ---------------------------------------------------------------------------------------------------


def test_the_function_does_what_the_command_does(intrs: Intrs, here: Path) -> None:
    assert intrs(*ATTACK, "a", *QUICK)[0] == 0
    seen: list[Progress] = []
    found = package.attack(
        here / "tiny.onnx", "tiny.npz", "b", eps=(0, 0.1, "3/10"), steps=3, draws=4, n=200, seed=7, threads=1,
        progress=seen.append,
    )  # fmt: skip
    assert without_time(here / "a" / records.TABLE) == without_time(here / "b" / records.TABLE)
    assert (seen[0], seen[-1]) == (Progress(0, 24, "attacks", ""), Progress(24, 24, "attacks", "image 8 of 8, eps 0.3"))
    assert [path.name for path in found.paths] == ["attack.tsv", "eps-0.npz", "eps-0.1.npz", "eps-0.3.npz"]
    assert all(path.is_file() for path in found.paths)
    assert found.rows == records.read(here / "b")[1] == pgd.read(here / "b").rows
    for at, k in zip(found.summary, range(3), strict=True):
        mine = found.rows[k::3]
        assert (at.images, at.correct) == (8, sum(row.correct for row in mine))
        assert at.lost == sum(row.clean == row.label and row.predict != row.label for row in mine)
    assert f"correct {found.summary[0].correct} at eps 0, " in repr(found)
    assert len(repr(found)) < 300


def test_the_command_announces_what_was_opened_and_the_function_prints_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here.is_dir()
    request, begun = Attack(model="tiny.onnx", data="tiny.npz", max=1, eps=("0.1",), steps=1, n=100, seed=1), []
    pgd.attack(request, Path("a"), announce=lambda campaign: begun.append((len(campaign.records), campaign.seed)))
    pgd.attack(request, Path("a"), announce=lambda campaign: begun.append((len(campaign.records), campaign.seed)))
    assert begun == [(0, 1), (1, 1)]
    assert capsys.readouterr() == ("", "")


def test_threads_are_set_for_the_attack_alone(here: Path) -> None:
    torch, seen = room("torch"), []
    assert here.is_dir()
    before = torch.get_num_threads()
    request = Attack(model="tiny.onnx", data="tiny.npz", max=1, eps=("0.1",), steps=1, n=100, threads=before + 1)
    pgd.attack(request, Path("a"), progress=lambda _: seen.append(torch.get_num_threads()))
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def deleted(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    path.rename(path.with_name("old"))
    path.write_bytes(path.with_name("old").read_bytes())


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize(("change", "words"), [(deleted, "deleted"), (replaced, "replaced"), (truncated, "was cut")])
@pytest.mark.parametrize("last", [False, True])
def test_records_that_another_program_changes_meanwhile(
    intrs: Intrs, here: Path, monkeypatch: pytest.MonkeyPatch, change: Any, words: str, last: bool
) -> None:
    """Noticed before the next record is appended, and before the table is written."""
    kept, count = records.Records.append, 8 if last else 2

    def append(self: Any, *args: Any) -> None:
        kept(self, *args)
        if len(self) == count:
            change(here / "a" / records.RECORDS)

    monkeypatch.setattr(records.Records, "append", append)
    code, _, err = intrs(*ATTACK, "a", *QUICK)
    assert code == MISTAKE
    assert words in err
    assert "by another program while it was being written" in err
    assert not (here / "a" / records.TABLE).exists()


def test_more_records_than_images(intrs: Intrs, here: Path) -> None:
    assert intrs(*ATTACK, "a", *QUICK)[0] == 0
    path = here / "a" / records.RECORDS
    path.write_bytes(twice := path.read_bytes() * 2)
    code, _, err = intrs(*ATTACK, "a", *QUICK)
    assert (code, "more records than there are images" in err) == (MISTAKE, True)
    assert path.read_bytes() == twice, "it is left as it was"


# --- parts of one attack ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        (("--first", "5"), ("--max", "5")),
        (("--skip", "2"), ("--first", "1", "--skip", "2")),
        (("--max", "4"), ("--first", "2", "--max", "4"), ("--first", "6")),
        ((),),
    ],
    ids=["the end first", "interleaved", "overlapping", "one"],
)
def test_joined_parts_are_what_one_run_writes(intrs: Intrs, here: Path, parts: Any) -> None:
    assert intrs(*ATTACK, "whole", *QUICK)[0] == 0
    for k, span in enumerate(parts):
        assert intrs(*ATTACK, f"p{k}", *QUICK, *span)[0] == 0
    code, out, _ = intrs("attack", "--join", *(f"p{k}" for k in range(len(parts))), "--to", "all")
    assert code == 0
    assert out[out.index("Accuracy under attack") :].replace("all/", "whole/") in intrs(*ATTACK, "whole", *QUICK)[1]
    assert without_time(here / "all" / records.TABLE) == without_time(here / "whole" / records.TABLE)
    for name in ("attack.tsv.json", "eps-0.npz", "eps-0.1.npz", "eps-0.3.npz"):
        assert (here / "all" / name).read_bytes() == (here / "whole" / name).read_bytes()
    assert "8 of them done before" in intrs(*ATTACK, "all", *QUICK)[1], "the command takes it for its own"


def join_error(*folders: str) -> str:
    with pytest.raises(IntrsError) as caught:
        pgd.join(folders, "all")
    assert not Path("all").exists()
    return str(caught.value)


def test_parts_that_do_not_fit_together(intrs: Intrs, here: Path) -> None:
    assert intrs(*ATTACK, "p0", *QUICK, "--max", "2")[0] == 0
    assert intrs(*ATTACK, "p1", *QUICK, "--first", "2", "--steps", "2", "--seed", "8")[0] == 0
    assert intrs(*ATTACK, "p2", *QUICK, "--first", "4", "--max", "2")[0] == 0
    words = join_error("p0", "p1")
    assert "steps: 3 in p0, 2 in p1" in words
    assert "seed: 0x7 in p0, 0x8 in p1" in words
    assert "max" not in words
    assert "image 2 of the data set, counted from 0, is in none of the parts" in join_error("p0", "p2")
    assert "no attack was made here" in join_error("p0", "nothing")
    assert "name the folders" in join_error()
    (here / "p2" / records.TABLE).unlink()
    assert "attack.tsv" in join_error("p0", "p2")
    with pytest.raises(IntrsError, match="holds another attack"):
        pgd.join(["p0"], "p1")


def edit_table(folder: Path, column: str, value: str, line: int = 1) -> None:
    path = folder / records.TABLE
    lines = [text.split("\t") for text in path.read_text().splitlines()]
    lines[line][records.COLUMNS.index(column)] = value
    path.write_text("\n".join("\t".join(cells) for cells in lines) + "\n")


def edit_image(folder: Path, index: str) -> None:
    """Give all lines of the first image another index."""
    for line in (1, 2, 3):
        edit_table(folder, "idx", index, line)


def claim_samples(folder: Path, n: int) -> None:
    """Let a folder say of all lines that so many votes were counted, and were divided."""
    path = folder / "attack.tsv.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n": n}))
    for line in range(1, len((folder / records.TABLE).read_text().splitlines())):
        for column, value in (("n", f"{n}"), ("counts", f"{n // 2},0,{n // 2}"), ("clean_counts", f"0,0,{n}")):
            edit_table(folder, column, value, line)


def test_what_would_take_very_long_to_judge_is_refused(
    intrs: Intrs, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any line may claim very many votes; of the network without noise there is nothing to compute."""
    assert intrs(*ATTACK, "a", *QUICK, "--max", "1")[0] == 0
    assert intrs(*ATTACK, "b", *QUICK, "--max", "1", "--sigma", "0")[0] == 0
    monkeypatch.setattr(judging, "judge_prediction", lambda *_: pytest.fail("a line was judged"))
    monkeypatch.setattr("intrs.results.judging.TERMS", 10**5)  # so that three lines are enough
    for folder in ("a", "b"):
        claim_samples(here / folder, 10**8)
    for read in (pgd.read, joined.read_part):
        with pytest.raises(ResultsError, match="up to 100,000,000 samples would take about 3 minutes, and anyone"):
            read(here / "a")
    with pytest.raises(ResultsError, match="line 2: clean is"):
        pgd.read(here / "b")
    claim_samples(here / "a", 10**6)
    with pytest.raises(pytest.fail.Exception, match="a line was judged"):
        pgd.read(here / "a")


def test_a_folder_with_a_table_is_finished(intrs: Intrs, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading needs the images, so the table by which others tell that it can be read is written after them."""

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(records, "write_npz", interrupted)
    assert intrs(*ATTACK, "a", *QUICK, "--max", "1")[0] == INTERRUPTED
    assert not (here / "a" / records.TABLE).exists()
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert "1 of them done before" in intrs(*ATTACK, "a", *QUICK, "--max", "1")[1]
    assert pgd.read(here / "a").summary[0].images == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("predict", "1", 1), ("correct", "0", 1)], "line 2: predict is 1, but its votes say 0"),
        ([("correct", "0", 1)], "line 2: correct is 0, but its votes say 1"),
        ([("clean", "-1", 2)], "line 3: clean is None, but its votes say 0"),
        ([("eps", "0.7", 2)], "line 3: image 3 of class 0 at eps 0.1 should stand here"),
        ([("idx", "4", 3)], "line 4: image 3 of class 0 at eps 0.3 should stand here"),
        ([("label", "1", 3)], "line 4: image 3 of class 0 at eps 0.3 should stand here"),
        ([("idx", "3", line) for line in (4, 5, 6)], "line 5: this image and eps are on an earlier line, too"),
        ([("counts", "100,0,0", 1)], "line 2: counts should be 3 numbers with sum 200"),
        ([("clean_counts", "200,0", 1)], "line 2: clean_counts should be 3 numbers with sum 200"),
        ([("n", "100", 1)], "line 2: n is 100, should be 200"),
        ([("size", "1", 1), ("norm", "0.003922", 1)], "line 2: size is 1, but eps 0 allows 0"),
        ([("norm", "0.000001", 1)], "line 2: norm is 0.000001, but size says 0.000000"),
    ],
)
def test_lines_that_were_changed(intrs: Intrs, here: Path, changes: list[tuple[str, str, int]], words: str) -> None:
    """What a line says follows from its votes and the description, or it is refused."""
    assert intrs(*ATTACK, "a", *QUICK, "--max", "2")[0] == 0
    assert pgd.read(here / "a").rows == records.read(here / "a")[1]
    for column, value, line in changes:
        edit_table(here / "a", column, value, line)
    with pytest.raises(IntrsError, match=re.escape(words)):
        pgd.read(here / "a")


def test_votes_for_no_class_of_a_network_without_noise(intrs: Intrs, here: Path) -> None:
    """A description that speaks of several votes without noise gives no error of another kind."""
    assert intrs(*ATTACK, "a", *QUICK, "--max", "1", "--sigma", "0")[0] == 0
    assert pgd.read(here / "a").summary[0].images == 1
    path = here / "a" / "attack.tsv.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n": 2}))
    for line in (1, 2, 3):
        for column, value in (("n", "2"), ("counts", "2,0,0"), ("clean_counts", "2,0,0")):
            edit_table(here / "a", column, value, line)
    edit_table(here / "a", "predict", "1", 2)
    with pytest.raises(IntrsError, match="line 3: predict is 1, but its votes say 0"):
        pgd.read(here / "a")


def test_parts_must_agree_where_they_overlap(intrs: Intrs, here: Path) -> None:
    assert intrs(*ATTACK, "p0", *QUICK, "--max", "2")[0] == 0
    assert intrs(*ATTACK, "p1", *QUICK, "--first", "1")[0] == 0
    edit_table(here / "p1", "time", "0:00:09")
    pgd.join(["p0", "p1"], "fine")  # how long it took is not a difference
    edit_table(here / "p1", "size", "1", 3)
    edit_table(here / "p1", "norm", records.norm_text(Ball.of("l2", "0.3"), 1), 3)
    assert "p0 and p1 differ on image 23: one was changed" in join_error("p0", "p1")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda a: edit_image(a, "4"), "not in the order of"),
        (lambda a: edit_table(a, "eps", "0.3"), "image 3 of class 0 at eps 0 should stand here"),
        (lambda a: edit_table(a, "counts", "50,50,100"), "differ in its votes"),
        (lambda a: edit_table(a, "predict", "1"), "but its votes say"),
        (lambda a: edit_table(a, "clean", "-1"), "but its votes say"),
        (lambda a: (a / "eps-0.1.npz").write_bytes((a / "eps-0.3.npz").read_bytes()), "does not have it as"),
        (lambda a: (a / "eps-0.1.npz").unlink(), "eps-0.1.npz"),
        (lambda a: truncated(a / records.RECORDS), "finish the attack first"),
        (lambda a: (a / records.RECORDS).write_bytes(bytes(10**6)), "larger than"),
    ],
)
def test_damaged_parts(intrs: Intrs, here: Path, damage: Any, words: str) -> None:
    assert intrs(*ATTACK, "p", *QUICK, "--max", "2")[0] == 0
    damage(here / "p")
    assert words in join_error("p")


@pytest.mark.parametrize(
    "argv", ["--join p", "--to x", "tiny.onnx tiny.npz a --join p --to x", "tiny.onnx --join p --to x"]
)
def test_how_to_join(intrs: Intrs, argv: str) -> None:
    code, _, err = intrs("attack", *argv.split())
    assert (code, "intrs attack --join DIR DIR ... --to DIR" in err) == (MISTAKE, True)


def test_places_that_are_missing(intrs: Intrs) -> None:
    code, _, err = intrs("attack", "tiny.onnx", "tiny.npz")
    assert (code, "MODEL, DATA and OUTDIR are needed" in err) == (MISTAKE, True)


def test_a_network_and_arrays_are_attacked_too(here: Path) -> None:
    """What is not in a file has no name, but an identity."""
    pixels, labels = images()
    settings: dict[str, Any] = {"sigma": 0.25, "eps": [0.3], "steps": 2, "draws": 2, "n": 100, "seed": 7, "max": 2}
    opened = package.open_data("tiny.npz")
    mine = package.Images("arrays", pixels, labels, opened.indices)
    found = package.attack(package.load("tiny.onnx"), mine, here / "a", **settings)
    named = package.attack("tiny.onnx", "tiny.npz", here / "b", **settings)
    assert [row.counts for row in found.rows] == [row.counts for row in named.rows]
    assert found.settings.identity == named.settings.identity
    assert (found.settings.request.model, found.settings.request.data) == ("", "")
