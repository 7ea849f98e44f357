"""`Transitions`: when the robot changes from one mode to another."""

from __future__ import annotations

import math

from ..urdf.tree import Array
from .course import Course
from .footing import Footing
from .gait import Clock, Gait
from .ground import GroundPlane
from .modes import TOPPLING, Mode, escaping, misplaced
from .motion import Motion
from .pace import Pace
from .proportions import Proportions
from .steering import LEASH
from .trunk import Trunk

#: Height of the centre of mass of who lies, and of who must rise first, as shares of that at home.
LYING_HEIGHT, LOW_HEIGHT = 0.5, 0.95
#: Height of who begins too high, as a share of that at home.
HIGH = 1.02
#: How far from the middle of the feet the centre of mass may begin [l].
LEAN = 0.1


class Transitions:
    """The conditions under which a robot rises, walks, recovers, stops or lies down.

    Args:
        proportions: of the robot.

    Attributes:
        lie: whether the robot is to lie down.
    """

    __slots__ = ("_p", "_pace", "lie")

    def __init__(self, proportions: Proportions) -> None:
        self._p, self._pace = proportions, Pace(proportions)
        self.lie = False

    def start(
        self, motion: Motion, ground: GroundPlane, low: float, course: Course
    ) -> tuple[float, tuple[float, float]]:
        """Where the trunk begins that has to rise, to sink or to shift first, and where it belongs if it has not.

        Args:
            motion: of the robot, which stands.
            ground: the plane of its feet.
            low: how much lower the trunk is over such ground, see `crouch` [m].
            course: whose position is the middle of its feet.

        Returns:
            Height of the centre of mass over the ground, as on level ground [m], and how far it is from the middle of
            the feet, world [m].
        """
        p, (x, y, z), (middle_x, middle_y) = self._p, motion.com, course.position.tolist()
        height, lean = z - ground.height(x, y) + low, (x - middle_x, y - middle_y)
        aside = math.hypot(*lean) > LEAN * p.length and not escaping(lean, motion.feet, TOPPLING)
        level = LOW_HEIGHT * p.height <= height <= HIGH * p.height
        return p.height if level else height, lean if aside else (0.0, 0.0)

    def after(
        self,
        mode: Mode,
        gait: Gait,
        wanted: Array,
        error: tuple[float, float],
        feet: Array,
        stance: Array,
        clock: Clock,
        course: Course,
        trunk: Trunk,
        footing: Footing,
    ) -> Mode:
        """The mode from the next tick on, of who is on the ground; starts, stops and paces the clock.

        Args:
            mode: now.
            gait: to move with.
            wanted: (3,) commanded velocity, within reach.
            error: of the divergent component, world [m].
            feet: (4, 3) centres of the feet's spheres, world [m].
            stance: (4, 2) of the feet about the course, heading axes [m].
            clock: of the gait.
            course: of the robot.
            trunk: of the robot.
            footing: of the robot.
        """
        p, still = self._p, not any(wanted.tolist())
        self._pace.adapt(clock, error)
        if mode in (Mode.STANDING, Mode.STARTING):
            if self.lie:
                trunk.go_to(LYING_HEIGHT * p.height)
                return Mode.LOWERING
            if not still:
                clock.change(gait)
                clock.start()
                return Mode.MOVING
            if footing.sure and (escaping(error, feet) or misplaced(feet, course, stance, p.length)):
                clock.change("trot")
                clock.start(lead=0.0)
                return Mode.RECOVERING
        elif mode in (Mode.MOVING, Mode.RECOVERING):
            settled = clock.phase >= 1.0 and not any(course.velocity.tolist())
            if not clock.running:
                return Mode.STANDING
            if self.lie or (still and settled and max(map(abs, error)) < 0.5 * LEASH * p.length):
                clock.stop()
            elif not still:
                clock.change(gait)
                clock.start()  # takes back a stop
                return Mode.MOVING
        elif not trunk.busy:
            return {Mode.RISING: Mode.STANDING, Mode.CROUCHING: Mode.JUMPING}.get(mode, Mode.LYING)
        return mode
