"""The native layers of training: the same as PyTorch's up to rounding, and taken where they fit."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from intrs import _core

torch = pytest.importorskip("torch")

# Relative to the largest value. Tiles of 4 x 4 outputs lose one to two digits of float32; bfloat16 has 8 bits.
CLOSE, HALF = 3e-5, 6e-3
MODULES = ["_layers", *(["_layers_avx512"] if _core.has_avx512() else [])]


@pytest.fixture(params=MODULES, autouse=True)
def layers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every module of layers that this processor runs, in turn."""
    room = native()
    found = import_module(f"intrs.training.{request.param}")
    monkeypatch.setattr(room, "_layers", found)
    return found


def native() -> Any:
    found = import_module("intrs.training.native")
    if not found.AVAILABLE:
        pytest.skip("this processor has no FMA on 256 bits")
    return found


def images(*shape: int, seed: int = 0, kind: Any = None) -> Any:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(kind or torch.float32).to(memory_format=torch.channels_last)


def error(found: Any, wanted: Any) -> float:
    return float((found.double() - wanted).abs().max() / wanted.abs().max())


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


WINDOWS = [  # images, channels in and out, height, width, kernel, stride, padding
    (3, 16, 32, 9, 7, 3, 1, 1), (5, 48, 16, 4, 4, 3, 1, 1), (1, 16, 16, 1, 1, 3, 1, 1), (40, 64, 64, 8, 8, 3, 1, 1),
    (3, 16, 32, 32, 32, 3, 2, 1), (2, 16, 32, 9, 11, 1, 2, 0), (2, 3, 16, 13, 12, 3, 1, 1), (2, 3, 16, 30, 29, 7, 2, 3),
    (2, 32, 48, 5, 5, 5, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", WINDOWS)
def test_convolutions(window: tuple[int, ...], kind: str, threads: int) -> None:
    n, c, k, height, width, side, stride, padding = window
    x, gradient_fits = images(n, c, height, width, kind=getattr(torch, kind)), c % 16 == 0
    weight = (images(k, c, side, side, seed=1) / (c * side * side) ** 0.5).contiguous()
    mine = x.detach().requires_grad_(gradient_fits), weight.clone().requires_grad_()
    exact = x.double().requires_grad_(), weight.double().requires_grad_()
    y = native()._Convolve.apply(*mine, stride, padding)
    wanted = torch.nn.functional.conv2d(*exact, stride=stride, padding=padding)
    up = images(*wanted.shape, seed=2, kind=x.dtype)
    y.backward(up)
    wanted.backward(up.double())
    limit = CLOSE if kind == "float32" else HALF
    assert y.dtype is x.dtype
    assert error(y.detach(), wanted.detach()) < limit
    assert error(mine[1].grad, exact[1].grad) < CLOSE  # the gradient of weights is float32 whatever is stored
    if gradient_fits:
        assert error(mine[0].grad, exact[0].grad) < limit


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("with_plus", [False, True])
def test_normalisation(with_plus: bool, relu: bool, kind: str, threads: int) -> None:
    x = images(7, 32, 9, 5, kind=getattr(torch, kind)) * 3 + 20  # far from zero, where a careless variance would fail
    plus = images(7, 32, 9, 5, seed=1, kind=x.dtype) if with_plus else None
    bn, wanted_bn = torch.nn.BatchNorm2d(32), torch.nn.BatchNorm2d(32).double()
    for layer in (bn, wanted_bn):
        with torch.no_grad():
            layer.weight.copy_(torch.linspace(-1, 2, 32))
            layer.bias.copy_(torch.linspace(-0.5, 0.5, 32))
    mine = [t.detach().requires_grad_() for t in (x, plus) if t is not None]
    exact = [t.detach().double().requires_grad_() for t in (x, plus) if t is not None]
    assert native().normalises(mine[0], bn, *mine[1:])
    y = native().normalise(mine[0], bn, mine[1] if with_plus else None, relu)
    wanted = wanted_bn(exact[0]) + (exact[1] if with_plus else 0)
    wanted = torch.relu(wanted) if relu else wanted
    up = images(*x.shape, seed=2, kind=x.dtype)
    y.backward(up)
    wanted.backward(up.double())
    limit = CLOSE if kind == "float32" else HALF
    assert error(y.detach(), wanted.detach()) < limit
    for found, right in zip([*mine, bn.weight, bn.bias], [*exact, wanted_bn.weight, wanted_bn.bias], strict=True):
        # A value that bfloat16 rounds to zero, or off it, may pass its gradient or not.
        assert error(found.grad, right.grad) < (limit if kind == "float32" or not relu else 0.05)
    assert error(bn.running_mean, wanted_bn.running_mean) < CLOSE
    assert error(bn.running_var, wanted_bn.running_var) < CLOSE
    assert int(bn.num_batches_tracked) == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_stays_none(bad: float) -> None:
    """ReLU made zeros of it once, and training that had diverged went on with a finite loss."""
    x = images(2, 16, 4, 4)
    x[1, 3, 2, 2] = bad
    x.requires_grad_()
    y = native().normalise(x, torch.nn.BatchNorm2d(16), None, True)
    y.backward(torch.ones_like(y))
    wanted = torch.relu(torch.nn.BatchNorm2d(16)(x.detach()))
    assert torch.equal(y.isnan(), wanted.isnan())
    assert wanted[:, 3].isnan().all()
    assert x.grad[:, 3].isnan().all()
    assert x.grad[:, 4].isfinite().all()


def test_what_is_not_taken() -> None:
    room, x, bn = native(), images(2, 16, 8, 8), torch.nn.BatchNorm2d(16)
    weight = torch.zeros(16, 16, 3, 3)
    assert room.convolves(x, weight, (1, 1), (1, 1))
    assert not room.convolves(x.double(), weight, (1, 1), (1, 1))
    assert not room.convolves(x.contiguous(memory_format=torch.contiguous_format), weight, (1, 1), (1, 1))
    assert not room.convolves(x, torch.zeros(17, 16, 3, 3), (1, 1), (1, 1))
    assert not room.convolves(x, weight, (1, 2), (1, 1))
    assert not room.convolves(x, torch.zeros(512, 16, 5, 5), (1, 1), (2, 2))  # too large for the cache
    assert not room.convolves(x, torch.zeros(2048, 16, 3, 3), (1, 1), (1, 1))
    assert not room.convolves(x, torch.zeros(16, 16, 1, 1), (1, 1), (0, 0))  # PyTorch's is faster
    assert not room.convolves(images(2, 3, 8, 8).requires_grad_(), torch.zeros(16, 3, 3, 3), (1, 1), (1, 1))
    assert room.normalises(x, bn)
    assert not room.normalises(x, bn, images(2, 16, 8, 7))
    assert not room.normalises(x, bn.eval())
    assert not room.normalises(x, torch.nn.BatchNorm2d(16, momentum=None))


@pytest.mark.parametrize(
    ("bf16", "wide", "amx", "tiles", "others"),
    [  # what the processor has, and what is taken under autocast: by tiles, and the rest
        (False, False, False, True, True), (True, False, False, False, False),
        (True, True, False, True, False), (True, True, True, False, False),
    ],
)  # fmt: skip
def test_what_is_taken_under_autocast(
    bf16: bool, wide: bool, amx: bool, tiles: bool, others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = native()
    monkeypatch.setattr(room, "WIDE", wide)
    monkeypatch.setattr(room._core, "has_bf16", lambda: bf16)
    monkeypatch.setattr(room._core, "has_amx_bf16", lambda: amx)
    x, weight = images(2, 16, 8, 8, kind=torch.bfloat16), torch.zeros(16, 16, 3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert room.convolves(x, weight, (1, 1), (1, 1)) == tiles
        assert room.convolves(x, weight, (2, 2), (1, 1)) == others
        assert room.stores_bfloat16() != bf16
        if tiles:
            assert room.convolve(x.float(), weight, 1, 1).dtype is torch.bfloat16
    assert room.convolves(x, weight, (2, 2), (1, 1))


def test_products_of_bfloat16_run_where_amx_is_there_in_part() -> None:
    """oneDNN is told, before its first layer, not to use tiles whose size a virtual machine hides."""
    hidden = (
        "import os; from intrs import _core;"
        "_core.has_avx512 = _core.has_bf16 = lambda: True; _core.has_amx_bf16 = lambda: 0;"
        "os.environ['INTRS_TRAINING_LAYERS'] = 'torch'; import intrs.training.native;"
        "print(os.environ['ONEDNN_MAX_CPU_ISA'])"
    )
    product = (
        "import torch, intrs.training.native; torch.autocast('cpu', dtype=torch.bfloat16).__enter__();"
        "print(torch.nn.Linear(64, 10)(torch.ones(256, 64)).dtype)"
    )
    clean = {key: value for key, value in os.environ.items() if key != "ONEDNN_MAX_CPU_ISA"}
    for code, wanted in ((hidden, "AVX512_CORE_BF16\n"), (product, "torch.bfloat16\n")):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=clean)
        assert (done.returncode, done.stdout) == (0, wanted), done.stderr


def test_wrong_shapes_are_refused(layers: Any) -> None:
    x, y, weight = np.zeros((2, 8, 8, 16), "f4"), np.zeros((2, 8, 8, 32), "f4"), np.zeros((32, 16, 3, 3), "f4")
    layers.convolve(x, weight, 1, 1, y, 1)
    for wrong in (
        (x, weight, 2, 1, y, 1), (x, weight, 1, 0, y, 1), (x[..., :15].copy(), weight, 1, 1, y, 1),
        (x, weight[:31], 1, 1, y, 1), (x, weight, 0, 1, y, 1), (x, weight, 1, 1, y[:1], 1),
        (x, np.zeros((32, 16, 3, 1), "f4"), 1, 1, y, 1), (x, np.zeros((32, 16, 11, 11), "f4"), 1, 1, y, 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"channels|window|size"):
            layers.convolve(*wrong)
    with pytest.raises(TypeError):  # a copy would be filled in
        layers.convolve(x.astype("f8"), weight, 1, 1, y, 1)
    ones = np.ones(16, "f4")
    with pytest.raises(ValueError, match="as many values"):
        layers.normalise(x, None, ones[:15], ones, 1e-5, True, x.copy(), ones.copy(), ones.copy(), 1)
    with pytest.raises(ValueError, match="different shapes"):
        layers.fake_quantise(ones, 1.0, 0.0, 255.0, ones[:8].copy(), 1)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_rounding_to_codes_is_that_of_the_definition(kind: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The codes bit for bit, halves included; the gradient of the scale but for the order of its sum."""
    room, quant = native(), import_module("intrs.training.quant")
    x = torch.cat([images(3, 5, 7, 11).flatten() * 2, torch.arange(-300, 300) / 64]).to(getattr(torch, kind))
    found = []
    for available in (True, False):
        monkeypatch.setattr(room, "AVAILABLE", available)
        mine, scale = x.clone().requires_grad_(), torch.tensor(1 / 32, requires_grad=True)
        y = quant._FakeQuant.apply(mine, scale, -60, 195)
        y.backward(images(1, 1, 1, len(x), seed=3, kind=x.dtype).flatten())
        found.append((y.detach(), mine.grad, float(scale.grad)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-4)


@pytest.mark.parametrize("mode", ["float", "quant"])
def test_a_network_takes_the_step_that_pytorch_takes(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room, quant = native(), import_module("intrs.training.quant")
    resnet = import_module("intrs.training.resnet")
    x, labels = images(16, 3, 16, 16) * 0.3 + 0.5, torch.arange(16) % 4
    gradients = []
    for available in (True, False):
        monkeypatch.setattr(room, "AVAILABLE", available)
        torch.manual_seed(0)
        model = resnet.ResNet(1, [0.5] * 3, [0.25] * 3, 4).to(memory_format=torch.channels_last)
        if mode == "quant":
            quant.calibrate(model, lambda: x, 1)
        model.train()
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.dim() > 1})
    # With quantization a code may round the other way, which moves gradients by far more than the sums' last digits.
    limit = 1e-3 if mode == "float" else 0.2
    for name, right in gradients[1].items():
        assert error(gradients[0][name], right.double()) < limit, name


def test_threads_of_its_own(layers: Any) -> None:
    """Where PyTorch's are not to be had: parts of the work on a team that is kept, in a forked process, too."""
    code = (
        f"import {layers.__name__} as _layers\n"
        + """
import os, numpy as np
x = np.random.default_rng(0).standard_normal((9, 12, 12, 16)).astype("f4")
w = np.random.default_rng(1).standard_normal((32, 16, 3, 3)).astype("f4")
def run(threads):
    y, dw = np.empty((9, 12, 12, 32), "f4"), np.empty_like(w)
    _layers.convolve(x, w, 1, 1, y, threads)
    _layers.convolve_weights(x, y, 1, 1, dw, threads)
    return y, dw
def check():
    one = run(1)
    for threads in (4, 2, 7, 4):
        y, dw = run(threads)
        assert np.array_equal(y, one[0]) and np.allclose(dw, one[1], rtol=1e-3, atol=1e-2), threads
check()
child = os.fork()
if not child:
    check()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
import sys
assert "torch" not in sys.modules
"""
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
