"""The page of `intrs web`, driven in a real browser: its certificates are those of the command, bit for bit."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import threading
import time
from functools import partial
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from browser import CONTRAST, Browser, in_browser
from PIL import Image
from tiny_model import save_images, save_model

import intrs
from intrs import site
from intrs.cli import main
from intrs.data import open_data
from intrs.errors import IntrsError, SettingsError
from intrs.model import open_model
from intrs.noise import Noise
from intrs.site import folder as folders
from intrs.site import server
from intrs.site.server import Handler
from intrs.votes import Samples, content_index, noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODEL, OTHER = "resnet8-sigma0.25", "resnet20-sigma0.12"
TITLE = "ResNet-8, σ = 0.25"
SEED = "0x5eed"
POSITIONS = (0, 9, 18, 16, 17, 14)  # images that are decided by few samples; an image's index is 20 times its position
ABSTAINED = 340  # index of an image on which the model abstains
DECIDED = "document.body.dataset.loaded && document.body.dataset.run === 'decided'"

COUNTING = "parseInt(document.querySelector('.pace')?.innerText) > 0 || document.body.dataset.run === 'decided'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> site.Site:
    return site.web(tmp_path_factory.mktemp("web") / "site", models=[MODEL, OTHER], images=POSITIONS)


class Hosted(SimpleHTTPRequestHandler):
    """What hosting does, as far as it matters here: browsers may keep files, for some time even without asking."""

    extensions_map = Handler.extensions_map
    keep = "max-age=3600"

    def end_headers(self) -> None:
        self.send_header("Cache-Control", self.keep)
        super().end_headers()


class Asking(Hosted):
    """As the one above; but browsers ask whether what they have is still right."""

    keep = "no-cache"


class Silent(SimpleHTTPRequestHandler):
    """Python's own: it says when a file was changed, and browsers keep for days what is old."""

    extensions_map = Handler.extensions_map


class Served:
    """The folder behind a server that remembers what it was asked for."""

    def __init__(self, path: Path, handler: type[SimpleHTTPRequestHandler] = Handler, port: int = 0) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Recording(handler):  # type: ignore[misc, valid-type]
            def log_message(self, *_: Any) -> None:
                asked.append(self.path)

        self.server = site.serving(path, port)
        self.server.RequestHandlerClass = partial(Recording, directory=str(path))
        self.port = int(self.server.server_address[1])
        self.address = f"http://localhost:{self.port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.05], daemon=True)
        self.thread.start()

    def end(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()


@pytest.fixture(scope="module")
def served(made: site.Site) -> Iterator[Served]:
    found = Served(made.path)
    yield found
    found.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@contextlib.contextmanager
def beginning_with(browser: Browser, source: str) -> Iterator[None]:
    """Every page that is opened meanwhile runs this before its own scripts."""
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=source)
    try:
        yield
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])


@pytest.fixture
def visit(browser: Browser, served: Served) -> Iterator[Callable[..., Browser]]:
    """Open the page, with what a link says, and wait until it is loaded and decided."""

    def open_page(fragment: str = "", *, wait: str = DECIDED, **window: Any) -> Browser:
        browser.visit(f"{served.address}#seed={SEED}{fragment}", **window)
        browser.wait(wait)
        return browser

    yield open_page
    assert browser.complaints == []


def shown(page: Browser, place: int = 0) -> dict[str, str]:
    """What the page says that the command must give."""
    return dict(
        page.run(
            f"Object.fromEntries([...document.querySelectorAll('.proof')[{place}].querySelectorAll('td')]"
            ".map(cell => [cell.dataset.key, cell.innerText]))"
        )
    )


def check_command(page: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int = 0) -> Any:
    """Run the command that stands on the page; its line of results must be what the page says. Returns the line."""
    monkeypatch.chdir(tmp_path)
    program, *argv = shlex.split(page.texts(".proof code")[place])
    assert program == "intrs"
    assert main([*argv, "--overwrite"]) == 0
    line = pd.read_csv(tmp_path / "page.tsv", delimiter="\t").iloc[0]
    says = shown(page, place)
    assert says["predict"].split(",")[0] == str(line.predict)
    assert says["votes"] == f"{line.votes:,} of {line.n:,}"
    assert says["counts"] == line.counts
    assert says["radius_sq"].split(",")[0] == ("none" if line.predict == -1 else f"{line.radius_sq:.0f}")
    return line


# --- certificates ----------------------------------------------------------------------------------------------------


