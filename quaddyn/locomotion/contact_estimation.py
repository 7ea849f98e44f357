"""`ContactEstimation`: detection of the feet in contact from encoders, IMU and torques alone, while the robot walks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from ..contact import ContactSet
from ..dynamics import Dynamics, State
from ..estimation.contact_force_fit import make_contact_set_arrays, make_force_fit_workspace
from ..estimation.generalized_momentum import make_momentum_bodies
from ..estimation.momentum_residual import make_residual_filter
from ..estimation.touchdown_kernel import LIFTOFF_FORCE_RATIO, TOUCHDOWN_FORCE_FRACTION, make_schmitt_trigger
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact_estimate import (
    ContactEstimate,
    ContactInputs,
    ContactModel,
    compute_uncertainty,
    estimate_contacts,
    estimate_contacts_of_coupled_joints,
    has_model_mismatch,
    reset_contact_estimate,
)
from .contact_monitor import CONTACT_DWELL_TIME, FORCE_TIME_CONSTANT
from .foot_masks import find_feet
from .morphology import FEET, Morphology
from .state_fields import StateField

#: Time after a start in which the estimated forces are not used [sqrt(l/g)].
STARTUP_TIME = 0.2
#: Normal force with which a foot that lags behind its path counts as in contact, as a fraction of the weight per foot.
BLOCKED_FOOT_FORCE_FRACTION = 0.05
#: Maximum error of the estimated forces that is considered, as a fraction of the weight per foot: the forces of stance
#: feet have to exceed the threshold.
MAX_ERROR = 0.4
#: Ratio to the largest singular value below which a singular value of the force fit counts as zero.
RANK_TOLERANCE = 1e-3


class ContactEstimation:
    """Estimator of contact forces and detector of the feet in contact.

    The forces of all feet are estimated, as by `quaddyn.estimation.ContactForceEstimator`, so that touchdowns outside
    the schedule are detected.  The force estimated at a swing foot is the error of the estimate: with masses, damping
    or rotor inertias that differ from those of the robot, it grows with the accelerations of the swing.  The error is
    the second largest of the four feet's maxima over their present or last swings, so that a single foot that meets an
    obstacle in its swing is ignored, and a force counts as contact only beyond a multiple of the error.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].
        detects_contacts: whether the gait follows the contacts in place of the schedule.
        needs_forces: whether forces are estimated also with foot sensors.

    Attributes:
        model: robot and parameters, for compiled functions.
        state: estimate, for compiled functions.
        inputs: inputs of the last tick, for compiled functions.
        forces: (3,) last estimated contact force of each foot, by name, on the robot, world axes [N]; views.
        stacked_forces: (4, 3) the same in the order of `FEET` [N]; a view.
        error: error of the estimated forces, measured at mid-swing feet [N].
    """

    __slots__ = ("_contact_set", "_dynamics", "_update", "forces", "inputs", "model", "state")

    error = StateField[float]()
    stacked_forces = StateField[Array]("forces")

    def __init__(
        self,
        robot: Robot,
        morphology: Morphology,
        dt: float,
        *,
        detects_contacts: bool = True,
        needs_forces: bool = True,
    ) -> None:
        time_scale, weight = morphology.time_scale, morphology.mass * morphology.gravity / len(FEET)
        touchdown_threshold = TOUCHDOWN_FORCE_FRACTION * weight
        self._contact_set = contact_set = ContactSet.from_feet(robot, FEET)
        self.model = ContactModel(
            bodies=make_momentum_bodies(robot),
            feet=make_contact_set_arrays(robot, contact_set, joints=False, tolerance=RANK_TOLERANCE),
            work=make_force_fit_workspace(3 * len(FEET), robot.nv),
            is_active=np.ones(len(FEET), dtype=np.int64),
            dt=dt,
            startup_time=STARTUP_TIME * time_scale,
            min_blocked_force=BLOCKED_FOOT_FORCE_FRACTION * weight,
            max_error=MAX_ERROR * weight,
            detects_contacts=detects_contacts,
            needs_forces=needs_forces,
        )
        beta = np.full(robot.nv, math.exp(-dt / (FORCE_TIME_CONSTANT * time_scale)))
        self.state = ContactEstimate.from_values(
            observer=make_residual_filter(robot, dt, beta),
            trigger=make_schmitt_trigger(
                len(FEET),
                touchdown_threshold,
                LIFTOFF_FORCE_RATIO * touchdown_threshold,
                CONTACT_DWELL_TIME * time_scale,
            ),
            time=0.0,
            forces=np.zeros((len(FEET), 3)),
            error=0.0,
            peaks=np.zeros(len(FEET)),
            was_mid_swing=np.zeros(len(FEET), dtype=np.int64),
            in_contact=np.zeros(len(FEET), dtype=np.int64),
            is_known=False,
            is_followed=False,
        )
        self.inputs = ContactInputs.allocate(normals=(len(FEET), 3), is_blocked=4, is_mid_swing=4, is_touching=4)
        self.forces: Mapping[str, Array] = dict(zip(FEET, self.state.forces, strict=True))
        # For robots with coupled joints Pinocchio computes momenta and Jacobians.
        self._dynamics = Dynamics(robot, validate=False) if robot.coupling is not None else None
        self._update: Callable[..., None] | None = None  # bound to its records at the first update

    def reset(self) -> None:
        """Resets all estimates."""
        reset_contact_estimate.python(self.state)

    def update(
        self,
        state: State,
        tau: Array,
        normals: Array | Sequence[tuple[float, float, float]],
        blocked: Collection[str] = (),
        swinging: Collection[str] = (),
        *,
        measured: Collection[str] | None = None,
        has_flight_phase: bool = False,
        inertia: Array | None = None,
    ) -> tuple[str, ...] | None:
        """Updates the estimate by one tick and returns the names of the feet in contact.

        Args:
            state: present state of the robot.
            tau: (nu,) torques since the last tick [N m].
            normals: (4, 3) unit normals of the ground under each foot, in the order of `FEET`, world.
            blocked: names of the feet that lag behind their paths.  They need less force to count as in contact, since
                the shanks of some robots are so light that a swing foot cannot press harder.
            swinging: names of the mid-swing feet, which are far from the ground.
            measured: names of the feet in contact; None without foot sensors.
            has_flight_phase: whether the gait has flight phases.
            inertia: (nv, nv) joint-space inertia of the state, C-contiguous; None for that of Pinocchio.

        Returns:
            The names of the feet in contact, as measured or estimated; None where the gait schedule is used, as during
            the startup time.
        """
        x = self.inputs
        x.normals[:] = normals
        x.is_blocked[:] = [foot in blocked for foot in FEET]
        x.is_mid_swing[:] = [foot in swinging for foot in FEET]
        x.has_sensors, x.has_flight_phase = measured is not None, has_flight_phase
        if measured is not None:
            x.is_touching[:] = [foot in measured for foot in FEET]
        v, M = state.writable_coordinates()[1], np.ascontiguousarray(state.M.T) if inertia is None else inertia
        if self._dynamics is None:
            if self._update is None:
                self._update = estimate_contacts.bind(self.model, self.state, x)
            self._update(*state.kinematic_arrays(), M, v, tau)
        else:
            self.write_terms(state)
            estimate_contacts_of_coupled_joints(self.model, self.state, x, M, v, tau)
        return find_feet(self.state.in_contact) if self.state.is_followed else None

    def write_terms(self, state: State) -> bool:
        """Writes momentum and its rate, and the Jacobian of the feet, of a robot with coupled joints.

        Returns:
            Whether the robot has coupled joints; otherwise nothing is written.
        """
        if self._dynamics is None:
            return False
        q, v = state.writable_coordinates()
        current = self.state.observer.current
        current[0], current[1] = state.M @ v, self._dynamics.coriolis(q, v).T @ v - state.gravity
        self.model.work.J[:] = self._contact_set.jacobian(state)
        return True

    @property
    def uncertainty(self) -> float:
        """Upper bound of the error of an estimated contact force [N]."""
        return compute_uncertainty(self.state)

    @property
    def model_mismatch(self) -> bool:
        """Whether the uncertainty exceeds the contact threshold of a correct model."""
        return has_model_mismatch(self.state)
