"""The folder that `intrs web` writes: the page, the core in WebAssembly, networks with their tables, a few pictures.

Nothing in it is made when the page is opened, so any server or file hosting takes it as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from intrs import zoo
from intrs.adaptive import GIVE_UP
from intrs.data import is_path, open_data
from intrs.errors import DataError, ModelError, SettingsError
from intrs.exact import parse_count, parse_fraction, plain
from intrs.exact import shown as shown_value
from intrs.exchange.web import bundle, checked_name, units_of
from intrs.files import as_path, check_new_folder, write_folder
from intrs.model import open_model
from intrs.noise import parse_sigma
from intrs.progress import Progress, reporting
from intrs.request import Certify
from intrs.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from intrs.data import Images
    from intrs.exact import Number
    from intrs.files import AnyPath
    from intrs.model import AnyModel, Model
    from intrs.progress import Shown

INSTALLED = Path(__file__).parent / "engine"  # the npm package, in the Python package as it is installed
CLONE = Path(__file__).parents[3] / "web"  # and in a clone
MARK = "site.json"  # lists what is in the folder; a folder with this file may be overwritten

# Only what the page brings along; WebAssembly may be compiled, and nothing may be evaluated from text.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)

MODELS = (
    *(f"resnet20-sigma{sigma}" for sigma in ("0.25", "0.12", "0.5", "1")),  # the first is shown first
    "resnet8-sigma0.25",
    "resnet20-clean",
)
DEFAULTS = {
    "n": Certify.n, "n0": Certify.n0, "alpha": plain(parse_fraction(Certify.alpha, "alpha")), "noise": Certify.noise,
    "bound": Certify.bound, "giveUp": plain(GIVE_UP),
}  # fmt: skip
SIGMA = "0.25"  # noise of those that were trained without
PICTURES = (
    0,
    3,
    4,
    7,
    8,
    9,
    10,
    12,
    14,
    21,
    16,
    17,
)  # positions in the data that ship: ten classes, an error, an abstention
MOST_PICTURES = 100
ARCHITECTURES = {"resnet8": "ResNet-8", "resnet20": "ResNet-20", "resnet50": "ResNet-50"}


@dataclass(frozen=True, eq=False)
class Site:
    """A folder that was written, and the bytes of each file in it."""

    path: Path
    models: tuple[str, ...]
    sizes: Mapping[str, int] = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.sizes.values())

    @property
    def first_load(self) -> int:
        """Bytes that the page needs until it can certify: the page, one build of the core, one model, the pictures."""
        first = next(name for name in self.sizes if name.startswith("models/"))
        return sum(
            size for name, size in self.sizes.items()
            if name == first or not name.startswith("models/")
            if not name.endswith("-plain.wasm")
        )  # fmt: skip


def web(
    out: AnyPath,
    *,
    models: AnyModel | Sequence[AnyModel] = MODELS,
    sigma: Number | None = None,
    data: AnyPath = zoo.DEFAULT_DATA,
    images: Sequence[int] = PICTURES,
    overwrite: bool = False,
    progress: Shown = None,
) -> Site:
    """Write the page that certifies in a browser, as a static folder. The first model is the one that it opens with.

    sigma is the noise of models that do not say under which they were trained (0.25 without it). images are the
    positions of the pictures to choose from in the data set, which is given by its name or path, as the page's commands
    name it. See docs/web-page.md.
    """
    path = as_path(out, "out")
    wanted = images if images is PICTURES else _positions(images)
    check_new_folder(path, MARK, overwrite=overwrite)
    opened = [
        open_model(model) for model in (models if isinstance(models, list | tuple) else [cast("AnyModel", models)])
    ]
    if not opened:
        raise SettingsError("a page needs at least one model")
    if sigma is not None:
        parse_sigma(sigma)  # a mistake is refused even if every model says its own
    entries = _entries(opened, sigma)
    listed, pixels = _pictures(data, wanted)
    _check_one_fits(entries, listed)
    contents = _page() | _engine() | _bundles(opened, entries, progress) | {listed["file"]: pixels}
    about = {"version": __version__, "defaults": DEFAULTS, "models": entries, "pictures": listed}
    write_folder(path, _with_list(contents, about).items())
    sizes = {name: (path / name).stat().st_size for name in (*contents, MARK)}
    return Site(path, tuple(entry["name"] for entry in entries), sizes)


def _positions(images: object) -> list[int]:
    """Where the pictures are in the data set, as whole numbers."""
    if not isinstance(images, Iterable) or isinstance(images, str):
        raise SettingsError(f"images: expected positions in the data set, such as [0, 3, 8], got {shown_value(images)}")
    return [parse_count(position, "images", least=0) for position in images]


def _page() -> dict[str, bytes]:
    """The files of the page itself."""
    found = {each.name: each.read_bytes() for each in (files("intrs.site") / "page").iterdir() if each.is_file()}
    found["index.html"] = found["index.html"].replace(b"$policy", POLICY.encode())
    return dict(sorted(found.items()))


def _engine() -> dict[str, bytes]:
    """What the npm package runs on: its scripts and both builds of the core."""
    source = INSTALLED if INSTALLED.is_dir() else CLONE
    listed = json.loads((source / "package.json").read_text("utf-8"))["files"]
    return {f"engine/{name}": (source / name).read_bytes() for name in listed if name.endswith((".js", ".wasm"))
            and not name.endswith(".d.ts")}  # fmt: skip


def _entries(models: Sequence[Model], sigma: Number | None) -> list[dict[str, Any]]:
    """What the page's list says of the models; those that would have the same title are told apart by their names."""
    entries = [_entry(model, sigma) for model in models]
    names = Counter(entry["name"] for entry in entries)
    titles = Counter(entry["title"] for entry in entries)
    for entry in entries:
        if names[entry["name"]] > 1:
            raise ModelError(f"two models are called {entry['name']}; rename one of the files")
        if titles[entry["title"]] > 1:
            entry["title"] += f" ({entry['name']})"
    return entries


