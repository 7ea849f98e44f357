"""`LocomotionEstimators`: estimates of payload, contacts and friction from the joint torques."""

from __future__ import annotations

import math

import numpy as np

from ..dynamics import State
from ..urdf.tree import Array
from ..wbc import Command, WholeBodyController
from .contact_estimate import estimate_contacts
from .contact_estimation import ContactEstimation
from .foot_masks import find_feet
from .friction_estimate import update_friction
from .friction_estimation import FrictionEstimation
from .friction_model import FrictionModel
from .friction_state import adapt_friction
from .morphology import FEET, Morphology
from .payload_compensation import PayloadCompensation

#: Jacobian columns and placements of the joints, inertia and velocity of a state.
DynamicsArrays = tuple[Array, Array, Array, Array]
#: Columns and placements where they are not used.
NO_COLUMNS, NO_PLACEMENTS = np.zeros((1, 6)), np.zeros((1, 4, 3))


class LocomotionEstimators:
    """Estimators of a locomotion controller; disabled ones return neutral values at no cost.

    Args:
        wbc: whole-body controller of a quadruped, whose rigid-body terms are used.
        morphology: lengths and units of the robot.
        friction_model: friction model, whose slip bound is set.
        payload: whether to estimate and compensate mass beyond the robot's model.
        contacts: whether to detect the feet in contact.
        friction: whether to detect slips and to bound the friction coefficient.

    Attributes:
        contact_estimation: estimator of the contact forces and detector of the feet in contact.
        friction_estimation: estimator of the friction bound.
    """

    __slots__ = (
        "_friction_model",
        "_has_sensors",
        "_is_enabled",
        "_payload",
        "_wbc",
        "contact_estimation",
        "friction_estimation",
    )

    def __init__(
        self,
        wbc: WholeBodyController,
        morphology: Morphology,
        friction_model: FrictionModel,
        *,
        payload: bool,
        contacts: bool,
        friction: bool,
    ) -> None:
        robot, dt = wbc.robot, wbc.dt
        self._wbc, self._friction_model, self._is_enabled = wbc, friction_model, contacts or friction
        self._has_sensors = False
        self._payload = PayloadCompensation(robot, morphology, dt) if payload else None
        self.contact_estimation = ContactEstimation(
            robot, morphology, dt, detects_contacts=contacts, needs_forces=friction
        )
        self.friction_estimation = FrictionEstimation(robot, morphology, dt, is_enabled=friction)

    def warmup(self) -> None:
        """Compiles all compiled functions of the estimators."""
        for function in (estimate_contacts, update_friction, adapt_friction):
            function.compile()

    def reset(self) -> None:
        """Resets all estimates."""
        if self._payload is not None:
            self._payload.reset()
        self.contact_estimation.reset()
        self.friction_estimation.reset()
        self._friction_model.set_slip_bound(math.inf)

    def pause(self) -> None:
        """Interrupts the estimates while feet are not on the ground; the results stay available."""
        if self._payload is not None:
            self._payload.pause()
        self.contact_estimation.reset()

    # -- feet ------------------------------------------------------------------------------------------------------
    def set_measured_contacts(self, measured: tuple[str, ...] | None) -> None:
        """Sets the names of the feet that foot sensors measure in contact; None without foot sensors."""
        x = self.contact_estimation.inputs
        if (measured is not None) is not self._has_sensors:
            x.has_sensors = self._has_sensors = measured is not None
        if measured is not None:
            x.is_touching[:] = [foot in measured for foot in FEET]

    def read_dynamics(self, state: State) -> DynamicsArrays:
        """Returns what `quaddyn.locomotion.walking.detect` needs of a state.

        For robots with coupled joints Pinocchio computes momenta, Jacobians and foot velocities.

        Args:
            state: present state of the robot.
        """
        q, v = state.writable_coordinates()
        solver = self._wbc.solver
        solver.update_terms(q, v)
        columns, placements = NO_COLUMNS, NO_PLACEMENTS
        if self._is_enabled and not self.contact_estimation.write_terms(state):
            columns, placements = state.kinematic_arrays()
        elif self._is_enabled:
            self.friction_estimation.write_foot_velocities(state)
        return columns, placements, solver.data.terms.M, v

    @property
    def detected_contacts(self) -> tuple[str, ...] | None:
        """Names of the feet in contact, as measured or estimated; None where the gait schedule is used.

        The schedule is used in gaits with flight phases: a flying robot can neither wait for the ground nor carry load
        sooner, and its center-of-mass motion is planned for the moment at which all feet land.
        """
        estimate = self.contact_estimation.state
        return find_feet(estimate.in_contact) if estimate.is_followed else None

    @property
    def model_mismatch(self) -> bool:
        """Whether the forces estimated at swing feet show that the model is wrong."""
        return self.contact_estimation.model_mismatch

    @property
    def slipping_feet(self) -> tuple[str, ...]:
        """Names of the feet that slip."""
        return self.friction_estimation.slipping_feet

    # -- payload ---------------------------------------------------------------------------------------------------
    @property
    def payload_mass(self) -> float:
        """Estimated mass beyond that of the robot's model [kg]."""
        return 0.0 if self._payload is None else self._payload.mass

    def com_shift(self, state: State) -> tuple[float, float]:
        """Returns the center of mass with payload minus that of the robot, world x and y [m]."""
        return (0.0, 0.0) if self._payload is None else self._payload.com_shift(state)

    def add_payload_torques(self, state: State, tau: Array, command: Command) -> Array:
        """Returns the torques (nu,) for robot and payload [N m].

        Args:
            state: present state of the robot.
            tau: (nu,) torques since the last tick [N m].
            command: command of the whole-body controller for the robot without payload.
        """
        if self._payload is None:
            return command.tau
        self._payload.update(state, tau)
        return command.tau + self._payload.torques(state, command.forces)
