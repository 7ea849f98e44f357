"""`VelocityLimits`: the velocities that a gait can reach with a robot's legs."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from .footwork import MAX_INWARD_FRACTION
from .gait import Gait
from .leg_workspace import LegWorkspace
from .morphology import Morphology

#: Maximum mean speed of a swing foot relative to its hip, and of a hip relative to the stance feet, divided by l times
#: the velocity limit of the slowest joint.
SWING_SPEED_FRACTION = 0.18
#: Fraction of that which may be commanded in gaits with end support: the two legs of an end that swing together push
#: the robot back in every cycle, and the path reference is faster than the command to compensate it (`Steering`).
COMMAND_RESERVE = 0.7
#: Minimum path length that a foot must be able to cover in its swing [l], in gaits with end support, in which no foot
#: of the same end can replace a late one.  The vertical motion alone takes 0.3.
MIN_SWING_LENGTH = 0.36
#: Reasons for which a velocity is limited.
NO_STEPPING, NO_LATERAL_MOTION = "gait does not step", "legs without lateral motion"
STRIDE_OF_GAIT, JOINT_SPEED, FEET_CROSS, LEG_REACH = (
    "stride of the gait",
    "speed of the joints",
    "feet would cross",
    "reach of",
)


class VelocityLimits:
    """Velocity limits of gaits on level ground.

    Feet stay within the stride of the gait and the reach of their legs, joints stay within their speed limits, and no
    foot crosses another.

    Args:
        morphology: lengths and units of the robot.
        workspace: reachable areas of its feet.
    """

    __slots__ = ("_cached_command", "_cached_result", "_half_width", "_morphology", "_radius", "_workspace")

    def __init__(self, morphology: Morphology, workspace: LegWorkspace) -> None:
        self._morphology, self._workspace = morphology, workspace
        stance = np.abs(morphology.nominal_stance)
        self._radius = float(np.hypot(*stance.max(axis=0)))
        self._half_width = float(stance[:, 1].min())
        self._cached_command: tuple[Gait, list[float]] | None = None
        self._cached_result: tuple[list[float], str] = [0.0, 0.0, 0.0], ""

    def max_hip_speed(self, x: float, y: float, yaw_rate: float) -> float:
        """Computes an upper bound of the speed of all hips [m/s].

        Args:
            x: forward speed [m/s].
            y: leftward speed [m/s].
            yaw_rate: yaw rate [rad/s].
        """
        return math.hypot(x, y) + abs(yaw_rate) * self._radius

    def gait_limit_reason(self, gait: Gait) -> str:
        """Returns the reason for which legs cannot perform a gait at any velocity; "" if they can.

        The legs must extend as fast as the trunk of a gait with flight phases rises, and where the front or the rear
        feet are all in the air while others carry, they must land in time.
        """
        p = self._morphology
        rate = p.gravity * gait.period * p.time_scale * float(gait.vertical_force_profile.rate.max())
        lands_late = gait.has_end_support and self.swing_length(gait) < MIN_SWING_LENGTH
        return JOINT_SPEED if lands_late or rate > SWING_SPEED_FRACTION * p.length * p.joint_speed else ""

    def swing_length(self, gait: Gait) -> float:
        """Computes the path length that the joints can cover in one swing [l]."""
        return (
            SWING_SPEED_FRACTION
            * self._morphology.joint_speed
            * (1.0 - gait.duty_factor)
            * gait.period
            * self._morphology.time_scale
        )

    def clamp_velocity(self, gait: Gait, velocity: Array, *, for_reference: bool = False) -> tuple[Array, str]:
        """Returns the velocity, scaled down in all components alike, and the reason ("" if it was not limited).

        Args:
            gait: gait to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
            for_reference: whether it is the velocity of the path reference, which may exceed the command.
        """
        query = gait, velocity.tolist()
        if for_reference:
            return np.array(self._compute_clamped_velocity(*query)[0]), ""
        if query != self._cached_command:  # commands rarely change from tick to tick
            self._cached_result, self._cached_command = (
                self._compute_clamped_velocity(*query, COMMAND_RESERVE if gait.has_end_support else 1.0),
                query,
            )
        clamped, reason = self._cached_result
        return np.array(clamped), reason

    def _compute_clamped_velocity(
        self, gait: Gait, velocity: list[float], reserve: float = 1.0
    ) -> tuple[list[float], str]:
        """Returns the velocity (3,) clamped to the fraction `reserve` of the limits, and the reason."""
        p, (x, y, yaw_rate) = self._morphology, velocity
        if not gait.has_swing_phase:
            return [0.0, 0.0, 0.0], NO_STEPPING if x or y or yaw_rate else ""
        reason = ""
        if not p.can_step_sideways and gait.footprint_scale[1] != 1.0:
            return [0.0, 0.0, 0.0], NO_LATERAL_MOTION if x or y or yaw_rate else ""
        if not p.can_step_sideways and (y or yaw_rate):
            y, yaw_rate, reason = 0.0, 0.0, NO_LATERAL_MOTION
        stance, swing_length = gait.duty_factor * gait.period * p.time_scale, self.swing_length(gait)
        max_inward_path = 2.0 * MAX_INWARD_FRACTION * gait.footprint_scale[1] * self._half_width
        speed = self.max_hip_speed(x, y, yaw_rate)
        limits = (
            (1.0, reason),
            (reserve * gait.max_stride * p.length / stance / max(speed, 1e-9), STRIDE_OF_GAIT),
            (reserve * swing_length * p.length / stance / max(speed, 1e-9), JOINT_SPEED),
            (reserve * max_inward_path / stance / max(abs(y), 1e-9), FEET_CROSS),
        )
        half_stance, (length_scale, width_scale) = 0.5 * stance, gait.footprint_scale
        displacements = [
            (half_stance * (x - yaw_rate * width_scale * b), half_stance * (y + yaw_rate * length_scale * a))
            for a, b in p.nominal_stance.tolist()
        ]
        workspace_scale, foot = self._workspace.max_stride_scale(gait.footprint_scale, displacements)
        scale, reason = min(
            (*limits, (reserve * workspace_scale, f"{LEG_REACH} {foot}")), key=lambda candidate: candidate[0]
        )
        return [scale * x, scale * y, scale * yaw_rate], reason
