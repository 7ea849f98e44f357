"""`RightingSearch`: evaluation of righting motions in a plant, and the search for one.

`LegPoseParameters` describe leg poses by six parameters with the same meaning on every quadruped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..dynamics import Dynamics
from ..errors import ArgumentError, QuaddynError
from ..kinematics.collision_model import CollisionModel
from ..locomotion.leg_folding import folded_pose, folding_ranges
from ..locomotion.morphology import FEET, Morphology
from ..locomotion.righting import (
    MAX_SERVO_PERIOD,
    MIN_UPRIGHT_COSINE,
    RESTING_TIME,
    JointServo,
    RightingMotion,
    classify_lying_side,
)
from ..locomotion.torque_limiter import TorqueLimiter
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..simulation import Simulation
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array

#: Minimum cosine between a joint axis and the trunk's longitudinal axis at which the joint moves the foot sideways.
LATERAL_AXIS_COSINE = 0.7
#: Range of the parameters from the folded pose: outward, hip and knee [rad].
PARAMETER_RANGES = (1.6, 3.0, 1.5)


class LegPoseParameters:
    """Leg poses by parameters: outward, hip and knee angle of both left and of both right legs, from the folded pose.

    Outward is away from the other side, for every joint whose axis is along the trunk; the knee angle is positive
    toward more flexion, and the hip angle in the direction in which it rotates when a leg folds, opposite to the knee.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.

    Attributes:
        folded_pose: (nu,) folded pose [rad or m].

    Raises:
        ArgumentError: the legs cannot fold.
    """

    N_PARAMETERS = 6

    def __init__(self, robot: Robot, morphology: Morphology) -> None:
        pose = folded_pose(robot)
        if pose is None:
            raise ArgumentError(f"robot: the legs of {robot.name!r} have no folded pose within their joints' limits")
        self.folded_pose = pose
        self._low, self._high = folding_ranges(robot)
        state = Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
        heading = state.placement(robot.bodies[0].name).rotation @ morphology.heading
        velocity_index = dict(zip(robot.actuated, robot.actuated_index, strict=True))
        index = {name: i for i, name in enumerate(robot.actuated)}
        self._gains = np.zeros((robot.nu, self.N_PARAMETERS))
        for foot in FEET:
            leg = robot.legs[foot]
            side = 0 if foot.endswith("L") else 1
            J = state.jacobian(foot)
            axes = {joint: heading.T @ J[3:, velocity_index[joint]] for joint in leg.joints if joint in velocity_index}
            translations = {joint: heading.T @ J[:3, velocity_index[joint]] for joint in axes}
            for joint, axis in axes.items():
                if abs(axis[0]) > LATERAL_AXIS_COSINE:
                    outward = 1.0 if side == 0 else -1.0
                    self._gains[index[joint], 3 * side] = (
                        outward * np.sign(translations[joint][1]) * PARAMETER_RANGES[0]
                    )
                elif joint == leg.knee:
                    self._gains[index[joint], 3 * side + 2] = leg.knee_sign * PARAMETER_RANGES[2]
                else:
                    axis_cosine = float(axis @ axes[leg.knee]) if leg.knee in axes else 1.0
                    # An axis at a right angle to that of the knee has no direction relative to it.
                    same_direction = 0.0 if abs(axis_cosine) < FILE_ANGLE_TOLERANCE else np.sign(axis_cosine)
                    self._gains[index[joint], 3 * side + 1] = -leg.knee_sign * same_direction * PARAMETER_RANGES[1]

    def pose(self, parameters: Array) -> Array:
        """Returns the joint positions (nu,) of six parameters in about [-1, 1], clamped to their ranges [rad or m]."""
        return np.asarray(np.clip(self.folded_pose + self._gains @ parameters, self._low, self._high))

    def mirror(self, parameters: Array) -> Array:
        """Returns parameters (..., 6) with left and right exchanged."""
        return np.asarray(parameters[..., [3, 4, 5, 0, 1, 2]])


#: Number of poses of a motion, and time for which each is held [sqrt(l/g)].
N_POSES, POSE_HOLD_TIME = 2, 0.8
#: Minimum, median and maximum time between poses [sqrt(l/g)], and its logarithm per unit of the parameter.
MIN_MOVE_TIME, MEDIAN_MOVE_TIME, MAX_MOVE_TIME, MOVE_TIME_EXPONENT = 0.6, 1.75, 6.0, 0.7
#: Drop height at the start [l], and settling time after it [sqrt(l/g)].
DROP_HEIGHT, SETTLING_TIME = 0.1, 6.0
#: Friction coefficient and additional roll angle [rad] with which a motion must succeed; the first is that of the
#: search.
VARIATIONS = ((0.6, 0.0), (0.4, 0.0), (0.9, 0.0), (0.6, -0.15), (0.6, 0.15))
#: Cross-entropy search: size of the first and of later generations, number of elite samples, and minimum spread.
FIRST_GENERATION_SIZE, GENERATION_SIZE, ELITE_SIZE, MIN_SPREAD = 48, 24, 6, 0.03
#: Weights of the most upright attitude during the motion, and of the peak joint power [``m g sqrt(g l)``].
BEST_ATTITUDE_WEIGHT, POWER_WEIGHT = 0.3, 0.02
#: Cost of a motion with colliding links, and number of configurations between two poses that are checked.
COLLISION_COST, N_COLLISION_SAMPLES = 2.0, 6
#: Maximum penetration of links beyond that in the folded pose [m].
PENETRATION_TOLERANCE = 1e-3

LYING_ROLL_ANGLES = {"back": math.pi - 0.05, "left": -0.5 * math.pi, "right": 0.5 * math.pi}


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """Result of the search for a righting motion."""

    motion: RightingMotion | None  # righting motion; None if none succeeded
    parameters: Array  # (n_parameters,) parameters of the best motion
    reason: str  # reason for the failure; empty if a motion succeeded


class RightingSearch:
    """Evaluation of righting motions of a robot in a plant.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.

    Attributes:
        n_parameters: number of parameters of a motion.
    """

    def __init__(self, robot: Robot, morphology: Morphology) -> None:
        self._robot, self._morphology = robot, morphology
        self._legs, self._joints = LegPoseParameters(robot, morphology), JointPositions.actuated(robot)
        limiter = TorqueLimiter(robot, morphology, MAX_SERVO_PERIOD, None)
        self._servo = JointServo(robot, limiter, MAX_SERVO_PERIOD)
        self._plant = Simulation(robot, dt=MAX_SERVO_PERIOD)
        self._settled_states: dict[tuple[str, float, float], object] = {}
        try:
            self._collisions: CollisionModel | None = CollisionModel(robot)
        except ArgumentError:  # no links that could collide
            self._collisions = None
        self._folded_penetrations = self._penetrations(self._legs.folded_pose)
        self.n_parameters = LegPoseParameters.N_PARAMETERS * N_POSES + N_POSES + 1

    def mirror(self, parameters: Array) -> Array:
        """Returns the parameters of the motion with left and right exchanged."""
        poses = parameters[: -N_POSES - 1].reshape(N_POSES, LegPoseParameters.N_PARAMETERS)
        times = parameters[-N_POSES - 1 :]
        return np.concatenate((self._legs.mirror(poses).ravel(), times))

    def make_motion(self, parameters: Array) -> RightingMotion:
        """Returns the righting motion that parameters (n_parameters,) describe."""
        poses = [
            self._legs.pose(each)
            for each in parameters[: -N_POSES - 1].reshape(N_POSES, LegPoseParameters.N_PARAMETERS)
        ]
        times = (
            np.clip(
                MEDIAN_MOVE_TIME * np.exp(MOVE_TIME_EXPONENT * parameters[-N_POSES - 1 :]), MIN_MOVE_TIME, MAX_MOVE_TIME
            )
            * self._morphology.time_scale
        )
        return RightingMotion(
            np.array([*poses, self._legs.folded_pose]),
            times,
            np.full(N_POSES + 1, POSE_HOLD_TIME * self._morphology.time_scale),
        )

    def max_penetration(self, motion: RightingMotion) -> float:
        """Returns the maximum penetration of links during a motion [m]; 0 without collisions."""
        if self._collisions is None:
            return 0.0
        previous_pose, largest = motion.poses[-1], 0.0
        for pose in motion.poses:
            for fraction in np.arange(1, N_COLLISION_SAMPLES + 1) / N_COLLISION_SAMPLES:
                for links, depth in self._penetrations(previous_pose + fraction * (pose - previous_pose)).items():
                    largest = max(largest, depth - self._folded_penetrations.get(links, 0.0) - PENETRATION_TOLERANCE)
            previous_pose = pose
        return largest

    def _penetrations(self, position: Array) -> dict[tuple[str, str], float]:
        """Returns the penetration of each colliding pair of links at joint positions (nu,) [m]."""
        if self._collisions is None:
            return {}
        q = np.array(self._robot.q_home)
        self._joints.put(q, position)
        return {s.links: -s.distance for s in self._collisions.separations(q) if s.distance < 0.0}

    def trunk_axes(self) -> Array:
        """Returns the present rotation (3, 3) of the trunk: columns forward, left and up axis, in world axes."""
        R = pin.Quaternion(np.array(self._plant.q[3:7])).toRotationMatrix()
        return np.asarray(R @ self._morphology.heading)

    def rests_on(self, side: str, friction: float = VARIATIONS[0][0], roll_offset: float = 0.0) -> bool:
        """Returns whether the folded robot, dropped onto its back or side, comes to rest on that side.

        Args:
            side: "back", "left" or "right".
            friction: friction coefficient of the ground.
            roll_offset: angle added to the roll angle of the side [rad].
        """
        self.simulate_fall(side, friction, roll_offset)
        return classify_lying_side(self.trunk_axes()) == side

    def _track(self, desired: Callable[[float], Array], duration: float) -> tuple[float, float]:
        """Tracks desired joint positions; returns maximum height of the upward axis and peak joint power [W]."""
        plant, max_upright, power = self._plant, -1.0, 0.0
        index = self._robot.actuated_index
        for k in range(round(duration / MAX_SERVO_PERIOD)):
            speed = plant.v[index]
            tau = self._servo.torques(desired(k * MAX_SERVO_PERIOD), self._joints.of(plant.q), speed)
            plant.step(tau)
            power = max(power, float(np.abs(tau * speed).max()))
            if k % 10 == 0:
                max_upright = max(max_upright, float(self.trunk_axes()[2, 2]))
        return max_upright, power

    def simulate_fall(self, side: str, friction: float, roll_offset: float) -> None:
        """Simulates the fall of the folded robot onto its back or side until it settles.

        Args:
            side: "back", "left" or "right".
            friction: friction coefficient of the ground.
            roll_offset: angle added to the roll angle of the side [rad].
        """
        key = side, friction, roll_offset
        self._plant.friction = friction
        if key in self._settled_states:
            self._plant.restore(self._settled_states[key])  # type: ignore[arg-type]
            return
        q = np.array(self._robot.q_home)
        self._joints.put(q, self._legs.folded_pose)
        heading = self._morphology.heading
        roll = pin.exp3(np.array([LYING_ROLL_ANGLES[side] + roll_offset, 0.0, 0.0]))
        q[3:7] = pin.Quaternion(roll @ heading.T).coeffs()
        q[2] += DROP_HEIGHT * self._morphology.length
        self._plant.reset(q)
        self._track(lambda _: self._legs.folded_pose, SETTLING_TIME * self._morphology.time_scale)
        self._settled_states[key] = self._plant.checkpoint()

    def simulate_motion(
        self, motion: RightingMotion, side: str, friction: float, roll_offset: float
    ) -> tuple[float, float, float]:
        """Simulates a motion; returns the height of the upward axis at the end, its maximum, and the peak power [W]."""
        try:
            self.simulate_fall(side, friction, roll_offset)
            max_upright, power = self._track(
                motion.sample, motion.duration + RESTING_TIME * self._morphology.time_scale
            )
        except QuaddynError:  # diverged
            return -1.0, -1.0, np.inf
        return float(self.trunk_axes()[2, 2]), max_upright, power

    def evaluate_cost(self, parameters: Array, side: str) -> float:
        """Returns the cost of a motion; lower is better."""
        motion = self.make_motion(parameters)
        depth = self.max_penetration(motion)
        if depth > 0.0:
            return COLLISION_COST + min(depth / self._morphology.length, 1.0)
        final_upright, max_upright, power = self.simulate_motion(motion, side, *VARIATIONS[0])
        scale = self._morphology.mass * self._morphology.gravity * self._morphology.speed_scale
        return -(final_upright + BEST_ATTITUDE_WEIGHT * max_upright) + min(POWER_WEIGHT * power / scale, 1.0)

    def is_robust(self, parameters: Array, side: str) -> bool:
        """Returns whether a motion rights the robot in all `VARIATIONS` in which it rests on this side."""
        motion = self.make_motion(parameters)
        return all(
            not self.rests_on(side, *each) or self.simulate_motion(motion, side, *each)[0] > MIN_UPRIGHT_COSINE
            for each in VARIATIONS
        )


def find_motion(
    search: RightingSearch,
    side: str,
    rng: np.random.Generator,
    *,
    max_trials: int,
    first_parameters: Array | None,
    progress: Callable[[str], None],
) -> SearchResult:
    """Searches a motion that rights a robot, by the cross-entropy method.

    Args:
        search: evaluation of motions in a plant.
        side: side on which the robot lies.
        rng: random generator.
        max_trials: maximum number of trial motions.
        first_parameters: parameters of a motion to try first; None for none.
        progress: function that is called with a line of text for every generation.
    """
    if (
        first_parameters is not None
        and search.evaluate_cost(first_parameters, side) < COLLISION_COST
        and search.is_robust(first_parameters, side)
    ):
        return SearchResult(search.make_motion(first_parameters), first_parameters, "")
    mean, spread = np.zeros(search.n_parameters), np.full(search.n_parameters, 0.6)
    best_parameters, min_cost, n_trials = np.zeros(search.n_parameters), np.inf, 0
    samples = rng.uniform(-1.0, 1.0, (FIRST_GENERATION_SIZE, search.n_parameters))
    while True:
        costs = np.array([search.evaluate_cost(sample, side) for sample in samples])
        n_trials += len(samples)
        order = np.argsort(costs, kind="stable")
        if costs[order[0]] < min_cost:
            best_parameters, min_cost = samples[order[0]].copy(), float(costs[order[0]])
        for i in order[:2]:  # the two best
            if costs[i] < -MIN_UPRIGHT_COSINE and search.is_robust(samples[i], side):
                return SearchResult(search.make_motion(samples[i]), samples[i].copy(), "")
        final_upright, max_upright, _ = search.simulate_motion(
            search.make_motion(best_parameters), side, *VARIATIONS[0]
        )
        tilt_degrees = math.degrees(
            math.acos(min(max(max(final_upright, max_upright) if min_cost < COLLISION_COST else -1.0, -1.0), 1.0))
        )
        progress(f"{n_trials} trials, at best {tilt_degrees:.0f} deg from upright")
        if n_trials >= max_trials:
            if min_cost >= COLLISION_COST:
                reason = f"links collide on all {n_trials} paths of the legs that were tried"
            elif final_upright > MIN_UPRIGHT_COSINE:
                reason = f"no motion also succeeds with other friction and attitude, in {n_trials} trials"
            else:
                reason = f"joints and torques reach {tilt_degrees:.0f} deg from upright at best, in {n_trials} trials"
            return SearchResult(None, best_parameters, reason)
        elite = np.vstack((samples[order[:ELITE_SIZE]], best_parameters))
        mean, spread = 0.3 * mean + 0.7 * elite.mean(axis=0), 0.3 * spread + 0.7 * elite.std(axis=0) + MIN_SPREAD
        samples = np.clip(
            mean + spread * rng.standard_normal((min(GENERATION_SIZE, max_trials - n_trials), search.n_parameters)),
            -1.2,
            1.2,
        )
