"""The main job: a robot trots, or squats, on torques computed here, and every figure of it is checked."""

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
from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..robot import Robot
from ..simulation import Simulation
from .leap import Leap
from .motion import Motion, Squat, Swing
from .plot import check_output, check_plot, draw
from .report import Check, DemoReport, Log, TorqueRange
from .trace import Trace
from .travel import Push, can_travel, check_plant, crouched, frame_number, travel

if TYPE_CHECKING:
    from ..viewer import Viewer

__all__ = [
    "Check",
    "DemoReport",
    "Leap",
    "Push",
    "TorqueRange",
    "can_travel",
    "check_output",
    "check_plant",
    "check_plot",
    "crouched",
    "run",
    "travel",
]

FRAMES_PER_SECOND = 30.0


def run(
    robot: Robot,
    *,
    seconds: float = 8.0,
    dt: float = 1e-3,
    friction: float = NOMINAL_FRICTION,
    viewer: Viewer | None = None,
    realtime: bool = False,
    record: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> DemoReport:
    """Move `robot` in the embedded simulation under compensation torques and joint PD, and check it.

    A robot with feet on the ground stands, squats smoothly and stands again; any other swings its joints about
    ``q_home``.  Gains, depth and speed follow from the robot: nothing is tuned by name.  An interrupt (Ctrl-C) ends the
    run, not the program: the report is of what was done until then.

    Args:
        robot: any robot whose stance feet can hold it up, or with a fixed root.
        seconds: simulated time [s], at least 0.1.
        dt: period of plant and control [s].
        friction: Coulomb's coefficient between feet and floor.
        viewer: shows the motion, 30 frames per simulated second.
        realtime: wait for the wall clock wherever the simulation is ahead of it.
        record: HTML file for the animation; needs no viewer.
        plot: PNG, PDF or SVG file for torques, forces and height over time.
        progress: called with the share done (0 to 1) at every frame.

    Raises:
        ArgumentError: an option out of range, or a robot that its feet cannot hold up at ``q_home``.
        QuaddynError: `plot` without matplotlib.
        DivergenceError: the simulation left the finite numbers.
    """
    if not (np.isfinite(seconds) and seconds >= 0.1):
        raise ArgumentError(f"seconds: expected at least 0.1 s, got {seconds}")
    check_plot(plot)
    check_output("record", record)
    sim = Simulation(robot, dt=dt, friction=friction)
    sim.warmup()  # says what is waited for
    if record is not None and viewer is None:
        from ..viewer import Viewer

        viewer = Viewer(robot, serve=False)
    dyn = Dynamics(robot)
    pd = JointPD(robot, dt=dt)
    motion: Motion = Swing(dyn, seconds) if robot.root == "fixed" else Squat(dyn, seconds, friction)
    log = Log(robot, motion.feet, friction)
    trace = None if plot is None else Trace(robot, motion.feet)
    steps, shown = round(seconds / dt), -1
    start = time.perf_counter()
    interrupted = False
    try:
        for k in range(steps):
            if viewer is not None:
                start += viewer.hold()
            frame = frame_number(sim.time)
            if frame != shown or (viewer is not None and viewer.paused):
                shown = frame
                if viewer is not None:
                    viewer.show_plant(sim, friction=friction, ghost=motion.at(sim.time).q)
                if progress is not None:
                    progress(k / steps)
                if realtime:
                    time.sleep(max(0.0, start + sim.time - time.perf_counter()))
            begin = time.perf_counter()
            wanted = motion.at(sim.time)
            s = dyn.update(sim.q, sim.v)
            hold = gravity_compensation(s, motion.feet, acceleration=wanted.a, friction=friction)
            slide = friction_compensation(robot, wanted.v)
            command = pd.compute(sim.q, sim.v, wanted.q, wanted.v, feedforward=hold.tau + slide)
            middle = time.perf_counter()
            sim.step(command.tau)
            end = time.perf_counter()
            log.add(s, sim, wanted, command.saturated, middle - begin, end - middle)
            if trace is not None:
                forces = np.array([sim.contact_forces[foot] for foot in motion.feet])
                trace.add(sim.time, sim.tau, forces, float(s.com[2]), None, None)
    except KeyboardInterrupt:
        if not sim.time:
            raise
        interrupted = True
    if progress is not None:
        progress(1.0)
    if viewer is not None:
        viewer.show_plant(sim, friction=friction)
        if record is not None:
            viewer.record(Path(record))
    if trace is not None and plot is not None:
        draw(trace, plot, title=f"{robot.name}: {motion.name}")
    return replace(log.report(dyn, sim, motion), interrupted=interrupted)
