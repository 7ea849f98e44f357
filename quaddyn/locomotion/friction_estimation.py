"""`FrictionEstimation`: estimate of an upper bound of the friction coefficient from slips."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from ..dynamics import State
from ..estimation import SensorNoise
from ..estimation.body_points import make_body_points
from ..estimation.foot_forces import FootForces
from ..estimation.foot_loads import allocate_foot_loads
from ..estimation.slip_detector import make_slip_model
from ..estimation.slip_kernel import make_slip_memory
from ..robot.robot import Robot
from ..urdf.tree import Array
from .foot_masks import find_feet
from .friction_estimate import (
    FrictionEstimate,
    FrictionInputs,
    FrictionParameters,
    reset_friction_estimate,
    update_slips,
    update_slips_from_state,
)
from .morphology import FEET, Morphology
from .state_fields import StateField

#: Time constant with which a slip lowers the bound [sqrt(l/g)].
SLIP_TIME_CONSTANT = 0.03
#: Time scale T of the return of a bound that no slip confirms, which grows by ``exp(t^2 / (2 T^2))`` [sqrt(l/g)].
RECOVERY_TIME = 4.0
#: Minimum time of a slip, without deceleration, before its forces are used for the friction [sqrt(l/g)].
MIN_SLIP_TIME = 0.03
#: Time constant with which the bound is raised to forces that feet hold without slipping [sqrt(l/g)].
HOLDING_TIME_CONSTANT = 1.0


class FrictionEstimation:
    """Upper bound of the friction coefficient, lowered by slips and raised by time and by forces that feet hold.

    The bound is infinite before the first slip.  A slip with a friction below the bound lowers it to
    `SLIP_SAFETY_FACTOR` times that friction.  Without further slips of similar friction the bound grows again, the
    faster the longer none confirms it.  If a foot holds a larger ratio of forces without slipping, the bound was too
    low and follows that ratio.  Slips are detected as by `quaddyn.estimation.SlipDetector`.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].
        is_enabled: whether slips are detected in locomotion.

    Attributes:
        parameters: robot and parameters, for compiled functions.
        state: estimate, for compiled functions.
        inputs: inputs of the last tick, for compiled functions.
        bound: upper bound of the friction coefficient, dimensionless; inf before the first slip.
    """

    __slots__ = ("_has_coupled_joints", "_loads", "_update", "inputs", "parameters", "state")

    bound = StateField[float]()

    def __init__(self, robot: Robot, morphology: Morphology, dt: float, *, is_enabled: bool = True) -> None:
        time_scale, self._has_coupled_joints = morphology.time_scale, robot.coupling is not None
        slip_model = make_slip_model(robot, FEET, dt, morphology.length, SensorNoise())
        centers = [] if self._has_coupled_joints else [(foot, np.zeros(3)) for foot in FEET]
        self.parameters = FrictionParameters(
            slip=slip_model,
            feet=make_body_points(robot, centers),
            dt=dt,
            slip_alpha=dt / (SLIP_TIME_CONSTANT * time_scale + dt),
            holding_alpha=dt / (HOLDING_TIME_CONSTANT * time_scale + dt),
            growth_rate=dt / (RECOVERY_TIME * time_scale) ** 2,
            min_slip_updates=MIN_SLIP_TIME * time_scale / dt,
            is_enabled=is_enabled,
        )
        self.state = FrictionEstimate.from_values(
            slip=make_slip_memory(slip_model),
            loads=allocate_foot_loads(len(FEET)),
            bound=np.inf,
            time_since_slip=0.0,
        )
        self.inputs = FrictionInputs.allocate(is_carrying=len(FEET))
        self._loads = FootForces(FEET, self.state.loads)
        self._update: Callable[..., None] | None = None  # bound to its records at the first update

    def reset(self) -> None:
        """Resets slip detection and bound."""
        reset_friction_estimate.python(self.parameters, self.state)

    @property
    def slipping_feet(self) -> tuple[str, ...]:
        """Names of the feet that slip."""
        return find_feet(self.state.slip.is_slipping)

    def update(
        self,
        state: State,
        forces: Mapping[str, Array] | Array,
        contacts: Collection[str],
        normals: Array,
        *,
        lower_bound: bool = True,
        rough: bool = False,
    ) -> float:
        """Updates the estimate by one tick and returns the bound of the friction coefficient.

        Args:
            state: present state of the robot.
            forces: (3,) by name of the foot, or (4, 3) in the order of `FEET`: estimated forces of the feet on the
                robot, world axes [N].
            contacts: names of the feet that are in contact and carry load.
            normals: (4, 3) unit normals of the ground under each foot, in the same order, or (3,) of all, world.
            lower_bound: whether slips lower the bound.
            rough: whether only simultaneous slips of several feet lower the bound: on rough ground a single foot may
                scrape along an edge.

        Returns:
            The bound.
        """
        self._loads.set_normals(normals)
        self._loads.set_contacts(contacts)
        self._loads.set_forces(forces)
        if self._has_coupled_joints:
            self._update_slips_of_coupled_joints(state, lower_bound=lower_bound, rough=rough)
        else:
            v = state.writable_coordinates()[1]
            update_slips_from_state(self.parameters, self.state, *state.kinematic_arrays(), v, lower_bound, rough)
        return self.bound

    def _update_slips_of_coupled_joints(self, state: State, *, lower_bound: bool, rough: bool) -> None:
        """Updates slip detection and bound with the foot velocities of Pinocchio."""
        self.write_foot_velocities(state)
        update_slips(self.parameters, self.state, lower_bound, rough)

    def write_foot_velocities(self, state: State) -> None:
        """Writes the velocities of the feet as Pinocchio computes them."""
        for row, foot in zip(self.state.slip.motion, FEET, strict=True):
            row[:] = state.velocity(foot)
