"""Conversion of pages to videos and pictures by a headless browser, with ffmpeg or the browser's own recorder.

With ffmpeg (on the path, or that of the package imageio-ffmpeg) each frame is drawn separately, with captions and
plots. Without it the browser's recorder captures the scene in real time.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import itertools
import json
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tornado.websocket

from ..errors import QuaddynError
from ..operating_system import effective_user, end_with_children
from ..safe_files import check_ending

#: Program names of supported browsers.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
#: Options for a browser without a window, network, graphics card or user profile.
BROWSER_OPTIONS = (
    "--headless", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage",
    "--no-proxy-server", "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
    "--remote-debugging-port=0",
)  # fmt: skip
#: Encoder options of ffmpeg by suffix, and media types of the browser's recorder.
ENCODERS = {
    ".mp4": ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"),
    ".webm": ("-c:v", "libvpx-vp9", "-pix_fmt", "yuv420p", "-crf", "28", "-b:v", "0", "-row-mt", "1", "-cpu-used", "4"),
}
MEDIA_TYPES = {".mp4": ("video/mp4;codecs=avc1.42E01E", "video/mp4"), ".webm": ("video/webm;codecs=vp8", "video/webm")}
#: Minimum size of a video with at least one picture [bytes].
MIN_VIDEO_BYTES = 1000
#: Timeout for starting the browser, and for loading the page [s].
BROWSER_TIMEOUT = 60.0


def check_video(path: Path | None) -> None:
    """Raises if a video cannot be made, before any work is done for it.

    Args:
        path: file to write; None is accepted.

    Raises:
        ArgumentError: a suffix other than .mp4 or .webm.
        QuaddynError: no browser is installed.
    """
    if path is None:
        return
    check_ending(path, tuple(ENCODERS))
    _find_browser()


def render_video(
    page: Path,
    path: Path,
    *,
    fps: float = 30.0,
    size: tuple[int, int] = (1280, 720),
    progress: Callable[[float], None] | None = None,
) -> str:
    """Converts a recorded page to a video.

    Args:
        page: file written by `Viewer.record`.
        path: file to write, with suffix .mp4 or .webm.
        fps: frame rate [1/s].
        size: width and height, even numbers [pixels].
        progress: called with the completed fraction, 0 to 1; None for no calls.

    Returns:
        The encoder: "ffmpeg" or "browser".

    Raises:
        ArgumentError: another suffix.
        QuaddynError: no browser is installed, none records this format, or a program failed.
    """
    check_video(path)
    program = _find_ffmpeg()
    report_progress = progress or (lambda fraction: None)
    report_progress(0.0)
    with _run_browser(_find_browser(), size) as address:
        if program is None:
            asyncio.run(_record_by_browser(address, page, path, fps, size, report_progress))
            return "browser"
        asyncio.run(_render_by_ffmpeg(program, address, page, path, fps, size, report_progress))
        return "ffmpeg"


@contextlib.contextmanager
def open_page_pictures(url: str, size: tuple[int, int]) -> Iterator[Callable[[float], bytes]]:
    """Shows a live page in a browser without a window; yields a function that returns pictures of its scene.

    The function takes the time of the last frame that was sent [s], waits until the page shows it, and returns a PNG
    file.

    Args:
        url: address of the page, `Viewer.view_url`.
        size: width and height [pixels].

    Raises:
        QuaddynError: no browser is installed, or it does not show the page.
    """

    async def take(time: float) -> bytes:
        await tab.wait_until(f"quaddyn.player.end >= {time - 1e-6}")
        # The next animation frame draws the poses; the one after it begins when they are displayed.
        await tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        picture = await tab.call_method("Page.captureScreenshot", format="png", optimizeForSpeed=True)
        return base64.b64decode(picture["data"])

    # A separate thread, because the event loop of a notebook is in use in the thread of the caller.
    with _run_browser(_find_browser(), size) as address, ThreadPoolExecutor(1) as executor:
        runner = asyncio.Runner()

        def call(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
            return executor.submit(lambda: runner.run(function(*arguments))).result()

        page = _Tab.open(address, url + "#bare", size)
        try:
            tab = call(page.__aenter__)
            yield lambda time: call(take, time)
        finally:
            with contextlib.suppress(RuntimeError):  # at the end of a program, threads accept no calls
                call(page.__aexit__, None, None, None)
                executor.submit(runner.close).result()


def _find_browser() -> str:
    """Returns the program of an installed browser, or raises."""
    for name in BROWSERS:
        if (program := shutil.which(name)) is not None:
            return program
    raise QuaddynError(
        f"videos and pictures are drawn by a browser, but none of {', '.join(BROWSERS)} is installed; install one of "
        "them"
    )


def _find_ffmpeg() -> str | None:
    """Returns the program of ffmpeg, or None."""
    if (program := shutil.which("ffmpeg")) is not None:
        return program
    with contextlib.suppress(ImportError, RuntimeError):
        return str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    return None


@contextlib.contextmanager
def _run_browser(program: str, size: tuple[int, int]) -> Iterator[str]:
    """Runs a browser with an empty profile; yields the address of its first tab, and ends it with all its processes."""
    unconfined = ("--no-sandbox",) if effective_user() == 0 else ()  # required by browsers that run as root
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                program,
                *BROWSER_OPTIONS,
                *unconfined,
                f"--user-data-dir={profile}",
                f"--window-size={size[0]},{size[1]}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            file, deadline = Path(profile) / "DevToolsActivePort", time.monotonic() + BROWSER_TIMEOUT
            while not (file.exists() and len(lines := file.read_text(encoding="utf-8").split()) == 2):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise QuaddynError(f"the browser {program} did not start")
                time.sleep(0.05)
            yield f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        finally:
            end_with_children(process, 10.0)


class _Tab:
    """Page in the browser, controlled over the DevTools protocol."""

    def __init__(self, socket: tornado.websocket.WebSocketClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self._session: dict[str, str] = {}
        self._is_closed = False

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, address: str, url: str, size: tuple[int, int]) -> AsyncIterator[_Tab]:
        """Opens a page of the viewer in a tab."""
        socket = await tornado.websocket.websocket_connect(address, max_message_size=2**30)
        tab = cls(socket)
        try:
            yield await tab._load(url, size)
        finally:
            socket.close()
            while not tab._is_closed:  # the end of the connection is reported once
                tab._is_closed = await socket.read_message() is None

    async def _load(self, url: str, size: tuple[int, int]) -> _Tab:
        """Loads a page and waits until it is drawn."""
        target = await self.call_method("Target.createTarget", url="about:blank")
        attached = await self.call_method("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        await self.call_method("Emulation.setDeviceMetricsOverride", **metrics)
        await self.call_method("Page.navigate", url=url)
        await self.wait_until("Boolean(window.quaddyn?.frames && !document.getElementById('loading'))")
        return self

    async def wait_until(self, condition: str) -> None:
        """Waits until a JavaScript expression is true."""
        deadline = time.monotonic() + BROWSER_TIMEOUT
        while not await self.evaluate(condition):
            if time.monotonic() > deadline:
                raise QuaddynError("the browser did not show the page of the viewer in time")
            await asyncio.sleep(0.02)

    async def call_method(self, method: str, **parameters: object) -> dict[str, Any]:
        """Calls a method of the DevTools protocol and returns its result."""
        number = next(self._numbers)
        request = json.dumps({"id": number, "method": method, "params": parameters, **self._session})
        with contextlib.suppress(tornado.websocket.WebSocketClosedError):  # reported below
            await self._socket.write_message(request)
        while True:
            text = None if self._is_closed else await self._socket.read_message()
            if text is None:
                self._is_closed = True
                raise QuaddynError("the browser process ended before the video or picture was complete")
            response = json.loads(text)
            if response.get("id") == number:
                if "error" in response:
                    raise QuaddynError(f"the browser failed to execute {method}: {response['error'].get('message')}")
                return dict(response["result"])

    async def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression; promises are awaited."""
        result = await self.call_method(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise QuaddynError(f"a script of the viewer page failed: {result['exceptionDetails'].get('text')}")
        return result["result"].get("value")


def _film_url(page: Path) -> str:
    """Returns the address of a recorded page, stopped at its start, without controls."""
    return page.resolve().as_uri() + "#t=0&film"


async def _render_by_ffmpeg(
    program: str,
    address: str,
    page: Path,
    path: Path,
    fps: float,
    size: tuple[int, int],
    progress: Callable[[float], None],
) -> None:
    """Draws each frame and encodes it by ffmpeg."""
    pictures = ("-f", "image2pipe", "-c:v", "png", "-framerate", str(fps), "-i", "-")
    even = ("-vf", "crop=trunc(iw/2)*2:trunc(ih/2)*2")
    command = (program, "-y", "-loglevel", "error", *pictures, *even, *ENCODERS[path.suffix.lower()], str(path))
    async with _Tab.open(address, _film_url(page), size) as tab:
        count = round(float(await tab.evaluate("quaddyn.player.end")) * fps) + 1
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as encoder:
            assert encoder.stdin is not None
            for i in range(count):
                await tab.evaluate(f"quaddyn.drawAt({i / fps})")
                picture = await tab.call_method("Page.captureScreenshot", format="png", optimizeForSpeed=True)
                try:
                    encoder.stdin.write(base64.b64decode(picture["data"]))
                except BrokenPipeError:
                    break
                progress((i + 1) / count)
            _, errors = encoder.communicate()
    if encoder.returncode:
        raise QuaddynError(f"ffmpeg failed: {errors.decode(errors='replace').strip()[-300:]}")


async def _record_by_browser(
    address: str,
    page: Path,
    path: Path,
    fps: float,
    size: tuple[int, int],
    progress: Callable[[float], None],
) -> None:
    """Records the scene by the browser in real time."""

    async def report(duration: float) -> None:
        """Reports the fraction of the scene that has been played."""
        for second in range(math.ceil(duration)):
            progress(second / duration)
            await asyncio.sleep(1.0)

    async with _Tab.open(address, _film_url(page), size) as tab:
        reports = asyncio.create_task(report(float(await tab.evaluate("quaddyn.player.end"))))
        try:
            await _record_scene(tab, path, fps)
        finally:
            reports.cancel()


async def _record_scene(tab: _Tab, path: Path, fps: float) -> None:
    """Writes the video that the browser records in the first format that it supports."""
    for kind in MEDIA_TYPES[path.suffix.lower()]:
        if await tab.evaluate(f"MediaRecorder.isTypeSupported({kind!r})"):
            video = base64.b64decode(await tab.evaluate(f"recordVideo({kind!r}, {fps})"))
            if len(video) > MIN_VIDEO_BYTES:
                path.write_bytes(video)
                return
    raise QuaddynError(
        f"{path.suffix} videos cannot be recorded by this browser, and ffmpeg is not installed; install it with: pip "
        "install 'quaddyn[video]'"
    )
