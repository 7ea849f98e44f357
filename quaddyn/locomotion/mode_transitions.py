"""`ModeTransitions`: conditions for a change of the mode of the controller."""

from __future__ import annotations

import math

from ..urdf.tree import Array
from .centroidal_state import CentroidalState
from .contact_monitor import ContactMonitor
from .gait import Gait, GaitScheduler
from .ground_plane import GroundPlane
from .modes import MAX_STANDING_FRACTION, LocomotionMode, is_dcm_near_edge, is_stance_misplaced
from .morphology import Morphology
from .path_reference import PathReference
from .steering import MAX_REFERENCE_LEAD
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
        is_lying_requested: whether the robot is to lie down.
    """

    __slots__ = ("_morphology", "_step_timing", "is_lying_requested")

    def __init__(self, morphology: Morphology) -> None:
        self._morphology, self._step_timing = morphology, StepTimingAdapter(morphology)
        self.is_lying_requested = False

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
        p, is_idle = self._morphology, not any(command.tolist())
        self._step_timing.adapt(scheduler, error)
        if mode in (LocomotionMode.STANDING, LocomotionMode.STARTING):
            if self.is_lying_requested:
                trunk.go_to(LYING_HEIGHT * p.height)
                return LocomotionMode.LOWERING
            if not is_idle:
                scheduler.set_gait(gait)
                scheduler.start()
                return LocomotionMode.MOVING
            if contact_monitor.is_settled and (
                is_dcm_near_edge(error, feet) or is_stance_misplaced(feet, path, stance, p.length)
            ):
                scheduler.set_gait("trot")
                scheduler.start(lead_phase=0.0)
                return LocomotionMode.RECOVERING
        elif mode in (LocomotionMode.MOVING, LocomotionMode.RECOVERING):
            has_stopped = scheduler.phase >= 1.0 and not any(path.velocity.tolist())
            if not scheduler.is_running:
                return LocomotionMode.STANDING
            if self.is_lying_requested or (
                is_idle and has_stopped and max(map(abs, error)) < 0.5 * MAX_REFERENCE_LEAD * p.length
            ):
                scheduler.stop_stepping()
            elif not is_idle:
                scheduler.set_gait(gait)
                scheduler.start()  # cancels a stop
                return LocomotionMode.MOVING
        elif not trunk.is_moving:
            return {
                LocomotionMode.RISING: LocomotionMode.STANDING,
                LocomotionMode.CROUCHING: LocomotionMode.JUMPING,
            }.get(mode, LocomotionMode.LYING)
        return mode
