"""How settings and answers copy and show: by their fields alone, as a short table in a notebook."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class ByFields:
    """A dataclass that pickle and copy build again from its fields, without what was computed and kept beside them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


def html_table(rows: Mapping[str, object], sentence: str = "") -> str:
    """Names and values as an HTML table, and a sentence below it, all of it escaped."""
    cells = (
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table>{''.join(cells)}</table>" + (f"<p>{escape(sentence)}</p>" if sentence else "")
