"""`Server`: hands the live page to browsers on this machine, from a thread that dies with the process."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, TypeGuard

import tornado.httpserver
import tornado.iostream
import tornado.web
import tornado.websocket

from ..errors import QuaddynError
from .page import live_page, meshcat_script
from .scene import Blob
from .sliders import Slider

#: The only address ever listened on: whoever can reach the socket is a user of this machine.
ADDRESS = "127.0.0.1"
_START_SECONDS = 10.0
#: Least time between two frames sent to a page; screens show no more.
_FRAME_SECONDS = 1 / 60


#: Keys that a page tells of, by their place on the keyboard (`KeyboardEvent.code`).
KEY_CODES = frozenset(
    ("KeyW", "KeyA", "KeyS", "KeyD", "KeyQ", "KeyE", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "ShiftLeft")
)
_LONGEST_MESSAGE = 1024
#: Nothing is posted to the viewer; longer requests are refused before they are read [bytes].
_LONGEST_BODY, _LONGEST_HEADER = 1024, 16384
#: Connections at a time, pages among them; more are closed at once.
MOST_CONNECTIONS = 64
#: A connection that has not become a page by then is closed: half a request holds nothing for ever [s].
REQUEST_TIME = 10.0
#: A page that has not taken a packet by then is closed; until then it holds that one alone [s].
WRITE_TIME = 20.0
#: A page that says nothing for so long holds no key and no stick [s].
SILENCE = 1.0
#: No other site may put the page into a frame, read it, or learn its address.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class ServerError(QuaddynError, OSError):
    """The viewer's server did not start; the message says why."""


