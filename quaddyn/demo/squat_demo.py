"""`run_squat_demo`: a robot squats, or swings its joints if its base is fixed, and each measured figure is checked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..control import JointPD, friction_compensation, gravity_compensation
from ..deprecation import renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..robot import Robot
from ..simulation import Simulation
from .flat_feet_demo import find_soles, run_flat_feet_demo
from .locomotion_demo import frame_number
from .motion import DemoMotion, JointSwingMotion, SquatMotion
from .plot import check_output, check_plot, draw
from .report import DemoRecorder, DemoReport
from .time_series import DemoTimeSeries

if TYPE_CHECKING:
    from ..viewer import Viewer

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
    `flat_feet_demo`. Gains, depth and speed are computed from the robot; there is no tuning per robot. An interrupt
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
