"""`MujocoInterface`: access to a robot in an existing MuJoCo model, by the names of its joints."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, ArgumentTypeError, ModelError, UnknownNameError
from ..robot.arguments import Numbers, check_vector
from ..robot.robot import Robot
from ..simulation.mujoco_model import MujocoCoordinateMap, make_coordinate_map
from ..simulation.sensors import Observable, Sensors
from ..urdf.mjcf import ActuatorIndices, import_mujoco
from ..urdf.tree import Array, frozen
from .motor_command import MotorCommand
from .simulated_interface import SimulatedInterface

#: Maximum position error of a joint, divided by the size of the robot, and minimum cosine of the angle between axes.
MAX_POSITION_ERROR, MIN_AXIS_COSINE = 0.05, 0.95
#: Maximum differences of mass and gravity, and of a torque limit below that of the robot, as fractions.
MAX_MASS_ERROR, MAX_GRAVITY_ERROR, MAX_LIMIT_ERROR = 0.05, 0.01, 0.01


class MujocoInterface(SimulatedInterface, Observable, fixed=("model", "data", "base", "prefix")):
    """Robot in an MjModel and MjData of the user: state, sensors and motors in the order and conventions of quaddyn.

    Joints are found by name, in any order, and the model may have other bodies.  The conventions of MuJoCo are
    converted: quaternions with w first, a base velocity in world axes, angles for continuous joints, and
    joint coordinates with another zero (``qpos0``, from ``ref`` in MJCF).

    Torques are applied by the motors at the joints, divided by their gears; at a joint without an actuator, the torque
    is applied as a generalized force.

    To step MuJoCo directly, use `state`, `read` and `write`, and call `write` before each ``mj_step``; `step` does
    both.

    Args:
        robot: the robot of the model, with the same joint names.
        model: the ``mujoco.MjModel``.
        data: an ``mujoco.MjData`` of `model`.
        base: name of the body that is the root link of the robot; None: the parent body with a free joint, or, for a
            fixed root, the parent body of the first joint.
        prefix: prefix of the joint names in the model, if it has several robots.
        sensors: sensors of `read`; None: perfect sensors, including feet.
        check: whether positions and axes of the joints must match those of the robot, and mass, gravity and torque
            limits are compared; otherwise only names must match.

    Attributes:
        model: the MuJoCo model.
        data: the MuJoCo data; its state is read at every call.
        base: name of the root body, also if the argument is None.

    Raises:
        ArgumentError: an argument of a wrong type, or data of another model.
        UnknownNameError: a joint or body that the model does not have.
        ModelError: a joint of another type, position or axis, or an actuator that is a servo instead of a motor.

    Warns:
        RuntimeWarning: mass or gravity differ from those of the robot, or motors have lower torque limits.
    """

    def __init__(
        self,
        robot: Robot,
        model: Any,
        data: Any,
        *,
        base: str | None = None,
        prefix: str = "",
        sensors: Sensors | None = None,
        check: bool = True,
    ) -> None:
        self._mujoco = mujoco = import_mujoco()
        for name, value, kind in (
            ("robot", robot, Robot),
            ("model", model, mujoco.MjModel),
            ("data", data, mujoco.MjData),
        ):
            if not isinstance(value, kind):
                raise ArgumentTypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
        if (data.qpos.size, data.qvel.size) != (model.nq, model.nv):
            raise ArgumentError(
                f"data: expected MjData of the given model, with nq = {model.nq}, got nq = {data.qpos.size}"
            )
        super().__init__(robot, sensors)
        self.model, self.data, self.prefix = model, data, prefix
        body, root = self._find_root(base)
        self.base = model.body(body).name
        self._coordinates = self._match_coordinates(body, root, check=check)
        actuators = [self._find_motor(name) for name in robot.actuated]
        first_controls = ActuatorIndices.of_model(model).first_control
        self._motors = [None if found is None else (int(first_controls[found[0]]), found[1]) for found in actuators]
        if check and (differences := self._differences(body, actuators)):
            warnings.warn(
                f"model: differs from {robot.name!r}: {'; '.join(differences)}. Change one of them, or pass "
                "check=False",
                RuntimeWarning,
                stacklevel=3,
            )
        self._joints_without_motor = [i for i, motor in enumerate(self._motors) if motor is None]
        self._dof_addresses = [int(model.joint(prefix + name).dofadr[0]) for name in robot.actuated]
        self._feet_by_body = {
            int(model.jnt_bodyid[model.joint(prefix + leg.joints[-1]).id]): foot for foot, leg in robot.legs.items()
        }
        self._tau = frozen(np.zeros(robot.nu))

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def simulator(self) -> Observable:
        """This object, which has the state."""
        return self

    @property
    def q(self) -> Array:
        """(nq,) present configuration."""
        return self.state()[0]

    @property
    def v(self) -> Array:
        """(nv,) present velocity, of the base in base axes."""
        return self.state()[1]

    @property
    def time(self) -> float:
        """Time of the simulation [s]."""
        return float(self.data.time)

    @property
    def step_time(self) -> float:
        """Time step of the model [s]."""
        return float(self.model.opt.timestep)

    @property
    def tau(self) -> Array:
        """(nu,) torques of the last `write` or `step` [N m]."""
        return self._tau

    def state(self) -> tuple[Array, Array]:
        """Returns the present state, q (nq,) and v (nv,), for ``Dynamics.update``."""
        q, v = np.empty(self.robot.nq), np.empty(self.robot.nv)
        self._coordinates.from_mujoco(self.data.qpos, self.data.qvel, q, v)
        return q, v

    def set_state(self, q: Numbers, v: Numbers | None = None) -> None:
        """Sets the state of the robot; everything else in the data remains.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity; None: zero.

        Raises:
            ArgumentError: a wrong shape, or not finite.
        """
        robot = self.robot
        q = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        v = check_vector("v", np.zeros(robot.nv) if v is None else v, (robot.nv,), f"nv of {robot.name}")
        self._coordinates.to_mujoco(q, v, self.data.qpos, self.data.qvel)
        self._mujoco.mj_forward(self.model, self.data)

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Contact force (3,) on the last link of each leg at the last step, by foot, world axes [N]."""
        forces, wrench = {foot: np.zeros(3) for foot in self.robot.feet}, np.zeros(6)
        model, data = self.model, self.data
        for i, contact in enumerate(data.contact[: data.ncon]):
            self._mujoco.mj_contactForce(model, data, i, wrench)
            # The first axis of the contact's frame points from the first geom to the second, on which it acts.
            force = contact.frame.reshape(3, 3).T @ wrench[:3]
            for geom, sign in zip(contact.geom.tolist(), (-1.0, 1.0), strict=True):
                body = int(model.geom_bodyid[geom]) if geom >= 0 else 0
                while (
                    body not in self._feet_by_body and body and not model.body_jntnum[body]
                ):  # a foot may be a separate body
                    body = int(model.body_parentid[body])
                if body in self._feet_by_body:
                    forces[self._feet_by_body[body]] += sign * force
        return forces

    # -- motion ----------------------------------------------------------------------------------------------
    def write(self, command: MotorCommand) -> None:
        """Sets the command of the motors, and writes its torques at the present state to the data.

        Raises:
            ArgumentError: see `MotorCommand.validated`.
        """
        super().write(command)
        self._apply()

    def step(self) -> None:
        """Performs ``mj_step`` under the last command."""
        self._apply()
        self._mujoco.mj_step(self.model, self.data)

    def _apply(self) -> None:
        """Writes the torques of the last command at the present state to the data."""
        tau = np.clip(self.commanded_torque(), -self.robot.effort_limits, self.robot.effort_limits)
        for value, motor, dof in zip(tau.tolist(), self._motors, self._dof_addresses, strict=True):
            if motor is None:
                self.data.qfrc_applied[dof] = value
            else:
                self.data.ctrl[motor[0]] = value / motor[1]
        self._tau = frozen(tau)

    # -- what the model is -----------------------------------------------------------------------------------
    def _find_root(self, base: str | None) -> tuple[int, int]:
        """Returns the index of the root body and of its free joint; -1 for a root without a free joint."""
        robot, model = self.robot, self.model
        names = [model.joint(j).name for j in range(model.njnt)]
        first = next((b.joint.name for b in robot.bodies[1:] if b.joint is not None and b.joint.nv == 1), None)
        if base is not None:
            bodies = [model.body(b).name for b in range(model.nbody)]
            if base not in bodies:
                raise UnknownNameError("MuJoCo body", base, bodies)
            body = int(model.body(base).id)
        elif first is None:
            raise ArgumentError(
                f"base: required, since {robot.name!r} has no joint to find its root body by; pass the name of the body"
            )
        else:
            if self.prefix + first not in names:
                raise UnknownNameError("MuJoCo joint", self.prefix + first, names)
            body = int(model.body_parentid[model.jnt_bodyid[model.joint(self.prefix + first).id]])
            while robot.root == "free" and body and self._find_free_joint(body) is None:
                body = int(model.body_parentid[body])
        if robot.root != "free":
            return body, -1
        joint = self._find_free_joint(body)
        if joint is None:
            raise ModelError(
                f"MuJoCo model: {model.body(body).name!r} has no free joint, which root='free' of {robot.name!r} "
                "needs; add one to its root body, or load the robot with root='fixed'"
            )
        return body, joint

    def _find_free_joint(self, body: int) -> int | None:
        """Returns the index of the free joint of a body; None without one."""
        model = self.model
        for j in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
            if int(model.jnt_type[j]) == int(self._mujoco.mjtJoint.mjJNT_FREE):
                return j
        return None

    def _match_coordinates(self, body: int, root: int, *, check: bool) -> MujocoCoordinateMap:
        """Returns the coordinate map under which the joints of model and robot coincide best.

        Raises:
            ModelError: a joint is elsewhere under all maps.
        """
        robot, model = self.robot, self.model
        is_hinge_or_slide = model.jnt_type >= int(self._mujoco.mjtJoint.mjJNT_SLIDE)
        file_pose = np.zeros(model.nq)
        file_pose[model.jnt_qposadr[is_hinge_or_slide]] = model.qpos0[model.jnt_qposadr[is_hinge_or_slide]]
        # The attribute ref of MJCF is the coordinate in the pose of the file. The zero of the robot is that pose,
        # or the zero of the coordinate.
        zeros = file_pose, np.zeros(model.nq)
        maps = [make_coordinate_map(model, robot, root_joint=root, prefix=self.prefix, zero=zero) for zero in zeros]
        if not check:
            return maps[0]
        mismatches = [self._mismatch(way, body) for way in (maps if file_pose.any() else maps[:1])]
        best = min(range(len(mismatches)), key=lambda k: mismatches[k][0])
        _, distance, cosine, joint = mismatches[best]
        if distance > MAX_POSITION_ERROR or cosine < MIN_AXIS_COSINE:
            angle = np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0)))
            raise ModelError(
                f"MuJoCo joint {joint!r}: does not match {robot.name!r}: distance {100.0 * distance:.0f} % of the size "
                f"of the robot, axes {angle:.0f} degrees apart; check that robot and base are the same as in the "
                "model, or pass check=False to compare only names"
            )
        return maps[best]

    def _mismatch(self, coordinate_map: MujocoCoordinateMap, body: int) -> tuple[float, float, float, str]:
        """Returns the total distance of all joints, then distance, axis cosine and name of the worst joint."""
        robot, model = self.robot, self.model
        data, pin_data = self._mujoco.MjData(model), robot.model.createData()
        worst = (-1.0, 0.0, 1.0, "")
        total = 0.0
        for q in (robot.q_home, robot.random_configuration(0)):
            coordinate_map.to_mujoco(q, np.zeros(robot.nv), data.qpos, data.qvel)
            self._mujoco.mj_kinematics(model, data)
            self._mujoco.mj_comPos(model, data)
            robot.algorithms.forwardKinematics(robot.model, pin_data, q)
            base, R = data.xpos[body], data.xmat[body].reshape(3, 3)
            root = pin.updateFramePlacement(robot.model, pin_data, robot.frame_id(robot.bodies[0].name))
            lengths, joint_errors = [1e-3], []
            for link in robot.bodies[1:]:
                joint = link.joint
                if joint is None or joint.nv != 1:
                    continue
                placement = root.actInv(pin_data.oMi[robot.model.getJointId(joint.name)])
                j = model.joint(self.prefix + joint.name).id
                axis, mujoco_axis = placement.rotation @ joint.axis, R.T @ data.xaxis[j]
                offset = placement.translation - R.T @ (data.xanchor[j] - base)
                # The position of a hinge along its axis is arbitrary, and so is the position of a slide.
                distance = 0.0 if joint.type == "prismatic" else float(np.linalg.norm(np.cross(axis, offset)))
                com = R.T @ (data.xipos[model.jnt_bodyid[j]] - base)
                total += distance + float(np.linalg.norm(placement.act(link.inertial.com) - com))
                lengths.append(float(np.linalg.norm(placement.translation)))
                joint_errors.append((distance, float(axis @ mujoco_axis), joint.name))
            for distance, cosine, name in joint_errors:
                relative_distance = distance / max(lengths)
                if (score := relative_distance / MAX_POSITION_ERROR + (1.0 - cosine) / (1.0 - MIN_AXIS_COSINE)) > worst[
                    0
                ]:
                    worst = score, relative_distance, cosine, name
        return total, *worst[1:]

    def _differences(self, body: int, actuators: list[tuple[int, float] | None]) -> list[str]:
        """Returns the differences in mass, gravity and torque limits between the model and the robot, in words.

        Args:
            body: index of the root body.
            actuators: index and gear of the motor of each actuated joint, None for a joint without a motor.
        """
        robot, model = self.robot, self.model
        joints = [model.joint(self.prefix + name).id for name in robot.actuated]
        # The root link of a robot with a fixed root may be part of MuJoCo's world body.
        is_free = robot.root == "free"
        is_part = np.zeros(model.nbody, dtype=bool)
        is_part[[body] if is_free else model.jnt_bodyid[joints]] = True
        for b in range(1, model.nbody):  # parents precede their children
            is_part[b] |= is_part[model.body_parentid[b]]
        mass = float(model.body_mass[is_part].sum())
        robot_mass = sum(link.inertial.mass for link in robot.bodies[0 if is_free else 1 :])
        differences = []
        if abs(mass - robot_mass) > MAX_MASS_ERROR * robot_mass:
            which = "mass" if is_free else "moving mass"
            differences.append(f"its {which} is {mass:.4g} kg instead of {robot_mass:.4g} kg")
        is_weightless = model.opt.disableflags & int(self._mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        gravity = np.zeros(3) if is_weightless else np.array(model.opt.gravity)
        robot_gravity = robot.model.gravity.linear
        if np.linalg.norm(gravity - robot_gravity) > MAX_GRAVITY_ERROR * np.linalg.norm(robot_gravity):
            differences.append(f"its gravity is {gravity.tolist()} m/s^2 instead of {robot_gravity.tolist()} m/s^2")
        limits = []
        for name, joint, actuator, effort in zip(
            robot.actuated, joints, actuators, robot.effort_limits.tolist(), strict=True
        ):
            ranges = [model.jnt_actfrcrange[joint]] if model.jnt_actfrclimited[joint] else []
            if actuator is not None:
                i, gear = actuator
                control = int(ActuatorIndices.of_model(model).first_control[i])
                if model.actuator_ctrllimited[control]:
                    ranges.append(gear * model.actuator_ctrlrange[control])
                if model.actuator_forcelimited[i]:
                    ranges.append(gear / model.actuator_gainprm[i, 0] * model.actuator_forcerange[i])
            limit = min((float(np.abs(ends).min()) for ends in ranges), default=np.inf)
            if limit < (1.0 - MAX_LIMIT_ERROR) * effort:
                limits.append(f"{name} {limit:.4g} instead of {effort:.4g}")
        if limits:
            more = f" and {len(limits) - 3} more" if len(limits) > 3 else ""
            differences.append(f"its motors have lower torque limits [N m or N]: {', '.join(limits[:3])}{more}")
        return differences

    def _find_motor(self, name: str) -> tuple[int, float] | None:
        """Returns index and gear of the actuator at a joint, which is a motor; None without one."""
        model, mujoco = self.model, self._mujoco
        joint = model.joint(self.prefix + name).id
        joint_transmissions = {int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)}
        indices = ActuatorIndices.of_model(model)
        for i in range(len(model.actuator_trntype)):
            if int(model.actuator_trntype[i]) not in joint_transmissions or model.actuator_trnid[i, 0] != joint:
                continue
            is_motor = int(model.actuator_gaintype[i]) == int(mujoco.mjtGain.mjGAIN_FIXED)
            is_motor = is_motor and int(model.actuator_biastype[i]) == int(mujoco.mjtBias.mjBIAS_NONE)
            gain = float(model.actuator_gear[indices.first_output[i], 0] * model.actuator_gainprm[i, 0])
            if not is_motor or gain == 0.0:
                raise ModelError(
                    f"MuJoCo actuator {model.actuator(i).name!r}: expected a motor at joint {name!r}, whose torque is "
                    "proportional to ctrl, with a gear that is not 0; replace it by <motor>, or remove it"
                )
            return i, gain
        return None
