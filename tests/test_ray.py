"""Units on real Ray nodes of this machine: the bytes of a local run, whatever is missing, killed or stopped."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ray_faults import campaign, check_same
from ray_nodes import Nodes, free_port
from tiny_model import save_images, save_model

import intrs
from intrs.engines import LostError
from intrs.engines import ray as engine
from intrs.errors import SettingsError

RUNS: dict[str, dict[str, Any]] = {
    "fixed": {"n": 3000},
    "adaptive": {"n": 5000, "radii": (0, 0.1, 0.2)},
    "precision": {"n": 5000, "precision": "5%"},
}
SMALL = {"fixed": ("--n", "1500", "--max", "3"), "adaptive": ("--n", "3000", "--radii", "0,0.25", "--max", "3")}
COMMAND = [sys.executable, "-m", "intrs", "certify", "tiny.onnx", "tiny.npz", "--seed", "7"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")


def certify(kind: str, name: str, **more: Any) -> intrs.metrics.Results:
    return intrs.certify("tiny.onnx", "tiny.npz", seed=7, out=name, **RUNS[kind], **more)


def in_processes(nodes: Nodes, *words: str) -> tuple[int, str]:
    """A command on the cluster, in a process of its own: exit code, and what it said on stderr."""
    made = nodes.driver([*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = made.communicate(timeout=300)[1]
    return made.returncode, said


def test_a_cluster_gives_the_bytes_of_a_local_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its address, by RAY_ADDRESS, and as an initialised Ray, which stays so; Ctrl-C says how to resume."""
    ray = importlib.import_module("ray")
    with Nodes([0, 1, 1], apart=False) as nodes:
        certify("fixed", "local.tsv")
        certify("fixed", "far.tsv", ray=nodes.address, twice="50%")
        check_same(Path("far.tsv"), Path("local.tsv"))
        assert not ray.is_initialized()
        _interrupt(nodes)
        monkeypatch.setenv("RAY_ADDRESS", nodes.address)
        ray.init(log_to_driver=False, configure_logging=False)
        try:
            for kind in RUNS:
                wanted = certify(kind, f"{kind}.tsv")
                certify(kind, f"{kind}-ray.tsv", ray=True, workers="node")
                check_same(Path(f"{kind}-ray.tsv"), Path(f"{kind}.tsv"))
            assert intrs.verify(wanted, ray=True)
            assert ray.is_initialized()
        finally:
            ray.shutdown()


def _interrupt(nodes: Nodes) -> None:
    words = ["--n", "100000000", "-o", "long.tsv", "--ray", nodes.address]
    made = nodes.driver([*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for _ in range(600):
        if Path("long.tsv.votes").exists():
            break
        time.sleep(0.1)
    made.send_signal(signal.SIGINT)
    said = made.communicate(timeout=60)[1]
    assert made.returncode == 130, said
    assert "stopped after 0 of 8 images; continue with" in said
    assert "--resume" in said
    assert "Traceback" not in said


def test_faults_change_nothing() -> None:
    """A few of the faults of `ray_faults.py`, which is run in full by hand."""
    assert sum(campaign(4, 3, apart=False, per_run=3, runs=SMALL).values()) == 3


def test_what_a_cluster_may_lack(tmp_path: Path) -> None:
    """No processors, another version of intrs, another intrs altogether: said clearly, with exit code 2."""
    other, strange = tmp_path / "other", tmp_path / "strange"
    (other / "intrs-9.9.dist-info").mkdir(parents=True)
    (other / "intrs-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: intrs\nVersion: 9.9\n")
    (strange / "intrs").mkdir(parents=True)
    (strange / "intrs" / "__init__.py").touch()
    paths = {i: {"PYTHONPATH": f"{folder}:{_package()}"} for i, folder in enumerate((other, strange), 1)}
    words = ("--n", "1000", "-o", "r.tsv", "--ray")
    with Nodes([0, 1, 1], apart=False, environments=paths, started=1) as nodes:
        hurried = "from intrs.engines import ray; ray.FIRST_PATIENCE = 1; from intrs.cli import main; import sys; "
        program = [sys.executable, "-c", f"{hurried} sys.exit(main(sys.argv[1:]))", *COMMAND[3:], *words, nodes.address]
        made = nodes.driver(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert "the Ray cluster has 1 node and no processor (CPU) for tasks" in made.communicate(timeout=120)[1]
        assert made.returncode == 2
        for node, said in ((1, "has intrs 9.9, the driver has"), (2, "has no intrs, or another version")):
            nodes.nodes[node].start()
            nodes.nodes[node].wait()
            code, text = in_processes(nodes, *words, nodes.address, "--resume")
            assert (code, said in text, "Traceback" in text) == (2, True, False), text
            nodes.nodes[node].kill()
    assert json.loads(Path("r.tsv.json").read_text())["n"] == 1000  # the run can be resumed where the cluster is right


def _package() -> Path:
    return Path(intrs.__file__).parent.parent


def test_a_wrong_address_is_found_before_anything_is_written() -> None:
    for address, words in ((f"127.0.0.1:{free_port()}", "Connection refused"), ("nonsense", "nvalid address")):
        with pytest.raises(SettingsError, match=f"cannot join the Ray cluster at {address}: .*{words}"):
            certify("fixed", "r.tsv", ray=address)
    assert not Path("r.tsv").exists()


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"pip install 'intrs\[ray\]'"):
        certify("fixed", "r.tsv", ray=True)
    assert not Path("r.tsv").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"workers": "all"}, "workers: choose from core, node"), ({"ray": ""}, "expected the address of a cluster"),
     ({"noise": "continuous"}, "integer networks")],
)  # fmt: skip
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        certify("fixed", "r.tsv", **{"ray": True} | settings)


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
