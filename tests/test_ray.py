"""Units on real Ray nodes of this machine: the bytes of a local run, whatever is missing, killed or stopped."""

from __future__ import annotations

import fcntl
import importlib
import json
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ray_faults import campaign, check_same
from ray_nodes import KEEPER, Nodes, free_port
from tiny_model import save_images, save_model

import intrs
from intrs.engines import LostError
from intrs.engines import ray as engine
from intrs.errors import SettingsError
from intrs.job import open_job
from intrs.request import Certify
from intrs.units import Unit, count_unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intrs.units import Voter

SECONDS = 240.0  # after which a cluster is given up; a test takes less than a minute if nothing else runs
SMALL = {"adaptive": ("--n", "3000", "--radii", "0,0.25", "--max", "3")}
KUBERAY = Path(__file__).parents[1] / "examples" / "cluster" / "kuberay.yaml"
COMMAND = [sys.executable, "-m", "intrs", "certify", "tiny.onnx", "tiny.npz", "--seed", "7"]
SAME = """
import sys
import intrs, intrs.experiments, ray

RUNS = {
    "fixed": {"n": 3000},
    "adaptive": {"n": 5000, "radii": (0, 0.1, 0.2)},
    "precision": {"n": 5000, "precision": "5%"},
}
INPUTS = {"model": "tiny.onnx", "data": "tiny.npz", "seed": 7}
ray.init(log_to_driver=False, configure_logging=False)  # RAY_ADDRESS says where
for kind, settings in RUNS.items():
    intrs.certify(**INPUTS, **settings, out=f"{kind}.tsv")
    found = intrs.certify(**INPUTS, **settings, out=f"{kind}-ray.tsv", ray=True, workers="node", twice="20%")
intrs.predict(**INPUTS, n=500, out="predict.tsv")
intrs.predict(**INPUTS, n=500, out="predict-ray.tsv", ray=True)
assert intrs.verify(found, ray=True)
intrs.experiments.reproduce("plan.toml", "reproduced", quick=True, ray=True)
assert ray.is_initialized()
"""
PLAN = """
data = "tiny.npz"
paper = "cifar10"
images = 8
n0 = 50
n = 400
attacked = 0
models.IntRS-quant = {"0.25" = "tiny.onnx"}
"""
HEARD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which these tests may have been told to ignore
from intrs.cli.start import program
sys.exit(program())
"""
FULL = """
import errno, os, sys
from intrs.cli import main
write, written = os.write, []
def full(file, data):
    written.append(data)
    if len(written) > 6:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return write(file, data)
os.write = full
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")


