"""The order of rooms in HACKING.md: a room imports only rooms that stand before it, so data flows one way."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "intrs"
NAMES = {path.stem for path in PACKAGE.iterdir() if path.suffix in (".py", ".pyi")}
NAMES |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def listed() -> list[str]:
    """The rooms from first to last: the words of the indented lines under the heading."""
    (section,) = re.findall(
        r"^## The order of rooms\n(.*?)(?=^## )", (ROOT / "HACKING.md").read_text("utf-8"), re.M | re.S
    )
    return [room for line in section.splitlines() if line.startswith("    ") for room in line.split()]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports: on top, in functions, for types, or named in a string."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                folder = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
                module = ".".join([*folder, *filter(None, [node.module])])
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            case ast.Constant(value=str(text)) if re.fullmatch(r"intrs\.\w+(\.\w+)*", text):
                if text.split(".")[1] in NAMES:
                    yield node.lineno, text


def room_of(name: str) -> str | None:
    """The room of the package that a dotted name is from."""
    package, *rest = name.split(".")
    if package != "intrs":
        return None
    if rest == ["__version__"]:
        return "version"
    return rest[0] if rest and rest[0] in NAMES else "__init__"


def offences(order: list[str]) -> list[str]:
    """Every import of a room that stands later in the order, by file and line."""
    found = []
    place = {room: i for i, room in enumerate(order)}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for line, name in imports(path):
            other = room_of(name)
            if other and place.get(other, 0) > place.get(room, len(order)):
                found.append(f"{path.relative_to(ROOT)}:{line} imports {name}, which comes after {room}")
    return found


def test_every_room_has_its_place() -> None:
    assert sorted(listed()) == sorted(NAMES), "left: the list in HACKING.md; right: what src/intrs holds"


def test_rooms_import_only_rooms_before_them() -> None:
    found = offences(listed())
    assert not found, "\n".join(found)


EVERY_KIND = """
import intrs, numpy
from intrs import __version__, zoo
if TYPE_CHECKING:
    from intrs.noise import Noise
def later():
    from intrs.results import read
    import_module("intrs.cli.run"), open("intrs.txt"), "intrs"
"""


def test_every_kind_of_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(EVERY_KIND)
    rooms = {room_of(name) for _, name in imports(tmp_path / "room.py")}
    assert rooms == {"__init__", "zoo", "noise", "results", "cli", "version", None}
    assert len(offences(listed()[::-1])) > 100


def raised_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string in a raise statement."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def test_errors_of_the_library_name_no_options() -> None:
    """A program that calls a function has no `--n`; the command line adds advice of its own where it helps."""
    option = re.compile(r"(?<![\w-])--(?!install)[a-z]")  # not the advice to run xcode-select
    files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "cli"]
    assert any(option.search(text) for path in (PACKAGE / "cli").glob("*.py") for _, text in raised_texts(path))
    named = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in files for line, text in raised_texts(path)
             if option.search(text)]  # fmt: skip
    assert not named, "\n".join(named)


def test_one_word_has_one_meaning() -> None:
    """Two rooms that give their classes the same name make a reader ask which one is meant."""
    places: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, set()).add(path.relative_to(PACKAGE).parts[0])
    assert len(places) > 50
    assert not {name: rooms for name, rooms in places.items() if len(rooms) > 1}
