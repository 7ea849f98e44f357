"""`LocomotionEstimators`: estimates of payload, contacts and friction from the joint torques."""

from __future__ import annotations

import numpy as np

from ..contact import ContactSet
from ..dynamics import Dynamics, State
from ..dynamics.joint_placements import make_world_jacobian
from ..urdf.tree import Array
from ..wbc import Command, WholeBodyController
from .contact_estimation import (
    allocate_contact_inputs,
    estimate_contacts,
    make_contact_estimate,
    make_contact_model,
    reset_contact_estimate,
)
from .friction_estimation import (
    FrictionInputs,
    make_friction_estimate,
    make_friction_parameters,
    update_friction,
)
from .friction_model import FrictionModel, adapt_friction
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
        rotors: whether to estimate and compensate rotor inertias that the model lacks, while contact forces are
            estimated for contacts or friction.

    Attributes:
        contact_model: robot and parameters of the contact estimate.
        contacts: estimate of the contact forces and of the feet in contact.
        contact_inputs: inputs of that estimate at the last tick.
        friction_parameters: robot and parameters of the friction estimate.
        slips: estimate of the friction bound.
        friction_inputs: inputs of that estimate at the last tick.
        jacobian: placements and Jacobian of the joints; not used for robots with coupled joints.
    """

    __slots__ = (
        "_dynamics",
        "_feet",
        "_friction_model",
        "_has_sensors",
        "_payload",
        "_wbc",
        "contact_inputs",
        "contact_model",
        "contacts",
        "friction_inputs",
        "friction_parameters",
        "jacobian",
        "slips",
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
        rotors: bool,
    ) -> None:
        robot, dt = wbc.robot, wbc.dt
        self._wbc, self._friction_model = wbc, friction_model
        self._has_sensors = False
        self._payload = PayloadCompensation(robot, morphology, dt) if payload else None
        self.contact_model = make_contact_model(
            robot, morphology, dt, detects_contacts=contacts, needs_forces=friction, estimates_rotors=rotors
        )
        self.contacts, self.contact_inputs = make_contact_estimate(robot, morphology, dt), allocate_contact_inputs()
        self.friction_parameters = make_friction_parameters(robot, morphology, dt, is_enabled=friction)
        self.slips = make_friction_estimate(self.friction_parameters)
        self.friction_inputs = FrictionInputs.allocate(is_carrying=len(FEET))
        # For robots with coupled joints Pinocchio computes momenta, Jacobians and foot velocities.
        self._dynamics = Dynamics(robot, validate=False) if robot.coupling is not None else None
        self.jacobian = make_world_jacobian(robot)
        self._feet = ContactSet.from_feet(robot, FEET)

    def warmup(self) -> None:
        """Compiles all compiled functions of the estimators."""
        for function in (estimate_contacts, update_friction, adapt_friction):
            function.compile()

    def reset(self) -> None:
        """Resets the estimate of the payload; `walker.reset_walker` resets the others."""
        if self._payload is not None:
            self._payload.reset()

    def pause(self) -> None:
        """Interrupts the estimates in a jump; the results stay available."""
        self.pause_payload()
        reset_contact_estimate.python(self.contacts)

    # -- feet ------------------------------------------------------------------------------------------------------
    def set_measured_contacts(self, measured: tuple[str, ...] | None) -> None:
        """Sets the names of the feet that foot sensors measure in contact; None without foot sensors."""
        x = self.contact_inputs
        if (measured is not None) is not self._has_sensors:
            x.has_sensors = self._has_sensors = measured is not None
        if measured is not None:
            x.is_touching[:] = [foot in measured for foot in FEET]

    def read_coupled_dynamics(self, state: State) -> None:
        """Computes momenta, Jacobians and foot velocities of a robot with coupled joints, by Pinocchio.

        Args:
            state: present state of the robot.
        """
        assert self._dynamics is not None
        q, v = state.writable_coordinates()
        current, motion = self.contacts.observer.current, self.slips.slip.motion
        current[0], current[1] = state.M @ v, self._dynamics.coriolis(q, v).T @ v - state.gravity
        self.contact_model.work.J[:] = self._feet.jacobian(state)
        for row, foot in zip(motion, FEET, strict=True):
            row[:] = state.velocity(foot)

    # -- payload ---------------------------------------------------------------------------------------------------
    def pause_payload(self) -> None:
        """Interrupts the estimate of the payload while feet are not on the ground; the result stays available."""
        if self._payload is not None:
            self._payload.pause()

    @property
    def estimates_payload(self) -> bool:
        """Whether mass beyond the robot's model is estimated and compensated."""
        return self._payload is not None

    @property
    def payload_mass(self) -> float:
        """Estimated mass beyond that of the robot's model [kg]."""
        return 0.0 if self._payload is None else self._payload.mass

    def com_shift(self, state: State) -> tuple[float, float]:
        """Returns the center of mass with payload minus that of the robot, world x and y [m]."""
        return (0.0, 0.0) if self._payload is None else self._payload.com_shift(state)

    def payload_torques(self, state: State, tau: Array, command: Command) -> Array:
        """Updates the estimate of the payload, and returns the torques (nu,) that it requires [N m].

        Args:
            state: present state of the robot.
            tau: (nu,) torques since the last tick [N m].
            command: command of the whole-body controller for the robot without payload.
        """
        assert self._payload is not None
        self._payload.update(state, tau)
        return self._payload.torques(state, command.forces)
