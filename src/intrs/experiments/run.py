"""`intrs.reproduce`: everything is opened and checked, then sampled or attacked, then written down.

A results file that is whole is left alone; one that was interrupted is continued after its last whole line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from intrs import results
from intrs.adaptive.tables import squared
from intrs.driver import joined, work
from intrs.errors import DataError, IntrsError, ModelError, ResultsError
from intrs.exact import parse_count, plain
from intrs.experiments.attacks import attacks
from intrs.experiments.extras import lacks
from intrs.experiments.folder import open_folder
from intrs.experiments.pages import write
from intrs.experiments.plan import LABELLED, NOISE, TITLES, Plan, read_plan
from intrs.files import PACKED, as_path
from intrs.job import begin, check_decisive, open_job
from intrs.model import open_model
from intrs.pgd import attack, check
from intrs.progress import reporting
from intrs.request import Certify, Predict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from intrs.engines import Workers
    from intrs.experiments.attacks import Planned
    from intrs.experiments.folder import Found
    from intrs.experiments.plan import Sampling
    from intrs.experiments.section import Section
    from intrs.job import Job
    from intrs.model import Model
    from intrs.progress import OnProgress, Shown
    from intrs.results import Run

    Announce = Callable[["Step"], object]
    Outlook = Callable[["Sequence[Step]"], object]


@dataclass(frozen=True, eq=False)
class Step:
    """A piece of work that is about to begin: votes to be counted, or an attack."""

    number: int  # from 1
    total: int
    name: str
    job: Job | None = None  # None: an attack
    left: int = 0  # images whose votes are still to be counted
    rate: float = 0.0  # samples per second, measured for a moment; 0 if it was not

    @property
    def seconds(self) -> float | None:
        """What counting will take, at most if sampling may stop early; None: not known, as for an attack."""
        if self.job is None or (self.left and not self.rate):
            return None
        return self.left * self.job.samples_per_image() / self.rate if self.left else 0.0


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What a reproduction wrote: its folder, the pages in it, and the experiments as data."""

    folder: Path
    pages: tuple[Path, ...]
    sections: tuple[Section, ...]

    def __repr__(self) -> str:
        tables = sum(len(section.tables) for section in self.sections)
        return f"Reproduction({str(self.folder)!r}, experiments: {len(self.sections)}, tables: {tables})"


def reproduce(
    plan: str | Path | Plan | None = None,
    out: str | Path = "reproduction",
    *,
    quick: bool = False,
    threads: int = 0,
    ray: str | bool | None = None,
    workers: Workers = "core",
    progress: Shown = None,
    outlook: Outlook | None = None,
    announce: Announce | None = None,
) -> Reproduction:
    """The paper's experiments on the networks of a plan; the same call continues what was interrupted.

    plan: a TOML file (docs/reproduce.md), or nothing for the one that ships. out: the folder for votes, tables and
    figures. quick: few images and samples, no attacks. threads: 0 for all cores. ray and workers: as in `certify`, for
    votes of integer networks; the rest is done here. outlook hears of all pieces of work before the first begins, with
    the time that each will take, and announce of each when it begins. Returns what was written.
    """
    chosen = plan if isinstance(plan, Plan) else read_plan(None if plan is None else as_path(plan, "plan"))
    found = open_folder(chosen.quick() if quick else chosen, as_path(out, "out"))
    threads = parse_count(threads, "threads", least=0)
    opened = _Opened(found, threads)
    samplings = [s for s in found.plan.samplings() if not lacks(NOISE[s.method])]
    planned = [each for each in attacks(found.plan, threads) if not each.lacks]
    _check_all(opened, samplings, planned)
    steps = opened.steps(samplings, planned, timed=bool(outlook))
    if outlook:
        outlook(steps)
    tell = announce or (lambda _: None)
    with joined(ray, workers) as cluster:
        for step, sampling in zip(steps, samplings, strict=False):
            if not step.left and found.path(sampling).suffix == PACKED:  # nothing is ever appended to it
                tell(step)
                continue
            job, writer = begin(opened.job(sampling), found.path(sampling), resume=True)
            with writer:
                tell(step)
                shared = cluster and job.run.noise.on_integers and len(writer.rows) < len(job.positions)
                with reporting(progress) as report:
                    work(job, writer, report, cluster.engine(job.voter) if cluster and shared else None)
    for step, each in zip(steps[len(samplings) :], planned, strict=True):
        tell(step)
        with reporting(progress) as report:
            opened.attack(each, report)
    made, paths = write(found)
    return Reproduction(found.folder, tuple(paths), tuple(made))


def _check_all(opened: _Opened, samplings: Sequence[Sampling], planned: Sequence[Planned]) -> None:
    """Open all that the plan names: what is wrong with it is said before hours of work, not after."""
    opened.found.curves()
    _check_labels(opened.found)
    for sampling in samplings:
        job, path = opened.job(sampling), opened.found.path(sampling)
        check_decisive(job)
        if _begun(path):
            _check_same(path, results.read_run(path), job.run)
    _check_forms(opened, samplings, planned)
    for each in planned:
        check(each.request, opened.found.folder / each.folder)


