"""`Proprioception`: what joint torques tell of the load, of feet that touch and of feet that slip."""

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
    """The estimates that a locomotion controller was asked for; each that it was not is neutral and costs nothing.

    Args:
        robot: a quadruped.
        morphology: of the robot.
        dt: [s].
        friction_model: is told of the friction that slips show.
        payload: whether to find and carry mass that the robot's file does not know of.
        detect_contacts: whether to find out which feet touch.
        friction: whether to find out how slippery the ground is.
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
        """Compile what is compiled at first use."""
        for each in (
            observe_momentum,
            fit_contact_forces,
            update_triggers,
            update_slip_from_state,
            estimate_slip_friction,
            find_max_held_ratio,
        ):
            each.compile()

    def reset(self) -> None:
        """Forget the motion and what was found."""
        if self._payload is not None:
            self._payload.reset()
        if self._contact_estimation is not None:
            self._contact_estimation.reset()
        if self._friction_estimation is not None:
            self._friction_estimation.reset()
            self._friction_model.set_slip_bound(math.inf)

    def pause(self) -> None:
        """Feet are not on the ground; what was found is kept."""
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
        """The feet that touch: as told, or as the torques say; None where the schedule is to be trusted.

        It is in gaits with flight phases: who is in the air can neither wait for the ground nor carry sooner, and what
        the centre of mass does up there is planned for the moment at which all feet are to land.

        Args:
            state: now.
            tau: (nu,) torques since the last tick [N m].
            normals: of the ground under each foot, in the order of `FEET`.
            measured: the feet that feel the ground, where that is measured.
            blocked: the feet whose paths have gone on without them.
            swinging: the feet in the middle of their swings.
            has_flight_phase: whether the gait has flight phases.
        """
        self._contacts = measured
        if self._contact_estimation is not None and (measured is None or self._friction_estimation is not None):
            self._normals[self._order] = normals
            found = self._contact_estimation.update(state, tau, self._normals, blocked, swinging)
            self._contacts = found if measured is None else measured
        return self._contacts if self._detects_contacts and not has_flight_phase else measured

    @property
    def forces(self) -> Mapping[str, Array] | None:
        """(3,) by foot, on the robot, world axes, as last estimated [N]; None where they are not."""
        return None if self._contact_estimation is None else self._contact_estimation.forces

    @property
    def model_mismatch(self) -> bool:
        """Whether the model does not explain the motion of feet in the air, so that estimated forces are unreliable."""
        return self._contact_estimation is not None and self._contact_estimation.model_mismatch

    @property
    def uncertainty(self) -> float:
        """Force at a foot that may be an error of the estimate [N]."""
        return 0.0 if self._contact_estimation is None else self._contact_estimation.uncertainty

    def update_friction(
        self, state: State, carrying: Collection[str], *, lower_bound: bool, rough: bool = False
    ) -> None:
        """Look whether feet slip, after `touching`.

        Args:
            state: now.
            carrying: the feet that are to carry.
            lower_bound: whether their slips say how slippery the ground is.
            rough: whether a foot may scrape along edges.
        """
        if (
            self._friction_estimation is not None
            and self._contact_estimation is not None
            and self._contacts is not None
        ):
            down = [foot for foot in carrying if foot in self._contacts]
            forces, normals = self._contact_estimation.stacked_forces, self._normals
            self._friction_model.set_slip_bound(
                self._friction_estimation.update(state, forces, down, normals, lower_bound=lower_bound, rough=rough)
            )

    @property
    def slipping_feet(self) -> tuple[str, ...]:
        """The feet that slip."""
        return () if self._friction_estimation is None else self._friction_estimation.slipping_feet

    # -- load ------------------------------------------------------------------------------------------------------
    @property
    def payload_mass(self) -> float:
        """That the robot is taken to carry beside its own [kg]."""
        return 0.0 if self._payload is None else self._payload.mass

    def com_shift(self, state: State) -> tuple[float, float]:
        """Of the centre of mass of robot and load from that of the robot, along world x and y [m]."""
        return (0.0, 0.0) if self._payload is None else self._payload.com_shift(state)

    def add_payload_torques(self, state: State, tau: Array, command: Command) -> Array:
        """Torques (nu,) for the robot and its load [N m].

        Args:
            state: now.
            tau: (nu,) torques since the last tick [N m].
            command: for the robot without its load.
        """
        if self._payload is None:
            return command.tau
        self._payload.update(state, tau)
        return command.tau + self._payload.torques(state, command.forces)
