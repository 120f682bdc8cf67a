"""Learning curves: the log of an `intrs train` folder, read without PyTorch and from whoever it may come."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intrs.errors import ResultsError
from intrs.metrics import Share
from intrs.reports.tables import NOTHING, share_html, text
from intrs.training.recipe import MOST_EPOCHS, NOISES
from intrs.training.state import FORMAT, RESULTS, STATE, read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.reports.runs import Entry

MOST_BYTES, LONGEST_TEXT, MOST_IMAGES, LARGEST_LOSS = 2**24, 200, 10**7, 1e9
PHASES = ("float", "qat")
WATCHED = {"test_noisy_accuracy": "test", "held_out_noisy_accuracy": "held out"}
FORMS = {"fp32": "fp32", "fake_quantized": "fake-quantized", "integer": "integer"}


@dataclass(frozen=True)
class Final:
    """How often each form of the finished network is right on all test images; the noise is drawn once per image."""

    images: int
    noisy: dict[str, float]
    clean: dict[str, float]
    agreement: float | None  # of the integer with the fake-quantized network, under noise
    identities: frozenset[str]  # by which a results file names its model


@dataclass(frozen=True)
class LearningCurve:
    """The epochs of one training run; every list has one entry per epoch."""

    name: str
    folder: Path
    words: str
    planned: int
    float_epochs: int
    watched_name: str
    loss: tuple[float, ...] = field(repr=False)
    train: tuple[float, ...] = field(repr=False)
    watched: tuple[float, ...] = field(repr=False)
    final: Final | None

    @property
    def complete(self) -> bool:
        """Whether all epochs are done."""
        return len(self.loss) == self.planned


def open_curves(folders: Sequence[str | Path]) -> list[LearningCurve]:
    """Read the folders, each named by its last part, or by all of it if two end alike."""
    paths = [Path(folder) for folder in folders]
    if twice := next((path for path, count in Counter(p.resolve() for p in paths).items() if count > 1), None):
        raise ResultsError(f"{twice} is named twice")
    ends = Counter(path.resolve().name for path in paths)
    return [_open(path, str(path) if ends[path.resolve().name] > 1 else path.resolve().name) for path in paths]


def _open(folder: Path, name: str) -> LearningCurve:
    path = folder / STATE
    if not path.is_file():
        raise ResultsError(f"{folder}: not the folder of a training run; it has no {STATE}, which training writes")
    try:
        state = _read(path)
        if state.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        made = _curve(folder, name, _object(state, "recipe"), state.get("log"))
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not the state of a training run ({error})") from None
    return made


def _read(path: Path) -> dict[str, Any]:
    found = read_json(path, MOST_BYTES)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return found


def _curve(folder: Path, name: str, recipe: dict[str, Any], log: Any) -> LearningCurve:
    planned = [_whole(recipe, key, 0, MOST_EPOCHS) for key in ("epochs", "qat_epochs")]
    if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
        raise ValueError("'log' is not a list of epochs")
    if not 0 < len(log) <= sum(planned):
        raise ValueError(f"{len(log)} epochs in its log; from 1 to {sum(planned)} can be shown")
    phases = [PHASES[i >= planned[0]] for i in range(len(log))]
    watched = [key for key in WATCHED if key in log[0]]
    if len(watched) != 1:
        raise ValueError(f"an epoch has one of {' and '.join(WATCHED)}")
    for i, entry in enumerate(log):
        if _whole(entry, "epoch", 1, MOST_EPOCHS * 2) != i + 1 or entry.get("phase") != phases[i]:
            raise ValueError(f"entry {i + 1} of its log is not epoch {i + 1} of phase {phases[i]!r}")
    return LearningCurve(
        name=name,
        folder=folder,
        words=_words(recipe, planned),
        planned=sum(planned),
        float_epochs=phases.count(PHASES[0]),
        watched_name=WATCHED[watched[0]],
        loss=tuple(_number(entry, "loss", LARGEST_LOSS) for entry in log),
        train=tuple(_number(entry, "train_noisy_accuracy") for entry in log),
        watched=tuple(_number(entry, watched[0]) for entry in log),
        final=_final(folder / RESULTS) if len(log) == sum(planned) else None,
    )


def _words(recipe: dict[str, Any], planned: Sequence[int]) -> str:
    """The recipe in short."""
    noise, sigma = _text(recipe, "noise"), _text(recipe, "sigma")
    if noise not in NOISES:
        raise ValueError(f"'noise' is {noise!r}")
    under = f"{noise} noise of σ {sigma}" if sigma else "no noise"
    phases = f"{planned[0]} epochs in float, {planned[1]} quantization-aware"
    origin = ", from the float weights of another run" if recipe.get("start") else ""
    return f"{_text(recipe, 'architecture')} on {_text(recipe, 'data')} under {under}; {phases}{origin}."


def _final(path: Path) -> Final | None:
    if not path.is_file():
        return None
    try:
        return _measured(_read(path))
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not the results of a training run ({error})") from None


def _measured(found: dict[str, Any]) -> Final:
    noisy, clean = (_accuracies(_object(found, key)) for key in ("noisy_accuracy", "accuracy"))
    if noisy.keys() != clean.keys():
        raise ValueError("'accuracy' and 'noisy_accuracy' are not of the same networks")
    files = [_text(_object(_object(found, "files"), name), "sha256") for name in _object(found, "files")]
    identities = [*files, *([_text(found, "identity")] if "identity" in found else [])]
    if not all(re.fullmatch("[0-9a-f]{64}", each) for each in identities):
        raise ValueError("an identity or a sha256 is no hash")
    agreement = _number(found, "agreement") if "agreement" in found else None
    return Final(_whole(found, "test_images", 1, MOST_IMAGES), noisy, clean, agreement, frozenset(identities))


def _accuracies(found: dict[str, Any]) -> dict[str, float]:
    if not found or not found.keys() <= FORMS.keys():
        raise ValueError(f"accuracies are of {', '.join(FORMS)}")
    return {name: _number(found, name) for name in FORMS if name in found}


def _object(found: dict[str, Any], key: str) -> dict[str, Any]:
    value = found.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"{key!r} is missing or no object")
    return value


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    if type(value) is not str or len(value) > LONGEST_TEXT:
        raise ValueError(f"{key!r} is missing or no short text")
    return value


def _whole(found: dict[str, Any], key: str, low: int, high: int) -> int:
    value = found.get(key)
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{key!r} is missing or no number from {low} to {high}")
    return value


def _number(found: dict[str, Any], key: str, high: float = 1) -> float:
    value: Any = found.get(key)
    if type(value) not in (int, float) or not 0 <= value <= high:  # so it is no NaN either
        raise ValueError(f"{key!r} is missing or no number from 0 to {high:g}")
    return float(value)


# --- As HTML and as data for the page's script ------------------------------------------------------------------------

SECTION = """<section id="training" aria-labelledby="training-title">
<h2 id="training-title">How the networks were trained</h2>
<p class="sub">Point at an epoch, or use the arrow keys. Vertical lines: quantization-aware training begins.</p>
<div class="charts">
<figure><figcaption>Loss in training</figcaption>{loss}</figure>
<figure><figcaption>Noisy images classified correctly</figcaption>{accuracy}</figure>
</div>
<ul id="training-legend" class="legend"></ul>
<p class="sub">Dashed: training images, as training met them. Solid: {watched}.</p>
<ul class="prose">{words}</ul>
{table}
</section>"""
CHART = (
    '<div id="chart-{name}" class="chart" tabindex="0" role="slider" aria-label="Epoch, {name}" aria-valuemin="1" '
    'aria-valuemax="1" aria-valuenow="1" aria-valuetext=""></div>'
)


def section(curves: Sequence[LearningCurve], entries: Sequence[Entry]) -> str:
    """The page's part about training; empty if there is none."""
    if not curves:
        return ""
    watched = sorted({curve.watched_name for curve in curves})
    kinds = {"test": "test images", "held out": "training images held out"}
    return SECTION.format(
        loss=CHART.format(name="loss"),
        accuracy=CHART.format(name="accuracy"),
        watched=" or ".join(kinds[name] for name in watched) + ", each under one draw of noise",
        words="".join(_sentences(curve, entries) for curve in curves),
        table=_table(curves),
    )


