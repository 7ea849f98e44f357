"""`Server`: serves the live page to browsers, from a thread that ends with the process.

`Server.send_frame` hands a frame to the connected pages; `_Client` sends it over the page's websocket.

Inputs of the live page: a `Slider` is a number that the user sets, a `Spring` the force with which the mouse pulls a
link of the robot; and the position of the camera.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import re
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, TypeGuard

import numpy as np
import pinocchio as pin
import tornado.httpserver
import tornado.iostream
import tornado.web
import tornado.websocket

from ..errors import ArgumentError, QuaddynError
from ..operating_system import describe_os_error
from ..robot.arguments import check_number, check_positive, check_type
from ..robot.robot import Robot
from ..urdf.tree import Array
from .animation import make_live_page, read_meshcat_script
from .scene import Blob


@dataclass(frozen=True, slots=True)
class Slider:
    """Slider on the live page; `start` is its initial value, and `unit` is the text after the value."""

    name: str
    low: float
    high: float
    start: float
    unit: str
    group: str

    @classmethod
    def validated(cls, name: str, low: float, high: float, value: float, unit: str, group: str) -> Self:
        """Returns a slider from arguments of `Viewer.add_slider`.

        Raises:
            ArgumentTypeError: a text or number of a wrong type.
            ArgumentError: limits that are not finite and in order, or a value beyond them.
        """
        for argument, text in (("name", name), ("unit", unit), ("group", group)):
            check_type(argument, text, str, "a str")
        low, high, value = check_number("low", low), check_number("high", high), check_number("value", value)
        if not (np.isfinite([low, high, value]).all() and low < high and low <= value <= high):
            raise ArgumentError(f"slider {name!r}: expected low <= value <= high, got {low:g}, {value:g}, {high:g}")
        return cls(name, low, high, value, unit, group)


#: Extension at which the spring reaches its largest force [robot lengths].
MAX_EXTENSION = 0.5
#: Damping ratio of the spring with the mass of the whole robot.
DAMPING_RATIO = 0.2


class Pull(NamedTuple):
    """Spring that a page has attached to the robot."""

    body: int  # index of the body
    point: tuple[float, float, float]  # (3,) attached point in the frame of the body's slot [m]
    target: tuple[float, float, float]  # (3,) other end, world [m]


class Spring:
    """Spring with damping and a bounded force.

    Args:
        robot: robot that is pulled.
        joints: index of the Pinocchio joint that carries each body.
        size: length of the robot [m].
        max_force: largest force [N].
    """

    def __init__(self, robot: Robot, joints: Sequence[int], size: float, max_force: float) -> None:
        self._robot, self._joints, self._max_force = robot, joints, max_force
        self._stiffness = max_force / (MAX_EXTENSION * size)
        self._damping = 2.0 * DAMPING_RATIO * float(np.sqrt(self._stiffness * robot.mass))
        self._data = robot.model.createData()

    def compute_wrench(self, pull: Pull | None, q: Array, v: Array) -> dict[str, Array]:
        """Returns force and moment (6,) at the frame of the pulled link, world axes [N, N m]; {} without a pull.

        Args:
            pull: attached spring; None for none. One on a body that does not exist is ignored.
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        if pull is None or pull.body >= len(self._joints):
            return {}
        robot, data, name = self._robot, self._data, self._robot.bodies[pull.body].name
        robot.algorithms.forwardKinematics(robot.model, data, np.array(q), np.array(v))
        frame = pin.updateFramePlacement(robot.model, data, robot.frame_id(name))
        joint, point = self._joints[pull.body], np.array(pull.point)
        placement, velocity = data.oMi[joint], data.v[joint]
        position = placement.act(point)
        speed = placement.rotation @ (velocity.linear + np.cross(velocity.angular, point))
        force = self._stiffness * (np.array(pull.target) - position) - self._damping * speed
        force *= min(1.0, self._max_force / max(float(np.linalg.norm(force)), 1e-12))
        return {name: np.concatenate((force, np.cross(position - frame.translation, force)))}


def camera_parameters(
    target: Array, size: float, distance: float | None, azimuth: float, elevation: float, fov: float
) -> dict[str, object]:
    """Returns position, target and field of view of the camera for the page, from arguments of `Viewer.set_camera`.

    Without a distance, an object of this size [m] is completely visible.

    Raises:
        ArgumentError: a number is out of range.
    """
    if not (np.isfinite(azimuth) and -90 <= elevation <= 90 and 0 < fov < 180):
        raise ArgumentError(
            "azimuth, elevation, fov: expected a finite azimuth, an elevation in [-90, 90] and an fov in (0, 180) "
            "degrees"
        )
    camera_distance = check_positive("distance", size / np.tan(np.deg2rad(fov) / 2) if distance is None else distance)
    a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
    position = target + camera_distance * np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    return {"position": position.tolist(), "target": target.tolist(), "fov": fov}


