"""What `intrs certify` and `intrs predict` say before a run, and what they say after it."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from intrs import sanity
from intrs.adaptive import SpendingRule, UnionRule
from intrs.certificate import Certified, least_wins
from intrs.cli.screen import images_of, print_table, say, share, show, table, which_images
from intrs.exact import plain
from intrs.noise import parse_sigma
from intrs.progress import duration
from intrs.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from intrs.adaptive import Rule
    from intrs.api import Started
    from intrs.job import Job
    from intrs.metrics import Results
    from intrs.results import Row

MOST_SHOWN = 8  # radii of an adaptive run, when it begins
MOST_NAMED = 4  # classes, where they are listed
FEW = 20  # images, of which each gets a line
PROVED = {
    "sound": "sound (proved for every perturbation)",
    "paper": "paper (proved along the axes only; sound is proved for every perturbation)",
}
FORMS = {"one": "from the votes of the top class", "two": "from the votes of the top class and the runner-up"}
OPTIONS = {
    "order": "See --names",
    "guessing": "See --pixels, --mean and --std, and --names",
    "convention": "See --pixels, --mean and --std",
    "noise": "See `intrs train`",
}  # by the kind of a hint


# --- Before ----------------------------------------------------------------------------------------------------------


def announce(started: Started, *, alone: bool = True) -> float:
    """Say, before sampling, what is done and what can come of it; the measured rate of this machine is returned."""
    job, done = started.job, len(started.rows)
    for name, words in (*_what(job, done), *_how(job)):
        show(name, words)
    show("results", str(started.path))
    for name, words in _prospects(job):
        show(name, words)
    if done == len(job.positions):
        return 0.0
    if job.run.noise.is_none:
        return 0.0
    for name, words in first_look(job):
        show(name, words)
    rate, most = job.rate(), "at most" if job.rules else "about"
    left = (len(job.positions) - done) * job.samples_per_image()
    words = "" if alone else " on this machine alone"
    show("time", f"{most} {duration(left / rate)}{words} ({rate:,.0f} samples/s)")
    return rate


def _what(job: Job, done: int) -> Iterator[tuple[str, str]]:
    """The model and the data."""
    run, request = job.run, job.run.request
    dialect = f"dialect {request.dialect}, " if request.dialect else ""
    engine = f"{'kernels ' if run.noise.on_integers else ''}{run.kernels}"
    yield "model", f"{request.model}, identity {run.identity[:16]}, {dialect}{engine}"
    yield "input", job.model.input_words(request.pixels, request.mean, request.std, request.dialect)
    labels = "" if job.data.has_labels else " without labels"
    before = f", {done} of them done before" if done else ""
    yield "data", f"{request.data_name}, {which_images(request)}{images_of(len(job.positions))}{labels}{before}"
    yield from (("fit", remark) for remark in job.data.remarks)
    if job.data.has_labels and (words := _classes(job)):
        yield "classes", words


def _classes(job: Job) -> str:
    """How the labels of the data were understood, where that is not plain."""
    request, data = job.run.request, job.data
    if request.names and not request.by_number and data.classes:
        return f"matched by name: {_some(data.classes)}"
    if data.classes and (request.by_number or not job.model.class_names):
        return f"by number: {_some([f'{i} is {name}' for i, name in enumerate(data.classes)])}"
    return ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")


def _how(job: Job) -> Iterator[tuple[str, str]]:
    """Noise, samples and the probability of an error."""
    run, request = job.run, job.run.request
    if run.noise.is_none:
        yield "noise", "none: the network itself, one pass per image"
        return
    levels = f"{float(run.noise.grid_sigma):g} pixel levels"
    yield "noise", f"{run.noise.kind} Gaussian, sigma {plain(run.noise.sigma)} ({levels})"
    most = "at most " if job.rules else ""
    parts = f"{run.n0:,} + {most}{request.n:,} per image (selection + estimation)"
    yield "samples", parts if run.n0 else f"{request.n:,} per image"
    tau = (
        f"; {float(job.judge.tau):.2g} of it (tau) is reserved for the sampling table" if run.noise.on_integers else ""
    )
    yield "alpha", f"{plain(run.alpha)}, the largest probability that an answer does not hold{tau}"
    made_for = job.model.trained_sigma
    if made_for and parse_sigma(made_for) != run.noise.sigma:
        yield "note", f"the model was trained for sigma {made_for}; at another it errs and abstains more"
    if run.note:
        yield "caution", run.note


def first_look(job: Job) -> Iterator[tuple[str, str]]:
    """What a few images show of the run, and what may be wrong with it."""
    seen = sanity.look(job)
    if seen is None:
        return
    yield "check", seen.words()
    for hint in seen.hints():
        yield "hint", f"{hint.words}. {OPTIONS[hint.kind]}".replace("?.", "?")


def _prospects(job: Job) -> list[tuple[str, str]]:
    n, alpha = job.run.request.n, job.run.alpha
    if job.run.noise.is_none:
        return []
    if job.run.command == "predict":
        least = least_wins(n, alpha - job.judge.tau)
        return [("votes", f"{least:,} of {n:,} decide if all others are for one class; fewer if they are divided")]
    if job.rules:
        return _adaptive_prospects(job.rules[-1], job)
    radius_sq, least = job.judge.certifier.largest(), job.judge.certifier.least_votes()
    best = Certified(0, radius_sq or 0, n, n, alpha).radius_text(3, up=True)
    return [
        ("radius", f"at most {best} (all {n:,} votes)"),
        ("votes", f"{least:,} are the fewest that certify anything"),
        ("bound", _bound(job)),
    ]


def _bound(job: Job) -> str:
    """What turns votes into a radius."""
    certifier = job.judge.certifier
    name = PROVED[certifier.bound] if job.run.noise.on_integers else "classical (Cohen et al. 2019)"
    return f"{name}, {FORMS[certifier.form]}"


def _looks(looks: Sequence[int]) -> str:
    """How often the votes are looked at, and when."""
    if len(looks) == 1:
        return f"1 look after {looks[0]:,} samples"
    return f"{len(looks)} looks after {looks[0]:,} to {looks[-1]:,} samples"


def _adaptive_prospects(rule: Rule, job: Job) -> list[tuple[str, str]]:
    looks, largest = rule.schedule.looks, rule.largest()
    best = Certified(0, largest or 0, rule.caps[-1], rule.caps[-1], job.run.alpha).radius_text(3, up=True)
    words = [
        ("rule", f"{rule.name}, {_looks(looks)}"),
        ("bound", _bound(job)),
    ]
    if isinstance(rule, SpendingRule):
        fewest = [f"{plain(r)} {_from_how_many(rule, r)}" for r in rule.radii]
        shown = fewest if len(fewest) <= MOST_SHOWN else [*fewest[: MOST_SHOWN - 1], "...", fewest[-1]]
        return [*words, *(("radii" if i == 0 else "", each) for i, each in enumerate(shown))]
    assert isinstance(rule, UnionRule)
    asked = f"within {float(100 * rule.precision):g} %" if rule.precision else ", ".join(map(plain, rule.radii))
    return [*words, ("radius", f"{asked}; at most {best} (all {rule.caps[-1]:,} votes)")]


def _from_how_many(rule: SpendingRule, radius: Fraction) -> str:
    threshold = rule.tables.of(radius)
    looks = zip(rule.schedule.looks, threshold.accept, strict=True) if threshold else ()
    return next((f"from {n:,} samples on" for n, votes in looks if votes <= n), "out of reach")


# --- After -----------------------------------------------------------------------------------------------------------


def summarise(found: Results, names: Sequence[str] = ()) -> None:
    """A line per image if they are few, and the closing table; names: of the classes, if they are known."""
    assert found.run
    if len(found) <= FEW:
        _each(found, names or found.run.request.names)
    if not found.has_radii:
        _of_predictions(found)
    elif found.has_labels:
        _accuracy(found)
    else:
        _certified(found)
    if found.run.noise.is_none:
        return
    part, whole = found.answered().part, len(found)
    answered = f"{part:,} of {images_of(whole)}"
    if not found.was_asked(0):  # then more samples might have answered more of them
        say(f"answered: {answered}")
    elif found.has_radii:
        say(f"CP, the certified percentage: {share(part, whole)} ({answered} answered)")
    else:
        say(f"answered: {share(part, whole)} ({answered})")
    say(f"abstentions: {whole - part:,}" + (" (the votes were too divided)" if part < whole else ""))
    if found.run.stages and found.rows:
        _saved(found.rows, found.run.request.n)


def _each(found: Results, names: Sequence[str]) -> None:
    def name(label: int | None) -> str:
        return "abstained" if label is None else names[label] if label < len(names) else f"class {label}"

    radius, truth = ["radius"] if found.has_radii else [], ["label"] if found.has_labels else []
    made = table("image", "answer", *truth, *radius, "votes", left=2 + len(truth))
    for answer, row in zip(found.answers, found.rows, strict=True):
        cells = [answer.file or f"#{answer.idx}", name(answer.label), *([name(answer.truth)] if truth else [])]
        cells += [row.radius[:-3] if answer.certified else "-"] if radius else []
        made.add_row(*map(printable, cells), f"{row.votes:,} of {row.n:,}")
    say("")
    print_table(made)


def _accuracy(found: Results) -> None:
    say("\nCertified accuracy: the class is correct and cannot change within the radius")
    made = table("radius", "correct", "of all images", "of the answered")
    for radius in found.radii():
        of_all, of_answered = found.certified_accuracy(radius), found.certified_accuracy(radius, "answered")
        answered = share(of_answered.part, of_answered.whole) if found.was_asked(0) else "-"
        made.add_row(_radius(radius), f"{of_all.part:,}", share(of_all.part, of_all.whole), answered)
    print_table(made)
    say("Of all images: as the field reports it. Of the answered: the paper's formula.")


def _radius(radius: Fraction) -> str:
    """With two digits, unless these would not be the number that was asked for."""
    return plain(radius) if (100 * radius).denominator > 1 else f"{float(radius):.2f}"


def _of_predictions(found: Results) -> None:
    if not found.has_labels:
        return
    of_all, of_answered = found.certified_accuracy(0), found.certified_accuracy(0, "answered")
    divided = (
        ""
        if found.run and found.run.noise.is_none
        else f", {share(of_answered.part, of_answered.whole)} of the answered"
    )
    say(f"\nAccuracy: {of_all.part:,} correct, {share(of_all.part, of_all.whole)} of all images{divided}")


def _certified(found: Results) -> None:
    say("\nImages whose class cannot change within the radius\nThey have no labels, so no accuracy is known.")
    made = table("radius", "certified", "of all images")
    for radius in found.radii():
        certified = found.certified(radius)
        made.add_row(_radius(radius), f"{certified.part:,}", share(certified.part, certified.whole))
    print_table(made)


def _saved(rows: Sequence[Row], most: int) -> None:
    """How many samples an adaptive run took, against the fixed number."""
    used = [row.n for row in rows]
    total, full = sum(used), sum(n == most for n in used)
    say(
        f"samples to decide: {total / len(used):,.0f} per image, {statistics.median(used):,.0f} at the median, "
        f"all {most:,} for {images_of(full)}\n"
        f"saved: {share(len(used) * most - total, len(used) * most)}, "
        f"{len(used) * most / total:.1f} times fewer than {most:,} each"
    )
