"""Tasks on motion: centre of mass, frames, feet, relative frames, posture, joint accelerations, momentum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pinocchio as pin

from ..dynamics import State
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contacts import ContactFrame, skew
from .task import Gain, Task, natural_gain
from .tick import Rows, Tick

XYZ = ("x", "y", "z")
TURNS = ("rx", "ry", "rz")
POSE_UNITS = ("m/s^2",) * 3 + ("rad/s^2",) * 3


class ComTask(Task):
    """The centre of mass, world axes [m]: rows x, y, z.

    Stiffness by default: (2.5 sqrt(g / l))^2, with l the leg's length.
    """

    code = 1

    def __init__(
        self,
        robot: Robot,
        name: str = "com",
        *,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        kp = natural_gain(robot, 2.5) if stiffness is None else stiffness
        super().__init__(robot, name, XYZ, ("m/s^2",) * 3, 3, stiffness=kp, damping=damping, weight=weight, axes=axes)

    def position(self, s: State) -> Array:
        """(3,) centre of mass [m]."""
        return s.com

    def error(self, s: State) -> Array:
        """(3,) [m]."""
        return np.asarray(self._position - s.com)

    def velocity(self, s: State) -> Array:
        """(3,) [m/s]."""
        return s.com_velocity

    def jacobian(self, s: State) -> Array:
        """(3, nv)."""
        return s.com_jacobian

    def drift(self, s: State) -> Array:
        """(3,) [m/s^2]."""
        return s.com_drift


class _OfFrame(Task):
    """What tasks on one frame share: its name, their rows and units, and stiffness by default.

    Attributes:
        rows_of, units_of: names of the rows and their units as accelerations.
        size: entries of the reference position.
        quickness: sqrt of the default stiffness, in sqrt(g / l).
    """

    rows_of: tuple[str, ...]
    units_of: tuple[str, ...]
    size: int
    quickness = 3.0

    def __init__(
        self,
        robot: Robot,
        frame: str,
        name: str | None = None,
        *,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        self.frame = frame
        self.frame_id = robot.frame_id(frame)
        kp = natural_gain(robot, self.quickness) if stiffness is None else stiffness
        super().__init__(
            robot, name or frame, self.rows_of, self.units_of, self.size,
            stiffness=kp, damping=damping, weight=weight, axes=axes,
        )  # fmt: skip


class FramePositionTask(_OfFrame):
    """The origin of a frame, world axes [m]: rows x, y, z.

    Stiffness by default: (4 sqrt(g / l))^2.
    """

    code = 2
    rows_of, units_of, size, quickness = XYZ, ("m/s^2",) * 3, 3, 4.0

    def position(self, s: State) -> Array:
        """(3,) origin of the frame [m]."""
        return s.placement(self.frame).translation

    def error(self, s: State) -> Array:
        """(3,) [m]."""
        return np.asarray(self._position - self.position(s))

    def velocity(self, s: State) -> Array:
        """(3,) [m/s]."""
        return s.velocity(self.frame)[:3]

    def jacobian(self, s: State) -> Array:
        """(3, nv)."""
        return s.jacobian(self.frame)[:3]

    def drift(self, s: State) -> Array:
        """(3,) [m/s^2]."""
        return s.drift(self.frame)[:3]


class FootTask(FramePositionTask):
    """A foot in the air: its sphere's centre, world axes [m].

    It acts only while the foot is no contact.  While the contact is made or broken, task and contact share the foot:
    see `quaddyn.wbc.controller`.  Without a reference the foot stays where it was when it was lifted.
    """

    code = 3

    def rows(self, tick: Tick) -> list[Rows]:
        """The task's rows; none while the contact of its frame is made."""
        contact = tick.contact(self.frame)
        if contact is None or not contact.held:
            return super().rows(tick)
        return []

    def shared_rows(self, tick: Tick, contact: ContactFrame, rest: Array) -> Rows:
        """Rows that pass from the task to the contact as its share s goes from 0 to 1.

        The point that is guided moves from the sphere's centre to the contact point, the wanted acceleration from the
        task's to the contact's, and the weight from the task's own to infinity, ``weight / (1 - s)``: a constraint of
        the level above is the limit of a weighted one.

        Args:
            tick: the instant.
            contact: the foot's contact, its share below 1.
            rest: (3,) acceleration that the contact wants [m/s^2].
        """
        s, share = tick.state, contact.share
        J = (1.0 - share) * self.jacobian(s) + share * contact.jacobian[:3]
        drift = (1.0 - share) * self.drift(s) + share * contact.drift[:3]
        wanted = (1.0 - share) * self.desired(s) + share * rest[:3] - drift
        return Rows(self.row_names, "m/s^2", wanted, wanted, acceleration=J, weights=self._weight / (1.0 - share))


