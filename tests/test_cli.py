"""The command line from outside: what it says, what it writes, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from PIL import Image
from tiny_model import images, save_images, save_model

from intrs import metrics, results, verification, zoo
from intrs.cli.arguments import GROUPS, asked, parse
from intrs.cli.words import _saved
from intrs.errors import IntrsError
from intrs.progress import Progress, duration, reporting
from intrs.request import REQUESTS, Attack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Intrs = Callable[..., tuple[int, str, str]]

COMMAND = [sys.executable, "-m", "intrs.cli"]
# A process that a shell started in the background ignores SIGINT, and so would its children.
INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from intrs.cli.start import program
sys.exit(program())
"""
QUICK = ("--n", "300", "--seed", "7")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own with the tiny model and its images."""
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")
    return tmp_path


def without_time(path: Path) -> list[list[str]]:
    column = results.COLUMNS.index("time")
    cells = [line.split("\t") for line in path.read_text().splitlines()]
    return [[cell for i, cell in enumerate(line) if i != column] for line in cells]


# --- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", REQUESTS)
def test_options_left_out_have_the_defaults_of_a_request(command: str) -> None:
    kind = REQUESTS[command]
    assert asked(parse([command, "m", "d"]), kind) == kind(model="m", data="d")
    without = asked(parse([command, "--skip", "2"]), kind)
    assert without == kind(model=zoo.DEFAULT_MODEL, data=zoo.DEFAULT_DATA, skip=2)


def test_attack_options_left_out_have_the_defaults_of_a_request() -> None:
    assert asked(parse(["attack", "m", "d", "out"]), Attack) == Attack(model="m", data="d")


# --- certify, predict ------------------------------------------------------------------------------------------------


def test_certify(intrs: Intrs, here: Path) -> None:
    code, out, err = intrs("certify", "tiny.onnx", "tiny.npz", *QUICK)
    assert (code, err) == (0, "")
    run, rows = results.read(here / "certify-tiny-tiny-sigma0.25.tsv")
    assert [row.idx for row in rows] == [3 + 20 * i for i in range(8)]
    request = run.request
    assert (request.sigma, request.n, run.n0, run.seed, request.alpha) == ("1/4", 300, 100, 7, "1/1000")
    assert all(sum(row.counts) == 300 and sum(row.counts0) == 100 for row in rows)
    certified = [row for row in rows if row.predict is not None]
    assert 0 < len(certified) < 8, "the tiny images should make for both answers and abstentions"
    for words in (
        "certify-tiny-tiny-sigma0.25.tsv", run.identity[:16], "8 images", "at most 0.500", "(all 300 votes)",
        "fewest that certify anything", "alpha 0.001", "is reserved for the sampling table",
        "samples/s", "of all images", "CP, the certified percentage: ", "abstentions: ", "sound (proved for every",
        "input pixel / 255; no mean and std outside the file", "check 8 images: ",
    ):  # fmt: skip
        assert words in " ".join(out.split()), words


def test_the_closing_table(intrs: Intrs, here: Path) -> None:
    _, out, _ = intrs("certify", "tiny.onnx", "tiny.npz", "--out", "r.tsv", *QUICK)
    log = metrics.read(here / "r.tsv")
    hits = [log.certified_accuracy(radius).part for radius in log.radii()]
    table = re.findall(r"^ +(\d\.\d\d) +(\d+) +([\d.]+) % +([\d.]+) %", out, re.MULTILINE)
    assert [(float(r), int(part)) for r, part, _, _ in table] == [(k / 4, h) for k, h in enumerate(hits)]
    assert float(table[0][2]) == round(100 * hits[0] / 8, 1)
    assert float(table[0][3]) == round(100 * hits[0] / log.answered().part, 1)
    assert max(map(len, out.split("\n\n", 1)[1].splitlines())) <= 80  # what follows the list of settings


def test_predict(intrs: Intrs, here: Path) -> None:
    code, out, _ = intrs("predict", "tiny.onnx", "tiny.npz", "--seed", "7", "--out", "p.tsv")
    assert code == 0
    run, rows = results.read(here / "p.tsv")
    assert (run.command, run.request.n, run.n0) == ("predict", 1000, 0)
    assert {row.radius for row in rows} == {"0.0"}
    assert any(row.correct for row in rows)
    assert "decide if all others are for one class" in out
    assert "\nanswered: " in out
    assert intrs("verify", "p.tsv")[0] == 0


def test_skip_and_max(intrs: Intrs, here: Path) -> None:
    intrs("certify", "tiny.onnx", "tiny.npz", "--skip", "3", "--max", "2", "--out", "a.tsv", *QUICK)
    assert [row.idx for row in results.read(here / "a.tsv")[1]] == [3, 63]
    intrs("certify", "tiny.onnx", "tiny.npz", "--skip", "3", "--out", "b.tsv", *QUICK)
    assert [row.idx for row in results.read(here / "b.tsv")[1]] == [3, 63, 123]


def test_parts_of_a_run_make_the_whole(intrs: Intrs, here: Path) -> None:
    """Two machines may share the images of a run: their votes are those of one machine."""
    intrs("certify", "tiny.onnx", "tiny.npz", "--out", "whole.tsv", *QUICK)
    _, out, _ = intrs("certify", "tiny.onnx", "tiny.npz", "--out", "b.tsv", "--first", "5", *QUICK)
    assert "from image 5 on, 3 images" in out
    intrs("certify", "tiny.onnx", "tiny.npz", "--out", "a.tsv", "--max", "5", *QUICK)
    parts = without_time(here / "a.tsv") + without_time(here / "b.tsv")[1:]
    assert parts == without_time(here / "whole.tsv")
    assert intrs("verify", "b.tsv")[0] == 0
    assert metrics.join([metrics.read(here / f"{part}.tsv") for part in "ab"]).complete
    assert intrs("report", "a.tsv", "b.tsv", "--join", "-o", "joined.html")[0] == 0
    code, _, err = intrs("certify", "tiny.onnx", "tiny.npz", "--first", "8", *QUICK)
    assert code == 2
    assert "has 8 images, counted from 0; first = 8 is beyond them" in err


def test_a_name_that_no_file_can_have(intrs: Intrs) -> None:
    for argv in (["info", "a" * 300], ["report", "none.tsv", "-o", "a" * 300 + ".html"]):
        code, _, err = intrs(*argv)
        assert code == 2
        assert "File name too long" in err


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("radius_sq", "99999999", "but radius_sq says 39."),
        ("correct", "0", "correct is 0, but predict is 0 and label is 0"),
        ("votes", "301", "votes is 301, but class 0, which was selected"),
        ("counts", "1,2,3", "counts add up to 6, not to 300"),
        ("predict", "-1", "an abstention has neither class nor radius"),
        ("n", "5", "but the run took 100 and 300"),
    ],
)
def test_lines_that_contradict_themselves(intrs: Intrs, here: Path, column: str, value: str, words: str) -> None:
    intrs("certify", "tiny.onnx", "tiny.npz", "--max", "2", "--out", "r.tsv", *QUICK)
    head, first, *rest = (here / "r.tsv").read_text().splitlines()
    cells = dict(zip(head.split("\t"), first.split("\t"), strict=True))
    (here / "r.tsv").write_text("\n".join([head, "\t".join((cells | {column: value}).values()), *rest, ""]))
    for argv in (["report", "r.tsv"], ["certify", "tiny.onnx", "tiny.npz", "--out", "r.tsv", "--resume", *QUICK]):
        code, _, err = intrs(*argv)
        assert code == 2
        assert words in err
    assert intrs("verify", "r.tsv")[0] > 0


def test_no_command_writes_over_what_it_reads(intrs: Intrs, here: Path) -> None:
    intrs("certify", "tiny.onnx", "tiny.npz", "--max", "1", "--out", "r.tsv", *QUICK)
    for argv in (["report", "r.tsv", "-o", "r.tsv"], ["report", "r.tsv", "-o", "r.tsv.json"],
                 ["export", "tiny.onnx", "-o", "tiny.onnx"]):  # fmt: skip
        before = (here / argv[-1]).read_bytes()
        code, _, err = intrs(*argv, "--overwrite")
        assert code == 2
        assert "is what is to be read" in err
        assert (here / argv[-1]).read_bytes() == before


def test_remarks_on_sigma(intrs: Intrs) -> None:
    _, out, _ = intrs("certify", "tiny.onnx", "tiny.npz", "--max", "1", "--sigma", "0.5", *QUICK)
    assert "the model was trained for sigma 0.25" in out
    _, out, _ = intrs("certify", "tiny.onnx", "tiny.npz", "--max", "1", "--sigma", "1/4", *QUICK)
    assert "was trained for" not in out
    code, _, err = intrs("certify", "tiny.onnx", "tiny.npz", "--sigma", "", *QUICK)
    assert (code, "sigma: expected" in err) == (2, True)


def test_classes_in_another_order(intrs: Intrs, here: Path) -> None:
    names = zoo.card()["classes"]
    pixels, labels = np.zeros((2, 32, 32, 3), np.uint8), np.array([0, 1])
    np.savez(here / "odd.npz", images=pixels, labels=labels, classes=np.array(names[::-1]))
    code, out, _ = intrs("predict", zoo.DEFAULT_MODEL, "odd.npz", "--n", "20", "-o", "r.tsv")
    assert (code, "matched by name" in out) == (0, True)
    assert [row.label for row in results.read(here / "r.tsv")[1]] == [9, 8]
    assert intrs("verify", "r.tsv")[0] == 0


def test_options_are_not_abbreviated(intrs: Intrs) -> None:
    code, _, err = intrs("certify", "tiny.onnx", "tiny.npz", "--over", *QUICK)
    assert (code, "unrecognized arguments: --over; did you mean --overwrite?\n  see `intrs certify --help`" in err) == (
        2,
        True,
    )


def test_names_of_layers_are_no_markup(intrs: Intrs, here: Path) -> None:
    model = onnx.load(here / "tiny.onnx")
    next(node for node in model.graph.node if node.op_type == "Conv").name = "[/x]a[red]b"
    onnx.save(model, here / "odd.onnx")
    code, out, _ = intrs("info", "odd.onnx")
    assert code == 0
    assert "[/x]a[red]b" in out


def test_same_seed_same_file(intrs: Intrs, here: Path) -> None:
    for name, *options in (("a", "--threads", "1"), ("b", "--threads", "2"), ("c",)):
        intrs("certify", "tiny.onnx", "tiny.npz", "--out", f"{name}.tsv", *options, *QUICK)
    assert without_time(here / "a.tsv") == without_time(here / "b.tsv") == without_time(here / "c.tsv")
    intrs("certify", "tiny.onnx", "tiny.npz", "--out", "d.tsv", "--n", "300", "--seed", "0x8")
    assert without_time(here / "d.tsv") != without_time(here / "a.tsv")


def test_a_seed_is_drawn_and_recorded(intrs: Intrs, here: Path) -> None:
    for name in ("a", "b"):
        intrs("certify", "tiny.onnx", "tiny.npz", "--out", f"{name}.tsv", "--n", "300", "--max", "1")
    seeds = {results.read_run(here / f"{name}.tsv").seed for name in ("a", "b")}
    assert len(seeds) == 2
    assert min(seeds) > 2**200, "256 bits, from the operating system"
    assert intrs("verify", "a.tsv")[0] == 0


@pytest.mark.parametrize(
    "options", [("--form", "two"), ("--bound", "paper"), ("--noise", "rounded"), ("--sigma", "1/5")]
)
def test_other_settings_verify(intrs: Intrs, here: Path, options: tuple[str, ...]) -> None:
    assert intrs("certify", "tiny.onnx", "tiny.npz", "--out", "r.tsv", "--max", "3", *options, *QUICK)[0] == 0
    assert results.read_run(here / "r.tsv").to_json()[options[0][2:]] == options[1]
    assert intrs("verify", "r.tsv")[0] == 0


def test_folders_of_images(intrs: Intrs, here: Path) -> None:
    pixels, labels = images()
    for i, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        (here / "data" / "abc"[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(here / "data" / "abc"[label] / f"{i}.png")
    assert intrs("certify", "tiny.onnx", "data", *QUICK)[0] == 0
    assert len(results.read(here / "certify-tiny-data-sigma0.25.tsv")[1]) == 8


@pytest.fixture
def small_zoo(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model and 12 images in place of what ships, which takes minutes without fast kernels."""
    save_images(here / "tiny.npz", 12)
    (here / "tiny.json").write_text('{"classes": ["a", "b", "c"]}')
    for kind in ("model", "data"):
        monkeypatch.setattr(zoo, f"DEFAULT_{kind.upper()}", "tiny")
        monkeypatch.setattr(zoo, f"{kind}_names", lambda: ("tiny",))
        suffix = {"model": "onnx", "data": "npz"}[kind]
        monkeypatch.setattr(zoo, f"{kind}_path", lambda _=None, suffix=suffix: here / f"tiny.{suffix}")