@pytest.fixture
def _alone() -> Iterator[None]:
    """One cluster at a time, though the tests run in several processes."""
    end = time.monotonic() + 3 * SECONDS
    with (Path(tempfile.gettempdir()) / "intrs-tests-ray.lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < end, "another test holds its cluster for too long"
                time.sleep(0.5)
        yield


def certify(name: str, **more: Any) -> intrs.metrics.Results:
    return intrs.certify("tiny.onnx", "tiny.npz", seed=7, out=name, n=3000, **more)


def on(nodes: Nodes, words: list[str], **settings: Any) -> tuple[int, str]:
    """A command beside the cluster, in a process of its own: exit code, and what it said on stderr."""
    made = nodes.driver(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **settings)
    said = made.communicate(timeout=nodes.left())[1]
    return made.returncode, said


@pytest.mark.usefixtures("_alone")
def test_a_cluster_gives_the_bytes_of_a_local_run() -> None:
    """By RAY_ADDRESS and as an initialised Ray, which stays so; and by its address, where Ctrl-C says how to resume."""
    Path("plan.toml").write_text(PLAN)
    with Nodes([1, 1], apart=False, seconds=SECONDS) as nodes:
        assert on(nodes, [sys.executable, "-c", SAME], env={"RAY_ADDRESS": nodes.address}) == (0, "")
        for kind in ("fixed", "adaptive", "precision", "predict"):
            check_same(Path(f"{kind}-ray.tsv"), Path(f"{kind}.tsv"))
        counted = list(Path("reproduced/votes").glob("*.tsv"))
        assert len(counted) > 3
        assert all(intrs.verify(path, model="tiny.onnx", data="tiny.npz") for path in counted)  # by this process
        _fill(nodes)
        _interrupt(nodes)


def _fill(nodes: Nodes) -> None:
    """The command of the job for KubeRay, on a disk that is full after a while, and again when there is room."""
    job = importlib.import_module("yaml").safe_load(KUBERAY.read_text())["spec"]["entrypoint"]
    names = {"/models/model.onnx": "tiny.onnx", "/data/images.npz": "tiny.npz", "/results/run.tsv": "job.tsv"}
    words = [names.get(word, word) for word in shlex.split(job)][1:]
    words[words.index("--n") + 1], words[words.index("--seed") + 1] = "3000", "7"
    address = {"RAY_ADDRESS": nodes.address}
    code, said = on(nodes, [sys.executable, "-c", FULL, *words], env=address)
    assert (code, "No space left on device" in said, "Traceback" in said) == (2, True, False), said
    begun = Path("job.tsv").read_text()
    code, said = on(nodes, [sys.executable, "-m", "intrs", *words], env=address)
    assert code == 0, said
    assert Path("job.tsv").read_text().startswith(begun)  # what was there is kept
    check_same(Path("job.tsv"), Path("fixed.tsv"))


def _interrupt(nodes: Nodes) -> None:
    words = ["--n", "100000000", "-o", "long.tsv", "--ray", nodes.address]
    heard = [sys.executable, "-c", HEARD, *COMMAND[3:]]
    made = nodes.driver([*heard, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not Path("long.tsv.votes").exists() and made.poll() is None:
        nodes.pause(0.1)
    made.send_signal(signal.SIGINT)
    said = made.communicate(timeout=nodes.left())[1]
    assert made.returncode == -signal.SIGINT, said
    assert "stopped after 0 of 8 images; continue with\n  intrs certify tiny.onnx tiny.npz" in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("_alone")
def test_faults_change_nothing() -> None:
    """A few of the faults of `ray_faults.py`, which is run in full by hand."""
    kinds = ("worker", "driver", "node")
    found = campaign(4, 3, apart=False, seconds=SECONDS, per_run=3, processors=[1, 1], runs=SMALL, given=kinds)
    assert found == dict.fromkeys(kinds, 1)


@pytest.mark.usefixtures("_alone")
def test_what_a_cluster_may_lack(tmp_path: Path) -> None:
    """No processors, another version of intrs, another intrs altogether: said clearly, with exit code 2."""
    other, strange = tmp_path / "other", tmp_path / "strange"
    (other / "intrs-9.9.dist-info").mkdir(parents=True)
    (other / "intrs-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: intrs\nVersion: 9.9\n")
    (strange / "intrs").mkdir(parents=True)
    (strange / "intrs" / "__init__.py").touch()
    paths = {i: {"PYTHONPATH": f"{folder}:{_package()}"} for i, folder in enumerate((other, strange), 1)}
    words = ("--n", "1000", "-o", "r.tsv", "--ray")
    with Nodes([0, 1, 1], apart=False, seconds=SECONDS, environments=paths, started=1) as nodes:
        hurried = "from intrs.engines import ray; ray.FIRST_PATIENCE = 1; from intrs.cli import main; import sys; "
        program = [sys.executable, "-c", f"{hurried} sys.exit(main(sys.argv[1:]))", *COMMAND[3:], *words, nodes.address]
        code, text = on(nodes, program)
        assert code == 2, text
        assert "the Ray cluster has 1 node and no processor (CPU) for tasks" in text
        for node, said in ((1, "has intrs 9.9, the driver has"), (2, "has no intrs, or another version")):
            nodes.nodes[node].start()
            nodes.nodes[node].wait()
            code, text = on(nodes, [*COMMAND, *words, nodes.address, "--resume"])
            assert (code, said in text, "Traceback" in text) == (2, True, False), text
            nodes.nodes[node].kill()
    assert json.loads(Path("r.tsv.json").read_text())["n"] == 1000  # the run can be resumed where the cluster is right


def _package() -> Path:
    return Path(intrs.__file__).parent.parent


def test_a_wrong_address_is_found_before_anything_is_written() -> None:
    for address, words in ((f"127.0.0.1:{free_port()}", "Connection refused"), ("nonsense", "nvalid address")):
        with pytest.raises(SettingsError, match=f"cannot join the Ray cluster at {address}: .*{words}"):
            certify("r.tsv", ray=address)
    assert not Path("r.tsv").exists()


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"pip install 'intrs\[ray\]'"):
        certify("r.tsv", ray=True)
    assert not Path("r.tsv").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"workers": "all"}, "workers: choose from core, node"), ({"ray": ""}, "expected the address of a cluster"),
     ({"noise": "continuous"}, "integer networks")],
)  # fmt: skip
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        certify("r.tsv", **{"ray": True} | settings)


