"""`Simulation`: a robot on a flat, dry floor, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..dynamics.arguments import check_unit, check_vector
from ..errors import ArgumentError, ArgumentTypeError, DivergenceError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .ground import ContactSolution, FrictionalContact

#: A foot takes part in the contact problem when it could reach the floor within one step at this speed [m/s].
APPROACH_SPEED = 20.0
#: Share of a penetration undone per step, and the largest speed of doing so [m/s].
RECOVERY_SHARE, RECOVERY_SPEED = 0.1, 0.1
#: Below this joint speed Coulomb friction turns into viscous friction [rad/s or m/s].
STICTION_SPEED = 1e-3
#: Beyond this generalized speed [rad/s or m/s] a simulation has diverged.
RUNAWAY_SPEED = 1e6

_NO_CONTACT = ContactSolution(np.zeros((0, 3)), 0.0, 0, "free")


@dataclass(frozen=True, slots=True)
class Work:
    """Work done on the robot since the last reset [J], each force times the mean of the velocities around the step.

    Attributes:
        actuators: by the torques, after saturation.
        joints: by viscous and Coulomb friction in the joints.
        contacts: by the floor; never positive but for the recovery of penetrations.
    """

    actuators: float = 0.0
    joints: float = 0.0
    contacts: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all [J]: the change of mechanical energy, up to the integrator's error of order dt."""
        return self.actuators + self.joints + self.contacts


