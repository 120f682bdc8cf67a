"""Metrics: equal to a few lines of pandas, and no number where there is none."""

from __future__ import annotations

import json
import lzma
import math
import os
import re
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from runs import prediction, predictions, with_fields
from test_results import ROWS, RUN, row, write

from intrs import metrics
from intrs.errors import IntrsError, ResultsError, SettingsError
from intrs.metrics import Answer, Mean, Results, Share
from intrs.metrics.foreign import ONE_VALUE
from intrs.reports.runs import open_runs
from intrs.reports.words import cautions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.results import Row

# Every twentieth line of a public log of 10,000 CIFAR-10 test images (jh-jeong/smoothing-consistency, MIT).
EXCERPT = Path(__file__).parent / "files" / "resnet20_gaussian_sigma0.50_every20th.tsv.xz"
HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
LINES = (
    "0\t3\t3\t0.5\t1\t0:00:01",
    "1\t8\t-1\t0.0\t0\t0:00:01",
    "2\t8\t1\t0.25\t0\t0:00:01",
    "3\t1\t1\t0.25\t1\t0:00:01",
)
RADII = [Fraction(k, 20) for k in range(41)]


def log_file(path: Path, lines: Sequence[str] = LINES, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def certified_accuracy(frame: Any, radius: Fraction) -> float:
    """The definition, in pandas."""
    return float(((frame.correct == 1) & (frame.radius >= float(radius))).mean())


# --- Numbers ---------------------------------------------------------------------------------------------------------


def test_a_public_log_against_pandas() -> None:
    log, frame = metrics.read(EXCERPT), pd.read_csv(EXCERPT, delimiter="\t")
    answered = frame[frame.predict != -1]
    assert len(log.answers) == 500
    for radius in RADII:
        assert log.certified_accuracy(radius).value == certified_accuracy(frame, radius)
        assert log.certified_accuracy(radius, "answered").value == certified_accuracy(answered, radius)
        assert log.certified(radius).part == (answered.radius >= float(radius)).sum()
    assert log.answered().value == len(answered) / 500
    assert log.abstained() == Share(500 - len(answered), 500)
    acr = log.average_radius()
    assert acr is not None
    assert acr.value == pytest.approx((frame.radius * frame.correct).mean(), rel=1e-12)
    assert log.plain_accuracy() is None, "a log without votes says nothing of it"
    assert (log.run, log.complete, log.planned) == (None, True, 500)


PUBLISHED = {
    "cifar10_resnet20_gaussian_sigma0.50": ".670 .554 .428 .314 .220 .139 .081",
    "cifar10_resnet20_consistency10_sigma0.50": ".605 .544 .477 .409 .344 .280 .222",
    "cifar10_resnet110_gaussian_sigma0.25": ".766 .612 .422 .251",
}


@pytest.mark.skipif("INTRS_PUBLIC_LOGS" not in os.environ, reason="INTRS_PUBLIC_LOGS names no folder of public logs")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_accuracies(name: str) -> None:
    log = metrics.read(Path(os.environ["INTRS_PUBLIC_LOGS"]) / f"{name}.tsv.xz")
    found = [log.certified_accuracy(Fraction(k, 4)).value for k in range(len(PUBLISHED[name].split()))]
    assert " ".join(f"{value:.3f}"[1:] for value in found if value is not None) == PUBLISHED[name]


def test_our_results_against_pandas(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    log, frame = metrics.read(path), pd.read_csv(path, delimiter="\t")
    for radius in RADII:
        assert log.certified_accuracy(radius).value == certified_accuracy(frame, radius)
    # Row 3 is certified at exactly 1.0 and row 4, one squared level short of it, is wrong anyway.
    assert [log.certified_accuracy(radius).part for radius in log.radii()] == [2, 1, 1, 1, 1]
    assert log.answered() == Share(3, 4)
    assert log.plain_accuracy() == Share(3, 4), "class 1 has most votes everywhere, and is the label of three"
    assert (log.run, log.complete, log.planned) == (RUN, True, 4)


def test_votes_of_the_true_class(tmp_path: Path) -> None:
    """Class 1 has 80 of 100 votes everywhere; it is the true class of three images, and class 0 that of one."""
    log = metrics.read(write(tmp_path / "r.tsv", ROWS))
    assert [answer.vote_share for answer in log] == [Fraction(4, 5), Fraction(4, 5), Fraction(4, 5), Fraction(1, 5)]
    found = [log.voted(share) for share in (0, "1/5", 0.2001, Fraction(4, 5))]
    assert found == [Share(4, 4), Share(4, 4), Share(3, 4), Share(3, 4)]
    assert log.voted(Fraction(4, 5) + Fraction(1, 10**30)) == Share(0, 4), "compared as fractions"
    assert log.voted(1) == Share(0, 4)
    assert log.to_dataframe().vote_share.tolist() == [0.8, 0.8, 0.8, 0.2]


def test_votes_without_labels_are_those_of_the_class_that_selection_chose() -> None:
    """Even where another class has most votes: the same votes would have chosen it, and look surer than they are."""
    chosen = replace(ROWS[1], label=None, file="a.png", votes=20, counts=(20, 80))
    found = Results.of(None, with_fields(RUN, unlabelled=True), [chosen])
    assert found[0].vote_share == Fraction(1, 5)
    assert found.voted("1/2") == Share(0, 1)


def test_no_votes_and_no_such_class(tmp_path: Path) -> None:
    assert metrics.read(EXCERPT).voted("1/2") is None, "a log without votes says nothing of them"
    assert {answer.vote_share for answer in metrics.read(EXCERPT)} == {None}
    assert Results.of(None, RUN, []).voted(0) is None
    assert Results.of(None, RUN, [replace(ROWS[0], label=7)]).voted(0.01) == Share(0, 1), "a class beyond the network's"


@pytest.mark.parametrize("share", ["-1/100", 1.01, "much"])
def test_shares_of_votes_that_are_none(share: Any) -> None:
    with pytest.raises(SettingsError, match="share: expected a"):
        Results.of(None, RUN, ROWS).voted(share)


def test_radii_are_compared_exactly(tmp_path: Path) -> None:
    """65025 squared levels are radius 1, and 65024 are less, however close."""
    log = metrics.read(write(tmp_path / "r.tsv", ROWS))
    assert log.certified(Fraction(1)).part == 1
    assert log.certified(1 + Fraction(1, 10**30)).part == 0
    below = Fraction(65024, 65025)  # its root exceeds it
    assert log.certified(below).part == 2


@pytest.mark.parametrize("k", range(1, 9))
def test_quarters_at_the_edge_of_every_radius(k: int) -> None:
    least = -(-((255 * k) ** 2) // 16)  # the first integer R2 with sqrt(R2)/255 >= k/4
    quarters = [Fraction(i, 4) for i in range(k + 1)]
    assert Results.of(Path("r.tsv"), RUN, [row(0, least)]).radii() == quarters
    assert Results.of(Path("r.tsv"), RUN, [row(0, least - 1)]).radii() == quarters[:-1]


@pytest.mark.parametrize("rows", [[], [ROWS[1]]], ids=["nothing", "an abstention"])
def test_quarters_of_little(rows: list[Row]) -> None:
    log = Results.of(Path("r.tsv"), RUN, rows)
    assert log.radii() == [0]
    assert log.certified_accuracy(Fraction(0)) == log.answered() == Share(0, len(rows))
    assert log.certified_accuracy(Fraction(0), "answered").value is None


def binomial(n: int, k: int, p: float) -> float:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


def test_share_intervals_are_clopper_and_pearson_s() -> None:
    for part, whole in ((0, 7), (7, 7), (3, 7), (125, 200)):
        interval = Share(part, whole).interval
        assert interval is not None
        low, high = interval
        if part:
            assert sum(binomial(whole, i, low) for i in range(part, whole + 1)) == pytest.approx(0.025, rel=1e-9)
        else:
            assert low == 0
        if part < whole:
            assert sum(binomial(whole, i, high) for i in range(part + 1)) == pytest.approx(0.025, rel=1e-9)
        else:
            assert high == 1


def test_share_of_nothing() -> None:
    assert Share(0, 0).value is None
    assert Share(0, 0).interval is None


def test_mean_intervals() -> None:
    """Independent: NumPy, and the textbook's 1.96."""
    values = np.random.default_rng(5).random(400).tolist()
    found = Mean.of(values)
    assert found is not None
    assert found.interval is not None
    half = 1.959963984540054 * np.std(values, ddof=1) / 20
    assert found.interval == pytest.approx((np.mean(values) - half, np.mean(values) + half), rel=1e-12)
    few = Mean.of(values[:29])
    assert few is not None
    assert few.interval is None
    assert Mean.of([]) is None


def test_an_unfinished_run(tmp_path: Path) -> None:
    log = metrics.read(write(tmp_path / "r.tsv", ROWS, with_fields(RUN, max=9)))
    assert (log.complete, log.planned, len(log.answers)) == (False, 9, 4)


def test_predictions_have_no_radius(tmp_path: Path) -> None:
    log = metrics.read(write(tmp_path / "r.tsv", predictions(ROWS), prediction(RUN)))
    assert not log.has_radii


# --- To look at ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.25, "0.25", "1/4", Fraction(1, 4), np.float64(0.25), Decimal("0.25")])
def test_radii_in_any_form(tmp_path: Path, radius: Any) -> None:
    """Image 40 is certified at 1 and is right; 0.1 means one tenth, not the float above it."""
    found = metrics.read(str(write(tmp_path / "r.tsv", ROWS)))
    assert found.certified_accuracy(radius) == Share(1, 4)
    assert found.certified(radius) == Share(2, 4)
    log = metrics.read(log_file(tmp_path / "l.tsv", ["0\t1\t1\t0.1\t1\t-"]))
    assert log.certified_accuracy(0.1) == log.certified_accuracy("0.1") == Share(1, 1)


@pytest.mark.parametrize("radius", [-1, "-1/4", "wide", None, True, [0.25], math.nan])
def test_radii_that_are_none(tmp_path: Path, radius: Any) -> None:
    found = metrics.read(write(tmp_path / "r.tsv", ROWS))
    with pytest.raises(SettingsError, match="radius: expected"):
        found.certified_accuracy(radius)
    with pytest.raises(SettingsError, match="shares are of all or answered, not of 'some'"):
        found.certified_accuracy(0, "some")  # type: ignore[arg-type]


def test_a_share_in_a_session() -> None:
    share = Share(315, 500)
    assert repr(share) == str(share) == f"{share}" == "0.630 (315 of 500, 95 % interval 0.586 to 0.672)"
    assert float(share) == 0.63
    assert f"{share:.1%}" == "63.0%"
    assert repr(Share(0, 0)) == "no share: 0 images"
    assert math.isnan(float(Share(0, 0)))
    assert repr(Mean(0.4, (0.3, 0.5))) == "0.400 (95 % interval 0.300 to 0.500)"
    assert float(Mean(0.4, None)) == 0.4


def test_answers(tmp_path: Path) -> None:
    found = metrics.read(write(tmp_path / "r.tsv", ROWS))
    assert len(found) == 4
    assert [answer.idx for answer in found] == [0, 20, 40, 60]
    assert [answer.certified for answer in found] == [True, False, True, True]
    assert [answer.radius for answer in found][:3] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("square", [Fraction(k, 65025) for k in (1, 2, 3, 65024, 65026, 10**12 + 1)])
def test_a_radius_is_rounded_down(square: Fraction) -> None:
    root = Answer(0, 1, 1, square).radius
    assert Fraction(root) ** 2 <= square < Fraction(math.nextafter(root, math.inf)) ** 2


def test_a_data_frame(tmp_path: Path) -> None:
    """The same as pandas reads from the file, with missing values where the file has -1."""
    rows = [replace(row, time="1 day, 2:00:01.5") if i == 0 else row for i, row in enumerate(ROWS)]
    path = write(tmp_path / "r.tsv", rows)
    made, read = metrics.read(path).to_dataframe(), pd.read_csv(path, delimiter="\t")
    for column in ("idx", "label", "n0", "n", "votes"):
        assert made[column].tolist() == read[column].tolist(), column
        assert pd.api.types.is_integer_dtype(made[column])
    assert made.predict.isna().tolist() == (made.radius_sq.isna()).tolist()
    assert made.radius[made.predict.isna()].tolist() == [0.0]
    assert made.predict.isna().tolist() == (read.predict == -1).tolist() == (~made.certified).tolist()
    assert str(made.predict.dtype) == "Int64"
    assert made.radius_sq[2] == 65025
    assert made.correct.tolist() == (read.correct == 1).tolist()
    assert (made.correct.dtype, made.certified.dtype) == (bool, bool)
    assert made.radius.tolist() == pytest.approx(read.radius.tolist(), abs=1e-6)
    assert made.counts[0] == (20, 80)
    assert made.seconds.tolist() == [93601.5, 1.25, 1.25, 1.25]
    assert made[made.correct & (made.radius >= 0.25)].shape[0] == 1


def test_a_data_frame_of_a_public_log() -> None:
    made, read = metrics.read(EXCERPT).to_dataframe(), pd.read_csv(EXCERPT, delimiter="\t")
    assert list(made) == ["idx", "label", "predict", "certified", "radius", "correct"]
    assert made.predict.fillna(-1).tolist() == read.predict.tolist()


def test_predictions_say_nothing_about_radii(tmp_path: Path) -> None:
    found = metrics.read(write(tmp_path / "p.tsv", predictions(ROWS), prediction(RUN)))
    assert not {"radius", "radius_sq", "certified"} & set(found.to_dataframe())
    assert found.average_radius() is None
    assert found.certified_accuracy(0).part == 2
    with pytest.raises(IntrsError, match="these are predictions, which have no radius"):
        found.certified_accuracy(0.1)


def test_a_share_is_a_number() -> None:
    share = Share(1, 4)
    assert share == 0.25
    assert share != Share(2, 8)
    assert 0.2 < share < 0.3
    assert share >= Share(1, 4)
    assert (share * 100, 2 * share, round(share, 1)) == (25.0, 0.5, 0.2)
    assert np.mean([float(share), 0.75]) == 0.5


def test_a_data_frame_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = metrics.read(write(tmp_path / "r.tsv", ROWS))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(IntrsError, match="pip install pandas"):
        found.to_dataframe()


def test_results_in_a_session(tmp_path: Path) -> None:
    found = metrics.read(write(tmp_path / "r.tsv", ROWS, with_fields(RUN, max=9)))
    assert repr(found).splitlines() == [
        "certify m.onnx on d.npz: discrete noise of sigma 0.25, 100 samples per image, alpha 0.001",
        "4 of 9 planned images, 1 abstention, in r.tsv",
        "radius                  0   0.25    0.5   0.75      1",
        "certified accuracy  0.500  0.250  0.250  0.250  0.250",
    ]
    page = found._repr_html_()
    assert "<td>0.25</td><td>0.250</td><td>1 of 4, 0.006 to 0.806</td>" in page
    predicted = metrics.read(write(tmp_path / "p.tsv", predictions(ROWS), prediction(RUN)))
    assert "correct: 0.500 (2 of 4," in repr(predicted)
    assert "certified accuracy" not in predicted._repr_html_()
    assert repr(metrics.read(EXCERPT)).startswith("log of another program: ")
    assert "0 of 4 planned images, 0 abstentions" in repr(Results.of(None, RUN, []))


def test_what_is_shown_is_short_and_harmless(tmp_path: Path) -> None:
    """Names come from anywhere, and radii may be large."""
    hostile = with_fields(RUN, model="\x1b[31m<img src=x>" + "a" * 9000, data="<b>")
    found = metrics.read(write(tmp_path / "<i>.tsv", ROWS, hostile))
    assert "\x1b" not in repr(found)
    assert max(map(len, repr(found).splitlines())) < 200
    assert not re.search("<img|<b>|<i>|\x1b", found._repr_html_())
    log = metrics.read(log_file(tmp_path / "l.tsv", ["0\t1\t1\t999999\t1\t-"]))
    assert len(repr(log)) < 400


def test_an_adaptive_run_shows_no_share_that_it_was_not_asked_for(tmp_path: Path) -> None:
    """If it was asked for too many radii for a line, every second one is shown."""
    rows = [replace(row, look=0, rule="spend-" + "0" * 16) for row in ROWS]
    many = ",".join(f"1/{k}" for k in range(11, 1, -1))
    asked = with_fields(RUN, adaptive=f"n=100 radii={many} give_up=1/2")
    found = metrics.read(write(tmp_path / "a.tsv", rows, asked))
    assert repr(found).splitlines()[-2].split()[1:] == ["1/11", "1/9", "1/7", "0.2", "1/3"]
    assert found.to_dataframe().look.tolist() == [0] * 4


# --- Logs of descendants ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("idx\tlabel\tpredict\tradius\tcorrect\tpABar\tAt\tAd\ttime", "0\t3\t3\t0.5\t1\t0.99\t1\t2\t0:00:01"),
        ("original_idx\tlabel\tpredict\tradius\tcorrect\ttime", "0\t3\t3\t5e-1\t1\t0:00:01"),
        ("idx\tlabel\tpredict\tradius", "0\t3\t3\t.5".replace("\t.5", "\t0.5")),
        ("index\tlabel\tpredict\tradius\tSta_correct\ttime\tcount", "0\t3\t3.0\t0.500\t0\t-\t7"),
    ],
)
def test_other_headers(tmp_path: Path, header: str, line: str) -> None:
    (answer,) = metrics.read(log_file(tmp_path / "l.tsv", [line], header)).answers
    assert (answer.idx, answer.truth, answer.label, answer.square) == (0, 3, 3, Fraction(1, 4))


def test_windows_line_ends_and_xz(tmp_path: Path) -> None:
    text = "\r\n".join([HEADER, *LINES]) + "\r\n"
    (tmp_path / "l.tsv.xz").write_bytes(lzma.compress(text.encode()))
    log = metrics.read(tmp_path / "l.tsv.xz")
    assert log.certified_accuracy(Fraction(1, 4)) == Share(2, 4)
    assert log.certified_accuracy(Fraction(0), "answered") == Share(2, 3)


def replaced(number: int, line: str) -> list[str]:
    return [line if i == number else old for i, old in enumerate(LINES)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (replaced(1, "1\t8\t-1\t0.0\t0"), r"line 3: malformed \(5 columns where the first line names 6\)"),
        (replaced(0, "0\t3\t3\tnan\t1\t-"), "line 2: malformed .radius is 'nan'"),
        (replaced(0, "0\t3\t3\tinf\t1\t-"), "radius is 'inf'"),
        (replaced(0, "0\t3\t3\t-0.5\t1\t-"), "radius is '-0.5'"),
        (replaced(0, "0\t3\t3\t1e999999999\t1\t-"), "radius is '1e999999999'"),
        (replaced(0, "0\t3\t3\t1e6\t1\t-"), "radius is 1e6"),
        (replaced(0, "0\t3\t3\t0.5\t0\t-"), "correct is 0, but predict is 3 and label is 3"),
        (replaced(0, "0\tcat\t3\t0.5\t0\t-"), "label is 'cat'"),
        (replaced(0, "0\t-3\t3\t0.5\t0\t-"), "a negative number"),
        (replaced(3, LINES[0]), "line 5: image 0 was on line 2 already"),
        (replaced(3, HEADER), "line 5: malformed"),
        ([], "0 lines"),
    ],
)
def test_malformed_logs(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(IntrsError, match=message):
        metrics.read(log_file(tmp_path / "l.tsv", lines))


@pytest.mark.parametrize(
    "header", ["", "idx\tlabel\tpredict", "idx label predict radius", "idx\tidx\tlabel\tpredict\tradius"]
)
def test_not_a_log(tmp_path: Path, header: str) -> None:
    with pytest.raises(IntrsError, match="its first line names no column"):
        metrics.read(log_file(tmp_path / "l.tsv", LINES, header))


def test_not_even_text(tmp_path: Path) -> None:
    (tmp_path / "l.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(IntrsError, match="not a text file"):
        metrics.read(tmp_path / "l.tsv")
    (tmp_path / "l.tsv.xz").write_bytes(b"no xz")
    with pytest.raises(IntrsError, match="cannot read"):
        metrics.read(tmp_path / "l.tsv.xz")
    (tmp_path / "half.tsv.xz").write_bytes(EXCERPT.read_bytes()[:1000])
    with pytest.raises(IntrsError, match="cannot read"):
        metrics.read(tmp_path / "half.tsv.xz")
    with pytest.raises(IntrsError, match="No such file"):
        metrics.read(tmp_path / "none.tsv")
    os.mkfifo(tmp_path / "pipe.tsv")
    with pytest.raises(ResultsError, match="not a regular file"):
        metrics.read(tmp_path / "pipe.tsv")
    (tmp_path / "long.tsv").write_bytes(b"x" * 10**6)
    with pytest.raises(IntrsError, match="line 1: too long"):
        metrics.read(tmp_path / "long.tsv")


@pytest.mark.parametrize("column", ONE_VALUE)
def test_two_runs_in_one_log(tmp_path: Path, column: str) -> None:
    lines = [f"{line}\t{'0.25' if i < 2 else '0.5'}" for i, line in enumerate(LINES)]
    with pytest.raises(IntrsError, match=f"line 4: malformed .{column} is 0.5, but 0.25 before: two runs mixed"):
        metrics.read(log_file(tmp_path / "l.tsv", lines, f"{HEADER}\t{column}"))


# --- Our files -------------------------------------------------------------------------------------------------------


def test_a_missing_description(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    (tmp_path / "r.tsv.json").unlink()
    with pytest.raises(IntrsError, match=r"r.tsv.json, which says how it was made, is missing"):
        metrics.read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 50}, "runs with different samples are mixed"),
        ({"n": 200}, "runs with different samples are mixed"),
        ({"n0": 11}, "runs with different samples are mixed"),
        ({"max": 3}, "4 lines, but r.tsv.json speaks of 3 images"),
        ({"sigma": "9"}, "sigma must lie between"),
        ({"alpha": "2"}, "alpha"),
        ({"noise": "white"}, "field 'noise' is missing or wrong"),
    ],
)
def test_a_description_of_something_else(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    (tmp_path / "r.tsv.json").write_text(json.dumps(RUN.to_json() | change))
    with pytest.raises(ResultsError, match=message):
        metrics.read(path)


def test_lines_that_their_votes_do_not_give_are_refused(tmp_path: Path) -> None:
    """Whatever is shown, plotted or counted has been judged again; 80 votes of 100 do not certify radius 1."""
    told = with_fields(RUN, dimension=3072, classes=2)
    with pytest.raises(ResultsError, match=r"line 2: .*; the file was changed after it was written"):
        metrics.read(write(tmp_path / "r.tsv", ROWS[2:], told))


def test_a_packed_results_file_is_read_as_it_was(tmp_path: Path) -> None:
    """`xz r.tsv` leaves r.tsv.json as it is."""
    path = write(tmp_path / "r.tsv", ROWS)
    plain = metrics.read(path)
    packed = tmp_path / "r.tsv.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()
    found = metrics.read(packed)
    assert (found.rows, found.run) == (plain.rows, plain.run)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ResultsError, match=r"cannot read .*r\.tsv\.xz: damaged"):
        metrics.read(packed)


