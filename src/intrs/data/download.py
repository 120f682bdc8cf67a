"""Files from the web, each with a size and a hash known beforehand.

What arrives is kept as NAME.part until it is complete and its hash is right; only then it gets its name. After an
interruption the rest is asked for, and if the server cannot give just the rest, the whole.
"""

from __future__ import annotations

import hashlib
import http
import http.client
import re
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from intrs.errors import DataError
from intrs.files import Appended, sync_folder
from intrs.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from intrs.progress import OnProgress

TRIES = 4  # in a row without a byte more than before
PAUSE = 1.0  # seconds after the first failure, twice that after the second, ...
TIMEOUT = 30.0  # seconds of silence
CHUNK = 2**16
PASSING = {408, 425, 429, 500, 502, 503, 504}  # HTTP answers that may be others in a moment


@dataclass(frozen=True)
class Download:
    """A file that is known to the last byte."""

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name."""
        return urlsplit(self.url).path.rpartition("/")[2]


class _PassingError(Exception):
    """A failure after which it makes sense to try again."""


def download(item: Download, folder: Path, progress: OnProgress | None = None) -> Path:
    """Fetch into the folder, or find what was fetched before; progress is told how many bytes have arrived.

    Raises DataError if the site cannot be reached, has something else, or falls silent; what has arrived is kept
    unless it is wrong.
    """
    done, part = folder / item.name, folder / f"{item.name}.part"
    if done.is_file() and _is_right(done, item):
        _report(progress, item, item.size)
        return done
    done.unlink(missing_ok=True)
    continued = part.exists()
    _complete(item, part, progress)
    if continued and not _is_right(part, item):  # perhaps the beginning was of another file: once more, all of it
        part.unlink()
        _complete(item, part, progress)
    if not _is_right(part, item):
        part.unlink()
        raise DataError(f"{item.url}: what came is not the file that is known; its sha256 is not {item.sha256}")
    part.replace(done)
    sync_folder(folder)
    return done


def _report(progress: OnProgress | None, item: Download, done: int) -> None:
    if progress:
        progress(Progress(done, item.size, "bytes", item.name))


def _is_right(path: Path, item: Download) -> bool:
    with path.open("rb") as file:
        return path.stat().st_size == item.size and hashlib.file_digest(file, "sha256").hexdigest() == item.sha256


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _complete(item: Download, part: Path, progress: OnProgress | None) -> None:
    """Ask until all bytes are there, as long as there come more."""
    failures, most = 0, _size(part)
    while _size(part) != item.size:
        reason = "the connection ended early"
        if _size(part) > item.size:
            part.unlink()
        try:
            _transfer(item, part, progress)
        except _PassingError as error:
            reason = str(error)
        failures = 0 if _size(part) > most else failures + 1
        most = max(most, _size(part))
        if failures == TRIES:
            have = f"; {_size(part):,} of {item.size:,} bytes are kept; fetch it again to continue"
            raise DataError(f"{item.url}: {reason}{have if _size(part) else ''}")
        time.sleep(PAUSE * failures)


def _transfer(item: Download, part: Path, progress: OnProgress | None) -> None:
    """One request, for what is missing."""
    try:
        with urlopen(_request(item, _size(part)), timeout=TIMEOUT) as response:
            _receive(item, part, response, progress)
    except HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
        elif error.code not in PASSING:
            raise DataError(f"{item.url}: the site answers {error.code} {error.reason}") from None
        raise _PassingError(f"the site answers {error.code} {error.reason}") from None
    except URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DataError(f"{item.url}: {error.reason}") from None
        raise _PassingError(f"not reached ({error.reason})") from None
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise _PassingError(f"the transfer broke off ({error or type(error).__name__})") from None


def _request(item: Download, have: int) -> Request:
    headers = {"User-Agent": "intrs", "Accept-Encoding": "identity"}
    return Request(item.url, headers=headers | ({"Range": f"bytes={have}-"} if have else {}))


def _receive(item: Download, part: Path, response: http.client.HTTPResponse, progress: OnProgress | None) -> None:
    place = _begin(item, part, response)
    with Appended(part) as file:
        file.cut(place)
        while chunk := response.read(CHUNK):
            if file.size + len(chunk) > item.size:
                part.unlink()
                raise DataError(f"{item.url}: more than the {item.size:,} bytes that the file has")
            file.append(chunk)
            _report(progress, item, file.size)
        file.sync()


def _begin(item: Download, part: Path, response: http.client.HTTPResponse) -> int:
    """Where in the file the answer begins: where we asked, or at 0 if the server ignores what we asked."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        length = response.headers.get("Content-Length")
        if length is not None and length != str(item.size):
            raise DataError(f"{item.url}: {length} bytes there, but the file that is known has {item.size:,}")
        return 0
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if not found or int(found[1]) != _size(part) or found[2] not in ("*", str(item.size)):
        part.unlink(missing_ok=True)
        raise _PassingError("the site answers with another part of a file than was asked for")
    return _size(part)
