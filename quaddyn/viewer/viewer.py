"""`Viewer`: a robot, its forces and its centre of mass in a browser, live or as a recorded page."""

from __future__ import annotations

import contextlib
import os
import time as clock
import weakref
import webbrowser
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, NoReturn

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from ..attributes import StrictAttributes
from ..errors import ArgumentError, ArgumentTypeError, QuaddynError
from ..kinematics.capsule_model import CapsuleModel
from ..robot.arguments import number, positive
from ..robot.robot import Robot
from ..simulation.plant import Plant
from ..simulation.records import TouchingPoint
from ..simulation.terrain import Surface, Terrain
from ..urdf.tree import Array
from . import checks
from . import signals as plotted
from .checks import vector
from .figure import Figure, Missing
from .landscape import Landscape
from .markers import Markers, hull
from .page import RecordedPage, framed
from .recording import Recording
from .scene import SLOT, Blob, Scene
from .server import Server
from .sliders import Slider

#: Velocity arrows are as long as the way in this time [s].
_ARROW_TIME = 0.5
#: How far above the centre of mass velocities are compared, and how far apart from each other [robot's length].
_ABOVE, _APART = 0.3, 0.06
#: How often a held loop looks whether it may go on [s].
_POLL = 0.005
_NOTHING: Mapping[str, Array] = MappingProxyType({})