#: Default address of the server, which is reachable from this machine alone, and the names for it.
ADDRESS = "127.0.0.1"
_LOOPBACK_NAMES = (ADDRESS, "localhost")
#: Address of all network interfaces, and one to which nothing is sent, to find the address of this machine.
_ALL_INTERFACES, _UNUSED_ADDRESS = "0.0.0.0", ("192.0.2.1", 9)
_START_TIMEOUT = 10.0
#: Minimum time between two frames sent to a page, about the frame time of a screen [s].
_FRAME_PERIOD = 1 / 60


#: Codes of the keys that a page reports, by their position on the keyboard (`KeyboardEvent.code`).
KEY_CODES = frozenset(
    ("KeyW", "KeyA", "KeyS", "KeyD", "KeyQ", "KeyE", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "ShiftLeft")
)
_MAX_MESSAGE_BYTES = 1024
#: Maximum size of a request; longer ones are rejected before they are read [bytes].
_MAX_BODY_BYTES, _MAX_HEADER_BYTES = 1024, 16384
#: Maximum number of connections, including pages; further ones are closed at once.
MAX_CONNECTIONS = 64
#: Time after which a connection that has not become a page is closed [s].
REQUEST_TIMEOUT = 10.0
#: Time after which a page that has not taken a packet is closed [s].
WRITE_TIMEOUT = 20.0
#: Time without a message after which keys and sticks of a page count as released [s].
INPUT_TIMEOUT = 1.0
#: Largest coordinate of a pull [m]; others are ignored.
_MAX_PULL_COORDINATE = 1e6
#: Headers that prevent other sites from embedding the page, reading it, or learning its address.
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
    """Error of a viewer whose server did not start; the message states the reason."""


