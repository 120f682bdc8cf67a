"""Continuous noise and networks in floating point: the classical method, by the same commands as the integers."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import mpmath  # type: ignore[import-untyped]
import numpy as np
import onnx
import pytest
from chisquare import survival
from onnx import helper
from tiny_model import CLASSES, SIDE, images, save_images, save_model

from intrs import results
from intrs.certificate import Certifier
from intrs.errors import IntrsError
from intrs.float_engine import FloatEngine, open_engine
from intrs.noise import LAWS, Noise
from intrs.results import CLASSICAL
from intrs.smooth import Smooth
from intrs.votes import MOST_VALUES, SELECTION, Samples, count, noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Intrs = Callable[..., tuple[int, str, str]]

pytest.importorskip("onnxruntime")
NOISE = Noise.of("continuous", "0.25")
IMAGE = images()[0][1]
RUN = ("--noise", "continuous", "--n", "300", "--seed", "7")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the tiny model, its float twin, and images for them."""
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "int8.onnx")
    with_metadata(save_model(tmp_path / "float.onnx", quantized=False), {"intrs.pixels": "unit", "intrs.sigma": "0.25"})
    save_images(tmp_path / "tiny.npz")
    return tmp_path


def with_metadata(path: Path, entries: dict[str, str]) -> None:
    model = onnx.load(path)
    helper.set_model_props(model, entries)
    onnx.save(model, path)


# --- the noise -------------------------------------------------------------------------------------------------------


def test_a_sample_is_a_function_of_its_address() -> None:
    whole = noisy_images(IMAGE, NOISE, Samples(5, 9, 0, 20))
    assert whole.dtype == np.float32
    assert np.array_equal(whole[13:], noisy_images(IMAGE, NOISE, Samples(5, 9, 13, 7)))
    apart = [(5, 9, 0), (6, 9, 0), (5, 10, 0), (5, 9, 1), (5, 9, SELECTION), (5 + 2**128, 9, 0)]
    drawn = [noisy_images(IMAGE, NOISE, Samples(*address, 1)).tobytes() for address in apart]
    assert len(set(drawn)) == len(apart)


def test_the_law_of_the_noise() -> None:
    """Cells of equal probability, and no correlation between neighbours: false alarms 2 in a million, seed fixed."""
    drawn = noisy_images(np.zeros((16, 16, 3), np.uint8), NOISE, Samples(3, 0, 0, 400)).reshape(400, -1) / float(
        NOISE.grid_sigma
    )
    quantiles = [float(mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(i) / 50 - 1)) for i in range(1, 50)]
    counts = np.bincount(np.searchsorted(quantiles, drawn.ravel()), minlength=50)
    expected = drawn.size / 50
    assert survival(float(((counts - expected) ** 2 / expected).sum()), 49) > 1e-6
    for a, b in ((drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])):
        assert abs(float((a * b).mean())) * a.size**0.5 < 5


def test_laws_on_the_integers_keep_their_tables() -> None:
    assert LAWS == ("discrete", "rounded", "continuous")
    for use in (NOISE.table, lambda: NOISE.mass(0), lambda: NOISE.cdf(0)):
        with pytest.raises(IntrsError, match="has no masses and no table"):
            use()
    assert NOISE.tau(10**6, 10**6) == 0


# --- the radius ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("votes_", "n"), [(60, 100), (950, 1000), (9999, 10_000), (10_000, 10_000), (560, 1000)])
@pytest.mark.parametrize("sigma", ["0.12", "1"])
def test_radius(votes_: int, n: int, sigma: str) -> None:
    """sigma Phi^-1(p), p by Clopper and Pearson: with mpmath, by bisection on the incomplete beta function."""
    alpha, found = (
        Fraction(1, 1000),
        Certifier(Noise.of("continuous", sigma), 3072, n, Fraction(1, 1000)).radius_sq(votes_),
    )
    with mpmath.workdps(30):
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        for _ in range(90):
            p = (low + high) / 2
            tail = mpmath.betainc(votes_, n - votes_ + 1, 0, p, regularized=True)
            low, high = (p, high) if tail < mpmath.mpf(alpha.numerator) / alpha.denominator else (low, p)
        if low <= 0.5:
            assert found is None
            return
        reach = 255 * mpmath.mpf(sigma) * mpmath.sqrt(2) * mpmath.erfinv(2 * low - 1)
        assert found == int(mpmath.ceil(reach**2)) - 1


