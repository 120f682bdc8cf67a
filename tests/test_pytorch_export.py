"""From a PyTorch module to a float ONNX file: the same numbers, one file, by both exporters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from intrs.errors import ModelError, SettingsError
from intrs.exchange.pytorch import module_to_onnx

if TYPE_CHECKING:
    from torch import nn

torch = pytest.importorskip("torch")
SHAPE = (9, 8, 3)


def small_net(branches: bool = False) -> nn.Module:
    """A mean over height and width, which exporters write in several ways; with `branches`, by the image's pixels."""

    class Small(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(8)
            self.fc = torch.nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            if branches and x.sum() > 0:
                x = -x
            x = torch.nn.functional.hardswish(self.norm(self.conv(x))).mean((2, 3))
            return self.fc(x.view(x.size(0), -1))

    torch.manual_seed(1)
    return Small()


@pytest.mark.parametrize("exporter", ["default", "torchscript"])
def test_exported_file_is_the_module(exporter: Any) -> None:
    if exporter == "default":
        pytest.importorskip("onnxscript")
    runtime, module = pytest.importorskip("onnxruntime"), small_net()
    data = module_to_onnx(module, SHAPE, exporter)
    assert module.training
    assert module.get_submodule("norm").training
    proto = onnx.load_from_string(data)
    assert [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim][1:] == [3, 9, 8]
    assert not any(tensor.external_data for tensor in proto.graph.initializer)
    assert "Range" not in {node.op_type for node in proto.graph.node}
    x = torch.rand(5, *SHAPE).permute(0, 3, 1, 2)
    with torch.no_grad():
        wanted = module.eval()(x).numpy()
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(["scores"], {"image": x.contiguous().numpy()})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_exported_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises(ModelError, match=r"PyTorch cannot export Small to ONNX: .*data-dependent"):
        module_to_onnx(small_net(branches=True), SHAPE)
    assert capfd.readouterr() == ("", "")


def test_missing_onnxscript_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.exchange.pytorch.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="needs onnxscript"):
        module_to_onnx(small_net(), SHAPE)
    with pytest.raises(SettingsError, match="exporter must be one of default, torchscript"):
        module_to_onnx(small_net(), SHAPE, "other")  # type: ignore[arg-type]
