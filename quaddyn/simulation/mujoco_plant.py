"""`MujocoPlant`: a robot in MuJoCo, an independent simulator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..contact import Contact
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array, frozen
from .actuators import Actuators, end_step, start_step
from .held_bodies import HeldBody
from .mujoco_model import (
    TERRAIN_BIT,
    MujocoContact,
    add_terrain,
    body_name,
    compile_model,
    find_contact_parameters,
    make_specification,
)
from .plant import DIVERGENCE_SPEED, Plant, set_attribute
from .records import ContactPoint
from .spheres import ContactSphere, locate_point
from .terrain import Surface, Terrain

INTEGRATORS = {
    "euler": "mjINT_EULER",
    "rk4": "mjINT_RK4",
    "implicit": "mjINT_IMPLICIT",
    "implicitfast": "mjINT_IMPLICITFAST",
}
#: Speed [rad/s or m/s] and torque [N m or N] above which the next step may diverge, so that warnings are silenced.
NEAR_DIVERGENCE_SPEED, NEAR_DIVERGENCE_TORQUE = 1e3, 1e6


class MujocoPlant(Plant, fixed=("model", "data")):
    """Simulated robot in MuJoCo with frictional foot spheres; starts at rest in ``q_home``.

    The MuJoCo model is made from the `Robot` record: composite bodies, joints with armature, damping and Coulomb
    friction, motors within the effort limits, and foot spheres with their radii. State, torques and forces follow the
    conventions of Pinocchio as in every `Plant`; those of MuJoCo (quaternion w first, base velocity in world axes)
    remain internal.

    Contacts are the soft contacts of MuJoCo (Todorov 2014, "Convex and analytically-invertible dynamics with contacts
    and constraints"): elliptic cones, as hard as the time step permits by default; `contact` selects other parameters.
    Joint friction is that of MuJoCo, too: viscous friction implicit, Coulomb friction a soft constraint. Mimic joints
    and closed loops are equality constraints of MuJoCo, as hard as the default contacts, and yield slightly; q and v
    are those of the independent joints.

    Args:
        robot, dt, friction, floor, terrain: see `Plant`.
        spheres, actuators, soles, held_bodies: see `Plant`.
        joint_stops: whether the position limits of the joints hold, as soft constraints.
        contact: contact parameters: a `MujocoContact` or the name of a preset: "stiff", "mujoco" (defaults of MuJoCo:
            pyramidal cones, soft contacts that creep under tangential load), "menagerie" (feet of the quadrupeds in
            MuJoCo Menagerie) or "soft" (a mat).
        time_constant: time constant of the critically damped springs of contacts and stops (solref of MuJoCo) [s].
            None: for contacts that of `contact`, elsewhere twice `dt`, the minimum of MuJoCo.
        impratio: ratio of frictional to normal constraint impedance (name of MuJoCo), dimensionless; None: that of
            `contact`.
        integrator: "euler" (semi-implicit, joint damping implicit), "rk4", "implicit" or "implicitfast".

    Attributes:
        model: ``mujoco.MjModel`` of the robot and its terrain.
        data: ``mujoco.MjData``; its body positions are those at the start of the last step.

    Raises:
        ArgumentError: an argument has a wrong value.
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
        contact_parameters = find_contact_parameters(contact)
        spring_time = 2.0 * self.dt if time_constant is None else check_number("time_constant", time_constant)
        impedance_ratio = contact_parameters.impratio if impratio is None else check_number("impratio", impratio)
        for name, value in (("time_constant", spring_time), ("impratio", impedance_ratio)):
            if not (np.isfinite(value) and value > 0.0):
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        self._check_integrator(integrator, INTEGRATORS)
        self._contact_settings = (
            ("contact", contact if isinstance(contact, str) else str(contact)),
            ("time_constant", spring_time),
            ("impratio", impedance_ratio),
            ("integrator", integrator),
            ("joint_stops", bool(joint_stops)),
        )
        self._mujoco = mujoco = import_mujoco()
        spec = make_specification(robot, self._spheres, self.actuators, joint_stops=bool(joint_stops))
        add_terrain(spec, self.terrain, self.friction)
        solref = (
            [spring_time, 1.0]
            if contact_parameters.solref is None or time_constant is not None
            else list(contact_parameters.solref)
        )
        for geom in spec.geoms:
            geom.condim, geom.solref, geom.solimp = contact_parameters.condim, solref, list(contact_parameters.solimp)
            geom.friction = [geom.friction[0], contact_parameters.torsional, contact_parameters.rolling]
        for joint in spec.joints:
            joint.solref_limit, joint.solref_friction = [spring_time, 1.0], [spring_time, 1.0]
        for equality in spec.equalities:
            equality.solref = [spring_time, 1.0]
        spec.option.timestep, spec.option.impratio = self.dt, impedance_ratio
        cones = {"elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC, "pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL}
        spec.option.cone = cones[contact_parameters.cone]
        spec.option.integrator = getattr(mujoco.mjtIntegrator, INTEGRATORS[integrator])
        spec.option.tolerance = 1e-10
        # MuJoCo would reset a diverged state; this plant raises an error instead.
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        self.model, self._coordinates = compile_model(spec, robot, self.actuators)
        self.data: Any = mujoco.MjData(self.model)
        self._geoms = {self.model.geom(sphere.name).id: sphere.reported_name for sphere in self._spheres}
        self._body_of_frame: dict[str, tuple[int, Array]] = {}
        motors = [robot.actuated[j] for j in self._drives.backlash_motors]
        self._backlash_motors = np.array([self.model.actuator(name).id for name in motors], dtype=np.intp)
        self._backlash_dofs = np.array([self.model.joint(name).dofadr[0] for name in motors], dtype=np.intp)
        # Inertia and friction of mimic joints, which MuJoCo adds to those of the joint that they follow.
        motor_dofs, dofs = robot.actuated_index[self._drives.backlash_motors], self._backlash_dofs
        self._mimic_losses = (
            self.model.dof_armature[dofs] - self.actuators.armature[motor_dofs],
            self.model.dof_damping[dofs] - self.actuators.damping[motor_dofs],
            self.model.dof_frictionloss[dofs] - self.actuators.friction[motor_dofs],
        )
        self.reset()

    @property
    def contacts(self) -> tuple[ContactPoint, ...]:
        """Contact points with a nonzero force in the last step."""
        if self._contacts is None:
            self._contacts = tuple(self._read_contacts())
        return self._contacts

    @property
    def status(self) -> str:
        """Status of the last step.

        "free": no contact; "solved"; "inaccurate": the solver of MuJoCo ran out of iterations.
        """
        return self._status

    def _read_contacts(self) -> Iterator[ContactPoint]:
        """Yields the contact points with a nonzero force from MuJoCo's data."""
        wrench, mujoco_contacts = np.zeros(6), self.data.contact
        # Read for all contacts at once, since each access costs the same.
        contact_rows = zip(
            mujoco_contacts.geom.tolist(),
            mujoco_contacts.frame,
            mujoco_contacts.pos,
            mujoco_contacts.dist,
            mujoco_contacts.friction,
            strict=True,
        )
        for i, ((first, second), axes, position, distance, friction) in enumerate(contact_rows):
            self._mujoco.mj_contactForce(self.model, self.data, i, wrench)
            if not any(wrench[:3].tolist()):
                continue
            # The first axis of the contact's frame points from the first geom to the second, on which it acts.
            sign = 1.0 if second in self._geoms else -1.0
            frame = sign * axes.reshape(3, 3)
            name = self._geoms[second if sign > 0.0 else first]
            yield ContactPoint(
                name,
                frozen(position - 0.5 * distance * frame[0]),
                frozen(frame[0]),
                frozen(frame.T @ wrench[:3]),
                float(friction[0]),
                self._link_of_sphere[name],
            )

    def _apply_friction(self) -> None:
        terrain_geoms = np.flatnonzero((self.model.geom_bodyid == 0) & (self.model.geom_contype == TERRAIN_BIT))
        for geom, surface in zip(terrain_geoms, self.terrain.surfaces, strict=True):
            self.model.geom_friction[geom, 0] = self.friction if surface.friction is None else surface.friction

    def _reset_internal_state(self) -> None:
        self._mujoco.mj_resetData(self.model, self.data)
        self._coordinates.to_mujoco(self._q, self._v, self.data.qpos, self.data.qvel)
        self._contacts = ()
        self._status = "free"

    def _copy_internal_state(self) -> tuple[Any, ...]:
        kind = self._mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(self._mujoco.mj_stateSize(self.model, kind))
        self._mujoco.mj_getState(self.model, self.data, state, kind)
        return state, self.contacts, self._status

    def _describe_state_difference(self, inner: tuple[Any, ...]) -> str:
        size = self._mujoco.mj_stateSize(self.model, self._mujoco.mjtState.mjSTATE_INTEGRATION)
        if len(inner) != 3 or np.shape(inner[0]) != (size,):
            shape = np.shape(inner[0]) if inner else "none"
            return (
                f"its MuJoCo state has shape {shape}, in this plant ({size},), because the models were made "
                "with other arguments"
            )
        return ""

    def _restore_internal_state(self, inner: tuple[Any, ...]) -> None:
        state, self._contacts, self._status = inner
        self._mujoco.mj_setState(self.model, self.data, state, self._mujoco.mjtState.mjSTATE_INTEGRATION)

    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> Array:
        mujoco, model, data = self._mujoco, self.model, self.data
        commanded, tau = np.ascontiguousarray(tau), np.empty(self.robot.nu)
        start_step(self.actuators.torque_speed_limits, self._drives, commanded, self._v, self.dt, tau)
        data.ctrl[:] = tau
        data.qfrc_applied[:] = 0.0
        if len(self._backlash_dofs):
            self._apply_backlash()
        if wrenches:
            self._apply_wrenches(wrenches)
        may_diverge = (
            np.abs(self._v).max(initial=0.0) > NEAR_DIVERGENCE_SPEED
            or np.abs(tau).max(initial=0.0) > NEAR_DIVERGENCE_TORQUE
        )
        with _silence(mujoco) if may_diverge else contextlib.nullcontext():
            mujoco.mj_step(model, data)
        if not np.abs(data.qvel).max(initial=0.0) < DIVERGENCE_SPEED:  # also true of NaN
            self._reset_internal_state()
            data.time = self.time
            raise self._make_divergence_error()
        q, v = np.empty(self.robot.nq), np.empty(self.robot.nv)
        self._coordinates.from_mujoco(data.qpos, data.qvel, q, v)
        end_step(self._drives, tau, self._v, v, self.dt)
        q.flags.writeable = v.flags.writeable = False
        status = "free"
        if data.ncon:
            status = "solved" if data.solver_niter.max() < model.opt.iterations else "inaccurate"
        set_attribute(self, "_q", q)
        set_attribute(self, "_v", v)
        set_attribute(self, "_contacts", None)
        set_attribute(self, "_status", status)
        return tau

    def _apply_backlash(self) -> None:
        """Sets the inertia, friction and driving force of joints whose motors have backlash."""
        drives, model, dofs = self._drives, self.model, self._backlash_dofs
        motor_dofs = drives.actuated[drives.backlash_motors]
        armature, damping, friction = self._mimic_losses
        model.dof_armature[dofs] = drives.armature[motor_dofs] + drives.coupled_inertia[motor_dofs] + armature
        model.dof_damping[dofs] = drives.damping[motor_dofs] + damping
        model.dof_frictionloss[dofs] = drives.friction[motor_dofs] + friction
        self.data.ctrl[self._backlash_motors] = 0.0
        self.data.qfrc_applied[dofs] = drives.torque[drives.backlash_motors]

    def _apply_wrenches(self, wrenches: Mapping[str, Array]) -> None:
        """Writes forces and moments (6,) at the origins of frames to ``qfrc_applied``."""
        mujoco, model, data = self._mujoco, self.model, self.data
        mujoco.mj_kinematics(model, data)  # positions are those of the last step's start
        mujoco.mj_comPos(model, data)
        for name, wrench in wrenches.items():
            body, frame_origin = self._find_body(name)
            point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ frame_origin
            mujoco.mj_applyFT(model, data, wrench[:3], wrench[3:], point, body, data.qfrc_applied)

    def _find_body(self, frame: str) -> tuple[int, Array]:
        """Returns the MuJoCo body that carries a frame, and the origin of the frame in it (3,) [m]."""
        if frame not in self._body_of_frame:
            index, frame_origin, _, _ = locate_point(self.robot, frame, np.zeros(3))
            self._body_of_frame[frame] = self.model.body(body_name(self.robot.bodies[index])).id, frame_origin
        return self._body_of_frame[frame]


@contextlib.contextmanager
def _silence(mujoco: Any) -> Iterator[None]:
    """Suppresses MuJoCo's warnings on the terminal and in its log file within the ``with`` block."""
    previous_handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(previous_handler)
