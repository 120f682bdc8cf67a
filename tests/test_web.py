"""@intrs/web in Node and in Chromium: votes, certificates and refusals, against those of the package."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import struct
import subprocess
import threading
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import Browser, in_browser
from layers import network_of_gibibytes
from random_networks import random_network
from test_native import least_products
from test_votes import GOLDEN, golden_base

import intrs
from intrs.certificate import Certified
from intrs.certificate.bounds import BOUNDS
from intrs.errors import SettingsError
from intrs.exchange import web
from intrs.noise import KINDS, Noise
from intrs.smooth import Predicted
from intrs.votes import SELECTION, Samples, count
from tools import make_web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.network import Network

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "web"

Job = dict[str, Any]
SEED = 2**255 + 77
BUILDS = {"simd": True, "plain": False}
RADII = ["0.25", "0.5"]

in_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="no Node here (Debian and Ubuntu: apt install nodejs)"
)


# --- Files -----------------------------------------------------------------------------------------------------------


def golden_jobs(folder: Path, **more: Any) -> tuple[list[Job], list[list[int]]]:
    """The golden votes, and what they are to be."""
    jobs, expected = [], []
    for number, entry in enumerate(json.loads(GOLDEN.read_text())):
        base, image = golden_base(entry["network"])
        assert base.identity == entry["identity"]
        options = {name: entry[name] for name in ("seed", "noise", "sigma")}
        options |= {
            "index": entry["image"],
            "first": str(entry["first"]),
            "n": entry["count"],
            **more.get("options", {}),
        }
        path = folder / f"golden{number}.intrs"
        web.write_file(base, path, sigma=entry["sigma"], noise=entry["noise"], n=100, predict_n=20)
        (folder / f"golden{number}.bin").write_bytes(image.tobytes())
        files = {"model": path.name, "image": f"golden{number}.bin"}
        jobs.append({"kind": "votes", **files, "load": more.get("load", {}), "options": options})
        expected.append(entry["counts"])
    return jobs, expected


def small_model(folder: Path) -> Job:
    """A shipped network with an adaptive rule, and an image."""
    path = folder / "small.intrs"
    intrs.export("resnet8-sigma0.25", path, n=3000, radii=RADII, predict_n=100)
    (folder / "image.bin").write_bytes(intrs.open_data("cifar10-500").images[8].tobytes())
    return {"model": path.name, "image": "image.bin"}


def expected_certificate(index: int | None = 5) -> dict[str, Any]:
    """What Smooth says of the image of `small_model`."""
    smooth = intrs.Smooth(intrs.load("resnet8-sigma0.25"), sigma="0.25", seed=SEED)
    image = intrs.open_data("cifar10-500").images[8]
    found = smooth.certify(image, n=3000, radii=RADII, index=index)
    assert isinstance(found, Certified)
    return {"label": found.label, "votes": found.votes, "samples": found.n, "radiusSq": found.radius_sq}


def part_of(state: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    return {name: state[name] for name in like}


def ask_node(folder: Path, jobs: list[Job], *more: str, package: Path = PACKAGE) -> list[Any]:
    """The answers of Node, where names of files are in a folder."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = ["node", str(ROOT / "tests/web/node.mjs"), str(package / "index.js"), "jobs.json", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


# --- What is compiled ------------------------------------------------------------------------------------------------


def test_the_webassembly_is_that_of_the_sources() -> None:
    record = json.loads((PACKAGE / make_web.RECORD).read_text())
    assert record["sources"] == make_web.source_hash(), "sources have changed: run python tools/make_web.py"
    for build in BUILDS:
        data = (PACKAGE / f"intrs-{build}.wasm").read_bytes()
        assert record[build] == hashlib.sha256(data).hexdigest()


@pytest.mark.skipif(find_spec("ziglang") is None, reason="no compiler here (pip install ziglang)")
def test_the_sources_compile_to_the_same_bytes() -> None:
    assert make_web.compile_wasm("simd") == (PACKAGE / "intrs-simd.wasm").read_bytes()


def test_relaxed_instructions_are_not_asked_for() -> None:
    assert not any("relaxed" in text for text in (*make_web.FLAGS, *make_web.LINK, *make_web.BUILDS.values()))


