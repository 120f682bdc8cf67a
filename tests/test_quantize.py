"""Post-training quantization: small networks, exact properties, what is refused, and the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_files import NETWORKS, Graph, as_input, pictures, run, with_trained_head

import intrs as package
from intrs.data import Images, open_data
from intrs.errors import ClassesError, DataError, IntrsError, ModelError, ResultsError, SettingsError
from intrs.exchange.convention import Convention
from intrs.noise import Noise
from intrs.quantization import quantize
from intrs.quantization.activations import Histogram, observe, open_taps, taken
from intrs.quantization.bias import corrected
from intrs.quantization.pipeline import Candidate, choose, divide
from intrs.quantization.qdq import Holding, quantized
from intrs.quantization.ranges import METHODS, least_squares, min_max, percentile, ranges
from intrs.quantization.source import open_source, weights_of
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

SIGMA = "0.12"
COUNT = 160


@pytest.fixture(scope="module")
def data() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images, labels = pictures(COUNT, 5)
    return images.astype(np.uint8), labels


def network(name: str) -> onnx.ModelProto:
    images, labels = pictures(200, 6)
    return with_trained_head(NETWORKS[name](Graph(np.random.default_rng(1))), as_input(images), labels)


def saved(proto: onnx.ModelProto, path: Path) -> Path:
    onnx.save(proto, path)
    return path


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, data: Any) -> Path:
    """A folder with a float network and images."""
    folder = tmp_path_factory.mktemp("quantize")
    saved(network("resnet"), folder / "float.onnx")
    np.savez(folder / "images.npz", images=data[0], labels=data[1])
    return folder


@pytest.fixture(autouse=True)
def _in_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


# ---- the whole ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_keep_their_top_class(name: str, data: Any, tmp_path: Path) -> None:
    """On noisy images that were used for nothing else; the seed is fixed, so there are no false alarms."""
    float_file, out = saved(network(name), tmp_path / "float.onnx"), tmp_path / "int8.onnx"
    made = quantize(float_file, data, sigma=SIGMA, out=out, pixels="unit", max=120, progress=False)
    assert made.agreement > (0.88 if name == "mobilenet" else 0.95)  # min-max alone: 0.87
    assert made.faithful == (made.agreement >= 0.97 and made.loss <= 0.01)
    assert made.accuracy["float"].noisy > 0.3  # three times as good as chance: agreement means something
    loaded = package.load(out)
    assert loaded.identity == made.network.identity
    assert out.read_bytes() == made.data
    assert len(made.candidates) == len(METHODS) + 1
    assert made.method in made.candidates
    assert all(ratio > 10 for ratio in made.signal_to_noise.values())
    assert len(made.signal_to_noise) > 5


def test_the_check_is_what_anyone_can_repeat(data: Any) -> None:
    made = quantize("float.onnx", data, sigma=SIGMA, pixels="unit", progress=False)
    part = divide(open_data(data), Noise.discrete(SIGMA), 1)["check"]
    noisy = part.all()
    floats = run(onnx.load("float.onnx"), as_input(noisy)).argmax(1)
    assert len(noisy) == made.checked
    assert made.agreement == pytest.approx((made.network.predict(noisy) == floats).mean(), abs=0.002)
    assert made.accuracy["int8"].noisy == (made.network.predict(noisy) == part.labels).mean()


def test_same_bytes_in_another_process(data: Any, tmp_path: Path) -> None:
    """Though sets of names have another order there."""
    script = (
        "import intrs; made = intrs.quantize('float.onnx', 'images.npz', sigma=.12, pixels='unit', max=40, "
        "out={!r}, progress=False)"
    )
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", script.format(str(tmp_path / seed))], env=environment, check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_what_the_file_says(data: Any, tmp_path: Path) -> None:
    """Sigma stays what the network was trained for; the convention needs no words beside the file."""
    proto = network("resnet")
    helper.set_model_props(proto, {"intrs.sigma": "0.5", "intrs.pixels": "byte"})
    out = tmp_path / "int8.onnx"
    quantize(saved(proto, tmp_path / "float.onnx"), data, sigma=SIGMA, out=out, max=16, progress=False)
    said = {entry.key: entry.value for entry in onnx.load(out).metadata_props}
    assert said["intrs.sigma"] == "0.5"
    assert said["intrs.pixels"] == "byte"
    assert said["intrs.calibration"].startswith("sigma 0.12, seed 1, ")


def test_normalisation_goes_into_the_file(data: Any, tmp_path: Path) -> None:
    """mean and std that quantize was told are in the file, and in its input quantiser."""
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.5)
    made = quantize("float.onnx", data, sigma=SIGMA, mean=mean, std=std, max=40, progress=False)
    noisy = divide(open_data(data), Noise.discrete(SIGMA), 1, 40)["check"].all()
    x = (as_input(noisy) - np.reshape(mean, (1, 3, 1, 1))) / np.reshape(std, (1, 3, 1, 1))
    floats = run(onnx.load("float.onnx"), x.astype(np.float32)).argmax(1)
    assert (made.network.predict(noisy) == floats).mean() > 0.95


# ---- images ---------------------------------------------------------------------------------------------------------


def test_no_image_is_in_two_parts(data: Any) -> None:
    parts = divide(open_data(data), Noise.discrete(SIGMA), 3, 50)
    indices = [set(part.images.indices.tolist()) for part in parts.values()]
    assert sum(map(len, indices)) == len(set.union(*indices)) == 50
    assert [len(each) for each in indices] == [13, 13, 24]
    assert parts["check"].draws == 2048 // 24
    drawn = parts["choice"].all()
    assert len(drawn) == len(parts["choice"]) == len(parts["choice"].labels)
    assert len(np.unique(drawn.reshape(len(drawn), -1), axis=0)) == len(drawn)


# ---- ranges ---------------------------------------------------------------------------------------------------------


def histogram(values: NDArray[Any]) -> Histogram:
    low, high = float(values.min()), float(values.max())
    counts = np.histogram(values[values != 0], 2048, (low, high))[0]
    return Histogram(low, high, int((values == 0).sum()), counts)


def squared_error(values: NDArray[Any], limits: tuple[float, float]) -> float:
    low, high = limits
    step = (high - low) / 255
    rounded = np.clip(np.rint((values - low) / step), 0, 255) * step + low
    return float(((rounded - values) ** 2).mean())


def test_ranges() -> None:
    values = np.random.default_rng(0).laplace(0, 1, 100_000)
    seen = histogram(values)
    width = (values.max() - values.min()) / 2048
    assert min_max(seen) == (values.min(), values.max())
    found = percentile(1e-3)(seen)
    np.testing.assert_allclose(found, np.quantile(values, [1e-3, 1 - 1e-3]), atol=2 * width)
    best = squared_error(values, least_squares(seen))
    tried = [squared_error(values, (values.min() * s, values.max() * s)) for s in np.linspace(0.2, 1, 81)]
    assert best < 0.9 * tried[-1]
    assert best < 1.02 * min(tried)


def test_ranges_hold_0() -> None:
    """Which must have a code of its own."""
    for method in METHODS.values():
        low, high = method(histogram(np.random.default_rng(0).uniform(3, 4, 1000)))
        assert low == 0 < high
        low, high = method(histogram(np.maximum(np.random.default_rng(0).normal(0, 1, 1000), 0)))
        assert low == 0 < high


@pytest.mark.parametrize("method", METHODS)
def test_ranges_of_what_is_always_0(method: str) -> None:
    assert METHODS[method](histogram(np.zeros(10))) == (0, 0)


def test_the_choice_is_not_left_to_chance() -> None:
    """Few images decide nothing: then the scores do."""

    def candidate(name: str, wrong: int, error: float) -> Candidate:
        return Candidate(name, onnx.ModelProto(), 1 - wrong / 1000, error)

    close = [candidate("a", 8, 0.3), candidate("b", 10, 0.1), candidate("c", 40, 0.01)]
    assert choose(close, 1000).method == "b"
    assert choose(close[::2], 1000).method == "a"


# ---- bias correction ------------------------------------------------------------------------------------------------


def layer_means(source: Any, made: onnx.ModelProto, taps: Any, images: NDArray[np.int32]) -> dict[str, tuple[Any, Any]]:
    """By layer: mean outputs per channel of the float layer, and of the quantized one on the same inputs, rounded."""
    holding, weights = Holding(made), weights_of(source.proto)
    values: dict[str, list[NDArray[np.float32]]] = {}
    for batch in taps.batches(images):
        for name, value in batch.items():
            values.setdefault(name, []).append(value)
    found = {}
    for node in source.proto.graph.node:
        if node.op_type not in ("Conv", "Gemm"):
            continue
        x = np.concatenate(values[node.input[0]])
        exact = one_node(node, x, weights[node.input[1]], weights[node.input[2]])
        bias = weights_of(source.proto)[node.input[2]]
        rounded = one_node(node, holding.rounded(node.name, x), holding.weight(node.name), bias)
        found[node.name] = exact, rounded
    return found


def one_node(node: onnx.NodeProto, x: Any, weight: Any, bias: Any) -> NDArray[np.float64]:
    values = dict(zip(node.input, (x, weight, bias), strict=True))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, v.shape) for name, v in values.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info(node.output[0], 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    import onnxruntime  # type: ignore[import-untyped, unused-ignore]

    out = onnxruntime.InferenceSession(model.SerializeToString()).run(None, values)[0].astype(np.float64)
    return np.asarray(np.moveaxis(out, 1, 0).reshape(out.shape[1], -1).mean(1))


def test_bias_correction_puts_means_right(data: Any) -> None:
    """On the calibration images every channel of every layer has the float layer's mean, up to float rounding."""
    images = open_data(data)
    source = open_source("float.onnx", images, Convention.of("unit"), 1)
    noisy = divide(images, Noise.discrete(SIGMA), 1, 64)["calibration"].all()
    taps = open_taps(source.proto, source, 1)
    found = {name: (low / 2, high / 2) for name, (low, high) in ranges("min-max", observe(taps, noisy)).items()}
    made = quantized(source, found, taken(noisy[:4], source.gain))  # clips hard, so that there is much to correct
    better = corrected(source, made, taps, noisy)
    before, after = weights_of(source.proto), weights_of(better.proto)
    shifts = layer_means(source, made, taps, noisy)
    assert len(shifts) > 5
    for node in better.proto.graph.node:
        if node.name in shifts:
            wanted, uncorrected = shifts[node.name]
            change = after[node.input[2]].astype(np.float64) - before[node.input[2]]
            assert np.abs(wanted - uncorrected).max() > 1e-3
            np.testing.assert_allclose(uncorrected + change, wanted, atol=2e-5 * max(1, np.abs(wanted).max()))


