"""The page in plain words: what was found, what it rests on, what keeps runs from being compared."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from intrs.exact import plain
from intrs.metrics.shares import FEWEST_FOR_NORMAL
from intrs.noise import PIXEL_RANGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from intrs.metrics import Results, Share
    from intrs.reports.runs import Entry
    from intrs.results import Run

HEADLINE_RADII = tuple(Fraction(r) for r in ("0.25", "0.1", "0.05", "0"))


def is_classical(run: Run) -> bool:
    """Whether a run is in floats: then the proofs about integers do not hold for it (docs/baselines.md)."""
    return bool(run.note)


def bound_name(run: Run) -> str:
    """The bound from votes to radius; in floats there is only one."""
    return "classical" if run.bound and is_classical(run) else run.bound


def motto(entries: Sequence[Entry]) -> str:
    """The line above the title, which must not promise integers where there are none."""
    floats = all(entry.run and is_classical(entry.run) for entry in entries)
    return "certified robustness" + ("" if floats else " in integers")


def percent(share: Share) -> str:
    """A percentage with one digit."""
    return "–" if share.value is None else f"{100 * share.value:.1f} %"


def headline_radius(found: Results) -> Fraction:
    """The first of a few radii at which anything is certified; 0 for predictions.

    Of an adaptive run that was asked for radii, the one of these that is nearest to the first.
    """
    if not found.has_radii:
        return Fraction(0)
    first = HEADLINE_RADII[0]
    radii = sorted(found.asked, key=lambda r: (not r, abs(r - first))) or HEADLINE_RADII
    return next((r for r in radii if _reached(found, r).part), radii[-1])


def _reached(found: Results, radius: Fraction) -> Share:
    """Correct and certified at a radius, or where that is not known, certified."""
    return found.certified_accuracy(radius) if found.has_labels else found.certified(radius)


def headline(entries: Sequence[Entry]) -> str:
    """The page's title."""
    if len(entries) > 1:
        return f"{len(entries)} runs compared"
    found = entries[0].results
    radius = headline_radius(found)
    hits, correct = _reached(found, radius), "correct " if found.has_labels else ""
    if not found.has_radii:
        return f"{_of_images(hits)} {'are predicted correctly' if correct else 'got a class'}."
    kept = f"keeps its {correct}class" if hits.part == 1 else f"keep their {correct}class"
    aside = ", rounding aside" if found.run and is_classical(found.run) else ""
    aside += "" if found.run else ", according to the log"
    return f"{_of_images(hits)} {kept} under every perturbation within radius {plain(radius)}{aside}."


def _of_images(share: Share) -> str:
    return f"{share.part:,} of {share.whole:,} images"


def brief(entry: Entry) -> str:
    """What one of several runs found."""
    found, radius = entry.results, headline_radius(entry.results)
    right, far, quiet = _reached(found, Fraction(0)), _reached(found, radius), found.abstained()
    mark = "" if found.complete else f" so far, of {found.planned:,} planned"
    what = "classified correctly and certified" if found.has_radii else "predicted correctly"
    if not found.has_labels:
        what = "certified" if found.has_radii else "predicted"
    if not found.was_asked(0):
        return f"{percent(far)} of {far.whole:,} images{mark} are {what} to radius {plain(radius)} or more."
    reach = f", {percent(far)} to radius {plain(radius)} or more" if radius else ""
    return f"{percent(right)} of {right.whole:,} images{mark} are {what}{reach}; {percent(quiet)} are abstentions."


def findings(entry: Entry) -> str:
    """What a single run found."""
    found, zero = entry.results, Fraction(0)
    right, quiet = _reached(found, zero), found.abstained()
    began = "" if found.complete else f"This run is unfinished: {len(found):,} of {found.planned:,} images so far. "
    rest = f"The classifier abstained on {quiet.part:,}." if quiet.part else "It never abstained."
    if not found.was_asked(0):
        return f"{began}{_at_what_was_asked(found)}"
    if not found.has_labels:
        return f"{began}{_without_labels(found)} {rest}"
    if not found.has_radii:
        return (
            f"{began}Of {right.whole:,} images, {found.answered().part:,} ({percent(found.answered())}) got a class, "
            f"{right.part:,} of them ({percent(right)} of all) the correct one. {rest}"
        )
    radius = headline_radius(found)
    far = found.certified_accuracy(radius)
    reach = f"; for {far.part:,} ({percent(far)}) it is correct and holds to radius {plain(radius)} or more"
    return (
        f"{began}Of {right.whole:,} images, {found.answered().part:,} ({percent(found.answered())}) got a certificate: "
        f"a class and a radius. For {right.part:,} ({percent(right)} of all) the class is correct"
        f"{reach if radius else ''}. {rest}"
    )


