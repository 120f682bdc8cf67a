"""Made the .onnx files beside it, with exporters that the tests must not need: PyTorch, torchao and brevitas.

    pip install torch==2.13.0 torchao==0.18.0 brevitas==0.13.4 onnx onnxscript onnxoptimizer
    python tests/files/make_foreign.py [folder]

Each is the same small residual network, trained on the pictures of tests/onnx_files.py. trained_float.onnx is not
quantised: the tests have ONNX Runtime's quantizer do that, in all its ways.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))
from onnx_files import as_input, pictures

CLASSES = 10
IMAGES, LABELS = (torch.from_numpy(a) for a in (lambda p: (as_input(p[0]), p[1]))(pictures(1000, 2)))


class Net(nn.Module):
    """A small residual network, with global average pooling or without."""

    def __init__(self, average: bool = True) -> None:
        super().__init__()
        self.average = average
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.left = nn.Conv2d(8, 8, 3, padding=1)
        self.right = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16 if average else 256, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = torch.relu(x + self.left(x))
        x = torch.relu(self.right(x))
        x = nn.functional.max_pool2d(x, 2)
        return self.head((nn.functional.adaptive_avg_pool2d(x, 1) if self.average else x).flatten(1))


def images(count: int = 64) -> torch.Tensor:
    return IMAGES[:count]


def trained(average: bool = True) -> Net:
    net = Net(average)
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for step in range(150):
        pick = torch.arange(100) + step % 10 * 100
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(IMAGES[pick]), LABELS[pick]).backward()
        optimiser.step()
    print("accuracy", (net(IMAGES).argmax(1) == LABELS).float().mean().item())
    return net.eval()


def fake_quantised(per_channel: bool) -> nn.Module:
    """Eager torch.ao fake-quantise modules, as QAT code has them."""
    from torch.ao.quantization import (
        FakeQuantize,
        MovingAverageMinMaxObserver,
        MovingAveragePerChannelMinMaxObserver,
    )

    class Fake(Net):
        def __init__(self) -> None:
            super().__init__()
            self.points = nn.ModuleList(
                FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8)
                for _ in range(8)
            )
            observer = MovingAveragePerChannelMinMaxObserver if per_channel else MovingAverageMinMaxObserver
            scheme = torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric
            options: dict[str, Any] = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8, "qscheme": scheme}
            if per_channel:
                options["ch_axis"] = 0
            self.weighers = nn.ModuleList(FakeQuantize(observer, **options) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, w = self.points, self.weighers
            conv = nn.functional.conv2d
            x = q[0](x)
            x = q[1](torch.relu(conv(x, w[0](self.stem.weight), self.stem.bias, padding=1)))
            y = q[2](conv(x, w[1](self.left.weight), self.left.bias, padding=1))
            x = q[3](torch.relu(x + y))
            x = q[4](torch.relu(conv(x, w[2](self.right.weight), self.right.bias, stride=2, padding=1)))
            x = q[5](nn.functional.max_pool2d(x, 2))
            x = q[6](x.mean(dim=(2, 3)))
            return q[7](nn.functional.linear(x, w[3](self.head.weight), self.head.bias))

    model = Fake()
    model.load_state_dict(trained().state_dict(), strict=False)
    model(images())
    model.apply(torch.ao.quantization.disable_observer)
    return model.eval()


def pt2e(quantizer: str) -> nn.Module:
    """torchao's PT2E post-training quantisation."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if quantizer == "x86":
        import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86

        chosen: Any = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    else:
        from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

        chosen = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    exported = torch.export.export(trained(quantizer != "x86"), (images(1),)).module()
    prepared = prepare_pt2e(exported, chosen)
    prepared(images(1))
    for image in images():
        prepared(image[None])
    return convert_pt2e(prepared)


def brevitas() -> nn.Module:
    """A network of brevitas layers."""
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat, Int32Bias, Uint8ActPerTensorFloat

    options = {"weight_quant": Int8WeightPerChannelFloat, "bias_quant": Int32Bias, "return_quant_tensor": True}

    class Brevitas(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, return_quant_tensor=True)
            self.stem = qnn.QuantConv2d(3, 8, 3, padding=1, **options)
            self.relu = qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True)
            self.left = qnn.QuantConv2d(8, 8, 3, padding=1, **options)
            self.join = qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, return_quant_tensor=True)
            self.relu2 = qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True)
            self.right = qnn.QuantConv2d(8, 16, 3, stride=2, padding=1, **options)
            self.relu3 = qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True)
            self.after = qnn.QuantIdentity(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True)
            self.head = qnn.QuantLinear(16, CLASSES, bias=True, weight_quant=Int8WeightPerChannelFloat)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.relu(self.stem(self.enter(x)))
            x = self.relu2(self.join(x) + self.join(self.left(x)))
            x = self.relu3(self.right(x))
            x = nn.functional.max_pool2d(x.value, 2)
            return self.head(self.after(x.mean(dim=(2, 3))))

    model = Brevitas()
    model.load_state_dict(trained().state_dict(), strict=False)
    model.train()
    with torch.no_grad():
        for _ in range(320):  # past the steps in which brevitas collects statistics
            model(images())
    return model.eval()


def save_brevitas(model: nn.Module, path: Path) -> None:
    from brevitas.export import export_onnx_qcdq

    export_onnx_qcdq(model, args=images(1), export_path=str(path), dynamo=False)


def save(model: nn.Module, path: Path, dynamo: bool) -> None:
    torch.onnx.export(model, (images(1),), str(path), dynamo=dynamo, **({} if dynamo else {"opset_version": 17}))
    plain = onnx.load(path)  # one file, whatever the exporter put beside it
    for node in plain.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    onnx.save(plain, path)
    path.with_suffix(".onnx.data").unlink(missing_ok=True)


def save_float(path: Path) -> None:
    names = {"input_names": ["image"], "output_names": ["scores"], "dynamic_axes": {"image": [0], "scores": [0]}}
    torch.onnx.export(trained(), (images(1),), str(path), dynamo=False, opset_version=17, **names)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    makers = {
        "trained_float": save_float,
        "torch_fake_quant": lambda p: save(fake_quantised(False), p, dynamo=False),
        "torch_fake_quant_per_channel": lambda p: save(fake_quantised(True), p, dynamo=False),
        "torchao_xnnpack": lambda p: save(pt2e("xnnpack"), p, dynamo=True),
        "torchao_x86": lambda p: save(pt2e("x86"), p, dynamo=True),
        "brevitas": lambda p: save_brevitas(brevitas(), p),
    }
    for name, make in makers.items():
        torch.manual_seed(0)
        try:
            make(folder / f"{name}.onnx")
            print(name, (folder / f"{name}.onnx").stat().st_size)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:600]}")


if __name__ == "__main__":
    main()
