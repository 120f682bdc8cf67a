"""Architectures of a user's own: adopted, trained with quantization, exported to the integers that are certified."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_training import CLASSES, SIDE, read, save_folder, stripes, weights

import intrs
from intrs.cli import main
from intrs.errors import IntrsError, ModelError, SettingsError
from intrs.exchange.pytorch import module_to_onnx
from intrs.training.recipe import Recipe

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from torch.nn.functional import elu  # noqa: E402

from intrs.training import adopt, onnx_in, onnx_out, quant, sources  # noqa: E402
from intrs.training.batches import to_input  # noqa: E402

SHAPE = (SIDE, SIDE, 3)
SHIPPED = Path(intrs.zoo.__file__).parent / "resnet8-sigma0.25.onnx"
SHORT: dict[str, Any] = {"sigma": 0.25, "epochs": 2, "qat_epochs": 2, "batch": 32, "lr": 0.05, "threads": 1}
MODULE = '''
import torch
from torch import nn
from torch.nn import functional as F


class SqueezeExcite(nn.Module):
    def __init__(self, c, linear):
        super().__init__()
        self.linear = linear
        self.a = nn.Linear(c, c // 2) if linear else nn.Conv2d(c, c // 2, 1)
        self.b = nn.Linear(c // 2, c) if linear else nn.Conv2d(c // 2, c, 1)

    def forward(self, x):
        n, c = x.shape[:2]
        y = x.mean((2, 3)) if self.linear else F.adaptive_avg_pool2d(x, 1)
        y = F.hardsigmoid(self.b(F.relu(self.a(y))))
        return x * y.view(n, c, 1, 1)


class Net(nn.Module):
    """Branches, squeeze and excite, h-swish, a depthwise layer, batch norm before and behind, a dense connection."""

    def __init__(self, width=8, act="Hardswish", linear=False, classes=3, tail=None):
        super().__init__()
        act = getattr(nn, act)
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), act())
        self.depthwise = nn.Conv2d(width, width, (3, 5), 2, (1, 2), groups=width)
        self.norm, self.act = nn.BatchNorm2d(width), act()
        self.se = SqueezeExcite(width, linear)
        self.pre, self.branch = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding="same")
        self.pool, self.drop = nn.MaxPool2d(2), nn.Dropout(0.1)
        self.tail = tail or nn.Identity()
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.stem((x - 0.5) / 0.25)
        x = self.act(self.norm(self.depthwise(x)))
        x = x + self.se(x)
        y = self.branch(F.relu6(self.pre(x)))
        x = self.pool(torch.cat([x, y], 1))
        x = self.tail(F.avg_pool2d(x, 3))
        return F.log_softmax(self.fc(self.drop(torch.flatten(x, 1))), dim=1)
'''
ACTIVATIONS = ("Hardswish", "SiLU", "LeakyReLU", "GELU", "ELU", "Mish", "PReLU")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data") / "stripes"
    save_folder(root, "train", 96, 5)
    save_folder(root, "test", 60, 6)
    return root


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("code") / "mynet.py"
    path.write_text(MODULE)
    return path


def net(code: Path, arguments: str = "", seed: int = 1) -> Any:
    return sources.open_source(f"{code}:Net({arguments})", seed).module


def settled(module: Any) -> Any:
    """The module with statistics of noisy images, so that its layers neither die nor explode."""
    module.train()
    with torch.no_grad():
        for _ in range(8):
            module(torch.rand(32, 3, SIDE, SIDE) * 1.5 - 0.25)
    return module.eval()


# --- The network -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_integers_are_those_of_the_simulated_network(code: Path, tmp_path: Path, act: str) -> None:
    """The module against its adopted form in float, and the folded network against the lowered one, score by score."""
    torch.manual_seed(2)
    module = settled(net(code, f"act={act!r}, linear={act == 'SiLU'}"))
    adopted = adopt.adopt(module, SHAPE, CLASSES, None)
    x = torch.rand(20, 3, SIDE, SIDE)
    with torch.no_grad():
        assert float((adopted.eval()(x).log_softmax(1) - module(x)).abs().max()) < 1e-4
    quant.calibrate(adopted, lambda: torch.rand(32, 3, SIDE, SIDE) * 1.5 - 0.25, 2)
    folded = quant.fold(adopted)
    onnx_out.save_onnx(folded, tmp_path / "q.onnx", (3, SIDE, SIDE), CLASSES)
    network = intrs.load(tmp_path / "q.onnx")
    noisy = stripes(120, 9)[0] + np.random.default_rng(1).normal(0, 64, (120, *SHAPE)).round().astype(np.int32)
    with torch.no_grad():
        logits = folded.double()(to_input(noisy, torch.float64)).numpy()
        simulated = adopted.double().eval()(to_input(noisy, torch.float64)).numpy()
    scores = network.scores(noisy.astype(np.int32))
    unit = (scores * logits).sum() / (logits**2).sum()
    difference = np.abs(scores / unit - logits) / np.ptp(logits)
    assert (difference < 1e-6).mean() > 0.95
    assert (scores.argmax(1) == simulated.argmax(1)).mean() >= 0.97


def test_both_exporters_lead_to_the_same_module(code: Path, tmp_path: Path) -> None:
    module = settled(net(code, "linear=True"))
    x = torch.rand(7, 3, SIDE, SIDE)
    for exporter in ("default", "torchscript"):
        path = tmp_path / f"{exporter}.onnx"
        path.write_bytes(module_to_onnx(module, SHAPE, exporter))
        found = onnx_in.read_module(path)
        with torch.no_grad():
            assert float((found.eval()(x) - module(x)).abs().max()) < 1e-5
        adopt.adopt(found, SHAPE, CLASSES, None)


def test_a_quantized_or_foreign_onnx_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"rubbish")
    with pytest.raises(ModelError, match=r"x\.onnx"):
        onnx_in.read_module(path)
    with pytest.raises(ModelError, match="quantized already"):
        onnx_in.read_module(SHIPPED)


def _with(tail: Any) -> Any:
    class Tailed(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.tail, self.fc = torch.nn.Conv2d(3, 4, 3), tail, torch.nn.Linear(4, CLASSES)

        def forward(self, x: Any) -> Any:
            x = self.tail(self.conv(x)) if isinstance(self.tail, torch.nn.Module) else tail(self.conv(x))
            return self.fc(x.mean((2, 3)))

    return Tailed()


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (lambda: torch.nn.GroupNorm(2, 4), "tail (GroupNorm) cannot be quantized: its statistics depend on the image"),
        (lambda: torch.nn.LayerNorm(10), "tail (LayerNorm) cannot be quantized: networks of integer layers have no"),
        (lambda: torch.nn.ReflectionPad2d(1), "tail (ReflectionPad2d) cannot be quantized"),
        (lambda: lambda x: torch.cumsum(x, 1), "cumsum in forward cannot be quantized: no layer"),
        (lambda: lambda x: x.permute(0, 2, 3, 1).permute(0, 3, 1, 2), ".permute() in forward cannot be quantized"),
        (lambda: lambda x: x - x.relu(), "sub in forward cannot be quantized: a difference of two activations"),
        (lambda: torch.nn.BatchNorm2d(4, track_running_stats=False), "without running statistics"),
        (lambda: lambda x: x if x.sum() > 0 else -x, "PyTorch cannot trace it"),
        (lambda: torch.nn.Conv2d(5, 4, 3), "it does not take images of shape [3, 12, 12]"),
    ],
)
def test_what_cannot_be_quantized_is_named(tail: Any, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        adopt.adopt(_with(tail()), SHAPE, CLASSES, None)


def test_a_change_in_place_that_the_trace_loses_is_noticed() -> None:
    def tail(x: Any) -> Any:
        y = x * 1.5
        torch.relu_(x)
        return x + y

    with pytest.raises(ModelError, match="computes something else"):
        adopt.adopt(_with(tail), SHAPE, CLASSES, None)


def test_another_number_of_classes_is_refused(code: Path) -> None:
    with pytest.raises(ModelError, match="gives 5 scores per image, and the data have 3 classes"):
        adopt.adopt(net(code, "classes=5"), SHAPE, CLASSES, None)


class Small(torch.nn.Module):  # type: ignore[name-defined, misc]
    """A convolution, what `between` makes of it, and a classifier."""

    def __init__(self, between: Any, **layers: Any) -> None:
        super().__init__()
        self.conv, self.between, self.fc = torch.nn.Conv2d(3, 4, 3, padding=1), between, torch.nn.Linear(4, CLASSES)
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x: Any) -> Any:
        return self.fc(self.between(self, torch.relu(self.conv(x))).mean((2, 3)))


def _identity(module: Any) -> str:
    return adopt.identity(adopt.adopt(module, SHAPE, CLASSES, None))


def _pooled(**settings: Any) -> Any:
    return Small(lambda self, x: self.pool(x), pool=torch.nn.AvgPool2d(3, 2, 1, **settings))


def _frozen() -> Any:
    module = Small(lambda _, x: x * 2)
    module.conv.weight.requires_grad_(False)
    return module


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: Small(lambda _, x: x * 2), lambda: Small(lambda _, x: x * 3)),
        (lambda: Small(lambda _, x: x + 2), lambda: Small(lambda _, x: x + 3)),
        (lambda: Small(lambda _, x: x * 2), _frozen),
        (_pooled, lambda: _pooled(count_include_pad=False)),
        (_pooled, lambda: _pooled(ceil_mode=True)),
        (lambda: Small(lambda _, x: elu(x, 0.5)), lambda: Small(lambda _, x: elu(x, 0.7))),
    ],
)
def test_what_computes_something_else_has_another_identity(one: Any, other: Any) -> None:
    """Weights do not count: each has random ones."""
    assert _identity(one()) == _identity(one())
    assert _identity(one()) != _identity(other())


def test_layers_that_share_values_are_refused() -> None:
    act = torch.nn.PReLU()
    with pytest.raises(ModelError, match=r"act \(PReLU\) cannot be quantized: it is used twice; give each use a layer"):
        adopt.adopt(Small(lambda self, x: self.act(self.act(x) * 2), act=act), SHAPE, CLASSES, None)
    tied = Small(lambda self, x: self.second(x), second=torch.nn.Conv2d(4, 4, 1), third=torch.nn.Conv2d(4, 4, 1))
    tied.between = lambda self, x: self.third(torch.relu(self.second(x)))
    tied.third.weight = tied.second.weight
    with pytest.raises(ModelError, match=r"second\.weight and third\.weight share their values .* of its own"):
        adopt.adopt(tied, SHAPE, CLASSES, None)


def test_a_buffer_may_be_used_twice() -> None:
    from safetensors.torch import save

    module = Small(lambda self, x: torch.relu(x * self.factor) * self.factor)
    module.register_buffer("factor", torch.tensor(1.5))
    assert save(adopt.adopt(module, SHAPE, CLASSES, None).state_dict())


# --- Where it comes from ---------------------------------------------------------------------------------------------


def test_arguments_are_literals(code: Path, tmp_path: Path) -> None:
    assert net(code, "width=4, act='ReLU'").fc.in_features == 8
    marker = tmp_path / "ran"
    for text in (f"Net(open({str(marker)!r}, 'w'))", "Net(**{})", "Net(1)(2)", "__import__('os')", "Net(width=w)", ""):
        with pytest.raises((SettingsError, ModelError)):
            sources.open_source(f"{code}:{text}", 0)
    assert not marker.exists()
    with pytest.raises(ModelError, match="no such file"):
        sources.open_source(f"{tmp_path}/none.py:Net", 0)
    with pytest.raises(ModelError, match="TypeError"):
        sources.open_source(f"{code}:Net(colour=1)", 0)
    with pytest.raises(ModelError, match=r"not a torch\.nn\.Module"):
        sources.open_source("math:sqrt(4)", 0)


def test_weights_are_tensors_alone_and_must_fit(code: Path, tmp_path: Path, data: Path) -> None:
    from safetensors.torch import save_file

    state, train = net(code, seed=7).state_dict(), intrs.open_data(data, "train")
    save_file(state, tmp_path / "w.safetensors")
    torch.save({"state_dict": {f"module.{name}": value for name, value in state.items()}}, tmp_path / "w.pth")
    torch.save(net(code), tmp_path / "whole.pth")
    other = dict(state) | {"fc.weight": torch.zeros(10, 16), "fc.bias": torch.zeros(10)}
    save_file(other, tmp_path / "ten.safetensors")

    def opened(name: str, source: str = "Net") -> Any:
        return sources.open_adopted(f"{code}:{source}", tmp_path / name, train, 1, "", "")

    first, second = opened("w.safetensors"), opened("w.pth")
    values = [each.kind.build(None).state_dict()["stem.0.weight"] for each in (first, second)]
    assert all(torch.equal(value, state["stem.0.weight"]) for value in values)
    assert first.weights == "w.safetensors"
    assert first.recorded == second.recorded
    assert opened("ten.safetensors").new == ("fc.bias", "fc.weight")  # a safetensors file has no order of its own
    with pytest.raises(ModelError, match="PyTorch cannot read this as weights alone"):
        opened("whole.pth")
    with pytest.raises(ModelError, match="has the shape"):
        opened("w.safetensors", "Net(width=4)")
    del other["fc.bias"]
    save_file(other, tmp_path / "less.safetensors")
    with pytest.raises(ModelError, match=r"lacks fc\.bias"):
        opened("less.safetensors")


# --- Training --------------------------------------------------------------------------------------------------------


def test_command_trains_an_own_architecture_and_certifies_it(
    code: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("intrs.cli.train.keep_freed_memory", lambda: True)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SHORT.items()]
    argv = ["train", str(data), f"{code}:Net(width=6)", str(tmp_path / "run"), *options]
    assert main(argv) == 0, capsys.readouterr().err
    results, card = read(tmp_path / "run/results.json"), read(tmp_path / "run/Net-sigma0.25.json")
    assert results["agreement"] >= 0.98
    assert card["command"].startswith("intrs train stripes 'mynet.py:Net(width=6)' run")
    hashes = {"graph": "", "first": ""}
    assert card["recipe"]["model"] | hashes == {"source": "mynet.py:Net", "arguments": "width=6"} | hashes
    assert "tmp" not in json.dumps(card)
    network = intrs.load(tmp_path / "run/Net-sigma0.25.onnx")
    assert network.identity == results["identity"]
    found = intrs.Smooth(network, sigma=0.25, seed=1).certify(stripes(1, 7)[0][0], n0=10, n=100)
    assert found.radius >= 0
    argv[2] = f"{code}:Net(width=8)"
    assert main(argv) == 2
    assert "holds a run with another recipe" in capsys.readouterr().err


def test_resumed_bit_for_bit_with_dropout(code: Path, data: Path, tmp_path: Path) -> None:
    module = net(code)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    whole = intrs.train(data, model=module, outdir=tmp_path / "whole", device="cpu", **SHORT)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())

    def stop(entry: dict[str, Any]) -> None:
        if entry["epoch"] in (1, 3):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            intrs.train(data, model=module, outdir=tmp_path / "parts", device="cpu", on_epoch=stop, **SHORT)
    parts = intrs.train(data, model=module, outdir=tmp_path / "parts", device="cpu", **SHORT)
    assert weights(parts.folder) == weights(whole.folder)
    assert parts.results == whole.results
    assert read(whole.card)["command"].startswith("intrs.train('stripes', model=Net(...), outdir='whole', sigma='0.25'")
    with pytest.raises(IntrsError, match=r"weights_sha256: .* there"):
        intrs.train(data, model=net(code, seed=5), outdir=tmp_path / "parts", device="cpu", **SHORT)


BRIGHT: dict[str, Any] = {"sigma": 0.25, "batch": 16, "pad": 1, "threads": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def bright(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """96 training and 48 test images of 8 x 8 pixels, whose brightness is their class."""
    root, random = tmp_path_factory.mktemp("bright"), np.random.default_rng(0)
    for split, count in (("train", 96), ("test", 48)):
        labels = np.arange(count) % 3
        pixels = random.integers(0, 120, (count, 8, 8, 3)) + 60 * labels[:, None, None, None]
        np.savez(
            root / f"{split}.npz", images=pixels.astype(np.uint8), labels=labels, classes=np.array(["a", "b", "c"])
        )
    return root


def test_scales_stay_positive(bright: Path, tmp_path: Path) -> None:
    """Without a bound, the first steps with quantization take a scale of this network below zero."""
    torch.manual_seed(0)
    made = intrs.train(
        bright,
        model=Small(lambda _, x: x),
        outdir=tmp_path / "x",
        epochs=1,
        qat_epochs=2,
        lr=0.01,
        qat_lr=0.01,
        **BRIGHT,
    )
    assert "int8" in made.networks
    assert made.log[-1]["loss"] < 1.5


def test_a_range_below_zero_trains(bright: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Small(lambda self, x: torch.relu(x + self.second(x).relu() * -1.0), second=torch.nn.Conv2d(4, 4, 1))
    settings = BRIGHT | {"epochs": 1, "qat_epochs": 2, "lr": 0.01, "qat_lr": 0.01}
    made = intrs.train(bright, model=module, outdir=tmp_path / "x", **settings)
    assert "int8" in made.networks


def test_scales_that_are_no_longer_positive_are_not_kept(
    bright: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from intrs.training import engine

    monkeypatch.setattr(engine, "bound_scales", lambda _, scales, __: [scale.data.fill_(0) for scale in scales])
    settings = BRIGHT | {"epochs": 1, "qat_epochs": 1, "lr": 0.01}
    with pytest.raises(SettingsError, match=r"epoch 2: .*(scale of activations is no longer positive|loss became nan)"):
        intrs.train(bright, model=Small(lambda _, x: x), outdir=tmp_path / "x", **settings)
    assert len(read(tmp_path / "x/state.json")["log"]) == 1


def test_folders_of_earlier_versions_are_recognised(bright: Path, tmp_path: Path) -> None:
    from intrs.errors import ResultsError
    from intrs.training.state import FORMAT

    recipe = Recipe(
        "Small", "bright", "", "0.25", model={"source": "Small", "arguments": "", "graph": "0" * 64}
    ).to_json()
    (tmp_path / "x").mkdir()
    state = {"format": FORMAT, "recipe": recipe, "weights_sha256": "", "log": []}
    (tmp_path / "x/state.json").write_text(json.dumps(state))
    with pytest.raises(ResultsError, match="begun by an earlier version of intrs"):
        intrs.train(bright, model=Small(lambda _, x: x), outdir=tmp_path / "x", **BRIGHT)


def test_start_and_weights_exclude_each_other(bright: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="start and weights both say what the first weights are"):
        intrs.train(
            bright,
            model=Small(lambda _, x: x),
            outdir=tmp_path / "x",
            start=tmp_path,
            weights=tmp_path / "w.pth",
            **BRIGHT,
        )


def test_random_first_weights_are_part_of_the_recipe(code: Path, data: Path) -> None:
    train = intrs.open_data(data, "train")
    first, same, other = (sources.open_adopted(f"{code}:Net", None, train, seed, "", "") for seed in (1, 1, 2))
    assert first.recorded == other.recorded
    assert first.first_sha256 == same.first_sha256 != other.first_sha256


def test_refused_before_training(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match=r"tail \(GroupNorm\) cannot be quantized"):
        intrs.train(data, model=_with(torch.nn.GroupNorm(2, 4)), outdir=tmp_path / "x", **SHORT)
    monkeypatch.setattr("intrs.training.sources.load", _refuses)
    with pytest.raises(ModelError, match="its integer form cannot be lowered: node 'a'"):
        intrs.train(data, model=_with(torch.nn.ReLU()), outdir=tmp_path / "x", **SHORT)
    assert not (tmp_path / "x").exists()


def _refuses(path: Path) -> Any:
    raise ModelError(f"{path}: node 'a'")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give an architecture by name, or a model"),
        ({"architecture": "resnet8", "outdir": "x", "mean": "0.5"}, "resnet8 brings its normalisation along"),
        ({"model": 1, "outdir": "x", "std": [1, 2], "mean": 0}, "mean and std have one number"),
        ({"architecture": "resnet8", "outdir": "x", "device": "tpu"}, "device must be one of auto, cpu, cuda, mps"),
    ],
)
def test_wrong_settings(data: Path, given: dict[str, Any], words: str) -> None:
    if given.get("model"):
        given = given | {"model": _with(torch.nn.ReLU())}
    with pytest.raises(SettingsError, match=words):
        intrs.train(data, sigma=0.25, batch=32, **given)


def test_normalisation_goes_in_front(data: Path) -> None:
    train, module = intrs.open_data(data, "train"), _with(torch.nn.ReLU())
    opened = sources.open_adopted(module, None, train, 0, "0.5,0.25,0.5", [0.5])
    x = torch.rand(4, 3, SIDE, SIDE)
    wanted = module((x - torch.tensor([0.5, 0.25, 0.5]).reshape(1, 3, 1, 1)) / 0.5)
    assert float((opened.kind.build(None).eval()(x) - wanted).detach().abs().max()) < 1e-5  # type: ignore[arg-type]


def test_recipes_of_shipped_architectures_are_written_as_before() -> None:
    shipped = Recipe("resnet8", "stripes", "", "0.25")
    assert not {"model", "mean", "std"} & shipped.to_json().keys()
    assert shipped.differences(shipped.to_json()) == []
    own = Recipe("Net", "stripes", "", "0.25", model={"source": "a", "arguments": "", "graph": "x"})
    assert own.differences(own.to_json()) == []
    changed = own.to_json() | {"model": {"source": "a", "arguments": "", "graph": "y"}}
    assert len(own.differences(changed)) == 1


# --- Devices ---------------------------------------------------------------------------------------------------------


def test_the_device_is_chosen_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from intrs.training.pytorch import choose_device

    there = {"cuda": False, "mps": False}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there["cuda"])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: there["mps"])
    assert choose_device("auto").type == "cpu"
    for name in ("cuda", "mps"):
        with pytest.raises(SettingsError, match=f"device {name}: this PyTorch"):
            choose_device(name)
    there["mps"] = True
    assert (choose_device("auto").type, choose_device("auto", doubles=True).type) == ("mps", "cpu")
    with pytest.raises(SettingsError, match="needs float64"):
        choose_device("mps", doubles=True)
    there["cuda"] = True
    assert choose_device("auto", doubles=True).type == "cuda"


def test_every_tensor_of_a_step_follows_the_device(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, both phases, on the device "meta", which refuses tensors of the CPU and holds no values."""
    monkeypatch.setattr(quant.RangeQuant, "zero_point", 7)  # a number that Python reads
    model = adopt.adopt(net(code), SHAPE, CLASSES, None).train().to("meta")
    x, labels = torch.rand(4, 3, SIDE, SIDE, device="meta"), torch.zeros(4, dtype=torch.int64, device="meta")
    for phase in ("float", "quant"):
        quant.set_mode(model, phase)
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        assert {p.grad.device.type for p in model.parameters() if p.grad is not None} == {"meta"}
