"""What a network can be written as for other programs. A new target is one entry here, and a module that writes it.

`write_file(network, path, **options)` of that module writes the file, or a folder of files. It returns
None, or what intrs loads from a file that computes otherwise (`difference.Written`), or the folder.
Nothing is imported before it is used: the command line lists the targets without loading what writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from intrs.errors import SettingsError
from intrs.exact import shown

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.exchange.device.folder import DeviceFolder
    from intrs.exchange.difference import Written
    from intrs.network import Network

COMPARED = ("data", "sigma")  # the images on which a file is compared with the network, and their noise
DEVICE = (
    *("sigma", "noise", "n", "n0", "alpha", "bound", "radii", "give_up"),  # as those of certify
    *("only", "at_least", "predict_n", "ram", "flash", "tiles"),
)
WEB = ("sigma", "noise", "n", "n0", "alpha", "bound", "radii", "give_up", "predict_n", "name", "names")

BY_REFERENCE = (
    "TFLite Micro and LiteRT's reference kernels compute the integers of the file; delegates may round otherwise."
)
IN_FLOATS = (
    "ONNX Runtime rounds products with float scales, so some of its scores differ from those of any certificate."
)


@dataclass(frozen=True)
class Target:
    """A form in which networks are written."""

    name: str
    title: str  # what a person calls the format
    suffix: str  # by which the name of an output tells the target
    module: str  # under `intrs.exchange`: it has `write_file`
    note: str = ""  # what the program that runs the file computes, if it is not said by `difference`
    options: tuple[str, ...] = ()  # that its `write_file` takes beside the network and the path
    says_sigma: bool = False  # whether the file says under which noise the network was trained
    folder: str = ""  # for a folder of files: one that is in every such folder, by which it is known again


TARGETS = {
    target.name: target
    for target in (
        Target("tosa", "TOSA 1.0", ".tosa", "tosa"),
        Target("tflite", "int8 TFLite", ".tflite", "tflite.exporting", BY_REFERENCE, COMPARED, says_sigma=True),
        Target("c", "C99 for devices", "", "device.folder", options=DEVICE, folder="src/net.h"),
        Target("web", "a model for browsers", ".intrs", "web", options=WEB),
        Target("onnx", "int8 ONNX (QDQ)", ".onnx", "onnx.exporting", IN_FLOATS, COMPARED, says_sigma=True),
    )
}
DEFAULT = "tosa"


@dataclass(frozen=True, eq=False)
class Exported:
    """What was written: where, as what, and the network of which it was made.

    `written` is there if the file computes otherwise: the network in the file, and how it differs. It is None where
    the file holds the same integers.
    """

    path: Path
    target: Target
    network: Network
    written: Written | None = None
    device: DeviceFolder | None = None  # a folder for devices: its constants and sizes

    @property
    def identity(self) -> str:
        """Of the network that was exported."""
        return self.network.identity


def target_of(name: str | None, out: Path) -> Target:
    """The target of this name, or without one that of the output's suffix; TOSA if it has none."""
    by_suffix = {t.suffix: t for t in TARGETS.values() if t.suffix} | {"": TARGETS[DEFAULT]}
    if name is None and out.suffix.lower() in by_suffix:
        return by_suffix[out.suffix.lower()]
    if name is None:
        known = ", ".join(sorted(filter(None, by_suffix)))
        raise SettingsError(
            f"{out}: its suffix says none of the targets; take one of {known}, or name the target, such as c for a "
            "folder of C files"
        )
    if name not in TARGETS:
        raise SettingsError(f"unknown target {shown(name)}; choose from {', '.join(TARGETS)}")
    target, other = TARGETS[name], by_suffix.get(out.suffix.lower())
    if out.suffix and other and other is not target:
        wanted = f"take {target.suffix}" if target.suffix else "choose another name"
        raise SettingsError(f"{out}: its suffix is that of {other.title}, but the target is {name}; {wanted}")
    return target


def write(target: Target, network: Network, path: Path, options: dict[str, Any], trained_sigma: str = "") -> Exported:
    """Write the network, which was trained under this noise; SettingsError at options that are not the target's."""
    for name in options:
        if name not in target.options:
            known = ", ".join(target.options) or "none"
            raise SettingsError(f"the target {target.name} has no option {name}; it has {known}")
    if target.says_sigma:
        options = options | {"trained_sigma": trained_sigma}
    made = import_module(f"intrs.exchange.{target.module}").write_file(network, path, **options)
    if target.folder:
        return Exported(path, target, network, device=made)
    return Exported(path, target, network, made)