@pytest.mark.usefixtures("small_zoo")
def test_no_arguments_at_all(intrs: Intrs, here: Path) -> None:
    code, out, _ = intrs("certify")
    path = here / "certify-tiny-tiny-sigma0.25-short.tsv"
    run, rows = results.read(path)
    assert code == 0
    assert (len(rows), run.request.n) == (10, 10_000)
    assert "  intrs certify tiny tiny\n" in out
    assert f"Next: `intrs report {path.name}`" in out
    assert "12 images with 100,000 samples" in out
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]))
    assert intrs("certify")[0] == 0
    path.write_bytes(whole[:-1])
    assert intrs("certify")[0] == 0, "the same command completes it"
    assert len(results.read(path)[1]) == 10
    before = path.read_bytes()
    assert intrs("certify")[0] == 0
    assert path.read_bytes() == before
    save_model(here / "tiny.onnx", seed=2)
    code, _, err = intrs("certify")
    assert code == 2
    assert "identity: " in err
    assert path.read_bytes() == before


# --- for scripts -----------------------------------------------------------------------------------------------------


def test_quiet_and_json(intrs: Intrs, here: Path) -> None:
    argv = ("certify", "tiny.onnx", "tiny.npz", "--seed", "1", "--n", "300", "--out", "r.tsv")
    assert intrs(*argv, "--quiet") == (0, "", "")
    code, out, err = intrs(*argv, "--json")  # the same command continues, and nothing is left to do
    said, rows = json.loads(out), results.read(here / "r.tsv")[1]
    assert (code, err) == (0, "")
    assert (said["images"], said["answered"] + said["abstained"], said["seed"]) == (len(rows), len(rows), "0x1")
    assert [each["votes"] for each in said["answers"]] == [row.votes for row in rows]
    assert [each["radius_sq"] for each in said["answers"]] == [row.radius_sq for row in rows]
    assert said["correct"]["0"] == sum(row.correct for row in rows)
    assert json.loads(intrs("verify", "r.tsv", "--json")[1])["verified"] is True
    assert json.loads(intrs("info", "tiny.onnx", "--json")[1])["identity"] == said["identity"]
    assert "certified" not in json.loads(intrs("predict", "tiny.onnx", "tiny.npz", "--n", "50", "--json")[1])
    assert intrs("report", "r.tsv", "--json")[0] == 2


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(intrs: Intrs, shell: str) -> None:
    code, out, _ = intrs("--completion", shell)
    assert code == 0
    assert "reproduce" in out
    assert "--adaptive" in out


