"""Drives a headless Chromium over its own pipe (the DevTools protocol), with nothing to install for it."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-dev-shm-usage", "--no-first-run",
    "--no-default-browser-check", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 120.0
"""Seconds after which a silent browser is called dead; no test measures time by it."""


def find_program() -> str | None:
    """Return the browser of this machine, or None."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """The pipe: commands go in, answers and events come out, separated by zero bytes."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._rest, self._number = write, read, b"", 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._next()
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise ConnectionError("the browser has ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


class Page:
    """One tab."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this tab."""
        return self._browser.call(method, self._session, **params)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def dark(self, on: bool) -> None:
        """Let the system prefer dark or light colours."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, file: Path) -> None:
        """Open a file and wait until it has loaded and painted."""
        self.visit(file.absolute().as_uri())

    def visit(self, address: str) -> None:
        """Go to an address and wait until its page has loaded and painted."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")
        self.js("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def js(self, expression: str) -> Any:
        """Return the value of an expression, or raise what it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)  # fmt: skip
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not self.js(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"never came true: {condition}")
            time.sleep(0.02)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button at a place in the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def write(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press one key."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **text,
                      windowsVirtualKeyCode={"Enter": 13, "Tab": 9}.get(key, 0))  # fmt: skip

    def screenshot(self, file: Path, whole: bool = False) -> None:
        """Save what is seen as a PNG picture."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def pdf(self, file: Path) -> None:
        """Print the page to a file."""
        data = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        file.write_bytes(base64.b64decode(data))

    @property
    def requests(self) -> list[str]:
        """The addresses that the tab has asked for."""
        return [e["params"]["request"]["url"] for e in self._events("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console, uncaught exceptions, and refused requests."""
        said = [e["params"] for e in self._events("Runtime.consoleAPICalled")]
        found = [str(e["args"]) for e in said if e["type"] in ("error", "warning", "assert")]
        found += [str(e["params"]) for e in self._events("Runtime.exceptionThrown")]
        logged = [e["params"]["entry"] for e in self._events("Log.entryAdded")]
        return found + [e["text"] for e in logged if e["level"] in ("error", "warning")]

    def _events(self, method: str) -> list[dict[str, Any]]:
        self.js("0")  # what has happened so far comes before the answer
        events = self._browser.events
        return [e for e in events if e.get("sessionId") == self._session and e["method"] == method]


# Chromium reads commands from the file descriptor 3 and answers on 4.
LAUNCH = """
import os, sys
for place, end in enumerate(sys.argv[1:3], start=3):
    os.dup2(int(end), place)
os.execv(sys.argv[3], sys.argv[3:])
"""


@contextmanager
def running(program: str) -> Iterator[Browser]:
    """Start a browser with a fresh profile, and end it."""
    commands, answers = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands[0], answers[1])]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [program, *FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, theirs), *words],
            pass_fds=theirs,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for end in (commands[0], answers[1], *theirs):
            os.close(end)
        try:
            browser = Browser(commands[1], answers[0])
            yield browser
            browser.call("Browser.close")
        finally:
            os.close(commands[1])
            os.close(answers[0])
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