# ---- graphs as exporters write them ---------------------------------------------------------------------------------


def preactivation(g: Graph) -> onnx.ModelProto:
    """A batch norm after an Add, which no Conv can take up, and a Conv without a bias."""
    x = g.conv("image", 8, bias=False)
    y = g.node("Add", x, g.conv(g.relu(norm(g, x)), 8))
    return g.model(g.gemm(g.node("Flatten", g.node("GlobalAveragePool", g.relu(norm(g, y)))), 8, 10), 10)


def norm(g: Graph, x: str) -> str:
    count = g.channels[x]
    values = [g.rng.uniform(0.5, 2, count), g.rng.normal(0, 1, count), g.rng.normal(0, 1, count)]
    constants = [g.constant(v.astype(np.float32)) for v in (*values, g.rng.uniform(0.5, 2, count))]
    return g.node("BatchNormalization", x, *constants)


def flat_norm(g: Graph) -> onnx.ModelProto:
    """Batch norm after a Gemm."""
    x = norm(g, g.gemm(g.node("Flatten", "image"), 768, 24))
    return g.model(g.gemm(g.relu(x), 24, 10), 10)


def fixed_batch(g: Graph) -> onnx.ModelProto:
    x = g.node("Flatten", g.node("GlobalAveragePool", g.relu(g.conv("image", 8))))
    return g.model(g.gemm(x, 8, 10), 10, batch=3)


