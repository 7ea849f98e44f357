"""`MujocoPlant`: the same robot in MuJoCo, the independent third party."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..contact import Contact
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array, frozen
from .actuators import Actuators
from .drives import end_step, start_step
from .held_bodies import HeldBody
from .mujoco_contact import MujocoContact, contact_named
from .mujoco_model import TERRAIN_BIT, add_terrain, body_name, compiled, specification
from .plant import DIVERGENCE_SPEED, Plant, keep
from .records import ContactPoint
from .spheres import ContactSphere, located
from .terrain import Surface, Terrain

INTEGRATORS = {
    "euler": "mjINT_EULER",
    "rk4": "mjINT_RK4",
    "implicit": "mjINT_IMPLICIT",
    "implicitfast": "mjINT_IMPLICITFAST",
}
#: Speed [rad/s or m/s] and torque [N m] beyond which a step may well be the last one.
FAST, STRONG = 1e3, 1e6


class MujocoPlant(Plant, fixed=("model", "data")):
    """A robot in MuJoCo, its feet frictional spheres; starts in ``q_home`` at rest.

    The MuJoCo model is made from the robot's record: composite bodies, joints with armature, damping and Coulomb
    friction, motors within the effort limits, foot spheres with their radii.  State, torques and forces follow
    Pinocchio's conventions as in every `Plant`; MuJoCo's own (quaternion w first, base velocity in world axes) stay
    inside.

    Contacts are MuJoCo's soft ones (Todorov 2014, "Convex and analytically-invertible dynamics with contacts and
    constraints"): elliptic cones, as hard as the step allows by default; `contact` selects other parameters.  Joint
    friction is MuJoCo's too: viscous friction implicit, Coulomb's a soft constraint.  Joints that mimic others are
    MuJoCo's equality constraints, as hard as contacts are by default: they yield a little, and q and v are those of the
    joints that they follow.  So are closed loops, of which q and v are those of the independent joints.

    Args:
        robot: any `Robot`: free, planar or fixed root, with or without feet.
        dt: time step, at most 0.01 [s].
        friction: Coulomb's coefficient of surfaces without their own.
        floor: height of a level floor [m], -inf for none; by default 0, and none under a fixed root, whose feet may
            hang anywhere, or where there is a `terrain`.
        terrain: surfaces, one or several of `Plane`, `Box` and `HeightField`.
        spheres: where else than at its feet the robot can touch something, by name, such as `collision_spheres`; None:
            `body_spheres`, with which a robot that falls comes to lie; {}: its feet alone.
        actuators: the motors; by default they are perfect within the robot's effort limits.
        soles: surfaces, such as `Contact.of_sole` of each foot: their corners touch, and by default nothing else of
            these bodies; forces are those on a sole as a whole.
        held_bodies: bodies that hands of the robot hold, see `HeldBody`.
        joint_stops: whether the joints' position limits hold, softly, where the file has any.
        contact: contact parameters, a `MujocoContact` or the name of a preset: "stiff", "mujoco" (MuJoCo's defaults:
            pyramidal cones, soft contacts that creep under tangential load), "menagerie" (feet of the quadrupeds of
            MuJoCo Menagerie) or "soft" (a mat).
        time_constant: of the springs of contacts and stops, critically damped (MuJoCo's solref) [s]; by default that of
            `contact` for contacts, and elsewhere twice `dt`, the minimum that MuJoCo accepts.
        impratio: ratio of frictional to normal constraint impedance (MuJoCo's name); by default that of `contact`.
        integrator: "euler" (semi-implicit, joint damping implicit), "rk4", "implicit" or "implicitfast".

    Attributes:
        robot: as given.
        dt: as given [s].
        friction: as given.
        terrain: the `Terrain`, floor included.
        spheres: names of what can touch: the feet first, then those asked for by name.
        model: the ``mujoco.MjModel``.
        data: the ``mujoco.MjData``, whose positions are those at the start of the last step.

    Raises:
        ArgumentError: an argument is not what it must be.
        QuaddynError: MuJoCo is not installed.
    """

    _contacts: tuple[ContactPoint, ...] | None

    @renamed_parameters(held="held_bodies")
    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = NOMINAL_FRICTION,
        floor: float | None = None,
        terrain: Terrain | Surface | Iterable[Surface] | None = None,
        spheres: Mapping[str, ContactSphere] | None = None,
        actuators: Actuators | None = None,
        soles: Iterable[Contact] = (),
        held_bodies: Iterable[HeldBody] = (),
        joint_stops: bool = True,
        contact: str | MujocoContact = "stiff",
        time_constant: float | None = None,
        impratio: float | None = None,
        integrator: str = "euler",
    ) -> None:
        super().__init__(
            robot, dt=dt, friction=friction, floor=floor, terrain=terrain, spheres=spheres, actuators=actuators,
            soles=soles, held_bodies=held_bodies,
        )  # fmt: skip
        feet = contact_named(contact)
        soft = 2.0 * self.dt if time_constant is None else number("time_constant", time_constant)
        ratio = feet.impratio if impratio is None else number("impratio", impratio)
        for name, value in (("time_constant", soft), ("impratio", ratio)):
            if not (np.isfinite(value) and value > 0.0):
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        self._check_integrator(integrator, INTEGRATORS)
        self._mujoco = mujoco = import_mujoco()
        spec = specification(robot, self._spheres, self.actuators, joint_stops=bool(joint_stops))
        add_terrain(spec, self.terrain, self.friction)
        solref = [soft, 1.0] if feet.solref is None or time_constant is not None else list(feet.solref)
        for geom in spec.geoms:
            geom.condim, geom.solref, geom.solimp = feet.condim, solref, list(feet.solimp)
            geom.friction = [geom.friction[0], feet.torsional, feet.rolling]
        for joint in spec.joints:
            joint.solref_limit, joint.solref_friction = [soft, 1.0], [soft, 1.0]
        for equality in spec.equalities:
            equality.solref = [soft, 1.0]
        spec.option.timestep, spec.option.impratio = self.dt, ratio
        cones = {"elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC, "pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL}
        spec.option.cone = cones[feet.cone]
        spec.option.integrator = getattr(mujoco.mjtIntegrator, INTEGRATORS[integrator])
        spec.option.tolerance = 1e-10
        # MuJoCo would go back to its initial state by itself; here that is an error to be raised.
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        self.model, self._coordinates = compiled(spec, robot, self.actuators)
        self.data: Any = mujoco.MjData(self.model)
        self._geoms = {self.model.geom(sphere.name).id: sphere.part for sphere in self._spheres}
        self._carriers: dict[str, tuple[int, Array]] = {}
        motors = [robot.actuated[j] for j in self._drives.loose]
        self._loose_motors = np.array([self.model.actuator(name).id for name in motors], dtype=np.intp)
        self._loose_dofs = np.array([self.model.joint(name).dofadr[0] for name in motors], dtype=np.intp)
        # What MuJoCo has there less than the record: of joints that mimic them.
        at, dofs = robot.actuated_index[self._drives.loose], self._loose_dofs
        self._followed = (
            self.model.dof_armature[dofs] - self.actuators.armature[at],
            self.model.dof_damping[dofs] - self.actuators.damping[at],
            self.model.dof_frictionloss[dofs] - self.actuators.friction[at],
        )
        self.reset()

    @property
    def contacts(self) -> tuple[ContactPoint, ...]:
        """Every point that carried a force in the last step."""
        if self._contacts is None:
            self._contacts = tuple(self._touching())
        return self._contacts

    @property
    def status(self) -> str:
        """Of the last contact solve: "free", "solved", or "inaccurate" where MuJoCo's solver ran out of iterations."""
        return self._status

    def _touching(self) -> Iterator[ContactPoint]:
        wrench, found = np.zeros(6), self.data.contact
        # Parts of all contacts at once: each look at one of them costs as much.
        parts = zip(found.geom.tolist(), found.frame, found.pos, found.dist, found.friction, strict=True)
        for i, ((first, second), axes, place, distance, friction) in enumerate(parts):
            self._mujoco.mj_contactForce(self.model, self.data, i, wrench)
            if not any(wrench[:3].tolist()):
                continue
            # The first axis of the contact's frame points from the first geom to the second, on which it acts.
            sign = 1.0 if second in self._geoms else -1.0
            frame = sign * axes.reshape(3, 3)
            name = self._geoms[second if sign > 0.0 else first]
            yield ContactPoint(
                name,
                frozen(place - 0.5 * distance * frame[0]),
                frozen(frame[0]),
                frozen(frame.T @ wrench[:3]),
                float(friction[0]),
                self._link_of[name],
            )

    def _apply_friction(self) -> None:
        of_world = np.flatnonzero((self.model.geom_bodyid == 0) & (self.model.geom_contype == TERRAIN_BIT))
        for geom, surface in zip(of_world, self.terrain.surfaces, strict=True):
            self.model.geom_friction[geom, 0] = self.friction if surface.friction is None else surface.friction

    def _restart(self) -> None:
        self._mujoco.mj_resetData(self.model, self.data)
        self._coordinates.to_mujoco(self._q, self._v, self.data.qpos, self.data.qvel)
        self._contacts = ()
        self._status = "free"

    def _inner(self) -> tuple[Any, ...]:
        kind = self._mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(self._mujoco.mj_stateSize(self.model, kind))
        self._mujoco.mj_getState(self.model, self.data, state, kind)
        return state, self.contacts, self._status

    def _unlike(self, inner: tuple[Any, ...]) -> str:
        size = self._mujoco.mj_stateSize(self.model, self._mujoco.mjtState.mjSTATE_INTEGRATION)
        if len(inner) != 3 or np.shape(inner[0]) != (size,):
            found = np.shape(inner[0]) if inner else "none"
            return f"MuJoCo's state of shape {found}, here ({size},): its model was made with other arguments"
        return ""

    def _resume(self, inner: tuple[Any, ...]) -> None:
        state, self._contacts, self._status = inner
        self._mujoco.mj_setState(self.model, self.data, state, self._mujoco.mjtState.mjSTATE_INTEGRATION)

    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> Array:
        mujoco, model, data = self._mujoco, self.model, self.data
        asked, tau = np.ascontiguousarray(tau), np.empty(self.robot.nu)
        start_step(self.actuators.torque_speed_limits, self._drives, asked, self._v, self.dt, tau)
        data.ctrl[:] = tau
        data.qfrc_applied[:] = 0.0
        if len(self._loose_dofs):
            self._let_loose()
        if wrenches:
            self._apply(wrenches)
        wild = np.abs(self._v).max(initial=0.0) > FAST or np.abs(tau).max(initial=0.0) > STRONG
        with _silence(mujoco) if wild else contextlib.nullcontext():
            mujoco.mj_step(model, data)
        if not np.abs(data.qvel).max(initial=0.0) < DIVERGENCE_SPEED:  # also true of NaN
            self._restart()
            data.time = self.time
            raise self._diverged()
        q, v = np.empty(self.robot.nq), np.empty(self.robot.nv)
        self._coordinates.from_mujoco(data.qpos, data.qvel, q, v)
        end_step(self._drives, tau, self._v, v, self.dt)
        q.flags.writeable = v.flags.writeable = False
        status = "free"
        if data.ncon:
            status = "solved" if data.solver_niter.max() < model.opt.iterations else "inaccurate"
        keep(self, "_q", q)
        keep(self, "_v", v)
        keep(self, "_contacts", None)
        keep(self, "_status", status)
        return tau

    def _let_loose(self) -> None:
        """Sets inertia, friction and driving force of joints whose motors have backlash."""
        drives, model, dofs = self._drives, self.model, self._loose_dofs
        at = drives.actuated[drives.loose]
        armature, damping, friction = self._followed
        model.dof_armature[dofs] = drives.armature[at] + drives.carried[at] + armature
        model.dof_damping[dofs] = drives.damping[at] + damping
        model.dof_frictionloss[dofs] = drives.friction[at] + friction
        self.data.ctrl[self._loose_motors] = 0.0
        self.data.qfrc_applied[dofs] = drives.torque[drives.loose]

    def _apply(self, wrenches: Mapping[str, Array]) -> None:
        """Forces and moments at frames, into ``qfrc_applied``."""
        mujoco, model, data = self._mujoco, self.model, self.data
        mujoco.mj_kinematics(model, data)  # positions are those of the last step's start
        mujoco.mj_comPos(model, data)
        for name, wrench in wrenches.items():
            body, place = self._carrier(name)
            point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ place
            mujoco.mj_applyFT(model, data, wrench[:3], wrench[3:], point, body, data.qfrc_applied)

    def _carrier(self, frame: str) -> tuple[int, Array]:
        """MuJoCo's body that a frame is fixed to, and the frame's origin in it [m]."""
        if frame not in self._carriers:
            index, place, _, _ = located(self.robot, frame, np.zeros(3))
            self._carriers[frame] = self.model.body(body_name(self.robot.bodies[index])).id, place
        return self._carriers[frame]


@contextlib.contextmanager
def _silence(mujoco: Any) -> Iterator[None]:
    """No warnings of MuJoCo on the terminal and in a log file about what is about to be raised."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
