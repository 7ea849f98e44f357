"""`ModeTransitions`: conditions for a change of the mode of the controller."""

from __future__ import annotations

import math

from ..urdf.tree import Array
from .centroidal_state import CentroidalState
from .contact_monitor import ContactMonitor
from .gait import GAITS, Gait, GaitScheduler, write_gait_parameters
from .gait_timing import GaitParameters
from .ground_plane import GroundPlane
from .mode_decisions import MAX_STANDING_FRACTION, ModeCode, allocate_mode_state, next_mode, set_mode_conditions
from .modes import LocomotionMode, as_matrix, is_dcm_near_edge
from .morphology import Morphology, make_body_parameters
from .path_reference import PathReference
from .state_fields import StateField
from .step_timing import StepTimingAdapter
from .trunk_controller import TrunkController

#: Height of the center of mass when lying, and height below which the robot must rise first, as fractions of that at
#: home.
LYING_HEIGHT, MIN_STANDING_HEIGHT = 0.5, 0.95
#: Height of the center of mass above which the robot must sink first, as a fraction of that at home.
MAX_STANDING_HEIGHT = 1.02
#: Maximum offset of the center of mass from the center of the feet at the start [l].
MAX_STANDING_OFFSET = 0.1


class ModeTransitions:
    """Conditions under which a robot rises, walks, recovers, stops or lies down.

    Args:
        morphology: lengths and units of the robot.

    Attributes:
        state: record of the compiled functions.
        is_lying_requested: whether the robot is to lie down.
    """

    __slots__ = ("_body", "_gait", "_gait_parameters", "_morphology", "_step_timing", "state")

    is_lying_requested = StateField[bool]()

    def __init__(self, morphology: Morphology) -> None:
        self._morphology, self._step_timing = morphology, StepTimingAdapter(morphology)
        self._body, self.state = make_body_parameters(morphology), allocate_mode_state()
        self._gait: Gait | None = None
        self._gait_parameters = GaitParameters.allocate(phase_offsets=4, footprint_scale=2)

    def initial_trunk_state(
        self, motion: CentroidalState, ground: GroundPlane, slope_lowering: float, path: PathReference
    ) -> tuple[float, tuple[float, float]]:
        """Returns height and offset of the trunk at the start, from which it moves to its nominal position.

        Args:
            motion: present state of center of mass and trunk.
            ground: plane of the feet.
            slope_lowering: lowering of the trunk over such ground [m], see `compute_slope_lowering`.
            path: path reference at the center of the feet.

        Returns:
            Height of the center of mass over the ground, as on level ground [m], and its offset from the center of the
            feet, world x and y [m]; the nominal values where the deviations are small.
        """
        p, (x, y, z), (center_x, center_y) = self._morphology, motion.com, path.position.tolist()
        height, com_offset = z - ground.height(x, y) + slope_lowering, (x - center_x, y - center_y)
        is_beside = math.hypot(*com_offset) > MAX_STANDING_OFFSET * p.length and not is_dcm_near_edge(
            com_offset, motion.feet, MAX_STANDING_FRACTION
        )
        is_at_height = MIN_STANDING_HEIGHT * p.height <= height <= MAX_STANDING_HEIGHT * p.height
        return p.height if is_at_height else height, com_offset if is_beside else (0.0, 0.0)

    def next_mode(
        self,
        mode: LocomotionMode,
        gait: Gait,
        command: Array,
        error: tuple[float, float],
        feet: Array,
        stance: Array,
        scheduler: GaitScheduler,
        path: PathReference,
        trunk: TrunkController,
        contact_monitor: ContactMonitor,
    ) -> LocomotionMode:
        """Returns the mode of the next tick for a robot on the ground; starts, stops and paces the gait scheduler.

        Args:
            mode: present mode.
            gait: gait to move with.
            command: (3,) commanded velocity, clamped [m/s, rad/s].
            error: (2,) error of the divergent component, world x and y [m].
            feet: (4, 3) centers of the foot spheres, world [m].
            stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
            scheduler: phases of the gait.
            path: path reference.
            trunk: trunk controller.
            contact_monitor: contact monitor.
        """
        self._step_timing.adapt(scheduler, error)
        state = self.state
        set_mode_conditions(
            state,
            int(mode.code),  # entries take exact types
            float(scheduler.lead_phase),
            float(error[0]),
            float(error[1]),
            bool(trunk.is_moving),
            bool(contact_monitor.is_settled),
        )
        if gait is not self._gait:
            self._gait = gait
            write_gait_parameters(self._gait_parameters, gait, scheduler.time_scale)
        code = next_mode(
            state, self._body, self._gait_parameters, scheduler.state, path.state, command, as_matrix(feet),
            as_matrix(stance),
        )  # fmt: skip
        if code == ModeCode.MOVING and command.any():
            scheduler.gait = gait
        elif code != mode.code:
            if code == ModeCode.RECOVERING:
                scheduler.gait = GAITS["trot"]
            elif code == ModeCode.LOWERING:
                trunk.go_to(LYING_HEIGHT * self._morphology.height)
        return LocomotionMode.from_code(code)
