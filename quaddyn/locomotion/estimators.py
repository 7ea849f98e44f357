"""`LocomotionEstimators`: estimates of payload, contacts and friction from the joint torques."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..dynamics import State
from ..estimation.contact_force_fit import fit_contact_forces
from ..estimation.momentum_residual import observe_momentum
from ..estimation.slip_kernel import estimate_slip_friction, find_max_held_ratio, update_slip_from_state
from ..estimation.touchdown_kernel import update_triggers
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import Command
from .contact_estimation import ContactEstimation
from .friction_estimation import FrictionEstimation
from .friction_model import FrictionModel
from .morphology import FEET, Morphology
from .payload_compensation import PayloadCompensation


class LocomotionEstimators:
    """Estimators of a locomotion controller; disabled ones return neutral values at no cost.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].
        friction_model: friction model, whose slip bound is set.
        payload: whether to estimate and compensate mass beyond the robot's model.
        contacts: whether to detect the feet in contact.
        friction: whether to detect slips and to bound the friction coefficient.
    """

    __slots__ = (
        "_contact_estimation",
        "_contacts",
        "_detects_contacts",
        "_friction_estimation",
        "_friction_model",
        "_normals",
        "_order",
        "_payload",
    )

    def __init__(
        self,
        robot: Robot,
        morphology: Morphology,
        dt: float,
        friction_model: FrictionModel,
        *,
        payload: bool,
        contacts: bool,
        friction: bool,
    ) -> None:
        self._friction_model, self._detects_contacts = friction_model, contacts
        self._payload = PayloadCompensation(robot, morphology, dt) if payload else None
        self._friction_estimation = FrictionEstimation(robot, morphology, dt) if friction else None
        self._contact_estimation = ContactEstimation(robot, morphology, dt) if contacts or friction else None
        self._contacts: tuple[str, ...] | None = None
        self._normals, self._order = np.zeros((len(FEET), 3)), [robot.feet.index(foot) for foot in FEET]

    def warmup(self) -> None:
        """Compiles all compiled functions of the estimators."""
        for function in (
            observe_momentum,
            fit_contact_forces,
            update_triggers,
            update_slip_from_state,
            estimate_slip_friction,
            find_max_held_ratio,
        ):
            function.compile()

    def reset(self) -> None:
        """Resets all estimates."""
        if self._payload is not None:
            self._payload.reset()
        if self._contact_estimation is not None:
            self._contact_estimation.reset()
        if self._friction_estimation is not None:
            self._friction_estimation.reset()
            self._friction_model.set_slip_bound(math.inf)

    def pause(self) -> None:
        """Interrupts the estimates while feet are not on the ground; the results stay available."""
        if self._payload is not None:
            self._payload.pause()
        if self._contact_estimation is not None:
            self._contact_estimation.reset()

    # -- feet ------------------------------------------------------------------------------------------------------
    def detect_contacts(
        self,
        state: State,
        tau: Array,
        normals: Sequence[tuple[float, float, float]],
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
            normals: unit normals of the ground under each foot, in the order of `FEET`, world.
            measured: names of the feet in contact; None without foot sensors.
            blocked: names of the feet that lag behind their paths.
            swinging: names of the mid-swing feet.
            has_flight_phase: whether the gait has flight phases.
        """
        self._contacts = measured
        if self._contact_estimation is not None and (measured is None or self._friction_estimation is not None):
            self._normals[self._order] = normals
            detected = self._contact_estimation.update(state, tau, self._normals, blocked, swinging)
            self._contacts = detected if measured is None else measured
        return self._contacts if self._detects_contacts and not has_flight_phase else measured

    @property
    def forces(self) -> Mapping[str, Array] | None:
        """(3,) last estimated contact force of each foot on the robot, by name, world axes [N]; None if disabled."""
        return None if self._contact_estimation is None else self._contact_estimation.forces

    @property
    def model_mismatch(self) -> bool:
        """Whether the forces estimated at swing feet show that the model is wrong."""
        return self._contact_estimation is not None and self._contact_estimation.model_mismatch

    @property
    def uncertainty(self) -> float:
        """Upper bound of the error of an estimated contact force [N]."""
        return 0.0 if self._contact_estimation is None else self._contact_estimation.uncertainty

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
        if (
            self._friction_estimation is not None
            and self._contact_estimation is not None
            and self._contacts is not None
        ):
            grounded = [foot for foot in carrying if foot in self._contacts]
            forces, normals = self._contact_estimation.stacked_forces, self._normals
            self._friction_model.set_slip_bound(
                self._friction_estimation.update(state, forces, grounded, normals, lower_bound=lower_bound, rough=rough)
            )

    @property
    def slipping_feet(self) -> tuple[str, ...]:
        """Names of the feet that slip."""
        return () if self._friction_estimation is None else self._friction_estimation.slipping_feet

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
