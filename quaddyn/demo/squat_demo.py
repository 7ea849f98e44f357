"""`run_squat_demo`: a robot squats, or swings its joints if its base is fixed, and each measured figure is checked.

`run_flat_feet_demo`: a humanoid stands on its soles and squats under whole-body control; each figure is checked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..contact import Contact, ContactSet, flat_foot_stance
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..control import JointPD, friction_compensation, gravity_compensation
from ..deprecation import renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..operating_system import cpu_name
from ..robot import Robot
from ..simulation import Simulation
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .locomotion_demo import frame_number
from .motion import MAX_ACCELERATION_FRACTION, DemoMotion, JointSwingMotion, SquatMotion, gravity_magnitude
from .report import (
    DemoCheck,
    DemoRecorder,
    DemoReport,
    DemoTimeSeries,
    check_output,
    check_plot,
    draw,
    round_trip_error,
    torque_ranges,
)

if TYPE_CHECKING:
    from ..viewer import Viewer


#: Maximum depth of the squat, divided by the height of the center of mass.
MAX_DEPTH_FRACTION = 0.08
#: Time of standing before the squat, and after it at least [s].
STAND_TIME = 1.0
#: Maximum error of the height of the center of mass, divided by the depth of the squat, and while standing [m].
MAX_ERROR_FRACTION, MAX_STANDING_ERROR = 0.05, 2e-3
#: Maximum mean of the vertical force against the weight, divided by the weight.
MAX_FORCE_DEVIATION = 1e-2
#: Steps between two states in which inverse and forward dynamics are compared.
STORED_INTERVAL = 50


def find_soles(robot: Robot) -> tuple[Contact, ...]:
    """Returns the soles of a biped on a free root; none if the robot is another one or its feet have no soles."""
    if robot.root != "free" or len(robot.legs) != 2:
        return ()
    try:
        return tuple(Contact.from_sole(robot, foot) for foot in robot.feet)
    except ArgumentError:
        return ()


def run_flat_feet_demo(
    plant: Simulation,
    soles: Sequence[Contact],
    *,
    duration: float,
    viewer: Viewer | None = None,
    realtime: bool = False,
    time_series: DemoTimeSeries | None = None,
    progress: Callable[[float], None] | None = None,
) -> DemoReport:
    """Simulates a squat of a humanoid on flat feet under the default `WholeBodyController`.

    The plant is of a biped on a free root that stands on its soles; the other arguments are those of `run_squat_demo`,
    and a recorder of samples for a plot.

    Raises:
        ArgumentError: the robot has no stance with flat feet.
        DivergenceError: the state of the simulation became non-finite.
    """
    robot, dt, friction = plant.robot, plant.dt, plant.friction
    contacts = ContactSet(robot, soles)
    plant.reset(_start(robot, soles))
    dyn, wbc = Dynamics(robot), WholeBodyController(robot, dt=dt, friction=friction, contacts=soles)
    wbc.warmup()
    s = dyn.update(plant.q, plant.v)
    start_com, weight = np.array(s.com), robot.mass * gravity_magnitude(robot)
    pause = min(STAND_TIME, duration / 4.0)
    rate = np.pi * max(1, round((duration - 2.0 * pause) / 3.0)) / (duration - 2.0 * pause)
    # depth sin^4 has its largest acceleration, 4 depth rate^2, at the bottom.
    max_depth = 0.25 * MAX_ACCELERATION_FRACTION * gravity_magnitude(robot) / rate**2
    depth = min(MAX_DEPTH_FRACTION * float(start_com[2]), max_depth)
    recorded = _RecordedSteps()
    last_frame, start, interrupted = -1, time.perf_counter(), False
    try:
        for k in range(round(duration / dt)):
            if viewer is not None:
                start += viewer.wait_while_paused()
            if frame_number(plant.time) != last_frame or (viewer is not None and viewer.is_paused):
                last_frame = frame_number(plant.time)
                if viewer is not None:
                    viewer.show_plant(plant, friction=friction)
                if progress is not None:
                    progress(k * dt / duration)
                if realtime:
                    time.sleep(max(0.0, start + plant.time - time.perf_counter()))
            control_start = time.perf_counter()
            phase = rate * (min(max(plant.time, pause), duration - pause) - pause)
            sine, cosine = np.sin(phase), np.cos(phase)
            up = np.array([0.0, 0.0, -depth])
            wbc.tasks.com.reference(
                start_com + sine**4 * up,
                velocity=4.0 * rate * sine**3 * cosine * up,
                acceleration=4.0 * rate**2 * sine**2 * (3.0 * cosine**2 - sine**2) * up,
            )
            s = dyn.update(plant.q, plant.v)
            command = wbc.compute(s)
            recorded.control_time += time.perf_counter() - control_start
            recorded.com_errors.append(float(np.linalg.norm(s.com - start_com - sine**4 * up)))
            recorded.heights.append(float(s.placement(robot.bodies[0].name).translation[2]))
            if k % STORED_INTERVAL == 0:
                recorded.states.append((s.q.copy(), s.v.copy(), np.array(command.tau), {}))
            for sole in soles:
                axes, center = sole.axes_at(s.placement(sole.frame).rotation), contacts.positions(s)[sole.name]
                if sole.name not in command.centers_of_pressure:
                    continue  # a sole without force, which the checks report
                offset = np.abs(axes @ (command.centers_of_pressure[sole.name] - center))[:2]
                recorded.edge_distances.append(float((sole.half_size - offset).min()))
            plant_start = time.perf_counter()
            plant.step(command.tau)
            recorded.plant_time += time.perf_counter() - plant_start
            recorded.unsolved += not (command.ok and plant.ok)
            recorded.tau.append(np.array(plant.tau))
            forces = np.array([plant.contact_forces[foot] for foot in robot.feet])
            recorded.forces.append(forces)
            if time_series is not None:
                time_series.add(plant.time, plant.tau, forces, float(s.com[2]), None, None)
    except KeyboardInterrupt:
        if not recorded.tau:
            raise
        interrupted = True
    return recorded.report(robot, dyn, plant, depth, weight, interrupted)


def _start(robot: Robot, soles: Sequence[Contact]) -> Array:
    """Returns the first configuration (nq,): the stance on level soles, or ``q_home`` if loops move joints of legs."""
    if all(joint in robot.joint_names for leg in robot.legs.values() for joint in leg.joints):
        return flat_foot_stance(robot, soles)
    q = np.array(robot.q_home)
    positions = ContactSet(robot, soles).positions(Dynamics(robot).update(q, np.zeros(robot.nv)))
    q[2] -= min(float(position[2]) for position in positions.values())
    return q


class _RecordedSteps:
    """Figures of all steps of a run."""

    def __init__(self) -> None:
        self.tau: list[Array] = []
        self.forces: list[Array] = []
        self.com_errors: list[float] = []
        self.heights: list[float] = []
        self.edge_distances: list[float] = []
        self.states: list[tuple[Array, Array, Array, dict[str, Array]]] = []
        self.unsolved = 0
        self.control_time = self.plant_time = 0.0

    def report(
        self, robot: Robot, dyn: Dynamics, plant: Simulation, depth: float, weight: float, interrupted: bool
    ) -> DemoReport:
        """Returns the measured figures and the result of each check."""
        tau, forces = np.array(self.tau), np.array(self.forces)
        vertical = forces[:, :, 2].sum(axis=1) / weight
        mean = float(vertical.mean())
        error, limit = round_trip_error(dyn, self.states)
        max_com_error = max(MAX_ERROR_FRACTION * depth, MAX_STANDING_ERROR)
        figures = {
            "RNEA(ABA(tau)) relative error": (error, limit, "1"),
            "control or simulation steps not solved": (self.unsolved, 0, "1"),
            "error of the center of mass": (max(self.com_errors), max_com_error, "m"),
            "center of pressure outside its sole": (max(-min(self.edge_distances), 0.0), 1e-6, "m"),
            "mean vertical force against m g": (abs(mean - 1.0), MAX_FORCE_DEVIATION, "m g"),
            "steps with a stance foot in the air": ((forces[..., 2] <= 0.0).any(axis=1).sum(), 0, "1"),
        }
        energy = float(dyn.energy(plant.q, plant.v).total - dyn.energy(self.states[0][0], self.states[0][1]).total)
        return DemoReport(
            robot=robot.name,
            motion="squat",
            seconds=plant.time,
            steps=len(tau),
            cpu=cpu_name(),
            steps_per_second=len(tau) / (self.control_time + self.plant_time),
            plant_steps_per_second=len(tau) / self.plant_time,
            torques=torque_ranges(robot, tau.min(axis=0), tau.max(axis=0)),
            normal_force=(float(forces[..., 2].min()), float(forces[..., 2].max())),
            weight=weight,
            weight_mean=mean,
            weight_deviation=float(np.abs(vertical - 1.0).max()),
            base_height=(min(self.heights), max(self.heights)),
            energy_change=energy,
            work={"actuators": plant.work.actuators, "joints": plant.work.joints, "contacts": plant.work.contacts},
            checks={k: DemoCheck(float(x), float(y), bool(x <= y), unit) for k, (x, y, unit) in figures.items()},
            interrupted=interrupted,
        )


#: Control periods of inverse dynamics and of whole-body control [s].
PD_PERIOD, WBC_PERIOD = 1e-3, 2e-3


@renamed_parameters(seconds="duration")
def run_squat_demo(
    robot: Robot,
    *,
    duration: float = 8.0,
    dt: float | None = None,
    friction: float = NOMINAL_FRICTION,
    viewer: Viewer | None = None,
    realtime: bool = False,
    record: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> DemoReport:
    """Simulates a squat, or a swing of the joints, under inverse dynamics with joint PD control, and checks the result.

    A robot with feet on the ground stands, squats smoothly and stands again; any other swings its joints about
    ``q_home``. A humanoid, a biped whose feet have soles, does so under `WholeBodyController` instead, see
    `run_flat_feet_demo`. Gains, depth and speed are computed from the robot; there is no tuning per robot. An interrupt
    (Ctrl-C) ends the run, not the program: the report covers the time until then.

    Args:
        robot: a robot whose feet can carry it at ``q_home``, or one with a fixed root.
        duration: simulated time [s], at least 0.1.
        dt: period of plant and controller [s]. None: 2 ms for a humanoid, otherwise 1 ms.
        friction: friction coefficient between feet and floor.
        viewer: viewer that shows the motion at 30 frames per simulated second; None for none.
        realtime: whether to wait for the wall clock when the simulation is ahead of it.
        record: HTML file for the animation, written with or without a `viewer`; None for none.
        plot: PNG, PDF or SVG file for torques, forces and height over time; None for none.
        progress: called with the fraction done (0 to 1) at every frame; None for none.

    Returns:
        The measured figures and the result of each check.

    Raises:
        ArgumentError: an option is out of range, or the feet cannot carry the robot at ``q_home``.
        QuaddynError: `plot` is given and matplotlib is not installed.
        DivergenceError: the state of the simulation became non-finite.
    """
    if not (np.isfinite(duration) and duration >= 0.1):
        raise ArgumentError(f"duration: expected at least 0.1 s, got {duration}")
    check_plot(plot)
    check_output("record", record)
    soles = find_soles(robot)
    dt = (WBC_PERIOD if soles else PD_PERIOD) if dt is None else dt
    sim = Simulation(robot, dt=dt, friction=friction, soles=soles)
    sim.warmup()  # prints a message while it compiles
    if record is not None and viewer is None:
        from ..viewer import Viewer

        viewer = Viewer(robot, serve=False)
    if soles:
        time_series = None if plot is None else DemoTimeSeries(robot, robot.feet)
        report = run_flat_feet_demo(
            sim, soles, duration=duration, viewer=viewer, realtime=realtime, time_series=time_series, progress=progress
        )
        _finish(sim, viewer, record, time_series, plot, report.motion, progress)
        return report
    dyn = Dynamics(robot)
    pd = JointPD(robot, dt=dt)
    motion: DemoMotion = (
        JointSwingMotion(dyn, duration) if robot.root == "fixed" else SquatMotion(dyn, duration, friction)
    )
    recorder = DemoRecorder(robot, motion.feet, friction)
    time_series = None if plot is None else DemoTimeSeries(robot, motion.feet)
    steps, last_frame = round(duration / dt), -1
    start = time.perf_counter()
    interrupted = False
    try:
        for k in range(steps):
            if viewer is not None:
                start += viewer.wait_while_paused()
            frame = frame_number(sim.time)
            if frame != last_frame or (viewer is not None and viewer.is_paused):
                last_frame = frame
                if viewer is not None:
                    viewer.show_plant(sim, friction=friction, reference_q=motion.at(sim.time).q)
                if progress is not None:
                    progress(k / steps)
                if realtime:
                    time.sleep(max(0.0, start + sim.time - time.perf_counter()))
            control_start = time.perf_counter()
            desired = motion.at(sim.time)
            s = dyn.update(sim.q, sim.v)
            support = gravity_compensation(s, motion.feet, acceleration=desired.a, friction=friction)
            friction_torque = friction_compensation(robot, desired.v)
            command = pd.compute(sim.q, sim.v, desired.q, desired.v, feedforward=support.tau + friction_torque)
            control_end = time.perf_counter()
            sim.step(command.tau, external=None if viewer is None else viewer.pull_forces(sim))
            plant_end = time.perf_counter()
            recorder.add(
                s, sim, desired, command.saturated_joints, control_end - control_start, plant_end - control_end
            )
            if time_series is not None:
                forces = np.array([sim.contact_forces[foot] for foot in motion.feet])
                time_series.add(sim.time, sim.tau, forces, float(s.com[2]), None, None)
    except KeyboardInterrupt:
        if not sim.time:
            raise
        interrupted = True
    _finish(sim, viewer, record, time_series, plot, motion.name, progress)
    return replace(recorder.report(dyn, sim, motion), interrupted=interrupted)


def _finish(
    sim: Simulation,
    viewer: Viewer | None,
    record: str | os.PathLike[str] | None,
    time_series: DemoTimeSeries | None,
    plot: str | os.PathLike[str] | None,
    motion: str,
    progress: Callable[[float], None] | None,
) -> None:
    """Shows the end of a run, and writes the recording and the plot."""
    if progress is not None:
        progress(1.0)
    if viewer is not None:
        viewer.show_plant(sim, friction=sim.friction)
        if record is not None:
            viewer.record(Path(record))
    if time_series is not None and plot is not None:
        draw(time_series, plot, title=f"{sim.robot.name}: {motion}")
