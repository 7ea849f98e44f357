"""`MujocoInterface`: any MuJoCo model and data as a robot, by the names of its joints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, ArgumentTypeError, ModelError, UnknownNameError
from ..robot.arguments import Numbers, check_vector
from ..robot.robot import Robot
from ..simulation.mujoco_model import MujocoCoordinateMap, make_coordinate_map
from ..simulation.sensors import Observable, Sensors
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array, frozen
from .motor_command import MotorCommand
from .simulated_interface import SimulatedInterface

#: How far joints may lie from where the robot has them, as a share of its size, and how far axes may turn (cosine).
MISPLACED, TURNED = 0.05, 0.95


class MujocoInterface(SimulatedInterface, Observable, fixed=("model", "data", "base", "prefix")):
    """A MuJoCo model and data of one's own as a robot: state, sensors and motors in quaddyn's order and conventions.

    Joints are found by name, in whatever order the model has them, beside whatever else is in it.  MuJoCo's
    conventions stay inside: quaternions with w first, a base velocity in world axes, angles for continuous joints, and
    coordinates that are not zero where the robot's are (``qpos0``, from ``ref`` in MJCF).

    Torques go to the motors at the joints, divided by their gears; a joint without an actuator gets its torque as a
    generalized force.

    To step MuJoCo directly, use `state`, `read` and `write`, and call `write` before each ``mj_step``; `step` does
    both.

    Args:
        robot: the same machine as in the model, with the same names of joints.
        model: an ``mujoco.MjModel``.
        data: an ``mujoco.MjData`` of it.
        base: name of the body that is the robot's root link; by default the one with the free joint that carries the
            robot's joints, and under a fixed root the body that they hang from.
        prefix: of names of joints in the model, for one of several robots.
        sensors: what `read` reads with; perfect ones with feet by default.
        check: whether joints must lie and point as the robot's do; without it, names alone count.

    Attributes:
        model: as given.
        data: as given; its state is read at every call.
        base: name of the body.

    Raises:
        ArgumentError: an argument is not what it must be.
        UnknownNameError: a joint or body that the model does not have.
        ModelError: it has another kind of joint there, or in another place; or a motor that is no motor but a servo.
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
            raise ArgumentError(f"data: of another model, with nq = {data.qpos.size} instead of {model.nq}")
        super().__init__(robot, sensors)
        self.model, self.data, self.prefix = model, data, prefix
        body, root = self._root(base)
        self.base = model.body(body).name
        self._coordinates = self._agreed(body, root, check=check)
        self._motors = [self._motor(name) for name in robot.actuated]
        self._free = [i for i, motor in enumerate(self._motors) if motor is None]
        self._dofs = [int(model.joint(prefix + name).dofadr[0]) for name in robot.actuated]
        self._ends = {
            int(model.jnt_bodyid[model.joint(prefix + leg.joints[-1]).id]): foot for foot, leg in robot.legs.items()
        }
        self._tau = frozen(np.zeros(robot.nu))

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def simulator(self) -> Observable:
        """Itself."""
        return self

    @property
    def q(self) -> Array:
        """(nq,) configuration now."""
        return self.state()[0]

    @property
    def v(self) -> Array:
        """(nv,) velocity now, the base's in its own axes."""
        return self.state()[1]

    @property
    def time(self) -> float:
        """The data's time [s]."""
        return float(self.data.time)

    @property
    def step_time(self) -> float:
        """The model's time step [s]."""
        return float(self.model.opt.timestep)

    @property
    def tau(self) -> Array:
        """(nu,) torques of the last `write` or `step` [N m]."""
        return self._tau

    def state(self) -> tuple[Array, Array]:
        """The state now, q (nq,) and v (nv,), for ``Dynamics.update``."""
        q, v = np.empty(self.robot.nq), np.empty(self.robot.nv)
        self._coordinates.from_mujoco(self.data.qpos, self.data.qvel, q, v)
        return q, v

    def set_state(self, q: Numbers, v: Numbers | None = None) -> None:
        """Put the robot into a state; everything else in the data stays.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity; at rest by default.

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
        """(3,) by foot: forces of the last step on the link that the leg's last joint moves, world axes [N]."""
        forces, wrench = {foot: np.zeros(3) for foot in self.robot.feet}, np.zeros(6)
        model, data = self.model, self.data
        for i, contact in enumerate(data.contact[: data.ncon]):
            self._mujoco.mj_contactForce(model, data, i, wrench)
            # The first axis of the contact's frame points from the first geom to the second, on which it acts.
            force = contact.frame.reshape(3, 3).T @ wrench[:3]
            for geom, sign in zip(contact.geom.tolist(), (-1.0, 1.0), strict=True):
                body = int(model.geom_bodyid[geom]) if geom >= 0 else 0
                while (
                    body not in self._ends and body and not model.body_jntnum[body]
                ):  # a foot that is a body of its own
                    body = int(model.body_parentid[body])
                if body in self._ends:
                    forces[self._ends[body]] += sign * force
        return forces

    # -- motion ----------------------------------------------------------------------------------------------
    def write(self, command: MotorCommand) -> None:
        """What the motors do from now on; the torques that it asks for now are put into the data.

        Raises:
            ArgumentError: as of `MotorCommand.validated`.
        """
        super().write(command)
        self._apply()

    def step(self) -> None:
        """``mj_step`` under the last command."""
        self._apply()
        self._mujoco.mj_step(self.model, self.data)

    def _apply(self) -> None:
        tau = np.clip(self.commanded_torque(), -self.robot.effort_limits, self.robot.effort_limits)
        for value, motor, dof in zip(tau.tolist(), self._motors, self._dofs, strict=True):
            if motor is None:
                self.data.qfrc_applied[dof] = value
            else:
                self.data.ctrl[motor[0]] = value / motor[1]
        self._tau = frozen(tau)

    # -- what the model is -----------------------------------------------------------------------------------
    def _root(self, base: str | None) -> tuple[int, int]:
        """The body that is the root link, and the number of its free joint."""
        robot, model = self.robot, self.model
        names = [model.joint(j).name for j in range(model.njnt)]
        first = next((b.joint.name for b in robot.bodies[1:] if b.joint is not None and b.joint.nv == 1), None)
        if base is not None:
            bodies = [model.body(b).name for b in range(model.nbody)]
            if base not in bodies:
                raise UnknownNameError("MuJoCo body", base, bodies)
            body = int(model.body(base).id)
        elif first is None:
            raise ArgumentError(f"base: name the body, {robot.name!r} has no joint to find it by")
        else:
            if self.prefix + first not in names:
                raise UnknownNameError("MuJoCo joint", self.prefix + first, names)
            body = int(model.body_parentid[model.jnt_bodyid[model.joint(self.prefix + first).id]])
            while robot.root == "free" and body and self._free_joint(body) is None:
                body = int(model.body_parentid[body])
        if robot.root != "free":
            return body, -1
        joint = self._free_joint(body)
        if joint is None:
            raise ModelError(
                f"MuJoCo model: {model.body(body).name!r} has no free joint, which root='free' of {robot.name!r} "
                "needs; add one to its root body, or load the robot with root='fixed'"
            )
        return body, joint

    def _free_joint(self, body: int) -> int | None:
        """Number of a body's free joint."""
        model = self.model
        for j in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
            if int(model.jnt_type[j]) == int(self._mujoco.mjtJoint.mjJNT_FREE):
                return j
        return None

    def _agreed(self, body: int, root: int, *, check: bool) -> MujocoCoordinateMap:
        """The way between coordinates under which the model's joints lie where the robot's do."""
        robot, model = self.robot, self.model
        hinged = model.jnt_type >= int(self._mujoco.mjtJoint.mjJNT_SLIDE)
        drawn = np.zeros(model.nq)
        drawn[model.jnt_qposadr[hinged]] = model.qpos0[model.jnt_qposadr[hinged]]
        # MJCF's ref says what the coordinate is in the drawn pose: zero there, or of the same zero as the robot's.
        zeros = drawn, np.zeros(model.nq)
        ways = [make_coordinate_map(model, robot, root_joint=root, prefix=self.prefix, zero=zero) for zero in zeros]
        if not check:
            return ways[0]
        found = [self._mismatch(way, body) for way in (ways if drawn.any() else ways[:1])]
        best = min(range(len(found)), key=lambda k: found[k][0])
        _, place, turn, joint = found[best]
        if place > MISPLACED or turn < TURNED:
            raise ModelError(
                f"MuJoCo joint {joint!r}: not where {robot.name!r} has it: {100.0 * place:.0f} % of the robot's size "
                f"away, axes {np.rad2deg(np.arccos(np.clip(turn, -1.0, 1.0))):.0f} degrees apart; is it the same "
                "machine, and is base the same link? check=False goes by names alone"
            )
        return ways[best]

    def _mismatch(self, way: MujocoCoordinateMap, body: int) -> tuple[float, float, float, str]:
        """How far joints and centres of mass are apart in all, then the worst joint: distance, cosine of axes, name."""
        robot, model = self.robot, self.model
        data, pinned = self._mujoco.MjData(model), robot.model.createData()
        worst = (-1.0, 0.0, 1.0, "")
        total = 0.0
        for q in (robot.q_home, robot.random_configuration(0)):
            way.to_mujoco(q, np.zeros(robot.nv), data.qpos, data.qvel)
            self._mujoco.mj_kinematics(model, data)
            self._mujoco.mj_comPos(model, data)
            robot.algorithms.forwardKinematics(robot.model, pinned, q)
            base, R = data.xpos[body], data.xmat[body].reshape(3, 3)
            root = pin.updateFramePlacement(robot.model, pinned, robot.frame_id(robot.bodies[0].name))
            lengths, found = [1e-3], []
            for each in robot.bodies[1:]:
                joint = each.joint
                if joint is None or joint.nv != 1:
                    continue
                at = root.actInv(pinned.oMi[robot.model.getJointId(joint.name)])
                j = model.joint(self.prefix + joint.name).id
                axis, turn = at.rotation @ joint.axis, R.T @ data.xaxis[j]
                apart = at.translation - R.T @ (data.xanchor[j] - base)
                # A hinge may be anywhere along its axis, a slide anywhere at all.
                away = 0.0 if joint.type == "prismatic" else float(np.linalg.norm(np.cross(axis, apart)))
                com = R.T @ (data.xipos[model.jnt_bodyid[j]] - base)
                total += away + float(np.linalg.norm(at.act(each.inertial.com) - com))
                lengths.append(float(np.linalg.norm(at.translation)))
                found.append((away, float(axis @ turn), joint.name))
            for away, cosine, name in found:
                share = away / max(lengths)
                if (score := share / MISPLACED + (1.0 - cosine) / (1.0 - TURNED)) > worst[0]:
                    worst = score, share, cosine, name
        return total, *worst[1:]

    def _motor(self, name: str) -> tuple[int, float] | None:
        """Number and gear of the motor at a joint; None where there is no actuator."""
        model, mujoco = self.model, self._mujoco
        joint = model.joint(self.prefix + name).id
        at_joints = {int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)}
        for i in range(model.nu):
            if int(model.actuator_trntype[i]) not in at_joints or model.actuator_trnid[i, 0] != joint:
                continue
            plain = int(model.actuator_gaintype[i]) == int(mujoco.mjtGain.mjGAIN_FIXED)
            plain = plain and int(model.actuator_biastype[i]) == int(mujoco.mjtBias.mjBIAS_NONE)
            gain = float(model.actuator_gear[i, 0] * model.actuator_gainprm[i, 0])
            if not plain or gain == 0.0:
                raise ModelError(
                    f"MuJoCo actuator {model.actuator(i).name!r}: expected a motor at joint {name!r}, which turns ctrl "
                    "into torque, got a servo; replace it by <motor>, or remove it"
                )
            return i, gain
        return None
