"""The picture of the page in README.md: `python tests/page_image.py docs/images/web-page.webp`, with Chromium.

It also prints how long after opening the page had its first certificate, in a browser that was just started.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from pathlib import Path

from browser import Browser
from PIL import Image

from intrs import site

FRAGMENT = "#seed=0x1&picture=60"
WIDTH, HEIGHT = 940, 1090
DECIDED = "document.body.dataset.loaded && document.body.dataset.run === 'decided'"

# Notes when a radius is certified first, counted from the moment at which the page was asked for.
WATCH = """new MutationObserver(() => {
  if (document.querySelector('.panel')?.dataset.answer === 'certified') window.first ??= performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true })"""


def main() -> None:
    """Write the page to a folder, open it, wait for the certificate, and keep what is seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        made = site.web(Path(folder) / "site", models=["resnet20-sigma0.25"])
        with site.serving(made.path, 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            browser.call("Emulation.setScrollbarsHidden", hidden=True)
            browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
            browser.visit(f"http://localhost:{server.server_address[1]}/{FRAGMENT}", width=WIDTH, height=HEIGHT)
            browser.wait(DECIDED)
            browser.run("new Promise((done) => setTimeout(done, 700))")  # the ball grows for a moment
            print(f"first certificate after {browser.run('window.first'):.0f} ms")
            browser.screenshot(Path(folder) / "page.png")
            server.shutdown()
        out.parent.mkdir(parents=True, exist_ok=True)
        Image.open(Path(folder) / "page.png").convert("RGB").save(out, quality=88, method=6)


if __name__ == "__main__":
    main()
