"""`run_locomotion_demo`: a quadruped follows a velocity command and takes pushes; each figure is checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError, UnknownNameError
from ..kinematics import LegKinematics
from ..locomotion import FEET, LocomotionController, LocomotionMode, Morphology, as_velocity_command
from ..robot import Robot
from ..robot.configuration import rotate_configuration, set_joint_value
from ..robot.legs import find_wheels
from ..simulation import MujocoPlant, Simulation
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array
from .locomotion_run import HELP, GainSliders, JumpRequest, LocomotionRun, parse_terrain, velocity_from_keys
from .report import DemoReport, RequestedValue, check_output, check_plot

if TYPE_CHECKING:
    from ..viewer import Viewer

PLANTS: dict[str, type[Simulation] | type[MujocoPlant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
#: Initial height of the base, divided by its height at home.
CROUCH_HEIGHT_FRACTION = 0.6
#: Default commanded speed [sqrt(g l)].
DEFAULT_SPEED = 0.25
#: Fraction of the time after rising during which the robot follows the command; afterwards it stands still.
MOVING_FRACTION = 0.75
#: Time of standing before a jump [sqrt(l/g)].
STAND_TIME = 3.0
#: Number of dots of the trail of the center of mass.
TRAIL_DOTS = 90


def check_plant(name: str) -> None:
    """Raises an error if a plant is not available; called before anything is loaded or compiled.

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
    """Lateral force on the base for a duration of `locomotion_run.PUSH_TIME`.

    Attributes:
        force: force to the left [N].
        time: time at which it begins [s].
    """

    force: float
    time: float

    @staticmethod
    def parse(text: str) -> Push:
        """Returns the push of ``N@t``, such as ``80@4`` or ``-80@4``.

        Args:
            text: specification, force [N] and time [s].

        Raises:
            ArgumentError: the text has another format.
        """
        try:
            force, time = (float(part) for part in text.split("@"))
        except ValueError:
            raise ArgumentError(
                f"push: expected force@time, such as 80@4 (80 N to the left at 4 s), got {text!r}"
            ) from None
        if not (math.isfinite(force) and math.isfinite(time) and time >= 0.0):
            raise ArgumentError(f"push: expected a finite force [N] and a time >= 0 [s], got {text!r}")
        return Push(force, time)


