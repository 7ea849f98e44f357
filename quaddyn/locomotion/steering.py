"""`Steering`: motion of the path reference toward the velocity command, with limits for a robot that lags behind."""

from __future__ import annotations

from ..urdf.tree import Array
from .gait import Gait
from .ground_plane import GroundPlane
from .morphology import Morphology
from .path_reference import PathReference
from .steering_motion import (
    allocate_steering_state,
    is_blocked,
    limit_reference_lead,
    reset_steering,
    set_conditions,
    update_speed_averages,
    update_steering,
)
from .velocity_limits import VelocityLimits


class Steering:
    """Motion of the path reference according to the command and to the motion of the robot.

    The distance of the path reference from a robot that cannot keep up is limited.  If the robot lags behind all the
    time, for example under a load or on soft ground, the path reference moves faster than the command so that the robot
    reaches the commanded velocity.  If an obstacle or slipping feet block the robot, or if it has less than half of the
    reference speed for any reason, the path reference never moves faster than the command.

    Args:
        morphology: lengths and units of the robot.
        legs: velocity limits of the legs.
        dt: control period [s].

    Attributes:
        state: record of the compiled functions, with all of the state.
    """

    __slots__ = ("_legs", "state")

    def __init__(self, morphology: Morphology, legs: VelocityLimits, dt: float) -> None:
        self._legs, self.state = legs, allocate_steering_state()
        self.state.dt = dt

    def reset(self) -> None:
        """Resets all averages."""
        reset_steering.python(self.state)

    def update_speed_averages(self, path: PathReference, velocity: tuple[float, float, float]) -> None:
        """Updates the averages of the reference speed and of the robot's speed along it by one tick.

        Args:
            path: path reference.
            velocity: (3,) velocity of the center of mass, world [m/s].
        """
        update_speed_averages(self.state, self._legs.body, path.state, float(velocity[0]), float(velocity[1]))

    @property
    def is_blocked(self) -> bool:
        """Whether the robot is much slower than the path reference."""
        return bool(is_blocked(self.state, self._legs.body))

    def update_velocity(
        self,
        path: PathReference,
        ground: GroundPlane,
        gait: Gait,
        command: Array,
        friction: float,
        *,
        is_transitioning: bool = False,
        is_obstructed: bool = False,
    ) -> None:
        """Moves the velocity of the path reference toward the command, within the acceleration limits.

        Args:
            path: path reference.
            ground: plane of the feet, along which velocities are commanded.
            gait: gait to move with.
            command: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped.
            friction: friction coefficient that the contact constraints assume, dimensionless.
            is_transitioning: whether a gait transition is in progress; the lag of the robot is then ignored.
            is_obstructed: whether an obstacle or slipping feet block the robot.
        """
        state, legs = self.state, self._legs
        set_conditions(state, float(friction), is_transitioning, is_obstructed)
        update_steering(state, legs.body, legs.legs, legs.gait_limits(gait), path.state, ground.state, command)

    def limit_reference_lead(self, path: PathReference, error: tuple[float, float], yaw: float) -> None:
        """Limits position and heading of the path reference relative to the robot.

        Args:
            path: path reference.
            error: (2,) error of the divergent component, world x and y [m].
            yaw: yaw angle of the robot's heading [rad].
        """
        limit_reference_lead(self.state, self._legs.body, path.state, float(error[0]), float(error[1]), float(yaw))
