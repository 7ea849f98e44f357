"""`Stumbles`: swings that meet an obstacle nobody knew of, or did not clear, and how high feet are lifted then."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ..urdf.tree import Array
from .morphology import FEET, Morphology
from .swing import UNIFORM_TIMING, SwingTiming, SwingTrajectory

#: How far a foot has to be behind its path [l], and to what share of the path's speed it has to have come down for how
#: long [sqrt(l/g)], to be held up by something: legs that are slow are behind as well, but go on.
BLOCKED_FOOT_DISTANCE, BLOCKED_SPEED_FRACTION, BLOCKED_TIME = 0.04, 0.3, 0.05
#: Force against the path of a foot from which on something holds it up, as a fraction of what a foot carries of the
#: weight, and as a multiple of the vertical force: a foot that lands early, or scrapes along the ground, feels friction
#: against its path, which is less than what presses it to the ground.
MIN_BLOCKING_FORCE, MIN_BLOCKING_FORCE_RATIO = 0.05, 1.0
#: Share of the swing until which a foot that is held up is lifted over what holds it; later it is put down before it.
ELEVATING_PHASE = 0.6
#: Where the swing of a foot that is lifted begins again at most, and how long it then goes up only, as shares of the
#: swing.
RESTART_PHASE, VERTICAL_PHASE = 0.1, 0.2
#: How high what holds up a foot is taken to be [l]; nobody knows.
ASSUMED_OBSTACLE_HEIGHT = 0.12
#: Difference in height from the plane of the feet that is taken for rough ground, and the most that feet are lifted
#: for [l].
ROUGH_HEIGHT, MAX_EXTRA_CLEARANCE = 0.03, 0.15
#: How far a standing foot moves along the normal of the ground until it is taken to have none under it any more [l].
SLIP_DISTANCE = 0.03
#: Time constant in which roughness is forgotten [sqrt(l/g)].
ROUGHNESS_DECAY_TIME = 15.0
NO_FORCE = np.zeros(3)
#: On rough ground feet go up first, then over.
UP_FIRST = SwingTiming(0.12, 1.0, 0.0, 1.0)


class StumbleReflex:
    """What feet that met the ground elsewhere than on the plane of the others tell of the ground to come.

    A foot in the air that falls behind its path, hardly moves and feels a force against its way is held up by
    something, most likely a riser; one that is late without a force is just slow, and one that the ground pushes
    upwards more than backwards has landed early.  Early in its swing it is lifted and
    goes over it, late in the swing it is put down in front of it: the two strategies of people who trip (Eng, Winter
    and Patla 1994, "Strategies for recovery from a trip in early and late swing during human walking").  After that,
    and after footholds beside the plane, all feet are lifted higher, and go up before they go over, for a while.
    A foot that stood and has left its foothold, off an edge, has to come down again.

    Args:
        morphology: of the robot.

    Attributes:
        roughness: height of obstacles that are to be expected [l]; 0 on even ground.
        lowered_feet: by number of the foot, where one is put down in front of an obstacle, world x and y [m].
    """

    __slots__ = (
        "_blocked_times",
        "_last_feet",
        "_min_blocking_force",
        "_p",
        "_touchdown_positions",
        "lowered_feet",
        "roughness",
    )

    def __init__(self, morphology: Morphology) -> None:
        self._p = morphology
        self._min_blocking_force = MIN_BLOCKING_FORCE * morphology.mass * morphology.gravity / len(FEET)
        self.roughness = 0.0
        self.lowered_feet: dict[int, tuple[float, float]] = {}
        self._last_feet: Array | None = None
        self._blocked_times: dict[int, float] = {}  # for how long each foot has been held up [s]
        self._touchdown_positions: dict[int, Array] = {}  # where each foot touched down

    @property
    def extra_clearance(self) -> float:
        """How much higher than on even ground feet are lifted [l]."""
        return self.roughness if self.roughness > ROUGH_HEIGHT else 0.0

    @property
    def timing(self) -> SwingTiming:
        """Of swings that begin."""
        return UP_FIRST if self.roughness > ROUGH_HEIGHT else UNIFORM_TIMING

    def record_touchdown(self, i: int, position: Array, height_error: float) -> None:
        """A foot stands.

        Args:
            i: number of the foot.
            position: (3,) where it touches the ground, world [m].
            height_error: height of its foothold over the plane of the others [m].
        """
        self.lowered_feet.pop(i, None)
        self._touchdown_positions[i] = position
        high = abs(height_error) / self._p.length
        if high > ROUGH_HEIGHT:
            self.roughness = min(max(self.roughness, high), MAX_EXTRA_CLEARANCE)

    def has_left_foothold(self, i: int, position: Array, normal: tuple[float, float, float]) -> bool:
        """Whether a foot that stands has left its foothold; it is then put down where it is, until it has `landed`.

        Sliding along the ground, it stands; an edge that it slides off it leaves along the normal.

        Args:
            i: number of the foot.
            position: (3,) of it that touches the ground, world [m].
            normal: of the ground.
        """
        away = float((position - self._touchdown_positions.setdefault(i, position)) @ np.array(normal))
        if abs(away) < SLIP_DISTANCE * self._p.length:
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
        """Let `dt` pass, and take up feet that are held up.

        Args:
            swings: by number of the foot; those of feet that are held up are replaced.
            monitored: the feet that may meet something; others go on.
            feet: (4, 3) centres of the feet's spheres, world [m].
            forces: (3,) by foot, on the robot, world axes [N]; a foot that is left out feels none.  None where they are
                not known: `monitored` are feet that touch something, then.
            duration: of swings [s].
            dt: [s].
            uncertainty: force that may be an error of the estimate [N].
        """
        p = self._p
        self.roughness -= self.roughness * min(1.0, dt / (ROUGHNESS_DECAY_TIME * p.time_scale))
        before, self._last_feet = self._last_feet, feet
        if before is None:
            return
        for i, swing in swings.items():
            if i not in monitored or i in self.lowered_feet or swing.progress >= 1.0:
                continue
            u, v, _ = swing.velocity.tolist()
            speed = math.hypot(u, v)
            (x, y, _), (a, b, _), (c, d, _) = swing.position.tolist(), feet[i].tolist(), before[i].tolist()
            lag, way = (x - a) * u + (y - b) * v, (a - c) * u + (b - d) * v  # times speed
            slow = lag > BLOCKED_FOOT_DISTANCE * p.length * speed and way < BLOCKED_SPEED_FRACTION * speed * speed * dt
            if slow and forces is not None:
                x, y, z = forces.get(FEET[i], NO_FORCE).tolist()
                against = -(x * u + y * v) / max(math.hypot(u, v), 1e-12)
                slow = against > max(self._min_blocking_force, uncertainty, MIN_BLOCKING_FORCE_RATIO * z)
            if not slow:
                self._blocked_times.pop(i, None)
                continue
            self._blocked_times[i] = self._blocked_times.get(i, 0.0) + dt
            if self._blocked_times[i] < BLOCKED_TIME * p.time_scale:
                continue
            del self._blocked_times[i]
            self.roughness = max(self.roughness, ASSUMED_OBSTACLE_HEIGHT)
            late = swing.progress > ELEVATING_PHASE
            again = SwingTrajectory(
                feet[i],
                np.zeros(3),
                duration=duration,
                clearance=swing.clearance,
                touchdown_speed=swing.touchdown_speed,
                ground_normal=swing.ground_normal,
            )
            again.progress = swing.progress if late else min(swing.progress, RESTART_PHASE)
            if late:
                self.lowered_feet[i] = float(feet[i, 0]), float(feet[i, 1])
            else:
                again.timing = SwingTiming(again.progress + VERTICAL_PHASE, 1.0, 0.0, 1.0)
            swings[i] = again
