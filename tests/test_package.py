"""The package as a whole: what importing it costs, what it says without its core, what its stub promises."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import intrs
from intrs import _core

PACKAGE = Path(intrs.__file__).parent
HEAVY = ("torch", "scipy", "matplotlib", "onnx", "onnxruntime", "flint", "rich", "PIL", "pandas")
STUB = ast.parse((PACKAGE / "_core.pyi").read_text())


def modules_after(code: str) -> set[str]:
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(run.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    ["import intrs", "from intrs import Smooth, Noise, Certifier", "from intrs.cli import main; main(['--help'])"],
)
def test_importing_is_light(code: str) -> None:
    assert not modules_after(code).intersection(HEAVY)


def test_certifying_needs_no_training_framework() -> None:
    found = modules_after(
        "import intrs; from intrs import zoo; intrs.load(zoo.model_path()); intrs.open_data('cifar10-500')"
    )
    assert "onnx" in found
    assert not found.intersection({"torch", "scipy", "matplotlib", "onnxruntime", "pandas"})


def test_public_names() -> None:
    for name in intrs.__all__:
        assert getattr(intrs, name) is not None
    assert set(intrs.__all__) <= set(dir(intrs))
    assert intrs.__version__ == metadata.version("intrs")
    assert not hasattr(intrs, "no_such_name")


def test_rooms_are_modules_and_commands_are_functions_whatever_was_imported_before() -> None:
    commands = ("certify", "predict", "verify", "load")
    for first in ("import intrs.smooth", "import intrs.votes", "import intrs.api", "import intrs.cli.command"):
        code = f"{first}\nimport intrs, types\nassert isinstance(intrs.votes, types.ModuleType), intrs.votes\n"
        modules_after(code + "".join(f"assert callable(intrs.{name}), intrs.{name}\n" for name in commands))


def test_without_a_core_it_says_what_to_do(tmp_path: Path) -> None:
    sources = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "intrs", ignore=sources)
    # -S: without site-packages, where the built package lies
    command = [sys.executable, "-S", "-c", "import intrs"]
    run = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: intrs was not built")
    for words in ("pip install", "C++17", "apt install g++", "xcode-select"):
        assert words in last


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake here")
def test_without_a_compiler_the_build_says_what_to_do(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("cmake", "make", "ninja"):
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    env = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")} | {"PATH": str(tools)}
    root = Path(__file__).parent.parent
    command = [str(tools / "cmake"), "-S", str(root), "-B", str(tmp_path / "build"), "-DINTRS_TESTS=ON"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    message = " ".join(run.stderr.split())
    assert "found no compiler" in message
    for words in ("C++17", "apt install g++", "xcode-select", "point CXX at one"):
        assert words in message


def test_the_package_is_typed_and_complete() -> None:
    for name in ("py.typed", "_core.pyi", "zoo/cifar10-500.npz", "zoo/resnet8-sigma0.25.onnx"):
        assert (PACKAGE / name).is_file(), name


# --- the stub --------------------------------------------------------------------------------------------------------


def parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def real_parameters(function: Any) -> list[str]:
    signature: str = function.__nb_signature__[0][0]
    inside = signature[signature.index("(") + 1 : signature.rindex(")")]
    while "[" in inside:
        inside = re.sub(r"\[[^\[\]]*\]", "", inside)
    names = [part.split(":")[0].strip() for part in inside.split(",") if part]
    return [name for name in names if name != "self"]


def test_the_stub_names_what_the_core_has() -> None:
    declared = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    declared |= {
        node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert declared == {name for name in vars(_core) if not name.startswith("_")}


@pytest.mark.parametrize("node", [n for n in STUB.body if isinstance(n, ast.FunctionDef)], ids=lambda n: n.name)
def test_the_stub_of_functions(node: ast.FunctionDef) -> None:
    assert parameters(node) == real_parameters(getattr(_core, node.name))


@pytest.mark.parametrize("node", [n for n in STUB.body if isinstance(n, ast.ClassDef)], ids=lambda n: n.name)
def test_the_stub_of_classes(node: ast.ClassDef) -> None:
    real = getattr(_core, node.name)
    methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"}
    assert set(methods) == {name for name in vars(real) if not name.startswith("_")}
    for name, method in methods.items():
        assert parameters(method) == real_parameters(getattr(real, name))
