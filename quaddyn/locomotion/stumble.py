"""`Stumbles`: swings that meet an obstacle nobody knew of, or did not clear, and how high feet are lifted then."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ..urdf.tree import Array
from .proportions import FEET, Proportions
from .swing import STRAIGHT, Swing, Timing

#: How far a foot has to be behind its path [l], and to what share of the path's speed it has to have come down for how
#: long [sqrt(l/g)], to be held up by something: legs that are slow are behind as well, but go on.
BEHIND, SLOWED, HELD = 0.04, 0.3, 0.05
#: Force against the path of a foot from which on something holds it up, as a fraction of what a foot carries of the
#: weight, and as a multiple of the vertical force: a foot that lands early, or scrapes along the ground, feels friction
#: against its path, which is less than what presses it to the ground.
PRESSED, STEEP = 0.05, 1.0
#: Share of the swing until which a foot that is held up is lifted over what holds it; later it is put down before it.
LIFTED = 0.6
#: Where the swing of a foot that is lifted begins again at most, and how long it then goes up only, as shares of the
#: swing.
AGAIN, UPWARDS = 0.1, 0.2
#: How high what holds up a foot is taken to be [l]; nobody knows.
OBSTACLE = 0.12
#: Difference in height from the plane of the feet that is taken for rough ground, and the most that feet are lifted
#: for [l].
EVEN, HIGHEST = 0.03, 0.15
#: How far a standing foot moves along the normal of the ground until it is taken to have none under it any more [l].
SLID = 0.03
#: Time constant in which roughness is forgotten [sqrt(l/g)].
FORGETTING = 15.0
NONE = np.zeros(3)
#: On rough ground feet go up first, then over.
UP_FIRST = Timing(0.12, 1.0, 0.0, 1.0)


class Stumbles:
    """What feet that met the ground elsewhere than on the plane of the others tell of the ground to come.

    A foot in the air that falls behind its path, hardly moves and feels a force against its way is held up by
    something, most likely a riser; one that is late without a force is just slow, and one that the ground pushes
    upwards more than backwards has landed early.  Early in its swing it is lifted and
    goes over it, late in the swing it is put down in front of it: the two strategies of people who trip (Eng, Winter
    and Patla 1994, "Strategies for recovery from a trip in early and late swing during human walking").  After that,
    and after footholds beside the plane, all feet are lifted higher, and go up before they go over, for a while.
    A foot that stood and has left its foothold, off an edge, has to come down again.

    Args:
        proportions: of the robot.

    Attributes:
        rough: height of obstacles that are to be expected [l]; 0 on even ground.
        lowered: by number of the foot, where one is put down in front of an obstacle, world x and y [m].
    """

    __slots__ = ("_feet", "_held", "_p", "_pressed", "_stood", "lowered", "rough")

    def __init__(self, proportions: Proportions) -> None:
        self._p = proportions
        self._pressed = PRESSED * proportions.mass * proportions.gravity / len(FEET)
        self.rough = 0.0
        self.lowered: dict[int, tuple[float, float]] = {}
        self._feet: Array | None = None
        self._held: dict[int, float] = {}  # for how long each foot has been held up [s]
        self._stood: dict[int, Array] = {}  # where each foot touched down

    @property
    def lift(self) -> float:
        """How much higher than on even ground feet are lifted [l]."""
        return self.rough if self.rough > EVEN else 0.0

    @property
    def timing(self) -> Timing:
        """Of swings that begin."""
        return UP_FIRST if self.rough > EVEN else STRAIGHT

    def landed(self, i: int, spot: Array, beside: float) -> None:
        """A foot stands.

        Args:
            i: number of the foot.
            spot: (3,) where it touches the ground, world [m].
            beside: height of its foothold over the plane of the others [m].
        """
        self.lowered.pop(i, None)
        self._stood[i] = spot
        high = abs(beside) / self._p.length
        if high > EVEN:
            self.rough = min(max(self.rough, high), HIGHEST)

    def slid(self, i: int, spot: Array, normal: tuple[float, float, float]) -> bool:
        """Whether a foot that stands has left its foothold; it is then put down where it is, until it has `landed`.

        Sliding along the ground, it stands; an edge that it slides off it leaves along the normal.

        Args:
            i: number of the foot.
            spot: (3,) of it that touches the ground, world [m].
            normal: of the ground.
        """
        away = float((spot - self._stood.setdefault(i, spot)) @ np.array(normal))
        if abs(away) < SLID * self._p.length:
            return False
        del self._stood[i]
        self.lowered[i] = float(spot[0]), float(spot[1])
        return True

    def advance(
        self,
        swings: dict[int, Swing],
        watched: Collection[int],
        feet: Array,
        forces: Mapping[str, Array] | None,
        duration: float,
        dt: float,
        uncertainty: float = 0.0,
    ) -> None:
        """Let `dt` pass, and take up feet that are held up.

        Args:
            swings: by number of the foot; those of feet that are held up are replaced.
            watched: the feet that may meet something; others go on.
            feet: (4, 3) centres of the feet's spheres, world [m].
            forces: (3,) by foot, on the robot, world axes [N]; a foot that is left out feels none.  None where they are
                not known: `watched` are feet that touch something, then.
            duration: of swings [s].
            dt: [s].
            uncertainty: force that may be an error of the estimate [N].
        """
        p = self._p
        self.rough -= self.rough * min(1.0, dt / (FORGETTING * p.time))
        before, self._feet = self._feet, feet
        if before is None:
            return
        for i, swing in swings.items():
            if i not in watched or i in self.lowered or swing.progress >= 1.0:
                continue
            u, v, _ = swing.velocity.tolist()
            speed = math.hypot(u, v)
            (x, y, _), (a, b, _), (c, d, _) = swing.position.tolist(), feet[i].tolist(), before[i].tolist()
            lag, way = (x - a) * u + (y - b) * v, (a - c) * u + (b - d) * v  # times speed
            slow = lag > BEHIND * p.length * speed and way < SLOWED * speed * speed * dt
            if slow and forces is not None:
                x, y, z = forces.get(FEET[i], NONE).tolist()
                against = -(x * u + y * v) / max(math.hypot(u, v), 1e-12)
                slow = against > max(self._pressed, uncertainty, STEEP * z)
            if not slow:
                self._held.pop(i, None)
                continue
            self._held[i] = self._held.get(i, 0.0) + dt
            if self._held[i] < HELD * p.time:
                continue
            del self._held[i]
            self.rough = max(self.rough, OBSTACLE)
            late = swing.progress > LIFTED
            again = Swing(
                feet[i], np.zeros(3), duration=duration, clearance=swing.clearance, sink=swing.sink, up=swing.up
            )
            again.progress = swing.progress if late else min(swing.progress, AGAIN)
            if late:
                self.lowered[i] = float(feet[i, 0]), float(feet[i, 1])
            else:
                again.timing = Timing(again.progress + UPWARDS, 1.0, 0.0, 1.0)
            swings[i] = again