def _entry(model: Model, sigma: Number | None) -> dict[str, Any]:
    name = Path(model.name).stem if model.path and not model.card else model.name
    if not name:
        raise ModelError("a Network has no name by which others could verify its certificates; pass its file")
    level = plain(parse_fraction(model.trained_sigma or (SIGMA if sigma is None else sigma), "sigma"))
    return {
        "name": checked_name(name), "title": f"{_title(model, name)}, σ = {level}", "sigma": level,
        "spec": model.name if model.card else Path(model.name).name, "file": f"models/{_safe(name)}.intrs",
        "shape": list(model.network().input_shape),
    }  # fmt: skip


def _title(model: Model, name: str) -> str:
    architecture = str(model.card.get("architecture", ""))
    if not architecture:
        return name
    return ARCHITECTURES.get(architecture, architecture) + ("" if model.trained_sigma else " trained without noise")


def _safe(name: str) -> str:
    """A name that is one path component in any address."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    return kept if kept == name else f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _bundles(models: Sequence[Model], entries: Sequence[Mapping[str, Any]], progress: Shown) -> dict[str, bytes]:
    """The models' files, by their names in the folder."""
    made: dict[str, bytes] = {}
    with reporting(progress) as report:
        for model, entry in zip(models, entries, strict=True):
            if report:
                report(Progress(len(made), len(models), "models"))
            settings = {"sigma": entry["sigma"], "name": entry["name"], "names": model.class_names}
            made[entry["file"]] = bundle(model.network(), **settings)
    return made


def _open_named(spec: AnyPath) -> tuple[str, Images]:
    """The pictures, and what the page's commands call them."""
    if not is_path(spec):
        raise SettingsError(
            "data: expected a name or a path, because the page's commands name the data. "
            "Save arrays first, numpy.savez('pictures.npz', images=images, labels=labels), and pass data='pictures.npz'"
        )
    units_of(os.fspath(spec))  # a page cannot hold all names that a file may have
    return os.fspath(spec), open_data(spec)


def _pictures(spec: AnyPath, positions: Sequence[int]) -> tuple[dict[str, Any], bytes]:
    """What the page's list says of the pictures, and their bytes, one after the other."""
    name, data = _open_named(spec)
    count = len(data.indices)
    wanted = [position for position in dict.fromkeys(positions) if position < count or positions is not PICTURES]
    if not 0 < len(wanted) <= MOST_PICTURES:
        raise SettingsError(f"images: expected 1 to {MOST_PICTURES} positions, got {len(wanted)}")
    if any(not 0 <= position < count for position in wanted):
        raise DataError(f"images: the data set has positions 0 to {count - 1}")
    pixels: list[NDArray[np.uint8]] = [np.asarray(data.images[position]) for position in wanted]
    listed = [{"position": at, "index": int(data.indices[at]), "label": data.label(at)} for at in wanted]
    about = {
        "file": "pictures.bin", "data": name, "name": data.name, "shape": list(pixels[0].shape),
        "classes": data.classes, "labels": int(data.labels.max()) + 1 if data.has_labels else 0, "list": listed,
    }  # fmt: skip
    return about, b"".join(image.tobytes() for image in pixels)


def _check_one_fits(entries: Sequence[Mapping[str, Any]], pictures: Mapping[str, Any]) -> None:
    """Refuse pictures that none of the models takes: the page could show nothing."""
    if all(entry["shape"] != pictures["shape"] for entry in entries):
        found, taken = (" x ".join(map(str, each["shape"])) for each in (pictures, entries[0]))
        raise DataError(
            f"{pictures['name']} has images of {found} (height x width x channels), but {entries[0]['name']} takes "
            f"{taken}. Give data whose images have this size"
        )


def _with_list(contents: Mapping[str, bytes], about: Mapping[str, Any]) -> dict[str, bytes]:
    """All files, with the list of them as the last one, when all that it names is there.

    The browser's store is renewed when the digest over all of them, and over what is said of them, is another one.
    """
    total = hashlib.sha256(json.dumps([about, _digests(contents)]).encode()).hexdigest()[:16]
    made = {**contents, "sw.js": contents["sw.js"].replace(b"$version", total.encode())}
    listed = {**about, "store": total, "files": _digests(made)}
    return made | {MARK: json.dumps(listed, indent=1).encode()}


def _digests(contents: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
