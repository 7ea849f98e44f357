"""`LegPoseParameters`: leg poses by six parameters with the same meaning on every quadruped."""

from __future__ import annotations

import numpy as np

from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..locomotion.leg_folding import folded_pose, folding_ranges
from ..locomotion.morphology import FEET, Morphology
from ..robot.robot import Robot
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
