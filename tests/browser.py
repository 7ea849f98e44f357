"""A headless Chromium for tests and pictures, driven over the DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-proxy-server",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-port=0",
)

#: Further flags of tests.  Software rendering takes most of their time, half of it for smooth edges.
PLAIN_EDGES = ("--webgl-antialiasing-mode=none",)

#: Time after which a page counts as hanging [s], long enough for software rendering under load.
PATIENCE = 300.0


def require(tool: str) -> str:
    """Path of a program; skips the test where it is missing, fails it when QUADDYN_REQUIRE_TOOLS=1."""
    import pytest

    found = shutil.which(tool)
    if found is None:
        if os.environ.get("QUADDYN_REQUIRE_TOOLS") == "1":
            pytest.fail(f"{tool} is not installed, but QUADDYN_REQUIRE_TOOLS=1")
        pytest.skip(f"{tool} is not installed")
    return found


class Page:
    """One browser tab.

    Attributes:
        errors: console errors, uncaught exceptions and failed or blocked requests so far.
        requests: the URL of every request and web socket so far.
    """

    def __init__(self, socket: Any) -> None:
        self._socket, self._ids = socket, itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)
        raise TimeoutError(method)

    def _note(self, message: dict[str, Any]) -> None:
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(p["exceptionDetails"].get("exception", p["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert", "warning"):
            self.errors.append(f"{p['type']}: {p['args']}")
        elif method == "Log.entryAdded" and p["entry"]["level"] == "error":
            self.errors.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"][:200])
        elif method == "Network.webSocketCreated":
            self.requests.append(p["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        out = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in out:
            raise RuntimeError(str(out["exceptionDetails"]))
        return out["result"].get("value")

    def wait(self, expression: str, timeout: float = PATIENCE) -> None:
        """Returns once `expression` is true; the timeout is long, to end only pages that hang."""
        deadline = time.monotonic() + timeout
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} stayed false; errors: {self.errors}")
            time.sleep(0.03)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def open(self, url: str) -> None:
        """Navigates, and waits until the viewer has drawn a frame with all its textures."""
        self.call("Page.navigate", url=url)
        self.wait("Boolean(window.quaddyn) && quaddyn.frames > 0 && quaddyn.loading === 0")
        self.settle()

    def settle(self) -> None:
        """Returns after the next two animation frames, when changes are on the screen."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def offline(self) -> None:
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def png(self) -> bytes:
        self.settle()
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def pixels(self) -> np.ndarray:
        """The page as (height, width, 3) integers."""
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(self.png())).convert("RGB")).astype(int)


@contextlib.contextmanager
def chromium(
    program: str, width: int = 640, height: int = 480, extra: tuple[str, ...] = ()
) -> Iterator[Callable[[], Page]]:
    """Runs a browser with an empty profile; yields a function that opens tabs; removes the profile afterwards."""
    from websockets.sync.client import connect

    with contextlib.ExitStack() as stack:
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        # With setpriv (Linux) the browser also ends when the process of the tests is killed.
        setpriv = shutil.which("setpriv")
        command = [program] if setpriv is None else [setpriv, "--pdeathsig", "KILL", program]
        process = subprocess.Popen(
            [*command, *FLAGS, *extra, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        stack.callback(_end, process)
        port, root = _port(Path(profile) / "DevToolsActivePort", process)

        def attach(path: str) -> Any:
            sock = socket.create_connection(("127.0.0.1", port))  # past any proxy of the environment
            # A test that waits for something else reads no messages for a while: with a bounded queue the answers to
            # pings would wait behind unread events, and the connection would be closed.
            address = f"ws://127.0.0.1:{port}{path}"
            return stack.enter_context(connect(address, sock=sock, max_size=None, max_queue=None, ping_interval=None))

        def new_page() -> Page:
            browser = attach(root)
            browser.send(json.dumps({"id": 1, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
            while (answer := json.loads(browser.recv(timeout=60))).get("id") != 1:
                pass
            page = Page(attach(f"/devtools/page/{answer['result']['targetId']}"))
            page.resize(width, height)
            return page

        yield new_page


@contextlib.contextmanager
def closed_afterwards(new_tab: Callable[[], Page]) -> Iterator[Callable[[], Page]]:
    """Yields a function that opens tabs, and closes these at the end; open tabs would continue to draw."""
    pages: list[Page] = []

    def make() -> Page:
        pages.append(new_tab())
        return pages[-1]

    yield make
    for page in pages:
        page.call("Page.close")


def _port(file: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Port and path of the DevTools server, from the file that the browser writes."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lines = file.read_text(encoding="utf-8").split() if file.exists() else []
        if len(lines) == 2:
            return int(lines[0]), lines[1]
        if process.poll() is not None:
            raise RuntimeError(f"the browser ended with code {process.returncode}")
        time.sleep(0.05)
    raise TimeoutError("the browser did not open its DevTools port")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the browser and the helper processes in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