def _at_what_was_asked(found: Results) -> str:
    """Of an adaptive run that did not have to decide radius 0, so that it says little of the class itself."""
    radius = headline_radius(found)
    far, what = _reached(found, radius), "the class is correct and holds" if found.has_labels else "the class holds"
    return (
        f"For {far.part:,} of {far.whole:,} images ({percent(far)}) {what} to radius {plain(radius)} or more. The run "
        f"had to decide the radii {_list(map(plain, sorted(found.asked)))} and stopped then, so that it does not "
        "say how many images reach another one, nor how many get an answer at all."
    )


def _without_labels(found: Results) -> str:
    answered, radius = found.answered(), headline_radius(found)
    what = "got a certificate: a class and a radius" if found.has_radii else "got a class"
    far = found.certified(radius)
    reach = f"; for {far.part:,} ({percent(far)}) it holds to radius {plain(radius)} or more" if radius else ""
    return (
        f"Of {len(found):,} images, {answered.part:,} ({percent(answered)}) {what}{reach}. The images have no "
        "labels, so that nothing is known of which classes are correct."
    )


def meaning(entries: Sequence[Entry]) -> list[str]:
    """What "certified" means, in a sentence or two; nothing for logs of other programs, whose meaning is not known."""
    known = [entry for entry in entries if entry.run and entry.results.has_radii]
    if not known:
        return []
    logs = any(entry.run is None for entry in entries)
    whose = f"Each certificate of {_list(entry.name for entry in known)}" if logs else "Each certificate"
    alphas = _list(plain(entry.run.alpha) for entry in known if entry.run)
    floats = [entry.name for entry in known if entry.run and is_classical(entry.run)]
    return [
        "Certified means: the smoothed classifier gives the same class to every image whose Euclidean distance from "
        f"this one is within the radius, with pixel values from 0 to 1. {whose} fails with probability at most "
        f"{alphas}; the end of this page says what that rests on.",
        *([_in_floats(floats, len(entries))] if floats else []),
    ]


def _in_floats(names: Sequence[str], runs: int) -> str:
    who = "This run is" if runs == 1 else f"{_list(names)} {'is' if len(names) == 1 else 'are'}"
    return (
        f"{who} in floating point, by the classical method: the statement holds as far as rounding changes nothing, "
        "which no proof covers."
    )


# --- Votes -----------------------------------------------------------------------------------------------------------


def votes_mean(*, labelled: bool) -> str:
    """What the curves of votes show, and why their axis is stretched."""
    whose, how = ("true", "is right about") if labelled else ("chosen", "gives this class to")
    return (
        f"Share of images whose {whose} class gets at least the share of votes on the axis. That share of votes, p_A "
        f"in papers, is how often the network {how} noisy copies of the image. The axis is stretched towards its ends, "
        "as radii are: given enough samples, 84 % of the votes make a radius of about σ, 97.7 % one of 2σ, and "
        "99.87 % one of 3σ."
    )


