"""The folder that `intrs export --target c` writes: constants, runtime, an example, and what build systems want."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs.errors import SettingsError
from intrs.exact import parse_count, plain
from intrs.exchange.device.constants import Constants, build
from intrs.exchange.device.convs import TILES, tile_sizes
from intrs.exchange.device.decisions import Decisions
from intrs.exchange.device.settings import decisions_of
from intrs.exchange.device.sizes import FOR, CodeSize, code_size, kib, parse_bytes, table
from intrs.exchange.device.vectors import SAMPLES, Vectors, make_vectors
from intrs.exchange.device.words import ConstantBlock
from intrs.files import named, write_folder
from intrs.network import Conv
from intrs.text import plain_name
from intrs.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.exact import Count
    from intrs.network import Network

INSTALLED = Path(__file__).parent / "runtime"  # in the package as it is installed
CLONE = Path(__file__).parents[4]  # of which the package is run as it is
MARK = Path("src/net.h")  # a folder with this file may be overwritten
MODES = {1: "INTRS_PREDICT", 2: "INTRS_CERTIFY", 3: "INTRS_ADAPTIVE"}
RUN_WORDS = 20
AUTO = "auto"


@dataclass(frozen=True, eq=False)
class DeviceFolder:
    """What was written, and how much of a device it takes."""

    constants: Constants
    decisions: Decisions
    vectors: Vectors = field(repr=False)
    code: CodeSize

    @property
    def flash(self) -> int:
        """Constants and code."""
        return len(self.constants.data) + self.code.flash

    @property
    def ram(self) -> int:
        """Arena, stack, and the state of one run."""
        return self.constants.plan.size + self.code.stack + self.run_bytes

    @property
    def run_bytes(self) -> int:
        """The state of one run."""
        return 4 * (RUN_WORDS + self.constants.network.classes)

    def lines(self) -> list[str]:
        """The sizes, for people."""
        c, kind = self.constants, f"{FOR}, {'measured here' if self.code.measured else 'measured once'}"
        tables = c.decision_bytes
        return [
            f"flash  {self.flash:,} bytes ({kib(self.flash)}): constants {len(c.data):,}, of which noise and decisions "
            f"{tables:,}; code {self.code.flash:,} ({kind})",
            f"RAM    {self.ram:,} bytes ({kib(self.ram)}): arena {c.plan.size:,}, stack {self.code.stack:,}, "
            f"run {self.run_bytes:,}",
        ]

    def layer_table(self) -> str:
        """A line per layer: bytes of constants, multiply-adds, scratch. It is written into C and Markdown as it is."""
        network, plan = self.constants.network, self.constants.plan
        rows = [
            (plain_name(layer.name) or f"{i}", self._kind(i), "x".join(map(str, network.shapes[i])), size,
             multiply_adds(network, i), scratch)
            for i, (layer, size, scratch) in enumerate(
                zip(network.layers, self.constants.layer_bytes, plan.scratch_bytes, strict=True), 1)
        ]  # fmt: skip
        return table(("layer", "kind", "output", "bytes", "multiply-adds", "scratch"), rows)

    def _kind(self, tensor: int) -> str:
        """What the layer is that writes this tensor, and how it is computed if there is a choice."""
        name = type(self.constants.network.layers[tensor - 1]).__name__
        return f"{name} by tiles" if self.constants.methods[tensor - 1] == TILES else name


def multiply_adds(network: Network, tensor: int) -> int:
    """Of the layer that writes this tensor, for one sample."""
    layer, (height, width, _) = network.layers[tensor - 1], network.shapes[tensor]
    return height * width * layer.weight_count if isinstance(layer, Conv) else 0


def write_file(
    network: Network,
    path: Path,
    *,
    ram: int | str | None = None,
    flash: int | str | None = None,
    tiles: Count | str = 0,
    **settings: Any,
) -> DeviceFolder:
    """Write the folder; nothing is written if the network and its tables do not fit `ram` and `flash`.

    3 x 3 convolutions with at most `tiles` channels are computed by tiles, "auto" as many as fit.
    """
    most_ram, most_flash = parse_bytes(ram, "ram"), parse_bytes(flash, "flash")
    sizes = tile_sizes(network) if tiles == AUTO else [parse_count(tiles, "tiles", least=0)]
    decisions = decisions_of(network, **settings)
    constants = _best_that_fits(network, decisions, sizes, most_ram, most_flash)
    code = code_of_runtime(constants.tiled)
    made = DeviceFolder(constants, decisions, make_vectors(network, decisions), code)
    write_folder(path, [(name, text.encode()) for name, text in files_of(made)])
    return made


def _best_that_fits(
    network: Network, decisions: Decisions, sizes: list[int], most_ram: int | None, most_flash: int | None
) -> Constants:
    """The constants with the first of these sizes of tiles that fits. Raises SettingsError if the last does not."""
    for size in sizes:
        constants = build(network, decisions, size)
        try:
            _check_fits(constants, decisions, code_of_runtime(constants.tiled), most_ram, most_flash)
        except SettingsError:
            if size == sizes[-1]:
                raise
        else:
            break
    return constants


def _check_fits(
    constants: Constants, decisions: Decisions, code: CodeSize, most_ram: int | None, most_flash: int | None
) -> None:
    run = 4 * (RUN_WORDS + constants.network.classes)
    ram, flash = constants.plan.size + code.stack + run, len(constants.data) + code.flash
    if most_ram is not None and ram > most_ram:
        parts = f"arena {constants.plan.size:,}, stack {code.stack:,}, run {run:,}"
        raise SettingsError(
            f"the network needs {ram:,} bytes of RAM ({parts}), and {most_ram:,} are allowed; its largest layer "
            "decides, so take a narrower network or smaller images"
        )
    if most_flash is not None and flash > most_flash:
        bare = flash - constants.decision_bytes
        fitting = [f"{name} ({size:,})" for name, size in _smaller(constants, decisions, bare) if size <= most_flash]
        advice = f"what would fit: {', '.join(fitting)}" if fitting else f"without any tables it needs {bare:,}"
        parts = f"constants {len(constants.data):,}, of which noise and decisions {constants.decision_bytes:,}"
        raise SettingsError(
            f"the network needs {flash:,} bytes of flash ({parts}; code {code.flash:,}), and {most_flash:,} are "
            f"allowed; {advice}"
        )


def _smaller(constants: Constants, decisions: Decisions, bare: int) -> Iterator[tuple[str, int]]:
    """Other settings, and the flash that they would take."""

    def size(wanted: Decisions) -> int:
        block = ConstantBlock(0)
        wanted.put(block)
        return bare + len(block)

    if decisions.predict and (decisions.certify or decisions.adaptive):
        yield "only predictions", size(Decisions(decisions.noise, decisions.predict))
    if asked := decisions.adaptive:
        one = Decisions(decisions.noise, adaptive=replace(asked, only_asked=True))
        yield "the radii that are asked for and no others (at_least)", size(one)
    if decisions.certify and decisions.certify.table is not None:
        held = decisions.certify
        one = Decisions(
            decisions.noise, certify=replace(held, table=None, at_least=Fraction(0))
        )  # all radii take the same space
        yield "whether one radius is certified (at_least)", size(one)
    yield "the network without noise and certificates", bare


# --- The files -------------------------------------------------------------------------------------------------------


def runtime_folder() -> Path:
    """Where the files of the runtime lie: in the package, or in the clone that it is run from."""
    return INSTALLED if INSTALLED.is_dir() else CLONE / "device"


def arithmetic_file() -> Path:
    """The one definition of rounding."""
    return INSTALLED / "arith.h" if INSTALLED.is_dir() else CLONE / "core" / "arith.h"


@cache
def code_of_runtime(tiles: bool = False) -> CodeSize:
    """How much flash and stack the runtime takes, without or with the code of tiles."""
    with tempfile.TemporaryDirectory() as folder:
        with named(Path(folder), "write"):  # of a full disk the system would say that it is the file to be copied
            for path in (*runtime_folder().glob("intrs*"), arithmetic_file()):
                shutil.copy(path, folder)
        return code_size(Path(folder), tiles)


def files_of(made: DeviceFolder) -> Iterator[tuple[str, str]]:
    """Every file of the folder, by its name in it."""
    runtime = runtime_folder()
    for path in sorted(runtime.glob("intrs*.[ch]")):
        if path.name != "intrs_config.h":
            yield f"src/{path.name}", path.read_text("utf-8")
    yield "src/arith.h", arithmetic_file().read_text("utf-8")
    yield "src/intrs_config.h", _config(made)
    yield "src/net.c", _net_c(made)
    yield "src/net.h", _net_h(made)
    for path in sorted((runtime / "boards").iterdir()):
        yield f"boards/{path.name}", path.read_text("utf-8")
    for path in sorted(p for p in (runtime / "project").rglob("*") if p.is_file()):
        name = path.relative_to(runtime / "project").as_posix()
        text = path.read_text("utf-8").replace("@VERSION@", __version__.split("+")[0])
        yield ("examples/check/main.c" if name == "main.c" else name), text
    yield "README.md", _readme(made)


def _config(made: DeviceFolder) -> str:
    return (
        "/* Written by intrs. */\n#ifndef INTRS_CONFIG_H\n#define INTRS_CONFIG_H\n\n"
        f"#define INTRS_MOST_CLASSES {made.constants.network.classes}\n"
        f"#define INTRS_WITH_TILES {int(made.constants.tiled)}\n\n#endif\n"
    )


def _net_h(made: DeviceFolder) -> str:
    network, size = made.constants.network, made.constants.plan.size
    height, width, channels = network.input_shape
    macros = {
        "NET_IDENTITY": f'"{network.identity}"',
        "NET_HEIGHT": height, "NET_WIDTH": width, "NET_CHANNELS": channels,
        "NET_IMAGE_BYTES": height * width * channels,
        "NET_CLASSES": network.classes,
        "NET_DATA_BYTES": f"{len(made.constants.data)}u",
        "NET_ARENA_BYTES": f"{size}u",
        "NET_CODE_BYTES": made.code.flash,
        "NET_STACK_BYTES": made.code.stack,
        "NET_MULTIPLY_ADDS": sum(multiply_adds(network, i) for i in range(1, len(network.shapes))),
    }  # fmt: skip
    defined = "\n".join(f"#define {name} {value}" for name, value in macros.items())
    layers = "\n".join(f" * {line}" for line in made.layer_table().splitlines())
    sizes = "\n".join(f" * {line}" for line in made.lines())
    return f"""/* Written by intrs {__version__}: the constants of a network, and what they need.
 *
{sizes}
 *
{layers}
 *
 * NET_CODE_BYTES and NET_STACK_BYTES are those of the runtime for {FOR}. */
