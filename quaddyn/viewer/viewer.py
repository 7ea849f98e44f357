"""`Viewer`: shows a robot, its contact forces and its center of mass in a browser, live or as a recorded page.

`JointSliders`: sliders on the live page that move the joints of a robot.
"""

from __future__ import annotations

import contextlib
import math
import os
import time as clock
import weakref
import webbrowser
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..contact import Contact
from ..contact.contact import check_surfaces
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError, QuaddynError
from ..kinematics.capsule_model import CapsuleModel
from ..locomotion import Foothold, LocomotionCommand
from ..robot.arguments import check_number, check_positive, check_type
from ..robot.configuration import independent_joints, set_joint_value
from ..robot.robot import Robot
from ..safe_files import file_errors
from ..simulation.plant import Plant
from ..simulation.records import ContactPoint
from ..simulation.terrain import Surface, Terrain
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, Joint
from ..wbc import Command
from . import signals as plotted
from .animation import Animation, RecordedPage, embed_in_iframe
from .drawing import Drawing
from .figure import REFERENCE_MATERIAL, BodyReports, BodyTexts, Figure, Landscape, MissingMesh
from .mesh import Material
from .scene import REFERENCE_ROBOT, Blob, Scene, SceneSnapshot, validate_names, validate_vector
from .server import ADDRESS, Server, Slider, Spring, camera_parameters

#: Time between two checks of a paused loop whether it may continue [s].
_PAUSE_POLL_PERIOD = 0.005