class FrameOrientationTask(_OfFrame):
    """The orientation of a frame: rows rx, ry, rz about world axes [rad].

    The reference position is the (3, 3) rotation matrix R* of the frame in the world; the error is the rotation vector
    of ``R* R^T``.  Stiffness by default: (3 sqrt(g / l))^2.
    """

    code = 4
    rows_of, units_of, size = TURNS, ("rad/s^2",) * 3, 9

    def reference(
        self, position: Array | None = None, velocity: Array | None = None, acceleration: Array | None = None
    ) -> None:
        """Set the rotation (3, 3), angular velocity (3,) [rad/s] and acceleration (3,) [rad/s^2], world axes."""
        super().reference(None if position is None else _rotation(self.name, position), velocity, acceleration)

    def position(self, s: State) -> Array:
        """(9,) rotation matrix, row by row."""
        return s.placement(self.frame).rotation.ravel()

    def error(self, s: State) -> Array:
        """(3,) rotation vector, world axes [rad]."""
        return _turn(self._position.reshape(3, 3), s.placement(self.frame).rotation)

    def velocity(self, s: State) -> Array:
        """(3,) [rad/s]."""
        return s.velocity(self.frame)[3:]

    def jacobian(self, s: State) -> Array:
        """(3, nv)."""
        return s.jacobian(self.frame)[3:]

    def drift(self, s: State) -> Array:
        """(3,) [rad/s^2]."""
        return s.drift(self.frame)[3:]


class FrameTask(_OfFrame):
    """Position and orientation of a frame: rows x, y, z [m], rx, ry, rz [rad], world axes.

    The reference position is (12,): the origin, then the rotation matrix row by row (`pose_reference` takes them
    apart).  Stiffness by default: (3 sqrt(g / l))^2.
    """

    code = 5
    rows_of, units_of, size = XYZ + TURNS, POSE_UNITS, 12

    def pose_reference(
        self,
        translation: Array,
        rotation: Array,
        velocity: Array | None = None,
        acceleration: Array | None = None,
    ) -> None:
        """Set origin (3,) [m], rotation (3, 3), velocity (6,) and acceleration (6,), world axes, linear first."""
        turned = _rotation(self.name, rotation)
        self.reference(np.concatenate((np.asarray(translation, dtype=np.float64), turned)), velocity, acceleration)

    def position(self, s: State) -> Array:
        """(12,) origin, then rotation row by row."""
        pose = s.placement(self.frame)
        return np.concatenate((pose.translation, pose.rotation.ravel()))

    def error(self, s: State) -> Array:
        """(6,) [m, rad]."""
        pose = s.placement(self.frame)
        turn = _turn(self._position[3:].reshape(3, 3), pose.rotation)
        return np.concatenate((self._position[:3] - pose.translation, turn))

    def velocity(self, s: State) -> Array:
        """(6,) [m/s, rad/s]."""
        return s.velocity(self.frame)

    def jacobian(self, s: State) -> Array:
        """(6, nv)."""
        return s.jacobian(self.frame)

    def drift(self, s: State) -> Array:
        """(6,) [m/s^2, rad/s^2]."""
        return s.drift(self.frame)