def test_kinds_and_bounds_are_those_of_the_package() -> None:
    code = (PACKAGE / "bundle.js").read_text()
    assert f"KINDS = {json.dumps(KINDS)}, BOUNDS = {json.dumps(BOUNDS)};" in code


def test_types_name_what_is_there() -> None:
    code, types = (PACKAGE / "index.js").read_text(), (PACKAGE / "index.d.ts").read_text()
    direct = re.findall(r"^export (?:async )?(?:function\*?|const|class) (\w+)", code, re.M)
    listed = re.findall(r"\w+", re.search(r"^export \{(.*)\};", code, re.M)[1])  # type: ignore[index]
    assert set(direct) | set(listed) == set(re.findall(r"^export (?:function|const|class) (\w+)", types, re.M))


def test_the_package_lists_its_files() -> None:
    about = json.loads((PACKAGE / "package.json").read_text())
    assert about["version"] == intrs.__version__
    assert not about.get("dependencies")
    there = {path.name for path in PACKAGE.iterdir()}
    assert set(about["files"]) | {"package.json", "README.md"} == there


# --- Files for the web -----------------------------------------------------------------------------------------------


def test_a_file_says_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "two.intrs"
    made = intrs.export("resnet8-sigma0.25", path, sigma="0.12,0.25", n=500, radii=["0.1"], predict_n=50)
    assert made.target.name == "web"
    data = path.read_bytes()
    assert data[:8] == web.MAGIC
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    header = json.loads(data[12 : 12 + struct.unpack_from("<I", data, 8)[0]])
    assert (header["name"], header["identity"], header["shape"]) == ("two", made.identity, [32, 32, 3])
    assert header["names"][8] == "ship"
    assert [noise["sigma"] for noise in header["noises"]] == ["0.12", "0.25"]
    assert [(rule["n"], rule["radii"], rule["adaptive"]) for rule in header["rules"]] == [(500, ["0.1"], True)] * 2
    begin = 12 + struct.unpack_from("<I", data, 8)[0]
    assert data[begin : begin + header["network"]] == made.network.to_bytes()
    sizes = [part["bytes"] for key in ("noises", "rules", "predictions") for part in header[key]]
    assert begin + header["network"] + sum(sizes) + 32 == len(data)


def test_settings_of_a_file_are_checked() -> None:
    network = golden_base("made here")[0]
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({}, "how much noise"),
        ({"sigma": ","}, "sigma"),
        ({"sigma": [0.25] * 17}, "1 to 16"),
        ({"sigma": 0.25, "names": "a,b"}, "5 classes"),
        ({"sigma": 0.25, "name": ""}, "characters"),
        ({"sigma": 0.25, "name": 101 * "\N{GRINNING FACE}"}, "count twice"),  # browsers count 202
        ({"sigma": 0.25, "name": "net\udcff"}, "not UTF-8"),
        ({"sigma": 0.25, "names": ["a", "b", "c", "d", "\udcff"]}, "not UTF-8"),
        ({"sigma": 0.25, "predict_n": 10**6}, "at most 100,000"),
    ]
    for wrong, words in mistakes:
        with pytest.raises(SettingsError, match=words):
            web.bundle(network, **{"n": 100, "predict_n": 20, **wrong})


# --- Node ------------------------------------------------------------------------------------------------------------


@in_node
@pytest.mark.parametrize("build", BUILDS)
def test_golden_votes(tmp_path: Path, build: str) -> None:
    jobs, expected = golden_jobs(tmp_path, load={"simd": BUILDS[build]}, options={"workers": 1 + BUILDS[build]})
    about, *found = ask_node(tmp_path, [{**jobs[0], "kind": "about"}, *jobs])
    assert about["kernels"] == {"simd": "wasm", "plain": "scalar"}[build]
    assert found == expected


def networks() -> Iterator[Network]:
    yield least_products()
    for seed in range(24):
        yield random_network(np.random.default_rng(seed))