class Viewer(StrictAttributes, fixed=("robot",)):
    """Shows a robot in meshcat's web viewer; needs no browser and no network.

    Every frame shown is also kept, so that `record` can write it all to one HTML file at any time.

    Use it as a context manager, or call `close`; a viewer that is dropped or whose process ends frees its port by
    itself.

    Args:
        robot: from `quaddyn.load`.
        open_browser: opens `url` in the user's browser.
        meshes: False draws joints and sticks instead of the file's visuals (or collisions, where it has no visuals).
        serve: False opens no socket; recording still works.
        port: to listen on at 127.0.0.1; 0 takes a free one.
        fps: frames kept per second of recorded time [1/s].
        max_frames: frames kept at most; the oldest are forgotten (default: 20 minutes at 30 fps).
        newtons_per_meter: length scale of force arrows [N/m]; None makes a force of the robot's weight one and a
            half times as long as the robot (`newtons_per_meter` tells the value).  Moments are drawn to the
            same length at one robot length of lever arm.
        terrain: what is around the robot, such as ``plant.terrain``; see `show_terrain`.

    Attributes:
        robot: the robot shown.
        newtons_per_meter: the force scale in use [N/m].

    Raises:
        ServerError: the port cannot be had.
        ArgumentError: an option is out of range.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        open_browser: bool = False,
        meshes: bool = True,
        serve: bool = True,
        port: int = 0,
        fps: float = 30.0,
        max_frames: int = 36_000,
        newtons_per_meter: float | None = None,
        terrain: Terrain | Surface | Iterable[Surface] | None = None,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
            raise ArgumentError(f"port: expected an integer from 0 to 65535, got {port!r}")
        positive("fps", fps)
        positive("max_frames", max_frames)
        self.robot = robot
        self._data = robot.model.createData()
        self._scene = Scene()
        self._figure = Figure(self._scene, robot, meshes=meshes)
        size = self._figure.size
        if newtons_per_meter is None:
            weight = robot.mass * float(np.linalg.norm(robot.model.gravity.linear))
            newtons_per_meter = weight / (1.5 * size) if weight > 0 else 1.0
        self.newtons_per_meter = positive("newtons_per_meter", newtons_per_meter)
        self._markers = Markers(self._scene, size)
        self._landscape = Landscape(self._scene, size)
        self._signals = plotted.Signals()
        self._channels: list[dict[str, str]] = []
        self._unserved: dict[str, float] = {}  # sliders
        self._frames: dict[str, int] = {}
        self._trails: dict[str, tuple[int | None, deque[Array]]] = {}
        self._capsules: tuple[CapsuleModel, int] | None = None
        self._recording = Recording(fps, int(max_frames))
        self._server = Server(robot.name, port) if serve else None
        self._finalizer = weakref.finalize(self, Server.close, self._server) if self._server else None
        self._floor = self._floor_packet()
        if terrain is not None:
            self.show_terrain(terrain)
        nothing = np.zeros(0, dtype=np.float32)
        first_look = self._poses(robot.q_home, None, {}, True, (), 0.0, {})
        self._home = self._base
        self.look()
        if self.missing and self._server:
            text = f"{len(self.missing)} mesh(es) missing:\n" + "\n".join(map(str, self.missing[:8]))
            self._server.state("note", Blob().packet({"kind": "note", "text": text}))
        self._send(first_look, "", nothing, None)  # not recorded
        if open_browser:
            webbrowser.open(self.url)

    # -- what it is ----------------------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        """Address of the live page, on this machine only, with the token without which a page can only watch.

        Raises:
            QuaddynError: the viewer was made with ``serve=False`` or has been closed.
        """
        return self._live.url

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The mesh files that could not be drawn, each with link, reason and what is drawn instead."""
        return tuple(self._figure.missing)

    @property
    def clients(self) -> int:
        """Number of browser pages that are connected."""
        return 0 if self._server is None else self._server.clients

    @property
    def keys(self) -> frozenset[str]:
        """Those of `KEYS` that are held down on a live page, such as "KeyW", by their place on the keyboard."""
        return frozenset() if self._server is None else self._server.keys

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until a browser shows the page, at most `timeout` [s]; returns whether one does."""
        return self._live.wait(timeout)

    @property
    def _live(self) -> Server:
        if self._server is None or self._finalizer is None or not self._finalizer.alive:
            raise QuaddynError("this viewer serves no page: it was closed or made with serve=False")
        return self._server

    # -- showing -------------------------------------------------------------------------------------------------
    def show(
        self,
        q: ArrayLike,
        *,
        v: ArrayLike | None = None,
        forces: Mapping[str, ArrayLike] | None = None,
        com: bool = True,
        cones: bool = False,
        friction: float | Mapping[str, float] = 0.6,
        contacts: Iterable[TouchingPoint] = (),
        support: bool = False,
        points: Mapping[str, ArrayLike] | None = None,
        curves: Mapping[str, ArrayLike] | None = None,
        wanted: ArrayLike | None = None,
        ghost: ArrayLike | None = None,
        tau: ArrayLike | None = None,
        signals: Mapping[str, Mapping[str, float]] | None = None,
        text: str | None = None,
        time: float | None = None,
    ) -> None:
        """Shows one instant, at once; the caller keeps the pace.

        Height, speed, forces and torques are plotted beside the scene as far as they are given.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity: draws the centre of mass' velocity as an arrow, as long as the way in half a second.
            forces: {foot or frame name: (3,) force or (6,) force and moment}, on the robot, world axes [N, N m], drawn
                from the frame's origin at `newtons_per_meter`; a zero force is not drawn.
            com: draws the centre of mass and the point of the ground below it.
            cones: draws the friction cone at every contact; without `contacts` at every frame in `forces`, at every
                foot when there are none.
            friction: coefficient of the cones that are not a contact's, one for all or {name: coefficient}; the ground
                is level there.
            contacts: such as ``plant.contacts``: draws the points and, from there, the forces on the robot.
            support: draws the support polygon: around the contacts, or else around the feet with a force, or else
                around all feet.
            points: {any name: (3,)} drawn as balls, such as a target; world [m].
            curves: {any name: (n, 3)} drawn as lines through these points, such as a foot's way to come; world [m].
            wanted: (3,) velocity that the centre of mass should have, world [m/s]: a blue arrow above the robot, with
                that of `v` in green below it for comparison.
            ghost: (nq,) configuration of a reference, drawn see-through.
            tau: (nu,) torques, plotted over the motors' limits [N m].
            signals: {panel: {line: value}}, plotted too; a panel takes the place of the viewer's own of that name, and
                a line called "x, wanted" is the dashed twin of "x".
            text: shown in the page's corner.
            time: the caller's clock [s] for the recording; None: 1 / fps after the last frame.

        Raises:
            UnknownNameError: a force or friction name that is no frame of the robot.
            ArgumentError: an argument has the wrong shape or a non-finite value, or `q` holds no unit quaternion.
        """
        q = checks.configuration("q", self.robot, q)
        shade = None if ghost is None else checks.configuration("ghost", self.robot, ghost)
        torque = None if tau is None else vector("tau", tau, (self.robot.nu,))
        panels = plotted.checked(signals)
        velocity = None if v is None else vector("v", v, (self.robot.nv,))
        for what, value in (("forces", forces), ("friction", friction)):
            if isinstance(value, Mapping):
                for name in value:
                    self.robot.frame_id(name)
            elif what == "forces" and value is not None:
                raise ArgumentTypeError(f"forces: expected a mapping of frame names, got {type(value).__name__}")
        wrenches = {name: vector(f"forces[{name!r}]", f, (3,), (6,)) for name, f in (forces or {}).items()}
        contacts = checks.contact_points(contacts)
        coned = tuple(wrenches or self.robot.feet) if cones and not contacts else ()
        if time is not None and not np.isfinite(number("time", time)):
            raise ArgumentError(f"time: expected a finite number, got {time}")
        balls = {name: vector(f"points[{name!r}]", p, (3,)) for name, p in (points or {}).items()}
        ways = {name: checks.rows(f"curves[{name!r}]", c) for name, c in (curves or {}).items()}
        goal = None if wanted is None else vector("wanted", wanted, (3,))
        around = None
        if support:
            loaded = [name for name in self.robot.feet if name in wrenches and wrenches[name].any()]
            around = tuple(loaded or self.robot.feet)
        poses = self._poses(q, velocity, wrenches, com, coned, friction, balls, contacts, cones, around, ways, goal)
        own = plotted.motion(self.robot, self._data, self._center, velocity is not None, goal)
        own |= plotted.forces(self.robot, wrenches, contacts)
        if torque is not None:
            own |= plotted.torques(self.robot, torque)
        if shade is not None:
            poses = self._shade(shade, poses)
        values = self._signals.values(own | panels)
        shown_at = self._recording.add(time, poses, text or "", values)
        self._send(poses, text or "", values, shown_at)

    def show_plant(self, plant: Plant, **options: Any) -> None:
        """Shows a plant as it is: state, terrain, contacts with their forces, torques, time.

        Args:
            plant: of this robot.
            options: of `show`, beside or instead of these.

        Raises:
            ArgumentError: a plant of another robot.
        """
        if not isinstance(plant, Plant):
            raise ArgumentTypeError(f"plant: expected a Simulation or a MujocoPlant, got {type(plant).__name__}")
        if plant.robot is not self.robot:
            raise ArgumentError(f"plant: of {plant.robot.name!r}, but this viewer shows {self.robot.name!r}")
        self.show_terrain(plant.terrain)
        shown: dict[str, Any] = {"v": plant.v, "contacts": plant.contacts, "tau": plant.tau, "time": plant.time}
        self.show(plant.q, **(shown | options))

    def show_terrain(self, terrain: Terrain | Surface | Iterable[Surface]) -> None:
        """Draws a terrain from the next `show` on, in place of the last one; ``()`` draws none.

        Boxes, stairs, slopes, walls and height fields stand where the robot meets them; of a height field of more than
        200 samples along a side some are left out.  The grid is the first level plane.

        Args:
            terrain: such as ``plant.terrain``, or surfaces.
        """
        if self._landscape.show(terrain if isinstance(terrain, Terrain) else Terrain.of(terrain)):
            self._floor = self._floor_packet()
            if self._server is not None:
                self._server.state("floor", self._floor)

    def show_frames(self, names: Iterable[str]) -> None:
        """Draws a triad (x red, y green, z blue) at these frames from the next `show` on; ``()`` draws none.

        Args:
            names: feet, links or joints of the robot.

        Raises:
            UnknownNameError: no such frame.
        """
        self._frames = {name: self.robot.frame_id(name) for name in checks.names(names)}

    def show_trails(self, names: Iterable[str], *, dots: int = 60) -> None:
        """Draws the ways of these frames as dotted lines from the next `show` on; ``()`` draws none.

        A dot is laid whenever the frame has moved by a fiftieth of the robot's length; the oldest one moves.

        Args:
            names: feet, links or joints of the robot, or "com".
            dots: of each trail.

        Raises:
            UnknownNameError: no such frame.
            ArgumentError: `dots` is not positive.
        """
        positive("dots", dots)
        known = {name: None if name == "com" else self.robot.frame_id(name) for name in checks.names(names)}
        self._trails = {name: (index, deque(maxlen=int(dots))) for name, index in known.items()}

    def show_capsules(self, model: CapsuleModel | None, *, nearest: int = 3) -> None:
        """Draws capsules from the next `show` on, and lines between those pairs that are nearest; None draws none.

        Args:
            model: of this robot.
            nearest: how many pairs have a line between the surfaces of their capsules.

        Raises:
            ArgumentError: a model of another robot.
        """
        if model is not None and not isinstance(model, CapsuleModel):
            raise ArgumentTypeError(f"model: expected a CapsuleModel, got {type(model).__name__}")
        if model is not None and model.robot is not self.robot:
            raise ArgumentError(f"model: of {model.robot.name!r}, but this viewer shows {self.robot.name!r}")
        self._capsules = None if model is None else (model, int(nearest))

    def look(
        self,
        target: ArrayLike | None = None,
        *,
        distance: float | None = None,
        azimuth: float = 55.0,
        elevation: float = 18.0,
        fov: float = 35.0,
        follow: bool = True,
    ) -> None:
        """Places the camera, live and in the recording.

        Args:
            target: (3,) point in the middle of the picture, world [m]; None: the middle of the robot in `q_home`.
            distance: from the target [m]; None: the whole robot fits.
            azimuth: where the camera stands, turned about z from the x axis [deg].
            elevation: above the horizon [deg].
            fov: vertical field of view [deg].
            follow: the camera goes along with the base.

        Raises:
            ArgumentError: an argument is out of range.
        """
        size = self._figure.size
        if target is None:
            point, base = (self._figure.low + self._figure.high) / 2, self._home
        else:
            point, base = vector("target", target, (3,)), self._base
        far = positive("distance", size / np.tan(np.deg2rad(fov) / 2) if distance is None else distance)
        if not (np.isfinite(azimuth) and -90 <= elevation <= 90 and 0 < fov < 180):
            raise ArgumentError("azimuth, elevation in [-90, 90], fov in (0, 180): expected degrees in range")
        a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
        position = point + far * np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
        lists = {"position": position.tolist(), "target": point.tolist(), "base": base.tolist()}
        numbers = {"fov": fov, "follow": follow, "size": size, "newtons_per_meter": self.newtons_per_meter}
        self._camera = Blob().packet({"kind": "camera", **lists, **numbers})
        if self._server is not None:
            self._server.state("camera", self._camera)

    def _poses(
        self,
        q: Array,
        v: Array | None,
        wrenches: Mapping[str, Array],
        com: bool,
        coned: Iterable[str],
        friction: float | Mapping[str, float],
        points: Mapping[str, Array],
        contacts: tuple[TouchingPoint, ...] = (),
        cones: bool = False,
        around: tuple[str, ...] | None = None,
        curves: Mapping[str, Array] = _NOTHING,
        wanted: Array | None = None,
    ) -> NDArray[np.float32]:
        """Every slot's pose (n, 10) at this instant; makes slots for markers that are new."""
        model, data, markers, scale = self.robot.model, self._data, self._markers, self.newtons_per_meter
        q = np.array(q)
        self.robot.algorithms.forwardKinematics(model, data, q)
        ids = {name: self.robot.frame_id(name) for name in (*wrenches, *coned, *(around or ()))}
        for index in (*ids.values(), *self._frames.values(), *(i for i, _ in self._trails.values() if i is not None)):
            pin.updateFramePlacement(model, data, index)
        shown: dict[int, tuple[float, ...]] = {}
        for name, wrench in wrenches.items():
            at = data.oMf[ids[name]].translation
            shown.update(markers.arrow("force", name, at, wrench[:3] / scale))
            if len(wrench) == 6:
                shown.update(markers.arrow("moment", name, at, wrench[3:] / (scale * self._figure.size)))
        for name in coned:
            mu = checks.friction_of(friction, name)
            shown.update(markers.cone(name, data.oMf[ids[name]].translation, mu))
        for i, contact in enumerate(contacts):
            # The body touches here and there: its marks are shared by all of it.
            name = f"{contact.sphere if contact.link is None else 'body'} {i}"
            shown.update(markers.contact(name, contact.point))
            shown.update(markers.arrow("force", name, contact.point, contact.force / scale))
            if cones:
                shown.update(markers.cone(name, contact.point, contact.friction, contact.normal))
        if around is not None:
            touched = [contact.point for contact in contacts]
            if not touched:
                radii = (self.robot.legs[name].foot.radius for name in around)
                touched = [data.oMf[ids[n]].translation - (0.0, 0.0, r) for n, r in zip(around, radii, strict=True)]
            shown.update(markers.polygon(hull(np.array(touched).reshape(-1, 3))))
        for name, point in points.items():
            shown.update(markers.point(name, point))
        for name, curve in curves.items():
            shown.update(markers.curve(name, curve))
        if self._capsules is not None:
            capsules, count = self._capsules
            for i, (ends, capsule) in enumerate(zip(capsules.placed(q), capsules.capsules, strict=True)):
                shown.update(markers.capsule(f"{capsule.link} {i}", ends, capsule.radius))
            distances, between = capsules.nearest(q)
            for i, pair in enumerate(np.argsort(distances)[:count].tolist()):
                shown.update(markers.curve(f"pair {i}", between[pair]))
        for name, index in self._frames.items():
            shown.update(markers.triad(name, pin.SE3ToXYZQUAT(data.oMf[index])))
        if v is None:
            center = self.robot.algorithms.centerOfMass(model, data, q, False).copy()
        else:
            center = self.robot.algorithms.centerOfMass(model, data, q, v, False).copy()
            above = np.array([0.0, 0.0, 0.0 if wanted is None else _ABOVE * self._figure.size])
            shown.update(markers.arrow("velocity", "com", center + above, _ARROW_TIME * data.vcom[0]))
        if wanted is not None:
            above = np.array([0.0, 0.0, (_ABOVE + _APART) * self._figure.size])
            shown.update(markers.arrow("wanted", "com", center + above, _ARROW_TIME * wanted))
        self._center = center
        if com:
            shown.update(markers.center_of_mass(center, self._landscape.height(*center[:2])))
        for name, (frame, way) in self._trails.items():
            here = center if frame is None else data.oMf[frame].translation.copy()
            if not way or np.linalg.norm(here - way[-1]) > 0.02 * self._figure.size:
                way.append(here)
            shown.update(markers.trail(name, way))
        poses = np.zeros((len(self._scene.slots), SLOT), dtype=np.float32)
        self._base = data.oMi[self._figure.joints[0]].translation.copy()
        first, _ = self._figure.slots
        for i, joint in enumerate(self._figure.joints, first):
            poses[i, :7] = pin.SE3ToXYZQUAT(data.oMi[joint])
            poses[i, 7:] = 1.0
        for slot, numbers in (shown | self._landscape.poses).items():
            poses[slot] = numbers
        return poses

    def _shade(self, q: Array, poses: NDArray[np.float32]) -> NDArray[np.float32]:
        """With the ghost's slots, as long as they may be."""
        first = self._figure.ghost()
        whole = np.zeros((len(self._scene.slots), SLOT), dtype=np.float32)
        whole[: len(poses)] = poses
        self.robot.algorithms.forwardKinematics(self.robot.model, self._data, np.array(q))
        for i, joint in enumerate(self._figure.joints, first):
            whole[i, :7] = pin.SE3ToXYZQUAT(self._data.oMi[joint])
            whole[i, 7:] = 1.0
        return whole

    def _send(self, poses: NDArray[np.float32], text: str, values: NDArray[np.float32], time: float | None) -> None:
        packet, channels = self._scene.flush(), self._signals.flush()
        self._channels += channels
        if self._server is None:
            return
        if packet is not None:
            self._server.send(packet)
        if channels:
            self._server.send(Blob().packet({"kind": "channels", "channels": channels}))
        blob = Blob()
        arrays = {"poses": blob.add(poses), "values": blob.add(values)}
        self._server.frame(blob.packet({"kind": "frame", **arrays, "text": text, "time": time}))

    def _floor_packet(self) -> bytes:
        return Blob().packet({"kind": "floor", "height": self._landscape.floor})

    # -- being told ----------------------------------------------------------------------------------------------
    def add_slider(
        self, name: str, low: float, high: float, value: float, *, unit: str = "", group: str = "settings"
    ) -> None:
        """Puts a slider on the live page, in place of one of this name; `sliders` tells where it is.

        Without a page it stays where it is to begin with.

        Args:
            name: its own.
            low: its left end.
            high: its right end.
            value: to begin with, within them.
            unit: written behind the number.
            group: heading that it stands under.

        Raises:
            ArgumentError: `low` < `high` with `value` between does not hold.
        """
        slider = Slider.checked(name, low, high, value, unit, group)
        self._unserved[name] = slider.start
        if self._server is not None:
            self._server.add_slider(slider)

    @property
    def sliders(self) -> dict[str, float]:
        """Where each slider is, by name."""
        return dict(self._unserved) if self._server is None else self._server.slid

    @property
    def axes(self) -> tuple[float, float, float]:
        """A gamepad's sticks on a live page: forward and leftward (left stick), turning left (right stick), -1 to 1."""
        return (0.0, 0.0, 0.0) if self._server is None else self._server.axes

    @property
    def paused(self) -> bool:
        """Whether a live page has paused."""
        return self._server is not None and self._server.paused

    def hold(self) -> float:
        """Waits while a live page has paused; returns when it goes on, and once for each single step that it asks for.

        Call it in a loop that is to be paused: ``viewer.hold(); plant.step(tau); viewer.show_plant(plant)``.

        Returns:
            How long that took [s].
        """
        start = clock.perf_counter()
        while self._server is not None and self._server.paused and not self._server.take_step():
            clock.sleep(_POLL)
        return clock.perf_counter() - start

    # -- recording -----------------------------------------------------------------------------------------------
    def record(self, path: str | os.PathLike[str], *, title: str | None = None) -> RecordedPage:
        """Writes everything shown since the viewer was made or cleared as one self-contained HTML animation.

        The page plays without a network; ``page.html#t=1.5`` stops at that time [s], ``#bare`` hides the controls.

        Args:
            path: the file to write.
            title: of the page; None: the robot's name.

        Returns:
            The path written, which in a notebook shows the page.

        Raises:
            QuaddynError: nothing has been shown.
            OSError: the file cannot be written.
        """
        made = RecordedPage(path)
        made.write_text(self._page(title), encoding="utf-8")
        return made

    def _page(self, title: str | None) -> str:
        channels = Blob().packet({"kind": "channels", "channels": self._channels})
        packets = (*self._scene.packets, self._floor, self._camera, channels)
        return self._recording.page(packets, title or self.robot.name)

    def _repr_html_(self) -> str:
        """In a notebook: what has been shown so far, or the robot at home."""
        if not len(self._recording):
            self.show(self.robot.q_home)
        return framed(self._page(None))

    def clear(self) -> None:
        """Forgets the frames shown so far; the next recording starts at the next `show`."""
        self._recording.clear()

    @contextlib.contextmanager
    def recording(self, path: str | os.PathLike[str], *, title: str | None = None) -> Iterator[None]:
        """Records what is shown inside the ``with`` block, and nothing before, to `path`.

        Raises:
            QuaddynError: nothing has been shown inside the block.
        """
        self.clear()
        yield
        self.record(path, title=title)

    # -- life ----------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Stops the server and frees its port; what has been shown can still be recorded."""
        if self._finalizer is not None:
            self._finalizer()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a Viewer cannot be copied or pickled; make another")

    def __repr__(self) -> str:
        where = self.url if self._finalizer is not None and self._finalizer.alive else "no server"
        return f"Viewer({self.robot.name!r}, {where}, {len(self._recording)} frames)"