class Simulation:
    """A robot on a rigid horizontal plane, its feet dry frictional spheres; starts in ``q_home`` at rest.

    Time stepping in the manner of Stewart and Trinkle (1996) and Anitescu and Potra (1997), velocities first:

        M(q) (v+ - v) = dt (S^T tau - h(q, v) - f v+) + J^T lambda,      q+ = q (+) dt v+,

    where lambda are the contact impulses over the step (`FrictionalContact`).  Each foot i near the floor obeys
    ``v_n+ >= -gap / dt``: it may close its gap within the step but not pass through; a penetration is undone
    slowly (a tenth a step, at 0.1 m/s at most), so that it adds next to no energy.  Impacts are inelastic.

    Joint friction is implicit, f = damping + friction / max(|v*|, 1 mm/s or mrad/s) with v* the velocity foreseen for
    the end of the step (as much beyond v as v is beyond the one before), hence stable for any coefficient and never
    a source of energy.  Coulomb friction is exact in steady sliding and at steady acceleration; where it should
    stick it creeps, at 1 mrad/s at most.  Torques saturate at ``robot.effort_limits``.  Joint stops, and contact of
    anything but the feet, are not modelled.

    One simulation belongs to one thread.  Two runs from the same state with the same torques agree bit for bit.

    Args:
        robot: any `Robot`: free, planar or fixed root, with or without feet.
        dt: time step [s].
        friction: Coulomb's coefficient between feet and floor.
        contact: the contact law; "frictional" (rigid, dry) is the one there is.
        floor: height of the floor [m], -inf for none; by default 0, and none under a fixed root, whose feet may
            hang anywhere.

    Attributes:
        robot: as given.
        dt: as given [s].
        friction: as given.
        floor: height of the floor [m].

    Raises:
        ArgumentError: `dt`, `friction`, `contact` or `floor` out of range.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = 0.6,
        contact: str = "frictional",
        floor: float | None = None,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        dt, friction = number("dt", dt), number("friction", friction)
        if not (np.isfinite(dt) and 0.0 < dt <= 0.1):
            raise ArgumentError(f"dt: expected a step in (0, 0.1] s, got {dt}")
        if contact != "frictional":
            raise ArgumentError(f'contact: expected "frictional", got {contact!r}')
        if floor is None:
            floor = -np.inf if robot.root == "fixed" else 0.0
        floor = number("floor", floor)
        if not floor < np.inf:  # also true of NaN
            raise ArgumentError(f"floor: expected a height [m] or -inf, got {floor}")
        self.floor = float(floor)
        self.robot, self.dt, self.friction = robot, float(dt), float(friction)
        self._ground = FrictionalContact(friction)
        # A private model: dt f(v) on the diagonal of M is what makes joint friction implicit, see `step`.
        self._model = robot.model.copy()
        self._data = self._model.createData()
        self._frames = tuple(robot.frame_id(name) for name in robot.feet)
        self._radii = np.array([leg.foot.radius for leg in robot.legs.values()])
        self._clearances = self._radii + self.floor  # of the spheres' centres when they touch
        self.reset()

    # -- state -----------------------------------------------------------------------------------------------
    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Put the robot into a state, at time 0, with all sums at 0.

        Args:
            q: (nq,) configuration; ``robot.q_home`` by default.
            v: (nv,) velocity; at rest by default.

        Raises:
            ArgumentError: wrong shape or type, not finite, or a quaternion or (cos, sin) in `q` not of length 1.
        """
        robot = self.robot
        q = robot.q_home if q is None else q
        v = np.zeros(robot.nv) if v is None else v
        check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        check_unit(self._model, q)
        check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        self._q, self._v = readonly(q), readonly(v)
        self._v_before = self._v
        self._steps = 0
        self._tau = readonly(np.zeros(self.robot.nu))
        self._impulses = np.zeros((len(self._frames), 3))
        self._residual, self._status, self._work = 0.0, "free", Work()

    @property
    def q(self) -> Array:
        """Configuration (nq,), read-only."""
        return self._q

    @property
    def v(self) -> Array:
        """Velocity (nv,), read-only."""
        return self._v

    @property
    def time(self) -> float:
        """Time since the last reset [s]."""
        return self._steps * self.dt

    @property
    def tau(self) -> Array:
        """Torques of the last step after saturation (nu,) [N m], read-only."""
        return self._tau

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Mean force of the floor on each foot over the last step, (3,) on the robot, world axes [N]."""
        return {name: self._impulses[i] / self.dt for i, name in enumerate(self.robot.feet)}

    @property
    def residual(self) -> float:
        """Largest violation of the contact law in the last step, as a velocity [m/s]."""
        return self._residual

    @property
    def status(self) -> str:
        """Of the last contact solve: "free", "solved", "retried" or "inaccurate" (see `ContactSolution`)."""
        return self._status

    @property
    def work(self) -> Work:
        """Work done on the robot since the last reset."""
        return self._work

    @property
    def energy(self) -> float:
        """Mechanical energy, kinetic and potential (zero with the CoM in the plane z = 0) [J]."""
        model, data = self.robot.model, self._data
        pin.computeKineticEnergy(model, data, self._q, self._v)
        pin.computePotentialEnergy(model, data, self._q)
        return float(data.kinetic_energy + data.potential_energy)

    # -- time ------------------------------------------------------------------------------------------------
    def step(self, tau: Array) -> None:
        """Advance by dt under constant torques.

        Args:
            tau: (nu,) torques of the actuated joints [N m]; those beyond ``robot.effort_limits`` are clipped.

        Raises:
            ArgumentError: `tau` has another shape or type or is not finite.
            DivergenceError: the motion left the finite numbers; the simulation keeps its last good state.
        """
        robot, model, data, dt, q, v = self.robot, self._model, self._data, self.dt, self._q, self._v
        check_vector("tau", tau, (robot.nu,), f"nu of {robot.name}")
        tau = np.minimum(np.maximum(tau, -robot.effort_limits), robot.effort_limits)
        # M dv = dt (tau - h - f v+) and v+ = v + dv, hence (M + dt f) dv = dt (tau - h - f v).
        speed = np.maximum(np.abs(2.0 * v - self._v_before), STICTION_SPEED)  # at the end of the step, foreseen
        f = robot.damping + robot.friction / speed
        model.armature = robot.armature + dt * f
        force = -f * v
        force[robot.actuated_index] += tau
        free = v + dt * pin.aba(model, data, q, v, force)

        near, J, offset = self._contacts()
        if len(near):
            J_M_inverse = J @ pin.computeMinverse(model, data, q)
            solution = self._ground.solve(J_M_inverse @ J.T, J @ free + offset, self._impulses[near])
            after = free + solution.impulses.ravel() @ J_M_inverse
        else:
            solution, after = _NO_CONTACT, free
        if not np.abs(after).max(initial=0.0) < RUNAWAY_SPEED:  # also true of NaN
            raise DivergenceError(
                f"the simulation of {robot.name!r} diverged at t = {self.time:.6g} s; is dt = {dt:g} s too long, "
                "or are the gains too high?",
                self.time,
                self._q,
                self._v,
            )
        middle = 0.5 * (v + after)
        work = self._work
        self._work = Work(
            work.actuators + dt * float(tau @ middle[robot.actuated_index]),
            work.joints - dt * float((f * after) @ middle),
            work.contacts + float(solution.impulses.ravel() @ (J @ middle)),
        )
        self._impulses = np.zeros_like(self._impulses)
        self._impulses[near] = solution.impulses
        self._residual, self._status = solution.residual, solution.status
        self._v_before = v
        self._q, self._v, self._tau = readonly(pin.integrate(model, q, dt * after)), readonly(after), readonly(tau)
        self._steps += 1

    def _contacts(self) -> tuple[NDArray[np.intp], Array, Array]:
        """The k feet near the floor.

        Returns:
            Their indices (k,), the Jacobian of their lowest points (3k, nv) in world axes, and the velocities that
            the contact law adds to theirs (3k,) [m/s]: gap / dt, or minus the speed of recovery.
        """
        model, data, dt = self._model, self._data, self.dt
        pin.computeJointJacobians(model, data, self._q)
        pin.updateFramePlacements(model, data)
        gaps = np.array([data.oMf[frame].translation[2] for frame in self._frames]) - self._clearances
        near = np.flatnonzero(gaps < APPROACH_SPEED * dt)
        k, gap, radius = len(near), gaps[near], self._radii[near, None]
        J_feet = np.empty((k, 6, self.robot.nv))
        for i, foot in enumerate(near):
            J_feet[i] = pin.getFrameJacobian(model, data, self._frames[foot], pin.LOCAL_WORLD_ALIGNED)
        # The lowest point of the sphere: c + (0, 0, -r) moves with v + omega x (0, 0, -r).
        J_feet[:, 0] -= radius * J_feet[:, 4]
        J_feet[:, 1] += radius * J_feet[:, 3]
        offset = np.zeros((k, 3))
        offset[:, 2] = np.where(gap > 0.0, gap, np.maximum(RECOVERY_SHARE * gap, -RECOVERY_SPEED * dt)) / dt
        return near, J_feet[:, :3].reshape(3 * k, self.robot.nv), offset.ravel()


def readonly(array: Array) -> Array:
    """A read-only copy of `array`."""
    out = np.array(array, dtype=np.float64)
    out.flags.writeable = False
    return out