def unnamed_size(g: Graph) -> onnx.ModelProto:
    """Height and width are symbols, as exporters write them who were told that all axes are dynamic."""
    proto = NETWORKS["resnet"](g)
    for dim in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.Clear()
        dim.dim_param = "size"
    return proto


def old_opset(g: Graph) -> onnx.ModelProto:
    x = g.node("Flatten", g.node("GlobalAveragePool", g.relu(g.conv("image", 8))))
    return g.model(g.gemm(x, 8, 10), 10, opset=11)


def own_normalisation(g: Graph) -> onnx.ModelProto:
    """Mul and Add of constants before the first layer belong to the input quantiser."""
    constants = [g.constant(np.full((1, 3, 1, 1), v, np.float32)) for v in (2.0, -0.5)]
    x = g.node("Add", g.node("Mul", "image", constants[0]), constants[1])
    g.channels[x] = 3
    x = g.node("Flatten", g.node("GlobalAveragePool", g.relu(g.conv(x, 8))))
    return g.model(g.gemm(x, 8, 10), 10)


@pytest.mark.parametrize("build", [preactivation, flat_norm, fixed_batch, unnamed_size, old_opset, own_normalisation])
def test_other_graphs(build: Callable[[Graph], onnx.ModelProto], data: Any, tmp_path: Path) -> None:
    """As above; margins are small where the head alone was fitted."""
    images, labels = pictures(99, 6)
    proto = with_trained_head(build(Graph(np.random.default_rng(2))), as_input(images), labels)
    made = quantize(saved(proto, tmp_path / "f.onnx"), data, sigma=SIGMA, pixels="unit", max=60, progress=False)
    assert made.agreement > 0.88
    if build is own_normalisation:
        assert len(made.network.layers) == 3  # Conv, mean, Gemm: nothing for Mul and Add


