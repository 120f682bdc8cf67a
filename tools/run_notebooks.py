"""Run the notebooks of the docs and keep what they print: `python tools/run_notebooks.py` (extra `docs`).

The outputs are committed, so that the site and readers of the files see them without a kernel. tests/test_docs.py runs
the notebooks too and compares the text that they print: votes are the same bits everywhere. Pictures are not compared.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"
PATIENCE = 300  # seconds for one cell, on a busy machine


def notebooks() -> list[Path]:
    """All of them."""
    return sorted(FOLDER.glob("*.ipynb"))


def run(path: Path) -> dict[str, Any]:
    """The notebook as it is after it ran in an empty folder, without what differs from run to run."""
    import nbformat
    from nbclient import NotebookClient

    read: Any = nbformat.read
    made = read(path, as_version=4)
    with TemporaryDirectory() as folder:
        NotebookClient(made, timeout=PATIENCE, resources={"metadata": {"path": folder}}).execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # times
    made.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    done: dict[str, Any] = json.loads(json.dumps(made))
    return done


def printed(notebook: dict[str, Any]) -> list[str]:
    """The text that each cell of code printed and gave."""
    found = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            texts = [_text(output) for output in cell["outputs"]]
            found.append("".join(texts))
    return found


def _text(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        text = output["text"]
    else:
        text = output.get("data", {}).get("text/plain", "")
        if any(kind.startswith("image/") for kind in output.get("data", {})):
            return "a picture\n"  # whose size depends on the version of what drew it
    return "".join(text)


def main() -> None:
    """Run those that are named, or all, and write them."""
    parser = argparse.ArgumentParser(description="run notebooks and keep their outputs")
    parser.add_argument("notebook", nargs="*", type=Path, help="notebooks (all of docs/notebooks)")
    parser.add_argument("--out", type=Path, help="folder to write to (where they are)")
    args = parser.parse_args()
    for path in args.notebook or notebooks():
        out = (args.out or path.parent) / path.name
        out.write_text(json.dumps(run(path), indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(out)


if __name__ == "__main__":
    main()