class Server:
    """Sends scene packets to every browser in order, and of the frames always the newest.

    A thread rather than a child process: no orphan can survive a crash, and a browser that is too slow only
    misses frames.  All sockets and clients belong to that thread's event loop.

    Whoever has the token, which is new in every run and part of `url`, may tell of keys, sticks, sliders and pauses;
    the address without it shows the same page to watch.

    Args:
        title: of the page.
        port: to listen on at 127.0.0.1; 0 takes a free one.

    Raises:
        ServerError: the port cannot be had.
    """

    def __init__(self, title: str, port: int) -> None:
        meshcat_script()  # a broken installation is reported here, not as a blank page
        self._title = title
        self._clients: set[_Client] = set()
        self._kept: list[bytes] = []
        self._note: dict[str, bytes] = {}
        self._frame: bytes | None = None
        self._number = 0  # of the newest frame
        self._scheduled = False
        self._drivers: tuple[_Client, ...] = ()  # replaced as a whole: other threads read it
        self._token = secrets.token_urlsafe(12)
        self._sliders: dict[str, Slider] = {}
        self._slid: dict[str, float] = {}
        self._steps = threading.Semaphore(0)
        self._connected = threading.Event()
        try:
            self._socket = socket.create_server((ADDRESS, port))
        except (OSError, OverflowError) as error:
            raise ServerError(
                f"the viewer cannot listen on {ADDRESS}:{port}: {error}; port=0 takes a free one"
            ) from None
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="quaddyn-viewer", daemon=True)
        self._thread.start()
        try:
            started.result(_START_SECONDS)
        except Exception as error:
            raise ServerError(f"the viewer's server did not start: {error!r}") from error

    @property
    def url(self) -> str:
        """Where the page is, with the token to drive."""
        return f"http://{ADDRESS}:{self.port}/{self._token}/"

    @property
    def keys(self) -> frozenset[str]:
        """Those of `KEY_CODES` that are held down on any page that has been heard of within `SILENCE`."""
        return frozenset().union(*(driver.keys for driver in self._awake()))

    @property
    def axes(self) -> tuple[float, float, float]:
        """The sticks of a gamepad: the largest deflection of each axis on any page, -1 to 1."""
        found = [driver.axes for driver in self._awake()] or [(0.0, 0.0, 0.0)]
        x, y, z = (max(each, key=abs) for each in zip(*found, strict=True))
        return x, y, z

    @property
    def paused(self) -> bool:
        """Whether a page has paused."""
        return any(driver.paused for driver in self._drivers)

    def take_step(self) -> bool:
        """Whether a page has asked for a step that has not been taken; takes it."""
        return self._steps.acquire(blocking=False)

    def add_slider(self, slider: Slider) -> None:
        """Puts a slider on every page, in place of one of its name."""
        self._sliders[slider.name] = slider
        self._slid = {**self._slid, slider.name: slider.start}
        self.state("sliders", self._sliders_packet())

    @property
    def slid(self) -> dict[str, float]:
        """Where each slider is, by name."""
        return dict(self._slid)

    def _awake(self) -> list[_Client]:
        now = time.monotonic()
        return [driver for driver in self._drivers if now - driver.heard < SILENCE]

    def _sliders_packet(self) -> bytes:
        shown = [{**asdict(s), "value": self._slid[s.name]} for s in tuple(self._sliders.values())]
        return Blob().packet({"kind": "sliders", "sliders": shown})

    @property
    def clients(self) -> int:
        """Number of connected pages."""
        return len(self._clients)

    @property
    def connections(self) -> int:
        """Number of open connections, those of pages among them."""
        return self._http.connections

    def wait(self, timeout: float | None) -> bool:
        """Blocks until a page is connected, at most `timeout` [s]; whether one is."""
        return self._connected.wait(timeout)

    def send(self, packet: bytes) -> None:
        """Sends a packet that every page needs, those that connect later too."""
        self._call(self._send, packet)

    def state(self, kind: str, packet: bytes) -> None:
        """Sends a packet that replaces the last one of its `kind`, such as the camera."""
        self._call(self._state, kind, packet)

    def frame(self, packet: bytes) -> None:
        """Makes `packet` the newest frame; a frame that no page has fetched yet is dropped."""
        self._frame = packet
        self._number += 1
        if self._clients and not self._scheduled:
            self._scheduled = True
            self._call(self._flush)

    def close(self) -> None:
        """Disconnects every page and frees the port; harmless when repeated."""
        if self._thread.is_alive():
            self._call(self._stop.set)
            self._thread.join(5.0)

    # -- in the event loop's thread ----------------------------------------------------------------------------
    def _call(self, function: Any, *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop has been closed
            pass

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._serve(started))
        except Exception as error:
            if not started.done():
                started.set_exception(error)

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        application = tornado.web.Application(websocket_max_message_size=_LONGEST_MESSAGE)
        # A foreign host name that resolves to this machine (DNS rebinding) gets 404.
        application.add_handlers(
            r"(127\.0\.0\.1|localhost)",
            [
                (prefix + path, handler, arguments)
                for prefix, may_drive in ((f"/{self._token}/", True), ("/", False))
                for path, handler, arguments in (
                    ("", _Text, {"text": live_page(self._title, self.port), "kind": "text/html"}),
                    ("meshcat.js", _Text, {"text": meshcat_script(), "kind": "text/javascript"}),
                    ("socket", _Client, {"server": self, "may_drive": may_drive}),
                )
            ],
        )
        self._http = http = _Http(
            application,
            max_body_size=_LONGEST_BODY,
            max_header_size=_LONGEST_HEADER,
            idle_connection_timeout=REQUEST_TIME,
            body_timeout=REQUEST_TIME,
        )
        http.pages = self._clients
        http.add_socket(self._socket)
        started.set_result(None)
        await self._stop.wait()
        self._loop.set_exception_handler(_without_cancellations)
        http.stop()
        for client in tuple(self._clients):
            client.close()
        await http.close_all_connections()

    def _send(self, packet: bytes) -> None:
        self._kept.append(packet)
        self._flush()

    def _state(self, kind: str, packet: bytes) -> None:
        self._note[kind] = packet
        self._flush()

    def _told(self, client: _Client, name: object, value: object) -> None:
        """A page has moved a slider; the other pages learn of it."""
        slider = self._sliders.get(name) if isinstance(name, str) else None
        if slider is None or isinstance(value, bool) or not _finite(value):
            return
        self._slid = {**self._slid, slider.name: min(max(float(value), slider.low), slider.high)}
        self._note["sliders"] = packet = self._sliders_packet()
        if client in self._clients:  # which has it already
            client.noted["sliders"] = packet
        self._flush()

    def _flush(self) -> None:
        self._scheduled = False
        for client in self._clients:
            client.refresh()


