"""Units on the workers of a Ray cluster (extra `ray`).

Every unit is a Ray task on a node that the engine chooses, so that it knows which machine was asked. The classifier is
put into Ray's object store once, travels once to every node, and is kept by every worker process. Ray does not retry
anything itself: a lost unit goes back to the desk, which hands it out again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from intrs.engines.engine import Engine, LostError, Reply
from intrs.errors import IntrsError, SettingsError
from intrs.exact import shown
from intrs.units import count_unit, where
from intrs.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from concurrent.futures import Future

    from intrs.units import Counted, Unit, Voter

Workers = Literal["core", "node"]
AUTOMATIC = "auto"  # the cluster that RAY_ADDRESS or this machine knows, else one of our own
PER_NODE = 2  # units at once, if a unit takes all cores: one has the cores that the other's last threads leave idle
SPARE = 1  # units per node that wait there for a core, so that no core waits for the driver
LOOK_SECONDS = 2.0  # between looks at which nodes there are
FIRST_PATIENCE = 60.0  # seconds that a cluster may be without a single processor when a run begins
CONNECT_SECONDS = 10.0  # until a cluster takes a connection; Ray itself would try for minutes
PATIENCE = 300.0  # and while it goes on, before it is given up
SAME = "install the same version of intrs, for the same versions of Python and Ray, on all nodes"


@dataclass(frozen=True)
class Cluster:
    """Which cluster, and how its processors are used. `with cluster:` joins it, or starts one on this machine."""

    address: str = AUTOMATIC
    workers: Workers = "core"  # a unit takes one core, or all cores of a node
    cores: int = 0  # of a cluster that is started here; 0: all

    def __post_init__(self) -> None:
        if self.workers not in get_args(Workers):
            raise SettingsError(f"workers: choose from core, node, got {shown(self.workers)}")
        if not isinstance(self.address, str) or not self.address:
            raise SettingsError(f"ray: expected the address of a cluster or 'auto', got {shown(self.address)}")

    def engine(self, voter: Voter) -> RayEngine:
        """What counts for this voter on the cluster, which has been joined."""
        return RayEngine(voter, self.workers)

    def __enter__(self) -> Self:
        ray = _imported()
        if not ray.is_initialized():
            _connect(ray, self.address, self.cores)
            object.__setattr__(self, "_joined", ray)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it; one that was started here ends. A Ray that was initialised before stays as it was."""
        ray = self.__dict__.pop("_joined", None)
        if ray:
            ray.shutdown()


@dataclass(frozen=True)
class _Node:
    """A machine of the cluster."""

    name: str
    processors: int


