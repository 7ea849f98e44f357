"""`LocomotionEstimators`: estimates of payload, contacts and friction from the joint torques."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ..dynamics import State
from ..urdf.tree import Array
from ..wbc import Command, WholeBodyController
from .contact_estimate import estimate_contacts
from .contact_estimation import ContactEstimation
from .friction_estimate import update_friction
from .friction_estimation import FrictionEstimation
from .friction_model import FrictionModel
from .friction_state import adapt_friction
from .morphology import Morphology
from .payload_compensation import PayloadCompensation


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

    __slots__ = ("_friction_model", "_is_enabled", "_payload", "_wbc", "contact_estimation", "friction_estimation")

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
    def detect_contacts(
        self,
        state: State,
        tau: Array,
        normals: Array | Sequence[tuple[float, float, float]],
        measured: tuple[str, ...] | None,
        blocked: Collection[str] = (),
        swinging: Collection[str] = (),
        *,
        has_flight_phase: bool = False,
    ) -> tuple[str, ...] | None:
        """Returns the names of the feet in contact, as measured or estimated; None where the gait schedule is used.

        The schedule is used in gaits with flight phases: a flying robot can neither wait for the ground nor carry load
        sooner, and its center-of-mass motion is planned for the moment at which all feet land.

        Args:
            state: present state of the robot.
            tau: (nu,) torques since the last tick [N m].
            normals: (4, 3) unit normals of the ground under each foot, in the order of `FEET`, world.
            measured: names of the feet in contact; None without foot sensors.
            blocked: names of the feet that lag behind their paths.
            swinging: names of the mid-swing feet.
            has_flight_phase: whether the gait has flight phases.
        """
        if self._is_enabled:
            solver = self._wbc.solver
            solver.update_terms(*state.writable_coordinates())
            contacts = self.contact_estimation.update(
                state, tau, normals, blocked, swinging,
                measured=measured, has_flight_phase=has_flight_phase, inertia=solver.data.terms.M,
            )  # fmt: skip
            return contacts if measured is None else measured
        return measured

    @property
    def forces(self) -> Mapping[str, Array] | None:
        """(3,) last estimated contact force of each foot on the robot, by name, world axes [N]; None if disabled."""
        return self.contact_estimation.forces if self._is_enabled else None

    @property
    def model_mismatch(self) -> bool:
        """Whether the forces estimated at swing feet show that the model is wrong."""
        return self.contact_estimation.model_mismatch

    @property
    def uncertainty(self) -> float:
        """Upper bound of the error of an estimated contact force [N]."""
        return self.contact_estimation.uncertainty

    def update_friction(
        self, state: State, carrying: Collection[str], *, lower_bound: bool, rough: bool = False
    ) -> None:
        """Updates slip detection and friction bound; call it after `detect_contacts`.

        Args:
            state: present state of the robot.
            carrying: names of the feet that carry load.
            lower_bound: whether slips lower the friction bound.
            rough: whether a foot may scrape along edges.
        """
        friction = self.friction_estimation
        if friction.parameters.is_enabled:
            friction.update_from_contacts(
                state, self.contact_estimation, carrying, lower_bound=lower_bound, rough=rough
            )
            self._friction_model.set_slip_bound(friction.bound)

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
