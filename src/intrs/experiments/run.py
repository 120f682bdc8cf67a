"""Sampling: each results file of a plan is begun or continued, and what is whole is left alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intrs import results
from intrs.adaptive.tables import squared
from intrs.certificate import Certifier, parse_alpha
from intrs.data import open_data
from intrs.errors import IntrsError
from intrs.exact import plain
from intrs.experiments.plan import COMPARED, FIXED_SIGMA, NOISE
from intrs.job import open_job, work
from intrs.metrics import read
from intrs.noise import Noise
from intrs.reports.training import open_trainings
from intrs.request import Attack, Certify, Predict

if TYPE_CHECKING:
    from collections.abc import Callable

    from intrs.data import Images
    from intrs.experiments.plan import Plan, Sampling
    from intrs.job import Job, NewMeter
    from intrs.metrics import Results
    from intrs.reports.training import Training

    Announce = Callable[[str, Sampling, Job, int], object]  # which of how many, what, its job, images left

VOTES = "votes"
ATTACKED_N = 1000  # votes an answer, of the paper
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

    def log(self, sampling: Sampling) -> Results | None:
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


def sample(found: Found, threads: int, announce: Announce, meter: NewMeter) -> None:
    """Count all votes that are not there yet."""
    todo = found.plan.samplings()
    for i, sampling in enumerate(todo, 1):
        if NOISE[sampling.method] == "continuous" and find_spec("onnxruntime") is None:
            continue
        job = open_job(_request(found, sampling, threads))
        job.check_decisive()
        with results.resume(found.path(sampling), job.run, job.indices) as writer:
            announce(f"{i} of {len(todo)}", sampling, job, len(job.positions) - len(writer.rows))
            work(job, writer, {}, meter)


def _request(found: Found, sampling: Sampling, threads: int) -> Certify | Predict:
    """The votes as `intrs certify` or `intrs predict` would count them."""
    plan = found.plan
    model = plan.model(sampling.method, sampling.trained)
    assert model
    common: dict[str, Any] = {
        "model": model, "data": plan.data, "split": plan.split, "noise": NOISE[sampling.method],
        "sigma": str(sampling.sigma), "n": sampling.n, "alpha": plan.alpha, "seed": plan.seed, "max": plan.images,
        "threads": threads,
    }  # fmt: skip
    if sampling.command == "predict":
        return Predict(**common)
    radii = asked_radii(found, sampling) if sampling.adaptive else ()
    return Certify(**common, n0=plan.n0, adaptive=sampling.adaptive, radii=radii)


def asked_radii(found: Found, sampling: Sampling) -> list[str]:
    """The radii of the tables that n samples can certify; 0 is the class itself, or an abstention."""
    largest = found.certifier(sampling).largest() or 0
    return ["0", *(r for r in found.plan.radii() if squared(Fraction(r)) <= largest)]


# --- Attacks ---------------------------------------------------------------------------------------------------------


def attacks(plan: Plan, threads: int = 0) -> dict[str, Attack]:
    """By the folder to keep it in, every attack that has its networks: experiments f and g."""
    if not plan.attacked:
        return {}
    common: dict[str, Any] = {
        "data": plan.data, "split": plan.split, "max": plan.attacked, "seed": plan.seed, "threads": threads,
    }  # fmt: skip
    made, undefended = dict[str, Attack](), dict(plan.undefended)
    for method in COMPARED if "f" in plan.experiments else ():
        if model := plan.model(method, FIXED_SIGMA):
            made[f"attack-{method}"] = Attack(
                model=model, sigma=plain(FIXED_SIGMA), noise=NOISE[method], alpha=plan.alpha, n=ATTACKED_N, **common
            )
    if "g" in plan.experiments and undefended:
        plainly: dict[str, Any] = {"norm": "linf", "sigma": "0", **common}
        made["attack-float"] = Attack(model=undefended["float"], **plainly)
        made["attack-int8"] = Attack(model=undefended["int8"], source=undefended["float"], **plainly)
    return made


def attack_lacks(request: Attack) -> str:
    """What must be installed for an attack; nothing if it can run."""
    if find_spec("torch") is None:
        return NO_TORCH
    return NO_RUNTIME if request.noise == "continuous" and find_spec("onnxruntime") is None else ""
