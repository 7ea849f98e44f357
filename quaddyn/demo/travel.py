"""A quadruped rises, goes where it is told or driven, takes a push, stops; every figure of it is checked."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..dynamics import Dynamics
from ..errors import ArgumentError, UnknownNameError
from ..kinematics import LegKinematics
from ..locomotion import FEET, LocomotionCommand, LocomotionController, Mode, Proportions, commanded_velocity
from ..robot import Robot
from ..robot.configuration import put, turned
from ..simulation import MujocoPlant, Simulation
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array
from . import driving
from .ground import parse_ground
from .journey import Journey
from .leap import Leap
from .plot import check_output, check_plot, draw
from .report import DemoReport
from .trace import Trace

if TYPE_CHECKING:
    from ..viewer import Viewer

PLANTS: dict[str, type[Simulation] | type[MujocoPlant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
FRAMES_PER_SECOND = 30.0
#: Part of a frame by which a time may lie before its beginning and still belong to it: rounding of sums of periods.
FRAME_TOLERANCE = 1e-6
#: Height of the base at the start, as a share of that at home.
CROUCH = 0.6
#: Speed that is commanded by default [sqrt(g l)], and the one with which turning is compared.
SPEED = 0.25
#: Shares of the time after rising that it moves, and stands at the end.
MOVING_SHARE = 0.75
#: How long it stands before it jumps [sqrt(l/g)].
PAUSE = 3.0
#: Dots of the trail of the centre of mass.
DOTS = 90


def frame_number(seconds: float) -> int:
    """Returns the number of the frame that is shown at a time [s]."""
    return int(seconds * FRAMES_PER_SECOND + FRAME_TOLERANCE)


def check_plant(name: str) -> None:
    """Refuses a plant that cannot be made, before anything is loaded or compiled for it.

    Raises:
        UnknownNameError: no such plant.
        QuaddynError: MuJoCo is not installed.
    """
    if name not in PLANTS:
        raise UnknownNameError("plant", name, PLANTS)
    if name == "mujoco":
        import_mujoco()


class Push(NamedTuple):
    """A sideways force on the base for `PUSH_TIME`: how strong [N], to the left, and when [s]."""

    force: float
    time: float

    @staticmethod
    def parse(text: str) -> Push:
        """Of ``N@t``, such as ``80@4`` or ``-80@4``.

        Raises:
            ArgumentError: anything else.
        """
        try:
            force, when = (float(part) for part in text.split("@"))
        except ValueError:
            raise ArgumentError(
                f"push: expected force@time, such as 80@4 (80 N to the left at 4 s), got {text!r}"
            ) from None
        if not (math.isfinite(force) and math.isfinite(when) and when >= 0.0):
            raise ArgumentError(f"push: expected a finite force [N] and a time >= 0 [s], got {text!r}")
        return Push(force, when)


def can_travel(robot: Robot) -> bool:
    """Whether a robot is one that trots: a quadruped on a free root that can step aside to keep its balance."""
    return robot.root == "free" and set(robot.feet) == set(FEET) and Proportions.of(robot).sideways


def crouched(robot: Robot, share: float) -> Array:
    """(nq,) home with the base at `share` of its height over the same footholds; less deep where a leg cannot."""
    base = robot.bodies[0].name
    dynamics = Dynamics(robot)
    home = np.array(robot.q_home)
    pose = dynamics.frame_placement(home, base)
    feet = {f: pose.inverse().apply(dynamics.frame_placement(home, f).translation) for f in robot.feet}
    legs = {foot: LegKinematics(robot, foot) for foot in robot.feet}
    joints = {b.joint.name: b.joint for b in robot.bodies[1:] if b.joint is not None}
    lowest = float(pose.translation[2])
    for depth in np.linspace(1.0 - share, 0.0, 9):
        down = pose.rotation.T @ np.array([0.0, 0.0, depth * lowest])
        found = {foot: leg.inverse(feet[foot] + down) for foot, leg in legs.items()}
        if all(s.reached and s.within_limits for s in found.values()):
            q = home.copy()
            q[2] -= depth * lowest
            for foot, leg in legs.items():
                for name, value in zip(leg.joints, found[foot].q, strict=True):
                    put(q, robot.configuration_index(name), joints[name], float(value))
            return q
    return home


def travel(
    robot: Robot,
    *,
    gait: str = "trot",
    plant: str = "embedded",
    velocity: Iterable[float] | None = None,
    pushes: Iterable[Push] = (),
    jump: Leap | None = None,
    seconds: float = 8.0,
    dt: float = 2e-3,
    friction: float = NOMINAL_FRICTION,
    ground: str | None = None,
    blind: bool = False,
    viewer: Viewer | None = None,
    realtime: bool = False,
    drive: bool = False,
    record: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> DemoReport:
    """Stand up from a crouch, move as commanded, take the pushes, stop and stand.

    An interrupt (Ctrl-C) ends the run, not the program: the report is of what was done until then.

    Keys held down on the viewer's live page (`driving.DIRECTIONS`) and a gamepad stand above the commanded velocity;
    the page can pause the run and take it step by step.

    Args:
        robot: a quadruped with a free root.
        gait: of `quaddyn.locomotion.GAITS`.
        plant: "embedded" or "mujoco".
        velocity: forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; a quarter of ``sqrt(g l)``
            forward by default, nothing with `drive`; the run is judged by what of it the gait can do.
        pushes: on the base.
        jump: from where it stands, a while after it has risen; the run is then judged by where the feet land, and how
            high it jumps.  Without a `velocity` it goes nowhere.
        seconds: simulated time [s], at least 0.1.
        dt: control period [s]; the plant steps twice as often.
        friction: Coulomb's coefficient between feet and floor; the controller is not told.
        ground: what to walk on, see `ground.KINDS`, such as "slope=10" or "stairs=0.05,0.3"; by default a level floor.
        blind: whether the controller is not told of the ground.
        viewer: shows the motion, 30 frames per simulated second.
        realtime: wait for the wall clock wherever the simulation is ahead of it.
        drive: to be driven by keys, to the end of time or until an interrupt; needs a `viewer`.
        record: HTML file for the animation; needs no viewer.
        plot: PNG, PDF or SVG file for torques, forces, velocity and height over time.
        progress: called with the share done (0 to 1) at every frame.

    Raises:
        ArgumentError: an option out of range, a robot that cannot walk, or a jump that it cannot do or has no time for.
        UnknownNameError: no such gait, plant or ground.
        QuaddynError: `plot` without matplotlib, or "mujoco" without MuJoCo.
        DivergenceError: the simulation left the finite numbers.
    """
    if not (np.isfinite(seconds) and seconds >= 0.1):
        raise ArgumentError(f"seconds: expected at least 0.1 s, got {seconds}")
    check_plant(plant)
    pushes = sorted(pushes, key=lambda push: push.time)
    late = [push for push in pushes if push.time >= seconds]
    if late:
        raise ArgumentError(f"pushes: one at {late[0].time:g} s, but the run ends at {seconds:g} s")
    if drive and viewer is None:
        raise ArgumentError("drive: keys come from a viewer's live page, and there is no viewer")
    check_plot(plot)
    check_output("record", record)
    p = Proportions.of(robot)
    pace = 0.0 if drive or jump is not None else SPEED * p.speed
    wanted = commanded_velocity([pace, 0.0, 0.0] if velocity is None else list(velocity))
    below = None if ground is None else parse_ground(ground, robot)
    terrain, tilt = (None, np.eye(3)) if below is None else below
    controller = LocomotionController(robot, dt=dt, gait=gait, terrain=None if blind else terrain)
    world = PLANTS[plant](robot, dt=0.5 * dt, friction=friction, terrain=terrain)
    if jump is not None:
        jump.plan(controller)  # who cannot jump says so now
    # All arguments are good.  What is compiled now says so: seconds on a fresh machine, then nothing.
    controller.warmup()
    if isinstance(world, Simulation):
        world.warmup()
    world.reset(turned(crouched(robot, CROUCH), tilt))
    if record is not None and viewer is None:
        from ..viewer import Viewer

        viewer = Viewer(robot, serve=False)
    if viewer is not None:
        viewer.show_trails(("com",), dots=DOTS)
    trace = None if plot is None else Trace(robot, robot.feet)
    waiting, leap = list(pushes), jump
    journey = Journey(controller, world, wanted, trace, up=tilt[:, 2])
    gains = driving.Gains(controller, viewer) if drive and viewer is not None else None
    shown, start, interrupted = -1, time.perf_counter(), False
    try:
        for k in range(round(seconds / dt)):
            t = k * dt
            while waiting and t >= waiting[0].time - 1e-9:
                journey.push(waiting.pop(0).force)
            if viewer is not None:
                start += viewer.hold()
            keyed = None if viewer is None else driving.commanded(viewer.keys, p, viewer.axes)
            if gains is not None and viewer is not None:
                gains.follow(viewer.sliders)
            ready = journey.rose is not None and t > journey.rose + PAUSE * p.time and controller.mode is Mode.STANDING
            if jump is not None and ready:
                journey.leap(jump)
                jump = None
            over = not drive and journey.rose is not None and t > journey.rose + MOVING_SHARE * (seconds - journey.rose)
            command = journey.tick(keyed if keyed is not None else 0.0 * wanted if over else wanted)
            frame = frame_number(t)
            if frame == shown and not (viewer is not None and viewer.paused):
                continue
            shown = frame
            if viewer is not None:
                _show(viewer, journey, command, drive)
            if progress is not None:
                progress(t / seconds)
            if realtime:
                time.sleep(max(0.0, start + t - time.perf_counter()))
    except KeyboardInterrupt:
        if not journey.ticks:
            raise
        interrupted = True
    if jump is not None and not interrupted:
        raise ArgumentError(f"jump: in {seconds:g} s {robot.name!r} did not come to jump; give it more time")
    if progress is not None:
        progress(1.0)
    if viewer is not None:
        viewer.show_plant(world, support=True, friction=friction)
        if record is not None:
            viewer.record(Path(record))
    motion = gait if leap is None else "jump"
    report = replace(journey.report(motion, velocity=velocity is not None), interrupted=interrupted)
    if trace is not None and plot is not None:
        draw(trace, plot, title=f"{robot.name}: {motion} in the {plant} plant")
    return report


def _show(viewer: Viewer, journey: Journey, command: LocomotionCommand, drive: bool) -> None:
    """One frame of it."""
    world = journey.plant
    swings = command.swings.items()
    x, y, _ = command.velocity.tolist()
    whole = command.whole_body
    # The last level only fills the freedom that the others leave.
    lost = {} if whole is None else {f"level {k}": level.residual for k, level in enumerate(whole.levels[:-1])}
    viewer.show_plant(
        world,
        support=True,
        friction=world.friction,
        cones=True,
        footholds=command.footholds,
        normals=command.normals,
        curves={f"{foot} swings": np.vstack((*journey.flown[foot], swing.ahead())) for foot, swing in swings},
        wanted=journey.heading @ (x, y, 0.0),
        signals={"lost by level [m/s^2]": lost},
        text=journey.text(command) + (f"\n{driving.HELP}" if drive else ""),
    )