@in_node
def test_votes_of_random_networks(tmp_path: Path) -> None:
    """Layers of all kinds, of any size: the set against the package."""
    jobs, expected, noise = [], [], Noise.of("discrete", "0.25")
    for number, network in enumerate(networks()):
        image = np.random.default_rng(number).integers(0, 256, network.input_shape).astype(np.uint8)
        files = {"model": f"{number}.intrs", "image": f"{number}.bin"}
        web.write_file(network, tmp_path / files["model"], sigma="0.25", n=20, predict_n=20)
        (tmp_path / files["image"]).write_bytes(image.tobytes())
        options = {"seed": str(SEED), "index": 3, "n": 50, "workers": 0}
        jobs += [{"kind": "votes", **files, "options": options, "load": {"simd": simd}} for simd in (True, False)]
        expected += [list(count(network, image, noise, Samples(SEED, 3, 0, 50)).counts)] * 2
    assert len({tuple(counts) for counts in expected}) > 10, "networks that always say the same test nothing"
    assert ask_node(tmp_path, jobs) == expected


@in_node
def test_certificates(tmp_path: Path) -> None:
    """With SIMD and without, by this thread, one and two workers, and by the pixels' own index."""
    files, options = small_model(tmp_path), {"seed": hex(SEED), "index": 5, "radii": RADII, "alpha": 0.001}
    jobs: list[Job] = [
        {"kind": "certify", **files, "options": {**options, "workers": workers}, "load": {"simd": simd}}
        for simd, workers in ((True, 0), (True, 1), (True, 2), (False, 2))
    ]
    jobs.append({"kind": "certify", **files, "options": {"seed": str(SEED), "sigma": "1/4", "n": 3000}})
    *found, by_pixels = ask_node(tmp_path, jobs)
    expected = expected_certificate()
    assert [part_of(state, expected) for state in found] == [expected] * 4
    assert all(state["decided"] and not state["abstained"] for state in found)
    assert [state["workers"] for state in found] == [0, 1, 2, 2]
    assert all(state["states"] > 3 for state in found)
    assert part_of(by_pixels, expected) == expected_certificate(None)


@in_node
def test_fixed_numbers_of_samples_and_abstentions(tmp_path: Path) -> None:
    base, _ = golden_base("resnet8-sigma0.25")
    web.write_file(base, tmp_path / "fixed.intrs", sigma="0.25", n=200, n0=10, predict_n=100)
    images = intrs.open_data("cifar10-500").images[:12]
    smooth = intrs.Smooth(base, sigma="0.25", seed=SEED)
    jobs, certified, predicted = [], [], []
    for number, image in enumerate(images):
        (tmp_path / f"{number}.bin").write_bytes(image.tobytes())
        files = {"model": "fixed.intrs", "image": f"{number}.bin"}
        jobs += [
            {"kind": kind, **files, "options": {"seed": str(SEED), "workers": 1}} for kind in ("certify", "predict")
        ]
        outcome, answer = smooth.certify(image, n=200, n0=10), smooth.predict(image, n=100)
        certified.append((outcome.votes, outcome.radius_sq if isinstance(outcome, Certified) else None))
        predicted.append((answer.votes, isinstance(answer, Predicted), int(base.predict(image[None])[0])))
    found = ask_node(tmp_path, jobs)
    assert [(state["votes"], state["radiusSq"]) for state in found[::2]] == certified
    assert all(state["abstained"] == (state["radiusSq"] is None) for state in found[::2])
    assert [(answer["votes"], answer["decided"], answer["plain"]) for answer in found[1::2]] == predicted
    assert len({radius is None for _, radius in certified}) == len({decided for _, decided, _ in predicted}) == 2


@in_node
def test_interrupted_and_continued(tmp_path: Path) -> None:
    files, options = small_model(tmp_path), {"seed": str(SEED), "index": 5, "workers": 1}
    continued = {"kind": "continued", **files, "options": options, "then": {"workers": 2}}
    jobs = [{**continued, "after": after} for after in (0, 1, 300)]
    *found, aborted = ask_node(tmp_path, [*jobs, {"kind": "aborted", **files, "options": options}])
    expected = expected_certificate()
    for answer in found:
        assert part_of(answer["last"], expected) == expected
        assert answer["begins"] >= answer["left"]
        assert answer["over"] == [answer["last"] | {"workers": answer["over"][0]["workers"]}]
    assert 300 <= found[-1]["left"] < expected["samples"]
    base, noise = golden_base("resnet8-sigma0.25")[0], Noise.of("discrete", "0.25")
    image = intrs.open_data("cifar10-500").images[8]
    assert aborted.pop("votes") == list(count(base, image, noise, Samples(1, 0, 0, 20)).counts)
    assert aborted == {"states": 2, "error": "enough", "late": "enough"}