class RelativeFrameTask(Task):
    """Position and orientation of a frame as seen from another one, in that one's axes.

    Rows x, y, z [m] and rx, ry, rz [rad]; the reference position as for `FrameTask`.  With r the vector from the other
    frame's origin, the relative acceleration is ``a - a_o - alpha_o x r - omega_o x (omega_o x r) - 2 omega_o x v_rel``
    (any textbook on rotating frames), turned into the other frame's axes.
    """

    code = 6

    def __init__(
        self,
        robot: Robot,
        frame: str,
        other: str,
        name: str | None = None,
        *,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        self.frame, self.other = frame, other
        self.frame_id, self.other_id = robot.frame_id(frame), robot.frame_id(other)
        kp = natural_gain(robot, 3.0) if stiffness is None else stiffness
        super().__init__(
            robot, name or f"{frame} from {other}", XYZ + TURNS, POSE_UNITS, 12,
            stiffness=kp, damping=damping, weight=weight, axes=axes,
        )  # fmt: skip

    def position(self, s: State) -> Array:
        """(12,) origin in the other frame, then rotation row by row."""
        pose = s.placement(self.other).inverse() @ s.placement(self.frame)
        return np.concatenate((pose.translation, pose.rotation.ravel()))

    def error(self, s: State) -> Array:
        """(6,) [m, rad], the other frame's axes."""
        pose = s.placement(self.other).inverse() @ s.placement(self.frame)
        turn = _turn(self._position[3:].reshape(3, 3), pose.rotation)
        return np.concatenate((self._position[:3] - pose.translation, turn))

    def velocity(self, s: State) -> Array:
        """(6,) [m/s, rad/s], the other frame's axes."""
        return np.asarray(self.jacobian(s) @ s.v)

    def jacobian(self, s: State) -> Array:
        """(6, nv)."""
        J, J_o, R_o, r = self._geometry(s)
        return np.vstack((R_o.T @ (J[:3] - J_o[:3] + skew(r) @ J_o[3:]), R_o.T @ (J[3:] - J_o[3:])))

    def drift(self, s: State) -> Array:
        """(6,) [m/s^2, rad/s^2], the other frame's axes."""
        J, J_o, R_o, r = self._geometry(s)
        d, d_o, v, v_o = s.drift(self.frame), s.drift(self.other), J @ s.v, J_o @ s.v
        w_o = v_o[3:]
        seen = v[:3] - v_o[:3] - np.cross(w_o, r)
        linear = d[:3] - d_o[:3] - np.cross(d_o[3:], r) - np.cross(w_o, np.cross(w_o, r)) - 2.0 * np.cross(w_o, seen)
        angular = d[3:] - d_o[3:] - np.cross(w_o, v[3:])
        return np.concatenate((R_o.T @ linear, R_o.T @ angular))

    def _geometry(self, s: State) -> tuple[Array, Array, Array, Array]:
        at, other = s.placement(self.frame), s.placement(self.other)
        return s.jacobian(self.frame), s.jacobian(self.other), other.rotation, at.translation - other.translation


class PostureTask(Task):
    """Joint positions [rad or m]: one row per joint.

    The reference position is a whole configuration (nq,), of which only the joints are looked at; home by default.
    Stiffness by default: (2 sqrt(g / l))^2.

    Args:
        robot: the robot.
        name: by which the controller knows it.
        joints: names of 1-dof joints; the actuated ones by default.
        stiffness, damping, weight: see `Task`.
    """

    code = 7

    def __init__(
        self,
        robot: Robot,
        name: str = "posture",
        *,
        joints: Sequence[str] | None = None,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
    ) -> None:
        chosen = robot.actuated if joints is None else tuple(joints)
        self.index = np.array([robot.velocity_index(joint) for joint in chosen], dtype=np.intp)
        kp = natural_gain(robot, 2.0) if stiffness is None else stiffness
        units = ("rad/s^2",) * len(chosen)
        super().__init__(robot, name, chosen, units, robot.nq, stiffness=kp, damping=damping, weight=weight, axes=None)
        J = np.zeros((len(chosen), robot.nv))
        J[np.arange(len(chosen)), self.index] = 1.0
        J.flags.writeable = False
        self._J, self._none = J, np.zeros(len(chosen))
        self.reference(robot.q_home)

    def position(self, s: State) -> Array:
        """(nq,) the configuration."""
        return s.q

    def error(self, s: State) -> Array:
        """(rows,) [rad or m]."""
        return np.asarray(pin.difference(self.robot.model, s.q, self._position)[self.index])

    def velocity(self, s: State) -> Array:
        """(rows,) [rad/s or m/s]."""
        return s.v[self.index]

    def jacobian(self, s: State) -> Array:
        """(rows, nv) rows of the identity."""
        return self._J

    def drift(self, s: State) -> Array:
        """(rows,) zeros."""
        return self._none

    def forget(self) -> None:
        """Back to home."""
        self.reference(self.robot.q_home)


class JointAccelerationTask(PostureTask):
    """Joint accelerations as such [rad/s^2 or m/s^2]: a posture without feedback; ``reference(acceleration=a)``."""

    code = 8

    def __init__(
        self,
        robot: Robot,
        name: str = "joint acceleration",
        *,
        joints: Sequence[str] | None = None,
        weight: Gain = 1.0,
    ) -> None:
        super().__init__(robot, name, joints=joints, stiffness=0.0, damping=0.0, weight=weight)


class MomentumTask(Task):
    """Momentum about the centre of mass, world axes: rows x, y, z [N], rx, ry, rz [N m].

    Its "velocity" is the momentum h_G (linear [kg m/s], angular [kg m^2/s]), its "acceleration" the rate of change
    ``A_G a + dA_G/dt v`` (Orin, Goswami, Lee 2013); there is no position, so stiffness is 0.  By default the angular
    part alone, damped by ``2 sqrt(g / l)``, with weight ``1 / m`` that makes rows accelerations.
    """

    code = 9

    def __init__(
        self,
        robot: Robot,
        name: str = "momentum",
        *,
        damping: Gain | None = None,
        weight: Gain | None = None,
        axes: Sequence[str] | None = TURNS,
    ) -> None:
        units = ("N",) * 3 + ("N m",) * 3
        kd = 2.0 * np.sqrt(natural_gain(robot, 1.0)) if damping is None else damping
        super().__init__(
            robot,
            name,
            XYZ + TURNS,
            units,
            0,
            stiffness=0.0,
            damping=kd,
            weight=1.0 / robot.mass if weight is None else weight,
            axes=axes,
        )
        self._data = robot.model.createData()

    def position(self, s: State) -> Array:
        """(0,) there is none."""
        return np.zeros(0)

    def error(self, s: State) -> Array:
        """(6,) zeros."""
        return np.zeros(6)

    def velocity(self, s: State) -> Array:
        """(6,) centroidal momentum [kg m/s, kg m^2/s]."""
        return s.centroidal_momentum

    def jacobian(self, s: State) -> Array:
        """(6, nv) centroidal momentum matrix A_G."""
        A: Array = pin.computeCentroidalMap(self.robot.model, self._data, s.q)
        return A.reshape(6, -1).copy()

    def drift(self, s: State) -> Array:
        """(6,) ``dA_G/dt v`` [N, N m]."""
        model, zero = self.robot.model, np.zeros(self.robot.nv)
        rate: Array = pin.computeCentroidalMomentumTimeVariation(model, self._data, s.q, s.v, zero).vector
        return rate.copy()


def _turn(wanted: Array, actual: Array) -> Array:
    out: Array = pin.log3(wanted @ actual.T)
    return out


def _rotation(name: str, value: object) -> Array:
    R = np.asarray(value, dtype=np.float64)
    if R.shape == (9,):
        R = R.reshape(3, 3)
    if R.shape != (3, 3) or not _is_rotation(R):
        raise ArgumentError(f"{name}.reference: expected a rotation matrix (3, 3), got {np.array2string(R)}")
    return R.ravel()


def _is_rotation(R: Array) -> bool:
    """Whether the rows are orthonormal to 1e-6 and right-handed: plain numbers, which for nine of them is quickest."""
    (a, b, c), (d, e, f), (g, h, i) = R.tolist()
    long = abs(a * a + b * b + c * c - 1.0), abs(d * d + e * e + f * f - 1.0), abs(g * g + h * h + i * i - 1.0)
    askew = abs(a * d + b * e + c * f), abs(a * g + b * h + c * i), abs(d * g + e * h + f * i)
    handed = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    return all(x < 1e-6 for x in long + askew) and handed > 0.0  # NaN is in no order