@renamed_attributes(
    axes="gamepad_axes",
    clear="clear_recording",
    hold="wait_while_paused",
    keys="pressed_keys",
    look="set_camera",
    missing="missing_meshes",
    paused="is_paused",
)
class Viewer(StrictAttributes, fixed=("robot",)):
    """Viewer of a robot in a web page based on meshcat; recording needs no browser and no network.

    Each frame shown is stored, too, so that `record` can write all of them to one HTML file at any time. Use the viewer
    as a context manager, or call `close`; a viewer that is deleted, or whose process ends, frees its port.

    Args:
        robot: robot to show.
        open_browser: whether to open `url` in the user's browser.
        meshes: whether to draw the visual shapes of the file, or its collision shapes if it has none; False draws
            joints and lines between them.
        serve: whether to serve the live page; without it recording still works.
        port: port of the live page; 0 for a free one.
        host: IPv4 address or name on which the live page is served, such as "0.0.0.0" for all network interfaces; by
            default only this machine can open the page. On other machines, `url` permits control of the run; the
            connection is not encrypted.
        fps: frames stored per second of recorded time [1/s].
        max_frames: maximum number of stored frames, beyond which the oldest are deleted; default: 20 minutes at 30 fps.
        newtons_per_meter: length scale of force arrows [N/m]; None: the weight of the robot has 1.5 times its length.
            Moments are drawn as their force at a lever arm of one robot length.
        terrain: surfaces around the robot, such as ``plant.terrain``, see `show_terrain`; None for none.
        max_pull_force: largest force of the mouse on a live page [N], see `pull_forces`; None: half the robot's weight.

    Attributes:
        robot: robot that is shown.
        newtons_per_meter: length scale of force arrows [N/m], as passed or, for None, from the weight.

    Raises:
        ServerError: the port or the host is not available.
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
        host: str = ADDRESS,
        fps: float = 30.0,
        max_frames: int = 36_000,
        newtons_per_meter: float | None = None,
        terrain: Terrain | Surface | Iterable[Surface] | None = None,
        max_pull_force: float | None = None,
    ) -> None:
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
            raise ArgumentError(f"port: expected an integer from 0 to 65535, got {port!r}")
        if not isinstance(host, str) or not host:
            raise ArgumentError(f"host: expected an address or name such as {ADDRESS!r}, got {host!r}")
        check_positive("fps", fps)
        check_positive("max_frames", max_frames)
        self.robot = robot
        self._scene = Scene()
        self._figure = Figure(self._scene, robot, meshes=meshes)
        size = self._figure.size
        weight = robot.mass * float(np.linalg.norm(robot.model.gravity.linear)) or 1.0
        if newtons_per_meter is None:
            newtons_per_meter = weight / (1.5 * size)
        max_force = 0.5 * weight if max_pull_force is None else check_positive("max_pull_force", max_pull_force)
        self._spring = Spring(robot, self._figure.joints, size, max_force)
        self.newtons_per_meter = check_positive("newtons_per_meter", newtons_per_meter)
        self._landscape = Landscape(self._scene, size)
        self._drawing = Drawing(robot, self._scene, self._figure, self._landscape, self.newtons_per_meter)
        # The joints of arms are of interest at first, those of robots that move their base on demand.
        joint_panels = (*plotted.JOINT_POSITION, *plotted.JOINT_VELOCITY)
        self._signals = plotted.Signals(() if robot.root == "fixed" else joint_panels)
        self._joint_signals, self._body_reports = plotted.JointSignals(robot), BodyReports(robot, self._figure.joints)
        self._channels: list[dict[str, str | bool]] = []
        self._initial_slider_values: dict[str, float] = {}  # values of sliders by name, without a live page
        self._recording = Animation(fps, int(max_frames))
        self._server = Server(robot.name, port, host) if serve else None
        self._accepts_pulls = False
        self._finalizer = weakref.finalize(self, Server.close, self._server) if self._server else None
        self._floor = self._make_floor_packet()
        if terrain is not None:
            self.show_terrain(terrain)
        no_values = np.zeros(0, dtype=np.float32)
        first_poses = self._drawing.update_poses(SceneSnapshot(np.array(robot.q_home)))
        self._home = self._drawing.base
        self.set_camera()
        if self.missing_meshes and self._server:
            text = f"{len(self.missing_meshes)} mesh(es) missing:\n" + "\n".join(map(str, self.missing_meshes[:8]))
            self._server.send_state("note", Blob().make_packet({"kind": "note", "text": text}))
        self._send(first_poses, "", no_values, None, None)  # not recorded
        if open_browser:
            webbrowser.open(self.url)

    # -- live page -----------------------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        """Address of the live page, with the token that permits control of the run.

        Raises:
            QuaddynError: the viewer was made with ``serve=False`` or has been closed.
        """
        return self._live_server.url

    @property
    def view_url(self) -> str:
        """Address of the live page without control of the run.

        Raises:
            QuaddynError: as for `url`.
        """
        return self._live_server.view_url

    @property
    def missing_meshes(self) -> tuple[MissingMesh, ...]:
        """Mesh files that could not be drawn, with link, reason and substitute."""
        return tuple(self._figure.missing_meshes)

    @property
    def clients(self) -> int:
        """Number of connected browser pages."""
        return 0 if self._server is None else self._server.clients

    @property
    def pressed_keys(self) -> frozenset[str]:
        """Keys of `KEY_CODES` that are pressed on a live page, such as "KeyW", by position on the keyboard."""
        return frozenset() if self._server is None else self._server.keys

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until a browser shows the page.

        Args:
            timeout: maximum time [s]; None: no limit.

        Returns:
            Whether a page is connected.
        """
        return self._live_server.wait(timeout)

    @property
    def _live_server(self) -> Server:
        """Server of the live page; raises if there is none."""
        if self._server is None or self._finalizer is None or not self._finalizer.alive:
            raise QuaddynError("the viewer has no page, because it was closed or made with serve=False")
        return self._server

    # -- drawing -------------------------------------------------------------------------------------------------
    @renamed_parameters(
        com="show_com",
        cones="show_friction_cones",
        ghost="reference_q",
        support="show_support_polygon",
        text="caption",
        wanted="desired_velocity",
    )
    def show(
        self,
        q: ArrayLike,
        *,
        v: ArrayLike | None = None,
        forces: Mapping[str, ArrayLike] | None = None,
        show_com: bool = True,
        show_friction_cones: bool = False,
        friction: float | Mapping[str, float] = NOMINAL_FRICTION,
        contacts: Iterable[ContactPoint] | None = None,
        show_support_polygon: bool = False,
        points: Mapping[str, ArrayLike] | None = None,
        curves: Mapping[str, ArrayLike] | None = None,
        desired_velocity: ArrayLike | None = None,
        reference_q: ArrayLike | None = None,
        robots: Mapping[str, ArrayLike] | None = None,
        footholds: Mapping[str, Foothold] | None = None,
        normals: Mapping[str, ArrayLike] | None = None,
        tau: ArrayLike | None = None,
        command: Command | LocomotionCommand | None = None,
        signals: Mapping[str, Mapping[str, float]] | None = None,
        caption: str | None = None,
        time: float | None = None,
    ) -> None:
        """Draws one frame and sends it to the live page; the caller sets the pace.

        The page plots the height and velocity of the center of mass, the forces and the torques, as far as they are
        given.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity. Draws the velocity of the center of mass as an arrow as long as the distance covered in
                0.5 s.
            forces: {foot or frame name: (3,) force or (6,) force and moment} on the robot in world axes [N, N m], drawn
                from the origin of the frame at `newtons_per_meter`. Zero forces are not drawn.
            show_com: whether to draw the center of mass and its projection on the ground.
            show_friction_cones: whether to draw a friction cone at each contact; without `contacts` at each frame in
                `forces`, and without `forces` at each foot.
            friction: friction coefficient of cones that do not belong to a contact of `contacts`: one value or {frame
                name: value}. These cones stand on level ground.
            contacts: contacts such as ``plant.contacts``: draws the contact points and the force on the robot at each
                of them. ``()`` means no contact (flight), None that the contacts are unknown.
            show_support_polygon: whether to draw the support polygon: of `contacts`; without them of the feet with a
                nonzero force in `forces`, and without any such force of all feet.
            points: {name: (3,)} drawn as balls, such as a target, world [m].
            curves: {name: (n, 3)} drawn as polylines, such as the path of a swing foot, world [m].
            desired_velocity: (3,) desired velocity of the center of mass, world [m/s]: a blue arrow above the robot.
                The velocity from `v` is drawn in green below it for comparison.
            reference_q: (nq,) reference configuration, drawn as a transparent robot.
            robots: {name: (nq,)} configurations of robots that `add_robot` added; those that are missing are not drawn.
            footholds: {foot name: `Foothold`} of a `LocomotionCommand`: draws the selected foothold as a disc, a line
                from the nominal foothold, and all foothold candidates, green at cost 0, red from cost 3, gray where the
                terrain map has unknown cells.
            normals: {frame name: (3,)} normal of the ground below the frame, such as those of a `LocomotionCommand`,
                drawn as arrows.
            tau: (nu,) joint torques [N m or N], plotted in percent of the effort limits, and as torques for joints
                whose limit is missing or too large to have an effect.
            command: command of whole-body control of this tick. A click on a link shows its active limits and the
                deficits of its tasks.
            signals: {panel title: {line label: value}} plotted in separate panels. A panel replaces the default
                panel of the same title; the line "x, desired" is drawn dashed in the color of "x".
            caption: text in the corner of the page.
            time: time of the frame in the recording [s]; by default 1 / fps after the last frame.

        Raises:
            UnknownNameError: a name in `forces`, `friction` or `normals` is not a frame of the robot.
            ArgumentError: an argument has a wrong shape or a non-finite value, or a quaternion in `q` is not of unit
                norm.
        """
        snapshot = SceneSnapshot.from_arguments(
            self.robot,
            self._drawing.other_robots,
            q,
            v=v,
            forces=forces,
            show_com=show_com,
            show_friction_cones=show_friction_cones,
            friction=friction,
            contacts=contacts,
            show_support_polygon=show_support_polygon,
            points=points,
            curves=curves,
            desired_velocity=desired_velocity,
            reference_q=reference_q,
            robots=robots,
            footholds=footholds,
            normals=normals,
        )
        torque = None if tau is None else validate_vector("tau", tau, (self.robot.nu,))
        panels, report = plotted.validate_signals(signals), self._body_reports.describe(command)
        if time is not None and not np.isfinite(check_number("time", time)):
            raise ArgumentError(f"time: expected a finite number, got {time}")
        drawing = self._drawing
        poses = drawing.update_poses(snapshot)
        has_velocity = snapshot.v is not None
        default_panels = plotted.make_motion_panels(
            self.robot, drawing.data, drawing.center, has_velocity, snapshot.desired_velocity
        )
        default_panels |= plotted.make_force_panel(self.robot, snapshot.wrenches, snapshot.contacts)
        if torque is not None:
            default_panels |= self._joint_signals.make_torque_panels(torque)
        default_panels |= self._joint_signals.make_motion_panels(snapshot.q, snapshot.v)
        values = self._signals.values(default_panels | panels)
        recording_time = self._recording.add(time, poses, caption or "", values, report)
        self._send(poses, caption or "", values, report, recording_time)

    def show_plant(self, plant: Plant, **options: Any) -> None:
        """Shows the present state of a plant: robot, terrain, contacts with their forces, torques and time.

        Args:
            plant: plant of this robot.
            options: arguments of `show`, in addition to these or in place of them.

        Raises:
            ArgumentError: a plant of a different robot.
        """
        self._check_plant(plant)
        self.show_terrain(plant.terrain)
        defaults: dict[str, Any] = {"v": plant.v, "contacts": plant.contacts, "tau": plant.tau, "time": plant.time}
        self.show(plant.q, **(defaults | options))

    def _check_plant(self, plant: Plant) -> None:
        """Raises an error unless the argument is a plant of this robot."""
        check_type("plant", plant, Plant, "a Simulation or a MujocoPlant")
        if plant.robot is not self.robot:
            raise ArgumentError(
                f"plant: expected a plant of robot {self.robot.name!r}, got one of {plant.robot.name!r}"
            )

    def add_robot(
        self, name: str, robot: Robot, *, color: tuple[float, float, float] | None = None, opacity: float = 1.0
    ) -> None:
        """Adds a further robot, or a ghost of one, which `show` draws at the configuration in ``robots={name: q}``.

        Args:
            name: name of the robot in the legend of the page.
            robot: robot to draw; the robot of the viewer for a copy or a ghost.
            color: (r, g, b), each 0 to 1, of all links; None: the colors of the file, or blue for a ghost.
            opacity: 0 to 1; below 1 the robot is a ghost.

        Raises:
            ArgumentError: the name is in use, or a number is out of range.
        """
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        if not isinstance(name, str) or not name or name in (REFERENCE_ROBOT, *self._drawing.other_robots):
            raise ArgumentError(f"name: expected a new name other than {REFERENCE_ROBOT!r}, got {name!r}")
        rgb = None if color is None else validate_vector("color", color, (3,)).tolist()
        if not 0.0 < check_number("opacity", opacity) <= 1.0 or not all(0.0 <= c <= 1.0 for c in rgb or ()):
            raise ArgumentError(
                f"color, opacity: expected numbers from 0 to 1, and an opacity above 0, got {color}, {opacity}"
            )
        material = None
        if rgb is not None or opacity < 1.0:
            r, g, b = rgb or REFERENCE_MATERIAL.color[:3]
            material = Material((r, g, b, float(opacity)))
        self._drawing.add_robot(name, robot, f"robot {name}", material)

    def show_terrain(self, terrain: Terrain | Surface | Iterable[Surface]) -> None:
        """Draws a terrain from the next `show` on, in place of the previous one; ``()`` draws none.

        Boxes, stairs, slopes, walls and height fields are drawn at their true positions; height fields with more than
        200 samples along a side are drawn with fewer. The grid is the first level plane.

        Args:
            terrain: terrain such as ``plant.terrain``, or surfaces.
        """
        if self._landscape.set_terrain(terrain if isinstance(terrain, Terrain) else Terrain.from_surfaces(terrain)):
            self._floor = self._make_floor_packet()
            if self._server is not None:
                self._server.send_state("floor", self._floor)

    def show_frames(self, names: Iterable[str]) -> None:
        """Draws the axes (x red, y green, z blue) of frames from the next `show` on; ``()`` draws none.

        Args:
            names: feet, links or joints of the robot.

        Raises:
            UnknownNameError: no frame of a name.
        """
        self._drawing.show_frames(validate_names(names))

    def show_trails(self, names: Iterable[str], *, dots: int = 60) -> None:
        """Draws the paths of frames as dotted lines from the next `show` on; ``()`` draws none.

        A dot is added whenever a frame has moved by 1/50 of the robot's length; beyond `dots` the oldest one is
        removed.

        Args:
            names: feet, links or joints of the robot, or "com".
            dots: maximum number of dots of each trail.

        Raises:
            UnknownNameError: no frame of a name.
            ArgumentError: `dots` is not positive.
        """
        check_positive("dots", dots)
        self._drawing.show_trails(validate_names(names), int(dots))

    def show_capsules(self, model: CapsuleModel | None, *, nearest: int = 3) -> None:
        """Draws collision capsules from the next `show` on, and lines between the nearest pairs.

        Args:
            model: capsules of this robot; None draws none.
            nearest: number of pairs with a line between their surfaces.

        Raises:
            ArgumentError: capsules of a different robot.
        """
        check_type("model", model, CapsuleModel | None, "a CapsuleModel")
        if model is not None and model.robot is not self.robot:
            raise ArgumentError(
                f"model: expected a model of robot {self.robot.name!r}, got one of {model.robot.name!r}"
            )
        self._drawing.capsules = None if model is None else (model, int(nearest))

    def show_soles(self, soles: Iterable[Contact]) -> None:
        """Draws the outlines of surface contacts from the next `show` on; ``()`` draws none.

        Args:
            soles: contacts of kind "surface" on frames of this robot, such as `Contact.from_sole`.

        Raises:
            UnknownNameError: no frame of a name.
            ArgumentError: point contacts, or two contacts of one name.
        """
        surfaces = check_surfaces("soles", soles)
        for sole in surfaces:
            self.robot.frame_id(sole.frame)
        self._drawing.soles = surfaces

    def set_camera(
        self,
        target: ArrayLike | None = None,
        *,
        distance: float | None = None,
        azimuth: float = 55.0,
        elevation: float = 18.0,
        fov: float = 35.0,
        follow: bool = True,
    ) -> None:
        """Sets the camera of the live page and of the recording.

        Args:
            target: (3,) point in the center of the picture, world [m]; None: the middle of the robot in `q_home`.
            distance: distance from the target [m]; None: the whole robot is visible.
            azimuth: direction of the camera from the target about z, from the x axis [deg].
            elevation: angle of the camera above the horizon [deg].
            fov: vertical field of view [deg].
            follow: whether the camera moves with the base.

        Raises:
            ArgumentError: an argument is out of range.
        """
        figure = self._figure
        if target is None:
            point, base = (figure.low + figure.high) / 2, self._home
        else:
            point, base = validate_vector("target", target, (3,)), self._drawing.base
        view = camera_parameters(point, figure.size, distance, azimuth, elevation, fov)
        scales = {"size": figure.size, "newtons_per_meter": self.newtons_per_meter}
        self._camera = Blob().make_packet({"kind": "camera", "base": base.tolist(), "follow": follow, **view, **scales})
        if self._server is not None:
            self._server.send_state("camera", self._camera)

    def _send(
        self,
        poses: NDArray[np.float32],
        text: str,
        values: NDArray[np.float32],
        report: BodyTexts | None,
        time: float | None,
    ) -> None:
        """Sends a frame, and the geometry and plot channels that are new, to the live page."""
        packet, channels = self._scene.flush(), self._signals.flush()
        self._channels += channels
        if self._server is None:
            return
        if packet is not None:
            self._server.send_packet(packet)
        if channels:
            self._server.send_packet(Blob().make_packet({"kind": "channels", "channels": channels}))
        blob = Blob()
        arrays = {"poses": blob.add(poses), "values": blob.add(values)}
        texts = {"text": text, "report": report}
        self._server.send_frame(blob.make_packet({"kind": "frame", **arrays, **texts, "time": time}))

    def _make_floor_packet(self) -> bytes:
        """Returns the packet with the height of the floor."""
        return Blob().make_packet({"kind": "floor", "height": self._landscape.floor})

    # -- input from the live page --------------------------------------------------------------------------------
    def add_slider(
        self, name: str, low: float, high: float, value: float, *, unit: str = "", group: str = "settings"
    ) -> None:
        """Adds a slider to the live page, in place of one of the same name; `sliders` has its value.

        Without a live page the slider keeps its initial value.

        Args:
            name: name of the slider.
            low: minimum.
            high: maximum.
            value: initial value, between them.
            unit: unit shown after the value.
            group: heading under which the slider is shown.

        Raises:
            ArgumentError: not ``low <= value <= high`` with ``low < high``.
        """
        slider = Slider.validated(name, low, high, value, unit, group)
        self._initial_slider_values[name] = slider.start
        if self._server is not None:
            self._server.add_slider(slider)

    @property
    def sliders(self) -> dict[str, float]:
        """Value of each slider by name."""
        return dict(self._initial_slider_values) if self._server is None else self._server.slider_values

    @property
    def gamepad_axes(self) -> tuple[float, float, float]:
        """Axes of a gamepad on a live page, -1 to 1: forward and leftward (left stick), turning left (right stick)."""
        return (0.0, 0.0, 0.0) if self._server is None else self._server.axes

    def pull_forces(self, plant: Plant) -> dict[str, Array]:
        """Returns the force with which the mouse on a live page pulls a link, for the next step of a plant.

        It is the force of a damped spring between the clicked point of the link and the mouse, at most
        `max_pull_force`. The page permits pulls from the first call on. Pass the force at every step::

            plant.step(tau, external=viewer.pull_forces(plant))

        Returns:
            {link name: (6,) force and moment on the robot at the frame of the link, world axes [N, N m]}; {} if no page
            pulls.

        Raises:
            ArgumentError: a plant of a different robot.
        """
        if self._server is None:
            return {}
        if not self._accepts_pulls:
            self._check_plant(plant)
            self._accepts_pulls = True
            self._server.send_state("pullable", Blob().make_packet({"kind": "pullable"}))
        return self._spring.compute_wrench(self._server.pull, plant.q, plant.v)

    @property
    def is_paused(self) -> bool:
        """Whether a live page has paused the run."""
        return self._server is not None and self._server.paused

    def wait_while_paused(self) -> float:
        """Blocks while the live page has paused the run; returns at once otherwise, and once per requested single step.

        Call it once per iteration of a control loop::

            viewer.wait_while_paused()
            plant.step(tau)
            viewer.show_plant(plant)

        Returns:
            The time spent waiting [s].
        """
        start = clock.perf_counter()
        while self._server is not None and self._server.paused and not self._server.take_step():
            clock.sleep(_PAUSE_POLL_PERIOD)
        return clock.perf_counter() - start

    # -- recording -----------------------------------------------------------------------------------------------
    def record(self, path: str | os.PathLike[str], *, title: str | None = None) -> RecordedPage:
        """Writes all frames shown since the start, or since `clear_recording`, as one self-contained HTML animation.

        The page plays without a network; ``page.html#t=1.5`` stops at that time [s], ``#bare`` hides the controls.

        Args:
            path: file to write.
            title: title of the page; None: the name of the robot.

        Returns:
            The path of the file, which displays the page in a notebook.

        Raises:
            QuaddynError: no frame has been shown.
            OSError: the file cannot be written.
        """
        recorded = RecordedPage(path)
        with file_errors():
            recorded.write_text(self._make_page(title), encoding="utf-8")
        return recorded

    def _make_page(self, title: str | None) -> str:
        """Returns the recorded page."""
        channels = Blob().make_packet({"kind": "channels", "channels": self._channels})
        packets = (*self._scene.packets, self._floor, self._camera, channels)
        return self._recording.make_page(packets, title or self.robot.name)

    def _repr_html_(self) -> str:
        """Returns the recorded page for a notebook; the robot at home if nothing has been shown."""
        if not len(self._recording):
            self.show(self.robot.q_home)
        return embed_in_iframe(self._make_page(None))

    def clear_recording(self) -> None:
        """Deletes the stored frames; the next recording starts at the next `show`."""
        self._recording.clear()

    @contextlib.contextmanager
    def recording(self, path: str | os.PathLike[str], *, title: str | None = None) -> Iterator[None]:
        """Records the frames shown inside the ``with`` block to `path`.

        Args:
            path: file to write.
            title: title of the page; None: the name of the robot.

        Raises:
            QuaddynError: no frame has been shown inside the block.
        """
        self.clear_recording()
        yield
        self.record(path, title=title)

    # -- closing -------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Stops the server and frees its port; frames shown so far can still be recorded."""
        if self._finalizer is not None:
            self._finalizer()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a Viewer cannot be copied or pickled; create another one")

    def __repr__(self) -> str:
        address = self.url if self._finalizer is not None and self._finalizer.alive else "no server"
        return f"Viewer({self.robot.name!r}, {address}, {len(self._recording)} frames)"