def test_a_packed_results_file_cannot_be_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "r.tsv", ROWS)
    (tmp_path / "r.tsv.xz").write_bytes(lzma.compress(path.read_bytes()))
    size = path.stat().st_size
    monkeypatch.setattr("intrs.results.reading.MOST_UNPACKED", size)
    assert len(metrics.read(tmp_path / "r.tsv.xz")) == len(ROWS)
    monkeypatch.setattr("intrs.results.reading.MOST_UNPACKED", size - 1)
    assert len(metrics.read(path)) == len(ROWS)
    with pytest.raises(ResultsError, match="unpacks to more than"):
        metrics.read(tmp_path / "r.tsv.xz")


def test_an_adaptive_run_says_nothing_but_what_it_was_asked(tmp_path: Path) -> None:
    """Not at smaller radii either: where 1/2 was given up, 1/4 is open, and the share there comes out too low."""
    rows = [replace(row, look=0, rule="spend-" + "0" * 16) for row in ROWS]
    asked = with_fields(RUN, adaptive="n=100 radii=1/4,1/2 give_up=1/2")
    log = metrics.read(write(tmp_path / "a.tsv", rows, asked))
    assert log.average_radius() is None
    assert [log.was_asked(r) for r in ("0", "0.25", "2/5", "1/2", "3/4")] == [False, True, False, True, False]
    fixed = metrics.read(write(tmp_path / "b.tsv", ROWS))
    assert fixed.average_radius()
    assert fixed.was_asked(Fraction(9))


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("3/10,3/5", "0.3,0.6"), ("0,1/8,2", "0,0.125,2"), ("3/10,2,3,4", "0.3,2"), ("2", "2")],
)
def test_tables_of_an_adaptive_run_have_the_radii_that_it_was_asked_for(tmp_path: Path, asked: str, shown: str) -> None:
    """Up to the first that nothing reaches; the largest radius of these lines is 1."""
    rows = [replace(row, look=0, rule="spend-" + "0" * 16) for row in ROWS]
    told = with_fields(RUN, adaptive=f"n=100 radii={asked} give_up=1/2")
    log = metrics.read(write(tmp_path / "a.tsv", rows, told))
    assert log.radii() == [Fraction(r) for r in shown.split(",")]
    assert repr(log).splitlines()[-2].split()[1:] == shown.split(",")


