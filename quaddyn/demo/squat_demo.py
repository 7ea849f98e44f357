"""`run_squat_demo`: a robot squats, or swings its joints if its base is fixed, and each measured figure is checked.

`FlatFeetRun`: a humanoid stands on its soles and squats under whole-body control; each figure is checked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..contact import Contact, ContactSet, contact_jacobian, flat_foot_stance
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..control import JointPD, friction_compensation, gravity_compensation
from ..deprecation import renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..robot import Robot
from ..simulation import Simulation
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .motion import MAX_ACCELERATION_FRACTION, DemoMotion, JointSwingMotion, SquatMotion, gravity_magnitude
from .report import DemoReport, DemoRun, check_output, check_plot

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


def find_soles(robot: Robot) -> tuple[Contact, ...]:
    """Returns the soles of a biped on a free root; none if the robot is another one or its feet have no soles."""
    if robot.root != "free" or len(robot.legs) != 2:
        return ()
    try:
        return tuple(Contact.from_sole(robot, foot) for foot in robot.feet)
    except ArgumentError:
        return ()


def _start(robot: Robot, soles: Sequence[Contact]) -> Array:
    """Returns the first configuration (nq,): the stance on level soles, or ``q_home`` if loops move joints of legs."""
    if all(joint in robot.joint_names for leg in robot.legs.values() for joint in leg.joints):
        return flat_foot_stance(robot, soles)
    q = np.array(robot.q_home)
    positions = ContactSet(robot, soles).positions(Dynamics(robot).update(q, np.zeros(robot.nv)))
    q[2] -= min(float(position[2]) for position in positions.values())
    return q


def work_by_source(plant: Simulation) -> dict[str, float]:
    """Returns the work [J] done on the robot by actuators, friction of joints, and contacts."""
    return {source: getattr(plant.work, source) for source in ("actuators", "joints", "contacts")}


class FlatFeetRun(DemoRun):
    """Squat of a humanoid on flat feet under the default `WholeBodyController`.

    Args:
        plant: plant of a biped on a free root.
        soles: its soles, on which it stands.
        duration: simulated time [s].
        viewer: viewer that shows the run; None for none.

    Raises:
        ArgumentError: the robot has no stance with flat feet.
    """

    def __init__(self, plant: Simulation, soles: Sequence[Contact], duration: float, viewer: Viewer | None) -> None:
        robot = plant.robot
        self.soles = soles
        self._contacts = ContactSet(robot, soles)
        plant.reset(_start(robot, soles))
        super().__init__(plant, robot.feet, viewer)
        self.plant: Simulation
        self._wbc = WholeBodyController(robot, dt=plant.dt, friction=plant.friction, contacts=soles)
        self._wbc.warmup()
        self._start_com = np.array(self.dynamics.update(plant.q, plant.v).com)
        self._start_time = min(STAND_TIME, duration / 4.0)
        self._end_time = duration - self._start_time
        moving_time = self._end_time - self._start_time
        self._rate = np.pi * max(1, round(moving_time / 3.0)) / moving_time
        # depth sin^4 has its largest acceleration, 4 depth rate^2, at the bottom.
        max_depth = 0.25 * MAX_ACCELERATION_FRACTION * gravity_magnitude(robot) / self._rate**2
        self._depth = min(MAX_DEPTH_FRACTION * float(self._start_com[2]), max_depth)
        self._max_com_error = self._max_edge_excess = 0.0
        self._unsolved_steps = self._steps_in_air = 0

    def step(self, t: float) -> None:
        """Computes a command, advances the plant, and updates the measured figures."""
        plant, rate = self.plant, self._rate
        control_start = time.perf_counter()
        phase = rate * (min(max(t, self._start_time), self._end_time) - self._start_time)
        sine, cosine = np.sin(phase), np.cos(phase)
        down = np.array([0.0, 0.0, -self._depth])
        desired_com = self._start_com + sine**4 * down
        self._wbc.tasks.com.reference(
            desired_com,
            velocity=4.0 * rate * sine**3 * cosine * down,
            acceleration=4.0 * rate**2 * sine**2 * (3.0 * cosine**2 - sine**2) * down,
        )
        s = self.dynamics.update(plant.q, plant.v)
        command = self._wbc.compute(s)
        self.control_time += time.perf_counter() - control_start
        self._max_com_error = max(self._max_com_error, float(np.linalg.norm(s.com - desired_com)))
        for sole in self.soles:
            axes, center = sole.axes_at(s.placement(sole.frame).rotation), self._contacts.positions(s)[sole.name]
            if sole.name not in command.centers_of_pressure:
                continue  # a sole without force, which the checks report
            offset = np.abs(axes @ (command.centers_of_pressure[sole.name] - center))[:2]
            self._max_edge_excess = max(self._max_edge_excess, float((offset - sole.half_size).max()))
        plant_start = time.perf_counter()
        plant.step(command.tau)
        self.plant_time += time.perf_counter() - plant_start
        self._unsolved_steps += not (command.ok and plant.ok)
        self._steps_in_air += bool((self.observe(s)[:, 2] <= 0.0).any())

    def show(self, viewer: Viewer) -> None:
        """Shows the present state."""
        viewer.show_plant(self.plant, friction=self.plant.friction)

    def report(self) -> DemoReport:
        """Returns the measured figures and the result of each check."""
        max_com_error = max(MAX_ERROR_FRACTION * self._depth, MAX_STANDING_ERROR)
        self.check_round_trip()
        self.check("control or simulation steps not solved", self._unsolved_steps, 0, "1")
        self.check("error of the center of mass", self._max_com_error, max_com_error, "m")
        self.check("center of pressure outside its sole", self._max_edge_excess, 1e-6, "m")
        self.check("mean vertical force against m g", abs(self.mean_relative_force - 1.0), MAX_FORCE_DEVIATION, "m g")
        self.check("steps with a stance foot in the air", self._steps_in_air, 0, "1")
        return self.make_report("squat", work=work_by_source(self.plant))


class SquatRun(DemoRun):
    """Squat on spherical feet, or swing of the joints of a robot on a fixed root, under inverse dynamics with joint PD.

    Args:
        plant: plant of the robot.
        duration: simulated time [s].
        viewer: viewer that shows the run; None for none.

    Raises:
        ArgumentError: the feet cannot carry the robot at ``q_home``.
    """

    def __init__(self, plant: Simulation, duration: float, viewer: Viewer | None) -> None:
        robot, dyn = plant.robot, Dynamics(plant.robot)
        self.motion: DemoMotion = (
            JointSwingMotion(dyn, duration) if robot.root == "fixed" else SquatMotion(dyn, duration, plant.friction)
        )
        super().__init__(plant, self.motion.feet, viewer)
        self.plant: Simulation
        self._pd = JointPD(robot, dt=plant.dt)
        self._forces: list[Array] = []
        self._energy: list[float] = []
        self._work: list[float] = []
        self._slip_distances = np.zeros(len(self.feet))
        self._max_power = self._max_residual = self._max_joint_error = self._max_height_error = 0.0
        self._max_contact_work = -np.inf
        self._saturated_steps = 0

    def step(self, t: float) -> None:
        """Computes a command, advances the plant, and updates the measured figures."""
        plant, robot = self.plant, self.robot
        control_start = time.perf_counter()
        desired = self.motion.at(t)
        s = self.dynamics.update(plant.q, plant.v)
        support = gravity_compensation(s, self.feet, acceleration=desired.a, friction=plant.friction)
        feedforward = support.tau + friction_compensation(robot, desired.v)
        command = self._pd.compute(plant.q, plant.v, desired.q, desired.v, feedforward=feedforward)
        control_end = time.perf_counter()
        plant.step(command.tau, external=None if self.viewer is None else self.viewer.pull_forces(plant))
        self.plant_time += time.perf_counter() - control_end
        self.control_time += control_end - control_start
        self._forces.append(self.observe(s))
        if self.feet:
            height_error = abs(desired.height - float(s.placement(robot.bodies[0].name).translation[2]))
            self._max_height_error = max(self._max_height_error, height_error)
            for i, foot in enumerate(self.feet):  # contact velocities as in the contact law: J(q) v+
                self._slip_distances[i] += plant.dt * float(np.hypot(*(contact_jacobian(s, foot)[:2] @ plant.v)))
        else:
            error = robot.algorithms.difference(robot.model, s.q, desired.q)
            self._max_joint_error = max(self._max_joint_error, float(np.abs(error).max(initial=0.0)))
        self._energy.append(s.energy.total)
        self._work.append(plant.work.total)
        self._max_contact_work = max(self._max_contact_work, plant.work.contacts)
        power = abs(float(s.v @ s.gravity)) + 3.0 * float(np.abs(s.v) @ np.abs(s.h - s.gravity))
        self._max_power = max(self._max_power, power)
        self._max_residual = max(self._max_residual, plant.residual)
        self._saturated_steps += bool(command.saturated_joints)

    def show(self, viewer: Viewer) -> None:
        """Shows the present state beside the desired one."""
        viewer.show_plant(self.plant, friction=self.plant.friction, reference_q=self.motion.at(self.plant.time).q)

    def report(self) -> DemoReport:
        """Returns the measured figures and the result of each check."""
        plant, motion, weight, check = self.plant, self.motion, self.weight, self.check
        # Work is known after each step, the energy before it: shift by one, and end on the final state.
        energy = np.array([*self._energy[1:], plant.energy]) - self._energy[0]
        self.check_round_trip()
        # The velocities come first, then the positions: this conserves a neighbor of the energy (Hairer, Lubich,
        # Wanner 2006, sec. IX.3).  With work taken at mid-step velocities the difference is dt/2 times the power of
        # gravity, which is doubled here, and dt times a small multiple, 3 here, of the power of the Coriolis terms.
        rounding = 1e-12 * max(weight, abs(self._energy[0]))
        check("energy balance", np.abs(energy - self._work).max(), plant.dt * self._max_power + rounding, "J")
        check("steps with a saturated joint", self._saturated_steps, 0, "1")
        if isinstance(motion, SquatMotion):
            forces = np.array(self._forces)
            n_standing_steps = max(1, round(0.5 * motion.pause / plant.dt))
            standing_forces = forces[-n_standing_steps:, :, 2].sum(axis=1) / weight
            cone_violation = np.hypot(forces[..., 0], forces[..., 1]) - plant.friction * forces[..., 2]
            depth_reduction = max(motion.desired_depth - motion.depth, 0.0)
            check("mean vertical force against m g", abs(self.mean_relative_force - 1.0), 1e-3, "m g")
            check("vertical force against m g, standing", np.abs(standing_forces - 1.0).max(), 1e-3, "m g")
            check("force outside the friction cone", max(cone_violation.max(), 0.0) / weight, 1e-6, "m g")
            check("steps with a stance foot in the air", (forces[..., 2] <= 0.0).any(axis=1).sum(), 0, "1")
            check("slip of a foot", self._slip_distances.max(initial=0.0), 1e-3, "m")
            check("contact law residual", self._max_residual, 1e-8, "m/s")
            check("energy out of the floor", self._max_contact_work, 1e-5 * weight * motion.depth + rounding, "J")
            check("base height error", self._max_height_error, max(0.02 * motion.depth, 1e-4), "m")
            check("reduction of the squat by limits", depth_reduction, 0.5 * motion.desired_depth, "m")
        elif isinstance(motion, JointSwingMotion):
            limit = max(0.1 * motion.amplitude.max(initial=0.0), 1e-2)
            check("joint tracking error", self._max_joint_error, limit, "rad or m")
        return self.make_report(motion.name, work=work_by_source(plant))


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
    `FlatFeetRun`. Gains, depth and speed are computed from the robot; there is no tuning per robot. An interrupt
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
    run = FlatFeetRun(sim, soles, duration, viewer) if soles else SquatRun(sim, duration, viewer)
    run.execute(duration, dt, step=run.step, show=run.show, realtime=realtime, progress=progress)
    report = run.report()
    run.finish(report.motion, record, plot, progress)
    return report
