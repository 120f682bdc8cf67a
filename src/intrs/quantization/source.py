"""A float network as it is quantized: opened, checked, and brought into the form that the other modules work on.

The form: an ONNX graph whose input is pixels (over 255, or as they are), with batch norms folded, node names that are
unique, a bias at every convolution, and no constants outside the file.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from intrs.data.matching import matched
from intrs.errors import IntrsError, ModelError, SettingsError
from intrs.exchange.convention import METADATA, USUAL, Convention
from intrs.exchange.onnx.operators import OPERATORS
from intrs.exchange.onnx.read import BEFORE_LAYOUT, TAIL, OnnxFile, read_onnx
from intrs.exchange.onnx.tensors import to_array
from intrs.exchange.openfile import open_file
from intrs.exchange.refusal import TRANSFORMER, Refusal, refusals_of
from intrs.float_engine import engine_of
from intrs.job import check_fit, known_names
from intrs.model import open_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from intrs.data import Images
    from intrs.float_engine import FloatEngine
    from intrs.network import Shape

OPSET = 13  # the first with scales per channel
NORMALISATION = "intrs_normalise"
BIASED = ("Conv", "Gemm")  # layers whose bias can be corrected
BIAS = "_intrs_bias"  # after a layer's name: that of its bias
OF_TRANSFORMERS = ("LayerNormalization", "Attention", "MultiHeadAttention", "SkipLayerNormalization")
TRIED = 200  # clean images on which they are tried


@dataclass(frozen=True, eq=False)
class Original:
    """A float network, ready to be quantized."""

    path: Path  # for messages
    proto: onnx.ModelProto
    engine: FloatEngine  # the network as it was given
    pixel_scale: str  # unit or byte
    trained_sigma: str
    images: Images  # with the model's numbers for labels
    before: frozenset[str]  # nodes that only normalise the image: part of the input quantiser

    @property
    def gain(self) -> float:
        """What the graph's input is for one pixel level."""
        return 1 / 255 if self.pixel_scale == "unit" else 1.0

    @property
    def input(self) -> str:
        """The name of the graph's input."""
        return image_name(self.proto)


def check_installed() -> None:
    """Refuse to begin without ONNX Runtime."""
    if find_spec("onnxruntime") is None:
        raise IntrsError("quantizing needs ONNX Runtime: pip install 'intrs[quantize]'")


def open_source(
    model: Any, data: Images, convention: Convention, threads: int, names: Sequence[str] = (), by_number: bool = False
) -> Original:
    """The float network that a path, a name or a PyTorch module stands for. Raises ModelError.

    Labels are found by name where the data's classes and the model's have names, unless they are said to be numbers.
    """
    file, trained_sigma, own_names = _file(model, data.image_shape)
    if file.is_quantized:
        raise ModelError(f"{file.path}: it is quantized already; certify it as it is, or give the float file")
    with refusals_of(file.path):
        proto = _inside(file, data.image_shape)
    file = read_onnx(file.path, proto.SerializeToString())
    data = data if by_number else matched(data, names or own_names)
    scale = _pixel_scale(file, convention, data)
    convention = replace(convention, scale=scale)  # type: ignore[arg-type]
    engine = engine_of(file, convention, threads)
    known_names(engine, names, own_names)
    check_fit(engine, data, str(file.path))
    if misfit := convention.misfit(engine.input_shape[2]):
        raise SettingsError(f"{file.path}: {misfit}")
    with refusals_of(file.path):
        proto = _optimised(file.path, _normalised(proto, convention, engine.input_shape[2]))
        _complete(proto)
        _check_operators(proto)
    return Original(file.path, proto, engine, scale, trained_sigma, data, _before_layers(proto))


# --- What was given --------------------------------------------------------------------------------------------------


def _file(model: Any, image_shape: Shape) -> tuple[OnnxFile, str, tuple[str, ...]]:
    """The float file; the sigma for which its network was trained and the names of its classes, if they are known."""
    torch = sys.modules.get("torch")  # who has a module has imported it
    if torch is not None and isinstance(model, torch.nn.Module | torch.export.ExportedProgram):
        return read_onnx(Path(type(model).__name__), _exported(model, image_shape)), "", ()
    opened = open_model(model)
    if opened.path is None:
        raise ModelError("a Network is quantized already; give a float ONNX file or a PyTorch module")
    file = open_file(opened.path)
    if not isinstance(file, OnnxFile):
        raise ModelError(f"{file.path}: quantizing is for float ONNX files; certify this file as it is")
    return file, opened.trained_sigma, opened.class_names


