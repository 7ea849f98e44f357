"""`Server`: hands the live page to browsers on this machine, from a thread that dies with the process."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from concurrent.futures import Future
from typing import Any

import tornado.httpserver
import tornado.iostream
import tornado.web
import tornado.websocket

from ..errors import QuaddynError
from .page import live_page, meshcat_script

#: The only address ever listened on: whoever can reach the socket is a user of this machine.
ADDRESS = "127.0.0.1"
_START_SECONDS = 10.0
#: Least time between two frames sent to a page; screens show no more.
_FRAME_SECONDS = 1 / 60


#: Keys that a page tells of, by their place on the keyboard (`KeyboardEvent.code`).
KEYS = frozenset(
    ("KeyW", "KeyA", "KeyS", "KeyD", "KeyQ", "KeyE", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "ShiftLeft")
)
_LONGEST_MESSAGE = 1024


class ServerError(QuaddynError, OSError):
    """The viewer's server did not start; the message says why."""


class Server:
    """Sends scene packets to every browser in order, and of the frames always the newest.

    A thread rather than a child process: no orphan can survive a crash, and a browser that is too slow only
    misses frames.  All sockets and clients belong to that thread's event loop.

    Args:
        title: of the page.
        port: to listen on at 127.0.0.1; 0 takes a free one.

    Attributes:
        keys: those of `KEYS` that are held down on any page.

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
        self.keys: frozenset[str] = frozenset()  # replaced as a whole: other threads read it
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
        """Where the page is."""
        return f"http://{ADDRESS}:{self.port}/"

    @property
    def clients(self) -> int:
        """Number of connected pages."""
        return len(self._clients)

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
                (r"/", _Text, {"text": live_page(self._title, self.port), "kind": "text/html"}),
                (r"/meshcat.js", _Text, {"text": meshcat_script(), "kind": "text/javascript"}),
                (r"/socket", _Client, {"server": self}),
            ],
        )
        http = tornado.httpserver.HTTPServer(application)
        http.add_socket(self._socket)
        started.set_result(None)
        await self._stop.wait()
        http.stop()
        for client in tuple(self._clients):
            client.close()
        await http.close_all_connections()

    def _send(self, packet: bytes) -> None:
        self._kept.append(packet)
        for client in tuple(self._clients):  # who turns out to be gone is taken off
            client.post(packet)

    def _state(self, kind: str, packet: bytes) -> None:
        self._note[kind] = packet
        for client in tuple(self._clients):
            client.post(packet)

    def _collect_keys(self) -> None:
        self.keys = frozenset().union(*(client.keys for client in self._clients))

    def _flush(self) -> None:
        self._scheduled = False
        for client in self._clients:
            client.refresh()


class _Text(tornado.web.RequestHandler):
    """A page or script that is made in memory."""

    def initialize(self, text: str, kind: str) -> None:
        self._text, self._kind = text, kind

    def get(self) -> None:
        self.set_header("Content-Type", f"{self._kind}; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(self._text)

    def data_received(self, chunk: bytes) -> None:
        raise tornado.web.HTTPError(400)


class _Client(tornado.websocket.WebSocketHandler):
    """One connected page; tornado refuses pages of another origin."""

    def initialize(self, server: Server) -> None:
        self._server = server
        self._seen = 0
        self._busy = False
        self.keys: frozenset[str] = frozenset()

    def open(self, *_: str, **__: str) -> None:
        self.set_nodelay(True)
        server = self._server
        for packet in (*server._kept, *server._note.values()):
            self.post(packet)
        server._clients.add(self)
        self.refresh()
        server._connected.set()

    def on_message(self, message: str | bytes) -> None:
        """A page says nothing but which keys are held down, as a list of their names; anything else means none."""
        try:
            names = json.loads(message)
        except (ValueError, RecursionError):
            names = None
        self.keys = frozenset(n for n in names if isinstance(n, str)) & KEYS if isinstance(names, list) else frozenset()
        self._server._collect_keys()

    def on_close(self) -> None:
        self._server._clients.discard(self)
        self._server._collect_keys()  # who is gone holds no key
        if not self._server._clients:
            self._server._connected.clear()

    def post(self, packet: bytes) -> None:
        try:
            self.write_message(packet, binary=True)
        except tornado.websocket.WebSocketClosedError:
            self.on_close()

    def refresh(self) -> None:
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().create_task(self._pump())

    async def _pump(self) -> None:
        try:
            while self._seen != self._server._number and self._server._frame is not None:
                self._seen = self._server._number
                await self.write_message(self._server._frame, binary=True)
                await asyncio.sleep(_FRAME_SECONDS)
        except (tornado.websocket.WebSocketClosedError, tornado.iostream.StreamClosedError):
            pass
        finally:
            self._busy = False

    def data_received(self, chunk: bytes) -> None:
        raise tornado.web.HTTPError(400)
