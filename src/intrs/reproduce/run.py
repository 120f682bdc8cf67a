"""Sampling: each results file of a plan is begun or continued, and what is whole is left alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from intrs import results
from intrs.adaptive.tables import squared
from intrs.certificate import Certifier, parse_alpha
from intrs.cli.arguments import parse
from intrs.cli.job import open_job
from intrs.cli.run import work
from intrs.cli.screen import duration, show
from intrs.data import open_data
from intrs.errors import IntrsError
from intrs.metrics import read
from intrs.noise import Noise, plain
from intrs.report.training import open_trainings
from intrs.reproduce.plan import FIXED_SIGMA, NOISE

if TYPE_CHECKING:
    from intrs.data import Images
    from intrs.metrics import Log
    from intrs.report.training import Training
    from intrs.reproduce.plan import Plan, Sampling

VOTES = "votes"
NO_RUNTIME = "ONNX Runtime (pip install 'intrs[float]')"
NO_TORCH = "PyTorch (pip install 'intrs[train]')"


@dataclass(frozen=True, eq=False)
class Found:
    """What a run folder holds of a plan."""

    plan: Plan
    folder: Path
    data: Images

    @property
    def dimension(self) -> int:
        """Values of an image."""
        return math.prod(self.data.image_shape)

    def log(self, sampling: Sampling) -> Log | None:
        """The votes, if the plan has their network and they were counted."""
        path = self.path(sampling)
        return read(path) if self.plan.model(sampling.method, sampling.trained) and path.exists() else None

    def path(self, sampling: Sampling) -> Path:
        """Where the votes are kept."""
        return self.folder / VOTES / f"{sampling.name}.tsv"

    def certifier(self, sampling: Sampling) -> Certifier:
        """What n votes certify."""
        noise = Noise.of(NOISE[sampling.method], sampling.sigma)
        return Certifier(noise, self.dimension, sampling.n, parse_alpha(self.plan.alpha))

    def trainings(self) -> list[Training]:
        """The learning curves that the page shows."""
        return open_trainings([Path(spec) for spec in self.plan.training])


def open_folder(plan: Plan, folder: Path) -> Found:
    """The run folder, made if need be; another folder with something in it is left alone."""
    if folder.exists() and not folder.is_dir():
        raise IntrsError(f"{folder} is not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / VOTES).is_dir():
        raise IntrsError(f"{folder} is not empty, and not a folder of `intrs reproduce`; name another with --out")
    try:
        (folder / VOTES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IntrsError(f"cannot make {folder}: {error.strerror or error}") from None
    found = Found(plan, folder, open_data(plan.data, plan.split))
    found.trainings()  # what cannot be read is said before hours of work
    return found


def sample(found: Found, threads: int) -> None:
    """Count all votes that are not there yet."""
    todo = found.plan.samplings()
    for i, sampling in enumerate(todo, 1):
        if NOISE[sampling.method] == "continuous" and find_spec("onnxruntime") is None:
            continue
        _sample(found, sampling, threads, f"{i} of {len(todo)}")


def _sample(found: Found, sampling: Sampling, threads: int, place: str) -> None:
    job = open_job(parse(_arguments(found, sampling, threads)))
    job.check_decisive()
    path = found.path(sampling)
    with results.resume(path, job.run, job.indices) as writer:
        left = len(job.positions) - len(writer.rows)
        words, most = f"{left} images left" if left else "done before", "at most " if sampling.adaptive else ""
        if left:
            words += f", {most or 'about '}{duration(left * job.samples_per_image() / job.rate())}"
        show(place, f"{sampling.name}, {len(job.positions)} images, n = {most}{job.run.n:,}: {words}")
        work(job, writer, {})


def _arguments(found: Found, sampling: Sampling, threads: int) -> list[str]:
    """The command line that would do the same."""
    plan = found.plan
    model = plan.model(sampling.method, sampling.trained)
    assert model
    n0 = ["--n0", str(plan.n0)] if sampling.command == "certify" else []
    adaptive = ["--adaptive", "--radii", ",".join(asked_radii(found, sampling))] if sampling.adaptive else []
    return [
        sampling.command, model, plan.data, "--split", plan.split, "--noise", NOISE[sampling.method],
        "--sigma", str(sampling.sigma), "--n", str(sampling.n), *n0, *adaptive, "--alpha", plan.alpha,
        "--seed", str(plan.seed), "--max", str(plan.images), *_threads(threads),
    ]  # fmt: skip


def asked_radii(found: Found, sampling: Sampling) -> list[str]:
    """The radii of the tables that n samples can certify; 0 is the class itself, or an abstention."""
    largest = found.certifier(sampling).largest() or 0
    return ["0", *(r for r in found.plan.radii() if squared(Fraction(r)) <= largest)]


def _threads(threads: int) -> list[str]:
    return ["--threads", str(threads)] if threads else []


# --- Attacks ---------------------------------------------------------------------------------------------------------


def attack(found: Found, threads: int) -> int:
    """The attacks of experiments f and g that can be made, each in a folder of its own; 0, or why one stopped."""
    if find_spec("torch") is None:
        return 0
    from intrs.cli.attack import attack as attack_command

    for name, argv in attacks(found.plan).items():
        show("attack", name)
        if code := attack_command(parse(["attack", *argv, *_threads(threads), str(found.folder / name)])):
            return code
    return 0


def attacks(plan: Plan) -> dict[str, list[str]]:
    """Folder and arguments of every attack that has its networks."""
    if not plan.attacked:
        return {}
    settings = ["--max", str(plan.attacked), "--seed", str(plan.seed), "--split", plan.split]
    made, undefended = dict[str, list[str]](), dict(plan.undefended)
    if "f" in plan.experiments and (model := plan.model("IntRS-quant", FIXED_SIGMA)):
        smoothed = ["--sigma", plain(FIXED_SIGMA), "--alpha", plan.alpha, "--n", "1000"]
        made["attack-l2"] = [model, plan.data, *smoothed, *settings]
    if "g" in plan.experiments and undefended:
        plainly = ["--norm", "linf", "--sigma", "0", *settings]
        made["attack-float"] = [undefended["float"], plan.data, *plainly]
        made["attack-int8"] = [undefended["int8"], plan.data, "--source", undefended["float"], *plainly]
    return made