# --- killed, interrupted, resumed ------------------------------------------------------------------------------------


def long_run(here: Path, count: int = 60, n: str = "20000") -> list[str]:
    save_images(here / "many.npz", count)
    return ["certify", "tiny.onnx", "many.npz", "--n", n, "--seed", "0xabc", "--threads", "1"]


def wait_for_lines(path: Path, lines: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.005)
    raise AssertionError(f"no {lines} lines: {process.communicate()}")


@pytest.fixture
def started(here: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []

    def start(*argv: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen([sys.executable, "-c", INTERRUPTIBLE, *argv], **pipes))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_kill_and_resume(here: Path, intrs: Intrs, started: Callable[..., subprocess.Popen[str]]) -> None:
    argv = long_run(here)
    assert intrs(*argv, "--out", "whole.tsv")[0] == 0
    killed = started(*argv, "--out", "killed.tsv")
    path = here / "killed.tsv"
    wait_for_lines(path, 5, killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert 5 <= len(path.read_text().splitlines()) < 61, "it should have been killed in the middle"
    with path.open("a") as file:
        file.write("1203\t0\t0\t0.12")  # as if killed while writing a line
    code, out, _ = intrs(*argv, "--out", "killed.tsv", "--resume")
    assert code == 0
    assert "of them done before" in out
    assert without_time(path) == without_time(here / "whole.tsv")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(here: Path, started: Callable[..., subprocess.Popen[str]], sent: int) -> None:
    """The command ends by the signal itself, so that a shell ends the loop that it stands in, too."""
    process = started(*long_run(here, 5000), "--out", "stopped.tsv")
    wait_for_lines(here / "stopped.tsv", 3, process)
    begin = time.monotonic()
    process.send_signal(sent)
    _, err = process.communicate(timeout=10)
    assert time.monotonic() - begin < 3  # a second, on a machine that does nothing else
    assert process.returncode == -sent
    assert "of 5000 images; continue with\n  intrs certify tiny.onnx many.npz" in err
    assert err.rstrip().endswith("--out stopped.tsv")
    assert "Traceback" not in err
    assert (here / "stopped.tsv").read_bytes().endswith(b"\n")


def test_what_a_script_runs_in_the_background_does_not_hear_ctrl_c(
    here: Path, started: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "INTERRUPTIBLE", INTERRUPTIBLE.replace("default_int_handler", "SIG_IGN"))
    process = started(*long_run(here, 5000), "--out", "stopped.tsv")
    wait_for_lines(here / "stopped.tsv", 3, process)
    process.send_signal(signal.SIGINT)
    wait_for_lines(here / "stopped.tsv", 20, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == -signal.SIGTERM


def test_a_second_sigterm_ends_the_command_at_once() -> None:
    """Whatever holds up the first one."""
    held_up = """
import os, signal
from intrs.cli import start
signal.signal(signal.SIGTERM, start._terminate)
for _ in range(2):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        print("heard", flush=True)
print("still alive")
"""
    ended = subprocess.run([sys.executable, "-c", held_up], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "heard\n")


def test_help_without_arguments(intrs: Intrs) -> None:
    code, out, _ = intrs()
    assert code == 0
    assert out.startswith("usage: intrs COMMAND ...\n")
    assert all(f"\n  {command} " in out for command in ("certify", "merge", "quantize", "reproduce"))
    assert max(map(len, out.splitlines())) <= 100


def test_the_help_lists_every_command() -> None:
    with pytest.raises(IntrsError, match="invalid choice") as error:
        parse(["x"])
    listed = {name for names in GROUPS.values() for name in names}
    assert set(re.findall(r"'([a-z]+)'", str(error.value))) - {"x"} <= listed


@pytest.mark.parametrize(
    ("argv", "meant"),
    [(["certfy"], "certify"), (["certify", "--sgima", "1"], "--sigma"), (["certify", "--sgima=1"], "--sigma"),
     (["certify", "--noise", "discret"], "discrete")],
)  # fmt: skip
def test_what_may_have_been_meant(intrs: Intrs, argv: list[str], meant: str) -> None:
    code, _, err = intrs(*argv)
    assert code == 2
    assert f"; did you mean {meant}?" in err


def test_two_processes_do_not_share_a_file(
    here: Path, intrs: Intrs, started: Callable[..., subprocess.Popen[str]]
) -> None:
    argv = [*long_run(here, 5000), "--out", "r.tsv"]
    wait_for_lines(here / "r.tsv", 2, started(*argv))
    code, _, err = intrs(*argv, "--resume")
    assert code == 2
    assert "another process is writing r.tsv" in err


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("--sigma", "0.5"), "sigma: 1/4 in the file, 1/2 now"),
        (("--seed", "8"), "seed: 0x7 in the file, 0x8 now"),
        (("--n", "301"), "n: 300 in the file, 301 now"),
        (("--n0", "50"), "n0: 100 in the file, 50 now"),
        (("--alpha", "0.01"), "alpha: 1/1000 in the file, 1/100 now"),
        (("--noise", "rounded"), "noise: discrete in the file, rounded now"),
        (("--bound", "paper"), "bound: sound in the file, paper now"),
        (("--form", "two"), "form: one in the file, two now"),
        (("--skip", "2"), "skip: 1 in the file, 2 now"),
        (("--first", "2"), "first: 0 in the file, 2 now"),
        (("other.onnx",), "identity: "),
        (("other.npz",), "data_sha256: "),
    ],
)
def test_resume_with_something_else(here: Path, intrs: Intrs, change: tuple[str, ...], field: str) -> None:
    argv = {"model": "tiny.onnx", "data": "tiny.npz"}
    options = ["--n", "300", "--seed", "7", "--out", "r.tsv"]
    intrs("certify", *argv.values(), *options, "--max", "2")
    before = (here / "r.tsv").read_bytes()
    save_model(here / "other.onnx", seed=2)
    save_images(here / "other.npz", indices=np.arange(8))
    if len(change) == 1:
        argv["model" if change[0].endswith("onnx") else "data"] = change[0]
        change = ()
    code, _, err = intrs("certify", *argv.values(), *options, *change, "--resume")
    assert code == 2
    assert field in err
    assert err.count(" in the file, ") == 1, "only the field that differs"
    assert (here / "r.tsv").read_bytes() == before


def test_max_may_grow(here: Path, intrs: Intrs) -> None:
    intrs("certify", "tiny.onnx", "tiny.npz", "--max", "2", "--out", "r.tsv", *QUICK)
    assert intrs("certify", "tiny.onnx", "tiny.npz", "--out", "r.tsv", "--resume", "--n", "300")[0] == 0
    run, rows = results.read(here / "r.tsv")
    assert (run.images, len(rows)) == (8, 8)
    assert intrs("verify", "r.tsv")[0] == 0


# --- mistakes --------------------------------------------------------------------------------------------------------


