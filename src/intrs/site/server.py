"""A small server for one folder on this machine: Python's own, with the right types and the page's policy.

The next folder at the same address may be another one, and so may the next program. So browsers are told to keep
nothing, and what an earlier page has stored at this address is emptied.
"""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intrs.errors import SettingsError
from intrs.site.folder import POLICY

if TYPE_CHECKING:
    from io import BytesIO
    from typing import BinaryIO

HERE = "127.0.0.1"
WORKER = "/sw.js"  # which stores the page, where it is hosted
LEAVE = Path(__file__).with_name("leave.js")  # which empties the store instead
TYPES = {
    ".bin": "application/octet-stream",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".intrs": "application/octet-stream",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}


class Handler(SimpleHTTPRequestHandler):
    """Answers with the files of one folder."""

    extensions_map = TYPES  # not what a registry of the system says

    def send_head(self) -> BytesIO | BinaryIO | None:
        """Without asking how old the browser's copy is: it may be of another folder."""
        del self.headers["If-Modified-Since"]
        return super().send_head()

    def translate_path(self, path: str) -> str:
        """Where a file lies."""
        return str(LEAVE) if path.partition("?")[0] == WORKER else super().translate_path(path)

    def end_headers(self) -> None:
        """With what holds for all answers."""
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """The page is for people, and so is the terminal."""


def serving(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server for this folder, for this machine alone; call `serve_forever`. Port 0 takes one that is free."""
    try:
        return ThreadingHTTPServer((HERE, port), partial(Handler, directory=str(folder)))
    except (OSError, OverflowError) as error:
        raise SettingsError(f"cannot serve at port {port}: {error}; choose another one") from None
