"""ResNet-50: published weights in both forms, and a small network of its kind from such weights to a certificate."""

from __future__ import annotations

import io
import json
import pickle
import re
import tarfile
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import intrs
from intrs.cli import main
from intrs.cli.start import INTERRUPTED
from intrs.errors import IntrsError
from intrs.training import tfjs

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
architectures, bottleneck, engine, pretrained, quant = (
    import_module(f"intrs.training.{name}") for name in ("architectures", "bottleneck", "engine", "pretrained", "quant")
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

BLOCKS, WIDTHS, CLASSES, SIDE = (1, 2, 1, 1), (4, 4, 6, 8), 5, 32
NORMS = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


# --- Made-up weights by the publishers' names, and what they mean ----------------------------------------------------


def convolutions() -> list[tuple[str, str, str, str, tuple[int, int, int]]]:
    """(torchvision's conv, its norm, Keras' conv, its norm, (out, in, kernel)) of a small ResNet-50."""
    found = [("conv1", "bn1", "conv1", "bn_conv1", (WIDTHS[0], 3, 7))]
    cin = WIDTHS[0]
    for stage, (count, width) in enumerate(zip(BLOCKS, WIDTHS, strict=True)):
        for i in range(count):
            here, there = f"layer{stage + 1}.{i}", f"{stage + 2}{'abcdef'[i]}_branch"
            shapes = ((width, cin, 1), (width, width, 3), (4 * width, width, 1))
            for k, shape in enumerate(shapes, 1):
                names = (f"{here}.conv{k}", f"{here}.bn{k}", f"res{there}2{'.abc'[k]}", f"bn{there}2{'.abc'[k]}")
                found.append((*names, shape))
            if i == 0:
                names = (f"{here}.downsample.0", f"{here}.downsample.1", f"res{there}1", f"bn{there}1")
                found.append((*names, (4 * width, cin, 1)))
            cin = 4 * width
    return found


def made_up(seed: int, classes: int = CLASSES) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Random weights by torchvision's names, and others by Keras'."""
    random = np.random.default_rng(seed)

    def draw(*shape: int, scale: float = 1.0, about: float = 0.0) -> Floats:
        return (about + scale * random.normal(size=shape)).astype(np.float32)

    torchvision: dict[str, Floats] = {}
    keras: dict[str, Floats] = {}
    for conv, norm, keras_conv, keras_norm, (cout, cin, k) in convolutions():
        scale = (2 / (cin * k * k)) ** 0.5
        torchvision[f"{conv}.weight"] = draw(cout, cin, k, k, scale=scale)
        keras[f"{keras_conv}/kernel"] = draw(k, k, cin, cout, scale=scale / (57 if conv == "conv1" else 1))
        keras[f"{keras_conv}/bias"] = draw(cout)
        for keras_part, part in NORMS.items():
            about, spread = (1.0, 0.2) if part in ("weight", "running_var") else (0.0, 0.3)
            torchvision[f"{norm}.{part}"] = draw(cout, scale=spread, about=about)
            keras[f"{keras_norm}/{keras_part}"] = draw(cout, scale=spread, about=about)
        for name in (f"{norm}.running_var", f"{keras_norm}/moving_variance"):
            (torchvision if "." in name else keras)[name] = (0.002 + random.random(cout)).astype(np.float32)
    features = 4 * WIDTHS[-1]
    torchvision |= {"fc.weight": draw(classes, features), "fc.bias": draw(classes)}
    keras |= {"fc1000/kernel": draw(features, classes), "fc1000/bias": draw(classes)}
    return torchvision, keras


def forward(conv: Callable[[int, Any, int, int], Any], x: Any, stride_first: bool) -> Any:
    """The features of a ResNet-50; conv(i, x, stride, pad) is the i-th convolution above with its batch norm."""
    x = torch.relu(conv(0, x, 2, 3))
    x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
    i = 1
    for stage, count in enumerate(BLOCKS):
        for block in range(count):
            stride = 2 if stage and block == 0 else 1
            first, second = (stride, 1) if stride_first else (1, stride)
            y = torch.relu(conv(i, x, first, 0))
            y = torch.relu(conv(i + 1, y, second, 1))
            y = conv(i + 2, y, 1, 0)
            if block == 0:
                x = conv(i + 3, x, stride, 0)
            i += 4 if block == 0 else 3
            x = torch.relu(x + y)
    return x.mean((2, 3))


def torchvision_logits(weights: dict[str, Floats], pixels: Floats) -> Any:
    """By torchvision's conventions, for pixels (n, height, width, RGB) 0..255."""
    w = {name: torch.tensor(value) for name, value in weights.items()}
    names = convolutions()

    def conv(i: int, x: Any, stride: int, pad: int) -> Any:
        name, norm = names[i][:2]
        y = torch.nn.functional.conv2d(x, w[f"{name}.weight"], None, stride, pad)
        mean, var, gamma, beta = (w[f"{norm}.{p}"] for p in ("running_mean", "running_var", "weight", "bias"))
        return torch.nn.functional.batch_norm(y, mean, var, gamma, beta, eps=1e-5)

    x = torch.tensor((pixels / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).float().permute(0, 3, 1, 2)
    return forward(conv, x, stride_first=False) @ w["fc.weight"].T + w["fc.bias"]


def keras_logits(weights: dict[str, Floats], pixels: Floats) -> Any:
    """By Keras' conventions, for the same pixels."""
    w = {name: torch.tensor(value) for name, value in weights.items()}
    names = convolutions()

    def conv(i: int, x: Any, stride: int, pad: int) -> Any:
        name, norm = names[i][2:4]
        kernel = w[f"{name}/kernel"].permute(3, 2, 0, 1)
        y = torch.nn.functional.conv2d(x, kernel, w[f"{name}/bias"], stride, pad)
        parts = ("moving_mean", "moving_variance", "gamma", "beta")
        mean, var, gamma, beta = (w[f"{norm}/{part}"].reshape(1, -1, 1, 1) for part in parts)
        return (y - mean) / (var + 1e-3).sqrt() * gamma + beta

    bgr = pixels[..., ::-1] - np.array([103.939, 116.779, 123.68])
    x = torch.tensor(bgr.copy()).float().permute(0, 3, 1, 2)
    return forward(conv, x, stride_first=True) @ w["fc1000/kernel"] + w["fc1000/bias"]


def save_tfjs(folder: Path, weights: dict[str, Floats], **changes: Any) -> Path:
    """As the converter writes it: bytes cut into shards wherever it happens."""
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(value.tobytes() for value in weights.values())
    third = len(data) // 3 + 1
    paths = [f"group1-shard{i + 1}of3.bin" for i in range(3)]
    for i, path in enumerate(paths):
        (folder / path).write_bytes(data[i * third : (i + 1) * third])
    entries = [{"name": name, "shape": list(value.shape), "dtype": "float32"} for name, value in weights.items()]
    model = {"format": "layers-model", "weightsManifest": [{"paths": paths, "weights": entries}]} | changes
    (folder / "model.json").write_text(json.dumps(model))
    return folder


def small(form: Any, classes: int = CLASSES) -> Any:
    torch.manual_seed(0)
    return bottleneck.BottleneckNet(classes, form, BLOCKS, WIDTHS).eval()


def some_pixels(count: int = 4) -> Floats:
    return np.random.default_rng(4).integers(0, 256, (count, SIDE, SIDE, 3)).astype(np.float32)


def logits(model: Any, pixels: Floats) -> Any:
    with torch.no_grad():
        return model(torch.tensor(pixels / 255).permute(0, 3, 1, 2))


@pytest.fixture
def torchvision_file(tmp_path: Path) -> Path:
    path = tmp_path / "resnet50.pth"
    torch.save({name: torch.tensor(value) for name, value in made_up(1)[0].items()}, path)
    return path


# --- Reading ---------------------------------------------------------------------------------------------------------


def test_torchvision(torchvision_file: Path) -> None:
    read = pretrained.read(torchvision_file, "resnet50", bottleneck.TORCHVISION)
    model = small(bottleneck.TORCHVISION)
    read.put(model)
    wanted = torchvision_logits(made_up(1)[0], some_pixels())
    torch.testing.assert_close(logits(model, some_pixels()), wanted, rtol=1e-3, atol=1e-3)
    plain = torchvision_file.with_suffix(".safetensors")
    import_module("safetensors.torch").save_file(read.tensors, plain)
    assert pretrained.read(plain, "resnet50", bottleneck.TORCHVISION).sha256 == read.sha256


def test_keras(tmp_path: Path) -> None:
    weights = made_up(2)[1]
    folder = save_tfjs(tmp_path / "package/ResNet50", weights)
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        tar.add(tmp_path / "package", "package")
    wanted, hashes = keras_logits(weights, some_pixels()), set()
    for path in (folder, folder / "model.json", tmp_path, tmp_path / "x.tgz"):
        read = pretrained.read(path, "resnet50-v1", bottleneck.KERAS)
        hashes.add(read.sha256)
        model = small(bottleneck.KERAS)
        read.put(model)
        torch.testing.assert_close(logits(model, some_pixels()), wanted, rtol=1e-3, atol=1e-3)
    assert len(hashes) == 1
    other = dict(weights) | {"conv1/bias": weights["conv1/bias"] + 1}
    assert pretrained.read(save_tfjs(folder, other), "resnet50-v1", bottleneck.KERAS).sha256 not in hashes


def test_another_number_of_classes_begins_anew(torchvision_file: Path) -> None:
    model, fresh = small(bottleneck.TORCHVISION, 7), small(bottleneck.TORCHVISION, 7)
    pretrained.read(torchvision_file, "resnet50", bottleneck.TORCHVISION).put(model)
    assert torch.equal(model.fc.weight, fresh.fc.weight)
    assert not torch.equal(model.stem.weight, fresh.stem.weight)


def test_the_real_ones_have_the_right_shapes() -> None:
    """25,557,032 parameters with 1,000 classes, as published; Keras has 26,560 biases and 53,120 statistics besides."""
    for name in ("resnet50", "resnet50-v1"):
        kind = architectures.architecture(name)
        with torch.device("meta"):
            model = kind.build(architectures.Task((224, 224, 3), 1000, [], []))
        scales = sum(1 for layer in model.modules() if isinstance(layer, quant.ActQuant))
        assert sum(p.numel() for p in model.parameters()) - scales == 25_557_032
        strides = tuple(conv.window.stride[0] for conv in (model.layer2[0].conv1, model.layer2[0].conv2))
        assert strides == ((2, 1) if name == "resnet50-v1" else (1, 2))


class Tripwire:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was run",))


def test_pickles_are_not_run(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    for data in (pickle.dumps({"conv1.weight": Tripwire()}), b"", b"rubbish", b"PK\x05\x06" + bytes(18)):
        path.write_bytes(data)
        with pytest.raises(IntrsError, match="cannot read this as weights alone"):
            pretrained.read(path, "resnet50", bottleneck.TORCHVISION)
    buffer = io.BytesIO()
    torch.save({"conv1.weight": Tripwire()}, buffer)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(IntrsError, match="cannot read this as weights alone"):
        pretrained.read(path, "resnet50", bottleneck.TORCHVISION)
    torch.save([torch.ones(2)], path)
    with pytest.raises(IntrsError, match="not a state_dict"):
        pretrained.read(path, "resnet50", bottleneck.TORCHVISION)


def test_weights_that_do_not_fit(tmp_path: Path, torchvision_file: Path) -> None:
    weights = {name: torch.tensor(value) for name, value in made_up(1)[0].items()}
    for change, words in (
        ({"conv1.weight": torch.ones(4, 3, 3, 3)}, "a tensor of stem has the shape [4, 3, 3, 3], not [4, 3, 7, 7]"),
        ({"bn1.running_var": torch.full((4,), float("nan"))}, "bn1.running_var is not finite"),
        ({"layer2.0.downsample.1.bias": None}, "no tensor 'layer2.0.downsample.1.bias'"),
    ):
        path = tmp_path / "changed.pth"
        torch.save({name: value for name, value in (weights | change).items() if value is not None}, path)
        with pytest.raises(IntrsError, match=re.escape(words)):
            pretrained.read(path, "resnet50", bottleneck.TORCHVISION).put(small(bottleneck.TORCHVISION))
    (tmp_path / "x.h5").write_bytes(b"")
    for path, name, form, words in (
        (torchvision_file, "resnet50-v1", bottleneck.KERAS, "weights of this form are those of resnet50"),
        (save_tfjs(tmp_path / "k", made_up(2)[1]), "resnet50", bottleneck.TORCHVISION, "are those of resnet50-v1"),
        (tmp_path / "none.pth", "resnet50", bottleneck.TORCHVISION, "no such file"),
        (tmp_path, "resnet50-v1", bottleneck.KERAS, "model.json is missing"),
        (tmp_path / "x.h5", "resnet50", bottleneck.TORCHVISION, "ImageNet weights are"),
    ):
        with pytest.raises(IntrsError, match=re.escape(words)):
            pretrained.read(path, name, form)


def entry(**changes: Any) -> dict[str, Any]:
    return {"paths": ["a.bin"], "weights": [{"name": "w", "shape": [2], "dtype": "float32"} | changes]}


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (None, "no weightsManifest"),
        ([], "weightsManifest is empty"),
        ([3], "no weightsManifest"),
        ([{"paths": "a.bin", "weights": []}], "no paths or no weights"),
        ([entry(name=3)], "a tensor without a name"),
        ([entry(shape=[-2])], "has the shape"),
        ([entry(shape=[True, 2])], "has the shape"),
        ([entry(shape=[2**20] * 8)], "more than"),
        ([entry(shape=[1] * 9)], "has no shape"),
        ([entry(dtype="uint8")], "not plain float32"),
        ([entry(quantization={"min": 0})], "not plain float32"),
        ([entry(), entry()], "twice"),
        ([entry(shape=[3])], "8 bytes of the 12"),
        ([entry(shape=[1])], "more than the 4 bytes"),
        ([entry() | {"paths": ["../a.bin"]}], "../a.bin is missing"),
    ],
)
def test_malformed_tfjs(tmp_path: Path, manifest: Any, words: str) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/a.bin").write_bytes(np.ones(2, "<f4").tobytes())
    (tmp_path / "a.bin").write_bytes(b"not to be read")
    (tmp_path / "m/model.json").write_text(json.dumps({"weightsManifest": manifest}))
    with pytest.raises(IntrsError, match=re.escape(words)):
        tfjs.read(tmp_path / "m")


def test_malformed_tfjs_json(tmp_path: Path) -> None:
    for text in ("{", "[" * 100_000, "[]"):
        (tmp_path / "model.json").write_text(text)
        with pytest.raises(IntrsError, match=r"not that of a TensorFlow\.js model"):
            tfjs.read(tmp_path / "model.json")


# --- The whole way ---------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """A small network of this kind among the known ones."""
    form = bottleneck.KERAS
    kind = architectures.Architecture(lambda task: small(form, task.classes), smallest=SIDE, form=form)
    monkeypatch.setitem(architectures._KNOWN, "tiny", lambda _: kind)
    monkeypatch.setattr(import_module("intrs.training.memory"), "keep_freed_memory", lambda: True)
    return "tiny"


def save_data(folder: Path) -> Path:
    """Reddish, greenish and bluish squares: noise of sigma 0.25 does not hide them."""
    folder.mkdir()
    for split, count, seed in (("train", 240, 1), ("test", 48, 2)):
        random, labels = np.random.default_rng(seed), np.arange(count) % 3
        images = random.integers(40, 90, (count, SIDE, SIDE, 3))
        for image, label in zip(images, labels, strict=True):
            image[6:26, 6:26, label] += 150
        np.savez(folder / f"{split}.npz", images=images.astype(np.uint8), labels=labels)
    return folder


def test_from_published_weights_to_a_certificate(
    tmp_path: Path, tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, weights = save_data(tmp_path / "squares"), save_tfjs(tmp_path / "weights", made_up(3)[1])
    options = ["--sigma", "0.25", "--epochs", "6", "--qat-epochs", "2", "--batch", "16", "--lr", "0.05", "--no-flip"]
    options += ["--weights", str(weights), "--train-from", "layer2", "--threads", "1", "--qat-lr", "0.01"]

    def command(folder: str) -> int:
        return main(["train", str(data), tiny, str(tmp_path / folder), *options])

    assert command("one") == 0
    out = capsys.readouterr().out
    assert "weights   weights; trained from layer2 on" in out
    run = tmp_path / "one"
    results, card = (json.loads((run / name).read_text()) for name in ("results.json", "tiny-sigma0.25.json"))
    log = json.loads((run / "state.json").read_text())["log"]
    assert log[-1]["loss"] < 0.5 * log[0]["loss"]
    assert all(value > 0.85 for value in results["noisy_accuracy"].values()), results  # of three classes
    assert results["agreement"] >= 0.95  # of 48 images
    assert card["recipe"]["weights"] == "weights"
    assert "tmp" not in json.dumps(card)
    check_frozen(run, weights)
    check_certificate(run, data)
    check_float_file(run, data)

    whole = engine.Training._epoch

    def stop(self: Any, epoch: int) -> Any:
        if epoch in (1, 7) and len(self.kept.log) == epoch and (epoch, "seen") not in stopped:
            stopped.add((epoch, "seen"))
            raise KeyboardInterrupt
        return whole(self, epoch)

    stopped: set[tuple[int, str]] = set()
    monkeypatch.setattr(engine.Training, "_epoch", stop)
    assert [command("two") for _ in range(3)] == [INTERRUPTED, INTERRUPTED, 0]
    for name in ("float.safetensors", "epoch-008.safetensors", "tiny-sigma0.25.onnx"):
        assert (tmp_path / "two" / name).read_bytes() == (run / name).read_bytes()


def check_frozen(run: Path, weights: Path) -> None:
    """Frozen weights are the published ones; their statistics were set by noisy images once, and never again."""
    load = import_module("safetensors.torch").load_file
    at_end = {k[6:]: v for k, v in load(run / "epoch-008.safetensors").items() if k.startswith("model.")}
    float_end = load(run / "float.safetensors")
    published = small(bottleneck.KERAS, 3)
    pretrained.read(weights, "tiny", bottleneck.KERAS).put(published)
    for name, value in published.state_dict().items():
        if name.startswith(("stem", "layer1")) and not name.endswith("scale"):
            assert torch.equal(at_end[name], float_end[name]), name
            statistics = "running" in name or "tracked" in name
            assert torch.equal(at_end[name], value) != statistics, name
    assert not torch.equal(at_end["layer2.0.conv1.weight"], published.layer2[0].conv1.weight)


def check_certificate(run: Path, data: Path) -> None:
    network = intrs.load(run / "tiny-sigma0.25.onnx")
    smooth = intrs.Smooth(network, intrs.Noise.of("discrete", "0.25"), seed=1)
    test = intrs.open_data(data, "test")
    outcomes = [smooth.certify(test.images[i], n0=50, n=500, index=i) for i in range(6)]
    right = [o for i, o in enumerate(outcomes) if isinstance(o, intrs.Certified) and o.label == test.labels[i]]
    assert len(right) >= 4


def check_float_file(run: Path, data: Path) -> None:
    """ONNX Runtime on the fp32 file against PyTorch on the weights that it came from."""
    runtime = pytest.importorskip("onnxruntime")
    model = small(bottleneck.KERAS, 3)
    model.load_state_dict(import_module("safetensors.torch").load_file(run / "float.safetensors"))
    pixels = intrs.open_data(data, "test").images[:8].astype(np.float32)
    session = runtime.InferenceSession(str(run / "tiny-sigma0.25-fp32.onnx"), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"image": np.ascontiguousarray((pixels / 255).transpose(0, 3, 1, 2))})
    np.testing.assert_allclose(found, logits(model, pixels).numpy(), rtol=1e-3, atol=1e-3)


def test_nearly_dead_channels_do_not_stretch_the_scales() -> None:
    """Batch norm of published networks has channels of factor 1e-9; what they compute stays, to a ten-thousandth."""
    torch.manual_seed(1)
    layer = quant.ConvBN(16, 8, 1).eval()
    with torch.no_grad():
        layer.bn.weight[3], layer.bn.bias[3] = 1e-9, 0.01
        layer.bn.weight[5], layer.bn.bias[5] = 1e-9, 0.0
        layer.bn.weight[6] = 0.01  # small, but alive: as it was
    x = torch.arange(256.0).reshape(1, 16, 4, 4) / 256
    folded = quant.Folded(layer, torch.tensor(1 / 256))
    assert float(folded.scale.max() / folded.scale.min()) <= 2**12 * 1.001
    quant.set_mode(layer, "quant")
    with torch.no_grad():
        torch.testing.assert_close(folded(x), layer(x), rtol=1e-3, atol=1e-4)
    assert bool((folded.codes[6].abs().max() == 127).all())


def test_large_images_come_in_small_batches() -> None:
    """So that a network with 224 x 224 images fits into memory; the classes of all are asked for once each."""
    batches, recipe = import_module("intrs.training.batches"), import_module("intrs.training.recipe")
    images = intrs.Images("x", np.zeros((23, 224, 224, 3), np.uint8), np.zeros(23, np.int64), np.arange(23))
    made = batches.HeldOut(images, recipe.Recipe("resnet50", "x", "", "0.25"))
    sizes = [len(batch) for batch in made.batches()]
    assert sum(sizes) == 23
    assert max(sizes) <= 13
