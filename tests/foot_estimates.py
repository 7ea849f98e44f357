"""Contact and friction estimates of a quadruped, updated from states as in a tick of the locomotion controller."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from quaddyn.dynamics import State
from quaddyn.estimation.foot_forces import FootForces
from quaddyn.locomotion import FEET, Morphology
from quaddyn.locomotion.command import find_feet
from quaddyn.locomotion.contact_estimation import (
    allocate_contact_inputs,
    estimate_contacts,
    make_contact_estimate,
    make_contact_model,
)
from quaddyn.locomotion.friction_model import (
    make_friction_estimate,
    make_friction_parameters,
    update_slips_from_state,
)
from quaddyn.robot import Robot


class ContactRecords:
    """Records of the contact estimate."""

    def __init__(self, robot: Robot, dt: float, *, detects_contacts: bool = True, needs_forces: bool = True) -> None:
        p = Morphology.from_robot(robot)
        self.model = make_contact_model(robot, p, dt, detects_contacts=detects_contacts, needs_forces=needs_forces)
        self.estimate, self.inputs = make_contact_estimate(robot, p, dt), allocate_contact_inputs()

    def update(
        self,
        s: State,
        tau: np.ndarray,
        normals: np.ndarray,
        blocked: Collection[str] = (),
        swinging: Collection[str] = (),
        *,
        measured: Collection[str] | None = None,
        has_flight_phase: bool = False,
    ) -> tuple[str, ...] | None:
        """Updates the estimate by one tick and returns the feet in contact, None where the schedule is used."""
        x = self.inputs
        x.normals[:] = normals
        x.is_blocked[:] = [foot in blocked for foot in FEET]
        x.is_mid_swing[:] = [foot in swinging for foot in FEET]
        x.is_touching[:] = [foot in (measured or ()) for foot in FEET]
        x.has_sensors, x.has_flight_phase = measured is not None, has_flight_phase
        M, v = np.ascontiguousarray(s.M.T), s.writable_coordinates()[1]
        estimate_contacts(self.model, self.estimate, x, *s.kinematic_arrays(), M, v, tau)
        return find_feet(self.estimate.in_contact) if self.estimate.is_followed else None


class FrictionRecords:
    """Records of the friction estimate."""

    def __init__(self, robot: Robot, dt: float) -> None:
        self.parameters = make_friction_parameters(robot, Morphology.from_robot(robot), dt)
        self.estimate = make_friction_estimate(self.parameters)
        self._loads = FootForces(FEET, self.estimate.loads)

    def update(
        self, s: State, forces: Mapping[str, np.ndarray], contacts: Collection[str], *, is_rough: bool = False
    ) -> float:
        """Updates the estimate by one tick on level ground and returns the bound of the friction coefficient."""
        self._loads.set_normals(None)
        self._loads.set_contacts(contacts)
        self._loads.set_forces(forces)
        arrays = (*s.kinematic_arrays(), s.writable_coordinates()[1])
        update_slips_from_state(self.parameters, self.estimate, *arrays, True, is_rough)
        return self.estimate.bound

    @property
    def slipping_feet(self) -> tuple[str, ...]:
        """Names of the feet that slip."""
        return find_feet(self.estimate.slip.is_slipping)