class RayEngine(Engine):
    """Counts units as tasks of Ray, on every processor that the cluster has at the moment, or two per node."""

    is_remote = True

    def __init__(self, voter: Voter, workers: Workers) -> None:
        self._ray = _imported()
        self._affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        self._workers = workers
        self._digest = voter.digest
        self._box = [self._ray.put(voter)]
        self._task = self._ray.remote(count_remotely)
        self._tasks: dict[_Node, Any] = {}  # the task as it is bound to each node
        self._refs: dict[Any, None] = {}
        self._lock = threading.Lock()  # Ray answers on a thread of its own
        self._nodes: dict[str, _Node] = {}
        self._places: deque[str] = deque()  # free slots, by their node, in turns
        self._busy: Counter[str] = Counter()  # units by node
        self._benched: dict[str, float] = {}  # nodes that lost a unit, and until when nothing is given to them
        self._slots = 0
        self._looked, self._since, self._patience = 0.0, time.monotonic(), FIRST_PATIENCE

    @property
    def slots(self) -> int:  # type: ignore[override]
        """Units that the nodes of the moment can work on at once, and those that wait there."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS or not self._slots:
            self._look(now)
        return self._slots

    def submit(self, unit: Unit, avoid: AbstractSet[str] = frozenset()) -> Reply:
        """Count a unit on a node that has a free slot; not on those to avoid, if there are others."""
        node = self._choose(avoid)
        if node is None:
            return _nowhere()
        threads = 1 if self._workers == "core" else node.processors
        if node not in self._tasks:
            strategy = self._affinity(node.name, soft=False)
            share = 1 if self._workers == "core" else node.processors // PER_NODE or 1 / PER_NODE
            self._tasks[node] = self._task.options(num_cpus=share, max_retries=0, scheduling_strategy=strategy)
        answer = Reply(node.name)
        ref = self._tasks[node].remote((__version__, self._digest, self._box, threads, unit))
        self._refs[ref] = None
        ref.future().add_done_callback(lambda made: self._hear(ref, made, answer))
        return answer

    @property
    def places(self) -> AbstractSet[str]:  # type: ignore[override]
        """The nodes, among them those that get nothing at the moment."""
        with self._lock:
            now = time.monotonic()
            return self._nodes.keys() | {name for name, until in self._benched.items() if until > now}

    def note(self) -> str:
        """How many nodes and workers there are."""
        slots, nodes = self.slots, len(self._nodes)
        workers = slots - (SPARE * nodes if self._workers == "core" else 0)
        return f"{nodes} node{'s' * (nodes != 1)}, {workers} worker{'s' * (workers != 1)}"

    def close(self) -> None:
        """Cancel what runs."""
        for ref in list(self._refs):
            with contextlib.suppress(Exception):  # the cluster may be gone, and something else is to be heard
                self._ray.cancel(ref, force=True)
        self._refs.clear()

    # --- Nodes -------------------------------------------------------------------------------------------------------

    def _choose(self, avoid: AbstractSet[str]) -> _Node | None:
        """Take a free slot; if there is none, whichever node has the least to do. None if there is no node."""
        with self._lock:
            if not self._nodes:
                return None
            for _ in range(len(self._places)):
                name = self._places.popleft()
                if name not in avoid:
                    break
                self._places.append(name)
            else:
                others = [name for name in self._nodes if name not in avoid] or list(self._nodes)
                name = min(others, key=lambda name: self._busy[name] / self._capacity(name))
                with contextlib.suppress(ValueError):
                    self._places.remove(name)
            self._busy[name] += 1
            return self._nodes[name]

    def _capacity(self, name: str) -> int:
        return self._nodes[name].processors + SPARE if self._workers == "core" else PER_NODE

    def _look(self, now: float) -> None:
        """Nodes come and go."""
        try:
            alive = [node for node in self._ray.nodes() if node["Alive"]]
        except Exception:  # the head does not answer at the moment; Ray ends this process if it stays so
            return
        self._looked = now
        found = (_Node(node["NodeID"], int(node["Resources"].get("CPU", 0))) for node in alive)
        with self._lock:
            self._settle(node for node in found if node.processors > 0 and self._benched.get(node.name, 0) <= now)
        if self._nodes:
            self._since, self._patience = now, PATIENCE
        elif now - self._since > self._patience:
            raise SettingsError(
                f"the Ray cluster has {len(alive)} node{'s' * (len(alive) != 1)} and no processor (CPU) for tasks; add "
                "a node that has some. What was counted so far is kept"
            )

    def _settle(self, nodes: Iterable[_Node]) -> None:
        """These are the nodes now: one slot of each in turn, so that few units are spread over all of them."""
        known = {node.name: node for node in nodes}
        if known == self._nodes:
            return
        self._nodes = known
        self._slots = sum(map(self._capacity, known))
        self.threads = 1 if self._workers == "core" else min((node.processors for node in known.values()), default=1)
        free = {name: self._capacity(name) - self._busy[name] for name in sorted(known)}
        rounds = range(max(free.values(), default=0))
        self._places = deque(name for i in rounds for name, count in free.items() if i < count)

    def _bench(self, name: str) -> None:
        """A node that fails gets nothing until we have looked whether it is still there."""
        self._benched[name] = time.monotonic() + LOOK_SECONDS
        self._settle([node for node in self._nodes.values() if node.name != name])

    # --- Answers -----------------------------------------------------------------------------------------------------

    def _hear(self, ref: Any, made: Future[Any], answer: Reply) -> None:
        """Ray's answer as ours."""
        error = LostError("it was cancelled") if made.cancelled() else made.exception()
        if error is not None:
            error = _translated(self._ray, error)
        self._refs.pop(ref, None)
        with self._lock:
            self._busy[answer.place] -= 1
            if answer.place in self._nodes and self._busy[answer.place] < self._capacity(answer.place):
                self._places.append(answer.place)
            if isinstance(error, _NodeLostError) and len(self._nodes) > 1:
                self._bench(answer.place)
        if error is None:
            answer.set_result(made.result())
        else:
            answer.set_exception(error)


