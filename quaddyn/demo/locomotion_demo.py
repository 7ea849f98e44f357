"""`run_locomotion_demo`: a quadruped follows a velocity command and takes pushes; each figure is checked."""

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
from ..deprecation import renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError, UnknownNameError
from ..kinematics import LegKinematics
from ..locomotion import FEET, LocomotionCommand, LocomotionController, LocomotionMode, Morphology, as_velocity_command
from ..robot import Robot
from ..robot.configuration import rotate_configuration, set_joint_value
from ..simulation import MujocoPlant, Simulation
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array
from .demo_terrain import parse_terrain
from .jump_request import JumpRequest
from .locomotion_run import LocomotionRun
from .plot import check_output, check_plot, draw
from .report import DemoReport
from .teleoperation import HELP, GainSliders, keyed_velocity
from .time_series import DemoTimeSeries

if TYPE_CHECKING:
    from ..viewer import Viewer

PLANTS: dict[str, type[Simulation] | type[MujocoPlant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
FRAMES_PER_SECOND = 30.0
#: Time before the start of a frame that is attributed to rounding, divided by the frame time.
FRAME_TOLERANCE = 1e-6
#: Initial height of the base, divided by its height at home.
CROUCH_HEIGHT_FRACTION = 0.6
#: Default commanded speed [sqrt(g l)].
DEFAULT_SPEED = 0.25
#: Fraction of the time after rising during which the robot moves; it stands for the rest.
MOVING_FRACTION = 0.75
#: Time of standing before a jump [sqrt(l/g)].
STAND_TIME = 3.0
#: Number of dots of the trail of the center of mass.
TRAIL_DOTS = 90


def frame_number(seconds: float) -> int:
    """Returns the number of the frame at a time [s]."""
    return int(seconds * FRAMES_PER_SECOND + FRAME_TOLERANCE)


def check_plant(name: str) -> None:
    """Raises if a plant is not available, before anything is loaded or compiled for it.

    Args:
        name: "embedded" or "mujoco".

    Raises:
        UnknownNameError: an unknown plant.
        QuaddynError: MuJoCo is not installed.
    """
    if name not in PLANTS:
        raise UnknownNameError("plant", name, PLANTS)
    if name == "mujoco":
        import_mujoco()


class Push(NamedTuple):
    """Lateral force on the base for `PUSH_TIME`: force to the left [N] and time [s]."""

    force: float
    time: float

    @staticmethod
    def parse(text: str) -> Push:
        """Returns the push of ``N@t``, such as ``80@4`` or ``-80@4``.

        Args:
            text: specification.

        Raises:
            ArgumentError: another format.
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


def supports_locomotion(robot: Robot) -> bool:
    """Returns whether the locomotion controller supports a robot: a quadruped on a free root that can step sideways."""
    return robot.root == "free" and set(robot.feet) == set(FEET) and Morphology.from_robot(robot).can_step_sideways


@renamed_parameters(share="height_fraction")
def crouched_configuration(robot: Robot, height_fraction: float) -> Array:
    """Returns the home configuration with the base lowered over the same footholds.

    Args:
        robot: a robot with legs on a free root.
        height_fraction: height of the base, divided by its height at ``q_home``. If a leg cannot reach its foothold
            from there, the lowest of nine evenly spaced heights that all legs can reach is used instead.

    Returns:
        (nq,) configuration.
    """
    base = robot.bodies[0].name
    dynamics = Dynamics(robot)
    home = np.array(robot.q_home)
    pose = dynamics.frame_placement(home, base)
    feet = {f: pose.inverse().apply(dynamics.frame_placement(home, f).translation) for f in robot.feet}
    legs = {foot: LegKinematics(robot, foot) for foot in robot.feet}
    joints = {b.joint.name: b.joint for b in robot.bodies[1:] if b.joint is not None}
    lowest = float(pose.translation[2])
    for depth in np.linspace(1.0 - height_fraction, 0.0, 9):
        down = pose.rotation.T @ np.array([0.0, 0.0, depth * lowest])
        found = {foot: leg.inverse(feet[foot] + down) for foot, leg in legs.items()}
        if all(s.reached and s.within_limits for s in found.values()):
            q = home.copy()
            q[2] -= depth * lowest
            for foot, leg in legs.items():
                for name, value in zip(leg.joints, found[foot].q, strict=True):
                    set_joint_value(q, robot.configuration_index(name), joints[name], float(value))
            return q
    return home


@renamed_parameters(drive="teleop", ground="terrain", seconds="duration")
def run_locomotion_demo(
    robot: Robot,
    *,
    gait: str = "trot",
    plant: str = "embedded",
    velocity: Iterable[float] | None = None,
    pushes: Iterable[Push] = (),
    jump: JumpRequest | None = None,
    duration: float = 8.0,
    dt: float = 2e-3,
    friction: float = NOMINAL_FRICTION,
    terrain: str | None = None,
    blind: bool = False,
    viewer: Viewer | None = None,
    realtime: bool = False,
    teleop: bool = False,
    record: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> DemoReport:
    """Runs a quadruped: it stands up from a crouch, follows the velocity command, takes the pushes, stops and stands.

    An interrupt (Ctrl-C) ends the run, not the program: the report covers the time until then. Keys held down on the
    live page of the viewer (`teleoperation.DIRECTIONS`) and a gamepad override `velocity`; the page can pause the run
    and advance it step by step.

    Args:
        robot: a quadruped with a free root.
        gait: a name in `quaddyn.locomotion.GAITS`.
        plant: "embedded" or "mujoco".
        velocity: forward and leftward velocity [m/s] and yaw rate [rad/s] in the heading frame. None: ``0.25 sqrt(g
            l)`` forward, or zero with `teleop` or `jump`. The run is judged by the part of it that the gait can follow.
        pushes: pushes on the base.
        jump: jump from standing, some time after the robot has risen. The run is then judged by the landing position
            and the height of the jump.
        duration: simulated time [s], at least 0.1.
        dt: control period [s]; the plant takes two steps per period.
        friction: friction coefficient between feet and floor; unknown to the controller.
        terrain: terrain specification, see `demo_terrain.KINDS`, such as "slope=10" or "stairs=0.05,0.3"; None: a level
            floor.
        blind: whether the controller has no terrain map.
        viewer: viewer that shows the motion at 30 frames per simulated second; None for none.
        realtime: whether to wait for the wall clock when the simulation is ahead of it.
        teleop: whether the robot is driven by the keys of the live page until `duration` or an interrupt; needs
            `viewer`.
        record: HTML file for the animation, written with or without a `viewer`; None for none.
        plot: PNG, PDF or SVG file for torques, forces, velocity and height over time; None for none.
        progress: called with the fraction done (0 to 1) at every frame.

    Returns:
        The measured figures and the result of each check.

    Raises:
        ArgumentError: an option is out of range, the robot cannot walk, or the jump is infeasible or has no time.
        UnknownNameError: unknown gait, plant or terrain.
        QuaddynError: `plot` is given and matplotlib is not installed, or `plant` is "mujoco" and MuJoCo is not
            installed.
        DivergenceError: the state of the simulation became non-finite.
    """
    if not (np.isfinite(duration) and duration >= 0.1):
        raise ArgumentError(f"duration: expected at least 0.1 s, got {duration}")
    check_plant(plant)
    pushes = sorted(pushes, key=lambda push: push.time)
    late = [push for push in pushes if push.time >= duration]
    if late:
        raise ArgumentError(f"pushes: one at {late[0].time:g} s, but the run ends at {duration:g} s")
    if teleop and viewer is None:
        raise ArgumentError("teleop: needs a viewer, whose live page has the keys; pass viewer=")
    check_plot(plot)
    check_output("record", record)
    p = Morphology.from_robot(robot)
    pace = 0.0 if teleop or jump is not None else DEFAULT_SPEED * p.speed_scale
    wanted = as_velocity_command([pace, 0.0, 0.0] if velocity is None else list(velocity))
    parsed = None if terrain is None else parse_terrain(terrain, robot)
    surfaces, tilt = (None, np.eye(3)) if parsed is None else parsed
    controller = LocomotionController(robot, dt=dt, gait=gait, terrain=None if blind else surfaces)
    simulated_plant = PLANTS[plant](robot, dt=0.5 * dt, friction=friction, terrain=surfaces)
    if jump is not None:
        jump.plan(controller)  # raises now if the jump is infeasible
    # All arguments are valid. Compilation prints a message: seconds on a new machine, then nothing.
    controller.warmup()
    if isinstance(simulated_plant, Simulation):
        simulated_plant.warmup()
    simulated_plant.reset(rotate_configuration(crouched_configuration(robot, CROUCH_HEIGHT_FRACTION), tilt))
    if record is not None and viewer is None:
        from ..viewer import Viewer

        viewer = Viewer(robot, serve=False)
    if viewer is not None:
        viewer.show_trails(("com",), dots=TRAIL_DOTS)
    time_series = None if plot is None else DemoTimeSeries(robot, robot.feet)
    waiting, leap = list(pushes), jump
    run = LocomotionRun(controller, simulated_plant, wanted, time_series, up=tilt[:, 2])
    gains = GainSliders(controller, viewer) if teleop and viewer is not None else None
    shown, start, interrupted = -1, time.perf_counter(), False
    try:
        for k in range(round(duration / dt)):
            t = k * dt
            while waiting and t >= waiting[0].time - 1e-9:
                run.push(waiting.pop(0).force)
            if viewer is not None:
                start += viewer.wait_while_paused()
            keyed = None if viewer is None else keyed_velocity(viewer.pressed_keys, p, viewer.gamepad_axes)
            if gains is not None and viewer is not None:
                gains.apply(viewer.sliders)
            ready = (
                run.rise_time is not None
                and t > run.rise_time + STAND_TIME * p.time_scale
                and controller.mode is LocomotionMode.STANDING
            )
            if jump is not None and ready:
                run.start_jump(jump)
                jump = None
            over = (
                not teleop
                and run.rise_time is not None
                and t > run.rise_time + MOVING_FRACTION * (duration - run.rise_time)
            )
            command = run.tick(keyed if keyed is not None else 0.0 * wanted if over else wanted)
            frame = frame_number(t)
            if frame == shown and not (viewer is not None and viewer.is_paused):
                continue
            shown = frame
            if viewer is not None:
                _show(viewer, run, command, teleop)
            if progress is not None:
                progress(t / duration)
            if realtime:
                time.sleep(max(0.0, start + t - time.perf_counter()))
    except KeyboardInterrupt:
        if not run.ticks:
            raise
        interrupted = True
    if jump is not None and not interrupted:
        raise ArgumentError(f"jump: {robot.name!r} did not jump within duration={duration:g} s; use a longer duration")
    if progress is not None:
        progress(1.0)
    if viewer is not None:
        viewer.show_plant(simulated_plant, show_support_polygon=True, friction=friction)
        if record is not None:
            viewer.record(Path(record))
    motion = gait if leap is None else "jump"
    report = replace(run.report(motion, velocity=velocity is not None), interrupted=interrupted)
    if time_series is not None and plot is not None:
        draw(time_series, plot, title=f"{robot.name}: {motion} in the {plant} plant")
    return report


def _show(viewer: Viewer, run: LocomotionRun, command: LocomotionCommand, teleop: bool) -> None:
    """Shows one frame of the run."""
    simulated_plant = run.plant
    swings = command.swings.items()
    x, y, _ = command.reference_velocity.tolist()
    whole = command.wbc_command
    # The last level only resolves the remaining degrees of freedom.
    lost = {} if whole is None else {f"level {k}": level.residual for k, level in enumerate(whole.levels[:-1])}
    viewer.show_plant(
        simulated_plant,
        show_support_polygon=True,
        friction=simulated_plant.friction,
        show_friction_cones=True,
        footholds=command.footholds,
        normals=command.contact_normals,
        curves={
            f"{foot} swings": np.vstack((*run.swing_traces[foot], swing.remaining_path())) for foot, swing in swings
        },
        desired_velocity=run.heading @ (x, y, 0.0),
        signals={"residual by level [m/s^2]": lost},
        caption=run.caption(command) + (f"\n{HELP}" if teleop else ""),
    )
