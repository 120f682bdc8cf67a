"""Every example runs, from any folder, and says what it should."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from ray_faults import check_same
from tiny_model import save_images, save_model

from intrs.cli.arguments import parse
from intrs.experiments.plan import read_plan

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
CLUSTER = Path(__file__).parents[1] / "examples" / "cluster"
EXPECTED = {
    "certify_one_image": r"certified: \w+, by \d+ of 500 votes",
    "smooth_onnxruntime": r"ONNX Runtime +horse .*\n +integers +horse ",
    "bring_your_own_model": r"image 0 is brighter on the left: radius 0\.\d{3}\nimage 1 is brighter on the right",
    "own_architecture": r"agree on \d+\.\d % of noisy test images\n0 radius 0\.[1-9]\d*\n",
}


def test_all_are_known() -> None:
    assert {path.stem for path in EXAMPLES} == set(EXPECTED)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(EXPECTED[path.stem], run.stdout), run.stdout
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


# --- Clusters --------------------------------------------------------------------------------------------------------


def test_slurm_script(tmp_path: Path) -> None:
    """Under what SLURM sets for the tasks of an array, in any order: the file of one run."""
    save_model(tmp_path / "tiny.onnx")
    save_images(tmp_path / "tiny.npz")
    program = tmp_path / "bin" / "intrs"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m intrs "$@"\n')
    program.chmod(0o755)
    common = {
        "PATH": f"{program.parent}:{os.environ['PATH']}", "MODEL": "tiny.onnx", "DATA": "tiny.npz",
        "SETTINGS": "--n 300 --seed 1", "PARTS": "3", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1",
        "SLURM_ARRAY_TASK_MAX": "3", "SLURM_ARRAY_TASK_STEP": "1",
    }  # fmt: skip
    anew = os.environ | common | {f"SLURM_ARRAY_TASK_{name}": "1" for name in ("ID", "COUNT", "MAX")}
    refused = subprocess.run([CLUSTER / "slurm.sh"], cwd=tmp_path, env=anew, capture_output=True, text=True)
    assert "this SLURM array has 1 task from 1 to 1, where auto needs 3" in refused.stderr
    assert not list((tmp_path / "certify").iterdir())
    for task in ("2", "3", "1"):
        environment = os.environ | common | {"SLURM_ARRAY_TASK_ID": task}
        subprocess.run([CLUSTER / "slurm.sh"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    words = ["intrs", "certify", "tiny.onnx", "tiny.npz", "--n", "300", "--seed", "1", "-o", "one.tsv"]
    subprocess.run(words, cwd=tmp_path, env=os.environ | common, check=True, capture_output=True)
    check_same(tmp_path / "certify" / "all.tsv", tmp_path / "one.tsv")


def commands(found: Any) -> list[str]:
    """Every `intrs` command in a file of Kubernetes."""
    if isinstance(found, dict | list):
        return [text for each in (found.values() if isinstance(found, dict) else found) for text in commands(each)]
    return [found] if isinstance(found, str) and found.startswith("intrs certify ") else []


@pytest.mark.parametrize("path", sorted(CLUSTER.glob("*.yaml")), ids=lambda path: path.stem)
def test_kubernetes_files(path: Path) -> None:
    """They are YAML of the kind that they claim to be, and their commands are commands of ours."""
    found = importlib.import_module("yaml").safe_load(path.read_text())
    assert (found["apiVersion"], found["kind"]) in {("batch/v1", "Job"), ("ray.io/v1", "RayJob")}
    (command,) = commands(found)
    args = parse(shlex.split(command)[1:])
    assert args.resume
    assert args.seed is not None
    if found["kind"] == "Job":
        assert args.shard == f"auto/{found['spec']['completions']}"
    else:
        assert args.ray == "auto"


@pytest.mark.parametrize("data", ["caltech101", "cifar10"])
def test_a_plan_and_its_commands(data: str, tmp_path: Path) -> None:
    """The folders that its commands make are those that it names, and the commands can be parsed."""
    text = (EXAMPLES[0].parent / f"{data}.toml").read_text()
    comments = "\n".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
    commands = re.findall(r"^intrs (train .*)", comments.replace("\\\n", ""), re.MULTILINE)
    made = set()
    for sigma in ("0.12", "0.25", "0.5", "1"):
        for command in commands:
            args = parse(shlex.split(command.replace("SIGMA", sigma)))
            quantized = "FloatRS-quant" if args.noise == "continuous" else "IntRS-quant"
            method = quantized if args.qat_epochs else "FloatRS-fp"
            made.add((method, Fraction(sigma), str(args.outdir)))
    for _, _, folder in made:
        for name in ("net.onnx", "net-fp32.onnx"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).touch()
    (tmp_path / "plan.toml").write_text(text)
    plan = read_plan(tmp_path / "plan.toml")
    assert {(method, sigma, Path(spec).parent.name) for method, sigma, spec in plan.models} == made
    assert len(made) == 12
    assert (plan.data, plan.paper) == (data, data)