def test_what_becomes_of_a_unit_is_told_apart() -> None:
    """What can be made good is a loss; what the user has to mend is said."""
    ray = importlib.import_module("ray")
    raised = ray.exceptions
    assert isinstance(engine._translated(ray, raised.WorkerCrashedError()), LostError)
    assert isinstance(engine._translated(ray, raised.NodeDiedError("gone")), engine._NodeLostError)
    for cause in (raised.ObjectLostError("a", "b", "c"), MemoryError("no memory"), OSError("no file")):
        found = engine._translated(ray, raised.RayTaskError("count", "Traceback\nlast line", cause))
        assert isinstance(found, LostError), cause
    mistake = SettingsError("say it otherwise")
    assert engine._translated(ray, raised.RayTaskError("count", "Traceback", mistake)) is mistake


class Box:
    """As much of Ray as a worker uses: gives the voter that is in the box."""

    def get(self, voter: Voter) -> Voter:
        return voter


def test_a_worker_that_reads_the_network_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By identity: what the driver sent and what the worker made of it must be the same network, noise and rules."""
    monkeypatch.setattr(engine, "_imported", Box)
    monkeypatch.setattr(engine, "_KEPT", {})
    job = open_job(Certify(model="tiny.onnx", data="tiny.npz", seed=7, n=300))
    unit = Unit(job.data.images[0], 3, 0, 64, select=True)
    given = (intrs.__version__, job.voter.digest, [job.voter], 1, unit)
    assert engine.count_remotely(given).agrees(count_unit(job.voter, unit))
    other = open_job(Certify(model="tiny.onnx", data="tiny.npz", seed=8, n=300)).voter
    monkeypatch.setattr(engine, "_KEPT", {})
    with pytest.raises(SettingsError, match="identity differs; install the same version"):
        engine.count_remotely((intrs.__version__, job.voter.digest, [other], 1, unit))
    with pytest.raises(SettingsError, match=r"has intrs .*, the driver has 9\.9"):
        engine.count_remotely(("9.9", job.voter.digest, [job.voter], 1, unit))


ONE, THREE = "1" * 56, "3" * 56  # nodes, as Ray names them


class Idle:
    """As much of Ray as the driver uses: nodes of 1 and 3 cores that never answer, and one that is dead."""

    def nodes(self) -> list[dict[str, Any]]:
        known = ((ONE, 1, True), (THREE, 3, True), ("d" * 56, 8, False))
        return [{"NodeID": name, "Resources": {"CPU": cpus}, "Alive": alive} for name, cpus, alive in known]

    def put(self, voter: Voter) -> Voter:
        return voter

    def remote(self, _: object) -> Idle:
        return Idle()

    def options(self, **_: object) -> Idle:
        return self

    def future(self) -> Future[None]:
        return Future()


@pytest.mark.parametrize(("workers", "units"), [("core", {ONE: 2, THREE: 4}), ("node", {ONE: 2, THREE: 2})])
def test_how_many_units_a_node_has(workers: engine.Workers, units: dict[str, int], monkeypatch: Any) -> None:
    """One for every core and one that waits for a core, which is no worker; or two that share all cores."""
    monkeypatch.setattr(engine, "_imported", Idle)
    job = open_job(Certify(model="tiny.onnx", data="tiny.npz", seed=7, n=300))
    made = engine.RayEngine(job.voter, workers)
    assert made.slots == sum(units.values())
    assert made.note() == "2 nodes, 4 workers"
    places = [made.submit(Unit(job.data.images[0], 0, 64 * i, 64)).place for i in range(made.slots)]
    assert Counter(places) == units
    assert set(places[:2]) == set(units), "few units are spread over all nodes"


def test_a_unit_for_which_there_is_no_node_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last node may go away between two looks; the desk hands the unit out again when there is another one."""
    monkeypatch.setattr(engine, "_imported", Idle)
    job = open_job(Certify(model="tiny.onnx", data="tiny.npz", seed=7, n=300))
    made = engine.RayEngine(job.voter, "core")
    assert made.slots
    assert made.places == {ONE, THREE}
    made._bench(ONE)
    assert made.places == {ONE, THREE}, "it may still be there"
    made._settle([])
    answer = made.submit(Unit(job.data.images[0], 0, 0, 64))
    assert isinstance(answer.exception(timeout=0), LostError)


@pytest.mark.parametrize("seconds", [4, 60])
def test_a_keeper_ends_all_that_was_started(seconds: int) -> None:
    """When time is up, or whoever started it is gone: also a process that left its parent and its session."""
    program = f"{sys.executable} -IS -c 'import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(99)'"
    words = [sys.executable, "-IS", KEEPER, str(seconds), "sh", "-c", f"({program} &) ; sleep 99"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdin
        assert keeper.stdout
        pid = int(keeper.stdout.readline())
        if seconds == 60:
            keeper.stdin.close()
        assert keeper.wait(30) == 124
    assert not Path(f"/proc/{pid}").exists()
