"""The folder of a reproduction: where its votes and attacks are kept, each read once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.certificate import Certifier, parse_alpha
from intrs.data import open_data
from intrs.errors import ResultsError
from intrs.experiments.attacks import attacked
from intrs.experiments.judging import judged_again
from intrs.experiments.plan import NOISE
from intrs.files import PACKED
from intrs.metrics import read
from intrs.noise import Noise
from intrs.reports.curves import open_curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.data import Images
    from intrs.experiments.attacks import Planned
    from intrs.experiments.plan import Plan, Sampling
    from intrs.metrics import Results, Share
    from intrs.reports.curves import LearningCurve

VOTES = "votes"


@dataclass(frozen=True, eq=False)
class Found:
    """What a run folder holds of a plan, once everything is sampled: what is read once is not read again."""

    plan: Plan
    folder: Path
    data: Images
    _votes: dict[Path, Results] = field(default_factory=dict, repr=False)
    _judged: dict[tuple[Path, str], Results] = field(default_factory=dict, repr=False)
    _attacked: dict[str, dict[str, list[Share]]] = field(default_factory=dict, repr=False)

    @property
    def dimension(self) -> int:
        """Values of an image."""
        return math.prod(self.data.image_shape)

    def votes(self, sampling: Sampling) -> Results | None:
        """The votes, if the plan asks for them and they were counted; another plan's may lie here, too."""
        path = self.path(sampling)
        if sampling not in self.plan.samplings() or not path.exists():
            return None
        if path not in self._votes:
            self._votes[path] = read(path)
        return self._votes[path]

    def at_alphas(self, method: str, alphas: Sequence[str]) -> dict[str, Results]:
        """The votes of a method at one sigma, judged at each alpha; nothing if they were not counted."""
        sampling = self.plan.fixed(method)
        votes, path = self.votes(sampling), self.path(sampling)
        if not votes:
            return {}
        for alpha in alphas:
            if (path, alpha) not in self._judged:
                self._judged[path, alpha] = judged_again(votes, alpha, self.dimension)
        return {alpha: self._judged[path, alpha] for alpha in alphas}

    def attacked(self, planned: Planned) -> dict[str, list[Share]]:
        """By eps, what a finished attack left correct; as `attacks.attacked` says it."""
        if planned.folder not in self._attacked:
            self._attacked[planned.folder] = attacked(self.folder / planned.folder)
        return self._attacked[planned.folder]

    def path(self, sampling: Sampling) -> Path:
        """Where the votes are kept; packed, if they were once they were whole."""
        path = self.folder / VOTES / f"{sampling.name}.tsv"
        packed = path.with_name(path.name + PACKED)
        return packed if packed.exists() and not path.exists() else path

    def certifier(self, sampling: Sampling) -> Certifier:
        """What n votes certify."""
        noise = Noise.of(NOISE[sampling.method], sampling.sigma)
        return Certifier(noise, self.dimension, sampling.n, parse_alpha(self.plan.alpha))

    def curves(self) -> list[LearningCurve]:
        """The learning curves that the page shows."""
        return open_curves(self.plan.training)


def open_folder(plan: Plan, folder: Path) -> Found:
    """The run folder, made if need be; another folder with something in it is left alone."""
    if folder.resolve() == Path(plan.data).resolve():
        raise ResultsError(f"{folder} would be taken for the plan's data {plan.data!r}; choose another name")
    if folder.exists() and not folder.is_dir():
        raise ResultsError(f"{folder} is not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / VOTES).is_dir():
        raise ResultsError(f"{folder} is not empty, and not a folder of `intrs reproduce`; choose another name")
    try:
        (folder / VOTES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"cannot make {folder}: {error.strerror or error}") from None
    return Found(plan, folder, open_data(plan.data, plan.split))