def damaged_models(here: Path) -> None:
    good = (here / "tiny.onnx").read_bytes()
    (here / "empty.onnx").write_bytes(b"")
    (here / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (here / "text.onnx").write_text("this is not a model\n" * 20)
    save_model(here / "float.onnx", quantized=False)
    model = onnx.load(here / "tiny.onnx")
    next(node for node in model.graph.node if node.op_type == "Flatten").op_type = "Erf"
    (here / "erf.onnx").write_bytes(model.SerializeToString())


def odd_data(here: Path) -> None:
    pixels, labels = images()
    save_images(here / "large.npz", images=np.zeros((8, 5, 5, 3), np.uint8))
    save_images(here / "first.npz", images=np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
    save_images(here / "labels.npz", labels=labels + 1)
    save_images(here / "names.npz", classes=np.array(["a", "b", "c", "d"]))
    save_images(here / "object.npz", labels=labels.astype(object))
    save_images(here / "floats.npz", images=pixels / 255)
    for i, side in enumerate((4, 5)):
        (here / "mixed" / "class").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side, side)).save(here / "mixed" / "class" / f"{i}.png")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("missing.onnx tiny.npz", "missing.onnx: no such file"),
        ("empty.onnx tiny.npz", "empty.onnx: it is empty"),
        ("truncated.onnx tiny.npz", "truncated.onnx: "),
        ("text.onnx tiny.npz", "text.onnx: "),
        ("float.onnx tiny.npz", "float.onnx: it is a float model"),
        ("erf.onnx tiny.npz", "Erf"),
        (". tiny.npz", "it is a folder"),
        ("tiny.onnx missing.npz", "missing.npz: no such file"),
        ("tiny.onnx large.npz", "images of 5 x 5 x 3 (height x width x channels), but the model takes 4 x 4 x 3"),
        ("tiny.onnx first.npz", "are the channels first?"),
        ("tiny.onnx labels.npz", "labels up to 3, but the model has 3 classes"),
        ("tiny.onnx names.npz", "4 classes, but the model has 3"),
        ("tiny.onnx names.npz", "\n  --names N,N,... (or a file) names the model's classes\n"),
        ("tiny.onnx object.npz", "never unpickled"),
        ("tiny.onnx floats.npz", "float64"),
        ("tiny.onnx mixed", "mixed/class/1.png has 5 x 5 pixels"),
        ("tiny.onnx tiny.npz --split train", "no split 'train'"),
        ("tiny.onnx tiny.npz --sigma 0", "sigma must lie between"),
        ("tiny.onnx tiny.npz --sigma=-1", "sigma must lie between"),
        ("tiny.onnx tiny.npz --sigma nan", "sigma: expected a number"),
        ("tiny.onnx tiny.npz --sigma inf", "sigma: expected a number"),
        ("tiny.onnx tiny.npz --sigma 1e300", "more digits than can be handled exactly"),
        ("tiny.onnx tiny.npz --sigma 1e-999999999", "sigma: expected a number"),
        ("tiny.onnx tiny.npz --sigma 1/0", "sigma: expected a number"),
        ("tiny.onnx tiny.npz --alpha 0", "alpha must lie between 0 and 1"),
        ("tiny.onnx tiny.npz --alpha 1", "alpha must lie between 0 and 1"),
        ("tiny.onnx tiny.npz --alpha=-0.5", "alpha must lie between 0 and 1"),
        ("tiny.onnx tiny.npz --alpha nan", "alpha: expected a number"),
        ("tiny.onnx tiny.npz --alpha 0.9999", "must be at most 0.999"),
        ("tiny.onnx tiny.npz --mean 1e-99_999_999", "mean: expected a number"),
        ("tiny.onnx tiny.npz --n 9", "every image would be an abstention; take n = 10 or more"),
        ("tiny.onnx tiny.npz --n 0", "argument --n: expected a positive integer"),
        ("tiny.onnx tiny.npz --n -5", "--n"),
        ("tiny.onnx tiny.npz --n 1e-5", "argument --n: expected a positive integer"),
        ("tiny.onnx tiny.npz --n 99999999999", "argument --n: at most 100,000,000 is possible"),
        ("tiny.onnx tiny.npz --n 1e30", "argument --n: at most 100,000,000 is possible"),
        ("tiny.onnx tiny.npz --n0 0", "argument --n0"),
        ("tiny.onnx tiny.npz --skip 0", "argument --skip"),
        ("tiny.onnx tiny.npz --max 0", "argument --max"),
        ("tiny.onnx tiny.npz --threads -1", "argument --threads"),
        ("tiny.onnx tiny.npz --threads 99999", "argument --threads: at most 1,024"),
        ("tiny.onnx tiny.npz --seed -1", "--seed"),
        ("tiny.onnx tiny.npz --seed 0xg", "argument --seed: the seed must be an integer from 0 to 2**256 - 1"),
        ("tiny.onnx tiny.npz --seed " + "9" * 78, "argument --seed"),
        ("tiny.onnx tiny.npz --seed " + "9" * 7800, "argument --seed"),
        ("tiny.onnx tiny.npz --noise uniform", "argument --noise: invalid choice"),
        ("tiny.onnx tiny.npz --bound paper --form two", "paper's bound"),
        ("tiny.onnx tiny.npz --kernels abacus", "no kernel set 'abacus'"),
        ("tiny.onnx tiny.npz --mean x", "mean: expected a number"),
        ("tiny.onnx tiny.npz --mean 1,2", "mean has 2 numbers"),
        ("tiny.onnx tiny.npz --std 0", "std must be positive"),
        ("tiny.onnx tiny.npz --resume --overwrite", "not allowed with"),
        ("tiny.onnx tiny.npz surplus", "tiny.npz: no image file; where several files are named"),
        ("tiny.onnx tiny.npz --out . --overwrite", "not a regular file"),
        ("tiny.onnx tiny.npz --out=", "argument -o/--out: expected the name of a file or folder, got ''"),
        ("tiny.onnx tiny.npz --out nowhere/r.tsv", "cannot write nowhere/r.tsv: No such file or directory"),
        ("tiny.onnx tiny.npz --out tiny.onnx/r.tsv", "Not a directory"),
        (
            "tiny.onnx tiny.npz --out old.tsv",
            "old.tsv.json, which says how it was made, is missing",
        ),
        ("tiny.onnx tiny.npz --out precious.txt --overwrite", "not a results file"),
        ("tiny.onnx tiny.npz --out precious.txt --resume", "not a results file"),
        ("tiny.onnx tiny.npz --give-up .5", "give_up is for adaptive runs"),
        ("tiny.onnx tiny.npz --adaptive --radii .25 --precision 1%", "ask for one of the two"),
        ("tiny.onnx tiny.npz --adaptive --radii .25,,.5", "argument --radii: expected numbers with commas"),
        ("tiny.onnx tiny.npz --adaptive --radii .25,x", "radii: expected a number"),
        ("tiny.onnx tiny.npz --adaptive --radii=-1", "a radius must lie between 0 and 100, got -1"),
        ("tiny.onnx tiny.npz --adaptive --radii 5", "certify nothing that was asked for"),
        ("tiny.onnx tiny.npz --adaptive --n 10", "certify nothing that was asked for"),
        ("tiny.onnx tiny.npz --adaptive --n 9", "every image would be an abstention"),
        ("tiny.onnx tiny.npz --adaptive --precision 0%", "precision must lie between 0 and 1"),
        ("tiny.onnx tiny.npz --adaptive --precision 1% --give-up .1", "give_up is for radii"),
        ("tiny.onnx tiny.npz --adaptive --give-up 1", "probability of giving up"),
        ("tiny.onnx tiny.npz --adaptive --give-up .1 --form two", "one-class form only"),
        ("tiny.onnx tiny.npz --by-number --names a,b", "2 names for 3 classes"),
        ("tiny.onnx tiny.npz --names nowhere.txt", "nowhere.txt: no such file; give names with commas"),
        ("tiny.npz tiny.onnx", "perhaps images, which intrs does not read as a model: the model comes first"),
        ("tiny.onnx tiny.npz --twice 1%", "twice compares the nodes of a cluster"),
        ("silent.onnx tiny.npz", "does not say for which noise it was trained; give sigma"),
        ("cheating.onnx tiny.npz", "sigma must lie between"),
    ],
)
def test_mistakes(intrs: Intrs, here: Path, argv: str, words: str) -> None:
    damaged_models(here)
    odd_data(here)
    save_model(here / "silent.onnx", sigma=None)
    save_model(here / "cheating.onnx", sigma="1000")
    (here / "old.tsv").write_text(results.HEADER)
    (here / "precious.txt").write_text("precious")
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    options = [] if "--out" in argv else ["--out", "never.tsv"]
    code, _, err = intrs("certify", *argv.split(), *options)
    assert code == 2, err
    assert err.startswith("intrs: ")
    assert words in err
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before, "nothing is written"


