"""How a network is shown: a table of its layers as text or as HTML, and what is known of the whole."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from intrs.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.network.network import Network

HEADER = ("", "layer", "kind", "output", "weights", "least sum", "largest sum")
WORDS = 4  # the first columns hold words, the others numbers
LONGEST_NAME = 18
SUMS = "sums: proven bounds of the 32-bit accumulators"


def as_text(network: Network) -> str:
    """The table, then one line per fact."""
    rows = list(layer_rows(network))
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    lines = [_line(HEADER, widths), " ".join("-" * width for width in widths)]
    lines += [_line(row, widths) for row in rows]
    lines += [SUMS, *(f"{name:<10}{value}" for name, value in facts(network))]
    return "\n".join(lines)


def as_html(network: Network) -> str:
    """The same for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADER)
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in layer_rows(network))
    rest = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts(network))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><table><tbody>{rest}</tbody></table>"


def facts(network: Network) -> Iterator[tuple[str, str]]:
    """Names and values of what is known of the whole network."""
    yield "identity", network.identity
    yield "input", f"{' x '.join(map(str, network.input_shape))} (height x width x channels)"
    yield "pixels", _pixels(network)
    yield "output", f"{network.classes} classes"
    yield "weights", f"{network.weight_count:,} bytes, layers: {len(network.layers)}"
    yield "work", f"{network.native.multiply_adds():,} multiply-adds per sample"


def layer_rows(network: Network) -> Iterator[tuple[str, ...]]:
    """One row per layer, under `HEADER`."""
    for i, (layer, row) in enumerate(zip(network.layers, network.native.layers(), strict=True), 1):
        numbers = (layer.weight_count, *row[3:]) if layer.weight_count else ()
        cells = [f"{number:,}" for number in numbers] or [""] * 3
        yield str(i), _short(printable(layer.name)), type(layer).__name__, "x".join(map(str, row[:3])), *cells


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [c.ljust(w) if i < WORDS else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
    return " ".join(padded).rstrip()


def _cells(row: tuple[str, ...]) -> str:
    styles = ["left"] * WORDS + ["right"] * (len(row) - WORDS)
    return "".join(f'<td style="text-align: {s}">{escape(c)}</td>' for s, c in zip(styles, row, strict=True))


def _short(name: str) -> str:
    name = name.replace("\n", "\\n")
    return name if len(name) <= LONGEST_NAME else "..." + name[3 - LONGEST_NAME :]


def _pixels(network: Network) -> str:
    """What the first quantiser makes of pixels, whatever the file's own scale was."""
    q = network.quantiser
    steps = sorted({f"{2**q.shift / abs(int(m)):.3g}" for m in q.multiplier if m}, key=float)
    step = " to ".join(steps if len(steps) <= 2 else (steps[0], steps[-1]))
    levels = "level" if step == "1" else "levels"
    return f"{step} {levels} per 8-bit code; the codes span {q.low.min()}..{q.high.max()}"