#ifndef NET_H
#define NET_H

#include "intrs.h"

{defined}
{_mode_macros(made.decisions)}
#ifdef __cplusplus
extern "C" {{
#endif

extern const uint32_t net_data[NET_DATA_BYTES / 4];
extern const intrs_vectors net_vectors; /* for intrs_self_check */

#ifdef __cplusplus
}}
#endif

#endif
"""


def _mode_macros(decisions: Decisions) -> str:
    lines = [f'#define NET_NOISE "{decisions.noise.kind}"', f'#define NET_SIGMA "{plain(decisions.noise.sigma)}"']
    if decisions.predict:
        lines.append(f"#define NET_PREDICT_N {decisions.predict.n}")
    if decisions.certify:
        lines.append(f"#define NET_CERTIFY_N {decisions.certify.certifier.n}")
    if decisions.adaptive:
        lines.append(f"#define NET_ADAPTIVE_N {decisions.adaptive.rule.caps[-1]}")
    if asked := decisions.certify or decisions.adaptive:
        certifier = decisions.certify.certifier if decisions.certify else decisions.adaptive.rule.certifier  # type: ignore[union-attr]
        lines.append(f"#define NET_SELECT_N {asked.n0}")
        lines.append(f'#define NET_ALPHA "{plain(certifier.alpha)}"')
    return "\n".join(lines) + "\n"


def _numbers(values: Any, form: str, per_line: int) -> str:
    texts = [form.format(int(value)) for value in values]
    return ",\n".join("    " + ", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line))


def _net_c(made: DeviceFolder) -> str:
    v = made.vectors
    words = np.frombuffer(made.constants.data, "<u4")
    expected = ",\n".join(
        f"    {{{MODES[e.mode]}, {{{int(e.decided)}u, {e.label}u, {e.votes}u, {e.samples}u, {e.radius_sq}u}}}}"
        for e in v.expected
    )
    seed = _numbers(v.seed.to_bytes(32, "little"), "0x{:02x}", 16)
    return f"""/* Written by intrs {__version__}. Constants only. */