@in_node
def test_closed_while_its_workers_count(tmp_path: Path) -> None:
    """A late answer would end the process of Node."""
    files, options = small_model(tmp_path), {"seed": str(SEED), "index": 5, "workers": 2, "n": 4000}
    found = ask_node(tmp_path, [{"kind": "closed", **files, "options": options}])
    assert found == [["the network was closed", "answered"]]


@in_node
def test_closed_while_its_workers_start(tmp_path: Path) -> None:
    """Nobody else would end them."""
    files, options = small_model(tmp_path), {"seed": str(SEED), "index": 5, "workers": 2, "n": 64}
    (found,) = ask_node(tmp_path, [{"kind": "closedEarly", **files, "options": options}])
    closed = "the network was closed; load it again"
    assert found == {"found": [closed] * 2, "later": closed, "started": 2, "ended": 2}


@in_node
def test_closed_while_this_thread_counts(tmp_path: Path) -> None:
    files, options = small_model(tmp_path), {"seed": str(SEED), "index": 5, "workers": 0, "n": 4000}
    found = ask_node(tmp_path, [{"kind": "closedHere", **files, "options": options}])
    assert found == [["the network was closed; load it again", "the network was closed"]]


@in_node
def test_calls_at_the_same_time_share_workers(tmp_path: Path) -> None:
    """As many as the call that wants most asks for, whichever comes first."""
    files, asked = small_model(tmp_path), (1, 2, 1, 2, 3)
    calls = [{"seed": str(SEED + i), "index": 5, "n": 40, "workers": workers} for i, workers in enumerate(asked)]
    (found,) = ask_node(tmp_path, [{"kind": "shared", **files, "calls": calls}])
    base, noise = golden_base("resnet8-sigma0.25")[0], Noise.of("discrete", "0.25")
    image = intrs.open_data("cifar10-500").images[8]
    votes = [list(count(base, image, noise, Samples(SEED + i, 5, 0, 40)).counts) for i in range(len(asked))]
    assert found == {"votes": votes, "started": max(asked), "ended": max(asked)}


@in_node
def test_votes_of_one_image_are_not_those_of_another(tmp_path: Path) -> None:
    files = small_model(tmp_path)
    options = {"seed": str(SEED), "index": 5, "workers": 1}
    (found,) = ask_node(tmp_path, [{"kind": "otherImage", **files, "options": options, "after": 100}])
    assert "its votes are of another image" in found[0]
    assert "it does not say of which image its votes are" in found[1]


@in_node
def test_a_state_has_the_settings_that_go_on(tmp_path: Path) -> None:
    """Among several in the file, without being told again which."""
    files = small_model(tmp_path)
    intrs.export("resnet8-sigma0.25", tmp_path / "two.intrs", sigma="0.12,0.25", n=3000, radii=RADII, predict_n=100)
    options = {"seed": str(SEED), "index": 5, "workers": 1, "sigma": "0.25"}
    continued = {"kind": "continued", **files, "model": "two.intrs", "options": options, "then": {}, "after": 100}
    (found,) = ask_node(tmp_path, [continued])
    expected = expected_certificate()
    assert part_of(found["last"], expected) == expected
    assert found["last"]["sigma"] == "0.25"


