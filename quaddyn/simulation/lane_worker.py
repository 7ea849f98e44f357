"""`LaneWorker`: steps lanes in the memory of one simulation, for `SimulationBatch` and `rollout`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..dynamics.kinematic_tree import PointForces
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import lane_steps
from .actuators import Actuators, Drives
from .contact_data import SphereContacts, StepDynamics, StepModel
from .lanes import (
    LaneCommands,
    LaneCursor,
    LaneData,
    LaneParameters,
    LaneStates,
    make_lane_layout,
    make_lane_parameters,
    make_lane_states,
    reset_lanes,
    with_contact_capacity,
)
from .plant_data import PlantData, StepMemory, StepResult, SubstepContacts
from .terms import StepTerms
from .terrain import Terrain


class SteppedPlant(Protocol):
    """What `LaneWorker` needs of a `Simulation`: the constant data of a plant, and the memory of its step."""

    robot: Robot
    dt: float
    terrain: Terrain
    actuators: Actuators
    spheres: tuple[str, ...]
    _link_of_sphere: dict[str, str | None]
    _reported_names: tuple[str, ...]
    _step_model: StepModel
    _drives: Drives
    _terms: StepTerms
    _memory: StepMemory
    _motion: StepDynamics
    _contacts: SphereContacts
    _accumulated: SubstepContacts
    _no_pushes: PointForces
    _active_pushes: PointForces

    @property
    def friction(self) -> float:
        """Friction coefficient of surfaces without a coefficient."""

    def _make_buffers(self, n: int) -> tuple[SphereContacts, SubstepContacts]:
        """Returns buffers for n contacts."""

    def _plant_data(self) -> PlantData:
        """Returns data and memory of the plant."""

    def _run_resuming(self, call: Callable[[bool], int]) -> bool:
        """Calls compiled code until all its steps are taken."""


@dataclass(slots=True, eq=False)
class LaneBlock:
    """Lanes that one call of compiled code steps; they have memory for equally many contacts."""

    states: LaneStates  # states of the lanes
    parameters: LaneParameters  # parameters of the lanes


class LaneWorker:
    """Simulation whose memory steps lanes, one after the other.

    Args:
        simulation: the simulation; a call of `run` leaves it in the state of the last lane.

    Attributes:
        simulation: the simulation.
        links: names of the links with contact spheres that are not in ``simulation.spheres``.
    """

    __slots__ = ("_cursor", "_layout", "_motors", "_nominal", "links", "simulation")

    def __init__(self, simulation: SteppedPlant) -> None:
        self.simulation = simulation
        link_of_sphere = simulation._link_of_sphere
        links = (link_of_sphere[name] for name in simulation._reported_names)
        self.links = tuple(dict.fromkeys(link for link in links if link is not None))
        groups = []
        for name in simulation._reported_names:
            link = link_of_sphere[name]
            n_named = len(simulation.spheres)
            groups.append(simulation.spheres.index(name) if link is None else n_named + self.links.index(link))
        limits = simulation.actuators.torque_speed_limits
        self._motors = limits._replace(max_torque=limits.max_torque.copy())
        self._layout = make_lane_layout(
            simulation.robot, simulation.terrain, np.array(groups, dtype=np.int64), limits.max_torque
        )
        self._nominal = make_lane_parameters(1, simulation._step_model, simulation.friction)
        self._cursor = LaneCursor.allocate()

    def make_block(self, q: Array, v: Array) -> LaneBlock:
        """Returns m lanes with the parameters of the simulation, at time 0 in the states q (m, nq) and v (m, nv)."""
        simulation, m = self.simulation, len(q)
        states = make_lane_states(m, simulation.robot, simulation._drives, len(simulation.spheres) + len(self.links))
        states.q[:], states.v[:] = q, v
        reset_lanes(states, slice(None), simulation._drives)
        return LaneBlock(states, LaneParameters._make(np.repeat(array, m, axis=0) for array in self._nominal))

    def run(self, block: LaneBlock, commands: LaneCommands, states: NDArray[np.float64]) -> None:
        """Takes all commanded steps of the lanes; see `lane_steps.run_lanes`.

        Raises:
            ArgumentError: a lane has more than `MAX_CONTACTS` contacts at once.
        """
        simulation = self.simulation

        def call(resume: bool) -> int:
            while True:
                plant = simulation._plant_data()._replace(motors=self._motors, pushes=simulation._no_pushes)
                lanes = LaneData(block.states, block.parameters, self._layout, commands, self._cursor)
                result = lane_steps.run_lanes(plant, lanes, states, resume)
                if result != StepResult.NEEDS_LANE_CAPACITY:
                    return int(result)
                block.states = with_contact_capacity(block.states, 2 * self._cursor.required_contacts)
                resume = True

        simulation._active_pushes = simulation._no_pushes
        simulation._run_resuming(call)