def test_two_classes() -> None:
    """sigma / 2 (Phi^-1(p_A) - Phi^-1(p_B)), with mpmath from the bounds that the certifier uses."""
    from intrs.certificate import lower_bound, upper_bound

    certifier = Certifier(NOISE, 48, 1000, Fraction(1, 1000), form="two", classes=3)
    level = Fraction(1, 3000)
    p_a, p_b = lower_bound(600, 1000, level), upper_bound(250, 1000, level)
    with mpmath.workdps(30):
        a, b = (mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p.numerator) / p.denominator - 1) for p in (p_a, p_b))
        expected = int(mpmath.floor((mpmath.mpf("63.75") / 2 * (a - b)) ** 2))
    assert certifier.radius_sq_two(600, 250) == expected


def test_no_tables_for_devices() -> None:
    with pytest.raises(IntrsError, match="tables are for integer noise"):
        Certifier(NOISE, 48, 100, Fraction(1, 1000)).table()


# --- the engine ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["int8.onnx", "float.onnx"])
def test_votes_add_up(here: Path, name: str) -> None:
    engine = open_engine(here / name)
    whole = count(engine, IMAGE, NOISE, Samples(1, 3, 0, 700))
    assert whole == count(engine, IMAGE, NOISE, Samples(1, 3, 0, 130)) + count(
        engine, IMAGE, NOISE, Samples(1, 3, 130, 570)
    )
    assert whole.count == 700
    assert max(whole.counts) < 700
    assert whole == count(open_engine(here / name, threads=3), IMAGE, NOISE, Samples(1, 3, 0, 700))


def test_scores_of_the_float_network(here: Path) -> None:
    engine = open_engine(here / "float.onnx", threads=2)
    assert (engine.input_shape, engine.classes, engine.quantized) == ((SIDE, SIDE, 3), CLASSES, False)
    model = onnx.load(here / "float.onnx")
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]).astype(np.float64)
    drawn = noisy_images(IMAGE, NOISE, Samples(1, 0, 0, 100))
    right = np.einsum("nhwc,kchw->nk", drawn.astype(np.float64) / 255, weights)
    assert np.allclose(engine(drawn), right, rtol=1e-4, atol=1e-2)


def test_the_int8_network_quantizes_the_noisy_sum(here: Path) -> None:
    """By the file's own quantizer and integers: what rounding to nearest even and saturation make of the sum."""
    drawn = noisy_images(IMAGE, NOISE, Samples(1, 0, 0, 100))
    codes = np.clip(np.rint(drawn / np.float32(255) * 64) + 96, 0, 255) - 96
    model = onnx.load(here / "int8.onnx")
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}["codes"].astype(np.int64)
    right = np.einsum("nhwc,kchw->nk", codes, weights) / 128 / 64
    assert np.allclose(open_engine(here / "int8.onnx")(drawn), right, atol=0.05)


@pytest.mark.parametrize(("kernels", "asked"), [("amx", "0"), ("avx512vnni", "0"), ("avx2", "1"), ("neon", "1")])
def test_int8_is_told_to_be_right_where_it_would_saturate(
    here: Path, monkeypatch: pytest.MonkeyPatch, kernels: str, asked: str
) -> None:
    import onnxruntime  # type: ignore[import-untyped]

    told: dict[str, str] = {}

    class Options(onnxruntime.SessionOptions):  # type: ignore[misc]
        def add_session_config_entry(self, key: str, value: str) -> None:
            told[key] = value
            super().add_session_config_entry(key, value)

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    monkeypatch.setattr("intrs._core.selected_kernels", lambda _: kernels)
    open_engine(here / "int8.onnx")
    assert told == {"session.x64quantprecision": asked}