@in_node
@pytest.mark.parametrize(("workers", "least"), [(0, 4), (1, 16)])
def test_whoever_counts_on_a_page_stops_soon(tmp_path: Path, workers: int, least: int) -> None:
    """However long a sample takes; only workers may count larger parts."""
    lines = [
        f"import {{ Run }} from {json.dumps((PACKAGE / 'run.js').as_uri())};",
        "const sizes = [], pause = (ms) => new Promise((done) => setTimeout(done, ms));",
        "const count = async (_, size) => { sizes.push(size); await pause(15 * size); return [size]; };",
        f"await new Run([{{ first: 0n, count: 64 }}], {workers}, count, () => false).start();",
        "console.log(JSON.stringify(sizes));",
    ]
    (tmp_path / "run.mjs").write_text("\n".join(lines))
    done = subprocess.run(["node", "run.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [least] * (64 // least)


@in_node
def test_in_an_older_node(tmp_path: Path) -> None:
    """Before 18.14 it does not say how many cores it may use, but how many there are."""
    files, options = small_model(tmp_path), {"seed": str(SEED), "index": 5}
    (found,) = ask_node(tmp_path, [{"kind": "certify", **files, "options": options}], "older-node")
    assert found["workers"] >= 1
    assert part_of(found, expected_certificate()) == expected_certificate()


@in_node
def test_workers_of_another_version_do_not_count(tmp_path: Path) -> None:
    """As where a folder was written anew below an open page: this thread counts instead."""
    files, options = small_model(tmp_path), {"seed": str(SEED), "index": 5, "workers": 2}
    package = tmp_path / "package"
    shutil.copytree(PACKAGE, package)
    (package / "newer").mkdir()
    core, worker = (package / "core.js").read_text(), (package / "worker.js").read_text()
    (package / "newer/core.js").write_text(re.sub(r"PROTOCOL = \d+", "PROTOCOL = 0", core))
    (package / "worker.js").write_text(worker.replace("./core.js", "./newer/core.js"))
    (found,) = ask_node(tmp_path, [{"kind": "certify", **files, "options": options}], package=package)
    assert found["workers"] == 0
    assert part_of(found, expected_certificate()) == expected_certificate()


@in_node
def test_states_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"identity": "00"}, {"samples": 1}, {"counts": [1]}, {"counts": None}, {"selected": 7}, {"samples": 10**7},
    ]  # fmt: skip
    settings: list[dict[str, Any]] = [{"sigma": "0.5"}, {"radii": ["0.25"]}, {"n": 5}, {"alpha": None}]
    files = small_model(tmp_path)
    options = {"seed": str(SEED), "index": 5, "workers": 1}
    job = {"kind": "refusedFrom", **files, "options": options, "after": 100, "changes": changes + settings}
    (found,) = ask_node(tmp_path, [job])
    assert all("cannot go on from that state" in message for message in found[: len(changes)]), found
    for message, words in zip(
        found[len(changes) :], ("no tables for sigma 0.5", "no table of", "no table of", "alpha"), strict=True
    ):
        assert words in message


def sealed(body: bytes) -> bytes:
    """A file with the digest that belongs to it."""
    return body + hashlib.sha256(body).digest()


def hostile_fields() -> Iterator[tuple[str, str, Any]]:
    """What a header may not say of its parts: the page puts these texts into a command for a shell."""
    shell = "0.25; touch /tmp/x #"
    texts = {"noises": ("kind", "sigma"), "rules": ("alpha", "bound", "giveUp"), "predictions": ("alpha",)}
    for part, fields in texts.items():
        for field in fields:
            yield from ((part, field, value) for value in (shell, "$(id)", "--overwrite", "0.25\n", "", 0.25))
    yield "rules", "radii", ["0.25", shell]
    yield "rules", "radii", "0.25"
    yield "rules", "giveUp", None
    yield "rules", "n0", shell
    yield "rules", "noise", "length"


