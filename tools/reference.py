"""The pages of the docs that come from the code: the command line and the Python interface.

docs/conf.py puts them in the place of MARK in docs/command-line.md and docs/python-api.md. Both are text, so that what
is written here can be tested without Sphinx.
"""

from __future__ import annotations

import argparse
import inspect
import re
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import intrs
from intrs.cli import arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "<!-- generated -->"
RETURNED = {  # what functions return that no public room names
    "intrs.exchange.targets": ("Exported",),
    "intrs.results.merging": ("Merged",),
    "intrs.verification": ("Verified",),
}
MOST_SHOWN = 100  # characters of a constant


def command_line() -> str:
    """Every command with every argument, in Markdown."""
    commands = _commands()
    parts = [f"```text\n{arguments._parser().format_help()}```"]
    for group, names in arguments.GROUPS.items():
        parts.append(f"## {group}")
        parts += [_command(commands[name]) for name in names]
    missing = commands.keys() - {name for names in arguments.GROUPS.values() for name in names}
    if missing:
        raise ValueError(f"commands in no group: {', '.join(sorted(missing))}")
    return "\n\n".join(parts)


def _commands() -> dict[str, argparse.ArgumentParser]:
    actions = arguments._parser()._actions
    (commands,) = (action for action in actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


def _command(parser: argparse.ArgumentParser) -> str:
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    parts = [f"### {parser.prog}", _escape(parser.description or ""), f"```text\n{usage}\n```"]
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if action.help is not argparse.SUPPRESS]
        if shown:
            parts.append(f"**{_escape(_title(group.title or ''))}**")
            parts += [f"`{_names(action)}`\n: {_escape(_help(parser, action))}" for action in shown]
    return "\n\n".join(parts)


def _title(title: str) -> str:
    return title[:1].upper() + title[1:]


def _names(action: argparse.Action) -> str:
    """How an argument is written: `-o FILE, --out FILE`."""
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        value = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return value
    taken = "" if action.nargs == 0 else f" [{value}]" if action.nargs == "?" else f" {value}"
    taken += " ..." if action.nargs in ("+", "*") else ""
    return ", ".join(name + taken for name in action.option_strings)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """What --help says of it, with a required option marked."""
    words = parser._get_formatter()._expand_help(action) if action.help else ""
    return f"{words} (required)" if action.required and action.option_strings else words


def _escape(words: str) -> str:
    """Text for Markdown: what stands in backticks is code, everything else is itself."""
    parts = re.split(r"(`[^`]+`)", words)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]{}$#|])", r"\\\1", part) for part in parts)


def python_api() -> str:
    """Every public name of the package, as directives of autodoc inside Markdown."""
    named = [name for name in intrs.__all__ if not _is_module(intrs, name)]
    parts = ["## intrs", "```{eval-rst}\n.. automodule:: intrs\n```", _directives("intrs", named)]
    for module in sorted(_modules()):
        names = sorted(name for name in _public(import_module(module)) if name not in intrs._WHERE)
        if names:
            parts += [f"## {module}", f"```{{eval-rst}}\n.. automodule:: {module}\n```", _directives(module, names)]
    parts += ["## What functions return", *(_directives(module, list(names)) for module, names in RETURNED.items())]
    return "\n\n".join(parts)


def _modules() -> set[str]:
    """The rooms that `import intrs` names, and those that its functions and classes are from."""
    return {f"intrs.{room}" for room in intrs._ROOMS} | set(intrs._NAMES) - {"intrs.version", "intrs.api"}


def _is_module(owner: ModuleType, name: str) -> bool:
    return isinstance(getattr(owner, name), ModuleType)


def _public(module: ModuleType) -> Iterator[str]:
    """The names that a module says are public; without __all__ its own functions and classes."""
    if hasattr(module, "__all__"):
        yield from module.__all__
        return
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__:
            yield name


def _directives(module: str, names: list[str]) -> str:
    found = sorted((_directive(f"{module}.{name}", getattr(import_module(module), name)) for name in names), key=_order)
    return "```{eval-rst}\n" + "\n\n".join(found) + "\n```"


def _order(directive: str) -> int:
    """Functions first, then classes, exceptions and constants."""
    return ("autofunction", "autoclass", "autoexception", "py:data").index(directive.split("::")[0].removeprefix(".. "))


def _directive(name: str, value: Any) -> str:
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        return f".. {kind}:: {name}\n   :members:"
    if inspect.isroutine(value):
        return f".. autofunction:: {name}"
    shown = repr(value)
    return f".. py:data:: {name}" + (f"\n   :value: {shown}" if len(shown) <= MOST_SHOWN else "")


def as_rst(lines: list[str]) -> list[str]:
    """A docstring for autodoc, which reads reStructuredText: code in backticks, and indented examples."""
    made: list[str] = []
    literal = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not literal and made and not made[-1].strip():
            made += ["::", ""]
        literal = indented or (literal and not line.strip())
        made.append(line if literal else _rst_line(line))
    return made


def _rst_line(line: str) -> str:
    """One line of prose: `code` becomes ``code``, and signs that reStructuredText would read are themselves."""
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(f"`{part}`" if part.startswith("`") else re.sub(r"([*|\\_])", r"\\\1", part) for part in parts)
