"""Tables of a run folder, each beside the paper's numbers, as data, Markdown and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from intrs import zoo
from intrs.certificate import Certified, Certifier, parse_alpha
from intrs.exact import plain
from intrs.experiments.plan import (
    COMPARED,
    DEFAULT_RADII,
    FIXED_SIGMA,
    NOISE,
    PREDICTIONS,
    SIGMAS,
    TITLES,
    TRAINED,
    other_numbers,
)
from intrs.experiments.run import NO_RUNTIME, attack_lacks, attacks
from intrs.metrics import Answer, Results, Share
from intrs.noise import PIXEL_RANGE, Noise
from intrs.reports.runs import METHODS, paper
from intrs.reports.tables import text
from intrs.smooth import Predicted, judge_prediction
from intrs.votes import Votes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from intrs.experiments.plan import Sampling
    from intrs.experiments.run import Found
    from intrs.results import Row

ALPHAS = ("0.1", "0.01", "0.001", "0.0001")
PAPER_N = 100_000
FIGURE_ONLY = "The paper shows this in a figure and gives no numbers."
INTERVALS = "In brackets: 95 % interval for the images, which are a sample (Clopper and Pearson)."
DENOMINATORS = (
    "“ours” is the share of all images; “of the answered” is the paper's formula, which leaves abstentions out."
)
ADAPTIVE = (
    "Adaptive runs stop sampling an image when every radius of the table that n samples can reach is certified or "
    "given up. Their certificates are as sure as the others; all n samples would certify a few more (docs/adaptive.md)."
)


@dataclass(frozen=True)
class Table:
    """Cells as text, under their columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """With its title above it."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


@dataclass(frozen=True)
class Section:
    """One experiment."""

    experiment: str
    done: str  # images, samples, time
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    not_run: tuple[str, ...] = ()
    figures: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        """With its letter."""
        return f"({self.experiment}) {TITLES[self.experiment]}"

    def markdown(self) -> str:
        """Heading, what was done, notes, tables, what was not run."""
        parts = [f"## {self.title}", self.done, *self.notes, *(table.markdown() for table in self.tables)]
        parts += [f"![{Path(name).stem}]({name})" for name in self.figures]
        if self.not_run:
            parts.append("\n".join(f"- not run: {what}" for what in self.not_run))
        return "\n\n".join(part for part in parts if part)

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "experiment": self.experiment,
            "title": TITLES[self.experiment],
            "done": self.done,
            "notes": list(self.notes),
            "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in self.tables],
            "figures": list(self.figures),
            "not_run": list(self.not_run),
        }


def sections(found: Found) -> list[Section]:
    """All experiments of the plan, in its order."""
    return [_MAKERS[letter](found) for letter in found.plan.experiments]


# --- Certificates ----------------------------------------------------------------------------------------------------


def _certified_accuracy(found: Found) -> Section:
    which = found.plan.paper
    theirs = paper()["tables"].get(which, {})
    radii = tuple(theirs.get("radii", DEFAULT_RADII))
    tables = []
    for method in METHODS:
        numbers = _by_sigma(theirs.get("certified_accuracy", {}).get(method, {}))
        rows = [
            row
            for sigma in SIGMAS
            if (log := found.log(s := found.plan.certify(method, sigma, sigma)))
            for row in _accuracy_rows(log, _certified_at(s), radii, numbers.get(sigma))
        ]
        if rows:
            columns = ("sigma", "", *(f"r = {r}" for r in radii), "average radius")
            tables.append(Table(_beside(method, theirs.get("table")), columns, tuple(rows)))
    return _section(found, "a", tables, [DENOMINATORS, INTERVALS, *_adaptive_note(found), *_reach(found)])


def _accuracy_rows(
    log: Results, name: str, radii: Sequence[str], numbers: Sequence[str] | None, *, average: bool = True
) -> list[tuple[str, ...]]:
    def of(denominator: str) -> tuple[str, ...]:
        kind: Any = denominator
        return tuple(_share(log.certified_accuracy(Fraction(r), kind)) for r in radii)

    mean = log.average_radius()
    ours = (name, "ours", *of("all"), *((f"{mean.value:.3f}" if mean else "–",) if average else ()))
    blank = ("",) if average else ()
    rows = [ours, ("", "of the answered", *of("answered"), *blank)]
    return [*rows, ("", "paper", *numbers, *blank)] if numbers else rows


def _certified_percentage(found: Found) -> Section:
    rows = []
    for method in METHODS:
        logs = [found.log(found.plan.certify(method, sigma, sigma)) for sigma in SIGMAS]
        if any(logs):
            rows.append((method, *(_share(log.answered()) if log else "not run" for log in logs)))
    columns = ("method", *(f"sigma {plain(sigma)}" for sigma in SIGMAS))
    tables = [Table("Images that got a certificate, right or wrong", columns, tuple(rows))] if rows else []
    return _section(found, "b", tables, [FIGURE_ONLY, INTERVALS])


def _other_sigma(found: Found) -> Section:
    theirs, tables = other_numbers()["other_sigma"], []
    radii = ("0", *theirs["radii"])
    for trained in TRAINED:
        for method in COMPARED:
            known = found.plan.paper == "cifar10"
            numbers = _by_sigma(theirs[plain(trained)][method]) if known else {}
            samplings = {sigma: found.plan.certify(method, trained, sigma) for sigma in SIGMAS}
            rows = [
                row
                for sigma, s in samplings.items()
                if (log := found.log(s))
                for row in _accuracy_rows(log, _certified_at(s), radii, _with_dash(numbers.get(sigma)), average=False)
            ]
            if rows:
                title = f"{method} trained at sigma {plain(trained)}"
                columns = ("certified at", "", *(f"r = {r}" for r in radii))
                place = theirs[plain(trained)]["table"] if known else None
                tables.append(Table(_beside(title, place), columns, tuple(rows)))
    return _section(found, "c", tables, [DENOMINATORS, INTERVALS, *_adaptive_note(found), *_reach(found)])


def _adaptive_note(found: Found) -> list[str]:
    return [ADAPTIVE] if found.plan.adaptive else []


def _certified_at(sampling: Sampling) -> str:
    return plain(sampling.sigma) + (" (adaptive)" if sampling.adaptive else "")


def _other_alphas(found: Found) -> Section:
    tables = []
    for method in COMPARED:
        if log := found.log(found.plan.fixed(method)):
            rows = [
                row
                for alpha in ALPHAS
                for row in _accuracy_rows(judged_again(log, alpha, found.dimension), alpha, ("0", *DEFAULT_RADII), None)
            ]
            columns = ("alpha", "", *(f"r = {r}" for r in ("0", *DEFAULT_RADII)), "average radius")
            tables.append(Table(f"{method}, sigma {plain(FIXED_SIGMA)}", columns, tuple(rows)))
    note = "The same votes judged again for every alpha: no sampling."
    return _section(found, "e", tables, [note, FIGURE_ONLY, DENOMINATORS])


def judged_again(log: Results, alpha: str, dimension: int) -> Results:
    """The certificates that the same votes give at another alpha."""
    assert log.run
    certifier = Certifier(Noise.of(log.run.noise, log.run.sigma), dimension, log.run.n, parse_alpha(alpha))
    judge = cache(certifier.judge)
    return Results(log.paths, tuple(_answer(row, judge(_top(row.counts0), row.counts)) for row in log.rows))


def _answer(row: Row, outcome: object) -> Answer:
    if isinstance(outcome, Certified):
        return Answer(row.idx, row.label, outcome.label, Fraction(outcome.radius_sq, PIXEL_RANGE**2))
    return Answer(row.idx, row.label, None, None)


def _top(counts: Sequence[int]) -> int:
    return max(range(len(counts)), key=counts.__getitem__)


# --- Predictions -----------------------------------------------------------------------------------------------------


def _predictions(found: Found) -> Section:
    rows, not_run = [], []
    theirs, known = other_numbers()["prediction"], found.plan.paper == "cifar10"
    for method in COMPARED:
        for n in PREDICTIONS:
            if n > found.plan.n:
                not_run.append(f"{method} with {n:,} samples: needs n = {n} in the plan")
            elif log := found.log(found.plan.predict(method, n)):
                right, quiet = _predicted(log, found)
                numbers = theirs[method][str(n)] if known else ("", "")
                rows.append((method, f"{n:,}", _share(right), numbers[0], _share(quiet), numbers[1]))
    columns = ("method", "n", "correct", "paper", "abstained", "paper")
    title = _beside(f"Prediction, sigma {plain(FIXED_SIGMA)}", theirs["table"] if known else None)
    tables = [Table(title, columns, tuple(rows))] if rows else []
    errata = "The paper's algorithm compares its p-value with 0.5; here it is alpha, so we abstain where it would not."
    return _section(found, "d", tables, [errata, INTERVALS], not_run)


def _predicted(log: Results, found: Found) -> tuple[Share, Share]:
    """Correct and abstained. Votes for certificates are judged as predictions."""
    assert log.run
    noise, seed, alpha = Noise.of(log.run.noise, log.run.sigma), int(log.run.seed, 0), parse_alpha(found.plan.alpha)
    right = quiet = 0
    for row in log.rows:
        outcome = judge_prediction(Votes(row.counts, noise, seed, row.idx, 0), found.dimension, alpha)
        right += isinstance(outcome, Predicted) and outcome.label == row.label
        quiet += not isinstance(outcome, Predicted)
    return Share(right, len(log.rows)), Share(quiet, len(log.rows))


# --- Attacks ---------------------------------------------------------------------------------------------------------


ATTACKED = {
    "f": {f"attack-{method}": f"{method}, PGD in l2, smoothed prediction" for method in COMPARED},
    "g": {
        "attack-float": "float network, PGD in l_inf",
        "attack-int8": "int8 network, the attack transferred from the float network",
    },
}  # folder and title of the attacks of an experiment


def _smoothed_attack(found: Found) -> Section:
    lacking = [method for method in COMPARED if not found.plan.model(method, FIXED_SIGMA)]
    return _attack_section(
        found, "f", [f"needs model {method} trained at sigma {plain(FIXED_SIGMA)}" for method in lacking]
    )


def _undefended_attack(found: Found) -> Section:
    not_run = [] if found.plan.undefended else ["needs models undefended.float and undefended.int8"]
    return _attack_section(found, "g", not_run)


def _attack_section(found: Found, letter: str, not_run: list[str]) -> Section:
    tables, images, finished, asked = [], 0, attacks_of(found, letter), attacks(found.plan)
    for name, title in finished.items():
        shares = attacked(found.folder / name)
        images = max(share.whole for of_eps in shares.values() for share in of_eps)
        made = [(eps, *map(_share, of_eps)) for eps, of_eps in shares.items()]
        tables.append(Table(title, ("eps", "correct", "abstained", "correct without attack"), tuple(made)))
    unfinished = [name for name in ATTACKED[letter] if name in asked and name not in finished]
    not_run += [
        f"{ATTACKED[letter][name].split(',')[0]} needs {what}"
        for name in unfinished
        if (what := attack_lacks(asked[name]))
    ]
    if not found.plan.attacked:
        not_run = ["the plan attacks no images (attacked = 0; --quick sets it)", *not_run]
    done = f"{images} images, seed {found.plan.seed}." if tables else ""
    notes = (FIGURE_ONLY, INTERVALS) if tables else ()
    return Section(letter, done, notes, tuple(tables), tuple(not_run))


def attacks_of(found: Found, letter: str) -> dict[str, str]:
    """Folder and title of the attacks of an experiment that the plan asks for and that were finished."""
    from intrs.pgd import records

    asked = attacks(found.plan)
    return {
        name: title
        for name, title in ATTACKED[letter].items()
        if name in asked and (found.folder / name / records.TABLE).exists()
    }


def attacked(folder: Path) -> dict[str, list[Share]]:
    """By eps: images that are correct, those without an answer, and those that were correct before the attack."""
    from intrs.pgd import records

    _, rows = records.read(folder)
    made = {}
    for eps in dict.fromkeys(row.eps for row in rows):
        mine = [row for row in rows if row.eps == eps]
        parts = (
            sum(row.correct for row in mine),
            sum(row.predict is None for row in mine),
            sum(row.clean == row.label for row in mine),
        )
        made[eps] = [Share(part, len(mine)) for part in parts]
    return made


# --- Time and noise --------------------------------------------------------------------------------------------------


def _time_and_size(found: Found) -> Section:
    rows = []
    for method in COMPARED:
        log = found.log(found.plan.fixed(method))
        if log and log.run:
            samples = sum(row.n0 + row.n for row in log.rows)
            size = zoo.find_model(log.run.model).stat().st_size
            each, rate = seconds(log) / len(log.rows), samples / max(seconds(log), 1e-9)
            network = Path(log.run.model).name
            rows.append((method, network, f"{each:.3g} s", f"{rate:,.0f}", f"{size:,}", log.run.kernels))
    columns = ("method", "network", "an image", "samples/s", "file, bytes", "engine")
    title = f"One image with {found.plan.n0 + found.plan.n:,} samples"
    theirs = other_numbers()["time"]
    notes = [
        "Times are those of the runs above, noise included; whatever else the machine did is in them.",
        f"The paper, {theirs['where']}: FloatRS-fp {theirs['FloatRS-fp']}, IntRS-quant {theirs['IntRS-quant']}.",
    ]
    return _section(found, "h", [Table(title, columns, tuple(rows))] if rows else [], notes)


def seconds(log: Results) -> float:
    """What the answers took, by their `time` column."""
    return sum(map(_seconds, (row.time for row in log.rows)))


def _seconds(text: str) -> float:
    days, _, clock = text.rpartition(", ")
    hours, minutes, rest = clock.split(":")
    made = timedelta(days=int(days.split()[0]) if days else 0, hours=int(hours), minutes=int(minutes))
    return made.total_seconds() + float(rest)


def _noisy_images(found: Found) -> Section:
    columns = ", ".join(["none", *map(plain, SIGMAS)])
    return Section(
        "i", f"Discrete noise, from left to right sigma: {columns}.", ("Clipped to what a screen can show.",)
    )


# --- Words -----------------------------------------------------------------------------------------------------------


def _section(
    found: Found, letter: str, tables: Iterable[Table], notes: Iterable[str], not_run: Sequence[str] = ()
) -> Section:
    made, missing = tuple(tables), [f"needs model {name}" for name in found.plan.missing(letter)]
    return Section(
        letter,
        _done(found, letter) if made else "",
        tuple(notes) if made else (),
        made,
        (*missing, *_no_engine(found, letter), *not_run),
    )


def _no_engine(found: Found, letter: str) -> list[str]:
    there = [s for s in found.plan.needs(letter) if found.plan.model(s.method, s.trained) and not found.log(s)]
    floats = dict.fromkeys(s.method for s in there if NOISE[s.method] == "continuous")
    return [f"{method} needs {NO_RUNTIME}" for method in floats]


def _done(found: Found, letter: str) -> str:
    logs: list[tuple[Sampling, Results]] = [(s, log) for s in found.plan.needs(letter) if (log := found.log(s))]
    images = sorted({len(log.rows) for _, log in logs})
    time = sum(seconds(log) for _, log in logs)
    fixed = ", ".join(f"{n:,}" for n in sorted({s.n for s, _ in logs if not s.adaptive}))
    samples = f"{fixed} samples an image" if fixed else f"at most {found.plan.adaptive:,} samples an image"
    certified = any(log.run and log.run.n0 for _, log in logs)
    select = f" (and {found.plan.n0:,} to select)" if certified else ""
    return (
        f"{len(logs)} {'run' if len(logs) == 1 else 'runs'} of {' or '.join(map(str, images))} images, "
        f"{samples}{select}{_adaptive_ones(logs)}, "
        f"alpha {found.plan.alpha}, seed {found.plan.seed}; sampling took {time:,.0f} s in all, "
        "shared with the other experiments."
    )


def _adaptive_ones(logs: Sequence[tuple[Sampling, Results]]) -> str:
    """How many runs are adaptive, and what they took."""
    taken = [[row.n for row in log.rows] for sampling, log in logs if sampling.adaptive]
    if not taken:
        return ""
    return f"; {len(taken)} of the runs are adaptive and took {fmean(chain.from_iterable(taken)):,.0f} on average"


def _reach(found: Found) -> list[str]:
    """What keeps a run with fewer samples from the paper's larger radii."""
    plan = found.plan
    samplings = [plan.certify(METHODS[0], sigma, sigma) for sigma in SIGMAS]
    if plan.paper == "none" or min(s.n for s in samplings) >= PAPER_N:
        return []
    reached = []
    for s in samplings:
        most = Certified(0, found.certifier(s).largest() or 0, s.n, s.n, parse_alpha(plan.alpha))
        reached.append(f"{most.radius_text(3, up=True)} at sigma {plain(s.sigma)} with {s.n:,}")
    return [f"The paper takes {PAPER_N:,} samples. Ours cannot certify more than {', '.join(reached)}."]


def _share(share: Share) -> str:
    if share.value is None or share.interval is None:
        return "–"
    low, high = share.interval
    return f"{share.value:.3f} [{low:.2f}, {high:.2f}]"


def _beside(title: str, place: str | None) -> str:
    return f"{title} (paper: {place})" if place else title


def _by_sigma(numbers: dict[str, list[str]]) -> dict[Fraction, tuple[str, ...]]:
    return {Fraction(sigma): tuple(values) for sigma, values in numbers.items()}


def _with_dash(numbers: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The paper's table does not have r = 0."""
    return numbers and ("–", *numbers)


def _cell(words: str) -> str:
    """Names of files may hold anything; Markdown takes HTML, so it is escaped here too."""
    return text(words).replace("|", "\\|").replace("\n", " ")


_MAKERS: dict[str, Callable[[Found], Section]] = {
    "a": _certified_accuracy,
    "b": _certified_percentage,
    "c": _other_sigma,
    "d": _predictions,
    "e": _other_alphas,
    "f": _smoothed_attack,
    "g": _undefended_attack,
    "h": _time_and_size,
    "i": _noisy_images,
}
