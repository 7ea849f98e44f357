"""`MujocoPlant`: the same robot in MuJoCo, the independent third party."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contact.solvers import MAX_FRICTION
from ..errors import ArgumentError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .mujoco_model import ROBOT_BIT, TERRAIN_BIT, compiled, import_mujoco, specification
from .plant import RUNAWAY_SPEED, Plant, floor_height, readonly

INTEGRATORS = {"euler": "mjINT_EULER", "implicit": "mjINT_IMPLICIT", "implicitfast": "mjINT_IMPLICITFAST"}


class MujocoPlant(Plant):
    """A robot on a horizontal plane in MuJoCo, its feet frictional spheres; starts in ``q_home`` at rest.

    The MuJoCo model is made from the robot's record: composite bodies, joints with armature, damping and Coulomb
    friction, motors within the effort limits, foot spheres with their radii.  State, torques and forces follow
    Pinocchio's conventions as in every `Plant`; MuJoCo's own (quaternion w first, base velocity in world axes) stay
    inside.

    Contacts are MuJoCo's soft ones (Todorov 2014, "Convex and analytically-invertible dynamics with contacts and
    constraints"): elliptic cones, as hard as the step allows by default.

    Args:
        robot: any `Robot`: free, planar or fixed root, with or without feet.
        dt: time step [s].
        friction: Coulomb's coefficient between feet and floor.
        floor: height of the floor [m], -inf for none; by default 0, and none under a fixed root, whose feet may
            hang anywhere.
        joint_stops: the joints' position limits hold, softly.
        time_constant: of the contacts' and stops' springs, critically damped (MuJoCo's solref) [s]; twice `dt` by
            default, the least that MuJoCo takes.
        impratio: how much harder friction is than the normal direction (MuJoCo's name).
        integrator: "euler" (semi-implicit, joint damping implicit), "implicit" or "implicitfast".

    Attributes:
        robot: as given.
        dt: as given [s].
        friction: as given.
        floor: height of the floor [m].
        model: the ``mujoco.MjModel``.
        data: the ``mujoco.MjData``, whose positions are those at the start of the last step.

    Raises:
        ArgumentError: an option out of range.
        QuaddynError: MuJoCo is not installed.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = 0.6,
        floor: float | None = None,
        joint_stops: bool = False,
        time_constant: float | None = None,
        impratio: float = 100.0,
        integrator: str = "euler",
    ) -> None:
        super().__init__(robot, dt)
        self.friction, self.floor = number("friction", friction), floor_height(robot, floor)
        if not 0.0 <= self.friction <= MAX_FRICTION:
            raise ArgumentError(f"friction: expected a coefficient between 0 and {MAX_FRICTION:g}, got {friction}")
        soft = 2.0 * self.dt if time_constant is None else number("time_constant", time_constant)
        for name, value in (("time_constant", soft), ("impratio", number("impratio", impratio))):
            if not (np.isfinite(value) and value > 0.0):
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        if integrator not in INTEGRATORS:
            raise ArgumentError(f"integrator: expected one of {', '.join(INTEGRATORS)}, got {integrator!r}")
        self._mujoco = mujoco = import_mujoco()
        spec, _ = specification(robot, joint_stops=bool(joint_stops))
        if np.isfinite(self.floor):
            spec.worldbody.add_geom(
                name="floor",
                type=mujoco.mjtGeom.mjGEOM_PLANE,
                size=[0.0, 0.0, 1.0],
                pos=[0.0, 0.0, self.floor],
                contype=TERRAIN_BIT,
                conaffinity=ROBOT_BIT,
            )
        for geom in spec.geoms:
            geom.condim, geom.friction, geom.solref = 3, [self.friction, 0.0, 0.0], [soft, 1.0]
        for joint in spec.joints:
            joint.solref_limit, joint.solref_friction = [soft, 1.0], [soft, 1.0]
        spec.option.timestep, spec.option.impratio = self.dt, impratio
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.integrator = getattr(mujoco.mjtIntegrator, INTEGRATORS[integrator])
        spec.option.tolerance = 1e-10
        # MuJoCo would go back to its initial state by itself; here that is an error to be raised.
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        self.model, self._coordinates = compiled(spec, robot)
        self.data: Any = mujoco.MjData(self.model)
        self._feet = {self.model.geom(name).id: name for name in robot.feet}
        self.reset()

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Mean force of the ground on each foot over the last step, (3,) on the robot, world axes [N]."""
        forces = {name: np.zeros(3) for name in self.robot.feet}
        if self._steps:
            wrench = np.zeros(6)
            for i, contact in enumerate(self.data.contact[: self.data.ncon]):
                self._mujoco.mj_contactForce(self.model, self.data, i, wrench)
                # The first axis of the contact's frame points from the first geom to the second, on which it acts.
                force = contact.frame.reshape(3, 3).T @ wrench[:3]
                for geom, sign in zip(contact.geom.tolist(), (-1.0, 1.0), strict=True):
                    if geom in self._feet:
                        forces[self._feet[geom]] += sign * force
        return forces

    @property
    def status(self) -> str:
        """Of the last contact solve: "free", "solved", or "inaccurate" where MuJoCo's solver ran out of iterations."""
        if not self._steps or not self.data.ncon:
            return "free"
        return "solved" if int(np.max(self.data.solver_niter)) < self.model.opt.iterations else "inaccurate"

    def _restart(self) -> None:
        self._mujoco.mj_resetData(self.model, self.data)
        self._coordinates.to_mujoco(self._q, self._v, self.data.qpos, self.data.qvel)

    def _advance(self, tau: Array) -> None:
        mujoco, model, data = self._mujoco, self.model, self.data
        data.ctrl[:] = tau
        mujoco.mj_step(model, data)
        if not np.abs(data.qvel).max(initial=0.0) < RUNAWAY_SPEED:  # also true of NaN
            time = data.time - self.dt
            self._restart()
            data.time = time
            raise self._diverged()
        q, v = np.empty(self.robot.nq), np.empty(self.robot.nv)
        self._coordinates.from_mujoco(data.qpos, data.qvel, q, v)
        self._q, self._v = readonly(q), readonly(v)