# --- Several files ---------------------------------------------------------------------------------------------------


def test_join_in_any_order(tmp_path: Path) -> None:
    """Parts one after the other and interleaved: the images in their order, each part with its own description."""
    for first, skip, pieces in ((2, 1, (ROWS[:2], ROWS[2:])), (1, 2, (ROWS[::2], ROWS[1::2]))):
        folder = tmp_path / str(skip)
        folder.mkdir()
        one = metrics.read(write(folder / "a.tsv", list(pieces[0]), with_fields(RUN, max=2, skip=skip)))
        two = metrics.read(write(folder / "b.tsv", list(pieces[1]), with_fields(RUN, max=2, skip=skip, first=first)))
        for parts in ([one, two], [two, one]):
            joined = metrics.join(parts)
            assert [answer.idx for answer in joined] == [row.idx for row in joined.rows] == [0, 20, 40, 60]
            assert (joined.planned, joined.complete) == (4, True)
            assert joined.run == with_fields(RUN, max=4, skip=skip)
            assert joined.parts == (one, two)
            assert joined.between == 0
    again = metrics.join([joined])
    assert again.parts == joined.parts
    assert metrics.join([one]).answers == one.answers
    with pytest.raises(ResultsError, match="nothing to join"):
        metrics.join([])


def test_an_image_that_two_parts_plan_counts_once(tmp_path: Path) -> None:
    """The first part was given up after two of its four images, and the second began where it stood."""
    one = metrics.read(write(tmp_path / "a.tsv", ROWS[:2], with_fields(RUN, max=4)))
    two = metrics.read(write(tmp_path / "b.tsv", ROWS[2:], with_fields(RUN, max=2, first=2)))
    joined = metrics.join([two, one])
    assert (joined.planned, joined.complete) == (4, True)
    assert "planned" not in repr(joined)
    far = metrics.read(write(tmp_path / "c.tsv", ROWS[2:], with_fields(RUN, max=10**14, first=2)))
    assert metrics.join([one, far]).planned == 4 + 10**14, "what a file claims is not counted one by one"