def test_a_prediction_that_can_only_abstain(intrs: Intrs) -> None:
    code, _, err = intrs("predict", "tiny.onnx", "tiny.npz", "--n", "5", "--out", "p.tsv")
    assert code == 2
    assert "take n = 11 or more" in err  # 2 * 2^-11 <= 0.001 < 2 * 2^-10


@pytest.mark.parametrize("argv", [["fly"], ["verify"], ["table"], ["export", "m.onnx"], ["info", "a", "b"]])
def test_wrong_usage(intrs: Intrs, argv: list[str]) -> None:
    code, out, err = intrs(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("intrs: ")
    assert "--help" in err


def test_help_and_version(intrs: Intrs) -> None:
    from intrs import __version__

    assert intrs("--version") == (0, f"intrs {__version__}\n", "")
    for command in ("certify", "predict", "verify", "info", "export", "table"):
        code, out, _ = intrs(command, "--help")
        assert code == 0
        assert f"usage: intrs {command}" in out
    for command in ("certify", "verify", "train", "quantize", "attack", "reproduce"):
        assert "threads (0: all cores)" in intrs(command, "--help")[1]


def limited(argv: list[str], limit: int) -> subprocess.CompletedProcess[str]:
    """Run with a limit on the size of files, which is what a full disk looks like."""
    script = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
    script += "import sys; from intrs.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", script, *argv], capture_output=True, text=True, check=False)


def test_a_disk_that_fills_up(here: Path, intrs: Intrs) -> None:
    argv = [*long_run(here, 20, "300"), "--out", "r.tsv"]
    full = limited(argv, 1200)
    assert full.returncode == 2
    assert re.search(
        r"^intrs: cannot write r\.tsv: .*lines so far are kept; .*resume the run$", full.stderr, re.MULTILINE
    )
    assert "Traceback" not in full.stderr
    assert 0 < len(results.read(here / "r.tsv")[1]) < 20
    assert intrs(*argv, "--resume")[0] == 0
    assert intrs("verify", "r.tsv")[0] == 0


def test_overwriting_on_a_full_disk_keeps_the_old_results(here: Path, intrs: Intrs) -> None:
    argv = [*long_run(here, 3, "300"), "--out", "r.tsv"]
    assert intrs(*argv)[0] == 0
    before = (here / "r.tsv").read_bytes()
    full = limited([*argv, "--overwrite"], 0)
    assert full.returncode == 2
    assert "intrs: cannot write r.tsv.json: " in full.stderr
    assert (here / "r.tsv").read_bytes() == before
    assert intrs("verify", "r.tsv")[0] == 0


def test_a_disk_that_is_full_from_the_start(here: Path) -> None:
    full = limited([*long_run(here, 20, "300"), "--out", "r.tsv"], 100)
    assert full.returncode == 2
    assert "intrs: cannot write r.tsv.json: " in full.stderr
    assert not list(here.glob("*r.tsv*")), "nothing is left behind"


# --- verify ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def verified(here: Path, intrs: Intrs) -> Path:
    intrs("certify", "tiny.onnx", "tiny.npz", "--out", "r.tsv", *QUICK)
    code, out, _ = intrs("verify", "r.tsv")
    assert code == 0
    assert "8 lines checked, the votes of 8 counted again: all equal" in out
    return here / "r.tsv"


def tamper(path: Path, line: int, column: str, cell: str) -> None:
    lines = [text.split("\t") for text in path.read_text().splitlines()]
    place = lines[0].index(column)
    assert lines[line - 1][place] != cell
    lines[line - 1][place] = cell
    path.write_text("\n".join("\t".join(cells) for cells in lines) + "\n")


drawn_by_chance = verification._drawn


