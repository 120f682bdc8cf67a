"""intrs against onnxruntime-web, in Node or in Chromium, in turns: ratios within a round, with their spread.

npm install --prefix FOLDER onnxruntime-web
python -m bench.web FOLDER                       # in Node
python -m bench.web FOLDER --chromium            # in a headless Chromium
python -m bench.web FOLDER --chromium --write browser.json   # for experiment j of `intrs reproduce`

intrs is end to end (noise, network, votes); onnxruntime-web runs the bare network on one batch, of the size that is the
fastest for it, on one thread. ResNet-20 for CIFAR.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent / "browser"
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
import { measure } from "./turns.js";
import * as api from "./package/index.js";
import * as ort from "./ort/ort.wasm.min.mjs";
const read = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
window.measured = null;
window.begin = (settings) => {
  const show = (found) => (window.measured = JSON.stringify(found));
  measure({ api, ort, read, ...settings }).then(show, (error) => show({ error: error.message }));
};
</script>"""


def prepare(folder: Path, modules: Path) -> None:
    """Everything that a run needs, in one folder."""
    import intrs
    from bench.prepare import prepare as write_models

    write_models(folder, "resnet20", 32, False, False)
    (folder / "resnet20-32.onnx").rename(folder / "float.onnx")
    (folder / "resnet20-32.int8.onnx").rename(folder / "int8.onnx")
    intrs.export(folder / "int8.onnx", folder / "model.intrs", sigma="0.25", n=1000)
    (folder / "image.bin").write_bytes(intrs.open_data("cifar10-500").images[0].tobytes())
    shutil.copytree(ROOT / "web", folder / "package")
    shutil.copytree(modules / "node_modules" / "onnxruntime-web" / "dist", folder / "ort")
    shutil.copy(HERE / "turns.js", folder)
    (folder / "index.html").write_text(PAGE)


def in_node(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    command = ["node", str(HERE / "node.mjs"), str(folder), *(str(value) for value in settings.values())]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return dict(json.loads(done.stdout.splitlines()[-1])) | {"browser": f"Node {version}"}


def in_chromium(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import Browser
    from test_web import served

    with served(folder) as address, Browser() as browser:
        browser.call("Page.navigate", url=f"{address}/index.html")
        browser.wait("typeof window.begin === 'function'")
        browser.run(f"begin({json.dumps(settings)})")
        while not (found := browser.run("(new Promise((done) => setTimeout(done, 500))).then(() => window.measured)")):
            pass
        version = browser.call("Browser.getVersion")["product"]
    answer = dict(json.loads(found))
    if "error" in answer:
        raise SystemExit(answer["error"])
    return answer | {"browser": version}


def spread(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def table(found: dict[str, Any]) -> str:
    """Rates, and how many times its rate the first engine and the one with workers have."""
    rates, batches = found["rates"], found["batches"]
    ours = [name for name in rates if name.startswith("intrs")]
    lines = [f"| engine | batch | per second | {' | '.join(f'{name}, times' for name in ours)} |", "|---" * 5 + "|"]
    for name, values in rates.items():
        ratios = [spread([a / b for a, b in zip(rates[mine], values, strict=True)], 2) for mine in ours]
        lines.append(f"| {name} | {batches[name] or ''} | {spread(values, 0)} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.web", description="intrs against onnxruntime-web")
    parser.add_argument("modules", type=Path, help="folder in which npm installed onnxruntime-web")
    parser.add_argument("--chromium", action="store_true", help="in Chromium instead of Node")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also keep what was measured, as JSON")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=1.5)
    chosen = parser.parse_args()
    settings = {"rounds": chosen.rounds, "seconds": chosen.seconds, "workers": 2}
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), chosen.modules)
        found = (in_chromium if chosen.chromium else in_node)(Path(name), settings)
    print(table(found))
    if chosen.write:
        chosen.write.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