def supports_locomotion(robot: Robot) -> bool:
    """Returns whether the locomotion controller supports a robot: a quadruped on a free root that can step sideways.

    A robot on driven wheels is not supported.

    Args:
        robot: robot to check.
    """
    if robot.root != "free" or set(robot.feet) != set(FEET) or find_wheels(robot):
        return False
    return Morphology.from_robot(robot).can_step_sideways


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
    home_height = float(pose.translation[2])
    for depth in np.linspace(1.0 - height_fraction, 0.0, 9):
        drop = pose.rotation.T @ np.array([0.0, 0.0, depth * home_height])
        solutions = {foot: leg.inverse(feet[foot] + drop) for foot, leg in legs.items()}
        if all(s.reached and s.within_limits for s in solutions.values()):
            q = home.copy()
            q[2] -= depth * home_height
            for foot, leg in legs.items():
                for name, value in zip(leg.joints, solutions[foot].q, strict=True):
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
    on_start: Callable[[tuple[RequestedValue, ...]], object] | None = None,
) -> DemoReport:
    """Simulates a quadruped that stands up from a crouch, follows a velocity command under pushes, and stops.

    An interrupt (Ctrl-C) ends the run, not the program: the report covers the time until then. Keys held down on the
    live page of the viewer (`locomotion_run.DIRECTIONS`) and a gamepad override `velocity`; the page can pause the run
    and advance it step by step.

    Args:
        robot: a quadruped with a free root.
        gait: a name in `quaddyn.locomotion.GAITS`.
        plant: "embedded" or "mujoco".
        velocity: forward and leftward velocity [m/s] and yaw rate [rad/s] in the heading frame. None: ``0.25 sqrt(g
            l)`` forward, or zero with `teleop` or `jump`. The measured velocity is compared with the clamped
            command.
        pushes: pushes on the base.
        jump: jump from standing, `STAND_TIME` after the robot has stood up. Landing position and height of the jump
            are then checked. None for none.
        duration: simulated time [s], at least 0.1.
        dt: control period [s]; the plant takes two steps per period.
        friction: friction coefficient between feet and floor; unknown to the controller.
        terrain: terrain specification, see `locomotion_run.KINDS`, such as "slope=10" or "stairs=0.05,0.3"; None: a
            level floor.
        blind: whether the controller has no terrain map.
        viewer: viewer that shows the motion at 30 frames per simulated second; None for none.
        realtime: whether to wait for the wall clock when the simulation is ahead of it.
        teleop: whether the robot is driven by the keys of the live page until `duration` or an interrupt; needs
            `viewer`.
        record: HTML file for the animation, written with or without a `viewer`; None for none.
        plot: PNG, PDF or SVG file for torques, forces, velocity and height over time; None for none.
        progress: called with the fraction done (0 to 1) at every frame; None for none.
        on_start: called with the requested and planned values before the first tick; None for none.

    Returns:
        The measured figures and the result of each check.

    Raises:
        ArgumentError: an option is out of range, the robot cannot walk, or the jump is infeasible or does not fit into
            `duration`.
        UnknownNameError: unknown gait, plant or terrain.
        QuaddynError: `plot` is given and matplotlib is not installed, or `plant` is "mujoco" and MuJoCo is not
            installed.
        DivergenceError: the state of the simulation became non-finite.
    """
    if not (np.isfinite(duration) and duration >= 0.1):
        raise ArgumentError(f"duration: expected at least 0.1 s, got {duration}")
    check_plant(plant)
    pushes = sorted(pushes, key=lambda push: push.time)
    late_pushes = [push for push in pushes if push.time >= duration]
    if late_pushes:
        raise ArgumentError(f"pushes: expected times before the end at {duration:g} s, got {late_pushes[0].time:g} s")
    if teleop and viewer is None:
        raise ArgumentError("teleop: requires a viewer, whose live page receives the keys; pass viewer=")
    check_plot(plot)
    check_output("record", record)
    morphology = Morphology.from_robot(robot)
    default_speed = 0.0 if teleop or jump is not None else DEFAULT_SPEED * morphology.speed_scale
    requested_velocity = as_velocity_command([default_speed, 0.0, 0.0] if velocity is None else list(velocity))
    demo_terrain = None if terrain is None else parse_terrain(terrain, robot)
    surfaces, tilt = (None, np.eye(3)) if demo_terrain is None else demo_terrain
    controller = LocomotionController(robot, dt=dt, gait=gait, terrain=None if blind else surfaces)
    simulated_plant = PLANTS[plant](robot, dt=0.5 * dt, friction=friction, terrain=surfaces)
    if (needed_friction := float(np.hypot(*tilt[:2, 2]) / tilt[2, 2])) > friction:
        raise ArgumentError(
            f"terrain: no robot can stand on {terrain!r}, since a friction coefficient of {friction:g} holds up to "
            f"{math.degrees(math.atan(friction)):.0f} degrees, and this slope needs {needed_friction:.2g}"
        )
    min_duration = STAND_TIME * morphology.time_scale
    if jump is not None and duration <= min_duration:
        raise ArgumentError(
            f"duration: expected more than {min_duration:.2g} s, for which {robot.name!r} stands before the jump, got "
            f"{duration:g} s"
        )
    plan = None if jump is None else jump.plan(controller)  # raises an error now if the jump is infeasible
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
    pending_pushes, pending_jump = list(pushes), jump
    run = LocomotionRun(controller, simulated_plant, requested_velocity, viewer, up=tilt[:, 2])
    if on_start is not None:
        on_start(run.requested_values(plan, velocity=velocity is not None))
    gains = GainSliders(controller, viewer) if teleop and viewer is not None else None

    def step(t: float) -> None:
        nonlocal pending_jump
        while pending_pushes and t >= pending_pushes[0].time - 1e-9:
            run.push(pending_pushes.pop(0).force)
        commanded, external = requested_velocity, None
        standing_time = -np.inf if run.rise_time is None else t - run.rise_time
        moving_time = np.inf if run.rise_time is None else MOVING_FRACTION * (duration - run.rise_time)
        can_jump = standing_time > min_duration and controller.mode is LocomotionMode.STANDING
        if pending_jump is not None and can_jump:
            run.start_jump(pending_jump)
            pending_jump = None
        if not teleop and standing_time > moving_time:
            commanded = 0.0 * requested_velocity
        if viewer is not None:
            if gains is not None:
                gains.apply(viewer.sliders)
            key_velocity = velocity_from_keys(viewer.pressed_keys, morphology, viewer.gamepad_axes)
            commanded = commanded if key_velocity is None else key_velocity
            external = viewer.pull_forces(simulated_plant)
        run.tick(commanded, external)

    run.execute(
        duration,
        dt,
        step=step,
        show=lambda viewer: _show_frame(viewer, run, teleop),
        realtime=realtime,
        progress=progress,
    )
    if pending_jump is not None and not run.interrupted:
        raise ArgumentError(
            f"jump: {robot.name!r} did not start the jump within duration={duration:g} s; use a longer duration"
        )
    motion = gait if jump is None else "jump"
    run.finish(f"{motion} in the {plant} plant", record, plot, progress, show_support_polygon=True)
    return run.report(motion, velocity=velocity is not None)


def _show_frame(viewer: Viewer, run: LocomotionRun, teleop: bool) -> None:
    """Shows one frame of the run in the viewer."""
    simulated_plant, command = run.plant, run.command
    swings = command.swings.items()
    x, y, _ = command.reference_velocity.tolist()
    wbc_command = command.wbc_command
    # The last level only resolves the remaining degrees of freedom.
    residuals = (
        {} if wbc_command is None else {f"level {k}": level.residual for k, level in enumerate(wbc_command.levels[:-1])}
    )
    viewer.show_plant(
        simulated_plant,
        show_support_polygon=True,
        friction=simulated_plant.friction,
        show_friction_cones=True,
        footholds=command.footholds,
        normals=command.contact_normals,
        curves={
            f"{foot} swings": np.vstack((*run.swing_traces.get(foot, ()), swing.remaining_path()))
            for foot, swing in swings
        },
        desired_velocity=run.heading @ (x, y, 0.0),
        signals={"residual by level [m/s^2]": residuals},
        command=command,
        caption=run.caption(command) + (f"\n{HELP}" if teleop else ""),
    )
