"""The functions of `import intrs`: what the commands do, for programs and notebooks."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layers import network, scores_of
from tiny_model import images, save_images, save_model

import intrs
from intrs import results
from intrs.results import Judge

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.progress import Progress

QUICK: dict[str, Any] = {"n": 300, "seed": 7}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")
    return tmp_path


def without_time(rows: Any) -> list[Any]:
    return [replace(row, time="") for row in rows]


def test_certify_is_what_the_command_does(here: Path) -> None:
    found = intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", **QUICK)
    assert subprocess.run(
        [sys.executable, "-m", "intrs", "certify", "tiny.onnx", "tiny.npz", "--n", "300", "--seed", "7", "-o", "b.tsv"],
        check=True, capture_output=True,
    )  # fmt: skip
    one, two = (results.read(here / name) for name in ("a.tsv", "b.tsv"))
    assert without_time(found.rows) == without_time(one[1]) == without_time(two[1])
    assert one[0] == two[0] == found.run
    assert found.certified_accuracy(0.25).part == found.certified_accuracy("1/4").part > 0


def test_models_and_data_as_people_have_them(here: Path) -> None:
    """Names, paths, a network, arrays: the same votes."""
    data, net = intrs.open_data("tiny.npz"), intrs.load("tiny.onnx")
    asked: list[tuple[Any, Any]] = [
        (here / "tiny.onnx", here / "tiny.npz"),
        (net, data),
        (net, (np.asarray(data.images), data.labels)),
    ]
    whole = intrs.certify("tiny.onnx", "tiny.npz", sigma=0.25, **QUICK)
    assert [without_time(intrs.certify(*each, sigma="1/4", **QUICK).rows) for each in asked[:2]] == [
        without_time(whole.rows)
    ] * 2
    arrays = intrs.certify(*asked[2], sigma=Fraction(1, 4), **QUICK)
    assert [row.label for row in arrays.rows] == [row.label for row in whole.rows]
    with pytest.raises(intrs.SettingsError, match="give sigma"):
        intrs.certify(net, data, **QUICK)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n": "abc"}, "n: expected a positive integer, got 'abc'"),
        ({"n": 0.5}, "n: expected a positive integer, got 0.5"),
        ({"n": 1e15}, "n: at most 100,000,000 is possible"),
        ({"n": None}, "n: expected a positive integer, got None"),
        ({"n0": [5]}, "n0: expected a positive integer"),
        ({"threads": -1}, "threads: expected an integer of at least 0, got -1"),
        ({"sigma": 64}, "Sigma is a fraction of the pixel range"),
        ({"alpha": None}, "alpha: expected a number"),
        ({"noise": "white"}, "noise: choose from discrete, rounded, continuous, got 'white'"),
        ({"bound": "none"}, "bound: choose from sound, paper"),
        ({"pixels": 3}, "pixels: choose from"),
        ({"radii": None}, "radii: expected several numbers"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"kernels": "no such"}, "there is no kernel set 'no such'"),
        ({"kernels": 5}, "kernels: expected text"),
        ({"max": 0}, "max: expected a positive integer"),
        ({"first": 99}, "first = 99 is beyond them"),
        ({"adaptive": "no"}, "adaptive: expected True or False, got 'no'"),
        ({"names": 5}, "names: expected the names of classes in a list, got 5"),
        ({"bound": np.array(["sound"])}, "bound: choose from sound, paper"),
        ({"out": 5}, "out: expected the path of a file, got 5"),
        ({"twice": "1%"}, "twice compares the nodes of a cluster"),
        ({"twice": "-5"}, "twice, a share of the work, must lie between 0 and 100%"),
        ({"workers": "node"}, "workers = 'node' is for a cluster"),
        ({"fit": 32}, "fit: "),
        ({"names": ["a", "b"], "by_number": True}, "names: 2 names for 3 classes"),
    ],
)
def test_wrong_settings_get_a_sentence(here: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(intrs.IntrsError) as caught:
        intrs.certify("tiny.onnx", "tiny.npz", **QUICK | settings)
    assert words in str(caught.value)
    assert "--" not in str(caught.value), "no option of the command line"


@pytest.mark.parametrize(
    ("function", "given", "settings", "words"),
    [
        (intrs.attack, ("tiny.onnx", "tiny.npz", None), {}, "outdir: expected the path of a file, got None"),
        (intrs.attack, ("tiny.onnx", "tiny.npz", "a"), {"source": None}, "source: expected text, got None"),
        (intrs.quantize, ("tiny.onnx", "tiny.npz"), {"out": 3}, "out: expected the path of a file, got 3"),
        (intrs.table, (3,), {"sigma": 0.25, "dimension": 48}, "out: expected the path of a file, got 3"),
        (intrs.adaptive_table, (3,), {"sigma": 0.25, "dimension": 48}, "out: expected the path of a file, got 3"),
        (intrs.reproduce, (3, "o"), {}, "plan: expected the path of a file, got 3"),
        (intrs.reproduce, (), {"out": 3}, "out: expected the path of a file, got 3"),
    ],
)
def test_what_is_no_path_gets_a_sentence(
    here: Path, function: Any, given: tuple[Any, ...], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(intrs.SettingsError, match=words):
        function(*given, **settings)


def test_adaptive_without_radii_decides_the_quarters(here: Path) -> None:
    for adaptive, words in ((True, "n=300 radii=0,1/4"), (False, "None")):
        run = intrs.certify("tiny.onnx", "tiny.npz", adaptive=adaptive, radii=[], max=1, **QUICK).run
        assert run
        assert str(run.stages).startswith(words)


def test_without_noise_one_sample_is_taken(here: Path) -> None:
    with pytest.raises(intrs.SettingsError, match="without noise one sample says all, so n = 50 has no meaning"):
        intrs.predict("tiny.onnx", "tiny.npz", sigma=0, n=50)
    for settings in ({}, {"n": 1}):
        found = intrs.predict("tiny.onnx", "tiny.npz", sigma=0, **settings)  # type: ignore[arg-type]
        assert "predict tiny.onnx on tiny.npz: without noise, one pass per image" in repr(found)
        assert {row.n for row in found.rows} == {1}


def test_errors_have_kinds(here: Path) -> None:
    with pytest.raises(intrs.ModelError):
        intrs.certify("nothing.onnx", "tiny.npz")
    with pytest.raises(intrs.DataError):
        intrs.certify("tiny.onnx", "nothing.npz")
    with pytest.raises(intrs.ResultsError):
        intrs.verify("nothing.tsv")
    assert issubclass(intrs.SettingsError, intrs.IntrsError)


def test_resume_and_overwrite(here: Path) -> None:
    first = intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", max=3, **QUICK)
    with pytest.raises(intrs.ResultsError, match="exists: resume the run, overwrite it"):
        intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", **QUICK)
    whole = intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", resume=True, n=300)
    assert whole.rows[:3] == tuple(first.rows), "the drawn seed is kept, and no line is made again"
    assert len(intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", overwrite=True, max=2, n=300).rows) == 2


def test_lines_of_another_seed_are_not_continued(here: Path) -> None:
    """Whoever copies the description of one file beside another must hear of it."""
    intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", max=3, n=300, seed=7)
    intrs.certify("tiny.onnx", "tiny.npz", out="b.tsv", max=3, n=300, seed=8)
    (here / "a.tsv.json").write_bytes((here / "b.tsv.json").read_bytes())
    before = (here / "a.tsv").read_bytes()
    for seed in (None, 8):
        with pytest.raises(intrs.ResultsError, match="not those of this run's model, seed and noise"):
            intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", resume=True, n=300, seed=seed)
    assert (here / "a.tsv").read_bytes() == before


@pytest.mark.parametrize("command", [intrs.certify, intrs.predict])
def test_unanimous_votes_of_another_seed_are_found_by_the_divided_ones(here: Path, command: Any) -> None:
    """Votes that are all for one class are the same under many seeds."""
    for name, seed in (("a.tsv", 7), ("b.tsv", 8)):
        command("tiny.onnx", "tiny.npz", out=name, n=300, seed=seed)
    lines = (here / "a.tsv").read_text().splitlines(keepends=True)
    (here / "a.tsv").write_text("".join(lines[:-1]))
    (here / "a.tsv.json").write_bytes((here / "b.tsv.json").read_bytes())
    with pytest.raises(intrs.ResultsError, match="not those of this run's model, seed and noise"):
        command("tiny.onnx", "tiny.npz", out="a.tsv", resume=True, n=300)


@pytest.mark.parametrize("images", [3, 5, 7])
def test_one_line_is_always_counted_again(here: Path, images: int) -> None:
    """However many samples a line has, and wherever the line with the most divided votes stands."""
    for name, seed in (("a.tsv", 7), ("b.tsv", 8)):
        intrs.predict("tiny.onnx", "tiny.npz", out=name, n=3000, max=images, seed=seed)
    (here / "a.tsv.json").write_bytes((here / "b.tsv.json").read_bytes())
    with pytest.raises(intrs.ResultsError, match="not those of this run's model, seed and noise"):
        intrs.predict("tiny.onnx", "tiny.npz", out="a.tsv", resume=True, n=3000)


def test_a_description_that_is_deleted_under_a_running_command(here: Path) -> None:
    def meddle(progress: Progress) -> None:
        (here / "a.tsv.json").unlink(missing_ok=True)

    with pytest.raises(intrs.ResultsError, match=r"which describes a\.tsv, was deleted"):
        intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", progress=meddle, **QUICK)


def test_an_adaptive_run_of_another_seed_is_not_extended(here: Path) -> None:
    for name, seed in (("a.tsv", 7), ("b.tsv", 8)):
        intrs.certify("tiny.onnx", "tiny.npz", out=name, n=1000, radii=[0.25], seed=seed)
    (here / "a.tsv.json").write_bytes((here / "b.tsv.json").read_bytes())
    before = (here / "a.tsv").read_bytes()
    with pytest.raises(intrs.ResultsError, match="not those of this run's model, seed and noise"):
        intrs.certify("tiny.onnx", "tiny.npz", out="a.tsv", n=2000, radii=[0.25], resume=True)
    assert (here / "a.tsv").read_bytes() == before


def test_settings_that_contradict_each_other(here: Path) -> None:
    cases: list[dict[str, Any]] = [{"resume": True}, {"resume": True, "overwrite": True, "out": "a.tsv"}]
    for wrong in cases:
        with pytest.raises(intrs.SettingsError, match="resume continues a file"):
            intrs.certify("tiny.onnx", "tiny.npz", **wrong)
    with pytest.raises(intrs.SettingsError, match="progress: expected a function"):
        intrs.certify("tiny.onnx", "tiny.npz", n=300, progress=5)  # type: ignore[arg-type]


def test_data_in_memory_have_no_name(here: Path) -> None:
    """A subset of a data set is not the data set: a command that repeats it would certify other images."""
    some = intrs.open_data("tiny.npz").subset(np.array([5, 6]))
    found = intrs.certify("tiny.onnx", some, out="a.tsv", **QUICK)
    assert found.run
    assert found.run.request.data == ""
    with pytest.raises(intrs.ResultsError, match="pass the data"):
        intrs.verify(found)
    assert intrs.verify("a.tsv", data=some)
    page = intrs.report("a.tsv", "r.html", max_images=0)
    assert "Repeat the run" not in (here / "r.html").read_text(), page


@pytest.mark.parametrize("change", ["delete", "replace", "cut"])
def test_a_file_that_is_changed_under_a_running_command(here: Path, change: str) -> None:
    path = here / "a.tsv"

    def meddle(progress: Progress) -> None:
        if progress.done < 3 * 400 or not path.exists() or len(path.read_bytes().splitlines()) < 3:
            return
        if change != "cut":
            path.unlink()
        if change != "delete":
            path.write_bytes(b"")

    with pytest.raises(intrs.ResultsError, match=r"deleted or replaced|was cut"):
        intrs.certify("tiny.onnx", "tiny.npz", out=path, progress=meddle, **QUICK)


def test_exceptions_of_a_callback_are_the_callers(here: Path) -> None:
    def fail(_: Progress) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        intrs.certify("tiny.onnx", "tiny.npz", progress=fail, n=100_000)
    assert "fail" in [entry.name for entry in caught.traceback]
    smooth = intrs.Smooth(intrs.load("tiny.onnx"), sigma=0.25)
    with pytest.raises(ValueError, match="mine"):
        smooth.certify(images()[0][0], n=10_000_000, progress=fail)


def test_progress_and_start(here: Path) -> None:
    seen: list[Progress] = []
    begun: list[Any] = []
    intrs.certify("tiny.onnx", "tiny.npz", progress=seen.append, on_start=begun.append, **QUICK)
    assert seen[0][:3] == (0, 8 * 400, "samples")
    assert seen[-1][:2] == (8 * 400, 8 * 400)
    assert [report.done for report in seen] == sorted(report.done for report in seen)
    assert len(begun) == 1
    seen.clear()
    intrs.certify("tiny.onnx", "tiny.npz", radii=[0.25], progress=seen.append, **QUICK)
    assert seen[-1][:3] == (8, 8, "images")


def test_predict(here: Path) -> None:
    found = intrs.predict("tiny.onnx", "tiny.npz", seed=7)
    assert {row.n0 for row in found.rows} == {0}
    assert found.run
    assert (found.run.command, found.run.request.n) == ("predict", 1000)


# --- Smooth ----------------------------------------------------------------------------------------------------------

NET = network(scores_of(0, (4, 4, 3), classes=5))
IMAGES = np.random.default_rng(3).integers(0, 256, (6, 4, 4, 3)).astype(np.uint8)


def test_sigma_is_sigma_however_it_is_written() -> None:
    ways: list[Any] = [0.25, "0.25", "1/4", Fraction(1, 4), np.float64(0.25)]
    noises = {intrs.Smooth(NET, sigma=sigma).noise for sigma in ways}
    assert noises == {intrs.Noise.of("discrete", "0.25")}
    assert intrs.Smooth(NET, "rounded", sigma=0.25).noise.kind == "rounded"
    cases: list[tuple[Any, str]] = [((None,), "Pass sigma"), ((0.25,), "for sigma pass sigma="), (("white",), "noise")]
    for wrong, words in cases:
        with pytest.raises(intrs.SettingsError, match=words):
            intrs.Smooth(NET, *wrong)


def test_every_image_has_noise_of_its_own() -> None:
    """A loop without indices must not reuse the noise: its certificates would all fail together."""
    drawn: list[bytes] = []

    def keep(batch: Any) -> Any:
        drawn.append(batch[0].tobytes())
        return np.zeros((len(batch), 2))

    smooth = intrs.Smooth(keep, sigma=0.25, seed=7)
    flat = [np.full((4, 4, 3), value, np.uint8) for value in (10, 11, 12)]
    for image in flat:
        smooth.predict(image, n=20)
    noises = {(np.frombuffer(noisy, np.int32) - 10 - i).tobytes() for i, noisy in enumerate(drawn)}
    assert len(noises) == 3
    assert smooth.predict(flat[0], n=20) == smooth.predict(flat[0], n=20)
    assert drawn[-1] == drawn[0], "the same image under the same seed gets the same noise"


def test_certify_all_addresses_noise_by_pixels_or_index() -> None:
    smooth = intrs.Smooth(NET, sigma=0.25, seed=7)
    assert list(smooth.certify_all(IMAGES, n=200)) == [smooth.certify(image, n=200) for image in IMAGES]
    one_by_one = [smooth.certify(image, n=200, index=i) for i, image in enumerate(IMAGES)]
    assert list(smooth.certify_all(IMAGES[::-1], n=200, indices=range(5, -1, -1))) == one_by_one[::-1]
    data = intrs.Images("d", IMAGES, np.zeros(6, np.int64), np.arange(6)[::-1].copy())
    assert list(smooth.certify_all(data, n=200)) == list(smooth.certify_all(IMAGES, n=200, indices=data.indices))
    for answer in one_by_one:
        assert isinstance(answer.certified, bool)
        assert (answer.label is None) == (not answer.certified)
        assert answer.radius >= 0.0


def test_n_is_not_taken_for_n0() -> None:
    with pytest.raises(TypeError):
        intrs.Smooth(NET, sigma=0.25).certify(IMAGES[0], 100)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (IMAGES[0].tolist(), "got list"),
        (None, "got NoneType"),
        (IMAGES[0] / 255, "multiply by 255 and round"),
        (IMAGES, "takes images of shape"),
        (type("Tensor", (), {"numpy": lambda self: None})(), r"got Tensor; pass image\.numpy\(\)"),
    ],
)
def test_wrong_images_get_a_sentence(image: Any, words: str) -> None:
    with pytest.raises(intrs.DataError, match=words):
        intrs.Smooth(NET, sigma=0.25).certify(image, n=100)


@pytest.mark.parametrize("score", [np.nan, complex(np.nan, 0), "1", None], ids=str)
def test_a_callable_that_returns_nan_or_no_numbers_is_refused(score: Any) -> None:
    smooth = intrs.Smooth(lambda batch: np.full((len(batch), 3), score), sigma=0.25)
    with pytest.raises(intrs.ModelError, match=r"NaN|real scores"):
        smooth.certify(IMAGES[0], n=100)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"base": "tiny.onnx"}, "load a file first"),
        ({"bound": "best"}, "bound must be"),
        ({"noise": "continuous"}, "continuous noise is not for integer networks"),
        ({"classes": 7}, "the network has 5"),
        ({"kernels": 3}, "kernels: expected the name"),
        ({"base": len, "classes": "ten"}, "classes: expected a positive integer, got 'ten'"),
    ],
)
def test_a_wrong_smoothed_classifier_is_refused(wrong: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"base": NET, "sigma": 0.25} | wrong
    with pytest.raises(intrs.IntrsError, match=words):
        intrs.Smooth(**given).certify(IMAGES[0], n=100)


def test_wrong_addresses_get_a_sentence() -> None:
    smooth = intrs.Smooth(NET, sigma=0.25)
    for wrong in (1.7, "x", [1]):
        with pytest.raises(intrs.SettingsError, match="image: expected an integer"):
            smooth.certify(IMAGES[0], n=100, index=wrong)  # type: ignore[arg-type]
    with pytest.raises(intrs.SettingsError, match="fewer indices than images"):
        list(smooth.certify_all(IMAGES, n=100, indices=[1]))
    with pytest.raises(intrs.SettingsError, match="indices: expected one whole number per image, got 5"):
        list(smooth.certify_all(IMAGES, n=100, indices=5))  # type: ignore[arg-type]
    with pytest.raises(intrs.SettingsError, match="count: expected an integer"):
        intrs.Samples(1, 0, 0, None)  # type: ignore[arg-type]
    with pytest.raises(intrs.SettingsError, match="expected a Noise and Samples"):
        intrs.votes.count(NET, IMAGES[0], smooth.noise, 100)  # type: ignore[arg-type]


def test_paths_that_are_none(here: Path) -> None:
    with pytest.raises(intrs.SettingsError, match="results: expected the path of a file, got None"):
        intrs.read(None)  # type: ignore[arg-type]
    with pytest.raises(intrs.SettingsError, match="results: expected the path of a file, got None"):
        intrs.verify(None)  # type: ignore[arg-type]
    with pytest.raises(intrs.SettingsError, match="out: expected the path of a file, got None"):
        intrs.export("tiny.onnx", None)  # type: ignore[arg-type]
    with pytest.raises(intrs.SettingsError, match="parts: expected the files of a run, got None"):
        intrs.merge(None, "all.tsv")  # type: ignore[arg-type]


def test_one_radius_is_as_good_as_a_list() -> None:
    smooth = intrs.Smooth(NET, sigma=0.25, seed=1)
    one: Any = smooth.certify(IMAGES[0], n=200, radii=0.25)  # type: ignore[arg-type]
    assert one == smooth.certify(IMAGES[0], n=200, radii=[0.25]) == smooth.certify(IMAGES[0], n=200, radii="0.25")


def test_modules_and_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(intrs.ModelError, match=r"a PyTorch module takes tensors, .* intrs\.quantize the module"):
        intrs.Smooth(torch.nn.Flatten(), sigma=0.25)
    weight = torch.ones(3, requires_grad=True)
    smooth = intrs.Smooth(lambda batch: weight * torch.tensor([1.0, 3, 2]).repeat(len(batch), 1), sigma=0.25)
    assert smooth.certify(IMAGES[0], n=100).label == 1


def test_a_part_or_the_results_of_one_can_be_merged(here: Path) -> None:
    parts = [intrs.certify("tiny.onnx", "tiny.npz", shard=f"{k}/2", out=f"{k}.tsv", seed=1, n=100) for k in (1, 2)]
    merged = intrs.merge(parts, "all.tsv")
    assert merged.rows == intrs.merge(["1.tsv", "2.tsv"], "again.tsv").rows
    assert intrs.merge("all.tsv", "copy.tsv").rows == merged.rows


def test_tensors_are_images_too() -> None:
    torch = pytest.importorskip("torch")
    smooth = intrs.Smooth(NET, sigma=0.25, seed=7)
    with pytest.raises(intrs.DataError, match=r"pass image\.numpy\(\)"):
        list(smooth.certify_all(torch.from_numpy(IMAGES.copy()), n=100))


def test_batches_of_large_images_are_bounded() -> None:
    sizes: list[int] = []

    def keep(batch: Any) -> Any:
        sizes.append(batch.nbytes)
        return np.zeros((len(batch), 2))

    intrs.Smooth(keep, sigma=0.25).predict(np.zeros((1024, 1024, 3), np.uint8), n=3)
    assert max(sizes) <= 2**24
    sizes.clear()
    intrs.Smooth(keep, sigma=0.25).predict(np.zeros((4, 4, 3), np.uint8), n=1200)
    assert len(sizes) == 3, "small images go in batches of 500"


# --- Copies and texts ------------------------------------------------------------------------------------------------


def test_everything_pickles_and_copies(here: Path) -> None:
    smooth = intrs.Smooth(intrs.load("tiny.onnx"), sigma=0.25, seed=7)
    run = intrs.certify("tiny.onnx", "tiny.npz", **QUICK)
    assert run.run
    image = images()[0][0]
    judge = Judge(run.run, run.run.dimension, run.run.classes)
    for copied in (pickle.loads(pickle.dumps(smooth)), copy.deepcopy(smooth)):  # noqa: S301
        assert copied.certify(image, n=300) == smooth.certify(image, n=300)
    for thing in (run.run, run.rows[0], smooth.noise, judge.certifier, smooth.samples(0, 0, 5)):
        assert pickle.loads(pickle.dumps(thing)) == copy.deepcopy(thing) == thing  # noqa: S301


def test_texts_are_short(here: Path) -> None:
    net = intrs.load("resnet20-sigma0.25")
    run = intrs.certify("tiny.onnx", "tiny.npz", **QUICK)
    smooth = intrs.Smooth(net, sigma=0.25)
    assert run.run
    for thing in (
        net,
        smooth,
        run,
        run.run,
        run.rows[0],
        intrs.open_data("cifar10-500"),
        smooth.certifier(48, 100, ".01"),
    ):
        assert len(repr(thing)) < 1500, type(thing)
        assert repr(thing).count("\n") < 15
    for shown in (net, run, intrs.Smooth(NET, sigma=0.25).certify(IMAGES[0], n=200)):
        assert shown._repr_html_().startswith("<")
    assert "multiply-adds" in net.summary()


def test_names() -> None:
    assert {"certify", "predict", "verify", "load", "Smooth", "Network", "Noise", "IntrsError"} <= set(dir(intrs))
    assert not [name for name in dir(intrs) if name.startswith("_") and name != "__version__"]