@pytest.fixture(autouse=True)
def first_lines_are_sampled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of lines drawn by chance: what is found otherwise differs in words."""
    monkeypatch.setattr(verification, "_drawn", lambda lines, wanted: set(range(min(wanted or lines, lines))))


@pytest.mark.parametrize("again", [(), ("--images", "1")])
@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("idx", "24"), ("label", "0"), ("predict", "2"), ("predict", "-1"), ("radius", "0.999999"), ("correct", "7"),
        ("n0", "101"), ("n", "301"), ("votes", "299"), ("radius_sq", "64000"), ("radius_sq", "-1"),
        ("counts0", "1,1"), ("counts", "0,0,0"),
    ],
)  # fmt: skip
def test_verify_finds_every_change(
    intrs: Intrs, verified: Path, column: str, cell: str, again: tuple[str, ...]
) -> None:
    """Even where votes are not counted again, the other columns must follow from them."""
    tamper(verified, 3, column, cell)
    code, out, err = intrs("verify", "r.tsv", *again)
    assert (code, out) == (1, "")
    assert re.match(rf"intrs: r\.tsv, line 3 \(image 2[34]\): {column} ", err)


def test_verify_finds_one_vote(intrs: Intrs, verified: Path) -> None:
    row = results.read(verified)[1][5]
    counts = list(row.counts)
    top = counts.index(max(counts))
    counts[top - 1], counts[top] = counts[top - 1] + 1, counts[top] - 1
    tamper(verified, 7, "counts", ",".join(map(str, counts)))
    code, _, err = intrs("verify", "r.tsv")
    assert code == 1
    assert "line 7 (image 103)" in err
    tamper(verified, 7, "votes", str(counts[top]))
    assert intrs("verify", "r.tsv")[0] == 1


@pytest.mark.parametrize(
    ("field", "value"), [("seed", "0x8"), ("sigma", "1/5"), ("noise", "rounded"), ("alpha", "1/100"), ("n", 299)]
)
def test_verify_finds_another_description(intrs: Intrs, verified: Path, field: str, value: Any) -> None:
    sidecar = results.sidecar_path(verified)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {field: value}))
    assert intrs("verify", "r.tsv")[0] == 1


def test_verify_finds_surplus_lines(intrs: Intrs, verified: Path) -> None:
    lines = verified.read_text().splitlines(keepends=True)
    verified.write_text("".join([*lines, lines[-1]]))
    assert intrs("verify", "r.tsv")[0] == 1


def test_verify_without_the_model(intrs: Intrs, here: Path, verified: Path) -> None:
    (here / "tiny.onnx").rename(here / "moved.onnx")
    code, _, err = intrs("verify", "r.tsv")
    assert code == 2
    assert "the model tiny.onnx, which is not here" in err
    assert "--model" in err
    assert intrs("verify", "r.tsv", "--model", "moved.onnx")[0] == 0
    save_model(here / "tiny.onnx", seed=2)
    code, _, err = intrs("verify", "r.tsv")
    assert code == 2
    assert "identity" in err
    assert "--model" in err


def test_verify_without_the_data(intrs: Intrs, here: Path, verified: Path) -> None:
    save_images(here / "tiny.npz", indices=np.arange(8))
    code, _, err = intrs("verify", "r.tsv")
    assert code == 2
    assert "sha256" in err
    assert "--data" in err
    save_images(here / "moved.npz")
    assert intrs("verify", "r.tsv", "--data", "moved.npz", "--images", "3")[0] == 0


def test_verify_of_an_unfinished_run(intrs: Intrs, verified: Path) -> None:
    verified.write_text("".join(verified.read_text().splitlines(keepends=True)[:4]) + "half a li")
    code, out, _ = intrs("verify", "r.tsv")
    assert code == 0
    assert "3 lines checked" in out
    assert "unfinished: 8 images were planned" in out


def test_verify_compares_lines_and_not_numbers(intrs: Intrs, verified: Path) -> None:
    cells = verified.read_text().splitlines()[2].split("\t")
    tamper(verified, 3, "label", "0" + cells[results.COLUMNS.index("label")])
    code, out, err = intrs("verify", "r.tsv")
    assert (code, out) == (2, "")
    assert "line 3: malformed (label is '0" in err


def test_names_of_strangers_do_not_steer_the_terminal(intrs: Intrs, verified: Path) -> None:
    sidecar = results.sidecar_path(verified)
    for field in ("model", "data", "sigma"):
        sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {field: "\x1b]0;mine\x07\u202e"}))
        code, out, err = intrs("verify", "r.tsv")
        assert code == 2
        assert "\\x1b]0;mine\\x07\\u202e" in err
        assert out + err == (out + err).translate({0x1B: None, 0x07: None, 0x202E: None})


def test_data_with_an_unusual_name(intrs: Intrs, here: Path) -> None:
    (here / "tiny.npz").rename(here / "a\u00a0b.npz")
    argv = ("certify", "tiny.onnx", "a\u00a0b.npz", "--out", "r.tsv", *QUICK)
    assert intrs(*argv)[0] == 0
    assert intrs(*argv, "--resume")[0] == 0
    assert intrs("verify", "r.tsv")[0] == 0


def test_verify_of_a_part_says_what_to_do(intrs: Intrs, here: Path) -> None:
    argv = ("certify", "tiny.onnx", "tiny.npz", "--shard", "1/2:samples", "-o", "p.tsv", *QUICK)
    assert intrs(*argv)[0] == 0
    code, _, err = intrs("verify", "p.tsv")
    assert code == 2
    assert "`intrs merge` makes lines of all parts" in err


def test_verify_of_nothing(intrs: Intrs, here: Path, verified: Path) -> None:
    verified.write_text(results.HEADER)
    code, out, err = intrs("verify", "r.tsv")
    assert (code, out) == (2, "")
    assert "r.tsv: it has 0 lines of results, so there is nothing to verify" in err
    code, _, err = intrs("verify", "nothing.tsv")
    assert code == 2
    assert "cannot read nothing.tsv" in err
    results.sidecar_path(verified).unlink()
    assert intrs("verify", "r.tsv")[0] == 2


# --- info, export, table ---------------------------------------------------------------------------------------------


def test_info(intrs: Intrs, here: Path) -> None:
    from intrs.model import load

    code, out, _ = intrs("info", "tiny.onnx")
    network = load(here / "tiny.onnx")
    low, high = network.native.layers()[0][3:]
    assert code == 0
    for words in (
        network.identity, "4 x 4 x 3", "3 classes", "144 multiply-adds", "1x1x3", f"{low:,}", f"{high:,}",
        "Conv", "conv", "scalar", "bytes of activations",
    ):  # fmt: skip
        assert words in out, words
    assert max(map(len, out.splitlines())) <= 80


def test_info_has_no_use_for_a_sigma_without_images(intrs: Intrs, here: Path) -> None:
    assert intrs("info", "tiny.onnx", "--sigma", "x") == (
        2, "", "intrs: --sigma is the noise of --data's images; add --data\n"
    )  # fmt: skip
    assert intrs("info", "tiny.onnx", "--data", "tiny.npz", "--sigma", ".5")[0] == 0


def test_info_of_what_ships(intrs: Intrs) -> None:
    code, out, _ = intrs("info")
    assert code == 0
    assert zoo.DEFAULT_MODEL in out
    assert "32 x 32 x 3" in out
    assert "10 classes" in out
    assert max(map(len, out.splitlines())) <= 80


def test_export(intrs: Intrs, here: Path) -> None:
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed: pip install 'intrs[tosa]'")
    from intrs.exchange.tosa import to_tosa
    from intrs.model import load

    assert intrs("export", "tiny.onnx", "-o", "tiny.tosa")[0] == 0
    assert (here / "tiny.tosa").read_bytes() == to_tosa(load(here / "tiny.onnx"))
    save_model(here / "silent.onnx", sigma=None)
    out = intrs("export", "silent.onnx", "-o", "tiny.tflite")[1]
    assert "To certify the file: intrs certify tiny.tflite DATA --sigma S\n" in out
    code, _, err = intrs("export", "tiny.onnx", "-o", "tiny.tosa")
    assert code == 2
    assert "tiny.tosa exists" in err
    assert intrs("export", "tiny.onnx", "-o", "tiny.tosa", "--overwrite")[0] == 0
    assert intrs("export", "tiny.onnx", "-o", "nowhere/tiny.tosa")[0] == 2


def test_export_for_devices_prints_no_names_that_steer_the_terminal(intrs: Intrs, here: Path) -> None:
    import onnx

    model = onnx.load(here / "tiny.onnx")
    next(node for node in model.graph.node if node.op_type == "Conv").name = "*/ #error \x1b]0;mine\x07"
    onnx.save(model, here / "odd.onnx")
    code, out, _ = intrs("export", "odd.onnx", "--target", "c", "--only", "predict", "-o", "dev")
    assert code == 0
    assert "\x1b" not in out
    assert "___error__" in out
    assert "#error" not in (here / "dev/src/net.h").read_text()


def test_table(intrs: Intrs, here: Path) -> None:
    from intrs.certificate import RadiusTable

    argv = ("table", "--sigma", "0.25", "-n", "1000", "--dimension", "48", "-o", "t.bin")
    code, out, _ = intrs(*argv)
    assert code == 0
    table = RadiusTable.read(here / "t.bin")
    assert table.certifier.n == 1000
    assert f"{table.start} to 1,000 votes" in out
    assert intrs(*argv)[0] == 2
    code, _, err = intrs("table", "--sigma", "0.25", "-n", "5", "--dimension", "48", "-o", "u.bin")
    assert code == 2
    assert "take a larger n" in err


# --- pipes -----------------------------------------------------------------------------------------------------------


def test_no_colours_in_a_pipe(here: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")} | {"TERM": "xterm-256color"}
    for argv in (["certify", "tiny.onnx", "tiny.npz", *QUICK], ["info", "tiny.onnx"], ["certify", "--n", "0"]):
        run = subprocess.run([*COMMAND, *argv], capture_output=True, env=env, check=False)
        assert run.stdout + run.stderr
        assert b"\x1b" not in run.stdout + run.stderr


def test_a_reader_who_leaves(here: Path, started: Callable[..., subprocess.Popen[str]]) -> None:
    process = started("info", "tiny.onnx")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110
@pytest.mark.parametrize(
    "argv", [["info", "tiny.onnx"], ["--help"], ["--version"], ["certify", "tiny.onnx", "tiny.npz"]]
)
def test_output_to_a_full_disk(here: Path, argv: list[str]) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        run = subprocess.run([*COMMAND, *argv], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == "intrs: cannot write to the standard output: No space left on device\n"


@pytest.mark.parametrize(("closed", "out"), [(">&-", False), ("2>&-", True), (">&- 2>&-", False)])
def test_closed_streams(here: Path, closed: str, out: bool) -> None:
    """As cron and daemons may start a command: it does its work, and its exit code means what it always means."""
    for argv, code in (("certify tiny.onnx tiny.npz -o r.tsv --n 300 --max 2", 0), ("verify r.tsv", 0),
                       ("verify none.tsv", 2), ("--fly", 2)):  # fmt: skip
        command = f"{shlex.join(COMMAND)} {argv} {closed}"
        run = subprocess.run(command, shell=True, capture_output=True, check=False)
        assert run.returncode == code, run.stderr
        assert bool(run.stdout) == (out and code == 0)
        assert b"Traceback" not in run.stderr
    assert len(results.read(here / "r.tsv")[1]) == 2


def on_a_terminal(*argv: str, columns: int = 80) -> bytes:
    """What the command shows on a terminal of this width."""
    ours, theirs = pty.openpty()
    wide = os.environ | {"TERM": "xterm", "COLUMNS": str(columns)}
    process = subprocess.Popen([*COMMAND, *argv], stdout=theirs, stderr=theirs, env=wide)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # which is how Linux says that the other end was closed
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    assert process.wait(60) == 0
    return seen


def test_no_word_is_broken_on_a_narrow_terminal(here: Path) -> None:
    wide, narrow = (
        re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", on_a_terminal("certify", "tiny.onnx", "tiny.npz", *QUICK, "--overwrite",
                                                               "-o", "r.tsv", columns=columns)).decode()
        for columns in (1000, 50)
    )  # fmt: skip
    shown = [line.split("\r")[-1].rstrip() for line in narrow.replace("\r\n", "\n").split("\n")]
    assert max(map(len, shown)) <= 50
    ours = [line for line in shown if "━" not in line and "samples/s" not in line]  # neither the bar nor a rate
    assert {word for line in ours for word in line.split() if "─" not in word} <= set(wide.split())


def test_a_bar_on_a_terminal(here: Path) -> None:
    seen = on_a_terminal("certify", "tiny.onnx", "tiny.npz", *QUICK)
    assert re.search(rb"image 8 of 8.*samples/s", seen)
    assert b"\x1b[?25h" in seen, "the cursor is shown again"


def test_progress_in_a_pipe(intrs: Intrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intrs.progress.SECONDS_BETWEEN_LINES", 0.0)
    _, _, err = intrs("certify", "tiny.onnx", "tiny.npz", *QUICK)
    assert re.search(r"^image 8 of 8, [\d,]+ samples/s, \d+ s left$", err, re.MULTILINE)


def test_no_rate_before_anything_is_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Setting statistics or scales comes before the first image, and counts neither as work done nor as its time."""
    seconds = iter((0.0, 0.0, 0.0, 90.0, 90.0, 90.0, 100.0, 100.0, 100.0))
    monkeypatch.setattr("intrs.progress.time.monotonic", lambda: next(seconds))
    monkeypatch.setattr("intrs.progress.SECONDS_BETWEEN_LINES", 0.0)
    with reporting(True) as progress:
        assert progress
        progress(Progress(500, 1000, "images", "statistics"))
        progress(Progress(520, 1000, "images", "epoch 2"))
    assert capsys.readouterr().err == "statistics\nepoch 2, 2 images/s, 4 min left\n"


