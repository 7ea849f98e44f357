"""Source D's falling chains, computed by every implementation at hand with the same integrator."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from xml.etree.ElementTree import SubElement, tostring

import defusedxml.ElementTree
import numpy as np
from integrators import (
    Acceleration,
    Array,
    Motion,
    clock,
    extrapolation,
    rk4,
    semi_implicit_euler,
    variational_midpoint,
)

import quaddyn as qd
from quaddyn.reference import Reference

DT = 0.0005  # [s]
STEPS = 2000


@dataclass(frozen=True, eq=False)
class Fall:
    """A fixed-base chain of revolute joints let go at rest, without torque.

    Attributes:
        name: what to call it.
        robot: the chain.
        start: (n,) joint coordinates at time 0 [rad].
    """

    name: str
    robot: qd.Robot
    start: Array

    @functools.cached_property
    def dynamics(self) -> qd.Dynamics:
        """Pinocchio."""
        return qd.Dynamics(self.robot)

    @functools.cached_property
    def oracle(self) -> Reference:
        """The reference, from the same file by its own reader."""
        return Reference(self.robot.source, root="fixed")

    @property
    def rest(self) -> Array:
        """(n,) no velocity, and no torque."""
        return np.zeros(self.robot.nv)

    @property
    def accelerations(self) -> dict[str, Acceleration]:
        """Implementations of forward dynamics, by name."""
        none = self.rest
        return {
            "Pinocchio, ABA": lambda q, v: self.dynamics.aba(q, v, none),
            "reference, ABA": lambda q, v: self.oracle.aba(q, v, none),
            "reference, Lie group": lambda q, v: self.oracle.lie_group(q, v, none),
        }

    def euler(self, implementation: str, *, dt: float = DT, steps: int = STEPS) -> Motion:
        """The fall by semi-implicit Euler with one of `accelerations`."""
        return semi_implicit_euler(self.accelerations[implementation], self.start, self.rest, dt=dt, steps=steps)

    def rk4(self, *, dt: float = DT, steps: int = STEPS) -> Motion:
        """The fall by the classical Runge-Kutta method."""
        return rk4(self.accelerations["Pinocchio, ABA"], self.start, self.rest, dt=dt, steps=steps)

    def variational(self, *, dt: float = DT, steps: int = STEPS) -> Motion:
        """By the variational midpoint rule; ``dL/dq = C^T v - g`` with Christoffel's C, as ``Mdot = C + C^T``."""
        model = self.dynamics

        def force(q: Array, v: Array) -> Array:
            return np.asarray(model.coriolis(q, v).T @ v - model.gravity(q))

        return variational_midpoint(model.crba, force, self.start, self.rest, dt=dt, steps=steps)

    def exact(self, times: Array) -> Motion:
        """The fall by a high-order adaptive integrator, at `times` [s]."""
        return extrapolation(self.accelerations["Pinocchio, ABA"], self.start, self.rest, times=times)

    def mujoco(self, *, dt: float = DT, steps: int = STEPS) -> tuple[Motion, Array]:
        """The fall by MuJoCo's own importer, dynamics and Euler; with (steps + 1, 3) the last center of mass [m].

        Its Euler is semi-implicit; joint damping, which it would treat implicitly, is none here.
        """
        import mujoco

        model = mujoco.MjModel.from_xml_string(_for_mujoco(self.robot.source))
        model.opt.timestep, model.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_EULER
        # Neither joint limits nor contacts belong to the experiment.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        if model.dof_damping.any() or model.dof_armature.any():
            raise ValueError("MuJoCo added damping or armature of its own")
        data = mujoco.MjData(model)
        data.qpos[:] = self.start
        q, v, com = (np.empty((steps + 1, n)) for n in (model.nq, model.nv, 3))
        for k in range(steps + 1):
            mujoco.mj_kinematics(model, data)
            q[k], v[k], com[k] = data.qpos, data.qvel, data.xipos[-1]
            mujoco.mj_step(model, data)
        return Motion(clock(dt, steps), q, v), com

    def last_com(self, motion: Motion) -> Array:
        """(k, 3) center of mass of the last link in the world [m]."""
        body = self.robot.bodies[-1]
        poses = [self.dynamics.frame_placement(q, body.name) for q in motion.q]
        return np.array([pose.rotation @ body.inertial.com + pose.translation for pose in poses])

    def energy(self, motion: Motion) -> Array:
        """(k,) kinetic and potential energy [J]."""
        return np.array([sum(self.dynamics.energy(q, v)) for q, v in zip(motion.q, motion.v, strict=True)])