def damaged_files(folder: Path) -> Iterator[tuple[str, bytes, str]]:
    """Names, bytes, and what the message must say."""
    data = (folder / "small.intrs").read_bytes()
    begin = 12 + struct.unpack_from("<I", data, 8)[0]
    header, rest = json.loads(data[12:begin]), data[begin:-32]
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1

    def with_header(**changes: Any) -> bytes:
        text = json.dumps(header | changes).encode()
        return sealed(web.MAGIC + struct.pack("<I", len(text)) + text + rest)

    other = intrs.adaptive_table(sigma="0.12", dimension=3072, n=3000, radii=RADII).to_bytes()
    rule = {**header["rules"][0], "bytes": len(other)}
    noise = header["noises"][0]["bytes"]
    swapped = (
        rest[: header["network"] + noise] + other + rest[header["network"] + noise + header["rules"][0]["bytes"] :]
    )
    text = json.dumps(header | {"rules": [rule]}).encode()
    yield "empty", b"", "not a model"
    yield "cut", data[:-1], "not a model"
    yield "flipped", bytes(flipped), "damaged"
    yield "onnx", b"\x08\x07\x12" + data, "intrs export"
    yield "header", sealed(data[:12] + b"{" * (begin - 12) + rest), "not a model"
    yield "missing", with_header(rules=[]), "not a model"
    yield "classes", with_header(classes=11, names=None), "another network"
    yield "shape", with_header(shape=[32, 32, 1]), "another network"
    yield "samples", with_header(rules=[header["rules"][0] | {"n": 4000}]), "another table"
    for number, (part, field, value) in enumerate(hostile_fields()):
        yield f"{part}-{field}-{number}", with_header(**{part: [header[part][0] | {field: value}]}), "not a model"
    yield "null", with_header(noises=[None]), "not a model"
    yield "network", sealed(data[:begin] + b"\0" * 40 + rest[40:]), "network"
    yield "noise", sealed(web.MAGIC + struct.pack("<I", len(text)) + text + swapped), "another noise"


@in_node
def test_damaged_files_and_wrong_images(tmp_path: Path) -> None:
    files = small_model(tmp_path)
    (tmp_path / "short.bin").write_bytes(b"\0" * 3071)
    jobs: list[Job] = [{"kind": "refused", **files, "image": "short.bin"}]
    expected = ["images of 32 x 32 pixels with 3 channels, so 3072 bytes; this one has 3071"]
    wrong: dict[str, tuple[Any, str]] = {
        "sigma": ("0.5", "no tables for sigma 0.5; it has discrete 0.25"),
        "radii": ([0.3], "no table of decisions with these settings for this noise; it has: n = 3000"),
        "alpha": ("x", "alpha: expected a number"),
        "seed": (-1, "the seed must be an integer from 0"),
        "index": (2**32, "index: expected an integer"),
        "workers": (1.5, "workers: expected an integer"),
    }
    for name, (value, words) in wrong.items():
        jobs.append({"kind": "refused", **files, "options": {name: value}})
        expected.append(words)
    for name, data, words in damaged_files(tmp_path):
        (tmp_path / name).write_bytes(data)
        jobs.append({"kind": "refused", "model": name})
        expected.append(words)
    for message, words in zip(ask_node(tmp_path, jobs), expected, strict=True):
        assert words in message, (message, words)
    (without,) = ask_node(tmp_path, [{"kind": "refused", **files}], "without-webassembly")
    assert "no WebAssembly" in without


@in_node
def test_first_samples_that_are_none(tmp_path: Path) -> None:
    """Numbers that no float holds exactly would be other samples, without a word."""
    files, firsts = small_model(tmp_path), (1.5, "x", "7", -1, True, [3])
    job = {"kind": "firsts", **files, "firsts": firsts, "options": {"n": 1, "workers": 0}}
    (found,) = ask_node(tmp_path, [job])
    *words, beyond = found
    assert [word.split(",")[0] for word in words] == ["first: expected an integer of at least 0 (from 2**53 on"] * 9
    assert beyond == "there are no such samples"


@in_node
@pytest.mark.parametrize("kernels", ["", "scalar"])
def test_more_memory_than_can_be_addressed_is_refused(tmp_path: Path, kernels: str) -> None:
    """Its upper bits were dropped once, and the network wrote over whatever lay there."""
    large = network_of_gibibytes()
    assert len(large.to_bytes()) < 2000
    web.write_file(large, tmp_path / "large.intrs", sigma="0.25", n=20, predict_n=20)
    loads = [{"simd": simd, "kernels": kernels} for simd in BUILDS.values()]
    found = ask_node(tmp_path, [{"kind": "refused", "model": "large.intrs", "load": load} for load in loads])
    assert all("the network needs too much memory" in message for message in found), found


