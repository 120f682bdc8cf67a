"""Downloads from a server that misbehaves in all the ways there are."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import numpy as np
import pytest

from intrs.data import download as room
from intrs.data.download import Download, download
from intrs.errors import DataError
from intrs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = np.random.default_rng(0).bytes(300_000)
BLOCK = room.CHUNK


@dataclass
class Site:
    """What the server does, and what it was asked."""

    content: bytes = CONTENT
    files: dict[str, bytes] = field(default_factory=dict)  # at these paths there is other content
    root: str = ""
    ranges: bool = True  # whether it can send a part
    cut: list[int] = field(default_factory=list)  # bytes after which an answer breaks off, for each of the next answers
    codes: list[int] = field(default_factory=list)  # for each of the next answers
    length: str | None = "right"
    content_range: str | None = None
    stall: bool = False  # fall silent where the answer would break off
    asked: list[str | None] = field(default_factory=list)
    leave: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.root}/some/data.bin?download=1"

    @property
    def item(self) -> Download:
        return Download(self.url, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        site, wanted = self.site, self.headers.get("Range")
        site.asked.append(wanted)
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and site.ranges else 0
        code = site.codes.pop(0) if site.codes else 206 if begin else 200
        content = site.files.get(self.path, site.content)
        body = content[begin:] if code in (200, 206) else b"no"
        self.send_response(code)
        if site.length is not None:
            self.send_header("Content-Length", str(len(body)) if site.length == "right" else site.length)
        if code == 206:
            whole = f"bytes {begin}-{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", site.content_range or whole)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the client may have heard enough
            self.wfile.write(body[: site.cut.pop(0)] if site.cut else body)
        if site.stall:
            site.leave.wait(20)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Not on stderr."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(room, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    found = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"site": found}))
    server.daemon_threads = True
    found.root = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    found.leave.set()
    server.shutdown()
    thread.join()
    server.server_close()


def get(site: Site, folder: Path) -> bytes:
    path = download(site.item, folder, None)
    assert path == folder / "data.bin"
    assert [p.name for p in folder.iterdir()] == ["data.bin"], "nothing but the file is left"
    return path.read_bytes()


def test_a_download(site: Site, tmp_path: Path) -> None:
    seen: list[Progress] = []
    path = download(site.item, tmp_path, seen.append)
    assert path.read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == Progress(len(CONTENT), len(CONTENT), "bytes", "data.bin")
    assert site.asked == [None]
    assert get(site, tmp_path) == CONTENT
    assert site.asked == [None], "what is there is not fetched again"


def test_a_damaged_file_is_fetched_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(CONTENT[:-1] + b"?")
    assert get(site, tmp_path) == CONTENT


@pytest.mark.parametrize("length", ["right", None])
def test_a_broken_transfer_goes_on_where_it_broke(site: Site, tmp_path: Path, length: str | None) -> None:
    site.cut, site.length = [100_000, 50_000, 0], length
    assert get(site, tmp_path) == CONTENT
    assert site.asked == [None, "bytes=100000-", "bytes=150000-", "bytes=150000-"]


def test_a_broken_transfer_begins_anew_where_the_server_sends_no_parts(site: Site, tmp_path: Path) -> None:
    site.cut, site.ranges = [100_000], False
    assert get(site, tmp_path) == CONTENT
    assert site.asked == [None, "bytes=100000-"]


def test_an_earlier_beginning_is_used(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:123_456])
    assert get(site, tmp_path) == CONTENT
    assert site.asked == ["bytes=123456-"]


def test_a_complete_beginning_needs_no_site(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT)  # killed before the last move
    assert get(site, tmp_path) == CONTENT
    assert site.asked == []


@pytest.mark.parametrize("size", [1000, len(CONTENT), len(CONTENT) + 7])
def test_a_beginning_of_something_else_is_thrown_away(site: Site, tmp_path: Path, size: int) -> None:
    (tmp_path / "data.bin.part").write_bytes(bytes(size))
    assert get(site, tmp_path) == CONTENT
    assert site.asked[-1] is None


@pytest.mark.parametrize(
    ("codes", "content_range"), [([416], None), ([], "bytes 5-9/300000"), ([], "bytes 99-299999/7")]
)
def test_a_server_that_gives_another_part(
    site: Site, tmp_path: Path, codes: list[int], content_range: str | None
) -> None:
    site.codes, site.content_range = codes, content_range
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:99])
    assert get(site, tmp_path) == CONTENT
    assert site.asked == ["bytes=99-", None]


def test_a_wrong_hash_is_refused_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with pytest.raises(DataError, match=r"data\.bin.*not the file that is known"):
        download(site.item, tmp_path, None)
    assert list(tmp_path.iterdir()) == []
    assert site.asked == [None], "once is enough"


@pytest.mark.parametrize("content", [CONTENT + b"x", CONTENT[:-1], b"<html>Please log in</html>"])
def test_a_wrong_length_is_refused_before_the_transfer(site: Site, tmp_path: Path, content: bytes) -> None:
    site.content = content
    with pytest.raises(DataError, match=f"{len(content)} bytes there, but the file that is known has 300,000"):
        download(site.item, tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_an_endless_answer_is_cut_off(site: Site, tmp_path: Path) -> None:
    site.content, site.length = CONTENT * 20, None
    with pytest.raises(DataError, match="more than the 300,000 bytes"):
        download(site.item, tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_giving_up_keeps_what_came(site: Site, tmp_path: Path) -> None:
    site.cut = [120_000] + [0] * room.TRIES
    with pytest.raises(DataError, match="120,000 of 300,000 bytes are kept; fetch it again to continue"):
        download(site.item, tmp_path, None)
    assert len(site.asked) == 1 + room.TRIES
    site.cut.clear()
    assert get(site, tmp_path) == CONTENT
    assert site.asked[-1] == "bytes=120000-"


def test_giving_up_on_a_server_that_always_breaks_off_and_sends_no_parts(site: Site, tmp_path: Path) -> None:
    site.cut, site.ranges = [120_000] * 50, False
    with pytest.raises(DataError, match="fetch it again to continue"):
        download(site.item, tmp_path, None)
    assert len(site.asked) == 1 + room.TRIES


def test_answers_that_pass_and_answers_that_do_not(site: Site, tmp_path: Path) -> None:
    site.codes = [503, 429]
    assert get(site, tmp_path) == CONTENT
    (tmp_path / "data.bin").unlink()
    site.codes, site.asked = [404], []
    with pytest.raises(DataError, match="the site answers 404"):
        download(site.item, tmp_path, None)
    assert len(site.asked) == 1


def test_silence_is_a_failure(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "TIMEOUT", 0.2)
    site.stall, site.cut = True, [2 * BLOCK] + [0] * room.TRIES
    with pytest.raises(DataError, match=f"broke off .*timed out.*{2 * BLOCK:,} of 300,000 bytes are kept"):
        download(site.item, tmp_path, None)
    site.stall, site.cut = False, []
    assert get(site, tmp_path) == CONTENT


def test_no_such_site(site: Site, tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:1/data.bin", "https://no-such-host.invalid/data.bin"):
        with pytest.raises(DataError, match=r"data\.bin: not reached"):
            download(replace(site.item, url=url), tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_after_kill_9_the_rest_is_fetched(site: Site, tmp_path: Path) -> None:
    site.stall, site.cut = True, [2 * BLOCK]
    item, part = site.item, tmp_path / "data.bin.part"
    script = (
        "import sys; from pathlib import Path; from intrs.data.download import Download, download\n"
        f"download(Download({item.url!r}, {item.size}, {item.sha256!r}), Path(sys.argv[1]), None)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=os.environ)
    try:
        for _ in range(1000):
            if part.exists() and part.stat().st_size == 2 * BLOCK:
                break
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert part.stat().st_size == 2 * BLOCK
    site.stall = False
    assert get(site, tmp_path) == CONTENT
    assert site.asked == [None, f"bytes={2 * BLOCK}-"]