def _check_labels(found: Found) -> None:
    """Refuse images without labels for experiments that count right answers."""
    wanting = [letter for letter in found.plan.experiments if letter in LABELLED]
    if wanting and not found.data.has_labels:
        others = "".join(letter for letter in TITLES if letter not in LABELLED)
        raise DataError(
            f"{found.data.name} has no labels, without which no answer is right or wrong: {', '.join(wanting)} of the "
            f'experiments cannot be made. Take images with labels, or say experiments = "{others}", or some of these, '
            "in the plan"
        )


def _check_forms(opened: _Opened, samplings: Sequence[Sampling], planned: Sequence[Planned]) -> None:
    """Refuse a quantized network where the plan has one in float32, and the other way round."""
    plan = opened.found.plan
    used = {plan.model(s.method, s.trained) for s in samplings} | {each.request.model for each in planned}
    for key, spec, quantized in plan.networks():
        if spec in used and opened.model(spec).is_quantized != quantized:
            words = "in float32, and a quantized network" if quantized else "quantized, and a network in float32"
            raise ModelError(f"{key}: {spec} is {words} is wanted here")


def _begun(path: Path) -> bool:
    """Whether a results file and its description are there."""
    return path.exists() and results.sidecar_path(path).exists()


def _check_same(path: Path, old: Run, new: Run) -> None:
    if differing := results.differences(old, new):
        raise ResultsError(
            f"cannot continue {path}: it was made with other settings; choose another folder\n  "
            + "\n  ".join(differing)
        )


@dataclass(frozen=True, eq=False)
class _Opened:
    """The models and jobs of a plan, each opened once, and the attacks with them."""

    found: Found
    threads: int
    _models: dict[str, Model] = field(default_factory=dict)
    _jobs: dict[Sampling, Job] = field(default_factory=dict)
    _rates: dict[tuple[str, bool], float] = field(default_factory=dict)

    def steps(self, samplings: Sequence[Sampling], planned: Sequence[Planned], *, timed: bool) -> list[Step]:
        """All pieces of work, in order; with the rates of their networks, if they are to be timed."""
        total, made = len(samplings) + len(planned), list[Step]()
        for number, sampling in enumerate(samplings, 1):
            job, path = self.job(sampling), self.found.path(sampling)
            left = len(job.positions) - (len(results.read(path)[1]) if _begun(path) else 0)
            made.append(Step(number, total, sampling.name, job, left, self._rate(job) if left and timed else 0.0))
        return made + [Step(n, total, each.folder) for n, each in enumerate(planned, len(samplings) + 1)]

    def _rate(self, job: Job) -> float:
        """Measured once for every network and engine: that of integers is another than that of floats."""
        which = job.run.request.model, job.run.noise.on_integers
        if which not in self._rates:
            self._rates[which] = job.rate()
        return self._rates[which]

    def job(self, sampling: Sampling) -> Job:
        """The votes as `intrs.certify` or `intrs.predict` would count them; opened once."""
        if sampling not in self._jobs:
            self._jobs[sampling] = self._opened(sampling)
        return self._jobs[sampling]

    def _opened(self, sampling: Sampling) -> Job:
        found, plan = self.found, self.found.plan
        model = plan.model(sampling.method, sampling.trained)
        assert model
        common: dict[str, Any] = {
            "model": model, "data": plan.data, "split": plan.split, "noise": NOISE[sampling.method],
            "sigma": str(sampling.sigma), "n": sampling.n, "alpha": plan.alpha, "seed": plan.seed,
            "max": plan.images_of(sampling), "skip": plan.skip, "threads": self.threads,
        }  # fmt: skip
        try:
            if sampling.command == "predict":
                return open_job(Predict(**common), self.model(model), found.data)
            radii = _asked_radii(found, sampling) if sampling.adaptive else ()
            request = Certify(**common, n0=plan.n0, adaptive=sampling.adaptive, radii=radii)
            return open_job(request, self.model(model), found.data)
        except IntrsError as error:
            where = f"{sampling.method} trained at sigma {plain(sampling.trained)}, {model}"
            raise type(error)(f"{where}: {error}") from None

    def attack(self, planned: Planned, report: OnProgress | None) -> None:
        """Attack what its folder does not have yet."""
        request, folder = planned.request, self.found.folder / planned.folder
        attack(request, folder, model=self.model(request.model), data=self.found.data, progress=report)

    def model(self, spec: str) -> Model:
        """A network by name or path; opened once."""
        if spec not in self._models:
            self._models[spec] = open_model(spec)
        return self._models[spec]


def _asked_radii(found: Found, sampling: Sampling) -> tuple[str, ...]:
    """The radii of the tables that n samples can certify; 0 is the class itself, or an abstention."""
    largest = found.certifier(sampling).largest() or 0
    return ("0", *(r for r in found.plan.radii() if squared(Fraction(r)) <= largest))