@pytest.mark.parametrize(
    ("skip", "first", "between"), [(1, 2, 0), (1, 3, 1), (1, 9, 7), (2, 4, 0), (2, 8, 2), (2, 1, 0)]
)
def test_images_between_parts_are_counted(tmp_path: Path, skip: int, first: int, between: int) -> None:
    one = metrics.read(write(tmp_path / "a.tsv", ROWS[:2], with_fields(RUN, max=2, skip=skip)))
    two = metrics.read(write(tmp_path / "b.tsv", ROWS[2:], with_fields(RUN, max=2, skip=skip, first=first)))
    assert metrics.join([one, two]).between == between
    entries = open_runs([one, two], ["both"], joined=True)
    words = [f"both was put together from parts that leave out {between} images between them."]
    assert cautions(entries) == (words if between else [])


def test_join(tmp_path: Path) -> None:
    one = metrics.read(write(tmp_path / "a.tsv", ROWS[:2], with_fields(RUN, max=2)))
    two = metrics.read(write(tmp_path / "b.tsv", ROWS[2:], with_fields(RUN, max=3, first=2)))
    whole = metrics.read(write(tmp_path / "c.tsv", ROWS))
    joined = metrics.join([one, two])
    assert joined.answers == whole.answers
    assert (joined.planned, joined.complete) == (5, False)
    assert joined.paths == (tmp_path / "a.tsv", tmp_path / "b.tsv")


