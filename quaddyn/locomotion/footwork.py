"""`Footwork`: contact states of the feet, swing trajectories, and the next footholds."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..urdf.tree import Array
from .foothold import DESCENT_BEGUN, PLACED_BEFORE_OBSTACLE, FootholdSelection
from .foothold_map import EVEN_TERRAIN_TOLERANCE, FootholdMap
from .gait import GaitScheduler
from .ground_plane import GroundPlane
from .leg_margins import StanceInterval
from .morphology import FEET, Morphology
from .path_reference import ComReference, PathReference, compute_footholds
from .stumble_reflex import StumbleReflex
from .swing import APEX_PHASE, TARGET_FREEZE_PHASE, UP_FIRST_TIMINGS, SwingTrajectory

#: Clearance of a swing [l], downward speed at touchdown [sqrt(g l)], and depth of the target below the ground [l].
NOMINAL_CLEARANCE, TOUCHDOWN_SPEED, TARGET_DEPTH = 0.15, 0.15, 0.01
#: Reduction of the clearance on a slope, divided by the sine of its angle [l], and minimum clearance [l]: motors of
#: heavy legs are near their limits there.
SLOPE_CLEARANCE_REDUCTION, MIN_CLEARANCE = 0.3, 0.06
#: Fraction of the swing from which on a contact is a touchdown; before, it is a stumble.
TOUCHDOWN_PHASE = 0.6
#: Fractions of the swing between which the foot is far from level ground.
MID_SWING = (0.2, TOUCHDOWN_PHASE)
#: The same for accelerated steps on even ground, where fast feet scrape, and height over the ground below which a foot
#: whose swing has ended then counts as in contact [l].
FAST_TOUCHDOWN_PHASE, FAST_TOUCHDOWN_HEIGHT = 0.85, 0.03
#: Minimum distance by which the path of a late foot has moved on into the ground if the foot is blocked [l].
BLOCKED_FOOT_DEPTH = 0.02
#: Factor by which the trunk moves to its height over a known foothold sooner than the foot.
TRUNK_LEAD_FACTOR = 2.0
#: Fraction of the swing until which its timing may change.
TIMING_DECISION_PHASE = UP_FIRST_TIMINGS[0].horizontal_start
#: Maximum time for which the gait waits for a late touchdown, as a fraction of the swing.
MAX_TOUCHDOWN_DELAY = 0.3
#: Maximum offset of a foothold from the nominal position under the body: forward or backward and outward [l], and
#: inward as a fraction of half the stance width.
MAX_FORWARD_OFFSET, MAX_OUTWARD_OFFSET, MAX_INWARD_FRACTION = 0.5, 0.45, 0.65
#: Ratio of the maximum distance of a foothold to the reach of the leg: the trunk sinks a little over legs that spread.
REACH_EXCESS_RATIO = 1.05
#: Distance from the hip that is always allowed: half of the longest stride of any gait [l].
MIN_STEP_LENGTH = 0.3
#: Maximum shift of a foothold as a multiple of the present error, and additional fraction beyond the shift that keeps
#: the motion bounded, so that the robot returns to the path reference.
MAX_ERROR_GAIN, EXTRA_ERROR_GAIN = 1.0, 0.25


class Footwork:
    """Contact states and swing feet of a walking robot.

    The target of a swing foot is the foothold of the path reference, shifted by the present error of the divergent
    component: for the present xi to be the bounded one, all coming footholds have to be shifted by
    ``(xi - xi*) / gain`` (`ComPreview`).  The stance feet correct a part of the error until touchdown;
    `MAX_ERROR_GAIN` limits the shift.

    A late foot, which has no contact when its swing has ended, is lowered on, the gait scheduler waits for it up to
    `MAX_TOUCHDOWN_DELAY` (`is_waiting_for_touchdown`), and a foot that something blocks then counts as in contact
    (`find_blocked_feet`).

    Args:
        morphology: lengths and units of the robot.
        reach: (4,) maximum distance of a foot from its leg's first joint [m], see `TrunkHeightLimiter`.

    Attributes:
        selections: data of the last foothold selection of each swing foot, by index.
        swings: `SwingTrajectory` of each swing foot, by index in `FEET`.
        stumble_reflex: reaction to unknown obstacles, and roughness of the ground.
        is_touchdown_late: whether a foot without contact should be in stance.
    """

    __slots__ = (
        "_blind_feet",
        "_max_hip_distance",
        "_morphology",
        "_waiting_time",
        "is_touchdown_late",
        "selections",
        "stumble_reflex",
        "swings",
    )

    def __init__(self, morphology: Morphology, reach: Array) -> None:
        self._morphology = p = morphology
        hip_height = p.height + p.hips[:, 2]
        reach_distance = np.sqrt(
            np.maximum((REACH_EXCESS_RATIO * reach) ** 2 - hip_height**2, 0.0)
        )  # from the hips, seen from above
        minimum = np.linalg.norm(p.nominal_stance - p.hips[:, :2], axis=1) + MIN_STEP_LENGTH * p.length
        self._max_hip_distance: list[float] = np.maximum(reach_distance, minimum).tolist()
        self.swings: dict[int, SwingTrajectory] = {}
        self.selections: dict[int, FootholdSelection] = {}
        self.stumble_reflex = StumbleReflex(morphology)
        self.is_touchdown_late = False
        self._blind_feet: set[int] = set()  # swing feet whose next foothold is on unknown ground
        self._waiting_time = 0.0

    def is_waiting_for_touchdown(self, scheduler: GaitScheduler) -> bool:
        """Returns whether the gait scheduler is to wait for a late touchdown."""
        return self.is_touchdown_late and self._waiting_time <= MAX_TOUCHDOWN_DELAY * scheduler.swing_time

    def grounded_feet(self, carrying: Sequence[str]) -> list[str]:
        """Returns the names of the feet that carry load and have finished their swing."""
        return [foot for i, foot in enumerate(FEET) if foot in carrying and i not in self.swings]

    @property
    def mid_swing_feet(self) -> list[str]:
        """Names of the mid-swing feet, which are far from level ground."""
        return [FEET[i] for i, swing in self.swings.items() if MID_SWING[0] < swing.progress < MID_SWING[1]]

    def find_blocked_feet(self, feet: Array, normals: Sequence[tuple[float, float, float]]) -> tuple[str, ...]:
        """Returns the names of the late feet that an obstacle blocks: their paths have continued below the ground.

        Args:
            feet: (4, 3) centers of the foot spheres, world [m].
            normals: unit normals of the ground under the feet, world.
        """
        min_depth = BLOCKED_FOOT_DEPTH * self._morphology.length
        return tuple(
            FEET[i]
            for i, swing in self.swings.items()
            if swing.progress > 1.0 and (feet[i] - swing.position) @ np.array(normals[i]) > min_depth
        )

    def update_contacts(
        self,
        scheduler: GaitScheduler,
        ground: GroundPlane,
        feet: Array,
        normals: Sequence[tuple[float, float, float]],
        contacts: Collection[str] | None,
        dt: float,
        foothold_map: FootholdMap | None = None,
        forces: Mapping[str, Array] | None = None,
        *,
        uncertainty: float = 0.0,
        model_mismatch: bool = False,
    ) -> tuple[str, ...]:
        """Starts and ends swings by the gait schedule, unless a touchdown is early or late.

        After a push that accelerates the steps (`StepTimingAdapter`) feet lag behind their paths.  On unknown ground
        that has been even, the schedule is then followed where it is nearly true: a foot whose swing has ended close to
        the ground carries load, which lowers it faster than its path, and a foot that scrapes the ground early
        continues its swing.

        Args:
            scheduler: phases of the gait, already advanced by `dt`.
            ground: plane of the feet; receives the footholds of the stance feet.
            feet: (4, 3) centers of the foot spheres, world [m].
            normals: unit normals of the ground under the feet, world.
            contacts: names of the feet in contact; None to follow the schedule.
            dt: control period [s].
            foothold_map: foothold map; None in blind locomotion.  Near rising edges feet are lifted away from them.
            forces: (3,) contact forces on the robot, by name of the foot, world axes [N]; None without an estimate.
            uncertainty: contact force that may be an error of the estimate [N].
            model_mismatch: whether the model is wrong, so that `contacts` are unreliable.  On even ground the schedule
                is followed then; forces against the path of a foot still count as an obstacle.

        Returns:
            The names of the feet that are to carry load.
        """
        p, is_late, carrying, was_late = self._morphology, False, [], self.is_touchdown_late
        contact_points = feet - p.radii[:, None] * np.array(normals)
        is_even = foothold_map is None and not self.stumble_reflex.extra_clearance
        is_hurried, follows_schedule = (
            scheduler.rate_scale > 1.0 and is_even,
            contacts is None or (model_mismatch and is_even),
        )
        touchdown_phase = FAST_TOUCHDOWN_PHASE if is_hurried else TOUCHDOWN_PHASE
        for i, (in_stance, is_loaded) in enumerate(scheduler.contact_states()):
            foot = FEET[i]
            swing = self.swings.get(i)
            if swing is None and not in_stance:
                lift_direction = (
                    None if foothold_map is None else foothold_map.lift_direction(*ground.points[i, :2].tolist())
                )
                swing = self.swings[i] = self._begin_swing(feet[i], scheduler, ground, lift_direction or normals[i])
                if lift_direction is None:
                    swing.timing = self.stumble_reflex.timing
            else:
                has_contact = follows_schedule or contacts is None or foot in contacts
                touched_down = swing is not None and in_stance
                if touched_down and not has_contact:
                    x, y, z = contact_points[i].tolist()
                    touched_down = is_hurried and z - ground.height(x, y) < FAST_TOUCHDOWN_HEIGHT * p.length
                if touched_down:
                    del self.swings[i]
                    self.selections.pop(i, None)
                    swing, is_loaded = None, True
                elif (
                    swing is None
                    and in_stance
                    and not follows_schedule
                    and self.stumble_reflex.has_left_foothold(i, contact_points[i], normals[i])
                ):
                    # It is lowered where it is.
                    swing = self.swings[i] = self._begin_swing(feet[i], scheduler, ground, normals[i])
                    swing.progress, has_contact = 1.0, False
                if swing is None:
                    # From the tick of the touchdown on: with the old foothold the error would be a stride.
                    if touched_down:
                        x, y, z = contact_points[i].tolist()
                        is_unforeseen = not follows_schedule and (
                            foothold_map is None or foothold_map.normal(x, y, z) is None
                        )
                        self.stumble_reflex.record_touchdown(
                            i, contact_points[i], z - ground.height(x, y) if is_unforeseen else 0.0
                        )
                    ground.points[i] = contact_points[i]
                    ground.clear_next_foothold(i)
                    if is_loaded or was_late:  # no unloading while a late foot has no contact
                        carrying.append(foot)
                elif in_stance:
                    is_late = True
                    if not self.stumble_reflex.extra_clearance:
                        # The plan assumes contact soon, about here; the old foothold would be a stride behind.  On
                        # rough ground the old one is kept, since the foot may still be far from its next foothold.
                        x, y, _ = contact_points[i].tolist()
                        ground.points[i] = x, y, ground.height(x, y)
                elif not follows_schedule and has_contact and swing.progress > touchdown_phase:
                    carrying.append(foot)
        monitored: Collection[int] = ()
        if contacts is not None:  # without contact detection obstacles cannot be detected
            monitored = (
                [i for i in self._blind_feet if FEET[i] in contacts] if forces is None else self._feet_moving_up()
            )
        self.stumble_reflex.advance(self.swings, monitored, feet, forces, scheduler.swing_time, dt, uncertainty)
        self.is_touchdown_late = is_late
        self._waiting_time = self._waiting_time + dt if is_late else 0.0
        return tuple(carrying)

    def _feet_moving_up(self) -> list[int]:
        """Returns the indices of the feet that move to unknown ground or up.

        A foot that scrapes along an edge while it is lowered slides off it.
        """
        min_rise = EVEN_TERRAIN_TOLERANCE * self._morphology.length
        return [
            i for i, s in self.swings.items() if i in self._blind_feet or float(s.target[2] - s.start[2]) > min_rise
        ]

    def _begin_swing(
        self, foot: Array, scheduler: GaitScheduler, ground: GroundPlane, direction: tuple[float, float, float]
    ) -> SwingTrajectory:
        """Creates the swing trajectory of a foot from its present position."""
        p = self._morphology
        clearance, touchdown_speed = compute_nominal_clearance(ground) * p.length, TOUCHDOWN_SPEED * p.speed_scale
        return SwingTrajectory(
            foot,
            np.zeros(3),
            duration=scheduler.swing_time,
            clearance=clearance,
            touchdown_speed=touchdown_speed,
            ground_normal=direction,
        )

    def advance(
        self,
        scheduler: GaitScheduler,
        path: PathReference,
        ground: GroundPlane,
        foothold_map: FootholdMap | None,
        reference: ComReference,
        error: tuple[float, float],
        com: tuple[float, float],
        velocity: tuple[float, float],
        stance: Array,
        yaw: float,
        dt: float,
    ) -> None:
        """Advances the swing trajectories by one tick, with new footholds.

        Args:
            scheduler: phases of the gait.
            path: path reference.
            ground: plane of the feet.
            foothold_map: foothold map; None in blind locomotion.
            reference: reference of the center of mass.
            error: (2,) error of the divergent component, world x and y [m].
            com: (2,) center of mass, world x and y [m].
            velocity: (2,) filtered velocity of the center of mass [m/s].
            stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
            yaw: yaw angle of the heading [rad].
            dt: control period [s].
        """
        if not self.swings:
            return
        p = self._morphology
        gain = (1.0 + EXTRA_ERROR_GAIN) * min(1.0 / max(reference.foothold_gain, 1e-3), MAX_ERROR_GAIN)
        targets = compute_footholds(path, scheduler.time_to_mid_stance, stance).tolist()
        footprint_width = float(scheduler.footprint_scale[1])
        normal_x, normal_y, normal_z = ground.normal.tolist()
        com_height, (forward, leftward, _) = ground.height(*com) - ground.lowering + p.height, path.velocity.tolist()
        interval = StanceInterval(
            (*com, com_height), (forward, leftward), scheduler.stance_time, ground.slope, path.yaw
        )
        for i, swing in self.swings.items():
            remaining_time = max(0.0, (1.0 - swing.progress) * scheduler.swing_time)
            opposite_swing = self.swings.get(i ^ 1)
            opposite_position = (ground.points[i ^ 1] if opposite_swing is None else opposite_swing.target).tolist()
            requested = targets[i][0] + gain * error[0], targets[i][1] + gain * error[1]
            x, y = self._clamp_foothold(
                i,
                requested[0] - com[0] - remaining_time * velocity[0],
                requested[1] - com[1] - remaining_time * velocity[1],
                yaw,
                footprint_width,
                (
                    opposite_position[0] - com[0] - remaining_time * velocity[0],
                    opposite_position[1] - com[1] - remaining_time * velocity[1],
                ),
            )
            x, y = x + com[0] + remaining_time * velocity[0], y + com[1] + remaining_time * velocity[1]
            com_displacement = remaining_time * velocity[0], remaining_time * velocity[1]
            nominal, is_frozen = (x, y), swing.progress >= TARGET_FREEZE_PHASE and i in self.selections
            sphere_height = float(p.radii[i]) - TARGET_DEPTH * p.length  # of the sphere's center over the ground
            lowered_position = self.stumble_reflex.lowered_feet.get(i)
            foothold = (
                None if foothold_map is None or lowered_position is not None else foothold_map.choose_foothold(x, y)
            )
            if foothold_map is None or foothold is None:
                x, y = lowered_position or (x, y)
                lowest_height = (
                    None if foothold_map is None or lowered_position is None else foothold_map.lowest_height(x, y)
                )
                window = None if foothold_map is None or lowest_height is None else foothold_map.window
                z, reason = (
                    ground.height(x, y) if lowest_height is None else lowest_height,
                    "" if lowered_position is None else PLACED_BEFORE_OBSTACLE,
                )
                if lowered_position is None:
                    self._blind_feet.add(i)
                elif lowest_height is not None:
                    ground.set_next_foothold(i, x, y, z)
                if reason or not is_frozen:
                    self.selections[i] = FootholdSelection(
                        i,
                        requested,
                        nominal,
                        (x, y, z),
                        (normal_x, normal_y, normal_z),
                        reason,
                        window,
                        interval,
                        com_displacement,
                    )
                target = x + sphere_height * normal_x, y + sphere_height * normal_y, z + sphere_height * normal_z
                extra_clearance = self.stumble_reflex.extra_clearance
                swing.advance(
                    dt,
                    target,
                    scheduler.swing_time,
                    (compute_nominal_clearance(ground) + extra_clearance) * p.length if extra_clearance else None,
                )
                continue
            self._blind_feet.discard(i)
            x, y, z, normal = foothold
            end, clearance, reason = np.array([x, y, z]) + sphere_height * normal, None, ""
            if (
                swing.progress > APEX_PHASE
                and abs(float(normal @ (end - swing.target))) > EVEN_TERRAIN_TOLERANCE * p.length
            ):
                end = swing.target  # the foot descends and keeps its foothold
                x, y, z = (end - sphere_height * normal).tolist()
                reason = DESCENT_BEGUN
            if not is_frozen:
                self.selections[i] = FootholdSelection(
                    i, requested, nominal, (x, y, z), normal, reason, foothold_map.window, interval, com_displacement
                )
            if swing.progress < APEX_PHASE:
                minimum, radius = compute_nominal_clearance(ground) * p.length, float(p.radii[i])
                if swing.progress <= TIMING_DECISION_PHASE:
                    swing.timing = foothold_map.choose_swing_timing(swing.start, end, radius, minimum, ground.slope)
                clearance = foothold_map.compute_clearance(
                    swing.start, end, radius, minimum, ground.slope, swing.timing
                )
            swing.advance(dt, end, scheduler.swing_time, clearance)
            fraction, (px, py, pz) = min(TRUNK_LEAD_FACTOR * swing.progress, 1.0), ground.points[i].tolist()
            ground.set_next_foothold(i, px + fraction * (x - px), py + fraction * (y - py), pz + fraction * (z - pz))

    def update_references(self, tasks: Mapping[str, Any], feet: Array) -> None:
        """Sets the references of the feet: swing feet follow their trajectory, stance feet hold their position.

        Args:
            tasks: tasks by name of the foot.
            feet: (4, 3) centers of the foot spheres, world [m].
        """
        for i, foot in enumerate(FEET):
            swing = self.swings.get(i)
            if swing is None:
                tasks[foot].reference(feet[i])
            else:
                tasks[foot].reference(swing.position, swing.velocity, swing.acceleration)

    def _clamp_foothold(
        self, i: int, x: float, y: float, yaw: float, width_scale: float, opposite_foot: tuple[float, float]
    ) -> tuple[float, float]:
        """Returns the foothold (x, y) relative to the body [m], clamped to the reach and beside the other foot.

        The inward limit is proportional to the footprint width.  The actual position of the opposite foot is used,
        which a body that is pushed sideways leaves behind.  If both limits conflict, the foothold is beyond the reach
        of the leg rather than across the other foot.

        Args:
            i: index of the foot.
            x: foothold relative to the body, world x [m].
            y: foothold relative to the body, world y [m].
            yaw: yaw angle of the heading [rad].
            width_scale: width of the footprint, divided by that at home.
            opposite_foot: (2,) position of the opposite foot relative to the body, world [m].
        """
        p = self._morphology
        c, s = math.cos(yaw), math.sin(yaw)
        home_x, home_y = p.nominal_stance[i].tolist()
        side = math.copysign(1.0, home_y)
        along = c * x + s * y - home_x
        out = side * (c * y - s * x) - abs(home_y)
        along = min(max(along, -MAX_FORWARD_OFFSET * p.length), MAX_FORWARD_OFFSET * p.length)
        out = min(out, MAX_OUTWARD_OFFSET * p.length)
        hip_x, hip_y, _ = p.hips[i].tolist()
        u, v = home_x + along - hip_x, abs(home_y) + out - side * hip_y
        fraction = min(1.0, self._max_hip_distance[i] / max(math.hypot(u, v), 1e-9))
        if fraction < 1.0:
            along, out = hip_x + fraction * u - home_x, side * hip_y + fraction * v - abs(home_y)
        inner = width_scale * (1.0 - MAX_INWARD_FRACTION) * abs(home_y)
        clear = side * (c * opposite_foot[1] - s * opposite_foot[0]) + inner
        u, v = home_x + along, side * (abs(home_y) + max(out, max(inner, clear) - abs(home_y)))
        return c * u - s * v, s * u + c * v


def compute_nominal_clearance(ground: GroundPlane) -> float:
    """Computes the clearance of a swing over the straight line on the plane of the feet [l]."""
    slope_sine = math.hypot(*ground.normal[:2].tolist())
    return max(NOMINAL_CLEARANCE - SLOPE_CLEARANCE_REDUCTION * slope_sine, MIN_CLEARANCE)
