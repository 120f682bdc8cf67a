"""The diagram of the README: `python tools/make_diagram.py` writes docs/images/pipeline.svg.

Image, noise, votes and radius in it are real: those of one image that ships, under a fixed seed. They are the same on
every machine, and the pictures are stored without compression, so the file is, too; tests/test_docs.py compares it.
"""

from __future__ import annotations

import argparse
import base64
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np

import intrs
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "pipeline.svg"
MODEL, DATA, POSITION, SEED, SIGMA, N0, N = "resnet20-sigma0.25", "cifar10-500", 13, 1, "0.25", 100, 1000
WIDTH, HEIGHT, MIDDLE, SIDE = 1000, 250, 112, 104  # MIDDLE: where the pictures' middle is; SIDE: of a picture
COLUMNS = (78, 262, 468, 690, 898)  # the middles of the five parts

STYLE = """
  .card { fill: #ffffff; stroke: #d5dae2 } .ink { fill: #1c2430 } .soft { fill: #596475 } .line { stroke: #596475 }
  .edge { fill: none; stroke: #596475 } .part { fill: #e4ecf8; stroke: #2f5fa8 } .most { fill: #1f6f4a }
  .other { fill: #9aa5b5 } .ball { fill: #1f6f4a; fill-opacity: .12; stroke: #1f6f4a }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; text-anchor: middle }
  .title { font-size: 16px; font-weight: 600 } .small { font-size: 12.5px } .end { text-anchor: end }
  .count { fill: #ffffff } .start { text-anchor: start } image { image-rendering: pixelated }
  @media (prefers-color-scheme: dark) {
    .card { fill: #14181f; stroke: #333c49 } .ink { fill: #e8ecf2 } .soft { fill: #a3aebd } .line { stroke: #a3aebd }
    .edge { stroke: #a3aebd } .part { fill: #22324c; stroke: #7fa8e6 } .most { fill: #5cc795 } .other { fill: #5f6b7c }
    .count { fill: #10151b } .ball { fill: #5cc795; stroke: #5cc795 }
  }
"""


def diagram() -> str:
    """The whole SVG."""
    data, network = intrs.open_data(DATA), intrs.load(MODEL)
    image, index = data.images[POSITION], int(data.indices[POSITION])
    noise = intrs.Noise.discrete(SIGMA)
    copies = noisy_images(image, noise, Samples(SEED, index, 0, 3))
    answer = intrs.Smooth(network, noise, seed=SEED).certify(image, n0=N0, n=N, index=index)
    if not isinstance(answer, intrs.Certified):
        raise SystemExit("the image of the diagram is not certified")
    counted = intrs.votes.count(network, image, noise, Samples(SEED, index, N0, N)).counts
    if counted[answer.label] != answer.votes:
        raise SystemExit("the votes that are shown are not those of the certificate")
    counts, name = dict(zip(data.classes, map(int, counted), strict=True)), data.classes[answer.label]
    parts = [
        _image(image),
        _noise(copies),
        _network(),
        _votes(counts),
        _ball(image, f"{name}, radius {answer.radius_text(3)}"),
        *(_arrow(a, b) for a, b in ((140, 180), (336, 376), (560, 600), (786, 826))),
    ]
    words = (
        f"An image and integer noise go into an int8 network; the votes on {N:,} noisy copies give a certified radius."
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(words)}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="14"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _label(column: int, title: str, words: str) -> str:
    x = COLUMNS[column]
    return (
        f'<text class="ink title" x="{x}" y="204">{title}</text><text class="soft small" x="{x}" y="225">{words}</text>'
    )


def _image(image: NDArray[np.uint8]) -> str:
    return _picture(image, COLUMNS[0], MIDDLE) + _label(0, "image", "integers 0 to 255")


def _noise(copies: NDArray[np.int32]) -> str:
    """Three noisy copies, one behind the other."""
    clipped = np.clip(copies, 0, 255).astype(np.uint8)
    places = ((16, -16), (0, 0), (-16, 16))
    pictures = [_picture(copy, COLUMNS[1] + x, MIDDLE + y) for copy, (x, y) in zip(clipped, places, strict=True)]
    return "".join(pictures) + _label(1, "+ integer noise", f"sigma {SIGMA}, from a seed")


def _network() -> str:
    """Boxes that become lower, as the layers of a network do."""
    heights, width, gap = (104, 104, 80, 80, 54, 54, 30), 18, 7
    left = COLUMNS[2] - (len(heights) * (width + gap) - gap) / 2
    boxes = [
        f'<rect class="part" x="{left + i * (width + gap):g}" y="{MIDDLE - high / 2:g}"'
        f' width="{width}" height="{high}" rx="3"/>'
        for i, high in enumerate(heights)
    ]
    return "".join(boxes) + _label(2, "int8 network", "every sum is exact")


def _votes(counts: dict[str, int]) -> str:
    """A bar for each of the first four classes."""
    shown = sorted(counts.items(), key=lambda entry: -entry[1])[:4]
    left, widest = COLUMNS[3] - 34, 92
    bars = []
    for i, (name, count) in enumerate(shown):
        y, long = MIDDLE - 46 + i * 26, max(1, widest * count / N)
        bars.append(f'<text class="ink small end" x="{left - 6}" y="{y + 12}">{escape(name)}</text>')
        bars.append(
            f'<rect class="{"other" if i else "most"}" x="{left}" y="{y}" width="{long:.1f}" height="15" rx="2"/>'
        )
        kind, x = ("ink small start", left + long + 5) if i else ("count small", left + long / 2)
        bars.append(f'<text class="{kind}" x="{x:.1f}" y="{y + 12}">{count}</text>')
    return "".join(bars) + _label(3, "votes", f"of {N:,} noisy copies")


def _ball(image: NDArray[np.uint8], words: str) -> str:
    """The image in the middle of what is certified."""
    x, radius = COLUMNS[4], 62
    ball = f'<circle class="ball" cx="{x}" cy="{MIDDLE}" r="{radius}" stroke-width="2" stroke-dasharray="5 4"/>'
    return ball + _picture(image, x, MIDDLE, 44) + _label(4, "certificate", escape(words))


def _arrow(left: int, right: int) -> str:
    """From one part to the next."""
    head = f'<path class="soft" d="M{right} {MIDDLE}l-9 -5v10z"/>'
    return f'<line class="line" x1="{left}" y1="{MIDDLE}" x2="{right - 8}" y2="{MIDDLE}" stroke-width="2"/>{head}'


def _picture(pixels: NDArray[np.uint8], x: float, y: float, side: int = SIDE) -> str:
    """An image with its middle at (x, y), and an edge around it."""
    place = f'x="{x - side / 2:g}" y="{y - side / 2:g}" width="{side}" height="{side}"'
    data = base64.b64encode(_png(pixels)).decode()
    return f'<image {place} href="data:image/png;base64,{data}"/><rect class="edge" {place}/>'


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG without compression, whose bytes do not depend on a library's version."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def main() -> None:
    """Write the diagram."""
    parser = argparse.ArgumentParser(description="write the diagram of the README")
    parser.add_argument("--out", type=Path, default=OUT, help="SVG file to write")
    out = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(diagram(), "utf-8")
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
