"""The docs as a site: it builds without a warning, its links lead somewhere, and its reference is complete."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from argparse import SUPPRESS
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import FunctionType
from urllib.parse import unquote, urlsplit

import numpy as np
import onnx
import pytest
from documented import Reader
from PIL import Image

import intrs
from intrs import zoo
from intrs.cli.arguments import GROUPS
from intrs.zoo import DEFAULT_DATA, DEFAULT_MODEL
from tools import card_readme, make_diagram, reference
from tools.run_notebooks import notebooks, printed

ROOT = Path(__file__).parent.parent
FILES = Path(__file__).parent / "files"


class Page(HTMLParser):
    """What a page links to, and the places in it that others may link to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("furo")
    pytest.importorskip("myst_nb")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-d", str(out / "kept")]
    done = subprocess.run(
        [*command, ".", str(out / "html")], cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


def broken(folder: Path) -> list[str]:
    """Links to files or places that are not there; other machines are not asked."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(folder)}: {link} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{path.relative_to(folder)}: {link} has no such place")
    return found


def test_the_site(site: Path) -> None:
    """One test, because every process that runs a part of it would build the site."""
    assert len(list(site.rglob("*.html"))) > 40
    assert not broken(site)
    assert "docs/index.html" in (site / "index.html").read_text("utf-8")
    carries_the_live_page(site)
    reference_is_complete(site)


def carries_the_live_page(site: Path) -> None:
    assert (site / "page" / "index.html").is_file()
    assert list((site / "page" / "models").iterdir())
    assert all("../page/index.html" in Page(site / "docs" / f"{name}.html").links for name in ("index", "web-page"))


def reference_is_complete(site: Path) -> None:
    commands = (site / "docs" / "command-line.html").read_text("utf-8")
    assert all(f'id="intrs-{name}"' in commands for names in GROUPS.values() for name in names)
    named = Page(site / "docs" / "python-api.html").ids
    functions_and_classes = set(intrs.__all__) - set(intrs._ROOMS) - {"__version__"}
    assert {f"intrs.{name}" for name in functions_and_classes} <= named


def test_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a> <a href="c.html">c</a> <img src="d.png">')
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="#there"></a> <a href="https://example.org/x">x</a>')
    assert broken(tmp_path) == [
        "a.html: b.html#here has no such place",
        "a.html: c.html is not there",
        "a.html: d.png is not there",
    ]


def test_the_command_line_is_complete() -> None:
    text = reference.command_line()
    for name, parser in reference._commands().items():
        section = text.split(f"### intrs {name}\n")[1].split("\n### ")[0]
        assert f"```text\nintrs {name} " in section
        for action in parser._actions:
            hidden = action.help is SUPPRESS  # an old spelling
            assert (f"`{reference._names(action)}`\n: " in section) is not hidden
    assert "`--n0 N0`\n: samples per image that select the class (100)" in text
    assert "`-o FILE, --out FILE`\n: the results of the whole run (required)" in text
    assert "`--ray [ADDRESS]`" in text
    assert "1%%" not in text


def test_the_python_reference_names_what_is_public() -> None:
    text = reference.python_api()
    named = {line.split(":: ")[1] for line in text.splitlines() if line.startswith(".. ")}
    assert {f"intrs.{name}" for name in intrs.__all__ if name not in intrs._ROOMS} <= named
    for room in intrs._ROOMS:
        module = import_module(f"intrs.{room}")
        public = set(reference._public(module)) - set(intrs._WHERE)
        assert public, room
        assert {f"intrs.{room}.{name}" for name in public} <= named
    assert ".. autofunction:: intrs.certify" in text
    calls = [value for name in intrs.__all__ if isinstance(value := getattr(intrs, name), FunctionType)]
    returned = {str(call.__annotations__["return"]) for call in calls}
    assert "Verified" in returned
    assert returned <= {name.rpartition(".")[2] for name in named}
    assert ".. autoexception:: intrs.DataError" in text


def test_docstrings_become_what_autodoc_reads() -> None:
    lines = ["Counts `votes` of *all*, f_:", "", "    run = f(x)  # `as it is`", "", "and more_."]
    assert reference.as_rst(lines) == [
        "Counts ``votes`` of \\*all\\*, f\\_:",
        "",
        "::",
        "",
        "    run = f(x)  # `as it is`",
        "",
        "and more\\_.",
    ]


def shorten(words: list[str]) -> list[str]:
    """The same command on fewer images with fewer samples, which may be written again."""
    words = [each for word in words for each in (("model.onnx", "images.npz") if word == "..." else (word,))]
    if words == ["certify"]:
        words += [DEFAULT_MODEL, DEFAULT_DATA]
    if words[0] in ("certify", "predict"):
        words += ["--max", "2", "--n", "200", *(() if "--sigma" in words else ("--sigma", "0.25"))]
    elif words[0] == "quantize":
        words += ["--max", "16"]
    elif words[0] == "verify":
        words += ["--images", "1"]
    elif words[0] == "web":
        words = ["web", "resnet8-sigma0.25", "-o", "web-site"]  # not served
    elif words[0] == "table":
        words += ["--n", "1000"]
    writes = "--overwrite" in words or "--resume" in words or words[0] in ("info", "zoo", "verify", "merge")
    return words if writes else [*words, "--overwrite"]


@pytest.fixture
def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


def test_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], extras: dict[str, list[str]]
) -> None:
    """Every block as it stands, and what it says that is printed."""
    for module in ("onnxruntime", "torch"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    reader = Reader(capsys, extras)
    reader.follow(ROOT / "docs" / "tutorial.md")
    assert len(reader.done) >= 12


def test_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], extras: dict[str, list[str]]
) -> None:
    """Every command and program, on fewer images with fewer samples than it says."""
    for module in ("onnxruntime", "matplotlib", "pandas"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    data = intrs.open_data(DEFAULT_DATA)
    prepare(tmp_path, data)
    replaced = {
        "run.tsv": "program.tsv",
        "n=10_000": "n=200, max=2",
        "certify_all(images)": "certify_all(images, n=200)",
    }
    reader = Reader(capsys, extras, shorten, replaced, {"images": data.images[:2]})
    reader.follow(ROOT / "README.md")
    assert len(reader.done) >= 5
    reader.follow(ROOT / "docs" / "index.md")


def float_model() -> onnx.ModelProto:
    """A convolution, a mean and a layer of scores for images of CIFAR-10, with weights that are nobody's."""
    draw = np.random.default_rng(1).standard_normal
    weights = {"conv": draw((8, 3, 3, 3)), "scores": draw((10, 8))}
    nodes = [
        onnx.helper.make_node("Conv", ["image", "conv"], ["edges"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["edges"], ["positive"]),
        onnx.helper.make_node("GlobalAveragePool", ["positive"], ["mean"]),
        onnx.helper.make_node("Flatten", ["mean"], ["flat"]),
        onnx.helper.make_node("Gemm", ["flat", "scores"], ["out"], transB=1),
    ]
    image = onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, 32, 32])
    out = onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["batch", 10])
    constants = [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = onnx.helper.make_graph(nodes, "small", [image], [out], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.helper.set_model_props(model, {"intrs.pixels": "unit", "intrs.sigma": "0.25"})
    return model


def prepare(folder: Path, data: intrs.Images) -> None:
    """The files that the README speaks of."""
    model = onnx.load(zoo.model_path("resnet8-sigma0.25"))
    onnx.helper.set_model_props(model, {"intrs.sigma": "0.25"})  # as `intrs quantize` writes it
    onnx.save(model, folder / "model.onnx")
    shutil.copy(FILES / "tiny_resnet8_int8.tflite", folder / "model.tflite")
    onnx.save(float_model(), folder / "float.onnx")
    np.savez(folder / "images.npz", images=data.images[:16], labels=data.labels[:16], classes=data.classes)
    for i, name in enumerate(data.classes):
        (folder / "images" / name).mkdir(parents=True)
        Image.fromarray(data.images[i]).save(folder / "images" / name / f"{i}.png")
    for name in ("a.tsv", "b.tsv"):
        intrs.certify("resnet8-sigma0.25", DEFAULT_DATA, n=200, max=2, out=folder / name)


def test_the_notebooks(tmp_path: Path) -> None:
    """They run, and print what the files keep; what PyTorch trains differs between its versions and processors."""
    for module in ("nbclient", "ipykernel", "onnxruntime", "torch", "matplotlib", "pandas"):
        pytest.importorskip(module)
    command = [sys.executable, str(ROOT / "tools" / "run_notebooks.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(notebooks()) == 3
    for path in notebooks():
        kept, now = (printed(json.loads((folder / path.name).read_text("utf-8"))) for folder in (path.parent, tmp_path))
        assert any(kept)
        if path.stem == "your-own-model":
            assert re.search(r"^with noise +certified: 100% at 0,", "".join(now), re.M), now
            assert "what the file holds: True" in "".join(now)
        else:
            assert now == kept, f"{path.name}: python tools/run_notebooks.py keeps what it prints now"


def test_the_diagram_is_what_the_command_writes() -> None:
    text = make_diagram.diagram()
    assert make_diagram.OUT.read_text("utf-8") == text, "python tools/make_diagram.py"
    assert all(f">{words}<" in text for words in ("882", "ship, radius 0.256", "of 1,000 noisy copies"))
    assert "prefers-color-scheme: dark" in text
    pictures = re.findall(r"data:image/png;base64,([^\"]+)", text)
    first = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures[0]))))
    assert np.array_equal(first, intrs.open_data(DEFAULT_DATA).images[make_diagram.POSITION])