def _without_cancellations(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Reports errors of callbacks, except that closing the server cancels requests of clients that are still busy."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


class _Http(tornado.httpserver.HTTPServer):
    """The HTTP server, with a bounded number of connections, each of which is a page soon or ends."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        super().initialize(*args, **kwargs)
        self.pages: set[_Client] = set()
        self._streams: set[tornado.iostream.IOStream] = set()

    @property
    def connections(self) -> int:
        """Number of open ones."""
        return sum(not each.closed() for each in tuple(self._streams))

    def handle_stream(self, stream: tornado.iostream.IOStream, address: tuple[Any, ...]) -> None:
        self._streams = {each for each in self._streams if not each.closed()}
        if self.connections >= MOST_CONNECTIONS:
            stream.close()
            return
        self._streams.add(stream)
        asyncio.get_running_loop().call_later(REQUEST_TIME, self._end_unless_page, stream)
        super().handle_stream(stream, address)

    def _end_unless_page(self, stream: tornado.iostream.IOStream) -> None:
        if not any(page.stream is stream for page in self.pages):
            stream.close()


class _Text(tornado.web.RequestHandler):
    """A page or script that is made in memory."""

    def initialize(self, text: str, kind: str) -> None:
        self._text, self._kind = text, kind

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def get(self) -> None:
        self.set_header("Content-Type", f"{self._kind}; charset=utf-8")
        self.finish(self._text)

    def data_received(self, chunk: bytes) -> None:
        raise tornado.web.HTTPError(400)


class _Client(tornado.websocket.WebSocketHandler):
    """One connected page; tornado refuses pages of another origin."""

    def initialize(self, server: Server, may_drive: bool) -> None:
        self._server, self._may_drive = server, may_drive
        self._sent = 0  # of what every page needs
        self.noted: dict[str, bytes] = {}  # by kind, what it has of what is replaced
        self._seen = 0
        self._busy = False
        self.heard = -math.inf
        self._forget()

    def _forget(self) -> None:
        self.keys: frozenset[str] = frozenset()
        self.axes = (0.0, 0.0, 0.0)
        self.paused = False

    def open(self, *_: str, **__: str) -> None:
        self.set_nodelay(True)
        server = self._server
        assert self.ws_connection is not None and self.ws_connection.stream is not None
        self.stream: tornado.iostream.IOStream = self.ws_connection.stream
        server._clients.add(self)
        if self._may_drive:
            server._drivers = (*server._drivers, self)
        self.refresh()
        server._connected.set()

    def on_message(self, message: str | bytes) -> None:
        """What a page says, all of it each time: ``{"keys": [names], "axes": [x, y, turn], "paused": bool}``.

        Beside that ``"step": 1`` and ``"slide": [name, value]``, once; a list alone are the keys, and anything else
        means that nothing is held.  Pages that only watch are not listened to.
        """
        if not self._may_drive:
            return
        try:
            said = json.loads(message)
        except (ValueError, RecursionError):
            said = None
        said = {"keys": said} if isinstance(said, list) else said if isinstance(said, dict) else {}
        keys, axes = said.get("keys"), said.get("axes")
        self.heard = time.monotonic()
        self.keys = (
            frozenset(k for k in keys if isinstance(k, str)) & KEY_CODES if isinstance(keys, list) else frozenset()
        )
        self.axes = _axes(axes)
        self.paused = said.get("paused") is True
        if said.get("step") == 1:
            self._server._steps.release()
        slide = said.get("slide")
        if isinstance(slide, list) and len(slide) == 2:
            self._server._told(self, *slide)

    def on_close(self) -> None:
        server = self._server
        server._clients.discard(self)
        server._drivers = tuple(driver for driver in server._drivers if driver is not self)  # who is gone holds no key
        if not server._clients:
            server._connected.clear()

    def refresh(self) -> None:
        """Starts to send the packets that the page has not received."""
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().create_task(self._pump())

    async def _pump(self) -> None:
        """Sends packets one at a time, each when the one before was taken, so that at most one is held for a page."""
        try:
            while (packet := self._next()) is not None:
                is_frame = packet is self._server._frame
                await asyncio.wait_for(self.write_message(packet, binary=True), WRITE_TIME)
                if is_frame:
                    await asyncio.sleep(_FRAME_SECONDS)
        except (tornado.websocket.WebSocketClosedError, tornado.iostream.StreamClosedError):
            self.on_close()
        except TimeoutError:
            self.on_close()
            self.stream.close()
        finally:
            self._busy = False

    def _next(self) -> bytes | None:
        """The packet that the page is to get next; None where it has everything."""
        server = self._server
        if self._sent < len(server._kept):
            self._sent += 1
            return server._kept[self._sent - 1]
        for kind, packet in server._note.items():
            if self.noted.get(kind) is not packet:
                self.noted[kind] = packet
                return packet
        if self._seen != server._number:
            self._seen = server._number
            return server._frame
        return None

    def data_received(self, chunk: bytes) -> None:
        raise tornado.web.HTTPError(400)


def _axes(said: object) -> tuple[float, float, float]:
    """Three numbers from -1 to 1, zeros where something else was said."""
    if not (isinstance(said, list) and len(said) == 3):
        return 0.0, 0.0, 0.0
    if not all(_finite(x) for x in said):
        return 0.0, 0.0, 0.0
    x, y, z = (min(max(float(a), -1.0), 1.0) for a in said)
    return x, y, z


def _finite(said: object) -> TypeGuard[int | float]:
    """Whether it is a number that a float can hold; JSON knows larger ones."""
    try:
        return isinstance(said, int | float) and math.isfinite(said)
    except OverflowError:
        return False
