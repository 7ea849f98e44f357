"""Source D's falling chains, simulated with several implementations of forward dynamics and the same integrators."""

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

DT = 0.0005  # step [s]
STEPS = 2000  # number of steps of a fall


@dataclass(frozen=True, eq=False)
class Fall:
    """Fall of a fixed-base chain of revolute joints that starts at rest and has no joint torques.

    Attributes:
        name: title of the fall.
        robot: the chain.
        start: initial joint coordinates (n,) [rad].
    """

    name: str
    robot: qd.Robot
    start: Array

    @functools.cached_property
    def dynamics(self) -> qd.Dynamics:
        """Dynamics by Pinocchio."""
        return qd.Dynamics(self.robot)

    @functools.cached_property
    def oracle(self) -> Reference:
        """Dynamics by the reference implementation, which reads the same file with a separate reader."""
        return Reference(self.robot.source, root="fixed")

    @property
    def rest(self) -> Array:
        """Zeros (n,): initial velocity and joint torques."""
        return np.zeros(self.robot.nv)

    @property
    def accelerations(self) -> dict[str, Acceleration]:
        """Forward dynamics of the chain without torques, by name of the implementation."""
        zeros = self.rest
        return {
            "Pinocchio, ABA": lambda q, v: self.dynamics.aba(q, v, zeros),
            "reference, ABA": lambda q, v: self.oracle.aba(q, v, zeros),
            "reference, Lie group": lambda q, v: self.oracle.lie_group(q, v, zeros),
        }

    def euler(self, implementation: str, *, dt: float = DT, steps: int = STEPS) -> Motion:
        """Simulates the fall by semi-implicit Euler with one of `accelerations`."""
        return semi_implicit_euler(self.accelerations[implementation], self.start, self.rest, dt=dt, steps=steps)

    def rk4(self, *, dt: float = DT, steps: int = STEPS) -> Motion:
        """Simulates the fall by the classical Runge-Kutta method."""
        return rk4(self.accelerations["Pinocchio, ABA"], self.start, self.rest, dt=dt, steps=steps)

    def variational(self, *, dt: float = DT, steps: int = STEPS) -> Motion:
        """Simulates the fall by the variational midpoint rule.

        ``dL/dq = C^T v - g`` with the Christoffel-consistent C, since ``Mdot = C + C^T``.
        """
        model = self.dynamics

        def force(q: Array, v: Array) -> Array:
            return np.asarray(model.coriolis(q, v).T @ v - model.gravity(q))

        return variational_midpoint(model.crba, force, self.start, self.rest, dt=dt, steps=steps)

    def exact(self, times: Array) -> Motion:
        """Simulates the fall by a high-order adaptive integrator; returns the motion at `times` [s]."""
        return extrapolation(self.accelerations["Pinocchio, ABA"], self.start, self.rest, times=times)

    def mujoco(self, *, dt: float = DT, steps: int = STEPS) -> tuple[Motion, Array]:
        """Simulates the fall with MuJoCo's importer, dynamics and semi-implicit Euler integrator.

        MuJoCo's Euler integrator treats joint damping implicitly; the chain has no damping.

        Returns:
            The motion, and the center of mass of the last link (steps + 1, 3) [m].

        Raises:
            ValueError: MuJoCo added damping or armature.
        """
        import mujoco

        model = mujoco.MjModel.from_xml_string(_add_mujoco_options(self.robot.source))
        model.opt.timestep, model.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_EULER
        # The experiment has neither joint limits nor contacts.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        if model.dof_damping.any() or model.dof_armature.any():
            raise ValueError("MuJoCo added damping or armature to the model")
        data = mujoco.MjData(model)
        data.qpos[:] = self.start
        q, v, com = (np.empty((steps + 1, n)) for n in (model.nq, model.nv, 3))
        for k in range(steps + 1):
            mujoco.mj_kinematics(model, data)
            q[k], v[k], com[k] = data.qpos, data.qvel, data.xipos[-1]
            mujoco.mj_step(model, data)
        return Motion(clock(dt, steps), q, v), com

    def last_com(self, motion: Motion) -> Array:
        """Returns the center of mass of the last link (k, 3) in world axes [m]."""
        body = self.robot.bodies[-1]
        poses = [self.dynamics.frame_placement(q, body.name) for q in motion.q]
        return np.array([pose.rotation @ body.inertial.com + pose.translation for pose in poses])

    def energy(self, motion: Motion) -> Array:
        """Returns the sum of kinetic and potential energy (k,) [J]."""
        return np.array([sum(self.dynamics.energy(q, v)) for q, v in zip(motion.q, motion.v, strict=True)])


