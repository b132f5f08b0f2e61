"""Headless Chromium for tests, driven over its debugging pipe; nothing but the standard library.

Skips the test that asks for it where there is no Chromium.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
ANSWER_S = 90.0


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **parameters)

    def open(self, url: str, width: int = 1400, height: int = 1000, dark: bool = False) -> None:
        """Load `url` and wait until its scripts have run and two frames were drawn."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited; AssertionError if it throws."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str, limit_s: float = 60.0) -> None:
        """Until the JavaScript condition holds."""
        end = time.monotonic() + limit_s
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition} did not come true in {limit_s:g} s"
            time.sleep(0.05)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """mousePressed, mouseMoved or mouseReleased at a place in the window."""
        pressed = 0 if kind == "mouseReleased" else 1
        self._ask(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=pressed, clickCount=1
        )

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A PNG of the page."""
        shot = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """Exceptions, console errors and failed loads so far."""
        self.run("1")
        found = []
        for event in self._browser.events:
            method, details = event["method"], event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(details["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
                found.append(str(details["args"]))
            elif method == "Log.entryAdded" and details["entry"]["level"] == "error":
                found.append(details["entry"]["text"])
        return found


class Browser:
    """The process and its pipe."""

    def __init__(self, process: subprocess.Popen[bytes], commands: int, answers: int) -> None:
        self._process, self._commands, self._answers = process, commands, answers
        self._unread = b""
        self._asked = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, /, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        self._asked += 1
        message: dict[str, Any] = {"id": self._asked, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while (answer := self._read()).get("id") != self._asked:
            self.events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], ANSWER_S)
            assert ready, f"the browser has not answered for {ANSWER_S:g} s"
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser has ended"
            self._unread += data
        first, self._unread = self._unread.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message


@contextmanager
def chromium() -> Iterator[Page]:
    """A fresh browser with one page; skips the test where none is installed."""
    binary = next((found for name in NAMES if (found := shutil.which(name))), None)
    if binary is None:
        pytest.skip(f"no browser to look with: none of {', '.join(NAMES)} is installed")
    profile = tempfile.mkdtemp(prefix="chromium-")
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()

    def as_three_and_four() -> None:
        # The browser reads commands from descriptor 3 and answers on 4; either may be the other one here.
        read, write = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_commands, write_answers))
        os.dup2(read, 3)
        os.dup2(write, 4)

    process = subprocess.Popen(
        [binary, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        close_fds=False, preexec_fn=as_three_and_four,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(read_commands)
    os.close(write_answers)
    try:
        yield Page(Browser(process, commands, answers))
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(answers)
        shutil.rmtree(profile, ignore_errors=True)
