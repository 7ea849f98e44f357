"""Minimal scenes for Cartesian controllers: a fixed robot at compliant planes, and a robot with fixed stance feet.

The integrator is semi-implicit Euler on Pinocchio's forward dynamics; the controller acts every `period`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.contact import CompliantPlane, foot_forces

Array = np.ndarray


@cache
def unlimited_robot(name: str, root: str | None = None) -> qd.Robot:
    """A robot of the catalogue without torque limits."""
    robot = qd.load(name, root=root)
    return replace(robot, effort_limits=np.full(robot.nu, np.inf))


def bent_configuration(robot: qd.Robot) -> Array:
    """The home configuration, or a bent one if home is straight."""
    if robot.legs and all(leg.knee_direction != "straight" for leg in robot.legs.values()):
        return np.array(robot.q_home)
    q = robot.algorithms.integrate(robot.model, robot.q_home, np.zeros(robot.nv))
    return robot.algorithms.integrate(robot.model, q, np.where(np.arange(robot.nv) % 2, -0.9, 0.5))


def random_state(robot: qd.Robot, seed: int, speed: float = 1.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    q = robot.algorithms.integrate(robot.model, bent_configuration(robot), 0.3 * rng.normal(size=robot.nv))
    return q, speed * rng.normal(size=robot.nv)


def constrained_dynamics(
    robot: qd.Robot, dyn: qd.Dynamics, q: Array, v: Array, tau: Array, feet: Sequence[str], fext: dict[str, Array]
) -> tuple[Array, Array]:
    """Acceleration with fixed `feet`, and their contact forces (k, 3), from the dense KKT system."""
    M, h = dyn.crba(q), dyn.nle(q, v)
    right = robot.generalized_torques(tau) - h
    for frame, force in fext.items():
        right = right + dyn.frame_jacobian(q, frame)[: len(force)].T @ force
    if not feet:
        return np.linalg.solve(M, right), np.zeros((0, 3))
    J = np.vstack([dyn.frame_jacobian(q, foot)[:3] for foot in feet])
    drift = np.concatenate([dyn.frame_drift(q, v, foot)[:3] for foot in feet])
    K = np.block([[M, -J.T], [J, np.zeros((len(J), len(J)))]])
    x = np.linalg.lstsq(K, np.concatenate((right, -drift)), rcond=1e-11)[0]
    return x[: robot.nv], x[robot.nv :].reshape(-1, 3)


def plane_wrenches(
    robot: qd.Robot, data: pin.Data, q: Array, v: Array, planes: Sequence[CompliantPlane], touch: Sequence[str]
) -> dict[str, Array]:
    """The same wrenches as `foot_forces`, from Pinocchio's kinematics directly, fast enough for every inner step."""
    pin.forwardKinematics(robot.model, data, q, v)
    out = {}
    for name in touch:
        frame = robot.frame_id(name)
        centre = pin.updateFramePlacement(robot.model, data, frame).translation
        twist = pin.getFrameVelocity(robot.model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
        out[name] = np.zeros(6)
        for plane in planes:
            lever = pin.skew(-robot.legs[name].foot.radius * plane.normal)
            force = plane.forces(centre - robot.legs[name].foot.radius * plane.normal, twist[:3] - lever @ twist[3:])
            out[name] += np.concatenate((force, lever @ force))
    return out


def run(
    robot: qd.Robot,
    q: Array,
    v: Array,
    control: Callable[[qd.State, dict[str, Array]], Array],
    seconds: float,
    *,
    period: float = 1e-3,
    dt: float = 2.5e-4,
    planes: Sequence[CompliantPlane] = (),
    touch: Sequence[str] | None = None,
    external: dict[str, Array] | None = None,
    held: Sequence[str] = (),
    each: Callable[[float, Array, Array, dict[str, Array]], None] | None = None,
) -> tuple[Array, Array]:
    """Simulates; `control` gets the state and the plane forces on the feet `touch`, `each` is called every period."""
    dyn, plant = qd.Dynamics(robot), qd.Dynamics(robot, validate=False)
    inner = round(period / dt)
    external, data = external or {}, robot.model.createData()
    for tick in range(round(seconds / period)):
        s = dyn.update(q, v)
        touching = dict(foot_forces(s, planes, touch)) if planes else {}
        if each is not None:
            each(tick * period, q, v, touching)
        tau = control(s, touching)
        whole = robot.generalized_torques(tau)
        for i in range(inner):
            forces = {name: f for name, f in touching.items() if f.any()}
            for name, f in external.items():
                forces[name] = forces.get(name, np.zeros(6)) + np.pad(f, (0, 6 - len(f)))
            if held:
                a = constrained_dynamics(robot, plant, q, v, tau, held, forces)[0]
            else:
                a = plant.aba(q, v, whole, fext=forces)
            v = v + dt * a
            q = robot.algorithms.integrate(robot.model, q, dt * v)
            if planes and i < inner - 1:
                touching = plane_wrenches(robot, data, q, v, planes, touch or robot.feet)
    return q, v
