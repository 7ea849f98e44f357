"""A quadruped rises, goes where it is told, takes a push, stops; every figure of it is checked."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..dynamics import Dynamics, State
from ..errors import ArgumentError, UnknownNameError
from ..kinematics import LegKinematics
from ..locomotion import FEET, LocomotionCommand, LocomotionController, Mode, Proportions
from ..robot import Robot
from ..robot.stance import put
from ..simulation import MujocoPlant, Plant, Simulation
from ..urdf.tree import Array
from .report import Check, DemoReport, cpu_name, round_trip, torque_ranges

if TYPE_CHECKING:
    from ..viewer import Viewer

PLANTS: dict[str, type[Simulation] | type[MujocoPlant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
FRAMES_PER_SECOND = 30.0
#: Height of the base at the start, as a share of that at home.
CROUCH = 0.6
#: Speed that is commanded by default [sqrt(g l)], and the one with which turning is compared.
SPEED = 0.25
#: Shares of the time after rising that it moves, and stands at the end.
MOVING_SHARE = 0.75
#: How long a push lasts [s].
PUSH_TIME = 0.1
#: After a push velocities do not count for so long [sqrt(l/g)].
UPSET = 12.0
#: Largest miss of the commanded velocity, and share of ticks whose command may lack its certificate.
MISS, FLAGGED = 0.15, 0.01


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
    """Whether a robot is one that `travel` takes."""
    return robot.root == "free" and set(robot.feet) == set(FEET)


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
    seconds: float = 8.0,
    dt: float = 2e-3,
    friction: float = 0.6,
    viewer: Viewer | None = None,
    realtime: bool = False,
    record: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> DemoReport:
    """Stand up from a crouch, move as commanded, take the pushes, stop and stand.

    Args:
        robot: a quadruped with a free root.
        gait: "stand", "crawl", "walk", "trot", "pace" or "bound".
        plant: "embedded" or "mujoco".
        velocity: forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; a quarter of ``sqrt(g l)``
            forward by default.
        pushes: on the base.
        seconds: simulated time [s], at least 0.1.
        dt: control period [s]; the plant steps twice as often.
        friction: Coulomb's coefficient between feet and floor; the controller is not told.
        viewer: shows the motion, 30 frames per simulated second.
        realtime: wait for the wall clock wherever the simulation is ahead of it.
        record: HTML file for the animation; needs no viewer.
        progress: called with the share done (0 to 1) at every frame.

    Raises:
        ArgumentError: an option out of range, or a robot that cannot walk.
        UnknownNameError: no such gait or plant.
        DivergenceError: the simulation left the finite numbers.
    """
    if not (np.isfinite(seconds) and seconds >= 0.1):
        raise ArgumentError(f"seconds: expected at least 0.1 s, got {seconds}")
    if plant not in PLANTS:
        raise UnknownNameError("plant", plant, PLANTS)
    p = Proportions.of(robot)
    wanted = np.array([SPEED * p.speed, 0.0, 0.0] if velocity is None else list(velocity), dtype=np.float64)
    controller = LocomotionController(robot, dt=dt, gait=gait)
    world = PLANTS[plant](robot, dt=0.5 * dt, friction=friction)
    world.reset(crouched(robot, CROUCH))
    if record is not None and viewer is None:
        from ..viewer import Viewer

        viewer = Viewer(robot, serve=False)
    if viewer is not None:
        viewer.show_trails(("com", *robot.feet))
    waiting = sorted(pushes, key=lambda push: push.time)
    journey = Journey(controller, world, wanted, seconds)
    shown, start = -1, time.perf_counter()
    for k in range(round(seconds / dt)):
        t = k * dt
        while waiting and t >= waiting[0].time - 1e-9:
            journey.push(waiting.pop(0))
        command = journey.tick(t)
        frame = int(t * FRAMES_PER_SECOND)
        if frame != shown:
            shown = frame
            if viewer is not None:
                viewer.show(
                    world.q,
                    v=world.v,
                    contacts=world.contacts,
                    support=True,
                    friction=friction,
                    cones=True,
                    points={f"{foot} lands": swing.target for foot, swing in command.swings.items()},
                    text=journey.text(command),
                    time=t,
                )
            if progress is not None:
                progress(t / seconds)
            if realtime:
                time.sleep(max(0.0, start + t - time.perf_counter()))
    if progress is not None:
        progress(1.0)
    if viewer is not None:
        viewer.show(world.q, v=world.v, contacts=world.contacts, support=True, friction=friction, time=seconds)
        if record is not None:
            viewer.record(Path(record))
    return journey.report(gait)


class Journey:
    """One run: who does what when, and what is measured of it."""

    def __init__(self, controller: LocomotionController, plant: Plant, wanted: Array, seconds: float) -> None:
        self.controller, self.plant, self.wanted, self.seconds = controller, plant, wanted, seconds
        self.robot, self.dynamics = controller.robot, Dynamics(controller.robot)
        self._base = self.robot.bodies[0].name
        self._heading = np.eye(3)
        self._rose: float | None = None
        self._energy = plant.energy
        self._tau: list[Array] = []
        self._forces: list[Array] = []
        self._heights: list[float] = []
        self._speeds: list[Array] = []
        self._samples: list[tuple[Array, Array, Array, dict[str, Array]]] = []
        self._physics, self._outside = 0.0, -np.inf
        self._flagged = self._fallen = self._bad = 0
        self._control_time = self._plant_time = 0.0
        self._counts_from = 0.0

    def push(self, push: Push) -> None:
        """Push the base from now on; for a while velocities do not count."""
        self.plant.push(self._base, push.force * self._heading[:, 1], duration=PUSH_TIME)
        self._counts_from = self.plant.time + UPSET * self.controller.proportions.time

    def tick(self, t: float) -> LocomotionCommand:
        """Control once, step the plant, measure."""
        plant, controller = self.plant, self.controller
        begin = time.perf_counter()
        s = self.dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(s, self._wanted(t))
        middle = time.perf_counter()
        self._observe(s, command)
        after = time.perf_counter()
        for _ in range(round(controller.dt / plant.dt)):
            plant.step(command.tau)
        self._plant_time += time.perf_counter() - after
        self._control_time += middle - begin
        return command

    def _wanted(self, t: float) -> Array:
        standing = self.controller.mode in (Mode.STANDING, Mode.MOVING, Mode.RECOVERING)
        if self._rose is None and standing and self.controller.ground is not None:
            self._rose = t
        if self._rose is None or t > self._rose + MOVING_SHARE * (self.seconds - self._rose):
            return np.zeros(3)
        return self.wanted

    def _observe(self, s: State, command: LocomotionCommand) -> None:
        plant, controller, robot = self.plant, self.controller, self.robot
        forces = plant.contact_forces
        R = s.placement(self._base).rotation @ controller.proportions.heading
        forward = np.array([R[0, 0], R[1, 0], 0.0])
        forward /= max(float(np.linalg.norm(forward)), 1e-9)
        self._heading = np.column_stack((forward, np.cross([0.0, 0.0, 1.0], forward), [0.0, 0.0, 1.0]))
        self._fallen += command.mode is Mode.FALLEN
        self._flagged += not command.ok
        self._bad += plant.status == "inaccurate"
        self._tau.append(plant.tau)
        self._forces.append(np.array([forces[foot] for foot in robot.feet]))
        self._heights.append(float(s.placement(self._base).translation[2]))
        clock = controller.clock
        steady = command.mode is Mode.MOVING and clock.phase > 2.0 and plant.time >= self._counts_from
        if steady and np.abs(command.velocity - self.wanted).max() < 1e-9:
            turning = s.velocity(self._base)[5]
            self._speeds.append(np.array([*(self._heading.T @ s.com_velocity)[:2], turning]))
        for force in forces.values():
            self._outside = max(self._outside, float(np.hypot(force[0], force[1]) - plant.friction * force[2]))
        whole = command.whole_body
        if whole is not None:
            load = s.M @ whole.acceleration + s.h
            for name, force in whole.forces.items():
                J = s.jacobian(name)
                lever = np.array([0.0, 0.0, -robot.legs[name].foot.radius])
                load -= J[:3].T @ force + J[3:].T @ np.cross(lever, force)
            self._physics = max(self._physics, float(np.abs(load[:6]).max()))
        if len(self._tau) % 50 == 1:
            self._samples.append((s.q.copy(), s.v.copy(), plant.tau, forces))

    def text(self, command: LocomotionCommand) -> str:
        """For the page's corner."""
        clock = self.controller.clock
        phase = f", phase {clock.phase % 1.0:.2f}" if clock.running else ""
        lines = [f"{command.mode.value}{phase}; on the ground: {' '.join(command.contacts) or 'nobody'}"]
        v = command.velocity.tolist()
        if self._speeds:
            m = np.mean(self._speeds[-250:], axis=0).tolist()
            lines.append(
                f"wanted {v[0]:+.2f} {v[1]:+.2f} m/s {v[2]:+.2f} rad/s, is {m[0]:+.2f} {m[1]:+.2f} {m[2]:+.2f}"
            )
        if command.whole_body is not None:
            active = command.whole_body.levels[0].active
            lines.append("at its limit: " + (", ".join(active[:3]) if active else "nothing"))
        return "\n".join(lines)

    def report(self, gait: str) -> DemoReport:
        """The figures, and the verdict on each."""
        robot, plant, p = self.robot, self.plant, self.controller.proportions
        weight = p.mass * p.gravity
        checks: dict[str, Check] = {}

        def check(name: str, value: float, bound: float, unit: str) -> None:
            checks[name] = Check(float(value), float(bound), bool(value <= bound), unit)

        ticks = len(self._tau)
        error, bound = round_trip(self.dynamics, self._samples)
        check("RNEA(ABA(tau)) relative error", error, bound, "1")
        check("ticks fallen", self._fallen, 0, "1")
        check("equations of motion, base rows", self._physics / weight, 1e-8, "m g")
        check("share of ticks without certificate", self._flagged / ticks, FLAGGED, "1")
        check("force outside the friction cone", max(self._outside, 0.0) / weight, 1e-3, "m g")
        check("steps of the plant solved badly", self._bad, 0, "1")
        measured = None
        if len(self._speeds) * self.controller.dt > 2.0 * self.controller.clock.period:
            whole = max(1, round(self.controller.clock.period / self.controller.dt))
            cycles = len(self._speeds) // whole * whole
            measured = np.mean(self._speeds[-cycles:], axis=0)
            scale = max(float(np.hypot(*self.wanted[:2])), 0.1 * p.speed), max(abs(float(self.wanted[2])), 0.1 / p.time)
            miss = np.abs(measured - self.wanted) / [scale[0], scale[0], scale[1]]
            check("miss of the commanded velocity", miss.max(), MISS, "1")
        forces = np.array(self._forces)
        carried = forces[:, :, 2].sum(axis=1) / weight
        return DemoReport(
            robot=robot.name,
            motion=gait,
            seconds=plant.time,
            steps=ticks,
            cpu=cpu_name(),
            steps_per_second=ticks / (self._control_time + self._plant_time),
            plant_steps_per_second=round(self.controller.dt / plant.dt) * ticks / self._plant_time,
            torques=torque_ranges(robot, np.array(self._tau)),
            normal_force=(float(forces[..., 2].min()), float(forces[..., 2].max())),
            weight=weight,
            weight_mean=float(carried.mean()),
            weight_deviation=float(np.abs(carried - 1.0).max()),
            base_height=(min(self._heights), max(self._heights)),
            energy_change=float(plant.energy - self._energy),
            work={},
            checks=checks,
            velocity=tuple(self.wanted.tolist()),
            measured=None if measured is None else tuple(measured.tolist()),
        )
