"""`TrunkController`: references of the whole-body controller for center of mass, base and contact forces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from ..wbc.tasks import ComTask, ForceTask, FrameOrientationTask
from .com_preview import ComReference
from .friction_model import FrictionModel
from .ground_plane import GroundPlane
from .morphology import FEET, Morphology, make_body_parameters
from .motion import CentroidalState
from .path_reference import PathReference
from .state_fields import StateField
from .trunk_references import (
    BASE_BLOCK_SIZE,
    COM_BLOCK_SIZE,
    FLIGHT_BASE_FRACTION,
    KNOWN_SLOPE_LOWERING,
    allocate_trunk_state,
    lower_trunk,
    set_base_weight,
    slope_lowering,
    start_trunk_motion,
    start_trunk_stop,
    update_trunk_references,
    write_task_references,
)

#: Natural frequency of the height control [1/sqrt(l/g)].
HEIGHT_FREQUENCY = 2.5
#: Weights of height and attitude (per l) relative to that of the horizontal motion of the center of mass, 1.  With two
#: feet in contact not all can be satisfied; the horizontal motion has priority, since it decides about falling.
HEIGHT_WEIGHT, BASE_WEIGHT = 2.0, 1.25
#: `KNOWN_SLOPE_LOWERING` in blind locomotion, for robots whose legs fold that far: a leg that is nearly straight at
#: lift-off needs a very fast knee.
BLIND_SLOPE_LOWERINGS = 0.3, 0.2
#: Time to stand up or to lie down [sqrt(l/g)].
RISING_TIME = 6.0


class TrunkController:
    """References of the tasks "com", "base" and "forces".

    *Horizontally* the center of mass has no position reference.  With the error e of its divergent component, the
    center of pressure ``z* + (1 + k) e`` makes e decay at the rate k lambda / omega (Englsberger et al. 2015; lambda is
    omega^2 except in gaits with flight phases, see `preview_com`), hence

        cddot = lambda (c - z*) - lambda (1 + k) e,

    clamped to the friction limit.  Two point feet exert no moment about the line between them: a force that moves the
    center of mass across that line rotates the trunk, and keeping the trunk upright costs force.  After a push that
    accelerates the steps (`adapt_step_timing`) the weight of the attitude is reduced: the trunk acts as a flywheel for
    a while (Stephens 2007, "Humanoid push recovery").  The *height* is measured vertically over the plane of the feet:
    then the same law holds on a slope, with the vertical acceleration that keeps the height.  The trunk is parallel to
    that plane and points along the path reference.  Integral action compensates mass that is not in the robot's model.

    Args:
        morphology: lengths and units of the robot.
        wbc: the whole-body controller, whose references are set.
        friction_model: friction and normals of the contacts.
        height: present height of the center of mass over the ground [m].
        com_offset: (2,) present offset of the center of mass from the center of the feet, world [m].
        slope_lowering: lowering on slopes in blind locomotion, divided by the sine of their angle [l].

    Attributes:
        state: record of the compiled functions, with all of the state.
        is_moving: whether a motion to another height or offset is in progress.
        desired_height: height of the center of mass over the plane of the feet as last commanded, measured vertically
            [m]: the lowering on slopes and for low footholds and the vertical motion of the gait included.
        desired_rate: rate of change of `desired_height` [m/s].
    """

    __slots__ = (
        "_body",
        "_friction_model",
        "_morphology",
        "_wbc",
        "force_rows",
        "state",
    )

    desired_height = StateField[float]()
    desired_rate = StateField[float]()

    def __init__(
        self,
        morphology: Morphology,
        wbc: WholeBodyController,
        friction_model: FrictionModel,
        height: float,
        com_offset: tuple[float, float] = (0.0, 0.0),
        slope_lowering: float = KNOWN_SLOPE_LOWERING,
    ) -> None:
        self._morphology, self._wbc, self._friction_model = morphology, wbc, friction_model
        self._body, self.state = make_body_parameters(morphology), allocate_trunk_state()
        self.force_rows = np.zeros((4, 8))
        state = self.state
        state.slope_lowering, state.height = slope_lowering, (height, 0.0, 0.0)
        state.target_height = state.desired_height = height
        state.com_offset[:, 0] = com_offset

    @staticmethod
    def set_gains(morphology: Morphology, tasks: Mapping[str, Any]) -> None:
        """Sets gains and weights of the tasks.

        Args:
            morphology: lengths and units of the robot.
            tasks: tasks "com" and "base" of the whole-body controller.
        """
        p = morphology
        rate = (HEIGHT_FREQUENCY / p.time_scale) ** 2
        tasks["com"].gains(np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 2.0 * math.sqrt(rate)]))
        tasks["com"].weight = np.array([1.0, 1.0, HEIGHT_WEIGHT])
        tasks["base"].weight = BASE_WEIGHT * p.length

    def go_to(self, height: float, com_offset: tuple[float, float] = (0.0, 0.0), time: float = RISING_TIME) -> None:
        """Starts a smooth motion of the center of mass to another height and offset.

        Args:
            height: target height over the ground [m].
            com_offset: (2,) target offset from the center of the feet, world [m].
            time: duration [sqrt(l/g)].
        """
        x, y = com_offset
        start_trunk_motion.python(self.state, float(height), float(x), float(y), time * self._morphology.time_scale)

    def stop_fall(self, height: float, rate: float, distance: float, min_height: float) -> None:
        """Starts to bring the falling center of mass to rest, along a minimum-jerk path.

        Args:
            height: present height of the center of mass over the ground [m].
            rate: its rate of change [m/s].
            distance: stopping distance [m], as far as it stays above `min_height`.
            min_height: minimum height [m].
        """
        start_trunk_stop(self.state, self._body, float(height), float(rate), float(distance), float(min_height))

    def lower(self, rate: float, min_height: float, dt: float) -> bool:
        """Lowers the trunk by one tick; returns False if it is already at the minimum height.

        Args:
            rate: speed of the lowering [m/s].
            min_height: minimum height of the center of mass over the ground [m].
            dt: control period [s].
        """
        return bool(lower_trunk(self.state, float(rate), float(min_height), float(dt)))

    @property
    def is_moving(self) -> bool:
        """Whether a motion to another height or offset is in progress."""
        return self.state.remaining_time > 0.0

    def update_references(
        self, reference: ComReference, path: PathReference, ground: GroundPlane, motion: CentroidalState, dt: float
    ) -> None:
        """Sets the references of the whole-body controller for one tick.

        Args:
            reference: reference of the center of mass from the preview.
            path: path reference.
            ground: plane of the feet.
            motion: motion of center of mass and trunk.
            dt: control period [s].
        """
        self._friction_model.read_friction()
        records = reference, path.state, ground.state, self._body, motion.state, self._friction_model.state
        update_trunk_references(self.state, *records, float(dt))
        self.write_references()

    @property
    def has_standard_tasks(self) -> bool:
        """Whether compiled code may write the references of the tasks "com", "base" and "forces" directly."""
        tasks = self._wbc.tasks
        com, base, forces = tasks["com"], tasks["base"], tasks["forces"]
        sizes = len(com.block) == COM_BLOCK_SIZE and len(base.block) == BASE_BLOCK_SIZE
        return sizes and (type(com), type(base), type(forces)) == (ComTask, FrameOrientationTask, ForceTask)

    def write_references(self) -> None:
        """Writes the references of the record to the tasks of the whole-body controller."""
        state, tasks = self.state, self._wbc.tasks
        com_task, base_task = tasks["com"], tasks["base"]
        if not write_task_references(state, com_task.block, base_task.block, self.force_rows):
            references = state.references
            com_task.reference(references.com, references.com_velocity, references.com_acceleration)
            base_task.reference(references.base, references.base_velocity)
        tasks["forces"].set_point_forces(FEET, self.force_rows)

    def restore_base_weight(self) -> None:
        """Restores the weight of the task "base"; `update_references` does so where feet carry load."""
        self.reduce_base_weight(1.0)

    def reduce_base_weight(self, fraction: float = FLIGHT_BASE_FRACTION) -> None:
        """Reduces the weight of the task "base", until `restore_base_weight`.

        Args:
            fraction: fraction of the weight that remains.
        """
        set_base_weight.python(self.state, self._wbc.tasks["base"].block, fraction)


def compute_slope_lowering(morphology: Morphology, axes: Array, fraction: float = KNOWN_SLOPE_LOWERING) -> float:
    """Computes the lowering of the trunk on a slope [m].

    Args:
        morphology: lengths and units of the robot.
        axes: (3, 3) `heading_axes` of the slope.
        fraction: lowering divided by leg length and sine of the slope's angle.
    """
    return slope_lowering(morphology.length, float(axes[2, 2]), fraction)