class Server:
    """Web server that sends all scene packets to each page in order, and only the newest frame.

    It is a thread rather than a child process, so that no process survives a crash; a slow browser only misses frames.
    All sockets and clients belong to the event loop of that thread.

    Pages opened with the token, which is new in every run and part of `url`, may send keys, sticks, sliders, pauses and
    pulls; `view_url` shows the same page without control. That address needs no token, except if other machines can
    reach the server: then it has a second one.

    Args:
        title: title of the page.
        port: port; 0 for a free one.
        host: IPv4 address or name on which the server listens, such as "0.0.0.0" for all network interfaces.

    Raises:
        ServerError: the port or the host is not available.
    """

    def __init__(self, title: str, port: int, host: str = ADDRESS) -> None:
        read_meshcat_script()  # a broken installation is reported here, not as a blank page
        self._title = title
        self._clients: set[_Client] = set()
        self._permanent_packets: list[bytes] = []
        self._state_packets: dict[str, bytes] = {}
        self._frame: bytes | None = None
        self._frame_number = 0  # number of the newest frame
        self._scheduled = False
        self._controlling_pages: tuple[_Client, ...] = ()  # replaced as a whole: other threads read it
        self._token, self._view_path = secrets.token_urlsafe(12), "/"
        self._sliders: dict[str, Slider] = {}
        self._slider_values: dict[str, float] = {}
        self._steps = threading.Semaphore(0)
        self._connected = threading.Event()
        try:
            self._socket = socket.create_server((host, port))
        except (OSError, OverflowError, UnicodeError) as error:
            argument = "port" if host == ADDRESS else "host, port"
            reason = describe_os_error(error) if isinstance(error, OSError) else error
            raise ServerError(
                f"{argument}: the viewer cannot listen on {host}:{port}: {reason}; pass port=0 for any free port"
                + ("" if host == ADDRESS else ", and an IPv4 address or name of this machine as host")
            ) from None
        self._socket.setblocking(False)
        address, self.port = self._socket.getsockname()
        self._hosts: tuple[str, ...] = _LOOPBACK_NAMES
        # A foreign host name that resolves to this machine (DNS rebinding) gets 404.  Where every page needs a token,
        # all names are permitted, because other machines may use any.
        self._host_pattern = f"({'|'.join(map(re.escape, _LOOPBACK_NAMES))})"
        if address != ADDRESS and ipaddress.ip_address(address).is_loopback:
            self._hosts = (address,)
            self._host_pattern = re.escape(address)
        elif not ipaddress.ip_address(address).is_loopback:
            self._hosts = (_find_own_address() if address == _ALL_INTERFACES else address,)
            self._host_pattern, self._view_path = ".*", f"/{secrets.token_urlsafe(12)}/"
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="quaddyn-viewer", daemon=True)
        self._thread.start()
        try:
            started.result(_START_TIMEOUT)
        except Exception as error:
            raise ServerError(f"the viewer's server did not start: {error!r}") from error

    @property
    def url(self) -> str:
        """Address of the page, with the token that permits control."""
        return f"http://{self._hosts[0]}:{self.port}/{self._token}/"

    @property
    def view_url(self) -> str:
        """Address of the page without control."""
        return f"http://{self._hosts[0]}:{self.port}{self._view_path}"

    @property
    def keys(self) -> frozenset[str]:
        """Keys of `KEY_CODES` pressed on any page that has sent a message within `INPUT_TIMEOUT`."""
        return frozenset().union(*(page.keys for page in self._active_pages()))

    @property
    def axes(self) -> tuple[float, float, float]:
        """Axes of a gamepad: the largest deflection of each axis on any page, -1 to 1."""
        deflections = [page.axes for page in self._active_pages()] or [(0.0, 0.0, 0.0)]
        x, y, z = (max(each, key=abs) for each in zip(*deflections, strict=True))
        return x, y, z

    @property
    def pull(self) -> Pull | None:
        """Spring by which a page that has sent a message within `INPUT_TIMEOUT` pulls the robot; None for none."""
        return next((page.pull for page in self._active_pages() if page.pull is not None), None)

    @property
    def paused(self) -> bool:
        """Whether a page has paused the run."""
        return any(page.paused for page in self._controlling_pages)

    def take_step(self) -> bool:
        """Returns whether a page has requested a single step that has not been taken, and marks it as taken."""
        return self._steps.acquire(blocking=False)

    def add_slider(self, slider: Slider) -> None:
        """Adds a slider to every page, in place of one of the same name."""
        self._sliders[slider.name] = slider
        self._slider_values = {**self._slider_values, slider.name: slider.start}
        self.send_state("sliders", self._make_sliders_packet())

    @property
    def slider_values(self) -> dict[str, float]:
        """Value of each slider by name."""
        return dict(self._slider_values)

    def _active_pages(self) -> list[_Client]:
        """Returns the controlling pages that have sent a message recently."""
        now = time.monotonic()
        return [page for page in self._controlling_pages if now - page.last_message_time < INPUT_TIMEOUT]

    def _make_sliders_packet(self) -> bytes:
        """Returns the packet of all sliders."""
        sliders = [{**asdict(s), "value": self._slider_values[s.name]} for s in tuple(self._sliders.values())]
        return Blob().make_packet({"kind": "sliders", "sliders": sliders})

    @property
    def clients(self) -> int:
        """Number of connected pages."""
        return len(self._clients)

    @property
    def connections(self) -> int:
        """Number of open connections, including those of pages."""
        return self._http.connections

    def wait(self, timeout: float | None) -> bool:
        """Blocks until a page is connected, at most `timeout` [s]; returns whether one is."""
        return self._connected.wait(timeout)

    def send_packet(self, packet: bytes) -> None:
        """Sends a packet that every page needs, including pages that connect later."""
        self._call_in_loop(self._append_packet, packet)

    def send_state(self, kind: str, packet: bytes) -> None:
        """Sends a packet that replaces the last one of its `kind`, such as the camera."""
        self._call_in_loop(self._replace_state, kind, packet)

    def send_frame(self, packet: bytes) -> None:
        """Makes `packet` the newest frame, which all pages receive; an older frame that was not sent yet is dropped."""
        self._frame = packet
        self._frame_number += 1
        if self._clients and not self._scheduled:
            self._scheduled = True
            self._call_in_loop(self._start_sending)

    def close(self) -> None:
        """Disconnects all pages and frees the port; may be called repeatedly."""
        if self._thread.is_alive():
            self._call_in_loop(self._stop.set)
            self._thread.join(5.0)

    # -- in the event loop's thread ----------------------------------------------------------------------------
    def _call_in_loop(self, function: Any, *args: object) -> None:
        """Runs a function in the thread of the event loop."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop has been closed
            pass

    def _run(self, started: Future[None]) -> None:
        """Runs the event loop; the body of the thread."""
        try:
            asyncio.run(self._serve(started))
        except Exception as error:
            if not started.done():
                started.set_exception(error)

    async def _serve(self, started: Future[None]) -> None:
        """Opens the port and serves until the server is closed."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        application = tornado.web.Application(websocket_max_message_size=_MAX_MESSAGE_BYTES)
        application.add_handlers(
            self._host_pattern,
            [
                (re.escape(prefix + path), handler, arguments)
                for prefix, may_control in ((f"/{self._token}/", True), (self._view_path, False))
                for path, handler, arguments in (
                    ("", _Text, {"text": self._make_page(may_control), "kind": "text/html"}),
                    ("meshcat.js", _Text, {"text": read_meshcat_script(), "kind": "text/javascript"}),
                    ("socket", _Client, {"server": self, "may_control": may_control}),
                )
            ],
        )
        self._http = http = _Http(
            application,
            max_body_size=_MAX_BODY_BYTES,
            max_header_size=_MAX_HEADER_BYTES,
            idle_connection_timeout=REQUEST_TIMEOUT,
            body_timeout=REQUEST_TIMEOUT,
        )
        http.pages = self._clients
        http.add_socket(self._socket)
        started.set_result(None)
        await self._stop.wait()
        self._loop.set_exception_handler(_handle_loop_error)
        http.stop()
        for client in tuple(self._clients):
            client.close()
        await http.close_all_connections()

    def _make_page(self, may_control: bool) -> str:
        """Returns the page with or without control."""
        return make_live_page(self._title, self._hosts, self.port, self._view_path, may_control=may_control)

    def _append_packet(self, packet: bytes) -> None:
        """Appends a packet that every page receives, and starts sending it."""
        self._permanent_packets.append(packet)
        self._start_sending()

    def _replace_state(self, kind: str, packet: bytes) -> None:
        """Replaces the state packet of a kind, and starts sending it."""
        self._state_packets[kind] = packet
        self._start_sending()

    def _on_slider_moved(self, client: _Client, name: object, value: object) -> None:
        """Stores the value of a slider that a page has moved, and sends it to the other pages."""
        slider = self._sliders.get(name) if isinstance(name, str) else None
        if slider is None or isinstance(value, bool) or not _is_finite_number(value):
            return
        self._slider_values = {**self._slider_values, slider.name: min(max(float(value), slider.low), slider.high)}
        self._state_packets["sliders"] = packet = self._make_sliders_packet()
        if client in self._clients:  # which has the value already
            client.sent_states["sliders"] = packet
        self._start_sending()

    def _start_sending(self) -> None:
        """Starts sending the pending packets to every page."""
        self._scheduled = False
        for client in self._clients:
            client.refresh()


