"""A headless Chromium with one page, driven by the DevTools protocol over a pipe: nothing else to install."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0  # seconds until a browser that does not answer is given up
KEYS = {
    "Tab": 9, "Enter": 13, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
    "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip


def chromium() -> str | None:
    """The browser, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def in_browser(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that opens a page, and skip it where there is no browser."""
    reason = "no Chromium here (Debian and Ubuntu: apt-get install chromium)"
    marked: Callable[..., None] = pytest.mark.browser(pytest.mark.skipif(not chromium(), reason=reason)(test))
    return marked


# The least contrast of any words against the page, by the formula of WCAG 2.
CONTRAST = """(() => {
  const light = (c) => { const v = c / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const luminance = (css) => {
    const [r, g, b] = css.match(/[\\d.]+/g).map(Number);
    return 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  };
  const behind = (e) => {
    const colour = e ? getComputedStyle(e).backgroundColor : "rgb(255,255,255)";
    return /, 0\\)$/.test(colour) ? behind(e.parentElement) : colour;
  };
  const ratio = (e) => {
    const a = luminance(getComputedStyle(e).color), b = luminance(behind(e));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const kinds = "h1, h2, p, li, td, th, dt, dd, button, figcaption, .interval, .choice span";
  const words = [...document.querySelectorAll(kinds)];
  return Math.min(...words.filter((e) => e.innerText && e.offsetParent).map(ratio));
})()"""


class Browser:
    """One Chromium with one page. Whatever goes wrong in the page is collected in `complaints`."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="intrs-chromium-")
        ours, theirs = os.pipe(), os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (ours[0], theirs[1])]
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)]
        program = chromium()
        assert program
        command = [program, *FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._pid = os.posix_spawn(program, command, os.environ, file_actions=actions, setpgroup=0)
        for fd in (*high, null, ours[0], theirs[1]):
            os.close(fd)
        self._in, self._out = ours[1], theirs[0]
        self._rest, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._in, data) :]
        while (found := self._next()).get("id") != self._number:
            self._hear(found)
        assert "error" not in found, found["error"]
        return dict(found["result"])

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(self._out, 2**16) if ready else b""
            assert part, "Chromium does not answer"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _hear(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([argument.get("value") for argument in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    # --- The page ----------------------------------------------------------------------------------------------------

    def open(self, path: Path, *, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        """Show a file in a window of this size."""
        self.visit(path.resolve().as_uri(), width=width, height=height, dark=dark)

    def visit(self, address: str, *, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        """Show a page in a window of this size, as if nothing had been shown before."""
        self.complaints, self.requests = [], []
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url="about:blank")  # else another #fragment alone would load nothing
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.protocol !== 'about:'")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a condition holds. While a page takes the place of another there is no body, and nothing holds."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(f"document.body !== null && !!({condition})"):
            assert time.monotonic() < deadline, f"never came true: {condition}"
            time.sleep(0.02)

    def texts(self, selector: str) -> list[str]:
        """What is written in all elements that a selector finds."""
        return list(self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"))

    def point(self, selector: str, across: float, down: float = 0.5) -> None:
        """Move the mouse to a place in an element, given as shares of its width and height."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height]; })()"
        )
        x, y = box[0] + across * box[2], box[1] + down * box[3]
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        self.point(selector, 0.5)
        box = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key: str, times: int = 1) -> None:
        """Press a key."""
        code = KEYS[key]
        for _ in range(times):
            for kind in ("rawKeyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def choose(self, selector: str, value: str) -> None:
        """Take an option of a select element, as a user's choice would."""
        self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
            "e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def give(self, selector: str, path: Path) -> None:
        """Choose a file in a file input, as a user's choice would."""
        found = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        self.call("DOM.setFileInputFiles", files=[str(path)], objectId=found["result"]["objectId"])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """What is seen, or all of the page, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (self._in, self._out):  # the browser leaves when its pipe is closed
            os.close(fd)
        deadline = time.monotonic() + 10
        while os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                break
            time.sleep(0.05)
        shutil.rmtree(self._folder, ignore_errors=True)
