"""`Morphology`: lengths, mass and natural units of a quadruped, from which all parameters of its gaits follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..compiler import Mat3, Matrix, Record, Vector
from ..deprecation import renamed_attributes
from ..dynamics import Dynamics
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.legs import find_wheels, make_limbs
from ..robot.limbs import forward_and_left
from ..robot.robot import Robot
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array, frozen


class BodyParameters(Record):
    """The parameters of `Morphology`."""

    length: float  # l [m]
    height: float  # of the center of mass at home [m]
    gravity: float  # [m/s^2]
    mass: float  # [kg]
    time_scale: float  # sqrt(l / g) [s]
    speed_scale: float  # sqrt(g l) [m/s]
    natural_frequency: float  # sqrt(g / h) [1/s]
    nominal_stance: Matrix  # (4, 2) feet at home relative to their center, heading axes [m]
    radii: Vector  # (4,) of the foot spheres [m]
    hips: Matrix  # (4, 3) first leg joints relative to the center of mass at home, heading axes [m]
    heading: Mat3  # rotation from heading axes to the base frame


#: Minimum lateral motion of the foot per radian of any joint with which a leg can step sideways [l].
MIN_LATERAL_MOTION = 0.05
#: The feet of a quadruped: front before rear, left before right.
FEET = ("FL", "FR", "RL", "RR")


@renamed_attributes(
    of="from_robot",
    time="time_scale",
    speed="speed_scale",
    frequency="natural_frequency",
    sideways="can_step_sideways",
    stance="nominal_stance",
    offset="base_offset",
)
@dataclass(frozen=True, slots=True, eq=False)
class Morphology:
    """Lengths, mass and natural units of a quadruped.

    Animals of different size move alike if lengths are measured in leg lengths l and times in ``sqrt(l / g)``: their
    Froude numbers ``v^2 / (g l)`` are then equal (Alexander 1984, "The gaits of bipedal and quadrupedal animals").  All
    parameters of this subpackage are given in these units.

    Attributes:
        length: leg length l, the mean length of the stretched legs from the hip flexion joint to the foot [m].
        height: height of the center of mass above the ground at home [m].
        gravity: gravitational acceleration g [m/s^2].
        mass: mass of the whole robot [kg].
        nominal_stance: (4, 2) positions of the feet at home relative to their center, in the order of `FEET`, heading
            axes [m].
        radii: (4,) radii of the foot spheres [m].
        heading: (3, 3) rotation from heading axes (x forward, y left, z up) to the base frame.
        hips: (4, 3) positions of the first leg joints relative to the center of mass at home, heading axes [m].
        base_offset: (3,) origin of the base frame relative to the center of mass at home, heading axes [m].
        joint_speed: smallest velocity limit of the leg joints [rad/s or m/s]; inf where the file has none.
        can_step_sideways: whether every leg can move its foot sideways; legs with two joints cannot.
    """

    length: float
    height: float
    gravity: float
    mass: float
    nominal_stance: Array
    radii: Array
    heading: Array
    hips: Array
    base_offset: Array
    joint_speed: float
    can_step_sideways: bool

    @staticmethod
    def from_robot(robot: Robot) -> Morphology:
        """Measures a robot in its home configuration.

        Args:
            robot: a quadruped with a free root.

        Raises:
            ArgumentTypeError: `robot` is not a `Robot`.
            ArgumentError: the robot is not a quadruped with a free root, its legs are locked, its feet are wheels,
                there is no gravity, or the center of mass at home is outside the feet.
        """
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if robot.root != "free" or set(robot.feet) != set(FEET):
            raise ArgumentError(
                f'robot: locomotion requires a quadruped with root="free" and feet {FEET}; {robot.name!r} has '
                f"root={robot.root!r} and feet {robot.feet}, see robot.report, and root= and legs= of load"
            )
        if wheels := find_wheels(robot):
            raise ArgumentError(
                f"robot: locomotion does not support wheels, and the feet of {robot.name!r} are wheels (joints "
                f'{", ".join(wheels.values())}); make these joints type="fixed" in the file'
            )
        gravity = float(np.linalg.norm(robot.model.gravity.linear))
        if not gravity > 0.0:
            raise ArgumentError(f"robot: {robot.name!r} is loaded without gravity; locomotion needs gravity")
        _reject_locked_legs(robot)
        _reject_passive_legs(robot)
        limbs = make_limbs(robot)
        forward, left = forward_and_left(limbs)
        s = Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
        base = s.placement(robot.bodies[0].name)
        heading = np.column_stack((forward, left, np.cross(forward, left)))
        world = base.rotation @ heading  # heading axes in the world
        feet = np.array([s.placement(foot).translation for foot in FEET])
        radii = np.array([robot.legs[foot].foot.radius for foot in FEET])
        stance = (feet - feet.mean(axis=0)) @ world
        height = float(s.com[2] - (feet[:, 2] - radii).mean())
        length = float(np.mean([limbs[foot].reach for foot in FEET]))
        com_distance = np.linalg.norm((s.com - feet.mean(axis=0))[:2])
        if not (height > 0.0 and com_distance < 0.5 * np.abs(stance[:, :2]).min(axis=0).max()):
            raise ArgumentError(
                f"robot: at q_home the center of mass of {robot.name!r} is {height:.3g} m above the ground and "
                f"{com_distance:.3g} m beside the middle of its feet; it cannot stand there"
            )
        joints = [joint for foot in FEET for joint in robot.legs[foot].joints]
        motors = [i for i, name in enumerate(robot.actuated) if name in joints]
        # Smallest lateral motion of a foot per radian of its joints.
        lateral_motion = min(float(np.abs(world[:, 1] @ s.jacobian(foot)[:3, 6:]).max()) for foot in FEET)
        hips = np.array([s.placement(robot.legs[foot].joints[0]).translation for foot in FEET])
        return Morphology(
            length,
            height,
            gravity,
            robot.mass,
            frozen(stance[:, :2]),
            frozen(radii),
            frozen(heading),
            frozen((hips - s.com) @ world),
            frozen((base.translation - s.com) @ world),
            float(robot.velocity_limits[motors].min(initial=np.inf)),
            lateral_motion > MIN_LATERAL_MOTION * length,
        )

    def yaw(self, q: Array) -> float:
        """Computes the yaw angle of the trunk from the world's x axis, for a configuration q (nq,) [rad]."""
        forward = pin.Quaternion(np.array(q[3:7])).toRotationMatrix() @ self.heading[:, 0]
        return math.atan2(forward[1], forward[0])

    @property
    def time_scale(self) -> float:
        """Unit of time, ``sqrt(l / g)`` [s]."""
        return float(np.sqrt(self.length / self.gravity))

    @property
    def speed_scale(self) -> float:
        """Unit of speed, ``sqrt(g l)`` [m/s]: at Froude number 1 a stiff leg leaves the ground."""
        return float(np.sqrt(self.length * self.gravity))

    @property
    def natural_frequency(self) -> float:
        """Natural frequency of the linear inverted pendulum, ``sqrt(g / h)`` [1/s]."""
        return float(np.sqrt(self.gravity / self.height))


