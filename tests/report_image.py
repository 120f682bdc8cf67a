"""The picture of a report in the README: `python tests/report_image.py docs/images/report.webp`, with Chromium.

Two runs of 100 images with 1,000 samples under a fixed seed: the same numbers on every machine, in about a minute.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from browser import Browser
from PIL import Image

import intrs

MODELS = {"resnet20-sigma0.25": "sigma 0.25", "resnet20-sigma0.5": "sigma 0.5"}
TITLE = "ResNet-20 on CIFAR-10"
WIDTH, HEIGHT = 940, 1090


def main() -> None:
    """Certify, write the page, open it, and keep what is seen first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = Path(folder) / "report.html"
        runs = [intrs.certify(name, "cifar10-500", n=1000, max=100, seed=1) for name in MODELS]
        intrs.report(runs, page, labels=list(MODELS.values()), title=TITLE)
        browser.call("Emulation.setScrollbarsHidden", hidden=True)
        browser.open(page, width=WIDTH, height=HEIGHT)
        browser.screenshot(Path(folder) / "page.png")
        out.parent.mkdir(parents=True, exist_ok=True)
        Image.open(Path(folder) / "page.png").convert("RGB").save(out, quality=88, method=6)


if __name__ == "__main__":
    main()