def test_external_data(data: Any, tmp_path: Path) -> None:
    proto = network("resnet")
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    made = quantize(path, data, sigma=SIGMA, pixels="unit", max=40, progress=False)
    assert made.data == quantize("float.onnx", data, sigma=SIGMA, pixels="unit", max=40, progress=False).data
    shutil.move(tmp_path / "weights", tmp_path.parent / "weights-of-quantize")
    with pytest.raises(ModelError, match="'weights' cannot be read"):
        quantize(path, data, sigma=SIGMA, pixels="unit", progress=False)


# ---- PyTorch --------------------------------------------------------------------------------------------------------


def test_modules_and_exported_programs(data: Any) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    parts = torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)
    module = torch.nn.Sequential(*parts, torch.nn.Flatten(), torch.nn.Linear(8, 10)).eval()
    with torch.no_grad():
        module[-1].weight *= 20
    made = quantize(module, data, sigma=SIGMA, pixels="unit", max=40, progress=False)
    assert made.agreement > 0.9
    assert made.network.input_shape == (16, 16, 3)
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (torch.zeros(2, 3, 16, 16),), dynamic_shapes=({0: batch},))
    again = quantize(program, data, sigma=SIGMA, pixels="unit", max=40, progress=False)
    assert again.network.identity == made.network.identity


# ---- refusals -------------------------------------------------------------------------------------------------------


def with_node(op: str, **attributes: Any) -> Callable[[Graph], onnx.ModelProto]:
    def build(g: Graph) -> onnx.ModelProto:
        x = g.node(op, g.conv("image", 8), *attributes.pop("constants", ()), **attributes)
        return g.model(g.gemm(g.node("Flatten", g.node("GlobalAveragePool", x)), 8, 10), 10)

    return build


def transformer(g: Graph) -> onnx.ModelProto:
    scale = g.constant(np.ones(16, np.float32))
    x = g.node("LayerNormalization", g.conv("image", 8), scale)
    return g.model(g.gemm(g.node("Flatten", g.node("GlobalAveragePool", x)), 8, 10), 10)


def two_inputs(g: Graph) -> onnx.ModelProto:
    proto = NETWORKS["resnet"](g)
    proto.graph.input.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, [1]))
    return proto


def channels_last(g: Graph) -> onnx.ModelProto:
    x = g.node("Transpose", "image", perm=[0, 3, 1, 2])
    g.channels[x] = 3
    proto = g.model(g.gemm(g.node("Flatten", g.node("GlobalAveragePool", g.conv(x, 8))), 8, 10), 10)
    for dim, size in zip(proto.graph.input[0].type.tensor_type.shape.dim[1:], (16, 16, 3), strict=True):
        dim.dim_value = size
    return proto


