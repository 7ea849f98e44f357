"""`VelocityLimits`: the velocities that a gait can reach with a robot's legs."""

from __future__ import annotations

import numpy as np

from ..urdf.tree import Array
from .footwork_state import MAX_INWARD_FRACTION
from .gait import Gait, write_gait_parameters
from .leg_workspace import LegWorkspace
from .morphology import FEET, Morphology, make_body_parameters
from .velocity_clamping import (
    SWING_SPEED_FRACTION,
    GaitLimits,
    LegLimits,
    LimitReason,
    allocate_gait_limits,
    clamp_command,
    clamp_velocity,
    compute_max_hip_speed,
    compute_swing_length,
)

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
GROUND_FRICTION = "friction of the ground"
NO_PROGRESS_MESSAGE = "no progress: stopped"
#: Texts of the reasons; those of `LimitReason.LEGS_ON_SLOPE` and `LimitReason.TERRAIN_STEP` depend on the robot.
REASON_TEXTS = {
    LimitReason.NONE: "",
    LimitReason.NO_STEPPING: NO_STEPPING,
    LimitReason.NO_LATERAL_MOTION: NO_LATERAL_MOTION,
    LimitReason.STRIDE_OF_GAIT: STRIDE_OF_GAIT,
    LimitReason.JOINT_SPEED: JOINT_SPEED,
    LimitReason.FEET_CROSS: FEET_CROSS,
    LimitReason.GROUND_FRICTION: GROUND_FRICTION,
    LimitReason.NO_PROGRESS: NO_PROGRESS_MESSAGE,
    **{LimitReason.LEG_REACH + i: f"{LEG_REACH} {foot}" for i, foot in enumerate(FEET)},
}


class VelocityLimits:
    """Velocity limits of gaits on level ground.

    Feet stay within the stride of the gait and the reach of their legs, joints stay within their speed limits, and no
    foot crosses another.

    Args:
        morphology: lengths and units of the robot.
        workspace: reachable areas of its feet.

    Attributes:
        body: parameters of the robot, for compiled functions.
        legs: limits of the legs that do not depend on the gait, likewise.
    """

    __slots__ = ("_gait", "_gait_limits", "_morphology", "_workspace", "body", "legs")

    def __init__(self, morphology: Morphology, workspace: LegWorkspace) -> None:
        self._morphology, self._workspace = morphology, workspace
        stance = np.abs(morphology.nominal_stance)
        self.body = make_body_parameters(morphology)
        self.legs = LegLimits.from_values(
            joint_speed=morphology.joint_speed,
            radius=float(np.hypot(*stance.max(axis=0))),
            half_width=float(stance[:, 1].min()),
            max_inward_fraction=MAX_INWARD_FRACTION,
            can_step_sideways=morphology.can_step_sideways,
        )
        self._gait: Gait | None = None
        self._gait_limits = allocate_gait_limits()

    def write_gait(self, limits: GaitLimits, gait: Gait) -> None:
        """Writes the properties of a gait that limit velocities to a record."""
        write_gait_parameters(limits.timing, gait, self._morphology.time_scale)
        limits.max_stride, limits.has_end_support = gait.max_stride, gait.has_end_support
        reach = self._workspace.measure_reach(gait.footprint_scale)
        limits.is_reach_known = reach is not None
        limits.reach[:] = 0.0 if reach is None else reach

    def gait_limits(self, gait: Gait) -> GaitLimits:
        """Returns the properties of a gait that limit velocities, until the next call with another gait."""
        if gait is not self._gait:
            self.write_gait(self._gait_limits, gait)
            self._gait = gait
        return self._gait_limits

    def max_hip_speed(self, x: float, y: float, yaw_rate: float) -> float:
        """Computes an upper bound of the speed of all hips [m/s].

        Args:
            x: forward speed [m/s].
            y: leftward speed [m/s].
            yaw_rate: yaw rate [rad/s].
        """
        return float(compute_max_hip_speed(self.legs, float(x), float(y), float(yaw_rate)))

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
        return float(compute_swing_length(self.legs, self.gait_limits(gait)))

    def clamp_velocity(self, gait: Gait, velocity: Array, *, for_reference: bool = False) -> tuple[Array, str]:
        """Returns the velocity, scaled down in all components alike, and the reason ("" if it was not limited).

        Args:
            gait: gait to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
            for_reference: whether it is the velocity of the path reference, which may exceed the command.
        """
        clamped, limits = np.array(velocity, dtype=float), self.gait_limits(gait)
        if for_reference:
            clamp_velocity(self.body, self.legs, limits, clamped, 1.0)
            return clamped, ""
        return clamped, REASON_TEXTS[clamp_command(self.body, self.legs, limits, clamped)]