def test_a_fixed_batch(here: Path) -> None:
    free, model = open_engine(here / "float.onnx"), onnx.load(here / "float.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 8
    onnx.save(model, here / "eight.onnx")
    drawn = noisy_images(IMAGE, NOISE, Samples(1, 0, 0, 21))
    assert np.array_equal(np.argmax(open_engine(here / "eight.onnx")(drawn), 1), np.argmax(free(drawn), 1))


def test_pixels_mean_and_std(here: Path) -> None:
    """(p / 255 - mean) / std and p itself, against the plain file fed with the right values."""
    plain, drawn = open_engine(here / "float.onnx"), noisy_images(IMAGE, NOISE, Samples(1, 0, 0, 10))
    normal = open_engine(here / "float.onnx", mean=[Fraction(1, 2)], std=[Fraction(1, 4), Fraction(1, 2), Fraction(2)])
    assert np.allclose(normal(drawn), plain(((drawn / 255 - 0.5) / [0.25, 0.5, 2] * 255).astype(np.float32)), rtol=1e-3)
    assert np.allclose(
        open_engine(here / "float.onnx", pixels="byte")(drawn), plain((drawn * 255).astype(np.float32)), rtol=1e-3
    )


def test_large_images_come_in_smaller_batches() -> None:
    seen: list[int] = []
    image = np.zeros((MOST_VALUES // 3, 1, 1), np.uint8)

    def first_class(batch: NDArray[np.float32]) -> NDArray[np.int64]:
        seen.append(len(batch))
        return np.zeros(len(batch), np.int64)

    assert Smooth(first_class, NOISE, seed=1, classes=2).sample(image, Samples(1, 0, 0, 7)).counts == (7, 0)
    assert seen == [3, 3, 1]


def test_an_integer_network_takes_integer_noise(here: Path) -> None:
    from intrs.model import load

    with pytest.raises(IntrsError, match="continuous noise is not for integer networks"):
        count(load(here / "int8.onnx"), IMAGE, NOISE, Samples(1, 0, 0, 1))


# --- the commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["float.onnx", "int8.onnx"])
@pytest.mark.parametrize(
    "options",
    [("certify",), ("predict",), ("certify", "--form", "two"), ("certify", "--adaptive", "--radii", "0,.1,.3")],
)
def test_commands_verify(intrs: Intrs, here: Path, model: str, options: tuple[str, ...]) -> None:
    code, out, err = intrs(options[0], model, "tiny.npz", *RUN, *options[1:], "--out", "run.tsv")
    assert code == 0, err
    assert CLASSICAL in " ".join(out.split())
    sidecar = json.loads((here / "run.tsv.json").read_text())
    assert (sidecar["noise"], sidecar["note"]) == ("continuous", CLASSICAL)
    assert sidecar["identity"] == open_engine(here / model).identity
    assert sidecar["kernels"].startswith("onnxruntime ")
    _, rows = results.read(here / "run.tsv")
    assert len({row.predict for row in rows}) > 2
    code, out, err = intrs("verify", "run.tsv", "--threads", "1")
    assert (code, err) == (0, "")
    assert "8 lines checked" in out


def test_verify_finds_one_vote(intrs: Intrs, here: Path) -> None:
    intrs("certify", "float.onnx", "tiny.npz", *RUN, "--out", "run.tsv")
    _, rows = results.read(here / "run.tsv")
    wrong = ",".join(map(str, (rows[1].counts[0] + 1, rows[1].counts[1] - 1, rows[1].counts[2])))
    text = (here / "run.tsv").read_text()
    (here / "run.tsv").write_text(text.replace(",".join(map(str, rows[1].counts)), wrong))
    code, _, err = intrs("verify", "run.tsv")
    assert code == 1
    assert "line 3" in err
    assert "another machine or version may round differently" in err


def test_resume(intrs: Intrs, here: Path) -> None:
    intrs("certify", "float.onnx", "tiny.npz", *RUN, "--out", "whole.tsv")
    intrs("certify", "float.onnx", "tiny.npz", *RUN, "--out", "run.tsv", "--max", "3")
    with (here / "run.tsv").open("a") as file:
        file.write("83\t1\t")  # as a kill would leave it
    code, out, _ = intrs("certify", "float.onnx", "tiny.npz", *RUN, "--out", "run.tsv", "--resume")
    assert code == 0
    assert "3 of them done before" in out
    same = [[row.idx, row.radius_sq, row.counts] for row in results.read(here / "run.tsv")[1]]
    assert same == [[row.idx, row.radius_sq, row.counts] for row in results.read(here / "whole.tsv")[1]]
    code, _, err = intrs("certify", "int8.onnx", "tiny.npz", *RUN, "--out", "run.tsv", "--resume")
    assert code == 2
    assert "identity" in err


@pytest.mark.parametrize("option", ["--pixels=byte", "--mean=.5", "--std=.5"])
def test_resume_is_of_the_same_function(intrs: Intrs, here: Path, option: str) -> None:
    """The identity of a float run is its file's, which does not say what goes into it."""
    assert intrs("certify", "float.onnx", "tiny.npz", *RUN, "--max", "2", "--out", "r.tsv")[0] == 0
    before = (here / "r.tsv").read_bytes()
    code, _, err = intrs("certify", "float.onnx", "tiny.npz", *RUN, "--out", "r.tsv", "--resume", option)
    assert code == 2
    assert f"{option[2:].partition('=')[0]}: " in err
    assert (here / "r.tsv").read_bytes() == before


def test_the_two_kinds_of_runs_have_names_of_their_own(intrs: Intrs, here: Path) -> None:
    intrs("certify", "int8.onnx", "tiny.npz", *RUN)
    intrs("certify", "int8.onnx", "tiny.npz", "--n", "300", "--seed", "7")
    assert sorted(p.name for p in here.glob("*.tsv")) == [
        "certify-int8-tiny-sigma0.25-continuous.tsv",
        "certify-int8-tiny-sigma0.25.tsv",
    ]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            "float.onnx tiny.npz",
            "it is a float model, which discrete noise and integers cannot run; quantize it first",
        ),
        ("float.onnx tiny.npz --noise continuous --kernels scalar", "kernels = scalar is for integers"),
        ("float.onnx tiny.npz --noise continuous --bound paper", "the paper's bound is for discrete noise"),
        (
            "float.onnx tiny.npz --noise continuous --mean .5,.5",
            "mean has 2 numbers, but the image has 3",
        ),
        ("float.onnx tiny.npz --noise continuous --std 0", "std must be positive, got 0"),
        ("silent.onnx tiny.npz --noise continuous", "set pixels to 'unit' or 'byte'"),
        ("nan.onnx tiny.npz --noise continuous", "a score is not a finite number"),
        ("broken.onnx tiny.npz --noise continuous", "ONNX Runtime refuses it"),
        ("dynamic.onnx tiny.npz --noise continuous", "looks at the whole batch"),
        ("mixing.onnx tiny.npz --noise continuous", "its scores for an image depend on the other images of the batch"),
        ("elsewhere.onnx tiny.npz --noise continuous", "its weights are in another file"),
        ("branch.onnx tiny.npz --noise continuous", "has graphs of its own"),
    ],
)
def test_mistakes(intrs: Intrs, here: Path, argv: str, words: str) -> None:
    save_model(here / "silent.onnx", quantized=False)
    model = onnx.load(here / "float.onnx")
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0])
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights * np.float32("nan"), "w"))
    onnx.save(model, here / "nan.onnx")
    model = onnx.load(here / "float.onnx")
    model.graph.node[0].op_type = "Convolve"
    onnx.save(model, here / "broken.onnx")
    model = onnx.load(here / "float.onnx")
    model.graph.node.insert(0, helper.make_node("DynamicQuantizeLinear", ["image"], ["q", "s", "z"]))
    model.graph.node[1].input[0] = "q"
    onnx.save(model, here / "dynamic.onnx")
    save_strange(here)
    code, _, err = intrs("certify", *argv.split(), "--n", "100", "--sigma", ".25")
    assert code == 2
    assert words in " ".join(err.split())