def already_quantized(g: Graph) -> onnx.ModelProto:
    scale, zero = g.constant(np.array(0.1, np.float32)), g.constant(np.array(0, np.uint8))
    x = g.node("DequantizeLinear", g.node("QuantizeLinear", "image", scale, zero), scale, zero)
    g.channels[x] = 3
    return g.model(g.gemm(g.node("Flatten", g.node("GlobalAveragePool", g.conv(x, 8))), 8, 10), 10)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (transformer, "it has LayerNormalization; this is a transformer"),
        (with_node("Det"), "ONNX Runtime cannot run it"),
        (with_node("Hardmax"), "the operator Hardmax is not supported"),
        (two_inputs, "it has 2 inputs; intrs needs exactly one"),
        (channels_last, r"its input is \(batch, height, width, channels\)"),
        (already_quantized, "it is quantized already"),
    ],
)
def test_what_is_refused(build: Callable[[Graph], onnx.ModelProto], words: str, data: Any, tmp_path: Path) -> None:
    path = saved(build(Graph(np.random.default_rng(0))), tmp_path / "refused.onnx")
    with pytest.raises(ModelError, match=words) as caught:
        quantize(path, data, sigma=SIGMA, pixels="unit", out=tmp_path / "out.onnx", progress=False)
    assert "refused.onnx" in str(caught.value)
    assert not (tmp_path / "out.onnx").exists()


def test_other_mistakes(data: Any, here: Path) -> None:
    images, labels = data
    with pytest.raises(SettingsError, match="does not say for which noise"):
        quantize("float.onnx", data, pixels="unit")
    with pytest.raises(DataError, match="at least 8"):
        quantize("float.onnx", (images[:5], labels[:5]), sigma=SIGMA, pixels="unit")
    with pytest.raises(DataError, match=r"images of 8 x 16 x 3 .*, but float\.onnx takes 16 x 16 x 3"):
        quantize("float.onnx", (images[:, :8], labels), sigma=SIGMA, pixels="unit")
    with pytest.raises(DataError, match=r"labels up to 10, but float\.onnx has 10 classes"):
        quantize("float.onnx", (images, labels + (labels == 9)), sigma=SIGMA, pixels="unit")
    with pytest.raises(SettingsError, match="mean has 2 numbers"):
        quantize("float.onnx", data, sigma=SIGMA, mean=(0.5, 0.5))
    with pytest.raises(ModelError, match="a Network is quantized already"):
        quantize(package.load("resnet8-sigma0.25"), data, sigma=SIGMA)
    with pytest.raises(ResultsError, match="is what is to be read"):
        quantize("float.onnx", data, sigma=SIGMA, pixels="unit", out="float.onnx", overwrite=True)


def test_labels_mean_the_same_as_to_certify(data: Any, tmp_path: Path) -> None:
    """By name where names are known, and never by number where the classes are others."""
    images, labels = data
    settings: dict[str, Any] = {"sigma": SIGMA, "pixels": "unit", "max": 40, "progress": False}
    names = [f"class {i}" for i in range(10)]
    plain = quantize("float.onnx", data, **settings)
    turned = Images("turned", images, 9 - labels, np.arange(COUNT), tuple(reversed(names)))
    assert quantize("float.onnx", turned, names=names, **settings).accuracy == plain.accuracy
    assert quantize("float.onnx", turned, by_number=True, **settings).accuracy != plain.accuracy
    with pytest.raises(ClassesError, match="classes that the model does not know by name"):
        quantize("float.onnx", turned, names=[*names[:9], "other"], **settings)
    with pytest.raises(SettingsError, match="names: 2 names for 10 classes"):
        quantize("float.onnx", data, names="cat,dog", **settings)
    with pytest.raises(DataError, match=r"has 2 classes, but .* has 10: a label would not mean the same"):
        quantize("float.onnx", Images("two", images, labels % 2, np.arange(COUNT), ("cat", "dog")), **settings)


def test_images_without_labels(data: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"sigma": SIGMA, "pixels": "unit", "max": 40, "progress": False}
    np.savez(tmp_path / "bare.npz", images=data[0])
    made = [quantize("float.onnx", given, **settings) for given in (data[0], tmp_path / "bare.npz")]
    assert [(each.accuracy, each.loss, each.path) for each in made] == [({}, 0, None)] * 2
    assert "agrees with the float network on" in repr(made[0])
    assert made[0].data == made[1].data == quantize("float.onnx", data, **settings).data
    with pytest.raises(ModelError, match=r"Give pixels, and mean and std if it wants them$"):
        quantize("float.onnx", data[0], sigma=SIGMA)


