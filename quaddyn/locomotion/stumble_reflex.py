"""`StumbleReflex`: reaction of swing feet to unknown obstacles, and roughness of the ground from footholds."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ..urdf.tree import Array
from .morphology import FEET, Morphology
from .swing import UNIFORM_TIMING, SwingTiming, SwingTrajectory

#: A foot is blocked if it lags behind its path by at least this distance [l] and is slower than this fraction of the
#: path's speed for this time [sqrt(l/g)]: slow legs lag behind, too, but keep moving.
BLOCKED_FOOT_DISTANCE, BLOCKED_SPEED_FRACTION, BLOCKED_TIME = 0.04, 0.3, 0.05
#: Minimum contact force against the path of a blocked foot, as a fraction of the weight per foot, and as a multiple of
#: the vertical force: friction against the path of a foot that lands early or scrapes along the ground is less than its
#: normal force.
MIN_BLOCKING_FORCE, MIN_BLOCKING_FORCE_RATIO = 0.05, 1.0
#: Fraction of the swing until which a blocked foot is lifted over the obstacle; later it is put down in front of it.
ELEVATING_PHASE = 0.6
#: Fraction of the swing at which the swing of a blocked foot restarts at most, and duration of its purely vertical
#: motion, as a fraction of the swing.
RESTART_PHASE, VERTICAL_PHASE = 0.1, 0.2
#: Assumed height of an obstacle that blocks a foot [l].
ASSUMED_OBSTACLE_HEIGHT = 0.12
#: Minimum deviation of a foothold from the plane of the feet that counts as rough ground, and maximum additional
#: clearance of the feet [l].
ROUGH_HEIGHT, MAX_EXTRA_CLEARANCE = 0.03, 0.15
#: Displacement of a stance foot along the ground normal above which it has left its foothold [l].
SLIP_DISTANCE = 0.03
#: Time constant with which the roughness decays [sqrt(l/g)].
ROUGHNESS_DECAY_TIME = 15.0
NO_FORCE = np.zeros(3)
#: On rough ground feet move up first, then forward.
UP_FIRST = SwingTiming(0.12, 1.0, 0.0, 1.0)


class StumbleReflex:
    """Reaction of swing feet to unknown obstacles, and estimate of the roughness of the ground.

    A swing foot that lags behind its path, hardly moves and has a contact force against its path is blocked, most
    likely by a riser.  A foot that lags behind without such a force is just slow, and a foot that the ground pushes
    upward more than backward has landed early.  Early in its swing a blocked foot is lifted over the obstacle, late in
    the swing it is put down in front of it: the two strategies of humans who trip (Eng, Winter and Patla 1994,
    "Strategies for recovery from a trip in early and late swing during human walking").  After that, and after
    footholds off the plane of the feet, all feet are lifted higher, and move up before they move forward, for a while.
    A stance foot that has left its foothold, off an edge, is lowered again.

    Args:
        morphology: lengths and units of the robot.

    Attributes:
        roughness: expected height of obstacles [l]; 0 on even ground.
        lowered_feet: positions of the feet that are put down in front of an obstacle, world x and y [m], by index.
    """

    __slots__ = (
        "_blocked_times",
        "_last_feet",
        "_min_blocking_force",
        "_morphology",
        "_touchdown_positions",
        "lowered_feet",
        "roughness",
    )

    def __init__(self, morphology: Morphology) -> None:
        self._morphology = morphology
        self._min_blocking_force = MIN_BLOCKING_FORCE * morphology.mass * morphology.gravity / len(FEET)
        self.roughness = 0.0
        self.lowered_feet: dict[int, tuple[float, float]] = {}
        self._last_feet: Array | None = None
        self._blocked_times: dict[int, float] = {}  # time for which each foot has been blocked [s]
        self._touchdown_positions: dict[int, Array] = {}  # (3,) position of each foot at touchdown [m]

    @property
    def extra_clearance(self) -> float:
        """Additional clearance of the feet on rough ground [l]."""
        return self.roughness if self.roughness > ROUGH_HEIGHT else 0.0

    @property
    def timing(self) -> SwingTiming:
        """Timing of swings that begin now."""
        return UP_FIRST if self.roughness > ROUGH_HEIGHT else UNIFORM_TIMING

    def record_touchdown(self, i: int, position: Array, height_error: float) -> None:
        """Records the touchdown of a foot.

        Args:
            i: index of the foot.
            position: (3,) contact point of the foot, world [m].
            height_error: height of the foothold over the plane of the others [m].
        """
        self.lowered_feet.pop(i, None)
        self._touchdown_positions[i] = position
        deviation = abs(height_error) / self._morphology.length
        if deviation > ROUGH_HEIGHT:
            self.roughness = min(max(self.roughness, deviation), MAX_EXTRA_CLEARANCE)

    def has_left_foothold(self, i: int, position: Array, normal: tuple[float, float, float]) -> bool:
        """Returns whether a stance foot has left its foothold; it is then lowered until its next touchdown.

        A foot that slides along the ground stays in contact; one that slides off an edge moves along the normal.

        Args:
            i: index of the foot.
            position: (3,) contact point of the foot, world [m].
            normal: (3,) unit normal of the ground, world.
        """
        displacement = float((position - self._touchdown_positions.setdefault(i, position)) @ np.array(normal))
        if abs(displacement) < SLIP_DISTANCE * self._morphology.length:
            return False
        del self._touchdown_positions[i]
        self.lowered_feet[i] = float(position[0]), float(position[1])
        return True

    def advance(
        self,
        swings: dict[int, SwingTrajectory],
        monitored: Collection[int],
        feet: Array,
        forces: Mapping[str, Array] | None,
        duration: float,
        dt: float,
        uncertainty: float = 0.0,
    ) -> None:
        """Advances by `dt` and replaces the swings of blocked feet.

        Args:
            swings: swing trajectories by index of the foot; those of blocked feet are replaced.
            monitored: indices of the feet that may meet an obstacle.
            feet: (4, 3) centers of the foot spheres, world [m].
            forces: (3,) contact forces on the robot, by name of the foot, world axes [N]; zero for a missing foot.
                None where they are unknown: `monitored` are then feet in contact.
            duration: duration of swings [s].
            dt: control period [s].
            uncertainty: contact force that may be an error of the estimate [N].
        """
        p = self._morphology
        self.roughness -= self.roughness * min(1.0, dt / (ROUGHNESS_DECAY_TIME * p.time_scale))
        last_feet, self._last_feet = self._last_feet, feet
        if last_feet is None:
            return
        for i, swing in swings.items():
            if i not in monitored or i in self.lowered_feet or swing.progress >= 1.0:
                continue
            u, v, _ = swing.velocity.tolist()
            speed = math.hypot(u, v)
            (x, y, _), (a, b, _), (c, d, _) = swing.position.tolist(), feet[i].tolist(), last_feet[i].tolist()
            lag, progress = (x - a) * u + (y - b) * v, (a - c) * u + (b - d) * v  # times speed
            is_blocked = (
                lag > BLOCKED_FOOT_DISTANCE * p.length * speed
                and progress < BLOCKED_SPEED_FRACTION * speed * speed * dt
            )
            if is_blocked and forces is not None:
                x, y, z = forces.get(FEET[i], NO_FORCE).tolist()
                opposing_force = -(x * u + y * v) / max(math.hypot(u, v), 1e-12)
                is_blocked = opposing_force > max(self._min_blocking_force, uncertainty, MIN_BLOCKING_FORCE_RATIO * z)
            if not is_blocked:
                self._blocked_times.pop(i, None)
                continue
            self._blocked_times[i] = self._blocked_times.get(i, 0.0) + dt
            if self._blocked_times[i] < BLOCKED_TIME * p.time_scale:
                continue
            del self._blocked_times[i]
            self.roughness = max(self.roughness, ASSUMED_OBSTACLE_HEIGHT)
            is_late = swing.progress > ELEVATING_PHASE
            new_swing = SwingTrajectory(
                feet[i],
                np.zeros(3),
                duration=duration,
                clearance=swing.clearance,
                touchdown_speed=swing.touchdown_speed,
                ground_normal=swing.ground_normal,
            )
            new_swing.progress = swing.progress if is_late else min(swing.progress, RESTART_PHASE)
            if is_late:
                self.lowered_feet[i] = float(feet[i, 0]), float(feet[i, 1])
            else:
                new_swing.timing = SwingTiming(new_swing.progress + VERTICAL_PHASE, 1.0, 0.0, 1.0)
            swings[i] = new_swing