def _exported(model: Any, image_shape: Shape) -> bytes:
    from intrs.exchange.pytorch import module_to_onnx

    torch = sys.modules["torch"]
    if isinstance(model, torch.nn.Module):
        return module_to_onnx(model, image_shape)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about its own insides
            data: bytes = torch.onnx.export(model, dynamo=True, verbose=False).model_proto.SerializeToString()
    except Exception as error:  # the exporter promises no type
        raise ModelError(f"PyTorch cannot export this program to ONNX; export its module instead ({error})") from error
    return data


def _inside(file: OnnxFile, image_shape: Shape) -> onnx.ModelProto:
    """The model with all its constants inside, in an opset that has scales per channel, of the images' size."""
    proto: onnx.ModelProto = onnx.ModelProto.FromString(file.data)
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(to_array(tensor, file.path.parent), tensor.name))
    if proto.opset_import[0].version < OPSET:
        try:
            proto = onnx.version_converter.convert_version(proto, OPSET)
        except Exception as error:  # of C++, without a type of its own
            raise Refusal(f"it uses an opset before {OPSET} and cannot be converted ({error})") from None
    _fix_size(proto, file.graph.input, image_shape)
    return proto


def _fix_size(proto: onnx.ModelProto, name: str, image_shape: Shape) -> None:
    """Give a symbolic height, width or number of channels the size of the images."""
    (entry,) = (entry for entry in proto.graph.input if entry.name == name)
    dims = entry.type.tensor_type.shape.dim
    if len(dims) != 4:
        raise Refusal(f"its input has {len(dims)} axes; it must be (batch, channels, height, width)")
    height, width, channels = image_shape
    for dim, size in zip(list(dims)[1:], (channels, height, width), strict=True):
        if not dim.HasField("dim_value"):
            dim.dim_value = size
    if dims[1].dim_value != channels and dims[3].dim_value == channels:
        raise Refusal("its input is (batch, height, width, channels); quantizing needs the channels second")


# --- Pixels ----------------------------------------------------------------------------------------------------------


def _pixel_scale(file: OnnxFile, convention: Convention, data: Images) -> str:
    """What the file's input is: told by the caller, by the file, or by the size of mean and std."""
    told = file.metadata.get(METADATA, "auto") if convention.scale == "auto" else convention.scale
    if told == "auto" and (convention.mean, convention.deviation) != (Convention.mean, Convention.deviation):
        told = "unit" if max(*convention.mean, *convention.deviation) <= 1 else "byte"
    if told not in ("unit", "byte"):
        raise ModelError(
            f"{file.path}: it does not say what its input is for a pixel of 0 .. 255. {_advice(file, data)}"
        )
    return told


def _advice(file: OnnxFile, data: Images) -> str:
    """How many clean images it gets right under each of the usual conventions."""
    if not data.has_labels:
        return "Give pixels, and mean and std if it wants them"
    taken = data.subset(np.linspace(0, len(data) - 1, min(len(data), TRIED)).astype(np.int64))
    images = np.asarray(taken.images).astype(np.float32)
    lines = []
    for settings in USUAL if images.shape[3] == 3 else USUAL[:2]:
        engine = engine_of(file, Convention.of(**settings))
        if engine.input_shape != images.shape[1:]:
            break
        right = int((engine(images).argmax(1) == taken.labels).sum())
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        lines.append((right, f"{100 * right / len(images):.0f} %: {words}"))
    best = "\n".join(dict.fromkeys(line for _, line in sorted(lines, key=lambda line: -line[0])))
    return f"Give pixels, and mean and std if it wants them. Right answers on {len(images)} clean images, with\n{best}"


def _normalised(proto: onnx.ModelProto, convention: Convention, channels: int) -> onnx.ModelProto:
    """The model with (value - mean) / std in front, so that its file needs no words beside it."""
    steps = (("Sub", convention.mean, Convention.mean), ("Div", convention.deviation, Convention.deviation))
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    graph, x = made.graph, image_name(proto)
    nodes: list[onnx.NodeProto] = []
    for op, values, default in steps:
        if set(values) == set(default):
            continue
        constant, result = f"{NORMALISATION}_{op}_values", f"{NORMALISATION}_{op}"
        numbers = np.broadcast_to(np.array([float(value) for value in values], np.float32), (channels,))
        graph.initializer.append(numpy_helper.from_array(numbers.reshape(1, -1, 1, 1).copy(), constant))
        nodes.append(helper.make_node(op, [nodes[-1].output[0] if nodes else x, constant], [result], name=result))
    if nodes:
        for node in graph.node:
            node.input[:] = [nodes[-1].output[0] if name == x else name for name in node.input]
        rest = list(graph.node)
        del graph.node[:]
        graph.node.extend([*nodes, *rest])
    return made


# --- The graph -------------------------------------------------------------------------------------------------------