#include "net.h"

const uint32_t net_data[NET_DATA_BYTES / 4] = {{
{_numbers(words, "0x{:08x}u", 9)}}};

static const uint8_t image[NET_IMAGE_BYTES] = {{
{_numbers(v.image.ravel(), "{}", 24)}}};

static const uint8_t seed[32] = {{
{seed}}};

static const uint32_t votes[NET_CLASSES] = {{
{_numbers(v.votes, "{}u", 20)}}};

static const uint8_t scores[32] = {{
{_numbers(v.scores, "0x{:02x}", 16)}}};

static const intrs_expected expected[] = {{
{expected}}};

const intrs_vectors net_vectors = {{image, NET_IMAGE_BYTES, seed, {v.index}u, {SAMPLES}u, votes, scores,
                                   {len(v.expected)}u, expected}};
"""


def _readme(made: DeviceFolder) -> str:
    network = made.constants.network
    sizes = "\n".join(made.lines())
    return f"""# A network with certificates, in C99

Written by intrs {__version__}. Network {network.identity}, {made.decisions.noise}.

    make check       # on this computer
    make run-qemu    # on an emulated Cortex-M4

`src/` is all that a project needs: add its files, include `intrs.h` and `net.h`. `src/intrs.h` says how they are used,
`examples/check/main.c` shows it.

    {sizes.replace(chr(10), chr(10) + "    ")}

## Layers

    {made.layer_table().replace(chr(10), chr(10) + "    ")}
"""
