"""`Proportions`: the lengths and times of a quadruped, from which every number of its gait follows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..dynamics import Dynamics
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.legs import limbs_of, wheels_of
from ..robot.limbs import directions
from ..robot.robot import Robot
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array, frozen

#: A leg that moves its foot sideways by less than this for a radian of any joint [l] cannot step aside.
SIDEWAYS = 0.05
#: The feet of a quadruped: front before rear, left before right.
FEET = ("FL", "FR", "RL", "RR")


@dataclass(frozen=True, slots=True, eq=False)
class Proportions:
    """What a robot's geometry and mass say about how it may walk.

    Two animals of different size move alike when lengths are measured in leg lengths l and times in ``sqrt(l / g)``:
    their Froude numbers ``v^2 / (g l)`` are then equal (Alexander 1984, "The gaits of bipedal and quadrupedal
    animals").  Everything in this room is written in these units.

    Attributes:
        length: l, the mean length of the stretched legs from the bending hip to the foot [m].
        height: of the centre of mass above the ground at home [m].
        gravity: g [m/s^2].
        mass: of the whole robot [kg].
        stance: (4, 2) feet at home in the order of `FEET`, about the point halfway between them, heading axes [m].
        radii: (4,) of the feet's spheres [m].
        heading: (3, 3) rotation from heading axes (x forward, y left, z up) to the base frame.
        hips: (4, 3) the legs' first joints about the centre of mass at home, heading axes [m].
        offset: (3,) of the base frame's origin from the centre of mass at home, heading axes [m].
        joint_speed: smallest velocity limit of a leg's joints [rad/s or m/s]; inf where the file gives none.
        sideways: whether every leg can move its foot sideways; legs of two joints cannot.
    """

    length: float
    height: float
    gravity: float
    mass: float
    stance: Array
    radii: Array
    heading: Array
    hips: Array
    offset: Array
    joint_speed: float
    sideways: bool

    @staticmethod
    def of(robot: Robot) -> Proportions:
        """Measure a robot at ``q_home``.

        Raises:
            ArgumentTypeError: not a `Robot`.
            ArgumentError: no quadruped on a free root, legs that are locked, feet that are wheels, no gravity, or a
                centre of mass at home outside its feet.
        """
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if robot.root != "free" or set(robot.feet) != set(FEET):
            raise ArgumentError(
                f'robot: locomotion takes a quadruped with root="free" and feet {FEET}; {robot.name!r} has '
                f"root={robot.root!r} and feet {robot.feet}, see robot.report, and root= and legs= of load"
            )
        if wheels := wheels_of(robot):
            raise ArgumentError(
                f"robot: locomotion does not drive wheels, which the feet of {robot.name!r} are (joints "
                f'{", ".join(wheels.values())}); make these joints type="fixed" in the file to have them held'
            )
        gravity = float(np.linalg.norm(robot.model.gravity.linear))
        if not gravity > 0.0:
            raise ArgumentError(f"robot: {robot.name!r} is without gravity, and nothing holds it to the ground")
        _reject_locked_legs(robot)
        limbs = limbs_of(robot)
        forward, left = directions(limbs)
        s = Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
        base = s.placement(robot.bodies[0].name)
        heading = np.column_stack((forward, left, np.cross(forward, left)))
        world = base.rotation @ heading  # heading axes in the world
        feet = np.array([s.placement(foot).translation for foot in FEET])
        radii = np.array([robot.legs[foot].foot.radius for foot in FEET])
        stance = (feet - feet.mean(axis=0)) @ world
        height = float(s.com[2] - (feet[:, 2] - radii).mean())
        length = float(np.mean([limbs[foot].reach for foot in FEET]))
        away = np.linalg.norm((s.com - feet.mean(axis=0))[:2])
        if not (height > 0.0 and away < 0.5 * np.abs(stance[:, :2]).min(axis=0).max()):
            raise ArgumentError(
                f"robot: at q_home the centre of mass of {robot.name!r} is {height:.3g} m above the ground and "
                f"{away:.3g} m beside the middle of its feet; it cannot stand there"
            )
        joints = [joint for foot in FEET for joint in robot.legs[foot].joints]
        motors = [i for i, name in enumerate(robot.actuated) if name in joints]
        # How far a foot goes sideways by a radian of its own joints, at least.
        across = min(float(np.abs(world[:, 1] @ s.jacobian(foot)[:3, 6:]).max()) for foot in FEET)
        hips = np.array([s.placement(robot.legs[foot].joints[0]).translation for foot in FEET])
        return Proportions(
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
            across > SIDEWAYS * length,
        )

    def yaw(self, q: Array) -> float:
        """Where the trunk points at q (nq,), from the world's x axis [rad]."""
        forward = pin.Quaternion(np.array(q[3:7])).toRotationMatrix() @ self.heading[:, 0]
        return math.atan2(forward[1], forward[0])

    @property
    def time(self) -> float:
        """The unit of time, ``sqrt(l / g)`` [s]."""
        return float(np.sqrt(self.length / self.gravity))

    @property
    def speed(self) -> float:
        """The unit of speed, ``sqrt(g l)`` [m/s]: at Froude number 1 a stiff leg leaves the ground."""
        return float(np.sqrt(self.length * self.gravity))

    @property
    def frequency(self) -> float:
        """``sqrt(g / h)``, the rate at which the centre of mass falls away from the point it stands on [1/s]."""
        return float(np.sqrt(self.gravity / self.height))


def _reject_locked_legs(robot: Robot) -> None:
    """Refuse a leg with fewer than two joints that motors, or closed loops, can move: its foot cannot step.

    Raises:
        ArgumentError: such a leg.
    """
    at = robot.lower_position_limits, robot.upper_position_limits
    ranges = {name: high - low for name, low, high in zip(robot.actuated, *at, strict=True)}
    for name, leg in robot.legs.items():
        own = [joint for joint in leg.joints if robot.tree.joints_by_name[joint].independent]
        locked = [joint for joint in own if not ranges.get(joint, 0.0) > FILE_ANGLE_TOLERANCE]
        if leg.n - len(locked) < 2:
            raise ArgumentError(
                f"robot: leg {name} of {robot.name!r} is locked: {', '.join(map(repr, locked))} have no range or no "
                "motor, so that its foot cannot step; correct the file, or pass limits= or actuated= to load"
            )
