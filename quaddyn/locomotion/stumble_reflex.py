"""`StumbleReflex`: reaction of swing feet to unknown obstacles, and roughness of the ground from footholds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping

import numpy as np

from ..urdf.tree import Array
from .morphology import FEET, Morphology, make_body_parameters
from .state_fields import StateField
from .stumble_state import (
    ROUGH_HEIGHT,
    STUMBLE_SHAPES,
    UP_FIRST_START,
    StumbleState,
    advance_stumble_reflex,
    allocate_foot_contacts,
    has_left_foothold,
    has_met_obstacle,
    record_touchdown,
    set_contacts,
)
from .swing import UNIFORM_TIMING, SwingMapping, SwingTiming

NO_FORCE = np.zeros(3)
#: On rough ground feet move up first, then forward.
UP_FIRST = SwingTiming(UP_FIRST_START, 1.0, 0.0, 1.0)


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
        state: record of the compiled functions; None for a new one.

    Attributes:
        state: record of the compiled functions.
        roughness: expected height of obstacles [l]; 0 on even ground.
        lowered_feet: positions of the feet that are put down in front of an obstacle, world x and y [m], by index.
    """

    __slots__ = ("_body", "lowered_feet", "state")

    roughness = StateField[float]()

    def __init__(self, morphology: Morphology, state: StumbleState | None = None) -> None:
        self._body = make_body_parameters(morphology)
        self.state = StumbleState.allocate(**STUMBLE_SHAPES) if state is None else state
        self.lowered_feet = LoweredFeet(self.state)

    @property
    def extra_clearance(self) -> float:
        """Additional clearance of the feet on rough ground [l]."""
        roughness = self.roughness
        return roughness if roughness > ROUGH_HEIGHT else 0.0

    @property
    def has_met_obstacle(self) -> bool:
        """Whether the ground is rough, or a foot is put down in front of an obstacle."""
        return bool(has_met_obstacle(self.state))

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
        record_touchdown(self.state, self._body, i, np.array(position), float(height_error))

    def has_left_foothold(self, i: int, position: Array, normal: tuple[float, float, float]) -> bool:
        """Returns whether a stance foot has left its foothold; it is then lowered until its next touchdown.

        A foot that slides along the ground stays in contact; one that slides off an edge moves along the normal.

        Args:
            i: index of the foot.
            position: (3,) contact point of the foot, world [m].
            normal: (3,) unit normal of the ground, world.
        """
        return bool(has_left_foothold(self.state, self._body, i, np.array(position), np.array(normal)))

    def advance(
        self,
        swings: SwingMapping,
        monitored: Collection[int],
        feet: Array,
        forces: Mapping[str, Array] | None,
        duration: float,
        dt: float,
        uncertainty: float = 0.0,
    ) -> None:
        """Advances by `dt` and restarts the swings of blocked feet.

        Args:
            swings: swing trajectories by index of the foot; those of blocked feet are restarted.
            monitored: indices of the feet that may meet an obstacle.
            feet: (4, 3) centers of the foot spheres, world [m].
            forces: (3,) contact forces on the robot, by name of the foot, world axes [N]; zero for a missing foot.
                None where they are unknown: `monitored` are then feet in contact.
            duration: duration of swings [s].
            dt: control period [s].
            uncertainty: contact force that may be an error of the estimate [N].
        """
        contacts = allocate_foot_contacts()
        if forces is not None:
            contacts.forces[:] = [forces.get(foot, NO_FORCE) for foot in FEET]
        set_contacts(contacts, True, False, forces is not None, float(uncertainty))
        self.state.is_monitored[:] = [i in monitored for i in range(len(FEET))]
        advance_stumble_reflex(self.state, swings.states, self._body, feet, contacts, float(duration), float(dt))


class LoweredFeet(MutableMapping[int, tuple[float, float]]):
    """Positions of the feet that are put down in front of an obstacle, world x and y [m], by index.

    Args:
        state: record of `StumbleReflex`.
    """

    __slots__ = ("_state",)

    def __init__(self, state: StumbleState) -> None:
        self._state = state

    def __getitem__(self, foot: int) -> tuple[float, float]:
        if not self._state.is_lowered[foot]:
            raise KeyError(foot)
        x, y = self._state.lowered_position[foot].tolist()
        return x, y

    def __setitem__(self, foot: int, position: tuple[float, float]) -> None:
        self._state.is_lowered[foot] = 1
        self._state.lowered_position[foot] = position

    def __delitem__(self, foot: int) -> None:
        if not self._state.is_lowered[foot]:
            raise KeyError(foot)
        self._state.is_lowered[foot] = 0

    def __iter__(self) -> Iterator[int]:
        yield from np.flatnonzero(self._state.is_lowered).tolist()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._state.is_lowered))
