"""Images without labels through everything: certify, predict, resume, shards, merge, verify, report, plot, join."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from PIL import Image
from tiny_model import images, save_images, save_model

import intrs as library
from intrs import metrics, results
from intrs.errors import ResultsError
from intrs.reports.provenance import repeat
from intrs.results.journal import Kept
from intrs.results.rows import FILE, Row, escaped, unescaped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Intrs = Callable[..., tuple[int, str, str]]

PIXELS, LABELS = images()
NAMES = ("cat.png", "dog\tand\nbird.png", "Käfer.png")
QUICK = ("--n", "300", "--seed", "7")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own with the tiny model, three image files, and a folder of eight."""
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "tiny.onnx")
    for name, pixels in zip(NAMES, PIXELS, strict=False):
        Image.fromarray(pixels).save(tmp_path / name)
    (tmp_path / "mine").mkdir()
    for i, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(tmp_path / "mine" / f"{i}.png")
    return tmp_path


def lines(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False).to_dict("records")
    return [{name: value for name, value in line.items() if name != "time"} for line in found]


def test_one_image_file(intrs: Intrs, here: Path) -> None:
    code, out, _ = intrs("certify", "tiny.onnx", "cat.png", *QUICK)
    assert code == 0
    path = here / "certify-tiny-cat-sigma0.25.tsv"
    (line,) = lines(path)
    assert (line["label"], line["correct"], line["file"]) == ("-1", "0", "cat.png")
    assert "1 image without labels" in out
    assert "They have no labels, so no accuracy is known." in out
    assert "accuracy of" not in out
    assert intrs("verify", str(path))[0] == 0


def test_votes_are_those_of_the_labelled_run(intrs: Intrs, here: Path) -> None:
    save_images(here / "tiny.npz", indices=None)
    intrs("certify", "tiny.onnx", "tiny.npz", *QUICK, "-o", "a.tsv")
    intrs("certify", "tiny.onnx", "mine", *QUICK, "-o", "b.tsv")
    same = ("idx", "predict", "radius", "n0", "n", "votes", "radius_sq", "counts0", "counts")
    with_labels, without = lines(here / "a.tsv"), lines(here / "b.tsv")
    assert [[line[name] for name in same] for line in with_labels] == [
        [line[name] for name in same] for line in without
    ]
    assert "file" not in with_labels[0]
    keys = {"fit", "unlabelled"}
    assert not keys & set(json.loads((here / "a.tsv.json").read_text()))
    assert json.loads((here / "b.tsv.json").read_text())["unlabelled"] is True


def test_several_files_and_their_names(intrs: Intrs, here: Path) -> None:
    assert intrs("certify", "tiny.onnx", *NAMES, *QUICK, "-o", "r.tsv")[0] == 0
    run, rows = results.read(here / "r.tsv")
    assert tuple(row.file for row in rows) == NAMES
    assert run.request.data == run.request.sources == NAMES
    assert run.request.data_name == ", ".join(NAMES)
    assert len((here / "r.tsv").read_text().splitlines()) == 4, "no name ends a line"
    assert "Käfer.png" in (here / "r.tsv").read_text(), "names that print are as they are"
    assert intrs("verify", "r.tsv")[0] == 0
    assert intrs("verify", "r.tsv", "--data", "cat.png")[0] == 2
    (here / "moved").mkdir()
    for name in NAMES:
        (here / name).rename(here / "moved" / name)
    moved = [word for name in NAMES for word in ("--data", f"moved/{name}")]
    assert intrs("verify", "r.tsv", *moved)[0] == 0
    code, _, err = intrs("verify", "r.tsv")
    assert (code, "say where the data is now" in err) == (2, True)


def test_verify_finds_another_name(intrs: Intrs, here: Path) -> None:
    intrs("certify", "tiny.onnx", "mine", *QUICK, "-o", "r.tsv")
    path = here / "r.tsv"
    path.write_text(path.read_text().replace("\t3.png", "\t4.png"))
    code, _, err = intrs("verify", "r.tsv")
    assert (code, "file is 4.png, should be 3.png" in err) == (1, True)


def test_pictures_may_be_renamed_when_the_data_are_named_anew(intrs: Intrs, here: Path) -> None:
    intrs("certify", "tiny.onnx", "mine", *QUICK, "-o", "r.tsv")
    (here / "mine" / "3.png").rename(here / "mine" / "3b.png")
    assert library.verify("r.tsv", data="mine")
    code, _, err = intrs("verify", "r.tsv")
    assert (code, "file is 3.png, should be 3b.png" in err) == (1, True)