def test_the_cards_are_what_the_command_writes() -> None:
    """In the form that Hugging Face reads: YAML in front, whose numbers are those of the card."""
    yaml = pytest.importorskip("yaml")
    found = card_readme.cards()
    assert set(zoo.model_names()) < set(found)
    for name, card in found.items():
        text = (card_readme.CARDS / f"{name}.md").read_text("utf-8")
        assert text == card_readme.readme(card, name), "python tools/card_readme.py"
        front = yaml.safe_load(text.split("---\n")[1])
        assert (front["license"], front["library_name"], front["datasets"]) == (
            "apache-2.0", "intrs", [card["data"]["name"]],
        )  # fmt: skip
        (model,) = front["model-index"]
        (result,) = model["results"]
        values = [metric["value"] for metric in result["metrics"]]
        assert values[-1] == round(100 * card["results"]["accuracy"]["integer"], 2)
        assert all(f"- {words}" in " ".join(text.split()) for words in card["limits"])
    shown = (card_readme.CARDS / "resnet20-sigma0.25.md").read_text("utf-8")
    assert "| 0.25 | 63.0 % | 58.6 to 67.2 % |" in shown


def test_the_citation_is_of_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["references"][0]["year"] == 2021


def test_a_page_that_says_something_else_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], extras: dict[str, list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = {
        "was not printed": "```python\nprint(6 * 7)\n```\n\n```text\n43\n```\n",
        "no such file": "Now\n\n    intrs info nothing.onnx   # shows it\n",
        "only intrs": "```sh\nrm -r x\n```\n",
        "pip install": "```sh\npip install 'intrs[plots]' && intrs info\n```\n",
        "not understood": "```sh\nintrs train cifar10 resnet20 run --sigmas 0.25\n```\n",
    }
    for words, page in pages.items():
        (tmp_path / "page.md").write_text(page)
        with pytest.raises((AssertionError, intrs.IntrsError), match="unrecognized" if "not u" in words else words):
            Reader(capsys, extras).follow(tmp_path / "page.md")
    (tmp_path / "page.md").write_text("```python\nprint(6 * 7)\n```\n\n```text\n42\n```\n")
    Reader(capsys, extras).follow(tmp_path / "page.md")