@in_browser
@pytest.mark.parametrize("picture", [0, 320, ABSTAINED])
def test_a_certificate_equals_that_of_the_command(
    visit: Callable[..., Browser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture: int
) -> None:
    page = visit(f"&picture={picture}")
    line = check_command(page, tmp_path, monkeypatch)
    assert line.idx == picture
    assert (line.predict == -1) == (picture == ABSTAINED)
    (answer,) = page.run("[...document.querySelectorAll('.panel')].map(p => p.dataset.answer)")
    assert answer == ("abstained" if picture == ABSTAINED else "certified")
    radius = 0 if line.predict == -1 else int(1000 * line.radius) / 1000
    assert page.texts(".radius") == ["–" if line.predict == -1 else f"{radius:.3f}"]
    assert sum(int(text.replace(",", "")) for text in page.texts(".votes .value")) == line.n
    assert page.texts("#alpha") == ["0.1 %"]
    wrong = line.predict not in (-1, line.label)
    assert ("a certificate does not make an answer right" in page.texts(".meaning")[0]) == wrong == (picture == 320)
    if picture == ABSTAINED:
        assert "so the smoothed network abstains" in page.texts(".meaning")[0]


@in_browser
def test_two_networks_side_by_side(
    visit: Callable[..., Browser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visit(f"&picture=180&rival={OTHER}", wait=f"{DECIDED} && document.querySelectorAll('.panel').length === 2")
    lines = [check_command(page, tmp_path, monkeypatch, place) for place in (0, 1)]
    assert lines[0].counts != lines[1].counts


@in_browser
def test_interrupted_and_continued(
    visit: Callable[..., Browser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visit("&picture=280", wait=COUNTING)
    page.click("#pause")
    assert page.run("document.body.dataset.run") == "paused"
    assert page.texts("#pause") == ["Continue"]
    paused = page.texts(".pace"), page.texts(".votes .value")
    assert "Decided" not in paused[0][0]
    time.sleep(0.5)
    assert (page.texts(".pace"), page.texts(".votes .value")) == paused
    assert shown(page) == {"open": "What page.tsv must hold will stand here."}
    page.click("#pause")
    page.wait(DECIDED)
    check_command(page, tmp_path, monkeypatch)


@in_browser
def test_the_noise_that_flickers_is_that_of_the_samples(visit: Callable[..., Browser]) -> None:
    page = visit()
    found = page.run(
        f"""(async () => {{
        const {{ Model, fetched }} = await import("./models.js");
        const model = await new Model(await fetched("models/{MODEL}.intrs"), {{ name: "m" }}).open();
        const pixels = Uint8Array.from({{ length: 3072 }}, (_, i) => (7 * i) % 256);
        const samples = [0, 1, 4999, 2 ** 33 + 5];
        const drawn = samples.map((sample) => [...model.noise.draw(pixels, BigInt("{SEED}") << 200n, 77, sample)]);
        model.close();
        return drawn;
        }})()"""
    )
    pixels = (7 * np.arange(3072) % 256).astype(np.uint8)
    for sample, values in zip((0, 1, 4999, 2**33 + 5), found, strict=True):
        address = Samples(int(SEED, 16) << 200, 77, sample, 1)
        assert np.array_equal(noisy_images(pixels, Noise.of("discrete", "0.25"), address)[0], values)


@in_browser
def test_pictures_inside_the_ball_are_inside(visit: Callable[..., Browser]) -> None:
    page = visit()
    found = page.run(
        """(async () => {
        const { changed } = await import("./changes.js");
        const pixels = Uint8Array.from({ length: 3072 }, (_, i) => (37 * i) % 256);
        const kinds = [() => true, (y, x) => y < 8 && x < 8, (y, x) => x === 3 && y === 4];
        return [162, 4065, 36577, 900000].flatMap((sq) => kinds.map((touches) => {
          const { values, by } = changed(pixels, [32, 32, 3], sq, touches);
          return [sq, by, pixels.reduce((sum, v, i) => sum + (v - values[i]) ** 2, 0)];
        }));
        })()"""
    )
    assert len(found) == 12
    assert all(length <= sq for sq, _, length in found)
    assert all(length > 0 for _, by, length in found if by)


# --- choices in a row ------------------------------------------------------------------------------------------------

# A page on which networks open only when `held` is no longer set, and which counts them.
SLOW = """
window.opened = 0;
window.real = WebAssembly.instantiate;
WebAssembly.instantiate = async (...given) => {
  window.opened += 1;
  while (window.held) await pause(20);
  return window.real.call(WebAssembly, ...given);
};
window.pause = (ms) => new Promise((done) => setTimeout(done, ms));
window.change = (id, value) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event("change", { bubbles: true }));
};
window.counting = async (seed) => {
  change("seed", seed);
  while (document.body.dataset.run !== "running") await pause(0);
  window.held = true;
};
navigator.clipboard.writeText = async (text) => { window.copied = text; };
0
"""


@in_browser
def test_a_picture_that_is_opened_while_a_network_opens(visit: Callable[..., Browser], tmp_path: Path) -> None:
    """It waits for the network, which is opened once."""
    Image.new("RGB", (50, 40), (200, 30, 90)).save(tmp_path / "red.png")
    page = visit()
    page.run(SLOW)
    page.run("window.held = true")
    page.choose("#sigma", "0")
    page.give("#file", tmp_path / "red.png")
    time.sleep(0.2)
    assert page.texts("#trouble") == [""]
    page.run("window.held = false")
    page.wait(f"!document.getElementById('fitted').hidden && ({COUNTING})")
    assert page.texts(".over")[1:] == ["ResNet-20, σ = 0.12"]
    assert page.run("[opened, document.getElementById('trouble').hidden]") == [1, True]


@in_browser
def test_the_second_of_two_quick_choices_cannot_begin(visit: Callable[..., Browser], tmp_path: Path) -> None:
    """What ran before the first of them goes on."""
    page = visit()
    page.give("#file", convert(save_model(tmp_path / "tiny.onnx"), tmp_path / "tiny.intrs", sigma="0.25", n=200))
    page.wait("document.getElementById('trouble').innerText.includes('Open a picture of your own')")
    page.run(SLOW)
    page.run("counting('0x5eee').then(() => { change('sigma', '0'); change('rival', '2'); window.held = false; })")
    page.wait(f"document.getElementById('trouble').innerText.includes('Open a picture of your own') && {DECIDED}")
    assert page.texts(".over")[1:] == [TITLE]
    assert "--seed 0x5eee " in page.texts(".proof code")[0]


@in_browser
def test_while_something_begins_nothing_else_goes_on(visit: Callable[..., Browser]) -> None:
    """What is seen stands still, and a link leads to it."""
    page = visit()
    page.run(SLOW)
    before, after, copied = page.run(
        """(async () => {
        await counting("0x5eee");
        change("sigma", "0");
        const before = document.querySelector(".pace").innerText;
        for (const id of ["pause", "link"]) document.getElementById(id).click();
        await pause(400);
        window.held = false;
        return [before, document.querySelector(".pace").innerText, window.copied];
        })()"""
    )
    assert before == after
    assert copied.endswith(f"#picture=0&model={MODEL}&seed=0x5eee")
    page.wait(f"document.querySelector('.panel .over').innerText.includes('0.12') && {DECIDED}")


@in_browser
def test_a_run_that_fails_can_be_continued(visit: Callable[..., Browser]) -> None:
    """Here before its first state, where neither a worker nor this thread has the memory to count."""
    page = visit()
    page.run(
        """(() => {
        const real = [window.Worker, WebAssembly.instantiate];
        const none = Object.assign(new Error("there is not enough memory"), { name: "IntrsError" });
        let networks = 1;
        window.Worker = class { constructor() { throw none; } };
        WebAssembly.instantiate = async (...given) => {
          if (networks-- > 0) return real[1].call(WebAssembly, ...given);
          throw none;
        };
        window.repair = () => { [window.Worker, WebAssembly.instantiate] = real; };
        })()"""
    )
    page.choose("#sigma", "0")
    for _ in range(2):
        page.wait("document.getElementById('trouble').innerText.includes('there is not enough memory')")
        assert page.run("document.body.dataset.run") == "paused"
        assert page.texts("#pause") == ["Continue"]
        page.run("document.getElementById('trouble').textContent = ''")
        page.click("#pause")
    page.wait("document.getElementById('trouble').innerText.includes('there is not enough memory')")
    page.run("repair()")
    page.click("#pause")
    page.wait(DECIDED)
    assert page.texts(".over")[1:] == ["ResNet-20, σ = 0.12"]


# --- pictures and models of one's own --------------------------------------------------------------------------------


def saved(page: Browser) -> list[bytes]:
    """The files that the page saves."""
    found = page.run(
        "(async () => { const made = URL.createObjectURL, blobs = [];"
        "URL.createObjectURL = (b) => (blobs.push(b), made.call(URL, b));"
        "document.getElementById('save').click(); URL.createObjectURL = made;"
        "const text = async (b) => btoa(String.fromCharCode(...new Uint8Array(await b.arrayBuffer())));"
        "return Promise.all(blobs.map(text)); })()"
    )
    return [base64.b64decode(text) for text in found]


@in_browser
def test_a_picture_of_the_right_size_is_taken_as_it_is(
    visit: Callable[..., Browser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = open_data("cifar10-500").images[40]
    Image.fromarray(pixels).save(tmp_path / "mine <b>.png")
    page = visit()
    page.give("#file", tmp_path / "mine <b>.png")
    page.wait("!document.getElementById('fitted').hidden && document.body.dataset.run === 'decided'")
    assert "mine <b>.png has 32 × 32 pixels, and is taken as it is." in page.texts("#fitted")[0]
    (content,) = saved(page)
    (tmp_path / "picture.npz").write_bytes(content)
    held = open_data(tmp_path / "picture.npz")
    assert np.array_equal(held.images[0], pixels)
    assert held.indices.tolist() == [content_index(pixels)]
    assert not held.has_labels
    assert check_command(page, tmp_path, monkeypatch).label == -1


@in_browser
def test_a_large_picture_is_averaged_down_in_plain_sight(visit: Callable[..., Browser], tmp_path: Path) -> None:
    image = np.random.default_rng(1).integers(0, 256, (64, 96, 3), np.uint8)
    Image.fromarray(image).save(tmp_path / "large.png")
    page = visit()
    page.give("#file", tmp_path / "large.png")
    page.wait("!document.getElementById('fitted').hidden && document.body.dataset.run === 'decided'")
    assert "large.png has 96 × 64 pixels. Its middle was averaged down to 32 × 32" in page.texts("#fitted")[0]
    seen = page.run(
        "(() => { const c = document.querySelector('.ball canvas');"
        "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]; })()"
    )
    wanted = image[:, 16:80].reshape(32, 2, 32, 2, 3).mean((1, 3))
    assert np.abs(np.array(seen).reshape(32, 32, 4)[..., :3] - wanted).max() <= 0.5


def convert(model: Path, out: Path, **options: Any) -> Path:
    intrs.export(model, out, target="web", **options)
    return out


@in_browser
def test_a_converted_model_runs(visit: Callable[..., Browser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = visit("&picture=180")
    page.give("#file", convert(intrs.zoo.model_path(MODEL), tmp_path / "own.intrs", sigma="0.2", n=2000))
    page.wait("document.getElementById('model').selectedOptions[0].innerText.includes('own.intrs')")
    page.wait(DECIDED)
    command = page.texts(".proof code")[0]
    assert "intrs certify MODEL " in command
    assert "--sigma 0.2 " in command
    monkeypatch.setattr(page, "texts", lambda _: [command.replace("MODEL", MODEL)])
    assert check_command(page, tmp_path, monkeypatch).n == 2000


HOSTILE = '0\'; echo "$(id)" > x & `id` #\n\x03'
TEXTS = ("alpha", "bound", "giveUp", "noise", "sigma")
COMMAND = """
import { command } from "./proof.js";
const [, , model, picture] = process.argv;
console.log(JSON.stringify(command(JSON.parse(model), JSON.parse(picture), "7", {})));
"""


in_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="no Node here (Debian and Ubuntu: apt install nodejs)"
)


def ask_scripts(folder: Path, script: str, *given: Any) -> Any:
    """What a script prints as JSON that imports those of the page, in Node."""
    for name, content in {**folders._page(), **folders._engine(), "package.json": b'{"type": "module"}'}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "ask.js").write_text(script)
    command = ["node", "ask.js", *map(json.dumps, given)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@in_node
def test_the_command_is_quoted(tmp_path: Path) -> None:
    """Whatever a file says stays one word of the command, without control characters."""
    rule = dict.fromkeys(TEXTS, HOSTILE) | {"adaptive": True, "radii": [HOSTILE, HOSTILE], "n": 9, "n0": 3}
    asked = {"spec": HOSTILE, "rule": rule}, {"data": HOSTILE, "position": HOSTILE}
    text = str(ask_scripts(tmp_path, COMMAND, *asked))
    assert text.isprintable()
    script = f"intrs() {{ printf '%s\\n' \"$@\"; }}\n{text}"
    words = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    one = HOSTILE[:-2] + "__"
    assert (words.stdout.splitlines(), words.stderr) == (
        ["certify", one, one, "--first", one, "--max", "1", "--sigma", one, "--adaptive", "--radii", f"{one},{one}",
         "--n", "9", "--n0", "3", "--alpha", one, "--noise", one, "--bound", one, "--give-up", one,
         "--seed", "0x7", "-o", "page.tsv"], "",
    )  # fmt: skip
    assert not (tmp_path / "x").exists()
    named = {**asked[0], "spec": "-x.onnx"}, {**asked[1], "data": "--first.npz"}
    assert ask_scripts(tmp_path, COMMAND, *named).startswith("intrs certify ./-x.onnx ./--first.npz ")


CLASSES = """
import { namesFor, needsFile, truthFor } from "./classes.js";
const needs = (...given) => [false, true].map((own) => needsFile({ net: given[0], own }, given[1]));
const about = (given) => [namesFor, truthFor, needs].map((ask) => ask(...given));
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(about)));
"""


@in_node
def test_classes_are_matched_as_the_package_does(tmp_path: Path) -> None:
    """By name where both sides have names, else by number; a label that may mean something else is no label.

    A picture needs a file, without its label, where the command would refuse it: for a network of the page, and for one
    of one's own, of which the command may or may not know the names.
    """
    pets, numbers = ["cat", "Guinea-pig"], ["class 0", "class 1"]
    cases: list[tuple[Any, Any, Any, Any, bool, bool]] = [
        (None, {"label": 1, "classes": pets}, pets, 1, False, False),
        (None, {"label": 1, "classes": [*pets, "dog"]}, numbers, None, True, True),
        (None, {"label": 1, "classes": []}, numbers, 1, False, False),
        (None, {"label": 2, "classes": []}, numbers, None, True, True),
        (None, {"label": 1, "classes": [], "labels": 3}, numbers, None, True, True),
        (None, {}, numbers, None, False, False),
        (None, {"own": True}, numbers, None, True, True),
        (["guinea pig", "CAT"], {"label": 1, "classes": pets}, ["guinea pig", "CAT"], 0, False, False),
        (["guinea pig", "CAT"], {"label": 1, "classes": []}, ["guinea pig", "CAT"], 1, False, False),
        (["guinea pig", "CAT"], {"label": 0, "classes": ["cat"]}, ["guinea pig", "CAT"], 1, False, True),
        (["chat", "cobaye"], {"label": 1, "classes": pets}, ["chat", "cobaye"], None, True, True),
        (["cat", "Cat"], {"label": 0, "classes": pets}, ["cat", "Cat"], None, True, True),
        (["cat", "dog"], {"label": 0, "classes": pets}, ["cat", "dog"], None, True, True),
        (["cat", "dog"], {"label": 0, "classes": ["cat", "CAT"]}, ["cat", "dog"], None, True, True),
        (["cat", "dog"], {"label": None, "classes": pets}, ["cat", "dog"], None, False, False),
    ]
    asked = [({"names": names, "classes": 2}, picture) for names, picture, *_ in cases]
    expected = [[names, truth, [listed, own]] for _, _, names, truth, listed, own in cases]
    assert ask_scripts(tmp_path, CLASSES, asked) == expected


WORDS = """
import { pictureFile } from "./proof.js";
import { meaning, risk } from "./words.js";
const alphas = [["0.001"], ["1e-4"], ["1/3"], ["0.00012345"], ["1"], ["1e-3", "1/20", "0.01"]];
const risks = alphas.map((each) => risk(...each));
const begins = [1, 100, 2000].map((n0) => meaning(null, [], 12, { n0, alpha: "0.001" }));
const shapes = [[4, 4, 3], [32, 32, 3]];
const files = [shapes.slice(0, 1), shapes].map((all) => pictureFile(shapes[0], all));
console.log(JSON.stringify([risks, begins, ...files]));
"""


@in_node
def test_words_follow_the_rule(tmp_path: Path) -> None:
    """A risk is never shown smaller than it is."""
    risks, begins, *files = ask_scripts(tmp_path, WORDS)
    assert risks == ["0.1 %", "0.01 %", "33.4 %", "0.0124 %", "100 %", "5 %"]
    assert [text.split(" a class")[0] for text in begins] == [
        "The first noisy copy chooses", "The first 100 noisy copies choose", "The first 2,000 noisy copies choose",
    ]  # fmt: skip
    assert files == ["picture.npz", "picture-4x4x3.npz"]


def with_sigma(bundle: bytes, sigma: str) -> bytes:
    """A file whose header gives another sigma, with the digest that fits."""
    begin = 12 + struct.unpack_from("<I", bundle, 8)[0]
    header = json.loads(bundle[12:begin])
    header["noises"][0]["sigma"] = sigma
    text = json.dumps(header).encode()
    body = bundle[:8] + struct.pack("<I", len(text)) + text + bundle[begin:-32]
    return body + hashlib.sha256(body).digest()


@in_browser
def test_what_cannot_be_used_gets_a_clear_message(visit: Callable[..., Browser], tmp_path: Path) -> None:
    page = visit()
    hostile = "<img src=x onerror=alert(1)> net"
    whole = (tmp_path / "whole.intrs", tmp_path / "broken.intrs")
    bundle = convert(intrs.zoo.model_path(MODEL), whole[0]).read_bytes()
    whole[1].write_bytes(bundle[:1000] + bytes([bundle[1000] ^ 1]) + bundle[1001:])
    (tmp_path / "cut.intrs").write_bytes(bundle[:5000])
    (tmp_path / "shell.intrs").write_bytes(with_sigma(bundle, "0.25; id"))
    for name in (f"{hostile}.onnx", "net.tflite", "note.png", "empty.intrs"):
        (tmp_path / name).write_bytes(b"no picture" if name == "note.png" else b"")
    told = {
        f"{hostile}.onnx": f"intrs export '{hostile}.onnx' --target web -o model.intrs",
        "net.tflite": "intrs export net.tflite --target web -o model.intrs",
        "note.png": "note.png is not a picture that this browser can read",
        "empty.intrs": "empty.intrs: not a model for the web, or damaged",
        "broken.intrs": "broken.intrs: not a model for the web, or damaged",
        "cut.intrs": "cut.intrs: not a model for the web, or damaged",
        "shell.intrs": "shell.intrs: not a model for the web, or damaged",
    }
    for name, words in told.items():
        page.give("#file", tmp_path / name)
        page.wait(f"document.getElementById('trouble').innerText.includes({json.dumps(words)})")
        assert page.run("document.querySelectorAll('#trouble *').length") == 0
    assert page.run(DECIDED), "what was shown before still stands"


@in_browser
def test_a_network_for_other_pictures_says_so(visit: Callable[..., Browser], tmp_path: Path) -> None:
    page = visit()
    page.give("#file", convert(save_model(tmp_path / "tiny.onnx"), tmp_path / "tiny.intrs", sigma="0.25", n=200))
    page.wait("document.getElementById('trouble').innerText.includes('Open a picture of your own')")
    assert "takes pictures of 4 × 4 pixels, and those of this page have 32 × 32" in page.texts("#trouble")[0]
    assert page.run(f"{DECIDED} && document.getElementById('model').selectedOptions[0].innerText") == TITLE
    page.press("Tab")
    page.run("document.querySelectorAll('.pictures button')[1].click()")
    page.wait(f"document.getElementById('trouble').hidden && {DECIDED}")
    assert "--first 9 " in page.texts(".proof code")[0], "what was chosen before still works"


@in_browser
def test_a_picture_for_two_networks_of_different_sizes(
    visit: Callable[..., Browser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visit()
    page.give("#file", convert(save_model(tmp_path / "tiny.onnx"), tmp_path / "tiny.intrs", sigma="0.25", n=200))
    page.wait("document.getElementById('trouble').innerText.includes('Open a picture of your own')")
    Image.new("RGB", (50, 40), (200, 30, 90)).save(tmp_path / "red.png")
    page.give("#file", tmp_path / "red.png")
    page.wait(f"!document.getElementById('fitted').hidden && {DECIDED}")
    assert page.texts("#save") == ["Save picture.npz"]
    page.choose("#rival", "2")
    page.wait(f"document.querySelectorAll('.panel').length === 2 && {DECIDED}")
    assert page.texts("#save") == ["Save picture-32x32x3.npz and picture-4x4x3.npz"]
    note = page.texts("#fitted")[0]
    assert f"{TITLE}: red.png has 50 × 40 pixels. Its middle was averaged down to 32 × 32" in note
    assert "(tiny.intrs, σ = 0.25): red.png has 50 × 40 pixels. Its middle was averaged down to 4 × 4" in note
    for place, content in enumerate(saved(page)):
        (tmp_path / f"picture-{(32, 4)[place]}x{(32, 4)[place]}x3.npz").write_bytes(content)
    check_command(page, tmp_path, monkeypatch)
    commands = [command.replace("MODEL", "tiny.onnx") for command in page.texts(".proof code")]
    monkeypatch.setattr(page, "texts", lambda _: commands)
    assert check_command(page, tmp_path, monkeypatch, 1).n == 200


@in_browser
@pytest.mark.parametrize(
    ("changes", "answer", "title"),
    [({"classes": ["ant", "bee", "cow"]}, "bee", "bee, image 23"), ({}, "class 1", "class 1, image 23"),
     ({"labels": None}, "class 1", "image 23")],
    ids=["names", "numbers", "nothing"],
)  # fmt: skip
def test_a_model_without_names_of_classes(
    browser: Browser, tmp_path: Path, changes: dict[str, Any], answer: str, title: str
) -> None:
    """The answer is right, so nothing is to be said against it; the data's names are shown if there are any."""
    data = save_images(tmp_path / "tiny.npz", **changes)
    made = site.web(tmp_path / "site", models=save_model(tmp_path / "tiny.onnx"), data=data, images=[7, 3, 1, 0, 2])
    served = Served(made.path)
    browser.visit(f"{served.address}#seed={SEED}&picture=23")
    browser.wait(DECIDED)
    assert browser.texts(".headline") == [f"The answer is {answer}."]
    assert "does not make an answer right" not in browser.texts(".meaning")[0]
    assert browser.run("document.querySelector('#pictures [aria-checked=true]').title") == title
    assert browser.texts("#data") == ["The pictures are from the data set tiny."]
    served.end()
    assert browser.complaints == []


def data_of_other_classes(folder: Path, which: str) -> tuple[Any, Path]:
    """A model, and data whose labels it cannot take."""
    path = folder / "data.npz"
    if which == "name":
        data = open_data("cifar10-500")
        classes = ["mule" if name == "horse" else name for name in data.classes]
        np.savez(path, images=data.images[:10], labels=data.labels[:10], indices=data.indices[:10], classes=classes)
        return MODEL, path
    changes = {"classes": ["ant", "bee", "cow", "dog"]} if which == "count" else {"labels": [0, 1, 2, 0, 1, 2, 0, 3]}
    return save_model(folder / "tiny.onnx"), save_images(path, **changes)


@in_browser
@pytest.mark.parametrize("which", ["name", "count", "number"])
def test_data_of_other_classes(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    """The command refuses their labels, so it gets the picture without one: noise and certificate are the same."""
    model, data = data_of_other_classes(tmp_path, which)
    with pytest.raises(IntrsError, match="class"):
        intrs.certify(model, data, sigma="0.25", n=200)
    served = Served(site.web(tmp_path / "site", models=model, data=data, images=[1, 0]).path)
    browser.visit(f"{served.address}#seed={SEED}&picture={open_data(data).indices[1]}")
    browser.wait(DECIDED)
    assert "does not make an answer right" not in browser.texts(".meaning")[0]
    assert browser.run("document.getElementById('save').hidden") is False
    (content,) = saved(browser)
    (tmp_path / "picture.npz").write_bytes(content)
    line = check_command(browser, tmp_path, monkeypatch)
    assert (line.idx, line.label) == (open_data(data).indices[1], -1)
    served.end()
    assert browser.complaints == []


@in_browser
@pytest.mark.parametrize("seed", ["-1", "1e5", "0xg", str(2**256)])
def test_a_seed_that_is_none(visit: Callable[..., Browser], seed: str) -> None:
    page = visit()
    page.choose("#seed", seed)
    page.wait("document.getElementById('trouble').innerText.includes('the seed must be an integer')")
    assert page.run("document.getElementById('seed').value") == SEED, "that of the certificate beside it"


@in_browser
def test_a_link_with_a_seed_that_is_none(browser: Browser, served: Served) -> None:
    """The page draws one, and says so when all that the link names is there."""
    browser.visit(f"{served.address}#seed=abc&rival={OTHER}")
    browser.wait(f"document.body.dataset.loaded === 'yes' && ({COUNTING})")
    assert browser.texts("#trouble") == [
        "the seed must be an integer from 0 to 2**256 - 1, got abc, in the link. Another seed was drawn."
    ]
    assert len(browser.texts(".panel")) == 2
    assert re.fullmatch(r"0x[0-9a-f]{40,64}", browser.run("document.getElementById('seed').value"))
    assert browser.complaints == []


@in_browser
def test_a_report_leads_to_the_page(
    made: site.Site, served: Served, visit: Callable[..., Browser], tmp_path: Path
) -> None:
    """Images that the page has are linked; the link opens the certificate of the same picture, model and seed."""
    run = intrs.certify(MODEL, "cifar10-500", n=200, max=20, seed=SEED, out=tmp_path / "run.tsv")
    other = intrs.certify("resnet20-sigma0.5", "cifar10-500", n=200, max=2, seed=SEED, out=tmp_path / "o.tsv")
    linked = intrs.report([run, other], tmp_path / "report.html", web=made.path)
    data = re.search(r'id="gallery-data"[^>]*>(.*?)</script>', linked.html, re.DOTALL)
    assert data
    cards = [each["cards"] for each in json.loads(data[1])["runs"]]
    addresses = {card["idx"]: card["page"] for card in cards[0] if "page" in card}
    assert sorted(addresses) == sorted(20 * position for position in POSITIONS)
    assert all("page" not in card for card in cards[1])  # the page has not this model
    below, _, asked = addresses[180].partition("#")
    assert (tmp_path / unquote(below)).samefile(made.path / "index.html")
    page = visit(f"&{asked}")
    assert f"image {180}" in page.run("document.querySelector('#pictures [aria-checked=true]').title")
    assert SEED in page.texts(".proof code")[0]
    for wrong in ("{}", "[]", "nothing"):
        (tmp_path / "site.json").write_text(wrong)
        with pytest.raises(SettingsError, match="write the folder anew"):
            intrs.report(run, web=tmp_path)
    with pytest.raises(SettingsError, match=r"has no site\.json"):
        intrs.report(run, web=tmp_path / "nowhere")


@in_browser
def test_without_webassembly(browser: Browser, served: Served) -> None:
    with beginning_with(browser, "delete globalThis.WebAssembly"):
        browser.visit(served.address)
        browser.wait("!document.getElementById('trouble').hidden")
        assert browser.texts("#trouble")[0].startswith("This browser has no WebAssembly, or it is switched off.")
        browser.wait("document.body.dataset.loaded")
        assert browser.run("document.getElementById('pause').disabled"), "nothing began"


@in_browser
def test_without_the_number_of_cores(browser: Browser, visit: Callable[..., Browser]) -> None:
    """Some browsers do not say it, and there is no Node to ask."""
    with beginning_with(browser, "delete Navigator.prototype.hardwareConcurrency"):
        assert visit().run("navigator.hardwareConcurrency") is None


# --- nothing leaves the page -----------------------------------------------------------------------------------------


@in_browser
def test_no_request_after_loading(made: site.Site, browser: Browser, tmp_path: Path) -> None:
    served, page = Served(made.path, Hosted), browser  # whose page was never opened before
    page.visit(f"{served.address}#seed={SEED}")
    page.wait(DECIDED)
    assert {address.split("#")[0].startswith(served.address) for address in page.requests} == {True}
    before = len(served.asked)
    assert before > 10
    page.run("document.querySelectorAll('.pictures button')[4].click()")
    page.wait(DECIDED)
    page.choose("#sigma", "0")
    page.wait(f"{DECIDED} && document.querySelector('.panel .over').innerText.includes('0.12')")
    page.choose("#rival", "0")
    page.wait(f"{DECIDED} && document.querySelectorAll('.panel').length === 2")
    page.click("#again")  # a seed that nobody knows: how long it takes to decide is anybody's guess
    page.wait(COUNTING)
    Image.new("RGB", (50, 40), (200, 30, 90)).save(tmp_path / "red.png")
    page.give("#file", tmp_path / "red.png")
    page.wait(f"({COUNTING}) && !document.getElementById('fitted').hidden")
    served.end()
    later = [each for each in served.asked[before:] if not each.startswith("/sw.js")]  # the browser's own: a newer one?
    assert later == []
    assert page.complaints == []


@in_browser
def test_offline_once_loaded(made: site.Site, browser: Browser) -> None:
    served = Served(made.path, Hosted)
    browser.visit(f"{served.address}#seed={SEED}")
    browser.wait(DECIDED)
    assert "works offline" in browser.texts("#offline")[0]
    served.end()
    browser.visit(f"{served.address}#seed={SEED}&model={OTHER}&picture=180")
    browser.wait(DECIDED)
    assert browser.texts(".over")[1:] == ["ResNet-20, σ = 0.12"]
    assert browser.complaints == []


PICTURES_SHOWN = "document.querySelectorAll('#pictures button').length"


@in_browser
@pytest.mark.parametrize("touched", [False, True], ids=["untouched", "touched"])
def test_a_newer_version_takes_the_place_of_a_stored_one(
    made: site.Site, browser: Browser, tmp_path: Path, touched: bool
) -> None:
    """Though the browser may keep the former files for an hour; work that was begun is not thrown away."""
    folder = tmp_path / "site"
    shutil.copytree(made.path, folder)
    served = Served(folder, Hosted)
    browser.visit(f"{served.address}#seed={SEED}")
    browser.wait(f"{DECIDED} && {PICTURES_SHOWN} === {len(POSITIONS)}")
    site.web(folder, models=[MODEL], images=[5, 9], overwrite=True)
    if touched:
        browser.press("Tab")
    browser.run("navigator.serviceWorker.getRegistration().then((found) => { found.update(); })")
    if touched:
        browser.wait("!document.getElementById('newer').hidden")
        assert browser.run(PICTURES_SHOWN) == len(POSITIONS)
        browser.click("#reload")
    browser.wait(f"{PICTURES_SHOWN} === 2 && {DECIDED}")
    assert browser.run("document.getElementById('newer').hidden")
    assert [each["position"] for each in browser.run(STORED)["pictures"]["list"]] == [5, 9]
    served.end()


# A page that fetches networks only when it is let, also after it was loaded anew.
WAITING = """
const real = fetch;
window.fetch = async (file) => {
  while (file.endsWith(".intrs") && !sessionStorage.go) await new Promise((done) => setTimeout(done, 20));
  return real(file);
};
navigator.serviceWorker.addEventListener("controllerchange", () => { sessionStorage.taken = "yes"; });
"""


@in_browser
def test_a_newer_version_comes_while_a_page_is_loading(made: site.Site, browser: Browser, tmp_path: Path) -> None:
    """The page is loaded anew, instead of being made of two versions."""
    folder = tmp_path / "site"
    shutil.copytree(made.path, folder)
    served = Served(folder, Hosted)
    browser.visit(served.address)
    browser.wait("document.body.dataset.loaded === 'yes'")
    site.web(folder, models=[MODEL], images=[5, 9], overwrite=True)
    with beginning_with(browser, WAITING):
        browser.visit(f"{served.address}#seed={SEED}")
        browser.run("navigator.serviceWorker.getRegistration().then((found) => { found.update(); })")
        browser.wait("sessionStorage.taken")
        browser.run("sessionStorage.go = 'yes'")
        browser.wait(f"{PICTURES_SHOWN} === 2 && {DECIDED}")
    served.end()


@in_browser
def test_a_page_that_is_loaded_past_its_store(made: site.Site, browser: Browser) -> None:
    """By shift and reload: it gets no worker, and is not to wait for one."""
    served = Served(made.path, Hosted)
    browser.visit(f"{served.address}#seed={SEED}")
    browser.wait(DECIDED)
    browser.run("window.mark = 1")
    browser.call("Page.reload", ignoreCache=True)
    browser.wait(f"window.mark === undefined && {DECIDED}")
    assert browser.run("navigator.serviceWorker.controller") is None
    served.end()
    assert browser.complaints == []


class Short(Hosted):
    """As hosts do that have one address for a page: what is asked for by the name of its file is sent to the folder."""

    def do_GET(self) -> None:
        if self.path != "/index.html":
            return super().do_GET()
        self.send_response(308)
        self.send_header("Location", "/")
        return self.end_headers()


@in_browser
def test_a_host_that_sends_on_to_the_folder(made: site.Site, browser: Browser) -> None:
    served = Served(made.path, Short)
    browser.visit(f"{served.address}#seed={SEED}")
    browser.wait(f"{DECIDED} && document.getElementById('offline').innerText.includes('works offline')")
    served.end()
    browser.visit(f"{served.address}index.html#seed={SEED}")
    browser.wait(DECIDED)


STORED = """(async () => {
  const [name, ...others] = await caches.keys();
  if (others.length) throw new Error(`stores besides ${name}: ${others}`);
  return (await (await caches.open(name)).match("site.json")).json();
})()"""


@in_browser
def test_a_store_does_not_mix_versions(made: site.Site, browser: Browser, tmp_path: Path) -> None:
    """A file that is not of the list's version, as while a folder is being copied, and nothing is stored."""
    folder = tmp_path / "site"
    shutil.copytree(made.path, folder)
    (folder / "style.css").write_bytes((folder / "style.css").read_bytes() + b"\n")
    served = Served(folder, Hosted)
    browser.visit(f"{served.address}#seed={SEED}")
    browser.wait("document.getElementById('offline').innerText.includes('could not be stored')")
    assert browser.run("caches.keys()") == []
    served.end()


OTHER_BUILD = """(async () => {
  const { installing } = await navigator.serviceWorker.register("sw.js?build=plain");
  await new Promise((done) => installing.addEventListener("statechange", done));
  return [installing.state, (await caches.keys()).length];
})()"""


@in_browser
def test_a_build_that_cannot_be_stored_leaves_the_store_of_the_other(
    made: site.Site, browser: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "site"
    shutil.copytree(made.path, folder)
    served = Served(folder, Hosted)
    browser.visit(f"{served.address}#seed={SEED}")
    browser.wait(DECIDED)
    (folder / "style.css").write_bytes(b"")
    assert browser.run(OTHER_BUILD) == ["redundant", 1]
    served.end()


# A page that somebody has touched, so that it does not load anew by itself.
TOUCHED = 'Object.defineProperty(navigator, "userActivation", { value: { hasBeenActive: true } })'


@in_browser
@pytest.mark.parametrize("handler", [Asking, Hosted, Silent])
def test_what_is_served_from_here_is_not_stored(
    made: site.Site, browser: Browser, tmp_path: Path, handler: type[SimpleHTTPRequestHandler]
) -> None:
    """Also where a page was stored at this address: it is shown once more and leaves, with what the browser kept."""
    folder = tmp_path / "site"
    shutil.copytree(made.path, folder)
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 10 * 86400,) * 2)
    stored = Served(folder, handler)
    browser.visit(f"{stored.address}#seed={SEED}")
    browser.wait(f"{DECIDED} && document.getElementById('offline').innerText.includes('works offline')")
    stored.end()
    other = site.web(tmp_path / "other", models=[MODEL], images=[5, 9])
    served = Served(other.path, port=stored.port)
    with beginning_with(browser, TOUCHED):
        browser.visit(f"{served.address}#seed={SEED}")
        browser.wait(f"{PICTURES_SHOWN} === 2 && {DECIDED}")
    assert browser.run("location.hash") == f"#seed={SEED}"
    assert browser.run("navigator.serviceWorker.getRegistrations().then((found) => found.length)") == 0
    assert browser.run("caches.keys()") == []
    assert "is not stored in your browser" in browser.texts("#offline")[0]
    served.end()


LEAVING = """
import { readFileSync } from "node:fs";
const [script, ...addresses] = JSON.parse(process.argv[2]), heard = {}, went = [];
const windows = addresses.map((url) => ({ url, navigate: (address) => went.push(address) }));
globalThis.caches = { keys: async () => [] };
globalThis.self = {
  registration: { unregister: async () => {} },
  clients: { matchAll: async () => windows },
  addEventListener: (kind, take) => { heard[kind] = take; },
};
new Function(readFileSync(script, "utf-8"))();
heard.activate({ waitUntil: (left) => left.then(() => console.log(JSON.stringify(went))) });
"""


@in_node
def test_a_page_that_leaves_is_loaded_anew(tmp_path: Path) -> None:
    """Also one that left before: going to a place on the page where one is loads nothing, as the standard has it."""
    plain, *marked = addresses = [f"http://localhost:8000/{rest}" for rest in ("", "#seed=1", "?anew#b", "?anew=1#b")]
    found = ask_scripts(tmp_path, LEAVING, [str(server.LEAVE), *addresses])
    assert found[0] == plain
    for before, after in zip(marked, found[1:], strict=True):
        (page, place), (new, same) = before.split("#"), after.split("#")
        assert (new != page, same) == (True, place)


@in_browser
def test_the_policy_holds(browser: Browser, served: Served) -> None:
    browser.visit(f"{served.address}#seed={SEED}")
    browser.wait(DECIDED)
    policy = browser.run("document.querySelector('meta[http-equiv=Content-Security-Policy]').content")
    assert policy == folders.POLICY
    assert "unsafe-inline" not in policy
    assert "'unsafe-eval'" not in policy
    tried = browser.run(
        """(async () => {
        const outcome = {}, script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
        outcome.inline = window.injected === true;
        outcome.elsewhere = await fetch("http://127.0.0.2:9/").then(() => true, (error) => error.name);
        return outcome;
        })()"""
    )
    assert tried == {"inline": False, "elsewhere": "TypeError"}
    evaluated = browser.call("Runtime.evaluate", expression="eval('1')", allowUnsafeEvalBlockedByCSP=False)
    assert evaluated["result"]["className"] == "EvalError"
    refused = [words for words in browser.complaints if "Content Security Policy" in words]
    assert any("connect-src" in words for words in refused)
    assert any("script-src" in words for words in refused)


# --- for everyone ----------------------------------------------------------------------------------------------------


@in_browser
def test_by_keyboard(visit: Callable[..., Browser]) -> None:
    page = visit()
    seen = []
    for _ in range(16):
        page.press("Tab")
        seen.append(
            page.run("document.activeElement.id || document.activeElement.className || document.activeElement.role")
        )
    wanted = ["skip", "radio", "open", "again", "sigma", "model", "rival", "seed", "copy", "link"]
    assert [name for name in seen if name in wanted][: len(wanted)] == wanted
    page.run("document.querySelector('[role=radio][tabindex=\"0\"]').focus()")
    page.press("ArrowRight", 2)
    page.wait(DECIDED)
    assert page.run("document.activeElement === document.querySelector('[aria-checked=true]')")
    assert "--first 18 " in page.texts(".proof code")[0], "the third picture"
    assert re.match(r"The answer is \w+\. Certified radius 0\.\d+, after [\d,]+ samples\.$", page.texts("#said")[0])


@in_browser
def test_skipping_to_the_certificate_keeps_it(visit: Callable[..., Browser]) -> None:
    page = visit()
    page.run("window.mark = 1")
    page.run("document.querySelector('.skip').click()")
    assert page.run("[document.activeElement.id, location.hash]") == ["stage", f"#seed={SEED}"]
    page.run("location.hash += '&else=1'")
    time.sleep(0.3)
    assert page.run("window.mark") == 1
    page.run("location.hash = 'seed=0x77'")  # another link
    page.wait(f"window.mark === undefined && {DECIDED} && document.getElementById('seed').value === '0x77'")


@in_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_layout(visit: Callable[..., Browser], width: int, dark: bool) -> None:
    page = visit(f"&rival={OTHER}", wait=f"{DECIDED} && document.querySelectorAll('.panel').length === 2", width=width,
                 dark=dark)  # fmt: skip
    assert page.run("document.documentElement.scrollWidth") <= width
    inside = "e => e.getBoundingClientRect().right <= innerWidth + 1 || e.closest('.hidden') !== null"
    assert page.run(f"[...document.querySelectorAll('main *')].every({inside})")
    edges = "(selector) => document.querySelector(selector).getBoundingClientRect().left"
    assert page.run(f"({edges})('.panel') - ({edges})('.stage')") == 0
    page.wait(f"{CONTRAST} >= 4.5")


# --- the folder ------------------------------------------------------------------------------------------------------


def test_the_folder(made: site.Site) -> None:
    on_disk = {
        path.relative_to(made.path).as_posix(): path.stat().st_size for path in made.path.rglob("*") if path.is_file()
    }
    assert on_disk == dict(made.sizes)
    listed = json.loads((made.path / "site.json").read_text())
    digests = {name: hashlib.sha256((made.path / name).read_bytes()).hexdigest() for name in on_disk}
    assert digests.pop("site.json")
    assert listed["files"] == digests
    assert [model["name"] for model in listed["models"]] == [MODEL, OTHER]
    html = (made.path / "index.html").read_text()
    assert not re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", html)
    for name in on_disk:
        if name.endswith((".html", ".css", ".js")):
            text = (made.path / name).read_text("utf-8")
            assert not re.findall(r"https?://(?!www\.w3\.org/)", text), name
            assert "innerHTML" not in text


def test_a_page_with_one_model_is_small(tmp_path: Path) -> None:
    made = site.web(tmp_path / "site", models="resnet20-sigma0.25")
    assert made.models == ("resnet20-sigma0.25",)
    assert made.first_load < 700_000


def test_other_files_give_another_store(made: site.Site, tmp_path: Path) -> None:
    again = site.web(tmp_path / "again", models=[MODEL, OTHER], images=POSITIONS)
    other = site.web(tmp_path / "other", models=[MODEL], images=[5])
    scripts = [(each.path / "sw.js").read_bytes() for each in (made, again, other)]
    assert scripts[0] == scripts[1] != scripts[2]


def test_types_and_policy_of_the_server(made: site.Site) -> None:
    served = Served(made.path)
    try:
        for name, kind in (
            ("", "text/html"),
            ("main.js", "text/javascript"),
            ("engine/intrs-simd.wasm", "application/wasm"),
        ):
            connection = HTTPConnection("127.0.0.1", served.port)
            connection.request("GET", f"/{name}")
            answer = connection.getresponse()
            assert answer.status == 200
            assert str(answer.headers["Content-Type"]).startswith(kind)
            assert answer.headers["Content-Security-Policy"] == folders.POLICY
            assert answer.headers["Cache-Control"] == "no-store"
            connection.close()
        with pytest.raises(IntrsError, match="choose another one"):
            site.serving(made.path, served.port)
    finally:
        served.end()


def test_the_server_gives_what_is_there_now(made: site.Site) -> None:
    """A folder of another run may be older than what a browser has of the former one; and none is to be stored."""
    served = Served(made.path)
    try:
        for name, content in (("main.js", made.path / "main.js"), ("sw.js?build=simd", server.LEAVE)):
            connection = HTTPConnection("127.0.0.1", served.port)
            connection.request("GET", f"/{name}", headers={"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"})
            assert connection.getresponse().read() == content.read_bytes()
            connection.close()
    finally:
        served.end()


def test_titles_tell_models_apart() -> None:
    names = ("resnet8-sigma0.25", "resnet8-micro0.25", "resnet20-sigma0.25")
    titles = [entry["title"] for entry in folders._entries([open_model(name) for name in names], None)]
    assert titles == [f"{TITLE} (resnet8-sigma0.25)", f"{TITLE} (resnet8-micro0.25)", "ResNet-20, σ = 0.25"]


def test_names_and_data_that_a_page_cannot_hold(tmp_path: Path) -> None:
    foreign = tmp_path / "net\udcff.onnx"
    foreign.write_bytes(save_model(tmp_path / "tiny.onnx").read_bytes())
    data = save_images(tmp_path / "tiny.npz")
    other = data.rename(tmp_path / "tiny\udcff.npz")
    save_images(data)
    arrays = (np.zeros((2, 32, 32, 3), np.uint8), np.zeros(2, np.int64))
    for settings, words in (
        ({"models": foreign, "data": data}, "not UTF-8"),
        ({"models": tmp_path / "tiny.onnx", "data": other}, "not UTF-8"),
        ({"models": MODEL, "data": arrays}, "expected a name or a path"),
        (
            {"models": [tmp_path / "tiny.onnx"]},
            "cifar10-500 has images of 32 x 32 x 3 .*tiny takes 4 x 4 x 3. Give data",
        ),
    ):
        with pytest.raises(IntrsError, match=words):
            site.web(tmp_path / "no", images=[0], **settings)
    assert not (tmp_path / "no").exists()


def test_mistakes(made: site.Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web"]) == 2
    assert "-o FOLDER" in capsys.readouterr().err
    assert main(["web", MODEL, "-o", str(made.path)]) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main(["web", MODEL, "-o", str(tmp_path / "no"), "--no-open"]) == 2
    assert "add --serve" in capsys.readouterr().err
    assert main(["web", MODEL, "-o", str(tmp_path / "no"), "--serve", "99999"]) == 2
    assert "argument --serve: at most 65,535 is possible" in capsys.readouterr().err
    with pytest.raises(IntrsError, match="out: expected the path of a file, got None"):
        site.web(None)  # type: ignore[arg-type]
    for settings, words in (
        ({"images": 3}, "images: expected positions in the data set"),
        ({"images": ["a"]}, "images: expected an integer of at least 0, got 'a'"),
        ({"models": []}, "at least one model"),
        ({"models": [MODEL, MODEL]}, "two models are called"),
        ({"models": MODEL, "images": [500]}, "positions 0 to 499"),
        ({"models": MODEL, "images": []}, "1 to 100 positions"),
        ({"models": MODEL, "sigma": 99}, "sigma must lie between 0.01 and 4, got 99"),
        ({"models": intrs.load(MODEL)}, "pass its file"),
    ):
        with pytest.raises(IntrsError, match=words):
            site.web(tmp_path / "no", **settings)
    assert not (tmp_path / "no").exists()


def test_a_model_of_ones_own_and_a_name_that_is_no_path(tmp_path: Path) -> None:
    model = tmp_path / "my net <é>.onnx"
    model.write_bytes(intrs.zoo.model_path(MODEL).read_bytes())
    code = main(["web", str(model), "-o", str(tmp_path / "site"), "--images", "3,5"])
    assert code == 0
    listed = json.loads((tmp_path / "site" / "site.json").read_text())
    (entry,) = listed["models"]
    assert re.fullmatch(r"models/my_net____-[0-9a-f]{8}\.intrs", entry["file"])
    assert (tmp_path / "site" / entry["file"]).is_file()
    assert entry["spec"] == "my net <é>.onnx"
    assert [picture["position"] for picture in listed["pictures"]["list"]] == [3, 5]