def test_resume_merge_and_join(intrs: Intrs, here: Path) -> None:
    intrs("certify", "tiny.onnx", "mine", *QUICK, "-o", "whole.tsv")
    whole = lines(here / "whole.tsv")
    (here / "some.tsv").write_text("".join((here / "whole.tsv").read_text().splitlines(keepends=True)[:4])[:-9])
    (here / "some.tsv.json").write_bytes((here / "whole.tsv.json").read_bytes())
    assert intrs("certify", "tiny.onnx", "mine", *QUICK, "-o", "some.tsv", "--resume")[0] == 0
    assert lines(here / "some.tsv") == whole
    for by in ("", ":samples"):
        parts = [f"part{i}{by[:2]}.tsv".replace(":", "") for i in (1, 2)]
        for i, part in enumerate(parts, 1):
            assert intrs("certify", "tiny.onnx", "mine", *QUICK, "--shard", f"{i}/2{by}", "-o", part)[0] == 0
        merged = f"merged{len(by)}.tsv"
        code, out, _ = intrs("merge", *parts, "-o", merged)
        assert (code, "Images whose class cannot change within the radius" in out) == (0, True)
        assert lines(here / merged) == whole
        assert (here / f"{merged}.json").read_text() == (here / "whole.tsv.json").read_text()
    joined = metrics.join([metrics.read(here / f"part{i}.tsv") for i in (1, 2)])
    assert [answer.file for answer in joined] == [line["file"] for line in whole]
    assert not joined.has_labels
    assert len(joined) == joined.planned == 8


def test_adaptive_runs_and_their_extension(intrs: Intrs, here: Path) -> None:
    settings = ("certify", "tiny.onnx", "mine", "--seed", "7", "-o", "r.tsv", "--radii", ".1,.2")
    assert intrs(*settings, "--n", "1000")[0] == 0
    assert intrs(*settings, "--n", "4000", "--resume")[0] == 0
    assert lines(here / "r.tsv")[3]["file"] == "3.png"
    assert intrs("verify", "r.tsv")[0] == 0


def test_predictions(intrs: Intrs, here: Path) -> None:
    code, out, _ = intrs("predict", "tiny.onnx", "mine", *QUICK, "-o", "p.tsv")
    assert code == 0
    assert "ccuracy (" not in out
    assert intrs("verify", "p.tsv")[0] == 0
    assert "answered: " in repr(metrics.read(here / "p.tsv"))


def test_a_wrong_size_is_refused_with_the_way_out(intrs: Intrs, here: Path) -> None:
    Image.fromarray(PIXELS[0]).resize((40, 20)).save(here / "photo.png")
    code, _, err = intrs("certify", "tiny.onnx", "photo.png", *QUICK)
    assert code == 2
    assert "images of 20 x 40 x 3 (height x width x channels), but the model takes 4 x 4 x 3" in err
    assert "--fit resize, or --fit crop, makes image files fit the model" in err
    code, out, _ = intrs("certify", "tiny.onnx", "photo.png", *QUICK, "--fit", "resize", "-o", "r.tsv")
    assert (code, "resized to 4 x 4: photo.png (40 x 20)" in out) == (0, True)
    assert results.read_run(here / "r.tsv").request.fit == "resize:4x4x3"
    assert intrs("verify", "r.tsv")[0] == 0
    assert intrs("certify", "tiny.onnx", "photo.png", *QUICK, "--fit", "resize", "-o", "r.tsv", "--resume")[0] == 0
    code, _, err = intrs("certify", "tiny.onnx", "photo.png", *QUICK, "--fit", "crop", "-o", "r.tsv", "--resume")
    assert (code, "data_sha256" in err) == (2, True)


def test_other_data_get_no_advice_that_does_not_help(intrs: Intrs, here: Path) -> None:
    np.savez(here / "big.npz", images=np.zeros((1, 9, 9, 3), np.uint8))
    code, _, err = intrs("certify", "tiny.onnx", "big.npz", *QUICK)
    assert (code, "--fit" in err) == (2, False)


def test_the_report(intrs: Intrs, here: Path) -> None:
    intrs("certify", "tiny.onnx", *NAMES, *QUICK, "-o", "r.tsv")
    data = [word for name in NAMES for word in ("--data", name)]
    code, out, _ = intrs("report", "r.tsv", "-o", "r.html", *data)
    assert (code, "images: 3" in out) == (0, True)
    page = (here / "r.html").read_text()
    assert "The images have no labels, so that nothing is known of which classes are correct." in page
    assert "Answered, abstained" in page
    assert '"file":"cat.png"' in page
    assert "correct class" not in page
    assert '<fieldset id="measure" class="choice" hidden>' in page
    intrs("certify", "tiny.onnx", "cat.png", *QUICK, "--fit", "crop", "-o", "f.tsv")
    assert intrs("report", "f.tsv", "-o", "f.html", "--data", "cat.png")[0] == 0
    again = (here / "f.html").read_text()
    assert "--fit crop:4x4x3" in again, "the command that repeats the run"


def test_the_command_that_repeats_the_run(intrs: Intrs, here: Path) -> None:
    found = library.certify("tiny.onnx", [here / "cat.png", "Käfer.png"], n=300, seed=7, fit="crop", out="r.tsv")
    assert found.run
    words = shlex.split(repeat(found.run, here / "again.tsv"))
    assert intrs(*words[1:])[0] == 0
    assert lines(here / "again.tsv") == lines(here / "r.tsv")


def test_a_figure(intrs: Intrs, here: Path) -> None:
    intrs("certify", "tiny.onnx", "mine", *QUICK, "-o", "r.tsv")
    assert intrs("plot", "r.tsv", "-o", "r.svg")[0] == 0
    assert (here / "r.svg").stat().st_size > 1000