@in_node
def test_long_numbers_are_numbers(tmp_path: Path) -> None:
    """Fractions that no short decimal gives, as the package writes them."""
    network, long = golden_base("made here")[0], "0.0123456789012345678901"
    settings: dict[str, Any] = {"sigma": "0.25", "n": 2000, "predict_n": 20, "alpha": "1/3"}
    web.write_file(network, tmp_path / "long.intrs", radii=[long], give_up="0.123456789012345678901", **settings)
    web.write_file(network, tmp_path / "paper.intrs", bound="paper", **settings)
    first, second = ask_node(tmp_path, [{"kind": "about", "model": name} for name in ("long.intrs", "paper.intrs")])
    assert [Fraction(radius) for radius in first["rules"][0]["radii"]] == [Fraction(long)]
    assert second["rules"][0]["bound"] == "paper"


@in_node
def test_mutated_files_do_no_harm(tmp_path: Path) -> None:
    """With the right digest: each is refused with words, or is another model."""
    network = golden_base("made here")[0]
    body = web.bundle(network, sigma="0.25", n=20, predict_n=20)[:-32]
    generator, jobs = np.random.default_rng(5), []
    for number in range(150):
        changed = bytearray(body)
        for place in generator.integers(12, len(body), generator.integers(1, 4)):
            changed[place] ^= 1 << generator.integers(8)
        (tmp_path / f"{number}").write_bytes(sealed(bytes(changed)))
        jobs.append({"kind": "refused", "model": f"{number}"})
    messages = ask_node(tmp_path, jobs)
    assert sum(bool(message) for message in messages) > 50


# --- Chromium --------------------------------------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".wasm": "application/wasm", ".js": "text/javascript"}

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder over HTTP, without special headers, so without shared memory."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
import * as api from "./package/index.js";
import { answers } from "./jobs.js";
const read = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
window.ask = async (jobs) => JSON.stringify(await answers(api, read, jobs));
</script>"""


def ask_chromium(folder: Path, jobs: list[Job]) -> list[Any]:
    shutil.copytree(PACKAGE, folder / "package")
    shutil.copy(ROOT / "tests/web/jobs.js", folder)
    (folder / "index.html").write_text(PAGE)
    with served(folder) as address, Browser() as browser:
        browser.call("Page.navigate", url=f"{address}/index.html")
        browser.wait("typeof window.ask === 'function'")
        found = browser.run(f"ask({json.dumps(jobs)})")
        assert not browser.run("crossOriginIsolated")
        assert browser.complaints == []
    return list(json.loads(found))


@in_browser
def test_in_chromium(tmp_path: Path) -> None:
    """Golden votes, certificates by one and two workers, with SIMD and without; interrupted; refused."""
    golden, votes = golden_jobs(tmp_path, options={"workers": 2})
    files, options = small_model(tmp_path), {"seed": str(SEED), "index": 5}
    certify = {"kind": "certify", **files, "options": options}
    jobs: list[Job] = [
        {**certify, "options": {**options, "workers": workers}, "load": {"simd": simd}}
        for workers, simd in ((1, True), (2, True), (1, False), (2, False))
    ]
    then = {"workers": 2}
    jobs.append({"kind": "continued", **files, "options": {**options, "workers": 1}, "then": then, "after": 100})
    jobs.append({"kind": "refused", **files, "image": "index.html"})
    (tmp_path / "damaged").write_bytes((tmp_path / "small.intrs").read_bytes()[:-1])
    jobs.append({"kind": "refused", "model": "damaged"})
    plain = [{**job, "load": {"simd": False}} for job in golden]
    found = ask_chromium(tmp_path, [*golden, *plain, *jobs])
    assert found[: 2 * len(votes)] == votes * 2
    *certified, continued, wrong_size, damaged = found[2 * len(votes) :]
    expected = expected_certificate()
    assert [part_of(state, expected) for state in certified] == [expected] * 4
    assert [state["workers"] for state in certified] == [1, 2, 1, 2]
    assert part_of(continued["last"], expected) == expected
    assert "images of 32 x 32 pixels" in wrong_size
    assert "damaged" in damaged


def test_selection_is_where_the_package_has_it() -> None:
    assert "SELECTION = 2n ** 63n" in (PACKAGE / "run.js").read_text()
    assert SELECTION == 2**63