def test_a_damaged_training_split_is_not_passed_over(data: Any, tmp_path: Path) -> None:
    """Else test images would calibrate."""
    np.savez(tmp_path / "test.npz", images=data[0], labels=data[1])
    (tmp_path / "train.npz").write_bytes((tmp_path / "test.npz").read_bytes()[:9999])
    with pytest.raises(DataError, match=r"train\.npz"):
        quantize("float.onnx", tmp_path, sigma=SIGMA, pixels="unit", max=16)


def test_no_noise_of_a_certificate_with_the_same_seed(data: Any) -> None:
    """What chose the network must be independent of the noise that certifies it."""
    noise = Noise.discrete(SIGMA)
    part = divide(open_data(data), noise, 1)["check"]
    certified = noisy_images(part.images.images[0], noise, Samples(1, int(part.images.indices[0]), 0, part.draws))
    assert (part.all()[: part.draws] != certified).mean() > 0.5


def test_an_unknown_convention_is_named(data: Any) -> None:
    """The error says how often the network is right under the usual ones, the best first."""
    with pytest.raises(ModelError, match=r"Right answers on 160 clean images, with\n(\d+) %: pixels=unit\n") as caught:
        quantize("float.onnx", data, sigma=SIGMA)
    shares = [int(line.split(" %")[0]) for line in str(caught.value).splitlines()[1:]]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == 5


def test_without_onnx_runtime(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.quantization.source.find_spec", lambda name: None)
    with pytest.raises(IntrsError, match=r"pip install 'intrs\[quantize\]'"):
        quantize("float.onnx", data, sigma=SIGMA)


# ---- the command ----------------------------------------------------------------------------------------------------


def test_from_float_to_certificate_in_two_commands(intrs: Any, here: Path) -> None:
    given = "--sigma", SIGMA, "--pixels", "unit", "--max", "64"
    code, out, _ = intrs("quantize", "float.onnx", "images.npz", *given, "-o", "made.onnx")
    assert code == 0
    assert "(chosen)" in out
    following = out.strip().splitlines()[-1].split()
    assert " ".join(following) == "intrs certify made.onnx images.npz --sigma 0.12 --n 10000 --max 10"
    code, out, _ = intrs(*following[1:6], "--n", "1000", "--max", "2", "-o", "run.tsv")
    assert code == 0
    assert "Certified accuracy" in out


def test_a_file_is_not_replaced_unasked(intrs: Any, here: Path) -> None:
    (here / "there.onnx").write_bytes(b"precious")
    arguments = "quantize", "float.onnx", "images.npz", "--sigma", SIGMA, "--pixels", "unit", "--max", "16"
    code, _, err = intrs(*arguments, "-o", "there.onnx")
    assert code == 2
    assert "there.onnx exists" in err
    assert (here / "there.onnx").read_bytes() == b"precious"
    assert intrs(*arguments, "-o", "there.onnx", "--overwrite")[0] == 0
    assert package.load(here / "there.onnx").classes == 10


def test_interrupted_work_leaves_nothing(data: Any, tmp_path: Path) -> None:
    def stop(progress: Any) -> None:
        if progress.note == "check":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize(
            "float.onnx", data, sigma=SIGMA, pixels="unit", max=16, out=tmp_path / "out.onnx", progress=stop
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_a_network_that_noise_defeats_is_named(intrs: Any, here: Path) -> None:
    arguments = "quantize", "float.onnx", "images.npz", "--sigma", "1", "--pixels", "unit", "--max", "64"
    code, _, err = intrs(*arguments, "-o", "defeated.onnx")
    assert code == 0
    assert "it was not trained under this noise" in err


def test_constants_are_kept(data: Any) -> None:
    """A network whose last layer is quantized by nothing has scores that are not rounded to 8 bits."""
    made = quantize("float.onnx", data, sigma=SIGMA, pixels="unit", max=16, progress=False)
    proto = onnx.load_from_string(made.data)
    assert proto.graph.node[-1].op_type == "Gemm"
    assert not any(numpy_helper.to_array(t).dtype == np.float32 and t.dims and len(t.dims) > 1
                   for t in proto.graph.initializer)  # fmt: skip
    scores = made.network.scores(open_data(data).images[:8].astype(np.int32))
    assert np.abs(scores).max() > 1000