CTRL_C = """
import os, signal, sys

class AtImport:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
from intrs.cli.start import program
sys.meta_path.insert(0, AtImport())
sys.exit(program())
"""


@pytest.mark.parametrize("module", ["intrs.cli.command", "argparse", "intrs.cli.info", "numpy", "intrs.model", "onnx"])
def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(here: Path, module: str) -> None:
    """NumPy takes a KeyboardInterrupt for a broken installation; exit code 1 would mean that a bit differs."""
    command = [sys.executable, "-c", CTRL_C.format(module=module), "info", "tiny.onnx"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode in (-signal.SIGINT, 130)
    assert ended.stderr in ("", "intrs: stopped\n")


def test_durations() -> None:
    assert [duration(s) for s in (0.1, 59, 200, 6000, 90_000, 900_000)] == [
        "1 s", "59 s", "3 min", "2 h", "25 h", "10 days",
    ]  # fmt: skip


# --- adaptive runs ---------------------------------------------------------------------------------------------------


ADAPTIVE = ("certify", "tiny.onnx", "tiny.npz", "--adaptive", "--seed", "7", "--n", "3000")


def test_adaptive(intrs: Intrs, here: Path) -> None:
    code, out, err = intrs(*ADAPTIVE, "--radii", ".25,.5,.6", "--out", "a.tsv")
    assert (code, err) == (0, "")
    run, rows = results.read(here / "a.tsv")
    assert str(run.stages) == "n=3000 radii=1/4,1/2,3/5 give_up=7/10"
    mean, answered = sum(row.n for row in rows) / 8, sum(row.predict is not None for row in rows)
    assert mean < 1500
    for words in (
        "100 + at most 3,000 per image", "radii     0.25 from 64 samples on\n", "          0.5 from 352 samples on\n",
        "          0.6 from 960 samples on\n",
        f"\nanswered: {answered} of 8 images\n",  # a share would come out too low, as radius 0 was not asked for
        rows[0].rule, f"samples to decide: {mean:,.0f} per image", f"{3000 / mean:.1f} times fewer than 3,000 each",
    ):  # fmt: skip
        assert words in out, words
    assert max(map(len, out.split("\n\n", 1)[1].splitlines())) <= 80  # what follows the list of settings
    assert intrs("verify", "a.tsv")[:2] == (0, "a.tsv: 8 lines checked, the votes of 8 counted again: all equal\n")
    assert intrs("verify", "a.tsv", "--images", "1")[0] == 0


@pytest.mark.parametrize(
    "options",
    [("--form", "two", "--radii", ".25"), ("--bound", "paper"), ("--noise", "rounded", "--precision", "5%"),
     ("--form", "two", "--precision", "10%"), ("--give-up", "0"), ("--radii", "0,1/3")],
)  # fmt: skip
def test_adaptive_settings_verify(intrs: Intrs, here: Path, options: tuple[str, ...]) -> None:
    """The votes are the first of those of a fixed number of samples."""
    fixed = [word for word in ADAPTIVE if word != "--adaptive"]
    assert intrs(*ADAPTIVE, "--out", "a.tsv", "--max", "3", *options)[0] == 0
    assert intrs("verify", "a.tsv")[0] == 0
    for row in results.read(here / "a.tsv")[1]:
        same = {"--noise": "rounded"} if "rounded" in options else {}
        words = [word for pair in same.items() for word in pair]
        argv = [*fixed[:-1], str(row.n), "--out", f"{row.n}.tsv", "--max", "3", "--resume", *words]
        assert intrs(*argv)[0] == 0
        counts = {r.idx: (r.counts0, r.counts) for r in results.read(here / f"{row.n}.tsv")[1]}
        assert counts[row.idx] == (row.counts0, row.counts)


@pytest.mark.parametrize("again", [(), ("--images", "1")])
@pytest.mark.parametrize(
    ("column", "cell"),
    [("n", "3000"), ("look", "3"), ("rule", "spending-0000000000000000"), ("rule", "union-0123456789abcdef"),
     ("radius_sq", "64000"), ("radius", "0.999999"), ("votes", "1"), ("counts", "0,64,0"), ("counts", "0,65,0")],
)  # fmt: skip
def test_verify_finds_every_change_of_an_adaptive_run(
    intrs: Intrs, here: Path, column: str, cell: str, again: tuple[str, ...]
) -> None:
    assert intrs(*ADAPTIVE, "--radii", ".25,.5", "--out", "a.tsv")[0] == 0
    tamper(here / "a.tsv", 3, column, cell)
    code, out, err = intrs("verify", "a.tsv", *again)
    assert (code, out) == (1, "")
    assert err.startswith("intrs: a.tsv, line 3 (image 23): ")


def test_verify_finds_votes_at_which_the_rule_goes_on(intrs: Intrs, here: Path) -> None:
    """Votes of an earlier look, with all that follows from them, where only the rule speaks against them."""
    assert intrs(*ADAPTIVE, "--radii", ".25", "--out", "a.tsv")[0] == 0
    line = next(i for i, row in enumerate(results.read(here / "a.tsv")[1], 2) if i > 2 and row.look)
    tamper(here / "a.tsv", line, "counts", "10,54,0")
    code, _, err = intrs("verify", "a.tsv", "--images", "1")
    assert code == 1
    assert "the rule would not have stopped after 64 samples" in err


@pytest.mark.parametrize("plan", ["n=3000 radii=1/4 give_up=1/3", "n=3000 radii=1/4,1/2 give_up=7/10"])
def test_verify_finds_another_plan(intrs: Intrs, here: Path, plan: str) -> None:
    assert intrs(*ADAPTIVE, "--radii", ".25", "--out", "a.tsv")[0] == 0
    sidecar = results.sidecar_path(here / "a.tsv")
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"adaptive": plan}))
    assert intrs("verify", "a.tsv", "--images", "1")[0] == 1


