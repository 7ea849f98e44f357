"""`Footwork`: contact states of the feet, swing trajectories, and the next footholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..urdf.tree import Array
from ..wbc.tasks.foot import FootTask
from .foot_tasks import set_foot_references
from .foothold import DESCENT_BEGUN, PLACED_BEFORE_OBSTACLE, Foothold, FootholdSelection
from .foothold_map import FootholdMap
from .footwork_state import (
    TARGET_DEPTH,
    BalanceState,
    FootworkState,
    SelectionReason,
    SelectionStates,
    add_clearance,
    aim_swing,
    allocate_footwork,
    compute_nominal_clearance,
    compute_nominal_foothold,
    finish_selection,
    prepare_selection,
    select_blind_foothold,
)
from .gait import GaitScheduler
from .ground_plane import GroundPlane
from .leg_margins import LegMargins, StanceInterval
from .morphology import FEET, Morphology, make_body_parameters
from .motion import CentroidalState
from .path_reference import PathReference
from .record_snapshot import LazyMapping, RecordSnapshot
from .stumble_reflex import allocate_foot_contacts
from .swing import APEX_PHASE, EVEN_TERRAIN_TOLERANCE, UP_FIRST_TIMINGS, SwingTrajectory, list_swings
from .terrain_window import TerrainWindow

#: Factor by which the trunk moves to its height over a known foothold sooner than the foot.
TRUNK_LEAD_FACTOR = 2.0
#: Fraction of the swing until which its timing may change.
TIMING_DECISION_PHASE = UP_FIRST_TIMINGS[0].horizontal_start
#: Ratio of the maximum distance of a foothold to the reach of the leg: the trunk sinks a little over legs that spread.
REACH_EXCESS_RATIO = 1.05
#: Distance from the hip that is always allowed: half of the longest stride of any gait [l].
MIN_STEP_LENGTH = 0.3
#: Texts of the reasons for a selection.
REASONS = {
    SelectionReason.BY_COST: "",
    SelectionReason.PLACED_BEFORE_OBSTACLE: PLACED_BEFORE_OBSTACLE,
    SelectionReason.DESCENT_BEGUN: DESCENT_BEGUN,
}


class Footwork:
    """Contact states and swing feet of a walking robot.

    The target of a swing foot is the foothold of the path reference, shifted by the present error of the divergent
    component: for the present xi to be the bounded one, all coming footholds have to be shifted by
    ``(xi - xi*) / gain`` (`preview_com`).  The stance feet correct a part of the error until touchdown;
    `MAX_ERROR_GAIN` limits the shift.

    A late foot, which has no contact when its swing has ended, is lowered on, the gait scheduler waits for it up to
    `MAX_TOUCHDOWN_DELAY` (`is_waiting_for_touchdown`), and a foot that something blocks then counts as in contact
    (`is_blocked`).

    Args:
        morphology: lengths and units of the robot.
        reach: (4,) maximum distance of a foot from its leg's first joint [m].

    Attributes:
        state: record of the compiled functions.
        contacts: record of the contacts of a tick, likewise.
    """

    __slots__ = ("_body", "_morphology", "_source", "_windows", "contacts", "state")

    def __init__(self, morphology: Morphology, reach: Array) -> None:
        self._morphology = p = morphology
        hip_height = p.height + p.hips[:, 2]
        reach_distance = np.sqrt(
            np.maximum((REACH_EXCESS_RATIO * reach) ** 2 - hip_height**2, 0.0)
        )  # from the hips, seen from above
        minimum = np.linalg.norm(p.nominal_stance - p.hips[:, :2], axis=1) + MIN_STEP_LENGTH * p.length
        self.state = allocate_footwork()
        self.state.max_hip_distance[:] = np.maximum(reach_distance, minimum)
        self._source = RecordSnapshot(self.state)
        self._body, self.contacts = make_body_parameters(morphology), allocate_foot_contacts()
        self._windows: list[TerrainWindow | None] = [None] * len(FEET)  # of the selections

    @property
    def swings(self) -> dict[int, SwingTrajectory]:
        """`SwingTrajectory` of each swing foot, by index in `FEET`; they change with the state."""
        return list_swings(self.state.swings)

    @property
    def selections(self) -> dict[int, FootholdSelection]:
        """Data of the last foothold selection of each swing foot, by index."""
        return make_selections(self.state, self._windows)

    def take_snapshot(self, margins: LegMargins) -> FootworkSnapshot:
        """Returns the present swings and foothold selections.

        Args:
            margins: reach and shank margins of the robot's legs.
        """
        return FootworkSnapshot(self._source, tuple(self._windows), margins)

    def set_map_known(self, is_known: bool) -> None:
        """Sets whether there is a terrain map, which `read_ground` reads."""
        if self.state.terrain.is_known is not is_known:
            self.state.terrain.is_known = is_known

    def read_ground(
        self, scheduler: GaitScheduler, ground: GroundPlane, feet: Array, normals: Array, foothold_map: FootholdMap
    ) -> None:
        """Reads from the map the ground under feet that may lift off or touch down at this tick.

        Args:
            scheduler: phases of the gait, already advanced.
            ground: plane of the feet.
            feet: (4, 3) centers of the foot spheres, world [m].
            normals: (4, 3) unit normals of the ground under the feet, world.
            foothold_map: foothold map.
        """
        terrain, swings = self.state.terrain, self.state.swings.is_swinging.tolist()
        points = feet - self._morphology.radii[:, None] * normals
        for i, (in_stance, is_swinging) in enumerate(zip(scheduler.stance_mask.tolist(), swings, strict=True)):
            if is_swinging and in_stance:
                terrain.is_ground_known[i] = foothold_map.normal(*points[i].tolist()) is not None
            elif not is_swinging and not in_stance:
                direction = foothold_map.lift_direction(*ground.points[i, :2].tolist())
                terrain.has_lift_direction[i] = direction is not None
                if direction is not None:
                    terrain.lift_direction[i] = direction

    def advance_on_map(
        self,
        scheduler: GaitScheduler,
        path: PathReference,
        ground: GroundPlane,
        foothold_map: FootholdMap,
        motion: CentroidalState,
        balance: BalanceState,
        dt: float,
    ) -> None:
        """Advances the swing trajectories by one tick, with new footholds on a terrain map.

        Args:
            scheduler: phases of the gait.
            path: path reference.
            ground: plane of the feet.
            foothold_map: foothold map.
            motion: motion of center of mass and trunk.
            balance: error of the divergent component, and nominal positions of the feet.
            dt: control period [s].
        """
        records = self.state, self._body, scheduler.state, path.state, ground.state, motion.state
        foot = prepare_selection(*records)
        while foot >= 0:
            compute_nominal_foothold(*records, balance, foot)
            position = self._select_foothold(foot, scheduler, ground, foothold_map)
            following = finish_selection(self.state, foot, float(dt))
            if position is not None:
                # The trunk moves to its height over the foothold before the foot lands.
                fraction = min(TRUNK_LEAD_FACTOR * float(self.state.swings.progress[foot]), 1.0)
                last = ground.points[foot]
                ground.set_next_foothold(foot, *(last + fraction * (position - last)).tolist())
            foot = following

    def _select_foothold(
        self, foot: int, scheduler: GaitScheduler, ground: GroundPlane, foothold_map: FootholdMap
    ) -> Array | None:
        """Selects the next foothold of a swing foot on the map, with clearance and timing of the swing.

        Args:
            foot: index of the foot.
            scheduler: phases of the gait.
            ground: plane of the feet.
            foothold_map: foothold map.

        Returns:
            (3,) position of the foothold, world [m]; None on unknown ground and in front of an obstacle.
        """
        state, p = self.state, self._morphology
        swing = SwingTrajectory.from_row(state.swings, foot)
        if state.stumble.is_lowered[foot]:
            x, y = state.stumble.lowered_position[foot].tolist()
            self._put_down(foot, (x, y), scheduler, ground, foothold_map)
            return None
        foothold = foothold_map.choose_foothold(*state.request.nominal.tolist())
        if foothold is None:
            select_blind_foothold(state, self._body, scheduler.state, ground.state, foot)
            return None
        state.is_blind[foot] = 0
        *point, normal = foothold
        position, radius = np.array(point), float(p.radii[foot])
        reason, offset = SelectionReason.BY_COST, (radius - TARGET_DEPTH * p.length) * normal
        change = float(normal @ (position + offset - swing.target))
        if swing.progress > APEX_PHASE and abs(change) > EVEN_TERRAIN_TOLERANCE * p.length:
            position, reason = swing.target - offset, SelectionReason.DESCENT_BEGUN
        if aim_swing(state, self._body, scheduler.state, foot, position, normal, int(reason)):
            self._windows[foot] = foothold_map.window
        if swing.progress < APEX_PHASE:
            end, slope = position + offset, ground.slope
            minimum = compute_nominal_clearance(ground.state) * p.length
            if swing.progress <= TIMING_DECISION_PHASE:
                swing.timing = foothold_map.choose_swing_timing(swing.start, end, radius, minimum, slope)
            state.swings.clearance[foot] = foothold_map.compute_clearance(
                swing.start, end, radius, minimum, slope, swing.timing
            )
        return position

    def _put_down(
        self,
        foot: int,
        position: tuple[float, float],
        scheduler: GaitScheduler,
        ground: GroundPlane,
        foothold_map: FootholdMap,
    ) -> None:
        """Aims a foot at the ground in front of an obstacle.

        Args:
            foot: index of the foot.
            position: (2,) of the foot, world x and y [m].
            scheduler: phases of the gait.
            ground: plane of the feet.
            foothold_map: foothold map.
        """
        state, (x, y), z = self.state, position, foothold_map.lowest_height(*position)
        if z is None:
            select_blind_foothold(state, self._body, scheduler.state, ground.state, foot)
            return
        reason = int(SelectionReason.PLACED_BEFORE_OBSTACLE)
        add_clearance(state, self._body, ground.state, foot)
        aim_swing(state, self._body, scheduler.state, foot, np.array([x, y, z]), ground.normal, reason)
        self._windows[foot] = foothold_map.window
        ground.set_next_foothold(foot, x, y, z)

    def update_references(self, tasks: Mapping[str, Any], feet: Array) -> None:
        """Sets the references of the feet: swing feet follow their trajectory, stance feet hold their position.

        Args:
            tasks: tasks by name of the foot.
            feet: (4, 3) centers of the foot spheres, world [m].
        """
        of_feet = [tasks[foot] for foot in FEET]
        if all(type(task) is FootTask for task in of_feet):
            set_foot_references(self.state.swings, feet, *(task.block for task in of_feet))
            return
        swings = self.swings
        for i, task in enumerate(of_feet):  # tasks of other classes
            swing = swings.get(i)
            if swing is None:
                task.reference(feet[i])
            else:
                task.reference(swing.position, swing.velocity, swing.acceleration)


class FootworkSnapshot:
    """Swings and foothold selections at one tick, which are read seldom.

    Args:
        source: source of the copies of the record.
        windows: terrain windows of the selections.
        margins: reach and shank margins of the robot's legs.

    Attributes:
        swings: `SwingTrajectory` of each swing foot, by name of the foot.
        footholds: next foothold of each swing foot, by name of the foot.
    """

    __slots__ = ("_margins", "_memory", "_source", "_state", "_windows", "footholds", "swings")

    def __init__(
        self,
        source: RecordSnapshot[FootworkState],
        windows: tuple[TerrainWindow | None, ...],
        margins: LegMargins,
    ) -> None:
        self._source, self._memory, self._windows, self._margins = source, source.take(), windows, margins
        self._state: FootworkState | None = None
        self.swings: Mapping[str, SwingTrajectory] = LazyMapping(self._make_swings)
        self.footholds: Mapping[str, Foothold] = LazyMapping(self._make_footholds)

    def _read(self) -> FootworkState:
        """Returns the state at the tick."""
        if self._state is None:
            self._state = self._source.restore(self._memory)
        return self._state

    def _make_swings(self) -> dict[str, SwingTrajectory]:
        return {FEET[i]: swing for i, swing in list_swings(self._read().swings).items()}

    def _make_footholds(self) -> dict[str, Foothold]:
        selections = make_selections(self._read(), self._windows)
        return {FEET[i]: Foothold(selection, self._margins) for i, selection in selections.items()}


def make_selections(state: FootworkState, windows: Sequence[TerrainWindow | None]) -> dict[int, FootholdSelection]:
    """Returns the foothold selections that a record contains, by index of the foot.

    Args:
        state: the record.
        windows: terrain window of each selection that was made on a map.
    """
    return {
        i: make_selection(state.selections, i, windows[i])
        for i in list_swings(state.swings)
        if state.selections.is_selected[i]
    }


def make_selection(s: SelectionStates, foot: int, window: TerrainWindow | None) -> FootholdSelection:
    """Returns the foothold selection in a row of a record.

    Args:
        s: the record.
        foot: index of the foot.
        window: terrain window of the selection if it was made on a map.
    """
    rows = s.requested, s.nominal, s.position, s.normal, s.com, s.velocity, s.com_displacement
    requested, nominal, position, normal, com, velocity, displacement = (tuple(x[foot].tolist()) for x in rows)
    stance = StanceInterval(com, velocity, float(s.stance_time[foot]), s.slope[foot].copy(), float(s.yaw[foot]))
    reason, window = REASONS[SelectionReason(s.reason[foot])], window if s.is_on_map[foot] else None
    return FootholdSelection(foot, requested, nominal, position, normal, reason, window, stance, displacement)
