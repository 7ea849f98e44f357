"""`Simulation`: a robot on a flat, dry floor, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..contact.solvers import MAX_FRICTION, ContactProblem, FrictionalSolver
from ..errors import ArgumentError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .plant import RUNAWAY_SPEED, Plant, floor_height, readonly

#: A foot takes part in the contact problem when it could reach the floor within one step at this speed [m/s].
APPROACH_SPEED = 20.0
#: Share of a penetration undone per step, and the largest speed of doing so [m/s].
RECOVERY_SHARE, RECOVERY_SPEED = 0.1, 0.1
#: Below this joint speed Coulomb friction turns into viscous friction [rad/s or m/s].
STICTION_SPEED = 1e-3

_NO_CONTACT = FrictionalSolver().solve(ContactProblem(np.zeros((0, 0)), np.zeros(0), 0.0))


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


class Simulation(Plant):
    """A robot on a rigid horizontal plane, its feet dry frictional spheres; starts in ``q_home`` at rest.

    Time stepping in the manner of Stewart and Trinkle (1996) and Anitescu and Potra (1997), velocities first:

        M(q) (v+ - v) = dt (S^T tau - h(q, v) - f v+) + J^T lambda,      q+ = q (+) dt v+,

    where lambda are the contact impulses over the step (`FrictionalSolver`).  Each foot i near the floor obeys
    ``v_n+ >= -gap / dt``: it may close its gap within the step but not pass through; a penetration is undone
    slowly (a tenth a step, at 0.1 m/s at most), so that it adds next to no energy.  Impacts are inelastic.

    Joint friction is implicit, f = damping + friction / max(|v*|, 1 mm/s or mrad/s) with v* the velocity foreseen for
    the end of the step (as much beyond v as v is beyond the one before), hence stable for any coefficient and never
    a source of energy.  Coulomb friction is exact in steady sliding and at steady acceleration; where it should
    stick it creeps, at 1 mrad/s at most.  Torques saturate at ``robot.effort_limits``.  Joint stops, and contact of
    anything but the feet, are not modelled.

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
        super().__init__(robot, dt)
        if contact != "frictional":
            raise ArgumentError(f'contact: expected "frictional", got {contact!r}')
        self.floor, self.friction = floor_height(robot, floor), number("friction", friction)
        if not 0.0 <= self.friction <= MAX_FRICTION:
            raise ArgumentError(f"friction: expected a coefficient between 0 and {MAX_FRICTION:g}, got {friction}")
        self._ground = FrictionalSolver()
        # A private model: dt f(v) on the diagonal of M is what makes joint friction implicit, see `step`.
        self._model = robot.model.copy()
        self._data = self._model.createData()
        self._frames = tuple(robot.frame_id(name) for name in robot.feet)
        self._radii = np.array([leg.foot.radius for leg in robot.legs.values()])
        self._clearances = self._radii + self.floor  # of the spheres' centres when they touch
        self.reset()

    # -- state -----------------------------------------------------------------------------------------------
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

    # -- time ------------------------------------------------------------------------------------------------
    def _restart(self) -> None:
        self._v_before = self._v
        self._impulses = np.zeros((len(self._frames), 3))
        self._residual, self._status, self._work = 0.0, "free", Work()

    def _advance(self, tau: Array) -> None:
        robot, model, data, dt, q, v = self.robot, self._model, self._data, self.dt, self._q, self._v
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
            problem = ContactProblem(
                J_M_inverse @ J.T, J @ free + offset, self.friction, guess=np.ascontiguousarray(self._impulses[near])
            )
            solution = self._ground.solve(problem)
            after = free + solution.impulses.ravel() @ J_M_inverse
        else:
            solution, after = _NO_CONTACT, free
        if not np.abs(after).max(initial=0.0) < RUNAWAY_SPEED:  # also true of NaN
            raise self._diverged()
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
        self._q, self._v = readonly(pin.integrate(model, q, dt * after)), readonly(after)

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
