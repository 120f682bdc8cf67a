"""Real Ray nodes on one machine: in network namespaces of their own where root allows it, else as processes.

Nothing waits for ever: a cluster has a time limit, every wait ends with it, and a keeper (`ray_keeper.py`) ends every
process of a node then, or when these tests are killed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from ray_keeper import descendants, kill_all, state

KEEPER = str(Path(__file__).parent / "ray_keeper.py")
NETWORK = "10.77.0"
SMALL = "78643200"  # bytes of an object store; less is refused
QUICK = {  # so that a node that is gone is given up after seconds
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
    "RAY_USAGE_STATS_ENABLED": "0",
}
SILENCE = "RAY_health_check_timeout_ms"  # a node that is cut off is silent, and so is one on a busy machine


def namespaces_work() -> bool:
    """Whether this process may make network namespaces."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    name = f"intrs-try-{os.getpid()}"
    made = _ip("netns", "add", name, check=False)
    if made:
        _ip("netns", "del", name, check=False)
    return made


def _ip(*words: str, check: bool = True) -> bool:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr}")
    return done.returncode == 0


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Node:
    """One `ray start --block` and everything that it starts."""

    def __init__(self, cluster: Nodes, number: int, processors: int, environment: dict[str, str]) -> None:
        self.cluster, self.number, self.processors = cluster, number, processors
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None
        self._said = 0  # bytes in its log before it was started this time

    @property
    def ip(self) -> str:
        return f"{NETWORK}.{self.number + 2}" if self.cluster.apart else "127.0.0.1"

    @property
    def space(self) -> str:
        return f"{self.cluster.name}{self.number}"

    def inside(self) -> list[str]:
        """What a command begins with that runs on this node."""
        return ["ip", "netns", "exec", self.space] if self.cluster.apart else []

    def start(self) -> None:
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        words += [f"--node-ip-address={self.ip}", f"--num-cpus={self.processors}", f"--object-store-memory={SMALL}"]
        words += ["--min-worker-port=0", "--max-worker-port=0"]  # any: nodes of one address would share the usual ones
        if self.number == 0:
            words += ["--head", f"--port={self.cluster.port}", "--include-dashboard=false"]
            words += [f"--temp-dir={self.cluster.folder}"]
        else:
            words += [f"--address={self.cluster.address}"]
        keeper = [sys.executable, "-IS", KEEPER, str(self.cluster.left())]
        silence = {SILENCE: "1000" if self.cluster.apart else "10000"}
        environment = os.environ | QUICK | silence | self.cluster.token | self.environment
        self._said = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*keeper, *self.inside(), *words], stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment,
                start_new_session=True, cwd=self.cluster.folder,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        """What Ray says of it."""
        return self.cluster.folder / f"node{self.number}.log"

    def wait(self) -> None:
        """Until it has joined; on a busy machine, Ray may give up on its own processes, and is started again."""
        while b"This command will now block forever" not in self.log.read_bytes()[self._said :]:
            if self.process and self.process.poll() is not None:
                self.kill()
                self.start()
            self.cluster.pause(0.1)

    def pids(self) -> list[int]:
        """All processes of this node, but for its keeper."""
        return descendants(self.process.pid) if self.process else []

    def workers(self) -> list[int]:
        """The processes that count."""
        return [pid for pid in self.pids() if "ray::count_remotely" in _title(pid) or "ray::IDLE" in _title(pid)]

    def counting(self) -> list[int]:
        """Those of them that are at work: neither stopped nor dead."""
        return [pid for pid in self.workers() if state(pid) not in "TZX"]

    def kill(self) -> None:
        """As a power cut would."""
        if not self.process:
            return
        kill_all(self.process.pid)
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)
        self.process = None

    def cut(self, off: bool) -> None:
        """Pull the cable out, or put it in again."""
        _ip("-n", self.space, "link", "set", "eth0", "down" if off else "up")


class Nodes:
    """A cluster: node 0 is the head, where the driver runs."""

    def __init__(
        self,
        processors: list[int],
        *,
        apart: bool,
        seconds: float,  # after which everything ends
        environments: dict[int, dict[str, str]] | None = None,
        started: int | None = None,  # only so many, the head among them; the others when asked
    ) -> None:
        self._started = len(processors) if started is None else started
        self.apart, self.name = apart, f"irs{os.getpid() % 100000}n"
        self.folder = Path(tempfile.mkdtemp(prefix="rayt", dir="/tmp"))  # short: sockets have names of 107 bytes
        self.port = 6379 if apart else free_port()
        self.drivers: list[subprocess.Popen[str]] = []
        self._end = time.monotonic() + seconds
        self.token = {"RAY_AUTH_MODE": "disabled"}
        given = environments or {}
        self.nodes = [Node(self, i, count, given.get(i, {})) for i, count in enumerate(processors)]

    @property
    def address(self) -> str:
        return f"{self.nodes[0].ip}:{self.port}"

    def left(self) -> float:
        """Seconds that everything may still take."""
        if (left := self._end - time.monotonic()) <= 0:
            logs = "\n".join(node.log.read_text()[-1000:] for node in self.nodes if node.log.exists())
            raise TimeoutError(f"the time for this cluster is over\n{logs}")
        return left

    def pause(self, seconds: float) -> None:
        """Wait a little, if there is time left."""
        time.sleep(min(seconds, self.left()))

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        if self.apart:
            self._plug()
        for node in self.nodes[: self._started]:
            node.start()
            node.wait()  # one after another: nodes of one folder would choose the same names for their sockets

    def __exit__(self, *_: object) -> None:
        for driver in self.drivers:
            driver.kill()
            driver.wait(30)
        for node in reversed(self.nodes):
            node.kill()
        if self.apart:
            for node in self.nodes:
                _ip("netns", "del", node.space, check=False)
            _ip("link", "del", self._bridge, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _bridge(self) -> str:
        return f"{self.name}br"[-15:]

    def _plug(self) -> None:
        """A switch in a namespace-less place, and a cable to every node."""
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        for node in self.nodes:
            cable = f"{self.name}v{node.number}"[-15:]
            _ip("netns", "add", node.space)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", node.space)
            _ip("link", "set", cable, "master", self._bridge, "up")
            _ip("-n", node.space, "addr", "add", f"{node.ip}/24", "dev", "eth0")
            _ip("-n", node.space, "link", "set", "eth0", "up")
            _ip("-n", node.space, "link", "set", "lo", "up")

    def driver(self, words: list[str], **settings: Any) -> subprocess.Popen[str]:
        """A process on the head's machine."""
        environment = os.environ | self.token | {"RAY_USAGE_STATS_ENABLED": "0"} | settings.pop("env", {})
        made = subprocess.Popen(
            [*self.nodes[0].inside(), *words], text=True, start_new_session=True, env=environment, **settings
        )
        self.drivers.append(made)
        return made


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