def _of_size(row: Row, n: int) -> Row:
    """With more votes, for a class more."""
    return replace(row, n=n, counts=(*row.counts, n - row.n))


@pytest.mark.parametrize(
    ("field", "value"),
    [("sigma", "1/2"), ("data_sha256", "2" * 64), ("n", 200), ("noise", "rounded"), ("alpha", "1/100"), ("seed", "0x8"),
     ("bound", "paper"), ("identity", "3" * 64)],
)  # fmt: skip
def test_what_must_not_be_joined(tmp_path: Path, field: str, value: Any) -> None:
    one = metrics.read(write(tmp_path / "a.tsv", ROWS[:2]))
    rows = [_of_size(row, value) for row in ROWS[2:]] if field == "n" else ROWS[2:]
    two = metrics.read(write(tmp_path / "b.tsv", rows, with_fields(RUN, **{field: value})))
    with pytest.raises(IntrsError, match=f"cannot join .*a.tsv and .*b.tsv:\n  {field} is .* and {value} in the other"):
        metrics.join([one, two])


def test_one_image_twice_or_half_described(tmp_path: Path) -> None:
    one = metrics.read(write(tmp_path / "a.tsv", ROWS))
    two = metrics.read(write(tmp_path / "b.tsv", ROWS))
    with pytest.raises(IntrsError, match="image 0 is in both"):
        metrics.join([one, two])
    with pytest.raises(IntrsError, match="only one of them says how it was made"):
        metrics.join([one, metrics.read(log_file(tmp_path / "l.tsv"))])


def test_different_data_are_not_compared(tmp_path: Path) -> None:
    ours = metrics.read(write(tmp_path / "a.tsv", ROWS))  # image 0 is of class 1 there
    with pytest.raises(IntrsError, match="about different data: image 0 is of class 1 in one and 3 in the other"):
        metrics.check_comparable([ours, metrics.read(log_file(tmp_path / "l.tsv"))])
    metrics.check_comparable([ours, metrics.read(log_file(tmp_path / "m.tsv", ["0\t1\t1\t0.5\t1\t-"]))])
    other = metrics.read(write(tmp_path / "b.tsv", ROWS[2:], with_fields(RUN, data_sha256="2" * 64)))
    metrics.check_comparable([ours, other])
    apart = metrics.read(write(tmp_path / "c.tsv", ROWS[:2]))
    with pytest.raises(IntrsError, match="have no image in common"):
        metrics.check_comparable([apart, other])