def adaptive_long_run(here: Path) -> list[str]:
    return [*long_run(here, 80, "16000"), "--adaptive", "--radii", ".1,.2,.3,.4,.5", "--give-up", "0"]


def test_kill_and_resume_of_an_adaptive_run(
    here: Path, intrs: Intrs, started: Callable[..., subprocess.Popen[str]]
) -> None:
    argv = adaptive_long_run(here)
    assert intrs(*argv, "--out", "whole.tsv")[0] == 0
    killed, path = started(*argv, "--out", "killed.tsv"), here / "killed.tsv"
    wait_for_lines(path, 5, killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert 5 <= len(path.read_text().splitlines()) < 81, "it should have been killed in the middle"
    assert intrs(*argv, "--out", "killed.tsv", "--resume")[0] == 0
    assert without_time(path) == without_time(here / "whole.tsv")


def test_extending_an_adaptive_run(intrs: Intrs, here: Path) -> None:
    """Old votes are taken over, new ones are counted; verify counts all of them again, stage by stage."""
    assert intrs(*ADAPTIVE, "--radii", ".25", "--out", "a.tsv")[0] == 0
    _, old = results.read(here / "a.tsv")
    longer = ["12000" if word == "3000" else word for word in ADAPTIVE]
    assert intrs(*longer, "--radii", ".25,.3", "--out", "a.tsv", "--resume")[0] == 0
    run, new = results.read(here / "a.tsv")
    assert str(run.stages) == "n=3000 radii=1/4 give_up=7/10; n=12000 radii=1/4,3/10 give_up=7/10"
    assert results.read(here / "a.tsv.stage1")[1] == old
    assert all(after.n >= before.n for before, after in zip(old, new, strict=True))
    assert sum(row.n for row in new) > sum(row.n for row in old)
    assert intrs("verify", "a.tsv")[0] == 0
    assert intrs("verify", "a.tsv.stage1")[0] == 0
    assert intrs(*longer, "--radii", ".25,.3", "--out", "a.tsv", "--resume")[0] == 0, "nothing is left to do"
    assert intrs(*longer, "--radii", ".1", "--out", "a.tsv", "--resume")[0] == 0
    assert (here / "a.tsv.stage2").exists()
    assert intrs("verify", "a.tsv")[0] == 0


def test_kill_and_resume_of_an_extension(
    here: Path, intrs: Intrs, started: Callable[..., subprocess.Popen[str]]
) -> None:
    """The first stage is unfinished too."""
    first = [*long_run(here, 80, "2000"), "--adaptive", "--radii", ".1"]
    second = [*adaptive_long_run(here), "--out", "a.tsv", "--resume"]
    process = started(*first, "--out", "a.tsv")
    wait_for_lines(here / "a.tsv", 5, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    begun = len(results.read(here / "a.tsv")[1])
    process = started(*second)
    while len(str(results.read_run(here / "a.tsv").stages).split(";")) < 2 and process.poll() is None:
        time.sleep(0.005)
    wait_for_lines(here / "a.tsv", 3, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(results.read(here / "a.tsv.stage1")[1]) == begun
    assert intrs(*second)[0] == 0
    assert len(results.read(here / "a.tsv")[1]) == 80
    assert intrs("verify", "a.tsv")[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--adaptive", "--radii", ".25", "--n", "2000"), "can be extended, not cut to 2000"),
        (("--adaptive", "--radii", ".25", "--n", "4000"), "doublings of the first n, such as 3000 or 6000"),
        (("--adaptive", "--radii", ".25,.333", "--n", "3000"), "radius 0.333 was not declared when the run began"),
        (("--adaptive", "--precision", "1%", "--n", "3000"), "spend it twice"),
        (("--n", "3000"), "that run is adaptive"),
        (("--adaptive", "--radii", ".25", "--n", "6000", "--alpha", ".01"), "alpha: 1/1000 in the file, 1/100 now"),
    ],
)
def test_extensions_that_are_refused(intrs: Intrs, here: Path, options: tuple[str, ...], words: str) -> None:
    assert intrs(*ADAPTIVE, "--radii", ".25", "--out", "a.tsv")[0] == 0
    before = {path: path.read_bytes() for path in here.iterdir()}
    code, _, err = intrs("certify", "tiny.onnx", "tiny.npz", "--out", "a.tsv", "--resume", *options)
    assert code == 2
    assert words in err
    assert {path: path.read_bytes() for path in here.iterdir()} == before


def test_the_median_of_two_is_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows: Any = [SimpleNamespace(n=n) for n in (416, 64)]
    _saved(rows, 500)
    assert "240 per image, 240 at the median" in capsys.readouterr().out


def test_a_fixed_run_does_not_become_adaptive(intrs: Intrs) -> None:
    fixed = [word for word in ADAPTIVE if word != "--adaptive"]
    assert intrs(*fixed, "--out", "a.tsv")[0] == 0
    code, _, err = intrs(*ADAPTIVE, "--out", "a.tsv", "--resume")
    assert code == 2
    assert "that run is not adaptive" in err


def test_adaptive_tables(intrs: Intrs, here: Path) -> None:
    argv = ("table", "--adaptive", "--sigma", "0.25", "-n", "1000", "--dimension", "48", "--radii", ".25,.5,2")
    code, out, _ = intrs(*argv, "--text")
    assert code == 0
    lines = [line.split("\t") for line in out.splitlines()]
    names = [f"{word} {radius}" for radius in ("0.25", "0.5", "2") for word in ("accept", "reject")]
    assert lines[0] == ["look", "samples", *names]
    last = [int(cell) for cell in lines[-1]]
    assert last[1] == 1000
    assert last[3] == last[2] - 1
    assert last[6:] == [1001, 1000], "out of reach"
    assert intrs(*argv, "-o", "t.bin")[0] == 0
    assert (here / "t.bin").read_bytes()[:8] == b"intrsat1"
    for wrong, words in (
        (argv, "say where to write the table"),
        ((*argv, "-o", "t.bin"), "exists"),
        (("table", "--sigma", "0.25", "--dimension", "48"), "say where to write the table"),
        (("table", "--sigma", "0.25", "--dimension", "48", "--text"), "add --adaptive"),
        ((*argv, "-n", "5", "--text"), "take a larger n"),
    ):
        code, _, err = intrs(*wrong)
        assert code == 2
        assert words in err


def test_which_lines_verify_samples_again_cannot_be_foreseen() -> None:
    """Ten of a thousand lines come out alike twice with probability below 1e-20."""
    drawn = [drawn_by_chance(1000, 10) for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert all(len(lines) == 10 and lines <= set(range(1000)) for lines in drawn)
    assert drawn_by_chance(3, None) == {0, 1, 2} == drawn_by_chance(3, 9)