@renamed_attributes(follow="update")
class JointSliders:
    """Slider for each joint with one degree of freedom, between its limits; from -pi to pi about home without limits.

    Args:
        viewer: viewer whose page has the sliders.
    """

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._robot = robot = viewer.robot
        self._joints = independent_joints(robot.bodies)
        for name, joint in self._joints.items():
            low, high, value = _slider_range(robot, joint)
            unit = "m" if joint.type == "prismatic" else "rad"
            viewer.add_slider(name, low, high, value, unit=unit, group="joints")
        self._shown: dict[str, float] | None = None

    def update(self) -> Array | None:
        """Shows the robot in the configuration of the sliders.

        Returns:
            (nq,) configuration if it has changed, else None.
        """
        values = self._viewer.sliders
        if values == self._shown:
            return None
        self._shown, q = values, np.array(self._robot.q_home)
        for name, joint in self._joints.items():
            set_joint_value(q, self._robot.configuration_index(name), joint, values[name])
        self._viewer.show(q)
        return q


def _slider_range(robot: Robot, joint: Joint) -> tuple[float, float, float]:
    """Returns minimum, maximum and home value of a joint's slider."""
    index = robot.configuration_index(joint.name)
    if joint.type == "continuous":
        return -math.pi, math.pi, math.atan2(robot.q_home[index + 1], robot.q_home[index])
    value, low, high = float(robot.q_home[index]), float(robot.lower[index]), float(robot.upper[index])
    low, high = (
        limit if math.isfinite(limit) else value + half_turn for limit, half_turn in ((low, -math.pi), (high, math.pi))
    )
    if not low < high:  # equal limits: the joint cannot move
        low, high = low - 1e-3, high + 1e-3
    return low, high, min(max(value, low), high)