def _handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Reports errors of callbacks, except requests canceled by closing the server."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


def _find_own_address() -> str:
    """Returns the IPv4 address of this machine in its network; the loopback address without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_UNUSED_ADDRESS)  # selects the interface, and sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            return ADDRESS


class _Http(tornado.httpserver.HTTPServer):
    """HTTP server with a limited number of connections; a connection that does not become a page is closed."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        super().initialize(*args, **kwargs)
        self.pages: set[_Client] = set()
        self._streams: set[tornado.iostream.IOStream] = set()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return sum(not stream.closed() for stream in tuple(self._streams))

    def handle_stream(self, stream: tornado.iostream.IOStream, address: tuple[Any, ...]) -> None:
        self._streams = {each for each in self._streams if not each.closed()}
        if self.connections >= MAX_CONNECTIONS:
            stream.close()
            return
        self._streams.add(stream)
        asyncio.get_running_loop().call_later(REQUEST_TIMEOUT, self._close_unless_page, stream)
        super().handle_stream(stream, address)

    def _close_unless_page(self, stream: tornado.iostream.IOStream) -> None:
        """Closes a connection that has not opened the websocket of a page in time."""
        if not any(page.stream is stream for page in self.pages):
            stream.close()


class _Text(tornado.web.RequestHandler):
    """Handler of a page or script that is generated in memory."""

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
    """Websocket of one connected page; tornado rejects pages of another origin."""

    def initialize(self, server: Server, may_control: bool) -> None:
        self._server, self._may_control = server, may_control
        self._sent = 0  # number of packets sent of those that every page needs
        self.sent_states: dict[str, bytes] = {}  # last packet sent of each kind
        self._last_frame_number = 0
        self._is_sending = False
        self.last_message_time = -math.inf
        self._release_inputs()

    def _release_inputs(self) -> None:
        """Releases all inputs of the page."""
        self.keys: frozenset[str] = frozenset()
        self.axes = (0.0, 0.0, 0.0)
        self.pull: Pull | None = None
        self.paused = False

    def open(self, *_: str, **__: str) -> None:
        self.set_nodelay(True)
        server = self._server
        assert self.ws_connection is not None and self.ws_connection.stream is not None
        self.stream: tornado.iostream.IOStream = self.ws_connection.stream
        server._clients.add(self)
        if self._may_control:
            server._controlling_pages = (*server._controlling_pages, self)
        self.refresh()
        server._connected.set()

    def on_message(self, message: str | bytes) -> None:
        """Reads a message of a page: ``{"keys": [names], "axes": [x, y, turn], "paused": bool}``, always complete.

        It contains ``"pull"``, a list of seven numbers (body, point, target), while the mouse pulls, and may contain
        ``"step": 1`` or ``"slide": [name, value]`` once. A list alone is the keys; anything else releases all inputs.
        Messages of pages without the token are ignored.
        """
        if not self._may_control:
            return
        try:
            content = json.loads(message)
        except (ValueError, RecursionError):
            content = None
        content = {"keys": content} if isinstance(content, list) else content if isinstance(content, dict) else {}
        keys, axes = content.get("keys"), content.get("axes")
        self.last_message_time = time.monotonic()
        self.keys = (
            frozenset(k for k in keys if isinstance(k, str)) & KEY_CODES if isinstance(keys, list) else frozenset()
        )
        self.axes = _parse_axes(axes)
        self.pull = _parse_pull(content.get("pull"))
        self.paused = content.get("paused") is True
        if content.get("step") == 1:
            self._server._steps.release()
        slide = content.get("slide")
        if isinstance(slide, list) and len(slide) == 2:
            self._server._on_slider_moved(self, *slide)

    def on_close(self) -> None:
        server = self._server
        server._clients.discard(self)
        server._controlling_pages = tuple(
            page for page in server._controlling_pages if page is not self
        )  # a closed page presses no key
        if not server._clients:
            server._connected.clear()

    def refresh(self) -> None:
        """Starts sending the packets that the page has not received."""
        if not self._is_sending:
            self._is_sending = True
            asyncio.get_running_loop().create_task(self._send_pending_packets())

    async def _send_pending_packets(self) -> None:
        """Sends packets one at a time over the websocket, each after the previous one was taken."""
        try:
            while (packet := self._next_packet()) is not None:
                is_frame = packet is self._server._frame
                await asyncio.wait_for(self.write_message(packet, binary=True), WRITE_TIMEOUT)
                if is_frame:
                    await asyncio.sleep(_FRAME_PERIOD)
        except (tornado.websocket.WebSocketClosedError, tornado.iostream.StreamClosedError):
            self.on_close()
        except TimeoutError:
            self.on_close()
            self.stream.close()
        finally:
            self._is_sending = False

    def _next_packet(self) -> bytes | None:
        """Returns the next packet for the page, or None if it has received everything."""
        server = self._server
        if self._sent < len(server._permanent_packets):
            self._sent += 1
            return server._permanent_packets[self._sent - 1]
        for kind, packet in server._state_packets.items():
            if self.sent_states.get(kind) is not packet:
                self.sent_states[kind] = packet
                return packet
        if self._last_frame_number != server._frame_number:
            self._last_frame_number = server._frame_number
            return server._frame
        return None

    def data_received(self, chunk: bytes) -> None:
        raise tornado.web.HTTPError(400)


def _parse_axes(value: object) -> tuple[float, float, float]:
    """Returns three numbers from -1 to 1; zeros for invalid input."""
    if not (isinstance(value, list) and len(value) == 3):
        return 0.0, 0.0, 0.0
    if not all(_is_finite_number(x) for x in value):
        return 0.0, 0.0, 0.0
    x, y, z = (min(max(float(a), -1.0), 1.0) for a in value)
    return x, y, z


def _parse_pull(value: object) -> Pull | None:
    """Returns a pull from body index, point and target; None for invalid input."""
    if not (isinstance(value, list) and len(value) == 7 and type(value[0]) is int and value[0] >= 0):
        return None
    if not all(_is_finite_number(x) and abs(x) <= _MAX_PULL_COORDINATE for x in value):
        return None
    a, b, c, x, y, z = map(float, value[1:])
    return Pull(value[0], (a, b, c), (x, y, z))


def _is_finite_number(value: object) -> TypeGuard[int | float]:
    """Returns whether a value is a number that fits a float; JSON permits larger ones."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False