def votes_are_estimates(entries: Sequence[Entry]) -> str:
    """How exact the shares of votes are."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        groups[_counted(entry.results)].append(entry.name)
    counts = "; ".join(f"{found} in {_list(names)}" if len(groups) > 1 else found for found, names in groups.items())
    early = (
        " Adaptive runs stop as soon as the votes are clear enough: their shares are less exact, for some images more "
        "so than for others, and tend to look more extreme than they are."
    )
    adaptive = any(entry.run and entry.run.stages for entry in entries)
    return (
        f"A share of votes is an estimate, from {counts}.{early if adaptive else ''} The table has percent of images, "
        "with 95 % intervals."
    )


def _counted(found: Results) -> str:
    counts = sorted({row.n for row in found.rows})
    return " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1]))) + " votes per image"


# --- What it rests on ------------------------------------------------------------------------------------------------


def assumptions(entries: Sequence[Entry], dimension: int | None) -> list[str]:
    """What a certificate says, and under which conditions, a sentence or two each."""
    runs = [entry.run for entry in entries if entry.run]
    certified = [run for run in runs if run.command != "predict"]
    foreign = [entry.name for entry in entries if not entry.run]
    return [
        *(_of_certificates(certified, dimension) if certified else []),
        *(_in_other_norms(entries, certified, dimension) if dimension else []),
        *(_of_predictions(runs) if len(certified) < len(runs) else []),
        *(_of_own_runs(runs, entries) if runs else []),
        *([_of_foreign(foreign)] if foreign else []),
        "Intervals are at 95 % and about the images, which are a sample: other images from the same source would give "
        "other numbers. Shares have the interval of Clopper and Pearson, which is exact; the average radius has the "
        f"normal interval, given for {FEWEST_FOR_NORMAL} images or more. The bands around the curves hold at each "
        "place of the axis separately.",
    ]


def _of_certificates(runs: Sequence[Run], dimension: int | None) -> list[str]:
    floats = [run for run in runs if is_classical(run)]
    asked = " Shares are given at the radii asked for, because at others they would come out too low."
    changes = "perturbation" if len(floats) == len(runs) else "integer perturbation"
    says = (
        f"A certificate of radius r means: under every {changes} of the pixel values whose Euclidean length is at most "
        f"r times the pixel range of {PIXEL_RANGE}, the smoothed classifier keeps its class."
    )
    made = [says + (" " + _example(Fraction(1, 4), dimension) if dimension else "")]
    if floats:
        made.append(_of_classical_radii(floats))
    if any(run.bound == "paper" for run in runs):
        made.append(
            "Some radii here are the paper's own (bound “paper”): they are proved for perturbations of one value at a "
            "time only. The “sound” bound is proved for all perturbations."
        )
    if any(run.stages for run in runs):
        made.append(
            "Adaptive runs stop sampling an image when the radii asked for are decided. Its radius is what had been "
            "shown by then: as certain as any other, but often smaller than all samples would have given."
            + (asked if any(run.stages and run.stages.last.radii for run in runs) else "")
        )
    return made


def _of_classical_radii(runs: Sequence[Run]) -> str:
    """What docs/baselines.md says of them."""
    formulas = _list("σ/2 (Φ⁻¹(p) − Φ⁻¹(q))" if run.form == "two" else "σ Φ⁻¹(p)" for run in runs)
    return (
        f"Under continuous noise the radius is the classical {formulas}, with Clopper and Pearson’s confidence bounds "
        "of the votes, rounded down. The theorem behind it is about real-valued Gaussian noise and images. Here the "
        "noise takes float32 values, and sums and networks round: no proof bounds what that changes."
    )


def _example(radius: Fraction, dimension: int) -> str:
    square = math.floor((PIXEL_RANGE * radius) ** 2)
    values = f"all {dimension:,} values" if square >= dimension else f"{square:,} of the {dimension:,} values"
    return (
        f"Radius {plain(radius)} covers, for example, one value changed by {math.isqrt(square)} levels, "
        f"and {values} changed by one level each."
    )


def _in_other_norms(entries: Sequence[Entry], runs: Sequence[Run], dimension: int) -> list[str]:
    """What follows for two other norms (docs/report.md), for a typical radius; nothing where the bound is not for all.

    Integers decide: of d values that change by k each the squared length is d k^2, and no length exceeds the sum of its
    parts.
    """
    if not runs or any(run.bound == "paper" for run in runs):
        return []
    name, square = _typical(entries)
    each = math.isqrt(square // dimension)
    levels = "less than one level" if not each else "one level" if each == 1 else f"{each} levels"
    return [
        f"In other norms, with {dimension:,} values per image: a certificate of radius r covers every such change "
        f"of at most r/√{dimension:,} in each value (ℓ∞), and all whose sizes add up to at most r (ℓ1). For {name} "
        f"that is {levels} in each value ({_root(square, 4, dimension)} of the pixel range), or {math.isqrt(square)} "
        "levels in total, rounded down."
    ]


def _typical(entries: Sequence[Entry]) -> tuple[str, int]:
    """A radius in squared pixel levels, and its name: of one run that which half of its certificates reach."""
    rows = entries[0].results.rows if len(entries) == 1 else ()
    squares = sorted(row.radius_sq for row in rows if row.radius_sq is not None)
    if not squares:
        return "radius 0.25", math.floor(Fraction(PIXEL_RANGE, 4) ** 2)
    median = squares[(len(squares) - 1) // 2]
    return f"the median certificate here, of radius {_root(median, 3)},", median


def _root(square: int, digits: int, parts: int = 1) -> str:
    """The root of squared pixel levels over so many parts, in units of the pixel range, rounded down."""
    whole = math.isqrt(square * 100**digits // (parts * PIXEL_RANGE**2))
    return f"{whole // 10**digits}.{whole % 10**digits:0{digits}}"


def _of_predictions(runs: Sequence[Run]) -> list[str]:
    alphas = _list(plain(run.alpha) for run in runs if run.command == "predict")
    return [f"A prediction differs from the smoothed classifier's class with probability at most {alphas}."]


def _of_own_runs(runs: Sequence[Run], entries: Sequence[Entry]) -> list[str]:
    alphas = _list(plain(run.alpha) for run in runs)
    noises = _list(f"{run.noise.kind} Gaussian noise of σ {_sigma(run)}" for run in runs)
    false = sum(e.run.alpha * len(e.results) for e in entries if e.run)  # an abstention was a try too
    floats = [run for run in runs if is_classical(run)]
    aside = ", the rounding of floats aside" if floats else ""
    return [
        f"Each answer claims more than is true with probability at most α = {alphas}, over its own random bits{aside}. "
        f"Over all images here, at most {float(false):.2g} such answers are expected.",
        "Every statement is about the smoothed classifier: the class that the network returns most often under "
        f"{noises}. It says nothing about the network without noise, nor about whether a class is correct.",
        *([_of_integers(mixed=bool(floats))] if len(floats) < len(runs) else []),
        *([_of_floats(floats, mixed=len(floats) < len(runs))] if floats else []),
    ]


def _of_integers(*, mixed: bool) -> str:
    begin, rests = ("In the runs in integers", "it rests") if mixed else ("", "It rests")
    return (
        f"{begin} {rests} on three things: the bits of ChaCha20 are as good as random, the seed was not picked because "
        "it gave good radii, and the network is the one whose identity is given below. “intrs verify” computes every "
        "line again."
    ).lstrip()


def _of_floats(runs: Sequence[Run], *, mixed: bool) -> str:
    begin, rests = ("In the runs in floating point", "it rests") if mixed else ("", "It rests")
    return (
        f"{begin} {rests} on three things: the numbers of NumPy’s Philox generator are as good as random, the seed was "
        "not picked because it gave good radii, and the model’s file is the one whose SHA-256 is given below. The "
        f"votes depend on the processor and on library versions, here {_list(run.kernels for run in runs)}, and are "
        "not the same bit for bit elsewhere. “intrs verify” counts them again; where two classes are close, a vote may "
        "differ although nothing is wrong, and it says so."
    ).lstrip()


def _sigma(run: Run) -> str:
    sigma = run.noise.sigma
    return f"{plain(sigma)} ({float(PIXEL_RANGE * sigma):g} pixel levels)"


def _of_foreign(names: Sequence[str]) -> str:
    one = len(names) == 1
    return (
        f"{_list(names)} {'is a log' if one else 'are logs'} of another program. Noise, samples and error rate are not "
        f"in the {'file' if one else 'files'}; the radii are as that program printed them and cannot be computed again."
    )


def _list(words: Iterable[str]) -> str:
    unique = list(dict.fromkeys(words))
    return " and ".join([", ".join(unique[:-1]), unique[-1]] if len(unique) > 1 else unique)


# --- What keeps runs from being compared -----------------------------------------------------------------------------

SETTINGS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("samples per image", lambda run: _until(run) if run.stages else f"{run.request.n:,}"),
    ("α", lambda run: plain(run.alpha)),
    ("noise", lambda run: run.noise.kind),
    ("bound", lambda run: f"{bound_name(run) or 'none'}, {run.form or 'no'}-class"),
    ("command", lambda run: run.command),
)


def _until(run: Run) -> str:
    """When an adaptive run stops."""
    radii = run.stages.last.radii if run.stages else ()
    return f"at most {run.request.n:,}" + (f" until {_radii(radii)} decided" if radii else "")


def _radii(radii: Sequence[Fraction]) -> str:
    return f"radius {plain(radii[0])} is" if len(radii) == 1 else f"radii {_list(map(plain, radii))} are"


def cautions(entries: Sequence[Entry]) -> list[str]:
    """Why numbers of different runs may differ for other reasons than the models."""
    made = [
        f"{entry.name} is unfinished: {len(entry.results):,} of {entry.results.planned:,} images so far."
        for entry in entries
        if not entry.results.complete
    ]
    made += [
        f"{entry.name} was put together from parts that leave out {entry.results.between:,} images between them."
        for entry in entries
        if entry.results.between
    ]
    for setting, value in SETTINGS:
        groups: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            if entry.run:
                groups[value(entry.run)].append(entry.name)
        if len(groups) > 1:
            each = "; ".join(f"{found} in {_list(names)}" for found, names in groups.items())
            made.append(f"The runs differ in {setting}: {each}.")
    return [*made, *_different_images(entries)]


def _different_images(entries: Sequence[Entry]) -> list[str]:
    groups: dict[frozenset[int], list[str]] = defaultdict(list)
    for entry in entries:
        groups[frozenset(answer.idx for answer in entry.results.answers)].append(entry.name)
    if len(groups) <= 1:
        return []
    counts = "; ".join(f"{len(images):,} in {_list(names)}" for images, names in groups.items())
    common = len(frozenset.intersection(*groups))
    return [f"The runs are about different images: {counts}. They have {common:,} in common."]
