"""`MomentumObserver`: external generalized force without accelerometer or force sensor.

Generalized momentum and its rate are computed by recursion over the bodies.  With world axes about the world origin,
the column J_i of the world Jacobian for velocity i, and for the subtree that it moves, starting with body b: the twist
V_b of b, the momentum H_b of the subtree and the wrench G_b of its weight,

    (M v)_i       = J_i . H_b + armature_i v_i
    (C^T v - g)_i = (V_b x J_i) . H_b + J_i . G_b = J_i . (G_b - V_b x* H_b),

since every J_i is fixed in body b, ``d/dt J_i = V_b x J_i``, and ``d/dt H_b`` is the wrench on the subtree: the sum of
the rates of both rows is the Newton-Euler equation.  It costs a few hundred operations per body and needs no matrix.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, sections 2.9 to 2.14 (spatial momentum and cross
products).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, Tensor, Vector, compiled, cross, entry, local, mat3, vec3
from ..deprecation import renamed_attributes
from ..dynamics import Dynamics, State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen


class MomentumBodies(NamedTuple):
    """Inertial parameters of moving bodies, by the index of their joint, the world first."""

    parent: IntVector  # (bodies,)
    first: IntVector  # (bodies,) index of the first velocity of the joint
    freedoms: IntVector  # (bodies,) number of velocities of the joint
    mass: Vector  # (bodies,) [kg]
    com: Matrix  # (bodies, 3) center of mass, joint frame [m]
    inertia: Tensor  # (bodies, 3, 3) inertia about the center of mass, joint axes [kg m^2]
    armature: Vector  # (nv,) rotor inertias of the joints [kg m^2, kg]
    gravity: Vector  # (3,) world axes [m/s^2]
    work: Tensor  # (3, bodies, 6) scratch: twists, and momenta and mass before first moment of subtrees


def make_momentum_bodies(robot: Robot) -> MomentumBodies:
    """Creates the inertial parameters of the bodies of a robot with independent joints."""
    model, n = robot.model, robot.model.njoints
    inertias = [model.inertias[j] for j in range(n)]
    return MomentumBodies(
        parent=np.array([max(0, model.parents[j]) for j in range(n)], np.int64),
        first=np.array([max(0, model.idx_vs[j]) for j in range(n)], np.int64),
        freedoms=np.array([model.nvs[j] if j else 0 for j in range(n)], np.int64),
        mass=np.array([inertia.mass for inertia in inertias]),
        com=np.array([inertia.lever for inertia in inertias]),
        inertia=np.array([inertia.inertia for inertia in inertias]),
        armature=np.array(model.armature, dtype=np.float64),
        gravity=np.array(model.gravity.linear, dtype=np.float64),
        work=np.zeros((3, n, 6)),
    )


@compiled()
def dot6(a: Vector, b: Vector) -> float:
    """Computes the dot product of two vectors of six entries."""
    s = 0.0
    for i in range(6):
        s += a[i] * b[i]
    return s


@compiled(inline=False)
def compute_body_momentum(
    b: MomentumBodies, joint_placements: Tensor, j: int, momentum: Vector, mass_moment: Vector
) -> None:
    """Computes the momentum (6,) about the world origin, and mass and first moment (4,), of body j from its twist."""
    twist, at, mass = b.work[0, j], joint_placements[j], b.mass[j]
    R, omega = mat3(at[0:3]).T, vec3(twist[3:6])
    c = vec3(at[3]) + R @ vec3(b.com[j])
    linear = (vec3(twist[0:3]) + cross(omega, c)) * mass
    momentum[0:3] = linear
    momentum[3:6] = cross(c, linear) + R @ (mat3(b.inertia[j]) @ (R.T @ omega))
    mass_moment[0] = mass
    mass_moment[1:4] = c * mass


@compiled(inline=False)
def compute_momentum_and_drive(
    b: MomentumBodies, columns: Matrix, joint_placements: Tensor, v: Vector, p: Vector, drive: Vector
) -> None:
    """Computes the momentum ``p = M v`` and its rate without applied forces, ``drive = C^T v - g``.

    Args:
        b: the bodies.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
        p: (nv,) momentum; written.
        drive: (nv,) rate of the momentum without applied forces; written.
    """
    twists, momenta, mass_moments, n = b.work[0], b.work[1], b.work[2], len(b.mass)
    wrench, gravity = local(6), vec3(b.gravity)
    for r in range(6):
        twists[0, r] = 0.0
    for j in range(1, n):
        for r in range(6):
            twists[j, r] = twists[b.parent[j], r]
            for k in range(b.first[j], b.first[j] + b.freedoms[j]):
                twists[j, r] += columns[k, r] * v[k]
        compute_body_momentum(b, joint_placements, j, momenta[j], mass_moments[j])
    for j in range(n - 1, 0, -1):
        twist, H, mass_moment, parent = twists[j], momenta[j], mass_moments[j], b.parent[j]
        # G - V x* H
        omega, linear = vec3(twist[3:6]), vec3(H[0:3])
        wrench[0:3] = gravity * mass_moment[0] - cross(omega, linear)
        wrench[3:6] = (
            cross(vec3(mass_moment[1:4]), gravity) - cross(omega, vec3(H[3:6])) - cross(vec3(twist[0:3]), linear)
        )
        for k in range(b.first[j], b.first[j] + b.freedoms[j]):
            p[k] = dot6(columns[k], H) + b.armature[k] * v[k]
            drive[k] = dot6(columns[k], wrench)
        if parent > 0:
            for r in range(6):
                momenta[parent, r] += H[r]
                mass_moments[parent, r] += mass_moment[r]


class ResidualFilter(Record):
    """Parameters and state of a `MomentumObserver`."""

    dt: float  # between updates [s]
    beta: Vector  # (nv,) factor of the previous estimate in the filter
    damping: Vector  # (nv,) viscous friction of the joints; zeros to include it in the estimate
    friction: Vector  # (nv,) Coulomb friction of the joints; zeros to include it in the estimate
    stiction_speed: float  # speed below which Coulomb friction is proportional to it [rad/s or m/s]
    actuated: IntVector  # (nu,) velocity indices of the motors
    r: Vector  # (nv,) estimated external generalized force
    p: Vector  # (nv,) momentum at the last update
    drive: Vector  # (nv,) rate of the momentum at the last update, without motors and external forces
    current: Matrix  # (2, nv) momentum and its rate at this update
    is_initialized: bool  # whether there was an update


def make_residual_filter(
    robot: Robot, dt: float, beta: Array, *, joint_friction: bool = True, stiction_speed: float = 1e-3
) -> ResidualFilter:
    """Creates the filter of an observer before its first update.

    Args:
        robot: the robot.
        dt: time between updates [s].
        beta: (nv,) factor of the previous estimate in the filter.
        joint_friction: whether the robot's joint friction is part of the model, and not of the estimate.
        stiction_speed: joint speed below which Coulomb friction is proportional to it [rad/s or m/s].
    """
    n, factor = robot.nv, 1.0 if joint_friction else 0.0
    return ResidualFilter.from_values(
        dt=dt,
        beta=beta,
        damping=factor * robot.damping,
        friction=factor * robot.friction,
        stiction_speed=stiction_speed,
        actuated=np.array(robot.actuated_index, dtype=np.int64),
        r=np.zeros(n),
        p=np.zeros(n),
        drive=np.zeros(n),
        current=np.zeros((2, n)),
        is_initialized=False,
    )


@compiled()
def reset_residual(o: ResidualFilter) -> None:
    """Resets the observer; the next update is the first one."""
    for i in range(len(o.r)):
        o.r[i] = 0.0
    o.is_initialized = False


@entry("the momentum observer")
def update_residual(o: ResidualFilter, v: Vector, tau: Vector) -> None:
    """Updates the external force by one step, with momentum and ``C^T v - g`` of this update in ``o.current``.

    Args:
        o: the observer; updated.
        v: (nv,) velocity.
        tau: (nu,) torques since the last update [N m].
    """
    p, drive = o.current[0], o.current[1]
    for i in range(len(v)):
        speed = max(abs(v[i]), o.stiction_speed)
        drive[i] -= o.damping[i] * v[i] + o.friction[i] * v[i] / speed
    if o.is_initialized:
        for i in range(len(v)):
            # Mean external generalized force over the step, without the motors, in `o.p`.
            o.p[i] = (p[i] - o.p[i]) / o.dt - 0.5 * (o.drive[i] + drive[i])
        for k in range(len(tau)):
            o.p[o.actuated[k]] -= tau[k]
        for i in range(len(v)):
            o.r[i] = o.beta[i] * o.r[i] + (1.0 - o.beta[i]) * o.p[i]
    for i in range(len(v)):
        o.p[i] = p[i]
        o.drive[i] = drive[i]
    o.is_initialized = True


@entry("the momentum observer")
def observe_momentum(
    b: MomentumBodies, o: ResidualFilter, columns: Matrix, joint_placements: Tensor, v: Vector, tau: Vector
) -> None:
    """Computes the momentum and its rate from the kinematics and calls `update_residual`.

    Args:
        b: bodies of the robot.
        o: the observer; updated.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
        tau: (nu,) torques since the last update [N m].
    """
    compute_momentum_and_drive(b, columns, joint_placements, v, o.current[0], o.current[1])
    update_residual(o, v, tau)


@renamed_attributes(started="is_initialized")
class MomentumObserver(StrictAttributes, fixed=("robot", "dt", "gain", "beta")):
    """Observer of the external generalized force ``tau_ext = sum_i J_i^T f_i`` from measured motion and torques.

    The generalized momentum ``p = M v`` of any robot, its root included, satisfies

        dp/dt = S^T tau - tau_friction + C^T v - g + tau_ext        (since dM/dt = C + C^T),

    in which no acceleration appears.  The residual r of De Luca and Mattone (2003, 2005) follows tau_ext with a
    first-order lag, ``dr/dt = K (tau_ext - r)``.  It was designed to detect collisions of arms and is used for legs as
    well (Bledt et al. 2018, "Contact model fusion for event-based locomotion").

    *In discrete time.*  Over a step the balance gives the mean of tau_ext, ``u = (p+ - p) / dt - mean(S^T tau -
    tau_friction + C^T v - g)``, with the terms of motion by the trapezoidal rule.  The filter is then exact for a force
    that is constant over a step, at any gain: ``r+ = beta r + (1 - beta) u`` with ``beta = exp(-K dt)``.  The residual
    reaches 63 % of a step of the force after 1 / K.  White noise of standard deviation s in the velocities causes noise
    of about ``K |M| s`` in the residual, more exactly ``(1 - beta) / dt sqrt(2 / (1 + beta)) |M| s``: a faster observer
    is noisier.

    Args:
        robot: any robot; of a free root position and velocity have to be measured or estimated.
        dt: time between updates [s].
        gain: K [1/s], one number for all entries or (nv,); inf for the unfiltered u.
        joint_friction: whether the robot's viscous and Coulomb joint friction is part of the model, and not of the
            estimate.
        stiction_speed: joint speed below which Coulomb friction is proportional to it [rad/s or m/s].

    Raises:
        ArgumentTypeError: `robot` is not a Robot.
        ArgumentError: a value out of range.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        gain: float | Array = 100.0,
        joint_friction: bool = True,
        stiction_speed: float = 1e-3,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.robot, self.dt = robot, check_number("dt", dt)
        if not (np.isfinite(self.dt) and self.dt > 0.0):
            raise ArgumentError(f"dt: expected a positive time [s], got {dt}")
        if isinstance(gain, np.ndarray):
            if gain.dtype.kind not in "fiu":
                raise ArgumentTypeError(f"gain: expected numbers [1/s], got an array of {gain.dtype}")
            K = gain.astype(np.float64)
        else:
            K = np.full(robot.nv, check_number("gain", gain))
        if K.shape != (robot.nv,) or not (K > 0.0).all():  # False of NaN
            raise ArgumentError(f"gain: expected one positive number or {robot.nv} positive numbers [1/s], got {gain}")
        stiction = check_number("stiction_speed", stiction_speed)
        if not (np.isfinite(stiction) and stiction > 0.0):
            raise ArgumentError(
                f"stiction_speed: expected a positive, finite speed [rad/s or m/s], got {stiction_speed}"
            )
        self.gain, self.beta = frozen(K), frozen(np.exp(-K * self.dt))
        self._filter = make_residual_filter(
            robot, self.dt, self.beta, joint_friction=joint_friction, stiction_speed=stiction
        )
        # For robots with coupled joints Pinocchio computes the momentum balance.
        self._bodies = make_momentum_bodies(robot) if robot.coupling is None else None
        self._dynamics = Dynamics(robot, validate=False) if robot.coupling is not None else None
        self._observe: Callable[..., None] | None = None  # bound to its arrays at the first update
        self._torques = f"nu of {robot.name}"

    @property
    def residual(self) -> Array:
        """(nv,) estimate r of the external generalized force tau_ext [N m, N]."""
        return self._filter.r.copy()

    @property
    def is_initialized(self) -> bool:
        """Whether there was an update since the last reset, so that the next residual is an estimate."""
        return self._filter.is_initialized

    def reset(self) -> None:
        """Resets the observer; the next update is the first one."""
        reset_residual(self._filter)

    def update(self, s: State, tau: Array) -> Array:
        """Updates the estimate of the external generalized force by one step.

        Args:
            s: present state, dt after the last one.
            tau: (nu,) motor torques since the last update, mean over the step [N m]; not used at the first update.

        Returns:
            (nv,) estimate of tau_ext [N m, N], zero at the first update; the six entries of a free root are in its own
            frame, like its velocity.

        Raises:
            ArgumentError: `tau` has a wrong shape or is not finite, or the state belongs to another robot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        robot = self.robot
        if not isinstance(s, State) or s.robot is not robot:
            raise ArgumentError(f"s: expected a State of {robot.name!r}, got {s!r}")
        tau = np.ascontiguousarray(check_vector("tau", tau, (robot.nu,), self._torques))
        q, v = s.writable_coordinates()
        if self._bodies is not None:
            if self._observe is None:
                self._observe = observe_momentum.bind(self._bodies, self._filter)
            self._observe(*s.kinematic_arrays(), v, tau)
        else:
            assert self._dynamics is not None
            self._filter.current[0] = s.M @ v
            self._filter.current[1] = self._dynamics.coriolis(q, v).T @ v - s.gravity
            update_residual(self._filter, v, tau)
        return self.residual