def _nowhere() -> Reply:
    """The reply to a unit for which there is no node: lost at once, so that it is handed out again."""
    answer = Reply()
    answer.set_exception(LostError("no node of the cluster has a processor for tasks at the moment"))
    return answer


_KEPT: dict[tuple[str, int], Voter] = {}  # of this worker process, by digest and number of threads


def count_remotely(given: tuple[str, str, Sequence[Any], int, Unit]) -> Counted:
    """What a worker does. It is given one argument, because Ray's driver takes time for every one.

    The number of threads is among what is given, because what Ray tells its workers about it may be wrong.
    """
    version, digest, box, threads, unit = given
    if version != __version__:
        raise SettingsError(f"a worker ({where()}) has intrs {__version__}, the driver has {version}; {SAME}")
    voter = _KEPT.get((digest, threads)) or _fetched(digest, box, threads)
    return count_unit(voter, unit)


def _fetched(digest: str, box: Sequence[Any], threads: int) -> Voter:
    """The voter comes in a box, so that it is fetched only if this process does not have it."""
    voter: Voter = _imported().get(box[0])
    if voter.digest != digest:
        raise SettingsError(
            f"a worker ({where()}) reads the network or the settings otherwise than the driver does: their identity "
            f"differs; {SAME}"
        )
    _KEPT.clear()  # one run at a time
    return _KEPT.setdefault((digest, threads), replace(voter, smooth=replace(voter.smooth, threads=threads)))


# --- Ray itself ------------------------------------------------------------------------------------------------------


def _imported() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise SettingsError("a cluster needs Ray, which is not installed: pip install 'intrs[ray]'") from None


def _connect(ray: Any, address: str, cores: int) -> None:
    """Join a cluster, or start one if none is named and none runs here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or a Ray that we start would report to its makers
    quiet = {"log_to_driver": False, "configure_logging": False}
    given = os.environ.get("RAY_ADDRESS", "") if address == AUTOMATIC else address
    try:
        if given and given != AUTOMATIC:
            _check_reached(given)
            ray.init(address=given, **quiet)
            return
        try:
            ray.init(address=AUTOMATIC, **quiet)
        except ConnectionError:
            ray.init(address="local", include_dashboard=False, num_cpus=cores or None, **quiet)
    except Exception as error:
        raise SettingsError(
            f"cannot join the Ray cluster at {given or 'this machine'}: {_first_line(error)}. Is it running and "
            "reached from here, and do Python and Ray have the same versions there? If it asks for a token, set "
            "RAY_AUTH_MODE=token, and have the token here (~/.ray/auth_token or RAY_AUTH_TOKEN)"
        ) from None


def _check_reached(address: str) -> None:
    """Raise OSError if nothing listens at host:port; whatever else an address may be is left to Ray."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


class _NodeLostError(LostError):
    """The whole node of a unit is gone, or so it seems."""


def _translated(ray: Any, error: BaseException) -> BaseException:
    """What became of a unit: a user's mistake, or a loss that can be made good."""
    known = ray.exceptions
    if isinstance(error, LostError):
        return error
    if isinstance(error, known.WorkerCrashedError | known.OutOfMemoryError):
        return LostError(_first_line(error))
    if isinstance(error, known.RaySystemError) and "intrs" in str(error):  # the worker could not read what it was sent
        return SettingsError(f"a worker of the cluster has no intrs, or another version: {_first_line(error)}; {SAME}")
    if not isinstance(error, known.RayTaskError):
        return _NodeLostError(_first_line(error))
    cause: BaseException = getattr(error, "cause", None) or error
    if isinstance(cause, IntrsError):
        return cause
    if isinstance(cause, known.RayError | MemoryError | OSError) and not isinstance(cause, known.RayTaskError):
        return LostError(_first_line(cause))  # the voter could not be fetched, or the machine is short of something
    if isinstance(cause, ImportError | AttributeError | TypeError | RuntimeError) or "intrs" in _last_line(error):
        return SettingsError(f"a worker of the cluster has no intrs, or another version: {_last_line(error)}; {SAME}")
    return cause


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
