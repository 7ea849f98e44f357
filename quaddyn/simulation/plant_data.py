"""`PlantData`: all arrays and records that compiled time stepping reads and writes."""

from __future__ import annotations

from typing import NamedTuple

from ..dynamics.kinematic_tree import PointForces
from .actuators import TorqueSpeedLimits
from .contact_data import SphereContacts, StepDynamics, StepModel
from .step_memory import StepMemory
from .substeps import SubstepContacts
from .terms import StepTerms


class PlantData(NamedTuple):
    """Data and memory of a plant.

    Attributes:
        model: data that do not change from step to step.
        motors: torque-speed limits of the motors.
        pushes: external forces, constant over all steps of a call.
        terms: rigid-body terms, overwritten.
        memory: state of the plant and progress of the step.
        motion: dynamics and work of a substep, overwritten.
        contacts: contacts of a substep, at the end of a step those of the step.
        accumulated: contacts of the substeps of a step, overwritten.
    """

    model: StepModel
    motors: TorqueSpeedLimits
    pushes: PointForces
    terms: StepTerms
    memory: StepMemory
    motion: StepDynamics
    contacts: SphereContacts
    accumulated: SubstepContacts
