"""Float ONNX files as PyTorch modules: every form is read as onnx's reference reads it, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from intrs.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from intrs.training import onnx_in  # noqa: E402

CHANNELS, SIDE = 4, 8
INF = 2**63 - 1


def of(op: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], **attributes)


def array(*values: float, kind: Any = np.int64) -> Any:
    return np.array(values, kind)


def constant(name: str, value: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))


def saved(folder: Path, middle: list[onnx.NodeProto], opset: int = 17) -> Path:
    """A convolution "c" of the image, the nodes that make "m" of it, a mean and a fully connected layer."""
    random = np.random.default_rng(3)
    weights = {
        "w": random.normal(size=(CHANNELS, 3, 3, 3)).astype(np.float32),
        "fc": random.normal(size=(CHANNELS, 3)).astype(np.float32),
    }
    nodes = [
        of("Conv", ["x", "w"], "c", pads=[1] * 4), *middle,
        of("GlobalAveragePool", ["m"], "p"), of("Flatten", ["p"], "f"), of("Gemm", ["f", "fc"], "y"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def compare(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without the last check, which must not be what makes this test pass."""
    monkeypatch.setattr(onnx_in, "_check_scores", lambda *_: None)
    module = onnx_in.read_module(path)
    x = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(4)) - 0.2
    wanted: Any = ReferenceEvaluator(str(path)).run(None, {"x": x.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(module.eval()(x).numpy(), wanted[0], rtol=1e-4, atol=1e-5)


BY_CHANNEL = np.arange(1, 9, dtype=np.float32)
FORMS: dict[str, list[onnx.NodeProto]] = {
    "a float": [helper.make_node("Constant", [], ["k"], value_float=0.5), of("Mul", ["c", "k"], "m")],
    "floats": [helper.make_node("Constant", [], ["k"], value_floats=[0.5]), of("Add", ["c", "k"], "m")],
    "an integer": [
        constant("all", BY_CHANNEL), helper.make_node("Constant", [], ["i"], value_int=3),
        of("Gather", ["all", "i"], "k"), of("Mul", ["c", "k"], "m"),
    ],
    "integers": [
        constant("all", BY_CHANNEL), helper.make_node("Constant", [], ["i"], value_ints=[1, -1, 0, 5]),
        of("Gather", ["all", "i"], "flat"), constant("shape", array(4, 1, 1)), of("Reshape", ["flat", "shape"], "k"),
        of("Mul", ["c", "k"], "m"),
    ],
    "integers cast to floats are not divided as integers": [
        constant("five", 5), constant("two", 2), of("Cast", ["five"], "a", to=1), of("Cast", ["two"], "b", to=1),
        of("Div", ["a", "b"], "k"), of("Mul", ["c", "k"], "m"),
    ],
    "integers are divided towards zero": [
        constant("five", -5), constant("two", 2), of("Div", ["five", "two"], "i"), of("Cast", ["i"], "k", to=1),
        of("Mul", ["c", "k"], "m"),
    ],
    "a float cast to an integer loses what is behind the point": [
        constant("some", np.float32(-2.7)), of("Cast", ["some"], "i", to=7), of("Cast", ["i"], "k", to=1),
        of("Mul", ["c", "k"], "m"),
    ],
    "a slice of an axis": [
        constant("all", BY_CHANNEL.reshape(2, 4)), constant("a", array(1)), constant("b", array(2)),
        constant("axis", array(0)), of("Slice", ["all", "a", "b", "axis"], "row"), constant("shape", array(4, 1, 1)),
        of("Reshape", ["row", "shape"], "k"), of("Mul", ["c", "k"], "m"),
    ],
    "a slice by steps": [
        constant("all", BY_CHANNEL), constant("a", array(0)), constant("b", array(INF)), constant("axis", array(0)),
        constant("step", array(2)), of("Slice", ["all", "a", "b", "axis", "step"], "row"),
        constant("shape", array(-1, 1, 1)), of("Reshape", ["row", "shape"], "k"), of("Mul", ["c", "k"], "m"),
    ],
    "a slice backwards without axes": [
        constant("all", BY_CHANNEL[:4]), constant("a", array(-1)), constant("b", array(-INF)),
        constant("step", array(-1)), of("Slice", ["all", "a", "b", "", "step"], "row"),
        constant("shape", array(-1, 1, 1)), of("Reshape", ["row", "shape"], "k"), of("Mul", ["c", "k"], "m"),
    ],
    "unsqueezed behind": [
        constant("all", BY_CHANNEL[:4]), constant("axes", array(-1, -2)), of("Unsqueeze", ["all", "axes"], "k"),
        of("Mul", ["c", "k"], "m"),
    ],
    "squeezed by one axis": [
        constant("all", BY_CHANNEL[:4].reshape(1, 1, 4, 1, 1)), constant("axes", array(-5)),
        of("Squeeze", ["all", "axes"], "k"), of("Mul", ["c", "k"], "m"),
    ],
    "put together along an axis": [
        constant("all", BY_CHANNEL.reshape(4, 2)), of("Concat", ["all", "all"], "wide", axis=1),
        constant("i", array(3)), of("Gather", ["wide", "i"], "column", axis=1), constant("shape", array(0, 1, 1)),
        constant("three", array(4, 1, 1)), of("Reshape", ["column", "three"], "again"),
        of("Reshape", ["again", "shape"], "k"), of("Mul", ["c", "k"], "m"),
    ],
    "some sizes of a shape": [
        of("Shape", ["c"], "sizes", start=1, end=2), of("Cast", ["sizes"], "k", to=1), of("Mul", ["c", "k"], "m"),
    ],
    "Selu": [of("Selu", ["c"], "m")],
    "axes of activations counted from behind": [
        of("GlobalAveragePool", ["c"], "p0"), of("Flatten", ["p0"], "flat"), constant("axes", array(-1, -2)),
        of("Unsqueeze", ["flat", "axes"], "m"),
    ],
    "a squeeze without axes": [
        of("GlobalAveragePool", ["c"], "p0"), of("Squeeze", ["p0"], "flat"), constant("axes", array(2, 3)),
        of("Unsqueeze", ["flat", "axes"], "m"),
    ],
    "a product that is wanted with and without its bias": [
        of("GlobalAveragePool", ["c"], "p0"), of("Flatten", ["p0"], "flat"),
        constant("w1", np.eye(4, dtype=np.float32)), of("MatMul", ["flat", "w1"], "product"),
        constant("b1", BY_CHANNEL[:4]), of("Add", ["product", "b1"], "biased"),
        of("Mul", ["product", "biased"], "both"), constant("axes", array(2, 3)), of("Unsqueeze", ["both", "axes"], "m"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_read_as_onnx_means_it(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, FORMS[form])
    onnx_in.read_module(path)  # with the last check
    compare(path, monkeypatch)


def test_unsqueeze_by_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    middle = [
        constant("all", BY_CHANNEL[:4]),
        of("Unsqueeze", ["all"], "k", axes=[1, 2]),
        of("Mul", ["c", "k"], "m"),
    ]
    compare(saved(tmp_path, middle, opset=11), monkeypatch)


REFUSED: dict[str, tuple[list[onnx.NodeProto], str, int]] = {
    "Selu of other numbers": ([of("Selu", ["c"], "m", alpha=1.0, gamma=2.0)], "its alpha is 1", 17),
    "Selu of another factor": ([of("Selu", ["c"], "m", gamma=2.0)], "its gamma is 2", 17),
    "Swish of another slope": ([of("Swish", ["c"], "m", alpha=1.702)], "its alpha is 1.702", 24),
    "text": (
        [helper.make_node("Constant", [], ["k"], value_string="a"), of("Mul", ["c", "k"], "m")],
        "value_string",
        17,
    ),
    "a type of text": (
        [constant("i", 1), of("Cast", ["i"], "s", to=8), of("Cast", ["s"], "k", to=1), of("Mul", ["c", "k"], "m")],
        "not cast to the data type 8",
        17,
    ),
    "activations as integers": (
        [of("Cast", ["c"], "i", to=6), of("Cast", ["i"], "m", to=1)], "integers would round it", 17,
    ),
    "an axis twice": (
        [constant("k1", BY_CHANNEL[:4]), constant("axes", array(1, -2)), of("Unsqueeze", ["k1", "axes"], "k"),
         of("Mul", ["c", "k"], "m")],
        "do not fit a tensor of rank 3", 17,
    ),
    "padding of named axes": (
        [constant("sides", array(0, 0, 1, 0, 0, 0, 1, 0)), constant("axes", array(0, 1, 3, 2)),
         of("Pad", ["c", "sides", "", "axes"], "m")],
        "with sides for all four axes", 18,
    ),
    "an active dropout": (
        [constant("half", np.float32(0.5)), constant("yes", np.array(True)),
         of("Dropout", ["c", "half", "yes"], "m")],
        "module.eval()", 17,
    ),
    "slopes along the width": ([constant("k", BY_CHANNEL), of("PRelu", ["c", "k"], "m")], "one per channel", 17),
    "a softmax over rows of features": ([of("Softmax", ["c"], "m", axis=1)], "only over the last axis", 12),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_is_not_read_is_refused(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    middle, words, opset = REFUSED[form]
    monkeypatch.setattr(onnx_in, "_check_scores", lambda *_: None)
    with pytest.raises(ModelError, match=words):
        onnx_in.read_module(saved(tmp_path, middle, opset))


def test_what_is_misread_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody forgot an attribute again."""
    pytest.importorskip("onnxruntime")
    path = saved(tmp_path, [of("LeakyRelu", ["c"], "m", alpha=0.3)])
    onnx_in.read_module(path)
    monkeypatch.setitem(onnx_in._OPERATORS, "LeakyRelu", onnx_in._simple(lambda _: torch.nn.LeakyReLU()))
    with pytest.raises(ModelError, match="compute something else than the file does in ONNX Runtime"):
        onnx_in.read_module(path)


def test_a_file_that_onnx_runtime_does_not_run_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = saved(tmp_path, [of("Relu", ["c"], "m")])
    monkeypatch.setattr(runtime, "InferenceSession", lambda *_, **__: 1 / 0)
    onnx_in.read_module(path)
