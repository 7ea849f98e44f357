"""`LocomotionEstimators`: estimates of payload, contacts and friction from the joint torques.

`PayloadCompensation` estimates and compensates mass that the robot carries beyond its model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..contact import ContactSet
from ..contact.contact_set import cross_matrix
from ..dynamics import Dynamics, State
from ..dynamics.joint_placements import make_world_jacobian
from ..estimation import PayloadEstimator
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import Command, WholeBodyController
from .contact_estimation import (
    allocate_contact_inputs,
    estimate_contacts,
    make_contact_estimate,
    make_contact_model,
    reset_contact_estimate,
)
from .friction_model import (
    FrictionInputs,
    FrictionModel,
    adapt_friction,
    make_friction_estimate,
    make_friction_parameters,
    update_friction,
)
from .morphology import FEET, Morphology

#: Range of payload masses, as fractions of the robot's mass, and maximum distance from its center of mass [l].
MIN_PAYLOAD_FRACTION, MAX_PAYLOAD_FRACTION, MAX_PAYLOAD_OFFSET = -0.3, 0.6, 0.3
#: Minimum ratio of the estimated mass to its standard deviation.
SIGNIFICANCE_LEVEL = 3.0
#: Time between updates of the estimate [sqrt(l/g)].
UPDATE_INTERVAL = 0.04
#: Time constant of the estimator, and time constant with which the compensated payload follows the estimate
#: [sqrt(l/g)].
ESTIMATOR_TIME_CONSTANT, COMPENSATION_TIME_CONSTANT = 8.0, 2.0
#: Maximum change of a foot's force for the moment of the payload, as a fraction of the force.
MAX_FORCE_SHIFT_FRACTION = 0.5


class PayloadCompensation:
    """Payload on the trunk: estimated from torques (`PayloadEstimator`) and carried by additional contact forces.

    The planned motion is that of the robot with its payload, whose center of mass is `com_shift` beside the robot's.
    The payload takes part in the robot's acceleration: where the feet exert F on the robot's mass m, they exert
    ``F M / m`` more for a payload M, at its position.  Each foot contributes in proportion to its force, so that forces
    stay in their friction cones; the remaining moment is obtained, as far as possible, by redistributing forces between
    the feet.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].

    Attributes:
        mass: compensated mass [kg]; negative where the robot is lighter than its model.
        first_moment: (3,) mass times center of mass, axes of the root link [kg m].
    """

    __slots__ = (
        "_alpha",
        "_base",
        "_estimator",
        "_index",
        "_morphology",
        "_tau",
        "_ticks",
        "_ticks_per_update",
        "first_moment",
        "mass",
    )

    def __init__(self, robot: Robot, morphology: Morphology, dt: float) -> None:
        self._morphology, self._base, self._index = morphology, robot.bodies[0].name, robot.actuated_index
        self._ticks_per_update = max(1, round(UPDATE_INTERVAL * morphology.time_scale / dt))
        update_dt = self._ticks_per_update * dt
        self._estimator = PayloadEstimator(
            robot, dt=update_dt, time_constant=ESTIMATOR_TIME_CONSTANT * morphology.time_scale
        )
        self._alpha = min(1.0, update_dt / (COMPENSATION_TIME_CONSTANT * morphology.time_scale))
        self.reset()

    def reset(self) -> None:
        """Resets the estimate; the payload is zero."""
        self._estimator.reset()
        self._ticks, self._tau = 0, np.zeros(len(self._index))
        self.mass, self.first_moment = 0.0, np.zeros(3)

    def pause(self) -> None:
        """Interrupts the estimate: the next state does not follow the last one, or feet are not on the ground."""
        self._estimator.observer.reset()
        self._ticks, self._tau = 0, np.zeros(len(self._index))

    def update(self, state: State, tau: Array) -> None:
        """Updates the estimated payload by one tick.

        Args:
            state: present state of the robot.
            tau: (nu,) torques since the last tick [N m].
        """
        self._tau += tau
        self._ticks += 1
        if self._ticks < self._ticks_per_update and self._estimator.observer.is_initialized:
            return
        p = self._morphology
        estimate = self._estimator.update(state, self._tau / self._ticks)
        self._ticks, self._tau = 0, np.zeros(len(self._index))
        mass, moment = 0.0, np.zeros(3)
        if abs(estimate.mass) > SIGNIFICANCE_LEVEL * float(estimate.standard_deviation[0]):
            mass = min(max(estimate.mass, MIN_PAYLOAD_FRACTION * p.mass), MAX_PAYLOAD_FRACTION * p.mass)
            offset_ratio = float(np.linalg.norm(estimate.first_moment)) / (MAX_PAYLOAD_OFFSET * p.length * abs(mass))
            moment = estimate.first_moment * ((mass / estimate.mass) / max(offset_ratio, 1.0))
        self.mass += self._alpha * (mass - self.mass)
        self.first_moment = self.first_moment + self._alpha * (moment - self.first_moment)

    def _first_moment_about(self, state: State, point: Array) -> Array:
        """Returns the first moment (3,) of the payload about a point, world axes [kg m]."""
        base = state.placement(self._base)
        return self.mass * (base.translation - point) + base.rotation @ self.first_moment

    def com_shift(self, state: State) -> tuple[float, float]:
        """Returns the center of mass of robot and payload minus that of the robot, world x and y [m]."""
        x, y, _ = (self._first_moment_about(state, state.com) / (self._morphology.mass + self.mass)).tolist()
        return x, y

    def torques(self, state: State, forces: Mapping[str, Array]) -> Array:
        """Computes the torques (nu,) that carry the payload, in addition to those of the robot [N m].

        Args:
            state: present state of the robot.
            forces: (3,) contact forces for the robot without payload, by name of the foot, world axes [N].
        """
        loaded = {foot: f for foot, f in forces.items() if f[2] > 0.0}
        weight = math.fsum(float(f[2]) for f in loaded.values())
        if not self.mass or not weight:
            return np.zeros(len(self._index))
        p, mass_ratio = self._morphology, self.mass / self._morphology.mass
        points = {foot: state.placement(foot).translation for foot in loaded}
        center = sum((float(f[2]) / weight * points[foot] for foot, f in loaded.items()), np.zeros(3))
        total = sum(loaded.values(), np.zeros(3))
        moment = sum((np.cross(points[foot] - center, f) for foot, f in loaded.items()), np.zeros(3))
        missing_moment = np.cross(self._first_moment_about(state, center) / p.mass, total) - mass_ratio * moment
        # The smallest contact forces with zero sum and this moment, as far as feasible.
        G = np.vstack(
            (
                np.hstack([np.eye(3)] * len(points)),
                np.hstack([cross_matrix(x - center) / p.length for x in points.values()]),
            )
        )
        target = np.concatenate((np.zeros(3), missing_moment / p.length))
        force_shifts = (G.T @ np.linalg.solve(G @ G.T + 1e-6 * np.eye(6), target)).reshape(-1, 3)
        scale = min(
            MAX_FORCE_SHIFT_FRACTION * float(f[2]) / max(float(np.linalg.norm(shift)), 1e-9)
            for f, shift in zip(loaded.values(), force_shifts, strict=True)
        )
        torques = np.zeros(len(self._index))
        for (foot, f), shift in zip(loaded.items(), force_shifts, strict=True):
            torques -= state.jacobian(foot)[:3, self._index].T @ (mass_ratio * f + min(1.0, scale) * shift)
        return torques


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
