"""`RightingPlan`: motions from back and sides onto the belly, and `RightingController`, which executes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from ..control import JointPD
from ..deprecation import renamed_attributes
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays
from .leg_folding import folded_pose
from .morphology import Morphology
from .torque_limiter import TorqueLimiter

#: Sides on which a robot may lie, the belly excluded.
SIDES = ("back", "left", "right")
#: Minimum control period for which the gains are computed [s].
MAX_SERVO_PERIOD = 2e-3
#: Time in which the legs fold, and time of rest after that, before and after a righting motion [sqrt(l/g)].
FOLDING_TIME, RESTING_TIME = 4.0, 3.0
#: Minimum cosine of the trunk's tilt at which the robot lies on its belly, and maximum number of righting motions.
MIN_UPRIGHT_COSINE, MAX_RIGHTING_ATTEMPTS = 0.85, 6
#: Height of the end of a unit vector up to which the vector is level (rounding).  A robot that lies on its nose counts
#: as lying on its left side.
SIDE_TOLERANCE = 1e-6


@renamed_attributes(at="sample", rests="rest_durations")
@dataclass(frozen=True, slots=True, eq=False)
class RightingMotion(FrozenArrays):
    """Smooth joint motion through a sequence of poses, which starts and ends with the folded pose.

    Attributes:
        poses: (k, nu) positions of the actuated joints [rad or m]; the last ones are the folded pose.
        times: (k,) time from the pose before to each pose [s].
        rest_durations: (k,) time for which each pose is held [s].
    """

    poses: Array
    times: Array
    rest_durations: Array

    @property
    def duration(self) -> float:
        """Duration of the whole motion [s]."""
        return float(self.times.sum() + self.rest_durations.sum())

    def sample(self, time: float) -> Array:
        """Returns the desired joint positions (nu,) at a time [s] after the start [rad or m]."""
        last_pose = self.poses[-1]
        for pose, motion_time, rest_time in zip(
            self.poses, self.times.tolist(), self.rest_durations.tolist(), strict=True
        ):
            if time < motion_time:
                alpha = max(time, 0.0) / motion_time
                return np.asarray(last_pose + alpha * alpha * (3.0 - 2.0 * alpha) * (pose - last_pose))
            time -= motion_time + rest_time
            last_pose = pose
            if time < 0.0:
                break
        return np.asarray(last_pose)


@renamed_attributes(rolls="motions", refused="infeasible")
@dataclass(frozen=True, slots=True, eq=False)
class RightingPlan:
    """Righting motions of a robot, as found by `quaddyn.planning.plan_righting`.

    Attributes:
        robot: name of the robot.
        key: hash of all properties of the robot on which the plan depends.
        motions: righting motion by side, of `SIDES`.
        infeasible: reason for which there is no motion, by side.  A side in neither mapping is one on which the folded
            robot does not rest.
    """

    robot: str
    key: str
    motions: Mapping[str, RightingMotion]
    infeasible: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "motions", MappingProxyType(dict(self.motions)))
        object.__setattr__(self, "infeasible", MappingProxyType(dict(self.infeasible)))

    @property
    def ok(self) -> bool:
        """Whether the robot can get up from all sides."""
        return not self.infeasible

    def __str__(self) -> str:
        """Returns one line for each of `SIDES`."""
        lines = [
            f"{side}: {self.motions[side].duration:.1f} s"
            if side in self.motions
            else f"{side}: {self.infeasible.get(side, 'the robot does not rest on this side')}"
            for side in SIDES
        ]
        return "\n".join((f"righting of {self.robot!r}", *(f"  {line}" for line in lines)))


class JointServo:
    """PD control of joints along a path, within the torque limits.

    Args:
        robot: a quadruped.
        limiter: torque limits of its motors.
        dt: control period [s].
    """

    __slots__ = ("_kd", "_kp", "_limiter")

    def __init__(self, robot: Robot, limiter: TorqueLimiter, dt: float) -> None:
        gains = JointPD(robot, dt=max(dt, MAX_SERVO_PERIOD))
        self._limiter, self._kp, self._kd = limiter, gains.kp, gains.kd

    def torques(self, desired: Array, position: Array, velocity: Array) -> Array:
        """Computes the joint torques (nu,) toward desired positions [N m].

        Args:
            desired: (nu,) desired positions of the actuated joints [rad or m].
            position: (nu,) measured positions [rad or m].
            velocity: (nu,) measured velocities [rad/s or m/s].
        """
        return self._limiter.limit_overspeed(self._kp * (desired - position) - self._kd * velocity, velocity)


def classify_lying_side(axes: Array) -> str:
    """Returns the side on which a robot lies: "belly", or one of `SIDES`.

    Args:
        axes: (3, 3) heading axes of the trunk in the world: columns forward, left and up.
    """
    left, up = float(axes[2, 1]), float(axes[2, 2])
    if up > MIN_UPRIGHT_COSINE:
        return "belly"
    if abs(left) + SIDE_TOLERANCE < -up:
        return "back"
    return "right" if left > SIDE_TOLERANCE else "left"


class RightingController:
    """Controller that brings a fallen robot onto its belly.

    It folds the legs, rests, classifies the side on which the robot lies, executes a motion, and repeats.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        plan: righting motions of the robot.
        limiter: torque limits of its motors.
        dt: control period [s].

    Attributes:
        is_done: whether the robot is on its belly, ready to stand up.
        failure: reason for which righting was aborted; "" while it was not.
        n_attempts: number of righting motions begun.

    Raises:
        ArgumentError: the plan is for other joints.
    """

    __slots__ = (
        "_dt",
        "_morphology",
        "_motion",
        "_plan",
        "_pose",
        "_servo",
        "_start",
        "_time",
        "failure",
        "is_done",
        "n_attempts",
    )

    def __init__(
        self, robot: Robot, morphology: Morphology, plan: RightingPlan, limiter: TorqueLimiter, dt: float
    ) -> None:
        pose = folded_pose(robot)
        if pose is None or any(motion.poses.shape[1:] != (robot.nu,) for motion in plan.motions.values()):
            raise ArgumentError(
                f"righting_plan: the plan was made for {plan.robot!r}, whose joints are not those of {robot.name!r}"
            )
        self._morphology, self._plan, self._dt, self._pose = morphology, plan, dt, pose
        self._servo = JointServo(robot, limiter, dt)
        self.begin()

    def begin(self) -> None:
        """Starts righting, from any pose."""
        self.is_done, self.failure, self.n_attempts = False, "", 0
        self._start: Array | None = None
        self._motion: RightingMotion | None = None
        self._time = 0.0

    def torques(self, position: Array, velocity: Array, axes: Array) -> Array:
        """Computes the joint torques (nu,) of one tick [N m].

        Args:
            position: (nu,) positions of the actuated joints [rad or m].
            velocity: (nu,) their velocities [rad/s or m/s].
            axes: (3, 3) heading axes of the trunk in the world: columns forward, left and up.
        """
        time_scale = self._morphology.time_scale
        if self._start is None:
            self._start = position.copy()
        if self._motion is not None and self._time >= self._motion.duration:
            self._motion, self._start, self._time = None, position.copy(), 0.0
        if self._motion is None and self._time >= (FOLDING_TIME + RESTING_TIME) * time_scale:
            self._choose_motion(classify_lying_side(axes))
        if self._motion is not None:
            desired = self._motion.sample(self._time)
        else:
            alpha = min(self._time / (FOLDING_TIME * time_scale), 1.0)
            desired = self._start + alpha * alpha * (3.0 - 2.0 * alpha) * (self._pose - self._start)
        self._time += self._dt
        return self._servo.torques(desired, position, velocity)

    def _choose_motion(self, side: str) -> None:
        """Chooses the next motion for the side on which the robot lies, or ends with success or failure."""
        if side == "belly":
            self.is_done = True
        elif side in self._plan.infeasible:
            self.failure = f"no righting motion from the {side}: {self._plan.infeasible[side]}"
        elif self.n_attempts >= MAX_RIGHTING_ATTEMPTS:
            self.failure = f"{self.n_attempts} righting motions failed"
        else:
            # A side without a plan is one on which the robot does not rest on level ground: the motion from the back
            # is used.
            motions = self._plan.motions
            self._motion, self._time, self.n_attempts = motions.get(side, motions.get("back")), 0.0, self.n_attempts + 1
