"""The independent checkers: they confirm what ships, and refuse copies that were altered in any way that matters."""

from __future__ import annotations

import ast
import hashlib
import importlib
import pkgutil
import re
import subprocess
import sys
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from intrs.certificate import Certifier
from intrs.noise import KINDS, SHIPPED, Noise, table

PROOFS = Path(__file__).parents[1] / "proofs"
CHECKERS = [
    "intervals",
    "check_noise",
    "check_certificate",
    "check_adaptive",
    "check_winograd",
    "check_rescale",
    "check_primitives",
]
MODEL_CHECKER = "z3"
SHIPPED_TABLES = [f"{kind}-{sigma}.bin" for kind in KINDS for sigma in SHIPPED]


@pytest.fixture(scope="module", autouse=True)
def checkers() -> Any:
    sys.path.insert(0, str(PROOFS))
    yield
    sys.path.remove(str(PROOFS))


def check_noise(data: bytes) -> Any:
    return importlib.import_module("check_noise").check_noise(data)


def check_certificate(radii: bytes, noise: bytes) -> Any:
    return importlib.import_module("check_certificate").check_certificate(radii, noise)


def check_error() -> type[Exception]:
    found: type[Exception] = importlib.import_module("check_noise").CheckError
    return found


def shipped(name: str) -> bytes:
    return (files("intrs") / "tables" / name).read_bytes()


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_checkers_share_no_code_with_the_package(checker: str) -> None:
    tree = ast.parse((PROOFS / f"{checker}.py").read_text())
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    imported |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert (
        not {str(m).partition(".")[0] for m in imported}
        - set(sys.stdlib_module_names)
        - set(CHECKERS)
        - {MODEL_CHECKER}
    )


