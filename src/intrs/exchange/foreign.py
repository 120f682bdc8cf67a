"""Model files of other programs, told by their content, each with one sentence of advice. None of them is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXPORT = "export the model in PyTorch with torch.onnx.export, then quantize the ONNX file (docs/onnx.md)"
CONVERT = "convert it in TensorFlow with tf.lite.TFLiteConverter and full integer quantisation (docs/tflite.md)"
DATA = "as a model: the model comes first, then the data"
LOOK = 2**16  # bytes at each end of a file in which names of a ZIP archive are looked for
SAFETENSORS_LENGTH = 8
MOST_HEADER = 10**8
ZIP, PICKLES = b"PK\x03\x04", tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))


class Foreign(NamedTuple):
    """A format that is not read."""

    what: str
    recognises: Callable[[bytes], bool]
    advice: str


def _zipped(*names: bytes) -> Callable[[bytes], bool]:
    """A ZIP archive with these names in it; looked for in its bytes, because an archive may lie about its size."""
    return lambda data: data.startswith(ZIP) and all(name in data[:LOOK] or name in data[-LOOK:] for name in names)


def _is_safetensors(data: bytes) -> bool:
    length = int.from_bytes(data[:SAFETENSORS_LENGTH], "little")
    return 2 <= length <= min(MOST_HEADER, len(data) - SAFETENSORS_LENGTH) and data[SAFETENSORS_LENGTH:9] == b"{"


FORMATS = (
    Foreign("an .npz file of NumPy, perhaps images", _zipped(b".npy"), DATA),
    Foreign("an image", lambda data: data.startswith((b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8")), DATA),
    Foreign("a TorchScript archive", _zipped(b"constants.pkl", b"code/"), EXPORT),
    Foreign("an exported program of PyTorch (.pt2)", _zipped(b"archive_format"), EXPORT),
    Foreign("a PyTorch checkpoint, which would have to be unpickled", _zipped(b"data.pkl"), EXPORT),
    Foreign("a Keras model", _zipped(b"config.json", b"model.weights.h5"), CONVERT),
    Foreign("a pickle, perhaps an old PyTorch checkpoint", lambda data: data.startswith(PICKLES), EXPORT),
    Foreign("an HDF5 file, perhaps of Keras", lambda data: data.startswith(b"\x89HDF\r\n\x1a\n"), CONVERT),
    Foreign("a program for ExecuTorch (.pte)", lambda data: data[4:6] == b"ET" and data[6:8].isdigit(), EXPORT),
    Foreign("a safetensors file, which holds weights without a network", _is_safetensors, EXPORT),
    Foreign("a TensorFlow SavedModel", lambda data: data.startswith(b"\x08\x01\x12"), CONVERT),
    Foreign("a TensorFlow.js model", lambda data: b'"modelTopology"' in data[:LOOK], CONVERT),
    Foreign(
        "a pointer of Git LFS, not the file itself",
        lambda data: data.startswith(b"version https://git-lfs"),
        "fetch it with git lfs pull",
    ),
    Foreign(
        "another version of the TFLite format",
        lambda data: data[4:7] == b"TFL",
        "convert the model again with a TensorFlow from 2017 on; intrs reads the identifier TFL3",
    ),
)


def advice(data: bytes) -> str:
    """What a file is that cannot be read, and what to do; empty if it is none that is known."""
    found = next((known for known in FORMATS if known.recognises(data)), None)
    if found and found.advice == DATA:
        return f"it is {found.what}, which intrs does not read {DATA}"
    return f"it is {found.what}, which intrs does not read; {found.advice}" if found else ""


def folder_advice(path: Path) -> str:
    """The same for a folder."""
    saved = any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))
    return f"it is the folder of a TensorFlow SavedModel, which intrs does not read; {CONVERT}" if saved else ""


def misnamed(path: Path) -> str:
    """What to say of a file that is called a TFLite file and has not its mark."""
    told = path.suffix.lower() in (".tflite", ".lite")
    return (
        "it is no TFLite file, or it is damaged: the bytes 4 to 7 are not TFL3; fetch or convert it again"
        if told
        else ""
    )