def fall_4_rods() -> Fall:
    """Returns the fall of source D's text: four rods with the inertias of rods, initially horizontal."""
    return Fall("4 links, rods, from horizontal", qd.load("chain_4"), np.zeros(4))


def fall_4_as_coded() -> Fall:
    """Returns the fall of source D's code: all 6x6 body inertias are identities, all joints start at pi/2."""
    robot = qd.load(_with_unit_inertias(qd.load("chain_4").source))
    return Fall("4 links, as coded: identity inertias, joints at pi/2", robot, np.full(4, np.pi / 2))


def fall_10() -> Fall:
    """Returns the fall of source D's long chain: ten rods with perpendicular neighboring axes, initially horizontal.

    By symmetry the chain stays in its plane, since joints with vertical axes do not move; chaos is visible late.
    """
    return Fall("10 links, rods, from horizontal", qd.load("chain_10"), np.zeros(10))


def fall_10_bent() -> Fall:
    """Returns the fall of the long chain with all joints at pi/2, as in the source's code; it moves in space."""
    return Fall("10 links, rods, joints at pi/2", qd.load("chain_10"), np.full(10, np.pi / 2))


def distance(a: Array, b: Array) -> Array:
    """Returns the distance (k,) of two paths (k, 3) at each time."""
    return np.asarray(np.linalg.norm(a - b, axis=1))


@dataclass(frozen=True, eq=False)
class Divergence:
    """Divergence of two motions with nearby initial configurations.

    Attributes:
        t: times (k,) [s].
        distance: norm of the difference of joint coordinates (k,) [rad].
        rate: fitted slope of log(distance) over time [1/s].
        offset: fitted log(distance) at t = 0.
        window: first and last time of the fit [s].
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
    """Simulates a fall from two nearby configurations and fits an exponential function to the distance of the motions.

    The fit begins where the distance has grown by a factor of 1,000, after the difference has turned into the direction
    of growth.  It ends where the distance exceeds `largest`, beyond which the size of the chain limits it.  The result
    is the rate of this part of the motion, not the Lyapunov exponent of an infinite motion.  The integrator is
    Runge-Kutta, since semi-implicit Euler adds energy to long motions until they diverge.

    Args:
        fall: the fall.
        rng: random number generator of the direction of the initial difference.
        apart: initial distance [rad].
        largest: distance at which the fit ends [rad].
        dt: step [s].
        steps: number of steps, sufficient to reach `largest`.

    Raises:
        ValueError: The distance does not reach `largest`.
    """
    shift = rng.standard_normal(fall.robot.nv)
    shifted_fall = Fall(fall.name, fall.robot, fall.start + apart * shift / np.linalg.norm(shift))
    motion, shifted_motion = (f.rk4(dt=dt, steps=steps) for f in (fall, shifted_fall))
    d = np.linalg.norm(motion.q - shifted_motion.q, axis=1)
    if not d.max() >= largest:
        raise ValueError(f"divergence: {d.max():.1e} rad after {steps * dt} s, short of {largest} rad")
    last = int(np.argmax(d >= largest))
    # The fit begins after the last time at which the distance is below the bound: rounding may raise it earlier.
    first = last - int(np.argmax(d[last::-1] < 1000.0 * apart)) + 1
    t, log_distance = motion.t[first:last], np.log(d[first:last])
    rate, offset = np.polyfit(t, log_distance, 1)
    scatter = float(np.std(log_distance - (rate * t + offset)))
    return Divergence(motion.t, d, float(rate), float(offset), (float(t[0]), float(t[-1])), scatter)


def _with_unit_inertias(urdf: bytes | str) -> str:
    """Returns a URDF in which all body inertias are identity matrices."""
    root = defusedxml.ElementTree.fromstring(urdf)
    for inertia in root.iter("inertia"):
        inertia.attrib.update(ixx="1", iyy="1", izz="1", ixy="0", ixz="0", iyz="0")
    return tostring(root, encoding="unicode")


def _add_mujoco_options(urdf: bytes | str) -> str:
    """Returns a URDF that MuJoCo imports unchanged: without bounds of masses, balanced inertias and visual shapes."""
    root = defusedxml.ElementTree.fromstring(urdf)
    exact = {"boundmass": "0", "boundinertia": "0", "balanceinertia": "false", "discardvisual": "true"}
    SubElement(SubElement(root, "mujoco"), "compiler", exact)
    return tostring(root, encoding="unicode")
