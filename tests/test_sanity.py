"""What a run says of itself before it begins: a wrong normalisation, wrong class names, no training under noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from PIL import Image
from tiny_model import images, save_images, save_model

from intrs import sanity, zoo
from intrs.data import open_data
from intrs.job import Job, open_job
from intrs.metrics import read
from intrs.request import Certify
from intrs.results import read_run
from intrs.sanity import Look, best_order, chance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Intrs = Callable[..., tuple[int, str, str]]

SMALL = "resnet8-sigma0.25"
GERMAN = ("Flugzeug", "Auto", "Vogel", "Katze", "Hirsch", "Hund", "Frosch", "Pferd", "Schiff", "Lastwagen")
QUICK = ("--n", "50", "--n0", "10", "--seed", "7")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(out: str) -> str:
    """In one line, wherever it was broken."""
    return " ".join(out.split())


def without_normalisation(path: Path) -> tuple[str, str]:
    """The small network for whoever normalises: its own mean and std are taken out of the file, and returned."""
    model = onnx.load(zoo.model_path(SMALL))
    constants = {each.name: onnx.numpy_helper.to_array(each).ravel() for each in model.graph.initializer}
    sub, div = model.graph.node[:2]
    assert (sub.op_type, div.op_type) == ("Sub", "Div")
    for node in (sub, div):
        model.graph.node.remove(node)
    model.graph.node[0].input[0] = "image"
    onnx.save(model, path)
    mean, std = (",".join(f"{value:.6g}" for value in constants[f"normalize.{name}"]) for name in ("mean", "std"))
    return mean, std


def class_folders(root: Path, names: tuple[str, ...], count: int = 20) -> Path:
    data = open_data("cifar10-500")
    for i in range(count):
        folder = root / names[int(data.labels[i])]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.images[i]).save(folder / f"{i}.png")
    for name in names:
        (root / name).mkdir(exist_ok=True)
    return root


# --- what is caught --------------------------------------------------------------------------------------------------


def test_a_forgotten_normalisation(intrs: Intrs, here: Path) -> None:
    mean, std = without_normalisation(here / "bare.onnx")
    run = ("certify", "bare.onnx", "cifar10-500", "--sigma", "0.25", "--skip", "10", *QUICK, "--max", "48")
    _, out, _ = intrs(*run, "-o", "a.tsv")
    assert "input pixel / 255; no mean and std outside the file" in said(out)
    assert "hint with pixels=unit mean=0.4" in said(out)
    assert "its input seems to be another than was taken for granted. See --pixels, --mean and --std" in said(out)
    _, out, _ = intrs(*run, "--mean", mean, "--std", std, "-o", "b.tsv")
    assert f"input (pixel / 255 - mean) / std; mean {mean}, std {std}" in said(out)
    assert "hint" not in out


def test_wrong_class_names(intrs: Intrs, here: Path) -> None:
    class_folders(here / "bilder", GERMAN)
    code, out, err = intrs("certify", SMALL, "bilder", *QUICK)
    assert (code, out) == (2, "")
    assert "bilder has classes that the model does not know by name: Auto, Flugzeug, Frosch" in err
    assert "--names N,N,... (or a file) names the model's classes, --by-number takes labels as its numbers" in err
    code, out, _ = intrs("certify", SMALL, "bilder", *QUICK, "--names", ",".join(GERMAN), "-o", "r.tsv")
    assert code == 0
    right = open_data("cifar10-500").labels[:20]
    assert sorted(row.label or 0 for row in read(here / "r.tsv").rows) == sorted(right.tolist())
    assert "Flugzeug" in out
    assert intrs("verify", "r.tsv")[0] == 0
    (here / "names.txt").write_text("\n".join(GERMAN) + "\n")
    assert intrs("certify", SMALL, "bilder", *QUICK, "--names", "names.txt", "-o", "s.tsv")[0] == 0
    assert read_run(here / "s.tsv").request.names == GERMAN
    assert intrs("report", "r.tsv", "-o", "r.html", "--data", "bilder")[0] == 0
    assert '"classes":["Flugzeug","Auto"' in (here / "r.html").read_text()


def test_labels_by_number_when_that_is_said(intrs: Intrs, here: Path) -> None:
    class_folders(here / "bilder", GERMAN, 40)
    code, out, _ = intrs("certify", SMALL, "bilder", *QUICK, "--by-number", "-o", "r.tsv")
    assert code == 0
    assert "classes by number: 0 is Auto, 1 is Flugzeug" in said(out)
    assert "hint the classes seem to have another order in the data than in the model" in said(out)
    assert "would be correct without noise. See --names" in said(out)
    assert read_run(here / "r.tsv").request.by_number
    assert intrs("verify", "r.tsv")[0] == 0


def test_folders_of_some_classes_are_found_by_name(intrs: Intrs, here: Path) -> None:
    data = open_data("cifar10-500")
    for name in ("dog", "Cat"):
        (here / "pets" / name).mkdir(parents=True)
        place = int(np.flatnonzero(data.labels == data.classes.index(name.lower()))[0])
        Image.fromarray(data.images[place]).save(here / "pets" / name / "0.png")
    code, out, _ = intrs("certify", SMALL, "pets", *QUICK, "-o", "r.tsv")
    assert (code, "classes matched by name" in said(out)) == (0, True)
    assert [row.label for row in read(here / "r.tsv").rows] == [3, 5]


def test_a_network_that_was_not_trained_under_noise(intrs: Intrs, here: Path) -> None:
    run = ("certify", "resnet20-clean", "cifar10-500", "--max", "24", "--n", "20", "--n0", "2", "--alpha", "0.1")
    _, out, _ = intrs(*run, "--sigma", "0.25", "--seed", "7", "-o", "a.tsv")
    assert "hint the network does much worse under this noise" in said(out)
    assert "See `intrs train`" in said(out)


def test_a_run_that_makes_sense_gets_no_hint(intrs: Intrs, here: Path) -> None:
    _, out, _ = intrs("certify", SMALL, "cifar10-500", "--max", "32", *QUICK, "-o", "a.tsv")
    assert "check 32 images: " in said(out)
    assert "hint" not in out


def test_info_looks_too(intrs: Intrs, here: Path) -> None:
    without_normalisation(here / "bare.onnx")
    code, out, _ = intrs("info", "bare.onnx", "--data", "cifar10-500", "--sigma", "0.25")
    assert code == 0
    assert "input pixel / 255; no mean and std outside the file" in said(out)
    assert "check 64 images: " in said(out)
    assert "hint with pixels=unit mean=0.4" in said(out)


# --- how it looks ----------------------------------------------------------------------------------------------------


def job_of(data: object, **settings: object) -> Job:
    return open_job(Certify(model=SMALL, data="", seed=1, n=1000, **settings), data=data)  # type: ignore[arg-type]


def test_the_same_run_shows_the_same_and_no_vote_changes() -> None:
    job = job_of("cifar10-500", max=40)
    before = job.sample(0, 0, 50)
    first = sanity.look(job)
    assert first == sanity.look(job_of("cifar10-500", max=40))
    assert job.sample(0, 0, 50) == before
    assert first
    assert first.images == 40


def test_images_without_labels() -> None:
    pixels = np.asarray(open_data("cifar10-500").images[:3])
    seen = sanity.look(job_of(pixels))
    assert seen
    assert (seen.images, seen.copies, seen.clean, seen.noisy) == (3, 10, None, None)
    assert 0 < seen.kept <= 30
    assert "of 30 noisy copies get the class of the image without noise" in seen.words()


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanity, "WORK", 1)
    seen = sanity.look(job_of("cifar10-500"))
    assert seen
    assert (seen.images, seen.copies) == (sanity.LEAST_IMAGES, 1)


def test_floats_are_looked_at_too() -> None:
    job = open_job(
        Certify(model="resnet20-paper0.25-fp32", data="cifar10-500", seed=1, n=1000, noise="continuous", max=20)
    )
    seen = sanity.look(job)
    assert seen
    assert (seen.clean or 0) > 8


@pytest.mark.parametrize(
    ("look", "kinds"),
    [
        (Look(64, 1, 10, 60, clean=50, noisy=45), []),
        (Look(64, 1, 10, 60, clean=6, noisy=6), ["guessing"]),
        (Look(64, 1, 10, 9, clean=58, noisy=9), ["noise"]),
        (Look(64, 1, 10, 60, clean=25, noisy=20, better=({"pixels": "byte"}, 30, 32)), ["convention"]),
        (Look(64, 1, 10, 9, clean=25, noisy=3, better=({"pixels": "byte"}, 30, 32)), ["convention", "noise"]),
        (Look(3, 10, 10, 27, clean=None, noisy=None), []),
        (Look(3, 10, 10, 9, clean=None, noisy=None), ["noise"]),
        (Look(64, 1, 10, 60, clean=20, noisy=20, reordered=45), ["order"]),
        (Look(64, 1, 10, 60, clean=20, noisy=20, reordered=28), []),
        (Look(1, 1, 10, 0, clean=0, noisy=0), []),  # which shows nothing
    ],
)
def test_hints(look: Look, kinds: list[str]) -> None:
    assert [hint.kind for hint in look.hints()] == kinds


def test_the_best_order_of_classes() -> None:
    labels = np.arange(60) % 10
    swapped = (labels * 3 + 1) % 10
    assert best_order(labels, labels, 10) == best_order(swapped, labels, 10) == 60
    random = np.random.default_rng(1).integers(0, 10, 60)
    assert best_order(random, labels, 10) < sanity.ORDERED * 60


def test_chance() -> None:
    assert chance(0, 5, 10) == 1
    assert chance(5, 5, 10) == pytest.approx(1e-5)
    assert chance(1, 2, 2) == 0.75


# --- the network itself ----------------------------------------------------------------------------------------------


def test_predictions_without_noise(intrs: Intrs, here: Path) -> None:
    save_model(here / "tiny.onnx")
    save_images(here / "tiny.npz")
    code, out, _ = intrs("predict", "tiny.onnx", "tiny.npz", "--sigma", "0", "-o", "p.tsv")
    assert code == 0
    assert "none: the network itself, one pass per image" in said(out)
    found = read(here / "p.tsv")
    from intrs.model import load

    pixels, labels = images()
    right = load(here / "tiny.onnx").predict(pixels.astype(np.int32))
    assert [answer.label for answer in found] == right.tolist()
    assert {row.n for row in found.rows} == {1}
    assert f"Accuracy: {int((right == labels).sum())} correct" in out
    assert "abstention" not in out
    assert intrs("verify", "p.tsv")[0] == 0
    assert intrs("report", "p.tsv", "-o", "p.html")[0] == 0
    parts = [f"{i}.tsv" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        argv = ("predict", "tiny.onnx", "tiny.npz", "--sigma", "0", "--seed", "1", "--shard", f"{i}/2", "-o", part)
        assert intrs(*argv)[0] == 0
    assert intrs("merge", *parts, "-o", "m.tsv")[0] == 0
    assert [answer.label for answer in read(here / "m.tsv")] == right.tolist()


def test_nothing_is_certified_without_noise(intrs: Intrs, here: Path) -> None:
    save_model(here / "tiny.onnx")
    save_images(here / "tiny.npz")
    code, _, err = intrs("certify", "tiny.onnx", "tiny.npz", "--sigma", "0")
    assert (code, "Only predictions can do without noise" in err) == (2, True)
    code, _, err = intrs("predict", "tiny.onnx", "tiny.npz", "--sigma", "0", "--noise", "continuous")
    assert (code, "continuous noise is for floats" in err) == (2, True)