def _optimised(path: Path, proto: onnx.ModelProto) -> onnx.ModelProto:
    """What ONNX Runtime makes of it by rewriting that changes no meaning: batch norms folded, constants computed."""
    import onnxruntime  # type: ignore[import-untyped, unused-ignore]

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "model.onnx")
        try:
            onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # it has a dozen classes of its own
            raise ModelError(f"ONNX Runtime refuses it ({str(error).partition(chr(10))[0][:200]})") from None
        made = onnx.load(options.optimized_model_filepath)
    used = {node.domain for node in made.graph.node} | {""}
    kept = [entry for entry in made.opset_import if entry.domain in used]
    del made.opset_import[:]
    made.opset_import.extend(kept)
    del made.metadata_props[:]
    made.metadata_props.extend(proto.metadata_props)
    return made


def _complete(proto: onnx.ModelProto) -> None:
    """Names for all nodes, convolutions in place of batch norms that are left, a bias of its own for every layer."""
    constants, names = {tensor.name: tensor for tensor in proto.graph.initializer}, set[str]()
    ranks = _ranks(proto)
    for i, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}_{i}" if not node.name or node.name in names else node.name
        names.add(node.name)
        if node.op_type == "BatchNormalization":
            _to_layer(node, constants, ranks.get(node.input[0], 4))
        if (
            node.op_type in BIASED
            and node.input[1] in constants
            and (len(node.input) < 3 or node.input[2] in constants)
        ):
            _own_bias(node, constants)
    used = {name for node in proto.graph.node for name in node.input}
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(tensor for name, tensor in constants.items() if name in used)


def _own_bias(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> None:
    """Give a layer one bias per output that no other node reads."""
    across = node.op_type == "Gemm" and not _attribute(node, "transB", 0)
    count = constants[node.input[1]].dims[1 if across else 0]
    given = numpy_helper.to_array(constants[node.input[2]]) if len(node.input) > 2 else np.zeros(1, np.float32)
    if given.size in (1, count):
        bias = np.broadcast_to(given.astype(np.float32).reshape(-1), (count,)).copy()
        node.input[:] = [*node.input[:2], f"{node.name}{BIAS}"]
        constants[node.input[2]] = numpy_helper.from_array(bias, node.input[2])


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _ranks(proto: onnx.ModelProto) -> dict[str, int]:
    """The number of axes of tensors, as far as it follows from the graph."""
    values = onnx.shape_inference.infer_shapes(proto).graph.value_info
    return {value.name: len(value.type.tensor_type.shape.dim) for value in values}


def _to_layer(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], rank: int) -> None:
    """A batch norm as a layer with one weight per channel, which is the same function: a Conv, or a diagonal Gemm."""
    if _attribute(node, "training_mode", 0):
        raise Refusal("it is in training mode; export the network in evaluation mode", node.name)
    values = [numpy_helper.to_array(constants[name]).astype(np.float64) for name in node.input[1:5]]
    scale, shift, mean, variance = values
    factor = scale / np.sqrt(variance + _attribute(node, "epsilon", 1e-5))
    weight = factor.reshape(-1, 1, 1, 1) if rank == 4 else np.diag(factor)
    made = {f"{node.name}_weight": weight, f"{node.name}_shift": shift - mean * factor}
    for name, value in made.items():
        constants[name] = numpy_helper.from_array(value.astype(np.float32), name)
    inputs, name, output = [node.input[0], *made], node.name, node.output[:1]
    if rank == 4:
        made_node = helper.make_node("Conv", inputs, output, name=name, kernel_shape=[1, 1], group=len(factor))
    else:
        made_node = helper.make_node("Gemm", inputs, output, name=name, transB=1)
    node.CopyFrom(made_node)


def _check_operators(proto: onnx.ModelProto) -> None:
    """Refuse before any calibration what could not be lowered after it."""
    for node in proto.graph.node:
        if node.op_type in OF_TRANSFORMERS:
            raise Refusal(f"it has {node.op_type}; {TRANSFORMER}", node.name)
        if node.op_type not in OPERATORS and node.op_type not in TAIL:
            raise Refusal(f"the operator {node.op_type} is not supported (docs/onnx.md lists what is)", node.name)


def _before_layers(proto: onnx.ModelProto) -> frozenset[str]:
    """The nodes between image and first layer that compute with constants alone."""
    known = {tensor.name for tensor in proto.graph.initializer}
    images, found = {image_name(proto)}, set[str]()
    for node in proto.graph.node:
        if node.op_type in BEFORE_LAYOUT and images & set(node.input) and set(node.input) <= images | known:
            images.update(node.output)
            found.add(node.name)
    return frozenset(found)


def image_name(proto: onnx.ModelProto) -> str:
    """The name of the graph's one input that is not a constant."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    return next(str(entry.name) for entry in proto.graph.input if entry.name not in constants)


def weights_of(proto: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """The constants of a graph by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