def save_strange(folder: Path) -> None:
    """Files whose scores are not those of one image, of one file, or of one graph."""
    model = onnx.load(folder / "float.onnx")
    scores = model.graph.output[0].name
    model.graph.node[-1].output[0] = "alone"
    model.graph.node.append(helper.make_node("ReduceMean", ["alone"], ["mean"], axes=[0]))
    model.graph.node.append(helper.make_node("Sub", ["alone", "mean"], [scores]))
    onnx.save(model, folder / "mixing.onnx")
    model = onnx.load(folder / "float.onnx")
    weights = model.graph.initializer.pop(0)
    node = helper.make_node("Constant", [], [weights.name], value=weights)
    onnx.external_data_helper.set_external_data(node.attribute[0].t, "w.bin", length=len(weights.raw_data))
    (folder / "w.bin").write_bytes(weights.raw_data)
    node.attribute[0].t.ClearField("raw_data")
    model.graph.node.insert(0, node)
    (folder / "elsewhere.onnx").write_bytes(model.SerializeToString())
    model = onnx.load(folder / "float.onnx")
    model.graph.node[0].attribute.append(helper.make_attribute("then_branch", onnx.GraphProto(name="g")))
    onnx.save(model, folder / "branch.onnx")


def test_without_onnx_runtime(intrs: Intrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    code, _, err = intrs("certify", "float.onnx", "tiny.npz", *RUN)
    assert code == 2
    assert "pip install 'intrs[float]'" in err


def test_int8_without_metadata_is_read_as_the_integers_are(here: Path) -> None:
    """The tiny int8 file says nothing of its pixels; its quantizer does."""
    told, said = open_engine(here / "int8.onnx"), open_engine(here / "int8.onnx", pixels="unit")
    drawn = noisy_images(IMAGE, NOISE, Samples(1, 0, 0, 5))
    assert isinstance(told, FloatEngine)
    assert np.array_equal(told(drawn), said(drawn))
    assert not np.array_equal(told(drawn), open_engine(here / "int8.onnx", pixels="byte")(drawn))