def fall_4_rods() -> Fall:
    """Source D's text: four rods with their own inertias, from horizontal."""
    return Fall("4 links, rods, from horizontal", qd.load("chain_4"), np.zeros(4))


def fall_4_as_coded() -> Fall:
    """Source D's code: every 6x6 body inertia is the identity, every joint starts at a quarter turn."""
    robot = qd.load(_with_unit_inertias(qd.load("chain_4").source))
    return Fall("4 links, as coded: identity inertias, joints at pi/2", robot, np.full(4, np.pi / 2))


def fall_10() -> Fall:
    """Source D's long chain: ten rods, neighboring axes perpendicular, from horizontal.

    By symmetry it stays in its plane: the vertical axes never turn, and it is slow to show that it is chaotic.
    """
    return Fall("10 links, rods, from horizontal", qd.load("chain_10"), np.zeros(10))


def fall_10_bent() -> Fall:
    """The long chain with every joint at a quarter turn, as the source's code starts: it moves in space."""
    return Fall("10 links, rods, joints at pi/2", qd.load("chain_10"), np.full(10, np.pi / 2))


def distance(a: Array, b: Array) -> Array:
    """(k,) distance of two paths (k, 3) at each time."""
    return np.asarray(np.linalg.norm(a - b, axis=1))


@dataclass(frozen=True, eq=False)
class Divergence:
    """How two motions that start close part.

    Attributes:
        t: (k,) [s].
        distance: (k,) norm of the difference of their joint coordinates [rad].
        rate: fitted slope of log(distance) [1/s].
        offset: fitted log(distance) at t = 0.
        window: times between which it was fitted [s].
        scatter: standard deviation of log(distance) about the fit.
    """

    t: Array
    distance: Array
    rate: float
    offset: float
    window: tuple[float, float]
    scatter: float


def divergence(
    fall: Fall,
    rng: np.random.Generator,
    *,
    apart: float = 1e-12,
    largest: float = 1e-3,
    dt: float = DT,
    steps: int = 5 * STEPS,
) -> Divergence:
    """Start a fall twice, `apart` [rad] in a random direction, and fit an exponential to their distance.

    The fit begins where the distance has grown a thousandfold (before, the shift only turns into the direction that
    grows) and ends where it passes `largest` [rad], beyond which it is bounded by the chain's size.  This is the rate
    of this part of this motion, not the Lyapunov exponent of an infinite one.  Runge-Kutta, since semi-implicit Euler
    feeds energy to long motions until they blow up.

    Args:
        fall: what falls.
        rng: of the direction.
        apart: distance at the start [rad].
        largest: distance at which the fit ends [rad].
        dt: step [s].
        steps: number of steps, enough to reach `largest`.

    Raises:
        ValueError: the distance never reached `largest`.
    """
    shift = rng.standard_normal(fall.robot.nv)
    near = Fall(fall.name, fall.robot, fall.start + apart * shift / np.linalg.norm(shift))
    one, two = (f.rk4(dt=dt, steps=steps) for f in (fall, near))
    d = np.linalg.norm(one.q - two.q, axis=1)
    if not d.max() >= largest:
        raise ValueError(f"divergence: {d.max():.1e} rad after {steps * dt} s, short of {largest} rad")
    last = int(np.argmax(d >= largest))
    # Rounding may let the distance rise early and fall again: the growth counts from where it is above for good.
    first = last - int(np.argmax(d[last::-1] < 1000.0 * apart)) + 1
    t, log = one.t[first:last], np.log(d[first:last])
    rate, offset = np.polyfit(t, log, 1)
    scatter = float(np.std(log - (rate * t + offset)))
    return Divergence(one.t, d, float(rate), float(offset), (float(t[0]), float(t[-1])), scatter)


def _with_unit_inertias(urdf: bytes | str) -> str:
    root = defusedxml.ElementTree.fromstring(urdf)
    for inertia in root.iter("inertia"):
        inertia.attrib.update(ixx="1", iyy="1", izz="1", ixy="0", ixz="0", iyz="0")
    return tostring(root, encoding="unicode")


def _for_mujoco(urdf: bytes | str) -> str:
    """A URDF that MuJoCo reads as it is written: no bounds on masses, no balancing of inertias, no shapes."""
    root = defusedxml.ElementTree.fromstring(urdf)
    exact = {"boundmass": "0", "boundinertia": "0", "balanceinertia": "false", "discardvisual": "true"}
    SubElement(SubElement(root, "mujoco"), "compiler", exact)
    return tostring(root, encoding="unicode")