def make_body_parameters(morphology: Morphology) -> BodyParameters:
    """Returns the parameters of a robot as a record of compiled functions."""
    return BodyParameters.from_values(**{name: getattr(morphology, name) for name in BodyParameters._fields})


def _reject_passive_legs(robot: Robot) -> None:
    """Rejects a robot with a leg joint without a motor, which no other joint moves.

    Raises:
        ArgumentError: there is such a joint.
    """
    if robot.coupling is not None:
        return
    passive = [joint for foot in FEET for joint in robot.legs[foot].joints if joint not in robot.actuated]
    if passive:
        raise ArgumentError(
            f"robot: the leg joints {', '.join(dict.fromkeys(passive))} of {robot.name!r} have no motors, because "
            "their effort limit is 0 or because of actuated=; pass limits= with their effort, or actuated="
        )


def _reject_locked_legs(robot: Robot) -> None:
    """Rejects legs with fewer than two joints that motors or closed loops can move: such a foot cannot step.

    Raises:
        ArgumentError: there is such a leg.
    """
    limits = robot.lower_position_limits, robot.upper_position_limits
    ranges = {name: high - low for name, low, high in zip(robot.actuated, *limits, strict=True)}
    for name, leg in robot.legs.items():
        joints = [joint for joint in leg.joints if robot.tree.joints_by_name[joint].independent]
        locked = [joint for joint in joints if not ranges.get(joint, 0.0) > FILE_ANGLE_TOLERANCE]
        if leg.n - len(locked) < 2:
            raise ArgumentError(
                f"robot: leg {name} of {robot.name!r} is locked: {', '.join(map(repr, locked))} have no range of "
                "motion or no motor, so that its foot cannot step; correct the file, or pass limits= or actuated= to "
                "load"
            )