def test_the_code_that_the_page_names_is_there() -> None:
    """The second column of proofs/README.md: names in `intrs`; a short one stands beside the name before it."""
    rows = [line.split("|") for line in (PROOFS / "README.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    columns = [re.findall(r"`([\w.]+)`", row[2]) for row in rows[1:]]
    assert len(columns) > 20
    for names in columns:
        assert names
        before = ""
        for name in names:
            assert exists(f"intrs.{name}") or exists(f"{before.rpartition('.')[0]}.{name}"), name
            before = f"intrs.{name}" if exists(f"intrs.{name}") else before


def exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def test_writing_the_tables_anew_changes_nothing(tmp_path: Path) -> None:
    """And prints the digests as they stand in the code."""
    command = [sys.executable, str(PROOFS / "make_tables.py"), str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        name: shipped(name) for name in SHIPPED_TABLES
    }
    assert printed in Path(table.__file__).read_text("utf-8")


@pytest.mark.parametrize("name", SHIPPED_TABLES)
def test_shipped_noise_tables_are_confirmed(name: str) -> None:
    table = check_noise(shipped(name))
    assert table.eta == Noise.of(table.kind, table.sigma).eta


def alter(data: bytes, place: int, size: int, change: int) -> bytes:
    value = int.from_bytes(data[place : place + size], "little") + change
    return data[:place] + value.to_bytes(size, "little") + data[place + size :]


@pytest.mark.parametrize(
    ("place", "size", "change", "words"),
    [
        (72, 8, 1, "increasing"),
        (72 + 8 * 100, 8, 1, "symmetric"),
        (16, 8, 1, "ends too early"),  # sigma
        (8, 4, 1, "threshold"),  # kind
        (12, 4, 1, "centred"),
        (32, 16, -1, "below the total variation"),
        (32, 16, 1, "larger than it has to be"),
        (0, 1, 1, "not a noise table"),
        (64, 8, 1, "length"),
    ],
)
def test_altered_noise_tables_are_refused(place: int, size: int, change: int, words: str) -> None:
    with pytest.raises(check_error(), match=words):
        check_noise(alter(shipped("discrete-0.12.bin"), place, size, change))


def test_a_symmetric_change_of_one_unit_is_refused() -> None:
    data = shipped("rounded-0.12.bin")
    count = (len(data) - 72) // 8
    both = alter(alter(data, 72 + 8 * 100, 8, 1), 72 + 8 * (count - 101), 8, -1)
    with pytest.raises(check_error(), match="the threshold of"):
        check_noise(both)


# --- radii -----------------------------------------------------------------------------------------------------------


@cache
def radii(kind: str, bound: Any, n: int = 1000) -> bytes:
    return Certifier(Noise.of(kind, "0.25"), 3072, n, Fraction(1, 1000), bound).table().to_bytes()


def seal(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(("kind", "bound"), [("discrete", "sound"), ("rounded", "sound"), ("discrete", "paper")])
def test_radii_are_confirmed_and_larger_ones_refused(kind: str, bound: str) -> None:
    data, noise = radii(kind, bound), shipped(f"{kind}-0.25.bin")
    confirmed, rows = check_certificate(data, noise)
    assert len(confirmed.values) > 400
    assert rows > 20
    for place in (len(data) - 40, len(data) - 40 - 8 * 200):  # the last row, and one amid the table
        value = int.from_bytes(data[place : place + 8], "little")
        larger = 2 * round(value**0.5) + 1 if bound == "paper" else 1 + value // 500
        raised = alter(data[:-32], place, 8, larger)
        with pytest.raises(check_error(), match=r"do not certify|smaller radius"):
            check_certificate(seal(raised), noise)


def test_the_least_step_up_is_refused() -> None:
    """R2 + 1 on the last row is too much: the table is not only sound but the largest."""
    data = radii("rounded", "sound")
    with pytest.raises(check_error(), match="1000 votes do not certify"):
        check_certificate(seal(alter(data[:-32], len(data) - 40, 8, 1)), shipped("rounded-0.25.bin"))


@pytest.mark.parametrize(
    ("place", "size", "change", "words"),
    [
        (8, 4, 1, "another noise"),
        (16, 8, 1, "another noise"),
        (64, 16, -1, "not charged"),  # eta
        (48, 16, 1000, "do not certify"),  # alpha, smaller
        (104, 8, 1, "length"),
        (112, 8, 1, "length"),
    ],
)
def test_radii_with_another_header_are_refused(place: int, size: int, change: int, words: str) -> None:
    body = alter(radii("discrete", "sound")[:-32], place, size, change)
    with pytest.raises(check_error(), match=words):
        check_certificate(seal(body), shipped("discrete-0.25.bin"))


def test_radii_that_begin_too_late_are_refused() -> None:
    data = radii("discrete", "sound", 200)
    body = alter(alter(data[:-32], 112, 8, 1), 120, 8, -1)
    with pytest.raises(check_error(), match="would have been enough"):
        check_certificate(seal(body[:128] + body[136:]), shipped("discrete-0.25.bin"))


def test_damaged_radii_are_refused() -> None:
    data = bytearray(radii("discrete", "sound"))
    data[500] ^= 1
    with pytest.raises(check_error(), match="damaged"):
        check_certificate(bytes(data), shipped("discrete-0.25.bin"))


def test_exit_codes(tmp_path: Path) -> None:
    """As scripts: 0 for what ships, 1 for a corrupted copy."""
    noise = Path(str(files("intrs") / "tables" / "discrete-0.25.bin"))
    (tmp_path / "radii").write_bytes(radii("discrete", "sound"))
    (tmp_path / "wrong").write_bytes(alter(shipped("discrete-0.12.bin"), 32, 16, -1))
    runs = {
        ("check_noise.py", noise): 0,
        ("check_noise.py", tmp_path / "wrong"): 1,
        ("check_certificate.py", tmp_path / "radii", noise, "--every", "20"): 0,
        ("check_certificate.py", tmp_path / "radii", tmp_path / "wrong"): 1,
    }
    for (script, *arguments), code in runs.items():
        command = [sys.executable, str(PROOFS / str(script)), *map(str, arguments)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


def test_winograd_tiles_are_exact() -> None:
    checker = importlib.import_module("check_winograd")
    assert "sums below 2^25" in checker.check(checker.HEADER.read_text())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("4  0 -5  0  1  0", "4  0 -4  0  1  0"),
        ("1  2  4 ", "1  2  3 "),
        ("24 y0", "12 y0"),
        ("kNinth = 954437177", "kNinth = 954437179"),
        ("{3, 2, 1, 1}", "{3, 2, 2, 1}"),
        (">= 1 << 25", ">= 1 << 26"),
        ("36 * uint32_t(start", "6 * uint32_t(start"),
    ],
)
def test_altered_winograd_tiles_are_refused(old: str, new: str) -> None:
    checker = importlib.import_module("check_winograd")
    text = checker.HEADER.read_text()
    assert old in text
    with pytest.raises(checker.CheckError):
        checker.check(text.replace(old, new))


def test_rescale_by_instructions_of_neon(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = importlib.import_module("check_rescale")
    assert "equal" in checker.check_all()
    right = checker.by_instructions
    monkeypatch.setattr(checker, "by_instructions", lambda *s, twice: right(*s, twice=False))  # one rounding for two
    with pytest.raises(checker.CheckError):
        checker.check_all()


# --- arithmetic ------------------------------------------------------------------------------------------------------

SCALES = ((1518500250, 40), (1 << 30, 31), (2**31 - 1, 62), ((1 << 30) + 1, 33), (3, 2), (0, 20), (2**31 - 1, 32))


def test_primitives_are_proven() -> None:
    assert "321 claims for all words" in importlib.import_module("check_primitives").check_all()


@pytest.mark.parametrize(
    ("claims", "wrong", "name"),
    [
        ("rescale_claims", "rescale_twice", "rescale, shift 32"),
        ("twice_claims", "rescale", "rescale_twice, shift 32"),
        ("high_claims", "rescale_twice", "rescale_high, shift 33"),
    ],
)
def test_wrong_primitives_are_refused(claims: str, wrong: str, name: str) -> None:
    """One rounding in place of the other is told apart, with words that show it."""
    checker: Any = importlib.import_module("check_primitives")
    found = next(claim for claim in getattr(checker, claims)(getattr(checker, wrong)) if claim[0] == name)
    with pytest.raises(checker.CheckError, match="product"):
        checker.check_claim(found)


def test_wrong_codes_and_tiles_are_refused() -> None:
    checker: Any = importlib.import_module("check_primitives")
    wrong = checker.quick_claims(lambda shift, zero: checker.quick_code(shift, zero + 1))
    with pytest.raises(checker.CheckError, match="quick_code, shift 33"):
        checker.check_claim(list(wrong)[1])
    with pytest.raises(checker.CheckError, match="tiles: weight"):
        checker.check_tiles(((1, 1, 1, 0), (0, 1, -1, 1)))


def test_the_compiled_primitives_are_those_that_are_proven(tmp_path: Path) -> None:
    """Every 65,537th value; `exhaustive 1 ...` takes all of them."""
    root = PROOFS.parent
    source, includes = root / "tests/device/exhaustive.c", (f"-I{root / 'device'}", f"-I{root / 'core'}")
    subprocess.run(["gcc", "-std=c99", "-O2", *includes, str(source), "-o", str(tmp_path / "run")], check=True)
    words = [str(word) for scale in SCALES for word in scale]
    done = subprocess.run([str(tmp_path / "run"), "65537", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout == f"{len(SCALES) * 65_536} equal\n"
