"""`Foothold`: where a foot in the air is to stand, what that costs and what else there was to choose from."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array, frozen
from .foothold_kernel import PATCH
from .foothold_map import GOOD
from .ground_window import AROUND, STEEP, Window
from .leg_margins import LegMargins, Stay
from .proportions import FEET

#: What a foothold costs: its slope, how far the ground departs from a plane, as at edges, and its distance from where
#: it is wanted.
TERMS = ("steepness", "roughness", "deviation")
#: Why a foothold is where it is.
WANTED = "the ground is good enough where it is wanted"
CHEAPEST = "of all places it costs least"
BORDER = "nothing is known of the ground about any place"
BLIND = "nothing is known of the ground there"
STUMBLED = "the foot met something, and is put down in front of it"
KEPT = "the foot is on its way down to the step that was chosen before"
#: Below this a term is not worth a word, and a distance none [m].
SMALL, CLOSE = 0.005, 5e-4
SIDE = 2 * AROUND + 1


class Choice(NamedTuple):
    """What a tick keeps of a foot's next foothold: enough to work out later how it was chosen.

    Attributes:
        foot: number in `FEET`.
        asked: where balance and course want the foot, world [m].
        wanted: the same, as far as the leg may step [m].
        place: where it is put, on the ground, world [m].
        normal: of the ground there.
        why: if it was not chosen by its cost.
        window: the ground that was known; None where nothing is known there.
        stay: of the trunk as long as the foot will stand, if it stood now.
        ahead: where the trunk will have gone by then, along x and y, world [m].
    """

    foot: int
    asked: tuple[float, float]
    wanted: tuple[float, float]
    place: tuple[float, float, float]
    normal: Array | tuple[float, float, float]
    why: str
    window: Window | None
    stay: Stay
    ahead: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A place for a foot.

    Attributes:
        place: (3,) on the ground, world [m].
        costs: by term, of `TERMS`; NaN where not all of the ground about it is known, none where nothing is.
        reach: what the leg is short of its reach [m], negative where it does not reach.
        shank: smallest height of the shank over the ground beside the foot [m]; see `LegMargins`.
    """

    place: Array
    costs: Mapping[str, float]
    reach: float
    shank: float

    @property
    def cost(self) -> float:
        """Of all terms; NaN where it is not known."""
        return sum(self.costs.values()) if self.costs else math.nan

    def __str__(self) -> str:
        x, y, z = self.place.tolist()
        where = f"({x:.3f}, {y:.3f}, {z:.3f}) m"
        if not self.costs:
            return where
        if math.isnan(self.cost):
            return f"{where}: not all of the ground about it is known"
        parts = [f"{term} {value:.2f}" for term, value in self.costs.items() if value >= SMALL]
        return f"{where}: cost {self.cost:.2f}" + (f" = {' + '.join(parts)}" if parts else "")


