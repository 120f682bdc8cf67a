"""Units on the workers of a Ray cluster (extra `ray`).

Every unit is a Ray task. The classifier is put into Ray's object store once, travels once to every node, and is kept by
every worker process. Ray does not retry anything itself: a lost unit goes back to the driver, which hands it out again.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

from intrs.engines.engine import Engine, LostError
from intrs.errors import IntrsError, SettingsError
from intrs.exact import shown
from intrs.units import count_unit, where
from intrs.version import __version__

if TYPE_CHECKING:
    from intrs.units import Counted, Unit, Voter

Workers = Literal["core", "node"]
AUTOMATIC = "auto"  # the cluster that RAY_ADDRESS or this machine knows, else one of our own
LOOK_SECONDS = 2.0  # between looks at which nodes there are
PATIENCE = 60.0  # seconds without a single processor before the run is given up
CONNECT_SECONDS = 20


@dataclass(frozen=True)
class Cluster:
    """Which cluster, and how its processors are used."""

    address: str = AUTOMATIC
    workers: Workers = "core"  # a unit takes one core, or all cores of a node

    def __post_init__(self) -> None:
        if self.workers not in get_args(Workers):
            raise SettingsError(f"workers: choose from core, node, got {shown(self.workers)}")
        if not isinstance(self.address, str) or not self.address:
            raise SettingsError(f"ray: expected the address of a cluster or 'auto', got {shown(self.address)}")

    def engine(self, voter: Voter) -> RayEngine:
        """Join the cluster, or start one on this machine."""
        return RayEngine(voter, self)


class RayEngine(Engine):
    """Counts units as tasks of Ray, as many at once as the cluster has processors (or nodes) at the moment."""

    is_remote = True

    def __init__(self, voter: Voter, cluster: Cluster) -> None:
        self._ray = _imported()
        self._owned = _connect(self._ray, cluster.address)
        self._workers = cluster.workers
        self._digest = voter.digest
        self._box = [self._ray.put(voter)]
        self._refs: dict[Any, None] = {}
        self._nodes: list[tuple[str, int]] = []
        self._looked, self._since = 0.0, time.monotonic()
        self._task = self._ray.remote(count_remotely)

    @property
    def slots(self) -> int:  # type: ignore[override]
        """Units that the nodes of the moment can work on at once."""
        self._look()
        each = self._each()
        return sum(cpus // each if self._workers == "core" else 1 for _, cpus in self._nodes if cpus >= each)

    def submit(self, unit: Unit, copy: int = 0) -> Future[Counted]:
        """Count a unit on a worker that is free; a copy of a unit goes to another node, if there are several."""
        options: dict[str, Any] = {"num_cpus": self._each(), "max_retries": 0, "scheduling_strategy": "SPREAD"}
        if copy and len(self._nodes) > 1:
            node = self._nodes[(hash(unit.key) + copy) % len(self._nodes)][0]
            affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
            options["scheduling_strategy"] = affinity(node, soft=True)
        ref = self._task.options(**options).remote(self._digest, self._box, unit)
        self._refs[ref] = None
        answer: Future[Counted] = Future()
        ref.future().add_done_callback(lambda made: self._hear(ref, made, answer))
        return answer

    def note(self) -> str:
        """How many nodes and workers there are."""
        slots, nodes = self.slots, len(self._nodes)
        return f"{nodes} node{'s' * (nodes != 1)}, {slots} worker{'s' * (slots != 1)}"

    def close(self) -> None:
        """Cancel what runs, and leave the cluster; one that was started for this run ends."""
        for ref in list(self._refs):
            self._ray.cancel(ref, force=True)
        if self._owned:
            self._ray.shutdown()

    def _each(self) -> int:
        """Processors that a unit asks for."""
        return 1 if self._workers == "core" else min((cpus for _, cpus in self._nodes), default=1)

    def _look(self) -> None:
        """Nodes come and go."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS and self._nodes:
            return
        self._looked = now
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        found = [(node["NodeID"], int(node["Resources"].get("CPU", 0))) for node in alive]
        self._nodes = sorted((name, cpus) for name, cpus in found if cpus > 0)
        if self._nodes:
            self._since = now
        elif now - self._since > PATIENCE or self._owned:
            raise SettingsError(
                f"the Ray cluster has {len(alive)} nodes and no processor (CPU) for tasks; add a node that has some"
            )

    def _hear(self, ref: Any, made: Future[Any], answer: Future[Counted]) -> None:
        """Ray's answer as ours."""
        self._refs.pop(ref, None)
        error = made.exception()
        if error is None:
            answer.set_result(made.result())
        else:
            answer.set_exception(_translated(self._ray, error))


_KEPT: dict[str, Voter] = {}  # of this worker process, by digest


def count_remotely(digest: str, box: list[Any], unit: Unit) -> Counted:
    """What a worker does. The voter comes in a box, so that it is fetched only if this process does not have it."""
    ray = _imported()
    threads = max(int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)), 1)
    if digest not in _KEPT:
        voter: Voter = ray.get(box[0])
        if voter.digest != digest:
            raise SettingsError(
                f"a worker ({where()}) has intrs {__version__}, which is not the version of the driver or reads the "
                "network otherwise; install the same version on all nodes"
            )
        _KEPT.clear()  # one run at a time
        _KEPT[digest] = voter
    voter = _KEPT[digest]
    return count_unit(replace(voter, smooth=replace(voter.smooth, threads=threads)), unit)


def _imported() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise SettingsError("a cluster needs Ray, which is not installed: pip install 'intrs[ray]'") from None


def _connect(ray: Any, address: str) -> bool:
    """Join a cluster or start one; whether it is ours to end."""
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or a Ray that we start would report to its makers
    quiet = {"log_to_driver": False, "configure_logging": False}
    given = os.environ.get("RAY_ADDRESS", "") if address == AUTOMATIC else address
    try:
        if given and given != AUTOMATIC:
            ray.init(address=given, **quiet)
            return True
        try:
            ray.init(address=AUTOMATIC, **quiet)
        except ConnectionError:
            ray.init(include_dashboard=False, **quiet)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SettingsError(
            f"cannot join the Ray cluster at {given or 'this machine'}: {first}. Is it running, and do Python and Ray "
            "have the same versions there?"
        ) from None
    return True


def _translated(ray: Any, error: BaseException) -> BaseException:
    """What became of a unit: a user's mistake, or a loss that can be made good."""
    if not isinstance(error, ray.exceptions.RayTaskError):
        words = str(error).strip().splitlines()
        return LostError(words[0] if words else type(error).__name__)
    cause: BaseException = getattr(error, "cause", None) or error
    if isinstance(cause, IntrsError):
        return cause
    if "No module named 'intrs" in str(error):
        return SettingsError("a worker of the cluster has no intrs; install the same version on all nodes")
    return cause
