"""`Footwork`: which feet stand, which swing, and where the next one is put down."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..urdf.tree import Array
from .course import ComReference, Course, footholds
from .foothold import KEPT, STUMBLED, Choice
from .foothold_map import EVEN, FootholdMap
from .gait import Clock
from .ground import GroundPlane
from .leg_margins import Stay
from .proportions import FEET, Proportions
from .stumble import Stumbles
from .swing import APEX, SETTLED, UPWARDS_FIRST, Swing

#: How high a foot is lifted [l], how fast it sinks at touchdown [sqrt(g l)], and how far below the ground it aims [l].
CLEARANCE, SINK, PRESS = 0.15, 0.15, 0.01
#: How much less a foot is lifted on a slope, times the sine of its angle [l], and the least [l]: motors of heavy legs
#: have no more to give there.
SPARED, LEAST_CLEARANCE = 0.3, 0.06
#: Share of the swing from which on feeling the ground is a touchdown; before, it is a stumble.
DESCENDING = 0.6
#: Fractions of the swing between which the foot is far from level ground.
AIRBORNE = (0.2, DESCENDING)
#: The same while a pushed robot hurries on even ground, where quick feet scrape, and how high over the ground a foot
#: that is due then stands at once [l].
HURRIED, NEARLY = 0.85, 0.03
#: How far the path of a late foot has gone on into the ground if the foot is held up [l].
BLOCKED = 0.02
#: How much sooner than the foot the trunk is where a known foothold wants it.
AHEAD = 2.0
#: Share of the swing until which it is open when a foot goes over the ground and when up or down.
SHAPED = UPWARDS_FIRST[0].lift_off
#: Longest wait for feet that miss the ground when it is due, as a share of the swing.
PATIENCE = 0.3
#: How far from its place under the body a foot may be put: along and outwards [l], and inwards as a share of half the
#: width.
ALONG, OUTWARDS, INWARDS = 0.5, 0.45, 0.65
#: How much farther than its reach a leg may be asked for: by so little the trunk sinks over legs that spread.
SPREADING = 1.05
#: What a leg is asked for in any case, from its place under the hip: half of the longest stride of any gait [l].
STRIDING = 0.3
#: Largest multiple of the present error that a foothold is moved by, and how much more than what keeps the motion
#: bounded, so that it returns to the course.
LOOK_AHEAD, RETURN = 1.0, 0.25


class Footwork:
    """The feet of a robot that walks.

    A foot in the air aims at the foothold of the course, moved by the present error of the divergent component:
    all footholds to come would have to move by ``(xi - xi*) / open`` for the present xi to be the bounded one
    (`Preview`).  Of that, what the standing feet have not corrected by then is left; `LOOK_AHEAD` caps it.

    Args:
        proportions: of the robot.
        reach: (4,) largest distance of a foot from its leg's first joint [m], see `Stretch`.

    Attributes:
        choices: by number of the foot, how the next foothold of those in the air was chosen.
        swings: `Swing` by number of the foot in `FEET`, of those in the air.
        stumbles: of feet that meet what nobody knew of, or what they did not clear.
        late: whether somebody misses the ground who should stand by now.
    """

    __slots__ = ("_blind", "_far", "_p", "_waited", "choices", "late", "stumbles", "swings")

    def __init__(self, proportions: Proportions, reach: Array) -> None:
        self._p = p = proportions
        above = p.height + p.hips[:, 2]
        far = np.sqrt(np.maximum((SPREADING * reach) ** 2 - above**2, 0.0))  # from the hips, seen from above
        least = np.linalg.norm(p.stance - p.hips[:, :2], axis=1) + STRIDING * p.length
        self._far: list[float] = np.maximum(far, least).tolist()
        self.swings: dict[int, Swing] = {}
        self.choices: dict[int, Choice] = {}
        self.stumbles = Stumbles(proportions)
        self.late = False
        self._blind: set[int] = set()  # feet on their way to where nothing is known of the ground
        self._waited = 0.0

    def patient(self, clock: Clock) -> bool:
        """Whether the gait is to wait for the ground."""
        return self.late and self._waited <= PATIENCE * clock.swing_time

    def planted(self, carrying: Sequence[str]) -> list[str]:
        """Those of the feet that carry which are not still on their way down."""
        return [foot for i, foot in enumerate(FEET) if foot in carrying and i not in self.swings]

    @property
    def airborne(self) -> list[str]:
        """Feet in the middle of their swings, which are far from level ground."""
        return [FEET[i] for i, swing in self.swings.items() if AIRBORNE[0] < swing.progress < AIRBORNE[1]]

    def blocked(self, feet: Array, normals: Sequence[tuple[float, float, float]]) -> tuple[str, ...]:
        """Late feet that something holds up: their paths have gone on, down into the ground.

        Args:
            feet: (4, 3) centres of the feet's spheres, world [m].
            normals: of the ground under the feet.
        """
        most = BLOCKED * self._p.length
        return tuple(
            FEET[i]
            for i, swing in self.swings.items()
            if swing.progress > 1.0 and (feet[i] - swing.position) @ np.array(normals[i]) > most
        )

    def place(
        self,
        clock: Clock,
        ground: GroundPlane,
        feet: Array,
        normals: Sequence[tuple[float, float, float]],
        touching: Collection[str] | None,
        dt: float,
        known: FootholdMap | None = None,
        forces: Mapping[str, Array] | None = None,
        *,
        uncertainty: float = 0.0,
        model_mismatch: bool = False,
    ) -> tuple[str, ...]:
        """Lift and land: by schedule, unless the ground came early or has not come yet.

        A robot that was pushed hurries (`Pace`), and its feet lag behind their paths.  On unknown ground that has been
        even it goes by the schedule where that is nearly true: a foot that is due and close to the ground carries,
        which brings it down sooner than its path, and one that scrapes early is not held where it should not stand.

        Args:
            clock: of the gait, `dt` on.
            ground: gets the footholds of who stands.
            feet: (4, 3) centres of the feet's spheres, world [m].
            normals: of the ground under the feet.
            touching: the feet that feel the ground; None trusts the schedule.
            dt: [s].
            known: the ground about the robot, if it is known; next to edges that rise, feet are lifted away from them.
            forces: (3,) by foot, on the robot, world axes [N]; None where they are not estimated.
            uncertainty: force that may be an error of the estimate [N].
            model_mismatch: whether the model does not explain the motion, so that `touching` says little.  On even
                ground the schedule is trusted then; forces against a foot's path still count as an obstacle.

        Returns:
            The feet that are to carry.
        """
        p, late, carrying, held = self._p, False, [], self.late
        spots = feet - p.radii[:, None] * np.array(normals)
        even = known is None and not self.stumbles.lift
        hurried, scheduled = clock.haste > 1.0 and even, touching is None or (model_mismatch and even)
        descending = HURRIED if hurried else DESCENDING
        for i, (stands, loaded) in enumerate(clock.standing()):
            foot = FEET[i]
            swing = self.swings.get(i)
            if swing is None and not stands:
                away = None if known is None else known.way_up(*ground.points[i, :2].tolist())
                swing = self.swings[i] = self._lift(feet[i], clock, ground, away or normals[i])
                if away is None:
                    swing.timing = self.stumbles.timing
            else:
                felt = scheduled or touching is None or foot in touching
                came = swing is not None and stands
                if came and not felt:
                    x, y, z = spots[i].tolist()
                    came = hurried and z - ground.height(x, y) < NEARLY * p.length
                if came:
                    del self.swings[i]
                    self.choices.pop(i, None)
                    swing, loaded = None, True
                elif swing is None and stands and not scheduled and self.stumbles.slid(i, spots[i], normals[i]):
                    # It goes on down, where it is.
                    swing = self.swings[i] = self._lift(feet[i], clock, ground, normals[i])
                    swing.progress, felt = 1.0, False
                if swing is None:
                    # From the tick of the touchdown on: one tick over the old foothold is a stride's error.
                    if came:
                        x, y, z = spots[i].tolist()
                        unforeseen = not scheduled and (known is None or known.normal(x, y, z) is None)
                        self.stumbles.landed(i, spots[i], z - ground.height(x, y) if unforeseen else 0.0)
                    ground.points[i] = spots[i]
                    ground.coming.pop(i, None)
                    if loaded or held:  # nobody gives a load back while the foot that is to take it misses the ground
                        carrying.append(foot)
                elif stands:
                    late = True
                    if not self.stumbles.lift:
                        # The plan counts on it, soon about here: over its old foothold it would be a stride behind.  On
                        # rough ground that stride waits, for a foot that may still be far from where it will stand.
                        x, y, _ = spots[i].tolist()
                        ground.points[i] = x, y, ground.height(x, y)
                elif not scheduled and felt and swing.progress > descending:
                    carrying.append(foot)
        watched: Collection[int] = ()
        if touching is not None:  # a schedule that is trusted says nothing of obstacles
            watched = [i for i in self._blind if FEET[i] in touching] if forces is None else self._climbing()
        self.stumbles.advance(self.swings, watched, feet, forces, clock.swing_time, dt, uncertainty)
        self.late = late
        self._waited = self._waited + dt if late else 0.0
        return tuple(carrying)

    def _climbing(self) -> list[int]:
        """Feet on their way to unknown ground, and up: who scrapes along an edge on the way down slides off it."""
        up = EVEN * self._p.length
        return [i for i, s in self.swings.items() if i in self._blind or float(s.target[2] - s.start[2]) > up]

    def _lift(self, foot: Array, clock: Clock, ground: GroundPlane, up: tuple[float, float, float]) -> Swing:
        """A swing that begins where the foot is."""
        p = self._p
        high, sink = clearance(ground) * p.length, SINK * p.speed
        return Swing(foot, np.zeros(3), duration=clock.swing_time, clearance=high, sink=sink, up=up)

    def advance(
        self,
        clock: Clock,
        course: Course,
        ground: GroundPlane,
        known: FootholdMap | None,
        reference: ComReference,
        error: tuple[float, float],
        body: tuple[float, float],
        velocity: tuple[float, float],
        stance: Array,
        yaw: float,
        dt: float,
    ) -> None:
        """Move the paths of the feet in the air on.

        Args:
            clock: of the gait.
            course: of the robot.
            ground: the plane of the feet.
            known: the ground about the robot, if it is known.
            reference: of the centre of mass.
            error: of the divergent component, world [m].
            body: the centre of mass, world [m].
            velocity: of the centre of mass, smoothed [m/s].
            stance: (4, 2) of the feet about the course, heading axes [m].
            yaw: of the heading [rad].
            dt: [s].
        """
        if not self.swings:
            return
        p = self._p
        gain = (1.0 + RETURN) * min(1.0 / max(reference.open, 1e-3), LOOK_AHEAD)
        targets = footholds(course, clock.landing, stance).tolist()
        wide = float(clock.spread[1])
        across, aside, up = ground.normal.tolist()
        above, (forward, left, _) = ground.height(*body) - ground.dip + p.height, course.velocity.tolist()
        stay = Stay((*body, above), (forward, left), clock.stance_time, ground.slope, course.yaw)
        for i, swing in self.swings.items():
            left = max(0.0, (1.0 - swing.progress) * clock.swing_time)
            opposite = self.swings.get(i ^ 1)
            beside = (ground.points[i ^ 1] if opposite is None else opposite.target).tolist()
            asked = targets[i][0] + gain * error[0], targets[i][1] + gain * error[1]
            x, y = self._within_reach(
                i,
                asked[0] - body[0] - left * velocity[0],
                asked[1] - body[1] - left * velocity[1],
                yaw,
                wide,
                (beside[0] - body[0] - left * velocity[0], beside[1] - body[1] - left * velocity[1]),
            )
            x, y = x + body[0] + left * velocity[0], y + body[1] + left * velocity[1]
            ahead = left * velocity[0], left * velocity[1]
            wanted, settled = (x, y), swing.progress >= SETTLED and i in self.choices
            r = float(p.radii[i]) - PRESS * p.length  # of the sphere's centre over the ground
            lowered = self.stumbles.lowered.get(i)
            spot = None if known is None or lowered is not None else known.choose(x, y)
            if known is None or spot is None:
                x, y = lowered or (x, y)
                below = None if known is None or lowered is None else known.lowest(x, y)
                window = None if known is None or below is None else known.window
                z, why = ground.height(x, y) if below is None else below, "" if lowered is None else STUMBLED
                if lowered is None:
                    self._blind.add(i)
                elif below is not None:
                    ground.coming[i] = x, y, z
                if why or not settled:
                    self.choices[i] = Choice(i, asked, wanted, (x, y, z), (across, aside, up), why, window, stay, ahead)
                target = x + r * across, y + r * aside, z + r * up
                lift = self.stumbles.lift
                swing.advance(dt, target, clock.swing_time, (clearance(ground) + lift) * p.length if lift else None)
                continue
            self._blind.discard(i)
            x, y, z, normal = spot
            end, high, why = np.array([x, y, z]) + r * normal, None, ""
            if swing.progress > APEX and abs(float(normal @ (end - swing.target))) > EVEN * p.length:
                end = swing.target  # the foot is on its way down, and does not change over to another step
                x, y, z = (end - r * normal).tolist()
                why = KEPT
            if not settled:
                self.choices[i] = Choice(i, asked, wanted, (x, y, z), normal, why, known.window, stay, ahead)
            if swing.progress < APEX:
                least, radius = clearance(ground) * p.length, float(p.radii[i])
                if swing.progress <= SHAPED:
                    swing.timing = known.timing(swing.start, end, radius, least, ground.slope)
                high = known.clearance(swing.start, end, radius, least, ground.slope, swing.timing)
            swing.advance(dt, end, clock.swing_time, high)
            share, (px, py, pz) = min(AHEAD * swing.progress, 1.0), ground.points[i].tolist()
            ground.coming[i] = px + share * (x - px), py + share * (y - py), pz + share * (z - pz)

    def guide(self, tasks: Mapping[str, Any], feet: Array) -> None:
        """References of the feet's tasks: who swings follows its `Swing`, who stands stays.

        Args:
            tasks: by name of the foot.
            feet: (4, 3) centres of the feet's spheres, world [m].
        """
        for i, foot in enumerate(FEET):
            swing = self.swings.get(i)
            if swing is None:
                tasks[foot].reference(feet[i])
            else:
                tasks[foot].reference(swing.position, swing.velocity, swing.acceleration)

    def _within_reach(
        self, i: int, x: float, y: float, yaw: float, wide: float, beside: tuple[float, float]
    ) -> tuple[float, float]:
        """The place (x, y) from the body, or the nearest one where the leg can follow and crosses no other.

        Who stands `wide` times as wide as at home has as much less room inwards.  The foot `beside` it, on the other
        side, counts where it is: a body that is pushed aside leaves it behind.  A leg that cannot do both goes beyond
        its reach rather than across.
        """
        p = self._p
        c, s = math.cos(yaw), math.sin(yaw)
        home_x, home_y = p.stance[i].tolist()
        side = math.copysign(1.0, home_y)
        along = c * x + s * y - home_x
        out = side * (c * y - s * x) - abs(home_y)
        along = min(max(along, -ALONG * p.length), ALONG * p.length)
        out = min(out, OUTWARDS * p.length)
        hip_x, hip_y, _ = p.hips[i].tolist()
        u, v = home_x + along - hip_x, abs(home_y) + out - side * hip_y
        share = min(1.0, self._far[i] / max(math.hypot(u, v), 1e-9))
        if share < 1.0:
            along, out = hip_x + share * u - home_x, side * hip_y + share * v - abs(home_y)
        inner = wide * (1.0 - INWARDS) * abs(home_y)
        clear = side * (c * beside[1] - s * beside[0]) + inner
        u, v = home_x + along, side * (abs(home_y) + max(out, max(inner, clear) - abs(home_y)))
        return c * u - s * v, s * u + c * v


def clearance(ground: GroundPlane) -> float:
    """How high a foot is lifted over the straight way [l]."""
    steep = math.hypot(*ground.normal[:2].tolist())
    return max(CLEARANCE - SPARED * steep, LEAST_CLEARANCE)
