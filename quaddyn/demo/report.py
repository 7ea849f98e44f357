"""What happened in a run of the demo, and the verdict on it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..contact import contact_jacobian
from ..dynamics import Dynamics, State
from ..robot import Robot
from ..simulation import Simulation
from ..urdf.tree import Array
from .motion import Motion, Squat, Swing, Wanted, gravity_of

#: The demo ends with exit code 3 if limits reduce a request by more than this fraction.
MAX_CUT = 0.1


class Check(NamedTuple):
    """One figure of a run and the largest value that is right.

    Attributes:
        value: measured.
        bound: `value` must not exceed it.
        passed: whether it does not (NaN never passes).
        unit: of both.
    """

    value: float
    bound: float
    passed: bool
    unit: str


class Request(NamedTuple):
    """One figure that the caller asked for, and what of it the robot was given to do.

    Attributes:
        name: of the figure.
        asked: the value that the caller gave.
        planned: what of it was commanded or planned.
        unit: of both.
        limit: what cut it down, such as "torque of FL_calf_joint"; "" where nothing did.
    """

    name: str
    asked: float
    planned: float
    unit: str
    limit: str

    @property
    def is_cut(self) -> bool:
        """Whether the two differ by more than `MAX_CUT` of what was asked for."""
        return abs(self.asked - self.planned) > MAX_CUT * abs(self.asked)


class TorqueRange(NamedTuple):
    """Torques of the joints of one kind over a run [N m or N].

    Attributes:
        lowest: over time and joints.
        highest: over time and joints.
        limit: smallest effort limit among them; inf where the file gives none.
    """

    lowest: float
    highest: float
    limit: float


@dataclass(frozen=True)
class DemoReport:
    """What a run of the demo measured.

    Attributes:
        robot: its name.
        motion: "squat" (on the ground), "swing" (no feet on the ground), or the gait's name.
        seconds: simulated time [s].
        steps: number of steps.
        cpu: name of the processor.
        steps_per_second: control and plant together, wall clock, viewer and waiting left out [1/s].
        plant_steps_per_second: the plant alone [1/s].
        torques: `TorqueRange` by kind of joint.
        normal_force: (smallest, largest) normal force on any foot [N]; None without contact.
        weight: m g [N].
        weight_mean: mean sum of vertical contact forces over m g; None without contact.
        weight_deviation: largest deviation of that sum from m g, over m g; None without contact.
        base_height: (lowest, highest) of the base frame as reached [m]; None without contact.
        energy_change: of the mechanical energy over the run [J].
        work: done on the robot by "actuators", "joints" (friction) and "contacts" [J].
        checks: every check by name.
        asked: forward, leftward [m/s] and yaw rate [rad/s] as the caller wanted them; None for who stays where it is.
        velocity: what of it was commanded: what the gait can do on these legs.
        limit: what cut it down, such as "stride of the gait"; "" where nothing did.
        measured: the same, on average over whole cycles at full command; None where there were none.
        interrupted: whether an interrupt ended the run before its time.
        jump: that was planned, in words, with what cut it down; "" where there was none.
        requests: the figures that the caller gave, other than 0, and what of each was commanded or planned.
    """

    robot: str
    motion: str
    seconds: float
    steps: int
    cpu: str
    steps_per_second: float
    plant_steps_per_second: float
    torques: Mapping[str, TorqueRange]
    normal_force: tuple[float, float] | None
    weight: float
    weight_mean: float | None
    weight_deviation: float | None
    base_height: tuple[float, float] | None
    energy_change: float
    work: Mapping[str, float]
    checks: Mapping[str, Check]
    asked: tuple[float, ...] | None = None
    velocity: tuple[float, ...] | None = None
    limit: str = ""
    measured: tuple[float, ...] | None = None
    interrupted: bool = False
    jump: str = ""
    requests: tuple[Request, ...] = ()

    @property
    def cut(self) -> tuple[str, ...]:
        """Names of the requests of which limits cut off more than `MAX_CUT`."""
        return tuple(request.name for request in self.requests if request.is_cut)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """What should have been judged, but the run gave nothing to measure it by."""
        never = self.velocity is not None and any(self.velocity) and self.measured is None
        return ("velocity",) if never else ()

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks.values())


class Log:
    """Collects a run, then judges it."""

    def __init__(self, robot: Robot, feet: tuple[str, ...], friction: float) -> None:
        self.robot, self.feet, self.friction = robot, feet, friction
        self._base = robot.bodies[0].name
        self._tau: list[Array] = []
        self._forces: list[Array] = []
        self._heights: list[tuple[float, float]] = []
        self._energy: list[float] = []
        self._work: list[float] = []
        self._contact_work: list[float] = []
        self._samples: list[tuple[Array, Array, Array, dict[str, Array]]] = []
        self._slip = np.zeros(len(feet))
        self._power = self._residual = self._joint_error = self._control_time = self._plant_time = 0.0
        self._saturated = self._badly_solved = 0

    def add(
        self,
        s: State,
        sim: Simulation,
        wanted: Wanted,
        saturated: tuple[str, ...],
        control_time: float,
        plant_time: float,
    ) -> None:
        """One step: the state before it, the plant after it."""
        contact_forces = sim.contact_forces
        self._tau.append(sim.tau)
        if self.feet:
            self._forces.append(np.array([contact_forces[foot] for foot in self.feet]))
            self._heights.append((wanted.height, float(s.placement(self._base).translation[2])))
            for i, foot in enumerate(self.feet):  # velocities as the contact law sees them: J(q) v+
                self._slip[i] += sim.dt * float(np.hypot(*(contact_jacobian(s, foot)[:2] @ sim.v)))
        else:
            error = self.robot.algorithms.difference(self.robot.model, s.q, wanted.q)
            self._joint_error = max(self._joint_error, float(np.abs(error).max(initial=0.0)))
        self._energy.append(s.energy.total)
        self._work.append(sim.work.total)
        self._contact_work.append(sim.work.contacts)
        power = abs(float(s.v @ s.gravity)) + 3.0 * float(np.abs(s.v) @ np.abs(s.h - s.gravity))
        self._power = max(self._power, power)
        self._residual = max(self._residual, sim.residual)
        self._saturated += bool(saturated)
        self._badly_solved += sim.status == "inaccurate"
        self._control_time += control_time
        self._plant_time += plant_time
        if len(self._tau) % 50 == 1:
            self._samples.append((s.q.copy(), s.v.copy(), sim.tau, contact_forces))

    def report(self, dyn: Dynamics, sim: Simulation, motion: Motion) -> DemoReport:
        """The figures and the verdict on each."""
        robot = self.robot
        weight = robot.mass * gravity_of(robot)
        tau = np.array(self._tau)
        # Work is known after each step, the energy before it: shift by one, and end on the final state.
        energy = np.array([*self._energy[1:], sim.energy]) - self._energy[0]
        checks: dict[str, Check] = {}

        def check(name: str, value: float, bound: float, unit: str) -> None:
            checks[name] = Check(float(value), float(bound), bool(value <= bound), unit)

        error, bound = round_trip(dyn, self._samples)
        check("RNEA(ABA(tau)) relative error", error, bound, "1")
        # The velocities come first, then the positions: this conserves a neighbour of the energy (Hairer, Lubich,
        # Wanner 2006, sec. IX.3).  With work taken at mid-step velocities the difference is dt/2 times the power of
        # gravity, which is doubled here, and dt times a small multiple, 3 here, of the power of the Coriolis terms.
        rounding = 1e-12 * max(weight, abs(self._energy[0]))
        check("energy balance", np.abs(energy - self._work).max(), sim.dt * self._power + rounding, "J")
        check("steps with a saturated joint", self._saturated, 0, "1")
        normal = mean = deviation = height = None
        if isinstance(motion, Squat):
            forces, heights = np.array(self._forces), np.array(self._heights)
            carried = forces[:, :, 2].sum(axis=1) / weight
            still = max(1, round(0.5 * motion.pause / sim.dt))
            outside = np.hypot(forces[..., 0], forces[..., 1]) - self.friction * forces[..., 2]
            mean, deviation = float(carried.mean()), float(np.abs(carried - 1.0).max())
            normal = float(forces[..., 2].min()), float(forces[..., 2].max())
            height = float(heights[:, 1].min()), float(heights[:, 1].max())
            check("mean vertical force against m g", abs(mean - 1.0), 1e-3, "m g")
            check("vertical force against m g, standing", np.abs(carried[-still:] - 1.0).max(), 1e-3, "m g")
            check("force outside the friction cone", max(outside.max(), 0.0) / weight, 1e-6, "m g")
            check("steps with a stance foot in the air", (forces[..., 2] <= 0.0).any(axis=1).sum(), 0, "1")
            check("slip of a foot", self._slip.max(initial=0.0), 1e-3, "m")
            check("contact law residual", self._residual, 1e-8, "m/s")
            check("energy out of the floor", max(self._contact_work), 1e-5 * weight * motion.depth + rounding, "J")
            check("base height error", np.abs(heights[:, 0] - heights[:, 1]).max(), max(0.02 * motion.depth, 1e-4), "m")
            short = max(motion.wanted_depth - motion.depth, 0.0)
            check("squat cut short by limits", short, 0.5 * motion.wanted_depth, "m")
        elif isinstance(motion, Swing):
            bound = max(0.1 * motion.amplitude.max(initial=0.0), 1e-2)
            check("joint tracking error", self._joint_error, bound, "rad or m")
        return DemoReport(
            robot=robot.name,
            motion=motion.name,
            seconds=sim.time,
            steps=len(tau),
            cpu=cpu_name(),
            steps_per_second=len(tau) / (self._control_time + self._plant_time),
            plant_steps_per_second=len(tau) / self._plant_time,
            torques=torque_ranges(robot, tau.min(axis=0), tau.max(axis=0)),
            normal_force=normal,
            weight=weight,
            weight_mean=mean,
            weight_deviation=deviation,
            base_height=height,
            energy_change=float(energy[-1]),
            work={"actuators": sim.work.actuators, "joints": sim.work.joints, "contacts": sim.work.contacts},
            checks=checks,
        )


def round_trip(dyn: Dynamics, samples: list[tuple[Array, Array, Array, dict[str, Array]]]) -> tuple[float, float]:
    """Largest relative error of rnea(aba(tau)), and what rounding may make of it: ten eps cond(M)."""
    error, condition = 0.0, 1.0
    for q, v, tau, forces in samples:
        full = dyn.robot.expand(tau)
        back = dyn.rnea(q, v, dyn.aba(q, v, full, fext=forces), fext=forces)
        scale = max(np.abs(full).max(initial=0.0), np.abs(dyn.nle(q, v)).max(initial=0.0), 1e-300)
        error = max(error, float(np.abs(back - full).max(initial=0.0) / scale))
        condition = max(condition, float(np.linalg.cond(dyn.crba(q))))
    return error, 10.0 * float(np.finfo(float).eps) * condition


def joint_kinds(robot: Robot) -> tuple[str, ...]:
    """Of each actuated joint: its place in its leg, or its name when it is of no leg."""
    kinds = {name: name for name in robot.actuated}
    for leg in robot.legs.values():
        for i, name in enumerate(leg.joints):
            kinds[name] = f"leg joint {i + 1}" + (" (knee)" if name == leg.knee else "")
    return tuple(kinds[name] for name in robot.actuated)


def torque_ranges(robot: Robot, lowest: Array, highest: Array) -> dict[str, TorqueRange]:
    """Torques over a run by kind of joint, from the smallest and largest (nu,) of each joint [N m or N]."""
    columns: dict[str, list[int]] = {}
    for i, kind in enumerate(joint_kinds(robot)):
        columns.setdefault(kind, []).append(i)
    return {
        kind: TorqueRange(float(lowest[c].min()), float(highest[c].max()), float(robot.effort_limits[c].min()))
        for kind, c in columns.items()
    }


def cpu_name() -> str:
    """The processor's name as the operating system tells it, for beside a speed."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