def _sentences(curve: LearningCurve, entries: Sequence[Entry]) -> str:
    here = [e.name for e in entries if curve.final and e.run and e.run.identity in curve.final.identities]
    whose = f"Certified here: {'; '.join(here)}." if here else "No run on this page is of its networks."
    state = "" if curve.complete else f" Unfinished: {len(curve.loss)} of {curve.planned} epochs so far."
    return f"<li><b>{text(curve.name)}</b>: {text(f'{curve.words}{state} {whose}')}</li>"


def _table(curves: Sequence[LearningCurve]) -> str:
    """The finished networks, on all test images."""
    done = [curve for curve in curves if curve.final]
    if not done:
        return ""
    names = [f"{form}{kind}" for kind in (", noisy", ", clean") for form in FORMS.values()]
    head = "".join(f'<th scope="col">{name}</th>' for name in ("training", "images", *names, "agreement"))
    caption = (
        "Percent of test images that the finished networks classify correctly, with 95&nbsp;% intervals; noisy: under "
        "one draw of integer noise, the same for all. Agreement: of the integer with the fake-quantized network, noisy."
    )
    rows = "".join(_line(curve) for curve in done)
    table = f'<table id="trained"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    region = '<div class="scroll" tabindex="0" role="region" aria-label="Accuracy of the finished networks">'
    return f'<p class="sub">{caption}</p>{region}{table}</div>'


def _line(curve: LearningCurve) -> str:
    final = curve.final
    assert final
    cells = [_cell(final, kind, values.get(form)) for kind, values in _kinds(final) for form in FORMS]
    return (
        f'<tr><th scope="row">{text(curve.name)}</th><td>{final.images:,}</td>{"".join(cells)}'
        f"{_cell(final, 'agreement', final.agreement)}</tr>"
    )


def _kinds(final: Final) -> tuple[tuple[str, dict[str, float]], ...]:
    return ("noisy", final.noisy), ("clean", final.clean)


def _cell(final: Final, kind: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    return f'<td data-accuracy="{kind}">{share_html(Share(round(value * final.images), final.images))}</td>'


def as_data(curves: Sequence[LearningCurve]) -> list[dict[str, Any]]:
    """What the script draws from."""
    return [
        {
            "number": number, "name": t.name, "float_epochs": t.float_epochs, "watched_name": t.watched_name,
            **{key: [_short(value) for value in getattr(t, key)] for key in ("loss", "train", "watched")},
        }
        for number, t in enumerate(curves)
    ]  # fmt: skip


def _short(value: float) -> float:
    """Six digits are more than a screen can show."""
    return float(f"{value:.6g}")