# --- the library -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["cat.png", ["cat.png", "Käfer.png"], PIXELS, PIXELS[0]])
def test_certify_as_a_function(here: Path, data: Any) -> None:
    found = library.certify("tiny.onnx", data, n=300, seed=7)
    count = len(data) if isinstance(data, list) or np.ndim(data) == 4 else 1
    assert len(found) == count
    assert not found.has_labels
    assert found.plain_accuracy() is None
    assert all(answer.truth is None and not answer.correct for answer in found)
    with pytest.raises(ResultsError, match="no accuracy is known"):
        found.certified_accuracy("0.25")
    text = repr(found)
    assert "accuracy" not in text
    assert f"{count} {'image' if count == 1 else 'images'}, " in text
    assert "accuracy" not in found._repr_html_()
    frame = found.to_dataframe()
    assert not {"label", "correct"} & set(frame.columns)
    assert frame["file"].tolist()[0] == ("cat.png" if not isinstance(data, np.ndarray) else "")


def test_the_mean_radius_counts_every_class() -> None:
    pixels, labels = images()
    network = library.load("resnet8-sigma0.25")
    big = np.tile(pixels, (1, 8, 8, 1))
    with_labels = library.certify(network, (big, labels), sigma="0.25", n=50, seed=1, max=3)
    without = library.certify(network, big, sigma="0.25", n=50, seed=1, max=3)
    radii = [answer.radius for answer in without]
    mean, of_correct = without.average_radius(), with_labels.average_radius()
    assert mean
    assert of_correct
    assert mean.value == pytest.approx(np.mean(radii))
    assert of_correct.value <= mean.value


def test_labelled_and_unlabelled_results_are_not_compared(here: Path) -> None:
    for name, data in (("a", PIXELS), ("b", (PIXELS, LABELS))):
        library.certify("tiny.onnx", data, n=300, seed=7, out=f"{name}.tsv")
    with pytest.raises(ResultsError, match="only one of them has labels"):
        library.report(["a.tsv", "b.tsv"])


# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "a.png", "a b", "tab\there", "line\nbreak", "back\\slash", "\\x41", "ü", "\udc80"]
)
def test_names_become_cells_and_names_again(name: str) -> None:
    cell = escaped(name)
    assert not set("\t\n\r\x00") & set(cell)
    assert unescaped(cell) == name
    cell.encode()


@pytest.mark.parametrize("text", ["\\x41", "a\\", "\\q", "\\U00110000", "x" * 10_001, "\u2028"])
def test_cells_that_no_name_becomes(text: str) -> None:
    with pytest.raises(ValueError, match="file is"):
        unescaped(text)


def test_names_of_files_and_classes_do_not_steer_the_terminal(intrs: Intrs, here: Path) -> None:
    Image.fromarray(PIXELS[0]).save(here / "a\x1b]0;mine.png")
    code, out, _ = intrs("certify", "tiny.onnx", "a\x1b]0;mine.png", *QUICK, "--out", "a.tsv")
    assert code == 0
    assert "\x1b" not in out
    assert "a\\x1b]0;mine.png" in out
    save_images(here / "named.npz", classes=np.array(["\x1b[31mcat", "dog", "ship"]))
    code, out, _ = intrs("certify", "tiny.onnx", "named.npz", *QUICK, "--out", "b.tsv")
    assert code == 0
    assert "\x1b" not in out


def test_labels_and_files_exclude_each_other(here: Path) -> None:
    found = library.certify("tiny.onnx", "mine", n=300, seed=7, max=1, out="r.tsv")
    (row,) = found.rows
    cells = row.cells()
    assert Row.parse("\t".join(cells.values()), tuple(cells)) == row
    with pytest.raises(ValueError, match="label is 0"):
        Row.parse("\t".join((cells | {"label": "0"}).values()), tuple(cells))
    without = {name: text for name, text in cells.items() if name != FILE}
    with pytest.raises(ValueError, match="label is -1"):
        Row.parse("\t".join(without.values()), tuple(without))


@pytest.mark.parametrize(("label", "file"), [(3, None), (None, "a\tb.png"), (None, "")])
def test_kept_votes_without_labels(label: int | None, file: str | None) -> None:
    entry = Kept(4, 80, label, 0, 0, 12, (1, 2), (3, 4), file)
    assert Kept.parse(entry.line().rstrip("\n")) == entry


def test_a_description_that_contradicts_its_lines(here: Path) -> None:
    library.certify("tiny.onnx", "mine", n=300, seed=7, max=2, out="r.tsv")
    sidecar = here / "r.tsv.json"
    fields = json.loads(sidecar.read_text())
    for changed in ({"unlabelled": False}, {"unlabelled": 1}, {"fit": "stretch"}, {"data": ["one"]}, {"data": [1, 2]}):
        sidecar.write_text(json.dumps(fields | changed))
        with pytest.raises(ResultsError, match=r"columns are not those|is missing or wrong"):
            metrics.read(here / "r.tsv")