class Foothold:
    """Where a foot in the air is to stand.

    The cells of the window about the wanted place are weighed once more, as `FootholdMap` did, when one asks for them;
    nothing of it is worked out in a tick.  Costs are of steepness, roughness and deviation.  Reach is no cost: the
    wanted place is within it to begin with, and the trunk goes down for legs that are short (`Stretch`).  Nor is the
    height of the shank, which is told (`Spot`) and not weighed.

    Args:
        choice: as a tick kept it.
        margins: of the robot's legs.
    """

    def __init__(self, choice: Choice, margins: LegMargins) -> None:
        self._choice, self._margins = choice, margins

    # -- of the foothold ------------------------------------------------------------------------------------------
    @property
    def foot(self) -> str:
        """By name."""
        return FEET[self._choice.foot]

    @property
    def blind(self) -> bool:
        """Whether nothing is known of the ground there.

        There are then no costs and no candidates, and heights are those of the plane of all feet.
        """
        return self.ground is None

    @property
    def ground(self) -> Window | None:
        """The window of the ground that was known; None where it is blind."""
        return self._choice.window

    @functools.cached_property
    def place(self) -> Array:
        """(3,) where it is to stand, on the ground, world [m]."""
        return frozen(np.array(self._choice.place))

    @functools.cached_property
    def normal(self) -> Array:
        """(3,) unit, of the ground there."""
        return frozen(np.array(self._choice.normal))

    @functools.cached_property
    def wanted(self) -> Spot:
        """Where balance and course want it, as far as the leg may step."""
        x, y = self._choice.wanted
        if self.ground is None:
            (px, py, pz), (a, b, c) = self._choice.place, self.normal.tolist()
            return self._spot(np.array([x, y, pz - (a * (x - px) + b * (y - py)) / c]))
        here, rise = self._places[AROUND, AROUND], np.nan_to_num(self._slopes[AROUND, AROUND])
        z = here[2] + rise @ (np.array([x, y]) - here[:2])
        return self._spot(np.array([x, y, z]), np.array([*self._terms[AROUND, AROUND, :2], 0.0]))

    @functools.cached_property
    def chosen(self) -> Spot:
        """`place`, with what it costs."""
        if self.deviation < CLOSE or self.ground is None:
            return self._spot(self.place, None if self.ground is None else np.array([*self.wanted.costs.values()]))
        k, m = self._index(self.place)
        inside = 0 <= k < SIDE and 0 <= m < SIDE
        return self._spot(self.place, self._terms[k, m] if inside else np.full(len(TERMS), np.nan))

    @functools.cached_property
    def other(self) -> Spot | None:
        """The cheapest place beyond the patch of ground that the chosen one's cost is of; None where there is none."""
        if self.ground is None:
            return None
        k, m = self._index(self.place)
        away = np.maximum(abs(np.arange(SIDE) - k)[:, None], abs(np.arange(SIDE) - m)) > PATCH
        costs = self._terms.sum(axis=2)
        elsewhere = np.where(away & np.isfinite(costs), costs, np.inf)
        best = divmod(int(elsewhere.argmin()), SIDE)
        return self._spot(self._places[best], self._terms[best]) if np.isfinite(elsewhere[best]) else None

    @property
    def why(self) -> str:
        """It is there."""
        if self._choice.why or self.ground is None:
            return self._choice.why or BLIND
        if self.ground.cost[_cell(self.ground, *self._choice.wanted)] <= GOOD:
            return WANTED
        return CHEAPEST if self._known.any() else BORDER

    @property
    def deviation(self) -> float:
        """From the wanted place, seen from above [m]."""
        return math.dist(self._choice.wanted, self._choice.place[:2])

    @property
    def cut(self) -> float:
        """How far from where balance and course ask for it the wanted place is: the leg may not step farther [m]."""
        return math.dist(self._choice.asked, self._choice.wanted)

    @functools.cached_property
    def edge(self) -> float:
        """To the nearest cell that no slope that is believed leads to, seen from above [m].

        inf where there is none within `AROUND` cells, NaN where it is blind.
        """
        ground, (x, y, z) = self.ground, self._choice.place
        if ground is None:
            return math.nan
        (i, j), (n, m) = _cell(ground, x, y), ground.heights.shape
        a, b = (np.arange(max(k - AROUND, 0), min(k + AROUND + 1, s)) for k, s in ((i, n), (j, m)))
        far = np.hypot((ground.corner[0] + a * ground.cell - x)[:, None], ground.corner[1] + b * ground.cell - y)
        off = np.abs(ground.heights[np.ix_(a, b)] - z)
        return float(far[off > STEEP * (far + ground.cell)].min(initial=math.inf))

    # -- what there was to choose from ----------------------------------------------------------------------------
    @functools.cached_property
    def candidates(self) -> Array:
        """(n, 3) places that were to choose from, world [m]."""
        return frozen(self._places[self._known])

    @functools.cached_property
    def terms(self) -> Array:
        """(n, 3) costs of the candidates by `TERMS`."""
        return frozen(self._terms[self._known])

    @functools.cached_property
    def costs(self) -> Array:
        """(n,) costs of the candidates."""
        return frozen(self.terms.sum(axis=1))

    @functools.cached_property
    def normals(self) -> Array:
        """(n, 3) unit normals of the ground about the candidates."""
        rise = self._slopes[self._known]
        up = np.column_stack((-rise, np.ones(len(rise))))
        return frozen(up / np.linalg.norm(up, axis=1)[:, None])

    @functools.cached_property
    def ruled_out(self) -> Array:
        """(m, 3) the other cells: not all of the ground about them is known; world [m], NaN where the height is not."""
        return frozen(self._places[~self._known & (not self.blind)])

    def margins(self, places: Array) -> Array:
        """(n, 2) what is left of the leg's reach, and the height of its shank, at places (n, 3); see `LegMargins`."""
        c = self._choice
        return self._margins.of(c.foot, np.asarray(places), self.normal, c.stay.after(c.ahead), c.window)

    # -- in words -------------------------------------------------------------------------------------------------
    def __str__(self) -> str:
        """Some lines: chosen, why, its margins, wanted, and the best of the others."""
        if self.blind:
            return f"{self.foot} goes to {self.chosen}, blind: {self.why}"
        steep = math.degrees(math.acos(min(1.0, float(self.normal[2]))))
        said = [f"slope {steep:.0f} degrees"]
        said.append(f"{_mm(self.edge)} from an edge" if math.isfinite(self.edge) else "no edge near")
        room = self.chosen.reach
        said.append(f"leg {_mm(room)} short of its reach" if room >= 0.0 else f"leg {_mm(-room)} too short")
        if math.isfinite(self.chosen.shank):
            said.append(f"shank {_mm(self.chosen.shank)} above the ground")
        lines = [f"{self.foot} goes to {self.chosen}", f"  {self.why}", f"  {', '.join(said)}"]
        if self.deviation > CLOSE:
            lines.append(f"  wanted {_mm(self.deviation)} away at {self.wanted}")
        if self.cut > CLOSE:
            lines.append(f"  {_mm(self.cut)} short of what balance and course ask for: the leg may not step farther")
        if self.other is not None:
            lines.append(f"  best of the others {self.other}")
        if len(self.ruled_out):
            lines.append(f"  {len(self.ruled_out)} of {SIDE * SIDE} places ruled out: ground about them is unknown")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Foothold({self.foot!r}, {self.place.tolist()})"

    # -- worked out when it is asked for --------------------------------------------------------------------------
    @functools.cached_property
    def _terms(self) -> Array:
        """(side, side, 3) by `TERMS` of each cell about the wanted one, NaN where not all about it is known."""
        out = np.full((SIDE, SIDE, len(TERMS)), np.nan)
        if self.ground is not None:
            (x, y), cost = self._choice.wanted, self._about(self.ground.cost)
            steep = (self._slopes**2).sum(axis=2) / STEEP**2
            deviation = self.ground.deviation(*_cell(self.ground, x, y), x, y)
            known = np.isfinite(cost)
            out[known] = np.stack((steep, cost - steep, deviation), axis=2)[known]
        return out

    @functools.cached_property
    def _known(self) -> NDArray[np.bool_]:
        """(side, side) whether all of the ground about a cell is known."""
        return np.asarray(np.isfinite(self._terms).all(axis=2))

    @functools.cached_property
    def _slopes(self) -> Array:
        """(side, side, 2) rise of the ground about each cell."""
        return np.full((SIDE, SIDE, 2), np.nan) if self.ground is None else self._about(self.ground.slopes)

    @functools.cached_property
    def _places(self) -> Array:
        """(side, side, 3) of the cells, world [m]."""
        ground = self.ground
        if ground is None:
            return np.full((SIDE, SIDE, 3), np.nan)
        along = np.arange(-AROUND, AROUND + 1)
        i, j = _cell(ground, *self._choice.wanted)
        x, y = ground.corner[0] + (i + along) * ground.cell, ground.corner[1] + (j + along) * ground.cell
        return np.stack((*np.meshgrid(x, y, indexing="ij"), self._about(ground.heights)), axis=2)

    def _about(self, field: Array) -> Array:
        """(side, side, ...) of a field of the window, about the wanted cell."""
        assert self.ground is not None
        i, j = _cell(self.ground, *self._choice.wanted)
        return field[i - AROUND : i + AROUND + 1, j - AROUND : j + AROUND + 1]

    def _index(self, place: Array) -> tuple[int, int]:
        """Of a place among the cells about the wanted one."""
        assert self.ground is not None
        (i, j), (k, m) = _cell(self.ground, *self._choice.wanted), _cell(self.ground, *place[:2].tolist())
        return k - i + AROUND, m - j + AROUND

    def _spot(self, place: Array, terms: Array | None = None) -> Spot:
        costs = {} if terms is None else dict(zip(TERMS, terms.tolist(), strict=True))
        reach, shank = self.margins(place[None])[0].tolist()
        return Spot(frozen(place), costs, reach, shank)


def _cell(ground: Window, x: float, y: float) -> tuple[int, int]:
    """Row and column of the cell that a point is in, as `FootholdMap` counts."""
    return round((x - ground.corner[0]) / ground.cell), round((y - ground.corner[1]) / ground.cell)


def _mm(length: float) -> str:
    return f"{1e3 * length:.0f} mm"
