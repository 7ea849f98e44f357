"""`Foothold`: the next foothold of a swing foot, with its costs, its candidates and the reason for the choice."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes
from ..urdf.tree import Array, frozen
from .foothold_map import ACCEPTABLE_COST, PATCH_RADIUS, SEARCH_RADIUS, SLOPE_SCALE, TerrainWindow
from .leg_margins import LegMargins, StanceInterval
from .morphology import FEET

#: Cost terms of a foothold: slope of the ground, its largest deviation from a plane (as at edges), and the distance
#: from the nominal foothold.
COST_TERMS = ("steepness", "roughness", "deviation")
#: Reasons for the choice of a foothold.
NOMINAL_ACCEPTABLE = "the ground at the nominal foothold is acceptable"
LOWEST_COST = "it has the lowest cost of all candidates"
ALL_UNKNOWN = "the ground around all candidates is unknown"
TERRAIN_UNKNOWN = "the ground there is unknown"
PLACED_BEFORE_OBSTACLE = "the foot met an obstacle and is put down in front of it"
DESCENT_BEGUN = "the foot already descends to the foothold selected before"
#: Minimum cost term and minimum distance [m] that are printed.
MIN_PRINTED_COST, MIN_PRINTED_DISTANCE = 0.005, 5e-4
N_CELLS_PER_SIDE = 2 * SEARCH_RADIUS + 1


class FootholdSelection(NamedTuple):
    """Data of a foothold selection that a tick stores: enough to evaluate candidates and costs later.

    Attributes:
        foot: index of the foot in `FEET`.
        requested: (2,) foothold for balance and path, before the limits of the leg, world [m].
        nominal: (2,) `requested` within the limits of the leg, world [m].
        position: (3,) selected foothold on the ground, world [m].
        normal: (3,) unit normal of the ground there.
        reason: reason for the selection if it was not by cost, else "".
        window: terrain window that was used; None where the ground is unknown.
        stance: motion of the trunk during the stance of the foot, if it began now.
        com_displacement: (2,) displacement of the center of mass until touchdown, world x and y [m].
    """

    foot: int
    requested: tuple[float, float]
    nominal: tuple[float, float]
    position: tuple[float, float, float]
    normal: Array | tuple[float, float, float]
    reason: str
    window: TerrainWindow | None
    stance: StanceInterval
    com_displacement: tuple[float, float]


@renamed_attributes(place="position", reach="reach_margin", shank="shank_clearance")
@dataclass(frozen=True, slots=True, eq=False)
class FootholdCandidate:
    """Candidate foothold with its costs and leg margins.

    Attributes:
        position: (3,) position on the ground, world [m].
        costs: cost by term, see `COST_TERMS`, dimensionless; NaN where the ground around it is partly unknown, empty
            where it is unknown.
        reach_margin: maximum leg length minus the required one [m]; negative where the leg does not reach.
        shank_clearance: minimum height of the shank over the ground beside the foot [m]; see `LegMargins`.
    """

    position: Array
    costs: Mapping[str, float]
    reach_margin: float
    shank_clearance: float

    @property
    def cost(self) -> float:
        """Sum of all cost terms, dimensionless; NaN where it is unknown."""
        return sum(self.costs.values()) if self.costs else math.nan

    def __str__(self) -> str:
        """Returns position and costs in one line."""
        x, y, z = self.position.tolist()
        where = f"({x:.3f}, {y:.3f}, {z:.3f}) m"
        if not self.costs:
            return where
        if math.isnan(self.cost):
            return f"{where}: the ground around it is partly unknown"
        parts = [f"{term} {value:.2f}" for term, value in self.costs.items() if value >= MIN_PRINTED_COST]
        return f"{where}: cost {self.cost:.2f}" + (f" = {' + '.join(parts)}" if parts else "")


@renamed_attributes(
    place="position",
    wanted="nominal",
    chosen="selected",
    other="next_best",
    why="reason",
    cut="clipped_distance",
    edge="edge_distance",
    terms="cost_terms",
    ruled_out="rejected",
    blind="is_blind",
    ground="terrain_window",
)
class Foothold:
    """Next foothold of a swing foot.

    The cells of the terrain window around the nominal foothold are evaluated again, as by `FootholdMap`, on the first
    access, and not during a tick.  Cost terms are steepness, roughness and deviation.  The reach of
    the leg is not a cost: the nominal foothold is within reach, and the trunk is lowered for legs that are too short
    (`compute_required_lowering`).  The clearance of the shank is reported (`FootholdCandidate`) but does not enter the
    cost.

    Args:
        selection: data stored by the tick.
        margins: reach and shank margins of the robot's legs.
    """

    def __init__(self, selection: FootholdSelection, margins: LegMargins) -> None:
        self._selection, self._margins = selection, margins

    # -- the foothold ---------------------------------------------------------------------------------------------
    @property
    def foot(self) -> str:
        """Name of the foot."""
        return FEET[self._selection.foot]

    @property
    def is_blind(self) -> bool:
        """Whether the ground there is unknown.

        There are then no costs and no candidates, and heights are those of the plane of the stance feet.
        """
        return self.terrain_window is None

    @property
    def terrain_window(self) -> TerrainWindow | None:
        """Terrain window that was used; None where the ground is unknown."""
        return self._selection.window

    @functools.cached_property
    def position(self) -> Array:
        """(3,) selected foothold on the ground, world [m]."""
        return frozen(np.array(self._selection.position))

    @functools.cached_property
    def normal(self) -> Array:
        """(3,) unit normal of the ground at the foothold, world."""
        return frozen(np.array(self._selection.normal))

    @functools.cached_property
    def nominal(self) -> FootholdCandidate:
        """Nominal foothold for balance and path, within the limits of the leg."""
        x, y = self._selection.nominal
        if self.terrain_window is None:
            (px, py, pz), (a, b, c) = self._selection.position, self.normal.tolist()
            return self._make_candidate(np.array([x, y, pz - (a * (x - px) + b * (y - py)) / c]))
        center, slope = (
            self._cell_positions[SEARCH_RADIUS, SEARCH_RADIUS],
            np.nan_to_num(self._cell_slopes[SEARCH_RADIUS, SEARCH_RADIUS]),
        )
        z = center[2] + slope @ (np.array([x, y]) - center[:2])
        return self._make_candidate(
            np.array([x, y, z]), np.array([*self._cell_costs[SEARCH_RADIUS, SEARCH_RADIUS, :2], 0.0])
        )

    @functools.cached_property
    def selected(self) -> FootholdCandidate:
        """Selected foothold with its costs."""
        if self.deviation < MIN_PRINTED_DISTANCE or self.terrain_window is None:
            return self._make_candidate(
                self.position, None if self.terrain_window is None else np.array([*self.nominal.costs.values()])
            )
        k, m = self._cell_index(self.position)
        is_inside = 0 <= k < N_CELLS_PER_SIDE and 0 <= m < N_CELLS_PER_SIDE
        return self._make_candidate(
            self.position, self._cell_costs[k, m] if is_inside else np.full(len(COST_TERMS), np.nan)
        )

    @functools.cached_property
    def next_best(self) -> FootholdCandidate | None:
        """Candidate of lowest cost outside the patch of ground around the selected one; None if there is none."""
        if self.terrain_window is None:
            return None
        k, m = self._cell_index(self.position)
        is_outside_patch = (
            np.maximum(abs(np.arange(N_CELLS_PER_SIDE) - k)[:, None], abs(np.arange(N_CELLS_PER_SIDE) - m))
            > PATCH_RADIUS
        )
        costs = self._cell_costs.sum(axis=2)
        other_costs = np.where(is_outside_patch & np.isfinite(costs), costs, np.inf)
        best = divmod(int(other_costs.argmin()), N_CELLS_PER_SIDE)
        return (
            self._make_candidate(self._cell_positions[best], self._cell_costs[best])
            if np.isfinite(other_costs[best])
            else None
        )

    @property
    def reason(self) -> str:
        """Reason for the selection of this foothold, as text."""
        if self._selection.reason or self.terrain_window is None:
            return self._selection.reason or TERRAIN_UNKNOWN
        if self.terrain_window.cost[find_cell_index(self.terrain_window, *self._selection.nominal)] <= ACCEPTABLE_COST:
            return NOMINAL_ACCEPTABLE
        return LOWEST_COST if self._is_cell_known.any() else ALL_UNKNOWN

    @property
    def deviation(self) -> float:
        """Horizontal distance from the nominal foothold [m]."""
        return math.dist(self._selection.nominal, self._selection.position[:2])

    @property
    def clipped_distance(self) -> float:
        """Horizontal distance by which the limits of the leg moved the nominal foothold [m]."""
        return math.dist(self._selection.requested, self._selection.nominal)

    @functools.cached_property
    def edge_distance(self) -> float:
        """Horizontal distance to the nearest terrain edge [m]: to a cell at a height that no acceptable slope reaches.

        inf where there is none within `SEARCH_RADIUS` cells, NaN where the ground is unknown.
        """
        window, (x, y, z) = self.terrain_window, self._selection.position
        if window is None:
            return math.nan
        (i, j), (n, m) = find_cell_index(window, x, y), window.heights.shape
        a, b = (np.arange(max(k - SEARCH_RADIUS, 0), min(k + SEARCH_RADIUS + 1, s)) for k, s in ((i, n), (j, m)))
        distances = np.hypot((window.corner[0] + a * window.cell - x)[:, None], window.corner[1] + b * window.cell - y)
        height_differences = np.abs(window.heights[np.ix_(a, b)] - z)
        return float(distances[height_differences > SLOPE_SCALE * (distances + window.cell)].min(initial=math.inf))

    # -- candidates -----------------------------------------------------------------------------------------------
    @functools.cached_property
    def candidates(self) -> Array:
        """(n, 3) positions of the candidates, world [m]."""
        return frozen(self._cell_positions[self._is_cell_known])

    @functools.cached_property
    def cost_terms(self) -> Array:
        """(n, 3) cost terms of the candidates in the order of `COST_TERMS`, dimensionless."""
        return frozen(self._cell_costs[self._is_cell_known])

    @functools.cached_property
    def costs(self) -> Array:
        """(n,) total costs of the candidates, dimensionless."""
        return frozen(self.cost_terms.sum(axis=1))

    @functools.cached_property
    def normals(self) -> Array:
        """(n, 3) unit normals of the ground at the candidates, world."""
        slopes = self._cell_slopes[self._is_cell_known]
        directions = np.column_stack((-slopes, np.ones(len(slopes))))
        return frozen(directions / np.linalg.norm(directions, axis=1)[:, None])

    @functools.cached_property
    def rejected(self) -> Array:
        """(m, 3) positions of the cells with unknown ground around them, world [m]; NaN where the height is unknown."""
        return frozen(self._cell_positions[~self._is_cell_known & (not self.is_blind)])

    def margins(self, points: Array) -> Array:
        """Computes reach margin and shank clearance (n, 2) of the leg for given footholds [m], see `LegMargins`.

        Args:
            points: (n, 3) positions on the ground, world [m].
        """
        selection = self._selection
        return self._margins.compute(
            selection.foot,
            np.asarray(points),
            self.normal,
            selection.stance.shift(selection.com_displacement),
            selection.window,
        )

    # -- as text --------------------------------------------------------------------------------------------------
    def __str__(self) -> str:
        """Returns some lines: selected foothold, reason, margins, nominal foothold and next best candidate."""
        if self.is_blind:
            return f"{self.foot} steps to {self.selected}, blind: {self.reason}"
        slope = math.degrees(math.acos(min(1.0, float(self.normal[2]))))
        parts = [f"slope {slope:.0f} degrees"]
        parts.append(
            f"{format_millimeters(self.edge_distance)} from an edge"
            if math.isfinite(self.edge_distance)
            else "no edge near"
        )
        margin = self.selected.reach_margin
        parts.append(
            f"leg {format_millimeters(margin)} within its reach"
            if margin >= 0.0
            else f"leg {format_millimeters(-margin)} too short"
        )
        if math.isfinite(self.selected.shank_clearance):
            parts.append(f"shank {format_millimeters(self.selected.shank_clearance)} above the ground")
        lines = [f"{self.foot} steps to {self.selected}", f"  {self.reason}", f"  {', '.join(parts)}"]
        if self.deviation > MIN_PRINTED_DISTANCE:
            lines.append(f"  nominal foothold {format_millimeters(self.deviation)} away at {self.nominal}")
        if self.clipped_distance > MIN_PRINTED_DISTANCE:
            lines.append(
                f"  {format_millimeters(self.clipped_distance)} short of the foothold for balance: limit of the leg"
            )
        if self.next_best is not None:
            lines.append(f"  next best candidate {self.next_best}")
        if len(self.rejected):
            lines.append(f"  {len(self.rejected)} of {N_CELLS_PER_SIDE**2} cells rejected: unknown ground around them")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Foothold({self.foot!r}, {self.position.tolist()})"

    # -- computed on first access ---------------------------------------------------------------------------------
    @functools.cached_property
    def _cell_costs(self) -> Array:
        """(side, side, 3) cost terms of the cells around the nominal foothold; NaN near unknown ground."""
        costs = np.full((N_CELLS_PER_SIDE, N_CELLS_PER_SIDE, len(COST_TERMS)), np.nan)
        if self.terrain_window is not None:
            (x, y), cost = self._selection.nominal, self._window_around(self.terrain_window.cost)
            steepness = (self._cell_slopes**2).sum(axis=2) / SLOPE_SCALE**2
            deviation = self.terrain_window.compute_deviation_costs(*find_cell_index(self.terrain_window, x, y), x, y)
            is_known = np.isfinite(cost)
            costs[is_known] = np.stack((steepness, cost - steepness, deviation), axis=2)[is_known]
        return costs

    @functools.cached_property
    def _is_cell_known(self) -> NDArray[np.bool_]:
        """(side, side) whether the ground around each cell is completely known."""
        return np.asarray(np.isfinite(self._cell_costs).all(axis=2))

    @functools.cached_property
    def _cell_slopes(self) -> Array:
        """(side, side, 2) slope of the ground at each cell along world x and y."""
        return (
            np.full((N_CELLS_PER_SIDE, N_CELLS_PER_SIDE, 2), np.nan)
            if self.terrain_window is None
            else self._window_around(self.terrain_window.slopes)
        )

    @functools.cached_property
    def _cell_positions(self) -> Array:
        """(side, side, 3) positions of the cells on the ground, world [m]."""
        ground = self.terrain_window
        if ground is None:
            return np.full((N_CELLS_PER_SIDE, N_CELLS_PER_SIDE, 3), np.nan)
        offsets = np.arange(-SEARCH_RADIUS, SEARCH_RADIUS + 1)
        i, j = find_cell_index(ground, *self._selection.nominal)
        x, y = ground.corner[0] + (i + offsets) * ground.cell, ground.corner[1] + (j + offsets) * ground.cell
        return np.stack((*np.meshgrid(x, y, indexing="ij"), self._window_around(ground.heights)), axis=2)

    def _window_around(self, field: Array) -> Array:
        """Returns the part (side, side, ...) of a field of the terrain window around the nominal foothold."""
        assert self.terrain_window is not None
        i, j = find_cell_index(self.terrain_window, *self._selection.nominal)
        return field[i - SEARCH_RADIUS : i + SEARCH_RADIUS + 1, j - SEARCH_RADIUS : j + SEARCH_RADIUS + 1]

    def _cell_index(self, position: Array) -> tuple[int, int]:
        """Returns row and column of a position (3,) [m] among the cells around the nominal foothold."""
        assert self.terrain_window is not None
        (i, j), (k, m) = (
            find_cell_index(self.terrain_window, *self._selection.nominal),
            find_cell_index(self.terrain_window, *position[:2].tolist()),
        )
        return k - i + SEARCH_RADIUS, m - j + SEARCH_RADIUS

    def _make_candidate(self, position: Array, terms: Array | None = None) -> FootholdCandidate:
        """Returns the candidate at a position (3,) [m] with cost terms (3,); None for unknown ones."""
        costs = {} if terms is None else dict(zip(COST_TERMS, terms.tolist(), strict=True))
        reach_margin, shank_clearance = self.margins(position[None])[0].tolist()
        return FootholdCandidate(frozen(position), costs, reach_margin, shank_clearance)


def find_cell_index(window: TerrainWindow, x: float, y: float) -> tuple[int, int]:
    """Returns row and column of the cell of a terrain window that contains the point (x, y) [m]."""
    return round((x - window.corner[0]) / window.cell), round((y - window.corner[1]) / window.cell)


def format_millimeters(length: float) -> str:
    """Returns a length [m] as text in millimeters."""
    return f"{1e3 * length:.0f} mm"
